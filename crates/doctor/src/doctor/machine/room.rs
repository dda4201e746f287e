//! Checks of memory and processors, and of the programs that use them.

use super::processes::{is_database, processor_seconds};
use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, or_zero, text};
use crate::doctor::finding::{
    Answer, Check, CheckQuestion, CheckResult, FigurePeriod, LeastAges, share_of, when,
};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "memory that programs could still get, as a share of all memory",
        threshold: "look: below 10 %, while tasks waited for memory for 1 % of the time or more",
        reason: "A page cache that fills the memory is normal and not counted here. Little free memory matters \
                 only if programs wait for it.",
        after: "awesome-prometheus-alerts (10 %); the wait is blobwise's, because the share alone is a false alarm",
        source: "MemAvailable of /proc/meminfo; `some` of /proc/pressure/memory",
        shown_by: "grep -E 'MemTotal|MemAvailable' /proc/meminfo; cat /proc/pressure/memory",
        ..Check::new("memory-available", CheckQuestion::Memory, available)
    },
    Check {
        figure: "processes that the kernel killed because memory ran out",
        threshold: "bad: one between the looks; look: one since the system was started",
        reason: "The count includes kills by the limit of a control group. The kernel's log says when and which.",
        after: "awesome-prometheus-alerts (any)",
        source: "oom_kill of /proc/vmstat",
        shown_by: "grep oom_kill /proc/vmstat; dmesg | grep -i 'killed process'",
        ..Check::new("memory-killed", CheckQuestion::Memory, killed)
    },
    Check {
        figure: "pages read back from swap per second",
        threshold: "look: 100 or more",
        reason: "Each waits for the disk, about 100 us on an SSD: 100 of them are a hundredth of a second. \
                 Swapped memory that is never read back costs nothing.",
        source: "pswpin of /proc/vmstat",
        shown_by: "vmstat 1 5",
        ..Check::new("memory-swapped", CheckQuestion::Memory, swapped)
    },
    Check {
        figure: "share of all processors' time that was used, and the programs that used most of it",
        threshold: "look: above 80 %",
        reason: "Above that, response times grow faster than the load. Waiting for a disk is not counted: such a processor is idle.",
        after: "awesome-prometheus-alerts (80 %)",
        source: "the first line of /proc/stat; stat of every process",
        shown_by: "vmstat 1 5; top -b -n 1 -o %CPU | head -20",
        ..Check::new("processor-busy", CheckQuestion::Processor, busy)
    },
    Check {
        figure: "share of all processors' time that the hypervisor gave to others",
        threshold: "look: above 10 %",
        reason: "You do not get the time that you pay for: a larger machine on the same host may be no faster.",
        after: "awesome-prometheus-alerts (10 %)",
        source: "`steal` of /proc/stat",
        shown_by: "vmstat 1 5",
        ..Check::new("processor-stolen", CheckQuestion::Processor, stolen)
    },
    Check {
        figure: "share of periods in which a control group had used up its processor time",
        threshold: "bad: above 25 %, in the group of a database or of this shell",
        reason: "The processors exist but may not be used, so a larger machine with the same limit is no faster.",
        after: "awesome-prometheus-alerts (25 %)",
        source: "nr_throttled and nr_periods of cpu.stat",
        shown_by: "cat /sys/fs/cgroup/GROUP/cpu.stat",
        ..Check::new("processor-throttled", CheckQuestion::Processor, throttled)
    },
    Check {
        figure: "the largest share of memory or processor time of a program that is no database",
        threshold: "look: above 15 % of the memory where less than 10 % of it is available, or above 20 % of the processors where more than \
                    80 % are busy",
        reason: "If nothing is short, moving a program gains nothing. The program may well belong here.",
        after: "mysqltuner (15 % of the memory)",
        source: "stat and smaps_rollup of every process, added up by the program's name",
        rights: "root, to see how memory is shared by processes of others",
        shown_by: "top -b -n 1 -o %CPU | head -20",
        ..Check::new("neighbours", CheckQuestion::Neighbours, neighbours)
    },
];

fn available_share(facts: &SubjectFacts) -> Result<f64, UnknownReason> {
    Ok(facts.number("memory", "MemAvailable")? / facts.number("memory", "MemTotal")?.max(1.0))
}

fn available(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let share = available_share(facts)?;
    let all = units::bytes(facts.number("memory", "MemTotal")?);
    let free = units::bytes(facts.number("memory", "MemAvailable")?);
    let figure = format!("{free} of {all} are available ({})", units::percent(share));
    // Without pressure information in the kernel, little memory alone is worth a look.
    let Ok(waited) = facts.growth("pressure", "memory_some") else {
        return Ok(CheckResult::now(when(share < 0.1, Answer::Look), share, figure));
    };
    let waited = share_of(waited, facts.seconds());
    let answer = when(share < 0.1 && waited >= 0.01, Answer::Look);
    let figure = format!("{figure}; tasks waited for memory {} of the time", units::percent(waited));
    Ok(CheckResult::new(answer, share, figure))
}

fn killed(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let (now, all) = (facts.growth("vmstat", "oom_kill")?, facts.number("vmstat", "oom_kill")?);
    let figure = format!("{all} killed since the system was started, {now} of them between the looks");
    let answer = if now > 0.0 { Answer::Bad } else { when(all > 0.0, Answer::Look) };
    Ok(CheckResult::new(answer, all, figure).with_period(FigurePeriod::Seconds(up_seconds(facts))))
}

