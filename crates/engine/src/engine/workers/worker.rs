//! The measuring loop: the only place where ops are done and timed, for every store, phase, pace and number of workers.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::ops::{PlannedOp, State};
use super::clock::Clock;
use super::consumer::Consumer;
use super::log::{LogOps, kind_name};
use super::pace::Schedule;
use super::tally::{Tally, Times};
use super::uploads::StepTimer;
use crate::corpus::Contents;
use crate::host::place::fresh_seed;
use crate::judge::SHORT_SECONDS;
use crate::judge::histogram::{BANDS, band_of};
use crate::plan::{OpKind, SyncRule};
use crate::store::{Error, Key, Keys, Result, Session, Store, UploadCatalog};

/// What all workers of a phase share.
pub struct WorkerContext<'a, C: Clock> {
    /// The clock.
    pub clock: &'a C,
    /// The store.
    pub store: &'a dyn Store,
    /// Keys by id of the blob.
    pub keys: &'a Keys,
    /// Contents of the blobs.
    pub contents: &'a Contents,
    /// The catalog of uploads; `None` without uploads.
    pub uploads: Option<WorkerUploads<'a>>,
    /// Blobs per op.
    pub batch: usize,
    /// True if every op opens a new connection.
    pub connect: bool,
    /// True if all reads of a worker are one transaction.
    pub one_transaction: bool,
    /// True if the store may have thrown a blob away, so that reading it is a miss.
    pub evicts: bool,
    /// When a worker syncs; `None` in classes other than on-sync.
    pub sync: Option<SyncRule>,
    /// Directory of the store's files, which is examined if an op fails for lack of space.
    pub dir: &'a Path,
    /// Set from outside to end the phase early.
    pub stop: &'a AtomicBool,
}

/// The catalog of uploads, and how it is used.
#[derive(Clone, Copy)]
pub struct WorkerUploads<'a> {
    /// The store of the catalog, if it is not that of the blobs.
    pub apart: Option<&'a dyn Store>,
    /// True if the entry and the blob are written in one transaction.
    pub one_transaction: bool,
    /// Content keys, by the id of the blob.
    pub keys: &'a [Key],
}

/// The sessions of one worker.
pub struct WorkerSessions<'s> {
    /// Session of the store.
    pub session: Box<dyn Session + 's>,
    /// Session of the catalog's store, if that is a separate one.
    pub apart: Option<Box<dyn Session + 's>>,
}

impl<'s> WorkerSessions<'s> {
    /// Opens both sessions.
    pub fn open(store: &'s dyn Store, uploads: Option<WorkerUploads<'s>>) -> Result<WorkerSessions<'s>> {
        let apart = uploads.and_then(|uploads| uploads.apart);
        Ok(WorkerSessions { session: store.session()?, apart: apart.map(Store::session).transpose()? })
    }

    /// Opens the sessions that a phase needs: both, or a read-only one whose reads are a single transaction from now on.
    pub(super) fn open_for(
        store: &'s dyn Store,
        uploads: Option<WorkerUploads<'s>>,
        one_transaction: bool,
    ) -> Result<WorkerSessions<'s>> {
        match one_transaction {
            true => Ok(WorkerSessions { session: store.reader()?, apart: None }),
            false => WorkerSessions::open(store, uploads),
        }
    }

    /// Syncs the blobs first, then the catalog entries that refer to them.
    fn sync(&mut self) -> Result<()> {
        self.session.sync()?;
        self.apart.as_mut().map_or(Ok(()), |apart| apart.sync())
    }
}

/// Where the ops of a worker come from.
pub enum OpSource<'a> {
    /// A list of its own, repeated until `nanoseconds` have passed.
    Own {
        /// The list.
        list: &'a [PlannedOp],
        /// Number of parts that the list is divided into, usually passes over the blobs. The worker may end after any of them
        /// once `enough_ns` have passed, so that slow ops need not go through the whole list.
        passes: usize,
        /// Minimum duration; 0 to do the list once.
        nanoseconds: u64,
        /// See `passes`; [`ENOUGH_NS`] by default.
        enough_ns: u64,
    },
    /// A list that all workers share, with each op at its planned instant.
    Planned {
        /// The list; it is repeated if the schedule is longer.
        list: &'a [PlannedOp],
        /// The planned instants.
        schedule: &'a Mutex<Schedule>,
    },
    /// The requests of a log.
    Log {
        /// The requests, for all workers.
        ops: &'a LogOps,
        /// Index of the worker and number of workers.
        worker: (usize, usize),
    },
}

