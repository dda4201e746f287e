//! Curves: figures of one candidate over the number of blobs in its store, or over its age.

use blobwise_stores::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Interval;

/// A figure of one candidate at each step of a growth or of ageing.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepCurve {
    /// Label of the candidate.
    pub store: String,
    /// Name of the phase, without the step.
    pub phase: String,
    /// Figure.
    pub figure: CurveFigure,
    /// Steps in ascending order, as far as the store came.
    pub steps: Vec<CurveStep>,
    /// Value at the last step over that at the first one, paired by round.
    pub times: Interval,
    /// Slope of the logarithm of the value over that of the number of blobs: 0 if the value does not change, 1 if it is
    /// proportional to the number of blobs, below 0 if it falls. Absent for ageing.
    pub exponent: Option<Interval>,
    /// Extrapolation; present if one was asked for.
    pub forecast: Option<GrowthForecast>,
}

/// Value at a step of a growth or of ageing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurveStep {
    /// Number of blobs in the store; for ageing, the bytes overwritten since the fill, in percent of the live bytes.
    pub at: u64,
    /// Value with its interval over rounds.
    pub value: Interval,
}

/// Figure of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CurveFigure {
    /// Time per op in nanoseconds, deferred work included.
    Time,
    /// Disk space per blob in bytes.
    Disk,
    /// Memory of the candidate in bytes, without pages of mapped files.
    Memory,
    /// Disk space per byte of the blobs that are there.
    DiskPerByte,
    /// Bytes that the device wrote for each byte overwritten since the step before.
    WriteAmplification,
    /// Fragments of the blobs' files, per blob.
    Fragments,
}

/// Extrapolation of a curve, with the test that it had to pass.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrowthForecast {
    /// Number of blobs that was asked about.
    pub blobs: u64,
    /// Value at the last step as predicted from the steps before it, with its prediction interval; absent with too few
    /// steps.
    pub last_step: Option<Interval>,
    /// True if the last step lies within the interval that the steps before it predict by the law that they follow most closely,
    /// whichever law is used in the end; absent with too few steps or rounds.
    pub is_met: Option<bool>,
    /// Bytes that the device read for each byte delivered, at the step before the last one and at the last one; present if a curve
    /// of reads bends where the device begins to read more.
    pub device_reads: Option<[f64; 2]>,
    /// Law that the steps follow, or the reason why the curve is not extrapolated.
    pub outcome: GrowthOutcome,
}

/// Outcome of an extrapolation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthOutcome {
    /// The value that is expected.
    Expected {
        /// Law.
        law: GrowthLaw,
        /// Value with its prediction interval.
        value: Interval,
    },
    /// The last step is not where the steps before it lead, by any law.
    Bends,
    /// The steps scatter so much that the prediction of the last one, or what is expected, spans more than a factor of
    /// two.
    Scatters,
    /// There are fewer than five steps.
    TooFewSteps,
    /// There are fewer than five rounds.
    TooFewRounds,
}

named! {
    /// Law by which a figure depends on the number of blobs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum GrowthLaw {
        /// The same with any number of blobs.
        Constant = "constant",
        /// A constant plus a multiple of the logarithm of the number of blobs.
        Logarithmic = "logarithmic",
        /// A multiple of a power of the number of blobs.
        Power = "power law",
    }
}
