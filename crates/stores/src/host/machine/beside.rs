//! Finds the local process of a user's own server by what the server reports of itself, so that the free space of its data
//! directory can be looked up.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, fstatvfs, open, openat2};

use super::kernel_text::{field, read};
use super::process::ProcessStat;

/// Free space in the file system of a directory, for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// Number of the device that holds the file system.
    pub device: u64,
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
    /// Finds the process that [`matching`](Self::matching) gives; `None` if there is none or more than one.
    pub fn find(number: u32, names: &[&str], age_seconds: f64, data: &str) -> Option<LocalServerProcess> {
        match Self::matching(number, names, age_seconds, data)[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Processes whose id (or that of one of their threads) is the `number` that a server reports, whose name is one of `names`,
    /// and whose age matches the one reported, in seconds. There is none for a server on another host or behind a forwarded port.
    /// Servers in containers that were started together may all match; then the one counts whose working directory is the
    /// reported data directory `data` (empty if not reported).
    pub fn matching(number: u32, names: &[&str], age_seconds: f64, data: &str) -> Vec<LocalServerProcess> {
        let up = read("/proc/uptime").and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
        let (Some(up), Ok(processes)) = (up, std::fs::read_dir("/proc")) else { return Vec::new() };
        let number = number.to_string();
        let matches = |entry: std::fs::DirEntry| {
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
        };
        processes.flatten().filter_map(matches).collect()
    }

    /// Free space in a directory as the server sees it; `None` if that cannot be looked up.
    pub fn free(self, dir: &Path) -> Option<FreeSpace> {
        let seen = match open_as_seen_by(Path::new(&format!("/proc/{}", self.pid)), dir) {
            // Another user's `/proc/PID/root` is closed to us. Outside of containers the process sees the same directories as we
            // do.
            Err(_) if !self.is_contained => File::from(open(dir, DIRECTORY, Mode::empty()).ok()?),
            seen => seen.ok()?,
        };
        let (device, space) = (seen.metadata().ok()?.dev(), fstatvfs(&seen).ok()?);
        let inodes = (space.f_files > 0).then_some(space.f_favail);
        Some(FreeSpace { device, bytes: space.f_bavail.saturating_mul(space.f_frsize), inodes })
    }
}

/// How a directory is opened that is only asked about.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a directory as a process sees it, which is given by its own directory in `/proc`. Links on the way are followed in the
/// root of the process: that of a container differs from ours, and a link such as `pg_wal` may be absolute. Needs Linux 5.6.
fn open_as_seen_by(process: &Path, dir: &Path) -> rustix::io::Result<File> {
    let root = open(process.join("root"), DIRECTORY, Mode::empty())?;
    Ok(openat2(root, dir, DIRECTORY, Mode::empty(), ResolveFlags::IN_ROOT)?.into())
}

/// True if a process, given by its directory in `/proc`, has `dir` (as it sees it) as its working directory; `None` without
/// permission, and if `dir` is not absolute.
fn works_in(process: &Path, dir: &str) -> Option<bool> {
    let own = std::fs::metadata(process.join("cwd")).ok()?;
    let dir = Some(Path::new(dir)).filter(|dir| dir.has_root())?;
    match open_as_seen_by(process, dir) {
        Ok(told) => {
            let told = told.metadata().ok()?;
            Some((told.dev(), told.ino()) == (own.dev(), own.ino()))
        }
        Err(why) => (why == rustix::io::Errno::NOENT).then_some(false),
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
    #[test]
    fn links_are_followed_in_the_root_of_the_process() {
        let process = tempfile::tempdir().unwrap();
        let root = process.path().join("root");
        for dir in ["var/data", "mnt/log", "etc"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        // In our root, one of them leads elsewhere and the other one nowhere.
        for (link, target) in [("var/data/elsewhere", "/etc"), ("var/data/pg_wal", "/mnt/log")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
            let seen = open_as_seen_by(process.path(), &Path::new("/").join(link)).unwrap();
            let meant = std::fs::metadata(root.join(&target[1..])).unwrap();
            assert_eq!(seen.metadata().unwrap().ino(), meant.ino(), "{link}");
        }
    }
}
