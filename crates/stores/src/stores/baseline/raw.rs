//! The raw baseline: direct reads and writes of one preallocated file, bypassing the page cache. It measures the device itself.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use anyhow::{Context, anyhow};
use rustix::fs::{AtFlags, FallocateFlags, StatxFlags};
use rustix::io::Errno;

use crate::host::machine::{self, AlignedBuffer};
use crate::store::*;
use crate::stores::common::lock;

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "raw",
    about: "one allocated file, read and written past the page cache, one call for an op: the device itself",
    kind: Kind::Baseline,
    programs: &[],
    options: &[],
    caps: |_| Capabilities {
        // The positions of blobs are written when the store is closed, and not before.
        durability: &[Durability::None],
        // Lends the whole blob at once.
        streams: false,
        backup: Backup::None("a baseline: nobody keeps files in it"),
        ..Capabilities::ONE_BY_ONE
    },
    loss: |_, _| Losses::alike(Loss::All),
    integrity: |_, _| Integrity::Unchecked,
    traits: |_| Traits::default(),
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs { of_place: refusal, ..Needs::NOTHING },
    open,
};

/// Enough to make lock contention rare with 64 workers.
const SHARDS: usize = 64;
/// Bytes per write while the file is preallocated.
const STEP_BYTES: u64 = 1 << 20;
/// Alignment of direct I/O if the kernel does not report it (before Linux 6.1): the block size of nearly every file system.
const USUAL_BLOCK_BYTES: u64 = 4096;
/// The file of the blobs, and the index of their positions.
const DATA: &str = "data";
const INDEX: &str = "index";

/// Position of a blob in the file.
#[derive(Clone, Copy, Debug)]
struct Slot {
    offset: u64,
    /// Length of the blob; its space in the file is rounded up to blocks.
    len: u64,
}

/// Free space in the file, in bytes.
#[derive(Debug, Default)]
struct FreeSpaceMap {
    /// Lengths of gaps by their offset.
    gaps: BTreeMap<u64, u64>,
    /// End of the last blob: everything after it is free.
    end: u64,
}

impl FreeSpaceMap {
    /// Allocates `len` bytes: from the first gap that is large enough, or else at the end.
    fn take(&mut self, len: u64) -> u64 {
        let Some((offset, gap)) = self.gaps.iter().find(|(_, gap)| **gap >= len).map(|(a, b)| (*a, *b))
        else {
            self.end += len;
            return self.end - len;
        };
        self.gaps.remove(&offset);
        if gap > len {
            self.gaps.insert(offset + len, gap - len);
        }
        offset
    }

    /// Frees bytes, merging them with adjacent gaps.
    fn give(&mut self, mut offset: u64, mut len: u64) {
        if let Some((before, gap)) = self.gaps.range(..offset).next_back().map(|(a, b)| (*a, *b))
            && before + gap == offset
        {
            self.gaps.remove(&before);
            (offset, len) = (before, gap + len);
        }
        if let Some(gap) = self.gaps.remove(&(offset + len)) {
            len += gap;
        }
        if len > 0 {
            self.gaps.insert(offset, len);
        }
    }
}

type Shard = RwLock<HashMap<[u8; 32], Slot>>;

struct Raw {
    file: File,
    dir: PathBuf,
    block_bytes: u64,
    file_bytes: u64,
    blob_bytes_max: u64,
    /// A reader holds its shard's lock, so that the space it reads is not given to another blob meanwhile.
    shards: Vec<Shard>,
    room: Mutex<FreeSpaceMap>,
}

/// Why files in this directory do not support direct I/O; `None` if they do. Tries it with a file there.
fn refusal(dir: &Path) -> Option<anyhow::Error> {
    let path = dir.join("direct");
    let tried = make(&path, STEP_BYTES);
    // Fails, without harm, if the file was never created.
    std::fs::remove_file(&path).ok();
    tried.err()
}

