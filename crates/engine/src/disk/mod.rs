//! Tests of disks: measures what a file system on a device can do, with the engine's own loop, in rounds.

mod beside;
mod bonnie;
mod names;
mod visit;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

pub use self::beside::lacks;
use self::visit::{Outcome, PlaceRound, TestContext, TestOutcome};
pub use crate::engine::blocks::BLOCK_BYTES;
use crate::engine::blocks::Blocks;
use crate::engine::order::williams;
use crate::host::machine::Device;
use crate::result::Percentiles;
use crate::result::disk::{Test, TestProgram, TestResult};

/// The tests to run in each place.
#[derive(Clone, Debug)]
pub struct DiskTestOptions {
    /// Size of the test file, in whole blocks.
    pub file_bytes: u64,
    /// Number of files to create.
    pub files: u64,
    /// Number of rounds.
    pub rounds: u32,
    /// Duration of tests that have no other end, in seconds.
    pub seconds: f64,
    /// Numbers of threads to use for random reads and writes.
    pub threads: Vec<u32>,
    /// Number of positions from which a device is read sequentially.
    pub positions: u32,
    /// Other programs to run in the same rounds; they must be installed.
    pub beside: Vec<TestProgram>,
    /// Seed for random orders.
    pub seed: u64,
}

/// A place to test: a directory that blobwise made, or a device that is only read.
#[derive(Debug)]
pub struct TestTarget {
    /// Name of the place.
    pub name: String,
    /// Path of the directory or of the device.
    pub path: PathBuf,
    /// The device below the directory, if it is known.
    pub device: Option<Device>,
    /// Size of a device that is only read; `None` for a directory.
    pub device_bytes: Option<u64>,
}

/// Runs all rounds in all places. Calls `tell` with the round and the place before each turn. If stopped, drops the turn in
/// progress.
pub fn measure(
    asked: &DiskTestOptions,
    sites: &[TestTarget],
    stop: &AtomicBool,
    tell: &mut dyn FnMut(u32, &TestTarget),
) -> Result<Vec<TestResult>> {
    // Number of blocks of a device that are read at random, or from one position.
    const BLOCKS_OF_DEVICE: u64 = 1 << 17;
    let is_device = sites.iter().any(|site| site.device_bytes.is_some());
    let blocks = if is_device { BLOCKS_OF_DEVICE } else { asked.file_bytes / BLOCK_BYTES as u64 };
    let bench = TestContext::new(blocks.max(asked.files))?;
    let takes_direct: Vec<bool> = sites.iter().map(takes_direct).collect::<Result<_>>()?;
    let mut rows = Vec::new();
    for round in 1..=asked.rounds {
        for place in williams(sites.len(), round, asked.seed) {
            let (site, is_direct) = (&sites[place], takes_direct[place]);
            tell(round, site);
            for by in turns(&asked.beside, round, asked.seed) {
                let mut came = Vec::new();
                match by {
                    TestProgram::Blobwise => {
                        let mut each = |one: TestOutcome| came.push(one);
                        PlaceRound { asked, bench: &bench, site, round, is_direct, stop, each: &mut each }
                            .go()?;
                    }
                    by => came = beside::go(by, asked, site, round, is_direct, stop)?,
                }
                if stop.load(Ordering::Relaxed) {
                    return Ok(rows);
                }
                for TestOutcome { test, is_direct, outcome } in came {
                    keep(&mut rows, &site.name, by, test, is_direct, outcome);
                }
            }
        }
    }
    // Sorts, because the order of turns varies from round to round.
    rows.sort_by_key(|row| row.by);
    Ok(rows)
}

/// Returns the order of the programs in a round. It is balanced, so that what one leaves behind (cached data, freed blocks)
/// affects every other one equally often.
fn turns(beside: &[TestProgram], round: u32, seed: u64) -> Vec<TestProgram> {
    let all: Vec<TestProgram> =
        std::iter::once(TestProgram::Blobwise).chain(beside.iter().copied()).collect();
    williams(all.len(), round, seed).into_iter().map(|turn| all[turn]).collect()
}

/// True if the file system of a directory supports direct I/O, tried with a file of one block. Always false for a device, where
/// it is not used.
fn takes_direct(site: &TestTarget) -> Result<bool> {
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

/// Adds the outcome of a test to its row. If one round has no figure, the row has none, because the other rounds would promise
/// more than they can tell.
fn keep(
    rows: &mut Vec<TestResult>,
    place: &str,
    by: TestProgram,
    test: Test,
    is_direct: bool,
    outcome: Outcome,
) {
    let is_its = |row: &TestResult| row.place == place && row.by == by && row.test == test;
    let index = rows.iter().position(is_its).unwrap_or_else(|| {
        rows.push(TestResult {
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
        let beside = [TestProgram::Bonnie, TestProgram::Fio];
        let rounds: Vec<Vec<TestProgram>> = (1..=12).map(|round| turns(&beside, round, 7)).collect();
        for by in [TestProgram::Blobwise, TestProgram::Bonnie, TestProgram::Fio] {
            for turn in 0..3 {
                let times = rounds.iter().filter(|round| round[turn] == by).count();
                assert_eq!(times, 4, "{by:?} has turn {turn} in {times} of 12 rounds");
            }
        }
        assert_eq!(turns(&[], 3, 7), [TestProgram::Blobwise]);
    }
}
