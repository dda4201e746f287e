//! Each phase as plots and tables: rates, ratios to the best, times and rounds.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::super::measured::counted;
use super::super::view::standing::{CellRank, all_compared, beside_baseline, compared};
use super::super::view::words::{hot as hot_words, with_interval};
use super::axis::Scale;
use super::figure::{Curve, CurvePoint, Dot, Figure, HorizontalAxis, ReferenceMark, curves, dots};
use super::phase_cells::{PhaseCells, label};
use super::table::{Table, TableCell, named, shown};
use super::{Looks, prose, ratio, size};
use crate::judge::interval::EQUAL_WITHIN;
use crate::judge::ranking::ComparisonGroup;
use crate::judge::{cells, histogram, interval, ranking};
use crate::report::view::describe::describe;
use crate::result::{CacheProof, Cell, Interval, Percentiles, ReferenceRole, RunResult, Verdict};
use crate::units;

/// Phases that are expanded initially: those that the answer is based on.
const OPEN: &[&str] = &["fill", "read-warm", "read-cold", "overwrite", "load"];

/// Maximum number of candidates for which all plots are printed.
const PRINTED_MAX: usize = 16;

/// Scale for times of an op.
pub const TIME: Scale = Scale { title: "", show: units::nanoseconds };
/// Scale for ops per second.
pub const RATE: Scale = Scale { title: "ops/s", show: units::count };

/// Renders a phase that is not part of a sweep.
pub fn section(result: &RunResult, looks: &Looks, block: &PhaseCells<'_>) -> Markup {
    let phase = result.phases.iter().find(|phase| phase.id == block.phase);
    let about = phase.and_then(|phase| phase.about.as_ref());
    html! {
        details.phase id={ "phase-" (block.phase) } open[OPEN.contains(&block.phase)] {
            summary { h3 { (block.phase) } " " span.conditions { (conditions(result, block)) } (leaders(block)) }
            @if let Some(about) = about { p.about { (about) "." } }
            (groups(block))
            @if block.drawn().is_empty() {
                p { "No candidate has figures of this phase; the reasons are under " a href="#not-ranked" { "Not ranked" } "." }
            } @else {
                @let crowded = block.drawn().len() > PRINTED_MAX;
                div.plots {
                    div.some.unprinted[crowded] {
                        @if block.is_offered() { (response(looks, block)) } @else { (rates(result, looks, block)) }
                    }
                    @if let Some(figure) = ratios(result, looks, block) { (figure) }
                    div.some.unprinted[crowded] {
                        @if let Some(figure) = latency(looks, block) { (figure) }
                        (rounds(looks, block))
                    }
                }
                @if crowded {
                    p.printed { "Rates, times and rounds of " (block.drawn().len()) " candidates are drawn in the file that was printed." }
                }
            }
            (baselines(result, block))
            (session_reports_table(block))
            (everything(result, block))
        }
    }
}

/// Lists the candidates' rates relative to baselines that keep the same blobs on the same device.
fn baselines(result: &RunResult, block: &PhaseCells<'_>) -> Markup {
    let told: Vec<String> = block.cells.iter().filter_map(|cell| beside_baseline(result, cell)).collect();
    html! {
        @if !told.is_empty() {
            p { "Compared with baselines, which have no rank:" }
            ul { @for line in &told { li { (prose(line)) } } }
        }
    }
}

/// Conditions of the whole phase: cache, class, workers.
pub fn conditions(result: &RunResult, block: &PhaseCells<'_>) -> String {
    let cell = block.cells.iter().find(|cell| !cell.rounds.is_empty()).or(block.cells.first());
    let at = block.corpus_id.bytes().map(|bytes| format!("at {}, ", size(bytes))).unwrap_or_default();
    let hot = hot_words(&block.cells).map(|hot| format!("; {hot}")).unwrap_or_default();
    cell.map(|cell| at + &describe(result, cell, &block.cells) + &hot).unwrap_or_default()
}

