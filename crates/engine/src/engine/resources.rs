//! Resource use of a phase: processor time, memory and device I/O, as differences of the machine's counters.

use std::path::Path;

use crate::host::machine::{self, Device, DeviceCounters, Io, ProcessMemory, process_io};
use crate::host::server::Server;

/// Activity of the system per second while nothing is measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdleActivity {
    /// Processor time, in nanoseconds.
    pub busy_ns: f64,
    /// Read requests to the device.
    pub reads: f64,
    /// Bytes read from the device.
    pub read_bytes: f64,
    /// Write requests to the device.
    pub writes: f64,
    /// Bytes written to the device.
    pub written_bytes: f64,
}

impl IdleActivity {
    /// Observes the idle system for `seconds`.
    pub fn watch(device: Option<&Device>, seconds: f64) -> IdleActivity {
        let (begin, before) = (machine::uptime(), ResourceCounters::read(device, &[]));
        std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
        let (seconds, after) =
            ((machine::uptime() - begin).as_secs_f64(), ResourceCounters::read(device, &[]));
        let used = after.since(&before);
        IdleActivity {
            busy_ns: used.busy_ns.map_or(0.0, |ns| ns as f64 / seconds),
            reads: used.device.map_or(0.0, |device| device.reads as f64 / seconds),
            read_bytes: used.device.map_or(0.0, |device| device.read_bytes as f64 / seconds),
            writes: used.device.map_or(0.0, |device| device.writes as f64 / seconds),
            written_bytes: used.device.map_or(0.0, |device| device.written_bytes as f64 / seconds),
        }
    }

    /// Returns the same for a device that is idle by itself.
    pub fn without_device(self) -> IdleActivity {
        IdleActivity { reads: 0.0, read_bytes: 0.0, writes: 0.0, written_bytes: 0.0, ..self }
    }

