//! What is measured, as the result says it: the candidates of a plan, with what their adapters say of them.

use std::collections::BTreeMap;

use crate::plan::{Class, Plan, Transaction, class_of};
use crate::result::{CandidateResult, Promise, Status, Traits};

/// The candidates of a plan, those that cannot run here last. What their adapters say of them is asked for here and nowhere
/// later: from now on it is part of the result.
pub fn candidates(plan: &Plan) -> Vec<CandidateResult> {
    let ready = plan.candidates.iter().map(|candidate| {
        let promise = |class| {
            let durability = class_of(candidate, class, plan.durability);
            Promise { durability, loss: (candidate.adapter.loss)(&candidate.options, durability) }
        };
        let (asked, fill) = (promise(Class::Asked), promise(Class::Fill));
        CandidateResult {
            store: candidate.label.clone(),
            adapter: candidate.adapter.name.to_owned(),
            kind: Some(candidate.adapter.kind),
            options: candidate.options.shown(),
            traits: candidate.traits(),
            own_durability: candidate.own_class(),
            transaction: Some(candidate.transaction()).filter(|own| *own != Transaction::default()),
            facts: BTreeMap::new(),
            promise: Some(asked),
            fill_promise: Some(fill).filter(|fill| *fill != asked),
            made_cold: candidate.made_cold(),
            noticed_by: None,
            verified_from: None,
            status: Status::Measured,
            reason: None,
        }
    });
    let missing = plan.missing.iter().map(|missing| CandidateResult {
        store: missing.label.clone(),
        adapter: missing.adapter.clone(),
        kind: None,
        options: BTreeMap::new(),
        traits: Traits::default(),
        own_durability: None,
        transaction: None,
        facts: BTreeMap::new(),
        promise: None,
        fill_promise: None,
        made_cold: None,
        noticed_by: None,
        verified_from: None,
        status: Status::NotAvailable,
        reason: Some(missing.reason.clone()),
    });
    ready.chain(missing).collect()
}
