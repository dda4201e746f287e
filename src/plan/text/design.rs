//! What a plan asks for, wherever its candidates can run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::resolve::MIX_WRITES;
use super::selector::Selector;
use super::{
    Arrivals, CacheState, Class, CorpusPlan, Does, FillOrder, Load, MemorySize, Need, Phase, PlanText,
    ResponseLimit, Transaction,
};
use crate::corpus::CorpusId;
pub use crate::rules::{COLD_BLOBS_SERVERS, COLD_PASSES_SERVERS, PREVIEW_SCALE};
use crate::store::{DeviceLimit, Durability, Kind, MadeCold};

/// The standard phase that a sweep of memory has at each of its shares: theirs are called `read-tight-50` and so on, and where one
/// candidate overtakes another is noted under this name.
pub const MEMORY_SWEEP: &str = "read-tight";

/// What a plan asks for, checked and with every default filled in. Nothing of it hangs on what this machine has: it is the same
/// where a result is judged as where it was measured.
#[derive(Clone, Debug)]
pub struct Design {
    /// The plan as text, complete: what is stored beside the result.
    pub text: PlanText,
    /// What it is called.
    pub name: String,
    /// Everything random follows from it.
    pub seed: u64,
    /// Exactly this many rounds, when asked for.
    pub rounds: Option<u32>,
    /// Half the width that half of the intervals are to have at most, as a share of their ratio.
    pub precision: f64,
    /// Wall time to keep to.
    pub budget: Option<Duration>,
    /// The class asked for.
    pub durability: Durability,
    /// Threads that work at once, in each client.
    pub workers: usize,
    /// Processes that do the run together. That is no part of the plan's text: it is how it was started.
    pub clients: usize,
    /// Blobs in one op.
    pub batch: usize,
    /// In which order blobs are put.
    pub fill_order: FillOrder,
    /// Ops a second of an open loop.
    pub rate: Option<f64>,
    /// What response times must stay below in a ladder of rates.
    pub limit: ResponseLimit,
    /// How they arrive.
    pub arrivals: Arrivals,
    /// Shares for the cost of 1,000 ops.
    pub mix: BTreeMap<String, f64>,
    /// What a request of the user's program lasts, in nanoseconds.
    pub request_ns: f64,
    /// What it needs of a place.
    pub need: Vec<Need>,
    /// The corpora: one, or one for each size of a sweep.
    pub corpora: Vec<CorpusPlan>,
    /// Shrinks corpus and phases.
    pub scale: f64,
    /// Compares every blob after each phase that writes, in every round.
    pub verify: bool,
    /// Whether the kernel's caches may be dropped.
    pub drop_caches: bool,
    /// Whether idle processors are kept from sleeping while the run lasts.
    pub awake: bool,
    /// Whether workers and servers have processors of their own.
    pub pin_apart: bool,
    /// Whether each client of several has a store of its own, where a store cannot be shared.
    pub each_rank: bool,
    /// The place to measure.
    pub dir: PathBuf,
    /// The phases, in order.
    pub phases: Vec<Phase>,
    /// Names of corpora by phase, for phases that are done with some of them only.
    pub(super) only: BTreeMap<String, Vec<String>>,
    /// Candidates by phase, for phases that are done by some of them only.
    pub(super) only_by: OnlyBy,
    /// The label of the candidate that ratios are given to.
    pub reference: String,
    /// All the memory that a candidate may have, whoever holds it: beyond what it takes when it is empty, if nothing else is said.
    pub memory: Option<MemorySize>,
    /// How much each device of a file system of ours does in a second.
    pub device_limit: Option<DeviceLimit>,
    /// To which share such file systems are filled.
    pub fill: f64,
    /// Whether what it takes when it is empty counts too.
    pub memory_total: bool,
    /// Memory for each store's own cache, where it is not as its vendor says.
    pub cache: Option<MemorySize>,
    /// When a worker syncs in the class on-sync.
    pub sync: SyncRule,
    /// How long an op may take.
    pub op_timeout: Duration,
    /// The largest allowed relative difference of probes.
    pub probe_limit: f64,
}

/// What the design of a plan depends on of one of its candidates.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its label.
    pub label: String,
    /// What sort of place it is; absent for a candidate that cannot run.
    pub kind: Option<Kind>,
    /// The class that was set for it alone.
    pub own_class: Option<Durability>,
    /// Its deletes only mark a blob.
    pub lazy_delete: bool,
}

impl Design {
    /// Whether it shows the shape of a larger plan only: its verdicts are not to be quoted.
    pub fn is_preview(&self) -> bool {
        self.scale < PREVIEW_SCALE
    }

    /// Whether it ends in what to do. A sweep and a published claim are other questions.
    pub fn asks_what_to_do(&self) -> bool {
        self.corpora.len() == 1 && self.text.claim.is_empty()
    }

    /// Whether the mix has work that writes, or work that does not; without a mix, both count.
    pub fn mixes(&self, writes: bool) -> bool {
        let is_such =
            |(kind, share): (&String, &f64)| *share > 0.0 && MIX_WRITES.contains(&kind.as_str()) == writes;
        self.mix.is_empty() || self.mix.iter().any(is_such)
    }

    /// The cold phase in whose passes a phase is done: it itself, or the one before it that it repeats.
    pub fn cold_phase_of(&self, phase: &str, corpus_id: CorpusId) -> Option<&Phase> {
        let phases: Vec<&Phase> = self.phases_of(corpus_id).collect();
        let place = phases.iter().position(|known| known.id == phase)?;
        let before = place.checked_sub(1).map(|before| phases[before]);
        let repeated = before.filter(|before| phases[place].repeats_cold(before));
        repeated.or(Some(phases[place])).filter(|phase| phase.cache == CacheState::Cold)
    }

