//! What to do: every candidate in each kind of work that the run was asked about, and the one place whose worst case is least.

use super::super::cells::{op_ns, series};
use super::super::compare::rank;
use super::super::ranking;
use super::{Question, asked, cells_of, standard, subject, titled};
use crate::plan::text::Design;
use crate::result::{Advice, Cell, Next, Place, Reason, RunResult, Situation, Standing, WorstCase};
use crate::rules::{REQUEST_NS, REQUEST_SHARE};

/// What a run says to somebody who has to choose. A sweep, a published claim and loads of pages are other questions.
pub fn advice(plan: &Design, result: &RunResult) -> Option<Advice> {
    if plan.corpora.len() > 1 || !plan.text.claim.is_empty() || result.shows_pages() {
        return None;
    }
    let questions = asked(plan, result).into_iter().chain(standard(plan, result));
    let situations: Vec<Situation> = questions.filter_map(|question| situation(result, &question)).collect();
    let one_place = one_place(&situations);
    (!situations.is_empty()).then_some(Advice { request_ns: REQUEST_NS, situations, one_place })
}

/// One kind of work, where there is something to choose from.
fn situation(result: &RunResult, question: &Question) -> Option<Situation> {
    let is_meant = |cell: &&Cell| !ranking::is_baseline(cell) && ranking::league(cell) == subject(result);
    let cells: Vec<&Cell> = cells_of(result, question)?.into_iter().filter(is_meant).collect();
    let groups = ranking::grouped(&cells);
    let (name, main) = groups.first()?;
    // The time of a store that is little beside the harness is a bound: who is proved to be faster with the harness is so without.
    let is_bound = |cell: &&Cell| matches!(cell.not_ranked, Some(Reason::MostlyHarness { .. }));
    let is_comparable =
        |cell: &&Cell| (cell.not_ranked.is_none() || is_bound(cell)) && ranking::ranked_with(cell) == *name;
    let compared: Vec<&Cell> = cells.iter().copied().filter(is_comparable).collect();
    if compared.len() < 2 {
        return None;
    }
    let ranking = rank(&compared.iter().map(|cell| series(cell)).collect::<Vec<_>>())?;
    let best = compared.iter().find(|cell| cell.store == ranking.best)?;
    let own_share = (1.0 - best.harness_share.unwrap_or(0.0)).max(f64::MIN_POSITIVE);
    let times = |cell: &Cell| match ranking.ratios.get(&cell.store) {
        None => (Some(1.0), Some(1.0)),
        Some((ratio, _)) => (Some(1.0 / ratio.median), ratio.low.map(|low| 1.0 / (low * own_share))),
    };
    let leads = |cell: &Cell| ranking.leaders.contains(&cell.store);
    let standing = |cell: &&Cell| {
        let place = match cell.not_ranked {
            _ if is_comparable(cell) && leads(cell) => Place::Leads,
            Some(_) => Place::NotRanked,
            None if is_comparable(cell) => Place::Behind,
            None => Place::Apart,
        };
        let is_compared = matches!(place, Place::Leads | Place::Behind);
        let (times, times_at_most) = if is_compared { times(cell) } else { (None, None) };
        Standing {
            store: cell.store.clone(),
            op_ns: op_ns(cell),
            is_bound: is_bound(cell),
            place,
            times,
            times_at_most,
        }
    };
    let mut standings: Vec<Standing> = cells.iter().map(standing).collect();
    let time = |standing: &Standing| standing.op_ns.unwrap_or(f64::MAX);
    standings.sort_by(|a, b| a.place.cmp(&b.place).then(time(a).total_cmp(&time(b))));
    let (title, phase) = (titled(question, main.first().copied()), main[0].phase.clone());
    let next = next(&standings);
    let fastest_ns = op_ns(best)? * own_share;
    Some(Situation { title, short: question.short.clone(), phase, fastest_ns, next, standings })
}

/// The first that is behind, and by how much.
fn next(standings: &[Standing]) -> Option<Next> {
    let fastest =
        standings.iter().filter(|standing| standing.place == Place::Leads).find_map(|of| of.op_ns)?;
    let next = standings.iter().find(|standing| standing.place == Place::Behind)?;
    // Who leads is decided by paired rounds, in which a time by itself has no part.
    let more_ns = (next.op_ns? - fastest).max(0.0);
    Some(Next { store: next.store.clone(), more_ns, is_little: more_ns < REQUEST_SHARE * REQUEST_NS })
}

/// The worst case of each candidate that can be compared in every situation, the least first. It needs no weights: nobody knows
/// yet what will be done most. What it needs is how long a request is that an op is part of: beside it, 10 times as long as the
/// fastest may be nothing.
fn one_place(situations: &[Situation]) -> Vec<WorstCase> {
    let Some((first, _)) = situations.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Vec::new();
    };
    let worst = |standing: &Standing| {
        let cases: Vec<WorstCase> =
            situations.iter().map(|situation| case(situation, &standing.store)).collect::<Option<_>>()?;
        let slower_at_most = cases.iter().map(|case| case.slower_at_most).fold(0.0, f64::max);
        let worst = cases.into_iter().max_by(|a, b| a.slower.total_cmp(&b.slower))?;
        Some(WorstCase { slower_at_most, ..worst })
    };
    let mut all: Vec<WorstCase> = first.standings.iter().filter_map(worst).collect();
    all.sort_by(|a, b| a.slower.total_cmp(&b.slower));
    all
}

/// How much longer a request takes with one op of a candidate in it.
fn case(situation: &Situation, store: &str) -> Option<WorstCase> {
    let standing = situation.of(store)?;
    let (own, times) = (standing.op_ns?, standing.times?);
    let longer = |own: f64, fastest: f64| (REQUEST_NS + own) / (REQUEST_NS + fastest) - 1.0;
    let least = situation.fastest_ns;
    Some(WorstCase {
        store: store.to_owned(),
        phase: situation.phase.clone(),
        slower: longer(own, own / times).max(0.0),
        slower_at_most: longer(least * standing.times_at_most?, least).max(0.0),
    })
}

#[cfg(test)]
mod tests;
