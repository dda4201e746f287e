//! Block devices: their properties and I/O counters, and the I/O of processes.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::kernel_text::{field, kibibytes, read};
use super::processor::uptime;

/// The block device below a directory, or several devices below one file system.
#[derive(Clone, Debug)]
pub struct Device {
    pub(super) name: String,
    /// Directory of each device in /sys.
    pub(super) sys: Vec<PathBuf>,
}

/// I/O counters of a device since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceCounters {
    /// Completed read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Completed write requests.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Completed flush requests; `None` if the kernel does not count them.
    pub flushes: Option<u64>,
}

impl Device {
    /// Returns the device that a directory lies on; `None` if its mount does not map to one device.
    pub fn for_dir(dir: &Path) -> Option<Device> {
        Device::by_number(std::fs::metadata(dir).ok()?.dev())
    }

    /// Returns a block device by its path, such as `/dev/sda`; `None` for anything else.
    pub fn from_path(path: &Path) -> Option<Device> {
        let known = std::fs::metadata(path).ok()?;
        known.file_type().is_block_device().then(|| Device::by_number(known.rdev()))?
    }

    fn by_number(id: u64) -> Option<Device> {
        let sys =
            PathBuf::from(format!("/sys/dev/block/{}:{}", rustix::fs::major(id), rustix::fs::minor(id)));
        let name = sys.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned();
        sys.join("stat").exists().then_some(Device { name, sys: vec![sys] })
    }

    /// Combines several devices by their names (`loop0`); their counters are added up.
    pub fn combine(names: &[String]) -> Device {
        let sys = names.iter().map(|name| Path::new("/sys/block").join(name)).collect();
        Device { name: names.join("+"), sys }
    }

    /// Name of the device, or names joined by `+`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the counters, summed over all devices; `None` if any cannot be read.
    pub fn counters(&self) -> Option<DeviceCounters> {
        self.counters_of_each().into_iter().reduce(|all, more| Some(all?.plus(&more?)))?
    }

    /// Reads the counters of each device.
    pub fn counters_of_each(&self) -> Vec<Option<DeviceCounters>> {
        self.sys.iter().map(|sys| counters(sys)).collect()
    }

    /// I/O of the whole disk, because other partitions cause as much disturbance. Of a disk composed of others (LVM, RAID) only
    /// its own part is seen.
    pub fn disk_io(&self) -> Option<Io> {
        let of = |sys: &PathBuf| {
            let disk = if is_partition(sys) { sys.join("..") } else { sys.clone() };
            let DeviceCounters { read_bytes, written_bytes, .. } = counters(&disk)?;
            Some(Io { read_bytes, written_bytes })
        };
        self.sys.iter().map(of).reduce(|all, more| Some(all?.plus(&more?)))?
    }

    /// True if the device reports that it rotates; `None` for a virtual disk, because only the host knows what it is made of, and
    /// most report yes.
    pub(super) fn rotational(&self, virtual_machine: bool) -> Option<bool> {
        if virtual_machine || is_virtual(&self.sys.first()?.canonicalize().ok()?) {
            return None;
        }
        self.queue("rotational").map(|value| value == 1)
    }

    pub(super) fn read_ahead_bytes(&self) -> Option<u64> {
        self.queue("read_ahead_kb").map(|kib| kib << 10)
    }

    /// True if the device reports a volatile write cache (`write back`), which holds writes until a flush; `None` if it reports
    /// nothing.
    pub fn says_write_back(&self) -> Option<bool> {
        self.queue_text("write_cache").map(|text| text.trim() == "write back")
    }

    /// Reads a setting of its queue; a partition uses its disk's queue.
    fn queue(&self, name: &str) -> Option<u64> {
        self.queue_text(name).and_then(|text| text.trim().parse().ok())
    }

    fn queue_text(&self, name: &str) -> Option<String> {
        let sys = self.sys.first()?;
        ["queue", "../queue"].map(|queue| sys.join(queue).join(name)).into_iter().find_map(read)
    }
}

