//! Checks of Redis and Valkey: memory, evictions, persistence, slow commands and connections.

use crate::doctor::answers;
use crate::doctor::facts::{SubjectFacts, UnknownReason, number, or_zero, text};
use crate::doctor::finding::{Answer, Check, CheckQuestion, CheckResult, LeastAges, as_configured, when};
use crate::units;

/// The checks of a Redis or Valkey server.
pub const CHECKS: &[&[Check]] = &[ANSWERS, ALL];

const ANSWERS: &[Check] = &[Check {
    rights: "+ping",
    ..answers::check("redis-answer-time", "redis-cli --latency -h HOST -p PORT")
}];

const ALL: &[Check] = &[
    Check {
        figure: "memory in use, of maxmemory, or of the machine's where there is no limit",
        threshold: "look: above 90 %; bad: above 90 % of the machine's, without a limit",
        reason: "At its limit Redis evicts keys or refuses writes, by its policy. A full cache is normal; \
                 redis-evictions tells whether that costs. Without a limit, the kernel kills it.",
        after: "awesome-prometheus-alerts (90 %)",
        source: "used_memory, maxmemory and total_system_memory of INFO",
        rights: "+info",
        shown_by: "redis-cli INFO memory",
        ..Check::new("redis-memory", CheckQuestion::ServerMemory, memory)
    },
    Check {
        figure: "keys evicted per second, and the share of reads that found nothing",
        threshold: "look: keys are thrown away while 20 % or more of the reads find nothing; cannot tell: started less than 24 h ago",
        reason: "Evicting keys that nobody asks for again is what a cache is for. A cache that has just started \
                 finds nothing either.",
        source: "evicted_keys, keyspace_hits and keyspace_misses of INFO",
        rights: "+info",
        shown_by: "redis-cli INFO stats",
        ..Check::new("redis-evictions", CheckQuestion::ServerMemory, evictions)
    },
    Check {
        figure: "memory taken from the system over memory used (fragmentation)",
        threshold: "look: above 1.5, of 100 MB or more",
        reason: "The rest is lost to fragmentation. With little memory the ratio says nothing, because the \
                 program itself is most of it.",
        after: "Redis's documentation of memory optimization",
        source: "used_memory_rss and used_memory of INFO",
        rights: "+info",
        shown_by: "redis-cli MEMORY DOCTOR",
        ..Check::new("redis-fragmentation", CheckQuestion::ServerMemory, fragmentation)
    },
    Check {
        figure: "whether the last snapshot and the last write of the log went well, and whether there are any",
        threshold: "bad: the last one failed; look: neither snapshots nor a log, in a server that throws nothing away",
        reason: "A failed snapshot goes unnoticed until you need it. A server without snapshots and log is a \
                 cache; the policy noeviction suggests that it is meant to be more.",
        after: "Redis's documentation of persistence",
        source: "rdb_last_bgsave_status and aof_last_write_status of INFO; save and appendonly",
        rights: "+info, +config|get",
        shown_by: "redis-cli INFO persistence; redis-cli CONFIG GET save",
        ..Check::new("redis-persistence", CheckQuestion::Disk, persistence)
    },
    Check {
        figure: "commands logged as slow between the looks",
        threshold: "look: any",
        reason: "All other commands wait meanwhile. The log holds slowlog-max-len entries; once it is full, new \
                 ones cannot be counted.",
        after: "Redis's documentation of SLOWLOG (10 ms, as shipped)",
        source: "SLOWLOG LEN; its entries, which have values, are not read",
        rights: "+slowlog|len",
        shown_by: "redis-cli SLOWLOG GET 10",
        ..Check::new("redis-slow-commands", CheckQuestion::Queries, slow)
    },
    Check {
        figure: "connections refused because there were too many",
        threshold: "look: any between the looks, or above 80 % of maxclients",
        reason: "Further connections are refused. Use a pool in the application.",
        after: "awesome-prometheus-alerts (any; 90 %)",
        source: "rejected_connections, connected_clients and maxclients of INFO",
        rights: "+info",
        shown_by: "redis-cli INFO clients",
        ..Check::new("redis-connections", CheckQuestion::Network, connections)
    },
];

