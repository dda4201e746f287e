//! Resolves a plan's text into a plan with candidates, built from the stores that this machine has.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use anyhow::{Context, Result, bail};

use super::candidates::{Candidate, MissingCandidate, Sets, candidates_on, check_selector};
use super::text::{Design, DesignCandidate, OneOrMany, Phase, PlanText, StandardPhase, default_stores};
use crate::corpus::CorpusId;
use crate::store::{Adapter, ClientSupport, Kind, Options};

/// Cache size, as a multiple of the corpus, that holds all blobs plus the store's own overhead.
const CACHE_ENOUGH_TIMES: f64 = 1.5;
/// Lower bound, in bytes, for such a cache when the corpus is small.
const CACHE_ENOUGH_BYTES: u64 = 64 << 20;

/// Error: the plan is valid, but none of its candidates can run on this machine.
#[derive(Debug, thiserror::Error)]
#[error("none of the stores can run here: {}", reasons.iter().map(String::as_str).collect::<Vec<&str>>().join("; "))]
pub struct NothingRuns {
    /// Reasons, without duplicates.
    pub reasons: BTreeSet<String>,
}

/// A checked plan: the design and the candidates it applies to. Dereferences to its design.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the plan asks for.
    pub design: Design,
    /// Candidates, in order.
    pub candidates: Vec<Candidate>,
    /// Candidates of the plan that cannot run here.
    pub missing: Vec<MissingCandidate>,
}

impl Deref for Plan {
    type Target = Design;

    fn deref(&self) -> &Design {
        &self.design
    }
}

impl DerefMut for Plan {
    fn deref_mut(&mut self) -> &mut Design {
        &mut self.design
    }
}

impl Plan {
    /// True if all candidates are pages that a browser loads, which are asked other questions than stores.
    pub fn shows_pages(&self) -> bool {
        self.candidates.iter().all(Candidate::shows_pages)
    }

    /// True if each of several clients gets its own copy of this candidate's store: requested by the plan, and the store is a
    /// library that only one process can use.
    pub fn is_one_for_each_client(&self, candidate: &Candidate) -> bool {
        let is_alone =
            || matches!((candidate.adapter.caps)(&candidate.options).clients, ClientSupport::One(_));
        let is_library = [Kind::Embedded, Kind::Technique, Kind::Baseline].contains(&candidate.adapter.kind);
        self.each_rank && self.clients > 1 && is_library && !candidate.traits().has_process && is_alone()
    }

    /// True if all reads of one worker form one transaction in a phase, because the phase says so or the candidate's settings do.
    /// Never in the passes of a cold phase or a phase that repeats them, and never for baselines, which have no transactions.
    pub fn is_one_transaction(&self, candidate: &Candidate, phase: &Phase, corpus_id: CorpusId) -> bool {
        !candidate.is_baseline() && self.reads_in_one(candidate.transaction(), phase, corpus_id)
    }

    /// Size of the store's own cache in bytes: the plan's `cache`, or the vendor's recommendation for `memory_bytes`.
    /// `corpus_bytes` is the size of the corpus.
    pub fn cache_bytes(
        &self,
        adapter: &Adapter,
        options: &Options,
        memory_bytes: u64,
        corpus_bytes: u64,
    ) -> u64 {
        let enough = ((corpus_bytes as f64 * CACHE_ENOUGH_TIMES) as u64).max(CACHE_ENOUGH_BYTES);
        match self.cache {
            Some(own) => own.bytes(corpus_bytes),
            None => (adapter.memory)(options).cache_bytes(memory_bytes, enough),
        }
    }

    /// True if the candidate runs the phase. Baselines run every phase, to show the harness overhead.
    pub fn is_done_by(&self, phase: &str, candidate: &Candidate) -> bool {
        candidate.is_baseline() || self.is_for(phase, candidate.adapter.name, &candidate.options.shown())
    }
}

impl PlanText {
    /// Checks the plan and fills in defaults, using the given standard phases. `strict` means that flags named the stores, so one
    /// that cannot run here is an error.
    pub fn resolve_with(&self, standard: &[StandardPhase], strict: bool) -> Result<Plan> {
        self.check_is_one()?;
        let (candidates, missing) = self.candidates(strict)?;
        if self.pin_apart == Some(true) {
            check_pinned(&candidates)?;
        }
        for phase in &self.phase {
            let mut names = phase.stores.iter();
            names
                .try_for_each(|name| check_selector(name, &self.absent))
                .with_context(|| format!("phase `{}`", phase.id))?;
        }
        let ready = candidates.iter().map(|candidate| DesignCandidate {
            label: candidate.label.clone(),
            kind: Some(candidate.adapter.kind),
            own_class: candidate.own_class(),
            lazy_delete: candidate.traits().lazy_delete,
        });
        let not_had = missing.iter().map(|candidate| DesignCandidate {
            label: candidate.label.clone(),
            kind: None,
            own_class: None,
            lazy_delete: false,
        });
        let members: Vec<DesignCandidate> = ready.chain(not_had).collect();
        Ok(Plan { design: self.design_with(standard, &members)?, candidates, missing })
    }

    fn candidates(&self, strict: bool) -> Result<(Vec<Candidate>, Vec<MissingCandidate>)> {
        let stores: Vec<String> = match &self.stores {
            Some(stores) if stores.is_empty() => bail!("no store is named"),
            Some(stores) => stores.clone(),
            None => default_stores(),
        };
        let on = self.on.as_deref().unwrap_or_default();
        let (candidates, mut missing) = candidates_on(&stores, &self.sets(), on, strict)?;
        missing.extend(self.absent_candidates());
        if candidates.is_empty() {
            let reasons = missing.iter().map(|candidate| candidate.reason.clone()).collect();
            return Err(NothingRuns { reasons }.into());
        }
        Ok((candidates, missing))
    }

    /// Candidates that the plan itself declares as unavailable.
    fn absent_candidates(&self) -> impl Iterator<Item = MissingCandidate> {
        self.absent.iter().map(|(label, reason)| MissingCandidate {
            label: label.clone(),
            adapter: label.split('[').next().unwrap_or(label).to_owned(),
            reason: reason.clone(),
        })
    }

    fn sets(&self) -> Sets {
        let values = |value: &OneOrMany| match value {
            OneOrMany::One(one) => vec![one.clone()],
            OneOrMany::Many(many) => many.clone(),
        };
        self.set.iter().map(|(name, value)| (name.clone(), values(value))).collect()
    }
}

fn check_pinned(candidates: &[Candidate]) -> Result<()> {
    if candidates.iter().any(Candidate::shows_pages) {
        bail!("--pin-apart: is for stores; a browser that loads pages is no worker");
    }
    let has_server =
        |candidate: &Candidate| candidate.traits().has_process && !candidate.traits().is_external;
    if !candidates.iter().any(has_server) {
        bail!("--pin-apart: no candidate has a private server to keep apart; leave it out");
    }
    Ok(())
}
