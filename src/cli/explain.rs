//! `blobwise explain`: every figure behind one candidate in one phase of a run.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Args;

use super::{CommandOutcome, print};
use crate::report::explain;
use crate::result::{Cell, RunResult};
use crate::suggest;
use crate::units;

#[derive(Debug, Args)]
pub struct ExplainFlags {
    /// Read this run: its directory, its result.json, or LAST
    #[arg(value_parser = super::run_path())]
    run: PathBuf,
    /// Name the candidate as the run does
    candidate: String,
    /// Name the phase, such as read-cold
    phase: String,
    /// Choose one of several corpora or sizes, such as 10kB
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
}

pub fn main(flags: &ExplainFlags) -> Result<CommandOutcome> {
    let result = RunResult::load(&flags.run)?;
    let cell = cell(&result, flags)?;
    print(&explain::explain(&result, cell))?;
    Ok(CommandOutcome::Well)
}

fn cell<'r>(result: &'r RunResult, flags: &ExplainFlags) -> Result<&'r Cell> {
    let of_candidate: Vec<&Cell> =
        result.results.iter().filter(|cell| cell.store == flags.candidate).collect();
    if of_candidate.is_empty() {
        return Err(unknown(result, "candidate", &flags.candidate, &|cell| &cell.store));
    }
    let of_phase: Vec<&Cell> =
        of_candidate.iter().copied().filter(|cell| cell.phase == flags.phase).collect();
    if of_phase.is_empty() && result.results.iter().any(|cell| cell.phase == flags.phase) {
        let had = listed(of_candidate.iter().map(|cell| cell.phase.as_str()));
        bail!("`{}` has no figure in `{}`; it has some in {had}", flags.candidate, flags.phase);
    }
    let size = |cell: &Cell| cell.corpus_id.bytes().map(|bytes| units::bytes(bytes as f64));
    let sizes = || {
        listed(of_phase.iter().filter_map(|cell| size(cell)).collect::<Vec<_>>().iter().map(String::as_str))
    };
    match (of_phase.as_slice(), &flags.size) {
        ([], _) => Err(unknown(result, "phase", &flags.phase, &|cell| &cell.phase)),
        ([cell], None) => Ok(cell),
        (_, None) => bail!("`{}` was done at several sizes: name one with --size: {}", flags.phase, sizes()),
        (all, Some(asked)) => {
            let bytes = units::parse_bytes(asked).ok();
            let named =
                |cell: &Cell| result.corpus_of(cell.corpus_id).is_some_and(|corpus| corpus.name == *asked);
            let is_it = |cell: &&&Cell| {
                let id = cell.corpus_id.bytes();
                named(cell)
                    || bytes.is_some_and(|bytes| {
                        id.is_some_and(|id| units::bytes(id as f64) == units::bytes(bytes as f64))
                    })
            };
            all.iter().find(is_it).copied().ok_or_else(|| match all {
                [_] if all[0].corpus_id.is_only() => {
                    anyhow!("`{}` was done at one size: leave out --size", flags.phase)
                }
                _ => anyhow!("`{}` was not done at `{asked}`, but at {}", flags.phase, sizes()),
            })
        }
    }
}

fn unknown(result: &RunResult, what: &str, name: &str, of: &dyn Fn(&Cell) -> &String) -> anyhow::Error {
    let known = || result.results.iter().map(|cell| of(cell).as_str());
    let meant = suggest::nearest(name, known())
        .map_or_else(|| "it".to_owned(), |other| format!("did you mean `{other}`? It"));
    anyhow!("no {what} of this run is called `{name}`; {meant} has {}", listed(known()))
}

fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut all: Vec<String> = Vec::new();
    for name in names.map(|name| format!("`{name}`")) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    units::listed(&all, "and")
}
