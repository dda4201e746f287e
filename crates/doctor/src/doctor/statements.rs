//! Judges queries that run too often, in the same way for all servers with statement statistics.

use super::facts::{Row, SubjectFacts, UnknownReason, growth, text};
use super::finding::{Answer, Check, CheckQuestion, CheckResult, Judge};
use crate::units;

/// The frequent query check, without the sources of one kind of server. Its judge calls [`frequent`] with the names of the source
/// and of the time column.
pub const fn check(id: &'static str, judge: Judge) -> Check {
    Check {
        figure: "how often one query was asked in a second, and its share of the time of all",
        threshold: "look: 100 times or more, with 10 % of the time or more",
        reason: "A query that is asked a hundred times a second mostly has the same answer: a cache beside the \
                 application, or one query instead of many, takes it off the server. It may also be what the \
                 server is for.",
        ..Check::new(id, CheckQuestion::Queries, judge)
    }
}

/// Activity of one statement between the looks.
pub struct StatementActivity<'f> {
    /// Calls per second.
    pub rate: f64,
    /// Share of the total time of all statements.
    pub of_time: f64,
    /// Text for display.
    pub query: String,
    /// Its rows at both looks.
    pub pair: (Option<&'f Row>, &'f Row),
}

/// Statements that ran between the looks, from rows with `id`, `query`, `calls`, and a time in column `time`.
pub fn asked<'f>(
    facts: &'f SubjectFacts,
    source: &str,
    time: &str,
) -> Result<Vec<StatementActivity<'f>>, UnknownReason> {
    let pairs = facts.pairs(source, "id")?;
    let all: f64 = pairs.iter().map(|pair| growth(pair, time)).sum();
    let asked = pairs.into_iter().map(|pair| StatementActivity {
        rate: growth(&pair, "calls") / facts.seconds(),
        of_time: growth(&pair, time) / all.max(f64::MIN_POSITIVE),
        query: shown(pair.1),
        pair,
    });
    let asked: Vec<StatementActivity<'f>> = asked.filter(|asked| asked.rate > 0.0).collect();
    if asked.is_empty() { Err("nobody asked anything between the looks".to_owned()) } else { Ok(asked) }
}

/// Formats a query on one line, truncated to 100 characters.
pub fn shown(row: &Row) -> String {
    let words: Vec<&str> = text(row, "query").split_whitespace().collect();
    let query = words.join(" ").replace('`', "");
    match query.char_indices().nth(100) {
        Some((end, _)) => format!("`{}...`", &query[..end]),
        None => format!("`{query}`"),
    }
}

/// Finding for very frequent queries; `source` and `time` as for [`asked`].
pub fn frequent(facts: &SubjectFacts, source: &str, time: &str) -> Result<CheckResult, UnknownReason> {
    let mut asked = asked(facts, source, time)?;
    asked.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let words = |asked: &StatementActivity<'_>| {
        let (rate, share) = (units::count(asked.rate.round()), units::percent(asked.of_time));
        format!("{rate} times a second, {share} of the time: {}", asked.query)
    };
    let often = asked.iter().filter(|asked| asked.rate >= 100.0 && asked.of_time >= 0.1);
    let named: Vec<String> = often.map(words).collect();
    let figure = named.first().cloned().unwrap_or_else(|| format!("the most is {}", words(&asked[0])));
    Ok(CheckResult::of_named(Answer::Look, asked[0].rate, figure, named))
}

/// Finding for queries that read far more than they send: above a hundred times as much, with 10 % of the time or more, and at
/// least 1,000 per call.
pub fn wasteful(
    mut asked: Vec<StatementActivity<'_>>,
    read: impl Fn(&StatementActivity<'_>) -> f64,
    sent: impl Fn(&StatementActivity<'_>) -> f64,
    unit: &str,
) -> CheckResult {
    let ratio = |asked: &StatementActivity<'_>| read(asked) / sent(asked).max(1.0);
    asked.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    let words = |asked: &StatementActivity<'_>| {
        let (many, share) = (units::count(ratio(asked).round()), units::percent(asked.of_time));
        format!("{many} {unit}, {share} of the time: {}", asked.query)
    };
    let is_too_much = |asked: &&StatementActivity<'_>| {
        let each = read(asked) / growth(&asked.pair, "calls");
        ratio(asked) > 100.0 && asked.of_time >= 0.1 && each >= 1000.0
    };
    let named: Vec<String> = asked.iter().filter(is_too_much).map(words).collect();
    let figure = named.first().cloned().unwrap_or_else(|| format!("the most is {}", words(&asked[0])));
    CheckResult::of_named(Answer::Look, ratio(&asked[0]), figure, named)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::facts::between;

    #[test]
    fn often_and_long_is_worth_a_look_and_either_alone_is_not() {
        let of = |before: &Value, after: &Value| {
            frequent(&between(10.0, &[("s", before.clone())], &[("s", after.clone())]), "s", "ms")
        };
        let before = json!([{"id": "a", "calls": 5000, "ms": 9}, {"id": "b", "calls": 7, "ms": 9}]);
        let mut after = json!([{"id": "a", "calls": 6000, "ms": 19, "query": "SELECT\n  `v`"}, {"id": "b", "calls": 8, "ms": 99}]);
        let found = of(&before, &after).unwrap();
        assert_eq!((found.answer, found.value), (Answer::Look, Some(100.0)));
        assert_eq!(found.figure, "100 times a second, 10 % of the time: `SELECT v`");
        after[1]["ms"] = 100.into();
        assert_eq!(of(&before, &after).unwrap().answer, Answer::Ok);
        after[0]["calls"] = 5999.into();
        after[1]["ms"] = 10.into();
        assert_eq!(of(&before, &after).unwrap().answer, Answer::Ok);
        assert!(of(&before, &before).unwrap_err().contains("nobody asked"));
    }
}
