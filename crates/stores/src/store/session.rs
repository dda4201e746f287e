//! An open store, and one worker's session with it.

use std::os::fd::BorrowedFd;
use std::path::Path;

use super::{Contact, Error, Facts, JoinToken, Key, Result, Span};
use crate::host::server::Server;

/// Receives the pieces of a blob in order. The slices are lent for the call only, so that a store can lend what it has (a mapped
/// page, a line of its own cache, a network buffer) without a copy.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8]);

/// Receives the pieces of several blobs: the index of the requested key, then a piece of its blob.
pub type ManySink<'a> = &'a mut dyn FnMut(usize, &[u8]);

/// An open store, shared by all workers.
pub trait Store: Sync + Send {
    /// Opens a worker's session, on that worker's thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Opens a read-only session, on the worker's thread, whose reads are all in one transaction until it is dropped.
    fn reader(&self) -> Result<Box<dyn Session + '_>> {
        Err(Error::Unsupported("one transaction for several reads"))
    }

    /// Version and settings, read back from the store.
    fn facts(&self) -> Result<Facts>;

    /// Waits until the store's background work is idle: checkpoint done, no compaction pending.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Finishes deferred maintenance (compaction, vacuum) now, so that a later phase does not pay for it. Called before a phase
    /// of writes, off its clock.
    fn catch_up(&self) -> Result<()> {
        self.settle()
    }

    /// Carries out deletes that were only marked; timed separately.
    fn purge(&self) -> Result<()> {
        Ok(())
    }

    /// Number of blobs and their total size in bytes, by one query or one traversal, without reading more of the blobs than that
    /// needs.
    fn totals(&self) -> Result<(u64, u64)> {
        Err(Error::Unsupported("a count of all"))
    }

    /// Backs up the whole open store into an empty directory by its own means, and writes nowhere else. The caller flushes the
    /// file system afterwards. `Unsupported` if [`super::Capabilities::backup`] names another way, or a program is missing.
    fn back_up(&self, _to: &Path) -> Result<()> {
        Err(Error::Unsupported("a backup"))
    }

    /// Loads a dump of [`Store::back_up`] into a new, empty store.
    fn restore(&self, _from: &Path) -> Result<()> {
        Err(Error::Unsupported("loading a dump"))
    }

    /// Rewrites the open store without the room of replaced and deleted blobs, if [`super::Capabilities::compaction`] says so. No
    /// session is open.
    fn compact(&mut self) -> Result<()> {
        Err(Error::Unsupported("a compaction in place"))
    }

    /// Writes a compact copy of the whole store into an empty directory, and nothing elsewhere, if
    /// [`super::Capabilities::compaction`] says so. The caller flushes the file system afterwards.
    fn compact_into(&self, _to: &Path) -> Result<()> {
        Err(Error::Unsupported("a compact copy"))
    }

    /// Creates the catalogue of uploads if missing, and removes entries whose blob was never stored because of a crash. Called
    /// once, before any session asks for it.
    fn open_catalogue(&self) -> Result<()> {
        Err(Error::Unsupported("a catalogue"))
    }

    /// How another program connects to the store's server, for stores composed upon it; `None` without a server.
    fn contact(&self) -> Option<Contact> {
        None
    }

    /// What another process needs to open sessions with this store, if [`super::Capabilities::clients`] allows it.
    fn join_token(&self) -> Result<JoinToken> {
        Err(Error::Unsupported("sessions of other processes"))
    }

    /// The servers that the store started; their CPU time, memory and device bytes are measured.
    fn servers(&self) -> Vec<&Server> {
        Vec::new()
    }

    /// Bytes that the user's server reports for this store; `None` if it does not report them, or if the store has a directory to
    /// measure.
    fn footprint_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Number of blobs that the store has thrown away so far to make room for others; `None` if it never does. With a number, a
    /// blob that was put may be missing: reading it is a miss, and a comparison accepts that it is gone, but no other bytes.
    fn evictions(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Bytes of the indexes beside the data; `None` if the store does not tell the two apart.
    fn index_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// True if a file, given by its path below the store's directory, is a log: its contents are written a second time to their
    /// final place.
    fn is_log(&self, _path: &Path) -> bool {
        false
    }

    /// Memory in bytes that the store takes outside of this process and its servers now, such as that of a file system in memory;
    /// `None` if there is none.
    fn memory_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// The directory of its files, if no path leads there: a server that serves them inherits the descriptor.
    fn directory(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// True if its sessions need [`Session::prepare`] before and [`Session::tell`] after each op; both run off the clock.
    fn is_staged(&self) -> bool {
        false
    }

    /// A picture (PNG) of a blob as a visitor sees it; `None` if there is nothing to see.
    fn picture(&self, _key: &Key) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Closes the store. A failing flush is an error here; dropping without closing is the safety net.
    fn close(self: Box<Self>) -> Result<()>;

    /// Closes it for good and removes what only its server can remove: the schema or database that carries our mark.
    fn remove(self: Box<Self>) -> Result<()> {
        self.close()
    }
}

/// What a session reports about an op beyond its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpReport {
    /// A step of the op that the other side timed: its name and duration in nanoseconds.
    Time(&'static str, u64),
    /// Something counted during the op: its name and number.
    Count(&'static str, u64),
}

/// Incidents during successful ops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incidents {
    /// Responses that the cache in front of the blobs did not hold, or not completely.
    pub cache_misses: u64,
    /// Requests repeated because the other side had closed the connection or turned them away for now.
    pub repeats: u64,
}

/// True if the last component of the path passes the test; false if it is not UTF-8.
pub fn has_name(path: &Path, is_meant: impl Fn(&str) -> bool) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is_meant)
}