/// Creates a file of this size, writes every byte of it by direct I/O, and returns it with its block size.
fn make(path: &Path, bytes: u64) -> anyhow::Result<(File, u64)> {
    let shown = path.display();
    ensure!(
        !path.parent().is_some_and(machine::is_in_memory),
        "`{shown}` would lie in memory, and there is no device below it to read"
    );
    drop(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?);
    let file = open_direct(path)?;
    let block_bytes = block_bytes(&file).with_context(|| format!("`{shown}`"))?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        // Where allocation is not supported, writing allocates.
        Ok(()) | Err(Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno).with_context(|| format!("cannot allocate {bytes} B for `{shown}`")),
    }
    let mut zeros = AlignedBuffer::new(STEP_BYTES as usize);
    let mut offset = 0;
    while offset < bytes {
        let len = STEP_BYTES.min(bytes - offset);
        file.write_all_at(zeros.first(len as usize), offset)
            .with_context(|| format!("cannot write `{shown}` past the page cache"))?;
        offset += len;
    }
    file.read_exact_at(zeros.first(block_bytes as usize), 0)
        .with_context(|| format!("cannot read `{shown}` past the page cache"))?;
    file.sync_all()?;
    // Some file systems accept O_DIRECT and read through the cache anyway.
    ensure!(
        !machine::is_resident(&file),
        "the file system of `{shown}` answers direct reads from memory, so that no device is read"
    );
    Ok((file, block_bytes))
}

fn open_direct(path: &Path) -> anyhow::Result<File> {
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    opened.with_context(|| format!("cannot open `{}` past the page cache (O_DIRECT)", path.display()))
}

/// The alignment of offsets and lengths that direct I/O requires.
fn block_bytes(file: &File) -> anyhow::Result<u64> {
    let status = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    if status.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return Ok(USUAL_BLOCK_BYTES);
    }
    match u64::from(status.stx_dio_offset_align) {
        0 => Err(anyhow!("its file system has no reads past the page cache (O_DIRECT)")),
        block => Ok(block),
    }
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let path = setup.dir.join(DATA);
    let (file, block_bytes) = match setup.mode {
        Mode::Create => {
            // The last block of each blob is partly empty.
            let bytes = setup.store_bytes_max + setup.keys_max * USUAL_BLOCK_BYTES;
            make(&path, bytes.next_multiple_of(STEP_BYTES))?
        }
        Mode::Open => {
            let file = open_direct(&path)?;
            let block_bytes = block_bytes(&file)?;
            (file, block_bytes)
        }
    };
    let file_bytes = file.metadata()?.len();
    let mut raw = Raw {
        file,
        dir: setup.dir.to_owned(),
        block_bytes,
        file_bytes,
        blob_bytes_max: setup.blob_bytes_max,
        shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        room: Mutex::default(),
    };
    if setup.mode == Mode::Open {
        raw.load()?;
    }
    Ok(Box::new(raw))
}

impl Raw {
    /// Returns the shard of a key, by the last digits of its digest.
    fn shard(&self, hex: &[u8; 32]) -> &Shard {
        &self.shards[(usize::from(hex[30]) * 16 + usize::from(hex[31])) % SHARDS]
    }

    fn room(&self) -> std::sync::MutexGuard<'_, FreeSpaceMap> {
        lock(&self.room)
    }

    fn give(&self, slot: Slot) {
        self.room().give(slot.offset, slot.len.next_multiple_of(self.block_bytes));
    }

    fn each(&self, mut each: impl FnMut(&str, Slot)) {
        for shard in &self.shards {
            for (hex, slot) in shard.read().unwrap_or_else(PoisonError::into_inner).iter() {
                each(std::str::from_utf8(hex).unwrap_or_default(), *slot);
            }
        }
    }

    /// Loads the positions of the blobs, and rebuilds the free space from them.
    fn load(&mut self) -> anyhow::Result<()> {
        let path = self.dir.join(INDEX);
        let opened = File::open(&path).with_context(|| format!("cannot open `{}`", path.display()))?;
        let mut slots = Vec::new();
        for line in BufReader::new(opened).lines() {
            let line = line?;
            let (hex, slot) = parsed(&line).with_context(|| format!("`{}` is damaged", path.display()))?;
            self.shard(&hex).write().unwrap_or_else(PoisonError::into_inner).insert(hex, slot);
            slots.push(slot);
        }
        slots.sort_unstable_by_key(|slot| slot.offset);
        let mut room = FreeSpaceMap::default();
        for slot in slots {
            if slot.offset > room.end {
                room.give(room.end, slot.offset - room.end);
            }
            room.end = slot.offset + slot.len.next_multiple_of(self.block_bytes);
        }
        self.room = Mutex::new(room);
        Ok(())
    }
}

