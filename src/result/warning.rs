//! Reasons not to trust a number, as data that others act on. The words for them are in `src/words/`.

use std::mem::discriminant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cause, VerifiedFrom};
use crate::corpus::CorpusId;
use crate::host::machine::ReplacedFlushes;
use crate::plan::text::whole_of;

/// Phases, and the candidates of which something holds in each of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Where {
    /// The phases. One in parts is named once.
    pub phases: Vec<Partly>,
    /// The candidates.
    pub stores: Vec<String>,
    /// Whether these are all candidates that are no baselines, and more than two.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every_candidate: bool,
}

impl Where {
    /// Whether a candidate in a phase is among these.
    fn is_about(&self, store: &str, phase: &str) -> bool {
        let is_named = |partly: &Partly| partly.phase == phase || partly.phase == whole_of(phase);
        (self.every_candidate || self.stores.iter().any(|other| other == store))
            && self.phases.iter().any(is_named)
    }
}

/// A phase, and whether all of it is meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Partly {
    /// The phase.
    pub phase: String,
    /// Whether it is only some of its parts, or some of its corpora.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_part: bool,
}

/// A candidate and a share that is its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnShare {
    /// The candidate.
    pub store: String,
    /// From 0 to 1, and more where it is more than the whole.
    pub share: f64,
}

/// Candidates whose blobs were compared with the same sort of copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedFrom {
    /// The sort of copy.
    pub from: VerifiedFrom,
    /// The candidates.
    pub stores: Vec<String>,
}

/// What the machine's own speed is told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Speed {
    /// A null op on one processor.
    Processor,
    /// A flush of the device.
    Flush,
    /// A direct read of 4 KiB from the device.
    Read,
    /// A byte to a thread on another processor and back.
    Trip,
}

/// What was seen in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OddRound {
    /// The round.
    pub round: u32,
    /// Whether these are figures of the second time that it was measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// What was seen.
    pub seen: Vec<Seen>,
}

/// One thing that was seen in a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "seen", rename_all = "kebab-case")]
pub enum Seen {
    /// The processor had another speed.
    Processor {
        /// The time of a fixed piece of work over its median in the other rounds.
        times: f64,
    },
    /// Most candidates of a phase were as slow, or as fast: it was the machine.
    MostCandidates {
        /// The phase.
        phase: String,
        /// Which of the run's corpora.
        #[serde(default, skip_serializing_if = "CorpusId::is_only")]
        corpus_id: CorpusId,
        /// The least time over that in other rounds.
        low: f64,
        /// The most.
        high: f64,
    },
    /// One candidate of a phase.
    Candidate {
        /// The candidate.
        store: String,
        /// The phase.
        phase: String,
        /// Which of the run's corpora.
        #[serde(default, skip_serializing_if = "CorpusId::is_only")]
        corpus_id: CorpusId,
        /// What was seen of it.
        causes: Vec<Cause>,
    },
    /// More candidates like these, which are not listed.
    More {
        /// How many.
        candidates: u64,
    },
    /// Others used the same disk.
    Others(Others),
}

/// What others did on the same disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Others {
    /// Bytes that were read for them.
    pub read_bytes: u64,
    /// Bytes that were written for them.
    pub written_bytes: u64,
    /// During which phases.
    pub phases: Vec<String>,
    /// Whether they may have read what they lost when cold passes dropped the kernel's caches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub perhaps_for_us: bool,
}

/// What was seen of disturbed rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbed {
    /// Rounds in which something was odd.
    pub rounds: Vec<OddRound>,
    /// Rounds in most of which others used the disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usual_rounds: Vec<u32>,
    /// What these others did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<Others>,
    /// All candidates in which something was seen.
    pub stores: Vec<String>,
}

