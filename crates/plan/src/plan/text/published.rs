//! What a plan records about the document it repeats: its tables, the figures it derives from them, and what it leaves open.

use anyhow::{Context, Result, anyhow, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::claims::{DetailedOperand, Metric, Operand};

/// Publication of an experiment.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Author.
    pub author: String,
    /// Title.
    pub title: String,
    /// Date of publication, as far as it is known.
    pub date: String,
    /// Machine and software used at the time.
    pub machine: String,
    /// Address of the original, if it is known.
    pub url: Option<String>,
    /// Address of an archived copy, if there is one.
    pub archived: Option<String>,
}

/// A candidate available today, in place of one that is not. It has its own rows and verdicts, beside those of the original.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Successor {
    /// Candidate that it replaces.
    pub of: String,
    /// Label of the replacement.
    pub candidate: String,
    /// Explains what is measured in place of what; reports show it with every result of the replacement.
    pub words: String,
}

/// A table of published figures.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PublishedText {
    /// Short name; figures are referred to as `id/series`.
    pub id: String,
    /// Title.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Series that ratios refer to.
    pub reference: String,
    /// True if larger values are better; ratios are then inverted, so that they are ratios of times.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rates: bool,
    /// Metric measured today in its place.
    pub metric: Option<Metric>,
    /// Steps of an op that are measured, if `metric = "steps"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Phase of series that name none.
    pub phase: Option<String>,
    /// Corpus of series that name none.
    pub corpus: Option<String>,
    /// Reason why the figures cannot be right, with the arithmetic.
    pub impossible: Option<String>,
    /// Rows or columns of the table.
    pub series: Vec<PublishedSeries>,
}

/// One system of a published table.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedSeries {
    /// Name in the document.
    pub name: String,
    /// Candidate that represents it today; absent if it is only a column of figures.
    pub today: Option<Operand>,
    /// Values: one, or one for each repetition or part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
    /// Value of the last printed digit; published values may be off by half of it.
    pub step: Option<f64>,
    /// Unit, if it differs from the table's; such a column has no ratio.
    pub unit: Option<String>,
    /// Number of occurrences of each value, if the table is a histogram.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<u64>,
    /// Published wording, if no figure was given.
    pub words: Option<String>,
}

impl PublishedSeries {
    /// Mean of the values, weighted by their counts; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        if self.values.is_empty() {
            return None;
        }
        if self.counts.is_empty() {
            return Some(self.values.iter().sum::<f64>() / self.values.len() as f64);
        }
        let pairs = self.values.iter().zip(&self.counts);
        let total: f64 = pairs.map(|(value, count)| value * *count as f64).sum();
        Some(total / self.counts.iter().sum::<u64>() as f64)
    }
}

impl PublishedText {
    /// Converts an operand to a target, with the table's phase, corpus, metric and steps as defaults.
    pub fn target(&self, operand: &Operand) -> DetailedOperand {
        operand.within(self.phase.as_ref(), self.corpus.as_ref(), self.metric, &self.steps)
    }

    /// Rejects a table whose candidates have `steps` without the metric, or vice versa.
    pub fn check(&self) -> Result<()> {
        let mut candidates = self.series.iter().filter_map(|series| series.today.as_ref());
        candidates
            .try_for_each(|candidate| self.target(candidate).check())
            .with_context(|| format!("published table `{}`", self.id))
    }

    /// Heading of the table's ratios. Rates are inverted, so that lower is always faster.
    pub fn heading(&self) -> String {
        if self.rates { format!("{}, as ratios of times", self.title) } else { self.title.clone() }
    }

    /// Ratio of a series to the reference, as a ratio of times; `None` for a series of another unit.
    pub fn ratio(&self, series: &PublishedSeries) -> Option<f64> {
        if series.unit.is_some() {
            return None;
        }
        let reference = self.series.iter().find(|known| known.name == self.reference)?;
        let ratio = series.mean()? / reference.mean()?;
        Some(if self.rates { 1.0 / ratio } else { ratio })
    }
}

/// A figure that a document derives from its own tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Derived {
    /// The statement, paraphrased.
    pub what: String,
    /// How it is derived.
    pub by: Derivation,
    /// Series that it is derived from, as `id/series`.
    pub of: Vec<String>,
    /// Stated figures: one, or one for each value.
    pub stated: Vec<f64>,
    /// Value of the last stated digit.
    pub step: f64,
    /// Explanation with the arithmetic, if the figure does not follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disagreement: Option<String>,
}

