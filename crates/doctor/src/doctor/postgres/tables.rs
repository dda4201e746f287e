//! Checks of tables that are scanned sequentially, and of overdue ANALYZE and VACUUM by the server's own rules.

use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, or_zero, text};
use crate::doctor::finding::{Answer, Check, CheckQuestion, CheckResult, FigurePeriod, LeastAges, largest};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "rows read by scanning whole tables of 10,000 rows or more, between the looks",
        threshold: "look: ten or more such scans of a table, of 5 % or more of all rows that were read so",
        reason: "Ten in a few seconds are more than a report. Scanning a table is right if a query wants most \
                 of it: look at the query.",
        source: "seq_scan and seq_tup_read of pg_stat_user_tables",
        shown_by: "SELECT relname, seq_scan, seq_tup_read, idx_scan FROM pg_stat_user_tables ORDER BY seq_tup_read DESC LIMIT 10",
        ..Check::new("pg-sequential-scans", CheckQuestion::Indexes, sequential_scans)
    },
    Check {
        figure: "rows changed since a table was analyzed, over the number at which the server would analyze it itself",
        threshold: "look: twice that number or more, in a table of 1,000 rows or more; cannot tell: a standby",
        reason: "This is the server's own rule, with each table's settings. Autovacuum comes within about a \
                 minute of reaching it; at twice the number it is off or does not keep up. Until then the \
                 planner uses old statistics.",
        after: "PostgreSQL's documentation of autovacuum_analyze_threshold",
        source: "n_mod_since_analyze of pg_stat_user_tables; autovacuum_analyze_threshold and _scale_factor",
        shown_by: "SELECT relname, n_mod_since_analyze, last_analyze, last_autoanalyze FROM pg_stat_user_tables ORDER BY 2 DESC LIMIT 10",
        ..Check::new("pg-stale-statistics", CheckQuestion::Statistics, stale_statistics)
    },
    Check {
        figure: "dead rows, over the number at which the server would clean a table up itself",
        threshold: "look: twice that number or more, in a table of 1,000 rows or more; bad: a table that is twice as old as \
                    autovacuum_freeze_max_age; cannot tell: a standby",
        reason: "Every scan reads and skips dead rows, and they keep their disk space. An open transaction \
                 preserves them: see pg-idle-in-transaction. A server with a table that is never frozen ends up \
                 refusing writes.",
        after: "PostgreSQL's documentation of autovacuum_vacuum_threshold and autovacuum_freeze_max_age",
        source: "n_dead_tup of pg_stat_user_tables; relfrozenxid of pg_class",
        shown_by: "SELECT relname, n_live_tup, n_dead_tup, last_autovacuum FROM pg_stat_user_tables ORDER BY n_dead_tup DESC LIMIT 10",
        ..Check::new("pg-dead-rows", CheckQuestion::Statistics, dead_rows)
    },
];

/// Below this, a full scan is as fast as an index.
const LARGE_ROWS: f64 = 10_000.0;

fn rows_of(row: &Row) -> f64 {
    // The catalog has no count before the first ANALYZE.
    or_zero(row, "rows").max(or_zero(row, "n_live_tup"))
}

fn sequential_scans(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let pairs = facts.pairs("tables", "name")?;
    let all: f64 = pairs.iter().map(|pair| growth(pair, "seq_tup_read")).sum();
    let scanned = pairs
        .iter()
        .filter(|pair| rows_of(pair.1) >= LARGE_ROWS)
        .map(|pair| (growth(pair, "seq_tup_read"), (growth(pair, "seq_scan"), pair.1)))
        .filter(|(read, _)| *read > 0.0)
        .collect();
    let is_often = |(read, (scans, _)): &(f64, (f64, &Row))| *scans >= 10.0 && *read >= all * 0.05;
    let words = |(read, (scans, row)): &(f64, (f64, &Row))| {
        format!("`{}`: {} rows in {scans:.0} scans", text(row, "name"), units::count(*read))
    };
    Ok(largest(scanned, is_often, words, Some("table"), "no table of 10,000 rows was gone through"))
}

fn stale_statistics(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let over = |row: &Row| or_zero(row, "n_mod_since_analyze") / or_zero(row, "analyze_rule").max(1.0);
    let words = |row: &Row| {
        let when = if or_zero(row, "analyzed") > 0.0 { "" } else { ", never analyzed" };
        format!(
            "`{}`: {} changed{when}",
            text(row, "name"),
            units::count(or_zero(row, "n_mod_since_analyze"))
        )
    };
    against_own_rule(facts, over, words)
}

fn dead_rows(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let over = |row: &Row| or_zero(row, "n_dead_tup") / or_zero(row, "vacuum_rule").max(1.0);
    let words = |row: &Row| {
        let (dead, live) = (or_zero(row, "n_dead_tup"), or_zero(row, "n_live_tup"));
        let share = units::percent(dead / (dead + live).max(1.0));
        format!("`{}`: {} dead, {share} of all", text(row, "name"), units::count(dead))
    };
    let oldest = facts
        .rows("tables")?
        .iter()
        .max_by(|a, b| or_zero(a, "freeze_share").total_cmp(&or_zero(b, "freeze_share")));
    if let Some(row) = oldest.filter(|row| or_zero(row, "freeze_share") >= 2.0) {
        let share = or_zero(row, "freeze_share");
        let figure = format!("`{}` is {share:.1} times as old as it may be", text(row, "name"));
        return Ok(CheckResult::now(Answer::Bad, share, figure));
    }
    against_own_rule(facts, over, words)
}

/// Finding for tables that exceed one of the server's own rules; `over` is the ratio to the rule.
fn against_own_rule(
    facts: &SubjectFacts,
    over: impl Fn(&Row) -> f64,
    words: impl Fn(&Row) -> String,
) -> Result<CheckResult, UnknownReason> {
    const SMALL_ROWS: f64 = 1000.0;
    const NONE: &str = "no table has 1,000 rows";
    if facts.number("server", "in_recovery")? > 0.0 {
        return Err("it is a standby: rows that change are counted by its primary".to_owned());
    }
    if facts.number("settings", "track_counts") == Ok(0.0) {
        return Err("track_counts is off: the server counts nothing".to_owned());
    }
    let tables: Vec<(f64, &Row)> = facts
        .rows("tables")?
        .iter()
        .filter(|row| rows_of(row) >= SMALL_ROWS)
        .map(|row| (over(row), row))
        .collect();
    if tables.is_empty() {
        return Ok(CheckResult::in_words(Answer::Ok, NONE.to_owned()));
    }
    let words = |(over, row): &(f64, &Row)| format!("{} ({over:.1} times its rule)", words(row));
    let found = largest(tables, |(over, _)| *over >= 2.0, words, Some("table"), NONE);
    Ok(found.with_period(FigurePeriod::Now))
}
