//! The pace of ops: back to back in a closed loop, at planned instants in an open one.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::plan::Arrivals;

/// The share of one process in work that several processes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessShare {
    /// Index of the process, from 0.
    pub index: usize,
    /// Number of processes.
    pub of: usize,
}

impl ProcessShare {
    /// All of the work, for a single process.
    pub const WHOLE: ProcessShare = ProcessShare { index: 0, of: 1 };
}

/// The planned instants of an open loop, the same for every store of a round. Each of several processes gets every n-th instant
/// and also draws those of the others, so that together they have the schedule of one.
#[derive(Debug)]
pub struct Schedule {
    part: ProcessShare,
    /// Index of the next instant in the whole schedule.
    place: usize,
    arrivals: Arrivals,
    random: SmallRng,
    /// Mean nanoseconds between two ops.
    gap_ns: f64,
    /// The next instant, in nanoseconds since the phase began.
    next_ns: f64,
    /// Time after which no op is due, in nanoseconds since the phase began.
    end_ns: f64,
    left: u64,
}

impl Schedule {
    /// Restricts the schedule to the instants of one process.
    pub fn of_part(mut self, part: ProcessShare) -> Schedule {
        self.part = part;
        for _ in 0..part.index {
            self.draw();
        }
        self
    }

    /// Returns the index of the next instant in the whole schedule, and the instant in nanoseconds since the phase began.
    pub fn next_op(&mut self) -> Option<(usize, u64)> {
        let next = self.draw();
        for _ in 1..self.part.of {
            self.draw();
        }
        next
    }

    /// Draws the next instant of the whole schedule, with its index.
    fn draw(&mut self) -> Option<(usize, u64)> {
        if self.next_ns > self.end_ns || self.left == 0 {
            return None;
        }
        self.left -= 1;
        let (due, place) = (self.next_ns, self.place);
        self.place += 1;
        self.next_ns += self.gap();
        Some((place, due as u64))
    }

    /// Plans `ops_per_s` from the start of a phase for `seconds`, but at most `ops_max` ops.
    pub fn new(arrivals: Arrivals, ops_per_s: f64, seconds: f64, ops_max: u64, seed: u64) -> Schedule {
        let gap_ns = 1e9 / ops_per_s;
        let mut schedule = Schedule {
            part: ProcessShare::WHOLE,
            place: 0,
            arrivals,
            random: SmallRng::seed_from_u64(seed),
            gap_ns,
            next_ns: 0.0,
            end_ns: seconds * 1e9,
            left: ops_max,
        };
        schedule.next_ns = schedule.gap();
        schedule
    }

    fn gap(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Constant => self.gap_ns,
            Arrivals::Poisson => {
                // 1 - u is in (0, 1], so that its logarithm is finite.
                let uniform: f64 = self.random.random();
                -(1.0 - uniform).ln() * self.gap_ns
            }
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    /// Returns the next instant, in nanoseconds since the phase began.
    fn next(&mut self) -> Option<u64> {
        self.next_op().map(|(_, due)| due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_the_asked_rate_also_below_one_a_second() {
        for (rate, seconds) in [(1000.0, 100.0), (0.5, 100_000.0)] {
            for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
                let count = Schedule::new(arrivals, rate, seconds, u64::MAX, 1).count() as f64;
                let ratio = count / (rate * seconds);
                assert!((0.98..1.02).contains(&ratio), "{arrivals:?} {rate} {ratio}");
            }
        }
    }

    #[test]
    fn parts_are_together_the_whole_schedule_and_none_has_an_instant_of_another() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            for (seconds, ops_max) in [(1.0, u64::MAX), (f64::INFINITY, 1001)] {
                let schedule = || Schedule::new(arrivals, 997.0, seconds, ops_max, 7);
                let all = |mut schedule: Schedule| {
                    std::iter::from_fn(move || schedule.next_op()).collect::<Vec<(usize, u64)>>()
                };
                let whole = all(schedule());
                assert!(whole.iter().map(|(place, _)| *place).eq(0..whole.len()));
                for of in [1, 2, 4, 7] {
                    let mut parts: Vec<(usize, u64)> = (0..of)
                        .flat_map(|index| all(schedule().of_part(ProcessShare { index, of })))
                        .collect();
                    parts.sort_unstable();
                    assert_eq!(parts, whole, "{arrivals:?} in {of} parts");
                }
            }
        }
    }

    #[test]
    fn poisson_gaps_vary_as_much_as_their_mean() {
        let instants: Vec<u64> = Schedule::new(Arrivals::Poisson, 1000.0, 100.0, u64::MAX, 1).collect();
        let gaps: Vec<f64> = instants.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let sd = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((0.97..1.03).contains(&(sd / mean)), "{}", sd / mean);
    }
}
