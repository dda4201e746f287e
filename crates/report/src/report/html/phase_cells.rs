//! The cells of one phase (and size of a sweep) in display order.

use std::collections::BTreeSet;

use super::super::view::standing::baselines;
use crate::corpus::CorpusId;
use crate::judge::{cells, ranking};
use crate::result::{Cell, RunResult};
use crate::units;

/// The cells of one phase, at one size of a sweep.
pub struct PhaseCells<'r> {
    /// Id of the phase.
    pub phase: &'r str,
    /// Corpus, i.e. the size of a sweep.
    pub corpus_id: CorpusId,
    /// Baselines that other candidates are compared with.
    baselines: BTreeSet<&'r str>,
    /// Cells: ranked ones first, each group by speed; then unranked ones; baselines last.
    pub cells: Vec<&'r Cell>,
}

/// Returns the cells of each phase and size in the order of the run.
pub fn phase_cells(result: &RunResult) -> Vec<PhaseCells<'_>> {
    let blocks = units::distinct(result.results.iter().map(|cell| (cell.phase.as_str(), cell.corpus_id)));
    let blocks = blocks.into_iter().map(|(phase, corpus_id)| {
        let is_of_block = |cell: &&Cell| cell.phase == phase && cell.corpus_id == corpus_id;
        let all: Vec<&Cell> = result.results.iter().filter(is_of_block).collect();
        let mut cells: Vec<&Cell> =
            ranking::grouped(&all).into_iter().flat_map(|(_, members)| members).collect();
        let mut rest: Vec<&Cell> = all.into_iter().filter(|cell| cell.not_ranked.is_some()).collect();
        let time = |cell: &Cell| cells::op_ns(cell).unwrap_or(f64::INFINITY);
        rest.sort_by(|a, b| time(a).total_cmp(&time(b)));
        rest.sort_by_key(|cell| (ranking::is_baseline(cell), cell.rounds.is_empty()));
        cells.extend(rest);
        PhaseCells { phase, corpus_id, baselines: baselines(result), cells }
    });
    blocks.collect()
}

/// Label of a cell in a plot.
pub fn label(cell: &Cell) -> String {
    if ranking::is_baseline(cell) { format!("{} (baseline)", cell.store) } else { cell.store.clone() }
}

impl<'r> PhaseCells<'r> {
    /// Combines all sizes of a sweep into one.
    pub fn merge(parts: &[&PhaseCells<'r>]) -> Option<PhaseCells<'r>> {
        let first = parts.first()?;
        let cells = parts.iter().flat_map(|part| part.cells.iter().copied()).collect();
        let baselines = first.baselines.clone();
        Some(PhaseCells { phase: first.phase, corpus_id: CorpusId::ONLY, baselines, cells })
    }

    /// Cells to draw: those with figures, and of the baselines only those that others are compared with.
    pub fn drawn(&self) -> Vec<&'r Cell> {
        let is_drawn =
            |cell: &Cell| !ranking::is_baseline(cell) || self.baselines.contains(cell.store.as_str());
        self.cells.iter().copied().filter(|cell| !cell.rounds.is_empty() && is_drawn(cell)).collect()
    }

    /// True if settled rates are ranked.
    pub fn writes(&self) -> bool {
        self.cells.iter().any(|cell| cells::writes(cell))
    }

    /// True if ops were due at planned instants.
    pub fn is_open(&self) -> bool {
        self.cells.iter().any(|cell| cell.response_ns.is_some())
    }

    /// True if all candidates were offered the same rate, so that response times are compared.
    pub fn is_offered(&self) -> bool {
        self.cells.iter().any(|cell| cells::is_offered(cell))
    }
}
