//! Test bench for a store: a private directory with a long path, and hands that put, get and compare.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::subject::Subject;
use crate::host::place::{Place, remove_tree};
use crate::store::{Common, Error, JoinToken, Key, Mode, Session, Setup, Span, Store};

/// Length of a store's path: longer than a socket's address can be.
const PATH_BYTES: usize = 150;
/// Largest blob of most checks.
pub const BLOB_BYTES_MAX: u64 = 6 << 20;
/// Attempts while a store is busy, as many as in the engine.
const ATTEMPTS: u32 = 100;

/// Time limit of an op. SQLite's writers poll for their turn, so a late one may wait until all others are done: with flushes of
/// 60 ms one put of FerretDB's took 5.5 s, while half of all took 0.28 s. No check is about that.
const OP_TIMEOUT: Duration = Duration::from_secs(120);

/// Private directory of all stores that are checked; removed when dropped.
#[derive(Debug)]
pub struct World {
    place: Place,
    next: AtomicU64,
    warm: Mutex<BTreeSet<String>>,
}

impl World {
    /// Makes one in a directory.
    pub fn below(dir: &Path) -> Result<World> {
        let place = Place::make(dir)?;
        Ok(World { place, next: AtomicU64::new(1), warm: Mutex::default() })
    }

    /// Makes a new directory for a store.
    pub fn home(&self) -> Result<Home> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.place.path().join(format!("{number:04}"));
        std::fs::create_dir(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
        let taken = path.as_os_str().len() + "//store".len();
        let long = path.join("x".repeat(PATH_BYTES.saturating_sub(taken).max(1)));
        let store = long.join("store");
        std::fs::create_dir_all(&store)?;
        ensure!(store.as_os_str().len() >= PATH_BYTES, "`{}` is too short", store.display());
        Ok(Home { path, store, cache: self.place.path().join("cache") })
    }

    /// Fills the cache of initialised data directories, for a store that another process is about to open.
    pub fn warm(&self, subject: &Subject, blob_bytes_max: u64) -> Result<()> {
        let name = cached(subject, blob_bytes_max);
        let is_warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner).contains(&name);
        if subject.is_server() && !is_warm {
            let home = self.home()?;
            self.open(subject, &home, blob_bytes_max)?.close()?;
        }
        Ok(())
    }

    /// Opens a new store. The first one of a family fills the cache of initialised data directories, and all others wait for it.
    fn open(
        &self,
        subject: &Subject,
        home: &Home,
        blob_bytes_max: u64,
    ) -> crate::store::Result<Box<dyn Store>> {
        if !subject.is_server() {
            return open(subject, home, Mode::Create, blob_bytes_max);
        }
        let name = cached(subject, blob_bytes_max);
        let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        if warm.contains(&name) {
            drop(warm);
            return open(subject, home, Mode::Create, blob_bytes_max);
        }
        let store = open(subject, home, Mode::Create, blob_bytes_max)?;
        warm.insert(name);
        Ok(store)
    }
}

/// What stores have in common that copy the same initialised data directory.
fn cached(subject: &Subject, blob_bytes_max: u64) -> String {
    format!("{}-{blob_bytes_max}", subject.family())
}

/// The directories of one store.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    /// The store's own directory.
    pub store: PathBuf,
    /// What all stores of the run share, such as initialised data directories.
    pub cache: PathBuf,
}

impl Home {
    /// Home that another process owns and removes.
    pub fn borrowed(store: PathBuf, cache: PathBuf) -> Home {
        Home { path: PathBuf::new(), store, cache }
    }

    /// The directory around the store, which does not belong to it.
    pub fn around(&self) -> &Path {
        &self.path
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            // Anything that cannot be removed goes with the directory around it.
            remove_tree(&self.path).ok();
        }
    }
}

/// Opens a subject's store.
pub fn open(
    subject: &Subject,
    home: &Home,
    mode: Mode,
    blob_bytes_max: u64,
) -> crate::store::Result<Box<dyn Store>> {
    open_or_join(subject, home, mode, blob_bytes_max, None)
}

fn open_or_join(
    subject: &Subject,
    home: &Home,
    mode: Mode,
    blob_bytes_max: u64,
    join_token: Option<&JoinToken>,
) -> crate::store::Result<Box<dyn Store>> {
    let setup = Setup {
        dir: &home.store,
        common: &Common::new(home.cache.clone()),
        mode,
        durability: subject.durability,
        cache_bytes: 8 << 20,
        fits: true,
        blob_bytes_max,
        store_bytes_max: 256 << 20,
        keys_max: KEYS_MAX,
        workers: 8,
        op_timeout: OP_TIMEOUT,
        options: &subject.options,
        join_token,
    };
    (subject.open)(subject, &setup)
}

/// Upper bound of key ids.
pub const KEYS_MAX: u64 = 100_000;

/// An open store in its directory.
pub struct Bench {
    /// Declared first, so that an open store is dropped before its directory is removed.
    store: Option<Box<dyn Store>>,
    /// What is open.
    pub subject: Arc<Subject>,
    /// Where it lies.
    pub home: Home,
    blob_bytes_max: u64,
    next_id: u64,
}

