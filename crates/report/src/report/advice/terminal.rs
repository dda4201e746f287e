//! The recommendation in a terminal: the place to choose, what it gives up, and every candidate's figures on one screen; and in
//! full, with a sentence for each kind of work.

use super::figures::Notes;
use super::{AdviceRow, absent, choose, needed, promises, rows, sentences, servers};
use crate::report::terminal::{LINE, flush, heading, line, wrapped};
use crate::report::view::work::{self, WorkHead};
use crate::report::view::{choice, memory, months, warned};
use crate::result::{Advice, RunResult, Situation};
use crate::units;

/// Maximum number of kinds of work shown in a terminal.
const COLUMNS_MAX: usize = 5;
/// Mapped pages are named where they are at least as much as a candidate's own memory.
const MAPPED_TIMES: f64 = 1.0;

/// Writes the full form, with a sentence for each kind of work.
pub(super) fn whole(text: &mut String, result: &RunResult, title: &str) {
    let Some(advice) = &result.advice else { return };
    in_full(text, result, advice, title);
    warned::beside(result).iter().for_each(|warning| wrapped(text, "! ", warning));
}

fn in_full(text: &mut String, result: &RunResult, advice: &Advice, title: &str) {
    heading(text, title);
    if !advice.situations.is_empty() {
        let rows = rows(result, advice);
        figures_of_all(text, result, advice, &rows);
        text.push('\n');
        let choices = choose::choices(result, advice, &rows);
        choices.iter().for_each(|choice| wrapped(text, "- ", &choice.sentence()));
    }
    sentences(result, advice).iter().for_each(|sentence| wrapped(text, "- ", sentence));
}

/// Writes the one-screen form. With one kind of work it is the full form; beside the answer to a memory sweep it states what that
/// leaves out: requirements and who meets them, and monthly costs.
pub(super) fn brief(text: &mut String, result: &RunResult, title: &str) {
    let Some(advice) = &result.advice else { return };
    if result.plan.memory_sweep.is_some() {
        let said = [needed(advice), months::in_short(result)];
        return said.into_iter().flatten().for_each(|sentence| wrapped(text, "- ", &sentence));
    }
    if !advice.is_of_several() {
        return in_full(text, result, advice, title);
    }
    let rows = rows(result, advice);
    recommend(text, result, advice, &rows);
    text.push('\n');
    figures_of_all(text, result, advice, &rows);
    text.push('\n');
    let power_cut = promises(result, advice, false);
    let said = [power_cut, choice::reads_by_size(advice), months::in_short(result)];
    let said = said.into_iter().flatten().chain(servers(result));
    let said = said.chain(result.candidates.iter().filter_map(absent));
    said.for_each(|sentence| flush(text, &sentence));
}

