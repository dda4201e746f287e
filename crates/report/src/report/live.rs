//! Standings of the candidates during a run, for a terminal of any size, by the figures that the recommendation will use; after the
//! fifth round, also what they decide already.

use super::view::choice::first_of;
use super::view::standing::CellRank;
use super::view::{words, work};
use crate::corpus::CorpusId;
use crate::judge::answer::has_few_rounds;
use crate::judge::{VERDICT_ROUNDS, ranking};
use crate::plan::text::{PlanText, part_of, whole_of};
use crate::result::{self, Cell, ReferenceRole, RunResult, Situation, Status, Verdict};
use crate::units;

/// Standing of a candidate in one kind of work.
#[derive(Clone, Debug, PartialEq)]
enum LiveRank {
    /// The fastest.
    Best,
    /// Ratio of its time per op to that of the fastest.
    Times {
        times: f64,
        /// Upper bound of the ratio at 95 % confidence; `None` if unknown.
        at_most: Option<f64>,
        /// True if no other candidate is proved to be faster.
        leads: bool,
    },
    /// Not comparable: it promises or does something else.
    Apart,
    /// Not ranked, or not yet.
    NotRanked,
    /// No figure.
    Absent,
}

/// Column of one kind of work.
#[derive(Clone, Debug)]
struct LiveColumn {
    /// The head in two lines, of which the second may be empty.
    title: [String; 2],
    /// Name within a sentence.
    work: String,
    /// True if it has too few rounds for a verdict.
    has_few_rounds: bool,
    /// True if its leaders are too noisy to call.
    is_undecided: bool,
    /// Marks of the candidates, in their order.
    marks: Vec<LiveRank>,
}

/// Candidates with their ratios and intervals so far.
#[derive(Clone, Debug)]
pub struct LiveRanking {
    candidates: Vec<String>,
    columns: Vec<LiveColumn>,
    rounds: u32,
    /// What is decided, a sentence for each column, and what the rest of the run is for.
    verdicts: Vec<String>,
}

/// Meaning of the signs.
const SIGNS: [(&str, &str); 3] =
    [("*", "nothing is proved 3 % faster"), ("apart", "not compared with them"), ("-", "no time")];
/// Widest interval that is shown, in percent of the ratio; a wider one says next to nothing.
const PERCENT_MAX: f64 = 99.0;
/// Number of characters of a candidate's label that are always shown.
const LABEL_MIN: usize = 16;
/// Number of characters of a candidate's label in a sentence.
const LABEL_IN_SENTENCE: usize = 30;
/// Number of characters in front of a label.
const MARGIN: usize = 2;
/// Minimum number of lines for a useful table: title, head and one candidate.
const LINES_MIN: usize = 3;

impl LiveRanking {
    /// Standings before the first round, with candidates in their order.
    pub fn new(candidates: impl Iterator<Item = String>) -> LiveRanking {
        LiveRanking { candidates: candidates.collect(), columns: Vec::new(), rounds: 0, verdicts: Vec::new() }
    }

    /// Standings from a result of whole rounds, best candidates first as in the recommendation.
    pub fn from_result(result: &RunResult) -> LiveRanking {
        let shown = result.candidates.iter().filter(|candidate| !candidate.is_baseline());
        let mut candidates: Vec<String> = shown.map(|candidate| candidate.store.clone()).collect();
        let one_place = result.advice.iter().flat_map(|advice| &advice.one_place);
        let first = result.advice.iter().flat_map(|advice| advice.situations.first());
        let first = first.flat_map(|situation| &situation.standings).map(|standing| &standing.store);
        let order: Vec<&String> = one_place.map(|worst| &worst.store).chain(first).collect();
        let place = |store: &str| order.iter().position(|known| *known == store);
        candidates.sort_by_key(|store| place(store).unwrap_or(usize::MAX));
        let rounds = result.rounds_begun();
        let columns = if rounds < 2 { Vec::new() } else { columns(result, &candidates) };
        let verdicts = match rounds < VERDICT_ROUNDS || columns.is_empty() {
            true => Vec::new(),
            false => {
                let decided = columns.iter().filter_map(|column| column.verdict(&candidates));
                decided.chain([rest(&columns, &result.plan)]).collect()
            }
        };
        LiveRanking { candidates, columns, rounds, verdicts }
    }