/// Duration that is enough for an average, however few ops there were, in nanoseconds.
pub const ENOUGH_NS: u64 = (SHORT_SECONDS * 1e9) as u64;
/// Maximum number of attempts at an op while the store is busy.
const ATTEMPTS_MAX: u32 = 100;
/// First pause between attempts; pauses double up to 51 ms.
const FIRST_PAUSE_NS: u64 = 50_000;
const DOUBLED_MAX: u32 = 10;
/// Number of failures after which a worker gives up: the phase has failed, and more ops would only take time.
const ERRORS_MAX: u64 = 100;
/// Time in ops that timed out after which a worker gives up, in nanoseconds: the server is stuck, as on a full disk.
const TIMED_OUT_NS_MAX: u64 = 90_000_000_000;

struct NextOps<'a> {
    ops: &'a [PlannedOp],
    /// Time at which it should start; `None` for at once.
    due: Option<u64>,
}

/// Number of ops by which keys are prefetched. A program has the key it asks for at hand; a harness that waits for memory to
/// deliver its keys would add that time to every store.
const AHEAD: usize = 8;

/// Asks the processor to fetch a key's digest into its caches. It is aligned, so that it lies in one cache line.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "prefetching is an intrinsic")]
fn prefetch(address: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads and changes nothing, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>()) };
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_address: *const u8) {}

struct Cursor<'a> {
    source: &'a OpSource<'a>,
    keys: &'a Keys,
    batch: usize,
    at: usize,
    pass_end: usize,
    begin: u64,
    /// An op that is in no list.
    made: [PlannedOp; 1],
}

/// Returns the end of the pass that begins at `begin` in the list.
fn pass_end(list: &[PlannedOp], passes: usize, begin: usize) -> usize {
    (begin + list.len().div_ceil(passes)).min(list.len())
}

impl<'a> Cursor<'a> {
    fn new(source: &'a OpSource<'a>, keys: &'a Keys, batch: usize, begin: u64) -> Cursor<'a> {
        let pass_end = match source {
            OpSource::Own { list, passes, .. } => pass_end(list, *passes, 0),
            OpSource::Planned { .. } | OpSource::Log { .. } => 0,
        };
        let made = [PlannedOp { blob: 0, kind: OpKind::Get, len: 0, generation: 0, offset: 0 }];
        Cursor { source, keys, batch, at: 0, pass_end, begin, made }
    }

    #[inline]
    fn next(&mut self, now: u64, tally: &mut Tally) -> Option<NextOps<'_>> {
        match self.source {
            OpSource::Own { list, passes, nanoseconds, enough_ns } => {
                if self.at >= self.pass_end {
                    tally.passes += 1;
                    let is_done = self.at == list.len();
                    let enough = if is_done { *nanoseconds } else { (*enough_ns).max(*nanoseconds) };
                    if list.is_empty() || now - self.begin >= enough {
                        return None;
                    }
                    if is_done {
                        (self.at, self.pass_end) = (0, 0);
                    }
                    self.pass_end = pass_end(list, *passes, self.pass_end);
                }
                let end = (self.at + self.batch).min(list.len());
                let ops = &list[self.at..end];
                self.at = end;
                if let Some(soon) = list.get(end + AHEAD) {
                    prefetch(self.keys.address(soon.blob as usize));
                }
                Some(NextOps { ops, due: None })
            }
            OpSource::Planned { list, schedule } => {
                let mut shared = schedule.lock().unwrap_or_else(PoisonError::into_inner);
                let (place, due) = shared.next_op()?;
                drop(shared);
                let batches = list.len().div_ceil(self.batch).max(1);
                let from = (place % batches) * self.batch;
                Some(NextOps {
                    ops: &list[from..(from + self.batch).min(list.len())],
                    due: Some(self.begin + due),
                })
            }
            OpSource::Log { ops, worker } => {
                let place = ops.take(&mut self.at, *worker)?;
                self.made = [ops.op(place)];
                Some(NextOps { ops: &self.made, due: ops.due(place).map(|due| self.begin + due) })
            }
        }
    }
}

