//! Size classes on synthetic times with a known fastest candidate for each size.

use blobwise_engine::engine::work::ResolvePlan;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::tests::some_stores;
use super::*;
use crate::judge::fixture::{around, cell, result};
use crate::plan::PlanText;
use crate::result::CandidateRank;
use crate::subjects::candidates;

/// Fills the rounds with the given number of reads in each band, each of the given time in microseconds, within one per
/// cent.
fn with_bands(value: &mut Value, bands: &[(&str, u64, f64)], salt: usize) {
    for (round, factor) in value["rounds"].as_array_mut().unwrap().iter_mut().zip(around(1.0, salt)) {
        let mut texts = BTreeMap::new();
        for (band, ops, microseconds) in bands {
            let mut times = histogram::new();
            times.record_n((microseconds * factor * 1e3) as u64, *ops as u32).unwrap();
            texts.insert((*band).to_owned(), histogram::encode(&times).unwrap());
        }
        round["histogram"]["service"] = json!(texts);
    }
}

/// Runs two candidates, `a` and `b`, with these times for small, medium and large blobs in two kinds of reads.
fn advise(bands: [[(&str, u64, f64); 3]; 2], over: &Value) -> (Vec<SizeAdvice>, [String; 2]) {
    let stores: [String; 2] = some_stores()[..2].to_vec().try_into().unwrap();
    let mut cells = Vec::new();
    for phase in ["read-warm", "read-cold"] {
        for (salt, (store, bands)) in stores.iter().zip(bands).enumerate() {
            let over = if salt == 0 { over.clone() } else { json!({}) };
            let mut value = cell(store, phase, &around(1.0, salt), over);
            value["ops_per_s"] = json!({"median": 1000.0});
            with_bands(&mut value, &bands, salt);
            cells.push(value);
        }
    }
    let text = format!("stores = {stores:?}\nphases = ['fill', 'read-warm', 'read-cold']");
    let plan = PlanText::parse(&text).unwrap().resolve(false).unwrap();
    let mut result = result(&text, cells, vec![]);
    result.candidates = candidates(&plan);
    let advice = advice(&plan, &result);
    (advice.map_or_else(Vec::new, |advice| advice.by_size), stores)
}

const SMALL_WINS: [[(&str, u64, f64); 3]; 2] = [
    [("0-1 kB", 500, 10.0), ("10-100 kB", 300, 40.0), ("over 10 MB", 200, 9000.0)],
    [("0-1 kB", 500, 40.0), ("10-100 kB", 300, 40.0), ("over 10 MB", 200, 3000.0)],
];

fn leading<'s>(of_size: &'s SizeAdvice, phase: &str) -> Vec<&'s str> {
    let situation = of_size.advice.situations.iter().find(|situation| situation.phase == phase).unwrap();
    let leads = situation.standings.iter().filter(|standing| standing.place == CandidateRank::Leads);
    leads.map(|standing| standing.store.as_str()).collect()
}

#[test]
fn every_class_has_the_fastest_of_its_own_size() {
    let (classes, [a, b]) = advise(SMALL_WINS, &json!({}));
    let all: Vec<SizeClass> = classes.iter().map(|of_size| of_size.class).collect();
    assert_eq!(all, SizeClass::ALL);
    let shares: Vec<f64> = classes.iter().map(|of_size| of_size.reads_share).collect();
    assert_eq!(shares, [0.5, 0.3, 0.2]);
    assert_eq!(leading(&classes[0], "read-warm"), [a.as_str()]);
    assert_eq!(leading(&classes[2], "read-cold"), [b.as_str()]);
    assert_eq!(leading(&classes[1], "read-warm").len(), 2, "{:?}", classes[1]);
    let next = classes[0].advice.situations[0].next.as_ref().unwrap();
    assert!((29e3..31e3).contains(&next.more_ns), "{next:?}");
    // Relative to a request of 1 ms, 30 us do not matter, but 6 ms do.
    let places: Vec<&[String]> = classes.iter().map(|of_size| of_size.places.as_slice()).collect();
    assert_eq!((places[0], places[2]), (&[a][..], &[b][..]));
}

#[test]
fn a_class_that_was_read_too_seldom_or_not_in_every_round_says_nothing() {
    // Three rounds of 20 reads in half a millisecond have too few ops, too little time and too few rounds.
    let few = SMALL_WINS
        .map(|bands| bands.map(|(band, ops, time)| (band, if ops == 300 { 20 } else { ops }, time)));
    let (classes, _) = advise(few, &json!({}));
    let medium: Vec<&SizeAdvice> =
        classes.iter().filter(|of_size| of_size.class == SizeClass::Medium).collect();
    assert!(medium.is_empty(), "{medium:?}");
    assert_eq!(classes.len(), 2);
    // A single class is the whole run.
    let one = SMALL_WINS.map(|bands| bands.map(|(_, ops, time)| ("1-10 kB", ops, time)));
    assert!(advise(one, &json!({})).0.is_empty());
}