    /// Whether all reads of a worker are one transaction in a phase, for a candidate that groups its reads like this where the
    /// phase does not say. In the passes of a cold phase, and what is repeated in them, no read is.
    pub fn reads_in_one(&self, own: Transaction, phase: &Phase, corpus_id: CorpusId) -> bool {
        let Some(load) = phase.load().filter(|load| load.only_reads()) else { return false };
        load.transaction.unwrap_or(own) == Transaction::Phase
            && self.cold_phase_of(&phase.id, corpus_id).is_none()
    }

    /// The phases that are done with the corpus of this size, in order.
    pub fn phases_of(&self, corpus_id: CorpusId) -> impl Iterator<Item = &Phase> {
        self.phases.iter().filter(move |phase| self.has(&phase.id, corpus_id))
    }

    /// Whether a phase is for candidates of this store with these settings. No candidate is chosen by what is not shown.
    pub fn is_for(&self, phase: &str, store: &str, options: &BTreeMap<String, String>) -> bool {
        let fits = |only: &Vec<Selector>| only.iter().any(|selector| selector.fits(store, options));
        self.only_by.get(phase).is_none_or(|every| every.iter().all(fits))
    }

    /// Whether a candidate that cannot run here would do a phase.
    pub fn would_be_done_by(&self, phase: &str, label: &str, store: &str) -> bool {
        let names = |only: &Vec<Selector>| only.iter().any(|selector| selector.names(label, store));
        self.only_by.get(phase).is_none_or(|every| every.iter().all(names))
    }

    /// The design of a run that so many clients did together; none stands for one.
    pub fn by_clients(self, clients: usize) -> Design {
        Design { clients: clients.max(1), ..self }
    }

    /// How many workers of all clients do a phase at once, and how many blobs they were to have in an op.
    pub fn hands_of(&self, phase: &Phase) -> (usize, usize) {
        match &phase.does {
            Does::Ops(load) | Does::Climbs(load) => {
                (load.workers.unwrap_or(self.workers) * self.clients, self.batch_of(load))
            }
            Does::Deed(deed) => (if deed.by_all { self.workers } else { 1 }, 1),
        }
    }

    /// All the memory that a candidate may have in a phase, in bytes, with a corpus of so many; `None` for as much as there is.
    pub fn memory_of(&self, phase: &Phase, corpus_bytes: u64) -> Option<u64> {
        let of_run = self.memory.filter(|_| !phase.is_fill());
        phase.memory.or(of_run).map(|memory| memory.bytes(corpus_bytes))
    }

    /// Whether some phase has a limit of memory.
    pub fn limits_memory(&self) -> bool {
        self.phases.iter().any(|phase| phase.memory.or(self.memory).is_some())
    }

    /// The phases of a sweep of memory, with the memory that each has beside a corpus of so many bytes.
    pub fn memory_sweep(&self, corpus_bytes: u64) -> impl Iterator<Item = (u64, &Phase)> {
        let share = move |phase: &Phase| {
            let is_one = phase.id.strip_prefix(MEMORY_SWEEP).is_some_and(|rest| rest.starts_with('-'));
            phase.memory.filter(|_| is_one).map(|memory| memory.bytes(corpus_bytes))
        };
        let is_swept = self.text.memory_sweep.is_some();
        let phases = self.phases.iter().filter(move |_| is_swept);
        phases.filter_map(move |phase| Some((share(phase)?, phase)))
    }

    /// Blobs in one op of a load.
    pub fn batch_of(&self, load: &Load) -> usize {
        load.batch.unwrap_or(self.batch)
    }

    /// The most blobs in one op of a phase that writes.
    pub fn largest_batch(&self) -> u64 {
        let writing = self.phases.iter().filter(|phase| phase.writes()).filter_map(Phase::load);
        writing.map(|load| self.batch_of(load) as u64).max().unwrap_or(1)
    }

    /// Whether a phase is done with the corpus of this size.
    pub fn has(&self, phase: &str, corpus_id: CorpusId) -> bool {
        let Some(only) = self.only.get(phase) else { return true };
        let corpus = self.corpora.iter().find(|corpus| corpus.corpus_id == corpus_id);
        corpus.and_then(|corpus| corpus.name.as_ref()).is_some_and(|name| only.contains(name))
    }
}

/// By phase, lists of candidates: it is done by those that are in all of them.
pub(super) type OnlyBy = BTreeMap<String, Vec<Vec<Selector>>>;

/// When a worker syncs in the class on-sync: after this many ops or bytes, whichever comes first, and at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRule {
    /// Ops.
    pub ops: u64,
    /// Bytes.
    pub bytes: u64,
}

impl SyncRule {
    /// At the end only.
    pub const AT_THE_END: SyncRule = SyncRule { ops: u64::MAX, bytes: u64::MAX };
}

/// The class that is wanted of a candidate in a phase: the candidate's own, its fill included, or what the run asks for.
pub fn class_wanted(own: Option<Durability>, class: Class, asked: Durability) -> Durability {
    match (own, class) {
        (Some(own), _) => own,
        (None, Class::Fill) => asked.min(Durability::OnSync),
        (None, Class::Asked) => asked,
    }
}

/// How many of the passes of a cold phase are done by a candidate that is made cold like this.
pub fn cold_passes(made_cold: Option<MadeCold>, planned: u32) -> u32 {
    if made_cold == Some(MadeCold::Restarted) { planned.min(COLD_PASSES_SERVERS) } else { planned }
}
