//! Crossovers: sizes at which one candidate overtakes another.

use super::compare::{Series, compared};
use super::interval::{CONFIDENCE, Moments};
use crate::result::{Crossover, Verdict};

/// Rates of two candidates at one size of a sweep.
#[derive(Clone, Debug)]
pub struct SweepPoint<'s> {
    /// Central size, in bytes.
    pub bytes: u64,
    /// Rates of the first candidate.
    pub a: &'s Series,
    /// Rates of the second candidate.
    pub b: &'s Series,
}

/// Finds the crossovers of all pairs of candidates in a phase, where one is proved faster at a size and the other at a
/// larger one. `pairs` has a list of points per pair, in ascending order of size. Every pair is tested at every size,
/// so the confidence of each test is raised until all hold simultaneously with 95 % (Bonferroni); otherwise some pair
/// of equal candidates would cross by chance.
pub fn crossovers(phase: &str, pairs: &[Vec<SweepPoint<'_>>]) -> Vec<Crossover> {
    let looks: usize = pairs.iter().map(Vec::len).sum();
    let confidence = 1.0 - (1.0 - CONFIDENCE) / looks.max(1) as f64;
    pairs.iter().flat_map(|points| of_pair(phase, points, confidence)).collect()
}

fn of_pair(phase: &str, points: &[SweepPoint<'_>], confidence: f64) -> Vec<Crossover> {
    let mut found = Vec::new();
    let proved: Vec<(usize, &SweepPoint<'_>, Verdict)> = points
        .iter()
        .enumerate()
        .filter_map(|(index, point)| Some((index, point, compared(point.a, point.b, confidence)?.1)))
        .filter(|(_, _, verdict)| matches!(verdict, Verdict::Faster | Verdict::Slower))
        .collect();
    for pair in proved.windows(2) {
        let [(from, low, below), (to, high, above)] = pair else { continue };
        if below == above {
            continue;
        }
        let (below, above) = if *below == Verdict::Faster {
            (&low.a.label, &low.b.label)
        } else {
            (&low.b.label, &low.a.label)
        };
        found.push(Crossover {
            phase: phase.to_owned(),
            below: below.clone(),
            above: above.clone(),
            bytes: interpolated(&points[*from..=*to]).unwrap_or(low.bytes).clamp(low.bytes, high.bytes),
            low: low.bytes,
            high: high.bytes,
        });
    }
    found
}

/// Interpolates the size at which the ratio is 1, linearly in the logarithms of ratio and size, for each round; returns
/// the mean over the rounds that cross 1.
fn interpolated(points: &[SweepPoint<'_>]) -> Option<u64> {
    let mut crossings = Vec::new();
    for round in points.first()?.a.rates.keys() {
        let curve: Vec<(f64, f64)> = points
            .iter()
            .filter_map(|point| {
                let ratio = point.a.rates.get(round)? / point.b.rates.get(round)?;
                // The age of a freshly filled store, 0, has no logarithm.
                Some(((point.bytes.max(1) as f64).ln(), ratio.ln()))
            })
            .collect();
        let crossing = curve.windows(2).find(|pair| pair[0].1.signum() != pair[1].1.signum());
        if let Some([(x0, y0), (x1, y1)]) = crossing {
            crossings.push(x0 + (x1 - x0) * y0 / (y0 - y1));
        }
    }
    Some(Moments::from_values(&crossings)?.mean.exp().round() as u64)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    fn series(label: &str, rates: &[f64]) -> Series {
        Series { label: label.into(), rates: (1..).zip(rates.iter().copied()).collect(), slack: 0.0 }
    }

    #[test]
    fn a_crossover_lies_between_two_proofs() {
        let sizes = [1_000, 10_000, 100_000];
        let a = [
            series("a", &[200.0, 201.0, 199.0]),
            series("a", &[101.0, 99.0, 100.0]),
            series("a", &[50.0, 50.5, 49.5]),
        ];
        let b = series("b", &[100.0, 100.5, 99.5]);
        let points: Vec<SweepPoint<'_>> =
            sizes.iter().zip(&a).map(|(bytes, a)| SweepPoint { bytes: *bytes, a, b: &b }).collect();
        let middle = compared(points[1].a, points[1].b, CONFIDENCE).unwrap().1;
        assert_ne!(middle, Verdict::Faster);
        let found = crossovers("read-warm", &[points]);
        assert_eq!(found.len(), 1);
        let crossover = &found[0];
        assert_eq!((crossover.below.as_str(), crossover.above.as_str()), ("a", "b"));
        assert_eq!((crossover.low, crossover.high), (1_000, 100_000));
        assert!((9_000..11_000).contains(&crossover.bytes), "{crossover:?}");
    }

    #[test]
    fn without_two_proofs_there_is_none() {
        let b = series("b", &[100.0, 100.5, 99.5]);
        let fast = series("a", &[200.0, 201.0, 199.0]);
        let points = [1_000, 10_000].map(|bytes| SweepPoint { bytes, a: &fast, b: &b });
        assert!(crossovers("read-warm", &[points.into()]).is_empty());
    }

    #[test]
    fn among_many_candidates_few_cross_by_chance() {
        // Worst case: half of the candidates are faster at the smaller size, and all are equal at the larger one.
        const CANDIDATES: usize = 16;
        let mut random = SmallRng::seed_from_u64(7);
        let mut rates = |level: f64| -> Vec<f64> {
            let noise = || -> f64 { StandardNormal.sample(&mut random) };
            std::iter::repeat_with(noise).take(10).map(|noise| level * (0.1 * noise).exp()).collect()
        };
        let wrong = (0..200).filter(|_| {
            let small: Vec<Series> = (0..CANDIDATES)
                .map(|candidate| {
                    series(
                        &candidate.to_string(),
                        &rates(if candidate < CANDIDATES / 2 { 200.0 } else { 100.0 }),
                    )
                })
                .collect();
            let large: Vec<Series> =
                (0..CANDIDATES).map(|candidate| series(&candidate.to_string(), &rates(10.0))).collect();
            let pairs: Vec<Vec<SweepPoint<'_>>> = (0..CANDIDATES)
                .flat_map(|a| (a + 1..CANDIDATES).map(move |b| (a, b)))
                .map(|(a, b)| {
                    [(1_000, &small), (10_000, &large)]
                        .map(|(bytes, candidates)| SweepPoint { bytes, a: &candidates[a], b: &candidates[b] })
                        .into()
                })
                .collect();
            !crossovers("read-warm", &pairs).is_empty()
        });
        let wrong = wrong.count();
        assert!(wrong <= 10, "{wrong} of 200 runs have a crossover that is none");
    }
}
