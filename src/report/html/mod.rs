//! The report as one self-contained HTML file: the answer first, and everything a reader needs to object.

mod block;
pub mod collection;
mod disk;
mod drift;
mod facts;
mod figure;
mod findings;
mod glance;
mod heat;
mod matrix;
mod phases;
mod sizes;
mod table;
mod then;

use std::collections::BTreeMap;

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::block::{Block, blocks};
use self::figure::Look;
use self::table::{Entry, Table, named, shown};
use crate::judge::{interval, ranking};
use crate::report::terminal;
use crate::report::then::is_later_part;
use crate::result::{Against, Cell, RunResult};
use crate::units;

const STYLE: &str = include_str!("style.css");
const DRAW: &str = include_str!("draw.js");

/// The browser itself refuses to load anything: all that the report needs is in it.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// The file's text.
pub fn render(result: &RunResult) -> Result<String> {
    let mut early = blocks(result);
    early.retain(|block| !is_later_part(block.phase));
    let blocks = blocks(result);
    let looks = Looks::of_rows(result);
    let title = title(result);
    let body = html! {
        (header(result, &title))
        main {
            (answer(result))
            (sizes::winners(result))
            (matrix::section(result))
            (then::section(result))
            (findings::section(result))
            (glance::section(result, &early))
            (pictures(result))
            (doubts(result))
            (phases_section(result, &looks, &blocks))
            (disk::section(result, &looks))
            (drift::section(result))
            (not_ranked(result))
            (comparisons(result))
            (facts::section(result)?)
        }
    };
    Ok(document(&title, &result.program.version, &body).into_string())
}

/// A whole file around what it shows.
fn document(title: &str, version: &str, body: &Markup) -> Markup {
    // Names come from others: what turns the direction of writing around would make one look like another.
    let (title, body) = (shown_signs(title), PreEscaped(shown_signs(&body.0)));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                footer {
                    p { "Drag over a plot to look closer, click twice to go back; click a name in a legend to hide its row." }
                    p { "Made by blobwise " (version) ". This file loads nothing: it can be kept, sent and printed." }
                }
                noscript { p.warning { "The plots need JavaScript. The tables below each hold the same numbers." } }
                (PreEscaped(figure::library()))
                script { (PreEscaped(DRAW)) }
            }
        }
    }
}

fn shown_signs(text: &str) -> String {
    crate::shown::on_terminal(text).into_owned()
}

/// Which look a row has in every plot.
struct Looks(BTreeMap<String, Look>);

impl Looks {
    fn of_rows(result: &RunResult) -> Looks {
        // Rows that are never drawn take no colour from those that are.
        let baselines = super::place::baselines(result);
        let drawn = |store: &str| {
            let is_drawn = |cell: &Cell| !ranking::is_yardstick(cell) || baselines.contains(store);
            result.results.iter().any(|cell| cell.store == store && !cell.rounds.is_empty() && is_drawn(cell))
        };
        let rows = result.rows.iter().map(|row| &row.store).filter(|store| drawn(store));
        Looks(rows.enumerate().map(|(index, store)| (store.clone(), Look(index))).collect())
    }

    fn of(&self, store: &str) -> Look {
        self.0.get(store).copied().unwrap_or(Look(0))
    }
}

/// A size for people.
fn size(bytes: u64) -> String {
    units::bytes(bytes as f64)
}

