//! A plan as written in TOML, by flags or both, and everything that follows from it on any machine.

/// A part of a plan whose keys are all optional: a file has only those that are set.
macro_rules! optional_keys {
    ($(#[$of:meta])* pub struct $name:ident { $($(#[$of_key:meta])* pub $key:ident: $type:ty,)* }) => {
        $(#[$of])*
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$of_key])* #[serde(skip_serializing_if = "crate::plan::text::is_default")] pub $key: $type,)*
        }
    };
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

mod ageing;
mod claims;
pub mod corpora;
mod design;
mod growth;
mod need;
mod phases;
mod published;
pub(super) mod resolve;
mod selector;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::ageing::Replacement;
pub use self::claims::{
    Bound, ClaimText, DetailedOperand, ExpectedRange, FigureUnit, Metric, Operand, Quantity,
};
pub use self::corpora::{CorpusPlan, CorpusText};
pub use self::design::{
    COLD_BLOBS_SERVERS, COLD_PASSES_SERVERS, DesignCandidate, MEMORY_SWEEP, PREVIEW_SCALE, SyncRule,
    class_wanted, cold_passes,
};
pub use self::need::Need;
pub use self::phases::{
    ALL_PHASES, Action, CacheState, Class, CustomAction, DEFAULT_PHASES, DEFAULT_PHASES_TIGHT, Length, OPS,
    OpKind, Order, Phase, PhaseText, QUICK_PHASES, REPLAY, RangeRule, ReadSink, Role, StandardPhase,
    Transaction, Workload, part_of, repeated_after, standard, whole_of,
};
pub use self::published::{
    Derivation, Derived, Document, PublishedSeries, PublishedText, Successor, Unspecified,
};
use self::resolve::{BATCH_MAX, WORKERS_MAX};
pub use self::resolve::{DEFAULT_BUDGET, Design, MIX_PHASES, durability_class};
pub use self::selector::{some_names, split_label, split_list, split_pair};
pub use crate::store::DeviceLimit;

pub use self::values::{MemorySize, ResponseLimit, device_limit, fill_share, text_path};
use crate::redact::without_passwords;
use crate::suggest::{of_toml, unknown_of_list};

/// Default stores of a run: those that need no server, each with its default settings, and the bare loop.
pub const DEFAULT_STORES: &[&str] =
    &["null", "files/flat", "files/hashed", "sqlite", "lmdb", "redb", "fjall"];

/// Default stores of `blobwise crash`: those that need no server and keep data on a disk.
pub const CRASH_STORES: &[&str] = &["files/hashed", "zip", "tar", "sqlite", "lmdb", "redb", "fjall"];

/// Default stores of `blobwise crash` with uploads: each way to keep a catalog without a server.
pub const CRASH_UPLOADS: &[&str] =
    &["files/hashed", "sqlite[catalogue=own]", "sqlite[catalogue=own-transaction]"];

/// Control in power-cut tests, which shows that a cut takes unflushed data and nothing else: the simplest store that flushes each
/// write.
pub const CRASH_CONTROL: &str = "files/hashed";

