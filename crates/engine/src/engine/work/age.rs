//! Ageing: replaces blobs by others of new contents and sizes until a multiple of the live bytes has been replaced since the fill;
//! reads follow each step.

use std::cell::Cell;
use std::fs::File;
use std::path::Path;

use anyhow::Result;

use super::super::candidate_run::{CandidateRun, PhaseOutcome, PhaseRun};
use super::super::ops::{ageing, by_blob, derived_seed};
use super::super::workers::pool::Job;
use super::{Forecast, Work, WorkKind, ops};
use crate::host::disk::fragments;
use crate::plan::{CustomAction, OpKind, Phase, StandardPhase};
use crate::result::Round;
use crate::store::Durability;

const NAME: &str = "age";
const STANDARD: &[StandardPhase] = &[StandardPhase {
    id: NAME,
    about: "replaces 1, 2 and 4 times the live bytes by blobs of new sizes, as `age_by` says; reads after each",
    phases: || [1.0, 2.0, 4.0].into_iter().flat_map(aged).collect(),
}];

/// Returns a phase of ageing up to `times` the live bytes, and the reads after it.
fn aged(times: f64) -> Vec<Phase> {
    let action =
        CustomAction { writes: true, by_all: true, ages: true, amount: times, ..CustomAction::new("writes") };
    let mut phases = vec![Phase::custom(NAME, &format!("{NAME}-{times}"), action)];
    phases.extend(ops::warm(&format!("read-{NAME}-{times}"), ops::reads()));
    phases
}

pub(super) const KIND: WorkKind = WorkKind { name: NAME, standard: STANDARD, work: &AgeWork };

struct AgeWork;

impl Work for AgeWork {
    fn seconds(&self, forecast: &Forecast<'_>) -> f64 {
        forecast.wall * forecast.growth
    }

    /// Continues where earlier ageing ended, including the work that it deferred.
    fn catches_up(&self) -> bool {
        false
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let plan = candidate_run.plan();
        let times = phase.custom_action().map_or(0.0, |action| action.amount);
        let seed = |purpose: &str| derived_seed(plan.seed, candidate_run.slot.round, purpose);
        let (life_seed, seed) = (seed(NAME), seed(&phase.id));
        // What the steps before wrote too much or too little is made up for.
        let corpus = candidate_run.subject.corpus;
        let target = ((times * corpus.bytes() as f64) as u64).saturating_sub(candidate_run.aged_bytes);
        let ops = ageing(corpus, &candidate_run.state, target, plan.replacement, life_seed, seed);
        if ops.is_empty() {
            let why = "the store holds nothing that this phase could use";
            return Ok(Some(PhaseOutcome::NotPossible(why.to_owned())));
        }
        let bytes = |deletes: bool| -> u64 {
            let such = ops.iter().filter(|op| (op.kind == OpKind::Delete) == deletes);
            such.map(|op| u64::from(op.len)).sum()
        };
        candidate_run.aged_bytes += bytes(false);
        let store_class = candidate_run.store()?.1;
        let job = Job {
            connect: candidate_run.connects(false),
            sync: (store_class == Durability::OnSync).then_some(plan.sync),
            ..Job::once(by_blob(ops.clone(), plan.workers))
        };
        let mut meters = [candidate_run.meter()];
        let tally = {
            let (store, _) = candidate_run.store()?;
            candidate_run.pool(store, plan.workers).run(std::slice::from_ref(&job), &mut meters)?.remove(0)
        };
        ops.iter().for_each(|op| candidate_run.state.apply(op));
        candidate_run.warm = false;
        let mut round = candidate_run.new_round(seed);
        let [mut meter] = meters;
        candidate_run.settle(phase, &mut meter, &mut round)?;
        candidate_run.finish(&mut round, &tally, &meter)?;
        // The figures per byte are those per byte that was put.
        round.bytes = round.bytes.saturating_sub(bytes(true));
        candidate_run.note_space(&mut round)?;
        Ok(Some(PhaseOutcome::Measured(Box::new(round))))
    }
}

impl CandidateRun<'_> {
    /// Notes the disk space of the store, the bytes of the blobs that are there, and their fragments.
    pub(in crate::engine) fn note_space(&self, round: &mut Round) -> Result<()> {
        let blobs = self.state.live_blobs();
        let counted = Cell::new(self.has_countable_fragments().then_some(0));
        let count = |path: &Path| {
            let of_file = || fragments(&File::open(self.dir.join(path)).ok()?);
            counted.set(counted.get().and_then(|sum| Some(sum + of_file()?)));
        };
        if self.caps().persistent {
            let taken = self.bytes_taken_by_each(self.store()?.0, count)?;
            round.allocated_bytes = taken.map(|taken| taken.all);
        }
        round.live_bytes = Some(self.state.live_bytes());
        // Without any, there were no files to look at.
        let counted = counted.get().filter(|sum| *sum > 0 && blobs > 0);
        round.fragments_per_blob = counted.map(|sum| sum as f64 / blobs as f64);
        Ok(())
    }

    /// True if the store keeps each blob in a file below its directory, and does not grow: there may be millions then.
    fn has_countable_fragments(&self) -> bool {
        // A server may keep many blobs in a file, and has files of its own.
        // One that cannot change them may keep them in a file until it settles, and not longer.
        let caps = self.caps();
        let is_of_files = caps.inodes.each_blob == 1 && caps.changes;
        is_of_files && !self.subject.candidate.traits().has_process && self.plan().text.grow.is_none()
    }
}
