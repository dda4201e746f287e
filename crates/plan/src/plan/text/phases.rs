//! Phases: one kind of load each. The standard ones have names; a plan may describe its own.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::values::{MemorySize, at_most, parse_speed, positive_rate};
use super::{BATCH_MAX, WORKERS_MAX};
use crate::suggest::unknown;
use crate::units::parse_bytes;

/// Kind of op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OpKind {
    /// Stores a new blob.
    Put,
    /// Reads a whole blob.
    Get,
    /// Reads part of a blob.
    Range,
    /// Replaces a blob by another generation of it.
    Overwrite,
    /// Removes a blob.
    Delete,
    /// Uploads content: stores it if it is new, and registers it in a catalog.
    Register,
    /// Takes an upload back; the content is deleted with its last reference.
    Release,
}

impl OpKind {
    /// True if the op leaves the store unchanged.
    pub fn reads(self) -> bool {
        matches!(self, OpKind::Get | OpKind::Range)
    }

    /// True if the op replaces or deletes a blob that is there.
    pub fn changes(self) -> bool {
        matches!(self, OpKind::Overwrite | OpKind::Delete | OpKind::Release)
    }

    /// True if the op goes through a catalog of uploads.
    pub fn is_upload(self) -> bool {
        matches!(self, OpKind::Register | OpKind::Release)
    }
}

/// Order in which keys are used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Each key once in random order, repeatedly.
    Once,
    /// Order of ids.
    Sequential,
    /// Order of last writing, so that keys written together are read together.
    Written,
    /// Always the same key.
    Same,
    /// Independent draws, all keys equally likely.
    Uniform,
    /// Independent draws; the k-th most popular key has a probability proportional to 1/k^theta.
    Zipfian(f64),
}

impl Order {
    /// True if each key follows from the one before, so that each worker needs a contiguous range.
    pub fn has_neighbours(self) -> bool {
        matches!(self, Order::Sequential | Order::Written)
    }
}

/// State of the caches at the start of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// As the previous phase left them.
    AsIs,
    /// Warmed by reading everything once.
    Warm,
    /// Reads are repeated until the device reads per op are stable, for stores larger than their memory.
    Still,
    /// Nothing of the store is cached: it is closed, evicted and reopened, again before every few keys.
    Cold,
    /// Like `Cold`, but only once: what the phase reads stays cached.
    ColdStart,
}

impl CacheState {
    /// True if the store is closed and evicted before the phase.
    pub fn is_cold(self) -> bool {
        matches!(self, CacheState::Cold | CacheState::ColdStart)
    }
}

/// Part of a blob that a range op reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRule {
    /// The first bytes.
    Head(u64),
    /// This many bytes from a random offset.
    Random(u64),
}

/// Length of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// A fixed list: this share of the blobs, each once.
    Share(f64),
    /// A fixed list of this many ops, or fewer if there are not enough blobs to use once.
    Ops(u64),
    /// Whole passes over the order for at least this many seconds.
    Seconds(f64),
    /// Decided by the pilot: repeated passes of reads, or a fixed sample of writes.
    Pilot,
}

/// Durability class in which a phase writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// On-sync, or none if the run asks for none, because durable writes are not measured by the fill. A candidate with its own
    /// class is filled in that class.
    Fill,
    /// None: a step of a growth loads up to a million blobs, which is not what it measures. The store is opened again in the class
    /// of the run for phases that write. A candidate with its own class is filled in that class.
    Load,
    /// Class of the run.
    Asked,
}

/// Use of the bytes that a get lends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadSink {
    /// Reads one byte of each cache line.
    #[default]
    Touch,
    /// Copies all bytes into a buffer of the worker.
    Copy,
}

/// Grouping of reads into transactions, in stores that have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transaction {
    /// Each op is its own transaction.
    #[default]
    Op,
    /// All ops of a worker form one transaction.
    Phase,
}

/// One phase of a workload. Its fields describe it fully, so that code that measures or judges it need not know its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Id, unique in a workload.
    pub id: String,
    /// Description, if it is a standard phase.
    pub about: Option<&'static str>,
    /// Kind of work, by the name under which the engine registers it.
    pub kind: &'static str,
    /// Work to do.
    pub action: Action,
    /// Role among the phases of the workload.
    pub role: Role,
    /// Durability class of its writes.
    pub class: Class,
    /// State of the caches at its start.
    pub cache: CacheState,
    /// Memory limit of a candidate, if it differs from the run's.
    pub memory: Option<MemorySize>,
    /// Number of blobs in the store, if the phase is a step of a growth.
    pub grown_to: Option<u64>,
    /// Bytes overwritten since the fill, in percent of the live bytes, if the phase is a step of ageing.
    pub aged_to: Option<u64>,
}

