//! What a program may need of the place where its files live, however fast that is.

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::unknown;

/// Something that a place serves or does not, by what its adapter says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// A reader never sees half of a put.
    AtomicPuts,
    /// In the class of the run, a power cut takes no more than recent writes.
    Durable,
    /// It gives the keys of all its blobs.
    Listing,
    /// No process of its own has to be run.
    NoServer,
    /// Part of a blob is read without the whole of it.
    Ranges,
    /// Several machines reach it.
    SeveralMachines,
    /// Several puts are one transaction.
    Transactions,
}

impl Need {
    /// All of them, in the order of their names.
    pub const ALL: &'static [Need] = &[
        Need::AtomicPuts,
        Need::Durable,
        Need::Listing,
        Need::NoServer,
        Need::Ranges,
        Need::SeveralMachines,
        Need::Transactions,
    ];

    /// The name used in flags, plans and reports.
    pub fn name(self) -> &'static str {
        match self {
            Need::AtomicPuts => "atomic-puts",
            Need::Durable => "durable",
            Need::Listing => "listing",
            Need::NoServer => "no-server",
            Need::Ranges => "ranges",
            Need::SeveralMachines => "several-machines",
            Need::Transactions => "transactions",
        }
    }

    /// What is true of a place that does not serve it.
    pub fn lacking(self) -> &'static str {
        match self {
            Need::AtomicPuts => "a reader may see half of a put",
            Need::Durable => "a power cut may take more than recent writes",
            Need::Listing => "it gives no list of its blobs",
            Need::NoServer => "a process of its own has to be run",
            Need::Ranges => "no part of a blob is read without the whole",
            Need::SeveralMachines => "one machine reaches it",
            Need::Transactions => "several puts are no transaction",
        }
    }

    /// The need of this name; an error names those that there are.
    pub fn named(name: &str) -> Result<Need> {
        let known = Need::ALL.iter().copied().find(|need| need.name() == name);
        known.ok_or_else(|| unknown("need", name, Need::ALL.iter().map(|need| need.name())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_need_has_the_name_that_files_have_for_it() {
        for need in Need::ALL {
            assert_eq!(serde_json::to_value(need).unwrap(), need.name());
            assert_eq!(Need::named(need.name()).unwrap(), *need);
        }
        assert!(Need::ALL.is_sorted_by_key(|need| need.name()));
        let error = Need::named("speed").unwrap_err().to_string();
        assert!(error.ends_with("ranges, several-machines, transactions"), "{error}");
    }
}
