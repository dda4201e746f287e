//! Memory: how much there is, and what this process has of it.

use super::kernel_text::{kibibytes, read};

/// Bytes of memory; 0 where the kernel does not say.
pub fn memory_bytes() -> u64 {
    kibibytes(&read("/proc/meminfo").unwrap_or_default(), "MemTotal").unwrap_or(0)
}

/// Gives back to the kernel what was freed and is kept for later, so that what is taken next is seen as taken.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "malloc_trim has no safe wrapper")]
    // SAFETY: it takes a number and frees nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Memory of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Proportional share of anonymous memory, in bytes.
    pub anonymous_bytes: u64,
    /// Proportional share of file-mapped memory, in bytes.
    pub mapped_bytes: u64,
}

/// Memory of this process now.
pub fn memory() -> Option<Memory> {
    let rollup = read("/proc/self/smaps_rollup")?;
    let anonymous_bytes = kibibytes(&rollup, "Pss_Anon")?;
    Some(Memory { anonymous_bytes, mapped_bytes: kibibytes(&rollup, "Pss")?.saturating_sub(anonymous_bytes) })
}

/// Resident memory of this process at its highest since [`reset_peak`], in bytes.
pub fn peak_bytes() -> Option<u64> {
    kibibytes(&read("/proc/self/status")?, "VmHWM")
}

/// Starts a new measurement of [`peak_bytes`]; false where the kernel does not allow it.
pub fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}
