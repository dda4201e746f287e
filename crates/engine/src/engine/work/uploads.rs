//! Uploads through a catalog. They are ops of their own kind, measured like other ops.

use super::super::candidate_run::{CandidateRun, PhaseRun};
use super::{Applicant, Work, WorkKind, ops};
use crate::plan::{Length, OpKind, Phase, StandardPhase, Workload};

const STANDARD: &[StandardPhase] = &[
    StandardPhase {
        id: "register",
        about: "uploads through a catalogue (option `catalogue`), every fifth one of a content that is there: digest, find, insert, put",
        phases: || ops::asked("register", Workload::new(OpKind::Register, Length::Share(1.0))),
    },
    StandardPhase {
        id: "release",
        about: "takes half of the uploads back; the blob goes with the last reference",
        phases: || ops::asked("release", Workload::new(OpKind::Release, Length::Share(0.5))),
    },
];

pub(super) const KIND: WorkKind = WorkKind { name: "uploads", standard: STANDARD, work: &UploadWork };

struct UploadWork;

impl Work for UploadWork {
    fn does(&self, phase: &Phase) -> bool {
        phase.has_uploads()
    }

    fn impossible(&self, applicant: &Applicant<'_>, phase: &Phase) -> Option<String> {
        let (_, batch) = applicant.plan.hands_of(phase);
        let in_batches = || (batch > 1).then(|| "uploads have no batches".to_owned());
        applicant.candidate.why_no_uploads().or_else(in_batches)
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let Some(load) = phase.load() else { return Ok(None) };
        candidate_run.open_catalog()?;
        candidate_run.ops(phase, load)
    }
}