/// States who leads, for readers who do not expand the phase: comparable leaders of the first comparison group that has ranked
/// candidates.
fn leaders(block: &PhaseCells<'_>) -> Markup {
    let groups = ranking::grouped(&block.cells);
    let may_lead = |(_, members): &&(ranking::Comparability, Vec<&Cell>)| !ranking::is_technique(members[0]);
    let first = groups.iter().find(may_lead).map_or(&[][..], |(_, members)| members.as_slice());
    let comparison_group = first.first().map(|cell| ranking::comparison_group(cell)).unwrap_or_default();
    let leaders: Vec<&str> =
        first.iter().filter(|cell| cell.leader).map(|cell| cell.store.as_str()).collect();
    // Without another there is nothing to decide.
    let alone = first.first().filter(|_| leaders.is_empty() && groups.len() == 1 && first.len() == 1);
    let among = match comparison_group {
        ComparisonGroup::Direct => "",
        ComparisonGroup::Delivery => " in delivery",
        ComparisonGroup::Caches => " among caches",
        ComparisonGroup::Techniques => " among experimental formats",
    };
    html! {
        span.leads {
            @if first.is_empty() { "nothing is ranked" }
            @else if let Some(alone) = alone { "alone: " code { (alone.store) } }
            @else if leaders.is_empty() { "undecided: too few rounds, or too noisy to call" }
            @else {
                @if leaders.len() == 1 { "leads" } @else { "lead" } (among) ": "
                @for (index, store) in leaders.iter().enumerate() {
                    @if index > 0 { ", " } code { (store) }
                }
            }
        }
    }
}

/// Lists the comparison groups, if there are several.
fn groups(block: &PhaseCells<'_>) -> Markup {
    let groups = ranking::grouped(&block.cells);
    html! {
        @if groups.len() > 1 || groups.iter().any(|(_, members)| !ranking::is_choice(members[0])) {
            p { "Ranked apart, because they differ in what they promise or start from:" }
            ul {
                @for (name, members) in &groups {
                    li {
                        @for (index, cell) in members.iter().enumerate() {
                            @if index > 0 { ", " } code { (cell.store) }
                        }
                        ": " @if name.is_empty() { "the others" } @else { (name.to_string()) }
                    }
                }
            }
        }
    }
}

fn labels(cells: &[&Cell]) -> Vec<String> {
    cells.iter().map(|cell| label(cell)).collect()
}

fn rates(result: &RunResult, looks: &Looks, block: &PhaseCells<'_>) -> Figure {
    let cells = block.drawn();
    let mut marks = Vec::new();
    let batches = block.cells.iter().any(|cell| cell.batch > 1);
    let mut head = match block.writes() {
        true => vec!["store", "#settled ops/s", "#95 % interval", "#acknowledged ops/s", "#95 % interval"],
        false => vec!["store", "#ops/s", "#95 % interval"],
    };
    if batches {
        head.push("#time for a blob");
    }
    let mut table = Table::new("Rates", &head);
    for (candidate, cell) in cells.iter().enumerate() {
        let look = looks.get(&cell.store);
        let kinds = [(cell.settled_ops_per_s, "settled"), (cell.ops_per_s, "acknowledged")];
        let kinds = &kinds[usize::from(!block.writes())..];
        let mut line = vec![named(&cell.store)];
        for (index, (rate, kind)) in kinds.iter().enumerate() {
            line.push(shown(*rate, |rate| units::count(rate.median)));
            line.push(shown(rate.as_ref().and_then(bounds), |(low, high)| {
                format!("{} to {}", units::count(low), units::count(high))
            }));
            let Some(rate) = rate else { continue };
            let kind = if block.writes() { format!("{kind}: ") } else { String::new() };
            let mut hover = hover(&cell.store, &format!("{kind}{} ops/s", with_interval(rate, units::count)));
            if index == 0 {
                hover += &format!("\n{}", CellRank::for_cell(result, cell).text());
            }
            marks.push(Dot {
                candidate,
                look,
                value: *rate,
                hover,
                open: cell.not_ranked.is_some(),
                beside: index > 0,
            });
        }
        if batches {
            line.push(shown(cells::blob_ns(cell), units::nanoseconds));
        }
        table.push(line);
    }
    let note = if block.writes() {
        "Settled (filled) counts the work that was put off, and is what is ranked; acknowledged (hollow, below) is \
         what the program waited for. Bars are 95 % intervals over rounds."
    } else {
        "Bars are 95 % intervals over rounds; hollow marks are not ranked."
    };
    dots("Rate", note, RATE, &labels(&cells), &marks, None, table)
}

fn bounds(value: &Interval) -> Option<(f64, f64)> {
    Some((value.low?, value.high?))
}

/// Tooltip of two lines: the candidate, and its figures.
pub fn hover(store: &str, figures: &str) -> String {
    format!("{store}\n{figures}")
}

