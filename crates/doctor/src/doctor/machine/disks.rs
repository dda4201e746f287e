//! Checks of file systems and their devices.

use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, number, or_zero, text};
use crate::doctor::finding::{
    Answer, Check, CheckQuestion, CheckResult, FigurePeriod, LeastAges, share_of, when,
};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "how full the file system is, in bytes or in inodes",
        threshold: "look: above 90 %; bad: above 98 %",
        reason: "A database that cannot write its log stops. Long before that, file systems write more slowly \
                 and in smaller pieces.",
        after: "awesome-prometheus-alerts (90 %); the second is blobwise's",
        source: "statvfs of the data directory: --data-dir, or else where databases of this machine work",
        shown_by: "df -h DIR; df -i DIR",
        ..Check::new("disk-full", CheckQuestion::Disk, full)
    },
    Check {
        figure: "share of the time in which the device had requests, and how many it had at once",
        threshold: "look: above 80 % with 4 or more at once, on average over the whole time",
        reason: "A device that serves many requests at once can always be busy and still have room; a queue \
                 shows that it is full.",
        after: "awesome-prometheus-alerts (80 %); the number at once is blobwise's",
        source: "/sys/class/block/DEVICE/stat",
        shown_by: "iostat -x 5 2 (%util, aqu-sz)",
        ..Check::new("disk-busy", CheckQuestion::Disk, busy)
    },
    Check {
        figure: "share of the time in which every task that could work waited for a disk",
        threshold: "look: 10 % or more",
        reason: "In this time the whole machine did nothing but wait for disks.",
        source: "`full` of /proc/pressure/io",
        shown_by: "cat /proc/pressure/io",
        ..Check::new("disk-waited", CheckQuestion::Disk, waited)
    },
    Check {
        figure: "errors recorded by the file system, and whether it is writable",
        threshold: "bad: any error, or mounted read-only",
        reason: "ext4 keeps the count until the file system is checked. A kernel that finds one may mount read-only.",
        source: "/sys/fs/ext4/DEVICE/errors_count; the mount's options",
        shown_by: "cat /sys/fs/ext4/DEVICE/errors_count; findmnt -T DIR",
        ..Check::new("disk-errors", CheckQuestion::Disk, errors)
    },
    Check {
        figure: "what kind of file system the data lie on, what lies below it, and how it is mounted",
        threshold: "bad: in memory, also below a loop device or an overlay, or flushes not passed on (nobarrier, barrier=0); look: what lies \
                    below cannot be seen, as with a container's layer or a network's",
        reason: "A power cut takes everything in memory, and everything acknowledged while flushes were \
                 ignored. A container's layer goes with the container, and network file systems flush by other \
                 rules.",
        source: "/proc/self/mountinfo, /sys/dev/block",
        shown_by: "findmnt -T DIR",
        ..Check::new("disk-filesystem", CheckQuestion::Disk, filesystem)
    },
    Check {
        figure: "what the device keeps of its own health (SMART, the log of NVMe)",
        threshold: "cannot tell: always",
        reason: "Reading it takes commands to the device, and blobwise sends none. A virtual disk has no health \
                 of its own; its host knows.",
        source: "the bus of the device, in /sys/class/block",
        rights: "none; root, for the command",
        shown_by: "smartctl -a DEVICE",
        ..Check::new("disk-health", CheckQuestion::Disk, health)
    },
];

/// Finding for the worst of several file systems; `of` returns the answer, the figure and its text for one.
fn worst<'f>(
    facts: &'f SubjectFacts,
    of: impl Fn((Option<&'f Row>, &'f Row)) -> Option<(Answer, f64, String)>,
) -> Result<CheckResult, UnknownReason> {
    let mut all: Vec<(Answer, f64, String)> =
        facts.pairs("disks", "dir")?.into_iter().filter_map(of).collect();
    all.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
    let named =
        all.iter().filter(|(answer, ..)| *answer > Answer::Ok).map(|(_, _, words)| words.clone()).collect();
    let (answer, value, words) =
        all.into_iter().next().ok_or("the kernel does not say it of this file system")?;
    Ok(CheckResult::new(answer, value, words).naming(named))
}

