//! Control groups of the kernel's, one for each server's processes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A CPU control group of our own: it counts ended processes too, in nanoseconds.
#[derive(Debug)]
pub struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// Makes one and moves a process into it; `None` where that is not allowed.
    pub fn make(pid: u32) -> Option<ControlGroup> {
        for root in ["/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new) {
            let counts = |file: &str| root.join(file).exists();
            if !(counts("cpuacct.usage") || counts("cgroup.controllers")) {
                continue;
            }
            let Some(group) = ControlGroup::new_below(root) else { continue };
            if std::fs::write(group.path.join("cgroup.procs"), pid.to_string()).is_ok()
                && group.cpu_ns().is_some()
            {
                return Some(group);
            }
        }
        None
    }

    /// An empty one with a name that nothing has, not even what a killed process with our number left behind.
    fn new_below(root: &Path) -> Option<ControlGroup> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        const NAMES: usize = 1000;
        for _ in 0..NAMES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = root.join(format!("blobwise-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Some(ControlGroup { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Processor time of everything that was ever in it, in nanoseconds.
    pub fn cpu_ns(&self) -> Option<u64> {
        if let Ok(usage) = std::fs::read_to_string(self.path.join("cpuacct.usage")) {
            return usage.trim().parse().ok();
        }
        let stat = std::fs::read_to_string(self.path.join("cpu.stat")).ok()?;
        let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        usage.trim().parse::<u64>().ok().map(|us| us * 1000)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A process that has just ended is in it a moment longer. One that is not empty stays behind, without effect.
        const TRIES: usize = 20;
        for _ in 0..TRIES {
            match std::fs::remove_dir(&self.path) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return,
            }
        }
    }
}
