//! Power cuts: the disk that they are made on, stores that are wrong on purpose, and what is left of a run that was killed.
//!
//! Disks and stores are processes that are forked from one that must have one thread: each test is a process, and `main` starts a few
//! of these at once.

#[path = "crash/device.rs"]
mod device;
#[path = "common/opening.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod opening;
#[path = "common/trials.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod trials;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use blobwise::crash::{
    Control, CrashReport, Damage, FaultTests, Lab, LossVerdict, PowerCutResults, Trial, controls, line,
    others, try_cuts, try_errors, try_flips, try_kills,
};
use blobwise::host::disk::{
    DiskError, DiskFile, Failure, Faults, Log, LogEntryKind as Noted, LoopDevice, RequestKind, Switch,
    own_mounts,
};
use blobwise::host::fork::{Forked, SharedFlag};
use blobwise::host::machine;
use blobwise::plan::{Candidate, Sets, candidates, defaults};
use blobwise::result::cause::{CutBy, CutCause, DiskWrite, FilePlace};
use blobwise::result::crash::Cuts;
use blobwise::result::crash::besides::{
    DeclarationVerdict, ErrorCase, ErrorKind, FlipResults, KillResults, StoreReaction,
};
use blobwise::store::{
    Adapter, CacheRecommendation, Capabilities, Catalogue, Common, Durability, Facts, Integrity, Key, Kind,
    Loss, Losses, Mode, Needs, Options, Session, Setup, Sink, Span, Store, Traits, content_key,
};
use blobwise::stores::Entry;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// A test by its name, with the file systems, and the stores and programs, that it needs.
type Test = (&'static str, &'static [&'static str], &'static [&'static str], fn() -> Result<()>);

const FEW_SERVERS: &[&str] = &["postgres/bytea", "redis"];
const MYSQL: &[&str] = &["mysql/blob", "mysql/chunked"];
const MARIADB: &[&str] = &["mariadb/blob", "mariadb/chunked"];
const POSTGRES: &[&str] = &["postgres/bytea", "postgres/chunked", "postgres/large-object"];
const FERRETDB: &[&str] = &["ferretdb/document", "ferretdb/gridfs"];
const OBJECTS: &[&str] = &["s3[server=versitygw]"];
const FILES: &[&str] = &["files/hashed", "files/flat", "zip", "tar", "sqlite"];
const FEW: &[&str] = &["files/hashed", "sqlite"];

/// What no test cuts, as its name begins, and why.
const NOT_CUT: &[(&str, &str)] = &[
    ("fopen", "these are the files of `files/hashed`"),
    ("gridfs", "there is no MongoDB for tests; FerretDB is asked by the same driver"),
    ("mongodb/", "the same"),
    ("mssql/", "only by URL: its disk is not ours to cut"),
    ("nginx", "what it sends is kept by a store that is cut itself"),
    ("apache", "the same"),
    ("lighttpd", "the same"),
    ("caddy", "the same"),
    ("http", "the same"),
    ("ftp", "the same"),
    ("page/", "the same"),
];

const NONE: &[Durability] = &[Durability::None];
const ON_SYNC: &[Durability] = &[Durability::OnSync];
const EACH_WRITE: &[Durability] = &[Durability::EachWrite];

/// Tests that `./test.sh` leaves to continuous integration: hundreds of cuts of one more server, or file system. They take longest,
/// and come first, so that none of them is left to the end.
const LONG: &[Test] = &[
    ("MySQL keeps what it declares in class none", &["ext4"], MYSQL, || keep(&MYSQL[..1], NONE, "ext4")),
    ("MySQL keeps what a sync covered", &["ext4"], MYSQL, || keep(&MYSQL[..1], ON_SYNC, "ext4")),
    ("MySQL keeps what it acknowledged", &["ext4"], MYSQL, || keep(&MYSQL[..1], EACH_WRITE, "ext4")),
    ("MySQL keeps what it acknowledged in chunks", &["ext4"], MYSQL, || {
        keep(&MYSQL[1..], EACH_WRITE, "ext4")
    }),
    ("a known fault of MySQL is told from any other", &["ext4"], &["mysql/blob"], known_fault),
    ("PostgreSQL keeps what it declares", &["ext4"], POSTGRES, || keep_of_server(POSTGRES)),
    ("an honest store is not accused in 1,000 cuts", &["ext4"], &[], honest),
    ("MariaDB keeps what it declares", &["ext4"], MARIADB, || keep_of_server(MARIADB)),
    ("FerretDB keeps what it declares", &["ext4"], FERRETDB, || keep_of_server(FERRETDB)),
    ("all other stores keep what they declare", &["ext4"], &[], || {
        keep(&others_to_keep(), Durability::ALL, "ext4")
    }),
    ("Redis keeps what it declares", &["ext4"], &["redis"], || keep(&["redis"], Durability::ALL, "ext4")),
    ("Valkey keeps what it declares", &["ext4"], &["valkey"], || keep(&["valkey"], Durability::ALL, "ext4")),
    ("object stores keep what they declare", &["ext4"], OBJECTS, || keep(OBJECTS, NONE, "ext4")),
    ("files and a database keep it on XFS", &["xfs"], &[], || keep(FEW, Durability::ALL, "xfs")),
    ("files and a database keep it on btrfs", &["btrfs"], &[], || keep(FEW, Durability::ALL, "btrfs")),
    ("the three controls hold on XFS", &["xfs"], &[], controlled),
    ("a cause is named on XFS, too", &["xfs"], &[], || caught_on("xfs", Lie::WrongFile, Damage::Wrong)),
    ("a cause is named on btrfs, too", &["btrfs"], &[], || caught_on("btrfs", Lie::WrongFile, Damage::Wrong)),
];

const SHORT: &[Test] = &[
    ("files and SQLite keep what they declare", &["ext4"], &[], || keep(FILES, Durability::ALL, "ext4")),
    ("a disk keeps what it is told, and its log makes it again", &["ext4"], &[], disk),
    ("fio finds on a disk what it wrote", &["ext4"], &["fio"], device::raw),
    ("fio finds in a file what it wrote", &["ext4"], &["fio"], device::below_a_file_system),
    (
        "files on a disk are as a model has them",
        &["ext4", "xfs", "btrfs"],
        &[],
        device::files_against_a_model,
    ),
    ("a disk that stops answering is taken away", &["ext4"], &[], silent),
    ("a store that never returns is ended", &["ext4"], &[], never_returns),
    ("a store that hangs is tried again before it is blamed", &["ext4"], &[], hangs),
    ("a store that skips the directory's fsync is caught", &["ext4"], &[], || {
        caught(Lie::NoDirectory, Damage::Lost)
    }),
    ("a store that acknowledges before the flush is caught", &["ext4"], &[], || {
        caught(Lie::NoFlush, Damage::Wrong)
    }),
    ("a store that flushes the wrong file is caught", &["ext4"], &[], || {
        caught(Lie::WrongFile, Damage::Wrong)
    }),
    ("a store whose deletes come back is caught", &["ext4"], &[], || {
        caught(Lie::DeleteComesBack, Damage::Back)
    }),
    ("a store that hides a torn blob is caught", &["ext4"], &[], || caught(Lie::HidesTorn, Damage::Lost)),
    ("a store that does not open any more is caught", &["ext4"], &[], || {
        caught(Lie::Refuses, Damage::Unusable)
    }),
    ("a store that does not open where sockets have no room is not blamed", &["ext4"], &[], no_room),
    ("a store that catalogues an upload before its blob is safe is caught", &["ext4"], &[], hasty),
    ("no catalogued blob is missing after a cut", &["ext4"], &[], uploads),
    ("nor in a server, in one transaction", &["ext4"], &["postgres/bytea"], uploads_to_a_server),
    ("a store that loses what it keeps, as it says, when killed, is caught", &["ext4"], &[], || {
        let kills = kills_of(Lie::Late)?;
        ensure!(kills.verdict() == DeclarationVerdict::Refuted && kills.first.is_some(), "{kills:?}");
        Ok(())
    }),
    ("a store that swallows errors of its disk is caught", &["ext4"], &[], swallows),
    ("a store that hands out flipped bytes, and says that it checks, is caught", &["ext4"], &[], || {
        let flips = flips_of(Lie::ChecksNothing)?;
        ensure!(flips.verdict() == DeclarationVerdict::Refuted && flips.noticed == 0, "{flips:?}");
        Ok(())
    }),
    ("an honest store is not accused by kills, errors and flips", &["ext4"], &[], honest_in_all),
    ("a disk that ignores flushes loses what an honest one keeps", &["ext4"], &[], flushes_ignored),
    ("embedded stores keep what they declare when killed", &["ext4"], &[], embedded_killed),
    ("other embedded stores say that their disk fails", &["ext4"], &[], others_failing),
    ("no sync behind one that failed promises anything", &["ext4"], &[], syncs_behind_a_failed_one),
    (
        "files keep what they acknowledged on a disk that fails, and a database says so",
        &["ext4"],
        &[],
        failing,
    ),
    (
        "servers keep what they declare when killed, and on a disk that fails",
        &["ext4"],
        FEW_SERVERS,
        servers_fail,
    ),
    ("stores keep what they declare under several workers", &["ext4"], &[], several),
    ("a run that is killed leaves nothing", &["ext4"], &[], killed),
    ("what cannot be cut is refused", &["ext4"], &[], refused),
    ("a load that fails is a line, and the others go on", &["ext4"], &["redis"], failing_load),
    ("a stop is heard at once and leaves nothing", &["ext4"], &[], stopped),
    ("a plan cuts the power, and every report shows it", &["ext4"], &[], planned),
    ("who may not mount is told so", &["ext4"], &[], no_right),
    ("a run that is killed while it cuts leaves nothing", &["ext4"], &[], run_killed),
];

/// Names the one test that this process does.
const ONE: &str = "BLOBWISE_CRASH_TEST";
/// A directory in which these processes keep what stores need once: a database that was made is copied by the other tests.
const CACHE: &str = "BLOBWISE_CRASH_CACHE";

#[expect(clippy::print_stdout, reason = "what a harness of tests would print")]
fn main() -> ExitCode {
    trials::name_the_supervisor();
    if let Ok(one) = std::env::var(ONE) {
        let test = LONG.iter().chain(SHORT).find(|(name, ..)| *name == one);
        return ExitCode::from(u8::from(!test.is_some_and(is_passed)));
    }
    let filters: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_meant =
        |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let asked =
        [(LONG, true), (SHORT, false)].into_iter().filter(|(_, is_long)| trials::is_asked_for(*is_long));
    let names = asked.flat_map(|(tests, _)| tests).map(|(name, ..)| *name);
    let names: Vec<&str> = names.filter(|name| is_meant(name)).collect();
    let Ok(cache) = tempfile::tempdir() else { return ExitCode::FAILURE };
    // A test waits for its disk half of the time.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let failed = all_of(&names, 2 * processors, cache.path());
    println!("\ntest result: {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

/// Does tests, so many at once, each in a process of its own, and tells how many failed.
#[expect(clippy::print_stdout, reason = "what a harness of tests would print")]
fn all_of(names: &[&str], at_once: usize, cache: &Path) -> usize {
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(name) = names.get(next.fetch_add(1, Ordering::SeqCst)) {
            let ended = std::env::current_exe()
                .and_then(|own| Command::new(own).env(ONE, name).env(CACHE, cache).output());
            let (is_well, said) = match ended {
                Ok(ended) => (ended.status.success(), [ended.stdout, ended.stderr].concat()),
                Err(error) => (false, format!("test {name} ... FAILED\n{error}\n").into_bytes()),
            };
            print!("{}", String::from_utf8_lossy(&said));
            failed.fetch_add(usize::from(!is_well), Ordering::SeqCst);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    failed.into_inner()
}

/// Does a test, says how it ended, and whether it did not fail.
#[expect(clippy::print_stdout, reason = "what a harness of tests would print")]
fn is_passed((name, kinds, stores, test): &Test) -> bool {
    let no_mounts = own_mounts().err().map(|why| format!("{why:#}"));
    let no_kind = || kinds.iter().find_map(|kind| Lab::why_unavailable(kind)).map(|why| format!("{why:#}"));
    let no_store = || stores.iter().find_map(|store| missing(store));
    let begin = machine::uptime();
    let outcome = match no_mounts.or_else(no_kind).or_else(no_store) {
        None => catch_unwind(AssertUnwindSafe(test))
            .unwrap_or_else(|_panic| Err(anyhow::anyhow!("it panicked; its message is below"))),
        Some(why) if trials::is_required() => Err(anyhow::anyhow!("{why}")),
        Some(why) => {
            println!("test {name} ... ignored, {why}");
            return true;
        }
    };
    let took = (machine::uptime() - begin).as_secs_f64();
    match &outcome {
        Ok(()) => println!("test {name} ... ok ({took:.1} s)"),
        Err(why) => println!("test {name} ... FAILED ({took:.1} s)\n{why:#}"),
    }
    outcome.is_ok()
}

/// Why a store, or a program, cannot run here, if so.
fn missing(store: &str) -> Option<String> {
    let name = store.split('[').next().unwrap_or(store);
    match blobwise::stores::find(name) {
        None if store == "fio" => device::no_fio(),
        Some(Entry::Ready(_)) => {
            let lacks = |candidate: &Candidate| candidate.adapter.missing_program(&candidate.options);
            match candidates(&[store.to_owned()], &Sets::default(), true) {
                Ok((candidates, _)) => candidates.iter().find_map(lacks).map(|error| format!("{error:#}")),
                Err(error) => Some(format!("{error:#}")),
            }
        }
        _ => Some(format!("{store} is not compiled in")),
    }
}

// ---- the disk ----------------------------------------------------------------------------------------------------

/// Random reads and writes against a model in memory, on the kernel's device; then the log, replayed whole.
fn disk() -> Result<()> {
    const BYTES: usize = 8 << 20;
    let dir = tempfile::tempdir()?;
    let log = Arc::new(Log::new(256 << 20)?);
    let mut empty = vec![0; BYTES];
    let file = DiskFile::serve(dir.path(), &mut empty, |_| (), Some(Arc::clone(&log)), Faults::default())?;
    let device = LoopDevice::attach(&file.path())?;
    let (mut model, mut rng) = (vec![0_u8; BYTES], SmallRng::seed_from_u64(5));
    let disk = File::options().read(true).write(true).open(device.path())?;
    let mut flushes = 0;
    for step in 0..600_u32 {
        let len = rng.random_range(1..60_000).min(BYTES);
        let from = rng.random_range(0..=BYTES - len);
        match rng.random_range(0..4) {
            0 => {
                let mut read = vec![0; len];
                disk.read_exact_at(&mut read, from as u64)?;
                ensure!(read == model[from..from + len], "step {step}: other bytes at {from}");
            }
            1 if step % 8 == 1 => {
                disk.sync_all()?;
                flushes += 1;
            }
            _ => {
                let byte = rng.random();
                model[from..from + len].fill(byte);
                disk.write_all_at(&model[from..from + len], from as u64)?;
            }
        }
    }
    disk.sync_all()?;
    let mut image = vec![0; BYTES];
    log.entries(0..log.len()).for_each(|(_, entry)| log.apply(&entry, entry.len, &mut image));
    ensure!(image == model, "the log makes another disk");
    let noted = log.entries(0..log.len()).filter(|(_, entry)| entry.kind == Noted::Flush).count();
    ensure!(noted > flushes, "{noted} flushes are noted, and {flushes} and one were asked for");
    // What ignores flushes notes none.
    drop((disk, device, file));
    let deaf = Faults { ignores_flushes: true, ..Faults::default() };
    let log = Arc::new(Log::new(1 << 20)?);
    let file = DiskFile::serve(dir.path(), &mut vec![0; BYTES], |_| (), Some(Arc::clone(&log)), deaf)?;
    // To make a loop device flushes its file, too.
    file.switch().enable();
    let device = LoopDevice::attach(&file.path())?;
    let disk = File::options().write(true).open(device.path())?;
    disk.write_all_at(&[1; 4096], 0)?;
    disk.sync_all()?;
    ensure!(log.len() == 1 && log.entry(0).kind == Noted::Write, "{} entries", log.len());
    Ok(())
}

/// Nothing of a disk that was taken away is left: no mount, no loop device, no process that waits for it.
fn nothing_is_left(dir: &Path) -> Result<()> {
    until("its loop device is free", || loops_below(dir).is_empty())?;
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    ensure!(!mounts.contains(&*dir.to_string_lossy()), "{mounts}");
    let children = std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()))?;
    ensure!(children.trim().is_empty(), "processes {children} are left");
    Ok(())
}

/// What a test waits for that has nothing to wait for. A load takes a part of a second, and many seconds where the machine is slow and
/// busy.
const LITTLE: Duration = Duration::from_secs(20);

/// While it is filled, and while it is looked at. The next one is as if nothing had been.
fn silent() -> Result<()> {
    let honest = candidate(Lie::Nothing);
    let class = Durability::EachWrite;
    let trial = Trial::new(&honest, class);
    let after = |writes| Faults { silent_after: Some(writes), ..Faults::default() };
    let answers = Faults::default();
    for (load, looks) in [(after(400), answers), (answers, after(0))] {
        let dir = tempfile::tempdir()?;
        let lab = Lab::new(dir.path(), "ext4")?.waiting(LITTLE).with_faults(load, looks);
        let line = line(&lab, &trial, 4, 1, true, &mut |_| ());
        let why = line.failed.clone().or_else(|| line.finding.clone()?.stuck).unwrap_or_default();
        ensure!(why.contains("the disk did not answer for 20 s"), "{line:?}");
        ensure!(line.verdict != Some(LossVerdict::Confirmed), "{line:?}");
        nothing_is_left(dir.path())?;
        let lab = lab.with_faults(answers, answers).waiting(blobwise::crash::PATIENCE);
        let finding = try_cuts(&lab, &trial, 4, 1, &mut |_| ())?;
        ensure!(finding.stuck.is_none() && finding.cuts > 0, "{finding:?}");
    }
    Ok(())
}

fn never_returns() -> Result<()> {
    let (dir, liar) = (tempfile::tempdir()?, candidate(Lie::NeverReturns));
    let class = Durability::EachWrite;
    let lab = Lab::new(dir.path(), "ext4")?.waiting(LITTLE);
    let trial = Trial::new(&liar, class);
    let line = line(&lab, &trial, 4, 1, true, &mut |_| ());
    let why = line.failed.as_deref().unwrap_or_default();
    ensure!(why.contains("the store did not return for 20 s") && line.verdict.is_none(), "{line:?}");
    nothing_is_left(dir.path())
}

/// A start that hangs by chance is no damage, and one that hangs again is.
fn hangs() -> Result<()> {
    for (lie, has_opened) in [(Lie::HangsOnce, true), (Lie::Hangs, false)] {
        let (dir, liar) = (tempfile::tempdir()?, candidate(lie));
        let lab = Lab::new(dir.path(), "ext4")?.waiting(LITTLE);
        let trial = Trial::new(&liar, Durability::EachWrite);
        let bench = lab.record(&trial, 1)?;
        let mut judged = Vec::new();
        bench.each_cut(1, 1, &mut |cut, found| {
            judged.extend(found.map(|found| (found.opened_again, bench.judge(Loss::Nothing, cut, &found))));
        })?;
        let [(opened_again, judged)] = &judged[..] else { bail!("{judged:?}") };
        ensure!(*opened_again == has_opened && judged.worst.is_none() == has_opened, "{lie:?}: {judged:?}");
        let why = judged.worst.as_ref().map_or("", |lost| &lost.what);
        let says = "it neither opens nor gives up within 20 s (`";
        ensure!(has_opened || why.starts_with(says) && why.contains("` sleeps, after 0."), "{why}");
    }
    Ok(())
}

// ---- liars -------------------------------------------------------------------------------------------------------

/// What a store of files does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    Nothing,
    NoDirectory,
    NoFlush,
    WrongFile,
    DeleteComesBack,
    HidesTorn,
    Refuses,
    NeverReturns,
    Late,
    Swallows,
    ChecksNothing,
    CataloguesFirst,
    HangsOnce,
    Hangs,
}

const LIES: &[Lie] = &[
    Lie::Nothing,
    Lie::NoDirectory,
    Lie::NoFlush,
    Lie::WrongFile,
    Lie::DeleteComesBack,
    Lie::HidesTorn,
    Lie::Refuses,
    Lie::NeverReturns,
    Lie::Late,
    Lie::Swallows,
    Lie::ChecksNothing,
    Lie::CataloguesFirst,
    Lie::HangsOnce,
    Lie::Hangs,
];

/// Blobs as files of one directory, each with a checksum before it, flushed by each write: all as it should be but for one thing.
struct Files {
    dir: PathBuf,
    lie: Lie,
    /// What is acknowledged and not written yet.
    late: Mutex<Option<(PathBuf, Vec<u8>)>>,
    /// A catalogue of its own.
    catalogue: Option<Box<dyn Store>>,
}

impl Files {
    fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(key.as_str())
    }

    fn flush_directory(&self) -> blobwise::store::Result<()> {
        self.flush(&File::open(&self.dir)?)
    }

    fn flush(&self, file: &File) -> blobwise::store::Result<()> {
        match file.sync_all() {
            Err(_) if self.lie == Lie::Swallows => Ok(()),
            flushed => Ok(flushed?),
        }
    }

    /// Writes what came before, and keeps this in memory.
    fn write_late(&self, path: PathBuf, bytes: Vec<u8>) -> blobwise::store::Result<()> {
        let before = self.late.lock().unwrap_or_else(PoisonError::into_inner).replace((path, bytes));
        before.map_or(Ok(()), |(path, bytes)| Ok(std::fs::write(path, bytes)?))
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Store for Files {
    fn session(&self) -> blobwise::store::Result<Box<dyn Session + '_>> {
        let catalogue = self.catalogue.as_ref().map(|catalogue| catalogue.session()).transpose()?;
        Ok(Box::new(FilesSession { of: self, hasty: catalogue.map(Hasty) }))
    }

    fn open_catalogue(&self) -> blobwise::store::Result<()> {
        self.catalogue.as_ref().map_or(Ok(()), |catalogue| catalogue.open_catalogue())
    }

    fn facts(&self) -> blobwise::store::Result<Facts> {
        Ok(Facts::new())
    }

    fn close(self: Box<Self>) -> blobwise::store::Result<()> {
        Ok(())
    }
}

struct FilesSession<'s> {
    of: &'s Files,
    hasty: Option<Hasty<'s>>,
}

/// A catalogue whose entries count before their blobs are stored.
struct Hasty<'s>(Box<dyn Session + 's>);

impl Catalogue for Hasty<'_> {
    fn begin(&mut self) -> blobwise::store::Result<()> {
        self.0.catalogue()?.begin()
    }

    fn commit(&mut self) -> blobwise::store::Result<()> {
        self.0.catalogue()?.commit()
    }

    fn rollback(&mut self) -> blobwise::store::Result<()> {
        self.0.catalogue()?.rollback()
    }

    fn find(&mut self, digest: &Key) -> blobwise::store::Result<bool> {
        self.0.catalogue()?.find(digest)
    }

    fn insert(&mut self, digest: &Key, bytes: u64) -> blobwise::store::Result<()> {
        self.0.catalogue()?.insert(digest, bytes)?;
        self.0.catalogue()?.confirm(digest)
    }

    fn confirm(&mut self, _: &Key) -> blobwise::store::Result<()> {
        Ok(())
    }

    fn release(&mut self, digest: &Key) -> blobwise::store::Result<bool> {
        self.0.catalogue()?.release(digest)
    }

    fn forget(&mut self, digest: &Key) -> blobwise::store::Result<()> {
        self.0.catalogue()?.forget(digest)
    }

    fn references(&mut self, digest: &Key) -> blobwise::store::Result<u64> {
        self.0.catalogue()?.references(digest)
    }
}

