//! The report for a terminal, in 80 columns and readable without color.

use std::collections::BTreeSet;

use super::view::describe::{LEGEND, LOADED, blocks, describe, impossible_for_all, loaded, standing, steps};
use super::view::matrix::{self, MatrixView};
use super::view::standing::beside_baseline;
use super::view::then::{self, is_later_part};
use super::view::{warned, words};
use crate::corpus::CorpusId;
use crate::judge::{cells, interval, ranking};
use crate::result::{Cell, RunResult, Status};
use crate::units;

/// Maximum line width; every terminal is at least this wide.
pub const WIDTH: usize = 80;

pub(super) fn answer(text: &mut String, result: &RunResult, title: &str) {
    heading(text, title);
    result.answer.iter().for_each(|sentence| wrapped(text, "", &words::placed(result, sentence)));
}

pub(super) fn heading(text: &mut String, title: &str) {
    line(text, &format!("\n{title}"));
}

pub(super) fn line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Writes a paragraph broken at spaces; later lines are indented below the first.
pub(super) fn wrapped(text: &mut String, bullet: &str, paragraph: &str) {
    wrapped_at(text, bullet, paragraph, WIDTH);
}

/// Returns a paragraph indented by `indent` spaces.
pub fn paragraph(indent: usize, words: &str) -> String {
    behind(&" ".repeat(indent), words)
}

/// Returns a paragraph whose first line starts with `begin`; later lines align with the text after it.
pub fn behind(begin: &str, words: &str) -> String {
    let mut text = String::new();
    wrapped(&mut text, begin, words);
    text
}

/// Breaks a text at spaces into lines of at most `letters` characters.
pub fn folded(text: &str, letters: usize) -> Vec<String> {
    words::wrapped(text, letters)
}

fn wrapped_at(text: &mut String, bullet: &str, paragraph: &str, most: usize) {
    let indent = bullet.chars().count().max(2);
    for (index, words) in words::wrapped(paragraph, most.saturating_sub(indent)).into_iter().enumerate() {
        let begin = if index == 0 { bullet } else { "" };
        line(text, &format!("{begin:<indent$}{words}"));
    }
}

// ---- the table ---------------------------------------------------------------------------------------------------

/// Writes one block for each phase (and size of a sweep), with one line for each candidate.
pub(super) fn table(text: &mut String, result: &RunResult, _: &str) {
    let mut blocks = blocks(result);
    text.push('\n');
    if blocks.iter().any(|(phase, _)| is_later_part(phase)) {
        wrapped(text, "", "Of phases in parts the first part is shown here, and all of them in the report.");
        blocks.retain(|(phase, _)| !is_later_part(phase));
    }
    wrapped(text, "", LEGEND);
    // The reason why a candidate failed as a whole is stated once.
    let mut said: BTreeSet<(String, String)> = BTreeSet::new();
    for (phase, corpus_id) in blocks {
        let of_block = |cell: &&Cell| cell.phase == phase && cell.corpus_id == corpus_id;
        let cells: Vec<&Cell> = result.results.iter().filter(of_block).collect();
        block(text, result, phase, corpus_id, &cells, &mut said);
    }
}

fn block(
    text: &mut String,
    result: &RunResult,
    phase: &str,
    corpus_id: CorpusId,
    cells: &[&Cell],
    said: &mut BTreeSet<(String, String)>,
) {
    let Some(first) = cells.iter().find(|cell| !cell.rounds.is_empty()).or(cells.first()) else { return };
    let title = words::phase(phase, corpus_id);
    heading(text, &format!("{title}: {}", describe(result, first, cells)));
    words::hot(cells).iter().for_each(|hot| wrapped(text, "", &format!("{hot}.")));
    if let Some(why) = impossible_for_all(cells) {
        return wrapped(text, "  ", &why);
    }
    if cells.iter().any(|cell| !cell.counts.is_empty()) {
        return loads(text, result, cells);
    }
    let settled = cells.iter().any(|cell| cells::writes(cell));
    let offered = cells.iter().any(|cell| cells::is_offered(cell));
    let rate_title = if settled { "settled/s" } else { "ops/s" };
    let time_title = if first.batch > 1 { "a blob" } else { "time" };
    let last_title = match (offered, settled) {
        (true, _) => "response p50, p99",
        (false, true) => "acked/s",
        (false, false) => "p50, p99",
    };
    line(
        text,
        &format!(
            "  {:<NAME$} {rate_title:>9} {time_title:>7}  {:<22} {last_title}",
            "store", "ratio to the best"
        ),
    );
    for (index, (name, members)) in ranking::grouped(cells).into_iter().enumerate() {
        if index > 0 {
            wrapped(text, "  ", &format!("apart from them: {name}"));
        } else if members.iter().any(|cell| !ranking::is_choice(cell)) && !name.is_empty() {
            wrapped(text, "  ", &name);
        }
        for cell in members {
            line(text, &candidate(result, cell, settled && !offered));
            steps(cell).iter().for_each(|steps| wrapped(text, "    ", steps));
        }
    }
    let mut rest: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.not_ranked.is_some()).collect();
    rest.sort_by_key(|cell| ranking::is_baseline(cell));
    for cell in rest {
        line(text, &candidate(result, cell, settled && !offered));
        steps(cell).iter().for_each(|steps| wrapped(text, "    ", steps));
        beside_baseline(result, cell).iter().for_each(|ratios| wrapped(text, "    ", ratios));
        let why = cell.not_ranked.as_ref().filter(|_| !ranking::is_baseline(cell));
        let Some(why) = why.map(crate::messages::why) else { continue };
        let repeats = matches!(cell.status, Status::Failed | Status::NotAvailable)
            && !said.insert((cell.store.clone(), why.clone()));
        if !repeats {
            wrapped(text, "    ", &why);
        }
    }
}

