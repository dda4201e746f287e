//! Phases within a visit: what each kind of load does, and what it leaves in the record of the round.

use anyhow::{Context as _, Result, anyhow, bail};

use super::super::ops::{Deal, PlannedOp, ageing, by_blob, derived_seed, hot_share, left_out, lists};
use super::super::ramp;
use super::super::resources::{Meter, free_bytes};
use super::super::workers::clock::HostClock;
use super::super::workers::crew::{Crew, Job, Open};
use super::super::workers::tally::Tally;
use super::super::workers::worker;
use super::{Outcome, UploadDesk, Visitor};
use crate::host::machine;
use crate::judge::SHORT_SECONDS;
use crate::judge::histogram::{self, BANDS};
use crate::plan::{CacheState, Load, OpKind, Order, Phase, Work};
use crate::result::{CacheProof, FixedLength, HotShare, OpenLoop, Round};
use crate::rules::SHORT_OPS;
use crate::store::{Durability, Mode, Store};

/// Looking at the residency of more files than this after every phase would take longer than the phases.
const RESIDENCY_BLOBS_MAX: u64 = 20_000;
/// An open loop is planned this much longer than asked: its last op is due before its end, and would make it too short.
const OPEN_STRETCH: f64 = 1.1;
/// A phase that opens the store does so this often, or for this long, whichever comes first; neither makes it too short.
const REOPENS: u64 = SHORT_OPS;
/// See [`REOPENS`].
const REOPEN_SECONDS: f64 = SHORT_SECONDS;

/// Disk that a store takes, in bytes, and what of it is known apart.
pub(super) struct Taken {
    pub(super) all: u64,
    directories: Option<u64>,
    logs: Option<u64>,
}

impl<'a> Visitor<'a> {
    pub(super) fn work(&mut self, phase: &Phase, repeat: Option<&Phase>) -> Result<()> {
        match &phase.work {
            Work::Reopen => self.reopen(phase)?,
            Work::Purge => self.purge(phase)?,
            Work::Age(times) => self.age(phase, *times)?,
            Work::Ramp(load) => self.ramp(phase, load)?,
            Work::Ops(load) if phase.cache == CacheState::Cold => self.cold(phase, load, repeat)?,
            Work::Ops(load) => {
                let mut proof = None;
                match phase.cache {
                    CacheState::Warm => self.warm_up()?,
                    CacheState::ColdStart => {
                        let mut looked = CacheProof::default();
                        self.evict(self.class(phase.class), true, &mut looked)?;
                        proof = Some(looked);
                    }
                    CacheState::Cold | CacheState::AsIs => {}
                }
                self.load(phase, load)?;
                if let Some(Outcome::Measured(round)) = self.visit.phases.get_mut(&phase.id) {
                    round.cache_proof = proof;
                }
            }
        }
        Ok(())
    }

    pub(super) fn length(&self, phase: &Phase) -> Result<FixedLength> {
        let key = self.subject.corpus_id.key(&phase.id);
        self.fixed.lengths.get(&key).copied().ok_or_else(|| anyhow!("the pilot fixed no length for `{key}`"))
    }

    /// What the keys of a phase are drawn from: the same for every store of a round.
    pub(super) fn seed(&self, phase: &Phase, load: &Load) -> u64 {
        let purpose = load.repeats.as_deref().unwrap_or(&phase.id);
        derived_seed(self.plan().seed, self.turn.round, &self.subject.corpus_id.key(purpose))
    }

    pub(super) fn new_round(&self, seed: u64) -> Round {
        Round { round: self.turn.round, position: self.turn.position, seed, ..Round::default() }
    }

    pub(super) fn job(
        &self,
        load: &Load,
        lists: Vec<Vec<PlannedOp>>,
        length: FixedLength,
        class: Durability,
    ) -> Job {
        Job {
            lists,
            passes: length.passes.max(1) as usize,
            nanoseconds: (length.seconds * 1e9) as u64,
            open: None,
            use_bytes: load.use_bytes,
            batch: self.plan().batch_of(load),
            connect: self.connects(load.only_reads()),
            sync: (class == Durability::OnSync).then_some(self.plan().sync),
            first_apart: true,
        }
    }

    pub(super) fn crew<'s>(&'s self, store: &'s dyn Store, workers: usize) -> Crew<'s, HostClock> {
        let corpus = self.subject.corpus;
        Crew {
            clock: &self.run.clock,
            store,
            keys: &corpus.keys,
            contents: &corpus.contents,
            workers,
            stranger: None,
            uploads: None,
            one_transaction: false,
            stop: self.run.stop,
        }
    }

