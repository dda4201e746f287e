//! How unequally objects are read: the exponent of Zipf's law.

use std::cmp::Reverse;

use serde::Serialize;
use statrs::function::gamma::digamma;

/// How unequally objects are read.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Popularity {
    /// The exponent: an object of rank r has a share of the reads in proportion to r to the minus this. 0 is uniform.
    pub exponent: f64,
    /// Half of the range in which the exponent is, by chance (95 %) and by the order of objects that were read about equally often.
    pub error: f64,
    /// How many of the most read objects the fit is of.
    pub objects: u64,
    /// The most by which the fit is wrong about the share of these reads that the most read objects have, however many.
    pub misfit: f64,
}

/// Objects with fewer reads have no rank that means anything.
const READS_MIN: u32 = 20;
/// Objects that are fitted at most and at least.
const OBJECTS: (usize, usize) = (100_000, 10);
/// Exponent below which chance makes much of how reads differ, so that halves of them have to show what is left without it.
const COUNTED_FROM: f64 = 0.3;

/// Fits the exponent to the reads of each object, each divided into two by chance, of a sample of this share of all objects. `None` if
/// there are too few objects that are read often.
pub fn fit(reads: &[(u32, u32)], share: f64) -> Option<Popularity> {
    let ranked = of_ranks(reads, share)?;
    let counted = if share < 1.0 { of_counts(reads, share) } else { None };
    Some(counted.filter(|of| of.exponent >= COUNTED_FROM).unwrap_or(ranked))
}

/// Fits the exponent to the reads of each rank.
///
/// Objects sorted by their reads seem more unequal than they are, because chance is sorted with them; objects sorted by one half of
/// their reads and counted by the other seem less unequal. The exponent is in the middle.
fn of_ranks(reads: &[(u32, u32)], share: f64) -> Option<Popularity> {
    let pairs = |of: fn(&(u32, u32)) -> (u32, u32)| reads.iter().map(of).collect::<Vec<_>>();
    let whole = Ranked::new(pairs(|(a, b)| (a + b, a + b)), READS_MIN, share)?;
    let halves = [pairs(|(a, b)| (*a, *b)), pairs(|(a, b)| (*b, *a))];
    let halves = halves.map(|pairs| Ranked::new(pairs, READS_MIN / 2, share).map(|ranked| ranked.exponent()));
    let [Some(one), Some(other)] = halves else { return None };
    let (sorted, divided) = (whole.exponent(), (one + other) / 2.0);
    let exponent = ((sorted + divided) / 2.0).max(0.0);
    let error = (sorted - divided).abs() / 2.0 + 2.0 * whole.standard_error(exponent);
    Some(Popularity { exponent, error, objects: whole.counts.len() as u64, misfit: whole.misfit(exponent) })
}

/// Fits the exponent to how many objects have how many reads, which is the same in a sample. Ranks are not: which of the hottest
/// objects are in the sample decides those of all others, and the hottest have the most reads to be fitted.
///
/// By Zipf's law, objects with a rate above x are in proportion to x to the minus a, and a is 1 / exponent. Reads are a Poisson number
/// with that rate, so that a count of k, among those from m on, has the chance a Γ(k - a) Γ(m) / (Γ(k + 1) Γ(m - a)). Of the greatest
/// likelihood is the exponent that is the mean of ψ(k - a) - ψ(m - a): the estimator of Hill (1975), with the chance of reads.
fn of_counts(reads: &[(u32, u32)], share: f64) -> Option<Popularity> {
    let mut counts: Vec<u32> = reads.iter().map(|(a, b)| a + b).collect();
    counts.sort_unstable_by_key(|count| Reverse(*count));
    // The law ends at the least read object, whose chance would be taken for more such objects. Half of the reads that a rank needs
    // are enough.
    let most = OBJECTS.0.min(counts.len() / 4);
    let reads_min = (*counts.get(most.checked_sub(1)?)?).max(READS_MIN / 2);
    counts.retain(|count| *count >= reads_min);
    let predicted = |exponent: f64| excess(&counts, reads_min, exponent);
    // At 0.2, a is half of the least that m can be.
    let exponent = bisected(0.2, 8.0, |exponent| predicted(exponent).0 > exponent);
    let ((mean, variance), step) = (predicted(exponent), exponent / 100.0);
    let slope = (predicted(exponent + step).0 - mean) / step - 1.0;
    let error = 2.0 * (variance / counts.len() as f64).sqrt() / slope.abs();
    let ranked = Ranked::new(counts.iter().map(|count| (*count, *count)).collect(), reads_min, share)?;
    Some(Popularity { exponent, error, objects: counts.len() as u64, misfit: ranked.misfit(exponent) })
}

