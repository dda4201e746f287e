//! Checks of table scans, of missing, redundant, disabled and unused indexes, and of old statistics.

use super::{is_alone, is_used, up_long_enough};
use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, number, or_zero, text};
use crate::doctor::finding::{
    Answer, Check, CheckQuestion, CheckResult, FigurePeriod, LeastAges, covered_indexes, emptiest_index,
    largest, unused_indexes, when,
};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "how often queries could have used an index that there is not, and by how much the server thinks they would have been cheaper",
        threshold: "look: ten times or more between the looks, by half of their cost or more, in a table of 10,000 rows or more",
        reason: "The server notes this for each query by itself: one index may serve several, and every write \
                 pays for it. It never suggests a filtered one. Ten in a few seconds are more than a report.",
        after: "blobwise; Microsoft's documentation names the counters",
        source: "user_seeks, user_scans and avg_user_impact of sys.dm_db_missing_index_group_stats, of the database in the URL",
        rights: "VIEW SERVER STATE",
        shown_by: "SELECT d.statement, d.equality_columns, d.inequality_columns, s.user_seeks, s.avg_user_impact FROM \
                   sys.dm_db_missing_index_group_stats s JOIN sys.dm_db_missing_index_groups g ON g.index_group_handle = s.group_handle JOIN \
                   sys.dm_db_missing_index_details d ON d.index_handle = g.index_handle ORDER BY s.user_seeks DESC",
        ..Check::new("ms-missing-index", CheckQuestion::Indexes, missing)
    },
    Check {
        figure: "scans of whole tables of 10,000 rows or more, between the looks",
        threshold: "look: ten or more of a table, with 5 % or more of the rows of all scans",
        reason: "Ten in a few seconds are more than a report. A scan that ends early counts like any other, and \
                 scanning a table is right if a query wants most of it: look at the query.",
        source: "user_scans of sys.dm_db_index_usage_stats, of heaps and clustered indexes; rows of sys.partitions",
        rights: "VIEW SERVER STATE; some right on the tables, or VIEW DEFINITION",
        shown_by: "SELECT OBJECT_NAME(object_id), user_scans FROM sys.dm_db_index_usage_stats WHERE database_id = DB_ID() AND index_id IN (0, 1) \
                   ORDER BY user_scans DESC",
        ..Check::new("ms-table-scans", CheckQuestion::Indexes, scans)
    },
    Check {
        figure: "indexes whose columns another index of the same table begins with, in the same order, and which has all that they include",
        threshold: "look: any that is not unique",
        reason: "The other index answers the same queries, while every write and the memory pay for both. A \
                 narrow one may be there for speed.",
        after: "PgHero, for another server",
        source: "sys.indexes and sys.index_columns: columns, order, included columns, condition",
        rights: "some right on the tables, or VIEW DEFINITION",
        shown_by: "SELECT i.name, c.key_ordinal, c.column_id FROM sys.indexes i JOIN sys.index_columns c ON c.object_id = i.object_id AND \
                   c.index_id = i.index_id ORDER BY i.object_id, 1, 2",
        ..Check::new("ms-duplicate-index", CheckQuestion::IndexOrder, duplicate)
    },
    Check {
        figure: "indexes that are disabled, or were only made for an adviser to try",
        threshold: "bad: a clustered one that is disabled; look: any other",
        reason: "Without its clustered index a table can be neither read nor written. Any other disabled index \
                 helps nobody: somebody forgot to rebuild it. The Tuning Advisor left hypothetical ones behind.",
        after: "Microsoft's documentation of disabled indexes",
        source: "is_disabled and is_hypothetical of sys.indexes",
        rights: "some right on the tables, or VIEW DEFINITION",
        shown_by: "SELECT OBJECT_NAME(object_id), name, type_desc FROM sys.indexes WHERE is_disabled = 1 OR is_hypothetical = 1",
        ..Check::new("ms-disabled-index", CheckQuestion::IndexOrder, disabled)
    },
    Check {
        figure: "indexes that no query has used since the server was started",
        threshold: "look: any of 1 MiB or more, not unique, of no foreign key, in a table that was used 1,000 times or more and made 14 days ago or before; cannot tell: started, \
                    or the database made or restored, less than 14 days ago, AUTO_CLOSE, read-only, or in an availability group",
        reason: "Every restart resets the counters, and in 2014 every rebuild of an index. A report may use an \
                 index once a month, and a replica counts its own queries.",
        after: "PgHero, for another server; the conditions are blobwise's",
        source: "sys.dm_db_index_usage_stats; sqlserver_start_time of sys.dm_os_sys_info; create_date of sys.databases and sys.tables; \
                 msdb.dbo.restorehistory",
        rights: "VIEW SERVER STATE; SELECT on msdb.dbo.restorehistory; some right on the tables, or VIEW DEFINITION",
        shown_by: "SELECT i.name, u.user_seeks, u.user_scans, u.user_lookups FROM sys.indexes i LEFT JOIN sys.dm_db_index_usage_stats u ON \
                   u.database_id = DB_ID() AND u.object_id = i.object_id AND u.index_id = i.index_id ORDER BY 2, 3, 4",
        ..Check::new("ms-unused-index", CheckQuestion::IndexOrder, unused)
    },
    Check {
        figure: "how full the leaves of an index are: of the four largest from 1 to 256 MiB",
        threshold: "look: below 40 %",
        reason: "An index that grows at its end is full, one that grows anywhere about 70 %. Below half of that \
                 it takes twice the memory and reads: REBUILD or REORGANIZE makes it dense again. Where rows \
                 come and go constantly, it soon empties again.",
        source: "avg_page_space_used_in_percent of sys.dm_db_index_physical_stats, SAMPLED: it reads a hundredth of the pages, or all of few",
        rights: "VIEW DATABASE STATE",
        shown_by: "SELECT * FROM sys.dm_db_index_physical_stats(DB_ID(), OBJECT_ID('TABLE'), NULL, NULL, 'SAMPLED')",
        ..Check::new("ms-index-density", CheckQuestion::IndexOrder, density)
    },
    Check {
        figure: "changes since statistics were made, over the number at which the server would update them itself",
        threshold: "look: twice that number or more, of 1,000 rows or more; cannot tell: read-only, or in an availability group",
        reason: "This is the server's own rule for the database's compatibility level. It updates statistics \
                 when it compiles a query that needs them, so unused ones grow old and do no harm. For others \
                 the update is off, or their queries keep an old plan.",
        after: "Microsoft's documentation of statistics (AUTO_UPDATE_STATISTICS)",
        source: "modification_counter of sys.dm_db_stats_properties; compatibility_level of sys.databases",
        rights: "SELECT on the columns, or db_ddladmin",
        shown_by: "SELECT OBJECT_NAME(s.object_id), s.name, p.rows, p.modification_counter, p.last_updated FROM sys.stats s CROSS APPLY \
                   sys.dm_db_stats_properties(s.object_id, s.stats_id) p ORDER BY 4 DESC",
        ..Check::new("ms-stale-statistics", CheckQuestion::Statistics, stale)
    },
    Check {
        figure: "whether the database creates and updates statistics by itself",
        threshold: "look: either is off",
        reason: "Plans then rest on old statistics, or on none. Some products require it and make statistics by \
                 themselves.",
        after: "Microsoft's documentation of AUTO_CREATE_STATISTICS and AUTO_UPDATE_STATISTICS, which are on as shipped",
        source: "sys.databases",
        shown_by: "SELECT name, is_auto_create_stats_on, is_auto_update_stats_on FROM sys.databases",
        ..Check::new("ms-statistics-off", CheckQuestion::Statistics, off)
    },
];