/// Kind of work of phases that a plan describes itself: ops one after the other.
pub const OPS: &str = "ops";
/// Kind of work of phases that replay a log.
pub const REPLAY: &str = "replay";
/// Id of the phase that fills the stores. Every workload begins with it, unless another phase prepares what it needs.
const FILL: &str = "fill";

/// Role of a phase among the phases of its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Measured.
    Measured,
    /// Puts the blobs that all other phases use. It comes first, and the disk space of its blobs is measured.
    Fill,
    /// Prepares later phases; not part of the result.
    Prepare,
}

/// Work of a phase.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ops from a mix.
    Ops(Workload),
    /// Ops from a mix at increasing offered rates, until response times exceed the limit.
    RateLadder(Workload),
    /// Custom work, defined by the phase's kind of work.
    Custom(CustomAction),
}

/// Properties of custom work, which is no load of ops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CustomAction {
    /// What a candidate does, as a verb in the third person: `opens`.
    pub verb: &'static str,
    /// True if it changes the contents of the store.
    pub writes: bool,
    /// True if all workers of the run take part; otherwise one does the work.
    pub by_all: bool,
    /// True if it closes and reopens the store: it needs a persistent store, and reads what is in the kernel's caches.
    pub reopens: bool,
    /// True if the stores no longer count as freshly filled afterwards.
    pub ages: bool,
    /// True if it undoes what ageing does to the stores.
    pub renews: bool,
    /// Amount of work, in units of its kind.
    pub amount: f64,
}

impl CustomAction {
    /// Custom work that changes nothing, done by one worker in an open store.
    pub const fn new(verb: &'static str) -> CustomAction {
        CustomAction {
            verb,
            writes: false,
            by_all: false,
            reopens: false,
            ages: false,
            renews: false,
            amount: 0.0,
        }
    }
}

/// A standard phase, which plans use by name without describing it.
#[derive(Clone, Copy, Debug)]
pub struct StandardPhase {
    /// Name of the phase.
    pub id: &'static str,
    /// Description.
    pub about: &'static str,
    /// Builds the phases that the name stands for.
    pub phases: fn() -> Vec<Phase>,
}

/// A load of ops.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Kinds of op and their shares, which sum to 1.
    pub mix: Vec<(OpKind, f64)>,
    /// Order of keys.
    pub order: Order,
    /// Part of a blob that range ops read.
    pub range: RangeRule,
    /// Length.
    pub length: Length,
    /// Use of the bytes read.
    pub use_bytes: ReadSink,
    /// Earlier phase whose keys are repeated in the same order.
    pub repeats: Option<String>,
    /// True to repeat the keys of the closest read phase before it.
    pub repeats_last: bool,
    /// Number of workers, if it differs from the run's.
    pub workers: Option<usize>,
    /// Blobs per op, if they differ from the run's.
    pub batch: Option<usize>,
    /// Offered rate of an open loop in ops per second, if it differs from the run's.
    pub rate: Option<f64>,
    /// Share of uploads whose content is already stored.
    pub duplicates: f64,
    /// Grouping of reads into transactions, if the plan specifies it.
    pub transaction: Option<Transaction>,
}

const DUPLICATES: f64 = 0.2;
/// Maximum share of duplicates; above it, too few uploads would be stored.
const DUPLICATES_MAX: f64 = 0.9;

impl Workload {
    /// One kind of op on each blob once, the default of standard phases.
    pub fn new(kind: OpKind, length: Length) -> Workload {
        Workload {
            mix: vec![(kind, 1.0)],
            order: Order::Once,
            range: RangeRule::Head(4096),
            length,
            use_bytes: ReadSink::Touch,
            repeats: None,
            repeats_last: false,
            workers: None,
            batch: None,
            rate: None,
            duplicates: DUPLICATES,
            transaction: None,
        }
    }

    /// True if every op leaves the store unchanged.
    pub fn only_reads(&self) -> bool {
        self.mix.iter().all(|(kind, _)| kind.reads())
    }

