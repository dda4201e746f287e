//! The page cache: what is in it, evicting files, bypassing it, and detecting a further cache below the device.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::processor::uptime;

/// True if the kernel's caches can be dropped.
pub fn can_drop_caches() -> bool {
    File::options().write(true).open("/proc/sys/vm/drop_caches").is_ok()
}

/// Drops the kernel's caches of data, inodes and dentries; dirty data must be flushed first. False if that is refused.
pub fn drop_caches() -> bool {
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Iterates over all files and directories below a directory, itself included.
pub(super) fn below(dir: &Path) -> impl Iterator<Item = walkdir::DirEntry> {
    // Files may vanish while a store's background work goes on.
    walkdir::WalkDir::new(dir).into_iter().filter_map(|entry| entry.ok())
}

/// Bytes allocated below a directory, in whole blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AllocatedBytes {
    /// Total.
    pub all: u64,
    /// Directories themselves.
    pub directories: u64,
    /// Log files.
    pub logs: u64,
}

/// Sums the bytes allocated below a directory; `is_log` classifies each file by its path relative to `dir`.
pub fn allocated(dir: &Path, is_log: impl Fn(&Path) -> bool) -> AllocatedBytes {
    let mut sum = AllocatedBytes::default();
    for entry in below(dir) {
        let Ok(metadata) = entry.metadata() else { continue };
        let bytes = metadata.blocks() * 512;
        sum.all += bytes;
        if metadata.is_dir() {
            sum.directories += bytes;
        } else if entry.path().strip_prefix(dir).is_ok_and(&is_log) {
            sum.logs += bytes;
        }
    }
    sum
}

/// Asks the kernel to evict the data of every file below a directory; inodes and dentries stay cached.
pub fn evict(dir: &Path) {
    below(dir).filter(|entry| entry.file_type().is_file()).for_each(|entry| evict_file(entry.path()));
}

/// Like [`evict`], for one file or block device.
pub fn evict_file(path: &Path) {
    if let Ok(file) = File::open(path) {
        // Only a hint: its effect is measured by `resident_share`.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).ok();
    }
}

/// Share of the pages of all files below a directory that are in the page cache (mincore).
pub fn resident_share(dir: &Path) -> f64 {
    resident(dir, 1).0
}

/// Like [`resident_share`], with the bytes of the pages that are there, of every n-th file only: each file has to be opened, which
/// takes long if there are millions.
pub fn resident(dir: &Path, every: usize) -> (f64, u64) {
    let (mut pages, mut resident) = (0, 0);
    let files = below(dir).filter(|entry| entry.file_type().is_file());
    for entry in files.step_by(every.max(1)) {
        let Ok(file) = File::open(entry.path()) else { continue };
        let (all, in_cache) = resident_pages(&file);
        pages += all;
        resident += in_cache;
    }
    let share = if pages == 0 { 0.0 } else { resident as f64 / pages as f64 };
    (share, (resident * rustix::param::page_size()) as u64)
}

/// True if any page of a file is in the page cache.
pub fn is_resident(file: &File) -> bool {
    resident_pages(file).1 > 0
}

/// Number of pages of a file, and how many of them are in the page cache.
#[expect(unsafe_code, reason = "mincore has no safe wrapper")]
pub(super) fn resident_pages(file: &File) -> (usize, usize) {
    let Some(mapping) = FileMapping::new(file, MapFlags::empty()) else { return (0, 0) };
    let mut states = vec![0_u8; mapping.len.div_ceil(rustix::param::page_size())];
    // SAFETY: `states` has a byte for each page of the mapping.
    let asked = unsafe { libc::mincore(mapping.address, mapping.len, states.as_mut_ptr()) };
    if asked != 0 {
        return (0, 0);
    }
    (states.len(), states.iter().filter(|state| **state & 1 == 1).count())
}

/// A mapping of a whole file. It is never read through, so a file that shrinks meanwhile cannot fault.
#[derive(Debug)]
pub struct FileMapping {
    address: *mut std::ffi::c_void,
    len: usize,
}

impl FileMapping {
    /// Reads a whole file, which stays in the page cache while this is held: the kernel drops no page that a process has mapped. Pages
    /// that were not there are charged to the control group of this process. `None` if it cannot be read.
    pub fn hold_in_cache(path: &Path) -> Option<FileMapping> {
        FileMapping::new(&File::open(path).ok()?, MapFlags::POPULATE)
    }