/// Below this, a full scan is as fast as an index.
const LARGE_ROWS: f64 = 10_000.0;

fn missing(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let wanted = facts
        .pairs("missing", "id")?
        .iter()
        .map(|pair| (growth(pair, "uses"), pair.1))
        .filter(|(uses, row)| *uses > 0.0 && or_zero(row, "table_rows") >= LARGE_ROWS)
        .collect();
    let words = |(uses, row): &(f64, &Row)| {
        let columns: Vec<&str> =
            ["equal", "unequal"].iter().map(|name| text(row, name)).filter(|list| !list.is_empty()).collect();
        let saved = units::percent(or_zero(row, "saved") / 100.0);
        format!("{} on {}: {} times, by {saved}", text(row, "name"), columns.join(", "), units::count(*uses))
    };
    let is_large = |(uses, row): &(f64, &Row)| *uses >= 10.0 && or_zero(row, "saved") >= 50.0;
    Ok(largest(wanted, is_large, words, None, "none was wanted in a table of 10,000 rows"))
}

fn scans(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let mut scanned: Vec<(f64, (f64, &Row))> = facts
        .pairs("tables", "id")?
        .iter()
        .map(|pair| {
            let scans = growth(pair, "scans");
            (scans * or_zero(pair.1, "table_rows"), (scans, pair.1))
        })
        .filter(|(rows, _)| *rows > 0.0)
        .collect();
    let all: f64 = scanned.iter().map(|(rows, _)| rows).sum();
    scanned.retain(|(rows, (scans, _))| rows / scans >= LARGE_ROWS);
    let words = |(rows, (scans, row)): &(f64, (f64, &Row))| {
        format!("`{}`: {scans:.0} scans of {} rows", text(row, "name"), units::count(rows / scans))
    };
    let is_often = |(rows, (scans, _)): &(f64, (f64, &Row))| *scans >= 10.0 && *rows >= all * 0.05;
    Ok(largest(scanned, is_often, words, None, "no table of 10,000 rows was gone through"))
}

