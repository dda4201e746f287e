//! Reasons not to trust a number, as data for other modules. Their wording is in `src/words/`.

use std::mem::discriminant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cause, VerifiedFrom};
use crate::corpus::CorpusId;
use crate::host::machine::ReplacedFlushes;
use crate::plan::text::whole_of;

/// Phases, and the candidates affected in each of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AffectedPhases {
    /// Affected phases. A phase in parts is listed once.
    pub phases: Vec<AffectedPhase>,
    /// Labels of the affected candidates.
    pub stores: Vec<String>,
    /// True if these are all candidates except baselines, and more than two.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every_candidate: bool,
}

impl AffectedPhases {
    /// True if the candidate is affected in this phase.
    fn is_about(&self, store: &str, phase: &str) -> bool {
        let is_named = |partly: &AffectedPhase| partly.phase == phase || partly.phase == whole_of(phase);
        (self.every_candidate || self.stores.iter().any(|other| other == store))
            && self.phases.iter().any(is_named)
    }
}

/// Phase, affected wholly or in part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AffectedPhase {
    /// Id of the phase.
    pub phase: String,
    /// True if only some of its parts or corpora are affected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_part: bool,
}

/// Candidate with a share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CandidateShare {
    /// Label of the candidate.
    pub store: String,
    /// Share, from 0 to 1; above 1 if it exceeds the whole.
    pub share: f64,
}

/// Candidates whose blobs were compared with the same kind of copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonSource {
    /// Source of the comparison.
    pub from: VerifiedFrom,
    /// Labels of the candidates.
    pub stores: Vec<String>,
}

/// Aspect of the machine's speed that a probe measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Speed {
    /// An op on the null store, on one CPU.
    Processor,
    /// A flush of the device.
    Flush,
    /// A direct read of 4 KiB from the device.
    Read,
    /// The round trip of one byte to a thread on another CPU.
    Trip,
}

/// Anomalies of one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundAnomalies {
    /// Number of the round.
    pub round: u32,
    /// True if these are figures of its second measurement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Anomalies.
    pub seen: Vec<Anomaly>,
}

/// Anomaly in a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "seen", rename_all = "kebab-case")]
pub enum Anomaly {
    /// The CPU ran at another speed.
    Processor {
        /// Time of a fixed piece of work divided by its median in the other rounds.
        times: f64,
    },
    /// Most candidates of a phase slowed down or sped up alike, so the machine was the cause.
    MostCandidates {
        /// Id of the phase.
        phase: String,
        /// Corpus of the run.
        #[serde(default, skip_serializing_if = "CorpusId::is_only")]
        corpus_id: CorpusId,
        /// Smallest ratio of a candidate's time to that in other rounds.
        low: f64,
        /// Largest such ratio.
        high: f64,
    },
    /// One candidate in one phase.
    Candidate {
        /// Label of the candidate.
        store: String,
        /// Id of the phase.
        phase: String,
        /// Corpus of the run.
        #[serde(default, skip_serializing_if = "CorpusId::is_only")]
        corpus_id: CorpusId,
        /// Evidence.
        causes: Vec<Cause>,
    },
    /// Further candidates that are not listed.
    More {
        /// Number of candidates.
        candidates: u64,
    },
    /// Other programs used the same disk.
    Others(ForeignActivity),
}

/// Activity of other programs on the same disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForeignActivity {
    /// Bytes read for other programs.
    pub read_bytes: u64,
    /// Bytes written for other programs.
    pub written_bytes: u64,
    /// Ids of the phases during which this happened.
    pub phases: Vec<String>,
    /// True if they may have re-read what they lost when cold passes dropped the kernel's caches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub perhaps_for_us: bool,
}

/// Disturbed rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DisturbedRounds {
    /// Rounds with anomalies.
    pub rounds: Vec<RoundAnomalies>,
    /// Rounds in which other programs used the disk, if most rounds are affected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usual_rounds: Vec<u32>,
    /// Activity of other programs in these rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<ForeignActivity>,
    /// Labels of all candidates with anomalies.
    pub stores: Vec<String>,
}

