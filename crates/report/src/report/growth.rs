//! A growth or ageing in every kind of report: each figure over the number of blobs or the age, and of a growth its exponent and the
//! extrapolation with its test.

use super::block::{Block, Medium, in_terminal};
use super::section::{Section, new};
use super::table::{Table, TableCell, named, shown};
use super::view::words::step_shown;
use crate::judge::interval;
use crate::plan::text::whole_of;
use crate::result::{Cell, CurveFigure, GrowthForecast, GrowthOutcome, Interval, RunResult, StepCurve};
use crate::units;

pub(super) const SECTION: Section = new("growth", "Growth and age").blocks(blocks).brief(brief);

/// Text above the tables of a growth.
const ABOUT: &str = "One store of each candidate, filled step by step and measured at each step; columns are numbers of blobs. `times` is the value at the last step that a store reached over that at the first. `exponent` is 0 where the number of blobs changes nothing, and 1 where the value is proportional to it.";
/// Text above the tables of ageing.
const ABOUT_AGES: &str = "One store of each candidate, whose blobs are replaced by others of new sizes and read at each age; columns are ages, the bytes overwritten since the fill for each live byte. `times` is the value at the last age over that at the first.";

/// Texts of one screen of a terminal.
const BRIEFLY: &str = "Each figure at the last step that a store reached, over that at the first step:";
const EXPECTED: &str = "All tables have what to expect with more blobs, with how well the last step is predicted by those before it.";

/// Formats a value of a figure.
fn value(figure: CurveFigure, value: f64) -> String {
    match figure {
        CurveFigure::Time => units::nanoseconds(value),
        CurveFigure::Disk | CurveFigure::Memory => units::bytes(value),
        CurveFigure::DiskPerByte | CurveFigure::WriteAmplification | CurveFigure::Fragments => {
            format!("{value:.2}")
        }
    }
}

/// Formats a value with the ends of its interval, if it has any.
fn with_ends(figure: CurveFigure, of: &Interval) -> String {
    let middle = value(figure, of.median);
    match (of.low, of.high) {
        (Some(low), Some(high)) => format!("{middle} [{}, {}]", value(figure, low), value(figure, high)),
        _ => middle,
    }
}

fn title(phase: &str, figure: CurveFigure) -> String {
    match figure {
        CurveFigure::Time => format!("`{phase}`, time per op"),
        CurveFigure::Disk => "Disk space per blob".to_owned(),
        CurveFigure::Memory => format!("Memory in `{phase}`"),
        CurveFigure::DiskPerByte => "Disk space per live byte".to_owned(),
        CurveFigure::WriteAmplification => {
            "Bytes written by the device per byte overwritten since the age before".to_owned()
        }
        CurveFigure::Fragments => "Fragments per blob".to_owned(),
    }
}

/// Table of the curves of one figure; terminals and pages have no room for the intervals of each step.
fn table(result: &RunResult, curves: &[&StepCurve], title: &str, medium: Medium) -> Table {
    let mut places: Vec<u64> = curves.iter().flat_map(|of| of.steps.iter().map(|step| step.at)).collect();
    places.sort_unstable();
    places.dedup();
    let steps = places.iter().map(|at| format!("#{}", step_shown(result, *at)));
    let has_exponents = curves.iter().any(|of| of.exponent.is_some());
    let ends = ["#times", "#exponent"].map(str::to_owned).into_iter().take(1 + usize::from(has_exponents));
    let head: Vec<String> = std::iter::once("store".to_owned()).chain(steps).chain(ends).collect();
    let mut table = Table::new(title.replace('`', ""), &head);
    for of in curves {
        let at = |place: &u64| -> TableCell {
            let step = of.steps.iter().find(|step| step.at == *place);
            shown(step, |step| match medium {
                Medium::Terminal | Medium::Page => value(of.figure, step.value.median),
                Medium::Markdown => with_ends(of.figure, &step.value),
            })
        };
        let mut row = vec![named(&of.store)];
        row.extend(places.iter().map(at));
        row.push(interval::text(&of.times).into());
        row.extend(has_exponents.then(|| shown(of.exponent, |exponent| interval::text(&exponent))));
        table.push(row);
    }
    table
}

/// Reason why a curve bends, as far as it is known, as a clause.
fn why(forecast: &GrowthForecast) -> String {
    /// Below this many bytes from the device for each byte delivered, reads came from memory.
    const FROM_MEMORY: f64 = 0.1;
    let Some([before, last]) = forecast.device_reads else { return String::new() };
    let what = if before < FROM_MEMORY { "it no longer fits into memory" } else { "an op reads more" };
    format!(
        ", because {what} (the device read {last:.2} bytes for each byte delivered, and {before:.2} a step before)"
    )
}

/// Sentence on how many last steps were predicted; `None` if none was to be.
fn predicted(result: &RunResult) -> Option<String> {
    let met: Vec<bool> = result.curves.iter().filter_map(|of| of.forecast?.is_met).collect();
    let within = met.iter().filter(|is_met| **is_met).count();
    let of_all = units::counted(met.len(), "last step");
    let verb = if within == 1 { "lies" } else { "lie" };
    (!met.is_empty()).then(|| {
        format!("{within} of {of_all} {verb} within the 95 % interval that the steps before predict.")
    })
}

/// Sentences on the curves of a cell's phase, for the explanation of that cell.
pub(super) fn of_cell(result: &RunResult, cell: &Cell) -> Vec<String> {
    let is_its = |of: &&StepCurve| of.store == cell.store && of.phase == whole_of(&cell.phase);
    let times = result.curves.iter().filter(is_its).filter(|of| of.figure == CurveFigure::Time);
    let mut all: Vec<String> = times.filter_map(|of| Some(sentence(of, of.forecast.as_ref()?))).collect();
    if !all.is_empty() {
        all.extend(predicted(result).map(|share| format!("Of all figures of this run: {share}")));
    }
    all
}

