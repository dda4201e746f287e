//! The clients of a run shared by several processes, in every kind of report: who they are, and their part in each phase.

use maud::{Markup, html};

use super::html::{PageData, prose};
use super::markdown::Page;
use super::section::{Section, new};
use super::tabled::{CaptionedTable, in_markdown, in_terminal, table};
use super::view::words;
use crate::result::{
    Cell, ClientProcess, ClientRound, Round, RunResult, common_ops_per_s, first_end_ops_per_s,
};
use crate::units;

pub(super) const SECTION: Section = new("clients", "Clients")
    .has(|result| !result.clients.is_empty())
    .figures()
    .html(page)
    .terminal(terminal)
    .markdown(markdown);

/// Text above the tables.
const LEGEND: &str = "Rank 0 planned, opened the stores and compared the blobs; all had workers in the phases below. Clients are not \
                      rounds: intervals rest on rounds alone.";

fn tables(result: &RunResult) -> Vec<CaptionedTable> {
    if result.clients.is_empty() { Vec::new() } else { vec![who(result), phases(result)] }
}

fn rounds(result: &RunResult) -> impl Iterator<Item = &ClientRound> {
    result.results.iter().flat_map(|cell| &cell.rounds).flat_map(|round| &round.clients)
}

/// Table of the clients, with means over all phases.
fn who(result: &RunResult) -> CaptionedTable {
    let heads = ["processors", "ops/s", "processor", "began late", "waited", "clock", "±"];
    CaptionedTable {
        title: "who they are, over all phases".to_owned(),
        said: vec![LEGEND.to_owned()],
        columns: [("client".to_owned(), false)]
            .into_iter()
            .chain(heads.map(|head| (head.to_owned(), true)))
            .collect(),
        lines: result.clients.iter().map(|client| line(result, client)).collect(),
    }
}

fn line(result: &RunResult, client: &ClientProcess) -> Vec<Option<String>> {
    let own = || rounds(result).filter(|round| round.rank == client.rank);
    let seconds: f64 = own().map(ClientRound::seconds).sum();
    let a_second = |value: f64| (seconds > 0.0).then(|| value / seconds);
    let ops: u64 = own().map(|round| round.ops).sum();
    let cpu_ns: u64 = own().map(|round| round.worker_cpu_ns).sum();
    // Share of the total time of all phases.
    let (mut waited, mut whole) = (0.0, 0.0);
    for round in own() {
        let length =
            if round.waited_share < 1.0 { round.seconds() / (1.0 - round.waited_share) } else { 0.0 };
        (waited, whole) = (waited + length * round.waited_share, whole + length);
    }
    let late = own().map(|round| round.begin_ns).max();
    let offset = client.clock_offset_ns;
    let sign = if offset < 0 { "-" } else { "+" };
    vec![
        Some(format!("{} on {}", client.rank, client.host)),
        Some(client.processors.to_string()),
        a_second(ops as f64).map(units::count),
        a_second(cpu_ns as f64 / 1e9).map(|share| format!("{:.0} %", share * 100.0)),
        late.map(|ns| units::nanoseconds(ns as f64)),
        (whole > 0.0).then(|| format!("{:.1} %", waited / whole * 100.0)),
        (client.rank > 0).then(|| format!("{sign}{}", units::nanoseconds(offset.unsigned_abs() as f64))),
        (client.rank > 0).then(|| units::nanoseconds(client.clock_uncertainty_ns as f64)),
    ]
}

/// Table of the rates of each phase, over different time windows.
fn phases(result: &RunResult) -> CaptionedTable {
    let heads = ["to the last end", "common window", "to the first end", "slowest"];
    let cells =
        result.results.iter().filter(|cell| cell.rounds.iter().any(|round| !round.clients.is_empty()));
    CaptionedTable {
        title: "ops a second by phase".to_owned(),
        said: Vec::new(),
        columns: ["store", "phase"]
            .map(|head| (head.to_owned(), false))
            .into_iter()
            .chain(heads.map(|head| (head.to_owned(), true)))
            .collect(),
        lines: cells.map(of_cell).collect(),
    }
}

fn of_cell(cell: &Cell) -> Vec<Option<String>> {
    let count = cell.rounds.len() as f64;
    let mean = |value: &dyn Fn(&[ClientRound]) -> Option<f64>| {
        let values: Option<Vec<f64>> = cell.rounds.iter().map(|round| value(&round.clients)).collect();
        values.map(|values| units::count(values.iter().sum::<f64>() / count))
    };
    let last: f64 = cell.rounds.iter().map(Round::acknowledged_per_s).sum();
    let slowest = slowest(cell);
    vec![
        Some(cell.store.clone()),
        Some(words::phase(&cell.phase, cell.corpus_id)),
        Some(units::count(last / count)),
        mean(&|clients| Some(common_ops_per_s(clients))),
        mean(&first_end_ops_per_s),
        slowest.map(|(rank, share)| format!("client {rank}: {:.0} % of the median", share * 100.0)),
    ]
}

/// Returns the client with the lowest rate in a cell, and its rate relative to the median client's.
fn slowest(cell: &Cell) -> Option<(u32, f64)> {
    crate::result::shares_of_median(cell.rounds.iter().map(|round| round.clients.as_slice()))
        .into_iter()
        .min_by(|one, other| one.1.total_cmp(&other.1))
}

fn page(view: &PageData<'_>) -> Markup {
    html! {
        @for shown in &tables(view.result) {
            h3 { (shown.title) }
            @for sentence in &shown.said { p { (prose(sentence)) } }
            (table(shown))
        }
    }
}

fn terminal(text: &mut String, result: &RunResult, title: &str) {
    tables(result).iter().for_each(|shown| in_terminal(text, shown, title));
}

fn markdown(page: &mut Page, result: &RunResult, title: &str) {
    in_markdown(page, tables(result), title);
}
