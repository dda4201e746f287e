//! The requests of a log as ops. Each is made when a worker takes it: a list of ops would take more memory than the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::super::ops::PlannedOp;
use super::pace::ProcessShare;
use crate::judge::histogram::{BANDS, band_of};
use crate::plan::OpKind;
use crate::trace::{Op, Replay, ReplayStep};

/// The first requests of a log, for all workers of a phase; or all of them, again and again.
#[derive(Debug)]
pub struct LogOps {
    log: Arc<Replay>,
    /// Number of requests; more than the log has if it is repeated.
    count: usize,
    /// Microseconds from the first request to that of the next repetition, which follows the last one at the mean distance.
    period_us: f64,
    /// Generation of each blob before the first request.
    generations: Vec<u32>,
    /// Nanoseconds of the phase in a microsecond of the log; `None` for a closed loop.
    pace: Option<f64>,
    /// The next request of this process, if any worker of it may take it.
    next: AtomicUsize,
    /// True if all requests of an object go to one worker, in order: some write, and none may overtake a write.
    by_object: bool,
    is_mixed: bool,
    /// The process whose share of the requests is done here.
    part: ProcessShare,
}

/// How the requests of a log are done, for another process that has the log as well. The pace is sent as bits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SentLog {
    count: usize,
    /// Empty for a log that only reads.
    generations: Vec<u32>,
    pace_bits: Option<u64>,
    by_object: bool,
    index: usize,
    of: usize,
}

impl LogOps {
    /// Plans the first `count` requests for this many workers, at `speed` times the rate of the log, or in a closed loop.
    pub fn new(
        log: &Arc<Replay>,
        count: usize,
        generations: Vec<u32>,
        speed: Option<f64>,
        workers: usize,
    ) -> LogOps {
        let (requests, last_us) = (log.steps().len(), log.seconds() * 1e6);
        let kinds = [Op::Get, Op::Range, Op::Put, Op::Delete].iter().filter(|op| log.has(**op)).count();
        LogOps {
            log: Arc::clone(log),
            count: count.min(requests),
            period_us: last_us * (1.0 + 1.0 / requests.saturating_sub(1).max(1) as f64),
            generations,
            pace: speed.map(|speed| 1000.0 / speed),
            next: AtomicUsize::new(0),
            by_object: workers > 1 && (log.has(Op::Put) || log.has(Op::Delete)),
            is_mixed: kinds > 1,
            part: ProcessShare::WHOLE,
        }
    }

    /// Returns the share of one process, at its own times: every n-th request, or those of every n-th object if some write.
    pub fn of_part(&self, part: ProcessShare) -> Arc<LogOps> {
        let by_object = self.by_object || (part.of > 1 && self.writes());
        let sent = SentLog { by_object, index: part.index, of: part.of, ..self.sent() };
        LogOps::received(&self.log, sent)
    }

    /// Describes these requests for another process.
    pub fn sent(&self) -> SentLog {
        SentLog {
            count: self.count,
            generations: if self.writes() { self.generations.clone() } else { Vec::new() },
            pace_bits: self.pace.map(f64::to_bits),
            by_object: self.by_object,
            index: self.part.index,
            of: self.part.of,
        }
    }

    /// Plans the requests that another process has described, of the same log.
    pub fn received(log: &Arc<Replay>, sent: SentLog) -> Arc<LogOps> {
        Arc::new(LogOps {
            count: sent.count,
            pace: sent.pace_bits.map(f64::from_bits),
            by_object: sent.by_object,
            part: ProcessShare { index: sent.index, of: sent.of },
            ..LogOps::new(log, 0, sent.generations, None, 1)
        })
    }

    /// Plans as many of the first requests of a log that only reads as take `seconds` at a mean rate. A shorter log is repeated: a
    /// store that is too slow would be done with a short one before anybody has waited for long.
    pub fn at_rate(log: &Arc<Replay>, ops_per_s: f64, seconds: f64, workers: usize) -> LogOps {
        let count = ((ops_per_s * seconds).ceil() as usize).max(1);
        let mut ops = LogOps { count, ..LogOps::new(log, 0, Vec::new(), None, workers) };
        let last_us = ops.at_us(count - 1).max(1.0);
        ops.pace = Some(count as f64 / ops_per_s * 1e9 / last_us);
        ops
    }

    /// True for an open loop.
    pub fn is_open(&self) -> bool {
        self.pace.is_some()
    }

    /// True if some of the requests put or delete.
    pub fn writes(&self) -> bool {
        self.log.has(Op::Put) || self.log.has(Op::Delete)
    }

