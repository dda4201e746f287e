//! Checks of the memory and processors of the server's machine, and of what the server takes of them.

use super::{sees_others, up_long_enough};
use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, or_zero, text};
use crate::doctor::finding::{
    Answer, Check, CheckQuestion, CheckResult, LeastAges, cache_misses, connections, share_of, when,
};
use crate::doctor::sessions;
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "memory of the server's machine that programs could still get, as a share of all",
        threshold: "look: below 10 %, while the system says that it is low, or the server gives memory up for it",
        reason: "The server takes the memory that it may and keeps it, so a machine of its own has little left, \
                 which is normal. It matters only if the system asks for memory back.",
        after: "awesome-prometheus-alerts (10 %); the signals are the system's own",
        source: "sys.dm_os_sys_memory; process_physical_memory_low of sys.dm_os_process_memory",
        rights: "VIEW SERVER STATE",
        shown_by: "SELECT * FROM sys.dm_os_sys_memory; SELECT * FROM sys.dm_os_process_memory",
        ..Check::new("ms-memory", CheckQuestion::Memory, memory)
    },
    Check {
        figure: "tasks that could work and waited for a processor, for each processor",
        threshold: "look: one or more for each, at both looks",
        reason: "Then on average every task has to wait for a processor. A queue at one moment is chance. The \
                 server does not tell how busy the processors are: its machine does.",
        source: "runnable_tasks_count of sys.dm_os_schedulers",
        rights: "VIEW SERVER STATE",
        shown_by: "SELECT scheduler_id, runnable_tasks_count FROM sys.dm_os_schedulers WHERE status = 'VISIBLE ONLINE'",
        ..Check::new("ms-processors", CheckQuestion::Processor, processors)
    },
    Check {
        figure: "memory of the server's machine that is in use and not the server's, as a share of all",
        threshold: "look: above 15 %, where less than 10 % is available",
        reason: "If nothing is short, moving a program gains nothing. The figure includes the system itself, \
                 and the server does not tell which programs have the rest.",
        after: "mysqltuner (15 % of the memory)",
        source: "sys.dm_os_sys_memory; physical_memory_in_use_kb of sys.dm_os_process_memory",
        rights: "VIEW SERVER STATE",
        shown_by: "SELECT total_physical_memory_kb - available_physical_memory_kb - physical_memory_in_use_kb FROM sys.dm_os_sys_memory, \
                   sys.dm_os_process_memory",
        ..Check::new("ms-neighbours", CheckQuestion::Neighbours, neighbours)
    },
    Check {
        figure: "how much of the time of queries went into waiting for pages that were not in memory; where no query ended, the share of pages",
        threshold: "look: above 5 % of the time, or, where no query ended, above 1 % of the pages of a database that is larger than the memory; \
                    cannot tell: less than 1,000 pages between the looks, or started less than 24 h ago",
        reason: "Only the time decides, because nobody waits for pages that are read ahead. After a restart \
                 every cache is empty. A report that reads everything once is a false alarm. The counters' own \
                 hit ratio leaves out read-ahead, and page life expectancy has no right value.",
        after: "blobwise (5 % of the time); mysqltuner (99 % of the reads), for another server",
        source: "waits PAGEIOLATCH of sys.dm_os_wait_stats; total_elapsed_time of sys.dm_exec_query_stats; Page lookups and Page reads of \
                 sys.dm_os_performance_counters",
        rights: "VIEW SERVER STATE",
        shown_by: "SELECT wait_type, wait_time_ms FROM sys.dm_os_wait_stats WHERE wait_type LIKE 'PAGEIOLATCH[_]%'",
        ..Check::new("ms-buffer-pool", CheckQuestion::ServerMemory, pool)
    },
    Check {
        figure: "max server memory, against the memory of its machine and the size of the database",
        threshold: "look: less than half of the machine's memory for a database that is larger; or without a limit, while the system says that \
                    memory is low",
        reason: "Memory above the limit may be unused by anybody else. Without a limit the server also takes \
                 what the system needs; Microsoft recommends leaving some. A shared machine is a false alarm. \
                 Some editions have a lower limit of their own.",
        after: "Microsoft's documentation of max server memory",
        source: "sys.configurations; sys.dm_os_sys_memory; sys.allocation_units",
        rights: "VIEW SERVER STATE",
        shown_by: "SELECT value_in_use FROM sys.configurations WHERE name = 'max server memory (MB)'",
        ..Check::new("ms-max-memory", CheckQuestion::ServerMemory, most)
    },
    Check {
        figure: "queries that waited for memory to sort or to join in",
        threshold: "look: one or more at both looks",
        reason: "These queries do nothing until others end. A query with a far too large grant keeps others \
                 waiting, for example because of stale statistics. One that waits at one moment is normal.",
        after: "Microsoft's documentation of the counter; the two moments are blobwise's",
        source: "Memory Grants Pending of sys.dm_os_performance_counters",
        rights: "VIEW SERVER STATE",
        shown_by: "SELECT session_id, requested_memory_kb, granted_memory_kb, wait_time_ms FROM sys.dm_exec_query_memory_grants",
        ..Check::new("ms-memory-grants", CheckQuestion::ServerMemory, grants)
    },
    Check {
        figure: "connections, as a share of the maximum",
        threshold: "look: above 80 %",
        reason: "Further connections are refused. Use a pool in the application.",
        after: "awesome-prometheus-alerts (80 %)",
        source: "User Connections of sys.dm_os_performance_counters; @@MAX_CONNECTIONS",
        rights: "VIEW SERVER STATE",
        shown_by: "SELECT COUNT(*), @@MAX_CONNECTIONS FROM sys.dm_exec_sessions WHERE is_user_process = 1",
        ..Check::new("ms-connections", CheckQuestion::ServerMemory, connected)
    },
    Check {
        figure: "the longest time that a session has been idle in a transaction",
        threshold: "look: 5 min or more",
        reason: "The session keeps its locks, and the server keeps the log and old versions of rows for it.",
        after: "awesome-prometheus-alerts (transactions of some minutes); the time is blobwise's",
        source: "open_transaction_count and last_request_end_time of sys.dm_exec_sessions",
        rights: "VIEW SERVER STATE, to see sessions of others",
        shown_by: "SELECT session_id, last_request_end_time FROM sys.dm_exec_sessions WHERE status = 'sleeping' AND open_transaction_count > 0",
        ..Check::new("ms-idle-in-transaction", CheckQuestion::Queries, idle_in_transaction)
    },
];

