//! The result of a run: the only types that are written to files and read back. `docs/result.schema.json` is made
//! from them. A figure that could not be measured is absent, never 0.

mod check;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Class, PlanText, Transaction, cold_passes};
pub use crate::store::{Connects, Damage, Durability, Kind, Loss, MadeCold, NoticedBy, Traits};

/// Version of the format; a reader refuses a newer one.
pub const SCHEMA: u32 = 2;

/// The most that a result may have, in bytes: it is held in memory as a whole.
const RESULT_BYTES_MAX: u64 = 1_000_000_000;

/// Everything a run measured, and what follows from it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Version of this format.
    pub schema: u32,
    /// Whether every round of every row was measured.
    pub complete: bool,
    /// The program that measured.
    pub program: Program,
    /// The plan, complete: running it again repeats the run.
    pub plan: PlanText,
    /// What the pilot fixed before round 1.
    pub fixed: Fixed,
    /// The machine.
    pub machine: Machine,
    /// What the harness itself costs.
    pub harness: Harness,
    /// The blobs.
    pub corpus: CorpusResult,
    /// The blobs of each size of a sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corpora: Vec<CorpusResult>,
    /// The rows and what their stores say of themselves.
    pub rows: Vec<RowResult>,
    /// One cell for each row and phase.
    pub results: Vec<Cell>,
    /// Disk taken by each row.
    pub footprints: Vec<Footprint>,
    /// Ratios and verdicts.
    pub comparisons: Vec<Comparison>,
    /// Each phase that was done at several sizes, every row over the plan's reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matrices: Vec<Matrix>,
    /// The sentences of the answer.
    pub answer: Vec<String>,
    /// Sizes at which one row overtakes another.
    pub crossovers: Vec<Crossover>,
    /// Published statements and what this run says of them.
    pub claims: Vec<Claim>,
    /// Reasons not to trust a number.
    pub doubts: Vec<Doubt>,
    /// The yardsticks of each round.
    pub rails: Vec<Rail>,
    /// Each row of each round, in the order in which they were measured.
    pub store_rounds: Vec<StoreRound>,
    /// Rounds that were disturbed and measured again: what was measured first. It is in no figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<SetAside>,
    /// What visitors see, where there is something to see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<Picture>,
}

/// What a visitor sees of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Picture {
    /// The row's label.
    pub store: String,
    /// A PNG, base64.
    pub png: String,
}

impl Picture {
    /// A picture of a row.
    pub fn new(store: &str, png: &[u8]) -> Picture {
        Picture { store: store.to_owned(), png: BASE64.encode(png) }
    }

    /// The picture's bytes.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        BASE64.decode(&self.png).with_context(|| format!("the picture of `{}` is damaged", self.store))
    }

    /// The name of its file.
    pub fn file(&self) -> String {
        /// File systems take 255 bytes.
        const LETTERS_MAX: usize = 200;
        let letters = self.store.chars().take(LETTERS_MAX);
        let name: String = letters.map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        format!("{}.png", name.trim_matches('-'))
    }
}

/// The program that measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Version of blobwise.
    pub version: String,
    /// `release` or `debug`.
    pub build: String,
    /// The command line.
    pub command: String,
    /// When it began (UTC).
    pub started: String,
    /// Wall time from start to written result.
    pub seconds: f64,
}

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

/// The machine a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors this process may use.
    pub processors: usize,
    /// How the processor's clock is governed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Whether a hypervisor is below.
    pub virtual_machine: bool,
    /// Main memory.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The file system that was measured.
    pub filesystem: String,
    /// Where that is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<String>,
    /// Its mount options.
    pub mount: String,
    /// The block device below it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Whether the device says that it rotates; absent for a virtual disk, which says nothing of what it is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// Bytes that the kernel reads ahead of a sequential reader or a page fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_bytes: Option<u64>,
    /// Free space when the run began.
    pub free_bytes: u64,
    /// Whether blobwise ran as root.
    pub root: bool,
}

/// What the harness itself costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Harness {
    /// A get of the null store, of the run's first read phase, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null_ns_per_op: Option<f64>,
    /// An op of the null store in each phase, in nanoseconds, by phase (and size of a sweep).
    pub null_ns: BTreeMap<String, f64>,
    /// How time was read.
    pub clock: String,
    /// What one reading costs, in nanoseconds.
    pub clock_read_ns: f64,
}

