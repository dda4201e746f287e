//! Sentences on made-up rounds of which is known what they show, and what they do not.

use serde_json::{Value, json};

use super::answer;
use crate::plan::PlanText;
use crate::stats::claims::tests::{around, cell, result};

const STORES: [&str; 3] = ["files/hashed", "sqlite", "redb"];

/// The answer to rounds at these levels: seconds of 1,000 ops in each phase, and what differs from an ordinary cell.
fn sentences(levels: &[(&str, [f64; 3])], over: &[(&str, &str, Value)]) -> Vec<String> {
    let mut cells = Vec::new();
    for (phase, levels) in levels {
        for (salt, (store, level)) in STORES.iter().zip(levels).enumerate() {
            let over = over.iter().find(|(other, of, _)| other == store && of == phase);
            let mut more = json!({"ops_per_s": {"median": 1000.0 / level}});
            if let (Some(more), Some((_, _, Value::Object(over)))) = (more.as_object_mut(), over) {
                more.extend(over.clone());
            }
            cells.push(cell(store, phase, &around(*level, salt), more));
        }
    }
    let stores = STORES.map(|store| format!("'{store}'")).join(", ");
    let text = format!("stores = [{stores}]\nphases = ['fill', 'read-warm']");
    let plan = PlanText::parse(&text).unwrap().resolve(false).unwrap();
    answer(&plan, &result(&text, cells, vec![]))
}

/// The sentence that has these words.
fn with<'s>(sentences: &'s [String], words: &str) -> &'s str {
    let found: Vec<&String> = sentences.iter().filter(|sentence| sentence.contains(words)).collect();
    assert_eq!(found.len(), 1, "`{words}` in {sentences:#?}");
    found[0]
}

#[test]
fn one_leader_is_named_with_the_nearer_bound() {
    let said = sentences(&[("read-warm", [1.0, 2.0, 3.0])], &[]);
    let warm = with(&said, "Warm reads");
    assert!(warm.contains("`files/hashed` reads at least 1.9"), "{warm}");
    assert!(warm.contains("(1 ms against 2 ms)"), "{warm}");
}

#[test]
fn leaders_that_cannot_be_told_apart_are_a_set() {
    let mut noisy = around(1.0, 0);
    noisy.iter_mut().enumerate().for_each(|(index, seconds)| *seconds *= [0.8, 1.25][index % 2]);
    let rounds = cell("sqlite", "read-warm", &noisy, json!({}));
    let over = [("sqlite", "read-warm", json!({"rounds": rounds["rounds"]}))];
    let said = sentences(&[("read-warm", [1.0, 1.0, 3.0])], &over);
    let warm = with(&said, "Warm reads");
    assert!(warm.contains("cannot be told apart") && warm.contains("next is `redb`"), "{warm}");
    assert!(!warm.contains("at least"), "{warm}");
}

#[test]
fn what_was_not_ranked_is_no_answer() {
    let short = |store| (store, "read-warm", json!({"not_ranked": "too short: 3 ops"}));
    let said = sentences(&[("read-warm", [1.0, 2.0, 3.0])], &STORES.map(short));
    let warm = with(&said, "Warm reads");
    assert!(warm.contains("does not answer it") && warm.contains("too short: 3 ops"), "{warm}");
}

#[test]
fn who_is_beaten_everywhere_is_no_option() {
    let said = sentences(&[("fill", [1.0, 2.0, 0.5]), ("read-warm", [1.0, 2.0, 3.0])], &[]);
    let left = with(&said, "That leaves");
    assert!(left.contains("`sqlite` (by `files/hashed`)"), "{left}");
    assert!(left.contains("That leaves `files/hashed` and `redb`"), "{left}");
}

#[test]
fn nobody_is_beaten_where_a_phase_shows_nothing() {
    let short = ("sqlite", "fill", json!({"not_ranked": "too short: 3 ops"}));
    let said = sentences(&[("fill", [1.0, 2.0, 0.5]), ("read-warm", [1.0, 2.0, 3.0])], &[short]);
    with(&said, "No row is beaten everywhere by another");
}
