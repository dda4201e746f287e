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
    /// When it was started, in ticks of the kernel since it booted.
    pub started: u64,
}

impl Stat {
    /// Of a process by its number, or of `self`; `None` if there is none.
    pub fn of(pid: &str) -> Option<Stat> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain anything; behind it are state, parent, process group and session, and as the
        // twentieth when it was started.
        let (begin, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        Some(Stat {
            pid: begin.split_whitespace().next()?.parse().ok()?,
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            session: fields.nth(1)?.parse().ok()?,
            started: fields.nth(15)?.parse().ok()?,
        })
    }

    /// It has ended, and nobody has waited for it yet.
    pub fn is_dead(&self) -> bool {
        ['Z', 'X'].contains(&self.state)
    }
}

/// When the process that has this number was started, in ticks of the kernel since it booted; `None` if none has it.
pub fn started(pid: u32) -> Option<u64> {
    Stat::of(&pid.to_string()).map(|stat| stat.started)
}