/// The number between two up to which a condition holds.
fn bisected(mut low: f64, mut high: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if is_below(middle) { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Mean and variance of the logarithm of an object's rate, above that of the least read one, that its reads and an exponent predict.
fn excess(counts: &[u32], reads_min: u32, exponent: f64) -> (f64, f64) {
    let least = digamma(f64::from(reads_min) - 1.0 / exponent);
    let (mut sum, mut squares) = (0.0, 0.0);
    for count in counts {
        let above = digamma(f64::from(*count) - 1.0 / exponent) - least;
        sum += above;
        squares += above * above;
    }
    let mean = sum / counts.len() as f64;
    (mean, (squares / counts.len() as f64 - mean * mean).max(0.0))
}

/// The most read objects: logarithms of their ranks, and their reads.
struct Ranked {
    ranks: Vec<f64>,
    counts: Vec<f64>,
}

impl Ranked {
    /// Sorts by the first of each pair, from `reads_min` on, and counts by the second.
    fn new(mut pairs: Vec<(u32, u32)>, reads_min: u32, share: f64) -> Option<Ranked> {
        pairs.retain(|(by, _)| *by >= reads_min);
        pairs.sort_unstable_by_key(|(by, _)| Reverse(*by));
        pairs.truncate(OBJECTS.0);
        // In a sample the rank of an object is uncertain by as many objects as were left out between two.
        let skipped = if share < 1.0 { 10 } else { 0 };
        let rank = |place: usize| ((place as f64 + 0.5) / share + 0.5).ln();
        let counts: Vec<f64> = pairs.iter().skip(skipped).map(|(_, count)| f64::from(*count)).collect();
        let ranks = (skipped..pairs.len()).map(rank).collect();
        (counts.len() >= OBJECTS.1 && counts.iter().sum::<f64>() > 0.0).then_some(Ranked { ranks, counts })
    }

    /// The exponent of the greatest likelihood: the mean logarithm of ranks is what it predicts.
    fn exponent(&self) -> f64 {
        let reads: f64 = self.counts.iter().sum();
        let is: f64 =
            self.ranks.iter().zip(&self.counts).map(|(rank, count)| rank * count).sum::<f64>() / reads;
        // A larger exponent predicts a smaller mean.
        bisected(-2.0, 8.0, |exponent| self.moments(exponent).0 > is)
    }

    /// Reads of the object with this logarithm of its rank that an exponent predicts, over those of the first.
    fn weight(&self, rank: f64, exponent: f64) -> f64 {
        (-exponent * (rank - self.ranks[0])).exp()
    }

    /// Mean and variance of the logarithm of ranks that an exponent predicts.
    fn moments(&self, exponent: f64) -> (f64, f64) {
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for rank in &self.ranks {
            let weight = self.weight(*rank, exponent);
            sum += weight;
            first += weight * rank;
            second += weight * rank * rank;
        }
        let mean = first / sum;
        (mean, (second / sum - mean * mean).max(0.0))
    }

    fn standard_error(&self, exponent: f64) -> f64 {
        let reads: f64 = self.counts.iter().sum();
        1.0 / (reads * self.moments(exponent).1.max(1e-12)).sqrt()
    }

    /// Largest difference between the shares of reads that ranks have, and should have.
    fn misfit(&self, exponent: f64) -> f64 {
        let weights: Vec<f64> = self.ranks.iter().map(|rank| self.weight(*rank, exponent)).collect();
        let (reads, weight): (f64, f64) = (self.counts.iter().sum(), weights.iter().sum());
        let (mut is, mut should, mut most) = (0.0, 0.0, 0.0_f64);
        for (count, expected) in self.counts.iter().zip(&weights) {
            is += count / reads;
            should += expected / weight;
            most = most.max((is - should).abs());
        }
        most
    }
}