/// Uptime in seconds, computed from the time of all processors divided by their number.
fn up_seconds(facts: &SubjectFacts) -> f64 {
    let Ok(row) = facts.row("processors") else { return 0.0 };
    let all: f64 = PARTS.iter().map(|part| or_zero(row, part)).sum();
    all / or_zero(row, "cores").max(1.0)
}

fn swapped(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let rate = facts.growth("vmstat", "pswpin")? / facts.seconds();
    let in_use = facts.number("memory", "SwapTotal")? - facts.number("memory", "SwapFree")?;
    let figure =
        format!("{rate:.0} pages read back in a second; {} lie in swap", units::bytes(in_use.max(0.0)));
    Ok(CheckResult::new(when(rate >= 100.0, Answer::Look), rate, figure))
}

const PARTS: &[&str] = &["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

/// Share of all processors' time that these parts took.
fn part_of_time(facts: &SubjectFacts, parts: &[&str]) -> Result<f64, UnknownReason> {
    let of = |parts: &[&str]| -> Result<f64, UnknownReason> {
        parts.iter().map(|part| facts.growth("processors", part).or(Ok(0.0))).sum()
    };
    let all = of(PARTS)?;
    if all <= 0.0 { Err("no time passed between the looks".to_owned()) } else { Ok(of(parts)? / all) }
}

fn busy_share(facts: &SubjectFacts) -> Result<f64, UnknownReason> {
    // Stolen time was wanted here, too.
    part_of_time(facts, &["user", "nice", "system", "irq", "softirq", "steal"])
}

fn busy(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let share = busy_share(facts)?;
    let cores = facts.number("processors", "cores")?;
    let mut figure =
        format!("{} of {} used", units::percent(share), units::counted(cores as u64, "processor"));
    // Facts saved by an older blobwise have no names.
    let mut takers = processor_shares(facts).unwrap_or_default();
    takers.sort_by(|a, b| b.0.total_cmp(&a.0));
    takers.retain(|(share, _)| *share >= 0.01);
    let words = |(share, name): &(f64, &str)| format!("`{name}` {}", units::percent(*share));
    let named: Vec<String> = takers.iter().map(words).collect();
    if !named.is_empty() {
        figure += &format!(": {}", named[..named.len().min(3)].join(", "));
        let known: f64 = takers.iter().map(|(share, _)| share).sum();
        if share - known >= 0.1 {
            let rest = units::percent(share - known);
            figure += &format!("; {rest} by the kernel, by others, and by what ended meanwhile");
        }
    }
    Ok(CheckResult::new(when(share > 0.8, Answer::Look), share, figure).naming(named))
}

/// Share of all processors' time that each program used.
fn processor_shares(facts: &SubjectFacts) -> Result<Vec<(f64, &str)>, UnknownReason> {
    let all_seconds = facts.number("processors", "cores")? * facts.seconds();
    let pairs = facts.pairs("processes", "name")?;
    let of = |pair: &(Option<&Row>, &'_ Row)| processor_seconds(pair).map(|own| share_of(own, all_seconds));
    pairs.into_iter().map(|pair| Ok((of(&pair)?, text(pair.1, "name")))).collect()
}

fn stolen(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let share = part_of_time(facts, &["steal"])?;
    let figure = format!("{} went to other machines of the host", units::percent(share));
    Ok(CheckResult::new(when(share > 0.1, Answer::Look), share, figure))
}

fn throttled(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let mut worst: Option<(f64, &Row)> = None;
    for pair in facts.pairs("groups", "group")?.iter().filter(|pair| pair.0.is_some()) {
        let periods = growth(pair, "nr_periods");
        let share = if periods > 0.0 { growth(pair, "nr_throttled") / periods } else { 0.0 };
        if worst.is_none_or(|(most, _)| share > most) {
            worst = Some((share, pair.1));
        }
    }
    let Some((share, row)) = worst else {
        return Err("no control group of processors is seen from here".to_owned());
    };
    let (who, group) = (text(row, "who"), text(row, "group"));
    let figure = format!("held back in {} of its periods: the group of {who}", units::percent(share));
    Ok(CheckResult::new(when(share > 0.25, Answer::Bad), share, figure).naming(vec![group.to_owned()]))
}

fn neighbours(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let all_bytes = facts.number("memory", "MemTotal")?.max(1.0);
    let mut others: Vec<(f64, f64, &str)> = facts
        .rows("processes")?
        .iter()
        .zip(processor_shares(facts)?)
        .filter(|(_, (_, name))| !is_database(name))
        .map(|(row, (processors, name))| (or_zero(row, "memory_bytes") / all_bytes, processors, name))
        .collect();
    let short_of_memory = available_share(facts)? < 0.1;
    let short_of_processors = busy_share(facts)? > 0.8;
    others.sort_by(|a, b| f64::total_cmp(&b.0.max(b.1), &a.0.max(a.1)));
    let too_much = |(memory, processors, _): &&(f64, f64, &str)| {
        short_of_memory && *memory > 0.15 || short_of_processors && *processors > 0.2
    };
    let words = |(memory, processors, name): &(f64, f64, &str)| {
        format!(
            "`{name}`: {} of the memory, {} of the processors",
            units::percent(*memory),
            units::percent(*processors)
        )
    };
    let largest = others.first().ok_or("no process of others is seen from here")?;
    let hungry: Vec<String> = others.iter().filter(too_much).map(words).collect();
    let value = largest.0.max(largest.1);
    if hungry.is_empty() {
        return Ok(CheckResult::new(Answer::Ok, value, format!("the largest is {}", words(largest))));
    }
    let figure = format!("{} where it is short: {}", units::counted(hungry.len(), "program"), hungry[0]);
    Ok(CheckResult::new(Answer::Look, value, figure).naming(hungry))
}
