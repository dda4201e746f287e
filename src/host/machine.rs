//! The machine: what it is, what it is doing, and its page cache. Everything here reads or steers the kernel.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::processors::Apart;
use anyhow::{Context, Result};
use rustix::time::ClockId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors this process may use.
    pub processors: usize,
    /// How the processor's clock is governed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Whether a hypervisor is below.
    pub virtual_machine: bool,
    /// Main memory.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The file system that was measured.
    pub filesystem: String,
    /// Where that is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<String>,
    /// Its mount options.
    pub mount: String,
    /// The block device below it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Whether the device says that it rotates; absent for a virtual disk, which says nothing of what it is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// Bytes that the kernel reads ahead of a sequential reader or a page fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_bytes: Option<u64>,
    /// Free space when the run began.
    pub free_bytes: u64,
    /// Whether blobwise ran as root.
    pub root: bool,
    /// Where workers and servers ran, where they were pinned apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Apart>,
}

impl Machine {
    /// Where workers and servers ran, in words.
    pub fn sides(&self) -> String {
        self.pinned.as_ref().map_or_else(|| "any processor".to_owned(), Apart::text)
    }
}

/// Seconds since some moment before the program's first use of it; for budgets and progress, not for ops.
#[expect(clippy::disallowed_methods, reason = "one of the two homes of reading time")]
pub fn uptime() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// The wall-clock time as `2026-01-31T12:00:00Z`.
pub fn timestamp() -> String {
    jiff::Timestamp::now().round(jiff::Unit::Second).map_or_else(|_| String::new(), |now| now.to_string())
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The value of a `Name: value` line, without its unit.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// What the machine is, seen from the directory that is measured.
pub fn facts(dir: &Path) -> Machine {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let mount = Mount::of(dir);
    let flags = field(&cpuinfo, "flags").unwrap_or_default();
    let virtual_machine = flags.split(' ').any(|flag| flag == "hypervisor");
    let device = Device::of(dir);
    Machine {
        processor: field(&cpuinfo, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        processors: cores(),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .map(|text| text.trim().to_owned()),
        virtual_machine,
        memory_bytes: memory_bytes(),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        system: read("/etc/os-release")
            .and_then(|text| {
                text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=").map(str::to_owned))
            })
            .map_or_else(|| "unknown".to_owned(), |name| name.trim_matches('"').to_owned()),
        filesystem: mount.as_ref().map(|mount| mount.kind.clone()).unwrap_or_default(),
        mount_point: mount.as_ref().map(|mount| mount.point.clone()),
        mount: mount.as_ref().map(|mount| mount.options.clone()).unwrap_or_default(),
        device: device.as_ref().map(|device| device.name.clone()),
        rotational: device.as_ref().and_then(|device| device.rotational(virtual_machine)),
        read_ahead_bytes: device.as_ref().and_then(Device::read_ahead_bytes),
        free_bytes: free_bytes(dir).unwrap_or(0),
        root: rustix::process::geteuid().is_root(),
        pinned: None,
    }
}

/// Bytes of memory; 0 where the kernel does not say.
pub fn memory_bytes() -> u64 {
    kibibytes(&read("/proc/meminfo").unwrap_or_default(), "MemTotal").unwrap_or(0)
}

/// Processors this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes a user may still write below a directory.
pub fn free_bytes(dir: &Path) -> Result<u64> {
    let space = rustix::fs::statvfs(dir)
        .with_context(|| format!("cannot look up the space in `{}`", dir.display()))?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// The disk that a directory lies on, in words: its file system, where that is mounted, and the device.
pub fn disk(dir: &Path) -> String {
    let Some(mount) = Mount::of(dir) else { return "on a disk that the kernel does not name".to_owned() };
    // Where a mount does not map to one device, it says what it was made from.
    let device = Device::of(dir).map_or(mount.source, |device| device.name);
    format!("{} on `{device}`, mounted at `{}`", mount.kind, mount.point)
}

/// A line of the kernel's table of mounts.
struct Mount {
    point: String,
    kind: String,
    options: String,
    source: String,
}

impl Mount {
    /// The mount that a directory lies on: the longest mount point that contains it.
    fn of(dir: &Path) -> Option<Mount> {
        let dir = dir.canonicalize().ok()?;
        let table = read("/proc/self/mountinfo")?;
        let mut best: Option<Mount> = None;
        for line in table.lines() {
            let (left, right) = line.split_once(" - ")?;
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let (Some(point), Some(options), Some(kind)) = (left.get(4), left.get(5), right.first()) else {
                continue;
            };
            let point = unescaped(point);
            if dir.starts_with(&point) && best.as_ref().is_none_or(|best| best.point.len() <= point.len()) {
                let more = right.get(2).copied().unwrap_or_default();
                best = Some(Mount {
                    point,
                    kind: (*kind).to_owned(),
                    options: format!("{options} {more}"),
                    source: unescaped(right.get(1).copied().unwrap_or_default()),
                });
            }
        }
        best
    }
}

/// A path of the table of mounts: what separates fields and lines there is written in octal digits.
fn unescaped(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (written, meant)| path.replace(written, meant))
}

/// Whether a directory lies in memory.
pub fn is_in_memory(dir: &Path) -> bool {
    Mount::of(dir).is_some_and(|mount| mount.kind == "tmpfs" || mount.kind == "ramfs")
}

/// Whether the file system of a directory goes over what was deleted lately for each file that it makes. ext4 without a journal does: it
/// gives no inode away within a minute of its deletion, or within six while that is not on the device
/// (`recently_deleted` in `fs/ext4/ialloc.c`), and asks for each of them again every time.
pub fn remembers_deletions(dir: &Path) -> bool {
    let is_ext4 = Mount::of(dir).is_some_and(|mount| mount.kind == "ext4");
    let task = || read(format!("/sys/fs/ext4/{}/journal_task", Device::of(dir)?.name));
    is_ext4 && task().is_some_and(|task| task.trim() == "<none>")
}

/// Asks the file system to put each directory that is made in this one far from the others, as it does in its root. Whether it
/// does is its own affair: only ext2 to ext4 know of it.
pub fn spread_directories(dir: &Path) -> Result<()> {
    let directory = File::open(dir)?;
    let flags = rustix::fs::ioctl_getflags(&directory)?;
    Ok(rustix::fs::ioctl_setflags(&directory, flags | rustix::fs::IFlags::TOPDIR)?)
}

/// Whether a directory's file system is mounted read-only.
pub fn is_read_only(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|space| space.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// The block device below a directory.
#[derive(Clone, Debug)]
pub struct Device {
    name: String,
    sys: PathBuf,
}

/// What a device has done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceCounters {
    /// Read requests finished, of whatever size.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flush requests finished, where the kernel counts them.
    pub flushes: Option<u64>,
}

impl Device {
    /// The device a directory lies on, or `None` where a mount does not map to one device.
    pub fn of(dir: &Path) -> Option<Device> {
        let id = std::fs::metadata(dir).ok()?.dev();
        let sys =
            PathBuf::from(format!("/sys/dev/block/{}:{}", rustix::fs::major(id), rustix::fs::minor(id)));
        let name = sys.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned();
        sys.join("stat").exists().then_some(Device { name, sys })
    }

    /// The counters of the device. Sectors in this file are 512 B whatever the device's own are.
    pub fn counters(&self) -> Option<DeviceCounters> {
        let text = read(self.sys.join("stat"))?;
        let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        Some(DeviceCounters {
            reads: *fields.first()?,
            read_bytes: fields.get(2)? * 512,
            written_bytes: fields.get(6)? * 512,
            flushes: self.flushes(&fields),
        })
    }

    /// What the whole disk moved: what others do on another partition of it disturbs as much. Of a disk that is made of others
    /// (LVM, RAID) only its own part is seen.
    pub fn disk_io(&self) -> Option<Io> {
        let stat = if self.is_partition() { "../stat" } else { "stat" };
        let text = read(self.sys.join(stat))?;
        let sectors = |field: usize| text.split_whitespace().nth(field)?.parse::<u64>().ok();
        Some(Io { read_bytes: sectors(2)? * 512, written_bytes: sectors(6)? * 512 })
    }

    fn is_partition(&self) -> bool {
        self.sys.join("partition").exists()
    }

    /// The 16th field, since Linux 5.5. It is not kept for partitions (`Documentation/block/stat.rst`): theirs is their disk's.
    fn flushes(&self, fields: &[u64]) -> Option<u64> {
        if !self.is_partition() {
            return fields.get(15).copied();
        }
        let of_disk = read(self.sys.join("../stat"))?;
        of_disk.split_whitespace().nth(15)?.parse().ok()
    }

    /// Whether it says that it rotates. Of a virtual disk that says nothing: what it is made of is the host's to know, and most say yes.
    fn rotational(&self, virtual_machine: bool) -> Option<bool> {
        if virtual_machine || is_virtual(&self.sys.canonicalize().ok()?) {
            return None;
        }
        self.queue("rotational").map(|value| value == 1)
    }

    fn read_ahead_bytes(&self) -> Option<u64> {
        self.queue("read_ahead_kb").map(|kib| kib << 10)
    }

    /// A setting of its queue; a partition's queue is its disk's.
    fn queue(&self, name: &str) -> Option<u64> {
        let places = ["queue", "../queue"].map(|queue| self.sys.join(queue).join(name));
        places.into_iter().find_map(read).and_then(|text| text.trim().parse().ok())
    }
}

/// Whether a device, by its directory in /sys, is a disk that another system or a file stands behind, also where the processor shows no
/// hypervisor.
fn is_virtual(sys: &Path) -> bool {
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

/// Processor time used by the whole system since it was started, in nanoseconds: by the root of the CPU control
/// groups, else from the 10 ms ticks of /proc/stat.
pub fn busy_ns() -> Option<u64> {
    if let Some(usage) =
        read("/sys/fs/cgroup/cpuacct/cpuacct.usage").and_then(|text| text.trim().parse().ok())
    {
        return Some(usage);
    }
    for path in ["/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/unified/cpu.stat"] {
        let usage = read(path).and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?.parse::<u64>().ok()?;
            Some(line * 1000)
        });
        if usage.is_some() {
            return usage;
        }
    }
    let (busy, _) = ticks()?;
    Some(busy * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

/// Lets nobody but this user read or enter what this process and those that it starts make from now on. To be called before there
/// are threads.
pub fn make_private() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// When the system was started, in seconds since 1970, as the clock says now; `None` where the kernel does not say.
pub fn booted() -> Option<i64> {
    let text = read("/proc/stat")?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Busy and stolen ticks of all processors since the system was started.
fn ticks() -> Option<(u64, u64)> {
    let text = read("/proc/stat")?;
    let ticks: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|tick| tick.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy = ticks.iter().take(3).sum::<u64>() + ticks.iter().skip(5).take(2).sum::<u64>();
    Some((busy, ticks.get(7).copied().unwrap_or(0)))
}

/// Processor time the hypervisor gave to others since the system was started, all processors together.
pub fn stolen() -> Duration {
    let ticks = ticks().map_or(0, |(_, stolen)| stolen);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Processor time of this process, all its threads, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// Processor time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

/// Makes the kernel wake this thread when it asked to be woken, not up to 50 us later.
#[expect(unsafe_code, reason = "prctl has no safe wrapper for the timer slack")]
pub fn wake_me_on_time() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
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

/// Idle processors that are kept from sleeping, until this is dropped.
#[derive(Debug)]
pub struct Awake {
    /// The kernel keeps a request for as long as the file is open, so that none outlives this process.
    _request: File,
}

/// Asks the kernel for processors that answer at once, in place of some 10 to 100 us after they were woken: idle ones then poll.
/// Fails where this user may not ask.
pub fn keep_awake() -> Result<Awake> {
    const REQUESTS: &str = "/dev/cpu_dma_latency";
    // The longest that waking may take, in microseconds (`Documentation/power/pm_qos_interface.rst` of Linux).
    const LATENCY_US: i32 = 0;
    let ask = || {
        let mut request = File::options().write(true).open(REQUESTS)?;
        request.write_all(&LATENCY_US.to_ne_bytes())?;
        Ok::<_, std::io::Error>(Awake { _request: request })
    };
    ask().with_context(|| {
        format!("`--awake` cannot keep the processors from sleeping: it needs to write to `{REQUESTS}`; run as root, or without it")
    })
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

/// Whether the kernel's caches can be dropped.
pub fn can_drop_caches() -> bool {
    File::options().write(true).open("/proc/sys/vm/drop_caches").is_ok()
}

/// Drops the kernel's caches of data, inodes and dentries; what is dirty must have been written before.
pub fn drop_caches() -> bool {
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Writes everything that is dirty on the file system of a directory to its device.
pub fn sync_filesystem(dir: &Path) -> Result<()> {
    let opened = File::open(dir).with_context(|| format!("cannot open `{}`", dir.display()))?;
    rustix::fs::syncfs(&opened)
        .with_context(|| format!("cannot flush the file system of `{}`", dir.display()))
}

/// Every file and directory below a directory, itself included.
fn below(dir: &Path) -> impl Iterator<Item = walkdir::DirEntry> {
    // A file may vanish while a store's background work goes on.
    walkdir::WalkDir::new(dir).into_iter().filter_map(|entry| entry.ok())
}

/// Bytes allocated below a directory, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Allocated {
    /// All of them.
    pub all: u64,
    /// Those of directories themselves.
    pub directories: u64,
    /// Those of files that are logs.
    pub logs: u64,
}

/// Bytes allocated below a directory; `is_log` is asked of the path of each file below it.
pub fn allocated(dir: &Path, is_log: impl Fn(&Path) -> bool) -> Allocated {
    let mut sum = Allocated::default();
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

/// Asks the kernel to forget the data of every file below a directory; inodes and dentries stay.
pub fn evict(dir: &Path) {
    for entry in below(dir).filter(|entry| entry.file_type().is_file()) {
        if let Ok(file) = File::open(entry.path()) {
            // Advice: what it did is measured by `resident_share`.
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).ok();
        }
    }
}

/// The share of the bytes below a directory that are in the page cache, by mincore.
pub fn resident_share(dir: &Path) -> f64 {
    let (mut pages, mut resident) = (0, 0);
    for entry in below(dir).filter(|entry| entry.file_type().is_file()) {
        let Ok(file) = File::open(entry.path()) else { continue };
        let (all, in_cache) = resident_pages(&file);
        pages += all;
        resident += in_cache;
    }
    if pages == 0 { 0.0 } else { resident as f64 / pages as f64 }
}

/// Whether anything of a file is in the page cache.
pub fn is_resident(file: &File) -> bool {
    resident_pages(file).1 > 0
}

/// Pages of a file, and how many of them are in the page cache.
#[expect(unsafe_code, reason = "mincore needs a mapping of the file")]
fn resident_pages(file: &File) -> (usize, usize) {
    let len = file.metadata().map_or(0, |metadata| metadata.len() as usize);
    if len == 0 {
        return (0, 0);
    }
    let page = rustix::param::page_size();
    let mut states = vec![0_u8; len.div_ceil(page)];
    // SAFETY: the mapping is only ever passed to mincore and munmap, never read through, so a file that shrinks
    // meanwhile cannot fault; `states` has a byte for each page of `len`.
    let asked = unsafe {
        let flags = rustix::mm::MapFlags::SHARED;
        let Ok(map) =
            rustix::mm::mmap(std::ptr::null_mut(), len, rustix::mm::ProtFlags::READ, flags, file, 0)
        else {
            return (0, 0);
        };
        let asked = libc::mincore(map, len, states.as_mut_ptr());
        rustix::mm::munmap(map, len).ok();
        asked
    };
    if asked != 0 {
        return (0, 0);
    }
    (states.len(), states.iter().filter(|state| **state & 1 == 1).count())
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

/// Opens a file for reads that bypass the page cache.
pub fn open_direct(path: &Path) -> Result<File> {
    use rustix::fs::OFlags;
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    // Without leaving a trace where that is allowed (to the owner and to root).
    let file = rustix::fs::open(path, flags | OFlags::NOATIME, rustix::fs::Mode::empty())
        .or_else(|_refused| rustix::fs::open(path, flags, rustix::fs::Mode::empty()))
        .with_context(|| format!("cannot open `{}` for direct reads", path.display()))?;
    Ok(file.into())
}

/// A buffer at an address that direct reads accept.
#[derive(Debug)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of `len` bytes at a multiple of 4096.
    pub fn new(len: usize) -> AlignedBuffer {
        let bytes = vec![0; len + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        AlignedBuffer { bytes, start, len }
    }

    /// Its first bytes; it grows where it has fewer.
    pub fn first(&mut self, len: usize) -> &mut [u8] {
        if len > self.len {
            *self = AlignedBuffer::new(len);
        }
        &mut self.bytes[self.start..self.start + len]
    }

    /// Reads a whole buffer from an offset.
    pub fn read_from(&mut self, file: &File, offset: u64) -> std::io::Result<()> {
        file.read_exact_at(&mut self.bytes[self.start..self.start + self.len], offset)
    }
}

/// Whether something below the device, such as the host of a virtual machine, keeps its blocks in a cache: blocks that
/// nobody has read for a day are read directly, twice; a second read in under half the time says so. `None` where no such
/// blocks are found or direct reads are refused. `near` chooses the file system.
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

/// Large files of the same file system that nobody has read for a day and that are not in the page cache, opened for direct
/// reads that leave no trace. The search is bounded in time.
fn untouched_files(near: &Path) -> Vec<(File, u64)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_virtual_disk_is_made_of_is_not_known() {
        for (sys, virtual_disk) in [
            ("/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda", true),
            ("/sys/devices/vbd-51712/block/xvda/xvda1", true),
            ("/sys/devices/virtual/block/loop3", true),
            ("/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda1", false),
            ("/sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1", false),
            ("/sys/devices/virtual/block/dm-0", false),
        ] {
            assert_eq!(is_virtual(Path::new(sys)), virtual_disk, "{sys}");
        }
        // Seen from a virtual machine none is anything else.
        let dir = tempfile::tempdir_in(".").unwrap();
        let device = Device { name: "d".to_owned(), sys: dir.path().to_owned() };
        std::fs::create_dir(dir.path().join("queue")).unwrap();
        std::fs::write(dir.path().join("queue/rotational"), "1\n").unwrap();
        assert_eq!(device.rotational(false), Some(true));
        assert_eq!(device.rotational(true), None);
    }

    #[test]
    fn a_file_is_resident_after_reading_and_not_after_eviction() {
        let dir = tempfile::tempdir_in(".").unwrap();
        std::fs::write(dir.path().join("file"), vec![1; 1 << 20]).unwrap();
        sync_filesystem(dir.path()).unwrap();
        assert_eq!(resident_share(dir.path()), 1.0);
        let sum = allocated(dir.path(), |path| path.starts_with("log"));
        assert!(sum.all >= 1 << 20 && sum.logs == 0, "{sum:?}");
        std::fs::create_dir(dir.path().join("log")).unwrap();
        std::fs::write(dir.path().join("log/1"), vec![7; 100_000]).unwrap();
        File::open(dir.path().join("log/1")).unwrap().sync_all().unwrap();
        let more = allocated(dir.path(), |path| path.starts_with("log"));
        assert!(more.logs >= 100_000 && more.directories >= sum.directories, "{more:?}");
        assert_eq!(more.all - more.logs - more.directories, sum.all - sum.directories);
        if !is_in_memory(dir.path()) {
            evict(dir.path());
            assert!(resident_share(dir.path()) < 0.1);
        }
    }

    #[test]
    fn the_machine_has_processors_and_memory() {
        let machine = facts(Path::new("."));
        assert!(machine.processors >= 1 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
        assert!(busy_ns().is_some_and(|busy| busy > 0));
    }

    #[test]
    fn what_this_process_moves_is_counted_as_its_own() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("file");
        if Device::of(dir.path()).is_none() {
            return;
        }
        let own = || process_io("self").unwrap();
        let write = |_| {
            let before = own();
            std::fs::write(&path, vec![1; 1 << 20]).unwrap();
            File::open(&path).unwrap().sync_all().unwrap();
            own().beyond(&before).written_bytes
        };
        // Other tests of this process may delete what they wrote before it was written.
        assert!((0..20).map(write).any(|written| written >= 1 << 20));
        evict(dir.path());
        let before = (own(), Device::of(dir.path()).unwrap().disk_io().unwrap());
        std::fs::read(&path).unwrap();
        let after = (own(), Device::of(dir.path()).unwrap().disk_io().unwrap());
        let (ours, disks) = (after.0.beyond(&before.0), after.1.beyond(&before.1));
        assert!(ours.read_bytes >= 1 << 20 && disks.read_bytes >= 1 << 20, "{ours:?} {disks:?}");
    }
}
