//! Power of comparisons between two runs: the smallest fall of a rate that would have been detected.
//!
//! A fall is detected if the whole interval of new over old lies below the threshold. The variance between rounds
//! determines how far below it the true ratio must lie. That variance is estimated from a few rounds, in the run that
//! states its power and in the run that is to detect the fall. Both uncertainties are taken into account, so that the
//! stated power holds on average over runs.

use std::cell::RefCell;
use std::collections::BTreeMap;

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

use super::compare::Series;
use super::interval::{CONFIDENCE, Moments, t_two_sided};

/// Fall that a comparison should detect, and with which power.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectionTarget {
    /// Share by which a rate must fall, with its whole interval, to count as detected.
    threshold: f64,
    /// Power used in the calculation, as a share of runs.
    power: f64,
    /// Logarithm of the number of standard errors that the true ratio must lie beyond the threshold, by degrees of
    /// freedom.
    errors: Vec<(f64, f64)>,
    /// Cache of that number (not its logarithm) for two runs with different numbers of rounds and equal variance.
    unequal: RefCell<BTreeMap<[u32; 2], f64>>,
    /// True if the runs measured alternately, round by round.
    in_turn: bool,
}

/// Degrees of freedom that `errors` is calculated for; values in between are interpolated.
const DEGREES: [f64; 14] = [1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 30.0, 1e5];

impl DetectionTarget {
    /// Detects, in this share of runs, rates that fall by more than the threshold with their whole interval.
    pub fn new(threshold: f64, power: f64) -> DetectionTarget {
        // Welch's degrees of freedom are estimates, too, which the table ignores. Reducing the misses by a sixth
        // compensates for that; by the simulation below, this suffices up to a power of 90 %.
        let power = power + (1.0 - power) / 6.0;
        let errors = |degrees: f64| (degrees, errors_beyond(power, degrees, degrees).ln());
        let errors = DEGREES.into_iter().map(errors).collect();
        DetectionTarget { threshold, power, errors, unequal: RefCell::default(), in_turn: false }
    }

    /// Switches to runs that measured alternately, in which the ratio of each round varies.
    pub fn in_turn(self) -> DetectionTarget {
        DetectionTarget { in_turn: true, ..self }
    }

    /// Returns the smallest fall, as a share of the old rate, that is detected with this power given the variance in
    /// these two runs; `None` if one of them has a single round.
    pub fn smallest_fall(&self, old: &Series, new: &Series) -> Option<f64> {
        if self.in_turn {
            return new.ratio_to(old).filter(|apart| apart.degrees > 0.0).map(|apart| self.fall(&apart));
        }
        let (old, new) = (old.moments()?, new.moments()?);
        let apart = new.less(&old);
        (apart.degrees > 0.0).then(|| self.fall(&apart).max(self.fall_if_alike(&new, &old)))
    }

    /// Returns how many rounds both runs need to detect a fall, given their variance: at least `VERDICT_ROUNDS`, at
    /// most `most`. `None` if these do not suffice or the variance is unknown.
    pub fn rounds_for(&self, fall: f64, old: &Series, new: &Series, most: u32) -> Option<u32> {
        // In alternating runs only one quantity varies: the ratio of each round.
        let known =
            if self.in_turn { vec![new.ratio_to(old)?] } else { vec![new.moments()?, old.moments()?] };
        if known.iter().any(|moments| moments.degrees < 1.0) {
            return None;
        }
        let with = |rounds: u32| {
            let of = |moments: &Moments| {
                let error = moments.error * ((moments.degrees + 1.0) / f64::from(rounds)).sqrt();
                Moments { error, degrees: f64::from(rounds) - 1.0, ..*moments }
            };
            let apart = known.iter().map(of).reduce(|new, old| new.less(&old));
            apart.is_some_and(|apart| self.fall(&apart) <= fall)
        };
        let (mut less, mut enough) = (crate::rules::VERDICT_ROUNDS - 1, most);
        if !with(enough) {
            return None;
        }
        while enough - less > 1 {
            let middle = less.midpoint(enough);
            if with(middle) { enough = middle } else { less = middle }
        }
        Some(enough)
    }

