//! Selection of candidates by store, or by store and settings.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail, ensure};

use crate::redact::without_passwords;
use crate::store::COMMON;
use crate::units::parse_bytes;

/// `sqlite` selects every candidate of the store, `sqlite[page_size=4096]` those with this setting, by default or not.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    text: String,
    store: String,
    /// Values as written.
    options: BTreeMap<String, String>,
}

impl Selector {
    /// Parses a selector. `absent` holds the labels of candidates that the plan declares as unavailable; such a label is taken as
    /// a whole. Whether the store and the options exist is checked where candidates are built.
    pub(super) fn parse(text: &str, absent: &BTreeMap<String, String>) -> Result<Selector> {
        let (store, options) =
            if absent.contains_key(text) { (text, BTreeMap::new()) } else { split_label(text)? };
        Ok(Selector { text: text.to_owned(), store: store.to_owned(), options })
    }

    /// True if it selects a candidate of this store with these settings.
    pub(super) fn fits(&self, store: &str, options: &BTreeMap<String, String>) -> bool {
        // Common options are only present if they were set.
        let usual = |name: &str| COMMON.iter().find(|spec| spec.name == name).map(|spec| spec.default);
        let value_of = |name: &str| options.get(name).map(String::as_str).or_else(|| usual(name));
        store == self.store
            && self.options.iter().all(|(name, value)| is_same(value_of(name).unwrap_or_default(), value))
    }

    /// True if it selects a candidate that cannot run here, whose settings are known only as far as its label states them.
    pub(super) fn names(&self, label: &str, store: &str) -> bool {
        if label == self.text {
            return true;
        }
        let Ok((_, known)) = split_label(label) else { return false };
        store == self.store
            && self
                .options
                .iter()
                .all(|(name, value)| known.get(name).is_none_or(|known| is_same(known, value)))
    }
}

/// True if two values of a setting are equal, as text, as numbers or as sizes.
fn is_same(one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse().ok().or_else(|| parse_bytes(text).ok().map(|bytes| bytes as f64));
    one == other || number(one).is_some_and(|one: f64| number(other) == Some(one))
}

/// Splits a list at commas outside brackets.
pub fn split_list(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let mut parts = vec![String::new()];
    for c in text.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth <= 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Checks a flag that lists names. Fails if it names nothing: the default would be taken in its place.
pub fn some_names(text: &str) -> Result<String> {
    ensure!(!split_list(text).is_empty(), "it names nothing; leave the flag out");
    Ok(text.to_owned())
}

/// Splits `name[option=value,...]` into the name and the options.
pub fn split_label(label: &str) -> Result<(&str, BTreeMap<String, String>)> {
    let Some((name, rest)) = label.split_once('[') else { return Ok((label.trim(), BTreeMap::new())) };
    let inner = rest
        .strip_suffix(']')
        .ok_or_else(|| anyhow!("`{}` lacks its closing bracket", without_passwords(label)))?;
    let mut options = BTreeMap::new();
    for pair in split_list(inner) {
        let (option, value) = split_pair(&pair)?;
        if options.insert(option, value).is_some() {
            bail!("`{}` sets an option twice", without_passwords(label));
        }
    }
    Ok((name.trim(), options))
}

/// Splits `name=value`.
pub fn split_pair(pair: &str) -> Result<(String, String)> {
    let (name, value) = pair
        .split_once('=')
        .ok_or_else(|| anyhow!("`{}` is not of the form name=value", without_passwords(pair)))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_same_however_it_is_written() {
        for (one, other) in [("8192", "8KiB"), ("8KiB", "8192"), ("20", "20.0"), ("0.5", "0.50"), ("a", "a")]
        {
            assert!(is_same(one, other), "{one} {other}");
        }
        for (one, other) in [("8192", "8kB"), ("20", "2.0"), ("a", "b"), ("", "0"), ("on", "1")] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn lists_are_split_outside_brackets_only() {
        assert_eq!(split_list("a,b[c=1,d=2], e"), ["a", "b[c=1,d=2]", "e"]);
        assert!(split_label("a[b=1,c=2]").is_ok() && split_label("a[b=1,b=2]").is_err());
        assert_eq!(some_names("a,b,").unwrap(), "a,b,");
        for nothing in ["", ",", " , "] {
            assert!(some_names(nothing).is_err(), "{nothing}");
        }
    }
}
