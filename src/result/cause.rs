//! What a power cut took or left that damaged what is promised: the smallest set of writes, and whose they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cause of one damage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CutCause {
    /// What is wrong.
    pub damage: Damage,
    /// What should have stayed; absent where the store does not open, or nothing of the blob had to stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promised>,
    /// The blob; absent where it is the whole store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<u64>,
    /// Entries of the disk's log that had come when the power went.
    pub cut: usize,
    /// Writes of these that no flush had covered.
    pub pending: usize,
    /// What about the writes below does it.
    pub by: CutBy,
    /// The smallest set of writes, in the order of the log.
    pub writes: Vec<DiskWrite>,
    /// Whether nothing can be left out of it: else the search ended early.
    pub is_smallest: bool,
    /// Up to which entry of the log the damage stays, whatever survives: to the next op on the blob, or the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<usize>,
    /// Images of the disk that were made to find it.
    pub images: usize,
}

/// What had to stay, and what its op had written when that was promised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Promised {
    /// The op's number.
    pub op: usize,
    /// Whether it deleted the blob.
    pub is_delete: bool,
    /// Entries of the log when the op began.
    pub began: usize,
    /// Entries of the log when it was promised to stay: by the op's return, or by that of a later sync.
    pub at: usize,
    /// Whether a sync promised it.
    pub by_sync: bool,
    /// Flushes of the disk between the two: their entries.
    pub flushes: Vec<usize>,
    /// Writes between the two that are a file's.
    pub written: Vec<DiskWrite>,
}

/// How writes make a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CutBy {
    /// They were not flushed, and the cut took them; with them, all is well.
    Missing,
    /// They had not even been sent to the disk when the power went; with the last of them, all is well.
    NotSent,
    /// They were not flushed, and survived where others did not; without them, all is well.
    Surviving,
    /// Whatever survives, and with what was sent later: the damage stays.
    Whatever,
    /// Not by the writes alone: the same image did not show it again.
    NotAgain,
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskWrite {
    /// Its entry in the disk's log.
    pub entry: usize,
    /// Where on the disk, in bytes.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bytes of it that survived the cut.
    pub survived: u64,
    /// The first flush that covered it: its entry; absent where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushed: Option<usize>,
    /// Whose it is; absent where it is no file's: the file system's own, or of a file that was gone before it was written whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<FilePlace>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilePlace {
    /// The file, from the disk's root; with `/` at its end a directory.
    pub file: String,
    /// Where in it, in bytes.
    pub offset: u64,
}

/// What is wrong, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// A blob is as it was before a write that had to stay.
    Old,
    /// A blob that had to stay is not there.
    Lost,
    /// A blob is there whose delete had to stay.
    Back,
    /// A blob is neither whole nor any that was put.
    Wrong,
    /// A blob cannot be read: the store says so.
    Unreadable,
    /// An upload is catalogued, and its blob is missing.
    Dangling,
    /// The store does not open, by a fault of its program that its adapter declares.
    KnownFault,
    /// The store does not open, or dies.
    Unusable,
}

impl Damage {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Damage::Old => "old blob",
            Damage::Lost => "blob lost",
            Damage::Back => "deleted blob back",
            Damage::Wrong => "wrong bytes",
            Damage::Unreadable => "blob unreadable",
            Damage::Dangling => "catalogued without its blob",
            Damage::KnownFault => "known fault",
            Damage::Unusable => "store unusable",
        }
    }
}