fn shown(row: &Row) -> String {
    format!("`{}` of `{}`", text(row, "name"), text(row, "tab"))
}

fn duplicate(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    covered_indexes(facts, is_covered_by, shown)
}

/// True if another index answers all queries that this one does.
fn is_covered_by(row: &Row, other: &Row) -> bool {
    const TREE: &str = "NONCLUSTERED";
    let (mine, theirs) = (text(row, "key_columns"), text(other, "key_columns"));
    let is_same = mine == theirs && text(row, "included") == text(other, "included");
    let begins = theirs == mine || theirs.strip_prefix(mine).is_some_and(|rest| rest.starts_with(','));
    // Key columns of the other index, in any sort order, count as included.
    let columns = |list: &str| -> Vec<String> {
        list.split(',').map(|column| column.trim_end_matches(['a', 'd']).to_owned()).collect()
    };
    let has = [columns(theirs), columns(text(other, "included"))].concat();
    let has_all =
        columns(text(row, "included")).iter().all(|column| column.is_empty() || has.contains(column));
    let comes_first = or_zero(other, "is_unique") > 0.0 || or_zero(other, "number") < or_zero(row, "number");
    text(row, "id") != text(other, "id")
        && text(row, "of_table") == text(other, "of_table")
        && [row, other].iter().all(|row| text(row, "method") == TREE && is_used(row))
        && text(row, "filter") == text(other, "filter")
        && or_zero(row, "is_unique") == 0.0
        && !mine.is_empty()
        && begins
        && has_all
        && (!is_same || comes_first)
}

