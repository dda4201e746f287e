//! Options that every store has, and that none of them reads: how its row is planned.

use anyhow::{Result, anyhow};

use super::{adapters, family};
use crate::store::{Adapter, Durability, OptionSpec, Options, Values};

/// Options that every store has. One that is not given is not listed among a row's settings.
pub const COMMON: &[OptionSpec] = &[CATALOGUE, CLASS, TRANSACTION];

/// Where uploads are registered.
const CATALOGUE: OptionSpec = OptionSpec {
    name: "catalogue",
    values: Values::OneOf(&["sqlite", "postgres", "mariadb", "mysql", "own", "own-transaction"]),
    default: "sqlite",
    about: "where the phase `register` enters uploads: another store, the row's own database, or there in one transaction with the blob",
};

/// Gives a row a class of its own.
const CLASS: OptionSpec = OptionSpec {
    name: "durability",
    values: Values::OneOf(&["run", "none", "on-sync", "each-write"]),
    default: "run",
    about: "a durability class of its own, the fill included, ranked apart from rows in the run's",
};

/// Puts a row's reads into one transaction.
const TRANSACTION: OptionSpec = OptionSpec {
    name: "transaction",
    values: Values::OneOf(&["op", "phase"]),
    default: "op",
    about: "phase: all reads of a worker in one transaction, in phases that read warm or from a cold start; ranked apart",
};

/// Whether an option tells rows apart by their names, wherever they are named: rows of different classes are.
pub fn is_always_in_the_label(spec: &OptionSpec) -> bool {
    spec.name == CLASS.name
}

/// The durability class that was set for a row alone.
pub fn own_class(options: &Options) -> Option<Durability> {
    Durability::named(options.text(CLASS.name))
}

/// Whether all reads of a worker are one transaction where the phase does not say.
pub fn reads_in_one_transaction(options: &Options) -> bool {
    options.text(TRANSACTION.name) == "phase"
}

/// Where a row's uploads are registered.
#[derive(Clone, Copy, Debug)]
pub enum CatalogueOf {
    /// In the database that has the blobs.
    Own {
        /// Entry and blob are one transaction, not steps.
        one_transaction: bool,
    },
    /// In a store of this kind, with its default settings.
    Apart(&'static Adapter),
}

/// Where uploads are registered with these settings. An error where that store is not compiled in.
pub fn catalogue(options: &Options) -> Result<CatalogueOf> {
    let name = match options.text(CATALOGUE.name) {
        "own" => return Ok(CatalogueOf::Own { one_transaction: false }),
        "own-transaction" => return Ok(CatalogueOf::Own { one_transaction: true }),
        "" => CATALOGUE.default,
        name => name,
    };
    let adapter = adapters().find(|adapter| family(adapter.name) == name);
    adapter.map(CatalogueOf::Apart).ok_or_else(|| anyhow!("the catalogue `{name}` is not compiled in"))
}
