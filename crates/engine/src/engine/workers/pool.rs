//! The workers of a phase: threads that open one session each, and that begin and end together.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};

use anyhow::{Result, anyhow};

use super::super::ops::PlannedOp;
use super::super::resources::Meter;
use super::clock::Clock;
use super::consumer::Consumer;
use super::log::LogOps;
use super::pace::{ProcessShare, Schedule};
use super::tally::Tally;
use super::worker::{ENOUGH_NS, OpSource, WorkerContext, WorkerSessions, WorkerUploads, bands, work};
use crate::corpus::{Contents, Corpus};
use crate::host::processors::ProcessorSplit;
use crate::host::server::Server;
use crate::plan::{Arrivals, ReadSink, SyncRule};
use crate::store::{Key, Keys, Span, Store};

/// Work for all workers between two barriers: a list of ops for each.
#[derive(Clone, Debug)]
pub struct Job {
    /// A list for each worker; a single shared one if `open` is set.
    pub lists: Vec<Vec<PlannedOp>>,
    /// Number of parts that a list is divided into, usually passes over the blobs. If ops are slow, a worker may end after any of
    /// them.
    pub passes: usize,
    /// Minimum duration: lists are repeated as a whole until then. 0 to do each once.
    pub nanoseconds: u64,
    /// Duration after which a worker may end between two passes, because it suffices for an average however few ops there were.
    pub enough_ns: u64,
    /// Pace of an open loop; `None` for a closed one.
    pub open: Option<Open>,
    /// What is done with the bytes read.
    pub use_bytes: ReadSink,
    /// Blobs per op.
    pub batch: usize,
    /// True if every op opens a new connection.
    pub connect: bool,
    /// When workers sync; `None` for never.
    pub sync: Option<SyncRule>,
    /// True if the first op of each session is recorded separately.
    pub first_apart: bool,
    /// Requests of a log to do instead of `lists`, one blob per op.
    pub log: Option<Arc<LogOps>>,
}

impl Job {
    /// Returns a copy of the job without its ops.
    pub fn clone_without_lists(&self) -> Job {
        Job {
            lists: Vec::new(),
            passes: self.passes,
            nanoseconds: self.nanoseconds,
            enough_ns: self.enough_ns,
            open: self.open,
            use_bytes: self.use_bytes,
            batch: self.batch,
            connect: self.connect,
            sync: self.sync,
            first_apart: self.first_apart,
            log: None,
        }
    }

    /// True if ops have planned instants.
    fn is_open(&self) -> bool {
        self.open.is_some() || self.log.as_ref().is_some_and(|log| log.is_open())
    }

    /// True if some of its ops write.
    pub fn writes(&self) -> bool {
        let by_log = self.log.as_ref().is_some_and(|log| log.writes());
        by_log || self.lists.iter().flatten().any(|op| !op.kind.reads())
    }

    /// Returns each op of its lists or its log once, of which an open loop may do some more often.
    pub fn ops(&self) -> impl Iterator<Item = PlannedOp> {
        self.lists.iter().flatten().copied().chain(self.log.iter().flat_map(|log| log.all()))
    }

    /// Returns a job that does each op once: one blob per op, touching each cache line of what is read, without syncs.
    pub fn once(lists: Vec<Vec<PlannedOp>>) -> Job {
        Job {
            lists,
            passes: 1,
            nanoseconds: 0,
            enough_ns: ENOUGH_NS,
            open: None,
            use_bytes: ReadSink::Touch,
            batch: 1,
            connect: false,
            sync: None,
            first_apart: true,
            log: None,
        }
    }
}

/// The pace of an open loop.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Distribution of arrivals.
    pub arrivals: Arrivals,
    /// Rate, in ops per second.
    pub ops_per_s: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Maximum number of ops.
    pub ops_max: u64,
    /// Seed for the arrivals.
    pub seed: u64,
    /// The part of the schedule that this process executes, if several share it.
    pub part: ProcessShare,
}

/// An agreement of several processes on the instant at which all their workers begin.
pub trait StartBarrier: Sync {
    /// Called when all workers of this process are ready. Returns the common instant by this process's clock. Fails if another
    /// process is not ready; none of them begins then.
    fn agree(&self) -> Result<u64>;
}

/// The workers of a phase and what they work with.
pub struct WorkerPool<'a, C: Clock> {
    /// The clock.
    pub clock: &'a C,
    /// The open store.
    pub store: &'a dyn Store,
    /// Keys by id of the blob.
    pub keys: &'a Keys,
    /// Contents of the blobs.
    pub contents: &'a Contents,
    /// Number of threads.
    pub workers: usize,
    /// A key that no blob has. Each session asks for it before the clock starts.
    pub missing_key: Option<Key>,
    /// The catalog of uploads, in phases that have some.
    pub uploads: Option<WorkerUploads<'a>>,
    /// True if all reads of a worker are one transaction, which begins before the clock starts.
    pub one_transaction: bool,
    /// Processors for workers, if they are pinned apart from servers.
    pub apart: Option<&'a ProcessorSplit>,
    /// Agrees with other processes on the start, if there are several.
    pub start_barrier: Option<&'a dyn StartBarrier>,
    /// Directory of the store's files; see [`Shared::dir`].
    pub dir: &'a Path,
    /// Set from outside to end the phase early.
    pub stop: &'a AtomicBool,
}

