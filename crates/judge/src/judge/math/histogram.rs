//! Histograms of times, which are merged and never averaged.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use super::interval::rate;
use crate::result::{PercentileIntervals, Percentiles};
pub use crate::rules::OPS_BEYOND_PERCENTILE_MIN;

/// Times in nanoseconds, from 1 ns to 1 h with three significant digits. With 32-bit counters one takes 135 kB, so that
/// 64 workers with a histogram per size band stay below 60 MB.
pub type Histogram = hdrhistogram::Histogram<u32>;

/// Longest distinguishable time in nanoseconds: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Printed percentiles, as the share of ops that took no longer.
pub const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Size bands: decades, so that readers know their bounds.
pub const BANDS: [&str; 6] = ["0-1 kB", "1-10 kB", "10-100 kB", "100 kB-1 MB", "1-10 MB", "over 10 MB"];

/// Returns the index of a blob's size band.
pub fn band_of(bytes: u64) -> usize {
    match bytes {
        0..1_000 => 0,
        1_000..10_000 => 1,
        10_000..100_000 => 2,
        100_000..1_000_000 => 3,
        1_000_000..10_000_000 => 4,
        _ => 5,
    }
}

/// Returns an empty histogram.
#[expect(clippy::expect_used, reason = "the bounds are constants that the library accepts, as a test shows")]
pub fn new() -> Histogram {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("1 ns to 1 h with 3 digits is a valid histogram")
}

/// Adds the ops of `more` to `all`.
pub fn add(all: &mut Histogram, more: &Histogram) {
    // Both have the same bounds, so no value is out of range.
    all.add(more).ok();
}

/// Encodes a histogram for the result file: compressed HdrHistogram V2 in base64.
pub fn encode(histogram: &Histogram) -> Result<String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| anyhow::anyhow!("cannot write a histogram: {error}"))?;
    Ok(BASE64.encode(bytes))
}

/// Decodes a histogram of a result file; fails if the text is too long or damaged.
pub fn decode(text: &str) -> Result<Histogram> {
    // A histogram with 34,000 different counters takes half of this; without a limit a small text could expand to
    // gigabytes.
    const TEXT_BYTES_MAX: usize = 512 << 10;
    ensure!(text.len() <= TEXT_BYTES_MAX, "a histogram of {} B is too large", text.len());
    let bytes = BASE64.decode(text).context("a histogram is not base64")?;
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| anyhow::anyhow!("a histogram is damaged: {error}"))
}

/// Merges encoded histograms, such as the size bands of a round, into one.
pub fn whole<'t>(texts: impl IntoIterator<Item = &'t String>) -> Result<Histogram> {
    let mut all = new();
    for text in texts {
        add(&mut all, &decode(text)?);
    }
    Ok(all)
}

/// Returns the time that this share of ops did not exceed; `None` with fewer than 10 ops beyond it.
pub fn percentile(histogram: &Histogram, share: f64) -> Option<u64> {
    let beyond = histogram.len() as f64 * (1.0 - share);
    (beyond >= OPS_BEYOND_PERCENTILE_MIN - 1e-9).then(|| histogram.value_at_quantile(share))
}

/// Times of the same ops in several rounds, each by itself and merged with equal weights.
pub struct RoundTimes {
    rounds: Vec<Histogram>,
    merged: Histogram,
}

impl RoundTimes {
    /// Decodes the histograms of each round, such as those of its size bands, and merges the rounds.
    pub fn decode<'t, R: IntoIterator<Item = &'t String>>(
        rounds: impl IntoIterator<Item = R>,
    ) -> Result<RoundTimes> {
        let rounds: Vec<Histogram> = rounds.into_iter().map(whole).collect::<Result<_>>()?;
        let merged = merge_equally(&rounds);
        Ok(RoundTimes { rounds, merged })
    }

    /// Returns the number of ops in all rounds.
    pub fn ops(&self) -> u64 {
        self.rounds.iter().map(Histogram::len).sum()
    }

    /// Returns the sum of all times in nanoseconds.
    pub fn total_ns(&self) -> f64 {
        self.rounds.iter().map(|round| round.mean() * round.len() as f64).sum()
    }

    /// Returns the mean time of each round in nanoseconds.
    pub fn means_ns(&self) -> Vec<f64> {
        self.rounds.iter().map(Histogram::mean).collect()
    }

