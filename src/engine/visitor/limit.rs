//! The memory that a candidate may have, phase by phase.

use anyhow::{Result, bail};

use super::Visitor;
use crate::host::control_group::{MemoryGroup, MemoryUse};
use crate::host::machine;
use crate::host::server::Server;
use crate::plan::Phase;
use crate::result::RoundMemory;
use crate::rules::MEMORY_MIN;
use crate::store::Mode;
use crate::units;

/// What the harness takes of the memory that is counted in a candidate's group, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnMemory {
    /// Before it has done anything.
    pub empty_bytes: u64,
    /// Beyond that, at most in a phase: lists of ops, histograms, threads.
    pub phase_bytes: u64,
}

impl Default for OwnMemory {
    /// What is taken for it before it was measured.
    fn default() -> OwnMemory {
        OwnMemory { empty_bytes: 8 << 20, phase_bytes: 16 << 20 }
    }
}

/// The group that counts a visit's memory, and what it is held to.
pub(in crate::engine) struct Limit<'a> {
    group: &'a MemoryGroup,
    own: OwnMemory,
    /// What the empty, opened candidate took, the harness's share included.
    empty_bytes: u64,
    /// What it may have beyond that now; `None`: as much as there is.
    budget_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    /// What was counted when the phase began.
    before: MemoryUse,
}

impl<'a> Limit<'a> {
    /// A group that this process is in, without a limit yet.
    pub(in crate::engine) fn new(group: &'a MemoryGroup, own: OwnMemory) -> Limit<'a> {
        Limit {
            group,
            own,
            empty_bytes: 0,
            budget_bytes: None,
            limit_bytes: None,
            before: MemoryUse::default(),
        }
    }

    /// Begins to count for a phase.
    fn mark(&mut self) {
        self.group.reset_peak();
        self.before = self.group.now();
    }

    /// What of the candidate's memory its group does not count: that of its servers' processes which are not in it, and pages of
    /// its files, of which so many bytes are in memory, beyond those that the group has.
    fn outside_bytes(&self, now: &MemoryUse, servers: &[&Server], resident_bytes: u64) -> u64 {
        let strangers =
            servers.iter().map(|server| server.memory_of(|pid| !self.group.holds(pid)).all_bytes());
        // Files in memory, which are the store of some, are not in the cache by its count.
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
        }
    }
}

impl Visitor<'_> {
    /// Notes what the empty, opened candidate takes.
    pub(in crate::engine) fn weigh_empty(&mut self) {
        if let Some(limit) = &mut self.limit {
            limit.empty_bytes = limit.group.now().kept_bytes();
            self.visit.footprint.empty_memory_bytes =
                Some(limit.empty_bytes.saturating_sub(limit.own.empty_bytes));
        }
    }

    /// Begins to look for the most memory anew.
    pub(in crate::engine) fn begin_memory(&mut self) {
        machine::reset_peak();
        self.limit.iter_mut().for_each(Limit::mark);
    }

    /// Whether the candidate's memory is full: the limit was met since the phase began, or no more is held than at the look before,
    /// which is `held`.
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

    /// What the candidate's group counted since then, and what it did not count, where so many bytes of its files are in memory.
    pub(in crate::engine) fn memory_of_group(&self, resident_bytes: u64) -> Result<Option<RoundMemory>> {
        let Some(limit) = &self.limit else { return Ok(None) };
        Ok(Some(limit.measured(&self.store()?.0.servers(), resident_bytes)))
    }

    /// The memory that the candidate may have now, in bytes: what the machine has, where nothing limits it.
    pub(super) fn memory_bytes(&self) -> u64 {
        let budget = self.limit.as_ref().and_then(|limit| limit.budget_bytes);
        // What is filled before there is a limit has the caches that it will have.
        let of_run = || self.plan().memory.map(|memory| memory.bytes(self.subject.corpus.bytes()));
        budget.or_else(of_run).unwrap_or_else(machine::memory_bytes)
    }

    /// Gives the candidate the memory that it may have in a phase. Its store is closed, its files are forgotten by the kernel,
    /// and it is opened again: what is read from then on is charged to its own group. A reason, where it cannot be held to so
    /// little.
    pub(in crate::engine) fn give_memory(&mut self, phase: &Phase) -> Result<Option<String>> {
        let corpus_bytes = self.subject.corpus.bytes();
        let wanted = self.plan().memory_of(phase, corpus_bytes);
        let Some(limit) = &mut self.limit else {
            // Whoever visits without a group has no phase with a limit.
            return if wanted.is_none() { Ok(None) } else { bail!("`{}` needs a limit of memory", phase.id) };
        };
        if limit.budget_bytes == wanted {
            return Ok(None);
        }
        limit.group.limit(None)?;
        (limit.budget_bytes, limit.limit_bytes) = (None, None);
        // Without the amount: a corpus that is cut after the pilot has another one, and the reason stays.
        if wanted.is_some_and(|budget| budget < MEMORY_MIN) {
            let least = units::bytes(MEMORY_MIN as f64);
            return Ok(Some(format!(
                "less than {least} of memory, which no candidate can be held to: `--blobs` or `--memory` larger"
            )));
        }
        let class = self.store()?.1;
        let is_reopened = self.caps().persistent && self.subject.candidate.traits().kept_running().is_none();
        if is_reopened {
            // What it has put off by the size of its old caches, such as a journal that is read into memory, it does before.
            self.store()?.0.catch_up()?;
            self.close()?;
            machine::sync_filesystem(&self.dir)?;
            machine::evict(&self.dir);
        }
        machine::give_back_memory();
        // Its caches are as large as it may have from now on.
        self.limit.iter_mut().for_each(|limit| limit.budget_bytes = wanted);
        let refused = wanted.and_then(|budget| self.limit_to(budget));
        if is_reopened {
            self.open_as(class, Mode::Open)?;
        }
        Ok(refused)
    }

    /// Sets the limit; a reason, if more is held than could be given up.
    fn limit_to(&mut self, budget: u64) -> Option<String> {
        let is_total = self.plan().memory_total;
        let limit = self.limit.as_mut()?;
        // The harness's part is not the candidate's, and the kernel charges by some pages at once for each processor.
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

/// What the kernel charges ahead for each processor: `MEMCG_CHARGE_BATCH`, 64 pages of 4 KiB.
const CHARGE_AHEAD: u64 = 64 * 4096;
