//! A run that several processes do together by MPI: rank 0 plans, opens stores, compares blobs and judges; in every phase that can be
//! shared, the others have workers beside its own.
//!
//! A job is dealt to the workers of all of them. Each process opens its sessions; when all are ready, rank 0 compares the clocks and
//! names an instant at which everybody begins. What they counted comes back whole and is added up.

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
use self::message::{Answer, Opening, Order, OwnStore, Report, Task, ops_as_bytes, read, written};
pub use self::serve::Served;
use super::ops::{PlannedOp, State};
use super::resources::Meter;
use super::workers::clock::{Clock, HostClock};
use super::workers::crew::{Appointment, Crew, Job, Open};
use super::workers::pace::Slice;
use super::workers::tally::Tally;
use crate::corpus::Corpus;
use crate::host::machine;
use crate::host::place::fresh_seed;
use crate::host::ranks::{Post, SPIN, wait};
use crate::plan::{OpKind, Plan};
use crate::result::{Client, ClientRound};
use crate::store::{Clients as Way, Invitation, Setup, Store};

/// How long a process may take to appear, or to open its sessions: a server that starts anew answers within that.
const READY_PATIENCE: Duration = Duration::from_secs(300);
/// How much longer than rank 0 a process may take for its part of a job, and how many times as long.
const DONE_PATIENCE: (Duration, f64) = (Duration::from_secs(120), 20.0);
/// How long a process may take to read all blobs of a store of its own, before a phase and at the end.
const OWN_PATIENCE: Duration = Duration::from_secs(4 * 3600);
/// How long somebody is waited for when the run was stopped: a launcher kills what does not end.
const STOPPED_PATIENCE: Duration = Duration::from_millis(300);
/// How often a clock is asked before a phase; the quickest answer counts.
const PINGS: u32 = 8;
/// Questions for the time come one behind the other: whoever sleeps between them makes the answer late, and the clock uncertain.
const SPIN_BETWEEN_PINGS: Duration = Duration::from_millis(3);
/// From the agreement to the instant: longer than the messages take, and than reading the counters of the machine.
const LEAD: Duration = Duration::from_millis(10);
/// And for each of the others as much more as a message to it may take, one after the other.
const LEAD_OF_EACH: Duration = Duration::from_micros(50);

/// The other processes, as rank 0 has them.
#[derive(Debug)]
pub struct Clients {
    post: Box<dyn Post>,
    introductions: Vec<Introduction>,
    /// Why one of them is not to be reckoned with any more.
    lost: Mutex<Option<String>>,
    /// What the others' own stores hold, where each has one for the visit under way, and the directory of rank 0's.
    own: Mutex<Option<(PathBuf, State)>>,
    never: AtomicBool,
}

/// What a phase's job needs to be known of its store, for those who join it.
pub struct Shared<'a> {
    /// What the store was opened with.
    pub setup: Setup<'a>,
    /// What it is called.
    pub adapter: &'static str,
    /// How others join it.
    pub way: Way,
    /// Which of the plan's corpora.
    pub corpus_index: usize,
    /// It.
    pub corpus: &'a Corpus,
    /// What it holds before the job.
    pub state: &'a State,
    /// Where each client has a store of its own for the whole visit: whether rank 0's is warm.
    pub own: Option<bool>,
}

/// An instant that was agreed on, and what is known of each client's clock: its offset and by how much that may be wrong, in
/// nanoseconds.
struct Agreed {
    instant: u64,
    uncertainties: Vec<u64>,
}

/// Another clock as seen from here, by the quickest of a few questions.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Its clock less ours, in nanoseconds.
    pub offset_ns: i64,
    /// By how much that may be wrong: half of the way there and back.
    pub uncertainty_ns: u64,
    /// Its system's clock less ours.
    pub wall_offset_ns: i64,
}

