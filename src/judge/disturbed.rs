//! Rounds in which something else was measured too: what speaks against them, and which of them are measured again. The rule is fixed
//! before anything is measured, and takes or leaves a round for all rows.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use super::cells::{series, writes};
use super::interval::{Moments, median, t_two_sided};
use super::{LEAST_SECONDS, VERDICT_ROUNDS, rails, ranking};
use crate::corpus::CorpusId;
use crate::plan::text::{Design, whole_of};
use crate::result::{Cache, Cause, Cell, Disturbance, Doubt, Round, RunResult, Status};
use crate::rules::{
    CACHED_SHARE, FAR_SHARE, FAR_TIMES, NOISE_MIN, NOTHING_SHARE, OTHERS_BYTES_MIN, OTHERS_BYTES_PER_S_MIN,
    OTHERS_READ_SHARE, OTHERS_WRITTEN_SHARE, OWN_BYTES_MIN, READ_BYTES_MIN, READ_SHARE,
};
use crate::units;

/// Everything that speaks against the rounds of a result.
pub fn found(plan: &Design, result: &RunResult) -> Vec<Disturbance> {
    let about_all = |(round, times): (u32, f64)| Disturbance {
        round,
        store: None,
        phase: None,
        corpus_id: CorpusId::ONLY,
        cause: Cause::Processor { times },
    };
    let mut all: Vec<Disturbance> =
        rails::changed(&result.rails, plan.rail_limit).into_iter().map(about_all).collect();
    let counts = |cell: &&Cell| cell.status == Status::Measured && !ranking::is_yardstick(cell);
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
    // In the order of rounds; within one as they were found.
    all.sort_by_key(|disturbance| disturbance.round);
    all
}

fn corpus_bytes(result: &RunResult, cell: &Cell) -> u64 {
    let own = result.all_corpora().iter().find(|corpus| corpus.corpus_id == cell.corpus_id);
    own.unwrap_or(&result.corpus).bytes
}

// ---- figures -----------------------------------------------------------------------------------------------------

fn far_rounds(cell: &Cell) -> Vec<(u32, Cause)> {
    let mut seconds: Vec<f64> = cell.rounds.iter().map(|round| round.seconds).collect();
    seconds.sort_unstable_by(f64::total_cmp);
    // What is over before it began varies by factors, and is not ranked.
    if seconds.get(seconds.len() / 2).is_none_or(|middle| *middle < LEAST_SECONDS) {
        return Vec::new();
    }
    let series = series(cell);
    far(&series.rates, series.slack).into_iter().map(|(round, times)| (round, Cause::Far { times })).collect()
}

/// The rounds whose rates lie far from those of the others, on either side, with the time of an op over that in the others.
///
/// After Rosner's generalized test (extreme studentized deviates): the rounds farthest from the middle are taken away one after the
/// other, up to two fifths, and each is compared with those that are left by Student's t. Then the last one that is far says how many
/// are: two that are far to the same side do not hide each other. Of fewer rounds than verdicts need nothing is said.
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
        let Some(others) = Moments::of(&logs) else { break };
        if is_far((log - others.mean).abs(), &others, slack) {
            (are_far, mean) = (taken.len(), others.mean);
        }
    }
    taken.truncate(are_far);
    taken.into_iter().map(|(round, log)| (round, (mean - log).exp())).collect()
}

/// Whether so much from the mean of others is more than the next one of them would be.
fn is_far(distance: f64, others: &Moments, slack: f64) -> bool {
    if distance <= FAR_TIMES.ln() {
        return false;
    }
    let count = others.degrees + 1.0;
    let noise = (others.error * count.sqrt()).max(NOISE_MIN).max(slack);
    // Any of them may be the farthest one.
    let t = t_two_sided(1.0 - FAR_SHARE / (count + 1.0), others.degrees);
    distance > t * noise * (1.0 + 1.0 / count).sqrt()
}

// ---- the device --------------------------------------------------------------------------------------------------

/// Warm rounds that read from the device what most others did not. A row that does so in every round, because it reads past the
/// page cache, is not disturbed.
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

/// What the row itself read from the device in a round, as far as that is known: what it read elsewhere is not of this device, and
/// what others read there is not the row's.
fn read_bytes(round: &Round) -> Option<u64> {
    let device = round.device_read_bytes?;
    Some(round.own_read_bytes.map_or(device, |own| own.min(device)))
}

/// Rounds in which others used the disk that the phase used too, or in which something else was odd. Writes of theirs are seen where they are more than in the other rounds: the file system
/// writes for us too, about as much in each. So others who write as much all the time are not seen.
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

/// Rounds that a run may measure again: a quarter. Of fewer rounds than verdicts need nothing is quoted, and none is.
pub fn repeats_max(rounds: u32) -> usize {
    if rounds < VERDICT_ROUNDS { 0 } else { (rounds / 4) as usize }
}

