//! The options of a store: allowed values and chosen ones.

use std::collections::BTreeMap;

/// One option of a store. Unknown names and values are refused before anything is opened.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Name, as in `--set store.name=value`.
    pub name: &'static str,
    /// Allowed values.
    pub values: Values,
    /// Default value: what a careful user would choose.
    pub default: &'static str,
    /// One-line description for `blobwise list`.
    pub about: &'static str,
}

impl OptionSpec {
    /// One of these words; the first is the default.
    pub const fn choice(name: &'static str, words: &'static [&'static str]) -> OptionSpec {
        OptionSpec { name, values: Values::OneOf(words), default: words[0], about: "" }
    }

    /// `true` or `false`, which is the default.
    pub const fn flag(name: &'static str) -> OptionSpec {
        OptionSpec { name, values: Values::Flag, default: "false", about: "" }
    }

    /// A whole number from `min` to `max`.
    pub const fn integer(name: &'static str, min: u64, max: u64, default: &'static str) -> OptionSpec {
        OptionSpec { name, values: Values::Integer { min, max }, default, about: "" }
    }

    /// A size from `min` to `max` bytes.
    pub const fn bytes(name: &'static str, min: u64, max: u64, default: &'static str) -> OptionSpec {
        OptionSpec { name, values: Values::Bytes { min, max }, default, about: "" }
    }

    /// The same option with another default.
    pub const fn default(self, default: &'static str) -> OptionSpec {
        OptionSpec { default, ..self }
    }

    /// The same option with this description.
    pub const fn about(self, about: &'static str) -> OptionSpec {
        OptionSpec { about, ..self }
    }
}

/// The values that an option may have.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these programs, each a server product. The value is part of the candidate's label, even at its default.
    Server(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Integer {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A non-negative number with up to three decimals, such as milliseconds.
    Decimal {
        /// Largest value.
        max: u64,
    },
    /// A word that only the store interprets.
    Word,
    /// The run's directory (`dir`), or the name of a file system made for the run.
    FileSystem,
    /// URL of the user's server. Its password is never written anywhere.
    Url,
    /// A size such as `4096`, `4KiB` or `64kB`.
    Bytes {
        /// Smallest size, in bytes.
        min: u64,
        /// Largest size, in bytes.
        max: u64,
    },
}

/// The options of one candidate: every option of its adapter, checked, with defaults filled in and sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// Wraps values that were checked against the adapter's specs (see `plan::candidates`).
    pub fn new(values: BTreeMap<String, String>) -> Options {
        Options(values)
    }

    /// Value of an option as text; empty if the adapter has no such option.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    /// All names and values, passwords included: only for other processes of this program.
    pub fn values(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// True if a [`Values::Flag`] option is on.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// Value of a [`Values::Integer`] or [`Values::Bytes`] option.
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_default()
    }

    /// Value of a [`Values::Decimal`] option.
    pub fn decimal(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or_default()
    }

    /// All names and values, sorted by name, without passwords.
    pub fn shown(&self) -> BTreeMap<String, String> {
        let shown =
            |(name, value): (&String, &String)| (name.clone(), crate::redact::without_passwords(value));
        self.0.iter().map(shown).collect()
    }
}
