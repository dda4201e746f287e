//! The requests of a user's log: at its own times, faster or slower by a factor, or as fast as the store can.
//!
//! Before the first request the store is brought to where the log begins: blobs that it reads first are there, those that it puts
//! first are not. All rounds and candidates do the same requests in the same order.

use std::sync::Arc;

use anyhow::Result;

use super::super::candidate_run::phases::open_loop;
use super::super::candidate_run::{CandidateRun, PhaseOutcome, PhaseRun};
use super::super::ops::{LRU_OPS_MAX, PlannedOp, hottest};
use super::super::workers::log::LogOps;
use super::super::workers::pool::Job;
use super::{Forecast, LengthInputs, Work, WorkKind};
use crate::corpus::Corpus;
use crate::plan::{Phase, REPLAY, StandardPhase};
use crate::result::{FixedLength, Replayed};
use crate::store::{Capabilities, Durability};
use crate::trace::{Op, Replay};

const STANDARD: &[StandardPhase] = &[StandardPhase {
    id: "replay",
    about: "replays the requests of `--trace`, as fast as the store can, or at `--speed` times the rate of the log",
    phases: || vec![Phase::replay(REPLAY, f64::INFINITY)],
}];

/// Number of requests before round 1, where only their time is wanted: in a closed loop, whatever the speed.
const TRIED: usize = 2_000;

pub(super) const KIND: WorkKind = WorkKind { name: REPLAY, standard: STANDARD, work: &ReplayWork };

struct ReplayWork;

impl Work for ReplayWork {
    fn length(&self, asked: &LengthInputs<'_>, _phase: &Phase) -> FixedLength {
        let planned = asked.plan.corpora.iter().find(|corpus| corpus.corpus_id == asked.corpus_id);
        let requests = planned.map_or(0.0, |corpus| corpus.requests_per_blob) * asked.blobs as f64;
        FixedLength { ops: requests.round() as u64, ..FixedLength::default() }
    }

    fn seconds(&self, forecast: &Forecast<'_>) -> f64 {
        let round = forecast.round;
        let closed = round.seconds / round.ops.max(1) as f64 * forecast.length.ops as f64;
        let log_seconds = round.replayed.as_ref().map_or(0.0, |replayed| replayed.log_seconds);
        let open = forecast.phase.speed().map_or(0.0, |speed| log_seconds / speed);
        forecast.beside() + closed.max(open)
    }

    /// By what brings the store to where the log begins, and by the log, which may put an object many times.
    fn times_written(&self, corpus: &Corpus) -> f64 {
        1.0 + corpus.log.as_ref().map_or(0.0, |log| log.writes_per_object())
    }

    fn is_for_clients(&self, _phase: &Phase) -> bool {
        true
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let not_possible = |why: &str| Ok(Some(PhaseOutcome::NotPossible(why.to_owned())));
        let Some(log) = candidate_run.subject.corpus.log.clone() else {
            return not_possible("there is no log of these blobs");
        };
        if log.steps().is_empty() {
            return not_possible("no request of the log is of these blobs");
        }
        match why_not(&log, &candidate_run.caps()) {
            Some(why) => not_possible(why),
            None => candidate_run.replay(phase, &log),
        }
    }
}

