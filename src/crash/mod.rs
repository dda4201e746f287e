//! Power cuts: what a store loses when the power goes, shown on a disk of our own.
//!
//! A load is done on a file system on that disk, which notes every write and every flush. Then the power is cut at many moments of
//! what it noted: the disk is made again as it may have been then, the file system is mounted, the store is opened, and every blob
//! is compared with what it may be.

mod cuts;
mod lab;
mod load;
mod oracle;
pub mod report;

pub use cuts::Survives;
pub use lab::{Bench, Lab};
pub use oracle::{Damage, Judged, Lost};
use report::{Opens, Sent, Sort};

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::Candidate;
use crate::store::{Durability, Loss};

/// What is tried with one candidate in one class.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    /// The candidate.
    pub candidate: &'a Candidate,
    /// The class in which it is opened.
    pub class: Durability,
    /// The class by which it is judged: another one only in a control.
    pub judged_as: Durability,
    /// Mount options of the file system beside the usual ones.
    pub mount: &'static str,
}

impl Trial<'_> {
    /// What the adapter declares that a power cut takes in the class by which it is judged.
    pub fn declared(&self) -> Loss {
        (self.candidate.adapter.loss)(&self.candidate.options, self.judged_as).after_power_cut
    }
}

/// What came of a trial.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// What the store says that its version is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Cuts that were made.
    pub cuts: usize,
    /// Cuts after which something was damaged that the class promises, by the worst of it.
    pub damaged: Vec<Sort>,
    /// Cuts after which acknowledged writes were gone that the class does not promise.
    pub lost_recent: usize,
    /// The first damage, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// How long the store took to open again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_seconds: Option<Opens>,
    /// Cuts after which the file system could not be mounted: they say nothing of the store.
    pub unmountable: usize,
    /// What the load made the kernel send.
    pub sent: Sent,
}

impl Finding {
    /// Cuts after which something was damaged.
    pub fn damages(&self) -> usize {
        self.damaged.iter().map(|sort| sort.cuts).sum()
    }

    /// Above what share of cuts it would have been seen to damage something with 95 % certainty, where none did: by the exact
    /// binomial bound.
    pub fn at_most(&self) -> f64 {
        1.0 - 0.05_f64.powf(1.0 / self.cuts.max(1) as f64)
    }
}

/// What a finding says of what an adapter declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// What it promises held in every cut.
    Confirmed,
    /// What it promises did not hold.
    Refuted,
    /// It promises nothing.
    NothingPromised,
    /// It held, in so few cuts that it says little.
    TooFewCuts,
}

/// Where a promise may be broken in more than this share of all cuts for all that is known, it is not called confirmed.
const TOO_LITTLE: f64 = 0.25;

impl Verdict {
    /// The verdict on a declared loss.
    pub fn on(declared: Loss, finding: &Finding) -> Verdict {
        match declared {
            Loss::StoreUnusable | Loss::All => Verdict::NothingPromised,
            _ if finding.damages() > 0 => Verdict::Refuted,
            _ if finding.at_most() > TOO_LITTLE => Verdict::TooFewCuts,
            _ => Verdict::Confirmed,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::Refuted => "refuted",
            Verdict::NothingPromised => "nothing promised",
            Verdict::TooFewCuts => "too few cuts",
        }
    }
}

/// Makes so many cuts of a trial.
pub fn try_cuts(lab: &Lab, trial: &Trial<'_>, cuts: usize, seed: u64) -> Result<Finding> {
    let bench = lab.record(trial, seed)?;
    let declared = trial.declared();
    let mut finding = Finding {
        version: bench.version().map(str::to_owned),
        cuts: 0,
        damaged: Vec::new(),
        lost_recent: 0,
        first: None,
        open_seconds: None,
        unmountable: 0,
        sent: bench.sent(),
    };
    let mut opened = Vec::new();
    bench.each_cut(cuts, seed, &mut |cut, found| {
        let Some(found) = found else {
            finding.unmountable += 1;
            return;
        };
        finding.cuts += 1;
        opened.extend(found.open_seconds);
        let judged = bench.judge(trial, declared, cut, found);
        finding.lost_recent += usize::from(judged.lost_recent);
        if let Some(lost) = judged.worst {
            match finding.damaged.iter_mut().find(|sort| sort.damage == lost.damage) {
                Some(sort) => sort.cuts += 1,
                None => finding.damaged.push(Sort { damage: lost.damage, cuts: 1 }),
            }
            finding.first.get_or_insert_with(|| format!("{} ({})", lost.what, cut.words()));
        }
    })?;
    opened.sort_by(f64::total_cmp);
    let middle = opened.get(opened.len() / 2);
    finding.open_seconds =
        middle.zip(opened.last()).map(|(middle, last)| Opens { middle: *middle, longest: *last });
    finding.damaged.sort();
    Ok(finding)
}
