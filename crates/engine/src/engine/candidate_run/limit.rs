//! The memory limit of a candidate, phase by phase.

use anyhow::{Result, bail};

use super::CandidateRun;
use crate::host::control_group::{MemoryGroup, MemoryUse};
use crate::host::machine;
use crate::host::server::Server;
use crate::plan::Phase;
use crate::result::RoundMemory;
use crate::rules::MEMORY_MIN;
use crate::store::Mode;
use crate::units;

/// Memory of the harness that is counted in a candidate's control group, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnMemory {
    /// What a process of the harness takes before it has done anything.
    pub empty_bytes: u64,
    /// Maximum beyond that in a phase: lists of ops, histograms, threads.
    pub phase_bytes: u64,
}

impl Default for OwnMemory {
    /// The values that are assumed before they are measured.
    fn default() -> OwnMemory {
        OwnMemory { empty_bytes: 8 << 20, phase_bytes: 16 << 20 }
    }
}

/// The control group that counts a candidate's memory, and its current limit.
pub(in crate::engine) struct MemoryLimit<'a> {
    group: &'a MemoryGroup,
    own: OwnMemory,
    /// Memory of the candidate when opened and empty, including the harness.
    empty_bytes: u64,
    /// Memory that the candidate may use beyond that in this phase; `None` if unlimited.
    budget_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    before: MemoryUse,
}

impl<'a> MemoryLimit<'a> {
    /// Wraps a group that this process is in and that has no limit yet.
    pub(in crate::engine) fn new(group: &'a MemoryGroup, own: OwnMemory) -> MemoryLimit<'a> {
        MemoryLimit {
            group,
            own,
            empty_bytes: 0,
            budget_bytes: None,
            limit_bytes: None,
            before: MemoryUse::default(),
        }
    }

    fn mark(&mut self) {
        self.group.reset_peak();
        self.before = self.group.now();
    }

    /// Returns memory of the candidate that its group does not count: processes of its servers outside of the group, and pages of
    /// its files (`resident_bytes` are in memory) beyond those charged to the group.
    fn outside_bytes(&self, now: &MemoryUse, servers: &[&Server], resident_bytes: u64) -> u64 {
        let strangers =
            servers.iter().map(|server| server.memory_of(|pid| !self.group.holds(pid)).all_bytes());
        // Files in tmpfs, where some stores keep their data, count as anonymous memory.
        strangers.sum::<u64>() + resident_bytes.saturating_sub(now.cache_bytes + now.anonymous_bytes)
    }

    fn measured(&self, servers: &[&Server], resident_bytes: u64) -> RoundMemory {
        let now = self.group.now();
        RoundMemory {
            budget_bytes: self.budget_bytes,
            limit_bytes: self.limit_bytes,
            empty_bytes: self.empty_bytes,
            peak_bytes: now.peak_bytes,
            cache_bytes: now.cache_bytes,
            anonymous_bytes: now.anonymous_bytes,
            kernel_bytes: now.kernel_bytes,
            refaults: now.refaults.saturating_sub(self.before.refaults),
            major_faults: now.major_faults.saturating_sub(self.before.major_faults),
            limit_hits: now.limit_hits.saturating_sub(self.before.limit_hits),
            outside_bytes: self.outside_bytes(&now, servers, resident_bytes),
            ideal_lru_bytes_per_byte: None,
        }
    }
}

impl CandidateRun<'_> {
    pub(in crate::engine) fn weigh_empty(&mut self) {
        if let Some(limit) = &mut self.limit {
            limit.empty_bytes = limit.group.now().kept_bytes();
            self.outcome.footprint.empty_memory_bytes =
                Some(limit.empty_bytes.saturating_sub(limit.own.empty_bytes));
        }
    }

    /// Starts a new measurement of the peak memory. Each phase begins with one; a kind of work that prepares its ops by doing others
    /// calls this again before those that it measures.
    pub(in crate::engine) fn begin_memory(&mut self) {
        machine::reset_peak();
        self.limit.iter_mut().for_each(MemoryLimit::mark);
    }

    /// True if the candidate's memory is full: it has met the limit in this phase, or has grown by at most 1 % of its budget
    /// since the previous check, whose value is in `held`. Also true without a limit.
    pub(in crate::engine) fn is_full(&self, held: &mut u64) -> bool {
        const GROWTH: u64 = 100;
        let Some((limit, budget)) = self.limit.as_ref().and_then(|limit| Some((limit, limit.budget_bytes?)))
        else {
            return true;
        };
        let now = limit.group.now();
        let before = std::mem::replace(held, now.all_bytes);
        now.limit_hits > limit.before.limit_hits || now.all_bytes <= before + budget / GROWTH
    }

