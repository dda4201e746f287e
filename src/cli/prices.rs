//! Prices and monthly loads as users write them, read and checked before anything else is done.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use jiff::civil::Date;
use toml::{Table, Value};

use crate::plan::{split_list, split_pair};
use crate::result::{MachinePrice, MonthlyLoad, Prices, Pricing, Rates};
use crate::stores;
use crate::suggest::{of_toml, of_toml_table, unknown};
use crate::units::{parse_bytes, parse_share};

/// Template of a price file, without prices.
pub const TEMPLATE: &str = include_str!("prices.toml");

const BYTES_MAX: u64 = 1_000_000;
/// Maximum value of a price, a load or a machine's size.
const MOST: f64 = 1e15;

/// Reads a price file and a monthly load, as of `today`.
pub fn pricing(file: &Path, load: &str, today: Date) -> Result<Pricing> {
    let load = monthly_load(load)?;
    let (prices, age_days) = dated(file, today)?;
    Ok(Pricing { load, prices, age_days })
}

/// Reads a price file, and returns the age of the prices in days.
pub fn dated(file: &Path, today: Date) -> Result<(Prices, u64)> {
    let name = file.display();
    let text = crate::input::read_text(file, BYTES_MAX)
        .with_context(|| format!("cannot read the prices `{name}`"))?;
    let (prices, date) = prices(&text).with_context(|| format!("the prices `{name}`"))?;
    let age_days = today.since(date).map_or(0, |age| age.get_days());
    ensure!(age_days >= 0, "the prices `{name}`: their `date` is {date}, and today is {today}");
    Ok((prices, age_days.unsigned_abs().into()))
}

fn prices(text: &str) -> Result<(Prices, Date)> {
    let mut table: Table = toml::from_str(text).map_err(|error| of_toml(text, &error))?;
    let Some(date) = table.remove("date") else {
        bail!("they have no `date`: write the day on which you looked them up, such as date = 2026-11-26");
    };
    let written = date.as_str().map_or_else(|| date.to_string(), str::to_owned);
    let date: Date =
        written.parse().map_err(|_detail| anyhow!("`date = {written}` is no day such as 2026-11-26"))?;
    let currency = match table.remove("currency") {
        None => String::new(),
        Some(Value::String(name)) if is_short_word(&name) => name,
        Some(other) => bail!("`currency = {other}` is no short word such as \"USD\""),
    };
    let mut store = BTreeMap::new();
    match table.remove("store") {
        None => {}
        Some(Value::Table(own)) => {
            for (name, own) in own {
                let adapter = name.split('[').next().unwrap_or_default();
                if stores::find(adapter).is_none() {
                    return Err(stores::unknown(adapter));
                }
                let Value::Table(own) = own else { bail!("`store.\"{name}\"` is no table of prices") };
                store.insert(name.clone(), rates(own).with_context(|| format!("`[store.\"{name}\"]`"))?);
            }
        }
        Some(_) => bail!("`store` is no table: write [store.\"NAME\"]"),
    }
    let rates = rates(table)?;
    let is_empty = |rates: &Rates| *rates == Rates { free_requests: rates.free_requests, ..Rates::default() };
    if is_empty(&rates) && store.values().all(is_empty) {
        bail!("there is no price in it: it needs one of `gb_month`, `per_million_requests` and `[machine]`");
    }
    Ok((Prices { date: date.to_string(), currency, rates, store }, date))
}

/// True for a word short enough to appear beside prices in tables and sentences.
fn is_short_word(name: &str) -> bool {
    !name.is_empty() && name.chars().count() <= 8 && !name.contains(|c: char| c.is_control() || c == '`')
}

/// Reads the prices in a table; integers are accepted as numbers.
fn rates(table: Table) -> Result<Rates> {
    let rates: Rates = table.try_into().map_err(|error| of_toml_table(&error))?;
    let plain = [
        ("gb_month", rates.gb_month),
        ("per_million_requests", rates.per_million_requests),
        ("free_requests", rates.free_requests),
    ];
    for (key, value) in plain {
        ensure!(
            value.is_none_or(|value| (0.0..=MOST).contains(&value)),
            below(key, value.unwrap_or_default())
        );
    }
    if let Some(MachinePrice { month, processors, memory_gb }) = rates.machine {
        ensure!((0.0..=MOST).contains(&month), below("machine.month", month));
        for (key, value) in [("machine.processors", processors), ("machine.memory_gb", memory_gb)] {
            ensure!(value > 0.0 && value <= MOST, "`{key} = {value}` is not above 0: no machine is without");
        }
    }
    Ok(rates)
}

fn below(key: &str, value: f64) -> String {
    format!("`{key} = {value}` is not between 0 and {MOST:e}")
}

const KEYS: [&str; 5] = ["reads", "writes", "stored", "growth", "cached"];

fn monthly_load(text: &str) -> Result<MonthlyLoad> {
    let mut load = MonthlyLoad::default();
    let mut seen = Vec::new();
    for pair in split_list(text) {
        let (key, value) = split_pair(&pair).context("--load")?;
        match key.as_str() {
            "reads" => load.reads = ops(&key, &value)?,
            "writes" => load.writes = ops(&key, &value)?,
            "stored" => load.stored_bytes = stored(&value)?,
            "growth" => load.growth = Some(percent(&key, &value)?),
            "cached" => load.cached = percent(&key, &value)?,
            _ => return Err(unknown("part of --load", &key, KEYS)),
        }
        ensure!(!seen.contains(&key), "--load: `{key}` is named twice");
        seen.push(key);
    }
    ensure!(load.stored_bytes > 0.0, "--load: `stored` is missing: write stored=500GB");
    ensure!(
        load.reads + load.writes > 0.0,
        "--load: `reads` and `writes` are missing; write reads=2e7 (a month)"
    );
    Ok(load)
}

