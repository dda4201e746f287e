//! The report as one self-contained HTML file: the answer first, and everything a reader needs to question it.

mod axis;
pub mod collection;
pub mod cuts;
pub(super) mod disk;
pub mod disk_tests;
pub mod doctor;
pub(super) mod drift;
pub(super) mod facts;
pub(super) mod figure;
pub(super) mod glance;
mod look;
pub(super) mod matrix;
mod phase_cells;
pub(super) mod phases;
pub mod runs;
mod sweep;
pub(super) mod then;

use std::collections::BTreeMap;

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::look::Look;
use self::phase_cells::{PhaseCells, phase_cells};
pub(super) use super::prose::{led, prose};
pub(super) use super::table;
use super::table::{Table, TableCell, named, shown};
use crate::judge::{interval, ranking, run_subject};
use crate::report::view::then::is_later_part;
use crate::report::view::warned::{self, WordedWarning};
use crate::report::view::words;
use crate::result::{Cell, Reason, ReferenceRole, RunResult, Severity};
use crate::units;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// Content Security Policy: the browser loads nothing, because the report contains all it needs.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// Data that the sections of a page are built from.
pub(super) struct PageData<'r> {
    pub result: &'r RunResult,
    plan: String,
    /// Looks of the candidates in plots.
    pub looks: Looks,
    blocks: Vec<PhaseCells<'r>>,
    /// All but the second and later parts of split phases.
    first_parts: Vec<PhaseCells<'r>>,
}

impl<'r> PageData<'r> {
    /// Prepares the data of a page.
    pub fn new(result: &'r RunResult) -> Result<PageData<'r>> {
        let plan = result.plan.to_toml()?;
        let mut first_parts = phase_cells(result);
        first_parts.retain(|block| !is_later_part(block.phase));
        Ok(PageData {
            result,
            plan,
            looks: Looks::of_candidates(result),
            blocks: phase_cells(result),
            first_parts,
        })
    }
}

pub(super) struct PageSection {
    pub id: &'static str,
    pub title: &'static str,
    /// Name in the navigation; `None` if it is not there.
    pub name: Option<&'static str>,
    /// Number of items, shown after the heading if not 0.
    pub count: usize,
    /// Content below the heading.
    pub contents: Markup,
}

/// Renders a page with these sections.
pub(super) fn render(result: &RunResult, parts: &[PageSection]) -> String {
    let title = title(result);
    let body = html! {
        (header(result, &title, parts))
        main {
            @for part in parts {
                section id=(part.id) {
                    h2 { (part.title) @if part.count > 0 { " (" (part.count) ")" } }
                    (part.contents)
                }
            }
        }
    };
    document(&title, &result.program.version, &body).into_string()
}

/// Wraps content into an HTML document with scripts.
fn document(title: &str, version: &str, body: &Markup) -> Markup {
    let script = html! { script { (PreEscaped(SCRIPT)) } };
    let about = "Point at a mark for its figures; click a name in a legend to hide its line, or the head of a column to sort by it.";
    let body = html! { (look::symbols()) (body) };
    still_document(title, version, &body, &html! { p { (about) } }, &script)
}

/// Wraps content into an HTML document, with more content in its footer and at its end.
fn still_document(title: &str, version: &str, body: &Markup, foot: &Markup, end: &Markup) -> Markup {
    // Names are untrusted: characters that reverse the writing direction could make one name look like another.
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
                    (foot)
                    p { "Made by blobwise " (version) ". This file loads nothing: it can be kept, sent and printed." }
                }
                (end)
            }
        }
    }
}

fn shown_signs(text: &str) -> String {
    crate::redact::on_terminal(text).into_owned()
}

/// Looks of the candidates, the same in every plot.
pub(super) struct Looks(BTreeMap<String, Look>);

impl Looks {
    fn of_candidates(result: &RunResult) -> Looks {
        // Candidates that are never drawn do not use up colors.
        let baselines = crate::report::view::standing::baselines(result);
        let drawn = |store: &str| {
            let is_drawn = |cell: &Cell| !ranking::is_baseline(cell) || baselines.contains(store);
            result.results.iter().any(|cell| cell.store == store && !cell.rounds.is_empty() && is_drawn(cell))
        };
        let candidates =
            result.candidates.iter().map(|candidate| &candidate.store).filter(|store| drawn(store));
        Looks(candidates.enumerate().map(|(index, store)| (store.clone(), Look(index))).collect())
    }

