//! The engine's loop on the null store, to measure the overhead of the harness.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Result;

use super::ops::{OpDistribution, PlannedOp, State, lists};
use super::resources::{IdleActivity, Meter};
use super::workers::clock::Clock;
use super::workers::pool::{Job, WorkerPool};
use super::workers::tally::Tally;
use super::workers::worker::WorkerContext;
use crate::corpus::{Corpus, Sizes};
use crate::plan::{Length, OpKind, Order, Workload};
use crate::store::{Common, Durability, Mode, Options, Setup, Store};
use crate::stores;

/// A filled null store, with the blobs that it holds.
pub struct NullLoop {
    corpus: Corpus,
    store: Box<dyn Store>,
    state: State,
}

impl NullLoop {
    /// Fills a null store with `blobs` blobs of `blob_bytes` each.
    pub fn new(blobs: u64, blob_bytes: u64) -> Result<NullLoop> {
        NullLoop::with_sizes(blobs, |_| blob_bytes)
    }

    /// Fills a null store with blobs whose sizes depend on their ids.
    pub fn with_sizes(blobs: u64, blob_bytes: impl Fn(u64) -> u64) -> Result<NullLoop> {
        let mut corpus = Corpus::random("null", Sizes::Fixed(0), blobs, 1)?;
        // Sets sizes without contents: the null store keeps lengths only.
        corpus.sizes = (0..blobs).map(|id| blob_bytes(id) as u32).collect();
        let store = (stores::NULL.open)(&Setup {
            dir: Path::new("."),
            common: &Common::new(std::path::PathBuf::from(".")),
            mode: Mode::Create,
            durability: Durability::None,
            cache_bytes: 0,
            fits: true,
            blob_bytes_max: corpus.largest(),
            store_bytes_max: corpus.bytes(),
            keys_max: blobs,
            workers: 1,
            op_timeout: std::time::Duration::from_secs(1),
            options: &Options::default(),
            join_token: None,
        })?;
        let mut session = store.session()?;
        let blob = vec![0; corpus.largest() as usize];
        for (key, size) in corpus.keys.iter().zip(&corpus.sizes) {
            session.put(&key, &blob[..*size as usize])?;
        }
        drop(session);
        let mut state = State::empty(&corpus);
        state.alive.fill(true);
        Ok(NullLoop { corpus, store, state })
    }

    /// What a worker needs that gets its blobs one by one.
    pub fn context<'a, C: Clock>(&'a self, clock: &'a C, stop: &'a AtomicBool) -> WorkerContext<'a, C> {
        WorkerContext {
            clock,
            store: self.store.as_ref(),
            keys: &self.corpus.keys,
            contents: &self.corpus.contents,
            uploads: None,
            batch: 1,
            connect: false,
            one_transaction: false,
            evicts: false,
            sync: None,
            dir: Path::new(""),
            stop,
        }
    }

    /// Returns a list of as many gets as there are blobs.
    pub fn gets(&self, order: Order) -> Vec<PlannedOp> {
        let load = Workload { order, ..Workload::new(OpKind::Get, Length::Share(1.0)) };
        lists(&load, &self.state, self.corpus.blobs(), 1, OpDistribution::Own(1), 1).remove(0)
    }

    /// Does gets in uniform order, in whole passes, for at least `seconds`.
    pub fn read(&self, clock: &impl Clock, seconds: f64) -> Result<Tally> {
        let job = Job { nanoseconds: (seconds * 1e9) as u64, ..Job::once(vec![self.gets(Order::Uniform)]) };
        let stop = AtomicBool::new(false);
        let pool = WorkerPool::new(clock, self.store.as_ref(), &self.corpus, 1, &stop);
        let mut meters = [Meter::new(None, IdleActivity::default())];
        Ok(pool.run(&[job], &mut meters)?.remove(0))
    }

    /// Returns the mean time of one get, in nanoseconds.
    pub fn ns_per_op(&self, clock: &impl Clock, seconds: f64) -> Result<f64> {
        let tally = self.read(clock, seconds)?;
        Ok((tally.end - tally.begin) as f64 / tally.ops.max(1) as f64)
    }
}
