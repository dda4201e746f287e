//! Ops from a mix, in a closed or an open loop: the work of most phases.

use anyhow::{Context as _, Result, bail};

use super::super::candidate_run::phases::open_loop;
use super::super::candidate_run::{CandidateRun, CatalogStore, PhaseOutcome, PhaseRun};
use super::super::ops::{OpDistribution, PlannedOp, apart_from_writers, left_out, lists};
use super::super::workers::pace::ProcessShare;
use super::super::workers::pool::{Job, Open, WorkerPool};
use super::{Forecast, LengthInputs, Work, WorkKind};
use crate::host::machine;
use crate::judge::SHORT_SECONDS;
use crate::plan::{
    CacheState, Class, Length, OPS, OpKind, Order, Phase, Plan, RangeRule, ReadSink, Role, StandardPhase,
    Workload,
};
use crate::result::{CacheProof, FixedLength, Round};
use crate::rules::READ_SECONDS_MIN;
use crate::rules::SHORT_OPS;
use crate::store::{Capabilities, Durability, Mode};

/// Factor by which an open loop is planned longer than asked: its last op is due before its end, and would make it too short.
const OPEN_STRETCH: f64 = 1.1;

const STANDARD: &[StandardPhase] = &[
    StandardPhase {
        id: "fill",
        about: "puts every blob once, in the order of ids: integer keys ascend, digests come in random order",
        phases: || {
            let puts = Phase::of_ops("fill", Workload::new(OpKind::Put, Length::Share(1.0)));
            vec![Phase { role: Role::Fill, ..puts }]
        },
    },
    StandardPhase {
        id: "read-warm",
        about: "reads whole blobs in random order; everything was read once before",
        phases: || warm("read-warm", reads()),
    },
    StandardPhase {
        id: "read-copy",
        about: "read-warm with every byte copied: a check that the winner does not depend on touching only",
        phases: || warm("read-copy", Workload { use_bytes: ReadSink::Copy, ..reads() }),
    },
    StandardPhase {
        id: "read-again",
        about: "the same blobs in the same order as the read phase before it, at once",
        phases: || vec![Phase::of_ops("read-again", Workload { repeats_last: true, ..reads() })],
    },
    StandardPhase {
        id: "range-head",
        about: "reads the first 4 KiB, warm",
        phases: || warm("range-head", Workload { range: RangeRule::Head(4096), ..ranges() }),
    },
    StandardPhase {
        id: "range-random",
        about: "reads 4 KiB from a random offset, warm",
        phases: || warm("range-random", Workload { range: RangeRule::Random(4096), ..ranges() }),
    },
    StandardPhase {
        id: "overwrite",
        about: "replaces blobs by others of the same size, in the durability class asked for",
        phases: || asked("overwrite", Workload::new(OpKind::Overwrite, Length::Pilot)),
    },
    StandardPhase {
        id: "delete-half",
        about: "deletes every second blob, in the durability class asked for",
        phases: || asked("delete-half", Workload::new(OpKind::Delete, Length::Share(0.5))),
    },
    StandardPhase {
        id: "delete-some",
        about: "deletes a sample of blobs, in the durability class asked for",
        phases: || asked("delete-some", Workload::new(OpKind::Delete, Length::Pilot)),
    },
];

/// Reads of whole blobs, for as long as the pilot determines.
pub(super) fn reads() -> Workload {
    Workload::new(OpKind::Get, Length::Pilot)
}

fn ranges() -> Workload {
    Workload::new(OpKind::Range, Length::Pilot)
}

pub(super) fn warm(id: &str, load: Workload) -> Vec<Phase> {
    vec![Phase { cache: CacheState::Warm, ..Phase::of_ops(id, load) }]
}

pub(super) fn asked(id: &str, load: Workload) -> Vec<Phase> {
    vec![Phase { class: Class::Asked, ..Phase::of_ops(id, load) }]
}

pub(super) const KIND: WorkKind = WorkKind { name: OPS, standard: STANDARD, work: &OpsWork };

struct OpsWork;

impl Work for OpsWork {
    fn is_for_clients(&self, phase: &Phase) -> bool {
        phase.cache != CacheState::ColdStart && !phase.has_uploads()
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let Some(load) = phase.load() else { return Ok(None) };
        candidate_run.ops(phase, load)
    }
}

