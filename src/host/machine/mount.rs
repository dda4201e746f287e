//! File systems: what a directory lies on, what is free there, and writing everything down.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};

use super::device::Device;
use super::kernel_text::read;

/// What the file system of a directory has left for a user who is not root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes of the file system.
    pub bytes: u64,
    /// Bytes that the smallest file takes.
    pub block_bytes: u64,
    /// Inodes that are free, and all of them; `None` where the file system has no fixed number (btrfs, FAT).
    pub inodes: Option<(u64, u64)>,
}

/// Looks up what the file system of a directory has left.
pub fn room(dir: &Path) -> Result<Room> {
    let space = rustix::fs::statvfs(dir)
        .with_context(|| format!("cannot look up the space in `{}`", dir.display()))?;
    Ok(Room {
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        bytes: space.f_blocks.saturating_mul(space.f_frsize),
        block_bytes: space.f_frsize,
        inodes: (space.f_files > 0).then_some((space.f_favail, space.f_files)),
    })
}

/// Bytes a user may still write below a directory.
pub fn free_bytes(dir: &Path) -> Result<u64> {
    Ok(room(dir)?.free_bytes)
}

/// The disk that a directory lies on, in words: its file system, where that is mounted, and the device.
pub fn disk(dir: &Path) -> String {
    let Some(mount) = Mount::of(dir) else { return "on a disk that the kernel does not name".to_owned() };
    // Where a mount does not map to one device, it says what it was made from.
    let device = Device::of(dir).map_or(mount.source, |device| device.name);
    format!("{} on `{device}`, mounted at `{}`", mount.kind, mount.point)
}

/// A line of the kernel's table of mounts.
pub(super) struct Mount {
    /// The number of what it shows as a device, such as `254:0`.
    pub(super) device: String,
    /// The directory of its file system that it shows.
    pub(super) root: String,
    pub(super) point: String,
    pub(super) kind: String,
    /// As they are written there: a path may be among them.
    pub(super) options: String,
    pub(super) source: String,
}

impl Mount {
    /// The mount that a path lies on: the longest mount point that contains it, and of several the last.
    pub(super) fn of(path: &Path) -> Option<Mount> {
        let path = path.canonicalize().ok()?;
        let longest = |mount: &Mount| mount.point.len();
        Mount::all().into_iter().filter(|mount| path.starts_with(&mount.point)).max_by_key(longest)
    }

    /// All mounts.
    pub(super) fn all() -> Vec<Mount> {
        // A thread may have mounts of its own.
        let table = read("/proc/thread-self/mountinfo").unwrap_or_default();
        table.lines().filter_map(Mount::parse).collect()
    }

    fn parse(line: &str) -> Option<Mount> {
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

    /// The first of these options that it has.
    pub(super) fn has(&self, options: &[&str]) -> Option<&str> {
        self.each_option().find(|option| options.contains(option))
    }

    /// The value of an option.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        self.each_option().find_map(|option| option.strip_prefix(name)?.strip_prefix('=')).map(unescaped)
    }
}

/// A text of the table of mounts: what separates fields, lines and options there is written in three octal digits.
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

/// The kind of file system that a directory, or the nearest one above it that exists, lies on.
pub fn file_system(dir: &Path) -> Option<String> {
    let dir = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    Mount::of(dir).map(|mount| mount.kind)
}

/// The kind of file system that a directory lies on and the options of its mount, as the kernel has them.
pub fn mounted_as(dir: &Path) -> Option<(String, String)> {
    Mount::of(dir).map(|mount| (mount.kind, mount.options))
}

/// Whether the file system of a directory goes over what was deleted lately for each file that it makes. ext4 without a journal
/// does, and ext2 by the same driver: it gives no inode away within a minute of its deletion, or within six while that is not on the device
/// (`recently_deleted` in `fs/ext4/ialloc.c`), and asks for each of them again every time.
pub fn remembers_deletions(dir: &Path) -> bool {
    let is_ext4 = Mount::of(dir).is_some_and(|mount| ["ext2", "ext3", "ext4"].contains(&mount.kind.as_str()));
    let task = || read(format!("/sys/fs/ext4/{}/journal_task", Device::of(dir)?.name));
    is_ext4 && task().is_some_and(|task| task.trim() == "<none>")
}

/// Asks the file system to put each directory that is made in this one far from the others, as it does in its root. Whether it
/// does is its own affair: only ext2 to ext4 know of it.
pub fn spread_directories(dir: &Path) -> Result<()> {
    let directory = File::open(dir)?;
    let flags = rustix::fs::ioctl_getflags(&directory)?;
    Ok(rustix::fs::ioctl_setflags(&directory, flags | rustix::fs::IFlags::TOPDIR)?)
}

/// Whether a directory's file system is mounted read-only.
pub fn is_read_only(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|space| space.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Writes everything that is dirty on the file system of a directory to its device.
pub fn sync_filesystem(dir: &Path) -> Result<()> {
    let opened = File::open(dir).with_context(|| format!("cannot open `{}`", dir.display()))?;
    rustix::fs::syncfs(&opened)
        .with_context(|| format!("cannot flush the file system of `{}`", dir.display()))
}
