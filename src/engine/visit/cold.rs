//! Phases that read after eviction.

use anyhow::Result;

use super::super::ops::{Deal, PlannedOp, in_turn, lists};
use super::super::resources::Meter;
use super::super::workers::crew::Job;
use super::super::workers::tally::Tally;
use super::Visitor;
use crate::host::machine;
use crate::plan::{Load, Phase};
use crate::result::{CacheProof, FixedLength};
use crate::store::{Durability, Mode};

/// Passes of a cold phase of a row that is never cold.
const COLD_PASSES_RESIDENT: u32 = 2;

impl Visitor<'_> {
    /// Reads after eviction: several passes over a few keys each, the store closed, evicted and opened before every pass, so
    /// that no pass reads what an earlier one brought in. A phase that repeats this one reads each pass's keys again
    /// at once, in the same sessions.
    pub(super) fn cold(&mut self, phase: &Phase, load: &Load, repeat: Option<&Phase>) -> Result<()> {
        let (plan, length, seed) = (self.plan(), self.length(phase)?, self.seed(phase, load));
        let workers = load.workers.unwrap_or(plan.workers);
        let batch = plan.batch_of(load);
        let mut all = lists(load, &self.state, length.ops, batch, Deal::Own(1), seed).remove(0);
        if all.is_empty() {
            let why = "the store holds nothing that this phase could use".to_owned();
            return self.not_possible(phase, why);
        }
        let each = self.ops_of_a_pass(&mut all, length.cold_passes, batch);
        let passes = all.len().div_ceil(each);
        let class = self.class(phase.class);
        let mut totals: Vec<Total<'_>> = Vec::new();
        let mut proof =
            CacheProof { sample_share: each as f64 / self.state.alive.len() as f64, ..CacheProof::default() };
        let mut ratios = Vec::new();
        let mut begin = machine::uptime();
        machine::reset_peak();
        for (index, ops) in all.chunks(each).enumerate() {
            if self.run.stopped() {
                return Ok(());
            }
            self.evict(class, index == 0, &mut proof)?;
            let loads = std::iter::once(load).chain(repeat.and_then(Phase::load));
            let jobs: Vec<Job> = loads
                .map(|load| {
                    let fixed = FixedLength { seconds: 0.0, ..length };
                    let lists = in_turn(ops, plan.batch_of(load), workers);
                    Job { first_apart: false, ..self.job(load, lists, fixed, class) }
                })
                .collect();
            let mut meters: Vec<Meter> = jobs.iter().map(|_| self.meter()).collect();
            let tallies = {
                let (store, _) = self.store()?;
                let mut crew = self.crew(store, workers);
                crew.stranger = Some(self.subject.corpus.stranger(0));
                crew.run(&jobs, &mut meters)?
            };
            if index == 0 {
                begin = machine::uptime();
            }
            ratios.push((meters[0].used().device.map(|device| device.read_bytes), tallies[0].bytes));
            for (which, (tally, meter)) in tallies.into_iter().zip(meters).enumerate() {
                let seconds = tally.seconds(workers);
                match totals.get_mut(which) {
                    Some(total) => total.add(tally, meter, seconds),
                    None => totals.push(Total { tally, meter, seconds }),
                }
            }
        }
        let later = (ratios.len() - 1).max(1) as f64;
        self.visit.pass_seconds.insert(phase.id.clone(), (machine::uptime() - begin).as_secs_f64() / later);
        proof.device_bytes_per_byte = tenths(&ratios);
        let blobs = all.len() as u64;
        let hot = self.hot(load, &[all], blobs);
        let done = std::iter::once(phase).chain(repeat);
        for (which, (phase, total)) in done.zip(totals).enumerate() {
            let mut round = self.new_round(seed);
            round.seconds = total.seconds;
            self.finish(&mut round, &total.tally, &total.meter)?;
            round.passes = passes as u64;
            round.hot = hot;
            round.cache_proof = (which == 0).then(|| proof.clone());
            self.keep(phase, round);
        }
        self.warm = false;
        Ok(())
    }

    /// How many ops each pass has, in whole batches. A row that does fewer passes than planned does as many fewer ops.
    fn ops_of_a_pass(&self, all: &mut Vec<PlannedOp>, planned: u32, batch: usize) -> usize {
        let done = self.subject.row.cold_passes(planned);
        if done < planned {
            let each = all.len().div_ceil((planned.max(1) as usize).min(all.len() / batch));
            all.truncate((each * done as usize).next_multiple_of(batch));
        }
        // The same ops in fewer passes: what opening brought in, nothing can evict, and opening that reads everything is slow.
        let most = if self.turn.resident { COLD_PASSES_RESIDENT } else { u32::MAX };
        let passes = (done.clamp(1, most) as usize).min(all.len() / batch);
        all.len().div_ceil(passes).next_multiple_of(batch)
    }

    /// Closes the store, makes the kernel forget it, and opens it again.
    pub(super) fn evict(&mut self, class: Durability, first: bool, proof: &mut CacheProof) -> Result<()> {
        // What opening reads does not change from round to round, and looking means opening twice.
        let prove = first && self.turn.round == 1;
        self.close()?;
        machine::sync_filesystem(&self.dir)?;
        if self.run.drop_caches && machine::drop_caches() {
            proof.method = "drop_caches".to_owned();
        } else {
            machine::evict(&self.dir);
            proof.method = "fadvise".to_owned();
        }
        if prove {
            proof.resident_share = Some(machine::resident_share(&self.dir));
            // Looking brought inodes and dentries back.
            if self.run.drop_caches {
                machine::drop_caches();
            }
        }
        let begin = machine::uptime();
        self.open_as(class, Mode::Open)?;
        if first {
            proof.open_seconds = (machine::uptime() - begin).as_secs_f64();
        }
        if prove {
            if self.share_opened.is_none() {
                self.share_opened = Some(self.look_at_opening()?);
            }
            proof.resident_share_opened = self.share_opened;
        }
        Ok(())
    }

    /// What opening brought into the cache; the store is evicted again afterwards, because looking has side effects.
    fn look_at_opening(&mut self) -> Result<f64> {
        let share = machine::resident_share(&self.dir);
        let class = self.store()?.1;
        self.close()?;
        if self.run.drop_caches {
            machine::drop_caches();
        } else {
            machine::evict(&self.dir);
        }
        self.open_as(class, Mode::Open)?;
        Ok(share)
    }
}

/// The sum of several passes.
struct Total<'a> {
    tally: Tally,
    meter: Meter<'a>,
    seconds: f64,
}

impl<'a> Total<'a> {
    fn add(&mut self, tally: Tally, meter: Meter<'a>, seconds: f64) {
        self.tally.add(&tally);
        self.meter.add(&meter);
        self.seconds += seconds;
    }
}

/// Device bytes per byte delivered in each tenth of the passes.
fn tenths(passes: &[(Option<u64>, u64)]) -> Vec<f64> {
    let Some(read) = passes.iter().map(|(read, _)| *read).collect::<Option<Vec<u64>>>() else {
        return Vec::new();
    };
    let delivered: Vec<u64> = passes.iter().map(|(_, bytes)| *bytes).collect();
    let count = passes.len().min(10);
    (0..count)
        .map(|tenth| {
            let range = passes.len() * tenth / count..passes.len() * (tenth + 1) / count;
            let read: u64 = read[range.clone()].iter().sum();
            let delivered: u64 = delivered[range].iter().sum();
            read as f64 / delivered.max(1) as f64
        })
        .collect()
}
