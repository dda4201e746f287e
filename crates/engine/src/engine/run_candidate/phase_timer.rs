//! How long a phase with limited memory may take before it counts as stuck.
//!
//! Before the kernel kills it, a process may spend minutes rereading its own program page by page: one of fjall's phases took 465 s
//! of a default run that was planned for 165 s, and 1 s in other runs; 28 s of a pilot cost that run half of its columns.

use std::time::Duration;

use super::super::candidate_run::{CandidateOnCorpus, RoundSlot};
use crate::corpus::CorpusId;
use crate::plan::Plan;
use crate::rules::{STUCK_SECONDS_MIN, STUCK_TIMES};

pub(super) struct PhaseTimer<'a> {
    plan: &'a Plan,
    corpus_id: CorpusId,
    corpus_bytes: u64,
    /// Time limit of a phase with limited memory, if no phase before it was slow; `None` for no limit.
    planned: Option<Duration>,
    /// Maximum of any such limit.
    most: Option<Duration>,
    /// Durations of the longest phases so far: of those that only read, and of those that write. A fill says little of reads from
    /// the device, and the other way round.
    longest: [Duration; 2],
    /// The current phase: whether it writes, and when it began.
    current: Option<(bool, Duration)>,
}

impl<'a> PhaseTimer<'a> {
    /// Times the phases of a candidate run. One with limited memory has as long as the whole run was planned to take, but at least
    /// [`STUCK_SECONDS_MIN`], and never longer than all phases together have.
    pub(super) fn new(plan: &'a Plan, subject: CandidateOnCorpus, slot: RoundSlot) -> PhaseTimer<'a> {
        let least = Duration::from_secs(STUCK_SECONDS_MIN);
        PhaseTimer {
            plan,
            corpus_id: subject.corpus_id,
            corpus_bytes: subject.corpus.bytes(),
            planned: slot.planned.map(|planned| planned.max(least)),
            most: slot.patience,
            longest: [Duration::ZERO; 2],
            current: None,
        }
    }

    /// Begins a phase at a moment, and ends the one before it. Returns the new phase's time limit; `None` if it has none, because its
    /// memory is not limited or the run has no budget.
    ///
    /// More than planned is given to a candidate that is slow now: [`STUCK_TIMES`] the longest phase of its run so far that reads,
    /// or writes, as this one does.
    pub(super) fn begins(&mut self, phase: &str, now: Duration) -> Option<Duration> {
        if let Some((writes, begun)) = self.current {
            let longest = &mut self.longest[usize::from(writes)];
            *longest = (*longest).max(now.saturating_sub(begun));
        }
        let known = self.plan.phases_of(self.corpus_id).find(|known| known.id == phase);
        self.current = known.map(|known| (known.writes(), now));
        let known = known?;
        self.plan.memory_of(known, self.corpus_bytes)?;
        let slow = self.longest[usize::from(known.writes())] * STUCK_TIMES;
        let limit = self.planned?.max(slow);
        Some(self.most.map_or(limit, |most| limit.min(most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Corpus;
    use crate::engine::work::resolved;

    impl<'a> PhaseTimer<'a> {
        /// Times the phases of a plan with exactly this limit.
        pub(in super::super) fn with_limit(plan: &'a Plan, planned: Option<Duration>) -> PhaseTimer<'a> {
            PhaseTimer {
                plan,
                corpus_id: CorpusId::ONLY,
                corpus_bytes: 29_000_000,
                planned,
                most: None,
                longest: [Duration::ZERO; 2],
                current: None,
            }
        }
    }

    fn plan() -> Plan {
        resolved(
            "stores = ['files/flat']\nphases = ['fill', 'read-warm', 'read-tight', 'read-tight-zipf', 'overwrite']\n\
             budget = '60s'",
        )
    }

    /// The time limits of phases that begin after this many seconds.
    fn limits(timer: &mut PhaseTimer, begins: &[(&str, u64)]) -> Vec<Option<u64>> {
        let begin = |(phase, second): &(&str, u64)| timer.begins(phase, Duration::from_secs(*second));
        begins.iter().map(begin).map(|limit| limit.map(|limit| limit.as_secs())).collect()
    }

    #[test]
    fn a_phase_with_limited_memory_may_take_as_long_as_its_visit_was_planned_to() {
        let plan = plan();
        let corpus = Corpus::build(&plan.corpora[0].request).unwrap();
        let subject =
            CandidateOnCorpus { candidate: &plan.candidates[0], corpus: &corpus, corpus_id: CorpusId::ONLY };
        let given = |planned: Option<u64>, patience: Option<u64>, warm: u64| {
            let slot = RoundSlot {
                patience: patience.map(Duration::from_secs),
                planned: planned.map(Duration::from_secs),
                ..RoundSlot::first()
            };
            let mut timer = PhaseTimer::new(&plan, subject, slot);
            limits(&mut timer, &[("fill", 0), ("read-warm", 6), ("read-tight", 6 + warm)])[2]
        };
        assert_eq!(given(Some(16), None, 1), Some(16), "neither ten times the fill nor a whole round");
        assert_eq!(given(Some(2), None, 1), Some(STUCK_SECONDS_MIN), "time for a slow disk");
        assert_eq!(given(Some(16), None, 9), Some(27), "a candidate that reads slowly now");
        // In the pilot nothing is planned yet, and a candidate has only so much of it.
        assert_eq!(given(Some(0), Some(15), 1), Some(STUCK_SECONDS_MIN));
        assert_eq!(given(Some(0), Some(15), 9), Some(15));
        assert_eq!(given(None, None, 1), None, "nobody waits for the end of a run without a budget");
    }

    #[test]
    fn only_phases_that_read_alike_tell_slow_from_stuck() {
        let plan = plan();
        let mut timer = PhaseTimer::with_limit(&plan, Some(Duration::from_secs(10)));
        let begins =
            [("fill", 0), ("read-warm", 60), ("read-tight", 61), ("read-tight-zipf", 70), ("overwrite", 71)];
        assert_eq!(limits(&mut timer, &begins), [None, None, Some(10), Some(27), None]);
    }
}
