//! Check of columns that mostly hold blobs.

use super::counted::{Counter, TIME};
use crate::doctor::blobs;
use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, or_zero, text};
use crate::doctor::finding::{Check, CheckResult, LeastAges};
use crate::units;

pub(super) const CHECKS: &[Check] = &[Check {
    figure: "the share of all data that the values of one column take, that of the pages in memory, what was fetched of them between the \
             looks, also as a share of the pages that were asked for, and the share of the time of queries which those took that name it",
    source: "lengths of the values in 2,000 rows of each large table, of pages that are taken at random; sys.allocation_units, of which \
             LOB_DATA has what does not fit into rows. The memory: sys.dm_os_buffer_descriptors, of a server that has 64 GiB of it or less. The \
             traffic: sys.dm_db_index_operational_stats, which forgets a table with the server's start, and whenever it falls out of the \
             cache of metadata; Page lookups of sys.dm_os_performance_counters. Both are of all large values of the table together. \
             Queries are those of ms-frequent-query",
    rights: "SELECT on the column, of which only lengths are read; VIEW SERVER STATE for the memory, VIEW DATABASE STATE for what was \
             fetched",
    shown_by: "SELECT AVG(CAST(DATALENGTH(col) AS bigint)) FROM TABLE TABLESAMPLE SYSTEM (4000 ROWS); SELECT lob_fetch_in_pages, \
               lob_fetch_in_bytes FROM sys.dm_db_index_operational_stats(DB_ID(), OBJECT_ID('TABLE'), NULL, NULL)",
    ..blobs::check("ms-blob-columns", judge)
}];

fn judge(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let shares = |row: &Row| {
        let (table, out_of_row) = (text(row, "table"), or_zero(row, "lob_bytes"));
        // Short values lie in the rows, for which the server does not count fetches.
        let are_in_rows = out_of_row * 2.0 < or_zero(row, "table_bytes");
        let place = (out_of_row > 0.0)
            .then(|| format!("{} of its table lie in pages of LOB_DATA", units::bytes(out_of_row)));
        let traffic = (!are_in_rows).then(|| fetched(facts, table));
        let memory = blobs::of_memory(facts, table, are_in_rows);
        let queries = blobs::of_queries(facts, Counter::choose(facts).source, TIME, row);
        place.into_iter().chain(traffic).chain([memory]).chain(queries).collect()
    };
    let columns = blobs::columns(facts, shares)?;
    Ok(blobs::finding(columns, facts.number("database", "bytes")?, "mssql/varbinary"))
}

/// Describes how much of a table's large values was fetched between the looks, or why that is not known.
fn fetched(facts: &SubjectFacts, table: &str) -> String {
    /// Below this, shares say nothing about the traffic.
    const FEW_PAGES: f64 = 1000.0;
    let pairs = match facts.pairs("fetches", "name") {
        Ok(pairs) => pairs,
        Err(why) => return format!("what was fetched of them is not told ({why})"),
    };
    let Some(pair) = pairs.into_iter().find(|pair| text(pair.1, "name") == table) else {
        return "none of them was fetched".to_owned();
    };
    let fell = |field| pair.0.is_some_and(|before| or_zero(before, field) > or_zero(pair.1, field));
    if fell("fetched_pages") || fell("bytes") {
        return "what was fetched of them was forgotten between the looks".to_owned();
    }
    let rate = units::bytes(growth(&pair, "bytes") / facts.seconds());
    let asked_for = facts.growth("counters", "page_lookups").unwrap_or_default();
    let share = growth(&pair, "fetched_pages") / asked_for.max(1.0);
    // One counter is part of the other, but they are not read at the same moment.
    let share = match asked_for >= FEW_PAGES && share <= 1.0 {
        true => format!(" in {} of the pages that were asked for", units::percent(share)),
        false => String::new(),
    };
    format!("{rate} of them were fetched in a second{share}")
}
