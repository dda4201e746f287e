//! Checks of the server's files, volumes and damaged pages.

use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, or_zero, text};
use crate::doctor::finding::{Answer, Check, CheckQuestion, CheckResult, LeastAges, when};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "how long a request to a file took, as the server waited for it, between the looks",
        threshold: "look: 15 ms or more, of 100 requests or more; cannot tell: no file had as many",
        reason: "An SSD answers within 1 ms. An answer after 15 ms comes from a queue, a rotating disk or a \
                 rented disk's limit. Large sequential requests, as of a backup, take longer and do not count.",
        after: "Microsoft's guide to slow I/O (10 to 15 ms)",
        source: "io_stall_read_ms, io_stall_write_ms and their numbers of sys.dm_io_virtual_file_stats",
        rights: "VIEW SERVER STATE",
        shown_by: "SELECT DB_NAME(database_id), file_id, io_stall_read_ms, num_of_reads, io_stall_write_ms, num_of_writes FROM \
                   sys.dm_io_virtual_file_stats(NULL, NULL)",
        ..Check::new("ms-file-waits", CheckQuestion::Disk, waits)
    },
    Check {
        figure: "how full the volumes are on which the files of the database lie",
        threshold: "look: above 90 %; bad: above 98 %",
        reason: "A database that cannot grow its log stops. Files that were made large enough never grow; then \
                 a full volume is intended.",
        after: "awesome-prometheus-alerts (90 %); the second is blobwise's",
        source: "sys.dm_os_volume_stats",
        rights: "VIEW SERVER STATE",
        shown_by: "SELECT DISTINCT v.volume_mount_point, v.available_bytes, v.total_bytes FROM sys.database_files f CROSS APPLY \
                   sys.dm_os_volume_stats(DB_ID(), f.file_id) v",
        ..Check::new("ms-volume-full", CheckQuestion::Disk, full)
    },
    Check {
        figure: "pages that were found broken when they were read",
        threshold: "bad: any that was neither restored nor repaired",
        reason: "The disk, or something in front of it, changed what was written. DBCC CHECKDB tells how far it \
                 goes, and an earlier backup has the pages. Only you empty this table, so an old row may be \
                 dealt with.",
        after: "Microsoft's documentation of suspect_pages",
        source: "msdb.dbo.suspect_pages, of types 1 to 3",
        rights: "SELECT on it, which every user of msdb has",
        shown_by: "SELECT * FROM msdb.dbo.suspect_pages",
        ..Check::new("ms-suspect-pages", CheckQuestion::Disk, suspect)
    },
    Check {
        figure: "settings of the database without which broken pages go unnoticed, or a power cut takes committed transactions",
        threshold: "bad: PAGE_VERIFY is NONE; look: it is TORN_PAGE_DETECTION, or DELAYED_DURABILITY is FORCED",
        reason: "Without a checksum, a page that the disk changed is returned as it is. With delayed \
                 durability, a power cut takes the last commits, which may be your choice. A page gets its \
                 checksum when it is next written, not when the option is set.",
        after: "Microsoft's documentation of both",
        source: "sys.databases",
        shown_by: "SELECT name, page_verify_option_desc, delayed_durability_desc FROM sys.databases",
        ..Check::new("ms-safe", CheckQuestion::Disk, safe)
    },
    Check {
        figure: "databases that cannot be used, and why",
        threshold: "bad: SUSPECT, or RECOVERY_PENDING; look: RESTORING, RECOVERING, EMERGENCY or COPYING",
        reason: "SUSPECT and RECOVERY_PENDING mean that something is missing or broken and the server gave up. \
                 A database that receives another's log is always RESTORING, which is normal. Somebody switched \
                 off one that is OFFLINE.",
        after: "Microsoft's documentation of database states",
        source: "sys.databases",
        rights: "VIEW ANY DATABASE, which every login has as shipped",
        shown_by: "SELECT name, state_desc FROM sys.databases WHERE state <> 0",
        ..Check::new("ms-database-states", CheckQuestion::Disk, states)
    },
];

/// Number of the first log file of a database.
const LOG: f64 = 2.0;

