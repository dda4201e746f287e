//! One row in one round: open, fill, phases, close, remove.

mod evict;
mod last;
pub(super) mod phases;
mod possible;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

use super::ops::State;
use super::resources::{Idle, MemoryBaseline, free_bytes};
use super::uploads::content_key;
use super::verify::verify;
use super::work;
use super::workers::clock::HostClock;
use super::workers::worker::{Uploads, verify_uploads};
use crate::corpus::Corpus;
use crate::corpus::CorpusId;
use crate::host::machine::{self, Device};
use crate::host::place::{remove_tree, why_unwritable};
use crate::host::processors::Apart;
use crate::host::server::Server;
use crate::plan::{CatalogueOf, Class, Phase, Plan, Row, class_of, defaults};
use crate::result::{Fixed, Footprint, Found, Round, VerifiedFrom};
use crate::shown;
use crate::store::{Adapter, Caps, Common, Durability, Facts, Key, Mode, Options, Setup, Store};
use possible::impossible;

/// What all visits of a run share.
pub struct Run<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Time.
    pub clock: HostClock,
    /// The device below the place, where there is one.
    pub device: Option<Device>,
    /// Whether the kernel's caches are dropped for cold phases.
    pub drop_caches: bool,
    /// The directory of the run.
    pub place: PathBuf,
    /// What its stores have in common.
    pub common: Common,
    /// Where workers and servers run, where they are pinned apart.
    pub apart: Option<Apart>,
    /// Set from outside to end early.
    pub stop: &'a AtomicBool,
}

impl Run<'_> {
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// One row on one corpus.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The row.
    pub row: &'a Row,
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
    /// Whether this row was seen to read its data when it is opened: it is never cold, however often it is evicted.
    pub resident: bool,
}

/// What became of one phase.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
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

/// What an adapter is told when it opens a store for a corpus.
pub fn setup<'a>(
    plan: &Plan,
    corpus: &Corpus,
    dir: &'a Path,
    common: &'a Common,
    options: &'a Options,
    durability: Durability,
    mode: Mode,
) -> Setup<'a> {
    let workers = plan.phases.iter().filter_map(|phase| phase.load()?.workers);
    // Uploads lie beside the blobs of the fill.
    let copies = 1 + u64::from(plan.phases.iter().any(Phase::has_uploads));
    Setup {
        dir,
        common,
        mode,
        durability,
        cache_bytes: plan.cache.bytes(corpus.bytes()),
        blob_bytes_max: corpus.largest(),
        store_bytes_max: corpus.bytes() * copies + corpus.largest() * 4,
        // Strangers have ids behind the corpus.
        keys_max: corpus.blobs() + 1,
        workers: workers.max().unwrap_or(1).max(plan.workers),
        op_timeout: plan.op_timeout,
        options,
    }
}

/// Does a whole visit, and tells the phases that begin. `None`: it was stopped from outside, and what it measured is
/// incomplete.
pub fn visit(
    run: &Run,
    fixed: &Fixed,
    subject: Subject,
    turn: Turn,
    tell: &mut dyn FnMut(&str),
) -> Result<Option<Visit>> {
    let begin = machine::uptime();
    let name = subject.row.label.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let dir = run.place.join(format!("r{}-{name}", turn.round));
    let mut visitor = Visitor {
        run,
        fixed,
        subject,
        turn,
        tell,
        dir: dir.clone(),
        open: None,
        desk: None,
        state: State::empty(subject.corpus),
        warm: false,
        share_opened: None,
        has_put_off: false,
        aged_bytes: 0,
        memory: MemoryBaseline::take(),
        visit: Visit {
            phases: BTreeMap::new(),
            wall_seconds: BTreeMap::new(),
            pass_seconds: BTreeMap::new(),
            footprint: empty_footprint(subject),
            facts: Facts::new(),
            picture: None,
            verified: 0,
            verified_from: None,
            error: None,
            seconds: 0.0,
        },
    };
    let made = std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()));
    // With no room at all, stores that map their files die by SIGBUS, and we with them.
    let begun = made.and_then(|()| why_unwritable(&run.place).map_or(Ok(()), |why| Err(why.into())));
    let outcome = begun.and_then(|()| visitor.everything());
    let mut visit = visitor.visit;
    // Closing is part of `everything`; this is the safety net, whose errors come after the first one.
    if let Some(apart) = visitor.desk.and_then(|desk| desk.apart) {
        apart.remove().ok();
    }
    if let Some((_, store)) = visitor.open {
        store.remove().ok();
    }
    // A server's own log may lie on the disk that is full.
    let outcome = outcome.map_err(|error| match why_unwritable(&run.place) {
        Some(why) => anyhow!("{error:#}; `{}` cannot be written: {why}", run.place.display()),
        None => error,
    });
    // What cannot be removed stays for the next run; no row is measured beside it without being told.
    let outcome = outcome.and(remove_tree(&dir)).and(machine::sync_filesystem(&run.place));
    machine::wait_until_quiet(run.device.as_ref(), Duration::from_secs(2));
    visit.seconds = (machine::uptime() - begin).as_secs_f64();
    match outcome {
        _ if run.stopped() => return Ok(None),
        Ok(()) => {}
        Err(error) => visit.error = Some(shown::of_error(&format!("{error:#}"))),
    }
    Ok(Some(visit))
}