    /// True if its ops go through a catalog of uploads.
    pub fn has_uploads(&self) -> bool {
        self.mix.iter().any(|(kind, _)| kind.is_upload())
    }

    fn only_puts(&self) -> bool {
        self.mix.iter().all(|(kind, _)| *kind == OpKind::Put)
    }

    /// True if all blobs are present at the end of the load.
    pub fn puts_all(&self) -> bool {
        self.only_puts() && self.length == Length::Share(1.0)
    }
}

impl Phase {
    /// Returns a measured phase of ops, in the durability class of the fill and with caches as they are.
    pub fn of_ops(id: &str, load: Workload) -> Phase {
        Phase { action: Action::Ops(load), ..Phase::custom(OPS, id, CustomAction::new("works")) }
    }

    /// Returns a measured phase of custom work, in the durability class of the fill and with caches as they are.
    pub fn custom(kind: &'static str, id: &str, action: CustomAction) -> Phase {
        Phase {
            id: id.to_owned(),
            about: None,
            kind,
            action: Action::Custom(action),
            role: Role::Measured,
            class: Class::Fill,
            cache: CacheState::AsIs,
            memory: None,
            grown_to: None,
            aged_to: None,
        }
    }

    /// Returns a measured phase that replays the log of the corpus, in the durability class asked for: at `speed` times the rate of
    /// the log, or as fast as the store can if `speed` is infinite.
    pub fn replay(id: &str, speed: f64) -> Phase {
        let action =
            CustomAction { writes: true, by_all: true, amount: speed, ..CustomAction::new("replays") };
        Phase { class: Class::Asked, cache: CacheState::Warm, ..Phase::custom(REPLAY, id, action) }
    }

    pub(super) fn replays(&self) -> bool {
        self.kind == REPLAY
    }

    /// Speed of a replay, in times the rate of the log; `None` for one as fast as the store can.
    pub fn speed(&self) -> Option<f64> {
        self.custom_action().map(|action| action.amount).filter(|speed| self.replays() && speed.is_finite())
    }

    pub(super) fn at_speed(self, speed: Option<f64>) -> Phase {
        match speed.filter(|_| self.replays()) {
            Some(speed) => Phase { about: self.about, ..Phase::replay(&self.id, speed) },
            None => self,
        }
    }

    /// True if the phase fills the stores.
    pub fn is_fill(&self) -> bool {
        self.role == Role::Fill
    }

    /// Step of a growth or of ageing that the phase is a part of.
    pub fn step(&self) -> Option<u64> {
        self.grown_to.or(self.aged_to)
    }

    /// True if the phase fills a growing store up to its step.
    pub fn fills_a_step(&self) -> bool {
        self.grown_to.is_some() && self.load().is_some_and(Workload::only_puts)
    }

    /// True if the phase only prepares later ones and is not part of the result.
    pub fn only_prepares(&self) -> bool {
        self.role == Role::Prepare
    }

    /// True if the phase offers increasing rates.
    pub fn climbs(&self) -> bool {
        matches!(self.action, Action::RateLadder(_))
    }

    /// Load of ops, if the phase has one.
    pub fn load(&self) -> Option<&Workload> {
        match &self.action {
            Action::Ops(load) | Action::RateLadder(load) => Some(load),
            Action::Custom(_) => None,
        }
    }

    /// Mutable version of [`Phase::load`].
    pub fn load_mut(&mut self) -> Option<&mut Workload> {
        match &mut self.action {
            Action::Ops(load) | Action::RateLadder(load) => Some(load),
            Action::Custom(_) => None,
        }
    }

    /// Load of ops, unless the phase offers increasing rates, where the rate itself is the result.
    pub fn plain_load(&self) -> Option<&Workload> {
        self.load().filter(|_| !self.climbs())
    }

    /// Custom work, if the phase is no load of ops.
    pub fn custom_action(&self) -> Option<&CustomAction> {
        match &self.action {
            Action::Custom(action) => Some(action),
            Action::Ops(_) | Action::RateLadder(_) => None,
        }
    }

    pub(super) fn put_by_key(&mut self) {
        if let Some(load) = self.load_mut().filter(|load| load.only_puts()) {
            load.order = Order::Sequential;
        }
    }

    /// True if its ops go through a catalog of uploads.
    pub fn has_uploads(&self) -> bool {
        self.load().is_some_and(Workload::has_uploads)
    }

