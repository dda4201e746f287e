//! What was measured: corpora, candidates, what is promised of them, and the disk that they take.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::VerifiedFrom;
use crate::corpus::CorpusId;
use crate::plan::text::{Class, Member, Need, Transaction, cold_passes};
use crate::store::{Durability, Kind, Losses, MadeCold, NoticedBy, Traits};

/// What a visitor sees of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Picture {
    /// The candidate's label.
    pub store: String,
    /// A PNG, base64.
    pub png: String,
}

impl Picture {
    /// A picture of a candidate.
    pub fn new(store: &str, png: &[u8]) -> Picture {
        Picture { store: store.to_owned(), png: BASE64.encode(png) }
    }

    /// The picture's bytes.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        BASE64.decode(&self.png).with_context(|| format!("the picture of `{}` is damaged", self.store))
    }

    /// The name of its file.
    pub fn file(&self) -> String {
        /// File systems take 255 bytes.
        const LETTERS_MAX: usize = 200;
        let letters = self.store.chars().take(LETTERS_MAX);
        let name: String = letters.map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        format!("{}.png", name.trim_matches('-'))
    }
}

/// The blobs of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusResult {
    /// What it was made from.
    pub name: String,
    /// Number of blobs.
    pub blobs: u64,
    /// Bytes, together.
    pub bytes: u64,
    /// Sizes below which a share of the blobs are: `p10` to `p99`.
    pub quantiles: BTreeMap<String, u64>,
    /// The largest blob.
    pub largest_bytes: u64,
    /// How many times smaller deflate, as of gzip, makes them.
    pub deflate_ratio: f64,
    /// Which of the run's corpora.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// Real files: how many files and bytes the sample was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_from: Option<(u64, u64)>,
    /// What of a preset's distribution was not made, or which files of a directory a sample has no room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// Real files: a digest (xxh3, 128 bits, in hexadecimal digits) of their paths, sizes and bytes, before a budget cut them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Real files: what was not taken, and what was taken otherwise than it is on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// The largest blob that a store takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LargestBlob {
    /// So many bytes, by its own limits.
    Bytes(u64),
    /// It has no limit of its own.
    Unlimited,
}

/// A candidate: a store with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CandidateResult {
    /// The label used everywhere.
    pub store: String,
    /// The adapter's name.
    pub adapter: String,
    /// What sort of place it is; absent for a candidate that cannot run here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// All its settings.
    pub options: BTreeMap<String, String>,
    /// What else is true of it with these settings.
    #[serde(default, skip_serializing_if = "Traits::is_plain")]
    pub traits: Traits,
    /// What it serves of what programs may need of a place; absent in results of versions that did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves: Option<Vec<Need>>,
    /// The largest blob that it takes; absent in results of versions that did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_blob: Option<LargestBlob>,
    /// Versions and settings read back from the store.
    pub facts: BTreeMap<String, String>,
    /// The class that was set for it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_durability: Option<Durability>,
    /// Each of several clients had one of its own, with all blobs in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_one_for_each_client: bool,
    /// How its reads are grouped where a phase does not say, if not each by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<Transaction>,
    /// What it promises in phases that run in the class asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// What it promises when it is filled, where that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_promise: Option<Promise>,
    /// How it is made cold; absent where it cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_cold: Option<MadeCold>,
    /// Who notices a byte that changed on the device; absent where that is not known, or nothing is kept there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noticed_by: Option<NoticedBy>,
    /// What the last comparison of its visits read: the best of all rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_from: Option<VerifiedFrom>,
    /// Whether it can run at all.
    pub status: Status,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CandidateResult {
    /// Whether it could run at all: what cannot has neither a kind nor traits.
    pub fn is_here(&self) -> bool {
        self.kind.is_some()
    }

    /// What a plan depends on of it.
    pub fn member(&self) -> Member {
        Member {
            label: self.store.clone(),
            kind: self.kind,
            own_class: self.own_durability,
            lazy_delete: self.traits.lazy_delete,
        }
    }

    /// Which of these it does not serve; `None` where nobody noted what it serves.
    pub fn lacks(&self, need: &[Need]) -> Option<Vec<Need>> {
        let serves = self.serves.as_ref()?;
        let is_unknown = |need: &Need| self.largest_blob.is_none() && need.is_noted_with_largest_blob();
        if need.iter().any(is_unknown) {
            return None;
        }
        let is_served = |need: &Need| match (*need, self.largest_blob) {
            (Need::LargestBlob(wanted), Some(LargestBlob::Bytes(most))) => wanted <= most,
            (Need::LargestBlob(_), _) => true,
            _ => serves.contains(need),
        };
        Some(need.iter().copied().filter(|need| !is_served(need)).collect())
    }

    /// Whether it is a baseline, shown but never ranked.
    pub fn is_baseline(&self) -> bool {
        self.kind == Some(Kind::Baseline)
    }

    /// What it promises in phases of a class.
    pub fn promise_of(&self, class: Class) -> Option<Promise> {
        match class {
            Class::Fill => self.fill_promise.or(self.promise),
            Class::Asked => self.promise,
        }
    }

    /// How many of the passes of a cold phase it does.
    pub fn cold_passes(&self, planned: u32) -> u32 {
        cold_passes(self.made_cold, planned)
    }
}

