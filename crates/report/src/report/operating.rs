//! Operating a store, in every kind of report: duration of each task on the whole store, size of a backup, disk space left after
//! deleting everything, and what a rewrite brings back.

use super::block::{Block, ReportFormat};
use super::section::{Section, new};
use super::table::{Table, TableCell, named, shown};
use crate::judge::answer::with_reasons;
use crate::judge::upkeep::{CandidateUpkeep, RewriteUpkeep, lines};
use crate::result::{Interval, RunResult};
use crate::units;

pub(super) const SECTION: Section = new("operating", "Operating it").named("Operating").blocks(blocks);

const COLUMNS: [&str; 8] =
    ["store", "#list", "#count", "#back up", "#backup/B", "#restore", "#delete", "#left"];

/// Cells of a line; a terminal has no room for intervals.
fn cells(of: &CandidateUpkeep<'_>, format: ReportFormat) -> Vec<TableCell> {
    let show = if format == ReportFormat::Terminal { middle } else { with_ends };
    let time = |seconds: &Option<Interval>| shown(seconds.as_ref(), show);
    vec![
        named(&label(of)),
        time(&of.list),
        time(&of.count),
        time(&of.back_up),
        shown(of.per_byte, |per_byte| format!("{per_byte:.2}")),
        time(&of.restore),
        time(&of.delete),
        shown(of.left, units::percent),
    ]
}

const REWRITE_COLUMNS: [&str; 5] = ["store", "#rewrite", "#disk left", "#fragments", "#after"];

/// Text above the table of rewrites.
const ABOUT_REWRITES: &str = "The store is rewritten as one op, with the flush of its file system, and every blob is compared at the end of the run. Disk left is the disk space afterwards, as a share of that before. Fragments are those of the blobs' files, per blob, before and after.";

fn rewrite_cells(
    of: &CandidateUpkeep<'_>,
    rewrite: &RewriteUpkeep<'_>,
    format: ReportFormat,
) -> Vec<TableCell> {
    let show = if format == ReportFormat::Terminal { middle } else { with_ends };
    let fragments = |value: Option<f64>| shown(value, |value| format!("{value:.2}"));
    vec![
        named(&label(of)),
        shown(rewrite.time.as_ref(), show),
        shown(rewrite.left, units::percent),
        fragments(rewrite.fragments.map(|(before, _)| before)),
        fragments(rewrite.fragments.map(|(_, after)| after)),
    ]
}

fn middle(seconds: &Interval) -> String {
    units::nanoseconds(seconds.median * 1e9)
}

/// Label of a line: the candidate, plus the size if there are several.
fn label(of: &CandidateUpkeep<'_>) -> String {
    match of.corpus_id.bytes() {
        Some(bytes) => format!("{} {}", of.store, units::bytes(bytes as f64)),
        None => of.store.to_owned(),
    }
}

/// Median, plus the ends of the interval if there are several rounds.
fn with_ends(seconds: &Interval) -> String {
    match (seconds.low, seconds.high) {
        (Some(low), Some(high)) => {
            let [low, high] = [low, high].map(|end| units::nanoseconds(end * 1e9));
            format!("{} ({low} to {high})", middle(seconds))
        }
        _ => middle(seconds),
    }
}

/// Text above the table.
const ABOUT: &str = "The whole store at a time. Backups are flushed, restored and compared blob by blob; backup/B is their disk for each byte of blobs. Delete lasts until the store has given back what it gives back by itself; the rest of its disk is left.";

/// Sentences below the table.
fn sentences(lines: &[CandidateUpkeep<'_>]) -> Vec<String> {
    let mut all = Vec::new();
    let first = lines.first().map(|of| of.corpus_id);
    let is_first = |of: &&CandidateUpkeep<'_>| Some(of.corpus_id) == first;
    let made = |of: &&CandidateUpkeep<'_>| !of.by.is_empty();
    // Other sizes would repeat the same sentences.
    let means = lines.iter().filter(is_first).filter(made).map(|of| {
        let closed = if of.is_closed { ", closed for all of that time" } else { "" };
        (format!("{}{closed}", of.by), of.store.to_owned())
    });
    all.extend(with_reasons(means).map(|list| format!("Backed up by: {list}.")));
    let rewritten =
        |of: &CandidateUpkeep<'_>| Some((of.rewrite.as_ref()?.by.to_owned(), of.store.to_owned()));
    let rewritten = lines.iter().filter(is_first).filter_map(rewritten);
    all.extend(with_reasons(rewritten).map(|list| format!("Rewritten by: {list}.")));
    let reasons = lines
        .iter()
        .filter(is_first)
        .flat_map(|of| of.reasons.iter().map(|reason| ((*reason).to_owned(), of.store.to_owned())));
    all.extend(with_reasons(reasons).map(|list| format!("Not done: {list}.")));
    all
}

fn blocks(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    let lines = lines(result);
    let mut all = Vec::new();
    // Each step of a growth or of ageing has a list of its own, in their section.
    if !result.plan.has_steps() && lines.iter().any(CandidateUpkeep::is_operated) {
        let mut table = Table::new("What an operator does with a whole store", COLUMNS);
        lines.iter().for_each(|of| table.push(cells(of, format)));
        all.extend([Block::Text(ABOUT.to_owned()), Block::Table(table)]);
    }
    if lines.iter().any(|of| of.rewrite.is_some()) {
        let mut table = Table::new("What a rewrite brings back", REWRITE_COLUMNS);
        let rewritten = lines.iter().filter_map(|of| Some((of, of.rewrite.as_ref()?)));
        rewritten.for_each(|(of, rewrite)| table.push(rewrite_cells(of, rewrite, format)));
        all.extend([Block::Text(ABOUT_REWRITES.to_owned()), Block::Table(table)]);
    }
    if !all.is_empty() {
        all.push(Block::List(sentences(&lines)));
    }
    all
}