/// Response times of an open loop, where the rate is the same for all candidates and the waiting time differs.
fn response(looks: &Looks, block: &PhaseCells<'_>) -> Figure {
    let cells = block.drawn();
    let mut marks = Vec::new();
    let mut table = Table::new(
        "Response times, from the instant an op was due",
        [
            "store",
            "#p50",
            "#p90",
            "#p99",
            "#p99.9",
            "#came due while all were busy",
            "#drained in",
            "sustained",
        ],
    );
    for (candidate, cell) in cells.iter().enumerate() {
        let times = cell.response_ns.unwrap_or_default();
        let given = [(times.p50, "50 %", false), (times.p99, "99 %", true)];
        for (time, share, beside) in given {
            let Some(time) = time.map(|time| time as f64) else { continue };
            let hover = hover(&cell.store, &format!("{share} waited at most {}", units::nanoseconds(time)));
            let value = Interval::point(time);
            let look = looks.get(&cell.store);
            marks.push(Dot { candidate, look, value, hover, open: cell.not_ranked.is_some(), beside });
        }
        let rounds = || cell.rounds.iter().filter_map(|round| round.open.as_ref());
        let most = |value: fn(&crate::result::OpenLoop) -> f64| rounds().map(value).reduce(f64::max);
        table.push(vec![
            named(&cell.store),
            shown(times.p50, time),
            shown(times.p90, time),
            shown(times.p99, time),
            shown(times.p999, time),
            shown(most(|open| open.all_busy_share), |share| format!("{:.1} %", share * 100.0)),
            shown(most(|open| open.drain_seconds), |seconds| units::nanoseconds(seconds * 1e9)),
            if rounds().all(|open| open.sustained) { "yes".into() } else { "no".into() },
        ]);
    }
    let note = "From the instant an op was due to its end: p50 above, p99 hollow and below it. All candidates were offered the same rate.";
    dots("Response time", note, TIME, &labels(&cells), &marks, None, table)
}

fn time(nanoseconds: u64) -> String {
    units::nanoseconds(nanoseconds as f64)
}

fn ratios(result: &RunResult, looks: &Looks, block: &PhaseCells<'_>) -> Option<Figure> {
    let mut table = Table::new("Ratios to the best of the phase", ["store", "best", "#ratio", "verdict"]);
    let mut marks = Vec::new();
    let mut names = Vec::new();
    for cell in &block.cells {
        let (value, best, verdict) = match CellRank::for_cell(result, cell) {
            CellRank::Best | CellRank::BestCache => (Interval::point(1.0), cell.store.as_str(), "best"),
            CellRank::Ratio(comparison) => {
                let Some(ratio) = comparison.ratio else { continue };
                (ratio, comparison.reference.as_str(), comparison.verdict.name())
            }
            CellRank::Technique | CellRank::Alone | CellRank::NotRanked | CellRank::Absent(_) => continue,
        };
        let text = interval::text(&value);
        marks.push(Dot {
            candidate: names.len(),
            look: looks.get(&cell.store),
            value,
            hover: hover(&cell.store, &format!("{text} of the rate of {best}: {verdict}")),
            open: false,
            beside: false,
        });
        names.push(cell.store.clone());
        table.push(vec![named(&cell.store), best.into(), text.into(), verdict.into()]);
    }
    (names.len() > 1).then(|| {
        let (what, title) = match block.is_offered() {
            true => ("Best response time over the candidate's", "best response / response"),
            false => ("Rate over the best rate", "rate / best rate"),
        };
        let note = format!(
            "{what}, paired by round; intervals are those of a comparison of the best with all other candidates at once. One that reaches \
             the line cannot be told apart from the best; one inside the grey band is equal."
        );
        let scale = Scale { title, show: ratio };
        let equal = ReferenceMark { at: 1.0, around: Some((1.0 - EQUAL_WITHIN, 1.0 + EQUAL_WITHIN)) };
        dots("Ratio to the best", &note, scale, &names, &marks, Some(equal), table)
    })
}

/// Percentiles labeled on an axis.
const SHARES: &[(f64, &str)] = &[
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
];
/// The same for curves that end below 90 %.
const LOW_SHARES: &[(f64, &str)] = &[(0.1, "10 %"), (0.5, "50 %"), (0.75, "75 %"), (0.85, "85 %")];

/// Position of a percentile on a logarithmic axis, so that 90 %, 99 % and 99.9 % are equally spaced.
fn place_of(share: f64) -> f64 {
    1.0 / (1.0 - share)
}