    /// True if ops are of several kinds.
    pub fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// Nanoseconds from the start until the last request is due, be it that of another process; 0 in a closed loop.
    pub fn planned_ns(&self) -> u64 {
        self.count.checked_sub(1).and_then(|last| self.due(last)).unwrap_or(0)
    }

    /// Size bands that ops fall into.
    pub fn bands(&self) -> [bool; BANDS.len()] {
        let mut bands = [false; BANDS.len()];
        let steps = self.log.steps().iter().take(self.count);
        steps.for_each(|step| bands[band_of(u64::from(step.bytes()))] = true);
        bands
    }

    /// Returns every op, those of other processes included, in the order of the log.
    pub fn all(&self) -> impl Iterator<Item = PlannedOp> {
        (0..self.count).map(|place| self.op(place))
    }

    /// Returns the place of the next request that a worker may take. `at` is where the worker is in the log.
    #[inline]
    pub(super) fn take(&self, at: &mut usize, (worker, workers): (usize, usize)) -> Option<usize> {
        if !self.by_object {
            let place = self.next.fetch_add(1, Ordering::Relaxed) * self.part.of + self.part.index;
            return (place < self.count).then_some(place);
        }
        let (hand, hands) = (self.part.index * workers + worker, self.part.of * workers);
        let place = (*at..self.count).find(|place| self.step(*place).object() as usize % hands == hand)?;
        *at = place + 1;
        Some(place)
    }

    /// Returns when a request is due, in nanoseconds since the phase began; `None` for at once.
    #[inline]
    pub(super) fn due(&self, place: usize) -> Option<u64> {
        self.pace.map(|pace| (self.at_us(place) * pace) as u64)
    }

    /// Time of a request since the first one, in microseconds of the log.
    #[inline]
    fn at_us(&self, place: usize) -> f64 {
        let requests = self.log.steps().len();
        let before = if place < requests { 0.0 } else { (place / requests) as f64 * self.period_us };
        before + self.step(place).at_us() as f64
    }

    #[inline]
    fn step(&self, place: usize) -> &ReplayStep {
        let steps = self.log.steps();
        if place < steps.len() { &steps[place] } else { &steps[place % steps.len()] }
    }

    /// Returns a request as an op. A log does not tell where a part begins, so each has a place of its own.
    #[inline]
    pub(super) fn op(&self, place: usize) -> PlannedOp {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let step = self.step(place);
        let (blob, len) = (step.object(), step.bytes());
        let (kind, generation, offset) = match step.op() {
            Op::Range => {
                let choices = self.log.sizes()[blob as usize] - u64::from(len) + 1;
                (OpKind::Range, 0, (((place as u64).wrapping_mul(ODD) >> 8) % choices) as u32)
            }
            Op::Put => (OpKind::Put, self.generations[blob as usize].wrapping_add(step.write()), 0),
            Op::Delete => (OpKind::Delete, 0, 0),
            _ => (OpKind::Get, 0, 0),
        };
        PlannedOp { blob, kind, len, generation, offset }
    }
}

/// Name of a kind of op among the times of a phase.
pub(super) fn kind_name(kind: OpKind) -> &'static str {
    let op = match kind {
        OpKind::Range => Op::Range,
        OpKind::Put => Op::Put,
        OpKind::Delete => Op::Delete,
        _ => Op::Get,
    };
    op.name()
}