impl<'a, C: Clock> WorkerPool<'a, C> {
    /// Returns this many workers on the blobs of a corpus, without anything that only some phases have.
    pub fn new(
        clock: &'a C,
        store: &'a dyn Store,
        corpus: &'a Corpus,
        workers: usize,
        stop: &'a AtomicBool,
    ) -> WorkerPool<'a, C> {
        WorkerPool {
            clock,
            store,
            keys: &corpus.keys,
            contents: &corpus.contents,
            workers,
            missing_key: None,
            uploads: None,
            one_transaction: false,
            apart: None,
            start_barrier: None,
            dir: Path::new(""),
            stop,
        }
    }

    /// Runs the jobs one after the other, every worker with one session for all of them, and returns the tally of each job. Each
    /// job's meter runs while its workers do.
    pub fn run(&self, jobs: &[Job], meters: &mut [Meter]) -> Result<Vec<Tally>> {
        let schedules: Vec<Option<Mutex<Schedule>>> = jobs.iter().map(|job| job.open.map(schedule)).collect();
        let meeting = JobBarriers {
            barrier: Barrier::new(self.workers + 1),
            failed: AtomicBool::new(false),
            called_off: AtomicBool::new(false),
            begin: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            workers: self.workers as u64,
            main: std::thread::current(),
        };
        // A phase may end with less memory than it began with.
        let memory_before = self.store.memory_bytes()?;
        let counted: Mutex<Vec<(usize, Tally)>> = Mutex::default();
        let first_error: Mutex<Option<anyhow::Error>> = Mutex::default();
        // True if every worker has a thread. Otherwise none may enter the barrier, which waits for all of them.
        let complete: OnceLock<bool> = OnceLock::new();
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for worker in 0..self.workers {
                let (meeting, schedules, counted, first_error, complete) =
                    (&meeting, &schedules, &counted, &first_error, &complete);
                let work = move || {
                    let keep = |index, tally| lock(counted).push((index, tally));
                    if *complete.wait()
                        && let Err(error) = self.one(worker, jobs, schedules, meeting, &keep)
                    {
                        lock(first_error).get_or_insert(error);
                    }
                };
                match std::thread::Builder::new().spawn_scoped(scope, work) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        let error =
                            anyhow!("no thread for worker {} of {}: {error}", worker + 1, self.workers);
                        lock(first_error).get_or_insert(error);
                        break;
                    }
                }
            }
            let is_complete = *complete.get_or_init(|| threads.len() == self.workers);
            for meter in meters.iter_mut().filter(|_| is_complete) {
                meeting.barrier.wait();
                if meeting.failed.load(Ordering::SeqCst) {
                    break;
                }
                if let Err(error) = self.meter_a_job(&meeting, meter) {
                    lock(&first_error).get_or_insert(error);
                    break;
                }
            }
            // The scope waits for the closures, a join for the threads. LMDB's thread-local reader slots are freed when a thread
            // ends, which must be before the store is closed.
            for thread in threads {
                if thread.join().is_err() {
                    lock(&first_error).get_or_insert(anyhow!("a worker panicked"));
                }
            }
        });
        if let Some(error) = first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let memory = memory_before.max(self.store.memory_bytes()?);
        meters.iter_mut().for_each(|meter| meter.note_store_memory(memory));
        totals(jobs.len(), counted.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs the meter from the moment at which all workers are ready until the last one has finished. Fails before any worker
    /// begins if other processes are not ready.
    fn meter_a_job(&self, meeting: &JobBarriers, meter: &mut Meter) -> Result<()> {
        let mut servers = self.store.servers();
        servers.extend(self.uploads.iter().filter_map(|uploads| uploads.apart).flat_map(Store::servers));
        // The first look is before the clock starts; its duration limits how often looks may follow while the clock runs.
        let begin = crate::host::machine::uptime();
        meter.look_at_memory(&servers);
        let look = crate::host::machine::uptime() - begin;
        let agreed = self.start_barrier.map(StartBarrier::agree).transpose();
        if agreed.is_err() {
            meeting.called_off.store(true, Ordering::SeqCst);
            meeting.barrier.wait();
        }
        let agreed = agreed?;
        meter.start(&servers);
        if let Some(instant) = agreed {
            self.clock.sleep_until(instant);
        }
        meeting.begin.store(agreed.unwrap_or_else(|| self.clock.now()), Ordering::SeqCst);
        meeting.barrier.wait();
        meeting.wait_for_the_end(meter, &servers, look);
        meter.stop(&servers);
        meter.look_at_memory(&servers);
        Ok(())
    }

    /// The main function of a worker's thread. It enters every barrier even after a failure, because the others would wait
    /// forever.
    fn one(
        &self,
        worker: usize,
        jobs: &[Job],
        schedules: &[Option<Mutex<Schedule>>],
        meeting: &JobBarriers,
        keep: &dyn Fn(usize, Tally),
    ) -> Result<()> {
        crate::host::machine::wake_me_on_time();
        // Prepares all jobs before the first one. Otherwise the second job's preparation would happen while the first one's meter
        // runs.
        let mut opened = caught(|| {
            let ready = |(job, schedule)| self.ready(worker, job, schedule);
            let all: Result<Vec<Ready<'_, C>>> =
                jobs.iter().zip(schedules.iter().map(Option::as_ref)).map(ready).collect();
            Ok((self.sessions()?, all?.into_iter()))
        });
        if opened.is_err() {
            meeting.failed.store(true, Ordering::SeqCst);
        }
        let mut outcome = Ok(());
        for (index, job) in jobs.iter().enumerate() {
            meeting.barrier.wait();
            if meeting.failed.load(Ordering::SeqCst) {
                break;
            }
            meeting.barrier.wait();
            if meeting.called_off.load(Ordering::SeqCst) {
                break;
            }
            let begin = match job.is_open() {
                // Due times are relative to the same moment for all workers.
                true => meeting.begin.load(Ordering::SeqCst),
                // Excludes the wake-up, which is no part of an op but would dominate a pass of few ops.
                false => self.clock.now(),
            };
            if let (Ok((sessions, all)), Ok(())) = (&mut opened, &outcome)
                && let Some(Ready { shared, source, tally, consumer }) = all.next()
            {
                match caught(|| Ok(work(&shared, &source, sessions, tally, consumer, begin)?)) {
                    Ok(tally) => keep(index, tally),
                    Err(error) => outcome = Err(error),
                }
            }
            meeting.finished.fetch_add(1, Ordering::SeqCst);
            meeting.main.unpark();
            meeting.barrier.wait();
        }
        opened?;
        outcome
    }

    fn sessions(&self) -> Result<WorkerSessions<'_>> {
        if let Some(apart) = self.apart {
            apart.pin_worker()?;
        }
        let mut sessions = WorkerSessions::open_for(self.store, self.uploads, self.one_transaction)?;
        if let Some(missing_key) = &self.missing_key {
            sessions.session.get(missing_key, Span::Whole, &mut |_| {})?;
            // Incidents before the phase do not count in it.
            sessions.session.take_incidents();
        }
        Ok(sessions)
    }

    /// Prepares what a worker needs for a job besides its sessions. This happens before the clock starts, because the kernel has
    /// to clear the pages of histograms and buffers.
    fn ready<'j>(
        &'j self,
        worker: usize,
        job: &'j Job,
        schedule: Option<&'j Mutex<Schedule>>,
    ) -> Result<Ready<'j, C>> {
        let shared = WorkerContext {
            clock: self.clock,
            store: self.store,
            keys: self.keys,
            contents: self.contents,
            uploads: self.uploads,
            batch: job.batch,
            connect: job.connect,
            one_transaction: self.one_transaction,
            evicts: self.store.evictions()?.is_some(),
            sync: job.sync,
            dir: self.dir,
            stop: self.stop,
        };
        let source = match (&job.log, schedule) {
            (Some(ops), _) => OpSource::Log { ops, worker: (worker, self.workers) },
            (None, Some(schedule)) => OpSource::Planned { list: &job.lists[0], schedule },
            (None, None) => OpSource::Own {
                list: &job.lists[worker],
                passes: job.passes,
                nanoseconds: job.nanoseconds,
                enough_ns: job.enough_ns,
            },
        };
        let bands = job.log.as_ref().map_or_else(|| bands(&job.lists, job.batch), |log| log.bands());
        let mut tally = Tally::new(bands, job.is_open());
        tally.first_apart = job.first_apart;
        Ok(Ready { shared, source, tally, consumer: Consumer::new(job.use_bytes) })
    }
}

