//! Phases that a candidate cannot do, and the reasons.

use super::super::work::{self, Applicant};
use crate::corpus::Corpus;
use crate::plan::{Candidate, Phase, Plan, Transaction, Workload};

/// Returns why a candidate cannot do a phase; `None` if it can.
pub(super) fn impossible(
    plan: &Plan,
    candidate: &Candidate,
    corpus: &Corpus,
    phase: &Phase,
) -> Option<String> {
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
    if plan.clients > 1 && !work::of(phase).is_for_clients(phase) {
        return Some(format!("is for one client, and this run has {}", plan.clients));
    }
    work::of(phase).impossible(&Applicant { plan, candidate, caps }, phase)
}
