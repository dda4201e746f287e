//! Curves over the number of blobs: their exponent, and what to expect beyond their last step.
//!
//! A law is fitted to all steps but the last, and must predict that one: a constant, unless these steps have a trend, then a
//! logarithm or a power, whichever they follow more closely. If none predicts it, the curve bends and is not extrapolated.

use super::interval::{CONFIDENCE, Moments, is_wide, t_two_sided};
use crate::result::{GrowthForecast, GrowthLaw, GrowthOutcome, Interval};
use crate::rules::{GROWTH_STEPS_MIN, NOISE_MIN, VERDICT_ROUNDS};

/// Values of a curve: the number of blobs at each step, and by round the value at each step. All values are above 0.
#[derive(Clone, Debug)]
pub struct GrowthCurve {
    /// Number of blobs at each step, ascending.
    pub blobs: Vec<f64>,
    /// Values of each round.
    pub rounds: Vec<Vec<f64>>,
}

impl GrowthCurve {
    /// Returns the slope of the logarithm of the value over that of the number of blobs, with its interval over rounds; `None`
    /// with fewer than two steps.
    pub fn exponent(&self) -> Option<Interval> {
        let slope = |values: &Vec<f64>| Some(Law::fit(GrowthLaw::Power, &self.blobs, values, 0.0)?.slope);
        let slopes: Vec<f64> = self.rounds.iter().map(slope).collect::<Option<_>>()?;
        Some(Moments::from_values(&slopes)?.interval(CONFIDENCE))
    }

    /// Extrapolates the curve to a number of blobs.
    pub fn forecast(&self, blobs: u64) -> GrowthForecast {
        let of = |last_step, is_met, outcome| {
            let device_reads = None;
            GrowthForecast { blobs, last_step, is_met, device_reads, outcome }
        };
        let steps = self.blobs.len();
        let means: Option<Vec<Moments>> = (0..steps).map(|step| self.logs(step)).collect();
        let Some(means) = means.filter(|_| steps >= GROWTH_STEPS_MIN) else {
            return of(None, None, GrowthOutcome::TooFewSteps);
        };
        if self.rounds.len() < VERDICT_ROUNDS as usize {
            return of(None, None, GrowthOutcome::TooFewRounds);
        }
        let values: Vec<f64> = means.iter().map(|mean| mean.mean.exp()).collect();
        // Scatter between rounds bounds how well the steps can follow a law.
        let noise = (means.iter().map(|mean| mean.error.powi(2)).sum::<f64>() / steps as f64).sqrt();
        let (last_blobs, last) = (self.blobs[steps - 1], values[steps - 1]);
        let early = |law| Law::fit(law, &self.blobs[..steps - 1], &values[..steps - 1], noise);
        let mut laws: Vec<Law> =
            [GrowthLaw::Logarithmic, GrowthLaw::Power].into_iter().filter_map(early).collect();
        laws.sort_by(|a, b| a.error.total_cmp(&b.error));
        let has_trend = early(GrowthLaw::Power).is_none_or(|power| power.has_trend());
        let constant = early(GrowthLaw::Constant).filter(|_| !has_trend);
        let predicted = |fitted: Law| Some((fitted.law, fitted.predict(last_blobs)?));
        let tried: Vec<(GrowthLaw, Interval)> =
            constant.into_iter().chain(laws).filter_map(predicted).collect();
        let first_is_met = tried.first().map(|(_, predicted)| is_within(predicted, last));
        let is_met = |(_, predicted): &&(GrowthLaw, Interval)| is_within(predicted, last);
        let is_narrow = |(_, predicted): &&(GrowthLaw, Interval)| !is_wide(predicted);
        let Some((law, last_step)) = tried.iter().filter(is_met).find(is_narrow).copied() else {
            let closest = tried.first().map(|(_, predicted)| *predicted);
            let is_met = tried.iter().any(|(_, predicted)| is_within(predicted, last));
            return of(
                closest,
                first_is_met,
                if is_met { GrowthOutcome::Scatters } else { GrowthOutcome::Bends },
            );
        };
        let whole = Law::fit(law, &self.blobs, &values, noise).and_then(|law| law.predict(blobs as f64));
        let outcome = match whole {
            Some(value) if is_wide(&value) => GrowthOutcome::Scatters,
            Some(value) => GrowthOutcome::Expected { law, value },
            None => GrowthOutcome::Bends,
        };
        of(Some(last_step), first_is_met, outcome)
    }

    /// Mean logarithm of the value at a step, over rounds.
    fn logs(&self, step: usize) -> Option<Moments> {
        let logs: Vec<f64> = self.rounds.iter().map(|values| values[step].ln()).collect();
        Moments::from_values(&logs)
    }
}

fn is_within(interval: &Interval, value: f64) -> bool {
    interval.low.is_none_or(|low| low <= value) && interval.high.is_none_or(|high| value <= high)
}

