//! The figure of the recommendation: the distance of each candidate from the fastest in each kind of work, with intervals.

use super::{AdviceRow, cell_of};
use crate::judge::interval;
use crate::report::html::Looks;
use crate::report::html::figure::{Dot, Figure, Strip, strips};
use crate::report::html::phases::hover;
use crate::report::html::table::{Table, named, shown};
use crate::report::view::standing::CellRank;
use crate::result::{Advice, Interval, RunResult, Situation};

/// Returns the figure if there are at least two candidates to show.
pub(super) fn of(
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
    let strip = |situation: &Situation| Strip {
        name: situation.short.clone(),
        dots: (0..)
            .zip(&labels)
            .filter_map(|(line, store)| {
                let value = times_as_long(result, situation, store)?;
                let told =
                    format!("{}: {} times as long as the fastest", situation.short, interval::text(&value));
                Some(Dot {
                    candidate: line,
                    look: looks.of(store),
                    value,
                    hover: hover(store, &told),
                    open: false,
                    beside: false,
                })
            })
            .collect(),
    };
    let columns: Vec<Strip> = advice.situations.iter().map(strip).collect();
    let heads: Vec<String> = columns.iter().map(|strip| format!("#{}", strip.name)).collect();
    let head: Vec<&str> = std::iter::once("store").chain(heads.iter().map(String::as_str)).collect();
    let mut table = Table::new("Times as long as the fastest", &head);
    for store in &labels {
        let figures = advice
            .situations
            .iter()
            .map(|situation| shown(times_as_long(result, situation, store), |value| interval::text(&value)));
        table.push(std::iter::once(named(store)).chain(figures).collect());
    }
    let note = "An op over one of the fastest, with 95 % intervals that hold for all of a column at once. Further to the left is faster; all \
                columns have one logarithmic scale.";
    Some(strips("Times as long as the fastest", note, &labels, &columns, table))
}

/// Ratio of the time per op to the fastest's; `None` for a candidate that is not compared with it.
fn times_as_long(result: &RunResult, situation: &Situation, store: &str) -> Option<Interval> {
    let cell = cell_of(result, store, &situation.phase).filter(|_| situation.of(store).is_some())?;
    match CellRank::for_cell(result, cell) {
        CellRank::Best => Some(Interval::point(1.0)),
        CellRank::Ratio(comparison) => Some(comparison.ratio?.turned()),
        _ => None,
    }
}
