//! The messages between the processes of a run, and their encoding: a line of JSON, followed by ops in binary form.
//!
//! Floating-point numbers are sent as bits, because a schedule that is split must be exactly the same everywhere.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::ops::PlannedOp;
use super::super::workers::log::{LogOps, SentLog};
use super::super::workers::pace::ProcessShare;
use super::super::workers::pool::{Job, Open};
use super::super::workers::tally::SentTally;
use crate::corpus::Corpus;
use crate::host::ranks::HostIdentity;
use crate::plan::{Arrivals, OpKind, ReadSink, SyncRule};
use crate::result::CandidateResult;
use crate::store::{Durability, JoinToken};

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ClientRequest {
    /// The plan as text, with its candidates, from which the corpora are built. `dir` is the directory of the stores, and
    /// contains a file named `sign`.
    Prepare { plan: String, candidates: Vec<CandidateResult>, dir: PathBuf, sign: String },
    /// Get ready for a job.
    Work(Box<Task>),
    /// Remove your own store, after comparing its blobs if `compares`.
    Leave { compares: bool },
    /// Report the time.
    Ping,
    /// All clients are ready: begin at this moment of your own clock.
    Begin(u64),
    /// A client is not ready: do not begin.
    GiveUp,
    /// The run is over.
    End,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ClientReply {
    /// The process is up.
    Here(Introduction),
    /// A digest of each corpus, and whether the process sees the directory.
    Prepared { digests: Vec<u64>, sees_directory: bool },
    /// The order failed, for this reason.
    Cannot(String),
    /// Ready to begin.
    Ready,
    /// The time in nanoseconds, by the clock of the loop and by the system's clock (since 1970).
    Pong { now: u64, wall: i64 },
    /// The job is done.
    Done(Box<JobResult>),
    /// The client's own store is removed, after this many blobs were compared.
    Left { verified: u64 },
}

/// Identity of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Introduction {
    /// Version and build of the program.
    pub program: String,
    /// The host and its processors.
    pub whereabouts: HostIdentity,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JobResult {
    pub(super) tally: SentTally,
    pub(super) process_cpu_ns: u64,
}

/// Everything that is needed to open a store that another process has created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Opening {
    pub(super) adapter: String,
    /// Includes passwords: they are only sent between the processes.
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
    /// `None` if each process has a store of its own.
    pub(super) join_token: Option<JoinToken>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) opening: Opening,
    /// Index of the corpus, and number of its blobs.
    pub(super) corpus: usize,
    pub(super) blobs: u64,
    pub(super) workers: usize,
    pub(super) one_transaction: bool,
    passes: usize,
    nanoseconds: u64,
    enough_ns: u64,
    open: Option<SentOpen>,
    /// Requests of the corpus's log, instead of ops.
    log: Option<SentLog>,
    use_bytes: ReadSink,
    batch: usize,
    connect: bool,
    /// Number of ops, and of bytes, after which a worker syncs.
    sync: Option<(u64, u64)>,
    first_apart: bool,
    /// Number of ops in each list. The ops follow the JSON.
    lists: Vec<usize>,
    /// Number of ops after those of the lists: changes to make in the client's own store before the job.
    stock: usize,
    /// Set if each client has a store of its own for the whole candidate run.
    pub(super) own: Option<OwnStore>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OwnStore {
    /// True if every blob is read before the job, because rank 0's store is warm as well.
    pub(super) is_warm: bool,
    /// True if the store settles after the job, as rank 0's does.
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
    /// Returns the task of one process: its part of a job, and the changes to make in its store before.
    pub(super) fn new(
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
            log: job.log.as_ref().map(|log| log.sent()),
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

    /// Returns the job on the blobs of a corpus, and the changes to make in the store before it.
    pub(super) fn job(&self, ops: &[u8], corpus: &Corpus) -> Result<(Job, Vec<PlannedOp>)> {
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
            part: ProcessShare { index: sent.index, of: sent.of },
        });
        let received = |sent: &SentLog| {
            let log = corpus.log.as_ref().context("a log that was never read")?;
            anyhow::Ok(LogOps::received(log, sent.clone()))
        };
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
            log: self.log.as_ref().map(received).transpose()?,
        };
        Ok((job, stock))
    }
}

const OP_BYTES: usize = 17;

/// Kinds of ops, by their encoded number.
const KINDS: [OpKind; 7] = [
    OpKind::Put,
    OpKind::Get,
    OpKind::Range,
    OpKind::Overwrite,
    OpKind::Delete,
    OpKind::Register,
    OpKind::Release,
];

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
        offset: word(13)?,
    })
}

pub(super) fn written(said: &impl Serialize, ops: &[u8]) -> Result<Vec<u8>> {
    let mut message = serde_json::to_vec(said)?;
    message.push(b'\n');
    message.extend_from_slice(ops);
    Ok(message)
}

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
            offset: u32::MAX - place as u32,
        };
        let ops: Vec<PlannedOp> = KINDS.iter().enumerate().map(op).collect();
        let bytes = ops_as_bytes(ops.iter());
        let back: Vec<PlannedOp> = bytes.chunks_exact(OP_BYTES).map(|op| op_of(op).unwrap()).collect();
        assert_eq!(back, ops);
        assert!(op_of(&[9; OP_BYTES]).is_err());
    }
}
