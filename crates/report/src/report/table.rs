//! HTML tables, each in its own scrollable box and fully escaped.

use maud::{Markup, Render, html};

use super::prose::prose;
use crate::units;

#[derive(Clone, Debug, Default)]
pub struct Table {
    caption: String,
    /// Group headings above the column heads, each with the number of columns it spans.
    above: Vec<(String, usize)>,
    head: Vec<(String, Align)>,
    rows: Vec<Vec<TableCell>>,
    /// Lines above rows: the index of a row, and the line.
    titles: Vec<(usize, String)>,
    /// Remarks on rows: the index of a row, and a sentence.
    notes: Vec<(usize, String)>,
    /// Number of rows on paper; `None` for all.
    printed: Option<usize>,
}

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Align {
    /// Left, for words.
    Left,
    /// Right, for numbers.
    Right,
}

/// A cell and its style class.
#[derive(Clone, Debug)]
pub struct TableCell {
    content: CellContent,
    class: &'static str,
    /// Remark behind the content.
    remark: Option<String>,
}

/// Content of a cell.
#[derive(Clone, Debug)]
pub enum CellContent {
    /// Text as it is.
    Text(String),
    /// Label of a candidate.
    Name(String),
    /// Label with a candidate in backticks.
    Subject(String),
    /// Sentences, in which backticks mark names.
    Prose(String),
    /// Verdict and the figures behind it; true if it stands out in Markdown.
    Verdict(String, String, bool),
    /// A figure that is missing.
    Absent,
    /// Content that only a page can show.
    Markup(Markup),
}

impl TableCell {
    /// Creates a cell of a page with a style class.
    pub fn new(markup: Markup, class: &'static str) -> TableCell {
        TableCell::with(CellContent::Markup(markup), class)
    }

    /// Creates a cell of every kind of report, with a style class for the page.
    pub fn with(content: CellContent, class: &'static str) -> TableCell {
        TableCell { content, class, remark: None }
    }

    /// Appends a remark, if there is one.
    pub fn remarked<'r>(self, remark: impl Into<Option<&'r str>>) -> TableCell {
        TableCell { remark: remark.into().map(str::to_owned), ..self }
    }

    /// Plain text of the cell, for a terminal or for Markdown, where names are code.
    pub fn text(&self, is_markdown: bool) -> String {
        let text = match &self.content {
            CellContent::Name(name) if is_markdown => format!("`{}`", name.replace('`', "'")),
            CellContent::Subject(subject) if !is_markdown => subject.replace('`', ""),
            CellContent::Text(text)
            | CellContent::Name(text)
            | CellContent::Subject(text)
            | CellContent::Prose(text) => text.clone(),
            CellContent::Verdict(verdict, figures, true) if is_markdown => {
                format!("**{verdict}**, {figures}")
            }
            CellContent::Verdict(verdict, figures, _) => format!("{verdict}, {figures}"),
            CellContent::Absent => "-".to_owned(),
            CellContent::Markup(_) => String::new(),
        };
        self.remark.iter().fold(text, |text, remark| format!("{text} {remark}"))
    }
}

impl Render for TableCell {
    fn render(&self) -> Markup {
        html! {
            @match &self.content {
                CellContent::Text(text) => (text),
                CellContent::Name(name) => @for piece in pieces(name) { (piece) wbr; },
                CellContent::Subject(subject) => @for piece in pieces(&subject.replace('`', "")) { (piece) wbr; },
                CellContent::Prose(text) => (prose(text)),
                CellContent::Verdict(verdict, figures, _) => { strong { (verdict) } br; (figures) }
                CellContent::Absent => (ABSENT),
                CellContent::Markup(markup) => (markup),
            }
            @if let Some(remark) = &self.remark { " " small { (remark) } }
        }
    }
}

impl<T: Into<String>> From<T> for TableCell {
    fn from(text: T) -> TableCell {
        TableCell::with(CellContent::Text(text.into()), "")
    }
}

/// Cell for a candidate's label, which may wrap between its parts.
pub fn named(label: &str) -> TableCell {
    TableCell::with(CellContent::Name(label.to_owned()), "")
}

/// Parts of a label between which it may wrap.
fn pieces(label: &str) -> impl Iterator<Item = &str> {
    label.split_inclusive([',', '=', '/']).flat_map(|piece| {
        let at = piece.find('[').unwrap_or(0);
        [&piece[..at], &piece[at..]]
    })
}

/// Cell for sentences, in which backticks mark names.
pub fn prose_cell(text: impl Into<String>) -> TableCell {
    TableCell::with(CellContent::Prose(text.into()), "words")
}

/// Shown in place of a missing figure.
pub const ABSENT: &str = "–";

/// Cell for a figure, or for a missing one.
pub fn shown<T>(value: Option<T>, show: impl Fn(T) -> String) -> TableCell {
    value.map_or(TableCell::with(CellContent::Absent, "absent"), |value| show(value).into())
}

/// A column: its title, as in [`Table::new`], and the function that makes the cell of a row.
pub type Column<'a, R> = (&'static str, &'a dyn Fn(R) -> TableCell);