/// Memory in bytes: of the machine, available, and used by the server.
fn memory_bytes(facts: &SubjectFacts) -> Result<(f64, f64, f64), UnknownReason> {
    const KB: f64 = 1024.0;
    let of = |field: &str| Ok::<f64, UnknownReason>(facts.number("server", field)? * KB);
    Ok((of("memory_kb")?.max(1.0), of("available_kb")?, of("used_kb")?))
}

/// True if the system or the server is low on memory.
fn is_low(facts: &SubjectFacts) -> Result<bool, UnknownReason> {
    Ok(facts.number("server", "is_low")? + facts.number("server", "is_giving_up")? > 0.0)
}

fn memory(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let (all, available, _) = memory_bytes(facts)?;
    let (share, is_low) = (available / all, is_low(facts)?);
    let signal = if is_low { ", and it is asked for" } else { "" };
    let figure = format!(
        "{} of {} are available ({}){signal}",
        units::bytes(available),
        units::bytes(all),
        units::percent(share)
    );
    Ok(CheckResult::now(when(share < 0.1 && is_low, Answer::Look), share, figure))
}

fn processors(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let count = facts.number("schedulers", "schedulers")?.max(1.0);
    let now = facts.number("schedulers", "runnable")?;
    let before = facts.number_before("schedulers", "runnable")?;
    let figure = format!(
        "{now:.0} for {}, and {before:.0} at the first look",
        units::counted(count as u64, "processor")
    );
    let (before, now) = (before / count, now / count);
    Ok(CheckResult::now(when(before >= 1.0 && now >= 1.0, Answer::Look), now, figure))
}