impl DisturbedRounds {
    /// True if an anomaly concerns this candidate in this phase, or the whole round.
    fn is_about(&self, store: &str, phase: &str) -> bool {
        let of_others = |others: &ForeignActivity| others.phases.iter().any(|other| other == whole_of(phase));
        let seen = self.rounds.iter().flat_map(|round| &round.seen).any(|seen| match seen {
            Anomaly::Processor { .. } => true,
            Anomaly::MostCandidates { phase: other, .. } => other == phase,
            Anomaly::Candidate { store: of, phase: other, .. } => of == store && other == phase,
            // For unlisted anomalies only the candidates are known.
            Anomaly::More { .. } => self.stores.iter().any(|other| other == store),
            Anomaly::Others(others) => of_others(others),
        });
        seen || self.usual.as_ref().is_some_and(of_others)
    }
}

/// Rounds dropped to keep to the budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedRounds {
    /// Intended number of rounds.
    pub wanted: u32,
    /// Number of rounds that are made.
    pub made: u32,
    /// Seconds that the intended rounds would take.
    pub wanted_seconds: f64,
    /// True if blobs could not be dropped instead, because their number was set by the user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub size_stands: bool,
}

/// Reason why a flush may not make data durable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum FlushDoubt {
    /// File systems are mounted with options that suppress flushes.
    NotPassedOn {
        /// File systems with the option, such as `ext4 (nobarrier)`.
        layers: Vec<String>,
    },
    /// Half of the flushes took less than a round trip to a device.
    TooQuick {
        /// Median flush time, in nanoseconds.
        p50_ns: f64,
    },
    /// The layers below cannot be inspected.
    NotKnown {
        /// Layers as far down as they are known.
        layers: Vec<String>,
    },
}

