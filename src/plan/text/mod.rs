//! A plan as it is written, in TOML, by flags or both, and what follows from it wherever its candidates can run.

mod claims;
pub(super) mod corpora;
mod design;
mod need;
mod phases;
mod published;
pub(super) mod resolve;
mod selector;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::claims::{Bound, ClaimText, Expect, FigureUnit, Metric, Operand, Quantity, Target};
pub use self::corpora::{CorpusPlan, CorpusText};
pub use self::design::{
    COLD_BLOBS_SERVERS, COLD_PASSES_SERVERS, Design, MEMORY_SWEEP, Member, PREVIEW_SCALE, SyncRule,
    class_wanted, cold_passes,
};
pub use self::need::Need;
pub use self::phases::{
    CacheState, Class, DEFAULT_PHASES, DEFAULT_PHASES_TIGHT, Deed, Does, Length, Load, OPS, OpKind, Order,
    Part, Phase, PhaseText, RangeRule, StandardPhase, Transaction, Use, part_of, standard, whole_of,
};
pub use self::published::{By, Derived, Document, PublishedText, Series, Successor, Unspecified};
use self::resolve::{BATCH_MAX, WORKERS_MAX};
pub use self::resolve::{MIX_PHASES, durability_class};
pub use self::selector::{split_label, split_list, split_pair};
pub use crate::store::DeviceLimit;

pub use self::values::{MemorySize, ResponseLimit, device_limit, fill_share};
use crate::names::unknown;
use crate::shown::without_passwords;

/// Candidates of a run that names none: the stores that need no server, and two baselines.
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

/// Stores whose power is cut where none are named: those that need no server and keep something on a disk.
pub const CRASH_STORES: &[&str] = &["files/hashed", "files/packed", "sqlite", "lmdb", "redb", "fjall"];

/// Where uploads go whose power is cut where no stores are named: each way to keep a catalogue without a server.
pub const CRASH_UPLOADS: &[&str] =
    &["files/hashed", "sqlite[catalogue=own]", "sqlite[catalogue=own-transaction]"];

/// What shows that a power cut takes what nobody flushed, and nothing else: the plainest store that flushes each write.
pub const CRASH_CONTROL: &str = "files/hashed";

pub(super) fn default_stores() -> Vec<String> {
    DEFAULT_STORES.iter().map(|store| (*store).to_owned()).collect()
}

/// What visitors hardly notice.
const LIMIT: &str = "p99=50ms";

/// The most that a plan may have, in bytes.
const PLAN_BYTES_MAX: u64 = 4_000_000;

