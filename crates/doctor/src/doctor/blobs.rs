//! Finds database columns that mostly hold blobs: what share of the database they take, and the run that measures alternatives.

use serde_json::json;

use super::facts::{Row, SourceAnswer, SubjectFacts, UnknownReason, number, or_zero, text};
use super::finding::{Answer, Check, CheckQuestion, CheckResult, Judge};
use super::statements::asked;
use crate::units;

/// Quantiles of sizes to compute.
pub const SHARES: [f64; 6] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99];

/// The blob column check, without the figure and the sources of one kind of server. Its judge is built from [`columns`] and
/// [`finding`].
pub const fn check(id: &'static str, judge: Judge) -> Check {
    Check {
        threshold: "look: a column with half of its table or more and a tenth of the database or more, half of whose values have 1 kB or more",
        reason: "Blobs take memory, backup and traffic from what is queried. The named run measures with your \
                 sizes whether they would be faster or cheaper elsewhere. Their safety where they are may be \
                 worth it.",
        ..Check::new(id, CheckQuestion::Queries, judge)
    }
}

/// Adds statistics of lengths to columns that may hold blobs. Fields named `sql_*`, which only serve the query, are dropped.
pub fn with_lengths(
    columns: Result<Vec<Row>, UnknownReason>,
    mut lengths: impl FnMut(&Row) -> Result<Row, UnknownReason>,
) -> SourceAnswer {
    let with_lengths = |mut column: Row| {
        match lengths(&column) {
            Ok(lengths) => column.extend(lengths),
            Err(why) => drop(column.insert("refused".to_owned(), why.into())),
        }
        column.retain(|name, _| !name.starts_with("sql_"));
        column
    };
    match columns {
        Ok(columns) => SourceAnswer::Rows(columns.into_iter().map(with_lengths).collect()),
        Err(why) => SourceAnswer::Refused(why),
    }
}

/// Count, mean and quantiles of lengths, computed here because not every server computes quantiles.
pub fn summary(mut lengths: Vec<f64>) -> Row {
    lengths.sort_by(f64::total_cmp);
    let last = lengths.len() as f64 - 1.0;
    let at = |share: f64| lengths.get((last * share).round() as usize).copied();
    let quantiles: Vec<f64> = SHARES.into_iter().filter_map(at).collect();
    let mean = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
    Row::from_iter([
        ("sampled".to_owned(), json!(lengths.len())),
        ("stored_mean".to_owned(), json!(mean)),
        ("quantiles".to_owned(), json!(quantiles)),
    ])
}

/// Source with the contents of a server's memory: rows with a table's name, its bytes in memory, and the bytes of those that lie
/// out of row. The name is empty for anything that belongs to none of the database's tables.
pub const IN_MEMORY: &str = "memory";

/// Queries [`IN_MEMORY`] only if there is a column to report on, because counting pages in memory takes a server some time.
pub fn memory(columns: &SourceAnswer, ask: impl FnOnce() -> SourceAnswer) -> SourceAnswer {
    match columns {
        SourceAnswer::Rows(rows) if rows.is_empty() => SourceAnswer::Rows(Vec::new()),
        SourceAnswer::Rows(_) => ask(),
        SourceAnswer::Refused(why) => SourceAnswer::Refused(why.clone()),
    }
}

/// Describes the share of the memory that a table's values have, or why it is not known. The values lie in the rows or out of
/// row.
pub fn of_memory(facts: &SubjectFacts, table: &str, are_in_rows: bool) -> String {
    let rows = match facts.rows(IN_MEMORY) {
        Ok(rows) => rows,
        Err(why) => return format!("their share of the memory is not told ({why})"),
    };
    let sum = |field: &str, is_asked: &dyn Fn(&&Row) -> bool| -> f64 {
        rows.iter().filter(is_asked).map(|row| or_zero(row, field)).sum()
    };
    let field = if are_in_rows { "bytes" } else { "out_of_row_bytes" };
    let (all, mine) = (sum("bytes", &|_| true), sum(field, &|row| text(row, "name") == table));
    let (share, bytes) = (units::percent(mine / all.max(1.0)), units::bytes(mine));
    match are_in_rows {
        true => format!("their table has {share} of what is in memory ({bytes})"),
        false => format!("they have {share} of what is in memory, where {bytes} would be free without them"),
    }
}

/// Describes the share of query time, between the looks, of queries that name a column or all columns of its table; `None` if
/// there are none. `source` and `time` as for [`asked`].
pub fn of_queries(facts: &SubjectFacts, source: &str, time: &str, column: &Row) -> Option<String> {
    let mut naming = asked(facts, source, time).ok()?;
    naming.retain(|asked| names(text(asked.pair.1, "query"), column));
    naming.sort_by(|a, b| b.of_time.total_cmp(&a.of_time));
    let share = units::percent(naming.iter().map(|asked| asked.of_time).sum());
    Some(format!("{share} of the time of queries went into what names it, as {}", naming.first()?.query))
}

