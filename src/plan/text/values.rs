//! Values of a plan that are more than a number: how they are written, and within which limits.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::split_pair;
use crate::names::unknown;
use crate::units::{parse_bytes, parse_duration};

/// A response time that a share of the ops must stay below.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseLimit {
    /// The share, such as 0.99.
    pub share: f64,
    /// Nanoseconds.
    pub ns: u64,
}

impl ResponseLimit {
    /// As in reports: `response p99`.
    pub fn name(&self) -> String {
        format!("response p{}", (self.share * 1e4).round() / 100.0)
    }
}

impl std::str::FromStr for ResponseLimit {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<ResponseLimit> {
        const KNOWN: &[(&str, f64)] = &[("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
        let (name, time) =
            split_pair(text).map_err(|_error| anyhow!("`--limit {text}` is not of the form p99=50ms"))?;
        let share = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, share)| *share);
        let share = share.ok_or_else(|| unknown("percentile", &name, KNOWN.iter().map(|(name, _)| *name)))?;
        let time = parse_duration(&time).with_context(|| format!("`--limit {text}`"))?;
        if time.is_zero() {
            bail!("`--limit {text}`: no op takes no time");
        }
        Ok(ResponseLimit { share, ns: time.as_nanos() as u64 })
    }
}

/// Memory for a store's own cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheSize {
    /// Bytes.
    Bytes(u64),
    /// Times the bytes of the corpus: a plan that is scaled down keeps its shape.
    OfCorpus(f64),
}

impl Default for CacheSize {
    fn default() -> CacheSize {
        CacheSize::Bytes(64 << 20)
    }
}

impl CacheSize {
    pub(super) fn parse(text: &str) -> Result<CacheSize> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            return Ok(CacheSize::Bytes(parse_bytes(text).context("`cache`")?));
        };
        match percent.trim_end().parse::<f64>() {
            Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(CacheSize::OfCorpus(percent / 100.0)),
            _ => bail!(
                "`cache`: `{text}` is neither a size such as 64MiB nor a part of the corpus such as 150%"
            ),
        }
    }

    /// Bytes of it beside a corpus of so many bytes.
    pub fn bytes(self, corpus_bytes: u64) -> u64 {
        match self {
            CacheSize::Bytes(bytes) => bytes,
            CacheSize::OfCorpus(times) => (corpus_bytes as f64 * times) as u64,
        }
    }
}

impl std::fmt::Display for CacheSize {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            CacheSize::Bytes(bytes) => write!(to, "{bytes}"),
            CacheSize::OfCorpus(times) => write!(to, "{}%", times * 100.0),
        }
    }
}

pub(super) fn at_most(flag: &str, value: usize, max: usize) -> Result<usize> {
    if value == 0 || value > max {
        bail!("`{flag} {value}` is not between 1 and {max}");
    }
    Ok(value)
}

pub(super) fn positive_rate(flag: &str, rate: f64) -> Result<f64> {
    if !(rate.is_finite() && rate > 0.0 && rate <= 1e8) {
        bail!("`{flag} {rate}` is not between 0 and 100000000 ops a second");
    }
    Ok(rate)
}

pub(super) fn bytes_or(key: &str, text: &Option<String>, default: u64) -> Result<u64> {
    text.as_deref()
        .map(parse_bytes)
        .transpose()
        .with_context(|| format!("`{key}`"))
        .map(|bytes| bytes.unwrap_or(default))
}

pub(super) fn duration_or(key: &str, text: &Option<String>, default: Duration) -> Result<Duration> {
    let duration = text.as_deref().map(parse_duration).transpose().with_context(|| format!("`{key}`"))?;
    match duration {
        Some(duration) if duration.is_zero() => bail!("`{key}` must be above 0"),
        duration => Ok(duration.unwrap_or(default)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_has_bytes_or_a_part_of_the_corpus() {
        let cache = |text: &str| CacheSize::parse(text).unwrap();
        assert_eq!(CacheSize::default().bytes(1000), 64 << 20);
        assert_eq!(cache("1kB").bytes(1), 1000);
        assert_eq!(cache("150 %").bytes(1000), 1500);
        assert_eq!(cache(&cache("150%").to_string()), CacheSize::OfCorpus(1.5));
    }
}
