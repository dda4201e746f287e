//! Queries to MySQL and MariaDB: statistics and catalogs, and only lengths from users' tables.

use crate::doctor::facts::{Row, or_zero, text};

pub(super) const READ: &[&str] = &[
    "aborted_connects",
    "created_tmp_disk_tables",
    "created_tmp_tables",
    "innodb_buffer_pool_read_ahead",
    "innodb_buffer_pool_read_ahead_rnd",
    "innodb_buffer_pool_read_requests",
    "innodb_buffer_pool_reads",
    "innodb_buffer_pool_size",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_pages_read",
    "innodb_read_only",
    "innodb_row_lock_current_waits",
    "innodb_row_lock_time",
    "innodb_row_lock_waits",
    "innodb_stats_auto_recalc",
    "max_connections",
    "performance_schema",
    "read_only",
    "threads_connected",
    "uptime",
    "uptime_since_flush_status",
];

/// Queries of each look, by the name of their source.
pub(super) const SOURCES: &[(&str, &str)] = &[
    ("data", DATA),
    ("digests", DIGESTS),
    ("scans", SCANS),
    ("reads", READS),
    ("table-reads", TABLE_READS),
    ("indexes", INDEXES),
    ("replicas", REPLICAS),
];

/// The server's own schemas.
macro_rules! own {
    () => {
        "('mysql', 'sys', 'performance_schema', 'information_schema')"
    };
}

const DATA: &str = concat!(
    "SELECT COALESCE(SUM(data_length + index_length), 0) + 0e0 AS bytes FROM information_schema.tables
     WHERE engine = 'InnoDB' AND table_schema NOT IN ",
    own!()
);

/// Constants are replaced by placeholders there. Statements of this connection are excluded by the tables that they read.
const DIGESTS: &str = concat!(
    "SELECT CONCAT(COALESCE(schema_name, ''), ' ', digest) AS id, LEFT(digest_text, 200) AS query, count_star AS calls,
            sum_timer_wait AS ps, sum_rows_examined AS examined, sum_rows_sent AS sent, sum_rows_affected AS affected
     FROM performance_schema.events_statements_summary_by_digest
     WHERE digest IS NOT NULL AND (schema_name IS NULL OR schema_name NOT IN ",
    own!(),
    ") AND digest_text NOT LIKE 'SHOW %' AND digest_text NOT LIKE '%performance_schema%' AND digest_text NOT LIKE '%information_schema%'
     ORDER BY sum_timer_wait DESC LIMIT 1000"
);

/// Rows read of each table by each index, and without an index.
const SCANS: &str = concat!(
    "SELECT CONCAT(s.object_schema, '.', s.object_name, ' ', COALESCE(s.index_name, '')) AS id,
            CONCAT(s.object_schema, '.', s.object_name) AS name, s.index_name AS index_name, s.count_read AS row_reads, s.count_star AS uses,
            t.table_rows AS table_rows, TIMESTAMPDIFF(SECOND, t.create_time, NOW()) AS made_seconds
     FROM performance_schema.table_io_waits_summary_by_index_usage s
     JOIN information_schema.tables t ON t.table_schema = s.object_schema AND t.table_name = s.object_name
     WHERE s.object_schema NOT IN ",
    own!(),
    " LIMIT 5000"
);

const READS: &str =
    "SELECT sum_timer_read AS ps, count_read AS calls FROM performance_schema.file_summary_by_event_name
                     WHERE event_name = 'wait/io/file/innodb/innodb_data_file'";

/// Bytes read of each table's file, by schema and table name instead of its path.
const TABLE_READS: &str = "
    SELECT REPLACE(REPLACE(SUBSTRING_INDEX(file_name, '/', -2), '.ibd', ''), '/', '.') AS name, sum_number_of_bytes_read AS bytes
    FROM performance_schema.file_summary_by_instance WHERE event_name = 'wait/io/file/innodb/innodb_data_file' LIMIT 5000";

/// An indexed expression has no column name, so it is made different from all others.
const INDEXES: &str = concat!(
    "SELECT CONCAT(table_schema, '.', table_name, '.', index_name) AS id, CONCAT(table_schema, '.', table_name) AS tab,
            index_name AS name, MAX(index_type) AS method, MIN(non_unique) AS non_unique,
            GROUP_CONCAT(CONCAT(COALESCE(column_name, CONCAT('(', index_name, ')')), ':', COALESCE(sub_part, ''), ':', COALESCE(collation, '')) ORDER BY seq_in_index SEPARATOR ',') AS cols
     FROM information_schema.statistics WHERE table_schema NOT IN ",
    own!(),
    " GROUP BY table_schema, table_name, index_name LIMIT 5000"
);

const REPLICAS: &str =
    "SELECT COUNT(*) AS dumps FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'";

/// Rows changed since the statistics of a table were made, as counted by InnoDB.
pub(super) fn modified(table: &str) -> String {
    format!(
        "SELECT REPLACE(name, '/', '.') AS name, num_rows AS table_rows, modified_counter AS modified
         FROM information_schema.{table} WHERE name NOT LIKE 'mysql/%' AND name NOT LIKE 'sys/%' LIMIT 5000"
    )
}

/// Columns that may hold blobs, in tables with at least a twentieth of all data.
pub(super) const COLUMNS: &str = concat!(
    "SELECT CONCAT(c.table_schema, '.', c.table_name) AS `table`, c.column_name AS `column`,
            CONCAT('`', REPLACE(c.table_schema, '`', '``'), '`.`', REPLACE(c.table_name, '`', '``'), '`') AS sql_table,
            CONCAT('`', REPLACE(c.column_name, '`', '``'), '`') AS sql_column,
            t.table_rows AS `rows`, t.data_length + t.index_length AS table_bytes
     FROM information_schema.columns c
     JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
     WHERE t.engine = 'InnoDB' AND t.table_schema NOT IN ",
    own!(),
    " AND c.data_type IN ('tinyblob', 'blob', 'mediumblob', 'longblob', 'varbinary', 'text', 'mediumtext', 'longtext', 'json')
      AND t.data_length * 20 > (SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema NOT IN ",
    own!(),
    ") ORDER BY t.data_length DESC LIMIT 20"
);

/// Query for the lengths of values: of the first rows in primary key order, because no other sample reads few pages.
pub(super) fn lengths(column: &Row) -> String {
    // The length of a value stored out of line is in its row.
    let rows = if or_zero(column, "rows") > 0.0 { 2000 } else { 200 };
    format!(
        "SELECT OCTET_LENGTH({}) AS length FROM {} LIMIT {rows}",
        text(column, "sql_column"),
        text(column, "sql_table")
    )
}
