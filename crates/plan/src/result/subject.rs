//! Subjects of a run: corpora, candidates, their promises, and the disk space they use.

use blobwise_stores::named;
use std::collections::BTreeMap;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::VerifiedFrom;
use crate::corpus::CorpusId;
use crate::plan::text::{Class, DesignCandidate, Need, Transaction, cold_passes};
use crate::store::{ColdMethod, Durability, Kind, Losses, NoticedBy, Traits};

/// Screenshot of a candidate's page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Picture {
    /// Label of the candidate.
    pub store: String,
    /// PNG image, in base64.
    pub png: String,
}

impl Picture {
    /// Encodes a PNG image of the named candidate.
    pub fn new(store: &str, png: &[u8]) -> Picture {
        Picture { store: store.to_owned(), png: BASE64.encode(png) }
    }

    /// Decodes the PNG image; an error if the base64 is damaged.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        BASE64.decode(&self.png).with_context(|| format!("the picture of `{}` is damaged", self.store))
    }

    /// Returns the file name of the picture, made from the candidate's label.
    pub fn file(&self) -> String {
        /// File systems allow names of 255 bytes.
        const LETTERS_MAX: usize = 200;
        let letters = self.store.chars().take(LETTERS_MAX);
        let name: String = letters.map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        format!("{}.png", name.trim_matches('-'))
    }
}

/// Corpus of a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusResult {
    /// Source of the blobs: the name of a preset, or a directory.
    pub name: String,
    /// Number of blobs.
    pub blobs: u64,
    /// Total size of all blobs.
    pub bytes: u64,
    /// Size quantiles, `p10` to `p99`, in bytes.
    pub quantiles: BTreeMap<String, u64>,
    /// Size of the largest blob, in bytes.
    pub largest_bytes: u64,
    /// Compression ratio with deflate (as in gzip): original size divided by compressed size; absent for blobs without bytes.
    pub deflate_ratio: Option<f64>,
    /// Id among the run's corpora.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// Real files: number and total size of the files that the sample was taken from.
    pub sampled_from: Option<(u64, u64)>,
    /// Part of a preset's size distribution that was left out, or files of a directory that are too large for the
    /// sample.
    pub cut: Option<String>,
    /// Real files: digest (xxh3, 128 bits, in hexadecimal) of their paths, sizes and contents, before a budget reduced
    /// them.
    pub digest: Option<String>,
    /// Real files: entries that were left out, or that differ from their form on disk.
    pub skipped: Option<String>,
}

/// Largest blob that a store accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LargestBlob {
    /// Maximum size in bytes, by the store's own limits.
    Bytes(u64),
    /// No limit of the store's own.
    Unlimited,
}

/// Candidate: a store with its settings.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CandidateResult {
    /// Label, unique in a run.
    pub store: String,
    /// Name of the adapter.
    pub adapter: String,
    /// Kind of store; absent for a candidate that cannot run on this machine.
    pub kind: Option<Kind>,
    /// All settings.
    pub options: BTreeMap<String, String>,
    /// Other properties with these settings that decide what it is comparable with.
    #[serde(default, skip_serializing_if = "Traits::is_plain")]
    pub traits: Traits,
    /// Needs of programs that it serves; absent in results of versions that did not record them.
    pub serves: Option<Vec<Need>>,
    /// Largest blob that it accepts; absent in results of versions that did not record it.
    pub largest_blob: Option<LargestBlob>,
    /// True if its blobs can be replaced and deleted; absent in results of versions that did not record it.
    pub changes: Option<bool>,
    /// Versions and settings, read back from the store.
    pub facts: BTreeMap<String, String>,
    /// Durability class set for this candidate alone.
    pub own_durability: Option<Durability>,
    /// True if each of several clients had a store of its own, holding all blobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_one_for_each_client: bool,
    /// Grouping of reads into transactions in phases that do not set it; absent if each read is a transaction of its
    /// own.
    pub transaction: Option<Transaction>,
    /// Promise in phases that run in the requested class.
    pub promise: Option<Promise>,
    /// Promise during the fill, if it differs.
    pub fill_promise: Option<Promise>,
    /// Method that makes it cold; absent if there is none.
    pub made_cold: Option<ColdMethod>,
    /// Who detects a byte that changed on the device; absent if that is unknown or nothing is kept there.
    pub noticed_by: Option<NoticedBy>,
    /// Source of the last comparison of its turns; the best of all rounds.
    pub verified_from: Option<VerifiedFrom>,
    /// Outcome for the candidate as a whole.
    pub status: Status,
    /// Reason why it failed or cannot run.
    pub reason: Option<String>,
}

impl CandidateResult {
    /// True if it can run on this machine; a candidate that cannot has neither a kind nor traits.
    pub fn is_here(&self) -> bool {
        self.kind.is_some()
    }

    /// Returns the properties of the candidate that a plan depends on.
    pub fn member(&self) -> DesignCandidate {
        DesignCandidate {
            label: self.store.clone(),
            kind: self.kind,
            own_class: self.own_durability,
            lazy_delete: self.traits.lazy_delete,
        }
    }

