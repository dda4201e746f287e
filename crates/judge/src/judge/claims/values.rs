//! Values of a claim's target, round by round, or the reason why they cannot be used.

use std::collections::{BTreeMap, BTreeSet};

use crate::corpus::CorpusId;
use crate::judge::{cells, histogram, ranking};
use crate::plan::text::{DetailedOperand, Metric, whole_of};
use crate::result::{Cache, Cell, Footprint, Reason, Round, RunResult, Status, in_a_line};

pub(super) type RoundValues = BTreeMap<u32, f64>;

/// Returns the cells of a target: of its phase, or of each part of it. Fails if the target is not part of the run or
/// was not measured.
pub(super) fn cells<'r>(result: &'r RunResult, target: &DetailedOperand) -> Result<Vec<&'r Cell>, String> {
    let known = result.results.iter().any(|cell| cell.store == target.candidate);
    if !known {
        // All candidates of the plan are listed here, even those never measured.
        let is_planned = result.candidates.iter().any(|candidate| candidate.store == target.candidate);
        return Err(match is_planned && !result.complete {
            true => format!("`{}` was not measured before the run was ended.", target.candidate),
            false => format!("`{}` is not part of this run.", target.candidate),
        });
    }
    let corpus_id = match &target.corpus {
        None => None,
        Some(name) => {
            let corpus = result.all_corpora().iter().find(|corpus| corpus.name == *name);
            Some(corpus.ok_or_else(|| format!("The corpus `{name}` is not part of this run."))?.corpus_id)
        }
    };
    let phase = target.phase.as_deref();
    let cells: Vec<&Cell> = result
        .results
        .iter()
        .filter(|cell| {
            cell.store == target.candidate && corpus_id.is_none_or(|bytes| cell.corpus_id == bytes)
        })
        .filter(|cell| phase.is_none_or(|phase| is_of_phase(&cell.phase, phase)))
        .collect();
    match (cells.is_empty(), phase) {
        (true, Some(phase)) => {
            let is_known = result.results.iter().any(|cell| is_of_phase(&cell.phase, phase));
            let is_named = result.plan.phases.iter().flatten().any(|named| is_of_phase(named, phase));
            Err(match (is_known || is_named) && !result.complete {
                true => format!(
                    "The phase `{phase}` of `{}` was not measured before the run was ended.",
                    target.candidate
                ),
                false => format!("The phase `{phase}` of `{}` is not part of this run.", target.candidate),
            })
        }
        (true, None) => Err(format!("Nothing is known of `{}`.", target.candidate)),
        (false, _) => Ok(cells),
    }
}

/// True if the run ended before a target was measured twice, and would have continued with it.
pub(super) fn is_unreached(result: &RunResult, target: &DetailedOperand) -> bool {
    let goes_on =
        result.candidate(&target.candidate).is_some_and(|candidate| candidate.status == Status::Measured);
    let rounds = |cell: &&Cell| {
        cell.store == target.candidate
            && target.phase.as_deref().is_none_or(|phase| is_of_phase(&cell.phase, phase))
    };
    let planned = |phase: &str| result.plan.phases.iter().flatten().any(|named| is_of_phase(named, phase));
    let known =
        |phase: &str| planned(phase) || result.results.iter().any(|cell| is_of_phase(&cell.phase, phase));
    let mut cells = result.results.iter().filter(rounds).peekable();
    // A phase that a candidate cannot do will not succeed in a later round.
    let is_missing = match cells.peek() {
        None => target.phase.as_deref().is_none_or(known),
        Some(_) => cells.any(|cell| cell.status == Status::Measured && cell.rounds.len() < 2),
    };
    !result.complete && goes_on && result.fixed.rounds > 1 && is_missing
}

/// True if `phase` is the phase meant, or a part of it.
pub(super) fn is_of_phase(phase: &str, meant: &str) -> bool {
    phase == meant || whole_of(phase) == meant
}

/// Returns a target for each part of its phase.
pub(super) fn parts(result: &RunResult, target: &DetailedOperand) -> Vec<DetailedOperand> {
    let cells = cells(result, target).unwrap_or_default();
    cells.iter().map(|cell| DetailedOperand { phase: Some(cell.phase.clone()), ..target.clone() }).collect()
}

