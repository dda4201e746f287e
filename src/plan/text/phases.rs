//! Phases: one kind of load each. The standard ones have names; a plan may describe its own.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{MemorySize, at_most, positive_rate};
use super::{BATCH_MAX, WORKERS_MAX};
use crate::names::unknown;
use crate::units::parse_bytes;

/// What an op does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OpKind {
    /// Stores a blob that is not there.
    Put,
    /// Reads a whole blob.
    Get,
    /// Reads a part of a blob.
    Range,
    /// Replaces a blob by another generation of it.
    Overwrite,
    /// Removes a blob.
    Delete,
    /// Uploads a content: stored when nobody uploaded it before, and entered into a catalogue.
    Register,
    /// Takes an upload back: the content is deleted with its last reference.
    Release,
}

impl OpKind {
    /// Whether it leaves the store as it was.
    pub fn reads(self) -> bool {
        matches!(self, OpKind::Get | OpKind::Range)
    }

    /// Whether it goes through a catalogue of uploads.
    pub fn is_upload(self) -> bool {
        matches!(self, OpKind::Register | OpKind::Release)
    }
}

/// In which order keys are used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Each key once in a random order, again and again.
    Once,
    /// In the order of ids.
    Sequential,
    /// In the order in which they were written last: what came together is asked for together.
    Written,
    /// Always the same key.
    Same,
    /// Each draw as likely for every key.
    Uniform,
    /// The k-th most popular key as likely as 1/k^theta.
    Zipfian(f64),
}

impl Order {
    /// Whether one key follows from the one before, so that each worker needs a stretch of them.
    pub fn has_neighbours(self) -> bool {
        matches!(self, Order::Sequential | Order::Written)
    }
}

/// What the caches hold when a phase begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// Whatever the phase before left.
    AsIs,
    /// Everything was read once.
    Warm,
    /// Read until what the device reads for an op stands still: of a store that does not fit into its memory.
    Still,
    /// Nothing of the store: closed, evicted, opened again, and again before every few keys.
    Cold,
    /// The same once: what the phase reads stays for what comes after it.
    ColdStart,
}

impl CacheState {
    /// Whether the store is closed and evicted for it.
    pub fn is_cold(self) -> bool {
        matches!(self, CacheState::Cold | CacheState::ColdStart)
    }
}

/// Which part of a blob a range op asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRule {
    /// The first bytes.
    Head(u64),
    /// This many bytes from a random offset.
    Random(u64),
}

/// How long a phase is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// A fixed list: this share of the blobs, each once.
    Share(f64),
    /// A fixed list of this many ops, or of as many as there are blobs to use once.
    Ops(u64),
    /// Whole passes over the order for at least this many seconds.
    Seconds(f64),
    /// As the pilot decides: reads that repeat their order, or a fixed sample of writes.
    Pilot,
}

/// Which durability class a phase writes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// On-sync, or none where none was asked for: the fill is not what is measured durably. A candidate with a class of its own
    /// is filled in that.
    Fill,
    /// The class asked for.
    Asked,
}

/// What is done with the bytes that a get lends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// One byte of each cache line is read.
    #[default]
    Touch,
    /// All bytes are copied into a buffer of the worker's.
    Copy,
    /// All bytes are written to a socket.
    Send,
}

/// How reads are grouped into transactions, in stores that have any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transaction {
    /// Each op is one of its own.
    #[default]
    Op,
    /// All ops of a worker are one.
    Phase,
}

/// One phase of a workload. What is true of it stands here, so that whoever measures around it or judges it need not know its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its name, unique in a workload.
    pub id: String,
    /// What it is, of a standard phase.
    pub about: Option<&'static str>,
    /// The kind of work, by the name that it has where it is done.
    pub kind: &'static str,
    /// What is done.
    pub does: Does,
    /// What it is to the other phases.
    pub part: Part,
    /// In which class writes are done.
    pub class: Class,
    /// What the caches hold at its start.
    pub cache: CacheState,
    /// All the memory that a candidate may have in it, where it is not the run's.
    pub memory: Option<MemorySize>,
}

/// The kind of work that a phase of a plan's own is: its ops, one after the other.
pub const OPS: &str = "ops";
/// What the phase is called that fills the stores: every workload begins with it, unless another prepares what it needs.
const FILL: &str = "fill";