/// The blobs of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusResult {
    /// What it was made from.
    pub name: String,
    /// Number of blobs.
    pub blobs: u64,
    /// Bytes, together.
    pub bytes: u64,
    /// Sizes below which a share of the blobs are: `p10` to `p99`.
    pub quantiles: BTreeMap<String, u64>,
    /// The largest blob.
    pub largest_bytes: u64,
    /// How many times smaller zstd makes them.
    pub zstd_ratio: f64,
    /// The size a sweep varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_bytes: Option<u64>,
    /// Real files: how many files and bytes the sample was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_from: Option<(u64, u64)>,
    /// What of a preset's distribution was not made; nothing of any other is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// Real files: a digest (xxh3, 128 bits, in hexadecimal digits) of their paths, sizes and bytes, before a budget cut them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Real files: what was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// A row: a store with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowResult {
    /// The label used everywhere.
    pub store: String,
    /// The adapter's name.
    pub adapter: String,
    /// What sort of place it is; absent for a row that cannot run here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// All its settings.
    pub options: BTreeMap<String, String>,
    /// What else is true of it with these settings.
    #[serde(default, skip_serializing_if = "Traits::is_plain")]
    pub traits: Traits,
    /// Versions and settings read back from the store.
    pub facts: BTreeMap<String, String>,
    /// The class that was set for it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_durability: Option<Durability>,
    /// How its reads are grouped where a phase does not say, if not each by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<Transaction>,
    /// What it promises in phases that run in the class asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// What it promises when it is filled, where that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_promise: Option<Promise>,
    /// How it is made cold; absent where it cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_cold: Option<MadeCold>,
    /// Who notices a byte that changed on the device; absent where that is not known, or nothing is kept there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noticed_by: Option<NoticedBy>,
    /// What the last comparison of its visits read: the best of all rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_from: Option<VerifiedFrom>,
    /// Whether it can run at all.
    pub status: Status,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl RowResult {
    /// Whether it could run at all: what cannot has neither a kind nor traits.
    pub fn is_here(&self) -> bool {
        self.kind.is_some()
    }

    /// Whether it is a yardstick, shown but never ranked.
    pub fn is_reference(&self) -> bool {
        self.kind == Some(Kind::Baseline)
    }

    /// What it promises in phases of a class.
    pub fn promise_of(&self, class: Class) -> Option<Promise> {
        match class {
            Class::Fill => self.fill_promise.or(self.promise),
            Class::Asked => self.promise,
        }
    }

    /// How many of the passes of a cold phase it does.
    pub fn cold_passes(&self, planned: u32) -> u32 {
        cold_passes(self.made_cold, planned)
    }
}

/// The class in which a row runs, and what a sudden end costs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Promise {
    /// The class.
    pub durability: Durability,
    /// What a sudden end costs.
    pub damage: Damage,
}

/// What became of a row or a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// There are figures.
    Measured,
    /// An op, a check or the store itself failed.
    Failed,
    /// A hard limit forbids it.
    NotPossible,
    /// The store cannot run here.
    NotAvailable,
}

/// What the caches held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Everything was read once before.
    Warm,
    /// Data, inodes and dentries were evicted and the store opened anew.
    Cold,
    /// Data was evicted, metadata may not have been.
    Lukewarm,
    /// Nothing was done about caches.
    #[default]
    None,
}

/// A figure with its interval over rounds: the middle is exp of the mean of logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The middle.
    pub median: f64,
    /// Lower end of the 95 % interval; absent with one round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
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

