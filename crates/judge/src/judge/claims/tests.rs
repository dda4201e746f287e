//! Verdicts on synthetic rounds with known answers: both directions, ties, magnitude, order, missing candidates,
//! contradictions.

use serde_json::{Value, json};

use super::judge;
use crate::judge::fixture::{ROUNDS, around, candidate, cell, result};
use crate::judge::{cells, histogram};
use crate::plan::{ClaimText, DetailedOperand, PlanText, SHIPPED};
use crate::result::{Claim, ClaimVerdict, Magnitude, RoundMemory, RunResult};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

/// Judges a plan's claims on these cells.
fn judged(claims: &str, cells: Vec<Value>) -> Vec<Claim> {
    judge(&result(claims, cells, vec![]))
}

/// Judges one claim of this form, with candidate `a` at this level, `b` at 1 and `c` at 3.
fn one(form: &str, a: f64) -> Claim {
    let claims = format!("[[claim]]\nid = 'X-1'\nstatement = 's'\nphase = 'read'\n{form}");
    let cells = vec![
        cell("a", "read", &around(a, 0), json!({})),
        cell("b", "read", &around(1.0, 1), json!({})),
        cell("c", "read", &around(3.0, 2), json!({})),
    ];
    judged(&claims, cells).remove(0)
}

fn verdict(form: &str, a: f64) -> ClaimVerdict {
    one(form, a).verdict
}

#[test]
fn a_side_is_confirmed_refuted_or_neither() {
    use ClaimVerdict::*;
    let faster = "candidates = ['a', 'b']\nexpect = {high = 1.0}";
    assert_eq!(verdict(faster, 0.5), Confirmed);
    assert_eq!(verdict(faster, 2.0), Refuted);
    let slower = "candidates = ['a', 'b']\nexpect = {low = 1.0}";
    assert_eq!(verdict(slower, 2.0), Confirmed);
    assert_eq!(verdict(slower, 0.5), Refuted);
    let between = "candidates = ['a', 'b']\nexpect = {low = 1.25, high = 2.5}";
    assert_eq!(verdict(between, 1.5), Confirmed);
    assert_eq!((verdict(between, 1.1), verdict(between, 3.0)), (Refuted, Refuted));
    assert_eq!(verdict(between, 1.25), CannotTellApart);
}

/// Returns a run of a plan with these claims, in which `new` is measured in place of `gone`; it is slower than `b` and
/// faster than `c`.
fn with_successor(claims: &str) -> RunResult {
    let successor = "[[successor]]\nof = 'gone'\ncandidate = 'new'\nwords = 'new in place of gone'\n";
    let cells = [("b", 1.0), ("new", 2.0), ("c", 3.0)].into_iter().enumerate();
    let cells = cells.map(|(salt, (store, seconds))| cell(store, "read", &around(seconds, salt), json!({})));
    result(&format!("{successor}{claims}"), cells.collect(), vec![])
}

#[test]
fn a_successor_has_verdicts_of_its_own_and_none_on_the_document() {
    use ClaimVerdict::*;
    let claims = "
        [[claim]]
        id = 'X-1'
        statement = 's'
        phase = 'read'
        candidates = ['gone', 'b']
        expect = {low = 1.0}
        published = 2.0
        [[claim]]
        id = 'X-2'
        statement = 's'
        phase = 'read'
        all-of = [
            {candidates = ['b', {candidate = 'gone', phase = 'read'}], expect = {high = 1.0}},
            {candidates = ['b', 'c'], expect = {high = 1.0}},
        ]
        [[claim]]
        id = 'X-3'
        statement = 's'
        phase = 'read'
        candidates = ['b', 'c']
        expect = {high = 1.0}";
    let mut result = with_successor(claims);
    result.claims = judge(&result);
    let found: Vec<(&str, ClaimVerdict, bool)> = result
        .claims
        .iter()
        .map(|claim| (claim.id.as_str(), claim.verdict, claim.in_place.is_some()))
        .collect();
    assert_eq!(
        found,
        [
            ("X-1", NotTestable, false),
            ("X-1 by new", Confirmed, true),
            ("X-2", NotTestable, false),
            ("X-2 by new", Confirmed, true),
            ("X-3", Confirmed, false),
        ]
    );
    assert_eq!(result.claims[1].candidates, ["new", "b"]);
    let said = super::in_a_hurry(&result).unwrap();
    assert!(
        said.contains("1 confirmed on this machine (X-3); 2 not testable in this run (X-1, X-2)."),
        "{said}"
    );
    assert!(said.contains("With new in place of gone: 2 confirmed on this machine (X-1, X-2)."), "{said}");
}

#[test]
fn a_step_of_an_order_is_a_successors_where_it_is_about_it() {
    let claims = "
        [[claim]]
        id = 'X-1'
        statement = 's'
        phase = 'read'
        order = ['b', 'gone', 'c']
        [[claim]]
        id = 'X-2'
        statement = 's'
        phase = 'read'
        order = ['gone', 'b', 'c']";
    let claims = judge(&with_successor(claims));
    let found = |id: &str| {
        let claim = claims.iter().find(|claim| claim.id == id).unwrap();
        let of_steps: Vec<bool> = claim.parts.iter().map(|part| part.in_place.is_some()).collect();
        (claim.verdict, of_steps)
    };
    assert_eq!(found("X-1 by new"), (ClaimVerdict::Confirmed, vec![true, true]));
    assert_eq!(found("X-2 by new"), (ClaimVerdict::Refuted, vec![true, false]));
    assert_eq!(found("X-1"), (ClaimVerdict::NotTestable, vec![false, false]));
}