/// The round that is measured again next, for all rows: the first whose figures are far, else the first that read from the device when
/// it need not, that others disturbed, or in which the processor was another; each once, and no more than a quarter. What is seen in more than half of the rounds is how the machine is, and no reason. Nothing
/// in this depends on which row is better: far is far on either side, and the other causes are not of figures.
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

/// Whether causes of this kind are seen in more than half of the rounds.
fn is_usual(found: &[Disturbance], cause: &Cause, rounds: u32) -> bool {
    let same = found.iter().filter(|other| discriminant(&other.cause) == discriminant(cause));
    same.map(|other| other.round).collect::<BTreeSet<u32>>().len() * 2 > rounds as usize
}

// ---- words -------------------------------------------------------------------------------------------------------

/// What is doubtful of rounds that are in the figures, and which ones were measured again.
pub fn doubts(plan: &Design, result: &RunResult) -> Vec<Doubt> {
    let kept = found(plan, result);
    let mut doubts = Vec::new();
    if !kept.is_empty() {
        let again: Vec<u32> = result.set_aside.iter().map(|aside| aside.round).collect();
        let text = format!("Some rounds were disturbed. {}", told(result, &kept, &again));
        let advice = "run again at a quieter time; of five rounds or more disturbed ones are measured again, a quarter at the most, where \
                      the budget allows";
        doubts.push(Doubt { stores: stores(&kept), ..Doubt::new("disturbed", text, Some(advice)) });
    }
    if !result.set_aside.is_empty() {
        let why: Vec<Disturbance> = result.set_aside.iter().flat_map(|aside| aside.why.clone()).collect();
        let text = format!(
            "Measured again for all rows, and in no figure as they were measured first, because they were disturbed. {}",
            told(result, &why, &[])
        );
        doubts.push(Doubt { stores: stores(&why), ..Doubt::new("repeated-rounds", text, None) });
    }
    doubts
}

/// The rows that are named.
fn stores(found: &[Disturbance]) -> Vec<String> {
    let named: BTreeSet<&String> =
        found.iter().filter_map(|disturbance| disturbance.store.as_ref()).collect();
    named.into_iter().cloned().collect()
}

/// A sentence for each round, and one for what others did in most of them. Rounds of `again` are what was measured the second time.
fn told(result: &RunResult, found: &[Disturbance], again: &[u32]) -> String {
    let is_usual = |reason: &Disturbance| {
        matches!(reason.cause, Cause::OthersIo { .. }) && is_usual(found, &reason.cause, result.fixed.rounds)
    };
    let (usual, odd): (Vec<&Disturbance>, Vec<&Disturbance>) =
        found.iter().partition(|reason| is_usual(reason));
    let mut by_round: BTreeMap<u32, Vec<&Disturbance>> = BTreeMap::new();
    for disturbance in odd {
        by_round.entry(disturbance.round).or_default().push(disturbance);
    }
    let sentence = |(round, found): (&u32, &Vec<&Disturbance>)| {
        let again = if again.contains(round) { ", measured again" } else { "" };
        format!("Round {round}{again}: {}.", of_round(result, found))
    };
    let mut sentences: Vec<String> = by_round.iter().map(sentence).collect();
    let rounds: BTreeSet<u32> = usual.iter().map(|disturbance| disturbance.round).collect();
    let rounds: Vec<String> = rounds.iter().map(u32::to_string).collect();
    sentences
        .extend(of_others(result, &usual).map(|others| format!("Rounds {}: {others}.", rounds.join(", "))));
    sentences.join(" ")
}

fn of_round(result: &RunResult, found: &[&Disturbance]) -> String {
    /// Places that are told one by one.
    const PLACES_MAX: usize = 6;
    let mut parts: Vec<String> = found.iter().filter_map(|disturbance| of_processor(disturbance)).collect();
    let (everywhere, left) = far_everywhere(result, found);
    parts.extend(everywhere);
    let mut places: Vec<String> =
        by_place(&left).into_iter().map(|(place, found)| of_place(&place, &found)).collect();
    let more = places.len().saturating_sub(PLACES_MAX);
    places.truncate(PLACES_MAX);
    parts.extend(places);
    parts.extend((more > 0).then(|| format!("{more} more like these")));
    parts.extend(of_others(result, found));
    parts.join("; ")
}

fn of_processor(disturbance: &Disturbance) -> Option<String> {
    let Cause::Processor { times } = disturbance.cause else { return None };
    Some(format!(
        "a fixed piece of work took the processor {} times as long as in the other rounds",
        factor(times)
    ))
}

