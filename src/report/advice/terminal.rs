//! The recommendation in a terminal: in full, and in a form that fits a screen of 24 lines.

use super::{
    AdviceRow, SEE_TABLES, absent, choose, needed, one_place, one_place_label, promises, rows, sentences,
    servers, signs, signs_there,
};
use crate::report::terminal::{heading, line, wrapped};
use crate::report::view::{choice, memory, months, warned};
use crate::result::{Advice, RunResult, Situation};
use crate::units;

/// Maximum number of kinds of work shown in a terminal.
const COLUMNS_MAX: usize = 5;
/// Line width in characters.
const LINE: usize = 79;

/// Writes the full form, with a sentence for each kind of work.
pub(super) fn whole(text: &mut String, result: &RunResult, title: &str) {
    let Some(advice) = &result.advice else { return };
    heading(text, title);
    if !advice.situations.is_empty() {
        let rows = rows(result, advice);
        wrapped(text, "", &signs(advice, &rows));
        table(text, result, advice, &rows, false);
        let choices = choose::choices(result, advice, &rows);
        choices.iter().for_each(|choice| wrapped(text, "- ", &choice.sentence()));
    }
    sentences(result, advice).iter().for_each(|sentence| wrapped(text, "- ", sentence));
    warned::beside(result).iter().for_each(|warning| wrapped(text, "! ", warning));
}

/// Writes the one-screen form: with several kinds of work, the table replaces the sentences about them; with one, it is the full
/// form.
pub(super) fn brief(text: &mut String, result: &RunResult, title: &str) {
    let Some(advice) = &result.advice else { return };
    if result.plan.memory_sweep.is_some() {
        return beside_words(text, result, advice);
    }
    if !advice.is_of_several() {
        return whole(text, result, title);
    }
    let rows = rows(result, advice);
    heading(text, title);
    table(text, result, advice, &rows, true);
    let columns: String = advice.situations.iter().take(COLUMNS_MAX).filter_map(explained).collect();
    let signs = signs_in_short(&rows);
    let mapped = match memory::mapped(rows.iter().map(|row| (row.store, row.memory))) {
        Some(all) => format!(" Mapped pages of it: {all}."),
        None => String::new(),
    };
    wrapped(text, "  ", &format!("Time of an op; memory without page cache.{mapped}{columns}{signs}"));
    let place = one_place(result, advice, one_place_label(advice), false);
    let but = choose::of_one_place(result, advice, &rows);
    let by_size = choice::reads_by_size(advice);
    let said = [needed(advice), place, by_size, but, months::in_short(result), promises(result, advice)];
    let said = said
        .into_iter()
        .flatten()
        .chain(servers(result, advice))
        .chain(result.candidates.iter().filter_map(absent));
    said.for_each(|sentence| wrapped(text, "- ", &sentence));
    warned::beside(result).iter().for_each(|warning| wrapped(text, "! ", warning));
}

/// Writes what the answer in words leaves out: requirements and who meets them, monthly costs, and warnings that affect it.
fn beside_words(text: &mut String, result: &RunResult, advice: &Advice) {
    let said = [needed(advice), months::in_short(result)];
    said.into_iter().flatten().for_each(|sentence| wrapped(text, "- ", &sentence));
    warned::beside(result).iter().for_each(|warning| wrapped(text, "! ", warning));
}

/// Explains a column whose name is not self-explanatory.
fn explained(situation: &Situation) -> Option<String> {
    let (short, title) = (&situation.short, &situation.title);
    let mut letters = title.chars();
    let title = format!("{}{}", letters.next()?.to_lowercase(), letters.as_str());
    (!title.contains(short.as_str())).then(|| format!(" {short}: {title}."))
}

