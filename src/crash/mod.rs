//! Power cuts: what a store loses when the power goes, shown on a disk of our own.
//!
//! A load is done on a file system on that disk, which notes every write and every flush. Then the power is cut at many moments of
//! what it noted: the disk is made again as it may have been then, the file system is mounted, the store is opened, and every blob
//! is compared with what it may be.

mod apart;
mod causes;
mod check;
mod cuts;
mod errors;
mod flips;
mod kills;
mod lab;
mod lines;
mod load;
mod oracle;
mod others;
mod patience;
mod places;
mod smallest;

pub use apart::{Order, cut_if_asked};
use cuts::Cut;
pub use cuts::Survives;
pub use errors::try_errors;
pub use flips::try_flips;
pub use kills::try_kills;
pub use lab::{Bench, Lab, PATIENCE, kind_below, lacks};
pub use lines::{controls, line, why_not};
pub use oracle::{Judged, Lost};
pub use others::{Others, others};

use anyhow::Result;

use crate::plan::Candidate;
pub use crate::result::crash::{Control, Damage, Finding, Line, Report, Verdict};
use crate::result::crash::{Left, Opens, Sort};
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

    /// Whether it is asked why something is damaged: not where it is meant to be, or nothing is promised.
    fn is_explained(&self) -> bool {
        let is_control = self.judged_as != self.class || !self.mount.is_empty();
        !is_control && ![Loss::StoreUnusable, Loss::All].contains(&self.declared())
    }
}

/// Makes so many cuts of a trial, and tells how many are done.
pub fn try_cuts(
    lab: &Lab,
    trial: &Trial<'_>,
    cuts: usize,
    seed: u64,
    tell: &mut dyn FnMut(usize),
) -> Result<Finding> {
    let bench = lab.record(trial, seed)?;
    let declared = trial.declared();
    let mut finding = Finding {
        version: bench.version().map(str::to_owned),
        sent: bench.sent(),
        course: bench.course(),
        ..Finding::default()
    };
    let (mut opened, mut damages) = (Vec::new(), Vec::new());
    tell(0);
    let made = bench.each_cut(cuts, seed, &mut |cut, found| {
        let Some(found) = found else {
            finding.unmountable += 1;
            tell(finding.cuts + finding.unmountable);
            finding.course.cuts.push((bench.place(cut), Left::NoFileSystem));
            return;
        };
        finding.cuts += 1;
        tell(finding.cuts + finding.unmountable);
        opened.extend(found.open_seconds);
        let judged = bench.judge(declared, cut, &found);
        if let Some(said) = found.said {
            lab.add_check(said, &mut finding.checked);
        }
        finding.course.cuts.push((bench.place(cut), judged.left()));
        finding.lost_recent += usize::from(judged.lost_recent);
        if let Some(lost) = judged.worst {
            match finding.damaged.iter_mut().find(|sort| sort.damage == lost.damage) {
                Some(sort) => sort.cuts += 1,
                None => finding.damaged.push(Sort { damage: lost.damage, cuts: 1 }),
            }
            finding.first.get_or_insert_with(|| format!("{} ({})", lost.what, cut.words()));
            damages.push((*cut, lost));
        }
    });
    // One damage of a blob is explained once.
    damages.sort_by_key(|(cut, lost): &(Cut, Lost)| (lost.damage, lost.key, cut.at));
    damages.dedup_by_key(|(_, lost)| (lost.damage, lost.key));
    // Those of something that had to stay come first.
    damages.sort_by_key(|(cut, lost)| (lost.op.is_none(), cut.at));
    let explained = made.and_then(|()| match trial.is_explained() {
        true => bench.causes(declared, &damages),
        false => Ok(Vec::new()),
    });
    (finding.causes, finding.stuck) = patience::stuck(explained)?;
    opened.sort_by(f64::total_cmp);
    let middle = opened.get(opened.len() / 2);
    finding.open_seconds =
        middle.zip(opened.last()).map(|(middle, last)| Opens { middle: *middle, longest: *last });
    finding.damaged.sort();
    Ok(finding)
}