    /// Returns the needs that it does not serve; `None` if the result did not record what it serves.
    pub fn lacks(&self, need: &[Need]) -> Option<Vec<Need>> {
        let serves = self.serves.as_ref()?;
        let is_unknown = |need: &Need| match need {
            Need::Changes => self.changes.is_none(),
            _ => self.largest_blob.is_none() && need.is_noted_with_largest_blob(),
        };
        if need.iter().any(is_unknown) {
            return None;
        }
        let is_served = |need: &Need| match (*need, self.largest_blob) {
            (Need::LargestBlob(wanted), Some(LargestBlob::Bytes(most))) => wanted <= most,
            (Need::LargestBlob(_), _) => true,
            (Need::Changes, _) => self.changes == Some(true),
            _ => serves.contains(need),
        };
        Some(need.iter().copied().filter(|need| !is_served(need)).collect())
    }

    /// True for baselines, which are shown but never ranked.
    pub fn is_baseline(&self) -> bool {
        self.kind == Some(Kind::Baseline)
    }

    /// Returns the promise in phases of the given class.
    pub fn promise_of(&self, class: Class) -> Option<Promise> {
        match class {
            Class::Fill | Class::Load => self.fill_promise.or(self.promise),
            Class::Asked => self.promise,
        }
    }

    /// Returns how many of the planned passes of a cold phase the candidate does.
    pub fn cold_passes(&self, planned: u32) -> u32 {
        cold_passes(self.made_cold, planned)
    }
}

/// Durability class of a candidate, and its loss at a process kill or a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Promise {
    /// Durability class.
    pub durability: Durability,
    /// Loss at a process kill or a power cut.
    pub loss: Losses,
}

named! {
    /// Outcome of a candidate or a cell.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Status {
        /// Figures are present.
        #[default]
        Measured = "no figures",
        /// An op, a check or the store itself failed.
        Failed = "failed",
        /// Ruled out by a hard limit of the store.
        NotPossible = "not possible",
        /// The store cannot run on this machine.
        NotAvailable = "not available",
    }
}

/// Disk space used by one candidate.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Footprint {
    /// Label of the candidate.
    pub store: String,
    /// Corpus of the run.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// Total size of the blobs.
    pub logical_bytes: u64,
    /// Size of the empty store, opened.
    pub empty_bytes: Option<u64>,
    /// Part of `empty_bytes` in logs.
    pub empty_log_bytes: Option<u64>,
    /// Memory of the open, empty store without the harness and page cache; present if the run limits memory.
    pub empty_memory_bytes: Option<u64>,
    /// Size after the fill, flushed.
    pub allocated_bytes: Option<u64>,
    /// Size after the store settled.
    pub after_settle_bytes: Option<u64>,
    /// Part of `after_settle_bytes` in separate indexes; present if the store can tell.
    pub index_bytes: Option<u64>,
    /// Part of `after_settle_bytes` in directories themselves, without the files in them.
    pub directory_bytes: Option<u64>,
    /// Part of `after_settle_bytes` in logs, whose contents are also stored elsewhere or will be.
    pub log_bytes: Option<u64>,
    /// Cross-check of `after_settle_bytes`, from the free space of the file system.
    pub statvfs_bytes: Option<u64>,
    /// Bytes written by the device from before the fill until settled, per byte of blobs.
    pub write_amplification: Option<f64>,
    /// `after_settle_bytes` per byte of blobs.
    pub space_amplification: Option<f64>,
    /// Growth per byte of blobs, from the empty to the settled store, without logs. Absent if logs are unknown, and if
    /// the growth is smaller than the blobs, because then the blobs may lie in a log.
    pub grows_per_byte: Option<f64>,
}

impl Footprint {
    /// Returns the disk bytes that a byte of blobs adds. If the growth is unknown, the whole size stands for it, unless
    /// logs are part of it.
    pub fn added_per_byte(&self) -> Option<f64> {
        let whole = || self.space_amplification.filter(|_| self.log_bytes.unwrap_or(0) == 0);
        self.grows_per_byte.or_else(whole)
    }

    /// Estimates the size on disk with this many bytes of blobs. Recycled logs and the empty store count once, because
    /// they do not grow with the blobs. `None` if the growth is not known.
    pub fn bytes_with(&self, blobs: f64) -> Option<f64> {
        match (self.grows_per_byte, self.after_settle_bytes) {
            (Some(grows), Some(all)) => {
                let fixed = (all as f64 - grows * self.logical_bytes as f64).max(0.0);
                Some(grows * blobs + fixed)
            }
            _ => Some(self.added_per_byte()? * blobs),
        }
    }

    /// Returns the part of `after_settle_bytes` that is neither directory, log nor index: the blobs and anything stored
    /// with them. `None` if the parts are unknown.
    pub fn data_bytes(&self) -> Option<u64> {
        let all = self.after_settle_bytes?.checked_sub(self.directory_bytes?)?;
        all.checked_sub(self.log_bytes?)?.checked_sub(self.index_bytes.unwrap_or(0))
    }
}

/// Phase of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseResult {
    /// Id of the phase.
    pub id: String,
    /// Kind of work.
    pub kind: String,
    /// Description; present for standard phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}
