//! Checks of the server's memory, sessions, and settings that reduce durability.

use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, number, or_zero, text};
use crate::doctor::finding::{
    Answer, Check, CheckQuestion, CheckResult, LeastAges, as_configured, cache_misses, connections, share_of,
    shipped_cache, when,
};
use crate::doctor::sessions;
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "how much of the time of queries went into reading blocks that were not in shared_buffers; where that is not timed, the \
                 share of blocks",
        threshold: "look: above 5 % of the time, or, where it is not timed, above 1 % of the blocks of a database that is larger than \
                    shared_buffers; cannot tell: less than 1,000 blocks between the looks, or started less than 24 h ago",
        reason: "A block in the kernel's cache costs microseconds, so only the time decides. After a restart \
                 every cache is empty. A report that reads everything once is a false alarm.",
        after: "blobwise (5 % of the time); PgHero (99 % of the blocks)",
        source: "blk_read_time, active_time, blks_read and blks_hit of pg_stat_database",
        rights: "none; track_io_timing on, for the time",
        shown_by: "SELECT blks_hit, blks_read, blk_read_time, active_time FROM pg_stat_database WHERE datname = current_database()",
        ..Check::new("pg-cache", CheckQuestion::ServerMemory, cache)
    },
    Check {
        figure: "shared_buffers, against the size of the database",
        threshold: "look: 128MB or less, and less than the database has",
        reason: "128MB is the shipped value for machines of any size; PostgreSQL's manual recommends a quarter \
                 of the memory. If the kernel's cache holds the rest, it may do little harm: see pg-cache.",
        after: "PostgreSQL's documentation of shared_buffers",
        source: "shared_buffers; pg_database_size",
        shown_by: "SHOW shared_buffers; SELECT pg_size_pretty(pg_database_size(current_database()))",
        ..Check::new("pg-shared-buffers", CheckQuestion::ServerMemory, shared_buffers)
    },
    Check {
        figure: "settings without which a power cut destroys the database",
        threshold: "bad: fsync or full_page_writes off",
        reason: "They gain speed, and a power cut can destroy the whole database.",
        after: "PostgreSQL's documentation of both",
        source: "fsync and full_page_writes",
        shown_by: "SHOW fsync; SHOW full_page_writes",
        ..Check::new("pg-safe", CheckQuestion::Disk, safe)
    },
    Check {
        figure: "connections, as a share of the maximum",
        threshold: "look: above 80 %",
        reason: "Further connections are refused, and each is a process with memory of its own. Put a pool in \
                 front of the server instead of allowing more.",
        after: "awesome-prometheus-alerts (80 %)",
        source: "pg_stat_activity; max_connections",
        shown_by: "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'",
        ..Check::new("pg-connections", CheckQuestion::ServerMemory, connected)
    },
    Check {
        figure: "sessions that waited for a lock of another at both looks, and deadlocks between them",
        threshold: "look: any",
        reason: "A faster server does not shorten a lock; a shorter transaction does. One waiting session at \
                 one moment is normal.",
        source: "pg_blocking_pids; deadlocks of pg_stat_database",
        rights: "pg_monitor, to see sessions of others",
        shown_by: "SELECT pid, pg_blocking_pids(pid), query FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
        ..Check::new("pg-locks", CheckQuestion::Queries, locks)
    },
    Check {
        figure: "the longest time that a session has been idle in a transaction",
        threshold: "look: 5 min or more",
        reason: "The session keeps its locks, and no table can be cleaned of what was deleted since the \
                 transaction began.",
        after: "awesome-prometheus-alerts (transactions of some minutes); the time is blobwise's",
        source: "state and state_change of pg_stat_activity",
        rights: "pg_monitor, to see sessions of others",
        shown_by: "SELECT pid, state_change, query FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'",
        ..Check::new("pg-idle-in-transaction", CheckQuestion::Queries, idle_in_transaction)
    },
];

/// Memory units as in the server's configuration and in `pg_size_pretty`.
const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];

fn cache(facts: &SubjectFacts, ages: &LeastAges) -> Result<CheckResult, UnknownReason> {
    ages.check_cache(facts.number("server", "up_seconds")?)?;
    let (read, hit) = (facts.growth("server", "blks_read")?, facts.growth("server", "blks_hit")?);
    if read + hit < 1000.0 {
        return Err(format!("only {:.0} blocks were asked for between the looks", read + hit));
    }
    let share = read / (read + hit);
    let (bytes, buffers) = (facts.number("server", "bytes")?, facts.number("settings", "shared_buffers")?);
    let words = format!(
        "{} of {} blocks were not in shared_buffers ({}; the database has {})",
        units::percent(share),
        units::count(read + hit),
        as_configured(buffers, UNITS),
        as_configured(bytes, UNITS)
    );
    let is_timed = facts.number("settings", "track_io_timing") == Ok(1.0);
    let active = facts.growth("server", "active_time").unwrap_or(0.0);
    let of_time = match is_timed && active > 0.0 {
        true => Some(share_of(facts.growth("server", "blk_read_time")?, active)),
        false => None,
    };
    Ok(cache_misses(of_time, share, bytes > buffers, words))
}

fn shared_buffers(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let (bytes, buffers) = (facts.number("server", "bytes")?, facts.number("settings", "shared_buffers")?);
    Ok(shipped_cache("shared_buffers", [buffers, bytes], UNITS))
}

fn safe(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let row = facts.row("settings")?;
    let settings = ["fsync", "full_page_writes"];
    let off: Vec<String> = settings
        .iter()
        .filter(|name| number(row, name) == Some(0.0))
        .map(|name| format!("{name} is off"))
        .collect();
    let figure = if off.is_empty() { "fsync and full_page_writes are on".to_owned() } else { off.join(", ") };
    Ok(CheckResult::now(when(!off.is_empty(), Answer::Bad), off.len() as f64, figure))
}

fn connected(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    // Plus our own connection.
    let used = facts.rows("sessions")?.len() as f64 + 1.0;
    Ok(connections(used, facts.number("settings", "max_connections")?))
}

fn locks(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let blocker = |row: &Row| Some(text(row, "blocked_by").to_owned()).filter(|blocker| !blocker.is_empty());
    let deadlocks = facts.growth("server", "deadlocks")?;
    Ok(sessions::waiting(facts.pairs("sessions", "pid")?, "pid", blocker, deadlocks))
}

fn idle_in_transaction(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let is_idle = |state: &str| ["idle in transaction", "idle in transaction (aborted)"].contains(&state);
    let idle = facts.rows("sessions")?.iter().filter(|row| is_idle(text(row, "state")));
    let waits = idle.map(|row| (or_zero(row, "in_state_seconds"), text(row, "pid")));
    Ok(sessions::idle_in_transaction(waits.collect()))
}
