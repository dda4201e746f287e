//! `blobwise doctor`: the check-list before a new server is bought.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::{Ended, eprint, print};
use crate::doctor::finding::LeastAges;
use crate::doctor::report::Report;
use crate::doctor::{Asked, examine};
use crate::host::machine;
use crate::units;

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub struct Flags {
    /// A directory whose file system and device are looked at, too [default: those in which databases of this machine work,
    /// else /]
    #[arg(long, value_name = "DIR")]
    data_dir: Vec<PathBuf>,
    /// How long there is between the two looks, such as 60s: figures are of this time
    #[arg(long = "for", value_name = "TIME", default_value = "5s")]
    time: String,
    /// Show reason, source and command also of what is ok
    #[arg(long)]
    all: bool,
    /// Writes everything as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The command.
pub fn main(flags: &Flags) -> Result<Ended> {
    let between = units::parse_duration(&flags.time).context("--for")?;
    ensure!(
        between >= Duration::from_secs(1),
        "--for `{}` is too short: it is at least 1s, because figures are what changed in that time",
        flags.time
    );
    for dir in &flags.data_dir {
        ensure!(dir.is_dir(), "--data-dir `{}` is no directory that can be seen from here", dir.display());
    }
    let asked = Asked { dirs: flags.data_dir.clone(), between };
    eprint(&format!("looking twice, {} apart", units::seconds(between.as_secs_f64())));
    let facts = examine(&asked);
    let report = Report::of(&facts, &machine::timestamp(), &LeastAges::default());
    print(&report.terminal(flags.all))?;
    if let Some(file) = &flags.json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    Ok(if report.has_failed() { Ended::Failed } else { Ended::Well })
}
