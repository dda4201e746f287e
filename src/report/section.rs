//! What a section of the reports is: its names, and a form for each report that shows it.

use maud::Markup;

use super::html::View;
use super::markdown::Page;
use crate::result::RunResult;

/// Of which results, and the title that they have.
pub(super) type Otherwise = (fn(&RunResult) -> bool, &'static str);

/// One section. It has a form for each report that shows it.
pub(super) struct Section {
    /// Its anchor in the page.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What the navigation calls it.
    pub name: &'static str,
    /// Whether there is something to show. The page has no section and no anchor otherwise.
    pub has: fn(&RunResult) -> bool,
    /// How many things it lists, behind the heading of the page where there are any.
    pub count: fn(&RunResult) -> usize,
    /// Whether it is figures. In a terminal they come first, so that what is said of them stays on the screen.
    pub is_figures: bool,
    /// Whether a terminal shows it only where everything is asked for, as figures are.
    pub is_more: bool,
    /// Whether it ends what a terminal shows, though a page begins with it.
    pub is_last: bool,
    /// What stands under its heading in the page.
    pub html: Option<fn(&View<'_>) -> Markup>,
    /// Of which results it has another title, and which.
    pub otherwise: Option<Otherwise>,
    /// Its text, which is given its title.
    pub terminal: Option<fn(&mut String, &RunResult, &str)>,
    /// Its text where a terminal shows what one screen has room for, if that is another.
    pub brief: Option<fn(&mut String, &RunResult, &str)>,
    /// Its text, which is given its title.
    pub markdown: Option<fn(&mut Page, &RunResult, &str)>,
}

/// A section that no report shows yet.
pub(super) const fn new(id: &'static str, title: &'static str) -> Section {
    Section {
        id,
        title,
        name: title,
        has: |_| true,
        count: |_| 0,
        is_figures: false,
        is_more: false,
        is_last: false,
        html: None,
        otherwise: None,
        terminal: None,
        brief: None,
        markdown: None,
    }
}

impl Section {
    /// With a shorter name in the navigation.
    pub(super) const fn named(self, name: &'static str) -> Section {
        Section { name, ..self }
    }

    /// Only of results that have something to show.
    pub(super) const fn has(self, has: fn(&RunResult) -> bool) -> Section {
        Section { has, ..self }
    }

    /// With another title and name of some results.
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

    pub(super) const fn html(self, html: fn(&View<'_>) -> Markup) -> Section {
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
