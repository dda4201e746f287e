//! What to do: every candidate in each kind of work that the run was asked about, and the one place whose worst case is least.

use super::super::cells::{op_ns, series};
use super::super::compare::{Ranking, rank};
use super::super::ranking;
use super::super::upkeep::is_upkeep;
use super::{Question, asked, cells_of, classes, eligible, standard, subject, titled};
use crate::plan::text::Design;
use crate::result::{
    Advice, CandidateResult, Cell, Interval, Next, Place, Reason, RunResult, Situation, Standing, Undecided,
    Unfit, WorstCase,
};
use crate::rules::{REQUEST_SHARE, VERDICT_ROUNDS};

/// What a run says to somebody who has to choose. A sweep, a published claim and loads of pages are other questions.
pub fn advice(plan: &Design, result: &RunResult) -> Option<Advice> {
    if !plan.asks_what_to_do() || result.shows_pages() {
        return None;
    }
    let advice = of_cells(plan, result, &result.results)?;
    let by_size = classes::by_size(plan, result, &advice);
    Some(Advice { by_size, ..advice })
}

/// What these cells of a run say.
pub(super) fn of_cells(plan: &Design, result: &RunResult, cells: &[Cell]) -> Option<Advice> {
    let unfit = unfit(plan, result);
    let questions = asked(plan, result).into_iter().chain(standard(plan, result));
    // Whole stores are listed or backed up now and then: that has a table of its own, and no part in a worst case of requests.
    let is_meant = |question: &Question| {
        plan.mixes(question.writes) && !question.phases.iter().any(|phase| is_upkeep(result, phase))
    };
    let mixed = questions.filter(is_meant);
    let situations: Vec<Situation> =
        mixed.filter_map(|question| situation(plan, result, cells, &unfit, &question)).collect();
    let places = one_place(plan.request_ns, &situations);
    let undecided = places.first().and_then(|place| undecided(&place.store, &situations));
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
        undecided,
        by_size,
    })
}

/// The candidates that do not serve what is needed.
fn unfit(plan: &Design, result: &RunResult) -> Vec<Unfit> {
    let lacking = |candidate: &CandidateResult| {
        let lacks = candidate.lacks(&plan.need);
        let fits = lacks.as_ref().is_some_and(Vec::is_empty);
        (!fits).then(|| Unfit { store: candidate.store.clone(), lacks })
    };
    if plan.need.is_empty() { Vec::new() } else { eligible(result).into_iter().filter_map(lacking).collect() }
}

/// One kind of work, where there is something to choose from.
fn situation(
    plan: &Design,
    result: &RunResult,
    cells: &[Cell],
    unfit: &[Unfit],
    question: &Question,
) -> Option<Situation> {
    let is_meant = |cell: &&Cell| {
        let is_unfit = unfit.iter().any(|unfit| unfit.store == cell.store);
        !is_unfit && !ranking::is_baseline(cell) && ranking::league(cell) == subject(result)
    };
    let cells: Vec<&Cell> = cells_of(cells, question)?.into_iter().filter(is_meant).collect();
    let groups = ranking::grouped(&cells);
    let (name, main) = groups.first()?;
    // The time of a store that is little beside the harness is a bound: who is proved to be faster with the harness is so without.
    let is_comparable = |cell: &&Cell| ranking::has_time(cell) && ranking::ranked_with(cell) == *name;
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
    // Who leads together with one that is undecided is undecided, too.
    let leaders = if ranking.leaders.iter().any(is_undecided) { Place::Undecided } else { Place::Leads };
    let leads = |cell: &Cell| rounds < VERDICT_ROUNDS || ranking.leaders.contains(&cell.store);
    let standing = |cell: &&Cell| {
        let place = match cell.not_ranked {
            _ if is_comparable(cell) && leads(cell) => leaders,
            Some(_) => Place::NotRanked,
            None if is_comparable(cell) => Place::Behind,
            None => Place::Apart,
        };
        let is_compared = matches!(place, Place::Leads | Place::Undecided | Place::Behind);
        let (times, times_at_most) = if is_compared { times(cell) } else { (None, None) };
        Standing {
            store: cell.store.clone(),
            op_ns: op_ns(cell),
            is_bound: cell.not_ranked.as_ref().is_some_and(Reason::is_bound),
            place,
            is_brief: place == Place::NotRanked && cell.not_ranked.as_ref().is_some_and(is_brief),
            times,
            times_at_most,
        }
    };
    let mut standings: Vec<Standing> = cells.iter().map(standing).collect();
    let time = |standing: &Standing| standing.op_ns.unwrap_or(f64::MAX);
    standings.sort_by(|a, b| a.place.cmp(&b.place).then(time(a).total_cmp(&time(b))));
    let (title, phase) = (titled(question, main.first().copied()), main[0].phase.clone());
    let next = next(plan.request_ns, &standings, &ranking);
    let fastest_ns = op_ns(best)? * own_share;
    Some(Situation { title, short: question.short.clone(), phase, rounds, fastest_ns, next, standings })
}

