//! A run by several processes with MPI. Rank 0 plans, opens stores, verifies blobs and judges; the other ranks contribute workers
//! in every phase that can be shared.
//!
//! A job is dealt to the workers of all processes. Each process opens its sessions; when all are ready, rank 0 compares the
//! clocks and sets an instant at which everyone begins. Complete tallies are sent back and added up.

mod check;
mod message;
mod own;
mod serve;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use xxhash_rust::xxh3::Xxh3;

pub use self::message::Introduction;
use self::message::{
    ClientReply, ClientRequest, JobResult, Opening, OwnStore, Task, ops_as_bytes, read, written,
};
pub use self::serve::ServingClient;
use super::ops::{PlannedOp, State};
use super::resources::Meter;
use super::workers::clock::{Clock, HostClock};
use super::workers::pace::ProcessShare;
use super::workers::pool::{Job, Open, StartBarrier, WorkerPool};
use super::workers::tally::Tally;
use crate::corpus::Corpus;
use crate::host::machine;
use crate::host::place::fresh_seed;
use crate::host::ranks::{MessagePassing, SPIN, wait};
use crate::plan::{OpKind, Plan};
use crate::result::{ClientProcess, ClientRound};
use crate::store::{ClientSupport as Way, JoinToken, Setup, Store};

/// Time limit for a process to appear or to open its sessions. A server that restarts answers within that time.
const READY_PATIENCE: Duration = Duration::from_secs(300);
/// Time limit for a process to finish its part of a job after rank 0 has: the longer of this duration and this multiple of rank
/// 0's time, or of a log's if its times are longer.
const DONE_PATIENCE: (Duration, f64) = (Duration::from_secs(120), 20.0);
/// Time limit for a process to read all blobs of its own store, before a phase and at the end.
const OWN_PATIENCE: Duration = Duration::from_secs(4 * 3600);
/// Time limit for an answer after the run was stopped, because a launcher kills processes that do not end.
const STOPPED_PATIENCE: Duration = Duration::from_millis(300);
/// Number of clock readings requested before a phase; the one with the shortest round trip counts.
const PINGS: u32 = 8;
/// How long a process spins for the next clock request. Requests follow each other closely, and a process that sleeps between
/// them answers late, which makes the clock's offset uncertain.
const SPIN_BETWEEN_PINGS: Duration = Duration::from_millis(3);
/// Time from the agreement to the start: more than messages and reading the machine's counters take.
const LEAD: Duration = Duration::from_millis(10);
/// Additional time for each other process, because messages are sent to them one after the other.
const LEAD_OF_EACH: Duration = Duration::from_micros(50);

/// The other processes of a run, as seen from rank 0.
#[derive(Debug)]
pub struct Clients {
    post: Box<dyn MessagePassing>,
    introductions: Vec<Introduction>,
    /// Why a client is considered lost, once one is.
    lost: Mutex<Option<String>>,
    /// If each client has a store of its own for the current candidate: the directory of rank 0's store, and the contents of the
    /// others'.
    own: Mutex<Option<(PathBuf, State)>>,
    never: AtomicBool,
}

/// What clients need to know about a store to join it for a job.
pub struct SharedStore<'a> {
    /// The setup that the store was opened with.
    pub setup: Setup<'a>,
    /// Name of the adapter.
    pub adapter: &'static str,
    /// How other processes join the store.
    pub way: Way,
    /// Index of the corpus in the plan.
    pub corpus_index: usize,
    /// The corpus.
    pub corpus: &'a Corpus,
    /// Contents of the store before the job.
    pub state: &'a State,
    /// If each client has a store of its own for the whole candidate run: true if rank 0's is warm.
    pub own: Option<bool>,
}

/// An agreed start, with the uncertainty of each client's clock offset, in nanoseconds.
struct ScheduledStart {
    instant: u64,
    uncertainties: Vec<u64>,
}