/// Sums the tallies of all workers, for each of `jobs` jobs.
fn totals(jobs: usize, counted: Vec<(usize, Tally)>) -> Result<Vec<Tally>> {
    let mut totals: Vec<Option<Tally>> = (0..jobs).map(|_| None).collect();
    for (index, tally) in counted {
        match &mut totals[index] {
            Some(total) => total.add(&tally),
            none => *none = Some(tally),
        }
    }
    totals.into_iter().map(|total| total.ok_or_else(|| anyhow!("a job was not done"))).collect()
}

struct Ready<'j, C: Clock> {
    shared: WorkerContext<'j, C>,
    source: OpSource<'j>,
    tally: Tally,
    consumer: Consumer,
}

/// Turns a panic into an error: a panic in a driver must not leave the other threads waiting for this one.
fn caught<T>(act: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(act))
        .unwrap_or_else(|_panic| Err(anyhow!("the store's driver panicked; its message is above")))
}

/// The barriers of the workers and the main thread, before and after each job.
struct JobBarriers {
    barrier: Barrier,
    /// True if a worker could not get ready. Set before the first barrier, and checked after it.
    failed: AtomicBool,
    /// True if other processes will not begin. Set before the second barrier, and checked only after that one: a worker that had
    /// not yet checked after the first barrier would otherwise leave before all have met again.
    called_off: AtomicBool,
    begin: AtomicU64,
    finished: AtomicU64,
    workers: u64,
    main: std::thread::Thread,
}

