//! Rejuvenation: rewrites an aged store by its vendor's own means, or defragments its files by the program of their file system.

use anyhow::{Context as _, Result};

use super::super::candidate_run::{CandidateRun, PhaseOutcome, PhaseRun, beside};
use super::super::workers::worker;
use super::operate::tally;
use super::{Applicant, Forecast, Work, WorkKind};
use crate::host::disk::{DEFRAGMENTER, defragment, why_not_defragmented};
use crate::host::machine;
use crate::host::place::remove_tree;
use crate::plan::{CustomAction, Phase, StandardPhase};
use crate::result::Upkeep;
use crate::store::{Compaction, Mode};

const NAME: &str = "rejuvenate";
const STANDARD: &[StandardPhase] = &[StandardPhase {
    id: NAME,
    about: "rewrites the store by its vendor's own means, or its files by `e4defrag`, as one op; with the key `age`, after the last age, \
            and the phases that read are repeated after it",
    phases: || vec![rewrites()],
}];

fn rewrites() -> Phase {
    Phase::custom(NAME, NAME, CustomAction { renews: true, ..CustomAction::new("rewrites") })
}

pub(super) const KIND: WorkKind = WorkKind { name: NAME, standard: STANDARD, work: &RejuvenateWork };

struct RejuvenateWork;

impl Work for RejuvenateWork {
    fn copies(&self, _phase: &Phase) -> u64 {
        1
    }

    fn impossible(&self, applicant: &Applicant<'_>, _phase: &Phase) -> Option<String> {
        let (caps, traits) = (&applicant.caps, applicant.candidate.traits());
        if traits.is_external {
            return Some("no rewrite: a server given by URL may lack the room for a copy".to_owned());
        }
        if applicant.plan.phases.iter().any(Phase::has_uploads) {
            return Some("no rewrite beside uploads: their catalogue stays open".to_owned());
        }
        // What is append-only does not age.
        let is_of_files = caps.inodes.each_blob == 1 && caps.changes;
        let has_files = is_of_files && caps.persistent && !traits.has_process;
        let has_none = caps.compaction.is_none() && !has_files;
        has_none.then(|| "no rewrite: blobwise uses no call of its vendor for that".to_owned())
    }

    fn seconds(&self, forecast: &Forecast<'_>) -> f64 {
        forecast.wall * forecast.growth.max(1.0)
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, _phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        candidate_run.rejuvenate()
    }
}

impl CandidateRun<'_> {
    /// Rewrites the store as one op, with the file system's flush, and notes its disk space and fragments before and after.
    fn rejuvenate(&mut self) -> PhaseRun {
        let compaction = self.caps().compaction;
        let why_not = if compaction.is_none() { why_not_defragmented(&self.dir) } else { None };
        if let Some(why) = why_not {
            return Ok(Some(PhaseOutcome::NotPossible(why)));
        }
        machine::sync_filesystem(&self.dir)?;
        let mut before = self.new_round(0);
        self.note_space(&mut before)?;
        let (run, mut tally, mut meter) = (self.run, tally(), self.meter());
        self.begin_memory();
        meter.start(&self.store()?.0.servers());
        let by = worker::whole(&run.clock, &mut tally, || Ok(self.rewrite(compaction)?))
            .context("the rewrite failed")?;
        meter.stop(&self.store()?.0.servers());
        (self.warm, self.share_opened) = (false, None);
        tally.bytes = self.state.live_bytes();
        let mut round = self.new_round(0);
        self.note_space(&mut round)?;
        round.upkeep = Some(Upkeep::Rewrites {
            by: by.to_owned(),
            before_bytes: before.allocated_bytes,
            left_bytes: round.allocated_bytes,
            fragments_before: before.fragments_per_blob,
            fragments_left: round.fragments_per_blob,
        });
        self.measured(round, &tally, &meter)
    }

    fn rewrite(&mut self, compaction: Option<Compaction>) -> Result<&'static str> {
        let by = match compaction {
            Some(Compaction::InPlace(by)) => {
                let (_, store) = self.open.as_mut().context("the store is not open")?;
                store.compact()?;
                by
            }
            Some(Compaction::Copy(by)) => {
                self.replace_by_copy()?;
                by
            }
            None => {
                defragment(&self.dir)?;
                DEFRAGMENTER
            }
        };
        machine::sync_filesystem(&self.dir)?;
        Ok(by)
    }

    /// Puts a compact copy in the place of the store, which is closed meanwhile, and opens it.
    fn replace_by_copy(&mut self) -> Result<()> {
        self.forget_backup()?;
        let [copy, old] = beside(&self.dir);
        std::fs::create_dir(&copy).with_context(|| format!("cannot make `{}`", copy.display()))?;
        let class = {
            let (store, class) = self.store()?;
            store.compact_into(&copy)?;
            class
        };
        machine::sync_filesystem(&copy)?;
        self.close()?;
        std::fs::rename(&self.dir, &old)?;
        std::fs::rename(&copy, &self.dir)?;
        machine::sync_filesystem(&self.dir)?;
        remove_tree(&old)?;
        self.open_as(class, Mode::Open)
    }
}
