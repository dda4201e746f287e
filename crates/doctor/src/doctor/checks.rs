//! The table of all checks, from which the page of checks is generated.

use super::facts::SubjectKind;
use super::finding::Check;
use super::machine;
use super::mongodb;
use super::mssql;
#[cfg(feature = "mysql")]
use super::mysql;
#[cfg(feature = "postgres")]
use super::postgres;
#[cfg(feature = "redis")]
use super::redis;

/// Lists of checks by kind, in the order of display.
const TABLE: &[(SubjectKind, &[&[Check]])] = &[
    (SubjectKind::Machine, machine::CHECKS),
    #[cfg(feature = "postgres")]
    (SubjectKind::PostgreSql, postgres::CHECKS),
    #[cfg(feature = "mysql")]
    (SubjectKind::MySql, mysql::CHECKS),
    (SubjectKind::MongoDb, mongodb::CHECKS),
    #[cfg(feature = "redis")]
    (SubjectKind::Redis, redis::CHECKS),
    (SubjectKind::MsSql, mssql::CHECKS),
];

/// The checks of a kind.
pub fn for_kind(kind: SubjectKind) -> impl Iterator<Item = &'static Check> {
    let lists = TABLE.iter().filter(move |(known, _)| *known == kind);
    lists.flat_map(|(_, lists)| lists.iter().copied().flatten())
}

/// Things that belong to the ten questions but are not examined: what, why not, and the command that shows it.
const UNTOLD: &[(&str, &str, &str)] = &[
    (
        "how long a request would wait on the same device without load",
        "It takes a load of one's own, on a device that others do not use meanwhile, and this command only reads.",
        "blobwise run --baselines --dir DIR",
    ),
    (
        "how much of an index of MySQL or MariaDB is empty",
        "They do not say it.",
        "SELECT * FROM mysql.innodb_index_stats WHERE stat_name IN ('n_leaf_pages', 'size')",
    ),
    (
        "whether a collation of MySQL, MariaDB or SQL Server has changed",
        "They have collations of their own, which keep their order under a name.",
        "SHOW COLLATION; SELECT * FROM sys.fn_helpcollations()",
    ),
    (
        "what a column of MySQL or MariaDB has in memory",
        "The view of the pages in memory goes through all of them, and its manual warns of that.",
        "SELECT table_name, COUNT(*) FROM information_schema.innodb_buffer_page GROUP BY table_name",
    ),
    (
        "statistics of values in MongoDB",
        "It has none: plans are tried out, and the fastest one is kept until much has changed.",
        "db.COLLECTION.getPlanCache().list()",
    ),
    (
        "which field of MongoDB's documents is mostly blobs",
        "It takes reading the documents. Files in GridFS are told: their lengths lie apart.",
        "db.COLLECTION.aggregate([{$sample: {size: 1000}}, {$project: {bytes: {$bsonSize: '$$ROOT'}}}])",
    ),
    (
        "how busy the processors of SQL Server's machine are",
        "It says how many tasks wait for one, and no share of time that its documentation vouches for. Asked on that machine, this command tells.",
        "blobwise doctor",
    ),
    (
        "memcached",
        "It has no indexes, queries or statistics: its URL is refused.",
        "echo stats | nc HOST 11211",
    ),
];

/// Formats the table as Markdown: figure, threshold, reason, source and the command that shows it.
pub fn markdown() -> String {
    let mut text = String::new();
    for (kind, _) in TABLE {
        text += &format!("\n### {}\n", kind.name());
        for check in for_kind(*kind) {
            text += &format!("\n**`{}`**: {}\n\n", check.id, check.question.name());
            for (name, words) in [
                ("figure", check.figure),
                ("threshold", check.threshold),
                ("why", check.reason),
                ("threshold from", check.after),
                ("read from", check.source),
                ("rights", check.rights),
            ] {
                text += &format!("- {name}: {words}\n");
            }
            text += &format!("- to see it: `{}`\n", check.shown_by);
        }
    }
    text += "\n### Cannot tell\n\n| what | why | what shows it |\n| --- | --- | --- |\n";
    text.extend(UNTOLD.iter().map(|(what, why, shown_by)| format!("| {what} | {why} | `{shown_by}` |\n")));
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_check_has_a_name_of_its_own_and_says_all_of_it() {
        let mut seen = BTreeSet::new();
        for (kind, check) in
            TABLE.iter().flat_map(|(kind, _)| for_kind(*kind).map(move |check| (*kind, check)))
        {
            assert!(seen.insert((kind, check.id)), "{} twice", check.id);
            let words = [
                check.figure,
                check.threshold,
                check.reason,
                check.after,
                check.source,
                check.rights,
                check.shown_by,
            ];
            for word in words {
                assert!(!word.is_empty(), "{} says too little", check.id);
            }
            assert!(check.reason.ends_with('.'), "{}: {}", check.id, check.reason);
            assert!(check.threshold.contains(": "), "{}: {}", check.id, check.threshold);
        }
        assert!(seen.len() > 10);
    }
}