    /// True if it changes the contents of the store.
    pub fn writes(&self) -> bool {
        match &self.action {
            Action::Ops(load) | Action::RateLadder(load) => !load.only_reads(),
            Action::Custom(action) => action.writes,
        }
    }

    /// True if it runs within the cold phase before it: right after each pass, it reads the same keys in the same sessions.
    pub fn repeats_cold(&self, before: &Phase) -> bool {
        let repeats = self.load().and_then(|load| load.repeats.as_ref());
        repeats == Some(&before.id)
            && before.cache == CacheState::Cold
            && self.cache == CacheState::AsIs
            && !self.writes()
    }

    /// Rejects batches of mixed ops: a batch is a single request, so all of it would be done like its first op. `of_run` is the
    /// batch of a phase that has none of its own.
    pub(super) fn check_batch(&self, of_run: usize) -> Result<()> {
        let Some(load) = self.load() else { return Ok(()) };
        let batch = load.batch.unwrap_or(of_run);
        if batch > 1 && load.mix.len() > 1 {
            bail!(
                "phase `{}`: a batch of {batch} is one request of one kind, and `ops` mixes {} kinds; give the phase `batch = 1`",
                self.id,
                load.mix.len()
            );
        }
        Ok(())
    }

    /// Returns the phase as a part with this number. What repeats another phase repeats that one's part.
    pub(super) fn part(&self, number: u32) -> Phase {
        let mut part = Phase { id: part_named(&self.id, number), ..self.clone() };
        if let Some(load) = part.load_mut() {
            load.repeats = load.repeats.as_deref().map(|id| part_named(id, number));
        }
        part
    }

    /// Returns the phase as it is repeated after another one. What repeats another phase repeats that one's repetition.
    pub(super) fn after(&self, earlier: &str) -> Phase {
        let named = |id: &str| format!("{id}{AFTER}{earlier}");
        let mut again = Phase { id: named(&self.id), about: None, ..self.clone() };
        if let Some(load) = again.load_mut() {
            load.repeats = load.repeats.as_deref().map(named);
        }
        again
    }

    /// Returns the phase with one blob per op.
    pub fn without_batches(&self) -> Phase {
        let mut single = self.clone();
        if let Some(load) = single.load_mut() {
            load.batch = Some(1);
        }
        single
    }
}

/// Default phases: those that the first screen shows, so that the time of a run is spent on them.
pub const DEFAULT_PHASES: &[&str] = &["fill", "read-warm", "read-cold", "overwrite"];

/// Default phases if memory can be limited.
pub const DEFAULT_PHASES_TIGHT: &[&str] = &["fill", "read-warm", "read-cold", "read-tight", "overwrite"];

/// Phases of a quick run.
pub const QUICK_PHASES: &[&str] = &["fill", "read-warm", "read-cold"];

/// Phases that `all` stands for: every kind of read and write of blobs.
pub const ALL_PHASES: &[&str] = &[
    "fill",
    "read-warm",
    "read-copy",
    "read-cold",
    "read-again",
    "range-head",
    "range-random",
    "read-tight",
    "read-tight-zipf",
    "overwrite",
    "delete-half",
    "reopen",
];

const SECONDS_MAX: f64 = 86_400.0;
/// Maximum number of parts of a phase: each has a column in tables and a point in figures.
const PARTS_MAX: usize = 1000;

/// Returns the phases that a standard name stands for.
pub fn standard(known: &[StandardPhase], id: &str) -> Result<Vec<Phase>> {
    let found = known.iter().find(|phase| phase.id == id);
    let found = found.ok_or_else(|| unknown("phase", id, known.iter().map(|phase| phase.id)))?;
    let mut phases = (found.phases)();
    // The description applies only to the phase of that name.
    phases.iter_mut().filter(|phase| phase.id == id).for_each(|phase| phase.about = Some(found.about));
    Ok(phases)
}

