//! Page loads in a browser: each read is a whole page. The pages are published first.

use super::super::candidate_run::{CandidateRun, PhaseRun};
use super::{Work, WorkKind};
use crate::plan::{Length, OpKind, Phase, Role, StandardPhase, Workload};

/// Loads of a page per round: even those of the quickest pages then take as long as a ranked cell must.
const LOADS: u64 = 20;

const NAME: &str = "pages";
const STANDARD: &[StandardPhase] = &[
    StandardPhase {
        id: "publish",
        about: "puts every blob once, as what later phases need: it is not reported",
        phases: || {
            let puts = Phase::of_ops("publish", Workload::new(OpKind::Put, Length::Share(1.0)));
            vec![Phase { kind: NAME, role: Role::Prepare, ..puts }]
        },
    },
    StandardPhase {
        id: "load",
        about: "loads pages in a real browser, each in a fresh context; from the start of the navigation until everything is shown",
        phases: || {
            vec![Phase {
                kind: NAME,
                ..Phase::of_ops("load", Workload::new(OpKind::Get, Length::Ops(LOADS)))
            }]
        },
    },
];

pub(super) const KIND: WorkKind = WorkKind { name: NAME, standard: STANDARD, work: &PageWork };

struct PageWork;

impl Work for PageWork {
    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let Some(load) = phase.load() else { return Ok(None) };
        candidate_run.ops(phase, load)
    }
}