impl Session for FilesSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> blobwise::store::Result<()> {
        let Files { dir, lie, .. } = self.of;
        let path = self.of.path(key);
        if *lie == Lie::NeverReturns {
            loop {
                std::thread::park();
            }
        }
        if *lie == Lie::Late {
            return self.of.write_late(path, [&checksum(blob).to_le_bytes(), blob].concat());
        }
        // In place, what is torn is the blob itself; else a new file takes its name.
        let written =
            if *lie == Lie::HidesTorn { path.clone() } else { dir.join(format!("new-{}", key.as_str())) };
        let mut file = File::options().write(true).create(true).truncate(false).open(&written)?;
        file.write_all(&checksum(blob).to_le_bytes())?;
        file.write_all(blob)?;
        // XFS writes what waits where a length is set, though it is the same.
        if file.metadata()?.len() > 8 + blob.len() as u64 {
            file.set_len(8 + blob.len() as u64)?;
        }
        match lie {
            Lie::NoFlush => {}
            Lie::WrongFile => File::create(dir.join("other"))?.sync_all()?,
            _ => self.of.flush(&file)?,
        }
        if written != path {
            std::fs::rename(&written, &path)?;
        }
        if *lie != Lie::NoDirectory { self.of.flush_directory() } else { Ok(()) }
    }

    fn get(&mut self, key: &Key, _: Span, sink: Sink) -> blobwise::store::Result<bool> {
        let bytes = match std::fs::read(self.of.path(key)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            bytes => bytes?,
        };
        let (sum, blob) = bytes.split_at(bytes.len().min(8));
        if self.of.lie == Lie::HidesTorn && sum != checksum(blob).to_le_bytes() {
            return Ok(false);
        }
        if self.of.lie == Lie::Nothing && sum != checksum(blob).to_le_bytes() {
            return Err(anyhow::anyhow!("its checksum is another one").into());
        }
        sink(blob);
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> blobwise::store::Result<()> {
        match std::fs::remove_file(self.of.path(key)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        let comes_back = [Lie::DeleteComesBack, Lie::NoDirectory].contains(&self.of.lie);
        if comes_back { Ok(()) } else { self.of.flush_directory() }
    }

    fn catalogue(&mut self) -> blobwise::store::Result<&mut dyn Catalogue> {
        let hasty = self.hasty.as_mut().map(|hasty| hasty as &mut dyn Catalogue);
        hasty.ok_or_else(|| anyhow::anyhow!("no catalogue").into())
    }

    fn sync(&mut self) -> blobwise::store::Result<()> {
        Ok(())
    }
}

fn open(setup: &Setup) -> blobwise::store::Result<Box<dyn Store>> {
    let lie = lie_of(setup.options);
    let mark = setup.dir.join("open");
    if lie == Lie::Refuses {
        if mark.exists() {
            return Err(anyhow::anyhow!("it was not closed").into());
        }
        File::create(&mark)?.sync_all()?;
        File::open(setup.dir)?.sync_all()?;
    }
    // What is not on the disk knows of the try before.
    let tried = setup.common.cache_dir.join("tried");
    if setup.mode == Mode::Open && (lie == Lie::Hangs || lie == Lie::HangsOnce && !tried.exists()) {
        std::fs::create_dir_all(&setup.common.cache_dir)?;
        File::create(tried)?;
        loop {
            std::thread::park();
        }
    }
    let catalogue = (lie == Lie::CataloguesFirst).then(|| open_sqlite(setup)).transpose()?;
    Ok(Box::new(Files { dir: setup.dir.to_owned(), lie, late: Mutex::default(), catalogue }))
}

/// A database below the store's directory.
fn open_sqlite(setup: &Setup) -> blobwise::store::Result<Box<dyn Store>> {
    let Some(Entry::Ready(sqlite)) = blobwise::stores::find("sqlite") else {
        return Err(anyhow::anyhow!("no SQLite").into());
    };
    let (dir, options) = (setup.dir.join("entries"), defaults(sqlite));
    std::fs::create_dir_all(&dir)?;
    (sqlite.open)(&Setup { dir: &dir, options: &options, ..setup.clone() })
}

/// Option that names a lie.
const LIE: &str = "lie";

fn lie_of(options: &Options) -> Lie {
    let is_it = |lie: &&Lie| format!("{lie:?}") == options.text(LIE);
    LIES.iter().find(is_it).copied().unwrap_or(Lie::Nothing)
}

/// A candidate that promises to lose nothing.
fn candidate(lie: Lie) -> Candidate {
    static LIAR: Adapter = Adapter {
        name: "liar",
        about: "files that are wrong on purpose",
        kind: Kind::Embedded,
        programs: &[],
        options: &[],
        caps: |_| Capabilities::ALL,
        loss: |_, _| Losses { after_kill: Loss::Nothing, after_power_cut: Loss::Nothing },
        integrity: |options, _| match lie_of(options) {
            Lie::Nothing | Lie::ChecksNothing => Integrity::Checksums,
            _ => Integrity::Unchecked,
        },
        traits: |_| Traits::default(),
        memory: |_| CacheRecommendation::NO_CACHE,
        needs: Needs::NOTHING,
        open,
    };
    let options = Options::new([(LIE.to_owned(), format!("{lie:?}"))].into());
    Candidate { label: format!("liar, {lie:?}"), adapter: &LIAR, options }
}

fn cuts_of(kind: &str, lie: Lie, cuts: usize) -> Result<PowerCutResults> {
    let dir = tempfile::tempdir()?;
    let lab = Lab::new(dir.path(), kind)?;
    let candidate = candidate(lie);
    let class = Durability::EachWrite;
    try_cuts(&lab, &Trial::new(&candidate, class), cuts, 1, &mut |_| ())
}

/// Whether the cause of a damage is what the liar does.
fn is_right(lie: Lie, cause: &CutCause) -> bool {
    let of_file = |write: &DiskWrite, file: &str| {
        let is_it = |place: &FilePlace| place.file.starts_with("store/") && place.file != file;
        write.place.as_ref().is_some_and(is_it)
    };
    // The bytes of a blob, and what is neither its nor another file's.
    let is_of_blobs = cause.writes.iter().any(|write| of_file(write, "store/other"));
    let is_of_system = !cause.writes.is_empty() && cause.writes.iter().all(|write| write.place.is_none());
    let is_too_late = [CutBy::Missing, CutBy::NotSent].contains(&cause.by) && cause.is_smallest;
    let Some(promise) = &cause.promise else {
        return lie == Lie::Refuses && cause.by == CutBy::Whatever && cause.blob.is_none();
    };
    let has_flushed_bytes =
        promise.written.iter().any(|write| write.flushed.is_some_and(|at| at < promise.at));
    match lie {
        Lie::NoDirectory => is_too_late && is_of_system && has_flushed_bytes,
        // The bytes may have come in time by chance, as btrfs starts to write them when a file is replaced: then it is the
        // length of the file.
        Lie::NoFlush => is_too_late && (is_of_blobs || is_of_system && has_flushed_bytes),
        Lie::WrongFile => {
            is_too_late && (is_of_blobs && !has_flushed_bytes || is_of_system && has_flushed_bytes)
        }
        Lie::DeleteComesBack => {
            is_too_late && is_of_system && promise.is_delete && promise.flushes.is_empty()
        }
        Lie::HidesTorn => cause.by == CutBy::Surviving && is_of_blobs && cause.is_smallest,
        _ => false,
    }
}

fn caught(lie: Lie, by: Damage) -> Result<()> {
    check_caught(&cuts_of("ext4", lie, 40)?, lie, by)
}

fn caught_on(kind: &str, lie: Lie, by: Damage) -> Result<()> {
    let finding = cuts_of(kind, lie, 3)?;
    check_caught(&finding, lie, by).with_context(|| kind.to_owned())
}

fn check_caught(finding: &PowerCutResults, lie: Lie, by: Damage) -> Result<()> {
    let is_there = finding.damaged.iter().any(|sort| sort.damage == by);
    ensure!(is_there && LossVerdict::judge(Loss::Nothing, finding) == LossVerdict::Refuted, "{finding:?}");
    ensure!(finding.first.is_some(), "nothing is said of it");
    let named = finding.causes.iter().find(|cause| cause.damage == by);
    ensure!(named.is_some_and(|cause| is_right(lie, cause)), "{named:#?}");
    Ok(())
}

fn honest() -> Result<()> {
    // Some would be the same, and are made once.
    let finding = cuts_of("ext4", Lie::Nothing, 1300)?;
    ensure!(finding.cuts >= 1000 && finding.damages() == 0 && finding.lost_recent == 0, "{finding:?}");
    ensure!((0.0023..0.0030).contains(&finding.at_most()), "{}", finding.at_most());
    Ok(())
}

/// A full disk of the machine's own is no fault of a store's: there is no verdict.
#[expect(
    unsafe_code,
    reason = "setting a variable is unsafe beside other threads, of which this process has none"
)]
fn no_room() -> Result<()> {
    let (dir, full) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let none = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", full.path(), "tmpfs", none, Some(c"size=64k"))?;
    let lab = Lab::new(dir.path(), "ext4")?;
    // SAFETY: this process has one thread.
    unsafe { std::env::set_var("TMPDIR", full.path()) };
    let filled = std::fs::write(full.path().join("all"), vec![0; 128 << 10]);
    let refuses = candidate(Lie::Refuses);
    let line = line(&lab, &Trial::new(&refuses, Durability::EachWrite), 4, 1, true, &mut |_| ());
    rustix::mount::unmount(full.path(), rustix::mount::UnmountFlags::DETACH)?;
    let why = line.failed.as_deref().unwrap_or_default();
    ensure!(filled.is_err() && why.contains("directory for sockets") && line.verdict.is_none(), "{line:?}");
    Ok(())
}

