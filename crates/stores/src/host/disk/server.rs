//! The FUSE file: a process of its own that answers the kernel's reads, writes and flushes of one file from memory.

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

use super::faults::{DiskError, Faults, RequestKind, Switch};
use super::log::Log;
use super::watchdog::Watchdog;
use crate::host::fork::Forked;
use crate::host::machine;

const NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);
/// Validity of entries and attributes, which never change.
const FOR_EVER: Duration = Duration::from_secs(3600);
/// Longest time to wait for the mount.
const PATIENCE: Duration = Duration::from_secs(10);

/// A FUSE file that exists as long as this value or its process does.
#[derive(Debug)]
pub struct DiskFile {
    process: Forked,
    watchdog: Watchdog,
    mounted: PathBuf,
    switch: Arc<Switch>,
}

impl DiskFile {
    /// Starts a process that serves a copy of `image`, modified by `change`, as a file below the empty directory `dir`, and logs
    /// the writes to it. Faults begin when the switch is put on. This process must have one thread.
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
        // Forked before anything is mounted.
        let watchdog = Watchdog::begin()?;
        let switch = Arc::new(Switch::new()?);
        let process = Forked::begin(|| {
            // Only in the fork: its pages are copied on write.
            change(image);
            let image = Mutex::new(std::mem::take(image));
            let switch = Arc::clone(&switch);
            let served = SimulatedDisk { size, image, log, faults, writes: AtomicUsize::new(0), switch };
            // A private mount namespace keeps the fork from seeing file systems that are mounted on the disk later. Otherwise it
            // might be the last to release such a mount, unmount it on exit, and wait for an answer of its own. An error shows as
            // a mount that never comes.
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

    /// Sets a deadline after which the watchdog aborts the file's connection, unless the deadline is moved before: processes that
    /// wait for an answer then get an error and go on.
    pub fn patience(&self, patience: Duration) {
        self.watchdog.bite_in(patience);
    }

    /// True if the watchdog aborted the connection.
    pub fn was_taken_away(&self) -> bool {
        self.watchdog.has_bitten()
    }

    /// Path of the file.
    pub fn path(&self) -> PathBuf {
        self.mounted.join(NAME)
    }

    /// Switch for its faults.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        self.patience(PATIENCE);
        // Users that still have the file open get errors.
        rustix::mount::unmount(&self.mounted, rustix::mount::UnmountFlags::DETACH).ok();
        self.process.kill();
    }
}

struct SimulatedDisk {
    size: u64,
    image: Mutex<Vec<u8>>,
    log: Option<Arc<Log>>,
    faults: Faults,
    writes: AtomicUsize,
    switch: Arc<Switch>,
}

impl SimulatedDisk {
    /// Returns the injected error for a request, if any.
    fn error(&self, asked: RequestKind) -> Option<Errno> {
        let log_len = self.log.as_ref().map_or(0, |log| log.len());
        self.switch.error(&self.faults, asked, log_len).map(|answer| match answer {
            DiskError::Broken => Errno::EIO,
            DiskError::Full => Errno::ENOSPC,
        })
    }

    /// Counts a write; blocks for ever if the limit of answered writes has been reached.
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

impl Filesystem for SimulatedDisk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // The kernel's own limit.
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
        // Bypasses the kernel's cache of this file if requests are logged or counted. Otherwise the kernel may read ahead: after
        // a power cut a file system reads its journal block by block, which was 1,200 requests per mount. Writes arrive here at
        // once in both cases.
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
        if let Some(error) = self.error(RequestKind::Read) {
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
        if let Some(error) = self.error(RequestKind::Write) {
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
        if let Some(error) = self.error(RequestKind::Flush) {
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
