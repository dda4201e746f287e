//! `blobwise selftest`: what the harness itself costs, and how often it is wrong.

use anyhow::Result;
use clap::Args;

use super::{Ended, print};
use crate::engine::clock::HostClock;
use crate::engine::yardstick::Yardstick;

/// Flags of the command.
#[derive(Debug, Args)]
pub struct Flags {
    /// Compare equal rows 100 times: how often are they called different?
    #[arg(long, conflicts_with = "ab")]
    aa: bool,
    /// Compare rows of which one is 10 % slower 100 times: how often is that found?
    #[arg(long)]
    ab: bool,
}

/// Runs the command.
pub fn main(_flags: &Flags) -> Result<Ended> {
    let clock = HostClock::best();
    let yardstick = Yardstick::new(100_000, 64)?;
    let ns = yardstick.ns_per_op(&clock, 1.0)?;
    print(&format!("clock {} {:.1} ns, null op {ns:.1} ns\n", clock.name(), clock.read_ns()))?;
    Ok(Ended::Well)
}
