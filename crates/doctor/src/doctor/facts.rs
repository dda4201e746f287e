//! Facts: the statistics of a machine or server at two looks, as rows of named sources. They can be saved, loaded and judged
//! later.

use blobwise_stores::named;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A row of a source: numbers and short texts by name. A value that the source does not know is absent or null.
pub type Row = Map<String, Value>;

/// Reason why a check cannot tell, for people.
pub type UnknownReason = String;

named! {
    /// Kind of subject.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum SubjectKind {
        /// The machine that blobwise runs on.
        Machine = "The machine",
        /// A PostgreSQL server.
        PostgreSql = "PostgreSQL",
        /// A MySQL or MariaDB server.
        MySql = "MySQL and MariaDB",
        /// A MongoDB server, or one of another program that speaks its protocol.
        MongoDb = "MongoDB, and what speaks its protocol",
        /// A Redis or Valkey server.
        Redis = "Redis and Valkey",
        /// A SQL Server instance.
        MsSql = "SQL Server",
    }
}

/// Answer of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceAnswer {
    /// Its rows.
    Rows(Vec<Row>),
    /// No rows, with the reason.
    Refused(String),
}

/// One look at a subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Time of the look, in seconds since a moment that both looks share.
    pub seconds: f64,
    /// Answer of each source.
    pub told: BTreeMap<String, SourceAnswer>,
}

/// Two looks at one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubjectFacts {
    /// Kind of the subject.
    pub kind: SubjectKind,
    /// Name of the subject: a URL without its password.
    pub subject: String,
    /// Version that it reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Reason if it could not be queried at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
    /// The first look.
    pub earlier: Sample,
    /// The second look.
    pub later: Sample,
}

impl SubjectFacts {
    /// Facts before the first look.
    pub fn new(kind: SubjectKind, subject: String) -> SubjectFacts {
        let (earlier, later) = (Sample::default(), Sample::default());
        SubjectFacts { kind, subject, version: None, unreachable: None, earlier, later }
    }

    /// Seconds between the looks.
    pub fn seconds(&self) -> f64 {
        self.later.seconds - self.earlier.seconds
    }

    /// Rows of a source at the second look.
    pub fn rows(&self, source: &str) -> Result<&[Row], UnknownReason> {
        self.later.rows(source)
    }

    /// The only row of a source at the second look.
    pub fn row(&self, source: &str) -> Result<&Row, UnknownReason> {
        self.rows(source)?.first().ok_or_else(|| format!("`{source}` has no row"))
    }

    /// A number of a single-row source at the second look.
    pub fn number(&self, source: &str, field: &str) -> Result<f64, UnknownReason> {
        number(self.row(source)?, field).ok_or_else(|| format!("`{field}` is not told here"))
    }

    /// A number of a single-row source at the first look.
    pub fn number_before(&self, source: &str, field: &str) -> Result<f64, UnknownReason> {
        let before = self.earlier.rows(source)?.first().and_then(|row| number(row, field));
        before.ok_or_else(|| format!("`{field}` is not told here"))
    }

    /// Growth of a counter of a single-row source between the looks.
    pub fn growth(&self, source: &str, field: &str) -> Result<f64, UnknownReason> {
        grown(self.number_before(source, field)?, self.number(source, field)?)
    }

    /// Rows of a source at the second look, each with the row of the first look that has the same key, if any.
    pub fn pairs(&self, source: &str, key: &str) -> Result<Vec<(Option<&Row>, &Row)>, UnknownReason> {
        let earlier = self.earlier.rows(source)?;
        let before: BTreeMap<&str, &Row> = earlier.iter().map(|row| (text(row, key), row)).collect();
        Ok(self.rows(source)?.iter().map(|row| (before.get(text(row, key)).copied(), row)).collect())
    }
}

impl Sample {
    fn rows(&self, source: &str) -> Result<&[Row], UnknownReason> {
        match self.told.get(source) {
            Some(SourceAnswer::Rows(rows)) => Ok(rows),
            Some(SourceAnswer::Refused(why)) => Err(why.clone()),
            None => Err(format!("`{source}` was not asked")),
        }
    }
}

