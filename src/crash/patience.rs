//! What is said of a load or a look that does not end in its time.

use std::time::Duration;

use anyhow::Result;

use crate::host::disk::DiskFile;

/// Whoever waits for a disk cannot be killed: so long after its time the disk is taken away.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// The load or a look did not end in its time: what it was, in words.
#[derive(Debug)]
struct Stuck(String);

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Stuck {}

/// What came of something, and what was stuck where that is what it says; any other error stays one.
pub(super) fn stuck<T: Default>(outcome: Result<T>) -> Result<(T, Option<String>)> {
    match outcome {
        Err(error) if error.is::<Stuck>() => Ok((T::default(), Some(format!("{error:#}")))),
        other => other.map(|value| (value, None)),
    }
}

/// What is wrong where a disk was taken away, whatever it made fail.
pub(super) fn of_disk<T>(disk: &DiskFile, patience: Duration, outcome: Result<T>) -> Result<T> {
    if !disk.was_taken_away() {
        return outcome;
    }
    let seconds = patience.as_secs_f64();
    Err(Stuck(format!("the disk did not answer for {seconds} s, and was taken away")).into())
}

/// What is said of a store that did not return from a load.
pub(super) fn of_store(patience: Duration) -> anyhow::Error {
    Stuck(format!("the store did not return for {} s, and was killed", patience.as_secs_f64())).into()
}
