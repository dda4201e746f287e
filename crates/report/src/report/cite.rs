//! Citation of a run: program, plan, corpora and machine, precise enough to tell whether another run is the same.

use sha2::{Digest, Sha256};

use super::block::{Block, ReportFormat};
use super::section::{Section, new};
use super::view::words;
use crate::result::{CorpusResult, RunResult};
use crate::units;

pub(super) const SECTION: Section = new("cite", "Cite this run").named("Cite").more().blocks(blocks);

fn blocks(result: &RunResult, _: ReportFormat) -> Vec<Block> {
    vec![Block::List(sentences(result)), Block::Code("bibtex", entry(result))]
}

/// Sentences that identify the run.
fn sentences(result: &RunResult) -> Vec<String> {
    let (program, machine) = (&result.program, &result.machine);
    let hash = program.sha256.as_ref().map_or(String::new(), |hash| format!(", SHA-256 `{hash}`"));
    let mut all = vec![format!("Program: blobwise {} ({}){hash}.", program.version, program.build)];
    if program.build == "debug" {
        all.push("It is a debug build, whose figures are not to be cited.".to_owned());
    }
    all.extend(plan_hash(result).map(|hash| format!("Plan: `plan.toml`, SHA-256 `{hash}`.")));
    all.extend(result.all_corpora().iter().map(corpus));
    all.push(format!("Begun: {}, {}.", program.started, words::rounds(result)));
    let device = machine.device.as_ref().map_or(String::new(), |device| format!(" on {device}"));
    let libc = machine.libc.as_ref().map_or(String::new(), |libc| format!(", {libc}"));
    all.push(format!(
        "Machine: {}, {}, {} of memory, {}{device}, {}, Linux {}{libc}.",
        machine.processor,
        units::counted(machine.processors, "processor"),
        units::bytes(machine.memory_bytes as f64),
        machine.filesystem,
        machine.system,
        machine.kernel
    ));
    if !result.complete {
        all.push("The run is not complete.".to_owned());
    }
    all
}

/// Identifies a corpus: synthetic blobs by the plan's seed, the user's files by their digest.
fn corpus(corpus: &CorpusResult) -> String {
    let (blobs, bytes) = (units::counted(corpus.blobs, "blob"), units::bytes(corpus.bytes as f64));
    let told = match &corpus.digest {
        Some(digest) => format!("xxh3 `{digest}` of paths, sizes and bytes"),
        None => "made by the plan's seed".to_owned(),
    };
    format!("Blobs: `{}`, {blobs}, {bytes}, {told}.", corpus.name)
}

/// SHA-256 of the plan as stored beside the result.
fn plan_hash(result: &RunResult) -> Option<String> {
    let text = result.plan.to_toml().ok()?;
    Some(units::hex(&Sha256::digest(text)))
}

/// BibTeX entry.
fn entry(result: &RunResult) -> String {
    let program = &result.program;
    let digits: String = program.started.chars().filter(char::is_ascii_digit).take(14).collect();
    let year: String = program.started.chars().take(4).collect();
    let plan = result.plan.name.as_ref().map_or(String::new(), |name| format!(", plan {name}"));
    // Removes characters that end a BibTeX value or begin a command.
    let plain = |text: &str| text.replace(['{', '}', '\\', '\n'], " ");
    let hash = plan_hash(result).unwrap_or_default();
    format!(
        "@misc{{blobwise-{digits},\n  title = {{A run of blobwise {}{}}},\n  year = {{{year}}},\n  note = {{Begun {}, on {},\n    \
         with the plan of SHA-256\n    {hash}}}\n}}",
        plain(&program.version),
        plain(&plan),
        plain(&program.started),
        plain(&result.machine.processor)
    )
}
