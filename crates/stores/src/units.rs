//! Parses and formats sizes, durations, shares and counts.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

/// Parses a size such as `4096`, `64kB`, `1.5MB` or `256KiB` into bytes.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let trimmed = text.trim();
    // `.1MB` is what a range with three dots ends in.
    let begins = trimmed.starts_with(|first: char| first.is_ascii_digit());
    let size = trimmed.parse::<bytesize::ByteSize>().ok().filter(|_| begins);
    let size = size.ok_or_else(|| anyhow!("`{text}` is not a size such as 4096, 64kB or 256KiB"))?;
    Ok(size.as_u64())
}

/// Limit on durations: longer than any run, and safe to add to any time.
const LONGEST: jiff::SignedDuration = jiff::SignedDuration::from_hours(366 * 24);

/// Parses a duration such as `90s`, `2m` or `1h30m`.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let trimmed = text.trim();
    if !trimmed.is_empty() && trimmed.chars().all(|letter| letter.is_ascii_digit()) {
        bail!("`{trimmed}` has no unit: {trimmed}s are seconds, {trimmed}m minutes, {trimmed}h hours");
    }
    // The library's message names units that are irrelevant here.
    let parsed: Result<jiff::SignedDuration, _> = trimmed.parse();
    let duration =
        parsed.map_err(|_library| anyhow!("`{text}` is not a duration such as 500ms, 90s, 2m or 1h30m"))?;
    if duration.is_negative() {
        bail!("`{text}` is negative");
    }
    if duration > LONGEST {
        bail!("`{text}` is more than a year");
    }
    Ok(duration.unsigned_abs())
}

/// Parses a share such as `5%` or `0.05`.
pub fn parse_share(text: &str) -> Result<f64> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text.trim(), 1.0),
    };
    let Ok(share) = number.parse::<f64>() else { bail!("`{text}` is not a share such as 5% or 0.05") };
    match share / scale {
        within if (0.0..=1.0).contains(&within) => Ok(within),
        percent if scale == 1.0 && (1.0..=100.0).contains(&percent) => {
            bail!("`{text}` is more than the whole; in per cent it is `{number}%`")
        }
        _ => bail!("`{text}` is not between 0% and 100%"),
    }
}

/// Formats a share as in a flag, to a hundredth of a per cent: `5%`, `2.5%`.
pub fn share(share: f64) -> String {
    format!("{}%", (share * 1e4).round() / 1e2)
}

/// Formats a share for people, to a hundredth of a per cent: `5 %`, `2.5 %`.
pub fn exact_percent(value: f64) -> String {
    share(value).replace('%', " %")
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats a size for people: `0 B`, `3.7 kB`, `32 MB`. Decimal units, as disks and networks are sold.
pub fn bytes(value: f64) -> String {
    scaled(value, &["B", "kB", "MB", "GB", "TB"])
}

/// Formats a size as people type it, without rounding, so that [`parse_bytes`] returns the same number: 4,096 is `4KiB`, 10,000
/// is `10kB`.
pub fn typed_bytes(value: u64) -> String {
    const UNITS: &[(u64, &str)] = &[
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "kB"),
    ];
    let whole = UNITS.iter().find(|(unit, _)| value > 0 && value.is_multiple_of(*unit));
    whole.map_or_else(|| value.to_string(), |(unit, name)| format!("{}{name}", value / unit))
}

/// Formats a count for people: `400`, `58.2k`, `1.35M`.
pub fn count(value: f64) -> String {
    scaled(value, &["", "k", "M", "G"]).replace(' ', "")
}

/// Formats a share for people: `0 %`, `1.4 %`, `63 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 + 0.0 {
        percent if percent > 0.0 && percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Drops values that occurred before, keeping the order.