fn full(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let found = worst(facts, |(_, row)| {
        let share = |free: &str, all: &str| {
            let all = number(row, all).filter(|all| *all > 0.0)?;
            Some(1.0 - or_zero(row, free) / all)
        };
        let bytes = share("free_bytes", "usable_bytes")?;
        // File systems that allocate inodes on demand report none.
        let inodes = share("free_inodes", "inodes").unwrap_or(0.0);
        let most = bytes.max(inodes);
        let answer = if most > 0.98 { Answer::Bad } else { when(most > 0.9, Answer::Look) };
        let of_inodes = if inodes > bytes {
            format!(" ({} of its inodes)", units::percent(inodes))
        } else {
            String::new()
        };
        let free = units::bytes(or_zero(row, "free_bytes"));
        let words =
            format!("`{}` is {} full{of_inodes}, {free} are free", text(row, "dir"), units::percent(bytes));
        Some((answer, most, words))
    })?;
    Ok(found.with_period(FigurePeriod::Now))
}

fn busy(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let ms = facts.seconds() * 1e3;
    worst(facts, |pair| {
        number(pair.1, "busy_ms")?;
        pair.0?;
        let (share, at_once) = (share_of(growth(&pair, "busy_ms"), ms), growth(&pair, "queue_ms") / ms);
        let answer = when(share > 0.8 && at_once >= 4.0, Answer::Look);
        let requests = growth(&pair, "reads") + growth(&pair, "writes");
        let spent = growth(&pair, "read_ms") + growth(&pair, "write_ms");
        let each = if requests > 0.0 { spent / requests * 1e6 } else { 0.0 };
        let words = format!(
            "`{}` had requests {} of the time, {at_once:.1} at once, {} each",
            text(pair.1, "device"),
            units::percent(share),
            units::nanoseconds(each)
        );
        Some((answer, share, words))
    })
}

fn waited(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let share = share_of(facts.growth("pressure", "io_full")?, facts.seconds());
    let figure = format!("nothing else could be done {} of the time", units::percent(share));
    Ok(CheckResult::new(when(share >= 0.1, Answer::Look), share, figure))
}

fn errors(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let found = worst(facts, |(_, row)| {
        let (dir, errors) = (text(row, "dir"), number(row, "errors"));
        let read_only = or_zero(row, "read_only") > 0.0;
        let words = match (errors, read_only) {
            (_, true) => format!("`{dir}` is mounted read-only"),
            (Some(errors), _) => format!("{errors} errors noted by the file system of `{dir}`"),
            (None, _) => format!("`{dir}` is writable; its file system keeps no count of errors"),
        };
        let errors = errors.unwrap_or(0.0);
        Some((when(errors > 0.0 || read_only, Answer::Bad), errors, words))
    })?;
    Ok(found.with_period(FigurePeriod::Now))
}

/// Never tells; the reason names each device.
fn health(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let said = facts.rows("disks")?.iter().filter(|row| !text(row, "device").is_empty()).map(|row| {
        let device = text(row, "device");
        match or_zero(row, "virtual") > 0.0 {
            true => format!("`{device}` is a virtual disk: its host knows the health of what lies below it"),
            false => {
                format!("what `{device}` keeps of its health is not read: that takes commands to the device")
            }
        }
    });
    let mut said: Vec<String> = said.collect();
    said.dedup();
    Err(if said.is_empty() {
        "there is no device below these directories".to_owned()
    } else {
        said.join("; ")
    })
}

fn filesystem(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let mut found = worst(facts, |(_, row)| {
        let (dir, below, without) = (text(row, "dir"), text(row, "below"), text(row, "without_flushes"));
        if below.is_empty() {
            return None;
        }
        let is = |name: &str| or_zero(row, name) > 0.0;
        let (answer, more) = match without {
            "" if is("in_memory") => (Answer::Bad, ", which is memory".to_owned()),
            "" if is("not_known") => (Answer::Look, ", below which nothing can be seen".to_owned()),
            "" => (Answer::Ok, String::new()),
            layers => (Answer::Bad, format!(", and no flush is passed on by {layers}")),
        };
        Some((answer, 0.0, format!("`{dir}` lies on {below}{more}")))
    })?;
    found.value = None;
    Ok(found.with_period(FigurePeriod::Now))
}
