//! Parsers for values of a plan that are more than a plain number, and their limits.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::split_pair;
use crate::rules::SCALED_MEMORY_MIN;
use crate::store::{DeviceLimit, FILLED_MAX};
use crate::units::{parse_bytes, parse_duration, parse_share};

/// A response time that a share of the ops must not exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseLimit {
    /// Share of ops, such as 0.99.
    pub share: f64,
    /// Response time in nanoseconds.
    pub ns: u64,
}

impl ResponseLimit {
    /// Name in reports: `response p99`.
    pub fn name(&self) -> String {
        format!("response p{}", (self.share * 1e4).round() / 100.0)
    }
}

impl std::str::FromStr for ResponseLimit {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<ResponseLimit> {
        const KNOWN: &[(&str, f64)] = &[("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
        let (name, time) =
            split_pair(text).map_err(|_error| anyhow!("--limit: `{text}` is not of the form p99=50ms"))?;
        let share = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, share)| *share);
        let share =
            share.ok_or_else(|| anyhow!("--limit: `{text}`: the percentiles are p50, p90, p99 and p99.9"))?;
        let time = parse_duration(&time).with_context(|| format!("--limit: `{text}`"))?;
        if time.is_zero() {
            bail!("--limit: `{text}`: no op takes no time");
        }
        Ok(ResponseLimit { share, ns: time.as_nanos() as u64 })
    }
}

/// An amount of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemorySize {
    /// Absolute size in bytes.
    Bytes(u64),
    /// Multiple of the corpus size, so that a scaled-down plan keeps its proportions.
    OfCorpus(f64),
}

impl MemorySize {
    /// Parses the value of `key`: `64MiB`, or `25%` of the corpus.
    pub fn parse(key: &str, text: &str) -> Result<MemorySize> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            return Ok(MemorySize::Bytes(parse_bytes(text).with_context(|| key.to_owned())?));
        };
        match percent.trim_end().parse::<f64>() {
            Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(MemorySize::OfCorpus(percent / 100.0)),
            _ => {
                bail!("{key}: `{text}` is neither a size such as 64MiB nor a part of the corpus such as 150%")
            }
        }
    }

    /// Like [`MemorySize::parse`], but for a limit, which must be a page or more.
    pub fn parse_limit(key: &str, text: &str) -> Result<MemorySize> {
        /// The kernel limits pages.
        const PAGE_BYTES: u64 = 4096;
        let size = MemorySize::parse(key, text)?;
        if size.bytes(1 << 40) < PAGE_BYTES {
            bail!(
                "{key}: `{text}` is less than a page of memory, 4KiB; give a size such as 64MiB, or a part of the corpus such as 25%"
            );
        }
        Ok(size)
    }

    /// Parses the memory limit of a plan; `None` for `none`. Limits in bytes shrink with `scale`, down to a minimum.
    pub(super) fn of_plan(text: &str, scale: f64) -> Result<Option<MemorySize>> {
        if text.trim() == "none" {
            return Ok(None);
        }
        Ok(Some(match MemorySize::parse_limit("--memory", text)? {
            MemorySize::Bytes(bytes) if scale < 1.0 => {
                let scaled = (bytes as f64 * scale) as u64;
                MemorySize::Bytes(scaled.max(SCALED_MEMORY_MIN.min(bytes)))
            }
            size => size,
        }))
    }

    /// Size in bytes for a corpus of `corpus_bytes`.
    pub fn bytes(self, corpus_bytes: u64) -> u64 {
        match self {
            MemorySize::Bytes(bytes) => bytes,
            MemorySize::OfCorpus(times) => (corpus_bytes as f64 * times) as u64,
        }
    }
}

impl std::fmt::Display for MemorySize {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            MemorySize::Bytes(bytes) => write!(to, "{bytes}"),
            MemorySize::OfCorpus(times) => write!(to, "{}%", times * 100.0),
        }
    }
}

/// Parses a throughput limit of a device: `20MB/s,200iops`, or one of the two.
pub fn device_limit(text: &str) -> Result<DeviceLimit> {
    let mut limit = DeviceLimit { bytes: None, requests: None };
    for part in text.split(',').map(str::trim) {
        let (bytes, requests) = (part.strip_suffix("/s"), part.strip_suffix("iops"));
        let found = match (bytes, requests) {
            (Some(bytes), _) => (parse_bytes(bytes).ok(), &mut limit.bytes),
            (_, Some(requests)) => (requests.trim_end().parse().ok(), &mut limit.requests),
            _ => (None, &mut limit.bytes),
        };
        match found {
            (Some(most @ 1..), place @ None) => *place = Some(most),
            _ => bail!("--device-limit: `{text}` is not of the form 20MB/s,200iops, or one of both"),
        }
    }
    Ok(limit)
}

/// Like [`device_limit`], but accepts `none`.
pub(super) fn device_limit_or_none(text: &str) -> Result<Option<DeviceLimit>> {
    if text == "none" { Ok(None) } else { device_limit(text).map(Some) }
}

/// Parses the share to which a file system is filled before it is used.
pub fn fill_share(text: &str) -> Result<f64> {
    let most = f64::from(FILLED_MAX) / 100.0;
    match parse_share(text).with_context(|| format!("--fill: `{text}`"))? {
        share if (0.0..=most).contains(&share) => Ok(share),
        _ => bail!(
            "--fill: `{text}`: a file system is filled to 0% to {FILLED_MAX}%, so that there is room to measure in"
        ),
    }
}

