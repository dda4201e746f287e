//! The page of power cuts: which store keeps what in which class, all figures, and what other faults took.

use maud::html;

use super::{prose, still_document};
use crate::report::block::{Block, on_page};
use crate::report::crash::{preloaded, summary};
use crate::report::{crash_page, fault_injection};
use crate::result::crash::{Control, CrashReport, CrashResult};

/// Renders one or more reports of `blobwise crash` as a page.
pub fn render(reports: &[CrashReport]) -> String {
    let lines: Vec<CrashResult> = reports.iter().flat_map(|report| report.lines.clone()).collect();
    let controls: Vec<Control> = reports.iter().flat_map(|report| report.controls.clone()).collect();
    let others: Vec<Block> = reports.iter().flat_map(fault_injection::blocks).collect();
    let title = "blobwise: what power cuts take";
    let body = html! {
        header {
            h1 { (title) }
            @for report in reports {
                p.facts { (report.started) " · " (report.system) " · blobwise " (report.blobwise) " · seed " (report.seed) }
                pre tabindex="0" { code { (report.command) } }
                @if let Some(warning) = preloaded(report) { p.beside { (prose(&warning)) } }
            }
        }
        main {
            section id="answer" {
                h2 { "Answer" }
                (on_page(&[Block::List(summary(&lines))]))
            }
            section id="power-cuts" {
                h2 { "Power cuts" }
                (on_page(&crash_page::who_keeps_what(&controls, &lines)))
            }
            @if !others.is_empty() {
                section id="others" {
                    h2 { "Beside power cuts" }
                    (on_page(&others))
                }
            }
        }
    };
    still_document(title, env!("CARGO_PKG_VERSION"), &body, &html! {}, &html! {}).into_string()
}
