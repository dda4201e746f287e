//! Blobs appended to pack files and located by an in-memory index, which is rebuilt from the packs after a crash.
//!
//! A record is a header and the blob's bytes, each with its own checksum. Deletes are records too. A clean close writes the index
//! beside the packs; opening loads and removes it, so a missing index means a crash, and the packs are read instead. `settle`
//! rewrites packs that are more than half garbage, which is part of the cost of the writes that made the garbage; `catch_up`
//! removes smaller amounts before a phase of writes.

use std::collections::HashMap;
use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::{Context, anyhow};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::directories;
use crate::store::*;
use crate::stores::common::failed::HasFailed;
use crate::stores::common::lock;
use crate::stores::common::reader::get_each;

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "files/packed",
    about: "an experimental format: blobs appended to pack files with checksums; the index is rebuilt after a crash",
    kind: Kind::Technique,
    programs: &[],
    options: &[
        OptionSpec::bytes("pack", 1 << 20, 1 << 40, "64MiB")
            .about("a pack is closed and the next one begun above this size"),
        OptionSpec::choice("put", &["atomic", "in-place"]).about(
            "atomic: append; in-place: write over the old bytes where they fit, readers may see a mixture",
        ),
        OptionSpec::bytes("buffer", 4 << 10, 64 << 20, "256KiB").about("bytes read by one call"),
    ],
    caps: |options| Capabilities {
        atomic_put: options.text("put") == "atomic",
        streams: options.number("buffer") as usize <= PIECE_BYTES_MAX,
        backup: Backup::Closed(BackupMethod {
            by: "a copy of the closed directory",
            words: "A pack that is being rewritten while it is copied would be copied in part",
            link: "https://www.gnu.org/software/coreutils/manual/html_node/cp-invocation.html",
        }),
        batch: true,
        get_many: true,
        ..Capabilities::ONE_BY_ONE
    },
    loss: directories::loss,
    // In-place puts may leave mixtures, so checksums are not checked.
    integrity: |options, _| match options.text("put") {
        "atomic" => Integrity::Checksums,
        _ => Integrity::Unchecked,
    },
    traits: |_| Traits::default(),
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs::NOTHING,
    open,
};

/// Name of the index file that a clean close leaves.
const INDEX: &str = "index";
/// First bytes of a record; reading a pack stops where they are missing.
const MAGIC: u32 = 0x4b42_5042;
/// `settle` rewrites packs whose share of garbage is above this.
const GARBAGE_SHARE_MAX: f64 = 0.5;
/// The same for `catch_up`; 0 would rewrite the whole store for a few overwritten blobs.
const GARBAGE_SHARE_LEFT: f64 = 0.05;
/// Enough to make lock contention rare with 64 workers.
const SHARDS: usize = 64;

/// The header before a blob's bytes in a pack.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BlobHeader {
    deleted: bool,
    /// Number of following records of the same batch. A batch counts only if its last record (0) is complete.
    batch_rest: u32,
    /// Length of the blob in bytes.
    len: u64,
    /// Bytes reserved for it; more than `len` after an in-place put of a smaller blob.
    room: u64,
    key: Key,
    /// xxh3 of the blob's bytes.
    sum: u64,
}

impl BlobHeader {
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