impl Disturbed {
    /// Whether anything of it was seen in a candidate and a phase, or in the whole round.
    fn is_about(&self, store: &str, phase: &str) -> bool {
        let of_others = |others: &Others| others.phases.iter().any(|other| other == whole_of(phase));
        let seen = self.rounds.iter().flat_map(|round| &round.seen).any(|seen| match seen {
            Seen::Processor { .. } => true,
            Seen::MostCandidates { phase: other, .. } => other == phase,
            Seen::Candidate { store: of, phase: other, .. } => of == store && other == phase,
            // Which these are is known of candidates only.
            Seen::More { .. } => self.stores.iter().any(|other| other == store),
            Seen::Others(others) => of_others(others),
        });
        seen || self.usual.as_ref().is_some_and(of_others)
    }
}

/// Rounds that a budget took away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundsCut {
    /// Those that were wanted.
    pub wanted: u32,
    /// Those that are made.
    pub made: u32,
    /// What the wanted ones would take.
    pub wanted_seconds: f64,
    /// Whether blobs could not be given up in their place, because their number was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub size_stands: bool,
}

/// Why a flush may keep nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum FlushDoubt {
    /// File systems are mounted so that they pass no flushes on.
    NotPassedOn {
        /// Which, with the option: `ext4 (nobarrier)`.
        layers: Vec<String>,
    },
    /// Half of the flushes took less than the way to a device does.
    TooQuick {
        /// Half of them took no longer, in nanoseconds.
        p50_ns: f64,
    },
    /// What lies below cannot be looked into.
    NotKnown {
        /// The layers, as far down as they are known.
        layers: Vec<String>,
    },
}

