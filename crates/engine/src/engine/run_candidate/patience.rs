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

    /// Returns whether work of half a second was told to stop. It begins at once, or never if not `begins`.
    fn is_stopped(patience: Option<Duration>, until: Option<Duration>, stop: bool, begins: bool) -> bool {
        within(patience, until, &AtomicBool::new(stop), |stop, begin| {
            if begins {
                begin();
            }
            std::thread::sleep(LOOK * 10);
            stop.load(Ordering::Relaxed)
        })
    }

    #[test]
    fn what_takes_too_long_since_it_began_or_is_stopped_is_told() {
        let (short, long) = (Some(LOOK), Some(Duration::from_secs(60)));
        assert!(is_stopped(short, None, false, true));
        assert!(is_stopped(long, None, true, true));
        assert!(is_stopped(long, None, true, false));
        assert!(!is_stopped(long, None, false, true));
        assert!(!is_stopped(short, None, false, false));
    }

    #[test]
    fn what_is_not_done_by_a_moment_is_told_before_it_begins_too() {
        let soon = || Some(machine::uptime() + LOOK);
        assert!(is_stopped(None, soon(), false, false));
        assert!(is_stopped(Some(Duration::from_secs(60)), soon(), false, true));
        assert!(!is_stopped(None, Some(machine::uptime() + Duration::from_secs(60)), false, true));
    }
}
