//! Conclusions from the figures: comparisons, crossovers, disturbed rounds.

use blobwise_stores::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Finding, Interval, Reason, Round, StoreRound};
use crate::corpus::CorpusId;

named! {
    /// Verdict on a ratio of rates.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Verdict {
        /// The interval lies above 1, and not within 3 % of it.
        Faster = "faster",
        /// The interval lies below 1, and not within 3 % of it.
        Slower = "slower",
        /// The interval lies within 3 % of 1.
        Equal = "equal",
        /// The interval contains 1 and extends beyond 3 % of it.
        CannotTellApart = "cannot tell apart",
        /// The two are not comparable; the reason is given.
        NotRanked = "not ranked",
    }
}

/// Rate of a candidate relative to a reference.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Id of the phase.
    pub phase: String,
    /// Corpus of the run.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// Label of the candidate.
    pub store: String,
    /// Label of the reference.
    pub reference: String,
    /// Role of the reference: `plan`, `best` or `baseline`.
    pub against: ReferenceRole,
    /// Ratio of the rates, paired by round; above 1 the candidate is faster. Settled rates are used if there are any.
    pub ratio: Option<Interval>,
    /// Verdict on the ratio.
    pub verdict: Verdict,
    /// Reason why it is not ranked.
    pub reason: Option<Reason>,
}

/// Phase measured at several sizes: every candidate relative to the plan's reference, within the same rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// Id of the phase.
    pub phase: String,
    /// Label of the reference.
    pub reference: String,
    /// Number of cells with a verdict.
    pub compared: u64,
    /// Confidence of each interval, from 0 to 1; high enough that all of them hold simultaneously with 95 % confidence.
    pub confidence: f64,
    /// One cell per other candidate and size, without baselines.
    pub cells: Vec<MatrixCell>,
}

/// Ratio of one candidate to the reference at one size.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixCell {
    /// Label of the candidate.
    pub store: String,
    /// Blob size of a sweep, or the median size of one of several corpora.
    pub blob_bytes: u64,
    /// Ratio of the rates, paired by round; above 1 the candidate is faster. Settled rates are used if there are any.
    pub ratio: Option<Interval>,
    /// Verdict on the ratio.
    pub verdict: Verdict,
    /// Reason why it is not ranked.
    pub reason: Option<Reason>,
}

/// Role of the reference in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReferenceRole {
    /// Reference candidate of the plan, fixed before measuring.
    Plan,
    /// Candidate with the highest rate of the phase, known only afterwards, so the interval is simultaneous over all
    /// pairs of the phase.
    Best,
    /// Baseline that keeps the same blobs on the same device. The ratio is shown without a verdict.
    Baseline,
}

/// Blob size, amount of memory or number of blobs at which one candidate overtakes another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crossover {
    /// Id of the phase.
    pub phase: String,
    /// Faster candidate below that size.
    pub below: String,
    /// Faster candidate above that size.
    pub above: String,
    /// Interpolated size at which both are equally fast, in bytes (in a growth, a number of blobs, and in ageing, a percentage, like `low` and `high`).
    pub bytes: u64,
    /// Largest tested size at which `below` is proved faster, in bytes.
    pub low: u64,
    /// Smallest larger tested size at which `above` is proved faster, in bytes.
    pub high: u64,
}

/// First measurement of a disturbed round that was repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiscardedRound {
    /// Number of the round.
    pub round: u32,
    /// Disturbances that were detected.
    pub why: Vec<Disturbance>,
    /// Candidates' turns in the round.
    pub visits: Vec<StoreRound>,
    /// Figures of their phases.
    pub figures: Vec<DiscardedFigures>,
    /// Findings of the round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// Figures of one candidate in one phase of a discarded round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiscardedFigures {
    /// Label of the candidate.
    pub store: String,
    /// Corpus of the run.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// Id of the phase.
    pub phase: String,
    /// Discarded figures.
    pub measured: Round,
}

/// Disturbance of a round.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// Number of the round.
    pub round: u32,
    /// Candidate in which it was seen; absent if it affects all.
    pub store: Option<String>,
    /// Phase in which it was seen; absent if it affects all.
    pub phase: Option<String>,
    /// Corpus of the run.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// Evidence.
    pub cause: Cause,
}

/// Evidence of a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// The figure lies far from those of the other rounds.
    Far {
        /// Time of an op divided by its mean in the other rounds.
        times: f64,
    },
    /// A warm phase read from the device, which it did in few or no other rounds.
    ReadsDevice {
        /// Bytes read from the device.
        read_bytes: u64,
        /// Blob bytes read.
        delivered_bytes: u64,
        /// True if all files of the store were in the page cache at the end of the phase.
        cached: bool,
    },
    /// Other programs used the disk.
    OthersIo {
        /// Bytes read for other programs.
        read_bytes: u64,
        /// Bytes written beyond what the same phase wrote in other rounds.
        written_bytes: u64,
    },
    /// The CPU was slower or faster than in other rounds.
    Processor {
        /// Time of a fixed piece of work divided by its median in the other rounds.
        times: f64,
    },
}