/// A phase as described in a plan.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PhaseText {
    /// Id of the phase.
    pub id: String,
    /// Kinds of op (`put`, `get`, `range`, `overwrite`, `delete`, `register`, `release`) and their weights. Required, except with
    /// `replay`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ops: BTreeMap<OpKind, f64>,
    /// Replay the log that `trace` of the corpus names, at this speed: `1`, `10` or `max`. Of the other keys only `memory`,
    /// `stores` and `corpora` go with it.
    pub replay: Option<String>,
    /// Order of keys: `once` (each key once in random order; default, except for phases that only put: see `fill_order`),
    /// `sequential` (by id), `written` (in the order of writing), or for phases that read `same` (always one blob), `uniform` or
    /// `zipfian:THETA`.
    pub order: Option<String>,
    /// State of the caches: `warm` (default for reads), `still` (reads are repeated until the device reads per op are stable),
    /// `cold` (emptied before every few keys), `cold-start` (emptied once) or `as-is`.
    pub cache: Option<String>,
    /// Part of a blob that `range` reads: `head:4096` or `random:4096`.
    pub range: Option<String>,
    /// Length as a share of the blobs, each used once.
    pub share: Option<f64>,
    /// Length as a number of blobs, with one op for each or for `batch` of them. Phases that only write stop when no blobs are
    /// left to write.
    pub count: Option<u64>,
    /// Minimum length in seconds, in whole passes. Reads only.
    pub seconds: Option<f64>,
    /// Use of the bytes read: `touch` (default) or `copy`.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub use_bytes: Option<ReadSink>,
    /// Earlier phase whose keys are repeated.
    pub repeats: Option<String>,
    /// Number of workers, if it differs from the run's.
    pub workers: Option<usize>,
    /// Blobs per op, if they differ from the run's. Batches are always full: reads reuse blobs, writes skip a remainder that does
    /// not fill a batch, and a fill puts the remainder one by one before it is timed.
    pub batch: Option<usize>,
    /// Offered rate of an open loop in ops per second.
    pub rate: Option<f64>,
    /// Share of uploads (`register`) whose content is already stored, from 0 to 0.9; default 0.2.
    pub duplicates: Option<f64>,
    /// `op`: each read is its own transaction, or the store's equivalent. `phase`: all reads of a worker form one transaction,
    /// which the store must support. Reads only, and not in `cold` passes. Default: the candidate's option `transaction`, which
    /// defaults to `op`.
    pub transaction: Option<Transaction>,
    /// Number of successive phases of this length, named `ID.01` etc. The first finds the caches as specified, each other one as
    /// its predecessor left them.
    pub parts: Option<u32>,
    /// Memory limit of a candidate in this phase, in the format of `memory` of the plan.
    pub memory: Option<String>,
    /// Run only on these corpora, if the plan has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corpora: Vec<String>,
    /// Run only by candidates of these stores (`sqlite`) or of these settings (`sqlite[page_size=4096]`), and by baselines; all
    /// others skip it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<String>,
}

fn part_named(phase: &str, number: u32) -> String {
    format!("{phase}.{number:02}")
}

/// Splits the id of a part into the whole phase and the number of the part, from 1.
pub fn part_of(id: &str) -> Option<(&str, u32)> {
    let (whole, number) = id.rsplit_once('.')?;
    Some((whole, number.parse().ok()?))
}

/// Joins the id of a phase and that of the one that it is repeated after.
const AFTER: &str = "-after-";

/// Returns the id of the phase that this one repeats after another one, or `id` itself.
pub(super) fn repeated_of(id: &str) -> &str {
    id.split_once(AFTER).map_or(id, |(repeated, _)| repeated)
}

/// Returns the id of the phase after which this one is repeated; `None` if it is no repetition.
pub fn repeated_after(id: &str) -> Option<&str> {
    id.split_once(AFTER).map(|(_, earlier)| earlier)
}

/// Returns the id of the whole phase that this one is a part of, or `id` itself.
pub fn whole_of(id: &str) -> &str {
    part_of(id).map_or(id, |(whole, _)| whole)
}

impl PhaseText {
    /// True if `id` is that of the phase, of one of its parts, of one of its steps of a growth or of ageing, or of what is repeated
    /// of it.
    pub fn includes(&self, id: &str) -> bool {
        self.id == id || self.id == whole_of(id) || self.id == repeated_of(id)
    }

    /// Returns the phase, or its parts. An invalid number of parts is left to [`PhaseText::parse`] to reject.
    pub fn expanded(&self) -> Vec<PhaseText> {
        let Some(parts) = self.parts.filter(|parts| (1..=PARTS_MAX).contains(&(*parts as usize))) else {
            return vec![self.clone()];
        };
        let part = |number: u32| {
            let named = |id: &String| part_named(id, number);
            let cache = if number == 1 { self.cache.clone() } else { Some("as-is".to_owned()) };
            let repeats = self.repeats.as_ref().map(named);
            PhaseText { id: named(&self.id), cache, repeats, parts: None, ..self.clone() }
        };
        (1..=parts).map(part).collect()
    }

