//! All checks: those of the contract, and those that look into a store's files and processes.

use std::path::Path;

use anyhow::Result;
use blobwise::conformance::bench::World;
use blobwise::conformance::check::{CheckKind, ConformanceCheck, open, own};
use blobwise::conformance::checks::{self, has_one_class};
use blobwise::conformance::subject::Subject;
use blobwise::store::{Durability, Loss};

use crate::{flips, flushes, kills, lazy, subjects};

/// Checks that look into a store.
const OF_FILES: &[ConformanceCheck] = &[
    open("purges-lazy-deletes", |subject| subject.traits().lazy_delete, lazy::purges),
    open(
        "leaves-nothing-to-vacuum",
        |subject| subject.family() == "postgres" && subject.plain,
        lazy::leaves_nothing_to_vacuum,
    ),
    own(CheckKind::ByClass, "flipped-bytes-are-found", flips::applies, flips::flipped_bytes_are_found),
];

/// Checks that start another process to observe or to kill.
const OF_PROCESSES: &[ConformanceCheck] = &[
    // In other classes, the checks of flushes look at where it writes in their own trace.
    own(
        CheckKind::Process,
        "writes-only-below-its-directory",
        |subject| {
            has_a_path(subject)
                && subject.durability == Durability::None
                && !is_left_to_another_class(subject)
        },
        flushes::writes_only_below_its_directory,
    ),
    own(
        CheckKind::Process,
        "flushes-each-write",
        |subject| subject.durability == Durability::EachWrite,
        flushes::flushes_each_write,
    ),
    own(
        CheckKind::Process,
        "flushes-on-sync",
        |subject| subject.durability == Durability::OnSync,
        flushes::flushes_on_sync,
    ),
    own(
        CheckKind::Process,
        "flushes-before-it-commits",
        |subject| subject.family() == "lmdb" && subject.durability > Durability::None,
        flushes::flushes_before_it_commits,
    ),
    own(CheckKind::Process, "survives-process-kill", may_survive_a_kill, kills::survives_process_kill),
    // How processes end together is the same in every class: each is left to one.
    own(
        CheckKind::Process,
        "ends-with-the-program",
        |subject| subject.is_server() && !subject.is_weaker,
        kills::ends_with_the_program,
    ),
    own(
        CheckKind::Process,
        "ends-with-its-supervisor",
        is_server_in_one_class,
        kills::ends_with_its_supervisor,
    ),
];

/// Every check.
pub fn all() -> impl Iterator<Item = &'static ConformanceCheck> {
    checks::all().chain(OF_FILES).chain(OF_PROCESSES)
}

/// Makes the directory of one run of the test suite.
pub fn world() -> Result<World> {
    World::below(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// An unattached file system has no path that differs from the machine's.
fn has_a_path(subject: &Subject) -> bool {
    subject.adapter.name != "files/ramdisk" && subject.options.text("medium") != "memory"
}

fn is_server_in_one_class(subject: &Subject) -> bool {
    subject.is_server() && (subject.durability == Durability::OnSync || has_one_class(subject))
}

fn may_survive_a_kill(subject: &Subject) -> bool {
    let may_survive = subject.caps().persistent && subject.loss().after_kill <= Loss::RecentWrites;
    may_survive && !is_left_to_another_class(subject)
}

/// In its weaker classes only the flushes of such a server are looked at, and where it writes meanwhile: a kill in the strongest is its
/// own, and in the others that of MariaDB or of SQLite, which have the same code or keep its files. `tests/crash.rs` cuts its power in each.
fn is_left_to_another_class(subject: &Subject) -> bool {
    subject.is_server() && subject.is_weaker && subjects::is_tried_in_one_class(subject)
}
