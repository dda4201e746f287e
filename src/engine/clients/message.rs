//! What the processes of a run tell each other, and how that is written: a line of JSON, and behind it the ops as they are.
//!
//! Numbers with a fraction are sent as their bits: a schedule that is split must be the same to the last of them everywhere.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::ops::PlannedOp;
use super::super::workers::crew::{Job, Open};
use super::super::workers::pace::Slice;
use super::super::workers::tally::SentTally;
use crate::host::ranks::Whereabouts;
use crate::plan::{Arrivals, OpKind, SyncRule, Use};
use crate::result::CandidateResult;
use crate::store::{Durability, Invitation};

/// What rank 0 says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The plan as text, with its candidates: the corpora are made of it. `dir` is where stores lie, and has a file of this name.
    Prepare { plan: String, candidates: Vec<CandidateResult>, dir: PathBuf, sign: String },
    /// A job to get ready for.
    Work(Box<Task>),
    /// Compare what is in the store of your own, if that is wanted, and remove it.
    Leave { compares: bool },
    /// What time is it?
    Ping,
    /// All are ready: begin at this moment of your own clock.
    Begin(u64),
    /// Somebody is not ready: do not begin.
    GiveUp,
    /// There is nothing more to do.
    End,
}

/// What another rank says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// It is there.
    Here(Introduction),
    /// A digest of each corpus, and whether it sees the directory.
    Prepared { digests: Vec<u64>, sees_directory: bool },
    /// It cannot do what was ordered.
    Cannot(String),
    /// It could begin.
    Ready,
    /// The time, in nanoseconds: of the loop's clock, and of the system's since 1970.
    Pong { now: u64, wall: i64 },
    /// What its workers counted.
    Done(Box<Report>),
    /// Its own store is gone; so many blobs were compared before.
    Left { verified: u64 },
}

/// Who somebody is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Introduction {
    /// Version and build of the program.
    pub program: String,
    /// Where it runs.
    pub whereabouts: Whereabouts,
}

/// A finished job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) tally: SentTally,
    pub(super) process_cpu_ns: u64,
}

/// What a store is opened with where another process has made it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Opening {
    pub(super) adapter: String,
    /// With passwords: they are sent from process to process only.
    pub(super) options: std::collections::BTreeMap<String, String>,
    pub(super) dir: PathBuf,
    pub(super) durability: Durability,
    pub(super) cache_bytes: u64,
    pub(super) fits: bool,
    pub(super) blob_bytes_max: u64,
    pub(super) store_bytes_max: u64,
    pub(super) keys_max: u64,
    pub(super) workers: usize,
    pub(super) op_timeout: Duration,
    /// Absent where each process has a store of its own.
    pub(super) invitation: Option<Invitation>,
}

/// A job of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) opening: Opening,
    /// Which corpus, and how many of its blobs.
    pub(super) corpus: usize,
    pub(super) blobs: u64,
    pub(super) workers: usize,
    pub(super) one_transaction: bool,
    passes: usize,
    nanoseconds: u64,
    enough_ns: u64,
    open: Option<SentOpen>,
    use_bytes: Use,
    batch: usize,
    connect: bool,
    /// Ops and bytes.
    sync: Option<(u64, u64)>,
    first_apart: bool,
    /// How many ops each list has; they come behind.
    lists: Vec<usize>,
    /// How many ops come behind those: what a store of its own lacks before.
    stock: usize,
    /// Present where each client has a store of its own for the whole visit.
    pub(super) own: Option<OwnStore>,
}

/// What is to be known of a store of one's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OwnStore {
    /// Whether every blob is read before: rank 0's store is warm as well.
    pub(super) is_warm: bool,
    /// Whether it settles after the job, as rank 0's does.
    pub(super) settles: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct SentOpen {
    arrivals: Arrivals,
    ops_per_s_bits: u64,
    seconds_bits: u64,
    ops_max: u64,
    seed: u64,
    index: usize,
    of: usize,
}

impl Task {
    /// The task of one of several processes: a part of a job, and what its store must hold before.
    pub(super) fn of(
        job: &Job,
        stock: &[PlannedOp],
        opening: &Opening,
        (corpus, blobs): (usize, u64),
        (workers, one_transaction): (usize, bool),
        own: Option<OwnStore>,
    ) -> Task {
        let sent = |open: Open| SentOpen {
            arrivals: open.arrivals,
            ops_per_s_bits: open.ops_per_s.to_bits(),
            seconds_bits: open.seconds.to_bits(),
            ops_max: open.ops_max,
            seed: open.seed,
            index: open.part.index,
            of: open.part.of,
        };
        Task {
            opening: opening.clone(),
            corpus,
            blobs,
            workers,
            one_transaction,
            passes: job.passes,
            nanoseconds: job.nanoseconds,
            enough_ns: job.enough_ns,
            open: job.open.map(sent),
            use_bytes: job.use_bytes,
            batch: job.batch,
            connect: job.connect,
            sync: job.sync.map(|sync| (sync.ops, sync.bytes)),
            first_apart: job.first_apart,
            lists: job.lists.iter().map(Vec::len).collect(),
            stock: stock.len(),
            own,
        }
    }

