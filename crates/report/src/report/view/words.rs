//! Wording shared by every kind of report.

use crate::corpus::CorpusId;
use crate::redact::pasted;
use crate::result::{Cell, Interval, RunResult};
use crate::units;

/// Fills the directory of the run into the commands of a sentence, if known, so that they can be pasted.
pub(in crate::report) fn placed(result: &RunResult, sentence: &str) -> String {
    let Some(place) = &result.place else { return sentence.to_owned() };
    let plan = format!(" {}", pasted(&place.join("plan.toml")));
    sentence.replace(" DIR/plan.toml", &plan).replace(" DIR`", &format!(" {}`", pasted(place)))
}

/// Formats a step: a number of blobs, or an age.
pub(in crate::report) fn step_shown(result: &RunResult, at: u64) -> String {
    let parts = if result.plan.age.is_some() { 100.0 } else { 1.0 };
    units::count(at as f64 / parts)
}

/// Name of a phase, with the size if it is part of a sweep.
pub(in crate::report) fn phase(name: &str, corpus_id: CorpusId) -> String {
    match corpus_id.bytes() {
        Some(bytes) => format!("{name} at {}", units::bytes(bytes as f64)),
        None => name.to_owned(),
    }
}

/// Formats the number of rounds of a run; of one that was ended early, how many of them were begun.
pub(in crate::report) fn rounds(result: &RunResult) -> String {
    let all = units::counted(result.fixed.rounds, "round");
    let is_whole = result.complete || result.fixed.rounds == 0;
    if is_whole { all } else { format!("{} of {all}", result.rounds_begun()) }
}

/// Formats a value with its interval, if it has one.
pub(in crate::report) fn with_interval(value: &Interval, show: impl Fn(f64) -> String) -> String {
    match (value.low, value.high) {
        (Some(low), Some(high)) => format!("{} [{}, {}]", show(value.median), show(low), show(high)),
        _ => show(value.median),
    }
}

/// States how few blobs received most of a phase's ops, if keys were skewed; the same for all candidates.
pub(in crate::report) fn hot(cells: &[&Cell]) -> Option<String> {
    let hot = cells.iter().find_map(|cell| cell.hot)?;
    let [ops, blobs, bytes] = [hot.ops_share, hot.blobs_share, hot.bytes_share].map(units::percent);
    Some(format!("{ops} of the ops went to {blobs} of the blobs, which have {bytes} of the bytes"))
}

/// Names places from 0 by letters: a to z, then aa, ab, and so on.
pub(in crate::report) fn letters(place: usize) -> String {
    const LETTERS: usize = 26;
    let before = (place / LETTERS).checked_sub(1).map_or(String::new(), letters);
    format!("{before}{}", char::from(b'a' + (place % LETTERS) as u8))
}

/// Breaks text into lines of at most `letters` characters, at spaces except between a number and its unit. Line breaks in
/// untrusted text are replaced.
pub(in crate::report) fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for word in text.split([' ', '\n']) {
        match pieces.last_mut() {
            Some(figure) if is_unit(word) && figure.ends_with(|letter: char| letter.is_ascii_digit()) => {
                figure.push(' ');
                figure.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + piece.chars().count() <= letters => {
                line.push(' ');
                line.push_str(&piece);
            }
            _ => lines.push(piece),
        }
    }
    lines
}

/// True if a word is a unit, ignoring punctuation after it.
fn is_unit(word: &str) -> bool {
    const UNITS: [&str; 12] = ["%", "ns", "µs", "us", "ms", "s", "min", "B", "kB", "MB", "GB", "TB"];
    UNITS.contains(&word.trim_end_matches([')', ']', ',', ';', ':', '.']))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{letters, rounds, wrapped};
    use crate::judge::fixture::{cell, result};

    #[test]
    fn a_run_that_was_ended_early_has_the_rounds_that_were_begun() {
        let mut run = result("", vec![cell("a", "fill", &[1.0; 3], json!({}))], Vec::new());
        assert_eq!(rounds(&run), "10 rounds");
        run.complete = false;
        assert_eq!(rounds(&run), "3 of 10 rounds");
        // It ended before their number was known.
        run.fixed.rounds = 0;
        assert_eq!(rounds(&run), "0 rounds");
    }

    #[test]
    fn places_beyond_z_have_two_letters() {
        assert_eq!(
            [0, 25, 26, 27, 51, 52, 701, 702].map(letters),
            ["a", "z", "aa", "ab", "az", "ba", "zz", "aaa"]
        );
    }

    #[test]
    fn no_line_begins_with_the_unit_of_a_figure() {
        assert_eq!(wrapped("it is below 30 %).", 14), ["it is below", "30 %)."]);
        assert_eq!(wrapped("its s is no unit", 5), ["its s", "is no", "unit"]);
        assert_eq!(wrapped("in 12.5 ms, or 3 s", 7), ["in", "12.5 ms,", "or 3 s"]);
        assert_eq!(wrapped("what others\nwrote", 80), ["what others wrote"]);
    }
}
