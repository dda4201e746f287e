//! Breaks down the cost of one op on the null store by running the engine's loop with one more component at a time.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use super::null_loop::NullLoop;
use super::ops::PlannedOp;
use super::order::williams;
use super::workers::clock::{Clock, HostClock};
use super::workers::consumer::Consumer;
use super::workers::tally::Tally;
use super::workers::worker::{ENOUGH_NS, OpSource, WorkerSessions, bands, work};
use crate::plan::Order;

/// Blobs of the null store, and ops of one pass: more keys than the processor's nearest caches hold. The figures of a debug build are of no
/// use, and its passes take ten times as long.
const BLOBS: u64 = if cfg!(debug_assertions) { 10_000 } else { 100_000 };
/// Passes of one measurement; the fastest counts, because an interruption only ever adds.
pub const PASSES: usize = 3;
/// A configuration of the loop. Each stage adds one component to the one before it.
#[derive(Clone, Copy)]
struct Stage {
    adds: &'static str,
    /// Bytes of a blob, by its id.
    blob_bytes: fn(u64) -> u64,
    order: Order,
    clock: bool,
    service: bool,
    response: bool,
}

const LOOP: Stage = Stage {
    adds: "the loop and the null store, without what follows",
    blob_bytes: |_| 0,
    order: Order::Sequential,
    clock: false,
    service: false,
    response: false,
};
const CLOCK: Stage = Stage { adds: "two clock readings", clock: true, ..LOOP };
const ORDER: Stage =
    Stage { adds: "keys in uniform order over 100,000 blobs", order: Order::Uniform, ..CLOCK };
const TOUCH: Stage = Stage { adds: "touch of the bytes: 1 cache line", blob_bytes: |_| 64, ..ORDER };
const SERVICE: Stage = Stage { adds: "service histogram", service: true, ..TOUCH };
const RESPONSE: Stage = Stage { adds: "response histogram", response: true, ..SERVICE };
const MORE: Stage = Stage { adds: "touch of 15 more cache lines", blob_bytes: |_| 992, ..RESPONSE };
/// As many cache lines as in `MORE`, with half the blobs on either side of the boundary between two size bands (1,000 B).
const BANDS: Stage = Stage {
    adds: "blobs of two size bands in random order",
    blob_bytes: |id| if id.is_multiple_of(2) { 992 } else { 1008 },
    ..MORE
};

/// The stages up to [`WHOLE`] are the parts of an op; the later ones show what larger and more varied blobs add.
const STAGES: [Stage; 8] = [LOOP, CLOCK, ORDER, TOUCH, SERVICE, RESPONSE, MORE, BANDS];

/// Index of the stage that has every component of an op in a run.
const WHOLE: usize = 5;

/// A clock that always reads 0, at no cost.
struct FrozenClock;

impl Clock for FrozenClock {
    #[inline]
    fn now(&self) -> u64 {
        0
    }

    fn sleep_until(&self, _moment: u64) {}
}

/// The cost of one part, by round.
#[derive(Clone, Debug)]
pub struct PartCost {
    /// Name of the component.
    pub name: &'static str,
    /// Nanoseconds per op, by round.
    pub ns: Vec<f64>,
}

/// The cost of a null op, by part.
#[derive(Clone, Debug)]
pub struct NullOpCost {
    /// The parts, which add up to `whole` in every round.
    pub parts: Vec<PartCost>,
    /// All parts together.
    pub whole: PartCost,
    /// Extra cost of larger and more varied blobs, on top of `whole`.
    pub beyond: Vec<PartCost>,
}

struct ReadyStage {
    null_loop: NullLoop,
    list: Vec<PlannedOp>,
}

/// Measures every stage once a round, in balanced order, and calls `each` with the number of every round. Ends early if `stop` is
/// set.
pub fn measure(clock: &HostClock, rounds: u32, stop: &AtomicBool, each: &dyn Fn(u32)) -> Result<NullOpCost> {
    let benches: Vec<ReadyStage> = STAGES
        .iter()
        .map(|stage| {
            let null_loop = NullLoop::with_sizes(BLOBS, stage.blob_bytes)?;
            let list = null_loop.gets(stage.order);
            Ok(ReadyStage { null_loop, list })
        })
        .collect::<Result<_>>()?;
    let mut measured: Vec<Vec<f64>> = vec![Vec::new(); STAGES.len()];
    for round in 1..=rounds {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        each(round);
        for stage in williams(STAGES.len(), round, 1) {
            measured[stage].push(benches[stage].ns_per_op(clock, &STAGES[stage], stop)?);
        }
    }
    Ok(differences(&measured))
}

impl ReadyStage {
    fn ns_per_op(&self, clock: &HostClock, stage: &Stage, stop: &AtomicBool) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..PASSES {
            let begin = clock.now();
            let ops = if stage.clock {
                self.pass(clock, stage, stop)
            } else {
                self.pass(&FrozenClock, stage, stop)
            }?;
            best = best.min((clock.now() - begin) as f64 / ops.max(1) as f64);
        }
        Ok(best)
    }

    fn pass<C: Clock>(&self, clock: &C, stage: &Stage, stop: &AtomicBool) -> Result<u64> {
        let bands = bands(std::slice::from_ref(&self.list), 1);
        let tally = Tally::new(bands, false).keep(stage.service, stage.response);
        let shared = self.null_loop.context(clock, stop);
        let mut sessions = WorkerSessions::open(shared.store, None)?;
        let source = OpSource::Own { list: &self.list, passes: 1, nanoseconds: 0, enough_ns: ENOUGH_NS };
        Ok(work(&shared, &source, &mut sessions, tally, Consumer::Touch, clock.now())?.ops)
    }
}

/// Subtracts from each stage the one before it, round by round.
fn differences(measured: &[Vec<f64>]) -> NullOpCost {
    let part = |stage: usize| {
        let ns = match stage.checked_sub(1) {
            Some(before) => {
                measured[stage].iter().zip(&measured[before]).map(|(now, then)| now - then).collect()
            }
            None => measured[stage].clone(),
        };
        PartCost { name: STAGES[stage].adds, ns }
    };
    NullOpCost {
        parts: (0..=WHOLE).map(part).collect(),
        whole: PartCost { name: "the whole op", ns: measured[WHOLE].clone() },
        beyond: (WHOLE + 1..STAGES.len()).map(part).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole_in_every_round() {
        let measured: Vec<Vec<f64>> = (0..STAGES.len())
            .map(|stage| vec![10.0 * stage as f64 + 1.0, 7.0 * stage as f64 + 3.0])
            .collect();
        let parts = differences(&measured);
        for round in 0..2 {
            let sum: f64 = parts.parts.iter().map(|part| part.ns[round]).sum();
            assert!((sum - parts.whole.ns[round]).abs() < 1e-9);
        }
        assert_eq!(parts.beyond.len(), STAGES.len() - 1 - WHOLE);
    }

    #[test]
    fn every_stage_does_all_ops_without_an_error() {
        let stop = AtomicBool::new(false);
        let parts = measure(&HostClock::best(), 1, &stop, &|_| {}).unwrap();
        assert!(parts.whole.ns[0] > 0.0 && parts.parts[0].ns[0] > 0.0);
    }
}
