//! Checks statements against a parser's grammar of SQL Server, and the columns they read against Microsoft's documentation,
//! because the tests have no server to reject them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use sqlparser::ast::{Expr, ObjectName, Statement, TableFactor, Visit, Visitor};
use sqlparser::dialect::MsSqlDialect;
use sqlparser::parser::Parser;

/// Documented syntax of SQL Server that the parser does not support.
pub struct UnsupportedSyntax {
    /// The unsupported words.
    pub words: &'static str,
    /// A supported replacement, so that the rest of the statement is still checked.
    pub instead: &'static str,
    /// The page that documents them.
    pub documented: &'static str,
}

/// Parses a statement and panics if it is invalid. Every exception must be needed: one that the parser supports by now must be
/// removed from the list.
pub fn parse(sql: &str, unknown: &[UnsupportedSyntax]) -> Vec<Statement> {
    let parsed = |sql: &str| Parser::parse_sql(&MsSqlDialect {}, sql);
    let lacking: Vec<&UnsupportedSyntax> =
        unknown.iter().filter(|unknown| sql.contains(unknown.words)).collect();
    if lacking.is_empty() {
        return parsed(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    }
    let words: Vec<&str> = lacking.iter().map(|unknown| unknown.words).collect();
    assert!(parsed(sql).is_err(), "the parser understands {words:?} by now: {sql}");
    let replaced =
        lacking.iter().fold(sql.to_owned(), |sql, unknown| sql.replace(unknown.words, unknown.instead));
    parsed(&replaced).unwrap_or_else(|error| panic!("{error}: {replaced}"))
}

/// Checks that each exception occurs in a statement and names its documentation.
pub fn all_are_met<'s>(statements: impl Iterator<Item = &'s str>, unknown: &[UnsupportedSyntax]) {
    let statements: Vec<&str> = statements.collect();
    for lack in unknown {
        assert!(statements.iter().any(|sql| sql.contains(lack.words)), "nobody says `{}`", lack.words);
        assert!(!lack.documented.is_empty());
    }
}

/// What statements read: the views and functions by alias, and the columns by alias.
#[derive(Default)]
struct ReadSources {
    views: BTreeMap<String, BTreeSet<String>>,
    columns: BTreeSet<(String, String)>,
}

impl Visitor for ReadSources {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias: Some(alias), .. } = factor {
            self.views.entry(alias.name.value.clone()).or_default().insert(plain(name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [alias, column] = parts.as_slice()
        {
            self.columns.insert((alias.value.clone(), column.value.clone()));
        }
        ControlFlow::Continue(())
    }
}

fn plain(name: &ObjectName) -> String {
    let parts = name.0.iter().filter_map(|part| part.as_ident());
    parts.map(|part| part.value.to_lowercase()).collect::<Vec<_>>().join(".")
}

/// Checks that every system view that statements read is in the documentation list, with every column that they read of it.
pub fn reads_what_is_documented(statements: &[Statement]) {
    let mut read = ReadSources::default();
    assert_eq!(statements.to_vec().visit(&mut read), ControlFlow::Continue(()));
    for (alias, column) in &read.columns {
        let Some(views) = read.views.get(alias) else { continue };
        let of_system = views.iter().filter(|view| view.starts_with("sys.") || view.starts_with("msdb."));
        let pages: Vec<&str> = of_system.map(|view| documented(view)).collect();
        let is_there = pages.iter().any(|page| page.split_whitespace().any(|name| name == column.as_str()));
        assert!(pages.is_empty() || is_there, "{views:?} have no `{column}`");
    }
}

fn documented(view: &str) -> &'static str {
    let page = DOCUMENTED.iter().find(|(name, _)| *name == view);
    page.unwrap_or_else(|| panic!("no page of `{view}` was read")).1
}