pub fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct: Vec<T> = Vec::new();
    for value in all {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// Groups values by key, without duplicates, in the order of first occurrence.
pub fn grouped<K: PartialEq, V: PartialEq>(all: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in all {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Joins words as `a, b and c`; `joint` is the word before the last one.
pub fn listed(words: &[String], joint: &str) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {joint} {last}", first.join(", ")),
    }
}

/// Formats a number of things in the singular or plural: `1 round`, `10 rounds`.
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, thing: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Formats a duration in nanoseconds for people: `61 ns`, `17 µs`, `3.4 ms`, `1.2 s`.
pub fn nanoseconds(value: f64) -> String {
    scaled(value, &["ns", "µs", "ms", "s"])
}

/// Formats a duration in seconds for people: `8 s`, `1 min 35 s`, `2 h 05 min`.
pub fn seconds(value: f64) -> String {
    let whole = value.round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Formats an age in seconds for people, in days from two days on.
pub fn age(value: f64) -> String {
    const DAY: f64 = 86_400.0;
    if value < 2.0 * DAY { seconds(value) } else { format!("{:.0} days", value / DAY) }
}

/// Formats three significant digits with the largest unit that keeps the number at 1 or above.
fn scaled(value: f64, units: &[&str]) -> String {
    // An empty sum of floats is -0, which would show its sign.
    let mut value = value + 0.0;
    let mut unit = 0;
    while value.abs() >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 && value.fract() == 0.0 || value.abs() >= 99.95 {
        0
    } else if value.abs() >= 9.995 {
        1
    } else {
        2
    };
    let number = format!("{value:.digits$}");
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { &number };
    format!("{number} {}", units[unit]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_nothing_is_0() {
        let nothing = Vec::<f64>::new().iter().sum::<f64>();
        assert_eq!([bytes(nothing), count(nothing), percent(nothing)], ["0 B", "0", "0 %"]);
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("64kB", 64_000), ("256KiB", 262_144), ("1.5MB", 1_500_000)]
        {
            assert_eq!(parse_bytes(text).unwrap(), bytes, "{text}");
        }
        assert!(parse_bytes("-5").is_err());
        assert!(parse_bytes(".1MB").is_err());
        assert!(parse_bytes("many").is_err());
    }

    #[test]
    fn typed_sizes_are_read_as_what_they_are() {
        let typed = [0, 1, 4096, 10_000, 261_120, 67_108_864, 1 << 40, 2_000_001];
        let shown = ["0", "1", "4KiB", "10kB", "255KiB", "64MiB", "1TiB", "2000001"];
        assert_eq!(typed.map(typed_bytes), shown);
        assert_eq!(shown.map(|text| parse_bytes(text).unwrap()), typed);
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!(
            [counted(0_usize, "round"), counted(1_u32, "round"), counted(10_u64, "round")],
            ["0 rounds", "1 round", "10 rounds"]
        );
    }

    #[test]
    fn durations_and_shares_are_read_as_people_write_them() {
        assert_eq!(parse_duration("2m").unwrap(), Duration::from_secs(120));
        assert_eq!(parse_duration("1h30m").unwrap(), Duration::from_secs(5400));
        assert!(parse_duration("-1s").is_err());
        assert!(parse_duration("9999999999999h").unwrap_err().to_string().contains("more than a year"));
        assert_eq!(parse_share("5%").unwrap(), 0.05);
        assert!(parse_share("120%").unwrap_err().to_string().contains("is not between 0% and 100%"));
        assert!(parse_share("5").unwrap_err().to_string().contains("in per cent it is `5%`"));
    }

    #[test]
    fn numbers_are_shown_with_three_digits() {
        for (value, text) in
            [(0.0, "0 B"), (999.0, "999 B"), (999.6, "1 kB"), (3_660.0, "3.66 kB"), (32e6, "32 MB")]
        {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(count(58_234.0), "58.2k");
        assert_eq!([0.0, 0.014, 0.633, 1.0].map(percent), ["0 %", "1.4 %", "63 %", "100 %"]);
        assert_eq!(nanoseconds(61.4), "61.4 ns");
        assert_eq!(nanoseconds(17_040.0), "17 µs");
        assert_eq!(seconds(95.0), "1 min 35 s");
    }
}
