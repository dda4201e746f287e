//! A plan: corpus, stores, workload, rounds. Read from TOML, from flags or from both; written beside every result.

mod claims;
mod corpora;
mod phases;
mod published;
mod rows;
mod selector;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use claims::{ClaimText, Expect, Metric, Operand, Quantity, Target};
pub use corpora::{CorpusPlan, CorpusText};
pub use phases::{
    CacheState, Class, DEFAULT_PHASES, Length, Load, OpKind, Order, Phase, PhaseText, RangeRule,
    STANDARD_PHASES, Transaction, Use, Work, part_of, standard, whole_of,
};
pub use published::{By, Derived, Document, PublishedText, Series, Unspecified};
pub use rows::{
    Available, COLD_BLOBS_SERVERS, COLD_PASSES_SERVERS, COMMON, CatalogueOf, Missing, Row, Sets, cold_passes,
    defaults, missing_server, rows, split_list, split_pair,
};
pub use values::{CacheSize, ResponseLimit};

use corpora::{DEFAULT_BLOBS, DEFAULT_BYTES};
use selector::Selector;
use values::{at_most, bytes_or, duration_or, positive_rate};

use crate::corpus::PRESETS;
use crate::names::unknown;
use crate::shown::without_passwords;
use crate::store::Durability;
use crate::stores;
use crate::units::{parse_duration, parse_share};

/// A plan as it is written: everything is optional, and what is not given has a default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanText {
    /// What the plan is called in reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Other plans, by file or name, to be run one after the other instead of anything of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<String>,
    /// Everything random follows from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Exactly this many rounds, up to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Half the width that half of the intervals are to have at most, such as `5%`, if the budget allows so many rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Wall time from start to written report, such as `2m`. It cuts no corpus whose size is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// `none`, `on-sync` or `each-write`: the class of all rows that `set` gives none of their own
    /// (`"sqlite.durability" = "each-write"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    /// Threads that work at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// Blobs in one op; see `batch` of a phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// `key` (default): blobs are put in the order of their ids, as applications number what they insert, so that integer keys
    /// ascend, and digests come in random order; `random`: integer keys come in random order too. For phases that only put and
    /// have no `order`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_order: Option<FillOrder>,
    /// Ops a second: an open loop, but for `fill`, `age`, `purge`, `reopen` and cold phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// `poisson` (default) or `constant`: how the ops of an open loop arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// What response times must stay below in the phase `ramp`, such as `p99=50ms`; p50, p90, p99 or p99.9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Shares of `read`, `read-cold`, `range`, `put`, `overwrite` and `delete`, for which the cost of 1,000 ops is worked out from their
    /// standard phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<BTreeMap<String, f64>>,
    /// Sizes from A to B, such as `1kB..10MB`, or just these, such as `10kB,100kB,1MB`: one store for each size, to find where the
    /// winner changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<String>,
    /// Shrinks corpus and phases (or enlarges them, up to 100 times); every row stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Compares every blob after each phase that writes, in every round, with whatever is cached. After the fill and, from the device, at
    /// the end that is done in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// Whether the kernel's caches may be dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_caches: Option<bool>,
    /// Whether idle processors are kept from sleeping while the run lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awake: Option<bool>,
    /// The place to measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Standard phases by name, and phases described below by their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<String>>,
    /// Stores, in the order of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stores: Option<Vec<String>>,
    /// The row that ratios are given to, `files/hashed` or else the first one where nothing is said. Of several corpora, a matrix has the
    /// ratio of every other row at every size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Memory for each store's own cache: bytes, or per cent of the corpus, such as `150%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// On-sync: ops between two syncs of a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_every_ops: Option<u64>,
    /// On-sync: bytes between two syncs of a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_every_bytes: Option<String>,
    /// Bytes of a range read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_bytes: Option<String>,
    /// How long an op may wait for a server before it is given up, from `10ms` to `24h`. What a file system or a library does is not
    /// interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op_timeout: Option<String>,
    /// How much slower or faster a fixed piece of work may be at the start or end of a round than in the others (0.5, by half, when left
    /// out): beyond it the round counts as disturbed, and is measured again at the end, as other disturbed ones are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail_limit: Option<f64>,
    /// Where the blobs come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<CorpusText>,
    /// Several corpora instead: each row has one store for each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corpora: Vec<CorpusText>,
    /// Rows that cannot be had, and why: they are shown, so that nothing else is taken for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<String, String>,
    /// `"store.option" = ["value", ...]`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, OneOrMany>,
    /// Phases of the plan's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phase: Vec<PhaseText>,
    /// Where the experiment was published that the plan repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Document>,
    /// What was not said there, and what the plan does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unspecified: Vec<Unspecified>,
    /// The tables that were published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedText>,
    /// Figures that the document works out from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub derived: Vec<Derived>,
    /// Published statements to test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claim: Vec<ClaimText>,
}

/// A value of an option, or several that make one row each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One value.
    One(String),
    /// One row each.
    Many(Vec<String>),
}

impl OneOrMany {
    /// The same with the passwords of URLs replaced.
    fn without_passwords(&self) -> OneOrMany {
        match self {
            OneOrMany::One(value) => OneOrMany::One(without_passwords(value)),
            OneOrMany::Many(values) => {
                OneOrMany::Many(values.iter().map(|value| without_passwords(value)).collect())
            }
        }
    }
}

/// In which order blobs are put that are not there yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FillOrder {
    /// That of their ids, as from a counter that all workers share.
    #[default]
    Key,
    /// None.
    Random,
}

/// How the ops of an open loop arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Independent of each other, as visitors are.
    #[default]
    Poisson,
    /// Evenly spaced.
    Constant,
}

/// A plan that was checked: every default filled in, every name known.
#[derive(Clone, Debug)]
pub struct Plan {
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
    /// Threads that work at once.
    pub workers: usize,
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
    /// The place to measure.
    pub dir: PathBuf,
    /// The phases, in order.
    pub phases: Vec<Phase>,
    /// Names of corpora by phase, for phases that are done with some of them only.
    only: BTreeMap<String, Vec<String>>,
    /// Rows by phase, for phases that are done by some of them only.
    only_by: OnlyBy,
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Rows of the plan that cannot run here.
    pub missing: Vec<Missing>,
    /// The label of the row that ratios are given to.
    pub reference: String,
    /// Memory for each store's own cache.
    pub cache: CacheSize,
    /// When a worker syncs in the class on-sync.
    pub sync: SyncRule,
    /// How long an op may take.
    pub op_timeout: Duration,
    /// The largest allowed relative difference of rails.
    pub rail_limit: f64,
}

impl Plan {
    /// Whether it shows the shape of a larger plan only: its verdicts are not to be quoted.
    pub fn is_look(&self) -> bool {
        self.scale < LOOK_SCALE
    }