/// Does a phase's ops with open sessions and returns their tally. `begin` is the moment at which the first op may start; in an
/// open loop, it is the same for all workers.
pub fn work<'s, C: Clock>(
    shared: &WorkerContext<'s, C>,
    source: &OpSource<'_>,
    sessions: &mut WorkerSessions<'s>,
    mut tally: Tally,
    mut consumer: Consumer,
    begin: u64,
) -> Result<Tally> {
    let cpu_before = crate::host::machine::thread_cpu_ns();
    let mut writer = Writer::new(shared);
    let mut cursor = Cursor::new(source, shared.keys, shared.batch, begin);
    let staged = shared.store.is_staged();
    // True if the times of each kind of op are recorded by themselves.
    let by_kind = matches!(source, OpSource::Log { ops, .. } if ops.is_mixed());
    let mut now = begin;
    let mut timed_out_ns = 0;
    (tally.begin, tally.end) = (begin, begin);
    while let Some(next) = cursor.next(now, &mut tally) {
        if shared.stop.load(Ordering::Relaxed) || tally.counters.errors >= ERRORS_MAX {
            break;
        }
        let due = next.due.unwrap_or(now);
        if next.due.is_some() && !wait_until(shared, due, now, &mut tally) {
            break;
        }
        let prepared = writer.prepare(next.ops);
        let ready = if staged { prepare(shared, sessions, &mut tally) } else { Ok(()) };
        let misses = tally.counters.cache_misses;
        let start = shared.clock.now();
        if next.due.is_some() && now <= due {
            tally.woke(start.saturating_sub(due));
        }
        let connected = ready.and_then(|()| connect(shared, sessions, start, &mut tally));
        let mut outcome =
            connected.and_then(|()| perform(shared, sessions, next.ops, prepared, &mut consumer, &mut tally));
        now = shared.clock.now();
        tally.ops += 1;
        tally.blobs += next.ops.len() as u64;
        let end = now;
        if staged && let Ok(bytes) = outcome {
            outcome = sessions.session.report_op(&mut |told| tally.report_op(told)).map(|()| bytes);
            now = shared.clock.now();
            tally.aside_ns += now - end;
        }
        match outcome {
            Ok(bytes) => {
                tally.bytes += bytes;
                if by_kind {
                    tally.step(kind_name(next.ops[0].kind), end - start);
                }
                record(shared, next.ops, bytes, misses, Times { due, start, end }, &mut tally);
                if writer.must_sync(next.ops, bytes) {
                    now = writer.sync(sessions, now, &mut tally);
                }
            }
            Err(error) => {
                tally.counters.failed_ops += 1;
                tally.fail(|| describe(&error, &next.ops[0], shared));
                if matches!(error, Error::TimedOut) {
                    timed_out_ns += end - start;
                }
                if timed_out_ns >= TIMED_OUT_NS_MAX {
                    break;
                }
                let Some(later) = failed(shared, sessions, &error, now, &mut tally)? else { break };
                now = later;
            }
        }
    }
    if writer.wrote && shared.sync.is_some() {
        now = writer.sync(sessions, now, &mut tally);
    }
    tally.end = now;
    tally.happened(sessions.session.take_incidents());
    tally.cpu_ns = crate::host::machine::thread_cpu_ns().saturating_sub(cpu_before);
    Ok(tally)
}

/// Waits until an op of an open loop is due, or counts that its worker was busy at that time. Returns false if the run is ended
/// before: a log may have hours without a request.
#[inline]
fn wait_until<C: Clock>(shared: &WorkerContext<'_, C>, due: u64, now: u64, tally: &mut Tally) -> bool {
    /// Longest sleep without a look at whether the run is ended, in nanoseconds.
    const LOOK_EVERY_NS: u64 = 250_000_000;
    let mut looked = now;
    while due.saturating_sub(looked) > LOOK_EVERY_NS {
        looked += LOOK_EVERY_NS;
        shared.clock.sleep_until(looked);
        if shared.stop.load(Ordering::Relaxed) {
            return false;
        }
    }
    tally.last_due = due;
    if now > due {
        tally.busy_when_due += 1;
    } else {
        shared.clock.sleep_until(due);
    }
    true
}

