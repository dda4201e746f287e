//! Warnings as every kind of report tells them: what bears on the answer most comes first, and the worst stand beside the answer.

use super::describe::expected_false;
use super::words::placed;
use crate::result::{RunResult, Warning, Weight};
use crate::words::{advice, in_short, of_warning};

/// Warnings that have room beside the answer.
const BESIDE_MAX: usize = 3;

/// A warning in words.
pub(in crate::report) struct Warned {
    /// How much it bears on the answer.
    pub weight: Weight,
    /// What it is.
    pub text: String,
    /// What to try, as a sentence.
    pub advice: Option<String>,
}

impl Warned {
    /// All of it in one paragraph.
    pub fn paragraph(&self) -> String {
        with_advice(self.text.clone(), self.advice.as_deref())
    }
}

/// All warnings of a result.
pub(in crate::report) fn all(result: &RunResult) -> Vec<Warned> {
    let warned = |warning: &Warning| Warned {
        weight: warning.weight(),
        text: of_warning(warning),
        advice: try_what(result, warning),
    };
    let mut all: Vec<Warned> = result.warnings.iter().map(warned).collect();
    all.extend(expected_false(result).map(|text| Warned { weight: Weight::Note, text, advice: None }));
    all.sort_by_key(|warned| warned.weight);
    all
}

/// Those that may make the answer another one, a sentence and what to try each.
pub(in crate::report) fn beside(result: &RunResult) -> Vec<String> {
    let spoils = result.warnings.iter().filter(|warning| warning.weight() == Weight::Spoils);
    let mut told: Vec<String> =
        spoils.map(|warning| with_advice(in_short(warning), try_what(result, warning).as_deref())).collect();
    let others = told.len().saturating_sub(BESIDE_MAX);
    told.truncate(BESIDE_MAX);
    if let Some(last) = told.last_mut().filter(|_| others > 0) {
        *last = format!("{last} {others} more like this among the warnings.");
    }
    told
}

/// What to try, in commands that can be pasted.
fn try_what(result: &RunResult, warning: &Warning) -> Option<String> {
    advice(warning).map(|advice| placed(result, &advice))
}

fn with_advice(text: String, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{text} {advice}"),
        None => text,
    }
}