    /// Whether it is about pages that a browser loads: what is asked of them is not what is asked of stores.
    pub fn shows_pages(&self) -> bool {
        self.rows.iter().all(Row::shows_pages)
    }

    /// The cold phase in whose passes a phase is done: it itself, or the one before it that it repeats.
    pub fn cold_phase_of(&self, phase: &str, sweep_bytes: Option<u64>) -> Option<&Phase> {
        let phases: Vec<&Phase> = self.phases_of(sweep_bytes).collect();
        let place = phases.iter().position(|known| known.id == phase)?;
        let before = place.checked_sub(1).map(|before| phases[before]);
        let repeated = before.filter(|before| phases[place].repeats_cold(before));
        repeated.or(Some(phases[place])).filter(|phase| phase.cache == CacheState::Cold)
    }

    /// Whether all reads of a worker of this row are one transaction in a phase: where the phase says so, or the row and the phase says
    /// nothing else. In the passes of a cold phase, and what is repeated in them, no read is. A baseline has no transactions.
    pub fn is_one_transaction(&self, row: &Row, phase: &Phase, sweep_bytes: Option<u64>) -> bool {
        !row.is_reference() && self.reads_in_one(row.transaction(), phase, sweep_bytes)
    }

    /// The same for a row that groups its reads like this where the phase does not say.
    pub fn reads_in_one(&self, own: Transaction, phase: &Phase, sweep_bytes: Option<u64>) -> bool {
        let Some(load) = phase.load().filter(|load| load.only_reads()) else { return false };
        load.transaction.unwrap_or(own) == Transaction::Phase
            && self.cold_phase_of(&phase.id, sweep_bytes).is_none()
    }

    /// The phases that are done with the corpus of this size, in order.
    pub fn phases_of(&self, sweep_bytes: Option<u64>) -> impl Iterator<Item = &Phase> {
        self.phases.iter().filter(move |phase| self.has(&phase.id, sweep_bytes))
    }

    /// Whether a row does a phase. A baseline does every one: it shows what the harness takes of it.
    pub fn is_done_by(&self, phase: &str, row: &Row) -> bool {
        row.is_reference() || self.is_for(phase, row.adapter.name, &row.options.shown())
    }

    /// Whether a phase is for rows of this store with these settings. No row is chosen by what is not shown.
    pub fn is_for(&self, phase: &str, store: &str, options: &BTreeMap<String, String>) -> bool {
        let fits = |only: &Vec<Selector>| only.iter().any(|selector| selector.fits(store, options));
        self.only_by.get(phase).is_none_or(|every| every.iter().all(fits))
    }

    /// Whether a row that cannot run here would do a phase.
    pub fn would_be_done_by(&self, phase: &str, missing: &Missing) -> bool {
        let names = |only: &Vec<Selector>| only.iter().any(|selector| selector.names(missing));
        self.only_by.get(phase).is_none_or(|every| every.iter().all(names))
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
    pub fn has(&self, phase: &str, sweep_bytes: Option<u64>) -> bool {
        let Some(only) = self.only.get(phase) else { return true };
        let corpus = self.corpora.iter().find(|corpus| corpus.sweep_bytes == sweep_bytes);
        corpus.and_then(|corpus| corpus.name.as_ref()).is_some_and(|name| only.contains(name))
    }
}

/// By phase, lists of rows: it is done by those that are in all of them.
type OnlyBy = BTreeMap<String, Vec<Vec<Selector>>>;

/// When a worker syncs in the class on-sync: after this many ops or bytes, whichever comes first, and at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRule {
    /// Ops.
    pub ops: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Rows of a run that names none: the stores that need no server, and two baselines.
pub const DEFAULT_STORES: &[&str] = &[
    "null",
    "memory",
    "files/flat",
    "files/hashed",
    "files/packed",
    "sqlite",
    "lmdb",
    "redb",
    "fjall",
    "fjall[kv_separation=true]",
];

fn default_stores() -> Vec<String> {
    DEFAULT_STORES.iter().map(|store| (*store).to_owned()).collect()
}

/// Narrow enough to answer the questions people have.
const PRECISION: &str = "5%";
/// What visitors hardly notice.
const LIMIT: &str = "p99=50ms";
/// Below this part of its size a run is a look at a plan's shape: of a round or two, with verdicts that are not to be quoted.
pub const LOOK_SCALE: f64 = 0.1;
/// Visits of a look: where two rounds would be more there is one, which shows the shape as well and in half the time.
const LOOK_VISITS_MAX: usize = 150;
/// Rounds at the most: their order is drawn before the first one.
const ROUNDS_MAX: u32 = 10_000;
/// Workers at the most.
const WORKERS_MAX: usize = 1024;
/// Blobs of one op at the most.
const BATCH_MAX: usize = 100_000;
/// How long an op may take where nothing is said.
const OP_TIMEOUT: Duration = Duration::from_secs(30);
/// The shortest that can be kept to: sockets' timeouts are counted in ticks of the kernel, 10 ms where it has 100 a second, and servers
/// count theirs in milliseconds.
const OP_TIMEOUT_MIN: Duration = Duration::from_millis(10);
const OP_TIMEOUT_MAX: Duration = Duration::from_secs(86_400);
/// Bytes of a row's, a phase's or a corpus's name at the most.
const NAME_BYTES_MAX: usize = 4096;
/// Wall time of a run that says nothing of it: what a newcomer waits for. In less the default run has too few rounds for half of
/// its intervals to be within 10 % on two processors.
const DEFAULT_BUDGET: Duration = Duration::from_secs(165);

/// The most that a plan may have, in bytes.
const PLAN_BYTES_MAX: u64 = 4_000_000;

/// How the error begins of a plan that is right, and of which nothing can run on this machine.
pub const NOTHING_RUNS: &str = "none of the stores can run here";

/// The plans that are shipped, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("default", include_str!("../../plans/default.toml")),
    ("all", include_str!("../../plans/all.toml")),
    ("page", include_str!("../../plans/page.toml")),
    ("sqlite-page-sizes", include_str!("../../plans/sqlite-page-sizes.toml")),
    ("afdesign-icons-2009", include_str!("../../plans/afdesign-icons-2009.toml")),
    ("afdesign-pipelining-2010", include_str!("../../plans/afdesign-pipelining-2010.toml")),
    ("fragfrog-2010", include_str!("../../plans/fragfrog-2010.toml")),
    ("afdesign-cache-2009", include_str!("../../plans/afdesign-cache-2009.toml")),
    ("vondra-2009", include_str!("../../plans/vondra-2009.toml")),
    ("horak-2010", include_str!("../../plans/horak-2010.toml")),
    ("afdesign-procedures-2008", include_str!("../../plans/afdesign-procedures-2008.toml")),
    ("afdesign-queries-2009", include_str!("../../plans/afdesign-queries-2009.toml")),
    ("gridfs-2015", include_str!("../../plans/gridfs-2015.toml")),
];

