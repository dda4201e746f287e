//! Carries out deletes that were only marked, as one op, and settles the store.

use super::super::candidate_run::{CandidateRun, PhaseRun};
use super::super::workers::tally::Tally;
use super::super::workers::worker;
use super::{Applicant, Work, WorkKind};
use crate::judge::histogram::BANDS;
use crate::plan::{Class, CustomAction, Phase, StandardPhase};

const NAME: &str = "purge";
const STANDARD: &[StandardPhase] = &[StandardPhase {
    id: NAME,
    about: "removes blobs whose delete was only marked (`delete=lazy`), as one op",
    phases: || {
        let purge = Phase::custom(NAME, NAME, CustomAction { writes: true, ..CustomAction::new("purges") });
        vec![Phase { class: Class::Asked, ..purge }]
    },
}];

pub(super) const KIND: WorkKind = WorkKind { name: NAME, standard: STANDARD, work: &PurgeWork };

struct PurgeWork;

impl Work for PurgeWork {
    fn impossible(&self, applicant: &Applicant<'_>, _phase: &Phase) -> Option<String> {
        let lazy = applicant.candidate.traits().lazy_delete;
        (!lazy).then(|| "deletes at once: there is nothing to purge".to_owned())
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let mut tally = Tally::new([true; BANDS.len()], false);
        let mut meter = candidate_run.meter();
        let (store, _) = candidate_run.store()?;
        meter.start(&store.servers());
        worker::whole(&candidate_run.run.clock, &mut tally, || store.purge())?;
        meter.stop(&store.servers());
        let mut round = candidate_run.new_round(0);
        candidate_run.settle(phase, &mut meter, &mut round)?;
        candidate_run.measured(round, &tally, &meter)
    }
}
