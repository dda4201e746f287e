//! Mounts and file systems: what a directory lies on, its free space, and flushing it.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result};

use super::device::Device;
use super::kernel_text::read;
use super::quota::{QuotaLeft, quotas};

/// Space left in the file system of a directory for a user other than root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// Free bytes.
    pub free_bytes: u64,
    /// Size of the file system in bytes.
    pub bytes: u64,
    /// Smallest allocation of a file in bytes.
    pub block_bytes: u64,
    /// Free and total inodes; `None` on a file system without a fixed number of them (btrfs, FAT).
    pub inodes: Option<(u64, u64)>,
    /// True if a quota of this user or group leaves less than the file system has.
    pub by_quota: bool,
}

impl FileSystemSpace {
    /// What is left of it within a quota.
    fn within(self, quota: QuotaLeft) -> FileSystemSpace {
        let bytes = quota.bytes.filter(|bytes| *bytes < self.free_bytes);
        let is_less = |left: u64| self.inodes.is_none_or(|(free, _)| left < free);
        let inodes = quota.inodes.filter(|(left, _)| is_less(*left));
        FileSystemSpace {
            free_bytes: bytes.unwrap_or(self.free_bytes),
            inodes: inodes.or(self.inodes),
            by_quota: self.by_quota || bytes.is_some() || inodes.is_some(),
            ..self
        }
    }
}

/// Looks up the space left in the file system of a directory.
pub fn room(dir: &Path) -> Result<FileSystemSpace> {
    let space = rustix::fs::statvfs(dir)
        .with_context(|| format!("cannot look up the space in `{}`", dir.display()))?;
    let room = FileSystemSpace {
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        bytes: space.f_blocks.saturating_mul(space.f_frsize),
        block_bytes: space.f_frsize,
        inodes: (space.f_files > 0).then_some((space.f_favail, space.f_files)),
        by_quota: false,
    };
    Ok(quotas(dir).into_iter().fold(room, FileSystemSpace::within))
}

/// Free bytes for a user below a directory.
pub fn free_bytes(dir: &Path) -> Result<u64> {
    Ok(room(dir)?.free_bytes)
}

/// Describes the disk that a directory lies on: file system, device and mount point.
pub fn disk(dir: &Path) -> String {
    let Some(mount) = Mount::for_path(dir) else {
        return "on a disk that the kernel does not name".to_owned();
    };
    // A mount that does not map to one device still names its source.
    let device = Device::for_dir(dir).map_or(mount.source, |device| device.name);
    format!("{} on `{device}`, mounted at `{}`", mount.kind, mount.point)
}

/// A line of the kernel's mount table.
pub(in crate::host) struct Mount {
    /// Device number, such as `254:0`.
    pub(super) device: String,
    /// Directory of the file system that is mounted.
    pub(in crate::host) root: String,
    pub(in crate::host) point: String,
    pub(in crate::host) kind: String,
    /// Options as written in the table; may contain escaped paths.
    pub(super) options: String,
    pub(super) source: String,
}

impl Mount {
    /// Finds the mount of a path: the longest mount point that contains it, and the last of several.
    pub(super) fn for_path(path: &Path) -> Option<Mount> {
        let path = path.canonicalize().ok()?;
        let longest = |mount: &Mount| mount.point.len();
        Mount::all().into_iter().filter(|mount| path.starts_with(&mount.point)).max_by_key(longest)
    }

    /// Lists all mounts of the calling thread.
    pub(super) fn all() -> Vec<Mount> {
        // A thread may have a mount namespace of its own.
        let table = read("/proc/thread-self/mountinfo").unwrap_or_default();
        table.lines().filter_map(Mount::parse).collect()
    }

    /// Reads a line: ID, parent, device, root, mount point, options, ... - type, source, options of the file system.
    pub(in crate::host) fn parse(line: &str) -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        Some(Mount {
            device: (*left.get(2)?).to_owned(),
            root: unescaped(left.get(3)?),
            point: unescaped(left.get(4)?),
            kind: (*right.first()?).to_owned(),
            options: format!("{} {}", left.get(5)?, right.get(2).copied().unwrap_or_default()),
            source: unescaped(right.get(1).copied().unwrap_or_default()),
        })
    }

    fn each_option(&self) -> impl Iterator<Item = &str> {
        self.options.split([',', ' '])
    }

    /// Returns the first of these options that the mount has.
    pub(in crate::host) fn has(&self, options: &[&str]) -> Option<&str> {
        self.each_option().find(|option| options.contains(option))
    }

    pub(super) fn value(&self, name: &str) -> Option<String> {
        self.each_option().find_map(|option| option.strip_prefix(name)?.strip_prefix('=')).map(unescaped)
    }
}

