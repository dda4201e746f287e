//! One file per blob, in one directory or in directories named after the first digits of the digest.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use rustix::fs::{AtFlags, FileType, Mode as Permissions, OFlags};
use rustix::io::Errno;

use super::ramdisk;
use crate::host::place::copy_tree;
use crate::host::stdio::StdioStream;
use crate::store::*;
use crate::stores::common::failed::HasFailed;

const PUT: OptionSpec = OptionSpec::choice("put", &["atomic", "in-place"])
    .about("atomic: a draft, then rename; in-place: truncate and write, readers may see half a blob");
const SYNC: OptionSpec = OptionSpec::choice("sync", &["syncfs", "fsync"])
    .about("how on-sync flushes: the file system once, or each file and directory written");
pub(super) const BUFFER: OptionSpec =
    OptionSpec::bytes("buffer", 4 << 10, 64 << 20, "256KiB").about("bytes read by one call");

pub(in crate::stores) const FLAT: Adapter = Adapter {
    name: "files/flat",
    about: "one file per blob, all in one directory",
    kind: Kind::Files,
    programs: &[],
    options: &[PUT, SYNC, BUFFER],
    caps,
    loss,
    integrity: |_, _| Integrity::Unchecked,
    traits: |_| Traits::default(),
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs::NOTHING,
    open: |setup| open(setup, Layout { depth: 0, width: 0 }),
};

pub(in crate::stores) const HASHED: Adapter = Adapter {
    name: "files/hashed",
    about: "one file per blob, in directories named after the first digits of the digest",
    options: &[DEPTH, WIDTH, PUT, SYNC, BUFFER],
    open: |setup| open(setup, hashed(setup)),
    ..FLAT
};

const DEPTH: OptionSpec = OptionSpec::integer("depth", 1, 4, "1").about("levels of directories");
const WIDTH: OptionSpec = OptionSpec::integer("width", 1, 4, "2")
    .about("hexadecimal digits in a directory's name (2: 256 directories a level)");

pub(in crate::stores) const RAMDISK: Adapter = Adapter {
    name: "files/ramdisk",
    about: "the files of `files/hashed` in a file system in memory, made for the run",
    kind: Kind::Cache,
    options: &[DEPTH, WIDTH, PUT, BUFFER],
    caps: |options| Capabilities {
        durability: &[Durability::None],
        persistent: false,
        totals: false,
        backup: Backup::None("keeps its files in memory: what must last is somewhere else"),
        clients: IN_MEMORY,
        // Its own file system has as many as needed.
        inodes: Inodes::FEW,
        ..caps(options)
    },
    loss: |_, _| Losses::alike(Loss::All),
    integrity: |_, _| Integrity::NothingKept,
    needs: Needs { of_machine: |_| ramdisk::refusal(), ..Needs::NOTHING },
    open: |setup| {
        let bytes_max = ramdisk_bytes(setup);
        let facts = [("file_system", "tmpfs".to_owned()), ("limit_bytes", bytes_max.to_string())];
        let base = ramdisk::make(bytes_max)?;
        Ok(Box::new(Files { in_memory: true, ..files(base, setup, hashed(setup), facts) }))
    },
    ..FLAT
};

/// A baseline instead of an option of `files/hashed`: how a program reads is not a property of the place, so no recommendation
/// should depend on it.
pub(in crate::stores) const FOPEN: Adapter = Adapter {
    name: "fopen",
    about: "the files of `files/hashed`, read as most programs do: fopen, size, malloc, fread, fclose, free",
    kind: Kind::Baseline,
    options: &[DEPTH, WIDTH, PUT, SYNC],
    caps: |options| Capabilities { streams: false, ..caps(options) },
    open: |setup| {
        let base = File::open(setup.dir).with_context(|| format!("cannot open `{}`", setup.dir.display()))?;
        let facts = [
            ("flush", setup.options.text("sync").to_owned()),
            ("reads", "fopen, fseek to the end, ftell, malloc, fread, fclose, free".to_owned()),
        ];
        let files =
            Files { streams_below: Some(setup.dir.to_owned()), ..files(base, setup, hashed(setup), facts) };
        Ok(Box::new(files))
    },
    ..FLAT
};

const IN_MEMORY: ClientSupport =
    ClientSupport::One("its file system in memory has no path by which others find it");

/// Size limit of the file system in memory. The last page of every file is partly empty, directories take pages too, and a blob
/// exists twice until its draft is renamed.
fn ramdisk_bytes(setup: &Setup) -> u64 {
    const PAGE_BYTES: u64 = 4096;
    const ROOM_BYTES: u64 = 64 << 20;
    let drafts = (setup.workers as u64 + 1) * setup.blob_bytes_max;
    setup.store_bytes_max + setup.keys_max * 2 * PAGE_BYTES + drafts + ROOM_BYTES
}

