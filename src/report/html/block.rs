//! One phase (and size of a sweep): its cells in the order in which they are shown, and their places.

use super::super::words;
use crate::result::{Against, Cell, Comparison, RunResult};
use crate::stats::summary;

/// The cells of one phase, at one size of a sweep.
pub struct Block<'r> {
    /// The phase.
    pub phase: &'r str,
    /// The size of a sweep.
    pub sweep_bytes: Option<u64>,
    /// Its cells: ranked ones first, each group by speed; then those that are not; yardsticks last.
    pub cells: Vec<&'r Cell>,
}

/// Every block in the order of the run.
pub fn blocks(result: &RunResult) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for cell in &result.results {
        let same =
            |block: &&mut Block<'_>| block.phase == cell.phase && block.sweep_bytes == cell.sweep_bytes;
        match blocks.iter_mut().find(same) {
            Some(block) => block.cells.push(cell),
            None => {
                let (phase, sweep_bytes) = (cell.phase.as_str(), cell.sweep_bytes);
                blocks.push(Block { phase, sweep_bytes, cells: vec![cell] });
            }
        }
    }
    for block in &mut blocks {
        let mut ordered: Vec<&Cell> =
            summary::grouped(&block.cells).into_iter().flat_map(|(_, members)| members).collect();
        let mut rest: Vec<&Cell> =
            block.cells.iter().copied().filter(|cell| cell.not_ranked.is_some()).collect();
        let time = |cell: &Cell| summary::op_ns(cell).unwrap_or(f64::INFINITY);
        rest.sort_by(|a, b| time(a).total_cmp(&time(b)));
        rest.sort_by_key(|cell| (summary::is_yardstick(cell), cell.rounds.is_empty()));
        ordered.extend(rest);
        block.cells = ordered;
    }
    blocks
}

impl<'r> Block<'r> {
    /// The cells that are drawn: those with figures that are no yardsticks, whose speed would flatten the others.
    pub fn drawn(&self) -> Vec<&'r Cell> {
        let drawn = |cell: &&Cell| !cell.rounds.is_empty() && !summary::is_yardstick(cell);
        self.cells.iter().copied().filter(drawn).collect()
    }

    /// Whether settled rates are what is ranked.
    pub fn writes(&self) -> bool {
        self.cells.iter().any(|cell| summary::writes(cell))
    }

    /// Whether ops came due at planned instants.
    pub fn is_open(&self) -> bool {
        self.cells.iter().any(|cell| cell.response_ns.is_some())
    }
}

/// A cell's place in its phase.
pub enum Place<'r> {
    /// The highest rate.
    Best,
    /// The highest rate of caches.
    BestCache,
    /// The only one of its kind.
    Alone,
    /// What it is to the best.
    Ratio(&'r Comparison),
    /// Measured, and not ranked.
    NotRanked,
    /// Without figures.
    Absent(&'static str),
}

impl<'r> Place<'r> {
    /// The place of a cell.
    pub fn of(result: &'r RunResult, cell: &Cell) -> Place<'r> {
        if cell.rounds.is_empty() {
            return Place::Absent(words::status(cell.status));
        }
        if cell.not_ranked.is_some() {
            return Place::NotRanked;
        }
        match compared(result, cell, Against::Best) {
            Some(comparison) => Place::Ratio(comparison),
            None if summary::is_alone(result, cell) => Place::Alone,
            None if summary::is_cache(cell) => Place::BestCache,
            None => Place::Best,
        }
    }

    /// In words, with the interval.
    pub fn text(&self) -> String {
        match self {
            Place::Best => "best".to_owned(),
            Place::BestCache => "best cache".to_owned(),
            Place::Alone => "alone".to_owned(),
            Place::Ratio(comparison) => comparison
                .ratio
                .map(|ratio| format!("{} {}", summary::interval_text(&ratio), comparison.verdict.name()))
                .unwrap_or_default(),
            Place::NotRanked => "not ranked".to_owned(),
            Place::Absent(why) => (*why).to_owned(),
        }
    }
}

/// The comparison of a cell with the plan's reference or with the best.
pub fn compared<'r>(result: &'r RunResult, cell: &Cell, against: Against) -> Option<&'r Comparison> {
    result.comparisons.iter().find(|comparison| {
        comparison.against == against
            && comparison.store == cell.store
            && comparison.phase == cell.phase
            && comparison.sweep_bytes == cell.sweep_bytes
    })
}
