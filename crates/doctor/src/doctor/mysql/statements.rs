//! Checks of queries that run too often, or read far more rows than they send.

use super::has_performance_schema;
use crate::doctor::facts::{SubjectFacts, UnknownReason, growth};
use crate::doctor::finding::{Check, CheckQuestion, CheckResult, LeastAges};
use crate::doctor::statements::{self, StatementActivity};

pub(super) const CHECKS: &[Check] = &[
    Check {
        source: "events_statements_summary_by_digest; digests have no values",
        rights: "performance_schema, with SELECT on it",
        shown_by: "SELECT digest_text, count_star, sum_timer_wait FROM performance_schema.events_statements_summary_by_digest \
                   ORDER BY count_star DESC LIMIT 10",
        ..statements::check("my-frequent-query", frequent)
    },
    Check {
        figure: "rows that a query read for each that it sent or changed",
        threshold: "look: above 100, of a query with 10 % of the time or more, that reads 1,000 rows or more each time",
        reason: "The query discards most of what it reads; an index or another condition would read less. A sum \
                 over many rows is a false alarm: it sends one.",
        after: "pt-query-digest's attribute Rows_examine; the figure is blobwise's",
        source: "sum_rows_examined, sum_rows_sent and sum_rows_affected of events_statements_summary_by_digest",
        rights: "performance_schema, with SELECT on it",
        shown_by: "SELECT digest_text, sum_rows_examined, sum_rows_sent FROM performance_schema.events_statements_summary_by_digest \
                   ORDER BY sum_rows_examined DESC LIMIT 10",
        ..Check::new("my-rows-examined", CheckQuestion::Indexes, examined)
    },
];

fn frequent(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    has_performance_schema(facts)?;
    statements::frequent(facts, "digests", "ps")
}

fn examined(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    has_performance_schema(facts)?;
    let asked = statements::asked(facts, "digests", "ps")?;
    let sent = |asked: &StatementActivity<'_>| growth(&asked.pair, "sent") + growth(&asked.pair, "affected");
    Ok(statements::wasteful(asked, |asked| growth(&asked.pair, "examined"), sent, "rows for each one"))
}