#[test]
fn a_fill_that_had_all_memory_is_not_held_against_what_the_plan_limits() {
    let said = |memory: &str, limits: [Option<u64>; 2]| {
        let plan = format!(
            "{memory}
            [[claim]]
            id = 'X'
            statement = 's'
            candidates = [{{candidate = 'a', phase = 'write'}}, {{candidate = 'a', phase = 'fill'}}]
            expect = {{high = 0.8}}"
        );
        let cells = vec![
            cell("a", "write", &around(1.0, 0), json!({})),
            cell("a", "fill", &around(2.0, 1), json!({})),
        ];
        let mut result = result(&plan, cells, vec![]);
        for (cell, limit_bytes) in result.results.iter_mut().zip(limits) {
            let memory = RoundMemory { limit_bytes, ..RoundMemory::default() };
            cell.rounds.iter_mut().for_each(|round| round.memory = Some(memory));
        }
        let claim = judge(&result).remove(0);
        (claim.verdict, claim.note.unwrap_or_default())
    };
    let (verdict, note) = said("memory = '1GB'", [Some(1), None]);
    assert_eq!(verdict, ClaimVerdict::NotTestable);
    assert_eq!(note, "`fill` had all of the machine's memory, and `write` had the plan's.");
    assert_eq!(said("memory = '1GB'", [Some(1), Some(1)]).0, ClaimVerdict::Confirmed);
    // A limit on a single phase is intended to distinguish it from the others.
    assert_eq!(said("", [Some(1), None]).0, ClaimVerdict::Confirmed);
}

#[test]
fn a_tie_takes_no_side_and_only_equal_confirms_equality() {
    use ClaimVerdict::*;
    let side = one("candidates = ['a', 'b']\nexpect = {low = 1.0}", 1.012);
    assert_eq!(side.verdict, CannotTellApart);
    assert!(side.note.unwrap().contains("equal within 3 %"));
    let equal = "candidates = ['a', 'b']\nexpect = {equal = true}";
    assert_eq!(verdict(equal, 1.0), Confirmed);
    assert_eq!(verdict(equal, 1.03), CannotTellApart);
    assert_eq!((verdict(equal, 1.2), verdict(equal, 0.8)), (Refuted, Refuted));
    let about = "candidates = ['a', 'b']\nexpect = {equal = true, low = 0.9, high = 1.1}";
    assert_eq!((verdict(about, 1.0), verdict(about, 1.06)), (Confirmed, CannotTellApart));
    assert_eq!((verdict(about, 1.2), verdict(about, 0.8)), (Refuted, Refuted));
}

/// Returns a cell whose ops have steps of these times in nanoseconds, each in this number of ops.
fn stepped(store: &str, steps: &[(&str, u64, u64)]) -> Value {
    let mut value = cell(store, "read", &around(1.0, 0), json!({}));
    let encoded = steps.iter().map(|(name, ns, times)| {
        let mut histogram = histogram::new();
        histogram.record_n(*ns, u32::try_from(*times).unwrap()).unwrap();
        ((*name).to_owned(), Value::from(histogram::encode(&histogram).unwrap()))
    });
    let encoded: serde_json::Map<String, Value> = encoded.collect();
    for round in value["rounds"].as_array_mut().unwrap() {
        round["histogram"]["steps"] = Value::Object(encoded.clone());
    }
    value
}

#[test]
fn steps_are_added_up_and_divided_among_all_ops() {
    let claim = |candidates: &str| {
        format!(
            "[[claim]]\nid = 'X-1'\nstatement = 's'\nphase = 'read'\nmetric = 'steps'\nexpect = {{low = 1.0}}\n{candidates}"
        )
    };
    // The first of 1,000 ops is kept apart, so 999 have steps.
    let cells = || {
        vec![
            stepped("a", &[("find", 3_000, 999), ("insert", 30_000, 111), ("put", 90_000, 999)]),
            stepped("b", &[("find", 2_000, 999)]),
        ]
    };
    let found = judged(
        &claim("steps = ['find', 'insert']\ncandidates = ['a', {candidate = 'b', steps = ['find']}]"),
        cells(),
    )
    .remove(0);
    // 3 us plus a ninth of 30 us, divided by 2 us.
    assert!((found.today.unwrap().median - 3.1667).abs() < 0.01, "{:?}", found.today);
    assert_eq!(found.verdict, ClaimVerdict::Confirmed);
    // All 999 ops took this step: the mean must not be lower than its time, within the three digits of a histogram.
    let less =
        "quantity = 'difference'\nsteps = ['put']\ncandidates = ['a', {candidate = 'b', steps = ['find']}]";
    let found = judged(&claim(less), cells()).remove(0);
    assert!((found.today.unwrap().median / 88e-6 - 1.0).abs() < 5e-4, "{:?}", found.today);
    let none = judged(&claim("steps = ['put']\ncandidates = ['a', 'b']"), cells()).remove(0);
    assert_eq!(none.verdict, ClaimVerdict::NotTestable);
    assert_eq!(none.note.unwrap(), "Ops of `b` have no step `put` here, but find.");
}