/// Returns why a store with these capabilities cannot do a load; `None` if it can.
pub(super) fn impossible(plan: &Plan, caps: &Capabilities, load: &Workload) -> Option<String> {
    let batch = plan.batch_of(load);
    let only_gets = load.mix.iter().all(|(kind, _)| *kind == OpKind::Get);
    if batch > 1 && only_gets && !caps.get_many {
        return Some("no batches: there is no request for several blobs".to_owned());
    }
    if batch > 1 && !only_gets && !caps.batch {
        return Some("no batches: there is no transaction over several blobs".to_owned());
    }
    if load.mix.iter().any(|(kind, _)| *kind == OpKind::Range) {
        if !caps.range {
            return Some("no range reads".to_owned());
        }
        if batch > 1 {
            return Some("range reads have no batches".to_owned());
        }
    }
    None
}

/// Returns the length of a load. `by_pilot` is used if the load leaves it to the pilot.
pub(super) fn length(asked: &LengthInputs<'_>, load: &Workload, by_pilot: FixedLength) -> FixedLength {
    let blobs = asked.blobs;
    let of_ops = |ops: u64| FixedLength { ops, ..FixedLength::default() };
    let length = match load.length {
        Length::Share(share) => of_ops(((blobs as f64 * share).ceil() as u64).max(1)),
        Length::Ops(ops) => of_ops(scaled(asked, load, ops)),
        Length::Seconds(seconds) => {
            FixedLength { seconds: seconds * asked.plan.scale.min(1.0), ..of_ops(blobs) }
        }
        Length::Pilot => by_pilot,
    };
    // A phase that repeats another one has as many ops.
    let repeated = load.repeats.as_ref().and_then(|id| asked.earlier.get(&asked.corpus_id.key(id)));
    FixedLength { ops: repeated.map_or(length.ops, |repeated| repeated.ops), ..length }
}

/// Returns the length that the pilot determines, for repeated reads and for samples of writes.
pub(super) fn by_pilot(asked: &LengthInputs<'_>, load: &Workload) -> FixedLength {
    let (plan, blobs, choice) = (asked.plan, asked.blobs, asked.choice);
    if load.only_reads() {
        // Whole passes over all blobs, enough of them that the cell is not too short.
        let passes = choice.read_ops.div_ceil(blobs).max(1);
        // An open loop waits for ops to come due; a shorter one might have none.
        let is_open = load.rate.or(plan.rate).is_some();
        let least = if is_open { READ_SECONDS_MIN } else { 0.0 };
        let seconds = choice.read_seconds.max(least);
        return FixedLength { ops: blobs * passes, passes: passes as u32, seconds, ..FixedLength::default() };
    }
    let batch = plan.batch_of(load) as u64;
    let ops = blobs.min(scaled(asked, load, SHORT_OPS).max(SHORT_OPS).next_multiple_of(batch));
    FixedLength { ops, ..FixedLength::default() }
}

/// Scales a number of ops by the plan, but not below one batch or 8 ops, as far as there are that many ops and blobs.
fn scaled(asked: &LengthInputs<'_>, load: &Workload, ops: u64) -> u64 {
    let batch = asked.plan.batch_of(load) as u64;
    ((ops as f64 * asked.plan.scale) as u64).max(ops.min(batch.max(8)).min(asked.blobs))
}

pub(super) fn seconds(forecast: &Forecast<'_>, load: &Workload) -> f64 {
    let length = forecast.length;
    let all = forecast.round.seconds / forecast.round.ops.max(1) as f64 * length.ops as f64;
    if !load.only_reads() {
        return forecast.beside() + all;
    }
    let pass = all / f64::from(length.passes.max(1));
    forecast.beside() + length.seconds.max(all.min(SHORT_SECONDS + pass))
}

