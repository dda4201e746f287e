//! Checks which plans several clients can execute together, before anything is created.

use std::path::Path;

use anyhow::{Result, bail};

use super::Introduction;
use crate::plan::{Candidate, Phase, Plan, class_of};
use crate::store::{ClientSupport, Kind};

pub(super) fn plan(plan: &Plan, all: &[Introduction]) -> Result<()> {
    let clients = all.len();
    if plan.limits_memory() {
        bail!(
            "memory is limited for one client, and this run has {clients}: leave out --memory, --memory-sweep and phases with `memory`, or \
             start it without the launcher"
        );
    }
    let steps = [("--grow", &plan.text.grow), ("--age", &plan.text.age)];
    if let Some((flag, _)) = steps.iter().find(|(_, steps)| steps.is_some()) {
        bail!("{flag}: is for one client, and this run has {clients}: start it without the launcher");
    }
    if plan.pin_apart {
        bail!("--pin-apart: is for one client, and this run has {clients}; let the launcher bind them");
    }
    if let Some(candidate) = plan.candidates.iter().find(|candidate| candidate.file_system().is_some()) {
        bail!(
            "`{}` lies on a file system that is made for one client (`--on`), and this run has {clients}",
            candidate.label
        );
    }
    if let Some(candidate) = plan.candidates.iter().find(|known| plan.is_one_for_each_client(known))
        && let Some(phase) = plan.phases.iter().find(|phase| offers_a_rate(plan, phase))
    {
        bail!(
            "phase `{}` offers a rate to one store, and with `--each-rank` each of {clients} clients has a `{}` of its own: leave that \
             phase out, or --rate or --speed where that is why",
            phase.id,
            candidate.label
        );
    }
    let why = |candidate| why_alone(plan, candidate);
    let alone: Vec<String> = plan.candidates.iter().filter_map(why).collect();
    if !alone.is_empty() {
        let shared = plan.candidates.iter().filter(|candidate| why(candidate).is_none());
        let some: Vec<&str> = shared.map(|candidate| candidate.label.as_str()).collect();
        let others = match some.is_empty() {
            true => "name others with --stores".to_owned(),
            false => format!("of this plan these can be: --stores {}", some.join(",")),
        };
        let each =
            match plan.candidates.iter().any(|candidate| why(candidate).is_some() && is_library(candidate)) {
                true => ", or give each client one of its own where it is a library, with --each-rank",
                false => "",
            };
        bail!("{clients} clients cannot share {}; {others}{each}", alone.join("; "));
    }
    let [first, others @ ..] = all else { return Ok(()) };
    let Some(far) = others.iter().find(|other| !other.whereabouts.reaches_its_loopback(&first.whereabouts))
    else {
        return Ok(());
    };
    match plan.candidates.iter().find(|candidate| is_private(candidate)) {
        Some(candidate) => bail!(
            "the private server of `{}` listens for its own host alone, and a client on `{}` is on another host or network than rank 0 on \
             `{}`: start a server there and give its URL (`--set {}.url=...`), where the store has one, or leave it out",
            candidate.label,
            far.whereabouts.name,
            first.whereabouts.name,
            candidate.adapter.name
        ),
        None => Ok(()),
    }
}

/// True if the ops of a phase are due at the times of one schedule.
fn offers_a_rate(plan: &Plan, phase: &Phase) -> bool {
    let rate = phase.load().and_then(|load| load.rate).or(plan.rate).filter(|_| !phase.is_fill());
    rate.is_some() || phase.climbs() || phase.speed().is_some()
}

fn is_library(candidate: &Candidate) -> bool {
    [Kind::Embedded, Kind::Technique].contains(&candidate.adapter.kind)
}

fn caps(candidate: &Candidate) -> crate::store::Capabilities {
    (candidate.adapter.caps)(&candidate.options)
}

/// Returns why a candidate is for a single client; `None` if clients can share it.
fn why_alone(plan: &Plan, candidate: &Candidate) -> Option<String> {
    let is_in = |class| {
        let of_phases = plan.phases.iter().filter(|phase| phase.writes());
        of_phases.into_iter().any(|phase| class_of(candidate, phase.class, plan.durability) == class)
    };
    if plan.is_one_for_each_client(candidate) {
        return None;
    }
    let why = match caps(candidate).clients {
        ClientSupport::One(why) => why,
        ClientSupport::ServerBut(class, why) if is_in(class) => why,
        ClientSupport::ServerBut(..)
        | ClientSupport::Server
        | ClientSupport::Each
        | ClientSupport::Directory => return None,
    };
    let why = match candidate.adapter.kind {
        Kind::Embedded | Kind::Technique => "a library in one process, which has its files alone",
        _ => why,
    };
    Some(format!("`{}` ({why})", candidate.label))
}

fn is_private(candidate: &Candidate) -> bool {
    let traits = candidate.traits();
    traits.has_process && !traits.is_external
}

/// Fails if a client does not see the run's directory and a candidate needs it there.
pub(super) fn directory(plan: &Plan, is_seen: bool, dir: &Path, client: &str) -> Result<()> {
    if is_seen {
        return Ok(());
    }
    match plan.candidates.iter().find(|candidate| caps(candidate).clients == ClientSupport::Directory) {
        Some(candidate) => bail!(
            "{client} does not see `{}`, in which `{}` keeps its files: name a directory with --dir that is shared by all hosts under the \
             same path, or leave the store out",
            dir.display(),
            candidate.label
        ),
        None => Ok(()),
    }
}