impl CandidateRun<'_> {
    fn replay(&mut self, phase: &Phase, log: &Arc<Replay>) -> PhaseRun {
        self.begin_log(log)?;
        self.warm_up()?;
        let (workers, clients) = (self.plan().workers, self.plan().clients);
        let is_tried = self.slot.round == 0;
        let count = if is_tried { TRIED } else { usize::MAX };
        let speed = phase.speed().filter(|_| !is_tried);
        let writes = log.has(Op::Put) || log.has(Op::Delete);
        let ops = Arc::new(LogOps::new(log, count, self.state.generation.clone(), speed, workers));
        let job = Job {
            connect: self.connects(!writes),
            sync: (self.store()?.1 == Durability::OnSync).then_some(self.plan().sync),
            log: Some(Arc::clone(&ops)),
            ..Job::once(Vec::new())
        };
        self.begin_memory();
        let mut meters = [self.meter()];
        let (tally, of_clients) = {
            let (store, _) = self.store()?;
            self.by_all(self.pool(store, workers), &job, &mut meters)?
        };
        if self.run.stopped() {
            return Ok(None);
        }
        let mut round = self.new_round(self.plan().seed);
        let mut uses = vec![0; self.state.alive.len()];
        ops.all().for_each(|op| uses[op.blob as usize] += 1);
        round.hot = hottest(&uses, &self.state);
        // All requests of an object that some write are one client's. Clients with stores of their own all do the same.
        let sharing = if self.is_one_for_each_client() { 1 } else { clients };
        for op in ops.all().filter(|op| !op.kind.reads()) {
            self.state.apply_by(&op, (op.blob as usize % (workers * sharing) / workers) as u32);
        }
        round.clients = of_clients;
        round.seconds = tally.seconds(workers * clients);
        let [mut meter] = meters;
        if writes {
            self.warm = false;
            self.settle(phase, &mut meter, &mut round)?;
        }
        round.open = speed.map(|speed| open_loop(speed * log.ops_per_s(), &tally));
        let done_per_s = tally.counters.acknowledged(tally.ops) as f64 / round.seconds;
        round.replayed = Some(replayed(log, speed, done_per_s));
        self.finish(&mut round, &tally, &meter)?;
        if round.memory.is_some() {
            let list: Vec<PlannedOp> = ops.all().take(LRU_OPS_MAX + 1).collect();
            self.note_ideal_lru(phase, &[list], &mut round);
        }
        Ok(Some(PhaseOutcome::Measured(Box::new(round))))
    }

    /// Brings the store to where the log begins, with the sizes that the log shows.
    pub(super) fn begin_log(&mut self, log: &Replay) -> Result<()> {
        let mut wanted = self.state.clone();
        for (id, size) in self.subject.corpus.sizes.iter().enumerate() {
            wanted.alive[id] = !log.makes(id);
            if wanted.len[id] != *size {
                (wanted.len[id], wanted.generation[id]) = (*size, wanted.generation[id] + 1);
            }
        }
        let changes = self.state.changes_to(&wanted);
        self.warm &= changes.is_empty();
        self.change(changes)
    }
}

/// Returns why a store cannot replay a log; `None` if it can. What a log puts first was put by the fill, and has to be deleted before.
pub(super) fn why_not(log: &Replay, caps: &Capabilities) -> Option<&'static str> {
    if log.has(Op::Range) && !caps.range {
        return Some("no range reads, and the log has some");
    }
    let changes = log.has(Op::Put) || log.has(Op::Delete);
    (changes && !caps.changes).then_some("append-only, and the log puts or deletes blobs")
}

/// Returns what is replayed of a log, at an offered speed or in a closed loop, and how many times the mean rate of these requests
/// `ops_per_s` is.
pub(super) fn replayed(log: &Replay, speed: Option<f64>, ops_per_s: f64) -> Replayed {
    let (requests, log_seconds) = (log.steps().len() as u64, log.seconds());
    Replayed {
        requests,
        log_seconds,
        sampled_share: Some(log.share()).filter(|share| *share < 1.0),
        speed,
        reached: ops_per_s / log.ops_per_s(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::workers::log::whole_log;

    #[test]
    fn who_cannot_change_blobs_replays_no_log_that_does() {
        let reads = whole_log("1,get,a,10\n2,get,b,20\n");
        let changes = [whole_log("1,get,a,10\n2,delete,a,0\n"), whole_log("1,get,a,10\n2,put,b,20\n")];
        let archive = Capabilities { changes: false, ..Capabilities::ALL };
        assert_eq!((why_not(&reads, &archive), why_not(&reads, &Capabilities::ALL)), (None, None));
        for log in changes {
            assert!(why_not(&log, &archive).is_some_and(|why| why.starts_with("append-only")));
            assert_eq!(why_not(&log, &Capabilities::ALL), None);
        }
    }
}
