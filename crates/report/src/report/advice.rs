//! The recommendation in every kind of report: a table of all candidates, one sentence for each kind of work, and the best single
//! store.

mod choose;
mod figures;
mod picture;
mod terminal;

use maud::{Markup, html};

use self::figures::WorkTime;
use super::block::{ReportFormat, on_page, put_in_markdown};
use super::html::{PageData, led, prose};
use super::markdown::Page;
use super::section::{Section, new};
use super::view::choice::{self, best_of_all, either, of_situation};
use super::view::memory::PeakMemory;
use super::view::months::month_of;
use super::view::{memory, warned, work};
use crate::judge::answer::with_reasons;
use crate::judge::cells;
use crate::judge::ranking::ComparisonGroup;
use crate::judge::run_subject::run_subject;
use crate::result::{
    Advice, CandidateResult, Cell, Footprint, Kind, Loss, Reason, RunResult, Situation, Status,
    UnfitCandidate, in_a_line,
};
use crate::units;

pub(super) const SECTION: Section = new("advice", "Summary")
    .has(|result| result.advice.is_some())
    .last()
    .html(html)
    .terminal(terminal::whole)
    .brief(terminal::brief)
    .markdown(markdown);

/// A candidate's row.
struct AdviceRow<'r> {
    store: &'r str,
    comparison_group: ComparisonGroup,
    /// Time in each kind of work.
    times: Vec<WorkTime>,
    /// Peak memory in any of them.
    memory: Option<PeakMemory>,
    /// Disk growth per byte of blobs; if unknown, total disk space per byte.
    per_byte: Option<f64>,
    /// Cost of a month, if requested and known.
    month: Option<String>,
    /// Processor time per op in the first kind of work, in nanoseconds, over all programs, minus that of an idle machine.
    processor: Option<f64>,
    /// True if the user has to run a server.
    is_server: bool,
    /// Declared loss at a power cut, for the writes of the run.
    loss: Option<String>,
    /// Status of a candidate that has no time.
    absent: Option<&'static str>,
}

impl AdviceRow<'_> {
    fn is_of_answer(&self) -> bool {
        self.times.iter().any(WorkTime::is_of_answer)
    }
}

/// Rows of all candidates except baselines and those that miss a requirement. The main comparison group comes first, ordered by
/// its worst placing; then the other groups; last, candidates without a time.
fn rows<'r>(result: &'r RunResult, advice: &'r Advice) -> Vec<AdviceRow<'r>> {
    let is_shown = |candidate: &&CandidateResult| {
        let is_unfit = advice.unfit.iter().any(|unfit| unfit.store == candidate.store);
        !candidate.is_baseline() && !is_unfit
    };
    let phases: Vec<&str> = advice.situations.iter().map(|situation| situation.phase.as_str()).collect();
    let row = |candidate: &'r CandidateResult| {
        let store = candidate.store.as_str();
        let mut times: Vec<WorkTime> =
            advice.situations.iter().map(|situation| WorkTime::new(result, situation, store)).collect();
        let taken = result.footprints.iter().find(|footprint| footprint.store == store);
        let is_absent = candidate.status != Status::Measured && times.iter().all(|time| time.op_ns.is_none());
        let absent = is_absent.then(|| candidate.status.name());
        // Its row has its status in place of figures.
        times.iter_mut().filter(|_| is_absent).for_each(|time| time.why = None);
        AdviceRow {
            store,
            comparison_group: ComparisonGroup::for_kind(candidate.kind),
            times,
            memory: memory::taken(result, store, &phases),
            per_byte: taken.and_then(Footprint::added_per_byte),
            month: month_of(result, store),
            processor: phases.first().and_then(|phase| result.cell(store, phase)?.total_cpu_ns_per_op),
            is_server: is_server(candidate),
            loss: phases.iter().find_map(|phase| loss_of(result.cell(store, phase)?)),
            absent,
        }
    };
    let mut rows: Vec<AdviceRow<'r>> = result.candidates.iter().filter(is_shown).map(row).collect();
    let place = |row: &AdviceRow<'_>| advice.one_place.iter().position(|worst| worst.store == row.store);
    rows.sort_by_key(|row| {
        (row.absent.is_some(), !row.is_of_answer(), row.comparison_group, place(row).unwrap_or(usize::MAX))
    });
    rows
}

/// Declared loss at a power cut for the writes of a cell, with the durability class if it differs from the run's.
fn loss_of(cell: &Cell) -> Option<String> {
    let loss = cell.loss.filter(|_| cells::writes(cell))?.after_power_cut.name();
    let weaker = match cell.not_ranked {
        Some(Reason::WeakerClass { class }) => Some(class),
        _ => None,
    };
    Some(match cell.own_durability.or(weaker) {
        Some(class) => format!("{loss} (class {})", class.name()),
        None => loss.to_owned(),
    })
}

