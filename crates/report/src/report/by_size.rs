//! The recommendation for small, medium and large blobs separately, in every kind of report.

use super::block::{Block, ReportFormat};
use super::section::{Section, new};
use super::table::{Table, TableCell, prose_cell, shown};
use super::view::choice::{either, leading, more_with_bounds, of_situation, one_place, places, sizes, times};
use super::view::work;
use crate::judge::answer::rounds_to_decide;
use crate::result::{RunResult, Situation, SizeAdvice};
use crate::units;

pub(super) const SECTION: Section = new("by-size", "By size of blob").named("By size").more().blocks(blocks);

/// Text above the section.
const ABOUT: &str = "Reads of this size class alone, from the same run. Writes have no time by size, because deferred work has none; `--sweep 1kB..10MB` fills stores of one size each.";

const HEAD: [&str; 6] = ["size", "reads", "fastest", "#time", "next takes more", "times as long"];

fn size_advice(result: &RunResult) -> &[SizeAdvice] {
    result.advice.as_ref().map_or(&[], |advice| advice.by_size.as_slice())
}

/// Sentence about a size class.
fn sentence(result: &RunResult, of_size: &SizeAdvice) -> String {
    let share = units::percent(of_size.reads_share);
    let label = format!(
        "{}, {} ({share} of the reads)",
        capitalized(of_size.class.name()),
        sizes(of_size.from_bytes, of_size.below_bytes)
    );
    let only = || format!("{label}: {}.", places(of_size).as_deref().unwrap_or("undecided"));
    one_place(result, &of_size.advice, &label, false).unwrap_or_else(only)
}

fn capitalized(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}

/// Row of a kind of read of a size class.
fn line(result: &RunResult, of_size: &SizeAdvice, situation: &Situation) -> Vec<TableCell> {
    let next = situation.next.as_ref();
    let more = next.map(|next| format!("`{}`: {}", next.store, more_with_bounds(situation, next)));
    let fastest = match rounds_to_decide(situation) {
        Some(_) => Some("too few rounds to tell".to_owned()),
        None => Some(either(&leading(situation))).filter(|leading| !leading.is_empty()),
    };
    let or_absent = |words: Option<String>| words.map_or(shown(None, |none: String| none), prose_cell);
    vec![
        of_size.class.name().into(),
        work::head(result, situation).line().into(),
        or_absent(fastest),
        shown(situation.leaders().next().and_then(|first| first.op_ns), units::nanoseconds),
        or_absent(more),
        shown(next.and_then(times), |times| times.concat()),
    ]
}

fn blocks(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    if size_advice(result).is_empty() {
        return Vec::new();
    }
    let mut all = vec![Block::Text(ABOUT.to_owned())];
    if format == ReportFormat::Terminal {
        for of_size in size_advice(result) {
            all.push(Block::List(vec![sentence(result, of_size)]));
            let told = |situation| Block::Below(of_situation(&of_size.advice, situation));
            all.extend(of_size.advice.situations.iter().map(told));
        }
        return all;
    }
    all.push(Block::Subjects(size_advice(result).iter().map(|of_size| sentence(result, of_size)).collect()));
    let mut table = Table::new("The fastest in reads of each size", HEAD);
    for of_size in size_advice(result) {
        of_size.advice.situations.iter().for_each(|situation| table.push(line(result, of_size, situation)));
    }
    // Not printed: the sentences are on paper, and the table would take a seventh page.
    all.push(Block::Table(table.printed(0)));
    all
}
