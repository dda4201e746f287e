//! What a disk does wrong: requests that it answers with an error, and flushes that it only says are done. When that begins and ends,
//! its maker says.

use std::sync::atomic::Ordering;

use anyhow::Result;

use crate::host::fork::SharedWords;

/// What the disk does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// While its switch is on, it says that a flush is done, and does not note it.
    pub ignores_flushes: bool,
    /// While its switch is on, it answers requests with an error.
    pub fails: Option<Failure>,
    /// After so many writes since it was made it answers nothing any more.
    pub silent_after: Option<usize>,
}

/// Requests that are answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Of which sort.
    pub of: Asked,
    /// Which of these, counted from 1 since the switch was put on.
    pub nth: u64,
    /// All from that one on, not that one alone.
    pub for_ever: bool,
    /// The error.
    pub error: Answer,
}

/// What a disk is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// To give bytes.
    Read,
    /// To take bytes.
    Write,
    /// To have them on the medium.
    Flush,
}

/// An error of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// `EIO`.
    Broken,
    /// `ENOSPC`, as a disk says that promises more room than it has.
    Full,
}

/// Whether a disk does wrong now, and what it was asked since that began: seen by all processes that are forked from one.
#[derive(Debug)]
pub struct Switch {
    words: SharedWords,
}

/// Places in the words: the switch, how often each was asked, how many were refused, and the place in the log of the first of
/// these, plus one.
const ON: usize = 0;
const ASKED: usize = 1;
const FAILED: usize = 4;
const FAILED_AT: usize = 5;

impl Switch {
    pub(super) fn new() -> Result<Switch> {
        Ok(Switch { words: SharedWords::new(FAILED_AT + 1)? })
    }

    /// From now on the disk does wrong, and counts what it is asked from nothing.
    pub fn on(&self) {
        for word in self.words.get() {
            word.store(0, Ordering::SeqCst);
        }
        self.words.get()[ON].store(1, Ordering::SeqCst);
    }

    /// From now on it does all right again, and counts nothing.
    pub fn off(&self) {
        self.words.get()[ON].store(0, Ordering::SeqCst);
    }

    fn word(&self, place: usize) -> u64 {
        self.words.get()[place].load(Ordering::SeqCst)
    }

    /// How often it was asked that while the switch was on.
    pub fn asked(&self, what: Asked) -> u64 {
        self.word(ASKED + what as usize)
    }

    /// How many requests it answered with an error.
    pub fn failed(&self) -> u64 {
        self.word(FAILED)
    }

    /// How many entries its log had when it answered so first.
    pub fn failed_at(&self) -> Option<usize> {
        self.word(FAILED_AT).checked_sub(1).map(|at| at as usize)
    }

    pub(super) fn is_on(&self) -> bool {
        self.word(ON) == 1
    }

    /// Counts a request, and says whether it is answered with an error. The disk alone calls it, from one thread.
    pub(super) fn error(&self, faults: &Faults, asked: Asked, log_len: usize) -> Option<Answer> {
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
            let fails = Failure { of: Asked::Write, nth: 2, for_ever, error: Answer::Full };
            let faults = Faults { fails: Some(fails), ..Faults::default() };
            let switch = Switch::new().unwrap();
            assert_eq!(switch.error(&faults, Asked::Write, 0), None);
            switch.on();
            let asked = [Asked::Write, Asked::Flush, Asked::Flush, Asked::Write, Asked::Write];
            let failed = asked.map(|asked| switch.error(&faults, asked, 7).is_some());
            switch.off();
            assert_eq!(switch.error(&faults, Asked::Write, 9), None);
            assert_eq!((switch.asked(Asked::Write), switch.asked(Asked::Flush)), (3, 2));
            assert_eq!((switch.failed(), switch.failed_at()), (if for_ever { 2 } else { 1 }, Some(7)));
            failed
        };
        assert_eq!(failed(false), [false, false, false, true, false]);
        assert_eq!(failed(true), [false, false, false, true, true]);
    }
}
