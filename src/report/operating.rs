//! Operating a store, in every kind of report: duration of each task on the whole store, size of a backup, and disk space left
//! after deleting everything.

use maud::{Markup, html};

use super::html::table::{Table, TableCell, named, shown};
use super::html::{PageData, prose};
use super::markdown::Page;
use super::section::{Section, new};
use super::terminal::{heading, line, wrapped};
use crate::judge::answer::with_reasons;
use crate::judge::upkeep::{CandidateUpkeep, lines};
use crate::result::{Interval, RunResult};
use crate::units;

pub(super) const SECTION: Section = new("operating", "Operating it")
    .named("Operating")
    .has(|result| !lines(result).is_empty())
    .html(html)
    .terminal(terminal)
    .markdown(markdown);

/// Column heads after the candidate.
const COLUMNS: [&str; 7] = ["list", "count", "back up", "backup/B", "restore", "delete", "left"];
/// Column widths in a terminal: candidate label, then each other column; they total 79 characters.
const LABEL: usize = 16;
const WIDTH: usize = 9;

/// Formats the figures of a line; `time` formats a time from its interval.
fn figures(of: &CandidateUpkeep<'_>, time: impl Fn(&Interval) -> String) -> [Option<String>; 7] {
    [
        of.list.as_ref().map(&time),
        of.count.as_ref().map(&time),
        of.back_up.as_ref().map(&time),
        of.per_byte.map(|per_byte| format!("{per_byte:.2}")),
        of.restore.as_ref().map(&time),
        of.delete.as_ref().map(&time),
        of.left.map(units::percent),
    ]
}

fn middle(seconds: &Interval) -> String {
    units::nanoseconds(seconds.median * 1e9)
}

/// Label of a line: the candidate, plus the size if there are several.
fn label(of: &CandidateUpkeep<'_>) -> String {
    match of.corpus_id.bytes() {
        Some(bytes) => format!("{} {}", of.store, units::bytes(bytes as f64)),
        None => of.store.to_owned(),
    }
}

/// Median, plus the ends of the interval if there are several rounds.
fn with_ends(seconds: &Interval) -> String {
    match (seconds.low, seconds.high) {
        (Some(low), Some(high)) => {
            let [low, high] = [low, high].map(|end| units::nanoseconds(end * 1e9));
            format!("{} ({low} to {high})", middle(seconds))
        }
        _ => middle(seconds),
    }
}

/// Text above the table.
const ABOUT: &str = "The whole store at a time. Backups are flushed, restored and compared blob by blob; backup/B is their disk for each byte of blobs. Delete lasts until the store has given back what it gives back by itself; the rest of its disk is left.";

/// Sentences below the table.
fn sentences(lines: &[CandidateUpkeep<'_>]) -> Vec<String> {
    let mut all = Vec::new();
    let first = lines.first().map(|of| of.corpus_id);
    let is_first = |of: &&CandidateUpkeep<'_>| Some(of.corpus_id) == first;
    let made = |of: &&CandidateUpkeep<'_>| !of.by.is_empty();
    // Other sizes would repeat the same sentences.
    let means = lines.iter().filter(is_first).filter(made).map(|of| {
        let closed = if of.is_closed { ", closed for all of that time" } else { "" };
        (format!("{}{closed}", of.by), of.store.to_owned())
    });
    all.extend(with_reasons(means).map(|list| format!("Backed up by: {list}.")));
    let reasons = lines
        .iter()
        .filter(is_first)
        .flat_map(|of| of.reasons.iter().map(|reason| ((*reason).to_owned(), of.store.to_owned())));
    all.extend(with_reasons(reasons).map(|list| format!("Not possible: {list}.")));
    all
}

fn html(view: &PageData<'_>) -> Markup {
    let lines = lines(view.result);
    let heads: Vec<String> =
        std::iter::once("store".to_owned()).chain(COLUMNS.map(|title| format!("#{title}"))).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("What an operator does with a whole store", &heads);
    for of in &lines {
        let entries = figures(of, with_ends);
        let entry = |figure: &Option<String>| shown::<&String>(figure.as_ref(), Clone::clone);
        table.push(
            std::iter::once(named(&label(of))).chain(entries.iter().map(entry)).collect::<Vec<TableCell>>(),
        );
    }
    html! {
        p { (ABOUT) }
        (table)
        @for sentence in &sentences(&lines) { p { (prose(sentence)) } }
    }
}

fn terminal(text: &mut String, result: &RunResult, title: &str) {
    let lines = lines(result);
    if lines.is_empty() {
        return;
    }
    heading(text, title);
    wrapped(text, "  ", ABOUT);
    let heads: String = COLUMNS.iter().map(|title| format!("{title:>WIDTH$}")).collect();
    line(text, &format!("{:<LABEL$}{heads}", "store"));
    for of in &lines {
        let cells: String = figures(of, middle)
            .iter()
            .map(|figure| format!("{:>WIDTH$}", figure.as_deref().unwrap_or("-")))
            .collect();
        let label = label(of);
        if label.chars().count() > LABEL {
            line(text, &label);
            line(text, &format!("{:<LABEL$}{cells}", ""));
        } else {
            line(text, &format!("{label:<LABEL$}{cells}"));
        }
    }
    sentences(&lines).iter().for_each(|sentence| wrapped(text, "- ", sentence));
}

fn markdown(page: &mut Page, result: &RunResult, title: &str) {
    let lines = lines(result);
    if lines.is_empty() {
        return;
    }
    page.paragraph(&format!("## {title}"));
    page.paragraph(ABOUT);
    let head: Vec<&str> = std::iter::once("store").chain(COLUMNS).collect();
    let row = |of: &CandidateUpkeep<'_>| {
        let cells = figures(of, with_ends).map(|figure| figure.unwrap_or_else(|| "-".to_owned()));
        std::iter::once(label(of)).chain(cells).collect::<Vec<String>>()
    };
    page.table(&head, lines.iter().map(row));
    page.list(&sentences(&lines));
}
