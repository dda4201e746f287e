//! Comparison of two runs, as written by `blobwise compare --json`. `docs/compare.schema.json` is made from these
//! types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Interval, RunResult, Verdict};
use crate::corpus::CorpusId;

/// Version of the format; readers refuse any other.
pub const COMPARED_SCHEMA: u32 = 2;

/// Comparison of two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonReport {
    /// Version of the format.
    pub schema: u32,
    /// Version of the program that compared.
    pub blobwise: String,
    /// Earlier run.
    pub old: ComparedRun,
    /// Later run.
    pub new: ComparedRun,
    /// Parameters of the comparison.
    pub asked: CompareOptions,
    /// One row per candidate and phase.
    pub changes: Vec<Change>,
    /// Summary of all rows.
    pub sum: ComparisonSummary,
    /// Other differences between the runs.
    pub differences: Vec<String>,
    /// Overall outcome.
    pub outcome: ComparisonOutcome,
}

/// Outcome of a comparison: the first of these that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ComparisonOutcome {
    /// A rate fell by more than the threshold, with its whole interval. Exit code 1.
    Regressed,
    /// No row of the two runs could be judged. Exit code 3.
    NothingCompared,
    /// In strict mode: a row could not have detected the requested fall. Exit code 4.
    Blind,
    /// None of the above. Exit code 0.
    Passed,
}

impl ComparisonOutcome {
    /// Returns the exit code of `blobwise compare`. Code 2 is reserved for invalid input, as in every command.
    pub fn exit_code(self) -> u8 {
        match self {
            ComparisonOutcome::Passed => 0,
            ComparisonOutcome::Regressed => 1,
            ComparisonOutcome::NothingCompared => 3,
            ComparisonOutcome::Blind => 4,
        }
    }
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedRun {
    /// Path of the result, as given on the command line.
    pub path: String,
    /// Start time (UTC).
    pub started: String,
    /// Version of the program that measured it.
    pub blobwise: String,
    /// `release` or `debug`.
    pub build: String,
    /// Number of rounds; of a run that was ended early, those that were begun.
    pub rounds: u32,
    /// True if all rounds were measured.
    pub complete: bool,
}

impl ComparedRun {
    /// Returns the description of a run that was read from `path`.
    pub fn new(path: &str, run: &RunResult) -> ComparedRun {
        let program = &run.program;
        ComparedRun {
            path: path.to_owned(),
            started: program.started.clone(),
            blobwise: program.version.clone(),
            build: program.build.clone(),
            rounds: if run.complete { run.fixed.rounds } else { run.rounds_begun() },
            complete: run.complete,
        }
    }
}

/// Parameters of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompareOptions {
    /// Share by which a rate must fall, with its whole interval, to count as regressed.
    pub threshold: f64,
    /// Fall that every row should be able to detect, as a share.
    pub fall: f64,
    /// Statistical power: the share of such runs in which the fall should be detected.
    pub power: f64,
    /// True if a row that cannot detect that fall fails the comparison.
    pub strict: bool,
    /// True if the two runs measured alternately, round by round. Ratios are then paired by round, so the speed of the
    /// machine may change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_turn: bool,
}

/// Change of one candidate in one phase.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Label of the candidate.
    pub store: String,
    /// Id of the phase.
    pub phase: String,
    /// Corpus of the run, such as a size of a sweep.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// New rate divided by old rate; also present in rows that are not judged.
    pub ratio: Option<Interval>,
    /// Verdict on the change.
    pub verdict: ChangeVerdict,
    /// True if it is slower by more than the threshold, with its whole interval.
    pub regressed: bool,
    /// Smallest fall that would have been detected with the requested power, as a share; absent if nothing was compared
    /// or a run has a single round.
    pub smallest_fall_found: Option<f64>,
    /// True if the old run has a rate here, but the requested fall would not have been detected.
    pub blind: bool,
}

impl Change {
    /// Returns the verdict on the two rates; `None` if they could not be compared.
    pub fn known(&self) -> Option<Verdict> {
        match self.verdict {
            ChangeVerdict::Known { verdict } => Some(verdict),
            _ => None,
        }
    }
}

/// Verdict on a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum ChangeVerdict {
    /// Verdict on two comparable rates.
    Known {
        /// Verdict on the ratio of the rates.
        verdict: Verdict,
    },
    /// The CPU probes differ, so the machine is not the same or runs at another speed.
    MachineChanged,
    /// The cross-CPU round trip changed by a large part of an op that waits for another process.
    WayChanged,
    /// Only the old run has this row.
    OnlyOld,
    /// Only the new run has this row.
    OnlyNew,
    /// The rows cannot be compared.
    NotComparable {
        /// Explanation.
        why: String,
    },
}

/// Summary of all rows.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonSummary {
    /// Rows that could be compared.
    pub compared: usize,
    /// Rows that regressed.
    pub regressed: usize,
    /// Rows that could not detect the requested fall.
    pub blind: usize,
    /// Smallest fall that would have been detected in every compared row; absent if a row has none.
    pub found_in_each: Option<f64>,
    /// Smallest fall that would have been detected in half of the compared rows.
    pub found_in_half: Option<f64>,
    /// Rounds that both runs would need for every compared row to detect the fall; absent if all do already, or if no
    /// reasonable number is enough.
    pub rounds_needed: Option<u32>,
}
