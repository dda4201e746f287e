//! A process of another rank than 0: it does its part of every job, and judges nothing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::super::ops::PlannedOp;
use super::super::resources::{Idle, Meter};
use super::super::workers::clock::Clock;
use super::super::workers::crew::{Appointment, Crew, Job};
use super::message::{Answer, Introduction, Opening, Order, Report, Task, read, written};
use super::{SPIN_BETWEEN_PINGS, digest_of, stock_up};
use crate::corpus::Corpus;
use crate::host::ranks::{Post, SPIN, wait};
use crate::plan::PlanText;
use crate::result::CandidateResult;
use crate::store::{Common, Mode, Options, Setup, Store};
use crate::stores;

/// Rank 0 may fill and compare for hours between two orders.
const PATIENCE: Duration = Duration::from_secs(7 * 86_400);

/// A process that is told what to do.
pub struct Served<'a, C: Clock> {
    /// The way to rank 0.
    pub post: &'a dyn Post,
    /// Time.
    pub clock: &'a C,
    /// The system's clock: nanoseconds since 1970.
    pub wall: &'a (dyn Fn() -> i64 + Sync),
    /// Who this is.
    pub introduction: Introduction,
    /// Set from outside to end early.
    pub stop: &'a AtomicBool,
}

impl<C: Clock> Served<'_, C> {
    /// Does what rank 0 says until there is nothing more to do. An error where it was stopped, or rank 0 says what it does not know.
    pub fn serve(&self) -> Result<()> {
        self.say(&Answer::Here(self.introduction.clone()))?;
        let mut corpora = Vec::new();
        let mut spin = SPIN;
        loop {
            let message = self.hear(spin)?;
            spin = SPIN;
            match read(&message)? {
                (Order::End, _) => return Ok(()),
                (Order::Ping, _) => {
                    self.tell_time()?;
                    spin = SPIN_BETWEEN_PINGS;
                }
                (Order::Prepare { plan, candidates, dir, sign }, _) => match prepared(&plan, &candidates) {
                    Ok(made) => {
                        let digests = made.iter().map(digest_of).collect();
                        corpora = made;
                        self.say(&Answer::Prepared { digests, sees_directory: dir.join(sign).exists() })?;
                    }
                    Err(error) => self.say(&Answer::Cannot(format!("{error:#}")))?,
                },
                (Order::Work(task), ops) => {
                    let answer = match self.work(&corpora, &task, ops) {
                        Ok(report) => Answer::Done(Box::new(report)),
                        Err(error) => Answer::Cannot(format!("{error:#}")),
                    };
                    self.say(&answer)?;
                }
                (Order::Begin(_) | Order::GiveUp, _) => {
                    bail!("rank 0 says when to begin, and there is no job")
                }
            }
        }
    }

    /// Its part of a job. However that ends, rank 0 has been told whether it was ready, and has said what becomes of it.
    fn work(&self, corpora: &[Corpus], task: &Task, ops: &[u8]) -> Result<Report> {
        let appointment = Kept { served: self, instant: Mutex::new(None), is_asked: AtomicBool::new(false) };
        let outcome = self.counted(corpora, task, ops, &appointment);
        if let Err(error) = &outcome
            && !appointment.is_asked.load(Ordering::SeqCst)
        {
            self.say(&Answer::Cannot(format!("{error:#}")))?;
            appointment.answer()?;
        }
        outcome
    }

    fn counted(
        &self,
        corpora: &[Corpus],
        task: &Task,
        ops: &[u8],
        appointment: &Kept<'_, C>,
    ) -> Result<Report> {
        let whole = corpora.get(task.corpus).context("a corpus that was never announced")?;
        let corpus = whole.part(task.blobs);
        let (job, stock) = task.job(ops)?;
        let common = Common::new(task.opening.dir.clone());
        let store = joined(&task.opening, &common)?;
        let mut meters = [Meter::new(None, Idle::default())];
        let tally = {
            stock_up(store.as_ref(), &corpus, &stock)?;
            let crew = Crew {
                clock: self.clock,
                store: store.as_ref(),
                keys: &corpus.keys,
                contents: &corpus.contents,
                workers: task.workers,
                stranger: None,
                uploads: None,
                one_transaction: task.one_transaction,
                apart: None,
                appointment: Some(appointment),
                stop: self.stop,
            };
            self.done(&crew, &job, &mut meters)?
        };
        store.close().context("leaving the store failed")?;
        let instant = *appointment.instant.lock().unwrap_or_else(PoisonError::into_inner);
        let instant = instant.context("it never began")?;
        Ok(Report { tally: tally.sent(instant)?, process_cpu_ns: meters[0].used().process_ns })
    }

    fn done(
        &self,
        crew: &Crew<'_, C>,
        job: &Job,
        meters: &mut [Meter],
    ) -> Result<super::super::workers::tally::Tally> {
        Ok(crew.run(std::slice::from_ref(job), meters)?.remove(0))
    }

    fn tell_time(&self) -> Result<()> {
        self.say(&Answer::Pong { now: self.clock.now(), wall: (self.wall)() })
    }

    fn say(&self, answer: &Answer) -> Result<()> {
        self.post.send(0, &written(answer, &[])?)
    }

    fn hear(&self, spin: Duration) -> Result<Vec<u8>> {
        wait(self.post, 0, PATIENCE, spin, self.stop)
    }
}

