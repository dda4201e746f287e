//! The crash tests other than power cuts, as requested.

use anyhow::Result;

use super::{Trial, errors, flips, kills, lab::Lab, try_cuts};
use crate::result::crash::Damage;
use crate::result::crash::besides::{ErrorKind, IgnoredFlushResults, OtherFaultResults};

/// Requested tests besides power cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultTests {
    /// Kills for each store and class.
    pub kills: usize,
    /// Places for each kind of device error.
    pub errors: usize,
    /// Cuts on a disk that ignores flushes.
    pub cuts_without_flushes: usize,
    /// Blobs to flip a byte of.
    pub flips: usize,
}

/// Runs the requested tests on a trial and calls `say` with the name of each. Failures are recorded in the result.
pub fn others(
    lab: &Lab,
    trial: &Trial<'_>,
    asked: &FaultTests,
    seed: u64,
    say: &mut dyn FnMut(&str),
) -> OtherFaultResults {
    let mut besides = OtherFaultResults::default();
    if asked.kills > 0 {
        say("kills");
        besides.kills = kept(kills::try_kills(lab, trial, asked.kills, seed), "kills", &mut besides.failed);
    }
    if asked.cuts_without_flushes > 0 {
        say("cuts without flushes");
        let outcome = try_without_flushes(lab, trial, asked.cuts_without_flushes, seed);
        besides.flushes_ignored = kept(outcome, "cuts without flushes", &mut besides.failed);
    }
    if asked.errors > 0 {
        say("errors of the device");
        let outcome = errors::try_errors(lab, trial, &ErrorKind::ALL, asked.errors, seed);
        besides.errors = kept(outcome, "errors of the device", &mut besides.failed);
    }
    if asked.flips > 0 {
        say("flipped bytes");
        besides.flips = kept(flips::try_flips(lab, trial, asked.flips, seed), "flips", &mut besides.failed);
    }
    besides
}

fn kept<T>(outcome: Result<T>, what: &str, failed: &mut Vec<String>) -> Option<T> {
    outcome.map_err(|error| failed.push(format!("{what}: {error:#}"))).ok()
}

/// Makes power cuts of a trial on a disk that acknowledges flushes without doing them.
fn try_without_flushes(lab: &Lab, trial: &Trial<'_>, cuts: usize, seed: u64) -> Result<IgnoredFlushResults> {
    let trial = Trial { without_flushes: true, ..trial.clone() };
    let finding = try_cuts(lab, &trial, cuts, seed, &mut |_| ())?;
    let unusable =
        finding.damaged.iter().filter(|sort| [Damage::KnownFault, Damage::Unusable].contains(&sort.damage));
    Ok(IgnoredFlushResults {
        cuts: finding.cuts,
        broken: finding.damages(),
        unusable: unusable.map(|sort| sort.cuts).sum(),
        unmountable: finding.unmountable,
    })
}
