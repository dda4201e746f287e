//! Section on the power-cut results of a run's candidates: which store keeps what in which class.

use super::block::{Block, ReportFormat};
use super::crash as words;
use super::crash_page::who_keeps_what;
use super::crash_subject::head_of;
use super::section::{Section, new};
use super::terminal::{heading, wrapped};
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
    if lines.is_empty() {
        return;
    }
    heading(text, title);
    wrapped(text, "", words::LEGEND);
    controls.iter().for_each(|control| wrapped(text, "  ", &words::of_control(control)));
    let mut above = String::new();
    for of in &lines {
        let head = head_of(of);
        if head != above {
            text.push_str(&head);
            above = head;
        }
        *text += &words::of_line(of);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::judge::fixture::result;

    #[test]
    fn every_line_stands_below_its_own_file_system() {
        let mut result = result("", Vec::new(), Vec::new());
        let finding = |store: &str, file_system: &str| {
            let line = json!({"store": store, "file_system": file_system, "durability": "each-write", "declared": "nothing",
                              "failed": "no disk"});
            json!({"store": store, "phase": "cut", "round": 1, "title": "t", "columns": [], "lines": [], "bearing": "neither",
                   "verdict": "v", "power_cuts": {"controls": [], "line": line}})
        };
        let findings = json!([finding("a", "ext4"), finding("a", "xfs"), finding("b", "xfs")]);
        result.findings = serde_json::from_value(findings).unwrap();
        let mut text = String::new();
        terminal(&mut text, &result, "Power cuts");
        let heads: Vec<&str> =
            text.lines().filter(|line| line.contains(" on ") && !line.starts_with(' ')).collect();
        assert_eq!(heads, ["a on ext4", "a on xfs", "b on xfs"], "{text}");
    }
}
