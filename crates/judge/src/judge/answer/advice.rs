//! Recommendation: every candidate in each kind of work that the run was asked about, and the one place with the best
//! worst case.

use super::super::cells::{op_ns, series};
use super::super::compare::{Ranking, rank};
use super::super::ranking;
use super::super::upkeep::is_upkeep;
use super::{Question, asked, cells_of, classes, eligible, standard, subject, titled};
use crate::plan::text::Design;
use crate::result::{
    Advice, Cache, CandidateRank, CandidateResult, Cell, Interval, Reason, RunResult, RunnerUp, Situation,
    SituationResult, UndecidedCandidates, UnfitCandidate, WorstCase,
};
use crate::rules::{REQUEST_SHARE, VERDICT_ROUNDS};

/// Returns the recommendation of a run; `None` for sweeps, published claims and page loads, which ask other questions,
/// or if there is nothing to recommend.
pub fn advice(plan: &Design, result: &RunResult) -> Option<Advice> {
    if !plan.asks_what_to_do() || result.shows_pages() {
        return None;
    }
    let advice = of_cells(plan, result, &result.results)?;
    let by_size = classes::by_size(plan, result, &advice);
    Some(Advice { by_size, ..advice })
}

/// Returns the recommendation that follows from the given cells of a run.
pub(super) fn of_cells(plan: &Design, result: &RunResult, cells: &[Cell]) -> Option<Advice> {
    let unfit = unfit(plan, result);
    let questions = asked(plan, result).into_iter().chain(standard(plan, result));
    // Listing or backing up a whole store happens rarely: it has a table of its own and does not count in a worst case
    // of requests.
    let is_meant = |question: &Question| {
        plan.mixes(question.writes) && !question.phases.iter().any(|phase| is_upkeep(result, phase))
    };
    let mixed = questions.filter(is_meant);
    let situations: Vec<Situation> =
        mixed.filter_map(|question| situation(plan, result, cells, &unfit, &question)).collect();
    let (split, counted): (Vec<Situation>, Vec<Situation>) =
        situations.iter().cloned().partition(|situation| is_split_by_metadata(cells, situation));
    let not_counted = split.into_iter().map(|situation| situation.phase).collect();
    let places = one_place(plan.request_ns, &counted);
    let undecided = places.first().and_then(|place| undecided(&place.store, &counted));
    let is_open = undecided.is_some() || situations.iter().any(has_few_rounds);
    let one_place = if is_open { Vec::new() } else { places };
    let (request_ns, need) = (plan.request_ns, plan.need.clone());
    let fits = |candidate: &&CandidateResult| unfit.iter().all(|unfit| unfit.store != candidate.store);
    let fit = eligible(result).into_iter().filter(fits).map(|candidate| candidate.store.clone());
    let fit = if need.is_empty() { Vec::new() } else { fit.collect() };
    let says_something = !situations.is_empty() || !need.is_empty();
    let by_size = Vec::new();
    says_something.then_some(Advice {
        request_ns,
        need,
        fit,
        unfit,
        situations,
        one_place,
        not_counted,
        undecided,
        by_size,
    })
}

/// True if candidates cannot be compared in a situation only because evicting files without root leaves their metadata cached.
/// In the worst case it would rule out whichever of them are fewer.
fn is_split_by_metadata(cells: &[Cell], situation: &Situation) -> bool {
    let is_lukewarm = |standing: &SituationResult| {
        let is_of = |cell: &&Cell| cell.store == standing.store && cell.phase == situation.phase;
        cells.iter().find(is_of).is_some_and(|cell| cell.cache == Cache::Lukewarm)
    };
    situation.standings.iter().any(|of| of.place == CandidateRank::Apart && is_lukewarm(of))
}

/// Returns the candidates that do not serve what the plan needs.
fn unfit(plan: &Design, result: &RunResult) -> Vec<UnfitCandidate> {
    let lacking = |candidate: &CandidateResult| {
        let lacks = candidate.lacks(&plan.need);
        let fits = lacks.as_ref().is_some_and(Vec::is_empty);
        (!fits).then(|| UnfitCandidate { store: candidate.store.clone(), lacks })
    };
    if plan.need.is_empty() { Vec::new() } else { eligible(result).into_iter().filter_map(lacking).collect() }
}