/// Parses a memory sweep: percentages of the corpus, largest first, from a range (`400%..10%`) or a list (`100%,50%,25%`). Each
/// step of a range is about 0.7 times the previous one.
pub(super) fn memory_shares(text: &str) -> Result<Vec<f64>> {
    const WITHIN: std::ops::RangeInclusive<f64> = 1.0..=1000.0;
    let percent = |text: &str| -> Result<f64> {
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
        match number {
            Some(number) if WITHIN.contains(&number) => Ok(number),
            _ => bail!("--memory-sweep: `{text}`: a share of the corpus is from 1% to 1000%, such as 25%"),
        }
    };
    let mut shares = match text.split_once("..") {
        None => text.split(',').map(percent).collect::<Result<Vec<f64>>>()?,
        Some((from, to)) => {
            let (from, to) = (percent(from)?, percent(to)?);
            let (low, high) = (from.min(to), from.max(to));
            let steps = ((high / low).log2() * 2.0).round().max(1.0);
            let at = |step: f64| high * (low / high).powf(step / steps);
            (0..=steps as u32).map(|step| rounded(at(f64::from(step)))).collect()
        }
    };
    shares.sort_by(|a, b| b.total_cmp(a));
    shares.dedup();
    if shares.len() < 2 {
        bail!("--memory-sweep: `{text}`: one share shows no change; give two or more, such as 400%..10%");
    }
    Ok(shares)
}

/// Rounds a percentage to two significant digits.
fn rounded(percent: f64) -> f64 {
    let digit = 10_f64.powf(percent.log10().floor() - 1.0);
    ((percent / digit).round() * digit * 100.0).round() / 100.0
}

/// Parser of a path in a flag. Plans and results store paths as text.
pub fn text_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|path| match path.into_string() {
        Ok(path) if path.is_empty() => Err("it is empty; `.` is the current directory"),
        Ok(path) => Ok(PathBuf::from(path)),
        Err(_name) => Err("its name is not UTF-8, and results keep it as text"),
    })
}

/// Parses the speed of a replay: `1` for the times of the log, `10` for ten times as fast, or `max`, which is infinite.
pub(super) fn parse_speed(flag: &str, text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        _ if text == "max" => Ok(f64::INFINITY),
        Ok(speed) if (0.001..=1e6).contains(&speed) => Ok(speed),
        _ => bail!("{flag}: `{text}` is neither `max` nor a factor from 0.001 to 1000000, such as 1 or 10"),
    }
}

/// Fails if a flag is given with one of `others`, which have the names of flags or keys and whether they are given.
pub(super) fn check_excluded(flag: &str, others: &[(&str, bool)]) -> Result<()> {
    match others.iter().find(|(_, is_given)| *is_given) {
        Some((other, _)) => bail!("{flag}: cannot be used with {other}; leave out one of them"),
        None => Ok(()),
    }
}

pub(super) fn at_most(flag: &str, value: usize, max: usize) -> Result<usize> {
    if value == 0 || value > max {
        bail!("{flag}: `{value}` is not between 1 and {max}");
    }
    Ok(value)
}

pub(super) fn positive_rate(flag: &str, rate: f64) -> Result<f64> {
    if !(0.001..=1e8).contains(&rate) {
        bail!("{flag}: `{rate}` is not between 0.001 and 100000000 ops a second");
    }
    Ok(rate)
}

pub(super) fn bytes_or(key: &str, text: &Option<String>, default: u64) -> Result<u64> {
    text.as_deref()
        .map(parse_bytes)
        .transpose()
        .with_context(|| key.to_owned())
        .map(|bytes| bytes.unwrap_or(default))
}

pub(super) fn duration_or(key: &str, text: &Option<String>, default: Duration) -> Result<Duration> {
    let Some(text) = text else { return Ok(default) };
    let duration = parse_duration(text).with_context(|| key.to_owned())?;
    ensure!(!duration.is_zero(), "{key}: `{text}` must be above 0");
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_memory_are_a_range_or_a_list() {
        let range = [400.0, 280.0, 200.0, 140.0, 98.0, 69.0, 49.0, 34.0, 24.0, 17.0, 12.0];
        assert_eq!(memory_shares("400%..12%").unwrap(), range);
        assert_eq!(memory_shares("12%..400%").unwrap(), range);
        assert_eq!(memory_shares("50%, 100%,50%").unwrap(), [100.0, 50.0]);
        for wrong in ["", "25%", "25%,25%", "0%..10%", "10..20%", "5000%..1%"] {
            assert!(memory_shares(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_limit_of_devices_is_bytes_requests_or_both() {
        let limit = |text: &str| device_limit(text).map(|limit| (limit.bytes, limit.requests)).ok();
        assert_eq!(limit("20MB/s"), Some((Some(20_000_000), None)));
        assert_eq!(limit("200iops"), Some((None, Some(200))));
        assert_eq!(limit("200 iops, 1MiB/s"), Some((Some(1 << 20), Some(200))));
        for wrong in ["", "20MB", "200", "0iops", "0B/s", "1MB/s,2MB/s", "x/s", "1MB/s,"] {
            assert_eq!(limit(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_file_system_is_filled_so_that_there_is_room_left() {
        assert_eq!((fill_share("50%").ok(), fill_share("0.9").ok()), (Some(0.5), Some(0.9)));
        for wrong in ["91%", "-1%", "x", ""] {
            assert!(fill_share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_amount_of_memory_is_bytes_or_a_part_of_the_corpus() {
        let cache = |text: &str| MemorySize::parse("cache", text).unwrap();
        assert_eq!(cache("1kB").bytes(1), 1000);
        assert_eq!(cache("150 %").bytes(1000), 1500);
        assert_eq!(cache(&cache("150%").to_string()), MemorySize::OfCorpus(1.5));
    }
}