    /// Returns percentiles of the merged rounds; each is present only if every round has 10 ops beyond it.
    pub fn percentiles(&self) -> Percentiles {
        let given = |share: f64| {
            let everywhere = self.rounds.iter().all(|round| percentile(round, share).is_some());
            (everywhere && !self.rounds.is_empty()).then(|| self.merged.value_at_quantile(share))
        };
        let [p50, p90, p99, p999] = SHARES.map(given);
        // Merging scales a round of more than a million ops down, and a single op may be rounded away.
        let max = self.rounds.iter().filter(|round| !round.is_empty()).map(Histogram::max).max();
        Percentiles { p50, p90, p99, p999, max }
    }

    /// Returns confidence intervals of percentiles, from their values in each round.
    pub fn intervals(&self) -> PercentileIntervals {
        let [p50, p90, p99, p999] = SHARES.map(|share| {
            let of_round = |round| percentile(round, share).map(|time| time as f64);
            rate(&self.rounds.iter().map(of_round).collect::<Option<Vec<f64>>>()?)
        });
        PercentileIntervals { p50, p90, p99, p999 }
    }

    /// Returns the percentile curve as pairs of share and time, densely enough to plot, up to the last share with 10
    /// ops beyond it in every round.
    pub fn curve(&self) -> Vec<(f64, u64)> {
        let fewest = self.rounds.iter().map(Histogram::len).min().unwrap_or(0) as f64;
        let mut shares: Vec<f64> = (1..20).map(|step| f64::from(step) * 0.05).collect();
        let mut rest = 0.05;
        while rest > 1e-7 {
            rest /= 1.584_893_192_461_113_5; // five points a decade
            shares.push(1.0 - rest);
        }
        shares
            .into_iter()
            .filter(|share| fewest * (1.0 - share) >= OPS_BEYOND_PERCENTILE_MIN)
            .map(|share| (share, self.merged.value_at_quantile(share)))
            .collect()
    }
}

/// Merges rounds with equal weight, whatever their number of ops, by scaling all of them to the same total.
fn merge_equally(rounds: &[Histogram]) -> Histogram {
    let mut merged = new();
    let Some(most) = rounds.iter().map(Histogram::len).filter(|len| *len > 0).max() else { return merged };
    // A million ops per round are more than enough for the printed percentiles.
    let target = most.clamp(100_000, 1_000_000) as f64;
    for round in rounds.iter().filter(|round| !round.is_empty()) {
        let scale = target / round.len() as f64;
        let mut before = 0.0;
        let mut placed = 0;
        for value in round.iter_recorded() {
            before += value.count_since_last_iteration() as f64 * scale;
            let count = before.round() as u64 - placed;
            placed += count;
            // The value comes from a histogram with the same bounds.
            merged.record_n(value.value_iterated_to(), count as u32).ok();
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_gives_the_histogram_back() {
        let mut histogram = new();
        for time in [1, 50, 1_000, 123_456_789, LONGEST_NS] {
            histogram.record(time).unwrap();
        }
        assert_eq!(decode(&encode(&histogram).unwrap()).unwrap(), histogram);
        assert!(decode("AAAA").is_err());
        assert!(decode(&"A".repeat(1 << 20)).unwrap_err().to_string().contains("too large"));
    }

    #[test]
    fn a_percentile_needs_ten_ops_beyond_it() {
        let mut histogram = new();
        histogram.record_n(100, 990).unwrap();
        assert_eq!(percentile(&histogram, 0.99), None);
        histogram.record_n(500, 10).unwrap();
        assert_eq!(percentile(&histogram, 0.99), Some(100));
        assert_eq!(percentile(&histogram, 0.999), None);
    }

    #[test]
    fn the_longest_op_is_kept_however_many_others_there_are() {
        let mut round = new();
        round.record_n(100, 3_999_999).unwrap();
        round.record(5_000).unwrap();
        let merged = merge_equally(std::slice::from_ref(&round));
        let times = RoundTimes { rounds: vec![round], merged };
        assert!(times.percentiles().max.is_some_and(|max| max >= 5_000), "{:?}", times.percentiles());
    }

    #[test]
    fn rounds_count_equally_whatever_their_number_of_ops() {
        let (mut few, mut many) = (new(), new());
        few.record_n(1_000, 100).unwrap();
        many.record_n(10, 1_000_000).unwrap();
        let merged = merge_equally(&[few, many]);
        let below = merged.count_between(0, 100) as f64 / merged.len() as f64;
        assert!((below - 0.5).abs() < 0.001, "{below}");
    }
}
