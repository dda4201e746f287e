//! Results of power cuts as Markdown: tables of a section, and the page docs/durability.md.

use super::course;
use super::crash::{CrashMatrix, HEADS, cell, cells, cut, first_of_all, of_control, on, preloaded, summary};
use super::crash_subject::subject;
use super::fault_injection;
use super::markdown::Page;
use crate::result::crash::{Control, CrashReport, CrashResult};

/// Writes the matrix as a table.
pub(super) fn put_matrix(page: &mut Page, lines: &[CrashResult]) {
    let matrix = CrashMatrix::from_lines(lines);
    let heads = matrix.heads();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let words = |line: &Option<&CrashResult>| match line.map(cell) {
        Some(("broken", figures)) => format!("**broken**, {figures}"),
        Some((verdict, figures)) => format!("{verdict}, {figures}"),
        None => "–".to_owned(),
    };
    let rows = matrix.rows.iter().map(|(store, kind, cells)| {
        let begin = [store.clone(), (*kind).to_owned()];
        begin.into_iter().chain(cells.iter().map(words)).collect()
    });
    page.table(&heads, rows);
}

/// Writes all figures as a table, with remarks.
pub(super) fn put_details(page: &mut Page, controls: &[Control], lines: &[CrashResult]) {
    page.table(HEADS, lines.iter().map(cells));
    first_of_all(lines).iter().for_each(|said| page.paragraph(said));
    put_courses(page, lines);
    let controls: Vec<String> = controls
        .iter()
        .map(|control| format!("On {}, {}.", control.file_system, of_control(control)))
        .collect();
    if !controls.is_empty() {
        page.paragraph(&format!("Controls. {}", controls.join(" ")));
    }
}

/// Writes the timelines of flushes and cuts, for lines with a broken promise.
fn put_courses(page: &mut Page, lines: &[CrashResult]) {
    let drawn = |line: &CrashResult| Some((on(line), course::lines(line.finding.as_ref()?)?));
    let drawn: Vec<_> = lines.iter().filter_map(drawn).collect();
    if !drawn.is_empty() {
        page.paragraph(&format!("What every cut left. {}", course::LEGEND));
    }
    for (on, [flushes, cuts]) in drawn {
        page.paragraph(&format!("{on}:"));
        page.block(&format!("```text\n{flushes}\n{cuts}\n```"));
    }
}

/// Markers around manual additions to the page, which the program preserves.
const NOTES: [&str; 2] = ["<!-- notes -->", "<!-- /notes -->"];

/// Returns the manual additions to an earlier page.
pub fn notes(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once(NOTES[0])?;
    let (notes, _) = rest.split_once(NOTES[1])?;
    Some(notes.trim())
}

/// Formats several reports as one page, the summary first. `notes` are manual additions to an earlier page, placed before the
/// last section.
pub fn markdown(reports: &[CrashReport], notes: Option<&str>) -> String {
    let mut page = Page::default();
    let lines: Vec<CrashResult> = reports.iter().flat_map(|report| cut(&report.lines)).collect();
    page.paragraph("# Durability: what a power cut takes");
    page.block(
        "`blobwise crash` cuts the power of a disk of its own while a store works on it, mounts what such a disk would then hold, opens \
         the store, and compares every blob with what it may be. [Power cuts](explanation/power-cuts.md) explains how that is done \
         and what it cannot show. This page is written by the program: its last section has how.",
    );
    page.paragraph("## Who keeps what");
    page.list(&summary(&lines));
    put_matrix(&mut page, &lines);
    page.paragraph(
        "A cell has the verdict on what the store's adapter declares for the class, and the cuts that broke it. Where none did, the true \
         share is below the one in brackets, at 95 %. Cuts that would be the same are made once. `kept` is `confirmed`, and `broken` \
         is `refuted`; `too few cuts` is said where the load wrote so little that there was next to nothing to cut.",
    );
    for report in reports {
        page.paragraph(&format!("## {}", title(report)));
        page.paragraph(&format!(
            "{}, {}, blobwise {}, seed {}.",
            report.started, report.system, report.blobwise, report.seed
        ));
        page.paragraph(&format!("```sh\n{}\n```", report.command));
        preloaded(report).iter().for_each(|warning| page.paragraph(&format!("**!** {warning}")));
        put_details(&mut page, &report.controls, &cut(&report.lines));
        let besides = fault_injection::markdown(report);
        if !besides.is_empty() {
            page.block(besides.trim());
        }
    }
    if let Some(notes) = notes {
        let [begin, end] = NOTES;
        page.block(&format!("{begin}\n{notes}\n{end}"));
    }
    page.paragraph("## How this page is made");
    page.block(
        "Each command above ran with `--json FILE`. `blobwise crash --again FILE,... --markdown docs/durability.md` then made this page \
         from those files, whose [schema](crash.schema.json) is published. What people add between `<!-- notes -->` and \
         `<!-- /notes -->` stays when the page is made again. *Recent writes gone* counts the cuts that took \
         acknowledged writes which the class does not promise. *Opens in* is the time to the first read, in the middle and at most.",
    );
    page.text()
}

/// Heading of a report's part.
fn title(report: &CrashReport) -> String {
    let mut stores: Vec<String> = report.lines.iter().map(subject).collect();
    stores.dedup();
    let (first, more) = (stores.first().map_or("nothing", String::as_str), stores.len().saturating_sub(1));
    let kinds = report.file_systems().join(", ");
    match more {
        0 => format!("{first} on {kinds}"),
        _ => format!("{first} and {more} more on {kinds}"),
    }
}
