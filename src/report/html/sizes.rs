//! A sweep: rates, ratios and times over the size of blobs, and where the winner changes.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::super::place::compared;
use super::super::words::with_interval;
use super::block::Block;
use super::figure::{Across, Bands, Curve, Figure, Point, Scale, curves};
use super::phases::{self, RATE, TIME, hover};
use super::table::{Entry, Table, named, shown};
use super::{Looks, ratio, size};
use crate::corpus::CorpusId;
use crate::judge::{cells, compare, interval};
use crate::result::{Against, Cell, Crossover, Interval, RunResult, Verdict};
use crate::units;

/// Sizes of blobs.
const SIZES: Scale = Scale { title: "size of blob", show: units::bytes };

/// One phase at all sizes.
pub fn section(result: &RunResult, looks: &Looks, phase: &str, blocks: &[&Block<'_>]) -> Markup {
    let of_phase = result.crossovers.iter().filter(|crossover| crossover.phase == phase);
    let (winners, others): (Vec<&Crossover>, Vec<&Crossover>) =
        of_phase.partition(|crossover| is_of_winners(result, crossover));
    let first = blocks.first();
    html! {
        details.phase id={ "phase-" (phase) } open {
            summary { h3 { (phase) } " " span.conditions {
                @if let Some(block) = first {
                    (phases::conditions(result, &block.over_sizes()))
                }
            } }
            @if winners.is_empty() {
                p { "No size was found at which one row is proved to lead and another at a larger one." }
            } @else {
                (table_of("Where the winner changes", false, &winners))
            }
            @if !others.is_empty() {
                details.everything {
                    summary { "Other rows of which one overtakes the other (" (others.len()) ")" }
                    (table_of("Where other rows overtake", false, &others))
                }
            }
            @if blocks.iter().all(|block| block.drawn().is_empty()) {
                p { "No row has figures of this phase; the reasons are under " a href="#not-ranked" { "Not ranked" } "." }
            } @else {
                div.plots {
                    (over_sizes(looks, blocks, &rate(blocks)))
                    @if let Some(figure) = ratios(result, looks, blocks) { (figure) }
                    @for (below, above) in pairs(&winners) {
                        @if let Some(figure) = pair(looks, blocks, &winners, below, above) { (figure) }
                    }
                    (over_sizes(looks, blocks, &median_time(blocks)))
                }
            }
            @for block in blocks {
                details.everything {
                    summary { @if let Some(bytes) = block.corpus_id.bytes() { "Times and all figures at " (size(bytes)) } }
                    div.plots { @if let Some(figure) = phases::latency(looks, block) { (figure) } }
                    (phases::everything(result, block))
                }
            }
        }
    }
}

/// Where the winner changes, of all phases: the answer of a sweep.
pub fn winners(result: &RunResult) -> Table {
    let winners: Vec<&Crossover> =
        result.crossovers.iter().filter(|crossover| is_of_winners(result, crossover)).collect();
    table_of("Sizes at which the winner changes", true, &winners)
}

/// Whether one row leads where it is proved to be the faster one, and the other leads where that one is.
fn is_of_winners(result: &RunResult, crossover: &Crossover) -> bool {
    let leads = |store: &str, bytes: u64| {
        let mut cells = result.results.iter().filter(|cell| cell.phase == crossover.phase);
        cells.any(|cell| cell.leader && cell.store == store && cell.corpus_id == CorpusId::of(bytes))
    };
    leads(&crossover.below, crossover.low) && leads(&crossover.above, crossover.high)
}

fn table_of(title: &str, of_all_phases: bool, crossovers: &[&Crossover]) -> Table {
    let head =
        ["phase", "faster below", "faster above", "#at about", "#proved below up to", "#proved above from"];
    let skipped = usize::from(!of_all_phases);
    let mut table = Table::new(title, &head[skipped..]);
    for crossover in crossovers {
        let entries = [
            Entry::from(&crossover.phase),
            named(&crossover.below),
            named(&crossover.above),
            size(crossover.bytes).into(),
            size(crossover.low).into(),
            size(crossover.high).into(),
        ];
        table.push(entries.into_iter().skip(skipped).collect());
    }
    table
}

/// What is drawn over sizes.
struct Quantity {
    title: &'static str,
    note: &'static str,
    up: Scale,
    value: fn(&Cell) -> Option<Interval>,
    show: fn(&Cell, &Interval) -> String,
}

fn rate(blocks: &[&Block<'_>]) -> Quantity {
    let writes = blocks.iter().any(|block| block.writes());
    Quantity {
        title: if writes { "Settled rate by size" } else { "Rate by size" },
        note: "Bars are 95 % intervals over rounds.",
        up: RATE,
        value: |cell| cell.settled_ops_per_s.or(cell.ops_per_s),
        show: |_, rate| format!("{} ops/s", with_interval(rate, units::count)),
    }
}

fn median_time(blocks: &[&Block<'_>]) -> Quantity {
    let open = blocks.iter().any(|block| block.is_open());
    Quantity {
        title: if open { "Median response time by size" } else { "Median service time by size" },
        note: "Half of the ops took no longer; the curves of each size are below.",
        up: TIME,
        value: |cell| {
            let p50 = cell.response_ns.or(cell.service_ns)?.p50?;
            Some(Interval { median: p50 as f64, low: None, high: None })
        },
        show: |cell, p50| {
            let p99 = cell.response_ns.or(cell.service_ns).and_then(|times| times.p99);
            let p99 = p99.map_or(String::new(), |ns| format!(", 99 %: {}", units::nanoseconds(ns as f64)));
            format!("50 %: {}{p99}", units::nanoseconds(p50.median))
        },
    }
}

/// Every row that is drawn at some size, in the order in which rows first appear.
fn rows<'r>(blocks: &[&Block<'r>]) -> Vec<&'r str> {
    let mut rows: Vec<&str> = Vec::new();
    for cell in blocks.iter().flat_map(|block| block.drawn()) {
        if !rows.contains(&cell.store.as_str()) {
            rows.push(&cell.store);
        }
    }
    rows
}

