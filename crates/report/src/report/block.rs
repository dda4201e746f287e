//! Parts of a report, written once: blocks, and a renderer of them for a terminal, for Markdown and for a page.

use std::ops::Range;

use maud::{Markup, html};

use super::page::Page;
use super::prose::{led, prose};
use super::table::{Table, TableCell};
use super::terminal::{WIDTH, heading, line, wrapped};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportFormat {
    Terminal,
    Markdown,
    Page,
}

impl ReportFormat {
    /// Heading of one of several parts of a section. A terminal has no levels of headings, so that it names the section in each.
    pub(super) fn part(self, section: &str, title: String) -> Block {
        match self {
            ReportFormat::Terminal => Block::Title(format!("{section}: {title}")),
            ReportFormat::Markdown | ReportFormat::Page => Block::Heading(title),
        }
    }
}

/// A part of a report. In all text, backticks mark names.
pub(super) enum Block {
    /// Title of a part that stands beside others of its report.
    Title(String),
    /// Heading below a title.
    Heading(String),
    Text(String),
    List(Vec<String>),
    /// A list whose items begin with their subject.
    Subjects(Vec<String>),
    /// Text that belongs to the item above it.
    Below(String),
    Table(Table),
    /// Text in which every space counts, and its language.
    Code(&'static str, String),
    /// An empty line in a terminal.
    Gap,
}

/// Writes blocks for a terminal below a title, unless they begin with one or with a gap.
pub(super) fn in_terminal(text: &mut String, title: &str, blocks: &[Block]) {
    if !matches!(blocks.first(), Some(Block::Title(_) | Block::Gap) | None) {
        heading(text, title);
    }
    put_in_terminal(text, blocks);
}

/// Formats a whole report for a terminal.
pub(super) fn terminal(blocks: &[Block]) -> String {
    let mut text = String::new();
    put_in_terminal(&mut text, blocks);
    text
}

fn put_in_terminal(text: &mut String, blocks: &[Block]) {
    for block in blocks {
        match block {
            Block::Title(title) => heading(text, title),
            Block::Heading(title) => heading(text, &format!("  {title}")),
            Block::Text(words) => wrapped(text, "", words),
            Block::List(items) | Block::Subjects(items) => {
                items.iter().for_each(|item| wrapped(text, "- ", item));
            }
            Block::Below(words) => wrapped(text, "    ", words),
            Block::Table(table) => aligned(text, table),
            Block::Code(_, code) => {
                text.push('\n');
                code.lines().for_each(|of_code| line(text, &format!("  {of_code}")));
            }
            Block::Gap => text.push('\n'),
        }
    }
}

/// Width that labels in front of a row get where there is room; a longer label has its own line, because a shortened one could be
/// mistaken for another.
const LABEL_MAX: usize = 24;
/// Least width of labels.
const LABEL_MIN: usize = 8;

/// Writes a table in aligned columns. Columns of figures that do not fit go on below the others; if words do not fit, each row is a
/// line of text.
fn aligned(text: &mut String, table: &Table) {
    let titles: Vec<String> = table.columns().map(|(title, _)| title.to_owned()).collect();
    let are_numbers: Vec<bool> = table.columns().map(|(_, is_number)| is_number).collect();
    let rows: Vec<Vec<String>> = table.rows(false).collect();
    if rows.is_empty() {
        return;
    }
    let letters = |at: usize| std::iter::once(&titles).chain(&rows).map(move |row| row[at].chars().count());
    let widths: Vec<usize> = (0..titles.len()).map(|at| letters(at).max().unwrap_or(0)).collect();
    let label = |most: usize| letters(0).filter(|letters| *letters <= most).max().unwrap_or(most);
    // Room for labels beside these columns.
    let room = |columns: &Range<usize>, gap: usize| {
        WIDTH.checked_sub(2 + columns.clone().map(|at| widths[at] + gap).sum::<usize>())
    };
    let fits = |columns: &Range<usize>, gap: usize, least: usize| {
        room(columns, gap).is_some_and(|room| room >= least)
    };
    let put = |text: &mut String, columns: &Range<usize>, gap: usize| {
        let label = label(room(columns, gap).unwrap_or(0));
        let put = |text: &mut String, row: &[String]| {
            let mut cells = match row[0].chars().count() > label {
                true => format!("  {}\n  {:label$}", row[0], ""),
                false => format!("  {:label$}", row[0]),
            };
            for at in columns.clone() {
                let (value, width) = (&row[at], widths[at]);
                cells += &match are_numbers[at] {
                    true => format!("{:gap$}{value:>width$}", ""),
                    false => format!("{:gap$}{value:width$}", ""),
                };
            }
            line(text, &cells);
        };
        put(text, &titles);
        for (index, row) in rows.iter().enumerate() {
            table.title_of(index).iter().for_each(|title| wrapped(text, "  ", title));
            put(text, row);
            table.notes_of(index).for_each(|note| wrapped(text, "    ", note));
        }
    };
    let all = 1..titles.len();
    let gap = [(2, label(LABEL_MAX)), (1, label(LABEL_MAX)), (1, LABEL_MIN)];
    if let Some((gap, _)) = gap.into_iter().find(|(gap, least)| fits(&all, *gap, *least)) {
        put(text, &all, gap);
    } else if are_numbers[1..].iter().all(|is_number| *is_number) {
        let mut columns = 1..1;
        while columns.end < titles.len() {
            columns = columns.end..columns.end + 1;
            let wider = |columns: &Range<usize>| columns.start..columns.end + 1;
            while columns.end < titles.len() && fits(&wider(&columns), 2, label(LABEL_MAX)) {
                columns = wider(&columns);
            }
            put(text, &columns, 2);
            text.push_str(if columns.end < titles.len() { "\n" } else { "" });
        }
    } else {
        for (index, row) in rows.iter().enumerate() {
            table.title_of(index).iter().for_each(|title| wrapped(text, "  ", title));
            let named = titles.iter().zip(row).map(|(title, value)| format!("{title} {value}"));
            wrapped(text, "- ", &named.collect::<Vec<_>>().join(", "));
            table.notes_of(index).for_each(|note| wrapped(text, "    ", note));
        }
    }
}

/// Appends blocks to a page of Markdown below a title, unless they begin with one.
pub(super) fn in_markdown(page: &mut Page, title: &str, blocks: &[Block]) {
    if !matches!(blocks.first(), Some(Block::Title(_)) | None) {
        page.paragraph(&format!("## {title}"));
    }
    put_in_markdown(page, blocks);
}

/// Appends blocks to a page of Markdown.
pub(super) fn put_in_markdown(page: &mut Page, blocks: &[Block]) {
    for block in blocks {
        match block {
            Block::Title(title) => page.paragraph(&format!("## {title}")),
            Block::Heading(title) => page.paragraph(&format!("### {title}")),
            Block::Text(words) | Block::Below(words) => page.paragraph(words),
            Block::List(items) | Block::Subjects(items) => page.list(items),
            Block::Table(table) => {
                let titles: Vec<&str> = table.columns().map(|(title, _)| title).collect();
                let rows: Vec<Vec<String>> = table.rows(true).collect();
                let mut from = 0;
                for to in 1..=rows.len() {
                    if to == rows.len() || table.title_of(to).is_some() {
                        table.title_of(from).iter().for_each(|title| page.paragraph(title));
                        page.table(&titles, rows[from..to].iter().cloned());
                        from = to;
                    }
                }
                let note = |(label, note): (&TableCell, &str)| format!("{}: {note}", label.text(true));
                page.list(&table.notes().map(note).collect::<Vec<String>>());
            }
            Block::Code(language, code) => {
                page.block(&format!("```{language}\n{}\n```", code.replace('`', "'")))
            }
            Block::Gap => {}
        }
    }
}

/// Renders blocks for a page, which has the title above them.
pub(super) fn on_page(blocks: &[Block]) -> Markup {
    html! {
        @for block in blocks {
            @match block {
                Block::Title(title) | Block::Heading(title) => h3 { (prose(title)) },
                Block::Text(words) | Block::Below(words) => p { (prose(words)) },
                Block::List(items) => @if !items.is_empty() { ul { @for item in items { li { (prose(item)) } } } },
                Block::Subjects(items) => @if !items.is_empty() { ul { @for item in items { li { (led(item)) } } } },
                Block::Table(table) => (table),
                Block::Code(_, code) => pre tabindex="0" { code { (code) } },
                Block::Gap => {},
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_above_rows_stay_where_words_do_not_fit() {
        let mut table = Table::new("t", ["store", "words"]);
        table.push(vec!["a".into(), "word ".repeat(30).into()]);
        table.above("apart from them".to_owned());
        table.push(vec!["b".into(), "word".into()]);
        let text = terminal(&[Block::Table(table)]);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("`{words}` is not in {text}"));
        assert!(at("store a") < at("apart from them") && at("apart from them") < at("store b"), "{text}");
    }
}