/// What is to be done with a liar, in class each-write.
fn with<T>(lie: Lie, act: impl FnOnce(&Lab, &Trial<'_>) -> Result<T>) -> Result<T> {
    let dir = tempfile::tempdir()?;
    let lab = Lab::new(dir.path(), "ext4")?;
    let candidate = candidate(lie);
    let class = Durability::EachWrite;
    act(&lab, &Trial::new(&candidate, class))
}

fn kills_of(lie: Lie) -> Result<KillResults> {
    with(lie, |lab, trial| try_kills(lab, trial, 11, 1))
}

fn flips_of(lie: Lie) -> Result<FlipResults> {
    with(lie, |lab, trial| try_flips(lab, trial, 11, 1))
}

fn swallows() -> Result<()> {
    // Errors of writes and of flushes.
    let errors = with(Lie::Swallows, |lab, trial| try_errors(lab, trial, &ErrorKind::ALL[..6], 1, 1))?;
    let broken =
        |of: RequestKind| errors.cases.iter().filter(|case| case.breaks && case.kind.of == of).count();
    ensure!(broken(RequestKind::Write) > 0 && broken(RequestKind::Flush) > 0, "{errors:#?}");
    let lied = errors.cases.iter().filter(|case| case.outcome == StoreReaction::Lied);
    ensure!(lied.clone().count() > 0 && lied.clone().all(|case| case.wrong.is_some()), "{errors:#?}");
    Ok(())
}

fn honest_in_all() -> Result<()> {
    let kills = kills_of(Lie::Nothing)?;
    ensure!(
        kills.verdict() == DeclarationVerdict::Confirmed && kills.kills == 11 && kills.under_way > 0,
        "{kills:?}"
    );
    let flips = flips_of(Lie::Nothing)?;
    ensure!(flips.verdict() == DeclarationVerdict::Confirmed && flips.handed_out == 0, "{flips:?}");
    let errors = with(Lie::Nothing, |lab, trial| try_errors(lab, trial, &ErrorKind::ALL, 1, 1))?;
    ensure!(errors.cases.iter().all(|case| !case.breaks), "{errors:#?}");
    let said = errors.cases.iter().filter(|case| case.outcome == StoreReaction::Said);
    ensure!(said.count() > errors.cases.len() / 2, "{errors:#?}");
    Ok(())
}

/// What cuts take of uploads to a candidate.
fn cuts_of_uploads(candidate: &Candidate, class: Durability, cuts: usize) -> Result<PowerCutResults> {
    let dir = tempfile::tempdir()?;
    let trial = Trial { uploads: true, ..Trial::new(candidate, class) };
    try_cuts(&Lab::new(dir.path(), "ext4")?, &trial, cuts, 1, &mut |_| ())
}

/// A catalogue that is ahead of the blobs: the cause names the file whose bytes came too late.
fn hasty() -> Result<()> {
    let liar = candidate(Lie::CataloguesFirst);
    let mut options = liar.options.values().clone();
    options.insert("catalogue".to_owned(), "own".to_owned());
    let hasty = Candidate { options: Options::new(options), ..liar };
    let finding = cuts_of_uploads(&hasty, Durability::EachWrite, 10)?;
    let only_dangling = finding.damaged.iter().all(|sort| sort.damage == Damage::Dangling);
    ensure!(finding.damages() > 0 && only_dangling, "{finding:?}");
    ensure!(LossVerdict::judge(Loss::Nothing, &finding) == LossVerdict::Refuted, "{finding:?}");
    let is_blob = |write: &DiskWrite| write.place.as_ref().is_some_and(|place| place.file.contains("/new-"));
    let is_right = |cause: &CutCause| cause.by == CutBy::NotSent && cause.writes.iter().any(is_blob);
    ensure!(finding.causes.iter().any(is_right), "{:#?}", finding.causes);
    Ok(())
}

/// Wants uploads to keep what they promise in a class: every catalogued blob.
fn keep_uploads(store: &str, class: Durability, cuts: usize) -> Result<()> {
    let (candidates, _) = candidates(&[store.to_owned()], &Sets::default(), true)?;
    let finding = cuts_of_uploads(&candidates[0], class, cuts)?;
    let declared = Trial { uploads: true, ..Trial::new(&candidates[0], class) }.declared();
    ensure!(declared != Loss::All && finding.damages() == 0, "{store}: {finding:?}");
    // Cuts that would be the same are made once.
    ensure!(finding.cuts * 2 > cuts, "{store}: {} of {cuts} cuts", finding.cuts);
    Ok(())
}

fn uploads() -> Result<()> {
    keep_uploads("files/hashed", Durability::EachWrite, 24)?;
    keep_uploads("files/hashed", Durability::OnSync, 8)?;
    keep_uploads("sqlite[catalogue=own]", Durability::EachWrite, 6)?;
    keep_uploads("sqlite[catalogue=own-transaction]", Durability::EachWrite, 24)
}

fn uploads_to_a_server() -> Result<()> {
    keep_uploads("postgres/bytea[catalogue=own-transaction]", Durability::EachWrite, 6)
}

fn flushes_ignored() -> Result<()> {
    let asked = FaultTests { cuts_without_flushes: 12, ..FaultTests::default() };
    let besides = with(Lie::Nothing, |lab, trial| Ok(others(lab, trial, &asked, 1, &mut |_| ())))?;
    let ignored = besides.flushes_ignored.as_ref();
    ensure!(ignored.is_some_and(|ignored| ignored.broken > ignored.cuts / 2), "{besides:?}");
    ensure!(!besides.is_refuted(), "nobody promises anything on such a disk");
    Ok(())
}

// ---- stores, and the command ---------------------------------------------------------------------------------------

/// A lab that shares what stores need once with other tests.
fn lab(dir: &Path, kind: &str) -> Result<Lab> {
    // A database is made on the disk first, which takes minutes where the machine is busy.
    let lab = Lab::new(dir, kind)?.waiting(Duration::from_secs(600));
    Ok(match std::env::var_os(CACHE) {
        Some(cache) => lab.sharing(Path::new(&cache)),
        None => lab,
    })
}

/// Cuts the power of a database in each class with the first of its stores, and with the others in the strongest: a class is one
/// setting for all of them.
fn keep_of_server(stores: &[&str]) -> Result<()> {
    keep(&stores[..1], Durability::ALL, "ext4")?;
    keep(&stores[1..], EACH_WRITE, "ext4")
}

/// Cuts the power of stores 24 times in each of these classes that they have, and wants what each declares to hold. Where nothing is
/// promised, no cut could refute it.
fn keep(stores: &[&str], classes: &[Durability], kind: &str) -> Result<()> {
    const CUTS: usize = 24;
    let stores: Vec<String> = stores.iter().map(|store| (*store).to_owned()).collect();
    let (candidates, _) = candidates(&stores, &Sets::default(), true)?;
    let (mut refuted, mut is_tried) = (BTreeMap::new(), false);
    for candidate in &candidates {
        let known = (candidate.adapter.caps)(&candidate.options).durability;
        for class in classes.iter().filter(|class| known.contains(*class)) {
            let trial = Trial::new(candidate, *class);
            if trial.declared() > Loss::RecentWrites {
                continue;
            }
            let dir = tempfile::tempdir()?;
            let lab = lab(dir.path(), kind)?;
            let finding = try_cuts(&lab, &trial, CUTS, 2, &mut |_| ())?;
            is_tried = true;
            // What flushes nothing has one cut only.
            ensure!(finding.cuts > 0 && finding.unmountable * 10 <= CUTS, "{finding:?}");
            if LossVerdict::judge(trial.declared(), &finding) == LossVerdict::Refuted {
                refuted.insert((candidate.label.clone(), class.name()), finding);
            }
        }
    }
    ensure!(is_tried, "{stores:?} promise nothing in {classes:?}, so that no cut was made");
    ensure!(refuted.is_empty(), "{refuted:#?}");
    Ok(())
}

/// MySQL, in whose tablespaces a page is torn by hand before the load: cuts leave it so until it is written again. What the server began
/// with it still writes while it idles, sooner or later; so the page is torn until it stays so for a while.
fn torn_mysql(setup: &Setup, (file, page): (&str, u64)) -> blobwise::store::Result<Box<dyn Store>> {
    let store = (mysql()?.open)(setup)?;
    if setup.mode == Mode::Create {
        let file = File::options().read(true).write(true).open(setup.dir.join("data").join(file))?;
        let (at, mut whole) = (page * 16_384 + 8_192, [0; 512]);
        file.read_exact_at(&mut whole, at)?;
        let torn = whole.map(|byte| !byte);
        let mut looks = 0;
        while looks < 3 {
            if whole != torn {
                file.write_all_at(&torn, at)?;
                file.sync_all()?;
                looks = 0;
            }
            // Twice as long as the server waits before it takes itself to be idle.
            std::thread::sleep(Duration::from_secs(2));
            file.read_exact_at(&mut whole, at)?;
            looks += usize::from(whole == torn);
        }
    }
    Ok(store)
}

fn mysql() -> Result<&'static Adapter> {
    blobwise::stores::adapters().find(|adapter| adapter.name == "mysql/blob").context("no MySQL")
}

