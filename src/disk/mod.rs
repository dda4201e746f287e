//! Tests of disks: what a file system on a device does in a second, by the loop that does every op, round by round.

mod beside;
pub mod bonnie;
mod names;
mod visit;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

pub use self::beside::lacks;
use self::visit::{Bench, Came, Outcome, Visit};
pub use crate::engine::blocks::BLOCK_BYTES;
use crate::engine::blocks::Blocks;
use crate::engine::order::williams;
use crate::host::machine::Device;
use crate::result::Percentiles;
use crate::result::disk::{By, Row, Test};

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
    let takes_direct: Vec<bool> = sites.iter().map(takes_direct).collect::<Result<_>>()?;
    let mut rows = Vec::new();
    for round in 1..=asked.rounds {
        for place in williams(sites.len(), round, asked.seed) {
            let (site, is_direct) = (&sites[place], takes_direct[place]);
            tell(round, site);
            for by in turns(&asked.beside, round, asked.seed) {
                let mut came = Vec::new();
                match by {
                    By::Blobwise => {
                        let mut each = |one: Came| came.push(one);
                        Visit { asked, bench: &bench, site, round, is_direct, stop, each: &mut each }.go()?;
                    }
                    by => came = beside::go(by, asked, site, round, is_direct, stop)?,
                }
                if stop.load(Ordering::Relaxed) {
                    return Ok(rows);
                }
                for Came { test, is_direct, outcome } in came {
                    keep(&mut rows, &site.name, by, test, is_direct, outcome);
                }
            }
        }
    }
    // Who had the first turn is no order of rows.
    rows.sort_by_key(|row| row.by);
    Ok(rows)
}

/// Who does its tests in which order in a round: what one leaves behind (a cache, blocks that were freed) meets each other one as often.
fn turns(beside: &[By], round: u32, seed: u64) -> Vec<By> {
    let all: Vec<By> = std::iter::once(By::Blobwise).chain(beside.iter().copied()).collect();
    williams(all.len(), round, seed).into_iter().map(|turn| all[turn]).collect()
}

/// Whether a directory's file system takes direct I/O, by a file of one block that is removed. Of a device nobody asks.
fn takes_direct(site: &Site) -> Result<bool> {
    if site.device_bytes.is_some() {
        return Ok(false);
    }
    let probe = site.path.join("probe");
    std::fs::write(&probe, [0; BLOCK_BYTES])
        .and_then(|()| std::fs::File::open(&probe)?.sync_all())
        .with_context(|| format!("cannot write `{}`", probe.display()))?;
    let takes = Blocks::takes_direct(probe.clone());
    std::fs::remove_file(&probe).with_context(|| format!("cannot remove `{}`", probe.display()))?;
    Ok(takes)
}

/// Adds what came of a test to its row. Where one round has no figure, the row has none: the others would say less than they seem to.
fn keep(rows: &mut Vec<Row>, place: &str, by: By, test: Test, is_direct: bool, outcome: Outcome) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_each_turn_equally_often() {
        let beside = [By::Bonnie, By::Fio];
        let rounds: Vec<Vec<By>> = (1..=12).map(|round| turns(&beside, round, 7)).collect();
        for by in [By::Blobwise, By::Bonnie, By::Fio] {
            for turn in 0..3 {
                let times = rounds.iter().filter(|round| round[turn] == by).count();
                assert_eq!(times, 4, "{by:?} has turn {turn} in {times} of 12 rounds");
            }
        }
        assert_eq!(turns(&[], 3, 7), [By::Blobwise]);
    }
}
