//! Numbers of blobs that a run did not have: what it expects there, or how to find out.

use super::super::interval;
use super::with_reasons;
use crate::result::{CurveFigure, GrowthLaw, GrowthOutcome, Interval, RunResult, StepCurve};
use crate::units;

/// Returns a sentence for each phase on the time of an op with the number of blobs that was asked about, over that at the last
/// step; empty if none was asked about.
pub(super) fn expected(result: &RunResult) -> Vec<String> {
    let of_time = result.curves.iter().filter(|of| of.figure == CurveFigure::Time);
    let of_step = |of| Some(((of_phase(of)?, of.steps.last()?.at), of));
    let groups = units::grouped(of_time.filter_map(of_step));
    groups.iter().map(|((key, last), curves)| sentence(*key, *last, curves)).collect()
}

/// Phase and number of blobs of an extrapolation.
fn of_phase(of: &StepCurve) -> Option<(&str, u64)> {
    Some((of.phase.as_str(), of.forecast?.blobs))
}

fn sentence((phase, blobs): (&str, u64), last: u64, curves: &[&StepCurve]) -> String {
    let count = |blobs: u64| units::count(blobs as f64);
    let head = format!("With {} blobs instead of {}", count(blobs), count(last));
    let told: Vec<String> = curves.iter().filter_map(|of| times(of)).collect();
    let unknown =
        with_reasons(curves.iter().filter_map(|of| Some((unknown(of)?.to_owned(), of.store.clone()))));
    match (told.is_empty(), unknown) {
        (false, None) => format!("{head}, an op of `{phase}` takes: {}.", told.join("; ")),
        (false, Some(unknown)) => {
            format!("{head}, an op of `{phase}` takes: {}; not predictable: {unknown}.", told.join("; "))
        }
        (true, unknown) => format!("{head}, `{phase}` is not predictable: {}.", unknown.unwrap_or_default()),
    }
}

/// Returns the expected time over that at the last step, in words; `None` if the curve is not extrapolated.
fn times(of: &StepCurve) -> Option<String> {
    let GrowthOutcome::Expected { law, value } = of.forecast?.outcome else { return None };
    let last = of.steps.last()?.value.median;
    let over = |value: f64| value / last;
    let times = Interval {
        median: over(value.median),
        low: value.low.map(over),
        high: value.high.map(over),
        ..value
    };
    let times = interval::text(&times);
    Some(match (law, times.split_once(' ')) {
        (GrowthLaw::Constant, Some((_, ends))) => format!("`{}` as long {ends}", of.store),
        _ => format!("`{}` {times} times as long", of.store),
    })
}

/// Returns why a curve is not extrapolated.
fn unknown(of: &StepCurve) -> Option<&'static str> {
    match of.forecast?.outcome {
        GrowthOutcome::Expected { .. } => None,
        GrowthOutcome::Bends => Some("the curve bends"),
        GrowthOutcome::Scatters => Some("the steps scatter"),
        GrowthOutcome::TooFewSteps => Some("it has fewer than five steps"),
        GrowthOutcome::TooFewRounds => Some("that takes `--rounds 5`"),
    }
}

/// Number of blobs from which on a run says what many of them change.
const MANY_BLOBS: u64 = 1_000_000;

/// Returns how to find out what more blobs change; `None` if the run has many, or is about memory or a log, where the number of blobs
/// is not the question.
pub(super) fn not_grown(result: &RunResult) -> Option<String> {
    let (blobs, plan) = (result.corpus.blobs, &result.plan);
    let asks_else = plan.memory_sweep.is_some() || plan.has_log();
    ((1..MANY_BLOBS).contains(&blobs) && !asks_else).then(|| {
        format!(
            "Growth: each store held at most {}; `blobwise run --grow 1k..1M` measures what a million of them change.",
            units::counted(blobs, "blob")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fixture::result;
    use crate::result::{CurveStep, GrowthForecast};

    fn curve(store: &str, outcome: GrowthOutcome) -> StepCurve {
        let step = |at: u64| CurveStep { at, value: Interval::point(2_000.0) };
        let forecast =
            GrowthForecast { blobs: 10_000_000, last_step: None, is_met: None, device_reads: None, outcome };
        StepCurve {
            store: store.to_owned(),
            phase: "read-cold".to_owned(),
            figure: CurveFigure::Time,
            steps: vec![step(1_000), step(1_000_000)],
            times: Interval::point(1.0),
            exponent: None,
            forecast: Some(forecast),
        }
    }

    #[test]
    fn what_is_expected_is_told_by_phase_with_what_is_not_predictable() {
        let value = Interval { low: Some(2_200.0), high: Some(3_200.0), ..Interval::point(2_600.0) };
        let expected = |law| GrowthOutcome::Expected { law, value };
        let curves = [
            curve("a", expected(GrowthLaw::Power)),
            curve("b", expected(GrowthLaw::Constant)),
            curve("c", GrowthOutcome::Bends),
        ];
        let said = |curves: &[&StepCurve]| sentence(("read-cold", 10_000_000), 1_000_000, curves);
        assert_eq!(
            said(&[&curves[0], &curves[1], &curves[2]]),
            "With 10M blobs instead of 1M, an op of `read-cold` takes: `a` 1.30 [1.10, 1.60] times as long; `b` as long [1.10, 1.60]; not \
             predictable: `c` (the curve bends)."
        );
        assert_eq!(
            said(&[&curves[2]]),
            "With 10M blobs instead of 1M, `read-cold` is not predictable: `c` (the curve bends)."
        );
        assert_eq!(of_phase(&StepCurve { forecast: None, ..curves[0].clone() }), None);
    }

    #[test]
    fn more_blobs_are_spoken_of_where_their_number_is_the_question() {
        let told = |plan: &str, blobs: u64| {
            let mut result = result(plan, Vec::new(), Vec::new());
            result.corpus.blobs = blobs;
            not_grown(&result)
        };
        assert!(
            told("", 400).is_some_and(|said| said.starts_with("Growth: each store held at most 400 blobs;"))
        );
        assert_eq!(told("", MANY_BLOBS), None);
        assert_eq!(told("memory_sweep = '200%,25%'", 400), None);
        assert_eq!(told("[corpus]\ntrace = 'access.log'", 400), None);
    }
}
