//! Comparing two runs: unpaired, only where both measured the same thing, and with what else differs between them.

use std::collections::BTreeMap;

use super::cells::{op_ns, series, waits_for_a_process, writes};
use super::compare::unpaired;
use super::interval::verdict;
use super::{probes, ranking};
use crate::corpus::CorpusId;
use crate::plan::text::{FillOrder, PhaseText, PlanText, whole_of};
use crate::result::{CandidateResult, Cell, CorpusResult, Durability, Interval, RunResult, Verdict};
use crate::rules::{CORPUS_LIMIT, WAY_SHARE};
use crate::units;
use crate::words;

/// What became of one candidate in one phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The candidate.
    pub store: String,
    /// The phase.
    pub phase: String,
    /// The size of a sweep.
    pub corpus_id: CorpusId,
    /// New rate over old rate.
    pub ratio: Option<Interval>,
    /// What it says.
    pub verdict: ChangeVerdict,
    /// Whether it is slower by more than the threshold, with its whole interval.
    pub regressed: bool,
}

/// What a change says.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeVerdict {
    /// One of the five verdicts.
    Known(Verdict),
    /// The processor's probes differ: the machine is not what it was.
    MachineChanged,
    /// The way to another processor differs by much of an op that waits for a process there.
    WayChanged,
    /// Only one of the runs has it.
    Gone(&'static str),
    /// It cannot be compared.
    NotComparable(String),
}

impl ChangeVerdict {
    /// As it is printed.
    pub fn text(&self) -> String {
        match self {
            ChangeVerdict::Known(verdict) => verdict.name().to_owned(),
            ChangeVerdict::MachineChanged => "machine changed".to_owned(),
            ChangeVerdict::WayChanged => "way to a processor changed".to_owned(),
            ChangeVerdict::Gone(which) => format!("only in the {which} run"),
            ChangeVerdict::NotComparable(why) => format!("not comparable: {why}"),
        }
    }
}

/// Compares every cell of two runs.
pub fn compare(old: &RunResult, new: &RunResult, threshold: f64) -> Vec<Change> {
    let speed_changed = probes::speed_changed(old, new);
    let way_changed = probes::trips_changed(old, new);
    let mut changes = Vec::new();
    for cell in old.results.iter().filter(|cell| !cell.rounds.is_empty()) {
        let counterpart = new.results.iter().find(|other| same(cell, other) && !other.rounds.is_empty());
        let corpora = || other_corpus(corpus_of(old, cell)?, corpus_of(new, cell)?);
        changes.push(match counterpart {
            Some(counterpart) => {
                let why =
                    differs(cell, counterpart).or_else(|| planned_otherwise(old, new, cell)).or_else(corpora);
                let changed = match (speed_changed, way_changed) {
                    (true, _) => Some(ChangeVerdict::MachineChanged),
                    (_, Some(ns)) if is_much_of(ns, [cell, counterpart]) => Some(ChangeVerdict::WayChanged),
                    _ => None,
                };
                change(cell, counterpart, why, changed, threshold)
            }
            None => gone(cell, "old"),
        });
    }
    let only_new = new.results.iter().filter(|cell| !cell.rounds.is_empty());
    for cell in
        only_new.filter(|cell| !old.results.iter().any(|other| same(cell, other) && !other.rounds.is_empty()))
    {
        changes.push(gone(cell, "new"));
    }
    changes
}

/// Whether a difference of the way to another processor, in nanoseconds, is much of an op that waits for a process there.
fn is_much_of(way_ns: f64, cells: [&Cell; 2]) -> bool {
    let shortest = cells.into_iter().filter_map(op_ns).fold(f64::INFINITY, f64::min);
    way_ns > WAY_SHARE * shortest && cells.into_iter().all(waits_for_a_process)
}

fn same(a: &Cell, b: &Cell) -> bool {
    a.store == b.store && a.phase == b.phase && a.corpus_id == b.corpus_id
}

