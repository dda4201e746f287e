//! Tests the file system below a candidate by itself, as Bonnie++ does: writes, rewrites and reads one file in order, by blocks
//! or byte by byte. The candidate only determines the directory; its store takes no part.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};

use super::super::blocks::{BLOCK_BYTES, BlockLayout, Blocks, PutMode, numbered};
use super::super::bytes::Bytes;
use super::super::candidate_run::{CandidateRun, PhaseOutcome, PhaseRun};
use super::super::ops::PlannedOp;
use super::super::resources::Meter;
use super::super::workers::pool::{Job, WorkerPool};
use super::super::workers::tally::Tally;
use super::{Applicant, Forecast, LengthInputs, Work, WorkKind};
use crate::corpus::Corpus;
use crate::host::machine;
use crate::host::place::remove_tree;
use crate::plan::{CustomAction, OpKind, Phase, StandardPhase, SyncRule};
use crate::result::FixedLength;
use crate::rules::{DEVICE_READ_SHARE_MIN, RESIDENT_SHARE_MAX};
use crate::store::Store;
use crate::units;

const NAME: &str = "one-file";
const STANDARD: &[StandardPhase] = &[
    StandardPhase {
        id: WRITE,
        about: "writes a new file of 67 MB beside the store, in blocks of 8 KiB through the page cache, and flushes it",
        phases: || vec![test(WRITE, "writes")],
    },
    StandardPhase {
        id: REWRITE,
        about: "reads, changes and writes back each block of such a file, which was not cached, and flushes it",
        phases: || vec![test(REWRITE, "rewrites")],
    },
    StandardPhase {
        id: READ,
        about: "reads each block of such a file, which was not cached",
        phases: || vec![test(READ, "reads")],
    },
    StandardPhase {
        id: WRITE_BYTES,
        about: "writes a new file of 67 MB byte by byte (`fputc`), and flushes it",
        phases: || vec![test(WRITE_BYTES, "writes")],
    },
    StandardPhase {
        id: READ_BYTES,
        about: "reads such a file, which was not cached, byte by byte (`fgetc`)",
        phases: || vec![test(READ_BYTES, "reads")],
    },
];

const WRITE: &str = "disk-write";
const REWRITE: &str = "disk-rewrite";
const READ: &str = "disk-read";
const WRITE_BYTES: &str = "disk-write-bytes";
const READ_BYTES: &str = "disk-read-bytes";

/// Bytes of the file, before the scale of the plan is applied.
const FILE_BYTES: u64 = 64 << 20;
const BLOCKS_MIN: u64 = 16;
/// The pilot's file is smaller by this factor.
const PILOT_PART: u64 = 8;
/// Bytes that must stay free besides the file.
const SPARE_BYTES: u64 = 64 << 20;

fn test(id: &str, verb: &'static str) -> Phase {
    Phase::custom(NAME, id, CustomAction::new(verb))
}

pub(super) const KIND: WorkKind = WorkKind { name: NAME, standard: STANDARD, work: &DiskWork };

struct DiskWork;

impl Work for DiskWork {
    fn impossible(&self, applicant: &Applicant<'_>, _phase: &Phase) -> Option<String> {
        let keeps_nothing = !applicant.caps.persistent || applicant.candidate.traits().is_external;
        keeps_nothing.then(|| "keeps nothing on a disk of this machine".to_owned())
    }

    fn length(&self, asked: &LengthInputs<'_>, _phase: &Phase) -> FixedLength {
        let blocks = (FILE_BYTES / BLOCK_BYTES as u64) as f64 * asked.plan.scale;
        FixedLength { ops: (blocks as u64).max(BLOCKS_MIN), ..FixedLength::default() }
    }

    fn pilot_length(&self, planned: FixedLength) -> FixedLength {
        FixedLength { ops: planned.ops.div_ceil(PILOT_PART), ..planned }
    }

    fn seconds(&self, forecast: &Forecast<'_>) -> f64 {
        forecast.wall * forecast.length.ops as f64 / forecast.round.ops.max(1) as f64
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let blocks = candidate_run.length(phase)?.ops;
        let needed = blocks * BLOCK_BYTES as u64 + SPARE_BYTES;
        let free = machine::free_bytes(candidate_run.place())?;
        if free < needed {
            let (needed, free) = (units::bytes(needed as f64), units::bytes(free as f64));
            return Ok(Some(PhaseOutcome::NotPossible(format!(
                "takes {needed} of disk, and {free} are free"
            ))));
        }
        let dir = candidate_run.dir.with_extension(NAME);
        std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let done = candidate_run.test(phase, &dir, blocks);
        remove_tree(&dir)?;
        done
    }
}

