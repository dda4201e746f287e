//! What changed between two runs: what `blobwise compare --json` writes. `docs/compare.schema.json` is made from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Interval, RunResult, Verdict};
use crate::corpus::CorpusId;

/// Version of the format; a reader refuses any other one.
pub const COMPARED_SCHEMA: u32 = 2;

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    /// The version of the program that compared.
    pub blobwise: String,
    /// The earlier run.
    pub old: Side,
    /// The later run.
    pub new: Side,
    /// What was asked.
    pub asked: Asked,
    /// A row for each candidate in each phase.
    pub changes: Vec<Change>,
    /// All rows together.
    pub sum: Sum,
    /// What else is not the same in the two runs.
    pub differences: Vec<String>,
    /// What it comes to.
    pub outcome: Outcome,
}

/// What a comparison comes to: the first of these that is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A rate fell by more than the threshold, with its whole interval. Exit code 1.
    Regressed,
    /// No row of the two runs could be judged. Exit code 3.
    NothingCompared,
    /// Asked to be strict: a row could not have seen the fall that was asked about. Exit code 4.
    Blind,
    /// None of these. Exit code 0.
    Passed,
}

impl Outcome {
    /// The exit code of `blobwise compare`. Code 2 is that of every command whose input is wrong.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Passed => 0,
            Outcome::Regressed => 1,
            Outcome::NothingCompared => 3,
            Outcome::Blind => 4,
        }
    }
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Where it was read, as it was named.
    pub path: String,
    /// When it began (UTC).
    pub started: String,
    /// The version of the program that measured it.
    pub blobwise: String,
    /// `release` or `debug`.
    pub build: String,
    /// Rounds that were planned.
    pub rounds: u32,
    /// Whether all of them were measured.
    pub complete: bool,
}

impl Side {
    /// Of a run that was read at a path.
    pub fn of(path: &str, run: &RunResult) -> Side {
        let program = &run.program;
        Side {
            path: path.to_owned(),
            started: program.started.clone(),
            blobwise: program.version.clone(),
            build: program.build.clone(),
            rounds: run.fixed.rounds,
            complete: run.complete,
        }
    }
}

/// What was asked of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// A rate regressed when it fell by more than this share with its whole interval.
    pub threshold: f64,
    /// The fall that every row should be able to find, as a share.
    pub fall: f64,
    /// In which share of such runs.
    pub power: f64,
    /// Whether a row that could not find that fall fails the comparison.
    pub strict: bool,
    /// Whether the two runs measured in turn, round by round: ratios are paired by round, and the speed of the machine may change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_turn: bool,
}

/// What became of one candidate in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The candidate.
    pub store: String,
    /// The phase.
    pub phase: String,
    /// The size of a sweep.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// New rate over old rate; of rows that are not judged, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Interval>,
    /// What it says.
    pub verdict: ChangeVerdict,
    /// Whether it is slower by more than the threshold, with its whole interval.
    pub regressed: bool,
    /// The smallest fall that would have been found with the power that was asked for, as a share; absent where nothing was
    /// compared, or a run has a single round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_fall_found: Option<f64>,
    /// Whether the old run has a rate to guard here, and the fall that was asked about would not have been found.
    pub blind: bool,
}

impl Change {
    /// Its verdict, where the two could be compared.
    pub fn known(&self) -> Option<Verdict> {
        match self.verdict {
            ChangeVerdict::Known { verdict } => Some(verdict),
            _ => None,
        }
    }
}

/// What a change says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum ChangeVerdict {
    /// One of the verdicts on two rates.
    Known {
        /// Which.
        verdict: Verdict,
    },
    /// The processor's probes differ: the machine is not what it was.
    MachineChanged,
    /// The way to another processor differs by much of an op that waits for a process there.
    WayChanged,
    /// Only the old run has it.
    OnlyOld,
    /// Only the new run has it.
    OnlyNew,
    /// It cannot be compared.
    NotComparable {
        /// Why.
        why: String,
    },
}

/// All rows together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sum {
    /// Rows that could be compared.
    pub compared: usize,
    /// Rows that regressed.
    pub regressed: usize,
    /// Rows that could not find the fall that was asked about.
    pub blind: usize,
    /// The smallest fall that would have been found in whichever compared row it was; absent where one of them has no such fall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_in_each: Option<f64>,
    /// The smallest fall that would have been found in half of the compared rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_in_half: Option<f64>,
    /// Rounds that both runs would need for every compared row to find the fall; absent where all do, or where no reasonable number
    /// is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_needed: Option<u32>,
}