impl CandidateRun<'_> {
    /// Runs a phase of ops after preparing the caches as it asks.
    pub(super) fn ops(&mut self, phase: &Phase, load: &Workload) -> PhaseRun {
        let mut proof = None;
        match phase.cache {
            CacheState::Warm => self.warm_up()?,
            CacheState::ColdStart => {
                let mut looked = CacheProof::default();
                self.evict(self.class(phase.class), true, &mut looked)?;
                proof = Some(looked);
            }
            CacheState::Cold | CacheState::Still | CacheState::AsIs => {}
        }
        let mut done = self.load(phase, load)?;
        if let Some(PhaseOutcome::Measured(round)) = &mut done {
            round.cache_proof = proof;
            self.grow(phase, round)?;
        }
        Ok(done)
    }

    /// Returns the order in which a phase reads. Repeating one list never hits an LRU cache that is smaller than the list, so a
    /// standard phase that does not fit into its memory limit draws at random instead, like the phases that are about limited
    /// memory.
    fn order(&self, phase: &Phase, load: &Workload) -> Order {
        let plan = self.plan();
        let repeated = plan.phases.iter().find(|of| load.repeats.as_ref() == Some(&of.id));
        if let Some((of, own)) = repeated.and_then(|of| Some((of, of.load()?))) {
            return self.order(of, own);
        }
        let is_standard = !plan.text.defines(&phase.id);
        let is_warm_read = load.only_reads() && !phase.cache.is_cold();
        match load.order {
            Order::Once if self.is_beyond_memory(phase) && is_standard && is_warm_read => Order::Uniform,
            order => order,
        }
    }

    /// True if a phase has memory for a part of the blobs only.
    fn is_beyond_memory(&self, phase: &Phase) -> bool {
        let bytes = self.subject.corpus.bytes();
        self.plan().memory_of(phase, bytes).is_some_and(|budget| budget < bytes)
    }

    /// Lengthens a list of draws that is repeated and does not fit into memory. As many draws as there are blobs lack a third of
    /// them: repeated, they would fit where the blobs do not.
    fn length_of_draws(&self, phase: &Phase, load: &Workload, length: FixedLength) -> FixedLength {
        const TIMES: u32 = 4;
        let is_drawn = matches!(load.order, Order::Uniform | Order::Zipfian(_)) && load.only_reads();
        let is_repeated = length.seconds > 0.0 && load.rate.or(self.plan().rate).is_none();
        if !self.is_beyond_memory(phase) || !is_drawn || !is_repeated {
            return length;
        }
        let (ops, passes) = (length.ops * u64::from(TIMES), length.passes.max(1) * TIMES);
        FixedLength { ops, passes, ..length }
    }

    /// Runs a phase of ops with the caches as they are.
    pub(super) fn load(&mut self, phase: &Phase, load: &Workload) -> PhaseRun {
        let load = &Workload { order: self.order(phase, load), ..load.clone() };
        let (plan, seed) = (self.plan(), self.seed(phase, load));
        let length = self.length_of_draws(phase, load, self.length(phase)?);
        let workers = load.workers.unwrap_or(plan.workers);
        // Workers of all clients together.
        let stores = if self.is_one_for_each_client() { plan.clients } else { 1 };
        let sessions = workers * (plan.clients / stores);
        let rate = load.rate.or(plan.rate).filter(|_| !phase.is_fill());
        let deal = if rate.is_some() { OpDistribution::Shared } else { OpDistribution::Own(sessions) };
        let batch = plan.batch_of(load);
        let mut lists = lists(load, &self.state, length.ops, batch, deal, seed);
        if self.reads_are_dealt_anew(load) && rate.is_none() {
            lists = apart_from_writers(&lists, &self.state.writer, workers);
        }
        let ops: u64 = lists.iter().map(|list| list.len() as u64).sum();
        if load.puts_all() {
            self.change(left_out(&lists, &self.state))?;
        }
        if ops == 0 {
            let why = match batch {
                1 => "the store holds nothing that this phase could use".to_owned(),
                _ => format!("has fewer blobs to use than a batch of {batch}, and a batch is whole"),
            };
            return Ok(Some(PhaseOutcome::NotPossible(why)));
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
            Open { arrivals: plan.arrivals, ops_per_s, seconds, ops_max, seed, part: ProcessShare::WHOLE }
        });
        self.begin_memory();
        let mut meters = [self.meter()];
        let (tally, clients) = {
            let (store, _) = self.store()?;
            let uploads = self.catalog.as_ref().filter(|_| load.has_uploads()).map(CatalogStore::uploads);
            let one_transaction = self.is_one_transaction(phase);
            let pool = WorkerPool { uploads, one_transaction, ..self.pool(store, workers) };
            self.by_all(pool, &job, &mut meters)?
        };
        if let Some(why) = self.growth_failure(phase, &tally) {
            return Ok(Some(PhaseOutcome::NotPossible(why)));
        }
        let mut round = self.new_round(seed);
        // Clients with stores of their own all do the same ops.
        round.hot = self.hot(load, &job.lists, tally.blobs / stores as u64);
        self.state.apply_lists(&job.lists, |hand, place| match rate {
            // Clients take turns on one schedule.
            Some(_) => place / batch % plan.clients,
            None => hand / workers,
        });
        round.seconds = tally.seconds(workers * plan.clients);
        round.clients = clients;
        round.bytes = tally.bytes;
        let [mut meter] = meters;
        if phase.writes() {
            self.settle(phase, &mut meter, &mut round)?;
        }
        round.open = rate.map(|rate| open_loop(rate, &tally));
        self.finish(&mut round, &tally, &meter)?;
        self.note_ideal_lru(phase, &job.lists, &mut round);
        Ok(Some(PhaseOutcome::Measured(Box::new(round))))
    }

    /// Notes the device reads of an ideal LRU cache, if the ops only read whole blobs and memory is limited. The pilot's are never
    /// shown.
    pub(super) fn note_ideal_lru(&mut self, phase: &Phase, lists: &[Vec<PlannedOp>], round: &mut Round) {
        let Some(memory) = round.memory.as_mut().filter(|_| self.slot.round > 0) else { return };
        let Some(budget) = self.plan().memory_of(phase, self.subject.corpus.bytes()) else { return };
        if lists.iter().flatten().all(|op| op.kind == OpKind::Get) {
            let known = &self.run.ideal_lru;
            memory.ideal_lru_bytes_per_byte = self.outcome.ideal_lru.byte_miss_ratio(known, lists, budget);
        }
    }

    /// True if each read should go to a client that did not write its blob. Not for orders in which neighbours stay together, nor
    /// for those with popular blobs, which belong to no single client.
    fn reads_are_dealt_anew(&self, load: &Workload) -> bool {
        let plan = self.plan();
        let order = matches!(load.order, Order::Once | Order::Uniform);
        plan.clients > 1
            && !self.is_one_for_each_client()
            && self.caps().contents
            && order
            && load.only_reads()
            && plan.batch_of(load) == 1
    }

    /// Notes what a phase of a growth did: how many blobs the store has, and how much disk, which is also noted of a fill before
    /// ageing. Puts deleted blobs back, so that every phase of a step finds the same blobs.
    fn grow(&mut self, phase: &Phase, round: &mut Round) -> Result<()> {
        if phase.is_fill() && self.plan().text.age.is_some() {
            return self.note_space(round);
        }
        let Some(blobs) = phase.grown_to else { return Ok(()) };
        if !phase.fills_a_step() {
            let gone = self.state.missing(blobs).collect();
            return self.change(gone);
        }
        (self.growth.blobs, self.warm) = (blobs, false);
        let class = self.store()?.1;
        if class == Durability::None && self.caps().persistent {
            // What was put without flushes may be in the store's memory only, and take no space, until it is closed.
            self.close()?;
            self.open_as(class, Mode::Open)?;
        }
        self.note_space(round)
    }

    /// Puts or deletes blobs off the clock and settles the store, so that no phase pays for them: those that fill no batch, those that
    /// a step of a growth deleted, and those that a log finds otherwise.
    pub(super) fn change(&mut self, ops: Vec<PlannedOp>) -> Result<()> {
        if ops.is_empty() {
            return Ok(());
        }
        let (store, class) = self.store()?;
        let job = Job {
            connect: self.connects(false),
            sync: (class == Durability::OnSync).then_some(self.plan().sync),
            ..Job::once(vec![ops])
        };
        let mut meters = [self.meter()];
        let tally = self.pool(store, 1).run(std::slice::from_ref(&job), &mut meters)?.remove(0);
        if let Some(first) = tally.counters.first_error {
            bail!("changing blobs off the clock: {first}");
        }
        store.settle().context("settling failed")?;
        machine::sync_filesystem(&self.dir)?;
        job.lists.iter().flatten().for_each(|op| self.state.apply(op));
        Ok(())
    }
}
