//! Disturbed rounds: how they are detected, and which of them are repeated. The rules are fixed before measuring, and a
//! round is kept or repeated for all candidates together.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use super::cells::{series, writes};
use super::interval::{Moments, median, t_two_sided, upper_median};
use super::{LEAST_SECONDS, VERDICT_ROUNDS, probes, ranking};
use crate::corpus::CorpusId;
use crate::plan::text::{Design, whole_of};
use crate::result::{
    Anomaly, Cache, Cause, Cell, Disturbance, DisturbedRounds, ForeignActivity, Round, RoundAnomalies,
    RunResult, Status, Warning,
};
use crate::rules::{
    CACHED_SHARE, FAR_SHARE, FAR_TIMES, NOISE_MIN, NOTHING_SHARE, OTHERS_BYTES_MIN, OTHERS_BYTES_PER_S_MIN,
    OTHERS_READ_SHARE, OTHERS_WRITTEN_SHARE, OWN_BYTES_MIN, READ_BYTES_MIN, READ_SHARE,
};
use crate::units;

/// Returns all disturbances of the rounds of a result.
pub fn found(plan: &Design, result: &RunResult) -> Vec<Disturbance> {
    let about_all = |(round, times): (u32, f64)| Disturbance {
        round,
        store: None,
        phase: None,
        corpus_id: CorpusId::ONLY,
        cause: Cause::Processor { times },
    };
    let mut all: Vec<Disturbance> =
        probes::changed(&result.probes, plan.probe_limit).into_iter().map(about_all).collect();
    let counts = |cell: &&Cell| cell.status == Status::Measured && !ranking::is_baseline(cell);
    for cell in result.results.iter().filter(counts) {
        let mut causes = far_rounds(cell);
        causes.extend(reads_of_device(cell, corpus_bytes(result, cell)));
        let odd: Vec<u32> = causes.iter().map(|(round, _)| *round).collect();
        causes.extend(others(cell, &odd));
        all.extend(causes.into_iter().map(|(round, cause)| Disturbance {
            round,
            store: Some(cell.store.clone()),
            phase: Some(cell.phase.clone()),
            corpus_id: cell.corpus_id,
            cause,
        }));
    }
    // Sorted by round; within a round in the order of detection.
    all.sort_by_key(|disturbance| disturbance.round);
    all
}

fn corpus_bytes(result: &RunResult, cell: &Cell) -> u64 {
    result.corpus_of(cell.corpus_id).unwrap_or(&result.corpus).bytes
}

// ---- figures -----------------------------------------------------------------------------------------------------

fn far_rounds(cell: &Cell) -> Vec<(u32, Cause)> {
    let middle = upper_median(cell.rounds.iter().map(|round| round.seconds));
    // Times below the minimum vary by factors and are not ranked.
    if middle.is_none_or(|middle| middle < LEAST_SECONDS) {
        return Vec::new();
    }
    let series = series(cell);
    far(&series.rates, series.slack).into_iter().map(|(round, times)| (round, Cause::Far { times })).collect()
}

/// Returns the outliers among the rounds, in either direction, with the time of an op relative to that in the other
/// rounds.
///
/// Follows Rosner's generalized test (extreme studentized deviates): the rounds farthest from the median are removed
/// one at a time, up to two fifths of them, and each is compared with the remaining ones by Student's t. The last
/// removed round that is an outlier determines their number, so that two outliers on the same side do not mask each
/// other. Returns nothing if there are fewer rounds than a verdict needs.
fn far(rates: &BTreeMap<u32, f64>, slack: f64) -> Vec<(u32, f64)> {
    let mut left: Vec<(u32, f64)> = rates.iter().map(|(round, rate)| (*round, rate.ln())).collect();
    if left.len() < VERDICT_ROUNDS as usize || left.iter().any(|(_, log)| !log.is_finite()) {
        return Vec::new();
    }
    let (mut taken, mut are_far, mut mean) = (Vec::new(), 0, 0.0);
    for _ in 0..left.len() * 2 / 5 {
        let middle = median(left.iter().map(|(_, log)| *log));
        let distance = |(_, log): &(u32, f64)| (log - middle).abs();
        left.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        let Some((round, log)) = left.pop() else { break };
        taken.push((round, log));
        let logs: Vec<f64> = left.iter().map(|(_, log)| *log).collect();
        let Some(others) = Moments::from_values(&logs) else { break };
        if is_far((log - others.mean).abs(), &others, slack) {
            (are_far, mean) = (taken.len(), others.mean);
        }
    }
    taken.truncate(are_far);
    taken.into_iter().map(|(round, log)| (round, (mean - log).exp())).collect()
}

