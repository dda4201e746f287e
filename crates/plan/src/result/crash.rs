//! Results of power cuts, as written by `blobwise crash` and stored in runs. `docs/crash.schema.json` is made from
//! these types.

pub mod besides;

use blobwise_stores::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::ReplacedFlushes;
use super::cause::CutCause;
pub use super::cause::Damage;
use super::checked::FileSystemCheck;
use crate::store::{Durability, Loss};
use crate::units;

/// Version of the format; readers refuse any other.
pub const CRASH_SCHEMA: u32 = 1;

/// Report of `blobwise crash`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrashReport {
    /// Version of the format.
    pub schema: u32,
    /// Version of the program.
    pub blobwise: String,
    /// Command line.
    pub command: String,
    /// Start time (UTC).
    pub started: String,
    /// Operating system and kernel of the machine.
    pub system: String,
    /// Environment variables or files that inject libraries into the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preloaded: Vec<String>,
    /// Flushing functions that injected libraries have replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_flushes: Vec<ReplacedFlushes>,
    /// Requested number of power cuts for each store, class and file system.
    pub cuts: u32,
    /// Requested number of kills for each store, class and file system.
    #[serde(default)]
    pub kills: u32,
    /// Seed of the ops, cuts, images and kill points.
    pub seed: u64,
    /// Number of workers that concurrently do the ops of a load.
    #[serde(default = "one")]
    pub workers: u8,
    /// Controls, which show that the lab detects losses and reports none where there are none.
    pub controls: Vec<Control>,
    /// One line per store, class and file system.
    pub lines: Vec<CrashResult>,
}

fn one() -> u8 {
    1
}

impl CrashReport {
    /// True if every control had the expected outcome. Otherwise there are no verdicts.
    pub fn holds(&self) -> bool {
        self.controls.iter().all(Control::holds)
    }

    /// Returns the file systems in the order in which they were tested.
    pub fn file_systems(&self) -> Vec<&str> {
        units::distinct(self.lines.iter().map(|line| line.file_system.as_str()))
    }
}

/// Results of power cuts on one candidate of a run, in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cuts {
    /// Controls of the run on the same file system.
    pub controls: Vec<Control>,
    /// Results.
    pub line: CrashResult,
}

/// Control experiment with a known outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Control {
    /// Description.
    pub what: String,
    /// File system on the disk.
    pub file_system: String,
    /// True if data must be lost, false if none may be.
    pub must_lose: bool,
    /// Number of cuts that lost data.
    pub lost: usize,
    /// Number of cuts.
    pub cuts: usize,
}

impl Control {
    /// True if the outcome was as expected.
    pub fn holds(&self) -> bool {
        (self.lost > 0) == self.must_lose && self.cuts > 0
    }
}

/// Results for a store in a class on a file system.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrashResult {
    /// Label of the store.
    pub store: String,
    /// Registration of uploads, if uploads were tested; absent if blobs were put without a catalog.
    pub uploads: Option<Uploads>,
    /// File system on the disk.
    pub file_system: String,
    /// Durability class.
    pub durability: Durability,
    /// Loss at a power cut, as declared by the adapter.
    pub declared: Loss,
    /// Verdict on the declared loss; absent if a control failed or there is no finding.
    pub verdict: Option<LossVerdict>,
    /// Reason why there is no finding, if the load itself failed.
    pub failed: Option<String>,
    /// Results of power cuts.
    pub finding: Option<PowerCutResults>,
    /// Results of the other faults: kills, device errors, ignored flushes and flipped bytes.
    #[serde(default)]
    pub besides: besides::OtherFaultResults,
}

/// Registration of uploads in a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uploads {
    /// Label of the store that holds the catalog.
    pub catalogue: String,
    /// True if entry and blob are written in one transaction, false if in separate steps.
    pub one_transaction: bool,
}

