//! A visit under way, as kinds of work have it: the open store, what it must hold, and what they do their phases with.

mod backup;
mod evict;
mod limit;
pub(super) mod phases;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use serde::{Deserialize, Serialize};

pub(super) use self::backup::{KeptBackup, beside};
pub(super) use self::limit::Limit;
pub use self::limit::OwnMemory;

use super::clients::{Clients, Shared};
use super::ops::State;
use super::resources::{Idle, MemoryBaseline, Meter};
use super::verify::verify;
use super::workers::clock::HostClock;
use super::workers::crew::{Crew, Job};
use super::workers::tally::Tally;
use super::workers::worker::{Uploads, verify_uploads};
use crate::corpus::Corpus;
use crate::corpus::CorpusId;
use crate::host::disk::OwnDisk;
use crate::host::machine::Device;
use crate::host::processors::Apart;
use crate::plan::{Candidate, CatalogueOf, Class, CorpusPlan, Phase, Plan, class_of, defaults};
use crate::result::{ClientRound, Fixed, Footprint, Found, Round, VerifiedFrom};
use crate::store::{Adapter, Caps, Common, Durability, Facts, Key, Mode, Options, Setup, Store, content_key};

/// What all visits of a run share.
#[derive(Clone)]
pub struct Run<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Time.
    pub clock: HostClock,
    /// The device below the place, where there is one.
    pub device: Option<Device>,
    /// File systems of our own, by the names that candidates have for them.
    pub disks: &'a Disks,
    /// Whether the kernel's caches are dropped for cold phases.
    pub drop_caches: bool,
    /// Whether memory keeps the bytes of the place.
    pub in_memory: bool,
    /// The directory of the run.
    pub place: PathBuf,
    /// What its stores have in common.
    pub common: Common,
    /// Where workers and servers run, where they are pinned apart.
    pub apart: Option<Apart>,
    /// The processes that do it together, where they are several.
    pub clients: Option<&'a Clients>,
    /// Set from outside to end early.
    pub stop: &'a AtomicBool,
}

/// File systems of our own, by their names.
pub type Disks = BTreeMap<String, OwnDisk>;

impl Run<'_> {
    /// The file system of our own that a candidate lies on.
    pub(super) fn disk_of(&self, candidate: &Candidate) -> Option<&OwnDisk> {
        self.disks.get(candidate.options.on()?)
    }

    /// The directory that a candidate lies in.
    pub(super) fn place_of(&self, candidate: &Candidate) -> &Path {
        self.disk_of(candidate).map_or(&self.place, OwnDisk::path)
    }

    /// The device below that, where there is one.
    pub(super) fn device_of(&self, candidate: &Candidate) -> Option<&Device> {
        self.disk_of(candidate).map(OwnDisk::device).or(self.device.as_ref())
    }

    /// Whether it was stopped from outside, or one of those who do it together is missing.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.clients.is_some_and(|clients| clients.lost().is_some())
    }
}

/// One candidate on one corpus.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The candidate.
    pub candidate: &'a Candidate,
    /// The corpus.
    pub corpus: &'a Corpus,
    /// The size a sweep varies.
    pub corpus_id: CorpusId,
}

/// When a visit takes place.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The round, from 1; the pilot's is 0.
    pub round: u32,
    /// The place in the round's order, from 1.
    pub position: u32,
    /// What the idle system uses.
    pub idle: Idle,
    /// Whether this candidate was seen to read its data when it is opened: it is never cold, however often it is evicted.
    pub resident: bool,
    /// What the harness takes of the memory that is counted.
    pub own_memory: OwnMemory,
    /// How long its phases may take together before it is stopped, if that is not left to them.
    pub patience: Option<Duration>,
    /// When it is stopped, whatever it does, by [`crate::host::machine::uptime`]: then the budget is spent.
    pub until: Option<Duration>,
}

/// Phases that are not done, and why they are not possible.
pub type LeftOut = BTreeMap<String, String>;

/// What became of one phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// It was done; errors of ops are counted in it.
    Measured(Box<Round>),
    /// Something was found that is no figure of ops.
    Found(Box<Found>),
    /// A hard limit forbids it.
    NotPossible(String),
}

/// The end of a phase: what became of it, or nothing where it was stopped.
pub(super) type Done = Result<Option<Outcome>>;

