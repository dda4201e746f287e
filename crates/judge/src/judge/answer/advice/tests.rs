//! Recommendations on synthetic rounds with a known best candidate for each kind of work.

use blobwise_engine::engine::work::ResolvePlan;
use serde_json::{Value, json};

use super::super::tests::{cells_of, some_stores};
use crate::judge::fixture::{around, cell, result};
use crate::plan::{Need, PlanText};
use crate::result::{Advice, CandidateRank, Situation};
use crate::subjects::candidates;

/// Returns the recommendation for a run of three candidates, `a`, `b` and `c`, that take these seconds for 1,000 ops in
/// each phase. `over` replaces fields in the cell of the candidate with this number.
fn advise(levels: &[(&str, [f64; 3])], over: &[(usize, &str, Value)]) -> Option<Advice> {
    of_plan("", levels, over)
}

/// Like [`advise`], with further lines in the plan.
fn of_plan(more: &str, levels: &[(&str, [f64; 3])], over: &[(usize, &str, Value)]) -> Option<Advice> {
    let stores = some_stores();
    let text =
        format!("stores = {stores:?}\nphases = ['fill', 'read-warm', 'read-cold', 'overwrite']\n{more}");
    let plan = PlanText::parse(&text).unwrap().resolve(false).unwrap();
    let mut result = result(&text, cells_of(&stores, levels, over), vec![]);
    result.candidates = candidates(&plan);
    let mut advice = super::advice(&plan, &result)?;
    let renamed = |label: &mut String| {
        *label = stores.iter().zip(["a", "b", "c"]).find(|(store, _)| *store == label).unwrap().1.to_owned();
    };
    advice
        .situations
        .iter_mut()
        .filter_map(|situation| situation.next.as_mut())
        .for_each(|next| renamed(&mut next.store));
    advice.unfit.iter_mut().for_each(|unfit| renamed(&mut unfit.store));
    advice.fit.iter_mut().for_each(renamed);
    let standings = advice.situations.iter_mut().flat_map(|situation| &mut situation.standings);
    standings.for_each(|standing| renamed(&mut standing.store));
    advice.one_place.iter_mut().for_each(|worst| renamed(&mut worst.store));
    advice.undecided.iter_mut().flat_map(|undecided| &mut undecided.stores).for_each(renamed);
    Some(advice)
}

#[test]
fn an_interval_that_reaches_anywhere_bounds_nothing() {
    assert_eq!(super::bound(0.5, 1.0), Some(2.0));
    assert_eq!(super::bound(0.5, 0.25), Some(8.0));
    // An interval of two rounds that differ by the ratio of two corpus sizes, and a time that is all harness.
    assert_eq!(super::bound(9e-22, 1.0), None);
    assert_eq!(super::bound(1.0, f64::MIN_POSITIVE), None);
}

#[test]
fn who_has_no_bound_is_in_the_list_all_the_same() {
    let situation = |phase: &str| -> Situation {
        let standing = |store: &str, op_ns: f64, times_at_most: Option<f64>| {
            let place = if op_ns > 1e6 { "behind" } else { "leads" };
            json!({"store": store, "op_ns": op_ns, "place": place, "times": op_ns / 1e6, "times_at_most": times_at_most})
        };
        let standings = [
            standing("fastest", 1e6, Some(1.0)),
            standing("wide", 1.5e6, None),
            standing("slow", 8.5e6, Some(9.0)),
        ];
        let value = json!({"title": phase, "short": phase, "phase": phase, "fastest_ns": 1e6, "standings": standings});
        serde_json::from_value(value).unwrap()
    };
    let places = super::one_place(1e6, &[situation("read-warm"), situation("overwrite")]);
    let named: Vec<(&str, bool)> =
        places.iter().map(|place| (place.store.as_str(), place.slower_at_most.is_some())).collect();
    assert_eq!(named, [("fastest", true), ("wide", false), ("slow", true)]);
}

