//! Causes of damage after a power cut: the smallest set of writes that were lost or survived, and the files they belong
//! to.

use blobwise_stores::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Cause of one instance of damage.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CutCause {
    /// Kind of damage.
    pub damage: Damage,
    /// Promise that was broken; absent if the store does not open or nothing about the blob was promised.
    pub promise: Option<DurabilityPromise>,
    /// Number of the blob; absent if the whole store is affected.
    pub blob: Option<u64>,
    /// Number of entries in the disk's log before the power cut.
    pub cut: usize,
    /// Number of these writes that no flush had covered.
    pub pending: usize,
    /// Relation between the writes below and the damage.
    pub by: CutBy,
    /// Smallest set of responsible writes, in log order.
    pub writes: Vec<DiskWrite>,
    /// True if no write can be left out of the set; false if the search ended early.
    pub is_smallest: bool,
    /// Last log entry up to which the damage persists whatever survives: the next op on the blob, or the end.
    pub until: Option<usize>,
    /// Number of disk images made during the search.
    pub images: usize,
}

/// Promise that a write is durable, and what its op had written to the disk by then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DurabilityPromise {
    /// Number of the op.
    pub op: usize,
    /// True if the op deleted the blob.
    pub is_delete: bool,
    /// Number of log entries when the op began.
    pub began: usize,
    /// Number of log entries when the promise was made: when the op, or a later sync, returned.
    pub at: usize,
    /// True if a sync made the promise.
    pub by_sync: bool,
    /// Entries of the disk flushes between the two.
    pub flushes: Vec<usize>,
    /// Writes to files between the two.
    pub written: Vec<DiskWrite>,
}

/// Relation between a set of writes and the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CutBy {
    /// They were not flushed and were lost; if they survive, nothing is damaged.
    Missing,
    /// They had not been sent to the disk before the cut; if the last of them had been, nothing would be damaged.
    NotSent,
    /// They were not flushed and survived where others did not; without them, nothing is damaged.
    Surviving,
    /// The damage occurs whichever writes survive, and also with later ones.
    Whatever,
    /// Not explained by the writes: the damage did not recur with the same image.
    NotAgain,
}

/// Write to the disk.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskWrite {
    /// Entry in the disk's log.
    pub entry: usize,
    /// Offset on the disk, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Number of its bytes that survived the cut.
    pub survived: u64,
    /// Entry of the first flush that covered it; absent if there was none.
    pub flushed: Option<usize>,
    /// File it belongs to; absent for metadata of the file system and for files deleted before they were fully written.
    pub place: Option<FilePlace>,
}

/// Position in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilePlace {
    /// Path from the disk's root, with a trailing `/` for directories.
    pub file: String,
    /// Offset in the file, in bytes.
    pub offset: u64,
}

named! {
    /// Kind of damage, ordered by severity, the worst last.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Damage {
        /// A blob has the contents from before a write that was promised to be durable.
        Old = "old blob",
        /// A blob that was promised to be durable is missing.
        Lost = "blob lost",
        /// A blob is present although its delete was promised to be durable.
        Back = "deleted blob back",
        /// A blob is incomplete or has contents that were never put.
        Wrong = "wrong bytes",
        /// A blob cannot be read: the store returns an error.
        Unreadable = "blob unreadable",
        /// An upload is in the catalog, but its blob is missing.
        Dangling = "catalogued without its blob",
        /// The store does not open because of a known fault of its program, declared by the adapter.
        KnownFault = "known fault",
        /// The store does not open, or crashes.
        Unusable = "store unusable",
    }
}