/// 9.7.4 does not survive that this one page is torn, and every other page that keeps it from starting is a fault of somebody's.
fn known_fault() -> Result<()> {
    type Open = fn(&Setup) -> blobwise::store::Result<Box<dyn Store>>;
    let pages: [(Open, bool); 2] = [
        (|setup| torn_mysql(setup, ("ibdata1", 5)), true),
        (|setup| torn_mysql(setup, ("ibdata1", 0)), false),
    ];
    for (open, is_known) in pages {
        let dir = tempfile::tempdir()?;
        let adapter: &'static Adapter = Box::leak(Box::new(Adapter { open, ..*mysql()? }));
        let torn = Candidate { label: "torn".to_owned(), adapter, options: defaults(adapter) };
        let is_over = Arc::new(AtomicBool::new(false));
        let lab = lab(dir.path(), "ext4")?.stopped_by(Arc::clone(&is_over));
        let trial = Trial::new(&torn, Durability::EachWrite);
        let bench = lab.record(&trial, 1)?;
        let version = bench.version().unwrap_or_default().to_owned();
        if is_known && !adapter.needs.faults.iter().any(|fault| fault.is_of(&version)) {
            continue;
        }
        // The first of some cuts after which it does not start.
        let mut damage = None;
        let ended = bench.each_cut(24, 1, &mut |cut, found| {
            let judged = found.map(|found| bench.judge(trial.declared(), cut, &found));
            damage = judged.and_then(|judged| judged.worst).map(|lost| lost.damage);
            is_over.store(damage.is_some(), Ordering::SeqCst);
        });
        ensure!(is_over.load(Ordering::SeqCst), "{ended:?}");
        let expected = if is_known { Damage::KnownFault } else { Damage::Unusable };
        ensure!(damage == Some(expected), "{version}, {expected:?}: {damage:?}");
    }
    Ok(())
}

