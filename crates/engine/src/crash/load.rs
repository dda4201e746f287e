//! The load: puts, overwrites and deletes of a few blobs, or puts of many in a store that is append-only, and when each began and was
//! acknowledged, as positions in the disk's log.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::Trial;
use crate::corpus::{Corpus, Sizes};
use crate::host::disk::Log;
use crate::host::fork::SharedWords;
use crate::store::{Durability, Key, Session, Store, content_key};

/// Number of different keys in a store that replaces blobs. One that does not has one for each op.
const KEYS: u64 = 24;
/// Most keys of any load.
pub(super) const KEYS_MAX: u64 = OPS as u64;
const OPS: usize = 160;
/// Ops between syncs in class on-sync.
const SYNC_EVERY: usize = 10;
/// Sizes of blobs in bytes: less than a page, a few pages, more than databases store in a row.
const SIZES: [u64; 4] = [100, 3000, 9000, 40_000];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) key: u64,
    /// Generation and size in bytes of the content to put; `None` for a delete.
    pub(super) put: Option<(u32, u64)>,
}

pub(super) struct CrashLoad {
    pub(super) corpus: Corpus,
    pub(super) ops: Vec<Op>,
    /// Contents to upload; empty if blobs are put under their own keys.
    pub(super) digests: Digests,
}

/// Keys of all contents uploaded for a blob, by its number; the latest first.
pub(super) type Digests = BTreeMap<u64, Vec<Key>>;

impl CrashLoad {
    /// Builds the load; the same seed gives the same load.
    pub(super) fn for_trial(trial: &Trial<'_>, seed: u64) -> Result<CrashLoad> {
        let candidate = trial.candidate;
        let changes = (candidate.adapter.caps)(&candidate.options).changes;
        let keys = if changes { KEYS } else { KEYS_MAX };
        let (corpus, ops) = (corpus(seed, keys)?, ops(seed, changes));
        let mut load = CrashLoad { corpus, ops, digests: Digests::new() };
        if trial.uploads {
            load.digests = load.contents();
        }
        Ok(load)
    }

    pub(super) fn keys(&self) -> u64 {
        self.corpus.blobs()
    }

    fn contents(&self) -> Digests {
        let mut digests = Digests::new();
        for (index, op) in self.ops.iter().enumerate().rev() {
            let content = self.bytes(index).map(|bytes| content_key(op.key, &bytes));
            digests.entry(op.key).or_default().extend(content);
        }
        digests
    }

    pub(super) fn put_by(&self, key: u64, bytes: &[u8]) -> Option<usize> {
        let mut room = Vec::new();
        self.ops.iter().position(|op| {
            op.key == key
                && op.put.is_some_and(|(generation, len)| {
                    len == bytes.len() as u64
                        && self.corpus.contents.blob(key, generation, len, &mut room) == bytes
                })
        })
    }

    /// Bytes that an op puts; `None` for a delete.
    pub(super) fn bytes(&self, op: usize) -> Option<Vec<u8>> {
        let Op { key, put } = self.ops[op];
        let mut room = Vec::new();
        put.map(|(generation, len)| self.corpus.contents.blob(key, generation, len, &mut room).to_vec())
    }

    pub(super) fn act(&self, index: usize, session: &mut dyn Session, room: &mut Vec<u8>) -> Result<()> {
        let Op { key: number, put } = self.ops[index];
        let key = &self.corpus.keys.at(number as usize);
        match put {
            Some((generation, len)) => {
                let blob = self.corpus.contents.blob(number, generation, len, room);
                session.put(key, blob).with_context(|| format!("op {index}: put failed"))
            }
            None => session.delete(key).with_context(|| format!("op {index}: delete failed")),
        }
    }
}

fn corpus(seed: u64, keys: u64) -> Result<Corpus> {
    Corpus::random("power cuts", Sizes::Fixed(SIZES[SIZES.len() - 1]), keys, seed)
}

/// Draws the ops from the seed. Without `changes` each blob is put once.
fn ops(seed: u64, changes: bool) -> Vec<Op> {
    let mut rng = SmallRng::seed_from_u64(seed);
    if !changes {
        let put = |key| Op { key, put: Some((key as u32 + 1, SIZES[rng.random_range(0..SIZES.len())])) };
        return (0..KEYS_MAX).map(put).collect();
    }
    (1..=OPS as u32)
        .map(|number| {
            let key = rng.random_range(0..KEYS);
            let is_delete = rng.random_range(0..5) == 0;
            let len = SIZES[rng.random_range(0..SIZES.len())];
            // The generation is the op's number, so no two puts have the same bytes.
            Op { key, put: (!is_delete).then_some((number, len)) }
        })
        .collect()
}

/// When ops began and were acknowledged and syncs returned, as positions in the disk's log. One process writes it, and another
/// reads it after the first has ended. A failed op has a beginning and no end.
pub(super) struct History {
    words: SharedWords,
    /// Number of concurrent workers, each of which writes to its own slots.
    workers: usize,
}

/// Beginning and end of an op or sync, as positions in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogInterval {
    pub(super) began: usize,
    /// `None` if it did not succeed.
    pub(super) ended: Option<usize>,
}