fn over_sizes(looks: &Looks, blocks: &[&Block<'_>], quantity: &Quantity) -> Figure {
    let mut table = over_sizes_table(quantity.title, blocks);
    let mut lines = Vec::new();
    for store in rows(blocks) {
        let mut line = vec![named(store)];
        let mut points = Vec::new();
        for block in blocks {
            let cell = block.drawn().into_iter().find(|cell| cell.store == store);
            let value = cell.and_then(|cell| Some((cell, (quantity.value)(cell)?)));
            line.push(shown(value.as_ref(), |(cell, value)| (quantity.show)(cell, value)));
            if let (Some((cell, value)), Some(bytes)) = (value, block.corpus_id.bytes()) {
                let figures = format!("{}: {}", size(bytes), (quantity.show)(cell, &value));
                points.push(Point { x: bytes as f64, y: value, hover: hover(store, &figures) });
            }
        }
        table.push(line);
        lines.push(Curve { label: store.to_owned(), look: looks.of(store), points, marks: true });
    }
    curves(
        quantity.title,
        quantity.note,
        (Across::Log(SIZES), quantity.up),
        &lines,
        (None, Vec::new()),
        table,
    )
}

fn over_sizes_table(title: &str, blocks: &[&Block<'_>]) -> Table {
    let titles: Vec<String> =
        blocks.iter().filter_map(|block| Some(format!("#{}", size(block.corpus_id.bytes()?)))).collect();
    let head: Vec<&str> = std::iter::once("store").chain(titles.iter().map(String::as_str)).collect();
    Table::new(title, &head)
}

/// Rates over the rate of the plan's reference, fixed before anything was measured.
fn ratios(result: &RunResult, looks: &Looks, blocks: &[&Block<'_>]) -> Option<Figure> {
    let title = "Ratio to the reference by size";
    let mut table = over_sizes_table(title, blocks);
    let mut lines = Vec::new();
    let mut reference = "";
    for store in rows(blocks) {
        let mut line = vec![named(store)];
        let mut points = Vec::new();
        for block in blocks {
            let cell = block.drawn().into_iter().find(|cell| cell.store == store);
            let comparison = cell.and_then(|cell| compared(result, cell, Against::Plan));
            let ratio = comparison.and_then(|comparison| Some((comparison, comparison.ratio?)));
            line.push(shown(ratio, |(comparison, ratio)| {
                format!("{} {}", interval::text(&ratio), comparison.verdict.name())
            }));
            let comparable = ratio.filter(|(comparison, _)| comparison.verdict != Verdict::NotRanked);
            if let (Some((comparison, ratio)), Some(bytes)) = (comparable, block.corpus_id.bytes()) {
                reference = &comparison.reference;
                let text = interval::text(&ratio);
                let figures = format!("{}: {text} {}", size(bytes), comparison.verdict.name());
                points.push(Point { x: bytes as f64, y: ratio, hover: hover(store, &figures) });
            }
        }
        table.push(line);
        if !points.is_empty() {
            lines.push(Curve { label: store.to_owned(), look: looks.of(store), points, marks: true });
        }
    }
    let note = format!(
        "Rate over the rate of {reference}, the row fixed by the plan; above the line is faster. Rows that may not be compared with it are only in the table."
    );
    let up = Scale { title: "rate / reference", show: ratio };
    (!lines.is_empty())
        .then(|| curves(title, &note, (Across::Log(SIZES), up), &lines, (Some(1.0), Vec::new()), table))
}

/// The pairs of rows of which one overtakes the other.
fn pairs<'r>(crossovers: &[&'r Crossover]) -> BTreeSet<(&'r str, &'r str)> {
    let sorted = |crossover: &&'r Crossover| {
        let (a, b) = (crossover.below.as_str(), crossover.above.as_str());
        if a <= b { (a, b) } else { (b, a) }
    };
    crossovers.iter().map(sorted).collect()
}