/// The stores that have no test of their own here, but for those that are not cut: LMDB, redb, fjall, and whatever is new.
fn others_to_keep() -> Vec<&'static str> {
    let own_tests = [MYSQL, MARIADB, POSTGRES, FERRETDB, OBJECTS, FILES, &["redis", "valkey"]].concat();
    let has_test = |name: &str| own_tests.iter().any(|store| store.split('[').next() == Some(name));
    let is_excused = |name: &str| NOT_CUT.iter().any(|(begin, _)| name.starts_with(begin));
    let adapters =
        blobwise::stores::adapters().filter(|adapter| (adapter.caps)(&defaults(adapter)).persistent);
    adapters.map(|adapter| adapter.name).filter(|name| !has_test(name) && !is_excused(name)).collect()
}

/// What is done with stores in a class, one after the other.
fn each<T>(
    stores: &[&str],
    classes: &[Durability],
    act: impl Fn(&Lab, &Trial<'_>) -> Result<T>,
) -> Result<Vec<(String, T)>> {
    let stores: Vec<String> = stores.iter().map(|store| (*store).to_owned()).collect();
    let (candidates, _) = candidates(&stores, &Sets::default(), true)?;
    let mut all = Vec::new();
    for candidate in &candidates {
        let known = (candidate.adapter.caps)(&candidate.options).durability;
        for class in classes.iter().filter(|class| known.contains(*class)) {
            let dir = tempfile::tempdir()?;
            let lab = lab(dir.path(), "ext4")?;
            let trial = Trial::new(candidate, *class);
            all.push((format!("{} in class {}", candidate.label, class.name()), act(&lab, &trial)?));
        }
    }
    Ok(all)
}

fn embedded_killed() -> Result<()> {
    let stores = ["files/hashed", "zip", "tar", "sqlite", "lmdb", "redb", "fjall"];
    let killed = each(&stores, Durability::ALL, |lab, trial| try_kills(lab, trial, 2, 2))?;
    let refuted: Vec<_> =
        killed.iter().filter(|(_, kills)| kills.verdict() == DeclarationVerdict::Refuted).collect();
    ensure!(refuted.is_empty(), "{refuted:#?}");
    Ok(())
}

/// A few errors.
const FEW_ERRORS: [ErrorKind; 3] = [ErrorKind::ALL[0], ErrorKind::ALL[4], ErrorKind::ALL[7]];

fn failing() -> Result<()> {
    let few = |lab: &Lab, trial: &Trial<'_>| try_errors(lab, trial, &FEW_ERRORS, 1, 2);
    let all = each(&["files/hashed", "sqlite"], &[Durability::EachWrite], few)?;
    for (who, errors) in &all {
        let said = errors.cases.iter().any(|case| case.outcome == StoreReaction::Said && case.said.is_some());
        let lied = errors.cases.iter().any(|case| case.breaks);
        ensure!(said && !(lied && who.starts_with("files")), "{who}: {errors:#?}");
    }
    Ok(())
}

/// One write of a blob's bytes fails: the sync that is told so fails, and the next one may not promise what the first one did not keep.
fn syncs_behind_a_failed_one() -> Result<()> {
    let stores = ["files/hashed", "files/flat[sync=fsync]", "zip", "tar", "sqlite", "lmdb", "redb", "fjall"];
    let (candidates, _) = candidates(&stores.map(str::to_owned), &Sets::default(), true)?;
    for candidate in &candidates {
        on_a_disk_that_refuses_one_write(&|dir, switch| refuses_later_syncs(candidate, dir, switch))
            .with_context(|| candidate.label.clone())?;
    }
    let liar = Candidate { label: "liar".to_owned(), ..candidate(Lie::Swallows) };
    let caught = on_a_disk_that_refuses_one_write(&|dir, switch| refuses_later_syncs(&liar, dir, switch));
    ensure!(caught.is_err(), "a store that swallows errors is not caught");
    Ok(())
}

/// Does something, in a process of its own, in a file system on a disk that refuses the first write once its switch is on.
fn on_a_disk_that_refuses_one_write(work: &dyn Fn(&Path, &Switch) -> Result<()>) -> Result<()> {
    let (dir, mount) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let fails = Failure { of: RequestKind::Write, nth: 1, for_ever: false, error: DiskError::Broken };
    let faults = Faults { fails: Some(fails), ..Faults::default() };
    let file = DiskFile::serve(dir.path(), &mut vec![0; 128 << 20], |_| (), None, faults)?;
    let mut device = LoopDevice::attach(&file.path())?;
    device::format("ext4", device.path())?;
    device.mount("ext4", mount.path(), "")?;
    let (is_well, said) = (SharedFlag::new()?, tempfile::NamedTempFile::new()?);
    let worker = Forked::begin(|| match work(mount.path(), file.switch()) {
        Ok(()) => is_well.get().store(true, Ordering::SeqCst),
        Err(why) => drop(std::fs::write(said.path(), format!("{why:#}"))),
    })?;
    worker.wait()?;
    device.unmount()?;
    ensure!(file.switch().failed() == 1, "no write was refused");
    let said = std::fs::read_to_string(said.path())?;
    ensure!(is_well.get().load(Ordering::SeqCst), "its process failed: {said}");
    Ok(())
}

fn refuses_later_syncs(candidate: &Candidate, dir: &Path, switch: &Switch) -> Result<()> {
    let Candidate { adapter, options, .. } = candidate;
    let (place, common) = (dir.join("store"), Common::new(dir.join("common")));
    let setup = Setup { store_bytes_max: 8 << 20, ..opening::small(&place, &common, options) };
    std::fs::create_dir(setup.dir)?;
    let store = (adapter.open)(&setup)?;
    let mut session = store.session()?;
    let blobs = [vec![1; 20_000], vec![2; 20_000]];
    session.put(&content_key(0, &blobs[0]), &blobs[0])?;
    session.sync()?;
    switch.enable();
    let put = session.put(&content_key(1, &blobs[1]), &blobs[1]);
    let synced = session.sync();
    switch.disable();
    ensure!(put.is_err() || synced.is_err(), "nobody said that a write failed");
    ensure!(session.sync().is_err(), "a later sync said that all is kept");
    drop(session);
    if (adapter.caps)(options).changes { Ok(()) } else { goes_by_the_disk(adapter, &setup, store) }
}

/// An archive in which the header of an entry was not written is opened again. What is put behind that entry must be found by who has
/// nothing of it in the page cache.
fn goes_by_the_disk(adapter: &Adapter, setup: &Setup<'_>, failed: Box<dyn Store>) -> Result<()> {
    ensure!(failed.close().is_err(), "it was closed as if no write had failed");
    let again = Setup { mode: Mode::Open, ..setup.clone() };
    let blob = vec![3; 20_000];
    let key = content_key(2, &blob);
    let store = (adapter.open)(&again)?;
    {
        let mut session = store.session()?;
        session.put(&key, &blob)?;
        session.sync()?;
    }
    // As after a kill.
    std::mem::forget(store);
    machine::evict(setup.dir);
    let store = (adapter.open)(&again)?;
    let found = store.session()?.get(&key, Span::Whole, &mut |_| {})?;
    ensure!(found, "a blob that was put and synced after the store was opened again is lost");
    Ok(())
}

/// A flush that fails once: nobody may go on as if nothing were, unless it was another's.
fn others_failing() -> Result<()> {
    let flush = [ErrorKind::ALL[4]];
    let few = |lab: &Lab, trial: &Trial<'_>| {
        let mut errors = try_errors(lab, trial, &flush, 2, 2)?;
        // Who has all files written at that moment, as other tests do, may be told in place of the store: other loads are tried then.
        for seed in 3..6 {
            if errors.cases.iter().all(|case| case.outcome == StoreReaction::ToldAnother) {
                errors = try_errors(lab, trial, &flush, 2, seed)?;
            }
        }
        Ok(errors)
    };
    for (who, errors) in each(&["lmdb", "redb", "fjall"], &[Durability::EachWrite], few)? {
        let is_told = |case: &ErrorCase| {
            matches!(case.outcome, StoreReaction::Said | StoreReaction::ToldAnother) && !case.breaks
        };
        let is_right = errors.cases.len() == 2 && errors.cases.iter().all(is_told);
        let is_said = errors.cases.iter().any(|case| case.outcome == StoreReaction::Said);
        ensure!(is_right && is_said, "{who}: {errors:#?}");
    }
    Ok(())
}

