//! Statements for SQL Server: management views and catalogs, and only lengths from users' tables.

use super::counted::{CACHED, STORE};
use crate::doctor::facts::{Row, or_zero, text};

/// Comment that follows the first word of each statement, completed in [`said`] by its purpose. Our own statements are recognised
/// by it and left out of the query counts.
macro_rules! ours {
    () => {
        "/* blobwise doctor: "
    };
}

/// Inserts the comment into a statement. Query Store would drop a comment before the first word.
pub(super) fn said(name: &str, sql: &str) -> String {
    let (word, rest) = sql.trim_start().split_once(' ').unwrap_or((sql, ""));
    format!("{word} {}{name} */ {rest}", ours!())
}

/// Options of this session: it waits for a lock for one second at most, takes no row locks, and is the preferred victim of a
/// deadlock.
pub(super) const SESSION: &str =
    "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SET LOCK_TIMEOUT 1000; SET DEADLOCK_PRIORITY LOW";

pub(super) const VERSION: (&str, &str) = (
    "version",
    "SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)) AS version,
            CAST(SERVERPROPERTY('Edition') AS nvarchar(128)) AS edition",
);

/// A query that costs the server nothing.
pub(super) const PING: &str = "SELECT 1 AS one";

/// Queries of each look, by the name of their source.
pub(super) const SOURCES: &[(&str, &str)] = &[
    ("server", SERVER),
    ("settings", SET_TO),
    ("database", DATABASE),
    ("counters", COUNTERS),
    ("waits", WAITS),
    ("schedulers", SCHEDULERS),
    ("files", FILES),
    ("tables", TABLES),
    ("fetches", FETCHES),
    ("missing", WANTED),
    (CACHED, QUERIES),
    (STORE, QUERY_STORE),
    ("spills", SPILLS),
    ("sessions", SESSIONS),
];

/// Queries of the last look only.
pub(super) const LAST: &[(&str, &str)] = &[
    ("states", STATES),
    ("suspect", SUSPECT),
    ("volumes", VOLUMES),
    ("indexes", INDEXES),
    ("uses", USES),
    ("restored", RESTORED),
    ("statistics", STATISTICS),
];

const SERVER: &str = "
    SELECT DATEDIFF(second, i.sqlserver_start_time, GETDATE()) AS up_seconds, i.committed_target_kb AS target_kb,
           m.total_physical_memory_kb AS memory_kb, m.available_physical_memory_kb AS available_kb,
           m.system_low_memory_signal_state AS is_low, p.physical_memory_in_use_kb AS used_kb,
           p.process_physical_memory_low AS is_giving_up
    FROM sys.dm_os_sys_info i
    CROSS JOIN sys.dm_os_sys_memory m
    CROSS JOIN sys.dm_os_process_memory p";

/// Without the right, `dm_exec_sessions` silently shows one's own session only. The second right exists since 2022; earlier
/// servers return NULL for its name.
const SET_TO: &str = "
    SELECT CAST(c.value_in_use AS bigint) AS max_memory_mb, @@MAX_CONNECTIONS AS max_connections,
           CASE WHEN HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 1
                     OR HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER PERFORMANCE STATE') = 1
                THEN 1 ELSE 0 END AS sees_others
    FROM sys.configurations c WHERE c.name = 'max server memory (MB)'";

const DATABASE: &str = "
    SELECT d.name AS name, d.compatibility_level AS compatibility_level, d.is_read_only AS is_read_only,
           d.is_auto_close_on AS is_auto_close_on, d.is_auto_create_stats_on AS creates_statistics, d.is_auto_update_stats_on AS updates_statistics,
           d.page_verify_option_desc AS page_verify, d.delayed_durability_desc AS delayed_durability,
           CASE WHEN d.replica_id IS NULL THEN 0 ELSE 1 END AS is_replicated,
           DATEDIFF(second, d.create_date, GETDATE()) AS made_seconds,
           (SELECT SUM(a.total_pages) * 8192 FROM sys.allocation_units a) AS bytes
    FROM sys.databases d WHERE d.database_id = DB_ID()";

