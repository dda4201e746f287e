//! A sweep: rates, ratios and times over the size of blobs, memory, the number of blobs or the age, and where the winner changes.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::super::view::standing::compared;
use super::super::view::words::with_interval;
use super::axis::Scale;
use super::figure::{Bands, Curve, CurvePoint, Figure, HorizontalAxis, curves};
use super::phase_cells::PhaseCells;
use super::phases::{self, RATE, TIME, hover};
use super::table::{Table, TableCell, named, shown};
use super::{Looks, ratio};
use crate::corpus::CorpusId;
use crate::judge::{cells, compare, interval};
use crate::plan::text::{MEMORY_SWEEP, part_of, whole_of};
use crate::result::{Cell, Crossover, Interval, ReferenceRole, RunResult, Verdict};
use crate::units;

/// Variable of a sweep.
#[derive(Clone, Copy)]
pub enum SweepVariable {
    /// Size of blobs, in bytes.
    Sizes,
    /// Share of the data that fits into memory, in percent.
    Memory {
        /// Size of the data in bytes.
        of: u64,
    },
    /// Number of blobs in a growing store.
    Blobs,
    /// Age of a store: bytes overwritten since the fill for each live byte.
    Ages,
}

impl SweepVariable {
    /// Variable that the crossovers of a phase refer to.
    fn for_phase(result: &RunResult, phase: &str) -> SweepVariable {
        if result.plan.grow.is_some() {
            return SweepVariable::Blobs;
        }
        if result.plan.age.is_some() {
            return SweepVariable::Ages;
        }
        match phase == MEMORY_SWEEP && result.plan.memory_sweep.is_some() {
            true => SweepVariable::Memory { of: result.corpus.bytes },
            false => SweepVariable::Sizes,
        }
    }

    /// Position of a phase and corpus on the axis; `None` if they are not part of the sweep.
    fn place(&self, phase: &str, corpus_id: CorpusId) -> Option<f64> {
        match self {
            SweepVariable::Sizes => corpus_id.bytes().map(|bytes| bytes as f64),
            SweepVariable::Memory { .. } => share_of(phase),
            SweepVariable::Blobs => part_of(phase).map(|(_, blobs)| f64::from(blobs)),
            SweepVariable::Ages => part_of(phase).map(|(_, percent)| f64::from(percent) / 100.0),
        }
    }

    fn at(&self, block: &PhaseCells<'_>) -> Option<f64> {
        self.place(block.phase, block.corpus_id)
    }

    /// Position on the axis of an end of a crossover, which is given in bytes, blobs or percent of an age.
    fn end(&self, bytes: u64) -> f64 {
        match self {
            SweepVariable::Sizes | SweepVariable::Blobs => bytes as f64,
            SweepVariable::Ages => bytes as f64 / 100.0,
            SweepVariable::Memory { of } => 100.0 * bytes as f64 / (*of).max(1) as f64,
        }
    }

    fn scale(&self) -> Scale {
        match self {
            SweepVariable::Sizes => Scale { title: "size of blob", show: units::bytes },
            SweepVariable::Memory { .. } => Scale { title: "memory, for a share of the data", show: percent },
            SweepVariable::Blobs => Scale { title: "blobs in the store", show: units::count },
            SweepVariable::Ages => Scale { title: "storage age", show: units::count },
        }
    }

    /// The axis of these blocks: logarithmic, except for ages, which begin at 0.
    fn across(&self, blocks: &[&PhaseCells<'_>]) -> HorizontalAxis {
        let scale = self.scale();
        match self {
            SweepVariable::Ages => {
                let tick = |block: &&PhaseCells<'_>| self.at(block).map(|age| (age, self.shown(age)));
                HorizontalAxis::Steps(scale.title, blocks.iter().filter_map(tick).collect())
            }
            SweepVariable::Sizes | SweepVariable::Memory { .. } | SweepVariable::Blobs => {
                HorizontalAxis::Log(scale)
            }
        }
    }

    fn shown(&self, place: f64) -> String {
        (self.scale().show)(place)
    }

    /// Name in titles.
    fn name(&self) -> &'static str {
        match self {
            SweepVariable::Sizes => "size",
            SweepVariable::Memory { .. } => "memory",
            SweepVariable::Blobs => "number of blobs",
            SweepVariable::Ages => "storage age",
        }
    }
}

fn percent(share: f64) -> String {
    format!("{} %", units::count(share))
}

/// Name of a phase; all phases of a memory sweep share one name, and so do the steps of a growth or of ageing.
pub fn name<'r>(result: &RunResult, phase: &'r str) -> &'r str {
    if result.plan.has_steps() {
        return whole_of(phase);
    }
    if result.plan.memory_sweep.is_some() && share_of(phase).is_some() { MEMORY_SWEEP } else { phase }
}

