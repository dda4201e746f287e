//! Phases that a row cannot do at all, and why.

use super::super::work::{self, Candidate};
use crate::corpus::Corpus;
use crate::plan::{Load, Phase, Plan, Row, Transaction};

/// Why a row cannot do a phase at all, if it cannot.
pub(super) fn impossible(plan: &Plan, row: &Row, corpus: &Corpus, phase: &Phase) -> Option<String> {
    let caps = (row.adapter.caps)(&row.options);
    if let Some(limit) = caps.blob_bytes_max.filter(|limit| corpus.largest() > limit.bytes) {
        return Some(format!("blobs above {} B ({})", limit.bytes, limit.source));
    }
    if let Some(why) = row.traits().kept_running().filter(|_| phase.cache.is_cold()) {
        return Some(format!("cannot be made cold: {why}"));
    }
    let wants_one = |load: &Load| load.transaction == Some(Transaction::Phase) && !row.is_reference();
    if phase.load().is_some_and(wants_one)
        && let Some(why) = row.why_not_one_transaction()
    {
        return Some(why.to_owned());
    }
    let needs_reopening = phase.deed().is_some_and(|deed| deed.reopens) || phase.cache.is_cold();
    if needs_reopening && !caps.persistent {
        return Some("forgets when closed".to_owned());
    }
    if plan.hands_of(phase).0 > 1 && !caps.many {
        return Some("one session at a time".to_owned());
    }
    work::of(phase).impossible(&Candidate { plan, row, caps }, phase)
}
