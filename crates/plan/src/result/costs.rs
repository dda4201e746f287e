//! Monthly costs of each candidate: a load, the user's prices, and the resulting sums.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{CandidateRank, Interval};

/// Input of the calculation of monthly costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pricing {
    /// Load of a month.
    pub load: MonthlyLoad,
    /// Prices.
    pub prices: Prices,
    /// Age of the prices in days when the costs were calculated.
    pub age_days: u64,
}

/// Load of a month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MonthlyLoad {
    /// Number of reads.
    pub reads: f64,
    /// Number of writes.
    pub writes: f64,
    /// Stored blob bytes.
    pub stored_bytes: f64,
    /// Monthly growth of the stored bytes, as a share; absent if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<f64>,
    /// Share of reads answered from memory. The remaining reads are taken to be as cold as the run's cold reads.
    #[serde(default)]
    pub cached: f64,
}

/// Prices at one provider on one day, in one currency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prices {
    /// Date of the prices, such as `2026-11-26`.
    pub date: String,
    /// Currency.
    pub currency: String,
    /// Default prices of all candidates.
    pub rates: Rates,
    /// Prices of a store or candidate, by name; each price given here overrides the default.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub store: BTreeMap<String, Rates>,
}

/// Prices. Items without a price are left out of the month's costs, and reports say so.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Price of a GB (10^9 bytes) of disk for a month.
    pub gb_month: Option<f64>,
    /// Price of a million device requests, reads and writes.
    pub per_million_requests: Option<f64>,
    /// Number of requests per month that are free.
    pub free_requests: Option<f64>,
    /// Price of the machine that the store runs on.
    pub machine: Option<MachinePrice>,
}

/// Machine rented by the month.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachinePrice {
    /// Price of a month.
    pub month: f64,
    /// Number of CPUs, each as fast as those of the measuring machine.
    pub processors: f64,
    /// Memory in GB (10^9 bytes).
    pub memory_gb: f64,
}

impl Prices {
    /// Returns the prices of a candidate: the defaults, overridden by those of its store, overridden by those of its
    /// label.
    pub fn rates_for(&self, adapter: &str, label: &str) -> Rates {
        let own = [adapter, label].into_iter().filter_map(|name| self.store.get(name));
        own.fold(self.rates.clone(), |general, own| Rates {
            gb_month: own.gb_month.or(general.gb_month),
            per_million_requests: own.per_million_requests.or(general.per_million_requests),
            free_requests: own.free_requests.or(general.free_requests),
            machine: own.machine.or(general.machine),
        })
    }
}

/// Monthly costs of all candidates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Costs {
    /// Input of the calculation.
    pub pricing: Pricing,
    /// Phases that represent the ops of a month.
    pub works: Vec<MonthlyOps>,
    /// Cost of each candidate; comparable candidates first, the cheapest at the top.
    pub months: Vec<Month>,
    /// Loads at which another candidate becomes the cheapest, for reads and writes scaled together from 0.01 to 100
    /// times the requested load, with the same stored bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<CheapestChange>,
}

/// Ops of a month, and the phase whose figures represent them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MonthlyOps {
    /// Id of the phase.
    pub phase: String,
    /// True if the ops write.
    pub writes: bool,
    /// Number of ops in a month.
    pub ops: f64,
}

/// Monthly costs of one candidate. An absent part is unknown or has no price; it is never free.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Month {
    /// Label of the candidate.
    pub store: String,
    /// Rank by total costs.
    pub place: CandidateRank,
    /// True if most of the CPU time is the harness's, so that the costs are an upper bound.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
    /// Cost of disk space.
    pub disk: Option<f64>,
    /// Cost of device requests.
    pub requests: Option<f64>,
    /// Cost of the share of a machine.
    pub machine: Option<f64>,
    /// Sum of all parts that have a price; absent if one of them is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::estimated")]
    #[schemars(with = "Option<super::estimated::Estimate>")]
    pub total: Option<Interval>,
    /// Total in a year, with the stored bytes grown.
    pub in_a_year: Option<f64>,
    /// Cost of device requests for a million reads.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::estimated")]
    #[schemars(with = "Option<super::estimated::Estimate>")]
    pub million_reads: Option<Interval>,
    /// Cost of device requests for a million writes.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::estimated")]
    #[schemars(with = "Option<super::estimated::Estimate>")]
    pub million_writes: Option<Interval>,
    /// Reasons why there is no total.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownCost>,
}

/// Reason why the costs of a candidate are unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum UnknownCost {
    /// Its server belongs to someone else, so its resource usage is not visible.
    Elsewhere,
    /// A phase that represents ops of the month has no figures for it.
    NotMeasured {
        /// Id of the phase.
        phase: String,
    },
    /// Its disk usage is unknown or zero.
    Disk,
    /// No device requests were counted in a phase.
    Requests {
        /// Id of the phase.
        phase: String,
    },
    /// No CPU time was counted in a phase.
    Processor {
        /// Id of the phase.
        phase: String,
    },
    /// Its memory was not measured.
    Memory,
    /// The requested load exceeds the one it was measured at.
    TooMuch {
        /// Requested load divided by the measured load.
        times: f64,
    },
}

/// Load at which another candidate becomes the cheapest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheapestChange {
    /// Factor on the requested reads and writes.
    pub times: f64,
    /// Cheapest candidate from this load on; absent if no candidate was measured at this load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cheapest: Option<String>,
}
