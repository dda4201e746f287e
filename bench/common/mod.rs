//! What the side-by-side runs share: a filled store, our side of the comparison, and the comparison itself.
//!
//! Ours and theirs take turns in one run, and change places every turn, so that a machine that slows down slows both. The
//! ratio is given with the interval that reports use, over the turns.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use blobwise::corpus::{Corpus, Sizes};
use blobwise::engine::ops::{OpDistribution, PlannedOp, State, lists};
use blobwise::engine::resources::{IdleActivity, Meter};
use blobwise::engine::workers::clock::HostClock;
use blobwise::engine::workers::pool::{Job, WorkerPool};
use blobwise::engine::workers::tally::Tally;
use blobwise::host::place::Place;
use blobwise::judge::interval::{self, paired_ratio, rate};
use blobwise::plan::{Candidate, Length, OpKind, Order, Sets, Workload, candidates};
use blobwise::store::{Common, Durability, Mode, Setup, Store};

/// Turns of each side.
pub const TURNS: usize = 12;
/// Length of a turn, at least.
pub const TURN_SECONDS: f64 = 0.5;

/// What one side did in one turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Ops.
    pub ops: u64,
    /// Wall time.
    pub seconds: f64,
    /// Processor time of the side itself, without a server's.
    pub cpu_seconds: f64,
}

impl Turn {
    fn per_second(&self) -> f64 {
        self.ops as f64 / self.seconds
    }

    fn per_cpu_second(&self) -> f64 {
        self.ops as f64 / self.cpu_seconds
    }
}

/// A store with blobs in it, and ops to be done on it.
pub struct Bed {
    /// What the store was filled with.
    pub corpus: Corpus,
    /// The open store.
    pub store: Box<dyn Store>,
    /// Gets of whole blobs.
    pub gets: Vec<PlannedOp>,
    /// Time.
    pub clock: HostClock,
    place: Place,
}

impl Bed {
    /// Opens a store below the current directory and puts blobs of these sizes into it. `gets` of them are planned.
    pub fn make(store: &str, sizes: Sizes, blobs: u64, order: Order, gets: u64) -> Result<Bed> {
        let mut bed = Bed::empty(store, sizes, blobs)?;
        let mut state = State::empty(&bed.corpus);
        fill(bed.store.as_ref(), &bed.corpus, &mut state)?;
        bed.gets = lists(&load(order), &state, gets, 1, OpDistribution::Own(1), 1).remove(0);
        Ok(bed)
    }

    /// The same with nothing in it, and no gets.
    pub fn empty(store: &str, sizes: Sizes, blobs: u64) -> Result<Bed> {
        Bed::with_corpus(store, Corpus::random("bench", sizes, blobs, 1)?)
    }

    /// The same for the blobs of a corpus.
    pub fn with_corpus(store: &str, corpus: Corpus) -> Result<Bed> {
        let place = Place::make(Path::new("."))?;
        let dir = place.path().join("store");
        std::fs::create_dir(&dir)?;
        let (candidates, _) = candidates(&[store.to_owned()], &Sets::new(), true)?;
        let candidate = candidates.first().context("no candidate")?;
        let classes = (candidate.adapter.caps)(&candidate.options).durability;
        let class = classes.iter().rfind(|class| **class <= Durability::OnSync);
        let store = open(candidate, &dir, &corpus, *class.context("no durability class")?)?;
        Ok(Bed { corpus, store, gets: Vec::new(), clock: HostClock::best(), place })
    }

    /// The directory of the store.
    pub fn dir(&self) -> std::path::PathBuf {
        self.place.path().join("store")
    }

    /// Our side: the engine, with all that it measures in a run.
    pub fn ours(&self) -> Result<Turn> {
        self.run(self.store.as_ref(), self.gets.clone(), TURN_SECONDS)
    }

    /// Ops on a store, by the engine: the whole list, again and again for at least so many seconds.
    pub fn run(&self, store: &dyn Store, list: Vec<PlannedOp>, seconds: f64) -> Result<Turn> {
        self.run_by(store, vec![list], seconds)
    }

    /// The same by as many workers as there are lists.
    pub fn run_by(&self, store: &dyn Store, lists: Vec<Vec<PlannedOp>>, seconds: f64) -> Result<Turn> {
        let workers = lists.len();
        let job = Job { nanoseconds: (seconds * 1e9) as u64, ..Job::once(lists) };
        let tally = self.do_job(store, job, workers)?;
        Ok(Turn {
            ops: tally.ops,
            seconds: (tally.end - tally.begin) as f64 / 1e9,
            cpu_seconds: tally.cpu_ns as f64 / 1e9,
        })
    }