/// Handles a failed op. After a timeout, opens a new session, because the old one might take a late answer for that of the next
/// op. Returns the time at which the worker continues; `None` if the server is unavailable and more ops would only take long.
#[cold]
fn failed<'s, C: Clock>(
    shared: &WorkerContext<'s, C>,
    sessions: &mut WorkerSessions<'s>,
    error: &Error,
    now: u64,
    tally: &mut Tally,
) -> Result<Option<u64>> {
    if !matches!(error, Error::TimedOut) {
        return Ok((!matches!(error, Error::Unavailable(_))).then_some(now));
    }
    tally.counters.timeouts += 1;
    tally.happened(sessions.session.take_incidents());
    *sessions = WorkerSessions::open_for(shared.store, shared.uploads, shared.one_transaction)?;
    Ok(Some(shared.clock.now()))
}

/// Mean bytes per blob of an op, without a division for a single blob.
#[inline]
fn mean(bytes: u64, blobs: usize) -> u64 {
    if blobs == 1 { bytes } else { bytes / blobs as u64 }
}

/// Prepares what the next op needs fresh, and excludes the time from the phase.
fn prepare<C: Clock>(
    shared: &WorkerContext<'_, C>,
    sessions: &mut WorkerSessions<'_>,
    tally: &mut Tally,
) -> Result<()> {
    let begin = shared.clock.now();
    let outcome = sessions.session.prepare();
    tally.aside_ns += shared.clock.now() - begin;
    outcome
}

/// Opens a new connection as the first step of an op, if it needs one, and retries while the server is busy.
#[inline]
fn connect<C: Clock>(
    shared: &WorkerContext<'_, C>,
    sessions: &mut WorkerSessions<'_>,
    start: u64,
    tally: &mut Tally,
) -> Result<()> {
    if !shared.connect {
        return Ok(());
    }
    let mut attempt = 1;
    while let Err(error) = sessions.session.connect() {
        again(shared.clock, error, &mut attempt, tally)?;
    }
    tally.step("connect", shared.clock.now() - start);
    Ok(())
}

/// The blobs that an op writes, prepared before its clock starts.
enum PreparedBlobs<'a> {
    Nothing,
    One(&'a [u8]),
    Batch(Vec<(Key, &'a [u8])>),
}

/// What an op needs, prepared before its clock starts.
struct PreparedOp<'a> {
    keys: &'a [Key],
    blobs: PreparedBlobs<'a>,
}

/// Prepares keys and contents, and tracks when a sync is due.
struct Writer<'a, 's, C: Clock> {
    shared: &'a WorkerContext<'s, C>,
    unsynced_ops: u64,
    unsynced_bytes: u64,
    wrote: bool,
    /// Key of the current op, and keys of one on several blobs.
    key: [Key; 1],
    keys: Vec<Key>,
    /// Buffers for contents that the pool does not have ready, one for each blob of a batch.
    room: Vec<Vec<u8>>,
}

impl<'a, 's, C: Clock> Writer<'a, 's, C> {
    fn new(shared: &'a WorkerContext<'s, C>) -> Writer<'a, 's, C> {
        let (key, keys, room) = ([Key { id: 0, hex: [0; 32] }], Vec::new(), Vec::new());
        Writer { shared, unsynced_ops: 0, unsynced_bytes: 0, wrote: false, key, keys, room }
    }

    /// Formats the keys, and finds or generates the contents to write, off the op's clock.
    #[inline]
    fn prepare(&mut self, ops: &[PlannedOp]) -> PreparedOp<'_> {
        let shared = self.shared;
        let keys = if let [op] = ops {
            self.key = [shared.keys.at(op.blob as usize)];
            self.key.as_slice()
        } else {
            self.keys.clear();
            self.keys.extend(ops.iter().map(|op| shared.keys.at(op.blob as usize)));
            self.keys.as_slice()
        };
        if ops[0].kind.reads() || matches!(ops[0].kind, OpKind::Delete | OpKind::Release) {
            return PreparedOp { keys, blobs: PreparedBlobs::Nothing };
        }
        self.room.resize(self.room.len().max(ops.len()), Vec::new());
        let mut blobs = ops.iter().zip(keys).zip(&mut self.room).map(|((op, key), room)| {
            let blob = shared.contents.blob(u64::from(op.blob), op.generation, u64::from(op.len), room);
            (*key, blob)
        });
        let blobs = match (ops.len(), blobs.next()) {
            (1, Some((_, blob))) => PreparedBlobs::One(blob),
            (_, Some(first)) => PreparedBlobs::Batch(std::iter::once(first).chain(blobs).collect()),
            (_, None) => PreparedBlobs::Nothing,
        };
        PreparedOp { keys, blobs }
    }

    #[inline]
    fn must_sync(&mut self, ops: &[PlannedOp], bytes: u64) -> bool {
        let Some(rule) = self.shared.sync else { return false };
        if ops[0].kind.reads() {
            return false;
        }
        self.wrote = true;
        self.unsynced_ops += 1;
        self.unsynced_bytes += bytes;
        self.unsynced_ops >= rule.ops || self.unsynced_bytes >= rule.bytes
    }

    /// Syncs on the phase's clock, but outside of any op's time. Returns the time after it.
    fn sync(&mut self, sessions: &mut WorkerSessions<'_>, before: u64, tally: &mut Tally) -> u64 {
        if self.unsynced_ops == 0 {
            return before;
        }
        let outcome = sessions.sync();
        let now = self.shared.clock.now();
        tally.syncs += 1;
        tally.sync_ns += now - before;
        if let Err(error) = outcome {
            tally.counters.unsynced_ops += self.unsynced_ops;
            tally.fail(|| format!("sync failed: {}", error.describe_below(self.shared.dir)));
        }
        (self.unsynced_ops, self.unsynced_bytes) = (0, 0);
        now
    }
}

