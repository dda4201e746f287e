//! The file system's own check after a cut. Errors that it finds are never a store's fault.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::host::server::Program;
use crate::result::checked::FileSystemCheck;

/// A program that checks an unmounted file system without changing it.
#[derive(Debug)]
pub(super) struct Checker {
    pub(super) program: Program,
    /// Arguments besides the device.
    pub(super) words: &'static [&'static str],
    /// Exit code for a damaged file system. 0 means intact; any other code means that the check failed.
    pub(super) wrong: i32,
}

/// Most cuts to check: a check takes as long as a cut.
const CHECKED_MOST: usize = 24;

pub(super) fn is_due(number: usize, of: usize) -> bool {
    number.is_multiple_of(of.div_ceil(CHECKED_MOST).max(1))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckOutcome {
    Right,
    Wrong(String),
    /// The check failed, or there is no such program.
    Nothing(String),
}

impl Checker {
    pub(super) fn check(&self, device: &Path) -> CheckOutcome {
        let found = match self.program.find() {
            Ok(found) => found,
            Err(error) => return CheckOutcome::Nothing(format!("{error:#}")),
        };
        let mut command = Command::new(found.path);
        let ended = command.args(self.words).arg(device).stdin(Stdio::null()).output();
        let said = |output: &std::process::Output| {
            let all = [&output.stdout[..], &output.stderr[..]].concat();
            let text = String::from_utf8_lossy(&all).into_owned();
            text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
        };
        match ended {
            Err(error) => CheckOutcome::Nothing(error.to_string()),
            Ok(output) if output.status.success() => CheckOutcome::Right,
            Ok(output) if output.status.code() == Some(self.wrong) => CheckOutcome::Wrong(said(&output)),
            Ok(output) => CheckOutcome::Nothing(format!("{}, {}", output.status, said(&output))),
        }
    }

    pub(super) fn add(&self, said: CheckOutcome, sum: &mut FileSystemCheck) {
        sum.by = format!("{} {}", self.program.name, self.words.join(" "));
        match said {
            CheckOutcome::Right => sum.cuts += 1,
            CheckOutcome::Wrong(first) => {
                sum.cuts += 1;
                sum.wrong += 1;
                sum.first.get_or_insert(first);
            }
            CheckOutcome::Nothing(why) => {
                sum.not_checked.get_or_insert(why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_spread_over_all_cuts_and_are_not_more_than_said() {
        for of in 1..500 {
            let due = (0..of).filter(|number| is_due(*number, of)).count();
            assert!(due <= CHECKED_MOST && (due >= CHECKED_MOST / 2 || due == of), "{due} of {of}");
        }
    }
}