#[test]
fn plans_name_steps_that_there_are() {
    // With scripts that time themselves, so that the steps they can report are declared.
    let timed = |adapter: &crate::store::Adapter| {
        let mut options = crate::plan::defaults(adapter).shown();
        options.insert("timed".to_owned(), "true".to_owned());
        (adapter.traits)(&crate::store::Options::new(options)).steps
    };
    let told: Vec<String> = crate::stores::adapters().flat_map(timed).collect();
    let check = |plan: &str, target: DetailedOperand| {
        let is_known = |step: &String| cells::STEPS.contains(&step.as_str()) || told.contains(step);
        let stranger = target.steps.iter().find(|step| !is_known(step));
        assert_eq!(stranger, None, "{plan}: {}", target.candidate);
        target.steps.len()
    };
    fn operands(claim: &ClaimText) -> Vec<DetailedOperand> {
        let own = claim.candidates.iter().map(|candidate| claim.target(candidate));
        own.chain(claim.parts().iter().flat_map(operands)).collect()
    }
    let mut named = 0;
    for (name, text) in SHIPPED {
        let plan = PlanText::parse(text).unwrap();
        named += plan.claim.iter().flat_map(operands).map(|target| check(name, target)).sum::<usize>();
        for table in &plan.published {
            let candidates = table.series.iter().filter_map(|series| series.today.as_ref());
            named += candidates.map(|candidate| check(name, table.target(candidate))).sum::<usize>();
        }
    }
    assert!(named > 0);
}

#[test]
fn magnitude_is_apart_from_the_verdict() {
    let of = |a: f64| {
        let claim = one("candidates = ['a', 'b']\nexpect = {low = 1.0}\npublished = 4.0", a);
        (claim.verdict, claim.magnitude.unwrap())
    };
    assert_eq!(of(3.0), (ClaimVerdict::Confirmed, Magnitude::Holds));
    assert_eq!(of(2.0), (ClaimVerdict::Confirmed, Magnitude::Open));
    assert_eq!(of(8.5), (ClaimVerdict::Confirmed, Magnitude::Refuted));
    // 1.5 is within a factor of 2 of the published 1.1, but not what the claim means.
    let slightly = |a: f64| {
        let form = "candidates = ['a', 'b']\nexpect = {low = 1.0}\npublished = 1.1\nmagnitude = {low = 1.05, high = 1.25}";
        one(form, a).magnitude.unwrap()
    };
    assert_eq!((slightly(1.5), slightly(1.15)), (Magnitude::Refuted, Magnitude::Holds));
    assert_eq!(slightly(1.25), Magnitude::Open);
    // Without an effect, its size does not matter.
    let refuted = one("candidates = ['a', 'b']\nexpect = {low = 1.0}\npublished = 1.1", 0.8);
    assert_eq!((refuted.verdict, refuted.magnitude), (ClaimVerdict::Refuted, None));
    let unpublished = one("candidates = ['a', 'b']\nexpect = {low = 1.0}", 2.0);
    assert_eq!(unpublished.magnitude, None);
    // A document may publish a range and no figure.
    let ranged =
        |a: f64| one("candidates = ['a', 'b']\nexpect = {low = 1.0}\nmagnitude = {low = 1.5, high = 2.0}", a);
    assert_eq!(
        (ranged(1.75).verdict, ranged(1.75).magnitude),
        (ClaimVerdict::Confirmed, Some(Magnitude::Holds))
    );
    assert_eq!(
        (ranged(1.3).verdict, ranged(1.3).magnitude),
        (ClaimVerdict::Confirmed, Some(Magnitude::Refuted))
    );
}

#[test]
fn impossible_figures_are_not_held_against_todays() {
    let form = "candidates = ['a', 'b']\nexpect = {low = 1.0}\npublished = 2.0\nimpossible = '2 us for a round trip'";
    let claim = one(form, 2.0);
    assert_eq!((claim.verdict, claim.magnitude), (ClaimVerdict::Confirmed, None));
    assert!(claim.note.unwrap().contains("2 us for a round trip"));
}

#[test]
fn what_is_missing_is_not_testable_and_said() {
    let why = |form: &str| {
        let claim = one(form, 1.0);
        assert_eq!((claim.verdict, claim.today), (ClaimVerdict::NotTestable, None), "{form}");
        claim.note.unwrap()
    };
    assert!(why("candidates = ['a', 'z']\nexpect = {low = 1.0}").contains("`z` is not part"));
    assert!(
        why("candidates = ['a', {candidate = 'b', phase = 'w'}]\nexpect = {low = 1.0}").contains("phase `w`")
    );
    assert!(why("not-testable = 'it needs two machines'").contains("two machines"));
    assert!(why("metric = 'disk'\ncandidates = ['a', 'b']\nexpect = {low = 1.0}").contains("no figures"));
    let claim = "[[claim]]\nid = 'X'\nstatement = 's'\ncandidates = ['a', 'b']\nexpect = {low = 1.0}";
    let missing = cell(
        "b",
        "read",
        &[],
        json!({"status": "not-available", "not_ranked": {"code": "not-available", "why": "no `x`"}}),
    );
    // Also if the measured cell belongs to another comparison group.
    for over in [json!({}), json!({"options": {"key": "integer"}})] {
        let found = judged(claim, vec![cell("a", "read", &around(1.0, 0), over), missing.clone()]).remove(0);
        assert_eq!(found.verdict, ClaimVerdict::NotTestable);
        assert!(found.note.unwrap().contains("no `x`"));
    }
    let once =
        judged(claim, vec![cell("a", "read", &[1.0], json!({})), cell("b", "read", &[2.0], json!({}))]);
    assert!(once[0].note.as_ref().unwrap().contains("one round only"));
}

