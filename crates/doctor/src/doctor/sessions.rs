//! Judges sessions that are idle in a transaction or wait for another, in the same way for all servers that report them.

use super::facts::{Row, text};
use super::finding::{Answer, CheckResult, when};
use crate::units;

/// Finding for sessions that have been idle in a transaction for too long; each has its seconds and its id.
pub fn idle_in_transaction(mut idle: Vec<(f64, &str)>) -> CheckResult {
    const LONG: f64 = 300.0;
    idle.sort_by(|a, b| b.0.total_cmp(&a.0));
    let longest = idle.first().map_or(0.0, |(seconds, _)| *seconds);
    let named: Vec<String> = idle
        .iter()
        .filter(|(seconds, _)| *seconds >= LONG)
        .map(|(seconds, id)| format!("session {id} for {}", units::seconds(*seconds)))
        .collect();
    let all = units::counted(idle.len(), "session");
    let figure = match named.first() {
        Some(first) => format!("{} of {all}: {first}", named.len()),
        None => format!("{all}, the longest for {}", units::seconds(longest)),
    };
    CheckResult::now(when(longest >= LONG, Answer::Look), longest, figure).naming(named)
}

/// Finding for sessions that waited for another at both looks, and for deadlocks between them. Each pair has a session at the first
/// look, if it was there, and at the second one; `id` is the field with its number, and `blocker` returns whom it waits for.
pub fn waiting(
    pairs: Vec<(Option<&Row>, &Row)>,
    id: &str,
    blocker: impl Fn(&Row) -> Option<String>,
    deadlocks: f64,
) -> CheckResult {
    let waiting: Vec<String> = pairs
        .into_iter()
        .filter(|(before, _)| before.is_some_and(|before| blocker(before).is_some()))
        .filter_map(|(_, now)| Some(format!("session {} waits for {}", text(now, id), blocker(now)?)))
        .collect();
    let count = waiting.len() as f64;
    let first = waiting.first().map(|first| format!(": {first}")).unwrap_or_default();
    let figure = format!("{count} sessions waited at both looks{first}; {deadlocks} deadlocks between them");
    CheckResult::new(when(count + deadlocks > 0.0, Answer::Look), count, figure).naming(waiting)
}
