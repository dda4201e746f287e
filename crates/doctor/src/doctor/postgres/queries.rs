//! Queries to PostgreSQL: statistics and catalogs, and only lengths from users' tables.

use crate::doctor::facts::{Row, number, text};

/// Queries of each look, by the name of their source.
pub(super) const SOURCES: &[(&str, &str)] = &[
    ("server", SERVER),
    ("made", MADE),
    ("settings", SET_TO),
    ("tables", TABLES),
    ("indexes", INDEXES),
    ("sessions", SESSIONS),
    ("collations", COLLATIONS),
    ("database-collation", DATABASE_COLLATION),
];

const SERVER: &str = "
    SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8 AS up_seconds,
           extract(epoch FROM now() - d.stats_reset)::float8 AS stats_seconds,
           pg_is_in_recovery() AS in_recovery,
           pg_database_size(d.datname) AS bytes,
           (SELECT count(*) FROM pg_stat_replication) AS replicas,
           d.blks_hit, d.blks_read, d.blk_read_time, d.active_time, d.temp_bytes, d.deadlocks
    FROM pg_stat_database d WHERE d.datname = current_database()";

/// The file is written when the database is created, and never again.
const MADE: &str = "
    SELECT extract(epoch FROM now() - (pg_stat_file('base/' || oid || '/PG_VERSION')).modification)::float8 AS made_seconds
    FROM pg_database WHERE datname = current_database()";

const SET_TO: &str = "
    SELECT pg_size_bytes(current_setting('shared_buffers')) AS shared_buffers,
           current_setting('fsync') AS fsync,
           current_setting('full_page_writes') AS full_page_writes,
           current_setting('autovacuum') AS autovacuum,
           current_setting('track_counts') AS track_counts,
           current_setting('track_io_timing') AS track_io_timing,
           current_setting('max_connections')::int AS max_connections";

/// The rules are autovacuum's own (`autovacuum_vacuum_threshold` and so on), with each table's settings.
const TABLES: &str = "
    SELECT s.schemaname || '.' || s.relname AS name, greatest(c.reltuples, 0)::float8 AS rows,
           s.n_live_tup, s.n_dead_tup, s.n_mod_since_analyze, s.seq_scan, s.seq_tup_read, s.idx_scan,
           (s.last_analyze IS NOT NULL OR s.last_autoanalyze IS NOT NULL) AS analyzed,
           coalesce(o.analyze_least, current_setting('autovacuum_analyze_threshold')::float8)
               + coalesce(o.analyze_share, current_setting('autovacuum_analyze_scale_factor')::float8)
               * greatest(c.reltuples, 0) AS analyze_rule,
           coalesce(o.vacuum_least, current_setting('autovacuum_vacuum_threshold')::float8)
               + coalesce(o.vacuum_share, current_setting('autovacuum_vacuum_scale_factor')::float8)
               * greatest(c.reltuples, 0) AS vacuum_rule,
           age(c.relfrozenxid)::float8 / current_setting('autovacuum_freeze_max_age')::float8 AS freeze_share,
           t.heap_blks_read + t.heap_blks_hit + coalesce(t.idx_blks_read + t.idx_blks_hit, 0)
               + coalesce(t.toast_blks_read + t.toast_blks_hit, 0) AS blocks,
           coalesce(t.toast_blks_read + t.toast_blks_hit, 0) AS toast_blocks
    FROM pg_stat_user_tables s
    JOIN pg_class c ON c.oid = s.relid
    JOIN pg_statio_user_tables t ON t.relid = s.relid
    CROSS JOIN LATERAL (
        SELECT max(option_value) FILTER (WHERE option_name = 'autovacuum_analyze_threshold')::float8 AS analyze_least,
               max(option_value) FILTER (WHERE option_name = 'autovacuum_analyze_scale_factor')::float8 AS analyze_share,
               max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_threshold')::float8 AS vacuum_least,
               max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor')::float8 AS vacuum_share
        FROM pg_options_to_table(c.reloptions)) o
    WHERE c.relpersistence <> 't'
    ORDER BY c.relpages DESC LIMIT 2000";

