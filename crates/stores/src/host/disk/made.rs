//! A private, mounted file system: unlinked image files, loop devices on them, and a mount, none of which outlive their last
//! user.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use rand::TryRng;
use rustix::fs::{Advice, FallocateFlags};

use super::image_copy::{ImageCopy, PIECE, unnamed};
use super::{FileSystem, LoopDevice};
use crate::host::control_group::{DeviceCaps, DeviceLimit, lift_limits};
use crate::host::machine::{self, AlignedBuffer, Device};

/// A private, mounted file system. The process that makes one must have mounts of its own (see
/// [`own_mounts`](super::own_mounts)).
#[derive(Debug)]
pub struct OwnDisk {
    /// I/O limits of its devices.
    caps: Option<DeviceCaps>,
    // The first device has the mount, and is dropped first.
    loops: Vec<LoopDevice>,
    /// The file below each device.
    images: Vec<File>,
    /// Directory of the images and of their copies.
    dir: PathBuf,
    /// A copy of the images before anybody used the disk.
    fresh: Option<ImageCopy>,
    /// Type and mount options of its file system.
    kind: &'static str,
    options: String,
    path: PathBuf,
    device: Device,
    facts: BTreeMap<String, String>,
}

impl OwnDisk {
    /// Creates images of `device_bytes` each in `dir`, makes a file system on them with room for `inodes` inodes, and mounts
    /// it on `mount`, which it creates.
    pub fn make(
        system: &FileSystem,
        dir: &Path,
        mount: &Path,
        device_bytes: u64,
        inodes: u64,
    ) -> Result<OwnDisk> {
        let of = || format!("no disk for `{}`", system.name());
        let (mut loops, mut images) = (Vec::new(), Vec::new());
        for _ in 0..system.devices() {
            let image = image(dir, device_bytes).with_context(of)?;
            loops.push(LoopDevice::attach_file(&image, true).with_context(of)?);
            images.push(image);
        }
        lift_limits(&numbers(&loops)?);
        let words = system.mkfs_arguments(device_bytes, inodes);
        let said = format(system, &words, &loops)?;
        let layout = loops.first().and_then(|first| layout(system.maker.kind, first.path(), &said));
        std::fs::create_dir(mount).with_context(|| format!("cannot make `{}`", mount.display()))?;
        let others = loops.iter().skip(1).map(|other| format!("device={}", other.path().display()));
        let own = Some(system.maker.mount.to_owned()).filter(|own| !own.is_empty());
        let options = own.into_iter().chain(others).collect::<Vec<String>>().join(",");
        let first = loops.first_mut().ok_or_else(|| anyhow!("no disk"))?;
        first.mount_plainly(system.maker.kind, mount, &options)?;
        let names: Vec<String> = loops.iter().map(LoopDevice::name).collect();
        let facts = facts(system, &words, &loops, mount, device_bytes, layout)?;
        Ok(OwnDisk {
            caps: None,
            loops,
            images,
            dir: dir.to_owned(),
            fresh: None,
            kind: system.maker.kind,
            options,
            path: mount.to_owned(),
            device: Device::combine(&names),
            facts,
        })
    }

    /// Fills a share of the empty file system's free space with files that stay; 0 creates none.
    pub fn fill(&mut self, share: f64) -> Result<()> {
        if share == 0.0 {
            return Ok(());
        }
        let empty = rustix::fs::statvfs(&self.path)?;
        fill(&self.path, share).with_context(|| format!("`{}` cannot be filled", self.description()))?;
        let space = rustix::fs::statvfs(&self.path)?;
        self.note("on_filled", format!("{:.3}", filled(&empty, &space)));
        self.note("on_room_bytes", (space.f_bavail * space.f_frsize).to_string());
        Ok(())
    }

    /// Limits each of its devices until the disk is dropped. This process must have one thread.
    pub fn limit(&mut self, limit: &DeviceLimit) -> Result<()> {
        self.caps = Some(DeviceCaps::set(numbers(&self.loops)?, limit)?);
        self.note("on_device_limit", limit.to_string());
        Ok(())
    }

    /// Keeps a copy of the whole disk as it is now, to which [`OwnDisk::renew`] leads back.
    pub fn keep_fresh(&mut self) -> Result<()> {
        self.fresh = Some(self.unmounted(|| ImageCopy::take(&self.images, None, &self.dir))?);
        Ok(())
    }

    /// Seconds that its images take to be read and hashed, which [`OwnDisk::renew`], [`OwnDisk::copy`] and [`OwnDisk::put`] do
    /// once each; `None` without [`OwnDisk::keep_fresh`].
    pub fn read_seconds(&self) -> Option<f64> {
        self.fresh.as_ref().map(ImageCopy::read_seconds)
    }

    /// Makes the disk what it was at [`OwnDisk::keep_fresh`]; does nothing if that was never called.
    pub fn renew(&self) -> Result<()> {
        self.fresh.as_ref().map_or(Ok(()), |fresh| self.unmounted(|| fresh.put(fresh, &self.images)))
    }

