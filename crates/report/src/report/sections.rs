//! The sections of the reports: one list defines the HTML page, its navigation, and the order in a terminal and in Markdown.

use std::path::Path;

use anyhow::Result;

use super::block::{Block, ReportFormat};
use super::html::{self, PageData, PageSection};
use super::markdown;
use super::section::{Section, new};
use super::view::warned::{self, WordedWarning};
use super::{
    advice, by_size, cite, clients, costs, findings, growth, measured, operating, power_cuts, pressure,
    published, terminal,
};
use crate::judge::run_subject::run_subject;
use crate::redact;
use crate::result::RunResult;
use crate::result::recent::shortest_name;
use crate::units;

/// Id of the section that states the answer in words.
const ANSWER: &str = "answer";
/// Ids of the sections that one screen of a terminal has if there is no recommendation.
const MATRIX: &str = "matrix";
const PHASES: &str = "phases";

/// All sections, in order.
pub(super) const SECTIONS: &[Section] = &[
    advice::SECTION,
    by_size::SECTION,
    costs::SECTION,
    operating::SECTION,
    growth::SECTION,
    new(ANSWER, "Answer")
        .aside(|result| result.advice.is_some() && result.plan.memory_sweep.is_none())
        .more()
        .html(html::answer)
        .terminal(terminal::answer)
        .markdown(markdown::answer),
    new(MATRIX, "Ratios by size")
        .has(|result| !result.matrices.is_empty())
        .figures()
        .blocks(html::matrix::blocks),
    new("claims", "Then and now")
        .has(|result| result.plan.document.is_some() || !result.claims.is_empty())
        .otherwise(|result| result.plan.document.is_none(), "Claims")
        .html(html::then::section)
        .blocks(published::blocks)
        .brief(published::brief),
    findings::SECTION,
    power_cuts::SECTION,
    new("glance", "At a glance")
        .aside(|_| true)
        .has(|result| !result.plan.has_steps())
        .html(html::glance::section),
    new("pictures", "What a visitor sees")
        .named("Pictures")
        .has(|result| !result.pictures.is_empty())
        .html(html::pictures),
    new("warnings", "Warnings").more().count(html::warnings_told).html(html::warnings).blocks(warnings),
    new(PHASES, "Phases").named("Details").figures().html(html::phases_section).blocks(measured::blocks),
    pressure::SECTION,
    clients::SECTION,
    new("disk", "Disk").aside(|_| true).figures().html(html::disk::section).blocks(html::disk::in_terminal),
    new("rounds", "Rounds, and whether the machine stayed the same")
        .aside(|_| true)
        .html(html::drift::section),
    new("not-ranked", "Not ranked, and why").aside(|_| true).html(html::not_ranked),
    new("comparisons", "Comparisons with the reference").aside(|_| true).html(html::comparisons),
    new("facts", "What was measured, and with what").named("Data").html(html::facts::section),
    cite::SECTION,
];

/// Lists all warnings, for a terminal and for Markdown.
fn warnings(result: &RunResult, _: ReportFormat) -> Vec<Block> {
    let all: Vec<String> = warned::all(result).iter().map(WordedWarning::paragraph).collect();
    if all.is_empty() { Vec::new() } else { vec![Block::List(all)] }
}

/// Sections in the order of a page: the recommendation first, except after a memory sweep, which it does not cover.
fn on_page(result: &RunResult) -> Vec<&'static Section> {
    let mut sections: Vec<&Section> = SECTIONS.iter().collect();
    sections.sort_by_key(|section| result.plan.memory_sweep.is_some() && section.id != ANSWER);
    sections
}

/// Renders a result as one self-contained HTML file.
pub fn html(result: &RunResult) -> Result<String> {
    let view = PageData::new(result)?;
    let part = |section: &Section| {
        let other = section.otherwise.filter(|(of, _)| of(result)).map(|(_, title)| (title, title));
        let (title, name) = other.unwrap_or((section.title, section.name));
        let (id, count) = (section.id, (section.count)(result));
        let name = Some(name).filter(|_| !(section.is_aside)(result));
        Some(PageSection { id, title, name, count, contents: section.on_page(&view)? })
    };
    Ok(html::render(result, &on_page(result).into_iter().filter_map(part).collect::<Vec<PageSection>>()))
}

