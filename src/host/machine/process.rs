//! A process, as `/proc` has it.

/// What `/proc` says of a process.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// Its number.
    pub pid: i32,
    /// What it is doing: `R`, `S`, `T`, ...
    pub state: char,
    /// Who started it.
    pub parent: i32,
    /// Its process session.
    pub session: i32,
    /// Processor time that it has had, in ticks of the kernel.
    pub ticks: u64,
    /// When it was started, in ticks of the kernel since it booted.
    pub started: u64,
}

impl Stat {
    /// Of a process by its number, or of `self`; `None` if there is none.
    pub fn of(pid: &str) -> Option<Stat> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain anything; behind it are state, parent, process group and session, as the
        // twelfth and thirteenth its processor time, and as the twentieth when it was started.
        let (begin, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        Some(Stat {
            pid: begin.split_whitespace().next()?.parse().ok()?,
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            session: fields.nth(1)?.parse().ok()?,
            ticks: fields.nth(7)?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?,
            started: fields.nth(6)?.parse().ok()?,
        })
    }

    /// It has ended, and nobody has waited for it yet.
    pub fn is_dead(&self) -> bool {
        ['Z', 'X'].contains(&self.state)
    }

    fn words(&self) -> String {
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

/// When the process that has this number was started, in ticks of the kernel since it booted; `None` if none has it.
pub fn started(pid: u32) -> Option<u64> {
    Stat::of(&pid.to_string()).map(|stat| stat.started)
}

/// What a process and those that it started are doing, in words: for a message about one that does not end.
pub fn doing(pid: i32) -> String {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<Stat> = entries.filter_map(|entry| Stat::of(entry.file_name().to_str()?)).collect();
    let mut family: Vec<&Stat> = all.iter().filter(|stat| stat.pid == pid).collect();
    let mut asked = 0;
    while let Some(parent) = family.get(asked).map(|stat| stat.pid) {
        family.extend(all.iter().filter(|stat| stat.parent == parent));
        asked += 1;
    }
    family.into_iter().map(Stat::words).collect::<Vec<_>>().join(", ")
}
