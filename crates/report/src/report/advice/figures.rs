//! The figures of the recommendation: the time of each candidate in each kind of work, the sign behind it and its meaning, and the
//! table of them for a page and for Markdown. A terminal lays the same figures out by itself, because its width is limited.

use super::{AdviceRow, choose};
use crate::judge::cells;
use crate::judge::ranking::{self, ComparisonGroup};
use crate::report::block::{Block, ReportFormat};
use crate::report::table::{CellContent, Table, TableCell, named, shown};
use crate::report::view::months::month_head;
use crate::report::view::standing::remark;
use crate::report::view::words::letters;
use crate::report::view::work;
use crate::result::{Advice, Cache, CandidateRank, Cell, Loss, RunResult, Situation, Status, in_a_line};
use crate::units;

/// Time of a candidate in a kind of work, and its standing there.
pub(super) struct WorkTime {
    /// Time of an op in nanoseconds, if known.
    pub op_ns: Option<f64>,
    /// Place within the main comparison group; `None` for candidates outside it.
    pub place: Option<CandidateRank>,
    /// True for a leader whose time is in good part blobwise's own work.
    is_bound: bool,
    /// Why it is not compared with the others or has no time.
    pub why: Option<String>,
    status: Option<Status>,
}

impl WorkTime {
    pub(super) fn new(result: &RunResult, situation: &Situation, store: &str) -> WorkTime {
        let cell = result.cell(store, &situation.phase);
        let standing = situation.result_for(store);
        let place = standing.map(|standing| standing.place);
        // Writes of delivery servers go to the store behind them.
        let is_own_work = |cell: &Cell| {
            !(cells::writes(cell) && ranking::comparison_group(cell) == ComparisonGroup::Delivery)
        };
        let op_ns = match standing {
            Some(standing) => standing.op_ns,
            None => cell.and_then(|cell| cells::op_ns(cell).filter(|_| is_own_work(cell))),
        };
        let why = match place {
            Some(CandidateRank::Leads | CandidateRank::Undecided | CandidateRank::Behind) => None,
            Some(CandidateRank::Apart) => Some(apart(result, situation, store)),
            Some(CandidateRank::NotRanked) | None => {
                let reason = cell.and_then(|cell| cell.not_ranked.as_ref());
                let reason = reason.map(|why| why.worded().in_plain_words());
                let reason = reason.or_else(|| cell?.reason.as_deref().map(in_a_line).map(str::to_owned));
                reason.or_else(|| op_ns.and(standing).map(|_| "not ranked".to_owned()))
            }
        };
        let leads = matches!(place, Some(CandidateRank::Leads | CandidateRank::Undecided));
        let is_bound = leads && standing.is_some_and(|standing| standing.is_bound);
        WorkTime { op_ns, place, is_bound, why, status: cell.map(|cell| cell.status) }
    }

    /// True if it is a time within the main comparison group.
    pub(super) fn is_of_answer(&self) -> bool {
        self.op_ns.and(self.place).is_some()
    }

    /// What a picture shows in place of a dot.
    pub(super) fn in_place_of_dot(&self) -> &'static str {
        match (self.op_ns, self.status) {
            (Some(_), _) => "not compared",
            (None, Some(Status::Failed)) => "failed",
            (None, Some(Status::NotPossible)) => "not possible",
            (None, _) => "no time",
        }
    }
}

