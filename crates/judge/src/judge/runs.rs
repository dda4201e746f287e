//! Comparison of two runs, limited to cells in which both measured the same, with a list of other differences. Runs
//! that measured alternately are paired by round.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::{op_ns, series, waits_for_a_process, writes};
use super::compare::{unpaired, with_reference};
use super::interval::verdict;
use super::power::DetectionTarget;
use super::{probes, ranking};
use crate::plan::text::{FillOrder, PhaseText, PlanText, whole_of};
use crate::result::compared::{
    COMPARED_SCHEMA, Change, ChangeVerdict, CompareOptions, ComparedRun, ComparisonOutcome, ComparisonReport,
    ComparisonSummary,
};
use crate::result::{CandidateResult, Cell, CorpusResult, Durability, RunResult};
use crate::rules::{CORPUS_LIMIT, WAY_SHARE};
use crate::units;

/// Highest number of rounds that is reasonable to recommend.
pub const ROUNDS_MOST: u32 = 100;

/// Compares two runs, cell by cell.
pub fn report([old, new]: [(&str, &RunResult); 2], asked: CompareOptions) -> ComparisonReport {
    let aim = DetectionTarget::new(asked.threshold, asked.power);
    let aim = if asked.in_turn { aim.in_turn() } else { aim };
    let changes = compare(old.1, new.1, &asked, &aim);
    let sum = sum(old.1, new.1, &changes, asked.fall, &aim);
    // A comparison that compared nothing must not pass.
    let outcome = match (&sum, asked.strict) {
        (ComparisonSummary { regressed: 1.., .. }, _) => ComparisonOutcome::Regressed,
        (ComparisonSummary { compared: 0, .. }, _) => ComparisonOutcome::NothingCompared,
        (ComparisonSummary { blind: 1.., .. }, true) => ComparisonOutcome::Blind,
        _ => ComparisonOutcome::Passed,
    };
    ComparisonReport {
        schema: COMPARED_SCHEMA,
        blobwise: env!("CARGO_PKG_VERSION").to_owned(),
        old: ComparedRun::new(old.0, old.1),
        new: ComparedRun::new(new.0, new.1),
        asked,
        changes,
        sum,
        differences: differences(old.1, new.1),
        outcome,
    }
}

/// Returns why two runs are unrelated; `None` if at least one cell of both was measured on the same blobs.
pub fn unrelated(old: &RunResult, new: &RunResult) -> Option<String> {
    let pairs: Vec<(&Cell, &Cell)> =
        measured(old).filter_map(|cell| Some((cell, twin(new, cell)?))).collect();
    let Some((first, _)) = pairs.first() else {
        let all = |run: &RunResult, of: fn(&Cell) -> &String| -> Vec<String> {
            let names: BTreeSet<&String> = measured(run).map(of).collect();
            names.into_iter().map(|name| format!("`{name}`")).collect()
        };
        for (what, of) in
            [("store", (|cell| &cell.store) as fn(&Cell) -> &String), ("phase", |cell| &cell.phase)]
        {
            let (old, new) = (all(old, of), all(new, of));
            if old.iter().all(|name| !new.contains(name)) {
                let named = |names: &[String], which: &str| match names {
                    [] => format!("the {which} run measured nothing"),
                    names => format!("the {which} run has {}", units::listed(names, "and")),
                };
                return Some(format!("no {what} is in both: {}, {}", named(&old, "old"), named(&new, "new")));
            }
        }
        return Some("no store is in both in the same phase and size".to_owned());
    };
    let other = |cell: &Cell| other_corpus(old.corpus_of(cell.corpus_id)?, new.corpus_of(cell.corpus_id)?);
    let why = other(first)?;
    pairs.iter().all(|(cell, _)| other(cell).is_some()).then_some(why)
}

/// Returns why figures of two runs must not appear in one table: different blobs or different memory. Machines,
/// settings and programs may differ, because they may be the subject.
pub fn apart(one: &RunResult, other: &RunResult) -> Option<String> {
    let (mine, theirs) = (one.all_corpora(), other.all_corpora());
    let is_same = mine.len() == theirs.len()
        && mine.iter().zip(theirs).all(|(mine, theirs)| mine.corpus_id == theirs.corpus_id);
    if !is_same {
        return Some("other sizes of blobs".to_owned());
    }
    if let Some(why) = mine.iter().zip(theirs).find_map(|(mine, theirs)| other_corpus(mine, theirs)) {
        return Some(why);
    }
    let memory = |run: &RunResult| {
        let limit = run.plan.memory.clone().unwrap_or_else(|| "no limit".to_owned());
        let total = if run.plan.memory_total == Some(true) { ", the empty store's included" } else { "" };
        let sweep = run.plan.memory_sweep.as_ref().map_or(String::new(), |sweep| format!(", sweep {sweep}"));
        format!("{limit}{total}{sweep}")
    };
    let (limit, other_limit) = (memory(one), memory(other));
    if limit != other_limit {
        return Some(format!("other memory: {limit} and {other_limit}"));
    }
    let fits =
        |run: &RunResult| run.machine.memory_bytes == 0 || run.corpus.bytes <= run.machine.memory_bytes / 2;
    (fits(one) != fits(other)).then(|| {
        let had = |run: &RunResult| units::bytes(run.machine.memory_bytes as f64);
        format!(
            "other memory: machines of {} and {}, and the blobs fit into one of them",
            had(one),
            had(other)
        )
    })
}

