//! Logs of requests that other programs wrote: reading them, describing them, and what a run needs to replay them.
//!
//! Of a line only numbers and a salted hash of its key are kept. Names, addresses and queries are never stored, printed or part of
//! an error.

mod describe;
mod files;
mod format;
mod objects;
mod reader;
mod replay;
mod zipf;
mod zstd;

#[cfg(test)]
mod tests;

pub use describe::{Description, Miss, Rate, describe};
pub use files::{ObjectFile, PathIndex};
pub use format::{LogFormat, Parser};
pub use reader::{BadLine, Counts, LogReader, Reading};
pub use replay::{LogFile, Replay, ReplayStep, Selection};
pub use zipf::Popularity;

/// Requests from one report of progress to the next, while a log is read.
const PROGRESS_EVERY: u64 = 10_000_000;

named! {
    /// What a request did.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Op {
        /// Read a whole object.
        Get = "get",
        /// Read a part of an object (206).
        Range = "range",
        /// Found that the client's copy is current (304); no bytes of the object were read.
        NotModified = "not-modified",
        /// Asked about an object.
        Head = "head",
        /// Wrote an object.
        Put = "put",
        /// Deleted an object.
        Delete = "delete",
        /// Anything else, such as a redirect, a POST or a list.
        Other = "other",
        /// Was refused or failed.
        Failed = "failed",
    }
}

impl Op {
    /// All of them, in the order of the output.
    pub const ALL: [Op; 8] =
        [Op::Get, Op::Range, Op::NotModified, Op::Head, Op::Put, Op::Delete, Op::Other, Op::Failed];

    /// True if bytes of the object were read.
    pub fn reads(self) -> bool {
        matches!(self, Op::Get | Op::Range)
    }

    /// True if the request is about an object that there is, or was.
    pub fn names_an_object(self) -> bool {
        !matches!(self, Op::Other | Op::Failed)
    }
}

/// A request of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Start in microseconds since 1970, or since the beginning of a trace that has no dates. Where a log has the end and the
    /// duration, it is their difference; where it has whole seconds, it is the second.
    pub start_us: i64,
    /// What it did.
    pub op: Op,
    /// Salted hash of the object's name.
    pub key: u64,
    /// Bytes transferred.
    pub sent: u64,
    /// Size of the object in bytes, if the request shows it: a whole read does, unless it was aborted.
    pub size: Option<u64>,
    /// The user's file of the object's path, if the reader was given files and one has it.
    pub file: Option<ObjectFile>,
}