/// States why a candidate is not compared with the others in a kind of work.
fn apart(result: &RunResult, situation: &Situation, store: &str) -> String {
    if result.cell(store, &situation.phase).is_some_and(|cell| cell.cache == Cache::Lukewarm) {
        return "metadata of files stays cached, so not compared here".to_owned();
    }
    let losses = |store: &str| result.cell(store, &situation.phase)?.loss;
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

/// Signs in a table and their meanings: fixed ones, and a letter for each reason why a figure is not compared.
#[derive(Default)]
pub(super) struct Notes {
    signs: Vec<(char, &'static str)>,
    reasons: Vec<String>,
}

impl Notes {
    /// Formats a time with its sign, which is a space where there is nothing to say.
    pub(super) fn text(&mut self, time: &WorkTime) -> String {
        let sign = match (time.place, &time.why) {
            (_, Some(why)) => self.letter(why),
            (Some(CandidateRank::Leads), None) => self.sign('*', "fastest, or tied with the fastest"),
            (Some(CandidateRank::Undecided), None) => self.sign('~', "too noisy to call, or too few rounds"),
            (_, None) => " ".to_owned(),
        };
        let bound = time.is_bound.then(|| self.sign('<', "more than 30 % of it is blobwise's own work"));
        let bound = bound.unwrap_or_default();
        format!("{bound}{} {sign}", time.op_ns.map_or("-".to_owned(), units::nanoseconds))
    }

    fn cell(&mut self, time: &WorkTime) -> TableCell {
        let text = self.text(time).trim_end().to_owned();
        let class = match time.place {
            _ if text == "-" => return shown(None, |none: String| none),
            Some(CandidateRank::Leads) => "leader",
            Some(CandidateRank::Undecided) => "unranked",
            _ if time.why.is_some() => "unranked",
            _ => "",
        };
        TableCell::with(CellContent::Text(text), class)
    }

    fn sign(&mut self, sign: char, meaning: &'static str) -> String {
        if self.signs.iter().all(|(known, _)| *known != sign) {
            self.signs.push((sign, meaning));
        }
        sign.to_string()
    }

    fn letter(&mut self, reason: &str) -> String {
        let place = self.reasons.iter().position(|known| known == reason).unwrap_or_else(|| {
            self.reasons.push(reason.to_owned());
            self.reasons.len() - 1
        });
        letters(place)
    }

    /// All signs with their meanings, the fixed ones first.
    pub(super) fn lines(self) -> impl Iterator<Item = (String, String)> {
        let signs = self.signs.into_iter().map(|(sign, meaning)| (sign.to_string(), meaning.to_owned()));
        signs.chain(self.reasons.into_iter().enumerate().map(|(place, reason)| (letters(place), reason)))
    }
}

// ---- page and Markdown -----------------------------------------------------------------------------------------------

/// The table of all candidates with the meanings of its signs, and what each candidate is for.
pub(super) fn blocks(
    result: &RunResult,
    advice: &Advice,
    rows: &[AdviceRow<'_>],
    format: ReportFormat,
) -> Vec<Block> {
    if advice.situations.is_empty() {
        return Vec::new();
    }
    let heads: Vec<work::WorkHead> =
        advice.situations.iter().map(|situation| work::head(result, situation)).collect();
    let resources = resources(result, rows);
    let title = |head: &work::WorkHead| match format {
        ReportFormat::Page => format!("#{}", head.line()),
        ReportFormat::Markdown | ReportFormat::Terminal => format!("#{}", head.label()),
    };
    let titles = ["store".to_owned()].into_iter().chain(heads.iter().map(title));
    let titles = titles.chain(resources.iter().map(|column| column.title.clone()));
    let around = |count: usize| std::iter::repeat_n(String::new(), count);
    let groups = heads.iter().map(|head| head.group.unwrap_or_default().to_owned());
    let groups: Vec<String> = around(1).chain(groups).chain(around(resources.len())).collect();
    let mut table = Table::new("Time of an op in each kind of work", titles).below(&groups);
    let mut notes = Notes::default();
    for (at, row) in rows.iter().enumerate() {
        let remark = row.absent.or_else(|| remark(row.comparison_group));
        let mut line = vec![named(row.store).remarked(remark)];
        line.extend(row.times.iter().map(|time| notes.cell(time)));
        line.extend(resources.iter().map(|column| shown(column.cells[at].clone(), |text| text)));
        table.push(line);
    }
    let mut meant = Table::new("What each candidate is for", choose::HEAD);
    choose::choices(result, advice, rows).iter().for_each(|choice| meant.push(choice.cells()));
    vec![
        Block::Table(table),
        Block::List(notes.lines().map(|(sign, meaning)| format!("`{sign}` {meaning}")).collect()),
        Block::Text(about(advice, &resources)),
        Block::Table(meant),
    ]
}

/// A column of what candidates take or promise, with a cell for each row.
struct ResourceColumn {
    title: String,
    /// Meaning of its figures; empty if the title says it.
    about: &'static str,
    cells: Vec<Option<String>>,
}

const PROCESSOR: &str = "#processor";

/// Columns beside the times, without those that tell nothing apart: columns without figures, and words that are the same for all.
fn resources(result: &RunResult, rows: &[AdviceRow<'_>]) -> Vec<ResourceColumn> {
    let column = |title: &str, about, cell: &dyn Fn(&AdviceRow<'_>) -> Option<String>| ResourceColumn {
        title: title.to_owned(),
        about,
        cells: rows.iter().map(cell).collect(),
    };
    let bytes = |bytes: u64| units::bytes(bytes as f64);
    let own = "RAM used: the peak of all processes, blobwise's own included, without pages of files.";
    let mapped = "Mapped: pages of files on top of that, which the kernel can drop.";
    let disk = "Disk used: what a byte of blobs adds, without logs and what an empty store has.";
    let month = month_head(result).map_or(String::new(), |head| format!("#{head}"));
    let all = [
        column("#RAM used", own, &|row| Some(bytes(row.memory?.own))),
        column("#mapped", mapped, &|row| row.memory?.mapped.map(bytes)),
        column("#disk used", disk, &|row| row.per_byte.map(|share| format!("{share:.2}x"))),
        column(&month, "", &|row| row.month.clone()),
        column(PROCESSOR, "", &|row| row.processor.map(units::nanoseconds)),
        column("server", "", &|row| match row.absent {
            Some(_) => None,
            None => Some(if row.is_server { "yes" } else { "no" }.to_owned()),
        }),
        column("power cut", "", &|row| row.loss.clone()),
    ];
    let tells = |column: &ResourceColumn| {
        let mut known = column.cells.iter().flatten();
        let first = known.next();
        first.is_some_and(|first| column.title.starts_with('#') || known.any(|other| other != first))
    };
    all.into_iter().filter(tells).collect()
}

fn about(advice: &Advice, resources: &[ResourceColumn]) -> String {
    let mut said = vec!["Time of an op.".to_owned()];
    let abouts = resources.iter().filter(|column| !column.about.is_empty());
    said.extend(abouts.map(|column| column.about.to_owned()));
    let has_processor = resources.iter().any(|column| column.title == PROCESSOR);
    let first = advice.situations.first().filter(|_| has_processor);
    said.extend(first.map(|first| format!("Processor: its time for an op ({}).", work::named(first))));
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_letters_of_its_own() {
        let mut notes = Notes::default();
        let given: Vec<String> = (0..30).map(|reason| notes.letter(&format!("reason {reason}"))).collect();
        assert_eq!(notes.letter("reason 29"), given[29]);
        let told: Vec<(String, String)> = notes.lines().collect();
        assert_eq!(told.len(), 30);
        assert_eq!(told[28], (given[28].clone(), "reason 28".to_owned()));
    }
}
