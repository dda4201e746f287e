//! Parts of a report, written once: blocks, and a renderer of them for a terminal, for Markdown and for a page.

use maud::{Markup, html};

use super::html::table::{Table, TableCell};
use super::html::{led, prose};
use super::markdown::Page;
use super::terminal::{WIDTH, heading, line, wrapped};

/// Kind of report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Terminal,
    Markdown,
    Page,
}

impl Medium {
    /// Heading of one of several parts of a section. A terminal has no levels of headings, so that it names the section in each.
    pub(super) fn part(self, section: &str, title: String) -> Block {
        match self {
            Medium::Terminal => Block::Title(format!("{section}: {title}")),
            Medium::Markdown | Medium::Page => Block::Heading(title),
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
    /// Content of a page that other kinds of report do not have.
    Figure(Markup),
}

// ---- terminal --------------------------------------------------------------------------------------------------------

/// Writes blocks for a terminal below a title, unless they begin with one.
pub(super) fn in_terminal(text: &mut String, title: &str, blocks: &[Block]) {
    if !matches!(blocks.first(), Some(Block::Title(_)) | None) {
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
            Block::Figure(_) => {}
        }
    }
}

/// Width that labels in front of a row get where there is room; a longer label has its own line, because a shortened one could be
/// mistaken for another.
const LABEL_MAX: usize = 24;
/// Least width of labels.
const LABEL_MIN: usize = 8;

/// Writes a table in aligned columns, or as a line of text for each row if they do not fit.
fn aligned(text: &mut String, table: &Table) {
    let titles: Vec<String> = table.columns().map(|(title, _)| title.to_owned()).collect();
    let rows: Vec<Vec<String>> = table.rows(false).collect();
    let all = || std::iter::once(&titles).chain(&rows);
    let letters = |index: usize| all().filter_map(move |row| Some(row.get(index)?.chars().count()));
    let widths: Vec<usize> = (0..titles.len()).map(|index| letters(index).max().unwrap_or(0)).collect();
    let figures: usize = widths.iter().skip(1).sum();
    let room = |gap: usize| WIDTH.checked_sub(2 + figures + gap * widths.len().saturating_sub(1));
    let label = |most: usize| letters(0).filter(|letters| *letters <= most).max().unwrap_or(most);
    let fits = |gap: &usize, most: usize| room(*gap).is_some_and(|room| room >= label(most));
    let gap = [2, 1].into_iter().find(|gap| fits(gap, LABEL_MAX)).unwrap_or(1);
    let Some(room) = room(gap).filter(|room| *room >= LABEL_MIN) else {
        for (index, row) in rows.iter().enumerate() {
            let named = titles.iter().zip(row).map(|(title, value)| format!("{title} {value}"));
            wrapped(text, "- ", &named.collect::<Vec<_>>().join(", "));
            table.notes_of(Some(index)).for_each(|note| wrapped(text, "    ", note));
        }
        return;
    };
    let label = label(room);
    for (index, row) in all().enumerate().filter(|_| !rows.is_empty()) {
        let mut cells = String::new();
        for (((at, value), width), (_, is_number)) in row.iter().enumerate().zip(&widths).zip(table.columns())
        {
            cells += &match (at, is_number) {
                (0, _) if value.chars().count() > label => format!("{value}\n  {:label$}", ""),
                (0, _) => format!("{value:label$}"),
                (_, true) => format!("{:gap$}{value:>width$}", ""),
                (_, false) => format!("{:gap$}{value:width$}", ""),
            };
        }
        line(text, &format!("  {cells}"));
        table.notes_of(index.checked_sub(1)).for_each(|note| wrapped(text, "    ", note));
    }
}

// ---- Markdown --------------------------------------------------------------------------------------------------------

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
                page.table(&titles, table.rows(true));
                let note = |(label, note): (&TableCell, &str)| format!("{}: {note}", label.text(true));
                page.list(&table.notes().map(note).collect::<Vec<String>>());
            }
            Block::Code(language, code) => {
                page.block(&format!("```{language}\n{}\n```", code.replace('`', "'")))
            }
            Block::Gap | Block::Figure(_) => {}
        }
    }
}

// ---- page ------------------------------------------------------------------------------------------------------------

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
                Block::Figure(figure) => (figure),
            }
        }
    }
}
