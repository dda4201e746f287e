//! Recommendations for small, medium and large blobs separately. Reads record their times by size band, so each class
//! is judged as if it were a run of its own.

use std::collections::BTreeMap;

use super::super::cells::is_offered;
use super::super::histogram::{self, BANDS, Histogram, band_of};
use super::super::interval::rate;
use super::super::ranking;
use super::{WARM, advice};
use crate::plan::text::{Design, OpKind};
use crate::result::{
    Advice, CandidateRank, Cell, Reason, Round, RunResult, Situation, SituationResult, SizeAdvice, SizeClass,
    WorstCase,
};
use crate::rules::{LARGE_BYTES, MEDIUM_BYTES, REQUEST_SHARE};

/// Returns the classes that at least two candidates read often enough; empty if there is only one, because that equals
/// the whole run.
pub(super) fn by_size(plan: &Design, result: &RunResult, whole: &Advice) -> Vec<SizeAdvice> {
    if plan.corpora.len() > 1 {
        return Vec::new();
    }
    let mut classes: Vec<SizeAdvice> =
        SizeClass::ALL.into_iter().filter_map(|class| of_class(plan, result, class)).collect();
    if classes.len() < 2 {
        return Vec::new();
    }
    let place = whole.one_place.first().map(|place| place.store.as_str());
    for of_size in &mut classes {
        of_size.places = places(place, &mut of_size.advice);
    }
    classes
}

/// Returns where the reads of a class should go. The place for all blobs comes first unless another one is better.
fn places(whole: Option<&str>, advice: &mut Advice) -> Vec<String> {
    if let [only] = advice.situations.as_slice() {
        return of_one_kind(whole, only, advice.request_ns);
    }
    let is_compared = |store: &str| advice.one_place.iter().any(|place| place.store == store);
    if whole.is_some_and(|whole| !is_compared(whole)) {
        return Vec::new();
    }
    whole.iter().for_each(|whole| keep(whole, &mut advice.one_place));
    advice.one_place.first().map(|place| place.store.clone()).into_iter().collect()
}

/// Same as [`places`] if there is only one kind of reads, and so no worst case.
fn of_one_kind(whole: Option<&str>, reads: &Situation, request_ns: f64) -> Vec<String> {
    let fastest = reads.leaders().filter_map(|leader| leader.op_ns).fold(f64::INFINITY, f64::min);
    let is_near =
        |own: &SituationResult| own.op_ns.is_some_and(|own| own - fastest < REQUEST_SHARE * request_ns);
    let leading = reads.leaders().map(|leader| leader.store.clone());
    match whole.map(|whole| (whole, reads.result_for(whole))) {
        None => leading.collect(),
        Some((whole, Some(own))) if own.place == CandidateRank::Leads => vec![whole.to_owned()],
        Some((whole, Some(own))) if own.place == CandidateRank::Behind => match is_near(own) {
            true => vec![whole.to_owned()],
            false => leading.collect(),
        },
        Some(_) => Vec::new(),
    }
}

/// Moves a candidate in front of those not proved better, or better by too little relative to a request.
fn keep(store: &str, places: &mut [WorstCase]) {
    let Some(at) = places.iter().position(|place| place.store == store) else { return };
    let own = places[at].slower;
    let is_better = |other: &WorstCase| {
        other.slower_at_most.is_some_and(|bound| bound < own) && own - other.slower >= REQUEST_SHARE
    };
    let first = places[..at].iter().rposition(is_better).map_or(0, |better| better + 1);
    places[first..=at].rotate_right(1);
}

