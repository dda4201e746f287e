//! The storage stack below a directory, layer by layer: what finally stores its bytes, and whether flushes get there.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kernel_text::read;
use super::mount::Mount;

/// Kind of storage that finally holds the bytes of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// Block devices that are not memory of this system.
    Disk,
    /// Storage that this system cannot inspect: a program in user space, another machine, or a layer whose parts are not visible.
    #[default]
    NotKnown,
    /// Memory of this system, partly or entirely.
    Memory,
}

/// The storage layers below a directory, down to the medium that holds its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StorageLayers {
    /// Types of file systems and names of devices, from the top down.
    pub layers: Vec<String>,
    /// Medium that holds the bytes.
    pub medium: Medium,
    /// Layers mounted with an option that stops flushes, with that option: `ext4 (nobarrier)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_flushes: Vec<String>,
}

/// File systems that keep their data in memory.
const IN_MEMORY: &[&str] = &["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];

/// Prefixes of the names of devices that are memory of this system ([`MEMORY_DEVICES`]), and of devices backed by a program,
/// another machine or something unknown (`OPAQUE_DEVICES`).
const MEMORY_DEVICES: &[&str] = &["ram", "zram", "nullb"];
const OPAQUE_DEVICES: &[&str] = &["nbd", "rbd", "ublkb", "drbd", "zd", "pmem", "dm-", "md", "bcache"];

/// Models of devices that only simulate a disk.
const PRETENDED: &[&str] = &["scsi_debug", "RAMDISK-MCP"];

/// Mount options that stop flushes: of ext4, btrfs and f2fs; ext3 and OCFS2; ReiserFS; f2fs; overlayfs; SMB.
const WITHOUT_FLUSHES: &[&str] = &[
    "nobarrier",
    "barrier=0",
    "barrier=none",
    "fsync_mode=nobarrier",
    "volatile",
    "fsync=volatile",
    "nostrictsync",
];

/// Limit on the number of layers, far above what is used in practice.
const LAYERS_MAX: usize = 32;

impl StorageLayers {
    /// Inspects a directory, or the nearest existing one above it.
    pub fn inspect(dir: &Path) -> StorageLayers {
        let dir = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
        let mut below = StorageLayers::default();
        below.medium = below.path(dir);
        below
    }

    /// Formats the layers: `ext4 on loop0 on tmpfs`.
    pub fn description(&self) -> String {
        self.layers.join(" on ")
    }

    /// Continues below a file or a directory.
    fn path(&mut self, path: &Path) -> Medium {
        match Mount::for_path(path) {
            Some(mount) => self.mount(&mount, Some(path)),
            None => Medium::NotKnown,
        }
    }

    /// Continues below a mount; `path` is the path used on it, if known.
    fn mount(&mut self, mount: &Mount, path: Option<&Path>) -> Medium {
        if self.layers.len() >= LAYERS_MAX {
            return Medium::NotKnown;
        }
        let kind = mount.kind.as_str();
        self.layers.push(kind.to_owned());
        let without = mount.has(WITHOUT_FLUSHES).map(|option| format!("{kind} ({option})"));
        self.without_flushes.extend(without.filter(|layer| !self.without_flushes.contains(layer)));
        if IN_MEMORY.contains(&kind) {
            return Medium::Memory;
        }
        if kind == "overlay" {
            return upper(mount, path).map_or(Medium::NotKnown, |upper| self.path(&upper));
        }
        let device = PathBuf::from(format!("/sys/dev/block/{}", mount.device));
        if device.exists() {
            let medium = self.device(&device);
            // A user-space program stands between the mount and the device.
            return if kind.starts_with("fuse") { medium.max(Medium::NotKnown) } else { medium };
        }
        if kind == "btrfs" {
            return self.each(btrfs_devices(&mount.source));
        }
        // The source of a mount, if it is a path, lies below it only by the mount's own claim. A disk there does not prove that
        // bytes and flushes reach it.
        let source = Path::new(&mount.source);
        let is_below = source.is_absolute()
            && std::fs::metadata(source).is_ok_and(|of| !of.file_type().is_char_device());
        if is_below { self.source(source).max(Medium::NotKnown) } else { Medium::NotKnown }
    }

    /// Continues below a path that a mount names as its source.
    fn source(&mut self, source: &Path) -> Medium {
        match std::fs::metadata(source) {
            Ok(of) if of.file_type().is_block_device() => self.device(&by_number(of.rdev())),
            Ok(_) => self.path(source),
            Err(_) => Medium::NotKnown,
        }
    }

    /// Continues below a block device, given by its directory in /sys.
    fn device(&mut self, sys: &Path) -> Medium {
        let Ok(mut sys) = sys.canonicalize() else { return Medium::NotKnown };
        if sys.join("partition").exists() {
            sys.pop();
        }
        let name = sys.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if self.layers.len() >= LAYERS_MAX {
            return Medium::NotKnown;
        }
        self.layers.push(name.clone());
        if let Some(file) = read(sys.join("loop/backing_file")) {
            return self.file_of_loop(&name, file.trim_end_matches('\n'));
        }
        let parts = std::fs::read_dir(sys.join("slaves")).into_iter().flatten().flatten();
        let parts: Vec<PathBuf> = parts.map(|part| part.path()).collect();
        let begins = |names: &[&str]| names.iter().any(|begin| name.starts_with(begin));
        let is_pretended = || {
            let model = read(sys.join("device/model")).unwrap_or_default();
            PRETENDED.contains(&model.trim())
        };
        match parts.is_empty() {
            false => self.each(parts),
            true if begins(MEMORY_DEVICES) || is_pretended() => Medium::Memory,
            true if begins(OPAQUE_DEVICES) => Medium::NotKnown,
            true => Medium::Disk,
        }
    }

    /// Continues below each of several devices. The result is the worst of them: storage that is partly in memory counts as
    /// memory.
    fn each(&mut self, devices: Vec<PathBuf>) -> Medium {
        devices.iter().map(|device| self.device(device)).max().unwrap_or(Medium::NotKnown)
    }

    /// Continues below the backing file of a loop device. The kernel reports its path as the creator saw it when the device was
    /// set up; today, or from here, that path may lead to another file.
    fn file_of_loop(&mut self, name: &str, path: &str) -> Medium {
        let path = Path::new(path);
        let known = std::fs::metadata(path).ok();
        match (loop_file(name), known) {
            (Some((_, inode)), Some(known)) if known.ino() == inode => self.path(path),
            (Some((device, _)), _) => self.number(device),
            // Only root may query the device itself.
            (None, Some(_)) => self.path(path),
            (None, None) => Medium::NotKnown,
        }
    }

    /// Continues below the file system of a file with this device number.
    fn number(&mut self, device: u64) -> Medium {
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        match Mount::all().into_iter().find(|mount| mount.device == number) {
            Some(mount) => self.mount(&mount, None),
            // Not mounted here.
            None => self.device(&by_number(device)),
        }
    }
}

fn by_number(device: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device)))
}