/// One row in one phase.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The row's label.
    pub store: String,
    /// The adapter's name.
    pub adapter: String,
    /// What sort of place its row is; absent for one that cannot run here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// All settings.
    pub options: BTreeMap<String, String>,
    /// What else is true of its row.
    #[serde(default, skip_serializing_if = "Traits::is_plain")]
    pub traits: Traits,
    /// What became of it.
    pub status: Status,
    /// Why there are no figures, or only some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The phase.
    pub phase: String,
    /// The size a sweep varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_bytes: Option<u64>,
    /// The class in which it ran.
    pub durability: Durability,
    /// The class that was set for this row alone, where it is not the run's: its reads, too, are ranked apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_durability: Option<Durability>,
    /// What a sudden end costs in that class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<Damage>,
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
    /// Ops in all rounds.
    pub ops: u64,
    /// Ops that failed.
    pub errors: u64,
    /// The first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Attempts that were made again because the store was busy or had closed the connection.
    pub retries: u64,
    /// Answers that the cache in front of the blobs had not, so that the store behind gave them.
    #[serde(default)]
    pub cache_misses: u64,
    /// Ops that were given up.
    pub timeouts: u64,
    /// What was measured, round by round.
    pub rounds: Vec<Round>,
    /// Ops acknowledged a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops_per_s: Option<Interval>,
    /// Ops a second when the work that was put off is counted; phases that write only.
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
    pub not_ranked: Option<String>,
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

/// One row in one phase of one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// The round, from 1.
    pub round: u32,
    /// The row's place in the order of that round, from 1.
    pub position: u32,
    /// What its keys were drawn from.
    pub seed: u64,
    /// Ops.
    pub ops: u64,
    /// Blobs.
    pub blobs: u64,
    /// Bytes of blobs.
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
    /// Ops that failed.
    pub errors: u64,
    /// Attempts made again.
    pub retries: u64,
    /// Answers that the cache in front of the blobs had not.
    #[serde(default)]
    pub cache_misses: u64,
    /// Ops given up.
    pub timeouts: u64,
    /// The first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
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
    /// Most memory beyond the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_peak_bytes: Option<u64>,
    /// Anonymous memory at the end, beyond the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous_bytes: Option<u64>,
    /// File-mapped memory at the end, beyond the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped_bytes: Option<u64>,
    /// Share of the store's files in the page cache at the end, by mincore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_cache_share: Option<f64>,
    /// Read requests the device finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_reads: Option<u64>,
    /// Bytes the device read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_read_bytes: Option<u64>,
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
    /// Bytes that the disk wrote beyond those of pages that this process and the store's servers had changed: for others, and what the
    /// file system writes for ours, which is not told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_written_bytes: Option<u64>,
    /// Disk taken after the phase; phases that age the store only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// Bytes of the blobs that are there after the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    /// Open loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenLoop>,
    /// Ladders of offered rates: every rung that was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rungs: Vec<Rung>,
    /// Cold phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_proof: Option<CacheProof>,
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

/// Disk taken by one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Footprint {
    /// The row's label.
    pub store: String,
    /// The size a sweep varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_bytes: Option<u64>,
    /// Bytes of the blobs.
    pub logical_bytes: u64,
    /// The empty store: opened, nothing put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_bytes: Option<u64>,
    /// After the fill, flushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// After the store settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_settle_bytes: Option<u64>,
    /// What indexes beside the data take of that, where the store tells them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_bytes: Option<u64>,
    /// What directories take of that by themselves, beside the files in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory_bytes: Option<u64>,
    /// What logs take of that: what is in them lies elsewhere too, or will.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// The same as `after_settle_bytes` from the file system's free space: a cross-check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statvfs_bytes: Option<u64>,
    /// Bytes the device wrote from before the fill until after it settled, per byte of blobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
    /// `after_settle_bytes` per byte of blobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_amplification: Option<f64>,
}

impl Footprint {
    /// What is neither directory nor log nor index of `after_settle_bytes`: the blobs, and whatever else lies with them. Absent
    /// where the parts are not known.
    pub fn data_bytes(&self) -> Option<u64> {
        let all = self.after_settle_bytes?.checked_sub(self.directory_bytes?)?;
        all.checked_sub(self.log_bytes?)?.checked_sub(self.index_bytes.unwrap_or(0))
    }
}

/// Five verdicts on a ratio of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval lies above 1.
    Faster,
    /// The interval lies below 1.
    Slower,
    /// The interval lies within 3 % of 1.
    Equal,
    /// The interval contains 1 and reaches further than 3 %.
    CannotTellApart,
    /// Not comparable, with the reason.
    NotRanked,
}

impl Verdict {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equal => "equal",
            Verdict::CannotTellApart => "cannot tell apart",
            Verdict::NotRanked => "not ranked",
        }
    }
}

