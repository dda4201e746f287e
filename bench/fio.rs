//! The null store against fio's null engine, and whole reads of `files/hashed` against fio's psync engine.
//!
//! `cargo bench --bench fio`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

mod common;
#[path = "common/outside.rs"]
mod outside;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use blobwise::corpus::Sizes;
use blobwise::plan::Order;
use serde_json::Value;

use common::{Bed, Turn, compare};

fn main() -> Result<ExitCode> {
    if !outside::are_there(&["fio"], "apt-get install fio")? {
        return Ok(ExitCode::SUCCESS);
    }
    null()?;
    psync()?;
    Ok(ExitCode::SUCCESS)
}

/// Both pick one of 100,000 places at random, move no bytes, read the clock twice and keep histograms of times. fio neither
/// looks a key up nor uses the bytes.
fn null() -> Result<()> {
    let bed = Bed::make("null", Sizes::Fixed(512), 100_000, Order::Uniform, 100_000)?;
    let job = ["--ioengine=null", "--rw=randread", "--norandommap", "--bs=512", "--size=51200000"];
    compare("null against fio's null engine", None, || bed.ours(), || fio(&job, &bed.dir()))?;
    Ok(())
}

/// Both open a file, read it whole and close it, every file once in the order in which they were made, again and again: fio
/// has random orders too, but looks for a file that is not done yet for 60 us an op. fio knows the size and reads once,
/// where the store reads until nothing is left; fio does not use the bytes; its files lie in one directory, beside ours.
fn psync() -> Result<()> {
    const FILES: u64 = 2000;
    const BYTES: u64 = 4096;
    let bed = Bed::make("files/hashed", Sizes::Fixed(BYTES), FILES, Order::Sequential, FILES)?;
    let (files, bytes, block) =
        (format!("--nrfiles={FILES}"), format!("--filesize={BYTES}"), format!("--bs={BYTES}"));
    let layout = ["--ioengine=psync", "--rw=read", &files, &bytes, &block, "--openfiles=1"];
    let order = ["--file_service_type=sequential", "--invalidate=0", "--fadvise_hint=0"];
    let job = [&layout[..], &order[..]].concat();
    compare(
        "files/hashed against fio's psync engine: 2000 files of 4096 B",
        None,
        || bed.ours(),
        || fio(&job, &bed.dir()),
    )?;
    Ok(())
}

/// One turn of fio, in a thread of it; the first one lays its files out.
fn fio(job: &[&str], dir: &Path) -> Result<Turn> {
    let mut command = Command::new("fio");
    command.args(["--name=theirs", "--thread", "--time_based", "--runtime=1", "--output-format=json"]);
    let (text, _) = outside::run(command.args(job).current_dir(dir))?;
    let report: Value = serde_json::from_str(&text).context("fio's report is not JSON")?;
    let number = |path: &str| {
        report.pointer(path).and_then(Value::as_f64).with_context(|| format!("fio's report has no {path}"))
    };
    let busy = (number("/jobs/0/usr_cpu")? + number("/jobs/0/sys_cpu")?) / 100.0;
    Ok(Turn {
        ops: number("/jobs/0/read/total_ios")? as u64,
        seconds: number("/jobs/0/read/runtime")? / 1000.0,
        cpu_seconds: number("/jobs/0/job_runtime")? / 1000.0 * busy,
    })
}
