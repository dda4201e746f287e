//! Ratios of candidates to the reference over sizes: a heat map for each phase, and a table with the same numbers.

use maud::{Markup, html};

use super::super::view::matrix::{self, MatrixView};
use super::heat::{self, Heatmap, Square};
use super::table::{Table, TableCell, named, shown};
use super::{PageData, prose};
use crate::judge::interval;
use crate::report::block::{Block, Medium};
use crate::result::{MatrixCell, RunResult, Verdict};
use crate::units;

/// Tables of the ratios for a terminal, with signs, and for Markdown, with verdicts.
pub fn blocks(result: &RunResult, medium: Medium) -> Vec<Block> {
    matrix::all(result).iter().flat_map(|of_phase| of_one(of_phase, medium == Medium::Terminal)).collect()
}

fn of_one(of_phase: &MatrixView<'_>, is_terminal: bool) -> Vec<Block> {
    let (phase, reference) = (&of_phase.matrix.phase, &of_phase.matrix.reference);
    let (title, about, mark): (String, String, fn(Verdict) -> &'static str) = match is_terminal {
        true => (
            format!("{phase}: ratios to {reference}"),
            format!("{} {}", of_phase.about(), matrix::SIGNS),
            matrix::sign,
        ),
        false => (format!("Ratios to `{reference}`: {phase}"), of_phase.about(), Verdict::name),
    };
    let heads = of_phase.columns.iter().map(|column| format!("#{}", column.title));
    let mut table = Table::new(&title, std::iter::once("store".to_owned()).chain(heads));
    let rates = of_phase.columns.iter().map(|column| shown(column.rate, units::count));
    let rate_title = if is_terminal && of_phase.settled { "settled/s" } else { rate_title(of_phase) };
    let name = match is_terminal {
        true => format!("  {rate_title}").into(),
        false => TableCell::from(format!("`{reference}`, {rate_title}")),
    };
    table.above(is_terminal.then(|| reference.clone()));
    table.push(std::iter::once(name).chain(rates).collect());
    for group in &of_phase.groups {
        table.above(group.title.clone().filter(|_| is_terminal));
        let indent = if group.title.is_some() { "  " } else { "" };
        for line in &group.lines {
            let label =
                if is_terminal { format!("{indent}{}", line.label).into() } else { named(line.store) };
            let cells = line.cells.iter().map(|cell| TableCell::from(matrix::text(*cell, mark)));
            table.push(std::iter::once(label).chain(cells).collect());
        }
    }
    vec![Block::Title(title), Block::Text(about), Block::Table(table)]
}

/// Renders the section of a run with several sizes.
pub fn section(view: &PageData<'_>) -> Markup {
    let all = matrix::all(view.result);
    // A common scale for all phases; otherwise the same color would mean different ratios.
    let most = heat::strongest(all.iter().flat_map(ratios));
    html! {
        p {
            "▲ is surely faster than the reference, ▼ surely slower. A hatched entry can be either: its interval contains 1 and more than 3 % around it. "
            "These intervals are wider than those under " a href="#comparisons" { "Comparisons" }
            ", each of which holds by itself."
        }
        @for (index, of_phase) in all.iter().enumerate() { (figure(of_phase, index, most)) }
    }
}

/// Ratios that are shown in color.
fn ratios<'s>(of_phase: &'s MatrixView<'_>) -> impl Iterator<Item = f64> + use<'s> {
    let cells = of_phase.groups.iter().flat_map(|group| &group.lines).flat_map(|line| &line.cells);
    let sure = cells.filter_map(|cell| matrix::figure(*cell).ok());
    sure.filter(|(_, verdict)| *verdict != Verdict::CannotTellApart).map(|(ratio, _)| ratio.median)
}

fn figure(of_phase: &MatrixView<'_>, index: usize, most: f64) -> Markup {
    let title = format!("{}: ratios to {}", of_phase.matrix.phase, of_phase.matrix.reference);
    let heat = Heatmap {
        id: index.to_string(),
        label: title.clone(),
        columns: of_phase.columns.iter().map(|column| column.title.clone()).collect(),
        lines: lines(of_phase),
        most,
    };
    html! {
        figure.heat {
            figcaption { strong { (title) } " " (prose(&of_phase.about())) }
            (heat.draw())
            details { summary { "The numbers" } (table(of_phase, &title)) }
        }
    }
}

fn rate_title(of_phase: &MatrixView<'_>) -> &'static str {
    if of_phase.settled { "settled ops/s" } else { "ops/s" }
}

fn lines(of_phase: &MatrixView<'_>) -> Vec<heat::HeatmapRow> {
    let rates = of_phase.columns.iter().map(|column| column.rate.map_or("–".to_owned(), units::count));
    let title = heat::HeatmapRow::Title(of_phase.matrix.reference.clone());
    let mut lines = vec![title, heat::HeatmapRow::Words(rate_title(of_phase).to_owned(), rates.collect())];
    for group in &of_phase.groups {
        lines.extend(group.title.clone().map(heat::HeatmapRow::Title));
        for line in &group.lines {
            let square = |(at, cell): (usize, &Option<&MatrixCell>)| Square {
                value: matrix::figure(*cell),
                hover: format!("{} at {}: {}", line.store, of_phase.columns[at].title, words(*cell)),
            };
            let cells = line.cells.iter().enumerate().map(square).collect();
            lines.push(heat::HeatmapRow::Cells(line.label.clone(), cells));
        }
    }
    lines
}

/// Full text of a cell: ratio, verdict and reason.
fn words(cell: Option<&MatrixCell>) -> String {
    let Some(cell) = cell else { return "not measured".to_owned() };
    let ratio = cell.ratio.map(|ratio| format!("{} ", interval::text(&ratio))).unwrap_or_default();
    let reason = cell.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{ratio}{}{reason}", cell.verdict.name())
}

fn table(of_phase: &MatrixView<'_>, title: &str) -> Table {
    let titles: Vec<String> = of_phase.columns.iter().map(|column| format!("#{}", column.title)).collect();
    let head: Vec<&str> = std::iter::once("store").chain(titles.iter().map(String::as_str)).collect();
    let mut table = Table::new(title, &head);
    let rates = of_phase.columns.iter().map(|column| shown(column.rate, units::count));
    let reference = named(&of_phase.matrix.reference).remarked(rate_title(of_phase));
    table.push(std::iter::once(reference).chain(rates).collect());
    for line in of_phase.groups.iter().flat_map(|group| &group.lines) {
        let cells = line.cells.iter().map(|cell| TableCell::from(words(*cell)));
        table.push(std::iter::once(named(line.store)).chain(cells).collect());
    }
    table
}
