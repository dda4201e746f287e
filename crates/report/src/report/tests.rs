//! Tests that every reason and every warning has words in all three kinds of report.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::sections;
use crate::judge::fixture::{cell, result};
use crate::result::{Reason, RunResult, Warning};

fn reasons() -> Vec<Value> {
    vec![
        json!({"code": "baseline"}),
        json!({"code": "weaker-class", "class": "none"}),
        json!({"code": "mostly-harness", "share": 0.4}),
        json!({"code": "client-busy", "client_share": 0.95, "server_share": 0.3}),
        json!({"code": "misses-its-cache", "share": 0.05}),
        json!({"code": "memory-outside", "bytes": 30_000_000, "limit_bytes": 10_000_000}),
        json!({"code": "not-sustained"}),
        json!({"code": "opened-warm", "share": 0.6, "open_seconds": 0.25}),
        json!({"code": "device-read-little", "bytes_per_byte": 0.1, "open_seconds": 0.25}),
        json!({"code": "cut-short", "done": 2, "planned": 10}),
        json!({"code": "too-short", "ops": 3, "seconds": 0.001}),
        json!({"code": "one-round"}),
        json!({"code": "no-best", "faster": ["b"]}),
        json!({"code": "failed", "why": "no space"}),
        json!({"code": "not-available", "why": "no program"}),
        json!({"code": "not-possible", "why": "no range reads"}),
        json!({"code": "of-reference", "why": {"code": "too-short", "ops": 3, "seconds": 0.001}}),
        json!({"code": "other-group", "group": "lukewarm"}),
        json!({"code": "group-of-reference", "group": "lukewarm"}),
    ]
}

/// Returns the details of a disturbed round.
fn disturbed(kind: &str) -> Value {
    let others = json!({"read_bytes": 5_000_000, "written_bytes": 7_000_000, "phases": ["fill"], "perhaps_for_us": true});
    let far = json!({"kind": "far", "times": 2.5});
    let device = json!({"kind": "reads-device", "read_bytes": 57_000_000, "delivered_bytes": 60_000_000, "cached": true});
    let mut others_of_a_round = others.clone();
    others_of_a_round["seen"] = json!("others");
    let seen = json!([
        {"seen": "processor", "times": 1.8},
        {"seen": "most-candidates", "phase": "fill", "low": 2.0, "high": 3.0},
        {"seen": "candidate", "store": "a", "phase": "read-warm", "causes": [far, device]},
        {"seen": "more", "candidates": 3},
        others_of_a_round
    ]);
    json!({"kind": kind, "rounds": [{"round": 3, "again": true, "seen": seen}], "usual_rounds": [1, 2], "usual": others,
           "stores": ["a"]})
}

