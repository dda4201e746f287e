//! A server's processes as `/proc` shows them: the process tree, processor time, and pidfds to hold and kill processes.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::host::machine::ProcessStat;

/// A process held by a pidfd: its number may be reused after its end, the descriptor never refers to another process.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: Pid,
    descriptor: OwnedFd,
}

impl ProcessHandle {
    /// Opens the process that has this number now.
    pub fn open(pid: Pid) -> rustix::io::Result<ProcessHandle> {
        Ok(ProcessHandle { pid, descriptor: rustix::process::pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Process id in our own namespace.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Process id as `/proc` shows it, which may be that of an outer namespace.
    pub fn number_in_proc(&self) -> Result<i32> {
        let path = format!("/proc/self/fdinfo/{}", self.descriptor.as_raw_fd());
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
        let number = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
        number.with_context(|| format!("`{path}` has no number"))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        rustix::process::pidfd_send_signal(&self.descriptor, signal)
    }

    /// True if it has ended, whether or not it has been reaped.
    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Waits for its end for at most `patience`; true if it has ended.
    pub fn ends_within(&self, patience: Duration) -> bool {
        is_ready_within(&self.descriptor, patience)
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Waits until `descriptor` can be read or is at its end, for at most `patience`; true if so.
pub fn is_ready_within(descriptor: &impl AsFd, patience: Duration) -> bool {
    let begin = crate::host::machine::uptime();
    loop {
        let left = patience.saturating_sub(crate::host::machine::uptime() - begin);
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        // `Duration::MAX` means no timeout.
        let timeout = (patience != Duration::MAX).then_some(&timeout);
        match poll(&mut [PollFd::new(descriptor, PollFlags::IN)], timeout) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}

/// All processes of the machine.
fn all() -> Vec<ProcessStat> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok());
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|name| ProcessStat::read(&name))
        .collect()
}

/// Returns a process and all its descendants.
pub fn tree(root: i32) -> Vec<i32> {
    let all = all();
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(all.iter().filter(|stat| stat.parent == parent).map(|stat| stat.pid));
        next += 1;
    }
    found
}

/// Returns the processes of private servers below one of our processes, without their supervisors. Pids grow with the time of
/// start, so callers can order the processes of one server.
pub fn servers_below(root: i32) -> Vec<ProcessHandle> {
    let below = tree(root).into_iter().filter(|pid| *pid != root && !is_supervisor(*pid));
    below.filter_map(|pid| ProcessHandle::open(Pid::from_raw(pid)?).ok()).collect()
}

/// Returns all descendants of one of our processes.
pub fn held_below(root: i32) -> Vec<ProcessHandle> {
    let below = tree(root).into_iter().filter(|pid| *pid != root);
    below.filter_map(|pid| ProcessHandle::open(Pid::from_raw(pid)?).ok()).collect()
}

fn is_supervisor(pid: i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let role = line.split(|byte| *byte == 0).nth(1).unwrap_or_default();
    role.starts_with(super::supervisor::SUPERVISE.as_bytes())
}

/// Parent of this process, as `/proc` shows it.
pub fn own_parent() -> Option<i32> {
    ProcessStat::read("self").map(|stat| stat.parent)
}

/// True if a signal has stopped the process.
pub fn is_stopped(pid: i32) -> bool {
    ProcessStat::read(&pid.to_string()).is_some_and(|stat| stat.state == 'T')
}

/// Kills all descendants of a process that adopts orphans.
pub fn kill_below(root: i32) {
    kill_all(|| {
        let tree = tree(root);
        all().into_iter().filter(|stat| stat.pid != root && tree.contains(&stat.pid)).collect()
    });
}

/// Kills every process of a session.
pub fn kill_session(session: i32) {
    kill_all(|| all().into_iter().filter(|stat| stat.session == session).collect());
}

/// Kills until none of them runs. Processes that are forked or orphaned meanwhile are found in the next turn.
fn kill_all(find: impl Fn() -> Vec<ProcessStat>) {
    const TURNS: u32 = 200;
    let running =
        || -> Vec<i32> { find().iter().filter(|stat| !stat.is_dead()).map(|stat| stat.pid).collect() };
    for _ in 0..TURNS {
        let found = running();
        if found.is_empty() {
            return;
        }
        let held: Vec<ProcessHandle> = found
            .into_iter()
            .filter_map(Pid::from_raw)
            .filter_map(|pid| ProcessHandle::open(pid).ok())
            .collect();
        // Searched again now that pidfds are open: a number that has been reused meanwhile is not among them.
        let still = running();
        for process in held.iter().filter(|process| still.contains(&process.pid())) {
            process.signal(Signal::KILL).ok();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// True if a process ignores SIGCHLD: the kernel reaps its children, and no one accounts for their I/O.
pub fn forgets_children(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    u64::from_str_radix(ignored.trim(), 16)
        .is_ok_and(|signals| signals & (1 << (Signal::CHILD.as_raw() - 1)) != 0)
}

/// Processor time of a process: its threads from schedstat, its ended children from the ticks of stat (usually 10 ms).
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let own: u64 = threads
        .filter_map(|thread| thread.ok())
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<u64> =
        stat.rsplit_once(')')?.1.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    // cutime and cstime are the 16th and 17th field of the line, the name being the second.
    let ticks = fields.get(13)? + fields.get(14)?;
    Some(own + ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}