/// Decodes the octal escapes (`\040`) of the mount table.
pub(super) fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(part[3..].bytes());
            }
            None => bytes.extend([b"\\", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Type of the file system that a directory, or the nearest existing one above it, lies on.
pub fn file_system(dir: &Path) -> Option<String> {
    let dir = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    Mount::for_path(dir).map(|mount| mount.kind)
}

/// Type and mount options of the file system that a directory lies on, as the kernel lists them.
pub fn mounted_as(dir: &Path) -> Option<(String, String)> {
    Mount::for_path(dir).map(|mount| (mount.kind, mount.options))
}

/// True if the file system of a directory revisits recently deleted inodes for each new file. ext4 without a journal does, and
/// ext2 by the same driver: it does not reuse an inode within a minute of its deletion, or within six minutes while that is not
/// on the device (`recently_deleted` in `fs/ext4/ialloc.c`), and checks each of them again every time.
pub fn remembers_deletions(dir: &Path) -> bool {
    let is_ext4 =
        Mount::for_path(dir).is_some_and(|mount| ["ext2", "ext3", "ext4"].contains(&mount.kind.as_str()));
    let task = || read(format!("/sys/fs/ext4/{}/journal_task", Device::for_dir(dir)?.name));
    is_ext4 && task().is_some_and(|task| task.trim() == "<none>")
}

/// Identifies what a path means here: this boot, the mount namespace in which this program began, and its root directory (chroot);
/// empty if unknown. A mount namespace that it makes for itself later shows the same directories to it.
pub fn path_space() -> &'static str {
    static FIRST: OnceLock<String> = OnceLock::new();
    FIRST.get_or_init(|| {
        let boot = read("/proc/sys/kernel/random/boot_id");
        let mounts = std::fs::read_link("/proc/self/ns/mnt").ok();
        let root = std::fs::metadata("/").ok();
        boot.zip(mounts).zip(root).map_or_else(String::new, |((boot, mounts), root)| {
            format!("{} {} {}:{}", boot.trim(), mounts.display(), root.dev(), root.ino())
        })
    })
}

/// Asks the file system to spread the subdirectories of this directory, as it does in its root. Only ext2 to ext4 know the flag,
/// as a hint.
pub fn spread_directories(dir: &Path) -> Result<()> {
    let directory = File::open(dir)?;
    let flags = rustix::fs::ioctl_getflags(&directory)?;
    Ok(rustix::fs::ioctl_setflags(&directory, flags | rustix::fs::IFlags::TOPDIR)?)
}

/// True if the file system of a directory is mounted read-only.
pub fn is_read_only(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|space| space.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Writes all dirty data of a directory's file system to its device.
pub fn sync_filesystem(dir: &Path) -> Result<()> {
    let opened = File::open(dir).with_context(|| format!("cannot open `{}`", dir.display()))?;
    rustix::fs::syncfs(&opened)
        .with_context(|| format!("cannot flush the file system of `{}`", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_takes_only_from_what_is_left() {
        let room = FileSystemSpace {
            free_bytes: 1000,
            bytes: 4000,
            block_bytes: 4,
            inodes: Some((10, 20)),
            by_quota: false,
        };
        let within = |bytes, inodes| room.within(QuotaLeft { bytes, inodes });
        assert_eq!(within(None, None), room);
        assert_eq!(within(Some(1000), Some((10, 15))), room);
        assert_eq!(within(Some(7), None), FileSystemSpace { free_bytes: 7, by_quota: true, ..room });
        let few = FileSystemSpace { inodes: Some((3, 5)), by_quota: true, ..room };
        assert_eq!(within(Some(2000), Some((3, 5))), few);
        let unlimited = FileSystemSpace { inodes: None, ..room };
        assert_eq!(unlimited.within(QuotaLeft { bytes: None, inodes: Some((3, 5)) }).inodes, Some((3, 5)));
    }
}
