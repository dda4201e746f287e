//! A process of a rank other than 0: it does its part of every job and judges nothing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::super::ops::PlannedOp;
use super::super::resources::{IdleActivity, Meter};
use super::super::workers::clock::Clock;
use super::super::workers::pool::{Job, StartBarrier, WorkerPool};
use super::message::{ClientReply, ClientRequest, Introduction, JobResult, Opening, Task, read, written};
use super::own::ClientStore;
use super::{SPIN_BETWEEN_PINGS, digest_of, stock_up};
use crate::corpus::Corpus;
use crate::host::ranks::{MessagePassing, SPIN, wait};
use crate::plan::Design;
use crate::result::CandidateResult;
use crate::store::{Adapter, Capabilities, Common, Mode, Options, Setup, Store, describe_error};
use crate::stores;

/// Time limit for the next order: rank 0 may fill and compare for hours between two orders.
const PATIENCE: Duration = Duration::from_secs(7 * 86_400);

/// A process that executes the orders of rank 0.
pub struct ServingClient<'a, C: Clock> {
    /// The connection to rank 0.
    pub post: &'a dyn MessagePassing,
    /// The clock.
    pub clock: &'a C,
    /// The system's clock, in nanoseconds since 1970.
    pub wall: &'a (dyn Fn() -> i64 + Sync),
    /// Identity of this process.
    pub introduction: Introduction,
    /// Resolves a plan's text for candidates that rank 0 has.
    pub design: fn(&str, &[CandidateResult]) -> Result<Design>,
    /// Set from outside to end early.
    pub stop: &'a AtomicBool,
}

impl<C: Clock> ServingClient<'_, C> {
    /// Executes the orders of rank 0 until it ends the run. Fails if it was stopped or receives an unexpected order.
    pub fn serve(&self) -> Result<()> {
        self.say(&ClientReply::Here(self.introduction.clone()))?;
        let mut corpora = Vec::new();
        let mut own: Option<ClientStore> = None;
        let mut spin = SPIN;
        loop {
            let message = self.hear(spin)?;
            spin = SPIN;
            match read(&message)? {
                (ClientRequest::End, _) => return Ok(()),
                (ClientRequest::Ping, _) => {
                    self.tell_time()?;
                    spin = SPIN_BETWEEN_PINGS;
                }
                (ClientRequest::Prepare { plan, candidates, dir, sign }, _) => {
                    match (self.design)(&plan, &candidates).and_then(|design| design.build_corpora()) {
                        Ok(made) => {
                            let digests = made.iter().map(digest_of).collect();
                            corpora = made;
                            self.say(&ClientReply::Prepared {
                                digests,
                                sees_directory: dir.join(sign).exists(),
                            })?;
                        }
                        Err(error) => self.say(&ClientReply::Cannot(describe_error(&error)))?,
                    }
                }
                (ClientRequest::Work(task), ops) => {
                    let answer = match self.work(&corpora, &task, ops, &mut own) {
                        Ok(report) => ClientReply::Done(Box::new(report)),
                        Err(error) => ClientReply::Cannot(describe_error(&error)),
                    };
                    self.say(&answer)?;
                    if let (Some(own), true) = (&own, task.own.as_ref().is_some_and(|own| own.settles)) {
                        // Settles at the same time as rank 0's store. A failure shows up when the blobs are compared.
                        own.settle().ok();
                    }
                }
                (ClientRequest::Leave { compares }, _) => {
                    let left = own.take().map_or(Ok(0), |own| own.leave(compares));
                    self.say(&left.map_or_else(
                        |error| ClientReply::Cannot(describe_error(&error)),
                        |verified| ClientReply::Left { verified },
                    ))?;
                }
                (ClientRequest::Begin(_) | ClientRequest::GiveUp, _) => {
                    bail!("rank 0 says when to begin, and there is no job")
                }
            }
        }
    }

    /// Does this process's part of a job. In any case, rank 0 first learns whether this process was ready, and answers that.
    fn work(
        &self,
        corpora: &[Corpus],
        task: &Task,
        ops: &[u8],
        own: &mut Option<ClientStore>,
    ) -> Result<JobResult> {
        let start_barrier = FollowerStartBarrier {
            served: self,
            instant: Mutex::new(None),
            is_asked: AtomicBool::new(false),
        };
        let outcome = self.counted(corpora, task, ops, &start_barrier, own);
        if let Err(error) = &outcome
            && !start_barrier.is_asked.load(Ordering::SeqCst)
        {
            self.say(&ClientReply::Cannot(describe_error(error)))?;
            start_barrier.answer()?;
        }
        outcome
    }

    fn counted(
        &self,
        corpora: &[Corpus],
        task: &Task,
        ops: &[u8],
        start_barrier: &FollowerStartBarrier<'_, C>,
        own: &mut Option<ClientStore>,
    ) -> Result<JobResult> {
        let whole = corpora.get(task.corpus).context("a corpus that was never announced")?;
        let corpus = whole.part(task.blobs);
        let (job, stock) = task.job(ops, &corpus)?;
        let mut meters = [Meter::new(None, IdleActivity::default())];
        let pool = |store| self.pool(store, &corpus, task, start_barrier);
        let tally = if let Some(how) = &task.own {
            let own = ClientStore::get_or_create(own, self.post.rank(), &task.opening, &corpus)?;
            own.prepare(&stock, how.is_warm)?;
            let tally = self.done(&pool(own.store()?), &job, &mut meters)?;
            own.apply(&job);
            tally
        } else {
            let common = Common::new(task.opening.dir.clone());
            let store = joined(&task.opening, &common)?;
            stock_up(store.as_ref(), &corpus, &stock)?;
            let tally = self.done(&pool(store.as_ref()), &job, &mut meters)?;
            store.close().context("leaving the store failed")?;
            tally
        };
        let instant = *start_barrier.instant.lock().unwrap_or_else(PoisonError::into_inner);
        let instant = instant.context("it never began")?;
        Ok(JobResult { tally: tally.sent(instant)?, process_cpu_ns: meters[0].used().process_ns })
    }

    fn pool<'c>(
        &'c self,
        store: &'c dyn Store,
        corpus: &'c Corpus,
        task: &'c Task,
        start_barrier: &'c FollowerStartBarrier<'_, C>,
    ) -> WorkerPool<'c, C> {
        WorkerPool {
            one_transaction: task.one_transaction,
            start_barrier: Some(start_barrier),
            dir: &task.opening.dir,
            ..WorkerPool::new(self.clock, store, corpus, task.workers, self.stop)
        }
    }

    fn done(
        &self,
        pool: &WorkerPool<'_, C>,
        job: &Job,
        meters: &mut [Meter],
    ) -> Result<super::super::workers::tally::Tally> {
        Ok(pool.run(std::slice::from_ref(job), meters)?.remove(0))
    }

    fn tell_time(&self) -> Result<()> {
        self.say(&ClientReply::Pong { now: self.clock.now(), wall: (self.wall)() })
    }

    fn say(&self, answer: &ClientReply) -> Result<()> {
        self.post.send(0, &written(answer, &[])?)
    }

    fn hear(&self, spin: Duration) -> Result<Vec<u8>> {
        wait(self.post, 0, PATIENCE, spin, self.stop)
    }
}

