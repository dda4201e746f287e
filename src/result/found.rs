//! What a kind of work found that is no figure of ops: a table, and a sentence that says what it means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crash::Cuts;
use crate::corpus::CorpusId;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Words.
    #[default]
    Text,
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// A part of a whole, from 0 to 1.
    Share,
    /// A number of things a second.
    PerSecond,
}

/// A column of what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoundColumn {
    /// What stands over it.
    pub title: String,
    /// What its values are.
    pub unit: Unit,
}

impl FoundColumn {
    /// A column.
    pub fn new(title: &str, unit: Unit) -> FoundColumn {
        FoundColumn { title: title.to_owned(), unit }
    }
}

/// A value that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FoundValue {
    /// In the unit of its column.
    Number(f64),
    /// In a column of words.
    Text(String),
}

impl FoundValue {
    /// A number; what is none was not measured.
    pub fn number(value: f64) -> Option<FoundValue> {
        value.is_finite().then_some(FoundValue::Number(value))
    }

    /// Words.
    pub fn text(words: &str) -> Option<FoundValue> {
        Some(FoundValue::Text(words.to_owned()))
    }
}

/// What a finding says of its candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bearing {
    /// The candidate does what was asked about.
    Holds,
    /// It does not.
    Fails,
    /// Neither: it is a fact.
    Neither,
}

/// What was found of one candidate in one round: a table of any shape. Findings of a kind have the same columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// What it is about: the title of its section.
    pub title: String,
    /// The columns of the table.
    pub columns: Vec<FoundColumn>,
    /// Its lines: a value for each column, or none where nothing was measured.
    pub lines: Vec<Vec<Option<FoundValue>>>,
    /// What it says of the candidate.
    pub bearing: Bearing,
    /// What it means, in a sentence.
    pub verdict: String,
    /// What power cuts showed, where it is of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_cuts: Option<Box<Cuts>>,
}

/// A finding, and of what it is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The candidate's label.
    pub store: String,
    /// Which of the run's corpora.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// The phase.
    pub phase: String,
    /// The round.
    pub round: u32,
    /// What was found.
    #[serde(flatten)]
    pub found: Found,
}