    /// Returns the look of a candidate.
    pub fn get(&self, store: &str) -> Look {
        self.0.get(store).copied().unwrap_or(Look(0))
    }
}

fn size(bytes: u64) -> String {
    units::bytes(bytes as f64)
}

/// Formats a ratio on an axis.
fn ratio(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

// ---- header and sections -----------------------------------------------------------------------------------------

fn title(result: &RunResult) -> String {
    match &result.plan.name {
        Some(name) => format!("blobwise: {name}"),
        None => format!("blobwise: {}", run_subject::blobs(result)),
    }
}

/// States when and on which machine the run was measured.
fn began_on(result: &RunResult) -> Markup {
    let machine = &result.machine;
    html! {
        p.facts {
            (result.program.started) " · " (machine.processor) ", " (units::counted(machine.processors, "processor")) ", "
            (size(machine.memory_bytes)) " · " (machine.filesystem)
            @if let Some(device) = &machine.device { " on " (device) }
            " · " (machine.system) " · took " (units::seconds(result.program.seconds))
        }
    }
}

fn header(result: &RunResult, title: &str, parts: &[PageSection]) -> Markup {
    html! {
        header {
            h1 { (title) }
            @if let Some(about) = &result.plan.about { p { (prose(about)) } }
            (began_on(result))
            @if !result.complete {
                p.warning {
                    strong { "This run is not complete: " }
                    @if result.fixed.rounds == 0 { "no round was" } @else { (words::rounds(result)) " were" }
                    " begun. Go on with " code { "blobwise run --resume DIR" } ": DIR is where this report lies."
                }
            }
            p.printed { "The file has everything that is folded on the screen: all figures of each phase, every round, every comparison." }
            nav aria-label="Sections" {
                @for part in parts { @if let Some(name) = part.name { a href={ "#" (part.id) } { (name) } } }
            }
        }
    }
}

pub(super) fn answer(view: &PageData<'_>) -> Markup {
    let result = view.result;
    let (first, rest) = match result.answer.split_first() {
        Some((first, rest)) => (Some(first), rest),
        None => (None, [].as_slice()),
    };
    let (sentences, last) = match rest.split_last() {
        Some((last, sentences)) => (sentences, Some(last)),
        None => (rest, None),
    };
    html! {
        @match first {
            Some(first) => p { (prose(first)) },
            None => p { "Nothing was measured." },
        }
        @if !sentences.is_empty() {
            ul {
                @for sentence in sentences { li { (led(sentence)) } }
            }
        }
        @if let Some(last) = last { p.caveat { (prose(last)) } }
        (sweep::winners(result))
    }
}

/// Screenshots of the candidates that have one.
pub(super) fn pictures(view: &PageData<'_>) -> Markup {
    let result = view.result;
    html! {
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

/// Number of warnings shown.
pub(super) fn warnings_told(result: &RunResult) -> usize {
    warned::all(result).len()
}

/// Renders the warnings; those that do not affect the results are collapsed.
pub(super) fn warnings(view: &PageData<'_>) -> Markup {
    let (notes, bearing): (Vec<WordedWarning>, Vec<WordedWarning>) =
        warned::all(view.result).into_iter().partition(|warned| warned.weight == Severity::Note);
    let list = |all: &[WordedWarning]| {
        html! {
            ul {
                @for warned in all {
                    li { (prose(&warned.text)) @if let Some(advice) = &warned.advice { " " em { (prose(advice)) } } }
                }
            }
        }
    };
    html! {
        @if bearing.is_empty() { p { "None that affects the answer. There may be others that blobwise cannot see." } }
        @else { (list(&bearing)) }
        @if !notes.is_empty() {
            details { summary { "Notes that change no conclusion (" (notes.len()) ")" } (list(&notes)) }
        }
    }
}

pub(super) fn phases_section(view: &PageData<'_>) -> Markup {
    let (result, looks, blocks) = (view.result, &view.looks, &view.blocks);
    let sweep = blocks.iter().any(|block| block.corpus_id.bytes().is_some());
    // The steps of a growth or of ageing are points of one figure, not parts of a phase.
    let is_part = |block: &&PhaseCells<'_>| !result.plan.has_steps() && is_later_part(block.phase);
    let (later, blocks): (Vec<&PhaseCells<'_>>, Vec<&PhaseCells<'_>>) = blocks.iter().partition(is_part);
    let names = units::distinct(blocks.iter().map(|block| sweep::name(result, block.phase)));
    html! {
        @if blocks.is_empty() {
            p { "No phase was measured." }
        } @else {
            p { "Baselines are in the tables only, because they are so fast that all others would look alike. On logarithmic scales, equal distances are equal ratios." }
        }
        @if !result.claims.is_empty() {
            p.printed { "Plots of phases are in the file that was printed: what they say of the claims stands above." }
        }
        @for name in names {
            @let of_phase: Vec<&PhaseCells<'_>> = blocks.iter().copied().filter(|block| sweep::name(result, block.phase) == name).collect();
            @if sweep || of_phase.iter().any(|block| block.phase != name) {
                (sweep::section(result, looks, name, &of_phase))
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

/// A kind of reason, the phases it applies to, and the candidates with details for each.
type GroupedReasons<'r> = (String, Vec<String>, Vec<(&'r str, String)>);

/// Reasons why cells are not ranked, each once for all candidates and phases that share it.
fn reasons(result: &RunResult) -> Vec<GroupedReasons<'_>> {
    let cells = result.results.iter().filter(|cell| !ranking::is_baseline(cell));
    let of_candidates = units::grouped(cells.filter_map(|cell| {
        let why = cell.not_ranked.as_ref().map(Reason::worded)?;
        let phase = match cell.corpus_id.bytes() {
            Some(bytes) => format!("{} at {}", cell.phase, size(bytes)),
            None => cell.phase.clone(),
        };
        Some(((cell.store.as_str(), why), phase))
    }));
    let reasons = units::grouped(of_candidates.into_iter().map(|((store, why), phases)| {
        let detail = why.detail.unwrap_or_default();
        ((why.head, phases), (store, detail))
    }));
    reasons.into_iter().map(|((head, phases), stores)| (head, phases, stores)).collect()
}

pub(super) fn not_ranked(view: &PageData<'_>) -> Markup {
    let result = view.result;
    let mut table = Table::new("Not ranked", ["why", "in", "candidates"]);
    for (kind, phases, stores) in reasons(result) {
        let candidates = html! {
            @for (index, (store, detail)) in stores.iter().enumerate() {
                @if index > 0 { "; " } code { (store) } @if !detail.is_empty() { " " (detail) }
            }
        };
        table.push(vec![
            kind.into(),
            TableCell::new(html! { (phases.join(", ")) }, "words"),
            TableCell::new(candidates, "words"),
        ]);
    }
    html! {
        @if table.is_empty() {
            p { "Every candidate is ranked in every phase." }
        } @else {
            p { "Their figures are shown above, and decide nothing." }
            (table.printed(8))
        }
    }
}

/// Renders all comparisons with the plan's reference candidate.
pub(super) fn comparisons(view: &PageData<'_>) -> Markup {
    let result = view.result;
    let mut table = Table::new(
        "Comparisons with the reference",
        ["store", "phase", "#size of blob", "reference", "#rate / rate", "verdict", "why not"],
    );
    for comparison in result.comparisons.iter().filter(|comparison| comparison.against == ReferenceRole::Plan)
    {
        table.push(vec![
            named(&comparison.store),
            TableCell::from(&comparison.phase),
            comparison.corpus_id.bytes().map_or("mixed".into(), |bytes| size(bytes).into()),
            named(&comparison.reference),
            shown(comparison.ratio, |ratio| interval::text(&ratio)),
            comparison.verdict.name().into(),
            shown(comparison.reason.as_ref(), Reason::to_string),
        ]);
    }
    html! {
        @if table.is_empty() {
            p { "There is no second candidate to compare." }
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

#[cfg(test)]
pub(super) mod tests;
