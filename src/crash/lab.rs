//! Where cuts are made: a directory with a disk of our own, and processes that may die.

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
use super::check::{self, Checker, Said};
use super::cuts::{self, Cut};
use super::load::{self, History, KEYS, Load};
use super::oracle::{Judged, Known, Seen};
use super::patience;
use super::uploads::{Dangling, Registered};
use crate::host::disk::{self, DiskFile, Faults, Kind, Log, LoopDevice, Switch};
use crate::host::fork::{Forked, SharedWords};
use crate::host::machine;
use crate::host::server::{Program, SocketDir};
use crate::names::unknown;
use crate::plan::{Candidate, defaults};
use crate::result::checked::Checked;
use crate::result::crash::{Course, Sent};
use crate::store::{
    Adapter, Common, Durability, Error as StoreError, KnownFault, Loss, Mode, NoticedBy, Options, Setup,
    Span, Store,
};

/// Bytes of the disk.
pub(super) const DISK_BYTES: usize = 1 << 30;
/// Bytes of writes that a log has room for.
pub(super) const LOG_BYTES: u64 = 1 << 30;
/// A store that does not open in so long is ended, and tried again.
const OPENS_WITHIN: Duration = Duration::from_secs(20);
/// How long a load may take where nothing is said.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A place for cuts.
#[derive(Clone, Debug)]
pub struct Lab {
    file: PathBuf,
    mount: PathBuf,
    common: PathBuf,
    maker: &'static Maker,
    /// The program that makes its file systems.
    found: PathBuf,
    /// Set from outside to end early.
    stop: Arc<AtomicBool>,
    patience: Duration,
    /// How many do the ops of a load at once.
    pub(super) workers: usize,
    /// What its disks do wrong: that of a load, and those that are looked at.
    faults: [Faults; 2],
}

/// A file system on a disk of our own, mounted.
#[derive(Debug)]
pub(super) struct Mounted {
    // The order of their ends.
    device: LoopDevice,
    disk: DiskFile,
}

/// How a file system is made.
#[derive(Debug)]
struct Maker {
    kind: &'static str,
    program: Program,
    /// What it is told.
    words: &'static [&'static str],
    checker: Checker,
}

const MAKERS: &[Maker] = &[
    Maker {
        kind: "ext4",
        program: Program::plain("mkfs.ext4", &["-V"], "mke2fs", "apt-get install e2fsprogs"),
        // All of it at once, so that the kernel does not go on with it later; a journal as small disks have; as many files as any store
        // makes, where 16 MiB of empty inodes would be a part of every image.
        words: &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-J", "size=8", "-N", "8192"],
        checker: Checker {
            program: Program::plain("e2fsck", &["-V"], "e2fsck", "apt-get install e2fsprogs"),
            words: &["-f", "-n"],
            wrong: 4,
        },
    },
    Maker {
        kind: "xfs",
        program: Program::plain("mkfs.xfs", &["-V"], "mkfs.xfs", "apt-get install xfsprogs"),
        words: &["-q", "-f"],
        checker: Checker {
            program: Program::plain("xfs_repair", &["-V"], "xfs_repair", "apt-get install xfsprogs"),
            words: &["-n"],
            wrong: 1,
        },
    },
    Maker {
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

/// How a file system of this name is made.
fn maker(kind: &str) -> Result<&'static Maker> {
    let found = MAKERS.iter().find(|maker| maker.kind == kind);
    found.ok_or_else(|| unknown("file system", kind, MAKERS.iter().map(|maker| maker.kind)))
}

/// A load that was done, ready to be cut.
pub struct Bench<'a> {
    pub(super) lab: &'a Lab,
    pub(super) trial: Trial<'a>,
    pub(super) log: Arc<Log>,
    pub(super) history: History,
    pub(super) load: Load,
    begun: usize,
    end: usize,
    version: Option<String>,
    noticed_by: Option<NoticedBy>,
}

