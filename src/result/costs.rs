//! What a month costs: a load, prices of the user's, and what follows from them for each candidate.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Interval, Place};

/// What was asked about a month.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pricing {
    /// What is done in it.
    pub load: MonthlyLoad,
    /// What it is paid with.
    pub prices: Prices,
    /// Days from the day of the prices to the day on which this was asked.
    pub age_days: u64,
}

/// What a program does in a month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MonthlyLoad {
    /// Reads.
    pub reads: f64,
    /// Writes.
    pub writes: f64,
    /// Bytes of blobs that are stored.
    pub stored_bytes: f64,
    /// By which share these grow each month, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<f64>,
    /// Which share of the reads is answered from memory; of the others each is as cold as the cold reads of the run.
    #[serde(default)]
    pub cached: f64,
}

/// Prices of one place and day, all in one currency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prices {
    /// The day on which they were so, such as `2026-11-26`.
    pub date: String,
    /// What they are in.
    pub currency: String,
    /// For every candidate that has none of its own.
    pub rates: Rates,
    /// For a store or one candidate, by its name: each price that is given here takes the place of the general one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub store: BTreeMap<String, Rates>,
}

/// Prices. What has none is left out of a month, and that is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// A GB (10^9 bytes) of disk for a month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gb_month: Option<f64>,
    /// A million requests that the device does, reads and writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_million_requests: Option<f64>,
    /// So many of them in a month cost nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_requests: Option<f64>,
    /// The machine that the store runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachinePrice>,
}

/// A machine that is paid by the month.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachinePrice {
    /// What it costs in a month.
    pub month: f64,
    /// Its processors, as fast as those that were measured with.
    pub processors: f64,
    /// Its memory in GB (10^9 bytes).
    pub memory_gb: f64,
}

impl Prices {
    /// Those of a candidate: the general ones, over them those of its store, over them those of its label.
    pub fn of(&self, adapter: &str, label: &str) -> Rates {
        let own = [adapter, label].into_iter().filter_map(|name| self.store.get(name));
        own.fold(self.rates.clone(), |general, own| Rates {
            gb_month: own.gb_month.or(general.gb_month),
            per_million_requests: own.per_million_requests.or(general.per_million_requests),
            free_requests: own.free_requests.or(general.free_requests),
            machine: own.machine.or(general.machine),
        })
    }
}

/// What follows for each candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Costs {
    /// What was asked.
    pub pricing: Pricing,
    /// The phases that stand for the ops of a month.
    pub works: Vec<Work>,
    /// A month of each candidate, the cheapest of those that can be compared first.
    pub months: Vec<Month>,
    /// Where another candidate becomes the cheapest when reads and writes grow together from a hundredth to a hundred times those
    /// that were asked about, with as much stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
}

/// Ops of a month, and the phase whose figures stand for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// The phase.
    pub phase: String,
    /// Whether they write.
    pub writes: bool,
    /// How many of them there are in a month.
    pub ops: f64,
}

/// A month of one candidate. What is absent is not known or has no price; it is never free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Month {
    /// The candidate's label.
    pub store: String,
    /// Whether another one is proved to cost less, and whether it can be said at all.
    pub place: Place,
    /// Whether the processor time in it is mostly the harness's, so that the month costs no more than this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
    /// What the disk costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<f64>,
    /// What the requests of the device cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<f64>,
    /// What the share of a machine costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<f64>,
    /// All parts that have a price; absent where one of them is not known.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::estimated")]
    #[schemars(with = "Option<super::estimated::Estimate>")]
    pub total: Option<Interval>,
    /// The same in a year, when more is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_a_year: Option<f64>,
    /// What the device's requests for a million reads cost.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::estimated")]
    #[schemars(with = "Option<super::estimated::Estimate>")]
    pub million_reads: Option<Interval>,
    /// The same for a million writes.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::estimated")]
    #[schemars(with = "Option<super::estimated::Estimate>")]
    pub million_writes: Option<Interval>,
    /// Why there is no total.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<Unknown>,
}

/// Why a month of a candidate cannot be said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Unknown {
    /// Its server is somebody else's, and what it takes there cannot be looked at.
    Elsewhere,
    /// A phase that stands for ops of the month has no figures of it.
    NotMeasured {
        /// The phase.
        phase: String,
    },
    /// What it takes on disk could not be looked at, or is nothing.
    Disk,
    /// In a phase no request of the device was counted, or they were not counted at all.
    Requests {
        /// The phase.
        phase: String,
    },
    /// In a phase no processor time was counted.
    Processor {
        /// The phase.
        phase: String,
    },
    /// Its memory was not measured.
    Memory,
    /// The load is more than it was measured at.
    TooMuch {
        /// So many times as much.
        times: f64,
    },
}

/// A load at which another candidate becomes the cheapest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// So many times the reads and writes that were asked about.
    pub times: f64,
    /// The cheapest from there on; absent where no candidate was measured at so much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cheapest: Option<String>,
}
