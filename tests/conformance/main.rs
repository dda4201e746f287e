//! Conformance tests: every store against every check of the contract, in every durability class that may change the outcome, and
//! faulty stores that must be caught.
//!
//! Trials such as `sqlite/each-write/replaces` are generated from the table of stores and their declared capabilities. Checks
//! that do not apply are not listed. Trials are ignored, with the reason, if a server program is missing; with
//! `BLOBWISE_REQUIRE_ALL=1` they fail instead, except for a program that nothing installs on this system (SQL Server).

mod example;
mod file_systems;
#[path = "../common/flipping.rs"]
mod flipping;
mod flips;
mod flushes;
mod honest;
mod kills;
mod lazy;
mod liars;
#[cfg(feature = "mongodb")]
mod marks;
#[path = "../common/obtainable.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod obtainable;
#[path = "../common/opening.rs"]
#[cfg_attr(not(feature = "mssql"), expect(dead_code, reason = "options are asked for by one feature"))]
mod opening;
mod outside;
#[path = "../../examples/own_store.rs"]
#[expect(dead_code, reason = "its `main` is not called here")]
mod own_store;
#[cfg(feature = "mssql")]
#[path = "../common/tds.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    reason = "not all of it is needed here, and where it cannot go on it says so"
)]
mod peer;
mod subjects;
mod table;
#[cfg(feature = "mssql")]
mod tds;
#[path = "../common/trials.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod trials;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use blobwise::conformance::bench::{Home, World};
use blobwise::conformance::check::{CannotCheck, CheckKind, ConformanceCheck, Run};
use blobwise::conformance::checks;
use blobwise::conformance::subject::{Subject, is_server};
use blobwise::plan::defaults;
use blobwise::store::Adapter;
use blobwise::stores::{self, Entry};
use libtest_mimic::{Completion, Failed};

use outside::Missing;

use crate::trials::{Trial, ignored_or_failed};

fn main() -> ExitCode {
    blobwise::host::machine::make_private();
    trials::name_the_supervisor();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(flushes::CHILD) => flushes::report(child(&arguments[1..], flushes::act)),
        Some(kills::CHILD) => flushes::report(child(&arguments[1..], kills::act)),
        _ => match run() {
            Ok(code) => code,
            Err(error) => flushes::report(Err(error)),
        },
    }
}

fn child(arguments: &[String], act: fn(&Subject, &Home) -> Result<()>) -> Result<()> {
    let (subject, home) = flushes::child_arguments(arguments)?;
    act(&subject, &home)
}

fn run() -> Result<ExitCode> {
    let arguments = trials::arguments();
    let world = Arc::new(table::world()?);
    let mut trials = Vec::new();
    let (servers, embedded): (Vec<_>, Vec<_>) =
        subjects::all()?.into_iter().partition(|subject| subject.is_server());
    for subject in embedded {
        trials.extend(of_subject(&world, &subject));
    }
    trials.extend(liars::trials(&world)?);
    trials.extend(example::trials(&world)?);
    trials.extend(file_systems::trials());
    // As many servers side by side as trials run at once: with fewer, trials would wait for each other's server; more would only
    // use memory.
    let selected = |subject| {
        let mut trials = of_subject(&world, subject);
        trials.retain(|trial| trials::is_asked_for(is_long(trial.name())));
        trials
    };
    let at_once = arguments.test_threads.unwrap_or(1).max(1);
    trials.extend(in_turns(servers.iter().map(selected).collect(), at_once));
    #[cfg(feature = "mongodb")]
    trials.extend(marks::trials(&world)?);
    #[cfg(feature = "mssql")]
    trials.extend(tds::trials());
    trials.extend(not_compiled());
    Ok(trials::run(&arguments, trials, is_long))
}

/// True if a trial is left to continuous integration: options other than the default, servers in any class but the strongest, and
/// drivers that the default build lacks. With `./test.sh --quick`, all but those of a few embedded stores.
fn is_long(name: &str) -> bool {
    const ONLY_THERE: [&str; 6] = ["ferretdb", "gridfs", "mongodb", "mssql", "own", "s3"];
    const QUICK: [&str; 3] = ["files/hashed", "sqlite", "redb"];
    // One for all servers that speak TLS.
    const TLS: &str = "redis[tls=true]";
    let is_quick = std::env::var(trials::CHOICE).is_ok_and(|choice| choice == "quick");
    let Some((store, class)) = name.rsplit_once('/').and_then(|(subject, _check)| subject.rsplit_once('/'))
    else {
        // Each file system has the checks of two stores.
        return is_quick && name.starts_with("on ");
    };
    if is_quick && !QUICK.contains(&store) {
        return true;
    }
    let is_weaker = |adapter: &Adapter| {
        let strongest = (adapter.caps)(&defaults(adapter)).durability.last();
        is_server(adapter) && strongest.is_some_and(|strongest| strongest.name() != class)
    };
    store.contains('[') && store != TLS
        || ONLY_THERE.contains(&stores::family(store))
        || stores::adapters().any(|adapter| adapter.name == store && is_weaker(adapter))
}