/// The appointment with rank 0 for one job.
struct Kept<'a, C: Clock> {
    served: &'a Served<'a, C>,
    instant: Mutex<Option<u64>>,
    /// Whether rank 0 was told that this process is ready.
    is_asked: AtomicBool,
}

impl<C: Clock> Kept<'_, C> {
    /// Waits for what rank 0 says: the instant, or nothing where nobody is to begin.
    fn answer(&self) -> Result<Option<u64>> {
        let mut spin = SPIN;
        loop {
            let message = self.served.hear(spin)?;
            match read(&message)?.0 {
                Order::Ping => {
                    self.served.tell_time()?;
                    spin = SPIN_BETWEEN_PINGS;
                }
                Order::Begin(instant) => return Ok(Some(instant)),
                Order::GiveUp => return Ok(None),
                Order::Prepare { .. } | Order::Work(_) | Order::End => {
                    bail!("rank 0 says something else than when to begin")
                }
            }
        }
    }
}

impl<C: Clock> Appointment for Kept<'_, C> {
    fn agree(&self) -> Result<u64> {
        self.is_asked.store(true, Ordering::SeqCst);
        self.served.say(&Answer::Ready)?;
        let instant = self.answer()?.ok_or_else(|| anyhow!("another client was not ready"))?;
        *self.instant.lock().unwrap_or_else(PoisonError::into_inner) = Some(instant);
        Ok(instant)
    }
}

/// The corpora of a plan, made anew.
fn prepared(plan: &str, candidates: &[CandidateResult]) -> Result<Vec<Corpus>> {
    let design = PlanText::parse(plan)?.design(candidates)?;
    design.corpora.iter().map(|corpus| Corpus::build(&corpus.request)).collect()
}

/// Opens a store that another process has opened, or one of its own.
fn joined(opening: &Opening, common: &Common) -> Result<Box<dyn Store>> {
    let adapter = stores::adapters().find(|adapter| adapter.name == opening.adapter);
    let adapter =
        adapter.with_context(|| format!("this program was built without the store `{}`", opening.adapter))?;
    let options = Options::new(opening.options.clone());
    let setup = Setup {
        dir: Path::new(&opening.dir),
        common,
        mode: if opening.invitation.is_some() { Mode::Open } else { Mode::Create },
        durability: opening.durability,
        cache_bytes: opening.cache_bytes,
        fits: opening.fits,
        blob_bytes_max: opening.blob_bytes_max,
        store_bytes_max: opening.store_bytes_max,
        keys_max: opening.keys_max,
        workers: opening.workers,
        op_timeout: opening.op_timeout,
        options: &options,
        invitation: opening.invitation.as_ref(),
    };
    ensure!(
        setup.invitation.is_some() || (adapter.caps)(&options).clients == crate::store::Clients::Each,
        "`{}` is not to be opened twice",
        adapter.name
    );
    Ok((adapter.open)(&setup)?)
}

/// What a store of its own must hold before a job, as ops.
pub(super) type Stock = Vec<PlannedOp>;