/// A reason not to trust a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    // ---- of the machine and the program, before anything is measured ------------------------------------------------
    /// The program was built without optimising.
    DebugBuild,
    /// The processor's own counter cannot be used.
    Clock,
    /// Libraries are loaded into the program from outside.
    Preloaded {
        /// Which, and by what.
        settings: Vec<String>,
        /// Functions of flushing that they replace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replaced: Vec<ReplacedFlushes>,
    },
    /// The measured directory lies in memory.
    Tmpfs {
        /// The layers below it, the highest first; none in results of earlier versions, which saw the first alone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        layers: Vec<String>,
    },
    /// Flushes may keep nothing, so that no class is granted to what lies in the measured directory.
    Flushes {
        /// Why.
        doubts: Vec<FlushDoubt>,
    },
    /// The file system has no journal, and remembers deletions.
    NoJournal,
    /// Something else used the processors before the run.
    Noise {
        /// Its share of all processors, from 0 to 1.
        share: f64,
    },
    /// The machine is a virtual one.
    VirtualMachine,
    /// Cold phases are lukewarm, because the kernel's caches cannot be dropped.
    Lukewarm,
    /// The corpus fits into memory.
    CorpusInMemory {
        /// Bytes of the largest corpus.
        corpus_bytes: u64,
        /// Bytes of memory.
        memory_bytes: u64,
    },
    /// The corpus fits into the processor's cache, or in part.
    ProcessorCache {
        /// Bytes of the largest corpus.
        corpus_bytes: u64,
        /// Bytes of that cache.
        cache_bytes: u64,
    },
    /// Something below the device keeps a cache.
    HostCache,
    /// Whether something does could not be tested.
    HostCacheUnknown,
    // ---- of the run, while it goes on -------------------------------------------------------------------------------
    /// What was given up to keep to the budget.
    Budget {
        /// The share of the blobs that were kept, from 0 to 1, where some were cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        corpus_share: Option<f64>,
        /// Rounds, where some were cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rounds: Option<RoundsCut>,
        /// Whether cold phases are short.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cold_is_short: bool,
        /// The candidate that takes most of a round's time, with its share of it from 0 to 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slowest: Option<(String, f64)>,
    },
    /// The budget was spent before the rounds were made.
    BudgetSpent {
        /// Rounds that were made.
        rounds: u32,
    },
    /// A store's version changed while the run went on.
    OtherVersion {
        /// The candidate.
        store: String,
        /// From what to what.
        change: String,
    },
    /// A server keeps less than its class says, by what it tells of itself, on some disks.
    Weaker {
        /// The candidate.
        store: String,
        /// What is weaker, and where; one sentence.
        why: String,
    },
    /// The host gave processor time to others while the run went on.
    Steal {
        /// Its share of all processors, from 0 to 1.
        share: f64,
    },
    // ---- of the figures ---------------------------------------------------------------------------------------------
    /// There are fewer rounds than verdicts need.
    FewRounds {
        /// The rounds that there are.
        rounds: u32,
    },
    /// The run was ended early.
    Incomplete {
        /// Rounds that were measured, in part or whole.
        rounds: u32,
    },
    /// The run took longer than its budget.
    OverBudget {
        /// The budget.
        asked_seconds: f64,
        /// What it took.
        took_seconds: f64,
    },
    /// Too short to be ranked.
    TooShort {
        /// Where.
        places: Vec<Where>,
        /// Whether more passes of a server's cold phase would help.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_cut_short: bool,
    },
    /// The limit of devices bounds them, and they are short: it gives out some of its rate in advance.
    AheadOfLimit {
        /// Where.
        places: Vec<Where>,
        /// What it gives out in advance, at most, over the time of the shortest of these rounds; 1 where that is over before.
        share_max: f64,
    },
    /// The harness is more than a tenth of an op.
    HarnessShare {
        /// Where.
        places: Vec<Where>,
    },
    /// The harness is so much of an op that nothing is ranked.
    ClientBound {
        /// Where.
        places: Vec<Where>,
    },
    /// At least a third of each op is CPU wake-up latency.
    Waking {
        /// Where.
        places: Vec<Where>,
        /// A byte to a thread on another processor and back, in nanoseconds.
        far_ns: f64,
        /// The same on one processor, in nanoseconds.
        near_ns: f64,
        /// Whether they had been asked not to sleep.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_awake: bool,
    },
    /// Reads take as long as an acknowledgement is put off.
    PutOff {
        /// Where.
        places: Vec<Where>,
    },
    /// The processors were asked not to sleep.
    Awake {
        /// A byte to a thread on another processor and back, in nanoseconds.
        far_ns: f64,
        /// The same on one processor, in nanoseconds.
        near_ns: f64,
    },
    /// The best of warm reads depends on what is done with the bytes.
    UseOfBytes {
        /// The best where one byte of each cache line is read.
        touched: Vec<String>,
        /// The best where all are copied.
        copied: Vec<String>,
    },
    /// Not cold, because the store reads its data when it is opened.
    Resident {
        /// Where.
        places: Vec<Where>,
    },
    /// Part of the data stayed in the page cache.
    StillInMemory {
        /// Where.
        places: Vec<Where>,
    },
    /// Attempts were made again.
    Retries {
        /// How many.
        attempts: u64,
        /// Where.
        places: Vec<Where>,
    },
    /// Answers were not in the cache that stands before the blobs.
    CacheMisses {
        /// How many.
        answers: u64,
        /// Where.
        places: Vec<Where>,
    },
    /// Ops were given up.
    Timeouts {
        /// How many.
        ops: u64,
        /// Where.
        places: Vec<Where>,
    },
    /// Workers woke late for their ops.
    WakeLate {
        /// Where.
        places: Vec<Where>,
    },
    /// A client was slower than the others: where it ends last, it alone makes the rate lower.
    SlowClient {
        /// Its rank.
        client: u32,
        /// The least of its rates over that of the median client.
        share: f64,
        /// Where.
        places: Vec<Where>,
    },
    /// Each of several clients had a store of its own: rates are the sum of so many stores side by side.
    OneForEachClient {
        /// How many.
        clients: usize,
        /// The candidates.
        stores: Vec<String>,
    },
    /// Distance was made by delaying.
    Distance,
    /// All ops of a phase ask for one blob.
    SameBlob {
        /// The phases.
        phases: Vec<String>,
    },
    /// Writes to servers of the user's are counted until they were acknowledged.
    NotSettled {
        /// Where.
        places: Vec<Where>,
    },
    /// Much of the work of writes was done between phases, where it is in no rate.
    CaughtUp {
        /// Its time over that of the phases that write, by candidate.
        shares: Vec<OwnShare>,
    },
    /// Blobs were perhaps compared with what a cache had.
    ComparedInCache {
        /// The candidates, by what they were compared with.
        copies: Vec<ComparedFrom>,
    },
    /// The blobs are more than a store's own cache holds, and the kernel had the files of some candidates in memory and not those
    /// of others: these read from the device what those had at hand.
    UnequalMemory {
        /// The cache of each store's own, in bytes.
        cache_bytes: u64,
        /// Bytes of the blobs.
        corpus_bytes: u64,
        /// Candidates whose files were in the kernel's cache.
        held: Vec<String>,
        /// Candidates whose files were not.
        not_held: Vec<String>,
    },
    /// Stores have caches of a size that the plan says, and not the share of their memory that their vendors say.
    OwnCache {
        /// The cache of each store's own, in bytes.
        cache_bytes: u64,
    },
    /// Candidates with little memory read much more from the device than they were asked for.
    ReadsMore {
        /// Bytes read from the device for each byte delivered, the most of all phases, by candidate.
        shares: Vec<OwnShare>,
        /// Bytes that the kernel reads ahead.
        read_ahead_bytes: Option<u64>,
    },
    /// The blobs are compressible.
    Compressible {
        /// Bytes over bytes compressed by deflate.
        deflate_ratio: f64,
    },
    /// The machine changed its speed during the run.
    Drift {
        /// What changed.
        what: Speed,
        /// The least that it took, in nanoseconds.
        low_ns: f64,
        /// The most, in nanoseconds.
        high_ns: f64,
    },
    /// Rounds that are in the figures were disturbed.
    Disturbed(Disturbed),
    /// Rounds were measured again, because they were disturbed.
    RepeatedRounds(Disturbed),
}

