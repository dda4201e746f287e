//! Warnings for every kind of report: the most serious come first, and the worst are shown beside the answer.

use super::describe::expected_false;
use super::words::placed;
use crate::result::{RunResult, Severity, Warning, WarningDetails};

/// Maximum number of warnings beside the answer.
const BESIDE_MAX: usize = 2;

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
    let warned = |warning: &Warning| {
        let details = warning.details();
        WordedWarning { weight: details.severity, advice: try_what(result, &details), text: details.text }
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
    let mut spoils: Vec<WarningDetails<'_>> = result.warnings.iter().map(Warning::details).collect();
    spoils.retain(|details| details.severity == Severity::InvalidatesAnswer);
    spoils.sort_by_key(|details| !details.comes_first);
    let told =
        |details: &WarningDetails<'_>| with_advice(details.in_short(), try_what(result, details).as_deref());
    spoils.iter().take(BESIDE_MAX).map(told).collect()
}

/// Suggested commands, ready to be pasted.
fn try_what(result: &RunResult, details: &WarningDetails<'_>) -> Option<String> {
    details.suggestion().map(|advice| placed(result, &advice))
}

/// Returns a text and a suggestion as one paragraph.
pub(in crate::report) fn with_advice(text: String, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{text} {advice}"),
        None => text,
    }
}
