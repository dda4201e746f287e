//! The part of the report that repeats a published experiment: its tables beside today's, claims and verdicts, open details.

use maud::{Markup, html};

use super::axis::Scale;
use super::figure::{Dot, Figure, ReferenceMark, dots};
use super::look::Look;
use super::table::{ABSENT, Table, TableCell, named};
use super::{PageData, prose, ratio};
use crate::judge::interval;
use crate::plan::text::PublishedText;
use crate::report::view::then::{self, JudgedClaim, ReproducedRow};
use crate::result::{Interval, RunResult};
use crate::units;

/// Looks of published and of today's figures.
const THEN: Look = Look(7);
const NOW: Look = Look(0);

/// Renders the section of a plan that repeats a document.
pub fn section(view: &PageData<'_>) -> Markup {
    contents(view.result)
}

/// Content of the section.
pub fn contents(result: &RunResult) -> Markup {
    let plan = &result.plan;
    html! {
            @if let Some(document) = &plan.document {
                p {
                    (document.author) ", " em { (document.title) } ", " (document.date) " (" (then::address(document)) "). Measured on: "
                    (document.machine)
                }
                p.caveat { "Absolute figures of two machines are not compared: all are ratios to the document's own reference, then and today." }
            }
            @if !result.claims.is_empty() { (claims(result)) }
            (published(result))
            @if !plan.unspecified.is_empty() {
                h3 { "What was not said, and what this plan does" }
                dl { @for open in &plan.unspecified { dt { (prose(&open.what)) } dd { (prose(&open.here)) } } }
            }
            (derived(result))
    }
}

/// Renders the published tables; those without any ratio are collapsed.
fn published(result: &RunResult) -> Markup {
    let (tables, silent) = then::tables(result);
    html! {
        @for then::ReproducedTable { text, lines } in &tables {
            div.pair {
                h3 { (text.heading()) }
                (impossible(text))
                div.plots { @if let Some(figure) = figure(text, lines) { (figure) } }
                details.everything { summary { "Published values and today's ratios" } (values(text, lines)) }
            }
        }
        @if !silent.is_empty() {
            details.everything {
                summary { (then::SILENT) " (" (silent.len()) ")" }
                @for then::ReproducedTable { text, lines } in &silent {
                    h3 { (text.heading()) }
                    (impossible(text))
                    (values(text, lines))
                }
            }
        }
    }
}

fn impossible(table: &PublishedText) -> Markup {
    html! { @if let Some(why) = &table.impossible { p.warning { (prose(why)) } } }
}

/// Plots published and today's ratios, two lines for each system.
fn figure(table: &PublishedText, lines: &[ReproducedRow<'_>]) -> Option<Figure> {
    let (mut names, mut marks) = (Vec::new(), Vec::new());
    let mut numbers = Table::new(table.heading(), ["system", "when", "#ratio"]);
    for line in lines {
        let then = line.then.map(Interval::point);
        for (when, look, value) in [("then", THEN, then), ("today", NOW, line.today.as_ref().ok().copied())] {
            let Some(value) = value else { continue };
            let text = interval::text(&value);
            marks.push(Dot {
                candidate: names.len(),
                look,
                value,
                hover: format!("{} {when}: {text}", line.name),
                open: false,
                beside: false,
            });
            names.push(format!("{} {when}", line.name));
            numbers.push(vec![TableCell::from(&line.name), when.into(), text.into()]);
        }
    }
    (marks.len() > 1).then(|| {
        let note = "Over the reference, then and today; the line is the reference.";
        let scale = Scale { title: "ratio to the reference", show: ratio };
        dots(
            "Then and today",
            note,
            scale,
            &names,
            &marks,
            Some(ReferenceMark { at: 1.0, around: None }),
            numbers,
        )
    })
}

fn values(table: &PublishedText, lines: &[ReproducedRow<'_>]) -> Table {
    let head =
        ["system", "published", "#then / reference", "candidate today", "#today / reference", "why not"];
    let mut shown = Table::new(format!("{} ({})", table.title, table.unit), head);
    for line in lines {
        let values: Vec<String> = line.series.values.iter().map(|value| format!("{value}")).collect();
        let published = match (line.in_place, &line.series.words, line.series.counts.is_empty()) {
            (Some(words), ..) => words.to_owned(),
            (None, Some(words), _) => words.clone(),
            (None, None, true) => values.join(" "),
            (None, None, false) => format!("a histogram of {} bins", values.len()),
        };
        let (today, why) = match &line.today {
            Ok(today) => (interval::text(today), String::new()),
            Err(why) => (ABSENT.to_owned(), why.clone()),
        };
        shown.push(vec![
            TableCell::from(&line.name),
            TableCell::new(html! { (published) }, "words"),
            line.then.map_or(ABSENT.to_owned(), then::figure).into(),
            line.candidate.map_or(ABSENT.into(), named),
            today.into(),
            TableCell::new(html! { (prose(&why)) }, "words"),
        ]);
    }
    shown
}

fn claims(result: &RunResult) -> Markup {
    let claims = then::judged_claims(result);
    html! {
        @if result.plan.document.is_some() { h3 { "Claims" } }
        p {
            strong { "confirmed" } ": the whole 95 % interval lies where the claim counts as true; "
            strong { "refuted" } ": all of it lies elsewhere; " strong { "cannot tell apart" } ": it reaches across. "
            "Each ratio is turned so that above 1x agrees with the claim, unless a range or a limit stands beside it. "
            "Parts of one claim are judged together, at a confidence that holds for all of them (Holm)."
        }
        div.verdicts { (verdicts(result, "Claims and verdicts", "what was said", &claims)) }
        @for claim in claims.iter().filter(|claim| !claim.claim.parts.is_empty()) {
            details.everything {
                summary { (claim.claim.id) " has " (units::counted(claim.claim.parts.len(), "part")) }
                (verdicts(result, &format!("Parts of {}", claim.claim.id), "what is compared", &claim.parts()))
            }
        }
    }
}

fn verdicts(result: &RunResult, title: &str, said: &str, claims: &[JudgedClaim<'_>]) -> Table {
    /// Head of a column, and what a claim has there.
    type Column = (&'static str, fn(&JudgedClaim<'_>) -> Option<String>);
    let columns: [Column; 4] = [
        (then::said(result), |claim| claim.then()),
        ("today", |claim| claim.now()),
        ("counts as true if", |claim| claim.true_if()),
        ("notes", |claim| claim.claim.note.clone()),
    ];
    // Columns that no claim fills are omitted.
    let filled = columns.iter().filter(|(_, of)| claims.iter().any(|claim| of(claim).is_some()));
    let filled: Vec<&Column> = filled.collect();
    let heads = ["claim", said, "verdict"].into_iter().chain(filled.iter().map(|(head, _)| *head));
    let mut table = Table::new(title, heads);
    for claim in claims {
        let words = |words: &str| TableCell::new(html! { (prose(words)) }, "words");
        let own = [TableCell::from(&claim.claim.id), words(&claim.said()), words(&claim.verdict())];
        let others = filled.iter().map(|(_, of)| words(of(claim).as_deref().unwrap_or_default()));
        table.push(own.into_iter().chain(others).collect());
    }
    table
}

/// Lists inconsistencies in the document's own arithmetic.
fn derived(result: &RunResult) -> Markup {
    let wrong = then::disagreements(result);
    html! {
        @if !wrong.is_empty() {
            h3 { (then::DISAGREEMENTS) }
            ul { @for (what, why) in wrong { li { (prose(what)) ": " (prose(why)) } } }
        }
    }
}
