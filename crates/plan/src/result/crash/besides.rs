//! Results of faults other than power cuts: kills, device errors, ignored flushes and flipped bytes.

use blobwise_stores::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::host::disk::{DiskError, RequestKind};
use crate::store::{Loss, NoticedBy};

/// Results of the other faults for a store in a class. Faults that were not requested are absent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OtherFaultResults {
    /// Results of kills.
    pub kills: Option<KillResults>,
    /// Results of device errors.
    pub errors: Option<DeviceErrorResults>,
    /// Results of power cuts on a disk that reports flushes as done but ignores them.
    pub flushes_ignored: Option<IgnoredFlushResults>,
    /// Results of flipped bytes.
    pub flips: Option<FlipResults>,
    /// Reasons why one of them could not be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

impl OtherFaultResults {
    /// True if something that is promised or declared was refuted, or one of the tests could not be done.
    pub fn is_refuted(&self) -> bool {
        let kills = self.kills.as_ref().is_some_and(|kills| kills.verdict() == DeclarationVerdict::Refuted);
        let errors = self.errors.as_ref().is_some_and(|errors| errors.cases.iter().any(|case| case.breaks));
        let flips = self.flips.as_ref().is_some_and(|flips| flips.verdict() == DeclarationVerdict::Refuted);
        kills || errors || flips || !self.failed.is_empty()
    }
}

named! {
    /// Verdict on a declaration.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum DeclarationVerdict {
        /// It held in every trial.
        Confirmed = "confirmed",
        /// It was violated.
        Refuted = "refuted",
        /// Nothing is declared that could be refuted.
        NothingPromised = "nothing promised",
        /// It held, but in too few trials to be conclusive.
        TooFew = "too few",
    }
}

/// Upper limit of the possible share of violations (see [`at_most`]) for a verdict of confirmed.
const TOO_LITTLE: f64 = 0.25;

/// Returns the largest share of violations that is compatible (95 %, exact binomial bound) with none in `tried` trials.
pub fn at_most(tried: usize) -> f64 {
    1.0 - 0.05_f64.powf(1.0 / tried.max(1) as f64)
}

/// Results of kills.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KillResults {
    /// Loss at a kill, as declared by the adapter.
    pub declared: Loss,
    /// Number of kills.
    pub kills: usize,
    /// Number of kills during an op or a sync.
    pub under_way: usize,
    /// Number of kills that lost promised writes.
    pub broken: usize,
    /// Number of kills that lost acknowledged writes that were not promised.
    pub lost_recent: usize,
    /// Description of the first violation.
    pub first: Option<String>,
    /// Time from opening to the first read, in seconds: median and maximum.
    pub open_seconds: Option<(f64, f64)>,
}

impl KillResults {
    /// Returns the verdict on the declared loss.
    pub fn verdict(&self) -> DeclarationVerdict {
        match self.declared {
            Loss::StoreUnusable | Loss::All | Loss::NotKnown => DeclarationVerdict::NothingPromised,
            _ if self.broken > 0 => DeclarationVerdict::Refuted,
            _ if at_most(self.kills) > TOO_LITTLE => DeclarationVerdict::TooFew,
            _ => DeclarationVerdict::Confirmed,
        }
    }
}

/// Kind of device error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorKind {
    /// Request that fails.
    pub of: RequestKind,
    /// Error that it returns.
    pub error: DiskError,
    /// True if all later requests of this kind fail, too.
    pub for_ever: bool,
}

impl ErrorKind {
    /// All tested kinds. Reads cannot run out of space, and the kernel's loop device turns every error of a flush into
    /// the same one.
    pub const ALL: [ErrorKind; 8] = [
        ErrorKind { of: RequestKind::Write, error: DiskError::Broken, for_ever: false },
        ErrorKind { of: RequestKind::Write, error: DiskError::Broken, for_ever: true },
        ErrorKind { of: RequestKind::Write, error: DiskError::Full, for_ever: false },
        ErrorKind { of: RequestKind::Write, error: DiskError::Full, for_ever: true },
        ErrorKind { of: RequestKind::Flush, error: DiskError::Broken, for_ever: false },
        ErrorKind { of: RequestKind::Flush, error: DiskError::Broken, for_ever: true },
        ErrorKind { of: RequestKind::Read, error: DiskError::Broken, for_ever: false },
        ErrorKind { of: RequestKind::Read, error: DiskError::Broken, for_ever: true },
    ];

    /// Returns the wording used in reports.
    pub fn description(self) -> String {
        let of = match self.of {
            RequestKind::Read => "read",
            RequestKind::Write => "write",
            RequestKind::Flush => "flush",
        };
        let error = match self.error {
            DiskError::Broken => "EIO",
            DiskError::Full => "ENOSPC",
        };
        format!("{of}, {error}, {}", if self.for_ever { "for ever" } else { "once" })
    }
}

/// Results of device errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceErrorResults {
    /// One case per kind and position.
    pub cases: Vec<ErrorCase>,
}