    /// The job, and the puts that come before it.
    pub(super) fn job(&self, ops: &[u8]) -> Result<(Job, Vec<PlannedOp>)> {
        let expected = self.lists.iter().sum::<usize>() + self.stock;
        ensure!(ops.len() == expected * OP_BYTES, "{} B of ops instead of {expected} ops", ops.len());
        let mut all = ops.chunks_exact(OP_BYTES).map(op_of);
        let lists = self.lists.iter().map(|len| all.by_ref().take(*len).collect()).collect::<Result<_>>()?;
        let stock = all.collect::<Result<_>>()?;
        let open = self.open.as_ref().map(|sent| Open {
            arrivals: sent.arrivals,
            ops_per_s: f64::from_bits(sent.ops_per_s_bits),
            seconds: f64::from_bits(sent.seconds_bits),
            ops_max: sent.ops_max,
            seed: sent.seed,
            part: Slice { index: sent.index, of: sent.of },
        });
        let job = Job {
            lists,
            passes: self.passes,
            nanoseconds: self.nanoseconds,
            enough_ns: self.enough_ns,
            open,
            use_bytes: self.use_bytes,
            batch: self.batch,
            connect: self.connect,
            sync: self.sync.map(|(ops, bytes)| SyncRule { ops, bytes }),
            first_apart: self.first_apart,
        };
        Ok((job, stock))
    }
}

/// Bytes of an op as it is sent.
const OP_BYTES: usize = 21;

/// Kinds of ops in the order of their numbers.
const KINDS: [OpKind; 7] = [
    OpKind::Put,
    OpKind::Get,
    OpKind::Range,
    OpKind::Overwrite,
    OpKind::Delete,
    OpKind::Register,
    OpKind::Release,
];

/// Ops as bytes.
pub(super) fn ops_as_bytes<'o>(ops: impl Iterator<Item = &'o PlannedOp>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ops.size_hint().0 * OP_BYTES);
    for op in ops {
        let kind = KINDS.iter().position(|kind| *kind == op.kind).unwrap_or(KINDS.len());
        bytes.extend_from_slice(&op.blob.to_le_bytes());
        bytes.push(kind as u8);
        bytes.extend_from_slice(&op.len.to_le_bytes());
        bytes.extend_from_slice(&op.generation.to_le_bytes());
        bytes.extend_from_slice(&op.offset.to_le_bytes());
    }
    bytes
}

fn op_of(bytes: &[u8]) -> Result<PlannedOp> {
    let word = |at: usize| -> Result<u32> { Ok(u32::from_le_bytes(bytes[at..at + 4].try_into()?)) };
    Ok(PlannedOp {
        blob: word(0)?,
        kind: *KINDS.get(usize::from(bytes[4])).ok_or_else(|| anyhow!("an op of no kind"))?,
        len: word(5)?,
        generation: word(9)?,
        offset: u64::from_le_bytes(bytes[13..21].try_into()?),
    })
}

/// A message as it is sent.
pub(super) fn written(said: &impl Serialize, ops: &[u8]) -> Result<Vec<u8>> {
    let mut message = serde_json::to_vec(said)?;
    message.push(b'\n');
    message.extend_from_slice(ops);
    Ok(message)
}

/// What a message says, and the ops behind it.
pub(super) fn read<T: DeserializeOwned>(message: &[u8]) -> Result<(T, &[u8])> {
    let end =
        message.iter().position(|byte| *byte == b'\n').context("a message without an end of its line")?;
    Ok((serde_json::from_str(str::from_utf8(&message[..end])?)?, &message[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_arrive_as_they_were_sent() {
        let op = |(place, kind): (usize, &OpKind)| PlannedOp {
            blob: u32::MAX - place as u32,
            kind: *kind,
            len: 7 + place as u32,
            generation: u32::MAX,
            offset: u64::MAX - place as u64,
        };
        let ops: Vec<PlannedOp> = KINDS.iter().enumerate().map(op).collect();
        let bytes = ops_as_bytes(ops.iter());
        let back: Vec<PlannedOp> = bytes.chunks_exact(OP_BYTES).map(|op| op_of(op).unwrap()).collect();
        assert_eq!(back, ops);
        assert!(op_of(&[9; OP_BYTES]).is_err());
    }
}