fn disabled(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let rows = facts.rows("indexes")?;
    let is_needed = |row: &Row| text(row, "method") == "CLUSTERED" && or_zero(row, "is_disabled") > 0.0;
    let mut found: Vec<&Row> = rows.iter().filter(|row| !is_used(row)).collect();
    found.sort_by_key(|row| !is_needed(row));
    let named: Vec<String> = found
        .iter()
        .map(|row| {
            let what = if or_zero(row, "is_hypothetical") > 0.0 { "hypothetical" } else { "disabled" };
            format!("{} is {what}", shown(row))
        })
        .collect();
    let answer = match found.first() {
        Some(row) if is_needed(row) => Answer::Bad,
        first => when(first.is_some(), Answer::Look),
    };
    let figure = match named.first() {
        Some(first) => format!("{} of {}: {first}", named.len(), rows.len()),
        None => format!("none of {}", rows.len()),
    };
    Ok(CheckResult::now(answer, named.len() as f64, figure).naming(named))
}

/// Seconds for which uses of indexes have been counted: since the server's start, or since the creation or restore of the
/// database if that was later.
fn counted_seconds(facts: &SubjectFacts, ages: &LeastAges) -> Result<f64, UnknownReason> {
    if facts.number("database", "is_auto_close_on")? > 0.0 {
        return Err("AUTO_CLOSE is on: what was counted is forgotten whenever nobody is connected".to_owned());
    }
    let up = up_long_enough(facts, ages.unused)?;
    // `NULL` for a database that was never restored.
    let restored = number(facts.row("restored")?, "seconds").unwrap_or(f64::INFINITY);
    let made = facts.number("database", "made_seconds")?.min(restored);
    ages.check_unused(made, |age| format!("the database was made or restored {age} ago"))?;
    Ok(up.min(made))
}

fn unused(facts: &SubjectFacts, ages: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const SMALL_BYTES: f64 = 1_048_576.0;
    const USED_OFTEN: f64 = 1000.0;
    is_alone(facts)?;
    let counted = counted_seconds(facts, ages)?;
    let uses = facts.rows("uses")?;
    let of_table = |row: &Row| -> f64 {
        let table = text(row, "of_table");
        uses.iter().filter(|other| text(other, "of_table") == table).map(|other| or_zero(other, "uses")).sum()
    };
    let of_index = |row: &Row| {
        let own = uses.iter().find(|other| text(other, "id") == text(row, "id"));
        own.map_or(0.0, |own| or_zero(own, "uses"))
    };
    let is_idle = |row: &&Row| {
        let is_needed = ["is_unique", "foreign_key"].iter().any(|field| or_zero(row, field) > 0.0);
        let may_go = text(row, "method").starts_with("NONCLUSTERED") && is_used(row) && !is_needed;
        // A table created since then was not counted for the whole time.
        let is_young = number(row, "made_seconds").is_some_and(|seconds| seconds < ages.unused);
        may_go
            && !is_young
            && or_zero(row, "bytes") >= SMALL_BYTES
            && of_index(row) == 0.0
            && of_table(row) >= USED_OFTEN
    };
    let words = |row: &Row| format!("{} ({})", shown(row), units::bytes(or_zero(row, "bytes")));
    let named: Vec<String> = facts.rows("indexes")?.iter().filter(is_idle).map(words).collect();
    Ok(unused_indexes(named, counted))
}

fn density(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let rows = facts.rows("density")?.iter();
    let told = rows.filter_map(|row| Some((number(row, "density")?, row))).collect();
    Ok(emptiest_index(told, shown, "no index has 1 to 256 MiB"))
}

/// Number of changes after which the server updates statistics of this many rows, by Microsoft's documentation of statistics.
fn own_rule(rows: f64, compatibility_level: f64) -> f64 {
    /// Compatibility level of SQL Server 2016.
    const SUBLINEAR: f64 = 130.0;
    if rows <= 500.0 {
        return 500.0;
    }
    let share = 500.0 + 0.2 * rows;
    if compatibility_level >= SUBLINEAR { share.min((1000.0 * rows).sqrt()) } else { share }
}

