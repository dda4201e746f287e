//! `blobwise report RUN RUN ... --out DIR`: several runs side by side on one page, with each run's own report beside it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::out::OutputDirectory;
use super::{collection, print};
use crate::redact::pasted;
use crate::report;
use crate::report::html::runs::{PageRun, groups, render};
use crate::result::{RunResult, replace};

const PAGE: &str = "index.html";
/// File that lists the runs of the page; a directory with this file was written by this command.
const LIST: &str = "runs.json";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunList {
    /// Version of blobwise that wrote it.
    blobwise: String,
    runs: Vec<ListedRun>,
}

/// A run in the list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedRun {
    name: String,
    started: String,
    report: String,
}

fn list(sides: &[PageRun]) -> RunList {
    let run = |side: &PageRun| ListedRun {
        name: side.name.clone(),
        started: side.result.program.started.clone(),
        report: side.file.clone(),
    };
    RunList { blobwise: env!("CARGO_PKG_VERSION").to_owned(), runs: sides.iter().map(run).collect() }
}

/// Writes the page and the reports into a directory that is empty or holds an earlier page of this kind.
pub fn main(runs: &[PathBuf], results: Vec<RunResult>, out: &Path) -> Result<()> {
    check(out)?;
    let sides = sides(runs, results)?;
    let out = OutputDirectory::open_or_make(out, check)?;
    let before = files_of(&out.path)?;
    let listed = list(&sides);
    replace(&out.path.join(LIST), format!("{}\n", serde_json::to_string_pretty(&listed)?).as_bytes())?;
    for side in &sides {
        replace(&out.path.join(&side.file), report::sections::html(&side.result)?.as_bytes())?;
    }
    replace(&out.path.join(PAGE), render(&sides).as_bytes())?;
    let is_written =
        |name: &String| name == PAGE || name == LIST || sides.iter().any(|side| side.file == *name);
    for old in before.iter().filter(|old| !is_written(old)) {
        std::fs::remove_file(out.path.join(old)).with_context(|| format!("cannot remove `{old}`"))?;
    }
    print(&summary(&sides, &out.path))
}

fn summary(sides: &[PageRun], out: &Path) -> String {
    let mut text = String::new();
    let groups = groups(sides);
    for group in &groups {
        let members: Vec<String> =
            group.members.iter().map(|run| format!("{} ({})", run + 1, sides[*run].name)).collect();
        let why = group.why.as_ref().map_or(String::new(), |why| format!("; apart from the first: {why}"));
        let what = if members.len() == 1 { "run" } else { "runs" };
        text += &report::terminal::paragraph(2, &format!("One table: {what} {}{why}", members.join(", ")));
    }
    text + &format!("\nPage:   {}\n", out.join(PAGE).display())
}

/// Loads one of several runs.
pub fn read(run: &Path) -> Result<RunResult> {
    if run.is_dir() && collection::measured(run)?.is_some() {
        bail!("`{}` is a run of several plans: name the directories in it", run.display());
    }
    RunResult::load(run)
}

fn sides(runs: &[PathBuf], results: Vec<RunResult>) -> Result<Vec<PageRun>> {
    let mut sides: Vec<PageRun> = Vec::new();
    for (index, (run, result)) in runs.iter().zip(results).enumerate() {
        if let Some(other) = sides.iter().position(|side| is_same(&side.result, &result)) {
            bail!("`{}` and `{}` are the same run: name each run once", runs[other].display(), run.display());
        }
        sides.push(PageRun { name: name_of(run), file: format!("run-{}.html", index + 1), result });
    }
    Ok(sides)
}

/// True if two results come from the same measurement, however they were judged and wherever they are stored.
fn is_same(one: &RunResult, other: &RunResult) -> bool {
    let began = |run: &RunResult| run.program.started.clone();
    let seconds = |run: &RunResult| -> Vec<u64> {
        run.results.iter().flat_map(|cell| cell.rounds.iter().map(|round| round.seconds.to_bits())).collect()
    };
    began(one) == began(other) && seconds(one) == seconds(other)
}

/// Name of a run's directory, without its path, because pages are shared.
fn name_of(run: &Path) -> String {
    let whole = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    let dir = if whole.is_dir() { Some(whole.as_path()) } else { whole.parent() };
    let name = dir.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "run".to_owned())
}

/// Rejects a directory with anything that is not part of such a page.
fn check(out: &Path) -> Result<()> {
    if !out.exists() {
        return Ok(());
    }
    let shown = out.display();
    let files = files_of(out)?;
    if out.join("result.json").exists() {
        bail!(
            "`{shown}` is a run: name another directory with --out (`blobwise report {}` writes its own reports)",
            pasted(out)
        );
    }
    let is_list = || {
        let text = std::fs::read_to_string(out.join(LIST)).ok()?;
        serde_json::from_str::<RunList>(&text).ok()
    };
    let no_page = "is not empty and no page of several runs";
    if !files.is_empty() && is_list().is_none() {
        bail!("`{shown}` {no_page}: name another directory with --out");
    }
    let is_ours = |name: &String| {
        let number = name.strip_prefix("run-").and_then(|rest| rest.strip_suffix(".html"));
        let is_report = number.is_some_and(|number| number.parse::<u32>().is_ok());
        let is_file = out.join(name).symlink_metadata().is_ok_and(|kind| kind.is_file());
        is_file && (name == PAGE || name == LIST || is_report)
    };
    if let Some(other) = files.iter().find(|name| !is_ours(name)) {
        bail!(
            "`{shown}` has something else than a page of several runs, `{other}`: name another directory with --out"
        );
    }
    Ok(())
}

fn files_of(dir: &Path) -> Result<Vec<String>> {
    let entries =
        std::fs::read_dir(dir).with_context(|| format!("cannot use `{}` for --out", dir.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect::<std::io::Result<_>>().with_context(|| format!("cannot read `{}`", dir.display()))
}