/// The rate of a row over the rate of a reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The phase.
    pub phase: String,
    /// The size a sweep varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_bytes: Option<u64>,
    /// The row.
    pub store: String,
    /// What it is compared with.
    pub reference: String,
    /// Why the reference is what it is: `plan`, `best` or `baseline`.
    pub against: Against,
    /// Rate over rate, paired by round; above 1 the row is faster. Settled rates where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Interval>,
    /// What it means.
    pub verdict: Verdict,
    /// Why it is not ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A phase at several sizes: every row over the plan's reference, within the same rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// The phase.
    pub phase: String,
    /// The row that all others are compared with.
    pub reference: String,
    /// Cells that have a verdict.
    pub compared: u64,
    /// How sure each of their intervals is, from 0 to 1: so sure that all of them hold at once with 95 %.
    pub confidence: f64,
    /// One for each other row and size, yardsticks left out.
    pub cells: Vec<MatrixCell>,
}

/// One row at one size over the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixCell {
    /// The row.
    pub store: String,
    /// The size of a sweep, or the middle size of one of several corpora.
    pub sweep_bytes: u64,
    /// Rate over rate, paired by round; above 1 the row is faster. Settled rates where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Interval>,
    /// What it means.
    pub verdict: Verdict,
    /// Why it is not ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a row is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// The plan's reference row, fixed before anything was measured.
    Plan,
    /// The row with the highest rate of its phase, known only afterwards: its interval is simultaneous over all
    /// pairs of the phase.
    Best,
    /// A baseline that keeps the same blobs on the same device: the ratio is a fact, and nobody is judged by it.
    Baseline,
}

/// A size at which one row overtakes another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crossover {
    /// The phase.
    pub phase: String,
    /// The faster row below that size.
    pub below: String,
    /// The faster row above it.
    pub above: String,
    /// The size at which both are equally fast, interpolated.
    pub bytes: u64,
    /// The largest tested size at which `below` is proved to be faster.
    pub low: u64,
    /// The smallest tested size above it at which `above` is proved to be faster.
    pub high: u64,
}

/// A published statement and what this run says of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// Its id in the plan.
    pub id: String,
    /// What was claimed.
    pub statement: String,
    /// The rows it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// The published figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// The same figure of this run. With sub-claims that are judged together, its interval is wider than one by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub today: Option<Interval>,
    /// What this run says of the statement.
    pub verdict: ClaimVerdict,
    /// What it says of the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub magnitude: Option<Magnitude>,
    /// Why it is not testable, why the published figures are impossible, and what else a reader must know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Its sub-claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Claim>,
}

/// What a run says of a published statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The whole interval lies where the statement says.
    Confirmed,
    /// The whole interval lies elsewhere.
    Refuted,
    /// The interval reaches across, or both sides are proved to be equal where one was said to be better.
    CannotTellApart,
    /// This run has not what it needs; the note says what.
    NotTestable,
}

impl ClaimVerdict {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            ClaimVerdict::Confirmed => "confirmed",
            ClaimVerdict::Refuted => "refuted",
            ClaimVerdict::CannotTellApart => "cannot tell apart",
            ClaimVerdict::NotTestable => "not testable",
        }
    }
}

/// How today's figure compares with the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Magnitude {
    /// The whole interval lies within a factor of 2 of it.
    Holds,
    /// The interval reaches across that.
    Open,
    /// The whole interval lies beyond that.
    Refuted,
}

impl Magnitude {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Magnitude::Holds => "magnitude holds",
            Magnitude::Open => "magnitude open",
            Magnitude::Refuted => "other magnitude",
        }
    }
}

/// A reason not to trust a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Doubt {
    /// What sort of doubt.
    pub kind: String,
    /// What is doubtful and why, with the numbers.
    pub text: String,
    /// What would remove it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The rows it is about; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<String>,
    /// The phase it is about, if one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Whether it was seen while the run went on; the others are worked out from the figures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_running: bool,
}

/// The yardsticks at the start or end of a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rail {
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
    /// The cache of a server that other rows use too.
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
            VerifiedFrom::SharedServer => "its server's cache: shared by rows, not restarted",
            VerifiedFrom::UsersServer => "its server's cache: given by URL, not restarted",
            VerifiedFrom::NotKept => "what it held while open: it keeps nothing beyond that",
        }
    }
}