/// Result of one device error.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCase {
    /// Kind of the error.
    #[serde(flatten)]
    pub kind: ErrorKind,
    /// Number of the first failing request among those of its kind.
    pub nth: u64,
    /// Number of requests of this kind if none fails.
    pub of_all: u64,
    /// Number of requests answered with an error.
    pub failed_requests: u64,
    /// Behaviour of the store.
    pub outcome: StoreReaction,
    /// True if that violates what its class promises.
    pub breaks: bool,
    /// Number of ops, syncs and closes that returned an error.
    pub failed_ops: u64,
    /// Number of ops acknowledged after the first of these.
    pub went_on: u64,
    /// Behaviour of the file system.
    pub file_system: FileSystemReaction,
    /// First error that the store returned.
    pub said: Option<String>,
    /// Description of the violation.
    pub wrong: Option<String>,
}

/// Behaviour of a store after a device error, ordered by severity, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreReaction {
    /// The error was never triggered.
    NotReached,
    /// The file system could not be mounted again. This says nothing about the store.
    NoFileSystem,
    /// The error was reported to another program, which had asked for all data to be written, and nothing was lost.
    /// This says nothing about the store.
    ToldAnother,
    /// The store reported no error, and nothing was lost.
    NothingLost,
    /// The store returned an error, and all acknowledged data is present.
    Said,
    /// The store's process ended, and all acknowledged data is present.
    Stopped,
    /// A call to the store did not return.
    Hung,
    /// The store does not open, although the disk works again.
    Unusable,
    /// The store lost data that it had acknowledged, or returned wrong data.
    Lied,
}

/// Behaviour of a file system after a device error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileSystemReaction {
    /// It continued to work.
    WentOn,
    /// It became read-only.
    ReadOnly,
    /// It no longer responds.
    ShutDown,
}

/// Results of power cuts on a disk that ignores flushes. No store can promise anything on such a disk, so there is no
/// verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IgnoredFlushResults {
    /// Number of cuts.
    pub cuts: usize,
    /// Number of cuts that lost what the class promises on a disk that honours flushes.
    pub broken: usize,
    /// Number of cuts after which the store did not open.
    pub unusable: usize,
    /// Number of cuts after which the file system could not be mounted.
    pub unmountable: usize,
}

/// Results of flipped bytes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlipResults {
    /// Who detects the change, as declared; absent if nothing is declared.
    pub declared: Option<NoticedBy>,
    /// Number of blobs with a flipped byte on the disk.
    pub flips: usize,
    /// Number of these that caused an error while reading or opening.
    pub noticed: usize,
    /// Number of these that were returned wrong or as missing, without an error.
    pub handed_out: usize,
    /// Number of these that were read correctly, from another copy or repaired.
    pub unharmed: usize,
    /// Number of blobs whose bytes are not stored on the disk in their original form.
    pub not_found: usize,
    /// Description of the first blob returned wrong.
    pub first: Option<String>,
}

impl FlipResults {
    /// Returns the verdict on the declaration.
    pub fn verdict(&self) -> DeclarationVerdict {
        match self.declared {
            None => DeclarationVerdict::NothingPromised,
            Some(NoticedBy::Store) if self.handed_out > 0 => DeclarationVerdict::Refuted,
            // A declaration that nobody detects changes is too weak if every change is detected.
            Some(NoticedBy::Comparison) if self.handed_out > 0 => DeclarationVerdict::Confirmed,
            _ if at_most(self.noticed) > TOO_LITTLE => DeclarationVerdict::TooFew,
            Some(NoticedBy::Store) => DeclarationVerdict::Confirmed,
            Some(NoticedBy::Comparison) => DeclarationVerdict::Refuted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_kills_confirm_nothing_and_one_that_breaks_a_promise_refutes_it() {
        let kills = |declared, kills, broken| {
            let (under_way, lost_recent) = (0, 0);
            KillResults { declared, kills, under_way, broken, lost_recent, first: None, open_seconds: None }
                .verdict()
        };
        assert_eq!(kills(Loss::Nothing, 10, 0), DeclarationVerdict::TooFew);
        assert_eq!(kills(Loss::Nothing, 11, 0), DeclarationVerdict::Confirmed);
        assert_eq!(kills(Loss::RecentWrites, 3, 1), DeclarationVerdict::Refuted);
        assert_eq!(kills(Loss::All, 30, 30), DeclarationVerdict::NothingPromised);
    }

    #[test]
    fn who_checks_hands_out_nothing_and_who_does_not_does_so_once() {
        let flips = |declared, noticed, handed_out| {
            let (flips, unharmed, not_found) = (noticed + handed_out, 0, 0);
            FlipResults { declared, flips, noticed, handed_out, unharmed, not_found, first: None }.verdict()
        };
        let (store, nobody) = (Some(NoticedBy::Store), Some(NoticedBy::Comparison));
        assert_eq!(
            (flips(store, 12, 0), flips(store, 12, 1)),
            (DeclarationVerdict::Confirmed, DeclarationVerdict::Refuted)
        );
        assert_eq!(
            (flips(nobody, 12, 0), flips(nobody, 2, 1)),
            (DeclarationVerdict::Refuted, DeclarationVerdict::Confirmed)
        );
        assert_eq!(
            (flips(store, 3, 0), flips(None, 12, 0)),
            (DeclarationVerdict::TooFew, DeclarationVerdict::NothingPromised)
        );
    }
}
