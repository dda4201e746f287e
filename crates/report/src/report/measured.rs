//! The measured phases for a terminal and for Markdown: a table of the candidates of each. The page has plots as well.

use std::collections::BTreeSet;

use super::block::{Block, ReportFormat};
use super::table::{Table, TableCell, named, shown};
use super::view::describe::{self, LEGEND, LOADED, describe, impossible_for_all, loaded, standing, steps};
use super::view::standing::beside_baseline;
use super::view::then::is_later_part;
use super::view::{memory, words};
use crate::corpus::CorpusId;
use crate::judge::{cells, ranking};
use crate::result::{Cell, Reason, RunResult, Status};
use crate::units;

/// Failures of candidates that were stated: the candidate and the reason.
type Stated = BTreeSet<(String, String)>;

/// All phases, and sizes of a sweep. The steps of a growth or of ageing have a section of their own.
pub(super) fn blocks(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    if result.plan.has_steps() {
        return Vec::new();
    }
    let (later, phases): (Vec<_>, Vec<_>) =
        describe::blocks(result).into_iter().partition(|(phase, _)| is_later_part(phase));
    let mut all = Vec::new();
    if format == ReportFormat::Terminal {
        let parts = "Of phases in parts the first part is shown here, and all of them in the report.";
        all.push(Block::Gap);
        all.extend((!later.is_empty()).then(|| Block::Text(parts.to_owned())));
    }
    all.push(Block::Text(LEGEND.to_owned()));
    let mut stated = Stated::new();
    for (phase, corpus_id) in phases {
        all.extend(of_phase(result, format, phase, corpus_id, &mut stated));
    }
    if format == ReportFormat::Markdown {
        all.push(Block::List(absent(result)));
    }
    all
}

fn of_phase(
    result: &RunResult,
    format: ReportFormat,
    phase: &str,
    corpus_id: CorpusId,
    stated: &mut Stated,
) -> Vec<Block> {
    let is_terminal = format == ReportFormat::Terminal;
    let of_phase = |cell: &&Cell| cell.phase == phase && cell.corpus_id == corpus_id;
    let all_cells: Vec<&Cell> = result.results.iter().filter(of_phase).collect();
    let measured: Vec<&Cell> = all_cells.iter().copied().filter(|cell| !cell.rounds.is_empty()).collect();
    let impossible = impossible_for_all(&all_cells);
    let reasons = if is_terminal { Vec::new() } else { reasons(result, &all_cells) };
    // In Markdown, candidates without figures have only reasons.
    let cells = if is_terminal { &all_cells } else { &measured };
    let title = words::phase(phase, corpus_id);
    let first = measured.first().or(cells.first()).map(|first| describe(result, first, cells));
    let mut all = match (format, first) {
        (ReportFormat::Terminal, first) => {
            vec![Block::Title(format!("{title}: {}", first.unwrap_or_default()))]
        }
        (_, Some(first)) => vec![Block::Heading(title), Block::Text(format!("{first}."))],
        (_, None) if impossible.is_none() && reasons.is_empty() => return Vec::new(),
        (_, None) => vec![Block::Heading(title)],
    };
    all.extend(words::hot(cells).map(|hot| Block::Text(format!("{hot}."))));
    if !(is_terminal && impossible.is_some()) {
        all.push(Block::Table(table(result, is_terminal, cells, stated)));
        all.extend((!is_terminal).then(|| Block::Table(counted("Memory", "memory", cells))));
    }
    match impossible {
        Some(why) => all.push(Block::Text(why)),
        None => all.push(Block::List(reasons)),
    }
    all
}

/// Table of the candidates of a phase: ranked ones by comparison group, then the others, baselines last.
fn table(result: &RunResult, is_terminal: bool, cells: &[&Cell], stated: &mut Stated) -> Table {
    let are_loads = cells.iter().any(|cell| !cell.counts.is_empty());
    let row = if are_loads { load } else { candidate };
    let heads = if are_loads { load_heads(is_terminal) } else { heads(is_terminal, cells) };
    let mut table = Table::new("Candidates", heads);
    let groups = ranking::grouped(cells);
    let is_apart = groups.len() > 1 || groups.iter().any(|(_, members)| !ranking::is_choice(members[0]));
    for (index, (group, members)) in groups.into_iter().enumerate() {
        let name = group.to_string();
        table.above(match (is_terminal, index) {
            (false, _) if !is_apart => None,
            (false, _) => {
                Some(format!("Ranked apart: {}.", if name.is_empty() { "the others" } else { &name }))
            }
            (true, 1..) if !are_loads => Some(format!("apart from them: {name}")),
            (true, _) => {
                let is_told = are_loads || members.iter().any(|cell| !ranking::is_choice(cell));
                Some(name).filter(|name| is_told && !name.is_empty())
            }
        });
        for cell in members {
            table.push(row(result, is_terminal, cells, cell));
            notes(&mut table, result, cell, are_loads);
        }
    }
    let mut rest: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.not_ranked.is_some()).collect();
    rest.sort_by_key(|cell| ranking::is_baseline(cell));
    if !is_terminal && is_apart && !rest.is_empty() {
        table.above("Not ranked:".to_owned());
    }
    for cell in rest {
        table.push(row(result, is_terminal, cells, cell));
        notes(&mut table, result, cell, are_loads);
        let reason = cell.not_ranked.as_ref().filter(|_| is_terminal && !ranking::is_baseline(cell));
        // The reason why a candidate failed as a whole is stated once.
        let is_of_candidate = matches!(cell.status, Status::Failed | Status::NotAvailable);
        let is_new = |why: &String| !is_of_candidate || stated.insert((cell.store.clone(), why.clone()));
        reason.map(Reason::to_string).filter(is_new).into_iter().for_each(|why| table.note(why));
    }
    table
}