    pub(super) fn meter(&self) -> Meter<'a> {
        // Nothing is known of the device of a server that somebody else runs.
        let device = self.run.device.as_ref().filter(|_| !self.is_external());
        Meter::new(device, self.turn.idle)
    }

    /// How few blobs had most of so many ops of lists, where some are asked for more than others. To be asked before the lists change
    /// the state.
    pub(super) fn hot(&self, load: &Load, lists: &[Vec<PlannedOp>], done: u64) -> Option<HotShare> {
        matches!(load.order, Order::Zipfian(_)).then(|| hot_share(lists, done, &self.state)).flatten()
    }

    /// Whether the row connects anew for every op of a phase.
    fn connects(&self, only_reads: bool) -> bool {
        self.subject.row.traits().connects.anew(only_reads)
    }

    /// Whether all reads of a worker are one transaction in a phase.
    fn is_one_transaction(&self, phase: &Phase) -> bool {
        self.plan().is_one_transaction(self.subject.row, phase, self.subject.corpus_id)
    }

    /// Whether the store is a server of the user's.
    fn is_external(&self) -> bool {
        self.subject.row.traits().is_external
    }

    /// A phase of ops in whatever state the caches are.
    fn load(&mut self, phase: &Phase, load: &Load) -> Result<()> {
        let (plan, length, seed) = (self.plan(), self.length(phase)?, self.seed(phase, load));
        let workers = load.workers.unwrap_or(plan.workers);
        if load.has_uploads() {
            self.open_desk()?;
        }
        let rate = load.rate.or(plan.rate).filter(|_| phase.id != "fill");
        let deal = if rate.is_some() { Deal::Shared } else { Deal::Own(workers) };
        let batch = plan.batch_of(load);
        let lists = lists(load, &self.state, length.ops, batch, deal, seed);
        let ops: u64 = lists.iter().map(|list| list.len() as u64).sum();
        if load.puts_all() {
            self.put_singly(load, left_out(&lists, &self.state))?;
        }
        if ops == 0 {
            let why = match batch {
                1 => "the store holds nothing that this phase could use".to_owned(),
                _ => format!("has fewer blobs to use than a batch of {batch}, and a batch is whole"),
            };
            return self.not_possible(phase, why);
        }
        let mut job = self.job(load, lists, length, self.store()?.1);
        job.open = rate.map(|ops_per_s| {
            let batches = ops.div_ceil(job.batch as u64);
            // Reads go on for as long as planned; a fixed list ends with its last op.
            let (seconds, ops_max) = if load.only_reads() && length.seconds > 0.0 {
                (length.seconds * OPEN_STRETCH, u64::MAX)
            } else {
                (f64::INFINITY, batches)
            };
            Open { arrivals: plan.arrivals, ops_per_s, seconds, ops_max, seed }
        });
        machine::reset_peak();
        let mut meters = [self.meter()];
        let tally = {
            let (store, _) = self.store()?;
            let uploads = self.desk.as_ref().filter(|_| load.has_uploads()).map(UploadDesk::uploads);
            let one_transaction = self.is_one_transaction(phase);
            let crew = Crew { uploads, one_transaction, ..self.crew(store, workers) };
            crew.run(std::slice::from_ref(&job), &mut meters)?.remove(0)
        };
        let mut round = self.new_round(seed);
        round.hot = self.hot(load, &job.lists, tally.blobs);
        job.lists.iter().flatten().for_each(|op| self.state.apply(op));
        round.seconds = tally.seconds(workers);
        round.bytes = tally.bytes;
        let [mut meter] = meters;
        if phase.writes() {
            self.settle(phase, &mut meter, &mut round)?;
        }
        round.open = rate.map(|rate| open_loop(rate, &tally));
        self.measured(phase, round, &tally, &meter)
    }

    /// Puts what makes no whole batch, off every clock, and settles it, so that nothing of it is left to the phase.
    fn put_singly(&mut self, load: &Load, ops: Vec<PlannedOp>) -> Result<()> {
        if ops.is_empty() {
            return Ok(());
        }
        let (store, class) = self.store()?;
        let job = Job { batch: 1, ..self.job(load, vec![ops], FixedLength::default(), class) };
        let mut meters = [self.meter()];
        let tally = self.crew(store, 1).run(std::slice::from_ref(&job), &mut meters)?.remove(0);
        if let Some(first) = tally.first_error {
            bail!("putting the blobs that make no whole batch: {first}");
        }
        store.settle().context("settling failed")?;
        machine::sync_filesystem(&self.dir)?;
        job.lists.iter().flatten().for_each(|op| self.state.apply(op));
        Ok(())
    }

    /// One offered rate after the other. In the pilot, which fixes where the ladder begins, a closed loop.
    fn ramp(&mut self, phase: &Phase, load: &Load) -> Result<()> {
        self.warm_up()?;
        let (plan, length, seed) = (self.plan(), self.length(phase)?, self.seed(phase, load));
        let Some(first) = length.first_ops_per_s else { return self.load(phase, load) };
        let workers = load.workers.unwrap_or(plan.workers);
        let lists = lists(load, &self.state, length.ops, plan.batch_of(load), Deal::Shared, seed);
        machine::reset_peak();
        let (store, class) = self.store()?;
        let crew = Crew { one_transaction: self.is_one_transaction(phase), ..self.crew(store, workers) };
        let mut job = self.job(load, lists, length, class);
        let (rungs, best) = ramp::climb(&plan.limit, first, |ops_per_s| -> Result<_> {
            if self.run.stopped() {
                return Ok(None);
            }
            let seconds = ramp::rung_seconds(&plan.limit, length.seconds, ops_per_s);
            job.open = Some(Open { arrivals: plan.arrivals, ops_per_s, seconds, ops_max: u64::MAX, seed });
            let mut meters = [self.meter()];
            let tally = crew.run(std::slice::from_ref(&job), &mut meters)?.remove(0);
            let rung = ramp::judge(&plan.limit, ops_per_s, &tally);
            let [meter] = meters;
            let is_hopeless = ramp::is_hopeless(&plan.limit, &tally.service());
            Ok(Some(ramp::Offered { rung, is_hopeless, left: (ops_per_s, tally, meter) }))
        })?;
        match best {
            Some((ops_per_s, tally, meter)) => {
                let mut round = self.new_round(seed);
                // What passed is the rate that was offered, not the one that chance made of it.
                round.seconds = tally.ops as f64 / ops_per_s;
                round.hot = self.hot(load, &job.lists, tally.blobs);
                round.open = Some(open_loop(ops_per_s, &tally));
                round.rungs = rungs;
                self.measured(phase, round, &tally, &meter)
            }
            None => {
                let (rate, why) = rungs
                    .last()
                    .map(|rung| (rung.offered_ops_per_s, rung.failure.clone().unwrap_or_default()))
                    .unwrap_or_default();
                let rate = crate::units::count(rate);
                let why = format!("not even {rate} ops/s, the lowest rate offered: {why}");
                self.not_possible(phase, why)
            }
        }
    }

    /// The work that writes put off: counted, and timed apart.
    fn settle(&mut self, phase: &Phase, meter: &mut Meter, round: &mut Round) -> Result<()> {
        let fill = phase.id == "fill" && self.caps().persistent;
        let (store, _) = self.store()?;
        let apart = self.desk.as_ref().filter(|_| phase.has_uploads()).and_then(|desk| desk.apart.as_deref());
        let mut servers = store.servers();
        servers.extend(apart.iter().flat_map(|apart| apart.servers()));
        let mut syncfs = 0.0;
        let mut before = None;
        if fill {
            meter.start(&servers);
            machine::sync_filesystem(&self.dir)?;
            syncfs += meter.stop(&servers);
            before = Some(self.bytes_taken(store)?.all);
        }
        meter.start(&servers);
        store.settle().context("settling failed")?;
        apart.map_or(Ok(()), Store::settle).context("settling the catalogue failed")?;
        round.settle_seconds = Some(meter.stop(&servers));
        meter.start(&servers);
        machine::sync_filesystem(&self.dir)?;
        round.syncfs_seconds = Some(syncfs + meter.stop(&servers));
        meter.look_at_memory(&servers);
        if fill {
            let after = self.bytes_taken(store)?;
            let index = store.index_bytes().context("asking for the size of indexes failed")?;
            let logical = self.subject.corpus.bytes().max(1) as f64;
            let free = free_bytes(&self.run.place);
            let footprint = &mut self.visit.footprint;
            footprint.allocated_bytes = before;
            footprint.after_settle_bytes = Some(after.all);
            footprint.directory_bytes = after.directories;
            footprint.log_bytes = after.logs;
            footprint.index_bytes = index;
            footprint.space_amplification = Some(after.all as f64 / logical);
            footprint.statvfs_bytes =
                footprint.statvfs_bytes.zip(free).map(|(before, now)| before.saturating_sub(now));
            // Of what was put while the device was watched: without blobs that made no whole batch.
            let put = round.bytes.max(1) as f64;
            footprint.write_amplification =
                meter.used().device.map(|device| device.written_bytes as f64 / put);
        }
        Ok(())
    }

    /// Disk that the store takes: what it says itself when it is not below our directory, else what is allocated there.
    pub(super) fn bytes_taken(&self, store: &dyn Store) -> Result<Taken> {
        if let Some(all) = store.footprint_bytes()? {
            return Ok(Taken { all, directories: None, logs: None });
        }
        let found = machine::allocated(&self.dir, |path| store.is_log(path));
        Ok(Taken { all: found.all, directories: Some(found.directories), logs: Some(found.logs) })
    }

    /// The end of a phase that was measured.
    fn measured(&mut self, phase: &Phase, mut round: Round, tally: &Tally, meter: &Meter) -> Result<()> {
        self.finish(&mut round, tally, meter)?;
        self.keep(phase, round);
        Ok(())
    }

    /// The end of a phase that the store, as it is, cannot do.
    pub(super) fn not_possible(&mut self, phase: &Phase, why: String) -> Result<()> {
        self.visit.phases.insert(phase.id.clone(), Outcome::NotPossible(why));
        Ok(())
    }

    /// Keeps the finished round of a phase.
    pub(super) fn keep(&mut self, phase: &Phase, round: Round) {
        self.visit.phases.insert(phase.id.clone(), Outcome::Measured(Box::new(round)));
    }

    /// Moves what was counted into the record of the round.
    pub(super) fn finish(&self, round: &mut Round, tally: &Tally, meter: &Meter) -> Result<()> {
        round.ops = tally.ops;
        round.blobs = tally.blobs;
        round.bytes = tally.bytes;
        round.passes = tally.passes;
        round.errors = tally.errors;
        round.first_error = tally.first_error.clone();
        round.retries = tally.retries;
        round.cache_misses = tally.cache_misses;
        round.timeouts = tally.timeouts;
        round.first_ops_ns = tally.first_ops_ns.clone();
        round.syncs = tally.syncs;
        round.sync_seconds = tally.sync_ns as f64 / 1e9;
        round.worker_cpu_ns = tally.cpu_ns;
        let mean = |(name, sum, ops): &(&str, u64, u64)| ((*name).to_owned(), *sum as f64 / *ops as f64);
        round.counts = tally.counts.iter().map(mean).collect();
        if round.seconds == 0.0 {
            round.seconds = (tally.end - tally.begin) as f64 / 1e9;
        }
        if let (Some(settle), Some(syncfs)) = (round.settle_seconds, round.syncfs_seconds) {
            round.settled_seconds = Some(round.seconds + settle + syncfs);
        }
        round.histogram = tally.histograms()?;
        let used = meter.used();
        round.total_cpu_ns = used.busy_ns;
        round.client_cpu_ns = used.process_ns;
        if let Some(device) = used.device {
            round.device_reads = Some(device.reads);
            round.device_read_bytes = Some(device.read_bytes);
            round.device_written_bytes = Some(device.written_bytes);
            round.device_flushes = device.flushes;
            round.own_read_bytes = used.own.map(|own| own.read_bytes);
            round.own_written_bytes = used.own.map(|own| own.written_bytes);
        }
        if let Some(others) = used.others() {
            round.others_read_bytes = Some(others.read_bytes);
            round.others_written_bytes = Some(others.written_bytes);
        }
        round.server_cpu_ns = used.server_ns;
        round.server_peak_bytes = meter.server_peak_bytes();
        let memory = self.memory.beyond();
        round.client_peak_bytes = memory.peak_bytes;
        round.anonymous_bytes = memory.anonymous_bytes;
        round.mapped_bytes = memory.mapped_bytes;
        if self.caps().persistent && self.subject.corpus.blobs() <= RESIDENCY_BLOBS_MAX {
            round.page_cache_share = Some(machine::resident_share(&self.dir));
        }
        Ok(())
    }

    /// Opens the closed store and reads one blob, several times.
    fn reopen(&mut self, phase: &Phase) -> Result<()> {
        let seed = derived_seed(self.plan().seed, self.turn.round, &phase.id);
        let ids: Vec<u32> =
            (0..self.state.alive.len() as u32).filter(|id| self.state.alive[*id as usize]).collect();
        if ids.is_empty() {
            let why = "the store holds no blob to read".to_owned();
            return self.not_possible(phase, why);
        }
        let class = self.class(phase.class);
        let mut tally = Tally::new([true; BANDS.len()], false);
        tally.first_apart = false;
        let mut meter = self.meter();
        let mut seconds = 0.0;
        let kept_running = self.subject.row.traits().kept_running().is_some();
        machine::reset_peak();
        while tally.ops < REOPENS && seconds < REOPEN_SECONDS && !self.run.stopped() {
            self.close()?;
            let id = ids[(seed as usize).wrapping_add(tally.ops as usize * 7919) % ids.len()];
            let op = PlannedOp {
                blob: id,
                kind: OpKind::Get,
                len: self.state.len[id as usize] as u32,
                generation: self.state.generation[id as usize],
                offset: 0,
            };
            let key = &self.subject.corpus.keys[id as usize];
            meter.start(&[]);
            let cpu = machine::thread_cpu_ns();
            let open = || self.opened(class, Mode::Open);
            let store = worker::reopen(&self.run.clock, &open, key, &op, &mut tally)?;
            tally.cpu_ns += machine::thread_cpu_ns().saturating_sub(cpu);
            // A server that goes on while the store is closed has used its time for others too.
            let servers = if kept_running { Vec::new() } else { store.servers() };
            seconds += meter.stop(&servers);
            self.open = Some((class, store));
        }
        let mut round = self.new_round(seed);
        round.seconds = seconds;
        self.measured(phase, round, &tally, &meter)
    }

    /// Carries out deletes that were only marked, as one op, and settles.
    fn purge(&mut self, phase: &Phase) -> Result<()> {
        if !self.subject.row.traits().lazy_delete {
            let why = "deletes at once: there is nothing to purge".to_owned();
            return self.not_possible(phase, why);
        }
        let mut tally = Tally::new([true; BANDS.len()], false);
        let mut meter = self.meter();
        machine::reset_peak();
        let (store, _) = self.store()?;
        meter.start(&store.servers());
        worker::purge(&self.run.clock, store, &mut tally)?;
        meter.stop(&store.servers());
        let mut round = self.new_round(0);
        self.settle(phase, &mut meter, &mut round)?;
        self.measured(phase, round, &tally, &meter)
    }

    /// Overwrites with new sizes until enough was overwritten since the fill.
    fn age(&mut self, phase: &Phase, times: f64) -> Result<()> {
        let plan = self.plan();
        let seed = derived_seed(plan.seed, self.turn.round, &phase.id);
        let target = ((times * self.subject.corpus.bytes() as f64) as u64).saturating_sub(self.aged_bytes);
        let ops = ageing(self.subject.corpus, &self.state, target, seed);
        self.aged_bytes += target;
        let store_class = self.store()?.1;
        let job = Job {
            lists: by_blob(ops.clone(), plan.workers),
            passes: 1,
            nanoseconds: 0,
            open: None,
            use_bytes: crate::plan::Use::Touch,
            batch: 1,
            connect: self.connects(false),
            sync: (store_class == Durability::OnSync).then_some(plan.sync),
            first_apart: true,
        };
        machine::reset_peak();
        let mut meters = [self.meter()];
        let tally = {
            let (store, _) = self.store()?;
            self.crew(store, plan.workers).run(std::slice::from_ref(&job), &mut meters)?.remove(0)
        };
        ops.iter().for_each(|op| self.state.apply(op));
        self.warm = false;
        let mut round = self.new_round(seed);
        let [mut meter] = meters;
        self.settle(phase, &mut meter, &mut round)?;
        self.finish(&mut round, &tally, &meter)?;
        if self.caps().persistent {
            round.allocated_bytes = Some(self.bytes_taken(self.store()?.0)?.all);
        }
        round.live_bytes = Some(self.state.live_bytes());
        self.keep(phase, round);
        Ok(())
    }
}

/// What an open loop has beside a closed one.
fn open_loop(rate: f64, tally: &Tally) -> OpenLoop {
    let drain_ns = tally.end.saturating_sub(tally.last_due.max(tally.begin));
    let phase_ns = tally.last_due.saturating_sub(tally.begin).max(1);
    let late = tally.wake_late.as_deref();
    let late_at =
        |share| late.filter(|late| !late.is_empty()).map_or(0, |late| late.value_at_quantile(share));
    OpenLoop {
        offered_ops_per_s: rate,
        all_busy_share: tally.busy_when_due as f64 / tally.ops.max(1) as f64,
        drain_seconds: drain_ns as f64 / 1e9,
        sustained: (drain_ns as f64) <= 0.1 * phase_ns as f64,
        wake_late_p50_ns: late_at(histogram::SHARES[0]),
        wake_late_p99_ns: late_at(histogram::SHARES[2]),
    }
}