impl DeviceCounters {
    fn plus(&self, other: &DeviceCounters) -> DeviceCounters {
        DeviceCounters {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            written_bytes: self.written_bytes + other.written_bytes,
            flushes: self.flushes.zip(other.flushes).map(|(one, other)| one + other),
        }
    }
}

/// Reads the counters of a device, given by its directory in /sys. Sectors in its `stat` file are 512 B regardless of the
/// device's own size.
fn counters(sys: &Path) -> Option<DeviceCounters> {
    let text = read(sys.join("stat"))?;
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    Some(DeviceCounters {
        reads: *fields.first()?,
        read_bytes: fields.get(2)? * 512,
        writes: *fields.get(4)?,
        written_bytes: fields.get(6)? * 512,
        flushes: flushes(sys, &fields),
    })
}

fn is_partition(sys: &Path) -> bool {
    sys.join("partition").exists()
}

/// Flush requests: the 16th field, since Linux 5.5. The kernel does not keep it for partitions (`Documentation/block/stat.rst`),
/// so a partition gets its disk's.
fn flushes(sys: &Path, fields: &[u64]) -> Option<u64> {
    if !is_partition(sys) {
        return fields.get(15).copied();
    }
    let of_disk = read(sys.join("../stat"))?;
    of_disk.split_whitespace().nth(15)?.parse().ok()
}

/// True if a device, given by its directory in /sys, is backed by another system or a file. Detects virtual disks even if the
/// processor shows no hypervisor.
pub(super) fn is_virtual(sys: &Path) -> bool {
    const BEGINNINGS: &[&str] = &["virtio", "vbd", "xen", "vmbus", "loop", "nbd", "rbd"];
    let mut parts = sys.iter().filter_map(|part| part.to_str());
    parts.any(|part| BEGINNINGS.iter().any(|beginning| part.starts_with(beginning)))
}

/// Bytes that processes had the kernel move between memory and devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Io {
    /// Bytes read from devices, attributed to the requesting process at the time of the request.
    pub read_bytes: u64,
    /// Bytes to be written to devices, attributed to the process that dirties a page at that time, which may be long before the
    /// write.
    pub written_bytes: u64,
}

impl Io {
    /// Difference to another value, 0 where the other is larger.
    pub fn beyond(&self, other: &Io) -> Io {
        Io {
            read_bytes: self.read_bytes.saturating_sub(other.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(other.written_bytes),
        }
    }

    /// Adds two values.
    pub fn plus(&self, other: &Io) -> Io {
        Io {
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
        }
    }
}

/// I/O of a process (a pid or `self`) and its reaped children, on all devices together; `None` if the kernel does not report it,
/// or not to this user.
pub fn process_io(process: &str) -> Option<Io> {
    let text = read(format!("/proc/{process}/io"))?;
    let of = |name: &str| field(&text, name)?.parse::<u64>().ok();
    // Pages deleted before they were written never will be.
    let written_bytes = of("write_bytes")?.saturating_sub(of("cancelled_write_bytes")?);
    Some(Io { read_bytes: of("read_bytes")?, written_bytes })
}

/// Waits until no page is under writeback and the device has stopped writing; false if `patience` is over first.
pub fn wait_until_quiet(device: Option<&Device>, patience: Duration) -> bool {
    const POLL: Duration = Duration::from_millis(10);
    let begin = uptime();
    let mut before = None;
    while uptime() - begin < patience {
        let meminfo = read("/proc/meminfo").unwrap_or_default();
        let writing = kibibytes(&meminfo, "Writeback").unwrap_or(0);
        let now = (writing, device.and_then(Device::counters).map(|counters| counters.written_bytes));
        if writing == 0 && before == Some(now) {
            return true;
        }
        before = Some(now);
        std::thread::sleep(POLL);
    }
    false
}
