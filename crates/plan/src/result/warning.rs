//! Reasons not to trust a number: the data of each, its effect on the answer, its wording and what to try.

use std::fmt::Write;
use std::mem::discriminant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cause, VerifiedFrom};
use crate::corpus::CorpusId;
use crate::host::machine::ReplacedFlushes;
use crate::plan::text::whole_of;
use crate::rules::{
    COLD_BLOBS_SERVERS, LIMIT_AHEAD_S, LIMIT_AHEAD_SHARE, PROCESSOR_CACHE_TIMES, PUT_OFF_MS_MAX,
    PUT_OFF_MS_MIN, VERDICT_ROUNDS,
};
use crate::units::{self, bytes, counted, nanoseconds, percent, seconds};

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

with_details! {
    /// Reason not to trust a number.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "kebab-case")]
    pub enum Warning;
    /// Returns its effect, its scope, its wording and what to try.
    pub fn details -> WarningDetails<'_>;

    // ---- of the machine and the program, before anything is measured ------------------------------------------------
    /// The program was built without optimization.
    DebugBuild => invalidates(
        "This is a debug build: the harness and the embedded stores are many times slower than in a release build.",
    )
    .suggest("`cargo build --release`")
    .of_run();
    /// The CPU's own time counter cannot be used.
    Clock => invalidates(
        "The processor's cycle counter is not invariant here, so blobwise reads the system's clock, which costs more.",
    )
    .of_run();
    /// Libraries were injected into the program.
    Preloaded {
        /// Environment variables or files that inject them, with the libraries.
        settings: Vec<String>,
        /// Flushing functions that they replace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replaced: Vec<ReplacedFlushes>,
    } => invalidates(preloaded(settings, replaced))
        .suggest("`env -u LD_PRELOAD -u LD_AUDIT blobwise run`")
        .of_run()
        .first();
    /// The measured directory is on an in-memory file system.
    Tmpfs {
        /// Layers below it, the topmost first; empty in results of earlier versions, which recognized only the first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        layers: Vec<String>,
    } => invalidates(format!(
        "The measured directory lies in memory ({}), so the figures say nothing about a disk, and a power cut takes everything.",
        if layers.is_empty() { "tmpfs".to_owned() } else { layers.join(" on ") }
    ))
    .suggest("another `--dir`, on a disk")
    .of_run()
    .first();
    /// Flushes may not make data durable, so no durability class is granted in the measured directory.
    Flushes {
        /// Reasons for the doubt.
        doubts: Vec<FlushDoubt>,
    } => {
        // A container's layer cannot be mounted again with other options.
        let is_mounted = |doubt: &FlushDoubt| matches!(doubt, FlushDoubt::NotPassedOn { layers } if !layers.iter().any(|layer| layer.starts_with("overlay")));
        invalidates(format!(
            "{} So nothing is promised to survive a power cut.",
            doubted("It is not known whether a flush is durable here", doubts)
        ))
        .suggest(match doubts.iter().any(is_mounted) {
            true => "`mount -o remount,barrier`, or `--dir` on another disk",
            false => "a `--dir` on a disk of this machine",
        })
    };
    /// The file system has no journal and keeps track of recent deletions, which slows down creating files.
    NoJournal => limits(
        "The file system is ext4 without a journal, which creates files more slowly after recent deletes. Overwrites and \
         deletes slow what follows them.",
    )
    .suggest("a `--dir` on a file system with a journal")
    .of_run();
    /// Another program used the CPUs before the run.
    Noise {
        /// Share of all CPUs that it used, from 0 to 1.
        share: f64,
    } => limits(format!("Something else used {} of the processors before the run.", percent(*share))).of_run();
    /// The machine is virtual.
    VirtualMachine => note(
        "This is a virtual machine: its neighbours and its host's caches are invisible from inside.",
    )
    .of_run();
    /// Cold phases are only lukewarm, because the kernel's caches cannot be dropped.
    Lukewarm => limits(
        "Cold phases are lukewarm: the kernel's caches of inodes and dentries cannot be dropped. Files are not ranked against \
         databases in them.",
    )
    .suggest("`sudo blobwise run`, without `--no-drop-caches`")
    .of_run();
    /// The corpus fits into memory.
    CorpusInMemory {
        /// Size of the largest corpus, in bytes.
        corpus_bytes: u64,
        /// Memory size, in bytes.
        memory_bytes: u64,
    } => note(format!(
        "The corpus ({}) fits into memory ({}): warm reads come from there. Cold reads do not.",
        bytes(*corpus_bytes as f64),
        bytes(*memory_bytes as f64)
    ))
    .suggest(format!("`--corpus-bytes {}`", bytes(2.0 * *memory_bytes as f64).replace(' ', "")))
    .of_run();
    /// The corpus fits into the CPU cache, wholly or in part.
    ProcessorCache {
        /// Size of the largest corpus, in bytes.
        corpus_bytes: u64,
        /// Size of the CPU cache, in bytes.
        cache_bytes: u64,
    } => {
        // 10 % more, because whole blobs do not fill it to the last byte, and the warning should not appear again.
        let enough = (1.1 * PROCESSOR_CACHE_TIMES * *cache_bytes as f64 / 1e6).ceil();
        limits(format!(
            "The corpus ({}) is less than {PROCESSOR_CACHE_TIMES} times the processor's cache ({}): warm reads of whole blobs \
             come in part from there. With more data they take longer, most of all in the fastest stores.",
            bytes(*corpus_bytes as f64),
            bytes(*cache_bytes as f64)
        ))
        .suggest(format!("`--corpus-bytes {enough}MB`"))
        .of_run()
    };
    /// A layer below the device has a cache.
    HostCache => limits(
        "Cold reads are cold for this system only. Reading the same blocks again takes the device under half the time, so \
         something below it has a cache, such as the host of this virtual machine. Trust ratios more than times.",
    )
    .of_run();
    /// It is unknown whether a layer below the device has a cache, because the test was not possible.
    HostCacheUnknown => note("blobwise could not test whether something below the device has a cache.").of_run();
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
    } => {
        let gave = of_budget(*corpus_share, rounds.as_ref(), *cold_is_short);
        match slowest {
            Some((store, share)) => invalidates(format!("{gave} `{store}` takes {} of a round.", percent(*share)))
                .suggest(format!("a larger `--budget`, or `--stores` without `{store}`")),
            None => invalidates(gave).suggest("a larger `--budget`"),
        }
        .of_run()
    };
    /// The budget was used up before all rounds were made.
    BudgetSpent {
        /// Number of completed rounds.
        rounds: u32,
    } => invalidates(format!(
        "The budget was spent after {}: the machine was slower than in the pilot.",
        counted(*rounds, "round")
    ))
    .suggest("a larger `--budget`")
    .of_run()
    .first();
    /// A store's version changed during the run.
    OtherVersion {
        /// Label of the candidate.
        store: String,
        /// Old and new version.
        change: String,
    } => invalidates(format!("`{store}` changed during the run ({change}), so its rounds mix both versions."))
        .about([store])
        .of_run();
    /// A server's own settings give weaker durability than its class requires, on some disks.
    Weaker {
        /// Label of the candidate.
        store: String,
        /// Which guarantee is weaker, and where; one sentence.
        why: String,
    } => limits(format!("`{store}`: {why}")).about([store]).of_run();
    /// The hypervisor gave CPU time to other guests during the run (steal time).
    Steal {
        /// Share of all CPUs, from 0 to 1.
        share: f64,
    } => limits(format!(
        "The host gave {:.1} % of the processor time to other guests during the run.",
        share * 100.0
    ))
    .of_run();
    // ---- of the figures ---------------------------------------------------------------------------------------------
    /// There are fewer rounds than verdicts require.
    FewRounds {
        /// Number of rounds.
        rounds: u32,
    } => match rounds {
        0 | 1 => {
            invalidates("One round shows no repetition, so nothing is ranked.")
        }
        _ => invalidates(format!(
            "With {rounds} rounds, fewer than {VERDICT_ROUNDS}, nobody leads and no place is recommended."
        )),
    }
    .suggest("`--rounds 5`");
    /// The run was stopped early.
    Incomplete {
        /// Number of rounds measured, wholly or in part.
        rounds: u32,
    } => {
        let wide = match *rounds {
            1 => ": nothing is ranked",
            few if few < VERDICT_ROUNDS => ": intervals are wide",
            _ => "",
        };
        match rounds {
            0 => invalidates("The run was ended early: all rounds are missing."),
            _ => invalidates(format!("The run was ended early, after {}{wide}.", counted(*rounds, "round"))),
        }
        .suggest("`blobwise run --resume DIR`")
        .first()
    };
    /// The run took longer than its budget.
    OverBudget {
        /// Budget in seconds.
        asked_seconds: f64,
        /// Duration of the run in seconds.
        took_seconds: f64,
    } => note(format!(
        "The run took {} instead of {}, because it finished what it had begun when the budget was spent.",
        seconds(*took_seconds),
        seconds(*asked_seconds)
    ))
    .suggest("fewer `--stores` or `--phases`");
    /// Figures are too short to be ranked.
    TooShort {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
        /// True if more passes of a server's cold phase would help.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_cut_short: bool,
        /// True if the numbers of blobs are those of a growth, so that more blobs are no remedy.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_growth: bool,
    } => {
        let told = limits(format!("Too short to be ranked: {}.", listed(places))).at(places);
        match (*is_growth, *is_cut_short) {
            (true, _) => told,
            (_, true) => told.suggest(format!("`--blobs {COLD_BLOBS_SERVERS}` with a larger `--budget`")),
            (_, false) => told.suggest("more `--blobs`, or `--rounds 5`"),
        }
    };
    /// Short phases are bounded by the device limit, which grants part of its rate as a burst.
    AheadOfLimit {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
        /// Upper bound of the burst, as a share of the time of the shortest of these rounds; 1 if that round fits into
        /// the burst.
        share_max: f64,
    } => limits(format!(
        "A device limit allows up to {LIMIT_AHEAD_S} s of its rate in advance, and more with several devices. So work shorter \
         than {} s looks faster, by {}: {}.",
        LIMIT_AHEAD_S / LIMIT_AHEAD_SHARE,
        ahead_by(*share_max),
        listed(places)
    ))
    .at(places)
    .suggest("more `--blobs`, or a larger `--scale` of a plan");
    /// The harness takes more than a tenth of an op.
    HarnessShare {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    } => note(format!(
        "The harness is more than 10 % of an op: the stores are faster than shown in {}.",
        listed(places)
    ))
    .at(places);
    /// The harness takes so much of an op that nothing is ranked.
    ClientBound {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    } => limits(format!("Not ranked, because more than 30 % of an op is the harness: {}.", listed(places))).at(places);
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
    } => {
        let waking = limits(format!(
            "At least a third of each op is CPU wake-up latency: {}. A byte to a thread on another CPU and back takes {}, and \
             {} on the same one. Stores inside the process do not wait for that.",
            listed(places),
            nanoseconds(*far_ns),
            nanoseconds(*near_ns)
        ))
        .at(places);
        if *is_awake { waking } else { waking.suggest("`sudo blobwise run --awake`") }
    };
    /// Reads take about as long as a delayed acknowledgement.
    PutOff {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    } => invalidates(format!(
        "Half of the reads take {PUT_OFF_MS_MIN} to {PUT_OFF_MS_MAX} ms, as long as the kernel delays an acknowledgement: {}. Unless \
         the server is that far away, it holds back the end of an answer (Nagle's algorithm) and is faster with `TCP_NODELAY`.",
        listed(places)
    ))
    .at(places);
    /// The CPUs were kept from sleeping.
    Awake {
        /// Round-trip time of one byte to a thread on another CPU, in nanoseconds.
        far_ns: f64,
        /// Round-trip time on one CPU, in nanoseconds.
        near_ns: f64,
    } => limits(format!(
        "CPUs did not sleep (`--awake`): a byte to a thread on another CPU and back took {}, and {} on the same one. Where CPUs \
         sleep, other processes answer later.",
        nanoseconds(*far_ns),
        nanoseconds(*near_ns)
    ))
    .suggest("`blobwise run` without `--awake`");
    /// The fastest candidate in warm reads depends on how the bytes are used.
    UseOfBytes {
        /// Fastest candidates if one byte of each cache line is read.
        touched: Vec<String>,
        /// Fastest candidates if all bytes are copied.
        copied: Vec<String>,
    } => invalidates(format!(
        "The winner depends on what you do with the bytes: {} when one byte of each cache line is read, {} when all are copied. \
         Choose by what your program does.",
        touched.join(", "),
        copied.join(", ")
    ))
    .about(touched.iter().chain(copied));
    /// A phase was not cold because the store reads its data when it is opened.
    Resident {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    } => limits(format!(
        "Not cold although everything was evicted, because the store reads its data on opening: {}.",
        listed(places)
    ))
    .at(places)
    .suggest("`--corpus-bytes` above the store's cache");
    /// Part of the data stayed in the page cache.
    StillInMemory {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    } => limits(format!("Part of the data stayed in the page cache after eviction: {}.", listed(places))).at(places);
    /// Attempts were repeated.
    Retries {
        /// Number of repeated attempts.
        attempts: u64,
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    } => limits(format!(
        "{} made again because a store was busy or had closed the connection: {}.",
        were(*attempts, "attempt"),
        listed(places)
    ))
    .at(places)
    .suggest("fewer `--workers`");
    /// Requests missed a cache.
    CacheMisses {
        /// Number of misses.
        answers: u64,
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    } => limits(format!(
        "{} not in a cache, and came from behind it or not at all: {}.",
        were(*answers, "answer"),
        listed(places)
    ))
    .at(places);
    /// Ops timed out.
    Timeouts {
        /// Number of ops.
        ops: u64,
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    } => invalidates(format!(
        "{} given up because a store did not answer in time: {}.",
        were(*ops, "op"),
        listed(places)
    ))
    .at(places)
    .suggest("a longer `--op-timeout`");
    /// Workers woke late for their ops.
    WakeLate {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    } => invalidates(format!(
        "Workers woke late for their ops by more than 10 % of the median response: {}. Response times this short are better \
         measured in a closed loop.",
        listed(places)
    ))
    .at(places)
    .suggest("no `--rate`, or `--speed max` for a log");
    /// A client was slower than the others. If it finishes last, it alone lowers the rate.
    SlowClient {
        /// MPI rank of the client.
        client: u32,
        /// Smallest ratio of its rate to that of the median client.
        share: f64,
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    } => limits(format!(
        "Client {client} was slower than the others, down to {:.0} % of the median client's rate: {}.",
        share * 100.0,
        listed(places)
    ))
    .at(places);
    /// Each client had a store of its own, so rates are sums over separate stores.
    OneForEachClient {
        /// Number of clients.
        clients: usize,
        /// Labels of the candidates.
        stores: Vec<String>,
    } => limits(format!(
        "Each of {clients} clients had its own store with all blobs, and their rates are added up: {}. That says nothing about one \
         store that {clients} clients share.",
        stores.join(", ")
    ))
    .about(stores);
    /// Network distance was simulated by delays.
    Distance => note(
        "Distance was made by a proxy that delays and does nothing else. A real network also begins slowly (about 14 kB in the \
         first round trip), loses packets and has a limited bandwidth. What is large or comes over many connections is slower \
         there than here.",
    );
    /// All ops of a phase request the same blob.
    SameBlob {
        /// Ids of the phases.
        phases: Vec<String>,
    } => WarningDetails {
        scope: Scope::Phases(phases),
        ..invalidates(format!(
            "Every op of {} asks for the same blob, so caches answer, down to the processor's.",
            phases.join(", ")
        ))
        .suggest("`order = \"once\"` in the plan's phase")
    };
    /// Writes to servers provided by the user are timed until acknowledged only.
    NotSettled {
        /// Affected phases and candidates.
        places: Vec<AffectedPhases>,
    } => invalidates(format!(
        "blobwise can't wait for your server's deferred work ({}), so its writes may look faster than those of other candidates.",
        listed(places)
    ))
    .at(places)
    .suggest("`blobwise run` without the URL");
    /// Much of the work of writes was done between phases, where it counts in no rate.
    CaughtUp {
        /// Time of that work relative to the write phases, by candidate.
        shares: Vec<CandidateShare>,
    } => limits(format!(
        "Deferred work that was not due yet, such as compaction, was done between phases and is in no rate. Its time as a share of \
         the write phases: {}.",
        joined(shares, ", ", |own| format!("{}: {}", own.store, percent(own.share)))
    ))
    .about(shares.iter().map(|own| &own.store));
    /// Blobs may have been compared with cached copies.
    ComparedInCache {
        /// Candidates by the kind of copy.
        copies: Vec<ComparisonSource>,
    } => note(format!(
        "Every blob was compared, but perhaps with a cache's copy instead of the device's: {}.",
        joined(copies, "; ", |copy| format!("{} ({})", copy.stores.join(", "), copy.from.name()))
    ))
    .about(copies.iter().flat_map(|copy| &copy.stores));
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
    } => invalidates(format!(
        "Memory was not equal in warm reads. Of {} of blobs, each store's own cache held at most {}. The page cache also held the \
         files of {}, but hardly those of {}, which read the device instead.",
        bytes(*corpus_bytes as f64),
        bytes(*cache_bytes as f64),
        held.join(", "),
        not_held.join(", ")
    ))
    .about(held.iter().chain(not_held))
    .suggest("`--memory`, and the plan without `cache`");
    /// The plan sets the size of the stores' own caches, instead of the share of memory that their vendors recommend.
    OwnCache {
        /// Size of each store's own cache, in bytes.
        cache_bytes: u64,
    } => invalidates(format!(
        "Each store's own cache is {}, as the plan says, instead of what its vendor recommends, so this may rank the caches.",
        bytes(*cache_bytes as f64)
    ))
    .suggest("the plan without `cache`");
    /// Candidates with little memory read much more from the device than was requested.
    ReadsMore {
        /// Device bytes read per byte delivered, the maximum over all phases, by candidate.
        shares: Vec<CandidateShare>,
        /// Read-ahead of the kernel, in bytes.
        read_ahead_bytes: Option<u64>,
    } => {
        let ahead = read_ahead_bytes.map_or(String::new(), |ahead| {
            format!(" The kernel reads up to {} ahead on this device (`read_ahead_kb`).", bytes(ahead as f64))
        });
        limits(format!(
            "With little memory, stores read more from the device than was asked for: {}.{ahead}",
            joined(shares, ", ", |own| format!("{} ({:.1} times)", own.store, own.share))
        ))
        .about(shares.iter().map(|own| &own.store))
    };
    /// The blobs are compressible.
    Compressible {
        /// Compression ratio with deflate: original size divided by compressed size.
        deflate_ratio: f64,
    } => note(format!(
        "The blobs compress {deflate_ratio:.1} times with deflate, so stores that compress do better here than with images or \
         archives."
    ));
    /// The sample has no room for some files of the user's.
    LeftOut {
        /// The files, their share of all files and bytes, and what takes them.
        files: String,
    } => invalidates(format!("Only a sample of your files was measured: {files}."));
    /// The machine's speed changed during the run.
    Drift {
        /// Aspect that changed.
        what: Speed,
        /// Shortest time of the probe, in nanoseconds.
        low_ns: f64,
        /// Longest time of the probe, in nanoseconds.
        high_ns: f64,
    } => {
        let (what, op) = match what {
            Speed::Processor => ("The processor", "a null op"),
            Speed::Flush => ("The device", "a flush"),
            Speed::Read => ("The device", "a direct read of 4 KiB"),
            Speed::Trip => ("Waking another CPU", "a byte to a thread on it and back"),
        };
        limits(format!(
            "{what} changed its speed during the run: {op} took from {} to {}. Ratios are paired by round and still hold; absolute times may not.",
            nanoseconds(*low_ns),
            nanoseconds(*high_ns)
        ))
    };
    /// Rounds that count in the figures were disturbed.
    Disturbed(disturbed: DisturbedRounds) => WarningDetails {
        scope: Scope::Rounds(disturbed),
        ..invalidates(format!("Some rounds were disturbed: run again at a quieter time. {}", of_rounds(disturbed)))
    };
    /// Rounds were repeated because they were disturbed.
    RepeatedRounds(disturbed: DisturbedRounds) => WarningDetails {
        scope: Scope::Rounds(disturbed),
        ..note(format!(
            "Measured again for all candidates, because they were disturbed; the first measurement is in no figure. {}",
            of_rounds(disturbed)
        ))
    };
}

