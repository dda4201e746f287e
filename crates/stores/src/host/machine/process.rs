//! A process, as `/proc` describes it.

/// Fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug)]
pub struct ProcessStat {
    /// Process id.
    pub pid: i32,
    /// State: `R`, `S`, `T`, ...
    pub state: char,
    /// Parent process id.
    pub parent: i32,
    /// Session id.
    pub session: i32,
    /// Processor time used, in kernel ticks.
    pub ticks: u64,
    /// Start time, in kernel ticks since boot.
    pub started: u64,
}

impl ProcessStat {
    /// Reads the fields of a process (a pid or `self`); `None` if it does not exist.
    pub fn read(pid: &str) -> Option<ProcessStat> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain anything; the fields after it are state, parent, process group and session, the
        // twelfth and thirteenth are processor time, and the twentieth is the start time.
        let (begin, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        Some(ProcessStat {
            pid: begin.split_whitespace().next()?.parse().ok()?,
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            session: fields.nth(1)?.parse().ok()?,
            ticks: fields.nth(7)?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?,
            started: fields.nth(6)?.parse().ok()?,
        })
    }

    /// True if it has ended and has not been reaped.
    pub fn is_dead(&self) -> bool {
        ['Z', 'X'].contains(&self.state)
    }

    fn description(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        let state = match self.state {
            'R' => "runs",
            'S' => "sleeps",
            'D' => "waits for a disk",
            'T' | 't' => "is stopped",
            _ => "has ended",
        };
        let seconds = self.ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        format!("`{}` {state}, after {seconds:.1} s of processor time", name.trim())
    }
}

/// Start time of a process, in kernel ticks since boot; `None` if there is no such process.
pub fn started(pid: u32) -> Option<u64> {
    ProcessStat::read(&pid.to_string()).map(|stat| stat.started)
}

/// Describes what a process and its descendants are doing, for a message about one that does not end.
pub fn doing(pid: i32) -> String {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<ProcessStat> =
        entries.filter_map(|entry| ProcessStat::read(entry.file_name().to_str()?)).collect();
    let mut family: Vec<&ProcessStat> = all.iter().filter(|stat| stat.pid == pid).collect();
    let mut asked = 0;
    while let Some(parent) = family.get(asked).map(|stat| stat.pid) {
        family.extend(all.iter().filter(|stat| stat.parent == parent));
        asked += 1;
    }
    family.into_iter().map(ProcessStat::description).collect::<Vec<_>>().join(", ")
}
