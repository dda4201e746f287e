//! The subject of a run in one line: blobs, disk, processors, memory, what is unusual, and rounds. It begins every report.

use super::cells::writes;
use crate::result::{Cell, Durability, RunResult};
use crate::units;

/// States what was measured and how.
pub fn run_subject(result: &RunResult) -> String {
    let plan = &result.plan;
    let more_than_one = |number: Option<usize>, thing: &str| {
        number.filter(|number| *number > 1).map(|number| units::counted(number as u64, thing))
    };
    let parts = [
        Some(blobs(result)),
        Some(units::counted(result.machine.processors as u64, "CPU")),
        memory(result),
        more_than_one(Some(result.clients.len()), "client"),
        more_than_one(plan.workers, "worker"),
        more_than_one(plan.batch, "blob").map(|blobs| format!("{blobs} an op")),
        plan.rate.map(|rate| format!("{} ops/s offered", units::count(rate))),
        class(result),
    ];
    let rounds = units::counted(result.rounds_begun(), "round");
    let parts = parts.into_iter().flatten().chain(conditions(result)).chain([rounds]);
    parts.collect::<Vec<_>>().join(" | ")
}

/// States the blobs, and the file system below them.
pub fn blobs(result: &RunResult) -> String {
    let corpus = &result.corpus;
    let system = match result.machine.filesystem.as_str() {
        "" => String::new(),
        system => format!(" on {system}"),
    };
    if result.corpora.len() > 1 {
        return format!("stores of {} sizes{system}", result.corpora.len());
    }
    if let Some(grow) = &result.plan.grow {
        let median = units::bytes(corpus.quantiles.get("p50").copied().unwrap_or(0) as f64);
        return format!("stores growing over {} blobs (median {median}){system}", grow.replace(',', ", "));
    }
    let are_files = result.plan.corpus.as_ref().is_some_and(|corpus| corpus.is_directory());
    let blobs = units::counted(corpus.blobs, if are_files { "file" } else { "blob" });
    let all = corpus.sampled_from.map_or(String::new(), |(files, _)| format!(" of {files}"));
    let median = units::bytes(corpus.quantiles.get("p50").copied().unwrap_or(0) as f64);
    format!("{blobs}{all}, {} (median {median}){system}", units::bytes(corpus.bytes as f64))
}

/// Returns how much of the corpus fits into the candidates' memory.
fn memory(result: &RunResult) -> Option<String> {
    let (plan, blobs, machine) = (&result.plan, result.corpus.bytes, result.machine.memory_bytes);
    if let Some(sweep) = &plan.memory_sweep {
        return Some(format!("RAM for {}", sweep.replace(',', ", ")));
    }
    match plan.memory.as_deref().filter(|memory| *memory != "none") {
        Some(memory) => Some(format!("RAM for {memory}")),
        None if machine == 0 || blobs == 0 || result.corpora.len() > 1 => None,
        None if blobs <= machine / 2 => Some("fits in RAM".to_owned()),
        None => Some(format!("{:.1} times the RAM", blobs as f64 / machine as f64)),
    }
}

/// Returns the class of the writes if it is not the usual one, or if candidates have others.
fn class(result: &RunResult) -> Option<String> {
    let usual = Durability::OnSync.name();
    let is_of_run = |cell: &&Cell| writes(cell) && cell.own_durability.is_none();
    let written = result.results.iter().filter(is_of_run).map(|cell| cell.durability).max();
    let class = written.map(Durability::name).or(result.plan.durability.as_deref()).unwrap_or(usual);
    let has_own = result.results.iter().any(|cell| cell.own_durability.is_some());
    let own = if has_own { " or the candidate's own" } else { "" };
    (class != usual || has_own).then(|| format!("class {class}{own}"))
}

/// Returns conditions that are mentioned only if they are unusual.
pub(super) fn conditions(result: &RunResult) -> impl Iterator<Item = String> {
    let aged = result.plan.age.as_ref().map(|age| format!("aged to {}", age.replace(',', ", ")));
    let awake = (result.plan.awake == Some(true)).then(|| "processors asked not to sleep".to_owned());
    let apart = result.machine.pinned.as_ref().map(|sides| format!("{} (processors)", sides.text()));
    aged.into_iter().chain(awake).chain(apart)
}
