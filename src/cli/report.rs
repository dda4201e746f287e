//! `blobwise report`: a run's report again.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::{Ended, collection, print};
use crate::report;
use crate::result::RunResult;

/// Flags of the command.
#[derive(Debug, Args)]
pub struct Flags {
    /// The run: its directory or result.json
    run: PathBuf,
    /// Print it as Markdown, and write nothing
    #[arg(long)]
    markdown: bool,
}

/// Runs the command.
pub fn main(flags: &Flags) -> Result<Ended> {
    if let Some((text, members)) = collection::measured(&flags.run)? {
        match flags.markdown {
            true => print(&report::markdown::collection(&members))?,
            false => collection::again(&text, &members, &flags.run)?,
        }
        return Ok(Ended::Well);
    }
    let result = RunResult::load(&flags.run)?;
    if flags.markdown {
        print(&report::markdown::render(&result))?;
        return Ok(Ended::Well);
    }
    let out = if flags.run.is_dir() { flags.run.as_path() } else { flags.run.parent().unwrap_or(&flags.run) };
    super::run::write_reports(&result, out)?;
    print(&report::terminal::render(&result))?;
    print(&super::run::paths(out))?;
    Ok(Ended::Well)
}
