//! `blobwise crash`: cuts the power, and checks which acknowledged writes each store has lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::out::{check_files, print_beside, write_file};
use super::progress::ProgressBar;
use super::run::{values_of, with_members};
use super::signals::Signals;
use super::{CommandOutcome, eprint};
use crate::crash::{self, Control, CrashReport, CrashResult, FaultTests, Lab, PATIENCE, Trial};
use crate::host::disk::own_mounts;
use crate::host::machine;
use crate::host::place::Place;
use crate::input;
use crate::plan::text::{CRASH_STORES, CRASH_UPLOADS, durability_class, some_names, split_list};
use crate::plan::{Candidate, Sets, candidates};
use crate::report::crash_page::{markdown, notes};
use crate::report::crash_subject::head_of;
use crate::report::html::cuts::render as page;
use crate::report::{crash as shown, fault_injection};
use crate::result::crash::CRASH_SCHEMA;
use crate::store::Durability;
use crate::units;

#[derive(Debug, Args)]
pub struct CrashFlags {
    /// Test these stores and families, as in `blobwise run`
    ///
    /// By default, those that need no server and keep data on a disk
    #[arg(long, value_name = "A,B,...", value_parser = some_names)]
    stores: Option<String>,
    /// Set an option of a store, such as sqlite.page_size=4096
    ///
    /// A list of values makes one candidate each
    #[arg(long, value_name = "STORE.OPTION=VALUE[,VALUE]")]
    set: Vec<String>,
    /// Upload through a catalogue instead of putting single blobs
    ///
    /// No catalogued blob may be missing. The default stores are then files/hashed, sqlite[catalogue=own] and
    /// sqlite[catalogue=own-transaction]
    #[arg(long)]
    uploads: bool,
    /// Test these durability classes, where a store has them
    #[arg(long, value_name = "CLASSES", default_value = "none,on-sync,each-write", value_parser = some_names)]
    durability: String,
    /// Put these file systems on the disk: ext4, xfs, btrfs
    #[arg(long, value_name = "KINDS", default_value = "ext4", value_parser = some_names)]
    fs: String,
    /// Cut this often for each store, class and file system
    ///
    /// Cuts that would be the same are made once
    #[arg(long, default_value_t = 240, value_parser = clap::value_parser!(u32).range(..=100_000))]
    cuts: u32,
    /// Kill the store's process or server this often
    ///
    /// For each store, class and file system; 0 for none
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(..=100_000))]
    kills: u32,
    /// Answer writes, flushes and reads with errors, at N places
    ///
    /// Each of EIO and ENOSPC, once and for ever. Without N, 2 places
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "2",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    errors: Option<u32>,
    /// Also cut power N times on a disk that ignores flushes
    ///
    /// Without N, 24 times
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "24",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    lying_disk: Option<u32>,
    /// Flip a byte of N blobs on the disk before reading
    ///
    /// One after the other. Without N, 12 blobs
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "12",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    flips: Option<u32>,
    /// Draw ops, cuts and images from this seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this many workers, each with blobs of its own
    ///
    /// With more than one, the disk's log differs each time; cuts and images are those of the log
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=24))]
    workers: u8,
    /// End a load or a check after this many seconds
    ///
    /// Its disk is taken away, and the next one begins
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
    /// Also write everything as JSON to this file
    ///
    /// `-` writes it to standard output instead
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write a page of Markdown to this file
    ///
    /// What stands in it between <!-- notes --> and <!-- /notes --> stays
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Also write a page to this file
    ///
    /// It shows when the disk was flushed, and what every cut left
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Make --markdown and --html again from earlier --json files
    ///
    /// Cuts nothing. Several files become one page
    #[arg(long, value_name = "FILE,...", value_parser = some_names, conflicts_with_all = ["stores", "set", "uploads", "json", "dir"])]
    again: Option<String>,
    /// Work in this directory
    #[arg(long, value_name = "DIR", value_parser = crate::plan::text::text_path(), default_value = ".")]
    dir: PathBuf,
}

impl CrashFlags {
    fn others(&self) -> FaultTests {
        let number = |asked: Option<u32>| asked.unwrap_or(0) as usize;
        FaultTests {
            kills: self.kills as usize,
            errors: number(self.errors),
            cuts_without_flushes: number(self.lying_disk),
            flips: number(self.flips),
        }
    }
}

struct CrashRequest {
    candidates: Vec<Candidate>,
    classes: Vec<Durability>,
    kinds: Vec<String>,
}

