//! What power cuts showed: what `blobwise crash` writes, and what a run keeps of them. `docs/crash.schema.json` is made from it.

pub mod besides;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ReplacedFlushes;
use super::cause::CutCause;
pub use super::cause::Damage;
use super::checked::Checked;
use crate::store::{Durability, Loss};

/// Version of the format; a reader refuses any other one.
pub const CRASH_SCHEMA: u32 = 1;

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    /// The program's version.
    pub blobwise: String,
    /// What was asked for.
    pub command: String,
    /// When it began.
    pub started: String,
    /// The machine's system and kernel.
    pub system: String,
    /// What loads libraries into the program that it does not ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preloaded: Vec<String>,
    /// Functions of flushing that such libraries have replaced in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_flushes: Vec<ReplacedFlushes>,
    /// Cuts asked for, for each store, class and file system.
    pub cuts: u32,
    /// Kills asked for, the same.
    #[serde(default)]
    pub kills: u32,
    /// What ops, cuts, images and marks of kills follow from.
    pub seed: u64,
    /// How many did the ops of a load at once.
    #[serde(default = "one")]
    pub workers: u8,
    /// What shows that the lab sees a loss, and sees none where there is none.
    pub controls: Vec<Control>,
    /// One line for each store, class and file system.
    pub lines: Vec<Line>,
}

fn one() -> u8 {
    1
}

impl Report {
    /// Whether every control came out as it must: without, there are no verdicts.
    pub fn holds(&self) -> bool {
        self.controls.iter().all(Control::holds)
    }

    /// File systems, in the order in which they were tried.
    pub fn file_systems(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = Vec::new();
        for line in self.lines.iter().map(|line| line.file_system.as_str()) {
            if !kinds.contains(&line) {
                kinds.push(line);
            }
        }
        kinds
    }
}

/// What power cuts showed of one candidate of a run in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cuts {
    /// The run's controls on that file system.
    pub controls: Vec<Control>,
    /// What was found.
    pub line: Line,
}

/// A control.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Control {
    /// What is done.
    pub what: String,
    /// The file system on the disk.
    pub file_system: String,
    /// Whether something must be lost.
    pub must_lose: bool,
    /// Cuts after which something was.
    pub lost: usize,
    /// Cuts.
    pub cuts: usize,
}

impl Control {
    /// Whether it came out as it must.
    pub fn holds(&self) -> bool {
        (self.lost > 0) == self.must_lose && self.cuts > 0
    }
}

/// What came of a store in a class on a file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// The store.
    pub store: String,
    /// How uploads are registered, where it is uploads that were tried; else blobs are put by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploads: Option<Uploads>,
    /// The file system on the disk.
    pub file_system: String,
    /// The class.
    pub durability: Durability,
    /// What its adapter declares that a power cut takes.
    pub declared: Loss,
    /// What the cuts say of that; absent where a control came out wrong, or nothing was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Why nothing was found, where the load itself failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What was found after power cuts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// What came of everything that is no power cut.
    #[serde(default)]
    pub besides: besides::Besides,
}

/// How uploads are registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uploads {
    /// The store that has the catalogue.
    pub catalogue: String,
    /// Whether entry and blob are one transaction, and not steps.
    pub one_transaction: bool,
}

/// What came of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What the store says that its version is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Cuts that were made.
    pub cuts: usize,
    /// Cuts after which something was damaged that the class promises, by the worst of it.
    pub damaged: Vec<Sort>,
    /// Cuts after which acknowledged writes were gone that the class does not promise.
    pub lost_recent: usize,
    /// The first damage, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// How long the store took to open again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_seconds: Option<Opens>,
    /// Cuts after which it hung (20 s), and opened when it was ended and tried again.
    #[serde(default)]
    pub opened_again: usize,
    /// Cuts after which the file system could not be mounted: they say nothing of the store.
    pub unmountable: usize,
    /// Why, for the first damage of each sort.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CutCause>,
    /// What the file system's own check says: never of the store.
    #[serde(default)]
    pub checked: Checked,
    /// What did not end in its time; no cuts were made after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    /// What the load made the kernel send.
    pub sent: Sent,
    /// When the disk was flushed and when it was cut.
    #[serde(default)]
    pub course: Course,
}

impl Finding {
    /// Cuts after which something was damaged.
    pub fn damages(&self) -> usize {
        self.damaged.iter().map(|sort| sort.cuts).sum()
    }

    /// How many of these met a fault of its program that is declared.
    pub fn known_faults(&self) -> usize {
        let known = self.damaged.iter().filter(|sort| sort.damage == Damage::KnownFault);
        known.map(|sort| sort.cuts).sum()
    }

    /// Above what share of cuts it would have been seen to damage something with 95 % certainty, where none did: by the exact
    /// binomial bound.
    pub fn at_most(&self) -> f64 {
        1.0 - 0.05_f64.powf(1.0 / self.cuts.max(1) as f64)
    }
}

/// How many cuts had a sort of damage as their worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Sort {
    /// The damage.
    pub damage: Damage,
    /// Cuts.
    pub cuts: usize,
}

/// How long a store takes to open after a cut, in seconds, to its first read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Opens {
    /// The middle.
    pub middle: f64,
    /// The longest.
    pub longest: f64,
}

/// What a load made the kernel send to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    /// Writes.
    pub writes: usize,
    /// Flushes.
    pub flushes: usize,
}

/// When the disk was flushed and when it was cut: places in its log, counted from the load's first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Course {
    /// Entries of the load.
    pub entries: usize,
    /// Behind which of them the disk was flushed.
    pub flushes: Vec<usize>,
    /// Cuts in their order: behind how many entries, and what was left.
    pub cuts: Vec<(usize, Left)>,
}

/// What a cut left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Left {
    /// Every acknowledged write.
    Everything,
    /// Everything that is promised: acknowledged writes that are not are gone.
    Promised,
    /// Less than is promised.
    Less,
    /// No file system that could be mounted.
    NoFileSystem,
}

/// What a finding says of what an adapter declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// What it promises held in every cut.
    Confirmed,
    /// What it promises did not hold.
    Refuted,
    /// It held but for cuts that met a fault of its program that is declared.
    KnownFault,
    /// It promises nothing.
    NothingPromised,
    /// It held, in so few cuts that it says little, or something did not end in its time.
    TooFewCuts,
}

/// Where a promise may be broken in more than this share of all cuts for all that is known, it is not called confirmed.
const TOO_LITTLE: f64 = 0.25;

impl Verdict {
    /// The verdict on a declared loss.
    pub fn on(declared: Loss, finding: &Finding) -> Verdict {
        match declared {
            Loss::StoreUnusable | Loss::All | Loss::NotKnown => Verdict::NothingPromised,
            _ if finding.damages() > finding.known_faults() => Verdict::Refuted,
            _ if finding.damages() > 0 => Verdict::KnownFault,
            _ if finding.stuck.is_some() || finding.at_most() > TOO_LITTLE => Verdict::TooFewCuts,
            _ => Verdict::Confirmed,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::Refuted => "refuted",
            Verdict::KnownFault => "known fault",
            Verdict::NothingPromised => "nothing promised",
            Verdict::TooFewCuts => "too few cuts",
        }
    }
}