pub(super) fn default_stores() -> Vec<String> {
    owned(DEFAULT_STORES)
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Default response-time limit, hardly noticeable to visitors.
const LIMIT: &str = "p99=50ms";

/// Budget of a quick run.
const QUICK_BUDGET: &str = "30s";

const PLAN_BYTES_MAX: u64 = 4_000_000;

/// Shipped plans: name and text.
pub const SHIPPED: &[(&str, &str)] = &[
    ("default", include_str!("../../../../../plans/default.toml")),
    ("all", include_str!("../../../../../plans/all.toml")),
    ("page", include_str!("../../../../../plans/page.toml")),
    ("sqlite-page-sizes", include_str!("../../../../../plans/sqlite-page-sizes.toml")),
    ("packing", include_str!("../../../../../plans/packing.toml")),
    ("postgres-releases", include_str!("../../../../../plans/postgres-releases.toml")),
    ("file-systems-databases", include_str!("../../../../../plans/file-systems-databases.toml")),
    ("afdesign-icons-2009", include_str!("../../../../../plans/afdesign-icons-2009.toml")),
    ("afdesign-pipelining-2010", include_str!("../../../../../plans/afdesign-pipelining-2010.toml")),
    ("fragfrog-2010", include_str!("../../../../../plans/fragfrog-2010.toml")),
    ("afdesign-cache-2009", include_str!("../../../../../plans/afdesign-cache-2009.toml")),
    ("vondra-2009", include_str!("../../../../../plans/vondra-2009.toml")),
    ("horak-2010", include_str!("../../../../../plans/horak-2010.toml")),
    ("afdesign-disks-2009", include_str!("../../../../../plans/afdesign-disks-2009.toml")),
    ("afdesign-procedures-2008", include_str!("../../../../../plans/afdesign-procedures-2008.toml")),
    ("afdesign-queries-2009", include_str!("../../../../../plans/afdesign-queries-2009.toml")),
    ("gridfs-2015", include_str!("../../../../../plans/gridfs-2015.toml")),
    ("sears-2006", include_str!("../../../../../plans/sears-2006.toml")),
];

/// Error of a key of the corpus outside its table; as flags, all keys stand beside each other.
fn in_another_table(text: &str, error: &toml::de::Error) -> Option<Error> {
    let key = error.message().strip_prefix("unknown field `")?.split('`').next()?;
    let value = toml::from_str::<toml::Table>(text).ok()?.remove(key)?;
    toml::Table::from_iter([(key.to_owned(), value)]).try_into::<CorpusText>().ok()?;
    Some(anyhow!("`{key}` is a key of the table `[corpus]`: move it there"))
}

/// The error for a name that no shipped plan has.
pub fn unknown_plan(name: &str) -> Error {
    unknown_of_list("blobwise list plans", "plan", name, SHIPPED.iter().map(|(known, _)| *known))
}

/// Names in a list: stores, phases, file systems.
type Names = Vec<String>;

fn list(text: &str) -> Result<Names> {
    some_names(text).map(|text| split_list(&text))
}

optional_keys! {
    /// A plan as written. Every key is optional and has a default. A key with `long` is a flag of `blobwise run` too.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
    #[group(skip)]
    pub struct PlanText {
        /// Name of the plan in reports.
        #[arg(skip)]
        pub name: Option<String>,
        /// Purpose of the plan, in one sentence.
        #[arg(skip)]
        pub about: Option<String>,
        /// Other plans, by file or name, to run one after the other instead of anything of its own.
        #[arg(skip)]
        pub plans: Vec<String>,
        /// Duration of one full-size round in seconds, measured on two processors when the plan's results page was made. Used to
        /// estimate the minimum duration of a partial run.
        #[arg(skip)]
        pub round_seconds: Option<f64>,
        /// Measure these stores, in this order.
        ///
        /// Separate names by commas; `blobwise list stores` has them. `own:FILE` is a
        /// store of yours that the manifest FILE describes. On the command line, a family such as
        /// `postgres` stands for all of its stores that can run here.
        #[arg(long, value_name = "A,B", value_parser = list, help_heading = "Places")]
        pub stores: Option<Names>,
        /// Give ratios to this candidate [default: files/hashed, else the first]
        ///
        /// With several corpora, a matrix shows the ratio of every other candidate at every size.
        #[arg(long, value_name = "CANDIDATE", help_heading = "Places")]
        pub reference: Option<String>,
        /// Run these phases: standard ones by name, and those described in `phase` by id.
        #[arg(long, value_name = "A,B", value_parser = list, help_heading = "Work")]
        pub phases: Option<Names>,
        /// Flush writes by this class: `none`, `on-sync` or `each-write` [default: on-sync]
        ///
        /// `on-sync` flushes every 100 ops or 16 MB, and at the end. A class that `set` gives a candidate
        /// (`sqlite.durability`) takes precedence.
        #[arg(long, value_name = "CLASS", help_heading = "Work")]
        pub durability: Option<String>,
        /// Run this many worker threads at once [default: 1]
        #[arg(long, value_name = "N", visible_alias = "threads", help_heading = "Work")]
        pub workers: Option<usize>,
        /// Put this many blobs into one op [default: 1]
        ///
        /// See `batch` of a phase.
        #[arg(long, value_name = "N", help_heading = "Work")]
        pub batch: Option<usize>,
        /// `key` (default): blobs are put in the order of their ids, as applications number what they insert, so integer keys
        /// ascend and digests come in random order. `random`: integer keys come in random order too. Applies to phases that only
        /// put and have no `order`.
        #[arg(skip)]
        pub fill_order: Option<FillOrder>,
        /// Offer this many ops per second, such as 500.
        ///
        /// An open loop: response times count from when an op was due. Applies to all phases except `fill`, `age`,
        /// `rejuvenate`, `purge`, `reopen`, `replay`, `list-all`, `count-all`, `back-up`, `restore` and cold phases.
        #[arg(long, value_name = "R", help_heading = "Work")]
        pub rate: Option<f64>,
        /// Space the ops of an open loop: `poisson` or `constant` [default: poisson]
        ///
        /// `poisson` is random, as visitors arrive; `constant` is evenly spaced.
        #[arg(long, hide_possible_values = true, help_heading = "Work")]
        pub arrivals: Option<Arrivals>,
        /// Replay the log at this speed: `1`, `10` or `max` [default: max]
        ///
        /// A factor of the log's own rate is an open loop: response times count from when a request was due. `max`
        /// sends the next request when the last one is done.
        #[arg(long, value_name = "FACTOR|max", help_heading = "Work")]
        pub speed: Option<String>,
        /// Find the highest rate of reads within this limit, such as `p99=50ms`.
        ///
        /// Adds the phase `ramp`. The percentile is one of p50, p90, p99 and p99.9.
        #[arg(long, value_name = "PERCENTILE=TIME", help_heading = "Work")]
        pub limit: Option<String>,
        /// Shares of `read`, `read-cold`, `range`, `put`, `overwrite` and `delete`, from which the cost of 1,000 ops is computed
        /// using their standard phases.
        #[arg(skip)]
        pub mix: Option<BTreeMap<String, f64>>,
        /// Duration of a request of your program that contains one op; default `1ms`. The recommendation shows differences
        /// relative to it.
        #[arg(skip)]
        pub request: Option<String>,
        /// Requirements of your program: `atomic-puts`, `changes`, `durable`, `largest-blob=SIZE`, `listing`, `no-server`, `one-backup`,
        /// `ranges`, `several-machines`, `streams`, `transactions`. The recommendation considers only candidates that meet all
        /// of them.
        #[arg(skip)]
        pub need: Option<Names>,
        /// Measure a range of blob sizes, such as `1kB..10MB`.
        ///
        /// Or a list, such as `10kB,100kB,1MB`. Each size gets its own store, to find where the winner changes.
        #[arg(long, value_name = "A..B|A,B,...", help_heading = "Work")]
        pub sweep: Option<String>,
        /// Limit each store's memory after the fill, such as `25%` [default: none]
        ///
        /// A percentage of the corpus, or bytes such as `64MB`. It covers the store's own cache, its servers and the
        /// kernel's cache of its files; what an empty store takes comes on top. A limit in bytes shrinks with
        /// `scale`, but not below 128 MiB. `none`: all memory of the machine.
        #[arg(long, value_name = "BYTES|PERCENT%|none", help_heading = "Work")]
        pub memory: Option<String>,
        /// Count what an empty store takes in `memory` too.
        ///
        /// For small machines.
        #[arg(long, requires = "memory", num_args = 0, default_missing_value = "true", help_heading = "Work")]
        pub memory_total: Option<bool>,
        /// Limit memory to a range of percentages, such as `400%..10%`.
        ///
        /// Of the corpus; or a list, such as `100%,50%,25%`. Reads run with each limit, to find where the winner
        /// changes.
        #[arg(long, value_name = "A..B|A,B,...", help_heading = "Work")]
        pub memory_sweep: Option<String>,
        /// Measure a store while it grows, such as `1k..1M` blobs.
        ///
        /// A list, such as `1k,10k,50k`, names the steps. One store of each candidate is filled step by step and
        /// measured at each step.
        #[arg(long, value_name = "A..B|A,B,...", help_heading = "Work")]
        pub grow: Option<String>,
        /// Measure a store while it ages, such as `0..8`.
        ///
        /// An age is the bytes overwritten since the fill for each live byte; a list, such as `0,1,4`, names the ages.
        /// In one store of each candidate, blobs are replaced by others of new sizes, and read at each age.
        #[arg(long, value_name = "A..B|A,B,...", help_heading = "Work")]
        pub age: Option<String>,
        /// Age stores by `overwrite` or `turnover` [default: overwrite]
        ///
        /// `turnover` deletes a blob and puts another for each that `overwrite` replaces. Any blob is as likely as another;
        /// with `overwrite,zipfian:0.99`, few are replaced most of the time.
        #[arg(long, value_name = "WAY[,ORDER]", help_heading = "Work")]
        pub age_by: Option<String>,
        /// Extrapolate the growth to this many blobs, such as `10M`.
        ///
        /// At most 100 times the last step of `grow`, which needs five steps or more. The report says how well the steps
        /// before the last one predict it.
        #[arg(long, value_name = "N", help_heading = "Work")]
        pub expect: Option<String>,
        /// Size of each store's own cache instead of its vendor's recommendation: bytes, or a percentage of the corpus, such as
        /// `150%`.
        #[arg(skip)]
        pub cache: Option<String>,
        /// In the class on-sync: ops between two syncs of a worker.
        #[arg(skip)]
        pub sync_every_ops: Option<u64>,
        /// In the class on-sync: bytes between two syncs of a worker.
        #[arg(skip)]
        pub sync_every_bytes: Option<String>,
        /// Compare every blob after each phase that writes.
        ///
        /// In every round, including cached data. Without it, blobs are still compared after the fill and, read from
        /// the device, at the end.
        #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Work")]
        pub verify: Option<bool>,
        /// Measure exactly this many rounds, such as 10.
        ///
        /// At most 10,000, and fewer if `budget` does not allow them.
        #[arg(long, value_name = "N", help_heading = "Length")]
        pub rounds: Option<u32>,
        /// Add rounds until intervals are this narrow [default: 5%]
        ///
        /// While the budget lasts, until half of the confidence intervals have at most this half-width.
        #[arg(long, value_name = "SHARE", help_heading = "Length")]
        pub precision: Option<String>,
        /// Limit the time from start to report, such as `2m` [default: 165s]
        ///
        /// The default is `30m` with `grow` or `age`, and no limit if `rounds` or a `scale` below 0.1 fixes the rounds. The budget
        /// never shrinks a corpus whose size is given.
        #[arg(long, value_name = "TIME", help_heading = "Length")]
        pub budget: Option<String>,
        /// Give up an op that waits longer for a server [default: 30s]
        ///
        /// From `10ms` to `24h`. Calls into a file system or a library are not interrupted.
        #[arg(long, value_name = "TIME", help_heading = "Length")]
        pub op_timeout: Option<String>,
        /// Draw everything random from this seed [default: 1]
        #[arg(long, value_name = "N", help_heading = "Length")]
        pub seed: Option<u64>,
        /// Multiply corpus and phases by this factor, such as 0.1.
        ///
        /// At most 100. All candidates stay. Below 0.1, the run is a preview of one or two rounds, whose verdicts
        /// must not be quoted.
        #[arg(long, value_name = "F", help_heading = "Length")]
        pub scale: Option<f64>,
        /// Measure in this directory [default: the current one]
        #[arg(long, value_name = "DIR", value_parser = text_path(), help_heading = "Machine")]
        pub dir: Option<PathBuf>,
        /// Run each candidate on these new file systems, such as `ext4,xfs`.
        ///
        /// As root. They are made on images in `dir`; `blobwise list file-systems` has the names. `dir` in this list
        /// stands for the directory itself; `ext4@90%` is nearly full.
        #[arg(long, value_name = "A,B", value_parser = list, help_heading = "Machine")]
        pub on: Option<Names>,
        /// Limit the devices of `on`, such as `20MB/s,200iops`.
        ///
        /// One or both. It applies to reads and to writes separately. `none`: as fast as the underlying disk.
        #[arg(long, value_name = "20MB/s,200iops|none", help_heading = "Machine")]
        pub device_limit: Option<String>,
        /// Fill the file systems of `on` to this share, such as `50%`.
        ///
        /// In advance, to at most `90%`. A share in the name of a file system takes precedence: `ext4@90%`.
        #[arg(long, value_name = "SHARE", help_heading = "Machine")]
        pub fill: Option<String>,
        /// Allow dropping the kernel's caches.
        #[arg(
            long = "no-drop-caches",
            num_args = 0,
            default_missing_value = "false",
            help_heading = "Machine",
            help = "Do not drop the kernel's caches; cold reads are then lukewarm"
        )]
        pub drop_caches: Option<bool>,
        /// Keep idle processors from sleeping during the run (as root).
        ///
        /// It removes CPU wake-up latency from other processes' replies.
        #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Machine")]
        pub awake: Option<bool>,
        /// Run workers and servers on separate processors.
        ///
        /// Half of the cores each. Candidates without a server have the workers' half.
        #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Machine")]
        pub pin_apart: Option<bool>,
        /// Give each of several clients its own store.
        ///
        /// With all blobs in it, if a store cannot be shared: see docs/how-to/many-clients.md.
        #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Machine")]
        pub each_rank: Option<bool>,
        /// Maximum relative deviation of the time of a fixed piece of work at the start or end of a round from other rounds;
        /// default 0.5, i.e. 50 %. Beyond it the round counts as disturbed and is repeated at the end of the run.
        #[arg(skip)]
        pub probe_limit: Option<f64>,
        /// Source of the blobs.
        #[arg(skip)]
        pub corpus: Option<CorpusText>,
        /// Several corpora instead of one: each candidate has one store for each.
        #[arg(skip)]
        pub corpora: Vec<CorpusText>,
        /// Candidates that are not available, with reasons. Reports show them, so that nothing else is mistaken for them.
        #[arg(skip)]
        pub absent: BTreeMap<String, String>,
        /// Options of stores: `"store.option" = ["value", ...]`.
        #[arg(skip)]
        pub set: BTreeMap<String, OneOrMany>,
        /// Phases that the plan describes itself.
        #[arg(skip)]
        pub phase: Vec<PhaseText>,
        /// Publication of the experiment that the plan repeats.
        #[arg(skip)]
        pub document: Option<Document>,
        /// Details that the publication leaves open, and the plan's choice for each.
        #[arg(skip)]
        pub unspecified: Vec<Unspecified>,
        /// Candidates measured today in place of candidates in the document.
        #[arg(skip)]
        pub successor: Vec<Successor>,
        /// Published tables.
        #[arg(skip)]
        pub published: Vec<PublishedText>,
        /// Figures that the document derives from its tables.
        #[arg(skip)]
        pub derived: Vec<Derived>,
        /// Published statements to test.
        #[arg(skip)]
        pub claim: Vec<ClaimText>,
    }
}

