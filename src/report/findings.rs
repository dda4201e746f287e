//! What kinds of work found, as every kind of report shows it: one section, whatever the kind.

use maud::{Markup, html};

use super::html::table::{Entry, Table, named, shown as entry_of};
use super::html::{View, prose};
use super::markdown::Page;
use super::section::{Section, new};
use super::terminal::{WIDTH, heading, line, wrapped};
use super::view::words;
use crate::judge::findings::{Group, Standing, groups};
use crate::result::{Finding, FoundColumn, FoundValue, RunResult, Unit};
use crate::units;

/// The section.
pub(super) const SECTION: Section = new("findings", "Findings")
    .has(|result| !all(result).is_empty())
    .html(html)
    .terminal(terminal)
    .markdown(markdown);

/// The findings of one phase, ready to be shown.
struct Shown {
    /// What it is about.
    title: String,
    /// What is said of each candidate.
    said: Vec<String>,
    /// The columns, and whether they hold numbers.
    columns: Vec<(String, bool)>,
    /// The lines. Each begins with its candidate and its round.
    lines: Vec<Vec<Option<String>>>,
}

/// All of a result but those that have a section of their own.
fn all(result: &RunResult) -> Vec<Shown> {
    let has_own =
        |group: &&Group<'_>| group.findings.iter().all(|finding| finding.found.power_cuts.is_some());
    groups(result).iter().filter(|group| !has_own(group)).map(shown).collect()
}

fn shown(group: &Group<'_>) -> Shown {
    let columns = group.findings.first().map(|finding| finding.found.columns.as_slice()).unwrap_or_default();
    let own = columns.iter().map(|column| (column.title.clone(), column.unit != Unit::Text));
    Shown {
        title: format!("{} ({})", group.title, words::phase(group.phase, group.corpus_id)),
        said: group.standings().iter().map(said).collect(),
        columns: [("store".to_owned(), false), ("round".to_owned(), true)].into_iter().chain(own).collect(),
        lines: group.findings.iter().flat_map(|finding| lines(finding)).collect(),
    }
}

fn said(standing: &Standing<'_>) -> String {
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

fn words_of(column: &FoundColumn, value: &FoundValue) -> String {
    match value {
        FoundValue::Text(words) => words.clone(),
        FoundValue::Number(number) => match column.unit {
            Unit::Text => number.to_string(),
            Unit::Count => units::count(*number),
            Unit::Bytes => units::bytes(*number),
            Unit::Nanoseconds => units::nanoseconds(*number),
            Unit::Share => format!("{:.1} %", number * 100.0),
            Unit::PerSecond => format!("{}/s", units::count(*number)),
        },
    }
}

fn html(view: &View<'_>) -> Markup {
    html! {
        @for found in &all(view.result) {
            h3 { (found.title) }
            @for sentence in &found.said { p { (prose(sentence)) } }
            (table(found))
        }
    }
}

fn table(found: &Shown) -> Table {
    let heads: Vec<String> = found
        .columns
        .iter()
        .map(|(title, number)| if *number { format!("#{title}") } else { title.clone() })
        .collect();
    let mut table = Table::new(&found.title, &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for line in &found.lines {
        let entry = |(index, value): (usize, &Option<String>)| match value {
            Some(label) if index == 0 => named(label),
            value => entry_of::<&String>(value.as_ref(), Clone::clone),
        };
        table.push(line.iter().enumerate().map(entry).collect::<Vec<Entry>>());
    }
    table
}

fn terminal(text: &mut String, result: &RunResult, title: &str) {
    all(result).iter().for_each(|shown| one(text, shown, title));
}

/// What a kind of work found: a table where it fits, else a line of words for each of its lines.
fn one(text: &mut String, shown: &Shown, title: &str) {
    heading(text, &format!("{title}: {}", shown.title));
    shown.said.iter().for_each(|sentence| wrapped(text, "", sentence));
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let lines: Vec<Vec<String>> = shown.lines.iter().map(|line| line.iter().map(value).collect()).collect();
    let width = |index: usize, (title, _): &(String, bool)| {
        let values = lines.iter().filter_map(|line| line.get(index)).map(|value| value.chars().count());
        values.chain([title.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> =
        shown.columns.iter().enumerate().map(|(index, column)| width(index, column)).collect();
    if widths.iter().map(|width| width + 2).sum::<usize>() > WIDTH {
        for values in &lines {
            let named =
                shown.columns.iter().zip(values).map(|((title, _), value)| format!("{title} {value}"));
            wrapped(text, "- ", &named.collect::<Vec<_>>().join(", "));
        }
        return;
    }
    let titles: Vec<String> = shown.columns.iter().map(|(title, _)| title.clone()).collect();
    for values in std::iter::once(&titles).chain(&lines) {
        let cell = |((value, width), (_, is_number)): ((&String, &usize), &(String, bool))| {
            if *is_number { format!("  {value:>width$}") } else { format!("  {value:<width$}") }
        };
        line(text, &values.iter().zip(&widths).zip(&shown.columns).map(cell).collect::<String>());
    }
}

fn markdown(page: &mut Page, result: &RunResult, title: &str) {
    for (index, found) in all(result).into_iter().enumerate() {
        if index == 0 {
            page.paragraph(&format!("## {title}"));
        }
        page.paragraph(&format!("### {}", found.title));
        found.said.iter().for_each(|sentence| page.paragraph(sentence));
        let head: Vec<&str> = found.columns.iter().map(|(title, _)| title.as_str()).collect();
        let lines = found.lines.into_iter();
        page.table(&head, lines.map(|line| line.into_iter().map(Option::unwrap_or_default).collect()));
    }
}
