//! One row in one round: open, fill, phases, close, remove.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

use super::clock::HostClock;
use super::crew::{Crew, Job, Open};
use super::ops::{Deal, PlannedOp, State, ageing, by_blob, derived_seed, in_turn, lists};
use super::ramp;
use super::resources::{Idle, MemoryBaseline, Meter, free_bytes};
use super::tally::Tally;
use super::uploads::content_key;
use super::verify::verify;
use super::worker::{self, Uploads, verify_uploads};
use crate::corpus::Corpus;
use crate::machine::{self, Device};
use crate::plan::{
    CacheState, CatalogueOf, Class, Load, OpKind, Phase, Plan, Row, Work, class_of, defaults, length_key,
};
use crate::result::{CacheProof, Fixed, FixedLength, Footprint, OpenLoop, Round};
use crate::stats::histogram::{self, BANDS};
use crate::stats::{SHORT_OPS, SHORT_SECONDS};
use crate::store::{Adapter, Caps, Common, Durability, Facts, Key, Mode, Options, Setup, Store};

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
    /// Set from outside to end early.
    pub stop: &'a AtomicBool,
}

impl Run<'_> {
    fn stopped(&self) -> bool {
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
    pub sweep_bytes: Option<u64>,
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
    /// A hard limit forbids it.
    NotPossible(String),
}

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
    let workers = plan.phases.iter().filter_map(|phase| match &phase.work {
        Work::Ops(load) | Work::Ramp(load) => load.workers,
        Work::Reopen | Work::Purge | Work::Age(_) => None,
    });
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

/// Why a row cannot do a phase at all, if it cannot.
pub fn impossible(plan: &Plan, row: &Row, corpus: &Corpus, phase: &Phase) -> Option<String> {
    let caps = (row.adapter.caps)(&row.options);
    if let Some(limit) = caps.blob_bytes_max.filter(|limit| corpus.largest() > limit.bytes) {
        return Some(format!("blobs above {} B ({})", limit.bytes, limit.source));
    }
    if phase.cache.is_cold() && !row.options.text("url").is_empty() {
        return Some("cannot be made cold: a server given by URL is not ours to stop".to_owned());
    }
    if phase.cache.is_cold() && row.options.text("server") == "shared" {
        return Some("cannot be made cold: its server is there for other rows too".to_owned());
    }
    if phase.has_uploads() {
        match row.catalogue() {
            Err(error) => return Some(format!("{error:#}")),
            Ok(CatalogueOf::Own { .. }) if !caps.catalogue => {
                return Some("no catalogue of its own: it is no SQL database".to_owned());
            }
            _ if row.options.text("key") == "integer" => {
                return Some("finds blobs by an integer, and uploads have a digest".to_owned());
            }
            _ => {}
        }
    }
    phase_impossible(plan, &caps, phase)
}

fn phase_impossible(plan: &Plan, caps: &Caps, phase: &Phase) -> Option<String> {
    let needs_reopening = phase.work == Work::Reopen || phase.cache.is_cold();
    if needs_reopening && !caps.persistent {
        return Some("forgets when closed".to_owned());
    }
    let (workers, batch) = match &phase.work {
        Work::Ops(load) | Work::Ramp(load) => {
            (load.workers.unwrap_or(plan.workers), load.batch.unwrap_or(plan.batch))
        }
        Work::Age(_) => (plan.workers, 1),
        Work::Reopen | Work::Purge => (1, 1),
    };
    if workers > 1 && !caps.many {
        return Some("one session at a time".to_owned());
    }
    if let Work::Ops(load) = &phase.work {
        if batch > 1 && load.has_uploads() {
            return Some("uploads have no batches".to_owned());
        }
        let only_gets = load.mix.iter().all(|(kind, _)| *kind == OpKind::Get);
        if batch > 1 && only_gets && !caps.get_many {
            return Some("no batches: there is no request for several blobs".to_owned());
        }
        if batch > 1 && !only_gets && !caps.batch {
            return Some("no batches: there is no transaction over several blobs".to_owned());
        }
        if load.mix.iter().any(|(kind, _)| *kind == OpKind::Range) {
            if !caps.range {
                return Some("no range reads".to_owned());
            }
            if batch > 1 {
                return Some("range reads have no batches".to_owned());
            }
        }
    }
    None
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
    std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
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
            error: None,
            seconds: 0.0,
        },
    };
    let outcome = visitor.everything();
    let mut visit = visitor.visit;
    // Closing is part of `everything`; this is the safety net, whose errors come after the first one.
    if let Some(apart) = visitor.desk.and_then(|desk| desk.apart) {
        apart.remove().ok();
    }
    if let Some((_, store)) = visitor.open {
        store.remove().ok();
    }
    std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove `{}`", dir.display()))?;
    machine::sync_filesystem(&run.place)?;
    machine::wait_until_quiet(run.device.as_ref(), Duration::from_secs(2));
    visit.seconds = (machine::uptime() - begin).as_secs_f64();
    match outcome {
        _ if run.stopped() => return Ok(None),
        Ok(()) => {}
        Err(error) => visit.error = Some(format!("{error:#}")),
    }
    Ok(Some(visit))
}

