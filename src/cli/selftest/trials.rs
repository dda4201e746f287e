//! Runs with a known answer: two equal candidates, or two of which one is slowed by a known share.

use crate::engine::work::ResolvePlan;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::slowed;
use crate::cli::print;
use crate::cli::progress::ProgressBar;
use crate::cli::run::program;
use crate::cli::signals::Signals;
use crate::engine::pilot::ROUNDS_WANTED;
use crate::engine::run::{Observer, Start, run};
use crate::host::machine;
use crate::judge::compare::with_reference;
use crate::judge::{cells, summary};
use crate::plan::{CorpusText, Length, Plan, PlanText};
use crate::records::Records;
use crate::result::{Disturbance, Interval, RunResult, Verdict};
use crate::units;

/// Default stores to compare with themselves; every machine has them.
pub const STORES: [&str; 2] = ["files/hashed", "sqlite"];
const PHASE: &str = "read-warm";
/// Length of that phase in seconds; short, because a hundred runs take long enough.
const SECONDS: f64 = 0.1;
const BUDGET: &str = "20s";
/// Wall-time budget if stores are named, because a server is started for every visit.
const BUDGET_NAMED: &str = "60s";
/// Target precision as a share of the slowdown: the slowdown is detected if the interval's half-width is well below it. At half
/// of the slowdown, about 7 in 10 were detected.
const PRECISION: f64 = 0.4;
/// Number of blobs of each run: small, so that they are filled quickly. Each run has its own keys.
const BLOBS: u64 = 100;
const SIZES: &str = "uniform:2000-20000";

/// Number of blobs under a memory limit: a part of them has to exceed what the kernel charges at once.
const BLOBS_TIGHT: u64 = 300;
const SIZES_TIGHT: &str = "uniform:20000-200000";

/// Conditions of the runs.
pub struct Conditions<'a> {
    /// Directory to measure in.
    pub dir: &'a Path,
    /// Memory limit of a candidate.
    pub memory: Option<&'a str>,
    /// Stores, if named.
    pub stores: Option<Vec<String>>,
    /// Slowdown to detect: share of a read's own time by which each read of a slowed candidate is extended.
    pub slower: f64,
}

impl Conditions<'_> {
    /// Number of blobs, and their sizes.
    fn corpus(&self) -> (u64, &'static str) {
        if self.memory.is_some() { (BLOBS_TIGHT, SIZES_TIGHT) } else { (BLOBS, SIZES) }
    }

    fn budget(&self) -> &'static str {
        if self.stores.is_some() { BUDGET_NAMED } else { BUDGET }
    }

    /// Target precision in the format of `--precision`.
    fn precision(&self) -> String {
        units::share(PRECISION * self.slower)
    }
}

/// Known relation of the two candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialKind {
    /// Equal.
    Equal,
    /// The second is slower.
    Slowed,
}

/// Numbers of comparisons by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictCounts {
    equal: u32,
    cannot_tell: u32,
    faster: u32,
    slower: u32,
    not_ranked: u32,
}

impl VerdictCounts {
    fn add(&mut self, verdict: Verdict) {
        let place = match verdict {
            Verdict::Equal => &mut self.equal,
            Verdict::CannotTellApart => &mut self.cannot_tell,
            Verdict::Faster => &mut self.faster,
            Verdict::Slower => &mut self.slower,
            Verdict::NotRanked => &mut self.not_ranked,
        };
        *place += 1;
    }

    fn total(&self) -> u32 {
        self.equal + self.cannot_tell + self.faster + self.slower + self.not_ranked
    }

    /// True if the share of wrong answers is small enough, or that of right answers large enough. A comparison that could not be
    /// made counts as a failure.
    fn meets(&self, kind: TrialKind) -> bool {
        match kind {
            TrialKind::Equal => (self.faster + self.slower + self.not_ranked) * 10 <= self.total(),
            TrialKind::Slowed => self.slower * 10 >= self.total() * 8,
        }
    }