fn places(advice: &Advice, phase: &str) -> Vec<(String, CandidateRank)> {
    let situation = advice.situations.iter().find(|situation| situation.phase == phase).unwrap();
    situation.standings.iter().map(|standing| (standing.store.clone(), standing.place)).collect()
}

fn named(places: &[(&str, CandidateRank)]) -> Vec<(String, CandidateRank)> {
    places.iter().map(|(store, place)| ((*store).to_owned(), *place)).collect()
}

#[test]
fn one_place_is_the_one_whose_worst_case_is_least() {
    let advice = advise(&[("read-warm", [1.0, 2.0, 4.0]), ("overwrite", [8.0, 2.0, 1.0])], &[]).unwrap();
    let warm = [("a", CandidateRank::Leads), ("b", CandidateRank::Behind), ("c", CandidateRank::Behind)];
    assert_eq!(places(&advice, "read-warm"), named(&warm));
    let next = advice.situations[0].next.as_ref().unwrap();
    assert!(next.store == "b" && (0.95e6..1.05e6).contains(&next.more_ns) && !next.is_little, "{next:?}");
    assert_eq!(places(&advice, "overwrite")[0], ("c".to_owned(), CandidateRank::Leads));
    let worst: Vec<(&str, &str)> =
        advice.one_place.iter().map(|worst| (worst.store.as_str(), worst.phase.as_str())).collect();
    assert_eq!(worst[1..], [("c", "read-warm"), ("a", "overwrite")]);
    // Two ops of 1 ms in a request of 1 ms, compared with one.
    let first = &advice.one_place[0];
    assert!(first.store == "b" && (0.48..0.52).contains(&first.slower), "{first:?}");
    assert!((first.slower..0.6).contains(&first.slower_at_most.unwrap()), "{first:?}");
}

/// Without root, files are evicted but their metadata stays cached: in cold reads nobody can be compared with them.
#[test]
fn files_are_recommended_without_root_though_their_cold_reads_cannot_be_compared() {
    let levels =
        [("read-warm", [1.0, 2.0, 4.0]), ("read-cold", [1.0, 2.0, 4.0]), ("overwrite", [1.0, 2.0, 4.0])];
    let lukewarm =
        |candidate: usize, kind: &str| (candidate, "read-cold", json!({"cache": "lukewarm", "kind": kind}));
    let changes = [lukewarm(0, "files"), lukewarm(1, "embedded"), lukewarm(2, "embedded")];
    let advice = advise(&levels, &changes).unwrap();
    assert_eq!(advice.not_counted, ["read-cold"]);
    let stores: Vec<&str> = advice.one_place.iter().map(|worst| worst.store.as_str()).collect();
    assert_eq!(stores, ["a", "b", "c"]);
    assert_eq!(advise(&levels, &[]).unwrap().not_counted, [""; 0]);
}

#[test]
fn the_next_choice_has_the_interval_of_the_ranking() {
    let advice = advise(&[("read-warm", [1.0, 2.0, 4.0])], &[]).unwrap();
    let times = advice.situations[0].next.as_ref().unwrap().times.unwrap();
    let (low, high) = (times.low.unwrap(), times.high.unwrap());
    assert!(low < times.median && times.median < high && (1.9..2.1).contains(&times.median), "{times:?}");
    // It is the inverse of a ratio, so its ends change places.
    assert!(1.5 < low && high < 2.7, "{times:?}");
}

