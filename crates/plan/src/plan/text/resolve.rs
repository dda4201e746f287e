//! Resolves the text of a plan into its design: fills in every default, and checks every name and number.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::ageing::{self, AGEING_PHASES, OVERWRITES};
use super::corpora;
use super::design::PhaseSelectors;
use super::growth::{self, GROWTH_PHASES};
use super::selector::Selector;
use super::values::{
    MemorySize, at_most, bytes_or, device_limit_or_none, duration_or, fill_share, memory_shares, parse_speed,
    positive_rate,
};
use super::*;
use crate::corpus::Corpus;
use crate::redact::without_passwords;
use crate::rules::REQUEST_NS;
use crate::store::{Durability, Kind};
use crate::suggest::unknown;
use crate::trace::Reading;
use crate::units::{parse_duration, parse_share};

/// Default target precision; narrow enough for the usual questions.
const PRECISION: &str = "5%";
/// Maximum number of candidate runs in a preview. If two rounds would exceed it, one round is done, which shows the same shape in
/// half the time.
const PREVIEW_VISITS_MAX: usize = 150;
/// Maximum number of rounds; their order is drawn before the first one.
const ROUNDS_MAX: u32 = 10_000;
pub(super) const WORKERS_MAX: usize = 1024;
pub(super) const BATCH_MAX: usize = 100_000;
const OP_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum timeout of an op. Socket timeouts are counted in kernel ticks (10 ms at 100 Hz), and servers count theirs in
/// milliseconds.
const OP_TIMEOUT_MIN: Duration = Duration::from_millis(10);
const OP_TIMEOUT_MAX: Duration = Duration::from_secs(86_400);
/// Maximum length of the name of a candidate, phase or corpus, in bytes.
const NAME_BYTES_MAX: usize = 4096;
/// Default budget, a time that a newcomer is willing to wait. On two processors, a shorter default run has too few rounds for
/// half of its intervals to be within 10 %.
pub const DEFAULT_BUDGET: Duration = Duration::from_secs(165);

/// Default budget of a growth or of ageing: a round takes every candidate to the last step.
const STEPS_BUDGET: Duration = Duration::from_secs(1800);

/// A checked plan with every default filled in. It does not depend on the machine, so it is the same where a result is judged as
/// where it was measured.
#[derive(Clone, Debug)]
pub struct Design {
    /// The complete plan as text, as stored beside the result.
    pub text: PlanText,
    /// Name of the plan.
    pub name: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// Exact number of rounds, if requested.
    pub rounds: Option<u32>,
    /// Target precision: maximum half-width, relative to the ratio, that half of the confidence intervals should reach.
    pub precision: f64,
    /// Wall-time budget.
    pub budget: Option<Duration>,
    /// Durability class of the run.
    pub durability: Durability,
    /// Concurrent worker threads in each client.
    pub workers: usize,
    /// Number of processes that share the run. Set by how the program was started, not by the plan's text.
    pub clients: usize,
    /// Blobs per op.
    pub batch: usize,
    /// Order in which blobs are put.
    pub fill_order: FillOrder,
    /// Offered rate of an open loop, in ops per second.
    pub rate: Option<f64>,
    /// Response-time limit of a rate ladder.
    pub limit: ResponseLimit,
    /// Arrival process of an open loop.
    pub arrivals: Arrivals,
    /// Shares of op kinds, for the cost of 1,000 ops.
    pub mix: BTreeMap<String, f64>,
    /// Duration of a request of the user's program, in nanoseconds.
    pub request_ns: f64,
    /// Requirements that the user's program has for a store.
    pub need: Vec<Need>,
    /// Corpora: one, or one for each size of a sweep.
    pub corpora: Vec<CorpusPlan>,
    /// How ageing replaces blobs.
    pub replacement: Replacement,
    /// Number of blobs to extrapolate a growth to.
    pub expect: Option<u64>,
    /// Scale factor for corpora and phases.
    pub scale: f64,
    /// Compares every blob after each phase that writes, in every round.
    pub verify: bool,
    /// True if the program may drop the kernel's caches.
    pub drop_caches: bool,
    /// True to keep idle processors from sleeping during the run.
    pub awake: bool,
    /// True to run workers and servers on separate processors.
    pub pin_apart: bool,
    /// True to give each of several clients its own store if a store cannot be shared.
    pub each_rank: bool,
    /// Directory to measure in.
    pub dir: PathBuf,
    /// Phases, in order.
    pub phases: Vec<Phase>,
    /// By phase, the names of the corpora it is limited to.
    pub(super) only: BTreeMap<String, Vec<String>>,
    /// By phase, the candidates it is limited to.
    pub(super) only_by: PhaseSelectors,
    /// Label of the reference candidate of ratios.
    pub reference: String,
    /// Memory limit of a candidate, covering everything that holds memory for it, in addition to what it takes when empty unless
    /// `memory_total` is set.
    pub memory: Option<MemorySize>,
    /// Throughput limit of each device below a file system made for the run.
    pub device_limit: Option<DeviceLimit>,
    /// Share to which file systems made for the run are filled in advance.
    pub fill: f64,
    /// True if `memory` includes what the candidate takes when empty.
    pub memory_total: bool,
    /// Size of each store's own cache, if it differs from the vendor's recommendation.
    pub cache: Option<MemorySize>,
    /// When a worker syncs in the class on-sync.
    pub sync: SyncRule,
    /// Timeout of an op.
    pub op_timeout: Duration,
    /// Maximum relative deviation of probes before a round counts as disturbed.
    pub probe_limit: f64,
}

