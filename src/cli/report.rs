//! `blobwise report`: writes a run's report again.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::joined::{are_parts, joined};
use super::judging::JudgingFlags;
use super::out::{OutputDirectory, check_out};
use super::run::{print_report, write_and_print};
use super::{CommandOutcome, collection, prices, print, side};
use crate::report;
use crate::result::{RunResult, replace};

#[derive(Debug, Args)]
pub struct ReportFlags {
    /// Read this run: its directory, its result.json, LAST or LAST~1
    ///
    /// Several runs become one page with all of them side by side (--out). Runs of one plan with different corpora of
    /// it (`run --corpora`) are reported as one run
    #[arg(required_unless_present = "prices_template", value_name = "RUN", value_parser = super::run_path())]
    runs: Vec<PathBuf>,
    /// Print all tables, the answer in words and all warnings
    #[arg(long, conflicts_with = "markdown")]
    tables: bool,
    /// Print Markdown, and write nothing
    #[arg(long)]
    markdown: bool,
    /// Print the result as JSON, and write nothing
    ///
    /// It has the paired ratios in `comparisons` (docs/result.schema.json)
    #[arg(long, conflicts_with_all = ["markdown", "tables"])]
    json: bool,
    /// Print the paired ratios as CSV, and write nothing
    ///
    /// Ratio and interval of each pair of stores in each phase
    #[arg(long, conflicts_with_all = ["json", "markdown", "tables"])]
    csv: bool,
    /// Write the page of several runs to this directory
    ///
    /// Or the report and result of a run that is judged again, or of runs that are reported as one
    #[arg(long, value_name = "DIR", conflicts_with_all = ["markdown", "json", "csv"])]
    out: Option<PathBuf>,
    #[command(flatten)]
    judging: JudgingFlags,
    /// Print a file of prices to fill in, and nothing else
    #[arg(long, exclusive = true)]
    prices_template: bool,
}

impl ReportFlags {
    /// Formats a result in the form to print, machine-readable or Markdown; `None` if no flag asks for one.
    fn printed(&self, result: &RunResult) -> Result<Option<String>> {
        Ok(match (self.markdown, self.json, self.csv) {
            (true, ..) => Some(report::sections::markdown(result)),
            (_, true, _) => Some(format!("{}\n", serde_json::to_string_pretty(result)?)),
            (.., true) => Some(report::csv::ratios(result)?),
            _ => None,
        })
    }
}

pub fn main(flags: &ReportFlags) -> Result<CommandOutcome> {
    if flags.prices_template {
        print(prices::TEMPLATE)?;
        return Ok(CommandOutcome::Well);
    }
    if flags.judging.is_asked() {
        return judged_anew(flags);
    }
    let [run] = flags.runs.as_slice() else { return of_several(flags) };
    if flags.out.is_some() {
        bail!("--out: is for several runs; the report of one is beside its result");
    }
    if let Some((text, members)) = collection::measured(run)? {
        if flags.json || flags.csv {
            bail!("`{}` is a run of several plans: name one of the directories in it", run.display());
        }
        match flags.markdown {
            true => print(&report::markdown::collection(&members))?,
            false => {
                let _out = OutputDirectory::open(run)?;
                collection::again(&text, &members, run)?;
            }
        }
        return Ok(CommandOutcome::Well);
    }
    let result = RunResult::load(run)?;
    if let Some(text) = flags.printed(&result)? {
        print(&text)?;
        return Ok(CommandOutcome::Well);
    }
    let beside = run.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let out = OutputDirectory::open(if run.is_dir() { run } else { beside })?;
    write_and_print(&result, &out.path, flags.tables)?;
    Ok(CommandOutcome::Well)
}

/// Prints a finished run, judged with the given parameters. Its own files are not changed.
fn judged_anew(flags: &ReportFlags) -> Result<CommandOutcome> {
    let [run] = flags.runs.as_slice() else {
        bail!("a recommendation is about one run: leave out the others");
    };
    if collection::measured(run)?.is_some() {
        bail!("`{}` is a run of several plans: name one of the directories in it", run.display());
    }
    flags.out.as_deref().map_or(Ok(()), check_out)?;
    let result = flags.judging.judged(run)?;
    match (&flags.out, flags.printed(&result)?) {
        (Some(out), _) => write_to(&result, out, flags.tables)?,
        (None, Some(text)) => print(&text)?,
        (None, None) => {
            let beside =
                run.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let place = if run.is_dir() { run } else { beside };
            print_report(&result, place, flags.tables)?;
        }
    }
    Ok(CommandOutcome::Well)
}

fn of_several(flags: &ReportFlags) -> Result<CommandOutcome> {
    let results = flags.runs.iter().map(|run| side::read(run)).collect::<Result<Vec<RunResult>>>()?;
    if flags.markdown || flags.json || flags.csv {
        print(&flags.printed(&joined(&flags.runs, results)?)?.unwrap_or_default())?;
        return Ok(CommandOutcome::Well);
    }
    let out = flags.out.as_ref().context(
        "several runs are reported in a directory of their own: name it with --out (parts of one plan with --markdown, --json and --csv, too)",
    )?;
    if !are_parts(&results) {
        if flags.tables {
            bail!("--tables: is for one run; leave it out, or name one run");
        }
        side::main(&flags.runs, results, out)?;
        return Ok(CommandOutcome::Well);
    }
    check_out(out)?;
    let result = joined(&flags.runs, results)?;
    write_to(&result, out, flags.tables)?;
    Ok(CommandOutcome::Well)
}

fn write_to(result: &RunResult, out: &Path, tables: bool) -> Result<()> {
    let out = OutputDirectory::make(Some(out))?;
    replace(&out.path.join("plan.toml"), result.plan.to_toml()?.as_bytes())?;
    write_and_print(result, &out.path, tables)
}