/// Fails if two targets must not be compared with each other.
pub(super) fn comparable(result: &RunResult, targets: &[DetailedOperand]) -> Result<(), String> {
    for pair in targets.windows(2) {
        let timed = pair.iter().all(|target| target.metric.unwrap_or_default().is_of_time());
        if !timed {
            continue;
        }
        let (one, other) = (cells(result, &pair[0])?, cells(result, &pair[1])?);
        limited_alike(result, [&one, &other])?;
        if pair[0].candidate == pair[1].candidate {
            continue;
        }
        // Unmeasured cells belong to no group; they have a reason of their own.
        let is_measured = |cell: &Cell| !cell.rounds.is_empty();
        let both = one.iter().zip(&other).filter(|(one, other)| is_measured(one) && is_measured(other));
        let mut groups =
            both.map(|(one, other)| (ranking::comparability(one), ranking::comparability(other)));
        if let Some((one, other)) = groups.find(|(one, other)| one != other) {
            let named = |group: ranking::Comparability| match group.is_empty() {
                true => "neither".to_owned(),
                false => group.to_string(),
            };
            return Err(format!(
                "`{}` ({}) and `{}` ({}) are not comparable.",
                pair[0].candidate,
                named(one),
                pair[1].candidate,
                named(other)
            ));
        }
    }
    Ok(())
}

/// Fails if the plan limits memory but one of the two cells was measured without a limit: a fill has no limit, so it
/// does not represent the first time of what later phases do. A phase with a limit of its own is intended to be
/// compared with phases without one.
fn limited_alike(result: &RunResult, [one, other]: [&[&Cell]; 2]) -> Result<(), String> {
    let unlimited = |cells: &[&Cell]| {
        let rounds = cells.iter().flat_map(|cell| &cell.rounds);
        let limits = rounds.filter_map(|round| round.memory.as_ref());
        limits.map(|memory| memory.limit_bytes.is_none()).collect::<BTreeSet<bool>>()
    };
    let (one_is, other_is) = (unlimited(one), unlimited(other));
    let are_both_known = !one_is.is_empty() && !other_is.is_empty();
    if result.plan.memory.is_none() || !are_both_known || one_is == other_is {
        return Ok(());
    }
    let phase = |cells: &[&Cell]| cells.first().map_or(String::new(), |cell| cell.phase.clone());
    let (free, held) = if one_is.contains(&true) { (one, other) } else { (other, one) };
    Err(format!("`{}` had all of the machine's memory, and `{}` had the plan's.", phase(free), phase(held)))
}

/// Returns a metric of a target, round by round.
pub(super) fn values(result: &RunResult, target: &DetailedOperand) -> Result<RoundValues, String> {
    let cells = cells(result, target)?;
    let metric = target.metric.unwrap_or_default();
    fit(&cells, metric)?;
    let mut values = match metric {
        Metric::Time => time(&cells),
        Metric::Rate => time(&cells).into_iter().map(|(round, seconds)| (round, 1.0 / seconds)).collect(),
        Metric::AcknowledgedTime => per_op(&cells, |round| Some(round.seconds)),
        Metric::TimeForABlob => for_a_blob(&cells),
        Metric::DeviceReads => per_op(&cells, |round| round.device_reads.map(|reads| reads as f64)),
        Metric::DeviceRead => per_op(&cells, |round| round.device_read_bytes.map(|bytes| bytes as f64)),
        Metric::Requests => of_one(&cells, |round| round.counts.get("requests").copied())?,
        Metric::Received => of_one(&cells, |round| round.counts.get("bytes").copied())?,
        Metric::FailedAttempts => {
            per_op(&cells, |round| Some((round.counters.errors + round.counters.retries) as f64))
        }
        Metric::FirstOp => of_one(&cells, first_op)?,
        Metric::Steps => in_steps(&cells, &target.steps)?,
        Metric::P50 => of_one(&cells, |round| percentile(round, 0))?,
        Metric::P90 => of_one(&cells, |round| percentile(round, 1))?,
        Metric::P99 => of_one(&cells, |round| percentile(round, 2))?,
        Metric::P999 => of_one(&cells, |round| percentile(round, 3))?,
        Metric::Memory => {
            if let Some(cell) = cells.iter().find(|cell| cell.traits.is_external) {
                return Err(format!("The memory of the server of `{}` is not seen.", cell.store));
            }
            most(&cells, |round| {
                Some((round.client_peak_bytes? + round.server_peak_bytes.unwrap_or(0)) as f64)
            })
        }
        Metric::Disk => for_a_byte(result, &cells, |footprint| footprint.after_settle_bytes),
        Metric::Index => for_a_byte(result, &cells, |footprint| footprint.index_bytes),
    };
    if is_by_order(target) {
        let kept = rounds_in_order(result, target);
        values.retain(|round, _| kept.contains(round));
    }
    let zero_is_absent = metric != Metric::FailedAttempts;
    values.retain(|_, value| value.is_finite() && (*value > 0.0 || !zero_is_absent));
    if values.is_empty() {
        return Err(nothing_of(target));
    }
    Ok(values)
}

