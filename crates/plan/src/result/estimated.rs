//! Serialized form of an interval around a figure that may be something other than a geometric mean.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Interval;

/// Figure with a confidence interval over rounds.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct Estimate {
    /// The figure. Money, differences and sums: arithmetic mean over rounds. Other ratios, rates and times: geometric
    /// mean. A spread: largest ratio of two candidates. (Format 4 called it `median`.)
    #[serde(alias = "median")]
    estimate: f64,
    /// Lower end of the interval; absent after a single round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    /// Upper end of the interval; absent after a single round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
    /// Confidence of the interval, from 0 to 1; absent after a single round, and in format 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