/// Does one op, with retries while the store is busy, and returns the bytes of its blobs.
#[inline]
fn perform<C: Clock>(
    shared: &WorkerContext<'_, C>,
    sessions: &mut WorkerSessions<'_>,
    ops: &[PlannedOp],
    prepared: PreparedOp<'_>,
    consumer: &mut Consumer,
    tally: &mut Tally,
) -> Result<u64> {
    let PreparedOp { keys, blobs } = prepared;
    let mut attempt = 1;
    loop {
        let session = sessions.session.as_mut();
        let outcome = match (&blobs, ops) {
            (PreparedBlobs::One(content), [op]) if op.kind == OpKind::Register => {
                register(shared, sessions, op, content, tally)
            }
            (PreparedBlobs::One(blob), [op]) => session.put(&keys[0], blob).map(|()| u64::from(op.len)),
            (PreparedBlobs::Batch(blobs), _) => {
                session.put_batch(blobs).map(|()| ops.iter().map(|op| u64::from(op.len)).sum())
            }
            (_, [op]) if op.kind == OpKind::Delete => session.delete(&keys[0]).map(|()| u64::from(op.len)),
            (_, [op]) if op.kind == OpKind::Release => release(shared, sessions, op, tally),
            (_, [op]) => get(session, &keys[0], op, consumer)
                .and_then(|found| hit_or_miss(found, shared.evicts, tally)),
            _ if ops[0].kind == OpKind::Delete => {
                session.delete_batch(keys).map(|()| ops.iter().map(|op| u64::from(op.len)).sum())
            }
            _ => get_many(shared, session, keys, ops, consumer, tally),
        };
        match outcome {
            Err(error) => again(shared.clock, error, &mut attempt, tally)?,
            done => return done,
        }
    }
}

/// Counts a retry after the store was busy, and waits: only yields the first time, because most locks are free again at once, and
/// then pauses longer each time. Returns any other error, or the last one after too many attempts.
#[cold]
fn again(clock: &impl Clock, error: Error, attempt: &mut u32, tally: &mut Tally) -> Result<()> {
    if !matches!(error, Error::Busy) || *attempt == ATTEMPTS_MAX {
        return Err(error);
    }
    match *attempt {
        1 => std::thread::yield_now(),
        attempt => {
            let half = (FIRST_PAUSE_NS << attempt.min(DOUBLED_MAX)) / 2;
            // Random pauses, so that workers that collided do not collide again.
            clock.sleep_until(clock.now() + half + fresh_seed() % half);
        }
    }
    *attempt += 1;
    tally.counters.retries += 1;
    Ok(())
}

fn catalog<'d, 's>(uploads: &WorkerUploads, sessions: &'d mut WorkerSessions<'s>) -> UploadCatalog<'d, 's> {
    UploadCatalog {
        session: sessions.session.as_mut(),
        apart: sessions.apart.as_deref_mut(),
        one_transaction: uploads.one_transaction,
    }
}

const NO_CATALOGUE: Error = Error::Unsupported("an upload without a catalogue");

fn register<C: Clock>(
    shared: &WorkerContext<'_, C>,
    sessions: &mut WorkerSessions<'_>,
    op: &PlannedOp,
    content: &[u8],
    tally: &mut Tally,
) -> Result<u64> {
    let uploads = shared.uploads.as_ref().ok_or(NO_CATALOGUE)?;
    let mut steps = StepTimer::begin(shared.clock, tally);
    catalog(uploads, sessions).upload(u64::from(op.blob), content, |step| steps.done(step))?;
    Ok(u64::from(op.len))
}