/// What a visit brought.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Visit {
    /// Outcomes by phase.
    pub phases: BTreeMap<String, Outcome>,
    /// Wall time of each phase with all that it needed: opening, evicting, warming, verifying.
    pub wall_seconds: BTreeMap<String, f64>,
    /// Disk.
    pub footprint: Footprint,
    /// Seconds of one pass of a cold phase, with closing, evicting and opening; without the looking of the first pass.
    pub pass_seconds: BTreeMap<String, f64>,
    /// What the store says of itself.
    pub facts: Facts,
    /// What a visitor sees (PNG).
    pub picture: Option<Vec<u8>>,
    /// Blobs compared.
    pub verified: u64,
    /// What the last comparison read.
    pub verified_from: Option<VerifiedFrom>,
    /// What went wrong with the store as a whole.
    pub error: Option<String>,
    /// Wall time of everything.
    pub seconds: f64,
}

/// One candidate's visit by the pilot.
pub struct PilotVisit<'a> {
    /// The candidate.
    pub candidate: &'a Candidate,
    /// Which corpus.
    pub corpus: usize,
    /// Blobs it had.
    pub blobs: u64,
    /// By what part of the time that an op took it takes longer for each blob more: nothing where it ended soon with as many blobs as
    /// a pilot has.
    pub slows_by: f64,
    /// What it took.
    pub visit: Visit,
}

/// What an adapter is told when it opens a store for a corpus.
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
    // Uploads lie beside the blobs of the fill.
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
        // Strangers have ids behind the corpus.
        keys_max: corpus.blobs() + 1,
        workers: workers.max().unwrap_or(1).max(plan.workers) * plan.clients,
        op_timeout: plan.op_timeout,
        options,
        invitation: None,
    }
}

/// Where uploads are registered.
pub(super) struct UploadDesk {
    /// The store that has the catalogue, where that is not the blobs' own.
    pub(super) apart: Option<Box<dyn Store>>,
    one_transaction: bool,
    /// The keys of contents by id of their blob.
    keys: Vec<Key>,
}

/// Where a catalogue lies that is in another store than the blobs, below their directory: under a name that no blob has there.
pub(super) const CATALOGUE_DIR: &str = ".catalogue";

impl UploadDesk {
    pub(super) fn uploads(&self) -> Uploads<'_> {
        Uploads { apart: self.apart.as_deref(), one_transaction: self.one_transaction, keys: &self.keys }
    }
}

/// A visit under way.
pub(super) struct Visitor<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) fixed: &'a Fixed,
    pub(super) subject: Subject<'a>,
    pub(super) turn: Turn,
    pub(super) left_out: &'a LeftOut,
    /// Told the phase that begins.
    pub(super) tell: &'a mut dyn FnMut(&str),
    pub(super) dir: PathBuf,
    /// The open store and its class.
    pub(super) open: Option<(Durability, Box<dyn Store>)>,
    /// Where uploads are registered, from the first phase on that has some.
    pub(super) desk: Option<UploadDesk>,
    /// What the store must hold.
    pub(super) state: State,
    /// Whether everything was read since the store was opened or evicted.
    pub(super) warm: bool,
    /// What opening brought into the cache, until something is written.
    pub(super) share_opened: Option<f64>,
    /// Whether something was written, or opened anew, since the store caught up with what it puts off.
    pub(super) has_put_off: bool,
    /// A backup that is there to be restored.
    pub(super) backup: Option<KeptBackup>,
    /// Bytes overwritten by ageing.
    pub(super) aged_bytes: u64,
    pub(super) memory: MemoryBaseline,
    /// The memory that the candidate may have, where that is counted.
    pub(super) limit: Option<Limit<'a>>,
    pub(super) visit: Visit,
}

