//! Helpers with which kinds of work run their phases, and which record the results of a round.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};

use super::super::ops::{PlannedOp, derived_seed, hot_share};
use super::super::resources::{Meter, free_bytes};
use super::super::workers::clock::HostClock;
use super::super::workers::pool::{Job, WorkerPool};
use super::super::workers::tally::Tally;
use super::{CandidateRun, PhaseOutcome, PhaseRun};
use crate::host::machine;
use crate::judge::histogram;
use crate::plan::{Order, Phase, Workload};
use crate::result::{FixedLength, Footprint, HotShare, OpenLoop, Round};
use crate::store::{Durability, Store};

/// Maximum number of blobs for which page cache residency is recorded, and of files that are looked at after an eviction: with
/// more, looking would take longer than the phases.
const RESIDENCY_BLOBS_MAX: u64 = 20_000;

/// Disk space that a store takes, in bytes, with the parts that are known.
pub(in crate::engine) struct DiskUse {
    pub(in crate::engine) all: u64,
    directories: Option<u64>,
    pub(in crate::engine) logs: Option<u64>,
}

impl<'a> CandidateRun<'a> {
    pub(in crate::engine) fn length(&self, phase: &Phase) -> Result<FixedLength> {
        let key = self.subject.corpus_id.key(&phase.id);
        self.fixed.lengths.get(&key).copied().ok_or_else(|| anyhow!("the pilot fixed no length for `{key}`"))
    }

    /// Seed for the keys of a phase: the same for every store of a round.
    pub(in crate::engine) fn seed(&self, phase: &Phase, load: &Workload) -> u64 {
        let purpose = load.repeats.as_deref().unwrap_or(&phase.id);
        derived_seed(self.plan().seed, self.slot.round, &self.subject.corpus_id.key(purpose))
    }

    pub(in crate::engine) fn new_round(&self, seed: u64) -> Round {
        Round { round: self.slot.round, position: self.slot.position, seed, ..Round::default() }
    }

    pub(in crate::engine) fn job(
        &self,
        load: &Workload,
        lists: Vec<Vec<PlannedOp>>,
        length: FixedLength,
        class: Durability,
    ) -> Job {
        Job {
            passes: length.passes.max(1) as usize,
            nanoseconds: (length.seconds * 1e9) as u64,
            use_bytes: load.use_bytes,
            batch: self.plan().batch_of(load),
            connect: self.connects(load.only_reads()),
            sync: (class == Durability::OnSync).then_some(self.plan().sync),
            ..Job::once(lists)
        }
    }