fn sentences(result: &RunResult, advice: &Advice) -> Vec<String> {
    let first = [needed(advice), best_of_all(result, advice), choice::reads_by_size(advice)];
    first.into_iter().flatten().chain(of_each_kind(result, advice)).collect()
}

/// A sentence for each kind of work, then those about everything else.
fn of_each_kind(result: &RunResult, advice: &Advice) -> Vec<String> {
    let situations = advice.situations.iter().map(|situation| of_situation(advice, situation));
    situations.chain(beside_times(result, advice)).collect()
}

/// Sentences about what times do not tell: losses, servers, baselines, and candidates outside the comparison.
fn beside_times(result: &RunResult, advice: &Advice) -> Vec<String> {
    let others = [
        promises(result, advice, true),
        servers(result),
        without_time(result, advice),
        baselines(result, advice),
    ];
    let absent = result.candidates.iter().filter_map(absent);
    others.into_iter().flatten().chain(absent).collect()
}

/// States the requirements, and the candidates that miss them.
fn needed(advice: &Advice) -> Option<String> {
    let names: Vec<String> = advice.need.iter().map(|need| format!("`{}`", need.shown())).collect();
    if names.is_empty() {
        return None;
    }
    let why = |unfit: &UnfitCandidate| match &unfit.lacks {
        Some(lacks) => lacks.iter().map(|need| need.lacking()).collect::<Vec<_>>().join(", "),
        None => "its run did not note what it serves: measure again".to_owned(),
    };
    let left_out = with_reasons(advice.unfit.iter().map(|unfit| (why(unfit), unfit.store.clone())));
    let left_out =
        left_out.map_or("every candidate serves it".to_owned(), |list| format!("not considered: {list}"));
    let rest = match advice.fit.as_slice() {
        [] => " No candidate of this run is left.".to_owned(),
        [only] => format!(" `{only}` alone is left."),
        _ => String::new(),
    };
    Some(format!("Needed: {}; {left_out}.{rest}", names.join(", ")))
}

/// States what candidates promise to keep at a power cut and, if `with_kill`, when the program is killed, for the writes of the
/// run.
fn promises(result: &RunResult, advice: &Advice, with_kill: bool) -> Option<String> {
    let is_shown = |cell: &&Cell| {
        let is_of = |situation: &Situation| {
            situation.phase == cell.phase && situation.result_for(&cell.store).is_some()
        };
        cells::writes(cell) && advice.situations.iter().any(is_of)
    };
    let promised = |loss: &dyn Fn(&Cell) -> Option<String>| {
        let of_cell = |cell: &Cell| Some((loss(cell)?, format!("`{}`", cell.store)));
        by_whom(units::grouped(result.results.iter().filter(is_shown).filter_map(of_cell)))
    };
    let after_kill = |cell: &Cell| cell.loss.map(|loss| loss.after_kill);
    // Nearly all stores lose nothing at a kill, which goes without saying.
    let is_told = with_kill
        && result.results.iter().filter(is_shown).any(|cell| after_kill(cell) > Some(Loss::Nothing));
    let killed = promised(&|cell| after_kill(cell).map(|loss| loss.name().to_owned())).filter(|_| is_told);
    let killed = killed.map_or(String::new(), |said| format!(" After a kill of the program: {said}."));
    Some(format!("After a power cut: {} (see `blobwise crash`).{killed}", promised(&loss_of)?))
}

/// Lists promises with the stores that make them.
fn by_whom(mut promises: Vec<(String, Vec<String>)>) -> Option<String> {
    // The most common promise comes last, as "all others".
    promises.sort_by_key(|(_, stores)| stores.len());
    let (most, others) = promises.split_last()?;
    let one = |(loss, stores): &(String, Vec<String>)| format!("{loss}: {}", either(stores));
    Some(match (others, most.1.len()) {
        ([], _) => format!("{}, in all of them", most.0),
        (others, 1) => others.iter().chain([most]).map(one).collect::<Vec<_>>().join("; "),
        (others, _) => {
            format!("{}; {}, in all others", others.iter().map(one).collect::<Vec<_>>().join("; "), most.0)
        }
    })
}

/// True for a program of its own that somebody has to run.
fn is_server(candidate: &CandidateResult) -> bool {
    match candidate.kind {
        Some(Kind::Server | Kind::Web) => true,
        // Some caches are files.
        Some(Kind::Cache) => candidate.traits.has_process,
        _ => false,
    }
}

