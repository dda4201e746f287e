//! Blobs appended to pack files, found through an index in memory that is rebuilt from the packs after a crash.
//!
//! A record is a header and the blob's bytes, each with a checksum of its own. Deletes are records too. A clean
//! close writes the index beside the packs; opening takes that index and removes it, so that a crash is noticed
//! by its absence and answered by reading the packs. Packs that are more than half garbage are rewritten by
//! `settle`, which is therefore part of the cost of the writes that made the garbage; what is less is taken away by `catch_up`,
//! before others write.

use std::collections::HashMap;
use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use anyhow::{Context, anyhow};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::store::*;
use crate::stores::common::failed::HasFailed;

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "files/packed",
    about: "our own format: blobs appended to pack files with checksums; the index is rebuilt after a crash",
    kind: Kind::Technique,
    programs: &[],
    options: &[
        OptionSpec {
            name: "pack",
            values: Values::Bytes { min: 1 << 20, max: 1 << 40 },
            default: "64MiB",
            about: "a pack is closed and the next one begun above this size",
        },
        OptionSpec {
            name: "put",
            values: Values::OneOf(&["atomic", "in-place"]),
            default: "atomic",
            about: "atomic: append; in-place: write over the old bytes where they fit, readers may see a mixture",
        },
        OptionSpec {
            name: "buffer",
            values: Values::Bytes { min: 4 << 10, max: 64 << 20 },
            default: "256KiB",
            about: "bytes read by one call",
        },
    ],
    caps: |options| Caps {
        atomic_put: options.text("put") == "atomic",
        streams: options.number("buffer") as usize <= PIECE_BYTES_MAX,
        catalogue: false,
        one_transaction: None,
        totals: false,
        other_data: false,
        backup: Backup::Closed(Means {
            by: "a copy of the closed directory",
            words: "A pack that is being rewritten while it is copied would be copied in part",
            link: "https://www.gnu.org/software/coreutils/manual/html_node/cp-invocation.html",
        }),
        ..Caps::ALL
    },
    loss: |options, durability| {
        let atomic = options.text("put") == "atomic";
        let after_kill = if atomic { Loss::Nothing } else { Loss::RecentWrites };
        let after_power_cut = match durability {
            Durability::EachWrite => after_kill,
            Durability::None | Durability::OnSync => Loss::RecentWrites,
        };
        Losses { after_kill, after_power_cut }
    },
    // Of a blob that may be a mixture no checksum is asked for.
    integrity: |options, _| match options.text("put") {
        "atomic" => Integrity::Checksums,
        _ => Integrity::Unchecked,
    },
    traits: |_| Traits::default(),
    memory: |_| Split::NO_CACHE,
    needs: Needs::NOTHING,
    open,
};

/// Name of the index that a clean close leaves.
const INDEX: &str = "index";
/// First bytes of a record; reading a pack stops where they are not.
const MAGIC: u32 = 0x4b42_5042;
/// A pack with more garbage than this share of its bytes is rewritten by `settle`.
const GARBAGE_SHARE_MAX: f64 = 0.5;
/// The same for `catch_up`, where all of it would be a rewrite of the whole store for a few overwritten blobs.
const GARBAGE_SHARE_LEFT: f64 = 0.05;
/// Enough that 64 workers seldom meet at one lock.
const SHARDS: usize = 64;

/// What stands before a blob's bytes in a pack.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Header {
    deleted: bool,
    /// Records of the same batch that follow. A batch counts only when its last record (0) is whole.
    batch_rest: u32,
    /// Bytes of the blob.
    len: u64,
    /// Bytes kept for it; more than `len` after an in-place put of a smaller blob.
    room: u64,
    key: Key,
    /// xxh3 of the blob's bytes.
    sum: u64,
}

