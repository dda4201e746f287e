//! Checks of the buffer pool, connections, locks, and settings that reduce durability.

use super::has_performance_schema;
use crate::doctor::facts::{SubjectFacts, UnknownReason, growth, number};
use crate::doctor::finding::{
    Answer, Check, CheckQuestion, CheckResult, LeastAges, as_configured, cache_misses, connections, share_of,
    shipped_cache, when,
};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "how much of the time of queries went into reading pages that were not in the buffer pool; where that is not timed, the share \
                 of reads of pages",
        threshold: "look: above 5 % of the time, or, where it is not timed, above 1 % of the reads of data that are larger than the pool; cannot \
                    tell: less than 1,000 reads between the looks, or started less than 24 h ago",
        reason: "A page in the kernel's cache costs microseconds, so only the time decides. After a restart \
                 every cache is empty. A report that reads everything once is a false alarm.",
        after: "blobwise (5 % of the time); mysqltuner (99 % of the reads)",
        source: "Innodb_buffer_pool_reads, less what was read ahead where it is counted in them (MariaDB), and _read_requests; the time of innodb_data_file in file_summary_by_event_name",
        rights: "none; performance_schema with SELECT on it, for the time",
        shown_by: "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read%'",
        ..Check::new("my-buffer-pool", CheckQuestion::ServerMemory, pool)
    },
    Check {
        figure: "innodb_buffer_pool_size, against the size of data and indexes",
        threshold: "look: 128M or less, and less than the data have",
        reason: "128M is the shipped value for machines of any size; MySQL's manual recommends half of the \
                 memory or more on a dedicated server. Whether it costs time, my-buffer-pool tells after a day.",
        after: "MySQL's documentation of innodb_buffer_pool_size",
        source: "innodb_buffer_pool_size; data_length and index_length of information_schema.tables",
        rights: "SELECT on the tables: others are not counted",
        shown_by: "SELECT @@innodb_buffer_pool_size; SELECT SUM(data_length + index_length) FROM information_schema.tables",
        ..Check::new("my-buffer-pool-size", CheckQuestion::ServerMemory, pool_size)
    },
    Check {
        figure: "settings without which a power cut takes committed transactions, or tears pages",
        threshold: "bad: innodb_doublewrite off; look: innodb_flush_log_at_trx_commit other than 1",
        reason: "Without the second copy, a half-written page is lost. With 0 or 2 a power cut takes the last \
                 second of commits, which may be your choice.",
        after: "MySQL's documentation of both",
        source: "the variables",
        shown_by: "SHOW GLOBAL VARIABLES WHERE variable_name IN ('innodb_doublewrite', 'innodb_flush_log_at_trx_commit')",
        ..Check::new("my-safe", CheckQuestion::Disk, safe)
    },
    Check {
        figure: "connections, as a share of the maximum",
        threshold: "look: above 80 %",
        reason: "Further connections are refused. Put a pool in front of the server instead of allowing more.",
        after: "awesome-prometheus-alerts (80 %)",
        source: "Threads_connected; max_connections",
        shown_by: "SHOW GLOBAL STATUS LIKE 'Threads_connected'",
        ..Check::new("my-connections", CheckQuestion::ServerMemory, connected)
    },
    Check {
        figure: "for how long transactions waited for rows that others had locked, in a second",
        threshold: "look: 100 ms or more",
        reason: "A faster server does not shorten a lock; a shorter transaction does. The threshold is a tenth \
                 of a session that only waits.",
        source: "Innodb_row_lock_time and Innodb_row_lock_waits",
        shown_by: "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock%'",
        ..Check::new("my-locks", CheckQuestion::Queries, locks)
    },
    Check {
        figure: "temporary tables created on disk per second",
        threshold: "look: 10 or more",
        reason: "A sort or a group exceeded tmp_table_size, or had a blob, which some versions always put on \
                 disk. An index in that order, or fewer columns, helps. SHOW and this command make some \
                 themselves.",
        source: "Created_tmp_disk_tables",
        shown_by: "SHOW GLOBAL STATUS LIKE 'Created_tmp%'",
        ..Check::new("my-temporary-tables", CheckQuestion::Queries, temporary)
    },
];