fn servers_fail() -> Result<()> {
    let class = [Durability::EachWrite];
    let killed = each(FEW_SERVERS, &class, |lab, trial| try_kills(lab, trial, 2, 2))?;
    let refuted: Vec<_> =
        killed.iter().filter(|(_, kills)| kills.verdict() == DeclarationVerdict::Refuted).collect();
    ensure!(refuted.is_empty() && killed.len() == 2, "{refuted:#?}");
    // The first place is in the load, the other one may be where it is closed.
    let flush = [ErrorKind::ALL[5]];
    for (who, errors) in each(FEW_SERVERS, &class, |lab, trial| try_errors(lab, trial, &flush, 2, 2))? {
        let noticed = |case: &ErrorCase| matches!(case.outcome, StoreReaction::Said | StoreReaction::Stopped);
        let is_right = errors.cases.iter().any(noticed) && errors.cases.iter().all(|case| !case.breaks);
        ensure!(is_right, "{who}: {errors:#?}");
    }
    Ok(())
}

fn several() -> Result<()> {
    let stores = ["files/hashed", "sqlite"].map(str::to_owned);
    let (candidates, _) = candidates(&stores, &Sets::default(), true)?;
    for (candidate, class) in candidates.iter().zip([Durability::EachWrite, Durability::OnSync]) {
        let dir = tempfile::tempdir()?;
        let lab = Lab::new(dir.path(), "ext4")?.with_workers(4);
        let trial = Trial::new(candidate, class);
        let finding = try_cuts(&lab, &trial, 16, 3, &mut |_| ())?;
        ensure!(LossVerdict::judge(trial.declared(), &finding) == LossVerdict::Confirmed, "{finding:?}");
    }
    // What is wrong is seen with several as with one.
    let (dir, liar) = (tempfile::tempdir()?, candidate(Lie::NoFlush));
    let lab = Lab::new(dir.path(), "ext4")?.with_workers(4);
    let class = Durability::EachWrite;
    let trial = Trial::new(&liar, class);
    let finding = try_cuts(&lab, &trial, 12, 3, &mut |_| ())?;
    ensure!(LossVerdict::judge(Loss::Nothing, &finding) == LossVerdict::Refuted, "{finding:?}");
    Ok(())
}

