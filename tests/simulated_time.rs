//! The real loop on simulated time: one stall of a second, and percentiles that can be worked out by hand.
//!
//! An op takes 100 us of service; one of 10,000 takes a second. In an open loop an op is due every millisecond. The stall
//! begins when it is due; the k-th op behind it is due k ms later, begins when the k - 1 ops before it are done, and ends
//! 1 s + k x 0.1 ms after the stall began: its response takes 1 s - k x 0.9 ms, until k = 1,111, which is served at once.
//! So 1,111 ops have a response above 100 us, the stalled one and 1,110 behind it. A closed loop begins an op when the one
//! before it is done, and sees one slow op in 10,000.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use blobwise::corpus::{Corpus, Sizes};
use blobwise::engine::ops::PlannedOp;
use blobwise::engine::workers::clock::Clock;
use blobwise::engine::workers::consumer::Consumer;
use blobwise::engine::workers::log::LogOps;
use blobwise::engine::workers::pace::Schedule;
use blobwise::engine::workers::tally::Tally;
use blobwise::engine::workers::worker::{ENOUGH_NS, OpSource, WorkerContext, WorkerSessions, bands, work};
use blobwise::judge::histogram::Histogram;
use blobwise::plan::{Arrivals, OpKind};
use blobwise::store::{Facts, Key, Result, Session, Sink, Span, Store};
use blobwise::trace::{LogFile, Replay, Selection};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

const OPS: u64 = 10_000;
const SERVICE: u64 = 100 * US;
const GAP: u64 = MS;
/// The op that stalls, counted from 0.
const STALLED: u64 = 5_000;
const BLOB_BYTES: u64 = 1_000;

/// Time that passes only when a store works or a worker sleeps.
#[derive(Default)]
struct SimulatedClock(AtomicU64);

impl Clock for SimulatedClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep_until(&self, moment: u64) {
        self.0.fetch_max(moment, Ordering::SeqCst);
    }
}

/// Serves every get in [`SERVICE`], one in a second.
struct Stalling<'c> {
    clock: &'c SimulatedClock,
    served: AtomicU64,
}

impl Store for Stalling<'_> {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(StallingSession(self)))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::new())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct StallingSession<'s>(&'s Stalling<'s>);

impl Session for StallingSession<'_> {
    fn get(&mut self, _: &Key, _: Span, sink: Sink) -> Result<bool> {
        let number = self.0.served.fetch_add(1, Ordering::SeqCst);
        let time = if number == STALLED { S } else { SERVICE };
        self.0.clock.0.fetch_add(time, Ordering::SeqCst);
        sink(&[0; BLOB_BYTES as usize]);
        Ok(true)
    }

    fn put(&mut self, _: &Key, _: &[u8]) -> Result<()> {
        unreachable!("only reads are asked for")
    }

    fn delete(&mut self, _: &Key) -> Result<()> {
        unreachable!("only reads are asked for")
    }

    fn sync(&mut self) -> Result<()> {
        unreachable!("only reads are asked for")
    }
}

/// What begins an op.
#[derive(Clone, Copy, PartialEq)]
enum Pace {
    /// The end of the one before, in a list with so many passes.
    Closed(usize),
    /// A rate.
    Open,
    /// A log with a request every millisecond, at this speed.
    Log(f64),
}

/// A log of as many requests as there are ops, one every millisecond.
fn log() -> anyhow::Result<Arc<Replay>> {
    let line = |n: u64| format!("{}.{:03},key,{BLOB_BYTES}\n", n / 1000, n % 1000);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let path = dir.path().join("log");
    std::fs::write(&path, "time,key,bytes\n".to_owned() + &(0..OPS).map(line).collect::<String>())?;
    let (share, objects_max, bytes_max, object_bytes_max, salt) = (Some(1.0), None, None, BLOB_BYTES, 1);
    let all = Selection { share, objects_max, bytes_max, object_bytes_max, salt };
    Ok(Arc::new(Replay::read(&LogFile::at(path), &all, None, &mut |_| {})?))
}

fn run(pace: Pace) -> anyhow::Result<Tally> {
    let clock = SimulatedClock::default();
    let store = Stalling { clock: &clock, served: AtomicU64::new(0) };
    let corpus = Corpus::random("fixed", Sizes::Fixed(BLOB_BYTES), 1, 1)?;
    let op = PlannedOp { blob: 0, kind: OpKind::Get, len: BLOB_BYTES as u32, generation: 0, offset: 0 };
    let list = vec![op; OPS as usize];
    let stop = AtomicBool::new(false);
    let shared = WorkerContext {
        evicts: false,
        clock: &clock,
        store: &store,
        keys: &corpus.keys,
        contents: &corpus.contents,
        uploads: None,
        batch: 1,
        connect: false,
        one_transaction: false,
        sync: None,
        dir: Path::new(""),
        stop: &stop,
    };
    let is_open = !matches!(pace, Pace::Closed(_));
    let mut tally = Tally::new(bands(std::slice::from_ref(&list), 1), is_open);
    tally.first_apart = false;
    let mut hands = WorkerSessions::open(&store, None)?;
    let rate = S as f64 / GAP as f64;
    let schedule = Mutex::new(Schedule::new(Arrivals::Constant, rate, 1e6, OPS, 1));
    let speed = if let Pace::Log(speed) = pace { Some(speed) } else { None };
    let of_log = LogOps::new(&log()?, usize::MAX, vec![0], speed, 1);
    let source = match pace {
        Pace::Open => OpSource::Planned { list: &list, schedule: &schedule },
        Pace::Closed(passes) => OpSource::Own { list: &list, passes, nanoseconds: 0, enough_ns: ENOUGH_NS },
        Pace::Log(_) => OpSource::Log { ops: &of_log, worker: (0, 1) },
    };
    let tally = work(&shared, &source, &mut hands, tally, Consumer::Touch, 0)?;
    assert_eq!(tally.counters.errors, 0, "{:?}", tally.counters.first_error);
    Ok(tally)
}