/// Plots time over percentile.
pub fn latency(looks: &Looks, block: &PhaseCells<'_>) -> Option<Figure> {
    let cells: Vec<&Cell> = block.drawn().into_iter().filter(|cell| cell.curve.len() > 1).collect();
    if cells.is_empty() {
        return None;
    }
    let what = if block.is_open() { "response" } else { "service" };
    let lines: Vec<Curve> = cells
        .iter()
        .map(|cell| Curve {
            label: label(cell),
            look: looks.get(&cell.store),
            marks: false,
            points: cell.curve.iter().map(|(share, ns)| curve_point(&cell.store, *share, *ns)).collect(),
        })
        .collect();
    let last = cells.iter().filter_map(|cell| cell.curve.last()).map(|(share, _)| *share).fold(0.0, f64::max);
    let shares = if last < 0.9 { LOW_SHARES } else { SHARES };
    let places = shares.iter().map(|(share, name)| (place_of(*share), (*name).to_owned())).collect();
    let across = HorizontalAxis::Places("share of ops that took no longer", places);
    let note = format!(
        "The {what} time that a share of the ops did not exceed. A curve ends where fewer than 10 ops of a round lie \
         beyond it."
    );
    let title = if block.is_open() { "Response times" } else { "Service times" };
    Some(curves(title, &note, (across, TIME), &lines, (None, Vec::new()), times_table(title, block)))
}

fn curve_point(store: &str, share: f64, ns: u64) -> CurvePoint {
    let percent = format!("{:.4}", share * 100.0);
    let percent = percent.trim_end_matches('0').trim_end_matches('.');
    CurvePoint::plain(
        place_of(share),
        ns as f64,
        hover(store, &format!("{percent} % took at most {}", time(ns))),
    )
}

fn times_table(title: &str, block: &PhaseCells<'_>) -> Table {
    let mut table = Table::new(title, ["store", "#p50", "#p90", "#p99", "#p99.9", "#longest"]);
    for cell in block.cells.iter().filter(|cell| !cell.rounds.is_empty()) {
        let times = cell.response_ns.or(cell.service_ns).unwrap_or_default();
        let mut line = vec![named(&cell.store)];
        line.extend(percentiles(&times));
        table.push(line);
    }
    table
}

fn percentiles(times: &Percentiles) -> Vec<TableCell> {
    [times.p50, times.p90, times.p99, times.p999, times.max].map(|value| shown(value, time)).into()
}

fn rounds(looks: &Looks, block: &PhaseCells<'_>) -> Figure {
    let cells = block.drawn();
    let all: BTreeSet<u32> = cells.iter().flat_map(|cell| &cell.rounds).map(|round| round.round).collect();
    let titles: Vec<String> = all.iter().map(|round| format!("#round {round}")).collect();
    let head: Vec<&str> = std::iter::once("store").chain(titles.iter().map(String::as_str)).collect();
    let is_offered = block.is_offered();
    let (what, unit) = if is_offered {
        ("Mean response time in each round", "")
    } else if block.writes() {
        ("Settled rate in each round", " ops/s")
    } else {
        ("Rate in each round", " ops/s")
    };
    let mut table = Table::new(what, &head);
    let mut lines = Vec::new();
    for cell in &cells {
        // At a common offered rate, the series holds inverse mean response times, in 1/s.
        let value = |rate: f64| if is_offered { 1e9 / rate } else { rate };
        let text = |rate: f64| if is_offered { units::nanoseconds(value(rate)) } else { units::count(rate) };
        let series = cells::series(cell).rates;
        let mut line = vec![named(&cell.store)];
        line.extend(all.iter().map(|round| shown(series.get(round), |rate| text(*rate))));
        table.push(line);
        let point = |(round, rate): (&u32, &f64)| {
            let position =
                cell.rounds.iter().find(|known| known.round == *round).map_or(0, |known| known.position);
            let figures = format!("round {round}, measured {}: {}{unit}", ordinal(position), text(*rate));
            CurvePoint::plain(f64::from(*round), value(*rate), hover(&cell.store, &figures))
        };
        lines.push(Curve {
            label: label(cell),
            look: looks.get(&cell.store),
            points: series.iter().map(point).collect(),
            marks: true,
        });
    }
    let up = if is_offered { TIME } else { RATE };
    let note =
        "Every round is a new store. Candidates that move together saw the machine change, not the stores.";
    curves(what, note, (HorizontalAxis::Whole("round"), up), &lines, (None, Vec::new()), table)
}