/// Reads a log of these lines, with all of its objects.
#[cfg(test)]
pub fn whole_log(lines: &str) -> Replay {
    use crate::trace::{LogFile, Selection};
    let dir = tempfile::tempdir_in(".").unwrap();
    std::fs::write(dir.path().join("log"), format!("time,op,key,bytes\n{lines}")).unwrap();
    let all = Selection {
        share: Some(1.0),
        objects_max: None,
        bytes_max: None,
        object_bytes_max: u64::MAX,
        salt: 1,
    };
    Replay::read(&LogFile::at(dir.path().join("log")), &all, None, &mut |_| {}).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 requests in two seconds: reads of 50 objects, or of 25 of them puts as well.
    fn log(writes: bool) -> Arc<Replay> {
        let mut text = String::new();
        for n in 0..1000_u64 {
            let key = n * n % 50;
            let op = if writes && n % 3 == 0 && key < 25 { "put" } else { "get" };
            text += &format!("{}.{:03},{op},{key},{}\n", 100 + n / 500, n % 500 * 2, 10 + key);
        }
        Arc::new(whole_log(&text))
    }

    fn taken(ops: &LogOps, workers: usize) -> Vec<Vec<usize>> {
        let of = |worker| {
            let mut at = 0;
            std::iter::from_fn(|| ops.take(&mut at, (worker, workers))).collect()
        };
        (0..workers).map(of).collect()
    }

    #[test]
    fn each_request_is_done_once_and_no_write_is_overtaken() {
        for (writes, workers) in [(false, 3), (true, 1), (true, 3), (true, 8)] {
            let log = log(writes);
            let ops = LogOps::new(&log, 900, vec![0; 50], Some(1.0), workers);
            let lists = taken(&ops, workers);
            let mut all = lists.concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..900), "{writes} {workers}");
            let mut owner = vec![None; 50];
            for (worker, list) in lists.iter().enumerate().filter(|_| writes) {
                assert!(list.is_sorted());
                for place in list {
                    let blob = ops.op(*place).blob as usize;
                    assert_eq!(*owner[blob].get_or_insert(worker), worker, "{blob}");
                }
            }
        }
    }

    #[test]
    fn several_processes_do_each_request_once_and_what_is_written_is_of_one() {
        for (writes, of, workers) in [(false, 2, 1), (false, 3, 2), (true, 4, 1), (true, 2, 3)] {
            let log = log(writes);
            let all = LogOps::new(&log, 900, vec![7; 50], Some(1.0), workers);
            let mut places = Vec::new();
            let mut owner = vec![None; 50];
            for index in 0..of {
                // As it arrives at another process.
                let sent = all.of_part(ProcessShare { index, of }).sent();
                let text = serde_json::to_string(&sent).unwrap();
                let part = LogOps::received(&log, serde_json::from_str(&text).unwrap());
                // However early its own last request is due.
                assert_eq!(part.planned_ns(), all.due(899).unwrap());
                for place in taken(&part, workers).concat() {
                    assert_eq!((part.op(place), part.due(place)), (all.op(place), all.due(place)));
                    // A hot object that is only read must not wait for one worker while others are idle.
                    let owner = match writes {
                        true => *owner[part.op(place).blob as usize].get_or_insert(index),
                        false => place % of,
                    };
                    assert_eq!(owner, index);
                    places.push(place);
                }
            }
            places.sort_unstable();
            assert!(places.into_iter().eq(0..900), "{writes} {of} {workers}");
        }
        // Again and again, as a rate has it.
        let log = log(false);
        let all = LogOps::at_rate(&log, 1e6, 0.01, 1);
        let parts = (0..2).map(|index| taken(&all.of_part(ProcessShare { index, of: 2 }), 1).concat().len());
        assert_eq!(parts.sum::<usize>(), 10_000);
    }

    #[test]
    fn requests_are_due_when_the_log_says_at_each_speed() {
        let log = log(false);
        for (speed, factor) in [(1.0, 1.0), (10.0, 0.1), (0.5, 2.0)] {
            let ops = LogOps::new(&log, 1000, vec![0; 50], Some(speed), 1);
            for place in 0..1000 {
                let (is, should) = (ops.due(place).unwrap() as f64, place as f64 * 2e6 * factor);
                assert!((is - should).abs() < 3000.0, "{place} at {speed}: {is} instead of {should}");
            }
        }
        assert_eq!(LogOps::new(&log, 1000, vec![0; 50], None, 1).due(7), None);
    }

    #[test]
    fn a_rate_has_as_many_requests_as_its_time_and_keeps_their_gaps() {
        let log = log(false);
        for (ops_per_s, seconds, expected) in [(1000.0, 0.5, 500), (100.0, 2.0, 200), (1e6, 0.01, 10_000)] {
            let ops = LogOps::at_rate(&log, ops_per_s, seconds, 1);
            assert_eq!(ops.all().count(), expected);
            let last = ops.due(expected - 1).unwrap() as f64 / 1e9;
            assert!((expected as f64 / last / ops_per_s - 1.0).abs() < 0.01, "{last}");
        }
        // A log of a thousand requests that is too short for a rate begins again, as long after its end as requests are apart.
        let ops = LogOps::at_rate(&log, 1e6, 0.01, 2);
        assert_eq!(taken(&ops, 2).concat().len(), 10_000);
        let due = |place| ops.due(place).unwrap();
        for place in [999, 1_000, 9_000] {
            assert_eq!(ops.op(place), PlannedOp { offset: ops.op(place).offset, ..ops.op(place % 1_000) });
            let gap = due(place) - due(place - 1);
            assert!((999..=1_002).contains(&gap), "{place}: {gap} ns");
        }
    }

    #[test]
    fn puts_have_the_generation_that_follows() {
        let log = log(true);
        let ops = LogOps::new(&log, 1000, vec![7; 50], None, 1);
        let mut generations = [7; 50];
        for op in ops.all().filter(|op| op.kind == OpKind::Put) {
            generations[op.blob as usize] += 1;
            assert_eq!(op.generation, generations[op.blob as usize]);
        }
        assert!(ops.is_mixed() && generations.iter().any(|generation| *generation > 8));
    }
}
