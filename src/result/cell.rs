//! One candidate in one phase over all rounds: figures with their intervals.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::{CacheProof, Reason, Round, Status};
use crate::corpus::CorpusId;
use crate::store::{Durability, Kind, Losses, Traits, on};

/// What the caches held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Everything was read once before.
    Warm,
    /// It was read until reads of the device stood still, within a limit of memory.
    Still,
    /// Data, inodes and dentries were evicted and the store opened anew.
    Cold,
    /// Data was evicted, metadata may not have been.
    Lukewarm,
    /// Nothing was done about caches.
    #[default]
    None,
}

/// A figure with its interval over rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The geometric mean over rounds, of a ratio that of the ratios of each round. (Format 4 called it `median`.)
    #[serde(rename = "geometric_mean", alias = "median")]
    pub median: f64,
    /// Lower end of the interval; absent with one round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The confidence of the interval, from 0 to 1; absent with one round, and in format 4. Where several intervals hold at once with
    /// 95 %, that of each is higher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

impl Interval {
    /// A figure alone.
    pub fn point(value: f64) -> Interval {
        Interval { median: value, low: None, high: None, confidence: None }
    }

    /// One over it.
    pub fn turned(&self) -> Interval {
        let turned = |bound: Option<f64>| bound.map(|bound| 1.0 / bound);
        Interval { median: 1.0 / self.median, low: turned(self.high), high: turned(self.low), ..*self }
    }
}

/// Percentiles of a time, in nanoseconds. One is given only with at least 10 ops beyond it in every round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Half of the ops took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<u64>,
    /// 90 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<u64>,
    /// 99 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<u64>,
    /// 99.9 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<u64>,
    /// The longest; never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

/// Intervals of percentiles, from their values in each round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PercentileIntervals {
    /// Of p50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<Interval>,
    /// Of p90.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<Interval>,
    /// Of p99.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Interval>,
    /// Of p99.9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<Interval>,
}

/// One candidate in one phase.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The candidate's label.
    pub store: String,
    /// The adapter's name.
    pub adapter: String,
    /// What sort of place its candidate is; absent for one that cannot run here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// All settings.
    pub options: BTreeMap<String, String>,
    /// What else is true of its candidate.
    #[serde(default, skip_serializing_if = "Traits::is_plain")]
    pub traits: Traits,
    /// What became of it.
    pub status: Status,
    /// Why there are no figures, or only some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The phase.
    pub phase: String,
    /// Which of the run's corpora.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// The class in which it ran.
    pub durability: Durability,
    /// The class that was set for this candidate alone, where it is not the run's: its reads, too, are ranked apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_durability: Option<Durability>,
    /// Each of several clients had a store of its own, and their rates are added up: it is ranked apart from what clients share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_one_for_each_client: bool,
    /// What a sudden end costs in that class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Losses>,
    /// Whether all reads of a worker were one transaction; else each op was one of its own, where the store has any.
    #[serde(default)]
    pub one_transaction: bool,
    /// Threads that worked at once.
    pub workers: usize,
    /// Blobs in one op, asked for.
    pub batch: usize,
    /// What the caches held.
    pub cache: Cache,
    /// How that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_proof: Option<CacheProof>,
    /// Ops of an open loop asked for a second; absent in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_ops_per_s: Option<f64>,
    /// Ops attempted in all rounds.
    pub ops: u64,
    /// What did not go as asked, in all rounds.
    #[serde(flatten)]
    pub counters: Counters,
    /// What was measured, round by round.
    pub rounds: Vec<Round>,
    /// Ops acknowledged a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops_per_s: Option<Interval>,
    /// Ops done a second when the work that was put off is counted; phases that write only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_ops_per_s: Option<Interval>,
    /// Blobs in one op, measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blobs_per_op: Option<f64>,
    /// Bytes of blobs a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<Interval>,
    /// From start to end of an op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ns: Option<Percentiles>,
    /// Their intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_intervals: Option<PercentileIntervals>,
    /// From the moment an op was due to its end; open loops only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ns: Option<Percentiles>,
    /// Percentile curve of the service time (open loops: response time): pairs of share and nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(f64, u64)>,
    /// The same by size of blob.
    pub size_bands: Vec<SizeBand>,
    /// Parts of an op, where it has some.
    pub steps: Vec<Step>,
    /// What sessions counted in an op, in the mean over rounds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, f64>,
    /// How few blobs had most of the ops, where some were asked for more than others: the mean over rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<HotShare>,
    /// Share of the workers' time spent in sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_share: Option<f64>,
    /// Processor time of the whole system over the phase and its settling, less the idle baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cpu_ns_per_op: Option<f64>,
    /// Processor time of blobwise itself, embedded stores included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_ns_per_op: Option<f64>,
    /// Of that, the threads that are not workers: background work of embedded stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_cpu_ns_per_op: Option<f64>,
    /// Processor time of servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_ns_per_op: Option<f64>,
    /// Most memory of blobwise beyond what it had before the store was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_peak_bytes: Option<u64>,
    /// Most memory of servers, or of the file system in memory that is the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_peak_bytes: Option<u64>,
    /// Most memory of both that only processes keep: anonymous and shared memory. Absent in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous_peak_bytes: Option<u64>,
    /// Most pages of mapped files beside it: the kernel can drop them, and reads them again. Absent in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped_peak_bytes: Option<u64>,
    /// Read requests the device finished, a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_reads: Option<u64>,
    /// Bytes the device read, a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_read_bytes: Option<u64>,
    /// Bytes the device wrote until everything was settled, a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_written_bytes: Option<u64>,
    /// Flush requests the device finished, a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_flushes: Option<u64>,
    /// Share of an op that is the harness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness_share: Option<f64>,
    /// Whether it is among the best of its phase: no other is proved to be faster, or the best by less than 3 % only.
    pub leader: bool,
    /// Why it is not ranked, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ranked: Option<Reason>,
}

impl Cell {
    /// The file system of our own that its candidate lies on; nothing where it lies in the directory of the run.
    pub fn on(&self) -> Option<&str> {
        on(&self.options)
    }

    /// Whether its rate is the highest rung of a ladder, and not what ops took one after the other.
    pub fn is_ladder(&self) -> bool {
        self.rounds.iter().any(|round| !round.rungs.is_empty())
    }
}

/// How few blobs had most of a phase's ops, counted from the list of keys that was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HotShare {
    /// The share of the ops that this is about: 0.9.
    pub ops_share: f64,
    /// The fewest blobs that had so many of them, as a share of all that were there.
    pub blobs_share: f64,
    /// What these have of the bytes of all that were there.
    pub bytes_share: f64,
}

/// Ops on blobs of similar size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeBand {
    /// Its name, such as `1-10 kB`.
    pub band: String,
    /// Ops in all rounds.
    pub ops: u64,
    /// Service times.
    pub service_ns: Percentiles,
}

/// A part of an op.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What it does.
    pub name: String,
    /// Its times.
    pub service_ns: Percentiles,
    /// Its mean, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<Interval>,
    /// Its share of the op's time.
    pub share: f64,
}