    /// A job on a store, by the engine and this many workers. Fails if an op does.
    pub fn do_job(&self, store: &dyn Store, job: Job, workers: usize) -> Result<Tally> {
        let stop = AtomicBool::new(false);
        let crew = WorkerPool::new(&self.clock, store, &self.corpus, workers, &stop);
        let tally = crew.run(&[job], &mut [Meter::new(None, IdleActivity::default())])?.remove(0);
        if tally.counters.errors > 0 {
            bail!("our side failed: {}", tally.counters.first_error.unwrap_or_default());
        }
        Ok(tally)
    }
}

/// Makes a store in an empty directory.
pub fn open(
    candidate: &Candidate,
    dir: &Path,
    corpus: &Corpus,
    durability: Durability,
) -> Result<Box<dyn Store>> {
    Ok((candidate.adapter.open)(&Setup {
        dir,
        common: &Common::new(dir.with_file_name("cache")),
        mode: Mode::Create,
        durability,
        cache_bytes: 64 << 20,
        fits: true,
        blob_bytes_max: corpus.largest(),
        store_bytes_max: corpus.bytes() * 2 + corpus.largest() * 4,
        keys_max: corpus.blobs() + 1,
        workers: 1,
        op_timeout: Duration::from_secs(30),
        options: &candidate.options,
        join_token: None,
    })?)
}

/// Puts all blobs of a corpus into a store.
pub fn fill(store: &dyn Store, corpus: &Corpus, state: &mut State) -> Result<()> {
    let mut session = store.session()?;
    let mut room = Vec::new();
    for (key, len) in corpus.keys.iter().zip(&corpus.sizes) {
        session.put(&key, corpus.contents.blob(key.id, 0, u64::from(*len), &mut room))?;
    }
    session.sync()?;
    drop(session);
    store.settle()?;
    state.alive.fill(true);
    Ok(())
}

fn load(order: Order) -> Workload {
    Workload { order, ..Workload::new(OpKind::Get, Length::Pilot) }
}

/// A line of the comparison, and the share of their rate that ours is to be at least.
pub type Goal = (&'static str, f64);

/// A goal of the side's own processor time.
pub const PER_CPU_SECOND: Goal = ("ops per CPU second", 0.95);
/// A goal of wall time.
pub const PER_SECOND: Goal = ("ops per second", 0.95);

/// Lets the two sides take turns and prints how they compare; returns whether the goal is met.
pub fn compare(
    title: &str,
    goal: Option<Goal>,
    mut ours: impl FnMut() -> Result<Turn>,
    mut theirs: impl FnMut() -> Result<Turn>,
) -> Result<bool> {
    // The first turns bring everything into the caches.
    ours()?;
    theirs()?;
    let (mut us, mut them) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        if turn % 2 == 0 {
            us.push(ours()?);
            them.push(theirs()?);
        } else {
            them.push(theirs()?);
            us.push(ours()?);
        }
    }
    println!("{title} ({TURNS} turns each)");
    let mut met = true;
    for (what, value) in
        [(PER_CPU_SECOND.0, Turn::per_cpu_second as fn(&Turn) -> f64), (PER_SECOND.0, Turn::per_second)]
    {
        let ratio = line(what, &us, &them, value)?;
        if let Some((_, share_min)) = goal.filter(|(line, _)| *line == what) {
            met = ratio >= share_min;
            let verdict = if met { "met" } else { "missed" };
            println!("    goal: at least {share_min:.3}: {ratio:.3}, {verdict}");
        }
    }
    let ns = |turns: &[Turn], rate: fn(&Turn) -> f64| {
        turns.iter().map(|turn| 1e9 / rate(turn)).sum::<f64>() / turns.len() as f64
    };
    for (what, rate) in [
        ("time of an op", Turn::per_second as fn(&Turn) -> f64),
        ("processor time of an op, in the client", Turn::per_cpu_second),
    ] {
        println!("  {what}: {:.0} ns / {:.0} ns", ns(&us, rate), ns(&them, rate));
    }
    println!();
    Ok(met)
}

fn line(what: &str, us: &[Turn], them: &[Turn], value: fn(&Turn) -> f64) -> Result<f64> {
    let (us, them): (Vec<f64>, Vec<f64>) = (us.iter().map(value).collect(), them.iter().map(value).collect());
    let ratio = paired_ratio(&us, &them).context("no ratio")?;
    let middle = |values: &[f64]| rate(values).map_or(f64::NAN, |rate| rate.median);
    println!(
        "  {what:<19} ours / theirs {} ({:.0} / {:.0})",
        interval::text(&ratio),
        middle(&us),
        middle(&them)
    );
    Ok(ratio.median)
}
