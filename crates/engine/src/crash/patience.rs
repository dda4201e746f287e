//! Errors for a load or a look that exceeds its time limit.

use std::time::Duration;

use anyhow::Result;

use crate::host::disk::DiskFile;

/// Time after the limit at which the disk is aborted, because a process that waits for a disk cannot be killed.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// A load or look exceeded its limit; contains a description.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Stuck(String);

/// Turns a [`Stuck`] error into its description; other errors stay errors.
pub(super) fn stuck<T: Default>(outcome: Result<T>) -> Result<(T, Option<String>)> {
    match outcome {
        Err(error) if error.is::<Stuck>() => Ok((T::default(), Some(format!("{error:#}")))),
        other => other.map(|value| (value, None)),
    }
}

/// Replaces an outcome by [`Stuck`] if its disk was aborted.
pub(super) fn of_disk<T>(disk: &DiskFile, patience: Duration, outcome: Result<T>) -> Result<T> {
    if !disk.was_taken_away() {
        return outcome;
    }
    let seconds = patience.as_secs_f64();
    Err(Stuck(format!("the disk did not answer for {seconds} s, and was taken away")).into())
}

pub(super) fn of_store(patience: Duration) -> anyhow::Error {
    Stuck(format!("the store did not return for {} s, and was killed", patience.as_secs_f64())).into()
}