/// Phases in which most rows are far: then it is the machine that was disturbed, and no row is blamed. Returns what is left.
fn far_everywhere<'d>(result: &RunResult, found: &[&'d Disturbance]) -> (Vec<String>, Vec<&'d Disturbance>) {
    let mut times: BTreeMap<(&String, CorpusId), Vec<f64>> = BTreeMap::new();
    for disturbance in found {
        if let (Cause::Far { times: own }, Some(phase)) = (disturbance.cause, &disturbance.phase) {
            times.entry((phase, disturbance.corpus_id)).or_default().push(own);
        }
    }
    times.retain(|(phase, corpus_id), times| {
        let is_of =
            |cell: &&Cell| cell.phase == **phase && cell.corpus_id == *corpus_id && !cell.rounds.is_empty();
        let rows = result.results.iter().filter(is_of).filter(|cell| !ranking::is_yardstick(cell)).count();
        times.len() > 1 && times.len() * 2 > rows
    });
    let text = |((phase, corpus_id), times): (&(&String, CorpusId), &Vec<f64>)| {
        let low = times.iter().copied().fold(f64::INFINITY, f64::min);
        let high = times.iter().copied().fold(0.0, f64::max);
        format!(
            "most rows took {} to {} times as long in {} as in their other rounds, so that it was the machine, and ratios, which are \
             paired by round, may bear it",
            factor(low),
            factor(high),
            place(None, phase, *corpus_id)
        )
    };
    let is_told = |disturbance: &Disturbance| {
        let key = disturbance.phase.as_ref().map(|phase| (phase, disturbance.corpus_id));
        matches!(disturbance.cause, Cause::Far { .. }) && key.is_some_and(|key| times.contains_key(&key))
    };
    let left = found.iter().copied().filter(|disturbance| !is_told(disturbance)).collect();
    (times.iter().map(text).collect(), left)
}

/// What was seen of one row in one phase, by where that was, in the order in which it was found.
fn by_place<'d>(found: &[&'d Disturbance]) -> Vec<(String, Vec<&'d Disturbance>)> {
    let mut places: Vec<(String, Vec<&Disturbance>)> = Vec::new();
    for disturbance in found {
        let (Some(store), Some(phase)) = (&disturbance.store, &disturbance.phase) else { continue };
        if matches!(disturbance.cause, Cause::OthersIo { .. }) {
            continue;
        }
        let name = place(Some(store), phase, disturbance.corpus_id);
        match places.iter_mut().find(|(known, _)| *known == name) {
            Some((_, found)) => found.push(disturbance),
            None => places.push((name, vec![disturbance])),
        }
    }
    places
}

fn of_place(place: &str, found: &[&Disturbance]) -> String {
    let seen: Vec<String> = found.iter().filter_map(|disturbance| words(&disturbance.cause)).collect();
    format!("{place} {}", seen.join(" and "))
}

fn words(cause: &Cause) -> Option<String> {
    match cause {
        Cause::Far { times } => Some(format!("took {} times as long as in its other rounds", factor(*times))),
        Cause::ReadsDevice { read_bytes, delivered_bytes, cached } => {
            let cached = if *cached { ", and was in the page cache afterwards" } else { "" };
            Some(format!(
                "read {} from the device for {} of blobs, though all had been read before{cached}",
                units::bytes(*read_bytes as f64),
                units::bytes(*delivered_bytes as f64)
            ))
        }
        Cause::OthersIo { .. } | Cause::Processor { .. } => None,
    }
}

/// What others did in a round, and during which phases.
fn of_others(result: &RunResult, found: &[&Disturbance]) -> Option<String> {
    let (mut read, mut written) = (0, 0);
    let mut phases: Vec<&str> = Vec::new();
    for disturbance in found {
        if let (Cause::OthersIo { read_bytes, written_bytes }, Some(phase)) =
            (disturbance.cause, &disturbance.phase)
        {
            (read, written) = (read + read_bytes, written + written_bytes);
            if !phases.contains(&whole_of(phase)) {
                phases.push(whole_of(phase));
            }
        }
    }
    let of = |what: &str, bytes: u64| (bytes > 0).then(|| format!("{what} {}", units::bytes(bytes as f64)));
    let done: Vec<String> = [of("read", read), of("wrote", written)].into_iter().flatten().collect();
    // Programs that lose their own pages to our dropping the caches read them again.
    let is_cold = |cell: &Cell| cell.cache == Cache::Cold && phases.contains(&whole_of(&cell.phase));
    let drops = result.plan.drop_caches != Some(false) && result.machine.root;
    let ours = if read > 0 && drops && result.results.iter().any(is_cold) {
        " (in part, perhaps, what they lost when cold passes dropped the kernel's caches)"
    } else {
        ""
    };
    (!done.is_empty()).then(|| {
        format!("other programs {} on the same disk during {}{ours}", done.join(" and "), phases.join(", "))
    })
}

fn place(store: Option<&str>, phase: &str, corpus_id: CorpusId) -> String {
    let size =
        corpus_id.bytes().map(|bytes| format!(" at {}", units::bytes(bytes as f64))).unwrap_or_default();
    match store {
        Some(store) => format!("{store} in {phase}{size}"),
        None => format!("{phase}{size}"),
    }
}

fn factor(times: f64) -> String {
    if times >= 10.0 { format!("{times:.0}") } else { format!("{times:.2}") }
}

#[cfg(test)]
mod tests;
