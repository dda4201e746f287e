//! Runs every test of one place in one round, in an order that their dependencies require.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::names::Names;
use super::{DiskTestOptions, TestTarget};
use crate::corpus::Corpus;
use crate::engine::blocks::{BLOCK_BYTES, BlockLayout, Blocks, PutMode, numbered};
use crate::engine::ops::{PlannedOp, derived_seed};
use crate::engine::resources::{IdleActivity, Meter};
use crate::engine::workers::clock::HostClock;
use crate::engine::workers::pool::{Job, WorkerPool};
use crate::engine::workers::tally::Tally;
use crate::host::machine;
use crate::host::place::remove_tree;
use crate::judge::histogram;
use crate::plan::{OpKind, SyncRule};
use crate::result::disk::{Absent, DeviceUse, Test, TestOperation, TestRound};
use crate::rules::{CACHED_SHARE, RESIDENT_SHARE_MAX};
use crate::store::Store;

/// What all places and rounds share.
pub struct TestContext {
    clock: HostClock,
    /// A key for each block and file.
    corpus: Corpus,
}

impl TestContext {
    /// Prepares keys for up to `blobs` blocks or files.
    pub fn new(blobs: u64) -> Result<TestContext> {
        Ok(TestContext { clock: HostClock::best(), corpus: numbered(blobs)? })
    }
}

/// The measurement of a test in one round, or why there is none.
pub type Outcome = std::result::Result<TestRound, Absent>;

/// The result of a test in one round.
pub struct TestOutcome {
    /// The test.
    pub test: Test,
    /// True if it used direct I/O, which bypasses the page cache.
    pub is_direct: bool,
    /// The measurement, or why there is none.
    pub outcome: Outcome,
}

/// One place in one round.
pub struct PlaceRound<'a> {
    /// The tests to run.
    pub asked: &'a DiskTestOptions,
    /// The shared parts.
    pub bench: &'a TestContext,
    /// The place.
    pub site: &'a TestTarget,
    /// The round, from 1.
    pub round: u32,
    /// True if random reads and writes use direct I/O.
    pub is_direct: bool,
    /// Set from outside to end early.
    pub stop: &'a AtomicBool,
    /// Called with the result of every test.
    pub each: &'a mut dyn FnMut(TestOutcome),
}

struct TestLoad<'a> {
    test: Test,
    kind: OpKind,
    /// Ids of blocks or files, in the order of their use.
    ids: &'a [u32],
    /// Bytes that each op must read.
    len: u32,
    ends: TestEnd,
    is_direct: bool,
    /// Share of the file that was cached before the test, if it was measured.
    resident: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestEnd {
    /// After each id was used once.
    WithIds,
    /// After the duration asked for; ids are used repeatedly.
    InTime,
    /// After each id was used once or after the duration, whichever comes first.
    WithIdsOrInTime,
}

/// Deals the ids of a test to its workers in rotation.
fn dealt(load: &TestLoad) -> Vec<Vec<PlannedOp>> {
    let op = |id: &u32| PlannedOp { blob: *id, kind: load.kind, len: load.len, generation: 0, offset: 0 };
    let threads = load.test.threads as usize;
    (0..threads).map(|worker| load.ids.iter().skip(worker).step_by(threads).map(op).collect()).collect()
}

/// Returns `count` positions from the start of a device to its end, in per cent.
fn positions(count: u32) -> Vec<u8> {
    (0..count).map(|place| if count > 1 { (100 * place / (count - 1)) as u8 } else { 0 }).collect()
}

