//! The control group that limits this process's memory.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::mount::Mount;

/// Prefix of the names of blobwise's own groups.
pub const GROUP_PREFIX: &str = "blobwise-";

/// Version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlGroupVersion {
    /// A hierarchy for memory alone.
    One,
    /// One hierarchy for everything.
    Two,
}

/// The memory group that this process is in. Groups of a run are made below it, so that its own limits keep applying.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryGroupParent {
    /// Version of the hierarchy that it is in.
    pub version: ControlGroupVersion,
    /// Its directory.
    pub path: PathBuf,
}

impl MemoryGroupParent {
    /// The smallest limit of the group and those above it; groups of blobwise's own do not count.
    fn limit(&self) -> Option<u64> {
        let file = match self.version {
            ControlGroupVersion::One => "memory.limit_in_bytes",
            ControlGroupVersion::Two => "memory.max",
        };
        let is_own = |path: &&Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            let numbers = name.and_then(|name| name.strip_prefix(GROUP_PREFIX));
            numbers.is_some_and(|numbers| numbers.bytes().all(|sign| sign.is_ascii_digit() || sign == b'-'))
        };
        let limit = |path: &Path| std::fs::read_to_string(path.join(file)).ok()?.trim().parse().ok();
        self.path.ancestors().filter(|path| !is_own(path)).filter_map(limit).min()
    }
}

/// Memory in bytes that the control groups allow this process, which a container or a service manager set. `None` if there is no
/// limit or it cannot be read.
pub fn memory_limit() -> Option<u64> {
    let read = |file: &str| std::fs::read_to_string(file).ok();
    memory_group_parent(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?).ok()?.limit()
}

/// Finds where memory groups can be made, from the kernel's lists of this process's groups and of mounts (`cgroups(7)`,
/// `proc(5)`).
pub fn memory_group_parent(groups: &str, mounts: &str) -> Result<MemoryGroupParent> {
    let own = |controller: &str| {
        let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines.find(|(names, _)| names.split(',').any(|name| name == controller)).map(|(_, path)| path)
    };
    let mounted = |is_meant: fn(&Mount) -> bool| mounts.lines().filter_map(Mount::parse).find(is_meant);
    let one = mounted(|mount| mount.kind == "cgroup" && mount.has(&["memory"]).is_some());
    let of_one = own("memory").zip(one).map(|found| (ControlGroupVersion::One, found));
    let two = || mounted(|mount| mount.kind == "cgroup2");
    let of_two = || own("").zip(two()).map(|found| (ControlGroupVersion::Two, found));
    let (version, (own, mount)) =
        of_one.or_else(of_two).context("memory cannot be limited here: no control groups are mounted")?;
    let own = own.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(own).trim_start_matches('/');
    let path = Path::new(&mount.point).join(own);
    // In a container the path may be one that only the host sees.
    let path = if path.is_dir() { path } else { PathBuf::from(mount.point) };
    Ok(MemoryGroupParent { version, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS_ONE: &str = "4:memory:/user/7\n2:cpuacct,cpu:/other\n0::/\n";
    const GROUPS_TWO: &str = "0::/user/7\n";

    /// Lines of `/proc/self/mountinfo` with these mount points.
    fn mounts(one: &Path, two: &Path, root: &str) -> String {
        format!(
            "30 25 0:26 {root} {} rw,relatime - cgroup cgroup rw,memory\n31 25 0:27 / {} rw,relatime - cgroup2 cgroup2 rw\n",
            one.display(),
            two.display()
        )
    }

    #[test]
    fn groups_are_made_where_this_process_is() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        for path in [one.join("user/7"), two.join("user/7")] {
            std::fs::create_dir_all(path).unwrap();
        }
        let found =
            |groups: &str, root: &str| memory_group_parent(groups, &mounts(&one, &two, root)).unwrap();
        let at = |version, path: PathBuf| MemoryGroupParent { version, path };
        assert_eq!(found(GROUPS_ONE, "/"), at(ControlGroupVersion::One, one.join("user/7")));
        // In a container the mount shows what lies below the container's group.
        assert_eq!(found(GROUPS_ONE, "/user/7"), at(ControlGroupVersion::One, one.clone()));
        assert_eq!(found(GROUPS_ONE, "/elsewhere"), at(ControlGroupVersion::One, one.join("user/7")));
        assert_eq!(found(GROUPS_TWO, "/"), at(ControlGroupVersion::Two, two.join("user/7")));
        assert_eq!(found("0::/not/seen/here\n", "/"), at(ControlGroupVersion::Two, two.clone()));
        assert!(memory_group_parent(GROUPS_TWO, "").is_err());
    }

    #[test]
    fn the_smallest_limit_above_this_process_counts_and_none_of_its_own() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("container/user/blobwise-1-2-3-4");
        std::fs::create_dir_all(&path).unwrap();
        let at = MemoryGroupParent { version: ControlGroupVersion::Two, path: path.clone() };
        assert_eq!(at.limit(), None);
        for (group, text) in [("", "max\n"), ("container", "5000\n"), ("container/user", "7000\n")] {
            std::fs::write(dir.path().join(group).join("memory.max"), text).unwrap();
        }
        std::fs::write(path.join("memory.max"), "100\n").unwrap();
        assert_eq!(at.limit(), Some(5000));
    }
}
