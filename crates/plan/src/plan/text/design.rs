//! The design of a plan: what it asks for, independent of the machine.

use std::collections::BTreeMap;

use super::resolve::{Design, MIX_WRITES};
use super::selector::Selector;
use super::{Action, CacheState, Class, Phase, Transaction, Workload, whole_of};
use crate::corpus::CorpusId;
pub use crate::rules::{COLD_BLOBS_SERVERS, COLD_PASSES_SERVERS, PREVIEW_SCALE};
use crate::store::{ColdMethod, Durability, Kind};
use crate::units::grouped;

/// Standard phase that a memory sweep runs at each share. The phases are named `read-tight-50` etc.; crossovers between
/// candidates are reported under this name.
pub const MEMORY_SWEEP: &str = "read-tight";

/// Properties of a candidate that a design depends on.
#[derive(Clone, Debug)]
pub struct DesignCandidate {
    /// Label of the candidate.
    pub label: String,
    /// Kind of store; `None` for a candidate that cannot run.
    pub kind: Option<Kind>,
    /// Durability class set for this candidate alone.
    pub own_class: Option<Durability>,
    /// True if its deletes only mark blobs as deleted.
    pub lazy_delete: bool,
}

impl Design {
    /// True for a preview: it only shows the shape of the full run, and its verdicts should not be quoted.
    pub fn is_preview(&self) -> bool {
        self.scale < PREVIEW_SCALE
    }

    /// True if the run ends in a recommendation. Sweeps, growths, ageing and published claims ask other questions.
    pub fn asks_what_to_do(&self) -> bool {
        self.corpora.len() == 1 && self.text.claim.is_empty() && !self.text.has_steps()
    }

    /// True if the mix includes ops that write (or that do not, if `writes` is false). An empty mix includes both.
    pub fn mixes(&self, writes: bool) -> bool {
        let is_such =
            |(kind, share): (&String, &f64)| *share > 0.0 && MIX_WRITES.contains(&kind.as_str()) == writes;
        self.mix.is_empty() || self.mix.iter().any(is_such)
    }

    /// Returns the cold phase whose passes include this phase: the phase itself, or the preceding one that it repeats.
    pub fn cold_phase_of(&self, phase: &str, corpus_id: CorpusId) -> Option<&Phase> {
        let phases: Vec<&Phase> = self.phases_of(corpus_id).collect();
        let place = phases.iter().position(|known| known.id == phase)?;
        let before = place.checked_sub(1).map(|before| phases[before]);
        let repeated = before.filter(|before| phases[place].repeats_cold(before));
        repeated.or(Some(phases[place])).filter(|phase| phase.cache == CacheState::Cold)
    }

    /// True if all reads of one worker form one transaction in a phase. `own` is the candidate's grouping, for phases that do not
    /// specify it. Never in the passes of a cold phase or a phase that repeats them.
    pub fn reads_in_one(&self, own: Transaction, phase: &Phase, corpus_id: CorpusId) -> bool {
        let Some(load) = phase.load().filter(|load| load.only_reads()) else { return false };
        load.transaction.unwrap_or(own) == Transaction::Phase
            && self.cold_phase_of(&phase.id, corpus_id).is_none()
    }

    /// Phases that use this corpus, in order.
    pub fn phases_of(&self, corpus_id: CorpusId) -> impl Iterator<Item = &Phase> {
        self.phases.iter().filter(move |phase| self.has(&phase.id, corpus_id))
    }

    /// True if a phase applies to candidates of this store with these settings. Settings that are not shown select nothing.
    pub fn is_for(&self, phase: &str, store: &str, options: &BTreeMap<String, String>) -> bool {
        let fits = |only: &Vec<Selector>| only.iter().any(|selector| selector.fits(store, options));
        self.only_by.get(phase).is_none_or(|every| every.iter().all(fits))
    }

    /// True if a candidate that cannot run here would run a phase.
    pub fn would_be_done_by(&self, phase: &str, label: &str, store: &str) -> bool {
        let names = |only: &Vec<Selector>| only.iter().any(|selector| selector.names(label, store));
        self.only_by.get(phase).is_none_or(|every| every.iter().all(names))
    }

    /// Returns the design for a run shared by this many clients; 0 counts as 1.
    pub fn by_clients(self, clients: usize) -> Design {
        Design { clients: clients.max(1), ..self }
    }

    /// Returns the number of concurrent workers of all clients in a phase, and the blobs per op.
    pub fn hands_of(&self, phase: &Phase) -> (usize, usize) {
        match &phase.action {
            Action::Ops(load) | Action::RateLadder(load) => {
                (load.workers.unwrap_or(self.workers) * self.clients, self.batch_of(load))
            }
            Action::Custom(action) => (if action.by_all { self.workers } else { 1 }, 1),
        }
    }