fn caps(options: &Options) -> Capabilities {
    Capabilities {
        atomic_put: options.text("put") == "atomic",
        streams: options.number("buffer") as usize <= PIECE_BYTES_MAX,
        backup: BACKUP,
        clients: ClientSupport::Directory,
        inodes: Inodes {
            each_blob: 1,
            spread: (
                options.number(DEPTH.name) as u32,
                16_u64.saturating_pow(options.number(WIDTH.name) as u32),
            ),
            ..Inodes::FEW
        },
        totals: true,
        ..Capabilities::ONE_BY_ONE
    }
}

/// A draft becomes a blob only by its rename, so a tree copied while in use contains whole blobs.
const BACKUP: Backup = Backup::Image(BackupMethod {
    by: "a copy of the tree",
    words: "-a: preserve as much as possible of the structure and attributes of the original files in the copy",
    link: "https://www.gnu.org/software/coreutils/manual/html_node/cp-invocation.html",
});

/// A write reaches the page cache within the call, so a killed process loses nothing but an in-place write in progress. A power
/// cut loses what was not flushed; a file renamed before its data was flushed may be empty afterwards (delayed allocation).
pub(super) fn loss(options: &Options, durability: Durability) -> Losses {
    let atomic = options.text("put") == "atomic";
    let after_kill = if atomic { Loss::Nothing } else { Loss::RecentWrites };
    let after_power_cut = match durability {
        Durability::EachWrite => after_kill,
        Durability::None | Durability::OnSync => Loss::RecentWrites,
    };
    Losses { after_kill, after_power_cut }
}

#[derive(Clone, Copy)]
struct Layout {
    /// Levels of directories.
    depth: usize,
    /// Hexadecimal digits in a directory's name.
    width: usize,
}

struct Files {
    base: File,
    /// Path of the directory; in memory, that of the store's own empty directory.
    dir: PathBuf,
    /// True if `base` is a file system in memory of this store.
    in_memory: bool,
    /// Set if files are read by C library streams, which need paths: the directory of the files. Otherwise they are read by
    /// system calls.
    streams_below: Option<PathBuf>,
    layout: Layout,
    atomic: bool,
    sync_whole_filesystem: bool,
    durability: Durability,
    buffer_bytes: usize,
    /// Part of draft names that distinguishes this process from others that use the directory, also on other hosts.
    writer: String,
    sessions: AtomicU64,
    facts: Facts,
    has_failed: HasFailed,
}

fn hashed(setup: &Setup) -> Layout {
    let number = |name| setup.options.number(name) as usize;
    Layout { depth: number("depth"), width: number("width") }
}

fn open(setup: &Setup, layout: Layout) -> Result<Box<dyn Store>> {
    let base = File::open(setup.dir).with_context(|| format!("cannot open `{}`", setup.dir.display()))?;
    Ok(Box::new(files(base, setup, layout, [("flush", setup.options.text("sync").to_owned())])))
}

/// A store of files in a directory, with these facts.
fn files<const N: usize>(base: File, setup: &Setup, layout: Layout, facts: [(&str, String); N]) -> Files {
    let directories = 16_u64.pow((layout.depth * layout.width) as u32);
    let mut facts: Facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    facts.insert("directories".into(), directories.to_string());
    Files {
        base,
        dir: setup.dir.to_owned(),
        in_memory: false,
        streams_below: None,
        layout,
        atomic: setup.options.text("put") == "atomic",
        sync_whole_filesystem: setup.options.text("sync") == "syncfs",
        durability: setup.durability,
        buffer_bytes: setup.options.number("buffer") as usize,
        writer: match setup.join_token {
            Some(_) => format!("{:016x}", crate::host::place::fresh_seed()),
            None => std::process::id().to_string(),
        },
        sessions: AtomicU64::new(0),
        facts,
        has_failed: HasFailed::default(),
    }
}