    /// Formats the table within `width` and `height`: a legend, and one line for each candidate. `now` is the candidate being
    /// measured, which is marked.
    pub fn lines(&self, now: Option<&str>, (width, height): (usize, usize)) -> Vec<String> {
        let longest = self.candidates.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let fits = self.fitting(longest.min(LABEL_MIN), width);
        let columns = &self.columns[..fits];
        let taken: usize = columns.iter().map(LiveColumn::width).sum();
        let label = longest.min(width.saturating_sub(taken + MARGIN));
        let mut lines = words::wrapped(&self.about(fits), width);
        if !columns.is_empty() {
            for at in 0..2 {
                let title = |column: &LiveColumn| format!("{:>1$}", column.title[at], column.width());
                let titles: String = columns.iter().map(title).collect();
                if !titles.trim().is_empty() {
                    lines.push(format!("{:1$}{titles}", "", MARGIN + label));
                }
            }
        }
        if height < lines.len().max(LINES_MIN) + 1 {
            return Vec::new();
        }
        let room = height - lines.len();
        let rows = if self.candidates.len() <= room { self.candidates.len() } else { room - 1 };
        for (at, candidate) in self.candidates.iter().enumerate().take(rows) {
            let sign = if now == Some(candidate) { "> " } else { "  " };
            let mark = |column: &LiveColumn| format!("{:>1$}", self.text(&column.marks[at]), column.width());
            let marks: String = columns.iter().map(mark).collect();
            lines.push(format!("{sign}{:<label$}{marks}", shortened(candidate, label)));
        }
        if rows < self.candidates.len() {
            lines.push(format!("  and {} more", self.candidates.len() - rows));
        }
        lines.extend(self.verdicts_within((width, room.saturating_sub(self.candidates.len()))));
        lines.iter().map(|line| line.trim_end().chars().take(width).collect()).collect()
    }

    /// What the rest of the run is for and, before it, what is decided in as many columns as there is room for.
    fn verdicts_within(&self, (width, height): (usize, usize)) -> Vec<String> {
        let indented = |(at, line): (usize, String)| if at == 0 { line } else { format!("  {line}") };
        let lines = |verdict: &String| -> Vec<String> {
            words::wrapped(verdict, width.saturating_sub(2)).into_iter().enumerate().map(indented).collect()
        };
        let Some((rest, columns)) = self.verdicts.split_last() else { return Vec::new() };
        let rest = lines(rest);
        let mut all: Vec<String> = Vec::new();
        for column in columns.iter().map(lines) {
            if all.len() + column.len() + rest.len() <= height {
                all.extend(column);
            }
        }
        all.extend(rest);
        if all.len() > height { Vec::new() } else { all }
    }

    /// Returns the number of columns that fit.
    fn fitting(&self, label: usize, width: usize) -> usize {
        let mut taken = MARGIN + label;
        let fits = self.columns.iter().take_while(|column| {
            taken += column.width();
            taken <= width
        });
        fits.count()
    }

    /// Legend for the figures.
    fn about(&self, fits: usize) -> String {
        let rounds = match self.rounds {
            0 => return "The first figures come when two rounds are through.".to_owned(),
            // A single round is never ranked.
            1 => return "One round so far: figures come with the second.".to_owned(),
            _ if self.columns.is_empty() => return "No candidate can be ranked so far.".to_owned(),
            rounds => format!("± with 95 % confidence after {rounds} rounds"),
        };
        let marks: String = self.columns[..fits]
            .iter()
            .flat_map(|column| &column.marks)
            .map(|mark| self.text(mark))
            .collect();
        let signs = SIGNS.iter().filter(|(sign, _)| marks.contains(sign));
        let signs: String = signs.map(|(sign, means)| format!(" {sign}: {means}.")).collect();
        let more = match self.columns.len() - fits {
            0 => String::new(),
            more => format!(" {more} more where the terminal is wider."),
        };
        format!("Time of an op over that of the fastest, {rounds}.{signs}{more}")
    }

    fn text(&self, mark: &LiveRank) -> String {
        match mark {
            LiveRank::Best => "best".to_owned(),
            LiveRank::Apart => "apart".to_owned(),
            LiveRank::NotRanked => "unranked".to_owned(),
            LiveRank::Absent => "-".to_owned(),
            LiveRank::Times { times, at_most, leads } => {
                let percent = at_most.map(|at_most| (100.0 * (at_most / times - 1.0)).max(0.0).ceil());
                let interval = match percent {
                    Some(percent) if percent <= PERCENT_MAX => format!("±{percent}%"),
                    _ => format!("±>{PERCENT_MAX}%"),
                };
                format!("{}{interval}{}", units::count(*times), if *leads { "*" } else { "" })
            }
        }
    }
}