/// Summarizes all rows.
fn sum(
    old: &RunResult,
    new: &RunResult,
    changes: &[Change],
    fall: f64,
    aim: &DetectionTarget,
) -> ComparisonSummary {
    let known: Vec<&Change> = changes.iter().filter(|change| change.known().is_some()).collect();
    let mut falls: Vec<Option<f64>> = known.iter().map(|change| change.smallest_fall_found).collect();
    falls.sort_by(|a, b| a.unwrap_or(f64::INFINITY).total_cmp(&b.unwrap_or(f64::INFINITY)));
    // If more rounds do not help one row, no number of rounds is enough.
    let rounds = |change: &&&Change| {
        let cell = measured(old).find(|cell| cell.store == change.store && is_of(cell, change))?;
        aim.rounds_for(fall, &series(cell), &series(twin(new, cell)?), ROUNDS_MOST)
    };
    let blind: Vec<Option<u32>> =
        known.iter().filter(|change| change.blind).map(|change| rounds(&change)).collect();
    ComparisonSummary {
        compared: known.len(),
        regressed: changes.iter().filter(|change| change.regressed).count(),
        blind: changes.iter().filter(|change| change.blind).count(),
        found_in_each: falls.last().copied().flatten(),
        found_in_half: falls.get(falls.len().saturating_sub(1) / 2).copied().flatten(),
        rounds_needed: blind.into_iter().collect::<Option<Vec<u32>>>().and_then(|all| all.into_iter().max()),
    }
}

fn is_of(cell: &Cell, change: &Change) -> bool {
    cell.phase == change.phase && cell.corpus_id == change.corpus_id
}

fn measured(run: &RunResult) -> impl Iterator<Item = &Cell> {
    run.results.iter().filter(|cell| !cell.rounds.is_empty())
}

/// Returns the corresponding cell of another run.
fn twin<'r>(run: &'r RunResult, cell: &Cell) -> Option<&'r Cell> {
    measured(run).find(|other| same(cell, other))
}

/// Compares every cell of two runs.
fn compare(old: &RunResult, new: &RunResult, asked: &CompareOptions, aim: &DetectionTarget) -> Vec<Change> {
    // In alternating runs, changes between rounds affect both programs.
    let speed_changed = !asked.in_turn && probes::speed_changed(old, new);
    let way_changed = probes::trips_changed(old, new).filter(|_| !asked.in_turn);
    let mut changes = Vec::new();
    for cell in measured(old) {
        let corpora = || other_corpus(old.corpus_of(cell.corpus_id)?, new.corpus_of(cell.corpus_id)?);
        let mut made = match twin(new, cell) {
            Some(counterpart) => {
                let why =
                    differs(cell, counterpart).or_else(|| planned_otherwise(old, new, cell)).or_else(corpora);
                let changed = match (speed_changed, way_changed) {
                    (true, _) => Some(ChangeVerdict::MachineChanged),
                    (_, Some(ns)) if is_much_of(ns, [cell, counterpart]) => Some(ChangeVerdict::WayChanged),
                    _ => None,
                };
                change(cell, counterpart, why, changed, (asked, aim))
            }
            None => gone(cell, ChangeVerdict::OnlyOld),
        };
        // A figure that was meaningless in the old run has nothing to guard.
        let is_found = made.smallest_fall_found.is_some_and(|fall| fall <= asked.fall);
        made.blind = ranking::says_nothing(cell).is_none() && !is_found;
        changes.push(made);
    }
    let only_new = measured(new).filter(|cell| twin(old, cell).is_none());
    changes.extend(only_new.map(|cell| gone(cell, ChangeVerdict::OnlyNew)));
    changes
}

/// True if a difference of cross-CPU round trips, in nanoseconds, is a large part of an op that waits for another
/// process.
fn is_much_of(way_ns: f64, cells: [&Cell; 2]) -> bool {
    let shortest = cells.into_iter().filter_map(op_ns).fold(f64::INFINITY, f64::min);
    way_ns > WAY_SHARE * shortest && cells.into_iter().all(waits_for_a_process)
}

fn same(a: &Cell, b: &Cell) -> bool {
    a.store == b.store && a.phase == b.phase && a.corpus_id == b.corpus_id
}

fn gone(cell: &Cell, verdict: ChangeVerdict) -> Change {
    Change {
        store: cell.store.clone(),
        phase: cell.phase.clone(),
        corpus_id: cell.corpus_id,
        ratio: None,
        verdict,
        regressed: false,
        smallest_fall_found: None,
        blind: false,
    }
}

