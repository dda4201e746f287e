//! The null store in the loop: what the harness itself costs.

use std::sync::atomic::AtomicBool;

use anyhow::Result;

use super::clock::Clock;
use super::crew::{Crew, Job};
use super::ops::{Deal, State, lists};
use super::resources::{Idle, Meter};
use super::tally::Tally;
use crate::corpus::{Content, Corpus, Request, Sizes, Source};
use crate::plan::{Length, Load, OpKind, Order, RangeRule, Use};
use crate::store::{Durability, Mode, Options, Setup, Store};
use crate::stores;

/// A filled null store and the blobs it was filled with.
pub struct Yardstick {
    corpus: Corpus,
    store: Box<dyn Store>,
    state: State,
}

impl Yardstick {
    /// A null store with this many blobs of one size.
    pub fn new(blobs: u64, blob_bytes: u64) -> Result<Yardstick> {
        let corpus = Corpus::build(&Request {
            source: Source::Synthetic {
                name: "yardstick".to_owned(),
                sizes: Sizes::Fixed(blob_bytes),
                content: Content::Random,
            },
            blobs_max: Some(blobs),
            bytes_max: None,
            seed: 1,
        })?;
        let store = (stores::NULL.open)(&Setup {
            dir: std::path::Path::new("."),
            cache_dir: std::path::Path::new("."),
            mode: Mode::Create,
            durability: Durability::None,
            cache_bytes: 0,
            blob_bytes_max: blob_bytes,
            store_bytes_max: corpus.bytes(),
            keys_max: blobs,
            workers: 1,
            op_timeout: std::time::Duration::from_secs(1),
            options: &Options::default(),
        })?;
        let mut session = store.session()?;
        let blob = vec![0; blob_bytes as usize];
        for key in &corpus.keys {
            session.put(key, &blob)?;
        }
        drop(session);
        let mut state = State::empty(&corpus);
        state.alive.fill(true);
        Ok(Yardstick { corpus, store, state })
    }

    /// Gets in uniform order, in whole passes for at least this long.
    pub fn read(&self, clock: &impl Clock, seconds: f64, use_bytes: Use) -> Result<Tally> {
        let load = Load {
            mix: vec![(OpKind::Get, 1.0)],
            order: Order::Uniform,
            range: RangeRule::Head(0),
            length: Length::Seconds(seconds),
            use_bytes,
            repeats: None,
            workers: None,
            batch: None,
            rate: None,
        };
        let job = Job {
            lists: lists(&load, &self.state, self.corpus.blobs(), Deal::Own(1), 1),
            nanoseconds: (seconds * 1e9) as u64,
            open: None,
            use_bytes,
            batch: 1,
            connect: false,
            sync: None,
            first_apart: true,
        };
        let stop = AtomicBool::new(false);
        let crew = Crew {
            clock,
            store: self.store.as_ref(),
            keys: &self.corpus.keys,
            contents: &self.corpus.contents,
            workers: 1,
            stranger: None,
            stop: &stop,
        };
        let mut meters = [Meter::new(None, Idle::default())];
        Ok(crew.run(&[job], &mut meters)?.remove(0))
    }

    /// Nanoseconds of one get.
    pub fn ns_per_op(&self, clock: &impl Clock, seconds: f64) -> Result<f64> {
        let tally = self.read(clock, seconds, Use::Touch)?;
        Ok((tally.end - tally.begin) as f64 / tally.ops.max(1) as f64)
    }
}
