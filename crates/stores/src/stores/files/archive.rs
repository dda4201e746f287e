//! One archive file that blobs are appended to, with an index of it in memory: what `zip` and `tar` have in common.
//!
//! An entry is complete when its put returns. `settle` and a clean close write what other programs need behind the last entry, and
//! from which the index is loaded when the archive is opened; the next put cuts it off. After a crash it is missing, and the
//! archive is read from entry to entry.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, IoSlice};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use anyhow::Context;
use flate2::Crc;

use crate::store::*;
use crate::stores::common::failed::HasFailed;
use crate::stores::common::lock;
use crate::stores::common::reader::get_each;

/// Where a blob lies in the archive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ArchiveEntry {
    /// Offset of its first byte.
    pub(super) offset: u64,
    pub(super) len: u64,
    /// CRC-32 of its bytes; 0 in a format without checksums.
    pub(super) crc: u32,
}

/// An entry with its name, which is the key's digest.
pub(super) type NamedEntry = ([u8; 32], ArchiveEntry);

/// An archive format that stores blobs as they are.
pub(super) trait ArchiveFormat: Send + Sync + 'static {
    const FILE: &'static str;
    /// Facts of the format.
    const FACTS: &'static [(&'static str, &'static str)];
    const LIMIT: Limit;
    const HAS_CRC: bool;

    /// Appends the header of an entry to `into`; the blob follows it.
    fn header(into: &mut Vec<u8>, key: &Key, len: u64, crc: u32);

    /// Number of zeros behind a blob, below [`PADDING_MAX`].
    fn padding(len: u64) -> usize;

    /// Reads the header at an offset; `None` if no entry begins there.
    fn entry_at(file: &File, offset: u64) -> Result<Option<NamedEntry>>;

    /// What makes the archive whole behind its entries, which are in the order of the archive and end at `end`.
    fn trailer(entries: &[NamedEntry], end: u64) -> Vec<u8>;

    /// Name and contents of an index beside the archive, for a format that has none within.
    fn index_beside(_entries: &[NamedEntry]) -> Option<(&'static str, String)> {
        None
    }

    /// Loads the entries of a whole archive, and where they end; `None` if it is not whole.
    fn load(dir: &Path, file: &File) -> Result<Option<(Vec<NamedEntry>, u64)>>;
}

/// The largest padding of a format, in bytes.
const PADDING_MAX: usize = 512;
/// Enough to make lock contention rare with 64 workers.
const SHARDS: usize = 64;

pub(super) fn caps<F: ArchiveFormat>(options: &Options) -> Capabilities {
    Capabilities {
        changes: false,
        streams: options.number("buffer") as usize <= PIECE_BYTES_MAX,
        get_many: true,
        totals: true,
        blob_bytes_max: Some(F::LIMIT),
        backup: Backup::Closed(BackupMethod {
            by: "a copy of the closed archive",
            words: "An archive that is appended to while it is copied would be copied without its end",
            link: "https://www.gnu.org/software/coreutils/manual/html_node/cp-invocation.html",
        }),
        ..Capabilities::ONE_BY_ONE
    }
}

/// A put reaches the page cache within the call, so a killed process loses nothing. A power cut loses what was not flushed.
pub(super) fn loss(_options: &Options, durability: Durability) -> Losses {
    Losses { after_kill: Loss::Nothing, ..Losses::of_unflushed(durability) }
}

type Shard = RwLock<HashMap<[u8; 32], ArchiveEntry>>;

struct Tail {
    /// Where the entries end.
    end: u64,
    /// True if the trailer is behind them.
    is_whole: bool,
}

struct Archive<F> {
    dir: PathBuf,
    file: File,
    durability: Durability,
    buffer_bytes: usize,
    index: Vec<Shard>,
    /// Locked while appending, so that two puts never get the same place.
    tail: Mutex<Tail>,
    /// Where the entries end, for those who flush.
    appended: AtomicU64,
    /// How much of `appended` is on stable storage; locked while flushing, so that one flush serves all waiting writers.
    flushed: Mutex<u64>,
    has_failed: HasFailed,
    format: PhantomData<F>,
}

pub(super) fn open<F: ArchiveFormat>(setup: &Setup) -> Result<Box<dyn Store>> {
    Ok(Box::new(Archive::<F>::open(setup)?))
}

