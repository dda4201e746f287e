//! The lab in which cuts are made: a directory with simulated disks, and processes that may die.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::Trial;
use super::check::{self, CheckOutcome, Checker};
use super::cuts::{self, Cut};
use super::load::{self, CrashLoad, History, KEYS_MAX};
use super::oracle::{BlobState, LoadHistory, StoreVerdict};
use super::patience;
use super::uploads::{CataloguedStore, DanglingEntry};
use crate::host::disk::{self, DiskFile, Faults, Log, LogEntryKind, LoopDevice, Switch};
use crate::host::fork::{Forked, SharedWords};
use crate::host::machine;
use crate::host::server::{Program, SocketDir};
use crate::plan::{Candidate, defaults};
use crate::result::checked::FileSystemCheck;
use crate::result::crash::{LoadRequests, LogPositions};
use crate::store::{
    Adapter, Common, Durability, Error as StoreError, KnownFault, Loss, Mode, NoticedBy, Options, Setup,
    Span, Store,
};
use crate::suggest::unknown;

const DISK_BYTES: usize = 1 << 30;
/// Bytes of writes that a log can hold.
pub(super) const LOG_BYTES: u64 = 1 << 30;
/// Time for a store to open; after that it is killed and tried again.
const OPENS_WITHIN: Duration = Duration::from_secs(20);
/// Default time limit of a load.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A directory for power cut tests, with its settings.
#[derive(Clone, Debug)]
pub struct Lab {
    file: PathBuf,
    mount: PathBuf,
    common: PathBuf,
    maker: &'static CheckableFileSystem,
    found: PathBuf,
    stop: Arc<AtomicBool>,
    patience: Duration,
    /// Number of workers that run a load concurrently.
    pub(super) workers: usize,
    /// Faults of its disks: of a load's disk, and of the disks that are examined.
    faults: [Faults; 2],
}

#[derive(Debug)]
pub(super) struct Mounted {
    // In the order in which they must be dropped.
    device: LoopDevice,
    disk: DiskFile,
}

#[derive(Debug)]
struct CheckableFileSystem {
    kind: &'static str,
    program: Program,
    /// Arguments besides the device.
    words: &'static [&'static str],
    checker: Checker,
}

const MAKERS: &[CheckableFileSystem] = &[
    CheckableFileSystem {
        kind: "ext4",
        program: Program::plain("mkfs.ext4", &["-V"], "mke2fs", "apt-get install e2fsprogs"),
        // Initialises everything at once, so that the kernel does not do it later; a journal as on small disks; and as many
        // inodes as any store needs, because 16 MiB of empty inodes would be part of every image.
        words: &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-J", "size=8", "-N", "8192"],
        checker: Checker {
            program: Program::plain("e2fsck", &["-V"], "e2fsck", "apt-get install e2fsprogs"),
            words: &["-f", "-n"],
            wrong: 4,
        },
    },
    CheckableFileSystem {
        kind: "xfs",
        program: Program::plain("mkfs.xfs", &["-V"], "mkfs.xfs", "apt-get install xfsprogs"),
        words: &["-q", "-f"],
        checker: Checker {
            program: Program::plain("xfs_repair", &["-V"], "xfs_repair", "apt-get install xfsprogs"),
            words: &["-n"],
            wrong: 1,
        },
    },
    CheckableFileSystem {
        kind: "btrfs",
        program: Program::plain("mkfs.btrfs", &["--version"], "mkfs.btrfs", "apt-get install btrfs-progs"),
        words: &["-q", "-f"],
        checker: Checker {
            program: Program::plain("btrfs", &["--version"], "btrfs-progs", "apt-get install btrfs-progs"),
            words: &["check", "--readonly"],
            wrong: 1,
        },
    },
];

fn maker(kind: &str) -> Result<&'static CheckableFileSystem> {
    let found = MAKERS.iter().find(|maker| maker.kind == kind);
    found.ok_or_else(|| unknown("file system", kind, MAKERS.iter().map(|maker| maker.kind)))
}

/// A recorded load, ready for cuts.
pub struct RecordedLoad<'a> {
    pub(super) lab: &'a Lab,
    pub(super) trial: Trial<'a>,
    pub(super) log: Arc<Log>,
    pub(super) history: History,
    pub(super) load: CrashLoad,
    begun: usize,
    end: usize,
    version: Option<String>,
    noticed_by: Option<NoticedBy>,
}