/// Reason not to trust a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    // ---- of the machine and the program, before anything is measured ------------------------------------------------
    /// The program was built without optimization.
    DebugBuild,
    /// The CPU's own time counter cannot be used.
    Clock,
    /// Libraries were injected into the program.
    Preloaded {
        /// Environment variables or files that inject them, with the libraries.
        settings: Vec<String>,
        /// Flushing functions that they replace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replaced: Vec<ReplacedFlushes>,
    },
    /// The measured directory is on an in-memory file system.
    Tmpfs {
        /// Layers below it, the topmost first; empty in results of earlier versions, which recognized only the first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        layers: Vec<String>,
    },
    /// Flushes may not make data durable, so no durability class is granted in the measured directory.
    Flushes {
        /// Reasons for the doubt.
        doubts: Vec<FlushDoubt>,
    },
    /// The file system has no journal and keeps track of recent deletions, which slows down creating files.
    NoJournal,
    /// Another program used the CPUs before the run.
    Noise {
        /// Share of all CPUs that it used, from 0 to 1.
        share: f64,
    },
    /// The machine is virtual.
    VirtualMachine,
    /// Cold phases are only lukewarm, because the kernel's caches cannot be dropped.
    Lukewarm,
    /// The corpus fits into memory.
    CorpusInMemory {
        /// Size of the largest corpus, in bytes.
        corpus_bytes: u64,
        /// Memory size, in bytes.
        memory_bytes: u64,
    },
    /// The corpus fits into the CPU cache, wholly or in part.
    ProcessorCache {
        /// Size of the largest corpus, in bytes.
        corpus_bytes: u64,
        /// Size of the CPU cache, in bytes.
        cache_bytes: u64,
    },
    /// A layer below the device has a cache.
    HostCache,
    /// It is unknown whether a layer below the device has a cache, because the test was not possible.
    HostCacheUnknown,
    // ---- of the run, while it goes on -------------------------------------------------------------------------------
    /// Reductions made to keep to the budget.
    Budget {
        /// Share of the blobs that were kept, from 0 to 1; absent if all were.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        corpus_share: Option<f64>,
        /// Dropped rounds; absent if there are none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rounds: Option<DroppedRounds>,
        /// True if cold phases were shortened.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cold_is_short: bool,
        /// Candidate that takes most of a round's time, with its share from 0 to 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slowest: Option<(String, f64)>,
    },
    /// The budget was used up before all rounds were made.
    BudgetSpent {
        /// Number of completed rounds.
        rounds: u32,
    },
    /// A store's version changed during the run.
    OtherVersion {
        /// Label of the candidate.
        store: String,
        /// Old and new version.
        change: String,
    },
    /// A server's own settings give weaker durability than its class requires, on some disks.
    Weaker {
        /// Label of the candidate.
        store: String,
        /// Which guarantee is weaker, and where; one sentence.
        why: String,
    },
    /// The hypervisor gave CPU time to other guests during the run (steal time).
    Steal {
        /// Share of all CPUs, from 0 to 1.
        share: f64,
    },
    // ---- of the figures ---------------------------------------------------------------------------------------------
    /// There are fewer rounds than verdicts require.
    FewRounds {
        /// Number of rounds.
        rounds: u32,
    },
    /// The run was stopped early.
    Incomplete {
        /// Number of rounds measured, wholly or in part.
        rounds: u32,
    },
    /// The run took longer than its budget.
    OverBudget {
        /// Budget in seconds.
        asked_seconds: f64,
        /// Duration of the run in seconds.
        took_seconds: f64,
    },
    /// Figures are too short to be ranked.
    TooShort {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
        /// True if more passes of a server's cold phase would help.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_cut_short: bool,
    },
    /// Short phases are bounded by the device limit, which grants part of its rate as a burst.
    AheadOfLimit {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
        /// Upper bound of the burst, as a share of the time of the shortest of these rounds; 1 if that round fits into
        /// the burst.
        share_max: f64,
    },
    /// The harness takes more than a tenth of an op.
    HarnessShare {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    },
    /// The harness takes so much of an op that nothing is ranked.
    ClientBound {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    },
    /// At least a third of each op is CPU wake-up latency.
    Waking {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
        /// Round-trip time of one byte to a thread on another CPU, in nanoseconds.
        far_ns: f64,
        /// Round-trip time on one CPU, in nanoseconds.
        near_ns: f64,
        /// True if the CPUs had been kept from sleeping.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_awake: bool,
    },
    /// Reads take about as long as a delayed acknowledgement.
    PutOff {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    },
    /// The CPUs were kept from sleeping.
    Awake {
        /// Round-trip time of one byte to a thread on another CPU, in nanoseconds.
        far_ns: f64,
        /// Round-trip time on one CPU, in nanoseconds.
        near_ns: f64,
    },
    /// The fastest candidate in warm reads depends on how the bytes are used.
    UseOfBytes {
        /// Fastest candidates if one byte of each cache line is read.
        touched: Vec<String>,
        /// Fastest candidates if all bytes are copied.
        copied: Vec<String>,
    },
    /// A phase was not cold because the store reads its data when it is opened.
    Resident {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    },
    /// Part of the data stayed in the page cache.
    StillInMemory {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    },
    /// Attempts were repeated.
    Retries {
        /// Number of repeated attempts.
        attempts: u64,
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    },
    /// Requests missed the cache in front of the blobs.
    CacheMisses {
        /// Number of misses.
        answers: u64,
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    },
    /// Ops timed out.
    Timeouts {
        /// Number of ops.
        ops: u64,
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    },
    /// Workers woke late for their ops.
    WakeLate {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    },
    /// A client was slower than the others. If it finishes last, it alone lowers the rate.
    SlowClient {
        /// MPI rank of the client.
        client: u32,
        /// Smallest ratio of its rate to that of the median client.
        share: f64,
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    },
    /// Each client had a store of its own, so rates are sums over separate stores.
    OneForEachClient {
        /// Number of clients.
        clients: usize,
        /// Labels of the candidates.
        stores: Vec<String>,
    },
    /// Network distance was simulated by delays.
    Distance,
    /// All ops of a phase request the same blob.
    SameBlob {
        /// Ids of the phases.
        phases: Vec<String>,
    },
    /// Writes to servers provided by the user are timed until acknowledged only.
    NotSettled {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    },
    /// Much of the work of writes was done between phases, where it counts in no rate.
    CaughtUp {
        /// Time of that work relative to the write phases, by candidate.
        shares: Vec<CandidateShare>,
    },
    /// Blobs may have been compared with cached copies.
    ComparedInCache {
        /// Candidates by the kind of copy.
        copies: Vec<ComparisonSource>,
    },
    /// The blobs exceed the stores' own caches, and the page cache held the files of only some candidates. The others
    /// had to read from the device.
    UnequalMemory {
        /// Size of each store's own cache, in bytes.
        cache_bytes: u64,
        /// Total size of the blobs.
        corpus_bytes: u64,
        /// Candidates whose files were in the page cache.
        held: Vec<String>,
        /// Candidates whose files were not in the page cache.
        not_held: Vec<String>,
    },
    /// The plan sets the size of the stores' own caches, instead of the share of memory that their vendors recommend.
    OwnCache {
        /// Size of each store's own cache, in bytes.
        cache_bytes: u64,
    },
    /// Candidates with little memory read much more from the device than was requested.
    ReadsMore {
        /// Device bytes read per byte delivered, the maximum over all phases, by candidate.
        shares: Vec<CandidateShare>,
        /// Read-ahead of the kernel, in bytes.
        read_ahead_bytes: Option<u64>,
    },
    /// The blobs are compressible.
    Compressible {
        /// Compression ratio with deflate: original size divided by compressed size.
        deflate_ratio: f64,
    },
    /// The machine's speed changed during the run.
    Drift {
        /// Aspect that changed.
        what: Speed,
        /// Shortest time of the probe, in nanoseconds.
        low_ns: f64,
        /// Longest time of the probe, in nanoseconds.
        high_ns: f64,
    },
    /// Rounds that count in the figures were disturbed.
    Disturbed(DisturbedRounds),
    /// Rounds were repeated because they were disturbed.
    RepeatedRounds(DisturbedRounds),
}

