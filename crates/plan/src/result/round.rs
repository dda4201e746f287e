//! Measurements of one round, and the phase lengths that the pilot fixed.

use blobwise_stores::named;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::clients::ClientRound;
use super::counters::Counters;
use super::{Footprint, HotShare, Upkeep};
use crate::corpus::CorpusId;

/// Phase lengths and rounds, fixed by the pilot before round 1; the same in every round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fixed {
    /// Planned number of rounds. Set once more after round 5, from the variance of the first five.
    pub rounds: u32,
    /// True once the number of rounds has been set after round 5.
    pub rounds_final: bool,
    /// Share of the planned corpus that is used, from 0 to 1.
    pub corpus_share: f64,
    /// Length of each phase, by phase id.
    pub lengths: BTreeMap<String, FixedLength>,
}

/// Length of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FixedLength {
    /// Ops in the list, for all workers together.
    pub ops: u64,
    /// Passes over all blobs that the list consists of, if the phase may end after any whole pass once 0.5 s have
    /// passed; otherwise 0.
    #[serde(default)]
    pub passes: u32,
    /// Minimum duration: the list is repeated until this many seconds have passed. With 0 it is executed once.
    pub seconds: f64,
    /// Cold phases: number of times the store is evicted and opened again, with different keys each time.
    pub cold_passes: u32,
    /// Rate ladders: offered rate of the first rung.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ops_per_s: Option<f64>,
}

/// Evidence for the state of the caches.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheProof {
    /// Eviction method: `drop_caches` or `fadvise`.
    pub method: String,
    /// Share of the store's bytes in the page cache after eviction, by `mincore`; checked in round 1.
    pub resident_share: Option<f64>,
    /// Share of the store's bytes in the page cache after the store was opened: what opening reads.
    pub resident_share_opened: Option<f64>,
    /// Seconds taken to open the store.
    pub open_seconds: f64,
    /// Device bytes read per byte delivered, for each tenth of the phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_bytes_per_byte: Vec<f64>,
    /// Keys that were read, as a share of all keys.
    pub sample_share: f64,
}

/// Measurements of one candidate in one phase of one round.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// Number of the round, from 1.
    pub round: u32,
    /// Position of the candidate in the order of the round, from 1.
    pub position: u32,
    /// Seed that the keys were drawn with.
    pub seed: u64,
    /// Ops attempted.
    pub ops: u64,
    /// Blobs in the attempted ops.
    pub blobs: u64,
    /// Blob bytes of acknowledged ops.
    pub bytes: u64,
    /// Seconds from the first start to the last acknowledgement, without the time that sessions spend between ops.
    pub seconds: f64,
    /// `seconds` plus settling and flushing the file system; write phases only.
    pub settled_seconds: Option<f64>,
    /// Part of `settled_seconds` spent on the store's own settling.
    pub settle_seconds: Option<f64>,
    /// Part of `settled_seconds` spent on flushing the file system.
    pub syncfs_seconds: Option<f64>,
    /// Seconds spent before the phase on maintenance left over by earlier phases; not part of any other time here.
    pub caught_up_seconds: Option<f64>,
    /// Passes over the blobs or over the list of ops.
    pub passes: u64,
    /// Concentration of a skewed access pattern (`zipfian`): the smallest share of blobs that received most ops.
    pub hot: Option<HotShare>,
    /// Failures, retries and cache misses.
    #[serde(flatten)]
    pub counters: Counters,
    /// Times of all ops.
    pub histogram: Histograms,
    /// Events per op that sessions counted (such as HTTP requests of a page), on average.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, f64>,
    /// First op of each session, in nanoseconds; not part of the histogram.
    pub first_ops_ns: Vec<u64>,
    /// Number of syncs, over all workers.
    pub syncs: u64,
    /// Seconds spent in syncs, summed over all workers.
    pub sync_seconds: f64,
    /// CPU time of the whole system minus the idle baseline, in nanoseconds.
    pub total_cpu_ns: Option<u64>,
    /// CPU time of this process, in nanoseconds.
    pub client_cpu_ns: u64,
    /// CPU time of the workers, in nanoseconds; part of `client_cpu_ns`.
    pub worker_cpu_ns: u64,
    /// CPU time of the store's servers, in nanoseconds.
    pub server_cpu_ns: Option<u64>,
    /// Peak memory of the servers, or of the in-memory file system that is the store, by sampling.
    pub server_peak_bytes: Option<u64>,
    /// Part of `server_peak_bytes` in pages of mapped files. Absent in results of earlier versions.
    pub server_mapped_bytes: Option<u64>,
    /// Peak memory of this process beyond the baseline, pages of mapped files included.
    pub client_peak_bytes: Option<u64>,
    /// Anonymous and shared memory at the end, beyond the baseline.
    pub anonymous_bytes: Option<u64>,
    /// Pages of mapped files in memory at the end, beyond the baseline.
    pub mapped_bytes: Option<u64>,
    /// Memory as counted by the candidate's cgroup; present if the run limits memory.
    pub memory: Option<RoundMemory>,
    /// Share of the store's files in the page cache at the end, by `mincore`.
    pub page_cache_share: Option<f64>,
    /// Read requests completed by the device.
    pub device_reads: Option<u64>,
    /// Bytes read by the device.
    pub device_read_bytes: Option<u64>,
    /// Write requests completed by the device; absent in results of versions that did not record them.
    pub device_writes: Option<u64>,
    /// Bytes written by the device.
    pub device_written_bytes: Option<u64>,
    /// Flush requests completed by the device.
    pub device_flushes: Option<u64>,
    /// Bytes that this process and the store's servers caused the kernel to read from devices.
    pub own_read_bytes: Option<u64>,
    /// Bytes in pages that this process and the store's servers dirtied, to be written to devices.
    pub own_written_bytes: Option<u64>,
    /// Bytes that the disk read for other programs.
    pub others_read_bytes: Option<u64>,
    /// Bytes that the disk wrote beyond the pages dirtied by this process and the store's servers: writes of other
    /// programs, and metadata that the file system writes for these pages, which cannot be told apart.
    pub others_written_bytes: Option<u64>,
    /// Disk space used after the phase; ageing and rewriting phases, and the fill of a growth or before ageing.
    pub allocated_bytes: Option<u64>,
    /// Fragments of the blobs' files, per blob; ageing phases and the fill before them, of stores with a file for each
    /// blob, where the file system tells them.
    pub fragments_per_blob: Option<f64>,
    /// Bytes of the blobs present after the phase.
    pub live_bytes: Option<u64>,
    /// Maintenance operation on the whole store; operator phases only.
    pub upkeep: Option<Upkeep>,
    /// Figures of an open loop; absent in closed loops.
    pub open: Option<OpenLoop>,
    /// What was replayed of a log; absent in other phases.
    pub replayed: Option<Replayed>,
    /// Rate ladders: every rung that was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rungs: Vec<Rung>,
    /// Evidence for the state of the caches; cold phases only.
    pub cache_proof: Option<CacheProof>,
    /// Contribution of each client, if several clients did the phase together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientRound>,
}

