//! Which rows are meant by a name: those of a store, or those of it that have some settings.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::rows::{Missing, check_value, spec_of, split_label};
use crate::names::unknown;
use crate::store::Values;
use crate::stores::{self, COMMON, Entry};

/// `sqlite` for every row of the store, `sqlite[page_size=4096]` for those with this setting, by default or not.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    text: String,
    store: String,
    /// Values as adapters read them.
    options: BTreeMap<String, String>,
}

impl Selector {
    /// Reads one. `absent` are the labels of rows that the plan says cannot be had: those are what they are called.
    pub(super) fn parse(text: &str, absent: &BTreeMap<String, String>) -> Result<Selector> {
        let selector =
            |store: &str, options| Selector { text: text.to_owned(), store: store.to_owned(), options };
        if absent.contains_key(text) {
            return Ok(selector(text, BTreeMap::new()));
        }
        let (store, mut options) = split_label(text)?;
        match stores::find(store) {
            Some(Entry::Ready(adapter)) => {
                for (name, value) in &mut options {
                    let spec = spec_of(adapter, name)?;
                    // It may hold a password, and what chooses rows is stored as it is written.
                    ensure!(
                        !matches!(spec.values, Values::Url),
                        "rows of `{store}` are not chosen by their `{name}`"
                    );
                    *value = check_value(spec, value).with_context(|| format!("`{name}` of `{store}`"))?;
                }
            }
            // Nothing is known of its options here.
            Some(Entry::NotCompiled { .. } | Entry::Impossible { .. }) => {}
            None => return Err(unknown("store", store, stores::names())),
        }
        Ok(selector(store, options))
    }

    /// Whether a row of this store with these settings is meant.
    pub(super) fn fits(&self, store: &str, options: &BTreeMap<String, String>) -> bool {
        // An option that every store has is there where it was given.
        let usual = |name: &str| COMMON.iter().find(|spec| spec.name == name).map(|spec| spec.default);
        let value_of = |name: &str| options.get(name).map(String::as_str).or_else(|| usual(name));
        store == self.store
            && self.options.iter().all(|(name, value)| value_of(name).unwrap_or_default() == *value)
    }

    /// Whether a row that cannot run here is meant, of whose settings only those in its name are known.
    pub(super) fn names(&self, missing: &Missing) -> bool {
        if missing.label == self.text {
            return true;
        }
        let Ok((_, known)) = split_label(&missing.label) else { return false };
        missing.adapter == self.store
            && self.options.iter().all(|(name, value)| known.get(name).is_none_or(|known| known == value))
    }
}