#[test]
fn what_is_not_ranked_decides_nothing_but_a_cache_may() {
    let claim = "[[claim]]\nid = 'X'\nstatement = 's'\ncandidates = ['a', 'b']\nexpect = {high = 1.0}";
    let with = |over: Value| {
        let a = cell("a", "read", &around(1.0, 0), over);
        judged(claim, vec![a, cell("b", "read", &around(2.0, 1), json!({}))]).remove(0)
    };
    let bound = with(json!({"not_ranked": {"code": "mostly-harness", "share": 0.4}}));
    assert_eq!(bound.verdict, ClaimVerdict::NotTestable);
    assert!(bound.note.unwrap().contains("client-bound"));
    let cache = with(json!({"kind": "cache"}));
    assert_eq!(cache.verdict, ClaimVerdict::Confirmed);
    let failed =
        with(json!({"not_ranked": {"code": "failed", "why": "lost"}, "kind": "cache", "status": "failed"}));
    assert_eq!(failed.verdict, ClaimVerdict::NotTestable);
    let other = with(json!({"traits": {"integer_keys": true}}));
    assert!(other.note.unwrap().contains("not comparable"));
}

#[test]
fn an_order_is_confirmed_pair_by_pair() {
    use ClaimVerdict::*;
    let order = one("order = ['b', 'a', 'c']\npublished-steps = [2.0, 1.5]", 2.0);
    assert_eq!((order.verdict, order.parts.len()), (Confirmed, 2));
    assert_eq!(order.parts[0].candidates, ["a", "b"]);
    assert_eq!(order.parts[1].published, Some(1.5));
    assert_eq!(verdict("order = ['b', 'a', 'c']", 4.0), Refuted);
    assert_eq!(verdict("order = ['b', 'a', 'c']", 1.0), CannotTellApart);
    let lacking = one("order = ['b', 'a', 'z']", 2.0);
    assert_eq!(lacking.verdict, NotTestable);
    assert!(lacking.note.unwrap().contains("`z` is not part"));
    // A refuted claim stays refuted whatever is missing.
    assert_eq!(verdict("order = ['a', 'b', 'z']", 2.0), Refuted);
}

#[test]
fn one_of_several_is_enough_where_the_claim_says_so() {
    use ClaimVerdict::*;
    let form = |expect: &str| {
        format!(
            "any-of = [{{candidates = ['a', 'b'], expect = {expect}}}, {{candidates = ['c', 'b'], expect = {expect}}}]"
        )
    };
    assert_eq!(verdict(&form("{high = 1.0}"), 0.5), Confirmed);
    assert_eq!(verdict(&form("{high = 1.0}"), 2.0), Refuted);
    assert_eq!(verdict(&form("{high = 1.0}"), 1.0), CannotTellApart);
}

/// The same pair is decided on its own, but not when judged together with many others.
#[test]
fn more_questions_need_surer_answers() {
    let noisy: Vec<f64> = [1.35, 0.92, 1.22, 1.05, 1.31, 0.95, 1.18, 1.02, 1.25, 0.97].to_vec();
    let of = |claims: &str| {
        let cells = vec![cell("a", "read", &noisy, json!({})), cell("b", "read", &[1.0; ROUNDS], json!({}))];
        judged(claims, cells).remove(0)
    };
    let pair = "{candidates = ['a', 'b'], expect = {low = 1.0}}";
    let alone = of(&format!("[[claim]]\nid = 'X'\nstatement = 's'\nall-of = [{pair}]"));
    assert_eq!(alone.verdict, ClaimVerdict::Confirmed);
    let many = [pair; 40].join(",");
    let many = of(&format!("[[claim]]\nid = 'X'\nstatement = 's'\nall-of = [{many}]"));
    assert_eq!(many.verdict, ClaimVerdict::CannotTellApart);
    let width = |claim: &Claim| claim.parts[0].today.unwrap().high.unwrap();
    assert!(width(&many) > width(&alone));
}

/// Quantities after the first undecided one are as uncertain as that one.
#[test]
fn intervals_of_what_stays_open_are_as_wide_as_judging_them_together_needs() {
    let noisy = [1.35, 0.92, 1.22, 0.85, 1.31, 0.95, 1.18, 0.88, 1.25, 0.97];
    let cells = vec![cell("a", "read", &noisy, json!({})), cell("b", "read", &[1.0; ROUNDS], json!({}))];
    let pair = "{candidates = ['a', 'b'], expect = {low = 1.0}}";
    let three = [pair; 3].join(",");
    let claim = judged(&format!("[[claim]]\nid = 'X'\nstatement = 's'\nall-of = [{three}]"), cells).remove(0);
    let today: Vec<_> = claim.parts.iter().map(|part| part.today.unwrap()).collect();
    assert_eq!(claim.verdict, ClaimVerdict::CannotTellApart);
    assert!(today[0] == today[1] && today[1] == today[2], "{today:?}");
}

