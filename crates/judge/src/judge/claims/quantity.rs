//! Quantities that claims are about, calculated from values by round: ratios, differences, slopes, extremes,
//! variations.

use super::values::{RoundValues, cells as cells_of, comparable, divide, is_by_order, parts, values};
use crate::judge::cells;
use crate::judge::interval::{CONFIDENCE, Moments, median};
use crate::plan::text::{DetailedOperand, Metric, Quantity};
use crate::result::{Interval, RunResult};

#[derive(Clone, Debug)]
pub(super) enum QuantityEstimate {
    /// Mean over rounds, of logarithms if `logs` is set.
    Mean { moments: Moments, logs: bool },
    /// Largest ratio among all pairs, with the logarithms of each pair.
    Extremes(Vec<Moments>),
}

impl QuantityEstimate {
    pub(super) fn interval(&self, confidence: f64) -> Interval {
        match self {
            QuantityEstimate::Mean { moments, logs: true } => moments.exp_interval(confidence),
            QuantityEstimate::Mean { moments, logs: false } => moments.interval(confidence),
            QuantityEstimate::Extremes(pairs) => {
                // Each pair gets an interval at a confidence at which all hold together, in both directions.
                let of_each = 1.0 - (1.0 - confidence) / pairs.len().max(1) as f64;
                let all = pairs.iter().flat_map(|pair| {
                    let ratio = pair.exp_interval(of_each);
                    [ratio, ratio.turned()]
                });
                let one = Interval { low: Some(1.0), high: Some(1.0), ..Interval::point(1.0) };
                all.fold(one, |most, ratio| Interval {
                    median: most.median.max(ratio.median),
                    low: most.low.zip(ratio.low).map(|(one, other)| one.max(other)),
                    high: most.high.zip(ratio.high).map(|(one, other)| one.max(other)),
                    confidence: ratio.confidence.map(|_| confidence),
                })
            }
        }
    }

    /// Widens the interval by `slack`, a logarithm: by how much the rate of a candidate may exceed its last rung of a
    /// ladder.
    pub(super) fn on_ladders(mut self, slack: f64) -> Result<QuantityEstimate, String> {
        match &mut self {
            _ if slack == 0.0 => {}
            QuantityEstimate::Mean { moments, logs: true } => moments.slack = slack,
            QuantityEstimate::Extremes(pairs) => pairs.iter_mut().for_each(|pair| pair.slack = slack),
            QuantityEstimate::Mean { logs: false, .. } => {
                return Err(
                    "Rates of a ladder are known to a factor only: compare them by their ratio.".to_owned()
                );
            }
        }
        Ok(self)
    }

    /// Widens the interval by the share of attempts that may fail although few or no failures were observed.
    pub(super) fn with_unseen_failures(mut self, share: f64) -> QuantityEstimate {
        if let QuantityEstimate::Mean { moments, logs: false } = &mut self {
            moments.slack = share;
        }
        self
    }
}

/// Returns the share of attempts that may fail although none of them did, with 97.5 % confidence (exact binomial
/// bound). All rounds agree in this case, so their variance says nothing about it. 0 if the claim is about something
/// else.
pub(super) fn unseen_failures(result: &RunResult, targets: &[DetailedOperand]) -> Result<f64, String> {
    let mut most = 0.0_f64;
    for target in targets.iter().filter(|target| target.metric == Some(Metric::FailedAttempts)) {
        let attempts: u64 = cells_of(result, target)?.iter().map(|cell| cell.ops).sum();
        most = most.max(1.0 - 0.025_f64.powf(1.0 / attempts.max(1) as f64));
    }
    Ok(most)
}

/// Returns the uncertainty of a quantity due to candidates measured by ladders, as a logarithm: one step of the ladder
/// per two candidates.
pub(super) fn slack(result: &RunResult, targets: &[DetailedOperand]) -> Result<f64, String> {
    let mut most = 0.0_f64;
    let by_rate = |target: &&DetailedOperand| {
        matches!(target.metric.unwrap_or_default(), Metric::Time | Metric::Rate | Metric::TimeForABlob)
    };
    for target in targets.iter().filter(by_rate) {
        for cell in cells_of(result, target)? {
            most = most.max(cells::series(cell).slack);
        }
    }
    Ok(most * (targets.len() as f64 / 2.0).max(1.0))
}

pub(super) fn estimate(
    result: &RunResult,
    quantity: Quantity,
    targets: &[DetailedOperand],
) -> Result<QuantityEstimate, String> {
    let values =
        || targets.iter().map(|target| values(result, target)).collect::<Result<Vec<RoundValues>, String>>();
    match quantity {
        Quantity::Ratio => {
            let all = values()?;
            // Rounds selected by order may differ between the two.
            let apart = targets.iter().any(is_by_order) && !all[0].keys().eq(all[1].keys());
            if apart { unpaired(&all) } else { paired(&all, |v| (v[0] / v[1]).ln(), true) }
        }
        Quantity::Difference => paired(&values()?, |v| v[0] - v[1], false),
        Quantity::RatioOfRatios => paired(&values()?, |v| (v[0] / v[1] * v[3] / v[2]).ln(), true),
        Quantity::MaxOverMin => extremes(&values()?),
        Quantity::Cv => variation(&values()?),
        Quantity::Slope => slope(result, targets),
        // A share of attempts may be 0, which has no logarithm.
        Quantity::Value if targets.iter().all(|of| of.metric == Some(Metric::FailedAttempts)) => {
            paired(&values()?, |v| v[0], false)
        }
        Quantity::Value => paired(&values()?, |v| v[0].ln(), true),
    }
}

