//! The recommendation in a terminal: the place to choose, what it gives up, and every candidate's figures on one screen; and in
//! full, with a sentence for each kind of work.

use super::{AdviceRow, absent, cell_of, choose, needed, op_ns_in, promises, rows, sentences, servers};
use crate::judge::TIGHT_SHARE;
use crate::messages::{in_a_line, in_plain_words};
use crate::report::terminal::{LINE, flush, heading, line, wrapped};
use crate::report::view::{choice, memory, months, warned};
use crate::result::{Advice, Cache, CandidateRank, Durability, Loss, RunResult, Situation};
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
    let said = said.into_iter().flatten().chain(servers(result, advice));
    let said = said.chain(result.candidates.iter().filter_map(absent));
    said.for_each(|sentence| flush(text, &sentence));
}

// ---- the recommendation ------------------------------------------------------------------------------------------

/// Writes where to keep the files, at what cost, and what that gives up.
fn recommend(text: &mut String, result: &RunResult, advice: &Advice, rows: &[AdviceRow<'_>]) {
    needed(advice).iter().for_each(|needed| flush(text, needed));
    text.push('\n');
    let Some(place) = choice::best_place(advice) else {
        let why = choice::no_place(advice, &work);
        why.iter().for_each(|why| flush(text, &format!("No recommendation: {why}")));
        return;
    };
    line(text, &format!("{}  {}", choice::do_with(result, &place.store), place.store));
    let said = [
        choice::cost_of_place(advice, &work),
        choose::given_up(result, advice, rows),
        choice::not_counted(advice, &work),
    ];
    said.into_iter().flatten().for_each(|sentence| wrapped(text, "  ", &sentence));
}

/// Names a kind of work within a sentence.
fn work(situation: &Situation) -> String {
    match situation.short.as_str() {
        "warm" => "reads from RAM".to_owned(),
        "tight" => format!("reads with RAM for {}", units::percent(TIGHT_SHARE)),
        "hot" => "reads of a hot set".to_owned(),
        "cold" => "cold reads".to_owned(),
        "write" => "writes".to_owned(),
        own => format!("`{own}`"),
    }
}

// ---- the table ---------------------------------------------------------------------------------------------------

/// Writes the table of all candidates, and below it the meanings of its signs.
fn figures_of_all(text: &mut String, result: &RunResult, advice: &Advice, rows: &[AdviceRow<'_>]) {
    let mut notes = Notes::default();
    table(text, result, advice, rows, &mut notes);
    text.push('\n');
    notes.lines().iter().for_each(|(sign, meaning)| wrapped(text, &format!("{sign} "), meaning));
    let taken = rows.iter().map(|row| (row.store, row.memory));
    let mapped = memory::mapped(taken, MAPPED_TIMES);
    if let Some(mapped) = mapped {
        flush(text, &format!("RAM is without pages of files that the kernel can drop: {mapped}."));
    }
    if advice.situations.len() > COLUMNS_MAX {
        flush(text, "The other columns are in the report.");
    }
}

/// Head of a column: the group that it belongs to, if any, and two lines.
struct Head {
    group: Option<&'static str>,
    lines: [String; 2],
}

fn head(result: &RunResult, situation: &Situation) -> Head {
    let read = |above: &str, below: &str| Head {
        group: Some("read one"),
        lines: [above.to_owned(), below.to_owned()],
    };
    let share = units::percent(TIGHT_SHARE);
    let is_flushed = result.plan.durability.as_deref() != Some(Durability::None.name());
    match situation.short.as_str() {
        "warm" => read("in RAM", ""),
        "tight" => read("RAM for", &share),
        "hot" => read("hot set,", &format!("RAM {share}")),
        "cold" => read("cold", ""),
        "write" if is_flushed => Head { group: None, lines: ["write,".to_owned(), "flushed".to_owned()] },
        own => Head { group: None, lines: [own.to_owned(), String::new()] },
    }
}

/// Writes the table of all candidates, and collects the notes on its figures.
fn table(text: &mut String, result: &RunResult, advice: &Advice, rows: &[AdviceRow<'_>], notes: &mut Notes) {
    let shown: Vec<&Situation> = advice.situations.iter().take(COLUMNS_MAX).collect();
    let with_month = months::of(result).is_some();
    let mut heads: Vec<Head> = shown.iter().map(|situation| head(result, situation)).collect();
    // Disk space is part of the monthly cost, and 80 columns have no room for both.
    let last = if with_month { ["month", ""] } else { ["disk", "used"] };
    let of_resources =
        [["RAM", "used"], last].map(|lines| Head { group: None, lines: lines.map(str::to_owned) });
    heads.extend(of_resources);
    let figures: Vec<Vec<String>> =
        rows.iter().map(|row| figures(result, &shown, row, with_month, notes)).collect();
    let letters = |text: &str| text.chars().count();
    let width = |(column, head): (usize, &Head)| {
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
fn groups(text: &mut String, heads: &[Head], widths: &[usize], label: usize) {
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
fn figures(
    result: &RunResult,
    shown: &[&Situation],
    row: &AdviceRow<'_>,
    with_month: bool,
    notes: &mut Notes,
) -> Vec<String> {
    let times = shown.iter().map(|situation| time(result, situation, row, notes));
    let or_dash = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
    let memory = or_dash(row.memory.map(|taken| units::bytes(taken.own as f64)));
    let disk = row.per_byte.map(|share| format!("{share:.2}x"));
    let last = or_dash(if with_month { row.month.clone() } else { disk });
    times.chain([memory, last]).collect()
}

/// Time of a candidate in a kind of work, with its sign.
fn time(result: &RunResult, situation: &Situation, row: &AdviceRow<'_>, notes: &mut Notes) -> String {
    let cell = cell_of(result, row.store, &situation.phase);
    let standing = situation.of(row.store);
    let known = op_ns_in(result, situation, row.store);
    let sign = match standing.map(|standing| standing.place) {
        Some(CandidateRank::Leads) => notes.sign('*', "fastest, or tied with the fastest"),
        Some(CandidateRank::Undecided) => notes.sign('~', "too noisy to call, or too few rounds"),
        Some(CandidateRank::Behind) => ' ',
        Some(CandidateRank::Apart) => notes.letter(&apart(result, situation, row.store)),
        Some(CandidateRank::NotRanked) | None => {
            let reason = cell.and_then(|cell| cell.not_ranked.as_ref());
            let why = reason
                .map(in_plain_words)
                .or_else(|| cell?.reason.as_deref().map(in_a_line).map(str::to_owned));
            match (why, known) {
                (Some(why), _) => notes.letter(&why),
                (None, Some(_)) if standing.is_some() => notes.letter("not ranked"),
                (None, _) => ' ',
            }
        }
    };
    let is_leading =
        standing.is_some_and(|of| [CandidateRank::Leads, CandidateRank::Undecided].contains(&of.place));
    let bound = match standing.is_some_and(|standing| standing.is_bound) && is_leading {
        true => notes.sign('<', "more than 30 % of it is blobwise's own work").to_string(),
        false => String::new(),
    };
    let time = known.map_or("-".to_owned(), units::nanoseconds);
    format!("{bound}{time} {sign}")
}

/// States why a candidate is not compared with the others in a kind of work.
fn apart(result: &RunResult, situation: &Situation, store: &str) -> String {
    if cell_of(result, store, &situation.phase).is_some_and(|cell| cell.cache == Cache::Lukewarm) {
        return "metadata of files stays cached, so not compared here".to_owned();
    }
    let losses = |store: &str| cell_of(result, store, &situation.phase)?.loss;
    let ranked = situation.standings.iter().filter(|of| of.place <= CandidateRank::Behind);
    let of_others = ranked.filter_map(|of| losses(&of.store)).next();
    let loses = |loss: Loss| match loss {
        Loss::RecentWrites => "loses recent writes",
        Loss::StoreUnusable => "may not open again",
        Loss::All => "loses everything",
        Loss::Nothing => "loses nothing",
        Loss::NotKnown => "may lose anything",
    };
    match losses(store).zip(of_others) {
        Some((own, others)) if own.after_kill != others.after_kill => {
            format!("{} when killed, so not compared here", loses(own.after_kill))
        }
        Some((own, others)) if own.after_power_cut != others.after_power_cut => {
            format!("{} in a power cut, so not compared here", loses(own.after_power_cut))
        }
        _ => "promises or does something else, so not compared here".to_owned(),
    }
}

/// Signs in the table and their meanings: fixed ones, and a letter for each reason why a figure is not compared.
#[derive(Default)]
struct Notes {
    signs: Vec<(char, String)>,
    reasons: Vec<String>,
}

impl Notes {
    fn sign(&mut self, sign: char, meaning: &str) -> char {
        if self.signs.iter().all(|(known, _)| *known != sign) {
            self.signs.push((sign, meaning.to_owned()));
        }
        sign
    }

    fn letter(&mut self, reason: &str) -> char {
        let place = self.reasons.iter().position(|known| known == reason).unwrap_or_else(|| {
            self.reasons.push(reason.to_owned());
            self.reasons.len() - 1
        });
        ('a'..='z').nth(place).unwrap_or('z')
    }

    /// All signs with their meanings, the fixed ones first.
    fn lines(self) -> Vec<(char, String)> {
        let letters = ('a'..='z').zip(self.reasons);
        self.signs.into_iter().chain(letters).collect()
    }
}
