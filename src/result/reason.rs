//! Reasons why a figure is not ranked, as data for other modules. Their wording is in `src/words/`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::Durability;

/// Reason why a cell is not ranked, or why two cells are not compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Reason {
    /// It belongs to a baseline, which is not a place for files.
    Baseline,
    /// The candidate does not offer the requested durability class.
    WeakerClass {
        /// Strongest class that it offers.
        class: Durability,
    },
    /// The harness is too large a part of an op.
    MostlyHarness {
        /// Harness overhead as a share of the op, from 0 to 1.
        share: f64,
    },
    /// The client's CPUs were busy while the server's were idle.
    ClientBusy {
        /// Utilization of the client's CPUs, from 0 to 1.
        client_share: f64,
        /// Utilization of the server's CPUs, from 0 to 1.
        server_share: f64,
    },
    /// It is a cache with too many misses.
    MissesItsCache {
        /// Share of ops that missed, from 0 to 1.
        share: f64,
    },
    /// Part of its memory is outside its memory limit.
    MemoryOutside {
        /// Size of that memory, in bytes.
        bytes: u64,
        /// Memory limit, in bytes.
        limit_bytes: u64,
    },
    /// It could not sustain the offered rate.
    NotSustained,
    /// It should be cold, but opening the store loaded its data.
    OpenedWarm {
        /// Share of the data in memory after opening, from 0 to 1.
        share: f64,
        /// Seconds taken to open the store.
        open_seconds: f64,
    },
    /// It should be cold, but the device read less than was delivered.
    DeviceReadLittle {
        /// Device bytes read per byte delivered.
        bytes_per_byte: f64,
        /// Seconds taken to open the store.
        open_seconds: f64,
    },
    /// Its server did fewer passes of a cold phase than other candidates, so it read other keys. It is too short as
    /// well.
    CutShort {
        /// Passes that it did.
        done: u32,
        /// Passes that other candidates did.
        planned: u32,
    },
    /// Too little time and too few ops to average over.
    TooShort {
        /// Mean number of ops per round.
        ops: u64,
        /// Mean seconds per round.
        seconds: f64,
    },
    /// There is only one round, so repeatability is unknown.
    OneRound,
    /// A candidate that is too short to be ranked may be faster, so none is called the best.
    NoBest {
        /// Labels of these candidates.
        faster: Vec<String>,
    },
    /// The candidate failed.
    Failed {
        /// Error message.
        why: String,
    },
    /// The candidate is not available on this machine.
    NotAvailable {
        /// Missing prerequisite.
        why: String,
    },
    /// The candidate cannot do this phase. The text comes from the kind of work, of which there may be any number.
    NotPossible {
        /// Missing ability.
        why: String,
    },
    /// It is ranked, but its reference is not.
    OfReference {
        /// Reason why the reference is not ranked.
        why: Box<Reason>,
    },
    /// It belongs to a separate comparison group.
    OtherGroup {
        /// Common property of its group.
        group: String,
    },
    /// Its reference belongs to a separate comparison group.
    GroupOfReference {
        /// Common property of that group.
        group: String,
    },
}

impl Reason {
    /// True if more time or more ops would help.
    pub fn is_too_short(&self) -> bool {
        matches!(self, Reason::TooShort { .. } | Reason::CutShort { .. })
    }

    /// True if it is unranked only because another candidate is. It may still be compared with candidates that were
    /// measured.
    pub fn is_withheld(&self) -> bool {
        matches!(self, Reason::NoBest { .. })
    }

    /// True if the client, not the store, was the limit.
    pub fn is_client_bound(&self) -> bool {
        matches!(self, Reason::MostlyHarness { .. } | Reason::ClientBusy { .. })
    }

    /// True if the time is an upper bound, because the store is faster than the harness can measure. A candidate proved
    /// slower than that bound is slower than the store.
    pub fn is_bound(&self) -> bool {
        matches!(self, Reason::MostlyHarness { .. })
    }

    /// True if a cold cell turned out not to be cold.
    pub fn is_resident(&self) -> bool {
        matches!(self, Reason::OpenedWarm { .. } | Reason::DeviceReadLittle { .. })
    }
}
