//! `blobwise crash`: power cuts, and what each store has lost of what it acknowledged.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::run::Signals;
use super::{Ended, print};
use crate::crash::report::{Control, Line, Report};
use crate::crash::{Lab, Trial, Verdict, try_cuts};
use crate::host::disk::own_mounts;
use crate::host::machine;
use crate::host::place::Place;
use crate::plan::text::{CRASH_CONTROL, CRASH_STORES, durability_class, split_list};
use crate::plan::{Candidate, Sets, candidates};
use crate::store::Durability;

/// Flags of `crash`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Stores, as in `blobwise run` [default: those that need no server and keep something on a disk]
    #[arg(long, value_name = "A,B,...")]
    stores: Option<String>,
    /// Classes of durability; those that a store has not are left out
    #[arg(long, value_name = "CLASSES", default_value = "none,on-sync,each-write")]
    durability: String,
    /// The file system on the disk: ext4, xfs or btrfs
    #[arg(long, value_name = "KIND", default_value = "ext4")]
    fs: String,
    /// Cuts for each store and class; less are made where some would be the same
    #[arg(long, default_value_t = 240, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    cuts: u32,
    /// The same seed has the same ops, cuts and images
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes everything as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the table as Markdown to this file, too
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Where it works
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// The command.
pub fn main(flags: &Flags) -> Result<Ended> {
    let signals = Signals::listen()?;
    let all = || CRASH_STORES.iter().map(|store| (*store).to_owned()).collect();
    let stores = flags.stores.as_deref().map_or_else(all, split_list);
    let (candidates, _) = candidates(&stores, &Sets::default(), true)?;
    let names = flags.durability.split(',').map(str::trim);
    let classes: Vec<Durability> = names.map(durability_class).collect::<Result<_>>()?;
    if let Some(why) = Lab::lacks(&flags.fs) {
        return Err(why);
    }
    if let Some(candidate) =
        candidates.iter().find(|candidate| !(candidate.adapter.caps)(&candidate.options).persistent)
    {
        bail!("`{}` keeps nothing on a disk that a power cut could take", candidate.label);
    }
    if let Some(candidate) = candidates.iter().find(|candidate| candidate.traits().is_external) {
        bail!("`{}` is a server given by URL: its disk is not ours to cut", candidate.label);
    }
    own_mounts()?;
    let place = Place::make(&flags.dir)?;
    let machine = machine::facts(place.path());
    let lab = Lab::new(place.path(), &flags.fs)?;
    let mut report = Report {
        blobwise: env!("CARGO_PKG_VERSION").to_owned(),
        started: machine::timestamp(),
        system: format!("{}, {}", machine.system, machine.kernel),
        file_system: flags.fs.clone(),
        cuts: flags.cuts,
        seed: flags.seed,
        controls: controls(&lab, flags)?,
        lines: Vec::new(),
    };
    print(&report.head())?;
    for candidate in &candidates {
        print(&format!("\n{}\n", candidate.label))?;
        for class in classes.iter().filter(|class| has(candidate, **class)) {
            if signals.received().is_some() {
                break;
            }
            let line = line(&lab, candidate, *class, flags, report.holds())?;
            print(&line.terminal())?;
            report.lines.push(line);
        }
    }
    if let Some(file) = &flags.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    if let Some(file) = &flags.markdown {
        let text = report.markdown();
        std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    let is_refuted = report.lines.iter().any(|line| line.verdict == Some(Verdict::Refuted));
    Ok(match (signals.received(), is_refuted || !report.holds()) {
        (Some(signal), _) => Ended::Stopped(signal),
        (None, true) => Ended::Failed,
        (None, false) => Ended::Well,
    })
}

fn has(candidate: &Candidate, class: Durability) -> bool {
    (candidate.adapter.caps)(&candidate.options).durability.contains(&class)
}

/// Cuts the power of a store in a class.
fn line(lab: &Lab, candidate: &Candidate, class: Durability, flags: &Flags, may_judge: bool) -> Result<Line> {
    let trial = Trial { candidate, class, judged_as: class, mount: "" };
    let finding = try_cuts(lab, &trial, flags.cuts as usize, flags.seed)
        .with_context(|| format!("`{}` in class {}", candidate.label, class.name()))?;
    let declared = trial.declared();
    let verdict = may_judge.then(|| Verdict::on(declared, &finding));
    Ok(Line { store: candidate.label.clone(), durability: class, declared, verdict, finding })
}

/// Tries the lab itself: files that nobody flushes must be lost, files that are flushed must not, and files that are flushed must
/// be lost where the file system does not pass flushes on.
fn controls(lab: &Lab, flags: &Flags) -> Result<Vec<Control>> {
    const CUTS: usize = 24;
    let (files, _) = candidates(&[CRASH_CONTROL.to_owned()], &Sets::default(), true)?;
    let candidate = files.first().context("no files")?;
    let each = Durability::EachWrite;
    let mut tried = vec![
        ("files that nobody flushes", Durability::None, "", true),
        ("files that are flushed", each, "", false),
    ];
    let no_barrier = match flags.fs.as_str() {
        "ext4" => Some("barrier=0"),
        "btrfs" => Some("nobarrier"),
        // XFS always passes them on, since Linux 4.19.
        _ => None,
    };
    if let Some(mount) = no_barrier {
        tried.push(("flushed files, on a file system that passes no flushes on", each, mount, true));
    }
    let control = |(what, class, mount, must_lose): (&str, Durability, &'static str, bool)| {
        let trial = Trial { candidate, class, judged_as: each, mount };
        let finding = try_cuts(lab, &trial, CUTS, flags.seed)?;
        Ok(Control { what: what.to_owned(), must_lose, lost: finding.damages(), cuts: finding.cuts })
    };
    tried.into_iter().map(control).collect()
}
