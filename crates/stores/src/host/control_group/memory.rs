//! A memory limit for everything that the run of a candidate takes: its process, its servers, and the page cache of their files.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};

use super::cpu::WITHIN;
use super::{ControlGroup, entry};
use crate::host::machine::{ControlGroupVersion, MemoryGroupParent, memory_group_parent};

/// Returns why memory cannot be limited on this machine, with what to do; `None` if it can.
pub fn why_no_memory_group() -> Option<anyhow::Error> {
    MemoryGroup::make().err()
}

/// A private memory control group.
#[derive(Debug)]
pub struct MemoryGroup {
    version: ControlGroupVersion,
    group: ControlGroup,
}

/// Memory of a group at one moment. Events are counts; everything else is in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// All memory charged to the group.
    pub all_bytes: u64,
    /// Peak since the group was made, or since [`MemoryGroup::reset_peak`]; `None` if it cannot be reset.
    pub peak_bytes: Option<u64>,
    /// Page cache, including mapped files.
    pub cache_bytes: u64,
    /// Anonymous and shared memory of its processes.
    pub anonymous_bytes: u64,
    /// Kernel memory: sockets, page tables, inodes, dentries.
    pub kernel_bytes: u64,
    /// File pages that were read again after their eviction.
    pub refaults: u64,
    /// Page faults that read from a device.
    pub major_faults: u64,
    /// Number of times that the limit was reached.
    pub limit_hits: u64,
    /// Processes killed because of the limit.
    pub kills: u64,
}

impl MemoryUse {
    /// Memory that cannot be reclaimed by dropping file pages.
    pub fn kept_bytes(&self) -> u64 {
        self.anonymous_bytes + self.kernel_bytes
    }
}

impl MemoryGroup {
    /// Creates a group without a limit. An error says what is missing and what to do.
    pub fn make() -> Result<MemoryGroup> {
        const WAY_OUT: &str = "run as root, or in a control group of your own: `systemd-run --user --scope -p Delegate=yes blobwise run ...`";
        let read =
            |file: &str| std::fs::read_to_string(file).with_context(|| format!("cannot read `{file}`"));
        let parent = memory_group_parent(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)?;
        MemoryGroup::below(&parent)
            .map_err(|error| anyhow!("memory cannot be limited here: {error:#}; {WAY_OUT}"))
    }

    fn below(parent: &MemoryGroupParent) -> Result<MemoryGroup> {
        let MemoryGroupParent { version, path } = parent;
        if *version == ControlGroupVersion::Two {
            delegate_memory(path)?;
        }
        let told = || format!("no control group in `{}`", path.display());
        let made =
            MemoryGroup { version: *version, group: ControlGroup::new_below(path).with_context(told)? };
        // Swap is not what is measured.
        let no_swap = match version {
            ControlGroupVersion::One => made.write("memory.swappiness", "0"),
            ControlGroupVersion::Two => made.write("memory.swap.max", "0"),
        };
        // The file does not exist on a kernel without swap.
        no_swap.ok();
        made.limit(None).with_context(told)?;
        Ok(made)
    }

    /// Moves this process into the group. Memory that it already has stays charged to its former group; later allocations and
    /// child processes are charged here.
    pub fn enter(&self) -> Result<()> {
        self.group.add(std::process::id()).context("cannot enter a control group for memory")?;
        if self.version == ControlGroupVersion::Two {
            WITHIN.set(self.group.path.clone()).ok();
        }
        Ok(())
    }

    /// Sets the limit in bytes; `None` lifts it. Fails if more is in use than can be reclaimed.
    pub fn limit(&self, bytes: Option<u64>) -> std::io::Result<()> {
        match (self.version, bytes) {
            (ControlGroupVersion::One, Some(bytes)) => {
                self.write("memory.limit_in_bytes", &bytes.to_string())
            }
            (ControlGroupVersion::One, None) => self.write("memory.limit_in_bytes", "-1"),
            (ControlGroupVersion::Two, Some(bytes)) => {
                // Version 2 accepts any limit, and kills processes if it cannot reclaim enough.
                self.write(
                    "memory.reclaim",
                    &self.figure("memory.current").saturating_sub(bytes).to_string(),
                )
                .ok();
                if self.now().kept_bytes() > bytes {
                    return Err(std::io::ErrorKind::ResourceBusy.into());
                }
                self.write("memory.max", &bytes.to_string())
            }
            (ControlGroupVersion::Two, None) => self.write("memory.max", "max"),
        }
    }

    /// Restarts the measurement of the peak.
    pub fn reset_peak(&self) {
        match self.version {
            ControlGroupVersion::One => self.write("memory.max_usage_in_bytes", "0").ok(),
            // Possible since Linux 6.12, and only for the reader's own descriptor.
            ControlGroupVersion::Two => None,
        };
    }

    /// Reads the current memory use.
    pub fn now(&self) -> MemoryUse {
        let text = self.group.read("memory.stat").unwrap_or_default();
        let stat = |name: &str| entry(&text, name).unwrap_or(0);
        match self.version {
            ControlGroupVersion::One => MemoryUse {
                all_bytes: self.figure("memory.usage_in_bytes"),
                peak_bytes: self.group.figure("memory.max_usage_in_bytes"),
                // Version 1 counts shared memory as cache.
                cache_bytes: stat("total_cache").saturating_sub(stat("total_shmem")),
                anonymous_bytes: stat("total_rss") + stat("total_shmem"),
                kernel_bytes: self.figure("memory.kmem.usage_in_bytes"),
                refaults: stat("total_workingset_refault_file"),
                major_faults: stat("total_pgmajfault"),
                limit_hits: self.figure("memory.failcnt"),
                kills: self.group.entry("memory.oom_control", "oom_kill").unwrap_or(0),
            },
            ControlGroupVersion::Two => MemoryUse {
                all_bytes: self.figure("memory.current"),
                peak_bytes: None,
                cache_bytes: stat("file").saturating_sub(stat("shmem")),
                anonymous_bytes: stat("anon") + stat("shmem"),
                kernel_bytes: stat("kernel"),
                refaults: stat("workingset_refault_file"),
                major_faults: stat("pgmajfault"),
                limit_hits: self.group.entry("memory.events", "max").unwrap_or(0),
                kills: self.group.entry("memory.events", "oom_kill").unwrap_or(0),
            },
        }
    }

