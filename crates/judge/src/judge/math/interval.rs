//! Intervals and verdicts for rates and ratios. The unit of replication is the round, never the op.
//!
//! Rates are compared as logarithms, because noise on a machine is multiplicative. The interval of a ratio is Student's
//! t on the differences of logarithms, paired by round. The tests below simulate how often two equal stores are called
//! different; `docs/explanation/statistics.md` has the figures.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::result::{Interval, Verdict};
use crate::rules::WIDE_TIMES;
pub use crate::rules::{CONFIDENCE, EQUAL_WITHIN};

/// Returns the t value for a two-sided interval of this confidence with these degrees of freedom.
pub fn t_two_sided(confidence: f64, degrees: f64) -> f64 {
    t_one_sided(0.5 + confidence / 2.0, degrees)
}

/// Returns the t value below which this share of Student's distribution lies.
pub fn t_one_sided(share: f64, degrees: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::INFINITY, |distribution| distribution.inverse_cdf(share))
}

/// Mean, standard error and degrees of freedom of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard error of the mean.
    pub error: f64,
    /// Degrees of freedom of that error; 0 with one value.
    pub degrees: f64,
    /// Possible systematic error of the mean in either direction, which more rounds do not reduce: the step of a
    /// ladder.
    pub slack: f64,
}

impl Moments {
    /// Computes the moments of a sample; `None` if it is empty or has a value that is not finite.
    pub fn from_values(values: &[f64]) -> Option<Moments> {
        let n = values.len() as f64;
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = if n > 1.0 { (squares / (n - 1.0) / n).sqrt() } else { 0.0 };
        Some(Moments { mean, error, degrees: n - 1.0, slack: 0.0 })
    }

    /// Returns the difference to another mean, unpaired (Welch).
    pub fn less(&self, other: &Moments) -> Moments {
        let (a, b) = (self.error.powi(2), other.error.powi(2));
        let error = (a + b).sqrt();
        let degrees = if self.degrees < 1.0 || other.degrees < 1.0 {
            0.0
        } else if error == 0.0 {
            self.degrees + other.degrees
        } else {
            (a + b).powi(2) / (a.powi(2) / self.degrees + b.powi(2) / other.degrees)
        };
        // Either value may be too low: one error raises the difference, the other lowers it.
        Moments { mean: self.mean - other.mean, error, degrees, slack: self.slack.max(other.slack) }
    }

    /// Returns the mean with its interval of this confidence (0 to 1), widened by `slack`.
    pub fn interval(&self, confidence: f64) -> Interval {
        let t = t_two_sided(confidence, self.degrees);
        let bound =
            |side: f64| (self.degrees > 0.0).then_some(self.mean + side * (t * self.error + self.slack));
        let confidence = (self.degrees > 0.0).then_some(confidence);
        Interval { median: self.mean, low: bound(-1.0), high: bound(1.0), confidence }
    }

    /// Returns the exponentials of [`Moments::interval`].
    pub fn exp_interval(&self, confidence: f64) -> Interval {
        let of = self.interval(confidence);
        Interval { median: of.median.exp(), low: of.low.map(f64::exp), high: of.high.map(f64::exp), ..of }
    }
}

/// Returns the geometric mean of rates over rounds with its interval.
pub fn rate(values: &[f64]) -> Option<Interval> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let moments = Moments::from_values(&logs)?;
    Some(moments.exp_interval(CONFIDENCE))
}

/// Returns the arithmetic mean over rounds of values that are never negative, such as money: means of parts add up to
/// the mean of their sum.
pub fn mean(values: &[f64]) -> Option<Interval> {
    let of = Moments::from_values(values)?.interval(CONFIDENCE);
    let bounded = |end: Option<f64>| end.map(|end| end.max(0.0));
    Some(Interval { low: bounded(of.low), high: bounded(of.high), ..of })
}