/// True if a query names a table and the column, or all columns. Compares words, so tables of the same name in different schemas
/// are not told apart.
fn names(query: &str, column: &Row) -> bool {
    let query = query.to_lowercase();
    let has = |name: &str| {
        let name = name.to_lowercase();
        query.split(|sign: char| !sign.is_alphanumeric() && sign != '_').any(|word| word == name)
    };
    let table = text(column, "table").rsplit('.').next().unwrap_or_default();
    let has_all = query.split_whitespace().collect::<Vec<_>>().join(" ").contains("select *");
    has(table) && (has_all || has(text(column, "column")))
}

/// Columns with known statistics; the first reason if there are none because they were refused.
pub fn columns(
    facts: &SubjectFacts,
    shares: impl Fn(&Row) -> Vec<String>,
) -> Result<Vec<ColumnStatistics>, UnknownReason> {
    let rows = facts.rows("blobs")?;
    let columns: Vec<ColumnStatistics> =
        rows.iter().filter_map(|row| ColumnStatistics::parse(row, shares(row))).collect();
    match rows.iter().map(|row| text(row, "refused")).find(|why| !why.is_empty()) {
        Some(why) if columns.is_empty() => Err(why.to_owned()),
        _ => Ok(columns),
    }
}

/// A column with statistics of its values.
#[derive(Clone, Debug)]
pub struct ColumnStatistics {
    /// Name with schema and table.
    pub name: String,
    /// Estimated size of all its values in bytes.
    pub bytes: f64,
    /// Share of its table's size.
    pub of_table: f64,
    /// Quantiles: share and size, with ascending sizes.
    pub quantiles: Vec<(f64, f64)>,
    /// Estimated number of rows of the table.
    pub rows: f64,
    /// Its shares of memory and of query time, in words.
    pub shares: Vec<String>,
}

impl ColumnStatistics {
    /// Parses a row of [`with_lengths`]; `None` if it has no lengths.
    fn parse(row: &Row, shares: Vec<String>) -> Option<ColumnStatistics> {
        let sampled = or_zero(row, "sampled");
        let stored = number(row, "stored_mean").filter(|_| sampled > 0.0)?;
        // The number of rows is the server's estimate, which is 0 for a table that was never analysed; all of its rows were
        // sampled then.
        let rows = or_zero(row, "rows").max(sampled);
        let table_bytes = or_zero(row, "table_bytes");
        let sizes = row.get("quantiles").and_then(|list| list.as_array()).cloned().unwrap_or_default();
        let sizes = sizes.iter().filter_map(|size| size.as_f64());
        Some(ColumnStatistics {
            name: format!("{}.{}", text(row, "table"), text(row, "column")),
            bytes: (stored * rows).min(table_bytes),
            of_table: (stored * rows / table_bytes.max(1.0)).min(1.0),
            quantiles: SHARES.into_iter().zip(sizes).collect(),
            rows,
            shares,
        })
    }

    fn median(&self) -> f64 {
        self.quantiles.iter().find(|(share, _)| *share == 0.5).map_or(0.0, |(_, size)| *size)
    }

    /// Flags that describe its sizes and number to `blobwise run`.
    fn corpus(&self) -> String {
        const BLOBS: f64 = 400.0;
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (share, size) in &self.quantiles {
            // Equal sizes cannot be interpolated.
            if points.last().is_none_or(|(_, last)| size > last) && *size >= 1.0 {
                points.push((*share, *size));
            }
        }
        let blobs = self.rows.clamp(1.0, BLOBS);
        let sizes = match points.as_slice() {
            [] | [_] => format!("fixed:{:.0}", self.median()),
            points => {
                let points = points.iter().map(|(share, size)| format!("{share}={size:.0}"));
                format!("quantiles:{}", points.collect::<Vec<_>>().join(","))
            }
        };
        format!("--corpus {sizes} --blobs {blobs:.0}")
    }

    fn description(&self, database: f64) -> String {
        let share = 100.0 * self.bytes / database.max(1.0);
        let what = format!(
            "{share:.0} % of this database ({}) are bytes of `{}`, of median {}",
            units::bytes(self.bytes),
            self.name,
            units::bytes(self.median())
        );
        std::iter::once(what).chain(self.shares.iter().cloned()).collect::<Vec<_>>().join(", ")
    }
}