fn empty_footprint(subject: Subject) -> Footprint {
    Footprint {
        store: subject.row.label.clone(),
        corpus_id: subject.corpus_id,
        logical_bytes: subject.corpus.bytes(),
        ..Footprint::default()
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

impl UploadDesk {
    pub(super) fn uploads(&self) -> Uploads<'_> {
        Uploads { apart: self.apart.as_deref(), one_transaction: self.one_transaction, keys: &self.keys }
    }
}

/// A visit under way.
pub(super) struct Visitor<'a> {
    pub(super) run: &'a Run<'a>,
    fixed: &'a Fixed,
    pub(super) subject: Subject<'a>,
    pub(super) turn: Turn,
    /// Told the phase that begins.
    tell: &'a mut dyn FnMut(&str),
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
    share_opened: Option<f64>,
    /// Whether something was written, or opened anew, since the store caught up with what it puts off.
    has_put_off: bool,
    /// Bytes overwritten by ageing.
    pub(super) aged_bytes: u64,
    memory: MemoryBaseline,
    pub(super) visit: Visit,
}

impl<'a> Visitor<'a> {
    pub(super) fn plan(&self) -> &'a Plan {
        self.run.plan
    }

    pub(super) fn caps(&self) -> Caps {
        (self.subject.row.adapter.caps)(&self.subject.row.options)
    }

    pub(super) fn class(&self, class: Class) -> Durability {
        class_of(self.subject.row, class, self.plan().durability)
    }

    fn everything(&mut self) -> Result<()> {
        self.create()?;
        let row = self.subject.row;
        let phases = self.plan().phases_of(self.subject.corpus_id);
        let phases: Vec<&Phase> = phases.filter(|phase| self.plan().is_done_by(&phase.id, row)).collect();
        let mut index = 0;
        while index < phases.len() && !self.run.stopped() {
            let phase = phases[index];
            // A phase that repeats a cold one is done with it, in the same sessions.
            let repeat = phases.get(index + 1).copied().filter(|next| next.repeats_cold(phase));
            let impossible =
                |phase: &Phase| impossible(self.plan(), self.subject.row, self.subject.corpus, phase);
            match impossible(phase) {
                None => self.timed(phase, repeat)?,
                Some(why) => {
                    let single = phase.without_batches();
                    if phase.is_fill() && impossible(&single).is_none() {
                        // Later phases need what it puts.
                        self.timed(&single, None)?;
                    }
                    for phase in std::iter::once(phase).chain(repeat) {
                        self.visit.phases.insert(phase.id.clone(), Outcome::NotPossible(why.clone()));
                    }
                }
            }
            index += 1 + usize::from(repeat.is_some());
        }
        if self.run.stopped() {
            return Ok(());
        }
        self.verify_at_the_end()?;
        self.picture()?;
        if let Some(apart) = self.desk.take().and_then(|desk| desk.apart) {
            apart.remove().context("removing the catalogue failed")?;
        }
        match self.open.take() {
            Some((_, store)) => store.remove().context("removing the store failed"),
            None => Ok(()),
        }
    }

    fn timed(&mut self, phase: &Phase, repeat: Option<&Phase>) -> Result<()> {
        (self.tell)(&phase.id);
        let begin = machine::uptime();
        self.phase(phase, repeat).with_context(|| format!("phase `{}`", phase.id))?;
        self.visit.wall_seconds.insert(phase.id.clone(), (machine::uptime() - begin).as_secs_f64());
        Ok(())
    }

    /// Once in a run, for the first row of each adapter: a picture of what is there to see.
    fn picture(&mut self) -> Result<()> {
        let row = self.subject.row;
        let is_first = |first: &Row| first.label == row.label;
        let rows = &self.plan().rows;
        if self.turn.round != 1
            || !rows.iter().find(|other| other.adapter.name == row.adapter.name).is_some_and(is_first)
        {
            return Ok(());
        }
        let alive = self.state.alive.iter().position(|alive| *alive);
        if let Some(key) = alive.map(|id| &self.subject.corpus.keys[id]) {
            self.visit.picture = self.store()?.0.picture(key).context("taking a picture failed")?;
        }
        Ok(())
    }

    // ---- opening and closing -------------------------------------------------------------------------------

    fn create(&mut self) -> Result<()> {
        let free_before = free_bytes(&self.run.place);
        let class = self.class(Class::Fill);
        self.open_as(class, Mode::Create)?;
        machine::sync_filesystem(&self.dir)?;
        let (store, _) = self.store()?;
        self.visit.facts = store.facts()?;
        if self.caps().persistent {
            let empty = self.bytes_taken(self.store()?.0)?.all;
            self.visit.footprint.empty_bytes = Some(empty);
            self.visit.footprint.statvfs_bytes = free_before;
        }
        Ok(())
    }

    fn open_as(&mut self, class: Durability, mode: Mode) -> Result<()> {
        let store = self.opened(class, mode)?;
        self.open = Some((class, store));
        self.has_put_off |= mode == Mode::Open;
        Ok(())
    }

    pub(super) fn opened(&self, class: Durability, mode: Mode) -> crate::store::Result<Box<dyn Store>> {
        let row = self.subject.row;
        self.opened_in(&self.dir, row.adapter, &row.options, class, mode)
    }

    fn opened_in(
        &self,
        dir: &Path,
        adapter: &Adapter,
        options: &Options,
        class: Durability,
        mode: Mode,
    ) -> crate::store::Result<Box<dyn Store>> {
        // Servers are started when a store is opened, and run where the thread ran that started them.
        let pinned = self.run.apart.as_ref().map(Apart::pin_servers).transpose()?;
        let setup = setup(self.plan(), self.subject.corpus, dir, &self.run.common, options, class, mode);
        let store = (adapter.open)(&setup)?;
        drop(pinned);
        if let Some(apart) = &self.run.apart {
            store.servers().into_iter().try_for_each(|server| server.check_processors(apart))?;
        }
        Ok(store)
    }

    /// Opens the catalogue of uploads, in the class that the blobs are in, and finds out which blobs are one upload to it.
    pub(super) fn open_desk(&mut self) -> Result<()> {
        if self.desk.is_some() {
            return Ok(());
        }
        let (store, class) = self.store()?;
        let (apart, one_transaction) = match self.subject.row.catalogue()? {
            CatalogueOf::Own { one_transaction } => {
                store.open_catalogue()?;
                (None, one_transaction)
            }
            CatalogueOf::Apart(adapter) => {
                let dir = self.dir.join("catalogue");
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
    fn ensure(&mut self, class: Durability) -> Result<()> {
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
    fn verify(&mut self) -> Result<()> {
        if !self.caps().contents {
            return Ok(());
        }
        let corpus = self.subject.corpus;
        let verified =
            verify(self.store()?.0, self.caps().get_many, &corpus.keys, &corpus.contents, &self.state)
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
    fn blame(&self, wrong: anyhow::Error) -> anyhow::Error {
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

    // ---- phases --------------------------------------------------------------------------------------------

    fn phase(&mut self, phase: &Phase, repeat: Option<&Phase>) -> Result<()> {
        if phase.writes() {
            self.share_opened = None;
            self.ensure(self.class(phase.class))?;
        }
        let caught_up = if phase.writes() { self.catch_up(phase) } else { Ok(None) };
        if caught_up.is_err() {
            self.check_servers(true)?;
        }
        let caught_up_seconds = caught_up.map_err(|error| self.with_logs(error))?;
        let mut done = work::of(phase).run(self, phase, repeat);
        self.has_put_off |= phase.writes();
        if let Ok(Some(Outcome::Measured(round))) = &mut done {
            round.caught_up_seconds = caught_up_seconds;
        }
        let done = done.map(|outcome| {
            self.visit.phases.extend(outcome.map(|outcome| (phase.id.clone(), outcome)));
        });
        self.check_servers(done.is_err())?;
        done.map_err(|error| self.with_logs(error))?;
        let always = phase.is_fill() || phase.has_uploads();
        if phase.writes() && (self.plan().verify || always) && !self.run.stopped() {
            self.verify().with_context(|| format!("after `{}`", phase.id))?;
        }
        Ok(())
    }

    /// Has the store do what earlier phases left to it, off every clock, so that none of it becomes due by what this one writes.
    /// Returns how long it took, in seconds.
    fn catch_up(&mut self, phase: &Phase) -> Result<Option<f64>> {
        if !self.has_put_off || !work::of(phase).catches_up() {
            return Ok(None);
        }
        let begin = machine::uptime();
        self.store()?.0.catch_up().context("catching up with earlier phases failed")?;
        if let Some(apart) = self.desk.as_ref().and_then(|desk| desk.apart.as_deref()) {
            apart.catch_up().context("catching up with earlier uploads failed")?;
        }
        let seconds = (machine::uptime() - begin).as_secs_f64();
        machine::sync_filesystem(&self.dir)?;
        // What is written anew may lie in other caches than it did.
        (self.has_put_off, self.warm) = (false, false);
        Ok(Some(seconds))
    }

    /// A server that died or was stopped is why the rest failed: it says more than the ops that met it.
    fn check_servers(&self, failed: bool) -> Result<()> {
        let Ok((store, _)) = self.store() else { return Ok(()) };
        let servers = store.servers();
        if failed && !servers.is_empty() {
            // A connection may break a moment before the process is gone.
            std::thread::sleep(Duration::from_millis(200));
        }
        match servers.into_iter().find_map(Server::fault) {
            Some(fault) => bail!("{fault}"),
            None => Ok(()),
        }
    }

    /// An error with the last words of the store's servers, which know more of it than we do.
    fn with_logs(&self, error: anyhow::Error) -> anyhow::Error {
        let Ok((store, _)) = self.store() else { return error };
        store.servers().iter().fold(error, |error, server| {
            anyhow!("{error:#}\n`{}` goes on{}", server.name(), server.log_end())
        })
    }
}
