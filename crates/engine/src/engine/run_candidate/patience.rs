//! Runs work under a time limit.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::host::machine;

/// Interval between two checks of the time limit.
const LOOK: Duration = Duration::from_millis(50);

/// Runs `work`, which must end soon after the flag that it receives is set. The flag is set when the run is stopped, at the
/// moment `until`, or when `patience` has passed since `work` first called its second argument: anything before that call, such
/// as starting a server, does not count.
pub(super) fn within<T>(
    patience: Option<Duration>,
    until: Option<Duration>,
    stop: &AtomicBool,
    work: impl FnOnce(&AtomicBool, &dyn Fn()) -> T,
) -> T {
    let (stop_there, begun, is_over) = (AtomicBool::new(false), OnceLock::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let limit = patience.zip(begun.get()).map(|(patience, begun)| *begun + patience);
                let is_late = limit.into_iter().chain(until).any(|end| machine::uptime() > end);
                stop_there.fetch_or(is_late || stop.load(Ordering::Relaxed), Ordering::Relaxed);
                std::thread::sleep(LOOK);
            }
        });
        let begins = || {
            begun.get_or_init(machine::uptime);
        };
        let _over = SetOnDrop(&is_over);
        work(&stop_there, &begins)
    })
}

/// Sets a flag when dropped, even by a panic in the work. Otherwise the thread that watches the time would never end.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    /// How long work lasts that is told to stop, at most, and that is not.
    const TOLD: Duration = LONG;
    const NOT_TOLD: Duration = LOOK.saturating_mul(10);

    /// Returns whether work that lasts so long was told to stop. It begins at once, or never if not `begins`.
    fn is_stopped(
        lasts: Duration,
        (patience, until): (Option<Duration>, Option<Duration>),
        stop: bool,
        begins: bool,
    ) -> bool {
        within(patience, until, &AtomicBool::new(stop), |stop, begin| {
            if begins {
                begin();
            }
            let end = machine::uptime() + lasts;
            while !stop.load(Ordering::Relaxed) && machine::uptime() < end {
                std::thread::sleep(LOOK);
            }
            stop.load(Ordering::Relaxed)
        })
    }

    #[test]
    fn what_takes_too_long_since_it_began_or_is_stopped_is_told() {
        let (short, long) = ((Some(LOOK), None), (Some(LONG), None));
        assert!(is_stopped(TOLD, short, false, true));
        assert!(is_stopped(TOLD, long, true, true));
        assert!(is_stopped(TOLD, long, true, false));
        assert!(!is_stopped(NOT_TOLD, long, false, true));
        assert!(!is_stopped(NOT_TOLD, short, false, false));
    }

    #[test]
    fn what_is_not_done_by_a_moment_is_told_before_it_begins_too() {
        let after = |moment: Duration| Some(machine::uptime() + moment);
        assert!(is_stopped(TOLD, (None, after(LOOK)), false, false));
        assert!(is_stopped(TOLD, (Some(LONG * 2), after(LOOK)), false, true));
        assert!(!is_stopped(NOT_TOLD, (None, after(LONG)), false, true));
    }
}
