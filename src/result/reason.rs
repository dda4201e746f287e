//! Why a figure decides nothing: data that others act on. The words for them are in `src/words/`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::Durability;

/// Why a cell is not ranked, or two cells are not compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Reason {
    /// It is of a baseline, which is no place for files.
    Baseline,
    /// Its candidate has not the class that was asked for.
    WeakerClass {
        /// The strongest class that it has.
        class: Durability,
    },
    /// Too much of an op is the harness.
    MostlyHarness {
        /// The harness' share of an op, from 0 to 1.
        share: f64,
    },
    /// Our own processors were busy while the server's were idle.
    ClientBusy {
        /// The busy share of ours, from 0 to 1.
        client_share: f64,
        /// The busy share of the server's, from 0 to 1.
        server_share: f64,
    },
    /// It is a cache that often has not what it is asked for.
    MissesItsCache {
        /// The misses' share of its ops, from 0 to 1.
        share: f64,
    },
    /// It has memory that its limit does not hold.
    MemoryOutside {
        /// That memory, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// More was offered a second than it could do.
    NotSustained,
    /// It is to be cold, and opening the store loaded its data.
    OpenedWarm {
        /// The share of the data in memory once it was open, from 0 to 1.
        share: f64,
        /// What opening took.
        open_seconds: f64,
    },
    /// It is to be cold, and the device read less than was delivered.
    DeviceReadLittle {
        /// Bytes that the device read for a byte delivered.
        bytes_per_byte: f64,
        /// What opening took.
        open_seconds: f64,
    },
    /// Its server did fewer passes of a cold phase than other candidates, and so read other keys: it is too short as well.
    CutShort {
        /// Passes that it did.
        done: u32,
        /// Passes that others did.
        planned: u32,
    },
    /// It has neither the time nor the ops to average over.
    TooShort {
        /// Ops in a round, in the mean.
        ops: u64,
        /// Seconds of a round, in the mean.
        seconds: f64,
    },
    /// There is one round, and repetition is not known.
    OneRound,
    /// A candidate that is too short to be ranked may be faster: nobody is called the best.
    NoBest {
        /// Those candidates.
        faster: Vec<String>,
    },
    /// It failed.
    Failed {
        /// What went wrong.
        why: String,
    },
    /// Its candidate cannot be had on this machine.
    NotAvailable {
        /// What is missing.
        why: String,
    },
    /// Its candidate cannot do this phase. The words are those of the kind of work, of which there may be any number.
    NotPossible {
        /// What it cannot do.
        why: String,
    },
    /// It is ranked, and what it is held against is not.
    OfReference {
        /// Why that is not ranked.
        why: Box<Reason>,
    },
    /// It ranks in a group of its own.
    OtherGroup {
        /// What its group has in common.
        group: String,
    },
    /// What it is held against ranks in a group of its own.
    GroupOfReference {
        /// What that group has in common.
        group: String,
    },
}

impl Reason {
    /// Whether more time or more ops would help.
    pub fn is_too_short(&self) -> bool {
        matches!(self, Reason::TooShort { .. } | Reason::CutShort { .. })
    }

    /// Whether it is not ranked for the sake of another only: it may be compared with those that were measured.
    pub fn is_withheld(&self) -> bool {
        matches!(self, Reason::NoBest { .. })
    }

    /// Whether the client, and not the store, was the limit.
    pub fn is_client_bound(&self) -> bool {
        matches!(self, Reason::MostlyHarness { .. } | Reason::ClientBusy { .. })
    }

    /// Whether the time is a bound: the store is faster than the harness can tell, and who is proved to be slower is.
    pub fn is_bound(&self) -> bool {
        matches!(self, Reason::MostlyHarness { .. })
    }

    /// Whether a cold cell was not cold.
    pub fn is_resident(&self) -> bool {
        matches!(self, Reason::OpenedWarm { .. } | Reason::DeviceReadLittle { .. })
    }
}
