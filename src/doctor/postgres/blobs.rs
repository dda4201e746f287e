//! Columns that are mostly blobs, and the run that measures where else they could live.

use crate::doctor::blobs::{self, Column};
use crate::doctor::facts::{Facts, Kind, Lack, growth, number, or_zero, text};
use crate::doctor::finding::{Check, Finding, LeastAges, Question};
use crate::units;

pub(super) const CHECKS: &[Check] = &[Check {
    id: "pg-blob-columns",
    of: Kind::PostgreSql,
    question: Question::Queries,
    figure: "the share of the database that the values of one column take, and that of the blocks that were asked for",
    threshold: blobs::THRESHOLD,
    reason: blobs::REASON,
    after: "ours",
    source: "lengths of the values in some 10,000 rows of each large table with a TOAST table; pg_statio_user_tables",
    rights: "SELECT on the column, of which only lengths are read",
    shown_by: "SELECT avg(pg_column_size(COLUMN)) FROM TABLE TABLESAMPLE SYSTEM (1)",
    judge,
}];

fn judge(facts: &Facts, _: &LeastAges) -> Result<Finding, Lack> {
    let database = facts.number("server", "bytes")?;
    let tables = facts.pairs("tables", "name")?;
    let asked_for: f64 = tables.iter().map(|pair| growth(pair, "blocks")).sum();
    let mut columns = Vec::new();
    let mut refused = None;
    for row in facts.rows("blobs")? {
        if !text(row, "refused").is_empty() {
            refused = Some(text(row, "refused").to_owned());
            continue;
        }
        let table = text(row, "table");
        let sampled = or_zero(row, "sampled");
        let Some(stored) = number(row, "stored_mean").filter(|_| sampled > 0.0) else { continue };
        // A table that was never analyzed: all of it was sampled.
        let rows = number(row, "rows").filter(|rows| *rows > 0.0).unwrap_or(sampled);
        let toast =
            tables.iter().find(|pair| text(pair.1, "name") == table).map(|pair| growth(pair, "toast_blocks"));
        let quantiles = row.get("quantiles").and_then(|list| list.as_array()).cloned().unwrap_or_default();
        columns.push(Column {
            name: format!("{table}.{}", text(row, "column")),
            bytes: (stored * rows).min(or_zero(row, "table_bytes")),
            of_table: (stored * rows / or_zero(row, "table_bytes").max(1.0)).min(1.0),
            quantiles: blobs::SHARES
                .iter()
                .copied()
                .zip(quantiles.iter().filter_map(|size| size.as_f64()))
                .collect(),
            rows,
            traffic: toast
                .filter(|_| asked_for >= 1000.0)
                .map(|toast| format!("{} of the blocks asked for", units::percent(toast / asked_for))),
        });
    }
    match refused {
        Some(why) if columns.is_empty() => Err(why),
        _ => Ok(blobs::finding(columns, database, "postgres/bytea")),
    }
}