/// Column width for the label of a page. A label with protocol and distance gets its own line.
const PAGE: usize = 11;
/// Writes a block of page loads: the browser's figures beside the measured times, with one table for each comparison group.
fn loads(text: &mut String, result: &RunResult, cells: &[&Cell]) {
    for (name, members) in ranking::grouped(cells) {
        heading(text, &format!("  {name}"));
        line(text, &load("store", "ratio to the best", &LOADED.map(str::to_owned)));
        for cell in members {
            line(text, &load(&cell.store, &standing(result, cell), &loaded(cell)));
        }
    }
    for cell in cells.iter().filter(|cell| cell.not_ranked.is_some()) {
        line(text, &load(&cell.store, &standing(result, cell), &loaded(cell)));
        wrapped(text, "    ", &cell.not_ranked.as_ref().map(crate::messages::why).unwrap_or_default());
    }
}

fn load(page: &str, standing: &str, loaded: &[String; 6]) -> String {
    let [load, shown, paint, requests, connections, bytes] = loaded;
    let page = named(page, PAGE);
    format!(
        "  {page} {load:>7} {shown:>7} {paint:>7}  {standing:<22} {requests:>4} {connections:>5} {bytes:>7}"
    )
}

/// Line of a candidate; the ratio is followed by acknowledged ops per second or by times.
fn candidate(result: &RunResult, cell: &Cell, acked: bool) -> String {
    let rate = cell.settled_ops_per_s.or(cell.ops_per_s);
    let name = named(&cell.store, NAME);
    let Some(rate) = rate else {
        return format!("  {name} {}", words::status(cell.status));
    };
    let time = cells::blob_ns(cell).map_or("-".to_owned(), units::nanoseconds);
    let last = if acked {
        cell.ops_per_s.map(|rate| units::count(rate.median)).unwrap_or_default()
    } else {
        let times = cell.response_ns.or(cell.service_ns).unwrap_or_default();
        let of = |time: Option<u64>| time.map_or("-".to_owned(), |time| units::nanoseconds(time as f64));
        format!("{}, {}", of(times.p50), of(times.p99))
    };
    format!("  {name} {:>9} {time:>7}  {:<22} {last}", units::count(rate.median), standing(result, cell))
}

/// Column width for a candidate's label.
const NAME: usize = 18;
/// Pads a label to its column. A longer label gets its own line, because a truncated one could be mistaken for another
/// candidate's.
fn named(label: &str, width: usize) -> String {
    if label.chars().count() <= width {
        format!("{label:<width$}")
    } else {
        format!("{label}\n  {:<width$}", "")
    }
}

/// Maximum column width for labels in a matrix; longer ones get their own lines.
const MATRIX_LABEL_MAX: usize = 24;

/// Writes every matrix, each with its own heading.
pub(super) fn matrices(text: &mut String, result: &RunResult, _: &str) {
    matrix::all(result).iter().for_each(|shown| ratios(text, shown));
}

/// Writes a matrix, split into as many tables as the width requires.
fn ratios(text: &mut String, shown: &MatrixView<'_>) {
    heading(text, &format!("{}: ratios to {}", shown.matrix.phase, shown.matrix.reference));
    wrapped_at(text, "", &format!("{} {}", shown.about(), matrix::SIGNS), WIDTH);
    let of_group = |group: &matrix::MatrixGroup<'_>| if group.title.is_some() { 2 } else { 0 };
    let rate_title = if shown.settled { "settled/s" } else { "ops/s" };
    let lines = || shown.groups.iter().flat_map(|group| group.lines.iter().map(move |line| (group, line)));
    let labels = lines().map(|(group, line)| of_group(group) + line.label.chars().count());
    let label = labels.chain([shown.matrix.reference.chars().count(), rate_title.len() + 2]);
    let label = label.filter(|width| *width <= MATRIX_LABEL_MAX).max().unwrap_or(MATRIX_LABEL_MAX);
    let cells: Vec<usize> = (0..shown.columns.len())
        .map(|at| {
            let figures = lines().map(|(_, line)| matrix::text(line.cells[at], matrix::sign));
            let width = figures.map(|figure| figure.chars().count()).max().unwrap_or_default();
            width.max(shown.columns[at].title.chars().count()).max(8) + 2
        })
        .collect();
    let mut from = 0;
    while from < cells.len() {
        let mut to = from + 1;
        while to < cells.len() && 2 + label + cells[from..=to].iter().sum::<usize>() <= WIDTH {
            to += 1;
        }
        let candidate = |name: &str, figure: &dyn Fn(usize) -> String| {
            let name = if name.chars().count() <= label {
                format!("{name:<label$}")
            } else {
                format!("{name}\n  {:<label$}", "")
            };
            let figures: String =
                (from..to).map(|at| format!("  {:<1$}", figure(at), cells[at] - 2)).collect();
            format!("  {name}{figures}")
        };
        text.push('\n');
        line(text, &candidate("", &|at| shown.columns[at].title.clone()));
        line(text, &candidate(&shown.matrix.reference, &|_| String::new()));
        line(
            text,
            &candidate(&format!("  {rate_title}"), &|at| {
                shown.columns[at].rate.map_or("-".to_owned(), units::count)
            }),
        );
        for group in &shown.groups {
            group.title.iter().for_each(|title| line(text, &format!("  {title}")));
            for one in &group.lines {
                let name = format!("{:1$}{2}", "", of_group(group), one.label);
                line(text, &candidate(&name, &|at| matrix::text(one.cells[at], matrix::sign)));
            }
        }
        from = to;
    }
}

