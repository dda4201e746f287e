//! A server of the user's that runs on this machine: recognised by what it says of its own process, so that the room of its directory
//! can be looked at.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::kernel_text::{field, read};
use super::process::Stat;

/// What the file system of a directory has free for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// Bytes.
    pub bytes: u64,
    /// Files; `None` on a file system that makes them as they are needed.
    pub inodes: Option<u64>,
}

/// The process of a server that runs on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    pid: i32,
    /// Whether it is in a container, which counts processes for itself.
    is_contained: bool,
}

/// How long a server may take to start, for its process to be found by its age.
const START_SECONDS_MAX: f64 = 60.0;

impl Beside {
    /// The process that has the number which a server tells of itself or of one of its threads, one of its programs' names, and the
    /// age that the server tells, in seconds. `None` where there is none or more than one: on another host, and behind a forwarded port,
    /// nobody here has all three. Servers in containers that were started together may have them all: there the one counts that works in
    /// the data directory which the server tells; empty where it tells none.
    pub fn of(number: u32, names: &[&str], age_seconds: f64, data: &str) -> Option<Beside> {
        let up: f64 = read("/proc/uptime")?.split_whitespace().next()?.parse().ok()?;
        let number = number.to_string();
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        let mut found = processes.filter_map(|entry| {
            // Not `self`, which is a process by another name.
            entry.file_name().to_str()?.parse::<u32>().ok()?;
            let dir = entry.path();
            let name = read(dir.join("comm"))?;
            if !names.contains(&name.trim()) {
                return None;
            }
            let process = Stat::of(dir.file_name()?.to_str()?)?;
            let age = up - process.started as f64 / rustix::param::clock_ticks_per_second() as f64;
            // Clocks that are set drift apart, and seconds are rounded. A server counts from when it is ready, which a recovery puts off.
            let (drift, late) = (5.0 + age / 1000.0, age - age_seconds);
            if late < -drift || late > drift + START_SECONDS_MAX {
                return None;
            }
            // The last of a thread's numbers is the one that it has where it runs.
            let threads = std::fs::read_dir(dir.join("task")).ok()?.flatten();
            let mut numbers =
                threads.filter_map(|thread| field(&read(thread.path().join("status"))?, "NSpid"));
            let numbers =
                numbers.find(|numbers| numbers.split_whitespace().next_back() == Some(number.as_str()))?;
            if works_in(&dir, data) == Some(false) {
                return None;
            }
            Some(Beside { pid: process.pid, is_contained: numbers.split_whitespace().count() > 1 })
        });
        let first = found.next();
        first.filter(|_| found.next().is_none())
    }

    /// What is free in a directory, as the server sees it; `None` where that cannot be looked at.
    pub fn free(self, dir: &Path) -> Option<Free> {
        let seen = Path::new(&format!("/proc/{}/root", self.pid)).join(dir.strip_prefix("/").ok()?);
        let space = match rustix::fs::statvfs(&seen) {
            // Another user's process may not be looked into. Outside of containers it has the directories that we have.
            Err(_) if !self.is_contained => rustix::fs::statvfs(dir),
            space => space,
        };
        let space = space.ok()?;
        let inodes = (space.f_files > 0).then_some(space.f_favail);
        Some(Free { bytes: space.f_bavail.saturating_mul(space.f_frsize), inodes })
    }
}

/// Whether a process works in a directory as it sees it, by the process's directory in `/proc`; `None` where that is not for us to see.
fn works_in(process: &Path, dir: &str) -> Option<bool> {
    let told = process.join("root").join(dir.strip_prefix('/')?);
    let own = std::fs::metadata(process.join("cwd")).ok()?;
    match std::fs::metadata(told) {
        Ok(told) => Some((told.dev(), told.ino()) == (own.dev(), own.ino())),
        Err(why) => (why.kind() == std::io::ErrorKind::NotFound).then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_recognised_by_number_name_and_age() {
        let comm = read("/proc/self/comm").unwrap();
        let (name, own) = (comm.trim(), std::process::id());
        let up: f64 = read("/proc/uptime").unwrap().split_whitespace().next().unwrap().parse().unwrap();
        let started = Stat::of("self").unwrap().started as f64;
        let age = up - started / rustix::param::clock_ticks_per_second() as f64;
        let beside = Beside::of(own, &["other", name], age, "").unwrap();
        assert_eq!(beside, Beside { pid: own as i32, is_contained: beside.is_contained });
        // A server that was ready half a minute after it was started, and one that is older than the process.
        assert_eq!(Beside::of(own, &[name], age - 30.0, ""), Some(beside));
        assert_eq!(Beside::of(own, &["other"], age, ""), None);
        assert_eq!(Beside::of(own, &[name], age + 3600.0, ""), None);
        assert_eq!(Beside::of(u32::MAX, &[name], age, ""), None);
        let here = std::env::current_dir().unwrap();
        assert_eq!(Beside::of(own, &[name], age, &here.display().to_string()), Some(beside));
        for elsewhere in ["/", "/no/such/directory"] {
            assert_eq!(Beside::of(own, &[name], age, elsewhere), None);
        }
        assert!(beside.free(&here).is_some_and(|free| free.bytes > 0));
        assert_eq!(beside.free(Path::new("/no/such/directory")), None);
    }
}
