//! Power cuts in HTML: which store keeps what in which class, and a figure of each load's flushes and of what each cut left.

use maud::{Markup, html};

use super::{prose, still_document};
use crate::report::crash_subject::subject;
use crate::report::{crash as words, fault_injection};
use crate::result::crash::{Control, CrashReport, CrashResult, PowerCutResults, SurvivingData};
use crate::units;

/// Renders one or more reports of `blobwise crash` as a page.
pub fn render(reports: &[CrashReport]) -> String {
    let lines: Vec<CrashResult> = reports.iter().flat_map(|report| report.lines.clone()).collect();
    let controls: Vec<Control> = reports.iter().flat_map(|report| report.controls.clone()).collect();
    let title = "blobwise: what power cuts take";
    let body = html! {
        header {
            h1 { (title) }
            @for report in reports {
                p.facts { (report.started) " · " (report.system) " · blobwise " (report.blobwise) " · seed " (report.seed) }
                pre tabindex="0" { code { (report.command) } }
                @if let Some(warning) = words::preloaded(report) { p.beside { (prose(&warning)) } }
            }
        }
        main {
            section id="answer" {
                h2 { "Answer" }
                ul { @for sentence in words::summary(&lines) { li { (prose(&sentence)) } } }
            }
            section id="power-cuts" {
                h2 { "Power cuts" }
                (contents(&controls, &lines))
            }
        }
    };
    still_document(title, env!("CARGO_PKG_VERSION"), &body, &html! {}, &html! {}).into_string()
}

/// Content below the heading.
pub fn contents(controls: &[Control], lines: &[CrashResult]) -> Markup {
    html! {
        p { (words::LEGEND) }
        @let cut = words::cut(lines);
        (words::matrix(&cut))
        (pictures(&cut))
        details.everything open { summary { "All figures" } (words::details(&cut)) }
        @for said in words::first_of_all(lines) { p { (prose(&said)) } }
        (beside(lines))
        @if !controls.is_empty() { h3 { "Controls" } }
        ul { @for control in controls { li class=[(!control.holds()).then_some("failed")] { (words::of_control(control)) " (" (control.file_system) ")" } } }
    }
}

/// List of kills, device errors, ignored flushes and flipped bytes, if they were tested.
fn beside(lines: &[CrashResult]) -> Markup {
    let all = || lines.iter().map(|line| (line, fault_injection::paragraphs(&line.besides)));
    html! {
        @if all().any(|(_, said)| !said.is_empty()) {
            h3 { "Beside power cuts" }
            ul {
                @for (line, said) in all().filter(|(_, said)| !said.is_empty()) {
                    li {
                        (prose(&subject(line))) " in class " (line.durability.name()) " on " (line.file_system)
                        ul { @for words in said { li { (prose(&words)) } } }
                    }
                }
            }
        }
    }
}

// ---- the figure ------------------------------------------------------------------------------------------------------

/// Marks by the result of a cut: id of the mark, vertical position of its lane in pixels, and text of the legend.
const MARKS: [(SurvivingData, &str, u32, &str); 4] = [
    (SurvivingData::Everything, "cut-everything", 8, "everything acknowledged was there"),
    (SurvivingData::Promised, "cut-promised", 20, "recent writes gone, as the class allows"),
    (SurvivingData::Less, "cut-less", 32, "less than is promised"),
    (SurvivingData::NoFileSystem, "cut-none", 32, "no file system to mount"),
];

/// Vertical range of the flush ticks in pixels; its end is also the height of the figure.
const TICKS: (u32, u32) = (42, 50);

fn mark(left: SurvivingData) -> (&'static str, u32) {
    let found = MARKS.iter().find(|(known, ..)| *known == left);
    found.map_or(("", 0), |(_, mark, lane, _)| (mark, *lane))
}