fn change(
    old: &Cell,
    new: &Cell,
    not_comparable: Option<String>,
    machine_changed: Option<ChangeVerdict>,
    (asked, aim): (&CompareOptions, &DetectionTarget),
) -> Change {
    let (before, now) = (series(old), series(new));
    let ratio = match asked.in_turn {
        true => with_reference(&now, &before).map(|(ratio, _)| ratio),
        false => unpaired(&now, &before),
    };
    let verdict = match (&ratio, not_comparable, machine_changed) {
        (_, Some(why), _) => ChangeVerdict::NotComparable { why },
        (_, None, Some(changed)) => changed,
        (Some(ratio), None, None) => ChangeVerdict::Known { verdict: verdict(ratio) },
        (None, None, None) => ChangeVerdict::NotComparable { why: "no rates".to_owned() },
    };
    let high = ratio.and_then(|ratio| ratio.high).unwrap_or(f64::INFINITY);
    let is_known = matches!(verdict, ChangeVerdict::Known { .. });
    Change {
        ratio,
        regressed: is_known && high < 1.0 - asked.threshold,
        smallest_fall_found: is_known.then(|| aim.smallest_fall(&before, &now)).flatten(),
        ..gone(new, verdict)
    }
}

/// Returns how two corpora differ, if they differ by more than rates tolerate.
fn other_corpus(old: &CorpusResult, new: &CorpusResult) -> Option<String> {
    let figures = |corpus: &CorpusResult| {
        let middle = corpus.quantiles.get("p50").copied().unwrap_or(0);
        [corpus.blobs as f64, corpus.bytes as f64, middle as f64, corpus.deflate_ratio.unwrap_or(0.0)]
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

/// Lists other differences between two runs: the machine, the program, then each candidate's settings and versions.
/// They may be the purpose of the comparison or spoil it; only the reader can tell.
fn differences(old: &RunResult, new: &RunResult) -> Vec<String> {
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
    // Results of earlier versions do not record it, which is not a difference of the machines.
    if let (Some(before), Some(now)) = (&old.machine.libc, &new.machine.libc) {
        found.extend(changed("C library", before, now));
    }
    let libraries = [old, new].map(|result| result.machine.library_settings());
    found.extend(changed("what changes its libraries", &libraries[0], &libraries[1]));
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

/// Lists options and facts of a candidate that differ in the other run. Facts are known only for candidates that were
/// opened.
fn settings(old: &CandidateResult, new: &CandidateResult) -> Vec<String> {
    let of = |old: &BTreeMap<String, String>, new: &BTreeMap<String, String>| -> Vec<String> {
        old.iter().filter_map(|(name, before)| changed(name, before, new.get(name)?)).collect()
    };
    let mut told = of(&old.options, &new.options);
    told.extend(of(&old.facts, &new.facts));
    told
}

/// Returns why two cells with the same name measure different things; `None` if they do not.
fn differs(old: &Cell, new: &Cell) -> Option<String> {
    let silent = |cell: &Cell, which: &str| {
        ranking::says_nothing(cell).map(|why| format!("not ranked in the {which} run: {why}"))
    };
    if let Some(why) = silent(old, "old").or_else(|| silent(new, "new")) {
        return Some(why);
    }
    let conditions = |cell: &Cell| {
        let share = cell.cache_proof.as_ref().map(|proof| format!("{:.2}", proof.sample_share));
        let of_reads = if cell.one_transaction { "one a phase" } else { "one an op" };
        [
            // Longer passes hit more of the data that they cached themselves.
            ("share of the keys in a cold pass", share.unwrap_or_default()),
            ("workers", cell.workers.to_string()),
            ("transactions of reads", of_reads.to_owned()),
            ("batch", cell.batch.to_string()),
            ("class", cell.durability.name().to_owned()),
            ("cache", format!("{:?}", cell.cache).to_lowercase()),
            ("offered rate", format!("{:?}", cell.offered_ops_per_s)),
        ]
    };
    let ((what, old), (_, new)) =
        conditions(old).into_iter().zip(conditions(new)).find(|(old, new)| old != new)?;
    Some(format!("{what} {old} and {new}"))
}

/// Returns how two plans define a cell differently; `None` if they do not. Lengths may differ, because rates are means.
pub fn planned_otherwise(old: &RunResult, new: &RunResult, cell: &Cell) -> Option<String> {
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
    // Results that do not record the order were filled in random order. Digests have no order anyway.
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
        // The other corpora and candidates of the phase do not matter, either.
        let (corpora, stores) = (Vec::new(), Vec::new());
        Some(PhaseText { count: None, seconds: None, share: None, corpora, stores, ..phase.clone() })
    };
    (own(old) != own(new)).then(|| "the phase is described otherwise".to_owned())
}
