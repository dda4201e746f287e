//! Options that every store has and no adapter reads: they decide how a candidate is planned.

use std::collections::BTreeMap;

use super::{Durability, OptionSpec, Options, Values};

/// Options that every store has. Those left at their default are not listed among a candidate's settings.
pub const COMMON: &[OptionSpec] = &[CATALOGUE, CLASS, ON, TRANSACTION];

/// Where uploads are registered.
const CATALOGUE: OptionSpec = OptionSpec::choice("catalogue", &["sqlite", "postgres", "mariadb", "mysql", "own", "own-transaction"])
    .about("where the phase `register` enters uploads: another store, the candidate's own database, or there in one transaction with the blob");

/// A durability class for this candidate alone.
const CLASS: OptionSpec = OptionSpec::choice("durability", &["run", "none", "on-sync", "each-write"])
    .about("a durability class of its own, the fill included, ranked apart from candidates in the run's");

/// The file system for this candidate: one made for the run in place of the run's directory.
const ON: OptionSpec = OptionSpec {
    name: "on",
    values: Values::FileSystem,
    default: "dir",
    about: "the file system that it lies on: the directory of the run (`dir`), or one that is made for the run on images of its own",
};

/// Puts a candidate's reads into one transaction.
const TRANSACTION: OptionSpec = OptionSpec::choice("transaction", &["op", "phase"])
    .about("phase: all reads of a worker in one transaction, in phases that read warm or from a cold start; ranked apart");

/// The file system made for the candidate with these values; `None` if it lies in the run's directory.
pub fn file_system_option(values: &BTreeMap<String, String>) -> Option<&str> {
    values.get(ON.name).map(String::as_str).filter(|on| *on != ON.default)
}

impl OptionSpec {
    /// True if the option is part of every label: candidates may differ only in their class or file system.
    pub fn is_always_in_the_label(&self) -> bool {
        [CLASS.name, ON.name].contains(&self.name) || self.names_the_server()
    }

    /// True if the option selects the server program; it is then part of the label even at its default.
    pub fn names_the_server(&self) -> bool {
        matches!(self.values, Values::Server(_))
    }
}

impl Options {
    /// The durability class set for this candidate alone.
    pub fn own_class(&self) -> Option<Durability> {
        Durability::from_name(self.text(CLASS.name))
    }

    /// The file system made for this candidate; `None` if it lies in the run's directory.
    pub fn file_system_option(&self) -> Option<&str> {
        file_system_option(self.values())
    }

    /// True if all reads of a worker are one transaction, unless the phase says otherwise.
    pub fn reads_in_one_transaction(&self) -> bool {
        self.text(TRANSACTION.name) == "phase"
    }

    /// Where uploads are registered: `own`, `own-transaction`, or a family of stores.
    pub fn catalogue(&self) -> &str {
        match self.text(CATALOGUE.name) {
            "" => CATALOGUE.default,
            name => name,
        }
    }
}
