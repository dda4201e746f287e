//! `blobwise doctor`: the checklist before buying a new server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::out::{check_files, check_writable, print_beside, write_file};
use super::{CommandOutcome, eprint};
use crate::doctor::finding::LeastAges;
use crate::doctor::saved::{SavedFacts, check_free};
use crate::doctor::{ExaminationOptions, Target, examine};
use crate::host::machine;
use crate::report::html::doctor::render as page;
use crate::units;

#[derive(Debug, Args)]
pub struct DoctorFlags {
    /// Check this server, such as postgres://USER:PASSWORD@HOST/DATABASE
    ///
    /// May be given several times. By default, the servers in the variable BLOBWISE_DOCTOR_URLS, separated by spaces
    #[arg(long, value_name = "URL")]
    url: Vec<String>,
    /// The same without the flag, as it is typed first
    #[arg(value_name = "URL", hide = true)]
    typed: Vec<String>,
    /// Check the file system and device of this directory
    ///
    /// May be given several times. By default, those in which databases of this machine work, else /
    #[arg(long, value_name = "DIR", value_parser = crate::plan::text::text_path())]
    data_dir: Vec<PathBuf>,
    /// Wait this long between the two looks, such as 60s
    ///
    /// Figures are of this time
    #[arg(long = "for", value_name = "TIME", default_value = "5s")]
    time: String,
    /// Distrust counters younger than this [default: 24h, indexes 336h]
    ///
    /// Until a server has counted for so long, its caches are not called too small, nor its indexes unused
    #[arg(long, value_name = "TIME")]
    least_age: Option<String>,
    /// Keep the facts in this directory, to compare later
    ///
    /// They hold no passwords and no values
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Judge the facts saved in this directory, and look nowhere
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "typed", "data_dir", "time", "save"])]
    from: Option<PathBuf>,
    /// Show which answers changed since those saved in this directory
    ///
    /// Both are judged by the same --least-age
    #[arg(long, value_name = "OLD")]
    against: Option<PathBuf>,
    /// Show reason, source and command also of what is ok
    #[arg(long)]
    all: bool,
    /// Also write everything as JSON to this file
    ///
    /// `-` writes it to standard output instead
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write everything as a page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// URLs of servers. An environment variable keeps passwords out of the command line, which every user of the machine can read.
fn urls(flags: &DoctorFlags) -> Vec<String> {
    let named: Vec<String> = flags.typed.iter().chain(&flags.url).cloned().collect();
    if !named.is_empty() {
        return named;
    }
    let variable = std::env::var("BLOBWISE_DOCTOR_URLS").unwrap_or_default();
    variable.split_whitespace().map(str::to_owned).collect()
}

pub fn main(flags: &DoctorFlags) -> Result<CommandOutcome> {
    let ages = match &flags.least_age {
        Some(age) => {
            let age = units::parse_duration(age).context("--least-age")?.as_secs_f64();
            LeastAges { cache: age, unused: age }
        }
        None => LeastAges::default(),
    };
    let files = [&flags.json, &flags.html];
    check_files(&files)?;
    let old = flags.against.as_deref().map(SavedFacts::load).transpose().context("--against")?;
    let saved = match &flags.from {
        Some(dir) => SavedFacts::load(dir).context("--from")?,
        None => look(flags)?,
    };
    let report = saved.report(&ages);
    let report = match old {
        Some(old) => report.against(&old.report(&ages), &ages),
        None => report,
    };
    print_beside(&files, &report.terminal(flags.all))?;
    if let Some(file) = &flags.json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        write_file(file, &text)?;
    }
    if let Some(file) = &flags.html {
        write_file(file, &page(&report))?;
    }
    Ok(if report.has_failed() { CommandOutcome::Failed } else { CommandOutcome::Well })
}

fn look(flags: &DoctorFlags) -> Result<SavedFacts> {
    let between = units::parse_duration(&flags.time).context("--for")?;
    ensure!(
        between >= Duration::from_secs(1),
        "--for: `{}` is too short: it is at least 1s, because figures are what changed in that time",
        flags.time
    );
    for dir in &flags.data_dir {
        ensure!(dir.is_dir(), "--data-dir: `{}` is no directory that can be seen from here", dir.display());
    }
    if let Some(dir) = &flags.save {
        check_free(dir)?;
        check_writable("--save", dir)?;
    }
    let targets: Result<Vec<Target>> =
        urls(flags).iter().map(|url| Target::parse(url).context("--url")).collect();
    let asked = ExaminationOptions { dirs: flags.data_dir.clone(), targets: targets?, between };
    eprint(&format!("looking twice, {} apart", units::seconds(between.as_secs_f64())));
    let saved = SavedFacts::new(examine(&asked), machine::timestamp());
    if let Some(dir) = &flags.save {
        saved.save(dir)?;
    }
    Ok(saved)
}
