//! What a run makes in the user's PostgreSQL, other receivers of its writes, and the free space of its disk, as far as it is
//! known.

use super::{SOCKET_PATIENCE, instance, rights};
use crate::host::machine::LocalServerProcess;
use crate::store::*;
use crate::stores::common::certificate::check_theirs;
use crate::stores::common::disk;
use crate::stores::common::servers::OURS;
use crate::units;
use crate::wire::postgres::PostgresClient;

/// The server's answers, one per row. Settings that the user may not see are empty.
const TOLD: &str = "SELECT unnest(ARRAY[
    current_database()::text,
    current_setting('archive_mode'),
    (SELECT count(*)::text FROM pg_stat_replication),
    (SELECT count(*)::text FROM pg_replication_slots),
    coalesce((SELECT setting FROM pg_settings WHERE name = 'data_directory'), ''),
    coalesce((SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = coalesce(
        nullif(current_setting('default_tablespace'), ''),
        (SELECT spcname FROM pg_tablespace t JOIN pg_database d ON d.dattablespace = t.oid WHERE datname = current_database()))), ''),
    greatest(pg_size_bytes(current_setting('max_wal_size')), pg_size_bytes(current_setting('wal_keep_size', true)))::text,
    CASE WHEN current_setting('log_statement') IN ('mod', 'all') THEN 'log_statement ' || current_setting('log_statement')
        WHEN current_setting('log_min_duration_statement') = '0' THEN 'log_min_duration_statement 0'
        WHEN current_setting('pgaudit.log', true) ~* '(^|[ ,])(all|write)' THEN 'pgaudit.log ' || current_setting('pgaudit.log')
        ELSE '' END,
    current_setting('max_connections'),
    (current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
        - (SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database))::text,
    pg_backend_pid()::text,
    coalesce((SELECT extract(epoch FROM clock_timestamp() - backend_start)::text FROM pg_stat_activity WHERE pid = pg_backend_pid()), '')
])";

pub(super) fn intent(setup: &Setup) -> Result<Intent> {
    check_theirs(setup.options)?;
    let config = instance::config_of(setup.options.text("url"), setup.op_timeout + SOCKET_PATIENCE)?;
    let mut admin = PostgresClient::connect_to_theirs(&config)
        .map_err(|trouble| rights::of_connection(trouble, &config))?;
    let told = admin.texts(TOLD, &[])?;
    let told: [String; 12] = told.try_into().map_err(|told: Vec<String>| {
        Error::Failed(anyhow::anyhow!("the server gives {} answers to 12 questions", told.len()))
    })?;
    let [
        database,
        archive,
        replicas,
        slots,
        data,
        tablespace,
        wal_bytes,
        statements,
        connections,
        connections_left,
        backend,
        age,
    ] = told;
    let servers = match (backend.parse(), age.parse()) {
        (Ok(backend), Ok(age)) => LocalServerProcess::matching(backend, &["postgres"], age, &data),
        _ => Vec::new(),
    };
    let server = servers.first().copied().filter(|_| servers.len() == 1);
    // The log is in the data directory, or behind a link in it. Whatever its size, it is kept until the archive and every holder of
    // a slot have it, which may be never.
    let wal_bytes = match (archive.as_str(), slots.as_str()) {
        ("off", "0") => wal_bytes.parse().unwrap_or(0),
        _ => u64::MAX,
    };
    let dirs = [&data, &tablespace].into_iter().filter(|dir| !dir.is_empty());
    let rooms_of = |server: LocalServerProcess| {
        let of_data = move |demand: &Demand<'_>| tables(demand) + logged(demand, wal_bytes);
        let rooms = dirs.flat_map(|dir| disk::rooms(server, "data directory", dir, "stops", of_data));
        let log = format!("{data}/pg_wal");
        let of_log = move |demand: &Demand<'_>| logged(demand, wal_bytes);
        rooms.chain(disk::rooms_of_log(server, ["log", &log, &data], "stops", of_log)).collect()
    };
    let mut limits: Vec<ServerLimit> = server.map_or_else(Vec::new, rooms_of);
    let unknown = limits.is_empty().then(|| match (servers.is_empty(), data.as_str()) {
        (false, "") => "its data directory is shown to members of `pg_read_all_settings` only".to_owned(),
        _ => "PostgreSQL does not say what its disk has free, and it is not seen to run on this machine"
            .to_owned(),
    });
    let left = connections_left.parse::<i64>().ok().map(|left| left.max(0).unsigned_abs());
    limits.extend(left.map(|left| ServerLimit::connections(format!("max_connections {connections}"), left)));
    Ok(Intent {
        makes: format!("makes a schema `{OURS}...` in the database `{database}`"),
        pronoun: "it",
        limits,
        unknown,
        carriers: carriers(&archive, &replicas, &slots, &statements),
    })
}

/// Bytes of tables, whose space is not reused before a vacuum.
fn tables(demand: &Demand<'_>) -> u64 {
    // Small pieces have an overhead of up to a third.
    demand.written(|bytes| bytes + bytes / 3 + 512)
}

/// Bytes of the log, which is recycled at its limit.
fn logged(demand: &Demand<'_>, wal_bytes: u64) -> u64 {
    2 * tables(demand).min(wal_bytes)
}

/// Other receivers of the log, and of the statements with their blobs.
fn carriers(archive: &str, replicas: &str, slots: &str, statements: &str) -> Vec<String> {
    let counted = |count: &str, thing| {
        let count = count.parse::<u64>().ok().filter(|count| *count > 0)?;
        Some(units::counted(count, thing))
    };
    let archive = (archive != "off").then(|| format!("the archive of its log (archive_mode {archive})"));
    let replicas = counted(replicas, "replica");
    let statements = (!statements.is_empty()).then(|| format!("its log of statements ({statements})"));
    archive.into_iter().chain(replicas).chain(counted(slots, "replication slot")).chain(statements).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_the_log_is_told() {
        assert!(carriers("off", "0", "0", "").is_empty());
        assert_eq!(
            carriers("on", "2", "1", "log_statement mod"),
            [
                "the archive of its log (archive_mode on)",
                "2 replicas",
                "1 replication slot",
                "its log of statements (log_statement mod)"
            ]
        );
    }
}