/// True if `distance` from the mean of the others lies outside the prediction interval for one more round, and beyond
/// the minimum factor.
fn is_far(distance: f64, others: &Moments, slack: f64) -> bool {
    if distance <= FAR_TIMES.ln() {
        return false;
    }
    let count = others.degrees + 1.0;
    let noise = (others.error * count.sqrt()).max(NOISE_MIN).max(slack);
    // Bonferroni: any of the rounds may be the farthest one.
    let t = t_two_sided(1.0 - FAR_SHARE / (count + 1.0), others.degrees);
    distance > t * noise * (1.0 + 1.0 / count).sqrt()
}

// ---- the device --------------------------------------------------------------------------------------------------

/// Returns warm rounds that read data from the device that most other rounds did not read. A candidate that reads from
/// it in every round, because it bypasses the page cache, is not disturbed.
fn reads_of_device(cell: &Cell, corpus_bytes: u64) -> Vec<(u32, Cause)> {
    if cell.cache != Cache::Warm || writes(cell) {
        return Vec::new();
    }
    let reads: Vec<(&Round, u64)> =
        cell.rounds.iter().filter_map(|round| Some((round, read_bytes(round)?))).collect();
    let is_odd = |(round, read): &(&Round, u64)| {
        let wanted = round.bytes.min(corpus_bytes) as f64 * READ_SHARE;
        let nothing = |(_, other): &&(&Round, u64)| (*other as f64) < *read as f64 * NOTHING_SHARE;
        let quiet = reads.iter().filter(nothing).count();
        *read as f64 >= wanted.max(READ_BYTES_MIN as f64) && quiet * 2 >= reads.len()
    };
    let cause = |(round, read): &(&Round, u64)| Cause::ReadsDevice {
        read_bytes: *read,
        delivered_bytes: round.bytes.min(corpus_bytes),
        cached: round.page_cache_share.is_some_and(|share| share >= CACHED_SHARE),
    };
    reads.iter().filter(|read| is_odd(read)).map(|read| (read.0.round, cause(read))).collect()
}

/// Returns what the candidate itself read from the device in a round, as far as known: without its reads from other
/// devices, and without reads of other programs.
fn read_bytes(round: &Round) -> Option<u64> {
    let device = round.device_read_bytes?;
    Some(round.own_read_bytes.map_or(device, |own| own.min(device)))
}

/// Returns rounds in which other programs used the disk, if the phase used it as well or something else was odd in the
/// round. Their writes are detected only as an excess over the other rounds, because the file system also writes on our
/// behalf, about the same amount in each. Programs that write the same amount all the time are therefore not detected.
fn others(cell: &Cell, odd: &[u32]) -> Vec<(u32, Cause)> {
    let own = |round: &Round| round.own_read_bytes.unwrap_or(0) + round.own_written_bytes.unwrap_or(0);
    let matters = |round: &&Round| own(round) >= OWN_BYTES_MIN || odd.contains(&round.round);
    let written = |round: &Round| round.others_written_bytes.map(|bytes| bytes as f64);
    let cause = |round: &Round| {
        let elsewhere: Vec<f64> =
            cell.rounds.iter().filter(|other| other.round != round.round).filter_map(written).collect();
        let usual = (elsewhere.len() >= 2).then(|| median(elsewhere.into_iter()));
        let more = written(round).zip(usual).map_or(0.0, |(written, usual)| (written - usual).max(0.0));
        let read = round.others_read_bytes.unwrap_or(0) as f64;
        let own_writes = (round.device_written_bytes.unwrap_or(0) as f64 - more).max(0.0);
        let all = read + more + own_writes + round.own_read_bytes.unwrap_or(0) as f64;
        let seconds = round.settled_seconds.unwrap_or(round.seconds);
        let is_much = |bytes: f64| bytes >= OTHERS_BYTES_MIN && bytes >= OTHERS_BYTES_PER_S_MIN * seconds;
        let read = if is_much(read) && read >= OTHERS_READ_SHARE * all { read } else { 0.0 };
        let more = if is_much(more) && more >= OTHERS_WRITTEN_SHARE * own_writes { more } else { 0.0 };
        let cause = Cause::OthersIo { read_bytes: read as u64, written_bytes: more as u64 };
        (read + more > 0.0).then_some((round.round, cause))
    };
    cell.rounds.iter().filter(matters).filter_map(cause).collect()
}