impl Store for Files {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let id = self.sessions.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(FilesSession {
            store: self,
            // Unique among sessions: two writers of the same draft would tear each other's blobs.
            draft_name: format!(".draft-{}-{id}", self.writer),
            buffer: vec![0; self.buffer_bytes],
            path: Vec::new(),
            draft: Vec::new(),
            unsynced: Vec::new(),
        }))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(self.facts.clone())
    }

    fn totals(&self) -> Result<(u64, u64)> {
        if self.in_memory {
            return Err(Error::Unsupported("a count of files in memory"));
        }
        let mut totals = (0, 0);
        each_below(&open_directory(&self.base, ".")?, self.layout.depth, &mut |directory, name| {
            let status = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            totals = (totals.0 + 1, totals.1 + status.st_size as u64);
            Ok(())
        })?;
        Ok(totals)
    }

    fn back_up(&self, to: &Path) -> Result<()> {
        if self.in_memory {
            return Err(Error::Unsupported("a backup of files in memory"));
        }
        Ok(copy_tree(&self.dir, to)?)
    }

    /// Other processes need only the directory.
    fn join_token(&self) -> Result<JoinToken> {
        if self.in_memory {
            return Err(Error::Unsupported("sessions of other processes"));
        }
        JoinToken::encode(&())
    }

    fn memory_bytes(&self) -> Result<Option<u64>> {
        Ok(if self.in_memory { Some(ramdisk::memory_bytes(&self.base)?) } else { None })
    }

    fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.in_memory.then(|| self.base.as_fd())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct FilesSession<'a> {
    store: &'a Files,
    draft_name: String,
    buffer: Vec<u8>,
    /// Path buffer, reused by the next op.
    path: Vec<u8>,
    /// Path buffer of drafts.
    draft: Vec<u8>,
    /// Keys written since the last sync; only used if files are flushed one by one.
    unsynced: Vec<Key>,
}

/// The directories of a key with a trailing slash, such as `ab/cd/`; empty without levels.
fn directory_of(layout: Layout, key: &Key) -> String {
    spell(&mut Vec::new(), layout, key, b"").to_string_lossy().into_owned()
}

/// The path of a name in the directories of a key as a C string, in a reused buffer.
fn spell<'a>(path: &'a mut Vec<u8>, layout: Layout, key: &Key, name: &[u8]) -> &'a CStr {
    path.clear();
    spell_on(path, layout, key, name)
}

/// The same for a blob, below a directory.
fn spell_below<'a>(path: &'a mut Vec<u8>, dir: &Path, layout: Layout, key: &Key) -> &'a CStr {
    path.clear();
    path.extend_from_slice(dir.as_os_str().as_bytes());
    path.push(b'/');
    spell_on(path, layout, key, &key.hex)
}

fn spell_on<'a>(path: &'a mut Vec<u8>, layout: Layout, key: &Key, name: &[u8]) -> &'a CStr {
    for digits in key.hex.chunks(layout.width.max(1)).take(layout.depth) {
        path.extend_from_slice(digits);
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path.push(0);
    CStr::from_bytes_until_nul(path).unwrap_or_default()
}