impl JobBarriers {
    /// Waits until every worker has finished a job, and meanwhile samples the servers' memory. A sample takes processor time from
    /// what is measured (the kernel walks all pages of a server) and only candidates with servers need it, so sampling is limited
    /// to a small share of the time.
    fn wait_for_the_end(&self, meter: &mut Meter, servers: &[&Server], look: std::time::Duration) {
        /// Maximum share of the time for samples.
        const SHARE_MAX: f64 = 0.005;
        const OFTEN: std::time::Duration = std::time::Duration::from_millis(250);
        if !servers.is_empty() {
            let pause = OFTEN.max(look.div_f64(SHARE_MAX));
            while self.finished.load(Ordering::SeqCst) < self.workers {
                let begin = crate::host::machine::uptime();
                std::thread::park_timeout(pause);
                // Workers that finish unpark this thread; a sample then would fall into the measured time of a short job.
                if crate::host::machine::uptime() - begin >= pause {
                    meter.look_at_memory(servers);
                }
            }
        }
        self.barrier.wait();
        self.finished.store(0, Ordering::SeqCst);
    }
}

fn schedule(open: Open) -> Mutex<Schedule> {
    let whole = Schedule::new(open.arrivals, open.ops_per_s, open.seconds, open.ops_max, open.seed);
    Mutex::new(whole.of_part(open.part))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::super::resources::IdleActivity;
    use super::super::clock::HostClock;
    use super::*;
    use crate::corpus::Sizes;
    use crate::plan::OpKind;
    use crate::store::{Error, Facts, Session, Sink};

    /// A store that has no sessions but read transactions, the first of which times out.
    #[derive(Default)]
    struct OnlyReads(AtomicU64);

    impl Store for OnlyReads {
        fn session(&self) -> crate::store::Result<Box<dyn Session + '_>> {
            Err(Error::Unsupported("a session"))
        }

        fn reader(&self) -> crate::store::Result<Box<dyn Session + '_>> {
            Ok(Box::new(ReadSession { times_out: self.0.fetch_add(1, Ordering::SeqCst) == 0 }))
        }

        fn facts(&self) -> crate::store::Result<Facts> {
            Ok(Facts::new())
        }

        fn close(self: Box<Self>) -> crate::store::Result<()> {
            Ok(())
        }
    }

    struct ReadSession {
        times_out: bool,
    }

    impl Session for ReadSession {
        fn get(&mut self, _: &Key, _: Span, sink: Sink) -> crate::store::Result<bool> {
            if self.times_out {
                return Err(Error::TimedOut);
            }
            sink(&[0; 4]);
            Ok(true)
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

    fn run(store: &OnlyReads, one_transaction: bool) -> Result<Tally> {
        let corpus = Corpus::random("fixed", Sizes::Fixed(4), 1, 1)?;
        let clock = HostClock::best();
        let stop = AtomicBool::new(false);
        let pool = WorkerPool { one_transaction, ..WorkerPool::new(&clock, store, &corpus, 1, &stop) };
        let op = PlannedOp { blob: 0, kind: OpKind::Get, len: 4, generation: 0, offset: 0 };
        let job = Job::once(vec![vec![op; 3]]);
        Ok(pool.run(&[job], &mut [Meter::new(None, IdleActivity::default())])?.remove(0))
    }

    #[test]
    fn a_worker_reads_in_one_transaction_and_in_a_new_one_when_that_was_given_up() {
        let store = OnlyReads::default();
        let tally = run(&store, true).unwrap();
        assert_eq!((tally.ops, tally.counters.errors, tally.counters.timeouts, tally.bytes), (3, 1, 1, 8));
        assert_eq!(tally.counters.acknowledged(tally.ops), 2);
        assert_eq!(store.0.load(Ordering::SeqCst), 2);
        assert!(run(&store, false).is_err());
    }
}
