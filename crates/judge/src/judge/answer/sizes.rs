//! Answer to a sweep over blob sizes, memory or the number of blobs: which candidates lead in which range.

use std::collections::BTreeMap;

use super::super::cells::writes;
use super::super::ranking::{self, Comparability, ComparisonGroup};
use super::{in_brackets, is_of_subject, is_told, names, only_writes, subject, with_reasons};
use crate::corpus::CorpusId;
use crate::plan::text::{Design, MEMORY_SWEEP, Phase, whole_of};
use crate::result::{Cache, Cell, Crossover, RunResult, Status, in_a_line};
use crate::rules::VERDICT_ROUNDS;
use crate::units;

/// Variable of a sweep, in one of its phases.
struct SizeSweep {
    /// Phase name under which crossovers are recorded.
    phase: String,
    /// Amounts in bytes (in a growth, numbers of blobs; in ageing, percentages), each with the phase and corpus measured at it, in
    /// ascending order.
    points: Vec<(u64, String, CorpusId)>,
    /// Corpus size in bytes for memory sweeps, whose amounts are shares of it; `None` for others.
    whole: Option<u64>,
    /// Unit of the amounts.
    unit: SweptUnit,
}

/// Unit of the variable of a sweep, with the words for one of its amounts and for all.
struct SweptUnit {
    show: fn(f64) -> String,
    one: &'static str,
    every: &'static str,
}

const BYTES: SweptUnit = SweptUnit { show: units::bytes, one: "size", every: "at every size" };
const SHARES: SweptUnit =
    SweptUnit { show: units::bytes, one: "share", every: "with memory for every share of the data" };
const BLOBS: SweptUnit = SweptUnit { show: blobs, one: "step", every: "at every step" };

const AGES: SweptUnit = SweptUnit { show: age, one: "step", every: "at every step" };

fn age(percent: f64) -> String {
    format!("age {}", units::count(percent / 100.0))
}

fn blobs(number: f64) -> String {
    format!("{} blobs", units::count(number))
}

impl SizeSweep {
    fn of_sizes(plan: &Design, phase: &str) -> SizeSweep {
        let point = |corpus_id: CorpusId| Some((corpus_id.bytes()?, phase.to_owned(), corpus_id));
        let points = plan.corpora.iter().filter_map(|corpus| point(corpus.corpus_id)).collect();
        SizeSweep { phase: phase.to_owned(), points, whole: None, unit: BYTES }
    }

    fn of_memory(plan: &Design, result: &RunResult) -> SizeSweep {
        let whole = result.corpus.bytes;
        let mut points: Vec<(u64, String, CorpusId)> = plan
            .memory_sweep(whole)
            .map(|(bytes, phase)| (bytes, phase.id.clone(), CorpusId::ONLY))
            .collect();
        points.sort_by_key(|(bytes, _, _)| *bytes);
        SizeSweep { phase: MEMORY_SWEEP.to_owned(), points, whole: Some(whole), unit: SHARES }
    }

    fn of_steps(phase: &str, steps: &[(u64, &Phase)], unit: SweptUnit) -> SizeSweep {
        let point = |(at, phase): &(u64, &Phase)| (*at, phase.id.clone(), CorpusId::ONLY);
        let points = steps.iter().map(point).collect();
        SizeSweep { phase: phase.to_owned(), points, whole: None, unit }
    }

    fn amounts(&self) -> Vec<u64> {
        self.points.iter().map(|(amount, _, _)| *amount).collect()
    }

    /// True if a cell was measured at this amount.
    fn is_at(&self, amount: u64, cell: &Cell) -> bool {
        let is_it = |point: &&(u64, String, CorpusId)| {
            point.0 == amount && point.1 == cell.phase && point.2 == cell.corpus_id
        };
        self.points.iter().any(|point| is_it(&point))
    }

    /// Formats an amount as a size or a percentage.
    fn shown(&self, amount: u64) -> String {
        match self.whole {
            None => (self.unit.show)(amount as f64),
            Some(_) => format!("{} %", self.percent(amount)),
        }
    }

    fn percent(&self, amount: u64) -> String {
        units::count(100.0 * amount as f64 / self.whole.unwrap_or(1).max(1) as f64)
    }
}