#[test]
fn failures_that_were_not_seen_are_not_ruled_out_by_few_attempts() {
    let of = |ops: u64| {
        let claim = "[[claim]]\nid = 'X'\nstatement = 's'\nphase = 'write'\nquantity = 'difference'\n\
                     metric = 'failed-attempts'\ncandidates = ['a', 'b']\nexpect = {low = 0.001}";
        let cells = ["a", "b"].map(|store| cell(store, "write", &[1.0; ROUNDS], json!({"ops": ops})));
        judged(claim, cells.to_vec()).remove(0)
    };
    // Of 1,000 attempts, 3.7 may fail: -ln(0.025).
    let few = of(1000);
    assert_eq!(few.verdict, ClaimVerdict::CannotTellApart);
    assert!((few.today.unwrap().high.unwrap() - 0.00368).abs() < 1e-4, "{few:?}");
    assert_eq!(of(10_000).verdict, ClaimVerdict::Refuted);
}

#[test]
fn candidates_on_one_rung_of_a_ladder_are_not_proved_to_be_equal() {
    let form = |expect: &str| {
        format!(
            "[[claim]]\nid = 'X'\nstatement = 's'\nphase = 'ramp'\ncandidates = ['a', 'b']\nexpect = {expect}"
        )
    };
    let on = |store: &str, seconds: f64| {
        let mut cell = cell(store, "ramp", &[seconds; ROUNDS], json!({}));
        for round in cell["rounds"].as_array_mut().unwrap() {
            round["open"] = json!({"offered_ops_per_s": 1000.0 / seconds, "all_busy_share": 0.0, "drain_seconds": 0.0,
                                   "sustained": true, "wake_late_p50_ns": 0, "wake_late_p99_ns": 0});
            round["rungs"] = json!([{"offered_ops_per_s": 1000.0 / seconds, "achieved_share": 1.0, "response_ns": 1, "ops": 1000}]);
        }
        cell
    };
    let verdict =
        |expect: &str, a: f64| judged(&form(expect), vec![on("a", a), on("b", 1.0)]).remove(0).verdict;
    assert_eq!(verdict("{equal = true}", 1.0), ClaimVerdict::CannotTellApart);
    assert_eq!(verdict("{equal = true}\nmetric = 'time-for-a-blob'", 1.0), ClaimVerdict::CannotTellApart);
    assert_eq!(verdict("{low = 1.01}", 1.25), ClaimVerdict::CannotTellApart);
    assert_eq!(verdict("{low = 1.0}", 1.6), ClaimVerdict::Confirmed);
}

#[test]
fn parts_that_compare_something_else_than_time_say_what() {
    let pair = |metric: &str| format!("{{candidates = ['a', 'b'], {metric}expect = {{low = 1.0}}}}");
    let parts = [pair(""), pair("metric = 'requests', ")].join(",");
    let claims = format!("[[claim]]\nid = 'X'\nstatement = 's'\nphase = 'read'\nall-of = [{parts}]");
    let cells = ["a", "b"].map(|store| cell(store, "read", &[1.0; ROUNDS], json!({}))).to_vec();
    let claim = judged(&claims, cells).remove(0);
    let said: Vec<&str> = claim.parts.iter().map(|part| part.statement.as_str()).collect();
    assert_eq!(said, ["a (read) against b (read)", "a (read, requests) against b (read, requests)"]);
}

#[test]
fn differences_ratios_of_ratios_and_extremes() {
    let difference = one(
        "quantity = 'difference'\ncandidates = ['a', 'b']\nexpect = {low = 0.0}\npublished = 0.0015",
        2.5,
    );
    // Seconds on another machine are not compared with this run's.
    assert_eq!((difference.verdict, difference.magnitude), (ClaimVerdict::Confirmed, None));
    assert!((difference.today.unwrap().median - 0.0015).abs() < 1e-5, "{difference:?}");
    let ratios =
        one("quantity = 'ratio-of-ratios'\ncandidates = ['a', 'b', 'c', 'b']\nexpect = {high = 1.0}", 1.0);
    assert_eq!(ratios.verdict, ClaimVerdict::Confirmed);
    assert!((ratios.today.unwrap().median - 1.0 / 3.0).abs() < 0.01);
    let form = "quantity = 'max-over-min'\ncandidates = ['a', 'b', 'c']\nexpect = {high = 1.3}";
    assert_eq!(verdict(form, 1.0), ClaimVerdict::Refuted);
    let two = "quantity = 'max-over-min'\ncandidates = ['a', 'b']\nexpect = {high = 1.3}";
    assert_eq!((verdict(two, 1.2), verdict(two, 0.85)), (ClaimVerdict::Confirmed, ClaimVerdict::Confirmed));
}

#[test]
fn variation_is_compared_by_how_often_chance_alone_would_do_it() {
    let form = "[[claim]]\nid = 'X'\nstatement = 's'\nquantity = 'cv'\ncandidates = ['a', 'b']\nexpect = {low = 1.0}";
    let of = |factor: f64| {
        let wild: Vec<f64> = around(1.0, 0).iter().map(|v| 1.0 + (v - 1.0) * factor).collect();
        let cells = vec![cell("a", "read", &wild, json!({})), cell("b", "read", &around(1.0, 3), json!({}))];
        judged(form, cells).remove(0)
    };
    assert_eq!(of(10.0).verdict, ClaimVerdict::Confirmed);
    assert_eq!(of(1.2).verdict, ClaimVerdict::CannotTellApart);
    assert_eq!(of(0.1).verdict, ClaimVerdict::Refuted);
    // Ten times the noise is ten times the distance from the median.
    let today = of(10.0).today.unwrap();
    assert!((today.median / of(1.0).today.unwrap().median - 10.0).abs() < 0.3, "{today:?}");
}

