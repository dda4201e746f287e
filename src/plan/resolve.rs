//! From what is asked to a plan: its candidates, made of the stores that this machine has.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use anyhow::{Context, Result, bail};

use super::candidates::{Candidate, Missing, Sets, candidates_on, check_selector};
use super::text::{Design, Member, OneOrMany, Phase, PlanText, StandardPhase, default_stores};
use crate::corpus::CorpusId;
use crate::store::{Adapter, Clients, Kind, Options};

/// A cache of so many times the blobs holds them with all that a store keeps beside them.
const CACHE_ENOUGH_TIMES: f64 = 1.5;
/// Where there are few blobs, a cache is no smaller for it.
const CACHE_ENOUGH_BYTES: u64 = 64 << 20;

/// A plan is right, and nothing of it can run on this machine.
#[derive(Debug, thiserror::Error)]
#[error("none of the stores can run here: {}", reasons.iter().map(String::as_str).collect::<Vec<&str>>().join("; "))]
pub struct NothingRuns {
    /// Why not, each reason once.
    pub reasons: BTreeSet<String>,
}

/// A plan that was checked: what is asked, and the candidates that it is asked of. It is read as its design is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is asked.
    pub design: Design,
    /// The candidates, in order.
    pub candidates: Vec<Candidate>,
    /// Candidates of the plan that cannot run here.
    pub missing: Vec<Missing>,
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
    /// Whether it is about pages that a browser loads: what is asked of them is not what is asked of stores.
    pub fn shows_pages(&self) -> bool {
        self.candidates.iter().all(Candidate::shows_pages)
    }

    /// Whether each of several clients has a store of this candidate's of its own: it was asked for, and the store is a library that
    /// has its files alone.
    pub fn is_one_for_each_client(&self, candidate: &Candidate) -> bool {
        let is_alone = || matches!((candidate.adapter.caps)(&candidate.options).clients, Clients::One(_));
        let is_library = [Kind::Embedded, Kind::Technique, Kind::Baseline].contains(&candidate.adapter.kind);
        self.each_rank && self.clients > 1 && is_library && !candidate.traits().has_process && is_alone()
    }

    /// Whether all reads of a worker of this candidate are one transaction in a phase: where the phase says so, or the candidate
    /// and the phase says nothing else. In the passes of a cold phase, and what is repeated in them, no read is. A baseline has
    /// no transactions.
    pub fn is_one_transaction(&self, candidate: &Candidate, phase: &Phase, corpus_id: CorpusId) -> bool {
        !candidate.is_baseline() && self.reads_in_one(candidate.transaction(), phase, corpus_id)
    }

    /// Memory for the own cache of a store with these settings, in bytes: as the plan says, or its vendor, of `memory_bytes`.
    /// Beside so many bytes of blobs.
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

    /// Whether a candidate does a phase. A baseline does every one: it shows what the harness takes of it.
    pub fn is_done_by(&self, phase: &str, candidate: &Candidate) -> bool {
        candidate.is_baseline() || self.is_for(phase, candidate.adapter.name, &candidate.options.shown())
    }
}

impl PlanText {
    /// Checks everything and fills in what is not given, with the standard phases that there are. `strict`: stores were named by a
    /// flag, so one that cannot run here is an error.
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
        let ready = candidates.iter().map(|candidate| Member {
            label: candidate.label.clone(),
            kind: Some(candidate.adapter.kind),
            own_class: candidate.own_class(),
            lazy_delete: candidate.traits().lazy_delete,
        });
        let not_had = missing.iter().map(|candidate| Member {
            label: candidate.label.clone(),
            kind: None,
            own_class: None,
            lazy_delete: false,
        });
        let members: Vec<Member> = ready.chain(not_had).collect();
        Ok(Plan { design: self.design_with(standard, &members)?, candidates, missing })
    }

    /// Candidates that can be had here, and those that cannot, with the reason.
    fn candidates(&self, strict: bool) -> Result<(Vec<Candidate>, Vec<Missing>)> {
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

    /// Candidates of the plan that it says cannot be had.
    fn absent_candidates(&self) -> impl Iterator<Item = Missing> {
        self.absent.iter().map(|(label, reason)| Missing {
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

/// Refuses to pin what has no side of its own.
fn check_pinned(candidates: &[Candidate]) -> Result<()> {
    if candidates.iter().any(Candidate::shows_pages) {
        bail!("`--pin-apart` is for stores: a page is loaded by a browser, which is no worker");
    }
    let has_server =
        |candidate: &Candidate| candidate.traits().has_process && !candidate.traits().is_external;
    if !candidates.iter().any(has_server) {
        bail!(
            "`--pin-apart` keeps workers apart from servers that are started here, and no candidate has one; leave it out"
        );
    }
    Ok(())
}

/// The plan of a text, for tests.
#[cfg(test)]
pub fn resolved(toml: &str) -> Plan {
    PlanText::parse(toml).unwrap().resolve(true).unwrap()
}