fn release<C: Clock>(
    shared: &WorkerContext<'_, C>,
    sessions: &mut WorkerSessions<'_>,
    op: &PlannedOp,
    tally: &mut Tally,
) -> Result<u64> {
    let uploads = shared.uploads.as_ref().ok_or(NO_CATALOGUE)?;
    let mut steps = StepTimer::begin(shared.clock, tally);
    catalog(uploads, sessions).withdraw(&uploads.keys[op.blob as usize], |step| steps.done(step))?;
    Ok(u64::from(op.len))
}

/// Gets one blob or a part of one, and checks the number of bytes; `None` if there is no such blob.
#[inline]
fn get(session: &mut dyn Session, key: &Key, op: &PlannedOp, consumer: &mut Consumer) -> Result<Option<u64>> {
    let mut bytes = 0;
    let found = session.get(key, op.span(), &mut |piece| {
        bytes += piece.len() as u64;
        consumer.take(piece);
    })?;
    if !found {
        return Ok(None);
    }
    if bytes != u64::from(op.len) {
        return Err(Error::Failed(anyhow::anyhow!("{bytes} B instead of {}", op.len)));
    }
    Ok(Some(bytes))
}

/// Returns the bytes of a get. A missing blob is an error, or a counted miss of no bytes if the store `evicts`.
#[inline]
fn hit_or_miss(found: Option<u64>, evicts: bool, tally: &mut Tally) -> Result<u64> {
    match found {
        Some(bytes) => Ok(bytes),
        None if evicts => {
            tally.counters.cache_misses += 1;
            Ok(0)
        }
        None => Err(Error::Failed(anyhow::anyhow!("no such blob, though it was put"))),
    }
}

/// Records the times of a successful op by the mean size of its blobs. Reads of a store that evicts are also timed apart, as hits and
/// misses: an op before which there were `misses` is a miss if there are more now, and has the size of the blob that is gone.
#[inline]
fn record<C: Clock>(
    shared: &WorkerContext<'_, C>,
    ops: &[PlannedOp],
    bytes: u64,
    misses: u64,
    times: Times,
    tally: &mut Tally,
) {
    let mut size = mean(bytes, ops.len());
    if shared.evicts && ops[0].kind.reads() {
        let is_miss = tally.counters.cache_misses > misses;
        tally.step(if is_miss { "miss" } else { "hit" }, times.end - times.start);
        size = if is_miss { u64::from(ops[0].len) } else { size };
    }
    tally.record(band_of(size), times);
}

/// Gets several blobs. If the store evicts, an op is a miss unless it finds all of them.
fn get_many<C: Clock>(
    shared: &WorkerContext<'_, C>,
    session: &mut dyn Session,
    keys: &[Key],
    ops: &[PlannedOp],
    consumer: &mut Consumer,
    tally: &mut Tally,
) -> Result<u64> {
    if ops[0].kind == OpKind::Range {
        return Err(Error::Unsupported("a batch of range reads"));
    }
    let mut bytes = vec![0_u64; ops.len()];
    let found = session.get_many(keys, &mut |index, piece| {
        bytes[index] += piece.len() as u64;
        consumer.take(piece);
    })?;
    let is_whole = found == ops.len();
    if !is_whole && !shared.evicts {
        return Err(Error::Failed(anyhow::anyhow!("{found} of {} blobs found", ops.len())));
    }
    tally.counters.cache_misses += u64::from(!is_whole);
    // One that is gone has no bytes.
    let is_wrong = |bytes: u64, op: &PlannedOp| bytes != u64::from(op.len) && (is_whole || bytes > 0);
    if let Some((bytes, op)) = bytes.iter().zip(ops).find(|(bytes, op)| is_wrong(**bytes, op)) {
        return Err(Error::Failed(anyhow::anyhow!("{bytes} B instead of {}", op.len)));
    }
    Ok(bytes.iter().sum())
}

fn describe<C: Clock>(error: &Error, op: &PlannedOp, shared: &WorkerContext<'_, C>) -> String {
    let kind = format!("{:?}", op.kind).to_lowercase();
    format!("{kind} of {}: {}", shared.keys.at(op.blob as usize).as_str(), error.describe_below(shared.dir))
}