/// Results of the power cuts on one store.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PowerCutResults {
    /// Version reported by the store.
    pub version: Option<String>,
    /// Number of cuts.
    pub cuts: usize,
    /// Cuts that damaged something that the class promises to keep, by their worst damage.
    pub damaged: Vec<DamageCount>,
    /// Number of cuts that lost acknowledged writes that the class does not promise to keep.
    pub lost_recent: usize,
    /// Description of the first damage.
    pub first: Option<String>,
    /// Time to open the store after a cut.
    pub open_seconds: Option<OpenTimes>,
    /// Number of cuts after which opening hung (20 s), but succeeded at the second attempt.
    #[serde(default)]
    pub opened_again: usize,
    /// Number of cuts after which the file system could not be mounted. They say nothing about the store.
    pub unmountable: usize,
    /// Cause of the first damage of each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CutCause>,
    /// Result of the file system's own check. It says nothing about the store.
    #[serde(default)]
    pub checked: FileSystemCheck,
    /// Description of what timed out; no cuts were made after it.
    pub stuck: Option<String>,
    /// Requests that the load caused on the disk.
    pub sent: LoadRequests,
    /// Positions of the flushes and cuts.
    #[serde(default)]
    pub course: LogPositions,
}

impl PowerCutResults {
    /// Returns the number of cuts that damaged something.
    pub fn damages(&self) -> usize {
        self.damaged.iter().map(|sort| sort.cuts).sum()
    }

    /// Returns the number of these cuts whose worst damage is a declared fault of the store's program.
    pub fn known_faults(&self) -> usize {
        let known = self.damaged.iter().filter(|sort| sort.damage == Damage::KnownFault);
        known.map(|sort| sort.cuts).sum()
    }

    /// Returns the largest share of damaging cuts that is compatible (95 %, exact binomial bound) with having observed
    /// none.
    pub fn at_most(&self) -> f64 {
        1.0 - 0.05_f64.powf(1.0 / self.cuts.max(1) as f64)
    }
}

/// Number of cuts with this kind of damage as their worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct DamageCount {
    /// Kind of damage.
    pub damage: Damage,
    /// Number of cuts.
    pub cuts: usize,
}

/// Time from opening a store after a cut to its first read, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenTimes {
    /// Median.
    pub middle: f64,
    /// Maximum.
    pub longest: f64,
}

/// Requests that a load caused on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRequests {
    /// Number of writes.
    pub writes: usize,
    /// Number of flushes.
    pub flushes: usize,
}

/// Positions of flushes and cuts in the disk's log, counted from the first entry of the load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPositions {
    /// Number of log entries of the load.
    pub entries: usize,
    /// Numbers of entries after which the disk was flushed.
    pub flushes: Vec<usize>,
    /// Cuts in order: the number of entries before the cut, and the state it left.
    pub cuts: Vec<(usize, SurvivingData)>,
}

/// State that a cut left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SurvivingData {
    /// All acknowledged writes are present.
    Everything,
    /// All promised writes are present; some other acknowledged writes are lost.
    Promised,
    /// Some promised writes are lost or damaged.
    Less,
    /// The file system could not be mounted.
    NoFileSystem,
}

named! {
    /// Verdict on the loss that an adapter declares.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum LossVerdict {
        /// The promise held in every cut.
        Confirmed = "confirmed",
        /// The promise was broken.
        Refuted = "refuted",
        /// The promise was broken only in cuts that met a declared fault of the store's program.
        KnownFault = "known fault",
        /// The adapter promises nothing.
        NothingPromised = "nothing promised",
        /// The promise held, but in too few cuts to be conclusive, or something timed out.
        TooFewCuts = "too few cuts",
    }
}

/// Upper limit of the possible share of broken promises (see [`Finding::at_most`]) for a verdict of confirmed.
const TOO_LITTLE: f64 = 0.25;

impl LossVerdict {
    /// Returns the verdict on a declared loss.
    pub fn judge(declared: Loss, finding: &PowerCutResults) -> LossVerdict {
        match declared {
            Loss::StoreUnusable | Loss::All | Loss::NotKnown => LossVerdict::NothingPromised,
            _ if finding.damages() > finding.known_faults() => LossVerdict::Refuted,
            _ if finding.damages() > 0 => LossVerdict::KnownFault,
            _ if finding.stuck.is_some() || finding.at_most() > TOO_LITTLE => LossVerdict::TooFewCuts,
            _ => LossVerdict::Confirmed,
        }
    }
}
