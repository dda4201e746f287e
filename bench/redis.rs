//! Reads of `redis` against redis-benchmark, on the same private server.
//!
//! `cargo bench --bench redis`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

mod common;
#[path = "common/outside.rs"]
mod outside;
#[path = "common/socket.rs"]
mod socket;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use blobwise::corpus::Sizes;
use blobwise::plan::Order;

use common::{Bed, PER_SECOND, Turn, compare};

/// Blobs of ours, and keys of theirs.
const BLOBS: u64 = 1000;

fn main() -> Result<ExitCode> {
    if let Some(supervisor) = blobwise::host::server::supervise_if_asked() {
        return Ok(supervisor);
    }
    if !outside::are_there(&["redis-server", "redis-benchmark"], "apt-get install redis-server redis-tools")?
    {
        return Ok(ExitCode::SUCCESS);
    }
    let mut met = true;
    for (bytes, ops) in [(1024, 40_000), (102_400, 10_000)] {
        met &= reads(bytes, ops)?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn reads(bytes: u64, ops: u64) -> Result<bool> {
    let bed = Bed::make("redis", Sizes::Fixed(bytes), BLOBS, Order::Uniform, BLOBS)?;
    // It says so in place of its arguments.
    let socket = socket::argument(&bed.dir(), "unixsocket:")?;
    let benchmark = |test: &str, ops: u64| -> Result<(String, f64)> {
        let mut command = Command::new("redis-benchmark");
        command.args(["-s", &socket, "-c", "1", "-t", test, "--csv"]);
        command.args(["-d", &bytes.to_string(), "-r", &BLOBS.to_string(), "-n", &ops.to_string()]);
        outside::run(&mut command)
    };
    // Random keys: of this many one in a hundred million is missed.
    benchmark("set", BLOBS * 20)?;
    let theirs = || {
        let (text, cpu_seconds) = benchmark("get", ops)?;
        let line = text.lines().find(|line| line.starts_with("\"GET\"")).context("no line about GET")?;
        let rate = line.split(',').nth(1).context("no rate")?.trim_matches('"');
        Ok(Turn { ops, seconds: ops as f64 / rate.parse::<f64>()?, cpu_seconds })
    };
    let title = format!("redis against redis-benchmark, one client: {BLOBS} blobs of {bytes} B");
    compare(&title, Some(PER_SECOND), || bed.ours(), theirs)
}
