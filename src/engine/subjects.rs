//! The candidates of a plan as the result describes them, with the properties that their adapters declare.

use std::collections::BTreeMap;

use crate::plan::{Candidate, Class, Need, Plan, Transaction, class_of};
use crate::result::{CandidateResult, Durability, Kind, LargestBlob, Loss, Promise, Status, Traits};

/// Returns the candidates of a plan; those that cannot run here come last. Adapters are asked for their properties only here;
/// from then on the answers are part of the result.
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
            serves: Some(serves(candidate, asked)),
            largest_blob: Some(largest_blob(candidate)),
            own_durability: candidate.own_class(),
            is_one_for_each_client: plan.is_one_for_each_client(candidate),
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
        serves: None,
        largest_blob: None,
        own_durability: None,
        is_one_for_each_client: false,
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

/// Returns the needs that a candidate meets, given its promise in the run's durability class.
fn serves(candidate: &Candidate, promise: Promise) -> Vec<Need> {
    let (caps, traits) = ((candidate.adapter.caps)(&candidate.options), candidate.traits());
    let is_served = |need: &Need| match need {
        Need::AtomicPuts => caps.atomic_put,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanText;

    fn served(text: &str) -> Vec<Vec<&'static str>> {
        let plan = PlanText::parse(text).unwrap().resolve(true).unwrap();
        let names =
            |candidate: CandidateResult| candidate.serves.unwrap().iter().map(|need| need.name()).collect();
        candidates(&plan).into_iter().map(names).collect()
    }

    #[test]
    fn what_a_candidate_serves_is_what_its_adapter_says() {
        let files = ["atomic-puts", "durable", "listing", "no-server", "ranges", "streams"];
        let embedded =
            ["atomic-puts", "durable", "listing", "no-server", "one-backup", "ranges", "transactions"];
        assert_eq!(served("stores = ['files/hashed', 'sqlite']"), [files.to_vec(), embedded.to_vec()]);
        let carefree = served("stores = ['files/hashed']\ndurability = 'none'");
        assert!(!carefree[0].contains(&"durable"), "in that class a power cut takes anything: {carefree:?}");
        let in_pieces = served("stores = ['sqlite']\nset = {'sqlite.api' = 'incremental'}");
        assert!(in_pieces[0].contains(&"streams"), "{in_pieces:?}");
        let in_place = served("stores = ['files/hashed']\nset = {'files/hashed.put' = 'in-place'}");
        assert!(!in_place[0].contains(&"atomic-puts"), "{in_place:?}");
    }

    /// Old results recorded neither the largest blob nor streams, so that both are unknown for them.
    #[test]
    fn the_largest_blob_is_held_against_each_limit_and_old_results_say_nothing_of_it() {
        let plan = PlanText::parse("stores = ['files/hashed', 'sqlite', 'lmdb']").unwrap();
        let mut all = candidates(&plan.resolve(true).unwrap());
        let limits: Vec<_> = all.iter().map(|candidate| candidate.largest_blob).collect();
        assert_eq!(limits[0], Some(LargestBlob::Unlimited));
        assert_eq!(limits[1], Some(LargestBlob::Bytes(999_999_000)), "SQLITE_MAX_LENGTH");
        all[2].largest_blob = None;
        let lacks = |need: &str| {
            let need = [Need::parse(need).unwrap()];
            all.iter().map(|candidate| candidate.lacks(&need).map(|lacks| lacks.len())).collect::<Vec<_>>()
        };
        assert_eq!(lacks("largest-blob=999999000B"), [Some(0), Some(0), None]);
        assert_eq!(lacks("largest-blob=999999001B"), [Some(0), Some(1), None]);
        assert_eq!(lacks("streams"), [Some(0), Some(1), None]);
        assert_eq!(lacks("ranges"), [Some(0); 3]);
    }
}