fn pool(facts: &SubjectFacts, ages: &LeastAges) -> Result<CheckResult, UnknownReason> {
    ages.check_cache(facts.number("status", "uptime")?)?;
    let reads = waited_for(facts)?;
    let requests = facts.growth("status", "innodb_buffer_pool_read_requests")?;
    if requests < 1000.0 {
        return Err(format!("only {requests:.0} pages were asked for between the looks"));
    }
    let share = share_of(reads, requests);
    let (bytes, pool) =
        (facts.number("data", "bytes")?, facts.number("variables", "innodb_buffer_pool_size")?);
    let words = format!(
        "{} of {} reads of pages were not in the pool ({}; the data have {})",
        units::percent(share),
        units::count(requests),
        as_configured(pool, UNITS),
        as_configured(bytes, UNITS)
    );
    Ok(cache_misses(reading_share(facts), share, bytes > pool, words))
}

const UNITS: [&str; 4] = ["K", "M", "G", "T"];

/// Page reads that a query waited for. MariaDB includes read-ahead in `innodb_buffer_pool_reads` (it equals `innodb_pages_read`
/// there); MySQL does not.
fn waited_for(facts: &SubjectFacts) -> Result<f64, UnknownReason> {
    let reads = facts.growth("status", "innodb_buffer_pool_reads")?;
    let pages = facts.growth("status", "innodb_pages_read").unwrap_or(reads);
    let ahead: f64 = ["innodb_buffer_pool_read_ahead", "innodb_buffer_pool_read_ahead_rnd"]
        .iter()
        .map(|name| facts.growth("status", name).unwrap_or(0.0))
        .sum();
    Ok(reads.min((pages - ahead).max(0.0)))
}

fn pool_size(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let (bytes, pool) =
        (facts.number("data", "bytes")?, facts.number("variables", "innodb_buffer_pool_size")?);
    Ok(shipped_cache("innodb_buffer_pool_size", [pool, bytes], UNITS))
}

/// Share of statement time that was spent reading data files; `None` unless both are timed.
fn reading_share(facts: &SubjectFacts) -> Option<f64> {
    has_performance_schema(facts).ok()?;
    let reading = facts.growth("reads", "ps").ok()?;
    let calls = facts.growth("reads", "calls").ok()?;
    let all: f64 = facts.pairs("digests", "id").ok()?.iter().map(|pair| growth(pair, "ps")).sum();
    // If reads were counted and not timed, the instrument is off.
    (all > 0.0 && (calls == 0.0 || reading > 0.0)).then(|| share_of(reading, all))
}

fn safe(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let row = facts.row("variables")?;
    let flush = number(row, "innodb_flush_log_at_trx_commit")
        .ok_or("innodb_flush_log_at_trx_commit is not told here")?;
    let is_torn = number(row, "innodb_doublewrite") == Some(0.0);
    let figure = format!(
        "innodb_doublewrite is {}, innodb_flush_log_at_trx_commit is {flush}",
        if is_torn { "off" } else { "on" }
    );
    let answer = if is_torn { Answer::Bad } else { when(flush != 1.0, Answer::Look) };
    Ok(CheckResult::now(answer, flush, figure))
}

fn connected(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let used = facts.number("status", "threads_connected")?;
    Ok(connections(used, facts.number("variables", "max_connections")?))
}

fn locks(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let waited = facts.growth("status", "innodb_row_lock_time")? / facts.seconds();
    let waits = facts.growth("status", "innodb_row_lock_waits")?;
    let figure = format!("{waited:.0} ms in a second, {waits:.0} waits");
    Ok(CheckResult::new(when(waited >= 100.0, Answer::Look), waited, figure))
}

fn temporary(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let rate = facts.growth("status", "created_tmp_disk_tables")? / facts.seconds();
    let figure = format!("{rate:.1} a second");
    Ok(CheckResult::new(when(rate >= 10.0, Answer::Look), rate, figure))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::facts::between;

    /// Facts whose counters grew from 0 to these values.
    fn grew(status: Value) -> SubjectFacts {
        let zeros: Value = status.as_object().unwrap().keys().map(|name| (name.clone(), json!(0))).collect();
        between(5.0, &[("status", json!([zeros]))], &[("status", json!([status]))])
    }

    #[test]
    fn what_was_read_ahead_was_waited_for_by_nobody() {
        let mariadb = json!({"innodb_buffer_pool_reads": 1010, "innodb_pages_read": 1010, "innodb_buffer_pool_read_ahead": 900});
        let mysql = json!({"innodb_buffer_pool_reads": 110, "innodb_pages_read": 1010, "innodb_buffer_pool_read_ahead": 900});
        let old = json!({"innodb_buffer_pool_reads": 110});
        assert_eq!([mariadb, mysql, old].map(|status| waited_for(&grew(status)).unwrap()), [110.0; 3]);
    }
}
