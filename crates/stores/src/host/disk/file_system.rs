//! File systems that can be made on private disks: names, `mkfs` programs, and what this machine lacks for each.

use std::path::Path;

use anyhow::{Result, anyhow};

use crate::host::server::Program;

/// A file system on one or more disks, by its name for users: `ext4`, `btrfs-raid0:4`, or nearly full `ext4@90%`.
#[derive(Clone, Debug)]
pub struct FileSystem {
    name: String,
    pub(super) maker: &'static FileSystemType,
    pub(super) profile: Option<&'static Profile>,
    devices: usize,
    /// Percentage to fill before use, if the name gives one.
    filled: Option<u8>,
}

/// How to make a type of file system.
#[derive(Debug)]
pub(super) struct FileSystemType {
    /// Name for users.
    name: &'static str,
    /// Type in the kernel.
    pub(super) kind: &'static str,
    pub(super) program: Program,
    /// Arguments besides the devices: do not prompt, do not discard, leave no work for later.
    pub(super) words: &'static [&'static str],
    /// Mount options besides the kernel's defaults.
    pub(super) mount: &'static str,
}

/// How a file system distributes data over several disks.
#[derive(Debug)]
pub(super) struct Profile {
    /// Name for `mkfs`.
    pub(super) name: &'static str,
    /// Least number of disks.
    least: usize,
    /// Copies of each byte; with parity, one disk's worth of parity.
    copies: Redundancy,
}

#[derive(Clone, Copy, Debug)]
enum Redundancy {
    Of(u64),
    WithParity,
}

/// Highest percentage to which a file system is filled, so that there is room for the measurement.
pub const FILLED_MAX: u8 = 90;

/// Share of a disk that files have at least; the rest is for metadata and the blocks reserved for root.
const FILES_SHARE: f64 = 0.8;

/// Highest number of disks of one file system.
const DEVICES_MAX: usize = 16;