/// Finds a subject by name, including faulty stores.
pub fn find(name: &str) -> Result<Option<Arc<Subject>>> {
    let liars = liars::subjects()?;
    Ok(subjects::all()?.into_iter().chain(liars).find(|subject| subject.name == name))
}

/// Generates the trials of a subject.
fn of_subject(world: &Arc<World>, subject: &Arc<Subject>) -> Vec<Trial> {
    trials_of(world, subject, table::all())
}

/// Generates the trials of those checks that apply to a subject.
fn trials_of(
    world: &Arc<World>,
    subject: &Arc<Subject>,
    checks: impl Iterator<Item = &'static ConformanceCheck>,
) -> Vec<Trial> {
    let shared = Arc::new(Mutex::new(None));
    let applying = checks.filter(|check| {
        let is_hidden = subject.is_outside && check.kind == CheckKind::Process;
        (check.applies)(subject) && is_worth_a_server(check, subject) && !is_hidden
    });
    applying
        .map(|check| {
            let (world, subject, shared) = (Arc::clone(world), Arc::clone(subject), Arc::clone(&shared));
            Trial::ignorable_test(format!("{}/{}", subject.name, check.name), move || {
                complete_where_possible(&subject, || check.make(&world, &subject, &shared))
            })
        })
        .collect()
}

/// True if a check is worth a server's start. Options of servers are tested on one open server each; checks that start another
/// one are left to the plain candidates. In a weaker class only that is tested which the class may change, and what processes do
/// (flushes, kills, where they write) with one candidate of each server. What a store refuses with its defaults it refuses with any
/// option that does not change what it declares.
fn is_worth_a_server(check: &ConformanceCheck, subject: &Subject) -> bool {
    match (check.run, check.kind) {
        (Run::Open(_), _)
            if !subject.plain && checks::is_refusal(check) && applies_by_default(check, subject) =>
        {
            false
        }
        (_, CheckKind::Backup) if !subjects::shows_its_backup(subject) => false,
        _ if !subject.is_server() => true,
        (Run::Open(_), _) => !subject.is_weaker && (subject.plain || !subject.is_slow),
        _ if !subject.plain => false,
        (_, CheckKind::Process) => !subject.is_weaker || subjects::stands_for_its_server(subject.adapter),
        (_, CheckKind::AnyClass) => !subject.is_weaker,
        (_, CheckKind::ByClass | CheckKind::Backup) => {
            !subject.is_weaker || !subjects::is_tried_in_one_class(subject)
        }
    }
}

/// True if a check applies to the candidate with no option changed, too.
fn applies_by_default(check: &ConformanceCheck, subject: &Subject) -> bool {
    let options = defaults(subject.adapter);
    (check.applies)(&Subject { options, plain: true, ..subject.clone() })
}

/// Returns what a subject lacks; cached for each store, server program, and whether it speaks TLS.
fn missing(subject: &Subject) -> Option<Missing> {
    use std::collections::BTreeMap;
    type Known = BTreeMap<(&'static str, String, bool), Option<Missing>>;
    static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let of = (subject.adapter.name, subject.options.text("server").to_owned(), subject.options.flag("tls"));
    known.entry(of).or_insert_with(|| outside::missing(subject)).clone()
}

/// Runs a check unless the subject's program is missing, or the check finds that it cannot be made on this machine.
fn complete_where_possible(
    subject: &Subject,
    check: impl FnOnce() -> Result<()>,
) -> Result<Completion, Failed> {
    match missing(subject) {
        Some(Missing::Installable(reason)) => return ignored_or_failed(reason),
        Some(Missing::Unobtainable(reason)) => return Ok(Completion::ignored_with(reason)),
        None => {}
    }
    match check() {
        Ok(()) => Ok(Completion::Completed),
        Err(error) => match error.downcast_ref::<CannotCheck>() {
            Some(reason) => ignored_or_failed(reason.to_string()),
            None => Err(format!("{error:#}").into()),
        },
    }
}

/// Interleaves lists: one trial in turn of each of the first `at_once` lists that have not ended.
fn in_turns(lists: Vec<Vec<Trial>>, at_once: usize) -> Vec<Trial> {
    let mut waiting = lists.into_iter().map(Vec::into_iter);
    let mut open: Vec<std::vec::IntoIter<Trial>> = Vec::new();
    let mut all = Vec::new();
    loop {
        open.extend(waiting.by_ref().take(at_once - open.len()));
        if open.is_empty() {
            return all;
        }
        open.retain_mut(|list| list.next().map(|trial| all.push(trial)).is_some());
    }
}

/// Ignored trials for stores whose cargo feature is off, so that they are not taken for tested.
fn not_compiled() -> Vec<Trial> {
    let missing = stores::table().filter_map(|entry| match entry {
        Entry::NotCompiled { name, feature, .. } => Some((*name, *feature)),
        Entry::Ready(_) | Entry::Impossible { .. } => None,
    });
    missing
        .map(|(name, feature)| {
            let reason = format!("built without the cargo feature `{feature}`");
            Trial::ignorable_test(format!("{name}/not-compiled"), || Ok(Completion::ignored_with(reason)))
        })
        .collect()
}