/// A ratio on an axis.
fn ratio(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

/// Our own sentences, in which names stand between backticks.
fn prose(text: &str) -> Markup {
    html! {
        @for (index, piece) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}

// ---- what is said ------------------------------------------------------------------------------------------------

fn title(result: &RunResult) -> String {
    match &result.plan.name {
        Some(name) => format!("blobwise: {name}"),
        None => "blobwise: where should these files live?".to_owned(),
    }
}

/// When and on what it was measured.
fn began_on(result: &RunResult) -> Markup {
    let machine = &result.machine;
    html! {
        p.facts {
            (result.program.started) " · " (machine.processor) ", " (units::counted(machine.processors, "processor")) ", "
            (size(machine.memory_bytes)) " · " (machine.filesystem)
            @if let Some(device) = &machine.device { " on " (device) }
            " · " (machine.system)
        }
    }
}

fn header(result: &RunResult, title: &str) -> Markup {
    let measured = result.results.iter().map(|cell| cell.rounds.len()).max().unwrap_or(0);
    html! {
        header {
            h1 { (title) }
            @if let Some(about) = &result.plan.about { p { (prose(about)) } }
            (began_on(result))
            @if !result.complete {
                p.warning {
                    strong { "This run is not complete: " }
                    @if result.fixed.rounds == 0 { "no round was" } @else { (measured) " of " (units::counted(result.fixed.rounds, "round")) " were" }
                    " begun. Go on with " code { "blobwise run --resume" } "."
                }
            }
            nav aria-label="Sections" {
                @for (id, name) in [
                    ("answer", "Answer"), ("matrix", "Ratios by size"), ("claims", "Then and now"), ("findings", super::findings::TITLE), ("glance", "At a glance"), ("doubts", "Doubts"), ("phases", "Phases"),
                    ("disk", "Disk"), ("rounds", "Rounds"), ("not-ranked", "Not ranked"),
                    ("comparisons", "Comparisons"), ("facts", "Plan and facts"),
                ] {
                    @let is_there = match id {
                        "claims" => !result.claims.is_empty(),
                        "findings" => !result.findings.is_empty(),
                        "matrix" => !result.matrices.is_empty(),
                        _ => true,
                    };
                    @if is_there { a href={ "#" (id) } { (name) } }
                }
                @if !result.pictures.is_empty() { a href="#pictures" { "Pictures" } }
            }
        }
    }
}

fn answer(result: &RunResult) -> Markup {
    /// A sentence's subject is not longer.
    const LEAD: usize = 60;
    let (first, rest) = match result.answer.split_first() {
        Some((first, rest)) => (Some(first), rest),
        None => (None, [].as_slice()),
    };
    let (sentences, last) = match rest.split_last() {
        Some((last, sentences)) => (sentences, Some(last)),
        None => (rest, None),
    };
    html! {
        section id="answer" {
            h2 { "Answer" }
            @match first {
                Some(first) => p { (prose(first)) },
                None => p { "Nothing was measured that would answer anything." },
            }
            @if !sentences.is_empty() {
                ul {
                    @for sentence in sentences {
                        @match sentence.split_once(": ").filter(|(lead, _)| lead.len() <= LEAD && !lead.contains('`')) {
                            Some((lead, rest)) => li { strong { (lead) ":" } " " (prose(rest)) },
                            None => li { (prose(sentence)) },
                        }
                    }
                }
            }
            @if let Some(last) = last { p.caveat { (prose(last)) } }
        }
    }
}

/// What a visitor sees of each row that has something to see.
fn pictures(result: &RunResult) -> Markup {
    html! {
        @if !result.pictures.is_empty() {
            section id="pictures" {
                h2 { "What a visitor sees" }
                div.pictures {
                    @for picture in &result.pictures {
                        figure {
                            img src={ "data:image/png;base64," (picture.png) } alt={ "The page of " (picture.store) };
                            figcaption { code { (picture.store) } }
                        }
                    }
                }
            }
        }
    }
}

fn doubts(result: &RunResult) -> Markup {
    let expected = terminal::expected_false(result);
    let told = result.doubts.len() + usize::from(expected.is_some());
    html! {
        section id="doubts" {
            h2 { "Doubts" @if told > 0 { " (" (told) ")" } }
            @if told == 0 { p { "None was found, which is not proof that there is none." } }
            @if told > 0 {
                ul {
                    @for doubt in &result.doubts {
                        li {
                            (prose(&doubt.text))
                            @if let Some(advice) = &doubt.advice { " " em { "To be surer: " (prose(advice)) "." } }
                        }
                    }
                    @if let Some(expected) = expected { li { (prose(&expected)) } }
                }
            }
        }
    }
}

fn phases_section(result: &RunResult, looks: &Looks, blocks: &[Block<'_>]) -> Markup {
    let sweep = blocks.iter().any(|block| block.corpus_id.bytes().is_some());
    let (later, blocks): (Vec<&Block<'_>>, Vec<&Block<'_>>) =
        blocks.iter().partition(|block| is_later_part(block.phase));
    let mut names: Vec<&str> = Vec::new();
    for block in &blocks {
        if !names.contains(&block.phase) {
            names.push(block.phase);
        }
    }
    html! {
        section id="phases" {
            h2 { "Phases" }
            @if blocks.is_empty() {
                p { "No phase was measured." }
            } @else {
                p { "Yardsticks are in the tables and not drawn: they are so fast that the others would look alike. Plots on logarithmic scales: equal distances are equal ratios." }
            }
            @for name in names {
                @let of_phase: Vec<&Block<'_>> = blocks.iter().copied().filter(|block| block.phase == name).collect();
                @if sweep {
                    (sizes::section(result, looks, name, &of_phase))
                } @else {
                    @for block in of_phase { (phases::section(result, looks, block)) }
                }
            }
            @for block in later {
                details.everything {
                    summary { (block.phase) @if let Some(bytes) = block.corpus_id.bytes() { " at " (size(bytes)) } }
                    (phases::everything(result, block))
                }
            }
        }
    }
}

/// A sort of reason, the phases in which it holds, and the rows with what is particular to each.
type Reason<'r> = (&'r str, Vec<String>, Vec<(&'r str, &'r str)>);

/// Why cells are not ranked: each reason once for all rows and phases that share it.
fn reasons(result: &RunResult) -> Vec<Reason<'_>> {
    let mut of_rows: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for cell in result.results.iter().filter(|cell| !ranking::is_yardstick(cell)) {
        let Some(why) = &cell.not_ranked else { continue };
        let phase = match cell.corpus_id.bytes() {
            Some(bytes) => format!("{} at {}", cell.phase, size(bytes)),
            None => cell.phase.clone(),
        };
        match of_rows.iter_mut().find(|(store, known, _)| *store == cell.store && known == why) {
            Some((_, _, phases)) => phases.push(phase),
            None => of_rows.push((&cell.store, why, vec![phase])),
        }
    }
    let mut reasons: Vec<Reason<'_>> = Vec::new();
    for (store, why, phases) in of_rows {
        let (kind, detail) = why.split_once(": ").unwrap_or((why, ""));
        match reasons.iter_mut().find(|(known, same, _)| *known == kind && *same == phases) {
            Some((_, _, stores)) => stores.push((store, detail)),
            None => reasons.push((kind, phases, vec![(store, detail)])),
        }
    }
    reasons
}

fn not_ranked(result: &RunResult) -> Markup {
    let mut table = Table::new("Not ranked", &["why", "in", "rows"]);
    for (kind, phases, stores) in reasons(result) {
        let rows = html! {
            @for (index, (store, detail)) in stores.iter().enumerate() {
                @if index > 0 { "; " } code { (store) } @if !detail.is_empty() { " " (detail) }
            }
        };
        table.push(vec![
            kind.into(),
            Entry::new(html! { (phases.join(", ")) }, "words"),
            Entry::new(rows, "words"),
        ]);
    }
    html! {
        section id="not-ranked" {
            h2 { "Not ranked, and why" }
            @if table.is_empty() {
                p { "Every row is ranked in every phase." }
            } @else {
                p { "Figures of these cells are shown above where there are any; they decide nothing." }
                (table)
            }
        }
    }
}

/// Every comparison with the row that the plan had fixed.
fn comparisons(result: &RunResult) -> Markup {
    let mut table = Table::new(
        "Comparisons with the reference",
        &["store", "phase", "#size of blob", "reference", "#rate / rate", "verdict", "why not"],
    );
    for comparison in result.comparisons.iter().filter(|comparison| comparison.against == Against::Plan) {
        table.push(vec![
            named(&comparison.store),
            Entry::from(&comparison.phase),
            comparison.corpus_id.bytes().map_or("mixed".into(), |bytes| size(bytes).into()),
            named(&comparison.reference),
            shown(comparison.ratio, |ratio| interval::text(&ratio)),
            comparison.verdict.name().into(),
            shown(comparison.reason.as_ref(), Clone::clone),
        ]);
    }
    html! {
        section id="comparisons" {
            h2 { "Comparisons with the reference" }
            @if table.is_empty() {
                p { "There is no second row to compare." }
            } @else {
                p {
                    "The reference was fixed by the plan before anything was measured, so each interval holds by itself at 95 %. "
                    strong { "faster" } ", " strong { "slower" } ": the interval excludes 1. "
                    strong { "equal" } ": it lies within 3 % of 1. "
                    strong { "cannot tell apart" } ": it contains 1 and reaches further."
                }
                details.everything { summary { "All comparisons" } (table) }
            }
        }
    }
}

#[cfg(test)]
mod tests;
