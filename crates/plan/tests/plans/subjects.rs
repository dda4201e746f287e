//! What candidates are said to serve.

use blobwise_engine::engine::work::ResolvePlan;
use blobwise_plan::plan::Need;
use blobwise_plan::plan::PlanText;
use blobwise_plan::result::{CandidateResult, LargestBlob};
use blobwise_plan::subjects::*;

fn served(text: &str) -> Vec<Vec<&'static str>> {
    let plan = PlanText::parse(text).unwrap().resolve(true).unwrap();
    let names =
        |candidate: CandidateResult| candidate.serves.unwrap().iter().map(|need| need.name()).collect();
    candidates(&plan).into_iter().map(names).collect()
}

#[test]
fn what_a_candidate_serves_is_what_its_adapter_says() {
    let files = ["atomic-puts", "durable", "listing", "no-server", "ranges", "streams"];
    let embedded = ["atomic-puts", "durable", "listing", "no-server", "one-backup", "ranges", "transactions"];
    assert_eq!(served("stores = ['files/hashed', 'sqlite']"), [files.to_vec(), embedded.to_vec()]);
    let carefree = served("stores = ['files/hashed']\ndurability = 'none'");
    assert!(!carefree[0].contains(&"durable"), "in that class a power cut takes anything: {carefree:?}");
    let in_pieces = served("stores = ['sqlite']\nset = {'sqlite.api' = 'incremental'}");
    assert!(in_pieces[0].contains(&"streams"), "{in_pieces:?}");
    let in_place = served("stores = ['files/hashed']\nset = {'files/hashed.put' = 'in-place'}");
    assert!(!in_place[0].contains(&"atomic-puts"), "{in_place:?}");
}

/// Old results recorded neither the largest blob, nor streams, nor changes, so that all are unknown for them.
#[test]
fn needs_are_held_against_what_is_recorded_and_old_results_say_nothing_of_some() {
    let plan = PlanText::parse("stores = ['files/hashed', 'sqlite', 'lmdb', 'tar']").unwrap();
    let mut all = candidates(&plan.resolve(true).unwrap());
    let limits: Vec<_> = all.iter().map(|candidate| candidate.largest_blob).collect();
    assert_eq!(limits[0], Some(LargestBlob::Unlimited));
    assert_eq!(limits[1], Some(LargestBlob::Bytes(999_999_000)), "SQLITE_MAX_LENGTH");
    (all[2].largest_blob, all[2].changes) = (None, None);
    let lacks = |need: &str| {
        let need = [Need::parse(need).unwrap()];
        all.iter().map(|candidate| candidate.lacks(&need).map(|lacks| lacks.len())).collect::<Vec<_>>()
    };
    assert_eq!(lacks("largest-blob=999999000B"), [Some(0), Some(0), None, Some(0)]);
    assert_eq!(lacks("largest-blob=999999001B"), [Some(0), Some(1), None, Some(0)]);
    assert_eq!(lacks("streams"), [Some(0), Some(1), None, Some(0)]);
    assert_eq!(lacks("changes"), [Some(0), Some(0), None, Some(1)]);
    assert_eq!(lacks("ranges"), [Some(0); 4]);
}
