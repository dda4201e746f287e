//! Serialized form of an interval around a figure that may be something other than a geometric mean.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_with::skip_serializing_none;

use super::Interval;

/// Figure with a confidence interval over rounds.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct Estimate {
    /// The figure. Money, differences and sums: arithmetic mean over rounds. Other ratios, rates and times: geometric
    /// mean. A spread: largest ratio of two candidates. (Format 4 called it `median`.)
    #[serde(alias = "median")]
    estimate: f64,
    /// Lower end of the interval; absent after a single round.
    low: Option<f64>,
    /// Upper end of the interval; absent after a single round.
    high: Option<f64>,
    /// Confidence of the interval, from 0 to 1; absent after a single round, and in format 4.
    confidence: Option<f64>,
}

pub(super) fn serialize<S: Serializer>(today: &Option<Interval>, to: S) -> Result<S::Ok, S::Error> {
    let written = today.map(|Interval { median, low, high, confidence }| Estimate {
        estimate: median,
        low,
        high,
        confidence,
    });
    written.serialize(to)
}

pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Interval>, D::Error> {
    let read = Option::<Estimate>::deserialize(from)?;
    Ok(read.map(|Estimate { estimate, low, high, confidence }| Interval {
        median: estimate,
        low,
        high,
        confidence,
    }))
}