/// Returns at least one of each warning, and several of those with several forms.
fn warnings() -> Vec<Value> {
    let places = json!([
        {"phases": [{"phase": "fill"}, {"phase": "read-warm", "in_part": true}], "stores": ["a", "b"]},
        {"phases": [{"phase": "overwrite"}], "stores": ["a", "b", "c"], "every_candidate": true}
    ]);
    vec![
        json!({"kind": "ahead-of-limit", "places": places, "share_max": 0.27}),
        json!({"kind": "debug-build"}),
        json!({"kind": "clock"}),
        json!({"kind": "tmpfs"}),
        json!({"kind": "tmpfs", "layers": ["ext4", "loop0", "tmpfs"]}),
        json!({"kind": "flushes", "doubts": [{"doubt": "not-passed-on", "layers": ["ext4 (nobarrier)"]},
               {"doubt": "too-quick", "p50_ns": 231.0}, {"doubt": "not-known", "layers": ["fuse.sshfs"]}]}),
        json!({"kind": "no-journal"}),
        json!({"kind": "noise", "share": 0.2}),
        json!({"kind": "virtual-machine"}),
        json!({"kind": "lukewarm"}),
        json!({"kind": "corpus-in-memory", "corpus_bytes": 400_000_000_u64, "memory_bytes": 24_000_000_000_u64}),
        json!({"kind": "processor-cache", "corpus_bytes": 29_200_000_u64, "cache_bytes": 33_554_432_u64}),
        json!({"kind": "host-cache"}),
        json!({"kind": "host-cache-unknown"}),
        json!({"kind": "budget", "corpus_share": 0.5, "cold_is_short": true,
               "rounds": {"wanted": 5, "made": 2, "wanted_seconds": 300.0, "size_stands": true}}),
        json!({"kind": "budget", "cold_is_short": true}),
        json!({"kind": "budget", "corpus_share": 0.24, "slowest": ["c", 0.74]}),
        json!({"kind": "budget-spent", "rounds": 3}),
        json!({"kind": "other-version", "store": "a", "change": "1 to 2"}),
        json!({"kind": "weaker", "store": "a", "why": "it flushes one of two copies."}),
        json!({"kind": "steal", "share": 0.05}),
        json!({"kind": "few-rounds", "rounds": 1}),
        json!({"kind": "few-rounds", "rounds": 3}),
        json!({"kind": "incomplete", "rounds": 0}),
        json!({"kind": "incomplete", "rounds": 2}),
        json!({"kind": "over-budget", "asked_seconds": 60.0, "took_seconds": 95.0}),
        json!({"kind": "too-short", "places": places}),
        json!({"kind": "too-short", "places": places, "is_cut_short": true}),
        json!({"kind": "harness-share", "places": places}),
        json!({"kind": "client-bound", "places": places}),
        json!({"kind": "waking", "places": places, "far_ns": 60e3, "near_ns": 10e3}),
        json!({"kind": "waking", "places": places, "far_ns": 60e3, "near_ns": 10e3, "is_awake": true}),
        json!({"kind": "put-off", "places": places}),
        json!({"kind": "awake", "far_ns": 12e3, "near_ns": 10e3}),
        json!({"kind": "use-of-bytes", "touched": ["a"], "copied": ["b", "c"]}),
        json!({"kind": "resident", "places": places}),
        json!({"kind": "still-in-memory", "places": places}),
        json!({"kind": "retries", "attempts": 1, "places": places}),
        json!({"kind": "cache-misses", "answers": 9, "places": places}),
        json!({"kind": "timeouts", "ops": 9, "places": places}),
        json!({"kind": "wake-late", "places": places}),
        json!({"kind": "slow-client", "client": 2, "share": 0.4, "places": places}),
        json!({"kind": "one-for-each-client", "clients": 4, "stores": ["a", "b"]}),
        json!({"kind": "distance"}),
        json!({"kind": "same-blob", "phases": ["read-warm"]}),
        json!({"kind": "not-settled", "places": places}),
        json!({"kind": "caught-up", "shares": [{"store": "a", "share": 0.25}]}),
        json!({"kind": "compared-in-cache", "copies": [{"from": "kernel-cache", "stores": ["a", "b"]}]}),
        json!({"kind": "unequal-memory", "cache_bytes": 67_108_864, "corpus_bytes": 400_000_000, "held": ["a"], "not_held": ["b"]}),
        json!({"kind": "own-cache", "cache_bytes": 67_108_864}),
        json!({"kind": "preloaded", "settings": ["LD_PRELOAD=libeatmydata.so"]}),
        json!({"kind": "preloaded", "settings": ["LD_PRELOAD=x.so"], "replaced": [{"library": "x.so", "functions": ["fsync"]}]}),
        json!({"kind": "reads-more", "shares": [{"store": "a", "share": 3.5}], "read_ahead_bytes": 131_072}),
        json!({"kind": "compressible", "deflate_ratio": 2.1}),
        json!({"kind": "left-out", "files": "20 files of 700 MB or more (4.8 % of your files, more than 99 % of your bytes) are not in \
               it; `--corpus-bytes 15GB` takes them"}),
        json!({"kind": "drift", "what": "processor", "low_ns": 50.0, "high_ns": 70.0}),
        json!({"kind": "drift", "what": "flush", "low_ns": 5e5, "high_ns": 2e6}),
        json!({"kind": "drift", "what": "read", "low_ns": 5e4, "high_ns": 2e5}),
        json!({"kind": "drift", "what": "trip", "low_ns": 2e4, "high_ns": 6e4}),
        disturbed("disturbed"),
        disturbed("repeated-rounds"),
    ]
}

/// Returns the tags of a tagged enum's variants, from its schema.
fn variants<T: schemars::JsonSchema>(tag: &str) -> BTreeSet<String> {
    let schema = schemars::schema_for!(T);
    let variants = schema.get("oneOf").and_then(Value::as_array).unwrap();
    variants.iter().map(|variant| variant["properties"][tag]["const"].as_str().unwrap().to_owned()).collect()
}

/// Returns a report as plain text, without tags, marks and line breaks.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut in_tag = false;
    for letter in text.chars() {
        match letter {
            '<' => in_tag = true,
            '>' if in_tag => in_tag = false,
            '`' | '\\' => {}
            letter if !in_tag => plain.push(letter),
            _ => {}
        }
    }
    collapse_whitespace(&plain.replace("&quot;", "\"").replace("&amp;", "&"))
}

pub(super) fn collapse_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

