//! Phases that a candidate cannot do, and the reasons.

use super::super::candidate_run::CandidateRun;
use super::super::work::{self, Applicant};
use crate::corpus::Corpus;
use crate::plan::{Candidate, Phase, Plan, Transaction, Workload};

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
            .or_else(|| {
                self.is_too_young(phase).then(|| "its blobs were not overwritten up to this age".to_owned())
            })
    }

    /// True if the phase reads at an age that the store has not reached, because a phase that overwrites was not possible.
    fn is_too_young(&self, phase: &Phase) -> bool {
        let reads_at = phase.aged_to.filter(|_| !phase.writes());
        reads_at.is_some_and(|percent| self.aged_times < percent as f64 / 100.0)
    }
}

/// Returns why a candidate cannot do a phase; `None` if it can.
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
        return Some("append-only: it neither replaces nor deletes blobs".to_owned());
    }
    if plan.clients > 1 && !work::of(phase).is_for_clients(phase) {
        return Some(format!("is for one client, and this run has {}", plan.clients));
    }
    work::of(phase).impossible(&Applicant { plan, candidate, caps }, phase)
}

/// True if a phase replaces or deletes blobs.
fn changes_blobs(phase: &Phase) -> bool {
    let changes = |load: &Workload| load.mix.iter().any(|(kind, _)| kind.changes());
    phase.load().is_some_and(changes) || phase.custom_action().is_some_and(|action| action.ages)
}