/// Writes where to keep the files, at what cost, and what that gives up.
fn recommend(text: &mut String, result: &RunResult, advice: &Advice, rows: &[AdviceRow<'_>]) {
    needed(advice).iter().for_each(|needed| flush(text, needed));
    text.push('\n');
    let Some(place) = choice::best_place(advice) else {
        let why = choice::no_place(advice);
        why.iter().for_each(|why| flush(text, &format!("No recommendation: {why}")));
        return;
    };
    line(text, &format!("{}  {}", choice::do_with(result, &place.store), place.store));
    let said =
        [choice::cost_of_place(advice), choose::given_up(result, advice, rows), choice::not_counted(advice)];
    said.into_iter().flatten().for_each(|sentence| wrapped(text, "  ", &sentence));
}

/// Writes the table of all candidates, and below it the meanings of its signs.
fn figures_of_all(text: &mut String, result: &RunResult, advice: &Advice, rows: &[AdviceRow<'_>]) {
    let mut notes = Notes::default();
    table(text, result, advice, rows, &mut notes);
    text.push('\n');
    notes.lines().for_each(|(sign, meaning)| wrapped(text, &format!("{sign} "), &meaning));
    let taken = rows.iter().map(|row| (row.store, row.memory));
    let mapped = memory::mapped(taken, MAPPED_TIMES);
    if let Some(mapped) = mapped {
        flush(text, &format!("RAM is without pages of files that the kernel can drop: {mapped}."));
    }
    if advice.situations.len() > COLUMNS_MAX {
        flush(text, "The other columns are in the report.");
    }
}

/// Writes the table of all candidates, and collects the notes on its figures.
fn table(text: &mut String, result: &RunResult, advice: &Advice, rows: &[AdviceRow<'_>], notes: &mut Notes) {
    let shown: Vec<&Situation> = advice.situations.iter().take(COLUMNS_MAX).collect();
    let with_month = months::monthly_costs(result).is_some();
    let mut heads: Vec<WorkHead> = shown.iter().map(|situation| work::head(result, situation)).collect();
    // Disk space is part of the monthly cost, and 80 columns have no room for both.
    let last = if with_month { ["month", ""] } else { ["disk", "used"] };
    let of_resources =
        [["RAM", "used"], last].map(|lines| WorkHead { group: None, lines: lines.map(str::to_owned) });
    heads.extend(of_resources);
    let figures: Vec<Vec<String>> =
        rows.iter().map(|row| figures(shown.len(), row, with_month, notes)).collect();
    let letters = |text: &str| text.chars().count();
    let width = |(column, head): (usize, &WorkHead)| {
        // Times have two columns for their sign.
        let sign = if column < shown.len() { 2 } else { 0 };
        let heads = head.lines.iter().map(|line| letters(line) + sign);
        2 + figures
            .iter()
            .filter_map(|line| line.get(column))
            .map(|of| letters(of))
            .chain(heads)
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = heads.iter().enumerate().map(width).collect();
    let room = LINE.saturating_sub(widths.iter().sum::<usize>());
    let fitting = rows.iter().map(|row| letters(row.store)).filter(|letters| *letters <= room);
    let longest = fitting.max().unwrap_or(room);
    // A longer label has a line of its own, because a shortened one could be mistaken for another candidate's.
    let label = |store: &str| match letters(store) {
        fits if fits <= longest => format!("{store:<longest$}"),
        _ => format!("{store}\n{:longest$}", ""),
    };
    groups(text, &heads, &widths, longest);
    for below in 0..2 {
        let cells = heads.iter().zip(&widths).enumerate().map(|(column, (head, width))| {
            let sign = if column < shown.len() { "  " } else { "" };
            format!("{:>width$}", format!("{}{sign}", head.lines[below]))
        });
        line(text, &format!("{:longest$}{}", "", cells.collect::<String>()));
    }
    let mut above = "";
    for (row, figures) in rows.iter().zip(&figures) {
        let group = row.comparison_group.name();
        if group != above && !group.is_empty() && row.absent.is_none() {
            line(text, &format!("{group}:"));
        }
        above = group;
        let cells = figures.iter().zip(&widths).map(|(figure, width)| format!("{figure:>width$}"));
        match row.absent {
            Some(absent) => line(text, &format!("{}  {absent}", label(row.store).trim_end())),
            None => line(text, &format!("{}{}", label(row.store), cells.collect::<String>())),
        }
    }
}

/// Writes the line above the heads: one name over all columns of a group, with dashes to its ends.
fn groups(text: &mut String, heads: &[WorkHead], widths: &[usize], label: usize) {
    let Some(first) = heads.iter().position(|head| head.group.is_some()) else { return };
    let of_group = heads[first..].iter().take_while(|head| head.group.is_some()).count();
    let Some(name) = heads[first].group.filter(|_| of_group > 1) else { return };
    let before = label + widths[..first].iter().sum::<usize>();
    // Without the gap in front of its first column, and that of the sign after its last one.
    let room = widths[first..first + of_group].iter().sum::<usize>().saturating_sub(4 + name.len() + 2);
    let (left, right) = (room / 2, room - room / 2);
    line(text, &format!("{:before$}  {} {name} {}", "", "-".repeat(left), "-".repeat(right)));
}

/// Cells of a candidate's line: times with their signs, memory, and disk or a month.
fn figures(shown: usize, row: &AdviceRow<'_>, with_month: bool, notes: &mut Notes) -> Vec<String> {
    let times = row.times.iter().take(shown).map(|time| notes.text(time));
    let or_dash = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
    let memory = or_dash(row.memory.map(|taken| units::bytes(taken.own as f64)));
    let disk = row.per_byte.map(|share| format!("{share:.2}x"));
    let last = or_dash(if with_month { row.month.clone() } else { disk });
    times.chain([memory, last]).collect()
}
