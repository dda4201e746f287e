//! The page of `blobwise doctor`: bad answers first, each with everything needed to question it.

use std::cmp::Reverse;

use maud::{Markup, html};

use super::table::{Table, TableCell, shown};
use super::{prose, still_document};
use crate::doctor::against::{AnswerChange, ExaminationChanges};
use crate::doctor::finding::{Answer, CheckQuestion};
use crate::doctor::report::{CheckReport, DoctorReport, SubjectReport};
use crate::units;

/// Renders the answers of one examination as a page.
pub fn render(report: &DoctorReport) -> String {
    let title = "blobwise: before a new server is bought";
    let body = html! {
        header {
            h1 { (title) }
            p.facts { (report.taken_at) " · blobwise " (report.blobwise) }
            nav aria-label="Sections" {
                a href="#answer" { "Answer" }
                @if report.against.is_some() { a href="#against" { "Then and now" } }
                a href="#questions" { "Ten questions" }
                @for (number, subject) in report.subjects.iter().enumerate() {
                    a href={ "#subject-" (number) } { (subject.subject) }
                }
            }
        }
        main {
            (answer(report))
            @if let Some(earlier) = &report.against { (against(earlier)) }
            section id="questions" {
                h2 { "Ten questions" }
                (questions(report))
                p.caveat { "An empty cell means that the question does not apply there." }
            }
            @for (number, subject) in report.subjects.iter().enumerate() { (examined(number, subject)) }
        }
    };
    still_document(title, &report.blobwise, &body, &html! {}, &html! {}).into_string()
}

fn class(answer: Answer) -> &'static str {
    match answer {
        Answer::Ok => "ok",
        Answer::CannotTell => "untold",
        Answer::Look => "look",
        Answer::Bad => "bad",
    }
}

fn badge(answer: Answer) -> Markup {
    html! { span class={ "verdict " (class(answer)) } { (answer.name()) } }
}

/// Lines of a subject, the worst answer first.
fn sorted(subject: &SubjectReport) -> Vec<&CheckReport> {
    let mut lines: Vec<&CheckReport> = subject.lines.iter().collect();
    lines.sort_by_key(|line| Reverse(line.answer));
    lines
}

/// A command in a box that scrolls if it is long.
fn command(text: &str) -> Markup {
    html! { pre tabindex="0" { code { (text) } } }
}

/// Section of all bad answers and those worth a look, over all subjects, with suggested measurements.
fn answer(report: &DoctorReport) -> Markup {
    let mut told: Vec<(&SubjectReport, &CheckReport)> = report
        .subjects
        .iter()
        .flat_map(|subject| subject.lines.iter().map(move |line| (subject, line)))
        .collect();
    told.retain(|(_, line)| line.answer >= Answer::Look);
    told.sort_by_key(|(_, line)| Reverse(line.answer));
    let tries: Vec<&CheckReport> = report.lines().filter(|line| line.try_this.is_some()).collect();
    html! {
        section id="answer" {
            h2 { "Answer" }
            p { strong { (report.summary()) } }
            @for subject in &report.subjects {
                @if let Some(why) = &subject.unreachable {
                    p.warning { strong { (subject.subject) } " cannot be asked: " (why) }
                }
            }
            @if told.is_empty() { p { "Nothing that could be checked is wrong or worth a look." } }
            @else {
                ul {
                    @for (subject, line) in &told {
                        li { (badge(line.answer)) " " code { (line.check) } " of " (subject.subject) ": " (prose(&line.figure)) }
                    }
                }
            }
            @if !tries.is_empty() {
                h3 { "Elsewhere, measured" }
                p { "Each command measures, with the sizes of the column, where else its values could live." }
                @for line in tries {
                    p { (prose(&line.figure)) ":" }
                    (command(line.try_this.as_deref().unwrap_or_default()))
                }
            }
            p.caveat {
                "Figures are of the time between two looks. An answer holds for the load that was on then. "
                em { "cannot tell" } " is no answer: a source was missing, its counters were too young, or too little was done."
            }
        }
    }
}

/// Section of the answers that differ from an earlier examination.
fn against(earlier: &ExaminationChanges) -> Markup {
    let mut changes: Vec<&AnswerChange> = earlier.changes.iter().collect();
    changes.sort_by_key(|change| Reverse(change.is));
    html! {
        section id="against" {
            h2 { "Against " (earlier.taken_at) }
            p { (earlier.judged_by) }
            @for line in &earlier.unmatched { p.warning { (line) } }
            @for change in changes {
                div.check {
                    p { (badge(change.was)) " → " (badge(change.is)) " " code { (change.check) } " of " (change.subject) }
                    dl {
                        dt { "then" } dd { (prose(&change.then)) }
                        dt { "now" } dd { (prose(&change.now)) }
                    }
                }
            }
            p { (earlier.summary()) }
        }
    }
}