/// Returns one kind of work; `None` if fewer than two candidates are comparable in it.
fn situation(
    plan: &Design,
    result: &RunResult,
    cells: &[Cell],
    unfit: &[UnfitCandidate],
    question: &Question,
) -> Option<Situation> {
    let is_meant = |cell: &&Cell| {
        let is_unfit = unfit.iter().any(|unfit| unfit.store == cell.store);
        !is_unfit && !ranking::is_baseline(cell) && ranking::comparison_group(cell) == subject(result)
    };
    let cells: Vec<&Cell> = cells_of(cells, question)?.into_iter().filter(is_meant).collect();
    let groups = ranking::grouped(&cells);
    let (name, main) = groups.first()?;
    // A client-bound time is an upper bound of the store's: a candidate proved faster including the harness is faster
    // without it.
    let is_comparable = |cell: &&Cell| ranking::has_time(cell) && ranking::ranked_among(cell) == *name;
    let compared: Vec<&Cell> = cells.iter().copied().filter(is_comparable).collect();
    if compared.len() < 2 {
        return None;
    }
    let ranking = rank(&compared.iter().map(|cell| series(cell)).collect::<Vec<_>>())?;
    let best = compared.iter().find(|cell| cell.store == ranking.best)?;
    let own_share = (1.0 - best.harness_share.unwrap_or(0.0)).max(f64::MIN_POSITIVE);
    let times = |cell: &Cell| match ranking.ratios.get(&cell.store) {
        None => (Some(1.0), Some(1.0)),
        Some((ratio, _)) => (Some(1.0 / ratio.median), ratio.low.and_then(|low| bound(low, own_share))),
    };
    let rounds = compared.iter().map(|cell| cell.rounds.len() as u32).min().unwrap_or(0);
    let is_undecided = |store: &String| rounds < VERDICT_ROUNDS || ranking.is_wide(store);
    // If one of the joint leaders is undecided, all of them are.
    let leaders = if ranking.leaders.iter().any(is_undecided) {
        CandidateRank::Undecided
    } else {
        CandidateRank::Leads
    };
    let leads = |cell: &Cell| rounds < VERDICT_ROUNDS || ranking.leaders.contains(&cell.store);
    let standing = |cell: &&Cell| {
        let place = match cell.not_ranked {
            _ if is_comparable(cell) && leads(cell) => leaders,
            Some(_) => CandidateRank::NotRanked,
            None if is_comparable(cell) => CandidateRank::Behind,
            None => CandidateRank::Apart,
        };
        let is_compared =
            matches!(place, CandidateRank::Leads | CandidateRank::Undecided | CandidateRank::Behind);
        let (times, times_at_most) = if is_compared { times(cell) } else { (None, None) };
        SituationResult {
            store: cell.store.clone(),
            op_ns: op_ns(cell),
            is_bound: cell.not_ranked.as_ref().is_some_and(Reason::is_bound),
            place,
            is_brief: place == CandidateRank::NotRanked && cell.not_ranked.as_ref().is_some_and(is_brief),
            times,
            times_at_most,
        }
    };
    let mut standings: Vec<SituationResult> = cells.iter().map(standing).collect();
    let time = |standing: &SituationResult| standing.op_ns.unwrap_or(f64::MAX);
    standings.sort_by(|a, b| a.place.cmp(&b.place).then(time(a).total_cmp(&time(b))));
    let (title, phase) = (titled(question, main.first().copied()), main[0].phase.clone());
    let next = next(plan.request_ns, &standings, &ranking);
    let fastest_ns = op_ns(best)? * own_share;
    Some(Situation { title, short: question.short.clone(), phase, rounds, fastest_ns, next, standings })
}

/// True if a kind of work has too few rounds for a verdict.
pub fn has_few_rounds(situation: &Situation) -> bool {
    (1..VERDICT_ROUNDS).contains(&situation.rounds)
}

/// Returns the number of rounds that may decide it, if it is undecided: the minimum for a verdict, or twice the present
/// number.
pub fn rounds_to_decide(situation: &Situation) -> Option<u32> {
    let few = has_few_rounds(situation);
    situation.undecided().next().map(|_| if few { VERDICT_ROUNDS } else { 2 * situation.rounds })
}

