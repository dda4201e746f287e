//! What is shown beside power cuts: what came of kills, of errors of the device, of flushes that were ignored, and of flipped bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::disk::{Answer, Asked};
use crate::store::{Loss, NoticedBy};

/// What came of everything but cuts, of a store in a class. What was not asked for is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Besides {
    /// Of kills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kills: Option<Kills>,
    /// Of errors of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
    /// Of cuts on a disk that says of flushes that they are done, and does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes_ignored: Option<FlushesIgnored>,
    /// Of flipped bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flips: Option<Flips>,
    /// Why one of them could not be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

impl Besides {
    /// Whether something that is promised or declared was refuted.
    pub fn is_refuted(&self) -> bool {
        let kills = self.kills.as_ref().is_some_and(|kills| kills.verdict() == Told::Refuted);
        let errors = self.errors.as_ref().is_some_and(|errors| errors.cases.iter().any(|case| case.breaks));
        let flips = self.flips.as_ref().is_some_and(|flips| flips.verdict() == Told::Refuted);
        kills || errors || flips || !self.failed.is_empty()
    }
}

/// What is said of what is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// It held each time.
    Confirmed,
    /// It did not hold.
    Refuted,
    /// Nothing is declared that could be refuted.
    NothingPromised,
    /// It held, so few times that this says little.
    TooFew,
}

impl Told {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Told::Confirmed => "confirmed",
            Told::Refuted => "refuted",
            Told::NothingPromised => "nothing promised",
            Told::TooFew => "too few",
        }
    }
}

/// Where it may be otherwise in more than this share of all for all that is known, it is not called confirmed.
const TOO_LITTLE: f64 = 0.25;

/// Above what share it would have been seen with 95 % certainty, where it was in none of these: by the exact binomial bound.
pub fn at_most(tried: usize) -> f64 {
    1.0 - 0.05_f64.powf(1.0 / tried.max(1) as f64)
}

/// What came of kills.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kills {
    /// What the adapter declares that a kill takes.
    pub declared: Loss,
    /// Kills that were done.
    pub kills: usize,
    /// Those that came while an op or a sync was under way.
    pub under_way: usize,
    /// Those that took what is promised.
    pub broken: usize,
    /// Those that took acknowledged writes which are not promised.
    pub lost_recent: usize,
    /// The first thing that was wrong, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// How long opening took, to the first read, in seconds: in the middle and at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_seconds: Option<(f64, f64)>,
}

impl Kills {
    /// What they say of the declared loss.
    pub fn verdict(&self) -> Told {
        match self.declared {
            Loss::StoreUnusable | Loss::All | Loss::NotKnown => Told::NothingPromised,
            _ if self.broken > 0 => Told::Refuted,
            _ if at_most(self.kills) > TOO_LITTLE => Told::TooFew,
            _ => Told::Confirmed,
        }
    }
}

/// A kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorKind {
    /// What fails.
    pub of: Asked,
    /// With which error.
    pub error: Answer,
    /// Whether all that follows fails too.
    pub for_ever: bool,
}

impl ErrorKind {
    /// All that are tried. A read finds no room missing, and the kernel's loop device makes one error of all errors of a flush.
    pub const ALL: [ErrorKind; 8] = [
        ErrorKind { of: Asked::Write, error: Answer::Broken, for_ever: false },
        ErrorKind { of: Asked::Write, error: Answer::Broken, for_ever: true },
        ErrorKind { of: Asked::Write, error: Answer::Full, for_ever: false },
        ErrorKind { of: Asked::Write, error: Answer::Full, for_ever: true },
        ErrorKind { of: Asked::Flush, error: Answer::Broken, for_ever: false },
        ErrorKind { of: Asked::Flush, error: Answer::Broken, for_ever: true },
        ErrorKind { of: Asked::Read, error: Answer::Broken, for_ever: false },
        ErrorKind { of: Asked::Read, error: Answer::Broken, for_ever: true },
    ];

    /// In words.
    pub fn words(self) -> String {
        let of = match self.of {
            Asked::Read => "read",
            Asked::Write => "write",
            Asked::Flush => "flush",
        };
        let error = match self.error {
            Answer::Broken => "EIO",
            Answer::Full => "ENOSPC",
        };
        format!("{of}, {error}, {}", if self.for_ever { "for ever" } else { "once" })
    }
}

/// What came of errors of the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// One for each kind and place.
    pub cases: Vec<ErrorCase>,
}

