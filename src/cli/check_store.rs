//! `blobwise check-store`: does a store keep its contract, in each class that it declares?

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;

use super::run::with_members;
use super::signals::Signals;
use super::{CommandOutcome, print};
use crate::conformance::bench::{Bench, World};
use crate::conformance::check::{CannotCheck, ConformanceCheck, SharedBench};
use crate::conformance::checks::{GROUPS, all};
use crate::conformance::subject::Subject;
use crate::engine::preflight::{check_file_system_of, check_path_bytes, path_bytes_max};
use crate::host::machine;
use crate::plan::text::split_list;
use crate::plan::{Candidate, Sets, candidates};
use crate::redact;
use crate::report::terminal::{WIDTH, behind, folded};
use crate::store::{Durability, describe_error};
use crate::units;

#[derive(Debug, Args)]
pub struct CheckStoreFlags {
    /// Check these stores or families, such as sqlite[page_size=4096]
    #[arg(value_name = "STORES")]
    stores: String,
    /// Work in a private directory below this one, and remove it
    #[arg(long, value_name = "DIR", value_parser = crate::plan::text::text_path(), default_value = ".")]
    dir: PathBuf,
}

/// Free bytes that the checks need: a few blobs of 17 MB, copies of a store, and a server's own files.
const ROOM_BYTES: u64 = 1 << 30;

pub fn main(flags: &CheckStoreFlags) -> Result<CommandOutcome> {
    let signals = Signals::listen()?;
    let candidates = candidates_of(&flags.stores)?;
    let world = World::below(&flags.dir)?;
    candidates.iter().try_for_each(|candidate| check_place(candidate, &world, &flags.dir))?;
    let mut tally = Tally::default();
    for candidate in &candidates {
        for class in classes(candidate) {
            tally.add(check_class(candidate, class, &world, &signals)?);
            if let Some(signal) = signals.received() {
                return Ok(CommandOutcome::Stopped(signal));
            }
        }
    }
    print(&format!("\n{}\n", tally.line()))?;
    Ok(if tally.failed == 0 { CommandOutcome::Well } else { CommandOutcome::Failed })
}

/// Returns the candidates that are named. Fails for one that cannot run here or cannot be checked.
fn candidates_of(stores: &str) -> Result<Vec<Candidate>> {
    let named = split_list(stores);
    ensure!(!named.is_empty(), "no store is named: `blobwise list stores` shows all of them");
    let (candidates, _) = candidates(&with_members(named)?, &Sets::new(), true)?;
    for candidate in &candidates {
        let label = &candidate.label;
        if let Some(why) = candidate.traits().kept_running() {
            bail!(
                "`{label}` cannot be checked, because the checks stop its server: {why}; leave out its URL, in its \
                 options or in the environment, or `server=shared`"
            );
        }
        ensure!(
            candidate.file_system().is_none(),
            "`{label}`: checks use the file system of --dir; leave `on` out"
        );
        ensure!(
            !candidate.shows_pages(),
            "`{label}` is a page that a browser loads: `blobwise run` checks it"
        );
    }
    Ok(candidates)
}

/// Returns the classes in which a candidate is checked: the one set for it, or all that it declares.
fn classes(candidate: &Candidate) -> Vec<Durability> {
    let declared = (candidate.adapter.caps)(&candidate.options).durability;
    candidate.own_class().map_or_else(|| declared.to_vec(), |class| vec![class])
}

/// Fails if a directory cannot hold the store of a candidate, which would then fail without a fault of its own.
fn check_place(candidate: &Candidate, world: &World, dir: &Path) -> Result<()> {
    let home = world.home()?;
    let free = machine::room(home.around())?.free_bytes;
    ensure!(
        free >= ROOM_BYTES,
        "`{}` has {} free, and the checks may need {}: name another --dir",
        dir.display(),
        units::bytes(free as f64),
        units::bytes(ROOM_BYTES as f64)
    );
    let (bytes, most) = (home.store.as_os_str().len(), path_bytes_max(candidate.adapter));
    check_path_bytes(candidate, bytes, most, "name a --dir with a shorter path")?;
    check_file_system_of(candidate, &home.store, dir)
}

