//! Section on the power-cut results of a run's candidates: which store keeps what in which class.

use super::block::{Block, ReportFormat};
use super::crash as words;
use super::crash_page::who_keeps_what;
use super::section::{Section, new};
use super::terminal::{heading, line, wrapped};
use crate::judge::cuts::lines;
use crate::result::RunResult;

pub(super) const SECTION: Section = new("power-cuts", "Power cuts").blocks(blocks).terminal(terminal);

fn blocks(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    let (controls, lines) = lines(result);
    if lines.is_empty() {
        return Vec::new();
    }
    match format {
        ReportFormat::Terminal => Vec::new(),
        ReportFormat::Markdown | ReportFormat::Page => {
            let summary = Block::List(words::summary(&lines));
            std::iter::once(summary).chain(who_keeps_what(&controls, &lines)).collect()
        }
    }
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
