//! Kinds of work: what a phase does. Each has a file of its own and a line in the table; nobody else names one.

mod age;
mod cold;
mod crash;
mod disk;
mod operate;
mod ops;
mod pages;
mod purge;
mod ramp;
mod reopen;
mod tight;
mod uploads;

use std::collections::BTreeMap;

use anyhow::Result;

use super::visitor::{Done, PilotVisit, Visitor};
use crate::corpus::CorpusId;
use crate::plan::{Candidate, Design, Member, Phase, Plan, PlanText, StandardPhase};
use crate::result::{CandidateResult, FixedLength, Round};
use crate::store::Caps;

/// Every kind of work, in the order in which their phases are listed. What several say they do is done by the last of them.
static TABLE: &[&dyn Work] = &[
    &ops::Ops,
    &cold::Cold,
    &tight::Tight,
    &ramp::Ramp,
    &purge::Purge,
    &reopen::Reopen,
    &uploads::Uploads,
    &pages::Pages,
    &age::Age,
    &operate::Operate,
    &crash::Crash,
    &disk::Disk,
    #[cfg(test)]
    &toy::Toy,
];

/// A kind of work. A load of ops that does nothing else needs no more than a name, its phases and how it is run.
pub(super) trait Work: Sync {
    /// What its phases call it.
    fn name(&self) -> &'static str;

    /// The phases of it that plans name.
    fn standard(&self) -> &'static [StandardPhase];

    /// Whether it is what a phase does.
    fn does(&self, phase: &Phase) -> bool {
        phase.kind == self.name()
    }

    /// Why a candidate cannot do a phase at all, if it cannot, beyond what is true of every phase.
    fn impossible(&self, applicant: &Applicant<'_>, phase: &Phase) -> Option<String> {
        ops::impossible(applicant.plan, &applicant.caps, phase.load()?)
    }

    /// Whether several clients can do a phase together; one that cannot is not done by less than all of them.
    fn is_for_clients(&self, _phase: &Phase) -> bool {
        false
    }

    /// How long a phase is. It is fixed before round 1, for all candidates.
    fn length(&self, asked: &Asked<'_>, phase: &Phase) -> FixedLength {
        let by_pilot = |load| ops::length(asked, load, ops::by_pilot(asked, load));
        phase.load().map_or_else(FixedLength::default, by_pilot)
    }

    /// What the pilot does of such a length.
    fn pilot_length(&self, planned: FixedLength) -> FixedLength {
        planned
    }

    /// At how many ops a second it begins, for all candidates, where it is offered one rate after the other.
    fn first_ops_per_s(&self, _plan: &Plan, _closed_ops_per_s: &mut dyn Iterator<Item = f64>) -> Option<f64> {
        None
    }

    /// How many seconds a phase of this length takes, by what the pilot saw.
    fn seconds(&self, forecast: &Forecast<'_>) -> f64 {
        forecast.phase.load().map_or(forecast.wall, |load| ops::seconds(forecast, load))
    }

    /// How many seconds a phase takes that finds something, by what it took the pilot.
    fn seconds_to_find(&self, pilot_seconds: f64) -> f64 {
        pilot_seconds
    }

    /// How many more copies of the store there are at once while a phase lasts, and after it.
    fn copies(&self, _phase: &Phase) -> u64 {
        0
    }

    /// Whether the store does what earlier phases left to it before a phase that writes, off every clock.
    fn catches_up(&self) -> bool {
        true
    }

    /// Does a phase, and the one behind it that repeats it, if that is done at once. `None`: it was stopped.
    fn run(&self, visitor: &mut Visitor<'_>, phase: &Phase, repeat: Option<&Phase>) -> Done;
}

/// A candidate that is asked whether it can do a phase.
pub(super) struct Applicant<'a> {
    /// The plan.
    pub(super) plan: &'a Plan,
    /// The candidate.
    pub(super) candidate: &'a Candidate,
    /// What its store can do.
    pub(super) caps: Caps,
}

/// What the pilot chooses between, to fit a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    /// The share of the corpus, from 0 to 1.
    pub(super) corpus_share: f64,
    /// How long a phase of reads lasts that repeats its order.
    pub(super) read_seconds: f64,
    /// How many ops it has at the least.
    pub(super) read_ops: u64,
    /// How many a cold phase has.
    pub(super) cold_ops: u64,
    /// Rounds.
    pub(super) rounds: u32,
}

/// What the length of a phase follows from.
pub(super) struct Asked<'a> {
    /// The plan.
    pub(super) plan: &'a Plan,
    /// How many blobs there are.
    pub(super) blobs: u64,
    /// What was chosen for all phases.
    pub(super) choice: Choice,
    /// The lengths of earlier phases.
    pub(super) earlier: &'a BTreeMap<String, FixedLength>,
    /// With which corpus.
    pub(super) corpus_id: CorpusId,
}

/// What is known of a phase of a candidate before round 1.
pub(super) struct Forecast<'a> {
    /// The plan.
    pub(super) plan: &'a Plan,
    /// The phase.
    pub(super) phase: &'a Phase,
    /// The pilot's visit.
    pub(super) pilot: &'a PilotVisit<'a>,
    /// What that measured.
    pub(super) round: &'a Round,
    /// How long the phase took then with all that it needed, in seconds.
    pub(super) wall: f64,
    /// How many times as many blobs there will be.
    pub(super) growth: f64,
    /// How long it is to be.
    pub(super) length: FixedLength,
}

impl Forecast<'_> {
    /// Seconds of what a phase needs beside its ops: it grows with the corpus, and does not shrink with it.
    fn beside(&self) -> f64 {
        (self.wall - self.round.seconds).max(0.0) * self.growth.max(1.0)
    }
}

/// The kind of work that a phase is.
pub(super) fn of(phase: &Phase) -> &'static dyn Work {
    TABLE.iter().rfind(|kind| kind.does(phase)).copied().unwrap_or(&ops::Ops)
}

/// The phases that plans name, of every kind of work.
pub fn standard() -> Vec<StandardPhase> {
    TABLE.iter().flat_map(|kind| kind.standard()).copied().collect()
}

impl PlanText {
    /// Checks everything and fills in what is not given. `strict`: stores were named by a flag, so one that cannot
    /// run is an error.
    pub fn resolve(&self, strict: bool) -> Result<Plan> {
        self.resolve_with(&standard(), strict)
    }

    /// The same for candidates that were measured, here or elsewhere: of the stores of this machine nothing is asked.
    pub fn design(&self, candidates: &[CandidateResult]) -> Result<Design> {
        let members: Vec<Member> = candidates.iter().map(CandidateResult::member).collect();
        self.design_with(&standard(), &members)
    }
}

#[cfg(test)]
mod toy;