/// Reads `N` bytes at an offset; `None` if the file ends before.
pub(super) fn read_at<const N: usize>(file: &File, offset: u64) -> Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opening and closing.
impl<F: ArchiveFormat> Archive<F> {
    fn open(setup: &Setup) -> Result<Archive<F>> {
        let path = setup.dir.join(F::FILE);
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let archive = Archive::<F> {
            dir: setup.dir.to_owned(),
            file: file.with_context(|| format!("cannot open `{}`", path.display()))?,
            durability: setup.durability,
            buffer_bytes: setup.options.number("buffer") as usize,
            index: (0..SHARDS).map(|_| Shard::default()).collect(),
            tail: Mutex::new(Tail { end: 0, is_whole: false }),
            appended: AtomicU64::new(0),
            flushed: Mutex::new(0),
            has_failed: HasFailed::default(),
            format: PhantomData,
        };
        if setup.mode == Mode::Open {
            archive.read_entries()?;
        } else if archive.is_durable() {
            File::open(setup.dir)?.sync_all()?;
        }
        Ok(archive)
    }

    fn is_durable(&self) -> bool {
        self.durability != Durability::None
    }

    /// Loads the index, or makes it of the entries.
    fn read_entries(&self) -> Result<()> {
        let known = F::load(&self.dir, &self.file)?;
        let is_whole = known.is_some();
        let (entries, end) = match known {
            Some(known) => known,
            None => {
                self.forget_what_is_cached()?;
                self.walk()?
            }
        };
        if !is_whole {
            self.cut_off(end)?;
        }
        for (hex, entry) in entries {
            self.point(hex, entry);
        }
        *lock(&self.tail) = Tail { end, is_whole };
        self.appended.store(end, Ordering::Release);
        Ok(())
    }

