//! Whether a store holds what it must: every blob is compared byte by byte, off every clock.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};

use super::ops::State;
use crate::corpus::Contents;
use crate::rules::{COMPARED_SINGLY, COMPARED_TOGETHER};
use crate::store::{Key, Session, Span, Store};

const TOGETHER_BYTES: u64 = 1 << 20;

/// Compares every blob with what it must be, deleted ones with nothing, and returns how many were compared. `together` is whether
/// the store reads several at a time. Reads through a session of its own, until it is stopped.
pub fn verify(
    store: &dyn Store,
    together: bool,
    keys: &[Key],
    contents: &Contents,
    state: &State,
    stop: &AtomicBool,
) -> Result<u64> {
    let mut check = Check { session: store.session()?, keys, contents, state, room: Vec::new() };
    let stride = if together { keys.len().div_ceil(COMPARED_SINGLY).max(1) } else { 1 };
    let (mut ids, mut bytes) = (Vec::new(), 0);
    for id in 0..keys.len() {
        if stop.load(Ordering::Relaxed) {
            return Ok(id as u64);
        }
        // Of an empty one nothing comes that could be told apart from one that is missing.
        if id % stride == 0 || state.len[id] == 0 {
            check.one(id)?;
            continue;
        }
        ids.push(id);
        bytes += state.len[id];
        if ids.len() == COMPARED_TOGETHER || bytes >= TOGETHER_BYTES {
            check.several(&ids)?;
            ids.clear();
            bytes = 0;
        }
    }
    check.several(&ids)?;
    Ok(keys.len() as u64)
}

struct Check<'a> {
    session: Box<dyn Session + 'a>,
    keys: &'a [Key],
    contents: &'a Contents,
    state: &'a State,
    room: Vec<u8>,
}

impl Check<'_> {
    fn one(&mut self, id: usize) -> Result<()> {
        let Check { keys, contents, state, .. } = self;
        let wanted = contents.blob(id as u64, state.generation[id], state.len[id], &mut self.room);
        let mut came = Came::default();
        let found = self.session.get(&keys[id], Span::Whole, &mut |piece| came.take(piece, wanted))?;
        let what = match (state.alive[id], found) {
            (false, false) => return Ok(()),
            (false, true) => "is there, though it was deleted or never put".to_owned(),
            (true, false) => "is missing".to_owned(),
            (true, true) if came.bytes != wanted.len() => {
                format!("has {} B instead of {}", came.bytes, wanted.len())
            }
            (true, true) if came.differs => "has other bytes than were put".to_owned(),
            (true, true) => return Ok(()),
        };
        bail!("blob {} (generation {}) {what}", keys[id].as_str(), state.generation[id]);
    }

    /// Whatever is wrong with one of them is told by reading it alone.
    fn several(&mut self, ids: &[usize]) -> Result<()> {
        if ids.is_empty() || self.are_right(ids)? {
            return Ok(());
        }
        ids.iter().try_for_each(|id| self.one(*id))?;
        bail!(
            "{} blobs from {} on are right when each is read alone, and wrong when they are read together",
            ids.len(),
            self.keys[ids[0]].as_str()
        );
    }

    fn are_right(&mut self, ids: &[usize]) -> Result<bool> {
        let Check { contents, state, .. } = self;
        let keys: Vec<Key> = ids.iter().map(|id| self.keys[*id]).collect();
        let mut rooms = vec![Vec::new(); ids.len()];
        let blob = |(id, room)| contents.blob(id as u64, state.generation[id], state.len[id], room);
        let wanted: Vec<&[u8]> = ids.iter().copied().zip(&mut rooms).map(blob).collect();
        let mut came = vec![Came::default(); ids.len()];
        let found =
            self.session.get_many(&keys, &mut |index, piece| came[index].take(piece, wanted[index]))?;
        let alive = ids.iter().filter(|id| state.alive[**id]).count();
        let is_right = |((id, came), wanted): ((&usize, &Came), &&[u8])| {
            let bytes = if state.alive[*id] { wanted.len() } else { 0 };
            came.bytes == bytes && !came.differs
        };
        Ok(found == alive && ids.iter().zip(&came).zip(&wanted).all(is_right))
    }
}

/// What came of a blob.
#[derive(Clone, Default)]
struct Came {
    bytes: usize,
    differs: bool,
}

