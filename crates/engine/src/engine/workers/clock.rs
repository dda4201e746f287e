//! The clock of the measuring loop: the processor's time-stamp counter if its rate is constant, else the system's monotonic
//! clock.

use std::time::{Duration, Instant};

/// A clock in nanoseconds since some moment. The loop is generic over it, so that tests can run on simulated time.
pub trait Clock: Sync {
    /// Returns the current time, in nanoseconds.
    fn now(&self) -> u64;
    /// Sleeps until that moment, or slightly longer, without using the processor.
    fn sleep_until(&self, moment: u64);
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug)]
pub enum HostClock {
    /// The processor's invariant time-stamp counter: about 15 ns per reading.
    Counter {
        /// The counter's value at moment 0.
        base: u64,
        /// Nanoseconds in 2^32 ticks.
        ns_per_2_32_ticks: u64,
    },
    /// The system's monotonic clock: about 35 ns per reading.
    Monotonic {
        /// Moment 0.
        base: Instant,
    },
}

/// How long the counter is compared with the system's clock. Both can be read to about 50 ns, so that the rate is accurate to a
/// few parts in a million.
const CALIBRATION: Duration = Duration::from_millis(25);

impl HostClock {
    /// Returns the best clock of this machine.
    pub fn best() -> HostClock {
        if counter_is_invariant() { HostClock::counter() } else { HostClock::monotonic() }
    }

    #[expect(clippy::disallowed_methods, reason = "the home of reading time")]
    fn monotonic() -> HostClock {
        HostClock::Monotonic { base: Instant::now() }
    }

    #[expect(clippy::disallowed_methods, reason = "the home of reading time")]
    fn counter() -> HostClock {
        let pair = || {
            // Takes the closest of a few pairs of readings, because an interrupt between the two would distort the rate.
            let tries = (0..5).map(|_| {
                let before = Instant::now();
                let ticks = ticks();
                (before.elapsed(), before, ticks)
            });
            tries.min_by_key(|(between, ..)| *between).map(|(_, moment, ticks)| (moment, ticks))
        };
        let first = pair();
        std::thread::sleep(CALIBRATION);
        match (first, pair()) {
            (Some((begin, from)), Some((end, to))) if to > from => {
                let ns = (end - begin).as_nanos();
                let ns_per_2_32_ticks = ((ns << 32) / u128::from(to - from)) as u64;
                HostClock::Counter { base: from, ns_per_2_32_ticks }
            }
            _ => HostClock::monotonic(),
        }
    }

    /// The name of the clock in results.
    pub fn name(&self) -> &'static str {
        match self {
            HostClock::Counter { .. } => "invariant time-stamp counter",
            HostClock::Monotonic { .. } => "system's monotonic clock",
        }
    }

    /// Measures the cost of one reading in nanoseconds: the best of a few tries.
    pub fn read_ns(&self) -> f64 {
        const READS: u64 = 10_000;
        let one = || {
            let begin = self.now();
            for _ in 1..READS {
                std::hint::black_box(self.now());
            }
            (self.now() - begin) as f64 / READS as f64
        };
        (0..5).map(|_| one()).fold(f64::INFINITY, f64::min)
    }
}

impl Clock for HostClock {
    #[inline]
    fn now(&self) -> u64 {
        match self {
            HostClock::Counter { base, ns_per_2_32_ticks } => {
                ((u128::from(ticks().wrapping_sub(*base)) * u128::from(*ns_per_2_32_ticks)) >> 32) as u64
            }
            HostClock::Monotonic { base } => base.elapsed().as_nanos() as u64,
        }
    }

    fn sleep_until(&self, moment: u64) {
        // The system's clock, which times the sleep, may run slightly faster than the counter.
        while let Some(left) = moment.checked_sub(self.now()).filter(|left| *left > 0) {
            std::thread::sleep(Duration::from_nanos(left));
        }
    }
}

/// True if the kernel reports that the counter runs at a constant rate in all sleep states, and still uses it itself.
fn counter_is_invariant() -> bool {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |name: &str| flags.split(' ').any(|flag| flag == name);
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = std::fs::read_to_string(source).unwrap_or_default();
    // kvm-clock is computed from the same counter.
    let trusted = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"].contains(&source.trim());
    cfg!(target_arch = "x86_64") && has("constant_tsc") && has("nonstop_tsc") && trusted
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "reading the time-stamp counter is an intrinsic")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_agrees_with_the_system() {
        use crate::host::machine::uptime;
        let clock = HostClock::best();
        // Between two readings of the system's, because a busy machine may stand still between any two.
        let read = || (uptime(), clock.now(), uptime());
        let (before_begin, begin, after_begin) = read();
        std::thread::sleep(Duration::from_millis(50));
        let (before_end, end, after_end) = read();
        let ns = (end - begin) as f64;
        let least = (before_end - after_begin).as_nanos() as f64;
        let most = (after_end - before_begin).as_nanos() as f64;
        assert!(ns > 0.99 * least && ns < 1.01 * most, "{ns} ns is not from {least} to {most}");
    }
}