/// How often two candidates with the same noise, and stalls in a tenth of the rounds, are said to vary differently.
#[test]
fn stalls_are_no_reason_to_say_that_a_candidate_varies_more() {
    let form = "[[claim]]\nid = 'X'\nstatement = 's'\nquantity = 'cv'\ncandidates = ['a', 'b']\nexpect = {low = 1.0}";
    let mut random = SmallRng::seed_from_u64(11);
    let mut share_decided = |stalls: f64| {
        let mut candidate = |store: &str| {
            let seconds: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    let noise: f64 = StandardNormal.sample(&mut random);
                    let stall = if random.random_bool(stalls) { 1.0 / 0.9 } else { 1.0 };
                    (0.02 * noise).exp() * stall
                })
                .collect();
            cell(store, "read", &seconds, json!({}))
        };
        let runs = 1000;
        let decided = (0..runs).filter(|_| {
            let claim = judged(form, vec![candidate("a"), candidate("b")]).remove(0);
            claim.verdict != ClaimVerdict::CannotTellApart
        });
        decided.count() as f64 / f64::from(runs)
    };
    let (without, with) = (share_decided(0.0), share_decided(0.1));
    assert!(without < 0.055 && with < 0.1, "{without} without stalls, {with} with them");
}

#[test]
fn a_slope_is_the_factor_from_part_to_part() {
    let parts = |store: &str, factor: f64, salt: usize| -> Vec<Value> {
        let part = |step: usize| {
            let seconds = around(factor.powi(step as i32), salt + step);
            cell(store, &format!("pass.{:02}", step + 1), &seconds, json!({}))
        };
        (0..5).map(part).collect()
    };
    let cells = || [parts("a", 0.9, 0), parts("b", 0.98, 1)].concat();
    let of = |form: &str| {
        let claims =
            format!("[[claim]]\nid = 'X'\nstatement = 's'\nphase = 'pass'\n{form}\nexpect = {{high = 1.0}}");
        judged(&claims, cells()).remove(0)
    };
    let own = of("quantity = 'slope'\ncandidates = ['a']");
    assert!(
        (own.today.unwrap().median - 0.9).abs() < 0.005 && own.verdict == ClaimVerdict::Confirmed,
        "{own:?}"
    );
    let against = of("quantity = 'slope'\ncandidates = ['a', 'b']");
    assert!((against.today.unwrap().median - 0.9 / 0.98).abs() < 0.005, "{against:?}");
    // All parts of a phase together.
    let sum = of("candidates = ['a', 'b']");
    let expected = |f: f64| (0..5).map(|step| f.powi(step)).sum::<f64>();
    assert!((sum.today.unwrap().median - expected(0.9) / expected(0.98)).abs() < 0.01, "{sum:?}");
    let candidates = "[[claim]]\nid = 'X'\nstatement = 's'\nquantity = 'slope'\ncandidates = ['a', 'b', 'c']\nexpect = {low = 1.0}";
    let steps = [1.0, 2.0, 4.0].iter().zip(["a", "b", "c"]).enumerate();
    let cells =
        steps.map(|(salt, (level, candidate))| cell(candidate, "read", &around(*level, salt), json!({})));
    let doubling = judged(candidates, cells.collect()).remove(0);
    assert!((doubling.today.unwrap().median - 2.0).abs() < 0.01);
}

#[test]
fn order_effects_compare_other_rounds_of_the_same_candidate() {
    let claims = "[[claim]]\nid = 'X'\nstatement = 's'\nphase = 'read'\nexpect = {low = 1.1}\n\
                  candidates = [{candidate = 'a', after = 'b'}, {candidate = 'a', before = 'b'}]";
    // In odd rounds it comes after the other and takes twice as long.
    let seconds: Vec<f64> = around(1.0, 0)
        .iter()
        .enumerate()
        .map(|(round, s)| if round % 2 == 0 { s * 2.0 } else { *s })
        .collect();
    let visit = |round: usize, store: &str, position: usize| {
        json!({"round": round, "store": store, "position": position, "seconds": 1.0, "verified": 1,
               "footprint": {"store": store, "logical_bytes": 1}})
    };
    let visits = (1..=ROUNDS).flat_map(|round| {
        let (a, b) = if round % 2 == 1 { (2, 1) } else { (1, 2) };
        [visit(round, "a", a), visit(round, "b", b)]
    });
    let cells = vec![cell("a", "read", &seconds, json!({})), cell("b", "read", &around(1.0, 1), json!({}))];
    let claim = judge(&result(claims, cells, visits.collect())).remove(0);
    assert_eq!(claim.verdict, ClaimVerdict::Confirmed);
    assert!((claim.today.unwrap().median - 2.0).abs() < 0.02, "{claim:?}");
}