/// Effect of a warning on the answer, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The answer may be wrong because of it, or is about fewer blobs than requested.
    InvalidatesAnswer,
    /// It limits the scope of the answer, or excludes a candidate or a kind of work.
    LimitsAnswer,
    /// Information only; the answer stands.
    Note,
}

impl Warning {
    /// True if a reader has to know it before any other: not all was measured, or nothing of it is kept on a disk.
    pub fn comes_first(&self) -> bool {
        matches!(
            self,
            Warning::Incomplete { .. }
                | Warning::BudgetSpent { .. }
                | Warning::Preloaded { .. }
                | Warning::Tmpfs { .. }
        )
    }

    /// Returns its effect on the answer. Ratios are paired by round, so a slowdown of all candidates alike does not
    /// invalidate the answer.
    pub fn severity(&self) -> Severity {
        match self {
            Warning::DebugBuild
            | Warning::Clock
            | Warning::Preloaded { .. }
            | Warning::Tmpfs { .. }
            | Warning::Flushes { .. }
            | Warning::Budget { .. }
            | Warning::BudgetSpent { .. }
            | Warning::OtherVersion { .. }
            | Warning::FewRounds { .. }
            | Warning::Incomplete { .. }
            | Warning::UnequalMemory { .. }
            | Warning::OwnCache { .. }
            | Warning::Timeouts { .. }
            | Warning::WakeLate { .. }
            | Warning::PutOff { .. }
            | Warning::SameBlob { .. }
            | Warning::NotSettled { .. }
            | Warning::UseOfBytes { .. }
            | Warning::Disturbed(_) => Severity::InvalidatesAnswer,
            Warning::NoJournal
            | Warning::Weaker { .. }
            | Warning::Noise { .. }
            | Warning::Steal { .. }
            | Warning::Lukewarm
            | Warning::HostCache
            | Warning::ProcessorCache { .. }
            | Warning::TooShort { .. }
            | Warning::AheadOfLimit { .. }
            | Warning::ClientBound { .. }
            | Warning::Waking { .. }
            | Warning::Awake { .. }
            | Warning::Resident { .. }
            | Warning::StillInMemory { .. }
            | Warning::Retries { .. }
            | Warning::CacheMisses { .. }
            | Warning::SlowClient { .. }
            | Warning::OneForEachClient { .. }
            | Warning::CaughtUp { .. }
            | Warning::ReadsMore { .. }
            | Warning::Drift { .. } => Severity::LimitsAnswer,
            Warning::VirtualMachine
            | Warning::CorpusInMemory { .. }
            | Warning::HostCacheUnknown
            | Warning::OverBudget { .. }
            | Warning::HarnessShare { .. }
            | Warning::Distance
            | Warning::ComparedInCache { .. }
            | Warning::Compressible { .. }
            | Warning::RepeatedRounds(_) => Severity::Note,
        }
    }