    /// Copies the disk as it is now, as far as it differs from the fresh one. No file on it may be open.
    pub fn copy(&self) -> Result<ImageCopy> {
        self.unmounted(|| ImageCopy::take(&self.images, self.fresh.as_ref(), &self.dir))
    }

    /// Makes the disk what it was when the copy was made. Fails if the digest of its bytes is another one then. No file on it may
    /// be open.
    pub fn put(&self, copy: &ImageCopy) -> Result<()> {
        let fresh = self.fresh.as_ref().unwrap_or(copy);
        self.unmounted(|| copy.put(fresh, &self.images))
    }

    /// False if the file system could not be mounted again, so that its directory is one of the disk below.
    pub fn is_mounted(&self) -> bool {
        let device = |path: &Path| rustix::fs::stat(path).ok().map(|known| known.st_dev);
        device(&self.path) != self.path.parent().and_then(device)
    }

    /// Does `work` on the images while the file system is not mounted.
    fn unmounted<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let first = self.loops.first().ok_or_else(|| anyhow!("no disk"))?;
        let flush = || self.loops.iter().try_for_each(LoopDevice::flush_buffers);
        first.while_unmounted(self.kind, &self.options, || {
            flush()?;
            let done = work()?;
            // What the kernel read of the device is not what it holds now.
            flush()?;
            Ok(done)
        })
    }

    fn note(&mut self, name: &str, value: String) {
        self.facts.insert(name.to_owned(), value);
    }

    /// Mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its devices, with combined counters.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Facts about how the disk was made, read back from the system; names begin with `on_`.
    pub fn facts(&self) -> &BTreeMap<String, String> {
        &self.facts
    }

    /// Describes the file system, the number and size of its devices, how full it is, and its limits.
    pub fn description(&self) -> String {
        let fact = |name: &str| self.facts.get(name).map_or("", String::as_str);
        let filled = match fact("on_filled").parse::<f64>() {
            Ok(share) if share > 0.0 => format!("{:.0} % full", 100.0 * share),
            _ => "empty".to_owned(),
        };
        let limit = match fact("on_device_limit") {
            "none" => "no limit".to_owned(),
            limit => format!("each limited to {limit}"),
        };
        format!("{} on {}, {filled}, {limit}", fact("on_file_system"), fact("on_devices"))
    }
}

impl Drop for OwnDisk {
    fn drop(&mut self) {
        // Removed first: at the speed of the limit, writing back dirty data would take long.
        drop(self.caps.take());
        drop(std::mem::take(&mut self.loops));
        std::fs::remove_dir(&self.path).ok();
    }
}

/// Creates a file without a name that is fully written, so that later writes allocate nothing. Its random contents cannot
/// be compressed or deduplicated by a disk below.
fn image(dir: &Path, bytes: u64) -> Result<File> {
    let image = unnamed(dir)?;
    // A file system that cannot preallocate allocates as the file is written.
    rustix::fs::fallocate(&image, FallocateFlags::empty(), 0, bytes).ok();
    let mut buffer = AlignedBuffer::new(PIECE);
    let piece = buffer.first(PIECE);
    rand::rngs::SysRng.try_fill_bytes(piece).context("no random numbers")?;
    for offset in (0..bytes).step_by(PIECE) {
        let len = (bytes - offset).min(PIECE as u64) as usize;
        image.write_all_at(&piece[..len], offset).context("an image cannot be written")?;
    }
    image.sync_data().context("an image cannot be written")?;
    rustix::fs::fadvise(&image, 0, None, Advice::DontNeed).ok();
    Ok(image)
}

fn numbers(loops: &[LoopDevice]) -> Result<Vec<String>> {
    loops.iter().map(|device| Ok(device.number()?)).collect()
}

/// Share of the empty file system's free space that is now in use.
fn filled(empty: &rustix::fs::StatVfs, now: &rustix::fs::StatVfs) -> f64 {
    1.0 - now.f_bavail as f64 / empty.f_bavail.max(1) as f64
}

/// Fills a file system with files of random contents, as after some time of use.
fn fill(mounted: &Path, share: f64) -> Result<()> {
    let dir = mounted.join("filled");
    std::fs::create_dir(&dir)?;
    let mut piece = vec![0; PIECE];
    rand::rngs::SysRng.try_fill_bytes(&mut piece).context("no random numbers")?;
    let empty = rustix::fs::statvfs(mounted)?;
    for number in 0.. {
        let space = rustix::fs::statvfs(mounted)?;
        let missing = (share - filled(&empty, &space)) * (empty.f_bavail * empty.f_frsize) as f64;
        if missing < 1.0 {
            break;
        }
        let bytes = (missing as usize).clamp(4096, PIECE);
        std::fs::write(dir.join(number.to_string()), &piece[..bytes])?;
        // Some file systems count delayed allocations only when they are written.
        const FILES_BETWEEN: u32 = 16;
        if number % FILES_BETWEEN == 0 || missing < (2 * FILES_BETWEEN as usize * PIECE) as f64 {
            machine::sync_filesystem(mounted)?;
        }
    }
    machine::sync_filesystem(mounted)
}