/// True if an interval spans more than a factor of [`WIDE_TIMES`] or is unbounded.
pub fn is_wide(interval: &Interval) -> bool {
    interval.low.zip(interval.high).is_none_or(|(low, high)| high > WIDE_TIMES * low)
}

/// Returns the logarithms of the ratios, paired by round.
pub fn paired_logs(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| (a / b).ln()).collect()
}

/// Returns the ratio of two rates, paired by round.
pub fn paired_ratio(a: &[f64], b: &[f64]) -> Option<Interval> {
    let moments = Moments::from_values(&paired_logs(a, b))?;
    Some(moments.exp_interval(CONFIDENCE))
}

/// Returns the verdict on the interval of a ratio of rates. Equal takes precedence over faster and slower: a difference
/// proved to be smaller than 3 % does not matter for a choice.
pub fn verdict(ratio: &Interval) -> Verdict {
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) if low >= 1.0 - EQUAL_WITHIN && high <= 1.0 + EQUAL_WITHIN => Verdict::Equal,
        (Some(low), _) if low > 1.0 => Verdict::Faster,
        (_, Some(high)) if high < 1.0 => Verdict::Slower,
        _ => Verdict::CannotTellApart,
    }
}

/// Returns the number of rounds at which half of a run's intervals would be narrower than `wanted` on both sides,
/// relative to their ratio, by the variance of the first few rounds: the smallest such number, from the number of these
/// rounds to `most`.
///
/// The number depends on all comparisons of the run together and hardly on any single one. If each comparison chose its
/// own number, there would be 7 % false differences instead of 5, because an accidentally small variance stops early.
pub fn rounds_needed(comparisons: &[Vec<f64>], wanted: f64, most: u32) -> u32 {
    let moments: Vec<Moments> = comparisons
        .iter()
        .filter_map(|logs| Moments::from_values(logs))
        .filter(|moments| moments.degrees > 0.0)
        .collect();
    let Some(first) = moments.iter().map(|moments| moments.degrees as u32 + 1).max() else { return most };
    let is_narrow = |moments: &Moments, rounds: f64| {
        let sd = moments.error * (moments.degrees + 1.0).sqrt();
        t_two_sided(CONFIDENCE, rounds - 1.0) * sd / rounds.sqrt() <= wanted
    };
    (first..most)
        .find(|rounds| {
            let narrow = moments.iter().filter(|moments| is_narrow(moments, f64::from(*rounds))).count();
            narrow * 2 >= moments.len()
        })
        .unwrap_or(most.max(first))
}

/// Formats the interval of a ratio or a difference: `1.30 [1.21, 1.40]`, `0.014 [0.013, 0.015]`.
pub fn text(interval: &Interval) -> String {
    /// An upper bound this many times the mean only shows that there are too few rounds. The bound of a difference
    /// above 0 never gets there.
    const WIDEST: f64 = 10.0;
    // The mean of a difference may be close to 0; then its bounds determine the number of digits.
    let size = match (interval.low, interval.high) {
        (Some(low), Some(high)) if low <= 0.0 => high.max(-low),
        _ => interval.median.abs(),
    };
    let digits =
        if size >= 0.1 || size == 0.0 { 2 } else { (1.0 - size.log10().floor()).clamp(2.0, 6.0) as usize };
    let number = |value: f64| {
        let text = format!("{value:.digits$}");
        // Zero has no sign.
        match text.strip_prefix('-') {
            Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_owned(),
            _ => text,
        }
    };
    let bound = |value: f64| if value > 0.0 { beside_one(value, digits) } else { number(value) };
    match (interval.low, interval.high) {
        (Some(low), Some(high)) if low > 0.0 && high / interval.median > WIDEST => {
            format!("{} [wide]", number(interval.median))
        }
        (Some(low), Some(high)) => {
            let middle =
                if low > 1.0 || high < 1.0 { bound(interval.median) } else { number(interval.median) };
            format!("{middle} [{}, {}]", bound(low), bound(high))
        }
        _ => number(interval.median),
    }
}

