//! Results of power cuts as Markdown: tables of a section, and a page of them.

use super::block::{Block, put_in_markdown};
use super::course;
use super::crash::{self, cut, first_of_all, matrix, of_control, preloaded, summary};
use super::crash_subject::{subject, subject_on_file_system};
use super::fault_injection;
use super::page::Page;
use crate::result::crash::{Control, CrashReport, CrashResult};

/// The verdicts with their legend, then all figures of the lines that were cut.
pub(super) fn who_keeps_what(controls: &[Control], lines: &[CrashResult]) -> Vec<Block> {
    let cut = cut(lines);
    let verdicts = [Block::Text(crash::LEGEND.to_owned()), Block::Table(matrix(&cut))];
    verdicts.into_iter().chain(details(controls, &cut)).collect()
}

/// All figures as a table, with remarks and, for lines with a broken promise, the timelines of flushes and cuts.
fn details(controls: &[Control], lines: &[CrashResult]) -> Vec<Block> {
    let mut all = vec![Block::Table(crash::details(lines))];
    all.extend(first_of_all(lines).into_iter().map(Block::Text));
    let drawn =
        |line: &CrashResult| Some((subject_on_file_system(line), course::lines(line.finding.as_ref()?)?));
    for (index, (on, [flushes, cuts])) in lines.iter().filter_map(drawn).enumerate() {
        all.extend((index == 0).then(|| Block::Text(format!("What every cut left. {}", course::LEGEND))));
        all.extend([Block::Text(format!("{on}:")), Block::Code("text", format!("{flushes}\n{cuts}"))]);
    }
    let controls: Vec<String> = controls
        .iter()
        .map(|control| format!("On {}, {}.", control.file_system, of_control(control)))
        .collect();
    all.extend((!controls.is_empty()).then(|| Block::Text(format!("Controls. {}", controls.join(" ")))));
    all
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
    page.paragraph(
        "This page is for anyone who has to know what a store loses when the power goes. After reading it you can choose a store and a \
         class by what was tested, and repeat the tests.",
    );
    page.block(
        "`blobwise crash` cuts the power of a disk of its own while a store works on it, mounts what such a disk would then hold, opens \
         the store, and compares every blob with what it may be. [Power cuts](explanation/power-cuts.md) explains how that is done \
         and what it cannot show. This page is written by the program: its last section has how.",
    );
    page.paragraph("## Who keeps what");
    put_in_markdown(&mut page, &[Block::List(summary(&lines)), Block::Table(matrix(&lines))]);
    page.paragraph(
        "A cell has the verdict on what the store's adapter declares for the class, and the cuts that broke it. Where none did, the true \
         share is below the one in brackets, at 95 %. Cuts that would be the same are made once. `kept` is `confirmed`, and `broken` \
         is `refuted`; `too few cuts` means that the load wrote too little to cut.",
    );
    for report in reports {
        page.paragraph(&format!("## {}", title(report)));
        page.paragraph(&format!(
            "{}, {}, blobwise {}, seed {}.",
            report.started, report.system, report.blobwise, report.seed
        ));
        page.paragraph(&format!("```sh\n{}\n```", report.command));
        preloaded(report).iter().for_each(|warning| page.paragraph(&format!("**!** {warning}")));
        put_in_markdown(&mut page, &details(&report.controls, &cut(&report.lines)));
        put_in_markdown(&mut page, &fault_injection::blocks(report));
    }
    if let Some(notes) = notes {
        let [begin, end] = NOTES;
        page.block(&format!("{begin}\n{notes}\n{end}"));
    }
    page.paragraph("## How this page is made");
    page.block(
        "Each command above ran with `--json FILE`. `blobwise crash --again FILE,... --markdown PAGE` then made this page \
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
