//! `blobwise report`: a run's report again.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::joined::joined;
use super::out::{Out, check_out};
use super::run::write_and_print;
use super::{Ended, collection, print};
use crate::report;
use crate::result::{RunResult, replace};

/// Flags of the command.
#[derive(Debug, Args)]
pub struct Flags {
    /// The run: its directory or result.json. Several runs of one plan, each with other corpora of it (`run --corpora`), are
    /// reported as one
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print it as Markdown, and write nothing
    #[arg(long)]
    markdown: bool,
    /// Where the report and result of several runs go
    #[arg(long, value_name = "DIR", conflicts_with = "markdown")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn main(flags: &Flags) -> Result<Ended> {
    let [run] = flags.runs.as_slice() else { return of_several(flags) };
    if flags.out.is_some() {
        bail!("`--out` is for the report of several runs; that of one lies beside its result");
    }
    if let Some((text, members)) = collection::measured(run)? {
        match flags.markdown {
            true => print(&report::markdown::collection(&members))?,
            false => {
                let _out = Out::earlier(run)?;
                collection::again(&text, &members, run)?;
            }
        }
        return Ok(Ended::Well);
    }
    let result = RunResult::load(run)?;
    if flags.markdown {
        print(&report::sections::markdown(&result))?;
        return Ok(Ended::Well);
    }
    let beside = run.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let out = Out::earlier(if run.is_dir() { run } else { beside })?;
    write_and_print(&result, &out.path)?;
    Ok(Ended::Well)
}

fn of_several(flags: &Flags) -> Result<Ended> {
    if flags.markdown {
        print(&report::sections::markdown(&joined(&flags.runs)?))?;
        return Ok(Ended::Well);
    }
    let out = flags.out.as_ref().context(
        "several runs are reported with --markdown, or in a directory of their own: name it with --out",
    )?;
    check_out(out)?;
    let result = joined(&flags.runs)?;
    let out = Out::make(Some(out))?;
    replace(&out.path.join("plan.toml"), result.plan.to_toml()?.as_bytes())?;
    write_and_print(&result, &out.path)?;
    Ok(Ended::Well)
}
