//! Verifies the contents of a store: compares every blob byte by byte, while no clock is running.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::ops::State;
use crate::corpus::Corpus;
use crate::rules::{COMPARED_SINGLY, COMPARED_TOGETHER};
use crate::store::{Error, Key, Session, Span, Store, while_busy};

const TOGETHER_BYTES: u64 = 1 << 20;
/// How long a read of a blob is retried while the store is busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// Consecutive failed reads after which the store is considered gone.
const FAILED_IN_A_ROW_MAX: u32 = 3;

/// Compares the first `blobs` blobs of a corpus with their expected contents, checks that deleted ones are gone, and returns how
/// many were compared. Blobs that a store has evicted may be missing; they are not among those.
/// `together` is true if the store can read several blobs at once. Uses a session of its own, and returns early if `stop` is set.
pub fn verify(
    store: &dyn Store,
    together: bool,
    corpus: &Corpus,
    blobs: usize,
    state: &State,
    stop: &AtomicBool,
) -> Result<u64> {
    let evicts = store.evictions()?.is_some();
    let session = while_busy(PATIENCE, || store.session())?;
    let mut check = ContentCheck {
        store,
        session,
        corpus,
        state,
        evicts,
        evicted: 0,
        room: Vec::new(),
        unread: FailedReads::default(),
    };
    let stride = if together { blobs.div_ceil(COMPARED_SINGLY).max(1) } else { 1 };
    let (mut ids, mut bytes) = (Vec::new(), 0);
    for id in 0..blobs {
        if stop.load(Ordering::Relaxed) {
            return Ok(id as u64);
        }
        // An empty blob is read alone, because a batched read cannot tell it from a missing one.
        if id % stride == 0 || state.len[id] == 0 {
            check.alone(id)?;
            continue;
        }
        ids.push(id);
        bytes += u64::from(state.len[id]);
        if ids.len() == COMPARED_TOGETHER || bytes >= TOGETHER_BYTES {
            check.several(&ids)?;
            ids.clear();
            bytes = 0;
        }
    }
    check.several(&ids)?;
    match check.unread {
        FailedReads { first: None, .. } => Ok(blobs as u64 - check.evicted),
        FailedReads { first: Some(first), blobs: 1, .. } => Err(first),
        FailedReads { first: Some(first), blobs: unread, .. } => {
            bail!("{first:#}; {unread} of {blobs} could not be read")
        }
    }
}

/// Failed reads. They do not prevent the comparison of other blobs.
#[derive(Default)]
struct FailedReads {
    first: Option<anyhow::Error>,
    blobs: u64,
    in_a_row: u32,
}

impl FailedReads {
    /// Counts a failed read. Returns an error if the blob was read and is wrong, if the read timed out again, or if too many reads
    /// failed in a row.
    fn note(&mut self, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else {
            self.in_a_row = 0;
            return Ok(());
        };
        match error.downcast_ref::<Error>() {
            // The server does not answer, in another session either.
            None | Some(Error::TimedOut) => return Err(error),
            Some(_) => {}
        }
        self.blobs += 1;
        self.in_a_row += 1;
        let first = self.first.take().unwrap_or(error);
        if self.in_a_row == FAILED_IN_A_ROW_MAX {
            return Err(first);
        }
        self.first = Some(first);
        Ok(())
    }
}

struct ContentCheck<'a> {
    store: &'a dyn Store,
    session: Box<dyn Session + 'a>,
    corpus: &'a Corpus,
    state: &'a State,
    evicts: bool,
    evicted: u64,
    room: Vec<u8>,
    unread: FailedReads,
}