    fn goal(&self, kind: TrialKind) -> String {
        let total = self.total();
        match kind {
            TrialKind::Equal => {
                let different = self.faster + self.slower;
                format!("called different: {different} of {total} (goal: at most {})", total / 10)
            }
            TrialKind::Slowed => {
                format!(
                    "called slower: {} of {total} (goal: at least {})",
                    self.slower,
                    (total * 8).div_ceil(10)
                )
            }
        }
    }
}

/// Carries out the runs, prints the verdicts of their comparisons, and returns true if the goal is met.
pub fn main(kind: TrialKind, trials: u32, conditions: &Conditions, signals: &Signals) -> Result<bool> {
    let bar = ProgressBar::new(false);
    let begin = machine::uptime();
    let candidates = each_once(0, conditions)?.candidates;
    let mut stores: Vec<(String, TrialResults)> =
        candidates.into_iter().map(|candidate| (candidate.label, TrialResults::default())).collect();
    let mut rounds: BTreeMap<u32, u32> = BTreeMap::new();
    for trial in 0..trials {
        let spent = (machine::uptime() - begin).as_secs_f64();
        let left = spent / f64::from(trial.max(1)) * f64::from(trials - trial);
        let left = if trial > 0 { format!(", about {} left", units::seconds(left)) } else { String::new() };
        bar.now_and_then(
            trial as usize + 1,
            trials as usize,
            &format!("run {} of {trials}{left}", trial + 1),
        );
        let Some(result) = one(kind, trial, conditions, signals)? else { break };
        *rounds.entry(result.fixed.rounds).or_insert(0) += 1;
        for (store, ended) in &mut stores {
            ended.add(&result, store)?;
        }
    }
    bar.clear();
    // Fewer than requested if stopped early.
    let made = stores.iter().map(|(_, ended)| ended.count.total()).max().unwrap_or(0);
    let mut text = introduction(kind, conditions, made);
    for (store, ended) in &stores {
        text += &ended.text(kind, store)?;
    }
    let short: u32 = rounds.range(..ROUNDS_WANTED).map(|(_, times)| times).sum();
    let rounds: Vec<String> =
        rounds.iter().map(|(rounds, times)| format!("{rounds} ({times} times)")).collect();
    writeln!(text, "rounds of a run: {}", rounds.join(", "))?;
    if short > 0 {
        writeln!(
            text,
            "{short} runs had fewer than {ROUNDS_WANTED} rounds: something else keeps this machine so busy that {} were not\n\
             enough; repeat this at a quieter time before you quote it",
            conditions.budget()
        )?;
    }
    if kind == TrialKind::Slowed {
        writeln!(text, "injected, as measured: {:.1} % of the reads' time", slowed::added_share() * 100.0)?;
    }
    let met = stores.iter().all(|(_, ended)| ended.count.meets(kind));
    let (seconds, verdict) = ((machine::uptime() - begin).as_secs_f64(), if met { "met" } else { "missed" });
    writeln!(text, "goal {verdict} ({})", units::seconds(seconds))?;
    print(&text)?;
    Ok(met)
}

fn introduction(kind: TrialKind, conditions: &Conditions, trials: u32) -> String {
    let candidates = match kind {
        TrialKind::Equal => "Every store is two equal candidates".to_owned(),
        TrialKind::Slowed => format!(
            "Every store is two candidates; each read of the second one spends {} of its own time once more, spinning",
            units::exact_percent(conditions.slower)
        ),
    };
    let (blobs, sizes) = conditions.corpus();
    let memory = conditions.memory.map_or(String::new(), |memory| format!(", --memory {memory}"));
    format!(
        "{candidates}.\n{trials} comparisons of each store, from {trials} runs as `blobwise run` makes them (pilot, rounds,\n\
         balanced order, stopping rule): {blobs} blobs, {sizes}, {PHASE} of {SECONDS} s, --precision {}, at most\n{} a run{memory}.\n\n",
        conditions.precision(),
        conditions.budget()
    )
}

