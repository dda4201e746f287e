//! Control groups of the kernel: one per server, which counts its processor time, and one per run of a candidate with a memory
//! limit. Groups of killed runs are removed. Also I/O limits for private block devices.
//!
//! The name of a group identifies its maker, `blobwise-NAMESPACE-PID-START-NUMBER`: the PID namespace of the process, its pid,
//! and its start time. This tells a group of a dead process from one that a live run has just made and not yet filled, even if
//! the pid has been reused.

mod cpu;
mod device;
mod memory;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use cpu::CpuGroup;
pub use device::{DeviceCaps, DeviceLimit, lift_limits, why_no_device_limit};
pub use memory::{MemoryGroup, MemoryUse, why_no_memory_group};

use super::machine::{GROUP_PREFIX, started};

/// The process that made a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupCreator {
    /// PID namespace (inode of `/proc/self/ns/pid`).
    namespace: u64,
    pid: u32,
    /// Start time in kernel ticks since boot.
    started: u64,
}

impl GroupCreator {
    /// Identifies this process; `None` if `/proc` belongs to another namespace, so that its pids are not ours.
    fn own() -> Option<GroupCreator> {
        static OWN: OnceLock<Option<GroupCreator>> = OnceLock::new();
        *OWN.get_or_init(|| {
            let pid = std::process::id();
            let link = std::fs::read_link("/proc/self").ok()?;
            let namespace = std::fs::metadata("/proc/self/ns/pid").ok()?.ino();
            (link.to_str() == Some(pid.to_string().as_str())).then_some(GroupCreator {
                namespace,
                pid,
                started: started(pid)?,
            })
        })
    }

    /// Parses the name of a group; `None` if it is not of our form.
    fn parse(name: &str) -> Option<GroupCreator> {
        let parts: Vec<&str> = name.strip_prefix(GROUP_PREFIX)?.split('-').collect();
        let [namespace, pid, started, number] = parts[..] else { return None };
        let maker = GroupCreator {
            namespace: namespace.parse().ok()?,
            pid: pid.parse().ok()?,
            started: started.parse().ok()?,
        };
        (maker.name(number.parse().ok()?) == name).then_some(maker)
    }

    fn name(self, number: u64) -> String {
        format!("{GROUP_PREFIX}{}-{}-{}-{number}", self.namespace, self.pid, self.started)
    }

    /// True if the process was in our PID namespace and has ended.
    fn is_gone(self, own: GroupCreator) -> bool {
        self.namespace == own.namespace && started(self.pid) != Some(self.started)
    }
}

/// Removes groups whose makers are gone. The kernel keeps those that contain a process or a group.
fn remove_stale(root: &Path, own: GroupCreator) {
    let user = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(root).into_iter().flatten().filter_map(|entry| entry.ok()) {
        let maker = entry.file_name().to_str().and_then(GroupCreator::parse);
        let is_ours = entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
        if is_ours && maker.is_some_and(|maker| maker.is_gone(own)) {
            remove_stale(&entry.path(), own);
            // A run that begins at the same moment may have been faster.
            std::fs::remove_dir(entry.path()).ok();
        }
    }
}

/// A private group, removed when dropped.
#[derive(Debug)]
struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// Creates an empty group with a unique name, after removing stale groups next to it.
    fn new_below(root: &Path) -> std::io::Result<ControlGroup> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        const NAMES: usize = 1000;
        let own = GroupCreator::own().ok_or(std::io::ErrorKind::Unsupported)?;
        remove_stale(root, own);
        for _ in 0..NAMES {
            let path = root.join(own.name(NEXT.fetch_add(1, Ordering::Relaxed)));
            match std::fs::create_dir(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| ControlGroup { path }),
            }
        }
        Err(std::io::ErrorKind::AlreadyExists.into())
    }

    /// Moves a process into the group; what it uses from now on is counted here.
    fn add(&self, pid: u32) -> std::io::Result<()> {
        std::fs::write(self.path.join("cgroup.procs"), pid.to_string())
    }

    fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.path.join(file)).ok()
    }

    /// Parses a file that consists of one number.
    fn figure(&self, file: &str) -> Option<u64> {
        self.read(file)?.trim().parse().ok()
    }

    /// Returns the number after `name` in a file of `name number` lines.
    fn entry(&self, file: &str, name: &str) -> Option<u64> {
        entry(&self.read(file)?, name)
    }
}

/// Returns the number after `name` in `name number` lines.
fn entry(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(known, _)| *known == name)?.1.trim().parse().ok()
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A process that has just ended stays in its group for a moment. A group that is not empty is left behind, without
        // effect.
        const TRIES: usize = 20;
        for _ in 0..TRIES {
            // In version 2, groups of the servers lie inside the group of the candidate's run.
            for inner in std::fs::read_dir(&self.path).into_iter().flatten().flatten() {
                if inner.file_type().is_ok_and(|kind| kind.is_dir()) {
                    std::fs::remove_dir(inner.path()).ok();
                }
            }
            match std::fs::remove_dir(&self.path) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_who_made_a_group() {
        let own = GroupCreator::own().unwrap();
        assert_eq!(GroupCreator::parse(&own.name(7)), Some(own));
        for other in [
            "blobwise-1-2-3",
            "blobwise-1-2-3-04",
            "blobwise-1-2-3-4-5",
            "blobwise-1-2-3-x",
            "other-1-2-3-4",
            "blobwise-17-3",
        ] {
            assert_eq!(GroupCreator::parse(other), None, "{other}");
        }
    }

    #[test]
    fn groups_of_makers_that_are_gone_are_removed_and_no_others() {
        let root = tempfile::tempdir_in(".").unwrap();
        let own = GroupCreator::own().unwrap();
        let before = GroupCreator { started: own.started - 1, ..own };
        // A pid that no process has: above the kernel's highest.
        let gone = GroupCreator { pid: (1 << 22) + 1, ..own };
        let elsewhere = GroupCreator { namespace: own.namespace + 1, ..gone };
        let kept = [own.name(0), elsewhere.name(0), "blobwise-17-3".to_owned(), "precious".to_owned()];
        let stale = [before.name(0), gone.name(0), gone.name(12)];
        for name in kept.iter().chain(&stale) {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        // A group in use; the real one could not be removed, this one is not empty.
        std::fs::create_dir(root.path().join(gone.name(5))).unwrap();
        std::fs::write(root.path().join(gone.name(5)).join("child"), "").unwrap();
        remove_stale(root.path(), own);
        let is_there = |name: &String| root.path().join(name).exists();
        assert!(kept.iter().all(is_there) && is_there(&gone.name(5)) && !stale.iter().any(is_there));
    }
}
