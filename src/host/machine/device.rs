//! Block devices: what they are, what they moved, and for whom.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::kernel_text::{field, kibibytes, read};
use super::processor::uptime;

/// The block device below a directory, or several that one file system lies on.
#[derive(Clone, Debug)]
pub struct Device {
    pub(super) name: String,
    /// Its directory in /sys, or theirs.
    pub(super) sys: Vec<PathBuf>,
}

/// What a device has done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceCounters {
    /// Read requests finished, of whatever size.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests finished, of whatever size.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flush requests finished, where the kernel counts them.
    pub flushes: Option<u64>,
}

impl Device {
    /// The device a directory lies on, or `None` where a mount does not map to one device.
    pub fn of(dir: &Path) -> Option<Device> {
        Device::by_number(std::fs::metadata(dir).ok()?.dev())
    }

    /// A block device by its path, such as `/dev/sda`; `None` for anything else.
    pub fn at(path: &Path) -> Option<Device> {
        let known = std::fs::metadata(path).ok()?;
        known.file_type().is_block_device().then(|| Device::by_number(known.rdev()))?
    }

    fn by_number(id: u64) -> Option<Device> {
        let sys =
            PathBuf::from(format!("/sys/dev/block/{}:{}", rustix::fs::major(id), rustix::fs::minor(id)));
        let name = sys.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned();
        sys.join("stat").exists().then_some(Device { name, sys: vec![sys] })
    }

    /// Several that are used as one, by their names (`loop0`): what they did is added up.
    pub fn of_several(names: &[String]) -> Device {
        let sys = names.iter().map(|name| Path::new("/sys/block").join(name)).collect();
        Device { name: names.join("+"), sys }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The counters of the device, or of all together.
    pub fn counters(&self) -> Option<DeviceCounters> {
        self.counters_of_each().into_iter().reduce(|all, more| Some(all?.plus(&more?)))?
    }

    /// The counters of each device that it is made of.
    pub fn counters_of_each(&self) -> Vec<Option<DeviceCounters>> {
        self.sys.iter().map(|sys| counters(sys)).collect()
    }

    /// What the whole disk moved: what others do on another partition of it disturbs as much. Of a disk that is made of others
    /// (LVM, RAID) only its own part is seen.
    pub fn disk_io(&self) -> Option<Io> {
        let of = |sys: &PathBuf| {
            let stat = if is_partition(sys) { "../stat" } else { "stat" };
            let text = read(sys.join(stat))?;
            let sectors = |field: usize| text.split_whitespace().nth(field)?.parse::<u64>().ok();
            Some(Io { read_bytes: sectors(2)? * 512, written_bytes: sectors(6)? * 512 })
        };
        self.sys.iter().map(of).reduce(|all, more| Some(all?.plus(&more?)))?
    }

    /// Whether it says that it rotates. Of a virtual disk that says nothing: what it is made of is the host's to know, and most
    /// say yes.
    pub(super) fn rotational(&self, virtual_machine: bool) -> Option<bool> {
        if virtual_machine || is_virtual(&self.sys.first()?.canonicalize().ok()?) {
            return None;
        }
        self.queue("rotational").map(|value| value == 1)
    }

    pub(super) fn read_ahead_bytes(&self) -> Option<u64> {
        self.queue("read_ahead_kb").map(|kib| kib << 10)
    }

    /// Whether it says of itself that it keeps what is written in a cache of its own (`write back`) until it is flushed.
    pub fn says_write_back(&self) -> Option<bool> {
        self.queue_text("write_cache").map(|text| text.trim() == "write back")
    }

    /// A setting of its queue; a partition's queue is its disk's.
    fn queue(&self, name: &str) -> Option<u64> {
        self.queue_text(name).and_then(|text| text.trim().parse().ok())
    }

    fn queue_text(&self, name: &str) -> Option<String> {
        let sys = self.sys.first()?;
        ["queue", "../queue"].map(|queue| sys.join(queue).join(name)).into_iter().find_map(read)
    }
}

impl DeviceCounters {
    /// Both together.
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

/// The counters of a device, by its directory in /sys. Sectors in its file are 512 B whatever the device's own are.
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

/// The 16th field, since Linux 5.5. It is not kept for partitions (`Documentation/block/stat.rst`): theirs is their disk's.
fn flushes(sys: &Path, fields: &[u64]) -> Option<u64> {
    if !is_partition(sys) {
        return fields.get(15).copied();
    }
    let of_disk = read(sys.join("../stat"))?;
    of_disk.split_whitespace().nth(15)?.parse().ok()
}

/// Whether a device, by its directory in /sys, is a disk that another system or a file stands behind, also where the processor
/// shows no hypervisor.
pub(super) fn is_virtual(sys: &Path) -> bool {
    const BEGINNINGS: &[&str] = &["virtio", "vbd", "xen", "vmbus", "loop", "nbd", "rbd"];
    let mut parts = sys.iter().filter_map(|part| part.to_str());
    parts.any(|part| BEGINNINGS.iter().any(|beginning| part.starts_with(beginning)))
}

/// What processes had the kernel move between memory and devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Io {
    /// Bytes read from devices: counted for who asks, when the request is made.
    pub read_bytes: u64,
    /// Bytes to be written to devices: counted for who changes a page, when it does, which may be long before it is written.
    pub written_bytes: u64,
}

impl Io {
    /// What there is here beyond another one, and nothing where that has more.
    pub fn beyond(&self, other: &Io) -> Io {
        Io {
            read_bytes: self.read_bytes.saturating_sub(other.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(other.written_bytes),
        }
    }

    /// Both together.
    pub fn plus(&self, other: &Io) -> Io {
        Io {
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
        }
    }
}

/// What a process, by its number or `self`, and its children that were waited for have moved, on all devices together; `None` where
/// the kernel does not say, or not to us.
pub fn process_io(process: &str) -> Option<Io> {
    let text = read(format!("/proc/{process}/io"))?;
    let of = |name: &str| field(&text, name)?.parse::<u64>().ok();
    // What was deleted before it was written never is.
    let written_bytes = of("write_bytes")?.saturating_sub(of("cancelled_write_bytes")?);
    Some(Io { read_bytes: of("read_bytes")?, written_bytes })
}

/// Waits until no page is dirty or being written and the device has stopped writing, or until `patience` is over;
/// false in that case.
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
