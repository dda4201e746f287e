//! Standing of a cell in its phase, the same in every kind of report.

use std::collections::BTreeSet;

use crate::judge::ranking::ComparisonGroup;
use crate::judge::{interval, ranking};
use crate::result::{Cell, Comparison, Interval, ReferenceRole, RunResult};

/// Standing of a cell in its phase.
pub enum CellRank<'r> {
    /// Highest rate.
    Best,
    /// Highest rate among caches.
    BestCache,
    /// An experimental technique of blobwise, which is not compared with stores that are available elsewhere.
    Technique,
    /// The only one of its comparison group.
    Alone,
    /// Compared with the best.
    Ratio(&'r Comparison),
    /// Measured, but not ranked.
    NotRanked,
    /// No figures, for this reason.
    Absent(&'static str),
}

impl<'r> CellRank<'r> {
    /// Returns the standing of a cell.
    pub fn for_cell(result: &'r RunResult, cell: &Cell) -> CellRank<'r> {
        if cell.rounds.is_empty() {
            return CellRank::Absent(cell.status.name());
        }
        if cell.not_ranked.is_some() {
            return CellRank::NotRanked;
        }
        match compared(result, cell, ReferenceRole::Best) {
            Some(comparison) => CellRank::Ratio(comparison),
            None if ranking::is_technique(cell) => CellRank::Technique,
            None if ranking::is_alone(result, cell) => CellRank::Alone,
            None if ranking::is_cache(cell) => CellRank::BestCache,
            None => CellRank::Best,
        }
    }

    /// Formats the standing, with the interval.
    pub fn text(&self) -> String {
        match self {
            CellRank::Best => "best".to_owned(),
            CellRank::BestCache => "best cache".to_owned(),
            CellRank::Technique => "(experimental)".to_owned(),
            CellRank::Alone => "alone".to_owned(),
            CellRank::Ratio(comparison) => comparison
                .ratio
                .map(|ratio| format!("{} {}", interval::text(&ratio), comparison.verdict.name()))
                .unwrap_or_default(),
            CellRank::NotRanked => "not ranked".to_owned(),
            CellRank::Absent(why) => (*why).to_owned(),
        }
    }
}

/// Remark after the name of a candidate outside the main comparison group.
pub fn remark(group: ComparisonGroup) -> Option<&'static str> {
    match group {
        ComparisonGroup::Direct => None,
        ComparisonGroup::Delivery => Some("delivery"),
        ComparisonGroup::Caches => Some("cache"),
        ComparisonGroup::Techniques => Some("experimental"),
    }
}

/// Baselines that candidates are compared with. The other baselines do next to nothing, and their speed would flatten a plot.
pub fn baselines(result: &RunResult) -> BTreeSet<&str> {
    let with_baseline =
        result.comparisons.iter().filter(|comparison| comparison.against == ReferenceRole::Baseline);
    with_baseline.map(|comparison| comparison.reference.as_str()).collect()
}

/// States the candidates' rates relative to a baseline, the highest first; `None` if none is compared with it.
pub fn beside_baseline(result: &RunResult, baseline: &Cell) -> Option<String> {
    let mut ratios: Vec<(&str, Interval)> = result
        .comparisons
        .iter()
        .filter(|comparison| {
            comparison.against == ReferenceRole::Baseline
                && comparison.reference == baseline.store
                && comparison.phase == baseline.phase
                && comparison.corpus_id == baseline.corpus_id
        })
        .filter_map(|comparison| Some((comparison.store.as_str(), comparison.ratio?)))
        .collect();
    ratios.sort_by(|(_, a), (_, b)| b.median.total_cmp(&a.median));
    let told: Vec<String> =
        ratios.iter().map(|(store, ratio)| format!("`{store}` {}", interval::text(ratio))).collect();
    (!told.is_empty()).then(|| format!("rates over that of `{}`: {}", baseline.store, told.join(", ")))
}

/// Returns the comparison of a cell with the plan's reference or with the best.
pub fn compared<'r>(result: &'r RunResult, cell: &Cell, against: ReferenceRole) -> Option<&'r Comparison> {
    all_compared(result, cell, against).next()
}

/// Returns all comparisons of a cell of this kind.
pub fn all_compared<'r>(
    result: &'r RunResult,
    cell: &Cell,
    against: ReferenceRole,
) -> impl Iterator<Item = &'r Comparison> {
    result.comparisons.iter().filter(move |comparison| {
        comparison.against == against
            && comparison.store == cell.store
            && comparison.phase == cell.phase
            && comparison.corpus_id == cell.corpus_id
    })
}