fn ops(key: &str, value: &str) -> Result<f64> {
    match value.parse::<f64>() {
        Ok(ops) if (0.0..=MOST).contains(&ops) => Ok(ops),
        _ => bail!("--load: `{key}={value}` is no number of ops in a month such as 2e7"),
    }
}

fn stored(value: &str) -> Result<f64> {
    ensure!(
        !value.ends_with(|last: char| last.is_ascii_digit()),
        "--load: `stored={value}` has no unit: write stored={value}GB where GB are meant"
    );
    Ok(parse_bytes(value).context("--load")? as f64)
}

fn percent(key: &str, value: &str) -> Result<f64> {
    ensure!(value.ends_with('%'), "--load: `{key}={value}` has no per cent sign: write {key}={value}%");
    parse_share(value).with_context(|| format!("--load: `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: Date = Date::constant(2026, 11, 26);

    #[test]
    fn a_load_is_read_as_people_write_it() {
        let load = monthly_load("reads=2e7, writes=1e6,stored=500GB,growth=3%,cached=80%").unwrap();
        let wanted =
            MonthlyLoad { reads: 2e7, writes: 1e6, stored_bytes: 5e11, growth: Some(0.03), cached: 0.8 };
        assert_eq!(load, wanted);
        for (text, words) in [
            ("reads=1,stored=500", "`stored=500` has no unit"),
            ("reads=1,stored=1GB,growth=3", "`growth=3` has no per cent sign"),
            ("reads=many,stored=1GB", "`reads=many` is no number"),
            ("reads=-1,stored=1GB", "`reads=-1` is no number"),
            ("reads=1", "`stored` is missing"),
            ("stored=1GB", "`reads` and `writes` are missing"),
            ("reeds=1,stored=1GB", "did you mean `reads`?"),
            ("reads=1,reads=2,stored=1GB", "named twice"),
            ("reads", "not of the form"),
        ] {
            let error = format!("{:#}", monthly_load(text).unwrap_err());
            assert!(error.contains(words) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn prices_are_read_and_those_that_cannot_be_are_refused_in_a_line() {
        let text = "date = 2026-05-01\ncurrency = 'USD'\ngb_month = 0.08\nper_million_requests = 1\n\
                    [machine]\nmonth = 60\nprocessors = 2\nmemory_gb = 8\n[store.'sqlite[page_size=4096]']\ngb_month = 0.2";
        let (read, date) = prices(text).unwrap();
        assert_eq!(date, Date::constant(2026, 5, 1));
        let machine = MachinePrice { month: 60.0, processors: 2.0, memory_gb: 8.0 };
        let general = Rates {
            gb_month: Some(0.08),
            per_million_requests: Some(1.0),
            free_requests: None,
            machine: Some(machine),
        };
        assert_eq!(read.rates_for("sqlite", "sqlite"), general);
        assert_eq!(
            read.rates_for("sqlite", "sqlite[page_size=4096]"),
            Rates { gb_month: Some(0.2), ..general }
        );
        for (text, words) in [
            ("date = ", "line 1: "),
            ("gb_month = 1", "they have no `date`"),
            ("date = 'soon'\ngb_month = 1", "no day such as"),
            ("date = 2026-05-01", "there is no price in it"),
            ("date = 2026-05-01\ngb_mont = 1", "gb_mont"),
            ("date = 2026-05-01\ngb_month = -1", "`gb_month = -1` is not between 0"),
            ("date = 2026-05-01\ngb_month = 'much'", "string \"much\" is not a number"),
            (
                "date = 2026-05-01\n[machine]\nmonth = 1\nprocessors = 0\nmemory_gb = 1",
                "no machine is without",
            ),
            ("date = 2026-05-01\n[store.sqlit]\ngb_month = 1", "did you mean `sqlite`?"),
            ("date = 2026-05-01\ncurrency = 3\ngb_month = 1", "no short word"),
        ] {
            let error = format!("{:#}", prices(text).unwrap_err());
            assert!(error.contains(words) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn prices_have_an_age_and_none_are_of_tomorrow() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("prices.toml");
        let of = |date: &str| {
            std::fs::write(&file, format!("date = {date}\ngb_month = 1")).unwrap();
            pricing(&file, "reads=1,stored=1GB", TODAY)
        };
        assert_eq!(of("2026-05-30").unwrap().age_days, 180);
        assert_eq!(of("2026-11-26").unwrap().age_days, 0);
        assert!(of("2026-11-27").unwrap_err().to_string().contains("today is 2026-11-26"));
    }

    /// The template has every key, and no prices.
    #[test]
    fn the_template_is_prices_when_it_is_filled_in() {
        assert!(TEMPLATE.lines().all(|line| line.is_empty() || line.starts_with('#')));
        let uncovered = |line: &str| {
            let line = line.strip_prefix("# ")?;
            match line.strip_suffix(" =") {
                Some("date") => Some("date = 2026-11-26".to_owned()),
                Some(key) => Some(format!("{key} = 1")),
                None if line.starts_with('[') || line.starts_with("currency") => Some(line.to_owned()),
                None => None,
            }
        };
        let filled: Vec<String> = TEMPLATE.lines().filter_map(uncovered).collect();
        let (read, _) = prices(&filled.join("\n")).unwrap();
        let is_full = |rates: &Rates| {
            rates.gb_month.is_some() && rates.per_million_requests.is_some() && rates.free_requests.is_some()
        };
        assert!(is_full(&read.rates) && read.rates.machine.is_some() && read.store.len() == 1, "{read:?}");
    }
}
