//! Opens the closed store and reads one blob, several times.

use super::super::candidate_run::{CandidateRun, PhaseOutcome, PhaseRun};
use super::super::ops::{PlannedOp, derived_seed};
use super::super::workers::tally::Tally;
use super::super::workers::worker;
use super::{Work, WorkKind};
use crate::host::machine;
use crate::judge::SHORT_SECONDS;
use crate::judge::histogram::BANDS;
use crate::plan::{CustomAction, OpKind, Phase, StandardPhase};
use crate::rules::SHORT_OPS;
use crate::store::Mode;

/// Number of openings after which the phase ends, unless [`REOPEN_SECONDS`] end it first. Neither makes it too short to be
/// ranked.
const REOPENS: u64 = SHORT_OPS;
/// Duration after which the phase ends, in seconds. See [`REOPENS`].
const REOPEN_SECONDS: f64 = SHORT_SECONDS;

const NAME: &str = "reopen";
const STANDARD: &[StandardPhase] = &[StandardPhase {
    id: NAME,
    about: "opens the closed store and reads one blob",
    phases: || vec![Phase::custom(NAME, NAME, CustomAction { reopens: true, ..CustomAction::new("opens") })],
}];

pub(super) const KIND: WorkKind = WorkKind { name: NAME, standard: STANDARD, work: &ReopenWork };

struct ReopenWork;

impl Work for ReopenWork {
    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let seed = derived_seed(candidate_run.plan().seed, candidate_run.slot.round, &phase.id);
        let ids: Vec<u32> = (0..candidate_run.state.alive.len() as u32)
            .filter(|id| candidate_run.state.alive[*id as usize])
            .collect();
        if ids.is_empty() {
            let why = "the store holds no blob to read".to_owned();
            return Ok(Some(PhaseOutcome::NotPossible(why)));
        }
        let class = candidate_run.class(phase.class);
        let mut tally = Tally::new([true; BANDS.len()], false);
        tally.first_apart = false;
        let mut meter = candidate_run.meter();
        let mut seconds = 0.0;
        let kept_running = candidate_run.subject.candidate.traits().kept_running().is_some();
        while tally.ops < REOPENS && seconds < REOPEN_SECONDS && !candidate_run.run.stopped() {
            candidate_run.close()?;
            let id = ids[(seed as usize).wrapping_add(tally.ops as usize * 7919) % ids.len()];
            let op = PlannedOp {
                blob: id,
                kind: OpKind::Get,
                len: candidate_run.state.len[id as usize],
                generation: candidate_run.state.generation[id as usize],
                offset: 0,
            };
            let key = &candidate_run.subject.corpus.keys.at(id as usize);
            meter.start(&[]);
            let cpu = machine::thread_cpu_ns();
            let open = || candidate_run.opened(class, Mode::Open);
            let store = worker::reopen(&candidate_run.run.clock, &open, key, &op, &mut tally)?;
            tally.cpu_ns += machine::thread_cpu_ns().saturating_sub(cpu);
            // A server that stays up while the store is closed also uses its processor time for others.
            let servers = if kept_running { Vec::new() } else { store.servers() };
            seconds += meter.stop(&servers);
            candidate_run.open = Some((class, store));
        }
        let mut round = candidate_run.new_round(seed);
        round.seconds = seconds;
        candidate_run.measured(round, &tally, &meter)
    }
}