/// The time of the op of a rank, counted from 1 in order of times, to the three digits that a histogram keeps.
#[track_caller]
fn expect(times: &Histogram, rank: u64, ns: u64) {
    let found = times.value_at_quantile(rank as f64 / OPS as f64);
    let ratio = found as f64 / ns as f64;
    assert!((0.999..=1.001).contains(&ratio), "rank {rank}: {found} ns instead of {ns}");
}

/// The response of the k-th op behind the stall.
fn behind(k: u64) -> u64 {
    S + k * SERVICE - k * GAP
}

#[test]
fn an_open_loop_counts_everyone_who_waited() -> anyhow::Result<()> {
    let tally = run(Pace::Open)?;
    assert_eq!(tally.ops, OPS);
    let (service, response) = (tally.service(), tally.response());
    assert_eq!((service.len(), response.len()), (OPS, OPS));
    // Service: one slow op.
    for rank in [1, 5_000, 9_900, 9_990, 9_999] {
        expect(&service, rank, SERVICE);
    }
    expect(&service, OPS, S);
    // Response: the slowest is the stalled one, the next the first behind it, and so on.
    expect(&response, OPS, S);
    for k in [1, 10, 100, 1_000] {
        expect(&response, OPS - k, behind(k));
    }
    assert_eq!(behind(100), 910 * MS, "p99");
    assert_eq!(behind(1_000), 100 * MS, "p90");
    // The last one that waited, and the slowest that did not.
    expect(&response, OPS - 1_110, behind(1_110));
    expect(&response, OPS - 1_111, SERVICE);
    for rank in [1, 5_000, 8_800] {
        expect(&response, rank, SERVICE);
    }
    assert_eq!(tally.busy_when_due, 1_110);
    assert_eq!(tally.last_due, OPS * GAP);
    assert_eq!(tally.end, OPS * GAP + SERVICE, "caught up long before the end");
    Ok(())
}

/// At its own speed a log is that open loop, but for its first request, which is due at once.
#[test]
fn a_log_is_replayed_at_its_times() -> anyhow::Result<()> {
    let tally = run(Pace::Log(1.0))?;
    // Times of a log are whole microseconds, so that one more may wait, for one of them.
    assert_eq!(tally.ops, OPS);
    assert!((1_110..=1_111).contains(&tally.busy_when_due), "{}", tally.busy_when_due);
    let (service, response) = (tally.service(), tally.response());
    expect(&response, OPS, S);
    for k in [1, 10, 100, 1_000] {
        expect(&response, OPS - k, behind(k));
    }
    expect(&response, OPS - 1_112, SERVICE);
    expect(&service, OPS - 1, SERVICE);
    assert!(tally.last_due.abs_diff((OPS - 1) * GAP) <= US, "{}", tally.last_due);
    let faster = run(Pace::Log(5.0))?;
    assert_eq!(faster.ops, OPS);
    assert!(faster.last_due.abs_diff((OPS - 1) * GAP / 5) <= US, "{}", faster.last_due);
    // All 4,999 behind the stall wait: the store makes up for 0.1 ms with each, half a second of the second.
    assert_eq!(faster.busy_when_due, OPS - STALLED - 1);
    expect(&faster.response(), STALLED, SERVICE);
    expect(&faster.response(), STALLED + 1, S - (OPS - STALLED - 1) * (GAP / 5 - SERVICE));
    Ok(())
}

#[test]
fn a_closed_loop_sees_one_slow_op() -> anyhow::Result<()> {
    let tally = run(Pace::Closed(1))?;
    assert_eq!(tally.ops, OPS);
    for times in [tally.service(), tally.response()] {
        for rank in [1, 5_000, 9_000, 9_900, 9_990, 9_999] {
            expect(&times, rank, SERVICE);
        }
        expect(&times, OPS, S);
    }
    assert_eq!(tally.end, (OPS - 1) * SERVICE + S);
    Ok(())
}

/// Five passes of a thousand ops last 0.5 s; one pass of all is done to its end.
#[test]
fn slow_reads_end_with_a_pass() -> anyhow::Result<()> {
    let tally = run(Pace::Closed(10))?;
    assert_eq!((tally.ops, tally.passes, tally.end), (STALLED, 5, STALLED * SERVICE));
    let whole = run(Pace::Closed(1))?;
    assert_eq!((whole.ops, whole.passes), (OPS, 1));
    Ok(())
}
