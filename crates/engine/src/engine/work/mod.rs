//! Kinds of work that phases consist of. Each is one file and one line in the table; no other module names one.

mod age;
mod cold;
mod crash;
mod disk;
mod operate;
mod ops;
mod pages;
mod purge;
mod ramp;
mod rejuvenate;
mod reopen;
mod replay;
mod tight;
mod uploads;

use std::collections::BTreeMap;

use anyhow::Result;

use super::candidate_run::{CandidateRun, PhaseRun, PilotOutcome};
use crate::corpus::{Corpus, CorpusId};
use crate::plan::{Candidate, Design, DesignCandidate, Phase, Plan, PlanText, StandardPhase};
use crate::result::{CandidateResult, FixedLength, Round};
use crate::store::Capabilities;

/// Every kind of work, in the order in which their phases are listed. If several match a phase, the last one does it.
static TABLE: &[&WorkKind] = &[
    &ops::KIND,
    &cold::KIND,
    &tight::KIND,
    &ramp::KIND,
    &purge::KIND,
    &reopen::KIND,
    &replay::KIND,
    &uploads::KIND,
    &pages::KIND,
    &age::KIND,
    &rejuvenate::KIND,
    &operate::KIND,
    &crash::KIND,
    &disk::KIND,
    #[cfg(test)]
    &toy::KIND,
];

/// Why an append-only store leaves a phase out.
pub(super) const APPEND_ONLY: &str = "append-only: it neither replaces nor deletes blobs";

struct WorkKind {
    name: &'static str,
    standard: &'static [StandardPhase],
    work: &'static dyn Work,
}

/// A kind of work. One that only does a load of ops needs no more than `run`.
pub(super) trait Work: Sync {
    /// True if it does a phase that refers to another kind.
    fn does(&self, _phase: &Phase) -> bool {
        false
    }

    /// Returns why a candidate cannot do a phase, apart from reasons that apply to every phase; `None` if it can.
    fn impossible(&self, applicant: &Applicant<'_>, phase: &Phase) -> Option<String> {
        ops::impossible(applicant.plan, &applicant.caps, phase.load()?)
    }

    /// True if several clients can do the phase together. Otherwise a run with several clients leaves it out.
    fn is_for_clients(&self, _phase: &Phase) -> bool {
        false
    }

    /// Returns the length of a phase, which is fixed before round 1 for all candidates.
    fn length(&self, asked: &LengthInputs<'_>, phase: &Phase) -> FixedLength {
        let by_pilot = |load| ops::length(asked, load, ops::by_pilot(asked, load));
        phase.load().map_or_else(FixedLength::default, by_pilot)
    }

    fn pilot_length(&self, planned: FixedLength) -> FixedLength {
        planned
    }

    /// Returns the first rate to offer, in ops per second, for all candidates; `None` unless the phase climbs a ladder of rates.
    fn first_ops_per_s(&self, _plan: &Plan, _closed_ops_per_s: &mut dyn Iterator<Item = f64>) -> Option<f64> {
        None
    }

    /// Estimates the duration of a phase of this length from the pilot, in seconds.
    fn seconds(&self, forecast: &Forecast<'_>) -> f64 {
        forecast.phase.load().map_or(forecast.wall, |load| ops::seconds(forecast, load))
    }

    /// Estimates the duration of a phase that ends in a finding, from its duration in the pilot; both in seconds.
    fn seconds_to_find(&self, pilot_seconds: f64) -> f64 {
        pilot_seconds
    }

    /// Number of additional copies of the store that exist during the phase or stay after it.
    fn copies(&self, _phase: &Phase) -> u64 {
        0
    }

    /// Upper bound on how often custom work that writes, other than ageing, writes the whole corpus.
    fn times_written(&self, _corpus: &Corpus) -> f64 {
        1.0
    }

    /// True if the store finishes the deferred work of earlier phases before a phase of writes, off the clock.
    fn catches_up(&self) -> bool {
        true
    }

    /// Runs a phase, and `repeat`, the one after it, if both are done together. `None` if it was stopped.
    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, repeat: Option<&Phase>) -> PhaseRun;
}

pub(super) struct Applicant<'a> {
    pub(super) plan: &'a Plan,
    pub(super) candidate: &'a Candidate,
    pub(super) caps: Capabilities,
}

/// The parameters that the pilot chooses to fit a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BudgetParameters {
    /// Share of the corpus, from 0 to 1.
    pub(super) corpus_share: f64,
    /// Duration of a phase that repeats a list of reads, in seconds.
    pub(super) read_seconds: f64,
    /// Minimum number of ops in such a phase.
    pub(super) read_ops: u64,
    pub(super) cold_ops: u64,
    pub(super) rounds: u32,
}

pub(super) struct LengthInputs<'a> {
    pub(super) plan: &'a Plan,
    pub(super) blobs: u64,
    pub(super) choice: BudgetParameters,
    pub(super) earlier: &'a BTreeMap<String, FixedLength>,
    pub(super) corpus_id: CorpusId,
}

pub(super) struct Forecast<'a> {
    pub(super) plan: &'a Plan,
    pub(super) phase: &'a Phase,
    pub(super) pilot: &'a PilotOutcome<'a>,
    pub(super) round: &'a Round,
    /// Wall time of the phase in the pilot, including its preparation, in seconds.
    pub(super) wall: f64,
    /// Factor by which the number of blobs grows from the pilot to the run.
    pub(super) growth: f64,
    pub(super) length: FixedLength,
}

impl Forecast<'_> {
    /// Seconds of a phase besides its ops. They grow with the corpus, but do not shrink with it.
    fn beside(&self) -> f64 {
        (self.wall - self.round.seconds).max(0.0) * self.growth.max(1.0)
    }
}

pub(super) fn for_phase(phase: &Phase) -> &'static dyn Work {
    let does = |kind: &&&WorkKind| kind.name == phase.kind || kind.work.does(phase);
    TABLE.iter().rfind(does).copied().unwrap_or(&ops::KIND).work
}

/// Returns the phases that plans can name, of every kind of work.
pub fn standard() -> Vec<StandardPhase> {
    TABLE.iter().flat_map(|kind| kind.standard).copied().collect()
}

/// Resolution of a plan's text with the phases that the kinds of work offer.
pub trait ResolvePlan {
    /// Validates the plan and fills in defaults. If `strict`, a store that cannot run is an error, because a flag named it.
    fn resolve(&self, strict: bool) -> Result<Plan>;
    /// Validates the plan for candidates that were measured, here or elsewhere, without asking about the stores of this machine.
    fn design(&self, candidates: &[CandidateResult]) -> Result<Design>;
}

impl ResolvePlan for PlanText {
    fn resolve(&self, strict: bool) -> Result<Plan> {
        self.resolve_with(&standard(), strict)
    }

    fn design(&self, candidates: &[CandidateResult]) -> Result<Design> {
        let members: Vec<DesignCandidate> = candidates.iter().map(CandidateResult::member).collect();
        self.design_with(&standard(), &members)
    }
}

/// Resolves a plan's text, for tests.
#[cfg(any(test, feature = "fixture"))]
#[expect(clippy::unwrap_used, reason = "the plan of a test is right")]
pub fn resolved(toml: &str) -> Plan {
    PlanText::parse(toml).unwrap().resolve(true).unwrap()
}

#[cfg(test)]
mod toy;
