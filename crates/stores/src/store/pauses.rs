//! Retry pauses for a server that is temporarily unavailable: exponential, jittered and bounded.

use std::time::Duration;

use super::{Error, Result};
use crate::host::place::fresh_seed;

/// The pauses of one request, or of several in a row that all fail.
#[derive(Clone, Debug)]
pub struct Backoff {
    attempts: u32,
    left: Duration,
}

impl Backoff {
    /// Upper bound of the first pause; it doubles with each attempt.
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);

    /// Pauses whose sum is at most `patience`.
    pub fn within(patience: Duration) -> Backoff {
        Backoff { attempts: 1, left: patience }
    }

    /// Attempts so far, the first one included.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the pause before the next attempt: what the server asks for, or twice as long as before. Jitter spreads clients
    /// that were turned away together. `None` means to give up.
    pub fn next(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let random = (fresh_seed() >> 11) as f64 / (1_u64 << 53) as f64;
        let pause = match asked {
            Some(asked) => asked + Backoff::FIRST.mul_f64(random),
            None => {
                let longest = Backoff::FIRST.saturating_mul(2_u32.saturating_pow(self.attempts - 1));
                longest.min(Backoff::LONGEST).mul_f64(0.5 + 0.5 * random)
            }
        };
        self.left = self.left.checked_sub(pause)?;
        self.attempts += 1;
        Some(pause)
    }
}

/// Repeats an untimed call with pauses while the store is busy.
pub fn while_busy<T>(patience: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut pauses = Backoff::within(patience);
    loop {
        match attempt() {
            Err(Error::Busy) => match pauses.next(None) {
                Some(pause) => std::thread::sleep(pause),
                None => return Err(Error::Busy),
            },
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn pauses_grow_and_end() {
        let mut pauses = Backoff::within(MINUTE);
        let all: Vec<Duration> = std::iter::from_fn(|| pauses.next(None)).collect();
        assert_eq!(pauses.attempts() as usize, all.len() + 1);
        let together: Duration = all.iter().sum();
        assert!(together <= MINUTE && together > MINUTE - Backoff::LONGEST, "{together:?}");
        let mut longest = Backoff::FIRST;
        for pause in &all {
            assert!((longest / 2..=longest).contains(pause), "{all:?}");
            longest = (2 * longest).min(Backoff::LONGEST);
        }
    }

    #[test]
    fn a_server_is_waited_for_as_long_as_it_asks_and_there_is_time() {
        let mut pauses = Backoff::within(MINUTE);
        let asked = Duration::from_secs(25);
        for _ in 0..2 {
            let pause = pauses.next(Some(asked)).unwrap();
            assert!((asked..=asked + Backoff::FIRST).contains(&pause), "{pause:?}");
        }
        assert_eq!(pauses.next(Some(asked)), None);
        assert_eq!(pauses.attempts(), 3);
    }

    #[test]
    fn only_a_busy_store_is_asked_again() {
        let mut attempts = 0;
        let done = while_busy(MINUTE, || {
            attempts += 1;
            if attempts < 3 { Err(Error::Busy) } else { Ok(attempts) }
        });
        assert_eq!(done.unwrap(), 3);
        assert!(matches!(while_busy(Duration::ZERO, || Err::<(), _>(Error::Busy)), Err(Error::Busy)));
        let mut attempts = 0;
        let failed: Result<()> = while_busy(MINUTE, || {
            attempts += 1;
            Err(Error::TimedOut)
        });
        assert!(failed.is_err() && attempts == 1);
    }
}