    pub(in crate::engine) fn pool<'s>(
        &'s self,
        store: &'s dyn Store,
        workers: usize,
    ) -> WorkerPool<'s, HostClock> {
        WorkerPool {
            apart: self.run.apart.as_ref(),
            dir: self.place(),
            ..WorkerPool::new(&self.run.clock, store, self.subject.corpus, workers, self.run.stop)
        }
    }

    pub(in crate::engine) fn meter(&self) -> Meter<'a> {
        // The device below a server of the user's is unknown.
        let (run, candidate) = (self.run, self.subject.candidate);
        let has_others = || run.clients.is_some_and(|clients| !clients.are_on_one_host());
        // So are those of other hosts on which clients have stores of their own.
        let is_partly_elsewhere = self.is_one_for_each_client() && has_others();
        let device =
            run.device_of(candidate).filter(|_| !self.is_external()).filter(|_| !is_partly_elsewhere);
        if run.disk_of(candidate).is_some() {
            // No other program uses it.
            return Meter::new(device, self.slot.idle.without_device()).alone();
        }
        if run.clients.is_some() {
            // Device activity of other clients cannot be told from that of unrelated programs.
            return Meter::new(device, self.slot.idle).alone();
        }
        Meter::new(device, self.slot.idle)
    }

    /// For skewed orders, returns the share of blobs that received most of `done` ops. Must be called before the lists are
    /// applied to the state.
    pub(in crate::engine) fn hot(
        &self,
        load: &Workload,
        lists: &[Vec<PlannedOp>],
        done: u64,
    ) -> Option<HotShare> {
        matches!(load.order, Order::Zipfian(_)).then(|| hot_share(lists, done, &self.state)).flatten()
    }

    /// True if the candidate opens a new connection for every op of a phase.
    pub(in crate::engine) fn connects(&self, only_reads: bool) -> bool {
        self.subject.candidate.traits().connects.for_each_op(only_reads)
    }

    /// True if all reads of a worker are one transaction in this phase.
    pub(in crate::engine) fn is_one_transaction(&self, phase: &Phase) -> bool {
        self.plan().is_one_transaction(self.subject.candidate, phase, self.subject.corpus_id)
    }

    fn is_external(&self) -> bool {
        self.subject.candidate.traits().is_external
    }

    /// Finishes the background work of the phase's writes. It is counted in the phase, but timed separately.
    pub(in crate::engine) fn settle(
        &mut self,
        phase: &Phase,
        meter: &mut Meter,
        round: &mut Round,
    ) -> Result<()> {
        let fill = self.plan().fills_all(phase) && self.caps().persistent;
        let (store, _) = self.store()?;
        let apart = self
            .catalog
            .as_ref()
            .filter(|_| phase.has_uploads())
            .and_then(|catalog| catalog.apart.as_deref());
        let mut servers = store.servers();
        servers.extend(apart.iter().flat_map(|apart| apart.servers()));
        let mut syncfs = 0.0;
        let mut before = None;
        if fill {
            meter.start(&servers);
            machine::sync_filesystem(&self.dir)?;
            syncfs += meter.stop(&servers);
            before = self.bytes_taken(store)?.map(|taken| taken.all);
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
            // Blobs without bytes have no share of anything.
            let over = |bytes: u64, put: u64| (put > 0).then(|| bytes as f64 / put as f64);
            let logical = self.subject.corpus.bytes();
            let free = free_bytes(self.place());
            let footprint = &mut self.outcome.footprint;
            footprint.allocated_bytes = before;
            if let Some(after) = &after {
                footprint.after_settle_bytes = Some(after.all);
                footprint.directory_bytes = after.directories;
                footprint.log_bytes = after.logs;
                footprint.space_amplification = over(after.all, logical);
                footprint.grows_per_byte = grown(footprint, after).and_then(|grown| over(grown, logical));
            }
            footprint.index_bytes = index;
            footprint.statvfs_bytes =
                footprint.statvfs_bytes.zip(free).map(|(before, now)| before.saturating_sub(now));
            // Relative to the bytes that were put while the device was measured; blobs that filled no batch are not among them.
            footprint.write_amplification =
                meter.used().device.and_then(|device| over(device.written_bytes, round.bytes));
        }
        Ok(())
    }

    /// Returns the disk space of the store: what it reports itself if it lies outside of its directory, otherwise what is
    /// allocated there. `None` for a server of the user's that does not report it.
    pub(in crate::engine) fn bytes_taken(&self, store: &dyn Store) -> Result<Option<DiskUse>> {
        self.bytes_taken_by_each(store, |_| ())
    }

    /// Like [`CandidateRun::bytes_taken`], and calls `each` with each file below the directory, by its path there.
    pub(in crate::engine) fn bytes_taken_by_each(
        &self,
        store: &dyn Store,
        each: impl Fn(&Path),
    ) -> Result<Option<DiskUse>> {
        if let Some(all) = store.footprint_bytes()? {
            return Ok(Some(DiskUse { all, directories: None, logs: None }));
        }
        if self.is_external() {
            return Ok(None);
        }
        let found = machine::allocated(&self.dir, |path| {
            each(path);
            store.is_log(path)
        });
        Ok(Some(DiskUse { all: found.all, directories: Some(found.directories), logs: Some(found.logs) }))
    }

    /// Share of the store's files that is in the page cache. Where each blob has a file, a part of them stands for all.
    pub(in crate::engine) fn resident_share(&self) -> f64 {
        let files = if self.caps().inodes.each_blob > 0 { self.reach() as u64 } else { 1 };
        machine::resident(&self.dir, files.div_ceil(RESIDENCY_BLOBS_MAX) as usize).0
    }

    /// Records a measured phase and returns its outcome.
    pub(in crate::engine) fn measured(&self, mut round: Round, tally: &Tally, meter: &Meter) -> PhaseRun {
        self.finish(&mut round, tally, meter)?;
        Ok(Some(PhaseOutcome::Measured(Box::new(round))))
    }

    /// Blobs that the open store has evicted since it was started; `None` if it evicts none.
    pub(in crate::engine) fn evictions_so_far(&self) -> Result<Option<u64>> {
        self.open.as_ref().map_or(Ok(None), |(_, store)| Ok(store.evictions()?))
    }

    pub(in crate::engine) fn finish(&self, round: &mut Round, tally: &Tally, meter: &Meter) -> Result<()> {
        round.ops = tally.ops;
        round.blobs = tally.blobs;
        round.bytes = tally.bytes;
        round.passes = tally.passes;
        round.counters = tally.counters.clone();
        // A server that was started again counts from 0.
        let evictions = self.evictions_so_far()?.zip(self.evictions);
        round.counters.evictions = evictions.map_or(0, |(now, then)| now.checked_sub(then).unwrap_or(now));
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
        if let Some(clients) = self.run.clients {
            round.client_cpu_ns = round.clients.iter().map(|client| client.process_cpu_ns).sum();
            // On other hosts, only the clients themselves are measured.
            round.total_cpu_ns = used.busy_ns.filter(|_| clients.are_on_one_host());
        }
        if let Some(device) = used.device {
            round.device_reads = Some(device.reads);
            round.device_read_bytes = Some(device.read_bytes);
            round.device_writes = Some(device.writes);
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
        round.server_mapped_bytes = meter.server_mapped_bytes();
        let memory = self.memory.beyond();
        // The stores of the other clients are not measured.
        round.client_peak_bytes = memory.peak_bytes.filter(|_| !self.is_one_for_each_client());
        round.anonymous_bytes = memory.anonymous_bytes;
        round.mapped_bytes = memory.mapped_bytes;
        let mut resident_bytes = 0;
        if self.caps().persistent && self.subject.corpus.blobs() <= RESIDENCY_BLOBS_MAX {
            let (share, bytes) = machine::resident(&self.dir, 1);
            (round.page_cache_share, resident_bytes) = (Some(share), bytes);
        }
        round.memory = self.memory_of_group(resident_bytes)?;
        Ok(())
    }
}

