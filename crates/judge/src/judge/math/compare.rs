//! Comparisons within one phase: with the plan's reference, with the best, and the choice of leaders.

use std::collections::BTreeMap;

use super::interval::{CONFIDENCE, Moments, is_wide, t_two_sided, verdict};
use crate::result::{Interval, Verdict};

/// Rates of a candidate by round.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Label of the candidate.
    pub label: String,
    /// Rate of each round.
    pub rates: BTreeMap<u32, f64>,
    /// Logarithm by which the true rate may exceed the measured one in every round: the step of a ladder, otherwise 0.
    pub slack: f64,
}

impl Series {
    /// Returns the mean logarithm of the ratio to `other`, over the rounds that both have.
    pub fn ratio_to(&self, other: &Series) -> Option<Moments> {
        Some(Moments { slack: self.slack.max(other.slack), ..Moments::from_values(&self.logs_over(other))? })
    }

    /// Returns the logarithm of the ratio to `other` for each round that both have.
    pub fn logs_over(&self, other: &Series) -> Vec<f64> {
        self.rates.iter().filter_map(|(round, rate)| Some((rate / other.rates.get(round)?).ln())).collect()
    }

    /// Returns the mean logarithm of its own rates.
    pub fn moments(&self) -> Option<Moments> {
        let logs: Vec<f64> = self.rates.values().map(|rate| rate.ln()).collect();
        Some(Moments { slack: self.slack, ..Moments::from_values(&logs)? })
    }

    fn mean(&self) -> f64 {
        self.moments().map_or(f64::NEG_INFINITY, |moments| moments.mean)
    }
}

/// Returns the ratio of a candidate to a reference chosen in advance, with its verdict.
pub fn with_reference(candidate: &Series, reference: &Series) -> Option<(Interval, Verdict)> {
    compared(candidate, reference, CONFIDENCE)
}

/// Returns the ratio of two candidates with an interval of this confidence (0 to 1), and its verdict.
pub fn compared(candidate: &Series, other: &Series, confidence: f64) -> Option<(Interval, Verdict)> {
    let moments = candidate.ratio_to(other)?;
    let interval = moments.exp_interval(confidence);
    Some((interval, verdict(&interval)))
}

/// Returns the ratio of a candidate's rates in two runs, unpaired (Welch).
pub fn unpaired(new: &Series, old: &Series) -> Option<Interval> {
    let moments = new.moments()?.less(&old.moments()?);
    Some(moments.exp_interval(CONFIDENCE))
}

/// Comparison of candidates with the best of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// Candidate with the highest rate.
    pub best: String,
    /// Candidates that no other is proved faster than, and those proved equal to the best.
    pub leaders: Vec<String>,
    /// Ratio of every other candidate to the best, with intervals that hold simultaneously.
    pub ratios: BTreeMap<String, (Interval, Verdict)>,
}

impl Ranking {
    /// True if the interval of a candidate's ratio to the best is wide, as in [`is_wide`].
    pub fn is_wide(&self, label: &str) -> bool {
        self.ratios.get(label).is_some_and(|(ratio, _)| is_wide(ratio))
    }
}