/// One value of an option, or several that each make a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One value.
    One(String),
    /// Several values, one candidate each.
    Many(Vec<String>),
}

impl PlanText {
    /// Rejects a successor without `words`, or whose original appears in no claim or published table.
    fn check_successors(&self) -> Result<()> {
        for successor in &self.successor {
            let series = self.published.iter().flat_map(|table| &table.series);
            let is_shown = series.flat_map(|series| &series.today).any(|own| own.by(successor).is_some());
            let is_claimed = self.claim.iter().any(|claim| claim.by(successor).is_some());
            if !is_shown && !is_claimed {
                bail!(
                    "no claim and no published table of the plan is about `{}`, so that it has no `[[successor]]`",
                    successor.of
                );
            }
            if successor.words.is_empty() {
                bail!(
                    "the `[[successor]]` of `{}` has no `words`: what is measured in place of what",
                    successor.of
                );
            }
        }
        Ok(())
    }

    /// Claims of the plan, each followed by its restatements for these successors.
    pub fn claims(&self, successors: &[&Successor]) -> Vec<ClaimText> {
        let said = |claim: &ClaimText| -> Vec<ClaimText> {
            let by = successors.iter().filter_map(|successor| claim.by(successor));
            std::iter::once(claim.clone()).chain(by).collect()
        };
        self.claim.iter().flat_map(said).collect()
    }
}