impl Came {
    fn take(&mut self, piece: &[u8], wanted: &[u8]) {
        self.differs |= wanted.get(self.bytes..self.bytes + piece.len()) != Some(piece);
        self.bytes += piece.len();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::corpus::{Content, Corpus, Request, Sizes, Source};
    use crate::store::{Facts, ManySink, Sink};

    const BLOBS: u64 = 3_500;

    /// What is kept, and whether several that are read together come in the wrong order.
    #[derive(Clone, Default)]
    struct Kept {
        blobs: HashMap<Key, Vec<u8>>,
        mixes: bool,
    }

    impl Store for Kept {
        fn session(&self) -> crate::store::Result<Box<dyn Session + '_>> {
            Ok(Box::new(Reader(self)))
        }

        fn facts(&self) -> crate::store::Result<Facts> {
            Ok(Facts::new())
        }

        fn close(self: Box<Self>) -> crate::store::Result<()> {
            Ok(())
        }
    }

    struct Reader<'s>(&'s Kept);

    impl Session for Reader<'_> {
        fn get(&mut self, key: &Key, _: Span, sink: Sink) -> crate::store::Result<bool> {
            let blob = self.0.blobs.get(key);
            blob.into_iter().for_each(|blob| sink(blob));
            Ok(blob.is_some())
        }

        fn get_many(&mut self, keys: &[Key], sink: ManySink) -> crate::store::Result<usize> {
            let mut found = 0;
            for (index, key) in keys.iter().enumerate() {
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

    /// A store in which every third blob was deleted, and what it must be.
    fn filled() -> (Corpus, State, Kept) {
        let sizes = Sizes::Uniform(1, 40);
        let source = Source::Synthetic { name: "small".into(), sizes, content: Content::Random };
        let request = Request { source, blobs_max: Some(BLOBS), bytes_max: None, grows: false, seed: 7 };
        let corpus = Corpus::build(&request).unwrap();
        let mut state = State::empty(&corpus);
        let mut kept = Kept::default();
        let mut room = Vec::new();
        for id in (0..BLOBS as usize).filter(|id| id % 3 != 0) {
            state.alive[id] = true;
            let blob = corpus.contents.blob(id as u64, 0, state.len[id], &mut room);
            kept.blobs.insert(corpus.keys[id], blob.to_vec());
        }
        (corpus, state, kept)
    }

    /// What is said of a store after something was done to it, whether several are read at a time or not.
    fn said(spoil: impl Fn(&Corpus, &mut Kept)) -> [String; 2] {
        let (corpus, state, mut kept) = filled();
        spoil(&corpus, &mut kept);
        let never = AtomicBool::new(false);
        [false, true].map(|together| {
            match verify(&kept, together, &corpus.keys, &corpus.contents, &state, &never) {
                Ok(blobs) => format!("{blobs} are right"),
                Err(wrong) => wrong.to_string(),
            }
        })
    }

    #[test]
    fn who_is_stopped_compares_no_more() {
        let (corpus, state, kept) = filled();
        let stopped = AtomicBool::new(true);
        let compared = verify(&kept, true, &corpus.keys, &corpus.contents, &state, &stopped).unwrap();
        assert_eq!(compared, 0);
    }

    #[test]
    fn what_is_wrong_is_named_whether_it_is_read_alone_or_together() {
        let right = format!("{BLOBS} are right");
        assert_eq!(said(|_, _| {}), [right.clone(), right.clone()]);
        // Number 1,000 is read alone by every rule, 2,002 with others.
        for id in [1_000, 2_002] {
            let [alone, together] = said(|corpus, kept| drop(kept.blobs.remove(&corpus.keys[id])));
            assert!(alone.ends_with("is missing") && alone == together, "{together}");
            let [alone, together] = said(|corpus, kept| {
                kept.blobs.get_mut(&corpus.keys[id]).into_iter().for_each(|blob| blob[0] ^= 1);
            });
            assert!(alone.ends_with("has other bytes than were put") && alone == together, "{together}");
            let [alone, together] = said(|corpus, kept| {
                kept.blobs
                    .get_mut(&corpus.keys[id])
                    .into_iter()
                    .for_each(|blob| blob.truncate(blob.len() - 1));
            });
            assert!(alone.contains(" B instead of ") && alone == together, "{together}");
        }
        let [alone, together] = said(|corpus, kept| drop(kept.blobs.insert(corpus.keys[2_001], vec![1])));
        assert!(alone.contains("though it was deleted") && alone == together, "{together}");
        let [alone, together] = said(|_, kept| kept.mixes = true);
        assert!(alone == right && together.contains("wrong when they are read together"), "{together}");
    }
}
