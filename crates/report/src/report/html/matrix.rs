//! Ratios of candidates to the reference over sizes: a table for each phase, which a page colors as a heat map.

use maud::html;

use super::super::view::matrix::{self, MatrixView};
use super::table::{Table, TableCell, named, shown};
use crate::judge::interval;
use crate::report::block::{Block, ReportFormat};
use crate::result::{MatrixCell, RunResult, Verdict};
use crate::units;

/// Explains signs and colors of a page.
const LEGEND: &str = "▲ is surely faster than the reference, ▼ surely slower, and = equal within 3 %: the farther from 1, the \
                      darker. A hatched entry (?) can be either: its interval contains 1 and more than 3 % around it. These \
                      intervals are wider than those under Comparisons, each of which holds by itself.";

/// Tables of the ratios: with signs for a terminal, with verdicts for Markdown, and in color for a page.
pub fn blocks(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    let legend = (format == ReportFormat::Page).then(|| Block::Text(LEGEND.to_owned()));
    let all = matrix::all(result);
    legend.into_iter().chain(all.iter().flat_map(|of_phase| of_one(of_phase, format))).collect()
}

fn of_one(of_phase: &MatrixView<'_>, format: ReportFormat) -> Vec<Block> {
    let is_terminal = format == ReportFormat::Terminal;
    let (phase, reference) = (&of_phase.matrix.phase, &of_phase.matrix.reference);
    let title = match format {
        ReportFormat::Markdown => format!("Ratios to `{reference}`: {phase}"),
        ReportFormat::Terminal | ReportFormat::Page => format!("{phase}: ratios to {reference}"),
    };
    let about = of_phase.about();
    let about = if is_terminal { format!("{about} {}", matrix::SIGNS) } else { about };
    let heads = of_phase.columns.iter().map(|column| format!("#{}", column.title));
    let mut table = Table::new(&title, std::iter::once("store".to_owned()).chain(heads));
    let rates = of_phase.columns.iter().map(|column| shown(column.rate, units::count));
    let rate_title = match (of_phase.settled, is_terminal) {
        (true, true) => "settled/s",
        (true, false) => "settled ops/s",
        (false, _) => "ops/s",
    };
    let name = match format {
        ReportFormat::Terminal => format!("  {rate_title}").into(),
        ReportFormat::Markdown => TableCell::from(format!("`{reference}`, {rate_title}")),
        ReportFormat::Page => named(reference).remarked(rate_title),
    };
    table.above(is_terminal.then(|| reference.clone()));
    table.push(std::iter::once(name).chain(rates).collect());
    for group in &of_phase.groups {
        table.above(group.title.clone().filter(|_| is_terminal));
        let indent = if group.title.is_some() { "  " } else { "" };
        for line in &group.lines {
            let label =
                if is_terminal { format!("{indent}{}", line.label).into() } else { named(line.store) };
            let cells = line.cells.iter().map(|cell| entry(*cell, format));
            table.push(std::iter::once(label).chain(cells).collect());
        }
    }
    vec![Block::Title(title), Block::Text(about), Block::Table(table)]
}

fn entry(cell: Option<&MatrixCell>, format: ReportFormat) -> TableCell {
    match format {
        ReportFormat::Terminal => matrix::text(cell, matrix::sign).into(),
        ReportFormat::Markdown => matrix::text(cell, Verdict::name).into(),
        ReportFormat::Page => colored(cell),
    }
}

/// Cell of a page: the ratio in the color of its distance from 1, below it its interval, and a sign for readers without colors.
fn colored(cell: Option<&MatrixCell>) -> TableCell {
    let (ratio, verdict) = match matrix::figure(cell) {
        Ok(figure) => figure,
        Err(why) => return TableCell::new(html! { span title=(describe_cell(cell)) { (why) } }, "unranked"),
    };
    let text = interval::text(&ratio);
    let (figure, range) = text.split_once(' ').unwrap_or((&text, ""));
    let sign = match verdict {
        Verdict::Faster => "▲ ",
        Verdict::Slower => "▼ ",
        Verdict::Equal => "= ",
        Verdict::CannotTellApart => "? ",
        Verdict::NotRanked => "",
    };
    let markup = html! {
        span title=(describe_cell(cell)) { (sign) (figure) @if !range.is_empty() { br; small { (range) } } }
    };
    TableCell::new(markup, color(ratio.median, verdict))
}

/// Class of the color of a ratio: the same color is the same distance from 1 in every phase.
fn color(ratio: f64, verdict: Verdict) -> &'static str {
    const STEPS: [f64; 3] = [1.25, 2.0, 4.0];
    const FASTER: [&str; 4] = ["heat faster-1", "heat faster-2", "heat faster-3", "heat faster-4"];
    const SLOWER: [&str; 4] = ["heat slower-1", "heat slower-2", "heat slower-3", "heat slower-4"];
    let step = STEPS.iter().filter(|step| ratio.max(1.0 / ratio) >= **step).count();
    match verdict {
        Verdict::CannotTellApart => "heat unsure",
        Verdict::Equal | Verdict::NotRanked => "",
        Verdict::Faster | Verdict::Slower => {
            if ratio > 1.0 {
                FASTER[step]
            } else {
                SLOWER[step]
            }
        }
    }
}

/// Full text of a cell: ratio, verdict and reason.
fn describe_cell(cell: Option<&MatrixCell>) -> String {
    let Some(cell) = cell else { return "not measured".to_owned() };
    let ratio = cell.ratio.map(|ratio| format!("{} ", interval::text(&ratio))).unwrap_or_default();
    let reason = cell.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{ratio}{}{reason}", cell.verdict.name())
}
