//! Findings of a phase that are not op figures: a table and a sentence on what it means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crash::Cuts;
use crate::corpus::CorpusId;

/// Type and unit of a table column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnType {
    /// Text.
    #[default]
    Text,
    /// Number of things.
    Count,
    /// Number of bytes.
    Bytes,
    /// Duration in nanoseconds.
    Nanoseconds,
    /// Part of a whole, from 0 to 1.
    Share,
    /// Number of things per second.
    PerSecond,
}

/// Column of a table of findings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingsColumn {
    /// Heading.
    pub title: String,
    /// Type and unit of the values.
    pub unit: ColumnType,
}

impl FindingsColumn {
    /// Returns a column with this heading and unit.
    pub fn new(title: &str, unit: ColumnType) -> FindingsColumn {
        FindingsColumn { title: title.to_owned(), unit }
    }
}

/// Value in a table of findings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FindingsValue {
    /// Number in the unit of its column.
    Number(f64),
    /// Text; in columns of [`ColumnType::Text`].
    Text(String),
}

impl FindingsValue {
    /// Wraps a number; `None` (not measured) if it is infinite or NaN.
    pub fn number(value: f64) -> Option<FindingsValue> {
        value.is_finite().then_some(FindingsValue::Number(value))
    }

    /// Wraps a text.
    pub fn text(words: &str) -> Option<FindingsValue> {
        Some(FindingsValue::Text(words.to_owned()))
    }
}

/// Consequence of a finding for its candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bearing {
    /// The candidate does what was asked for.
    Holds,
    /// The candidate does not do what was asked for.
    Fails,
    /// Neither; the finding is just a fact.
    Neither,
}

/// Findings about one candidate in one round: a table of any shape. All findings of a kind have the same columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingsTable {
    /// Title of the report section.
    pub title: String,
    /// Columns of the table.
    pub columns: Vec<FindingsColumn>,
    /// Lines of the table, with a value per column; null if it was not measured.
    pub lines: Vec<Vec<Option<FindingsValue>>>,
    /// Consequence for the candidate.
    pub bearing: Bearing,
    /// Meaning of the table, in one sentence.
    pub verdict: String,
    /// Results of power cuts; present in findings about these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_cuts: Option<Box<Cuts>>,
}

/// Finding, with the candidate, phase and round that it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Label of the candidate.
    pub store: String,
    /// Corpus of the run.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// Id of the phase.
    pub phase: String,
    /// Number of the round.
    pub round: u32,
    /// Content of the finding.
    #[serde(flatten)]
    pub found: FindingsTable,
}