/// Returns the sentence on which candidates lead from which share of memory on; `None` without a memory sweep.
pub(super) fn by_memory(plan: &Design, result: &RunResult) -> Option<String> {
    let axis = SizeSweep::of_memory(plan, result);
    let groups = groups(result, &axis, false);
    let without = without_anybody(result, &axis);
    (!groups.is_empty())
        .then(|| format!("Reads by memory: {}{without}", winners_of_groups(result, &axis, &groups)))
}

/// Returns a sentence for each phase of a growth or of ageing on which candidates lead up to which number of blobs or age, and one
/// on those that did not grow to the last step.
pub(super) fn by_steps(plan: &Design, result: &RunResult) -> Vec<String> {
    let all_steps = plan.steps();
    let is_by_age = plan.text.age.is_some();
    let variable = if is_by_age { "age" } else { "number of blobs" };
    let of_phase = |(name, steps): &(&str, Vec<(u64, &Phase)>)| {
        let axis = SizeSweep::of_steps(name, steps, if is_by_age { AGES } else { BLOBS });
        let groups = groups(result, &axis, false);
        (!groups.is_empty()).then(|| (winners_of_groups(result, &axis, &groups), (*name).to_owned()))
    };
    let sentence =
        |(winners, phases): &(String, Vec<String>)| format!("{} by {variable}: {winners}", names(phases));
    let by_phase = units::grouped(all_steps.iter().filter_map(of_phase));
    let stopped = |cell: &&Cell| cell.status == Status::NotPossible && cell.stored_blobs.is_some();
    let is_fill = |cell: &&Cell| all_steps.first().is_some_and(|(fill, _)| whole_of(&cell.phase) == *fill);
    let why = |cell: &Cell| Some((in_a_line(cell.reason.as_deref()?).to_owned(), cell.store.clone()));
    let ended = result.results.iter().filter(stopped).filter(is_fill).filter_map(why);
    let ended = with_reasons(ended).map(|list| format!("Not grown to the last step: {list}."));
    by_phase.iter().map(sentence).chain(ended).collect()
}

/// Lists the amounts at which no candidate was measured, with reasons.
fn without_anybody(result: &RunResult, axis: &SizeSweep) -> String {
    let why_nobody = |amount: u64| {
        let cells = || result.results.iter().filter(move |cell| axis.is_at(amount, cell));
        let is_measured = |cell: &Cell| cell.status == Status::Measured;
        let reason = cells().find_map(|cell| cell.reason.as_deref().map(in_a_line))?;
        (!cells().any(is_measured)).then(|| (reason, axis.shown(amount)))
    };
    units::grouped(axis.amounts().into_iter().rev().filter_map(why_nobody))
        .iter()
        .map(|(why, shares)| format!(" Nobody was measured with {}: {why}.", units::listed(shares, "or")))
        .collect()
}

/// Returns a sentence for each phase of a size sweep: which candidates lead up to which size.
pub(super) fn by_size(plan: &Design, result: &RunResult) -> Vec<String> {
    plan.phases
        .iter()
        .filter(|phase| is_of_subject(result, only_writes(phase)))
        .map(|phase| {
            let axis = SizeSweep::of_sizes(plan, &phase.id);
            let groups = groups(result, &axis, true);
            let ((comparison_group, main), _) = groups.first().cloned().unwrap_or_default();
            let of_main = |cell: &&Cell| cell.phase == phase.id && ranking::ranked_among(cell) == main;
            let is_lukewarm = result.results.iter().filter(of_main).any(|cell| cell.cache == Cache::Lukewarm);
            let title = match phase.id.as_str() {
                "fill" => "Writes (the fill)",
                "read-warm" => "Warm reads",
                "read-cold" if is_lukewarm => "Lukewarm reads",
                "read-cold" => "Cold reads",
                other => other,
            };
            let only = if !comparison_group.is_choice() { format!(" ({main})") } else { String::new() };
            format!("{title}{only}: {}", winners_of_groups(result, &axis, &groups))
        })
        .collect()
}

/// Candidates that may be compared with each other, with their comparison group.
type Group = ((ComparisonGroup, Comparability), Vec<String>);