    /// `None` for a file that is empty or cannot be mapped.
    #[expect(unsafe_code, reason = "mapping a file has no safe wrapper")]
    fn new(file: &File, flags: MapFlags) -> Option<FileMapping> {
        let len = usize::try_from(file.metadata().ok()?.len()).ok().filter(|len| *len > 0)?;
        let (access, flags) = (ProtFlags::READ, MapFlags::SHARED | flags);
        // SAFETY: a new mapping at a place of the kernel's choice.
        let address = unsafe { mmap(std::ptr::null_mut(), len, access, flags, file, 0) }.ok()?;
        Some(FileMapping { address, len })
    }
}

impl Drop for FileMapping {
    #[expect(unsafe_code, reason = "the end of the mapping that it owns")]
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and nothing refers to it.
        unsafe { munmap(self.address, self.len) }.ok();
    }
}

/// Opens a file for reads that bypass the page cache (`O_DIRECT`).
pub fn open_direct(path: &Path) -> Result<File> {
    use rustix::fs::OFlags;
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    // Without updating the access time where that is allowed (owner and root).
    let file = rustix::fs::open(path, flags | OFlags::NOATIME, rustix::fs::Mode::empty())
        .or_else(|_refused| rustix::fs::open(path, flags, rustix::fs::Mode::empty()))
        .with_context(|| format!("cannot open `{}` for direct reads", path.display()))?;
    Ok(file.into())
}

/// A buffer aligned for direct reads.
#[derive(Debug)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// Allocates `len` bytes at a multiple of 4096.
    pub fn new(len: usize) -> AlignedBuffer {
        let bytes = vec![0; len + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        AlignedBuffer { bytes, start, len }
    }

    /// Returns the first `len` bytes; reallocates if the buffer is smaller.
    pub fn first(&mut self, len: usize) -> &mut [u8] {
        if len > self.len {
            *self = AlignedBuffer::new(len);
        }
        &mut self.bytes[self.start..self.start + len]
    }

    /// Fills the buffer from an offset of a file.
    pub fn read_from(&mut self, file: &File, offset: u64) -> std::io::Result<()> {
        file.read_exact_at(&mut self.bytes[self.start..self.start + self.len], offset)
    }
}

/// Detects a cache below the device, such as that of a virtual machine's host: reads blocks that no one has read for a day
/// directly, twice; true if the second pass takes under half the time of the first. `None` if no such blocks are found or direct
/// reads are refused. `near` selects the file system.
pub fn host_caches(near: &Path, seed: u64) -> Option<bool> {
    use rand::{Rng, SeedableRng};
    const READS: usize = 64;
    const BLOCK: u64 = 4096;
    let files = untouched_files(near);
    if files.is_empty() {
        return None;
    }
    let mut random = rand::rngs::SmallRng::seed_from_u64(seed);
    let places: Vec<(usize, u64)> = (0..READS)
        .map(|_| {
            let file = random.next_u64() as usize % files.len();
            (file, random.next_u64() % (files[file].1 / BLOCK) * BLOCK)
        })
        .collect();
    let mut buffer = AlignedBuffer::new(BLOCK as usize);
    let mut pass = || -> Option<Duration> {
        let begin = uptime();
        for (file, place) in &places {
            buffer.read_from(&files[*file].0, *place).ok()?;
        }
        Some(uptime() - begin)
    };
    let (first, second) = (pass()?, pass()?);
    Some(second * 2 < first)
}

/// Finds large files of the same file system that no one has read for a day and that are not in the page cache, opened for direct
/// reads without access time updates. The search is limited in time.
pub(super) fn untouched_files(near: &Path) -> Vec<(File, u64)> {
    const SEARCH: Duration = Duration::from_millis(300);
    const FILES: usize = 64;
    const BYTES_MIN: u64 = 1 << 20;
    let Some(device) = std::fs::metadata(near).ok().map(|metadata| metadata.dev()) else { return Vec::new() };
    let begin = uptime();
    let now = jiff::Timestamp::now().as_second();
    let mut files = Vec::new();
    for root in ["/usr", "/opt", "/home", "/root", "/var", "/"] {
        let walk = walkdir::WalkDir::new(root).same_file_system(true).max_depth(12).into_iter();
        for entry in walk.filter_map(|entry| entry.ok()).filter(|entry| entry.file_type().is_file()) {
            if files.len() >= FILES || uptime() - begin > SEARCH {
                return files;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            let old = now - metadata.atime().max(metadata.mtime()) > 24 * 3600;
            if metadata.dev() != device || metadata.len() < BYTES_MIN || !old {
                continue;
            }
            let in_cache = File::open(entry.path()).map_or(1, |file| resident_pages(&file).1);
            if in_cache == 0
                && let Ok(file) = open_direct(entry.path())
            {
                files.push((file, metadata.len()));
            }
        }
    }
    files
}