impl OneOrMany {
    pub(super) fn without_passwords(&self) -> OneOrMany {
        match self {
            OneOrMany::One(value) => OneOrMany::One(without_passwords(value)),
            OneOrMany::Many(values) => {
                OneOrMany::Many(values.iter().map(|value| without_passwords(value)).collect())
            }
        }
    }
}

/// Order in which new blobs are put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FillOrder {
    /// Order of ids, as if all workers shared a counter.
    #[default]
    Key,
    /// Random order.
    Random,
}

/// Arrival process of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Independent arrivals, like those of visitors.
    #[default]
    Poisson,
    /// Evenly spaced arrivals.
    Constant,
}

impl PlanText {
    /// Reads a shipped plan by name, or a plan from a file.
    pub fn load(name: &str) -> Result<PlanText> {
        if let Some((_, text)) = SHIPPED.iter().find(|(known, _)| *known == name) {
            return PlanText::parse(text).with_context(|| format!("the shipped plan `{name}`"));
        }
        let path = Path::new(name);
        if !path.exists() {
            if name.contains(['/', '.']) {
                bail!("cannot read the plan `{name}`: there is no such file");
            }
            return Err(unknown_plan(name));
        }
        ensure!(
            !path.is_dir(),
            "`{name}` is a directory, and a plan is a file: `--files {name}` measures with the files below it"
        );
        let text = crate::input::read_text(path, PLAN_BYTES_MAX)
            .with_context(|| format!("cannot read the plan `{name}`"))?;
        let plan = PlanText::parse(&text).with_context(|| format!("the plan `{name}`"))?;
        // A file that was cut to nothing does not ask for the default plan.
        ensure!(
            plan != PlanText::default(),
            "the plan `{name}` is empty: `blobwise run` measures the default plan"
        );
        Ok(plan)
    }