// ---- measuring again ---------------------------------------------------------------------------------------------

/// Returns how many rounds a run may repeat: a quarter of them; none if there are fewer rounds than a verdict needs,
/// because their figures are not quoted.
pub fn repeats_max(rounds: u32) -> usize {
    if rounds < VERDICT_ROUNDS { 0 } else { (rounds / 4) as usize }
}

/// Returns the round to repeat next, for all candidates: first rounds with outliers, then rounds that read from the
/// device unnecessarily, that other programs disturbed, or in which the CPU ran at another speed. Each is repeated
/// once, and no more than a quarter of all. Evidence found in more than half of the rounds is normal on this machine
/// and no reason. The choice does not depend on which candidate is better: outliers count in either direction, and the
/// other evidence is unrelated to the figures.
pub fn next_to_repeat(found: &[Disturbance], rounds: u32, repeated: &[u32]) -> Option<u32> {
    if repeated.len() >= repeats_max(rounds) {
        return None;
    }
    let weight = |reason: &&Disturbance| match reason.cause {
        Cause::Far { .. } => 0,
        Cause::ReadsDevice { .. } => 1,
        Cause::OthersIo { .. } => 2,
        Cause::Processor { .. } => 3,
    };
    let reasons = found.iter().filter(|reason| !is_usual(found, &reason.cause, rounds));
    let due = reasons.filter(|reason| !repeated.contains(&reason.round));
    due.min_by_key(|reason| (weight(reason), reason.round)).map(|reason| reason.round)
}

/// True if evidence of this kind is found in more than half of the rounds.
fn is_usual(found: &[Disturbance], cause: &Cause, rounds: u32) -> bool {
    let same = found.iter().filter(|other| discriminant(&other.cause) == discriminant(cause));
    same.map(|other| other.round).collect::<BTreeSet<u32>>().len() * 2 > rounds as usize
}

// ---- warnings ----------------------------------------------------------------------------------------------------

/// Returns warnings about disturbed rounds that count in the figures, and about rounds that were repeated.
pub fn warnings(plan: &Design, result: &RunResult) -> Vec<Warning> {
    let kept = found(plan, result);
    let again: Vec<u32> = result.set_aside.iter().map(|aside| aside.round).collect();
    let first: Vec<Disturbance> = result.set_aside.iter().flat_map(|aside| aside.why.clone()).collect();
    let mut warnings = Vec::new();
    if !kept.is_empty() {
        warnings.push(Warning::Disturbed(disturbed_rounds(result, &kept, &again)));
    }
    if !result.set_aside.is_empty() {
        warnings.push(Warning::RepeatedRounds(disturbed_rounds(result, &first, &[])));
    }
    warnings
}

/// Collects the evidence round by round, and the activity of other programs in most rounds. The rounds in `again` are
/// second measurements.
fn disturbed_rounds(result: &RunResult, found: &[Disturbance], again: &[u32]) -> DisturbedRounds {
    let is_usual = |reason: &Disturbance| {
        matches!(reason.cause, Cause::OthersIo { .. }) && is_usual(found, &reason.cause, result.fixed.rounds)
    };
    let (usual, odd): (Vec<&Disturbance>, Vec<&Disturbance>) =
        found.iter().partition(|reason| is_usual(reason));
    let mut by_round: BTreeMap<u32, Vec<&Disturbance>> = BTreeMap::new();
    for disturbance in odd {
        by_round.entry(disturbance.round).or_default().push(disturbance);
    }
    let one = |(round, found): (&u32, &Vec<&Disturbance>)| RoundAnomalies {
        round: *round,
        again: again.contains(round),
        seen: of_round(result, found),
    };
    let usual_rounds: BTreeSet<u32> = usual.iter().map(|disturbance| disturbance.round).collect();
    let stores: BTreeSet<&String> =
        found.iter().filter_map(|disturbance| disturbance.store.as_ref()).collect();
    DisturbedRounds {
        rounds: by_round.iter().map(one).collect(),
        usual_rounds: usual_rounds.into_iter().collect(),
        usual: by_others(result, &usual),
        stores: stores.into_iter().cloned().collect(),
    }
}