/// Returns the size bands that ops of these lists fall into, with `batch` blobs per op. An op on several blobs counts by their
/// mean size, which may be in a band that no single blob is in.
pub fn bands(lists: &[Vec<PlannedOp>], batch: usize) -> [bool; BANDS.len()] {
    let mut bands = [false; BANDS.len()];
    for op in lists.iter().flatten() {
        bands[band_of(u64::from(op.len))] = true;
    }
    if batch > 1
        && let (Some(low), Some(high)) = (bands.iter().position(|is| *is), bands.iter().rposition(|is| *is))
    {
        bands[low..=high].fill(true);
    }
    bands
}

/// Does some work on the whole store as one timed op. A failure is returned, and not recorded.
pub fn whole<C: Clock, T>(clock: &C, tally: &mut Tally, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = clock.now();
    let done = work()?;
    let end = clock.now();
    tally.first_apart = false;
    if tally.ops == 0 {
        tally.begin = start;
    }
    tally.ops += 1;
    tally.end = end;
    tally.record(0, Times { due: start, start, end });
    Ok(done)
}

/// Opens a store and reads one blob, as one timed op. Returns the open store.
pub fn reopen<C: Clock>(
    clock: &C,
    open: &dyn Fn() -> Result<Box<dyn Store>>,
    key: &Key,
    op: &PlannedOp,
    tally: &mut Tally,
) -> Result<Box<dyn Store>> {
    let start = clock.now();
    let store = open()?;
    let found = get(store.session()?.as_mut(), key, op, &mut Consumer::Touch)?;
    let end = clock.now();
    let bytes = hit_or_miss(found, false, tally)?;
    tally.ops += 1;
    tally.blobs += 1;
    tally.bytes += bytes;
    tally.record(band_of(bytes), Times { due: start, start, end });
    Ok(store)
}

/// Verifies uploads and their catalog, while no clock is running.
pub fn verify_uploads(
    store: &dyn Store,
    uploads: WorkerUploads<'_>,
    contents: &Contents,
    state: &State,
) -> anyhow::Result<()> {
    let mut sessions = WorkerSessions::open(store, Some(uploads))?;
    super::uploads::verify(&mut catalog(&uploads, &mut sessions), uploads.keys, contents, state)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::engine::null_loop::NullLoop;

    /// A clock that passes when somebody sleeps, during whose second sleep the run is ended.
    struct EndsTheRun {
        now: AtomicU64,
        sleeps: AtomicU64,
        stop: AtomicBool,
    }

    impl Clock for EndsTheRun {
        fn now(&self) -> u64 {
            self.now.load(Ordering::Relaxed)
        }

        fn sleep_until(&self, moment: u64) {
            self.now.fetch_max(moment, Ordering::Relaxed);
            self.stop.store(self.sleeps.fetch_add(1, Ordering::Relaxed) > 0, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_for_hours_ends_when_the_run_is_ended() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let null_loop = NullLoop::with_sizes(1, |_id| 1).unwrap();
        let clock = EndsTheRun { now: 0.into(), sleeps: 0.into(), stop: false.into() };
        let shared = null_loop.context(&clock, &clock.stop);
        let mut tally = Tally::new([true; BANDS.len()], true);
        assert!(wait_until(&shared, 1_000, 0, &mut tally) && clock.now() == 1_000);
        assert!(!wait_until(&shared, HOUR_NS, 1_000, &mut tally));
        assert!(clock.now() < HOUR_NS / 1_000, "{} ns", clock.now());
        assert_eq!((tally.last_due, tally.busy_when_due), (1_000, 0));
        assert!(wait_until(&shared, HOUR_NS, HOUR_NS + 1, &mut tally));
        assert_eq!((tally.last_due, tally.busy_when_due), (HOUR_NS, 1));
    }

    #[test]
    fn the_mean_of_several_blobs_falls_into_a_band_that_is_counted() {
        let op = |len| PlannedOp { blob: 0, kind: OpKind::Get, len, generation: 0, offset: 0 };
        let lists = [vec![op(900), op(200_000)]];
        assert_eq!(bands(&lists, 1), [true, false, false, true, false, false]);
        assert_eq!(bands(&lists, 16), [true, true, true, true, false, false]);
        assert_eq!(bands(&[vec![]], 16), [false; BANDS.len()]);
    }
}
