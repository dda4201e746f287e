//! An open store, and one worker's handle of it.

use std::os::fd::BorrowedFd;
use std::path::Path;

use super::{Contact, Error, Facts, Invitation, Key, Result, Span};
use crate::host::server::Server;

/// Receives the pieces of a blob in order. The slices are lent for the call only, so that a store can lend
/// what it has (a mapped page, a cache line of its own, a network buffer) without a copy.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8]);

/// Receives the pieces of several blobs: the index of the key asked for, then a piece of its blob.
pub type ManySink<'a> = &'a mut dyn FnMut(usize, &[u8]);

/// An open store, shared by all workers.
pub trait Store: Sync + Send {
    /// Opens one worker's handle, on that worker's thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Opens one worker's handle, on that worker's thread, whose reads are all in one transaction: from now on until it is dropped.
    /// It refuses to write.
    fn reader(&self) -> Result<Box<dyn Session + '_>> {
        Err(Error::Unsupported("one transaction for several reads"))
    }

    /// Version and settings, read back from the store.
    fn facts(&self) -> Result<Facts>;

    /// Waits until the store's own background work is idle: checkpoint done, no compaction pending.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Does what earlier writes have left for some day, though it is not due yet, so that it does not become due by what others
    /// write. Called before a phase of writes, off its clock.
    fn catch_up(&self) -> Result<()> {
        self.settle()
    }

    /// Carries out deletes that were only marked; timed apart.
    fn purge(&self) -> Result<()> {
        Ok(())
    }

    /// How many blobs there are, and how many bytes these have together: by one question or one walk of its own, and without reading
    /// blobs that need not be read for it.
    fn totals(&self) -> Result<(u64, u64)> {
        Err(Error::Unsupported("a count of all"))
    }

    /// Writes all that it holds into an empty directory, by its own means and while it is open, and nothing elsewhere. Whoever calls
    /// it flushes the file system afterwards. `Unsupported` where [`super::Caps::backup`] says another way, or a program is missing.
    fn back_up(&self, _to: &Path) -> Result<()> {
        Err(Error::Unsupported("a backup"))
    }

    /// Loads what [`Store::back_up`] dumped, into a store that was just made and holds nothing.
    fn restore(&self, _from: &Path) -> Result<()> {
        Err(Error::Unsupported("loading a dump"))
    }

    /// Makes the catalogue of uploads where there is none, and takes out entries whose blob was never stored because
    /// somebody died half way. Called once, before any session asks for it.
    fn open_catalogue(&self) -> Result<()> {
        Err(Error::Unsupported("a catalogue"))
    }

    /// How another program reaches its server, for what is composed upon it; `None` for a store without one.
    fn contact(&self) -> Option<Contact> {
        None
    }

    /// What another process needs to open sessions with this store, where [`super::Caps::clients`] says that it can.
    fn invitation(&self) -> Result<Invitation> {
        Err(Error::Unsupported("sessions of other processes"))
    }

    /// The servers it started, whose processor time, memory and device bytes are measured.
    fn servers(&self) -> Vec<&Server> {
        Vec::new()
    }

    /// Bytes that a server of the user's says it takes; `None` for one that does not tell, and for a store whose directory can be
    /// looked at.
    fn footprint_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Bytes of the indexes that it keeps beside its data, where it tells the two apart.
    fn index_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Whether a file, by its path below the store's directory, is a log: what was written there is written again where it stays.
    fn is_log(&self, _path: &Path) -> bool {
        false
    }

    /// Memory that the store takes outside of this process and of its servers, in bytes now, such as that of a file system
    /// in memory; `None` for a store that has none there.
    fn memory_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// The directory of its files, where no path leads to them: a server that is to serve them inherits it.
    fn directory(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether its sessions have something to make ready before each op and to tell after it. Neither is on the clock: see
    /// [`Session::prepare`] and [`Session::tell`].
    fn is_staged(&self) -> bool {
        false
    }

    /// A picture (PNG) of a blob as a visitor sees it, where there is something to see.
    fn picture(&self, _key: &Key) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Closes it. A flush that fails here is an error; dropping without closing is the safety net.
    fn close(self: Box<Self>) -> Result<()>;

    /// Closes it for good and removes what it put where only its server can: the schema or database that carries our mark.
    fn remove(self: Box<Self>) -> Result<()> {
        self.close()
    }
}