impl PlanText {
    /// Reads a plan from a file, or a shipped one by name.
    pub fn load(name: &str) -> Result<PlanText> {
        if let Some((_, text)) = SHIPPED.iter().find(|(known, _)| *known == name) {
            return PlanText::parse(text).with_context(|| format!("the shipped plan `{name}`"));
        }
        let path = Path::new(name);
        if !path.exists() {
            if name.contains(['/', '.']) {
                bail!("cannot read the plan `{name}`: there is no such file");
            }
            return Err(unknown("plan", name, SHIPPED.iter().map(|(known, _)| *known)));
        }
        let text = crate::input::read_text(path, PLAN_BYTES_MAX)
            .with_context(|| format!("cannot read the plan `{name}`"))?;
        PlanText::parse(&text)
            .map_err(|error| anyhow!("the plan `{name}` has an error: {}", format!("{error:#}").trim_end()))
    }

    /// Reads a plan from its text.
    pub fn parse(text: &str) -> Result<PlanText> {
        Ok(toml::from_str(text)?)
    }

    /// The plan as TOML.
    pub fn to_toml(&self) -> Result<String> {
        Ok(toml::to_string_pretty(self)?)
    }

    /// What response times must stay below in a ladder of rates.
    pub fn limit(&self) -> &str {
        self.limit.as_deref().unwrap_or(LIMIT)
    }

    /// Adds every baseline that is not among the stores yet.
    pub fn add_baselines(&mut self) {
        let stores = self.stores.get_or_insert_with(default_stores);
        for name in stores::baselines() {
            if !stores.iter().any(|store| store.split('[').next() == Some(name)) {
                stores.push(name.to_owned());
            }
        }
    }

    /// The plan without what says how it is carried out: what is left is what is measured.
    pub fn without_conditions(self) -> PlanText {
        PlanText {
            seed: None,
            rounds: None,
            precision: None,
            budget: None,
            scale: None,
            verify: None,
            drop_caches: None,
            awake: None,
            dir: None,
            op_timeout: None,
            ..self
        }
    }

    /// Checks everything and fills in what is not given. `strict`: stores were named by a flag, so one that cannot
    /// run is an error.
    pub fn resolve(&self, strict: bool) -> Result<Plan> {
        self.resolve_for(Available::Here { strict })
    }

    /// The same for rows that can run wherever that may be.
    pub fn resolve_for(&self, available: Available<'_>) -> Result<Plan> {
        Resolver { text: self, available }.resolve()
    }
}

/// The plan of a text, for tests.
#[cfg(test)]
pub fn resolved(toml: &str) -> Plan {
    PlanText::parse(toml).unwrap().resolve(true).unwrap()
}

/// The steps from text to plan.
struct Resolver<'a> {
    text: &'a PlanText,
    available: Available<'a>,
}