/// The offset of another process's clock, by the request with the shortest round trip.
#[derive(Clone, Copy, Debug)]
pub struct ClockOffset {
    /// Its clock minus this one, in nanoseconds.
    pub offset_ns: i64,
    /// Uncertainty of the offset, in nanoseconds: half of the round trip.
    pub uncertainty_ns: u64,
    /// Its system clock minus this system's, in nanoseconds.
    pub wall_offset_ns: i64,
}

impl Clients {
    /// Waits until all clients have appeared. Fails if one of them runs a different program.
    pub fn gather(post: Box<dyn MessagePassing>, own: Introduction) -> Result<Clients> {
        let never = AtomicBool::new(false);
        let mut introductions = vec![own];
        for rank in 1..post.ranks() {
            let message = wait(post.as_ref(), rank, READY_PATIENCE, SPIN, &never)
                .with_context(|| format!("client {rank} does not appear"))?;
            let (ClientReply::Here(introduction), _) = read(&message)? else {
                bail!("client {rank} does not say who it is");
            };
            ensure!(
                introduction.program == introductions[0].program,
                "client {rank} on `{}` is {}, and rank 0 is {}: install the same program on all hosts",
                introduction.whereabouts.name,
                introduction.program,
                introductions[0].program
            );
            introductions.push(introduction);
        }
        Ok(Clients { post, introductions, lost: Mutex::default(), own: Mutex::default(), never })
    }

    /// Number of processes, including this one.
    pub fn count(&self) -> usize {
        self.introductions.len()
    }

    /// True if all processes share the processors of one host.
    pub fn are_on_one_host(&self) -> bool {
        let [first, others @ ..] = self.introductions.as_slice() else { return true };
        others.iter().all(|other| other.whereabouts.is_same_kernel(&first.whereabouts))
    }

    /// Returns why a client was lost, if one was. The run then ends.
    pub fn lost(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Describes the processes for the result.
    pub fn known(&self, clock: &HostClock, stop: &AtomicBool) -> Result<Vec<ClientProcess>> {
        let mut known = Vec::new();
        for (rank, introduction) in self.introductions.iter().enumerate() {
            let whereabouts = &introduction.whereabouts;
            let first =
                self.introductions.iter().position(|other| other.whereabouts.is_same_kernel(whereabouts));
            let seen = if rank == 0 { None } else { Some(self.look_at_clock(rank, clock, stop)?) };
            known.push(ClientProcess {
                rank: rank as u32,
                host: whereabouts.name.clone(),
                shares_host_with: first.filter(|first| *first < rank).map(|first| first as u32),
                processors: whereabouts.processors,
                clock_offset_ns: seen.map_or(0, |seen| seen.wall_offset_ns),
                clock_uncertainty_ns: seen.map_or(0, |seen| seen.uncertainty_ns),
            });
        }
        Ok(known)
    }

    /// Makes every client build the corpora of a plan, and compares them with those here. Fails if they differ, or if a client
    /// does not see the directory of the run and a candidate needs that.
    pub fn prepare(&self, plan: &Plan, corpora: &[Corpus], dir: &std::path::Path) -> Result<()> {
        let sign = format!("sign-{:016x}", fresh_seed());
        std::fs::write(dir.join(&sign), b"")
            .with_context(|| format!("cannot write in `{}`", dir.display()))?;
        let order = ClientRequest::Prepare {
            plan: plan.text.to_toml()?,
            candidates: crate::subjects::candidates(plan),
            dir: dir.to_owned(),
            sign: sign.clone(),
        };
        let digests: Vec<u64> = corpora.iter().map(digest_of).collect();
        let outcome = self.others().try_for_each(|rank| self.tell(rank, &order, &[])).and_then(|()| {
            self.others().try_for_each(|rank| match self.hear(rank, READY_PATIENCE, &self.never)? {
                ClientReply::Prepared { digests: theirs, .. } if theirs != digests => bail!(
                    "{} makes another corpus of the plan: files of the user's must be the same on all hosts",
                    self.name(rank)
                ),
                ClientReply::Prepared { sees_directory, .. } => {
                    check::directory(plan, sees_directory, dir, &self.name(rank))
                }
                ClientReply::Cannot(why) => bail!("{}: {why}", self.name(rank)),
                other => bail!("{} says {other:?}", self.name(rank)),
            })
        });
        std::fs::remove_file(dir.join(&sign)).ok();
        outcome
    }

    /// Fails if the clients cannot execute the plan together. Called before anything is created.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        check::plan(plan, &self.introductions)
    }

