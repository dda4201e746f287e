//! Comparison of an examination with an earlier one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::Answer;
use super::wrapped::wrapped;

/// Differences between an examination and an earlier one.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExaminationChanges {
    /// Time of the earlier examination's second look.
    pub taken_at: String,
    /// Minimum ages of counters by which both are judged, in words.
    #[serde(default)]
    pub judged_by: String,
    /// Checks with a different answer.
    pub changes: Vec<AnswerChange>,
    /// Subjects that only one of the two examined or could query, a sentence each.
    pub unmatched: Vec<String>,
    /// Number of checks with the same answer.
    pub same: usize,
}

/// A check with a different answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AnswerChange {
    /// The machine, or the server's URL without its password.
    pub subject: String,
    /// Name of the check in `docs/doctor.md`.
    pub check: String,
    /// Earlier answer.
    pub was: Answer,
    /// Present answer.
    pub is: Answer,
    /// Earlier figure in words.
    pub then: String,
    /// Present figure in words.
    pub now: String,
}

impl ExaminationChanges {
    /// States how many answers are the same.
    pub fn summary(&self) -> String {
        match self.same {
            1 => "1 answer is the same.".to_owned(),
            same => format!("{same} answers are the same."),
        }
    }

    /// Formats the differences for a terminal, in at most 80 columns.
    pub fn terminal(&self) -> String {
        let mut text = format!("\nAgainst {}:\n", self.taken_at) + &wrapped("  ", &self.judged_by);
        text.extend(self.unmatched.iter().map(|line| wrapped("  ", line)));
        for change in &self.changes {
            let (was, is) = (change.was.name(), change.is.name());
            text += &wrapped("  ", &format!("{}: {was}, now {is}", change.check));
            text += &wrapped("    ", &format!("of:   {}", change.subject));
            text += &wrapped("    ", &format!("then: {}", change.then));
            text += &wrapped("    ", &format!("now:  {}", change.now));
        }
        text + &wrapped("  ", &self.summary())
    }
}
