//! Figures of a growth over the number of blobs, and of ageing over the age.

use std::collections::BTreeSet;

use super::cells::{device_bytes_per_byte, memory, writes};
use super::interval::{paired_ratio, rate};
use super::math::growth::GrowthCurve;
use crate::plan::text::{Design, Phase};
use crate::result::{
    CandidateResult, Cell, CurveFigure, CurveStep, GrowthForecast, GrowthOutcome, Interval, Round, Status,
    StepCurve,
};

/// Bytes read from the device for each byte delivered by which a step must exceed the one before it to explain a bend.
const DEVICE_READS_MORE: f64 = 0.1;

/// Value of a figure in a round, given the cell and the step.
type Value = fn(&Cell, &Round, u64) -> Option<f64>;

/// Returns the curves of all candidates but baselines, by phase: the time per op, after the fill also the disk space, in the first
/// phase that only reads the memory, and for what ageing overwrites the disk space, the bytes that the device wrote and the fragments.
pub(super) fn curves(plan: &Design, candidates: &[CandidateResult], cells: &[Cell]) -> Vec<StepCurve> {
    let all_steps = plan.steps();
    let reads = |(_, steps): &&(&str, Vec<(u64, &Phase)>)| {
        steps.iter().all(|(_, phase)| phase.load().is_some_and(|load| load.only_reads()))
    };
    let reading = all_steps.iter().find(reads).map(|(name, _)| *name);
    let mut all = Vec::new();
    for (name, steps) in &all_steps {
        let fills = steps.iter().any(|(_, phase)| phase.fills_a_step());
        let ages = steps.iter().any(|(_, phase)| phase.custom_action().is_some_and(|action| action.ages));
        // After the fill, the age is 0.
        let fill = plan.phases.iter().filter(|phase| ages && phase.is_fill()).map(|phase| (0, phase));
        let with_fill: Vec<(u64, &Phase)> = fill.chain(steps.iter().copied()).collect();
        let figures: [(CurveFigure, bool, Value); 6] = [
            (CurveFigure::Time, true, time),
            (CurveFigure::Disk, fills, disk),
            (CurveFigure::Memory, reading == Some(*name), held),
            (CurveFigure::DiskPerByte, ages, disk_per_byte),
            (CurveFigure::WriteAmplification, ages, write_amplification),
            (CurveFigure::Fragments, ages, |_, round, _| round.fragments_per_blob),
        ];
        for (figure, _, value) in figures.into_iter().filter(|(_, has, _)| *has) {
            let counts_fill = matches!(figure, CurveFigure::DiskPerByte | CurveFigure::Fragments);
            let steps = if counts_fill { &with_fill } else { steps };
            for candidate in candidates.iter().filter(|candidate| !candidate.is_baseline()) {
                let measured = measured(cells, steps, &candidate.store);
                let Some(curve) = curve(&measured, value) else { continue };
                let forecast = plan.expect.map(|blobs| forecast(&curve, figure, &measured, blobs));
                let exponent = plan.text.grow.as_ref().and_then(|_| curve.exponent());
                let follows = (exponent, forecast);
                all.extend(described(&candidate.store, name, figure, &curve, follows));
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

fn disk_per_byte(_: &Cell, round: &Round, _: u64) -> Option<f64> {
    Some(round.allocated_bytes? as f64 / round.live_bytes? as f64)
}

fn write_amplification(_: &Cell, round: &Round, _: u64) -> Option<f64> {
    Some(round.device_written_bytes? as f64 / round.bytes as f64)
}

fn held(_: &Cell, round: &Round, _: u64) -> Option<f64> {
    memory(round).map(|(anonymous, _)| anonymous as f64)
}

/// Returns the cells of a candidate at the steps that it reached, with their numbers of blobs or ages.
fn measured<'c>(cells: &'c [Cell], steps: &[(u64, &Phase)], store: &str) -> Vec<(u64, &'c Cell)> {
    let at = |(blobs, phase): &(u64, &Phase)| {
        let cell = cells.iter().find(|cell| cell.store == store && cell.phase == phase.id)?;
        (cell.status == Status::Measured && !cell.rounds.is_empty()).then_some((*blobs, cell))
    };
    steps.iter().filter_map(at).collect()
}

/// Returns a figure at all steps, over the rounds that have it at each of them; `None` if there is no such round.
fn curve(measured: &[(u64, &Cell)], value: Value) -> Option<GrowthCurve> {
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
    (!rounds.is_empty()).then_some(GrowthCurve { blobs, rounds })
}

/// Extrapolates a curve. If times of reads bend where the device begins to read more, that is the reason.
fn forecast(
    curve: &GrowthCurve,
    figure: CurveFigure,
    measured: &[(u64, &Cell)],
    blobs: u64,
) -> GrowthForecast {
    let forecast = curve.forecast(blobs);
    let [.., (_, before), (_, last)] = measured else { return forecast };
    if figure != CurveFigure::Time || forecast.outcome != GrowthOutcome::Bends || writes(last) {
        return forecast;
    }
    let reads = device_bytes_per_byte(before).zip(device_bytes_per_byte(last));
    let more =
        reads.filter(|(before, last)| last - before >= DEVICE_READS_MORE.max(DEVICE_READS_MORE * before));
    GrowthForecast { device_reads: more.map(|(before, last)| [before, last]), ..forecast }
}

/// Returns a curve with its exponent and its extrapolation; `None` with fewer than two steps.
fn described(
    store: &str,
    phase: &str,
    figure: CurveFigure,
    curve: &GrowthCurve,
    (exponent, forecast): (Option<Interval>, Option<GrowthForecast>),
) -> Option<StepCurve> {
    let at = |step: usize| -> Vec<f64> { curve.rounds.iter().map(|values| values[step]).collect() };
    let last = curve.blobs.len().checked_sub(1).filter(|last| *last > 0)?;
    let step = |(step, blobs): (usize, &f64)| Some(CurveStep { at: *blobs as u64, value: rate(&at(step))? });
    Some(StepCurve {
        store: store.to_owned(),
        phase: phase.to_owned(),
        figure,
        steps: curve.blobs.iter().enumerate().map(step).collect::<Option<_>>()?,
        times: paired_ratio(&at(last), &at(0))?,
        exponent,
        forecast,
    })
}