/// What a phase is to the other phases of its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is measured.
    Measured,
    /// It puts what all others use: it comes first, and how much room its blobs take is looked at.
    Fills,
    /// It is done only for the phases after it, and is no part of the result.
    Prepares,
}

/// What a phase does.
#[derive(Clone, Debug, PartialEq)]
pub enum Does {
    /// Ops from a mix.
    Ops(Load),
    /// Ops from a mix at one offered rate after the other, until response times exceed the limit.
    Climbs(Load),
    /// What its kind of work says.
    Deed(Deed),
}

/// What is true of work that is no load of ops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deed {
    /// What a candidate does, in the third person: `opens`.
    pub verb: &'static str,
    /// Whether it changes what the store holds.
    pub writes: bool,
    /// Whether all workers of the run take part; else it is done by one.
    pub by_all: bool,
    /// Whether it closes the store and opens it: it needs one that remembers, and reads what is in the kernel's caches.
    pub reopens: bool,
    /// Whether the stores are no longer freshly filled after it.
    pub ages: bool,
    /// How much is done, in what its kind counts.
    pub amount: f64,
}

impl Deed {
    /// A deed that changes nothing, done by one worker in an open store.
    pub const fn new(verb: &'static str) -> Deed {
        Deed { verb, writes: false, by_all: false, reopens: false, ages: false, amount: 0.0 }
    }
}

/// A phase that plans name without describing it, as its kind of work has it.
#[derive(Clone, Copy, Debug)]
pub struct StandardPhase {
    /// The name.
    pub id: &'static str,
    /// What it is.
    pub about: &'static str,
    /// The phases it stands for, where range ops read this many bytes.
    pub phases: fn(range_bytes: u64) -> Vec<Phase>,
}

/// A load of ops.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Kinds of op and their shares, which add up to 1.
    pub mix: Vec<(OpKind, f64)>,
    /// The order of keys.
    pub order: Order,
    /// Which part range ops read.
    pub range: RangeRule,
    /// How long.
    pub length: Length,
    /// What is done with what is read.
    pub use_bytes: Use,
    /// Repeats the keys of this earlier phase, in the same order.
    pub repeats: Option<String>,
    /// Repeats those of the read phase before it, whichever that is.
    pub repeats_last: bool,
    /// Differs from the run's.
    pub workers: Option<usize>,
    /// Differs from the run's.
    pub batch: Option<usize>,
    /// Ops a second of an open loop; differs from the run's.
    pub rate: Option<f64>,
    /// Share of uploads whose content is there already.
    pub duplicates: f64,
    /// How its reads are grouped, where the plan says so.
    pub transaction: Option<Transaction>,
}

/// Uploads of contents that are already there, among all uploads, where a plan says nothing.
const DUPLICATES: f64 = 0.2;
/// A share above this leaves too few that are stored.
const DUPLICATES_MAX: f64 = 0.9;

impl Load {
    /// One kind of op on each blob once, as standard phases have it.
    pub fn of(kind: OpKind, length: Length) -> Load {
        Load {
            mix: vec![(kind, 1.0)],
            order: Order::Once,
            range: RangeRule::Head(4096),
            length,
            use_bytes: Use::Touch,
            repeats: None,
            repeats_last: false,
            workers: None,
            batch: None,
            rate: None,
            duplicates: DUPLICATES,
            transaction: None,
        }
    }

    /// Whether every op leaves the store as it was.
    pub fn only_reads(&self) -> bool {
        self.mix.iter().all(|(kind, _)| kind.reads())
    }

    /// Whether its ops go through a catalogue of uploads.
    pub fn has_uploads(&self) -> bool {
        self.mix.iter().any(|(kind, _)| kind.is_upload())
    }

    /// Whether every op stores a blob that is not there.
    fn only_puts(&self) -> bool {
        self.mix.iter().all(|(kind, _)| *kind == OpKind::Put)
    }

    /// Whether nothing may be missing when it is over.
    pub fn puts_all(&self) -> bool {
        self.only_puts() && self.length == Length::Share(1.0)
    }
}

impl Phase {
    /// A measured phase of ops in the class of the fill, which finds the caches as they are.
    pub fn of_ops(id: &str, load: Load) -> Phase {
        Phase { does: Does::Ops(load), ..Phase::of_deed(OPS, id, Deed::new("works")) }
    }