/// The agreement with rank 0 on the start of one job.
struct FollowerStartBarrier<'a, C: Clock> {
    served: &'a ServingClient<'a, C>,
    instant: Mutex<Option<u64>>,
    is_asked: AtomicBool,
}

impl<C: Clock> FollowerStartBarrier<'_, C> {
    /// Waits for rank 0's decision: the start, or `None` if the job is called off.
    fn answer(&self) -> Result<Option<u64>> {
        let mut spin = SPIN;
        loop {
            let message = self.served.hear(spin)?;
            match read(&message)?.0 {
                ClientRequest::Ping => {
                    self.served.tell_time()?;
                    spin = SPIN_BETWEEN_PINGS;
                }
                ClientRequest::Begin(instant) => return Ok(Some(instant)),
                ClientRequest::GiveUp => return Ok(None),
                ClientRequest::Prepare { .. }
                | ClientRequest::Work(_)
                | ClientRequest::Leave { .. }
                | ClientRequest::End => {
                    bail!("rank 0 says something else than when to begin")
                }
            }
        }
    }
}

impl<C: Clock> StartBarrier for FollowerStartBarrier<'_, C> {
    fn agree(&self) -> Result<u64> {
        self.is_asked.store(true, Ordering::SeqCst);
        self.served.say(&ClientReply::Ready)?;
        let instant = self.answer()?.ok_or_else(|| anyhow!("another client was not ready"))?;
        *self.instant.lock().unwrap_or_else(PoisonError::into_inner) = Some(instant);
        Ok(instant)
    }
}

/// Joins a store that another process has opened, or opens one of this process's own.
fn joined(opening: &Opening, common: &Common) -> Result<Box<dyn Store>> {
    let mode = if opening.join_token.is_some() { Mode::Open } else { Mode::Create };
    let clients = opening.caps()?.clients;
    ensure!(
        opening.join_token.is_some() || clients == crate::store::ClientSupport::Each,
        "`{}` is not to be opened twice",
        opening.adapter
    );
    opening.open(&opening.dir, common, mode)
}

impl Opening {
    fn adapter(&self) -> Result<&'static Adapter> {
        let adapter = stores::adapters().find(|adapter| adapter.name == self.adapter);
        adapter.with_context(|| format!("this program was built without the store `{}`", self.adapter))
    }

    pub(super) fn caps(&self) -> Result<Capabilities> {
        Ok((self.adapter()?.caps)(&Options::new(self.options.clone())))
    }

    pub(super) fn open(&self, dir: &Path, common: &Common, mode: Mode) -> Result<Box<dyn Store>> {
        let options = Options::new(self.options.clone());
        let setup = Setup {
            dir,
            common,
            mode,
            durability: self.durability,
            cache_bytes: self.cache_bytes,
            fits: self.fits,
            blob_bytes_max: self.blob_bytes_max,
            store_bytes_max: self.store_bytes_max,
            keys_max: self.keys_max,
            workers: self.workers,
            op_timeout: self.op_timeout,
            options: &options,
            join_token: self.join_token.as_ref(),
        };
        Ok((self.adapter()?.open)(&setup)?)
    }
}

pub(super) type StoreChanges = Vec<PlannedOp>;