impl CandidateRun<'_> {
    /// Runs the test of a phase on a file of `blocks` blocks in `dir`.
    fn test(&self, phase: &Phase, dir: &Path, blocks: u64) -> PhaseRun {
        let path = dir.join("file");
        File::create_new(&path).with_context(|| format!("cannot make `{}`", path.display()))?;
        let keys = numbered(blocks)?;
        let in_blocks =
            |put: PutMode| Blocks { path: path.clone(), put, is_direct: false, lie: BlockLayout::InFile };
        let is_new = [WRITE, WRITE_BYTES].contains(&phase.id.as_str());
        if !is_new {
            let (tally, _) = self.in_order(&in_blocks(PutMode::Write), OpKind::Put, &keys)?;
            if let Some(error) = tally.counters.first_error {
                anyhow::bail!("the file could not be written: {error}");
            }
        }
        machine::sync_filesystem(dir)?;
        machine::evict(dir);
        let cached = if is_new { 0.0 } else { machine::resident_share(dir) };
        if cached > RESIDENT_SHARE_MAX {
            let why = format!("the kernel kept {} of the file in its cache", units::percent(cached));
            return Ok(Some(PhaseOutcome::NotPossible(why)));
        }
        let (tally, meter) = match phase.id.as_str() {
            READ => self.in_order(&in_blocks(PutMode::Write), OpKind::Get, &keys),
            READ_BYTES => self.in_order(&Bytes { path: path.clone() }, OpKind::Get, &keys),
            WRITE_BYTES => self.in_order(&Bytes { path: path.clone() }, OpKind::Put, &keys),
            REWRITE => self.in_order(&in_blocks(PutMode::Rewrite), OpKind::Put, &keys),
            _ => self.in_order(&in_blocks(PutMode::Write), OpKind::Put, &keys),
        }?;
        if self.run.stopped() {
            return Ok(None);
        }
        self.of_test(is_new, &tally, &meter)
    }

    /// Writes or reads each block of a file once, in order, and flushes what was written.
    fn in_order(&self, store: &dyn Store, kind: OpKind, keys: &Corpus) -> Result<(Tally, Meter<'_>)> {
        let len = if kind.reads() { BLOCK_BYTES as u32 } else { 0 };
        let op = |blob: u32| PlannedOp { blob, kind, len, generation: 0, offset: 0 };
        let job = Job {
            sync: (!kind.reads()).then_some(SyncRule::AT_THE_END),
            first_apart: false,
            ..Job::once(vec![(0..keys.blobs() as u32).map(op).collect()])
        };
        let pool = WorkerPool { keys: &keys.keys, contents: &keys.contents, ..self.pool(store, 1) };
        let mut meters = [self.meter()];
        let tally = pool.run(&[job], &mut meters)?.remove(0);
        let [meter] = meters;
        Ok((tally, meter))
    }

    /// Returns the round of a test, or `NotPossible` if the device read too little for the blocks to have come from it.
    fn of_test(&self, is_new: bool, tally: &Tally, meter: &Meter<'_>) -> PhaseRun {
        let bytes = tally.ops * BLOCK_BYTES as u64;
        let is_told = !is_new && tally.counters.errors == 0;
        let read =
            meter.used().device.filter(|_| is_told).map(|device| device.read_bytes as f64 / bytes as f64);
        if let Some(share) = read.filter(|share| *share < DEVICE_READ_SHARE_MIN) {
            let why = format!(
                "the device read only {} of what was asked for: the rest came from a cache that the kernel does not tell of",
                units::percent(share)
            );
            return Ok(Some(PhaseOutcome::NotPossible(why)));
        }
        let mut round = self.new_round(0);
        round.seconds = tally.seconds(1);
        self.finish(&mut round, tally, meter)?;
        round.bytes = bytes;
        Ok(Some(PhaseOutcome::Measured(Box::new(round))))
    }
}
