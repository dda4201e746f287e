//! Memory figures in every kind of report: how much of the data fitted, and what a candidate's control group counted.

use std::collections::BTreeSet;

use crate::judge::cells;
use crate::result::{Cell, RoundMemory, RunResult};
use crate::units;

/// States for each phase whether the data fit into memory; empty if it is the same for all.
pub(in crate::report) fn headings(result: &RunResult, phases: &[&[&Cell]]) -> Vec<String> {
    let memory = |cells: &&[&Cell]| budget(cells).unwrap_or(result.machine.memory_bytes);
    let fits = |cells: &&[&Cell]| memory(cells) >= result.corpus.bytes;
    let tight: BTreeSet<u64> = phases.iter().filter(|cells| !fits(cells)).map(memory).collect();
    if tight.is_empty() || phases.iter().all(|cells| !fits(cells)) {
        return Vec::new();
    }
    let share = |bytes: u64| units::count(100.0 * bytes as f64 / result.corpus.bytes as f64);
    let does_not_fit = match tight.iter().next() {
        Some(only) if tight.len() == 1 => format!("does not fit: memory for {} %", share(*only)),
        _ => "does not fit".to_owned(),
    };
    let heading = |cells| if fits(cells) { "fits in memory".to_owned() } else { does_not_fit.clone() };
    phases.iter().map(heading).collect()
}

/// Common memory limit of these cells in bytes; `None` if there is none or it varies.
fn budget(cells: &[&Cell]) -> Option<u64> {
    let budgets = cells.iter().flat_map(|cell| &cell.rounds).filter_map(|round| round.memory?.budget_bytes);
    let (least, most) = (budgets.clone().min()?, budgets.max()?);
    (least == most).then_some(most)
}

/// Describes the memory limit of a phase, if it has one.
pub(in crate::report) fn limit(result: &RunResult, cells: &[&Cell]) -> Option<String> {
    let budget = budget(cells)?;
    let of_whole = cells.iter().all(|cell| cell.corpus_id.is_only()) && result.corpus.bytes > 0;
    Some(match of_whole {
        true => {
            let share = 100.0 * budget as f64 / result.corpus.bytes as f64;
            format!("memory for {} % of the data", units::count(share))
        }
        false => format!("memory of {}", units::bytes(budget as f64)),
    })
}

/// Column heads of [`counted`]; `#` marks numeric columns. All but the last four are bytes.
pub(in crate::report) const COUNTED: [&str; 10] = [
    "#limit",
    "#empty store",
    "#peak",
    "#page cache",
    "#anonymous",
    "#kernel",
    "#limit hits / op",
    "#refaults / op",
    "#device bytes / byte",
    "#with an ideal LRU cache",
];

/// Memory figures of a candidate's control group in a phase: means over rounds, except the peak, which is the maximum. `None`
/// without a memory limit. Both the figures and the limit include blobwise's own memory.
pub(in crate::report) fn counted(cell: &Cell) -> Option<[Option<String>; 10]> {
    let counted = || cell.rounds.iter().filter_map(|round| Some((round, round.memory?)));
    counted().find_map(|(_, memory)| memory.limit_bytes)?;
    let mean = |of: &dyn Fn(&RoundMemory) -> f64| {
        counted().map(|(_, memory)| of(&memory)).sum::<f64>() / counted().count() as f64
    };
    let bytes = |of: &dyn Fn(&RoundMemory) -> u64| Some(units::bytes(mean(&|memory| of(memory) as f64)));
    let ops = counted().map(|(round, _)| round.ops).sum::<u64>().max(1) as f64;
    let an_op = |of: fn(&RoundMemory) -> u64| {
        let all = counted().map(|(_, memory)| of(&memory)).sum::<u64>() as f64;
        Some(format!("{:.2}", all / ops))
    };
    let peak = counted().filter_map(|(_, memory)| memory.peak_bytes).max();
    let of_ideal: Option<Vec<f64>> = counted().map(|(_, memory)| memory.ideal_lru_bytes_per_byte).collect();
    let ideal = of_ideal.map(|all| all.iter().sum::<f64>() / all.len() as f64);
    Some([
        bytes(&|memory| memory.limit_bytes.unwrap_or(0)),
        bytes(&|memory| memory.empty_bytes),
        peak.map(|peak| units::bytes(peak as f64)),
        bytes(&|memory| memory.cache_bytes),
        bytes(&|memory| memory.anonymous_bytes),
        bytes(&|memory| memory.kernel_bytes),
        an_op(|memory| memory.limit_hits),
        an_op(|memory| memory.refaults),
        cells::device_bytes_per_byte(cell).map(|share| format!("{share:.2}")),
        ideal.map(|share| format!("{share:.2}")),
    ])
}

/// Peak memory of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) struct PeakMemory {
    /// Anonymous and shared memory, in bytes.
    pub own: u64,
    /// Pages of mapped files in addition, in bytes; `None` if not counted separately.
    pub mapped: Option<u64>,
}

/// Peak memory of a candidate in any of these phases: growth of this process since before the store was opened, plus its servers.
/// Excludes the kernel's other file cache. `None` if a part is unknown, as for the user's server.
pub(in crate::report) fn taken(result: &RunResult, store: &str, phases: &[&str]) -> Option<PeakMemory> {
    let is_meant = |cell: &&Cell| {
        cell.store == store && phases.contains(&cell.phase.as_str()) && !cell.rounds.is_empty()
    };
    let of_cell = |cell: &Cell| {
        let is_known =
            !cell.traits.is_external && (cell.server_peak_bytes.is_some() || !cell.traits.has_process);
        Some(PeakMemory {
            own: cells::own_memory(cell).filter(|_| is_known)?,
            mapped: cell.mapped_peak_bytes,
        })
    };
    let all: Option<Vec<PeakMemory>> = result.results.iter().filter(is_meant).map(of_cell).collect();
    all?.into_iter().reduce(|all, more| PeakMemory {
        own: all.own.max(more.own),
        mapped: all.mapped.zip(more.mapped).map(|(one, other)| one.max(other)),
    })
}

/// Lists candidates whose mapped file pages are at least `times_min` times their own memory, with sizes.
pub(in crate::report) fn mapped<'t>(
    taken: impl Iterator<Item = (&'t str, Option<PeakMemory>)>,
    times_min: f64,
) -> Option<String> {
    const BYTES_MIN: u64 = 1 << 20;
    let told = |(store, taken): (&str, Option<PeakMemory>)| {
        let PeakMemory { own, mapped } = taken?;
        let mapped =
            mapped.filter(|mapped| *mapped >= BYTES_MIN && *mapped as f64 > times_min * own as f64)?;
        Some(format!("`{store}` {}", units::bytes(mapped as f64)))
    };
    let all: Vec<String> = taken.filter_map(told).collect();
    (!all.is_empty()).then(|| all.join(", "))
}
