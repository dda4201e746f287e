//! Our tests of a disk against fio's and Bonnie++'s: the same file system, in the same rounds, and what a limit of devices comes to.
//!
//! `cargo bench --bench disk`, as root; with `-- limited` what a limit comes to alone

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

#[path = "common/outside.rs"]
mod outside;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use blobwise::judge::LIMIT_AHEAD_S;
use blobwise::judge::interval::{self, median};
use blobwise::result::Interval;
use blobwise::result::disk::{DiskReport, TestOperation, TestProgram};

/// How far from 1 a ratio of ours to theirs may lie.
const WITHIN: f64 = 0.05;

fn main() -> Result<ExitCode> {
    if !outside::are_there(&["fio", "bonnie++"], "apt-get install fio bonnie++")? {
        return Ok(ExitCode::SUCCESS);
    }
    let is_short = std::env::args().any(|argument| argument == "limited");
    let beside = is_short || beside()?;
    Ok(if limited()? && beside { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every test that another program does as well, on ext4: 24 rounds of a file of 1.07 GB, which is long enough for Bonnie++ to have figures. A
/// disk that others use as well scatters: only a ratio whose whole interval lies elsewhere is a miss.
fn beside() -> Result<bool> {
    let report = disk("--on ext4 --rounds 24 --size 1GiB --files 4096 --threads 1,4,32 --beside fio,bonnie")?;
    println!("ours / theirs, on ext4 (24 rounds each)");
    let mut met = true;
    for row in report.rows.iter().filter(|row| row.by != TestProgram::Blobwise) {
        let Some(theirs) = row.over_ours else { continue };
        let ours = theirs.turned();
        met &= print_verdict(&format!("{:?}, {}", row.by, row.test), &ours, 1.0 - WITHIN, 1.0 + WITHIN);
    }
    Ok(met)
}

/// Devices of 20 MB/s each: one, four as RAID0, two as RAID1. Four take over 2 s for the file: what a limit gives out in advance is little
/// of that, and four are faster than four times one by it.
fn limited() -> Result<bool> {
    const LIMIT: f64 = 20e6;
    const DEVICES: f64 = 4.0;
    let places = ["btrfs", "btrfs-raid0:4", "btrfs-raid1:2"];
    let report = disk(&format!(
        "--on {} --device-limit 20MB/s --rounds 5 --size 160MiB --files 10 --threads 1",
        places.join(",")
    ))?;
    let rounds = |place: &str, what: TestOperation| {
        let row = report.ours().find(|row| row.place == place && row.test.what == what);
        let rounds = row.map(|row| row.rounds.as_slice()).filter(|rounds| !rounds.is_empty());
        rounds.with_context(|| format!("{what:?} on {place} has no rounds"))
    };
    let seconds = |place: &str, what: TestOperation| -> Result<Vec<f64>> {
        Ok(rounds(place, what)?.iter().map(|round| round.seconds).collect())
    };
    println!("\ndevices of 20 MB/s each (5 rounds)");
    let mut met = true;
    for what in [TestOperation::Write, TestOperation::Read] {
        let ones = seconds(places[0], what)?;
        // The same bytes everywhere, round by round.
        let of_one = |place: &str| {
            let ratio = interval::paired_ratio(&ones, &seconds(place, what)?);
            ratio.with_context(|| format!("{what:?} on {place} has no ratio"))
        };
        // What the device itself moved: beside the file there is what the file system notes of it.
        let moved = rounds(places[0], what)?.iter().filter_map(|round| {
            let device = round.device?;
            let bytes = if what == TestOperation::Write { device.written_bytes } else { device.read_bytes };
            Some(bytes as f64 / round.seconds / LIMIT)
        });
        let of_limit = interval::rate(&moved.collect::<Vec<f64>>()).context("the device has no counters")?;
        let name = what.name();
        met &= print_verdict(&format!("{name}, one over its limit"), &of_limit, 1.0 - WITHIN, 1.0 + WITHIN);
        let one = median(ones.iter().copied());
        let most = one / ((one + LIMIT_AHEAD_S) / DEVICES - LIMIT_AHEAD_S);
        met &= print_verdict(&format!("{name}, RAID0 over four"), &of_one(places[1])?, 3.4, most);
        if what == TestOperation::Write {
            met &= print_verdict("write, RAID1 over one", &of_one(places[2])?, 1.0 - WITHIN, 1.0 + WITHIN);
        }
    }
    Ok(met)
}

/// Prints a ratio and whether it lies where it should. It is missed where all of its interval lies elsewhere; one without an
/// interval stands for itself.
fn print_verdict(what: &str, ratio: &Interval, low: f64, high: f64) -> bool {
    let is_met = (low..=high).contains(&ratio.median);
    let [least, most] = [ratio.low, ratio.high].map(|bound| bound.unwrap_or(ratio.median));
    let may_be_met = least <= high && most >= low;
    let verdict = match (is_met, may_be_met) {
        (true, _) => "met",
        (false, true) => "cannot tell",
        (false, false) => "missed",
    };
    println!("  {what:<28} {:<22} goal {low:.2} to {high:.2}: {verdict}", interval::text(ratio));
    may_be_met
}

/// What the program itself measures, by these flags.
fn disk(flags: &str) -> Result<DiskReport> {
    let dir = tempfile::tempdir_in(".")?;
    let json = dir.path().join("disk.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_blobwise"));
    command.arg("disk").args(flags.split_whitespace()).arg("--json").arg(&json);
    outside::run(&mut command)?;
    Ok(serde_json::from_str(&std::fs::read_to_string(&json)?)?)
}