impl Round {
    /// Returns acknowledged ops per second.
    pub fn acknowledged_per_s(&self) -> f64 {
        self.counters.acknowledged(self.ops) as f64 / self.seconds
    }

    /// Returns done ops per second; in write phases deferred work is included.
    pub fn done_per_s(&self) -> f64 {
        self.counters.done(self.ops) as f64 / self.settled_seconds.unwrap_or(self.seconds)
    }
}

/// Memory of a candidate as counted by its cgroup, the harness included. In bytes unless stated otherwise.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundMemory {
    /// Memory budget beyond what the empty store uses (in total with `memory_total`); absent without a limit.
    pub budget_bytes: Option<u64>,
    /// Enforced limit: the budget plus what the empty store and the harness use.
    pub limit_bytes: Option<u64>,
    /// Memory of the open, empty store, without page cache.
    pub empty_bytes: u64,
    /// Peak memory in the phase; absent if the kernel cannot report it (cgroup v2).
    pub peak_bytes: Option<u64>,
    /// Page cache at the end.
    pub cache_bytes: u64,
    /// Anonymous and shared memory of its processes at the end.
    pub anonymous_bytes: u64,
    /// Kernel memory at the end (sockets, page tables, inodes, dentries).
    pub kernel_bytes: u64,
    /// Pages of files that were read again after being reclaimed.
    pub refaults: u64,
    /// Number of page faults that read from a device.
    pub major_faults: u64,
    /// Number of times the limit was hit.
    pub limit_hits: u64,
    /// Memory of the candidate outside the cgroup at the end: server processes that are not in it, and pages of its
    /// files that are charged elsewhere.
    #[serde(default)]
    pub outside_bytes: u64,
    /// Device bytes per byte delivered that an ideal LRU cache of `budget_bytes` would need for the same reads; absent
    /// if the phase does not only read whole blobs, or has too many reads to simulate.
    pub ideal_lru_bytes_per_byte: Option<f64>,
}

/// Result of one rung of a rate ladder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rung {
    /// Offered ops per second.
    pub offered_ops_per_s: f64,
    /// Time in which the ops were due divided by the time in which they were done; a rung needs at least 0.99 to pass.
    pub achieved_share: f64,
    /// Response time at the percentile that the limit is for, in nanoseconds.
    pub response_ns: u64,
    /// Number of ops.
    pub ops: u64,
    /// Reason why the rung failed; absent if it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What a phase replayed of a log.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replayed {
    /// Requests of the log about the blobs of the corpus.
    pub requests: u64,
    /// Seconds from the first of them to the last, in the log.
    pub log_seconds: f64,
    /// Share of the log's requests that these are, if its other objects are left out; absent if none are.
    pub sampled_share: Option<f64>,
    /// Offered rate in times the rate of these requests in the log; absent in a closed loop.
    pub speed: Option<f64>,
    /// Rate of acknowledged requests, in times the mean rate of these requests in the log.
    pub reached: f64,
}