fn neighbours(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let (all, available, used) = memory_bytes(facts)?;
    let others = (all - available - used).max(0.0);
    let share = others / all;
    let figure = format!(
        "{} ({}) are others', {} are available",
        units::bytes(others),
        units::percent(share),
        units::percent(available / all)
    );
    Ok(CheckResult::now(when(share > 0.15 && available / all < 0.1, Answer::Look), share, figure))
}

fn pool(facts: &SubjectFacts, ages: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const FEW: f64 = 1000.0;
    up_long_enough(facts, ages.cache)?;
    let lookups = facts.growth("counters", "page_lookups")?;
    let reads = facts.growth("counters", "page_reads")?;
    if lookups < FEW {
        return Err(format!("only {lookups:.0} pages were asked for between the looks"));
    }
    // Reads include read-ahead.
    let share = share_of(reads, lookups);
    let (bytes, memory) = (facts.number("database", "bytes")?, facts.number("server", "target_kb")? * 1024.0);
    let words = format!(
        "{} of {} pages were read from files ({} of memory; the database has {})",
        units::percent(share),
        units::count(lookups),
        units::bytes(memory),
        units::bytes(bytes)
    );
    Ok(cache_misses(waiting_share(facts), share, bytes > memory, words))
}

/// Share of query time that was spent waiting for pages; `None` if no query ended.
fn waiting_share(facts: &SubjectFacts) -> Option<f64> {
    let waited = facts.growth("waits", "page_ms").ok()?;
    let us: f64 = facts.pairs("queries", "id").ok()?.iter().map(|pair| growth(pair, "us")).sum();
    (us > 0.0).then(|| share_of(waited * 1000.0, us))
}

fn most(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    /// Default: more than any machine has.
    const UNLIMITED_MB: f64 = 2_147_483_647.0;
    let (all, ..) = memory_bytes(facts)?;
    let limit_mb = facts.number("settings", "max_memory_mb")?;
    let (limit, bytes) = (limit_mb * 1_048_576.0, facts.number("database", "bytes")?);
    if limit_mb >= UNLIMITED_MB {
        let (answer, low) = match is_low(facts)? {
            true => (Answer::Look, ", where memory is low"),
            false => (Answer::Ok, ""),
        };
        let figure = format!("no limit on a machine of {}{low}", units::bytes(all));
        return Ok(CheckResult::in_words(answer, figure));
    }
    let [shown, of, for_] = [limit, all, bytes].map(units::bytes);
    let figure = format!("{shown} of {of}, for a database of {for_}");
    let answer = when(limit < all * 0.5 && bytes > limit, Answer::Look);
    Ok(CheckResult::now(answer, limit, figure))
}

fn grants(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let now = facts.number("counters", "grants_pending")?;
    let before = facts.number_before("counters", "grants_pending")?;
    let figure = format!("{now:.0}, and {before:.0} at the first look");
    Ok(CheckResult::now(when(now >= 1.0 && before >= 1.0, Answer::Look), now, figure))
}

fn connected(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let used = facts.number("counters", "connections")?;
    Ok(connections(used, facts.number("settings", "max_connections")?.max(1.0)))
}

fn idle_in_transaction(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    sees_others(facts)?;
    let is_idle = |row: &&Row| text(row, "status") == "sleeping" && or_zero(row, "transactions") > 0.0;
    let idle = facts.rows("sessions")?.iter().filter(is_idle);
    Ok(sessions::idle_in_transaction(
        idle.map(|row| (or_zero(row, "idle_seconds"), text(row, "id"))).collect(),
    ))
}
