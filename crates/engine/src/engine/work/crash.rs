//! Cuts the power of a virtual disk while the candidate works on it, and checks what is left.
//!
//! A helper process does this: it forks, which a program with threads cannot do safely, and its mounts must be private.

use anyhow::{Context, Result, bail};

use super::super::candidate_run::{CandidateRun, PhaseOutcome, PhaseRun};
use super::super::ops::derived_seed;
use super::{Applicant, LengthInputs, Work, WorkKind};
use crate::crash::{HelperRequest, kind_below, lacks, why_not};
use crate::host::place::remove_tree;
use crate::plan::{Class, CustomAction, Phase, StandardPhase};
use crate::result::crash::{Cuts, LossVerdict, PowerCutResults};
use crate::result::{Bearing, ColumnType, FindingsColumn, FindingsTable, FindingsValue, FixedLength};
use crate::units;

const NAME: &str = "crash";
const STANDARD: &[StandardPhase] = &[StandardPhase {
    id: NAME,
    about: "cuts the power of a disk of its own under the store, and looks at what is left (as root)",
    phases: || vec![Phase { class: Class::Asked, ..Phase::custom(NAME, NAME, CustomAction::new("keeps")) }],
}];

/// Cuts per round: five rounds make as many as `blobwise crash`.
const CUTS: f64 = 48.0;
/// The pilot makes one in this many of them.
const PILOT_PART: u64 = 8;

pub(super) const KIND: WorkKind = WorkKind { name: NAME, standard: STANDARD, work: &CrashWork };

struct CrashWork;

impl Work for CrashWork {
    fn impossible(&self, applicant: &Applicant<'_>, _phase: &Phase) -> Option<String> {
        let why = why_not(applicant.candidate).or_else(|| lacks(kind_below(&applicant.plan.dir)));
        why.map(|why| format!("{why:#}"))
    }

    fn length(&self, asked: &LengthInputs<'_>, _phase: &Phase) -> FixedLength {
        let cuts = (CUTS * asked.plan.scale.min(1.0)).ceil() as u64;
        FixedLength { ops: cuts, ..FixedLength::default() }
    }

    fn pilot_length(&self, planned: FixedLength) -> FixedLength {
        FixedLength { ops: planned.ops.div_ceil(PILOT_PART), ..planned }
    }

    /// Treats the workload and the controls as if they scaled with the number of cuts, so that the estimate is too long rather
    /// than too short.
    fn seconds_to_find(&self, pilot_seconds: f64) -> f64 {
        pilot_seconds * PILOT_PART as f64
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let run = candidate_run.run;
        let cuts = candidate_run.length(phase)?.ops as usize;
        // No two rounds repeat the same cuts, because their results are added up.
        let purpose = candidate_run.subject.corpus_id.key(&phase.id);
        let seed = derived_seed(candidate_run.plan().seed, candidate_run.slot.round, &purpose);
        let (candidate, class) = (candidate_run.subject.candidate, candidate_run.class(phase.class));
        let dir = candidate_run.dir.with_extension("cut");
        std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let kind = kind_below(candidate_run.place());
        // A directory apart from that of the run, which the run's own servers may be using.
        let shared = run.place.join(NAME);
        let done = HelperRequest::new(candidate, class, kind, (cuts, seed), &dir, &shared).done(run.stop);
        remove_tree(&dir)?;
        done?.map(|cuts| outcome(&cuts)).transpose()
    }
}

fn outcome(cuts: &Cuts) -> Result<PhaseOutcome> {
    let line = &cuts.line;
    let (Some(finding), None) = (&line.finding, &line.failed) else {
        bail!("{}", line.failed.as_deref().unwrap_or("nothing was found"));
    };
    let bearing = match line.verdict {
        Some(LossVerdict::Confirmed) => Bearing::Holds,
        // A known fault elsewhere counts as well, because the blobs are gone.
        Some(LossVerdict::Refuted | LossVerdict::KnownFault) => Bearing::Fails,
        Some(LossVerdict::NothingPromised | LossVerdict::TooFewCuts) | None => Bearing::Neither,
    };
    Ok(PhaseOutcome::Found(Box::new(FindingsTable {
        title: "Keeping what is promised through power cuts".to_owned(),
        columns: vec![
            FindingsColumn::new("class", ColumnType::Text),
            FindingsColumn::new("file system", ColumnType::Text),
            FindingsColumn::new("cuts", ColumnType::Count),
            FindingsColumn::new("broke a promise", ColumnType::Count),
            FindingsColumn::new("took recent writes", ColumnType::Count),
        ],
        lines: vec![vec![
            FindingsValue::text(line.durability.name()),
            FindingsValue::text(&line.file_system),
            FindingsValue::number(finding.cuts as f64),
            FindingsValue::number(finding.damages() as f64),
            FindingsValue::number(finding.lost_recent as f64),
        ]],
        bearing,
        verdict: verdict(cuts, finding),
        power_cuts: Some(Box::new(cuts.clone())),
    })))
}

fn verdict(cuts: &Cuts, finding: &PowerCutResults) -> String {
    let line = &cuts.line;
    let of = units::counted(finding.cuts, "power cut");
    let (class, damages) = (line.durability.name(), finding.damages());
    match line.verdict {
        None => "A control failed, so there is no verdict.".to_owned(),
        Some(LossVerdict::NothingPromised) => {
            format!("In class {class} it promises nothing that {of} could take.")
        }
        Some(LossVerdict::TooFewCuts) => {
            format!("{damages} of {of} broke what class {class} promises, which are too few to say more.")
        }
        Some(LossVerdict::Confirmed) => {
            let most = 100.0 * finding.at_most();
            format!("{damages} of {of} broke what class {class} promises (below {most:.2} % at 95 %).")
        }
        Some(LossVerdict::Refuted | LossVerdict::KnownFault) => {
            let first = finding.first.as_deref().unwrap_or("see the table");
            format!("{damages} of {of} broke what class {class} promises; the first: {first}.")
        }
    }
}
