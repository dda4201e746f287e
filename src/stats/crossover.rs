//! Sizes at which the winner changes.

use std::collections::BTreeMap;

use super::compare::Series;
use super::interval::Moments;
use crate::result::{Crossover, Verdict};

/// What two rows did at one size of a sweep.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    /// The centre of the sizes.
    pub bytes: u64,
    /// The first row.
    pub a: &'a Series,
    /// The second row.
    pub b: &'a Series,
    /// What the first is to the second.
    pub verdict: Verdict,
}

/// Where one row is proved to be faster at a size and the other at a larger one. `points` are in the order of sizes.
pub fn crossovers(phase: &str, points: &[Point<'_>]) -> Vec<Crossover> {
    let mut found = Vec::new();
    let proved: Vec<(usize, &Point)> = points
        .iter()
        .enumerate()
        .filter(|(_, point)| matches!(point.verdict, Verdict::Faster | Verdict::Slower))
        .collect();
    for pair in proved.windows(2) {
        let [(from, low), (to, high)] = pair else { continue };
        if low.verdict == high.verdict {
            continue;
        }
        let (below, above) = if low.verdict == Verdict::Faster {
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

/// The size at which the logarithm of the ratio is 0, by straight lines over the logarithm of sizes, in each round; the
/// mean over rounds in which it crosses 0.
fn interpolated(points: &[Point<'_>]) -> Option<u64> {
    let mut crossings = Vec::new();
    for round in points.first()?.a.rates.keys() {
        let curve: Vec<(f64, f64)> = points
            .iter()
            .filter_map(|point| {
                let ratio = point.a.rates.get(round)? / point.b.rates.get(round)?;
                Some(((point.bytes as f64).ln(), ratio.ln()))
            })
            .collect();
        let crossing = curve.windows(2).find(|pair| pair[0].1.signum() != pair[1].1.signum());
        if let Some([(x0, y0), (x1, y1)]) = crossing {
            crossings.push(x0 + (x1 - x0) * y0 / (y0 - y1));
        }
    }
    Some(Moments::of(&crossings)?.mean.exp().round() as u64)
}

/// Sizes between which the fastest of two rows is open: neighbours without a proof.
pub fn undecided(points: &[Point<'_>]) -> Option<(u64, u64)> {
    let open: BTreeMap<u64, Verdict> = points
        .iter()
        .filter(|point| matches!(point.verdict, Verdict::CannotTellApart | Verdict::NotRanked))
        .map(|point| (point.bytes, point.verdict))
        .collect();
    Some((*open.keys().next()?, *open.keys().next_back()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::compare::with_reference;

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
        let points: Vec<Point> = sizes
            .iter()
            .zip(&a)
            .map(|(bytes, a)| Point { bytes: *bytes, a, b: &b, verdict: with_reference(a, &b).unwrap().1 })
            .collect();
        assert_ne!(points[1].verdict, Verdict::Faster);
        let found = crossovers("read-warm", &points);
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
        let points = [1_000, 10_000].map(|bytes| Point { bytes, a: &fast, b: &b, verdict: Verdict::Faster });
        assert!(crossovers("read-warm", &points).is_empty());
        assert_eq!(undecided(&points), None);
    }
}
