//! What two examinations answer differently.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::Answer;
use super::wrapped::wrapped;

/// An examination beside an earlier one.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Against {
    /// When the second look of the earlier one was taken.
    pub taken_at: String,
    /// By which ages of counters both are judged, in words.
    #[serde(default)]
    pub judged_by: String,
    /// Checks that answer otherwise now.
    pub changes: Vec<Change>,
    /// What is there now and was not then, or the other way round, in words.
    pub unmatched: Vec<String>,
    /// How many checks answer the same.
    pub same: usize,
}

/// A check that answers otherwise now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The machine, or the server's URL without its password.
    pub subject: String,
    /// The check, by its name in `docs/doctor.md`.
    pub check: String,
    /// What it answered.
    pub was: Answer,
    /// What it answers now.
    pub is: Answer,
    /// Its figure in words.
    pub then: String,
    /// Its figure in words.
    pub now: String,
}

impl Against {
    /// How many answers are the same, in words.
    pub fn summary(&self) -> String {
        match self.same {
            1 => "1 answer is the same.".to_owned(),
            same => format!("{same} answers are the same."),
        }
    }

    /// As text of at most 80 columns.
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