    /// True if it concerns this candidate in this phase; warnings about the whole run always do.
    pub fn bears_on(&self, store: &str, phase: &str) -> bool {
        let has = |stores: &[String]| stores.iter().any(|other| other == store);
        let of_shares = |shares: &[CandidateShare]| shares.iter().any(|share| share.store == store);
        match self {
            Warning::TooShort { places, .. }
            | Warning::AheadOfLimit { places, .. }
            | Warning::HarnessShare { places }
            | Warning::ClientBound { places }
            | Warning::Waking { places, .. }
            | Warning::Resident { places }
            | Warning::StillInMemory { places }
            | Warning::Retries { places, .. }
            | Warning::CacheMisses { places, .. }
            | Warning::Timeouts { places, .. }
            | Warning::WakeLate { places }
            | Warning::PutOff { places }
            | Warning::NotSettled { places } => places.iter().any(|place| place.is_about(store, phase)),
            Warning::CaughtUp { shares } | Warning::ReadsMore { shares, .. } => of_shares(shares),
            Warning::ComparedInCache { copies } => copies.iter().any(|copy| has(&copy.stores)),
            Warning::UnequalMemory { held, not_held, .. } => has(held) || has(not_held),
            Warning::UseOfBytes { touched, copied } => has(touched) || has(copied),
            Warning::SameBlob { phases } => phases.iter().any(|other| other == whole_of(phase)),
            Warning::OtherVersion { store: other, .. } | Warning::Weaker { store: other, .. } => {
                other == store
            }
            Warning::Disturbed(disturbed) | Warning::RepeatedRounds(disturbed) => {
                disturbed.is_about(store, phase)
            }
            _ => true,
        }
    }

    /// True if it is detected during the run; other warnings are derived from the figures.
    pub fn is_of_run(&self) -> bool {
        matches!(
            self,
            Warning::DebugBuild
                | Warning::Clock
                | Warning::Preloaded { .. }
                | Warning::Tmpfs { .. }
                | Warning::NoJournal
                | Warning::Noise { .. }
                | Warning::VirtualMachine
                | Warning::Lukewarm
                | Warning::CorpusInMemory { .. }
                | Warning::ProcessorCache { .. }
                | Warning::HostCache
                | Warning::HostCacheUnknown
                | Warning::Budget { .. }
                | Warning::BudgetSpent { .. }
                | Warning::OtherVersion { .. }
                | Warning::Weaker { .. }
                | Warning::Steal { .. }
        )
    }

    /// True for a budget warning that reports no reduction.
    pub fn says_nothing(&self) -> bool {
        matches!(self, Warning::Budget { corpus_share: None, rounds: None, cold_is_short: false, .. })
    }

    /// True if a run should report only one of the two: they say the same, about the same candidates.
    pub fn repeats(&self, other: &Warning) -> bool {
        match (self, other) {
            (Warning::OtherVersion { store, .. }, Warning::OtherVersion { store: known, .. })
            | (Warning::Weaker { store, .. }, Warning::Weaker { store: known, .. }) => store == known,
            _ => discriminant(self) == discriminant(other),
        }
    }
}
