//! What one round measured, and the lengths that the pilot fixed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clients::ClientRound;
use super::counters::Counters;
use super::{Footprint, HotShare, Upkeep};
use crate::corpus::CorpusId;

/// What the pilot fixed before round 1; it never changes between rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fixed {
    /// Rounds to measure. Set once more after round 5, from the variance of the first five.
    pub rounds: u32,
    /// Whether that has happened.
    pub rounds_final: bool,
    /// Share of the planned corpus that is used.
    pub corpus_share: f64,
    /// Lengths of phases by id.
    pub lengths: BTreeMap<String, FixedLength>,
}

/// The length of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FixedLength {
    /// Ops in the list; of all workers together.
    pub ops: u64,
    /// Passes over the blobs that the list is made of, where it may end after each of them when that took 0.5 s; else 0.
    #[serde(default)]
    pub passes: u32,
    /// The list is repeated until this many seconds are over; 0 for doing it once.
    pub seconds: f64,
    /// Cold phases: how often the store is evicted and opened again, with other keys each time.
    pub cold_passes: u32,
    /// Ladders of offered rates: the rate of the first rung.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ops_per_s: Option<f64>,
}

/// How it is known what the caches held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheProof {
    /// What was done: `drop_caches` or `fadvise`.
    pub method: String,
    /// Share of the store's bytes that were in the page cache after eviction, by mincore; looked at in round 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_share: Option<f64>,
    /// Share of the store's bytes that were there again after it was opened: what opening reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_share_opened: Option<f64>,
    /// Seconds that opening took.
    pub open_seconds: f64,
    /// Device bytes read per byte delivered, by tenth of the phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_bytes_per_byte: Vec<f64>,
    /// Keys that were read, as a share of all.
    pub sample_share: f64,
}

/// One candidate in one phase of one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// The round, from 1.
    pub round: u32,
    /// The candidate's place in the order of that round, from 1.
    pub position: u32,
    /// What its keys were drawn from.
    pub seed: u64,
    /// Ops attempted.
    pub ops: u64,
    /// Blobs in them.
    pub blobs: u64,
    /// Bytes of the blobs of acknowledged ops.
    pub bytes: u64,
    /// From the first start to the last acknowledgement, without what sessions did between ops.
    pub seconds: f64,
    /// The same with settling and the file system's flush; phases that write only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_seconds: Option<f64>,
    /// Of that, the store's own settling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_seconds: Option<f64>,
    /// Of that, the file system's flush.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syncfs_seconds: Option<f64>,
    /// Before the phase and in none of these: what the store did of what earlier phases had left to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caught_up_seconds: Option<f64>,
    /// Passes over the blobs, or over the list.
    pub passes: u64,
    /// How few blobs had most of the ops, where some were asked for more than others (`zipfian`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<HotShare>,
    /// What did not go as asked.
    #[serde(flatten)]
    pub counters: Counters,
    /// The times of all ops.
    pub histogram: Histograms,
    /// What sessions counted in an op, in the mean: requests of a page, say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, f64>,
    /// The first op of each session, in nanoseconds; kept apart from the rest.
    pub first_ops_ns: Vec<u64>,
    /// Syncs and their time, all workers together.
    pub syncs: u64,
    /// Seconds in syncs, all workers together.
    pub sync_seconds: f64,
    /// Processor time of the whole system less the idle baseline, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cpu_ns: Option<u64>,
    /// Processor time of this process, in nanoseconds.
    pub client_cpu_ns: u64,
    /// Of that, the workers'.
    pub worker_cpu_ns: u64,
    /// Processor time of the store's servers, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_ns: Option<u64>,
    /// Most memory of the servers, or of the file system in memory that is the store, when it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_peak_bytes: Option<u64>,
    /// Of that, pages of files that the servers map. Absent in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_mapped_bytes: Option<u64>,
    /// Most memory beyond the baseline, pages of mapped files included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_peak_bytes: Option<u64>,
    /// Anonymous and shared memory at the end, beyond the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous_bytes: Option<u64>,
    /// File-mapped memory at the end, beyond the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped_bytes: Option<u64>,
    /// Memory as the candidate's control group counts it, where a run limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<RoundMemory>,
    /// Share of the store's files in the page cache at the end, by mincore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_cache_share: Option<f64>,
    /// Read requests the device finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_reads: Option<u64>,
    /// Bytes the device read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_read_bytes: Option<u64>,
    /// Write requests the device finished; absent in results of versions that did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_writes: Option<u64>,
    /// Bytes the device wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_written_bytes: Option<u64>,
    /// Flush requests the device finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_flushes: Option<u64>,
    /// Bytes that this process and the store's servers had the kernel read from devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_read_bytes: Option<u64>,
    /// Bytes of pages that they changed and that are to be written to devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_written_bytes: Option<u64>,
    /// Bytes that the disk read for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_read_bytes: Option<u64>,
    /// Bytes that the disk wrote beyond those of pages that this process and the store's servers had changed: for others, and
    /// what the file system writes for ours, which is not told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_written_bytes: Option<u64>,
    /// Disk taken after the phase; phases that age the store only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// Bytes of the blobs that are there after the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    /// What was done with the whole store; phases that an operator does only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upkeep: Option<Upkeep>,
    /// Open loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenLoop>,
    /// Ladders of offered rates: every rung that was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rungs: Vec<Rung>,
    /// Cold phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_proof: Option<CacheProof>,
    /// What each client did of it, where several did it together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientRound>,
}

