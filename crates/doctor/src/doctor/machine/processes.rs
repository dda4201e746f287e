//! Memory and processor time of the machine's processes, by program name.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::doctor::facts::Row;

/// Names of database and cache programs, which the machine is meant to run.
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
pub struct ProcessSample {
    /// Process id.
    pub pid: u32,
    /// Name of the program, which the kernel cuts to 15 bytes.
    pub name: String,
    /// Proportional share of memory (PSS) if it may be read, otherwise anonymous memory.
    memory_bytes: u64,
    processor_seconds: f64,
    /// Start time in kernel ticks since boot, because pids are reused.
    started: u64,
}

impl ProcessSample {
    /// True if the program is a database or cache.
    pub fn is_database(&self) -> bool {
        is_database(&self.name)
    }
}

/// True if the program is a database or cache.
pub fn is_database(name: &str) -> bool {
    DATABASES.contains(&name)
}

/// All processes except this one and the kernel's own.
pub fn all() -> Vec<ProcessSample> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id()).filter_map(process).collect()
}

fn process(pid: u32) -> Option<ProcessSample> {
    /// Below this size, computing the proportional share is not worth the kernel's work.
    const SMALL_BYTES: u64 = 8 << 20;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (begin, rest) = stat.rsplit_once(')')?;
    let name = begin.split_once('(')?.1.to_owned();
    // Fields after the name: state; 12th and 13th, processor time in ticks; 20th, start time; 22nd, resident pages.
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
    Some(ProcessSample { pid, name, memory_bytes, processor_seconds, started: *fields.get(19)? })
}

/// Field with the processor time of each process of a name, in seconds, by pid and start time.
const EACH: &str = "processor_seconds_of_each";

/// Sums memory by program name. Processor time is kept for each process, because a sum by name falls when a process ends.
pub fn by_name(processes: &[ProcessSample]) -> Vec<Row> {
    let mut sums: BTreeMap<&str, (u64, Map<String, Value>)> = BTreeMap::new();
    for process in processes {
        let sum = sums.entry(&process.name).or_default();
        sum.0 += process.memory_bytes;
        sum.1.insert(format!("{}-{}", process.pid, process.started), json!(process.processor_seconds));
    }
    let row = |(name, (memory, each)): (&str, (u64, Map<String, Value>))| {
        Row::from_iter([
            ("name".to_owned(), json!(name)),
            ("memory_bytes".to_owned(), json!(memory)),
            (EACH.to_owned(), Value::Object(each)),
        ])
    };
    sums.into_iter().map(row).collect()
}

/// Processor seconds that processes of a name used between the looks. Covers processes that exist at the second look; time of
/// those that ended before is not known.
pub fn processor_seconds((before, now): &(Option<&Row>, &Row)) -> Result<f64, String> {
    let each = |row: &Row| row.get(EACH).and_then(Value::as_object).cloned();
    let now = each(now).ok_or("the facts are of a blobwise that did not note it by process: look again")?;
    let before = before.and_then(each).unwrap_or_default();
    let seconds = |value: Option<&Value>| value.and_then(Value::as_f64).unwrap_or(0.0);
    Ok(now.iter().map(|(process, value)| seconds(Some(value)) - seconds(before.get(process))).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, started: u64, processor_seconds: f64) -> ProcessSample {
        ProcessSample { pid, name: "rustc".to_owned(), memory_bytes: 1, processor_seconds, started }
    }

    #[test]
    fn a_process_that_ends_takes_nothing_from_what_others_of_its_name_took() {
        // One process ends, one goes on, and one has the pid of a process that ended.
        let before = by_name(&[process(1, 5, 300.0), process(2, 6, 10.0), process(3, 7, 40.0)]);
        let now = by_name(&[process(2, 6, 12.0), process(3, 99, 1.5)]);
        assert_eq!(processor_seconds(&(Some(&before[0]), &now[0])), Ok(3.5));
        assert_eq!(processor_seconds(&(None, &now[0])), Ok(13.5));
        assert_eq!(now[0]["memory_bytes"], 2);
        assert!(processor_seconds(&(None, &Row::new())).is_err());
    }
}