fn stale(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const SMALL_ROWS: f64 = 1000.0;
    is_alone(facts)?;
    let level = facts.number("database", "compatibility_level")?;
    let rows = facts.rows("statistics")?;
    if rows.is_empty() && !facts.rows("tables")?.is_empty() {
        return Err("no statistics are shown; SELECT on the tables, or db_ddladmin, lets the user see them"
            .to_owned());
    }
    let over = |row: &Row| or_zero(row, "modified") / own_rule(or_zero(row, "table_rows"), level);
    let told = rows
        .iter()
        .filter(|row| or_zero(row, "table_rows") >= SMALL_ROWS)
        .map(|row| (over(row), row))
        .collect();
    let words = |(over, row): &(f64, &Row)| {
        let changed = units::count(or_zero(row, "modified"));
        format!("{}: {changed} changed ({over:.1} times its rule)", shown(row))
    };
    let found = largest(told, |(over, _)| *over >= 2.0, words, None, "no table has 1,000 rows");
    Ok(found.with_period(FigurePeriod::Now))
}

fn off(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let row = facts.row("database")?;
    let settings =
        [("creates_statistics", "AUTO_CREATE_STATISTICS"), ("updates_statistics", "AUTO_UPDATE_STATISTICS")];
    let mut off = Vec::new();
    for (field, name) in settings {
        if number(row, field).ok_or_else(|| format!("`{field}` is not told here"))? == 0.0 {
            off.push(format!("{name} is off"));
        }
    }
    let figure = if off.is_empty() { "both are on".to_owned() } else { off.join(", ") };
    Ok(CheckResult::now(when(!off.is_empty(), Answer::Look), off.len() as f64, figure))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn index(number: u32, keys: &str, included: &str, is_unique: u8) -> Row {
        let row = json!({
            "id": format!("5:{number}"), "of_table": "5", "number": number.to_string(), "name": format!("i{number}"), "tab": "dbo.t",
            "method": "NONCLUSTERED", "key_columns": keys, "included": included, "filter": "", "is_unique": is_unique,
            "is_disabled": 0, "is_hypothetical": 0,
        });
        row.as_object().cloned().unwrap()
    }

    #[test]
    fn an_index_is_covered_by_one_that_has_all_that_it_has() {
        let (a, ab, again) = (index(2, "1a", "", 0), index(3, "1a,2a", "", 0), index(4, "1a", "", 0));
        assert!(is_covered_by(&a, &ab) && !is_covered_by(&ab, &a));
        // One of two equal indexes remains.
        assert!(is_covered_by(&again, &a) && !is_covered_by(&a, &again));
        // `1` is not a prefix of `12`, another sort order is another index, and a unique index is more than an index.
        assert!(!is_covered_by(&a, &index(5, "12a,2a", "", 0)));
        assert!(!is_covered_by(&a, &index(5, "1d,2a", "", 0)));
        assert!(!is_covered_by(&index(6, "1a", "", 1), &ab) && is_covered_by(&a, &index(7, "1a", "", 1)));
        // The included columns must be there, too, as key columns or included.
        let with = index(8, "1a", "2", 0);
        assert!(is_covered_by(&with, &ab) && !is_covered_by(&with, &a) && is_covered_by(&a, &with));
        assert!(!is_covered_by(&index(9, "1a", "3", 0), &ab));
        let mut filtered = index(10, "1a", "", 0);
        filtered.insert("filter".to_owned(), "([x]=1)".into());
        assert!(!is_covered_by(&filtered, &ab));
    }

    #[test]
    fn the_rule_is_the_vendors() {
        assert_eq!([own_rule(100.0, 120.0), own_rule(100.0, 150.0)], [500.0; 2]);
        assert_eq!(own_rule(1_000_000.0, 120.0), 200_500.0);
        // 31,623 for a million rows, as in the documentation.
        assert_eq!(own_rule(1_000_000.0, 130.0).round(), 31_623.0);
        assert_eq!(own_rule(1000.0, 150.0), 700.0);
    }
}
