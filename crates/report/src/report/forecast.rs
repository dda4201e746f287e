//! What is expected of a growth beyond its last step, in words, with how well the steps predict the last one.

use super::view::words::{step_shown, with_interval};
use crate::judge::interval;
use crate::plan::text::whole_of;
use crate::result::{Cell, CurveFigure, GrowthForecast, GrowthOutcome, Interval, RunResult, StepCurve};
use crate::units;

/// Formats a value of a figure.
pub(super) fn value(figure: CurveFigure, value: f64) -> String {
    match figure {
        CurveFigure::Time => units::nanoseconds(value),
        CurveFigure::Disk | CurveFigure::Memory => units::bytes(value),
        CurveFigure::DiskPerByte | CurveFigure::WriteAmplification | CurveFigure::Fragments => {
            format!("{value:.2}")
        }
    }
}

/// Formats a value with the ends of its interval, if it has any.
pub(super) fn with_ends(figure: CurveFigure, of: &Interval) -> String {
    with_interval(of, |end| value(figure, end))
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
pub(super) fn predicted(result: &RunResult) -> Option<String> {
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
    let times = || result.curves.iter().filter(is_its).filter(|of| of.figure == CurveFigure::Time);
    let expected: Vec<String> = times().filter_map(|of| Some(sentence(of, of.forecast.as_ref()?))).collect();
    let share = predicted(result).filter(|_| !expected.is_empty());
    let mut all: Vec<String> = times().filter_map(|of| change(result, of)).collect();
    all.extend(expected);
    all.extend(share.map(|share| format!("Of all figures of this run: {share}")));
    all
}

/// Sentence on how much longer an op takes at the last step of a curve than at the first.
fn change(result: &RunResult, of: &StepCurve) -> Option<String> {
    let [first, last] = [of.steps.first()?, of.steps.last()?].map(|step| step_shown(result, step.at));
    let from_to = match result.plan.age {
        Some(_) => format!("From age {first} to {last}"),
        None => format!("From {first} to {last} blobs"),
    };
    let exponent =
        of.exponent.map_or(String::new(), |exponent| format!(", exponent {}", interval::text(&exponent)));
    Some(format!("{from_to}, an op takes {} times as long{exponent}.", interval::text(&of.times)))
}

/// Sentence on the extrapolation of a curve.
pub(super) fn sentence(of: &StepCurve, forecast: &GrowthForecast) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::tests::result;
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
        let mut run = result(&["a"], Vec::new(), Vec::new());
        let grown = change(&run, &curve).unwrap();
        assert!(
            grown.ends_with(" 1.50 [1.40, 1.60] times as long, exponent 0.060 [0.050, 0.070]."),
            "{grown}"
        );
        run.plan.age = Some("0..8".to_owned());
        let aged = StepCurve { steps: vec![step(0, 2_000.0), step(800, 3_000.0)], exponent: None, ..curve };
        assert_eq!(
            change(&run, &aged).as_deref(),
            Some("From age 0 to 8, an op takes 1.50 [1.40, 1.60] times as long.")
        );
    }
}