const COUNTERS: &str = "
    SELECT SUM(CASE WHEN c.counter_name LIKE 'Page lookups/sec%' THEN c.cntr_value END) AS page_lookups,
           SUM(CASE WHEN c.counter_name LIKE 'Page reads/sec%' THEN c.cntr_value END) AS page_reads,
           SUM(CASE WHEN c.counter_name LIKE 'User Connections%' THEN c.cntr_value END) AS connections,
           SUM(CASE WHEN c.counter_name LIKE 'Memory Grants Pending%' THEN c.cntr_value END) AS grants_pending,
           SUM(CASE WHEN c.counter_name LIKE 'Number of Deadlocks/sec%' AND c.instance_name LIKE '[_]Total%'
                    THEN c.cntr_value END) AS deadlocks
    FROM sys.dm_os_performance_counters c
    WHERE c.object_name LIKE '%:Buffer Manager%' OR c.object_name LIKE '%:General Statistics%'
          OR c.object_name LIKE '%:Memory Manager%' OR c.object_name LIKE '%:Locks%'";

/// Time that queries waited for pages being read from files.
const WAITS: &str = "
    SELECT SUM(w.wait_time_ms) AS page_ms FROM sys.dm_os_wait_stats w WHERE w.wait_type LIKE 'PAGEIOLATCH[_]%'";

const SCHEDULERS: &str = "
    SELECT COUNT(*) AS schedulers, SUM(s.runnable_tasks_count) AS runnable
    FROM sys.dm_os_schedulers s WHERE s.status = 'VISIBLE ONLINE'";

/// Does not select the paths of files.
const FILES: &str = "
    SELECT CAST(v.database_id AS varchar(10)) + ':' + CAST(v.file_id AS varchar(10)) AS id,
           COALESCE(DB_NAME(v.database_id), '?') AS name, v.file_id AS number,
           v.num_of_reads AS reads, v.io_stall_read_ms AS read_ms,
           v.num_of_writes AS writes, v.io_stall_write_ms AS write_ms
    FROM sys.dm_io_virtual_file_stats(NULL, NULL) v";

/// Rows of a table: of its heap or clustered index.
const TABLES: &str = "
    SELECT CAST(t.object_id AS varchar(12)) AS id, SCHEMA_NAME(t.schema_id) + '.' + t.name AS name,
           (SELECT SUM(p.rows) FROM sys.partitions p WHERE p.object_id = t.object_id AND p.index_id IN (0, 1)) AS table_rows,
           COALESCE(u.user_scans, 0) AS scans
    FROM sys.tables t
    LEFT JOIN sys.dm_db_index_usage_stats u
         ON u.database_id = DB_ID() AND u.object_id = t.object_id AND u.index_id IN (0, 1)
    WHERE t.is_ms_shipped = 0";

/// Fetches of out-of-row values, by table. The counters of a table restart when it leaves the metadata cache.
const FETCHES: &str = "
    SELECT SCHEMA_NAME(t.schema_id) + '.' + t.name AS name, SUM(o.lob_fetch_in_pages + o.row_overflow_fetch_in_pages) AS fetched_pages,
           SUM(o.lob_fetch_in_bytes + o.row_overflow_fetch_in_bytes) AS bytes
    FROM sys.dm_db_index_operational_stats(DB_ID(), NULL, NULL, NULL) o
    JOIN sys.tables t ON t.object_id = o.object_id
    WHERE t.is_ms_shipped = 0
    GROUP BY t.schema_id, t.name
    HAVING SUM(o.lob_fetch_in_pages + o.row_overflow_fetch_in_pages) > 0";

