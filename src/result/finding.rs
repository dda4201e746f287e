//! What follows from the figures: comparisons, crossovers, disturbed rounds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Finding, Interval, Reason, Round, StoreRound};
use crate::corpus::CorpusId;

/// Five verdicts on a ratio of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval lies above 1.
    Faster,
    /// The interval lies below 1.
    Slower,
    /// The interval lies within 3 % of 1.
    Equal,
    /// The interval contains 1 and reaches further than 3 %.
    CannotTellApart,
    /// Not comparable, with the reason.
    NotRanked,
}

impl Verdict {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equal => "equal",
            Verdict::CannotTellApart => "cannot tell apart",
            Verdict::NotRanked => "not ranked",
        }
    }
}

/// The rate of a candidate over the rate of a reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The phase.
    pub phase: String,
    /// Which of the run's corpora.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// The candidate.
    pub store: String,
    /// What it is compared with.
    pub reference: String,
    /// Why the reference is what it is: `plan`, `best` or `baseline`.
    pub against: Against,
    /// Rate over rate, paired by round; above 1 the candidate is faster. Settled rates where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Interval>,
    /// What it means.
    pub verdict: Verdict,
    /// Why it is not ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// A phase at several sizes: every candidate over the plan's reference, within the same rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// The phase.
    pub phase: String,
    /// The candidate that all others are compared with.
    pub reference: String,
    /// Cells that have a verdict.
    pub compared: u64,
    /// How sure each of their intervals is, from 0 to 1: so sure that all of them hold at once with 95 %.
    pub confidence: f64,
    /// One for each other candidate and size, baselines left out.
    pub cells: Vec<MatrixCell>,
}

/// One candidate at one size over the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixCell {
    /// The candidate.
    pub store: String,
    /// The size of a sweep, or the middle size of one of several corpora.
    pub blob_bytes: u64,
    /// Rate over rate, paired by round; above 1 the candidate is faster. Settled rates where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Interval>,
    /// What it means.
    pub verdict: Verdict,
    /// Why it is not ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// What a candidate is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// The plan's reference candidate, fixed before anything was measured.
    Plan,
    /// The candidate with the highest rate of its phase, known only afterwards: its interval is simultaneous over all
    /// pairs of the phase.
    Best,
    /// A baseline that keeps the same blobs on the same device: the ratio is a fact, and nobody is judged by it.
    Baseline,
}

/// A size at which one candidate overtakes another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crossover {
    /// The phase.
    pub phase: String,
    /// The faster candidate below that size.
    pub below: String,
    /// The faster candidate above it.
    pub above: String,
    /// The size at which both are equally fast, interpolated.
    pub bytes: u64,
    /// The largest tested size at which `below` is proved to be faster.
    pub low: u64,
    /// The smallest tested size above it at which `above` is proved to be faster.
    pub high: u64,
}

/// A round that was disturbed and measured again, as it was measured first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetAside {
    /// The round.
    pub round: u32,
    /// What spoke against it.
    pub why: Vec<Disturbance>,
    /// Its candidates.
    pub visits: Vec<StoreRound>,
    /// Their phases.
    pub figures: Vec<SetAsideRound>,
    /// What was found in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// One candidate in one phase of such a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetAsideRound {
    /// The candidate's label.
    pub store: String,
    /// Which of the run's corpora.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// The phase.
    pub phase: String,
    /// What was measured.
    pub measured: Round,
}

/// What speaks against a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// The round.
    pub round: u32,
    /// The candidate in which it was seen; absent where it is about all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// The phase in which it was seen; absent where it is about all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Which of the run's corpora.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// What was seen.
    pub cause: Cause,
}

/// What was seen of a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// Its figure lies far from those of the other rounds.
    Far {
        /// The time of an op over its mean in the others.
        times: f64,
    },
    /// A warm phase read from the device, as it did in few other rounds or none.
    ReadsDevice {
        /// Bytes that were read from the device.
        read_bytes: u64,
        /// Bytes of blobs that were read.
        delivered_bytes: u64,
        /// Whether all files of the store were in the page cache when the phase ended.
        cached: bool,
    },
    /// Others used the disk.
    OthersIo {
        /// Bytes that were read for them.
        read_bytes: u64,
        /// Bytes that were written beyond what the same phase wrote in other rounds.
        written_bytes: u64,
    },
    /// The processor was slower or faster than in other rounds.
    Processor {
        /// The time of a fixed piece of work over its median in the others.
        times: f64,
    },
}