/// Returns the groups of candidates at the amounts of a sweep by comparison group and name; the largest of each comparison group
/// comes first. `with_others`: also groups that the answer is not about.
fn groups(result: &RunResult, axis: &SizeSweep, with_others: bool) -> Vec<Group> {
    let subject = subject(result);
    let mut groups: BTreeMap<(ComparisonGroup, Comparability), Vec<String>> = BTreeMap::new();
    let is_meant = |cell: &&Cell| {
        let comparison_group = ranking::comparison_group(cell);
        let is_other = with_others && is_told(comparison_group, subject, writes(cell));
        is_candidate(cell) && (comparison_group == subject || is_other)
    };
    let at_any = |cell: &&Cell| axis.amounts().iter().any(|amount| axis.is_at(*amount, cell));
    for cell in result.results.iter().filter(at_any).filter(is_meant) {
        let candidates =
            groups.entry((ranking::comparison_group(cell), ranking::ranked_among(cell))).or_default();
        if !candidates.contains(&cell.store) {
            candidates.push(cell.store.clone());
        }
    }
    let mut groups: Vec<Group> = groups.into_iter().collect();
    groups.sort_by_key(|((comparison_group, _), candidates)| {
        (*comparison_group, std::cmp::Reverse(candidates.len()))
    });
    groups
}

/// Returns which candidates lead in the first group, and in those apart from it.
fn winners_of_groups(result: &RunResult, axis: &SizeSweep, groups: &[Group]) -> String {
    let Some(((_, main), _)) = groups.first() else {
        return winners(result, axis, &Comparability::default());
    };
    let apart = |((_, group), candidates): &Group| match candidates.as_slice() {
        [candidate] if group.is_empty() => format!(" `{candidate}` is ranked apart from them."),
        [candidate] => format!(" `{candidate}` is ranked apart from them: {group}."),
        _ => {
            let named = in_brackets(std::slice::from_ref(group));
            format!(" Apart from them{named}: {}", winners(result, axis, group))
        }
    };
    winners(result, axis, main) + &groups[1..].iter().map(apart).collect::<String>()
}

fn is_candidate(cell: &Cell) -> bool {
    cell.status == Status::Measured && !ranking::is_baseline(cell)
}

/// Range of sizes in which the same candidates lead throughout.
struct SizeRange {
    from: u64,
    to: u64,
    candidates: Vec<String>,
}

/// Returns the candidates that could be the fastest at a size: first those that none is proved to beat by a relevant
/// margin, then those that are unranked there for reasons of measurement, such as harness overhead; and true if any is ranked.
fn best_there(
    result: &RunResult,
    axis: &SizeSweep,
    size: u64,
    group: &Comparability,
) -> (Vec<String>, Vec<String>, bool) {
    let of_group = |cell: &&Cell| is_candidate(cell) && ranking::ranked_among(cell) == *group;
    let at_size = |cell: &&Cell| axis.is_at(size, cell);
    let cells = || result.results.iter().filter(at_size).filter(of_group);
    let leaders = cells().filter(|cell| cell.leader).map(|cell| cell.store.clone()).collect();
    let unknown = cells().filter(|cell| cell.not_ranked.is_some()).map(|cell| cell.store.clone()).collect();
    (leaders, unknown, cells().any(|cell| cell.not_ranked.is_none()))
}

