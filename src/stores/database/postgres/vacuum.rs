//! Vacuum and analyze as autovacuum would begin them at its next look, but now: the launcher looks once a minute, and what its
//! workers do would fall into whatever is measured then, or into nothing.

use std::time::Duration;

use crate::wire::postgres::{Client, Param, Result};

/// How often the server is asked again.
const NAP: Duration = Duration::from_millis(2);

/// How often what is due is asked for again. A vacuum passes over a page that another process has in its hands, such as one that
/// is being written, and over what another's snapshot can still see: both are over soon on a server of ours.
const TRIES: u32 = 20;

/// What is due, as statements. The tables of a schema and those of large objects, each with what it stores aside, which has
/// counts and limits of its own; the conditions are those of PostgreSQL's documentation of the autovacuum daemon. One process
/// vacuums, as a worker of autovacuum does, but without its pauses. Where anything is to be done, indexes are cleaned as well: by
/// itself a vacuum leaves dead rows to the next one where they lie on less than 2 % of the pages.
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

/// What is done to tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Due {
    /// What autovacuum would begin by its limits.
    AtLimits,
    /// Whatever there is to do.
    Anything,
}

/// Does what is due to the tables of `schema`, and waits for workers that had begun by themselves. A table that one of them holds
/// is taken over: it gives way after `deadlock_timeout`, a second.
///
/// A server process tells what it did to tables when it ends at the latest, so those of sessions that have ended are waited for:
/// of those whose `application_name` is the schema, no more than `sessions` are still open. Before PostgreSQL 15 what they tell
/// may come later still, and is then left to the launcher.
pub(super) fn catch_up(
    keeper: &mut Client,
    schema: &str,
    due: Due,
    sessions: impl Fn() -> i64,
) -> Result<()> {
    const OPEN: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    const WORKING: &str = "SELECT count(*) FROM pg_stat_activity
        WHERE backend_type = 'autovacuum worker' AND datname = current_database()";
    let schema_name = schema.as_bytes();
    let schema = [Param::Bytes(schema_name)];
    while keeper.number(OPEN, &schema)?.is_some_and(|open| open > sessions()) {
        std::thread::sleep(NAP);
    }
    let limits = Param::Int(i32::from(due == Due::AtLimits));
    for _ in 0..TRIES {
        let statements = keeper.texts(DUE, &[Param::Bytes(schema_name), limits])?;
        for statement in &statements {
            keeper.run(statement)?;
        }
        while keeper.number(WORKING, &[])? != Some(0) {
            std::thread::sleep(NAP);
        }
        if statements.is_empty() {
            break;
        }
        std::thread::sleep(NAP);
    }
    Ok(())
}