/// A connection to a server that can be examined.
pub trait Inspector {
    /// Version that the server reports.
    fn version(&mut self) -> Option<String>;

    /// Takes one look and returns the answer of each source. Sources that are queried only once are queried at the last look.
    fn look(&mut self, is_last: bool) -> BTreeMap<String, SourceAnswer>;

    /// Sends a query that costs the server nothing and waits for the answer.
    fn ping(&mut self) -> Result<(), UnknownReason>;
}

/// Growth of a counter; an error if it fell, because it was reset then.
pub fn grown(before: f64, after: f64) -> Result<f64, UnknownReason> {
    if after < before {
        Err("the counters were reset between the two looks".to_owned())
    } else {
        Ok(after - before)
    }
}

/// A number of a row; also accepts digits in a text, a boolean, and `ON`/`OFF` or `yes`/`no`.
pub fn number(row: &Row, field: &str) -> Option<f64> {
    match row.get(field)? {
        Value::Number(number) => number.as_f64(),
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Value::String(text) => match text.as_str() {
            "ON" | "on" | "yes" => Some(1.0),
            "OFF" | "off" | "no" => Some(0.0),
            text => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
        },
        _ => None,
    }
}

/// A number of a row; 0 if absent.
pub fn or_zero(row: &Row, field: &str) -> f64 {
    number(row, field).unwrap_or(0.0)
}

/// A text of a row; empty if absent.
pub fn text<'r>(row: &'r Row, field: &str) -> &'r str {
    row.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Growth of a counter between two rows; counted from 0 if the first row is missing.
pub fn growth(pair: &(Option<&Row>, &Row), field: &str) -> f64 {
    let before = pair.0.map_or(0.0, |row| or_zero(row, field));
    (or_zero(pair.1, field) - before).max(0.0)
}

/// Facts for tests: the rows of each source at two looks that are this many seconds apart. A text in place of rows is the reason
/// for a refusal.
#[cfg(test)]
pub fn between(seconds: f64, earlier: &[(&str, Value)], later: &[(&str, Value)]) -> SubjectFacts {
    let answer = |rows: &Value| match rows.as_str() {
        Some(why) => SourceAnswer::Refused(why.to_owned()),
        None => SourceAnswer::Rows(serde_json::from_value(rows.clone()).unwrap()),
    };
    let sample = |seconds: f64, sources: &[(&str, Value)]| Sample {
        seconds,
        told: sources.iter().map(|(name, rows)| ((*name).to_owned(), answer(rows))).collect(),
    };
    let (earlier, later) = (sample(1.0, earlier), sample(1.0 + seconds, later));
    SubjectFacts { earlier, later, ..SubjectFacts::new(SubjectKind::Machine, String::new()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(before: Value, after: Value) -> SubjectFacts {
        between(5.0, &[("s", before)], &[("s", after)])
    }

    #[test]
    fn counters_are_told_by_what_they_grew() {
        let grew = facts(json!([{"n": "5"}]), json!([{"n": 9}]));
        assert_eq!(grew.growth("s", "n"), Ok(4.0));
        assert_eq!(grew.seconds(), 5.0);
        let fell = facts(json!([{"n": 9}]), json!([{"n": 5}]));
        assert!(fell.growth("s", "n").unwrap_err().contains("reset"));
        assert!(fell.growth("s", "other").unwrap_err().contains("`other`"));
        assert!(fell.growth("other", "n").is_err());
    }

    #[test]
    fn rows_are_paired_by_their_key() {
        let facts = facts(json!([{"k": "a", "n": 1}]), json!([{"k": "b", "n": 7}, {"k": "a", "n": 3}]));
        let pairs = facts.pairs("s", "k").unwrap();
        assert_eq!(pairs.iter().map(|pair| growth(pair, "n")).collect::<Vec<_>>(), [7.0, 2.0]);
    }
}
