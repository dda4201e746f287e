//! Reads of a store that does not fit into its memory. It is read until the device reads per op are stable, and only then
//! measured.

use anyhow::Result;

use super::super::candidate_run::{CandidateRun, PhaseRun};
use super::super::ops::{OpDistribution, derived_seed, lists};
use super::super::workers::pool::Job;
use super::{Forecast, LengthInputs, Work, WorkKind, ops};
use crate::host::machine;
use crate::plan::{CacheState, MemorySize, Order, Phase, StandardPhase, Workload};
use crate::result::FixedLength;
use crate::rules::{SHORT_OPS, STILL_WITHIN, TIGHT_FILL_SECONDS_MAX, TIGHT_SHARE, TIGHT_WARM_SECONDS_MAX};

/// Minimum duration of a stretch of reads in seconds, unless it reads every blob once before. Device bytes per op are compared
/// from stretch to stretch.
const STRETCH_SECONDS: f64 = 0.2;
/// Number of parts of the list of reads. The phase may end after any of them if reads are slow.
const PARTS: u64 = 64;

const STANDARD: &[StandardPhase] = &[
    StandardPhase {
        id: "read-tight",
        about: "reads whole blobs, each draw as likely for every blob, with memory for a quarter of them; read before until reads of \
                the device stand still",
        phases: || vec![tight("read-tight", Order::Uniform, TIGHT_SHARE)],
    },
    StandardPhase {
        id: "read-tight-zipf",
        about: "the same where few blobs have most of the reads: zipfian, 0.99",
        phases: || vec![tight("read-tight-zipf", Order::Zipfian(0.99), TIGHT_SHARE)],
    },
];

/// Returns a phase of reads in this order, with memory for `share` of the corpus.
fn tight(id: &str, order: Order, share: f64) -> Phase {
    let load = Workload { order, ..ops::reads() };
    Phase { cache: CacheState::Still, memory: Some(MemorySize::OfCorpus(share)), ..Phase::of_ops(id, load) }
}

pub(super) const KIND: WorkKind = WorkKind { name: "tight", standard: STANDARD, work: &TightWork };

struct TightWork;

impl Work for TightWork {
    fn does(&self, phase: &Phase) -> bool {
        phase.cache == CacheState::Still
    }

    fn length(&self, asked: &LengthInputs<'_>, phase: &Phase) -> FixedLength {
        let Some(load) = phase.load() else { return FixedLength::default() };
        // Every list has at least as many draws as there are blobs, so that a phase does not repeat a few of them.
        let ops = asked.blobs.max(SHORT_OPS);
        let seconds = asked.choice.read_seconds;
        let by_pilot = FixedLength { ops, passes: PARTS.min(ops) as u32, seconds, ..FixedLength::default() };
        ops::length(asked, load, by_pilot)
    }

    fn seconds(&self, forecast: &Forecast<'_>) -> f64 {
        // Reading until the device reads are stable takes time in proportion to the blobs, up to the maximum.
        let beside = (forecast.wall - forecast.round.seconds).max(0.0) * forecast.growth.max(1.0);
        let beside = beside.min(TIGHT_WARM_SECONDS_MAX);
        let Some(load) = forecast.phase.load() else { return beside };
        beside + ops::seconds(&Forecast { wall: forecast.round.seconds, ..*forecast }, load)
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let Some(load) = phase.load() else { return Ok(None) };
        candidate_run.read_until_still(phase, load)?;
        candidate_run.load(phase, load)
    }
}

impl CandidateRun<'_> {
    /// Reads in the order of a phase until the memory is full and two consecutive stretches read equally much from the device, as
    /// closely as that many reads can tell.
    fn read_until_still(&mut self, phase: &Phase, load: &Workload) -> Result<()> {
        let (plan, length) = (self.plan(), self.length(phase)?);
        let workers = load.workers.unwrap_or(plan.workers);
        let begin = machine::uptime();
        let (mut before, mut held): (Option<f64>, u64) = (None, 0);
        for stretch in 0.. {
            let purpose = format!("{} stretch {stretch}", self.subject.corpus_id.key(&phase.id));
            let seed = derived_seed(plan.seed, self.slot.round, &purpose);
            let lists =
                lists(load, &self.state, length.ops, plan.batch_of(load), OpDistribution::Own(workers), seed);
            if lists.iter().all(Vec::is_empty) || self.run.stopped() {
                return Ok(());
            }
            let (store, class) = self.store()?;
            let fixed = FixedLength { seconds: 0.0, ..length };
            let enough_ns = (STRETCH_SECONDS * 1e9) as u64;
            let job = Job { enough_ns, ..self.job(load, lists, fixed, class) };
            let mut meters = [self.meter()];
            let tally = self.pool(store, workers).run(std::slice::from_ref(&job), &mut meters)?.remove(0);
            let [meter] = meters;
            let Some(device) = meter.used().device else { return Ok(()) };
            let now = device.read_bytes as f64 / tally.bytes.max(1) as f64;
            // Bound on the random variation of a share of this many draws: two standard errors.
            let scatter = 1.0 / (tally.ops.max(1) as f64).sqrt();
            let within = STILL_WITHIN.max(scatter) * now.max(1.0);
            let is_still = before.is_some_and(|before| (now - before).abs() <= within);
            let seconds = (machine::uptime() - begin).as_secs_f64();
            let is_full = self.is_full(&mut held) || seconds >= TIGHT_FILL_SECONDS_MAX;
            if is_full && (is_still || seconds >= TIGHT_WARM_SECONDS_MAX) {
                return Ok(());
            }
            before = Some(now);
        }
        Ok(())
    }
}