#[test]
fn a_share_of_disk_is_a_figure_by_itself() {
    let claims = "[[claim]]\nid = 'X'\nstatement = 's'\nphase = 'fill'\nmetric = 'index'\nquantity = 'value'\n\
                  candidates = ['a']\nexpect = {low = 0.015, high = 0.06}\npublished = 0.03";
    let of_index = |bytes: u64| {
        let visits = (1..=ROUNDS).map(|round| {
            json!({"round": round, "store": "a", "position": 1, "seconds": 1.0, "verified": 1,
                   "footprint": {"store": "a", "logical_bytes": 1000, "after_settle_bytes": 1500, "index_bytes": bytes}})
        });
        let cells = vec![cell("a", "fill", &around(1.0, 0), json!({}))];
        judge(&result(claims, cells, visits.collect())).remove(0)
    };
    let claim = of_index(32);
    assert_eq!((claim.verdict, claim.magnitude), (ClaimVerdict::Confirmed, Some(Magnitude::Holds)));
    assert!((claim.today.unwrap().median - 0.032).abs() < 1e-9, "{claim:?}");
    assert_eq!(of_index(150).verdict, ClaimVerdict::Refuted);
    // A store without separate indexes.
    assert_eq!(of_index(0).verdict, ClaimVerdict::NotTestable);
}

#[test]
fn short_parts_may_be_long_enough_together() {
    let claims = "[[claim]]\nid = 'X'\nstatement = 's'\nphase = 'pass'\ncandidates = ['a', 'b']\nexpect = {high = 1.0}";
    let short = |store: &str, phase: &str, level: f64, salt: usize| {
        let mut value = cell(store, phase, &around(level, salt), json!({"ops": 1000}));
        for round in value["rounds"].as_array_mut().unwrap() {
            round["ops"] = json!(100);
        }
        let why = crate::judge::ranking::too_short([&serde_json::from_value(value.clone()).unwrap()]);
        value["not_ranked"] = json!(why.unwrap());
        value
    };
    let both = |parts: &[&str]| -> Vec<Value> {
        let pairs = parts.iter().flat_map(|part| [short("a", part, 0.005, 0), short("b", part, 0.008, 1)]);
        pairs.collect()
    };
    assert_eq!(judged(claims, both(&["pass.1"]))[0].verdict, ClaimVerdict::NotTestable);
    assert_eq!(judged(claims, both(&["pass.1", "pass.2"]))[0].verdict, ClaimVerdict::Confirmed);
}

#[test]
fn what_sessions_count_is_compared_like_times_but_needs_no_length() {
    let counted = |store: &str, requests: f64| {
        let mut cell = cell(store, "load", &[0.001; 10], json!({}));
        let rounds = cell["rounds"].as_array_mut().unwrap();
        rounds.iter_mut().for_each(|round| {
            round["ops"] = json!(8);
            round["counts"] = json!({"requests": requests, "bytes": 100.0 * requests});
        });
        cell
    };
    let claim = "[[claim]]\nid = 'X-1'\nstatement = 's'\nphase = 'load'\ncandidates = ['a', 'b']\nexpect = {low = 1.0}";
    for metric in ["requests", "received"] {
        let claim = format!("{claim}\nmetric = '{metric}'\npublished = 20.0");
        let judged = judged(&claim, vec![counted("a", 65.0), counted("b", 3.0)]).remove(0);
        assert_eq!(judged.verdict, ClaimVerdict::Confirmed, "{judged:?}");
        assert_eq!(judged.magnitude, Some(Magnitude::Holds));
        let none = judge(&result(
            &claim,
            vec![counted("a", 65.0), cell("b", "load", &[1.0; 10], json!({}))],
            vec![],
        ));
        assert_eq!(none[0].verdict, ClaimVerdict::NotTestable);
    }
}

#[test]
fn a_part_without_words_says_what_is_compared() {
    let said = |candidates: &str| {
        let claim = format!(
            "[[claim]]\nid = 'X-1'\nstatement = 's'\nphase = 'read'\n[[claim.all-of]]\nquantity = 'max-over-min'\ncandidates = {candidates}"
        );
        judged(&claim, vec![])[0].parts[0].statement.clone()
    };
    assert_eq!(said("['a', {candidate = 'b', phase = 'fill'}]"), "a (read) against b (fill)");
    assert_eq!(said("['a', 'b', 'c', 'd', 'e']"), "5 candidates from a to e (read)");
}

/// A noisy candidate that may be the largest keeps the quantity undecided, whichever pair looks most extreme.
#[test]
fn extremes_allow_for_a_noisy_candidate_that_may_be_the_largest() {
    let claim = "[[claim]]\nid = 'X-1'\nstatement = 's'\nphase = 'read'\nquantity = 'max-over-min'\n\
                 candidates = ['a', 'b', 'c']\nexpect = {high = 1.3}";
    let noisy: Vec<f64> =
        (0..ROUNDS).map(|round| if round % 2 == 0 { 1.15 * 1.6 } else { 1.15 / 1.6 }).collect();
    let cells = |c: &[f64]| {
        vec![
            cell("a", "read", &around(1.0, 0), json!({})),
            cell("b", "read", &around(1.2, 1), json!({})),
            cell("c", "read", c, json!({})),
        ]
    };
    assert_eq!(judged(claim, cells(&around(1.15, 2)))[0].verdict, ClaimVerdict::Confirmed);
    let open = &judged(claim, cells(&noisy))[0];
    assert_eq!(open.verdict, ClaimVerdict::CannotTellApart, "{:?}", open.today);
}

