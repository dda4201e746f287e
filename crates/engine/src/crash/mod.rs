//! Power cut tests: what a store loses when the power fails, shown on a simulated disk.
//!
//! A load runs on a file system on a disk that logs every write and every flush. Then the power is cut at many points of this
//! log: the disk is reconstructed as it may have been at that moment, the file system is mounted, the store is opened, and every
//! blob is compared with the values that it may have.

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
mod uploads;

pub use apart::{HelperRequest, cut_if_asked};
use cuts::Cut;
pub use cuts::SurvivingWrites;
pub use errors::try_errors;
pub use flips::try_flips;
pub use kills::try_kills;
pub use lab::{Lab, PATIENCE, RecordedLoad, kind_below, lacks};
pub use lines::{controls, line, why_no_uploads, why_not};
pub use oracle::{BrokenPromise, StoreVerdict};
pub use others::{FaultTests, others};

use anyhow::Result;

use crate::plan::{Candidate, CatalogueOf, defaults};
pub use crate::result::crash::{Control, CrashReport, CrashResult, Damage, LossVerdict, PowerCutResults};
use crate::result::crash::{DamageCount, OpenTimes, SurvivingData, Uploads};
use crate::store::{Adapter, Durability, Loss, Losses, Options};

/// A candidate in one durability class, to be tested.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    /// The candidate.
    pub candidate: &'a Candidate,
    /// Class in which it is opened.
    pub class: Durability,
    /// Class by which it is judged; differs from `class` only in a control.
    pub judged_as: Durability,
    /// True if its disk acknowledges the flushes of the load without doing them.
    pub without_flushes: bool,
    /// True if contents are uploaded through the candidate's catalogue instead of being put.
    pub uploads: bool,
}

impl<'a> Trial<'a> {
    /// Tests a candidate in a class, and judges it by that class.
    pub fn new(candidate: &'a Candidate, class: Durability) -> Trial<'a> {
        Trial { candidate, class, judged_as: class, without_flushes: false, uploads: false }
    }

    /// Declared loss after a power cut, for the class by which it is judged.
    pub fn declared(&self) -> Loss {
        self.losses().after_power_cut
    }

    /// Declared losses; for uploads, the worse of the blobs' and the catalogue's.
    fn losses(&self) -> Losses {
        let of = |adapter: &Adapter, options: &Options| (adapter.loss)(options, self.judged_as);
        let blobs = of(self.candidate.adapter, &self.candidate.options);
        let Some(adapter) = self.catalogue() else { return blobs };
        let catalogue = of(adapter, &defaults(adapter));
        Losses {
            after_kill: blobs.after_kill.max(catalogue.after_kill),
            after_power_cut: blobs.after_power_cut.max(catalogue.after_power_cut),
        }
    }

    /// The separate store that holds the catalogue; `None` without uploads, or if the blobs' store has it.
    fn catalogue(&self) -> Option<&'static Adapter> {
        match self.candidate.catalogue() {
            Ok(CatalogueOf::Apart(adapter)) if self.uploads => Some(adapter),
            _ => None,
        }
    }

    fn is_one_transaction(&self) -> bool {
        matches!(self.candidate.catalogue(), Ok(CatalogueOf::Own { one_transaction: true }))
    }

    /// True if the store or its catalogue runs as a server process.
    fn has_server(&self) -> bool {
        let has_one = |adapter: &Adapter| !adapter.programs.is_empty();
        has_one(self.candidate.adapter) || self.catalogue().is_some_and(has_one)
    }

    /// How uploads are registered; `None` if blobs are put.
    fn registered(&self) -> Option<Uploads> {
        let catalogue = self.catalogue().unwrap_or(self.candidate.adapter).name.to_owned();
        self.uploads.then(|| Uploads { catalogue, one_transaction: self.is_one_transaction() })
    }

    /// True if causes of damage are searched for: not in a control, which is meant to be damaged, and not if nothing is promised.
    fn is_explained(&self) -> bool {
        let is_control = self.judged_as != self.class || self.without_flushes;
        !is_control && ![Loss::StoreUnusable, Loss::All].contains(&self.declared())
    }
}

/// Makes `cuts` power cuts of a trial and judges each; calls `tell` with the number done so far.
pub fn try_cuts(
    lab: &Lab,
    trial: &Trial<'_>,
    cuts: usize,
    seed: u64,
    tell: &mut dyn FnMut(usize),
) -> Result<PowerCutResults> {
    let bench = lab.record(trial, seed)?;
    let declared = trial.declared();
    let mut finding = PowerCutResults {
        version: bench.version().map(str::to_owned),
        sent: bench.sent(),
        course: bench.course(),
        ..PowerCutResults::default()
    };
    let (mut opened, mut damages) = (Vec::new(), Vec::new());
    tell(0);
    let made = bench.each_cut(cuts, seed, &mut |cut, found| {
        let Some(found) = found else {
            finding.unmountable += 1;
            tell(finding.cuts + finding.unmountable);
            finding.course.cuts.push((bench.place(cut), SurvivingData::NoFileSystem));
            return;
        };
        finding.cuts += 1;
        tell(finding.cuts + finding.unmountable);
        opened.extend(found.open_seconds);
        finding.opened_again += usize::from(found.opened_again);
        let judged = bench.judge(declared, cut, &found);
        if let Some(said) = found.said {
            lab.add_check(said, &mut finding.checked);
        }
        finding.course.cuts.push((bench.place(cut), judged.left()));
        finding.lost_recent += usize::from(judged.lost_recent);
        if let Some(lost) = judged.worst {
            match finding.damaged.iter_mut().find(|sort| sort.damage == lost.damage) {
                Some(sort) => sort.cuts += 1,
                None => finding.damaged.push(DamageCount { damage: lost.damage, cuts: 1 }),
            }
            let what = format!("{} ({})", lost.what, cut.description());
            match lost.damage {
                // Its cause is known.
                Damage::KnownFault => drop(finding.first.get_or_insert(what)),
                _ if damages.is_empty() => {
                    finding.first = Some(what);
                    damages.push((*cut, lost));
                }
                _ => damages.push((*cut, lost)),
            }
        }
    });
    // Each kind of damage of a blob is explained once.
    damages.sort_by_key(|(cut, lost): &(Cut, BrokenPromise)| (lost.damage, lost.key, cut.at));
    damages.dedup_by_key(|(_, lost)| (lost.damage, lost.key));
    // Damage of something that had to stay comes first.
    damages.sort_by_key(|(cut, lost)| (lost.op.is_none(), cut.at));
    let explained = made.and_then(|()| match trial.is_explained() {
        true => bench.causes(declared, &damages),
        false => Ok(Vec::new()),
    });
    (finding.causes, finding.stuck) = patience::stuck(explained)?;
    opened.sort_by(f64::total_cmp);
    let middle = opened.get(opened.len() / 2);
    finding.open_seconds =
        middle.zip(opened.last()).map(|(middle, last)| OpenTimes { middle: *middle, longest: *last });
    finding.damaged.sort();
    Ok(finding)
}