impl Table {
    /// Creates a table of these rows.
    pub fn with_columns<R: Copy>(caption: &str, rows: &[R], columns: &[Column<'_, R>]) -> Table {
        let mut table = Table::new(caption, columns.iter().map(|(title, _)| title));
        table.rows = rows.iter().map(|row| columns.iter().map(|(_, cell)| cell(*row)).collect()).collect();
        table
    }

    /// Creates a table with these columns; `#` marks a column of numbers.
    pub fn new(caption: impl Into<String>, head: impl IntoIterator<Item = impl AsRef<str>>) -> Table {
        let column = |title: &str| match title.strip_prefix('#') {
            Some(title) => (title.to_owned(), Align::Right),
            None => (title.to_owned(), Align::Left),
        };
        let head = head.into_iter().map(|title| column(title.as_ref())).collect();
        Table { caption: caption.into(), head, ..Table::default() }
    }

    /// Adds a line of headings above the head, one heading for each column; equal neighbors are merged.
    pub fn below(mut self, headings: &[String]) -> Table {
        for heading in headings {
            match self.above.last_mut() {
                Some((last, columns)) if last == heading => *columns += 1,
                _ => self.above.push((heading.clone(), 1)),
            }
        }
        self
    }

    /// Appends a row; its first cell is the row's label.
    pub fn push(&mut self, row: Vec<TableCell>) {
        self.rows.push(row);
    }

    /// Sets a line above the next row: one that stands over the rows below it. A page does not have it.
    pub fn above(&mut self, title: impl Into<Option<String>>) {
        self.titles.extend(title.into().map(|title| (self.rows.len(), title)));
    }

    /// Line above a row.
    pub fn title_of(&self, row: usize) -> Option<&str> {
        self.titles.iter().find(|(of, _)| *of == row).map(|(_, title)| title.as_str())
    }

    /// Adds a remark on the last row. A terminal shows it below the row, other reports below the table.
    pub fn note(&mut self, note: String) {
        if !note.is_empty() {
            self.notes.push((self.rows.len().saturating_sub(1), note));
        }
    }

    /// Remarks on rows, each with the label of its row.
    pub fn notes(&self) -> impl Iterator<Item = (&TableCell, &str)> {
        self.notes.iter().filter_map(|(row, note)| Some((self.rows.get(*row)?.first()?, note.as_str())))
    }

    /// Remarks on a row.
    pub fn notes_of(&self, row: usize) -> impl Iterator<Item = &str> {
        self.notes.iter().filter(move |(of, _)| *of == row).map(|(_, note)| note.as_str())
    }

    /// Limits the rows printed on paper, and says so there; for long tables that affect no decision.
    pub fn printed(mut self, rows: usize) -> Table {
        self.printed = Some(rows);
        self
    }

    /// Columns: their titles, and true for numbers.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (&str, bool)> {
        self.head.iter().map(|(title, align)| (title.as_str(), *align == Align::Right))
    }

    /// Rows as text, for a terminal or for Markdown.
    pub fn rows(&self, is_markdown: bool) -> impl Iterator<Item = Vec<String>> {
        self.rows.iter().map(move |row| row.iter().map(|cell| cell.text(is_markdown)).collect())
    }

    /// Number of rows shown only on screen.
    fn unprinted(&self) -> usize {
        self.rows.len().saturating_sub(self.printed.unwrap_or(usize::MAX))
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Render for Table {
    fn render(&self) -> Markup {
        if self.is_empty() {
            return html! {};
        }
        let class = |index: usize, entry: &TableCell| {
            let right = self.head.get(index).is_some_and(|(_, align)| *align == Align::Right);
            format!("{} {}", if right { "number" } else { "" }, entry.class).trim().to_owned()
        };
        html! {
            div.scroll tabindex="0" role="group" aria-label=(self.caption) {
                table {
                    caption { (self.caption) }
                    thead {
                        @if self.above.len() > 1 {
                            tr.above {
                                @for (heading, columns) in &self.above {
                                    // A heading without text would be read out as one.
                                    @if heading.is_empty() {
                                        td colspan=(columns) {}
                                    } @else {
                                        th scope="colgroup" colspan=(columns) { (heading) }
                                    }
                                }
                            }
                        }
                        tr {
                            @for (title, align) in &self.head {
                                th scope="col" class=[(*align == Align::Right).then_some("number")] { (title) }
                            }
                        }
                    }
                    tbody {
                        @for (at, row) in self.rows.iter().enumerate() {
                            tr class=[(at >= self.rows.len() - self.unprinted()).then_some("unprinted")] {
                                @for (index, entry) in row.iter().enumerate() {
                                    @if index == 0 {
                                        th scope="row" class=(class(index, entry)) { (entry) }
                                    } @else {
                                        td class=(class(index, entry)) { (entry) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if !self.notes.is_empty() {
                ul { @for (label, note) in self.notes() { li { (label) ": " (prose(note)) } } }
            }
            @if self.unprinted() > 0 {
                p.printed {
                    @if self.unprinted() == self.rows.len() { "Not printed: " (self.caption) ", " (units::counted(self.rows.len(), "row")) }
                    @else { (units::counted(self.unprinted(), "more row")) }
                    " in the file that was printed."
                }
            }
        }
    }
}