    /// Parses the phase.
    pub fn parse(&self) -> Result<Phase> {
        self.parse_inner().with_context(|| format!("phase `{}`", self.id))
    }

    fn check_transaction(&self, only_reads: bool, cache: CacheState) -> Result<()> {
        if self.transaction != Some(Transaction::Phase) {
            return Ok(());
        }
        if !only_reads {
            bail!("`transaction = \"phase\"` is for phases that only read");
        }
        if cache == CacheState::Cold {
            bail!(
                "`transaction = \"phase\"`: a cold phase closes the store before every few keys, and no transaction outlives that; \
                 `cache = \"cold-start\"` does so once"
            );
        }
        Ok(())
    }

    fn parse_replay(&self, speed: &str) -> Result<Phase> {
        let own = PhaseText {
            id: self.id.clone(),
            replay: self.replay.clone(),
            memory: self.memory.clone(),
            stores: self.stores.clone(),
            corpora: self.corpora.clone(),
            ..PhaseText::default()
        };
        if *self != own || self.id == FILL {
            bail!(
                "`replay` takes everything but `memory`, `stores` and `corpora` from the log; leave out the other keys"
            );
        }
        let memory = self.memory_limit()?;
        Ok(Phase { memory, ..Phase::replay(&self.id, parse_speed("replay", speed)?) })
    }

    fn memory_limit(&self) -> Result<Option<MemorySize>> {
        self.memory.as_deref().map(|memory| MemorySize::parse_limit("memory =", memory)).transpose()
    }

    fn parse_inner(&self) -> Result<Phase> {
        if let Some(speed) = &self.replay {
            return self.parse_replay(speed);
        }
        let mix = self.mix()?;
        let only_reads = mix.iter().all(|(kind, _)| kind.reads());
        let length = self.length(only_reads)?;
        if let Some(parts) = self.parts {
            at_most("parts", parts as usize, PARTS_MAX)?;
        }
        if !self.stores.is_empty() && self.id == FILL {
            bail!("has no `stores`: every candidate is filled");
        }
        if let Some(share) = self.duplicates {
            if mix.iter().any(|(kind, _)| *kind != OpKind::Register) {
                bail!("`duplicates` is for `register`: other ops upload nothing");
            }
            if !(0.0..=DUPLICATES_MAX).contains(&share) {
                bail!("`duplicates = {share}` is not from 0 to {DUPLICATES_MAX}");
            }
        }
        let order = self.order(&mix)?;
        let cache = self.cache(only_reads)?;
        if self.rate.is_some() && (cache == CacheState::Cold || self.id == FILL) {
            bail!(
                "has no `rate`: cold passes are a few ops each, and the fill is what comes before, one after the other"
            );
        }
        self.check_transaction(only_reads, cache)?;
        let range = self.range.as_deref().map_or(Ok(RangeRule::Head(4096)), parse_range)?;
        let load = Workload {
            mix,
            order,
            range,
            length,
            use_bytes: self.use_bytes.unwrap_or_default(),
            repeats: self.repeats.clone(),
            repeats_last: false,
            workers: self.workers.map(|workers| at_most("workers", workers, WORKERS_MAX)).transpose()?,
            batch: self.batch.map(|batch| at_most("batch", batch, BATCH_MAX)).transpose()?,
            rate: self.rate.map(|rate| positive_rate("rate", rate)).transpose()?,
            duplicates: self.duplicates.unwrap_or(DUPLICATES),
            transaction: self.transaction,
        };
        let part = if self.id == FILL { Role::Fill } else { Role::Measured };
        let memory = self.memory_limit()?;
        if memory.is_some() && part == Role::Fill {
            bail!("has no `memory`: what is put is put before there is a limit");
        }
        Ok(Phase { role: part, class: Class::Asked, cache, memory, ..Phase::of_ops(&self.id, load) })
    }