/// What was found after a cut.
#[derive(Clone, Debug)]
pub struct Found {
    /// How long opening took, in seconds; nothing where the store did not open.
    pub open_seconds: Option<f64>,
    /// Why it did not come to its first read, where it lived to say so.
    pub(super) refused: Option<String>,
    /// What was found of each blob.
    pub(super) blobs: Vec<Seen>,
    /// What the file system's own check said, where it was asked.
    pub(super) said: Option<Said>,
    /// Whether it hung, and opened when it was tried again.
    pub opened_again: bool,
    /// The fault of its program for which it did not open, where that is declared.
    pub(super) fault: Option<&'static KnownFault>,
}

/// Why this machine has no disks of our own with this file system, or we may not mount them, if so.
pub fn lacks(kind: &str) -> Option<anyhow::Error> {
    disk::why_not_mounted().or_else(|| Lab::lacks(kind))
}

/// The file system of a directory, where disks of our own can have it; else the one that most machines have.
pub fn kind_below(dir: &Path) -> &'static str {
    let kind = machine::file_system(dir);
    let known = MAKERS.iter().find(|maker| Some(maker.kind) == kind.as_deref());
    known.or(MAKERS.first()).map_or("", |maker| maker.kind)
}

impl Lab {
    /// Why this machine has no disks of our own with this file system, if so.
    pub fn lacks(kind: &str) -> Option<anyhow::Error> {
        let maker = match maker(kind) {
            Ok(maker) => maker,
            Err(error) => return Some(error),
        };
        let of_kernel = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|file| !Path::new(file).exists());
        let no_device =
            of_kernel.map(|file| anyhow!("a disk of our own needs `{file}`, which the kernel has not"));
        no_device.or_else(|| maker.program.find().err())
    }

    /// One in an empty directory, with this file system. Mounts are seen by this process and what it starts alone.
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

    /// The same with what stores have in common in a directory that outlives it.
    pub fn sharing(self, common: &Path) -> Lab {
        Lab { common: common.to_owned(), ..self }
    }

    /// Its file system.
    pub fn kind(&self) -> &'static str {
        self.maker.kind
    }

    /// Adds what the file system's own check said.
    pub(super) fn add_check(&self, said: Said, sum: &mut Checked) {
        self.maker.checker.add(said, sum);
    }

    /// The same that ends early, with an error, once this is set.
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Lab {
        Lab { stop, ..self }
    }

    /// An error where it was told to stop.
    pub(super) fn go_on(&self) -> Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "stopped");
        Ok(())
    }

    /// The same that waits so long for a load or a look.
    pub fn waiting(self, patience: Duration) -> Lab {
        Lab { patience, ..self }
    }

    /// Where its file systems are mounted.
    pub(super) fn mount(&self) -> &Path {
        &self.mount
    }

    /// A new file system on a new disk, mounted.
    pub(super) fn fresh(&self, log: Option<Arc<Log>>, faults: Faults) -> Result<Mounted> {
        let disk = DiskFile::serve(&self.file, &mut vec![0; DISK_BYTES], |_| (), log, faults)?;
        disk.patience(self.patience);
        let device = LoopDevice::on(&disk.path())?;
        self.format(device.path())?;
        let mut mounted = Mounted { device, disk };
        mounted.device.mount(self.maker.kind, &self.mount, "")?;
        Ok(mounted)
    }

    /// The same whose loads are done by so many at once.
    pub fn with_workers(self, workers: usize) -> Lab {
        Lab { workers: workers.max(1), ..self }
    }

    /// The same whose disks do something wrong: that of a load, and those that are looked at.
    pub fn with_faults(self, load: Faults, looks: Faults) -> Lab {
        Lab { faults: [load, looks], ..self }
    }

    /// Waits for a process that works on a disk, and tells how it ended. One that takes longer than this, or until the lab is stopped,
    /// is killed once its number is told: then nothing, or an error.
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
                // What comes behind it has its own time.
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

    /// The same for a process that works on what is mounted, for as long as a load may take, or less.
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

    /// Makes a store on what is mounted, or opens the one that is there.
    pub(super) fn open(&self, trial: &Trial<'_>, load: &Load, mode: Mode) -> Result<Box<dyn Store>> {
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
        Registered { blobs, catalogue: apart.transpose()?, one_transaction, digests }.opened()
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
            keys_max: KEYS + 1,
            workers: self.workers,
            op_timeout: Duration::from_secs(10),
            options,
            invitation: None,
        };
        Ok((adapter.open)(&setup)?)
    }

    /// Does a load and keeps what the disk was told.
    pub fn record<'a>(&'a self, trial: &Trial<'a>, seed: u64) -> Result<Bench<'a>> {
        self.record_to(trial, seed, Ending::Cut)
    }

    /// The same, to an end.
    pub(super) fn record_to<'a>(&'a self, trial: &Trial<'a>, seed: u64, ending: Ending) -> Result<Bench<'a>> {
        let log = Arc::new(Log::new(LOG_BYTES)?);
        let (history, load) = (History::new()?.of_workers(self.workers), Load::of(trial, seed)?);
        let (failed, version) = (SharedWords::new(256)?, SharedWords::new(32)?);
        let noticed_by = SharedWords::new(1)?;
        let work = |switch: &Switch| {
            let store = self.open(trial, &load, Mode::Create)?;
            say(&version, &version_of(store.as_ref()).unwrap_or_default());
            noticed_by.get()[0].store(noticed(trial, store.as_ref()), Ordering::SeqCst);
            machine::sync_filesystem(&self.mount)?;
            switch.on();
            history.begin(&log);
            load::run(store.as_ref(), trial.class, &load, &log, &history)?;
            history.end(&log);
            match ending {
                // The power goes before it is closed.
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
                Ok(Bench { lab: self, trial, log, history, load, begun, end, version, noticed_by })
            }
            (Some(why), _) => bail!("the load failed: {why}"),
            (None, None) => bail!("the load ended before its last op"),
        }
    }

    /// Looks at the store as it was after a cut of a log.
    pub(super) fn look_after(
        &self,
        trial: &Trial<'_>,
        load: &Load,
        log: &Log,
        cut: &Cut,
    ) -> Result<Option<Found>> {
        let mut image = vec![0; DISK_BYTES];
        log.entries(0..cut.flushed).for_each(|(_, entry)| log.apply(&entry, entry.len, &mut image));
        self.look_at(trial, load, &mut image, |image| cuts::survivors(log, cut, image), false, &[])
    }

    /// Mounts a disk that holds an image, changed before, and does something there that unmounts it; nothing where it cannot be
    /// mounted.
    pub(super) fn mounted<T>(
        &self,
        image: &mut Vec<u8>,
        change: impl FnOnce(&mut Vec<u8>),
        work: impl FnOnce(&mut Mounted) -> Result<T>,
    ) -> Result<Option<T>> {
        let Lab { file, mount, patience, faults: [_, faults], .. } = self;
        let disk = DiskFile::serve(file, image, change, None, *faults)?;
        disk.patience(*patience);
        let device = patience::of_disk(&disk, *patience, LoopDevice::on(&disk.path()))?;
        let mut mounted = Mounted { device, disk };
        let worked = match mounted.device.mount(self.maker.kind, mount, "") {
            Ok(()) => work(&mut mounted).map(Some),
            Err(_) => Ok(None),
        };
        patience::of_disk(&mounted.disk, *patience, worked)
    }

    /// Mounts a disk that holds an image, changed before, and looks at the store, and then at the file system where that is asked
    /// for; nothing where it cannot be mounted. Where it does not open, it is asked whether one of these faults is the reason.
    fn look_at(
        &self,
        trial: &Trial<'_>,
        load: &Load,
        image: &mut Vec<u8>,
        change: impl Fn(&mut Vec<u8>),
        is_checked: bool,
        faults: &[&'static KnownFault],
    ) -> Result<Option<Found>> {
        let found = self.mounted(image, &change, |mounted| {
            let looked = self.look(mounted, trial, load);
            let is_closed = looked.as_ref().is_ok_and(|looked| looked.found.open_seconds.is_none());
            let logged =
                faults.iter().filter(|_| is_closed).find(|fault| (fault.is_logged)(&self.store())).copied();
            mounted.unmount()?;
            let said = is_checked.then(|| self.maker.checker.check(mounted.device()));
            looked.map(|looked| Found { said, fault: logged, ..looked.found })
        })?;
        let Some(Found { fault: Some(fault), .. }) = &found else { return Ok(found) };
        // Whoever tried to start it may have changed what the cut had left.
        let is_left = self.mounted(image, &change, |mounted| {
            let is_left = (fault.is_left)(&self.store());
            mounted.unmount()?;
            Ok(is_left?)
        })?;
        let fault = Some(*fault).filter(|_| is_left == Some(true));
        Ok(found.map(|found| Found { fault, ..found }))
    }

    /// Where the store lies.
    fn store(&self) -> PathBuf {
        self.mount.join("store")
    }

    /// Opens the store on what is mounted and reads every blob, by a process that may die. One that hangs is ended and tried again
    /// with more time, as whoever runs it would do: a busy machine, or a start that hangs by chance, is no damage.
    pub(super) fn look(&self, mounted: &mut Mounted, trial: &Trial<'_>, load: &Load) -> Result<Looked> {
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

    /// The same on a disk that fails: a store that hangs there hangs.
    pub(super) fn look_once(&self, mounted: &Mounted, trial: &Trial<'_>, load: &Load) -> Result<Looked> {
        self.look_within(&mounted.disk, trial, load, OPENS_WITHIN.min(self.patience))
    }

    fn look_within(
        &self,
        disk: &DiskFile,
        trial: &Trial<'_>,
        load: &Load,
        patience: Duration,
    ) -> Result<Looked> {
        let (words, why) = (SharedWords::new(KEYS as usize + 2)?, SharedWords::new(64)?);
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
            MISSING => Seen::Missing,
            WRONG => Seen::Wrong,
            DANGLING => Seen::Dangling,
            0 | UNREADABLE => Seen::Unreadable,
            op => Seen::Of((op - OP) as usize),
        };
        let blobs = (0..KEYS).map(seen).collect();
        let open_seconds = open_seconds.filter(|_| is_over);
        let found = Found { open_seconds, refused, blobs, said: None, opened_again: false, fault: None };
        Ok(Looked { found, has_read, status })
    }

    /// Opens the store and leaves what each blob is, or says why it does not open. It may die.
    fn read_all(&self, trial: &Trial<'_>, load: &Load, words: &SharedWords) -> Result<(), String> {
        quiet().ok();
        let leave = |index: usize, value: u64| words.get()[index].store(value, Ordering::SeqCst);
        let begin = machine::uptime();
        // In one line: a server's last words may be part of it.
        let one_line =
            |error: anyhow::Error| format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
        let store = self.open(trial, load, Mode::Open).map_err(one_line)?;
        let mut session = store.session().map_err(|error| one_line(error.into()))?;
        let mut is_first = true;
        for key in 0..KEYS {
            let mut bytes = Vec::new();
            let outcome = session.get(&load.corpus.keys[key as usize], Span::Whole, &mut |piece| {
                bytes.extend_from_slice(piece);
            });
            if std::mem::take(&mut is_first) {
                leave(0, (machine::uptime() - begin).as_nanos() as u64 + 1);
            }
            leave(
                2 + key as usize,
                match outcome {
                    Err(StoreError::Failed(why)) if why.is::<Dangling>() => DANGLING,
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

/// How a load ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nobody closes the store.
    Cut,
    /// The store is closed.
    Closed,
}

/// What came of a process that looked at a store.
#[derive(Clone, Debug)]
pub(super) struct Looked {
    /// What it found.
    pub(super) found: Found,
    /// Whether it came to its first read.
    pub(super) has_read: bool,
    /// How it ended; nothing where it hung.
    pub(super) status: Option<ExitStatus>,
}

impl Mounted {
    /// What says when the disk's faults begin and end.
    pub(super) fn switch(&self) -> &Switch {
        self.disk.switch()
    }

    /// Its device.
    pub(super) fn device(&self) -> &Path {
        self.device.path()
    }

    /// Unmounts it: everything is written before.
    pub(super) fn unmount(&mut self) -> Result<()> {
        self.device.unmount()
    }

    /// Mounts it again by another device, so that nothing of it is cached; whether that can be done.
    pub(super) fn mount_again(&mut self, lab: &Lab) -> Result<bool> {
        self.disk.patience(lab.patience);
        self.device = LoopDevice::on(&self.disk.path())?;
        Ok(self.device.mount(lab.maker.kind, &lab.mount, "").is_ok())
    }
}

impl Lab {
    /// Does work, in a process of its own, on a new file system of a disk that notes what it is told.
    fn on_new_disk(&self, trial: &Trial<'_>, log: &Arc<Log>, work: &dyn Fn(&Switch)) -> Result<()> {
        let (mut empty, [own, _]) = (vec![0; DISK_BYTES], self.faults);
        let faults = Faults { ignores_flushes: own.ignores_flushes || trial.without_flushes, ..own };
        let disk = DiskFile::serve(&self.file, &mut empty, |_| (), Some(Arc::clone(log)), faults)?;
        disk.patience(self.patience);
        let worked = (|| {
            let mut device = LoopDevice::on(&disk.path())?;
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

/// An error where this machine has no room for the sockets of a server, which do not lie on the disk: then a store that does not open
/// is not to blame.
fn has_room_for_sockets() -> Result<()> {
    const BYTES: usize = 64 << 10;
    let written =
        SocketDir::make("").and_then(|dir| Ok(std::fs::write(dir.path().join("room"), vec![0; BYTES])?));
    written.context(
        "the store did not open, which says nothing of it: this machine's directory for sockets cannot be written (`TMPDIR` names another)",
    )
}

/// What a store and its process say on standard error, where they are meant to fail, is no matter of the run's.
#[expect(unsafe_code, reason = "descriptors are put where others look for them")]
pub(super) fn quiet() -> Result<()> {
    let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
    // SAFETY: both descriptors are open, and nothing but streams of text goes to the second one.
    unsafe { libc::dup2(nowhere.as_raw_fd(), 2) };
    Ok(())
}

/// Where some bytes begin in others. (A search in Rust takes seconds where the program is not optimised.)
#[expect(unsafe_code, reason = "memmem has no safe wrapper")]
fn find(bytes: &[u8], piece: &[u8]) -> Option<usize> {
    // SAFETY: both are valid for the lengths given, and the pointer that comes is null or lies within `bytes`.
    unsafe {
        let found = libc::memmem(bytes.as_ptr().cast(), bytes.len(), piece.as_ptr().cast(), piece.len());
        (!found.is_null()).then(|| found.cast::<u8>().cast_const().offset_from(bytes.as_ptr()) as usize)
    }
}

/// What a store says that its version is.
fn version_of(store: &dyn Store) -> Option<String> {
    let facts = store.facts().ok()?;
    ["version", "server_version", "server"].iter().find_map(|name| facts.get(*name)).cloned()
}

/// Who notices a changed byte, as a number.
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

/// Leaves a text for the process that forked this one.
pub(super) fn say(words: &SharedWords, text: &str) {
    for (word, bytes) in words.get()[1..].iter().zip(text.as_bytes().chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Ordering::SeqCst);
    }
    let len = text.len().min((words.get().len() - 1) * 8) as u64;
    words.get()[0].store(len, Ordering::SeqCst);
}

/// The text that such a process left.
pub(super) fn heard(words: &SharedWords) -> Option<String> {
    let len = words.get()[0].load(Ordering::SeqCst) as usize;
    let bytes: Vec<u8> = words.get()[1..]
        .iter()
        .flat_map(|word| word.load(Ordering::SeqCst).to_le_bytes())
        .take(len)
        .collect();
    (len > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// What a process that looks at a store leaves for each blob.
const MISSING: u64 = 1;
const WRONG: u64 = 2;
const UNREADABLE: u64 = 3;
const DANGLING: u64 = 4;
/// Behind these: the number of the op that put it.
const OP: u64 = 5;

impl Bench<'_> {
    /// What the store says that its version is.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Writes and flushes of the load.
    pub fn sent(&self) -> Sent {
        let entries = || self.log.entries(self.begun..self.end);
        let flushes = entries().filter(|(_, entry)| entry.kind == Kind::Flush).count();
        Sent { writes: entries().count() - flushes, flushes }
    }

    /// Where the load flushed the disk.
    pub fn course(&self) -> Course {
        let entries = self.log.entries(self.begun..self.end);
        let flushes =
            entries.filter(|(_, entry)| entry.kind == Kind::Flush).map(|(index, _)| index - self.begun);
        Course { entries: self.end - self.begun, flushes: flushes.collect(), cuts: Vec::new() }
    }

    /// Behind how many entries of the load a cut is.
    pub fn place(&self, cut: &Cut) -> usize {
        cut.at.saturating_sub(self.begun)
    }

    /// Makes so many cuts and tells what was found after each; nothing where the file system could not be mounted.
    pub fn each_cut(&self, cuts: usize, seed: u64, tell: &mut dyn FnMut(&Cut, Option<Found>)) -> Result<()> {
        let mut image = vec![0; DISK_BYTES];
        let (mut applied, mut looked) = (0, BTreeMap::<_, Option<Found>>::new());
        let chosen = cuts::choose(&self.log, self.begun, self.end, cuts, seed);
        for (number, cut) in chosen.iter().enumerate() {
            for (_, entry) in self.log.entries(applied..cut.flushed) {
                self.log.apply(&entry, entry.len, &mut image);
            }
            applied = applied.max(cut.flushed);
            self.lab.go_on()?;
            let survivors = cuts::surviving(&self.log, cut);
            // Two cuts may leave the same disk, of which more is acknowledged at the later one: it is looked at once.
            let found = match looked.entry((cut.flushed, survivors)) {
                Entry::Occupied(same) => same.get().clone().map(|found| Found { said: None, ..found }),
                Entry::Vacant(new) => {
                    let survivors = &new.key().1;
                    let change = |image: &mut Vec<u8>| cuts::put(&self.log, survivors, image);
                    let is_checked = check::is_due(number, chosen.len());
                    let found = self.look(&mut image, change, is_checked).with_context(|| cut.words())?;
                    new.insert(found).clone()
                }
            };
            tell(cut, found);
        }
        Ok(())
    }

    /// Digests of what is written of the disk after each of so many cuts.
    pub fn images(&self, cuts: usize, seed: u64) -> Result<Vec<u64>> {
        let mut digests = Vec::new();
        for cut in cuts::choose(&self.log, self.begun, self.end, cuts, seed) {
            let mut image = vec![0; DISK_BYTES];
            let flushed = self.log.entries(0..cut.flushed);
            flushed.for_each(|(_, entry)| self.log.apply(&entry, entry.len, &mut image));
            cuts::survivors(&self.log, &cut, &mut image);
            let mut digest = xxhash_rust::xxh3::Xxh3::new();
            for (_, entry) in self.log.entries(0..cut.at) {
                let from = entry.offset as usize;
                digest.update(image.get(from..from + entry.len as usize).unwrap_or_default());
            }
            digests.push(digest.digest());
        }
        Ok(digests)
    }

    /// Mounts the disk as an image has it, changed, and looks at the store, and then at the file system where that is asked for.
    pub(super) fn look(
        &self,
        image: &mut Vec<u8>,
        change: impl Fn(&mut Vec<u8>),
        is_checked: bool,
    ) -> Result<Option<Found>> {
        let (declared, version) =
            (self.trial.candidate.adapter.needs.faults, self.version().unwrap_or_default());
        let faults: Vec<_> = declared.iter().filter(|fault| fault.is_of(version)).collect();
        self.lab.look_at(&self.trial, &self.load, image, change, is_checked, &faults)
    }

    /// Who notices a changed byte, by what the store says of itself.
    pub(super) fn noticed_by(&self) -> Option<NoticedBy> {
        self.noticed_by
    }

    /// The disk as it was in the end, changed before, mounted; nothing where it cannot be.
    pub(super) fn whole(&self, faults: Faults, change: impl FnOnce(&mut Vec<u8>)) -> Result<Option<Mounted>> {
        let mut image = vec![0; DISK_BYTES];
        self.replay(&mut image);
        let disk = DiskFile::serve(&self.lab.file, &mut image, change, None, faults)?;
        disk.patience(self.lab.patience);
        let device = LoopDevice::on(&disk.path())?;
        let mut mounted = Mounted { device, disk };
        let outcome = mounted.device.mount(self.lab.maker.kind, &self.lab.mount, "");
        Ok(outcome.is_ok().then_some(mounted))
    }

    fn replay(&self, image: &mut [u8]) {
        self.log.entries(0..self.log.len()).for_each(|(_, entry)| self.log.apply(&entry, entry.len, image));
    }

    /// Where some bytes lie on the disk as it was in the end.
    pub(super) fn places(&self, bytes: &[u8]) -> Vec<usize> {
        let mut image = vec![0; DISK_BYTES];
        self.replay(&mut image);
        let mut places = Vec::new();
        // What was never written has no page, and would get one by being looked at.
        for (from, to) in self.written() {
            let mut at = from;
            while let Some(found) = find(&image[at..to], bytes) {
                places.push(at + found);
                at += found + bytes.len();
            }
        }
        places
    }

    /// The parts of the disk that were written, apart from each other and in order.
    fn written(&self) -> Vec<(usize, usize)> {
        let writes = self.log.entries(0..self.log.len()).filter(|(_, entry)| entry.kind == Kind::Write);
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

    /// Judges what was read of a store that was closed, of the blobs that are meant: all is there that was acknowledged.
    pub(super) fn judge_closed(&self, blobs: &[Seen], is_meant: impl Fn(&Seen) -> bool) -> Judged {
        let known = Known { ops: &self.load.ops, history: &self.history };
        let mut judged = Judged::default();
        for (key, seen) in blobs.iter().enumerate().filter(|(_, seen)| is_meant(seen)) {
            judged.add(known.blob(key as u64, *seen, Durability::EachWrite, Loss::Nothing, usize::MAX));
        }
        judged
    }

    /// Judges what was found after a cut.
    pub fn judge(&self, declared: Loss, cut: &Cut, found: &Found) -> Judged {
        if let Some(fault) = found.fault {
            return Judged::faulty(fault);
        }
        if found.open_seconds.is_none() {
            return Judged::unusable(found.refused.as_deref());
        }
        let known = Known { ops: &self.load.ops, history: &self.history };
        known.all(&found.blobs, self.trial.judged_as, declared, cut.at)
    }

    /// Judges one blob as it was found after a cut.
    pub(super) fn blob(&self, key: u64, declared: Loss, cut: &Cut, found: &Found) -> Judged {
        let known = Known { ops: &self.load.ops, history: &self.history };
        known.blob(key, found.blobs[key as usize], self.trial.judged_as, declared, cut.at)
    }
}