/// A law fitted to the steps of a curve by least squares of relative deviations.
#[derive(Clone, Copy, Debug)]
struct Law {
    law: GrowthLaw,
    /// Weighted mean of the logarithms of the numbers of blobs.
    centre: f64,
    /// Response at the centre: the value, or its logarithm for laws that are straight in it.
    level: f64,
    /// Change of the response with the logarithm of the number of blobs.
    slope: f64,
    /// Sum of the weights.
    weights: f64,
    /// Weighted sum of squared distances from the centre.
    spread: f64,
    /// Standard deviation of a step from the law, as a logarithm.
    error: f64,
    /// Degrees of freedom of `error`.
    degrees: f64,
}

impl Law {
    /// Fits a law. `noise` is the standard error of each value, as a logarithm. `None` with too few steps, or if the law has no
    /// positive value at one of them.
    fn fit(law: GrowthLaw, blobs: &[f64], values: &[f64], noise: f64) -> Option<Law> {
        let parameters = if law == GrowthLaw::Constant { 1 } else { 2 };
        if blobs.len() < parameters || blobs.len() != values.len() {
            return None;
        }
        let is_straight = law == GrowthLaw::Logarithmic;
        // A deviation of the value in proportion to it weighs the same at every step.
        let point = |(blobs, value): (&f64, &f64)| match is_straight {
            true => (blobs.ln(), *value, value.powi(-2)),
            false => (blobs.ln(), value.ln(), 1.0),
        };
        let points: Vec<(f64, f64, f64)> = blobs.iter().zip(values).map(point).collect();
        let weights: f64 = points.iter().map(|(_, _, weight)| weight).sum();
        let centre = points.iter().map(|(x, _, weight)| x * weight).sum::<f64>() / weights;
        let level = points.iter().map(|(_, y, weight)| y * weight).sum::<f64>() / weights;
        let spread: f64 = points.iter().map(|(x, _, weight)| weight * (x - centre).powi(2)).sum();
        let together: f64 = points.iter().map(|(x, y, weight)| weight * (x - centre) * (y - level)).sum();
        let slope = if law == GrowthLaw::Constant { 0.0 } else { together / spread };
        let degrees = (blobs.len() - parameters) as f64;
        let mut fitted = Law { law, centre, level, slope, weights, spread, error: 0.0, degrees };
        let mut squares = 0.0;
        for (blobs, value) in blobs.iter().zip(values) {
            let expected = fitted.at(*blobs);
            if expected <= 0.0 {
                return None;
            }
            squares += (value / expected).ln().powi(2);
        }
        fitted.error = (squares / degrees.max(1.0)).sqrt().max(noise).max(NOISE_MIN);
        Some(fitted)
    }

    fn at(&self, blobs: f64) -> f64 {
        let response = self.level + self.slope * (blobs.ln() - self.centre);
        if self.law == GrowthLaw::Logarithmic { response } else { response.exp() }
    }

    /// Returns the value at a number of blobs with its prediction interval; `None` if the law has no positive value there.
    fn predict(&self, blobs: f64) -> Option<Interval> {
        let value = self.at(blobs);
        if !(value > 0.0 && value.is_finite() && self.degrees > 0.0) {
            return None;
        }
        let away = if self.law == GrowthLaw::Constant { 0.0 } else { blobs.ln() - self.centre };
        let of_slope = if away == 0.0 { 0.0 } else { away.powi(2) / self.spread };
        let scale = if self.law == GrowthLaw::Logarithmic { value.powi(2) } else { 1.0 };
        let uncertain = 1.0 + (1.0 / self.weights + of_slope) / scale;
        let reach = t_two_sided(CONFIDENCE, self.degrees) * self.error * uncertain.sqrt();
        let end = |side: f64| Some(value * (side * reach).exp());
        Some(Interval { median: value, low: end(-1.0), high: end(1.0), confidence: Some(CONFIDENCE) })
    }

