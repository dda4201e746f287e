//! The settings of a store: what they may be, and what was chosen.

use std::collections::BTreeMap;

/// One setting of a store. Unknown names and values are refused before anything is opened.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Its name, as in `--set store.name=value`.
    pub name: &'static str,
    /// What it may be.
    pub values: Values,
    /// What it is when not given: what a careful user would choose.
    pub default: &'static str,
    /// One line for `blobwise list`.
    pub about: &'static str,
}

/// The values an option may have.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these programs, each a server of its own kind. A candidate is called by it, also where it was not set.
    Server(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Integer {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A number from 0 with up to three digits after the point, such as milliseconds.
    Decimal {
        /// Largest.
        max: u64,
    },
    /// A word that only the store understands.
    Word,
    /// The directory of the run (`dir`), or a file system of our own by its name.
    FileSystem,
    /// Where a server of the user's is. Its password is never written anywhere.
    Url,
    /// A size such as `4096`, `4KiB` or `64kB`.
    Bytes {
        /// Smallest, in bytes.
        min: u64,
        /// Largest, in bytes.
        max: u64,
    },
}

/// The settings of one candidate: every option of its adapter, checked, with defaults filled in and sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// Wraps values that were checked against the adapter's specs (see `plan::candidates`).
    pub fn new(values: BTreeMap<String, String>) -> Options {
        Options(values)
    }

    /// The value of an option of the adapter, as text; empty for a name that is not one.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    /// All names and values, with passwords: for another process of ours alone.
    pub fn values(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Whether a [`Values::Flag`] option is on.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// The value of an [`Values::Integer`] or [`Values::Bytes`] option.
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_default()
    }

    /// The value of a [`Values::Decimal`] option.
    pub fn decimal(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or_default()
    }

    /// All names and values, sorted by name; without passwords.
    pub fn shown(&self) -> BTreeMap<String, String> {
        let shown =
            |(name, value): (&String, &String)| (name.clone(), crate::shown::without_passwords(value));
        self.0.iter().map(shown).collect()
    }
}