impl CrashRequest {
    /// Validates the flags, and checks that everything they ask for can be done here.
    fn from_flags(flags: &CrashFlags) -> Result<CrashRequest> {
        let all = if flags.uploads { CRASH_UPLOADS } else { CRASH_STORES };
        let all = || all.iter().map(|store| (*store).to_owned()).collect();
        let named = flags.stores.as_deref().map_or_else(all, split_list);
        let sets = flags.set.iter().map(|set| values_of(set)).collect::<Result<Sets>>()?;
        let (candidates, _) = candidates(&with_members(named.clone())?, &sets, true)?;
        let candidates = without_members(candidates, &named, flags.uploads)?;
        if let Some(candidate) = candidates.iter().find(|candidate| candidate.file_system().is_some()) {
            bail!(
                "`{}`: disks that are cut have the file systems of `--fs`; leave `on` out",
                candidate.label
            );
        }
        let classes = units::distinct(split_list(&flags.durability));
        let classes = classes
            .iter()
            .map(|class| durability_class(class))
            .collect::<Result<Vec<_>>>()
            .context("--durability")?;
        let kinds = units::distinct(split_list(&flags.fs));
        if let Some(why) = kinds.iter().find_map(|kind| Lab::why_unavailable(kind)) {
            return Err(why);
        }
        if flags.cuts == 0 && flags.others() == FaultTests::default() {
            bail!("--cuts and --kills: `0` leaves nothing to do; add --errors, --lying-disk or --flips");
        }
        let is_for_many = |candidate: &Candidate| (candidate.adapter.caps)(&candidate.options).many;
        if let Some(candidate) =
            candidates.iter().find(|candidate| flags.workers > 1 && !is_for_many(candidate))
        {
            bail!("`{}` takes one worker at a time: leave `--workers` out", candidate.label);
        }
        Ok(CrashRequest { candidates, classes, kinds })
    }

    fn lines(&self) -> usize {
        let of = |candidate: &Candidate| self.classes.iter().filter(|class| has(candidate, **class)).count();
        self.kinds.len() * self.candidates.iter().map(of).sum::<usize>()
    }
}

impl CrashFlags {
    fn files(&self) -> [&Option<PathBuf>; 3] {
        [&self.json, &self.markdown, &self.html]
    }
}

/// Drops family members whose power cannot be cut, with a message. A store that was named explicitly, or a family without
/// remaining members, is an error.
fn without_members(candidates: Vec<Candidate>, named: &[String], uploads: bool) -> Result<Vec<Candidate>> {
    let why_not = |candidate: &Candidate| {
        crash::why_not(candidate).or_else(|| crash::why_no_uploads(candidate).filter(|_| uploads))
    };
    let is_named = |candidate: &Candidate| {
        named.iter().any(|name| name.split('[').next() == Some(candidate.adapter.name))
    };
    let (mut kept, mut first) = (Vec::new(), None);
    for candidate in candidates {
        match why_not(&candidate) {
            None => kept.push(candidate),
            Some(why) if is_named(&candidate) => return Err(why),
            Some(why) => {
                eprint(&format!("left out: {why:#}"));
                first.get_or_insert(why);
            }
        }
    }
    first.filter(|_| kept.is_empty()).map_or(Ok(kept), Err)
}

pub fn main(flags: &CrashFlags) -> Result<CommandOutcome> {
    check_files(&flags.files())?;
    if let Some(earlier) = &flags.again {
        return again(flags, &split_list(earlier));
    }
    let signals = Signals::listen()?;
    let asked = CrashRequest::from_flags(flags)?;
    own_mounts()?;
    let place = Place::make(&flags.dir)?;
    let mut under_way = CrashRun {
        flags,
        asked: &asked,
        signals: &signals,
        bar: ProgressBar::new(false),
        report: begun(flags, place.path()),
        done: 0,
    };
    print_beside(&flags.files(), &shown::head(&under_way.report))?;
    for kind in &asked.kinds {
        let dir = place.path().join(kind);
        std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let patience = Duration::from_secs(flags.patience);
        let lab = Lab::new(&dir, kind)?
            .stopped_by(signals.shared_stop())
            .waiting(patience)
            .with_workers(flags.workers.into());
        let outcome = under_way.run_on_file_system(&lab, kind);
        if signals.received().is_some() {
            break;
        }
        outcome?;
        under_way.say(&shown::checks_on(&under_way.report, kind))?;
    }
    under_way.bar.clear();
    print_beside(&flags.files(), &fault_injection::errors_table(&under_way.report))?;
    let report = under_way.report;
    if let Some(file) = &flags.json {
        write_file(file, &serde_json::to_string_pretty(&report)?)?;
    }
    write_pages(flags, std::slice::from_ref(&report))?;
    Ok(match signals.received() {
        Some(signal) => CommandOutcome::Stopped(signal),
        None if shown::is_bad(&report) => CommandOutcome::Failed,
        None => CommandOutcome::Well,
    })
}

fn again(flags: &CrashFlags, files: &[String]) -> Result<CommandOutcome> {
    if flags.markdown.is_none() && flags.html.is_none() {
        bail!("--again: needs --markdown FILE or --html FILE");
    }
    let reports = files.iter().map(|file| read(Path::new(file))).collect::<Result<Vec<CrashReport>>>()?;
    write_pages(flags, &reports)?;
    Ok(CommandOutcome::Well)
}

