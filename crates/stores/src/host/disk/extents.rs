//! Physical location of a file's bytes, as its file system reports it (FIEMAP).

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// A contiguous range of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    /// Physical offset: on the device, except for btrfs, which has an address space of its own.
    pub place: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Request and flags of the ioctl (`linux/fs.h`, `linux/fiemap.h`).
const FIEMAP: libc::c_ulong = 0xC020_660B;
const LAST: u32 = 0x1;
/// Flags of extents without a place of their own: unknown, delayed, encoded, inline, or packed with other data.
const ELSEWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400;
const AT_ONCE: usize = 64;

/// `struct fiemap`.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FiemapExtent; AT_ONCE],
}

/// `struct fiemap_extent`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_more: [u32; 3],
}

#[expect(unsafe_code, reason = "extents are asked for by ioctl")]
fn ask(file: BorrowedFd<'_>, start: u64) -> std::io::Result<Fiemap> {
    let mut asked = Fiemap {
        start,
        length: u64::MAX - start,
        flags: 0,
        mapped: 0,
        count: AT_ONCE as u32,
        reserved: 0,
        extents: [FiemapExtent::default(); AT_ONCE],
    };
    // SAFETY: the request reads and writes a `Fiemap` with room for as many extents as it says, which lives during the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut asked) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(asked),
    }
}

/// Returns all extents of a file, or of a directory if its file system supports that; extents without a place of their own are
/// left out.
pub fn extents(file: BorrowedFd<'_>) -> std::io::Result<Vec<Extent>> {
    let (mut extents, mut start) = (Vec::new(), 0);
    loop {
        let asked = ask(file, start)?;
        let mapped = &asked.extents[..(asked.mapped as usize).min(AT_ONCE)];
        let told = mapped.iter().filter(|extent| extent.flags & ELSEWHERE == 0);
        extents.extend(told.map(|extent| Extent {
            offset: extent.logical,
            place: extent.physical,
            len: extent.length,
        }));
        match mapped.last() {
            Some(last) if last.flags & LAST == 0 => start = last.logical + last.length,
            _ => return Ok(extents),
        }
    }
}

/// Largest file whose bytes may be kept with its metadata instead of in an extent.
const INLINE_BYTES_MAX: u64 = 4096;

/// Returns the number of fragments of a flushed file without holes, as `filefrag` counts them: ranges that do not follow each other
/// on the device. `None` if the file system does not tell the place of every byte, as with compression.
pub fn fragments(file: &File) -> Option<u64> {
    let (bytes, extents) = (file.metadata().ok()?.len(), extents(file.as_fd()).ok()?);
    let placed: u64 = extents.iter().map(|extent| extent.len).sum();
    if placed < bytes && (bytes > INLINE_BYTES_MAX || placed > 0) {
        return None;
    }
    let breaks = extents.windows(2).filter(|pair| pair[0].place + pair[0].len != pair[1].place);
    Some(u64::from(bytes > 0) + breaks.count() as u64)
}