fn of_class(plan: &Design, result: &RunResult, class: SizeClass) -> Option<SizeAdvice> {
    let whole: Vec<&Cell> = result.results.iter().filter(|cell| reads_whole_blobs(plan, cell)).collect();
    let mut parts: Vec<Cell> = whole.iter().filter_map(|cell| part_of(cell, class)).collect();
    let nulls: BTreeMap<String, f64> = parts
        .iter()
        .filter(|part| part.adapter == NULL)
        .filter_map(|part| Some((part.phase.clone(), 1e9 / part.ops_per_s?.median)))
        .collect();
    parts.iter_mut().for_each(|part| judge(part, &nulls));
    ranking::unrank_if_fastest_too_short(&mut parts);
    let advice = advice::of_cells(plan, result, &parts)?;
    let first = &advice.situations.first()?.phase;
    let ops = |ops: u64, cell: &Cell| ops + if cell.phase == *first { cell.ops } else { 0 };
    let part = parts.iter().fold(0, ops);
    let all = whole.into_iter().fold(0, ops);
    let (from_bytes, below_bytes) = sizes(class);
    let reads_share = part as f64 / all.max(1) as f64;
    Some(SizeAdvice { class, from_bytes, below_bytes, reads_share, places: Vec::new(), advice })
}

/// Returns the lower bound of a class and of the next one, in bytes. Both are bounds of size bands.
fn sizes(class: SizeClass) -> (u64, Option<u64>) {
    match class {
        SizeClass::Small => (0, Some(MEDIUM_BYTES)),
        SizeClass::Medium => (MEDIUM_BYTES, Some(LARGE_BYTES)),
        SizeClass::Large => (LARGE_BYTES, None),
    }
}

/// The baseline that does nothing; its time is that of the harness.
const NULL: &str = "null";

/// True if every op of a cell reads one blob, one after the other, so that each time belongs to one blob size.
fn reads_whole_blobs(plan: &Design, cell: &Cell) -> bool {
    let phase = plan.phases.iter().find(|phase| phase.id == cell.phase);
    let gets = |(kind, _): &(OpKind, f64)| *kind == OpKind::Get;
    let reads = phase.and_then(|phase| phase.load()).is_some_and(|load| load.mix.iter().all(gets));
    reads && cell.batch == 1 && !is_offered(cell) && !cell.is_ladder()
}

/// Returns the part of a cell about blobs of a class; `None` if a round has none of them.
fn part_of(cell: &Cell, class: SizeClass) -> Option<Cell> {
    let workers = cell.workers.max(1) as f64;
    let part = |round: &Round| {
        let times = times_of(round, class)?;
        let (ops, seconds) = (times.len(), times.mean() * times.len() as f64 / 1e9 / workers);
        Some(Round { ops, blobs: ops, seconds, ..round.clone() })
    };
    let rounds: Vec<Round> = cell.rounds.iter().map(part).collect::<Option<_>>()?;
    let rates: Vec<f64> = rounds.iter().map(|round| round.ops as f64 / round.seconds).collect();
    let ops = rounds.iter().map(|round| round.ops).sum();
    Some(Cell { ops, ops_per_s: rate(&rates), rounds, ..cell.clone() })
}

/// Returns the times of a round's reads of blobs of a class; `None` if there were none.
fn times_of(round: &Round, class: SizeClass) -> Option<Histogram> {
    let (least, above) = sizes(class);
    let bands = &BANDS[band_of(least)..above.map_or(BANDS.len(), band_of)];
    let texts = bands.iter().filter_map(|band| round.histogram.service.get(*band));
    histogram::whole(texts).ok().filter(|all| !all.is_empty())
}

/// Decides whether the part of a cell is ranked, by the rules for whole cells. All other reasons against the whole cell
/// apply to the part as well.
fn judge(part: &mut Cell, nulls: &BTreeMap<String, f64>) {
    let of_whole = |reason: &Reason| reason.is_bound() || reason.is_too_short() || reason.is_withheld();
    if part.not_ranked.as_ref().is_some_and(|reason| !of_whole(reason)) {
        return;
    }
    // Without the null baseline, the harness share of the whole cell stands for that of the part.
    let null = nulls.get(&part.phase).or_else(|| nulls.get(WARM));
    if let (Some(null), Some(rate)) = (null, part.ops_per_s) {
        part.harness_share = Some(null * rate.median / 1e9);
    }
    let of_one = || (part.rounds.len() < 2).then_some(Reason::OneRound);
    let why = ranking::mostly_harness(part).or_else(|| ranking::too_short([&*part])).or_else(of_one);
    part.not_ranked = why;
}

#[cfg(test)]
mod tests;
