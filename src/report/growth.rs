//! A growth in every kind of report: each figure over the number of blobs, its exponent, and the extrapolation with its test.

use super::block::{Block, Medium, in_terminal};
use super::section::{Section, new};
use super::table::{Table, TableCell, named, shown};
use crate::judge::interval;
use crate::result::{GrowthCurve, GrowthFigure, GrowthForecast, GrowthOutcome, Interval, RunResult};
use crate::units;

pub(super) const SECTION: Section = new("growth", "Growth").blocks(blocks).brief(brief);

/// Text above the tables.
const ABOUT: &str = "One store of each candidate, filled step by step and measured at each step; columns are numbers of blobs. `times` is the value at the last step that a store reached over that at the first. `exponent` is 0 where the number of blobs changes nothing, and 1 where the value is proportional to it.";

/// Texts of one screen of a terminal.
const BRIEFLY: &str =
    "Time per op, disk and memory at the last step that a store reached, over those at the first step:";
const EXPECTED: &str = "All tables have what to expect with more blobs, with how well the last step is predicted by those before it.";

/// Formats a value of a figure.
fn value(figure: GrowthFigure, value: f64) -> String {
    match figure {
        GrowthFigure::Time => units::nanoseconds(value),
        GrowthFigure::Disk | GrowthFigure::Memory => units::bytes(value),
    }
}

/// Formats a value with the ends of its interval, if it has any.
fn with_ends(figure: GrowthFigure, of: &Interval) -> String {
    let middle = value(figure, of.median);
    match (of.low, of.high) {
        (Some(low), Some(high)) => format!("{middle} [{}, {}]", value(figure, low), value(figure, high)),
        _ => middle,
    }
}

fn title(phase: &str, figure: GrowthFigure) -> String {
    match figure {
        GrowthFigure::Time => format!("`{phase}`, time per op"),
        GrowthFigure::Disk => "Disk space per blob".to_owned(),
        GrowthFigure::Memory => format!("Memory in `{phase}`"),
    }
}

/// Table of the curves of one figure; terminals and pages have no room for the intervals of each step.
fn table(curves: &[&GrowthCurve], title: &str, medium: Medium) -> Table {
    let mut blobs: Vec<u64> = curves.iter().flat_map(|of| of.steps.iter().map(|step| step.blobs)).collect();
    blobs.sort_unstable();
    blobs.dedup();
    let steps = blobs.iter().map(|blobs| format!("#{}", units::count(*blobs as f64)));
    let ends = ["#times", "#exponent"].map(str::to_owned);
    let head: Vec<String> = std::iter::once("store".to_owned()).chain(steps).chain(ends).collect();
    let mut table = Table::new(title.replace('`', ""), &head);
    for of in curves {
        let at = |blobs: &u64| -> TableCell {
            let step = of.steps.iter().find(|step| step.blobs == *blobs);
            shown(step, |step| match medium {
                Medium::Terminal | Medium::Page => value(of.figure, step.value.median),
                Medium::Markdown => with_ends(of.figure, &step.value),
            })
        };
        let mut row = vec![named(&of.store)];
        row.extend(blobs.iter().map(at));
        row.push(interval::text(&of.times).into());
        row.push(interval::text(&of.exponent).into());
        table.push(row);
    }
    table
}

/// Sentence on the extrapolation of a curve.
fn sentence(of: &GrowthCurve, forecast: &GrowthForecast) -> String {
    let blobs = |number: u64| format!("{} blobs", units::count(number as f64));
    let last = of.steps.last();
    let reached = last.map_or_else(|| blobs(0), |last| blobs(last.blobs));
    let tested = match (forecast.last_step, last) {
        (Some(predicted), Some(last)) => format!(
            " The steps before {} predict {} there, and {} was measured.",
            blobs(last.blobs),
            with_ends(of.figure, &predicted),
            value(of.figure, last.value.median)
        ),
        _ => String::new(),
    };
    let outcome = match forecast.outcome {
        GrowthOutcome::Expected { law, value } => {
            format!("{} with {} ({})", with_ends(of.figure, &value), blobs(forecast.blobs), law.name())
        }
        GrowthOutcome::Bends => {
            format!("not predictable beyond {reached}: the last step is not where those before it lead")
        }
        GrowthOutcome::Scatters => format!("not predictable beyond {reached}: the steps scatter too much"),
        GrowthOutcome::TooFewSteps => {
            format!("not predictable beyond {reached}: that takes five steps, and it has {}", of.steps.len())
        }
    };
    format!("`{}`: {outcome}.{tested}", of.store)
}

