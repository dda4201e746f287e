//! Queries: which are asked too often, and which read far more than they send.

use super::has_performance_schema;
use crate::doctor::facts::{Facts, Kind, Lack, growth};
use crate::doctor::finding::{Answer, Check, Finding, LeastAges, Particular, Question, when};
use crate::doctor::statements::{self, Asked};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    statements::check(Particular {
        id: "my-frequent-query",
        of: Kind::MySql,
        figure: statements::FIGURE,
        source: "events_statements_summary_by_digest; digests have no values",
        rights: "performance_schema, with SELECT on it",
        shown_by: "SELECT digest_text, count_star, sum_timer_wait FROM performance_schema.events_statements_summary_by_digest \
                   ORDER BY count_star DESC LIMIT 10",
        judge: frequent,
    }),
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

fn frequent(facts: &Facts, _: &LeastAges) -> Result<Finding, Lack> {
    has_performance_schema(facts)?;
    statements::frequent(facts, "digests", "ps")
}

fn examined(facts: &Facts, _: &LeastAges) -> Result<Finding, Lack> {
    has_performance_schema(facts)?;
    let mut asked = statements::asked(facts, "digests", "ps")?;
    let read = |asked: &Asked<'_>| growth(&asked.pair, "examined");
    let ratio = |asked: &Asked<'_>| {
        let sent = growth(&asked.pair, "sent") + growth(&asked.pair, "affected");
        read(asked) / sent.max(1.0)
    };
    asked.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    let words = |asked: &Asked<'_>| {
        let (rows, share) = (units::count(ratio(asked).round()), units::percent(asked.of_time));
        format!("{rows} rows for each one, {share} of the time: {}", asked.query)
    };
    let is_too_much = |asked: &&Asked<'_>| {
        let each = read(asked) / growth(&asked.pair, "calls");
        ratio(asked) > 100.0 && asked.of_time >= 0.1 && each >= 1000.0
    };
    let named: Vec<String> = asked.iter().filter(is_too_much).map(words).collect();
    let figure = named.first().cloned().unwrap_or_else(|| format!("the most is {}", words(&asked[0])));
    Ok(Finding::new(when(!named.is_empty(), Answer::Look), ratio(&asked[0]), figure).naming(named))
}
