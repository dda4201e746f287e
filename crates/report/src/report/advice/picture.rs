//! The figure of the recommendation: the distance of each candidate from the fastest in each kind of work, with intervals.

use super::AdviceRow;
use crate::judge::interval;
use crate::report::html::Looks;
use crate::report::html::figure::{Dot, Figure, Strip, strips};
use crate::report::html::phases::hover;
use crate::report::table::{Table, named, shown};
use crate::report::view::standing::CellRank;
use crate::report::view::work;
use crate::result::{Advice, CandidateRank, Interval, RunResult, Situation, SituationResult};

/// Returns the figure if there are at least two candidates to show.
pub(super) fn figure(
    result: &RunResult,
    looks: &Looks,
    advice: &Advice,
    rows: &[AdviceRow<'_>],
) -> Option<Figure> {
    let shown_rows: Vec<&AdviceRow<'_>> = rows.iter().filter(|row| row.is_of_answer()).collect();
    if shown_rows.len() < 2 {
        return None;
    }
    let labels: Vec<String> = shown_rows.iter().map(|row| row.store.to_owned()).collect();
    let head_of = |situation: &Situation| work::head(result, situation);
    let strip = |(column, situation): (usize, &Situation)| {
        let head = head_of(situation);
        let mut strip = Strip { group: head.group, name: head.line(), ..Strip::default() };
        for (line, row) in shown_rows.iter().enumerate() {
            let time = &row.times[column];
            let Some(value) = times_as_long(result, situation, row.store) else {
                strip.empty.push((line, time.in_place_of_dot()));
                continue;
            };
            if time.place == Some(CandidateRank::Undecided) {
                strip.undecided.push(line);
            }
            let told = format!("{}: {} times as long as the fastest", head.label(), interval::text(&value));
            let (look, hover) = (looks.get(row.store), hover(row.store, &told));
            strip.dots.push(Dot { candidate: line, look, value, hover, open: false, beside: false });
        }
        strip
    };
    let columns: Vec<Strip> = advice.situations.iter().enumerate().map(strip).collect();
    let heads = advice.situations.iter().map(|situation| format!("#{}", head_of(situation).label()));
    let mut table = Table::new("Times as long as the fastest", ["store".to_owned()].into_iter().chain(heads));
    for store in &labels {
        let figures = advice
            .situations
            .iter()
            .map(|situation| shown(times_as_long(result, situation, store), |value| interval::text(&value)));
        table.push(std::iter::once(named(store)).chain(figures).collect());
    }
    let note = "An op over one of the fastest, with 95 % intervals that hold for all of a column at once. Further to the left is faster; all \
                columns have one logarithmic scale. Grey: too noisy to call, or too few rounds.";
    Some(strips("Times as long as the fastest", note, &labels, &columns, table))
}

/// Ratio of the time per op to the fastest's; `None` for a candidate that is not compared with it.
fn times_as_long(result: &RunResult, situation: &Situation, store: &str) -> Option<Interval> {
    // Every group of candidates that are compared with each other has a best of its own.
    let standing = situation.result_for(store).filter(|of| of.place <= CandidateRank::Behind)?;
    // A fastest candidate whose time is mostly blobwise's own work has no rank in its phase. Then only the recommendation compares
    // the others with it, and its intervals have no lower end.
    let is_best = |of: &&SituationResult| of.times == Some(1.0) && of.times_at_most == Some(1.0);
    let is_by_phase = situation.standings.iter().find(is_best).is_none_or(|best| !best.is_bound);
    let cell = result.cell(store, &situation.phase)?;
    match CellRank::for_cell(result, cell) {
        CellRank::Best if is_by_phase => Some(Interval::point(1.0)),
        CellRank::Ratio(comparison) if is_by_phase => Some(comparison.ratio?.turned()),
        _ => standing.times.map(|times| Interval { high: standing.times_at_most, ..Interval::point(times) }),
    }
}