    /// Returns the smallest detectable fall if both runs have the same variance but different numbers of rounds; 0 if
    /// their numbers of rounds are equal. A run with fewer rounds may have a small variance by chance; then Welch's
    /// error and degrees of freedom look better than they will in the next run. The larger of the two falls is
    /// reported.
    fn fall_if_alike(&self, new: &Moments, old: &Moments) -> f64 {
        let Some(pooled) = pooled(new, old).filter(|_| (new.degrees - old.degrees).abs() > 0.5) else {
            return 0.0;
        };
        // All rounds together determine this variance, although Welch's interval is to detect the fall.
        let beyond = || errors_beyond(self.power, new.degrees + old.degrees, pooled.degrees);
        let rounds = [new, old].map(|moments| moments.degrees.round() as u32);
        let errors = *self.unequal.borrow_mut().entry(rounds).or_insert_with(beyond);
        self.fall_by(errors, &pooled)
    }

    /// Returns the smallest detectable fall for a difference of logarithms with this error.
    fn fall(&self, difference: &Moments) -> f64 {
        self.fall_by(self.errors_at(difference.degrees).exp(), difference)
    }

    /// Returns the fall that lies this many standard errors beyond the threshold. The measured ratio may be too high by
    /// the slack, and its interval is wider by the slack again.
    fn fall_by(&self, errors: f64, difference: &Moments) -> f64 {
        1.0 - (1.0 - self.threshold) * (-errors * difference.error - 2.0 * difference.slack).exp()
    }

    /// Interpolates linearly in the reciprocal of the degrees of freedom, as is usual for t tables.
    fn errors_at(&self, degrees: f64) -> f64 {
        let above = self.errors.partition_point(|(known, _)| *known < degrees);
        let (Some(low), Some(high)) = (self.errors.get(above.wrapping_sub(1)), self.errors.get(above)) else {
            let nearest = if above == 0 { self.errors.first() } else { self.errors.last() };
            return nearest.map_or(f64::INFINITY, |(_, errors)| *errors);
        };
        let part = (1.0 / low.0 - 1.0 / degrees) / (1.0 / low.0 - 1.0 / high.0);
        low.1 + part * (high.1 - low.1)
    }
}

/// Returns the difference of two runs assuming equal variance, with the degrees of freedom that Welch's interval has in
/// that case. With equal numbers of rounds its error equals Welch's.
fn pooled(new: &Moments, old: &Moments) -> Option<Moments> {
    if new.degrees < 1.0 || old.degrees < 1.0 {
        return None;
    }
    let rounds = [new, old].map(|moments| moments.degrees + 1.0);
    let squares = new.error.powi(2) * rounds[0] * new.degrees + old.error.powi(2) * rounds[1] * old.degrees;
    let parts = rounds.map(|rounds| 1.0 / rounds);
    let variance = squares / (new.degrees + old.degrees) * (parts[0] + parts[1]);
    let degrees =
        (parts[0] + parts[1]).powi(2) / (parts[0].powi(2) / new.degrees + parts[1].powi(2) / old.degrees);
    Some(Moments { error: variance.sqrt(), degrees, ..new.less(old) })
}

/// Number of equally likely points that approximate a distribution.
const NODES: usize = 32;

