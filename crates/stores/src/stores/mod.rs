//! The table of stores, by families. A new store is one file and two lines in its family.

use std::sync::Mutex;

use anyhow::{bail, ensure};

use crate::store::{Adapter, Options};
use crate::suggest::unknown_of_list;

/// `line!("feature", module::ADAPTER as "name")` is the adapter if the feature is enabled, otherwise its name. Without a name,
/// the adapter is compiled in every build and only its driver needs the feature.
macro_rules! line {
    ($feature:literal, $adapter:path) => {
        if cfg!(feature = $feature) {
            Entry::Ready(&$adapter)
        } else {
            Entry::NotCompiled { name: $adapter.name, feature: $feature, adapter: Some(&$adapter) }
        }
    };
    ($feature:literal, $adapter:path as $name:literal) => {{
        #[cfg(feature = $feature)]
        let entry = Entry::Ready(&$adapter);
        #[cfg(not(feature = $feature))]
        let entry = Entry::NotCompiled { name: $name, feature: $feature, adapter: None };
        entry
    }};
}

/// `composed!("feature", "feature of the underlying store", ...)`: both are needed.
macro_rules! composed {
    ($feature:literal, $behind:literal, $adapter:path as $name:literal) => {{
        #[cfg(all(feature = $feature, feature = $behind))]
        let entry = Entry::Ready(&$adapter);
        #[cfg(all(feature = $feature, not(feature = $behind)))]
        let entry = Entry::NotCompiled { name: $name, feature: $behind, adapter: None };
        #[cfg(not(feature = $feature))]
        let entry = Entry::NotCompiled { name: $name, feature: $feature, adapter: None };
        entry
    }};
}

mod baseline;
mod cache;
mod common;
mod database;
mod delivery;
mod embedded;
mod files;
#[cfg(feature = "own")]
pub mod own;
#[cfg(feature = "page")]
mod page;
pub mod rights;

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// Compiled in.
    Ready(&'static Adapter),
    /// Known, but its cargo feature was off when this program was built.
    NotCompiled {
        /// The store's name.
        name: &'static str,
        /// The cargo feature that enables it.
        feature: &'static str,
        /// The adapter, if it compiles without the driver.
        adapter: Option<&'static Adapter>,
    },
    /// Known, but it cannot run here.
    Impossible {
        /// The store's name.
        name: &'static str,
        /// The reason.
        why: &'static str,
    },
}

impl Entry {
    /// The store's name.
    pub fn name(&self) -> &'static str {
        match self {
            Entry::Ready(adapter) => adapter.name,
            Entry::NotCompiled { name, .. } | Entry::Impossible { name, .. } => name,
        }
    }

    /// The adapter, if it is compiled in; its driver may be missing.
    pub fn adapter(&self) -> Option<&'static Adapter> {
        match self {
            Entry::Ready(adapter) => Some(adapter),
            Entry::NotCompiled { adapter, .. } => *adapter,
            Entry::Impossible { .. } => None,
        }
    }
}

/// All stores, by families, in the order of lists.
const FAMILIES: &[&[Entry]] = &[
    baseline::TABLE,
    files::TABLE,
    embedded::TABLE,
    database::TABLE,
    cache::TABLE,
    delivery::TABLE,
    &[
        line!("page", page::SEPARATE as "page/separate"),
        line!("page", page::SPRITE as "page/sprite"),
        line!("page", page::INLINED as "page/inlined"),
        line!("page", page::AFTER_LOAD as "page/after-load"),
        line!("page", page::PRELOAD as "page/preload"),
        line!("page", page::PIPELINED as "page/pipelined"),
    ],
];

/// Stores that a program has added to those of this crate.
static REGISTERED: Mutex<Vec<&'static Entry>> = Mutex::new(Vec::new());

/// Adds a store to the table, behind those of this crate. For a program that uses this crate as a library, before
/// [`main`](crate::main).
///
/// # Errors
/// The name cannot be written in a list of stores, or it is a store's already, or in the family of a store of this crate.
pub fn register(adapter: &'static Adapter) -> anyhow::Result<()> {
    let name = adapter.name;
    let is_plain = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '_' | '/');
    ensure!(
        name.starts_with(|first: char| first.is_ascii_lowercase()) && name.chars().all(is_plain),
        "a store cannot be called `{name}`: a name begins with a letter, and has only a-z, 0-9, `-`, `_` and `/`"
    );
    let mut built_in = FAMILIES.iter().copied().flatten().map(Entry::name).chain([OWN]);
    let mut registered = common::lock(&REGISTERED);
    let of_family = built_in.find(|other| family(other) == family(name));
    let namesake = || registered.iter().map(|entry| entry.name()).find(|other| *other == name);
    if let Some(other) = of_family.or_else(namesake) {
        bail!(
            "a store cannot be called `{name}`: `{other}` has this name, or is in this family; choose another name"
        );
    }
    registered.push(Box::leak(Box::new(Entry::Ready(adapter))));
    Ok(())
}

