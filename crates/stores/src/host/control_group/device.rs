//! I/O limits of private block devices: bytes and requests per second, the same for each device and regardless of the process.
//!
//! Only version 1 of control groups can do this: the rules of its root group also apply to delayed writes of the kernel, which
//! belong to no process. The root group of version 2 has no such rules. A rule outlives a freed loop device, so a guard process
//! removes it if this process is killed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{getpid, getppid, setsid};

use crate::host::fork::Forked;
use crate::host::machine::Mount;

/// Highest rate of a device, for reads and for writes separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimit {
    /// Bytes per second; `None` for no limit.
    pub bytes: Option<u64>,
    /// Requests per second; `None` for no limit.
    pub requests: Option<u64>,
}

impl DeviceLimit {
    /// Utilisation of one device's limit by this many requests and bytes per second of reads or of writes: the larger share of
    /// the two.
    pub fn share_of(&self, requests: f64, bytes: f64) -> f64 {
        let shares = [(self.bytes, bytes), (self.requests, requests)];
        let used = shares.into_iter().filter_map(|(most, used)| Some(used / most? as f64));
        used.fold(0.0, f64::max)
    }
}

impl std::fmt::Display for DeviceLimit {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        let bytes = self.bytes.map(|bytes| format!("{bytes} B/s"));
        let requests = self.requests.map(|requests| format!("{requests} iops"));
        write!(to, "{}", bytes.into_iter().chain(requests).collect::<Vec<String>>().join(", "))
    }
}

/// Rules for devices; removed when this is dropped or its process ends.
#[derive(Debug)]
pub struct DeviceCaps {
    root: PathBuf,
    /// Device numbers, such as `7:0`.
    devices: Vec<String>,
    guard: Forked,
}

/// Files of the rules, and whether each limits bytes.
const FILES: [(&str, bool); 4] = [
    ("blkio.throttle.read_bps_device", true),
    ("blkio.throttle.write_bps_device", true),
    ("blkio.throttle.read_iops_device", false),
    ("blkio.throttle.write_iops_device", false),
];

/// Interval at which the guard checks that the run is still there.
const LOOK: Duration = Duration::from_millis(20);

/// Returns why devices cannot be limited on this machine; `None` if they can.
pub fn why_no_device_limit() -> Option<anyhow::Error> {
    root().err()
}

/// Finds the root control group of version 1.
fn root() -> Result<PathBuf> {
    // Number of the initial cgroup namespace (`include/uapi/linux/nsfs.h`): any other namespace hides the root.
    const FIRST: &str = "cgroup:[4026531835]";
    let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo")?;
    let root = root_in(&mounts).filter(|root| root.join(FILES[0].0).exists());
    let root = root.ok_or_else(|| {
        anyhow!(
            "devices can be limited by control groups of version 1 alone (`blkio`), and none is mounted here"
        )
    })?;
    let own = std::fs::read_link("/proc/self/ns/cgroup").unwrap_or_default();
    ensure!(
        own == Path::new(FIRST),
        "devices cannot be limited in a container: its control groups do not hold what the kernel writes later"
    );
    Ok(root)
}

/// Finds the mount point of version 1's `blkio` root in a mount table.
fn root_in(mounts: &str) -> Option<PathBuf> {
    let is_root =
        |mount: &Mount| mount.kind == "cgroup" && mount.has(&["blkio"]).is_some() && mount.root == "/";
    mounts.lines().filter_map(Mount::parse).find(is_root).map(|mount| PathBuf::from(mount.point))
}

/// Removes rules that others left for devices that are ours now.
pub fn lift_limits(devices: &[String]) {
    if let Ok(root) = root() {
        lift(&root, devices);
    }
}

fn lift(root: &Path, devices: &[String]) {
    for (file, _) in FILES {
        let file = root.join(file);
        let rules = std::fs::read_to_string(&file).unwrap_or_default();
        let has =
            |device: &&String| rules.lines().any(|rule| rule.split(' ').next() == Some(device.as_str()));
        for device in devices.iter().filter(has) {
            std::fs::write(&file, format!("{device} 0")).ok();
        }
    }
}

impl DeviceCaps {
    /// Limits each of these devices (`7:0`). This process must have one thread; from then on it and its children are in the root
    /// group of block devices.
    pub fn set(devices: Vec<String>, limit: &DeviceLimit) -> Result<DeviceCaps> {
        let root = root()?;
        // Rules of a group do not apply to the groups below it.
        let enter = std::fs::write(root.join("cgroup.procs"), getpid().as_raw_nonzero().to_string());
        enter.context("cannot enter the root group of block devices")?;
        let parent = getpid();
        let guard = Forked::outliving(|| {
            setsid().ok();
            while getppid() == Some(parent) {
                std::thread::sleep(LOOK);
            }
            lift(&root, &devices);
        })?;
        let caps = DeviceCaps { root, devices, guard };
        for (file, counts_bytes) in FILES {
            let Some(most) = (if counts_bytes { limit.bytes } else { limit.requests }) else { continue };
            for device in &caps.devices {
                let (path, rule) = (caps.root.join(file), format!("{device} {most}"));
                std::fs::write(&path, &rule).with_context(|| format!("the limit `{rule}` is refused"))?;
                let rules = std::fs::read_to_string(&path)?;
                ensure!(rules.lines().any(|line| line == rule), "the limit `{rule}` is not there");
            }
        }
        Ok(caps)
    }
}

impl Drop for DeviceCaps {
    fn drop(&mut self) {
        lift(&self.root, &self.devices);
        self.guard.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_group_of_block_devices_is_found() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 24 0:27 / /sys/fs/cgroup/blkio rw,nosuid shared:1 - cgroup cgroup rw,blkio\n\
                      32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(root_in(mounts), Some(PathBuf::from("/sys/fs/cgroup/blkio")));
        assert_eq!(root_in(&mounts.replace(" / /sys/fs/cgroup/blkio", " /a /sys/fs/cgroup/blkio")), None);
        assert_eq!(root_in(&mounts.replace("blkio", "io")), None);
    }

    #[test]
    fn a_rule_that_is_there_is_taken_away_and_no_other() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let file = |index: usize| dir.path().join(FILES[index].0);
        for (name, _) in FILES {
            std::fs::write(dir.path().join(name), "7:11 5\n").unwrap();
        }
        std::fs::write(file(1), "7:1 5\n").unwrap();
        lift(dir.path(), &["7:1".to_owned()]);
        let text = |index: usize| std::fs::read_to_string(file(index)).unwrap();
        assert_eq!((text(0).as_str(), text(1).as_str()), ("7:11 5\n", "7:1 0"));
    }
}
