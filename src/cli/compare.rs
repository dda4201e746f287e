//! `blobwise compare`: what changed between two runs, and how small a change could have been detected.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::in_turn::{self, AlternatingComparison};
use super::{CommandOutcome, print};
use crate::judge::runs::{report, unrelated};
use crate::plan::{some_names, split_list};
use crate::report::compared;
use crate::result::compared::CompareOptions;
use crate::result::{Cell, RunResult};
use crate::suggest;
use crate::units;

#[derive(Debug, Args)]
pub struct CompareFlags {
    /// Read the earlier run: its directory, its result.json, or LAST~1
    #[arg(value_name = "OLD", required_unless_present = "plan", value_parser = super::run_path())]
    old_run: Option<PathBuf>,
    /// Read the later run, such as LAST
    #[arg(value_name = "NEW", required_unless_present = "plan", value_parser = super::run_path())]
    new_run: Option<PathBuf>,
    /// Have two programs measure this plan in turn
    ///
    /// Round by round, so that what the machine does meanwhile affects both
    #[arg(long, value_name = "PLAN", requires_all = ["old", "new"], conflicts_with_all = ["old_run", "new_run"])]
    plan: Option<String>,
    /// Run this earlier program, such as ./blobwise-1.0
    #[arg(long, value_name = "PROGRAM", requires = "plan")]
    old: Option<PathBuf>,
    /// Run this later program
    #[arg(long, value_name = "PROGRAM", requires = "plan")]
    new: Option<PathBuf>,
    /// Measure this many rounds of each program
    #[arg(long, value_name = "N", requires = "plan", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Write both runs here [default: blobwise-runs/<time>]
    ///
    /// As `old` and `new` in this directory
    #[arg(long, value_name = "DIR", requires = "plan")]
    out: Option<PathBuf>,
    /// Exit with 1 if a rate fell by more [default: half --fall, or 5%]
    ///
    /// With its whole interval; with 3 if nothing could be compared
    #[arg(long, value_name = "SHARE")]
    threshold: Option<String>,
    /// Name rows that could miss this fall [default: --threshold + 5 points]
    ///
    /// The fall that matters to you
    #[arg(long, value_name = "SHARE")]
    fall: Option<String>,
    /// Exit with 4 if a row could miss --fall
    ///
    /// Or if a rate of the old run was not compared
    #[arg(long)]
    strict: bool,
    /// Find a fall in this share of such runs
    ///
    /// From 50% to 90%
    #[arg(long, value_name = "SHARE", default_value = "80%")]
    min_power: String,
    /// Compare only these candidates, separated by commas
    #[arg(long, value_name = "A,B", value_parser = some_names)]
    stores: Option<String>,
    /// Compare only these phases, separated by commas
    #[arg(long, value_name = "A,B", value_parser = some_names)]
    phases: Option<String>,
    /// Print JSON (docs/compare.schema.json)
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
}

pub fn main(flags: &CompareFlags) -> Result<CommandOutcome> {
    let asked = asked(flags)?;
    let [before, now] = match runs(flags)? {
        Ok(runs) => runs,
        Err(signal) => return Ok(CommandOutcome::Stopped(signal)),
    };
    let (mut old, mut new) = (RunResult::load(&before)?, RunResult::load(&now)?);
    keep(&mut old, &mut new, "candidate", flags.stores.as_deref(), |cell| &cell.store)?;
    keep(&mut old, &mut new, "phase", flags.phases.as_deref(), |cell| &cell.phase)?;
    let [before, now] = [before, now].map(|run| run.display().to_string());
    if let Some(why) = unrelated(&old, &new) {
        bail!("`{before}` and `{now}` cannot be compared: {why}");
    }
    let report = report([(&before, &old), (&now, &new)], asked);
    print(&match (flags.json, flags.markdown) {
        (true, _) => format!("{}\n", serde_json::to_string_pretty(&report)?),
        (_, true) => compared::markdown(&report),
        _ => compared::terminal(&report),
    })?;
    Ok(CommandOutcome::Compared(report.outcome))
}

/// Returns the two runs, as given or newly measured, or the signal that stopped the measurement.
fn runs(flags: &CompareFlags) -> Result<std::result::Result<[PathBuf; 2], i32>> {
    match (&flags.plan, [&flags.old, &flags.new], [&flags.old_run, &flags.new_run]) {
        (Some(plan), [Some(old), Some(new)], _) => {
            let (programs, out) = ([old.as_path(), new], flags.out.as_deref());
            in_turn::measured(&AlternatingComparison { plan, programs, rounds: flags.rounds, out })
        }
        (None, _, [Some(old), Some(new)]) => Ok(Ok([old.clone(), new.clone()])),
        _ => bail!("two runs, or --plan with --old and --new"),
    }
}

fn asked(flags: &CompareFlags) -> Result<CompareOptions> {
    let share = |name: &'static str, text: &Option<String>| -> Result<Option<f64>> {
        text.as_deref().map(|text| units::parse_share(text).context(name)).transpose()
    };
    let (threshold, fall) = (share("--threshold", &flags.threshold)?, share("--fall", &flags.fall)?);
    let (threshold, fall) = match (threshold, fall) {
        (None, None) => (0.05, 0.1),
        (Some(threshold), None) => (threshold, (threshold + 0.05).min(0.999)),
        (None, Some(fall)) => (fall / 2.0, fall),
        (Some(threshold), Some(fall)) => (threshold, fall),
    };
    if fall <= threshold && threshold > 0.0 {
        bail!(
            "--fall: `{}` is not above --threshold `{}`, so no run could find it; give a lower --threshold or a larger --fall",
            units::share(fall),
            units::share(threshold)
        );
    }
    if !(0.0..1.0).contains(&threshold) || !(0.0..1.0).contains(&fall) || fall == 0.0 {
        bail!("--threshold and --fall: a share of a rate is above 0 and below 100%, such as 5%");
    }
    let power = units::parse_share(&flags.min_power).context("--min-power")?;
    if !(0.5..=0.9).contains(&power) {
        bail!("--min-power: `{}` is not between 50% and 90%", flags.min_power);
    }
    Ok(CompareOptions { threshold, fall, power, strict: flags.strict, in_turn: flags.plan.is_some() })
}

fn keep(
    old: &mut RunResult,
    new: &mut RunResult,
    what: &str,
    asked: Option<&str>,
    of: fn(&Cell) -> &String,
) -> Result<()> {
    let Some(asked) = asked.map(split_list) else { return Ok(()) };
    for name in &asked {
        let mut known: Vec<&str> =
            old.results.iter().chain(&new.results).map(|cell| of(cell).as_str()).collect();
        known.dedup();
        if !known.contains(&name.as_str()) {
            known.sort_unstable();
            known.dedup();
            return Err(suggest::unknown(what, name, known).context("in neither run"));
        }
    }
    for run in [old, new] {
        run.results.retain(|cell| asked.contains(of(cell)));
    }
    Ok(())
}