    /// Returns what the candidate's group has counted since the phase began, and memory outside of it; `resident_bytes` of its
    /// files are in memory. `None` if its memory is not counted.
    pub(in crate::engine) fn memory_of_group(&self, resident_bytes: u64) -> Result<Option<RoundMemory>> {
        let Some(limit) = &self.limit else { return Ok(None) };
        Ok(Some(limit.measured(&self.store()?.0.servers(), resident_bytes)))
    }

    /// Memory that the candidate may use now, in bytes; all of the machine's memory if there is no limit.
    pub(super) fn memory_bytes(&self) -> u64 {
        let budget = self.limit.as_ref().and_then(|limit| limit.budget_bytes);
        // Before the limit is set, the store already gets the caches that it will have under it.
        let of_run = || self.plan().memory.map(|memory| memory.bytes(self.subject.corpus.bytes()));
        budget.or_else(of_run).unwrap_or_else(machine::memory_bytes)
    }

    /// Applies the memory limit of a phase. If it changes, the store is closed, evicted from the kernel's caches and opened
    /// again, so that everything read from then on is charged to its own group. Returns the reason if the candidate cannot be
    /// held to so little memory.
    pub(in crate::engine) fn give_memory(&mut self, phase: &Phase) -> Result<Option<String>> {
        let corpus_bytes = self.subject.corpus.bytes();
        let wanted = self.plan().memory_of(phase, corpus_bytes);
        let Some(limit) = &self.limit else {
            // A plan that limits memory runs its candidates in a group.
            return if wanted.is_none() { Ok(None) } else { bail!("`{}` needs a limit of memory", phase.id) };
        };
        if limit.budget_bytes == wanted {
            return Ok(None);
        }
        self.lift_limit()?;
        // The reason omits the amount: it is kept when the corpus is cut after the pilot, which changes the amount.
        if wanted.is_some_and(|budget| budget < MEMORY_MIN) {
            let least = units::bytes(MEMORY_MIN as f64);
            return Ok(Some(format!(
                "less than {least} of memory, which no candidate can be held to: `--blobs` or `--memory` larger"
            )));
        }
        let class = self.store()?.1;
        let is_reopened = self.caps().persistent && self.subject.candidate.traits().kept_running().is_none();
        if is_reopened {
            // Finishes work that was deferred by the size of the old caches, such as a journal that is read into memory.
            self.store()?.0.catch_up()?;
            self.close()?;
            machine::sync_filesystem(&self.dir)?;
            machine::evict(&self.dir);
        }
        machine::give_back_memory();
        // Set before opening, because the store sizes its caches by it.
        self.limit.iter_mut().for_each(|limit| limit.budget_bytes = wanted);
        let refused = wanted.and_then(|budget| self.limit_to(budget));
        if is_reopened {
            self.open_as(class, Mode::Open)?;
        }
        Ok(refused)
    }

    pub(in crate::engine) fn lift_limit(&mut self) -> Result<()> {
        if let Some(limit) = &mut self.limit {
            limit.group.limit(None)?;
            (limit.budget_bytes, limit.limit_bytes) = (None, None);
        }
        Ok(())
    }

    /// Sets the limit. Returns a reason if the group holds more memory than it can give up.
    fn limit_to(&mut self, budget: u64) -> Option<String> {
        let is_total = self.plan().memory_total;
        let limit = self.limit.as_mut()?;
        // The harness's share is not the candidate's, and the kernel charges several pages ahead for each processor.
        let beside = if is_total { limit.own.empty_bytes } else { limit.empty_bytes };
        let bytes = budget + beside + limit.own.phase_bytes + CHARGE_AHEAD * machine::cores() as u64;
        // The kernel counts whole pages.
        let bytes = bytes.next_multiple_of(4096);
        if limit.group.limit(Some(bytes)).is_err() {
            let held = limit.group.now().kept_bytes().saturating_sub(beside);
            limit.group.limit(None).ok();
            limit.budget_bytes = None;
            let (budget, held) = (units::bytes(budget as f64), units::bytes(held as f64));
            return Some(format!("needs more than {budget} of memory: it holds {held}"));
        }
        (limit.budget_bytes, limit.limit_bytes) = (Some(budget), Some(bytes));
        None
    }
}

/// Bytes that the kernel charges ahead for each processor: `MEMCG_CHARGE_BATCH`, 64 pages of 4 KiB.
const CHARGE_AHEAD: u64 = 64 * 4096;
