//! A title, sentences and a table that look alike in every kind of report.

use super::html::table::{Table, TableCell, named, shown as entry_of};
use super::markdown::Page;
use super::terminal::{WIDTH, heading, line, wrapped};

/// A title, sentences and a table, ready to be shown.
pub(super) struct CaptionedTable {
    pub(super) title: String,
    /// Sentences before the table.
    pub(super) said: Vec<String>,
    /// Column titles; the flag is true for columns of numbers.
    pub(super) columns: Vec<(String, bool)>,
    /// Rows; the first cell is the label.
    pub(super) lines: Vec<Vec<Option<String>>>,
}

/// Builds the HTML table.
pub(super) fn table(found: &CaptionedTable) -> Table {
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
        table.push(line.iter().enumerate().map(entry).collect::<Vec<TableCell>>());
    }
    table
}

/// Writes it for a terminal: as a table if it fits, otherwise as a line of text for each row.
pub(super) fn in_terminal(text: &mut String, shown: &CaptionedTable, title: &str) {
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

/// Writes several of them as Markdown below one heading.
pub(super) fn in_markdown(page: &mut Page, all: Vec<CaptionedTable>, title: &str) {
    for (index, found) in all.into_iter().enumerate() {
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