/// Maximum size in bytes of an earlier report or page, as this command writes them.
const MOST: u64 = 64 << 20;

fn read(file: &Path) -> Result<CrashReport> {
    let text = input::read_text(file, MOST).with_context(|| format!("cannot read `{}`", file.display()))?;
    let report: CrashReport = serde_json::from_str(&text)
        .with_context(|| format!("`{}` is nothing that `blobwise crash --json` writes", file.display()))?;
    if report.schema != CRASH_SCHEMA {
        bail!("`{}` has format {}, and this program reads {CRASH_SCHEMA}", file.display(), report.schema);
    }
    Ok(report)
}

fn write_pages(flags: &CrashFlags, reports: &[CrashReport]) -> Result<()> {
    if let Some(file) = &flags.markdown {
        let earlier = earlier(file)?;
        write_file(file, &markdown(reports, earlier.as_deref().and_then(notes)))?;
    }
    if let Some(file) = &flags.html {
        write_file(file, &page(reports))?;
    }
    Ok(())
}

/// Reads the existing page, whose manual additions are kept.
fn earlier(file: &Path) -> Result<Option<String>> {
    let is_page = std::fs::metadata(file).is_ok_and(|found| found.is_file());
    let read = is_page.then(|| input::read_text(file, MOST)).transpose();
    read.with_context(|| format!("cannot read `{}`", file.display()))
}

/// Command line without output files and working directory.
fn command() -> String {
    let mut words = vec!["blobwise".to_owned()];
    let mut given = std::env::args().skip(1);
    while let Some(word) = given.next() {
        match ["--json", "--markdown", "--html", "--dir"]
            .iter()
            .find(|flag| word.split('=').next() == Some(**flag))
        {
            Some(_) if word.contains('=') => {}
            Some(_) => drop(given.next()),
            None => words.push(word),
        }
    }
    words.join(" ")
}

fn begun(flags: &CrashFlags, place: &Path) -> CrashReport {
    let machine = machine::facts(place);
    CrashReport {
        schema: CRASH_SCHEMA,
        blobwise: env!("CARGO_PKG_VERSION").to_owned(),
        command: command(),
        started: machine::timestamp(),
        system: format!("{}, {}", machine.system, machine.kernel),
        preloaded: machine.preloaded(),
        replaced_flushes: machine.replaced_flushes,
        cuts: flags.cuts,
        kills: flags.kills,
        seed: flags.seed,
        workers: flags.workers,
        controls: Vec::new(),
        lines: Vec::new(),
    }
}

struct CrashRun<'a> {
    flags: &'a CrashFlags,
    asked: &'a CrashRequest,
    signals: &'a Signals,
    bar: ProgressBar,
    report: CrashReport,
    done: usize,
}

impl CrashRun<'_> {
    fn say(&self, text: &str) -> Result<()> {
        self.bar.aside(|| print_beside(&self.flags.files(), text))
    }

    fn run_on_file_system(&mut self, lab: &Lab, kind: &str) -> Result<()> {
        if self.flags.cuts > 0 {
            self.bar.on_terminal(self.done + 1, self.asked.lines(), &|| format!("controls on {kind}"));
            self.report.controls.extend(crash::controls(lab, self.flags.seed)?);
            self.say(&shown::controls(&self.report, kind))?;
        }
        for candidate in &self.asked.candidates {
            let mut is_first = true;
            for class in self.asked.classes.iter().filter(|class| has(candidate, **class)) {
                let line = self.line(lab, candidate, *class);
                if self.signals.received().is_some() {
                    return Ok(());
                }
                if std::mem::take(&mut is_first) {
                    self.say(&head_of(&line))?;
                }
                self.say(&shown::of_line(&line))?;
                self.report.lines.push(line);
                self.done += 1;
            }
        }
        Ok(())
    }

    fn line(&self, lab: &Lab, candidate: &Candidate, class: Durability) -> CrashResult {
        let trial = Trial { uploads: self.flags.uploads, ..Trial::new(candidate, class) };
        let all = self.flags.cuts as usize;
        let tell = |what: &str| {
            let (label, class, of) = (&candidate.label, class.name(), self.asked.lines());
            let words = || format!("{label}, {class} on {}: {what}", lab.kind());
            self.bar.on_terminal(self.done + 1, of, &words);
        };
        let own: Vec<&Control> =
            self.report.controls.iter().filter(|control| control.file_system == lab.kind()).collect();
        let may_judge = own.iter().all(|control| control.holds());
        let seed = self.flags.seed;
        let mut tell_cuts = |cuts: usize| tell(&format!("{cuts} of {all} cuts"));
        let mut line = crash::line(lab, &trial, all, seed, may_judge, &mut tell_cuts);
        line.besides = crash::others(lab, &trial, &self.flags.others(), seed, &mut |what| tell(what));
        line
    }
}

fn has(candidate: &Candidate, class: Durability) -> bool {
    (candidate.adapter.caps)(&candidate.options).durability.contains(&class)
}
