//! A session that only reads, all in one transaction.

use crate::store::{Error, Key, ManySink, Result, Session, Sink, Span};

/// Reads within a transaction that was begun before. A session whose connection is in one is such.
pub(in crate::stores) trait Reads {
    /// See [`Session::get`].
    fn get_within(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool>;
    /// See [`Session::get_many`].
    fn get_many_within(&mut self, keys: &[Key], sink: ManySink) -> Result<usize>;
}

impl<S: Session> Reads for S {
    fn get_within(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.get(key, span, sink)
    }

    fn get_many_within(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        self.get_many(keys, sink)
    }
}

/// What [`crate::store::Store::reader`] gives. The transaction ends when it is dropped.
pub(in crate::stores) struct Reader<R>(pub R);

const WRITE: Error = Error::Unsupported("a write in a transaction that reads");

impl<R: Reads> Session for Reader<R> {
    fn put(&mut self, _key: &Key, _blob: &[u8]) -> Result<()> {
        Err(WRITE)
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.0.get_within(key, span, sink)
    }

    fn delete(&mut self, _key: &Key) -> Result<()> {
        Err(WRITE)
    }

    /// Nothing was written.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        self.0.get_many_within(keys, sink)
    }
}
