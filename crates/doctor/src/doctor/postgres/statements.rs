//! Checks of queries that run too often, or write temporary files.

use crate::doctor::facts::{SubjectFacts, UnknownReason, growth};
use crate::doctor::finding::{Answer, Check, CheckQuestion, CheckResult, LeastAges, when};
use crate::doctor::statements;
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        source: "calls and total_exec_time of pg_stat_statements; query texts have no values",
        rights: "the extension pg_stat_statements; pg_monitor, to see queries of others",
        shown_by: "SELECT calls, total_exec_time, query FROM pg_stat_statements ORDER BY calls DESC LIMIT 10",
        ..statements::check("pg-frequent-query", |facts, _| statements::frequent(facts, "statements", "ms"))
    },
    Check {
        figure: "bytes per second that queries wrote into temporary files, between the looks",
        threshold: "look: 1 MB/s or more",
        reason: "A sort or a hash exceeded work_mem and went to disk. An index in that order, fewer columns, or \
                 a larger work_mem for that query helps. Building an index also sorts on disk.",
        source: "temp_bytes of pg_stat_database; temp_blks_written of pg_stat_statements for the query",
        rights: "none; the extension pg_stat_statements, to name the query",
        shown_by: "SELECT temp_files, temp_bytes FROM pg_stat_database WHERE datname = current_database()",
        ..Check::new("pg-temporary-files", CheckQuestion::Queries, temporary)
    },
];

fn temporary(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let rate = facts.growth("server", "temp_bytes")? / facts.seconds();
    let writers = facts.pairs("statements", "id").unwrap_or_default();
    let mut writers: Vec<(f64, String)> =
        writers.iter().map(|pair| (growth(pair, "temporary_blocks"), statements::shown(pair.1))).collect();
    writers.retain(|(blocks, _)| *blocks > 0.0);
    writers.sort_by(|a, b| b.0.total_cmp(&a.0));
    let by = writers.first().map(|(_, query)| format!(", most of it by {query}")).unwrap_or_default();
    let figure = format!("{} a second{by}", units::bytes(rate));
    let named = writers.into_iter().map(|(_, query)| query).collect();
    Ok(CheckResult::new(when(rate >= 1e6, Answer::Look), rate, figure).naming(named))
}