/// Pages in memory by table of this database. Large values (2) and overflowing rows (3) are out of row. Excludes the buffer pool
/// extension.
pub(super) const IN_MEMORY: &str = "
    SELECT COALESCE(SCHEMA_NAME(t.schema_id) + '.' + t.name, '') AS name, SUM(k.pages) * 8192 AS bytes,
           SUM(CASE WHEN t.object_id IS NOT NULL AND a.type IN (2, 3) THEN k.pages ELSE 0 END) * 8192 AS out_of_row_bytes
    FROM (SELECT b.database_id, b.allocation_unit_id, COUNT_BIG(*) AS pages
          FROM sys.dm_os_buffer_descriptors b WHERE b.is_in_bpool_extension = 0
          GROUP BY b.database_id, b.allocation_unit_id) k
    LEFT JOIN sys.allocation_units a ON k.database_id = DB_ID() AND a.allocation_unit_id = k.allocation_unit_id
    LEFT JOIN sys.partitions p ON a.container_id = CASE a.type WHEN 2 THEN p.partition_id ELSE p.hobt_id END
    LEFT JOIN sys.tables t ON t.object_id = p.object_id AND t.is_ms_shipped = 0
    GROUP BY t.schema_id, t.name";

const WANTED: &str = "
    SELECT CAST(g.index_handle AS varchar(12)) AS id, d.statement AS name, d.equality_columns AS equal,
           d.inequality_columns AS unequal, s.user_seeks + s.user_scans AS uses, s.avg_user_impact AS saved,
           (SELECT SUM(p.rows) FROM sys.partitions p WHERE p.object_id = d.object_id AND p.index_id IN (0, 1)) AS table_rows
    FROM sys.dm_db_missing_index_groups g
    JOIN sys.dm_db_missing_index_group_stats s ON s.group_handle = g.index_group_handle
    JOIN sys.dm_db_missing_index_details d ON d.index_handle = g.index_handle
    WHERE d.database_id = DB_ID()";

/// Queries of the whole server, summed over those that differ only in their values; the text is from the plan used last. Offsets
/// are in bytes, two per character.
const QUERIES: &str = concat!(
    "
    WITH counted AS (
        SELECT q.query_hash, q.sql_handle, q.statement_start_offset, q.statement_end_offset,
               SUM(q.execution_count) OVER (PARTITION BY q.query_hash) AS calls,
               SUM(q.total_elapsed_time) OVER (PARTITION BY q.query_hash) AS us,
               SUM(q.total_logical_reads) OVER (PARTITION BY q.query_hash) AS page_reads,
               SUM(q.total_rows) OVER (PARTITION BY q.query_hash) AS sent,
               ROW_NUMBER() OVER (PARTITION BY q.query_hash ORDER BY q.last_execution_time DESC) AS place
        FROM sys.dm_exec_query_stats q)
    SELECT TOP (1000) CONVERT(varchar(20), c.query_hash, 1) AS id, c.calls AS calls, c.us AS us, c.page_reads AS page_reads, c.sent AS sent,
           SUBSTRING(t.text, c.statement_start_offset / 2 + 1,
                     CASE c.statement_end_offset WHEN -1 THEN 4000
                          ELSE (c.statement_end_offset - c.statement_start_offset) / 2 + 1 END) AS query
    FROM counted c
    OUTER APPLY sys.dm_exec_sql_text(c.sql_handle) t
    WHERE c.place = 1 AND COALESCE(t.text, '') NOT LIKE '%",
    ours!(),
    "%'
    ORDER BY c.us DESC"
);

/// Options of Query Store (since SQL Server 2016), its newest interval, and how long it has counted.
const QUERY_STORE: &str = "
    SELECT o.actual_state AS state, o.actual_state_desc AS state_name, o.query_capture_mode_desc AS capture_mode,
           o.readonly_reason AS readonly_reason,
           (SELECT MAX(i.runtime_stats_interval_id) FROM sys.query_store_runtime_stats_interval i) AS newest_interval,
           (SELECT DATEDIFF(second, MIN(i.start_time), SYSDATETIMEOFFSET()) FROM sys.query_store_runtime_stats_interval i) AS kept_seconds
    FROM sys.database_query_store_options o";

