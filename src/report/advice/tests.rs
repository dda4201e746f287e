//! What is said to somebody who has to choose, and how wide it is.

use serde_json::{Value, json};

use super::*;
use crate::judge::fixture::{around, cell, result};

fn standing(store: &str, op_ns: Value, place: &str) -> Value {
    json!({"store": store, "op_ns": op_ns, "place": place})
}

fn shown(change: impl Fn(&mut Value)) -> (RunResult, String) {
    let loss = json!({"loss": {"after_kill": "nothing", "after_power_cut": "recent-writes"}, "settled_ops_per_s": {"median": 1.0}});
    let written = ["a", "b"].map(|store| cell(store, "overwrite", &around(1.0, 0), loss.clone()));
    let mut result = result("", written.into(), vec![]);
    for (store, kind) in [("a", "embedded"), ("b", "server"), ("c", "embedded")] {
        let candidate = json!({"store": store, "adapter": store, "kind": kind, "options": {}, "status": "measured", "facts": {}});
        result.candidates.push(serde_json::from_value(candidate).unwrap());
    }
    let next =
        |store, more_ns, is_little| json!({"store": store, "more_ns": more_ns, "is_little": is_little});
    let mut advice = json!({
        "request_ns": 1e6,
        "situations": [
            {"title": "Warm reads", "short": "warm", "phase": "read-warm", "fastest_ns": 1_000.0, "next": next("b", 20_000.0, true), "standings": [
                {"store": "a", "op_ns": 1_000.0, "place": "leads", "is_bound": true},
                standing("b", json!(21_000.0), "behind"), standing("c", json!(5_000.0), "not-ranked")]},
            {"title": "Durable writes (on-sync)", "short": "write", "phase": "overwrite", "fastest_ns": 100_000.0, "next": next("a", 300_000.0, false), "standings": [
                standing("b", json!(100_000.0), "leads"), standing("a", json!(400_000.0), "behind"),
                standing("c", json!(null), "not-ranked")]},
        ],
        "one_place": [
            {"store": "a", "phase": "overwrite", "slower": 0.28, "slower_at_most": 0.311},
            {"store": "b", "phase": "read-warm", "slower": 1.5, "slower_at_most": 300.0}]
    });
    change(&mut advice);
    result.advice = serde_json::from_value(advice).unwrap();
    let mut text = String::new();
    terminal(&mut text, &result, "What to do");
    (result, text)
}

