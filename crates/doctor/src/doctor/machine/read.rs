//! One look at the machine: the kernel's statistics as rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::processes::{self, ProcessSample};
use crate::doctor::facts::{Row, Sample, SourceAnswer};
use crate::host::machine::{Medium, cores, facts, uptime};

/// Examines the machine and the file systems of these directories; without directories, those of the running databases.
pub fn look(dirs: &[PathBuf]) -> Sample {
    let processes = processes::all();
    let mut told = BTreeMap::new();
    let mut tell = |source: &str, rows: Result<Vec<Row>, String>| {
        told.insert(source.to_owned(), rows.map_or_else(SourceAnswer::Refused, SourceAnswer::Rows));
    };
    tell("memory", lines("/proc/meminfo", meminfo));
    tell("vmstat", lines("/proc/vmstat", spaced));
    tell("pressure", pressure());
    tell("processors", lines("/proc/stat", ticks));
    tell("groups", Ok(groups(&processes)));
    tell("disks", Ok(directories(dirs, &processes).iter().map(|dir| disk(dir)).collect()));
    tell("tcp", tcp());
    tell("interfaces", Ok(interfaces()));
    tell("processes", Ok(processes::by_name(&processes)));
    Sample { seconds: uptime().as_secs_f64(), told }
}

fn row(pairs: impl IntoIterator<Item = (String, Value)>) -> Row {
    pairs.into_iter().collect()
}

/// Parses a file of the kernel's into one row.
fn lines(path: &str, of: fn(&str) -> Row) -> Result<Vec<Row>, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(vec![of(&text)]),
        Err(error) => Err(format!("`{path}` cannot be read: {error}")),
    }
}

/// Parses lines of the form `Name: N kB` into bytes.
fn meminfo(text: &str) -> Row {
    row(text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        let kib: u64 = rest.split_whitespace().next()?.parse().ok()?;
        Some((name.to_owned(), json!(kib << 10)))
    }))
}

fn spaced(text: &str) -> Row {
    row(text.lines().filter_map(|line| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), json!(number.trim().parse::<u64>().ok()?)))
    }))
}

/// Parses the first line of `/proc/stat` into seconds, and adds the number of cores.
fn ticks(text: &str) -> Row {
    const NAMES: &[&str] = &["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
    let second = rustix::param::clock_ticks_per_second() as f64;
    let first = text.lines().next().unwrap_or_default();
    let ticks = first.split_whitespace().skip(1).filter_map(|tick| tick.parse::<f64>().ok());
    let mut row = row(NAMES.iter().zip(ticks).map(|(name, tick)| ((*name).to_owned(), json!(tick / second))));
    row.insert("cores".to_owned(), json!(cores()));
    row
}

/// Pressure stall information: seconds in which some task (`some`), or all tasks (`full`), waited for a resource.
fn pressure() -> Result<Vec<Row>, String> {
    let mut all = Row::new();
    for what in ["memory", "cpu", "io"] {
        let text = std::fs::read_to_string(format!("/proc/pressure/{what}"))
            .map_err(|error| format!("`/proc/pressure` cannot be read: {error}"))?;
        for line in text.lines() {
            let who = line.split(' ').next().unwrap_or_default();
            let total = line.rsplit_once("total=").and_then(|(_, total)| total.parse::<f64>().ok());
            all.extend(total.map(|total| (format!("{what}_{who}"), json!(total / 1e6))));
        }
    }
    Ok(vec![all])
}

// ---- control groups --------------------------------------------------------------------------------------------------

/// CPU control groups of this process and of the running databases, with their throttling counters.
fn groups(processes: &[ProcessSample]) -> Vec<Row> {
    let databases = processes.iter().filter(|process| process.is_database());
    let mut who: BTreeMap<PathBuf, String> = BTreeMap::new();
    for process in databases {
        who.extend(group_of(&process.pid.to_string()).map(|group| (group, process.name.clone())));
    }
    if let Some(own) = group_of("self") {
        who.entry(own).or_insert_with(|| "this shell".to_owned());
    }
    let rows = who.into_iter().filter_map(|(path, name)| {
        let mut row = spaced(&std::fs::read_to_string(path.join("cpu.stat")).ok()?);
        row.insert("who".to_owned(), json!(name));
        row.insert("group".to_owned(), json!(path.display().to_string()));
        Some(row)
    });
    rows.collect()
}

/// Finds the CPU control group of a process: version 1 has a hierarchy of its own for it, version 2 a single one.
fn group_of(process: &str) -> Option<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let is_cpu = |names: &str| names.is_empty() || names.split(',').any(|name| name == "cpu");
    lines.find_map(|(names, path)| {
        let roots =
            ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
        let places = roots.iter().map(|root| Path::new(root).join(path.trim_start_matches('/')));
        let has_periods = |place: &PathBuf| {
            std::fs::read_to_string(place.join("cpu.stat"))
                .is_ok_and(|text| spaced(&text).contains_key("nr_periods"))
        };
        is_cpu(names).then(|| places.into_iter().find(has_periods)).flatten()
    })
}

// ---- disks -----------------------------------------------------------------------------------------------------------

/// Directories to examine: the given ones, otherwise the working directories of databases, otherwise the root.
fn directories(named: &[PathBuf], processes: &[ProcessSample]) -> Vec<PathBuf> {
    if !named.is_empty() {
        return named.to_vec();
    }
    let databases = processes.iter().filter(|process| process.is_database());
    let mut found: Vec<PathBuf> = databases
        .filter_map(|process| std::fs::read_link(format!("/proc/{}/cwd", process.pid)).ok())
        // The path of a process in another mount namespace does not exist here.
        .filter(|dir| dir.is_dir())
        .collect();
    found.sort();
    found.dedup();
    if found.is_empty() { vec![PathBuf::from("/")] } else { found }
}