/// State of the store after a cut.
#[derive(Clone, Debug)]
pub struct RecoveredState {
    /// Seconds from opening to the first read; `None` unless the store opened and every blob was tried.
    pub open_seconds: Option<f64>,
    /// Reason why it did not open, or did not read on, if known.
    pub(super) refused: Option<String>,
    pub(super) blobs: Vec<BlobState>,
    /// Result of the file system's own check, if it was made.
    pub(super) said: Option<CheckOutcome>,
    /// True if it hung and opened at the second attempt.
    pub opened_again: bool,
    /// Declared fault of its program that explains why it did not open.
    pub(super) fault: Option<&'static KnownFault>,
}

/// Returns why this machine cannot make such disks with this file system, or this process may not mount them; `None` if it can.
pub fn lacks(kind: &str) -> Option<anyhow::Error> {
    disk::why_not_mounted().or_else(|| Lab::why_unavailable(kind))
}

/// File system type of a directory if it can be tested, otherwise the most common one.
pub fn kind_below(dir: &Path) -> &'static str {
    let kind = machine::file_system(dir);
    let known = MAKERS.iter().find(|maker| Some(maker.kind) == kind.as_deref());
    known.or(MAKERS.first()).map_or("", |maker| maker.kind)
}

impl Lab {
    /// Returns what this machine lacks for such disks with this file system; `None` if it lacks nothing.
    pub fn why_unavailable(kind: &str) -> Option<anyhow::Error> {
        let maker = match maker(kind) {
            Ok(maker) => maker,
            Err(error) => return Some(error),
        };
        let of_kernel = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|file| !Path::new(file).exists());
        let no_device = of_kernel.map(|file| {
            anyhow!(
                "`{file}` is missing: load the kernel's module, or start the container with `--privileged`"
            )
        });
        no_device.or_else(|| maker.program.find().err())
    }

    /// Sets up a lab in an empty directory. Its mounts are visible to this process and its children only.
    pub fn new(dir: &Path, kind: &str) -> Result<Lab> {
        let maker = maker(kind)?;
        let lab = Lab {
            file: dir.join("disk"),
            mount: dir.join("mounted"),
            common: dir.join("cache"),
            maker,
            found: maker.program.find()?.path,
            stop: Arc::default(),
            patience: PATIENCE,
            workers: 1,
            faults: [Faults::default(); 2],
        };
        for dir in [&lab.file, &lab.mount] {
            std::fs::create_dir(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        }
        Ok(lab)
    }

    /// Keeps the files that stores share in a directory that outlives the lab.
    pub fn sharing(self, common: &Path) -> Lab {
        Lab { common: common.to_owned(), ..self }
    }

    /// Type of its file system.
    pub fn kind(&self) -> &'static str {
        self.maker.kind
    }

    pub(super) fn add_check(&self, said: CheckOutcome, sum: &mut FileSystemCheck) {
        self.maker.checker.add(said, sum);
    }

    /// Makes it stop early, with an error, once `stop` is set.
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Lab {
        Lab { stop, ..self }
    }

    /// Fails if it was told to stop.
    pub(super) fn go_on(&self) -> Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "stopped");
        Ok(())
    }

    /// Sets the time limit of a load or a look.
    pub fn waiting(self, patience: Duration) -> Lab {
        Lab { patience, ..self }
    }

    pub(super) fn mount(&self) -> &Path {
        &self.mount
    }

    /// Makes a file system on a new disk and mounts it.
    pub(super) fn fresh(&self, log: Option<Arc<Log>>, faults: Faults) -> Result<Mounted> {
        let disk = DiskFile::serve(&self.file, &mut vec![0; DISK_BYTES], |_| (), log, faults)?;
        disk.patience(self.patience);
        let device = LoopDevice::attach(&disk.path())?;
        self.format(device.path())?;
        let mut mounted = Mounted { device, disk };
        mounted.device.mount(self.maker.kind, &self.mount, "")?;
        Ok(mounted)
    }

    /// Sets the number of concurrent workers of a load.
    pub fn with_workers(self, workers: usize) -> Lab {
        Lab { workers: workers.max(1), ..self }
    }

    /// Sets the faults of a load's disk, and of the disks that are examined.
    pub fn with_faults(self, load: Faults, looks: Faults) -> Lab {
        Lab { faults: [load, looks], ..self }
    }

    /// Waits for a process that works on a disk and returns its exit status. After `patience`, or when the lab is stopped, the
    /// process is killed, after a call of `tell` with its pid: the result is then `None`, or an error if it was stopped.
    fn ends(
        &self,
        disk: &DiskFile,
        mut process: Forked,
        patience: Duration,
        tell: impl FnOnce(i32),
    ) -> Result<Option<ExitStatus>> {
        const LOOK: Duration = Duration::from_millis(20);
        disk.patience(patience + patience::GRACE);
        let begin = machine::uptime();
        loop {
            if let Some(status) = process.wait_for(LOOK)? {
                // Later work has its own time limit.
                disk.patience(self.patience + patience::GRACE);
                return Ok(Some(status));
            }
            let stopped = self.go_on();
            if stopped.is_err() || machine::uptime() - begin > patience {
                tell(process.pid());
                process.kill();
                disk.patience(self.patience + patience::GRACE);
                return stopped.map(|()| None);
            }
        }
    }

    /// Waits for a process that works on a mounted file system, up to the shorter of `patience` and the load's limit.
    pub(super) fn waits(
        &self,
        mounted: &Mounted,
        process: Forked,
        patience: Duration,
    ) -> Result<Option<ExitStatus>> {
        self.ends(&mounted.disk, process, patience.min(self.patience), |_| ())
    }

    fn format(&self, device: &Path) -> Result<()> {
        let program = self.maker.program.name;
        let mut command = Command::new(&self.found);
        let output = command.args(self.maker.words).arg(device).stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("`{program}` does not start"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`{program}` failed: {}", said.trim());
        Ok(())
    }

    pub(super) fn open(&self, trial: &Trial<'_>, load: &CrashLoad, mode: Mode) -> Result<Box<dyn Store>> {
        let (dir, Candidate { adapter, options, .. }) = (self.store(), trial.candidate);
        if !trial.uploads {
            return self.open_in(&dir, (adapter, options), trial.class, mode);
        }
        if mode == Mode::Create {
            std::fs::create_dir(&dir)?;
        }
        let blobs = self.open_in(&dir.join("blobs"), (adapter, options), trial.class, mode)?;
        let apart = trial.catalogue().map(|adapter| {
            self.open_in(&dir.join("catalogue"), (adapter, &defaults(adapter)), trial.class, mode)
        });
        let digests = load.digests.clone();
        let one_transaction = trial.is_one_transaction();
        CataloguedStore { blobs, catalogue: apart.transpose()?, one_transaction, digests }.opened()
    }

    fn open_in(
        &self,
        dir: &Path,
        (adapter, options): (&Adapter, &Options),
        class: Durability,
        mode: Mode,
    ) -> Result<Box<dyn Store>> {
        let common = Common::new(self.common.clone());
        if mode == Mode::Create {
            std::fs::create_dir(dir)?;
        }
        let setup = Setup {
            dir,
            common: &common,
            mode,
            durability: class,
            cache_bytes: 8 << 20,
            fits: true,
            blob_bytes_max: 64 << 10,
            store_bytes_max: 32 << 20,
            keys_max: KEYS_MAX + 1,
            workers: self.workers,
            op_timeout: Duration::from_secs(10),
            options,
            join_token: None,
        };
        Ok((adapter.open)(&setup)?)
    }

    /// Runs a load and records what the disk received.
    pub fn record<'a>(&'a self, trial: &Trial<'a>, seed: u64) -> Result<RecordedLoad<'a>> {
        self.record_to(trial, seed, Ending::Cut)
    }

    pub(super) fn record_to<'a>(
        &'a self,
        trial: &Trial<'a>,
        seed: u64,
        ending: Ending,
    ) -> Result<RecordedLoad<'a>> {
        let log = Arc::new(Log::new(LOG_BYTES)?);
        let (history, load) = (History::new()?.of_workers(self.workers), CrashLoad::for_trial(trial, seed)?);
        let (failed, version) = (SharedWords::new(256)?, SharedWords::new(32)?);
        let noticed_by = SharedWords::new(1)?;
        let work = |switch: &Switch| {
            let store = self.open(trial, &load, Mode::Create)?;
            say(&version, &version_of(store.as_ref()).unwrap_or_default());
            noticed_by.get()[0].store(noticed(trial, store.as_ref()), Ordering::SeqCst);
            machine::sync_filesystem(&self.mount)?;
            switch.enable();
            history.begin(&log);
            load::run(store.as_ref(), trial.class, &load, &log, &history)?;
            history.end(&log);
            match ending {
                // The power fails before the store is closed.
                Ending::Cut => std::mem::forget(store),
                Ending::Closed => store.close()?,
            }
            anyhow::Ok(())
        };
        self.on_new_disk(trial, &log, &|switch| {
            if let Err(error) = work(switch) {
                say(&failed, &format!("{error:#}"));
            }
        })?;
        match (heard(&failed), history.span()) {
            (None, Some((begun, end))) => {
                let (trial, version) = (trial.clone(), heard(&version));
                let noticed_by = match noticed_by.get()[0].load(Ordering::SeqCst) {
                    BY_STORE => Some(NoticedBy::Store),
                    BY_COMPARISON => Some(NoticedBy::Comparison),
                    _ => None,
                };
                Ok(RecordedLoad { lab: self, trial, log, history, load, begun, end, version, noticed_by })
            }
            (Some(why), _) => bail!("the load failed: {why}"),
            (None, None) => bail!("the load ended before its last op"),
        }
    }

    pub(super) fn look_after(
        &self,
        trial: &Trial<'_>,
        load: &CrashLoad,
        log: &Log,
        cut: &Cut,
    ) -> Result<Option<RecoveredState>> {
        let mut image = image_after(log, cut.flushed);
        self.look_at(trial, load, &mut image, |image| cuts::survivors(log, cut, image), false, &[])
    }

    /// Mounts a disk with a changed image and runs `work`, which must unmount it; `None` if it cannot be mounted.
    pub(super) fn mounted<T>(
        &self,
        image: &mut Vec<u8>,
        change: impl FnOnce(&mut Vec<u8>),
        work: impl FnOnce(&mut Mounted) -> Result<T>,
    ) -> Result<Option<T>> {
        let Lab { file, mount, patience, faults: [_, faults], .. } = self;
        let disk = DiskFile::serve(file, image, change, None, *faults)?;
        disk.patience(*patience);
        let device = patience::of_disk(&disk, *patience, LoopDevice::attach(&disk.path()))?;
        let mut mounted = Mounted { device, disk };
        let worked = match mounted.device.mount(self.maker.kind, mount, "") {
            Ok(()) => work(&mut mounted).map(Some),
            Err(_) => Ok(None),
        };
        patience::of_disk(&mounted.disk, *patience, worked)
    }

    /// Mounts a disk with a changed image, examines the store, and checks the file system if `is_checked`; `None` if it cannot be
    /// mounted. If the store does not open, determines whether one of these known faults is the reason.
    fn look_at(
        &self,
        trial: &Trial<'_>,
        load: &CrashLoad,
        image: &mut Vec<u8>,
        change: impl Fn(&mut Vec<u8>),
        is_checked: bool,
        faults: &[&'static KnownFault],
    ) -> Result<Option<RecoveredState>> {
        let found = self.mounted(image, &change, |mounted| {
            let looked = self.look(mounted, trial, load);
            let is_closed = looked.as_ref().is_ok_and(|looked| looked.found.open_seconds.is_none());
            let logged =
                faults.iter().filter(|_| is_closed).find(|fault| (fault.is_logged)(&self.store())).copied();
            mounted.unmount()?;
            let said = is_checked.then(|| self.maker.checker.check(mounted.device()));
            looked.map(|looked| RecoveredState { said, fault: logged, ..looked.found })
        })?;
        let Some(RecoveredState { fault: Some(fault), .. }) = &found else { return Ok(found) };
        // The attempt to start it may have changed what the cut had left.
        let is_left = self.mounted(image, &change, |mounted| {
            let is_left = (fault.is_left)(&self.store());
            mounted.unmount()?;
            Ok(is_left?)
        })?;
        let fault = Some(*fault).filter(|_| is_left == Some(true));
        Ok(found.map(|found| RecoveredState { fault, ..found }))
    }

    fn store(&self) -> PathBuf {
        self.mount.join("store")
    }

    /// Opens the store and reads every blob in a process that may die. A process that hangs is killed and tried again with more
    /// time, as an operator would do: a busy machine, or a start that hangs by chance, is no damage.
    pub(super) fn look(
        &self,
        mounted: &mut Mounted,
        trial: &Trial<'_>,
        load: &CrashLoad,
    ) -> Result<ExaminationOutcome> {
        let first = self.look_once(mounted, trial, load)?;
        if first.status.is_some() {
            return Ok(first);
        }
        mounted.unmount()?;
        if !mounted.mount_again(self)? {
            return Ok(first);
        }
        let mut again = self.look_within(&mounted.disk, trial, load, self.patience)?;
        again.found.opened_again = again.found.open_seconds.is_some();
        Ok(again)
    }

    /// Like [`Lab::look`] without a second attempt, for a failing disk: a store that hangs there counts as hung.
    pub(super) fn look_once(
        &self,
        mounted: &Mounted,
        trial: &Trial<'_>,
        load: &CrashLoad,
    ) -> Result<ExaminationOutcome> {
        self.look_within(&mounted.disk, trial, load, OPENS_WITHIN.min(self.patience))
    }

    fn look_within(
        &self,
        disk: &DiskFile,
        trial: &Trial<'_>,
        load: &CrashLoad,
        patience: Duration,
    ) -> Result<ExaminationOutcome> {
        let (words, why) = (SharedWords::new(load.keys() as usize + 2)?, SharedWords::new(64)?);
        let looker =
            Forked::begin(|| self.read_all(trial, load, &words).unwrap_or_else(|error| say(&why, &error)))?;
        let mut doing = String::new();
        let status = self.ends(disk, looker, patience, |pid| doing = machine::doing(pid))?;
        let has_read = words.get()[0].load(Ordering::SeqCst) > 0;
        let refused = match status {
            None => {
                let what = if has_read { "it does not read on" } else { "it neither opens nor gives up" };
                Some(format!("{what} within {} s ({doing})", patience.as_secs_f64()))
            }
            _ => heard(&why).map(|why| format!("it does not open: {why}")),
        };
        if refused.is_some() && !has_read {
            has_room_for_sockets()?;
        }
        let word = |index: usize| words.get()[index].load(Ordering::SeqCst);
        let open_seconds = word(0).checked_sub(1).map(|ns| ns as f64 / 1e9);
        let is_over = word(1) > 0;
        let seen = |key: u64| match word(2 + key as usize) {
            MISSING => BlobState::Missing,
            WRONG => BlobState::Wrong,
            DANGLING => BlobState::Dangling,
            0 | UNREADABLE => BlobState::Unreadable,
            op => BlobState::Of((op - OP) as usize),
        };
        let blobs = (0..load.keys()).map(seen).collect();
        let open_seconds = open_seconds.filter(|_| is_over);
        let found =
            RecoveredState { open_seconds, refused, blobs, said: None, opened_again: false, fault: None };
        Ok(ExaminationOutcome { found, has_read, status })
    }

    /// Runs in the looking process: opens the store and records the state of each blob, or returns why it does not open. The
    /// process may die at any time.
    fn read_all(&self, trial: &Trial<'_>, load: &CrashLoad, words: &SharedWords) -> Result<(), String> {
        quiet().ok();
        let leave = |index: usize, value: u64| words.get()[index].store(value, Ordering::SeqCst);
        let begin = machine::uptime();
        // On one line: the message may contain the end of a server's log.
        let one_line =
            |error: anyhow::Error| format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
        let store = self.open(trial, load, Mode::Open).map_err(one_line)?;
        let mut session = store.session().map_err(|error| one_line(error.into()))?;
        let mut is_first = true;
        for key in 0..load.keys() {
            let mut bytes = Vec::new();
            let outcome = session.get(&load.corpus.keys.at(key as usize), Span::Whole, &mut |piece| {
                bytes.extend_from_slice(piece);
            });
            if std::mem::take(&mut is_first) {
                leave(0, (machine::uptime() - begin).as_nanos() as u64 + 1);
            }
            leave(
                2 + key as usize,
                match outcome {
                    Err(StoreError::Failed(why)) if why.is::<DanglingEntry>() => DANGLING,
                    Err(_) => UNREADABLE,
                    Ok(false) => MISSING,
                    Ok(true) => load.put_by(key, &bytes).map_or(WRONG, |op| OP + op as u64),
                },
            );
        }
        leave(1, 1);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The store is not closed.
    Cut,
    Closed,
}

#[derive(Clone, Debug)]
pub(super) struct ExaminationOutcome {
    pub(super) found: RecoveredState,
    /// True if it reached its first read.
    pub(super) has_read: bool,
    /// Exit status; `None` if it hung.
    pub(super) status: Option<ExitStatus>,
}

impl Mounted {
    pub(super) fn switch(&self) -> &Switch {
        self.disk.switch()
    }

    pub(super) fn device(&self) -> &Path {
        self.device.path()
    }

    /// Unmounts it, which writes all dirty data.
    pub(super) fn unmount(&mut self) -> Result<()> {
        self.device.unmount()
    }

    /// Mounts it again on another loop device, so that nothing is cached; false if that fails.
    pub(super) fn mount_again(&mut self, lab: &Lab) -> Result<bool> {
        self.disk.patience(lab.patience);
        self.device = LoopDevice::attach(&self.disk.path())?;
        Ok(self.device.mount(lab.maker.kind, &lab.mount, "").is_ok())
    }
}

impl Lab {
    /// Runs `work` in a separate process on a new file system, on a disk that logs its requests.
    fn on_new_disk(&self, trial: &Trial<'_>, log: &Arc<Log>, work: &dyn Fn(&Switch)) -> Result<()> {
        let (mut empty, [own, _]) = (vec![0; DISK_BYTES], self.faults);
        let faults = Faults { ignores_flushes: own.ignores_flushes || trial.without_flushes, ..own };
        let disk = DiskFile::serve(&self.file, &mut empty, |_| (), Some(Arc::clone(log)), faults)?;
        disk.patience(self.patience);
        let worked = (|| {
            let mut device = LoopDevice::attach(&disk.path())?;
            self.format(device.path())?;
            device.mount(self.maker.kind, &self.mount, "")?;
            let worker = Forked::begin(|| work(disk.switch()))?;
            let ended = self.ends(&disk, worker, self.patience, |_| ());
            device.unmount()?;
            ended?.map(|_status| ()).ok_or_else(|| patience::of_store(self.patience))
        })();
        patience::of_disk(&disk, self.patience, worked)
    }
}

/// Fails if this machine has no room for a server's sockets, which do not lie on the disk: the store is not to blame then.
fn has_room_for_sockets() -> Result<()> {
    const BYTES: usize = 64 << 10;
    let written =
        SocketDir::make("").and_then(|dir| Ok(std::fs::write(dir.path().join("room"), vec![0; BYTES])?));
    written.context(
        "the store did not open, which says nothing of it: this machine's directory for sockets cannot be written (`TMPDIR` names another)",
    )
}

/// Silences standard error: messages of a store that is meant to fail are not the run's.
#[expect(unsafe_code, reason = "descriptors are put where others look for them")]
pub(super) fn quiet() -> Result<()> {
    let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
    // SAFETY: both descriptors are open, and nothing but streams of text goes to the second one.
    unsafe { libc::dup2(nowhere.as_raw_fd(), 2) };
    Ok(())
}

/// Returns the position of `piece` in `bytes`. (A search in Rust takes seconds in unoptimised builds.)
#[expect(unsafe_code, reason = "memmem has no safe wrapper")]
fn find(bytes: &[u8], piece: &[u8]) -> Option<usize> {
    // SAFETY: both are valid for the lengths given, and the pointer that comes is null or lies within `bytes`.
    unsafe {
        let found = libc::memmem(bytes.as_ptr().cast(), bytes.len(), piece.as_ptr().cast(), piece.len());
        (!found.is_null()).then(|| found.cast::<u8>().cast_const().offset_from(bytes.as_ptr()) as usize)
    }
}

/// Image of a disk after this many entries of its log, all of which survived.
pub(super) fn image_after(log: &Log, entries: usize) -> Vec<u8> {
    let mut image = vec![0; DISK_BYTES];
    log.entries(0..entries).for_each(|(_, entry)| log.apply(&entry, entry.len, &mut image));
    image
}

fn version_of(store: &dyn Store) -> Option<String> {
    let facts = store.facts().ok()?;
    ["version", "server_version", "server"].iter().find_map(|name| facts.get(*name)).cloned()
}

/// Values for what notices a changed byte.
const BY_STORE: u64 = 1;
const BY_COMPARISON: u64 = 2;

fn noticed(trial: &Trial<'_>, store: &dyn Store) -> u64 {
    let integrity = (trial.candidate.adapter.integrity)(&trial.candidate.options, trial.class);
    match store.facts().ok().and_then(|facts| integrity.noticed_by(&facts)) {
        Some(NoticedBy::Store) => BY_STORE,
        Some(NoticedBy::Comparison) => BY_COMPARISON,
        None => 0,
    }
}

/// Leaves a text for the parent process.
pub(super) fn say(words: &SharedWords, text: &str) {
    for (word, bytes) in words.get()[1..].iter().zip(text.as_bytes().chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Ordering::SeqCst);
    }
    let len = text.len().min((words.get().len() - 1) * 8) as u64;
    words.get()[0].store(len, Ordering::SeqCst);
}