/// What came of one error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCase {
    /// Its kind.
    #[serde(flatten)]
    pub kind: ErrorKind,
    /// Which request of its sort was the first that failed.
    pub nth: u64,
    /// How many of that sort there are where none fails.
    pub of_all: u64,
    /// How many were answered with an error.
    pub failed_requests: u64,
    /// What the store made of it.
    pub outcome: Outcome,
    /// Whether that breaks what its class promises.
    pub breaks: bool,
    /// Ops, syncs and closings that returned an error.
    pub failed_ops: u64,
    /// Ops that were acknowledged after the first of these.
    pub went_on: u64,
    /// What the file system made of it.
    pub file_system: FileSystem,
    /// The first error that the store returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// What is wrong, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
}

/// What a store made of an error, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The error never came.
    NotReached,
    /// The file system could not be mounted again: that says nothing of the store.
    NoFileSystem,
    /// Another program was told, which had asked for all to be written, and nothing was lost: that says nothing of the store.
    ToldAnother,
    /// It did not say anything, and nothing was lost.
    NothingLost,
    /// It returned an error, and what it acknowledged is there.
    Said,
    /// Its process ended, and what it acknowledged is there.
    Stopped,
    /// It did not come back from a call.
    Hung,
    /// On a disk that is right again, it does not open.
    Unusable,
    /// It acknowledged what is not there, or handed out what is wrong.
    Lied,
}

/// What a file system made of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileSystem {
    /// It went on.
    WentOn,
    /// It can be read only.
    ReadOnly,
    /// It answers nothing any more.
    ShutDown,
}

/// What came of cuts on a disk that ignores flushes. No store can promise anything on such a disk: there is no verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlushesIgnored {
    /// Cuts.
    pub cuts: usize,
    /// Those that took what the class promises on an honest disk.
    pub broken: usize,
    /// Those after which the store did not open.
    pub unusable: usize,
    /// Those after which there was no file system.
    pub unmountable: usize,
}

/// What came of flipped bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flips {
    /// Who notices it, as declared; absent where nothing is declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<NoticedBy>,
    /// Blobs of which a byte was flipped on the disk.
    pub flips: usize,
    /// Those that were an error of the read or of opening.
    pub noticed: usize,
    /// Those that were handed out wrong, or as missing, without an error.
    pub handed_out: usize,
    /// Those that were read right: from elsewhere, or mended.
    pub unharmed: usize,
    /// Blobs whose bytes lie nowhere on the disk as they were put.
    pub not_found: usize,
    /// The first one that was handed out, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
}

impl Flips {
    /// What they say of what is declared.
    pub fn verdict(&self) -> Told {
        match self.declared {
            None => Told::NothingPromised,
            Some(NoticedBy::Store) if self.handed_out > 0 => Told::Refuted,
            // Who says that nobody notices says too little if somebody does, each time.
            Some(NoticedBy::Comparison) if self.handed_out > 0 => Told::Confirmed,
            _ if at_most(self.noticed) > TOO_LITTLE => Told::TooFew,
            Some(NoticedBy::Store) => Told::Confirmed,
            Some(NoticedBy::Comparison) => Told::Refuted,
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
            Kills { declared, kills, under_way, broken, lost_recent, first: None, open_seconds: None }
                .verdict()
        };
        assert_eq!(kills(Loss::Nothing, 10, 0), Told::TooFew);
        assert_eq!(kills(Loss::Nothing, 11, 0), Told::Confirmed);
        assert_eq!(kills(Loss::RecentWrites, 3, 1), Told::Refuted);
        assert_eq!(kills(Loss::All, 30, 30), Told::NothingPromised);
    }

    #[test]
    fn who_checks_hands_out_nothing_and_who_does_not_does_so_once() {
        let flips = |declared, noticed, handed_out| {
            let (flips, unharmed, not_found) = (noticed + handed_out, 0, 0);
            Flips { declared, flips, noticed, handed_out, unharmed, not_found, first: None }.verdict()
        };
        let (store, nobody) = (Some(NoticedBy::Store), Some(NoticedBy::Comparison));
        assert_eq!((flips(store, 12, 0), flips(store, 12, 1)), (Told::Confirmed, Told::Refuted));
        assert_eq!((flips(nobody, 12, 0), flips(nobody, 2, 1)), (Told::Refuted, Told::Confirmed));
        assert_eq!((flips(store, 3, 0), flips(None, 12, 0)), (Told::TooFew, Told::NothingPromised));
    }
}