    /// Has the entries read from the disk. A page that could not be written stays in the page cache as if it had been, and what is
    /// put behind an entry that only the cache has would be lost with it.
    fn forget_what_is_cached(&self) -> Result<()> {
        if self.is_durable() {
            self.file.sync_data()?;
            rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        Ok(())
    }

    /// Cuts off what a crash left behind the entries, and removes an index of what the archive was before.
    fn cut_off(&self, end: u64) -> Result<()> {
        self.file.set_len(end)?;
        if let Some((name, _)) = F::index_beside(&[]) {
            match std::fs::remove_file(self.dir.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        if self.is_durable() {
            self.file.sync_data()?;
            File::open(&self.dir)?.sync_all()?;
        }
        Ok(())
    }

    /// Goes from entry to entry. One that a power cut has torn, as its checksum shows, is left out.
    fn walk(&self) -> Result<(Vec<NamedEntry>, u64)> {
        let bytes = self.file.metadata()?.len();
        let mut buffer = vec![0; self.buffer_bytes];
        let (mut entries, mut end) = (Vec::new(), 0);
        while let Some((hex, entry)) = F::entry_at(&self.file, end)? {
            let next = entry.offset + entry.len + F::padding(entry.len) as u64;
            if next > bytes {
                break;
            }
            let is_right = !F::HAS_CRC
                || self.read(&entry, (0, entry.len), &mut buffer, true, &mut |_| {})? == entry.crc;
            entries.extend(is_right.then_some((hex, entry)));
            end = next;
        }
        Ok((entries, end))
    }

    /// Makes the archive whole.
    fn finish(&self) -> Result<()> {
        let mut tail = lock(&self.tail);
        if tail.is_whole {
            return Ok(());
        }
        self.has_failed.check()?;
        let entries = self.entries();
        if let Err(error) = self.file.write_all_at(&F::trailer(&entries, tail.end), tail.end) {
            self.file.set_len(tail.end).ok();
            return Err(error.into());
        }
        if self.is_durable() {
            self.has_failed.noting(self.file.sync_data())?;
        }
        if let Some((name, text)) = F::index_beside(&entries) {
            self.save(name, &text)?;
        }
        tail.is_whole = true;
        Ok(())
    }

    /// Writes a file beside the archive.
    fn save(&self, name: &str, text: &str) -> Result<()> {
        let draft = self.dir.join(format!("{name}.draft"));
        std::fs::write(&draft, text)?;
        if self.is_durable() {
            File::open(&draft)?.sync_all()?;
        }
        std::fs::rename(draft, self.dir.join(name))?;
        if self.is_durable() {
            File::open(&self.dir)?.sync_all()?;
        }
        Ok(())
    }

    /// All entries in the order of the archive.
    fn entries(&self) -> Vec<NamedEntry> {
        let mut entries = Vec::new();
        for shard in &self.index {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            entries.extend(shard.iter().map(|(hex, entry)| (*hex, *entry)));
        }
        entries.sort_unstable_by_key(|(_, entry)| entry.offset);
        entries
    }
}

/// Putting and reading.
impl<F: ArchiveFormat> Archive<F> {
    fn shard(&self, hex: &[u8; 32]) -> &Shard {
        let digit = |place: usize| char::from(hex[place]).to_digit(16).unwrap_or(0) as usize;
        &self.index[(digit(30) * 16 + digit(31)) % SHARDS]
    }

    fn find(&self, hex: &[u8; 32]) -> Option<ArchiveEntry> {
        self.shard(hex).read().unwrap_or_else(PoisonError::into_inner).get(hex).copied()
    }

    fn point(&self, hex: [u8; 32], entry: ArchiveEntry) {
        self.shard(&hex).write().unwrap_or_else(PoisonError::into_inner).insert(hex, entry);
    }

    /// Appends an entry; `header` is a buffer.
    fn append(&self, key: &Key, blob: &[u8], header: &mut Vec<u8>) -> Result<()> {
        F::LIMIT.check(blob)?;
        let len = blob.len() as u64;
        let mut crc = Crc::new();
        if F::HAS_CRC {
            crc.update(blob);
        }
        header.clear();
        F::header(header, key, len, crc.sum());
        let zeros = &[0; PADDING_MAX][..F::padding(len)];
        let mut tail = lock(&self.tail);
        if self.find(&key.hex).is_some() {
            return Err(Error::Unsupported("an overwrite"));
        }
        if tail.is_whole {
            self.file.set_len(tail.end)?;
            tail.is_whole = false;
        }
        if let Err(error) = write_parts(&self.file, [header, blob, zeros], tail.end) {
            // Cut off, so that the next entry begins where readers expect it.
            self.file.set_len(tail.end).ok();
            return Err(error);
        }
        let entry = ArchiveEntry { offset: tail.end + header.len() as u64, len, crc: crc.sum() };
        tail.end = entry.offset + len + zeros.len() as u64;
        self.appended.store(tail.end, Ordering::Release);
        self.point(key.hex, entry);
        Ok(())
    }

    /// Flushes all earlier puts. A writer that waits for a running flush is covered by the next one, so that many share a flush.
    /// Refuses to flush after a failure: an entry may be torn, and those behind it would be lost with it.
    fn flush(&self) -> Result<()> {
        let own = self.appended.load(Ordering::Acquire);
        let mut flushed = lock(&self.flushed);
        self.has_failed.check()?;
        if *flushed >= own {
            return Ok(());
        }
        let covered = self.appended.load(Ordering::Acquire);
        self.has_failed.noting(self.file.sync_data())?;
        *flushed = covered;
        Ok(())
    }

    /// Lends a span (offset and length) of an entry; returns the CRC-32 of what was lent, or 0 unless it `checks`.
    fn read(
        &self,
        entry: &ArchiveEntry,
        (offset, len): (u64, u64),
        buffer: &mut [u8],
        checks: bool,
        sink: Sink,
    ) -> Result<u32> {
        let (mut at, end) = (entry.offset + offset, entry.offset + offset + len);
        let mut crc = Crc::new();
        while at < end {
            let want = buffer.len().min((end - at) as usize);
            let piece = &mut buffer[..want];
            self.file.read_exact_at(piece, at)?;
            if checks {
                crc.update(piece);
            }
            sink(piece);
            at += want as u64;
        }
        Ok(crc.sum())
    }
}

/// Writes three parts one behind the other, by one call if the kernel takes all.
fn write_parts(file: &File, parts: [&[u8]; 3], mut offset: u64) -> Result<()> {
    let mut written = rustix::io::pwritev(file, &parts.map(IoSlice::new), offset)?;
    for part in parts {
        let done = written.min(part.len());
        file.write_all_at(&part[done..], offset + done as u64)?;
        written -= done;
        offset += part.len() as u64;
    }
    Ok(())
}

impl<F: ArchiveFormat> Store for Archive<F> {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let (header, buffer) = (Vec::new(), vec![0; self.buffer_bytes]);
        Ok(Box::new(ArchiveSession { archive: self, header, buffer }))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(F::FACTS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn settle(&self) -> Result<()> {
        self.finish()
    }

    fn totals(&self) -> Result<(u64, u64)> {
        let mut totals = (0, 0);
        for shard in &self.index {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            totals.0 += shard.len() as u64;
            totals.1 += shard.values().map(|entry| entry.len).sum::<u64>();
        }
        Ok(totals)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.finish()
    }
}

struct ArchiveSession<'a, F> {
    archive: &'a Archive<F>,
    header: Vec<u8>,
    buffer: Vec<u8>,
}

impl<F: ArchiveFormat> Session for ArchiveSession<'_, F> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.archive.append(key, blob, &mut self.header)?;
        if self.archive.durability == Durability::EachWrite { self.archive.flush() } else { Ok(()) }
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let Some(entry) = self.archive.find(&key.hex) else { return Ok(false) };
        let checks = F::HAS_CRC && span == Span::Whole;
        let crc = self.archive.read(&entry, span.below(entry.len), &mut self.buffer, checks, sink)?;
        if checks && crc != entry.crc {
            bail!("the CRC-32 of entry `{}` of `{}` does not match", key.as_str(), F::FILE);
        }
        Ok(true)
    }

    fn delete(&mut self, _key: &Key) -> Result<()> {
        Err(Error::Unsupported("a delete"))
    }

    fn sync(&mut self) -> Result<()> {
        self.archive.flush()
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        for shard in &self.archive.index {
            for hex in shard.read().unwrap_or_else(PoisonError::into_inner).keys() {
                each(std::str::from_utf8(hex).unwrap_or_default());
            }
        }
        Ok(())
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        get_each(keys, sink, |key, sink| self.get(key, Span::Whole, sink))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::Command;

    use super::*;

    /// An archive of its own in a directory.
    fn opened<F: ArchiveFormat>(dir: &Path, mode: Mode) -> Archive<F> {
        let options = Options::new([("buffer".to_owned(), "4096".to_owned())].into());
        let setup = Setup {
            dir,
            common: &Common::new(dir.join("common")),
            mode,
            durability: Durability::OnSync,
            cache_bytes: 0,
            fits: true,
            blob_bytes_max: 1 << 20,
            store_bytes_max: 1 << 20,
            keys_max: 10,
            workers: 1,
            op_timeout: std::time::Duration::from_secs(10),
            options: &options,
            join_token: None,
        };
        Archive::open(&setup).unwrap()
    }

    fn key(id: u64) -> Key {
        Key::of_digest(id, u128::from(id) << 64 | 7)
    }

    fn blob(id: u64) -> Vec<u8> {
        vec![id as u8 + 1; [0, 1, 512, 20_000][id as usize % 4]]
    }

    fn put<F: ArchiveFormat>(archive: &Archive<F>, ids: std::ops::Range<u64>) {
        ids.for_each(|id| archive.append(&key(id), &blob(id), &mut Vec::new()).unwrap());
    }

    fn expect<F: ArchiveFormat>(archive: &Archive<F>, ids: std::ops::Range<u64>) {
        assert_eq!(archive.totals().unwrap().0, ids.end - ids.start);
        let mut session = archive.session().unwrap();
        for id in ids {
            let mut found = Vec::new();
            assert!(session.get(&key(id), Span::Whole, &mut |piece| found.extend_from_slice(piece)).unwrap());
            assert_eq!(found, blob(id));
        }
    }

    /// Whether an archive is opened by its index where it is whole, and by its entries where it is not or the index is of an
    /// earlier one.
    pub(in crate::stores::files) fn is_opened_by_its_index_or_by_its_entries<F: ArchiveFormat>() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let archive = opened::<F>(dir.path(), Mode::Create);
        put(&archive, 0..8);
        archive.finish().unwrap();
        let archive = opened::<F>(dir.path(), Mode::Open);
        assert!(lock(&archive.tail).is_whole);
        expect(&archive, 0..8);
        // One whose size is that of a trailer of tar, and one that is written in half.
        put(&archive, 9..10);
        assert!(F::load(dir.path(), &archive.file).unwrap().is_none(), "the index is of an earlier archive");
        put(&archive, 8..9);
        put(&archive, 11..12);
        let bytes = archive.file.metadata().unwrap().len();
        archive.file.set_len(bytes - 1000).unwrap();
        let archive = opened::<F>(dir.path(), Mode::Open);
        assert!(!lock(&archive.tail).is_whole);
        expect(&archive, 0..10);
        assert_eq!(archive.file.metadata().unwrap().len(), lock(&archive.tail).end);
        put(&archive, 10..12);
        archive.finish().unwrap();
        expect(&opened::<F>(dir.path(), Mode::Open), 0..12);
    }

    /// Whether another program, which gets the archive's path as its last argument, finds these entries and nothing wrong. Skipped
    /// where there is no such program.
    pub(in crate::stores::files) fn is_right_for<F: ArchiveFormat>(program: &str, arguments: &[&str]) {
        let dir = tempfile::tempdir_in(".").unwrap();
        let archive = opened::<F>(dir.path(), Mode::Create);
        put(&archive, 0..8);
        Box::new(archive).close().unwrap();
        let mut command = Command::new(program);
        let Ok(output) = command.args(arguments).arg(dir.path().join(F::FILE)).output() else { return };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        (0..8).for_each(|id| assert_eq!(said.matches(key(id).as_str()).count(), 1, "{said}"));
    }
}
