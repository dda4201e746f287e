//! What the file system's own check says of the disk after power cuts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Figures of a check that is apart from what is said of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// The command.
    pub by: String,
    /// Cuts after which it was done.
    pub cuts: usize,
    /// Cuts after which it found the file system wrong.
    pub wrong: usize,
    /// What it said first where it was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Why it could not be done, where it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<String>,
}