    /// Decodes a header; `None` at the end of a pack or for an incomplete record.
    fn decode(bytes: &[u8; Self::BYTES]) -> Option<BlobHeader> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if word(0) != MAGIC || word(76) != xxh3_64(&bytes[..76]) as u32 {
            return None;
        }
        let mut hex = [0; 32];
        hex.copy_from_slice(&bytes[40..72]);
        Some(BlobHeader {
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
    /// Bytes of complete records.
    bytes: AtomicU64,
    /// Bytes of records that the index points to.
    live_bytes: AtomicU64,
    /// Bytes of delete records.
    deleted_bytes: AtomicU64,
    /// True if there are unflushed writes; set after the write, before `Packed::appended` counts it.
    is_dirty: AtomicBool,
}

/// Position of a blob.
#[derive(Clone)]
struct BlobPosition {
    pack: Arc<Pack>,
    /// Offset of the header.
    offset: u64,
    len: u64,
    room: u64,
    id: u64,
    sum: u64,
}

impl BlobPosition {
    /// The position of the record with this header.
    fn of(pack: &Arc<Pack>, offset: u64, header: &BlobHeader) -> BlobPosition {
        let BlobHeader { len, room, sum, key, .. } = *header;
        BlobPosition { pack: Arc::clone(pack), offset, len, room, id: key.id, sum }
    }

    fn record_bytes(&self) -> u64 {
        BlobHeader::BYTES as u64 + self.room
    }
}

type Shard = RwLock<HashMap<[u8; 32], BlobPosition>>;

struct Packed {
    dir: PathBuf,
    durability: Durability,
    atomic: bool,
    pack_bytes: u64,
    buffer_bytes: usize,
    index: Vec<Shard>,
    /// The packs, the last one active. Locked while appending, so that records and index changes have the same order.
    packs: Mutex<Vec<Arc<Pack>>>,
    /// Bytes ever appended.
    appended: AtomicU64,
    /// How much of `appended` is on stable storage; locked while flushing, so that one flush serves all waiting writers.
    flushed: Mutex<u64>,
    has_failed: HasFailed,
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let buffer_bytes = setup.options.number("buffer") as usize;
    let atomic = setup.options.text("put") == "atomic";
    let store = Packed::new(setup.dir, setup.durability, atomic, setup.options.number("pack"), buffer_bytes);
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
    let (live_bytes, deleted_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    Ok(Pack { number, file, bytes, live_bytes, deleted_bytes, is_dirty: AtomicBool::new(false) })
}

/// Opening and closing.
impl Packed {
    /// A store without packs.
    fn new(dir: &Path, durability: Durability, atomic: bool, pack_bytes: u64, buffer_bytes: usize) -> Packed {
        Packed {
            dir: dir.to_owned(),
            durability,
            atomic,
            pack_bytes,
            buffer_bytes,
            index: (0..SHARDS).map(|_| Shard::default()).collect(),
            packs: Mutex::default(),
            appended: AtomicU64::new(0),
            flushed: Mutex::new(0),
            has_failed: HasFailed::default(),
        }
    }

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

    /// Loads and removes the index of a clean close; false if it is missing or does not match the packs.
    fn load_index(&self) -> Result<bool> {
        let path = self.dir.join(INDEX);
        let Ok(bytes) = std::fs::read(&path) else { return Ok(false) };
        std::fs::remove_file(&path)?;
        if !self.atomic && self.durability != Durability::None {
            // A power cut must not bring it back: packs overwritten in place still have the length that it records.
            File::open(&self.dir)?.sync_all()?;
        }
        let packs = lock(&self.packs);
        let Some(places) = decode_index(&bytes, &packs) else { return Ok(false) };
        for (hex, place) in places {
            self.point(hex, Some(place));
        }
        Ok(true)
    }

    /// Reads every record of every pack, oldest first. Truncates incomplete records at the end of a pack.
    fn rebuild(&self) -> Result<()> {
        let packs = lock(&self.packs).clone();
        for pack in &packs {
            let end = self.rebuild_from(pack)?;
            pack.file.set_len(end)?;
            if self.durability != Durability::None {
                // The records found may be in the page cache only, and no pack is marked dirty yet.
                pack.file.sync_data()?;
            }
            pack.bytes.store(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the end of the complete records.
    fn rebuild_from(&self, pack: &Arc<Pack>) -> Result<u64> {
        let pack_bytes = pack.bytes.load(Ordering::Relaxed);
        let mut header_bytes = [0; BlobHeader::BYTES];
        let mut buffer = vec![0; self.buffer_bytes];
        let mut batch = Vec::new();
        let (mut offset, mut end) = (0, 0);
        while offset + BlobHeader::BYTES as u64 <= pack_bytes {
            pack.file.read_exact_at(&mut header_bytes, offset)?;
            let Some(header) = BlobHeader::decode(&header_bytes) else { break };
            if offset + header.record_bytes() > pack_bytes {
                break;
            }
            let place = BlobPosition::of(pack, offset, &header);
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

/// Encodes the index: number of packs; number, size and bytes of deletes of each pack; then every position; a checksum at the
/// end.
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

fn decode_index(bytes: &[u8], packs: &[Arc<Pack>]) -> Option<Vec<([u8; 32], BlobPosition)>> {
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
        let place = BlobPosition {
            pack,
            offset: long(8),
            len: long(16),
            room: long(24),
            id: long(32),
            sum: long(40),
        };
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

    fn find(&self, hex: &[u8; 32]) -> Option<BlobPosition> {
        self.shard(hex).read().unwrap_or_else(PoisonError::into_inner).get(hex).cloned()
    }

    /// Sets or removes a blob's position in the index, and updates the packs' live bytes.
    fn point(&self, hex: [u8; 32], place: Option<BlobPosition>) {
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

    /// Returns the pack to append to; begins the next one if the last one is full.
    fn active(&self, packs: &mut Vec<Arc<Pack>>) -> Result<Arc<Pack>> {
        match packs.last() {
            Some(last) if last.bytes.load(Ordering::Relaxed) < self.pack_bytes => {
                return Ok(Arc::clone(last));
            }
            Some(full) if self.durability != Durability::None => {
                self.flush_pack(full)?;
                // No writes happen while `packs` is locked. Not earlier: other flushes treat an unmarked pack as flushed.
                full.is_dirty.store(false, Ordering::Release);
            }
            _ => {}
        }
        self.begin_pack(packs)
    }

    /// Begins the next pack. Its name is on stable storage before its contents.
    fn begin_pack(&self, packs: &mut Vec<Arc<Pack>>) -> Result<Arc<Pack>> {
        let number = packs.last().map_or(1, |last| last.number + 1);
        let pack = Arc::new(open_pack(&self.dir, number)?);
        if self.durability != Durability::None {
            File::open(&self.dir)?.sync_all()?;
        }
        packs.push(Arc::clone(&pack));
        Ok(pack)
    }

    /// Appends records as one batch and updates the index. The caller holds `packs` throughout.
    fn append(&self, packs: &mut Vec<Arc<Pack>>, records: &[(BlobHeader, &[u8])]) -> Result<()> {
        let pack = self.active(packs)?;
        let start = pack.bytes.load(Ordering::Relaxed);
        let mut offset = start;
        for (header, blob) in records {
            if let Err(error) = write_record(&pack.file, header, blob, offset) {
                // Truncates the partial write, so that the next record begins where readers expect it.
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
            let place = (!header.deleted).then(|| BlobPosition::of(&pack, offset, header));
            self.point(header.key.hex, place);
            pack.count(header);
            offset += header.record_bytes();
        }
        Ok(())
    }

    /// Overwrites a blob's old bytes; false if the new ones do not fit.
    fn put_in_place(&self, key: &Key, blob: &[u8]) -> Result<bool> {
        let _packs = lock(&self.packs);
        let Some(mut place) = self.find(&key.hex) else { return Ok(false) };
        if (blob.len() as u64) > place.room {
            return Ok(false);
        }
        let header = BlobHeader { room: place.room, ..put_header(key, blob, 0) };
        (place.len, place.sum) = (header.len, header.sum);
        write_record(&place.pack.file, &header, blob, place.offset)?;
        place.pack.is_dirty.store(true, Ordering::Release);
        self.appended.fetch_add(header.record_bytes(), Ordering::Relaxed);
        self.point(key.hex, Some(place));
        Ok(true)
    }

    fn write(&self, records: &[(BlobHeader, &[u8])]) -> Result<()> {
        self.append(&mut lock(&self.packs), records)?;
        self.after_write()
    }

    fn after_write(&self) -> Result<()> {
        if self.durability == Durability::EachWrite { self.flush() } else { Ok(()) }
    }

    /// Flushes all earlier writes, by flushing the packs marked dirty. A writer that waits for a running flush is covered by the
    /// next one, so that many writers share flushes.
    fn flush(&self) -> Result<()> {
        let mine = self.appended.load(Ordering::Relaxed);
        let mut flushed = lock(&self.flushed);
        if *flushed >= mine {
            return Ok(());
        }
        let covered = self.appended.load(Ordering::Relaxed);
        // All writes counted in `covered` were made while `packs` was locked, so their marks are visible after taking this lock.
        let packs = lock(&self.packs).clone();
        for pack in &packs {
            // Cleared first: writes during the flush set it again, for the next one.
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

    /// Refuses to flush after a failure: a torn record may be in the pack, and a pack is read up to the first torn record.
    fn flush_pack(&self, pack: &Pack) -> Result<()> {
        self.has_failed.check()?;
        Ok(self.has_failed.noting(pack.file.sync_data())?)
    }

    /// Rewrites packs with a larger share of garbage, until there are none: a removed pack may leave its deletes to others, and
    /// the next one may become the first.
    fn compact(&self, share_max: f64) -> Result<()> {
        loop {
            let packs = lock(&self.packs).clone();
            let mut candidates =
                packs.iter().enumerate().filter(|(place, pack)| pack.garbage_share(*place == 0) > share_max);
            let Some((_, pack)) = candidates.next() else { return Ok(()) };
            self.rewrite(pack)?;
        }
    }

    /// Appends the live records of a pack to others, flushes these, and removes the pack.
    fn rewrite(&self, old: &Arc<Pack>) -> Result<()> {
        {
            let mut packs = lock(&self.packs);
            if packs.last().is_some_and(|last| last.number == old.number) {
                self.flush_pack(old)?;
                self.begin_pack(&mut packs)?;
            }
        }
        let mut header_bytes = [0; BlobHeader::BYTES];
        let mut blob = Vec::new();
        let mut offset = 0;
        while offset < old.bytes.load(Ordering::Relaxed) {
            old.file.read_exact_at(&mut header_bytes, offset)?;
            let header = BlobHeader::decode(&header_bytes)
                .ok_or_else(|| anyhow!("pack {} has no record at {offset}", old.number))?;
            let mut packs = lock(&self.packs);
            let place = self.find(&header.key.hex);
            match place {
                Some(place) if place.pack.number == old.number && place.offset == offset => {
                    blob.resize(header.len as usize, 0);
                    old.file.read_exact_at(&mut blob, offset + BlobHeader::BYTES as u64)?;
                    let record = BlobHeader { batch_rest: 0, room: header.len, ..header };
                    self.append(&mut packs, &[(record, &blob)])?;
                }
                // A delete is needed as long as an older pack may hold the blob.
                None if header.deleted && packs.first().is_some_and(|first| first.number != old.number) => {
                    self.append(&mut packs, &[(BlobHeader { batch_rest: 0, ..header }, &[])])?;
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
    fn count(&self, header: &BlobHeader) {
        if header.deleted {
            self.deleted_bytes.fetch_add(header.record_bytes(), Ordering::Relaxed);
        }
    }

    /// The share of its bytes that a rewrite would free. Deletes are kept while there are older packs, which may hold the deleted
    /// blobs.
    fn garbage_share(&self, is_first: bool) -> f64 {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let deleted = if is_first { 0 } else { self.deleted_bytes.load(Ordering::Relaxed) };
        let kept = self.live_bytes.load(Ordering::Relaxed) + deleted;
        bytes.saturating_sub(kept) as f64 / bytes.max(1) as f64
    }
}

fn write_record(file: &File, header: &BlobHeader, blob: &[u8], offset: u64) -> Result<()> {
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

/// Lends `len` bytes of a blob from `offset`; with `check`, verifies the checksum at the end.
fn read_pieces(
    place: &BlobPosition,
    offset: u64,
    len: u64,
    buffer: &mut [u8],
    check: bool,
    sink: Sink,
) -> Result<()> {
    let start = place.offset + BlobHeader::BYTES as u64;
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
        bail!("checksum of a blob in pack {} does not match", place.pack.number);
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

fn put_header(key: &Key, blob: &[u8], batch_rest: usize) -> BlobHeader {
    let len = blob.len() as u64;
    BlobHeader {
        deleted: false,
        batch_rest: batch_rest as u32,
        len,
        room: len,
        key: *key,
        sum: xxh3_64(blob),
    }
}

fn delete_header(key: &Key, batch_rest: usize) -> BlobHeader {
    BlobHeader { deleted: true, batch_rest: batch_rest as u32, len: 0, room: 0, key: *key, sum: xxh3_64(&[]) }
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
        get_each(keys, sink, |key, sink| self.get(key, Span::Whole, sink))
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
        let header = BlobHeader { deleted: false, batch_rest: 3, len: 10, room: 12, key, sum: u64::MAX - 5 };
        let mut bytes = header.encode();
        assert_eq!(BlobHeader::decode(&bytes), Some(header));
        bytes[20] ^= 1;
        assert_eq!(BlobHeader::decode(&bytes), None);
    }

    fn empty(dir: &Path, pack_bytes: u64) -> Packed {
        Packed::new(dir, Durability::OnSync, false, pack_bytes, 4096)
    }

    fn numbers(store: &Packed) -> Vec<u64> {
        lock(&store.packs).iter().map(|pack| pack.number).collect()
    }

    #[test]
    fn settling_leaves_nothing_to_settle_where_only_deletes_are_left() {
        let dir = tempfile::tempdir_in(".").unwrap();
        // A pack has room for two of these records.
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
        // With the first pack the deleted blob is gone, and so is the delete record.
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
        // A pack is flushed when it is closed.
        assert_eq!(marks(), [false, false, true]);
        assert!(store.put_in_place(&keys[0], b"new").unwrap());
        assert_eq!(marks(), [true, false, true]);
        store.flush().unwrap();
        assert_eq!(marks(), [false, false, false]);
        assert!(store.put_in_place(&keys[1], b"new").unwrap());
        assert_eq!(marks(), [false, true, false]);
    }
}
