//! Images of aged disks: the first round that ages a candidate keeps a copy of its disk after the fill and at each age, and later
//! rounds read these copies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};

use super::super::ops::State;
use super::{CandidateOnCorpus, CandidateRun, PhaseOutcome, RoundSlot, RunContext};
use crate::host::disk::{ImageCopy, OwnDisk};
use crate::host::machine;
use crate::plan::{Candidate, Phase, Plan};
use crate::result::AgedImage;
use crate::store::{Durability, Mode};
use crate::units;

/// Number of images of a candidate's disk that a run keeps: one after the fill and one at each age, if they serve more than one
/// round; otherwise 0. The store must lie wholly on a disk that is made for the run, and be open in this process alone.
pub(in crate::engine) fn images_kept(plan: &Plan, candidate: &Candidate) -> u64 {
    let (caps, traits) = ((candidate.adapter.caps)(&candidate.options), candidate.traits());
    // What is append-only does not age.
    let ages = plan.text.age.is_some() && caps.changes && caps.persistent;
    let is_here = candidate.file_system().is_some() && !traits.has_process && !traits.is_external;
    // A server that stays up for others keeps files of its disk open.
    let is_beside_server = |other: &Candidate| {
        other.traits().shares_server
            && other.options.file_system_option() == candidate.options.file_system_option()
    };
    // A limit of memory is kept in a process for each round, and copies would end with the process that made them.
    let serves = plan.rounds != Some(1) && plan.clients == 1 && !plan.limits_memory();
    if !ages || !is_here || !serves || plan.candidates.iter().any(is_beside_server) {
        return 0;
    }
    plan.phases.iter().filter(|phase| changes_the_image(phase)).count() as u64
}

/// True for phases whose outcome is kept: the fill and each step of ageing.
pub(in crate::engine) fn changes_the_image(phase: &Phase) -> bool {
    phase.is_fill() || phase.custom_action().is_some_and(|action| action.ages)
}

/// What was kept of candidates, by their labels. It ends with the process.
#[derive(Debug, Default)]
pub struct AgedImages(Mutex<BTreeMap<String, Arc<AgedStore>>>);

impl AgedImages {
    pub(in crate::engine) fn are_of(&self, label: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(label)
    }
}

#[derive(Debug)]
pub(in crate::engine) struct AgedStore {
    round: u32,
    /// By the id of the phase that led there.
    steps: BTreeMap<String, AgedStep>,
}

#[derive(Debug)]
pub(in crate::engine) struct AgedStep {
    copy: ImageCopy,
    class: Durability,
    state: State,
    aged_bytes: u64,
}

/// Where a candidate run has its fill and its ages from.
#[derive(Debug)]
pub(in crate::engine) enum Ageing {
    /// It fills and ages a store, and keeps nothing of it.
    Unkept,
    /// It fills and ages a store, and keeps these images for later rounds.
    Keeps(BTreeMap<String, AgedStep>),
    /// It reads copies of what an earlier round kept.
    Copies(Arc<AgedStore>),
}

impl Ageing {
    /// Decides where a candidate has them from in a round.
    pub(in crate::engine) fn decide(run: &RunContext, subject: CandidateOnCorpus, slot: RoundSlot) -> Ageing {
        if slot.round == 0 || images_kept(run.plan, subject.candidate) == 0 {
            return Ageing::Unkept;
        }
        let known = run.images.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&subject.candidate.label) {
            Some(aged) => Ageing::Copies(Arc::clone(aged)),
            None => Ageing::Keeps(BTreeMap::new()),
        }
    }

    /// The earlier round whose images it reads, which has named the store's directory.
    pub(in crate::engine) fn copied_round(&self) -> Option<u32> {
        match self {
            Ageing::Copies(aged) => Some(aged.round),
            Ageing::Unkept | Ageing::Keeps(_) => None,
        }
    }
}

