//! Caches that are smaller than the corpus, in every kind of report: how often they still had a blob, and how long a miss takes.

use super::block::{Block, ReportFormat};
use super::section::{Section, new};
use super::table::{Table, TableCell, named, shown};
use super::view::words;
use crate::result::{Cell, RunResult};
use crate::units;

pub(super) const SECTION: Section = new("pressure", "Caches under pressure").figures().blocks(blocks);

const TITLE: &str = "what they threw away, and how often they still had a blob";

const LEGEND: &str = "These caches are smaller than the corpus. A miss is a blob that was put and then evicted. Every blob that was \
                      still there had the bytes that were put.";

fn blocks(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    let evicts = |cell: &&Cell| cell.traits.may_evict && !cell.rounds.is_empty();
    let cells: Vec<&Cell> = result.results.iter().filter(evicts).collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let heads =
        ["store", "phase", "#hits", "#misses", "#evictions a round", "#hit p50", "#miss p50", "#miss p99"];
    let mut table = Table::new(TITLE, heads);
    cells.into_iter().for_each(|cell| table.push(line(cell)));
    vec![
        format.part("Caches under pressure", TITLE.to_owned()),
        Block::Text(LEGEND.to_owned()),
        Block::Table(table),
    ]
}

fn line(cell: &Cell) -> Vec<TableCell> {
    let step = |name: &str| cell.steps.iter().find(|step| step.name == name);
    let time = |ns: Option<u64>| shown(ns, |ns| units::nanoseconds(ns as f64));
    // Only reads hit or miss.
    let reads = (step("hit").is_some() || step("miss").is_some()).then_some(cell.ops);
    let misses = cell.counters.cache_misses;
    let hits = |ops: u64| format!("{:.1} %", (1.0 - misses as f64 / ops.max(1) as f64) * 100.0);
    vec![
        named(&cell.store),
        words::phase(&cell.phase, cell.corpus_id).into(),
        shown(reads, hits),
        shown(reads, |_| units::count(misses as f64)),
        units::count(cell.counters.evictions as f64 / cell.rounds.len().max(1) as f64).into(),
        time(step("hit").and_then(|step| step.service_ns.p50)),
        time(step("miss").and_then(|step| step.service_ns.p50)),
        time(step("miss").and_then(|step| step.service_ns.p99)),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::html::tests::{cell, result};

    #[test]
    fn hits_misses_and_evictions_are_told_of_caches_that_evict() {
        let of = |evicts: bool, phase: &str, misses: u64, steps: Value| {
            let traits = json!({"may_evict": evicts});
            let counts = json!({"traits": traits, "ops": 200, "cache_misses": misses, "evictions": 30, "steps": steps});
            cell("cache", phase, counts)
        };
        let step = |name: &str, p50: u64| json!({"name": name, "service_ns": {"p50": p50}, "share": 0.5});
        let lines = |cells: Vec<Value>| -> Vec<String> {
            let blocks = blocks(&result(&["cache"], cells, vec![]), ReportFormat::Markdown);
            let rows = blocks.iter().filter_map(|block| match block {
                Block::Table(table) => Some(table.rows(false).map(|row| row.join(" "))),
                _ => None,
            });
            rows.flatten().collect()
        };
        let read = of(true, "read-warm", 50, json!([step("hit", 20_000), step("miss", 9_000)]));
        let told = lines(vec![of(true, "fill", 0, json!([])), read]);
        // In five rounds.
        assert!(told[0].contains("fill") && told[0].contains(" 6") && !told[0].contains('%'), "{told:?}");
        assert!(told[1].contains("75.0 %") && told[1].contains("20") && told[1].contains('9'), "{told:?}");
        assert!(lines(vec![of(false, "read-warm", 0, json!([]))]).is_empty());
    }
}