impl Round {
    /// Ops that were acknowledged a second.
    pub fn acknowledged_per_s(&self) -> f64 {
        self.counters.acknowledged(self.ops) as f64 / self.seconds
    }

    /// Ops that were done a second, with the work that they put off where they write.
    pub fn done_per_s(&self) -> f64 {
        self.counters.done(self.ops) as f64 / self.settled_seconds.unwrap_or(self.seconds)
    }
}

/// Memory of a candidate as its control group counts it, the harness's part included, in bytes where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundMemory {
    /// What it may have beyond what it takes when it is empty (or all in all: `memory_total`); absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// The limit that is enforced: the budget, what is taken when it is empty, and the harness's part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// What it took when it was empty and open, without the kernel's cache of files.
    pub empty_bytes: u64,
    /// The most in the phase; absent where the kernel cannot say it (control groups of version 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// At the end: the kernel's cache of files.
    pub cache_bytes: u64,
    /// At the end: anonymous memory of its processes, and what they share.
    pub anonymous_bytes: u64,
    /// At the end: what the kernel keeps for it (sockets, page tables, inodes, names).
    pub kernel_bytes: u64,
    /// Pages of files that were read again after they had been given up.
    pub refaults: u64,
    /// Page faults that read from a device.
    pub major_faults: u64,
    /// How often the limit was met.
    pub limit_hits: u64,
    /// At the end: what is the candidate's and not counted here: processes of its servers that are not in the group, and pages of
    /// its files beyond those that the group has.
    #[serde(default)]
    pub outside_bytes: u64,
}

/// One offered rate of a ladder, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rung {
    /// Ops due a second.
    pub offered_ops_per_s: f64,
    /// Time in which they came due over time in which they were done; at least 0.99 passes.
    pub achieved_share: f64,
    /// Response time at the limit's percentile, in nanoseconds.
    pub response_ns: u64,
    /// Ops.
    pub ops: u64,
    /// Why it did not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What an open loop has beside a closed one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenLoop {
    /// Ops due a second.
    pub offered_ops_per_s: f64,
    /// Share of the ops that came due while every worker was busy.
    pub all_busy_share: f64,
    /// Seconds from the last due instant to the last acknowledgement.
    pub drain_seconds: f64,
    /// False when draining took more than 10 % of the phase.
    pub sustained: bool,
    /// How late idle workers woke, in nanoseconds: p50.
    pub wake_late_p50_ns: u64,
    /// p99.
    pub wake_late_p99_ns: u64,
}

/// The times of all ops of a round, as compressed HdrHistogram V2, base64, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Histograms {
    /// Service times by size band; their sum is the histogram of all ops.
    pub service: BTreeMap<String, String>,
    /// Response times by size band; open loops only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub response: BTreeMap<String, String>,
    /// Times of the parts of ops that are timed by themselves, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steps: BTreeMap<String, String>,
}

/// The probes at the start or end of a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// The round.
    pub round: u32,
    /// `start` or `end`.
    pub at: String,
    /// A null op with touch, in nanoseconds.
    pub processor_ns: f64,
    /// A flush of one written block, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_ns: Option<f64>,
    /// A direct read of 4 KiB, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ns: Option<f64>,
    /// A byte to a thread on another processor and back over a pair of sockets, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trip_ns: Option<f64>,
    /// The same with both threads on one processor, so that none has to be woken, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_trip_ns: Option<f64>,
    /// Whether the round was repeated because of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// What the last comparison of a visit read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerifiedFrom {
    /// The device: the store was closed, its files were evicted from the kernel's cache, and it was opened again.
    Device,
    /// Perhaps the kernel's cache: the store was closed and opened again, but its files could not be evicted.
    KernelCache,
    /// The cache of its server, which is stopped and started for the comparison in the first round only.
    RunningServer,
    /// The cache of a server that other candidates use too.
    SharedServer,
    /// The cache of a server of the user's.
    UsersServer,
    /// What it held while it was open: it keeps nothing beyond that.
    NotKept,
}

impl VerifiedFrom {
    /// The words used in reports.
    pub fn name(self) -> &'static str {
        match self {
            VerifiedFrom::Device => "the device: closed, evicted, opened again",
            VerifiedFrom::KernelCache => {
                "perhaps the kernel's cache: closed and opened again, but not to be evicted"
            }
            VerifiedFrom::RunningServer => "its server's cache: restarted in the first round only",
            VerifiedFrom::SharedServer => "its server's cache: shared by candidates, not restarted",
            VerifiedFrom::UsersServer => "its server's cache: given by URL, not restarted",
            VerifiedFrom::NotKept => "what it held while open: it keeps nothing beyond that",
        }
    }
}

/// One candidate of one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreRound {
    /// The round.
    pub round: u32,
    /// The candidate's label.
    pub store: String,
    /// Which of the run's corpora.
    #[serde(default, skip_serializing_if = "CorpusId::is_only")]
    pub corpus_id: CorpusId,
    /// Its place in the order.
    pub position: u32,
    /// Wall time, everything included.
    pub seconds: f64,
    /// Blobs compared with what they should be.
    pub verified: u64,
    /// What the last comparison read; absent where there is nothing to compare, or an error came before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_from: Option<VerifiedFrom>,
    /// What failed, if something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Disk of this round.
    pub footprint: Footprint,
}
