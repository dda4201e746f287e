//! Then and now: published tables beside this run's, as ratios to the document's own reference, for every form of report.

use crate::plan::{Operand, PublishedText, Series, Target, part_of};
use crate::result::{Claim, Interval, RunResult};
use crate::stats::{claims, interval};

/// One system of a published table, then and now.
pub struct Line<'r> {
    /// The series as it was published.
    pub series: &'r Series,
    /// The row that stands for it today.
    pub row: Option<&'r str>,
    /// Its published ratio to the reference, of times.
    pub then: Option<f64>,
    /// Today's, or why there is none.
    pub today: Result<Interval, String>,
}

/// The lines of a published table.
pub fn lines<'r>(result: &RunResult, table: &'r PublishedText) -> Vec<Line<'r>> {
    let reference = table.series.iter().find(|series| series.name == table.reference);
    let reference = reference.and_then(|series| series.today.as_ref());
    table
        .series
        .iter()
        .map(|series| {
            let today = match (&series.today, reference) {
                (Some(own), Some(reference)) => today(result, table, own, reference),
                (None, _) => Err("Nothing stands for it.".to_owned()),
                (_, None) => Err("Nothing stands for the reference.".to_owned()),
            };
            let row = series.today.as_ref().map(Operand::row);
            Line { series, row, then: table.ratio(series), today }
        })
        .collect()
}

fn today(
    result: &RunResult,
    table: &PublishedText,
    own: &Operand,
    reference: &Operand,
) -> Result<Interval, String> {
    let target = |operand: &Operand| {
        let target = operand.target();
        Target {
            phase: target.phase.or_else(|| table.phase.clone()),
            corpus: target.corpus.or_else(|| table.corpus.clone()),
            metric: target.metric.or(table.metric),
            ..target
        }
    };
    let ratio = claims::ratio(result, &target(own), &target(reference))?;
    Ok(if own == reference { Interval { median: 1.0, low: None, high: None } } else { ratio })
}

/// A published figure or ratio for people.
pub fn figure(value: f64) -> String {
    interval::text(&Interval { median: value, low: None, high: None })
}

/// Published and today's figure of a claim in a sentence; empty where there is neither.
pub fn figures(claim: &Claim) -> String {
    let published = claim.published.map(|value| format!("published {}", figure(value)));
    let today = claim.today.map(|today| format!("today {}", interval::text(&today)));
    let known: Vec<String> = published.into_iter().chain(today).collect();
    known.join(", ")
}

/// The verdict of a claim in words.
pub fn verdict(claim: &Claim) -> String {
    match claim.magnitude {
        Some(magnitude) => format!("{}, {}", claim.verdict.name(), magnitude.name()),
        None => claim.verdict.name().to_owned(),
    }
}

/// Whether a phase is the second or a later part of another: there are many of them, and they are told together.
pub fn is_later_part(phase: &str) -> bool {
    part_of(phase).is_some_and(|(_, number)| number > 1)
}