fn winners(result: &RunResult, axis: &SizeSweep, group: &Comparability) -> String {
    let sizes = axis.amounts();
    let mut stretches: Vec<SizeRange> = Vec::new();
    let mut unranked: Vec<(String, Vec<u64>)> = Vec::new();
    // Candidates that lead at sizes at which the previous leaders are unranked.
    let mut instead: Vec<(String, Vec<u64>)> = Vec::new();
    // Sizes at which candidates are ranked, but too few rounds or too much noise leave open who leads.
    let mut undecided: Vec<u64> = Vec::new();
    for size in &sizes {
        let (leaders, unknown, is_ranked) = best_there(result, axis, *size, group);
        unknown.iter().for_each(|candidate| note(&mut unranked, candidate, *size));
        if leaders.is_empty() {
            undecided.extend(is_ranked.then_some(*size));
            continue;
        }
        let common = |candidates: &[String]| -> Vec<String> {
            candidates
                .iter()
                .filter(|candidate| leaders.contains(candidate) || unknown.contains(candidate))
                .cloned()
                .collect()
        };
        match stretches.last_mut() {
            Some(stretch) if !common(&stretch.candidates).is_empty() => {
                stretch.candidates = common(&stretch.candidates);
                // An unranked candidate does not lead at this size.
                if stretch.candidates.iter().any(|candidate| leaders.contains(candidate)) {
                    stretch.to = *size;
                } else {
                    leaders.iter().for_each(|candidate| note(&mut instead, candidate, *size));
                }
            }
            _ => stretches.push(SizeRange { from: *size, to: *size, candidates: leaders }),
        }
    }
    let shared = shared(result, axis, group, &stretches);
    let mut text = match stretches.as_slice() {
        [] if (1..VERDICT_ROUNDS).contains(&result.rounds_begun()) => {
            return format!("too few rounds to tell; to find out: `--rounds {VERDICT_ROUNDS}`.");
        }
        [] if !undecided.is_empty() => format!("at no {} is it decided who leads.", axis.unit.one),
        [] if axis.whole.is_some() => "no candidate is ranked at any share.".to_owned(),
        [] => format!("no {} has a ranked candidate.", axis.unit.one),
        [only] => {
            let is_alone = instead.is_empty() && undecided.is_empty();
            only_stretch(axis, only, (&unranked, &undecided), is_alone, shared.is_empty())
        }
        several if axis.whole.is_some() => memory_text(result, axis, several),
        several => stretches_text(result, axis, several),
    };
    // The ranges between stretches are called undecided there.
    let is_between = |size: &u64| stretches.windows(2).any(|pair| (pair[0].to..pair[1].from).contains(size));
    undecided.retain(|size| !stretches.is_empty() && !is_between(size));
    if !undecided.is_empty() {
        text += &format!(" Undecided at {}.", ranges(axis, &undecided));
    }
    if !instead.is_empty() {
        text += &format!(" Where they are not ranked, others lead: {}.", at_sizes(axis, &instead));
    }
    if !shared.is_empty() {
        text += &format!(" The lead is shared with {}.", at_sizes(axis, &shared));
    }
    if !unranked.is_empty() {
        text += &format!(" Not ranked: {}.", at_sizes(axis, &unranked));
    }
    text
}

/// Words the case that the same candidates lead wherever any candidate does. `unranked` and `undecided`: sizes at which one is not
/// ranked, and at which none leads. `alone`: they lead at every size at which any candidate is ranked; `apart`: none shares their
/// lead at any size.
fn only_stretch(
    axis: &SizeSweep,
    only: &SizeRange,
    (unranked, undecided): (&[(String, Vec<u64>)], &[u64]),
    alone: bool,
    apart: bool,
) -> String {
    let verb = if only.candidates.len() == 1 { "leads" } else { "lead together" };
    let (from, to) = (axis.shown(only.from), axis.shown(only.to));
    let SweptUnit { one, every, .. } = axis.unit;
    let range = match only.from == only.to {
        true if alone => format!("at {from}, the only {one} with a ranked candidate"),
        true => format!("at {from}"),
        false => {
            let between = |size: &u64| (only.from..only.to).contains(size);
            let gap = unranked
                .iter()
                .any(|(candidate, sizes)| only.candidates.contains(candidate) && sizes.iter().any(between));
            let which = match undecided.iter().any(between) {
                _ if gap => " at which it is ranked",
                true => " at which that is decided",
                false => "",
            };
            let always = if alone && apart { "; the winner does not change" } else { "" };
            format!("{every} from {from} to {to}{which}{always}")
        }
    };
    format!("{} {verb} {range}.", names(&only.candidates))
}

/// Records a size for a candidate.
fn note(candidates: &mut Vec<(String, Vec<u64>)>, candidate: &str, size: u64) {
    match candidates.iter_mut().find(|(known, _)| known == candidate) {
        Some((_, sizes)) => sizes.push(size),
        None => candidates.push((candidate.to_owned(), vec![size])),
    }
}