/// The plans that are shipped, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("default", include_str!("../../../plans/default.toml")),
    ("all", include_str!("../../../plans/all.toml")),
    ("page", include_str!("../../../plans/page.toml")),
    ("sqlite-page-sizes", include_str!("../../../plans/sqlite-page-sizes.toml")),
    ("packing", include_str!("../../../plans/packing.toml")),
    ("postgres-releases", include_str!("../../../plans/postgres-releases.toml")),
    ("file-systems-databases", include_str!("../../../plans/file-systems-databases.toml")),
    ("afdesign-icons-2009", include_str!("../../../plans/afdesign-icons-2009.toml")),
    ("afdesign-pipelining-2010", include_str!("../../../plans/afdesign-pipelining-2010.toml")),
    ("fragfrog-2010", include_str!("../../../plans/fragfrog-2010.toml")),
    ("afdesign-cache-2009", include_str!("../../../plans/afdesign-cache-2009.toml")),
    ("vondra-2009", include_str!("../../../plans/vondra-2009.toml")),
    ("horak-2010", include_str!("../../../plans/horak-2010.toml")),
    ("afdesign-disks-2009", include_str!("../../../plans/afdesign-disks-2009.toml")),
    ("afdesign-procedures-2008", include_str!("../../../plans/afdesign-procedures-2008.toml")),
    ("afdesign-queries-2009", include_str!("../../../plans/afdesign-queries-2009.toml")),
    ("gridfs-2015", include_str!("../../../plans/gridfs-2015.toml")),
];

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
    /// Seconds that a round took at full size when its page of results was made, on two processors: how long a part of it takes at the
    /// least is told by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_seconds: Option<f64>,
    /// Exactly this many rounds, up to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Half the width that half of the intervals are to have at most, such as `5%`, if the budget allows so many rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Wall time from start to written report, such as `2m`. It cuts no corpus whose size is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// `none`, `on-sync` or `each-write`: the class of all candidates that `set` gives none of their own
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
    /// Ops a second: an open loop, but for `fill`, `age`, `purge`, `reopen`, `list-all`, `count-all`, `back-up`, `restore` and cold phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// `poisson` (default) or `constant`: how the ops of an open loop arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// What response times must stay below in the phase `ramp`, such as `p99=50ms`; p50, p90, p99 or p99.9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Shares of `read`, `read-cold`, `range`, `put`, `overwrite` and `delete`, for which the cost of 1,000 ops is worked out
    /// from their standard phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<BTreeMap<String, f64>>,
    /// What a request of your program lasts in which there is one op (`1ms` when left out): what to do shows differences beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// What your program needs of a place: `atomic-puts`, `durable`, `largest-blob=SIZE`, `listing`, `no-server`, `one-backup`,
    /// `ranges`, `several-machines`, `streams`, `transactions`. What to do is said of the candidates that serve all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<Vec<String>>,
    /// Sizes from A to B, such as `1kB..10MB`, or just these, such as `10kB,100kB,1MB`: one store for each size, to find where the
    /// winner changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<String>,
    /// Shrinks corpus and phases (or enlarges them, up to 100 times); every candidate stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Compares every blob after each phase that writes, in every round, with whatever is cached. After the fill and, from the
    /// device, at the end that is done in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// Whether the kernel's caches may be dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_caches: Option<bool>,
    /// Whether idle processors are kept from sleeping while the run lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awake: Option<bool>,
    /// Whether workers and servers have processors of their own: half of the cores each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin_apart: Option<bool>,
    /// Whether each client of several has a store of its own, where a store cannot be shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each_rank: Option<bool>,
    /// The place to measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// File systems such as `ext4` or `btrfs-raid0:4`, made for the run on images in `dir`: each candidate is there once on each of
    /// them. `dir` among them is the directory itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<String>>,
    /// How much each device below the file systems of `on` does in a second, such as `20MB/s`, `200iops` or both with a comma: of reads,
    /// and of writes as much again. `none`: as much as the disk below them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_limit: Option<String>,
    /// To which share the file systems of `on` are filled before they are used, such as `50%`; at most `90%`. One
    /// whose name has a share of its own is filled to that: `ext4@90%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<String>,
    /// Standard phases by name, and phases described below by their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<String>>,
    /// Stores, in the order of candidates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stores: Option<Vec<String>>,
    /// The candidate that ratios are given to, `files/hashed` or else the first one where nothing is said. Of several corpora, a
    /// matrix has the ratio of every other candidate at every size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// All the memory that a candidate may have after the fill, beyond what it takes when it is empty: bytes, or per cent of the
    /// corpus, such as `25%`. Its own cache, its servers and the kernel's cache of its files share it. Of bytes a plan that is
    /// scaled down keeps its part, but no less than 128 MiB. `none`: as much as the machine has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Whether what an empty candidate takes counts in `memory` too, for those who buy small machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_total: Option<bool>,
    /// Shares of the corpus from A to B, such as `400%..10%`, or just these, such as `100%,50%,25%`: reads with memory for so
    /// much, to find at which share the winner changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_sweep: Option<String>,
    /// Memory for each store's own cache, instead of what its vendor says: bytes, or per cent of the corpus, such as `150%`.
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
    /// How long an op may wait for a server before it is given up, from `10ms` to `24h`. What a file system or a library does is
    /// not interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op_timeout: Option<String>,
    /// How much slower or faster a fixed piece of work may be at the start or end of a round than in the others (0.5, by half,
    /// when left out): beyond it the round counts as disturbed, and is measured again at the end, as other disturbed ones are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_limit: Option<f64>,
    /// Where the blobs come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<CorpusText>,
    /// Several corpora instead: each candidate has one store for each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corpora: Vec<CorpusText>,
    /// Candidates that cannot be had, and why: they are shown, so that nothing else is taken for them.
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
    /// What is measured today in place of a candidate of the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub successor: Vec<Successor>,
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