#[derive(Default)]
struct TrialResults {
    count: VerdictCounts,
    ratios: Vec<Interval>,
    reasons: BTreeMap<String, u32>,
}

impl TrialResults {
    /// Compares a store's second candidate with its first, like a run's candidates with its reference.
    fn add(&mut self, result: &RunResult, store: &str) -> Result<()> {
        let cell = |which| {
            let label = label(store, which);
            result.cell(&label, PHASE).with_context(|| format!("the run did not measure `{label}`"))
        };
        let (first, second) = (cell(FIRST)?, cell(SECOND)?);
        if let Some(reason) = first.not_ranked.as_ref().or(second.not_ranked.as_ref()) {
            self.count.add(Verdict::NotRanked);
            *self.reasons.entry(reason.worded().brief()).or_insert(0) += 1;
            return Ok(());
        }
        let compared = with_reference(&cells::series(second), &cells::series(first));
        let (ratio, verdict) = compared.context("the candidates have no round in common")?;
        self.count.add(verdict);
        self.ratios.push(ratio);
        Ok(())
    }

    fn text(&self, kind: TrialKind, store: &str) -> Result<String> {
        let VerdictCounts { equal, cannot_tell, faster, slower, not_ranked } = self.count;
        let mut middles: Vec<f64> = self.ratios.iter().map(|ratio| ratio.median).collect();
        let halves =
            self.ratios.iter().filter_map(|ratio| Some((ratio.high? - ratio.low?) / 2.0 / ratio.median));
        let mut halves: Vec<f64> = halves.collect();
        let mut text = format!(
            "{store}\n  equal {equal}, cannot tell apart {cannot_tell}, faster {faster}, slower {slower}, not ranked {not_ranked}\n"
        );
        for (reason, times) in &self.reasons {
            writeln!(text, "  not ranked {times} times: {reason}")?;
        }
        writeln!(
            text,
            "  second candidate over first: median {:.3}; half width of the interval: median {:.1} %",
            median(&mut middles),
            median(&mut halves) * 100.0
        )?;
        writeln!(text, "  {}\n", self.count.goal(kind))?;
        Ok(text)
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn one(kind: TrialKind, trial: u32, conditions: &Conditions, signals: &Signals) -> Result<Option<RunResult>> {
    let since = machine::uptime();
    let plan = plan(kind, trial, conditions)?;
    let start = Start { since, ..Start::alone(&plan, signals.stop(), program())? };
    let records = run(start, &mut TrialObserver { plan: &plan })?;
    if signals.received().is_some() {
        return Ok(None);
    }
    let result = summary::summarize(&plan, &records)?;
    match result
        .candidates
        .iter()
        .find_map(|candidate| candidate.reason.as_ref().map(|why| (&candidate.store, why)))
    {
        Some((candidate, why)) => Err(anyhow!("{candidate}: {why}")),
        None => Ok(Some(result)),
    }
}

const FIRST: &str = "first";
const SECOND: &str = "second";

fn label(store: &str, which: &str) -> String {
    format!("{store} ({which})")
}

fn each_once(trial: u32, conditions: &Conditions) -> Result<Plan> {
    let (blobs, sizes) = conditions.corpus();
    let usual = || STORES.iter().map(|store| (*store).to_owned()).collect();
    let text = PlanText {
        name: Some("selftest".to_owned()),
        seed: Some(u64::from(trial) + 1),
        budget: Some(conditions.budget().to_owned()),
        precision: Some(conditions.precision()),
        stores: Some(conditions.stores.clone().unwrap_or_else(usual)),
        phases: Some(vec!["fill".to_owned(), PHASE.to_owned()]),
        dir: Some(conditions.dir.to_owned()),
        memory: conditions.memory.map(str::to_owned),
        corpus: Some(CorpusText {
            source: Some(sizes.to_owned()),
            blobs: Some(blobs),
            ..CorpusText::default()
        }),
        ..PlanText::default()
    };
    let mut plan = text.resolve(true)?;
    for phase in plan.phases.iter_mut().filter(|phase| phase.id == PHASE) {
        if let Some(load) = phase.load_mut() {
            load.length = Length::Seconds(SECONDS);
        }
    }
    Ok(plan)
}

fn plan(kind: TrialKind, trial: u32, conditions: &Conditions) -> Result<Plan> {
    let mut plan = each_once(trial, conditions)?;
    let mut seconds = plan.candidates.clone();
    if kind == TrialKind::Slowed {
        for (candidate, adapter) in seconds.iter_mut().zip([slowed::adapter::<0>(), slowed::adapter::<1>()]) {
            candidate.adapter = adapter.context("the store is not compiled in")?;
        }
    }
    plan.candidates.iter_mut().for_each(|candidate| candidate.label = label(&candidate.label, FIRST));
    seconds.iter_mut().for_each(|candidate| candidate.label = label(&candidate.label, SECOND));
    plan.design.reference.clone_from(&plan.candidates[0].label);
    plan.candidates.extend(seconds);
    Ok(plan)
}

/// Observer that decides the number of rounds like `blobwise run`, and stores nothing.
struct TrialObserver<'a> {
    plan: &'a Plan,
}

impl Observer for TrialObserver<'_> {
    fn rounds_needed(&mut self, records: &Records, most: u32) -> u32 {
        summary::rounds_needed(self.plan, records, most).unwrap_or(most)
    }