impl ContentCheck<'_> {
    fn alone(&mut self, id: usize) -> Result<()> {
        let mut outcome = self.one(id);
        if outcome.as_ref().is_err_and(|error| matches!(error.downcast_ref::<Error>(), Some(Error::TimedOut)))
        {
            self.renew()?;
            outcome = self.one(id);
        }
        self.unread.note(outcome)
    }

    /// Opens another session: after a timeout, the last one still waits for an answer.
    fn renew(&mut self) -> Result<()> {
        let store = self.store;
        self.session = while_busy(PATIENCE, || store.session())?;
        Ok(())
    }

    fn one(&mut self, id: usize) -> Result<()> {
        let ContentCheck { session, corpus, state, evicts, evicted, room, .. } = self;
        let (key, len) = (corpus.keys.at(id), u64::from(state.len[id]));
        let wanted = corpus.contents.blob(id as u64, state.generation[id], len, room);
        let mut came = ReadProgress::default();
        let found = while_busy(PATIENCE, || {
            came = ReadProgress::default();
            session.get(&key, Span::Whole, &mut |piece| came.take(piece, wanted))
        });
        let found = found.with_context(|| format!("blob {} cannot be read", key.as_str()))?;
        let what = match (state.alive[id], found) {
            (false, false) => return Ok(()),
            (false, true) => "is there, though it was deleted or never put".to_owned(),
            (true, false) if *evicts => {
                *evicted += 1;
                return Ok(());
            }
            (true, false) => "is missing".to_owned(),
            (true, true) if came.bytes != wanted.len() => {
                format!("has {} B instead of {}", came.bytes, wanted.len())
            }
            (true, true) if came.differs => "has other bytes than were put".to_owned(),
            (true, true) => return Ok(()),
        };
        bail!("blob {} (generation {}) {what}", key.as_str(), state.generation[id]);
    }

    /// Compares several blobs with one read. If that fails, reads each alone to find out which one is wrong.
    fn several(&mut self, ids: &[usize]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let together = self.are_right(ids);
        let has_timed_out = matches!(together, Err(Error::TimedOut));
        if has_timed_out {
            self.renew()?;
        } else if matches!(together, Ok(true)) {
            return Ok(());
        }
        let unread = self.unread.blobs;
        ids.iter().try_for_each(|id| self.alone(*id))?;
        if has_timed_out || self.unread.blobs > unread {
            return Ok(());
        }
        together?;
        bail!(
            "{} blobs from {} on are right when each is read alone, and wrong when they are read together",
            ids.len(),
            self.corpus.keys.at(ids[0]).as_str()
        );
    }

    fn are_right(&mut self, ids: &[usize]) -> crate::store::Result<bool> {
        let ContentCheck { session, corpus, state, evicts, .. } = self;
        let keys: Vec<Key> = ids.iter().map(|id| corpus.keys.at(*id)).collect();
        let mut rooms = vec![Vec::new(); ids.len()];
        let blob = |(id, room): (usize, _)| {
            corpus.contents.blob(id as u64, state.generation[id], u64::from(state.len[id]), room)
        };
        let wanted: Vec<&[u8]> = ids.iter().copied().zip(&mut rooms).map(blob).collect();
        let mut came = Vec::new();
        let found = while_busy(PATIENCE, || {
            came = vec![ReadProgress::default(); ids.len()];
            session.get_many(&keys, &mut |index, piece| came[index].take(piece, wanted[index]))
        })?;
        let alive = ids.iter().filter(|id| state.alive[**id]).count();
        let is_gone = |id: usize, came: &ReadProgress| *evicts && state.alive[id] && came.bytes == 0;
        let is_right = |((id, came), wanted): ((&usize, &ReadProgress), &&[u8])| {
            let bytes = if state.alive[*id] && !is_gone(*id, came) { wanted.len() } else { 0 };
            came.bytes == bytes && !came.differs
        };
        let gone = ids.iter().zip(&came).filter(|(id, came)| is_gone(**id, came)).count();
        let are_right = found + gone == alive && ids.iter().zip(&came).zip(&wanted).all(is_right);
        // Otherwise each is read alone, and counted there.
        self.evicted += if are_right { gone as u64 } else { 0 };
        Ok(are_right)
    }
}

#[derive(Clone, Default)]
struct ReadProgress {
    bytes: usize,
    differs: bool,
}

