//! Time and processors: clocks, what was used of them and by whom, and whether they sleep.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::ClockId;

use super::kernel_text::read;

/// Seconds since some moment before the program's first use of it; for budgets and progress, not for ops.
#[expect(clippy::disallowed_methods, reason = "one of the two homes of reading time")]
pub fn uptime() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// The system's clock, in nanoseconds since 1970: to be compared with that of another host.
pub fn wall_ns() -> i64 {
    jiff::Timestamp::now().as_nanosecond() as i64
}

/// The wall-clock time as `2026-01-31T12:00:00Z`.
pub fn timestamp() -> String {
    jiff::Timestamp::now().round(jiff::Unit::Second).map_or_else(|_| String::new(), |now| now.to_string())
}

/// Processors this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Processors that the process may use which started this one.
pub fn launchers_cores() -> Option<usize> {
    let allowed = rustix::thread::sched_getaffinity(rustix::process::getppid()).ok()?;
    Some(allowed.count() as usize)
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

/// When the system was started, in seconds since 1970, as the clock says now; `None` where the kernel does not say.
pub fn booted() -> Option<i64> {
    let text = read("/proc/stat")?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Busy and stolen ticks of all processors since the system was started.
pub(super) fn ticks() -> Option<(u64, u64)> {
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

pub(super) fn clock_ns(clock: ClockId) -> u64 {
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