/// Additional figures of an open loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenLoop {
    /// Offered ops per second.
    pub offered_ops_per_s: f64,
    /// Share of the ops that became due while every worker that could do them was busy: all of them, but for a log that writes, where
    /// one worker does all requests of an object.
    pub all_busy_share: f64,
    /// Seconds from the last due time to the last acknowledgement.
    pub drain_seconds: f64,
    /// False if draining took more than 10 % of the phase.
    pub sustained: bool,
    /// Median wake-up delay of idle workers, in nanoseconds.
    pub wake_late_p50_ns: u64,
    /// 99th percentile of the wake-up delay of idle workers, in nanoseconds.
    pub wake_late_p99_ns: u64,
}

/// Times of all ops of a round in nanoseconds, as compressed HdrHistogram V2 in base64.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Histograms {
    /// Service times by size band; their sum is the histogram of all ops.
    pub service: BTreeMap<String, String>,
    /// Response times by size band; open loops only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub response: BTreeMap<String, String>,
    /// Times of separately timed steps of ops, by name of the step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steps: BTreeMap<String, String>,
}

/// Probes of the machine at the start or end of a round.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// Number of the round.
    pub round: u32,
    /// `start` or `end`.
    pub at: String,
    /// Time of an op on the null store with touch, in nanoseconds.
    pub processor_ns: f64,
    /// Time to flush one written block, in nanoseconds.
    pub flush_ns: Option<f64>,
    /// Time of a direct read of 4 KiB, in nanoseconds.
    pub read_ns: Option<f64>,
    /// Round-trip time of one byte to a thread on another CPU over a socket pair, in nanoseconds.
    pub trip_ns: Option<f64>,
    /// Round-trip time with both threads on one CPU, so that no CPU has to be woken, in nanoseconds.
    pub near_trip_ns: Option<f64>,
    /// True if the round was repeated because of this probe.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

named! {
    /// Source of the bytes in the last comparison of a candidate's turn.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum VerifiedFrom {
        /// Device: the store was closed, its files were evicted from the page cache, and it was opened again.
        Device = "the device: closed, evicted, opened again",
        /// Possibly the page cache: the store was closed and opened again, but its files could not be evicted.
        KernelCache = "perhaps the kernel's cache: closed and opened again, but not to be evicted",
        /// Cache of its server, which is restarted for the comparison in the first round only.
        RunningServer = "its server's cache: restarted in the first round only",
        /// Cache of a server that other candidates use, too.
        SharedServer = "its server's cache: shared by candidates, not restarted",
        /// Cache of a server that the user provides by URL.
        UsersServer = "its server's cache: given by URL, not restarted",
        /// Memory of the open store, which keeps nothing once it is closed.
        NotKept = "what it held while open: it keeps nothing beyond that",
    }
}

/// One candidate's turn in one round.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreRound {
    /// Number of the round.
    pub round: u32,
    /// Label of the candidate.
    pub store: String,
    /// Corpus of the run.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// Position in the order of the round, from 1.
    pub position: u32,
    /// Wall-clock time of the whole turn.
    pub seconds: f64,
    /// Number of blobs compared with their expected contents.
    pub verified: u64,
    /// Source of the last comparison; absent if there was nothing to compare or an earlier error prevented it.
    pub verified_from: Option<VerifiedFrom>,
    /// First failure, if any.
    pub error: Option<String>,
    /// Disk space used in this round.
    pub footprint: Footprint,
    /// Images of the candidate's disk after the fill and at each age, if one aged image serves every round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<AgedImage>,
}

impl StoreRound {
    /// True if this round aged the store for later rounds too, so that it alone has figures of the fill and of ageing.
    pub fn ages_for_others(&self) -> bool {
        self.images.iter().any(|image| !image.is_copy)
    }
}

/// Image of a candidate's disk after the fill or at an age, as a round found it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgedImage {
    /// Id of the phase that filled or aged the store.
    pub phase: String,
    /// SHA-256 of the SHA-256 of every block of 64 KiB of the disk, while it was not mounted, in hexadecimal digits.
    pub sha256: String,
    /// True if the round read a copy of what an earlier round filled and aged.
    pub is_copy: bool,
    /// Disk space of the store in the image.
    pub allocated_bytes: Option<u64>,
    /// Fragments of the blobs' files, per blob; of stores with a file for each blob, where the file system tells them.
    pub fragments_per_blob: Option<f64>,
}
