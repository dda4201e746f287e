//! `blobwise compare`: what changed between two runs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use super::{Ended, print};
use crate::judge::interval;
use crate::judge::runs::{Change, ChangeVerdict, compare, differences};
use crate::result::RunResult;
use crate::units;

/// Flags of the command.
#[derive(Debug, Args)]
pub struct Flags {
    /// The earlier run: its directory or result.json
    old: PathBuf,
    /// The later run
    new: PathBuf,
    /// Exit with 1 when a rate fell by more than this, with its whole interval, or when nothing could be compared
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    threshold: String,
}

/// Runs the command.
pub fn main(flags: &Flags) -> Result<Ended> {
    let threshold = units::parse_share(&flags.threshold).context("--threshold")?;
    let (old, new) = (RunResult::load(&flags.old)?, RunResult::load(&flags.new)?);
    let changes = compare(&old, &new, threshold);
    print(&render(&changes, &differences(&old, &new), threshold))?;
    // A guard that compared nothing has not let anything pass.
    let passed = changes.iter().any(is_known) && !changes.iter().any(|change| change.regressed);
    Ok(if passed { Ended::Well } else { Ended::Failed })
}

fn is_known(change: &Change) -> bool {
    matches!(change.verdict, ChangeVerdict::Known(_))
}

fn render(changes: &[Change], differences: &[String], threshold: f64) -> String {
    let mut text = format!("{:<28} {:<22} {:<22} {}\n", "store", "phase", "new / old", "verdict");
    for change in changes {
        let size = change
            .corpus_id
            .bytes()
            .map(|bytes| format!(" {}", units::bytes(bytes as f64)))
            .unwrap_or_default();
        let ratio = change.ratio.map(|ratio| interval::text(&ratio)).unwrap_or_else(|| "-".to_owned());
        let regressed = if change.regressed { " (regressed)" } else { "" };
        text += &format!(
            "{:<28} {:<22} {ratio:<22} {}{regressed}\n",
            change.store,
            format!("{}{size}", change.phase),
            change.verdict.text()
        );
    }
    let regressed = changes.iter().filter(|change| change.regressed).count();
    let known = changes.iter().filter(|change| is_known(change)).count();
    text += &format!(
        "\n{known} compared, {regressed} slower by more than {:.0} % with their whole interval; expect about {:.0} false differences.\n",
        threshold * 100.0,
        known as f64 * 0.05
    );
    if changes.iter().any(|change| change.verdict == ChangeVerdict::MachineChanged) {
        text += "The processor's probe differs between the runs: this machine is not what it was, and rates say nothing.\n";
    }
    if changes.iter().any(|change| change.verdict == ChangeVerdict::WayChanged) {
        text += "The way to another processor differs between the runs, by a twentieth or more of these ops: what another process \
                 answers says nothing there.\n";
    }
    if known == 0 {
        text += "Nothing could be compared, so that nothing is known to be as fast as it was: this ends with exit code 1.\n";
    }
    if !differences.is_empty() {
        text += "\nWhat else is not the same in the two runs:\n";
        text.extend(differences.iter().map(|difference| format!("  {difference}\n")));
    }
    text
}