const INDEXES: &str = "
    SELECT n.nspname || '.' || x.relname AS name, n.nspname || '.' || c.relname AS table, i.indexrelid::int8 AS id,
           i.indisvalid AS valid, i.indisunique AS unique,
           EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid) AS in_the_making,
           EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid) AS constraint,
           EXISTS (SELECT FROM pg_constraint f WHERE f.contype = 'f' AND f.conrelid = i.indrelid
                   AND f.conkey[1] = i.indkey[0]) AS foreign_key,
           i.indisreplident AS identity, coalesce(s.idx_scan, 0) AS scans,
           (SELECT coalesce(t.seq_scan, 0) + coalesce(t.idx_scan, 0) FROM pg_stat_user_tables t
            WHERE t.relid = i.indrelid) AS table_scans,
           x.relpages::float8 * current_setting('block_size')::float8 AS bytes,
           a.amname AS method, i.indkey::text AS keys, i.indclass::text AS classes, i.indcollation::text AS collations,
           i.indoption::text AS options, coalesce(pg_get_expr(i.indexprs, i.indrelid), '') AS expressions,
           coalesce(pg_get_expr(i.indpred, i.indrelid), '') AS condition
    FROM pg_index i
    JOIN pg_class x ON x.oid = i.indexrelid
    JOIN pg_class c ON c.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_am a ON a.oid = x.relam
    LEFT JOIN pg_stat_user_indexes s ON s.indexrelid = i.indexrelid
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND c.relpersistence <> 't'
    LIMIT 5000";

const SESSIONS: &str = "
    SELECT pid::text AS pid, state, coalesce(wait_event_type, '') AS waits_for,
           extract(epoch FROM now() - state_change)::float8 AS in_state_seconds,
           array_to_string(pg_blocking_pids(pid), ', ') AS blocked_by
    FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

pub(super) fn extension(name: &str) -> String {
    format!(
        "SELECT quote_ident(n.nspname) AS schema FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
         WHERE e.extname = '{name}'"
    )
}

/// Indexes whose collation has another version than the one recorded.
const COLLATIONS: &str = "
    SELECT DISTINCT n.nspname || '.' || x.relname AS name, c.collname AS collation, c.collversion AS made,
           pg_collation_actual_version(c.oid) AS actual
    FROM pg_index i
    JOIN pg_class x ON x.oid = i.indexrelid
    JOIN pg_namespace n ON n.oid = x.relnamespace
    CROSS JOIN LATERAL unnest(i.indcollation::oid[]) AS k(id)
    JOIN pg_collation c ON c.oid = k.id
    WHERE c.collversion <> pg_collation_actual_version(c.oid)
    LIMIT 1000";

/// Default collation of the database; PostgreSQL 14 records no version of it.
const DATABASE_COLLATION: &str = "
    SELECT datcollate AS collation, datcollversion AS made, pg_database_collation_actual_version(oid) AS actual
    FROM pg_database WHERE datname = current_database()";

/// Query for the leaf density of some B-trees. The server reads each of these indexes once, 1 GiB in total at most.
pub(super) fn density(schema: &str) -> String {
    format!(
        "SELECT largest.name, largest.bytes, f.avg_leaf_density AS density
         FROM (SELECT n.nspname || '.' || x.relname AS name, x.oid AS id, pg_relation_size(x.oid) AS bytes
               FROM pg_index i
               JOIN pg_class x ON x.oid = i.indexrelid
               JOIN pg_namespace n ON n.oid = x.relnamespace
               JOIN pg_am a ON a.oid = x.relam AND a.amname = 'btree'
               WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND x.relpersistence = 'p'
                   AND x.relkind = 'i' AND i.indisvalid
                   AND pg_relation_size(x.oid) BETWEEN 1048576 AND 268435456
               ORDER BY 3 DESC LIMIT 4) AS largest
         CROSS JOIN LATERAL {schema}.pgstatindex(largest.id::regclass) AS f"
    )
}

