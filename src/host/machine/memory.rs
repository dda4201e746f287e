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

/// Memory of processes, by their proportional shares of what they share with others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// What only its processes keep: anonymous and shared memory, in bytes.
    pub anonymous_bytes: u64,
    /// Pages of files that are mapped, in bytes: the kernel can drop them, and reads them again.
    pub mapped_bytes: u64,
}

impl Memory {
    /// What several have together.
    pub fn sum(all: impl Iterator<Item = Memory>) -> Memory {
        all.fold(Memory::default(), |sum, one| Memory {
            anonymous_bytes: sum.anonymous_bytes + one.anonymous_bytes,
            mapped_bytes: sum.mapped_bytes + one.mapped_bytes,
        })
    }

    /// Both together.
    pub fn all_bytes(&self) -> u64 {
        self.anonymous_bytes + self.mapped_bytes
    }
}

/// Memory of a process now, by its number or `self`; `None` where it has ended, or the kernel does not say.
pub fn memory(process: &str) -> Option<Memory> {
    let rollup = read(format!("/proc/{process}/smaps_rollup"))?;
    let of = |name: &str| kibibytes(&rollup, name);
    Some(Memory { anonymous_bytes: of("Pss_Anon")? + of("Pss_Shmem")?, mapped_bytes: of("Pss_File")? })
}

/// Resident memory of this process at its highest since [`reset_peak`], in bytes.
pub fn peak_bytes() -> Option<u64> {
    kibibytes(&read("/proc/self/status")?, "VmHWM")
}

/// Starts a new measurement of [`peak_bytes`]; false where the kernel does not allow it.
pub fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}