impl<'a> Visitor<'a> {
    pub(super) fn plan(&self) -> &'a Plan {
        self.run.plan
    }

    /// The directory that the candidate's own directory lies in.
    pub(super) fn place(&self) -> &'a Path {
        self.run.place_of(self.subject.candidate)
    }

    pub(super) fn caps(&self) -> Caps {
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
        // Servers are started when a store is opened, and run where the thread ran that started them.
        let pinned = self.run.apart.as_ref().map(Apart::pin_servers).transpose()?;
        let store = (adapter.open)(&self.setup(dir, adapter, options, class, mode))?;
        drop(pinned);
        if let Some(apart) = &self.run.apart {
            store.servers().into_iter().try_for_each(|server| server.check_processors(apart))?;
        }
        Ok(store)
    }

    /// Does a job whose lists are dealt to the workers of all clients: a crew of this process, and those of the others, where there
    /// are some. Returns what all counted, and what each client did.
    pub(super) fn by_all(
        &self,
        crew: Crew<'_, HostClock>,
        job: &Job,
        meters: &mut [Meter; 1],
    ) -> Result<(Tally, Vec<ClientRound>)> {
        let Some(clients) = self.run.clients else {
            return Ok((crew.run(std::slice::from_ref(job), meters)?.remove(0), Vec::new()));
        };
        let Subject { candidate, corpus, corpus_id } = self.subject;
        let place = |known: &CorpusPlan| known.corpus_id == corpus_id;
        let shared = Shared {
            setup: self.setup(&self.dir, candidate.adapter, &candidate.options, self.store()?.1, Mode::Open),
            adapter: candidate.adapter.name,
            way: self.caps().clients,
            corpus_index: self.plan().corpora.iter().position(place).context("a corpus of no plan")?,
            corpus,
            state: &self.state,
            own: self.is_one_for_each_client().then_some(self.warm),
        };
        clients.run(crew, &shared, job, meters)
    }

    /// Whether each client has a store of its own.
    pub(super) fn is_one_for_each_client(&self) -> bool {
        self.plan().is_one_for_each_client(self.subject.candidate)
    }

    /// Has the other clients remove the stores of their own, where they have some, and compare every blob before, if that is wanted.
    pub(super) fn leave(&mut self, compares: bool) -> Result<()> {
        if let Some(clients) = self.run.clients {
            self.visit.verified += clients.leave(compares, self.run.stop)?;
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
        // So many stores share the memory of a host.
        let stores = match self.run.clients {
            Some(clients) if self.is_one_for_each_client() => clients.on_host_of_rank_0().max(1) as u64,
            _ => 1,
        };
        let memory_bytes = self.memory_bytes() / stores;
        setup(plan, self.subject.corpus, adapter, dir, common, options, class, mode, memory_bytes)
    }

    /// Opens the catalogue of uploads, in the class that the blobs are in, and finds out which blobs are one upload to it.
    pub(super) fn open_desk(&mut self) -> Result<()> {
        if self.desk.is_some() {
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
            let len = self.state.uploaded_len[id];
            content_key(id as u64, corpus.contents.blob(id as u64, 0, len, &mut room))
        };
        let keys: Vec<Key> = (0..corpus.sizes.len()).map(key).collect();
        self.state.find_copies(&keys);
        self.desk = Some(UploadDesk { apart, one_transaction, keys });
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
            Some((_, store)) => store.close().context("closing the store failed"),
            None => Ok(()),
        }
    }

    /// Opens the store in another class when it is not in it already.
    pub(super) fn ensure(&mut self, class: Durability) -> Result<()> {
        if self.store()?.1 == class || !self.caps().persistent {
            return Ok(());
        }
        let was_warm = self.warm;
        self.close()?;
        self.open_as(class, Mode::Open)?;
        // The kernel's caches are as warm as they were; the store's own are filled by reading again.
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
        let verified = verify(
            self.store()?.0,
            self.caps().get_many,
            &corpus.keys,
            &corpus.contents,
            &self.state,
            self.run.stop,
        )
        .map_err(|wrong| self.blame(wrong))?;
        if let Some(desk) = &self.desk {
            verify_uploads(self.store()?.0, desk.uploads(), &corpus.contents, &self.state)
                .map_err(|wrong| self.blame(wrong))?;
        }
        self.visit.verified += verified;
        self.warm = true;
        Ok(())
    }

    /// What was found wrong may follow from an op that failed: that op is the reason to give.
    pub(super) fn blame(&self, wrong: anyhow::Error) -> anyhow::Error {
        let rounds = self.visit.phases.values().filter_map(|outcome| match outcome {
            Outcome::Measured(round) => Some(round),
            Outcome::Found(_) | Outcome::NotPossible(_) => None,
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