fn gone(cell: &Cell, which: &'static str) -> Change {
    Change {
        store: cell.store.clone(),
        phase: cell.phase.clone(),
        corpus_id: cell.corpus_id,
        ratio: None,
        verdict: ChangeVerdict::Gone(which),
        regressed: false,
    }
}

fn change(
    old: &Cell,
    new: &Cell,
    not_comparable: Option<String>,
    machine_changed: Option<ChangeVerdict>,
    threshold: f64,
) -> Change {
    let ratio = unpaired(&series(new), &series(old));
    let verdict = match (&ratio, not_comparable, machine_changed) {
        (_, Some(why), _) => ChangeVerdict::NotComparable(why),
        (_, None, Some(changed)) => changed,
        (Some(ratio), None, None) => ChangeVerdict::Known(verdict(ratio)),
        (None, None, None) => ChangeVerdict::NotComparable("no rates".to_owned()),
    };
    let high = ratio.and_then(|ratio| ratio.high).unwrap_or(f64::INFINITY);
    let regressed = matches!(verdict, ChangeVerdict::Known(_)) && high < 1.0 - threshold;
    Change { ratio, verdict, regressed, ..gone(new, "new") }
}

/// The corpus that a cell's candidate kept.
fn corpus_of<'r>(result: &'r RunResult, cell: &Cell) -> Option<&'r CorpusResult> {
    match result.corpora.as_slice() {
        [] => Some(&result.corpus),
        corpora => corpora.iter().find(|corpus| corpus.corpus_id == cell.corpus_id),
    }
}

/// In what two corpora differ by more than a rate bears.
fn other_corpus(old: &CorpusResult, new: &CorpusResult) -> Option<String> {
    let figures = |corpus: &CorpusResult| {
        let middle = corpus.quantiles.get("p50").copied().unwrap_or(0);
        [corpus.blobs as f64, corpus.bytes as f64, middle as f64, corpus.zstd_ratio]
    };
    let is_other = figures(old).into_iter().zip(figures(new)).any(|(old, new)| {
        let most = old.max(new);
        most > 0.0 && (old - new).abs() / most > CORPUS_LIMIT
    });
    let name = |corpus: &CorpusResult| {
        format!("{} of {}", units::counted(corpus.blobs, "blob"), units::bytes(corpus.bytes as f64))
    };
    is_other.then(|| format!("other blobs: {} and {}", name(old), name(new)))
}

/// What else is not the same in two runs, in the order in which it is told: the machine, the program, then each candidate's
/// settings and versions. It may be what a comparison is made for, or what spoils it; which of the two only its reader knows.
pub fn differences(old: &RunResult, new: &RunResult) -> Vec<String> {
    let mut found = Vec::new();
    let facts = |result: &RunResult| {
        let (machine, program) = (&result.machine, &result.program);
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        [
            ("processor", machine.processor.clone()),
            ("processors", machine.processors.to_string()),
            ("memory", units::bytes(machine.memory_bytes as f64)),
            ("kernel", machine.kernel.clone()),
            ("system", machine.system.clone()),
            ("file system", machine.filesystem.clone()),
            ("device", known(&machine.device)),
            (
                "processors asked not to sleep",
                if result.plan.awake == Some(true) { "yes" } else { "no" }.to_owned(),
            ),
            ("the side of workers and servers", machine.sides()),
            ("blobwise", format!("{} ({})", program.version, program.build)),
        ]
    };
    for ((what, before), (_, now)) in facts(old).into_iter().zip(facts(new)) {
        found.extend(changed(what, &before, &now));
    }
    for candidate in &old.candidates {
        let Some(other) = new.candidates.iter().find(|other| other.store == candidate.store) else {
            continue;
        };
        let told = settings(candidate, other);
        if !told.is_empty() {
            found.push(format!("`{}`: {}", candidate.store, told.join(", ")));
        }
    }
    found
}

fn changed(what: &str, before: &str, now: &str) -> Option<String> {
    (before != now).then(|| format!("{what} {before}, now {now}"))
}

