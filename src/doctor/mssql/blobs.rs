//! Columns that are mostly blobs, and the run that measures where else they could live.

use crate::doctor::blobs;
use crate::doctor::facts::{Facts, Kind, Lack, Row, or_zero};
use crate::doctor::finding::{Check, Finding, LeastAges, Particular};
use crate::units;

pub(super) const CHECKS: &[Check] = &[blobs::check(Particular {
    id: "ms-blob-columns",
    of: Kind::MsSql,
    figure: "the share of all data that the values of one column take",
    source: "lengths of the values in 2,000 rows of each large table, of pages that are taken at random; sys.allocation_units, of which \
             LOB_DATA has what does not fit into rows",
    rights: blobs::RIGHTS,
    shown_by: "SELECT AVG(CAST(DATALENGTH(col) AS bigint)) FROM TABLE TABLESAMPLE SYSTEM (4000 ROWS)",
    judge,
})];

fn judge(facts: &Facts, _: &LeastAges) -> Result<Finding, Lack> {
    let columns = blobs::columns(facts, out_of_row)?;
    Ok(blobs::finding(columns, facts.number("database", "bytes")?, "mssql/varbinary"))
}

/// What of the table lies in pages of large values.
fn out_of_row(row: &Row) -> Option<String> {
    let bytes = or_zero(row, "lob_bytes");
    (bytes > 0.0).then(|| format!("{} of its table lie in pages of LOB_DATA", units::bytes(bytes)))
}
