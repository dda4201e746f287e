//! Queries: which are asked too often, and which read far more than they send.

use super::has_performance_schema;
use crate::doctor::facts::{Facts, Kind, Lack, Row, growth, text};
use crate::doctor::finding::{Answer, Check, Finding, LeastAges, Question, when};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "my-frequent-query",
        of: Kind::MySql,
        question: Question::Queries,
        figure: "how often one query was asked in a second, and its share of the time of all",
        threshold: "look: 100 times or more, with 10 % of the time or more",
        reason: "What is asked a hundred times a second has mostly the same answer: a cache beside the application, or one query in place of many, \
                 takes it off the server. It may be what the server is for.",
        after: "ours",
        source: "events_statements_summary_by_digest; digests have no values",
        rights: "performance_schema, with SELECT on it",
        shown_by: "SELECT digest_text, count_star, sum_timer_wait FROM performance_schema.events_statements_summary_by_digest \
                   ORDER BY count_star DESC LIMIT 10",
        judge: frequent,
    },
    Check {
        id: "my-rows-examined",
        of: Kind::MySql,
        question: Question::Indexes,
        figure: "rows that a query read for each that it sent or changed",
        threshold: "look: above 100, of a query with 10 % of the time or more, that reads 1,000 rows or more each time",
        reason: "Most of what it reads is thrown away: an index, or another condition, reads less. A sum over many rows is a false alarm: it sends one.",
        after: "pt-query-digest's attribute Rows_examine; the figure is ours",
        source: "sum_rows_examined, sum_rows_sent and sum_rows_affected of events_statements_summary_by_digest",
        rights: "performance_schema, with SELECT on it",
        shown_by: "SELECT digest_text, sum_rows_examined, sum_rows_sent FROM performance_schema.events_statements_summary_by_digest \
                   ORDER BY sum_rows_examined DESC LIMIT 10",
        judge: examined,
    },
];

/// What one digest did between the looks.
struct Asked {
    rate: f64,
    calls: f64,
    of_time: f64,
    examined: f64,
    sent: f64,
    query: String,
}

/// Digests that were asked between the looks.
fn asked(facts: &Facts) -> Result<Vec<Asked>, Lack> {
    has_performance_schema(facts)?;
    let pairs = facts.pairs("digests", "id")?;
    let all: f64 = pairs.iter().map(|pair| growth(pair, "ps")).sum();
    let asked = pairs.iter().map(|pair| Asked {
        rate: growth(pair, "calls") / facts.seconds(),
        calls: growth(pair, "calls"),
        of_time: growth(pair, "ps") / all.max(f64::MIN_POSITIVE),
        examined: growth(pair, "examined"),
        sent: growth(pair, "sent") + growth(pair, "affected"),
        query: short(pair.1),
    });
    let asked: Vec<Asked> = asked.filter(|asked| asked.calls > 0.0).collect();
    if asked.is_empty() { Err("nobody asked anything between the looks".to_owned()) } else { Ok(asked) }
}

/// A query without its end where it is long.
fn short(row: &Row) -> String {
    let query = text(row, "query");
    match query.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", query[..end].replace('`', "")),
        None => query.replace('`', ""),
    }
}

fn frequent(facts: &Facts, _: &LeastAges) -> Result<Finding, Lack> {
    let mut asked = asked(facts)?;
    asked.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let words = |asked: &Asked| {
        format!(
            "{} times a second, {} of the time: `{}`",
            units::count(asked.rate.round()),
            units::percent(asked.of_time),
            asked.query
        )
    };
    let often = asked.iter().filter(|asked| asked.rate >= 100.0 && asked.of_time >= 0.1);
    let named: Vec<String> = often.map(words).collect();
    let figure = named.first().cloned().unwrap_or_else(|| format!("the most is {}", words(&asked[0])));
    Ok(Finding::new(when(!named.is_empty(), Answer::Look), asked[0].rate, figure).naming(named))
}

fn examined(facts: &Facts, _: &LeastAges) -> Result<Finding, Lack> {
    let mut asked = asked(facts)?;
    let ratio = |asked: &Asked| asked.examined / asked.sent.max(1.0);
    asked.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    let words = |asked: &Asked| {
        format!(
            "{} rows for each one, {} of the time: `{}`",
            units::count(ratio(asked).round()),
            units::percent(asked.of_time),
            asked.query
        )
    };
    let is_too_much = |asked: &&Asked| {
        ratio(asked) > 100.0 && asked.of_time >= 0.1 && asked.examined / asked.calls >= 1000.0
    };
    let named: Vec<String> = asked.iter().filter(is_too_much).map(words).collect();
    let figure = named.first().cloned().unwrap_or_else(|| format!("the most is {}", words(&asked[0])));
    Ok(Finding::new(when(!named.is_empty(), Answer::Look), ratio(&asked[0]), figure).naming(named))
}