    /// A measured phase of a kind of work in the class of the fill, which finds the caches as they are.
    pub fn of_deed(kind: &'static str, id: &str, deed: Deed) -> Phase {
        Phase {
            id: id.to_owned(),
            about: None,
            kind,
            does: Does::Deed(deed),
            part: Part::Measured,
            class: Class::Fill,
            cache: CacheState::AsIs,
            memory: None,
        }
    }

    /// Whether it fills the stores.
    pub fn is_fill(&self) -> bool {
        self.part == Part::Fills
    }

    /// Whether it is done only for the phases after it, and is no part of the result.
    pub fn only_prepares(&self) -> bool {
        self.part == Part::Prepares
    }

    /// Whether it is offered one rate after the other.
    pub fn climbs(&self) -> bool {
        matches!(self.does, Does::Climbs(_))
    }

    /// Its ops, where it is a load of some.
    pub fn load(&self) -> Option<&Load> {
        match &self.does {
            Does::Ops(load) | Does::Climbs(load) => Some(load),
            Does::Deed(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn load_mut(&mut self) -> Option<&mut Load> {
        match &mut self.does {
            Does::Ops(load) | Does::Climbs(load) => Some(load),
            Does::Deed(_) => None,
        }
    }

    /// Its ops, where they are all that it is: of a climb the rate is what is asked about.
    pub fn plain_load(&self) -> Option<&Load> {
        self.load().filter(|_| !self.climbs())
    }

    /// What is done, where it is no load of ops.
    pub fn deed(&self) -> Option<&Deed> {
        match &self.does {
            Does::Deed(deed) => Some(deed),
            Does::Ops(_) | Does::Climbs(_) => None,
        }
    }

    /// Puts in the order of ids, where it only puts.
    pub(super) fn put_by_key(&mut self) {
        if let Some(load) = self.load_mut().filter(|load| load.only_puts()) {
            load.order = Order::Sequential;
        }
    }

    /// Whether its ops go through a catalogue of uploads.
    pub fn has_uploads(&self) -> bool {
        self.load().is_some_and(Load::has_uploads)
    }

    /// Whether it changes what the store holds.
    pub fn writes(&self) -> bool {
        match &self.does {
            Does::Ops(load) | Does::Climbs(load) => !load.only_reads(),
            Does::Deed(deed) => deed.writes,
        }
    }

    /// Whether it is done with the cold phase before it: it reads each pass's keys again at once, in the same sessions.
    pub fn repeats_cold(&self, before: &Phase) -> bool {
        let repeats = self.load().and_then(|load| load.repeats.as_ref());
        repeats == Some(&before.id)
            && before.cache == CacheState::Cold
            && self.cache == CacheState::AsIs
            && !self.writes()
    }

    /// Refuses batches of mixed ops: a batch is one request, and all of it would be done as its first op says. `of_run` is the
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

    /// The same with one op at a time.
    pub fn without_batches(&self) -> Phase {
        let mut single = self.clone();
        if let Some(load) = single.load_mut() {
            load.batch = Some(1);
        }
        single
    }
}

/// The phases of a run that names none.
pub const DEFAULT_PHASES: &[&str] = &[
    "fill",
    "read-warm",
    "read-copy",
    "read-cold",
    "read-again",
    "range-head",
    "range-random",
    "overwrite",
    "delete-half",
    "reopen",
];

/// The same where memory can be limited.
pub const DEFAULT_PHASES_TIGHT: &[&str] = &[
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

/// The longest phase, in seconds.
const SECONDS_MAX: f64 = 86_400.0;
/// Parts of a phase: each has a column in tables and a point in figures.
const PARTS_MAX: usize = 1000;

/// The phases that a name stands for.
pub fn standard(known: &[StandardPhase], id: &str, range_bytes: u64) -> Result<Vec<Phase>> {
    let found = known.iter().find(|phase| phase.id == id);
    let found = found.ok_or_else(|| unknown("phase", id, known.iter().map(|phase| phase.id)))?;
    let mut phases = (found.phases)(range_bytes);
    // Of several only the one of that name is what is said of it.
    phases.iter_mut().filter(|phase| phase.id == id).for_each(|phase| phase.about = Some(found.about));
    Ok(phases)
}

/// A phase as a plan describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PhaseText {
    /// Its name.
    pub id: String,
    /// Kinds of op (`put`, `get`, `range`, `overwrite`, `delete`, `register`, `release`) and their weights.
    pub ops: BTreeMap<OpKind, f64>,
    /// `once` (default, but for phases that only put: see `fill_order`), `sequential` (by id), `written` (as they were written),
    /// or for phases that read `same` (always one blob), `uniform` or `zipfian:THETA`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// `warm` (default for reads), `still` (read until what the device reads for an op stands still), `cold` (again before every
    /// few keys), `cold-start` (once) or `as-is`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// `head:4096` or `random:4096`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// A fixed list of this share of the blobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// A fixed list of this many blobs, an op for each or for `batch` of them; where they only write, of as many as there are blobs
    /// to write at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Whole passes for at least this long. Reads only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// `touch` (default), `copy` or `send`.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub use_bytes: Option<Use>,
    /// Repeats the keys of this earlier phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<String>,
    /// Workers, where they differ from the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// Blobs per op, where they differ from the run's. Batches are whole: reads come back to blobs, writes leave out what makes
    /// none, and a fill puts that singly before it is timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Ops a second of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Share of uploads (`register`) whose content is there already, from 0 to 0.9; 0.2 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<f64>,
    /// `op`: each read is a transaction of its own, or what the store has instead; `phase`: all reads of a worker are one, which
    /// a store must have. Reads only, and not in `cold` passes. Left out, it is as the candidate's option `transaction` says,
    /// which is `op` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<Transaction>,
    /// So many phases of this length, one after the other, called `ID.01` and so on: the first finds the caches as asked, the
    /// others as the one before left them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
    /// All the memory that a candidate may have in it, as `memory` of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Only with these corpora, where a plan has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corpora: Vec<String>,
    /// Only by candidates of these stores (`sqlite`), or those of them with some settings (`sqlite[page_size=4096]`), and by
    /// baselines; the others leave it out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<String>,
}

fn part_named(phase: &str, number: u32) -> String {
    format!("{phase}.{number:02}")
}

/// The phase that this one is a part of, and the part's number, from 1.
pub fn part_of(id: &str) -> Option<(&str, u32)> {
    let (whole, number) = id.rsplit_once('.')?;
    Some((whole, number.parse().ok()?))
}

/// The phase that this one is a part of, or itself.
pub fn whole_of(id: &str) -> &str {
    part_of(id).map_or(id, |(whole, _)| whole)
}

impl PhaseText {
    /// The phase, or each part of it. A number of parts that cannot be is left for [`PhaseText::parse`] to refuse.
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

    /// The phase it describes.
    pub fn parse(&self) -> Result<Phase> {
        self.parse_inner().with_context(|| format!("phase `{}`", self.id))
    }

    /// Refuses one transaction for what is no transaction of reads.
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

    fn parse_inner(&self) -> Result<Phase> {
        let mix = self.mix()?;
        let only_reads = mix.iter().all(|(kind, _)| kind.reads());
        let length = self.length(only_reads)?;
        if let Some(parts) = self.parts {
            at_most("parts =", parts as usize, PARTS_MAX)?;
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
        let load = Load {
            mix,
            order,
            range,
            length,
            use_bytes: self.use_bytes.unwrap_or_default(),
            repeats: self.repeats.clone(),
            repeats_last: false,
            workers: self.workers.map(|workers| at_most("workers =", workers, WORKERS_MAX)).transpose()?,
            batch: self.batch.map(|batch| at_most("batch =", batch, BATCH_MAX)).transpose()?,
            rate: self.rate.map(|rate| positive_rate("rate =", rate)).transpose()?,
            duplicates: self.duplicates.unwrap_or(DUPLICATES),
            transaction: self.transaction,
        };
        let part = if self.id == FILL { Part::Fills } else { Part::Measured };
        let memory =
            self.memory.as_deref().map(|memory| MemorySize::parse_limit("memory =", memory)).transpose()?;
        if memory.is_some() && part == Part::Fills {
            bail!("has no `memory`: what is put is put before there is a limit");
        }
        Ok(Phase { part, class: Class::Asked, cache, memory, ..Phase::of_ops(&self.id, load) })
    }

    /// Kinds of op and their shares, which add up to 1.
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

fn parse_order(text: &str) -> Result<Order> {
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