    fn disturbances(&mut self, records: &Records) -> Result<Vec<Disturbance>> {
        summary::disturbances(self.plan, records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(verdicts: &[(Verdict, u32)]) -> VerdictCounts {
        let mut count = VerdictCounts::default();
        for (verdict, times) in verdicts {
            (0..*times).for_each(|_| count.add(*verdict));
        }
        count
    }

    #[test]
    fn ten_false_differences_of_a_hundred_pass_and_eleven_do_not() {
        use Verdict::*;
        let ten = count(&[(Faster, 4), (Slower, 6), (Equal, 60), (CannotTellApart, 30)]);
        assert_eq!(ten.total(), 100);
        assert!(ten.meets(TrialKind::Equal));
        assert!(!count(&[(Faster, 5), (Slower, 6), (Equal, 89)]).meets(TrialKind::Equal));
        assert!(!count(&[(NotRanked, 11), (Equal, 89)]).meets(TrialKind::Equal));
    }

    #[test]
    fn eighty_right_answers_of_a_hundred_pass_and_the_wrong_direction_is_none() {
        use Verdict::*;
        assert!(count(&[(Slower, 80), (CannotTellApart, 20)]).meets(TrialKind::Slowed));
        assert!(!count(&[(Slower, 79), (CannotTellApart, 21)]).meets(TrialKind::Slowed));
        assert!(!count(&[(Faster, 80), (CannotTellApart, 20)]).meets(TrialKind::Slowed));
    }

    #[test]
    fn the_two_candidates_differ_in_nothing_but_what_was_injected() {
        let conditions = Conditions { dir: Path::new("."), memory: None, stores: None, slower: 0.1 };
        for (kind, same) in [(TrialKind::Equal, true), (TrialKind::Slowed, false)] {
            let plan = plan(kind, 0, &conditions).unwrap();
            assert_eq!(plan.candidates.len(), 2 * STORES.len());
            for store in STORES {
                let candidate = |which| {
                    plan.candidates.iter().find(|candidate| candidate.label == label(store, which)).unwrap()
                };
                let (first, second) = (candidate(FIRST), candidate(SECOND));
                assert_eq!(first.options, second.options);
                assert_eq!((first.adapter.name, second.adapter.name), (store, store));
                assert_eq!(std::ptr::eq(first.adapter, second.adapter), same);
            }
        }
    }
}
