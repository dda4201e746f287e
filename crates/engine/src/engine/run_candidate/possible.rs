//! Phases that a candidate cannot do, and the reasons.

use super::super::candidate_run::{CandidateRun, PhaseOutcome};
use super::super::work::{self, APPEND_ONLY, Applicant};
use crate::corpus::Corpus;
use crate::plan::{Candidate, Length, OpKind, Phase, Plan, Transaction, Workload, repeated_after};

impl CandidateRun<'_> {
    /// Returns why the candidate leaves a phase out; `None` if it does it. Reasons that show only when the phase begins, such as too
    /// little memory, are outcomes of the phase.
    pub(super) fn why_not(&self, phase: &Phase) -> Option<String> {
        let (candidate, corpus) = (self.subject.candidate, self.subject.corpus);
        let is_never_cold = self.run.in_memory && !candidate.traits().is_external && phase.cache.is_cold();
        let never_cold = || "its directory lies in memory, where nothing is ever cold".to_owned();
        let earlier = self.left_out.get(&phase.id).cloned();
        earlier
            .or_else(|| impossible(self.plan(), candidate, corpus, phase))
            .or_else(|| is_never_cold.then(never_cold))
            .or_else(|| self.lacks_what_it_follows(phase))
    }

    /// Returns that a phase before this one was not possible, so that this one would find another store than that of others: a younger
    /// one, one of more blobs, or one that was not rewritten. `None` if it would not.
    fn lacks_what_it_follows(&self, phase: &Phase) -> Option<String> {
        let is_missing = |earlier: &&Phase| {
            let outcome = self.outcome.phases.get(&earlier.id);
            let matters = changes_what_is_found(earlier) && !phase.writes()
                || repeated_after(&phase.id) == Some(earlier.id.as_str());
            matters && matches!(outcome, Some(PhaseOutcome::NotPossible(_)))
        };
        let earlier = self.plan().phases.iter().find(is_missing)?;
        Some(format!("`{}` before it was not possible", earlier.id))
    }
}

/// True if a phase ages the stores, or deletes a share of their blobs.
fn changes_what_is_found(phase: &Phase) -> bool {
    let deletes = |load: &Workload| {
        matches!(load.length, Length::Share(_)) && load.mix.iter().all(|(kind, _)| *kind == OpKind::Delete)
    };
    phase.custom_action().is_some_and(|action| action.ages) || phase.load().is_some_and(deletes)
}

fn impossible(plan: &Plan, candidate: &Candidate, corpus: &Corpus, phase: &Phase) -> Option<String> {
    let caps = (candidate.adapter.caps)(&candidate.options);
    if let Some(limit) = caps.blob_bytes_max.filter(|limit| corpus.largest() > limit.bytes) {
        return Some(format!("blobs above {} B ({})", limit.bytes, limit.source));
    }
    if let Some(why) = candidate.traits().kept_running().filter(|_| phase.cache.is_cold()) {
        return Some(format!("cannot be made cold: {why}"));
    }
    let wants_one =
        |load: &Workload| load.transaction == Some(Transaction::Phase) && !candidate.is_baseline();
    if phase.load().is_some_and(wants_one)
        && let Some(why) = candidate.why_not_one_transaction()
    {
        return Some(why.to_owned());
    }
    if candidate.traits().may_evict && (phase.custom_action().is_some() || phase.has_uploads()) {
        return Some("it may have thrown away a blob that this needs".to_owned());
    }
    if phase.memory.is_some()
        && let Some(why) = candidate.traits().kept_running()
    {
        return Some(format!("its memory cannot be limited: {why}"));
    }
    let needs_reopening = phase.custom_action().is_some_and(|action| action.reopens) || phase.cache.is_cold();
    if needs_reopening && !caps.persistent {
        return Some("forgets when closed".to_owned());
    }
    if plan.hands_of(phase).0 > 1 && !caps.many {
        return Some("one session at a time".to_owned());
    }
    if !caps.changes && changes_blobs(phase) {
        return Some(APPEND_ONLY.to_owned());
    }
    if plan.clients > 1 && !work::for_phase(phase).is_for_clients(phase) {
        return Some(format!("is for one client, and this run has {}", plan.clients));
    }
    work::for_phase(phase).impossible(&Applicant { plan, candidate, caps }, phase)
}

fn changes_blobs(phase: &Phase) -> bool {
    let changes = |load: &Workload| load.mix.iter().any(|(kind, _)| kind.changes());
    phase.load().is_some_and(changes) || phase.custom_action().is_some_and(|action| action.ages)
}
