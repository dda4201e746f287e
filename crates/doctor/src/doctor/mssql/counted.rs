//! Source of query counts: Query Store, whose counts survive a restart, or otherwise the plan cache, whose counts do not.

use crate::doctor::facts::{SubjectFacts, UnknownReason, number, text};
use crate::doctor::finding::CheckResult;
use crate::doctor::statements;
use crate::units;

/// Source with the queries of the plan cache, for the whole server.
pub(super) const CACHED: &str = "queries";

/// Source with the queries of Query Store, for the database in the URL, since the interval that was open at the first look.
pub(super) const STORED: &str = "stored";

/// Source with the options of Query Store.
pub(super) const STORE: &str = "store";

/// Column of a query's time, in microseconds, in both sources.
pub(super) const TIME: &str = "us";

/// State in which Query Store counts; in any other state it at most keeps old counts.
pub(super) const READ_WRITE: f64 = 2.0;

/// The source used for query counts, with a description of its period.
pub(super) struct Counter {
    pub(super) source: &'static str,
    words: String,
}

impl Counter {
    /// Chooses Query Store if it counts, otherwise the plan cache, giving the reason.
    pub(super) fn choose(facts: &SubjectFacts) -> Counter {
        match of_store(facts) {
            Ok(words) => Counter { source: STORED, words },
            Err(why) => {
                let since = match facts.number("server", "up_seconds") {
                    Ok(up) => format!("the start {} ago", units::age(up)),
                    Err(_unknown) => "the server was started".to_owned(),
                };
                let words = format!("counted by sys.dm_exec_query_stats since {since}, because {why}");
                Counter { source: CACHED, words }
            }
        }
    }

    pub(super) fn named(&self, finding: CheckResult) -> CheckResult {
        CheckResult { figure: format!("{}; {}", finding.figure, self.words), ..finding }
    }
}

/// `readonly_reason` of a Query Store that has reached its maximum size, by Microsoft's documentation.
const FULL: f64 = 65_536.0;

/// Describes how long Query Store has counted, or returns why it cannot be used.
fn of_store(facts: &SubjectFacts) -> Result<String, UnknownReason> {
    let told = facts.rows(STORE).map_err(|why| format!("Query Store cannot be asked ({why})"))?;
    let row = told.first().ok_or("this database has no Query Store")?;
    let (state, mode) = (text(row, "state_name"), text(row, "capture_mode"));
    if number(row, "state") != Some(READ_WRITE) {
        let why = match (state, number(row, "readonly_reason")) {
            ("OFF", _) => ": `ALTER DATABASE NAME SET QUERY_STORE = ON` turns it on",
            (_, Some(FULL)) => ": it is full, and counts nothing",
            _ => ", and counts nothing",
        };
        return Err(format!("Query Store is {state}{why}"));
    }
    if mode == "NONE" {
        return Err("Query Store takes no new queries (QUERY_CAPTURE_MODE is NONE)".to_owned());
    }
    facts.pairs(STORED, "id")?;
    let is_idle = |source| statements::asked(facts, source, TIME).is_err();
    if is_idle(STORED) && !is_idle(CACHED) {
        return Err("Query Store counted nothing between the looks".to_owned());
    }
    let kept = number(row, "kept_seconds").map_or_else(|| "no time".to_owned(), units::age);
    Ok(format!("counted by Query Store ({mode}), whose intervals of {kept} outlive a restart"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::facts::between;

    fn store(state: u8, name: &str, mode: &str) -> Value {
        json!([{ "state": state, "state_name": name, "capture_mode": mode, "kept_seconds": 30 * 86_400 }])
    }

    fn calls(number: u32) -> Value {
        json!([{ "id": "0xAA", "calls": number, "us": number, "query": "x" }])
    }

    fn counter(store: Value, stored: [Value; 2], cached: [Value; 2]) -> (&'static str, String) {
        let [stored, stored_later] = stored;
        let [cached, cached_later] = cached;
        let earlier = [(STORE, store.clone()), (STORED, stored), (CACHED, cached)];
        let server = ("server", json!([{ "up_seconds": 7200 }]));
        let later = [server, (STORE, store), (STORED, stored_later), (CACHED, cached_later)];
        let found = Counter::choose(&between(1.0, &earlier, &later));
        (found.source, found.words)
    }

    #[test]
    fn query_store_is_asked_where_it_counts_and_only_there() {
        let (busy, idle) = (|| [calls(1), calls(9)], || [calls(1), calls(1)]);
        let on = || store(2, "READ_WRITE", "AUTO");
        let (source, words) = counter(on(), busy(), busy());
        assert_eq!(source, STORED);
        assert_eq!(words, "counted by Query Store (AUTO), whose intervals of 30 days outlive a restart");
        let mut full = store(1, "READ_ONLY", "ALL");
        full[0]["readonly_reason"] = 65_536.into();
        for (store, stored, why) in [
            (store(0, "OFF", "AUTO"), idle(), "because Query Store is OFF: `ALTER DATABASE"),
            (store(1, "READ_ONLY", "ALL"), idle(), "because Query Store is READ_ONLY, and counts nothing"),
            (full, idle(), "because Query Store is READ_ONLY: it is full"),
            (store(2, "READ_WRITE", "NONE"), busy(), "QUERY_CAPTURE_MODE is NONE"),
            (on(), idle(), "because Query Store counted nothing between the looks"),
            (
                json!("Invalid object name"),
                idle(),
                "because Query Store cannot be asked (Invalid object name)",
            ),
            (json!([]), idle(), "because this database has no Query Store"),
            (on(), [calls(1), json!("locked")], "because locked"),
        ] {
            let (source, words) = counter(store, stored, busy());
            assert_eq!(source, CACHED);
            assert!(words.starts_with("counted by sys.dm_exec_query_stats since the start 2 h 00 min ago, "));
            assert!(words.contains(why), "{words}");
        }
        // If no query ran at all, or the plan cache is closed to this user, Query Store is used.
        assert_eq!(counter(on(), idle(), idle()).0, STORED);
        assert_eq!(counter(on(), idle(), [json!("denied"), json!("denied")]).0, STORED);
    }
}
