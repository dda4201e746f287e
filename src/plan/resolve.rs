//! From what is asked to a plan: its rows, made of the stores that this machine has.

use std::ops::{Deref, DerefMut};

use anyhow::{Context, Result, bail};

use super::rows::{Missing, Row, Sets, check_selector, rows};
use super::text::{Design, Member, OneOrMany, Phase, PlanText, StandardPhase, default_stores};
use crate::corpus::CorpusId;

/// How the error begins of a plan that is right, and of which nothing can run on this machine.
pub const NOTHING_RUNS: &str = "none of the stores can run here";

/// A plan that was checked: what is asked, and the rows that it is asked of. It is read as its design is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is asked.
    pub design: Design,
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Rows of the plan that cannot run here.
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
        self.rows.iter().all(Row::shows_pages)
    }

    /// Whether all reads of a worker of this row are one transaction in a phase: where the phase says so, or the row and the phase says
    /// nothing else. In the passes of a cold phase, and what is repeated in them, no read is. A baseline has no transactions.
    pub fn is_one_transaction(&self, row: &Row, phase: &Phase, corpus_id: CorpusId) -> bool {
        !row.is_reference() && self.reads_in_one(row.transaction(), phase, corpus_id)
    }

    /// Whether a row does a phase. A baseline does every one: it shows what the harness takes of it.
    pub fn is_done_by(&self, phase: &str, row: &Row) -> bool {
        row.is_reference() || self.is_for(phase, row.adapter.name, &row.options.shown())
    }
}

impl PlanText {
    /// Checks everything and fills in what is not given, with the standard phases that there are. `strict`: stores were named by a
    /// flag, so one that cannot run here is an error.
    pub fn resolve_with(&self, standard: &[StandardPhase], strict: bool) -> Result<Plan> {
        self.check_is_one()?;
        let (rows, missing) = self.rows(strict)?;
        if self.pin_apart == Some(true) {
            check_pinned(&rows)?;
        }
        for phase in &self.phase {
            let mut names = phase.stores.iter();
            names
                .try_for_each(|name| check_selector(name, &self.absent))
                .with_context(|| format!("phase `{}`", phase.id))?;
        }
        let ready = rows.iter().map(|row| Member {
            label: row.label.clone(),
            kind: Some(row.adapter.kind),
            own_class: row.own_class(),
            lazy_delete: row.traits().lazy_delete,
        });
        let not_had = missing.iter().map(|row| Member {
            label: row.label.clone(),
            kind: None,
            own_class: None,
            lazy_delete: false,
        });
        let members: Vec<Member> = ready.chain(not_had).collect();
        Ok(Plan { design: self.design_with(standard, &members)?, rows, missing })
    }

    /// Rows that can be had here, and those that cannot, with the reason.
    fn rows(&self, strict: bool) -> Result<(Vec<Row>, Vec<Missing>)> {
        let stores: Vec<String> = match &self.stores {
            Some(stores) if stores.is_empty() => bail!("no store is named"),
            Some(stores) => stores.clone(),
            None => default_stores(),
        };
        let (rows, mut missing) = rows(&stores, &self.sets(), strict)?;
        missing.extend(self.absent_rows());
        if rows.is_empty() {
            let reasons: std::collections::BTreeSet<&str> =
                missing.iter().map(|row| row.reason.as_str()).collect();
            let reasons: Vec<&str> = reasons.into_iter().collect();
            bail!("{NOTHING_RUNS}: {}", reasons.join("; "));
        }
        Ok((rows, missing))
    }

    /// Rows of the plan that it says cannot be had.
    fn absent_rows(&self) -> impl Iterator<Item = Missing> {
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
fn check_pinned(rows: &[Row]) -> Result<()> {
    if rows.iter().any(Row::shows_pages) {
        bail!("`--pin-apart` is for stores: a page is loaded by a browser, which is no worker");
    }
    let has_server = |row: &Row| row.traits().has_process && !row.traits().is_external;
    if !rows.iter().any(has_server) {
        bail!(
            "`--pin-apart` keeps workers apart from servers that are started here, and no row has one; leave it out"
        );
    }
    Ok(())
}

/// The plan of a text, for tests.
#[cfg(test)]
pub fn resolved(toml: &str) -> Plan {
    PlanText::parse(toml).unwrap().resolve(true).unwrap()
}
