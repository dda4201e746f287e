//! Operator tasks on a whole store, and their results besides the time taken.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Operator task, done as one op or as deletes of all blobs.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "does", rename_all = "kebab-case")]
pub enum Upkeep {
    /// All keys were listed.
    Lists {
        /// Number of keys.
        blobs: u64,
    },
    /// All blobs and their bytes were counted.
    Counts {
        /// Number of blobs.
        blobs: u64,
    },
    /// The store was backed up and the file system flushed.
    BacksUp {
        /// Tool or method of the backup.
        by: String,
        /// Disk space used by the backup.
        backup_bytes: u64,
        /// Blob bytes in the backup.
        data_bytes: u64,
        /// True if the store was closed for the backup.
        closed: bool,
    },
    /// The backup was restored into a new store, which was opened and compared with every blob.
    Restores {
        /// Number of blobs compared.
        blobs: u64,
    },
    /// The store was rewritten by its vendor's own means, or its files were defragmented, and the file system flushed.
    Rewrites {
        /// Call, statement or program.
        by: String,
        /// Disk space used before; absent if it cannot be determined.
        before_bytes: Option<u64>,
        /// Disk space used afterwards; absent if it cannot be determined.
        left_bytes: Option<u64>,
        /// Fragments of the blobs' files before, per blob; absent where they are not known.
        fragments_before: Option<f64>,
        /// Fragments of the blobs' files afterwards, per blob; absent where they are not known.
        fragments_left: Option<f64>,
    },
    /// Every blob was deleted.
    DeletesAll {
        /// Seconds from the first delete until the store had released the disk space that it releases by itself:
        /// deletes, settling, purging, deferred work, and flushing the file system.
        seconds: f64,
        /// Disk space used before; absent if it cannot be determined.
        before_bytes: Option<u64>,
        /// Disk space used afterwards; absent if it cannot be determined.
        left_bytes: Option<u64>,
    },
}