/// No mount option of XFS keeps flushes from its disk.
fn controlled() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let controls = controls(&Lab::new(dir.path(), "xfs")?, 1)?;
    ensure!(controls.len() == 3 && controls.iter().all(Control::holds), "{controls:?}");
    Ok(())
}

const BLOBWISE: &str = env!("CARGO_BIN_EXE_blobwise");

/// Loop devices whose file lies below a directory: others may make some meanwhile.
fn loops_below(dir: &Path) -> Vec<String> {
    let Ok(dir) = dir.canonicalize() else { return Vec::new() };
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let file = |device: &Path| std::fs::read_to_string(device.join("loop/backing_file"));
    let own =
        devices.filter(|device| file(&device.path()).is_ok_and(|file| Path::new(&file).starts_with(&dir)));
    own.map(|device| device.file_name().to_string_lossy().into_owned()).collect()
}

/// Waits until something is so, for a minute at the most.
fn until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let begin = machine::uptime();
    while !is_so() {
        ensure!(machine::uptime() - begin < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn killed() -> Result<()> {
    // Killed while a disk is formatted, filled, looked at.
    for milliseconds in [0, 40, 150, 400, 900] {
        killed_after(milliseconds, &["--stores", "files/hashed,sqlite", "--cuts", "1000"])?;
    }
    // While stores are killed, and while their disk fails.
    killed_after(500, &["--stores", "sqlite", "--cuts", "0", "--kills", "1000"])?;
    killed_after(1200, &["--stores", "sqlite", "--cuts", "0", "--kills", "0", "--errors"])?;
    if missing("redis").is_none() {
        killed_after(700, &["--stores", "redis", "--cuts", "0", "--kills", "1000"])?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "it is killed on purpose")]
fn killed_after(milliseconds: u64, words: &[&str]) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut command = Command::new(BLOBWISE);
    command.arg("crash").args(words).arg("--dir").arg(dir.path());
    let mut run = command.stdout(Stdio::null()).spawn()?;
    until("a disk is made", || !loops_below(dir.path()).is_empty())?;
    std::thread::sleep(Duration::from_millis(milliseconds));
    run.kill()?;
    run.wait()?;
    until("its loop device is free", || loops_below(dir.path()).is_empty())?;
    until("no process of it is left", || !is_named_by_a_process(dir.path()))?;
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    ensure!(!mounts.contains(&*dir.path().to_string_lossy()), "{mounts}");
    // What lies there is removed by the next run.
    ensure!(left(dir.path())?.len() == 1, "{:?}", left(dir.path())?);
    // Without cuts there are no controls, which take longest.
    let line =
        ["crash", "--stores", "files/hashed", "--durability", "none", "--cuts", "0", "--kills", "1", "--dir"];
    // Processes of the one that was killed may live a moment longer, and hold it.
    until("what is left is removed", || {
        let ended = Command::new(BLOBWISE).args(line).arg(dir.path()).output();
        ended.is_ok_and(|ended| ended.status.success()) && left(dir.path()).is_ok_and(|left| left.is_empty())
    })
}

/// Whether a path is in the command line of a process that runs.
fn is_named_by_a_process(path: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(&*path.to_string_lossy()))
}

fn left(dir: &Path) -> Result<Vec<PathBuf>> {
    Ok(std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?)
}

