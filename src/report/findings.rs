//! Findings of the kinds of work in every kind of report: one section for all kinds.

use maud::{Markup, html};

use super::html::{PageData, prose};
use super::markdown::Page;
use super::section::{Section, new};
use super::tabled::{CaptionedTable, in_markdown, in_terminal, table};
use super::view::words;
use crate::judge::findings::{CandidateFindings, PhaseFindings, groups};
use crate::result::{ColumnType, Finding, FindingsColumn, FindingsValue, RunResult};
use crate::units;

pub(super) const SECTION: Section = new("findings", "Findings")
    .has(|result| !all(result).is_empty())
    .html(html)
    .terminal(terminal)
    .markdown(markdown);

/// Findings of a result, except those that have their own section.
fn all(result: &RunResult) -> Vec<CaptionedTable> {
    let has_own =
        |group: &&PhaseFindings<'_>| group.findings.iter().all(|finding| finding.found.power_cuts.is_some());
    groups(result).iter().filter(|group| !has_own(group)).map(shown).collect()
}

fn shown(group: &PhaseFindings<'_>) -> CaptionedTable {
    let columns = group.findings.first().map(|finding| finding.found.columns.as_slice()).unwrap_or_default();
    let own = columns.iter().map(|column| (column.title.clone(), column.unit != ColumnType::Text));
    CaptionedTable {
        title: format!("{} ({})", group.title, words::phase(group.phase, group.corpus_id)),
        said: group.standings().iter().map(said).collect(),
        columns: [("store".to_owned(), false), ("round".to_owned(), true)].into_iter().chain(own).collect(),
        lines: group.findings.iter().flat_map(|finding| lines(finding)).collect(),
    }
}

fn said(standing: &CandidateFindings<'_>) -> String {
    let rounds = units::counted(standing.rounds as u64, "round");
    let judged = match (standing.is_judged, standing.failed) {
        (false, _) => String::new(),
        (true, 0) => format!(" holds in {rounds}"),
        (true, failed) => format!(" fails in {failed} of {rounds}"),
    };
    format!("`{}`{judged}: {}", standing.store, standing.verdict)
}

fn lines(finding: &Finding) -> impl Iterator<Item = Vec<Option<String>>> {
    finding.found.lines.iter().map(|line| {
        let values = finding.found.columns.iter().zip(line);
        let begin = [Some(finding.store.clone()), Some(finding.round.to_string())];
        begin
            .into_iter()
            .chain(values.map(|(column, value)| value.as_ref().map(|value| words_of(column, value))))
            .collect()
    })
}

fn words_of(column: &FindingsColumn, value: &FindingsValue) -> String {
    match value {
        FindingsValue::Text(words) => words.clone(),
        FindingsValue::Number(number) => match column.unit {
            ColumnType::Text => number.to_string(),
            ColumnType::Count => units::count(*number),
            ColumnType::Bytes => units::bytes(*number),
            ColumnType::Nanoseconds => units::nanoseconds(*number),
            ColumnType::Share => format!("{:.1} %", number * 100.0),
            ColumnType::PerSecond => format!("{}/s", units::count(*number)),
        },
    }
}

fn html(view: &PageData<'_>) -> Markup {
    html! {
        @for found in &all(view.result) {
            h3 { (found.title) }
            @for sentence in &found.said { p { (prose(sentence)) } }
            (table(found))
        }
    }
}

fn terminal(text: &mut String, result: &RunResult, title: &str) {
    all(result).iter().for_each(|shown| in_terminal(text, shown, title));
}

fn markdown(page: &mut Page, result: &RunResult, title: &str) {
    in_markdown(page, all(result), title);
}