/// Maps a path on an overlay to its upper (writable) directory; `None` if that is not visible, because in a container its path is
/// the host's, or if the path does not exist there.
fn upper(mount: &Mount, path: Option<&Path>) -> Option<PathBuf> {
    let upper = PathBuf::from(mount.value("upperdir")?);
    let used = path?.canonicalize().ok()?;
    let below = used.strip_prefix(&mount.point).ok()?;
    let root = mount.root.strip_prefix('/').unwrap_or(&mount.root);
    let same = upper.join(root).join(below);
    (upper.is_absolute() && same.exists()).then_some(same)
}

/// Lists the devices of a btrfs, given one of them.
fn btrfs_devices(source: &str) -> Vec<PathBuf> {
    let Ok(source) = Path::new(source).canonicalize() else { return Vec::new() };
    let own = source.file_name().unwrap_or_default();
    let systems = std::fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten();
    let devices =
        systems.map(|system| system.path().join("devices")).find(|devices| devices.join(own).exists());
    let all = devices.and_then(|devices| std::fs::read_dir(devices).ok()).into_iter().flatten().flatten();
    all.map(|device| device.path()).collect()
}

/// Device number and inode of a loop device's backing file; `None` without permission to open the device.
#[expect(unsafe_code, reason = "a loop device is asked by ioctl")]
fn loop_file(name: &str) -> Option<(u64, u64)> {
    /// `LOOP_GET_STATUS64` and `struct loop_info64` (`linux/loop.h`), of which the first two fields are used.
    const GET_STATUS: libc::c_ulong = 0x4C05;
    const INFO_BYTES: usize = 232;
    let device = File::open(format!("/dev/{name}")).ok()?;
    let mut info = [0_u64; INFO_BYTES / 8];
    // SAFETY: the request writes a `struct loop_info64` of that size to `info`, which lives during the call.
    let told = unsafe { libc::ioctl(device.as_raw_fd(), GET_STATUS as _, info.as_mut_ptr()) };
    (told == 0).then_some((info[0], info[1]))
}

/// True if the bytes of a directory are in memory, whatever layers lie between.
pub fn is_in_memory(dir: &Path) -> bool {
    StorageLayers::inspect(dir).medium == Medium::Memory
}
