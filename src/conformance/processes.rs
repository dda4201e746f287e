//! Processes and open files of a store, seen from outside.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::host::machine::uptime;
use crate::host::server::SUPERVISE;

/// A process that uses a directory.
#[derive(Debug)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Command line, its arguments separated by spaces.
    pub command: String,
}

impl Process {
    /// True for the supervisor that stands between us and a server.
    pub fn is_supervisor(&self) -> bool {
        self.command.contains(SUPERVISE)
    }

    /// Sends SIGKILL.
    pub fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may have ended by itself meanwhile.
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// Other processes that work in a directory, name it in their command line, or have a file below it open.
pub fn using(dir: &Path) -> Vec<Process> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if pid == std::process::id() as i32 {
            continue;
        }
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let works_there = std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
        let named = command.contains(&*dir.to_string_lossy());
        if works_there || named || !open_files(&entry.path(), dir).is_empty() {
            found.push(Process { pid, command });
        }
    }
    found
}

/// Files below a directory that this process has open.
pub fn own_open_files(dir: &Path) -> Vec<PathBuf> {
    open_files(Path::new("/proc/self"), dir)
}

/// Open sockets of other processes that use a directory: listening ones, and their ends of connections.
pub fn sockets(dir: &Path) -> BTreeSet<PathBuf> {
    let processes = using(dir).into_iter().map(|process| Path::new("/proc").join(process.pid.to_string()));
    let open = processes.flat_map(|process| links(&process));
    open.filter(|path| path.to_string_lossy().starts_with("socket:")).collect()
}

fn open_files(process: &Path, dir: &Path) -> Vec<PathBuf> {
    links(process).into_iter().filter(|path| path.starts_with(dir)).collect()
}

fn links(process: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
}

/// Polls until the answer is empty, for at most `patience`; returns the last answer.
pub fn wait_until_none<T>(patience: Duration, mut ask: impl FnMut() -> Vec<T>) -> Vec<T> {
    const POLL: Duration = Duration::from_millis(20);
    let begin = uptime();
    loop {
        let answer = ask();
        if answer.is_empty() || uptime() - begin > patience {
            return answer;
        }
        std::thread::sleep(POLL);
    }
}
