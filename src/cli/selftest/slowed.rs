//! A store that is slower by a known share: it passes every op on to the real one, measures how long that took, and keeps the
//! processor busy for a share of it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::clock::{Clock, HostClock};
use crate::store::*;
use crate::stores::{Entry, find};

/// The share of its own time by which every op is made longer.
pub const SHARE: f64 = 0.10;

/// Time that ops took, and time added to them, since the last look; in nanoseconds.
static OPS_NS: AtomicU64 = AtomicU64::new(0);
static ADDED_NS: AtomicU64 = AtomicU64::new(0);

/// The share that was really added since this was asked last.
pub fn added_share() -> f64 {
    let (ops, added) = (OPS_NS.swap(0, Ordering::Relaxed), ADDED_NS.swap(0, Ordering::Relaxed));
    added as f64 / ops.max(1) as f64
}

/// The slowed counterpart of the store that is called `NAMES[WHICH]`; it says of itself what that one says.
pub fn adapter<const WHICH: usize>() -> Option<&'static Adapter> {
    let inner = inner::<WHICH>()?;
    Some(Box::leak(Box::new(Adapter {
        name: inner.name,
        about: inner.about,
        kind: inner.kind,
        programs: inner.programs,
        options: inner.options,
        caps: inner.caps,
        damage: inner.damage,
        integrity: inner.integrity,
        open: open::<WHICH>,
    })))
}

fn inner<const WHICH: usize>() -> Option<&'static Adapter> {
    match find(super::trials::STORES[WHICH]) {
        Some(Entry::Ready(adapter)) => Some(adapter),
        Some(Entry::NotCompiled { .. } | Entry::Impossible { .. }) | None => None,
    }
}

fn open<const WHICH: usize>(setup: &Setup) -> Result<Box<dyn Store>> {
    let inner = inner::<WHICH>().ok_or(Error::Unsupported("a store that is not compiled in"))?;
    Ok(Box::new(Slowed { inner: (inner.open)(setup)?, clock: clock() }))
}

/// One clock for all of them: calibrating it takes a while.
fn clock() -> &'static HostClock {
    static CLOCK: OnceLock<HostClock> = OnceLock::new();
    CLOCK.get_or_init(HostClock::best)
}

struct Slowed {
    inner: Box<dyn Store>,
    clock: &'static HostClock,
}

impl Store for Slowed {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let inner = self.inner.session()?;
        Ok(Box::new(SlowedSession { inner, clock: self.clock, ops_ns: 0, added_ns: 0 }))
    }

    fn facts(&self) -> Result<Facts> {
        self.inner.facts()
    }

    fn settle(&self) -> Result<()> {
        self.inner.settle()
    }

    fn catch_up(&self) -> Result<()> {
        self.inner.catch_up()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.inner.close()
    }
}

struct SlowedSession<'a> {
    inner: Box<dyn Session + 'a>,
    clock: &'static HostClock,
    ops_ns: u64,
    added_ns: u64,
}

impl SlowedSession<'_> {
    fn slowed<T>(&mut self, op: impl FnOnce(&mut dyn Session) -> Result<T>) -> Result<T> {
        let start = self.clock.now();
        let outcome = op(self.inner.as_mut());
        let end = self.clock.now();
        let until = end + ((end - start) as f64 * SHARE) as u64;
        let mut now = end;
        while now < until {
            std::hint::spin_loop();
            now = self.clock.now();
        }
        self.ops_ns += end - start;
        self.added_ns += now - end;
        outcome
    }
}

impl Session for SlowedSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.slowed(|inner| inner.put(key, blob))
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.slowed(|inner| inner.get(key, span, sink))
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.slowed(|inner| inner.delete(key))
    }

    fn sync(&mut self) -> Result<()> {
        self.slowed(|inner| inner.sync())
    }
}

impl Drop for SlowedSession<'_> {
    fn drop(&mut self) {
        OPS_NS.fetch_add(self.ops_ns, Ordering::Relaxed);
        ADDED_NS.fetch_add(self.added_ns, Ordering::Relaxed);
    }
}
