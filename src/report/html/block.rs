//! One phase (and size of a sweep): its cells in the order in which they are shown.

use std::collections::BTreeSet;

use super::super::view::standing::baselines;
use crate::corpus::CorpusId;
use crate::judge::{cells, ranking};
use crate::result::{Cell, RunResult};

/// The cells of one phase, at one size of a sweep.
pub struct Block<'r> {
    /// The phase.
    pub phase: &'r str,
    /// The size of a sweep.
    pub corpus_id: CorpusId,
    /// Baselines that others are held against.
    baselines: BTreeSet<&'r str>,
    /// Its cells: ranked ones first, each group by speed; then those that are not; baselines last.
    pub cells: Vec<&'r Cell>,
}

/// Every block in the order of the run.
pub fn blocks(result: &RunResult) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for cell in &result.results {
        let same = |block: &&mut Block<'_>| block.phase == cell.phase && block.corpus_id == cell.corpus_id;
        match blocks.iter_mut().find(same) {
            Some(block) => block.cells.push(cell),
            None => {
                let (phase, corpus_id) = (cell.phase.as_str(), cell.corpus_id);
                blocks.push(Block { phase, corpus_id, baselines: baselines(result), cells: vec![cell] });
            }
        }
    }
    for block in &mut blocks {
        let mut ordered: Vec<&Cell> =
            ranking::grouped(&block.cells).into_iter().flat_map(|(_, members)| members).collect();
        let mut rest: Vec<&Cell> =
            block.cells.iter().copied().filter(|cell| cell.not_ranked.is_some()).collect();
        let time = |cell: &Cell| cells::op_ns(cell).unwrap_or(f64::INFINITY);
        rest.sort_by(|a, b| time(a).total_cmp(&time(b)));
        rest.sort_by_key(|cell| (ranking::is_baseline(cell), cell.rounds.is_empty()));
        ordered.extend(rest);
        block.cells = ordered;
    }
    blocks
}

/// What a cell is called in a plot.
pub fn label(cell: &Cell) -> String {
    if ranking::is_baseline(cell) { format!("{} (baseline)", cell.store) } else { cell.store.clone() }
}

impl<'r> Block<'r> {
    /// All parts of a sweep in one.
    pub fn over(parts: &[&Block<'r>]) -> Option<Block<'r>> {
        let first = parts.first()?;
        let cells = parts.iter().flat_map(|part| part.cells.iter().copied()).collect();
        let baselines = first.baselines.clone();
        Some(Block { phase: first.phase, corpus_id: CorpusId::ONLY, baselines, cells })
    }

    /// The cells that are drawn: those with figures, of baselines those that others are held against.
    pub fn drawn(&self) -> Vec<&'r Cell> {
        let is_drawn =
            |cell: &Cell| !ranking::is_baseline(cell) || self.baselines.contains(cell.store.as_str());
        self.cells.iter().copied().filter(|cell| !cell.rounds.is_empty() && is_drawn(cell)).collect()
    }

    /// Whether settled rates are what is ranked.
    pub fn writes(&self) -> bool {
        self.cells.iter().any(|cell| cells::writes(cell))
    }

    /// Whether ops came due at planned instants.
    pub fn is_open(&self) -> bool {
        self.cells.iter().any(|cell| cell.response_ns.is_some())
    }

    /// Whether all candidates were offered the same rate, so that response times are what is compared.
    pub fn is_offered(&self) -> bool {
        self.cells.iter().any(|cell| cells::is_offered(cell))
    }
}