/// Estimates a mean over the rounds that all values have.
pub(super) fn paired(
    all: &[RoundValues],
    of: impl Fn(&[f64]) -> f64,
    logs: bool,
) -> Result<QuantityEstimate, String> {
    let rounds = all.first().map(|first| first.keys().copied().collect::<Vec<u32>>()).unwrap_or_default();
    let means: Vec<f64> = rounds
        .iter()
        .filter_map(|round| {
            let values: Option<Vec<f64>> = all.iter().map(|values| values.get(round).copied()).collect();
            Some(of(&values?))
        })
        .collect();
    let moments = Moments::from_values(&means).ok_or("No round has figures of all its candidates.")?;
    Ok(QuantityEstimate::Mean { moments, logs })
}

/// Estimates the ratio of values from different rounds (Welch).
pub(super) fn unpaired(all: &[RoundValues]) -> Result<QuantityEstimate, String> {
    let logs = |values: &RoundValues| {
        let logs: Vec<f64> = values.values().map(|value| value.ln()).collect();
        Moments::from_values(&logs).ok_or("No round has that order of candidates.")
    };
    let moments = logs(&all[0])?.less(&logs(&all[1])?);
    Ok(QuantityEstimate::Mean { moments, logs: true })
}

/// Estimates the ratio of the largest to the smallest value. Which ones these are is uncertain, so every pair is
/// considered.
pub(super) fn extremes(all: &[RoundValues]) -> Result<QuantityEstimate, String> {
    let mut pairs = Vec::new();
    for (index, one) in all.iter().enumerate() {
        for other in &all[index + 1..] {
            match paired(&[one.clone(), other.clone()], |v| (v[0] / v[1]).ln(), true)? {
                QuantityEstimate::Mean { moments, .. } => pairs.push(moments),
                _ => return Err("There are no candidates.".to_owned()),
            }
        }
    }
    Ok(QuantityEstimate::Extremes(pairs))
}

/// Estimates the ratio of the variations of two candidates: of the mean absolute deviations of their logarithms from
/// the median. A round that stalls affects a variance much more: with stalls in a tenth of the rounds, F calls every
/// fifth pair of equal candidates different.
pub(super) fn variation(all: &[RoundValues]) -> Result<QuantityEstimate, String> {
    let spread = |values: &RoundValues| {
        let logs: Vec<f64> = values.values().map(|value| value.ln()).collect();
        let middle = median(logs.iter().copied());
        let distances: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
        let moments = Moments::from_values(&distances).filter(|moments| moments.mean > 0.0);
        let moments = moments.ok_or("There are too few rounds, or they do not vary.")?;
        // Converts to the moments of the logarithm.
        Ok::<_, String>(Moments { mean: moments.mean.ln(), error: moments.error / moments.mean, ..moments })
    };
    let (one, other) = (spread(&all[0])?, spread(&all[1])?);
    // Uses the smaller degrees of freedom of the two, because deviations in few rounds are not quite normally
    // distributed.
    let moments = Moments { degrees: one.degrees.min(other.degrees), ..one.less(&other) };
    Ok(QuantityEstimate::Mean { moments, logs: true })
}

/// Estimates the factor from one step to the next.
pub(super) fn slope(result: &RunResult, targets: &[DetailedOperand]) -> Result<QuantityEstimate, String> {
    let steps = |target: &DetailedOperand| -> Result<Vec<RoundValues>, String> {
        parts(result, target).iter().map(|part| values(result, part)).collect()
    };
    let with_parts = targets.iter().all(|target| parts(result, target).len() > 1);
    let curve: Vec<RoundValues> = match (with_parts, targets) {
        (true, [only]) => steps(only)?,
        (true, [above, below]) => {
            let pairs = steps(above)?.into_iter().zip(steps(below)?);
            pairs.map(|(above, below)| divide(&above, &below)).collect()
        }
        _ => targets.iter().map(|target| values(result, target)).collect::<Result<_, _>>()?,
    };
    if curve.len() < 2 {
        return Err("There are no steps to lay a line through.".to_owned());
    }
    paired(&curve, line, true)
}

/// Returns the slope of a line fitted to the logarithms of values at equidistant steps.
pub(super) fn line(values: &[f64]) -> f64 {
    let middle = (values.len() - 1) as f64 / 2.0;
    let steps = || values.iter().enumerate().map(|(step, value)| (step as f64 - middle, value.ln()));
    let squares: f64 = steps().map(|(x, _)| x * x).sum();
    steps().map(|(x, y)| x * y).sum::<f64>() / squares
}

/// Returns this run's ratio of two candidates with its interval, for comparison with a published table.
pub fn ratio(
    result: &RunResult,
    target: &DetailedOperand,
    reference: &DetailedOperand,
) -> Result<Interval, String> {
    let both = [target.clone(), reference.clone()];
    comparable(result, &both)?;
    Ok(estimate(result, Quantity::Ratio, &both)?.interval(CONFIDENCE))
}