impl CandidateRun<'_> {
    fn own_disk(&self) -> Result<&OwnDisk> {
        self.run.disk_of(self.subject.candidate).context("no disk was made for it")
    }

    /// Makes the candidate's disk what it was before any candidate used it, if that was kept. Not in the pilot, and not before a
    /// copy, which takes the place of the whole disk.
    pub(in crate::engine) fn renew_disk(&self) -> Result<()> {
        match self.run.disk_of(self.subject.candidate) {
            Some(disk) if self.slot.round > 0 && self.ageing.copied_round().is_none() => disk.renew(),
            _ => Ok(()),
        }
    }

    /// Puts the image that an earlier round kept after this phase in the place of doing it. False if there is none.
    pub(in crate::engine) fn copy_image(&mut self, phase: &Phase) -> Result<bool> {
        let Ageing::Copies(aged) = &self.ageing else { return Ok(false) };
        let aged = Arc::clone(aged);
        let Some(step) = aged.steps.get(&phase.id) else { return Ok(false) };
        (self.tell)(Some(phase.id.as_str()));
        let begin = machine::uptime();
        self.close()?;
        let mut memory = self.memory;
        memory
            .after_own(|| self.own_disk()?.put(&step.copy))
            .with_context(|| format!("the image after `{}`", phase.id))?;
        self.memory = memory;
        self.state.clone_from(&step.state);
        self.aged_bytes = step.aged_bytes;
        self.open_image(phase, step, true)?;
        if self.outcome.facts.is_empty() {
            self.note_facts()?;
        }
        self.outcome.wall_seconds.insert(phase.id.clone(), (machine::uptime() - begin).as_secs_f64());
        Ok(true)
    }

    /// Keeps an image of the disk after this phase for later rounds, if they are to read one.
    pub(in crate::engine) fn keep_image(&mut self, phase: &Phase) -> Result<()> {
        let is_measured = matches!(self.outcome.phases.get(&phase.id), Some(PhaseOutcome::Measured(_)));
        let has_changed = changes_the_image(phase) && (phase.is_fill() || is_measured);
        if !matches!(self.ageing, Ageing::Keeps(_)) || !has_changed || self.run.stopped() {
            return Ok(());
        }
        let class = self.store()?.1;
        self.close()?;
        // The hashes of all blocks stay in memory, which later phases must not count as the store's.
        let mut memory = self.memory;
        let keep = || -> Result<AgedStep> {
            let copy = self.own_disk()?.copy()?;
            Ok(AgedStep { copy, class, state: self.state.clone(), aged_bytes: self.aged_bytes })
        };
        let step = memory.after_own(keep).with_context(|| format!("the image after `{}`", phase.id))?;
        self.memory = memory;
        self.open_image(phase, &step, false)?;
        if let Ageing::Keeps(steps) = &mut self.ageing {
            steps.insert(phase.id.clone(), step);
        }
        Ok(())
    }

    /// Opens the store on the disk that was mounted again, and notes the image. Both the round that keeps it and those that read
    /// it do so, so that their phases begin alike.
    fn open_image(&mut self, phase: &Phase, step: &AgedStep, is_copy: bool) -> Result<()> {
        self.share_opened = None;
        self.open_as(step.class, Mode::Open).context("opening it on its image failed")?;
        let mut space = self.new_round(0);
        self.note_space(&mut space)?;
        self.outcome.images.push(AgedImage {
            phase: phase.id.clone(),
            sha256: units::hex(&step.copy.sha256()),
            is_copy,
            allocated_bytes: space.allocated_bytes,
            fragments_per_blob: space.fragments_per_blob,
        });
        Ok(())
    }

    /// Hands the images of a complete candidate run to later rounds. Without that of the fill, they age their own stores.
    pub(in crate::engine) fn hand_on_images(&mut self) {
        let Ageing::Keeps(steps) = &mut self.ageing else { return };
        let steps = std::mem::take(steps);
        let fill = self.run.plan.phases.iter().find(|phase| phase.is_fill());
        if fill.is_some_and(|fill| steps.contains_key(&fill.id)) {
            let aged = Arc::new(AgedStore { round: self.slot.round, steps });
            let mut known = self.run.images.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(self.subject.candidate.label.clone(), aged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::work::resolved;
    use crate::plan::MemorySize;
    use crate::store::Options;

    #[test]
    fn one_image_serves_every_round_of_what_lies_wholly_on_a_disk_of_the_run() {
        let mut plan = resolved("stores = ['files/hashed']\nage = '0,0.5,2'\nphases = ['fill', 'read-warm']");
        let kept = |plan: &Plan| images_kept(plan, &plan.candidates[0]);
        assert_eq!(kept(&plan), 0, "in a directory, each round ages a store of its own");
        let mut values = plan.candidates[0].options.values().clone();
        values.insert("on".to_owned(), "ext4".to_owned());
        plan.candidates[0].options = Options::new(values);
        assert_eq!(kept(&plan), 3, "after the fill and at two ages");
        plan.rounds = Some(1);
        assert_eq!(kept(&plan), 0);
        plan.rounds = Some(2);
        assert_eq!(kept(&plan), 3);
        plan.memory = MemorySize::parse("memory", "64MB").ok();
        assert_eq!(kept(&plan), 0);
    }
}