/// How much a warning bears on what is read first, the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The answer may be another one for it, or is about fewer blobs than were asked for.
    Spoils,
    /// It bounds what the answer is true of, or takes a candidate or a kind of work out of it.
    Limits,
    /// It is good to know, and changes nothing that is said.
    Note,
}

impl Warning {
    /// How much it bears on the answer. Ratios are paired by round, so that what slows all candidates alike does not spoil them.
    pub fn weight(&self) -> Weight {
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
            | Warning::Disturbed(_) => Weight::Spoils,
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
            | Warning::Drift { .. } => Weight::Limits,
            Warning::VirtualMachine
            | Warning::CorpusInMemory { .. }
            | Warning::HostCacheUnknown
            | Warning::OverBudget { .. }
            | Warning::HarnessShare { .. }
            | Warning::Distance
            | Warning::ComparedInCache { .. }
            | Warning::Compressible { .. }
            | Warning::RepeatedRounds(_) => Weight::Note,
        }
    }

    /// Whether it bears on a candidate in a phase; what is said of the whole run does.
    pub fn bears_on(&self, store: &str, phase: &str) -> bool {
        let has = |stores: &[String]| stores.iter().any(|other| other == store);
        let of_shares = |shares: &[OwnShare]| shares.iter().any(|share| share.store == store);
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

    /// Whether it was seen while the run went on; the others are worked out from the figures.
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

    /// Whether it is of a budget that took nothing away in the end.
    pub fn says_nothing(&self) -> bool {
        matches!(self, Warning::Budget { corpus_share: None, rounds: None, cold_is_short: false, .. })
    }

    /// Whether it says the same as another one, of the same candidates: a run says it once.
    pub fn repeats(&self, other: &Warning) -> bool {
        match (self, other) {
            (Warning::OtherVersion { store, .. }, Warning::OtherVersion { store: known, .. })
            | (Warning::Weaker { store, .. }, Warning::Weaker { store: known, .. }) => store == known,
            _ => discriminant(self) == discriminant(other),
        }
    }
}