fn refused() -> Result<()> {
    for (words, says) in [
        (&["--stores", "memcached"][..], "keeps nothing on a disk"),
        (&["--fs", "fat"][..], "`fat`"),
        (&["--durability", "some"][..], "`some`"),
        (&["--stores", "nothing"][..], "`nothing`"),
        // Families, without those that nothing can be taken from.
        (
            &["--stores", "files", "--cuts", "0", "--kills", "0"][..],
            "left out: `files/ramdisk` keeps nothing",
        ),
        (&["--stores", "files/*,memory"][..], "`memory` keeps nothing on a disk"),
        (&["--cuts", "0", "--kills", "0"][..], "leaves nothing to do"),
        (&["--uploads", "--stores", "redis[catalogue=own]"][..], "no catalogue of its own: it is no SQL"),
        (&["--uploads", "--stores", "sqlite[key=integer]"][..], "uploads have a digest"),
        (&["--stores", "sqlite", "--set", "lmdb.catalogue=own"][..], "lmdb.catalogue"),
        (&["--json", "no/such/place"][..], "cannot write `no/such/place`"),
        (&["--html", "tests"][..], "cannot write `tests`"),
        (&["--again", "Cargo.toml", "--markdown", "/dev/null"][..], "`Cargo.toml` is nothing that"),
        (&["--again", "Cargo.toml"][..], "--markdown FILE or --html FILE"),
    ] {
        let ended = Command::new(BLOBWISE).arg("crash").args(words).output()?;
        let said = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.code() == Some(2) && said.contains(says), "{words:?}: {said}");
    }
    Ok(())
}

/// What a command says, with its exit code.
fn said_by(command: &mut Command) -> Result<(Option<i32>, String)> {
    let ended = command.output()?;
    let said = [ended.stdout, ended.stderr].concat();
    Ok((ended.status.code(), String::from_utf8_lossy(&said).into_owned()))
}

/// A server that says what it is and does not start.
fn failing_load() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let server = dir.path().join("redis-server");
    std::fs::write(
        &server,
        "#!/bin/sh\n[ \"$1\" = --version ] && exec echo 'Redis server v=7.0.15 sha=0'\nexit 3\n",
    )?;
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755))?;
    let file = |name: &str| dir.path().join(name);
    let mut command = Command::new(BLOBWISE);
    command.args(["crash", "--stores", "redis,files/hashed", "--durability", "each-write", "--cuts", "4"]);
    command.arg("--dir").arg(dir.path()).env("BLOBWISE_REDIS", &server);
    command.arg("--json").arg(file("json")).arg("--html").arg(file("html")).arg("--markdown").arg(file("md"));
    let (code, said) = said_by(&mut command)?;
    ensure!(code == Some(1) && said.contains("each-write failed: "), "{code:?}: {said}");
    ensure!(said.lines().all(|line| line.chars().count() <= 80), "more than 80 columns: {said}");
    let report: CrashReport = serde_json::from_slice(&std::fs::read(file("json"))?)?;
    let [failed, whole] = report.lines.as_slice() else { anyhow::bail!("{:?}", report.lines) };
    ensure!(failed.failed.is_some() && failed.finding.is_none() && failed.verdict.is_none(), "{failed:?}");
    ensure!(
        whole.failed.is_none() && whole.finding.as_ref().is_some_and(|found| found.cuts > 0),
        "{whole:?}"
    );
    // The pages made anew are the same.
    let mut again = Command::new(BLOBWISE);
    again.args(["crash", "--again"]).arg(file("json")).arg("--markdown").arg(file("again.md"));
    ensure!(said_by(again.arg("--html").arg(file("again.html")))?.0 == Some(0));
    let read = |name: &str| std::fs::read_to_string(file(name));
    ensure!(read("md")? == read("again.md")? && read("html")? == read("again.html")?);
    ensure!(read("md")?.contains("`redis` in class each-write on ext4 failed: "), "{}", read("md")?);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "it is stopped on purpose")]
fn stopped() -> Result<()> {
    // While it does a load, and amid cuts.
    for milliseconds in [0, 1500] {
        let dir = tempfile::tempdir()?;
        let mut command = Command::new(BLOBWISE);
        command.args(["crash", "--stores", "sqlite", "--cuts", "50000", "--dir"]).arg(dir.path());
        let mut run = command.stdout(Stdio::null()).spawn()?;
        until("a disk is made", || !loops_below(dir.path()).is_empty())?;
        std::thread::sleep(Duration::from_millis(milliseconds));
        let pid = rustix::process::Pid::from_child(&run);
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        let begin = machine::uptime();
        let code = run.wait()?.code();
        let took = machine::uptime() - begin;
        ensure!(code == Some(130), "{code:?}");
        // A cut takes a part of a second, and seconds where the machine is busy; all of them would take an hour.
        ensure!(took < Duration::from_secs(60), "stopped after {took:?}");
        ensure!(left(dir.path())?.is_empty(), "{:?}", left(dir.path())?);
        until("its loop device is free", || loops_below(dir.path()).is_empty())?;
    }
    Ok(())
}

/// A run of few blobs whose phases fill and cut, with so many rounds.
fn run_of(dir: &Path, stores: &str, rounds: &str) -> Command {
    let mut command = Command::new(BLOBWISE);
    command.args(["run", "--stores", stores, "--phases", "fill,crash", "--blobs", "4", "--scale", "0.25"]);
    command
        .args(["--rounds", rounds, "--durability", "each-write", "--quiet", "--dir"])
        .arg(dir.join("place"));
    command.arg("--out").arg(dir.join("out"));
    command
}

fn planned() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (code, said) = said_by(&mut run_of(dir.path(), "files/hashed,memory", "2"))?;
    ensure!(code == Some(0) && said.starts_with("Power cuts\n"), "{code:?}: {said}");
    let out = dir.path().join("out");
    let result = blobwise::result::RunResult::load(&out)?;
    let cuts: Vec<_> =
        result.findings.iter().filter_map(|finding| finding.found.power_cuts.as_ref()).collect();
    let [one, other] = cuts.as_slice() else { anyhow::bail!("{} rounds were cut", cuts.len()) };
    ensure!(one.controls.len() == 3 && one.controls == other.controls, "{:?}", other.controls);
    let course = |cuts: &Cuts| cuts.line.finding.clone().map(|found| found.course);
    ensure!(course(one) != course(other), "both rounds made the same cuts");
    let cell = result.cell("memory", "crash");
    let why = cell.and_then(|cell| cell.reason.clone()).unwrap_or_default();
    ensure!(why.contains("keeps nothing on a disk that a power cut"), "{why}");
    let answer = result.answer.join("\n");
    ensure!(
        answer.contains("Keeping what is promised through power cuts: holds for 1 candidate"),
        "{answer}"
    );
    let page = std::fs::read_to_string(out.join("report.html"))?;
    ensure!(page.contains("<section id=\"power-cuts\">") && page.contains("<strong>kept</strong><br>0 of "));
    let (_, text) = said_by(Command::new(BLOBWISE).args(["report", "--markdown"]).arg(&out))?;
    ensure!(
        text.contains("## Power cuts") && text.contains("| `files/hashed` | ext4 | kept, 0 of "),
        "{text}"
    );
    ensure!(left(&dir.path().join("place")).is_err() || left(&dir.path().join("place"))?.is_empty());
    Ok(())
}

/// Another user, with a program and a place that are open to everybody.
fn no_right() -> Result<()> {
    const NOBODY: u32 = 65_534;
    let dir = tempfile::tempdir()?;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777))?;
    let program = dir.path().join("blobwise");
    std::fs::copy(BLOBWISE, &program)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    let as_nobody = |line: &str| {
        let mut command = Command::new(&program);
        command.args(line.split(' ')).uid(NOBODY).gid(NOBODY).current_dir(dir.path());
        command.env("BLOBWISE_SUPERVISOR", &program);
        said_by(&mut command)
    };
    let (code, said) = as_nobody("crash --cuts 2")?;
    ensure!(code == Some(2) && said.contains("the right to mount: run as root"), "{code:?}: {said}");
    let (code, said) =
        as_nobody("run --stores files/hashed --phases fill,crash --blobs 4 --rounds 1 --quiet")?;
    ensure!(code == Some(0) && said.contains("the right to mount: run as root"), "{code:?}: {said}");
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "it is killed on purpose")]
fn run_killed() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut run = run_of(dir.path(), "sqlite", "9").stdout(Stdio::null()).spawn()?;
    until("a disk is made", || !loops_below(dir.path()).is_empty())?;
    std::thread::sleep(Duration::from_millis(300));
    run.kill()?;
    run.wait()?;
    until("its loop device is free", || loops_below(dir.path()).is_empty())?;
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    ensure!(!mounts.contains(&*dir.path().to_string_lossy()), "{mounts}");
    Ok(())
}
