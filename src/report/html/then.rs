//! The part of the report that repeats a published experiment: its tables beside today's, claims and verdicts, open details.

use maud::{Markup, html};

use super::axis::Scale;
use super::figure::{Dot, Figure, ReferenceMark, dots};
use super::look::Look;
use super::table::{ABSENT, Table, TableCell, named};
use super::{PageData, prose, ratio};
use crate::judge::interval;
use crate::plan::text::PublishedText;
use crate::report::view::then::{self, ReproducedRow};
use crate::result::{Claim, Interval, RunResult};
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
                p { (document.author) ", " em { (document.title) } ", " (document.date) ". Measured on: " (document.machine) }
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
    let claims = &result.claims;
    let has_magnitude = claims
        .iter()
        .flat_map(|claim| std::iter::once(claim).chain(&claim.parts))
        .any(|claim| claim.magnitude.is_some());
    html! {
        @if result.plan.document.is_some() { h3 { "Claims" } }
        p {
            strong { "confirmed" } ": the whole 95 % interval lies where the statement says; "
            strong { "refuted" } ": all of it lies elsewhere; " strong { "cannot tell apart" } ": it reaches across. "
            "Parts of one claim are judged together, at a confidence that holds for all of them (Holm). "
            @if has_magnitude {
                strong { "magnitude holds" } ": the whole interval is within a factor of 2 of the " (then::said(result)) " figure, or within the bounds that the plan has for it."
            }
        }
        div.verdicts { (verdicts(result, "Claims and verdicts", "what was said", claims)) }
        @for claim in claims.iter().filter(|claim| !claim.parts.is_empty()) {
            details.everything {
                summary { (claim.id) " has " (units::counted(claim.parts.len(), "part")) }
                (verdicts(result, &format!("Parts of {}", claim.id), "what is compared", &claim.parts))
            }
        }
    }
}

fn verdicts(result: &RunResult, title: &str, said: &str, claims: &[Claim]) -> Table {
    let has_notes = claims.iter().any(|claim| claim.note.is_some());
    let has_figures = claims.iter().any(|claim| !then::figures(result, claim).is_empty());
    let mut columns = vec!["claim", said, "verdict"];
    columns.extend(has_figures.then_some("figures"));
    columns.extend(has_notes.then_some("notes"));
    let mut table = Table::new(title, &columns);
    for claim in claims {
        let words = |words: Markup| TableCell::new(words, "words");
        let mut entries = vec![
            TableCell::from(&claim.id),
            words(prose(&claim.statement)),
            words(html! { (then::verdict(claim)) }),
        ];
        entries.extend(has_figures.then(|| words(html! { (then::figures(result, claim)) })));
        entries.extend(has_notes.then(|| words(prose(claim.note.as_deref().unwrap_or_default()))));
        table.push(entries);
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