impl Design {
    /// Builds the corpora.
    ///
    /// # Errors
    /// Files that cannot be listed or read, or sizes of which not a single blob fits.
    pub fn build_corpora(&self) -> Result<Vec<Corpus>> {
        self.build_corpora_telling(&mut |_reading| {})
    }

    /// As [`Design::build_corpora`]; calls `progress` now and then while a log is read.
    ///
    /// # Errors
    /// As [`Design::build_corpora`].
    pub fn build_corpora_telling(&self, progress: &mut dyn FnMut(Reading)) -> Result<Vec<Corpus>> {
        self.corpora.iter().map(|corpus| Corpus::build_telling(&corpus.request, progress)).collect()
    }

    /// Builds the corpora. A sample of files whose size the plan leaves open may exceed its default size up to `room_bytes`, and
    /// the plan then says which size it got; `None` if there is no such sample. `progress` is that of
    /// [`Design::build_corpora_telling`].
    ///
    /// # Errors
    /// As [`Design::build_corpora`].
    pub fn build_sample(
        &mut self,
        room_bytes: Option<u64>,
        progress: &mut dyn FnMut(Reading),
    ) -> Result<Vec<Corpus>> {
        let Some(room_bytes) = room_bytes else { return self.build_corpora_telling(progress) };
        self.open_sample(room_bytes);
        let corpora = self.build_corpora()?;
        if let [sample] = corpora.as_slice() {
            self.close_sample(sample);
        }
        Ok(corpora)
    }

    /// Lets a sample of files exceed its default size, where that has fewer than 200 of them, up to `room_bytes`.
    pub fn open_sample(&mut self, room_bytes: u64) {
        self.corpora.iter_mut().for_each(|corpus| corpus.open_sample(room_bytes));
    }

    /// Writes the size that a sample was given into the plan, which then gives the same sample whatever room there is.
    fn close_sample(&mut self, sample: &Corpus) {
        let (Some(bytes), Some(text)) = (sample.grown_to, &mut self.text.corpus) else { return };
        text.bytes = Some(bytes.to_string());
        self.corpora.iter_mut().for_each(|corpus| corpus.close_sample(sample, bytes));
    }

    /// Notes how many requests the logs of these corpora have for each blob.
    pub fn note_logs(&mut self, corpora: &[Corpus]) {
        for (planned, corpus) in self.corpora.iter_mut().zip(corpora) {
            let requests = corpus.log.as_ref().map_or(0, |log| log.steps().len());
            planned.requests_per_blob = requests as f64 / corpus.blobs() as f64;
        }
    }
}

impl PlanText {
    /// Checks the plan and fills in defaults, for these candidates and standard phases.
    pub fn design_with(&self, standard: &[StandardPhase], members: &[DesignCandidate]) -> Result<Design> {
        Resolver { text: self, members, standard }.resolve()
    }