impl History {
    pub(super) fn new() -> Result<History> {
        Ok(History { words: SharedWords::new(4 * OPS + 2)?, workers: 1 })
    }

    pub(super) fn of_workers(self, workers: usize) -> History {
        History { workers: workers.max(1), ..self }
    }

    /// Returns the worker of an op. Each worker has blobs of its own, so that their valid states do not depend on the other
    /// workers' order.
    pub(super) fn worker_of(&self, op: &Op) -> usize {
        op.key as usize % self.workers
    }

    fn note(&self, slot: usize, log: &Log) {
        self.words.get()[slot].store(log.len() as u64 + 1, Ordering::SeqCst);
    }

    fn around<E>(&self, slot: usize, log: &Log, act: &mut dyn FnMut() -> Result<(), E>) -> Result<(), E> {
        self.note(slot, log);
        act()?;
        self.note(slot + 1, log);
        Ok(())
    }

    fn when(&self, slot: usize) -> Option<LogInterval> {
        let word = |slot: usize| self.words.get()[slot].load(Ordering::SeqCst).checked_sub(1);
        Some(LogInterval { began: word(slot)? as usize, ended: word(slot + 1).map(|ended| ended as usize) })
    }

    /// Beginning and end of an op; `None` if it never began.
    pub(super) fn op(&self, index: usize) -> Option<LogInterval> {
        self.when(2 * index)
    }

    /// Beginning and end of the sync after an op.
    pub(super) fn sync(&self, index: usize) -> Option<LogInterval> {
        self.when(2 * OPS + 2 * index)
    }

    pub(super) fn is_under_way(&self) -> bool {
        let all = (0..OPS).flat_map(|index| [self.op(index), self.sync(index)]);
        all.flatten().any(|when| when.ended.is_none())
    }

    /// Length of the log before the first op and after the last; `None` if the load did not get that far.
    pub(super) fn span(&self) -> Option<(usize, usize)> {
        let word = |slot: usize| self.words.get()[slot].load(Ordering::SeqCst).checked_sub(1);
        Some((word(4 * OPS)? as usize, word(4 * OPS + 1)? as usize))
    }

    pub(super) fn end(&self, log: &Log) {
        self.note(4 * OPS + 1, log);
    }

    pub(super) fn begin(&self, log: &Log) {
        self.note(4 * OPS, log);
    }
}

pub(super) fn is_synced(class: Durability, index: usize) -> bool {
    class == Durability::OnSync && (index + 1).is_multiple_of(SYNC_EVERY)
}

/// Runs all ops on an open store, with the history's number of workers.
pub(super) fn run(
    store: &dyn Store,
    class: Durability,
    load: &CrashLoad,
    log: &Log,
    history: &History,
) -> Result<()> {
    let work = |worker: usize| -> Result<()> {
        let mut session = store.session()?;
        let mut room = Vec::new();
        let own = (0..load.ops.len()).filter(|index| history.worker_of(&load.ops[*index]) == worker);
        for (number, index) in own.enumerate() {
            note_op(history, index, log, &mut || load.act(index, session.as_mut(), &mut room))?;
            if is_synced(class, number) {
                note_sync(history, index, log, &mut || session.sync())
                    .with_context(|| format!("sync after op {index} failed"))?;
            }
        }
        Ok(())
    };
    if history.workers == 1 {
        return work(0);
    }
    std::thread::scope(|scope| {
        let work = &work;
        let workers = 0..history.workers;
        let started: Vec<_> = workers.map(|worker| scope.spawn(move || work(worker))).collect();
        let ended =
            started.into_iter().map(|worker| worker.join().unwrap_or_else(|_| bail!("a worker died")));
        ended.collect::<Vec<Result<()>>>().into_iter().collect()
    })
}

/// Runs an op and records its beginning and, if it succeeds, its end.
pub(super) fn note_op<E>(
    history: &History,
    index: usize,
    log: &Log,
    act: &mut dyn FnMut() -> Result<(), E>,
) -> Result<(), E> {
    history.around(2 * index, log, act)
}

/// Like [`note_op`], for the sync after an op.
pub(super) fn note_sync<E>(
    history: &History,
    index: usize,
    log: &Log,
    act: &mut dyn FnMut() -> Result<(), E>,
) -> Result<(), E> {
    history.around(2 * OPS + 2 * index, log, act)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_are_those_of_the_seed_and_no_two_puts_have_the_same_bytes() {
        assert_eq!(ops(1, true), ops(1, true));
        assert_ne!(ops(1, true), ops(2, true));
        let corpus = corpus(1, KEYS).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for op in ops(1, true) {
            if let Some((generation, len)) = op.put {
                let mut room = Vec::new();
                assert!(seen.insert(corpus.contents.blob(op.key, generation, len, &mut room).to_vec()));
            }
        }
        assert!(ops(1, true).iter().any(|op| op.put.is_none()));
    }

    #[test]
    fn a_store_that_is_append_only_gets_each_key_once() {
        let keys: Vec<u64> = ops(1, false).iter().filter(|op| op.put.is_some()).map(|op| op.key).collect();
        assert_eq!(keys, (0..KEYS_MAX).collect::<Vec<u64>>());
        assert_ne!(ops(1, false), ops(2, false));
    }
}
