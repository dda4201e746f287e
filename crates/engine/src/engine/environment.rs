//! Warnings about the machine, found before and after measuring.

use std::path::Path;

use super::resources::IdleActivity;
use super::workers::clock::HostClock;
use crate::host::machine::{self, Medium};
use crate::plan::{CacheState, Candidate, OpKind, Phase, Plan};
use crate::records::Records;
use crate::result::Warning;
use crate::rules::{OTHERS_PROCESSOR_SHARE_MAX, PROCESSOR_CACHE_TIMES, STOLEN_SHARE_MAX};

/// Looks at the machine and records a warning for everything that makes its figures doubtful.
///
/// `places[0]` is the directory of the run; candidates may lie in any of the places.
pub fn look(records: &mut Records, plan: &Plan, clock: &HostClock, places: &[&Path], idle: IdleActivity) {
    let Some(place) = places.first() else { return };
    if cfg!(debug_assertions) {
        records.warning(Warning::DebugBuild);
    }
    if matches!(clock, HostClock::Monotonic { .. }) {
        records.warning(Warning::Clock);
    }
    let settings = records.machine.preloaded();
    if !settings.is_empty() {
        let replaced = records.machine.replaced_flushes.clone();
        records.warning(Warning::Preloaded { settings, replaced });
    }
    if let Some(below) = records.machine.below.as_ref().filter(|below| below.medium == Medium::Memory) {
        let layers = below.layers.clone();
        records.warning(Warning::Tmpfs { layers });
    }
    let on_disks =
        |candidate: &Candidate| candidate.options.file_system_option().is_some() || !candidate.can_be_cold();
    // The run's own directory counts only if a candidate keeps files there. Without deletions there is nothing to remember.
    let used = &places[usize::from(plan.candidates.iter().all(on_disks))..];
    if used.iter().any(|place| machine::remembers_deletions(place)) {
        records.warning(Warning::NoJournal);
    }
    let share = idle.busy_ns / 1e9 / machine::cores() as f64;
    if share > OTHERS_PROCESSOR_SHARE_MAX {
        records.warning(Warning::Noise { share });
    }
    if records.machine.virtual_machine {
        records.warning(Warning::VirtualMachine);
    }
    if plan.phases.iter().any(|phase| phase.cache.is_cold()) {
        match machine::host_caches(place, plan.seed ^ u64::from(std::process::id())) {
            Some(true) => records.warning(Warning::HostCache),
            Some(false) => {}
            None => records.warning(Warning::HostCacheUnknown),
        }
        if !plan.drop_caches || !machine::can_drop_caches() {
            records.warning(Warning::Lukewarm);
        }
    }
    let corpus_bytes: u64 = records.corpora.iter().map(|corpus| corpus.bytes).max().unwrap_or(0);
    note_processor_cache(records, plan, corpus_bytes);
    let memory_bytes = records.machine.memory_bytes;
    // Runs that limit memory already cover the case that the corpus does not fit.
    if corpus_bytes < memory_bytes / 2 && !plan.shows_pages() && !plan.limits_memory() {
        records.warning(Warning::CorpusInMemory { corpus_bytes, memory_bytes });
    }
}

/// Warns if warm reads of whole blobs may be served by the processor's cache. For a corpus of about its size, hits are a matter
/// of luck.
fn note_processor_cache(records: &mut Records, plan: &Plan, corpus_bytes: u64) {
    let Some(cache_bytes) = records.machine.processor_cache_bytes else { return };
    let gets = |phase: &Phase| {
        phase.load().is_some_and(|load| load.mix.iter().any(|(kind, _)| *kind == OpKind::Get))
    };
    let is_read_warm = plan.phases.iter().any(|phase| phase.cache == CacheState::Warm && gets(phase));
    if is_read_warm && (corpus_bytes as f64) < PROCESSOR_CACHE_TIMES * cache_bytes as f64 {
        records.warning(Warning::ProcessorCache { corpus_bytes, cache_bytes });
    }
}

/// Warns if other virtual machines took processor time away during the run.
pub fn look_back(records: &mut Records, stolen_before: std::time::Duration, seconds: f64) {
    let stolen = (machine::stolen().saturating_sub(stolen_before)).as_secs_f64();
    let share = stolen / (seconds * machine::cores() as f64).max(1e-9);
    if share > STOLEN_SHARE_MAX {
        records.warning(Warning::Steal { share });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::work::resolved;
    use crate::result::{Machine, MeasuringProgram};

    /// Returns the warnings for a corpus of 20 kB on a processor with this cache, in a plan with these phases.
    fn said(cache_bytes: Option<u64>, phases: &str) -> Vec<Warning> {
        let plan = resolved(&format!("stores = ['files/flat']\nphases = {phases}"));
        let machine = Machine { processor_cache_bytes: cache_bytes, ..Machine::default() };
        let mut records = Records::new(Vec::new(), MeasuringProgram::default(), machine);
        note_processor_cache(&mut records, &plan, 20_000);
        records.warnings
    }

    #[test]
    fn warm_reads_from_the_cache_of_the_processor_are_told() {
        let warm = "['fill', 'read-warm']";
        let told = [Warning::ProcessorCache { corpus_bytes: 20_000, cache_bytes: 10_001 }];
        assert_eq!(said(Some(10_001), warm), told);
        assert_eq!(said(Some(10_000), warm), [], "twice the cache is enough");
        assert_eq!(said(Some(10_001), "['fill', 'overwrite']"), [], "nothing is read");
        assert_eq!(said(Some(10_001), "['fill', 'range-head']"), [], "no whole blob is read");
        assert_eq!(said(None, warm), [], "nothing is known of a cache");
    }
}
