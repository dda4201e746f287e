//! Facts of the machine, as a result records them.

use std::ffi::OsString;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::below::{Medium, StorageLayers};
use super::device::Device;
use super::kernel_text::{field, read};
use super::memory::memory_bytes;
use super::mount::{Mount, free_bytes};
use super::preload::{PRELOADED, ReplacedFlushes, replaced_flushes};
use super::processor::cores;
use crate::host::processors::ProcessorSplit;

/// The machine that a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Model name of the processor.
    pub processor: String,
    /// Processors that the process may use.
    pub processors: usize,
    /// Frequency governor of the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// True if the machine runs under a hypervisor.
    pub virtual_machine: bool,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Size of the processor's largest cache, which threads on other cores may share. Absent if the kernel does not report it,
    /// and in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_cache_bytes: Option<u64>,
    /// Release of the kernel.
    pub kernel: String,
    /// Name of the distribution.
    pub system: String,
    /// C library of the program with its version: glibc is the machine's, musl is linked statically. Absent in results of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libc: Option<String>,
    /// Settings that change the program's libraries from outside: `LD_*`, `MALLOC_*` and `GLIBC_TUNABLES` in its environment, and
    /// the libraries of `/etc/ld.so.preload`. Of these, servers that it starts get only `LD_LIBRARY_PATH` and the preloaded
    /// libraries of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub library_settings: Vec<String>,
    /// Flush functions that such libraries have replaced in the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_flushes: Vec<ReplacedFlushes>,
    /// Type of the measured file system.
    pub filesystem: String,
    /// Mount point of the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<String>,
    /// Mount options of the file system.
    pub mount: String,
    /// Block device below the file system, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Storage layers below the file system, down to the medium that holds its bytes. Absent in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<StorageLayers>,
    /// True if the device reports that it rotates; absent for a virtual disk, which does not report its hardware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// Read-ahead of the kernel for sequential reads and page faults, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_bytes: Option<u64>,
    /// Free bytes at the start of the run.
    pub free_bytes: u64,
    /// True if blobwise ran as root.
    pub root: bool,
    /// Processors of workers and servers, if they were pinned apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<ProcessorSplit>,
}

impl Machine {
    /// True if the measured directory is in memory.
    pub fn is_in_memory(&self) -> bool {
        self.below.as_ref().is_some_and(|below| below.medium == Medium::Memory)
    }

    /// Formats [`Machine::library_settings`]; "nothing" if there are none.
    pub fn library_settings(&self) -> String {
        if self.library_settings.is_empty() { "nothing".to_owned() } else { self.library_settings.join(" ") }
    }

    /// Those library settings that load additional libraries.
    pub fn preloaded(&self) -> Vec<String> {
        let loads = |setting: &&String| {
            ["LD_PRELOAD=", "LD_AUDIT=", PRELOADED].iter().any(|begin| setting.starts_with(begin))
        };
        self.library_settings.iter().filter(loads).cloned().collect()
    }

    /// Formats where workers and servers ran.
    pub fn sides(&self) -> String {
        self.pinned.as_ref().map_or_else(|| "any processor".to_owned(), ProcessorSplit::text)
    }
}

/// Collects the facts of the machine; `dir` is the measured directory.
pub fn facts(dir: &Path) -> Machine {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let mount = Mount::for_path(dir);
    let flags = field(&cpuinfo, "flags").unwrap_or_default();
    let virtual_machine = flags.split(' ').any(|flag| flag == "hypervisor");
    let device = Device::for_dir(dir);
    Machine {
        processor: field(&cpuinfo, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        processors: cores(),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .map(|text| text.trim().to_owned()),
        virtual_machine,
        memory_bytes: memory_bytes(),
        processor_cache_bytes: processor_cache_bytes(),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        system: read("/etc/os-release")
            .and_then(|text| {
                text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=").map(str::to_owned))
            })
            .map_or_else(|| "unknown".to_owned(), |name| name.trim_matches('"').to_owned()),
        libc: Some(libc_name()),
        library_settings: library_settings(),
        replaced_flushes: replaced_flushes(),
        filesystem: mount.as_ref().map(|mount| mount.kind.clone()).unwrap_or_default(),
        mount_point: mount.as_ref().map(|mount| mount.point.clone()),
        mount: mount.as_ref().map(|mount| mount.options.clone()).unwrap_or_default(),
        device: device.as_ref().map(|device| device.name.clone()),
        below: Some(StorageLayers::inspect(dir)),
        rotational: device.as_ref().and_then(|device| device.rotational(virtual_machine)),
        read_ahead_bytes: device.as_ref().and_then(Device::read_ahead_bytes),
        free_bytes: free_bytes(dir).unwrap_or(0),
        root: rustix::process::geteuid().is_root(),
        pinned: None,
    }
}

/// Collects the settings that change this program's libraries from outside.
fn library_settings() -> Vec<String> {
    const FAMILIES: &[&str] = &["LD_", "MALLOC_", "GLIBC_TUNABLES"];
    let changes = |name: &str| FAMILIES.iter().any(|family| name.starts_with(family));
    let text = |(name, value): (OsString, OsString)| {
        let (name, value) = (name.into_string().ok()?, value.to_string_lossy().into_owned());
        (changes(&name) && !value.is_empty()).then(|| format!("{name}={value}"))
    };
    let mut found: Vec<String> = std::env::vars_os().filter_map(text).collect();
    found.sort();
    let preloaded = read(PRELOADED).unwrap_or_default();
    let preloaded: Vec<&str> = preloaded.split_whitespace().collect();
    if !preloaded.is_empty() {
        found.push(format!("{PRELOADED}={}", preloaded.join(":")));
    }
    found
}

/// Size in bytes of the largest cache of the first processor; `None` if the kernel reports none.
pub fn processor_cache_bytes() -> Option<u64> {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let size = |cache: std::fs::DirEntry| cache_bytes(&read(cache.path().join("size"))?);
    caches.flatten().filter_map(size).max()
}

/// Parses a cache size as the kernel writes it (`32768K`) into bytes.
fn cache_bytes(size: &str) -> Option<u64> {
    Some(size.trim().strip_suffix('K')?.parse::<u64>().ok()? * 1024)
}

/// Name and version of the C library.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "gnu_get_libc_version has no safe wrapper")]
fn libc_name() -> String {
    // SAFETY: it takes nothing and returns a constant C string of the library.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

/// Name of the C library: only glibc reports a version.
#[cfg(not(target_env = "gnu"))]
fn libc_name() -> String {
    if cfg!(target_env = "musl") { "musl" } else { "another than glibc and musl" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_cache_is_in_kibibytes() {
        assert_eq!(cache_bytes("32768K\n"), Some(33_554_432));
        assert_eq!(cache_bytes(""), None);
        assert_eq!(cache_bytes("K"), None);
    }
}