/// Lists the servers that were measured, caches and web servers among them, and where they run, because the user has to operate
/// them.
fn servers(result: &RunResult) -> Option<String> {
    let is_meant =
        |candidate: &&CandidateResult| candidate.status == Status::Measured && is_server(candidate);
    let servers: Vec<&CandidateResult> = result.candidates.iter().filter(is_meant).collect();
    let (theirs, ours): (Vec<_>, Vec<_>) =
        servers.into_iter().partition(|candidate| candidate.traits.is_external);
    let listed = |head: &str, servers: &[&CandidateResult]| {
        let names: Vec<String> = servers.iter().map(|server| format!("`{}`", server.store)).collect();
        (!names.is_empty()).then(|| format!("{head}: {}.", names.join(", ")))
    };
    let said = [
        listed("Servers on this machine, with no network and no provider in between", &ours),
        listed("Servers by URL", &theirs),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    (!said.is_empty()).then(|| format!("{} Somebody has to run them.", said.join(" ")))
}

/// States what measured candidates could not do, grouped by reason.
fn without_time(result: &RunResult, advice: &Advice) -> Option<String> {
    let is_asked = |candidate: &&CandidateResult| {
        let is_unfit = advice.unfit.iter().any(|unfit| unfit.store == candidate.store);
        candidate.status == Status::Measured && !candidate.is_baseline() && !is_unfit
    };
    let of_store = |candidate: &CandidateResult| {
        let in_columns = advice.situations.iter().filter_map(|situation| {
            let cell = result.cell(&candidate.store, &situation.phase)?;
            let of_phase = result.results.iter().filter(|other| other.phase == cell.phase);
            let rounds = of_phase.map(|other| other.rounds.len()).max().unwrap_or(0);
            let why = || match (
                cell.reason.as_deref().map_or_else(|| cell.status.name(), in_a_line),
                cell.rounds.len(),
            ) {
                (why, 0) => why.to_owned(),
                // A cell that lacks rounds still has a time, but is not compared.
                (why, measured) => {
                    format!("{why}, in {} of {rounds} rounds", rounds.saturating_sub(measured))
                }
            };
            (cell.status != Status::Measured).then(|| (why(), work::named(situation)))
        });
        let said = |(why, columns): (String, Vec<String>)| {
            (format!("{}: {why}", units::listed(&columns, "and")), candidate.store.clone())
        };
        units::grouped(in_columns).into_iter().map(said).collect::<Vec<_>>()
    };
    with_reasons(result.candidates.iter().filter(is_asked).flat_map(of_store))
        .map(|list| format!("Not measured in every round: {list}."))
}

/// Lists the baselines with their times in the first kind of work.
fn baselines(result: &RunResult, advice: &Advice) -> Option<String> {
    let first = advice.situations.first()?;
    let named = |candidate: &CandidateResult| {
        let time = WorkTime::new(result, first, &candidate.store).op_ns.map(units::nanoseconds);
        format!("`{}`{}", candidate.store, time.map_or(String::new(), |time| format!(" ({time})")))
    };
    let all = result.candidates.iter().filter(|candidate| candidate.is_baseline());
    let named: Vec<String> = all.map(named).collect();
    let work = work::named(first);
    (!named.is_empty()).then(|| format!("Baselines, not ranked ({work}): {}.", named.join(", ")))
}

/// States why a candidate was not measured.
fn absent(candidate: &CandidateResult) -> Option<String> {
    if candidate.status == Status::Measured {
        return None;
    }
    let is = if candidate.status == Status::Failed { "" } else { "is " };
    let reason = candidate.reason.as_deref().map_or("no reason was noted", in_a_line);
    Some(format!("`{}` {is}{}: {reason}.", candidate.store, candidate.status.name()))
}

fn html(view: &PageData<'_>) -> Markup {
    let result = view.result;
    let Some(advice) = &result.advice else { return html! {} };
    let rows = if advice.situations.is_empty() { Vec::new() } else { rows(result, advice) };
    let but = choose::given_up(result, advice, &rows);
    let first = [needed(advice), best_of_all(result, advice), but, choice::reads_by_size(advice)];
    html! {
        p { (run_subject(result)) }
        ul { @for sentence in first.into_iter().flatten() { li { (led(&sentence)) } } }
        @for warning in warned::beside(result) { p.beside { (prose(&warning)) } }
        @if let Some(picture) = picture::figure(result, &view.looks, advice, &rows) { (picture) }
        @if !advice.situations.is_empty() {
            details {
                summary { "The best and the next in each kind of work" }
                ul { @for situation in &advice.situations { li { (led(&of_situation(advice, situation))) } } }
            }
        }
        ul { @for sentence in beside_times(result, advice) { li { (led(&sentence)) } } }
        (on_page(&figures::blocks(result, advice, &rows, ReportFormat::Page)))
    }
}

fn markdown(page: &mut Page, result: &RunResult, title: &str) {
    let Some(advice) = &result.advice else { return };
    page.paragraph(&format!("## {title}"));
    page.list(&sentences(result, advice));
    warned::beside(result).iter().for_each(|warning| page.paragraph(&format!("**!** {warning}")));
    put_in_markdown(page, &figures::blocks(result, advice, &rows(result, advice), ReportFormat::Markdown));
}

#[cfg(test)]
mod tests;
