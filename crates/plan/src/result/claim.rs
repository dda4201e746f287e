//! Published statements and this run's verdicts on them.

use blobwise_stores::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Interval;
use crate::plan::text::FigureUnit;

/// Published statement with this run's verdict.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// Id in the plan.
    pub id: String,
    /// Text of the statement.
    pub statement: String,
    /// Candidates that the statement is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// Published figure.
    pub published: Option<f64>,
    /// Same figure in this run. The interval is wider than that of a single claim if sub-claims are judged together.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::estimated")]
    #[schemars(with = "Option<super::estimated::Estimate>")]
    pub today: Option<Interval>,
    /// Unit of the figures; absent for ratios, shares and counts.
    pub unit: Option<FigureUnit>,
    /// Verdict on the statement.
    pub verdict: ClaimVerdict,
    /// Verdict on the size of the figure.
    pub magnitude: Option<Magnitude>,
    /// Reason why it is not testable or why the published figures are impossible, or other remarks for the reader.
    pub note: Option<String>,
    /// Description of the substitute, if something else was measured in place of what the document measured. The
    /// verdict then says nothing about the document.
    pub in_place: Option<String>,
    /// Sub-claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Claim>,
}

named! {
    /// Verdict on a published statement.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ClaimVerdict {
        /// The whole interval lies where the statement says.
        Confirmed = "confirmed",
        /// The whole interval lies elsewhere.
        Refuted = "refuted",
        /// The interval lies on both sides, or the two are proved equal where one was said to be better.
        CannotTellApart = "cannot tell apart",
        /// The run lacks the required figures; the note says which.
        NotTestable = "not testable",
        /// The run ended before the required figures were measured; resuming it may decide.
        NotReached = "not reached yet",
    }
}

named! {
    /// Comparison of this run's figure with the published one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Magnitude {
        /// The whole interval lies within a factor of 2 of the published figure, or within the range that the plan gives.
        Holds = "magnitude holds",
        /// The interval lies partly within that range.
        Open = "magnitude open",
        /// The whole interval lies outside that range.
        Refuted = "other magnitude",
    }
}
