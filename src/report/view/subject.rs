//! The subject of a run in one line: blobs, disk, processors, memory, rounds, and what is unusual.

use crate::result::{Durability, RunResult};
use crate::units;

/// States what was measured and how.
pub(in crate::report) fn subject(result: &RunResult) -> String {
    let (corpus, plan) = (&result.corpus, &result.plan);
    let thing =
        if plan.corpus.as_ref().is_some_and(|corpus| corpus.files.is_some()) { "file" } else { "blob" };
    let median = units::bytes(corpus.quantiles.get("p50").copied().unwrap_or(0) as f64);
    let all = corpus.sampled_from.map_or(String::new(), |(files, _)| format!(" of {files}"));
    let system = match result.machine.filesystem.as_str() {
        "" => String::new(),
        system => format!(" on {system}"),
    };
    let blobs = format!(
        "{}{all}, {} (median {median}){system}",
        units::counted(corpus.blobs, thing),
        units::bytes(corpus.bytes as f64)
    );
    let memory =
        match (plan.memory.as_deref().filter(|memory| *memory != "none"), result.machine.memory_bytes) {
            (Some(memory), _) => Some(format!("RAM for {memory}")),
            (None, 0) => None,
            (None, machine) if corpus.bytes <= machine / 2 => Some("fits in RAM".to_owned()),
            (None, machine) => Some(format!("{:.1} times the RAM", corpus.bytes as f64 / machine as f64)),
        };
    let more_than_one = |number: Option<usize>, thing: &str| {
        number.filter(|number| *number > 1).map(|number| units::counted(number as u64, thing))
    };
    let rounds = result.results.iter().map(|cell| cell.rounds.len()).max().unwrap_or(0);
    let class = plan.durability.as_deref().filter(|class| *class != Durability::OnSync.name());
    let parts = [
        Some(blobs),
        Some(units::counted(result.machine.processors as u64, "CPU")),
        memory,
        more_than_one(Some(result.clients.len()), "client"),
        more_than_one(plan.workers, "worker"),
        more_than_one(plan.batch, "blob").map(|blobs| format!("{blobs} an op")),
        plan.rate.map(|rate| format!("{} ops/s offered", units::count(rate))),
        class.map(|class| format!("class {class}")),
        Some(units::counted(rounds as u64, "round")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" | ")
}