    /// Kinds of op and their shares, which sum to 1.
    fn mix(&self) -> Result<Vec<(OpKind, f64)>> {
        let total: f64 = self.ops.values().sum();
        if self.ops.is_empty()
            || !total.is_finite()
            || total <= 0.0
            || self.ops.values().any(|weight| *weight < 0.0)
        {
            bail!("`ops` needs at least one kind of op with a weight above 0");
        }
        let mix: Vec<(OpKind, f64)> = self.ops.iter().map(|(kind, weight)| (*kind, weight / total)).collect();
        if mix.len() > 1 && mix.iter().any(|(kind, _)| kind.is_upload()) {
            bail!("`register` and `release` are not mixed with other ops");
        }
        Ok(mix)
    }

    fn length(&self, only_reads: bool) -> Result<Length> {
        Ok(match (self.share, self.count, self.seconds) {
            (Some(share), None, None) if (0.0..=1.0).contains(&share) => Length::Share(share),
            (None, Some(count), None) if count > 0 => Length::Ops(count),
            (None, None, Some(seconds)) if seconds > SECONDS_MAX => {
                bail!("`seconds = {seconds}` is more than a day ({SECONDS_MAX:.0})")
            }
            (None, None, Some(seconds)) if seconds > 0.0 && only_reads => Length::Seconds(seconds),
            (None, None, Some(_)) if !only_reads => {
                bail!("a phase that writes is a fixed list: give `count` or `share`, not `seconds`")
            }
            (None, None, None) => Length::Pilot,
            _ => bail!("give one of `share` (0 to 1), `count` (above 0) and `seconds` (above 0)"),
        })
    }

    fn order(&self, mix: &[(OpKind, f64)]) -> Result<Order> {
        let order = self.order.as_deref().map_or(Ok(Order::Once), parse_order)?;
        if let Some(text) = &self.order
            && mix.iter().any(|(kind, _)| kind.is_upload())
        {
            bail!("`order = \"{text}\"`: uploads come in an order of their own; leave it out");
        }
        if matches!(order, Order::Same | Order::Uniform | Order::Zipfian(_))
            && mix.iter().all(|(kind, _)| !kind.reads())
        {
            let text = self.order.as_deref().unwrap_or_default();
            bail!(
                "`order = \"{text}\"` comes back to blobs, and a phase that only writes uses each of them once: give `once`, \
                 `sequential` or `written`, or mix in a read"
            );
        }
        Ok(order)
    }

    fn cache(&self, only_reads: bool) -> Result<CacheState> {
        let cache = match self.cache.as_deref() {
            None if only_reads => CacheState::Warm,
            None | Some("as-is") => CacheState::AsIs,
            Some("warm") => CacheState::Warm,
            Some("still") => CacheState::Still,
            Some("cold") => CacheState::Cold,
            Some("cold-start") => CacheState::ColdStart,
            Some(other) => {
                return Err(unknown("cache state", other, ["warm", "still", "cold", "cold-start", "as-is"]));
            }
        };
        if cache.is_cold() && !only_reads {
            bail!("a cold phase only reads");
        }
        if cache == CacheState::Still && !only_reads {
            bail!(
                "`cache = \"still\"` is for phases that only read: reads go on until those of the device stand still"
            );
        }
        Ok(cache)
    }
}

pub(super) fn parse_order(text: &str) -> Result<Order> {
    match text.split_once(':') {
        None if text == "once" => Ok(Order::Once),
        None if text == "sequential" => Ok(Order::Sequential),
        None if text == "written" => Ok(Order::Written),
        None if text == "same" => Ok(Order::Same),
        None if text == "uniform" => Ok(Order::Uniform),
        Some(("zipfian", theta)) => match theta.parse::<f64>() {
            Ok(theta) if (0.0..=10.0).contains(&theta) => Ok(Order::Zipfian(theta)),
            _ => bail!("`{text}` needs an exponent from 0 to 10"),
        },
        _ => {
            Err(unknown("order", text, ["once", "sequential", "written", "same", "uniform", "zipfian:0.99"]))
        }
    }
}

fn parse_range(text: &str) -> Result<RangeRule> {
    let (form, bytes) =
        text.split_once(':').ok_or_else(|| anyhow!("`{text}` is not of the form head:4096"))?;
    match (form, parse_bytes(bytes)?) {
        ("head", bytes) => Ok(RangeRule::Head(bytes)),
        ("random", bytes) => Ok(RangeRule::Random(bytes)),
        _ => Err(unknown("range", form, ["head", "random"])),
    }
}