/// Ranks candidates. The best one is known only after measuring, so each is compared with all others (Edwards and Hsu's
/// comparisons with the best, with Bonferroni's bound instead of equal variances). With 95 % confidence all intervals
/// between the truly best candidate and the others hold simultaneously. Then that candidate is among the leaders, and a
/// candidate that leads alone is the best and is faster by at least what its intervals state. One-sided bounds, as in
/// Hsu's first procedure, would suffice for the first property but not for the second.
pub fn rank(candidates: &[Series]) -> Option<Ranking> {
    let best = candidates.iter().max_by(|a, b| a.mean().total_cmp(&b.mean()))?;
    let others = (candidates.len() - 1).max(1) as f64;
    let confidence = 1.0 - (1.0 - CONFIDENCE) / others;
    let t = |degrees: f64| t_two_sided(confidence, degrees);
    let mut ranking = Ranking { best: best.label.clone(), leaders: Vec::new(), ratios: BTreeMap::new() };
    for candidate in candidates {
        let beaten = candidates.iter().filter(|other| other.label != candidate.label).any(|other| {
            other.ratio_to(candidate).is_some_and(|moments| {
                let low = moments.mean - t(moments.degrees) * moments.error - moments.slack;
                moments.degrees > 0.0 && low > 0.0
            })
        });
        let mut equal = false;
        if candidate.label != best.label
            && let Some(moments) = candidate.ratio_to(best)
        {
            let interval = moments.exp_interval(confidence);
            let verdict = verdict(&interval);
            equal = verdict == Verdict::Equal;
            ranking.ratios.insert(candidate.label.clone(), (interval, verdict));
        }
        // A difference that is proved to be small does not matter for a choice.
        if !beaten || equal {
            ranking.leaders.push(candidate.label.clone());
        }
    }
    Some(ranking)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use rand_distr::{Distribution, StandardNormal};

    fn series(label: &str, rates: &[f64]) -> Series {
        Series { label: label.into(), rates: (1..).zip(rates.iter().copied()).collect(), slack: 0.0 }
    }

    #[test]
    fn a_clear_winner_leads_alone() {
        let candidates = [
            series("slow", &[10.0, 10.1, 9.9, 10.0, 10.05]),
            series("fast", &[20.0, 20.1, 19.9, 20.0, 20.2]),
            series("middle", &[15.0, 15.1, 14.9, 15.0, 15.1]),
        ];
        let ranking = rank(&candidates).unwrap();
        assert_eq!((ranking.best.as_str(), ranking.leaders.as_slice()), ("fast", &["fast".to_owned()][..]));
        let (ratio, verdict) = ranking.ratios["slow"];
        assert!((ratio.median - 0.5).abs() < 0.01);
        assert_eq!(verdict, Verdict::Slower);
    }

    #[test]
    fn rungs_of_a_ladder_are_no_closer_than_its_step() {
        let on = |label: &str, rung: f64| Series { slack: 1.25_f64.ln(), ..series(label, &[rung; 5]) };
        let of = |a: f64, b: f64| with_reference(&on("a", a), &on("b", b)).unwrap();
        // Each may be almost a rung faster than the other on the same rung, and only minimally faster on the next one.
        let (same, verdict) = of(100.0, 100.0);
        assert_eq!(verdict, Verdict::CannotTellApart);
        assert!((same.low.unwrap() - 0.8).abs() < 1e-9 && (same.high.unwrap() - 1.25).abs() < 1e-9);
        assert_eq!(of(100.0, 125.0).1, Verdict::CannotTellApart);
        assert_eq!(of(100.0, 156.25).1, Verdict::Slower);
        let ranking = rank(&[on("a", 156.25), on("b", 125.0), on("c", 100.0)]).unwrap();
        assert_eq!(ranking.leaders, ["a", "b"]);
    }

    #[test]
    fn a_winner_by_next_to_nothing_does_not_lead_alone() {
        let candidates = [
            series("a", &[100.0, 100.1, 99.9, 100.0, 100.05]),
            series("b", &[99.0, 99.1, 98.9, 99.0, 99.05]),
            series("c", &[90.0, 90.1, 89.9, 90.0, 90.1]),
        ];
        let ranking = rank(&candidates).unwrap();
        assert!(ranking.ratios["b"].0.high.unwrap() < 1.0, "it is slower: {ranking:?}");
        assert_eq!(ranking.leaders, ["a", "b"]);
    }

    #[test]
    fn candidates_that_cannot_be_told_apart_lead_together() {
        let candidates = [
            series("a", &[20.0, 22.0, 18.0, 21.0, 19.0]),
            series("b", &[21.0, 19.0, 20.0, 18.5, 22.0]),
            series("c", &[2.0, 2.1, 1.9, 2.0, 2.1]),
        ];
        assert_eq!(rank(&candidates).unwrap().leaders, ["a", "b"]);
    }

    #[test]
    fn rounds_are_paired_by_number() {
        let mut a = series("a", &[1.0, 2.0, 4.0]);
        let b = series("b", &[2.0, 4.0, 8.0]);
        a.rates.remove(&2);
        let (ratio, _) = with_reference(&a, &b).unwrap();
        assert!((ratio.median - 0.5).abs() < 1e-9);
        assert_eq!(a.logs_over(&b).len(), 2);
    }

    /// Returns the rates of candidates in five rounds, with these levels and noise.
    fn made_up(random: &mut SmallRng, candidates: &[(f64, f64)]) -> Vec<Series> {
        let mut rates = |level: f64, sd: f64| -> Vec<f64> {
            (0..5)
                .map(|_| {
                    let noise: f64 = StandardNormal.sample(random);
                    level * (noise * sd).exp()
                })
                .collect()
        };
        (0..)
            .zip(candidates)
            .map(|(candidate, (level, sd))| series(&format!("candidate {candidate}"), &rates(*level, *sd)))
            .collect()
    }

    #[test]
    fn one_of_two_equal_candidates_leads_alone_in_5_of_100_runs() {
        let mut random = SmallRng::seed_from_u64(5);
        let alone = (0..4000).filter(|_| {
            let ranking = rank(&made_up(&mut random, &[(1.0, 0.1), (1.0, 0.1)])).unwrap();
            ranking.leaders.len() == 1
        });
        let alone = alone.count();
        assert!((140..240).contains(&alone), "{alone} of 4000");
    }

    #[test]
    fn a_candidate_that_leads_alone_is_as_much_faster_as_is_said_in_95_of_100_runs() {
        // None of three candidates is best by much, so the one that seems best is often another.
        let levels = [(1.03, 0.03), (1.0, 0.03), (0.99, 0.03)];
        let mut random = SmallRng::seed_from_u64(4);
        let mut wrong = 0;
        for _ in 0..4000 {
            let ranking = rank(&made_up(&mut random, &levels)).unwrap();
            if let [alone] = ranking.leaders.as_slice() {
                let level = |label: &str| {
                    (0..)
                        .zip(levels)
                        .find(|(candidate, _)| label == format!("candidate {candidate}"))
                        .unwrap()
                        .1
                        .0
                };
                let too_much = |(label, (ratio, _)): (&String, &(Interval, Verdict))| {
                    level(label) / level(alone) > ratio.high.unwrap()
                };
                wrong += u32::from(ranking.ratios.iter().any(too_much));
            }
        }
        assert!(wrong < 200, "{wrong} of 4000");
    }

    #[test]
    fn the_truly_best_candidate_is_among_the_leaders_in_95_of_100_runs() {
        let mut random = SmallRng::seed_from_u64(3);
        let mut missed = 0;
        for _ in 0..2000 {
            // Candidate 0 is slightly better; noise differs between candidates.
            let candidates: Vec<(f64, f64)> = (0..8)
                .map(|candidate| {
                    (if candidate == 0 { 1.02 } else { 1.0 }, 0.02 + 0.01 * f64::from(candidate))
                })
                .collect();
            let candidates = made_up(&mut random, &candidates);
            missed += u32::from(!rank(&candidates).unwrap().leaders.contains(&"candidate 0".to_owned()));
        }
        assert!(missed < 100, "{missed} of 2000");
    }
}