/// Legend of the signs that occur, grouping those with the same meaning.
fn signs_in_short(rows: &[AdviceRow<'_>]) -> String {
    let lacks_a_time = rows.iter().any(|row| row.absent.is_none() && row.times.iter().any(Option::is_none));
    let none = lacks_a_time.then(|| (SEE_TABLES, "-".to_owned()));
    let there = signs_there(rows).map(|(sign, _, meaning)| (*meaning, sign.to_string())).chain(none);
    let said =
        |(meaning, signs): (&str, Vec<String>)| format!(" {}: {meaning}.", units::listed(&signs, "and"));
    units::grouped(there).into_iter().map(said).collect()
}

/// Writes the table of all candidates; the one-screen form adds the cost of the next choice, and of a month.
fn table(text: &mut String, result: &RunResult, advice: &Advice, rows: &[AdviceRow<'_>], is_brief: bool) {
    let shown = || advice.situations.iter().take(COLUMNS_MAX);
    let with_month = is_brief && months::of(result).is_some();
    let mut heads: Vec<String> = shown().map(|situation| situation.short.clone()).collect();
    // Disk space is part of the monthly cost, and 80 columns have no room for both.
    heads.extend(["memory", if with_month { "month" } else { "disk/B" }].map(str::to_owned));
    let lines: Vec<Vec<String>> = rows.iter().map(|row| figures_of(row, with_month)).collect();
    let next = if is_brief { next(advice, shown()) } else { Vec::new() };
    let letters = |text: &str| text.chars().count();
    let all = || lines.iter().chain(next.iter().map(|(_, costs)| costs));
    let width = |(column, head): (usize, &String)| {
        let figures = all().filter_map(|line| line.get(column));
        1 + figures.map(|figure| letters(figure)).fold(letters(head), usize::max)
    };
    let widths: Vec<usize> = heads.iter().enumerate().map(width).collect();
    let room = LINE.saturating_sub(2 + widths.iter().sum::<usize>());
    let names = rows.iter().map(|row| row.store).chain(next.iter().map(|(name, _)| name.as_str()));
    let names = names.chain(["store"]);
    let label = names.map(letters).filter(|letters| *letters <= room).max().unwrap_or(room);
    let named = |name: &str| match letters(name) {
        fits if fits <= label => format!("{name:<label$}"),
        _ => format!("{name}\n  {:<label$}", ""),
    };
    let put = |text: &mut String, name: &str, figures: &[String]| {
        let figures = figures.iter().zip(&widths).map(|(figure, width)| format!("{figure:>width$}"));
        line(text, &format!("  {}{}", named(name), figures.collect::<String>()));
    };
    put(text, "store", &heads);
    let (of_answer, others): (Vec<_>, Vec<_>) =
        rows.iter().zip(&lines).partition(|(row, _)| row.is_of_answer());
    let mut above = None;
    let mut put_row = |text: &mut String, row: &AdviceRow<'_>, figures: &[String]| {
        let comparison_group = row.comparison_group.name();
        if above.replace(comparison_group) != Some(comparison_group)
            && !comparison_group.is_empty()
            && row.absent.is_none()
        {
            wrapped(text, "  ", &format!("{comparison_group}:"));
        }
        match row.absent {
            Some(absent) => line(text, &format!("  {} {absent}", named(row.store).trim_end())),
            None => put(text, row.store, figures),
        }
    };
    of_answer.into_iter().for_each(|(row, figures)| put_row(text, row, figures));
    next.iter().for_each(|(name, costs)| put(text, name, costs));
    others.into_iter().for_each(|(row, figures)| put_row(text, row, figures));
    if advice.situations.len() > COLUMNS_MAX {
        wrapped(text, "  ", "The other columns are in the report.");
    }
}

/// Cells of a candidate's line.
fn figures_of(row: &AdviceRow<'_>, with_month: bool) -> Vec<String> {
    let or_dash = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
    let times = row.times.iter().take(COLUMNS_MAX).map(|time| time.as_ref().map(|of| of.0.clone()));
    let memory = row.memory.map(|taken| units::bytes(taken.own as f64));
    let disk = row.per_byte.map(|share| format!("{share:.2}"));
    let disk_or_month = if with_month { row.month.clone() } else { disk };
    times.chain([memory, disk_or_month]).map(or_dash).collect()
}

/// Rows for the next-best choice: extra time per op, and the effect on a request with one such op.
fn next<'a>(advice: &Advice, shown: impl Iterator<Item = &'a Situation>) -> Vec<(String, Vec<String>)> {
    let of = |situation: &Situation| match &situation.next {
        Some(next) => (
            format!("+{}", units::nanoseconds(next.more_ns)),
            format!("+{} %", units::count(100.0 * choice::slower(advice, situation, next))),
        ),
        None => ("none".to_owned(), String::new()),
    };
    let (times, shares) = shown.map(of).unzip();
    vec![
        ("next takes".to_owned(), times),
        (format!("{} request", units::nanoseconds(advice.request_ns)), shares),
    ]
}