impl Header {
    /// Bytes of an encoded header.
    const BYTES: usize = 80;

    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&u32::from(self.deleted).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.batch_rest.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.len.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.room.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.key.id.to_le_bytes());
        bytes[40..72].copy_from_slice(&self.key.hex);
        bytes[12..16].copy_from_slice(&(self.sum as u32).to_le_bytes());
        bytes[72..76].copy_from_slice(&((self.sum >> 32) as u32).to_le_bytes());
        let own_sum = xxh3_64(&bytes[..76]) as u32;
        bytes[76..80].copy_from_slice(&own_sum.to_le_bytes());
        bytes
    }

    /// `None` for bytes that are no header: the end of a pack, or a record that was not written whole.
    fn decode(bytes: &[u8; Self::BYTES]) -> Option<Header> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if word(0) != MAGIC || word(76) != xxh3_64(&bytes[..76]) as u32 {
            return None;
        }
        let mut hex = [0; 32];
        hex.copy_from_slice(&bytes[40..72]);
        Some(Header {
            deleted: word(4) != 0,
            batch_rest: word(8),
            len: long(16),
            room: long(24),
            key: Key { id: long(32), hex },
            sum: u64::from(word(12)) | u64::from(word(72)) << 32,
        })
    }

    /// Bytes of the whole record.
    fn record_bytes(&self) -> u64 {
        Self::BYTES as u64 + self.room
    }
}

struct Pack {
    number: u64,
    file: File,
    /// Bytes of whole records.
    bytes: AtomicU64,
    /// Bytes of records that the index points at.
    live_bytes: AtomicU64,
    /// Bytes of records that say that a blob was deleted.
    deleted_bytes: AtomicU64,
    /// Whether something was written that no flush has covered; set behind the write, before `Packed::appended` tells of it.
    is_dirty: AtomicBool,
}

/// Where a blob is.
#[derive(Clone)]
struct Place {
    pack: Arc<Pack>,
    /// Of the header.
    offset: u64,
    len: u64,
    room: u64,
    id: u64,
    sum: u64,
}

impl Place {
    fn record_bytes(&self) -> u64 {
        Header::BYTES as u64 + self.room
    }
}

type Shard = RwLock<HashMap<[u8; 32], Place>>;

struct Packed {
    dir: PathBuf,
    durability: Durability,
    atomic: bool,
    pack_bytes: u64,
    buffer_bytes: usize,
    index: Vec<Shard>,
    /// The packs, the last one active. Held while appending, so that the order of records is the order of
    /// changes to the index.
    packs: Mutex<Vec<Arc<Pack>>>,
    /// Bytes ever appended.
    appended: AtomicU64,
    /// How much of `appended` is on stable storage; held while flushing, so that one flush serves all who wait.
    flushed: Mutex<u64>,
    has_failed: HasFailed,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let store = Packed {
        dir: setup.dir.to_owned(),
        durability: setup.durability,
        atomic: setup.options.text("put") == "atomic",
        pack_bytes: setup.options.number("pack"),
        buffer_bytes: setup.options.number("buffer") as usize,
        index: (0..SHARDS).map(|_| Shard::default()).collect(),
        packs: Mutex::default(),
        appended: AtomicU64::new(0),
        flushed: Mutex::new(0),
        has_failed: HasFailed::default(),
    };
    if setup.mode == Mode::Open {
        store.open_packs()?;
        if !store.load_index()? {
            store.rebuild()?;
        }
    }
    Ok(Box::new(store))
}

fn pack_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("pack-{number:08}"))
}

fn open_pack(dir: &Path, number: u64) -> Result<Pack> {
    let path = pack_path(dir, number);
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.with_context(|| format!("cannot open `{}`", path.display()))?;
    let bytes = AtomicU64::new(file.metadata()?.len());
    let none = || AtomicU64::new(0);
    Ok(Pack {
        number,
        file,
        bytes,
        live_bytes: none(),
        deleted_bytes: none(),
        is_dirty: AtomicBool::new(false),
    })
}

/// Opening and closing.
impl Packed {
    fn open_packs(&self) -> Result<()> {
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.strip_prefix("pack-")?.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        let mut packs = lock(&self.packs);
        for number in numbers {
            packs.push(Arc::new(open_pack(&self.dir, number)?));
        }
        Ok(())
    }

    /// Takes the index of a clean close; false when there is none or it does not fit the packs.
    fn load_index(&self) -> Result<bool> {
        let path = self.dir.join(INDEX);
        let Ok(bytes) = std::fs::read(&path) else { return Ok(false) };
        std::fs::remove_file(&path)?;
        if !self.atomic && self.durability != Durability::None {
            // A power cut must not bring it back: packs that were written over in place are still as long as it says.
            File::open(&self.dir)?.sync_all()?;
        }
        let packs = lock(&self.packs);
        let Some(places) = decode_index(&bytes, &packs) else { return Ok(false) };
        for (hex, place) in places {
            self.point(hex, Some(place));
        }
        Ok(true)
    }