#[test]
fn every_candidate_stands_with_its_times_and_their_signs() {
    let (_, text) = shown(|_| {});
    let line =
        |store: &str| text.lines().find(|line| line.starts_with(&format!("  {store} "))).unwrap().to_owned();
    assert_eq!(line("a").split_whitespace().collect::<Vec<_>>(), ["a", "<1", "us*", "400", "us", "-"]);
    assert_eq!(line("b").split_whitespace().collect::<Vec<_>>(), ["b", "21", "us", "100", "us*", "-"]);
    assert_eq!(line("c").split_whitespace().collect::<Vec<_>>(), ["c", "5", "us?", "-", "-"]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_is_said_names_the_choice_and_what_it_is_worth() {
    let (_, text) = shown(|_| {});
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "Warm reads: `a`. Next is `b`, 20 us more (2 % of a request of 1 ms: little, choose by what you can operate).",
        "Durable writes (on-sync): `b`. Next is `a`, 300 us more (30 % of a request of 1 ms).",
        "One place for all of it: `a`. At worst (column `write`) a request of 1 ms with one op in it takes 28 % longer than with the fastest (below 32 % with 95 % confidence). Next is `b`: 150 % (`warm`, below 30k %).",
        "After a power cut they promise: recent writes lost, by all of them.",
        "Servers, which somebody has to run: `b`.",
    ] {
        assert!(said.contains(words), "{words}\n{text}");
    }
    let (_, text) = shown(|advice| advice["one_place"][0]["slower"] = json!(0.001));
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let best = "`a`, the fastest in every column or as good as that. Next is `b`: a request of 1 ms with one op in it takes at worst 150 % longer (`warm`, below 30k % with 95 % confidence).";
    assert!(said.contains(best), "{text}");
    let (_, text) = shown(|advice| advice["one_place"] = json!([]));
    assert!(text.contains("no candidate can be compared in every column"), "{text}");
    let (_, text) = shown(|advice| advice["situations"][1]["next"]["more_ns"] = json!(2_000_000.0));
    assert!(text.contains("(2 times a request of 1"), "{text}");
    let (_, text) = shown(|advice| advice["situations"][1]["next"] = json!(null));
    assert!(text.contains("`b`: no difference that counts is"), "{text}");
}

#[test]
fn a_long_label_has_a_line_of_its_own() {
    let long = "a-place-with[a=long,list=of-options]";
    let (mut result, _) = shown(|_| {});
    let advice = result.advice.as_mut().unwrap();
    advice.situations[0].standings[0].store = long.to_owned();
    result.candidates[0].store = long.to_owned();
    let mut text = String::new();
    terminal(&mut text, &result, "What to do");
    assert!(text.contains(&format!("  {long}\n")), "{text}");
}

#[test]
fn who_is_left_out_is_named_with_what_it_lacks() {
    let (_, text) = shown(|advice| {
        advice["need"] = json!(["several-machines", "ranges"]);
        advice["fit"] = json!(["a"]);
        advice["unfit"] = json!([{"store": "b", "lacks": ["several-machines"]}, {"store": "c", "lacks": ["several-machines"]},
                                 {"store": "d"}]);
    });
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = "Needed: `several-machines`, `ranges`; not considered: `b` and `c` (one machine reaches it); `d` (its run did not \
                    note what it serves: measure again). `a` alone is left.";
    assert!(said.contains(sentence), "{text}");
    let (_, text) = shown(|advice| {
        advice["need"] = json!(["ranges"]);
        advice["unfit"] = json!([{"store": "a", "lacks": ["ranges"]}]);
        (advice["situations"], advice["one_place"]) = (json!([]), json!([]));
    });
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = "`a` (no part of a blob is read without the whole). No candidate of this run is left.";
    assert!(said.contains(sentence), "{text}");
    assert!(!text.contains("disk/B"), "no table without columns: {text}");
}

#[test]
fn one_screen_says_what_to_do_and_what_may_spoil_it() {
    use crate::report::sections::{brief, terminal as whole};
    let (mut result, _) = shown(|_| {});
    result.answer = vec!["On this machine and disk, 10 blobs:".to_owned(), "Warm reads: `a`.".to_owned()];
    let warnings = json!([
        {"kind": "virtual-machine"}, {"kind": "few-rounds", "rounds": 2}, {"kind": "tmpfs"}, {"kind": "debug-build"},
        {"kind": "clock"}, {"kind": "noise", "share": 0.3}]);
    result.warnings = serde_json::from_value(warnings).unwrap();
    let text = brief(&result);
    assert!(text.starts_with("  On this machine and disk, 10 blobs.\n"), "{text}");
    assert!(text.contains("\nWhat to do\n") && !text.contains("Warm reads: `a`.\n  "), "{text}");
    // Three of the four that spoil it, and what they are in one sentence each.
    assert_eq!(text.lines().filter(|line| line.starts_with("! ")).count(), 3, "{text}");
    assert!(text.contains("1 more like this") && !text.contains("virtual machine"), "{text}");
    assert!(text.contains("with 6 warnings: --tables"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // The whole has them all, those that spoil it first.
    let told = whole(&result);
    let at = |words: &str| told.find(words).unwrap_or_else(|| panic!("{words} is not in {told}"));
    assert!(at("- Something else used 30 %") < at("- This is a virtual machine"));
    // Where there is nothing to choose from, all is said.
    result.advice = None;
    assert_eq!(brief(&result), whole(&result));
}

#[test]
fn a_candidate_that_was_asked_for_is_named() {
    let (mut result, _) = shown(|_| {});
    result.candidates[2].status = Status::NotAvailable;
    result.candidates[2].reason = Some("no `c` was found".to_owned());
    let mut text = String::new();
    terminal(&mut text, &result, "What to do");
    assert!(text.contains("- `c` is not available: no `c` was found"), "{text}");
}