/// One worker's session. It refuses what the store cannot do and never emulates it.
pub trait Session {
    /// Creates or replaces a blob. A reader sees the old bytes or the new ones, never a mixture. An append-only store refuses a key
    /// that has a blob.
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()>;

    /// Lends the requested bytes in order, none beyond the end of the blob; `false` if there is no such blob.
    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool>;

    /// Removes a blob. Removing a missing one succeeds, unless the store is append-only.
    fn delete(&mut self, key: &Key) -> Result<()>;

    /// Returns once this session's earlier writes are on stable storage.
    fn sync(&mut self) -> Result<()>;

    /// Opens a new connection: the part of an op that `connection=per-op` adds, timed by the loop.
    fn connect(&mut self) -> Result<()> {
        Err(Error::Unsupported("a connection for each op"))
    }

    /// Prepares what the next op must find fresh, such as a browser without a cache. Called before each op, off every clock, if
    /// [`Store::is_staged`].
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Reports what only the session knows of the op that has just succeeded. Called once after it, off every clock, if
    /// [`Store::is_staged`].
    fn report_op(&mut self, _each: &mut dyn FnMut(OpReport)) -> Result<()> {
        Ok(())
    }

    /// Returns the incidents since the last call. Called after a phase's ops, off the clock.
    fn take_incidents(&mut self) -> Incidents {
        Incidents::default()
    }

    /// The catalogue of uploads in the same database, over the same connection.
    fn catalogue(&mut self) -> Result<&mut dyn Catalogue> {
        Err(Error::Unsupported("a catalogue"))
    }

    /// Passes every key to `each`, in any order.
    fn list(&mut self, _each: &mut dyn FnMut(&str)) -> Result<()> {
        Err(Error::Unsupported("list"))
    }

    /// Puts several blobs as one transaction.
    fn put_batch(&mut self, _blobs: &[(Key, &[u8])]) -> Result<()> {
        Err(Error::Unsupported("a batch of puts"))
    }

    /// Gets several blobs in one request, or from one snapshot if the store is in this process; returns how many were found.
    fn get_many(&mut self, _keys: &[Key], _sink: ManySink) -> Result<usize> {
        Err(Error::Unsupported("a get of many"))
    }

    /// Deletes several blobs as one transaction.
    fn delete_batch(&mut self, _keys: &[Key]) -> Result<()> {
        Err(Error::Unsupported("a batch of deletes"))
    }
}

/// Forwards methods to a field that has them.
#[macro_export]
macro_rules! forward {
    ($field:ident: $(fn $name:ident(&mut $self:ident $(, $argument:ident: $kind:ty)*) -> $returns:ty;)*) => {$(
        fn $name(&mut $self $(, $argument: $kind)*) -> $returns {
            $self.$field.$name($($argument),*)
        }
    )*};
    ($field:ident: $(fn $name:ident(&$self:ident $(, $argument:ident: $kind:ty)*) -> $returns:ty;)*) => {$(
        fn $name(&$self $(, $argument: $kind)*) -> $returns {
            $self.$field.$name($($argument),*)
        }
    )*};
}

pub use forward;

/// The stored contents by digest, with the number of uploads that refer to each: a table in a SQL database.
///
/// A content is catalogued from `confirm`, after its blob was stored, until its last reference is released, before its blob is
/// deleted. A crash in between leaves a blob without references, never an entry without a blob.
pub trait Catalogue {
    /// Begins a transaction; the session's puts and deletes until `commit` are part of it.
    fn begin(&mut self) -> Result<()>;

    /// Commits the transaction.
    fn commit(&mut self) -> Result<()>;

    /// Rolls the transaction back.
    fn rollback(&mut self) -> Result<()>;

    /// Adds a reference to a catalogued content; `false` if it is not catalogued.
    fn find(&mut self, digest: &Key) -> Result<bool>;

    /// Announces a content that is about to be stored under its digest, with one reference. `Busy` if another session is storing
    /// or removing the same.
    fn insert(&mut self, digest: &Key, bytes: u64) -> Result<()>;

    /// Marks an announced content as catalogued, after its blob was stored.
    fn confirm(&mut self, digest: &Key) -> Result<()>;

    /// Removes a reference. `true` if it was the last one: the content is no longer catalogued, and its blob can be deleted.
    fn release(&mut self, digest: &Key) -> Result<bool>;

    /// Removes the entry of a content that is not catalogued.
    fn forget(&mut self, digest: &Key) -> Result<()>;

    /// References to a catalogued content; 0 if it is not catalogued.
    fn references(&mut self, digest: &Key) -> Result<u64>;
}
