//! Clocks and processors: time, processor usage, stolen time, and idle sleep states.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::ClockId;

use super::kernel_text::read;

/// Monotonic time since the program's first call; for budgets and progress, not for ops.
#[expect(clippy::disallowed_methods, reason = "one of the two homes of reading time")]
pub fn uptime() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Wall-clock time in nanoseconds since 1970, for comparison with another host's.
pub fn wall_ns() -> i64 {
    jiff::Timestamp::now().as_nanosecond() as i64
}

/// Wall-clock time as `2026-01-31T12:00:00Z`.
pub fn timestamp() -> String {
    jiff::Timestamp::now().round(jiff::Unit::Second).map_or_else(|_| String::new(), |now| now.to_string())
}

/// Processors that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Processors that the parent process may use.
pub fn launchers_cores() -> Option<usize> {
    let allowed = rustix::thread::sched_getaffinity(rustix::process::getppid()).ok()?;
    Some(allowed.count() as usize)
}

/// Processor time used by the whole system since boot, in nanoseconds: from the root CPU control group, otherwise from the ticks
/// of /proc/stat (usually 10 ms).
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

/// Boot time in seconds since 1970 by the current clock; `None` if the kernel does not report it.
pub fn booted() -> Option<i64> {
    let text = read("/proc/stat")?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Busy and stolen ticks of all processors since boot.
pub(super) fn ticks() -> Option<(u64, u64)> {
    let text = read("/proc/stat")?;
    let ticks: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|tick| tick.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy = ticks.iter().take(3).sum::<u64>() + ticks.iter().skip(5).take(2).sum::<u64>();
    Some((busy, ticks.get(7).copied().unwrap_or(0)))
}

/// Processor time that the hypervisor gave to other guests since boot, summed over all processors.
pub fn stolen() -> Duration {
    let ticks = ticks().map_or(0, |(_, stolen)| stolen);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

pub(super) fn clock_ns(clock: ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Processor time of all threads of this process, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// Processor time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

/// Sets the calling thread's timer slack to 1 ns, so that it is not woken up to 50 us late.
#[expect(unsafe_code, reason = "prctl has no safe wrapper for the timer slack")]
pub fn wake_me_on_time() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches none of our memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}

/// Keeps idle processors from sleeping until dropped.
#[derive(Debug)]
pub struct SleepInhibitor {
    /// The kernel keeps a request while the file is open, so none outlives this process.
    _request: File,
}

/// Keeps idle processors polling, so that they respond at once instead of some 10 to 100 us after being woken. Fails if this user
/// may not ask for it.
pub fn keep_awake() -> Result<SleepInhibitor> {
    const REQUESTS: &str = "/dev/cpu_dma_latency";
    // Longest permitted wake-up time in microseconds (`Documentation/power/pm_qos_interface.rst` of Linux).
    const LATENCY_US: i32 = 0;
    let ask = || {
        let mut request = File::options().write(true).open(REQUESTS)?;
        request.write_all(&LATENCY_US.to_ne_bytes())?;
        Ok::<_, std::io::Error>(SleepInhibitor { _request: request })
    };
    ask().with_context(|| {
        format!("--awake: cannot keep processors awake without writing to `{REQUESTS}`; run as root, or leave it out")
    })
}
