//! Runs the vacuums and analyzes that autovacuum would start at its next check, but now: the launcher checks once a minute, and
//! its workers would disturb whatever is measured then, or nothing.

use std::time::Duration;

use crate::wire::postgres::{PostgresClient, Result, StatementParameter};

const NAP: Duration = Duration::from_millis(2);

/// The most repetitions while something is due. A vacuum skips pages pinned by another process, such as pages being written, and
/// rows that another snapshot can still see: in a private server both end soon.
const TRIES: u32 = 20;

/// Selects the statements that are due, for the tables of a schema and those of large objects, each with its TOAST table, which
/// has counters and limits of its own; the conditions are those of PostgreSQL's documentation of the autovacuum daemon. One
/// process vacuums, as an autovacuum worker does, but without its delays. If all pending work is requested, indexes are cleaned
/// too: by default a vacuum postpones that while dead rows are on less than 2 % of the pages.
const DUE: &str = "
    WITH ours AS (
        SELECT oid, reltoastrelid FROM pg_class
        WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'
            OR oid IN ('pg_largeobject'::regclass, 'pg_largeobject_metadata'::regclass)
    ), counted AS (
        SELECT s.*, c.relkind, greatest(c.reltuples, 0) AS rows
        FROM pg_class c JOIN pg_stat_all_tables s ON s.relid = c.oid
        WHERE c.oid IN (SELECT oid FROM ours UNION ALL SELECT reltoastrelid FROM ours)
    ), due AS (
        SELECT relid,
            n_dead_tup > $2::integer * (current_setting('autovacuum_vacuum_threshold')::float
                + current_setting('autovacuum_vacuum_scale_factor')::float * rows)
            OR n_ins_since_vacuum > $2::integer * (current_setting('autovacuum_vacuum_insert_threshold')::float
                + current_setting('autovacuum_vacuum_insert_scale_factor')::float * rows) AS for_vacuum,
            relkind = 'r' AND n_mod_since_analyze > $2::integer * (current_setting('autovacuum_analyze_threshold')::float
                + current_setting('autovacuum_analyze_scale_factor')::float * rows) AS for_analyze
        FROM counted
    )
    SELECT format('VACUUM (PARALLEL 0, PROCESS_TOAST false%s) %s',
        CASE WHEN $2::integer = 0 THEN ', INDEX_CLEANUP on' ELSE '' END, relid::regclass) FROM due WHERE for_vacuum
    UNION ALL SELECT format('ANALYZE %s', relid::regclass) FROM due WHERE for_analyze";

/// How much maintenance to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MaintenanceScope {
    /// What autovacuum would do by its limits.
    AtLimits,
    /// All pending work.
    Anything,
}

/// Does the maintenance due for the tables of `schema`, and waits for autovacuum workers that are already running. A table held
/// by one of them is taken over: the worker gives way after `deadlock_timeout`, a second.
///
/// A server process reports its changes to tables by the time it ends, so sessions that have ended are waited for: until at most
/// `sessions` processes with the schema as `application_name` are left. Before PostgreSQL 15 reports may come even later and are
/// left to the launcher.
pub(super) fn catch_up(
    admin: &mut PostgresClient,
    schema: &str,
    due: MaintenanceScope,
    sessions: impl Fn() -> i64,
) -> Result<()> {
    const OPEN: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    const WORKING: &str = "SELECT count(*) FROM pg_stat_activity
        WHERE backend_type = 'autovacuum worker' AND datname = current_database()";
    let schema_name = schema.as_bytes();
    let schema = [StatementParameter::Bytes(schema_name)];
    while admin.number(OPEN, &schema)?.is_some_and(|open| open > sessions()) {
        std::thread::sleep(NAP);
    }
    let limits = StatementParameter::Int(i32::from(due == MaintenanceScope::AtLimits));
    for _ in 0..TRIES {
        let statements = admin.texts(DUE, &[StatementParameter::Bytes(schema_name), limits])?;
        for statement in &statements {
            admin.run(statement)?;
        }
        while admin.number(WORKING, &[])? != Some(0) {
            std::thread::sleep(NAP);
        }
        if statements.is_empty() {
            break;
        }
        std::thread::sleep(NAP);
    }
    Ok(())
}