fn empty_footprint(subject: Subject) -> Footprint {
    Footprint {
        store: subject.row.label.clone(),
        sweep_bytes: subject.sweep_bytes,
        logical_bytes: subject.corpus.bytes(),
        empty_bytes: None,
        allocated_bytes: None,
        after_settle_bytes: None,
        statvfs_bytes: None,
        write_amplification: None,
        space_amplification: None,
    }
}

/// Looking at the residency of more files than this after every phase would take longer than the phases.
const RESIDENCY_BLOBS_MAX: u64 = 20_000;
/// An open loop is planned this much longer than asked: its last op is due before its end, and would make it too short.
const OPEN_STRETCH: f64 = 1.1;
/// Passes of a cold phase of a row that is never cold.
const COLD_PASSES_RESIDENT: u32 = 2;
/// A phase that opens the store does so this often, or for this long, whichever comes first; neither makes it too short.
const REOPENS: u64 = SHORT_OPS;
/// See [`REOPENS`].
const REOPEN_SECONDS: f64 = SHORT_SECONDS;

/// A visit under way.
/// Where uploads are registered.
struct UploadDesk {
    /// The store that has the catalogue, where that is not the blobs' own.
    apart: Option<Box<dyn Store>>,
    one_transaction: bool,
    /// The keys of contents by id of their blob.
    keys: Vec<Key>,
}

impl UploadDesk {
    fn uploads(&self) -> Uploads<'_> {
        Uploads { apart: self.apart.as_deref(), one_transaction: self.one_transaction, keys: &self.keys }
    }
}

struct Visitor<'a> {
    run: &'a Run<'a>,
    fixed: &'a Fixed,
    subject: Subject<'a>,
    turn: Turn,
    /// Told the phase that begins.
    tell: &'a mut dyn FnMut(&str),
    dir: PathBuf,
    /// The open store and its class.
    open: Option<(Durability, Box<dyn Store>)>,
    /// Where uploads are registered, from the first phase on that has some.
    desk: Option<UploadDesk>,
    /// What the store must hold.
    state: State,
    /// Whether everything was read since the store was opened or evicted.
    warm: bool,
    /// What opening brought into the cache, until something is written.
    share_opened: Option<f64>,
    /// Bytes overwritten by ageing.
    aged_bytes: u64,
    memory: MemoryBaseline,
    visit: Visit,
}