/// Memory of a phase of a memory sweep, in percent of the data.
fn share_of(phase: &str) -> Option<f64> {
    phase.strip_prefix(MEMORY_SWEEP)?.strip_prefix('-')?.parse().ok()
}

/// Renders one phase at all sizes, numbers of blobs or ages, or the reads of a memory sweep.
pub fn section(result: &RunResult, looks: &Looks, phase: &str, blocks: &[&PhaseCells<'_>]) -> Markup {
    let axis = SweepVariable::for_phase(result, phase);
    let of_phase = result.crossovers.iter().filter(|crossover| crossover.phase == phase);
    let (winners, others): (Vec<&Crossover>, Vec<&Crossover>) =
        of_phase.partition(|crossover| is_of_winners(result, crossover));
    html! {
        details.phase id={ "phase-" (phase) } open {
            summary { h3 { (phase) } " " span.conditions {
                @if let Some(all) = PhaseCells::merge(blocks) { (phases::conditions(result, &all)) }
            } }
            @if winners.is_empty() {
                p { (nothing_found(axis)) }
            } @else {
                (table_of("Where the winner changes", false, axis, &winners))
            }
            @if !others.is_empty() {
                details.everything {
                    summary { "Other pairs in which one overtakes the other (" (others.len()) ")" }
                    (table_of("Where other candidates overtake", false, axis, &others))
                }
            }
            @if blocks.iter().all(|block| block.drawn().is_empty()) {
                p { "No candidate has figures of this phase; the reasons are under " a href="#not-ranked" { "Not ranked" } "." }
            } @else {
                div.plots {
                    (sweep_figure(axis, looks, blocks, &rate(blocks)))
                    @if let Some(figure) = ratios(axis, result, looks, blocks) { (figure) }
                    @for (below, above) in pairs(&winners) {
                        @if let Some(figure) = pair(axis, looks, blocks, &winners, below, above) { (figure) }
                    }
                    (sweep_figure(axis, looks, blocks, &median_time(blocks)))
                }
            }
            @for block in blocks {
                details.everything {
                    summary { @if let Some(at) = axis.at(block) { "Times and all figures at " (axis.shown(at)) } }
                    div.plots { @if let Some(figure) = phases::latency(looks, block) { (figure) } }
                    (phases::everything(result, block))
                }
            }
        }
    }
}

fn nothing_found(axis: SweepVariable) -> &'static str {
    match axis {
        SweepVariable::Sizes => "At no size is the change of leader proved.",
        SweepVariable::Memory { .. } => "At no share of memory is the change of leader proved.",
        SweepVariable::Blobs => "At no number of blobs is the change of leader proved.",
        SweepVariable::Ages => "At no age is the change of leader proved.",
    }
}

/// Tables of where the winner changes, over all phases: the answer of a sweep.
pub fn winners(result: &RunResult) -> Markup {
    let of_winners = result.crossovers.iter().filter(|crossover| is_of_winners(result, crossover));
    if result.plan.has_steps() {
        let crossovers: Vec<&Crossover> = of_winners.collect();
        let (title, axis) = match result.plan.grow {
            Some(_) => ("Numbers of blobs at which the winner changes", SweepVariable::Blobs),
            None => ("Ages at which the winner changes", SweepVariable::Ages),
        };
        return html! { (table_of(title, true, axis, &crossovers)) };
    }
    let (by_memory, by_size): (Vec<&Crossover>, Vec<&Crossover>) = of_winners.partition(|crossover| {
        matches!(SweepVariable::for_phase(result, &crossover.phase), SweepVariable::Memory { .. })
    });
    let of_memory = SweepVariable::Memory { of: result.corpus.bytes };
    html! {
        (table_of("Sizes at which the winner changes", true, SweepVariable::Sizes, &by_size))
        (table_of("Memory at which the winner changes", false, of_memory, &by_memory))
    }
}

/// True if both candidates of the crossover lead at the end where they are proved to be faster.
fn is_of_winners(result: &RunResult, crossover: &Crossover) -> bool {
    let axis = SweepVariable::for_phase(result, &crossover.phase);
    let is_there = |cell: &Cell, end: f64| {
        let place = axis.place(&cell.phase, cell.corpus_id);
        let is_of_phase =
            matches!(axis, SweepVariable::Memory { .. }) || name(result, &cell.phase) == crossover.phase;
        // Crossover ends are rounded to whole bytes. The age of a freshly filled store is 0, so nothing is divided by it.
        is_of_phase && place.is_some_and(|place| (place - end).abs() <= 1e-6 * end)
    };
    let leads = |store: &str, bytes: u64| {
        let end = axis.end(bytes);
        result.results.iter().any(|cell| cell.leader && cell.store == store && is_there(cell, end))
    };
    leads(&crossover.below, crossover.low) && leads(&crossover.above, crossover.high)
}