/// One row over another, with the sizes between which the winner changes.
fn pair(looks: &Looks, blocks: &[&Block<'_>], crossovers: &[&Crossover], a: &str, b: &str) -> Option<Figure> {
    let title = format!("{a} against {b}");
    let mut table = Table::new(&title, &["size", "#ratio", "verdict"]);
    let mut points = Vec::new();
    for block in blocks {
        let find = |store: &str| {
            block.drawn().into_iter().find(|cell| cell.store == store && cell.not_ranked.is_none())
        };
        let (Some(bytes), Some(over), Some(under)) = (block.corpus_id.bytes(), find(a), find(b)) else {
            continue;
        };
        let compared = compare::with_reference(&cells::series(over), &cells::series(under));
        let Some((ratio, verdict)) = compared else { continue };
        let text = interval::text(&ratio);
        let what = match verdict {
            Verdict::Faster => format!("{a} faster"),
            Verdict::Slower => format!("{b} faster"),
            other => other.name().to_owned(),
        };
        table.push(vec![size(bytes).into(), text.clone().into(), what.clone().into()]);
        points.push(Point {
            x: bytes as f64,
            y: ratio,
            hover: hover(&size(bytes), &format!("{text}: {what}")),
        });
    }
    let bands: Bands = crossovers
        .iter()
        .filter(|crossover| [(a, b), (b, a)].contains(&(crossover.below.as_str(), crossover.above.as_str())))
        .map(|crossover| (crossover.low as f64, crossover.bytes as f64, crossover.high as f64))
        .collect();
    let note = format!(
        "Rate of {a} over rate of {b}. The grey range is where the winner changes: at its two ends the faster \
         one is proved, and the dashed line is where they would be equal."
    );
    let curve = Curve { label: title.clone(), look: looks.of(a), points, marks: true };
    let up = Scale { title: "rate / rate", show: ratio };
    (!curve.points.is_empty())
        .then(|| curves(&title, &note, (Across::Log(SIZES), up), &[curve], (Some(1.0), bands), table))
}