/// Judges the columns of a database; `store` is the name of blobwise's store that resembles such a column.
pub fn finding(mut columns: Vec<ColumnStatistics>, database: f64, store: &str) -> CheckResult {
    const SMALL_BYTES: f64 = 1e6;
    const MEDIAN_BYTES: f64 = 1000.0;
    columns.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    let is_mostly_blobs = |column: &&ColumnStatistics| {
        let is_large = column.bytes >= SMALL_BYTES && column.bytes >= database * 0.1;
        is_large && column.of_table >= 0.5 && column.median() >= MEDIAN_BYTES
    };
    let found: Vec<&ColumnStatistics> = columns.iter().filter(is_mostly_blobs).collect();
    let Some(first) = found.first() else {
        let figure = "no column takes a tenth of the database with values of 1 kB or more".to_owned();
        return CheckResult::in_words(Answer::Ok, figure);
    };
    let named: Vec<String> = found.iter().map(|column| column.description(database)).collect();
    let share = first.bytes / database.max(1.0);
    let try_this = format!("blobwise run --stores files/hashed,sqlite,{store} {}", first.corpus());
    let finding = CheckResult::now(Answer::Look, share, named[0].clone()).naming(named);
    CheckResult { try_this: Some(try_this), ..finding }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::between;

    fn column(bytes: f64, sizes: &[f64]) -> ColumnStatistics {
        ColumnStatistics {
            name: "public.uploads.content".to_owned(),
            bytes,
            of_table: 0.9,
            quantiles: SHARES.iter().copied().zip(sizes.iter().copied()).collect(),
            rows: 70.0,
            shares: Vec::new(),
        }
    }

    #[test]
    fn blobs_are_named_with_the_run_that_measures_the_alternative() {
        let found = finding(vec![column(6e6, &[9e2, 2e3, 8e3, 8e3, 3e4, 1e5])], 1e7, "sqlite");
        assert_eq!(found.answer, Answer::Look);
        assert!(found.figure.starts_with("60 % of this database (6 MB)"), "{}", found.figure);
        let command = found.try_this.unwrap();
        assert!(
            command
                .ends_with("--corpus quantiles:0.1=900,0.25=2000,0.5=8000,0.9=30000,0.99=100000 --blobs 70"),
            "{command}"
        );
        let alike = finding(vec![column(6e6, &[2e3; 6])], 1e7, "sqlite").try_this.unwrap();
        assert!(alike.contains("--corpus fixed:2000 "), "{alike}");
    }

    #[test]
    fn what_is_in_memory_is_of_all_that_is_there() {
        let rows = json!([
            { "name": "dbo.uploads", "bytes": 7e9, "out_of_row_bytes": 6e9 },
            { "name": "", "bytes": 1e9, "out_of_row_bytes": 0 }
        ]);
        let with = |told: serde_json::Value| between(5.0, &[], &[(IN_MEMORY, told)]);
        let facts = with(rows);
        let words = of_memory(&facts, "dbo.uploads", false);
        assert_eq!(words, "they have 75 % of what is in memory, where 6 GB would be free without them");
        assert_eq!(
            of_memory(&facts, "dbo.uploads", true),
            "their table has 88 % of what is in memory (7 GB)"
        );
        assert!(of_memory(&facts, "dbo.other", false).starts_with("they have 0 %"));
        let refused = with("no right".into());
        assert!(of_memory(&refused, "dbo.uploads", false).ends_with("is not told (no right)"));
        // No query is made if there is no column.
        let none = || unreachable!("no column");
        assert_eq!(memory(&SourceAnswer::Rows(Vec::new()), none), SourceAnswer::Rows(Vec::new()));
    }

    #[test]
    fn queries_name_a_column_by_its_name_or_all_of_its_table() {
        let column = json!({ "table": "public.uploads", "column": "content" });
        let column = column.as_object().unwrap();
        for query in [
            "SELECT content FROM uploads WHERE id = $1",
            "select  *\nfrom `shop`.`Uploads`",
            "INSERT INTO [dbo].[uploads] ([id], [content]) VALUES (?, ?)",
        ] {
            assert!(names(query, column), "{query}");
        }
        for query in
            ["SELECT count(*) FROM uploads", "SELECT content FROM pages", "SELECT contents FROM uploads"]
        {
            assert!(!names(query, column), "{query}");
        }
    }

    #[test]
    fn short_values_and_small_columns_are_left_in_peace() {
        for (bytes, size) in [(6e6, 40.0), (5e5, 9e3), (9e5, 9e3)] {
            assert_eq!(finding(vec![column(bytes, &[size; 6])], 1e7, "sqlite").answer, Answer::Ok);
        }
        assert_eq!(finding(Vec::new(), 1e7, "sqlite").answer, Answer::Ok);
    }
}