/// Like [`QUERIES`], from Query Store, for this database and from an interval on: growth between the looks occurs in these
/// intervals. A query of the open interval may have several rows, in memory and on disk. Failed executions count as well. The
/// text is the newest.
pub(super) fn stored(first_interval: f64) -> String {
    format!(
        "WITH counted AS (
             SELECT q.query_hash, MAX(q.query_text_id) AS text_id, SUM(r.count_executions) AS calls,
                    SUM(r.count_executions * r.avg_duration) AS us, SUM(r.count_executions * r.avg_logical_io_reads) AS page_reads,
                    SUM(r.count_executions * r.avg_rowcount) AS sent
             FROM sys.query_store_runtime_stats r
             JOIN sys.query_store_plan p ON p.plan_id = r.plan_id
             JOIN sys.query_store_query q ON q.query_id = p.query_id
             JOIN sys.query_store_query_text o ON o.query_text_id = q.query_text_id
             WHERE r.runtime_stats_interval_id >= {first_interval:.0} AND q.is_internal_query = 0
                   AND o.query_sql_text NOT LIKE '%{}%'
             GROUP BY q.query_hash)
         SELECT TOP (1000) CONVERT(varchar(20), c.query_hash, 1) AS id, c.calls AS calls, c.us AS us, c.page_reads AS page_reads,
                c.sent AS sent, SUBSTRING(t.query_sql_text, 1, 4000) AS query
         FROM counted c
         JOIN sys.query_store_query_text t ON t.query_text_id = c.text_id
         ORDER BY c.us DESC",
        ours!()
    )
}

/// The column exists since SQL Server 2017, and in service packs of earlier versions.
const SPILLS: &str = "
    SELECT CONVERT(varchar(20), q.query_hash, 1) AS id, SUM(q.total_spills) AS spilled
    FROM sys.dm_exec_query_stats q GROUP BY q.query_hash HAVING SUM(q.total_spills) > 0";

/// A session that is still logging in has a last request in 1900; the seconds since then would overflow an int.
const SESSIONS: &str = "
    SELECT CAST(s.session_id AS varchar(10)) AS id, s.status AS status, s.open_transaction_count AS transactions,
           CAST(DATEDIFF(minute, s.last_request_end_time, GETDATE()) AS bigint) * 60 AS idle_seconds,
           COALESCE(r.blocking_session_id, 0) AS blocked_by
    FROM sys.dm_exec_sessions s
    LEFT JOIN sys.dm_exec_requests r ON r.session_id = s.session_id
    WHERE s.is_user_process = 1 AND s.session_id <> @@SPID";

/// Databases that cannot be used. 0 is ONLINE, and 6 is OFFLINE, which is intentional.
const STATES: &str = "
    SELECT d.name AS name, d.state_desc AS state FROM sys.databases d WHERE d.state NOT IN (0, 6)";

/// Damaged pages: errors 823 or 824, a wrong checksum, a torn page. Repaired pages have other types.
const SUSPECT: &str = "
    SELECT COALESCE(DB_NAME(s.database_id), '?') AS name, COUNT(*) AS broken
    FROM msdb.dbo.suspect_pages s WHERE s.event_type IN (1, 2, 3) GROUP BY s.database_id";

const VOLUMES: &str = "
    SELECT v.volume_mount_point AS name, MAX(v.total_bytes) AS bytes, MIN(v.available_bytes) AS free_bytes
    FROM sys.database_files f
    CROSS APPLY sys.dm_os_volume_stats(DB_ID(), f.file_id) v
    GROUP BY v.volume_mount_point";

