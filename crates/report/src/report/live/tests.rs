//! Tests of the live standings: any width, and never more certain than the final judgment.

use serde_json::{Value, json};

use super::*;
use crate::judge::fixture::{around, candidate, cell, result};
use crate::judge::summary::summarize;
use crate::records::Records;
use blobwise_engine::engine::work::resolved;

/// Returns a run of `rounds` rounds; each candidate has its times for 1,000 reads, warm and cold, in seconds.
fn run(candidates: &[(&str, f64, f64)], rounds: usize) -> RunResult {
    let of = |phase: &str, seconds: f64, store: &str, salt: usize| -> Value {
        cell(store, phase, &around(seconds, salt)[..rounds], json!({"cache": "warm"}))
    };
    let cells = candidates.iter().enumerate().flat_map(|(salt, (store, warm, cold))| {
        [of("read-warm", *warm, store, salt), of("read-cold", *cold, store, salt + 1)]
    });
    let text = "stores = ['memory']\nphases = ['fill', 'read-warm', 'read-cold']";
    let mut made = result(text, cells.collect(), Vec::new());
    made.candidates = candidates.iter().map(|(store, ..)| candidate(store)).collect();
    let mut whole = summarize(&resolved(text), &Records::resume(made)).unwrap();
    whole.complete = false;
    whole
}

const MANY: [(&str, f64, f64); 4] = [
    ("flat", 1.0, 2.0),
    ("hashed", 1.005, 2.0),
    ("one[it_is_so_and_so=true]", 2.0, 1.0),
    ("one[it_is_so_and_so=false]", 4.0, 3.0),
];

fn joined(lines: &[String]) -> String {
    lines.join("\n")
}

#[test]
fn the_ratios_are_those_of_the_answer() {
    let result = run(&MANY, 6);
    let lines = LiveRanking::from_result(&result).lines(Some("flat"), (79, 22));
    let text = joined(&lines);
    assert!(text.contains("± with 95 % confidence after 6 rounds."), "{text}");
    let situation = &result.advice.as_ref().unwrap().situations[0];
    let standing = situation.result_for("one[it_is_so_and_so=true]").unwrap();
    let (times, at_most) = (standing.times.unwrap(), standing.times_at_most.unwrap());
    let percent = (100.0 * (at_most / times - 1.0)).ceil();
    let line = lines.iter().find(|line| line.contains("=true]")).unwrap();
    assert!(line.contains(&format!(" {}±{percent}% ", units::count(times))), "{line}");
    assert!(times * (1.0 + percent / 100.0) >= at_most && line.ends_with("best"), "{line}");
    let flat = lines.iter().find(|line| line.starts_with("> flat")).unwrap();
    assert!(flat.contains(" best "), "{flat}");
    // A difference of 0.5 % with noise of 1 % proves nothing.
    let hashed = lines.iter().find(|line| line.contains("hashed")).unwrap();
    assert!(hashed.contains("%* "), "{hashed}");
}

#[test]
fn nothing_is_said_of_an_interval_before_there_is_one() {
    let names = || MANY.iter().map(|(name, ..)| (*name).to_owned());
    let before = joined(&LiveRanking::new(names()).lines(None, (79, 22)));
    assert!(before.starts_with("The first figures come when two rounds are through.\n  flat\n"), "{before}");
    let one = joined(&LiveRanking::from_result(&run(&MANY, 1)).lines(None, (79, 22)));
    assert!(one.starts_with("One round so far: figures come with the second.\n  flat\n"), "{one}");
    assert!(!one.contains(['±', '*']) && !one.contains("best"), "{one}");
    // With two rounds, an interval may be too wide to be useful.
    let two = joined(&LiveRanking::from_result(&run(&MANY, 2)).lines(None, (79, 22)));
    assert!(two.contains("after 2 rounds") && two.contains("±"), "{two}");
}

