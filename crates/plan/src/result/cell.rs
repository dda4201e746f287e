//! Figures of one candidate in one phase over all rounds, with intervals.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::counters::Counters;
use super::{CacheProof, Reason, Round, Status};
use crate::corpus::CorpusId;
use crate::store::{Durability, Kind, Losses, Traits, file_system_option};

/// State of the caches during a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Warm: every blob had been read once before.
    Warm,
    /// Steady state under a memory limit: blobs were read until the rate of device reads stopped changing.
    Still,
    /// Cold: data, inodes and dentries were evicted, and the store was opened again.
    Cold,
    /// Lukewarm: data was evicted, but metadata may still have been cached.
    Lukewarm,
    /// Caches were left as they were.
    #[default]
    None,
}

/// Figure with a confidence interval over rounds.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Geometric mean over rounds; of a ratio, that of the ratios of each round. (Format 4 called it `median`.)
    #[serde(rename = "geometric_mean", alias = "median")]
    pub median: f64,
    /// Lower end of the interval; absent after a single round.
    pub low: Option<f64>,
    /// Upper end of the interval; absent after a single round.
    pub high: Option<f64>,
    /// Confidence of the interval, from 0 to 1; absent after a single round, and in format 4. Above 0.95 if several
    /// intervals hold simultaneously with 95 % confidence.
    pub confidence: Option<f64>,
}

impl Interval {
    /// Returns a figure without an interval.
    pub fn point(value: f64) -> Interval {
        Interval { median: value, low: None, high: None, confidence: None }
    }

    /// Returns the reciprocal, with the ends of the interval swapped.
    pub fn turned(&self) -> Interval {
        let turned = |bound: Option<f64>| bound.map(|bound| 1.0 / bound);
        Interval { median: 1.0 / self.median, low: turned(self.high), high: turned(self.low), ..*self }
    }
}

/// Percentiles of a time, in nanoseconds. Each is present only if every round has at least 10 ops beyond it.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p999: Option<u64>,
    /// Maximum; never compared.
    pub max: Option<u64>,
}

/// Confidence intervals of percentiles, from their values in each round.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PercentileIntervals {
    /// Interval of the median.
    pub p50: Option<Interval>,
    /// Interval of the 90th percentile.
    pub p90: Option<Interval>,
    /// Interval of the 99th percentile.
    pub p99: Option<Interval>,
    /// Interval of the 99.9th percentile.
    pub p999: Option<Interval>,
}