impl Warning {
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

/// Effect of a warning on the answer, the strongest first. Ratios are paired by round, so a slowdown of all candidates
/// alike does not invalidate the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The answer may be wrong because of it, or is about fewer blobs than requested.
    InvalidatesAnswer,
    /// It limits the scope of the answer, or excludes a candidate or a kind of work.
    LimitsAnswer,
    /// Information only; the answer stands.
    Note,
}

/// Candidates and phases that a warning concerns.
#[derive(Debug)]
enum Scope<'w> {
    Run,
    Places(&'w [AffectedPhases]),
    Phases(&'w [String]),
    Candidates(Vec<&'w String>),
    Rounds(&'w DisturbedRounds),
}

/// Meaning of a warning for the reader of a report.
#[derive(Debug)]
pub struct WarningDetails<'w> {
    /// Effect on the answer.
    pub severity: Severity,
    /// Figure and what it means, without what to try.
    pub text: String,
    /// Commands and flags that would remove it.
    pub suggested_command: Option<String>,
    /// True if a reader has to know it before any other: not all was measured, or nothing of it is kept on a disk.
    pub comes_first: bool,
    /// True if it is detected during the run; other warnings are derived from the figures.
    pub is_of_run: bool,
    scope: Scope<'w>,
}

fn invalidates<'w>(text: impl Into<String>) -> WarningDetails<'w> {
    WarningDetails { severity: Severity::InvalidatesAnswer, ..note(text) }
}

fn limits<'w>(text: impl Into<String>) -> WarningDetails<'w> {
    WarningDetails { severity: Severity::LimitsAnswer, ..note(text) }
}

fn note<'w>(text: impl Into<String>) -> WarningDetails<'w> {
    WarningDetails {
        severity: Severity::Note,
        text: text.into(),
        suggested_command: None,
        comes_first: false,
        is_of_run: false,
        scope: Scope::Run,
    }
}

impl<'w> WarningDetails<'w> {
    fn suggest(self, command: impl Into<String>) -> Self {
        WarningDetails { suggested_command: Some(command.into()), ..self }
    }

    fn at(self, places: &'w [AffectedPhases]) -> Self {
        WarningDetails { scope: Scope::Places(places), ..self }
    }

    fn about(self, candidates: impl IntoIterator<Item = &'w String>) -> Self {
        WarningDetails { scope: Scope::Candidates(candidates.into_iter().collect()), ..self }
    }

    fn of_run(self) -> Self {
        WarningDetails { is_of_run: true, ..self }
    }

    fn first(self) -> Self {
        WarningDetails { comes_first: true, ..self }
    }

    /// Returns the first sentence, which names the problem.
    pub fn in_short(&self) -> String {
        match self.text.split_once(". ") {
            Some((first, _)) => format!("{first}."),
            None => self.text.clone(),
        }
    }

    /// Returns what to try, as a sentence.
    pub fn suggestion(&self) -> Option<String> {
        self.suggested_command.as_ref().map(|command| format!("Try: {command}."))
    }

    /// True if it concerns this candidate in this phase; warnings about the whole run always do.
    pub fn bears_on(&self, store: &str, phase: &str) -> bool {
        match &self.scope {
            Scope::Run => true,
            Scope::Places(places) => places.iter().any(|place| place.is_about(store, phase)),
            Scope::Phases(phases) => phases.iter().any(|other| other == whole_of(phase)),
            Scope::Candidates(stores) => stores.iter().any(|other| *other == store),
            Scope::Rounds(disturbed) => disturbed.is_about(store, phase),
        }
    }
}

// ---- parts of wordings -------------------------------------------------------------------------------------------

/// Words the injection of libraries; the first sentence names the flushing functions that they replace.
pub fn preloaded(settings: &[String], replaced: &[ReplacedFlushes]) -> String {
    let settings = settings.join(" ");
    if replaced.is_empty() {
        return format!(
            "Libraries are loaded into blobwise from outside ({settings}). They may change what a write or a flush does in stores that run \
             inside blobwise. Servers that it starts do not get them, unless `/etc/ld.so.preload` names them."
        );
    }
    let of_one =
        |of: &ReplacedFlushes| format!("`{}` replaces {}", of.library, units::listed(&of.functions, "and"));
    let of_all: Vec<String> = replaced.iter().map(of_one).collect();
    let who = match replaced.iter().any(|of| of.in_servers) {
        true => "and so in the servers that it starts",
        false => "and not in the servers that it starts",
    };
    format!(
        "Libraries are loaded into blobwise from outside ({settings}): {}. What stores flush inside blobwise may never reach the disk; \
         this holds inside blobwise, {who}.",
        units::listed(&of_all, "and")
    )
}

/// Words the doubts about flushes: one sentence that starts with `begin` and gives the first reason, and a sentence for
/// each other reason.
pub fn doubted(begin: &str, doubts: &[FlushDoubt]) -> String {
    let one = |doubt: &FlushDoubt| match doubt {
        FlushDoubt::NotPassedOn { layers } => {
            format!("{} is mounted so that it ignores flushes", units::listed(layers, "and"))
        }
        FlushDoubt::TooQuick { p50_ns } => {
            format!(
                "half of the flushes took {} or less, which is faster than any device",
                nanoseconds(*p50_ns)
            )
        }
        FlushDoubt::NotKnown { layers } => {
            format!("what lies below it is invisible ({})", layers.join(" on "))
        }
    };
    let mut all = doubts.iter().map(one);
    let first = all.next().unwrap_or_default();
    all.fold(format!("{begin}: {first}."), |said, more| format!("{said} Also, {more}."))
}

fn of_budget(corpus_share: Option<f64>, rounds: Option<&DroppedRounds>, cold_is_short: bool) -> String {
    let mut gave: Vec<String> = Vec::new();
    gave.extend(corpus_share.map(|share| format!("the corpus was cut to {} of its blobs", percent(share))));
    gave.extend(rounds.map(|cut| format!("rounds were cut from {} to {}", cut.wanted, cut.made)));
    gave.extend(cold_is_short.then(|| "cold phases are short".to_owned()));
    let mut said: Vec<String> = Vec::new();
    if !gave.is_empty() {
        said.push(format!("To keep to the budget {}.", gave.join(" and ")));
    }
    if let Some(cut) = rounds {
        let stays = if cut.size_stands { ", and the size of the corpus was asked for" } else { "" };
        let (rounds, time) = (counted(cut.wanted, "round"), seconds(cut.wanted_seconds));
        said.push(format!("{rounds} would take about {time}{stays}."));
    }
    said.join(" ")
}

/// Returns by how much the burst of a device limit raises figures.
pub fn ahead_by(share_max: f64) -> String {
    match share_max {
        all if all >= 1.0 => "100 % and more".to_owned(),
        some => format!("{} at most", percent(some)),
    }
}

// ---- disturbed rounds --------------------------------------------------------------------------------------------

/// Returns a sentence per round, and one for the activity of other programs in most rounds.
fn of_rounds(disturbed: &DisturbedRounds) -> String {
    let mut sentences: Vec<String> = disturbed.rounds.iter().map(of_round).collect();
    if let Some(usual) = &disturbed.usual {
        let rounds = joined(&disturbed.usual_rounds, ", ", u32::to_string);
        sentences.push(format!("Rounds {rounds}: {}.", of_others(usual)));
    }
    sentences.join(" ")
}

fn of_round(odd: &RoundAnomalies) -> String {
    let again = if odd.again { ", measured again" } else { "" };
    format!("Round {}{again}: {}.", odd.round, joined(&odd.seen, "; ", of_seen))
}

fn of_seen(seen: &Anomaly) -> String {
    match seen {
        Anomaly::Processor { times } => format!(
            "a fixed piece of work took the processor {} times as long as in the other rounds",
            factor(*times)
        ),
        Anomaly::MostCandidates { phase, corpus_id, low, high } => format!(
            "most candidates took {} to {} times as long in {} as in their other rounds, so that it was the machine",
            factor(*low),
            factor(*high),
            at(phase, *corpus_id)
        ),
        Anomaly::Candidate { store, phase, corpus_id, causes } => {
            let causes: Vec<String> = causes.iter().filter_map(of_cause).collect();
            format!("{store} in {} {}", at(phase, *corpus_id), causes.join(" and "))
        }
        Anomaly::More { candidates } => format!("{candidates} more like these"),
        Anomaly::Others(others) => of_others(others),
    }
}

/// Words evidence about one candidate. Evidence that concerns all candidates is worded separately.
fn of_cause(cause: &Cause) -> Option<String> {
    match cause {
        Cause::Far { times } => Some(format!("took {} times as long as in its other rounds", factor(*times))),
        Cause::ReadsDevice { read_bytes, delivered_bytes, cached } => {
            let cached = if *cached { ", and was in the page cache afterwards" } else { "" };
            Some(format!(
                "read {} from the device for {} of blobs, though all had been read before{cached}",
                bytes(*read_bytes as f64),
                bytes(*delivered_bytes as f64)
            ))
        }
        Cause::OthersIo { .. } | Cause::Processor { .. } => None,
    }
}

fn of_others(others: &ForeignActivity) -> String {
    let of = |what: &str, moved: u64| (moved > 0).then(|| format!("{what} {}", bytes(moved as f64)));
    let done: Vec<String> =
        [of("read", others.read_bytes), of("wrote", others.written_bytes)].into_iter().flatten().collect();
    let mut text =
        format!("other programs {} on the same disk during {}", done.join(" and "), others.phases.join(", "));
    if others.perhaps_for_us {
        // Writing to a string cannot fail.
        write!(text, " (in part, perhaps, what they lost when cold passes dropped the kernel's caches)").ok();
    }
    text
}

// ---- parts -------------------------------------------------------------------------------------------------------

fn joined<T>(all: &[T], between: &str, one: impl Fn(&T) -> String) -> String {
    all.iter().map(one).collect::<Vec<String>>().join(between)
}

fn listed(places: &[AffectedPhases]) -> String {
    let phase = |partly: &AffectedPhase| match partly.in_part {
        true => format!("{} in part", partly.phase),
        false => partly.phase.clone(),
    };
    joined(places, "; ", |place| {
        let candidates =
            if place.every_candidate { "every candidate".to_owned() } else { place.stores.join(", ") };
        format!("{} ({candidates})", joined(&place.phases, ", ", phase))
    })
}

fn at(phase: &str, corpus_id: CorpusId) -> String {
    match corpus_id.bytes() {
        Some(size) => format!("{phase} at {}", bytes(size as f64)),
        None => phase.to_owned(),
    }
}

fn were(number: u64, thing: &str) -> String {
    format!("{} {}", counted(number, thing), if number == 1 { "was" } else { "were" })
}

fn factor(times: f64) -> String {
    if times >= 10.0 { format!("{times:.0}") } else { format!("{times:.2}") }
}
