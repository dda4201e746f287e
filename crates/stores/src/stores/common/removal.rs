//! Removes what a run made in the user's server. A failed removal does not stop the others, and is reported.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::anyhow;

use crate::store::{Backoff, Error, Result};
use crate::units;
#[cfg(feature = "wire")]
use crate::wire::buffer::ConnectionClosed;
#[cfg(feature = "redis")]
use crate::wire::redis::RedisError;

/// How long a removal is retried while the server is busy or unreachable, as pauses between attempts.
pub(in crate::stores) const PATIENCE: Duration = Duration::from_secs(30);
/// The most attempts that may time out: each waited for the server already.
const TIMEOUTS_MAX: u32 = 3;
/// The most names and commands listed in an error.
const SHOWN_MAX: usize = 20;

/// Removes each item, and returns those that could not be removed, with the reasons. Continues after a failure; while the server
/// is busy or unreachable, retries with growing pauses of at most `patience` in total.
pub(in crate::stores) fn remove_each<T>(
    items: impl IntoIterator<Item = T>,
    patience: Duration,
    mut remove: impl FnMut(&T) -> Result<()>,
) -> Vec<(T, Error)> {
    /// After this many consecutive items for which the server did not answer, the rest is not tried: each would take as long.
    const GIVEN_UP_MAX: u32 = 2;
    let (mut left, mut given_up) = (Vec::new(), 0);
    for item in items {
        if given_up == GIVEN_UP_MAX {
            left.push((
                item,
                Error::Unavailable(anyhow!("not tried, because the server answered none of those before")),
            ));
            continue;
        }
        let (mut pauses, mut paused, mut timeouts) = (Backoff::within(patience), Duration::ZERO, 0);
        let outcome = loop {
            let outcome = remove(&item);
            timeouts += u32::from(matches!(outcome, Err(Error::TimedOut)));
            let again = outcome.as_ref().is_err_and(may_pass) && timeouts < TIMEOUTS_MAX;
            match again.then(|| pauses.next(None)).flatten() {
                Some(pause) => {
                    std::thread::sleep(pause);
                    paused += pause;
                }
                None => break outcome,
            }
        };
        let is_gone = |error: &Error| matches!(error, Error::Unavailable(_)) || may_pass(error);
        given_up = if outcome.as_ref().is_err_and(is_gone) { given_up + 1 } else { 0 };
        let outcome = outcome.map_err(|why| match pauses.attempts() {
            1 => why,
            attempts => Error::Unavailable(anyhow!(
                "{why:#}, after {attempts} attempts with {} of pauses",
                units::seconds(paused.as_secs_f64())
            )),
        });
        left.extend(outcome.err().map(|why| (item, why)));
    }
    left
}

/// True if a retry may succeed: the server was busy, or is restarting.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Busy | Error::TimedOut => true,
        Error::Unsupported(_) | Error::Unavailable(_) => false,
        Error::Failed(error) => error.chain().any(is_of_a_restart),
    }
}

/// True if the connection was lost, or the server says that it has just been started.
fn is_of_a_restart(error: &(dyn std::error::Error + 'static)) -> bool {
    #[cfg(feature = "wire")]
    if error.is::<ConnectionClosed>() {
        return true;
    }
    #[cfg(feature = "redis")]
    if error.downcast_ref().is_some_and(RedisError::may_pass) {
        return true;
    }
    error.downcast_ref::<std::io::Error>().is_some_and(|error| {
        matches!(
            error.kind(),
            ErrorKind::BrokenPipe
                | ErrorKind::ConnectionAborted
                | ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::UnexpectedEof
        )
    })
}

/// An error with what is left, why, and the command that removes it; `Ok` if nothing is left.
pub(in crate::stores) fn none_left<T: std::fmt::Display>(
    left: &[(T, Error)],
    by_hand: impl FnOnce(&[&T]) -> String,
) -> Result<()> {
    if left.is_empty() {
        return Ok(());
    }
    let shown = &left[..left.len().min(SHOWN_MAX)];
    let mut words = Vec::new();
    for (place, (item, why)) in shown.iter().enumerate() {
        let why = why.to_string();
        // A reason shared by consecutive items follows the last of them.
        let is_last = shown.get(place + 1).is_none_or(|(_, next)| next.to_string() != why);
        words.push(if is_last { format!("`{item}` ({why})") } else { format!("`{item}`") });
    }
    if left.len() > shown.len() {
        words.push(format!("and {} more", left.len() - shown.len()));
    }
    let by_hand = by_hand(&shown.iter().map(|(item, _)| item).collect::<Vec<_>>());
    let stays = if left.len() == 1 { "it stays" } else { "they stay" };
    Err(Error::Failed(anyhow!(
        "could not remove {}; {stays} on the server until you run `{by_hand}`",
        words.join(", ")
    )))
}

/// Removes each named item, and reports what is left with a command for each.
pub(in crate::stores) fn remove_all(
    names: Vec<String>,
    patience: Duration,
    mut remove: impl FnMut(&str) -> Result<()>,
    by_hand: impl Fn(&str) -> String,
) -> Result<()> {
    let left = remove_each(names, patience, |name| remove(name));
    none_left(&left, |names| names.iter().map(|name| by_hand(name)).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn io(kind: ErrorKind) -> Error {
        Error::from(std::io::Error::from(kind))
    }

    #[test]
    fn one_that_fails_keeps_nothing_else() {
        let mut asked = Vec::new();
        let outcome = remove_all(
            names(&["a", "b", "c", "d"]),
            SECOND,
            |name| {
                asked.push(name.to_owned());
                if ["b", "c"].contains(&name) { Err(Error::Failed(anyhow!("no right"))) } else { Ok(()) }
            },
            |name| format!("DROP {name}"),
        );
        assert_eq!(asked, ["a", "b", "c", "d"]);
        assert_eq!(
            outcome.unwrap_err().to_string(),
            "could not remove `b`, `c` (no right); they stay on the server until you run `DROP b; DROP c`"
        );
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        for trouble in [|| Error::Busy, || Error::TimedOut, || io(ErrorKind::ConnectionRefused)] {
            let mut attempts = 0;
            let left = remove_each(names(&["a"]), SECOND, |_| {
                attempts += 1;
                if attempts < 3 { Err(trouble()) } else { Ok(()) }
            });
            assert!(left.is_empty() && attempts == 3, "{left:?}");
        }
    }

    #[test]
    fn a_server_that_is_gone_is_not_asked_for_each() {
        let all: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        let mut asked = std::collections::BTreeSet::new();
        let left = remove_each(all, SECOND / 2, |name| {
            asked.insert(name.clone());
            Err(io(ErrorKind::ConnectionRefused))
        });
        assert_eq!((left.len(), asked.len()), (50, 2));
        let words = none_left(&left, |shown| format!("x {}", shown.len())).unwrap_err().to_string();
        assert!(words.contains(" attempts with ") && words.contains("not tried"), "{words}");
        assert!(words.contains("and 30 more; they stay on the server until you run `x 20`"), "{words}");
        assert!(none_left::<String>(&[], |_| String::new()).is_ok());
    }
}