/// Renders the full result for a terminal: the recommendation, then figures, then the text about them.
pub fn terminal(result: &RunResult) -> String {
    let mut sections: Vec<&Section> = SECTIONS.iter().collect();
    sections.sort_by_key(|section| (!section.is_last, !section.is_figures));
    let mut text = String::new();
    for section in sections {
        section.in_terminal(&mut text, result);
    }
    text.trim_start_matches('\n').to_owned()
}

/// Renders a stored result for a terminal: all tables, or only what is needed to choose.
pub fn printed(result: &RunResult, place: &Path, tables: bool) -> String {
    let placed = RunResult { place: Some(place.to_owned()), ..result.clone() };
    if !tables && !result.answer.is_empty() {
        return brief(&placed);
    }
    let report = report_of(&placed).map_or(String::new(), |report| format!("\n{report}\n"));
    format!("{}{report}", terminal(&placed))
}

/// States where the HTML report of a run is, if it exists.
fn report_of(result: &RunResult) -> Option<String> {
    let report = result.place.as_ref()?.join("report.html");
    report.exists().then(|| format!("Report: {}", report.display()))
}

/// Names a stored run in a command.
fn named(result: &RunResult) -> String {
    result.place.as_deref().map_or_else(|| "RUN".to_owned(), |place| redact::pasted(&shortest_name(place)))
}

/// Renders what is needed to choose, on one screen of a terminal where possible, the recommendation last. For sweeps of sizes or
/// memory, published claims and page loads, that is the answer in words.
pub fn brief(result: &RunResult) -> String {
    if result.answer.is_empty() {
        return terminal(result);
    }
    let is_advised = result.advice.is_some();
    let is_in_words = !is_advised || result.plan.memory_sweep.is_some();
    let mut text = String::new();
    if !is_advised {
        // Pages are few, and the browser's figures appear nowhere else.
        let of_pages = result.results.iter().any(|cell| !cell.counts.is_empty());
        let is_shown = |section: &&Section| section.id == MATRIX || (section.id == PHASES && of_pages);
        SECTIONS.iter().filter(is_shown).for_each(|section| section.in_terminal(&mut text, result));
    }
    if !is_in_words {
        terminal::flush(&mut text, &run_subject(result));
    }
    let shown = SECTIONS.iter().filter(|section| !section.is_figures && !section.is_more);
    let (last, first): (Vec<&Section>, Vec<&Section>) = shown.partition(|section| section.is_last);
    let write = |text: &mut String, section: &Section| match section.brief {
        Some(write) => write(text, result, section.title),
        None => section.in_terminal(text, result),
    };
    first.into_iter().for_each(|section| write(&mut text, section));
    if is_in_words {
        terminal::answer(&mut text, result, "Answer");
    }
    last.into_iter().for_each(|section| write(&mut text, section));
    text.push('\n');
    let beside = warned::beside(result);
    beside.iter().for_each(|warning| terminal::flush(&mut text, &format!("Warning: {warning}")));
    let others = html::warnings_told(result).saturating_sub(beside.len()) as u64;
    let all = match (others, beside.len()) {
        (0, _) => "All tables".to_owned(),
        (others, 0) => format!("All tables and {}", units::counted(others, "warning")),
        (others, _) => format!("All tables and {}", units::counted(others, "more warning")),
    };
    terminal::flush(&mut text, &format!("{all}: blobwise report {} --tables", named(result)));
    report_of(result).iter().for_each(|report| terminal::line(&mut text, report));
    text.trim_start_matches('\n').to_owned()
}

/// Renders a result as Markdown.
pub fn markdown(result: &RunResult) -> String {
    let mut page = markdown::begun(result);
    for section in on_page(result) {
        section.in_markdown(&mut page, result);
    }
    page.text()
}

#[cfg(test)]
pub(super) mod tests;