#[derive(Default)]
struct Tally {
    classes: u64,
    ok: u64,
    failed: u64,
    not_possible: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.classes += other.classes;
        self.ok += other.ok;
        self.failed += other.failed;
        self.not_possible += other.not_possible;
    }

    fn line(&self) -> String {
        let made = units::counted(self.ok + self.failed, "check");
        let classes = if self.classes == 1 { "class" } else { "classes" };
        let rest = match self.not_possible {
            0 => String::new(),
            some => format!(", {some} not possible here"),
        };
        format!("{made} in {} {classes}: {} ok, {} FAILED{rest}", self.classes, self.ok, self.failed)
    }
}

/// Makes every check that applies to a candidate in a class, and prints the outcomes. Stops early after a signal.
fn check_class(candidate: &Candidate, class: Durability, world: &World, signals: &Signals) -> Result<Tally> {
    let subject = Arc::new(Subject::new(candidate, class));
    let (label, name, loss) = (&candidate.label, class.name(), subject.loss());
    // What cannot be opened at all keeps no contract that could be checked.
    let shared = opened(world, &subject).with_context(|| format!("`{label}` in class {name}"))?;
    let head = format!(
        "{label} in class {name} declares: {} after a kill, {} after a power cut",
        loss.after_kill.name(),
        loss.after_power_cut.name()
    );
    print(&format!("\n{}\n", folded(&head, WIDTH).join("\n")))?;
    let mut tally = Tally { classes: 1, ..Tally::default() };
    for check in all().filter(|check| (check.applies)(&subject)) {
        let outcome = caught(check, world, &subject, &shared);
        // A signal may have stopped the store as well.
        if signals.received().is_some() {
            return Ok(tally);
        }
        match outcome {
            Ok(()) => {
                tally.ok += 1;
                print(&behind("  ok      ", check.name))?;
            }
            Err(error) if error.is::<CannotCheck>() => {
                tally.not_possible += 1;
                print(&behind("  -       ", &format!("{}: not possible here: {error}", check.name)))?;
            }
            Err(error) => {
                tally.failed += 1;
                let why = redact::of_error(&describe_error(&error));
                print(&behind("  FAILED  ", &format!("{}: {why}", check.name)))?;
            }
        }
    }
    print(&not_applied(candidate, &subject))?;
    Ok(tally)
}

/// Opens a store, to find out whether that can be done: a server's stays open for the checks that share it.
fn opened(world: &World, subject: &Arc<Subject>) -> Result<SharedBench> {
    let mut bench = Bench::open(world, subject)?;
    if subject.is_server() {
        return Ok(Mutex::new(Some(bench)));
    }
    bench.close()?;
    Ok(Mutex::new(None))
}

/// Makes a check; a panic is a failure of the store.
fn caught(
    check: &ConformanceCheck,
    world: &World,
    subject: &Arc<Subject>,
    shared: &SharedBench,
) -> Result<()> {
    catch_unwind(AssertUnwindSafe(|| check.make(world, subject, shared)))
        .unwrap_or_else(|_panic| Err(anyhow!("the store panicked; its message is above")))
}

fn not_applied(candidate: &Candidate, subject: &Subject) -> String {
    let declared = (candidate.adapter.caps)(&candidate.options).durability;
    let others: Vec<Subject> = declared.iter().map(|class| Subject::new(candidate, *class)).collect();
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for group in GROUPS {
        for check in group.checks.iter().filter(|check| !(check.applies)(subject)) {
            let is_of_another = others.iter().any(|other| (check.applies)(other));
            let why = if is_of_another { "another class has them" } else { group.why_not };
            reasons.entry(why).or_default().push(check.name);
        }
    }
    let line = |(why, names): (&str, Vec<&str>)| {
        behind("  ", &format!("does not apply: {} ({why}): {}", names.len(), names.join(", ")))
    };
    reasons.into_iter().map(line).collect()
}
