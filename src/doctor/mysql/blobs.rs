//! Columns that are mostly blobs, and the run that measures where else they could live.

use crate::doctor::blobs::{self, Column};
use crate::doctor::facts::{Facts, Kind, Lack, number, or_zero, text};
use crate::doctor::finding::{Check, Finding, LeastAges, Question};

pub(super) const CHECKS: &[Check] = &[Check {
    id: "my-blob-columns",
    of: Kind::MySql,
    question: Question::Queries,
    figure: "the share of all data that the values of one column take",
    threshold: blobs::THRESHOLD,
    reason: blobs::REASON,
    after: "ours",
    source: "lengths of the values in the first 2,000 rows of each large table; information_schema.tables",
    rights: "SELECT on the column, of which only lengths are read",
    shown_by: "SELECT AVG(OCTET_LENGTH(col)) FROM (SELECT COLUMN AS col FROM TABLE LIMIT 2000) AS t",
    judge,
}];

fn judge(facts: &Facts, _: &LeastAges) -> Result<Finding, Lack> {
    let data = facts.number("data", "bytes")?;
    let mut columns = Vec::new();
    let mut refused = None;
    for row in facts.rows("blobs")? {
        if !text(row, "refused").is_empty() {
            refused = Some(text(row, "refused").to_owned());
            continue;
        }
        let sampled = or_zero(row, "sampled");
        let Some(mean) = number(row, "stored_mean").filter(|_| sampled > 0.0) else { continue };
        let (rows, table_bytes) = (or_zero(row, "table_rows").max(sampled), or_zero(row, "table_bytes"));
        let quantiles = row.get("quantiles").and_then(|list| list.as_array()).cloned().unwrap_or_default();
        columns.push(Column {
            name: format!("{}.{}", text(row, "tab"), text(row, "col")),
            // How many rows there are is an estimate of the server's.
            bytes: (mean * rows).min(table_bytes),
            of_table: (mean * rows / table_bytes.max(1.0)).min(1.0),
            quantiles: blobs::SHARES
                .iter()
                .copied()
                .zip(quantiles.iter().filter_map(|size| size.as_f64()))
                .collect(),
            rows,
            traffic: None,
        });
    }
    let store = if facts.version.as_deref().is_some_and(|version| version.starts_with("MariaDB")) {
        "mariadb/blob"
    } else {
        "mysql/blob"
    };
    match refused {
        Some(why) if columns.is_empty() => Err(why),
        _ => Ok(blobs::finding(columns, data, store)),
    }
}