impl Resolver<'_> {
    fn resolve(&self) -> Result<Plan> {
        let text = self.text;
        if !text.plans.is_empty() {
            bail!("a plan of plans has nothing to measure of its own");
        }
        let scale = text.scale.unwrap_or(1.0);
        if !(scale > 0.0 && scale <= 100.0) {
            bail!("`--scale {scale}` is not between 0 and 100");
        }
        let seed = text.seed.unwrap_or(1);
        let (rows, missing) = self.rows()?;
        text.claim.iter().try_for_each(ClaimText::check)?;
        text.published.iter().try_for_each(PublishedText::check)?;
        let mut phases = self.phases()?;
        add_purge(&mut phases, &rows)?;
        let corpora = corpora::corpora(text, scale, seed)?;
        let (rounds, budget) = self.rounds(scale, rows.len() * corpora.len())?;
        let mut plan = Plan {
            text: text.clone(),
            name: text.name.clone().unwrap_or_else(|| "run".to_owned()),
            seed,
            rounds,
            precision: self.precision()?,
            budget,
            durability: self.durability()?,
            workers: at_most("--workers", text.workers.unwrap_or(1), WORKERS_MAX)?,
            batch: at_most("--batch", text.batch.unwrap_or(1), BATCH_MAX)?,
            fill_order: text.fill_order.unwrap_or_default(),
            rate: text.rate.map(|rate| positive_rate("--rate", rate)).transpose()?,
            limit: text.limit().parse()?,
            arrivals: text.arrivals.unwrap_or_default(),
            mix: self.mix(&phases, &rows)?,
            corpora,
            only: BTreeMap::new(),
            only_by: self.only_by(&phases)?,
            scale,
            verify: text.verify.unwrap_or(false),
            drop_caches: text.drop_caches.unwrap_or(true),
            awake: text.awake.unwrap_or(false),
            dir: text.dir.clone().unwrap_or_else(|| PathBuf::from(".")),
            reference: self.reference(&rows)?,
            phases,
            rows,
            missing,
            cache: text.cache.as_deref().map_or(Ok(CacheSize::default()), CacheSize::parse)?,
            sync: SyncRule {
                ops: text.sync_every_ops.unwrap_or(100).max(1),
                bytes: bytes_or("sync_every_bytes", &text.sync_every_bytes, 16_000_000)?.max(1),
            },
            op_timeout: self.op_timeout()?,
            rail_limit: text.rail_limit.unwrap_or(0.5),
        };
        if plan.shows_pages() && (plan.rate.is_some() || plan.text.limit.is_some()) {
            bail!("pages are loaded one after the other: `--rate` and `--limit` are for stores");
        }
        plan.phases.iter().try_for_each(|phase| phase.check_batch(plan.batch))?;
        self.check_names(&plan)?;
        plan.only = self.only(&plan)?;
        check_transactions(&plan)?;
        plan.text = self.complete(&plan);
        Ok(plan)
    }

    /// Rows that can be had here, and those that cannot, with the reason.
    fn rows(&self) -> Result<(Vec<Row>, Vec<Missing>)> {
        let stores: Vec<String> = match &self.text.stores {
            Some(stores) if stores.is_empty() => bail!("no store is named"),
            Some(stores) => stores.clone(),
            None => default_stores(),
        };
        let (rows, mut missing) = rows(&stores, &self.sets(), self.available)?;
        missing.extend(self.absent());
        if rows.is_empty() {
            let reasons: std::collections::BTreeSet<&str> =
                missing.iter().map(|row| row.reason.as_str()).collect();
            let reasons: Vec<&str> = reasons.into_iter().collect();
            bail!("{NOTHING_RUNS}: {}", reasons.join("; "));
        }
        Ok((rows, missing))
    }

    /// Rows of the plan that it says cannot be had.
    fn absent(&self) -> impl Iterator<Item = Missing> {
        self.text.absent.iter().map(|(label, reason)| Missing {
            label: label.clone(),
            adapter: label.split('[').next().unwrap_or(label).to_owned(),
            reason: reason.clone(),
        })
    }

    /// Which phases are done with some corpora only.
    fn only(&self, plan: &Plan) -> Result<BTreeMap<String, Vec<String>>> {
        let known = || plan.corpora.iter().filter_map(|corpus| corpus.name.as_deref());
        let mut only = BTreeMap::new();
        for phase in &self.text.phase {
            for name in &phase.corpora {
                if !known().any(|known| known == name) {
                    return Err(unknown("corpus", name, known())).context(format!("phase `{}`", phase.id));
                }
            }
            if !phase.corpora.is_empty() {
                let ids = phase.expanded().into_iter().map(|part| part.id);
                only.extend(ids.map(|id| (id, phase.corpora.clone())));
            }
        }
        Ok(only)
    }

    /// Which phases are done by some rows only. That there are such rows is not asked: `--stores` may have left them out.
    fn only_by(&self, phases: &[Phase]) -> Result<OnlyBy> {
        let mut only = OnlyBy::new();
        for phase in self.text.phase.iter().filter(|phase| !phase.stores.is_empty()) {
            let selectors = phase.stores.iter().map(|name| Selector::parse(name, &self.text.absent));
            let selectors =
                selectors.collect::<Result<Vec<_>>>().with_context(|| format!("phase `{}`", phase.id))?;
            only.extend(phase.expanded().into_iter().map(|part| (part.id, vec![selectors.clone()])));
        }
        // Who left a phase out has nothing to repeat.
        for phase in phases {
            if let Work::Ops(Load { repeats: Some(repeated), .. }) = &phase.work
                && let Some(theirs) = only.get(repeated).cloned()
            {
                only.entry(phase.id.clone()).or_default().extend(theirs);
            }
        }
        Ok(only)
    }

    fn sets(&self) -> Sets {
        let values = |value: &OneOrMany| match value {
            OneOrMany::One(one) => vec![one.clone()],
            OneOrMany::Many(many) => many.clone(),
        };
        self.text.set.iter().map(|(name, value)| (name.clone(), values(value))).collect()
    }

    fn durability(&self) -> Result<Durability> {
        let Some(name) = &self.text.durability else { return Ok(Durability::OnSync) };
        Durability::named(name).ok_or_else(|| {
            unknown("durability class", name, Durability::ALL.iter().map(|class| class.name()))
        })
    }

    /// Rounds and budget of a plan with so many visits a round.
    fn rounds(&self, scale: f64, visits: usize) -> Result<(Option<u32>, Option<Duration>)> {
        let mut rounds = self.text.rounds;
        if rounds == Some(0) {
            bail!("`--rounds 0` measures nothing; at least 1 is needed, 5 for verdicts");
        }
        if let Some(many) = rounds.filter(|rounds| *rounds > ROUNDS_MAX) {
            bail!("`--rounds {many}` is more than {ROUNDS_MAX}");
        }
        let budget = self.text.budget.as_deref().map(parse_duration).transpose().context("--budget")?;
        if budget.is_some_and(|budget| budget.is_zero()) {
            bail!("`--budget` must be above 0");
        }
        if scale < LOOK_SCALE && rounds.is_none() {
            rounds = Some(if 2 * visits > LOOK_VISITS_MAX { 1 } else { 2 });
        }
        let default = (rounds.is_none() && budget.is_none()).then_some(DEFAULT_BUDGET);
        Ok((rounds, budget.or(default)))
    }

    fn op_timeout(&self) -> Result<Duration> {
        let timeout = duration_or("--op-timeout", &self.text.op_timeout, OP_TIMEOUT)?;
        if !(OP_TIMEOUT_MIN..=OP_TIMEOUT_MAX).contains(&timeout) {
            bail!(
                "`--op-timeout {}` is not between 10ms and 24h: the kernel counts waits for a server in ticks of up to 10 ms",
                self.text.op_timeout.as_deref().unwrap_or_default()
            );
        }
        Ok(timeout)
    }

    /// Refuses names that would not be one word in one line: they stand in reports, tables and error messages.
    fn check_names(&self, plan: &Plan) -> Result<()> {
        let rows = plan.rows.iter().map(|row| &row.label);
        let missing = plan.missing.iter().map(|missing| &missing.label);
        let phases = plan.phases.iter().map(|phase| &phase.id);
        let corpora = plan.corpora.iter().filter_map(|corpus| corpus.name.as_ref());
        let names = rows.chain(missing).chain(phases).chain(corpora).chain(&self.text.name);
        for name in names {
            if name.contains(|c: char| c.is_control() || c == '`') || name.len() > NAME_BYTES_MAX {
                bail!(
                    "the name `{}` has control characters or backticks in it, or more than {NAME_BYTES_MAX} bytes",
                    name.chars().take(80).collect::<String>().escape_debug()
                );
            }
        }
        Ok(())
    }

    fn precision(&self) -> Result<f64> {
        let text = self.text.precision.as_deref().unwrap_or(PRECISION);
        let precision = parse_share(text).context("--precision")?;
        if !(0.001..=0.5).contains(&precision) {
            bail!("`--precision {text}` is not between 0.1% and 50%");
        }
        Ok(precision)
    }

    fn phases(&self) -> Result<Vec<Phase>> {
        let own: BTreeMap<&str, &PhaseText> =
            self.text.phase.iter().map(|phase| (phase.id.as_str(), phase)).collect();
        let default: &[&str] = if self.text.sweep.is_some() { SWEEP_PHASES } else { DEFAULT_PHASES };
        let names: Vec<String> = match &self.text.phases {
            Some(names) if names.is_empty() => bail!("no phase is named"),
            Some(names) => names.clone(),
            None if !own.is_empty() => std::iter::once("fill".to_owned())
                .chain(self.text.phase.iter().map(|phase| phase.id.clone()))
                .collect(),
            None => default.iter().map(|name| (*name).to_owned()).collect(),
        };
        let range_bytes = bytes_or("range_bytes", &self.text.range_bytes, 4096)?;
        let names_its_order =
            |phase: &Phase| own.get(whole_of(&phase.id)).is_some_and(|text| text.order.is_some());
        let mut phases: Vec<Phase> = Vec::new();
        for name in &names {
            match own.get(name.as_str()) {
                Some(text) => {
                    for part in text.expanded() {
                        phases.push(part.parse()?);
                    }
                }
                None => phases.extend(standard(name, range_bytes)?),
            }
        }
        // A limit is asked about by climbing to it, before anything is changed.
        if self.text.limit.is_some() && !phases.iter().any(|phase| matches!(phase.work, Work::Ramp(_))) {
            let reads = phases.iter().skip(1).take_while(|phase| !phase.writes()).count();
            let place = (1 + reads).min(phases.len());
            phases.splice(place..place, standard("ramp", range_bytes)?);
        }
        // Everything else needs something to be there.
        if phases.first().is_none_or(|phase| phase.id != "fill" && !phase.only_prepares()) {
            if phases.iter().any(|phase| phase.id == "fill") {
                bail!("the phase `fill` must be the first one");
            }
            phases.splice(0..0, standard("fill", range_bytes)?);
        }
        if self.text.fill_order.unwrap_or_default() == FillOrder::Key {
            phases.iter_mut().filter(|phase| !names_its_order(phase)).for_each(Phase::put_by_key);
        }
        link_repeats(&mut phases)?;
        let mut seen = std::collections::BTreeSet::new();
        if let Some(twice) = phases.iter().find(|phase| !seen.insert(phase.id.clone())) {
            bail!("the phase `{}` is named twice", twice.id);
        }
        Ok(phases)
    }

    fn mix(&self, phases: &[Phase], rows: &[Row]) -> Result<BTreeMap<String, f64>> {
        let Some(mix) = &self.text.mix else { return Ok(BTreeMap::new()) };
        if mix.values().any(|share| !share.is_finite() || *share < 0.0) || mix.values().sum::<f64>() <= 0.0 {
            bail!("`--mix` needs shares of 0 or more, at least one above 0");
        }
        for name in mix.keys() {
            let Some((_, phase)) = MIX_PHASES.iter().find(|(known, _)| known == name) else {
                return Err(unknown("kind of op in --mix", name, MIX_PHASES.iter().map(|(known, _)| *known)));
            };
            if !phases.iter().any(|known| known.id == *phase) {
                bail!("`--mix {name}=...` needs the phase `{phase}`, which is not part of this run");
            }
        }
        let fill = phases.iter().find(|phase| phase.id == "fill");
        let is_as_asked =
            |row: &Row| row.own_class().is_some() || fill.is_some_and(|fill| fill.class == Class::Asked);
        if mix.contains_key("put")
            && self.durability()? == Durability::EachWrite
            && !rows.iter().all(is_as_asked)
        {
            bail!(
                "`--mix put=...` is worked out from the fill, which is not in class each-write; `overwrite` is: --mix overwrite=... (a \
                 row with that class of its own is filled in it: --set STORE.durability=each-write)"
            );
        }
        if self.text.rate.is_some() {
            bail!(
                "`--mix` adds up what ops take one after the other, and with `--rate` they wait for each other; leave out one of them"
            );
        }
        let total: f64 = mix.values().sum();
        Ok(mix.iter().map(|(name, share)| (name.clone(), share / total)).collect())
    }

    fn reference(&self, rows: &[Row]) -> Result<String> {
        if let Some(name) = &self.text.reference {
            // A label has no password either.
            let name = without_passwords(name);
            return match rows.iter().find(|row| row.label == name) {
                Some(row) => Ok(row.label.clone()),
                None => Err(unknown("reference row", &name, rows.iter().map(|row| row.label.as_str()))),
            };
        }
        let ranked = || rows.iter().filter(|row| !row.is_reference());
        let chosen =
            ranked().find(|row| row.label == "files/hashed").or_else(|| ranked().next()).or(rows.first());
        Ok(chosen.map(|row| row.label.clone()).unwrap_or_default())
    }

    /// The text with the defaults that a later version might change written out.
    fn complete(&self, plan: &Plan) -> PlanText {
        let mut text = self.text.clone();
        text.seed = Some(plan.seed);
        for value in text.set.values_mut() {
            *value = value.without_passwords();
        }
        let of_phases = text.phase.iter_mut().flat_map(|phase| &mut phase.stores);
        for store in text.stores.iter_mut().flatten().chain(of_phases) {
            *store = without_passwords(store);
        }
        text.durability = Some(plan.durability.name().to_owned());
        text.workers = Some(plan.workers);
        text.batch = Some(plan.batch);
        text.fill_order = Some(plan.fill_order);
        if text.stores.is_none() {
            text.stores = Some(default_stores());
        }
        if text.phases.is_none() && text.phase.is_empty() {
            let default = if text.sweep.is_some() { SWEEP_PHASES } else { DEFAULT_PHASES };
            text.phases = Some(default.iter().map(|phase| (*phase).to_owned()).collect());
        }
        text.reference = Some(plan.reference.clone());
        text.cache = Some(plan.cache.to_string());
        text.sync_every_ops = Some(plan.sync.ops);
        text.sync_every_bytes = Some(plan.sync.bytes.to_string());
        text.rail_limit = Some(plan.rail_limit);
        text.precision.get_or_insert_with(|| PRECISION.to_owned());
        if text.sweep.is_none() && text.corpora.is_empty() {
            let mut corpus = text.corpus.clone().unwrap_or_default();
            if corpus.files.is_none() && corpus.source.is_none() {
                corpus.source = Some(PRESETS[0].name.to_owned());
            }
            if corpus.blobs.is_none() && corpus.bytes.is_none() {
                corpus.blobs = corpus.files.is_none().then_some(DEFAULT_BLOBS);
                corpus.bytes = Some(DEFAULT_BYTES.to_string());
            }
            text.corpus = Some(corpus);
        }
        text
    }
}

