//! Judges sessions that are idle in a transaction, in the same way for all servers that report them.

use super::finding::{Answer, CheckResult, FigurePeriod, when};
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
    CheckResult::new(when(longest >= LONG, Answer::Look), longest, figure)
        .over(FigurePeriod::Now)
        .naming(named)
}