/// Sentence on the extrapolation of a curve.
fn sentence(of: &StepCurve, forecast: &GrowthForecast) -> String {
    let blobs = |number: u64| format!("{} blobs", units::count(number as f64));
    let last = of.steps.last();
    let reached = last.map_or_else(|| blobs(0), |last| blobs(last.at));
    let tested = match (forecast.last_step, last) {
        (Some(predicted), Some(last)) => format!(
            " The steps before {} predict {} there, and {} was measured.",
            blobs(last.at),
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
            format!(
                "not predictable beyond {reached}: the last step is not where those before it lead{}",
                why(forecast)
            )
        }
        GrowthOutcome::Scatters => format!("not predictable beyond {reached}: the steps scatter too much"),
        GrowthOutcome::TooFewRounds => {
            format!("not predictable beyond {reached}: that takes five rounds; run with `--rounds 5`")
        }
        GrowthOutcome::TooFewSteps => {
            format!("not predictable beyond {reached}: that takes five steps, and it has {}", of.steps.len())
        }
    };
    format!("`{}`: {outcome}.{tested}", of.store)
}

/// Curves of each figure of each phase.
fn grouped(result: &RunResult) -> Vec<((&str, CurveFigure), Vec<&StepCurve>)> {
    units::grouped(result.curves.iter().map(|of| ((of.phase.as_str(), of.figure), of)))
}

/// Writes how much each figure changes, for one screen of a terminal.
fn brief(text: &mut String, result: &RunResult, title: &str) {
    let groups = grouped(result);
    let stores = units::grouped(result.curves.iter().map(|of| (of.store.as_str(), ())));
    if groups.is_empty() {
        return;
    }
    let heading = |(phase, figure): (&str, CurveFigure)| match figure {
        CurveFigure::Time => format!("#{phase}"),
        CurveFigure::Disk => "#disk/blob".to_owned(),
        CurveFigure::Memory => "#memory".to_owned(),
        CurveFigure::DiskPerByte => "#disk/byte".to_owned(),
        CurveFigure::WriteAmplification => "#written".to_owned(),
        CurveFigure::Fragments => "#fragments".to_owned(),
    };
    let head = std::iter::once("store".to_owned()).chain(groups.iter().map(|(key, _)| heading(*key)));
    let mut table = Table::new(title, head.collect::<Vec<String>>());
    for (store, _) in stores {
        let of_store = |curves: &Vec<&StepCurve>| {
            let curve = curves.iter().find(|of| of.store == store);
            shown(curve, |of| format!("{:.2}", of.times.median))
        };
        let mut row = vec![named(store)];
        row.extend(groups.iter().map(|(_, curves)| of_store(curves)));
        table.push(row);
    }
    let mut all = vec![Block::Text(BRIEFLY.to_owned()), Block::Table(table)];
    if result.curves.iter().any(|of| of.forecast.is_some()) {
        all.push(Block::Text(EXPECTED.to_owned()));
    }
    in_terminal(text, title, &all);
}

fn blocks(result: &RunResult, medium: Medium) -> Vec<Block> {
    let groups = grouped(result);
    if groups.is_empty() {
        return Vec::new();
    }
    let mut all = vec![Block::Text(if result.plan.age.is_some() { ABOUT_AGES } else { ABOUT }.to_owned())];
    all.extend(result.plan.age_by.as_ref().map(|by| Block::Text(format!("Blobs were replaced by `{by}`."))));
    for ((phase, figure), curves) in groups {
        let title = title(phase, figure);
        let table = table(result, &curves, &title, medium);
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
    use crate::result::{CurveStep, GrowthLaw};

    #[test]
    fn an_extrapolation_is_stated_with_its_test_or_the_reason_why_there_is_none() {
        let within = |median: f64, low: f64, high: f64| Interval {
            low: Some(low),
            high: Some(high),
            ..Interval::point(median)
        };
        let step = |at: u64, ns: f64| CurveStep { at, value: Interval::point(ns) };
        let curve = StepCurve {
            store: "a".to_owned(),
            phase: "read-warm".to_owned(),
            figure: CurveFigure::Time,
            steps: vec![step(1_000, 2_000.0), step(1_000_000, 3_000.0)],
            times: within(1.5, 1.4, 1.6),
            exponent: Some(within(0.06, 0.05, 0.07)),
            forecast: None,
        };
        let expected =
            GrowthOutcome::Expected { law: GrowthLaw::Logarithmic, value: within(3_400.0, 3_100.0, 3_700.0) };
        let last_step = Some(within(2_900.0, 2_700.0, 3_100.0));
        let forecast = |outcome| GrowthForecast {
            blobs: 10_000_000,
            last_step,
            is_met: Some(true),
            device_reads: None,
            outcome,
        };
        let told = |outcome| sentence(&curve, &forecast(outcome));
        assert_eq!(
            told(expected),
            "`a`: 3.4 µs [3.1 µs, 3.7 µs] with 10M blobs (logarithmic). The steps before 1M blobs predict 2.9 µs [2.7 µs, \
             3.1 µs] there, and 3 µs was measured."
        );
        assert!(told(GrowthOutcome::Bends).starts_with("`a`: not predictable beyond 1M blobs: the last"));
        let full = GrowthForecast { device_reads: Some([0.0, 0.8]), ..forecast(GrowthOutcome::Bends) };
        let said = sentence(&curve, &full);
        assert!(
            said.contains("those before it lead, because it no longer fits into memory (the device"),
            "{said}"
        );
    }
}
