//! Cold reads, in several passes over a few keys each. The store is closed, evicted and opened before every pass, so that no pass
//! reads what an earlier one brought into a cache. A phase that repeats a cold one runs together with it: it reads the keys of
//! each pass again at once, in the same sessions.

use anyhow::Result;

use super::super::candidate_run::{CandidateRun, PhaseOutcome, PhaseRun};
use super::super::ops::{OpDistribution, PlannedOp, in_turn, lists};
use super::super::resources::Meter;
use super::super::workers::pool::Job;
use super::super::workers::tally::Tally;
use super::{Forecast, LengthInputs, Work, WorkKind, ops};
use crate::host::machine;
use crate::plan::{
    COLD_PASSES_SERVERS, CacheState, Candidate, Length, OPS, OpKind, Phase, StandardPhase, Workload,
};
use crate::result::{CacheProof, FixedLength};
use crate::store::Durability;

/// Passes of a cold phase for a candidate that is never cold.
const COLD_PASSES_RESIDENT: u32 = 2;
/// Share of all keys to read between two evictions. A larger share would read pages that earlier reads of the same pass brought
/// in.
const COLD_SHARE: f64 = 0.02;
/// Minimum number of passes of a cold phase, so that its proof has ten parts.
const COLD_PASSES_MIN: u64 = 10;
/// Passes of cold phases in the pilot, and ops in each of them.
const PILOT_PASSES: u32 = 3;
const PILOT_OPS_A_PASS: u64 = 8;

const STANDARD: &[StandardPhase] = &[StandardPhase {
    id: "read-cold",
    about: "reads a sample of whole blobs after the store was closed, evicted from all caches and opened",
    phases: || {
        let reads = Phase::of_ops("read-cold", Workload::new(OpKind::Get, Length::Pilot));
        vec![Phase { cache: CacheState::Cold, ..reads }]
    },
}];

pub(super) const KIND: WorkKind = WorkKind { name: "cold", standard: STANDARD, work: &ColdWork };

struct ColdWork;

impl Work for ColdWork {
    fn does(&self, phase: &Phase) -> bool {
        phase.kind == OPS && phase.cache == CacheState::Cold
    }

    fn length(&self, asked: &LengthInputs<'_>, phase: &Phase) -> FixedLength {
        let (plan, blobs) = (asked.plan, asked.blobs);
        let Some(load) = phase.load() else { return FixedLength::default() };
        let batch = plan.batch_of(load) as u64;
        let by_pilot = FixedLength { ops: asked.choice.cold_ops.max(1).min(blobs), ..FixedLength::default() };
        let FixedLength { ops, seconds, .. } = ops::length(asked, load, by_pilot);
        let each = ((blobs as f64 * COLD_SHARE) as u64).max(1).next_multiple_of(batch);
        let candidates = || plan.candidates.iter().filter(|candidate| plan.is_done_by(&phase.id, candidate));
        let servers = candidates().any(Candidate::restarts);
        let others = candidates()
            .any(|candidate| candidate.can_be_cold() && !candidate.restarts() && !candidate.is_baseline());
        let passes = cold_passes(ops, each, servers, others);
        let ops = ops.min(passes * each);
        FixedLength {
            ops,
            seconds,
            cold_passes: passes.min(ops.div_ceil(batch)) as u32,
            ..FixedLength::default()
        }
    }

    fn pilot_length(&self, planned: FixedLength) -> FixedLength {
        let cold_passes = planned.cold_passes.min(PILOT_PASSES);
        let ops = planned.ops.min(PILOT_OPS_A_PASS * u64::from(cold_passes));
        FixedLength { ops, cold_passes, ..planned }
    }

    fn seconds(&self, forecast: &Forecast<'_>) -> f64 {
        let pilot = forecast.pilot;
        let per_pass = pilot.outcome.pass_seconds.get(&forecast.phase.id).copied().unwrap_or(forecast.wall);
        // A pass has about as many keys as one of the pilot's.
        per_pass * f64::from(pilot.candidate.cold_passes(forecast.length.cold_passes))
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, repeat: Option<&Phase>) -> PhaseRun {
        let Some(load) = phase.load() else { return Ok(None) };
        candidate_run.cold(phase, load, repeat)
    }
}

/// Returns the number of passes of a cold phase of `ops` ops, with `each` of them per pass. A server restarts for every pass. If
/// the few passes that servers can do are enough for all ops, all candidates do that few and can be compared. Otherwise only
/// servers do, and are not ranked.
fn cold_passes(ops: u64, each: u64, servers: bool, others: bool) -> u64 {
    let passes = ops.div_ceil(each).max(COLD_PASSES_MIN);
    let few = u64::from(COLD_PASSES_SERVERS);
    if servers && (few * each >= ops || !others) { passes.min(few) } else { passes }
}