/// Query for the statements of this database except our own; constants are replaced by placeholders there.
pub(super) fn statements(schema: &str) -> String {
    format!(
        "SELECT queryid::text AS id, left(min(query), 200) AS query, sum(calls) AS calls, sum(total_exec_time) AS ms,
                sum(rows) AS rows, sum(temp_blks_written) AS temporary_blocks
         FROM {schema}.pg_stat_statements
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND queryid IS NOT NULL
             AND query NOT LIKE '%json_agg(told)%'
         GROUP BY queryid ORDER BY 4 DESC LIMIT 500"
    )
}

/// Columns that may hold blobs, in tables that are mostly TOAST and at least a twentieth of the database.
pub(super) const COLUMNS: &str = "
    SELECT n.nspname || '.' || c.relname AS table, a.attname AS column, y.typname AS type,
           format('%I.%I', n.nspname, c.relname) AS sql_table, quote_ident(a.attname) AS sql_column,
           c.reltuples::float8 AS rows, b.table_bytes, b.toast_bytes
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attstorage IN ('x', 'e', 'm')
    JOIN pg_type y ON y.oid = a.atttypid AND y.typname IN ('bytea', 'text', 'varchar', 'json', 'jsonb', 'xml')
    CROSS JOIN LATERAL (SELECT pg_total_relation_size(c.oid) AS table_bytes,
                               pg_total_relation_size(c.reltoastrelid) AS toast_bytes) b
    WHERE c.relkind IN ('r', 'm') AND c.reltoastrelid <> 0 AND c.relpersistence <> 't'
        AND n.nspname NOT IN ('pg_catalog', 'information_schema')
        AND b.toast_bytes * 2 > b.table_bytes
        AND b.table_bytes * 20 > pg_database_size(current_database())
    ORDER BY b.table_bytes DESC LIMIT 20";

/// Query for the pages in shared_buffers, with those of each table's TOAST values. Since PostgreSQL 10 it locks no part of the
/// cache.
pub(super) fn memory(schema: &str) -> String {
    format!(
        "SELECT coalesce(n.nspname || '.' || c.relname, '') AS name, sum(b.blocks * b.block_bytes) AS bytes,
                sum(CASE WHEN c.oid IS NULL THEN 0 ELSE b.blocks * b.block_bytes END) AS out_of_row_bytes
         FROM (SELECT count(*)::float8 AS blocks, current_setting('block_size')::float8 AS block_bytes,
                      CASE reldatabase WHEN (SELECT oid FROM pg_database WHERE datname = current_database())
                          THEN pg_filenode_relation(reltablespace, relfilenode)::oid END AS relation
               FROM {schema}.pg_buffercache WHERE relfilenode IS NOT NULL
               GROUP BY reldatabase, reltablespace, relfilenode) b
         LEFT JOIN pg_class c ON c.reltoastrelid = b.relation AND c.reltoastrelid <> 0
         LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
         GROUP BY 1"
    )
}

/// Query for the lengths of values in some 10,000 rows of a table. The server knows lengths without reading TOAST values.
pub(super) fn lengths(column: &Row) -> String {
    const ROWS: f64 = 10_000.0;
    let (table, name, kind) = (text(column, "sql_table"), text(column, "sql_column"), text(column, "type"));
    let rows = number(column, "rows").unwrap_or(-1.0);
    // The number of rows is unknown before a table's first ANALYZE.
    let percent = if rows > ROWS { 100.0 * ROWS / rows } else { 100.0 };
    let length = match kind {
        "bytea" | "text" | "varchar" => format!("octet_length({name})"),
        _ => format!("pg_column_size({name})"),
    };
    format!(
        "SELECT count(*) AS sampled, avg(coalesce(stored, 0))::float8 AS stored_mean,
                percentile_disc(ARRAY[0.1, 0.25, 0.5, 0.75, 0.9, 0.99]::float8[])
                    WITHIN GROUP (ORDER BY length) AS quantiles
         FROM (SELECT {length}::int8 AS length, pg_column_size({name})::int8 AS stored
               FROM {table} TABLESAMPLE SYSTEM ({percent:.4}) LIMIT 20000) AS lengths"
    )
}