impl Bench {
    /// Opens a new store.
    pub fn open(world: &World, subject: &Arc<Subject>) -> Result<Bench> {
        Bench::open_for(world, subject, BLOB_BYTES_MAX)
    }

    /// Opens a store for blobs up to a size.
    pub fn open_for(world: &World, subject: &Arc<Subject>, blob_bytes_max: u64) -> Result<Bench> {
        let home = world.home()?;
        let store = world.open(subject, &home, blob_bytes_max).context("cannot open it")?;
        Ok(Bench { store: Some(store), subject: Arc::clone(subject), home, blob_bytes_max, next_id: 0 })
    }

    /// Opens a store that another process left.
    pub fn adopt(subject: &Arc<Subject>, home: Home, next_id: u64) -> Result<Bench> {
        let store = open(subject, &home, Mode::Open, BLOB_BYTES_MAX).context("cannot open it again")?;
        let subject = Arc::clone(subject);
        Ok(Bench { store: Some(store), subject, home, blob_bytes_max: BLOB_BYTES_MAX, next_id })
    }

    /// The open store.
    pub fn store(&self) -> Result<&dyn Store> {
        self.store.as_deref().context("the store is closed")
    }

    /// The open store, for what needs it without any session.
    pub fn store_mut(&mut self) -> Result<&mut (dyn Store + 'static)> {
        self.store.as_deref_mut().context("the store is closed")
    }

    /// Opens a session that retries while the store is busy, and connects for each op if needed.
    pub fn hand(&self) -> Result<Hand<'_>> {
        Hand::open(self.store()?, &self.subject)
    }

    /// Opens the store as an invited process would.
    pub fn join(&self) -> Result<Box<dyn Store>> {
        let join_token = self.store()?.join_token().context("it cannot be joined")?;
        open_or_join(&self.subject, &self.home, Mode::Open, self.blob_bytes_max, Some(&join_token))
            .context("cannot join it")
    }

    /// Closes the store; its directory stays until the bench is dropped.
    pub fn close(&mut self) -> Result<()> {
        self.store.take().context("the store is closed")?.close().context("cannot close it")
    }

    /// Opens the closed store again.
    pub fn open_again(&mut self) -> Result<()> {
        let store = open(&self.subject, &self.home, Mode::Open, self.blob_bytes_max);
        self.store = Some(store.context("cannot open it again")?);
        Ok(())
    }

    /// Closes the store and opens it again.
    pub fn reopen(&mut self) -> Result<()> {
        self.close()?;
        self.open_again()
    }

    /// Returns keys that no check has used in this store.
    pub fn keys(&mut self, count: u64) -> Vec<Key> {
        let first = self.next_id;
        self.next_id += count;
        (first..self.next_id).map(key).collect()
    }
}

/// Returns the key of an id.
pub fn key(id: u64) -> Key {
    Key::of_digest(id, xxhash_rust::xxh3::xxh3_128(&id.to_le_bytes()))
}

/// Returns the bytes of a blob, determined by the three numbers: a slice of one pool of random bytes, because an unoptimised test
/// generates random bytes slowly. Two blobs begin at the same place of the pool once in four million.
pub fn blob(id: u64, generation: u64, len: usize) -> Vec<u8> {
    const POOL_BYTES: usize = 4 << 20;
    static POOL: OnceLock<Vec<u8>> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        let mut bytes = vec![0; POOL_BYTES];
        SmallRng::seed_from_u64(0x626c_6f62).fill_bytes(&mut bytes);
        bytes
    });
    let numbers = [id.to_le_bytes(), generation.to_le_bytes(), (len as u64).to_le_bytes()];
    let mut at = xxhash_rust::xxh3::xxh3_64(&numbers.concat()) as usize % POOL_BYTES;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        bytes.extend_from_slice(&pool[at..POOL_BYTES.min(at + len - bytes.len())]);
        at = 0;
    }
    bytes
}

/// A session as a caller uses it.
pub struct Hand<'s> {
    session: Box<dyn Session + 's>,
    connects_each_op: bool,
    contents: bool,
}