fn memory(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let used = facts.number("info", "used_memory")?;
    let limit = facts.number("info", "maxmemory")?;
    let of = if limit > 0.0 { limit } else { facts.number("info", "total_system_memory")? };
    let share = used / of.max(1.0);
    let [shown, most] = [used, of].map(|bytes| as_configured(bytes, ["kb", "mb", "gb", "tb"]));
    let figure = match limit > 0.0 {
        true => format!("{shown} of maxmemory = {most}"),
        false => format!("{shown} of the machine's {most}, without a limit"),
    };
    let answer = when(share > 0.9, if limit > 0.0 { Answer::Look } else { Answer::Bad });
    Ok(CheckResult::now(answer, share, figure))
}

fn evictions(facts: &SubjectFacts, ages: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let up = facts.number("info", "uptime_in_seconds")?;
    if up < ages.cache {
        return Err(format!("it was started {} ago: it may still be filling", units::seconds(up)));
    }
    let rate = facts.growth("info", "evicted_keys")? / facts.seconds();
    let (hits, misses) = (facts.growth("info", "keyspace_hits")?, facts.growth("info", "keyspace_misses")?);
    let missed = misses / (hits + misses).max(1.0);
    let figure = format!(
        "{rate:.0} keys thrown away in a second; {} of {:.0} reads found nothing",
        units::percent(missed),
        hits + misses
    );
    Ok(CheckResult::new(when(rate > 0.0 && missed >= 0.2, Answer::Look), rate, figure))
}

fn fragmentation(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const LITTLE: f64 = 100e6;
    let (had, used) = (facts.number("info", "used_memory_rss")?, facts.number("info", "used_memory")?);
    let ratio = had / used.max(1.0);
    let figure = format!("{ratio:.2}: {} for {}", units::bytes(had), units::bytes(used));
    Ok(CheckResult::now(when(ratio > 1.5 && had >= LITTLE, Answer::Look), ratio, figure))
}

fn persistence(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let info = facts.row("info")?;
    let failed: Vec<&str> = [
        ("rdb_last_bgsave_status", "the last snapshot"),
        ("aof_last_write_status", "the last write of the log"),
    ]
    .iter()
    .filter(|(field, _)| text(info, field) == "err")
    .map(|(_, what)| *what)
    .collect();
    if !failed.is_empty() {
        let figure = format!("failed: {}", failed.join(", "));
        return Ok(CheckResult::now(Answer::Bad, failed.len() as f64, figure));
    }
    let settings = facts.row("settings")?;
    let (snapshots, log) = (!text(settings, "save").is_empty(), number(settings, "appendonly") == Some(1.0));
    let is_kept = snapshots || log || text(info, "role") != "master";
    let policy = text(info, "maxmemory_policy");
    let holds = or_zero(info, "used_memory");
    let figure = format!(
        "snapshots {}, log {}, policy {policy}",
        if snapshots { "on" } else { "off" },
        if log { "on" } else { "off" }
    );
    Ok(CheckResult::now(when(!is_kept && policy == "noeviction", Answer::Look), holds, figure))
}

fn slow(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let (noted, all) = (facts.growth("slow", "count")?, facts.number("slow", "count")?);
    let figure = format!("{noted} between the looks, {all} in the log");
    Ok(CheckResult::new(when(noted > 0.0, Answer::Look), noted, figure))
}

fn connections(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let refused = facts.growth("info", "rejected_connections")?;
    let used = facts.number("info", "connected_clients")?;
    let most = facts.number("info", "maxclients").unwrap_or(f64::INFINITY);
    let figure = format!("{refused} refused; {used} of {most}");
    Ok(CheckResult::new(when(refused > 0.0 || used > most * 0.8, Answer::Look), refused, figure))
}
