//! A read-only session whose reads are all in one transaction.

use crate::store::{Error, Key, ManySink, Result, Session, Sink, Span};

/// Gets several blobs one after another; returns how many were found.
pub(in crate::stores) fn get_each<E>(
    keys: &[Key],
    sink: ManySink,
    mut get: impl FnMut(&Key, Sink) -> std::result::Result<bool, E>,
) -> std::result::Result<usize, E> {
    let mut found = 0;
    for (index, key) in keys.iter().enumerate() {
        found += usize::from(get(key, &mut |piece| sink(index, piece))?);
    }
    Ok(found)
}

/// A snapshot of a store in this process, which lends each blob as a whole.
pub(in crate::stores) trait Snapshot {
    /// Lends a blob; `false` if there is none.
    fn lend(&self, key: &Key, sink: impl FnOnce(&[u8])) -> Result<bool>;

    /// See [`Session::get`].
    fn lend_part(&self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.lend(key, |blob| sink(span.slice_of(blob)))
    }

    /// See [`Session::get_many`].
    fn lend_many(&self, keys: &[Key], sink: ManySink) -> Result<usize> {
        get_each(keys, sink, |key, sink| self.lend(key, sink))
    }
}

/// The reads of a snapshot, for a [`ReadOnlySession`].
pub(in crate::stores) struct SnapshotReads<S>(pub S);

impl<S: Snapshot> TransactionReads for SnapshotReads<S> {
    fn get_within(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.0.lend_part(key, span, sink)
    }

    fn get_many_within(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        self.0.lend_many(keys, sink)
    }
}

/// Reads within a transaction that has begun. Implemented by every session whose connection is in one.
pub(in crate::stores) trait TransactionReads {
    /// See [`Session::get`].
    fn get_within(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool>;
    /// See [`Session::get_many`].
    fn get_many_within(&mut self, keys: &[Key], sink: ManySink) -> Result<usize>;
}

impl<S: Session> TransactionReads for S {
    fn get_within(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.get(key, span, sink)
    }

    fn get_many_within(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        self.get_many(keys, sink)
    }
}

/// The session that [`crate::store::Store::reader`] returns. Dropping it ends the transaction.
pub(in crate::stores) struct ReadOnlySession<R>(pub R);

const WRITE: Error = Error::Unsupported("a write in a transaction that reads");

impl<R: TransactionReads> Session for ReadOnlySession<R> {
    fn put(&mut self, _key: &Key, _blob: &[u8]) -> Result<()> {
        Err(WRITE)
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.0.get_within(key, span, sink)
    }

    fn delete(&mut self, _key: &Key) -> Result<()> {
        Err(WRITE)
    }

    /// There is nothing to flush.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        self.0.get_many_within(keys, sink)
    }
}
