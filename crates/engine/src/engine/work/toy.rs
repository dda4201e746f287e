//! A kind of work for tests only: checks whether a store keeps its blobs in its directory. It shows that another kind of work
//! takes no more than one file and one line in the table.

use super::super::candidate_run::{CandidateRun, PhaseOutcome, PhaseRun};
use super::{Applicant, Work, WorkKind};
use crate::plan::{CustomAction, Phase, StandardPhase};
use crate::result::{Bearing, ColumnType, FindingsColumn, FindingsTable, FindingsValue};

const NAME: &str = "toy";
const STANDARD: &[StandardPhase] = &[StandardPhase {
    id: NAME,
    about: "looks whether the blobs lie in the directory of a store",
    phases: || vec![Phase::custom(NAME, NAME, CustomAction::new("keeps"))],
}];

pub(super) const KIND: WorkKind = WorkKind { name: NAME, standard: STANDARD, work: &ToyWork };

struct ToyWork;

impl Work for ToyWork {
    fn impossible(&self, applicant: &Applicant<'_>, _phase: &Phase) -> Option<String> {
        (!applicant.caps.contents).then(|| "has no blobs to keep".to_owned())
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, _phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let bytes = candidate_run.bytes_taken(candidate_run.store()?.0)?.map_or(0, |taken| taken.all);
        let (bearing, verdict) = if bytes < candidate_run.state.live_bytes() {
            (Bearing::Fails, "Its directory has less than the blobs.")
        } else {
            (Bearing::Holds, "Its directory has what it keeps.")
        };
        let alive = candidate_run.state.live_blobs();
        Ok(Some(PhaseOutcome::Found(Box::new(FindingsTable {
            title: "What stores keep".to_owned(),
            columns: vec![
                FindingsColumn::new("where", ColumnType::Text),
                FindingsColumn::new("blobs", ColumnType::Count),
                FindingsColumn::new("disk", ColumnType::Bytes),
            ],
            lines: vec![vec![
                FindingsValue::text("its directory"),
                FindingsValue::number(alive as f64),
                FindingsValue::number(bytes as f64),
            ]],
            bearing,
            verdict: verdict.to_owned(),
            power_cuts: None,
        }))))
    }
}