impl Clients {
    /// Waits until all have appeared. An error where one is another program than this.
    pub fn gather(post: Box<dyn Post>, own: Introduction) -> Result<Clients> {
        let never = AtomicBool::new(false);
        let mut introductions = vec![own];
        for rank in 1..post.ranks() {
            let message = wait(post.as_ref(), rank, READY_PATIENCE, SPIN, &never)
                .with_context(|| format!("client {rank} does not appear"))?;
            let (Answer::Here(introduction), _) = read(&message)? else {
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

    /// How many processes there are, this one included.
    pub fn count(&self) -> usize {
        self.introductions.len()
    }

    /// Whether all share the processors of one host.
    pub fn are_on_one_host(&self) -> bool {
        let [first, others @ ..] = self.introductions.as_slice() else { return true };
        others.iter().all(|other| other.whereabouts.is_same_kernel(&first.whereabouts))
    }

    /// Why a client is missing, if one is: then the run ends.
    pub fn lost(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What processes these are, for the result.
    pub fn known(&self, clock: &HostClock, stop: &AtomicBool) -> Result<Vec<Client>> {
        let mut known = Vec::new();
        for (rank, introduction) in self.introductions.iter().enumerate() {
            let whereabouts = &introduction.whereabouts;
            let first =
                self.introductions.iter().position(|other| other.whereabouts.is_same_kernel(whereabouts));
            let seen = if rank == 0 { None } else { Some(self.look_at_clock(rank, clock, stop)?) };
            known.push(Client {
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

    /// Has every client make the corpora of a plan, and compares them with those here. An error where they differ, or where one
    /// does not see the directory of the run and a candidate needs that.
    pub fn prepare(&self, plan: &Plan, corpora: &[Corpus], dir: &std::path::Path) -> Result<()> {
        let sign = format!("sign-{:016x}", fresh_seed());
        std::fs::write(dir.join(&sign), b"")
            .with_context(|| format!("cannot write in `{}`", dir.display()))?;
        let order = Order::Prepare {
            plan: plan.text.to_toml()?,
            candidates: super::subjects::candidates(plan),
            dir: dir.to_owned(),
            sign: sign.clone(),
        };
        let digests: Vec<u64> = corpora.iter().map(digest_of).collect();
        let outcome = self.others().try_for_each(|rank| self.tell(rank, &order, &[])).and_then(|()| {
            self.others().try_for_each(|rank| match self.hear(rank, READY_PATIENCE, &self.never)? {
                Answer::Prepared { digests: theirs, .. } if theirs != digests => bail!(
                    "{} makes another corpus of the plan: files of the user's must be the same on all hosts",
                    self.name(rank)
                ),
                Answer::Prepared { sees_directory, .. } => {
                    check::directory(plan, sees_directory, dir, &self.name(rank))
                }
                Answer::Cannot(why) => bail!("{}: {why}", self.name(rank)),
                other => bail!("{} says {other:?}", self.name(rank)),
            })
        });
        std::fs::remove_file(dir.join(&sign)).ok();
        outcome
    }

    /// Refuses a plan that they cannot do together, before anything is made.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        check::plan(plan, &self.introductions)
    }

    /// Does a job with the workers of all clients: `crew` are those of this process, and the job has lists for all, or one list and a
    /// schedule that is split. Returns what all counted together, and what each did.
    pub fn run(
        &self,
        crew: Crew<'_, HostClock>,
        shared: &Shared<'_>,
        job: &Job,
        meters: &mut [Meter; 1],
    ) -> Result<(Tally, Vec<ClientRound>)> {
        if let Some(lost) = self.lost() {
            bail!("{lost}");
        }
        let opening = shared.opening(crew.store)?;
        let stock = self.stock_for(crew.store, shared)?;
        let own = shared.own.map(|is_warm| OwnStore { is_warm, settles: job.writes() });
        let part = |rank: usize| match own {
            // Each does all of it in its own.
            Some(_) => job.clone(),
            None => part_of(job, crew.workers, Slice { index: rank, of: self.count() }),
        };
        for rank in self.others() {
            let part = part(rank);
            let corpus = (shared.corpus_index, shared.corpus.blobs());
            let hands = (crew.workers, crew.one_transaction);
            let task = Task::of(&part, &stock, &opening, corpus, hands, own.clone());
            let ops = ops_as_bytes(part.lists.iter().flatten().chain(&stock));
            self.tell(rank, &Order::Work(Box::new(task)), &ops)?;
        }
        let (clock, stop) = (crew.clock, crew.stop);
        let patience = if shared.own.is_some() { OWN_PATIENCE } else { READY_PATIENCE };
        let appointment = Meeting {
            clients: self,
            clock,
            stop,
            patience,
            agreed: Mutex::default(),
            is_over: AtomicBool::new(false),
        };
        let begin = machine::uptime();
        let own =
            Crew { appointment: Some(&appointment), ..crew }.run(std::slice::from_ref(&part(0)), meters);
        if !appointment.is_over.load(Ordering::SeqCst) {
            // Our own workers were not ready. The others must not wait for them.
            appointment.give_up()?;
        }
        let took = machine::uptime() - begin;
        let reports: Result<Vec<Report>> = self.reports(took, stop);
        // What failed here says more than that others were told to give up.
        let own = own?.remove(0);
        let agreed = appointment.agreed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let agreed = agreed.context("nothing was agreed on")?;
        if let Some((_, held)) = &mut *self.own_stores() {
            job.lists.iter().flatten().for_each(|op| held.apply(op));
        }
        add_up(own, meters[0].used().process_ns, reports?, &agreed)
    }

    fn own_stores(&self) -> MutexGuard<'_, Option<(PathBuf, State)>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the others' stores lack before a job. A null store of rank 0's is given what others put, too.
    fn stock_for(&self, store: &dyn Store, shared: &Shared<'_>) -> Result<serve::Stock> {
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

    /// Has the others remove the stores of their own, where they have some; before that they compare every blob, if that is wanted.
    /// Returns how many were compared.
    pub fn leave(&self, compares: bool, stop: &AtomicBool) -> Result<u64> {
        if self.own_stores().take().is_none() || self.lost().is_some() {
            return Ok(0);
        }
        self.others().try_for_each(|rank| self.tell(rank, &Order::Leave { compares }, &[]))?;
        let (mut all, mut first) = (0, None);
        for rank in self.others() {
            match self.hear(rank, OWN_PATIENCE, stop)? {
                Answer::Left { verified } => all += verified,
                Answer::Cannot(why) => drop(first.get_or_insert(anyhow!("{}: {why}", self.name(rank)))),
                other => bail!("{} says {other:?}", self.name(rank)),
            }
        }
        first.map_or(Ok(all), Err)
    }

    /// How many of them share the processors and the memory of rank 0's host.
    pub fn on_host_of_rank_0(&self) -> usize {
        let first = &self.introductions[0].whereabouts;
        self.introductions.iter().filter(|other| other.whereabouts.is_same_kernel(first)).count()
    }

    /// What every other client has counted, or why one has not. All are heard, whatever the first of them says.
    fn reports(&self, took: Duration, stop: &AtomicBool) -> Result<Vec<Report>> {
        let (least, times) = DONE_PATIENCE;
        let patience = least.max(took.mul_f64(times));
        let mut reports = Vec::new();
        let mut first = None;
        for rank in self.others() {
            match self.hear(rank, patience, stop) {
                Ok(Answer::Done(report)) => reports.push(*report),
                Ok(Answer::Cannot(why)) => drop(first.get_or_insert(anyhow!("{}: {why}", self.name(rank)))),
                Ok(other) => drop(first.get_or_insert(anyhow!("{} says {other:?}", self.name(rank)))),
                Err(error) => return Err(error),
            }
        }
        first.map_or(Ok(reports), Err)
    }

    /// Tells them that there is nothing more to do, and ends in order; where one is missing, the launcher ends the rest.
    pub fn end(self) {
        let said = self.others().try_for_each(|rank| self.tell(rank, &Order::End, &[]));
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

    fn tell(&self, rank: usize, order: &Order, ops: &[u8]) -> Result<()> {
        if let Some(lost) = self.lost() {
            bail!("{lost}");
        }
        self.post.send(rank, &written(order, ops)?).with_context(|| self.name(rank))
    }

    /// The next answer of a client. One that says nothing for so long is lost, and with it the run.
    fn hear(&self, rank: usize, patience: Duration, stop: &AtomicBool) -> Result<Answer> {
        self.hear_after(rank, patience, SPIN, stop)
    }

    fn hear_after(
        &self,
        rank: usize,
        patience: Duration,
        spin: Duration,
        stop: &AtomicBool,
    ) -> Result<Answer> {
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

    /// What a client's clock says.
    fn look_at_clock(&self, rank: usize, clock: &HostClock, stop: &AtomicBool) -> Result<Seen> {
        let mut best: Option<Seen> = None;
        for _ in 0..PINGS {
            let (asked, wall) = (clock.now(), machine::wall_ns());
            self.tell(rank, &Order::Ping, &[])?;
            let answer = self.hear_after(rank, READY_PATIENCE, SPIN_BETWEEN_PINGS, stop)?;
            let Answer::Pong { now, wall: theirs } = answer else {
                bail!("{} does not say what time it is", self.name(rank));
            };
            let uncertainty_ns = (clock.now() - asked).div_ceil(2);
            let seen = Seen {
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

impl Shared<'_> {
    fn opening(&self, store: &dyn Store) -> Result<Opening> {
        let setup = &self.setup;
        let invitation: Option<Invitation> = match self.way {
            _ if self.own.is_some() => None,
            Way::Each => None,
            Way::One(why) => bail!("`{}` is for one client: {why}", self.adapter),
            Way::Server | Way::ServerBut(..) | Way::Directory => Some(store.invitation()?),
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
            invitation,
        })
    }
}

/// A process's part of a job: its lists, or its ops of the one list's schedule.
fn part_of(job: &Job, workers: usize, part: Slice) -> Job {
    let lists = match job.open {
        Some(_) => job.lists.clone(),
        None => job.lists.iter().skip(part.index * workers).take(workers).cloned().collect(),
    };
    Job { lists, open: job.open.map(|open| Open { part, ..open }), ..job.clone_without_lists() }
}

/// Puts of everything that is there.
fn stock(state: &State) -> serve::Stock {
    let there = (0..state.alive.len()).filter(|id| state.alive[*id]);
    let put = |id: usize| PlannedOp {
        blob: id as u32,
        kind: OpKind::Put,
        len: state.len[id] as u32,
        generation: state.generation[id],
        offset: 0,
    };
    there.map(put).collect()
}

/// Puts and deletes blobs, off every clock.
fn stock_up(store: &dyn Store, corpus: &Corpus, stock: &[PlannedOp]) -> Result<()> {
    if stock.is_empty() {
        return Ok(());
    }
    let mut session = store.session()?;
    let mut room = Vec::new();
    for op in stock {
        let key = &corpus.keys[op.blob as usize];
        if op.kind == OpKind::Delete {
            session.delete(key)?;
            continue;
        }
        let blob = corpus.contents.blob(u64::from(op.blob), op.generation, u64::from(op.len), &mut room);
        session.put(key, blob)?;
    }
    Ok(())
}

/// What all counted, and what each did of it.
fn add_up(
    own: Tally,
    process_cpu_ns: u64,
    reports: Vec<Report>,
    agreed: &Agreed,
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

fn row(rank: usize, tally: &Tally, process_cpu_ns: u64, agreed: &Agreed) -> ClientRound {
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

/// A digest of what a corpus has: sizes and keys, and of a user's files their bytes too.
fn digest_of(corpus: &Corpus) -> u64 {
    let mut digest = Xxh3::new();
    corpus.sizes.iter().for_each(|size| digest.update(&size.to_le_bytes()));
    corpus.keys.iter().for_each(|key| digest.update(&key.hex));
    digest.update(corpus.digest.as_deref().unwrap_or_default().as_bytes());
    digest.digest()
}

/// The appointment of all for one job, as rank 0 keeps it.
struct Meeting<'a> {
    clients: &'a Clients,
    clock: &'a HostClock,
    stop: &'a AtomicBool,
    /// How long somebody may take to be ready.
    patience: Duration,
    agreed: Mutex<Option<Agreed>>,
    /// Whether the others know whether they begin.
    is_over: AtomicBool,
}

impl Meeting<'_> {
    /// Hears whether all are ready. All are heard, whatever the first of them says.
    fn ready(&self) -> Result<()> {
        let mut first = None;
        for rank in self.clients.others() {
            match self.clients.hear(rank, self.patience, self.stop)? {
                Answer::Ready => {}
                Answer::Cannot(why) => {
                    first.get_or_insert(anyhow!("{}: {why}", self.clients.name(rank)));
                }
                other => bail!("{} says {other:?}", self.clients.name(rank)),
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Tells the others that nobody begins, once each has said whether it could.
    fn give_up(&self) -> Result<()> {
        // Why they are not ready is not asked here: it is told with their reports.
        drop(self.ready());
        self.is_over.store(true, Ordering::SeqCst);
        self.clients.others().try_for_each(|rank| self.clients.tell(rank, &Order::GiveUp, &[]))
    }

    fn agreed(&self) -> Result<Agreed> {
        let seen: Vec<Seen> = self
            .clients
            .others()
            .map(|rank| self.clients.look_at_clock(rank, self.clock, self.stop))
            .collect::<Result<_>>()?;
        let lead = LEAD + LEAD_OF_EACH * seen.len() as u32;
        let instant = self.clock.now() + lead.as_nanos() as u64;
        for (rank, seen) in self.clients.others().zip(&seen) {
            let theirs = instant.wrapping_add_signed(seen.offset_ns);
            self.clients.tell(rank, &Order::Begin(theirs), &[])?;
        }
        let uncertainties = std::iter::once(0).chain(seen.iter().map(|seen| seen.uncertainty_ns)).collect();
        Ok(Agreed { instant, uncertainties })
    }
}

impl Appointment for Meeting<'_> {
    fn agree(&self) -> Result<u64> {
        if let Err(error) = self.ready() {
            self.is_over.store(true, Ordering::SeqCst);
            self.clients.others().try_for_each(|rank| self.clients.tell(rank, &Order::GiveUp, &[]))?;
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