/// What a session tells of an op beside its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A part of it that was timed by the other side, in nanoseconds: its name and how long it took.
    Time(&'static str, u64),
    /// What was counted in it: its name and how many.
    Count(&'static str, u64),
}

/// What happened in ops that succeeded, beside what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incidents {
    /// Answers that the cache in front of the blobs had not, or not all of.
    pub cache_misses: u64,
    /// Requests that were made once more because the other side had closed the connection, or turned them away for now.
    pub repeats: u64,
}

/// Whether a file's own name is such a one; a name that is no text is none.
pub fn has_name(path: &Path, is_meant: impl Fn(&str) -> bool) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is_meant)
}

/// One worker's handle. What a store cannot do it refuses; it never emulates.
pub trait Session {
    /// Creates or replaces a blob. A reader sees the old bytes or the new ones, never a mixture.
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()>;

    /// Lends the asked bytes in order; `false` when there is no such blob. Bytes beyond the blob's end are
    /// not lent.
    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool>;

    /// Removes a blob. Removing a missing one succeeds.
    fn delete(&mut self, key: &Key) -> Result<()>;

    /// Returns when this session's earlier writes are on stable storage.
    fn sync(&mut self) -> Result<()>;

    /// Connects anew: the part of an op that `connection=per-op` adds, timed by the loop.
    fn connect(&mut self) -> Result<()> {
        Err(Error::Unsupported("a connection for each op"))
    }

    /// Makes ready what the next op must find fresh, such as a browser without a cache. Called before each op, off every clock,
    /// where [`Store::is_staged`].
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Tells what only the session knows of the op that has just succeeded. Called once after it, off every clock, where
    /// [`Store::is_staged`].
    fn tell(&mut self, _each: &mut dyn FnMut(Told)) -> Result<()> {
        Ok(())
    }

    /// What happened beside the ops since it was last asked. Asked after a phase's ops, off the clock.
    fn take_incidents(&mut self) -> Incidents {
        Incidents::default()
    }

    /// The catalogue of uploads in the same database, over the same connection.
    fn catalogue(&mut self) -> Result<&mut dyn Catalogue> {
        Err(Error::Unsupported("a catalogue"))
    }

    /// Gives every key there is, in any order.
    fn list(&mut self, _each: &mut dyn FnMut(&str)) -> Result<()> {
        Err(Error::Unsupported("list"))
    }

    /// Puts several blobs as one transaction.
    fn put_batch(&mut self, _blobs: &[(Key, &[u8])]) -> Result<()> {
        Err(Error::Unsupported("a batch of puts"))
    }

    /// Gets several blobs as one request, or from one snapshot where the store is in this process; returns how many were found.
    fn get_many(&mut self, _keys: &[Key], _sink: ManySink) -> Result<usize> {
        Err(Error::Unsupported("a get of many"))
    }

    /// Deletes several blobs as one transaction.
    fn delete_batch(&mut self, _keys: &[Key]) -> Result<()> {
        Err(Error::Unsupported("a batch of deletes"))
    }
}

/// Which contents are stored, by digest, and how many uploads refer to each: a table in a SQL database.
///
/// A content is catalogued from `confirm` on, after its blob was stored, until its last reference is released, before its blob
/// is deleted. Whoever dies in between leaves a blob that nobody refers to, never an entry without a blob.
pub trait Catalogue {
    /// Begins a transaction; the session's puts and deletes until `commit` are part of it.
    fn begin(&mut self) -> Result<()>;

    /// Ends it.
    fn commit(&mut self) -> Result<()>;

    /// Gives it up.
    fn rollback(&mut self) -> Result<()>;

    /// Adds a reference to a content that is catalogued; `false` when it is not.
    fn find(&mut self, digest: &Key) -> Result<bool>;

    /// Announces a content that is about to be stored under its digest, with one reference. `Busy` when somebody else is
    /// storing or removing the same.
    fn insert(&mut self, digest: &Key, bytes: u64) -> Result<()>;

    /// Catalogues an announced content: its blob is stored.
    fn confirm(&mut self, digest: &Key) -> Result<()>;

    /// Takes a reference away; `true` when it was the last one: the content is no longer catalogued, and its blob can go.
    fn release(&mut self, digest: &Key) -> Result<bool>;

    /// Removes the entry of a content that is not catalogued.
    fn forget(&mut self, digest: &Key) -> Result<()>;

    /// References to a catalogued content; 0 when it is not.
    fn references(&mut self, digest: &Key) -> Result<u64>;
}
