//! Published statements, and what a run says of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Interval;
use crate::plan::text::FigureUnit;

/// A published statement and what this run says of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// Its id in the plan.
    pub id: String,
    /// What was claimed.
    pub statement: String,
    /// The candidates it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// The published figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// The same figure of this run. With sub-claims that are judged together, its interval is wider than one by itself.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::estimated")]
    #[schemars(with = "Option<super::estimated::Estimate>")]
    pub today: Option<Interval>,
    /// What that is counted in; nothing for ratios, shares and counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<FigureUnit>,
    /// What this run says of the statement.
    pub verdict: ClaimVerdict,
    /// What it says of the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub magnitude: Option<Magnitude>,
    /// Why it is not testable, why the published figures are impossible, and what else a reader must know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What was measured in place of what the document did, where that is so: its verdict is none on the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<String>,
    /// Its sub-claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Claim>,
}

/// What a run says of a published statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The whole interval lies where the statement says.
    Confirmed,
    /// The whole interval lies elsewhere.
    Refuted,
    /// The interval reaches across, or both sides are proved to be equal where one was said to be better.
    CannotTellApart,
    /// This run has not what it needs; the note says what.
    NotTestable,
    /// The run was ended before it had measured what it needs; going on with it may tell.
    NotReached,
}

impl ClaimVerdict {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            ClaimVerdict::Confirmed => "confirmed",
            ClaimVerdict::Refuted => "refuted",
            ClaimVerdict::CannotTellApart => "cannot tell apart",
            ClaimVerdict::NotTestable => "not testable",
            ClaimVerdict::NotReached => "not reached yet",
        }
    }
}

/// How today's figure compares with the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Magnitude {
    /// The whole interval lies within a factor of 2 of it.
    Holds,
    /// The interval reaches across that.
    Open,
    /// The whole interval lies beyond that.
    Refuted,
}

impl Magnitude {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Magnitude::Holds => "magnitude holds",
            Magnitude::Open => "magnitude open",
            Magnitude::Refuted => "other magnitude",
        }
    }
}
