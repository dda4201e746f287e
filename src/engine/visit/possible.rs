//! Phases that a row cannot do at all, and why.

use crate::corpus::Corpus;
use crate::plan::{CatalogueOf, Load, OpKind, Phase, Plan, Row, Transaction, Work};
use crate::shown;
use crate::store::Caps;

/// Why a row cannot do a phase at all, if it cannot.
pub(super) fn impossible(plan: &Plan, row: &Row, corpus: &Corpus, phase: &Phase) -> Option<String> {
    let caps = (row.adapter.caps)(&row.options);
    if let Some(limit) = caps.blob_bytes_max.filter(|limit| corpus.largest() > limit.bytes) {
        return Some(format!("blobs above {} B ({})", limit.bytes, limit.source));
    }
    if let Some(why) = row.traits().kept_running().filter(|_| phase.cache.is_cold()) {
        return Some(format!("cannot be made cold: {why}"));
    }
    if phase.has_uploads() {
        match row.catalogue() {
            Err(error) => return Some(shown::of_error(&format!("{error:#}"))),
            Ok(CatalogueOf::Own { .. }) if !caps.catalogue => {
                return Some("no catalogue of its own: it is no SQL database".to_owned());
            }
            _ if row.traits().integer_keys => {
                return Some("finds blobs by an integer, and uploads have a digest".to_owned());
            }
            _ => {}
        }
    }
    let wants_one = |load: &Load| load.transaction == Some(Transaction::Phase) && !row.is_reference();
    if phase.load().is_some_and(wants_one)
        && let Some(why) = row.why_not_one_transaction()
    {
        return Some(why.to_owned());
    }
    phase_impossible(plan, &caps, phase)
}

fn phase_impossible(plan: &Plan, caps: &Caps, phase: &Phase) -> Option<String> {
    let needs_reopening = phase.work == Work::Reopen || phase.cache.is_cold();
    if needs_reopening && !caps.persistent {
        return Some("forgets when closed".to_owned());
    }
    let (workers, batch) = match &phase.work {
        Work::Ops(load) | Work::Ramp(load) => {
            (load.workers.unwrap_or(plan.workers), load.batch.unwrap_or(plan.batch))
        }
        Work::Age(_) => (plan.workers, 1),
        Work::Reopen | Work::Purge => (1, 1),
    };
    if workers > 1 && !caps.many {
        return Some("one session at a time".to_owned());
    }
    if let Work::Ops(load) = &phase.work {
        if batch > 1 && load.has_uploads() {
            return Some("uploads have no batches".to_owned());
        }
        let only_gets = load.mix.iter().all(|(kind, _)| *kind == OpKind::Get);
        if batch > 1 && only_gets && !caps.get_many {
            return Some("no batches: there is no request for several blobs".to_owned());
        }
        if batch > 1 && !only_gets && !caps.batch {
            return Some("no batches: there is no transaction over several blobs".to_owned());
        }
        if load.mix.iter().any(|(kind, _)| *kind == OpKind::Range) {
            if !caps.range {
                return Some("no range reads".to_owned());
            }
            if batch > 1 {
                return Some("range reads have no batches".to_owned());
            }
        }
    }
    None
}