/// Every line of the table, in the order of lists; registered stores last.
pub fn table() -> impl Iterator<Item = &'static Entry> {
    let registered = common::lock(&REGISTERED).clone();
    FAMILIES.iter().copied().flatten().chain(registered)
}

/// The family of a store, whose name stands for all members in settings and variables: the part before the slash, or the known
/// family of a store with a name of its own.
pub fn family(name: &str) -> &str {
    if name.starts_with(OWN) {
        return "own";
    }
    let before_slash = || name.split('/').next().unwrap_or(name);
    database::OWN_NAMES.iter().find(|(own, _)| *own == name).map_or_else(before_slash, |(_, family)| family)
}

/// The baseline that does nothing: it measures the cost of the harness itself.
pub const NULL: &Adapter = baseline::NULL;

/// Where a candidate's uploads are registered.
#[derive(Clone, Copy, Debug)]
pub enum CatalogueOf {
    /// In the database with the blobs.
    Own {
        /// Entry and blob are written in one transaction.
        one_transaction: bool,
    },
    /// In another store, with its default options.
    Apart(&'static Adapter),
}

/// Returns where uploads are registered with these options; an error if that store is not compiled in.
pub fn catalogue(options: &Options) -> anyhow::Result<CatalogueOf> {
    let name = match options.catalogue() {
        "own" => return Ok(CatalogueOf::Own { one_transaction: false }),
        "own-transaction" => return Ok(CatalogueOf::Own { one_transaction: true }),
        name => name,
    };
    let adapter = adapters().find(|adapter| family(adapter.name) == name);
    adapter
        .map(CatalogueOf::Apart)
        .ok_or_else(|| anyhow::anyhow!("the catalogue `{name}` is not compiled in"))
}

/// Names of the baselines, from a bare loop to the raw device.
pub fn baselines() -> impl Iterator<Item = &'static str> {
    baseline::TABLE.iter().map(Entry::name)
}

/// The compiled-in adapters.
pub fn adapters() -> impl Iterator<Item = &'static Adapter> {
    table().filter_map(|entry| match entry {
        Entry::Ready(adapter) => Some(*adapter),
        Entry::NotCompiled { .. } | Entry::Impossible { .. } => None,
    })
}

/// Every name in the table, compiled in or not.
pub fn names() -> impl Iterator<Item = &'static str> {
    table().map(Entry::name)
}

/// The error for a name that is not in the table.
pub fn unknown(name: &str) -> anyhow::Error {
    unknown_of_list("blobwise list stores", "store", name, names())
}

/// What the name of a store of the user's own begins with; the path of its manifest follows.
pub const OWN: &str = "own:";

/// Finds a store by its name: a line of the table, or the store that the manifest of `own:FILE` describes. `None` if the table
/// has no such name; an error if the manifest is not right.
pub fn look_up(name: &str) -> anyhow::Result<Option<Entry>> {
    match name.strip_prefix(OWN) {
        #[cfg(feature = "own")]
        Some(manifest) => own::adapter(std::path::Path::new(manifest)).map(|own| Some(Entry::Ready(own))),
        #[cfg(not(feature = "own"))]
        Some(_) => Ok(Some(Entry::NotCompiled { name: "own:FILE", feature: "own", adapter: None })),
        None => Ok(table().find(|entry| entry.name() == name).copied()),
    }
}

/// Like [`look_up`]; `None` also if the manifest is not right.
pub fn find(name: &str) -> Option<Entry> {
    look_up(name).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::{NULL, adapters, names, register};
    use crate::store::{Adapter, Values};

    /// None is added, because all tests of this process have the same table.
    #[test]
    fn a_name_that_is_taken_or_cannot_be_written_is_not_registered() {
        let before: Vec<&str> = names().collect();
        for name in ["sqlite", "files/mine", "own/mine", "own:mine", "Mine", "my[store]", "", "a b"] {
            let adapter: &'static Adapter = Box::leak(Box::new(Adapter { name, ..*NULL }));
            let refused = register(adapter).unwrap_err().to_string();
            assert!(refused.contains(&format!("cannot be called `{name}`: ")), "{refused}");
        }
        assert_eq!(names().collect::<Vec<_>>(), before);
    }

    /// Every store that can use the user's server declares what it would make there.
    #[test]
    fn who_takes_a_url_asks_for_room() {
        for adapter in adapters() {
            let takes_url = adapter.options.iter().any(|spec| matches!(spec.values, Values::Url));
            assert_eq!(adapter.needs.of_server.is_some(), takes_url, "{}", adapter.name);
        }
    }
}
