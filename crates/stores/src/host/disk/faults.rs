//! Fault injection of a simulated disk: failing requests and ignored flushes. The process that made the disk switches the faults
//! on and off.

use std::sync::atomic::Ordering;

use anyhow::Result;

use crate::host::fork::SharedWords;

/// Faults of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// While the switch is on, flushes are acknowledged and not logged.
    pub ignores_flushes: bool,
    /// Requests that fail while the switch is on.
    pub fails: Option<Failure>,
    /// Number of writes since the disk was made after which it no longer answers.
    pub silent_after: Option<usize>,
}

/// Requests that are answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind of request.
    pub of: RequestKind,
    /// Number of the failing request, counted from 1 since the switch was put on.
    pub nth: u64,
    /// True if all later requests fail as well.
    pub for_ever: bool,
    /// The error.
    pub error: DiskError,
}

/// Kind of request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush to the medium.
    Flush,
}

/// Error of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskError {
    /// `EIO`.
    Broken,
    /// `ENOSPC`, as a thinly provisioned disk answers when it runs out of space.
    Full,
}

/// Switch for the faults of a disk, with counts of the requests since it was put on. Shared by all processes forked from one.
#[derive(Debug)]
pub struct Switch {
    words: SharedWords,
}

/// Indexes of the words: the switch; requests by kind; failed requests; and the length of the log at the first failure, plus one.
const ON: usize = 0;
const ASKED: usize = 1;
const FAILED: usize = 4;
const FAILED_AT: usize = 5;

impl Switch {
    pub(super) fn new() -> Result<Switch> {
        Ok(Switch { words: SharedWords::new(FAILED_AT + 1)? })
    }

    /// Starts the faults and resets the counts.
    pub fn enable(&self) {
        for word in self.words.get() {
            word.store(0, Ordering::SeqCst);
        }
        self.words.get()[ON].store(1, Ordering::SeqCst);
    }

    /// Ends the faults and the counting.
    pub fn disable(&self) {
        self.words.get()[ON].store(0, Ordering::SeqCst);
    }

    fn word(&self, place: usize) -> u64 {
        self.words.get()[place].load(Ordering::SeqCst)
    }

    /// Number of requests of a kind while the switch was on.
    pub fn asked(&self, what: RequestKind) -> u64 {
        self.word(ASKED + what as usize)
    }

    /// Number of requests that were answered with an error.
    pub fn failed(&self) -> u64 {
        self.word(FAILED)
    }

    /// Length of the log at the first error; `None` without an error.
    pub fn failed_at(&self) -> Option<usize> {
        self.word(FAILED_AT).checked_sub(1).map(|at| at as usize)
    }

    pub(super) fn is_on(&self) -> bool {
        self.word(ON) == 1
    }

    /// Counts a request and returns the error that it fails with, if any. Called by the disk's process only, from one thread.
    pub(super) fn error(&self, faults: &Faults, asked: RequestKind, log_len: usize) -> Option<DiskError> {
        if !self.is_on() {
            return None;
        }
        let number = self.words.get()[ASKED + asked as usize].fetch_add(1, Ordering::SeqCst) + 1;
        let failure = faults.fails.filter(|failure| failure.of == asked)?;
        let is_meant = number == failure.nth || failure.for_ever && number > failure.nth;
        if is_meant && self.words.get()[FAILED].fetch_add(1, Ordering::SeqCst) == 0 {
            self.words.get()[FAILED_AT].store(log_len as u64 + 1, Ordering::SeqCst);
        }
        is_meant.then_some(failure.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_fails_once_or_from_there_on_and_only_while_the_switch_is_on() {
        let failed = |for_ever: bool| {
            let fails = Failure { of: RequestKind::Write, nth: 2, for_ever, error: DiskError::Full };
            let faults = Faults { fails: Some(fails), ..Faults::default() };
            let switch = Switch::new().unwrap();
            assert_eq!(switch.error(&faults, RequestKind::Write, 0), None);
            switch.enable();
            let asked = [
                RequestKind::Write,
                RequestKind::Flush,
                RequestKind::Flush,
                RequestKind::Write,
                RequestKind::Write,
            ];
            let failed = asked.map(|asked| switch.error(&faults, asked, 7).is_some());
            switch.disable();
            assert_eq!(switch.error(&faults, RequestKind::Write, 9), None);
            assert_eq!((switch.asked(RequestKind::Write), switch.asked(RequestKind::Flush)), (3, 2));
            assert_eq!((switch.failed(), switch.failed_at()), (if for_ever { 2 } else { 1 }, Some(7)));
            failed
        };
        assert_eq!(failed(false), [false, false, false, true, false]);
        assert_eq!(failed(true), [false, false, false, true, true]);
    }
}