fn table_of(title: &str, of_all_phases: bool, axis: SweepVariable, crossovers: &[&Crossover]) -> Table {
    let (less, more) = match axis {
        SweepVariable::Sizes => ("faster below", "faster above"),
        SweepVariable::Memory { .. } => ("faster with less", "faster with more"),
        SweepVariable::Blobs => ("faster with fewer", "faster with more"),
        SweepVariable::Ages => ("faster before", "faster after"),
    };
    let head = ["phase", less, more, "#at about", "#proved below up to", "#proved above from"];
    let skipped = usize::from(!of_all_phases);
    let mut table = Table::new(title, &head[skipped..]);
    for crossover in crossovers {
        let end = |bytes: u64| TableCell::from(axis.shown(axis.end(bytes)));
        let entries = [
            TableCell::from(&crossover.phase),
            named(&crossover.below),
            named(&crossover.above),
            end(crossover.bytes),
            end(crossover.low),
            end(crossover.high),
        ];
        table.push(entries.into_iter().skip(skipped).collect());
    }
    table
}

/// A quantity plotted over the variable of a sweep.
struct SweepQuantity {
    title: &'static str,
    note: &'static str,
    up: Scale,
    value: fn(&Cell) -> Option<Interval>,
    show: fn(&Cell, &Interval) -> String,
}

fn rate(blocks: &[&PhaseCells<'_>]) -> SweepQuantity {
    let writes = blocks.iter().any(|block| block.writes());
    SweepQuantity {
        title: if writes { "Settled rate" } else { "Rate" },
        note: "Bars are 95 % intervals over rounds.",
        up: RATE,
        value: |cell| cell.settled_ops_per_s.or(cell.ops_per_s),
        show: |_, rate| format!("{} ops/s", with_interval(rate, units::count)),
    }
}

fn median_time(blocks: &[&PhaseCells<'_>]) -> SweepQuantity {
    let open = blocks.iter().any(|block| block.is_open());
    SweepQuantity {
        title: if open { "Median response time" } else { "Median service time" },
        note: "Half of the ops took no longer; the curves of each are below.",
        up: TIME,
        value: |cell| {
            let p50 = cell.response_ns.or(cell.service_ns)?.p50?;
            Some(Interval::point(p50 as f64))
        },
        show: |cell, p50| {
            let p99 = cell.response_ns.or(cell.service_ns).and_then(|times| times.p99);
            let p99 = p99.map_or(String::new(), |ns| format!(", 99 %: {}", units::nanoseconds(ns as f64)));
            format!("50 %: {}{p99}", units::nanoseconds(p50.median))
        },
    }
}

/// Candidates that are drawn at any size, in order of first appearance.
fn candidates<'r>(blocks: &[&PhaseCells<'r>]) -> Vec<&'r str> {
    units::distinct(blocks.iter().flat_map(|block| block.drawn()).map(|cell| cell.store.as_str()))
}