/// True if a device is on a virtual machine's bus; such a device has no health data of its own.
fn is_virtual(device: &str) -> bool {
    let place = std::fs::canonicalize(format!("/sys/class/block/{device}")).unwrap_or_default();
    let on_bus = |part: std::path::Component<'_>| {
        let name = part.as_os_str().to_string_lossy();
        ["virtio", "vbd-"].iter().any(|bus| name.starts_with(bus))
    };
    place.components().any(on_bus)
}

/// Statistics of a directory's file system and of the device below it.
fn disk(dir: &Path) -> Row {
    let machine = facts(dir);
    let mut row = Row::new();
    let mut put = |name: &str, value: Value| drop(row.insert(name.to_owned(), value));
    put("dir", json!(dir.display().to_string()));
    put("filesystem", json!(machine.filesystem));
    if let Some(below) = &machine.below {
        put("below", json!(below.description()));
        put("in_memory", json!(below.medium == Medium::Memory));
        put("not_known", json!(below.medium == Medium::NotKnown));
        put("without_flushes", json!(below.without_flushes.join(", ")));
    }
    if let Ok(space) = rustix::fs::statvfs(dir) {
        let block = space.f_frsize;
        put("bytes", json!(space.f_blocks.saturating_mul(block)));
        // Blocks reserved for root are not usable by others.
        let taken = space.f_blocks.saturating_sub(space.f_bfree);
        put("usable_bytes", json!(taken.saturating_add(space.f_bavail).saturating_mul(block)));
        put("free_bytes", json!(space.f_bavail.saturating_mul(block)));
        put("inodes", json!(space.f_files));
        put("free_inodes", json!(space.f_favail));
        put("read_only", json!(space.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY)));
    }
    let Some(device) = machine.device else { return row };
    put("virtual", json!(is_virtual(&device)));
    put("device", json!(device));
    let errors = std::fs::read_to_string(format!("/sys/fs/ext4/{device}/errors_count"));
    if let Some(errors) = errors.ok().and_then(|text| text.trim().parse::<u64>().ok()) {
        put("errors", json!(errors));
    }
    let stat = std::fs::read_to_string(format!("/sys/class/block/{device}/stat")).unwrap_or_default();
    let fields: Vec<u64> = stat.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // `Documentation/block/stat.rst`: requests and milliseconds of reads and of writes, then busy time, and the sum of waiting
    // times.
    for (name, at) in
        [("reads", 0), ("read_ms", 3), ("writes", 4), ("write_ms", 7), ("busy_ms", 9), ("queue_ms", 10)]
    {
        if let Some(value) = fields.get(at) {
            put(name, json!(value));
        }
    }
    row
}

// ---- network ---------------------------------------------------------------------------------------------------------

/// Parses the TCP lines of `/proc/net/snmp` and `/proc/net/netstat`: names, then numbers.
fn tcp() -> Result<Vec<Row>, String> {
    let mut all = Row::new();
    for (path, prefix) in [("/proc/net/snmp", "Tcp: "), ("/proc/net/netstat", "TcpExt: ")] {
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("`{path}` cannot be read: {error}"))?;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
        let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { continue };
        for (name, number) in names.split(' ').zip(numbers.split(' ')) {
            all.extend(number.parse::<i64>().ok().map(|number| (name.to_owned(), json!(number))));
        }
    }
    Ok(vec![all])
}

/// Traffic and errors of every interface except the loopback.
fn interfaces() -> Vec<Row> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let rows = entries.filter(|entry| entry.file_name() != "lo").filter_map(|entry| {
        let mut row = Row::from_iter([("interface".to_owned(), json!(entry.file_name().to_string_lossy()))]);
        for name in ["rx_packets", "tx_packets", "rx_errors", "tx_errors", "rx_bytes", "tx_bytes"] {
            let text = std::fs::read_to_string(entry.path().join("statistics").join(name)).ok()?;
            row.insert(name.to_owned(), json!(text.trim().parse::<u64>().ok()?));
        }
        Some(row)
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::number;

    #[test]
    fn what_the_kernel_writes_is_read() {
        let row = meminfo("MemTotal:  2048 kB\nHugePages_Total:   0\n");
        assert_eq!(number(&row, "MemTotal"), Some(2_097_152.0));
        let row = ticks("cpu  100 0 50 800 20 0 5 25 0 0\ncpu0 1\n");
        let second = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(number(&row, "steal"), Some(25.0 / second));
        let row = spaced("nr_periods 12\nnr_throttled 3\nusage_usec 7\n");
        assert_eq!(number(&row, "nr_throttled"), Some(3.0));
    }

    #[test]
    fn this_machine_says_what_is_asked() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let sample = look(&[dir.path().to_owned()]);
        for source in ["memory", "vmstat", "processors", "tcp", "disks", "processes"] {
            assert!(matches!(&sample.told[source], SourceAnswer::Rows(rows) if !rows.is_empty()), "{source}");
        }
        let SourceAnswer::Rows(disks) = &sample.told["disks"] else { panic!("no disk") };
        assert!(number(&disks[0], "usable_bytes") > number(&disks[0], "free_bytes"));
    }
}
