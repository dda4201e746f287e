//! Warnings for every kind of report: the most serious come first, and the worst are shown beside the answer.

use super::describe::expected_false;
use super::words::placed;
use crate::messages::{in_short, of_warning, suggestion};
use crate::result::{RunResult, Severity, Warning};

/// Maximum number of warnings beside the answer.
const BESIDE_MAX: usize = 2;

/// A warning in words.
pub(in crate::report) struct WordedWarning {
    pub weight: Severity,
    pub text: String,
    /// Suggested command, as a sentence.
    pub advice: Option<String>,
}

impl WordedWarning {
    /// Returns text and suggestion as one paragraph.
    pub fn paragraph(&self) -> String {
        with_advice(self.text.clone(), self.advice.as_deref())
    }
}

/// Returns all warnings of a result, the most serious first.
pub(in crate::report) fn all(result: &RunResult) -> Vec<WordedWarning> {
    let warned = |warning: &Warning| WordedWarning {
        weight: warning.severity(),
        text: of_warning(warning),
        advice: try_what(result, warning),
    };
    let mut all: Vec<WordedWarning> = result.warnings.iter().map(warned).collect();
    all.extend(expected_false(result).map(|text| WordedWarning {
        weight: Severity::Note,
        text,
        advice: None,
    }));
    all.sort_by_key(|warned| warned.weight);
    all
}

/// Returns the warnings that may invalidate the answer, one sentence with a suggestion each.
pub(in crate::report) fn beside(result: &RunResult) -> Vec<String> {
    let spoils = result.warnings.iter().filter(|warning| warning.severity() == Severity::InvalidatesAnswer);
    let mut spoils: Vec<&Warning> = spoils.collect();
    spoils.sort_by_key(|warning| !warning.comes_first());
    let told = |warning: &Warning| with_advice(in_short(warning), try_what(result, warning).as_deref());
    spoils.into_iter().take(BESIDE_MAX).map(told).collect()
}

/// Suggested commands, ready to be pasted.
fn try_what(result: &RunResult, warning: &Warning) -> Option<String> {
    suggestion(warning).map(|advice| placed(result, &advice))
}

fn with_advice(text: String, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{text} {advice}"),
        None => text,
    }
}