    /// Runs a job with the workers of all clients. `pool` are those of this process. The job has lists for all workers, a single list
    /// with a schedule that is split, or requests of a log, which are as well. Returns the sum of all tallies, and the share of each client.
    pub fn run(
        &self,
        pool: WorkerPool<'_, HostClock>,
        shared: &SharedStore<'_>,
        job: &Job,
        meters: &mut [Meter; 1],
    ) -> Result<(Tally, Vec<ClientRound>)> {
        if let Some(lost) = self.lost() {
            bail!("{lost}");
        }
        let opening = shared.opening(pool.store)?;
        let stock = self.stock_for(pool.store, shared)?;
        let own = shared.own.map(|is_warm| OwnStore { is_warm, settles: job.writes() });
        let part = |rank: usize| match own {
            // Each client does the whole job in its own store.
            Some(_) => job.clone(),
            None => part_of(job, pool.workers, ProcessShare { index: rank, of: self.count() }),
        };
        for rank in self.others() {
            let part = part(rank);
            let corpus = (shared.corpus_index, shared.corpus.blobs());
            let sessions = (pool.workers, pool.one_transaction);
            let task = Task::new(&part, &stock, &opening, corpus, sessions, own.clone());
            let ops = ops_as_bytes(part.lists.iter().flatten().chain(&stock));
            self.tell(rank, &ClientRequest::Work(Box::new(task)), &ops)?;
        }
        let (clock, stop) = (pool.clock, pool.stop);
        let patience = if shared.own.is_some() { OWN_PATIENCE } else { READY_PATIENCE };
        let start_barrier = LeaderStartBarrier {
            clients: self,
            clock,
            stop,
            patience,
            agreed: Mutex::default(),
            is_over: AtomicBool::new(false),
        };
        let begin = machine::uptime();
        let own = WorkerPool { start_barrier: Some(&start_barrier), ..pool }
            .run(std::slice::from_ref(&part(0)), meters);
        if !start_barrier.is_over.load(Ordering::SeqCst) {
            // The workers of this process were not ready, so the others must not wait for them.
            start_barrier.give_up()?;
        }
        // The requests of a log that are this process's may all be due long before the others'.
        let planned_ns = job.log.as_ref().map_or(0, |log| log.planned_ns());
        let took = (machine::uptime() - begin).max(Duration::from_nanos(planned_ns));
        let reports: Result<Vec<JobResult>> = self.reports(took, stop);
        // A failure here explains more than the clients' reports that they had to give up.
        let own = own?.remove(0);
        let agreed = start_barrier.agreed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let agreed = agreed.context("nothing was agreed on")?;
        if let Some((_, held)) = &mut *self.own_stores() {
            job.ops().for_each(|op| held.apply(&op));
        }
        add_up(own, meters[0].used().process_ns, reports?, &agreed)
    }

    fn own_stores(&self) -> MutexGuard<'_, Option<(PathBuf, State)>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ops that the clients' own stores lack before a job. Of a null store, which each process opens for itself, rank
    /// 0's also gets what others have put.
    fn stock_for(&self, store: &dyn Store, shared: &SharedStore<'_>) -> Result<serve::StoreChanges> {
        if shared.own.is_some() {
            let mut own = self.own_stores();
            let (_, held) = match &mut *own {
                Some(held) if held.0 == shared.setup.dir => held,
                none => none.insert((shared.setup.dir.to_owned(), State::empty(shared.corpus))),
            };
            let changes = held.changes_to(shared.state);
            held.clone_from(shared.state);
            return Ok(changes);
        }
        let stock = if shared.way == Way::Each { stock(shared.state) } else { Vec::new() };
        stock_up(store, shared.corpus, &stock)?;
        Ok(stock)
    }

