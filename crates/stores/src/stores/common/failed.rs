//! Remembers that a write or flush of a store failed.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::{Result, bail};

/// True if a write or a flush has failed since the store was opened. The kernel reports that once: a later flush succeeds
/// although the writes of earlier commits may be lost.
#[derive(Debug, Default)]
pub(in crate::stores) struct HasFailed(AtomicBool);

impl HasFailed {
    pub(in crate::stores) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns the outcome of a write or flush, and notes a failure.
    pub(in crate::stores) fn noting<T, E>(
        &self,
        outcome: std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if outcome.is_err() {
            self.note();
        }
        outcome
    }

    /// Returns an error if an earlier write or flush failed.
    pub(in crate::stores) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            let why = "an earlier write failed, and what else it lost is not known: reopen the store";
            bail!(why);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_one_that_failed_nothing_is_kept_any_more() {
        let has_failed = HasFailed::default();
        assert_eq!(has_failed.noting(Ok::<_, ()>(7)), Ok(7));
        assert!(has_failed.check().is_ok());
        assert_eq!(has_failed.noting(Err::<(), _>("no")), Err("no"));
        assert_eq!(has_failed.noting(Ok::<_, ()>(7)), Ok(7));
        assert!(has_failed.check().is_err());
    }
}