/// Adds the steps of an op, and ratios to a baseline.
fn notes(table: &mut Table, result: &RunResult, cell: &Cell, are_loads: bool) {
    let steps = steps(cell).filter(|_| !are_loads);
    steps.into_iter().chain(beside_baseline(result, cell)).for_each(|note| table.note(note));
}

fn heads(is_terminal: bool, cells: &[&Cell]) -> Vec<String> {
    let settled = cells.iter().any(|cell| cells::writes(cell));
    let offered = cells.iter().any(|cell| cells::is_offered(cell));
    let batches = cells.iter().any(|cell| cell.batch > 1);
    let heads = match is_terminal {
        true => vec![
            "store",
            if settled { "#settled/s" } else { "#ops/s" },
            if batches { "#a blob" } else { "#time" },
            "ratio to the best",
            match (offered, settled) {
                (true, _) => "response p50, p99",
                (false, true) => "acked/s",
                (false, false) => "p50, p99",
            },
        ],
        false => ["store", if settled { "settled ops/s" } else { "ops/s" }]
            .into_iter()
            .chain(batches.then_some("time for a blob"))
            .chain(["ratio to the best", "p50", "p99"])
            .collect(),
    };
    heads.into_iter().map(str::to_owned).collect()
}

/// Row of a candidate. In a terminal, the ratio is followed by acknowledged ops per second or by times.
fn candidate(result: &RunResult, is_terminal: bool, cells: &[&Cell], cell: &Cell) -> Vec<TableCell> {
    let rate = cell.settled_ops_per_s.or(cell.ops_per_s);
    let times = cell.response_ns.or(cell.service_ns).unwrap_or_default();
    let [p50, p99] = [times.p50, times.p99].map(|time| shown(time, |time| units::nanoseconds(time as f64)));
    let blob = shown(cells::blob_ns(cell), units::nanoseconds);
    let standing = match rate {
        None => cell.status.name().to_owned(),
        Some(_) => standing(result, cell),
    };
    if !is_terminal {
        let rate = shown(rate, |rate| words::with_interval(&rate, units::count));
        let blob = cells.iter().any(|cell| cell.batch > 1).then_some(blob);
        return [named(&cell.store), rate]
            .into_iter()
            .chain(blob)
            .chain([standing.into(), p50, p99])
            .collect();
    }
    let is_acked =
        cells.iter().any(|cell| cells::writes(cell)) && !cells.iter().any(|cell| cells::is_offered(cell));
    let last = match (rate, is_acked) {
        (None, _) => "".into(),
        (_, true) => shown(cell.ops_per_s, |rate| units::count(rate.median)),
        (_, false) => format!("{}, {}", p50.text(false), p99.text(false)).into(),
    };
    vec![named(&cell.store), shown(rate, |rate| units::count(rate.median)), blob, standing.into(), last]
}

/// Place of the ratio among the figures of a page load.
const fn place_of_ratio(is_terminal: bool) -> usize {
    if is_terminal { 4 } else { 1 }
}

fn load_heads(is_terminal: bool) -> Vec<String> {
    let mut heads: Vec<String> =
        std::iter::once("store".to_owned()).chain(LOADED.map(|head| format!("#{head}"))).collect();
    heads.insert(place_of_ratio(is_terminal), "ratio to the best".to_owned());
    heads
}

/// Row of a page load: the browser's figures beside the measured times.
fn load(result: &RunResult, is_terminal: bool, _: &[&Cell], cell: &Cell) -> Vec<TableCell> {
    let figures = loaded(cell).map(TableCell::from);
    let mut row: Vec<TableCell> = std::iter::once(named(&cell.store)).chain(figures).collect();
    row.insert(place_of_ratio(is_terminal), standing(result, cell).into());
    row
}

/// Memory as counted by each candidate's control group, if the run limits it; `first` is the head of the candidates' column.
pub(super) fn counted(caption: &str, first: &'static str, cells: &[&Cell]) -> Table {
    let mut table = Table::new(caption, std::iter::once(first).chain(memory::COUNTED));
    for cell in cells {
        let Some(counted) = memory::counted(cell) else { continue };
        let figures = counted.into_iter().map(|figure| shown(figure, |figure| figure));
        table.push(std::iter::once(named(&cell.store)).chain(figures).collect());
    }
    table
}

/// States why cells of a phase are not ranked. Reasons that apply to a candidate as a whole are listed with the candidates.
fn reasons(result: &RunResult, cells: &[&Cell]) -> Vec<String> {
    let is_of_candidate = |cell: &Cell| {
        result.candidates.iter().any(|candidate| {
            candidate.store == cell.store && candidate.reason.is_some() && candidate.reason == cell.reason
        })
    };
    let cells = cells.iter().filter(|cell| !ranking::is_baseline(cell) && !is_of_candidate(cell));
    cells.filter_map(|cell| Some(format!("`{}`: {}", cell.store, cell.not_ranked.as_ref()?))).collect()
}

/// Lists candidates without a figure, with reasons.
fn absent(result: &RunResult) -> Vec<String> {
    let candidates = result.candidates.iter().filter(|candidate| candidate.status != Status::Measured);
    let line = |candidate: &crate::result::CandidateResult| {
        let (store, status) = (&candidate.store, candidate.status.name());
        format!("`{store}`: {status}: {}", candidate.reason.as_deref().unwrap_or("no reason"))
    };
    candidates.map(line).collect()
}