    /// Rejects a plan of plans, which has nothing to measure itself.
    pub(in crate::plan) fn check_is_one(&self) -> Result<()> {
        if self.plans.is_empty() {
            Ok(())
        } else {
            bail!("a plan of plans has nothing to measure of its own")
        }
    }
}

struct Resolver<'a> {
    text: &'a PlanText,
    members: &'a [DesignCandidate],
    standard: &'a [StandardPhase],
}

impl Resolver<'_> {
    fn resolve(&self) -> Result<Design> {
        let text = self.text;
        text.check_is_one()?;
        ageing::check(text)?;
        let scale = self.scale()?;
        let seed = text.seed.unwrap_or(1);
        let of_a_document = text.document.is_some();
        text.claim.iter().try_for_each(|claim| claim.check(of_a_document))?;
        text.published.iter().try_for_each(PublishedText::check)?;
        text.check_successors()?;
        let mut phases = self.phases()?;
        self.add_purge(&mut phases)?;
        let corpora = corpora::corpora(text, scale, seed)?;
        let (rounds, budget) = self.rounds(scale, self.here().count() * corpora.len())?;
        let mut plan = Design {
            text: text.clone(),
            name: text.name.clone().unwrap_or_else(|| "run".to_owned()),
            seed,
            rounds,
            precision: self.precision()?,
            budget,
            durability: self.durability()?,
            workers: at_most("--workers", text.workers.unwrap_or(1), WORKERS_MAX)?,
            clients: 1,
            batch: at_most("--batch", text.batch.unwrap_or(1), BATCH_MAX)?,
            fill_order: text.fill_order.unwrap_or_default(),
            rate: text.rate.map(|rate| positive_rate("--rate", rate)).transpose()?,
            limit: text.limit().parse()?,
            arrivals: text.arrivals.unwrap_or_default(),
            mix: self.mix(&phases)?,
            request_ns: self.request_ns()?,
            need: self.need()?,
            corpora,
            replacement: ageing::replacement(text, &phases)?,
            expect: growth::checked(text)?,
            only: BTreeMap::new(),
            only_by: self.only_by(&phases)?,
            scale,
            verify: text.verify.unwrap_or(false),
            drop_caches: text.drop_caches.unwrap_or(true),
            awake: text.awake.unwrap_or(false),
            pin_apart: text.pin_apart.unwrap_or(false),
            each_rank: text.each_rank.unwrap_or(false),
            dir: text.dir.clone().unwrap_or_else(|| PathBuf::from(".")),
            reference: self.reference()?,
            phases,
            device_limit: text.device_limit.as_deref().map_or(Ok(None), device_limit_or_none)?,
            fill: text.fill.as_deref().map_or(Ok(0.0), fill_share)?,
            memory: match text.memory.as_deref() {
                Some(memory) => MemorySize::of_plan(memory, scale)?,
                None => None,
            },
            memory_total: text.memory_total.unwrap_or(false),
            cache: text.cache.as_deref().map(|cache| MemorySize::parse("cache", cache)).transpose()?,
            sync: SyncRule {
                ops: text.sync_every_ops.unwrap_or(100).max(1),
                bytes: bytes_or("sync_every_bytes", &text.sync_every_bytes, 16_000_000)?.max(1),
            },
            op_timeout: self.op_timeout()?,
            probe_limit: text.probe_limit.unwrap_or(0.5),
        };
        let shows_pages = self.here().all(|candidate| candidate.kind == Some(Kind::Page));
        if shows_pages && (plan.rate.is_some() || plan.text.limit.is_some()) {
            bail!("pages are loaded one after the other: `--rate` and `--limit` are for stores");
        }
        plan.phases.iter().try_for_each(|phase| phase.check_batch(plan.batch))?;
        self.check_names(&plan)?;
        plan.only = self.only(&plan)?;
        check_transactions(&plan)?;
        plan.text = self.complete(&plan)?;
        Ok(plan)
    }

    fn scale(&self) -> Result<f64> {
        let scale = self.text.scale.unwrap_or(1.0);
        if !(scale > 0.0 && scale <= 100.0) {
            bail!("--scale: `{scale}` must be above 0 and at most 100");
        }
        Ok(scale)
    }

    /// Returns the candidates that can run on this machine.
    fn here(&self) -> impl Iterator<Item = &DesignCandidate> {
        self.members.iter().filter(|candidate| candidate.kind.is_some())
    }

    /// By phase, the corpora that it is limited to.
    fn only(&self, plan: &Design) -> Result<BTreeMap<String, Vec<String>>> {
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

    /// By phase, the candidates that it is limited to. Selectors may match no candidate, because `--stores` may have left them
    /// out.
    fn only_by(&self, phases: &[Phase]) -> Result<PhaseSelectors> {
        let mut only = PhaseSelectors::new();
        for phase in self.text.phase.iter().filter(|phase| !phase.stores.is_empty()) {
            let selectors = phase.stores.iter().map(|name| Selector::parse(name, &self.text.absent));
            let selectors =
                selectors.collect::<Result<Vec<_>>>().with_context(|| format!("phase `{}`", phase.id))?;
            let ids = phases.iter().map(|known| known.id.clone()).filter(|id| phase.includes(id));
            only.extend(ids.map(|id| (id, vec![selectors.clone()])));
        }
        // A candidate that skips a phase has nothing to repeat.
        for phase in phases {
            if let Some(repeated) = phase.load().and_then(|load| load.repeats.as_ref())
                && let Some(theirs) = only.get(repeated).cloned()
            {
                only.entry(phase.id.clone()).or_default().extend(theirs);
            }
        }
        Ok(only)
    }

    fn durability(&self) -> Result<Durability> {
        self.text
            .durability
            .as_deref()
            .map_or(Ok(Durability::OnSync), durability_class)
            .context("--durability")
    }

    fn rounds(&self, scale: f64, visits: usize) -> Result<(Option<u32>, Option<Duration>)> {
        let mut rounds = self.text.rounds;
        if rounds == Some(0) {
            bail!("--rounds: `0` is not between 1 and {ROUNDS_MAX}; verdicts need 5");
        }
        if let Some(many) = rounds.filter(|rounds| *rounds > ROUNDS_MAX) {
            bail!("--rounds: `{many}` is not between 1 and {ROUNDS_MAX}");
        }
        let budget = self.text.budget.as_deref().map(parse_duration).transpose().context("--budget")?;
        if budget.is_some_and(|budget| budget.is_zero()) {
            bail!("--budget: `{}` must be above 0", self.text.budget.as_deref().unwrap_or_default());
        }
        if scale < PREVIEW_SCALE && rounds.is_none() {
            rounds = Some(if 2 * visits > PREVIEW_VISITS_MAX { 1 } else { 2 });
        }
        let default = if self.text.has_steps() { STEPS_BUDGET } else { DEFAULT_BUDGET };
        let default = (rounds.is_none() && budget.is_none()).then_some(default);
        Ok((rounds, budget.or(default)))
    }

    fn op_timeout(&self) -> Result<Duration> {
        let timeout = duration_or("--op-timeout", &self.text.op_timeout, OP_TIMEOUT)?;
        if !(OP_TIMEOUT_MIN..=OP_TIMEOUT_MAX).contains(&timeout) {
            bail!(
                "--op-timeout: `{}` is not between 10ms and 24h: the kernel counts waits for a server in ticks of up to 10 ms",
                self.text.op_timeout.as_deref().unwrap_or_default()
            );
        }
        Ok(timeout)
    }

    /// Rejects names that are too long or contain control characters or backticks: they appear in reports, tables and error
    /// messages.
    fn check_names(&self, plan: &Design) -> Result<()> {
        let candidates = self.members.iter().map(|candidate| &candidate.label);
        let phases = plan.phases.iter().map(|phase| &phase.id);
        let corpora = plan.corpora.iter().filter_map(|corpus| corpus.name.as_ref());
        let names = candidates.chain(phases).chain(corpora).chain(&self.text.name);
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
            bail!("--precision: `{text}` is not between 0.1% and 50%");
        }
        Ok(precision)
    }

    fn standard(&self, id: &str) -> Result<Vec<Phase>> {
        standard(self.standard, id)
    }

    fn phases(&self) -> Result<Vec<Phase>> {
        let own: BTreeMap<&str, &PhaseText> =
            self.text.phase.iter().map(|phase| (phase.id.as_str(), phase)).collect();
        let default = self.default_phases();
        let names: Vec<String> = match &self.text.phases {
            Some(names) if names.is_empty() => bail!("no phase is named"),
            Some(names) => names.clone(),
            None if !own.is_empty() => std::iter::once(DEFAULT_PHASES[0].to_owned())
                .chain(self.text.phase.iter().map(|phase| phase.id.clone()))
                .collect(),
            None => default.iter().map(|name| (*name).to_owned()).collect(),
        };
        let speed = self.text.speed.as_deref().map(|speed| parse_speed("--speed", speed)).transpose()?;
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
                None => phases.extend(self.standard(name)?.into_iter().map(|of| of.at_speed(speed))),
            }
        }
        // A response-time limit adds a rate ladder, placed before the first phase that writes.
        if self.text.limit.is_some() && !phases.iter().any(Phase::climbs) {
            let reads = phases.iter().skip(1).take_while(|phase| !phase.writes()).count();
            let place = (1 + reads).min(phases.len());
            phases.splice(place..place, self.standard(CLIMB)?);
        }
        // A memory sweep also comes before the first phase that writes.
        if let Some(sweep) = &self.text.memory_sweep {
            let reads = phases.iter().skip(1).take_while(|phase| !phase.writes()).count();
            let place = (1 + reads).min(phases.len());
            phases.splice(place..place, self.memory_sweep(sweep)?);
        }
        // All other phases need filled stores.
        if phases.first().is_none_or(|phase| phase.role == Role::Measured) {
            if let Some(fill) = phases.iter().find(|phase| phase.is_fill()) {
                bail!("the phase `{}` must be the first one", fill.id);
            }
            phases.splice(0..0, self.standard(DEFAULT_PHASES[0])?);
        }
        if self.text.fill_order.unwrap_or_default() == FillOrder::Key {
            phases.iter_mut().filter(|phase| !names_its_order(phase)).for_each(Phase::put_by_key);
        }
        if let Some(grow) = &self.text.grow {
            phases = growth::phases(grow, &phases)?;
        }
        if let Some(age) = &self.text.age {
            let overwrites = self.standard(OVERWRITES)?.remove(0);
            phases = ageing::phases(age, &phases, &overwrites)?;
        }
        link_repeats(&mut phases)?;
        self.check_replays(&phases)?;
        let mut seen = std::collections::BTreeSet::new();
        if let Some(twice) = phases.iter().find(|phase| !seen.insert(phase.id.clone())) {
            bail!("the phase `{}` is named twice", twice.id);
        }
        Ok(phases)
    }

    /// Rejects replays without a log, and a speed that no replay takes: those that the plan defines have their own.
    fn check_replays(&self, phases: &[Phase]) -> Result<()> {
        let replay = phases.iter().find(|phase| phase.replays());
        if let Some(replay) = replay.filter(|_| !self.text.has_log()) {
            bail!("the phase `{}` replays a log, and there is none: add --trace FILE", replay.id);
        }
        let takes_speed = |phase: &Phase| phase.replays() && !self.text.defines(&phase.id);
        if self.text.speed.is_some() && !phases.iter().any(takes_speed) {
            let otherwise =
                if replay.is_some() { "name the phase `replay` as well" } else { "add --trace FILE" };
            bail!(
                "--speed: is that of a replay without a speed of its own, and this run has none: {otherwise}, or leave it out"
            );
        }
        Ok(())
    }

    /// Builds the read phases of a memory sweep, one for each share of the corpus.
    fn memory_sweep(&self, sweep: &str) -> Result<Vec<Phase>> {
        let tight = self.standard(MEMORY_SWEEP)?.remove(0);
        let at = |percent: f64| Phase {
            id: format!("{MEMORY_SWEEP}-{percent}"),
            about: None,
            memory: Some(MemorySize::OfCorpus(percent / 100.0)),
            ..tight.clone()
        };
        Ok(memory_shares(sweep)?.into_iter().map(at).collect())
    }

    /// Adds the purge phase after the delete phase if a candidate only marks its deletes, so that the second half of the work is
    /// measured too.
    fn add_purge(&self, phases: &mut Vec<Phase>) -> Result<()> {
        let lazy = self.here().any(|candidate| candidate.lazy_delete);
        let deletes = phases.iter().position(|phase| phase.id == DELETES);
        if let Some(place) = deletes
            && lazy
            && !phases.iter().any(|phase| phase.id == PURGES)
        {
            phases.splice(place + 1..place + 1, self.standard(PURGES)?);
        }
        Ok(())
    }

    fn default_phases(&self) -> &'static [&'static str] {
        if self.text.memory_sweep.is_some() {
            FILL_ONLY
        } else if self.text.grow.is_some() {
            GROWTH_PHASES
        } else if self.text.age.is_some() {
            AGEING_PHASES
        } else if self.text.sweep.is_some() {
            SWEEP_PHASES
        } else if self.text.has_log() {
            LOG_PHASES
        } else {
            DEFAULT_PHASES
        }
    }

    fn mix(&self, phases: &[Phase]) -> Result<BTreeMap<String, f64>> {
        let Some(mix) = &self.text.mix else { return Ok(BTreeMap::new()) };
        if mix.values().any(|share| !share.is_finite() || *share < 0.0) || mix.values().sum::<f64>() <= 0.0 {
            bail!("--mix: shares are 0 or more, and at least one is above 0");
        }
        for name in mix.keys() {
            let Some((_, phase)) = MIX_PHASES.iter().find(|(known, _)| known == name) else {
                return Err(unknown("kind of op in --mix", name, MIX_PHASES.iter().map(|(known, _)| *known)));
            };
            if !phases.iter().any(|known| known.id == *phase) {
                bail!("--mix: `{name}` needs the phase `{phase}`, which this run lacks; add it to --phases");
            }
        }
        let fill = phases.iter().find(|phase| phase.is_fill());
        let is_as_asked = |candidate: &DesignCandidate| {
            candidate.own_class.is_some() || fill.is_some_and(|fill| fill.class == Class::Asked)
        };
        if mix.contains_key("put")
            && self.durability()? == Durability::EachWrite
            && !self.here().all(is_as_asked)
        {
            bail!(
                "--mix: `put` is computed from the fill, which is not in class each-write; give `overwrite` instead, or fill in that class: \
                 --set STORE.durability=each-write"
            );
        }
        if self.text.rate.is_some() {
            bail!(
                "--mix: cannot be used with --rate: it adds up times of ops, and with a rate ops wait for each other; leave out one of them"
            );
        }
        let total: f64 = mix.values().sum();
        Ok(mix.iter().map(|(name, share)| (name.clone(), share / total)).collect())
    }

    fn request_ns(&self) -> Result<f64> {
        let usual = Duration::from_nanos(REQUEST_NS as u64);
        Ok(duration_or("--request", &self.text.request, usual)?.as_nanos() as f64)
    }

    fn need(&self) -> Result<Vec<Need>> {
        let names = self.text.need.iter().flatten();
        let need: Vec<Need> = names.map(|name| Need::parse(name)).collect::<Result<_>>().context("--need")?;
        if self.text.need.is_some() && need.is_empty() {
            bail!("--need: names nothing; leave it out if every place will do");
        }
        Ok(need)
    }

    fn reference(&self) -> Result<String> {
        if let Some(name) = &self.text.reference {
            // Labels contain no passwords.
            let name = without_passwords(name);
            return match self.here().find(|candidate| candidate.label == name) {
                Some(candidate) => Ok(candidate.label.clone()),
                None => Err(unknown(
                    "reference candidate",
                    &name,
                    self.here().map(|candidate| candidate.label.as_str()),
                )),
            };
        }
        let ranked = || self.here().filter(|candidate| candidate.kind != Some(Kind::Baseline));
        let chosen = ranked()
            .find(|candidate| candidate.label == "files/hashed")
            .or_else(|| ranked().find(|candidate| candidate.label.starts_with("files/hashed[on=")))
            .or_else(|| ranked().next())
            .or(self.here().next());
        Ok(chosen.map(|candidate| candidate.label.clone()).unwrap_or_default())
    }

    /// Returns the text with defaults written out, because a later version might change them.
    fn complete(&self, plan: &Design) -> Result<PlanText> {
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
            let default = self.default_phases();
            text.phases = Some(default.iter().map(|phase| (*phase).to_owned()).collect());
        }
        text.reference = Some(plan.reference.clone());
        text.sync_every_ops = Some(plan.sync.ops);
        text.sync_every_bytes = Some(plan.sync.bytes.to_string());
        text.probe_limit = Some(plan.probe_limit);
        text.precision.get_or_insert_with(|| PRECISION.to_owned());
        if text.sweep.is_none() && text.corpora.is_empty() {
            let mut corpus = text.corpus.clone().unwrap_or_default();
            if !corpus.is_real() && corpus.source.is_none() {
                corpus.source = Some(text.default_sizes().to_owned());
            }
            let has_size = corpus.blobs.is_some() || corpus.bytes.is_some() || corpus.share()?.is_some();
            if !has_size && text.grow.is_none() {
                let size = text.default_size()?;
                corpus.blobs = (!corpus.is_real()).then_some(size.blobs);
                corpus.bytes = Some(size.bytes.to_string());
            }
            text.corpus = Some(corpus);
        }
        Ok(text)
    }
}