/// Returns how many standard errors beyond a bound the true value must lie for an interval to lie beyond it in this
/// share of runs. The errors of the run that states this and of the run that is to detect it are both estimates, with
/// these degrees of freedom.
fn errors_beyond(power: f64, said: f64, finding: f64) -> f64 {
    let t = t_two_sided(CONFIDENCE, finding);
    let (Some(said), Some(finding)) = (estimates(said), estimates(finding)) else { return f64::INFINITY };
    let Ok(normal) = Normal::new(0.0, 1.0) else { return f64::INFINITY };
    let found = |errors: f64| {
        let each = said.iter().flat_map(|said| finding.iter().map(move |finding| (said, finding)));
        let sum: f64 = each.map(|(said, finding)| normal.cdf(errors * said - t * finding)).sum();
        sum / (NODES * NODES) as f64
    };
    let (mut low, mut high) = (0.0, t);
    while found(high) < power && high < 1e6 {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..30 {
        let middle = f64::midpoint(low, high);
        if found(middle) < power { low = middle } else { high = middle }
    }
    high
}

/// Returns the ratio of the estimated to the true error at every node.
fn estimates(degrees: f64) -> Option<Vec<f64>> {
    let squares = ChiSquared::new(degrees).ok()?;
    let shares = (0..NODES).map(|node| (node as f64 + 0.5) / NODES as f64);
    Some(shares.map(|share| (squares.inverse_cdf(share) / degrees).sqrt()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::compare::{unpaired, with_reference};
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use rand_distr::{Distribution, StandardNormal};

    /// Returns a run of a candidate with this many rounds, and noise of this standard deviation (as a logarithm) around
    /// a level.
    fn run(random: &mut SmallRng, (rounds, sd): (u32, f64), level: f64) -> Series {
        let mut rate = || {
            let noise: f64 = StandardNormal.sample(random);
            level * (noise * sd).exp()
        };
        Series { label: "a".into(), rates: (1..=rounds).map(|round| (round, rate())).collect(), slack: 0.0 }
    }

    fn is_found(aim: &DetectionTarget, old: &Series, new: &Series) -> bool {
        unpaired(new, old).and_then(|ratio| ratio.high).is_some_and(|high| high < 1.0 - aim.threshold)
    }

    /// Returns the share of later comparisons that detect a fall; its logarithm is `times` that of the smallest fall
    /// that an earlier comparison with the same noise claims to detect.
    fn found(aim: &DetectionTarget, old: (u32, f64), new: (u32, f64), times: f64) -> f64 {
        const RUNS: u32 = 3000;
        let mut random = SmallRng::seed_from_u64(38);
        let seen = (0..RUNS).filter(|_| {
            let said = aim.smallest_fall(&run(&mut random, old, 1.0), &run(&mut random, new, 1.0)).unwrap();
            let fallen = ((1.0 - said).ln() * times).exp();
            let before = run(&mut random, old, 1.0);
            is_found(aim, &before, &run(&mut random, new, fallen))
        });
        seen.count() as f64 / f64::from(RUNS)
    }

    /// Rounds and noise of pairs of runs.
    const PAIRS: [((u32, f64), (u32, f64)); 8] = [
        ((5, 0.05), (5, 0.05)),
        ((12, 0.02), (12, 0.02)),
        ((3, 0.05), (8, 0.05)),
        ((3, 0.05), (12, 0.05)),
        ((12, 0.02), (3, 0.02)),
        ((5, 0.02), (5, 0.10)),
        ((20, 0.10), (5, 0.03)),
        ((3, 0.01), (3, 0.01)),
    ];

    #[test]
    fn in_turn_the_share_holds_whatever_both_meet() {
        const RUNS: u32 = 3000;
        let mut random = SmallRng::seed_from_u64(21);
        let aim = DetectionTarget::new(0.05, 0.8).in_turn();
        for (rounds, sd) in [(5, 0.05), (10, 0.02)] {
            let mut pair = |level: f64| {
                // The speed of the machine changes by a third from round to round.
                let both = run(&mut random, (rounds, 0.3), 1.0);
                let mut of = |level: f64| {
                    let mut own = run(&mut random, (rounds, sd), level);
                    own.rates.iter_mut().for_each(|(round, rate)| *rate *= both.rates[round]);
                    own
                };
                (of(1.0), of(level))
            };
            let seen = (0..RUNS).filter(|_| {
                let (old, new) = pair(1.0);
                let said = aim.smallest_fall(&old, &new).unwrap();
                let (old, new) = pair(1.0 - said * 1.001);
                with_reference(&new, &old).and_then(|(ratio, _)| ratio.high).is_some_and(|high| high < 0.95)
            });
            let share = seen.count() as f64 / f64::from(RUNS);
            assert!((0.79..0.88).contains(&share), "{rounds} rounds: {share}");
        }
    }

    #[test]
    fn a_fall_just_above_the_smallest_is_found_in_the_share_of_runs_that_is_said() {
        for power in [0.5, 0.8, 0.9] {
            for threshold in [0.0, 0.05] {
                let aim = DetectionTarget::new(threshold, power);
                for (old, new) in PAIRS {
                    let share = found(&aim, old, new, 1.001);
                    println!(
                        "power {power}, threshold {threshold}, {old:?}, {new:?}: {:.1} %",
                        share * 100.0
                    );
                    // With 3,000 runs the share is known to within 1.8 points at 50 %, and more precisely above.
                    assert!(share > power - 0.04 * (1.0 - power), "power {power}, {old:?}, {new:?}: {share}");
                }
            }
        }
    }

    #[test]
    fn a_comparison_does_not_claim_to_be_blinder_than_it_is() {
        let aim = DetectionTarget::new(0.0, 0.8);
        let alike = [((5, 0.05), (5, 0.05)), ((12, 0.02), (12, 0.02))];
        // With unequal rounds the larger of two falls is stated. If Welch's few degrees of freedom were used for the
        // variance of all rounds as well, it would be detected in 93.8 % of runs with 3 and 12 rounds, and in 96.1 %
        // with 2 and 12.
        let unequal = [((3, 0.05), (12, 0.05)), ((12, 0.05), (3, 0.05)), ((2, 0.03), (12, 0.03))];
        let alike = alike.map(|(old, new)| (old, new, [0.88, 0.5]));
        let unequal = unequal.map(|(old, new)| (old, new, [0.9, 0.75]));
        for (old, new, most) in alike.into_iter().chain(unequal) {
            let shares = [1.001, 0.5].map(|times| found(&aim, old, new, times));
            println!("{old:?}, {new:?}: found, and of half of it: {shares:?}");
            let [just, half] = shares;
            assert!(just < most[0] && half < most[1], "{old:?}, {new:?}: {just}, of half of it {half}");
        }
    }

    #[test]
    fn what_did_not_fall_is_found_in_at_most_one_of_forty_comparisons() {
        let mut random = SmallRng::seed_from_u64(7);
        for threshold in [0.0, 0.05] {
            let aim = DetectionTarget::new(threshold, 0.8);
            let found = (0..4000).filter(|_| {
                let old = run(&mut random, (5, 0.05), 1.0);
                is_found(&aim, &old, &run(&mut random, (5, 0.05), 1.0))
            });
            let found = found.count();
            assert!(found < 120, "{found} of 4000 at {threshold}");
        }
    }

    #[test]
    fn as_many_rounds_as_are_asked_for_find_the_fall() {
        let aim = DetectionTarget::new(0.05, 0.8);
        let mut random = SmallRng::seed_from_u64(1);
        let (old, new) = (run(&mut random, (40, 0.05), 1.0), run(&mut random, (40, 0.05), 1.0));
        let rounds = aim.rounds_for(0.12, &old, &new, 200).unwrap();
        assert!((7..30).contains(&rounds), "{rounds}");
        let share = {
            let found = (0..2000).filter(|_| {
                let old = run(&mut random, (rounds, 0.05), 1.0);
                is_found(&aim, &old, &run(&mut random, (rounds, 0.05), 0.88))
            });
            found.count() as f64 / 2000.0
        };
        assert!(share > 0.78, "{share} with {rounds} rounds");
        assert_eq!(
            aim.rounds_for(0.051, &old, &new, 200),
            None,
            "so little beyond the threshold takes too many"
        );
    }

    #[test]
    fn one_round_finds_nothing_and_a_ladder_nothing_below_its_step() {
        let aim = DetectionTarget::new(0.05, 0.8);
        let mut random = SmallRng::seed_from_u64(1);
        let (one, five) = (run(&mut random, (1, 0.01), 1.0), run(&mut random, (5, 0.01), 1.0));
        assert_eq!((aim.smallest_fall(&one, &five), aim.rounds_for(0.2, &one, &five, 99)), (None, None));
        let rung =
            Series { rates: (1..=5).map(|round| (round, 100.0)).collect(), slack: 1.25_f64.ln(), ..five };
        let fall = aim.smallest_fall(&rung, &rung).unwrap();
        assert!((fall - (1.0 - 0.95 / 1.25 / 1.25)).abs() < 1e-9, "{fall}");
    }
}