impl ReadProgress {
    fn take(&mut self, piece: &[u8], wanted: &[u8]) {
        self.differs |= wanted.get(self.bytes..self.bytes + piece.len()) != Some(piece);
        self.bytes += piece.len();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::*;
    use crate::corpus::Sizes;
    use crate::store::{Facts, ManySink, Sink};

    const BLOBS: u64 = 3_500;

    /// A store in memory that can be made to fail.
    #[derive(Default)]
    struct FaultyStore {
        blobs: HashMap<Key, Vec<u8>>,
        mixes: bool,
        /// Number of reads of each key that find the store busy; reads of `unreadable` always fail.
        busy: Mutex<HashMap<Key, u32>>,
        /// Number of reads of each key that time out.
        late: Mutex<HashMap<Key, u32>>,
        unreadable: Vec<Key>,
        evicts: bool,
    }

    impl FaultyStore {
        fn refuse(&self, key: &Key) -> crate::store::Result<()> {
            if let Some(times) = self.busy.lock().unwrap().get_mut(key).filter(|times| **times > 0) {
                *times -= 1;
                return Err(Error::Busy);
            }
            if let Some(times) = self.late.lock().unwrap().get_mut(key).filter(|times| **times > 0) {
                *times -= 1;
                return Err(Error::TimedOut);
            }
            if self.unreadable.contains(key) {
                return Err(Error::Failed(anyhow::anyhow!("no answer")));
            }
            Ok(())
        }
    }

    impl Store for FaultyStore {
        fn session(&self) -> crate::store::Result<Box<dyn Session + '_>> {
            Ok(Box::new(FaultySession(self)))
        }

        fn facts(&self) -> crate::store::Result<Facts> {
            Ok(Facts::new())
        }

        fn evictions(&self) -> crate::store::Result<Option<u64>> {
            Ok(self.evicts.then_some(0))
        }

        fn close(self: Box<Self>) -> crate::store::Result<()> {
            Ok(())
        }
    }