/// Options and facts of a candidate that have another value in the other run. Facts are known only of candidates that were opened.
fn settings(old: &CandidateResult, new: &CandidateResult) -> Vec<String> {
    let of = |old: &BTreeMap<String, String>, new: &BTreeMap<String, String>| -> Vec<String> {
        old.iter().filter_map(|(name, before)| changed(name, before, new.get(name)?)).collect()
    };
    let mut told = of(&old.options, &new.options);
    told.extend(of(&old.facts, &new.facts));
    told
}

/// How a cell's reads are grouped into transactions.
fn of_reads(cell: &Cell) -> &'static str {
    if cell.one_transaction { "one a phase" } else { "one an op" }
}

/// Why two cells of one name measure different things, or nothing.
fn differs(old: &Cell, new: &Cell) -> Option<String> {
    let silent = |cell: &Cell, which: &str| {
        ranking::says_nothing(cell).map(|why| format!("not ranked in the {which} run: {}", words::why(&why)))
    };
    if let Some(why) = silent(old, "old").or_else(|| silent(new, "new")) {
        return Some(why);
    }
    let share = |cell: &Cell| {
        cell.cache_proof.as_ref().map_or(String::new(), |proof| format!("{:.2}", proof.sample_share))
    };
    let pairs = [
        // Longer passes find more of what they brought in themselves.
        ("share of the keys in a cold pass", share(old), share(new)),
        ("workers", old.workers.to_string(), new.workers.to_string()),
        ("transactions of reads", of_reads(old).to_owned(), of_reads(new).to_owned()),
        ("batch", old.batch.to_string(), new.batch.to_string()),
        ("class", old.durability.name().to_owned(), new.durability.name().to_owned()),
        ("cache", format!("{:?}", old.cache).to_lowercase(), format!("{:?}", new.cache).to_lowercase()),
        ("offered rate", format!("{:?}", old.offered_ops_per_s), format!("{:?}", new.offered_ops_per_s)),
    ];
    pairs
        .into_iter()
        .find(|(_, old, new)| old != new)
        .map(|(what, old, new)| format!("{what} {old} and {new}"))
}

/// What two plans ask differently of a cell, or nothing. Lengths may differ: rates are means.
fn planned_otherwise(old: &RunResult, new: &RunResult, cell: &Cell) -> Option<String> {
    let (old, new) = (&old.plan, &new.plan);
    let is_ladder = cell.is_ladder();
    if is_ladder && old.limit() != new.limit() {
        return Some(format!("limit {} and {}", old.limit(), new.limit()));
    }
    let rule = |plan: &PlanText| (plan.sync_every_ops, plan.sync_every_bytes.clone());
    if writes(cell) && cell.durability == Durability::OnSync && rule(old) != rule(new) {
        let text = |plan: &PlanText| match rule(plan) {
            (Some(ops), Some(bytes)) => format!("{ops} ops or {bytes} B"),
            _ => "another number of ops".to_owned(),
        };
        return Some(format!("a sync every {} and {}", text(old), text(new)));
    }
    // Before results had a word of it, the order was random. A digest has no order anyway.
    let filled = |plan: &PlanText| plan.fill_order.unwrap_or(FillOrder::Random);
    if cell.traits.integer_keys && filled(old) != filled(new) {
        return Some("integer keys were put in another order".to_owned());
    }
    let is_open = cell.offered_ops_per_s.is_some() || is_ladder;
    if is_open && old.arrivals.unwrap_or_default() != new.arrivals.unwrap_or_default() {
        return Some("other arrivals".to_owned());
    }
    let own = |plan: &PlanText| {
        let phase = plan.phase.iter().find(|phase| phase.id == whole_of(&cell.phase))?;
        // Nor does it matter with which corpora and candidates else it is done.
        let (corpora, stores) = (Vec::new(), Vec::new());
        Some(PhaseText { count: None, seconds: None, share: None, corpora, stores, ..phase.clone() })
    };
    (own(old) != own(new)).then(|| "the phase is described otherwise".to_owned())
}