    /// Memory limit of a candidate in a phase, in bytes, for a corpus of `corpus_bytes`; `None` if unlimited.
    pub fn memory_of(&self, phase: &Phase, corpus_bytes: u64) -> Option<u64> {
        let of_run = self.memory.filter(|_| !phase.is_fill());
        phase.memory.or(of_run).map(|memory| memory.bytes(corpus_bytes))
    }

    /// True if any phase has a memory limit.
    pub fn limits_memory(&self) -> bool {
        self.phases.iter().any(|phase| phase.memory.or(self.memory).is_some())
    }

    /// Phases of a memory sweep, each with its limit in bytes for a corpus of `corpus_bytes`.
    pub fn memory_sweep(&self, corpus_bytes: u64) -> impl Iterator<Item = (u64, &Phase)> {
        let share = move |phase: &Phase| {
            let is_one = phase.id.strip_prefix(MEMORY_SWEEP).is_some_and(|rest| rest.starts_with('-'));
            phase.memory.filter(|_| is_one).map(|memory| memory.bytes(corpus_bytes))
        };
        let is_swept = self.text.memory_sweep.is_some();
        let phases = self.phases.iter().filter(move |_| is_swept);
        phases.filter_map(move |phase| Some((share(phase)?, phase)))
    }

    /// Phases that a growth or ageing repeats: the name of each, and its steps with their numbers of blobs or ages.
    pub fn steps(&self) -> Vec<(&str, Vec<(u64, &Phase)>)> {
        let steps = self.phases.iter().filter_map(|phase| Some((phase.step()?, phase)));
        grouped(steps.map(|(at, phase)| (whole_of(&phase.id), (at, phase))))
    }

    /// True if all blobs of the corpus are there after a phase that fills: in a growth, the last segment of the fill.
    pub fn fills_all(&self, phase: &Phase) -> bool {
        let most = self.phases.iter().filter_map(|phase| phase.grown_to).max();
        if most.is_some() { phase.fills_a_step() && phase.grown_to == most } else { phase.is_fill() }
    }

    /// Class in which the stores are filled.
    pub fn fill_class(&self) -> Class {
        let fill = self.phases.iter().find(|phase| phase.is_fill());
        fill.map_or(Class::Fill, |fill| fill.class)
    }

    /// Blobs per op of a load.
    pub fn batch_of(&self, load: &Workload) -> usize {
        load.batch.unwrap_or(self.batch)
    }

    /// Largest number of blobs per op in any phase that writes.
    pub fn largest_batch(&self) -> u64 {
        let writing = self.phases.iter().filter(|phase| phase.writes()).filter_map(Phase::load);
        writing.map(|load| self.batch_of(load) as u64).max().unwrap_or(1)
    }

    /// True if a phase uses this corpus.
    pub fn has(&self, phase: &str, corpus_id: CorpusId) -> bool {
        let Some(only) = self.only.get(phase) else { return true };
        let corpus = self.corpora.iter().find(|corpus| corpus.corpus_id == corpus_id);
        corpus.and_then(|corpus| corpus.name.as_ref()).is_some_and(|name| only.contains(name))
    }
}

/// By phase, lists of selectors; a candidate runs the phase if every list selects it.
pub(super) type PhaseSelectors = BTreeMap<String, Vec<Vec<Selector>>>;

/// When a worker syncs in the class on-sync: after this many ops or bytes, whichever comes first, and at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRule {
    /// Maximum number of ops between two syncs.
    pub ops: u64,
    /// Maximum number of bytes between two syncs.
    pub bytes: u64,
}

impl SyncRule {
    /// Sync only at the end.
    pub const AT_THE_END: SyncRule = SyncRule { ops: u64::MAX, bytes: u64::MAX };
}

/// Wanted durability class of a candidate in a phase: its own class if it has one (also for the fill), otherwise that of the run.
pub fn class_wanted(own: Option<Durability>, class: Class, asked: Durability) -> Durability {
    match (own, class) {
        (Some(own), _) => own,
        (None, Class::Fill) => asked.min(Durability::OnSync),
        (None, Class::Load) => Durability::None,
        (None, Class::Asked) => asked,
    }
}

/// Number of passes of a cold phase that a candidate runs, depending on how it is made cold.
pub fn cold_passes(made_cold: Option<ColdMethod>, planned: u32) -> u32 {
    if made_cold == Some(ColdMethod::Restarted) { planned.min(COLD_PASSES_SERVERS) } else { planned }
}
