//! Network distance of a server: the time of queries that cost it nothing.

use std::time::Duration;

use serde_json::json;

use super::facts::{Inspector, Row, SourceAnswer, SubjectFacts, UnknownReason, or_zero};
use super::finding::{Answer, Check, CheckQuestion, CheckResult, LeastAges, when};
use crate::host::machine::uptime;
use crate::units;

/// Name of the source that [`time_pings`] fills.
pub const SOURCE: &str = "answers";

/// The answer time check for one kind of server.
pub const fn check(id: &'static str, shown_by: &'static str) -> Check {
    Check {
        figure: "the time from a question that costs nothing to its answer: the shortest and the middle of 50",
        threshold: "look: the shortest is 2 ms or more",
        reason: "An application waits that long for every question, however fast the server is. Within one \
                 building it is a fraction of a millisecond. The shortest time is the network's; the median \
                 includes what else the two machines do. Asked from another machine than the application's, it \
                 says nothing.",
        source: "`SELECT 1`, or PING, over the connection that is there",
        shown_by,
        ..Check::new(id, CheckQuestion::Network, judge)
    }
}

/// Pings the server up to 50 times, for a second at most.
pub fn time_pings(server: &mut dyn Inspector) -> SourceAnswer {
    const QUESTIONS: usize = 50;
    const MOST: Duration = Duration::from_secs(1);
    let (begun, mut ns) = (uptime(), Vec::new());
    while ns.len() < QUESTIONS && uptime() - begun < MOST {
        let asked = uptime();
        if let Err(why) = server.ping() {
            return SourceAnswer::Refused(why);
        }
        ns.push((uptime() - asked).as_nanos() as u64);
    }
    ns.sort_unstable();
    let (shortest, middle) = (ns.first().copied(), ns.get(ns.len() / 2).copied());
    let row = [("shortest_ns", json!(shortest)), ("middle_ns", json!(middle)), ("asked", json!(ns.len()))];
    SourceAnswer::Rows(vec![Row::from_iter(row.map(|(name, value)| (name.to_owned(), value)))])
}

fn judge(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const FAR_NS: f64 = 2e6;
    let row = facts.row(SOURCE)?;
    let (shortest, middle) = (or_zero(row, "shortest_ns"), or_zero(row, "middle_ns"));
    let (shown, of) = (units::nanoseconds(shortest), or_zero(row, "asked"));
    let figure = format!("{shown}, and {} in the middle of {of}", units::nanoseconds(middle));
    Ok(CheckResult::now(when(shortest >= FAR_NS, Answer::Look), shortest, figure))
}
