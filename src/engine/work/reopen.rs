//! Opens the closed store and reads one blob, several times.

use super::super::ops::{PlannedOp, derived_seed};
use super::super::visitor::{Done, Outcome, Visitor};
use super::super::workers::tally::Tally;
use super::super::workers::worker;
use super::Work;
use crate::host::machine;
use crate::judge::SHORT_SECONDS;
use crate::judge::histogram::BANDS;
use crate::plan::{Deed, OpKind, Phase, StandardPhase};
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
    phases: |_| vec![Phase::of_deed(NAME, NAME, Deed { reopens: true, ..Deed::new("opens") })],
}];

pub(super) struct Reopen;

impl Work for Reopen {
    fn name(&self) -> &'static str {
        NAME
    }

    fn standard(&self) -> &'static [StandardPhase] {
        STANDARD
    }

    fn run(&self, visitor: &mut Visitor<'_>, phase: &Phase, _repeat: Option<&Phase>) -> Done {
        let seed = derived_seed(visitor.plan().seed, visitor.turn.round, &phase.id);
        let ids: Vec<u32> =
            (0..visitor.state.alive.len() as u32).filter(|id| visitor.state.alive[*id as usize]).collect();
        if ids.is_empty() {
            let why = "the store holds no blob to read".to_owned();
            return Ok(Some(Outcome::NotPossible(why)));
        }
        let class = visitor.class(phase.class);
        let mut tally = Tally::new([true; BANDS.len()], false);
        tally.first_apart = false;
        let mut meter = visitor.meter();
        let mut seconds = 0.0;
        let kept_running = visitor.subject.candidate.traits().kept_running().is_some();
        visitor.begin_memory();
        while tally.ops < REOPENS && seconds < REOPEN_SECONDS && !visitor.run.stopped() {
            visitor.close()?;
            let id = ids[(seed as usize).wrapping_add(tally.ops as usize * 7919) % ids.len()];
            let op = PlannedOp {
                blob: id,
                kind: OpKind::Get,
                len: visitor.state.len[id as usize] as u32,
                generation: visitor.state.generation[id as usize],
                offset: 0,
            };
            let key = &visitor.subject.corpus.keys[id as usize];
            meter.start(&[]);
            let cpu = machine::thread_cpu_ns();
            let open = || visitor.opened(class, Mode::Open);
            let store = worker::reopen(&visitor.run.clock, &open, key, &op, &mut tally)?;
            tally.cpu_ns += machine::thread_cpu_ns().saturating_sub(cpu);
            // A server that stays up while the store is closed also uses its processor time for others.
            let servers = if kept_running { Vec::new() } else { store.servers() };
            seconds += meter.stop(&servers);
            visitor.open = Some((class, store));
        }
        let mut round = visitor.new_round(seed);
        round.seconds = seconds;
        visitor.measured(round, &tally, &meter)
    }
}