impl LiveColumn {
    /// Width that fits any mark after any number of rounds, so that the table keeps its shape.
    fn width(&self) -> usize {
        /// Width of `1.04±>99%*`.
        const MARK: usize = 10;
        self.title.iter().map(|line| line.chars().count()).fold(MARK, usize::max) + 1
    }

    /// True if the rounds so far do not tell who leads.
    fn is_open(&self) -> bool {
        self.has_few_rounds || self.is_undecided
    }

    /// Says who leads and who is proved to be slower. `None` if neither is decided.
    fn verdict(&self, candidates: &[String]) -> Option<String> {
        let of = |is_meant: fn(&LiveRank) -> bool| -> Vec<String> {
            let of_candidates = candidates.iter().zip(&self.marks).filter(|(_, mark)| is_meant(mark));
            of_candidates.map(|(label, _)| shortened(label, LABEL_IN_SENTENCE)).collect()
        };
        let leaders = of(|mark| matches!(mark, LiveRank::Best | LiveRank::Times { leads: true, .. }));
        let out = of(|mark| matches!(mark, LiveRank::Times { leads: false, .. }));
        if self.has_few_rounds || leaders.is_empty() || (self.is_undecided && out.is_empty()) {
            return None;
        }
        let all = first_of(&leaders, "and");
        let first = match (self.is_undecided, leaders.len()) {
            (true, _) => format!("undecided ({all})"),
            (false, 1) => format!("{all} leads"),
            (false, _) => format!("{all} lead"),
        };
        let are_out = match out.len() {
            0 => String::new(),
            1 => format!("; {} is out", out[0]),
            _ => format!("; {} are out", first_of(&out, "and")),
        };
        Some(format!("{}: {first}{are_out}", self.work))
    }
}

/// Says what the rest of the run is for. Every round measures every candidate in every kind of work, and their number is fixed by
/// the intervals of all, so that nothing is spent on one column alone.
fn rest(columns: &[LiveColumn], plan: &PlanText) -> String {
    let open: Vec<String> =
        columns.iter().filter(|column| column.is_open()).map(|column| column.work.clone()).collect();
    let decided = match open.as_slice() {
        [] => "Every column is decided.".to_owned(),
        open => format!("Undecided: {}.", first_of(open, "and")),
    };
    let precision = plan.precision.as_deref().map_or(String::new(), |text| text.replace('%', " %"));
    let until = match (plan.rounds, &plan.budget) {
        (Some(_), _) => "for as many rounds as were asked for".to_owned(),
        (None, None) => format!("until half of the ratios are within ±{precision}"),
        (None, Some(_)) => {
            format!("until half of the ratios are within ±{precision} or the budget is spent")
        }
    };
    format!("{decided} The rest of the time narrows all intervals, {until}.")
}

/// Shortens a label by cutting out its middle, because labels of the same store often differ at the end.
fn shortened(label: &str, most: usize) -> String {
    let letters: Vec<char> = label.chars().collect();
    if letters.len() <= most {
        return label.to_owned();
    }
    let kept = most.saturating_sub(2);
    let (begin, end) = (&letters[..kept.div_ceil(2)], &letters[letters.len() - kept / 2..]);
    begin.iter().chain(&['.', '.']).chain(end).take(most).collect()
}