/// Where a row only marks its deletes, their second half is measured too: behind the phase that deletes.
fn add_purge(phases: &mut Vec<Phase>, rows: &[Row]) -> Result<()> {
    let lazy = rows.iter().any(|row| row.traits().lazy_delete);
    let deletes = phases.iter().position(|phase| phase.id == "delete-half");
    if let Some(place) = deletes
        && lazy
        && !phases.iter().any(|phase| phase.id == "purge")
    {
        phases.splice(place + 1..place + 1, standard("purge", 0)?);
    }
    Ok(())
}

/// Refuses one transaction for what is done in the sessions of cold passes.
fn check_transactions(plan: &Plan) -> Result<()> {
    let is_one =
        |phase: &Phase| phase.load().is_some_and(|load| load.transaction == Some(Transaction::Phase));
    for corpus in &plan.corpora {
        let mut phases = plan.phases_of(corpus.sweep_bytes).filter(|phase| is_one(phase));
        if let Some(phase) = phases.find(|phase| plan.cold_phase_of(&phase.id, corpus.sweep_bytes).is_some())
        {
            bail!(
                "phase `{}`: `transaction = \"phase\"`, and it is done in the passes of the cold phase that it repeats",
                phase.id
            );
        }
    }
    Ok(())
}

/// Kinds of op in `--mix` and the phase whose settled time stands for each.
pub const MIX_PHASES: &[(&str, &str)] = &[
    ("read", "read-warm"),
    ("read-cold", "read-cold"),
    ("range", "range-random"),
    ("put", "fill"),
    ("overwrite", "overwrite"),
    ("delete", "delete-half"),
];