    /// Returns the lower of each figure, because something that ran during one short observation does not always run.
    pub fn least(&self, other: &IdleActivity) -> IdleActivity {
        IdleActivity {
            busy_ns: self.busy_ns.min(other.busy_ns),
            reads: self.reads.min(other.reads),
            read_bytes: self.read_bytes.min(other.read_bytes),
            writes: self.writes.min(other.writes),
            written_bytes: self.written_bytes.min(other.written_bytes),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct ResourceCounters {
    busy_ns: Option<u64>,
    process_ns: u64,
    server_ns: Option<u64>,
    device: Option<DeviceCounters>,
    disk: Option<Io>,
    own: Option<Io>,
}

impl ResourceCounters {
    fn read(device: Option<&Device>, servers: &[&Server]) -> ResourceCounters {
        let server_ns: Option<u64> = servers.iter().map(|server| server.cpu_ns()).sum();
        ResourceCounters {
            busy_ns: machine::busy_ns(),
            process_ns: machine::process_cpu_ns(),
            server_ns: server_ns.filter(|_| !servers.is_empty()),
            device: device.and_then(Device::counters),
            disk: device.and_then(Device::disk_io),
            own: own_io(servers),
        }
    }

    fn since(&self, before: &ResourceCounters) -> ResourceUse {
        ResourceUse {
            busy_ns: self.busy_ns.zip(before.busy_ns).map(|(now, then)| now.saturating_sub(then)),
            process_ns: self.process_ns.saturating_sub(before.process_ns),
            // A server that was not there before has used all of its time since then.
            server_ns: self.server_ns.map(|now| now.saturating_sub(before.server_ns.unwrap_or(0))),
            device: self.device.zip(before.device).map(|both| each_of(both, u64::saturating_sub)),
            disk: self.disk.zip(before.disk).map(|(now, then)| now.beyond(&then)),
            own: self.own.zip(before.own).map(|(now, then)| now.beyond(&then)),
        }
    }
}

/// Combines each counter of one with the same of the other.
fn each_of((one, other): (DeviceCounters, DeviceCounters), combine: fn(u64, u64) -> u64) -> DeviceCounters {
    DeviceCounters {
        reads: combine(one.reads, other.reads),
        read_bytes: combine(one.read_bytes, other.read_bytes),
        writes: combine(one.writes, other.writes),
        written_bytes: combine(one.written_bytes, other.written_bytes),
        flushes: one.flushes.zip(other.flushes).map(|(one, other)| combine(one, other)),
    }
}

/// Total I/O of this process and the servers, as counted by the kernel.
fn own_io(servers: &[&Server]) -> Option<Io> {
    servers
        .iter()
        .map(|server| server.io())
        .chain([process_io("self")])
        .try_fold(Io::default(), |sum, io| Some(sum.plus(&io?)))
}

/// Resources used between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceUse {
    /// Processor time of the whole system.
    pub busy_ns: Option<u64>,
    /// Processor time of this process.
    pub process_ns: u64,
    /// Processor time of the store's servers.
    pub server_ns: Option<u64>,
    /// Activity of the device.
    pub device: Option<DeviceCounters>,
    /// I/O of the whole disk, whichever process caused it.
    pub disk: Option<Io>,
    /// I/O of this process and the store's servers, on any device.
    pub own: Option<Io>,
}

impl ResourceUse {
    /// I/O of the disk beyond that of this process and its servers. Reads are exact, because they are charged to the process that
    /// asks. Writes include what the file system adds for the store (its journal, its metadata), and what was dirty before. I/O
    /// of the store on another device hides as much of the others'.
    pub fn others(&self) -> Option<Io> {
        Some(self.disk?.beyond(&self.own?))
    }

    fn add(&mut self, more: &ResourceUse) {
        self.busy_ns = self.busy_ns.zip(more.busy_ns).map(|(all, more)| all + more);
        self.process_ns += more.process_ns;
        self.server_ns = match (self.server_ns, more.server_ns) {
            (Some(all), Some(more)) => Some(all + more),
            (all, more) => all.or(more),
        };
        self.device = self.device.zip(more.device).map(|both| each_of(both, |all, more| all + more));
        let both = |(all, more): (Io, Io)| all.plus(&more);
        self.disk = self.disk.zip(more.disk).map(both);
        self.own = self.own.zip(more.own).map(both);
    }
}

/// Sums the resources used in the intervals that belong to a phase, without what lies between them.
#[derive(Debug)]
pub struct Meter<'a> {
    device: Option<&'a Device>,
    idle: IdleActivity,
    running: Option<(std::time::Duration, ResourceCounters)>,
    seconds: f64,
    used: ResourceUse,
    /// Memory of the servers when it was highest.
    server_peak: Option<ProcessMemory>,
    store_peak_bytes: Option<u64>,
}

impl<'a> Meter<'a> {
    /// Returns a stopped meter.
    pub fn new(device: Option<&'a Device>, idle: IdleActivity) -> Meter<'a> {
        let used = ResourceUse {
            busy_ns: Some(0),
            process_ns: 0,
            server_ns: None,
            device: device.map(|_| DeviceCounters { flushes: Some(0), ..DeviceCounters::default() }),
            disk: device.map(|_| Io::default()),
            own: Some(Io::default()),
        };
        Meter { device, idle, running: None, seconds: 0.0, used, server_peak: None, store_peak_bytes: None }
    }

    /// Drops the estimate of other programs' I/O, for a device that only processes of this run use, or on which they cannot be
    /// told apart. Bytes that are written twice there are not the work of others.
    pub fn alone(mut self) -> Meter<'a> {
        self.used.disk = None;
        self
    }

    /// Starts or continues; `servers` are those of the open store.
    pub fn start(&mut self, servers: &[&Server]) {
        let counters = ResourceCounters::read(self.device, servers);
        self.running = Some((machine::uptime(), counters));
    }

    /// Stops until the next start. Returns the seconds since the last one.
    pub fn stop(&mut self, servers: &[&Server]) -> f64 {
        let Some((begin, before)) = self.running.take() else { return 0.0 };
        let seconds = (machine::uptime() - begin).as_secs_f64();
        let more = ResourceCounters::read(self.device, servers).since(&before);
        self.seconds += seconds;
        self.used.add(&more);
        seconds
    }