/// Whether a kind of work has too few rounds for a verdict.
pub fn has_few_rounds(situation: &Situation) -> bool {
    (1..VERDICT_ROUNDS).contains(&situation.rounds)
}

/// The rounds that may decide it, where it is undecided: what a verdict needs, or else twice as many as there were.
pub fn rounds_to_decide(situation: &Situation) -> Option<u32> {
    let few = has_few_rounds(situation);
    situation.undecided().next().map(|_| if few { VERDICT_ROUNDS } else { 2 * situation.rounds })
}

/// How many times as long as the fastest a candidate takes at most, by the least that its ratio may be and the store's share of the
/// fastest one's time. Two rounds may have an interval that reaches anywhere: that bounds nothing.
fn bound(low: f64, own_share: f64) -> Option<f64> {
    const TIMES_MAX: f64 = 1e6;
    Some(1.0 / (low * own_share)).filter(|times| *times <= TIMES_MAX)
}

/// The first that is behind, and by how much.
fn next(request_ns: f64, standings: &[Standing], ranking: &Ranking) -> Option<Next> {
    let fastest =
        standings.iter().filter(|standing| standing.place == Place::Leads).find_map(|of| of.op_ns)?;
    let next = standings.iter().find(|standing| standing.place == Place::Behind)?;
    // Who leads is decided by paired rounds, in which a time by itself has no part.
    let more_ns = (next.op_ns? - fastest).max(0.0);
    // Its rate over that of the fastest one, the other way round.
    let times = ranking
        .ratios
        .get(&next.store)
        .map(|(ratio, _)| Interval { high: ratio.low.and_then(|low| bound(low, 1.0)), ..ratio.turned() });
    let is_little = more_ns < REQUEST_SHARE * request_ns;
    let own = next.op_ns?;
    let slower = times.map(|times| longer(request_ns, own, own / times.median));
    Some(Next { store: next.store.clone(), more_ns, slower, times, is_little })
}

/// The worst case of each candidate that can be compared in every situation, the least first. It needs no weights: nobody knows
/// yet what will be done most. What it needs is how long a request is that an op is part of: beside it, 10 times as long as the
/// fastest may be nothing.
fn one_place(request_ns: f64, situations: &[Situation]) -> Vec<WorstCase> {
    let Some((first, _)) = situations.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Vec::new();
    };
    let worst = |standing: &Standing| {
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

/// Who looks faster than a candidate in a kind of work, and was measured too briefly there to be ranked: with them left out, a slower
/// one would be recommended for being slow.
fn undecided(place: &str, situations: &[Situation]) -> Option<Undecided> {
    let of_situation = |situation: &Situation| {
        let own = situation.of(place)?.op_ns?;
        let is_meant =
            |standing: &&Standing| standing.is_brief && standing.op_ns.is_some_and(|time| time < own);
        let stores: Vec<String> =
            situation.standings.iter().filter(is_meant).map(|standing| standing.store.clone()).collect();
        (!stores.is_empty()).then(|| Undecided { phase: situation.phase.clone(), stores })
    };
    situations.iter().filter_map(of_situation).max_by_key(|undecided| undecided.stores.len())
}

/// How much longer a request takes with one op of a candidate in it.
fn case(request_ns: f64, situation: &Situation, store: &str) -> Option<WorstCase> {
    let standing = situation.of(store)?;
    let (own, times) = (standing.op_ns?, standing.times?);
    let least = situation.fastest_ns;
    Some(WorstCase {
        store: store.to_owned(),
        phase: situation.phase.clone(),
        slower: longer(request_ns, own, own / times),
        // A candidate that no round bounds is in the list all the same: the best one may be it.
        slower_at_most: standing.times_at_most.map(|times| longer(request_ns, least * times, least)),
    })
}

/// By which share a request with one op in it takes longer than with the fastest op, from the time that each takes.
fn longer(request_ns: f64, own: f64, fastest: f64) -> f64 {
    ((request_ns + own) / (request_ns + fastest) - 1.0).max(0.0)
}

#[cfg(test)]
mod tests;
