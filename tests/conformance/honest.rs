//! The honest store that most liars wrap: it has every class, and every flag but those of databases and servers. Records are
//! appended to one file, and an index in memory is rebuilt from them when it is opened.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use anyhow::{anyhow, ensure};
use blobwise::store::{
    Adapter, CacheRecommendation, Capabilities, Durability, Error, Facts, Integrity, Key, Kind, Losses,
    ManySink, Mode, Needs, OptionSpec, Result, Session, Setup, Sink, Span, Store, Traits,
};
use xxhash_rust::xxh3::xxh3_64;

/// Name of the option that switches the checksums off.
pub const VERIFY: &str = "verify";

pub static ADAPTER: Adapter = Adapter {
    name: "honest",
    about: "records in one file, with checksums",
    kind: Kind::Technique,
    programs: &[],
    options: &[OptionSpec::choice(VERIFY, &["true", "false"])],
    caps: |_| Capabilities { batch: true, get_many: true, ..Capabilities::ONE_BY_ONE },
    loss: |_, durability| Losses::of_unflushed(durability),
    integrity: |_, _| Integrity::Checksums,
    traits: |_| Traits::default(),
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs::NOTHING,
    open,
};

/// Bytes of a header: length of the rest of its batch, length of the blob, digest, and the checksums of the blob and of these.
const HEADER_BYTES: usize = 60;
/// In place of a length: the blob is deleted.
const DELETED: u64 = u64::MAX;
/// Bytes that are lent at once.
const PIECE_BYTES: usize = 64 << 10;

/// Where a blob lies.
#[derive(Clone, Copy)]
struct Place {
    offset: u64,
    len: u64,
    sum: u64,
}

#[derive(Default)]
struct State {
    index: HashMap<[u8; 32], Place>,
    /// Where the records end.
    end: u64,
}

struct Honest {
    file: File,
    durability: Durability,
    verifies: bool,
    state: RwLock<State>,
}

/// A change of the store: a blob, or `None` if it is deleted.
type Change<'a> = ([u8; 32], Option<&'a [u8]>);

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let path = setup.dir.join("records");
    let store = Honest {
        file: File::options().read(true).write(true).create(true).truncate(false).open(path)?,
        durability: setup.durability,
        verifies: setup.options.text(VERIFY) == "true",
        state: RwLock::default(),
    };
    if setup.mode == Mode::Open {
        store.read_records()?;
    } else if store.durability != Durability::None {
        File::open(setup.dir)?.sync_all()?;
    }
    Ok(Box::new(store))
}

fn encode(rest: usize, (hex, blob): &Change<'_>) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&(rest as u32).to_le_bytes());
    header[4..12].copy_from_slice(&blob.map_or(DELETED, |blob| blob.len() as u64).to_le_bytes());
    header[12..44].copy_from_slice(hex);
    header[44..52].copy_from_slice(&xxh3_64(blob.unwrap_or_default()).to_le_bytes());
    let sum = xxh3_64(&header[..52]);
    header[52..].copy_from_slice(&sum.to_le_bytes());
    header
}

fn number(header: &[u8; HEADER_BYTES], at: usize) -> u64 {
    header[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

impl Honest {
    fn changing(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, key: &Key) -> Option<Place> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).index.get(&key.hex).copied()
    }

    /// Appends changes as one batch.
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        let mut state = self.changing();
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for (number, change) in changes.iter().enumerate() {
            let (hex, blob) = change;
            bytes.extend_from_slice(&encode(changes.len() - 1 - number, change));
            let offset = state.end + bytes.len() as u64;
            let place = blob.map(|blob| Place { offset, len: blob.len() as u64, sum: xxh3_64(blob) });
            places.push((*hex, place));
            bytes.extend_from_slice(blob.unwrap_or_default());
        }
        self.file.write_all_at(&bytes, state.end)?;
        state.end += bytes.len() as u64;
        places.into_iter().for_each(|(hex, place)| state.point(hex, place));
        drop(state);
        if self.durability == Durability::EachWrite {
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Goes from record to record, and cuts off a batch that is not complete.
    fn read_records(&self) -> Result<()> {
        let mut state = self.changing();
        let bytes = self.file.metadata()?.len();
        let (mut at, mut batch) = (0, Vec::new());
        while at + HEADER_BYTES as u64 <= bytes {
            let mut header = [0; HEADER_BYTES];
            self.file.read_exact_at(&mut header, at)?;
            if number(&header, 52) != xxh3_64(&header[..52]) {
                break;
            }
            let (offset, len) = (at + HEADER_BYTES as u64, number(&header, 4));
            let place = (len != DELETED).then(|| Place { offset, len, sum: number(&header, 44) });
            at = offset + place.map_or(0, |place| place.len);
            if at > bytes {
                break;
            }
            let mut hex = [0; 32];
            hex.copy_from_slice(&header[12..44]);
            batch.push((hex, place));
            if header[..4] == [0; 4] {
                state.end = at;
                batch.drain(..).for_each(|(hex, place)| state.point(hex, place));
            }
        }
        Ok(self.file.set_len(state.end)?)
    }
}

impl State {
    fn point(&mut self, hex: [u8; 32], place: Option<Place>) {
        match place {
            Some(place) => self.index.insert(hex, place),
            None => self.index.remove(&hex),
        };
    }
}

impl Store for Honest {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(HonestSession { store: self, buffer: vec![0; PIECE_BYTES] }))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::from([("format".to_owned(), "records in one file".to_owned())]))
    }

    fn close(self: Box<Self>) -> Result<()> {
        if self.durability != Durability::None {
            self.file.sync_data()?;
        }
        Ok(())
    }
}

struct HonestSession<'a> {
    store: &'a Honest,
    buffer: Vec<u8>,
}

impl HonestSession<'_> {
    fn lend(&mut self, place: &Place, span: Span, sink: Sink) -> anyhow::Result<()> {
        let (offset, len) = span.below(place.len);
        let mut read = 0;
        let mut all = Vec::new();
        let verifies = self.store.verifies && span == Span::Whole;
        while read < len {
            let want = self.buffer.len().min((len - read) as usize);
            let piece = &mut self.buffer[..want];
            self.store.file.read_exact_at(piece, place.offset + offset + read)?;
            if verifies {
                all.extend_from_slice(piece);
            }
            sink(piece);
            read += want as u64;
        }
        ensure!(!verifies || xxh3_64(&all) == place.sum, "the checksum of a blob does not match");
        Ok(())
    }
}

impl Session for HonestSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.store.write(&[(key.hex, Some(blob))])
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let Some(place) = self.store.find(key) else { return Ok(false) };
        self.lend(&place, span, sink)?;
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.store.write(&[(key.hex, None)])
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.store.file.sync_data()?)
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        let state = self.store.state.read().map_err(|_poisoned| Error::Failed(anyhow!("a writer died")))?;
        state.index.keys().for_each(|hex| each(std::str::from_utf8(hex).unwrap_or_default()));
        Ok(())
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        let changes: Vec<Change<'_>> = blobs.iter().map(|(key, blob)| (key.hex, Some(*blob))).collect();
        self.store.write(&changes)
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        let mut found = 0;
        for (index, key) in keys.iter().enumerate() {
            found += usize::from(self.get(key, Span::Whole, &mut |piece| sink(index, piece))?);
        }
        Ok(found)
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        let changes: Vec<Change<'_>> = keys.iter().map(|key| (key.hex, None)).collect();
        self.store.write(&changes)
    }
}