/// Makes the file system and returns the output of its program.
fn format(system: &FileSystem, words: &[String], loops: &[LoopDevice]) -> Result<String> {
    let maker = system.maker;
    let mut command = Command::new(maker.program.find()?.path);
    command.args(words);
    if let Some(profile) = system.profile {
        command.args(["-d", profile.name]);
    }
    let output = command.args(loops.iter().map(LoopDevice::path)).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("`{}` does not start", maker.program.name))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}` failed: {}", maker.program.name, said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Collects facts from the kernel and from the program that made the file system.
fn facts(
    system: &FileSystem,
    words: &[String],
    loops: &[LoopDevice],
    mount: &Path,
    device_bytes: u64,
    layout: Option<String>,
) -> Result<BTreeMap<String, String>> {
    let (kind, options) = machine::mounted_as(mount).context("it is not among the mounts")?;
    let space = rustix::fs::statvfs(mount)?;
    let is_direct = loops.iter().all(LoopDevice::is_direct);
    let images = if loops.len() == 1 { "image" } else { "images" };
    let mut facts = BTreeMap::from([
        ("on_file_system", kind),
        ("on_devices", format!("{} {images} of {device_bytes} B", loops.len())),
        ("on_mount", options),
        ("on_mkfs", format!("{} ({})", system.maker.program.find()?.version, words.join(" "))),
        ("on_block_bytes", space.f_bsize.to_string()),
        ("on_room_bytes", (space.f_bavail * space.f_frsize).to_string()),
        ("on_images_past_the_cache", is_direct.to_string()),
        ("on_device_limit", "none".to_owned()),
        ("on_filled", "0".to_owned()),
    ]);
    facts.extend(layout.map(|layout| ("on_layout", layout)));
    Ok(facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Layout of the file system as its program prints it: features, sizes, profiles.
fn layout(kind: &str, device: &Path, said: &str) -> Option<String> {
    let of_device = || {
        let mut command = Command::new("/sbin/dumpe2fs");
        let output = command.arg("-h").arg(device).stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    match kind {
        "ext2" | "ext3" | "ext4" => {
            Some(lines_with(&of_device()?, &["Filesystem features:", "Inode size:", "Total journal size:"]))
        }
        "btrfs" => {
            Some(lines_with(said, &["Node size:", "Data:", "Metadata:", "System:", "Incompat features:"]))
        }
        "xfs" => Some(pairs(said)),
        _ => None,
    }
    .filter(|layout| !layout.is_empty())
}

/// Joins the lines that begin with one of these texts, with white space squeezed.
fn lines_with(text: &str, begins: &[&str]) -> String {
    let meant = |line: &&str| begins.iter().any(|begin| line.trim_start().starts_with(begin));
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<&str>>().join(" ");
    text.lines().filter(meant).map(squeezed).collect::<Vec<String>>().join("; ")
}

/// Joins the words of the form name=value, except those whose value is a path.
fn pairs(text: &str) -> String {
    let words = text.split_whitespace().map(|word| word.trim_matches(','));
    let meant = |word: &&str| {
        let (name, value) = word.split_once('=').unwrap_or_default();
        !name.is_empty() && !value.is_empty() && !value.starts_with('/')
    };
    words.filter(meant).collect::<Vec<&str>>().join(" ")
}

/// Bytes that images may take in a directory: 90 % of its free space.
pub fn free_for_images(dir: &Path) -> Result<u64> {
    const SHARE: f64 = 0.9;
    Ok((machine::free_bytes(dir)? as f64 * SHARE) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_say_of_a_layout_is_one_line() {
        let xfs = "meta-data=/dev/loop1   isize=512    agcount=4, agsize=8 blks\n         =     sectsz=512   attr=2\n\
                   log      =internal log   bsize=4096";
        assert_eq!(pairs(xfs), "isize=512 agcount=4 agsize=8 sectsz=512 attr=2 bsize=4096");
        let btrfs = "Label: (null)\nNode size:          16384\n  Data:             RAID1   51 MiB\n";
        assert_eq!(lines_with(btrfs, &["Node size:", "Data:"]), "Node size: 16384; Data: RAID1 51 MiB");
    }

    #[test]
    fn an_image_is_allocated_and_has_no_name() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let image = image(dir.path(), 3 << 20).unwrap();
        let known = rustix::fs::fstat(&image).unwrap();
        assert_eq!((known.st_size, known.st_nlink), (3 << 20, 0));
        assert!(known.st_blocks * 512 >= 3 << 20, "{known:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