/// Bytes by which a store has grown since it was empty. Logs are excluded from both, because they are recycled or truncated
/// eventually, and their contents are stored elsewhere too. `None` if the rest is smaller than the blobs: they are then only in
/// the log (or compressed, which looks the same).
fn grown(empty: &Footprint, after: &DiskUse) -> Option<u64> {
    let before = empty.empty_bytes?.saturating_sub(empty.empty_log_bytes?);
    let grown = after.all.saturating_sub(after.logs?).saturating_sub(before);
    (grown >= empty.logical_bytes).then_some(grown)
}

pub(in crate::engine) fn open_loop(rate: f64, tally: &Tally) -> OpenLoop {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_and_the_empty_store_do_not_grow_with_the_blobs() {
        let empty = Footprint {
            logical_bytes: 90,
            empty_bytes: Some(40),
            empty_log_bytes: Some(16),
            ..Footprint::default()
        };
        let taken = |all, logs| DiskUse { all, directories: None, logs };
        // 24 bytes were taken before anything was put, and the log has tripled.
        assert_eq!(grown(&empty, &taken(172, Some(48))), Some(100));
        // Some or all blobs are only in the log.
        assert_eq!(grown(&empty, &taken(172, Some(140))), None);
        // Unknown if the size of logs is unknown.
        assert_eq!(grown(&empty, &taken(172, None)), None);
        assert_eq!(grown(&Footprint::default(), &taken(172, Some(48))), None);
    }
}