/// Table of the worst answer to each question about each subject.
fn questions(report: &DoctorReport) -> Table {
    let asked: Vec<&SubjectReport> =
        report.subjects.iter().filter(|subject| !subject.lines.is_empty()).collect();
    let heads: Vec<&str> =
        std::iter::once("question").chain(asked.iter().map(|subject| subject.subject.as_str())).collect();
    let mut table = Table::new("The worst answer to each question", &heads);
    for question in CheckQuestion::ALL {
        let cell = |subject: &&SubjectReport| {
            let of = || subject.lines.iter().filter(|line| line.question == question);
            let Some(worst) = of().map(|line| line.answer).max() else {
                return shown(None::<&str>, str::to_owned);
            };
            let count = of().filter(|line| line.answer == worst).count();
            let remark = format!("{count} of {}", of().count());
            TableCell::new(html! { (badge(worst)) }, "").remarked(remark.as_str())
        };
        table.push(std::iter::once(question.name().into()).chain(asked.iter().map(cell)).collect());
    }
    table
}

fn examined(number: usize, subject: &SubjectReport) -> Markup {
    html! {
        section id={ "subject-" (number) } {
            h2 { (subject.title()) }
            @match &subject.unreachable {
                Some(why) => p.warning { "It cannot be asked: " (why) },
                None => p.facts { "Two looks, " (units::nanoseconds(subject.seconds * 1e9)) " apart" },
            }
            @for line in sorted(subject) { (check(line)) }
        }
    }
}

/// A check; good answers are collapsed on the screen and expanded on paper.
fn check(line: &CheckReport) -> Markup {
    // The first name is part of the figure's text.
    let others: Vec<&String> = line.named.iter().skip(1).collect();
    html! {
        details.check open[line.answer >= Answer::Look] {
            summary { (badge(line.answer)) " " code { (line.check) } " " (prose(&line.figure)) }
            dl {
                dt { "question" } dd { (line.question.name()) }
                @if !others.is_empty() {
                    dt { "also" } dd { ul { @for name in others { li { (prose(name)) } } } }
                }
                @if line.answer != Answer::CannotTell { dt { "when" } dd { (line.age()) } }
                dt { "rule" } dd { (prose(&line.threshold)) }
                dt { "why" } dd { (prose(&line.reason)) }
                dt { "from" } dd { (prose(&line.source)) }
                dt { "to see it" } dd { (command(&line.shown_by)) }
                @if let Some(try_this) = &line.try_this { dt { "to measure" } dd { (command(try_this)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn line(check: &str, answer: &str, over: Value) -> Value {
        let mut line = json!({
            "check": check, "question": "disk", "answer": answer, "figure": format!("`{check}` is so"), "threshold": "look: any",
            "reason": "So.", "source": "there", "shown_by": "df -h"
        });
        line.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
        line
    }

    fn page() -> String {
        let column = json!({
            "named": ["first", "<b>second</b>"], "age_seconds": 5.0, "try_this": "blobwise run --corpus fixed:2000 --blobs 9"
        });
        let machine = [line("a", "ok", json!({})), line("b", "bad", json!({})), line("c", "look", column)];
        let against = json!({"taken_at": "2025", "unmatched": ["this <i>was</i>"], "same": 2, "changes": [
            {"subject": "this machine", "check": "b", "was": "look", "is": "bad", "then": "it was <u>so</u>", "now": "it is so"}
        ]});
        let report = json!({"format": 1, "blobwise": "0.1.0", "taken_at": "2026", "against": against, "subjects": [
            {"kind": "machine", "subject": "this machine", "seconds": 5.0, "lines": machine},
            {"kind": "redis", "subject": "redis://:***@h", "unreachable": "nobody <i>listens</i>", "seconds": 0.0, "lines": []}
        ]});
        render(&serde_json::from_value(report).unwrap())
    }

    #[test]
    fn what_is_bad_comes_first_and_what_is_well_is_folded() {
        let page = page();
        let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("`{words}` is not in {page}"));
        let cards =
            page.split("<details class=\"check\"").skip(1).map(|card| card.split_once("</code>").unwrap().0);
        let cards: Vec<String> = cards.map(|card| card.chars().rev().take(1).collect()).collect();
        assert_eq!(cards, ["b", "c", "a"]);
        assert_eq!(page.matches("<details class=\"check\" open").count(), 2);
        assert!(
            at("id=\"answer\"") < at("id=\"questions\"") && at("id=\"questions\"") < at("id=\"subject-0\"")
        );
        assert!(page.contains("<span class=\"verdict bad\">bad</span> <small>1 of 3</small>"), "{page}");
    }

    #[test]
    fn it_shows_what_anybody_needs_to_object_and_obeys_nobody() {
        let page = page();
        for words in [
            "counted for 5",
            "at one moment",
            "blobwise run --corpus fixed:2000 --blobs 9",
            "df -h",
            "&lt;b&gt;second",
            "look: any",
            "nobody &lt;i&gt;listens",
            "Against 2025",
            "this &lt;i&gt;was",
            "it was &lt;u&gt;so",
            "2 answers are the same.",
        ] {
            assert!(page.contains(words), "`{words}` is not in {page}");
        }
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("url("));
    }
}
