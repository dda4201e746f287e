//! The candidates of a plan as the result describes them, with the properties that their adapters declare.

use crate::plan::{Candidate, Class, Need, Plan, Transaction, class_of};
use crate::result::{CandidateResult, Durability, Kind, LargestBlob, Loss, Promise, Status};

/// Returns the candidates of a plan; those that cannot run here come last. Adapters are asked for their properties only here;
/// from then on the answers are part of the result.
pub fn candidates(plan: &Plan) -> Vec<CandidateResult> {
    let ready = plan.candidates.iter().map(|candidate| {
        let promise = |class| {
            let durability = class_of(candidate, class, plan.durability);
            Promise { durability, loss: (candidate.adapter.loss)(&candidate.options, durability) }
        };
        let (asked, fill) = (promise(Class::Asked), promise(plan.fill_class()));
        CandidateResult {
            store: candidate.label.clone(),
            adapter: candidate.adapter.name.to_owned(),
            kind: Some(candidate.adapter.kind),
            options: candidate.options.shown(),
            traits: candidate.traits(),
            serves: Some(serves(candidate, asked)),
            largest_blob: Some(largest_blob(candidate)),
            changes: Some((candidate.adapter.caps)(&candidate.options).changes),
            own_durability: candidate.own_class(),
            is_one_for_each_client: plan.is_one_for_each_client(candidate),
            transaction: Some(candidate.transaction()).filter(|own| *own != Transaction::default()),
            promise: Some(asked),
            fill_promise: Some(fill).filter(|fill| *fill != asked),
            made_cold: candidate.made_cold(),
            status: Status::Measured,
            ..CandidateResult::default()
        }
    });
    let missing = plan.missing.iter().map(|missing| CandidateResult {
        store: missing.label.clone(),
        adapter: missing.adapter.clone(),
        status: Status::NotAvailable,
        reason: Some(missing.reason.clone()),
        ..CandidateResult::default()
    });
    ready.chain(missing).collect()
}

/// Returns the needs that a candidate meets, given its promise in the run's durability class.
fn serves(candidate: &Candidate, promise: Promise) -> Vec<Need> {
    let (caps, traits) = ((candidate.adapter.caps)(&candidate.options), candidate.traits());
    let is_served = |need: &Need| match need {
        Need::AtomicPuts => caps.atomic_put,
        // Recorded in `changes`: older results have no word of it.
        Need::Changes => false,
        Need::Durable => {
            promise.durability > Durability::None && promise.loss.after_power_cut <= Loss::RecentWrites
        }
        // Recorded in `largest_blob`, because it has a size.
        Need::LargestBlob(_) => false,
        Need::Listing => caps.list,
        Need::NoServer => !traits.has_process,
        Need::OneBackup => caps.other_data,
        Need::Ranges => caps.range,
        Need::SeveralMachines => {
            traits.has_process && [Kind::Server, Kind::Cache, Kind::Web].contains(&candidate.adapter.kind)
        }
        Need::Streams => caps.streams,
        Need::Transactions => caps.batch,
    };
    Need::ALL.iter().copied().filter(is_served).collect()
}

fn largest_blob(candidate: &Candidate) -> LargestBlob {
    let limit = (candidate.adapter.caps)(&candidate.options).blob_bytes_max;
    limit.map_or(LargestBlob::Unlimited, |limit| LargestBlob::Bytes(limit.bytes))
}
