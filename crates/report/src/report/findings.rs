//! Findings of the kinds of work in every kind of report: one section for all kinds.

use super::block::{Block, ReportFormat};
use super::section::{Section, new};
use super::table::{Table, TableCell, named, shown};
use super::view::words;
use crate::judge::findings::{CandidateFindings, PhaseFindings, groups};
use crate::result::{ColumnType, Finding, FindingsColumn, FindingsValue, RunResult};
use crate::units;

pub(super) const SECTION: Section = new("findings", "Findings").blocks(blocks);

/// Findings of a result, except those that have their own section.
fn blocks(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    let has_own =
        |group: &&PhaseFindings<'_>| group.findings.iter().all(|finding| finding.found.power_cuts.is_some());
    groups(result).iter().filter(|group| !has_own(group)).flat_map(|group| of_group(group, format)).collect()
}

fn of_group(group: &PhaseFindings<'_>, format: ReportFormat) -> Vec<Block> {
    let columns = group.findings.first().map(|finding| finding.found.columns.as_slice()).unwrap_or_default();
    let own = columns.iter().map(|column| match column.unit {
        ColumnType::Text => column.title.clone(),
        _ => format!("#{}", column.title),
    });
    let title = format!("{} ({})", group.title, words::phase(group.phase, group.corpus_id));
    let heads = ["store", "#round"].map(str::to_owned).into_iter().chain(own);
    let mut table = Table::new(&title, heads);
    group.findings.iter().flat_map(|finding| lines(finding)).for_each(|line| table.push(line));
    let mut all = vec![format.part("Findings", title)];
    all.extend(group.standings().iter().map(|standing| Block::Text(said(standing))));
    all.push(Block::Table(table));
    all
}

fn said(standing: &CandidateFindings<'_>) -> String {
    let rounds = units::counted(standing.rounds as u64, "round");
    let judged = match (standing.is_judged, standing.failed) {
        (false, _) => String::new(),
        (true, 0) => format!(" holds in {rounds}"),
        (true, failed) => format!(" fails in {failed} of {rounds}"),
    };
    format!("`{}`{judged}: {}", standing.store, standing.verdict)
}

fn lines(finding: &Finding) -> impl Iterator<Item = Vec<TableCell>> {
    finding.found.lines.iter().map(|line| {
        let values = finding.found.columns.iter().zip(line);
        let begin = [named(&finding.store), finding.round.to_string().into()];
        let cells = values.map(|(column, value)| shown(value.as_ref(), |value| words_of(column, value)));
        begin.into_iter().chain(cells).collect()
    })
}

fn words_of(column: &FindingsColumn, value: &FindingsValue) -> String {
    match value {
        FindingsValue::Text(words) => words.clone(),
        FindingsValue::Number(number) => match column.unit {
            ColumnType::Text => number.to_string(),
            ColumnType::Count => units::count(*number),
            ColumnType::Bytes => units::bytes(*number),
            ColumnType::Nanoseconds => units::nanoseconds(*number),
            ColumnType::Share => format!("{:.1} %", number * 100.0),
            ColumnType::PerSecond => format!("{}/s", units::count(*number)),
        },
    }
}
