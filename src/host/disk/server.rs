//! The file in user space: a process of its own that answers the kernel's reads, writes and flushes of one file from memory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Result, bail};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};

use super::faults::{Answer, Asked, Faults, Switch};
use super::log::Log;
use super::watchdog::Watchdog;
use crate::host::fork::Forked;
use crate::host::machine;

/// The file's name.
const NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);
/// Nothing about it changes.
const FOR_EVER: Duration = Duration::from_secs(3600);
/// A mount that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file in user space that is there as long as this lives, or its process.
#[derive(Debug)]
pub struct DiskFile {
    process: Forked,
    watchdog: Watchdog,
    mounted: PathBuf,
    switch: Arc<Switch>,
}

impl DiskFile {
    /// Serves a copy of an image as a file below an empty directory, by a process of its own, and notes in a log what is written to
    /// it. The copy is changed by `change` before. Faults begin when its switch is put on. This process must have one thread.
    pub fn serve(
        dir: &Path,
        image: &mut Vec<u8>,
        change: impl FnOnce(&mut Vec<u8>),
        log: Option<Arc<Log>>,
        faults: Faults,
    ) -> Result<DiskFile> {
        let config = {
            let mut config = fuser::Config::default();
            config.mount_options = vec![MountOption::FSName("blobwise".to_owned()), MountOption::NoAtime];
            config
        };
        let size = image.len() as u64;
        // Before anything is mounted.
        let watchdog = Watchdog::begin()?;
        let switch = Arc::new(Switch::new()?);
        let process = Forked::begin(|| {
            // In that process only: pages are copied when they are written to.
            change(image);
            let image = Mutex::new(std::mem::take(image));
            let switch = Arc::clone(&switch);
            let served = Served { size, image, log, faults, writes: AtomicUsize::new(0), switch };
            // It sees no file system that is mounted on the disk later: the last process that does unmounts it when it ends, and
            // would wait for an answer of its own. Who waits for the mount says what is wrong.
            fuser::Session::new(served, dir, &config)
                .and_then(|session| super::own_mounts().map_err(std::io::Error::other).map(|()| session))
                .and_then(fuser::Session::run)
                .ok();
        })?;
        let file = DiskFile { process, watchdog, mounted: dir.to_owned(), switch };
        let begin = machine::uptime();
        while !file.path().exists() {
            if machine::uptime() - begin > PATIENCE {
                bail!("no file in user space can be mounted on `{}` (FUSE)", dir.display());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        file.watchdog.watch(dir)?;
        Ok(file)
    }

    /// Is taken away in so long from now, unless this is said again before: whoever waits for an answer then gets an error, and
    /// goes on.
    pub fn patience(&self, patience: Duration) {
        self.watchdog.bite_in(patience);
    }

    /// Whether it was taken away because it did not answer.
    pub fn was_taken_away(&self) -> bool {
        self.watchdog.has_bitten()
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.mounted.join(NAME)
    }

    /// What says when its faults begin and end.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        self.patience(PATIENCE);
        // Whoever still has the file open gets errors.
        rustix::mount::unmount(&self.mounted, rustix::mount::UnmountFlags::DETACH).ok();
        self.process.kill();
    }
}

struct Served {
    size: u64,
    image: Mutex<Vec<u8>>,
    log: Option<Arc<Log>>,
    faults: Faults,
    writes: AtomicUsize,
    switch: Arc<Switch>,
}

impl Served {
    /// The error that a request is answered with, if one is meant.
    fn error(&self, asked: Asked) -> Option<Errno> {
        let log_len = self.log.as_ref().map_or(0, |log| log.len());
        self.switch.error(&self.faults, asked, log_len).map(|answer| match answer {
            Answer::Broken => Errno::EIO,
            Answer::Full => Errno::ENOSPC,
        })
    }

    /// Notes a write, and never comes back where that was the last one that is answered.
    fn count_write(&self) {
        let before = self.writes.fetch_add(1, Ordering::Relaxed);
        if self.faults.silent_after.is_some_and(|most| before >= most) {
            loop {
                std::thread::park();
            }
        }
    }

    fn attributes(&self, file: INodeNo) -> FileAttr {
        let is_file = file == FILE;
        FileAttr {
            ino: file,
            size: if is_file { self.size } else { 0 },
            blocks: if is_file { self.size / 512 } else { 0 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file { FileType::RegularFile } else { FileType::Directory },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: if is_file { 1 } else { 2 },
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // As large as the kernel's own limit.
        config.set_max_write(1 << 20).ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match parent == INodeNo::ROOT && name == NAME {
            true => reply.entry(&FOR_EVER, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, file: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attributes(file));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Past the kernel's cache of this file, where each request is noted or counted. Else it may read ahead: a file system whose
        // power was cut reads its journal block by block, which was 1,200 requests a mount. What it writes comes here at once anyway.
        let is_counted = self.log.is_some() || self.faults != Faults::default();
        reply.opened(
            FileHandle(0),
            if is_counted { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() },
        );
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if let Some(error) = self.error(Asked::Read) {
            return reply.error(error);
        }
        let image = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        let from = (offset as usize).min(image.len());
        let to = (from + size as usize).min(image.len());
        reply.data(&image[from..to]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.count_write();
        if let Some(error) = self.error(Asked::Write) {
            return reply.error(error);
        }
        let mut image = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        let place = offset as usize..offset as usize + data.len();
        match (image.get_mut(place), self.log.as_ref().map_or(Ok(()), |log| log.write(offset, data))) {
            (Some(place), Ok(())) => {
                place.copy_from_slice(data);
                reply.written(data.len() as u32);
            }
            _ => reply.error(Errno::ENOSPC),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if let Some(error) = self.error(Asked::Flush) {
            return reply.error(error);
        }
        let is_ignored = self.faults.ignores_flushes && self.switch.is_on();
        let noted = match &self.log {
            Some(log) if !is_ignored => log.flush(),
            _ => Ok(()),
        };
        match noted {
            Ok(()) => reply.ok(),
            Err(_full) => reply.error(Errno::ENOSPC),
        }
    }
}
