//! Options that every store has, and that no adapter reads: how a candidate is planned.

use std::collections::BTreeMap;

use super::{Durability, OptionSpec, Options, Values};

/// Options that every store has. One that is not given is not listed among a candidate's settings.
pub const COMMON: &[OptionSpec] = &[CATALOGUE, CLASS, ON, TRANSACTION];

/// Where uploads are registered.
const CATALOGUE: OptionSpec = OptionSpec {
    name: "catalogue",
    values: Values::OneOf(&["sqlite", "postgres", "mariadb", "mysql", "own", "own-transaction"]),
    default: "sqlite",
    about: "where the phase `register` enters uploads: another store, the candidate's own database, or there in one transaction with the blob",
};

/// Gives a candidate a class of its own.
const CLASS: OptionSpec = OptionSpec {
    name: "durability",
    values: Values::OneOf(&["run", "none", "on-sync", "each-write"]),
    default: "run",
    about: "a durability class of its own, the fill included, ranked apart from candidates in the run's",
};

/// Puts a candidate on a file system of our own.
const ON: OptionSpec = OptionSpec {
    name: "on",
    values: Values::FileSystem,
    default: "dir",
    about: "the file system that it lies on: the directory of the run (`dir`), or one that is made for the run on images of its own",
};

/// Puts a candidate's reads into one transaction.
const TRANSACTION: OptionSpec = OptionSpec {
    name: "transaction",
    values: Values::OneOf(&["op", "phase"]),
    default: "op",
    about: "phase: all reads of a worker in one transaction, in phases that read warm or from a cold start; ranked apart",
};

/// The file system of our own that a candidate with these values lies on; nothing where it lies in the directory of the run.
pub fn on(values: &BTreeMap<String, String>) -> Option<&str> {
    values.get(ON.name).map(String::as_str).filter(|on| *on != ON.default)
}

impl OptionSpec {
    /// Whether it tells candidates apart by their names, wherever they are named: candidates of different classes and on different
    /// file systems are.
    pub fn is_always_in_the_label(&self) -> bool {
        [CLASS.name, ON.name].contains(&self.name) || self.names_the_server()
    }

    /// Whether it says which program serves a candidate, so that it is in the label where it was not set, too.
    pub fn names_the_server(&self) -> bool {
        matches!(self.values, Values::Server(_))
    }
}

impl Options {
    /// The durability class that was set for a candidate alone.
    pub fn own_class(&self) -> Option<Durability> {
        Durability::named(self.text(CLASS.name))
    }

    /// The file system of our own that a candidate lies on; nothing where it lies in the directory of the run.
    pub fn on(&self) -> Option<&str> {
        on(self.values())
    }

    /// Whether all reads of a worker are one transaction where the phase does not say.
    pub fn reads_in_one_transaction(&self) -> bool {
        self.text(TRANSACTION.name) == "phase"
    }

    /// Where its uploads are registered: `own`, `own-transaction`, or a family of stores.
    pub fn catalogue(&self) -> &str {
        match self.text(CATALOGUE.name) {
            "" => CATALOGUE.default,
            name => name,
        }
    }
}