fn sweep_figure(
    axis: SweepVariable,
    looks: &Looks,
    blocks: &[&PhaseCells<'_>],
    quantity: &SweepQuantity,
) -> Figure {
    let title = format!("{} by {}", quantity.title, axis.name());
    let mut table = table_over(axis, &title, blocks);
    let mut lines = Vec::new();
    for store in candidates(blocks) {
        let mut line = vec![named(store)];
        let mut points = Vec::new();
        for block in blocks {
            let cell = block.drawn().into_iter().find(|cell| cell.store == store);
            let value = cell.and_then(|cell| Some((cell, (quantity.value)(cell)?)));
            line.push(shown(value.as_ref(), |(cell, value)| (quantity.show)(cell, value)));
            if let (Some((cell, value)), Some(x)) = (value, axis.at(block)) {
                let figures = format!("{}: {}", axis.shown(x), (quantity.show)(cell, &value));
                points.push(CurvePoint { x, y: value, hover: hover(store, &figures) });
            }
        }
        table.push(line);
        lines.push(Curve { label: store.to_owned(), look: looks.get(store), points, marks: true });
    }
    let across = (axis.across(blocks), quantity.up);
    curves(&title, quantity.note, across, &lines, (None, Vec::new()), table)
}

fn table_over(axis: SweepVariable, title: &str, blocks: &[&PhaseCells<'_>]) -> Table {
    let titles: Vec<String> =
        blocks.iter().filter_map(|block| Some(format!("#{}", axis.shown(axis.at(block)?)))).collect();
    let head: Vec<&str> = std::iter::once("store").chain(titles.iter().map(String::as_str)).collect();
    Table::new(title, &head)
}

/// Plots the ratios to the plan's reference candidate, which is fixed before anything is measured.
fn ratios(
    axis: SweepVariable,
    result: &RunResult,
    looks: &Looks,
    blocks: &[&PhaseCells<'_>],
) -> Option<Figure> {
    let title = format!("Ratio to the reference by {}", axis.name());
    let mut table = table_over(axis, &title, blocks);
    let mut lines = Vec::new();
    let mut reference = "";
    for store in candidates(blocks) {
        let mut line = vec![named(store)];
        let mut points = Vec::new();
        for block in blocks {
            let cell = block.drawn().into_iter().find(|cell| cell.store == store);
            let comparison = cell.and_then(|cell| compared(result, cell, ReferenceRole::Plan));
            let ratio = comparison.and_then(|comparison| Some((comparison, comparison.ratio?)));
            line.push(shown(ratio, |(comparison, ratio)| {
                format!("{} {}", interval::text(&ratio), comparison.verdict.name())
            }));
            let comparable = ratio.filter(|(comparison, _)| comparison.verdict != Verdict::NotRanked);
            if let (Some((comparison, ratio)), Some(x)) = (comparable, axis.at(block)) {
                reference = &comparison.reference;
                let text = interval::text(&ratio);
                let figures = format!("{}: {text} {}", axis.shown(x), comparison.verdict.name());
                points.push(CurvePoint { x, y: ratio, hover: hover(store, &figures) });
            }
        }
        table.push(line);
        if !points.is_empty() {
            lines.push(Curve { label: store.to_owned(), look: looks.get(store), points, marks: true });
        }
    }
    let note = format!(
        "Rate over the rate of {reference}, the candidate fixed by the plan; above the line is faster. Candidates that may not be compared with it are only in the table."
    );
    let up = Scale { title: "rate / reference", show: ratio };
    (!lines.is_empty())
        .then(|| curves(&title, &note, (axis.across(blocks), up), &lines, (Some(1.0), Vec::new()), table))
}

/// Pairs of candidates that overtake each other.
fn pairs<'r>(crossovers: &[&'r Crossover]) -> BTreeSet<(&'r str, &'r str)> {
    let sorted = |crossover: &&'r Crossover| {
        let (a, b) = (crossover.below.as_str(), crossover.above.as_str());
        if a <= b { (a, b) } else { (b, a) }
    };
    crossovers.iter().map(sorted).collect()
}

/// Plots the ratio of two candidates, with the range in which the winner changes.
fn pair(
    axis: SweepVariable,
    looks: &Looks,
    blocks: &[&PhaseCells<'_>],
    crossovers: &[&Crossover],
    a: &str,
    b: &str,
) -> Option<Figure> {
    let title = format!("{a} against {b}");
    let mut table = Table::new(&title, [axis.name(), "#ratio", "verdict"]);
    let mut points = Vec::new();
    for block in blocks {
        let find = |store: &str| {
            block.drawn().into_iter().find(|cell| cell.store == store && cell.not_ranked.is_none())
        };
        let (Some(x), Some(over), Some(under)) = (axis.at(block), find(a), find(b)) else { continue };
        let compared = compare::with_reference(&cells::series(over), &cells::series(under));
        let Some((ratio, verdict)) = compared else { continue };
        let text = interval::text(&ratio);
        let what = match verdict {
            Verdict::Faster => format!("{a} faster"),
            Verdict::Slower => format!("{b} faster"),
            other => other.name().to_owned(),
        };
        table.push(vec![axis.shown(x).into(), text.clone().into(), what.clone().into()]);
        points.push(CurvePoint { x, y: ratio, hover: hover(&axis.shown(x), &format!("{text}: {what}")) });
    }
    let bands: Bands = crossovers
        .iter()
        .filter(|crossover| [(a, b), (b, a)].contains(&(crossover.below.as_str(), crossover.above.as_str())))
        .map(|crossover| (axis.end(crossover.low), axis.end(crossover.bytes), axis.end(crossover.high)))
        .collect();
    let note = format!(
        "Rate of {a} over rate of {b}. The grey range is where the winner changes: at its two ends the faster \
         one is proved, and the dashed line is where they would be equal."
    );
    let curve = Curve { label: title.clone(), look: looks.get(a), points, marks: true };
    let up = Scale { title: "rate / rate", show: ratio };
    (!curve.points.is_empty())
        .then(|| curves(&title, &note, (axis.across(blocks), up), &[curve], (Some(1.0), bands), table))
}
