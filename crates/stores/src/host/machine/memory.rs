//! Memory of the machine and of processes.

use super::kernel_text::{kibibytes, read};
use super::memory_group::memory_limit;

/// Main memory in bytes, or what a container allows of it; 0 if the kernel does not report it.
pub fn memory_bytes() -> u64 {
    let all = kibibytes(&read("/proc/meminfo").unwrap_or_default(), "MemTotal").unwrap_or(0);
    memory_limit().map_or(all, |limit| limit.min(all))
}

/// Returns freed heap memory to the kernel, so that later allocations show up as growth.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "malloc_trim has no safe wrapper")]
    // SAFETY: it takes a number and frees nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Memory of processes; memory shared with other processes counts proportionally (PSS).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessMemory {
    /// Anonymous and shared memory in bytes, which the kernel cannot drop.
    pub anonymous_bytes: u64,
    /// Mapped file pages in bytes: the kernel can drop them and read them again.
    pub mapped_bytes: u64,
}

impl ProcessMemory {
    /// Sums the memory of several processes.
    pub fn sum(all: impl Iterator<Item = ProcessMemory>) -> ProcessMemory {
        all.fold(ProcessMemory::default(), |sum, one| ProcessMemory {
            anonymous_bytes: sum.anonymous_bytes + one.anonymous_bytes,
            mapped_bytes: sum.mapped_bytes + one.mapped_bytes,
        })
    }

    /// Anonymous and mapped memory together.
    pub fn all_bytes(&self) -> u64 {
        self.anonymous_bytes + self.mapped_bytes
    }
}

/// Reads the current memory of a process (a pid or `self`); `None` if it has ended or the kernel does not report it.
pub fn memory(process: &str) -> Option<ProcessMemory> {
    let rollup = read(format!("/proc/{process}/smaps_rollup"))?;
    let of = |name: &str| kibibytes(&rollup, name);
    Some(ProcessMemory { anonymous_bytes: of("Pss_Anon")? + of("Pss_Shmem")?, mapped_bytes: of("Pss_File")? })
}

/// Peak resident memory of this process since [`reset_peak`], in bytes.
pub fn peak_bytes() -> Option<u64> {
    kibibytes(&read("/proc/self/status")?, "VmHWM")
}

/// Restarts the measurement of [`peak_bytes`]; false if the kernel does not allow it.
pub fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}