    /// True if a process is in the group or in one below it, or has ended.
    pub fn holds(&self, pid: i32) -> bool {
        let name = self.group.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"));
        groups.map_or(true, |groups| groups.split(['/', '\n']).any(|part| part == name))
    }

    /// Waits until no process is in the group; false if one stays for longer than `patience`.
    pub fn is_left_within(&self, patience: std::time::Duration) -> bool {
        let begin = crate::host::machine::uptime();
        loop {
            let inner = std::fs::read_dir(&self.group.path).into_iter().flatten().flatten();
            let processes = inner
                .map(|entry| entry.path().join("cgroup.procs"))
                .chain([self.group.path.join("cgroup.procs")])
                .filter_map(|file| std::fs::read_to_string(file).ok());
            if processes.into_iter().all(|list| list.trim().is_empty()) {
                return true;
            }
            if crate::host::machine::uptime() - begin > patience {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    fn write(&self, file: &str, text: &str) -> std::io::Result<()> {
        std::fs::write(self.group.path.join(file), text)
    }

    fn figure(&self, file: &str) -> u64 {
        self.group.figure(file).unwrap_or(0)
    }
}

/// Lets groups below a version 2 group limit their memory. The kernel allows that only if the group itself has no process, so
/// this one moves into a group of its own below it.
fn delegate_memory(path: &Path) -> Result<()> {
    let controllers = std::fs::read_to_string(path.join("cgroup.controllers")).unwrap_or_default();
    let has_memory = |list: &str| list.split_whitespace().any(|name| name == "memory");
    ensure!(has_memory(&controllers), "`{}` has no controller for memory", path.display());
    let subtree = path.join("cgroup.subtree_control");
    if has_memory(&std::fs::read_to_string(&subtree).unwrap_or_default()) {
        return Ok(());
    }
    let delegate = || std::fs::write(&subtree, "+memory");
    if delegate().is_ok() {
        return Ok(());
    }
    let leaf =
        ControlGroup::new_below(path).with_context(|| format!("no control group in `{}`", path.display()))?;
    leaf.add(std::process::id()).context("cannot move into a control group")?;
    let told = || format!("`{}` limits no memory of groups in it, and is not ours alone", path.display());
    if let Err(error) = delegate() {
        std::fs::write(path.join("cgroup.procs"), std::process::id().to_string()).ok();
        return Err(error).with_context(told);
    }
    // This process stays in it for life; the next run removes it.
    std::mem::forget(leaf);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of plain files that stands for a version 2 group, without the kernel's behaviour.
    fn group_of_files(controllers: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir_in(".").unwrap();
        for (file, text) in [("cgroup.controllers", controllers), ("cgroup.subtree_control", "")] {
            std::fs::write(dir.path().join(file), text).unwrap();
        }
        dir
    }

    #[test]
    fn version_2_is_asked_by_the_names_that_its_documentation_has() {
        let dir = group_of_files("cpu memory pids");
        let parent = MemoryGroupParent { version: ControlGroupVersion::Two, path: dir.path().to_owned() };
        let made = MemoryGroup::below(&parent).unwrap();
        let path = made.group.path.clone();
        assert_eq!(std::fs::read_to_string(dir.path().join("cgroup.subtree_control")).unwrap(), "+memory");
        assert_eq!(std::fs::read_to_string(path.join("memory.swap.max")).unwrap(), "0");
        assert_eq!(std::fs::read_to_string(path.join("memory.max")).unwrap(), "max");
        for (file, text) in [
            ("memory.current", "1000"),
            (
                "memory.stat",
                "anon 300\nfile 500\nshmem 100\nkernel 50\npgmajfault 3\nworkingset_refault_file 7\n",
            ),
            ("memory.events", "low 0\nhigh 0\nmax 11\noom 1\noom_kill 1\n"),
        ] {
            std::fs::write(path.join(file), text).unwrap();
        }
        let seen = MemoryUse {
            all_bytes: 1000,
            peak_bytes: None,
            cache_bytes: 400,
            anonymous_bytes: 400,
            kernel_bytes: 50,
            refaults: 7,
            major_faults: 3,
            limit_hits: 11,
            kills: 1,
        };
        assert_eq!((made.now(), made.now().kept_bytes()), (seen, 450));
        assert!(made.limit(Some(449)).is_err(), "more is kept than that");
        made.limit(Some(450)).unwrap();
        assert_eq!(std::fs::read_to_string(path.join("memory.max")).unwrap(), "450");
        // The files are not a real group, so they are not removed.
        drop(made);
        assert!(path.is_dir());
    }

    #[test]
    fn a_group_without_the_controller_is_an_error_that_names_it() {
        let dir = group_of_files("cpu pids");
        let parent = MemoryGroupParent { version: ControlGroupVersion::Two, path: dir.path().to_owned() };
        let why = format!("{:#}", MemoryGroup::below(&parent).unwrap_err());
        assert!(
            why.contains("no controller for memory") && why.contains(&dir.path().display().to_string()),
            "{why}"
        );
    }
}