fn of_round(result: &RunResult, found: &[&Disturbance]) -> Vec<Anomaly> {
    /// Maximum number of anomalies listed individually.
    const PLACES_MAX: usize = 6;
    let processor = |disturbance: &&Disturbance| match disturbance.cause {
        Cause::Processor { times } => Some(Anomaly::Processor { times }),
        _ => None,
    };
    let mut seen: Vec<Anomaly> = found.iter().filter_map(processor).collect();
    let (everywhere, left) = far_everywhere(result, found);
    seen.extend(everywhere);
    let mut places = by_place(&left);
    let more = places.len().saturating_sub(PLACES_MAX) as u64;
    places.truncate(PLACES_MAX);
    seen.extend(places);
    seen.extend((more > 0).then_some(Anomaly::More { candidates: more }));
    seen.extend(by_others(result, found).map(Anomaly::Others));
    seen
}

/// Finds phases in which most candidates are outliers: then the machine was disturbed, and no candidate is blamed. Also
/// returns the remaining disturbances.
fn far_everywhere<'d>(result: &RunResult, found: &[&'d Disturbance]) -> (Vec<Anomaly>, Vec<&'d Disturbance>) {
    let mut times: BTreeMap<(&String, CorpusId), Vec<f64>> = BTreeMap::new();
    for disturbance in found {
        if let (Cause::Far { times: own }, Some(phase)) = (disturbance.cause, &disturbance.phase) {
            times.entry((phase, disturbance.corpus_id)).or_default().push(own);
        }
    }
    times.retain(|(phase, corpus_id), times| {
        let is_of =
            |cell: &&Cell| cell.phase == **phase && cell.corpus_id == *corpus_id && !cell.rounds.is_empty();
        let candidates =
            result.results.iter().filter(is_of).filter(|cell| !ranking::is_baseline(cell)).count();
        times.len() > 1 && times.len() * 2 > candidates
    });
    let one = |((phase, corpus_id), times): (&(&String, CorpusId), &Vec<f64>)| Anomaly::MostCandidates {
        phase: (*phase).clone(),
        corpus_id: *corpus_id,
        low: times.iter().copied().fold(f64::INFINITY, f64::min),
        high: times.iter().copied().fold(0.0, f64::max),
    };
    let is_told = |disturbance: &Disturbance| {
        let key = disturbance.phase.as_ref().map(|phase| (phase, disturbance.corpus_id));
        matches!(disturbance.cause, Cause::Far { .. }) && key.is_some_and(|key| times.contains_key(&key))
    };
    let left = found.iter().copied().filter(|disturbance| !is_told(disturbance)).collect();
    (times.iter().map(one).collect(), left)
}

/// Groups evidence by candidate and phase, in the order of detection.
fn by_place(found: &[&Disturbance]) -> Vec<Anomaly> {
    let own = found.iter().filter(|disturbance| !matches!(disturbance.cause, Cause::OthersIo { .. }));
    let of_place = own.filter_map(|disturbance| {
        let (store, phase) = (disturbance.store.clone()?, disturbance.phase.clone()?);
        Some(((store, phase, disturbance.corpus_id), disturbance.cause))
    });
    let places = units::grouped(of_place).into_iter();
    places
        .map(|((store, phase, corpus_id), causes)| Anomaly::Candidate { store, phase, corpus_id, causes })
        .collect()
}

/// Sums the activity of other programs in a round, with the phases affected; `None` if there was none.
fn by_others(result: &RunResult, found: &[&Disturbance]) -> Option<ForeignActivity> {
    let (mut read, mut written) = (0, 0);
    let mut phases: Vec<String> = Vec::new();
    for disturbance in found {
        if let (Cause::OthersIo { read_bytes, written_bytes }, Some(phase)) =
            (disturbance.cause, &disturbance.phase)
        {
            (read, written) = (read + read_bytes, written + written_bytes);
            let phase = whole_of(phase).to_owned();
            if !phases.contains(&phase) {
                phases.push(phase);
            }
        }
    }
    // Programs whose pages were evicted when we dropped the caches read them again.
    let is_cold =
        |cell: &Cell| cell.cache == Cache::Cold && phases.iter().any(|phase| phase == whole_of(&cell.phase));
    let drops = result.plan.drop_caches != Some(false) && result.machine.root;
    let perhaps_for_us = read > 0 && drops && result.results.iter().any(is_cold);
    (read + written > 0).then_some(ForeignActivity {
        read_bytes: read,
        written_bytes: written,
        phases,
        perhaps_for_us,
    })
}

#[cfg(test)]
mod tests;