/// How a figure is derived from series of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Derivation {
    /// Sum of one series; of a histogram, of everything counted.
    Sum,
    /// Mean of one series.
    #[default]
    Mean,
    /// Total count of a histogram.
    Count,
    /// Mean of the first divided by the mean of the second.
    Ratio,
    /// The ratio of the means minus 1, in percent.
    PercentMore,
    /// 1 minus the ratio of the means, in percent.
    PercentLess,
    /// Mean of the first minus the mean of the second.
    Difference,
    /// Each value of the first divided by that of the second, in percent.
    PercentOfEach,
    /// Largest minus smallest value, in percent of the mean.
    Spread,
}

/// Interval of a rounded figure.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn around(value: f64, step: f64) -> Range {
        Range { low: value - step / 2.0, high: value + step / 2.0 }
    }

    /// True if two rounded figures agree, i.e. their intervals overlap; allows for floating-point error.
    fn meets(self, other: Range) -> bool {
        let hair = 1e-9 * (self.high.abs() + other.high.abs());
        self.low <= other.high + hair && other.low <= self.high + hair
    }

    fn divide(self, other: Range) -> Range {
        Range { low: self.low / other.high, high: self.high / other.low }
    }

    fn map(self, change: impl Fn(f64) -> f64) -> Range {
        let (a, b) = (change(self.low), change(self.high));
        Range { low: a.min(b), high: a.max(b) }
    }
}

impl Derived {
    /// Checks whether the stated figures follow from the tables within rounding; the inner error is the reason if not.
    pub fn follows(&self, tables: &[PublishedText]) -> Result<std::result::Result<(), String>> {
        let worked_out = self.worked_out(tables)?;
        if worked_out.len() != self.stated.len() {
            bail!(
                "`{}`: {} figures are stated and {} follow",
                self.what,
                self.stated.len(),
                worked_out.len()
            );
        }
        for (place, (range, stated)) in worked_out.iter().zip(&self.stated).enumerate() {
            if !range.meets(Range::around(*stated, self.step)) {
                let (low, high) = (range.low, range.high);
                return Ok(Err(format!("figure {}: {stated} is stated, {low} to {high} follows", place + 1)));
            }
        }
        Ok(Ok(()))
    }

    fn worked_out(&self, tables: &[PublishedText]) -> Result<Vec<Range>> {
        let series: Vec<&PublishedSeries> =
            self.of.iter().map(|name| find(tables, name)).collect::<Result<_>>()?;
        let mean = |series: &PublishedSeries| -> Result<Range> {
            let mean = series.mean().ok_or_else(|| anyhow!("`{}` has no values", series.name))?;
            Ok(Range::around(mean, series.step.unwrap_or(0.0)))
        };
        let ratio =
            |a: &PublishedSeries, b: &PublishedSeries| -> Result<Range> { Ok(mean(a)?.divide(mean(b)?)) };
        let one = |range: Result<Range>| range.map(|range| vec![range]);
        match (self.by, series.as_slice()) {
            (Derivation::Sum, [a]) => {
                let times = if a.counts.is_empty() { a.values.len() as u64 } else { a.counts.iter().sum() };
                one(mean(a).map(|mean| mean.map(|mean| mean * times as f64)))
            }
            (Derivation::Mean, [a]) => one(mean(a)),
            (Derivation::Count, [a]) => one(Ok(Range::around(a.counts.iter().sum::<u64>() as f64, 0.0))),
            (Derivation::Ratio, [a, b]) => one(ratio(a, b)),
            (Derivation::PercentMore, [a, b]) => {
                one(ratio(a, b).map(|r| r.map(|ratio| (ratio - 1.0) * 100.0)))
            }
            (Derivation::PercentLess, [a, b]) => {
                one(ratio(a, b).map(|r| r.map(|ratio| (1.0 - ratio) * 100.0)))
            }
            (Derivation::Difference, [a, b]) => {
                let (a, b) = (mean(a)?, mean(b)?);
                one(Ok(Range { low: a.low - b.high, high: a.high - b.low }))
            }
            (Derivation::PercentOfEach, [a, b]) => Ok(each(a, b)),
            (Derivation::Spread, [a]) => one(spread(a)),
            _ => bail!("`{}` does not follow from {} series", self.what, series.len()),
        }
    }
}

