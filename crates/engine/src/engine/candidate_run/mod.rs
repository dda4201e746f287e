//! The state of a candidate run as kinds of work see it: the open store, its expected contents, and helpers to run phases.

mod backup;
mod evict;
mod growth;
mod images;
mod limit;
pub(super) mod phases;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use serde::{Deserialize, Serialize};

pub(super) use self::backup::{KeptBackup, beside};
pub(super) use self::growth::Growth;
pub use self::images::AgedImages;
pub(super) use self::images::{Ageing, changes_the_image, images_kept};
pub(super) use self::limit::MemoryLimit;
pub use self::limit::OwnMemory;

use super::clients::{Clients, SharedStore};
use super::ops::{IdealLru, State};
use super::resources::{IdleActivity, MemoryBaseline, Meter};
use super::verify::verify;
use super::workers::clock::HostClock;
use super::workers::pool::{Job, WorkerPool};
use super::workers::tally::Tally;
use super::workers::worker::{WorkerUploads, verify_uploads};
use crate::corpus::Corpus;
use crate::corpus::CorpusId;
use crate::host::disk::OwnDisk;
use crate::host::machine::Device;
use crate::host::processors::ProcessorSplit;
use crate::plan::{Candidate, CatalogueOf, Class, CorpusPlan, Phase, Plan, class_of, defaults};
use crate::result::{AgedImage, ClientRound, FindingsTable, Fixed, Footprint, Round, VerifiedFrom};
use crate::store::{
    Adapter, Capabilities, Common, Durability, Facts, Key, Mode, Options, Setup, Store, content_key,
};

/// The context that all candidates of a run share.
#[derive(Clone)]
pub struct RunContext<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The clock.
    pub clock: HostClock,
    /// The device below the run's directory, if it is known.
    pub device: Option<Device>,
    /// File systems that were made for the run, by the names that candidates use for them.
    pub disks: &'a Disks,
    /// Images of these disks that later rounds read copies of.
    pub images: &'a AgedImages,
    /// True if the kernel's caches are dropped for cold phases.
    pub drop_caches: bool,
    /// True if the run's directory is in memory (tmpfs).
    pub in_memory: bool,
    /// The directory of the run.
    pub place: PathBuf,
    /// What all stores of the run share, such as a directory for caches.
    pub common: Common,
    /// Processors of workers and of servers, if these are pinned apart.
    pub apart: Option<ProcessorSplit>,
    /// The clients of a run by several processes; `None` for a single process.
    pub clients: Option<&'a Clients>,
    /// Set from outside to end the run early.
    pub stop: &'a AtomicBool,
    /// Device reads of ideal LRU caches, from earlier candidates.
    pub ideal_lru: IdealLru,
}

/// File systems that were made for the run, by their names.
pub type Disks = BTreeMap<String, OwnDisk>;

impl RunContext<'_> {
    pub(super) fn disk_of(&self, candidate: &Candidate) -> Option<&OwnDisk> {
        self.disks.get(candidate.options.file_system_option()?)
    }

    pub(super) fn place_of(&self, candidate: &Candidate) -> &Path {
        self.disk_of(candidate).map_or(&self.place, OwnDisk::path)
    }

    /// The device below that directory, if it is known.
    pub(super) fn device_of(&self, candidate: &Candidate) -> Option<&Device> {
        self.disk_of(candidate).map(OwnDisk::device).or(self.device.as_ref())
    }

    /// True if the run was stopped from outside or has lost one of its clients.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.clients.is_some_and(|clients| clients.lost().is_some())
    }
}

/// One candidate on one corpus.
#[derive(Clone, Copy)]
pub struct CandidateOnCorpus<'a> {
    /// The candidate.
    pub candidate: &'a Candidate,
    /// The corpus.
    pub corpus: &'a Corpus,
    /// The size in a sweep that the corpus stands for.
    pub corpus_id: CorpusId,
}