/// Parses a line of the index.
fn parsed(line: &str) -> Option<([u8; 32], Slot)> {
    let mut words = line.split(' ');
    let hex = words.next()?.as_bytes().try_into().ok()?;
    let slot = Slot { offset: words.next()?.parse().ok()?, len: words.next()?.parse().ok()? };
    Some((hex, slot))
}

impl Store for Raw {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let room_bytes = self.blob_bytes_max.next_multiple_of(self.block_bytes) + self.block_bytes;
        Ok(Box::new(RawSession { store: self, buffer: AlignedBuffer::new(room_bytes as usize) }))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::from([
            ("calls".into(), "past the page cache (O_DIRECT), one for an op".into()),
            ("rounded_up_to_bytes".into(), self.block_bytes.to_string()),
            ("file_bytes".into(), self.file_bytes.to_string()),
        ]))
    }

    fn close(self: Box<Self>) -> Result<()> {
        let mut index = BufWriter::new(File::create(self.dir.join(INDEX))?);
        let mut written = Ok(());
        self.each(|hex, Slot { offset, len }| {
            if written.is_ok() {
                written = writeln!(index, "{hex} {offset} {len}");
            }
        });
        written?;
        index.flush()?;
        Ok(())
    }
}

struct RawSession<'a> {
    store: &'a Raw,
    buffer: AlignedBuffer,
}

impl Session for RawSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        let store = self.store;
        let slot_bytes = (blob.len() as u64).next_multiple_of(store.block_bytes);
        let offset = store.room().take(slot_bytes);
        let slot = Slot { offset, len: blob.len() as u64 };
        if slot_bytes > 0 {
            let bytes = self.buffer.first(slot_bytes as usize);
            bytes[..blob.len()].copy_from_slice(blob);
            bytes[blob.len()..].fill(0);
            if let Err(error) = store.file.write_all_at(bytes, offset) {
                store.give(slot);
                return Err(error.into());
            }
        }
        let before =
            store.shard(&key.hex).write().unwrap_or_else(PoisonError::into_inner).insert(key.hex, slot);
        before.into_iter().for_each(|before| store.give(before));
        Ok(())
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let store = self.store;
        let shard = store.shard(&key.hex).read().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = shard.get(&key.hex) else { return Ok(false) };
        let (begin, len) = span.below(slot.len);
        if len > 0 {
            let skipped = begin % store.block_bytes;
            let from = slot.offset + begin - skipped;
            let bytes = self.buffer.first((skipped + len).next_multiple_of(store.block_bytes) as usize);
            store.file.read_exact_at(bytes, from)?;
            sink(&bytes[skipped as usize..(skipped + len) as usize]);
        }
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        let store = self.store;
        let slot = store.shard(&key.hex).write().unwrap_or_else(PoisonError::into_inner).remove(&key.hex);
        slot.into_iter().for_each(|slot| store.give(slot));
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.store.file.sync_data()?)
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        self.store.each(|hex, _| each(hex));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_taken_again_and_gaps_that_touch_are_one() {
        let mut room = FreeSpaceMap::default();
        let places: Vec<u64> = (0..4).map(|_| room.take(512)).collect();
        assert_eq!(places, [0, 512, 1024, 1536]);
        room.give(512, 512);
        room.give(1536, 512);
        assert_eq!(room.take(1024), 2048);
        room.give(1024, 512);
        assert_eq!(room.gaps, BTreeMap::from([(512, 1536)]));
        assert_eq!((room.take(1024), room.take(512), room.take(512)), (512, 1536, 3072));
        assert!(room.gaps.is_empty());
    }

    #[test]
    fn files_in_memory_are_refused_with_the_reason() {
        let shm = Path::new("/dev/shm");
        // Nothing to refuse if this is not a file system in memory.
        if !machine::is_in_memory(shm) {
            return;
        }
        let dir = tempfile::tempdir_in(shm).unwrap();
        let why = format!("{:#}", refusal(dir.path()).unwrap());
        assert!(why.contains("memory") || why.contains("O_DIRECT"), "{why}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
