//! Then and now: published tables beside this run's, as ratios to the document's own reference, for every kind of report.

use super::words::with_interval;
use crate::judge::{claims, interval};
use crate::plan::text::{
    Bound, ClaimText, Document, ExpectedRange, FigureUnit, Operand, PublishedSeries, PublishedText, Quantity,
    Successor, part_of,
};
use crate::result::{Claim, ClaimVerdict, Interval, Magnitude, RunResult};
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
    fn new(result: &'r RunResult, text: &'r PublishedText) -> ReproducedTable<'r> {
        let reference = text.series.iter().find(|series| series.name == text.reference);
        let reference = reference.and_then(|series| series.today.as_ref());
        let against_reference = |own: &Operand| match reference {
            Some(reference) => today(result, text, own, reference),
            None => Err("No candidate stands for the reference.".to_owned()),
        };
        let line = |series: &'r PublishedSeries| {
            let nothing = || Err("No candidate stands for it.".to_owned());
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
        .map(|text| ReproducedTable::new(result, text))
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

/// Heading of the figures that claims are held against: "stated" in a plan without a document.
pub fn said(result: &RunResult) -> &'static str {
    if result.plan.document.is_some() { "then" } else { "stated" }
}

/// Formats a figure of a claim with its interval and unit.
fn of_claim(claim: &Claim, value: &Interval) -> String {
    let show: fn(f64) -> String = match claim.unit {
        None => return interval::text(value),
        Some(FigureUnit::Seconds) => |seconds| units::nanoseconds(seconds * 1e9),
        Some(FigureUnit::Bytes) => units::bytes,
        Some(FigureUnit::OpsPerSecond) => |rate| format!("{}/s", units::count(rate)),
    };
    with_interval(value, show)
}

/// A claim with the text that it was judged by, as reports show it: its ratios are turned so that above 1 agrees with it.
pub struct JudgedClaim<'r> {
    /// The verdict.
    pub claim: &'r Claim,
    text: ClaimText,
}

/// All claims of a result.
pub fn judged_claims(result: &RunResult) -> Vec<JudgedClaim<'_>> {
    with_texts(&result.claims, &result.plan.claims(&result.successors()))
}

fn with_texts<'r>(claims: &'r [Claim], texts: &[ClaimText]) -> Vec<JudgedClaim<'r>> {
    let text = |claim: &Claim| texts.iter().find(|text| text.id == claim.id).cloned().unwrap_or_default();
    claims.iter().map(|claim| JudgedClaim { claim, text: text(claim) }).collect()
}

