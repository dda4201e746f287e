//! What a run makes in the user's MySQL or MariaDB, other receivers of its writes, and the free space of its disk, as far as it
//! is known.

use std::path::Path;

use mysql::Conn;
use mysql::prelude::{FromRow, Queryable};

use super::{MySqlProduct, opts_of_theirs};
use crate::host::machine::LocalServerProcess;
use crate::store::*;
use crate::stores::common::disk;
use crate::stores::common::servers::OURS;
use crate::units;

/// What the server does on a full disk.
const WHEN_FULL: &str = "waits or refuses every write";

/// The last value lists the logs that get every statement, with the blobs in it.
const TOLD: &str = "SELECT @@log_bin, @@datadir, @@log_bin_basename, @@max_connections,
    CONCAT_WS(', ', IF(@@general_log, 'general_log', NULL), IF(@@slow_query_log AND @@long_query_time = 0, 'slow_query_log', NULL))";

pub(super) fn intent(setup: &Setup, flavour: MySqlProduct) -> Result<Intent> {
    let mut admin = Conn::new(opts_of_theirs(setup, flavour)?)?;
    let told: Option<(bool, String, Option<String>, u64, String)> = admin.query_first(TOLD)?;
    let (has_log, data, log, connections, statements) = told.unwrap_or_default();
    let takes = move |demand: &Demand<'_>| taken(demand, has_log);
    let mut limits = Vec::new();
    if let Some(server) = beside(&mut admin, flavour, &data) {
        limits = disk::rooms(server, "data directory", &data, WHEN_FULL, takes);
        let log =
            log.filter(|_| has_log).and_then(|log| Some(Path::new(&log).parent()?.display().to_string()));
        let of_log = |log: String| disk::rooms_of_log(server, ["binary log", &log, &data], WHEN_FULL, logged);
        limits.extend(log.into_iter().flat_map(of_log));
    } else if let Some(left) = told_free(&mut admin, &data) {
        let limit = format!("the disk of its data directory `{data}`");
        limits.push(ServerLimit::disk(limit, left, WHEN_FULL, takes));
    }
    let why = match flavour {
        MySqlProduct::MySql => {
            "MySQL does not say what its disk has free, and it is not seen to run on this machine"
        }
        MySqlProduct::MariaDb => {
            "MariaDB says what its disk has free only with the plugin DISKS and to users with the right FILE, and it is not seen to run on \
             this machine"
        }
    };
    let unknown = limits.is_empty().then(|| why.to_owned());
    if let Some((_, used)) = first::<(String, u64)>(&mut admin, "SHOW GLOBAL STATUS LIKE 'Threads_connected'")
    {
        let left = connections.saturating_sub(used);
        limits.push(ServerLimit::connections(format!("max_connections {connections}"), left));
    }
    Ok(Intent {
        makes: format!("makes a database `{OURS}...`"),
        pronoun: "it",
        unknown,
        limits,
        carriers: carriers(&mut admin, has_log, &statements),
    })
}

/// The first row of a result; `None` if there is none, the user lacks the privilege, or the server does not support the query.
fn first<T: FromRow>(admin: &mut Conn, sql: &str) -> Option<T> {
    admin.query_first(sql).ok().flatten()
}

/// The server's process if it is on this machine, found by the thread that serves this connection.
fn beside(admin: &mut Conn, flavour: MySqlProduct, data: &str) -> Option<LocalServerProcess> {
    let thread = match flavour {
        MySqlProduct::MySql => {
            "SELECT thread_os_id FROM performance_schema.threads WHERE processlist_id = CONNECTION_ID()"
        }
        MySqlProduct::MariaDb => "SELECT tid FROM information_schema.processlist WHERE id = CONNECTION_ID()",
    };
    let thread: u32 = first(admin, thread)?;
    let (_, up): (String, f64) = first(admin, "SHOW GLOBAL STATUS LIKE 'Uptime'")?;
    LocalServerProcess::find(thread, &["mariadbd", "mysqld"], up, data)
}

/// Free bytes for the data directory, by MariaDB's plugin DISKS: of the mount with the longest matching path.
fn told_free(admin: &mut Conn, data: &str) -> Option<u64> {
    let disks: Vec<(String, u64)> =
        admin.query("SELECT path, available FROM information_schema.disks").ok()?;
    let below = disks.into_iter().filter(|(path, _)| Path::new(data).starts_with(path));
    below.max_by_key(|(path, _)| path.len()).map(|(_, kib)| kib << 10)
}

/// Bytes of pages, none of which may be reused before the purge, and of the binary log, which keeps every write.
fn taken(demand: &Demand<'_>, has_log: bool) -> u64 {
    /// Empty tables, and one growth step of the system tablespace (`innodb_autoextend_increment`).
    const TABLES_BYTES: u64 = (16 << 20) + (64 << 20);
    // A value has pages of its own; below half a page it is in the row.
    let of = |bytes: u64| if bytes < 8000 { 2 * bytes + 512 } else { bytes + bytes / 3 + (32 << 10) };
    TABLES_BYTES + demand.written(of) + if has_log { logged(demand) } else { 0 }
}

/// Bytes of the binary log, which holds each blob up to twice: as it is written, and as it was when it is replaced or deleted
/// (`binlog_row_image`).
fn logged(demand: &Demand<'_>) -> u64 {
    2 * demand.written(|bytes| bytes + bytes / 20 + 512)
}

/// Other receivers of every write.
fn carriers(admin: &mut Conn, has_log: bool, statements: &str) -> Vec<String> {
    let mut carriers: Vec<String> = has_log.then(|| "its binary log".to_owned()).into_iter().collect();
    if has_log {
        // The statement was renamed in MariaDB 10.5 and MySQL 8.0.22. Not every user may run it.
        let mut rows = |sql: &str| admin.query::<mysql::Row, _>(sql).ok().map(|rows| rows.len());
        let replicas = rows("SHOW REPLICAS").or_else(|| rows("SHOW SLAVE HOSTS")).unwrap_or(0);
        carriers.extend((replicas > 0).then(|| units::counted(replicas as u64, "replica")));
    }
    carriers.extend((!statements.is_empty()).then(|| format!("its log of statements ({statements})")));
    carriers
}
