//! All candidates in all phases in one table: the overview.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::super::view::memory;
use super::super::view::standing::{CellRank, remark};
use super::phase_cells::PhaseCells;
use super::table::{Table, TableCell, named, shown};
use super::{PageData, size};
use crate::judge::ranking::ComparisonGroup;
use crate::judge::{interval, ranking};
use crate::result::{Cell, Footprint, Interval, RunResult, Verdict};
use crate::units;

/// Renders the section: one table, or one for each phase of a sweep.
pub fn section(view: &PageData<'_>) -> Markup {
    let (result, blocks) = (view.result, &view.first_parts);
    let sweep = blocks.iter().any(|block| block.corpus_id.bytes().is_some());
    let comparison_groups: BTreeSet<ComparisonGroup> = blocks
        .iter()
        .flat_map(|block| &block.cells)
        .filter(|cell| !ranking::is_baseline(cell))
        .map(|cell| ranking::comparison_group(cell))
        .collect();
    let phases = units::distinct(blocks.iter().map(|block| block.phase));
    html! {
        @if blocks.is_empty() {
            p { "Nothing was measured." }
        } @else {
            p {
                "Rate over the best rate of its column (where one rate was offered to all: best response time over its own); below it ops/s, for writes the settled ones. "
                span.leader { "Green" } ": no other is proved to be faster, or only by less than 3 %. "
                @if comparison_groups.len() > 1 {
                    "Places where files live, servers that deliver them, caches and experimental formats are each ranked among themselves. "
                }
                b { "=" } " equal within 3 %. " b { "~" } " cannot be told apart from the best. " b { "alone" } ": nothing may be compared with it. Intervals are below, phase by phase."
            }
            @if sweep {
                @for phase in phases {
                    @let columns: Vec<(String, &PhaseCells<'_>)> = blocks
                        .iter()
                        .filter(|block| block.phase == phase)
                        .map(|block| (block.corpus_id.bytes().map(size).unwrap_or_default(), block))
                        .collect();
                    (table(result, &format!("{phase} by size of blob"), &columns))
                }
            } @else {
                @let columns: Vec<(String, &PhaseCells<'_>)> =
                    blocks.iter().map(|block| (block.phase.to_owned(), block)).collect();
                (table(result, "All phases", &columns))
            }
        }
    }
}

fn table(result: &RunResult, caption: &str, columns: &[(String, &PhaseCells<'_>)]) -> Table {
    let disk = columns.iter().all(|(_, block)| block.corpus_id.is_only())
        && result.footprints.iter().any(|footprint| footprint.space_amplification.is_some());
    let titles: Vec<String> = columns.iter().map(|(title, _)| format!("#{title}")).collect();
    let mut head = vec!["store"];
    head.extend(titles.iter().map(String::as_str));
    if disk {
        head.push("#disk / byte");
    }
    let mut table = Table::new(caption, &head);
    // Whether the data fit into memory is decided by the run's corpus, for the sizes of a sweep too.
    let cells: Vec<&[&Cell]> = columns.iter().map(|(_, block)| block.cells.as_slice()).collect();
    let headings = memory::headings(result, &cells);
    if !headings.is_empty() {
        let around = |count: usize| std::iter::repeat_n(String::new(), count);
        let all: Vec<String> = around(1).chain(headings).chain(around(usize::from(disk))).collect();
        table = table.below(&all);
    }
    for candidate in &result.candidates {
        let cells: Vec<Option<&Cell>> = columns
            .iter()
            .map(|(_, block)| block.cells.iter().copied().find(|cell| cell.store == candidate.store))
            .collect();
        if cells.iter().flatten().any(|cell| ranking::is_baseline(cell)) {
            continue;
        }
        let group = ComparisonGroup::for_kind(candidate.kind);
        let mut line = vec![named(&candidate.store).remarked(remark(group))];
        line.extend(
            cells.iter().map(|cell| cell.map_or(shown(None::<String>, |text| text), |c| entry(result, c))),
        );
        if disk {
            let taken = result.footprints.iter().find(|footprint| footprint.store == candidate.store);
            let taken = taken.and_then(Footprint::added_per_byte);
            line.push(shown(taken, |taken| format!("{taken:.2}")));
        }
        table.push(line);
    }
    table
}

/// Standing of a cell and, below it, its rate.
fn entry(result: &RunResult, cell: &Cell) -> TableCell {
    let place = CellRank::for_cell(result, cell);
    let below = match cell.offered_ops_per_s {
        Some(_) => cell.response_ns.and_then(|times| times.p50).map(|ns| units::nanoseconds(ns as f64)),
        None => cell.settled_ops_per_s.or(cell.ops_per_s).map(|rate: Interval| units::count(rate.median)),
    };
    let (text, class) = match &place {
        CellRank::Best => (place.text(), "leader"),
        CellRank::BestCache | CellRank::Alone => (place.text(), ""),
        // Its name says what it is.
        CellRank::Technique => ("experimental".to_owned(), ""),
        CellRank::Ratio(comparison) => {
            let sign = match comparison.verdict {
                Verdict::Equal => " =",
                Verdict::CannotTellApart => " ~",
                Verdict::Faster | Verdict::Slower | Verdict::NotRanked => "",
            };
            let median = |ratio: Interval| interval::text(&Interval { low: None, high: None, ..ratio });
            let ratio = comparison.ratio.map_or(String::new(), median);
            (format!("{ratio}{sign}"), if cell.leader && ranking::is_choice(cell) { "leader" } else { "" })
        }
        CellRank::NotRanked | CellRank::Absent(_) => (place.text(), "unranked"),
    };
    let markup = html! {
        span title=[cell.not_ranked.as_ref().map(ToString::to_string)] { (text) }
        @if let Some(below) = below { br; small { (below) } }
    };
    TableCell::new(markup, class)
}
