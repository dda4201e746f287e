//! Result of the file system's own check after power cuts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Figures of the check, which are separate from the verdict on a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSystemCheck {
    /// Command that checks.
    pub by: String,
    /// Number of cuts after which it ran.
    pub cuts: usize,
    /// Number of cuts after which it found errors.
    pub wrong: usize,
    /// First error it reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Reason why the check could not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<String>,
}