/// A value of an option, or several that make one candidate each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One value.
    One(String),
    /// One candidate each.
    Many(Vec<String>),
}

impl PlanText {
    /// Refuses a successor of what nothing is said of.
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

    /// Its claims, each followed by the same said of these successors of its candidates.
    pub fn claims(&self, successors: &[&Successor]) -> Vec<ClaimText> {
        let said = |claim: &ClaimText| -> Vec<ClaimText> {
            let by = successors.iter().filter_map(|successor| claim.by(successor));
            std::iter::once(claim.clone()).chain(by).collect()
        };
        self.claim.iter().flat_map(said).collect()
    }
}

impl OneOrMany {
    /// The same with the passwords of URLs replaced.
    pub(super) fn without_passwords(&self) -> OneOrMany {
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

/// Keys of plans that had another name, and what they are called now.
const FORMER_KEYS: [(&str, &str); 3] =
    [("row", "candidate"), ("rows", "candidates"), ("rail_limit", "probe_limit")];

/// A key of a plan that has another name now, wherever it stands.
fn former_key(value: &toml::Value) -> Option<(&'static str, &'static str)> {
    match value {
        toml::Value::Table(table) => table.iter().find_map(|(key, value)| {
            let own = FORMER_KEYS.into_iter().find(|(old, _)| old == key);
            own.or_else(|| former_key(value))
        }),
        toml::Value::Array(list) => list.iter().find_map(former_key),
        _ => None,
    }
}

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
        ensure!(
            !path.is_dir(),
            "`{name}` is a directory, and a plan is a file: `--files {name}` measures with the files below it"
        );
        let text = crate::input::read_text(path, PLAN_BYTES_MAX)
            .with_context(|| format!("cannot read the plan `{name}`"))?;
        PlanText::parse(&text)
            .map_err(|error| anyhow!("the plan `{name}` has an error: {}", format!("{error:#}").trim_end()))
    }

    /// Reads a plan from its text.
    pub fn parse(text: &str) -> Result<PlanText> {
        let error = match toml::from_str(text) {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        if let Ok(table) = toml::from_str::<toml::Table>(text)
            && let Some((old, new)) = former_key(&toml::Value::Table(table))
        {
            return Err(anyhow::Error::new(error).context(format!("`{old}` is called `{new}` now")));
        }
        Err(error.into())
    }

    /// The plan as TOML.
    pub fn to_toml(&self) -> Result<String> {
        Ok(toml::to_string_pretty(self)?)
    }

    /// Whether it leaves it to the program what is done with the stores.
    pub fn names_no_phases(&self) -> bool {
        let names_none = self.phases.is_none() && self.phase.is_empty();
        names_none && self.sweep.is_none() && self.memory.is_none() && self.memory_sweep.is_none()
    }

    /// Names the phases of a run that names none, with reads of stores that do not fit into their memory: it needs the right to
    /// limit it, which not every machine gives.
    pub fn add_tight(&mut self) {
        self.phases = Some(DEFAULT_PHASES_TIGHT.iter().map(|phase| (*phase).to_owned()).collect());
    }

    /// What response times must stay below in a ladder of rates.
    pub fn limit(&self) -> &str {
        self.limit.as_deref().unwrap_or(LIMIT)
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
}
