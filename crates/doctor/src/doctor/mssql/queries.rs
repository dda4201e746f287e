//! Checks of queries that run too often, read far more than they send, or spill to disk, and of lock waits.

use super::counted::{CACHED, Counter, TIME};
use super::sees_others;
use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, or_zero, text};
use crate::doctor::finding::{Answer, Check, CheckQuestion, CheckResult, LeastAges};
use crate::doctor::sessions;
use crate::doctor::statements::{self, StatementActivity, shown};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        source: WHERE_COUNTED,
        rights: RIGHTS,
        shown_by: "SELECT TOP 10 q.query_hash, SUM(r.count_executions), SUM(r.count_executions * r.avg_duration) FROM \
                   sys.query_store_runtime_stats r JOIN sys.query_store_plan p ON p.plan_id = r.plan_id JOIN sys.query_store_query q ON \
                   q.query_id = p.query_id GROUP BY q.query_hash ORDER BY 2 DESC; SELECT TOP 10 query_hash, SUM(execution_count), \
                   SUM(total_elapsed_time) FROM sys.dm_exec_query_stats GROUP BY query_hash ORDER BY 2 DESC",
        ..statements::check("ms-frequent-query", frequent)
    },
    Check {
        figure: "pages that a query read for each row that it returned",
        threshold: "look: above 100, of a query with 10 % of the time or more, that looks at 1,000 pages or more each time",
        reason: "A page has 8 kB of rows, and the query discards most of them; an index or another condition \
                 would read less. Sums and changes over many rows are false alarms: they return one row or \
                 none.",
        after: "pt-query-digest's attribute Rows_examine, for another server; the figure is blobwise's",
        source: WHERE_COUNTED,
        rights: RIGHTS,
        shown_by: "SELECT TOP 10 q.query_hash, SUM(r.count_executions * r.avg_logical_io_reads), SUM(r.count_executions * r.avg_rowcount) \
                   FROM sys.query_store_runtime_stats r JOIN sys.query_store_plan p ON p.plan_id = r.plan_id JOIN sys.query_store_query q \
                   ON q.query_id = p.query_id GROUP BY q.query_hash ORDER BY 2 DESC; SELECT TOP 10 query_hash, \
                   SUM(total_logical_reads), SUM(total_rows) FROM sys.dm_exec_query_stats GROUP BY query_hash ORDER BY 2 DESC",
        ..Check::new("ms-pages-read", CheckQuestion::Indexes, pages)
    },
    Check {
        figure: "what queries wrote to disk in a second because it did not fit into the memory that they were granted",
        threshold: "look: 10 MB or more",
        reason: "Sorts and joins get the memory that statistics predict. An index in that order, fewer columns, \
                 or current statistics help. A nightly report may do this.",
        source: "total_spills of sys.dm_exec_query_stats, in pages of 8 kB",
        rights: "VIEW SERVER STATE",
        shown_by: "SELECT TOP 10 query_hash, SUM(total_spills) FROM sys.dm_exec_query_stats GROUP BY query_hash ORDER BY 2 DESC",
        ..Check::new("ms-spills", CheckQuestion::Queries, spills)
    },
    Check {
        figure: "sessions that waited for another at both looks, and deadlocks between them",
        threshold: "look: any",
        reason: "A faster server does not shorten a lock; a shorter transaction does. One waiting session at \
                 one moment is normal.",
        source: "blocking_session_id of sys.dm_exec_requests; Number of Deadlocks of sys.dm_os_performance_counters",
        rights: "VIEW SERVER STATE, to see sessions of others",
        shown_by: "SELECT session_id, blocking_session_id, wait_type FROM sys.dm_exec_requests WHERE blocking_session_id <> 0",
        ..Check::new("ms-locks", CheckQuestion::Queries, locks)
    },
];

const WHERE_COUNTED: &str = "Query Store of the database in the URL where it is READ_WRITE: sys.query_store_runtime_stats from the interval on that \
                             was open at the first look; in its mode AUTO it leaves out what is rare and cheap. Else sys.dm_exec_query_stats \
                             of the whole server, which forgets with every start, and a query when its plan leaves the cache. Each by \
                             query_hash, texts without their values";

const RIGHTS: &str = "VIEW DATABASE STATE (from 2022 on VIEW DATABASE PERFORMANCE STATE) for Query Store; else VIEW SERVER STATE";

fn frequent(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let counter = Counter::choose(facts);
    Ok(counter.named(statements::frequent(facts, counter.source, TIME)?))
}

fn pages(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let counter = Counter::choose(facts);
    let asked = statements::asked(facts, counter.source, TIME)?;
    let of = |name: &'static str| move |asked: &StatementActivity<'_>| growth(&asked.pair, name);
    Ok(counter.named(statements::wasteful(asked, of("page_reads"), of("sent"), "pages for each row")))
}

fn spills(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const PAGE: f64 = 8192.0;
    const MUCH: f64 = 10e6;
    let mut told: Vec<(f64, &str)> = facts
        .pairs("spills", "id")?
        .iter()
        .map(|pair| (growth(pair, "spilled") * PAGE / facts.seconds(), text(pair.1, "id")))
        .filter(|(rate, _)| *rate > 0.0)
        .collect();
    told.sort_by(|a, b| b.0.total_cmp(&a.0));
    let all: f64 = told.iter().map(|(rate, _)| rate).sum();
    let queries = facts.rows(CACHED)?;
    let words = |(rate, id): &(f64, &str)| {
        let query = queries.iter().find(|row| text(row, "id") == *id).map_or_else(|| (*id).to_owned(), shown);
        format!("{} a second by {query}", units::bytes(*rate))
    };
    let named: Vec<String> = told.iter().map(words).collect();
    let most = named.first().map(|first| format!("; the most is {first}")).unwrap_or_default();
    let figure = format!("{} a second{most}", units::bytes(all));
    let (answer, named) = if all >= MUCH { (Answer::Look, named) } else { (Answer::Ok, Vec::new()) };
    Ok(CheckResult::new(answer, all, figure).naming(named))
}

fn locks(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    sees_others(facts)?;
    let blocker =
        |row: &Row| Some(or_zero(row, "blocked_by")).filter(|by| *by != 0.0).map(|by| format!("{by:.0}"));
    let deadlocks = facts.growth("counters", "deadlocks")?;
    Ok(sessions::waiting(facts.pairs("sessions", "id")?, "id", blocker, deadlocks))
}