fn each(a: &PublishedSeries, b: &PublishedSeries) -> Vec<Range> {
    let around = |series: &PublishedSeries, value: f64| Range::around(value, series.step.unwrap_or(0.0));
    let pairs = a.values.iter().zip(&b.values);
    pairs.map(|(x, y)| around(a, *x).divide(around(b, *y)).map(|ratio| ratio * 100.0)).collect()
}

fn spread(series: &PublishedSeries) -> Result<Range> {
    let mean = series.mean().ok_or_else(|| anyhow!("`{}` has no values", series.name))?;
    let (low, high) = series
        .values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    let step = series.step.unwrap_or(0.0);
    Ok(Range::around(high - low, 2.0 * step).map(|range| range / mean * 100.0))
}

fn find<'t>(tables: &'t [PublishedText], name: &str) -> Result<&'t PublishedSeries> {
    let split = name.split_once('/');
    let (id, series) = split.ok_or_else(|| anyhow!("`{name}` is not of the form table/series"))?;
    let table = tables.iter().find(|table| table.id == id);
    let found = table.and_then(|table| table.series.iter().find(|known| known.name == series));
    found.ok_or_else(|| anyhow!("there is no published series `{name}`"))
}

/// A detail that a document leaves open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unspecified {
    /// The detail.
    pub what: String,
    /// Choice of this plan.
    pub here: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> Vec<PublishedText> {
        let series = |name: &str, values: &[f64], step: f64| PublishedSeries {
            name: name.into(),
            values: values.to_vec(),
            step: Some(step),
            ..PublishedSeries::default()
        };
        let counted = PublishedSeries { counts: vec![3, 1], ..series("counted", &[1.0, 2.0], 0.0) };
        let all = vec![series("a", &[2.0, 4.0], 0.1), series("b", &[6.0, 8.0], 0.1), counted];
        vec![PublishedText { id: "t".into(), reference: "a".into(), series: all, ..PublishedText::default() }]
    }

    fn follows(by: Derivation, of: &[&str], stated: &[f64], step: f64) -> bool {
        let of = of.iter().map(|name| format!("t/{name}")).collect();
        let derived = Derived { by, of, stated: stated.to_vec(), step, ..Derived::default() };
        derived.follows(&tables()).unwrap().is_ok()
    }

    #[test]
    fn figures_follow_as_far_as_rounding_allows() {
        assert!(
            follows(Derivation::Sum, &["a"], &[6.0], 0.1) && !follows(Derivation::Sum, &["a"], &[6.3], 0.1)
        );
        assert!(follows(Derivation::Mean, &["b"], &[7.0], 0.1));
        assert!(
            follows(Derivation::Ratio, &["b", "a"], &[2.33], 0.01)
                && !follows(Derivation::Ratio, &["b", "a"], &[2.5], 0.01)
        );
        assert!(follows(Derivation::PercentMore, &["b", "a"], &[133.0], 1.0));
        assert!(follows(Derivation::PercentLess, &["a", "b"], &[57.0], 1.0));
        assert!(follows(Derivation::Difference, &["b", "a"], &[4.0], 0.1));
        assert!(follows(Derivation::PercentOfEach, &["b", "a"], &[300.0, 200.0], 1.0));
        assert!(!follows(Derivation::PercentOfEach, &["b", "a"], &[300.0, 250.0], 1.0));
        assert!(follows(Derivation::Spread, &["a"], &[67.0], 1.0));
        assert!(
            follows(Derivation::Sum, &["counted"], &[5.0], 0.0)
                && follows(Derivation::Count, &["counted"], &[4.0], 0.0)
        );
    }

    #[test]
    fn ratios_are_of_times_whichever_is_printed() {
        let mut table = tables().remove(0);
        assert_eq!(table.ratio(&table.series[1]), Some(7.0 / 3.0));
        assert_eq!(table.heading(), table.title);
        table.rates = true;
        assert_eq!(table.ratio(&table.series[1]), Some(3.0 / 7.0));
        assert!(table.heading().ends_with("as ratios of times"));
        table.series[1].unit = Some("%".into());
        assert_eq!(table.ratio(&table.series[1]), None);
    }

    #[test]
    fn what_does_not_exist_is_named() {
        let derived = Derived { of: vec!["t/z".into()], stated: vec![1.0], ..Derived::default() };
        assert!(derived.follows(&tables()).unwrap_err().to_string().contains("t/z"));
    }
}