/// Figures of one candidate in one phase.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Label of the candidate.
    pub store: String,
    /// Name of the adapter.
    pub adapter: String,
    /// Kind of store; absent for a candidate that cannot run on this machine.
    pub kind: Option<Kind>,
    /// All settings of the candidate.
    pub options: BTreeMap<String, String>,
    /// Other properties of the candidate that decide what it is comparable with.
    #[serde(default, skip_serializing_if = "Traits::is_plain")]
    pub traits: Traits,
    /// Outcome: measured, failed, not possible or not available.
    pub status: Status,
    /// Reason why figures are missing, in part or altogether.
    pub reason: Option<String>,
    /// Id of the phase.
    pub phase: String,
    /// Corpus of the run that the figures are for.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// Number of blobs in the store, if the phase is a step of a growth.
    pub stored_blobs: Option<u64>,
    /// Durability class the phase ran in.
    pub durability: Durability,
    /// Durability class set for this candidate alone, if it differs from the run's. Its reads are ranked separately,
    /// too.
    pub own_durability: Option<Durability>,
    /// True if each of several clients had a store of its own and their rates are summed; ranked apart from stores that
    /// clients share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_one_for_each_client: bool,
    /// Data lost by a process kill or a power cut in this class.
    pub loss: Option<Losses>,
    /// True if all reads of a worker share one transaction; otherwise each op has its own, if the store has
    /// transactions.
    #[serde(default)]
    pub one_transaction: bool,
    /// Number of concurrent worker threads.
    pub workers: usize,
    /// Requested number of blobs per op.
    pub batch: usize,
    /// State of the caches.
    pub cache: Cache,
    /// Evidence for the state of the caches.
    pub cache_proof: Option<CacheProof>,
    /// Offered ops per second of an open loop; absent in a closed loop.
    pub offered_ops_per_s: Option<f64>,
    /// Ops attempted in all rounds.
    pub ops: u64,
    /// Failures, retries and cache misses in all rounds.
    #[serde(flatten)]
    pub counters: Counters,
    /// Measurements of each round.
    pub rounds: Vec<Round>,
    /// Acknowledged ops per second.
    pub ops_per_s: Option<Interval>,
    /// Ops per second including deferred work (settling and flushing); write phases only.
    pub settled_ops_per_s: Option<Interval>,
    /// Measured number of blobs per op.
    pub blobs_per_op: Option<f64>,
    /// Blob bytes per second.
    pub bytes_per_s: Option<Interval>,
    /// Service time: from the start to the end of an op.
    pub service_ns: Option<Percentiles>,
    /// Confidence intervals of the service time percentiles.
    pub service_intervals: Option<PercentileIntervals>,
    /// Response time: from the moment an op was due to its end; open loops only.
    pub response_ns: Option<Percentiles>,
    /// Percentile curve of the service time (open loops: response time), as pairs of share and nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(f64, u64)>,
    /// Ops and service times by blob size.
    pub size_bands: Vec<SizeBand>,
    /// Steps of an op that are timed separately, or the kinds of op of a replay; empty if it has none.
    pub steps: Vec<Step>,
    /// Events per op that sessions counted (such as HTTP requests of a page), averaged over rounds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, f64>,
    /// Concentration of a skewed access pattern, averaged over rounds: the smallest share of blobs that received most
    /// ops.
    pub hot: Option<HotShare>,
    /// Share of the workers' time spent in syncs.
    pub sync_share: Option<f64>,
    /// CPU time of the whole system per op, over the phase and its settling, minus the idle baseline.
    pub total_cpu_ns_per_op: Option<f64>,
    /// CPU time of blobwise itself per op, embedded stores included.
    pub client_cpu_ns_per_op: Option<f64>,
    /// Part of it used by threads that are not workers, such as background threads of embedded stores.
    pub background_cpu_ns_per_op: Option<f64>,
    /// CPU time of the store's servers per op.
    pub server_cpu_ns_per_op: Option<f64>,
    /// Peak memory of blobwise beyond what it used before the store was opened.
    pub client_peak_bytes: Option<u64>,
    /// Peak memory of the store's servers, or of the in-memory file system that is the store.
    pub server_peak_bytes: Option<u64>,
    /// Peak anonymous and shared memory of blobwise and the servers together, which the kernel cannot drop. Absent in
    /// results of earlier versions.
    pub anonymous_peak_bytes: Option<u64>,
    /// Peak size of additional pages of mapped files, which the kernel can drop and read again. Absent in results of
    /// earlier versions.
    pub mapped_peak_bytes: Option<u64>,
    /// Read requests completed by the device, per round.
    pub device_reads: Option<u64>,
    /// Bytes read by the device, per round.
    pub device_read_bytes: Option<u64>,
    /// Bytes written by the device until everything was settled, per round.
    pub device_written_bytes: Option<u64>,
    /// Flush requests completed by the device, per round.
    pub device_flushes: Option<u64>,
    /// Harness overhead as a share of the op's time, from 0 to 1.
    pub harness_share: Option<f64>,
    /// True if it is among the leaders of its phase: no other is proved to be faster, or only the best is, by less than
    /// 3 %.
    pub leader: bool,
    /// Reason why it is not ranked; absent if it is.
    pub not_ranked: Option<Reason>,
}

impl Cell {
    /// Returns the file system created by blobwise that the candidate lies on; `None` if it lies in the directory of the
    /// run.
    pub fn file_system_option(&self) -> Option<&str> {
        file_system_option(&self.options)
    }

    /// True if a log was replayed. Its steps are kinds of op.
    pub fn is_replay(&self) -> bool {
        self.rounds.iter().any(|round| round.replayed.is_some())
    }

    /// True if the rate is the highest rung of a ladder of offered rates, not that of a closed loop.
    pub fn is_ladder(&self) -> bool {
        self.rounds.iter().any(|round| !round.rungs.is_empty())
    }
}

/// Concentration of a phase's ops on few blobs, counted from the executed list of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HotShare {
    /// Share of the ops that is considered: 0.9.
    pub ops_share: f64,
    /// Smallest number of blobs that received this share of the ops, as a share of all blobs present.
    pub blobs_share: f64,
    /// Bytes of these blobs, as a share of the bytes of all blobs present.
    pub bytes_share: f64,
}

/// Ops on blobs of similar size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeBand {
    /// Name of the band, such as `1-10 kB`.
    pub band: String,
    /// Ops in all rounds.
    pub ops: u64,
    /// Service times.
    pub service_ns: Percentiles,
}

/// Step of an op that is timed separately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Name of the step.
    pub name: String,
    /// Service times of the step.
    pub service_ns: Percentiles,
    /// Mean time of the step, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<Interval>,
    /// Share of the op's time, from 0 to 1.
    pub share: f64,
}