/// Formats a value with this many digits, or with more as long as it would be printed as 1 although it is not: the side of 1 on which
/// a bound lies must remain visible.
pub fn beside_one(value: f64, digits: usize) -> String {
    let is_one = |text: &str| text.parse::<f64>() == Ok(1.0);
    let rounded = format!("{value:.digits$}");
    if value == 1.0 || !is_one(&rounded) {
        return rounded;
    }
    let mut finer = (digits..=6).map(|digits| format!("{value:.digits$}"));
    finer.find(|text| !is_one(text)).unwrap_or(rounded)
}

/// Returns the median, the upper one of two middle values; `None` if there are none. Values that cannot be ordered are equal.
pub fn upper_median<T: PartialOrd + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied()
}

/// Returns the median, the mean of the two middle values if their number is even; 0 if there are none.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    values.get(low).zip(values.get(high)).map_or(0.0, |(low, high)| f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fixture::NOISES;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, StandardNormal};

    #[test]
    fn t_values_are_the_table_ones() {
        for (degrees, t) in [(1.0, 12.706), (4.0, 2.776), (9.0, 2.262), (100.0, 1.984)] {
            assert!((t_two_sided(0.95, degrees) - t).abs() < 0.001, "{degrees}");
        }
    }

    #[test]
    fn intervals_are_those_worked_out_by_hand() {
        // Logarithms 0.1, 0.2, 0.3: mean 0.2, sd 0.1, error 0.1/sqrt(3), t(2) = 4.303.
        let a: Vec<f64> = [0.1_f64, 0.2, 0.3].iter().map(|x| x.exp()).collect();
        let ratio = paired_ratio(&a, &[1.0; 3]).unwrap();
        let half = 4.303 * 0.1 / 3.0_f64.sqrt();
        assert!((ratio.median.ln() - 0.2).abs() < 1e-9);
        assert!((ratio.low.unwrap().ln() - (0.2 - half)).abs() < 1e-3);
        assert!((ratio.high.unwrap().ln() - (0.2 + half)).abs() < 1e-3);
    }

    #[test]
    fn intervals_are_shown_with_the_digits_that_say_something() {
        let shown = |middle: f64, low: f64, high: f64| {
            text(&Interval { low: Some(low), high: Some(high), ..Interval::point(middle) })
        };
        assert_eq!(shown(1.3, 1.21, 1.4), "1.30 [1.21, 1.40]");
        assert_eq!(shown(0.0142, 0.0131, 0.0154), "0.014 [0.013, 0.015]");
        assert_eq!(shown(1.3, 0.01, 140.0), "1.30 [wide]");
        assert_eq!(shown(0.94, 0.89, 0.996), "0.94 [0.89, 0.996]");
        assert_eq!(shown(1.08, 1.0003, 1.17), "1.08 [1.0003, 1.17]");
        assert_eq!(shown(1.0, 1.0, 1.0), "1.00 [1.00, 1.00]");
        // Differences, in seconds.
        assert_eq!(shown(0.0088, 0.00005, 0.0175), "0.0088 [0.0001, 0.0175]");
        assert_eq!(shown(-0.0088, -0.012, -0.005), "-0.009 [-0.012, -0.005]");
        assert_eq!(shown(-0.00001, -0.00009, 0.00007), "-0.000010 [-0.000090, 0.000070]");
        assert_eq!(shown(-3.7, -4.0, -3.4), "-3.70 [-4.00, -3.40]");
        assert_eq!(shown(-0.0001, -20.0, 20.0), "0.00 [-20.00, 20.00]");
    }

    #[test]
    fn five_verdicts_in_both_directions() {
        let of = |low: f64, high: f64| {
            verdict(&Interval { low: Some(low), high: Some(high), ..Interval::point(1.0) })
        };
        assert_eq!(of(1.1, 1.3), Verdict::Faster);
        assert_eq!(of(0.5, 0.9), Verdict::Slower);
        assert_eq!(of(0.98, 1.02), Verdict::Equal);
        assert_eq!(of(1.01, 1.02), Verdict::Equal);
        assert_eq!(of(0.9, 1.02), Verdict::CannotTellApart);
        assert_eq!(verdict(&Interval::point(2.0)), Verdict::CannotTellApart);
    }

    /// What disturbs the simulated measurements, besides their noise.
    #[derive(Clone, Copy, Debug)]
    enum Disturbance {
        None,
        /// One measurement in ten takes a ninth longer.
        Stalls,
        /// Something else on the machine takes 40 % of the speed, for as many milliseconds as this on average and a third of the
        /// time, whatever is measured then. A measurement lasts 100 ms.
        Contention(f64),
        /// A cache holds a store's data in every other round, by chance, and makes it 2.5 times as fast.
        Cache,
    }

    /// A machine on which equal stores are measured one after another.
    struct Machine {
        random: SmallRng,
        disturbance: Disturbance,
        noise: f64,
        /// Milliseconds until contention begins or ends.
        left: f64,
        contended: bool,
    }

    impl Machine {
        fn new(disturbance: Disturbance, noise: f64) -> Machine {
            Machine { random: SmallRng::seed_from_u64(7), disturbance, noise, left: 0.0, contended: true }
        }

        /// Returns the rate of a store in a round. All stores drift by 2 % a round.
        fn rate(&mut self, round: u32) -> f64 {
            let noise: f64 = StandardNormal.sample(&mut self.random);
            let disturbed = match self.disturbance {
                Disturbance::None => 1.0,
                Disturbance::Stalls if self.random.random_bool(0.1) => 0.9,
                Disturbance::Cache if self.random.random_bool(0.5) => 2.5,
                Disturbance::Stalls | Disturbance::Cache => 1.0,
                Disturbance::Contention(milliseconds) => self.speed(milliseconds),
            };
            (1.0 - 0.02 * f64::from(round)) * (noise * self.noise).exp() * disturbed
        }

        /// Returns the mean speed of the next 100 ms.
        fn speed(&mut self, milliseconds: f64) -> f64 {
            let (mut rest, mut done) = (100.0, 0.0);
            while rest > 0.0 {
                if self.left <= 0.0 {
                    self.contended = !self.contended;
                    let mean = if self.contended { milliseconds } else { 2.0 * milliseconds };
                    self.left = -mean * (1.0 - self.random.random::<f64>()).ln();
                }
                let time = self.left.min(rest);
                done += time * if self.contended { 0.6 } else { 1.0 };
                (self.left, rest) = (self.left - time, rest - time);
            }
            done / 100.0
        }
    }

    /// Returns how often equal stores are called different, in 7,000 comparisons by the rule that runs use: eight
    /// candidates, seven of them compared with the eighth; five rounds, then as many more as their variances require,
    /// decided once.
    fn false_differences(noise: f64, disturbance: Disturbance) -> f64 {
        let mut machine = Machine::new(disturbance, noise);
        let (mut called, mut compared) = (0, 0);
        while compared < 7_000 {
            let mut candidates = vec![Vec::new(); 8];
            let (mut rounds, mut done) = (5, 0);
            while done < rounds {
                for candidate in &mut candidates {
                    candidate.push(machine.rate(done));
                }
                done += 1;
                if done == 5 {
                    let logs: Vec<Vec<f64>> = candidates[1..]
                        .iter()
                        .map(|candidate| paired_logs(candidate, &candidates[0]))
                        .collect();
                    rounds = rounds_needed(&logs, 0.05, 20);
                }
            }
            for candidate in &candidates[1..] {
                let verdict = verdict(&paired_ratio(candidate, &candidates[0]).unwrap());
                called += u32::from(matches!(verdict, Verdict::Faster | Verdict::Slower));
                compared += 1;
            }
        }
        f64::from(called) / f64::from(compared)
    }

    #[test]
    fn equal_stores_are_called_different_in_five_per_cent_of_comparisons() {
        let disturbances = [
            Disturbance::None,
            Disturbance::Stalls,
            Disturbance::Contention(5.0),
            Disturbance::Contention(50.0),
            Disturbance::Contention(500.0),
            Disturbance::Cache,
        ];
        for disturbance in disturbances {
            for noise in NOISES {
                let share = false_differences(noise, disturbance);
                println!("{disturbance:?}, noise {noise}: {:.1} % called different", share * 100.0);
                // At 2 % some of them are called equal instead, which is also correct.
                assert!(share < 0.06, "{disturbance:?}, noise {noise}: {share}");
            }
        }
    }

    /// Returns the rate of a round of a few ops with a noise of 30 % each; one op in twenty stalls for ten times as
    /// long.
    fn few_ops(random: &mut SmallRng, ops: u32, times: f64) -> f64 {
        let seconds: f64 = (0..ops)
            .map(|_| {
                let noise: f64 = StandardNormal.sample(random);
                let stall = if random.random::<f64>() < 0.05 { 10.0 } else { 1.0 };
                times * (noise * 0.3).exp() * stall
            })
            .sum();
        f64::from(ops) / seconds
    }

    /// Returns the shares of 10,000 comparisons, of five rounds of a few ops, that call the first candidate faster and
    /// slower. Its ops take `times` as long.
    fn verdicts_on_few_ops(ops: u32, times: f64) -> [f64; 2] {
        let mut random = SmallRng::seed_from_u64(11);
        let mut called = [0.0; 2];
        for _ in 0..10_000 {
            let mut rates =
                |times: f64| -> Vec<f64> { (0..5).map(|_| few_ops(&mut random, ops, times)).collect() };
            let (a, b) = (rates(times), rates(1.0));
            match verdict(&paired_ratio(&a, &b).unwrap()) {
                Verdict::Faster => called[0] += 1e-4,
                Verdict::Slower => called[1] += 1e-4,
                _ => {}
            }
        }
        called
    }

    #[test]
    fn five_rounds_of_few_ops_do_not_turn_an_order_round() {
        for ops in [1, 3, 20] {
            let [faster, slower] = verdicts_on_few_ops(ops, 1.0);
            let [wrong, right] = verdicts_on_few_ops(ops, 2.0);
            println!(
                "{ops} ops: equal candidates {:.1} % different; of twice the time {:.1} % the wrong way, {:.1} % the right",
                (faster + slower) * 100.0,
                wrong * 100.0,
                right * 100.0
            );
            assert!(faster + slower < 0.055 && wrong < 0.002, "{ops}: {faster} {slower} {wrong}");
        }
    }

    #[test]
    fn a_difference_of_ten_per_cent_is_found_with_noise_of_three() {
        let mut machine = Machine::new(Disturbance::None, 0.03);
        let found = (0..1000)
            .filter(|_| {
                let (a, b): (Vec<f64>, Vec<f64>) =
                    (0..5).map(|round| (machine.rate(round) / 1.1, machine.rate(round))).unzip();
                verdict(&paired_ratio(&a, &b).unwrap()) == Verdict::Slower
            })
            .count();
        assert!(found > 900, "{found}");
    }

    #[test]
    fn the_number_of_rounds_follows_from_the_first_ones() {
        let needed = |logs: [f64; 5]| rounds_needed(&[logs.to_vec()], 0.05, 20);
        assert_eq!(needed([0.0, 0.001, 0.0, -0.001, 0.0]), 5);
        assert_eq!(needed([0.0, 1.0, -1.0, 0.5, -0.5]), 20);
        let some = needed([0.0, 0.08, -0.06, 0.05, -0.07]);
        assert!((6..20).contains(&some), "{some}");
    }
}
