//! A store whose reads are slower by a known share: it forwards everything to the real store, measures the time of reads, and
//! spins for a share of it.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::workers::clock::{Clock, HostClock};
use crate::host::server::Server;
use crate::store::*;
use crate::stores::{Entry, find};

/// Default slowdown, as a share of a read's own time.
pub const SHARE: f64 = 0.10;

/// Requested slowdown. A global, because an adapter opens its store through a plain function without parameters for it.
static ASKED: OnceLock<f64> = OnceLock::new();

/// Sets the slowdown, once, before the first store is opened.
pub fn ask(share: f64) {
    ASKED.get_or_init(|| share);
}

/// Time of reads since the last query, in nanoseconds, and (below) time added to them.
static READS_NS: AtomicU64 = AtomicU64::new(0);
static ADDED_NS: AtomicU64 = AtomicU64::new(0);

/// Returns the slowdown actually added since the last call.
pub fn added_share() -> f64 {
    let (reads, added) = (READS_NS.swap(0, Ordering::Relaxed), ADDED_NS.swap(0, Ordering::Relaxed));
    added as f64 / reads.max(1) as f64
}

/// Slowed counterpart of the store named `NAMES[WHICH]`; it declares the same properties.
pub fn adapter<const WHICH: usize>() -> Option<&'static Adapter> {
    let inner = inner::<WHICH>()?;
    Some(Box::leak(Box::new(Adapter { open: open::<WHICH>, ..*inner })))
}

fn inner<const WHICH: usize>() -> Option<&'static Adapter> {
    match find(super::trials::STORES[WHICH]) {
        Some(Entry::Ready(adapter)) => Some(adapter),
        Some(Entry::NotCompiled { .. } | Entry::Impossible { .. }) | None => None,
    }
}

fn open<const WHICH: usize>(setup: &Setup) -> Result<Box<dyn Store>> {
    let inner = inner::<WHICH>().ok_or(Error::Unsupported("a store that is not compiled in"))?;
    let share = ASKED.get().copied().unwrap_or(SHARE);
    Ok(Box::new(Slowed { inner: (inner.open)(setup)?, clock: clock(), share }))
}

/// Shared clock, because calibration takes a while.
fn clock() -> &'static HostClock {
    static CLOCK: OnceLock<HostClock> = OnceLock::new();
    CLOCK.get_or_init(HostClock::best)
}

struct Slowed {
    inner: Box<dyn Store>,
    clock: &'static HostClock,
    share: f64,
}

impl Slowed {
    fn slow<'a>(&self, inner: Box<dyn Session + 'a>) -> Box<dyn Session + 'a> {
        Box::new(SlowedSession { inner, clock: self.clock, share: self.share, reads_ns: 0, added_ns: 0 })
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Slowed {
    forward! { inner:
        fn facts(&self) -> Result<Facts>;
        fn settle(&self) -> Result<()>;
        fn catch_up(&self) -> Result<()>;
        fn purge(&self) -> Result<()>;
        fn open_catalogue(&self) -> Result<()>;
        fn contact(&self) -> Option<Contact>;
        fn servers(&self) -> Vec<&Server>;
        fn footprint_bytes(&self) -> Result<Option<u64>>;
        fn totals(&self) -> Result<(u64, u64)>;
        fn back_up(&self, to: &Path) -> Result<()>;
        fn restore(&self, from: &Path) -> Result<()>;
        fn evictions(&self) -> Result<Option<u64>>;
        fn compact_into(&self, to: &Path) -> Result<()>;
        fn index_bytes(&self) -> Result<Option<u64>>;
        fn is_log(&self, path: &Path) -> bool;
        fn memory_bytes(&self) -> Result<Option<u64>>;
        fn directory(&self) -> Option<BorrowedFd<'_>>;
        fn is_staged(&self) -> bool;
        fn picture(&self, key: &Key) -> Result<Option<Vec<u8>>>;
        fn join_token(&self) -> Result<JoinToken>;
    }

    forward! { inner:
        fn compact(&mut self) -> Result<()>;
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        self.inner.session().map(|inner| self.slow(inner))
    }

    fn reader(&self) -> Result<Box<dyn Session + '_>> {
        self.inner.reader().map(|inner| self.slow(inner))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.inner.close()
    }

    fn remove(self: Box<Self>) -> Result<()> {
        self.inner.remove()
    }
}

struct SlowedSession<'a> {
    inner: Box<dyn Session + 'a>,
    clock: &'static HostClock,
    share: f64,
    reads_ns: u64,
    added_ns: u64,
}

#[deny(clippy::missing_trait_methods)]
impl Session for SlowedSession<'_> {
    forward! { inner:
        fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()>;
        fn delete(&mut self, key: &Key) -> Result<()>;
        fn sync(&mut self) -> Result<()>;
        fn connect(&mut self) -> Result<()>;
        fn prepare(&mut self) -> Result<()>;
        fn report_op(&mut self, each: &mut dyn FnMut(OpReport)) -> Result<()>;
        fn take_incidents(&mut self) -> Incidents;
        fn catalogue(&mut self) -> Result<&mut dyn Catalogue>;
        fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()>;
        fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()>;
        fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize>;
        fn delete_batch(&mut self, keys: &[Key]) -> Result<()>;
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let start = self.clock.now();
        let outcome = self.inner.get(key, span, sink);
        let end = self.clock.now();
        let until = end + ((end - start) as f64 * self.share) as u64;
        let mut now = end;
        while now < until {
            std::hint::spin_loop();
            now = self.clock.now();
        }
        self.reads_ns += end - start;
        self.added_ns += now - end;
        outcome
    }
}

impl Drop for SlowedSession<'_> {
    fn drop(&mut self) {
        READS_NS.fetch_add(self.reads_ns, Ordering::Relaxed);
        ADDED_NS.fetch_add(self.added_ns, Ordering::Relaxed);
    }
}