/// One row of one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreRound {
    /// The round.
    pub round: u32,
    /// The row's label.
    pub store: String,
    /// The size a sweep varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_bytes: Option<u64>,
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

/// A round that was disturbed and measured again, as it was measured first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetAside {
    /// The round.
    pub round: u32,
    /// What spoke against it.
    pub why: Vec<Disturbance>,
    /// Its rows.
    pub visits: Vec<StoreRound>,
    /// Their phases.
    pub figures: Vec<SetAsideRound>,
}

/// One row in one phase of such a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetAsideRound {
    /// The row's label.
    pub store: String,
    /// The size a sweep varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_bytes: Option<u64>,
    /// The phase.
    pub phase: String,
    /// What was measured.
    pub measured: Round,
}

/// What speaks against a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// The round.
    pub round: u32,
    /// The row in which it was seen; absent where it is about all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// The phase in which it was seen; absent where it is about all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The size a sweep varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_bytes: Option<u64>,
    /// What was seen.
    pub cause: Cause,
}

/// What was seen of a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// Its figure lies far from those of the other rounds.
    Far {
        /// The time of an op over its mean in the others.
        times: f64,
    },
    /// A warm phase read from the device, as it did in few other rounds or none.
    ReadsDevice {
        /// Bytes that were read from the device.
        read_bytes: u64,
        /// Bytes of blobs that were read.
        delivered_bytes: u64,
        /// Whether all files of the store were in the page cache when the phase ended.
        cached: bool,
    },
    /// Others used the disk.
    OthersIo {
        /// Bytes that were read for them.
        read_bytes: u64,
        /// Bytes that were written beyond what the same phase wrote in other rounds.
        written_bytes: u64,
    },
    /// The processor was slower or faster than in other rounds.
    Processor {
        /// The time of a fixed piece of work over its median in the others.
        times: f64,
    },
}

impl RunResult {
    /// Reads a result file, or the one in a run's directory, and checks every number in it.
    pub fn load(path: &Path) -> Result<RunResult> {
        let file = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
        let text = crate::input::read_text(&file, RESULT_BYTES_MAX)
            .with_context(|| format!("cannot read `{}`", file.display()))?;
        let version: Version = serde_json::from_str(&text)
            .with_context(|| format!("`{}` is not a result of blobwise", file.display()))?;
        if version.schema != SCHEMA {
            bail!("`{}` has format {}; this program reads format {SCHEMA}", file.display(), version.schema);
        }
        let damaged = || format!("`{}` is damaged", file.display());
        let result = serde_json::from_str(&text).with_context(damaged)?;
        check::check(&serde_json::from_str(&text).with_context(damaged)?).with_context(damaged)?;
        Ok(result)
    }

    /// The rows that could run.
    pub fn rows_here(&self) -> impl Iterator<Item = &RowResult> {
        self.rows.iter().filter(|row| row.is_here())
    }

    /// Whether it is about pages that a browser loads: what is asked of them is not what is asked of stores.
    pub fn shows_pages(&self) -> bool {
        self.rows.iter().any(RowResult::is_here) && self.rows_here().all(|row| row.kind == Some(Kind::Page))
    }

    /// Its corpora: one, or those of a sweep or of a plan that has several.
    pub fn all_corpora(&self) -> &[CorpusResult] {
        if self.corpora.is_empty() { std::slice::from_ref(&self.corpus) } else { &self.corpora }
    }

    /// Replaces the result file of a run's directory as a whole: a reader sees the old one or the new one.
    pub fn save(&self, out: &Path) -> Result<()> {
        let text = serde_json::to_string(self)?;
        replace(&out.join("result.json"), text.as_bytes())
    }
}

/// Replaces a file as a whole. Where it cannot be written, the one before stays.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let draft = path.with_extension("draft");
    let write = || -> std::io::Result<()> {
        std::fs::write(&draft, bytes)?;
        std::fs::rename(&draft, path)
    };
    let written = write();
    if written.is_err() {
        // It may take the room that others need, and nobody reads it.
        std::fs::remove_file(&draft).ok();
    }
    written.with_context(|| format!("cannot write `{}`", path.display()))
}

#[derive(Deserialize)]
struct Version {
    schema: u32,
}