/// Shapes of the marks, defined once per page.
fn shapes() -> Markup {
    html! {
        svg.shapes width="0" height="0" aria-hidden="true" {
            defs {
                circle id="cut-everything" r="3.2" fill="#1b7f4d" fill-opacity="0.6" {}
                path id="cut-promised" d="M0 -4 L4 3.5 L-4 3.5 Z" fill="#fff1d6" stroke="#b26a00" stroke-width="1.2" {}
                path id="cut-less" d="M-4 -4 L4 4 M4 -4 L-4 4" style="stroke: var(--bad-ink)" stroke-width="2.2" {}
                rect id="cut-none" x="-3.5" y="-3.5" width="7" height="7" fill="#fff" stroke="#5b6068" stroke-width="1.2" {}
            }
        }
    }
}

fn legend() -> Markup {
    html! {
        p.legend {
            @for (_, mark, _, words) in MARKS {
                span { svg width="14" height="14" aria-hidden="true" { use href={ "#" (mark) } x="7" y="7" {} } (words) }
            }
            span { svg width="14" height="14" aria-hidden="true" { line x1="7" x2="7" y1="2" y2="12" class="flush" {} } "a flush" }
        }
    }
}

/// One strip for each line with something to draw.
fn pictures(lines: &[CrashResult]) -> Markup {
    let drawn = || {
        let findings = lines.iter().filter_map(|line| Some((line, line.finding.as_ref()?)));
        findings.filter(|(_, finding)| !finding.course.cuts.is_empty())
    };
    html! {
        @if drawn().next().is_some() {
            figure.courses {
                (shapes())
                figcaption {
                    strong { "What every cut left" } br;
                    "From left to right: what the load had the disk told, write by write. Each mark is a cut at that moment; the ticks below are flushes. "
                    "The tables have the numbers."
                }
                (legend())
                @for (line, finding) in drawn() { (strip(line, finding)) }
            }
        }
    }
}

fn strip(line: &CrashResult, finding: &PowerCutResults) -> Markup {
    let course = &finding.course;
    // Positions in thousandths of the width, so that overlapping marks are drawn once.
    let place = |at: usize| (at as f64 * 1000.0 / course.entries.max(1) as f64).round() as u64;
    let at = |thousandth: u64| format!("{:.1}%", 1.0 + thousandth as f64 * 0.098);
    let mut ticks: Vec<u64> = course.flushes.iter().map(|flush| place(*flush)).collect();
    ticks.dedup();
    let mut cuts: Vec<(SurvivingData, u64)> =
        course.cuts.iter().map(|(at, left)| (*left, place(*at))).collect();
    cuts.sort();
    cuts.dedup();
    let (from, to) = TICKS;
    html! {
        div.course {
            span { (prose(&subject(line))) br; (line.durability.name()) ", " (line.file_system) ": " (words::verdict(line)) }
            svg width="100%" height=(to) role="img" aria-label=(said(line, finding)) {
                line x1="1%" x2="99%" y1=(from) y2=(from) class="axis" {}
                @for tick in ticks { line x1=(at(tick)) x2=(at(tick)) y1=(from) y2=(to) class="flush" {} }
                @for (left, place) in cuts { use href={ "#" (mark(left).0) } x=(at(place)) y=(mark(left).1) {} }
            }
        }
    }
}

/// Text alternative of the figure.
fn said(line: &CrashResult, finding: &PowerCutResults) -> String {
    let course = &finding.course;
    let of = |left: SurvivingData| course.cuts.iter().filter(|(_, known)| *known == left).count();
    let sorts = MARKS.iter().filter(|(left, ..)| of(*left) > 0);
    let sorts: Vec<String> =
        sorts.map(|(left, _, _, words)| format!("{words} after {}", of(*left))).collect();
    format!(
        "{}, class {} on {}: {} over {} of the disk's log with {}; {}.",
        subject(line).replace('`', ""),
        line.durability.name(),
        line.file_system,
        units::counted(course.cuts.len(), "cut"),
        units::counted(course.entries, "step"),
        words::flushes(course.flushes.len()),
        sorts.join(", ")
    )
}