fn columns(result: &RunResult, candidates: &[String]) -> Vec<LiveColumn> {
    let situations = result.advice.as_ref().map(|advice| advice.situations.as_slice()).unwrap_or_default();
    if !situations.is_empty() {
        let column = |situation: &Situation| LiveColumn {
            title: work::head(result, situation).lines,
            work: work::named(situation),
            has_few_rounds: has_few_rounds(situation),
            is_undecided: situation.undecided().next().is_some(),
            marks: candidates.iter().map(|store| in_situation(result, situation, store)).collect(),
        };
        return situations.iter().map(column).collect();
    }
    let compared = ranked(result);
    let sizes = result.all_corpora().len() > 1;
    // For a sweep, a growth or ageing, one kind of work is shown at every step, because the question is where the winner changes.
    let first = compared.iter().map(|(phase, _)| *phase).find(|phase| phase.starts_with("read"));
    let first = first.or(compared.first().map(|(phase, _)| *phase));
    let has_steps = result.plan.has_steps();
    let meant = compared.iter().filter(|(phase, _)| match first {
        Some(first) if has_steps => whole_of(phase) == whole_of(first),
        first => !sizes || Some(*phase) == first,
    });
    let column = |(phase, corpus_id): &(&str, CorpusId)| {
        let size = corpus_id.bytes().map(|bytes| units::bytes(bytes as f64));
        let step = part_of(phase).filter(|_| has_steps).map(|(_, at)| words::step_shown(result, at.into()));
        let title = size.or(step).unwrap_or_else(|| (*phase).to_owned());
        let is_compared = |cell: &&Cell| {
            (cell.phase == *phase && cell.corpus_id == *corpus_id)
                && cell.not_ranked.is_none()
                && ranking::is_choice(cell)
        };
        let cells: Vec<&Cell> = result.results.iter().filter(is_compared).collect();
        // Each group has a leader of its own: then no sentence says who leads the column.
        let is_one_group = ranking::grouped(&cells).len() <= 1;
        let is_few = |cell: &&Cell| cell.rounds.len() < VERDICT_ROUNDS as usize;
        LiveColumn {
            title: [title.clone(), String::new()],
            work: title,
            has_few_rounds: !is_one_group || cells.iter().any(is_few),
            is_undecided: !cells.iter().any(|cell| cell.leader),
            marks: candidates.iter().map(|store| in_phase(result, phase, *corpus_id, store)).collect(),
        }
    };
    meant.map(column).collect()
}

/// Phases and sizes at which candidates are compared, in the order of the plan.
fn ranked(result: &RunResult) -> Vec<(&str, CorpusId)> {
    let is_compared = |of: &(&str, CorpusId)| {
        result.comparisons.iter().any(|comparison| {
            comparison.against == ReferenceRole::Best
                && (comparison.phase.as_str(), comparison.corpus_id) == *of
        })
    };
    let all = result.results.iter().map(|cell| (cell.phase.as_str(), cell.corpus_id));
    units::distinct(all.filter(is_compared))
}

fn in_situation(result: &RunResult, situation: &Situation, store: &str) -> LiveRank {
    let Some(standing) = situation.result_for(store) else {
        let has_time = result.results.iter().any(|cell| {
            cell.store == store && cell.phase == situation.phase && cell.status == Status::Measured
        });
        return if has_time { LiveRank::Apart } else { LiveRank::Absent };
    };
    match (standing.place, standing.times) {
        _ if standing.op_ns.is_none() => LiveRank::Absent,
        (result::CandidateRank::Apart, _) => LiveRank::Apart,
        (result::CandidateRank::NotRanked, _) | (_, None) => LiveRank::NotRanked,
        (place, Some(times)) => {
            let leads = [result::CandidateRank::Leads, result::CandidateRank::Undecided].contains(&place);
            // The fastest candidate has a ratio of exactly 1 to itself.
            let is_best = times == 1.0 && standing.times_at_most == Some(1.0);
            match is_best {
                true => LiveRank::Best,
                false => LiveRank::Times { times, at_most: standing.times_at_most, leads },
            }
        }
    }
}

fn in_phase(result: &RunResult, phase: &str, corpus_id: CorpusId, store: &str) -> LiveRank {
    let is_meant = |cell: &&Cell| cell.store == store && cell.phase == phase && cell.corpus_id == corpus_id;
    let Some(cell) = result.results.iter().find(is_meant) else { return LiveRank::Absent };
    match CellRank::for_cell(result, cell) {
        CellRank::Best | CellRank::BestCache => LiveRank::Best,
        CellRank::Technique | CellRank::Alone => LiveRank::Apart,
        CellRank::NotRanked => LiveRank::NotRanked,
        CellRank::Absent(_) => LiveRank::Absent,
        CellRank::Ratio(_) if !ranking::is_choice(cell) => LiveRank::Apart,
        CellRank::Ratio(comparison) => {
            comparison.ratio.map_or(LiveRank::NotRanked, |ratio| LiveRank::Times {
                times: 1.0 / ratio.median,
                at_most: ratio.low.map(|low| 1.0 / low),
                leads: comparison.verdict != Verdict::Slower,
            })
        }
    }
}

#[cfg(test)]
mod tests;