/// Explains why a target has no values.
pub(super) fn nothing_of(target: &DetailedOperand) -> String {
    let order = [("after", &target.after), ("before", &target.before)];
    let order = order.into_iter().find_map(|(word, other)| Some((word, other.as_ref()?)));
    match order {
        Some((word, other)) => format!("In no round `{}` came {word} `{other}`.", target.candidate),
        None => format!("`{}` has no figures of that kind here.", target.candidate),
    }
}

/// Fails if cells cannot be used: for the same reasons for which a cell is unranked, except those inherent to the kind
/// of candidate.
pub(super) fn fit(cells: &[&Cell], metric: Metric) -> Result<(), String> {
    for cell in cells {
        if cell.rounds.is_empty() {
            let why = cell.not_ranked.as_ref().map(Reason::to_string).or(cell.reason.clone());
            let why = why.unwrap_or_else(|| "nothing was measured".to_owned());
            return Err(format!("`{}`: {}.", cell.store, in_a_line(&why)));
        }
    }
    if let Some(cell) = cells.iter().find(|cell| cell.cache == Cache::Lukewarm) {
        return Err(format!("`{}` in `{}` was lukewarm and not cold.", cell.store, cell.phase));
    }
    let failed = |cell: &&&Cell| cell.status == Status::Failed && metric != Metric::FailedAttempts;
    if let Some(cell) = cells.iter().find(failed) {
        return Err(format!("`{}`: {}.", cell.store, cell.reason.as_deref().map_or("it failed", in_a_line)));
    }
    if let Some(cell) = cells.iter().find(|cell| ranking::is_cut_short(cell)) {
        let why = cell.not_ranked.as_ref().map(Reason::to_string).unwrap_or_default();
        return Err(format!("`{}` in `{}`: {why}.", cell.store, cell.phase));
    }
    if !metric.is_of_time() {
        return Ok(());
    }
    for cell in cells {
        // Parts that are too short separately may be long enough together.
        let is_short = |reason: &Reason| matches!(reason, Reason::TooShort { .. });
        if let Some(reason) = kept_from_ranking(cell).filter(|reason| !is_short(reason)) {
            return Err(format!("`{}` in `{}`: {}.", cell.store, cell.phase, reason));
        }
    }
    match (ranking::too_short(cells.iter().copied()), cells) {
        (Some(short), [cell]) => Err(format!("`{}` in `{}`: {}.", cell.store, cell.phase, short)),
        (Some(short), [cell, ..]) => {
            Err(format!("`{}` in all parts of `{}`: {}.", cell.store, whole_of(&cell.phase), short))
        }
        _ => Ok(()),
    }
}

/// Returns why a cell is not ranked. Baselines, which never are, may still be used in claims.
pub(super) fn kept_from_ranking(cell: &Cell) -> Option<Reason> {
    if let Some(why) = ranking::mostly_harness(cell) {
        return Some(why);
    }
    let never = ranking::is_withheld(cell) || cell.status == Status::Measured && ranking::is_baseline(cell);
    cell.not_ranked.clone().filter(|_| !never)
}

/// Returns the wall-clock time of an op, consistent with the compared rates.
pub(super) fn time(cells: &[&Cell]) -> RoundValues {
    let rates: Vec<RoundValues> = cells.iter().map(|cell| cells::series(cell).rates).collect();
    let of_cell = |cell: usize, round: &Round| Some(round.ops as f64 / rates[cell].get(&round.round)?);
    summed(cells, of_cell)
}

/// Divides a figure of each round by the round's ops.
pub(super) fn per_op(cells: &[&Cell], of: impl Fn(&Round) -> Option<f64>) -> RoundValues {
    summed(cells, |_, round| of(round))
}

/// Sums a figure of each round over the parts, and divides it by their ops; keeps the rounds that all parts have.
fn summed(cells: &[&Cell], of: impl Fn(usize, &Round) -> Option<f64>) -> RoundValues {
    let mut sums: BTreeMap<u32, (f64, f64, usize)> = BTreeMap::new();
    for (part, cell) in cells.iter().enumerate() {
        for round in &cell.rounds {
            let Some(value) = of(part, round) else { continue };
            let sum = sums.entry(round.round).or_default();
            *sum = (sum.0 + value, sum.1 + round.ops as f64, sum.2 + 1);
        }
    }
    let whole = sums.into_iter().filter(|(_, (_, _, found))| *found == cells.len());
    whole.map(|(round, (sum, ops, _))| (round, sum / ops.max(1.0))).collect()
}