    /// Samples the memory of the servers.
    pub fn look_at_memory(&mut self, servers: &[&Server]) {
        if !servers.is_empty() {
            let now = ProcessMemory::sum(servers.iter().map(|server| server.memory_of(|_| true)));
            self.server_peak = larger(self.server_peak, Some(now));
        }
    }

    /// Records the memory that the store reports outside of this process and of its servers.
    pub fn note_store_memory(&mut self, bytes: Option<u64>) {
        self.store_peak_bytes = self.store_peak_bytes.max(bytes);
    }

    /// Highest sampled memory outside of this process: that of the servers, plus what the store reports in addition.
    pub fn server_peak_bytes(&self) -> Option<u64> {
        match (self.server_peak.map(|peak| peak.all_bytes()), self.store_peak_bytes) {
            (Some(servers), Some(store)) => Some(servers + store),
            (servers, store) => servers.or(store),
        }
    }

    /// Part of the servers' memory that is mapped files.
    pub fn server_mapped_bytes(&self) -> Option<u64> {
        self.server_peak.map(|peak| peak.mapped_bytes)
    }

    /// Adds the counts of another meter.
    pub fn add(&mut self, other: &Meter) {
        self.seconds += other.seconds;
        self.used.add(&other.used);
        self.server_peak = larger(self.server_peak, other.server_peak);
        self.store_peak_bytes = self.store_peak_bytes.max(other.store_peak_bytes);
    }

    /// Returns the resources used, minus what the idle system would have used in the same time.
    pub fn used(&self) -> ResourceUse {
        let less = |value: u64, idle_per_s: f64| value.saturating_sub((idle_per_s * self.seconds) as u64);
        // Time that is known to be this process's or the servers' is never subtracted.
        let known_ns = self.used.process_ns + self.used.server_ns.unwrap_or(0);
        ResourceUse {
            busy_ns: self.used.busy_ns.map(|ns| less(ns, self.idle.busy_ns).max(known_ns.min(ns))),
            process_ns: self.used.process_ns,
            server_ns: self.used.server_ns,
            device: self.used.device.map(|device| DeviceCounters {
                reads: less(device.reads, self.idle.reads),
                read_bytes: less(device.read_bytes, self.idle.read_bytes),
                writes: less(device.writes, self.idle.writes),
                written_bytes: less(device.written_bytes, self.idle.written_bytes),
                flushes: device.flushes,
            }),
            // Other programs' I/O includes that of the idle system.
            disk: self.used.disk,
            own: self.used.own,
        }
    }
}

fn larger(one: Option<ProcessMemory>, other: Option<ProcessMemory>) -> Option<ProcessMemory> {
    [one, other].into_iter().flatten().max_by_key(ProcessMemory::all_bytes)
}

/// Memory of this process before a store is opened, to which later memory is compared.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBaseline {
    peak_bytes: Option<u64>,
    memory: Option<ProcessMemory>,
}

/// Memory beyond the baseline.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryUsed {
    /// Peak since the last reset.
    pub peak_bytes: Option<u64>,
    /// Current anonymous memory.
    pub anonymous_bytes: Option<u64>,
    /// Current file-mapped memory.
    pub mapped_bytes: Option<u64>,
}

impl MemoryBaseline {
    /// Records the current memory as the baseline.
    pub fn take() -> MemoryBaseline {
        // Memory that earlier candidates freed would be reused, and not be counted.
        machine::give_back_memory();
        let peak_bytes = if machine::reset_peak() { machine::peak_bytes() } else { None };
        MemoryBaseline { peak_bytes, memory: machine::memory("self") }
    }