fn waits(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const FEW: f64 = 100.0;
    const LONG_MS: f64 = 15.0;
    let mut told: Vec<(f64, String)> = Vec::new();
    for pair in facts.pairs("files", "id")? {
        for (what, count, ms) in [("read", "reads", "read_ms"), ("write", "writes", "write_ms")] {
            let count = growth(&pair, count);
            if count >= FEW {
                let each = growth(&pair, ms) / count;
                told.push((each, describe_latency(pair.1, what, each, count)));
            }
        }
    }
    told.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (most, slowest) =
        told.first().cloned().ok_or_else(|| format!("no file had {FEW:.0} requests between the looks"))?;
    let named: Vec<String> =
        told.into_iter().filter(|(each, _)| *each >= LONG_MS).map(|(_, words)| words).collect();
    let figure = named.first().cloned().unwrap_or_else(|| format!("the most is {slowest}"));
    Ok(CheckResult::of_named(Answer::Look, most, figure, named))
}

fn describe_latency(row: &Row, what: &str, each: f64, count: f64) -> String {
    let number = or_zero(row, "number");
    let file = if number == LOG { "the log".to_owned() } else { format!("file {number:.0}") };
    let (name, time) = (text(row, "name"), units::nanoseconds(each * 1e6));
    format!("{time} for a {what} of {file} of `{name}`, of {}", units::count(count))
}

fn full(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let mut told: Vec<(f64, String)> = facts
        .rows("volumes")?
        .iter()
        .filter(|row| or_zero(row, "bytes") > 0.0)
        .map(|row| {
            let (all, free) = (or_zero(row, "bytes"), or_zero(row, "free_bytes"));
            let share = 1.0 - free / all;
            let (name, percent) = (text(row, "name"), units::percent(share));
            (
                share,
                format!(
                    "`{name}` is {percent} full, {} of {} are free",
                    units::bytes(free),
                    units::bytes(all)
                ),
            )
        })
        .collect();
    told.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (most, fullest) = told.first().cloned().ok_or("the server names no volume")?;
    let named: Vec<String> =
        told.into_iter().filter(|(share, _)| *share > 0.9).map(|(_, words)| words).collect();
    let answer = if most > 0.98 { Answer::Bad } else { when(most > 0.9, Answer::Look) };
    Ok(CheckResult::now(answer, most, fullest).naming(named))
}

fn suspect(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let rows = facts.rows("suspect")?;
    let named: Vec<String> =
        rows.iter().map(|row| format!("{:.0} of `{}`", or_zero(row, "broken"), text(row, "name"))).collect();
    let all: f64 = rows.iter().map(|row| or_zero(row, "broken")).sum();
    let figure = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
    Ok(CheckResult::now(when(all > 0.0, Answer::Bad), all, figure).naming(named))
}

fn safe(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let row = facts.row("database")?;
    let (verify, durability) = (text(row, "page_verify"), text(row, "delayed_durability"));
    if verify.is_empty() {
        return Err("`page_verify` is not told here".to_owned());
    }
    let answer = match (verify, durability) {
        ("NONE", _) => Answer::Bad,
        ("CHECKSUM", durability) => when(durability == "FORCED", Answer::Look),
        _ => Answer::Look,
    };
    let figure = format!("PAGE_VERIFY is {verify}, DELAYED_DURABILITY is {durability}");
    Ok(CheckResult::in_words(answer, figure))
}

fn states(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let rows = facts.rows("states")?;
    let is_broken = |row: &Row| ["SUSPECT", "RECOVERY_PENDING"].contains(&text(row, "state"));
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| !is_broken(row));
    let named: Vec<String> =
        rows.iter().map(|row| format!("`{}` is {}", text(row, "name"), text(row, "state"))).collect();
    let answer = match rows.first() {
        Some(row) if is_broken(row) => Answer::Bad,
        first => when(first.is_some(), Answer::Look),
    };
    let figure = named.first().cloned().unwrap_or_else(|| "all that are to be open are open".to_owned());
    Ok(CheckResult::now(answer, named.len() as f64, figure).naming(named))
}
