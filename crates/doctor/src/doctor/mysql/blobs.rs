//! Check of columns that mostly hold blobs.

use crate::doctor::blobs;
use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, text};
use crate::doctor::finding::{Check, CheckResult, LeastAges};
use crate::units;

pub(super) const CHECKS: &[Check] = &[Check {
    figure: "the share of all data that the values of one column take, what was read between the looks of the file that its table has, and the \
             share of the time of queries which those took that name it",
    source: "lengths of the values in the first 2,000 rows of each large table; information_schema.tables; \
             file_summary_by_instance and events_statements_summary_by_digest, where performance_schema is on. A file is of all columns of \
             its table",
    rights: "SELECT on the column, of which only lengths are read, and on performance_schema",
    shown_by: "SELECT AVG(OCTET_LENGTH(col)) FROM (SELECT COLUMN AS col FROM TABLE LIMIT 2000) AS t",
    ..blobs::check("my-blob-columns", judge)
}];

fn judge(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let is_mariadb = facts.version.as_deref().is_some_and(|version| version.starts_with("MariaDB"));
    let store = if is_mariadb { "mariadb/blob" } else { "mysql/blob" };
    let shares = |column: &Row| {
        let queries = blobs::of_queries(facts, "digests", "ps", column);
        reads(facts, text(column, "table")).into_iter().chain(queries).collect()
    };
    Ok(blobs::finding(blobs::columns(facts, shares)?, facts.number("data", "bytes")?, store))
}

/// Describes how much was read of a table's file between the looks; `None` if little was read in total, or nothing was counted.
fn reads(facts: &SubjectFacts, table: &str) -> Option<String> {
    /// Below this, shares say nothing about the traffic.
    const LITTLE_BYTES: f64 = 1e6;
    let pairs = facts.pairs("table-reads", "name").ok()?;
    let all: f64 = pairs.iter().map(|pair| growth(pair, "bytes")).sum();
    let mine = growth(pairs.iter().find(|pair| text(pair.1, "name") == table)?, "bytes");
    let (share, rate) = (units::percent(mine / all.max(1.0)), units::bytes(mine / facts.seconds()));
    (all >= LITTLE_BYTES)
        .then(|| format!("their table's file was {share} of what was read from files ({rate} a second)"))
}