/// Columns of each view, by Microsoft's documentation (SQL Server 2016 and later; those of 2014 among them). From long pages,
/// only columns that might be of use.
const DOCUMENTED: &[(&str, &str)] = &[
    (
        "sys.dm_os_sys_info",
        "cpu_count physical_memory_kb committed_kb committed_target_kb scheduler_count sqlserver_start_time",
    ),
    (
        "sys.dm_os_sys_memory",
        "total_physical_memory_kb available_physical_memory_kb total_page_file_kb available_page_file_kb system_cache_kb \
         system_high_memory_signal_state system_low_memory_signal_state system_memory_state_desc",
    ),
    (
        "sys.dm_os_process_memory",
        "physical_memory_in_use_kb large_page_allocations_kb locked_page_allocations_kb page_fault_count \
         memory_utilization_percentage process_physical_memory_low process_virtual_memory_low",
    ),
    ("sys.dm_os_performance_counters", "object_name counter_name instance_name cntr_value cntr_type"),
    (
        "sys.dm_os_wait_stats",
        "wait_type waiting_tasks_count wait_time_ms max_wait_time_ms signal_wait_time_ms",
    ),
    (
        "sys.dm_os_schedulers",
        "scheduler_id cpu_id status is_online is_idle current_tasks_count runnable_tasks_count work_queue_count",
    ),
    (
        "sys.dm_os_volume_stats",
        "database_id file_id volume_mount_point volume_id logical_volume_name file_system_type total_bytes available_bytes",
    ),
    (
        "sys.dm_io_virtual_file_stats",
        "database_id file_id sample_ms num_of_reads num_of_bytes_read io_stall_read_ms num_of_writes num_of_bytes_written \
         io_stall_write_ms io_stall size_on_disk_bytes file_handle",
    ),
    (
        "sys.dm_os_buffer_descriptors",
        "database_id file_id page_id page_level allocation_unit_id page_type row_count free_space_in_bytes is_modified numa_node \
         read_microsec is_in_bpool_extension",
    ),
    (
        "sys.dm_db_index_operational_stats",
        "database_id object_id index_id partition_number range_scan_count singleton_lookup_count lob_fetch_in_pages lob_fetch_in_bytes \
         row_overflow_fetch_in_pages row_overflow_fetch_in_bytes page_io_latch_wait_count page_io_latch_wait_in_ms",
    ),
    (
        "sys.dm_db_index_usage_stats",
        "database_id object_id index_id user_seeks user_scans user_lookups user_updates last_user_seek last_user_scan",
    ),
    ("sys.dm_db_missing_index_groups", "index_group_handle index_handle"),
    (
        "sys.dm_db_missing_index_group_stats",
        "group_handle unique_compiles user_seeks user_scans last_user_seek last_user_scan avg_total_user_cost avg_user_impact",
    ),
    (
        "sys.dm_db_missing_index_details",
        "index_handle database_id object_id equality_columns inequality_columns included_columns statement",
    ),
    (
        "sys.dm_db_stats_properties",
        "object_id stats_id last_updated rows rows_sampled steps unfiltered_rows modification_counter persisted_sample_percent",
    ),
    (
        "sys.dm_db_index_physical_stats",
        "database_id object_id index_id partition_number index_type_desc alloc_unit_type_desc index_depth index_level \
         avg_fragmentation_in_percent fragment_count avg_fragment_size_in_pages page_count avg_page_space_used_in_percent record_count",
    ),
    (
        "sys.dm_exec_query_stats",
        "sql_handle statement_start_offset statement_end_offset plan_handle creation_time last_execution_time execution_count \
         total_worker_time total_physical_reads total_logical_writes total_logical_reads total_elapsed_time query_hash query_plan_hash \
         total_rows total_spills",
    ),
    (
        "sys.database_query_store_options",
        "desired_state desired_state_desc actual_state actual_state_desc readonly_reason current_storage_size_mb flush_interval_seconds \
         interval_length_minutes max_storage_size_mb stale_query_threshold_days query_capture_mode query_capture_mode_desc",
    ),
    ("sys.query_store_runtime_stats_interval", "runtime_stats_interval_id start_time end_time comment"),
    (
        "sys.query_store_runtime_stats",
        "runtime_stats_id plan_id runtime_stats_interval_id execution_type execution_type_desc first_execution_time last_execution_time \
         count_executions avg_duration avg_cpu_time avg_logical_io_reads avg_logical_io_writes avg_physical_io_reads avg_rowcount",
    ),
    (
        "sys.query_store_plan",
        "plan_id query_id plan_group_id engine_version query_plan_hash query_plan is_trivial_plan",
    ),
    (
        "sys.query_store_query",
        "query_id query_text_id context_settings_id object_id batch_sql_handle query_hash is_internal_query last_execution_time",
    ),
    (
        "sys.query_store_query_text",
        "query_text_id query_sql_text statement_sql_handle is_part_of_encrypted_module has_restricted_text",
    ),
    ("sys.dm_exec_sql_text", "dbid objectid number encrypted text"),
    (
        "sys.dm_exec_sessions",
        "session_id login_time host_name program_name status cpu_time last_request_start_time last_request_end_time is_user_process \
         database_id open_transaction_count",
    ),
    (
        "sys.dm_exec_requests",
        "session_id request_id start_time status command sql_handle database_id blocking_session_id wait_type wait_time wait_resource",
    ),
    (
        "sys.configurations",
        "configuration_id name value minimum maximum value_in_use description is_dynamic is_advanced",
    ),
    (
        "sys.databases",
        "name database_id create_date compatibility_level is_read_only state state_desc recovery_model_desc page_verify_option_desc \
         is_auto_close_on is_auto_create_stats_on is_auto_update_stats_on is_read_committed_snapshot_on replica_id delayed_durability_desc",
    ),
    (
        "sys.database_files",
        "file_id type type_desc data_space_id name physical_name state size max_size growth",
    ),
    ("sys.schemas", "name schema_id principal_id"),
    (
        "sys.tables",
        "name object_id principal_id schema_id type create_date modify_date is_ms_shipped lob_data_space_id",
    ),
    (
        "sys.columns",
        "object_id name column_id system_type_id user_type_id max_length precision scale is_nullable is_identity is_computed is_filestream",
    ),
    ("sys.partitions", "partition_id object_id index_id partition_number hobt_id rows data_compression"),
    (
        "sys.allocation_units",
        "allocation_unit_id type type_desc container_id data_space_id total_pages used_pages data_pages",
    ),
    (
        "sys.indexes",
        "object_id name index_id type type_desc is_unique is_primary_key is_unique_constraint fill_factor is_disabled is_hypothetical \
         has_filter filter_definition",
    ),
    (
        "sys.index_columns",
        "object_id index_id index_column_id column_id key_ordinal partition_ordinal is_descending_key is_included_column",
    ),
    (
        "sys.foreign_key_columns",
        "constraint_object_id constraint_column_id parent_object_id parent_column_id referenced_object_id referenced_column_id",
    ),
    (
        "sys.stats",
        "object_id name stats_id auto_created user_created no_recompute has_filter filter_definition",
    ),
    (
        "msdb.dbo.restorehistory",
        "restore_history_id restore_date destination_database_name user_name backup_set_id restore_type replace recovery",
    ),
    ("msdb.dbo.suspect_pages", "database_id file_id page_id event_type error_count last_update_date"),
];

#[test]
fn what_is_wrong_is_found() {
    use std::panic::catch_unwind;
    assert!(catch_unwind(|| parse("SELECT FROM WHERE", &[])).is_err());
    let odd = parse("SELECT i.nonsense FROM sys.dm_os_sys_info i", &[]);
    assert!(catch_unwind(|| reads_what_is_documented(&odd)).is_err());
    let unread = parse("SELECT x.y FROM sys.dm_nonsense x", &[]);
    assert!(catch_unwind(|| reads_what_is_documented(&unread)).is_err());
    reads_what_is_documented(&parse("SELECT i.cpu_count FROM sys.dm_os_sys_info i", &[]));
}