/// Initialises the tables and the journal at once, which mke2fs would leave to the kernel to do during a measurement. No
/// discards: they would make holes in the images, which are slow to write to.
const EXT: &[&str] = &["-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];

const fn ext(kind: &'static str, mkfs: &'static str) -> FileSystemType {
    let program = Program::plain(mkfs, &["-V"], "mke2fs", "apt-get install e2fsprogs");
    FileSystemType { name: kind, kind, program, words: EXT, mount: "" }
}

const fn btrfs(name: &'static str, mount: &'static str) -> FileSystemType {
    let program = Program::plain("mkfs.btrfs", &["--version"], "mkfs.btrfs", "apt-get install btrfs-progs");
    FileSystemType { name, kind: WITH_PROFILES, program, words: &["-f", "-K"], mount }
}

/// File systems in the order of lists.
const MAKERS: &[FileSystemType] = &[
    ext("ext2", "mkfs.ext2"),
    ext("ext3", "mkfs.ext3"),
    ext("ext4", "mkfs.ext4"),
    FileSystemType {
        name: "xfs",
        kind: "xfs",
        program: Program::plain("mkfs.xfs", &["-V"], "mkfs.xfs", "apt-get install xfsprogs"),
        words: &["-f", "-K"],
        mount: "",
    },
    btrfs("btrfs", "nodiscard"),
    // Overwrites in place, without checksums.
    btrfs("btrfs-nocow", "nodiscard,nodatacow"),
    FileSystemType {
        name: "jfs",
        kind: "jfs",
        program: Program::plain("mkfs.jfs", &["-V"], "mkfs.jfs", "apt-get install jfsutils"),
        words: &["-q"],
        mount: "",
    },
    FileSystemType {
        name: "reiserfs",
        kind: "reiserfs",
        program: Program::plain("mkfs.reiserfs", &["-V"], "reiserfs", "apt-get install reiserfsprogs"),
        words: &["-q", "-ff"],
        mount: "",
    },
    FileSystemType {
        name: "f2fs",
        kind: "f2fs",
        program: Program::plain("mkfs.f2fs", &["-V"], "mkfs.f2fs", "apt-get install f2fs-tools"),
        words: &["-f", "-t", "0"],
        mount: "nodiscard",
    },
];

/// Data profiles of btrfs. Metadata has the defaults of mkfs: two copies, on different disks if there are several.
const PROFILES: &[Profile] = &[
    Profile { name: "single", least: 1, copies: Redundancy::Of(1) },
    Profile { name: "raid0", least: 2, copies: Redundancy::Of(1) },
    Profile { name: "raid1", least: 2, copies: Redundancy::Of(2) },
    Profile { name: "raid10", least: 4, copies: Redundancy::Of(2) },
    Profile { name: "raid5", least: 3, copies: Redundancy::WithParity },
];
/// Name of the file system that has these profiles.
const WITH_PROFILES: &str = "btrfs";

/// Known file systems that are not supported because they have not been tested, with a path that exists if the kernel has them.
const OTHERS: &[(&str, &str)] =
    &[("bcachefs", "/sys/fs/bcachefs"), ("zfs", "/sys/module/zfs"), ("md", "/proc/mdstat")];

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoFileSystem {
    /// No file system has this name.
    Unknown,
    /// Known but not supported, or not with this number of disks; contains the reason.
    Not(String),
}

impl FileSystem {
    /// Parses a name.
    pub fn parse(text: &str) -> Result<FileSystem, NoFileSystem> {
        let Some((empty, filled)) = text.split_once('@') else { return FileSystem::empty(text) };
        let share = filled.strip_suffix('%').and_then(|share| share.parse().ok());
        match share.filter(|share| (1..=FILLED_MAX).contains(share)) {
            Some(share) => {
                let system = FileSystem::empty(empty)?;
                let name = format!("{}@{share}%", system.name);
                Ok(FileSystem { name, filled: Some(share), ..system })
            }
            None => Err(NoFileSystem::Not(format!(
                "`{text}`: a file system is filled to 1% to {FILLED_MAX}%, in whole numbers, so that there is room to measure in"
            ))),
        }
    }

    fn empty(text: &str) -> Result<FileSystem, NoFileSystem> {
        let (name, devices) = match text.split_once(':') {
            Some((name, devices)) => (name, Some(devices)),
            None => (text, None),
        };
        if let Some((kind, seen)) = OTHERS.iter().find(|(kind, _)| name.split('-').next() == Some(*kind)) {
            return Err(NoFileSystem::Not(why_no_other(kind, seen)));
        }
        let is_whole = MAKERS.iter().any(|maker| maker.name == name);
        let (known, profile) = match name.split_once('-').filter(|_| !is_whole) {
            Some((WITH_PROFILES, profile)) => {
                let known = PROFILES.iter().find(|known| known.name == profile);
                (WITH_PROFILES, Some(known.ok_or(NoFileSystem::Unknown)?))
            }
            Some(_) => return Err(NoFileSystem::Unknown),
            None => (name, None),
        };
        let maker = MAKERS.iter().find(|maker| maker.name == known).ok_or(NoFileSystem::Unknown)?;
        let Some(profile) = profile else {
            return match devices {
                None => Ok(FileSystem { name: name.to_owned(), maker, profile, devices: 1, filled: None }),
                Some(_) => Err(NoFileSystem::Not(format!(
                    "`{text}`: {known} by this name lies on one disk; several are for `btrfs-PROFILE:N`"
                ))),
            };
        };
        let devices = devices.map_or(Ok(profile.least), str::parse).unwrap_or(0);
        if !(profile.least..=DEVICES_MAX).contains(&devices) {
            let least = profile.least;
            return Err(NoFileSystem::Not(format!("`{text}`: {name} takes {least} to {DEVICES_MAX} disks")));
        }
        let name = format!("{name}:{devices}");
        Ok(FileSystem { name, maker, profile: Some(profile), devices, filled: None })
    }

    /// All file systems, each with the least number of disks.
    pub fn all() -> Vec<FileSystem> {
        names().iter().filter_map(|name| FileSystem::parse(name).ok()).collect()
    }

    /// Canonical name, with the number of disks if it has a profile.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Share of the space to fill before use: the name's, or `others` if the name gives none.
    pub fn filled(&self, others: f64) -> f64 {
        self.filled.map_or(others, |share| f64::from(share) / 100.0)
    }

    /// Number of disks.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Size of each disk in bytes that leaves room for `room` bytes of files.
    pub fn device_bytes(&self, room: u64) -> u64 {
        /// Below this size mkfs behaves as for small disks: XFS refuses, ext4 and btrfs use other sizes.
        const BYTES_MIN: u64 = 512 << 20;
        /// Least size if there are several disks, which together have at least as much.
        const BYTES_MIN_OF_SEVERAL: u64 = 256 << 20;
        const MIB: u64 = 1 << 20;
        let room = (room as f64 / FILES_SHARE) as u64;
        let devices = self.devices as u64;
        let all = match self.profile.map(|profile| profile.copies) {
            Some(Redundancy::Of(copies)) => room * copies,
            Some(Redundancy::WithParity) => room * devices / (devices - 1),
            None => room,
        };
        let least = if devices == 1 { BYTES_MIN } else { BYTES_MIN_OF_SEVERAL };
        all.div_ceil(devices).max(least).next_multiple_of(MIB)
    }

    /// Share of its disks that can change once it is filled as [`FileSystem::filled`] says. Only the files that fill it stay in
    /// their place: in time, journals and new files use every other block, those that are reserved for root too.
    pub fn changing_share(&self, others: f64) -> f64 {
        1.0 - FILES_SHARE * self.filled(others)
    }

    /// Arguments for `mkfs` on disks of this size, so that there are at least `inodes` inodes. ext2 to ext4 have a fixed number,
    /// which mke2fs derives from the size.
    pub(super) fn mkfs_arguments(&self, device_bytes: u64, inodes: u64) -> Vec<String> {
        /// `inode_ratio` in `mke2fs.conf`.
        const BYTES_PER_INODE: u64 = 16_384;
        let words = self.maker.words.iter().map(|word| (*word).to_owned());
        let is_too_few = self.maker.words == EXT && device_bytes / BYTES_PER_INODE < inodes;
        words.chain(is_too_few.then(|| format!("-N{inodes}"))).collect()
    }

    /// Returns what this machine lacks for it; `None` if it can be made.
    pub fn lacks(&self) -> Option<anyhow::Error> {
        super::why_not_mounted()
            .or_else(|| why_not_of_kernel(self.maker.kind))
            .or_else(|| {
                let has = Path::new("/dev/loop-control").exists();
                (!has).then(|| anyhow!("the kernel has no loop devices (`/dev/loop-control`)"))
            })
            .or_else(|| self.maker.program.find().err())
    }
}

/// Lists all names, without numbers of disks.
pub fn names() -> Vec<String> {
    let profiles = |name: &str| if name == WITH_PROFILES { PROFILES } else { &[] };
    let of = |maker: &FileSystemType| {
        let with = profiles(maker.name).iter().map(|profile| format!("{}-{}", maker.name, profile.name));
        std::iter::once(maker.name.to_owned()).chain(with).collect::<Vec<String>>()
    };
    MAKERS.iter().flat_map(of).collect()
}

/// Known file systems that are not supported, each with the reason.
pub fn not_made() -> Vec<(&'static str, String)> {
    OTHERS.iter().map(|(kind, seen)| (*kind, why_no_other(kind, seen))).collect()
}

fn why_no_other(kind: &str, seen: &str) -> String {
    match Path::new(seen).exists() {
        true => format!("no disk is made with {kind}: it was on no machine that this was tried on"),
        false => format!("this kernel has no {kind} (no `{seen}`)"),
    }
}

/// Returns why the kernel cannot mount a type of file system: it is neither built in nor available as a module. `None` if it can.
pub fn why_not_of_kernel(kind: &str) -> Option<anyhow::Error> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let is_there = read("/proc/filesystems").lines().any(|line| line.split_whitespace().last() == Some(kind));
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let modules = || read(&format!("/lib/modules/{release}/modules.dep"));
    let can_be_loaded = || {
        let module = format!("/{kind}.ko");
        modules().lines().any(|line| line.split(':').next().is_some_and(|path| path.contains(&module)))
    };
    (!is_there && !can_be_loaded())
        .then(|| anyhow!("this kernel ({release}) has no {kind}: neither built in nor as a module"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> String {
        match FileSystem::parse(text) {
            Ok(one) => format!("{} on {}", one.name(), one.devices()),
            Err(NoFileSystem::Unknown) => "unknown".to_owned(),
            Err(NoFileSystem::Not(why)) => why,
        }
    }

    #[test]
    fn a_file_system_that_nobody_wrote_is_not_in_the_kernel() {
        let why = why_not_of_kernel("nonesuchfs").unwrap().to_string();
        assert!(why.contains("has no nonesuchfs"), "{why}");
        assert!(why_not_of_kernel("proc").is_none());
    }

    #[test]
    fn a_file_system_has_one_name_and_as_many_disks_as_its_profile_can() {
        assert_eq!(
            (named("ext4").as_str(), named("btrfs-nocow").as_str()),
            ("ext4 on 1", "btrfs-nocow on 1")
        );
        assert_eq!(
            (named("btrfs-raid0").as_str(), named("btrfs-raid0:4").as_str()),
            ("btrfs-raid0:2 on 2", "btrfs-raid0:4 on 4")
        );
        for text in ["ext5", "btrfs-raid7", "xfs-raid0", "", "btrfs-", "dir"] {
            assert_eq!(named(text), "unknown", "{text}");
        }
        assert_eq!(named("btrfs-raid10:3"), "`btrfs-raid10:3`: btrfs-raid10 takes 4 to 16 disks");
        assert_eq!(named("btrfs-raid0:x"), "`btrfs-raid0:x`: btrfs-raid0 takes 2 to 16 disks");
        assert_eq!(named("btrfs-raid0:17"), "`btrfs-raid0:17`: btrfs-raid0 takes 2 to 16 disks");
        assert!(named("ext4:2").contains("lies on one disk"), "{}", named("ext4:2"));
        assert_eq!(named("ext4@90%"), "ext4@90% on 1");
        assert_eq!(named("btrfs-raid0@050%"), "btrfs-raid0:2@50% on 2");
        for text in ["ext4@", "ext4@0%", "ext4@91%", "ext4@50", "ext4@x%"] {
            assert!(
                named(text).ends_with(
                    "is filled to 1% to 90%, in whole numbers, so that there is room to measure in"
                )
            );
        }
        assert_eq!(named("ext5@50%"), "unknown");
        let filled = |text: &str| FileSystem::parse(text).map(|one| one.filled(0.5)).unwrap();
        assert_eq!((filled("ext4"), filled("ext4@90%")), (0.5, 0.9));
        assert!(named("zfs").contains("zfs") && named("md-raid0:4").contains("md"));
        assert_eq!(FileSystem::all().len(), names().len());
    }

    #[test]
    fn disks_have_room_for_every_copy() {
        let bytes = |text: &str| FileSystem::parse(text).map(|one| one.device_bytes(4 << 30) >> 20).unwrap();
        assert_eq!(
            ["ext4", "btrfs-raid0:4", "btrfs-raid1:2", "btrfs-raid10:4", "btrfs-raid5:3"].map(bytes),
            [5120, 1280, 5120, 2560, 2560]
        );
        let least = |text: &str| FileSystem::parse(text).unwrap().device_bytes(1) >> 20;
        assert_eq!([least("xfs"), least("btrfs-raid1:2")], [512, 256]);
    }
}