    /// Does work of our own while no store is open, and adds the memory that it keeps to the baseline.
    pub fn after_own<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let anonymous_bytes = || {
            machine::give_back_memory();
            machine::memory("self").map_or(0, |memory| memory.anonymous_bytes)
        };
        let before = anonymous_bytes();
        let done = work();
        let kept = anonymous_bytes().saturating_sub(before);
        self.peak_bytes = self.peak_bytes.map(|peak| peak + kept);
        if let Some(memory) = &mut self.memory {
            memory.anonymous_bytes += kept;
        }
        done
    }

    /// Returns the memory beyond the baseline.
    pub fn beyond(&self) -> MemoryUsed {
        let memory = self.memory.zip(machine::memory("self"));
        MemoryUsed {
            peak_bytes: self
                .peak_bytes
                .zip(machine::peak_bytes())
                .map(|(before, now)| now.saturating_sub(before)),
            anonymous_bytes: memory
                .map(|(then, now)| now.anonymous_bytes.saturating_sub(then.anonymous_bytes)),
            mapped_bytes: memory.map(|(then, now)| now.mapped_bytes.saturating_sub(then.mapped_bytes)),
        }
    }
}

/// Free bytes of a file system, for the cross-check of footprints.
pub fn free_bytes(dir: &Path) -> Option<u64> {
    machine::free_bytes(dir).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_our_own_work_keeps_is_not_beyond_the_baseline() {
        // Much more than other tests take meanwhile.
        const BYTES: usize = 256 << 20;
        let mut baseline = MemoryBaseline::take();
        let kept = baseline.after_own(|| vec![1_u8; BYTES]);
        let beyond = baseline.beyond().anonymous_bytes.unwrap();
        assert!(beyond < BYTES as u64 / 2, "{beyond} with {} kept", kept.len());
    }

    #[test]
    fn processor_time_is_no_less_than_what_is_known_of_it() {
        let idle = |busy_ns: f64| IdleActivity { busy_ns, ..IdleActivity::default() };
        let mut meter = Meter::new(None, idle(900.0).least(&idle(1200.0)));
        meter.seconds = 1.0;
        meter.used = ResourceUse {
            busy_ns: Some(1000),
            process_ns: 300,
            server_ns: Some(500),
            ..ResourceUse::default()
        };
        assert_eq!(
            meter.used().busy_ns,
            Some(800),
            "ours and the server's, whatever ran in the look at the idle system"
        );
        meter.idle = idle(100.0);
        assert_eq!(meter.used().busy_ns, Some(900));
    }

    #[test]
    fn what_the_disk_did_beyond_ours_is_of_others_and_absent_where_either_is_unknown() {
        let io = |read_bytes, written_bytes| Some(Io { read_bytes, written_bytes });
        let used = |disk, own| ResourceUse { disk, own, ..ResourceUse::default() };
        assert_eq!(used(io(90, 50), io(30, 60)).others(), io(60, 0));
        assert_eq!(used(None, io(1, 1)).others(), None);
        assert_eq!(used(io(1, 1), None).others(), None);
        let mut meter = Meter::new(None, IdleActivity::default());
        assert_eq!(meter.used().others(), None, "without a device");
        // Pages that are dirtied in one interval may be written in the next.
        meter.used = used(io(0, 0), io(0, 0));
        meter.used.add(&used(io(5, 0), io(0, 70)));
        meter.used.add(&used(io(0, 80), io(0, 0)));
        assert_eq!(meter.used().others(), io(5, 10));
    }

    #[test]
    fn memory_outside_of_the_process_is_the_most_that_was_seen() {
        let mut meter = Meter::new(None, IdleActivity::default());
        assert_eq!(meter.server_peak_bytes(), None);
        for bytes in [Some(2), Some(3), Some(1), None] {
            meter.note_store_memory(bytes);
        }
        assert_eq!(meter.server_peak_bytes(), Some(3));
        let peak = |anonymous_bytes, mapped_bytes| Some(ProcessMemory { anonymous_bytes, mapped_bytes });
        meter.server_peak = larger(peak(2, 8), peak(5, 1));
        assert_eq!(meter.server_mapped_bytes(), Some(8));
        assert_eq!(meter.server_peak_bytes(), Some(13));
    }
}
