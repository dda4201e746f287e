//! Who takes memory and processor time of the machine, by the names of programs.

use std::collections::BTreeMap;

use serde_json::json;

use crate::doctor::facts::Row;

/// Programs that are databases and caches: they are what the machine is for.
const DATABASES: &[&str] = &[
    "postgres",
    "mysqld",
    "mariadbd",
    "mongod",
    "mongos",
    "ferretdb",
    "sqlservr",
    "redis-server",
    "valkey-server",
    "memcached",
];

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The name of its program, as the kernel has it: at most 15 bytes.
    pub name: String,
    /// Its proportional share of memory, where that may be read, or else what it has for itself.
    memory_bytes: u64,
    /// Processor time, in seconds.
    processor_seconds: f64,
}

impl Process {
    /// Whether the machine is for this.
    pub fn is_database(&self) -> bool {
        is_database(&self.name)
    }
}

/// Whether a program is a database.
pub fn is_database(name: &str) -> bool {
    DATABASES.contains(&name)
}

/// Every process but this one and the kernel's own.
pub fn all() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id()).filter_map(process).collect()
}

fn process(pid: u32) -> Option<Process> {
    /// Less is not worth the kernel's work of adding up shares.
    const SMALL_BYTES: u64 = 8 << 20;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (begin, rest) = stat.rsplit_once(')')?;
    let name = begin.split_once('(')?.1.to_owned();
    // Behind the name: state, and as the 12th and 13th processor time in ticks, as the 22nd pages in memory.
    let fields: Vec<u64> = rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let resident_bytes = fields.get(21)? * rustix::param::page_size() as u64;
    if resident_bytes == 0 {
        return None;
    }
    let proportional = || {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    let own = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    let memory_bytes = match resident_bytes {
        0..SMALL_BYTES => resident_bytes,
        _ => proportional().or_else(own).unwrap_or(resident_bytes),
    };
    let ticks = fields.get(11)? + fields.get(12)?;
    let processor_seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Some(Process { pid, name, memory_bytes, processor_seconds })
}

/// The sums of all processes of a name.
pub fn by_name(processes: &[Process]) -> Vec<Row> {
    let mut sums: BTreeMap<&str, (u64, f64, u64)> = BTreeMap::new();
    for process in processes {
        let sum = sums.entry(&process.name).or_default();
        sum.0 += process.memory_bytes;
        sum.1 += process.processor_seconds;
        sum.2 += 1;
    }
    let row = |(name, (memory, seconds, count)): (&str, (u64, f64, u64))| {
        Row::from_iter([
            ("name".to_owned(), json!(name)),
            ("memory_bytes".to_owned(), json!(memory)),
            ("processor_seconds".to_owned(), json!(seconds)),
            ("processes".to_owned(), json!(count)),
        ])
    };
    sums.into_iter().map(row).collect()
}
