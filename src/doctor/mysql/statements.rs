//! Checks of queries that run too often, or read far more rows than they send.

use super::has_performance_schema;
use crate::doctor::facts::{Facts, Kind, Lack, growth};
use crate::doctor::finding::{Check, Finding, LeastAges, Particular, Question};
use crate::doctor::statements::{self, Asked};

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
    let asked = statements::asked(facts, "digests", "ps")?;
    let sent = |asked: &Asked<'_>| growth(&asked.pair, "sent") + growth(&asked.pair, "affected");
    Ok(statements::wasteful(asked, |asked| growth(&asked.pair, "examined"), sent, "rows for each one"))
}
