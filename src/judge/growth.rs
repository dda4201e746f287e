//! Figures of a growth over the number of blobs.

use std::collections::BTreeSet;

pub use super::math::growth::Curve;

use super::cells::memory;
use super::interval::{paired_ratio, rate};
use crate::plan::text::{Design, Phase};
use crate::result::{CandidateResult, Cell, GrowthCurve, GrowthFigure, GrowthStep, Round, Status};

/// Value of a figure in a round, given the cell and the number of blobs.
type Value = fn(&Cell, &Round, u64) -> Option<f64>;

/// Returns the curves of all candidates but baselines, by phase: the time per op, after the fill also the disk space, and in the
/// first phase that only reads the memory.
pub(super) fn curves(plan: &Design, candidates: &[CandidateResult], cells: &[Cell]) -> Vec<GrowthCurve> {
    let growth = plan.growth();
    let reads = |(_, steps): &&(&str, Vec<(u64, &Phase)>)| {
        steps.iter().all(|(_, phase)| phase.load().is_some_and(|load| load.only_reads()))
    };
    let reading = growth.iter().find(reads).map(|(name, _)| *name);
    let mut all = Vec::new();
    for (name, steps) in &growth {
        let fills = steps.iter().any(|(_, phase)| phase.fills_a_step());
        let figures: [(GrowthFigure, bool, Value); 3] = [
            (GrowthFigure::Time, true, time),
            (GrowthFigure::Disk, fills, disk),
            (GrowthFigure::Memory, reading == Some(*name), held),
        ];
        for (figure, _, value) in figures.into_iter().filter(|(_, has, _)| *has) {
            for candidate in candidates.iter().filter(|candidate| !candidate.is_baseline()) {
                let measured = measured(cells, steps, &candidate.store);
                let Some(curve) = curve(&measured, value) else { continue };
                all.extend(described(&candidate.store, name, figure, &curve, plan.expect));
            }
        }
    }
    all
}

/// Returns a worker's time per op in nanoseconds, deferred work included.
fn time(cell: &Cell, round: &Round, _: u64) -> Option<f64> {
    Some(cell.workers as f64 * 1e9 / round.done_per_s())
}

fn disk(_: &Cell, round: &Round, blobs: u64) -> Option<f64> {
    Some(round.allocated_bytes? as f64 / blobs as f64)
}

fn held(_: &Cell, round: &Round, _: u64) -> Option<f64> {
    memory(round).map(|(anonymous, _)| anonymous as f64)
}

/// Returns the cells of a candidate at the steps that it reached, with their numbers of blobs.
fn measured<'c>(cells: &'c [Cell], steps: &[(u64, &Phase)], store: &str) -> Vec<(u64, &'c Cell)> {
    let at = |(blobs, phase): &(u64, &Phase)| {
        let cell = cells.iter().find(|cell| cell.store == store && cell.phase == phase.id)?;
        (cell.status == Status::Measured && !cell.rounds.is_empty()).then_some((*blobs, cell))
    };
    steps.iter().filter_map(at).collect()
}

/// Returns a figure at all steps, over the rounds that have it at each of them; `None` if there is no such round.
fn curve(measured: &[(u64, &Cell)], value: Value) -> Option<Curve> {
    let numbers: BTreeSet<u32> =
        measured.iter().flat_map(|(_, cell)| cell.rounds.iter().map(|round| round.round)).collect();
    let of_round = |number: u32| -> Option<Vec<f64>> {
        let at = |(blobs, cell): &(u64, &Cell)| {
            let round = cell.rounds.iter().find(|round| round.round == number)?;
            value(cell, round, *blobs).filter(|value| *value > 0.0 && value.is_finite())
        };
        measured.iter().map(at).collect()
    };
    let rounds: Vec<Vec<f64>> = numbers.into_iter().filter_map(of_round).collect();
    let blobs = measured.iter().map(|(blobs, _)| *blobs as f64).collect();
    (!rounds.is_empty()).then_some(Curve { blobs, rounds })
}

/// Returns a curve with what follows from it; `None` with fewer than two steps.
fn described(
    store: &str,
    phase: &str,
    figure: GrowthFigure,
    curve: &Curve,
    expect: Option<u64>,
) -> Option<GrowthCurve> {
    let at = |step: usize| -> Vec<f64> { curve.rounds.iter().map(|values| values[step]).collect() };
    let last = curve.blobs.len().checked_sub(1).filter(|last| *last > 0)?;
    let step =
        |(step, blobs): (usize, &f64)| Some(GrowthStep { blobs: *blobs as u64, value: rate(&at(step))? });
    Some(GrowthCurve {
        store: store.to_owned(),
        phase: phase.to_owned(),
        figure,
        steps: curve.blobs.iter().enumerate().map(step).collect::<Option<_>>()?,
        times: paired_ratio(&at(last), &at(0))?,
        exponent: curve.exponent()?,
        forecast: expect.map(|blobs| curve.forecast(blobs)),
    })
}