impl Files {
    /// Opens a file for writing, creating missing directories.
    fn create(&self, key: &Key, path: &CStr) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let permissions = Permissions::from_raw_mode(0o644);
        match rustix::fs::openat(&self.base, path, flags, permissions) {
            Ok(file) => Ok(file.into()),
            Err(Errno::NOENT) if self.layout.depth > 0 => {
                self.make_directories(key)?;
                Ok(rustix::fs::openat(&self.base, path, flags, permissions)?.into())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn make_directories(&self, key: &Key) -> Result<()> {
        let path = directory_of(self.layout, key);
        let mut end = 0;
        for _ in 0..self.layout.depth {
            let parent_end = end;
            end += self.layout.width + 1;
            match rustix::fs::mkdirat(&self.base, &path[..end], Permissions::from_raw_mode(0o755)) {
                Ok(()) if self.durability == Durability::EachWrite => {
                    self.flush_directory(&path[..parent_end])?;
                }
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Flushes a directory, so that the names in it are on stable storage.
    fn flush_directory(&self, path: &str) -> Result<()> {
        if path.is_empty() {
            return Ok(self.base.sync_all()?);
        }
        Ok(rustix::fs::fsync(open_directory(&self.base, path)?)?)
    }
}

impl FilesSession<'_> {
    /// Reads as most programs do: the whole requested range into memory of its own.
    fn get_by_stream(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let Some(below) = &self.store.streams_below else {
            return Err(Error::Unsupported("reading by streams"));
        };
        let path = spell_below(&mut self.path, below, self.store.layout, key);
        let Some(mut stream) = StdioStream::open(path)? else { return Ok(false) };
        let (offset, len) = span.below(stream.bytes()?);
        sink(&stream.read(offset, len as usize)?);
        Ok(true)
    }

    fn flush_each(&mut self) -> Result<()> {
        let mut directories = std::collections::BTreeSet::from([String::new()]);
        for key in std::mem::take(&mut self.unsynced) {
            let path = spell(&mut self.path, self.store.layout, &key, &key.hex);
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            match rustix::fs::openat(&self.store.base, path, flags, Permissions::empty()) {
                Ok(file) => rustix::fs::fsync(file)?,
                // Deleted since; the directory's flush below makes that durable.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
            let directory = directory_of(self.store.layout, &key);
            for (end, _) in directory.match_indices('/') {
                directories.insert(directory[..=end].to_owned());
            }
        }
        directories.iter().try_for_each(|directory| match self.store.flush_directory(directory) {
            Err(Error::Failed(error)) if is_not_found(&error) => Ok(()),
            result => result,
        })
    }

    fn wrote(&mut self, key: &Key) {
        if self.store.durability == Durability::OnSync && !self.store.sync_whole_filesystem {
            self.unsynced.push(*key);
        }
    }
}

fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn open_directory(base: impl AsFd, path: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(base, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Permissions::empty())
}

impl Session for FilesSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        let store = self.store;
        let each_write = store.durability == Durability::EachWrite;
        let path = spell(&mut self.path, store.layout, key, &key.hex);
        if store.atomic {
            let draft = spell(&mut self.draft, store.layout, key, self.draft_name.as_bytes());
            let written = store.create(key, draft).and_then(|mut file| {
                file.write_all(blob)?;
                if each_write {
                    file.sync_all()?;
                }
                drop(file);
                Ok(rustix::fs::renameat(&store.base, draft, &store.base, path)?)
            });
            if let Err(error) = written {
                // Nothing needs the draft; the first error is the one to report.
                rustix::fs::unlinkat(&store.base, draft, AtFlags::empty()).ok();
                return Err(error);
            }
        } else {
            let mut file = store.create(key, path)?;
            file.write_all(blob)?;
            if each_write {
                file.sync_all()?;
            }
        }
        if each_write {
            store.flush_directory(&directory_of(store.layout, key))?;
        }
        self.wrote(key);
        Ok(())
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        if self.store.streams_below.is_some() {
            return self.get_by_stream(key, span, sink);
        }
        let path = spell(&mut self.path, self.store.layout, key, &key.hex);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut file: File = match rustix::fs::openat(&self.store.base, path, flags, Permissions::empty()) {
            Ok(file) => file.into(),
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        match span {
            Span::Whole => loop {
                let read = file.read(&mut self.buffer)?;
                if read == 0 {
                    break;
                }
                sink(&self.buffer[..read]);
            },
            Span::Part { .. } => {
                // The kernel's file offsets are signed.
                let (mut offset, mut len) = span.below(i64::MAX as u64);
                while len > 0 {
                    let want = (self.buffer.len() as u64).min(len) as usize;
                    let read = file.read_at(&mut self.buffer[..want], offset)?;
                    if read == 0 {
                        break;
                    }
                    sink(&self.buffer[..read]);
                    offset += read as u64;
                    len -= read as u64;
                }
            }
        }
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        let path = spell(&mut self.path, self.store.layout, key, &key.hex);
        match rustix::fs::unlinkat(&self.store.base, path, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        if self.store.durability == Durability::EachWrite {
            self.store.flush_directory(&directory_of(self.store.layout, key))?;
        }
        self.wrote(key);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let has_failed = &self.store.has_failed;
        has_failed.check()?;
        if self.store.sync_whole_filesystem {
            return Ok(has_failed.noting(rustix::fs::syncfs(&self.store.base))?);
        }
        has_failed.noting(self.flush_each())
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        each_below(&open_directory(&self.store.base, ".")?, self.store.layout.depth, &mut |_, name| {
            each(&name.to_string_lossy());
            Ok(())
        })
    }
}

/// Passes the name of each blob's file below a directory, with the directory that it is in.
fn each_below(
    directory: &OwnedFd,
    depth: usize,
    each: &mut dyn FnMut(&OwnedFd, &CStr) -> Result<()>,
) -> Result<()> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        // Skips drafts and the two dot entries.
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        match entry.file_type() {
            FileType::Directory if depth > 0 => {
                each_below(&open_directory(directory, name)?, depth - 1, each)?;
            }
            _ => each(directory, name)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_named_after_the_first_digits() {
        let key = Key { id: 1, hex: *b"0123456789abcdef0123456789abcdef" };
        let of = |depth, width| directory_of(Layout { depth, width }, &key);
        assert_eq!([of(0, 0), of(1, 2), of(2, 4), of(3, 1)], ["", "01/", "0123/4567/", "0/1/2/"]);
    }
}
