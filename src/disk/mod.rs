//! Tests of disks: what a file system on a device does in a second, by the loop that does every op, round by round.

mod beside;
pub mod bonnie;
mod names;
mod visit;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

pub use self::beside::lacks;
use self::visit::{Bench, Came, Visit};
pub use crate::engine::blocks::BLOCK_BYTES;
use crate::engine::order::williams;
use crate::host::machine::Device;
use crate::result::Percentiles;
use crate::result::disk::{Absent, By, Round, Row, Test, What};

/// What is to be done in each place.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Bytes of the file, whole blocks.
    pub file_bytes: u64,
    /// Files that are made.
    pub files: u64,
    /// Rounds.
    pub rounds: u32,
    /// How long a test lasts that has no other end.
    pub seconds: f64,
    /// Threads of random reads and writes.
    pub threads: Vec<u32>,
    /// From how many positions a device is read in order.
    pub positions: u32,
    /// Programs beside ours, which are there.
    pub beside: Vec<By>,
    /// What orders follow from.
    pub seed: u64,
}

/// A directory of ours to work in, or a device that is only read.
#[derive(Debug)]
pub struct Site {
    /// What it is called.
    pub name: String,
    /// The directory, or the device's path.
    pub path: PathBuf,
    /// The device below it.
    pub device: Option<Device>,
    /// How long a device is that is only read.
    pub device_bytes: Option<u64>,
}

/// Rounds over all places. `tell` is told of the round and the place before each turn. Where it is stopped, the turn that was under way
/// is left out.
pub fn measure(
    asked: &Asked,
    sites: &[Site],
    stop: &AtomicBool,
    tell: &mut dyn FnMut(u32, &Site),
) -> Result<Vec<Row>> {
    // As many blocks of a device have turns at random, or from one position on.
    const BLOCKS_OF_DEVICE: u64 = 1 << 17;
    let is_device = sites.iter().any(|site| site.device_bytes.is_some());
    let blocks = if is_device { BLOCKS_OF_DEVICE } else { asked.file_bytes / BLOCK_BYTES as u64 };
    let bench = Bench::new(blocks.max(asked.files))?;
    let mut rows = Vec::new();
    for round in 1..=asked.rounds {
        for site in williams(sites.len(), round, asked.seed).into_iter().map(|place| &sites[place]) {
            tell(round, site);
            let mut came = Vec::new();
            let mut each = |one: Came| came.push(one);
            Visit { asked, bench: &bench, site, round, stop, each: &mut each }.go()?;
            if stop.load(Ordering::Relaxed) {
                return Ok(rows);
            }
            let is_random = |came: &&Came| came.test.what == What::RandomRead;
            let is_direct = came.iter().find(is_random).is_some_and(|came| came.is_direct);
            let mut take = |by: By, came: Vec<Came>| {
                for Came { test, is_direct, outcome } in came {
                    keep(&mut rows, &site.name, by, test, is_direct, outcome);
                }
            };
            take(By::Blobwise, came);
            for by in asked.beside.iter().copied() {
                let came = beside::go(by, asked, site, round, is_direct, stop)?;
                if stop.load(Ordering::Relaxed) {
                    return Ok(rows);
                }
                take(by, came);
            }
        }
    }
    Ok(rows)
}

/// Adds what came of a test to its row. Where one round has no figure, the row has none: the others would say less than they seem to.
fn keep(
    rows: &mut Vec<Row>,
    place: &str,
    by: By,
    test: Test,
    is_direct: bool,
    outcome: std::result::Result<Round, Absent>,
) {
    let is_its = |row: &Row| row.place == place && row.by == by && row.test == test;
    let index = rows.iter().position(is_its).unwrap_or_else(|| {
        rows.push(Row {
            place: place.to_owned(),
            by,
            test,
            is_direct,
            rounds: Vec::new(),
            absent: None,
            rate: None,
            times_ns: Percentiles::default(),
            over_ours: None,
        });
        rows.len() - 1
    });
    match outcome {
        Ok(round) if rows[index].absent.is_none() => rows[index].rounds.push(round),
        Ok(_) => {}
        Err(why) => {
            rows[index].absent = Some(why);
            rows[index].rounds.clear();
        }
    }
}
