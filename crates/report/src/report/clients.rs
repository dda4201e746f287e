//! The clients of a run shared by several processes, in every kind of report: who they are, and their part in each phase.

use super::block::{Block, ReportFormat};
use super::section::{Section, new};
use super::table::{Table, TableCell, named, shown};
use super::view::words;
use crate::result::{
    Cell, ClientProcess, ClientRound, Round, RunResult, common_ops_per_s, first_end_ops_per_s,
};
use crate::units;

pub(super) const SECTION: Section = new("clients", "Clients").figures().blocks(blocks);

/// Text above the tables.
const LEGEND: &str = "Rank 0 planned, opened the stores and compared the blobs; all had workers in the phases below. Clients are not \
                      rounds: intervals rest on rounds alone.";

fn blocks(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    if result.clients.is_empty() {
        return Vec::new();
    }
    let (who_title, phases_title) = ("who they are, over all phases", "ops a second by phase");
    vec![
        format.part("Clients", who_title.to_owned()),
        Block::Text(LEGEND.to_owned()),
        Block::Table(who(result, who_title)),
        format.part("Clients", phases_title.to_owned()),
        Block::Table(phases(result, phases_title)),
    ]
}

fn rounds(result: &RunResult) -> impl Iterator<Item = &ClientRound> {
    result.results.iter().flat_map(|cell| &cell.rounds).flat_map(|round| &round.clients)
}

/// Table of the clients, with means over all phases.
fn who(result: &RunResult, title: &str) -> Table {
    let heads = ["client", "#processors", "#ops/s", "#processor", "#began late", "#waited", "#clock", "#±"];
    let mut table = Table::new(title, heads);
    result.clients.iter().for_each(|client| table.push(line(result, client)));
    table
}

fn line(result: &RunResult, client: &ClientProcess) -> Vec<TableCell> {
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
    let of_clock = |ns: u64, sign: &str| {
        shown((client.rank > 0).then_some(ns), |ns| format!("{sign}{}", units::nanoseconds(ns as f64)))
    };
    vec![
        format!("{} on {}", client.rank, client.host).into(),
        client.processors.to_string().into(),
        shown(a_second(ops as f64), units::count),
        shown(a_second(cpu_ns as f64 / 1e9), |share| format!("{:.0} %", share * 100.0)),
        shown(late, |ns| units::nanoseconds(ns as f64)),
        shown((whole > 0.0).then_some(waited / whole), |share| format!("{:.1} %", share * 100.0)),
        of_clock(offset.unsigned_abs(), sign),
        of_clock(client.clock_uncertainty_ns, ""),
    ]
}

/// Table of the rates of each phase, over different time windows.
fn phases(result: &RunResult, title: &str) -> Table {
    let heads = ["store", "phase", "#to the last end", "#common window", "#to the first end", "#slowest"];
    let cells =
        result.results.iter().filter(|cell| cell.rounds.iter().any(|round| !round.clients.is_empty()));
    let mut table = Table::new(title, heads);
    cells.for_each(|cell| table.push(of_cell(cell)));
    table
}

fn of_cell(cell: &Cell) -> Vec<TableCell> {
    let count = cell.rounds.len() as f64;
    let mean = |value: &dyn Fn(&[ClientRound]) -> Option<f64>| {
        let values: Option<Vec<f64>> = cell.rounds.iter().map(|round| value(&round.clients)).collect();
        shown(values, |values| units::count(values.iter().sum::<f64>() / count))
    };
    let last: f64 = cell.rounds.iter().map(Round::acknowledged_per_s).sum();
    let slowest = slowest(cell);
    vec![
        named(&cell.store),
        words::phase(&cell.phase, cell.corpus_id).into(),
        units::count(last / count).into(),
        mean(&|clients| Some(common_ops_per_s(clients))),
        mean(&first_end_ops_per_s),
        shown(slowest, |(rank, share)| format!("client {rank}: {:.0} % of the median", share * 100.0)),
    ]
}

/// Returns the client with the lowest rate in a cell, and its rate relative to the median client's.
fn slowest(cell: &Cell) -> Option<(u32, f64)> {
    crate::result::shares_of_median(cell.rounds.iter().map(|round| round.clients.as_slice()))
        .into_iter()
        .min_by(|one, other| one.1.total_cmp(&other.1))
}