// ---- then and now ------------------------------------------------------------------------------------------------

/// Writes a published experiment beside this run, and what its document left open.
pub(super) fn then_and_now(text: &mut String, result: &RunResult, title: &str) {
    claims_and_figures(text, result, title);
    let open = &result.plan.unspecified;
    if !open.is_empty() {
        heading(text, "What was not said, and what this plan does");
        open.iter().for_each(|open| wrapped(text, "- ", &format!("{}: {}.", open.what, open.here)));
    }
}

/// Writes published figures beside today's, and the verdict on each claim.
pub(super) fn claims_and_figures(text: &mut String, result: &RunResult, title: &str) {
    let plan = &result.plan;
    if let Some(document) = &plan.document {
        heading(text, title);
        let source = format!("{}, \"{}\", {}.", document.author, document.title, document.date);
        wrapped(text, "", &source);
        wrapped(text, "", "Ratios to the document's own reference; absolute figures are not compared.");
        let (tables, silent) = then::tables(result);
        tables.iter().for_each(|table| published(text, table));
        let silent = then::silent(&silent);
        if !silent.is_empty() {
            line(text, &format!("\n  {}", then::SILENT));
            silent.iter().for_each(|why| wrapped(text, "- ", why));
        }
    }
    if !result.claims.is_empty() {
        heading(text, "Claims");
        for claim in &result.claims {
            let figures = then::figures(result, claim);
            let figures = if figures.is_empty() { figures } else { format!(" {}.", capital(&figures)) };
            let note = claim.note.as_ref().map(|note| format!(" {note}")).unwrap_or_default();
            let line = format!("{} {}: {}.{figures}{note}", claim.id, then::verdict(claim), claim.statement);
            wrapped(text, "- ", &line);
        }
    }
    let wrong = then::disagreements(result);
    if !wrong.is_empty() {
        heading(text, then::DISAGREEMENTS);
        wrong.iter().for_each(|(what, why)| wrapped(text, "- ", &format!("{what}: {why}.")));
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn published(text: &mut String, table: &then::ReproducedTable<'_>) {
    let longest = table.compared().map(|line| line.name.len()).max().unwrap_or_default();
    let width = longest.max(32);
    let lines: Vec<(String, Option<&str>, Option<String>)> = table
        .compared()
        .map(|found| {
            let then = found.then.map_or("-".to_owned(), then::figure);
            let today = found.today.as_ref().map_or("-".to_owned(), interval::text);
            let figures = format!("  {:<width$} {then:>9}  {today:<26}", found.name);
            let then = found.series.words.as_ref().map(|words| format!("then: {words}"));
            (figures, found.candidate, found.in_place.map(str::to_owned).or(then))
        })
        .collect();
    // Long candidate labels go below their figures.
    let is_wide =
        lines.iter().any(|(figures, candidate, _)| figures.len() + 1 + candidate.map_or(1, str::len) > WIDTH);
    line(text, &format!("\n  {}", table.text.heading()));
    let head = format!(
        "  {:<width$} {:>9}  {:<26} {}",
        "",
        "then",
        "today",
        if is_wide { "" } else { "candidate today" }
    );
    line(text, head.trim_end());
    for (figures, candidate, words) in lines {
        if is_wide {
            line(text, figures.trim_end());
            let below: Vec<String> = candidate.map(str::to_owned).into_iter().chain(words).collect();
            if !below.is_empty() {
                wrapped(text, "    ", &below.join("; "));
            }
        } else {
            line(text, &format!("{figures} {}", candidate.unwrap_or("-")));
            words.iter().for_each(|words| wrapped(text, "    ", words));
        }
    }
    if let Some(why) = table.why_not() {
        wrapped(text, "  ", why);
    }
}

pub(super) fn warnings(text: &mut String, result: &RunResult, title: &str) {
    let all = warned::all(result);
    if !all.is_empty() {
        heading(text, title);
        all.iter().for_each(|warned| wrapped(text, "- ", &warned.paragraph()));
    }
}