/// The phases of a sweep that names none.
const SWEEP_PHASES: &[&str] = &["fill", "read-warm"];

/// `read-again` repeats the read phase before it; a phase that names what it repeats must name an earlier one.
fn link_repeats(phases: &mut [Phase]) -> Result<()> {
    for index in 0..phases.len() {
        let (earlier, rest) = phases.split_at_mut(index);
        let phase = &mut rest[0];
        let Work::Ops(load) = &mut phase.work else { continue };
        if phase.id == "read-again" {
            let read = earlier
                .iter()
                .rev()
                .find(|earlier| !earlier.writes() && matches!(earlier.work, Work::Ops(_)));
            let read = read.ok_or_else(|| anyhow!("`read-again` needs a read phase before it"))?;
            load.repeats = Some(read.id.clone());
        }
        if let Some(repeats) = &load.repeats
            && !earlier.iter().any(|earlier| earlier.id == *repeats)
        {
            bail!("the phase `{}` repeats `{repeats}`, which is not an earlier phase", phase.id);
        }
    }
    Ok(())
}

/// The name of a phase's length, which in a sweep depends on the size.
pub fn length_key(phase: &str, sweep_bytes: Option<u64>) -> String {
    match sweep_bytes {
        Some(bytes) => format!("{phase}@{bytes}"),
        None => phase.to_owned(),
    }
}

/// The class that is wanted of a row in a phase: the row's own, its fill included, or what the run asks for.
pub fn class_wanted(own: Option<Durability>, class: Class, asked: Durability) -> Durability {
    match (own, class) {
        (Some(own), _) => own,
        (None, Class::Fill) => asked.min(Durability::OnSync),
        (None, Class::Asked) => asked,
    }
}