    /// Parses a plan.
    pub fn parse(text: &str) -> Result<PlanText> {
        toml::from_str(text)
            .map_err(|error| in_another_table(text, &error).unwrap_or_else(|| of_toml(text, &error)))
    }

    /// Returns this plan with the keys that `given` has in place of its own.
    pub fn with_keys_of(self, given: &PlanText) -> Result<PlanText> {
        // Numbers in a table end at 2^63 - 1, and a seed may be any.
        let seed = given.seed.or(self.seed);
        let keys = |plan: &PlanText| {
            let table = toml::Table::try_from(PlanText { seed: None, ..plan.clone() });
            table.context("a plan has no number above 9223372036854775807 but its seed")
        };
        let mut merged = keys(&self)?;
        merged.extend(keys(given)?);
        Ok(PlanText { seed, ..merged.try_into()? })
    }

    /// Serializes the plan as TOML.
    pub fn to_toml(&self) -> Result<String> {
        Ok(toml::to_string_pretty(self)?)
    }

    /// True if the plan leaves the choice of phases to the program.
    pub fn names_no_phases(&self) -> bool {
        let names_none = self.phases.is_none() && self.phase.is_empty();
        let names_some = self.sweep.is_some() || self.memory_sweep.is_some() || self.has_steps();
        names_none && !names_some && self.memory.is_none() && !self.has_log()
    }

