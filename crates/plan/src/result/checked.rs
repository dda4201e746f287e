//! Result of the file system's own check after power cuts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Figures of the check, which are separate from the verdict on a store.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSystemCheck {
    /// Command that checks.
    pub by: String,
    /// Number of cuts after which it ran.
    pub cuts: usize,
    /// Number of cuts after which it found errors.
    pub wrong: usize,
    /// First error it reported.
    pub first: Option<String>,
    /// Reason why the check could not run.
    pub not_checked: Option<String>,
}
