//! Checks of indexes whose sort order has changed, and of mostly empty indexes.

use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, number, text};
use crate::doctor::finding::{
    Answer, Check, CheckQuestion, CheckResult, FigurePeriod, LeastAges, emptiest_index,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "indexes of text whose collation has another version than when it was noted",
        threshold: "bad: any",
        reason: "A new version of the system's library may sort differently. An index in the old order then \
                 misses rows and admits duplicates. REINDEX rebuilds it, and ALTER COLLATION or ALTER DATABASE \
                 ... REFRESH notes the version. Plain ASCII mostly sorts the same.",
        after: "PostgreSQL's documentation of ALTER COLLATION",
        source: "collversion of pg_collation, datcollversion of pg_database (from 15 on), and their actual versions",
        shown_by: "SELECT collname, collversion, pg_collation_actual_version(oid) FROM pg_collation WHERE collversion <> pg_collation_actual_version(oid)",
        ..Check::new("pg-collation", CheckQuestion::IndexOrder, collations)
    },
    Check {
        figure: "how full the leaves of a B-tree are: of the four largest from 1 to 256 MiB",
        threshold: "look: below 40 %",
        reason: "An index that grows at its end is 90 % full, one that grows anywhere about 70 %. Below half of \
                 that it takes twice the memory and reads: REINDEX CONCURRENTLY rebuilds it. Where rows come \
                 and go constantly, it soon empties again.",
        source: "avg_leaf_density of pgstatindex, which reads each of them once",
        rights: "the extension pgstattuple; pg_stat_scan_tables, which pg_monitor has",
        shown_by: "SELECT * FROM pgstatindex('INDEX')",
        ..Check::new("pg-index-density", CheckQuestion::IndexOrder, density)
    },
];

fn collations(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let versions = |row: &Row| {
        let (made, actual) = (text(row, "made"), text(row, "actual"));
        format!("noted with version {made} of `{}`, which is {actual} now", text(row, "collation"))
    };
    let mut named: Vec<String> = Vec::new();
    // Older servers do not report it for the database.
    if let Ok(row) = facts.row("database-collation")
        && [text(row, "made"), text(row, "actual")].iter().all(|version| !version.is_empty())
        && text(row, "made") != text(row, "actual")
    {
        named.push(format!("every index of text without a collation of its own: {}", versions(row)));
    }
    let of_indexes = facts.rows("collations")?.iter();
    named.extend(of_indexes.map(|row| format!("`{}`: {}", text(row, "name"), versions(row))));
    let figure = named.first().cloned().unwrap_or_else(|| "all are as they were noted".to_owned());
    Ok(CheckResult::of_named(Answer::Bad, named.len() as f64, figure, named).with_period(FigurePeriod::Now))
}

fn density(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let rows = facts.rows("density")?.iter();
    let told = rows.filter_map(|row| Some((number(row, "density")?, row))).collect();
    Ok(emptiest_index(told, |row| format!("`{}`", text(row, "name")), "no B-tree has 1 to 256 MiB"))
}