/// `FOR XML PATH` joins texts, because STRING_AGG exists only since 2017.
const INDEXES: &str = "
    SELECT CAST(i.object_id AS varchar(12)) + ':' + CAST(i.index_id AS varchar(12)) AS id,
           CAST(i.object_id AS varchar(12)) AS of_table, CAST(i.index_id AS varchar(12)) AS number,
           SCHEMA_NAME(t.schema_id) + '.' + t.name AS tab, i.name AS name, i.type_desc AS method, i.is_unique AS is_unique,
           i.is_disabled AS is_disabled, i.is_hypothetical AS is_hypothetical, COALESCE(i.filter_definition, '') AS filter,
           STUFF((SELECT ',' + CAST(k.column_id AS varchar(12)) + CASE k.is_descending_key WHEN 1 THEN 'd' ELSE 'a' END
                  FROM sys.index_columns k
                  WHERE k.object_id = i.object_id AND k.index_id = i.index_id AND k.key_ordinal > 0
                  ORDER BY k.key_ordinal FOR XML PATH('')), 1, 1, '') AS key_columns,
           STUFF((SELECT ',' + CAST(k.column_id AS varchar(12)) FROM sys.index_columns k
                  WHERE k.object_id = i.object_id AND k.index_id = i.index_id AND k.is_included_column = 1
                  ORDER BY k.column_id FOR XML PATH('')), 1, 1, '') AS included,
           (SELECT SUM(a.total_pages) * 8192 FROM sys.partitions p
            JOIN sys.allocation_units a ON a.container_id = p.hobt_id AND a.type = 1
            WHERE p.object_id = i.object_id AND p.index_id = i.index_id) AS bytes,
           CASE WHEN EXISTS (SELECT 1 FROM sys.index_columns k
                             JOIN sys.foreign_key_columns f
                                  ON f.parent_object_id = k.object_id AND f.parent_column_id = k.column_id
                             WHERE k.object_id = i.object_id AND k.index_id = i.index_id AND k.key_ordinal = 1)
                THEN 1 ELSE 0 END AS foreign_key,
           DATEDIFF(second, t.create_date, GETDATE()) AS made_seconds
    FROM sys.indexes i
    JOIN sys.tables t ON t.object_id = i.object_id
    WHERE i.index_id > 0 AND t.is_ms_shipped = 0";

const USES: &str = "
    SELECT CAST(u.object_id AS varchar(12)) + ':' + CAST(u.index_id AS varchar(12)) AS id,
           CAST(u.object_id AS varchar(12)) AS of_table, u.user_seeks + u.user_scans + u.user_lookups AS uses
    FROM sys.dm_db_index_usage_stats u WHERE u.database_id = DB_ID()";

/// Time since the last restore of the database, which resets the use counts of indexes. Excludes verification of a backup (V).
const RESTORED: &str = "
    SELECT DATEDIFF(second, MAX(r.restore_date), GETDATE()) AS seconds
    FROM msdb.dbo.restorehistory r WHERE r.destination_database_name = DB_NAME() AND r.restore_type <> 'V'";

/// Returns no rows for tables that the user may not see.
const STATISTICS: &str = "
    SELECT TOP (5000) SCHEMA_NAME(t.schema_id) + '.' + t.name AS tab, s.name AS name, p.rows AS table_rows,
           p.modification_counter AS modified
    FROM sys.stats s
    JOIN sys.tables t ON t.object_id = s.object_id
    CROSS APPLY sys.dm_db_stats_properties(s.object_id, s.stats_id) p
    WHERE t.is_ms_shipped = 0 ORDER BY p.modification_counter DESC";

/// Query for the leaf density of an index, from one in a hundred of its pages. The ids come from the catalog.
pub(super) fn density(index: &Row) -> String {
    let (table, number) = (or_zero(index, "of_table"), or_zero(index, "number"));
    format!(
        "SELECT SUM(d.avg_page_space_used_in_percent * d.page_count) / SUM(d.page_count) AS density
         FROM sys.dm_db_index_physical_stats(DB_ID(), {table:.0}, {number:.0}, NULL, 'SAMPLED') d
         WHERE d.index_level = 0 AND d.alloc_unit_type_desc = 'IN_ROW_DATA' AND d.page_count > 0"
    )
}