    /// True if the slope is proved not to be 0.
    fn has_trend(&self) -> bool {
        let reach = t_two_sided(CONFIDENCE, self.degrees) * self.error / self.spread.sqrt();
        self.slope.abs() > reach
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    const STEPS: [f64; 7] = [1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6];

    /// Five rounds of a store with this law, each value with 2 % of noise.
    fn measured(law: fn(f64) -> f64, seed: u64) -> GrowthCurve {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut noisy = |blobs: &f64| {
            let noise: f64 = StandardNormal.sample(&mut random);
            law(*blobs) * (0.02 * noise).exp()
        };
        let rounds = (0..5).map(|_| STEPS.iter().map(&mut noisy).collect()).collect();
        GrowthCurve { blobs: STEPS.to_vec(), rounds }
    }

    /// Of 200 runs of a store with this law: how often an extrapolation to ten times the blobs was made, and how often the truth
    /// was within it.
    fn outcomes(law: fn(f64) -> f64) -> (usize, usize) {
        let forecasts = (0..200).map(|seed| measured(law, seed).forecast(10_000_000).outcome);
        let expected = forecasts.filter_map(|outcome| match outcome {
            GrowthOutcome::Expected { value, .. } => Some(is_within(&value, law(1e7))),
            _ => None,
        });
        let expected: Vec<bool> = expected.collect();
        (expected.len(), expected.iter().filter(|is_within| **is_within).count())
    }

    #[test]
    fn a_store_with_a_known_law_is_extrapolated_and_the_truth_is_within_the_interval() {
        let laws: [fn(f64) -> f64; 4] =
            [|_| 5e3, |blobs| 2e3 + 300.0 * blobs.ln(), |blobs| 40.0 * blobs.sqrt(), |blobs| 0.3 * blobs];
        for (index, law) in laws.into_iter().enumerate() {
            let (made, right) = outcomes(law);
            assert!(made >= 170, "law {index}: extrapolated in {made} of 200 runs");
            assert!(right * 100 >= made * 90, "law {index}: {right} of {made} intervals have the truth");
        }
    }

    #[test]
    fn the_last_step_is_within_the_first_prediction_and_a_bend_never_is() {
        let met = |law: fn(f64) -> f64| {
            let forecasts = (0..200).map(|seed| measured(law, seed).forecast(10_000_000));
            forecasts.filter(|forecast| forecast.is_met == Some(true)).count()
        };
        let laws: [fn(f64) -> f64; 3] =
            [|_| 5e3, |blobs| 2e3 + 300.0 * blobs.ln(), |blobs| 40.0 * blobs.sqrt()];
        for (index, law) in laws.into_iter().enumerate() {
            assert!(met(law) >= 190, "law {index}: {} of 200 last steps", met(law));
        }
        let bend: fn(f64) -> f64 = |blobs| if blobs > 5e5 { 2e4 } else { 5e3 };
        assert_eq!(met(bend), 0);
        assert_eq!(measured(|_| 5e3, 1).forecast(10_000_000).device_reads, None);
        let mut few = measured(|_| 5e3, 1);
        few.rounds.truncate(4);
        assert_eq!(few.forecast(10_000_000).is_met, None);
    }

    #[test]
    fn the_law_is_found_and_the_last_step_predicted() {
        let laws: [fn(f64) -> f64; 3] =
            [|_| 5e3, |blobs| 2e3 + 300.0 * blobs.ln(), |blobs| 40.0 * blobs.sqrt()];
        let names = [GrowthLaw::Constant, GrowthLaw::Logarithmic, GrowthLaw::Power];
        for (law, wanted) in laws.into_iter().zip(names) {
            let curve = GrowthCurve { blobs: STEPS.to_vec(), rounds: vec![STEPS.map(law).to_vec(); 5] };
            let forecast = curve.forecast(10_000_000);
            assert!(is_within(&forecast.last_step.unwrap(), law(1e6)), "{forecast:?}");
            let GrowthOutcome::Expected { law: found, .. } = forecast.outcome else { panic!("{forecast:?}") };
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn the_exponent_is_that_of_the_law() {
        let exponent = measured(|blobs| 40.0 * blobs.sqrt(), 1).exponent().unwrap();
        assert!(is_within(&exponent, 0.5) && (exponent.median - 0.5).abs() < 0.02, "{exponent:?}");
        let falling = measured(|blobs| 1e6 / blobs, 1).exponent().unwrap();
        assert!(falling.high.unwrap() < -0.9, "{falling:?}");
        let once = GrowthCurve { rounds: measured(|_| 1.0, 1).rounds[..1].to_vec(), blobs: STEPS.to_vec() };
        assert_eq!(once.exponent().unwrap().low, None);
    }

    #[test]
    fn a_curve_that_bends_or_scatters_or_is_short_is_not_extrapolated() {
        // A cache is full at the last step.
        let bend = |blobs: f64| if blobs > 5e5 { 2e4 } else { 5e3 };
        assert_eq!(outcomes(bend), (0, 0));
        assert_eq!(measured(bend, 1).forecast(10_000_000).outcome, GrowthOutcome::Bends);
        let mut short = measured(|_| 5e3, 1);
        short.blobs.truncate(4);
        short.rounds.iter_mut().for_each(|values| values.truncate(4));
        let forecast = short.forecast(10_000_000);
        assert_eq!((forecast.last_step, forecast.outcome), (None, GrowthOutcome::TooFewSteps));
        let mut few = measured(|_| 5e3, 1);
        few.rounds.truncate(4);
        assert_eq!(few.forecast(10_000_000).outcome, GrowthOutcome::TooFewRounds);
        let wild = [1.0, 4.0, 1.2, 5.0, 0.9, 4.5, 1.1].to_vec();
        let wild = GrowthCurve { blobs: STEPS.to_vec(), rounds: vec![wild; 5] };
        assert_eq!(wild.forecast(10_000_000).outcome, GrowthOutcome::Scatters);
    }
}