    struct FaultySession<'s>(&'s FaultyStore);

    impl Session for FaultySession<'_> {
        fn get(&mut self, key: &Key, _: Span, sink: Sink) -> crate::store::Result<bool> {
            self.0.refuse(key)?;
            let blob = self.0.blobs.get(key);
            blob.into_iter().for_each(|blob| sink(blob));
            Ok(blob.is_some())
        }

        fn get_many(&mut self, keys: &[Key], sink: ManySink) -> crate::store::Result<usize> {
            let mut found = 0;
            for (index, key) in keys.iter().enumerate() {
                self.0.refuse(key)?;
                if let Some(blob) = self.0.blobs.get(key) {
                    let index = if self.0.mixes { keys.len() - 1 - index } else { index };
                    blob.chunks(7).for_each(|piece| sink(index, piece));
                    found += 1;
                }
            }
            Ok(found)
        }

        fn put(&mut self, _: &Key, _: &[u8]) -> crate::store::Result<()> {
            unreachable!("only reads are asked for")
        }

        fn delete(&mut self, _: &Key) -> crate::store::Result<()> {
            unreachable!("only reads are asked for")
        }

        fn sync(&mut self) -> crate::store::Result<()> {
            unreachable!("only reads are asked for")
        }
    }

    /// Returns a store in which every third blob was deleted, with its expected state.
    fn filled() -> (Corpus, State, FaultyStore) {
        let corpus = Corpus::random("small", Sizes::Uniform(1, 40), BLOBS, 7).unwrap();
        let mut state = State::empty(&corpus);
        let mut kept = FaultyStore::default();
        let mut room = Vec::new();
        for id in (0..BLOBS as usize).filter(|id| id % 3 != 0) {
            state.alive[id] = true;
            let blob = corpus.contents.blob(id as u64, 0, u64::from(state.len[id]), &mut room);
            kept.blobs.insert(corpus.keys.at(id), blob.to_vec());
        }
        (corpus, state, kept)
    }

    /// Returns the outcome of verifying a store after `spoil`, with single and with batched reads.
    fn said(spoil: impl Fn(&Corpus, &mut FaultyStore)) -> [String; 2] {
        let (corpus, state, mut kept) = filled();
        spoil(&corpus, &mut kept);
        let never = AtomicBool::new(false);
        [false, true].map(|together| {
            match verify(&kept, together, &corpus, corpus.sizes.len(), &state, &never) {
                Ok(blobs) => format!("{blobs} are right"),
                Err(wrong) => wrong.to_string(),
            }
        })
    }

    #[test]
    fn a_read_that_fails_keeps_no_other_blob_from_being_compared() {
        let right = format!("{BLOBS} are right");
        let busy = said(|corpus, kept| {
            kept.busy.get_mut().unwrap().extend([1_000, 2_002].map(|id| (corpus.keys.at(id), 2)));
        });
        assert_eq!(busy, [right.clone(), right.clone()]);
        let late = |times| {
            said(|corpus, kept| {
                let all = [1_000, 2_002].map(|id| (corpus.keys.at(id), times));
                kept.late.get_mut().unwrap().extend(all);
            })
        };
        assert_eq!(late(1), [right.clone(), right]);
        let twice = late(3);
        twice.iter().for_each(|said| assert!(said.ends_with("cannot be read"), "{said}"));
        for id in [1_000, 2_002] {
            let cannot = format!("blob {} cannot be read", filled().0.keys.at(id).as_str());
            let [alone, together] = said(|corpus, kept| kept.unreadable.push(corpus.keys.at(id)));
            assert!(alone == cannot && alone == together, "{alone}\n{together}");
            let both = said(|corpus, kept| {
                kept.unreadable.push(corpus.keys.at(id));
                drop(kept.blobs.remove(&corpus.keys.at(2_504)));
            });
            both.iter().for_each(|said| assert!(said.ends_with("is missing"), "{said}"));
        }
        let [alone, together] =
            said(|corpus, kept| kept.unreadable.extend([100, 200].map(|id| corpus.keys.at(id))));
        assert!(alone.ends_with("no answer; 2 of 3500 could not be read") && alone == together, "{together}");
    }

    #[test]
    fn of_a_store_that_evicts_a_blob_may_be_gone_and_not_wrong() {
        // Blob 1,000 is read alone in both cases, 2,002 in a batch if there are any.
        for id in [1_000, 2_002] {
            let gone = said(|corpus, kept| {
                kept.evicts = true;
                drop(kept.blobs.remove(&corpus.keys.at(id)));
            });
            let right = format!("{} are right", BLOBS - 1);
            assert_eq!(gone, [right.clone(), right]);
            let wrong = said(|corpus, kept| {
                kept.evicts = true;
                // Its neighbour is gone.
                drop(kept.blobs.remove(&corpus.keys.at(id + 3)));
                kept.blobs.get_mut(&corpus.keys.at(id)).into_iter().for_each(|blob| blob[0] ^= 1);
            });
            wrong.iter().for_each(|said| assert!(said.ends_with("has other bytes than were put"), "{said}"));
        }
        let [alone, together] = said(|corpus, kept| {
            kept.evicts = true;
            drop(kept.blobs.insert(corpus.keys.at(2_001), vec![1]));
        });
        assert!(alone.contains("though it was deleted") && alone == together, "{together}");
    }

    #[test]
    fn who_is_stopped_compares_no_more() {
        let (corpus, state, kept) = filled();
        let stopped = AtomicBool::new(true);
        let compared = verify(&kept, true, &corpus, corpus.sizes.len(), &state, &stopped).unwrap();
        assert_eq!(compared, 0);
    }

    #[test]
    fn what_is_wrong_is_named_whether_it_is_read_alone_or_together() {
        let right = format!("{BLOBS} are right");
        assert_eq!(said(|_, _| {}), [right.clone(), right.clone()]);
        // Blob 1,000 is read alone in both cases, 2,002 in a batch if there are any.
        for id in [1_000, 2_002] {
            let [alone, together] = said(|corpus, kept| drop(kept.blobs.remove(&corpus.keys.at(id))));
            assert!(alone.ends_with("is missing") && alone == together, "{together}");
            let [alone, together] = said(|corpus, kept| {
                kept.blobs.get_mut(&corpus.keys.at(id)).into_iter().for_each(|blob| blob[0] ^= 1);
            });
            assert!(alone.ends_with("has other bytes than were put") && alone == together, "{together}");
            let [alone, together] = said(|corpus, kept| {
                kept.blobs
                    .get_mut(&corpus.keys.at(id))
                    .into_iter()
                    .for_each(|blob| blob.truncate(blob.len() - 1));
            });
            assert!(alone.contains(" B instead of ") && alone == together, "{together}");
        }
        let [alone, together] = said(|corpus, kept| drop(kept.blobs.insert(corpus.keys.at(2_001), vec![1])));
        assert!(alone.contains("though it was deleted") && alone == together, "{together}");
        let [alone, together] = said(|_, kept| kept.mixes = true);
        assert!(alone == right && together.contains("wrong when they are read together"), "{together}");
    }
}
