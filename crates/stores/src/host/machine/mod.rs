//! The machine: its properties, its load and its page cache. Everything here reads or controls the kernel.

mod below;
mod beside;
mod device;
mod facts;
mod kernel_text;
mod memory;
mod memory_group;
mod mount;
mod page_cache;
mod ports;
mod preload;
mod process;
mod processor;
mod quota;

pub use self::below::{Medium, StorageLayers, is_in_memory};
pub use self::beside::{FreeSpace, LocalServerProcess};
pub use self::device::{Device, DeviceCounters, Io, process_io, wait_until_quiet};
pub use self::facts::{Machine, facts, processor_cache_bytes};
pub use self::memory::{ProcessMemory, give_back_memory, memory, memory_bytes, peak_bytes, reset_peak};
pub use self::memory_group::{ControlGroupVersion, GROUP_PREFIX, MemoryGroupParent, memory_group_parent};
pub(super) use self::mount::Mount;
pub use self::mount::{
    FileSystemSpace, disk, file_system, free_bytes, is_read_only, mounted_as, path_space,
    remembers_deletions, room, spread_directories, sync_filesystem,
};
pub use self::page_cache::{
    AlignedBuffer, AllocatedBytes, FileMapping, allocated, can_drop_caches, drop_caches, evict, evict_file,
    host_caches, is_resident, open_direct, resident, resident_share,
};
pub use self::ports::{free_listener, ports_in_words, wait_for_ports};
pub use self::preload::ReplacedFlushes;
pub use self::process::{ProcessStat, doing, started};
pub use self::processor::{
    SleepInhibitor, booted, busy_ns, cores, keep_awake, launchers_cores, process_cpu_ns, stolen,
    thread_cpu_ns, timestamp, uptime, wake_me_on_time, wall_ns,
};

/// Denies other users access to everything that this process and its children create from now on. Call it before there are
/// threads.
pub fn make_private() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

#[cfg(test)]
mod tests;