    /// True if the blobs are the objects of a log.
    pub fn has_log(&self) -> bool {
        self.corpus.as_ref().is_some_and(|corpus| corpus.trace.is_some())
    }

    /// True if the plan defines a phase itself, so that it is no standard one: whole, or in parts or steps.
    pub fn defines(&self, id: &str) -> bool {
        self.phase.iter().any(|own| own.includes(id))
    }

    /// True if stores are measured step by step, while they grow or while they age.
    pub fn has_steps(&self) -> bool {
        self.grow.is_some() || self.age.is_some()
    }

    /// Sets the default phases plus reads under a memory limit. Requires permission to limit memory, which not every machine
    /// grants.
    pub fn add_tight(&mut self) {
        self.phases = Some(owned(DEFAULT_PHASES_TIGHT));
    }

    /// Leaves what is done in half a minute: fewer phases and, unless rounds or a budget are given, a budget of that.
    pub fn make_quick(&mut self) {
        self.phases = Some(owned(QUICK_PHASES));
        if self.rounds.is_none() {
            self.budget.get_or_insert_with(|| QUICK_BUDGET.to_owned());
        }
    }

    /// Makes the corpus so large, where the plan leaves its size open, that a processor's cache of `cache_bytes` cannot hold it: a
    /// cache that holds some of the blobs serves some rounds and not others.
    pub fn exceed_processor_cache(&mut self, cache_bytes: u64) {
        let names_sizes = self.sweep.is_some() || self.memory_sweep.is_some() || !self.corpora.is_empty();
        if !names_sizes && self.grow.is_none() {
            corpora::exceed_processor_cache(self.corpus.get_or_insert_default(), cache_bytes);
        }
    }

    /// Response-time limit of a rate ladder.
    pub fn limit(&self) -> &str {
        self.limit.as_deref().unwrap_or(LIMIT)
    }

    /// Removes the keys that only control how the plan is run, leaving what it measures.
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
}