/// A candidate's slot in a round.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundSlot {
    /// The round, counted from 1; 0 in the pilot.
    pub round: u32,
    /// The position in the round's order, counted from 1.
    pub position: u32,
    /// Resource use of the idle system.
    pub idle: IdleActivity,
    /// True if this candidate was seen to read its data when it is opened, so that it is never cold, however often it is evicted.
    pub resident: bool,
    /// Memory of the harness that is counted as the candidate's.
    pub own_memory: OwnMemory,
    /// Time limit for all phases together; `None` if they set their own.
    pub patience: Option<Duration>,
    /// Planned duration of the whole candidate run, as long as which a phase with limited memory may take; 0 before round 1, and
    /// `None` without a budget, where such a phase has no time limit.
    pub planned: Option<Duration>,
    /// Deadline by [`crate::host::machine::uptime`], after which the budget is spent and everything is stopped.
    pub until: Option<Duration>,
    /// Moment on the same clock by which a growing store must be through with its last step; `None` without a limit.
    pub grows_until: Option<Duration>,
}

#[cfg(test)]
impl RoundSlot {
    /// The first slot of round 1, without any limit of time.
    pub fn first() -> RoundSlot {
        RoundSlot { round: 1, position: 1, ..RoundSlot::default() }
    }
}

/// Ids of phases to leave out, with the reasons why they are not possible.
pub type OmittedPhases = BTreeMap<String, String>;

/// The outcome of a phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PhaseOutcome {
    /// The phase was measured; errors of ops are counted in the round.
    Measured(Box<Round>),
    /// The phase has a finding instead of figures of ops.
    Found(Box<FindingsTable>),
    /// The candidate cannot do the phase, for the given reason.
    NotPossible(String),
}

/// The result of running a phase; `None` if it was stopped.
pub(super) type PhaseRun = Result<Option<PhaseOutcome>>;

/// The results of a candidate run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CandidateOutcome {
    /// Outcomes by phase.
    pub phases: BTreeMap<String, PhaseOutcome>,
    /// Wall time of each phase, including opening, evicting, warming up and verifying, in seconds.
    pub wall_seconds: BTreeMap<String, f64>,
    /// Disk space that the store takes.
    pub footprint: Footprint,
    /// Images of its disk that it kept, or read copies of.
    pub images: Vec<AgedImage>,
    /// Mean seconds of a pass of a cold phase, with closing, evicting and opening. Excludes the first pass, which also collects
    /// the proof.
    pub pass_seconds: BTreeMap<String, f64>,
    /// Version and settings that the store reports.
    pub facts: Facts,
    /// A screenshot of what a visitor of the store sees (PNG).
    pub picture: Option<Vec<u8>>,
    /// Number of blobs that were compared.
    pub verified: u64,
    /// Where the last comparison read from.
    pub verified_from: Option<VerifiedFrom>,
    /// An error of the store as a whole.
    pub error: Option<String>,
    /// Wall time of the whole candidate run, in seconds.
    pub seconds: f64,
    /// Wall time of the attempts before it that had too little memory, in seconds.
    pub lost_seconds: f64,
    /// The phases that these attempts ended in, and those with no more memory, which are left out since.
    pub lost_to: OmittedPhases,
    /// Device reads of ideal LRU caches for its phases with limited memory.
    pub ideal_lru: IdealLru,
}

impl CandidateOutcome {
    /// Seconds that a phase spent in ops and in the work that they deferred; `None` if it was not measured.
    fn clocked_seconds(&self, phase: &str) -> Option<f64> {
        match self.phases.get(phase)? {
            PhaseOutcome::Measured(round) => Some(round.settled_seconds.unwrap_or(round.seconds)),
            PhaseOutcome::Found(_) | PhaseOutcome::NotPossible(_) => None,
        }
    }

    /// States where the time of the run went: of each phase, the seconds on the clock of its ops and all of its seconds, which
    /// include opening, evicting, warming up and comparing.
    pub fn times(&self) -> String {
        let on_clock = |phase: &str| self.clocked_seconds(phase).unwrap_or(0.0);
        let phase = |(phase, wall): (&String, &f64)| format!("{phase} {:.2}/{wall:.2} s", on_clock(phase));
        let clocked: f64 = self.phases.keys().map(|phase| on_clock(phase)).sum();
        let beside = (self.seconds - self.wall_seconds.values().sum::<f64>()).max(0.0);
        let phases: Vec<String> = self.wall_seconds.iter().map(phase).collect();
        format!(
            "{:.2} of {:.2} s on the clock of ops: {}; {beside:.2} s beside the phases",
            clocked,
            self.seconds,
            phases.join(", ")
        )
    }
}