    /// Makes the clients remove their own stores, if they have any, after comparing every blob if `compares`. Returns the number
    /// of compared blobs.
    pub fn leave(&self, compares: bool, stop: &AtomicBool) -> Result<u64> {
        if self.own_stores().take().is_none() || self.lost().is_some() {
            return Ok(0);
        }
        self.others().try_for_each(|rank| self.tell(rank, &ClientRequest::Leave { compares }, &[]))?;
        let (mut all, mut first) = (0, None);
        for rank in self.others() {
            match self.hear(rank, OWN_PATIENCE, stop)? {
                ClientReply::Left { verified } => all += verified,
                ClientReply::Cannot(why) => drop(first.get_or_insert(anyhow!("{}: {why}", self.name(rank)))),
                other => bail!("{} says {other:?}", self.name(rank)),
            }
        }
        first.map_or(Ok(all), Err)
    }

    /// Number of clients that share the processors and the memory of rank 0's host, including rank 0.
    pub fn on_host_of_rank_0(&self) -> usize {
        let first = &self.introductions[0].whereabouts;
        self.introductions.iter().filter(|other| other.whereabouts.is_same_kernel(first)).count()
    }

    /// Collects the reports of all other clients, even after one of them has failed, and then returns the first failure.
    fn reports(&self, took: Duration, stop: &AtomicBool) -> Result<Vec<JobResult>> {
        let (least, times) = DONE_PATIENCE;
        let patience = least.max(took.mul_f64(times));
        let mut reports = Vec::new();
        let mut first = None;
        for rank in self.others() {
            let failed = match self.hear(rank, patience, stop)? {
                ClientReply::Done(report) => {
                    reports.push(*report);
                    continue;
                }
                ClientReply::Cannot(why) => anyhow!("{}: {why}", self.name(rank)),
                other => anyhow!("{} says {other:?}", self.name(rank)),
            };
            first.get_or_insert(failed);
        }
        first.map_or(Ok(reports), Err)
    }

    /// Tells the clients that the run is over and shuts down in order. If one of them is lost, the launcher ends the others.
    pub fn end(self) {
        let said = self.others().try_for_each(|rank| self.tell(rank, &ClientRequest::End, &[]));
        if said.is_ok() && self.lost().is_none() {
            self.post.end();
        }
    }

    fn others(&self) -> std::ops::Range<usize> {
        1..self.count()
    }

    fn name(&self, rank: usize) -> String {
        format!("client {rank} on `{}`", self.introductions[rank].whereabouts.name)
    }

    fn tell(&self, rank: usize, order: &ClientRequest, ops: &[u8]) -> Result<()> {
        if let Some(lost) = self.lost() {
            bail!("{lost}");
        }
        self.post.send(rank, &written(order, ops)?).with_context(|| self.name(rank))
    }

    /// Waits for the next answer of a client. A client that does not answer in time is lost, and the run with it.
    fn hear(&self, rank: usize, patience: Duration, stop: &AtomicBool) -> Result<ClientReply> {
        self.hear_after(rank, patience, SPIN, stop)
    }

    fn hear_after(
        &self,
        rank: usize,
        patience: Duration,
        spin: Duration,
        stop: &AtomicBool,
    ) -> Result<ClientReply> {
        let heard = match wait(self.post.as_ref(), rank, patience, spin, stop) {
            Err(_stopped) if stop.load(Ordering::Relaxed) => {
                wait(self.post.as_ref(), rank, STOPPED_PATIENCE, SPIN, &self.never)
            }
            heard => heard,
        };
        let message = heard.map_err(|error| {
            let why = format!("{} is lost: {error:#}", self.name(rank));
            self.lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why.clone());
            anyhow!("{why}")
        })?;
        Ok(read(&message)?.0)
    }

    fn look_at_clock(&self, rank: usize, clock: &HostClock, stop: &AtomicBool) -> Result<ClockOffset> {
        let mut best: Option<ClockOffset> = None;
        for _ in 0..PINGS {
            let (asked, wall) = (clock.now(), machine::wall_ns());
            self.tell(rank, &ClientRequest::Ping, &[])?;
            let answer = self.hear_after(rank, READY_PATIENCE, SPIN_BETWEEN_PINGS, stop)?;
            let ClientReply::Pong { now, wall: theirs } = answer else {
                bail!("{} does not say what time it is", self.name(rank));
            };
            let uncertainty_ns = (clock.now() - asked).div_ceil(2);
            let seen = ClockOffset {
                offset_ns: now.wrapping_sub(asked + uncertainty_ns) as i64,
                uncertainty_ns,
                wall_offset_ns: theirs - wall - uncertainty_ns as i64,
            };
            if best.is_none_or(|best| seen.uncertainty_ns < best.uncertainty_ns) {
                best = Some(seen);
            }
        }
        best.context("no clock was asked")
    }
}