impl<'r> JudgedClaim<'r> {
    /// Sub-claims, in order.
    pub fn parts(&self) -> Vec<JudgedClaim<'r>> {
        with_texts(&self.claim.parts, &self.text.parts())
    }

    /// Statement, with the document's own words where the plan has them.
    pub fn said(&self) -> String {
        let quote =
            self.text.quote.as_ref().map_or(String::new(), |quote| format!(": \u{201c}{quote}\u{201d}"));
        format!("{}{quote}", self.claim.statement)
    }

    /// Published figure, or the range that was published, or that of the figures of its parts.
    pub fn then(&self) -> Option<String> {
        let own = self.claim.published.map(|value| self.figure(&Interval::point(value)));
        let ranged = |of: &JudgedClaim<'_>| of.text.magnitude.map(|range| of.range(&range));
        own.or_else(|| ranged(self))
            .or_else(|| self.span(|part| part.published))
            .or_else(|| ranged(self.parts().first()?))
    }

    /// Today's figure with its interval, or the range of the medians of its parts.
    pub fn now(&self) -> Option<String> {
        let own = self.claim.today.map(|value| self.figure(&value));
        own.or_else(|| self.span(|part| Some(part.today?.median)))
    }

    /// Verdict, with what it says about the size of the figure and how many parts are confirmed.
    pub fn verdict(&self) -> String {
        let magnitude = self.claim.magnitude.map(|magnitude| match (magnitude, &self.text.magnitude) {
            (Magnitude::Holds, None) => "magnitude within half to twice".to_owned(),
            (Magnitude::Holds, Some(range)) => format!("magnitude {}", self.range(range)),
            (other, _) => other.name().to_owned(),
        });
        let parts = &self.claim.parts;
        let confirmed = parts.iter().filter(|part| part.verdict == ClaimVerdict::Confirmed).count();
        let parts = (!parts.is_empty()).then(|| format!("{confirmed} of {} parts", parts.len()));
        let more: String = magnitude.into_iter().chain(parts).map(|more| format!(", {more}")).collect();
        let in_place = self.claim.in_place.as_ref().map_or(String::new(), |words| format!(" ({words})"));
        format!("{}{more}{in_place}", self.claim.verdict.name())
    }

    /// Range in which the claim counts as true; `None` if it is not tested.
    pub fn true_if(&self) -> Option<String> {
        if self.text.not_testable.is_some() {
            return None;
        }
        let parts = self.parts();
        if parts.is_empty() {
            return self.text.expect.map(|expect| self.range(&expect));
        }
        let mut each: Vec<String> = parts.iter().filter_map(JudgedClaim::true_if).collect();
        each.dedup();
        let of = format!("{} of {}", if self.text.is_any() { "any" } else { "all" }, parts.len());
        Some(match each.as_slice() {
            [one] => format!("{of}: {one}"),
            _ => format!("{of} parts"),
        })
    }

    fn is_ratio(&self) -> bool {
        !matches!(self.text.quantity.unwrap_or_default(), Quantity::Value | Quantity::Difference)
    }

    /// True if the claim says that a ratio is below 1.
    fn is_turned(&self) -> bool {
        let expect = self.text.expect.unwrap_or_default();
        self.is_ratio() && expect.low.is_none() && expect.high.is_some_and(|high| high.value <= 1.0)
    }

    fn figure(&self, value: &Interval) -> String {
        let text = of_claim(self.claim, &if self.is_turned() { value.turned() } else { *value });
        match text.split_once(' ') {
            _ if !self.is_ratio() => text,
            Some((median, bounds)) => format!("{median}x {bounds}"),
            None => format!("{text}x"),
        }
    }

    /// Lowest and highest figure of the parts, if all are of one kind.
    fn span(&self, of: impl Fn(&Claim) -> Option<f64>) -> Option<String> {
        let parts = self.parts();
        let kind = |part: &JudgedClaim<'_>| (part.text.metric, part.text.quantity, part.is_turned());
        let first = parts.first()?;
        let mut values: Vec<f64> = parts.iter().filter_map(|part| of(part.claim)).collect();
        values.sort_unstable_by(f64::total_cmp);
        let (lowest, highest) = (Interval::point(*values.first()?), Interval::point(*values.last()?));
        let mut ends = [first.figure(&lowest), first.figure(&highest)];
        if first.is_turned() {
            ends.reverse();
        }
        let [from, to] = ends;
        let is_one = from == to;
        parts
            .iter()
            .all(|part| kind(part) == kind(first))
            .then(|| if is_one { from } else { format!("{from} to {to}") })
    }

    fn range(&self, range: &ExpectedRange) -> String {
        let value = |bound: Option<Bound>| bound.map(|bound| bound.value);
        let bounds = (value(range.low), value(range.high));
        let (low, high) =
            if self.is_turned() { (bounds.1.map(f64::recip), bounds.0.map(f64::recip)) } else { bounds };
        let show = |value: f64| match (self.claim.unit, self.is_ratio()) {
            (Some(_), _) if value != 0.0 => of_claim(self.claim, &Interval::point(value)),
            (_, is_ratio) => {
                let text = figure(value);
                let short = text.trim_end_matches('0').trim_end_matches('.');
                let short = if text.contains('.') { short } else { &text };
                format!("{short}{}", if is_ratio { "x" } else { "" })
            }
        };
        match (low, high) {
            _ if range.equal => "1x, within 3 %".to_owned(),
            (Some(low), Some(high)) => format!("{} to {}", show(low), show(high)),
            (Some(low), None) if low == 0.0 || low == 1.0 => format!("above {}", show(low)),
            (Some(low), None) => format!("at least {}", show(low)),
            (None, Some(high)) => format!("at most {}", show(high)),
            (None, None) => String::new(),
        }
    }
}

/// Address of the original, or that it is not known.
pub fn address(document: &Document) -> String {
    let url = document.url.as_deref().unwrap_or("no address known");
    let archived = document.archived.as_ref().map_or(String::new(), |copy| format!(", archived at {copy}"));
    format!("{url}{archived}")
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
