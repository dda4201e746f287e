//! A section of the reports: its names, and one renderer for each kind of report that shows it.

use maud::Markup;

use super::block::{Block, ReportFormat, in_markdown, in_terminal, on_page};
use super::html::PageData;
use super::page::Page;
use crate::result::RunResult;

/// Predicate on results, and the title that the section has for them.
pub(super) type AlternativeTitle = (fn(&RunResult) -> bool, &'static str);

/// A section, with blocks for every kind of report or a renderer for each that shows it.
pub(super) struct Section {
    /// Anchor in the HTML page.
    pub id: &'static str,
    pub title: &'static str,
    /// Name in the navigation.
    pub name: &'static str,
    /// True if the navigation leaves it out, because a reader reaches it from another section.
    pub is_aside: fn(&RunResult) -> bool,
    /// True if there is something to show; otherwise the page omits the section and its anchor.
    pub has: fn(&RunResult) -> bool,
    /// Number of items, shown after the heading in the page if not 0.
    pub count: fn(&RunResult) -> usize,
    /// True for sections of figures. A terminal shows them first, so that the text about them stays on the screen.
    pub is_figures: bool,
    /// True if a terminal shows it only in the full report, like figures.
    pub is_more: bool,
    /// True for the recommendation: it ends one screen of a terminal, and begins the full report and the page.
    pub is_last: bool,
    /// Builds the content; the reports that it is for may leave blocks out. Nothing is shown of a section without blocks.
    blocks: Option<fn(&RunResult, ReportFormat) -> Vec<Block>>,
    /// Renders the content below the heading of the page.
    html: Option<fn(&PageData<'_>) -> Markup>,
    /// Alternative title, for some results.
    pub otherwise: Option<AlternativeTitle>,
    /// Writes the text for a terminal, given the title.
    terminal: Option<fn(&mut String, &RunResult, &str)>,
    /// Writes the text for one screen of a terminal, if it differs.
    pub brief: Option<fn(&mut String, &RunResult, &str)>,
    /// Writes Markdown, given the title.
    markdown: Option<fn(&mut Page, &RunResult, &str)>,
}

/// Creates a section that no report shows yet.
pub(super) const fn new(id: &'static str, title: &'static str) -> Section {
    Section {
        id,
        title,
        name: title,
        is_aside: |_| false,
        has: |_| true,
        count: |_| 0,
        is_figures: false,
        is_more: false,
        is_last: false,
        blocks: None,
        html: None,
        otherwise: None,
        terminal: None,
        brief: None,
        markdown: None,
    }
}

impl Section {
    /// Writes the section for a terminal.
    pub(super) fn in_terminal(&self, text: &mut String, result: &RunResult) {
        self.terminal.iter().for_each(|write| write(text, result, self.title));
        self.blocks.iter().for_each(|of| in_terminal(text, self.title, &of(result, ReportFormat::Terminal)));
    }

    /// Appends the section to a page of Markdown.
    pub(super) fn in_markdown(&self, page: &mut Page, result: &RunResult) {
        self.markdown.iter().for_each(|write| write(page, result, self.title));
        self.blocks.iter().for_each(|of| in_markdown(page, self.title, &of(result, ReportFormat::Markdown)));
    }

    /// Renders the content below the heading of the page; `None` if the page does not have the section.
    pub(super) fn on_page(&self, view: &PageData<'_>) -> Option<Markup> {
        if !(self.has)(view.result) {
            return None;
        }
        let blocks =
            self.blocks.map(|of| of(view.result, ReportFormat::Page)).filter(|blocks| !blocks.is_empty());
        self.html.map(|render| render(view)).or_else(|| Some(on_page(&blocks?)))
    }

    /// Sets the blocks of every kind of report.
    pub(super) const fn blocks(self, blocks: fn(&RunResult, ReportFormat) -> Vec<Block>) -> Section {
        Section { blocks: Some(blocks), ..self }
    }

    /// Sets a shorter name for the navigation.
    pub(super) const fn named(self, name: &'static str) -> Section {
        Section { name, ..self }
    }

    /// Leaves the section out of the navigation, for some results.
    pub(super) const fn aside(self, is_aside: fn(&RunResult) -> bool) -> Section {
        Section { is_aside, ..self }
    }

    /// Restricts the section to results that have something to show.
    pub(super) const fn has(self, has: fn(&RunResult) -> bool) -> Section {
        Section { has, ..self }
    }

    /// Sets another title and name for some results.
    pub(super) const fn otherwise(self, of: fn(&RunResult) -> bool, title: &'static str) -> Section {
        Section { otherwise: Some((of, title)), ..self }
    }

    pub(super) const fn count(self, count: fn(&RunResult) -> usize) -> Section {
        Section { count, ..self }
    }

    pub(super) const fn figures(self) -> Section {
        Section { is_figures: true, ..self }
    }

    pub(super) const fn more(self) -> Section {
        Section { is_more: true, ..self }
    }

    pub(super) const fn last(self) -> Section {
        Section { is_last: true, ..self }
    }

    pub(super) const fn html(self, html: fn(&PageData<'_>) -> Markup) -> Section {
        Section { html: Some(html), ..self }
    }

    pub(super) const fn terminal(self, terminal: fn(&mut String, &RunResult, &str)) -> Section {
        Section { terminal: Some(terminal), ..self }
    }

    pub(super) const fn brief(self, brief: fn(&mut String, &RunResult, &str)) -> Section {
        Section { brief: Some(brief), ..self }
    }

    pub(super) const fn markdown(self, markdown: fn(&mut Page, &RunResult, &str)) -> Section {
        Section { markdown: Some(markdown), ..self }
    }
}
