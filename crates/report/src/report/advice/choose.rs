//! What each candidate is the best choice for, and what choosing it gives up: one line each.

use super::AdviceRow;
use crate::judge::SMALL_SHARE;
use crate::judge::answer::{beaten_by, has_few_rounds};
use crate::plan::text::Need;
use crate::report::table::{TableCell, named, prose_cell, shown};
use crate::report::view::work;
use crate::result::{Advice, CandidateRank, RunResult, SituationResult};
use crate::units;

pub(super) const HEAD: [&str; 3] = ["store", "choose it for", "but"];

/// A candidate's line.
pub(super) struct RecommendationRow<'r> {
    pub store: &'r str,
    /// What it is best at, or a statement that it is best at nothing.
    pub reasons: String,
    /// Drawbacks: another candidate that beats it, and needs that others in the table meet and it does not.
    pub but: String,
}

impl RecommendationRow<'_> {
    pub(super) fn cells(&self) -> Vec<TableCell> {
        let but = Some(&self.but).filter(|but| !but.is_empty());
        vec![
            named(self.store),
            prose_cell(&self.reasons),
            but.map_or_else(|| shown(None, |none: String| none), prose_cell),
        ]
    }

    pub(super) fn sentence(&self) -> String {
        let but = if self.but.is_empty() { String::new() } else { format!(" But: {}.", self.but) };
        format!("Choose `{}` for: {}.{but}", self.store, self.reasons)
    }
}

/// Lines of the candidates in the main comparison group. Empty with too few rounds, and for memory sweeps, whose winners no
/// column shows.
pub(super) fn choices<'r>(
    result: &'r RunResult,
    advice: &Advice,
    rows: &[AdviceRow<'r>],
) -> Vec<RecommendationRow<'r>> {
    if result.plan.memory_sweep.is_some() || advice.situations.iter().all(has_few_rounds) {
        return Vec::new();
    }
    let meant = of_answer(rows);
    let served = served(result, &meant);
    let missed =
        advice.one_place.first().map(|place| lacks(result, &place.store, &served)).unwrap_or_default();
    let choice = |row: &&AdviceRow<'r>| {
        let lacks = lacks(result, row.store, &served);
        let more = missed.iter().filter(|need| !lacks.contains(need));
        let more: Vec<String> = more.map(|need| format!("`{}`", need.name())).collect();
        let mut reasons: Vec<String> = speed(advice, row.store);
        let least = least(result, &meant, row.store);
        reasons.extend((!least.is_empty()).then(|| format!("least {}", units::listed(&least, "and"))));
        reasons.extend((!more.is_empty()).then(|| format!("where you need {}", units::listed(&more, "or"))));
        if reasons.is_empty() {
            reasons.push("nothing that was measured".to_owned());
        }
        let beaten = beaten_by(result, row.store);
        let beaten = beaten.map(|by| format!("`{by}` is as fast or faster in every phase"));
        let but: Vec<String> =
            beaten.into_iter().chain((!lacks.is_empty()).then(|| lacking(&lacks))).collect();
        RecommendationRow { store: row.store, reasons: reasons.join("; "), but: but.join("; ") }
    };
    meant.iter().map(choice).collect()
}

/// States what the best single store does not have and another in the table does.
pub(super) fn given_up(result: &RunResult, advice: &Advice, rows: &[AdviceRow<'_>]) -> Option<String> {
    let place = &advice.one_place.first()?.store;
    let lacks = lacks(result, place, &served(result, &of_answer(rows)));
    let nouns: Vec<String> = lacks.iter().map(|need| need.noun().into_owned()).collect();
    (!nouns.is_empty()).then(|| format!("You give up: {}.", units::listed(&nouns, "and")))
}

fn of_answer<'a, 'r>(rows: &'a [AdviceRow<'r>]) -> Vec<&'a AdviceRow<'r>> {
    rows.iter().filter(|row| row.is_of_answer()).collect()
}

/// Needs met by any of these candidates.
fn served(result: &RunResult, rows: &[&AdviceRow<'_>]) -> Vec<Need> {
    let serves = |need: &Need| {
        let mut all = rows.iter().filter_map(|row| result.candidate(row.store)?.lacks(&[*need]));
        all.any(|lacks| lacks.is_empty())
    };
    Need::ALL.iter().copied().filter(serves).collect()
}

/// Needs that a candidate does not meet; empty if the result does not record what it meets.
fn lacks(result: &RunResult, store: &str, needs: &[Need]) -> Vec<Need> {
    result.candidate(store).and_then(|candidate| candidate.lacks(needs)).unwrap_or_default()
}

/// Describes a store that does not meet these needs.
fn lacking(needs: &[Need]) -> String {
    needs.iter().map(|need| need.lacking()).collect::<Vec<_>>().join("; ")
}

/// Kinds of work in which it is the fastest, and those in which no other is proved to be faster. If a candidate that is not
/// compared (too few ops, other promise) looks faster, it is not called the fastest.
fn speed(advice: &Advice, store: &str) -> Vec<String> {
    let (mut alone, mut shared) = (Vec::new(), Vec::new());
    for situation in &advice.situations {
        let Some(own) = situation.result_for(store).filter(|own| own.place == CandidateRank::Leads) else {
            continue;
        };
        let others = || situation.standings.iter().filter(|other| other.store != store);
        let looks_faster =
            |other: &SituationResult| other.op_ns.zip(own.op_ns).is_some_and(|(other, own)| other < own);
        let is_alone = others().all(|other| other.place != CandidateRank::Leads && !looks_faster(other));
        if is_alone { &mut alone } else { &mut shared }.push(work::named(situation));
    }
    let alone = (!alone.is_empty()).then(|| format!("{}: the fastest", alone.join(", ")));
    let shared = (!shared.is_empty()).then(|| format!("{}: nothing is proved 3 % faster", shared.join(", ")));
    alone.into_iter().chain(shared).collect()
}

/// Resources of which it uses least by a margin that counts.
fn least(result: &RunResult, rows: &[&AdviceRow<'_>], store: &str) -> Vec<String> {
    let is_least = |of: fn(&AdviceRow<'_>) -> Option<f64>| {
        let own = rows.iter().find(|row| row.store == store).and_then(|row| of(row));
        let others = rows.iter().filter(|row| row.store != store).filter_map(|row| of(row));
        let next = others.reduce(f64::min);
        own.zip(next).is_some_and(|(own, next)| own < next * (1.0 - SMALL_SHARE))
    };
    let cheapest = result
        .costs
        .iter()
        .flat_map(|costs| &costs.months)
        .filter(|month| month.place == CandidateRank::Leads);
    let cheapest: Vec<&str> = cheapest.map(|month| month.store.as_str()).collect();
    let all = [
        ("memory", is_least(|row| row.memory.map(|taken| taken.own as f64))),
        ("disk", is_least(|row| row.per_byte)),
        ("money", cheapest == [store]),
    ];
    all.into_iter().filter(|(_, is_least)| *is_least).map(|(name, _)| name.to_owned()).collect()
}
