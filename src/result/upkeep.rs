//! What an operator did with a whole store, and what came of it beside its time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was done, as one op or as deletes of everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "does", rename_all = "kebab-case")]
pub enum Upkeep {
    /// All keys were listed.
    Lists {
        /// How many there were.
        blobs: u64,
    },
    /// All blobs and their bytes were counted.
    Counts {
        /// How many there were.
        blobs: u64,
    },
    /// Everything was backed up, and the file system flushed.
    BacksUp {
        /// What made the backup.
        by: String,
        /// Disk that the backup takes.
        backup_bytes: u64,
        /// Bytes of the blobs in it.
        data_bytes: u64,
        /// Whether the store was closed for it.
        closed: bool,
    },
    /// A store was made of the backup, opened, and found to hold every blob.
    Restores {
        /// How many were compared.
        blobs: u64,
    },
    /// Every blob was deleted.
    DeletesAll {
        /// Seconds from the first delete until the store had given back the disk that it gives back by itself: deletes, settling,
        /// purging, what it puts off, and the file system's flush.
        seconds: f64,
        /// Disk that it took before; absent where that cannot be looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before_bytes: Option<u64>,
        /// Disk that it takes afterwards.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left_bytes: Option<u64>,
    },
}