#[test]
fn reads_of_which_an_op_is_not_a_blob_have_no_size() {
    let batches = |batch: u64| advise(SMALL_WINS, &json!({"batch": batch})).0;
    assert_eq!(batches(1).len(), 3);
    // With one candidate left, there is nothing to compare.
    assert!(batches(4).is_empty());
}

#[test]
fn what_speaks_against_all_reads_speaks_against_those_of_a_size() {
    let outside = json!({"not_ranked": {"code": "one-round"}});
    assert!(advise(SMALL_WINS, &outside).0.is_empty());
    // Reasons about the amount of data are decided again for the part: here 500 reads.
    let judged = |over: Value, null_ns: f64| {
        let mut value = cell("a", "read-warm", &around(1.0, 0), over);
        with_bands(&mut value, &SMALL_WINS[0], 0);
        let whole = result("", vec![value], vec![]).results.remove(0);
        let mut part = part_of(&whole, SizeClass::Small).unwrap();
        judge(&mut part, &BTreeMap::from([("read-warm".to_owned(), null_ns)]));
        part
    };
    let part = judged(json!({"not_ranked": {"code": "too-short", "ops": 95, "seconds": 0.01}}), 40.0);
    assert!(part.not_ranked.is_none() && part.rounds[0].ops == 500, "{:?}", part.not_ranked);
    // 4 us of 10 are harness, though almost nothing was in the whole cell.
    let part = judged(json!({"harness_share": 0.01}), 4_000.0);
    assert!(part.not_ranked.is_some_and(|why| why.is_bound()));
}

#[test]
fn a_place_is_left_only_for_one_that_is_proved_to_be_better_by_what_counts() {
    let place = |store: &str, slower: f64, slower_at_most: f64| WorstCase {
        store: store.to_owned(),
        phase: String::new(),
        slower,
        slower_at_most: Some(slower_at_most),
    };
    let kept = |own: f64, best: f64, best_at_most: f64| {
        let mut places = [place("best", best, best_at_most), place("own", own, 9.0), place("last", 8.0, 9.0)];
        keep("own", &mut places);
        places.map(|place| place.store)
    };
    assert_eq!(kept(0.5, 0.1, 0.2), ["best", "own", "last"]);
    assert_eq!(kept(0.5, 0.1, 0.6), ["own", "best", "last"]);
    assert_eq!(kept(0.14, 0.1, 0.12), ["own", "best", "last"]);
}

#[test]
fn who_cannot_be_compared_in_a_class_has_no_say_in_it() {
    let standing =
        |store: &str, place: &str, op_ns: f64| json!({"store": store, "place": place, "op_ns": op_ns});
    let of = |standings: Value, one_place: Value, more: usize, whole: Option<&str>| {
        let situation =
            json!({"title": "t", "short": "s", "phase": "p", "fastest_ns": 1.0, "standings": standings});
        let situations = vec![situation; more];
        let advice = json!({"request_ns": 1e6, "situations": situations, "one_place": one_place});
        places(whole, &mut serde_json::from_value(advice).unwrap())
    };
    let standings = || {
        let leads = |store: &str| standing(store, "leads", 1e3);
        let behind = |store: &str, op_ns: f64| standing(store, "behind", op_ns);
        json!([
            leads("a"),
            leads("b"),
            behind("near", 5e4),
            behind("c", 6e4),
            standing("d", "not-ranked", 1e3)
        ])
    };
    let one = |whole: Option<&str>| of(standings(), json!([]), 1, whole);
    assert_eq!(one(Some("b")), ["b"]);
    assert_eq!(one(Some("c")), ["a", "b"]);
    // 49 us are less than 5 % of a request of 1 ms.
    assert_eq!(one(Some("near")), ["near"]);
    assert_eq!(one(None), ["a", "b"]);
    assert!(one(Some("d")).is_empty() && one(Some("e")).is_empty());
    let worst = json!([{"store": "a", "phase": "p", "slower": 0.1, "slower_at_most": 0.2}, {"store": "b", "phase": "p", "slower": 0.15, "slower_at_most": 0.3}]);
    let two = |whole: Option<&str>| of(standings(), worst.clone(), 2, whole);
    assert_eq!((two(Some("b")), two(None)), (vec!["b".to_owned()], vec!["a".to_owned()]));
    assert!(two(Some("d")).is_empty());
}

#[test]
fn a_class_begins_where_a_band_does() {
    for class in SizeClass::ALL {
        let (least, above) = sizes(class);
        assert!(least == 0 || band_of(least - 1) < band_of(least), "{class:?}");
        assert!(above.is_none_or(|above| band_of(above - 1) < band_of(above)), "{class:?}");
    }
}
