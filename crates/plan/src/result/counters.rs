//! Counts of ops that failed, were retried or missed a cache; shared by workers, rounds and cells.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts of ops that did not complete normally. They are summed over workers, passes and rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// All failures: of ops, of syncs, and of connections that blobs were sent to.
    pub errors: u64,
    /// Ops that failed or timed out without an acknowledgement. Absent in results of earlier versions.
    #[serde(default, skip_serializing_if = "is_none")]
    pub failed_ops: u64,
    /// Acknowledged ops whose following sync failed. Absent in results of earlier versions.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unsynced_ops: u64,
    /// Attempts repeated because the store was busy or had closed the connection.
    pub retries: u64,
    /// Requests that a cache could not answer: the store behind it did, or the blob is gone.
    #[serde(default)]
    pub cache_misses: u64,
    /// Blobs that the store threw away to make room for others.
    #[serde(default, skip_serializing_if = "is_none")]
    pub evictions: u64,
    /// Ops that timed out.
    pub timeouts: u64,
    /// First error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
}

fn is_none(ops: &u64) -> bool {
    *ops == 0
}

impl Counters {
    /// Returns how many of the attempted ops were acknowledged.
    pub fn acknowledged(&self, attempted: u64) -> u64 {
        attempted.saturating_sub(self.failed_ops)
    }

    /// Returns how many of the attempted ops were done: acknowledged, and covered by a successful sync if the class
    /// requires one.
    pub fn done(&self, attempted: u64) -> u64 {
        self.acknowledged(attempted).saturating_sub(self.unsynced_ops)
    }

    /// Adds later counts; the first error is kept.
    pub fn add(&mut self, other: &Counters) {
        let Counters {
            errors,
            failed_ops,
            unsynced_ops,
            retries,
            cache_misses,
            evictions,
            timeouts,
            first_error,
        } = other;
        self.errors += errors;
        self.failed_ops += failed_ops;
        self.unsynced_ops += unsynced_ops;
        self.retries += retries;
        self.cache_misses += cache_misses;
        self.evictions += evictions;
        self.timeouts += timeouts;
        self.first_error = self.first_error.take().or_else(|| first_error.clone());
    }
}

impl<'a> FromIterator<&'a Counters> for Counters {
    fn from_iter<I: IntoIterator<Item = &'a Counters>>(all: I) -> Counters {
        all.into_iter().fold(Counters::default(), |mut sum, one| {
            sum.add(one);
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Counters;

    #[test]
    fn sums_are_of_all_and_the_first_failure_is_kept() {
        let one = Counters {
            errors: 1,
            failed_ops: 5,
            unsynced_ops: 6,
            retries: 2,
            cache_misses: 3,
            evictions: 7,
            timeouts: 4,
            first_error: None,
        };
        let first = Counters { first_error: Some("first".to_owned()), ..one.clone() };
        let later = Counters { first_error: Some("later".to_owned()), ..one.clone() };
        let sum: Counters = [&one, &first, &later].into_iter().collect();
        assert_eq!((sum.errors, sum.retries, sum.cache_misses, sum.timeouts), (3, 6, 9, 12));
        assert_eq!(sum.evictions, 21);
        assert_eq!((sum.acknowledged(100), sum.done(100)), (85, 67));
        assert_eq!(sum.first_error.as_deref(), Some("first"));
    }
}