fn ordinal(position: u32) -> String {
    let ending = match (position % 10, position % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{position}{ending}")
}

/// All figures of a phase, for readers who want to check them.
pub fn everything(result: &RunResult, block: &PhaseCells<'_>) -> Markup {
    let cells: Vec<&Cell> = block.cells.iter().copied().filter(|cell| !cell.rounds.is_empty()).collect();
    let rates = Table::with_columns(
        "Places and rates",
        &cells,
        &[
            ("store", &|cell| named(&cell.store)),
            ("ratio to the best", &|cell| place(result, cell).into()),
            ("ratio to the reference", &|cell| shown(to_reference(result, cell), |text| text)),
            ("ratio to baselines", &|cell| shown(to_baselines(result, cell), |text| text)),
            ("#attempted", &|cell| cell.ops.to_string().into()),
            ("#acknowledged", &|cell| cell.counters.acknowledged(cell.ops).to_string().into()),
            ("#done", &|cell| cell.counters.done(cell.ops).to_string().into()),
            ("#rounds", &|cell| cell.rounds.len().to_string().into()),
            ("#MB/s", &|cell| shown(cell.bytes_per_s, |rate| number(rate.median / 1e6))),
            ("#errors", &|cell| cell.counters.errors.to_string().into()),
            ("#retries", &|cell| cell.counters.retries.to_string().into()),
            ("#timeouts", &|cell| cell.counters.timeouts.to_string().into()),
            ("#harness", &|cell| shown(cell.harness_share, percent)),
            ("#in sync", &|cell| shown(cell.sync_share, percent)),
        ],
    );
    let bytes = |value: Option<u64>| shown(value, |value| units::bytes(value as f64));
    let resources = Table::with_columns(
        "Processor, memory and device",
        &cells,
        &[
            ("store", &|cell| named(&cell.store)),
            ("#CPU/op, whole system", &|cell| shown(cell.total_cpu_ns_per_op, units::nanoseconds)),
            ("#of blobwise", &|cell| shown(cell.client_cpu_ns_per_op, units::nanoseconds)),
            ("#of that background", &|cell| shown(cell.background_cpu_ns_per_op, units::nanoseconds)),
            ("#of servers", &|cell| shown(cell.server_cpu_ns_per_op, units::nanoseconds)),
            ("#peak memory", &|cell| bytes(cell.client_peak_bytes)),
            ("#outside of blobwise", &|cell| bytes(cell.server_peak_bytes)),
            ("#of both, anonymous", &|cell| bytes(cell.anonymous_peak_bytes)),
            ("#of both, mapped files", &|cell| bytes(cell.mapped_peak_bytes)),
            ("#device reads a round", &|cell| shown(cell.device_reads, |reads| reads.to_string())),
            ("#bytes read a round", &|cell| bytes(cell.device_read_bytes)),
            ("#written a round", &|cell| bytes(cell.device_written_bytes)),
            ("#flushes", &|cell| shown(cell.device_flushes, |flushes| flushes.to_string())),
        ],
    );
    let title = if block.is_open() { "Response times" } else { "Service times" };
    let times = times_table(title, block);
    let memory = counted("Memory, as each candidate's control group counts it", "store", &block.cells);
    let tables = [rates, resources, memory, times, bands(block), steps(block), cold(block)];
    html! {
        @if tables.iter().any(|table| !table.is_empty()) {
            details.everything {
                summary { "Everything measured in this phase" }
                @for table in &tables { (table) }
            }
        }
    }
}

fn place(result: &RunResult, cell: &Cell) -> String {
    if ranking::is_baseline(cell) { "baseline".to_owned() } else { CellRank::for_cell(result, cell).text() }
}

/// Ratio of a candidate's rate to that of the plan's reference.
fn to_reference(result: &RunResult, cell: &Cell) -> Option<String> {
    let comparison = compared(result, cell, ReferenceRole::Plan)?;
    let ratio = comparison.ratio.map(|ratio| interval::text(&ratio)).unwrap_or_default();
    let text = match comparison.verdict {
        Verdict::NotRanked => ratio,
        verdict => format!("{ratio} {}", verdict.name()),
    };
    Some(text).filter(|text| !text.is_empty())
}

/// Ratios of a candidate's rate to those of the baselines that it is compared with.
fn to_baselines(result: &RunResult, cell: &Cell) -> Option<String> {
    let told: Vec<String> = all_compared(result, cell, ReferenceRole::Baseline)
        .filter_map(|comparison| {
            Some(format!("{} {}", comparison.reference, interval::text(&comparison.ratio?)))
        })
        .collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Times by size of blob, if there is more than one size band.
fn bands(block: &PhaseCells<'_>) -> Table {
    let cells = || block.cells.iter().filter(|cell| cell.size_bands.len() > 1);
    let known = |band: &&&str| cells().any(|cell| cell.size_bands.iter().any(|found| found.band == **band));
    let present: Vec<&str> = histogram::BANDS.iter().filter(known).copied().collect();
    let titles: Vec<String> = present.iter().map(|band| format!("#{band}")).collect();
    let head: Vec<&str> = std::iter::once("store").chain(titles.iter().map(String::as_str)).collect();
    let mut table = Table::new("Service time by size of blob: p50, p99 (ops)", &head);
    for cell in cells() {
        let mut line = vec![named(&cell.store)];
        for band in &present {
            let found = cell.size_bands.iter().find(|known| known.band == *band);
            line.push(shown(found, |band| {
                let of = |value: Option<u64>| value.map_or(super::table::ABSENT.to_owned(), time);
                format!("{}, {} ({})", of(band.service_ns.p50), of(band.service_ns.p99), band.ops)
            }));
        }
        table.push(line);
    }
    table
}

fn steps(block: &PhaseCells<'_>) -> Table {
    let [title, what, share] = match block.cells.iter().any(|cell| cell.is_replay()) {
        true => ["Kinds of op", "kind", "#share of the time"],
        false => ["Steps of an op", "step", "#share of the op"],
    };
    let mut table = Table::new(title, ["store", what, share, "#p50", "#p90", "#p99", "#p99.9", "#longest"]);
    for cell in &block.cells {
        for step in &cell.steps {
            let mut line = vec![named(&cell.store), TableCell::from(&step.name), percent(step.share).into()];
            line.extend(percentiles(&step.service_ns));
            table.push(line);
        }
    }
    table
}

/// Steps and counts that sessions reported for their ops, such as times measured by the other side.
fn session_reports_table(block: &PhaseCells<'_>) -> Table {
    let cells = || block.cells.iter().filter(|cell| !cell.counts.is_empty());
    let steps = units::distinct(cells().flat_map(|cell| &cell.steps).map(|step| step.name.as_str()));
    let counts: BTreeSet<&str> = cells().flat_map(|cell| cell.counts.keys()).map(String::as_str).collect();
    let titles: Vec<String> = steps.iter().chain(&counts).map(|name| format!("#{name}")).collect();
    let head: Vec<&str> = std::iter::once("store").chain(titles.iter().map(String::as_str)).collect();
    let mut table = Table::new("What the other side told of an op: means, with 95 % intervals", &head);
    for cell in cells() {
        let mut line = vec![named(&cell.store)];
        line.extend(steps.iter().map(|name| {
            let step = cell.steps.iter().find(|step| step.name == *name);
            shown(step.and_then(|step| step.mean_ns), |mean| with_interval(&mean, units::nanoseconds))
        }));
        line.extend(counts.iter().map(|name| shown(cell.counts.get(*name), |mean| number(*mean))));
        table.push(line);
    }
    table
}

/// Evidence that a cold phase was cold.
fn cold(block: &PhaseCells<'_>) -> Table {
    let proofs = block.cells.iter().filter_map(|cell| Some((*cell, cell.cache_proof.as_ref()?)));
    let rows: Vec<(&Cell, &CacheProof)> = proofs.collect();
    Table::with_columns(
        "What the caches held",
        &rows,
        &[
            ("store", &|(cell, _)| named(&cell.store)),
            ("cache", &|(cell, _)| crate::report::csv::kebab(&cell.cache).into()),
            ("by", &|(_, proof)| TableCell::from(&proof.method)),
            ("#in the page cache after eviction", &|(_, proof)| shown(proof.resident_share, percent)),
            ("#after opening", &|(_, proof)| shown(proof.resident_share_opened, percent)),
            ("#opening took", &|(_, proof)| units::nanoseconds(proof.open_seconds * 1e9).into()),
            ("#keys in a pass", &|(_, proof)| {
                shown((proof.sample_share > 0.0).then_some(proof.sample_share), percent)
            }),
            ("#device bytes per byte delivered", &|(cell, _)| {
                shown(cells::device_bytes_per_byte(cell), number)
            }),
        ],
    )
}