/// Rejects one transaction for phases that run in the sessions of cold passes.
fn check_transactions(plan: &Design) -> Result<()> {
    let is_one =
        |phase: &Phase| phase.load().is_some_and(|load| load.transaction == Some(Transaction::Phase));
    for corpus in &plan.corpora {
        let mut phases = plan.phases_of(corpus.corpus_id).filter(|phase| is_one(phase));
        if let Some(phase) = phases.find(|phase| plan.cold_phase_of(&phase.id, corpus.corpus_id).is_some()) {
            bail!(
                "phase `{}`: `transaction = \"phase\"`, and it is done in the passes of the cold phase that it repeats",
                phase.id
            );
        }
    }
    Ok(())
}

/// Kinds of op in `--mix`, with the phase whose time, deferred work included, stands for each.
pub const MIX_PHASES: &[(&str, &str)] = &[
    ("read", "read-warm"),
    ("read-cold", "read-cold"),
    ("range", "range-random"),
    ("put", "fill"),
    ("overwrite", "overwrite"),
    ("delete", "delete-half"),
];

pub(super) const MIX_WRITES: &[&str] = &["put", "overwrite", "delete"];

/// Standard phase added by a response-time limit.
const CLIMB: &str = "ramp";
/// Standard phase after which deletes may be pending, and the one that carries them out.
const DELETES: &str = "delete-half";
/// See [`DELETES`].
const PURGES: &str = "purge";