/// A candidate run of the pilot.
pub struct PilotOutcome<'a> {
    /// The candidate.
    pub candidate: &'a Candidate,
    /// Index of the corpus.
    pub corpus: usize,
    /// Number of blobs in it.
    pub blobs: u64,
    /// Relative slowdown per additional blob; 0.0 if the pilot finished in time.
    pub slows_by: f64,
    /// Seconds that a pass over the images of its disk takes; `None` if no copy of them is kept.
    pub image_seconds: Option<f64>,
    /// Its results.
    pub outcome: CandidateOutcome,
}

/// Returns the setup with which an adapter opens a store for a corpus.
#[expect(clippy::too_many_arguments, reason = "an adapter is told all of it")]
pub fn setup<'a>(
    plan: &Plan,
    corpus: &Corpus,
    adapter: &Adapter,
    dir: &'a Path,
    common: &'a Common,
    options: &'a Options,
    durability: Durability,
    mode: Mode,
    memory_bytes: u64,
) -> Setup<'a> {
    let workers = plan.phases.iter().filter_map(|phase| phase.load()?.workers);
    // Uploads are stored in addition to the blobs of the fill.
    let copies = 1 + u64::from(plan.phases.iter().any(Phase::has_uploads));
    Setup {
        dir,
        common,
        mode,
        durability,
        cache_bytes: plan.cache_bytes(adapter, options, memory_bytes, corpus.bytes()),
        fits: memory_bytes >= corpus.bytes(),
        blob_bytes_max: corpus.largest(),
        store_bytes_max: corpus.bytes() * copies + corpus.largest() * 4,
        // The key for lookups that must fail has the id after those of the corpus.
        keys_max: corpus.blobs() + 1,
        workers: workers.max().unwrap_or(1).max(plan.workers) * plan.clients,
        op_timeout: plan.op_timeout,
        options,
        join_token: None,
    }
}

pub(super) struct CatalogStore {
    /// The store of the catalog, if it is not that of the blobs.
    pub(super) apart: Option<Box<dyn Store>>,
    one_transaction: bool,
    /// Content keys, by the id of the blob.
    keys: Vec<Key>,
}

/// Directory of a catalog in a separate store, inside that of the blobs. No blob has this name there.
pub(super) const CATALOGUE_DIR: &str = ".catalogue";

impl CatalogStore {
    pub(super) fn uploads(&self) -> WorkerUploads<'_> {
        WorkerUploads {
            apart: self.apart.as_deref(),
            one_transaction: self.one_transaction,
            keys: &self.keys,
        }
    }
}

pub(super) struct CandidateRun<'a> {
    pub(super) run: &'a RunContext<'a>,
    pub(super) fixed: &'a Fixed,
    pub(super) subject: CandidateOnCorpus<'a>,
    pub(super) slot: RoundSlot,
    pub(super) left_out: &'a OmittedPhases,
    /// Called with the id of each phase as it begins, and with `None` when the last one is over.
    pub(super) tell: &'a mut dyn FnMut(Option<&str>),
    pub(super) dir: PathBuf,
    /// The open store, with the durability class it was opened in.
    pub(super) open: Option<(Durability, Box<dyn Store>)>,
    /// The class of the store that was closed last; that one is still there if none is open.
    pub(super) closed: Option<Durability>,
    /// The catalog of uploads; opened by the first phase that has uploads.
    pub(super) catalog: Option<CatalogStore>,
    pub(super) state: State,
    /// True if every blob was read since the store was opened or evicted.
    pub(super) warm: bool,
    /// Share of the files that opening brings into the page cache, if known; reset when something is written.
    pub(super) share_opened: Option<f64>,
    /// True if something was written or the store was reopened since it last finished its deferred work.
    pub(super) has_put_off: bool,
    pub(super) backup: Option<KeptBackup>,
    /// Bytes that ageing put in place of others so far.
    pub(super) aged_bytes: u64,
    pub(super) ageing: Ageing,
    pub(super) growth: Growth,
    /// Blobs that the store had evicted before the phase, if it evicts any.
    pub(super) evictions: Option<u64>,
    pub(super) memory: MemoryBaseline,
    /// The candidate's memory limit, if its memory is counted.
    pub(super) limit: Option<MemoryLimit<'a>>,
    pub(super) outcome: CandidateOutcome,
}

