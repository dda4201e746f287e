//! Section on the power-cut results of a run's candidates: which store keeps what in which class.

use maud::Markup;

use super::crash as words;
use super::crash_page as shown;
use super::html::{PageData, cuts};
use super::markdown::Page;
use super::section::{Section, new};
use super::terminal::{heading, line, wrapped};
use crate::judge::cuts::lines;
use crate::result::RunResult;

pub(super) const SECTION: Section = new("power-cuts", "Power cuts")
    .has(|result| !lines(result).1.is_empty())
    .html(html)
    .terminal(terminal)
    .markdown(markdown);

fn html(view: &PageData<'_>) -> Markup {
    let (controls, lines) = lines(view.result);
    cuts::contents(&controls, &lines)
}

fn terminal(text: &mut String, result: &RunResult, title: &str) {
    let (controls, lines) = lines(result);
    let Some(first) = lines.first() else { return };
    heading(text, title);
    wrapped(text, "", words::LEGEND);
    controls.iter().for_each(|control| wrapped(text, "  ", &words::of_control(control)));
    let mut store = None;
    for of in &lines {
        if store != Some(&of.store) {
            line(text, &format!("\n{} on {}", of.store, first.file_system));
            store = Some(&of.store);
        }
        *text += &words::of_line(of);
    }
}

fn markdown(page: &mut Page, result: &RunResult, title: &str) {
    let (controls, lines) = lines(result);
    if lines.is_empty() {
        return;
    }
    page.paragraph(&format!("## {title}"));
    page.list(&words::summary(&lines));
    shown::put_matrix(page, &lines);
    shown::put_details(page, &controls, &lines);
}