/// Curves of each figure of each phase.
fn grouped(result: &RunResult) -> Vec<((&str, GrowthFigure), Vec<&GrowthCurve>)> {
    units::grouped(result.growth.iter().map(|of| ((of.phase.as_str(), of.figure), of)))
}

/// Writes how much each figure changes, for one screen of a terminal.
fn brief(text: &mut String, result: &RunResult, title: &str) {
    let groups = grouped(result);
    let stores = units::grouped(result.growth.iter().map(|of| (of.store.as_str(), ())));
    if groups.is_empty() {
        return;
    }
    let heading = |(phase, figure): (&str, GrowthFigure)| match figure {
        GrowthFigure::Time => format!("#{phase}"),
        GrowthFigure::Disk => "#disk/blob".to_owned(),
        GrowthFigure::Memory => "#memory".to_owned(),
    };
    let head = std::iter::once("store".to_owned()).chain(groups.iter().map(|(key, _)| heading(*key)));
    let mut table = Table::new(title, head.collect::<Vec<String>>());
    for (store, _) in stores {
        let of_store = |curves: &Vec<&GrowthCurve>| {
            let curve = curves.iter().find(|of| of.store == store);
            shown(curve, |of| format!("{:.2}", of.times.median))
        };
        let mut row = vec![named(store)];
        row.extend(groups.iter().map(|(_, curves)| of_store(curves)));
        table.push(row);
    }
    let mut all = vec![Block::Text(BRIEFLY.to_owned()), Block::Table(table)];
    if result.growth.iter().any(|of| of.forecast.is_some()) {
        all.push(Block::Text(EXPECTED.to_owned()));
    }
    in_terminal(text, title, &all);
}

fn blocks(result: &RunResult, medium: Medium) -> Vec<Block> {
    let groups = grouped(result);
    if groups.is_empty() {
        return Vec::new();
    }
    let mut all = vec![Block::Text(ABOUT.to_owned())];
    for ((phase, figure), curves) in groups {
        let title = title(phase, figure);
        let table = table(&curves, &title, medium);
        // On a page, a table has its caption.
        if medium != Medium::Page {
            all.push(Block::Heading(title));
        }
        all.push(Block::Table(table));
        let forecasts = curves.iter().filter_map(|of| Some(sentence(of, of.forecast.as_ref()?)));
        all.push(Block::List(forecasts.collect()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{GrowthLaw, GrowthStep};

    #[test]
    fn an_extrapolation_is_stated_with_its_test_or_the_reason_why_there_is_none() {
        let within = |median: f64, low: f64, high: f64| Interval {
            low: Some(low),
            high: Some(high),
            ..Interval::point(median)
        };
        let step = |blobs: u64, ns: f64| GrowthStep { blobs, value: Interval::point(ns) };
        let curve = GrowthCurve {
            store: "a".to_owned(),
            phase: "read-warm".to_owned(),
            figure: GrowthFigure::Time,
            steps: vec![step(1_000, 2_000.0), step(1_000_000, 3_000.0)],
            times: within(1.5, 1.4, 1.6),
            exponent: within(0.06, 0.05, 0.07),
            forecast: None,
        };
        let expected =
            GrowthOutcome::Expected { law: GrowthLaw::Logarithmic, value: within(3_400.0, 3_100.0, 3_700.0) };
        let last_step = Some(within(2_900.0, 2_700.0, 3_100.0));
        let told = |outcome| sentence(&curve, &GrowthForecast { blobs: 10_000_000, last_step, outcome });
        assert_eq!(
            told(expected),
            "`a`: 3.4 µs [3.1 µs, 3.7 µs] with 10M blobs (logarithmic). The steps before 1M blobs predict 2.9 µs [2.7 µs, \
             3.1 µs] there, and 3 µs was measured."
        );
        assert!(told(GrowthOutcome::Bends).starts_with("`a`: not predictable beyond 1M blobs: the last"));
    }
}