impl<'a> CandidateRun<'a> {
    pub(super) fn plan(&self) -> &'a Plan {
        self.run.plan
    }

    pub(super) fn place(&self) -> &'a Path {
        self.run.place_of(self.subject.candidate)
    }

    pub(super) fn caps(&self) -> Capabilities {
        (self.subject.candidate.adapter.caps)(&self.subject.candidate.options)
    }

    pub(super) fn class(&self, class: Class) -> Durability {
        class_of(self.subject.candidate, class, self.plan().durability)
    }

    // ---- opening and closing -------------------------------------------------------------------------------

    pub(super) fn open_as(&mut self, class: Durability, mode: Mode) -> Result<()> {
        let store = self.opened(class, mode)?;
        self.open = Some((class, store));
        self.has_put_off |= mode == Mode::Open;
        Ok(())
    }

    pub(super) fn opened(&self, class: Durability, mode: Mode) -> crate::store::Result<Box<dyn Store>> {
        let candidate = self.subject.candidate;
        self.opened_in(&self.dir, candidate.adapter, &candidate.options, class, mode)
    }

    pub(super) fn opened_in(
        &self,
        dir: &Path,
        adapter: &Adapter,
        options: &Options,
        class: Durability,
        mode: Mode,
    ) -> crate::store::Result<Box<dyn Store>> {
        // Opening a store may start servers, which inherit the processors of the thread that starts them.
        let pinned = self.run.apart.as_ref().map(ProcessorSplit::pin_servers).transpose()?;
        let store = (adapter.open)(&self.setup(dir, adapter, options, class, mode))?;
        drop(pinned);
        if let Some(apart) = &self.run.apart {
            store.servers().into_iter().try_for_each(|server| server.check_processors(apart))?;
        }
        Ok(store)
    }

    /// Runs a job whose lists are dealt to the workers of all clients. Returns the sum of all tallies, and the share of each
    /// client; that list is empty in a run of a single process.
    pub(super) fn by_all(
        &self,
        pool: WorkerPool<'_, HostClock>,
        job: &Job,
        meters: &mut [Meter; 1],
    ) -> Result<(Tally, Vec<ClientRound>)> {
        let Some(clients) = self.run.clients else {
            return Ok((pool.run(std::slice::from_ref(job), meters)?.remove(0), Vec::new()));
        };
        let CandidateOnCorpus { candidate, corpus, corpus_id } = self.subject;
        let place = |known: &CorpusPlan| known.corpus_id == corpus_id;
        let shared = SharedStore {
            setup: self.setup(&self.dir, candidate.adapter, &candidate.options, self.store()?.1, Mode::Open),
            adapter: candidate.adapter.name,
            way: self.caps().clients,
            corpus_index: self.plan().corpora.iter().position(place).context("a corpus of no plan")?,
            corpus,
            state: &self.state,
            own: self.is_one_for_each_client().then_some(self.warm),
        };
        clients.run(pool, &shared, job, meters)
    }

    pub(super) fn is_one_for_each_client(&self) -> bool {
        self.plan().is_one_for_each_client(self.subject.candidate)
    }

    /// Makes the other clients remove their own stores, if they have any, after comparing every blob if `compares`.
    pub(super) fn leave(&mut self, compares: bool) -> Result<()> {
        if let Some(clients) = self.run.clients {
            self.outcome.verified += clients.leave(compares, self.run.stop)?;
        }
        Ok(())
    }

    fn setup<'s>(
        &'s self,
        dir: &'s Path,
        adapter: &Adapter,
        options: &'s Options,
        class: Durability,
        mode: Mode,
    ) -> Setup<'s> {
        let (plan, common) = (self.plan(), &self.run.common);
        // Number of stores that share the memory of this host.
        let stores = match self.run.clients {
            Some(clients) if self.is_one_for_each_client() => clients.on_host_of_rank_0().max(1) as u64,
            _ => 1,
        };
        let memory_bytes = self.memory_bytes() / stores;
        setup(plan, self.subject.corpus, adapter, dir, common, options, class, mode, memory_bytes)
    }

    /// Opens the catalog of uploads in the durability class of the blobs, and finds the blobs with equal contents.
    pub(super) fn open_catalog(&mut self) -> Result<()> {
        if self.catalog.is_some() {
            return Ok(());
        }
        let (store, class) = self.store()?;
        let (apart, one_transaction) = match self.subject.candidate.catalogue()? {
            CatalogueOf::Own { one_transaction } => {
                store.open_catalogue()?;
                (None, one_transaction)
            }
            CatalogueOf::Apart(adapter) => {
                let dir = self.dir.join(CATALOGUE_DIR);
                std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
                let catalogue = self.opened_in(&dir, adapter, &defaults(adapter), class, Mode::Create)?;
                catalogue.open_catalogue()?;
                (Some(catalogue), false)
            }
        };
        let corpus = self.subject.corpus;
        let mut room = Vec::new();
        let key = |id: usize| {
            content_key(id as u64, corpus.contents.blob(id as u64, 0, u64::from(corpus.sizes[id]), &mut room))
        };
        let keys: Vec<Key> = (0..corpus.sizes.len()).map(key).collect();
        self.state.begin_uploads(&keys, &corpus.sizes);
        self.catalog = Some(CatalogStore { apart, one_transaction, keys });
        Ok(())
    }

    pub(super) fn store(&self) -> Result<(&dyn Store, Durability)> {
        self.open
            .as_ref()
            .map(|(class, store)| (store.as_ref(), *class))
            .ok_or_else(|| anyhow!("the store is not open"))
    }

    pub(super) fn close(&mut self) -> Result<()> {
        self.warm = false;
        match self.open.take() {
            Some((class, store)) => {
                self.closed = Some(class);
                store.close().context("closing the store failed")
            }
            None => Ok(()),
        }
    }

    /// Reopens the store in this class if it is open in another one.
    pub(super) fn ensure(&mut self, class: Durability) -> Result<()> {
        if self.store()?.1 == class || !self.caps().persistent {
            return Ok(());
        }
        let was_warm = self.warm;
        self.close()?;
        self.open_as(class, Mode::Open)?;
        // The kernel's caches stay warm; reading again refills those of the store.
        self.warm = false;
        if was_warm { self.warm_up() } else { Ok(()) }
    }

    /// Reads every blob once.
    pub(super) fn warm_up(&mut self) -> Result<()> {
        if self.warm || !self.caps().contents {
            return Ok(());
        }
        self.verify()
    }

    /// Compares every blob; the store is warm afterwards.
    pub(super) fn verify(&mut self) -> Result<()> {
        if !self.caps().contents {
            return Ok(());
        }
        let corpus = self.subject.corpus;
        let verified =
            verify(self.store()?.0, self.caps().get_many, corpus, self.reach(), &self.state, self.run.stop)
                .map_err(|wrong| self.blame(wrong))?;
        if let Some(catalog) = &self.catalog {
            verify_uploads(self.store()?.0, catalog.uploads(), &corpus.contents, &self.state)
                .map_err(|wrong| self.blame(wrong))?;
        }
        self.outcome.verified += verified;
        self.warm = true;
        Ok(())
    }

    /// Puts the first failed op in front of an error that a check found, because the op is its likely cause.
    pub(super) fn blame(&self, wrong: anyhow::Error) -> anyhow::Error {
        let rounds = self.outcome.phases.values().filter_map(|outcome| match outcome {
            PhaseOutcome::Measured(round) => Some(round),
            PhaseOutcome::Found(_) | PhaseOutcome::NotPossible(_) => None,
        });
        let failed: Vec<_> = rounds.filter(|round| round.counters.errors > 0).collect();
        match failed.iter().find_map(|round| round.counters.first_error.as_ref()) {
            Some(first) => {
                let errors: u64 = failed.iter().map(|round| round.counters.errors).sum();
                anyhow!("{first} ({errors} ops failed; then {wrong:#})")
            }
            None => wrong,
        }
    }
}