#[test]
fn what_is_decided_is_said_after_the_fifth_round_and_not_before() {
    let said = |result: &RunResult, width| {
        let lines = LiveRanking::from_result(result).lines(Some("flat"), (width, 22));
        assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}:\n{}", joined(&lines));
        joined(&lines).replace("\n  ", " ")
    };
    let of_two = said(&run(&MANY, 2), 80);
    for words in [" out", "ecided", "The rest of the time"] {
        assert!(!of_two.contains(words), "{words}: {of_two}");
    }
    let mut result = run(&MANY, 6);
    for width in [80, 60] {
        let text = said(&result, width);
        let parts = |work: &str| {
            let line = text.lines().find(|line| line.starts_with(work));
            line.and_then(|line| line.split_once("; ")).unwrap_or_else(|| panic!("{work} is not in {text}"))
        };
        let (lead, out) = parts("reads from RAM: ");
        assert!(lead.contains("flat") && lead.contains("hashed") && lead.ends_with(" lead"), "{text}");
        assert!(out.contains("=true]") && out.contains("=false]") && out.ends_with(" are out"), "{text}");
        let (lead, out) = parts("cold reads: ");
        assert_eq!(lead, "cold reads: one[it_is_so_and_so=true] leads", "{text}");
        assert!(out.contains("flat") && out.contains("hashed") && out.ends_with(" are out"), "{text}");
        let rest = "\nEvery column is decided. The rest of the time narrows all intervals, until half of the ratios are within ±5 %";
        assert!(text.contains(rest), "{text}");
    }
    // Undecided leaders are not called decided, and a candidate that is proved slower is out even so.
    let warm = &mut result.advice.as_mut().unwrap().situations[0];
    warm.standings.iter_mut().for_each(|of| {
        if of.place == result::CandidateRank::Leads {
            of.place = result::CandidateRank::Undecided;
        }
    });
    let text = said(&result, 80);
    assert!(
        text.contains("\nreads from RAM: undecided (") && text.contains("\nUndecided: reads from RAM. "),
        "{text}"
    );
    // Where there is no room for everything, the table comes first, then what the rest is for, then as many columns as fit.
    let few = LiveRanking::from_result(&result).lines(None, (80, 10));
    assert!(few.iter().any(|line| line.starts_with("Undecided: ")), "{}", joined(&few));
    assert!(!few.iter().any(|line| line.starts_with("cold reads: ")), "{}", joined(&few));
}

#[test]
fn no_line_is_wider_and_no_table_higher_than_there_is_room_for() {
    let result = run(&MANY, 5);
    let standings = LiveRanking::from_result(&result);
    for width in [10, 20, 39, 40, 60, 79, 200] {
        for height in 0..12 {
            let lines = standings.lines(Some("flat"), (width, height));
            let text = joined(&lines);
            assert!(lines.len() <= height, "{width}x{height}:\n{text}");
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}x{height}:\n{text}");
        }
    }
    // The distinguishing part of the labels stays visible, and omitted lines are counted.
    let narrow = joined(&standings.lines(None, (40, 22)));
    assert!(narrow.contains("=true]") && narrow.contains("=false]"), "{narrow}");
    let few = standings.lines(None, (79, 6));
    assert_eq!(few.last().unwrap(), "  and 2 more", "{}", joined(&few));
    let one_column = joined(&standings.lines(None, (30, 22)));
    assert!(one_column.replace('\n', " ").contains("1 more where the terminal is wider."), "{one_column}");
}

#[test]
fn a_run_without_an_answer_on_what_to_do_shows_its_phases() {
    let mut result = run(&MANY, 5);
    result.advice = None;
    let text = joined(&LiveRanking::from_result(&result).lines(None, (79, 22)));
    assert!(text.contains("read-warm") && text.contains("read-cold") && text.contains("best"), "{text}");
    result.comparisons.clear();
    let text = joined(&LiveRanking::from_result(&result).lines(None, (79, 22)));
    assert!(text.starts_with("No candidate can be ranked so far.\n  flat\n"), "{text}");
}
