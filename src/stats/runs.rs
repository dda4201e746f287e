//! Comparing two runs: unpaired, and only where the machine was the same.

use super::cells::series;
use super::interval::{unpaired_ratio, verdict};
use crate::result::{Cell, Interval, RunResult, Verdict};

/// The largest difference of the processor's rails at which two runs can be compared.
const RAIL_LIMIT: f64 = 0.15;

/// What became of one row in one phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The row.
    pub store: String,
    /// The phase.
    pub phase: String,
    /// The size of a sweep.
    pub sweep_bytes: Option<u64>,
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
    /// The rails differ: the machine is not what it was.
    MachineChanged,
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
            ChangeVerdict::Gone(which) => format!("only in the {which} run"),
            ChangeVerdict::NotComparable(why) => format!("not comparable: {why}"),
        }
    }
}

/// Compares every cell of two runs.
pub fn compare(old: &RunResult, new: &RunResult, threshold: f64) -> Vec<Change> {
    let changed = machine_changed(old, new);
    let mut changes = Vec::new();
    for cell in old.results.iter().filter(|cell| !cell.rounds.is_empty()) {
        let counterpart = new.results.iter().find(|other| same(cell, other) && !other.rounds.is_empty());
        changes.push(match counterpart {
            Some(counterpart) => change(cell, counterpart, changed, threshold),
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

fn same(a: &Cell, b: &Cell) -> bool {
    a.store == b.store && a.phase == b.phase && a.sweep_bytes == b.sweep_bytes
}

fn gone(cell: &Cell, which: &'static str) -> Change {
    Change {
        store: cell.store.clone(),
        phase: cell.phase.clone(),
        sweep_bytes: cell.sweep_bytes,
        ratio: None,
        verdict: ChangeVerdict::Gone(which),
        regressed: false,
    }
}

fn change(old: &Cell, new: &Cell, machine_changed: bool, threshold: f64) -> Change {
    let rates = |cell: &Cell| series(cell).rates.into_values().collect::<Vec<f64>>();
    let ratio = unpaired_ratio(&rates(new), &rates(old));
    let verdict = match (&ratio, differs(old, new)) {
        (_, Some(why)) => ChangeVerdict::NotComparable(why),
        _ if machine_changed => ChangeVerdict::MachineChanged,
        (Some(ratio), None) => ChangeVerdict::Known(verdict(ratio)),
        (None, None) => ChangeVerdict::NotComparable("no rates".to_owned()),
    };
    let high = ratio.and_then(|ratio| ratio.high).unwrap_or(f64::INFINITY);
    let regressed = matches!(verdict, ChangeVerdict::Known(_)) && high < 1.0 - threshold;
    Change { ratio, verdict, regressed, ..gone(new, "new") }
}

/// Why two cells of one name measure different things.
fn differs(old: &Cell, new: &Cell) -> Option<String> {
    let share = |cell: &Cell| {
        cell.cache_proof.as_ref().map_or(String::new(), |proof| format!("{:.2}", proof.sample_share))
    };
    let pairs = [
        // Longer passes find more of what they brought in themselves.
        ("share of the keys in a cold pass", share(old), share(new)),
        ("workers", old.workers.to_string(), new.workers.to_string()),
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

/// Whether the rails of two runs differ by more than they do within a run.
fn machine_changed(old: &RunResult, new: &RunResult) -> bool {
    let middle = |result: &RunResult| {
        let mut rails: Vec<f64> =
            result.rails.iter().filter(|rail| !rail.repeated).map(|rail| rail.processor_ns).collect();
        rails.sort_unstable_by(f64::total_cmp);
        rails.get(rails.len() / 2).copied()
    };
    match (middle(old), middle(new)) {
        (Some(old), Some(new)) => (new / old - 1.0).abs() > RAIL_LIMIT,
        _ => true,
    }
}