#[test]
fn too_few_rounds_decide_nothing() {
    let levels = [("read-warm", [1.0, 2.0, 4.0]), ("overwrite", [1.0, 2.0, 4.0])];
    let four = |level| {
        let rounds = cell("x", "read-warm", &around(level, 0)[..4], json!({}));
        json!({"rounds": rounds["rounds"]})
    };
    let advice = advise(&levels, &[(1, "read-warm", four(2.0))]).unwrap();
    let warm =
        [("a", CandidateRank::Undecided), ("b", CandidateRank::Undecided), ("c", CandidateRank::Undecided)];
    assert_eq!(places(&advice, "read-warm"), named(&warm));
    let of_phase = &advice.situations[0];
    assert_eq!((of_phase.rounds, super::rounds_to_decide(of_phase)), (4, Some(5)));
    assert!(of_phase.next.is_none() && advice.one_place.is_empty(), "{advice:?}");
    // Each kind of work is decided separately.
    assert_eq!(places(&advice, "overwrite")[0], ("a".to_owned(), CandidateRank::Leads));
    assert_eq!(super::rounds_to_decide(&advice.situations[1]), None);
}

#[test]
fn rounds_that_differ_too_much_decide_nothing_among_those_in_front() {
    // Its times vary from 0.4 to 3 times its level between rounds; those of the fastest candidate do not change.
    let wild: Vec<f64> = around(1.1, 1).iter().zip([3.0, 0.4].iter().cycle()).map(|(a, b)| a * b).collect();
    let wild = json!({"rounds": cell("x", "read-warm", &wild, json!({}))["rounds"]});
    let advice = advise(&[("read-warm", [1.0, 1.1, 40.0])], &[(1, "read-warm", wild)]).unwrap();
    let places = places(&advice, "read-warm");
    assert!(places[..2].iter().all(|(_, place)| *place == CandidateRank::Undecided), "{places:?}");
    assert_eq!(places[2], ("c".to_owned(), CandidateRank::Behind));
    let situation = &advice.situations[0];
    assert_eq!(super::rounds_to_decide(situation), Some(2 * situation.rounds));
}

#[test]
fn no_place_is_recommended_that_others_look_faster_than() {
    let levels = [("read-warm", [1.0, 1.5, 4.0]), ("overwrite", [1.0, 2.0, 4.0])];
    let short = json!({"not_ranked": {"code": "too-short", "ops": 95, "seconds": 0.01}});
    let decided = advise(&levels, &[]).unwrap();
    assert!(decided.undecided.is_none() && decided.one_place[0].store == "a");
    let advice = advise(&levels, &[(0, "overwrite", short.clone())]).unwrap();
    let undecided = advice.undecided.unwrap();
    assert_eq!((undecided.phase.as_str(), undecided.stores), ("overwrite", vec!["a".to_owned()]));
    assert!(advice.one_place.is_empty());
    // One that looks slower changes nothing.
    let slower = advise(&levels, &[(2, "overwrite", short)]).unwrap();
    assert!(slower.undecided.is_none() && slower.one_place[0].store == "a", "{slower:?}");
    // One that promises less is faster for that reason.
    let weaker = json!({"not_ranked": {"code": "weaker-class", "class": "none"}});
    let weaker = advise(&levels, &[(0, "overwrite", weaker)]).unwrap();
    assert!(weaker.undecided.is_none() && weaker.one_place[0].store == "b", "{weaker:?}");
}

#[test]
fn who_is_faster_with_the_harness_leads_though_the_harness_is_most_of_it() {
    let share = |share: f64| json!({"harness_share": share, "not_ranked": {"code": "mostly-harness", "share": share}});
    let levels = [("read-warm", [1.0, 2.0, 3.0]), ("overwrite", [1.0, 1.0, 1.0])];
    let advice = advise(&levels, &[(0, "read-warm", share(0.6))]).unwrap();
    assert_eq!(places(&advice, "read-warm")[0], ("a".to_owned(), CandidateRank::Leads));
    let warm = &advice.situations[0].standings;
    assert!(warm[0].is_bound && !warm[1].is_bound, "{warm:?}");
    // At most 0.4 of its second are the store's, so the next takes at worst 5 times as long, not 2.
    assert!((5.0..5.3).contains(&warm[1].times_at_most.unwrap()), "{warm:?}");
    // One that is slower including the harness may be faster without.
    let advice = advise(&levels, &[(2, "read-warm", share(0.6))]).unwrap();
    assert_eq!(places(&advice, "read-warm")[2], ("c".to_owned(), CandidateRank::NotRanked));
    assert!(advice.one_place.iter().all(|worst| worst.store != "c"), "{advice:?}");
}

