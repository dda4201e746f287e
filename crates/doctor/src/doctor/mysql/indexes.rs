//! Checks of full table scans, statistics, and redundant or unused indexes.

use super::has_performance_schema;
use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, number, or_zero, text};
use crate::doctor::finding::{
    Check, CheckQuestion, CheckResult, FigurePeriod, LeastAges, covered_indexes, largest, unused_indexes,
};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "rows that were read without any index in tables of 10,000 rows or more, between the looks",
        threshold: "look: ten times all rows of a table or more, of 5 % or more of all rows that were read",
        reason: "Ten times in a few seconds is more than a report. Scanning a table is right if a query wants \
                 most of it: look at the query.",
        source: "table_io_waits_summary_by_index_usage, where the index is NULL",
        rights: "performance_schema, with SELECT on it",
        shown_by: "SELECT * FROM sys.schema_tables_with_full_table_scans LIMIT 10",
        ..Check::new("my-full-scans", CheckQuestion::Indexes, full_scans)
    },
    Check {
        figure: "indexes whose columns another index of the same table begins with, in the same order",
        threshold: "look: any that is not unique",
        reason: "The other index answers the same queries, while every write and the memory pay for both. A \
                 narrow one may be there for speed.",
        after: "sys.schema_redundant_indexes of MySQL",
        source: "information_schema.statistics",
        rights: "some right on the tables",
        shown_by: "SELECT * FROM sys.schema_redundant_indexes",
        ..Check::new("my-duplicate-index", CheckQuestion::IndexOrder, duplicate)
    },
    Check {
        figure: "indexes that nothing has used since the server was started",
        threshold: "look: any that is not unique, in a table that was used 1,000 times or more and made 14 days ago or before; cannot tell: started less than 14 days ago, read-only, \
                    or a replica is fed from here",
        reason: "Every restart resets the counters. A report may use an index once a month, and a replica \
                 counts its own queries. One that a foreign key needs cannot be dropped anyway: the server says \
                 so.",
        after: "sys.schema_unused_indexes of MySQL; the conditions are blobwise's",
        source: "table_io_waits_summary_by_index_usage; Uptime; CREATE_TIME of information_schema.tables",
        rights: "performance_schema, with SELECT on it",
        shown_by: "SELECT * FROM sys.schema_unused_indexes",
        ..Check::new("my-unused-index", CheckQuestion::IndexOrder, unused)
    },
    Check {
        figure: "rows changed since the statistics of a table were made, as a share of its rows",
        threshold: "look: 20 % or more of a table of 1,000 rows or more; cannot tell: InnoDB is read-only",
        reason: "InnoDB updates statistics by itself after 10 %, within seconds. At twice as much, the update \
                 is switched off (innodb_stats_auto_recalc, STATS_AUTO_RECALC of the table).",
        after: "MySQL's documentation of innodb_stats_auto_recalc",
        source: "MODIFIED_COUNTER of information_schema.INNODB_TABLESTATS (INNODB_SYS_TABLESTATS)",
        rights: "PROCESS",
        shown_by: "SELECT name, num_rows, modified_counter FROM information_schema.INNODB_SYS_TABLESTATS ORDER BY 3 DESC LIMIT 10",
        ..Check::new("my-stale-statistics", CheckQuestion::Statistics, stale)
    },
];

fn full_scans(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    has_performance_schema(facts)?;
    let pairs = facts.pairs("scans", "id")?;
    let all: f64 = pairs.iter().map(|pair| growth(pair, "row_reads")).sum();
    let scanned = pairs
        .iter()
        .filter(|pair| text(pair.1, "index_name").is_empty() && or_zero(pair.1, "table_rows") >= 10_000.0)
        .map(|pair| (growth(pair, "row_reads"), pair.1))
        .filter(|(read, _)| *read > 0.0)
        .collect();
    let times = |(read, row): &(f64, &Row)| read / or_zero(row, "table_rows");
    let is_often = |one: &(f64, &Row)| times(one) >= 10.0 && one.0 >= all * 0.05;
    let words = |one: &(f64, &Row)| {
        let (name, read) = (text(one.1, "name"), units::count(one.0));
        format!("`{name}`: {read} rows read without an index, {:.1} times all of it", times(one))
    };
    Ok(largest(scanned, is_often, words, Some("table"), "no table of 10,000 rows was gone through"))
}

fn duplicate(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    covered_indexes(facts, is_covered_by, |row| format!("`{}` of `{}`", text(row, "name"), text(row, "tab")))
}

/// True if another index answers all queries that this one does.
fn is_covered_by(row: &Row, other: &Row) -> bool {
    let (mine, theirs) = (text(row, "cols"), text(other, "cols"));
    let is_same = mine == theirs;
    let begins = theirs.strip_prefix(mine).is_some_and(|rest| rest.starts_with(','));
    let comes_first = or_zero(other, "non_unique") == 0.0 || text(other, "name") < text(row, "name");
    text(row, "id") != text(other, "id")
        && text(row, "tab") == text(other, "tab")
        && text(row, "method") == text(other, "method")
        && or_zero(row, "non_unique") > 0.0
        && (is_same && comes_first || begins && text(row, "method") == "BTREE")
}