/// Returns how many times as long as the fastest candidate another takes at most, from the lower end of its rate ratio
/// and the store's share of the fastest candidate's time. `None` above `TIMES_MAX`: the interval of two rounds may be
/// so wide that it bounds nothing.
fn bound(low: f64, own_share: f64) -> Option<f64> {
    const TIMES_MAX: f64 = 1e6;
    Some(1.0 / (low * own_share)).filter(|times| *times <= TIMES_MAX)
}

/// Returns the runner-up and its distance from the fastest leader.
fn next(request_ns: f64, standings: &[SituationResult], ranking: &Ranking) -> Option<RunnerUp> {
    let fastest =
        standings.iter().filter(|standing| standing.place == CandidateRank::Leads).find_map(|of| of.op_ns)?;
    let next = standings.iter().find(|standing| standing.place == CandidateRank::Behind)?;
    // The leader is decided by rounds in pairs, not by the mean times.
    let more_ns = (next.op_ns? - fastest).max(0.0);
    // The ratio is a rate over the fastest rate, so it is inverted.
    let times = ranking
        .ratios
        .get(&next.store)
        .map(|(ratio, _)| Interval { high: ratio.low.and_then(|low| bound(low, 1.0)), ..ratio.turned() });
    let is_little = more_ns < REQUEST_SHARE * request_ns;
    let own = next.op_ns?;
    let slower = times.map(|times| longer(request_ns, own, own / times.median));
    Some(RunnerUp { store: next.store.clone(), more_ns, slower, times, is_little })
}

/// Returns the worst case of each candidate that is comparable in every situation, the best first. It needs no weights,
/// because nobody knows yet which op will be most frequent. It needs the duration of the request that an op is part of:
/// relative to that, ten times the fastest op time may be negligible.
fn one_place(request_ns: f64, situations: &[Situation]) -> Vec<WorstCase> {
    let Some((first, _)) = situations.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Vec::new();
    };
    let worst = |standing: &SituationResult| {
        let cases: Vec<WorstCase> = situations
            .iter()
            .map(|situation| case(request_ns, situation, &standing.store))
            .collect::<Option<_>>()?;
        let bounds = cases.iter().map(|case| case.slower_at_most);
        let slower_at_most = bounds.reduce(|a, b| Some(a?.max(b?))).flatten();
        let worst = cases.into_iter().max_by(|a, b| a.slower.total_cmp(&b.slower))?;
        Some(WorstCase { slower_at_most, ..worst })
    };
    let mut all: Vec<WorstCase> = first.standings.iter().filter_map(worst).collect();
    all.sort_by(|a, b| a.slower.total_cmp(&b.slower));
    all
}

fn is_brief(reason: &Reason) -> bool {
    reason.is_too_short() || reason.is_withheld()
}

/// Returns candidates that look faster than `place` in a kind of work in which they were measured too briefly to be
/// ranked. If these were ignored, a slower candidate would be recommended for being slow.
fn undecided(place: &str, situations: &[Situation]) -> Option<UndecidedCandidates> {
    let of_situation = |situation: &Situation| {
        let own = situation.result_for(place)?.op_ns?;
        let is_meant =
            |standing: &&SituationResult| standing.is_brief && standing.op_ns.is_some_and(|time| time < own);
        let stores: Vec<String> =
            situation.standings.iter().filter(is_meant).map(|standing| standing.store.clone()).collect();
        (!stores.is_empty()).then(|| UndecidedCandidates { phase: situation.phase.clone(), stores })
    };
    situations.iter().filter_map(of_situation).max_by_key(|undecided| undecided.stores.len())
}

/// Returns the slowdown of a request with one op of a candidate in a situation.
fn case(request_ns: f64, situation: &Situation, store: &str) -> Option<WorstCase> {
    let standing = situation.result_for(store)?;
    let (own, times) = (standing.op_ns?, standing.times?);
    let least = situation.fastest_ns;
    Some(WorstCase {
        store: store.to_owned(),
        phase: situation.phase.clone(),
        slower: longer(request_ns, own, own / times),
        // A candidate without a bound stays in the list, because it may be the best.
        slower_at_most: standing.times_at_most.map(|times| longer(request_ns, least * times, least)),
    })
}

/// Returns the relative slowdown of a request with one op of time `own` instead of the `fastest`.
fn longer(request_ns: f64, own: f64, fastest: f64) -> f64 {
    ((request_ns + own) / (request_ns + fastest) - 1.0).max(0.0)
}

#[cfg(test)]
mod tests;
