//! Columns that are mostly blobs, and the run that measures where else they could live.

use crate::doctor::blobs;
use crate::doctor::facts::{Facts, Kind, Lack, Row};
use crate::doctor::finding::{Check, Finding, LeastAges, Particular};

pub(super) const CHECKS: &[Check] = &[blobs::check(Particular {
    id: "my-blob-columns",
    of: Kind::MySql,
    figure: "the share of all data that the values of one column take, and that of the time of queries which those took that name it",
    source: "lengths of the values in the first 2,000 rows of each large table; information_schema.tables; \
             events_statements_summary_by_digest, where performance_schema is on",
    rights: blobs::RIGHTS,
    shown_by: "SELECT AVG(OCTET_LENGTH(col)) FROM (SELECT COLUMN AS col FROM TABLE LIMIT 2000) AS t",
    judge,
})];

fn judge(facts: &Facts, _: &LeastAges) -> Result<Finding, Lack> {
    let is_mariadb = facts.version.as_deref().is_some_and(|version| version.starts_with("MariaDB"));
    let store = if is_mariadb { "mariadb/blob" } else { "mysql/blob" };
    let shares = |column: &Row| blobs::of_queries(facts, "digests", "ps", column).into_iter().collect();
    Ok(blobs::finding(blobs::columns(facts, shares)?, facts.number("data", "bytes")?, store))
}
