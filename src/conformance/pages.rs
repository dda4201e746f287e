//! Zeros without memory: address space for blobs that are too large to allocate.

use anyhow::{Context, Result};
use rustix::mm::{MapFlags, ProtFlags};

/// Mapped pages that are never written: reading them uses no memory.
pub struct Zeros {
    start: *mut std::ffi::c_void,
    len: usize,
}

impl Zeros {
    #[expect(unsafe_code, reason = "a map without a file")]
    pub fn new(len: usize) -> Result<Zeros> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so nothing else is mapped there.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ, flags) };
        Ok(Zeros { start: start.with_context(|| format!("no address space for {len} B"))?, len })
    }

    #[expect(unsafe_code, reason = "a slice over the map")]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` readable bytes are mapped there for as long as `self` lives, and nothing writes them.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.len) }
    }
}

impl Drop for Zeros {
    #[expect(unsafe_code, reason = "the end of the map")]
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and no slice outlives `self`.
        unsafe { rustix::mm::munmap(self.start, self.len) }.ok();
    }
}