/// Looks up a durability class by name; the error lists the known ones.
pub fn durability_class(name: &str) -> Result<Durability> {
    let known = || Durability::ALL.iter().map(|class| class.name());
    Durability::from_name(name).ok_or_else(|| unknown("durability class", name, known()))
}

/// Default phases of a memory sweep, besides its own.
const FILL_ONLY: &[&str] = &["fill"];

const LOG_PHASES: &[&str] = &["fill", REPLAY];

const SWEEP_PHASES: &[&str] = &["fill", "read-warm"];

/// Links phases to what they repeat: `read-again` to the read phase before it; a phase that names what it repeats must name an
/// earlier one.
fn link_repeats(phases: &mut [Phase]) -> Result<()> {
    for index in 0..phases.len() {
        let (earlier, rest) = phases.split_at_mut(index);
        let phase = &mut rest[0];
        if phase.load().is_some_and(|load| load.repeats_last) {
            let read =
                earlier.iter().rev().find(|earlier| !earlier.writes() && earlier.plain_load().is_some());
            let read = read.map(|read| read.id.clone());
            let read = read.ok_or_else(|| anyhow!("`{}` needs a read phase before it", phase.id))?;
            phase.load_mut().into_iter().for_each(|load| load.repeats = Some(read.clone()));
        }
        let Some(load) = phase.load() else { continue };
        if let Some(repeats) = &load.repeats
            && !earlier.iter().any(|earlier| earlier.id == *repeats)
        {
            bail!("the phase `{}` repeats `{repeats}`, which is not an earlier phase", phase.id);
        }
    }
    Ok(())
}