/// Cells that were lukewarm, failed, or belong to an unobserved server are not testable.
#[test]
fn figures_that_stand_for_something_else_are_not_testable() {
    let time = "[[claim]]\nid = 'X-1'\nstatement = 's'\nphase = 'read'\ncandidates = ['a', 'b']\nexpect = {low = 1.0}";
    let memory = &format!("{time}\nmetric = 'memory'");
    let note = |claim: &str, over: Value| {
        let cells =
            vec![cell("a", "read", &around(2.0, 0), over), cell("b", "read", &around(1.0, 1), json!({}))];
        let claim = judged(claim, cells).remove(0);
        assert_eq!(claim.verdict, ClaimVerdict::NotTestable);
        claim.note.unwrap_or_default()
    };
    assert!(note(time, json!({"cache": "lukewarm"})).contains("lukewarm"));
    assert!(note(memory, json!({"status": "failed", "reason": "it broke"})).contains("it broke"));
    let given = json!({"traits": {"has_process": true, "is_external": true}});
    assert!(note(memory, given).contains("memory of the server"));
    assert!(note(time, json!({"harness_share": 0.9})).contains("90 %"));
}

#[test]
fn what_an_ended_run_did_not_come_to_was_not_measured() {
    let claims = "stores = ['a', 'b', 'c']\nphases = ['read', 'later']\n\
        [[claim]]\nid = 'X-1'\nstatement = 's'\nphase = 'read'\ncandidates = ['a', 'b']\nexpect = {high = 1.0}\n\
        [[claim]]\nid = 'X-2'\nstatement = 's'\nphase = 'later'\ncandidates = ['a', 'a']\nexpect = {high = 1.0}\n\
        [[claim]]\nid = 'X-3'\nstatement = 's'\nphase = 'read'\ncandidates = ['a', 'other']\nexpect = {high = 1.0}";
    let mut ended = result(claims, vec![cell("a", "read", &around(1.0, 0), json!({}))], vec![]);
    ended.candidates.push(candidate("b"));
    ended.complete = false;
    let notes = |ended: &RunResult| -> Vec<String> {
        judge(ended).into_iter().map(|claim| claim.note.unwrap_or_default()).collect()
    };
    let said = notes(&ended);
    assert!(said[0].starts_with("`b` was not measured before the run was ended."), "{said:?}");
    assert!(said[1].starts_with("The phase `later` of `a` was not measured before"), "{said:?}");
    assert!(said[2].starts_with("`other` is not part of this run."), "{said:?}");
    ended.complete = true;
    assert!(notes(&ended)[0].starts_with("`b` is not part of this run."), "{:?}", notes(&ended));
}

/// Returns the verdicts of the disk plan if each file system takes these times for writing, rewriting and reading in
/// blocks, and for writing and reading byte by byte.
fn disks(seconds: [(&str, [f64; 5]); 5]) -> Vec<(String, ClaimVerdict)> {
    let (_, text) = SHIPPED.iter().find(|(name, _)| *name == "afdesign-disks-2009").unwrap();
    let plan = PlanText::parse(text).unwrap();
    let (stores, phases) = (plan.stores.unwrap(), plan.phases.unwrap());
    let of_one = |(place, (on, seconds)): (usize, &(&str, [f64; 5]))| {
        let store = format!("{}[on={on}]", stores[0]);
        let one = |(phase, level): (&String, &f64)| cell(&store, phase, &around(*level, place), json!({}));
        // The first phase is the fill.
        phases[1..].iter().zip(seconds).map(one).collect::<Vec<Value>>()
    };
    let cells = seconds.iter().enumerate().flat_map(of_one).collect();
    judged(text, cells).into_iter().map(|claim| (claim.id, claim.verdict)).collect()
}

#[test]
fn claims_on_disks_hold_where_figures_are_as_published_and_not_where_they_are_turned_round() {
    use ClaimVerdict::*;
    let verdicts = |[first, second, fourth, fifth]: [ClaimVerdict; 4]| -> Vec<(String, ClaimVerdict)> {
        let all = [first, second, NotTestable, fourth, fifth, NotTestable, NotTestable, NotTestable];
        (1..).zip(all).map(|(number, verdict)| (format!("AF-EBS-{number}"), verdict)).collect()
    };
    let as_published = disks([
        ("ext3", [1.00, 1.10, 1.35, 1.03, 1.03]),
        ("xfs", [1.32, 1.00, 1.00, 1.10, 1.01]),
        ("btrfs", [1.21, 1.12, 1.18, 1.00, 1.02]),
        ("btrfs-raid0:4", [0.58, 0.56, 0.68, 0.95, 0.95]),
        ("btrfs-raid5:4", [0.99, 0.62, 0.77, 1.05, 1.01]),
    ]);
    assert_eq!(as_published, verdicts([Confirmed; 4]));
    let turned = disks([
        ("ext3", [1.30, 1.00, 1.00, 1.00, 1.00]),
        ("xfs", [1.00, 1.30, 1.30, 1.00, 1.00]),
        ("btrfs", [1.00, 1.00, 1.00, 1.00, 1.00]),
        ("btrfs-raid0:4", [1.50, 1.50, 1.50, 1.50, 1.50]),
        ("btrfs-raid5:4", [1.20, 1.20, 1.20, 1.20, 1.20]),
    ]);
    assert_eq!(turned, verdicts([Refuted; 4]));
    let alike = ["ext3", "xfs", "btrfs", "btrfs-raid0:4", "btrfs-raid5:4"].map(|on| (on, [1.0; 5]));
    assert_eq!(disks(alike), verdicts([CannotTellApart, Refuted, Confirmed, CannotTellApart]));
}