impl<'a> Visitor<'a> {
    fn plan(&self) -> &'a Plan {
        self.run.plan
    }

    fn caps(&self) -> Caps {
        (self.subject.row.adapter.caps)(&self.subject.row.options)
    }

    fn class(&self, class: Class) -> Durability {
        class_of(self.subject.row, class, self.plan().durability)
    }

    fn everything(&mut self) -> Result<()> {
        self.create()?;
        let of_corpus = |phase: &&Phase| self.plan().has(&phase.id, self.subject.sweep_bytes);
        let phases: Vec<&Phase> = self.plan().phases.iter().filter(of_corpus).collect();
        let mut index = 0;
        while index < phases.len() && !self.run.stopped() {
            let phase = phases[index];
            // A phase that repeats a cold one is done with it, in the same sessions.
            let repeat = phases.get(index + 1).copied().filter(|next| repeats_cold(phase, next));
            let impossible =
                |phase: &Phase| impossible(self.plan(), self.subject.row, self.subject.corpus, phase);
            match impossible(phase) {
                None => self.timed(phase, repeat)?,
                Some(why) => {
                    let single = phase.without_batches();
                    if phase.id == "fill" && impossible(&single).is_none() {
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
        self.verify()?;
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
            let empty = self.bytes_taken(self.store()?.0)?;
            self.visit.footprint.empty_bytes = Some(empty);
            self.visit.footprint.statvfs_bytes = free_before;
        }
        Ok(())
    }

    fn open_as(&mut self, class: Durability, mode: Mode) -> Result<()> {
        let store = self.opened(class, mode)?;
        self.open = Some((class, store));
        Ok(())
    }

    fn opened(&self, class: Durability, mode: Mode) -> crate::store::Result<Box<dyn Store>> {
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
        (adapter.open)(&setup(self.plan(), self.subject.corpus, dir, &self.run.common, options, class, mode))
    }

    /// Opens the catalogue of uploads, in the class that the blobs are in.
    fn open_desk(&mut self) -> Result<()> {
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
        let keys = (0..corpus.sizes.len()).map(key).collect();
        self.desk = Some(UploadDesk { apart, one_transaction, keys });
        Ok(())
    }

    fn store(&self) -> Result<(&dyn Store, Durability)> {
        self.open
            .as_ref()
            .map(|(class, store)| (store.as_ref(), *class))
            .ok_or_else(|| anyhow!("the store is not open"))
    }

    fn close(&mut self) -> Result<()> {
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
    fn warm_up(&mut self) -> Result<()> {
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
            Outcome::NotPossible(_) => None,
        });
        let failed: Vec<_> = rounds.filter(|round| round.errors > 0).collect();
        match failed.iter().find_map(|round| round.first_error.as_ref()) {
            Some(first) => {
                let errors: u64 = failed.iter().map(|round| round.errors).sum();
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
        let outcome = self.work(phase, repeat);
        self.check_servers(outcome.is_err())?;
        outcome.map_err(|error| self.with_logs(error))?;
        let always = phase.id == "fill" || phase.has_uploads();
        if phase.writes() && (self.plan().verify || always) && !self.run.stopped() {
            self.verify().with_context(|| format!("after `{}`", phase.id))?;
        }
        Ok(())
    }

    /// A server that died is why the rest failed: it says more than the ops that met it.
    fn check_servers(&self, failed: bool) -> Result<()> {
        let Ok((store, _)) = self.store() else { return Ok(()) };
        let servers = store.servers();
        if failed && !servers.is_empty() {
            // A connection may break a moment before the process is gone.
            std::thread::sleep(Duration::from_millis(200));
        }
        match servers.into_iter().find(|server| !server.is_running()) {
            Some(dead) => bail!("`{}` died{}", dead.name(), dead.log_end()),
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

    fn work(&mut self, phase: &Phase, repeat: Option<&Phase>) -> Result<()> {
        match &phase.work {
            Work::Reopen => self.reopen(phase)?,
            Work::Purge => self.purge(phase)?,
            Work::Age(times) => self.age(phase, *times)?,
            Work::Ramp(load) => self.ramp(phase, load)?,
            Work::Ops(load) if phase.cache == CacheState::Cold => self.cold(phase, load, repeat)?,
            Work::Ops(load) => {
                let mut proof = None;
                match phase.cache {
                    CacheState::Warm => self.warm_up()?,
                    CacheState::ColdStart => {
                        let mut looked = CacheProof::default();
                        self.evict(self.class(phase.class), true, &mut looked)?;
                        proof = Some(looked);
                    }
                    CacheState::Cold | CacheState::AsIs => {}
                }
                self.load(phase, load)?;
                if let Some(Outcome::Measured(round)) = self.visit.phases.get_mut(&phase.id) {
                    round.cache_proof = proof;
                }
            }
        }
        Ok(())
    }

    fn length(&self, phase: &Phase) -> Result<FixedLength> {
        let key = length_key(&phase.id, self.subject.sweep_bytes);
        self.fixed.lengths.get(&key).copied().ok_or_else(|| anyhow!("the pilot fixed no length for `{key}`"))
    }

    /// What the keys of a phase are drawn from: the same for every store of a round.
    fn seed(&self, phase: &Phase, load: &Load) -> u64 {
        let purpose = load.repeats.as_deref().unwrap_or(&phase.id);
        derived_seed(self.plan().seed, self.turn.round, &length_key(purpose, self.subject.sweep_bytes))
    }

    fn new_round(&self, seed: u64) -> Round {
        Round { round: self.turn.round, position: self.turn.position, seed, ..Round::default() }
    }

    fn job(&self, load: &Load, lists: Vec<Vec<PlannedOp>>, length: FixedLength, class: Durability) -> Job {
        Job {
            lists,
            passes: length.passes.max(1) as usize,
            nanoseconds: (length.seconds * 1e9) as u64,
            open: None,
            use_bytes: load.use_bytes,
            batch: load.batch.unwrap_or(self.plan().batch),
            connect: self.connects(load.only_reads()),
            sync: (class == Durability::OnSync).then_some(self.plan().sync),
            first_apart: true,
        }
    }

    fn crew<'s>(&'s self, store: &'s dyn Store, workers: usize) -> Crew<'s, HostClock> {
        let corpus = self.subject.corpus;
        Crew {
            clock: &self.run.clock,
            store,
            keys: &corpus.keys,
            contents: &corpus.contents,
            workers,
            stranger: None,
            uploads: None,
            stop: self.run.stop,
        }
    }

    fn meter(&self) -> Meter<'a> {
        // Nothing is known of the device of a server that somebody else runs.
        let device = self.run.device.as_ref().filter(|_| !self.is_external());
        Meter::new(device, self.turn.idle)
    }

    /// Whether the row connects anew for every op of a phase.
    fn connects(&self, only_reads: bool) -> bool {
        let options = &self.subject.row.options;
        match options.text("keepalive") {
            "" => options.text("connection") == "per-op",
            // Of a web server only reads ask, and behind it `connection` is the application's.
            kept => kept == "false" && only_reads,
        }
    }

    /// Whether the store is a server of the user's.
    fn is_external(&self) -> bool {
        !self.subject.row.options.text("url").is_empty()
    }

    /// A phase of ops in whatever state the caches are.
    fn load(&mut self, phase: &Phase, load: &Load) -> Result<()> {
        let (plan, length, seed) = (self.plan(), self.length(phase)?, self.seed(phase, load));
        let workers = load.workers.unwrap_or(plan.workers);
        let rate = load.rate.or(plan.rate).filter(|_| phase.id != "fill");
        let deal = if rate.is_some() { Deal::Shared } else { Deal::Own(workers) };
        let lists = lists(load, &self.state, length.ops, deal, seed);
        let ops: u64 = lists.iter().map(|list| list.len() as u64).sum();
        if ops == 0 {
            let why = "the store holds nothing that this phase could use".to_owned();
            self.visit.phases.insert(phase.id.clone(), Outcome::NotPossible(why));
            return Ok(());
        }
        if load.has_uploads() {
            self.open_desk()?;
        }
        let mut job = self.job(load, lists, length, self.store()?.1);
        job.open = rate.map(|ops_per_s| {
            let batches = ops.div_ceil(job.batch as u64);
            let (seconds, ops_max) = if load.only_reads() {
                (length.seconds * OPEN_STRETCH, u64::MAX)
            } else {
                (f64::INFINITY, batches)
            };
            Open { arrivals: plan.arrivals, ops_per_s, seconds, ops_max, seed }
        });
        machine::reset_peak();
        let mut meters = [self.meter()];
        let tally = {
            let (store, _) = self.store()?;
            let uploads = self.desk.as_ref().filter(|_| load.has_uploads()).map(UploadDesk::uploads);
            let crew = Crew { uploads, ..self.crew(store, workers) };
            crew.run(std::slice::from_ref(&job), &mut meters)?.remove(0)
        };
        job.lists.iter().flatten().for_each(|op| self.state.apply(op));
        let mut round = self.new_round(seed);
        round.seconds = tally.seconds(workers);
        let [mut meter] = meters;
        if phase.writes() {
            self.settle(phase, &mut meter, &mut round)?;
        }
        self.finish(&mut round, &tally, &meter)?;
        round.open = rate.map(|rate| open_loop(rate, &tally));
        self.visit.phases.insert(phase.id.clone(), Outcome::Measured(Box::new(round)));
        Ok(())
    }

    /// One offered rate after the other. In the pilot, which fixes where the ladder begins, a closed loop.
    fn ramp(&mut self, phase: &Phase, load: &Load) -> Result<()> {
        self.warm_up()?;
        let (plan, length, seed) = (self.plan(), self.length(phase)?, self.seed(phase, load));
        let Some(first) = length.first_ops_per_s else { return self.load(phase, load) };
        let workers = load.workers.unwrap_or(plan.workers);
        let lists = lists(load, &self.state, length.ops, Deal::Shared, seed);
        machine::reset_peak();
        let (store, class) = self.store()?;
        let crew = self.crew(store, workers);
        let mut job = self.job(load, lists, length, class);
        let (rungs, best) = ramp::climb(&plan.limit, first, |ops_per_s| -> Result<_> {
            if self.run.stopped() {
                return Ok(None);
            }
            let seconds = ramp::rung_seconds(&plan.limit, length.seconds, ops_per_s);
            job.open = Some(Open { arrivals: plan.arrivals, ops_per_s, seconds, ops_max: u64::MAX, seed });
            let mut meters = [self.meter()];
            let tally = crew.run(std::slice::from_ref(&job), &mut meters)?.remove(0);
            let rung = ramp::judge(&plan.limit, ops_per_s, &tally);
            let [meter] = meters;
            Ok(Some((rung, (ops_per_s, tally, meter))))
        })?;
        let outcome = match best {
            Some((ops_per_s, tally, meter)) => {
                let mut round = self.new_round(seed);
                // What passed is the rate that was offered, not the one that chance made of it.
                round.seconds = tally.ops as f64 / ops_per_s;
                self.finish(&mut round, &tally, &meter)?;
                round.open = Some(open_loop(ops_per_s, &tally));
                round.rungs = rungs;
                Outcome::Measured(Box::new(round))
            }
            None => {
                let (rate, why) = rungs
                    .last()
                    .map(|rung| (rung.offered_ops_per_s, rung.failure.clone().unwrap_or_default()))
                    .unwrap_or_default();
                let rate = crate::units::count(rate);
                Outcome::NotPossible(format!("not even {rate} ops/s, the lowest rate offered: {why}"))
            }
        };
        self.visit.phases.insert(phase.id.clone(), outcome);
        Ok(())
    }

    /// The work that writes put off: counted, and timed apart.
    fn settle(&mut self, phase: &Phase, meter: &mut Meter, round: &mut Round) -> Result<()> {
        let fill = phase.id == "fill" && self.caps().persistent;
        let (store, _) = self.store()?;
        let apart = self.desk.as_ref().filter(|_| phase.has_uploads()).and_then(|desk| desk.apart.as_deref());
        let mut servers = store.servers();
        servers.extend(apart.iter().flat_map(|apart| apart.servers()));
        let mut syncfs = 0.0;
        let mut before = None;
        if fill {
            meter.start(&servers);
            machine::sync_filesystem(&self.dir)?;
            syncfs += meter.stop(&servers);
            before = Some(self.bytes_taken(store)?);
        }
        meter.start(&servers);
        store.settle().context("settling failed")?;
        apart.map_or(Ok(()), Store::settle).context("settling the catalogue failed")?;
        round.settle_seconds = Some(meter.stop(&servers));
        meter.start(&servers);
        machine::sync_filesystem(&self.dir)?;
        round.syncfs_seconds = Some(syncfs + meter.stop(&servers));
        meter.look_at_memory(&servers);
        if fill {
            let after = self.bytes_taken(store)?;
            let logical = self.subject.corpus.bytes().max(1) as f64;
            let free = free_bytes(&self.run.place);
            let footprint = &mut self.visit.footprint;
            footprint.allocated_bytes = before;
            footprint.after_settle_bytes = Some(after);
            footprint.space_amplification = Some(after as f64 / logical);
            footprint.statvfs_bytes =
                footprint.statvfs_bytes.zip(free).map(|(before, now)| before.saturating_sub(now));
            footprint.write_amplification =
                meter.used().device.map(|device| device.written_bytes as f64 / logical);
        }
        Ok(())
    }

    /// Disk that the store takes: what it says itself when it is not below our directory, else what is allocated there.
    fn bytes_taken(&self, store: &dyn Store) -> Result<u64> {
        Ok(store.footprint_bytes()?.unwrap_or_else(|| machine::allocated_bytes(&self.dir)))
    }

    /// Moves what was counted into the record of the round.
    fn finish(&self, round: &mut Round, tally: &Tally, meter: &Meter) -> Result<()> {
        round.ops = tally.ops;
        round.blobs = tally.blobs;
        round.bytes = tally.bytes;
        round.passes = tally.passes;
        round.errors = tally.errors;
        round.first_error = tally.first_error.clone();
        round.retries = tally.retries;
        round.cache_misses = tally.cache_misses;
        round.timeouts = tally.timeouts;
        round.first_ops_ns = tally.first_ops_ns.clone();
        round.syncs = tally.syncs;
        round.sync_seconds = tally.sync_ns as f64 / 1e9;
        round.worker_cpu_ns = tally.cpu_ns;
        let mean = |(name, sum, ops): &(&str, u64, u64)| ((*name).to_owned(), *sum as f64 / *ops as f64);
        round.counts = tally.counts.iter().map(mean).collect();
        if round.seconds == 0.0 {
            round.seconds = (tally.end - tally.begin) as f64 / 1e9;
        }
        if let (Some(settle), Some(syncfs)) = (round.settle_seconds, round.syncfs_seconds) {
            round.settled_seconds = Some(round.seconds + settle + syncfs);
        }
        round.histogram = tally.histograms()?;
        let used = meter.used();
        round.total_cpu_ns = used.busy_ns;
        round.client_cpu_ns = used.process_ns;
        if let Some(device) = used.device {
            round.device_read_bytes = Some(device.read_bytes);
            round.device_written_bytes = Some(device.written_bytes);
            round.device_flushes = Some(device.flushes);
        }
        round.server_cpu_ns = used.server_ns;
        round.server_peak_bytes = meter.server_peak_bytes();
        let memory = self.memory.beyond();
        round.client_peak_bytes = memory.peak_bytes;
        round.anonymous_bytes = memory.anonymous_bytes;
        round.mapped_bytes = memory.mapped_bytes;
        if self.caps().persistent && self.subject.corpus.blobs() <= RESIDENCY_BLOBS_MAX {
            round.page_cache_share = Some(machine::resident_share(&self.dir));
        }
        Ok(())
    }

    /// Opens the closed store and reads one blob, several times.
    fn reopen(&mut self, phase: &Phase) -> Result<()> {
        let seed = derived_seed(self.plan().seed, self.turn.round, &phase.id);
        let ids: Vec<u32> =
            (0..self.state.alive.len() as u32).filter(|id| self.state.alive[*id as usize]).collect();
        if ids.is_empty() {
            let why = "the store holds no blob to read".to_owned();
            self.visit.phases.insert(phase.id.clone(), Outcome::NotPossible(why));
            return Ok(());
        }
        let class = self.class(phase.class);
        let mut tally = Tally::new([true; BANDS.len()], false);
        tally.first_apart = false;
        let mut meter = self.meter();
        let mut seconds = 0.0;
        machine::reset_peak();
        while tally.ops < REOPENS && seconds < REOPEN_SECONDS && !self.run.stopped() {
            self.close()?;
            let id = ids[(seed as usize).wrapping_add(tally.ops as usize * 7919) % ids.len()];
            let op = PlannedOp {
                blob: id,
                kind: OpKind::Get,
                len: self.state.len[id as usize] as u32,
                generation: self.state.generation[id as usize],
                offset: 0,
            };
            let key = &self.subject.corpus.keys[id as usize];
            meter.start(&[]);
            let cpu = machine::thread_cpu_ns();
            let open = || self.opened(class, Mode::Open);
            let store = worker::reopen(&self.run.clock, &open, key, &op, &mut tally)?;
            tally.cpu_ns += machine::thread_cpu_ns().saturating_sub(cpu);
            seconds += meter.stop(&store.servers());
            self.open = Some((class, store));
        }
        let mut round = self.new_round(seed);
        round.seconds = seconds;
        self.finish(&mut round, &tally, &meter)?;
        self.visit.phases.insert(phase.id.clone(), Outcome::Measured(Box::new(round)));
        Ok(())
    }

    /// Carries out deletes that were only marked, as one op, and settles.
    fn purge(&mut self, phase: &Phase) -> Result<()> {
        if self.subject.row.options.text("delete") != "lazy" {
            let why = "deletes at once: there is nothing to purge".to_owned();
            self.visit.phases.insert(phase.id.clone(), Outcome::NotPossible(why));
            return Ok(());
        }
        let mut tally = Tally::new([true; BANDS.len()], false);
        let mut meter = self.meter();
        machine::reset_peak();
        let (store, _) = self.store()?;
        meter.start(&store.servers());
        worker::purge(&self.run.clock, store, &mut tally)?;
        meter.stop(&store.servers());
        let mut round = self.new_round(0);
        self.settle(phase, &mut meter, &mut round)?;
        self.finish(&mut round, &tally, &meter)?;
        self.visit.phases.insert(phase.id.clone(), Outcome::Measured(Box::new(round)));
        Ok(())
    }

    /// Overwrites with new sizes until enough was overwritten since the fill.
    fn age(&mut self, phase: &Phase, times: f64) -> Result<()> {
        let plan = self.plan();
        let seed = derived_seed(plan.seed, self.turn.round, &phase.id);
        let target = ((times * self.subject.corpus.bytes() as f64) as u64).saturating_sub(self.aged_bytes);
        let ops = ageing(self.subject.corpus, &self.state, target, seed);
        self.aged_bytes += target;
        let store_class = self.store()?.1;
        let job = Job {
            lists: by_blob(ops.clone(), plan.workers),
            passes: 1,
            nanoseconds: 0,
            open: None,
            use_bytes: crate::plan::Use::Touch,
            batch: 1,
            connect: self.connects(false),
            sync: (store_class == Durability::OnSync).then_some(plan.sync),
            first_apart: true,
        };
        machine::reset_peak();
        let mut meters = [self.meter()];
        let tally = {
            let (store, _) = self.store()?;
            self.crew(store, plan.workers).run(std::slice::from_ref(&job), &mut meters)?.remove(0)
        };
        ops.iter().for_each(|op| self.state.apply(op));
        self.warm = false;
        let mut round = self.new_round(seed);
        let [mut meter] = meters;
        self.settle(phase, &mut meter, &mut round)?;
        self.finish(&mut round, &tally, &meter)?;
        if self.caps().persistent {
            round.allocated_bytes = Some(self.bytes_taken(self.store()?.0)?);
        }
        round.live_bytes = Some(self.state.live_bytes());
        self.visit.phases.insert(phase.id.clone(), Outcome::Measured(Box::new(round)));
        Ok(())
    }

    // ---- cold ----------------------------------------------------------------------------------------------

    /// Reads after eviction: several passes over a few keys each, the store closed, evicted and opened before every pass, so
    /// that no pass reads what an earlier one brought in. A phase that repeats this one reads each pass's keys again
    /// at once, in the same sessions.
    fn cold(&mut self, phase: &Phase, load: &Load, repeat: Option<&Phase>) -> Result<()> {
        let (plan, length, seed) = (self.plan(), self.length(phase)?, self.seed(phase, load));
        let workers = load.workers.unwrap_or(plan.workers);
        let all = lists(load, &self.state, length.ops, Deal::Own(1), seed).remove(0);
        if all.is_empty() {
            let why = "the store holds nothing that this phase could use".to_owned();
            self.visit.phases.insert(phase.id.clone(), Outcome::NotPossible(why));
            return Ok(());
        }
        // The same ops in fewer passes: what opening brought in, nothing can evict, and opening that reads everything is slow.
        let most = if self.turn.resident { COLD_PASSES_RESIDENT } else { u32::MAX };
        let passes = (length.cold_passes.clamp(1, most) as usize).min(all.len());
        let each = all.len().div_ceil(passes);
        let class = self.class(phase.class);
        let mut totals: Vec<Total<'_>> = Vec::new();
        let mut proof =
            CacheProof { sample_share: each as f64 / self.state.alive.len() as f64, ..CacheProof::default() };
        let mut ratios = Vec::new();
        let mut begin = machine::uptime();
        machine::reset_peak();
        for (index, ops) in all.chunks(each).enumerate() {
            if self.run.stopped() {
                return Ok(());
            }
            self.evict(class, index == 0, &mut proof)?;
            let mut jobs = Vec::new();
            for load in std::iter::once(load).chain(repeat.and_then(load_of)) {
                let fixed = FixedLength { seconds: 0.0, ..length };
                let mut job = self.job(load, in_turn(ops, workers), fixed, class);
                job.first_apart = false;
                jobs.push(job);
            }
            let mut meters: Vec<Meter> = jobs.iter().map(|_| self.meter()).collect();
            let tallies = {
                let (store, _) = self.store()?;
                let mut crew = self.crew(store, workers);
                crew.stranger = Some(self.subject.corpus.stranger(0));
                crew.run(&jobs, &mut meters)?
            };
            if index == 0 {
                begin = machine::uptime();
            }
            ratios.push((meters[0].used().device.map(|device| device.read_bytes), tallies[0].bytes));
            for (which, (tally, meter)) in tallies.into_iter().zip(meters).enumerate() {
                let seconds = (tally.end - tally.begin) as f64 / 1e9;
                match totals.get_mut(which) {
                    Some(total) => total.add(tally, meter, seconds),
                    None => totals.push(Total { tally, meter, seconds }),
                }
            }
        }
        let later = (ratios.len() - 1).max(1) as f64;
        self.visit.pass_seconds.insert(phase.id.clone(), (machine::uptime() - begin).as_secs_f64() / later);
        proof.device_bytes_per_byte = tenths(&ratios);
        let done = std::iter::once(phase).chain(repeat);
        for (which, (phase, total)) in done.zip(totals).enumerate() {
            let mut round = self.new_round(seed);
            round.seconds = total.seconds;
            self.finish(&mut round, &total.tally, &total.meter)?;
            round.passes = passes as u64;
            round.cache_proof = (which == 0).then(|| proof.clone());
            self.visit.phases.insert(phase.id.clone(), Outcome::Measured(Box::new(round)));
        }
        self.warm = false;
        Ok(())
    }

    /// Closes the store, makes the kernel forget it, and opens it again.
    fn evict(&mut self, class: Durability, first: bool, proof: &mut CacheProof) -> Result<()> {
        // What opening reads does not change from round to round, and looking means opening twice.
        let prove = first && self.turn.round == 1;
        self.close()?;
        machine::sync_filesystem(&self.dir)?;
        if self.run.drop_caches && machine::drop_caches() {
            proof.method = "drop_caches".to_owned();
        } else {
            machine::evict(&self.dir);
            proof.method = "fadvise".to_owned();
        }
        if prove {
            proof.resident_share = Some(machine::resident_share(&self.dir));
            // Looking brought inodes and dentries back.
            if self.run.drop_caches {
                machine::drop_caches();
            }
        }
        let begin = machine::uptime();
        self.open_as(class, Mode::Open)?;
        if first {
            proof.open_seconds = (machine::uptime() - begin).as_secs_f64();
        }
        if prove {
            if self.share_opened.is_none() {
                self.share_opened = Some(self.look_at_opening()?);
            }
            proof.resident_share_opened = self.share_opened;
        }
        Ok(())
    }

    /// What opening brought into the cache; the store is evicted again afterwards, because looking has side effects.
    fn look_at_opening(&mut self) -> Result<f64> {
        let share = machine::resident_share(&self.dir);
        let class = self.store()?.1;
        self.close()?;
        if self.run.drop_caches {
            machine::drop_caches();
        } else {
            machine::evict(&self.dir);
        }
        self.open_as(class, Mode::Open)?;
        Ok(share)
    }
}

/// Whether a phase repeats the cold one before it.
fn repeats_cold(phase: &Phase, next: &Phase) -> bool {
    let repeats = load_of(next).and_then(|load| load.repeats.as_deref()) == Some(phase.id.as_str());
    repeats && phase.cache == CacheState::Cold && next.cache == CacheState::AsIs && !next.writes()
}

fn load_of(phase: &Phase) -> Option<&Load> {
    match &phase.work {
        Work::Ops(load) | Work::Ramp(load) => Some(load),
        Work::Reopen | Work::Purge | Work::Age(_) => None,
    }
}

/// The sum of several passes.
struct Total<'a> {
    tally: Tally,
    meter: Meter<'a>,
    seconds: f64,
}

impl<'a> Total<'a> {
    fn add(&mut self, tally: Tally, meter: Meter<'a>, seconds: f64) {
        self.tally.add(&tally);
        self.meter.add(&meter);
        self.seconds += seconds;
    }
}

/// Device bytes per byte delivered in each tenth of the passes.
fn tenths(passes: &[(Option<u64>, u64)]) -> Vec<f64> {
    let Some(read) = passes.iter().map(|(read, _)| *read).collect::<Option<Vec<u64>>>() else {
        return Vec::new();
    };
    let delivered: Vec<u64> = passes.iter().map(|(_, bytes)| *bytes).collect();
    let count = passes.len().min(10);
    (0..count)
        .map(|tenth| {
            let range = passes.len() * tenth / count..passes.len() * (tenth + 1) / count;
            let read: u64 = read[range.clone()].iter().sum();
            let delivered: u64 = delivered[range].iter().sum();
            read as f64 / delivered.max(1) as f64
        })
        .collect()
}

/// What an open loop has beside a closed one.
fn open_loop(rate: f64, tally: &Tally) -> OpenLoop {
    let drain_ns = tally.end.saturating_sub(tally.last_due.max(tally.begin));
    let phase_ns = tally.last_due.saturating_sub(tally.begin).max(1);
    let late = tally.wake_late.as_deref();
    let late_at =
        |share| late.filter(|late| !late.is_empty()).map_or(0, |late| late.value_at_quantile(share));
    OpenLoop {
        offered_ops_per_s: rate,
        all_busy_share: tally.busy_when_due as f64 / tally.ops.max(1) as f64,
        drain_seconds: drain_ns as f64 / 1e9,
        sustained: (drain_ns as f64) <= 0.1 * phase_ns as f64,
        wake_late_p50_ns: late_at(histogram::SHARES[0]),
        wake_late_p99_ns: late_at(histogram::SHARES[2]),
    }
}
