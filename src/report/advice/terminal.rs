//! What to do in a terminal: whole, and as one screen of 24 lines has room for it.

use super::{Row, absent, baselines, needed, one_place, promises, rows, sentences, servers, signs, signs_of};
use crate::report::terminal::{heading, line, wrapped};
use crate::report::view::warned;
use crate::result::{Advice, Place, RunResult, Situation};
use crate::units;

/// Columns of kinds of work that a terminal has room for.
const COLUMNS_MAX: usize = 5;
/// Characters of the memory and of the disk behind them.
const MEMORY: usize = 8;
const DISK: usize = 7;
/// Characters of a line.
const LINE: usize = 79;

/// All of it: every kind of work has a sentence.
pub(super) fn whole(text: &mut String, result: &RunResult, title: &str) {
    let Some(advice) = &result.advice else { return };
    heading(text, title);
    if !advice.situations.is_empty() {
        let rows = rows(result, advice);
        wrapped(text, "", &signs(&rows));
        table(text, advice, &rows, false);
    }
    sentences(result, advice).iter().for_each(|sentence| wrapped(text, "- ", sentence));
    warned::beside(result).iter().for_each(|warning| wrapped(text, "! ", warning));
}

/// One screen: what a sentence for each kind of work would say stands in the table. With one kind of work that is all of it.
pub(super) fn brief(text: &mut String, result: &RunResult, title: &str) {
    let Some(advice) = &result.advice else { return };
    if advice.situations.len() < 2 {
        return whole(text, result, title);
    }
    let rows = rows(result, advice);
    heading(text, title);
    table(text, advice, &rows, true);
    let said = signs_of(&rows, |(_, _, meaning)| meaning);
    let none = if lacks_a_time(&rows) { " -: none: --tables says why." } else { "" };
    let columns: String = advice.situations.iter().take(COLUMNS_MAX).filter_map(explained).collect();
    wrapped(text, "  ", &format!("Time of an op; memory without the kernel's cache.{columns}{said}{none}"));
    let said = [needed(advice), one_place(result, advice), promises(result, advice), servers(result, advice)];
    let said = said
        .into_iter()
        .flatten()
        .chain(baselines(result, advice))
        .chain(result.candidates.iter().filter_map(absent));
    said.for_each(|sentence| wrapped(text, "- ", &sentence));
    warned::beside(result).iter().for_each(|warning| wrapped(text, "! ", warning));
}

/// What a column is whose name does not say it.
fn explained(situation: &Situation) -> Option<String> {
    let (short, title) = (&situation.short, &situation.title);
    let mut letters = title.chars();
    let title = format!("{}{}", letters.next()?.to_lowercase(), letters.as_str());
    (!title.contains(short.as_str())).then(|| format!(" {short}: {title}."))
}

fn lacks_a_time(rows: &[Row<'_>]) -> bool {
    rows.iter().any(|row| row.absent.is_none() && row.times.iter().any(Option::is_none))
}

/// All candidates; and, where that is asked for, what the next choice costs behind those of the answer.
fn table(text: &mut String, advice: &Advice, rows: &[Row<'_>], with_next: bool) {
    let shown = || advice.situations.iter().take(COLUMNS_MAX);
    let heads: Vec<String> = shown().map(|situation| situation.short.clone()).collect();
    let next = if with_next { next(advice, shown()) } else { Vec::new() };
    let of_column = |column: usize| {
        let times = rows.iter().filter_map(move |row| Some(row.times.get(column)?.as_ref()?.0.as_str()));
        times.chain(next.iter().map(move |(_, costs)| costs[column].as_str()))
    };
    let letters = |text: &str| text.chars().count();
    let width =
        |(column, head): (usize, &String)| 1 + of_column(column).map(letters).fold(letters(head), usize::max);
    let widths: Vec<usize> = heads.iter().enumerate().map(width).collect();
    let room = LINE.saturating_sub(2 + widths.iter().sum::<usize>() + MEMORY + DISK);
    let names = rows.iter().map(|row| row.store).chain(next.iter().map(|(name, _)| name.as_str()));
    let label = names.map(letters).filter(|letters| *letters <= room).max().unwrap_or(room);
    let figures = |figures: &mut dyn Iterator<Item = String>| -> String {
        figures.zip(&widths).map(|(figure, width)| format!("{figure:>width$}")).collect()
    };
    let named = |name: &str| match name.chars().count() {
        fits if fits <= label => format!("{name:<label$}"),
        _ => format!("{name}\n  {:<label$}", ""),
    };
    let heads = figures(&mut heads.into_iter());
    line(text, &format!("  {:<label$}{heads}{:>MEMORY$}{:>DISK$}", "store", "memory", "disk/B"));
    let (of_answer, others): (Vec<&Row<'_>>, Vec<&Row<'_>>) = rows.iter().partition(|row| row.is_of_answer());
    let mut above = None;
    let mut put = |text: &mut String, row: &Row<'_>| {
        let league = row.league.name();
        if above.replace(league) != Some(league) && !league.is_empty() && row.absent.is_none() {
            wrapped(text, "  ", &format!("{league}:"));
        }
        let name = named(row.store);
        if let Some(absent) = row.absent {
            return line(text, &format!("  {} {absent}", name.trim_end()));
        }
        let dash = || "-".to_owned();
        let time =
            |time: &Option<(String, Option<Place>)>| time.as_ref().map_or_else(dash, |of| of.0.clone());
        let times = figures(&mut row.times.iter().map(time));
        let memory = row.memory.map_or_else(dash, |bytes| units::bytes(bytes as f64));
        let disk = row.per_byte.map_or_else(dash, |share| format!("{share:.2}"));
        line(text, &format!("  {name}{times}{memory:>MEMORY$}{disk:>DISK$}"));
    };
    of_answer.into_iter().for_each(|row| put(text, row));
    for (name, costs) in next {
        line(text, &format!("  {}{}", named(&name), figures(&mut costs.into_iter())));
    }
    others.into_iter().for_each(|row| put(text, row));
    if advice.situations.len() > COLUMNS_MAX {
        wrapped(text, "  ", "The other columns are in the report.");
    }
}

/// What the next choice takes longer than those that lead, as a time and as a share of a request.
fn next<'a>(advice: &Advice, shown: impl Iterator<Item = &'a Situation>) -> Vec<(String, Vec<String>)> {
    let of = |situation: &Situation| match &situation.next {
        Some(next) => (
            format!("+{}", units::nanoseconds(next.more_ns)),
            format!("+{} %", units::count(100.0 * next.more_ns / advice.request_ns)),
        ),
        None => ("none".to_owned(), String::new()),
    };
    let (times, shares) = shown.map(of).unzip();
    vec![("next takes".to_owned(), times), (format!("of {}", units::nanoseconds(advice.request_ns)), shares)]
}
