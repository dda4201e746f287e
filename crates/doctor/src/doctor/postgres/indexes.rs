//! Checks of invalid, redundant and unused indexes.

use super::counted_seconds;
use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, or_zero, text};
use crate::doctor::finding::{
    Answer, Check, CheckQuestion, CheckResult, FigurePeriod, LeastAges, covered_indexes,
};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "indexes that no query may use, and that are not being built",
        threshold: "bad: any",
        reason: "A failed CREATE INDEX CONCURRENTLY left it behind. Every write still pays for it.",
        after: "PostgreSQL's documentation of CREATE INDEX",
        source: "indisvalid of pg_index, without those of pg_stat_progress_create_index",
        shown_by: "SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid",
        ..Check::new("pg-invalid-index", CheckQuestion::IndexOrder, invalid)
    },
    Check {
        figure: "indexes whose columns another index of the same table begins with, in the same order",
        threshold: "look: any, where it is of no constraint and not unique",
        reason: "The other index answers the same queries, while every write and the memory pay for both. A \
                 narrow one may be there for speed.",
        after: "PgHero",
        source: "pg_index: columns, operator classes, collations, order, condition",
        shown_by: "SELECT indrelid::regclass, indexrelid::regclass, indkey FROM pg_index ORDER BY 1, 3",
        ..Check::new("pg-duplicate-index", CheckQuestion::IndexOrder, duplicate)
    },
    Check {
        figure: "indexes that no query has used for as long as the server has counted",
        threshold: "look: any of 1 MiB or more, not unique, of no constraint or foreign key, in a table that was read 1,000 times or more; cannot \
                    tell: counted for less than 14 days, on a replica, or where there is one",
        reason: "After a restore or a reset all indexes are unused, a report may use one once a month, and a \
                 replica counts its own queries. PostgreSQL does not say when an index was made, so a new one \
                 is a false alarm once its table was read 1,000 times.",
        after: "PgHero, which took them off its page as noise (ankane/pghero#104, #140); hence the conditions",
        source: "idx_scan of pg_stat_user_indexes; stats_reset of pg_stat_database; when the database was made",
        rights: "pg_read_server_files, to see when the database was made; without it the counters' age is since they were reset",
        shown_by: "SELECT indexrelid::regclass, idx_scan FROM pg_stat_user_indexes ORDER BY idx_scan LIMIT 10",
        ..Check::new("pg-unused-index", CheckQuestion::IndexOrder, unused)
    },
];

fn is(row: &Row, field: &str) -> bool {
    or_zero(row, field) > 0.0
}

fn shown(row: &Row) -> String {
    format!("`{}` of `{}` ({})", text(row, "name"), text(row, "table"), units::bytes(or_zero(row, "bytes")))
}

/// Finding for the indexes in `named`, out of all.
fn of_indexes(
    facts: &SubjectFacts,
    answer: Answer,
    named: Vec<String>,
    what: &str,
) -> Result<CheckResult, UnknownReason> {
    let all = facts.rows("indexes")?.len();
    let figure = match named.first() {
        Some(first) => format!("{} of {all} {what}: {first}", named.len()),
        None => format!("none of {all} {what}"),
    };
    Ok(CheckResult::of_named(answer, named.len() as f64, figure, named).with_period(FigurePeriod::Now))
}

fn invalid(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let broken = facts.rows("indexes")?.iter().filter(|row| !is(row, "valid") && !is(row, "in_the_making"));
    of_indexes(facts, Answer::Bad, broken.map(shown).collect(), "cannot be used")
}

fn duplicate(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    covered_indexes(facts, is_covered_by, shown)
}

/// True if another index answers all queries that this one does.
fn is_covered_by(row: &Row, other: &Row) -> bool {
    const SAME: &[&str] = &["table", "method", "expressions", "condition"];
    const PREFIX: &[&str] = &["keys", "classes", "collations", "options"];
    let begins = |field: &str| {
        let (mine, theirs) = (text(row, field), text(other, field));
        theirs == mine || theirs.strip_prefix(mine).is_some_and(|rest| rest.starts_with(' '))
    };
    let is_needed = is(row, "constraint") || is(row, "unique") || is(row, "identity");
    // Of two equal indexes, the later one is the duplicate.
    let is_same = text(row, "keys") == text(other, "keys");
    let comes_first = or_zero(other, "id") < or_zero(row, "id") || is(other, "unique");
    text(row, "name") != text(other, "name")
        && !is_needed
        && is(other, "valid")
        && SAME.iter().all(|field| text(row, field) == text(other, field))
        && (is_same && comes_first
            || !is_same && text(row, "method") == "btree" && text(row, "expressions").is_empty())
        && PREFIX.iter().all(|field| begins(field))
}

fn unused(facts: &SubjectFacts, ages: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const SMALL_BYTES: f64 = 1_048_576.0;
    const READ_OFTEN: f64 = 1000.0;
    if facts.number("server", "in_recovery")? > 0.0 || facts.number("server", "replicas")? > 0.0 {
        return Err("there is a replica: each counts only what is asked there".to_owned());
    }
    let counted = counted_seconds(facts)?;
    ages.check_unused(counted, |age| format!("it has counted for {age} only"))?;
    let unused = facts.rows("indexes")?.iter().filter(|row| {
        let is_needed =
            ["constraint", "unique", "foreign_key", "identity"].iter().any(|field| is(row, field));
        let is_large = or_zero(row, "bytes") >= SMALL_BYTES;
        !is_needed && is_large && !is(row, "scans") && or_zero(row, "table_scans") >= READ_OFTEN
    });
    let found = of_indexes(facts, Answer::Look, unused.map(shown).collect(), "were used by nobody")?;
    Ok(found.with_period(FigurePeriod::Seconds(counted)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn index(id: u32, keys: &str, unique: bool) -> Row {
        let row = json!({
            "name": format!("i{id}"), "id": id, "table": "t", "method": "btree", "expressions": "", "condition": "",
            "keys": keys, "classes": keys, "collations": keys, "options": keys, "unique": unique, "valid": true
        });
        row.as_object().cloned().unwrap()
    }

    #[test]
    fn an_index_is_covered_by_one_that_begins_with_it() {
        let (a, ab, ba, again) =
            (index(1, "1", false), index(2, "1 2", false), index(3, "2 1", false), index(4, "1", false));
        assert!(is_covered_by(&a, &ab) && !is_covered_by(&ab, &a) && !is_covered_by(&a, &ba));
        // One of two equal indexes remains.
        assert!(is_covered_by(&again, &a) && !is_covered_by(&a, &again));
        // `1` is not a prefix of `12`, and a unique index is more than an index.
        assert!(!is_covered_by(&a, &index(5, "12", false)));
        assert!(!is_covered_by(&index(6, "1", true), &ab) && is_covered_by(&a, &index(7, "1", true)));
    }
}