impl<'v> CandidateRun<'v> {
    fn cold(&mut self, phase: &Phase, load: &Workload, repeat: Option<&Phase>) -> PhaseRun {
        let (plan, length, seed) = (self.plan(), self.length(phase)?, self.seed(phase, load));
        let workers = load.workers.unwrap_or(plan.workers);
        let batch = plan.batch_of(load);
        let mut all = lists(load, &self.state, length.ops, batch, OpDistribution::Own(1), seed).remove(0);
        if all.is_empty() {
            return Ok(Some(PhaseOutcome::NotPossible(
                "the store holds nothing that this phase could use".to_owned(),
            )));
        }
        let each = self.ops_of_a_pass(&mut all, length.cold_passes, batch);
        let passes = all.len().div_ceil(each);
        let class = self.class(phase.class);
        let mut totals: Vec<PassTotals<'_>> = Vec::new();
        let mut proof =
            CacheProof { sample_share: each as f64 / self.reach().max(1) as f64, ..CacheProof::default() };
        let mut ratios = Vec::new();
        let mut begin = machine::uptime();
        for (index, ops) in all.chunks(each).enumerate() {
            if self.run.stopped() {
                return Ok(None);
            }
            self.evict(class, index == 0, &mut proof)?;
            let loads = std::iter::once(load).chain(repeat.and_then(Phase::load));
            let (tallies, meters) = self.pass(loads, ops, workers, length, class)?;
            if index == 0 {
                begin = machine::uptime();
            }
            ratios.push((meters[0].used().device.map(|device| device.read_bytes), tallies[0].bytes));
            for (which, (tally, meter)) in tallies.into_iter().zip(meters).enumerate() {
                let seconds = tally.seconds(workers);
                match totals.get_mut(which) {
                    Some(total) => total.add(tally, meter, seconds),
                    None => totals.push(PassTotals { tally, meter, seconds }),
                }
            }
        }
        let later = (ratios.len() - 1).max(1) as f64;
        self.outcome.pass_seconds.insert(phase.id.clone(), (machine::uptime() - begin).as_secs_f64() / later);
        proof.device_bytes_per_byte = tenths(&ratios);
        let blobs = all.len() as u64;
        let hot = self.hot(load, &[all], blobs);
        let mut rounds = Vec::new();
        for (which, total) in totals.into_iter().enumerate() {
            let mut round = self.new_round(seed);
            round.seconds = total.seconds;
            self.finish(&mut round, &total.tally, &total.meter)?;
            round.passes = passes as u64;
            round.hot = hot;
            round.cache_proof = (which == 0).then(|| proof.clone());
            rounds.push(PhaseOutcome::Measured(Box::new(round)));
        }
        self.warm = false;
        if let Some((repeat, round)) = repeat.zip(rounds.get(1).cloned()) {
            self.outcome.phases.insert(repeat.id.clone(), round);
        }
        Ok(rounds.into_iter().next())
    }

    fn pass<'l>(
        &self,
        loads: impl Iterator<Item = &'l Workload>,
        ops: &[PlannedOp],
        workers: usize,
        length: FixedLength,
        class: Durability,
    ) -> Result<(Vec<Tally>, Vec<Meter<'v>>)> {
        let jobs: Vec<Job> = loads
            .map(|load| {
                let fixed = FixedLength { seconds: 0.0, ..length };
                let lists = in_turn(ops.iter().copied(), self.plan().batch_of(load), workers);
                Job { first_apart: false, ..self.job(load, lists, fixed, class) }
            })
            .collect();
        let mut meters: Vec<Meter<'v>> = jobs.iter().map(|_| self.meter()).collect();
        let (store, _) = self.store()?;
        let mut pool = self.pool(store, workers);
        pool.missing_key = Some(self.subject.corpus.missing_key(0));
        let tallies = pool.run(&jobs, &mut meters)?;
        Ok((tallies, meters))
    }

    /// Returns the number of ops per pass, in whole batches. Drops ops if the candidate does fewer passes than planned.
    fn ops_of_a_pass(&self, all: &mut Vec<PlannedOp>, planned: u32, batch: usize) -> usize {
        let done = self.subject.candidate.cold_passes(planned);
        if done < planned {
            let each = all.len().div_ceil((planned.max(1) as usize).min(all.len() / batch));
            all.truncate((each * done as usize).next_multiple_of(batch));
        }
        // Does the same ops in fewer passes: eviction cannot undo what opening brings in, and opening is slow if it reads
        // everything.
        let most = if self.slot.resident { COLD_PASSES_RESIDENT } else { u32::MAX };
        let passes = (done.clamp(1, most) as usize).min(all.len() / batch);
        all.len().div_ceil(passes).next_multiple_of(batch)
    }
}

struct PassTotals<'a> {
    tally: Tally,
    meter: Meter<'a>,
    seconds: f64,
}

impl<'a> PassTotals<'a> {
    fn add(&mut self, tally: Tally, meter: Meter<'a>, seconds: f64) {
        self.tally.add(&tally);
        self.meter.add(&meter);
        self.seconds += seconds;
    }
}

/// Returns the device bytes read per byte delivered, for each tenth of the passes that delivered any.
fn tenths(passes: &[(Option<u64>, u64)]) -> Vec<f64> {
    let Some(read) = passes.iter().map(|(read, _)| *read).collect::<Option<Vec<u64>>>() else {
        return Vec::new();
    };
    let delivered: Vec<u64> = passes.iter().map(|(_, bytes)| *bytes).collect();
    let count = passes.len().min(10);
    (0..count)
        .filter_map(|tenth| {
            let range = passes.len() * tenth / count..passes.len() * (tenth + 1) / count;
            let read: u64 = read[range.clone()].iter().sum();
            let delivered: u64 = delivered[range].iter().sum();
            (delivered > 0).then(|| read as f64 / delivered as f64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::COLD_BLOBS_SERVERS;

    #[test]
    fn a_server_restarts_for_few_passes_and_takes_no_rank_from_others() {
        // Two per cent of 400 blobs, then of 10,000.
        assert_eq!(cold_passes(200, 8, false, true), 25);
        assert_eq!(cold_passes(200, 8, true, true), 25);
        assert_eq!(cold_passes(200, 8, true, false), 2);
        assert_eq!(cold_passes(200, 200, true, true), 2);
        let of_enough = (COLD_BLOBS_SERVERS as f64 * COLD_SHARE) as u64;
        assert_eq!(
            (cold_passes(200, of_enough, true, true), cold_passes(200, of_enough - 1, true, true)),
            (2, 10)
        );
        assert_eq!(cold_passes(200, 200, false, true), 10);
    }
}
