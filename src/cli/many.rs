//! `blobwise run` started by an MPI launcher: rank 0 controls the run, and the other ranks follow it.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use super::run::{RunFlags, program};
use super::signals::Signals;
use super::{CommandOutcome, collection, eprint};
use crate::engine::clients::{Clients, Introduction, ServingClient};
use crate::engine::work::ResolvePlan;
use crate::engine::workers::clock::HostClock;
use crate::host::machine;
use crate::host::ranks::{self, HostIdentity, MessagePassing};
use crate::plan::PlanText;
use crate::result::MeasuringProgram;

/// Runs the command: alone, as rank 0 of several, or as one of the others.
pub fn main(flags: &RunFlags) -> Result<CommandOutcome> {
    match ranks::begin()? {
        None => collection::main(flags, None),
        Some(post) if post.rank() == 0 => lead(flags, post),
        Some(post) => follow(post),
    }
}

fn introduction() -> Introduction {
    let MeasuringProgram { version, build, .. } = program();
    let program = format!("blobwise {version} ({build} build)");
    Introduction { program, whereabouts: HostIdentity::here() }
}

fn lead(flags: &RunFlags, post: Box<dyn MessagePassing>) -> Result<CommandOutcome> {
    let own = introduction();
    let bound = own.whereabouts.processors;
    if let Some(all) = machine::launchers_cores().filter(|all| bound < *all) {
        eprint(&format!(
            "the launcher lets rank 0 use {bound} of {all} processors, and servers that it starts have no others: `mpirun --bind-to none` \
             lets them have all"
        ));
    }
    let clients = Clients::gather(post, own)?;
    let outcome = collection::main(flags, Some(&clients));
    let lost = clients.lost();
    // If all ranks are being stopped, none is listening anymore.
    if !matches!(outcome, Ok(CommandOutcome::Stopped(_))) {
        clients.end();
    }
    match (outcome, lost) {
        (Ok(CommandOutcome::Well), Some(why)) => {
            eprint(&format!("{why}; what was measured is kept"));
            Ok(CommandOutcome::Failed)
        }
        (outcome, _) => outcome,
    }
}

/// Follows rank 0. Prints only errors, because rank 0 prints the report.
fn follow(post: Box<dyn MessagePassing>) -> Result<CommandOutcome> {
    let signals = Signals::listen()?;
    let stop: &AtomicBool = signals.stop();
    let clock = HostClock::best();
    let served = ServingClient {
        post: post.as_ref(),
        clock: &clock,
        wall: &machine::wall_ns,
        introduction: introduction(),
        design: |plan, candidates| PlanText::parse(plan)?.design(candidates),
        stop,
    };
    let outcome = served.serve();
    match outcome {
        Ok(()) => {
            post.end();
            Ok(CommandOutcome::Well)
        }
        Err(_stopped) if stop.load(Ordering::Relaxed) => {
            Ok(CommandOutcome::Stopped(signals.received().unwrap_or(signal_hook::consts::SIGTERM)))
        }
        Err(error) => Err(error.context(format!("client {}", post.rank()))),
    }
}