/// Reads the text that a child process left.
pub(super) fn heard(words: &SharedWords) -> Option<String> {
    let len = words.get()[0].load(Ordering::SeqCst) as usize;
    let bytes: Vec<u8> = words.get()[1..]
        .iter()
        .flat_map(|word| word.load(Ordering::SeqCst).to_le_bytes())
        .take(len)
        .collect();
    (len > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// States of a blob in shared memory.
const MISSING: u64 = 1;
const WRONG: u64 = 2;
const UNREADABLE: u64 = 3;
const DANGLING: u64 = 4;
/// First of the values for a blob with the bytes of an op: this plus the op's number.
const OP: u64 = 5;

impl RecordedLoad<'_> {
    /// Version that the store reported.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Number of writes and flushes of the load.
    pub fn sent(&self) -> LoadRequests {
        let entries = || self.log.entries(self.begun..self.end);
        let flushes = entries().filter(|(_, entry)| entry.kind == LogEntryKind::Flush).count();
        LoadRequests { writes: entries().count() - flushes, flushes }
    }

    /// Positions of the load's flushes in the log.
    pub fn course(&self) -> LogPositions {
        let entries = self.log.entries(self.begun..self.end);
        let flushes = entries
            .filter(|(_, entry)| entry.kind == LogEntryKind::Flush)
            .map(|(index, _)| index - self.begun);
        LogPositions { entries: self.end - self.begun, flushes: flushes.collect(), cuts: Vec::new() }
    }

    /// Position of a cut in the load's part of the log.
    pub fn place(&self, cut: &Cut) -> usize {
        cut.at.saturating_sub(self.begun)
    }

    /// Makes up to `cuts` cuts and calls `tell` after each with the state found; `None` if the file system could not be mounted.
    pub fn each_cut(
        &self,
        cuts: usize,
        seed: u64,
        tell: &mut dyn FnMut(&Cut, Option<RecoveredState>),
    ) -> Result<()> {
        let mut image = vec![0; DISK_BYTES];
        let (mut applied, mut looked) = (0, BTreeMap::<_, Option<RecoveredState>>::new());
        let chosen = cuts::choose(&self.log, self.begun, self.end, cuts, seed);
        for (number, cut) in chosen.iter().enumerate() {
            for (_, entry) in self.log.entries(applied..cut.flushed) {
                self.log.apply(&entry, entry.len, &mut image);
            }
            applied = applied.max(cut.flushed);
            self.lab.go_on()?;
            let survivors = cuts::surviving(&self.log, cut);
            // Two cuts may leave the same disk although more is acknowledged at the later one: the disk is examined once.
            let found = match looked.entry((cut.flushed, survivors)) {
                Entry::Occupied(same) => {
                    same.get().clone().map(|found| RecoveredState { said: None, ..found })
                }
                Entry::Vacant(new) => {
                    let survivors = &new.key().1;
                    let change = |image: &mut Vec<u8>| cuts::put(&self.log, survivors, image);
                    let is_checked = check::is_due(number, chosen.len());
                    let found =
                        self.look(&mut image, change, is_checked).with_context(|| cut.description())?;
                    new.insert(found).clone()
                }
            };
            tell(cut, found);
        }
        Ok(())
    }

    /// Mounts a changed image, examines the store, and checks the file system if `is_checked`.
    pub(super) fn look(
        &self,
        image: &mut Vec<u8>,
        change: impl Fn(&mut Vec<u8>),
        is_checked: bool,
    ) -> Result<Option<RecoveredState>> {
        let (declared, version) =
            (self.trial.candidate.adapter.needs.faults, self.version().unwrap_or_default());
        let faults: Vec<_> = declared.iter().filter(|fault| fault.is_of(version)).collect();
        self.lab.look_at(&self.trial, &self.load, image, change, is_checked, &faults)
    }

    pub(super) fn noticed_by(&self) -> Option<NoticedBy> {
        self.noticed_by
    }

    /// Mounts the final state of the disk after `change`; `None` if it cannot be mounted.
    pub(super) fn whole(&self, faults: Faults, change: impl FnOnce(&mut Vec<u8>)) -> Result<Option<Mounted>> {
        let mut image = image_after(&self.log, self.log.len());
        let disk = DiskFile::serve(&self.lab.file, &mut image, change, None, faults)?;
        disk.patience(self.lab.patience);
        let device = LoopDevice::attach(&disk.path())?;
        let mut mounted = Mounted { device, disk };
        let outcome = mounted.device.mount(self.lab.maker.kind, &self.lab.mount, "");
        Ok(outcome.is_ok().then_some(mounted))
    }

    /// Finds all positions of `bytes` in the final state of the disk.
    pub(super) fn places(&self, bytes: &[u8]) -> Vec<usize> {
        let image = image_after(&self.log, self.log.len());
        let mut places = Vec::new();
        // Unwritten parts of the image have no pages, and a search would allocate them.
        for (from, to) in self.written() {
            let mut at = from;
            while let Some(found) = find(&image[at..to], bytes) {
                places.push(at + found);
                at += found + bytes.len();
            }
        }
        places
    }

    /// Ranges of the disk that were written, sorted and disjoint.
    fn written(&self) -> Vec<(usize, usize)> {
        let writes =
            self.log.entries(0..self.log.len()).filter(|(_, entry)| entry.kind == LogEntryKind::Write);
        let mut parts: Vec<(usize, usize)> =
            writes.map(|(_, entry)| (entry.offset as usize, (entry.offset + entry.len) as usize)).collect();
        parts.sort_unstable();
        parts.dedup_by(|next, before| {
            let touches = next.0 <= before.1;
            if touches {
                before.1 = before.1.max(next.1);
            }
            touches
        });
        parts
    }

    /// Judges the selected blobs of a closed store: every acknowledged write must be there.
    pub(super) fn judge_closed(
        &self,
        blobs: &[BlobState],
        is_meant: impl Fn(&BlobState) -> bool,
    ) -> StoreVerdict {
        let known = LoadHistory { ops: &self.load.ops, history: &self.history };
        let mut judged = StoreVerdict::default();
        for (key, seen) in blobs.iter().enumerate().filter(|(_, seen)| is_meant(seen)) {
            judged.add(known.blob(key as u64, *seen, Durability::EachWrite, Loss::Nothing, usize::MAX));
        }
        judged
    }

    /// Judges the state after a cut.
    pub fn judge(&self, declared: Loss, cut: &Cut, found: &RecoveredState) -> StoreVerdict {
        if let Some(fault) = found.fault {
            return StoreVerdict::faulty(fault);
        }
        if found.open_seconds.is_none() {
            return StoreVerdict::unusable(found.refused.as_deref());
        }
        let known = LoadHistory { ops: &self.load.ops, history: &self.history };
        known.all(&found.blobs, self.trial.judged_as, declared, cut.at)
    }

    pub(super) fn blob(&self, key: u64, declared: Loss, cut: &Cut, found: &RecoveredState) -> StoreVerdict {
        let known = LoadHistory { ops: &self.load.ops, history: &self.history };
        known.blob(key, found.blobs[key as usize], self.trial.judged_as, declared, cut.at)
    }
}