#[test]
fn who_promises_something_else_is_not_compared() {
    let more = json!({"loss": {"after_kill": "nothing", "after_power_cut": "nothing"}});
    let levels = [("read-warm", [1.0, 1.0, 0.5]), ("overwrite", [1.0, 2.0, 0.5])];
    let advice = advise(&levels, &[(2, "overwrite", more)]).unwrap();
    let overwrite = [("a", CandidateRank::Leads), ("b", CandidateRank::Behind), ("c", CandidateRank::Apart)];
    assert_eq!(places(&advice, "overwrite"), named(&overwrite));
    assert_eq!(advice.one_place.iter().map(|worst| worst.store.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn where_nothing_can_be_chosen_nothing_is_advised() {
    let failed = |number| {
        (number, "read-warm", json!({"not_ranked": {"code": "too-short", "ops": 3, "seconds": 0.001}}))
    };
    let levels = [("read-warm", [1.0, 2.0, 3.0])];
    assert!(advise(&levels, &[0, 1].map(failed)).is_none());
    let one = advise(&levels, &[failed(0)]).unwrap();
    assert!(one.one_place.is_empty(), "of one kind of work its leaders are the answer: {one:?}");
}

/// Of the three, only `c` has transactions.
#[test]
fn who_does_not_serve_what_is_needed_stands_in_no_column() {
    let levels = [("read-warm", [1.0, 2.0, 4.0]), ("overwrite", [8.0, 2.0, 1.0])];
    let all = of_plan("need = ['ranges', 'durable']", &levels, &[]).unwrap();
    assert!(all.unfit.is_empty() && all.fit == ["a", "b", "c"], "{all:?}");
    assert_eq!(all.situations, advise(&levels, &[]).unwrap().situations);
    let one = of_plan("need = ['ranges', 'transactions']", &levels, &[]).unwrap();
    assert_eq!(one.fit, ["c"]);
    let unfit: Vec<(&str, &[Need])> =
        one.unfit.iter().map(|unfit| (unfit.store.as_str(), unfit.lacks.as_deref().unwrap())).collect();
    assert_eq!(unfit, [("a", &[Need::Transactions][..]), ("b", &[Need::Transactions][..])]);
    assert!(one.situations.is_empty(), "there is nothing left to choose from: {one:?}");
}

#[test]
fn a_difference_is_worth_less_beside_a_longer_request() {
    let levels = [("read-warm", [1.0, 2.0, 4.0]), ("overwrite", [8.0, 2.0, 1.0])];
    let long = of_plan("request = '1s'", &levels, &[]).unwrap();
    assert_eq!(long.request_ns, 1e9);
    // 1 ms is a thousandth of it, but doubles a request of 1 ms.
    assert!(long.situations[0].next.as_ref().unwrap().is_little, "{long:?}");
    assert!((0.0009..0.0011).contains(&long.one_place[0].slower), "{long:?}");
}

#[test]
fn a_mix_without_writes_has_no_column_of_writes() {
    let levels = [("read-warm", [1.0, 2.0, 4.0]), ("overwrite", [8.0, 2.0, 1.0])];
    let phases = |mix: &str| -> Vec<String> {
        let advice = of_plan(&format!("mix = {mix}"), &levels, &[]).unwrap();
        advice.situations.into_iter().map(|situation| situation.phase).collect()
    };
    assert_eq!(phases("{read = 1.0}"), ["read-warm"]);
    assert_eq!(phases("{overwrite = 1.0, read = 0.0}"), ["overwrite"]);
    assert_eq!(phases("{read = 0.5, put = 0.5}"), ["read-warm", "overwrite"]);
}
