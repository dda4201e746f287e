//! Progress of a growing store, and what ends its growth.

use std::path::Path;
use std::time::Duration;

use super::super::workers::tally::Tally;
use super::CandidateRun;
use crate::host::machine;
use crate::plan::Phase;
use crate::redact;
use crate::result::Counters;
use crate::store::{Error, describe_error_below};
use crate::units;

#[derive(Debug, Default)]
pub(in crate::engine) struct Growth {
    /// Number of blobs that the last complete step put, by id from 0.
    pub(in crate::engine) blobs: u64,
    begun: Duration,
    ended: Option<String>,
}

impl CandidateRun<'_> {
    /// Number of blobs of the corpus, by id from 0, that may be in the store.
    pub(in crate::engine) fn reach(&self) -> usize {
        let all = self.subject.corpus.blobs() as usize;
        if self.plan().text.grow.is_some() { all.min(self.growth.blobs as usize) } else { all }
    }

    /// Returns why a phase of a growth is left out; `None` if it is done. A step begins only if the budget has time for all of it.
    pub(in crate::engine) fn growth_ended(&mut self, phase: &Phase) -> Option<String> {
        let blobs = phase.grown_to?;
        if phase.fills_a_step() && self.growth.ended.is_none() {
            let now = machine::uptime();
            let took = now.saturating_sub(self.growth.begun);
            let step = (self.growth.blobs > 0).then(|| next_step(took, self.growth.blobs, blobs));
            if let (Some(step), Some(until)) = (step, self.slot.grows_until)
                && now + step > until
            {
                self.growth.ended = Some(format!(
                    "the budget ended its growth at {}: the step to {blobs} would take about {}, and {} are left for it; give it a \
                     longer --budget",
                    units::counted(self.growth.blobs, "blob"),
                    units::seconds(step.as_secs_f64()),
                    units::seconds(until.saturating_sub(now).as_secs_f64())
                ));
            }
            self.growth.begun = now;
        }
        self.growth.ended.clone()
    }

    /// Ends the growth if puts of a step failed, such as on a full disk or map, and returns why. The blobs of earlier steps are
    /// still compared.
    pub(in crate::engine) fn growth_failure(&mut self, phase: &Phase, tally: &Tally) -> Option<String> {
        let why = failure(self.growth.blobs, tally.ops, &tally.counters).filter(|_| phase.fills_a_step())?;
        self.growth.ended = Some(why.clone());
        Some(why)
    }

    /// Ends the growth if a step failed beside its puts, such as when what they left to do found the disk full, and returns why.
    /// The blobs of earlier steps are still compared.
    pub(in crate::engine) fn growth_breaks(
        &mut self,
        phase: &Phase,
        error: &anyhow::Error,
    ) -> Option<String> {
        let grows_on = phase.fills_a_step() && self.open.is_some();
        let why = broken(self.growth.blobs, error, self.place()).filter(|_| grows_on)?;
        self.growth.ended = Some(why.clone());
        Some(why)
    }
}

/// Returns why a growth ended in a step that attempted this many puts after `before` blobs; `None` if none failed, or if that is
/// no limit of a growing store: in the first step, or because the server did not answer.
fn failure(before: u64, puts: u64, counters: &Counters) -> Option<String> {
    let reached = units::counted(before + counters.acknowledged(puts), "blob");
    let first = counters.first_error.as_deref().unwrap_or("no reason was reported");
    let is_limit = counters.errors > 0 && counters.timeouts == 0 && before > 0;
    is_limit.then(|| format!("its growth ended at {reached}: {first}"))
}

/// Returns why a growth ended after `before` blobs with an error while writing below `dir`; `None` in the first step, or if the
/// server did not answer.
fn broken(before: u64, error: &anyhow::Error, dir: &Path) -> Option<String> {
    let error_of_store = error.downcast_ref::<Error>();
    let is_gone = matches!(error_of_store, Some(Error::Busy | Error::TimedOut | Error::Unavailable(_)));
    let reached = units::counted(before, "blob");
    (before > 0 && !is_gone).then(|| {
        format!("its growth ended at {reached}: {}", redact::of_error(&describe_error_below(error, dir)))
    })
}

/// Estimates the duration of a step from that of the one before it: filling, warming up and comparing take time in proportion to
/// the blobs.
fn next_step(took: Duration, before: u64, blobs: u64) -> Duration {
    took.mul_f64(blobs as f64 / before.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_put_ends_a_growth_at_the_blobs_that_were_put() {
        let first_error = Some("No space left on device".to_owned());
        let failed = Counters { errors: 3, failed_ops: 3, first_error, ..Counters::default() };
        let why = failure(1_000, 10, &failed);
        assert_eq!(why.as_deref(), Some("its growth ended at 1007 blobs: No space left on device"));
        assert_eq!(failure(0, 10, &failed), None);
        assert_eq!(failure(1_000, 10, &Counters { timeouts: 1, ..failed }), None);
        assert_eq!(failure(1_000, 10, &Counters::default()), None);
    }

    #[test]
    fn a_full_disk_ends_a_growth_and_a_server_that_is_gone_does_not() {
        let full = || anyhow::Error::new(std::io::Error::from_raw_os_error(28)).context("settling failed");
        let why = broken(1_000, &full(), Path::new(".")).unwrap();
        assert!(why.starts_with("its growth ended at 1000 blobs: settling failed: No space left"), "{why}");
        assert_eq!(broken(0, &full(), Path::new(".")), None);
        let gone = anyhow::Error::new(Error::TimedOut).context("settling failed");
        assert_eq!(broken(1_000, &gone, Path::new(".")), None);
    }
}