impl PlaceRound<'_> {
    /// Runs all tests, or returns early if stopped.
    pub fn go(&mut self) -> Result<()> {
        if let Some(bytes) = self.site.device_bytes {
            return self.device(bytes / BLOCK_BYTES as u64);
        }
        self.within("file", |visit, dir| visit.blocks(dir))?;
        let in_order = [TestOperation::Create, TestOperation::Stat, TestOperation::Delete];
        self.within("in-order", |visit, dir| visit.names(dir, in_order, false))?;
        let at_random = [TestOperation::CreateRandom, TestOperation::StatRandom, TestOperation::DeleteRandom];
        self.within("at-random", |visit, dir| visit.names(dir, at_random, true))
    }

    /// Runs tests in a directory of their own, so that files deleted by one test do not affect those created by another.
    fn within(&mut self, name: &str, tests: impl FnOnce(&mut Self, &Path) -> Result<()>) -> Result<()> {
        let dir = self.site.path.join(name);
        std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let outcome = tests(self, &dir);
        let removed = remove_tree(&dir);
        outcome.and(removed)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn shuffled(&self, ids: &[u32], purpose: &str) -> Vec<u32> {
        let mut ids = ids.to_vec();
        ids.shuffle(&mut SmallRng::seed_from_u64(derived_seed(self.asked.seed, self.round, purpose)));
        ids
    }

    /// Reads a device of `blocks` blocks: sequentially from several positions, and at random all over it.
    fn device(&mut self, blocks: u64) -> Result<()> {
        let known = self.bench.corpus.blobs();
        let ids: Vec<u32> = (0..known.min(blocks) as u32).collect();
        // The blocks read from one position do not reach the next one.
        let at_once = (ids.len() as u64).min(blocks / u64::from(self.asked.positions)).max(1);
        for percent in positions(self.asked.positions) {
            // The last position is such that its blocks end where the device does.
            let first = (blocks - at_once) * u64::from(percent) / 100;
            let load = self.load(TestOperation::ReadAt(percent), 1, OpKind::Get, &ids[..at_once as usize]);
            machine::evict_file(&self.site.path);
            self.on_device(
                BlockLayout::OnDevice { first, step: 1 },
                &TestLoad { ends: TestEnd::WithIdsOrInTime, ..load },
            )?;
        }
        for threads in self.asked.threads.clone() {
            let order = self.shuffled(&ids, &format!("device {threads}"));
            let load = self.load(TestOperation::RandomRead, threads, OpKind::Get, &order);
            let step = blocks / ids.len() as u64;
            self.on_device(
                BlockLayout::OnDevice { first: 0, step },
                &TestLoad { ends: TestEnd::InTime, is_direct: true, ..load },
            )?;
        }
        Ok(())
    }

    fn on_device(&mut self, lie: BlockLayout, load: &TestLoad) -> Result<()> {
        let path = self.site.path.clone();
        self.one(&Blocks { path, put: PutMode::Write, is_direct: load.is_direct, lie }, load)
    }

    fn blocks(&mut self, dir: &Path) -> Result<()> {
        let path = dir.join("file");
        std::fs::File::create_new(&path).with_context(|| format!("cannot make `{}`", path.display()))?;
        let ids: Vec<u32> = (0..(self.asked.file_bytes / BLOCK_BYTES as u64) as u32).collect();
        let write = self.load(TestOperation::Write, 1, OpKind::Put, &ids);
        self.on_file(&path, PutMode::Write, write)?;
        // In the same order as fio's tests.
        self.cold(dir, &path, PutMode::Write, TestOperation::Read, &ids)?;
        self.cached(dir, &path, &ids)?;
        for threads in self.asked.threads.clone() {
            self.random(dir, &path, threads, &ids)?;
        }
        let flush =
            TestLoad { ends: TestEnd::InTime, ..self.load(TestOperation::Flush, 1, OpKind::Put, &ids) };
        self.on_file(&path, PutMode::Flush, flush)?;
        // Comes last, because a device may stay busy with the file it was given.
        self.cold(dir, &path, PutMode::Rewrite, TestOperation::Rewrite, &ids)
    }

    fn load<'l>(&self, what: TestOperation, threads: u32, kind: OpKind, ids: &'l [u32]) -> TestLoad<'l> {
        let len = if kind.reads() { BLOCK_BYTES as u32 } else { 0 };
        TestLoad {
            test: Test { what, threads },
            kind,
            ids,
            len,
            ends: TestEnd::WithIds,
            is_direct: false,
            resident: None,
        }
    }

    /// Runs a sequential test on a file that is not cached. There is no figure if the kernel reports that it is.
    fn cold(
        &mut self,
        dir: &Path,
        path: &Path,
        put: PutMode,
        what: TestOperation,
        ids: &[u32],
    ) -> Result<()> {
        let kind = if put == PutMode::Rewrite { OpKind::Put } else { OpKind::Get };
        let load = self.load(what, 1, kind, ids);
        let resident = self.evict(dir)?;
        if resident > RESIDENT_SHARE_MAX {
            self.absent(&load, Absent::StillCached { share: resident });
            return Ok(());
        }
        self.on_file(path, put, TestLoad { resident: Some(resident), ..load })
    }

    fn cached(&mut self, dir: &Path, path: &Path, ids: &[u32]) -> Result<()> {
        let load =
            TestLoad { ends: TestEnd::InTime, ..self.load(TestOperation::ReadCached, 1, OpKind::Get, ids) };
        let resident = machine::resident_share(dir);
        if resident < CACHED_SHARE {
            self.absent(&load, Absent::NotCached { share: resident });
            return Ok(());
        }
        self.on_file(path, PutMode::Write, TestLoad { resident: Some(resident), ..load })
    }

    /// Reads, then writes at random, with direct I/O if the file system supports it.
    fn random(&mut self, dir: &Path, path: &Path, threads: u32, ids: &[u32]) -> Result<()> {
        let is_direct = self.is_direct;
        for (what, kind) in
            [(TestOperation::RandomRead, OpKind::Get), (TestOperation::RandomWrite, OpKind::Put)]
        {
            let order = self.shuffled(ids, &format!("{} {threads}", what.name()));
            let load =
                TestLoad { ends: TestEnd::InTime, is_direct, ..self.load(what, threads, kind, &order) };
            let resident = self.evict(dir)?;
            if !is_direct && resident > RESIDENT_SHARE_MAX {
                self.absent(&load, Absent::StillCached { share: resident });
                continue;
            }
            self.on_file(path, PutMode::Write, TestLoad { resident: Some(resident), ..load })?;
        }
        Ok(())
    }

    /// Asks the kernel to evict the file from its cache, and returns the share of it that is still cached.
    fn evict(&self, dir: &Path) -> Result<f64> {
        machine::sync_filesystem(dir)?;
        machine::evict(dir);
        Ok(machine::resident_share(dir))
    }

    fn on_file(&mut self, path: &Path, put: PutMode, load: TestLoad) -> Result<()> {
        let store =
            Blocks { path: PathBuf::from(path), put, is_direct: load.is_direct, lie: BlockLayout::InFile };
        self.one(&store, &load)
    }

    /// Runs the tests on many empty files: creates, looks up and deletes them.
    fn names(&mut self, dir: &Path, tests: [TestOperation; 3], is_random: bool) -> Result<()> {
        let ids: Vec<u32> = (0..self.asked.files as u32).collect();
        let store = Names::new(dir, self.asked.files)?;
        for (what, kind) in tests.into_iter().zip([OpKind::Put, OpKind::Get, OpKind::Delete]) {
            let order = if is_random { self.shuffled(&ids, what.name()) } else { ids.clone() };
            // Lookups change nothing and would be over too soon, so they are repeated.
            let ends = if kind == OpKind::Get { TestEnd::InTime } else { TestEnd::WithIds };
            let load = TestLoad { len: 0, ends, ..self.load(what, 1, kind, &order) };
            self.one(&store, &load)?;
        }
        Ok(())
    }

    fn absent(&mut self, load: &TestLoad, why: Absent) {
        (self.each)(TestOutcome { test: load.test, is_direct: load.is_direct, outcome: Err(why) });
    }

    /// Runs a test in the engine's own loop and reports its result.
    fn one(&mut self, store: &dyn Store, load: &TestLoad) -> Result<()> {
        if self.is_stopped() {
            return Ok(());
        }
        if self.site.device_bytes.is_none() {
            machine::sync_filesystem(&self.site.path)?;
        }
        let mut meters = [Meter::new(self.site.device.as_ref(), IdleActivity::default())];
        let job = self.job(load);
        let mut tallies = self.pool(store, load).run(&[job], &mut meters)?;
        // A test that was ended early has no figure.
        if self.is_stopped() {
            return Ok(());
        }
        let tally = tallies.remove(0);
        match tally.counters.first_error.clone() {
            Some(error) => self.absent(load, Absent::Failed { error }),
            None => {
                let round = self.round_of(&tally, load, &meters[0])?;
                (self.each)(TestOutcome { test: load.test, is_direct: load.is_direct, outcome: Ok(round) });
            }
        }
        Ok(())
    }

    fn job(&self, load: &TestLoad) -> Job {
        /// Ops between two checks of the duration.
        const BETWEEN: usize = 16;
        let nanoseconds = (self.asked.seconds * 1e9) as u64;
        let lists = dealt(load);
        let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
        // A test that flushes each op needs no flush at the end.
        let syncs = !load.kind.reads() && load.test.what != TestOperation::Flush;
        Job {
            passes: if load.ends == TestEnd::WithIds { 1 } else { longest.div_ceil(BETWEEN) },
            nanoseconds: if load.ends == TestEnd::InTime { nanoseconds } else { 0 },
            enough_ns: nanoseconds,
            sync: syncs.then_some(SyncRule::AT_THE_END),
            first_apart: false,
            ..Job::once(lists)
        }
    }

    fn pool<'c>(&'c self, store: &'c dyn Store, load: &TestLoad) -> WorkerPool<'c, HostClock> {
        let workers = load.test.threads as usize;
        WorkerPool {
            dir: &self.site.path,
            ..WorkerPool::new(&self.bench.clock, store, &self.bench.corpus, workers, self.stop)
        }
    }

    fn round_of(&self, tally: &Tally, load: &TestLoad, meter: &Meter) -> Result<TestRound> {
        let device = meter.used().device.map(|used| DeviceUse {
            reads: used.reads,
            read_bytes: used.read_bytes,
            writes: used.writes,
            written_bytes: used.written_bytes,
            flushes: used.flushes,
        });
        Ok(TestRound {
            round: self.round,
            ops: tally.ops,
            seconds: tally.seconds(load.test.threads as usize),
            cpu_ns: Some(tally.cpu_ns),
            device,
            resident: load.resident,
            times: Some(histogram::encode(&tally.service())?),
        })
    }
}