fn reports(result: &RunResult) -> [(&'static str, String); 3] {
    [
        ("terminal", plain(&sections::terminal(result))),
        ("HTML", plain(&sections::html(result).unwrap())),
        ("Markdown", plain(&sections::markdown(result))),
    ]
}

#[test]
fn every_reason_is_in_every_report() {
    let known: BTreeSet<String> =
        reasons().iter().map(|reason| reason["code"].as_str().unwrap().to_owned()).collect();
    assert_eq!(known, variants::<Reason>("code"));
    for value in reasons() {
        let reason: Reason = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&reason).unwrap(), value);
        let unranked = json!({"not_ranked": value, "leader": false});
        let cells = vec![
            cell("a", "read-warm", &[1.0; 5], unranked),
            cell("b", "read-warm", &[1.0; 5], json!({"leader": true})),
        ];
        let said = reason.worded();
        for (name, report) in reports(&result("", cells, Vec::new())) {
            for words in [Some(&said.head), said.detail.as_ref()].into_iter().flatten() {
                assert!(report.contains(&plain(words)), "{name} has no `{words}`");
            }
        }
    }
}

/// A candidate that cannot do a phase has a reason; if none can, the reason is stated once.
#[test]
fn what_is_impossible_for_all_is_said_once() {
    let said = |other: &str| {
        let cannot = |store: &str, why: &str| {
            let why = json!({"not_ranked": {"code": "not-possible", "why": why}, "leader": false});
            cell(store, "read-tight", &[], why)
        };
        let cells =
            vec![cannot("a", "no memory"), cannot("b", other), cell("c", "fill", &[1.0; 5], json!({}))];
        let result = result("", cells, Vec::new());
        [sections::terminal(&result), sections::markdown(&result)]
            .map(|text| text.matches("no memory").count())
    };
    assert_eq!(said("no memory"), [1, 1]);
    assert_eq!(said("no memory, either"), [2, 2]);
}

#[test]
fn stores_that_each_client_has_for_itself_are_in_the_title_of_a_phase() {
    let own = || cell("a", "fill", &[1.0; 5], json!({"is_one_for_each_client": true}));
    let shared = || cell("b", "fill", &[1.0; 5], json!({}));
    for (cells, words) in [
        (vec![own()], "one store for each client"),
        (vec![own(), shared()], "one store that clients share or one for each"),
    ] {
        let said = sections::terminal(&result("", cells, Vec::new()));
        assert!(said.replace("\n  ", " ").contains(words), "{said}");
    }
    let said = sections::terminal(&result("", vec![shared()], Vec::new()));
    assert!(!said.contains("for each client"), "{said}");
}

#[test]
fn every_warning_is_in_every_report_with_what_to_try() {
    let known: BTreeSet<String> =
        warnings().iter().map(|warning| warning["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(known, variants::<Warning>("kind"));
    for value in warnings() {
        let warning: Warning = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&warning).unwrap(), value);
        let mut result = result("", vec![cell("a", "fill", &[1.0; 5], json!({}))], Vec::new());
        let (said, hint) = (warning.details().text, warning.details().suggestion());
        assert!(said.ends_with('.') && said.len() > 20, "{value}: {said}");
        result.warnings = vec![warning];
        for (name, report) in reports(&result) {
            for words in [Some(&said), hint.as_ref()].into_iter().flatten() {
                assert!(report.contains(&plain(words)), "{name} has no `{words}`: {report}");
            }
        }
    }
}

#[test]
fn a_warning_that_names_candidates_or_phases_bears_on_no_others() {
    for value in warnings() {
        let has = |key: &&str| !value[*key].is_null();
        let names =
            ["places", "phases", "store", "stores", "shares", "copies", "held", "touched"].iter().any(has);
        let warning: Warning = serde_json::from_value(value.clone()).unwrap();
        // Of a disturbed round nobody can be left out: the processor was slower for all.
        let is_of_all = !names || value["rounds"].is_array();
        assert_eq!(warning.details().bears_on("other", "fill"), is_of_all, "{value}");
    }
}

/// Suggested commands can be typed as they are.
#[test]
fn what_to_try_is_a_command() {
    for value in warnings() {
        let warning: Warning = serde_json::from_value(value.clone()).unwrap();
        if let Some(hint) = warning.details().suggested_command {
            assert!(hint.contains('`') && hint.split_whitespace().count() <= 9, "{value}: {hint}");
        }
    }
}

/// Lists of candidates and rounds may be long, but not the sentences about them.
#[test]
fn no_sentence_of_a_warning_has_more_than_forty_words() {
    for value in warnings() {
        let warning: Warning = serde_json::from_value(value.clone()).unwrap();
        if matches!(warning, Warning::Disturbed(_) | Warning::RepeatedRounds(_)) {
            continue;
        }
        for sentence in warning.details().text.split(". ") {
            assert!(sentence.split_whitespace().count() <= 40, "{sentence}");
        }
    }
}
