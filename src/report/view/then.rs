//! Then and now: published tables beside this run's, as ratios to the document's own reference, for every kind of report.

use crate::judge::{claims, interval};
use crate::plan::text::{FigureUnit, Operand, PublishedSeries, PublishedText, Successor, part_of};
use crate::result::{Claim, Interval, RunResult};
use crate::units;

/// One system of a published table, then and now.
pub struct ReproducedRow<'r> {
    /// Published name; for a successor, also what is measured instead.
    pub name: String,
    /// Published series.
    pub series: &'r PublishedSeries,
    /// Explanation, if a successor is measured in place of what was published.
    pub in_place: Option<&'r str>,
    /// Candidate that represents it today.
    pub candidate: Option<&'r str>,
    /// Published ratio of times to the reference.
    pub then: Option<f64>,
    /// Today's ratio, or the reason why there is none.
    pub today: Result<Interval, String>,
}

/// A published table with today's ratios.
pub struct ReproducedTable<'r> {
    /// The table in the plan.
    pub text: &'r PublishedText,
    /// Lines of its series, in order.
    pub lines: Vec<ReproducedRow<'r>>,
}

impl ReproducedRow<'_> {
    /// What was published: the ratio, the wording, or both.
    pub fn said(&self) -> Option<String> {
        let words = self.series.words.clone().filter(|_| self.in_place.is_none());
        let parts: Vec<String> = self.then.map(figure).into_iter().chain(words).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl<'r> ReproducedTable<'r> {
    fn of(result: &'r RunResult, text: &'r PublishedText) -> ReproducedTable<'r> {
        let reference = text.series.iter().find(|series| series.name == text.reference);
        let reference = reference.and_then(|series| series.today.as_ref());
        let against_reference = |own: &Operand| match reference {
            Some(reference) => today(result, text, own, reference),
            None => Err("Nothing stands for the reference.".to_owned()),
        };
        let line = |series: &'r PublishedSeries| {
            let nothing = || Err("Nothing stands for it.".to_owned());
            ReproducedRow {
                name: series.name.clone(),
                series,
                in_place: None,
                candidate: series.today.as_ref().map(Operand::candidate),
                then: text.ratio(series),
                today: series.today.as_ref().map_or_else(nothing, against_reference),
            }
        };
        let by = |series: &'r PublishedSeries, successor: &'r Successor| {
            Some(ReproducedRow {
                name: format!("{} by {}", series.name, successor.candidate),
                series,
                in_place: Some(&successor.words),
                candidate: Some(&successor.candidate),
                then: None,
                today: against_reference(&series.today.as_ref()?.by(successor)?),
            })
        };
        let successors = result.successors();
        let lines = |series: &'r PublishedSeries| {
            std::iter::once(line(series))
                .chain(successors.iter().filter_map(|successor| by(series, successor)).collect::<Vec<_>>())
        };
        ReproducedTable { text, lines: text.series.iter().flat_map(lines).collect() }
    }

    /// Lines that can have a ratio; the others are facts about the experiment.
    pub fn compared(&self) -> impl Iterator<Item = &ReproducedRow<'r>> {
        self.lines.iter().filter(|line| line.series.unit.is_none())
    }

    /// True if there is any ratio, published or today's.
    fn has_ratio(&self) -> bool {
        self.lines.iter().any(|line| line.then.is_some() || line.today.is_ok())
    }

    /// Reason why a candidate has no figure today, from the first line without one.
    pub fn why_not(&self) -> Option<&str> {
        let mut lines = self.compared().filter(|line| line.candidate.is_some());
        lines.find_map(|line| line.today.as_ref().err()).map(String::as_str)
    }
}

/// Published tables of a plan with any ratio, and those without: tables of words, of facts, or of corpora missing from this run.
pub fn tables(result: &RunResult) -> (Vec<ReproducedTable<'_>>, Vec<ReproducedTable<'_>>) {
    result
        .plan
        .published
        .iter()
        .map(|text| ReproducedTable::of(result, text))
        .partition(ReproducedTable::has_ratio)
}

/// Heading for tables without a ratio.
pub const SILENT: &str = "Published tables without a ratio to compare";

/// Headings of these tables, with reasons; tables of facts are left out.
pub fn silent(tables: &[ReproducedTable<'_>]) -> Vec<String> {
    let told = |table: &ReproducedTable<'_>| Some(format!("{}: {}", table.text.heading(), table.why_not()?));
    tables.iter().filter_map(told).collect()
}

fn today(
    result: &RunResult,
    table: &PublishedText,
    own: &Operand,
    reference: &Operand,
) -> Result<Interval, String> {
    let ratio = claims::ratio(result, &table.target(own), &table.target(reference))?;
    Ok(if own == reference { Interval::point(1.0) } else { ratio })
}

/// Formats a published figure or ratio.
pub fn figure(value: f64) -> String {
    interval::text(&Interval::point(value))
}

/// Name of a claim's reference figure: "stated" in a plan without a document.
pub fn said(result: &RunResult) -> &'static str {
    if result.plan.document.is_some() { "published" } else { "stated" }
}

/// Formats a figure of a claim with its interval and unit.
pub fn of_claim(claim: &Claim, value: &Interval) -> String {
    let show: fn(f64) -> String = match claim.unit {
        None => return interval::text(value),
        Some(FigureUnit::Seconds) => |seconds| units::nanoseconds(seconds * 1e9),
        Some(FigureUnit::Bytes) => units::bytes,
        Some(FigureUnit::OpsPerSecond) => |rate| format!("{}/s", units::count(rate)),
    };
    let bounds = value.low.zip(value.high);
    let bounds = bounds.map_or(String::new(), |(low, high)| format!(" [{}, {}]", show(low), show(high)));
    format!("{}{bounds}", show(value.median))
}

/// Published figure of a claim.
pub fn published(claim: &Claim) -> Option<String> {
    claim.published.map(|value| of_claim(claim, &Interval::point(value)))
}

/// Published and today's figures of a claim; empty if there are neither.
pub fn figures(result: &RunResult, claim: &Claim) -> String {
    let published = published(claim).map(|value| format!("{} {value}", said(result)));
    let today = claim.today.map(|today| format!("today {}", of_claim(claim, &today)));
    let known: Vec<String> = published.into_iter().chain(today).collect();
    known.join(", ")
}

/// Verdict of a claim in words.
pub fn verdict(claim: &Claim) -> String {
    let magnitude = claim.magnitude.map_or(String::new(), |magnitude| format!(", {}", magnitude.name()));
    let in_place = claim.in_place.as_ref().map_or(String::new(), |words| format!(" ({words})"));
    format!("{}{magnitude}{in_place}", claim.verdict.name())
}

/// Heading for [`disagreements`].
pub const DISAGREEMENTS: &str = "Where the document disagrees with itself";

/// Derived figures of a document that do not follow from its own tables, each with the arithmetic.
pub fn disagreements(result: &RunResult) -> Vec<(&str, &str)> {
    let derived = result.plan.derived.iter();
    derived.filter_map(|derived| Some((derived.what.as_str(), derived.disagreement.as_deref()?))).collect()
}

/// True for the second and later parts of a split phase, which reports show together.
pub fn is_later_part(phase: &str) -> bool {
    part_of(phase).is_some_and(|(_, number)| number > 1)
}