impl SharedStore<'_> {
    fn opening(&self, store: &dyn Store) -> Result<Opening> {
        let setup = &self.setup;
        let join_token: Option<JoinToken> = match self.way {
            _ if self.own.is_some() => None,
            Way::Each => None,
            Way::One(why) => bail!("`{}` is for one client: {why}", self.adapter),
            Way::Server | Way::ServerBut(..) | Way::Directory => Some(store.join_token()?),
        };
        Ok(Opening {
            adapter: self.adapter.to_owned(),
            options: setup.options.values().clone(),
            dir: setup.dir.to_owned(),
            durability: setup.durability,
            cache_bytes: setup.cache_bytes,
            fits: setup.fits,
            blob_bytes_max: setup.blob_bytes_max,
            store_bytes_max: setup.store_bytes_max,
            keys_max: setup.keys_max,
            workers: setup.workers,
            op_timeout: setup.op_timeout,
            join_token,
        })
    }
}

/// Returns the part of a job that one process does: its lists, or its share of the schedule or of a log's requests.
fn part_of(job: &Job, workers: usize, part: ProcessShare) -> Job {
    let log = job.log.as_ref().map(|log| log.of_part(part));
    let lists = match job.open {
        _ if log.is_some() => Vec::new(),
        Some(_) => job.lists.clone(),
        None => job.lists.iter().skip(part.index * workers).take(workers).cloned().collect(),
    };
    Job { lists, log, open: job.open.map(|open| Open { part, ..open }), ..job.clone_without_lists() }
}

/// Returns puts of every blob that is present.
fn stock(state: &State) -> serve::StoreChanges {
    let there = (0..state.alive.len()).filter(|id| state.alive[*id]);
    let put = |id: usize| PlannedOp {
        blob: id as u32,
        kind: OpKind::Put,
        len: state.len[id],
        generation: state.generation[id],
        offset: 0,
    };
    there.map(put).collect()
}

/// Applies puts and deletes to a store, off the clock.
fn stock_up(store: &dyn Store, corpus: &Corpus, stock: &[PlannedOp]) -> Result<()> {
    if stock.is_empty() {
        return Ok(());
    }
    let mut session = store.session()?;
    let mut room = Vec::new();
    for op in stock {
        let key = &corpus.keys.at(op.blob as usize);
        if op.kind == OpKind::Delete {
            session.delete(key)?;
            continue;
        }
        let blob = corpus.contents.blob(u64::from(op.blob), op.generation, u64::from(op.len), &mut room);
        session.put(key, blob)?;
    }
    Ok(())
}

/// Adds up the tallies of all clients, and describes the share of each.
fn add_up(
    own: Tally,
    process_cpu_ns: u64,
    reports: Vec<JobResult>,
    agreed: &ScheduledStart,
) -> Result<(Tally, Vec<ClientRound>)> {
    let mut rows = vec![row(0, &own, process_cpu_ns, agreed)];
    let mut all = own;
    for (rank, report) in (1..).zip(reports) {
        let tally = report.tally.received(agreed.instant)?;
        rows.push(row(rank, &tally, report.process_cpu_ns, agreed));
        all.add(&tally);
    }
    let worked = || rows.iter().filter(|row| row.ops > 0);
    let begin = worked().map(|row| row.begin_ns).min().unwrap_or(0);
    let end = worked().map(|row| row.end_ns).max().unwrap_or(0);
    let whole = end.saturating_sub(begin).max(1) as f64;
    for row in &mut rows {
        row.waited_share = end.saturating_sub(row.end_ns) as f64 / whole;
        row.waited_share = row.waited_share.clamp(0.0, 1.0);
    }
    Ok((all, rows))
}

