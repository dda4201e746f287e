//! Check of columns that mostly hold blobs.

use crate::doctor::blobs;
use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, text};
use crate::doctor::finding::{Check, CheckResult, LeastAges};
use crate::units;

pub(super) const CHECKS: &[Check] = &[Check {
    figure: "the share of the database that the values of one column take, that of the blocks that were asked for between the looks, that \
             of the blocks in shared_buffers, and that of the time of queries which those took that name it",
    source: "lengths of the values in some 10,000 rows of each large table with a TOAST table; pg_statio_user_tables; the extensions \
             pg_buffercache and pg_stat_statements where they are there",
    rights: "SELECT on the column, of which only lengths are read; for the memory the extension pg_buffercache, and pg_monitor",
    shown_by: "SELECT avg(pg_column_size(COLUMN)) FROM TABLE TABLESAMPLE SYSTEM (1)",
    ..blobs::check("pg-blob-columns", judge)
}];

fn judge(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    /// Below this, shares say nothing about the traffic.
    const FEW_BLOCKS: f64 = 1000.0;
    let tables = facts.pairs("tables", "name")?;
    let asked_for: f64 = tables.iter().map(|pair| growth(pair, "blocks")).sum();
    let traffic = |column: &Row| {
        let table = tables.iter().find(|pair| text(pair.1, "name") == text(column, "table"))?;
        let share = growth(table, "toast_blocks") / asked_for.max(1.0);
        (asked_for >= FEW_BLOCKS).then(|| format!("{} of the blocks asked for", units::percent(share)))
    };
    let shares = |column: &Row| {
        let memory = blobs::of_memory(facts, text(column, "table"), false);
        let queries = blobs::of_queries(facts, "statements", "ms", column);
        traffic(column).into_iter().chain([memory]).chain(queries).collect()
    };
    let columns = blobs::columns(facts, shares)?;
    Ok(blobs::finding(columns, facts.number("server", "bytes")?, "postgres/bytea"))
}