/// The class in which a row runs a phase: the one that is wanted, or its strongest below.
pub fn class_of(row: &Row, class: Class, asked: Durability) -> Durability {
    let wanted = class_wanted(row.own_class(), class, asked);
    let offered = (row.adapter.caps)(&row.options).durability;
    offered.iter().copied().filter(|offered| *offered <= wanted).max().unwrap_or(Durability::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(toml: &str) -> Result<Plan> {
        PlanText::parse(toml)?.resolve(true)
    }

    fn error(toml: &str) -> String {
        format!("{:#}", resolve(toml).err().unwrap_or_else(|| anyhow!("no error")))
    }

    #[test]
    fn baselines_are_added_once_to_what_is_named_or_meant() {
        let names = |text: &str| {
            let mut text = PlanText::parse(text).unwrap();
            text.add_baselines();
            text.stores.unwrap()
        };
        let named = names("stores = ['fopen[depth=2]', 'files/flat', 'null']");
        assert_eq!(named, ["fopen[depth=2]", "files/flat", "null", "memory", "raw"]);
        let default = names("");
        assert_eq!(default[..DEFAULT_STORES.len()], *DEFAULT_STORES);
        assert_eq!(default[DEFAULT_STORES.len()..], ["fopen", "raw"]);
    }

    #[test]
    fn an_empty_plan_is_the_default_run() {
        let plan = PlanText::default().resolve(false).unwrap();
        assert_eq!(plan.durability, Durability::OnSync);
        assert_eq!(plan.budget, Some(DEFAULT_BUDGET));
        assert_eq!(plan.reference, "files/hashed");
        assert!(plan.rows.len() + plan.missing.len() >= 10);
        let again = PlanText::parse(&plan.text.to_toml().unwrap()).unwrap();
        assert_eq!(again, plan.text);
    }

    #[test]
    fn rounds_switch_the_default_budget_off() {
        assert_eq!(resolve("rounds = 5").unwrap().budget, None);
        assert!(resolve("rounds = 5\nbudget = '1m'").unwrap().budget.is_some());
    }

    #[test]
    fn a_look_has_two_rounds_unless_they_are_long() {
        let rounds = |more: &str| resolve(&format!("scale = 0.01\n{more}")).unwrap().rounds;
        assert_eq!(rounds(""), Some(2));
        assert_eq!(rounds("sweep = '100B..1GB'"), Some(1));
        assert_eq!(rounds("sweep = '100B..1GB'\nrounds = 3"), Some(3));
    }

    #[test]
    fn nonsense_is_refused_with_its_name_and_limit() {
        assert!(error("workers = 0").contains("--workers 0"));
        assert!(error("rate = -1.0").contains("--rate"));
        assert!(error("rounds = 4000000000").contains("more than 10000"));
        let phase = |more: &str| error(&format!("[[phase]]\nid = 'p'\n{more}"));
        assert!(phase("ops = {register = 1.0}\nduplicates = 1.0").contains("not from 0 to 0.9"));
        assert!(phase("ops = {put = 1.0}\nduplicates = 0.1").contains("for `register`"));
        assert!(phase("ops = {get = 1.0}\nworkers = 0").contains("phase `p`: `workers = 0` is not"));
        assert!(phase("ops = {get = 1.0}\nbatch = 0").contains("phase `p`: `batch = 0` is not"));
        assert!(phase("ops = {get = 1.0}\nrate = -1.0").contains("phase `p`: `rate = -1` is not"));
        assert!(
            phase("ops = {get = 1.0}\nparts = 0")
                .contains("phase `p`: `parts = 0` is not between 1 and 1000")
        );
        assert!(phase("ops = {get = 1.0}\nparts = 4000000000").contains("1 and 1000"));
        assert!(phase("ops = {get = 1.0}\nseconds = inf").contains("more than a day"));
        assert!(phase("ops = {get = 1.0}\nseconds = nan").contains("above 0"));
        assert!(error("phases = ['read-warn']").contains("read-warm"));
        assert!(error("durability = 'always'").contains("each-write"));
        assert!(error("colour = 'red'").contains("colour"));
        assert!(error("cache = 'much'").contains("cache"));
        assert!(error("cache = '-5%'").contains("150%"));
        assert!(error("sweep = '10MB..1kB'").contains("--sweep"));
        // The size itself would do, those around it would not.
        assert!(error("sweep = '1GB..4GB'").contains("4800000000 B"));
        assert!(resolve("sweep = '1GB..3GB'").is_ok());
        assert!(error("[corpus]\nblobs = 0").contains("--blobs"));
        assert!(error("mix = {reed = 1.0}").contains("read"));
        assert!(error("phases = ['fill', 'read-again']").contains("read phase before it"));
        assert!(error("[[phase]]\nid = 'mixed'\nops = {put = 1.0}\nseconds = 2.0").contains("fixed list"));
    }

    #[test]
    fn blobs_are_put_in_the_order_of_ids_unless_something_else_is_said() {
        let order = |toml: &str, phase: usize| match &resolve(toml).unwrap().phases[phase].work {
            Work::Ops(load) => load.order,
            _ => panic!("a load"),
        };
        assert_eq!(order("", 0), Order::Sequential);
        assert_eq!(order("fill_order = 'random'", 0), Order::Once);
        let own = "[[phase]]\nid = 'p'\nops = {put = 1.0}\n";
        assert_eq!(order(own, 1), Order::Sequential);
        assert_eq!(order(&format!("{own}order = 'once'"), 1), Order::Once);
        // What does more than put has an order of its own.
        assert_eq!(order(&own.replace("put = 1.0", "put = 1.0, delete = 1.0"), 1), Order::Once);
        assert_eq!(order("phases = ['fill', 'read-warm']", 1), Order::Once);
        assert_eq!(resolve("").unwrap().text.fill_order, Some(FillOrder::Key));
        assert!(error("fill_order = 'id'").contains("random"));
    }

    #[test]
    fn a_row_with_a_class_of_its_own_is_in_it_from_the_fill_on() {
        let of = |class: &str, phase: Class| -> Vec<&str> {
            let plan = resolve(&format!(
                "durability = '{class}'\nstores = ['null', 'files/flat', 'files/hashed']\n[set]\n'files/flat.durability' = ['none', 'each-write']"
            ));
            let plan = plan.unwrap();
            plan.rows.iter().map(|row| class_of(row, phase, plan.durability).name()).collect()
        };
        assert_eq!(of("on-sync", Class::Fill), ["none", "none", "each-write", "on-sync"]);
        assert_eq!(of("each-write", Class::Fill), ["none", "none", "each-write", "on-sync"]);
        assert_eq!(of("each-write", Class::Asked), ["none", "none", "each-write", "each-write"]);
        // A fill that is worked with must be in the class that is asked for.
        let mix = |stores: &str, more: &str| {
            format!(
                "durability = 'each-write'\nstores = [{stores}]\nmix = {{ put = 1.0 }}\nphases = ['fill']\n{more}"
            )
        };
        assert!(error(&mix("'files/flat'", "")).contains("STORE.durability=each-write"));
        assert!(resolve(&mix("'files/flat[durability=each-write]'", "")).is_ok());
        assert!(
            resolve(&mix("'files/flat'", "[[phase]]\nid = 'fill'\nops = { put = 1.0 }\nshare = 1.0")).is_ok()
        );
    }

    #[test]
    fn reads_are_one_transaction_where_the_phase_or_the_row_says_so() {
        let plan = resolve(
            "stores = ['null', 'redb', 'redb[transaction=phase]']\n\
             phases = ['fill', 'read-warm', 'one', 'each', 'read-cold', 'read-again', 'overwrite']\n\
             [[phase]]\nid = 'one'\nops = { get = 1.0 }\ntransaction = 'phase'\n\
             [[phase]]\nid = 'each'\nops = { get = 0.5, range = 0.5 }\ntransaction = 'op'",
        )
        .unwrap();
        let of = |row: &Row| -> Vec<&str> {
            let is_one = |phase: &&Phase| plan.is_one_transaction(row, phase, None);
            plan.phases.iter().filter(is_one).map(|phase| phase.id.as_str()).collect()
        };
        let each: Vec<Vec<&str>> = plan.rows.iter().map(of).collect();
        assert_eq!(each, [vec![], vec!["one"], vec!["read-warm", "one"]]);
    }

    #[test]
    fn one_transaction_is_for_reads_of_a_store_that_is_not_closed_in_between() {
        let phase = |more: &str| format!("[[phase]]\nid = 'p'\ntransaction = 'phase'\n{more}");
        assert!(resolve(&phase("ops = { get = 1.0 }\ncache = 'cold-start'")).is_ok());
        assert!(error(&phase("ops = { get = 0.9, put = 0.1 }")).contains("only read"));
        assert!(error(&phase("ops = { get = 1.0 }\ncache = 'cold'")).contains("cold-start"));
        let again = phase("ops = { get = 1.0 }\ncache = 'as-is'\nrepeats = 'read-cold'");
        let again = format!("phases = ['fill', 'read-cold', 'p']\n{again}");
        assert!(
            error(&again).contains("in the passes of the cold phase that it repeats"),
            "{}",
            error(&again)
        );
        assert!(error(&phase("ops = { get = 1.0 }").replace("'phase'", "'all'")).contains("`phase`"));
        let set = |of: &str| error(&format!("stores = ['{of}']"));
        assert!(
            set("files/flat[transaction=phase]").contains("no transaction that several reads could be in")
        );
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_connection_for_each_op_has_no_transaction_over_several() {
        let error = error("stores = ['postgres/bytea[connection=per-op,transaction=phase]']");
        assert!(error.ends_with("a transaction ends with its connection"), "{error}");
    }

    #[test]
    fn a_batch_has_one_kind_of_op() {
        let mixed = "[[phase]]\nid = 'p'\nops = {get = 0.98, overwrite = 0.02}";
        assert!(error(&format!("{mixed}\nbatch = 10")).contains("phase `p`: a batch of 10"));
        assert!(error(&format!("batch = 10\n{mixed}")).contains("give the phase `batch = 1`"));
        assert!(resolve(&format!("batch = 10\n{mixed}\nbatch = 1")).is_ok());
        assert!(resolve("batch = 10\n[[phase]]\nid = 'p'\nops = {get = 1.0}").is_ok());
    }

    #[test]
    fn several_corpora_have_phases_of_their_own() {
        let plan = resolve(
            "stores = ['files/flat']\n[[corpora]]\nname = 'small'\nsource = 'fixed:1kB'\nblobs = 1000\n\
             [[corpora]]\nname = 'large'\nsource = 'fixed:1MB'\nblobs = 10\n\
             [[phase]]\nid = 'pass'\nops = {get = 1.0}\ncorpora = ['large']\nparts = 3\ncount = 5\ncache = 'cold-start'\n\
             [[phase]]\nid = 'again'\nops = {get = 1.0}\nrepeats = 'pass'\nparts = 3\ncount = 5\ncache = 'as-is'",
        )
        .unwrap();
        let ids: Vec<&str> = plan.phases.iter().map(|phase| phase.id.as_str()).collect();
        assert_eq!(ids, ["fill", "pass.01", "pass.02", "pass.03", "again.01", "again.02", "again.03"]);
        assert_eq!(plan.phases[1].cache, CacheState::ColdStart);
        assert_eq!(plan.phases[2].cache, CacheState::AsIs);
        let Work::Ops(load) = &plan.phases[5].work else { panic!("a load") };
        assert_eq!(load.repeats.as_deref(), Some("pass.02"));
        assert!(plan.has("fill", Some(1_000)) && plan.has("pass.02", Some(1_000_000)));
        assert!(!plan.has("pass.02", Some(1_000)));
        assert_eq!(plan.corpora[0].request.blobs_max, Some(1000));
        assert_ne!(plan.corpora[0].request.seed, plan.corpora[1].request.seed);
    }

    #[test]
    fn a_phase_may_be_for_some_rows_only() {
        let phase = |stores: &str| {
            format!(
                "stores = ['null', 'files/flat', 'sqlite', 'sqlite[page_size=16384]']\n[[phase]]\nid = 'p'\nops = {{get = 1.0}}\nparts = 2\ncount = 5\nstores = [{stores}]"
            )
        };
        let plan = resolve(&phase("'files/flat', 'sqlite[page_size=16384]'")).unwrap();
        let does = |phase: &str| -> Vec<&str> {
            plan.rows.iter().filter(|row| plan.is_done_by(phase, row)).map(|row| row.label.as_str()).collect()
        };
        assert_eq!(does("fill").len(), 4);
        assert_eq!(does("p.02"), ["null", "files/flat", "sqlite[page_size=16384]"]);
        // Left out by `--stores`, and no error.
        resolve(&phase("'lmdb'")).unwrap();
        let error = |text: &str| format!("{:#}", resolve(text).unwrap_err());
        assert!(error(&phase("'lmbd'")).contains("`lmdb`"));
        assert!(error(&phase("'sqlite[page_sise=4096]'")).contains("`page_size`"));
        assert!(error(&phase("'sqlite[page_size=1]'")).contains("no value is called `1`"));
        let again = phase("'sqlite'")
            + "\n[[phase]]\nid = 'q'\nops = {get = 1.0}\nparts = 2\ncount = 5\nrepeats = 'p'";
        let plan = resolve(&again).unwrap();
        let does = |row: &&Row| plan.is_done_by("q.02", row) && !row.is_reference();
        assert_eq!(plan.rows.iter().filter(does).count(), 2);
        assert!(
            error(&phase("'postgres/bytea[url=postgres://u:secret@h/d]'"))
                .ends_with("are not chosen by their `url`")
        );
        let fill = phase("'lmdb'").replace("'p'", "'fill'").replace("parts = 2\n", "");
        assert!(error(&fill).contains("every row is filled"));
    }

    #[test]
    fn some_of_several_corpora_are_what_they_are_with_all() {
        let (_, shipped) = SHIPPED.iter().find(|(name, _)| *name == "horak-2010").unwrap();
        let with = |names: &[&str]| {
            let mut text = PlanText::parse(shipped).unwrap();
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            text.keep_corpora(&names).map(|()| text)
        };
        let (all, small) = (with(&["small", "large"]).unwrap(), with(&["small"]).unwrap());
        let large = with(&["large"]).unwrap();
        let whole = PlanText::parse(shipped).unwrap();
        assert_eq!(all.phase, whole.phase);
        assert!(whole.phase.iter().any(|phase| phase.id == "large-1"));
        assert!(small.phase.iter().all(|phase| phase.corpora.iter().all(|name| name == "small")));
        assert!(small.phase.iter().all(|phase| !phase.id.starts_with("large")));
        let seeds = |text: &PlanText| -> Vec<u64> {
            corpora::corpora(text, 1.0, 7).unwrap().iter().map(|corpus| corpus.request.seed).collect()
        };
        assert_eq!(seeds(&small)[0], seeds(&whole)[0]);
        assert_eq!(seeds(&large)[0], seeds(&whole)[1]);
        assert_ne!(seeds(&whole)[0], seeds(&whole)[1]);
        let said = |names: &[&str]| format!("{:#}", with(names).unwrap_err());
        assert!(said(&["smal"]).contains("small"), "{}", said(&["smal"]));
        assert!(said(&[]).contains("there are small, large"), "{}", said(&[]));
        let error = PlanText::default().keep_corpora(&["small".to_owned()]).unwrap_err();
        assert!(format!("{error:#}").contains("`--files`"));
    }

    #[test]
    fn a_row_that_cannot_be_had_is_missing_with_its_reason() {
        let plan =
            resolve("stores = ['files/flat']\n[absent]\n'ntfs[sync=none]' = 'a file system of Windows'")
                .unwrap();
        assert_eq!(
            (plan.missing[0].label.as_str(), plan.missing[0].adapter.as_str()),
            ("ntfs[sync=none]", "ntfs")
        );
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_complete_plan_has_no_password() {
        let plan = resolve(
            "stores = ['postgres/bytea[url=postgres://me:s3cret@h/db]', 'postgres/chunked', 'files/flat']\n\
             reference = 'postgres/bytea[url=postgres://me:s3cret@h/db]'\n\
             [set]\n'postgres/chunked.url' = ['postgres://me:s3cret@h1/db', 'postgres://me:s3cret@h2/db']",
        )
        .unwrap();
        assert_eq!(plan.reference, "postgres/bytea[url=postgres://me:***@h/db]");
        assert_eq!(plan.rows[2].label, "postgres/chunked[url=postgres://me:***@h2/db]");
        assert_eq!(plan.rows[2].url().unwrap(), "postgres://me:s3cret@h2/db");
        let text = plan.text.to_toml().unwrap();
        assert!(text.contains("***@h2/db") && !text.contains("s3cret"), "{text}");
    }

    #[test]
    fn read_again_repeats_the_read_before_it() {
        let plan = resolve("phases = ['fill', 'read-cold', 'read-again']").unwrap();
        let Work::Ops(load) = &plan.phases[2].work else { panic!("read-again is a load") };
        assert_eq!(load.repeats.as_deref(), Some("read-cold"));
        let passes_of = |phases: &str, phase: &str| {
            let plan = resolve(&format!("phases = [{phases}]")).unwrap();
            plan.cold_phase_of(phase, None).map(|cold| cold.id.clone())
        };
        let both = "'fill', 'read-cold', 'read-again'";
        assert_eq!(passes_of(both, "read-cold").as_deref(), Some("read-cold"));
        assert_eq!(passes_of(both, "read-again").as_deref(), Some("read-cold"));
        assert_eq!(passes_of("'fill', 'read-cold', 'reopen', 'read-again'", "read-again"), None);
        assert_eq!(passes_of("'fill', 'read-warm', 'read-again'", "read-again"), None);
    }
}

#[cfg(test)]
mod shipped;
