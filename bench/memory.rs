//! Reads of files with little memory against a simulation of a cache that forgets what was used least recently.
//!
//! `cargo bench --bench memory`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

#[expect(dead_code, reason = "shared with benches that compare two sides")]
mod common;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use blobwise::corpus::Sizes;
use blobwise::engine::ops::PlannedOp;
use blobwise::host::control_group::{MemoryGroup, why_no_memory_group};
use blobwise::host::fork::Forked;
use blobwise::host::machine::{Device, evict, sync_filesystem};
use blobwise::plan::Order;

use common::Bed;

/// Files, and the bytes of each.
const BLOBS: u64 = 4000;
const BLOB_BYTES: u64 = 100_000;
/// What a file takes in the kernel's cache: whole pages.
const CACHED_BYTES: u64 = BLOB_BYTES.next_multiple_of(4096);
/// Reads before those that count, and those.
const READS_BEFORE: usize = 8000;
const READS: usize = 8000;
/// The share of bytes from the device may differ from the simulation's by so much.
const WITHIN: f64 = 0.03;

fn main() -> Result<ExitCode> {
    if let Some(why) = why_no_memory_group() {
        println!("left out: {why:#}");
        let must = std::env::var_os("BLOBWISE_REQUIRE_ALL").is_some_and(|all| all == "1");
        return Ok(if must { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    println!(
        "{BLOBS} files of {BLOB_BYTES} bytes: bytes read from the device for each byte delivered, after {READS_BEFORE} reads\n"
    );
    let mut met = true;
    for share in [0.25, 0.5] {
        for (name, order) in [("uniform", Order::Uniform), ("zipfian:0.99", Order::Zipfian(0.99))] {
            let [read, simulated, cached] = forked(share, order)?;
            let is_met = (read - simulated).abs() <= WITHIN;
            met &= is_met;
            println!(
                "memory for {:>2.0} %, {name:<12}  {read:.3}, simulated with the {:.0} MB that the group had cached {simulated:.3}: {}",
                share * 100.0,
                cached / 1e6,
                if is_met { "met" } else { "missed" }
            );
        }
    }
    println!("\ngoal: within {WITHIN}: {}", if met { "met" } else { "missed" });
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What was read from the device and what should have been, for each byte delivered, and the bytes that were cached; measured in a
/// process of its own.
fn forked(share: f64, order: Order) -> Result<[f64; 3]> {
    let group = MemoryGroup::make()?;
    let (mut reader, mut writer) = std::io::pipe()?;
    let copy = Forked::begin(|| {
        let found = measured(&group, share, order).unwrap_or_else(|error| {
            println!("{error:#}");
            [f64::NAN; 3]
        });
        for figure in found {
            writer.write_all(&figure.to_ne_bytes()).ok();
        }
    })?;
    drop(writer);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    copy.wait()?;
    let mut figures =
        bytes.chunks_exact(8).map(|figure| f64::from_ne_bytes(figure.try_into().unwrap_or_default()));
    let mut next = || figures.next().filter(|figure| figure.is_finite()).context("it was not measured");
    Ok([next()?, next()?, next()?])
}

fn measured(group: &MemoryGroup, share: f64, order: Order) -> Result<[f64; 3]> {
    group.enter()?;
    let reads = (READS_BEFORE + READS) as u64;
    let bed = Bed::make("files/hashed", Sizes::parse(&format!("fixed:{BLOB_BYTES}"))?, BLOBS, order, reads)?;
    let device = Device::for_dir(&bed.dir()).context("no device")?;
    sync_filesystem(&bed.dir())?;
    evict(&bed.dir());
    // The blobs in memory that were put were made in the group; they are not what is limited.
    let kept = group.now().kept_bytes();
    group.limit(Some(kept + ((BLOBS * BLOB_BYTES) as f64 * share) as u64))?;
    let (before, counted) = bed.gets.split_at(READS_BEFORE);
    bed.run(bed.store.as_ref(), before.to_vec(), 0.0)?;
    let begin = device.counters().context("no counters")?;
    let turn = bed.run(bed.store.as_ref(), counted.to_vec(), 0.0)?;
    let end = device.counters().context("no counters")?;
    ensure!(turn.ops == counted.len() as u64, "{} reads instead of {}", turn.ops, counted.len());
    let cached = group.now().cache_bytes;
    let read = (end.read_bytes - begin.read_bytes) as f64 / (turn.ops * BLOB_BYTES) as f64;
    Ok([read, simulated(&bed.gets, (cached / CACHED_BYTES) as usize), cached as f64])
}

/// The share of the reads that count which a cache of so many files does not have, if it forgets the one used least recently.
fn simulated(reads: &[PlannedOp], room: usize) -> f64 {
    let mut used: BTreeMap<usize, u32> = BTreeMap::new();
    let mut last: Vec<Option<usize>> = vec![None; BLOBS as usize];
    let mut missed = 0;
    for (now, op) in reads.iter().enumerate() {
        match last[op.blob as usize].replace(now).and_then(|before| used.remove(&before)) {
            Some(_) => {}
            None => {
                missed += usize::from(now >= READS_BEFORE);
                if used.len() >= room
                    && let Some((_, forgotten)) = used.pop_first()
                {
                    last[forgotten as usize] = None;
                }
            }
        }
        used.insert(now, op.blob);
    }
    missed as f64 / (reads.len() - READS_BEFORE) as f64
}