fn unused(facts: &SubjectFacts, ages: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const USED_OFTEN: f64 = 1000.0;
    has_performance_schema(facts)?;
    if facts.number("replicas", "dumps")? > 0.0 {
        return Err("a replica is fed from here: what is asked there is counted there".to_owned());
    }
    if facts.number("variables", "read_only") == Ok(1.0) {
        return Err("it is read-only, as replicas are: what its source is asked is counted there".to_owned());
    }
    let up = facts.number("status", "uptime")?;
    ages.check_unused(up, |age| format!("it has counted for {age} only, since it was started"))?;
    let rows = facts.rows("scans")?;
    let unique: Vec<String> = facts
        .rows("indexes")?
        .iter()
        .filter(|row| or_zero(row, "non_unique") == 0.0)
        .map(|row| format!("{} {}", text(row, "tab"), text(row, "name")))
        .collect();
    let uses = |table: &str| -> f64 {
        rows.iter().filter(|row| text(row, "name") == table).map(|row| or_zero(row, "uses")).sum()
    };
    let named: Vec<String> = rows
        .iter()
        .filter(|row| !text(row, "index_name").is_empty() && or_zero(row, "uses") == 0.0)
        // A table that was restored or rebuilt since then was not counted for the whole time.
        .filter(|row| number(row, "made_seconds").is_none_or(|seconds| seconds >= ages.unused))
        .filter(|row| !unique.iter().any(|id| id == text(row, "id")) && uses(text(row, "name")) >= USED_OFTEN)
        .map(|row| format!("`{}` of `{}`", text(row, "index_name"), text(row, "name")))
        .collect();
    Ok(unused_indexes(named, up))
}

fn stale(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    if facts.number("variables", "innodb_read_only") == Ok(1.0) {
        return Err("InnoDB is read-only here: it changes no rows, and makes no statistics".to_owned());
    }
    let share = |row: &Row| or_zero(row, "modified") / or_zero(row, "table_rows").max(1.0);
    let tables = facts
        .rows("modified")?
        .iter()
        .filter(|row| or_zero(row, "table_rows") >= 1000.0)
        .map(|row| (share(row), row))
        .collect();
    let words = |(share, row): &(f64, &Row)| {
        let (name, changed) = (text(row, "name"), units::count(or_zero(row, "modified")));
        format!("`{name}`: {changed} rows changed, {}", units::percent(*share))
    };
    let found = largest(tables, |(share, _)| *share >= 0.2, words, Some("table"), "no table has 1,000 rows");
    Ok(found.with_period(FigurePeriod::Now))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::facts::between;
    use crate::doctor::finding::Answer;

    fn index(name: &str, cols: &str, non_unique: u8) -> Row {
        let row = json!({
            "id": format!("s.t.{name}"), "tab": "s.t", "name": name, "method": "BTREE", "cols": cols, "non_unique": non_unique
        });
        row.as_object().cloned().unwrap()
    }

    #[test]
    fn right_after_a_restore_nothing_is_unused() {
        const DAY: u32 = 86_400;
        let with = |made_seconds: Option<u32>| {
            let told = [
                ("variables", json!([{ "performance_schema": "ON" }])),
                ("replicas", json!([{ "dumps": 0 }])),
                ("status", json!([{ "uptime": 300 * DAY }])),
                ("indexes", json!([])),
                (
                    "scans",
                    json!([
                        { "id": "s.t PRIMARY", "name": "s.t", "index_name": "PRIMARY", "uses": 9000 },
                        { "id": "s.t idle", "name": "s.t", "index_name": "idle", "uses": 0, "made_seconds": made_seconds }
                    ]),
                ),
            ];
            unused(&between(5.0, &[], &told), &LeastAges::default()).unwrap().answer
        };
        assert_eq!(with(Some(20 * DAY)), Answer::Look);
        assert_eq!(with(None), Answer::Look);
        assert_eq!(with(Some(DAY)), Answer::Ok);
    }

    #[test]
    fn an_index_is_covered_by_one_that_begins_with_it() {
        let (a, ab, again) = (index("a", "x::A", 1), index("ab", "x::A,y::A", 1), index("b", "x::A", 1));
        assert!(is_covered_by(&a, &ab) && !is_covered_by(&ab, &a));
        assert!(is_covered_by(&again, &a) && !is_covered_by(&a, &again));
        assert!(is_covered_by(&a, &index("z", "x::A", 0)) && !is_covered_by(&index("z", "x::A", 0), &a));
        // A prefix of a column is less than the column.
        assert!(!is_covered_by(&a, &index("p", "x:4:A,y::A", 1)));
    }
}
