//! Files and SQLite on every file system that can be made on this machine, each on images of its own.

use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, ensure};
use blobwise::conformance::bench::World;
use blobwise::conformance::check::Run;
use blobwise::host::disk::{FileSystem, OwnDisk, own_mounts};
use blobwise::host::machine::mounted_as;
use blobwise::host::place::Place;
use libtest_mimic::{Completion, Failed};

use crate::trials::{Trial, ignored_or_failed};
use crate::{subjects, table};

/// Types that the supported kernels and distributions have: a missing one is reported as a missing trial.
const COMMON: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];
/// One that spans several devices.
const SEVERAL: &str = "btrfs-raid1:";
const STORES: [&str; 2] = ["files/hashed/on-sync", "sqlite/on-sync"];
/// Room for the checks' blobs and for the file system itself.
const IMAGE_BYTES: u64 = 128 << 20;
/// Smallest size for which XFS can be made.
const IMAGE_BYTES_XFS: u64 = 300 << 20;

pub fn trials() -> Vec<Trial> {
    let trial = |system: FileSystem| {
        let name = format!("on {}/files and sqlite", system.name());
        Trial::ignorable_test(name, move || match system.lacks() {
            Some(why) if COMMON.iter().any(|kind| system.name().starts_with(kind)) => {
                ignored_or_failed(format!("{why:#}"))
            }
            Some(why) => Ok(Completion::ignored_with(format!("{why:#}"))),
            None => check_on(&system)
                .map(|()| Completion::Completed)
                .map_err(|why| Failed::from(format!("{why:#}"))),
        })
    };
    // To a store all btrfs profiles are the same file system.
    let is_meant = |system: &FileSystem| !system.name().contains('-') || system.name().starts_with(SEVERAL);
    FileSystem::all().into_iter().filter(is_meant).map(trial).collect()
}

/// Checks what is put and read, in mounts that only one thread has.
fn check_on(system: &FileSystem) -> Result<()> {
    let place = Place::make(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
    let made = std::thread::scope(|scope| {
        let within = || -> Result<()> {
            own_mounts()?;
            let bytes = if system.name() == "xfs" { IMAGE_BYTES_XFS } else { IMAGE_BYTES };
            let disk = OwnDisk::make(system, place.path(), &place.path().join("on"), bytes, 0)?;
            let (kind, _) = mounted_as(disk.path()).context("it is not mounted")?;
            ensure!(system.name().starts_with(&kind), "`{}` was mounted as {kind}", system.name());
            all_checks(disk.path())?;
            let written = disk.device().counters_of_each();
            let idle = written.iter().filter(|counters| counters.is_none_or(|one| one.written_bytes == 0));
            ensure!(idle.count() == 0, "not every device was written to: {written:?}");
            Ok(())
        };
        scope.spawn(within).join()
    });
    made.map_err(|_panic| anyhow!("a check panicked"))?
}

fn all_checks(dir: &Path) -> Result<()> {
    let world = World::below(dir)?;
    let mut done = 0;
    for subject in subjects::all()?.iter().filter(|subject| STORES.contains(&subject.name.as_str())) {
        let shared = Mutex::new(None);
        let applying = table::all().filter(|check| (check.applies)(subject));
        // Checks that need a store of their own or another process are about the store, and need no other file system.
        for check in applying.filter(|check| matches!(check.run, Run::Open(_))) {
            check
                .make(&world, subject, &shared)
                .with_context(|| format!("{}/{}", subject.name, check.name))?;
            done += 1;
        }
    }
    ensure!(done > 10, "only {done} checks were made");
    Ok(())
}