/// Columns that may hold blobs, in tables with at least a twentieth of all data. Allocation units are of rows (1), large values
/// (2) or overflowing rows (3). FILESTREAM data lie elsewhere.
pub(super) const COLUMNS: (&str, &str) = (
    "columns",
    "SELECT TOP (20) SCHEMA_NAME(t.schema_id) + '.' + t.name AS [table], c.name AS [column],
            QUOTENAME(SCHEMA_NAME(t.schema_id)) + '.' + QUOTENAME(t.name) AS sql_table, QUOTENAME(c.name) AS sql_column,
            z.table_rows AS [rows], z.table_bytes AS table_bytes, z.lob_bytes AS lob_bytes
     FROM sys.tables t
     JOIN sys.columns c ON c.object_id = t.object_id
     JOIN (SELECT p.object_id, SUM(CASE WHEN a.type = 1 AND p.index_id IN (0, 1) THEN p.rows ELSE 0 END) AS table_rows,
                  SUM(a.total_pages) * 8192 AS table_bytes,
                  SUM(CASE a.type WHEN 2 THEN a.total_pages ELSE 0 END) * 8192 AS lob_bytes
           FROM sys.partitions p
           JOIN sys.allocation_units a ON a.container_id = CASE a.type WHEN 2 THEN p.partition_id ELSE p.hobt_id END
           GROUP BY p.object_id) z ON z.object_id = t.object_id
     WHERE t.is_ms_shipped = 0 AND c.is_computed = 0 AND c.is_filestream = 0
           AND (c.max_length = -1 OR c.max_length >= 1000 OR TYPE_NAME(c.system_type_id) IN ('image', 'text', 'ntext'))
           AND z.table_bytes * 20 > (SELECT SUM(a.total_pages) * 8192 FROM sys.allocation_units a)
     ORDER BY z.table_bytes DESC",
);

/// Query for the lengths of at most 2,000 values: on randomly chosen pages of a large table, the first ones of a small table.
pub(super) fn lengths(column: &Row) -> String {
    const SMALL_ROWS: f64 = 10_000.0;
    let sample = if or_zero(column, "rows") > SMALL_ROWS { " TABLESAMPLE SYSTEM (4000 ROWS)" } else { "" };
    format!(
        "SELECT TOP (2000) DATALENGTH({}) AS length FROM {}{sample}",
        text(column, "sql_column"),
        text(column, "sql_table")
    )
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::Statement;

    use super::super::grammar::{parse, reads_what_is_documented};
    use super::*;

    fn all() -> Vec<(&'static str, String)> {
        let index = serde_json::json!({ "of_table": "5", "number": "2" });
        let column = |rows: u32| {
            let column = serde_json::json!({ "sql_table": "[dbo].[t]", "sql_column": "[c]", "rows": rows });
            lengths(column.as_object().unwrap())
        };
        let others = [VERSION, COLUMNS, ("ping", PING), ("memory", IN_MEMORY)];
        let fixed = SOURCES.iter().chain(LAST).chain(&others);
        let mut all: Vec<(&str, String)> = fixed.map(|(name, sql)| (*name, said(name, sql))).collect();
        all.push(("session", SESSION.to_owned()));
        all.push(("stored", said("stored", &stored(7.0))));
        all.push(("density", said("density", &density(index.as_object().unwrap()))));
        all.extend([10, 100_000].map(|rows| ("lengths", said("lengths", &column(rows)))));
        all
    }

    #[test]
    fn the_server_would_understand() {
        for (_, sql) in all() {
            reads_what_is_documented(&parse(&sql, &[]));
        }
    }

    #[test]
    fn it_only_reads() {
        for (name, sql) in all() {
            for statement in parse(&sql, &[]) {
                let is_fine = match statement {
                    Statement::Query(_) => true,
                    Statement::Set(_) => name == "session",
                    _ => false,
                };
                assert!(is_fine, "{name}: {sql}");
            }
            // After the first word, where no server removes it.
            let (word, rest) = sql.split_once(' ').unwrap();
            assert!(
                name == "session" || ["SELECT", "WITH"].contains(&word) && rest.starts_with(ours!()),
                "{sql}"
            );
            // No row locks, and no hints of any kind.
            assert!(!sql.contains(" WITH ("), "{sql}");
        }
    }
}