/// The class in which a candidate runs, and what a sudden end costs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Promise {
    /// The class.
    pub durability: Durability,
    /// What a sudden end costs.
    pub loss: Losses,
}

/// What became of a candidate or a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// There are figures.
    Measured,
    /// An op, a check or the store itself failed.
    Failed,
    /// A hard limit forbids it.
    NotPossible,
    /// The store cannot run here.
    NotAvailable,
}

/// Disk taken by one candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Footprint {
    /// The candidate's label.
    pub store: String,
    /// Which of the run's corpora.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// Bytes of the blobs.
    pub logical_bytes: u64,
    /// The empty store: opened, nothing put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_bytes: Option<u64>,
    /// What logs take of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_log_bytes: Option<u64>,
    /// Memory of the empty store, opened, without the harness's part and the kernel's cache of files; where a run limits memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_memory_bytes: Option<u64>,
    /// After the fill, flushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// After the store settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_settle_bytes: Option<u64>,
    /// What indexes beside the data take of that, where the store tells them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_bytes: Option<u64>,
    /// What directories take of that by themselves, beside the files in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory_bytes: Option<u64>,
    /// What logs take of that: what is in them lies elsewhere too, or will.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// The same as `after_settle_bytes` from the file system's free space: a cross-check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statvfs_bytes: Option<u64>,
    /// Bytes the device wrote from before the fill until after it settled, per byte of blobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
    /// `after_settle_bytes` per byte of blobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_amplification: Option<f64>,
    /// What it grows by per byte of blobs: from the empty store to the settled one, logs of both left out. Absent where logs are not
    /// known, and where that is less than the blobs: then a log may be where they lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grows_per_byte: Option<f64>,
}

impl Footprint {
    /// Bytes on disk with so many bytes of blobs. What does not grow with them, logs that are recycled and the empty store, is there
    /// once. Where that is not told apart, all of it grows. Absent where nothing is known.
    pub fn bytes_with(&self, blobs: f64) -> Option<f64> {
        match (self.grows_per_byte, self.after_settle_bytes) {
            (Some(grows), Some(all)) => {
                let fixed = (all as f64 - grows * self.logical_bytes as f64).max(0.0);
                Some(grows * blobs + fixed)
            }
            _ => Some(self.space_amplification? * blobs),
        }
    }

    /// What is neither directory nor log nor index of `after_settle_bytes`: the blobs, and whatever else lies with them. Absent
    /// where the parts are not known.
    pub fn data_bytes(&self) -> Option<u64> {
        let all = self.after_settle_bytes?.checked_sub(self.directory_bytes?)?;
        all.checked_sub(self.log_bytes?)?.checked_sub(self.index_bytes.unwrap_or(0))
    }
}

/// A phase of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseResult {
    /// Its name.
    pub id: String,
    /// The kind of work that it is.
    pub kind: String,
    /// What it does, of a phase that the plan only names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}
