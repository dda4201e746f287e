//! Finds the local process of a user's own server by what the server reports of itself, so that the free space of its data
//! directory can be looked up.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::kernel_text::{field, read};
use super::process::ProcessStat;

/// Free space in the file system of a directory, for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// Free bytes.
    pub bytes: u64,
    /// Free inodes; `None` on a file system without a fixed number of them.
    pub inodes: Option<u64>,
}

/// Process of a server that runs on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalServerProcess {
    pid: i32,
    /// True if it is in a container, which has its own PID namespace.
    is_contained: bool,
}

/// Longest time between a server's process start and its being ready, when processes are matched by age.
const START_SECONDS_MAX: f64 = 60.0;

impl LocalServerProcess {
    /// Finds the process whose id (or that of one of its threads) is the `number` that a server reports, whose name is one of
    /// `names`, and whose age matches the one reported, in seconds. `None` if there is none or more than one: no local process
    /// matches all three for a server on another host or behind a forwarded port. Servers in containers that were started
    /// together may all match; then the one counts whose working directory is the reported data directory `data` (empty if not
    /// reported).
    pub fn find(number: u32, names: &[&str], age_seconds: f64, data: &str) -> Option<LocalServerProcess> {
        let up: f64 = read("/proc/uptime")?.split_whitespace().next()?.parse().ok()?;
        let number = number.to_string();
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        let mut found = processes.filter_map(|entry| {
            // Skips `self`, an alias of another entry.
            entry.file_name().to_str()?.parse::<u32>().ok()?;
            let dir = entry.path();
            let name = read(dir.join("comm"))?;
            if !names.contains(&name.trim()) {
                return None;
            }
            let process = ProcessStat::read(dir.file_name()?.to_str()?)?;
            let age = up - process.started as f64 / rustix::param::clock_ticks_per_second() as f64;
            // Clocks drift apart and seconds are rounded. A server counts from when it is ready, which a recovery delays.
            let (drift, late) = (5.0 + age / 1000.0, age - age_seconds);
            if late < -drift || late > drift + START_SECONDS_MAX {
                return None;
            }
            // The last number of `NSpid` is the id in the thread's own namespace.
            let threads = std::fs::read_dir(dir.join("task")).ok()?.flatten();
            let mut numbers =
                threads.filter_map(|thread| field(&read(thread.path().join("status"))?, "NSpid"));
            let numbers =
                numbers.find(|numbers| numbers.split_whitespace().next_back() == Some(number.as_str()))?;
            if works_in(&dir, data) == Some(false) {
                return None;
            }
            Some(LocalServerProcess {
                pid: process.pid,
                is_contained: numbers.split_whitespace().count() > 1,
            })
        });
        let first = found.next();
        first.filter(|_| found.next().is_none())
    }

    /// Free space in a directory as the server sees it; `None` if that cannot be looked up.
    pub fn free(self, dir: &Path) -> Option<FreeSpace> {
        let seen = Path::new(&format!("/proc/{}/root", self.pid)).join(dir.strip_prefix("/").ok()?);
        let space = match rustix::fs::statvfs(&seen) {
            // Another user's `/proc/PID/root` is closed to us. Outside of containers the process sees the same directories as we
            // do.
            Err(_) if !self.is_contained => rustix::fs::statvfs(dir),
            space => space,
        };
        let space = space.ok()?;
        let inodes = (space.f_files > 0).then_some(space.f_favail);
        Some(FreeSpace { bytes: space.f_bavail.saturating_mul(space.f_frsize), inodes })
    }
}

/// True if a process, given by its directory in `/proc`, has `dir` (as it sees it) as its working directory; `None` without
/// permission.
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
        let started = ProcessStat::read("self").unwrap().started as f64;
        let age = up - started / rustix::param::clock_ticks_per_second() as f64;
        let beside = LocalServerProcess::find(own, &["other", name], age, "").unwrap();
        assert_eq!(beside, LocalServerProcess { pid: own as i32, is_contained: beside.is_contained });
        // A server that was ready half a minute after its start, and one that reports an age above its process's.
        assert_eq!(LocalServerProcess::find(own, &[name], age - 30.0, ""), Some(beside));
        assert_eq!(LocalServerProcess::find(own, &["other"], age, ""), None);
        assert_eq!(LocalServerProcess::find(own, &[name], age + 3600.0, ""), None);
        assert_eq!(LocalServerProcess::find(u32::MAX, &[name], age, ""), None);
        let here = std::env::current_dir().unwrap();
        assert_eq!(LocalServerProcess::find(own, &[name], age, &here.display().to_string()), Some(beside));
        for elsewhere in ["/", "/no/such/directory"] {
            assert_eq!(LocalServerProcess::find(own, &[name], age, elsewhere), None);
        }
        assert!(beside.free(&here).is_some_and(|free| free.bytes > 0));
        assert_eq!(beside.free(Path::new("/no/such/directory")), None);
    }
}