/// Returns the time of an op spent in the given steps, in seconds; ops without a step count as 0.
pub(super) fn in_steps(cells: &[&Cell], names: &[String]) -> Result<RoundValues, String> {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let rounds = cells.iter().flat_map(|cell| &cell.rounds);
    known.extend(rounds.flat_map(|round| round.histogram.steps.keys()).map(String::as_str));
    if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
        let store = cells.first().map_or("", |cell| cell.store.as_str());
        let known: Vec<&str> = known.into_iter().collect();
        let others = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(format!("Ops of `{store}` have no step `{unknown}` here, but {others}."));
    }
    let seconds = |text: &String| {
        let times = histogram::decode(text).ok()?;
        Some(times.mean() * times.len() as f64 / 1e9)
    };
    Ok(per_op(cells, |round| {
        let all: f64 = names
            .iter()
            .filter_map(|name| round.histogram.steps.get(name))
            .map(seconds)
            .sum::<Option<_>>()?;
        // First ops of sessions are recorded separately, with their steps.
        let timed = round.ops.saturating_sub(round.first_ops_ns.len() as u64).max(1);
        Some(all * round.ops as f64 / timed as f64)
    }))
}

/// Returns the wall-clock time per blob: the time of an op divided by its blobs.
pub(super) fn for_a_blob(cells: &[&Cell]) -> RoundValues {
    let blobs = per_op(cells, |round| Some(round.blobs as f64));
    divide(&time(cells), &blobs)
}

pub(super) fn of_one(cells: &[&Cell], of: impl Fn(&Round) -> Option<f64>) -> Result<RoundValues, String> {
    let [cell] = cells else {
        return Err("Percentiles and counts of several parts are not added up.".to_owned());
    };
    Ok(cell.rounds.iter().filter_map(|round| Some((round.round, of(round)?))).collect())
}

pub(super) fn most(cells: &[&Cell], of: impl Fn(&Round) -> Option<f64>) -> RoundValues {
    let mut most = RoundValues::new();
    for round in cells.iter().flat_map(|cell| &cell.rounds) {
        if let Some(value) = of(round) {
            let known = most.entry(round.round).or_insert(value);
            *known = known.max(value);
        }
    }
    most
}

/// Returns the mean time of the sessions' first ops, in seconds.
pub(super) fn first_op(round: &Round) -> Option<f64> {
    let count = round.first_ops_ns.len() as f64;
    (count > 0.0).then(|| round.first_ops_ns.iter().map(|ns| *ns as f64 / 1e9).sum::<f64>() / count)
}

/// Returns a percentile of the op times in seconds; `None` with fewer than ten ops beyond it.
pub(super) fn percentile(round: &Round, which: usize) -> Option<f64> {
    let times = if round.open.is_some() { &round.histogram.response } else { &round.histogram.service };
    let whole = histogram::whole(times.values()).ok()?;
    Some(histogram::percentile(&whole, histogram::SHARES[which])? as f64 / 1e9)
}

/// Returns bytes on disk per byte of blobs.
pub(super) fn for_a_byte(
    result: &RunResult,
    cells: &[&Cell],
    of: impl Fn(&Footprint) -> Option<u64>,
) -> RoundValues {
    let of_cell = |store: &str, corpus: CorpusId| {
        cells.iter().any(|cell| cell.store == store && cell.corpus_id == corpus)
    };
    let rounds = result.store_rounds.iter().filter(|visit| of_cell(&visit.store, visit.corpus_id));
    rounds
        .filter_map(|visit| {
            let taken = of(&visit.footprint)? as f64;
            Some((visit.round, taken / visit.footprint.logical_bytes.max(1) as f64))
        })
        .collect()
}

/// Returns the rounds in which a candidate came after, or before, another one.
pub(super) fn rounds_in_order(result: &RunResult, target: &DetailedOperand) -> Vec<u32> {
    let position = |round: u32, candidate: &str| {
        let visits = &result.store_rounds;
        visits
            .iter()
            .find(|visit| visit.round == round && visit.store == candidate)
            .map(|visit| visit.position)
    };
    let in_order = |round: &u32| {
        let own = position(*round, &target.candidate);
        let is = |other: &Option<String>, wanted: std::cmp::Ordering| {
            other.as_deref().is_none_or(|other| {
                own.zip(position(*round, other)).is_some_and(|(own, other)| own.cmp(&other) == wanted)
            })
        };
        is(&target.after, std::cmp::Ordering::Greater) && is(&target.before, std::cmp::Ordering::Less)
    };
    let mut rounds: Vec<u32> = result.store_rounds.iter().map(|visit| visit.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds.into_iter().filter(in_order).collect()
}

pub(super) fn is_by_order(target: &DetailedOperand) -> bool {
    target.after.is_some() || target.before.is_some()
}

pub(super) fn divide(above: &RoundValues, below: &RoundValues) -> RoundValues {
    above.iter().filter_map(|(round, value)| Some((*round, value / below.get(round)?))).collect()
}