    /// Reads every record of every pack, oldest first. What is not whole at the end of a pack is cut off.
    fn rebuild(&self) -> Result<()> {
        let packs = lock(&self.packs).clone();
        for pack in &packs {
            let end = self.rebuild_from(pack)?;
            pack.file.set_len(end)?;
            if self.durability != Durability::None {
                // What was found may be in the page cache only, and no pack has a mark yet.
                pack.file.sync_data()?;
            }
            pack.bytes.store(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns where the whole records end.
    fn rebuild_from(&self, pack: &Arc<Pack>) -> Result<u64> {
        let pack_bytes = pack.bytes.load(Ordering::Relaxed);
        let mut header_bytes = [0; Header::BYTES];
        let mut buffer = vec![0; self.buffer_bytes];
        let mut batch = Vec::new();
        let (mut offset, mut end) = (0, 0);
        while offset + Header::BYTES as u64 <= pack_bytes {
            pack.file.read_exact_at(&mut header_bytes, offset)?;
            let Some(header) = Header::decode(&header_bytes) else { break };
            if offset + header.record_bytes() > pack_bytes {
                break;
            }
            let place = Place {
                pack: Arc::clone(pack),
                offset,
                len: header.len,
                room: header.room,
                id: header.key.id,
                sum: header.sum,
            };
            let whole = read_pieces(&place, 0, place.len, &mut buffer, true, &mut |_| {}).is_ok();
            if !whole && self.atomic {
                break;
            }
            offset += header.record_bytes();
            batch.push((header.key.hex, (whole && !header.deleted).then_some(place), header));
            if header.batch_rest == 0 {
                end = offset;
                for (hex, place, header) in batch.drain(..) {
                    self.point(hex, place);
                    pack.count(&header);
                }
            }
        }
        Ok(end)
    }

    fn save_index(&self) -> Result<()> {
        let draft = self.dir.join("index.draft");
        let packs = lock(&self.packs);
        std::fs::write(&draft, encode_index(&self.index, &packs))?;
        if self.durability != Durability::None {
            File::open(&draft)?.sync_all()?;
        }
        std::fs::rename(draft, self.dir.join(INDEX))?;
        if self.durability != Durability::None {
            File::open(&self.dir)?.sync_all()?;
        }
        Ok(())
    }
}

/// The index: number of packs, each pack's number, size and bytes of deletes, then every place; a checksum at the end.
fn encode_index(index: &[Shard], packs: &[Arc<Pack>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut push = |value: u64| bytes.extend_from_slice(&value.to_le_bytes());
    push(packs.len() as u64);
    for pack in packs {
        push(pack.number);
        push(pack.bytes.load(Ordering::Relaxed));
        push(pack.deleted_bytes.load(Ordering::Relaxed));
    }
    for shard in index {
        for (hex, place) in shard.read().unwrap_or_else(PoisonError::into_inner).iter() {
            for value in [place.pack.number, place.offset, place.len, place.room, place.id, place.sum] {
                bytes.extend_from_slice(&value.to_le_bytes());
            }
            bytes.extend_from_slice(hex);
        }
    }
    let sum = xxh3_64(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode_index(bytes: &[u8], packs: &[Arc<Pack>]) -> Option<Vec<([u8; 32], Place)>> {
    let (mut rest, sum) = bytes.split_last_chunk::<8>()?;
    if xxh3_64(rest) != u64::from_le_bytes(*sum) {
        return None;
    }
    let mut next = || {
        let (value, tail) = rest.split_first_chunk::<8>()?;
        rest = tail;
        Some(u64::from_le_bytes(*value))
    };
    if next()? != packs.len() as u64 {
        return None;
    }
    for pack in packs {
        if next()? != pack.number || next()? != pack.bytes.load(Ordering::Relaxed) {
            return None;
        }
        pack.deleted_bytes.store(next()?, Ordering::Relaxed);
    }
    let by_number: HashMap<u64, &Arc<Pack>> = packs.iter().map(|pack| (pack.number, pack)).collect();
    let mut places = Vec::new();
    for entry in rest.chunks_exact(80) {
        let long = |at: usize| {
            entry[at..at + 8].iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let mut hex = [0; 32];
        hex.copy_from_slice(&entry[48..80]);
        let pack = Arc::clone(by_number.get(&long(0))?);
        let place =
            Place { pack, offset: long(8), len: long(16), room: long(24), id: long(32), sum: long(40) };
        places.push((hex, place));
    }
    Some(places)
}

/// Changing and reading.
impl Packed {
    fn shard(&self, hex: &[u8; 32]) -> &Shard {
        let digit = |place: usize| char::from(hex[place]).to_digit(16).unwrap_or(0) as usize;
        &self.index[(digit(30) * 16 + digit(31)) % SHARDS]
    }

    fn find(&self, hex: &[u8; 32]) -> Option<Place> {
        self.shard(hex).read().unwrap_or_else(PoisonError::into_inner).get(hex).cloned()
    }

    /// Points the index at a blob's place, or at none, and keeps the packs' live bytes.
    fn point(&self, hex: [u8; 32], place: Option<Place>) {
        let mut shard = self.shard(&hex).write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = &place {
            place.pack.live_bytes.fetch_add(place.record_bytes(), Ordering::Relaxed);
        }
        let old = match place {
            Some(place) => shard.insert(hex, place),
            None => shard.remove(&hex),
        };
        if let Some(old) = old {
            old.pack.live_bytes.fetch_sub(old.record_bytes(), Ordering::Relaxed);
        }
    }

    /// The pack to append to; begins the next one when the last one is full.
    fn active(&self, packs: &mut Vec<Arc<Pack>>) -> Result<Arc<Pack>> {
        match packs.last() {
            Some(last) if last.bytes.load(Ordering::Relaxed) < self.pack_bytes => {
                return Ok(Arc::clone(last));
            }
            Some(full) if self.durability != Durability::None => {
                self.flush_pack(full)?;
                // Nobody writes while `packs` is held. Not earlier: whoever finds no mark takes the pack for flushed.
                full.is_dirty.store(false, Ordering::Release);
            }
            _ => {}
        }
        self.begin_pack(packs)
    }

    /// Begins the next pack. Its name is on stable storage before anything that is in it.
    fn begin_pack(&self, packs: &mut Vec<Arc<Pack>>) -> Result<Arc<Pack>> {
        let number = packs.last().map_or(1, |last| last.number + 1);
        let pack = Arc::new(open_pack(&self.dir, number)?);
        if self.durability != Durability::None {
            File::open(&self.dir)?.sync_all()?;
        }
        packs.push(Arc::clone(&pack));
        Ok(pack)
    }

    /// Appends records as one batch and points the index at them. Holds `packs` throughout.
    fn append(&self, packs: &mut Vec<Arc<Pack>>, records: &[(Header, &[u8])]) -> Result<()> {
        let pack = self.active(packs)?;
        let start = pack.bytes.load(Ordering::Relaxed);
        let mut offset = start;
        for (header, blob) in records {
            if let Err(error) = write_record(&pack.file, header, blob, offset) {
                // Cut off what was written, so that the next record begins where readers expect it.
                pack.file.set_len(start).ok();
                return Err(error);
            }
            offset += header.record_bytes();
        }
        pack.bytes.store(offset, Ordering::Relaxed);
        pack.is_dirty.store(true, Ordering::Release);
        self.appended.fetch_add(offset - start, Ordering::Relaxed);
        offset = start;
        for (header, _) in records {
            let place = (!header.deleted).then(|| Place {
                pack: Arc::clone(&pack),
                offset,
                len: header.len,
                room: header.room,
                id: header.key.id,
                sum: header.sum,
            });
            self.point(header.key.hex, place);
            pack.count(header);
            offset += header.record_bytes();
        }
        Ok(())
    }

    /// Writes over the old bytes of a blob where the new ones fit.
    fn put_in_place(&self, key: &Key, blob: &[u8]) -> Result<bool> {
        let _packs = lock(&self.packs);
        let Some(mut place) = self.find(&key.hex) else { return Ok(false) };
        if (blob.len() as u64) > place.room {
            return Ok(false);
        }
        (place.len, place.sum) = (blob.len() as u64, xxh3_64(blob));
        let header = Header {
            deleted: false,
            batch_rest: 0,
            len: place.len,
            room: place.room,
            key: *key,
            sum: place.sum,
        };
        write_record(&place.pack.file, &header, blob, place.offset)?;
        place.pack.is_dirty.store(true, Ordering::Release);
        self.appended.fetch_add(header.record_bytes(), Ordering::Relaxed);
        self.point(key.hex, Some(place));
        Ok(true)
    }

    fn write(&self, records: &[(Header, &[u8])]) -> Result<()> {
        self.append(&mut lock(&self.packs), records)?;
        self.after_write()
    }

    fn after_write(&self) -> Result<()> {
        if self.durability == Durability::EachWrite { self.flush() } else { Ok(()) }
    }

    /// Brings what was written so far to stable storage: the packs that have a mark. Whoever waits behind a running
    /// flush finds its own bytes covered by the next one, so that many writers share flushes.
    fn flush(&self) -> Result<()> {
        let mine = self.appended.load(Ordering::Relaxed);
        let mut flushed = lock(&self.flushed);
        if *flushed >= mine {
            return Ok(());
        }
        let covered = self.appended.load(Ordering::Relaxed);
        // Whoever added to `covered` held the packs meanwhile: behind this lock its mark is seen.
        let packs = lock(&self.packs).clone();
        for pack in &packs {
            // The mark goes first: what is written during the flush sets it again, for the next one.
            if !pack.is_dirty.swap(false, Ordering::AcqRel) {
                continue;
            }
            if let Err(error) = self.flush_pack(pack) {
                pack.is_dirty.store(true, Ordering::Release);
                return Err(error);
            }
        }
        *flushed = covered;
        Ok(())
    }

    /// Behind a flush that failed there may be a record that is torn, and a pack is read up to the first of these.
    fn flush_pack(&self, pack: &Pack) -> Result<()> {
        self.has_failed.check()?;
        Ok(self.has_failed.noting(pack.file.sync_data())?)
    }

    /// Rewrites packs of which more than this share is garbage, until there is none: one that goes leaves its deletes to others,
    /// and the next one may become the first.
    fn compact(&self, share_max: f64) -> Result<()> {
        loop {
            let packs = lock(&self.packs).clone();
            let mut candidates =
                packs.iter().enumerate().filter(|(place, pack)| pack.garbage_share(*place == 0) > share_max);
            let Some((_, pack)) = candidates.next() else { return Ok(()) };
            self.rewrite(pack)?;
        }
    }

    /// Appends the live records of a pack elsewhere, flushes them, and removes the pack.
    fn rewrite(&self, old: &Arc<Pack>) -> Result<()> {
        {
            let mut packs = lock(&self.packs);
            if packs.last().is_some_and(|last| last.number == old.number) {
                self.flush_pack(old)?;
                self.begin_pack(&mut packs)?;
            }
        }
        let mut header_bytes = [0; Header::BYTES];
        let mut blob = Vec::new();
        let mut offset = 0;
        while offset < old.bytes.load(Ordering::Relaxed) {
            old.file.read_exact_at(&mut header_bytes, offset)?;
            let header = Header::decode(&header_bytes)
                .ok_or_else(|| anyhow!("pack {} has no record at {offset}", old.number))?;
            let mut packs = lock(&self.packs);
            let place = self.find(&header.key.hex);
            match place {
                Some(place) if place.pack.number == old.number && place.offset == offset => {
                    blob.resize(header.len as usize, 0);
                    old.file.read_exact_at(&mut blob, offset + Header::BYTES as u64)?;
                    let record = Header { batch_rest: 0, room: header.len, ..header };
                    self.append(&mut packs, &[(record, &blob)])?;
                }
                // A delete is still needed while an older pack may hold the blob it deleted.
                None if header.deleted && packs.first().is_some_and(|first| first.number != old.number) => {
                    self.append(&mut packs, &[(Header { batch_rest: 0, ..header }, &[])])?;
                }
                _ => {}
            }
            offset += header.record_bytes();
        }
        if let Some(last) = lock(&self.packs).last() {
            self.flush_pack(last)?;
        }
        lock(&self.packs).retain(|pack| pack.number != old.number);
        Ok(std::fs::remove_file(pack_path(&self.dir, old.number))?)
    }
}

impl Pack {
    /// Counts a record that was appended or found.
    fn count(&self, header: &Header) {
        if header.deleted {
            self.deleted_bytes.fetch_add(header.record_bytes(), Ordering::Relaxed);
        }
    }

    /// The share of its bytes that rewriting takes away. Deletes stay while there are older packs, which may hold what they
    /// deleted.
    fn garbage_share(&self, is_first: bool) -> f64 {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let deleted = if is_first { 0 } else { self.deleted_bytes.load(Ordering::Relaxed) };
        let kept = self.live_bytes.load(Ordering::Relaxed) + deleted;
        bytes.saturating_sub(kept) as f64 / bytes.max(1) as f64
    }
}

fn write_record(file: &File, header: &Header, blob: &[u8], offset: u64) -> Result<()> {
    let head = header.encode();
    let written = rustix::io::pwritev(file, &[IoSlice::new(&head), IoSlice::new(blob)], offset)?;
    if written < head.len() {
        file.write_all_at(&head[written..], offset + written as u64)?;
    }
    let of_blob = written.saturating_sub(head.len());
    if of_blob < blob.len() {
        file.write_all_at(&blob[of_blob..], offset + (head.len() + of_blob) as u64)?;
    }
    Ok(())
}

/// Lends `len` bytes of a blob from `offset`; checks the checksum when all of it is read.
fn read_pieces(
    place: &Place,
    offset: u64,
    len: u64,
    buffer: &mut [u8],
    check: bool,
    sink: Sink,
) -> Result<()> {
    let start = place.offset + Header::BYTES as u64;
    let (mut at, end) = (start + offset, start + offset + len);
    let mut sum = Xxh3::new();
    while at < end {
        let want = buffer.len().min((end - at) as usize);
        let piece = &mut buffer[..want];
        place.pack.file.read_exact_at(piece, at)?;
        if check {
            sum.update(piece);
        }
        sink(piece);
        at += want as u64;
    }
    if check && sum.digest() != place.sum {
        return Err(Error::Failed(anyhow!(
            "checksum of a blob in pack {} does not match",
            place.pack.number
        )));
    }
    Ok(())
}

impl Store for Packed {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(PackedSession { store: self, buffer: vec![0; self.buffer_bytes] }))
    }

    fn facts(&self) -> Result<Facts> {
        let checked = if self.atomic {
            "checked when a blob is read whole"
        } else {
            "checked when the index is rebuilt"
        };
        Ok(Facts::from([
            ("pack_bytes".into(), self.pack_bytes.to_string()),
            ("checksum".into(), format!("xxh3-64, {checked}")),
        ]))
    }

    fn settle(&self) -> Result<()> {
        self.compact(GARBAGE_SHARE_MAX)
    }

    fn catch_up(&self) -> Result<()> {
        self.compact(GARBAGE_SHARE_LEFT)
    }

    fn close(self: Box<Self>) -> Result<()> {
        if self.durability != Durability::None {
            self.flush()?;
        }
        self.save_index()
    }
}

struct PackedSession<'a> {
    store: &'a Packed,
    buffer: Vec<u8>,
}

fn put_header(key: &Key, blob: &[u8], batch_rest: usize) -> Header {
    let len = blob.len() as u64;
    Header { deleted: false, batch_rest: batch_rest as u32, len, room: len, key: *key, sum: xxh3_64(blob) }
}

fn delete_header(key: &Key, batch_rest: usize) -> Header {
    Header { deleted: true, batch_rest: batch_rest as u32, len: 0, room: 0, key: *key, sum: xxh3_64(&[]) }
}

impl Session for PackedSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        if !self.store.atomic && self.store.put_in_place(key, blob)? {
            return self.store.after_write();
        }
        self.store.write(&[(put_header(key, blob, 0), blob)])
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let Some(place) = self.store.find(&key.hex) else { return Ok(false) };
        let (offset, len) = span.below(place.len);
        let check = span == Span::Whole && self.store.atomic;
        read_pieces(&place, offset, len, &mut self.buffer, check, sink)?;
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        if self.store.find(&key.hex).is_none() {
            return Ok(());
        }
        self.store.write(&[(delete_header(key, 0), &[])])
    }

    fn sync(&mut self) -> Result<()> {
        self.store.flush()
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        for shard in &self.store.index {
            for hex in shard.read().unwrap_or_else(PoisonError::into_inner).keys() {
                each(std::str::from_utf8(hex).unwrap_or_default());
            }
        }
        Ok(())
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        let last = blobs.len().saturating_sub(1);
        let records: Vec<_> = blobs
            .iter()
            .enumerate()
            .map(|(i, (key, blob))| (put_header(key, blob, last - i), *blob))
            .collect();
        self.store.write(&records)
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        let mut found = 0;
        for (index, key) in keys.iter().enumerate() {
            found += usize::from(self.get(key, Span::Whole, &mut |piece| sink(index, piece))?);
        }
        Ok(found)
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        let present: Vec<&Key> = keys.iter().filter(|key| self.store.find(&key.hex).is_some()).collect();
        let last = present.len().saturating_sub(1);
        let records: Vec<_> =
            present.iter().enumerate().map(|(i, key)| (delete_header(key, last - i), &[] as &[u8])).collect();
        self.store.write(&records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_encoding_and_loss_is_noticed() {
        let key = Key { id: 7, hex: [b'a'; 32] };
        let header = Header { deleted: false, batch_rest: 3, len: 10, room: 12, key, sum: u64::MAX - 5 };
        let mut bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        bytes[20] ^= 1;
        assert_eq!(Header::decode(&bytes), None);
    }

    fn empty(dir: &Path, pack_bytes: u64) -> Packed {
        Packed {
            dir: dir.to_owned(),
            durability: Durability::OnSync,
            atomic: false,
            pack_bytes,
            buffer_bytes: 4096,
            index: (0..SHARDS).map(|_| Shard::default()).collect(),
            packs: Mutex::default(),
            appended: AtomicU64::new(0),
            flushed: Mutex::new(0),
            has_failed: HasFailed::default(),
        }
    }

    fn numbers(store: &Packed) -> Vec<u64> {
        lock(&store.packs).iter().map(|pack| pack.number).collect()
    }

    #[test]
    fn settling_leaves_nothing_to_settle_where_only_deletes_are_left() {
        let dir = tempfile::tempdir_in(".").unwrap();
        // A pack has two of these records.
        let store = empty(dir.path(), 1000);
        let keys = [1_u64, 2, 3].map(|id| Key::of_digest(id, u128::from(id)));
        for key in &keys {
            store.write(&[(put_header(key, &[7; 500], 0), &[7; 500])]).unwrap();
        }
        store.write(&[(delete_header(&keys[2], 0), &[])]).unwrap();
        store.settle().unwrap();
        let settled = numbers(&store);
        store.settle().unwrap();
        assert_eq!(numbers(&store), settled);
        // What it deletes is gone with the first pack, and it with that.
        store.write(&[(delete_header(&keys[0], 0), &[]), (delete_header(&keys[1], 0), &[])]).unwrap();
        store.settle().unwrap();
        assert!(lock(&store.packs).iter().all(|pack| pack.bytes.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn what_is_not_due_is_caught_up_with() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let store = empty(dir.path(), 1 << 20);
        let keys = [1_u64, 2, 3, 4].map(|id| Key::of_digest(id, u128::from(id)));
        for key in keys.iter().chain(&keys[..2]) {
            store.write(&[(put_header(key, &[7; 500], 0), &[7; 500])]).unwrap();
        }
        let share = |store: &Packed| lock(&store.packs)[0].garbage_share(true);
        store.settle().unwrap();
        assert!(share(&store) > 0.3, "less than half is garbage, and stays");
        store.catch_up().unwrap();
        assert_eq!(share(&store), 0.0);
    }

    #[test]
    fn packs_are_marked_by_writes_until_they_are_flushed() {
        let dir = tempfile::tempdir_in(".").unwrap();
        // Every record fills a pack.
        let store = empty(dir.path(), 1);
        let marks = || -> Vec<bool> {
            lock(&store.packs).iter().map(|pack| pack.is_dirty.load(Ordering::Acquire)).collect()
        };
        let keys = [1_u64, 2, 3].map(|id| Key::of_digest(id, u128::from(id)));
        for key in &keys {
            store.write(&[(put_header(key, b"old", 0), b"old")]).unwrap();
        }
        // A pack that is closed is flushed.
        assert_eq!(marks(), [false, false, true]);
        assert!(store.put_in_place(&keys[0], b"new").unwrap());
        assert_eq!(marks(), [true, false, true]);
        store.flush().unwrap();
        assert_eq!(marks(), [false, false, false]);
        assert!(store.put_in_place(&keys[1], b"new").unwrap());
        assert_eq!(marks(), [false, true, false]);
    }
}