impl<'s> Hand<'s> {
    /// Opens a session of a subject's store.
    pub fn open(store: &'s dyn Store, subject: &Subject) -> Result<Hand<'s>> {
        let session = store.session().context("cannot open a session")?;
        Ok(Hand { session, connects_each_op: subject.connects_each_op(), contents: subject.caps().contents })
    }

    /// The bare session, for ops that must fail.
    pub fn bare(&mut self) -> &mut (dyn Session + 's) {
        self.session.as_mut()
    }

    /// Runs an op, and repeats it while the store is busy.
    fn patiently<T>(
        &mut self,
        mut op: impl FnMut(&mut (dyn Session + 's)) -> crate::store::Result<T>,
    ) -> Result<T> {
        for _ in 0..ATTEMPTS {
            let connected = if self.connects_each_op { self.session.connect() } else { Ok(()) };
            match connected.and_then(|()| op(self.session.as_mut())) {
                Err(Error::Busy) => std::thread::yield_now(),
                outcome => return Ok(outcome?),
            }
        }
        bail!("still busy after {ATTEMPTS} attempts")
    }

    /// Puts a blob.
    pub fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.patiently(|session| session.put(key, blob))
            .with_context(|| format!("put of blob {} with {} B", key.id, blob.len()))
    }

    /// Deletes a blob.
    pub fn delete(&mut self, key: &Key) -> Result<()> {
        self.patiently(|session| session.delete(key)).with_context(|| format!("delete of blob {}", key.id))
    }

    /// Makes this session's writes durable.
    pub fn sync(&mut self) -> Result<()> {
        self.patiently(|session| session.sync()).context("sync")
    }

    /// Reads a span; `None` if there is no such blob.
    pub fn get(&mut self, key: &Key, span: Span) -> Result<Option<Vec<u8>>> {
        let found = self.patiently(|session| {
            let mut bytes = Vec::new();
            let found = session.get(key, span, &mut |piece| bytes.extend_from_slice(piece))?;
            Ok((found, bytes))
        });
        match found.with_context(|| format!("get of {span:?} of blob {}", key.id))? {
            (true, bytes) => Ok(Some(bytes)),
            (false, bytes) if bytes.is_empty() => Ok(None),
            (false, bytes) => bail!("blob {} is missing, and yet {} B of it were lent", key.id, bytes.len()),
        }
    }

    /// Reads an existing blob piece by piece.
    pub fn get_by(&mut self, key: &Key, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let found = self.patiently(|session| session.get(key, Span::Whole, each));
        let is_there = found.with_context(|| format!("get of blob {} in pieces", key.id))?;
        anyhow::ensure!(is_there, "blob {} is missing", key.id);
        Ok(())
    }

    /// Compares a span of a blob with the expected bytes.
    pub fn expect_span(&mut self, key: &Key, span: Span, wanted: Option<&[u8]>) -> Result<()> {
        let contents = self.contents;
        let found = self.get(key, span)?;
        same(contents, found.as_deref(), wanted).with_context(|| format!("{span:?} of blob {}", key.id))
    }

    /// Compares a whole blob with the expected bytes.
    pub fn expect(&mut self, key: &Key, wanted: Option<&[u8]>) -> Result<()> {
        self.expect_span(key, Span::Whole, wanted)
    }

    /// Returns all keys, sorted.
    pub fn list(&mut self) -> Result<Vec<String>> {
        let listed = self.patiently(|session| {
            let mut keys = Vec::new();
            session.list(&mut |key| keys.push(key.to_owned()))?;
            Ok(keys)
        });
        let mut keys = listed.context("list")?;
        keys.sort();
        Ok(keys)
    }

    /// Puts several blobs in one transaction.
    pub fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        self.patiently(|session| session.put_batch(blobs))
            .with_context(|| format!("a batch of {} puts", blobs.len()))
    }

    /// Deletes several blobs in one transaction.
    pub fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        self.patiently(|session| session.delete_batch(keys))
            .with_context(|| format!("a batch of {} deletes", keys.len()))
    }

    /// Gets several blobs, and compares their contents and number with the expected ones.
    pub fn expect_many(&mut self, keys: &[Key], wanted: &[Option<&[u8]>]) -> Result<()> {
        let (found, mut blobs) = self
            .patiently(|session| {
                let mut blobs: Vec<Option<Vec<u8>>> = vec![None; keys.len()];
                let found = session.get_many(keys, &mut |index, piece| {
                    blobs[index].get_or_insert_default().extend_from_slice(piece);
                })?;
                Ok((found, blobs))
            })
            .with_context(|| format!("a get of {}", keys.len()))?;
        let there = wanted.iter().flatten().count();
        ensure!(found == there, "a get of {} found {found} of the {there} that are there", keys.len());
        for ((key, blob), wanted) in keys.iter().zip(&mut blobs).zip(wanted) {
            // An empty blob may be lent without any piece.
            if wanted.is_some_and(<[u8]>::is_empty) {
                blob.get_or_insert_default();
            }
            same(self.contents, blob.as_deref(), *wanted)
                .with_context(|| format!("a get of {}, blob {}", keys.len(), key.id))?;
        }
        Ok(())
    }
}

fn same(contents: bool, found: Option<&[u8]>, wanted: Option<&[u8]>) -> Result<()> {
    match (found, wanted) {
        (None, None) => Ok(()),
        (Some(found), None) => bail!("is there with {} B, and must not be", found.len()),
        (None, Some(wanted)) => bail!("is missing; {} B were put", wanted.len()),
        (Some(found), Some(wanted)) if found.len() != wanted.len() => {
            bail!("has {} B instead of {}", found.len(), wanted.len())
        }
        (Some(found), Some(wanted)) if contents && found != wanted => {
            let at = found.iter().zip(wanted).position(|(found, wanted)| found != wanted).unwrap_or(0);
            bail!("differs from what was put, first in byte {at} of {}", wanted.len())
        }
        _ => Ok(()),
    }
}