fn row(rank: usize, tally: &Tally, process_cpu_ns: u64, agreed: &ScheduledStart) -> ClientRound {
    ClientRound {
        rank: rank as u32,
        ops: tally.counters.acknowledged(tally.ops),
        bytes: tally.bytes,
        begin_ns: tally.begin.saturating_sub(agreed.instant),
        end_ns: tally.end.saturating_sub(agreed.instant),
        uncertainty_ns: agreed.uncertainties[rank],
        worker_cpu_ns: tally.cpu_ns,
        process_cpu_ns,
        waited_share: 0.0,
    }
}

/// Digest of a corpus: its sizes and keys, and the contents of a user's files.
fn digest_of(corpus: &Corpus) -> u64 {
    let mut digest = Xxh3::new();
    corpus.sizes.iter().for_each(|size| digest.update(&size.to_le_bytes()));
    corpus.keys.iter().for_each(|key| digest.update(&key.hex));
    digest.update(corpus.digest.as_deref().unwrap_or_default().as_bytes());
    digest.digest()
}

/// The agreement on the start of one job, on rank 0's side.
struct LeaderStartBarrier<'a> {
    clients: &'a Clients,
    clock: &'a HostClock,
    stop: &'a AtomicBool,
    patience: Duration,
    agreed: Mutex<Option<ScheduledStart>>,
    /// True once the clients have been told to begin or to give up, or are about to be.
    is_over: AtomicBool,
}

impl LeaderStartBarrier<'_> {
    /// Waits until all clients have said whether they are ready, even after one is not, and then returns the first failure.
    fn ready(&self) -> Result<()> {
        let mut first = None;
        for rank in self.clients.others() {
            match self.clients.hear(rank, self.patience, self.stop)? {
                ClientReply::Ready => {}
                ClientReply::Cannot(why) => {
                    first.get_or_insert(anyhow!("{}: {why}", self.clients.name(rank)));
                }
                other => bail!("{} says {other:?}", self.clients.name(rank)),
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Waits until each client has said whether it is ready, and tells all of them not to begin.
    fn give_up(&self) -> Result<()> {
        // Ignores why a client is not ready, which its report will tell.
        drop(self.ready());
        self.is_over.store(true, Ordering::SeqCst);
        self.clients.others().try_for_each(|rank| self.clients.tell(rank, &ClientRequest::GiveUp, &[]))
    }

    fn agreed(&self) -> Result<ScheduledStart> {
        let seen: Vec<ClockOffset> = self
            .clients
            .others()
            .map(|rank| self.clients.look_at_clock(rank, self.clock, self.stop))
            .collect::<Result<_>>()?;
        let lead = LEAD + LEAD_OF_EACH * seen.len() as u32;
        let instant = self.clock.now() + lead.as_nanos() as u64;
        for (rank, seen) in self.clients.others().zip(&seen) {
            let theirs = instant.wrapping_add_signed(seen.offset_ns);
            self.clients.tell(rank, &ClientRequest::Begin(theirs), &[])?;
        }
        let uncertainties = std::iter::once(0).chain(seen.iter().map(|seen| seen.uncertainty_ns)).collect();
        Ok(ScheduledStart { instant, uncertainties })
    }
}

impl StartBarrier for LeaderStartBarrier<'_> {
    fn agree(&self) -> Result<u64> {
        if let Err(error) = self.ready() {
            self.is_over.store(true, Ordering::SeqCst);
            self.clients
                .others()
                .try_for_each(|rank| self.clients.tell(rank, &ClientRequest::GiveUp, &[]))?;
            return Err(error);
        }
        self.is_over.store(true, Ordering::SeqCst);
        let agreed = self.agreed()?;
        let instant = agreed.instant;
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner) = Some(agreed);
        Ok(instant)
    }
}

#[cfg(test)]
mod tests;