/// Formats candidates with their sizes.
fn at_sizes(axis: &SizeSweep, candidates: &[(String, Vec<u64>)]) -> String {
    let one = |(candidate, sizes): &(String, Vec<u64>)| format!("`{candidate}` at {}", ranges(axis, sizes));
    candidates.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Formats sizes: three or more in a row as a range.
fn ranges(axis: &SizeSweep, sizes: &[u64]) -> String {
    let amounts = axis.amounts();
    let is_next = |one: &u64, other: &u64| amounts.windows(2).any(|pair| pair == [*one, *other]);
    let row_text = |row: &[u64]| match row {
        [first, _, .., last] => format!("{} to {}", axis.shown(*first), axis.shown(*last)),
        _ => row.iter().map(|size| axis.shown(*size)).collect::<Vec<_>>().join(", "),
    };
    sizes.chunk_by(is_next).map(row_text).collect::<Vec<_>>().join(", ")
}

/// Returns candidates that share the lead at some sizes of a stretch but do not lead throughout: nothing is proved to
/// beat them there.
fn shared(
    result: &RunResult,
    axis: &SizeSweep,
    group: &Comparability,
    stretches: &[SizeRange],
) -> Vec<(String, Vec<u64>)> {
    let mut shared: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for stretch in stretches {
        for size in axis.amounts().iter().filter(|size| (stretch.from..=stretch.to).contains(*size)) {
            let (leaders, ..) = best_there(result, axis, *size, group);
            // If the leaders of the stretch are unranked at this size, there is no lead to share.
            if !leaders.iter().any(|candidate| stretch.candidates.contains(candidate)) {
                continue;
            }
            for candidate in leaders.into_iter().filter(|candidate| !stretch.candidates.contains(candidate)) {
                shared.entry(candidate).or_default().push(*size);
            }
        }
    }
    shared.into_iter().collect()
}

fn stretches_text(result: &RunResult, axis: &SizeSweep, stretches: &[SizeRange]) -> String {
    let (mut parts, mut rest) = (Vec::new(), String::new());
    for pair in stretches.windows(2) {
        let [below, above] = pair else { continue };
        let crossover = crossover(result, axis, below, above);
        parts.push(match crossover {
            Some(crossover) => format!(
                "up to about {} [{}, {}] {}",
                axis.shown(crossover.bytes),
                axis.shown(crossover.low),
                axis.shown(crossover.high),
                names(&below.candidates)
            ),
            None => format!(
                "up to {} {}, undecided from there to {}",
                axis.shown(below.to),
                names(&below.candidates),
                axis.shown(above.from)
            ),
        });
        rest = rest_of(axis, crossover, "above", [above.from, above.to]);
    }
    let last = stretches.last().map(|stretch| names(&stretch.candidates)).unwrap_or_default();
    format!("{}; {rest} {last}.", parts.join("; then "))
}

/// Words where the last stretch lies: beyond a crossover, or else from the first to the last amount at which its candidates lead,
/// because nothing was measured beyond that.
fn rest_of(axis: &SizeSweep, crossover: Option<&Crossover>, beyond: &str, [from, to]: [u64; 2]) -> String {
    match crossover {
        Some(_) => format!("{beyond} that"),
        None if from == to => format!("at {}", axis.shown(from)),
        None => format!("from {} to {}", axis.shown(from), axis.shown(to)),
    }
}

/// Returns the crossover between the leaders of two neighbouring stretches.
fn crossover<'r>(
    result: &'r RunResult,
    axis: &SizeSweep,
    below: &SizeRange,
    above: &SizeRange,
) -> Option<&'r Crossover> {
    result.crossovers.iter().find(|crossover| {
        crossover.phase == axis.phase
            && below.candidates.contains(&crossover.below)
            && above.candidates.contains(&crossover.above)
            && crossover.low <= above.from
            && crossover.high >= below.to
    })
}

/// Words the leaders of a memory sweep, from the largest share of memory downwards.
fn memory_text(result: &RunResult, axis: &SizeSweep, stretches: &[SizeRange]) -> String {
    let (mut parts, mut rest) = (Vec::new(), String::new());
    for pair in stretches.windows(2).rev() {
        let [below, above] = pair else { continue };
        let leads = names(&above.candidates);
        let crossover = crossover(result, axis, below, above);
        parts.push(match crossover {
            Some(found) => format!(
                "{leads} as long as about {} % [{}, {}] of the data fit",
                axis.percent(found.bytes),
                axis.percent(found.low),
                axis.percent(found.high)
            ),
            None => format!(
                "{leads} as long as {} of the data fit, undecided from there down to {}",
                axis.shown(above.from),
                axis.shown(below.to)
            ),
        });
        rest = rest_of(axis, crossover, "below", [below.to, below.from]);
    }
    let last = stretches.first().map(|stretch| names(&stretch.candidates)).unwrap_or_default();
    format!("{}; {rest} {last}.", parts.join("; then "))
}
