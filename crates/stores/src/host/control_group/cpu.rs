//! Processor time of a server's processes, including those that have ended.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::ControlGroup;

/// Directories in which control groups may count processor time.
const ROOTS: [&str; 3] = ["/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The memory control group (version 2) that this process has entered, if any. A process has a single group in version 2, so
/// groups of its servers must lie below it.
pub(super) static WITHIN: OnceLock<PathBuf> = OnceLock::new();

/// A private CPU control group. It counts ended processes too, in nanoseconds.
#[derive(Debug)]
pub struct CpuGroup {
    group: ControlGroup,
}

impl CpuGroup {
    /// Creates a group and moves a process into it; `None` if that is not allowed.
    pub fn make(pid: u32) -> Option<CpuGroup> {
        let within = WITHIN.get().map(PathBuf::as_path);
        for root in within.into_iter().chain(ROOTS.map(Path::new)) {
            let counts = |file: &str| root.join(file).exists();
            if !(counts("cpuacct.usage") || counts("cgroup.controllers")) {
                continue;
            }
            let Ok(group) = ControlGroup::new_below(root) else { continue };
            let made = CpuGroup { group };
            if made.group.add(pid).is_ok() && made.cpu_ns().is_some() {
                return Some(made);
            }
            if within.is_some() {
                return None;
            }
        }
        None
    }

    /// Processor time of all processes that were ever in the group, in nanoseconds.
    pub fn cpu_ns(&self) -> Option<u64> {
        let usage_us = || self.group.entry("cpu.stat", "usage_usec");
        self.group.figure("cpuacct.usage").or_else(|| usage_us().map(|us| us * 1000))
    }
}
