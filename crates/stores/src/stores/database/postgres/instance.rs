//! The server behind PostgreSQL's candidates: a private one, or a schema of our own in the user's.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context;

use super::release;
use super::segments::Segments;
use crate::host::server::{Launch, Server, SocketDir, from_cache, run_to_end, write_secret};
use crate::store::*;
use crate::stores::common;
use crate::stores::common::certificate::TlsPort;
use crate::stores::common::removal::{PATIENCE, remove_all};
use crate::stores::common::servers::{
    self, OURS, PlaceKind, START_PATIENCE, STOP_PATIENCE, connections, is_our_name, own_name,
};
use crate::wire::postgres::{ConnectionParameters, PostgresClient, StatementParameter};

/// The superuser of a private server.
pub(super) const USER: &str = "blobwise";
/// The database of a private server. Large objects of candidates that share a server have databases of their own.
pub(super) const DATABASE: &str = "postgres";
/// The comment that marks a schema as ours.
const MARK: &str = "made by blobwise, removed by it";
/// The only schema of a private server.
pub(super) const PRIVATE_SCHEMA: &str = "store";
pub(super) const SCHEMA: PlaceKind = PlaceKind("schema");
/// Our database in a server that candidates share.
const OWN_DATABASE: PlaceKind = PlaceKind("database");
/// Timeout of a backup, which grows with the store and is not an op.
const BACKUP_PATIENCE: Duration = Duration::from_secs(3600);
/// First half of the key of the advisory lock that marks a schema as in use; the second is the schema's hash.
const LOCK_CLASS: i32 = 0x626c_6f62;

pub(super) struct PostgresServer {
    pub(super) server: Server,
    /// Path of `pg_basebackup`, which may not be installed.
    base_backup: PathBuf,
    sockets: SocketDir,
    /// Where sessions connect, if not to the socket.
    tls: Option<TlsPort>,
    /// Empty databases of removed stores, for reuse. Dropping a database and creating another takes most of a second, nearly all
    /// of it for the 300 files of a database.
    free_databases: Mutex<Vec<String>>,
}

impl PostgresServer {
    /// The name of a server that all candidates of the run with the same settings share.
    pub(super) fn shared_name(setup: &Setup) -> String {
        let of = ["profile", "version", "io_method", "tls"].map(|name| setup.options.text(name)).join("-");
        format!("postgres-{of}-{}-{}", setup.workers, setup.cache_bytes)
    }

    pub(super) fn start(dir: &Path, mode: Mode, setup: &Setup, patience: Duration) -> Result<PostgresServer> {
        let program = release::find(setup.options)?;
        let data = dir.join("data");
        if mode == Mode::Create {
            let checksums = checksums(&program.version, setup.options.text("profile"));
            let mut name: String =
                program.version.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            name.extend(checksums);
            let initdb = program.path.with_file_name("initdb");
            from_cache(&setup.common.cache_dir, &name, &data, |draft| {
                // Without syncs: what a crash spoils is created again.
                let options = ["-U", USER, "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync"];
                let launch = Launch::new(&initdb, dir).arg("-D").arg(draft).args(options).args(checksums);
                let before = Segments::now();
                run_to_end(&launch, START_PATIENCE).inspect_err(|_| before.remove_newer())
            })?;
        }
        TlsPort::start(dir, setup, |tls| {
            PostgresServer::listening(dir, &program.path, settings(setup), tls, patience)
        })
    }

    fn listening(
        dir: &Path,
        program: &Path,
        settings: Vec<String>,
        tls: Option<&TlsPort>,
        patience: Duration,
    ) -> Result<PostgresServer> {
        let sockets = SocketDir::make(".s.PGSQL.65535")?;
        let listens = format!("unix_socket_directories={}", sockets.path().display());
        let secured = match tls {
            Some(tls) => with_tls(dir, tls)?,
            None => vec!["listen_addresses=".to_owned()],
        };
        let mut launch = Launch::new(program, dir).arg("-D").arg(dir.join("data"));
        for setting in settings.into_iter().chain([listens]).chain(secured) {
            launch = launch.arg("-c").arg(setting);
        }
        let server = Server::start(&launch)?;
        let mut instance = PostgresServer {
            server,
            base_backup: beside(program, "pg_basebackup"),
            sockets,
            tls: tls.cloned(),
            free_databases: Mutex::default(),
        };
        let config = instance.config(patience)?;
        let mut refused = None;
        let answers = || match PostgresClient::connect(&config).and_then(|mut client| client.run("SELECT 1"))
        {
            // It runs, and will refuse every connection as long as it does.
            Err(trouble) if trouble.is_final() => {
                refused = Some(trouble);
                Ok(())
            }
            answer => Ok(answer.map(drop)?),
        };
        instance.server.wait_until_ready(START_PATIENCE, answers)?;
        match refused {
            Some(trouble) => Err(trouble.into()),
            None => Ok(instance),
        }
    }

    pub(super) fn config(&self, patience: Duration) -> Result<ConnectionParameters> {
        self.config_of_database(DATABASE, patience)
    }

    /// Connection options for one of its databases.
    pub(super) fn config_of_database(
        &self,
        database: &str,
        patience: Duration,
    ) -> Result<ConnectionParameters> {
        let config = ConnectionParameters::in_directory(self.sockets.path(), USER, database, patience);
        Ok(match &self.tls {
            Some(tls) => config.over_tls(tls.port, tls.certificate.request()?),
            None => config,
        })
    }

    pub(super) fn socket_directory(&self) -> &Path {
        self.sockets.path()
    }

    /// The database of a store in a shared server: an empty one of a removed store, or a new one.
    pub(super) fn own_database(&self, setup: &Setup, patience: Duration) -> Result<String> {
        if setup.mode == Mode::Open {
            return OWN_DATABASE.kept_name(setup.dir);
        }
        let free = common::lock(&self.free_databases).pop();
        let database = match free {
            Some(database) => database,
            None => self.new_database(patience)?,
        };
        OWN_DATABASE.keep_name(setup.dir, &database)?;
        Ok(database)
    }

    fn new_database(&self, patience: Duration) -> Result<String> {
        let database = own_name();
        let mut client = PostgresClient::connect(&self.config(patience)?)?;
        client.run(&format!("CREATE DATABASE {database}"))?;
        // Otherwise the store's first checkpoint, which settling measures, would sync the new files.
        client.run("CHECKPOINT")?;
        Ok(database)
    }

    /// Returns an emptied database for reuse.
    pub(super) fn free_database(&self, database: String) {
        common::lock(&self.free_databases).push(database);
    }

    /// Copies the whole cluster, with the log written meanwhile. The vendor's tools are beside the server.
    pub(super) fn back_up(&self, schema: &str, to: &Path) -> Result<()> {
        if !self.base_backup.is_file() {
            return Err(Error::Unsupported(
                "a backup by a server beside which there is no `pg_basebackup` (it comes with the vendor's client programs)",
            ));
        }
        // Does not sync file by file: the caller flushes the whole backup at once.
        let launch = Launch::new(&self.base_backup, to)
            .arg("-h")
            .arg(self.sockets.path())
            .args(self.tls.iter().flat_map(|tls| ["-p".to_owned(), tls.port.to_string()]))
            .args(["-U", USER, "--no-password", "-X", "fetch", "-c", "fast", "--no-sync", "-D"])
            .arg(to.join("data"));
        run_to_end(&launch, BACKUP_PATIENCE)?;
        SCHEMA.keep_name(to, schema)
    }

    /// Fast shutdown: sessions end, everything is written.
    pub(super) fn stop(mut self) -> Result<()> {
        Ok(self.server.stop(rustix::process::Signal::INT, STOP_PATIENCE)?)
    }
}

/// A program of the same installation: beside the server, or beside the target of its symbolic link.
fn beside(server: &Path, name: &str) -> PathBuf {
    let here = server.with_file_name(name);
    match server.canonicalize() {
        Ok(server) if !here.is_file() => server.with_file_name(name),
        _ => here,
    }
}

/// The checksum option of `initdb`, so that versions are compared alike: no page checksums, the default before version 18, which
/// has no option to disable them. `profile=default` keeps the vendor's default, which has checksums from 18 on. The facts say
/// whether there are checksums.
fn checksums(version: &str, profile: &str) -> Option<&'static str> {
    (profile == "tuned" && release::major(version) >= 18).then_some("--no-data-checksums")
}

/// Settings of a private server that speaks TLS. It asks for its own certificate, which names the superuser; only this user can
/// reach the socket, and its port is in the socket's name.
fn with_tls(dir: &Path, tls: &TlsPort) -> Result<Vec<String>> {
    const ENTRIES: &str =
        "local all all trust\nlocal replication all trust\nhostssl all all 127.0.0.1/32 cert\n";
    let entries = dir.join("hba.conf");
    write_secret(&entries, ENTRIES)?;
    let TlsPort { port, certificate } = tls;
    let file = |setting: &str, file: &Path| format!("{setting}={}", file.display());
    Ok(vec![
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        "ssl=on".to_owned(),
        file("ssl_cert_file", &certificate.file),
        file("ssl_key_file", &certificate.key),
        file("ssl_ca_file", &certificate.file),
        file("hba_file", &entries),
    ])
}

/// Settings of a private server beyond where it listens: on a socket only, in a directory that only this user can enter, unless it
/// speaks TLS.
fn settings(setup: &Setup) -> Vec<String> {
    let mut settings = vec![
        format!("max_connections={}", connections(setup.workers, 100)),
        "logging_collector=off".to_owned(),
        // Dynamic shared memory comes from a preallocated reserve, and named segments are files in our directory: below /dev/shm
        // they would remain forever if the server is killed.
        "dynamic_shared_memory_type=mmap".to_owned(),
        "min_dynamic_shared_memory=16MB".to_owned(),
    ];
    settings.extend(release::io_method(setup.options).map(|method| format!("io_method={method}")));
    if setup.options.text("profile") == "tuned" {
        settings.extend([
            // The cache that every store gets; PostgreSQL requires a minimum.
            format!("shared_buffers={}kB", (setup.cache_bytes >> 10).max(1024)),
            // Blobs fill the log quickly: the default of 1 GB would cause checkpoints in the middle of a phase.
            "max_wal_size=8GB".to_owned(),
            "checkpoint_timeout=30min".to_owned(),
            "wal_buffers=16MB".to_owned(),
            // `wal_compression` keeps its default, off. Pages of blobs are full and hardly compress; with pglz, page images made
            // a delete take five times as long and an overwrite more than twice, and saved nothing.
        ]);
    }
    settings
}

/// Connection options for the user's server.
pub(super) fn config_of(url: &str, patience: Duration) -> Result<ConnectionParameters> {
    let mut config = ConnectionParameters::parse(url, patience).with_context(|| {
        format!("`{}` is not a URL of PostgreSQL that can be used", crate::redact::without_passwords(url))
    })?;
    // Roles and databases may override these.
    for (name, value) in AS_SHIPPED {
        config.set(name, value);
    }
    Ok(config)
}

/// Vendor defaults of settings that statements, replies and tables depend on, or that would end the idle admin connection.
const AS_SHIPPED: [(&str, &str); 6] = [
    ("standard_conforming_strings", "on"),
    ("bytea_output", "hex"),
    ("default_table_access_method", "heap"),
    ("lock_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
];

/// The statements that create the schema of a store; in the user's server with our mark.
pub(super) fn making(schema: &str, theirs: bool) -> String {
    let mark = if theirs { format!("COMMENT ON SCHEMA {schema} IS '{MARK}';") } else { String::new() };
    format!("CREATE SCHEMA {schema}; {mark}")
}

/// Refuses a user's server that is too old, read-only, not configured for the class, or would send blobs to subscribers.
pub(super) fn check_theirs(admin: &mut PostgresClient, durability: Durability) -> Result<()> {
    check_version(admin)?;
    check_writes(admin)?;
    check_subscribers(admin)?;
    check_durability(admin, durability)
}

/// Refuses a standby, a template, and a role or database that is set to read-only. That is the owner's intention, which a session
/// could silently override.
fn check_writes(admin: &mut PostgresClient) -> Result<()> {
    ensure!(
        admin.number("SELECT pg_is_in_recovery()", &[])? != Some(1),
        "the server is a standby, to which nobody writes; name its primary"
    );
    let is_template = "SELECT datistemplate FROM pg_database WHERE datname = current_database()";
    ensure!(
        admin.number(is_template, &[])? != Some(1),
        "the database is a template, from which nobody can create another one while a run is connected to it; name another one in \
         the URL"
    );
    ensure!(
        admin.texts("SHOW default_transaction_read_only", &[])?.concat() != "on",
        "default_transaction_read_only is on for this role or database; name another one in the URL, or add \
             `?options=-cdefault_transaction_read_only=off` to it"
    );
    Ok(())
}

/// Refuses a database that sends every table to subscribers. Where one lacks a table, it stops for good at the first row of it,
/// and others make their own of everything, such as a topic for each table.
fn check_subscribers(admin: &mut PostgresClient) -> Result<()> {
    const PUBLISHED: &str = "SELECT pubname::text FROM pg_publication WHERE puballtables AND EXISTS
        (SELECT FROM pg_replication_slots WHERE slot_type = 'logical' AND database = current_database())";
    match admin.texts(PUBLISHED, &[])?.first() {
        Some(name) => bail!(
            "the publication `{name}` is FOR ALL TABLES, and its subscribers would stop at tables that they do not have; name another \
             database of this server, whose tables they do not get"
        ),
        None => Ok(()),
    }
}

/// Ends a limit on the length of transactions, which PostgreSQL has since version 17, for this connection and those of `config`.
pub(super) fn unlimit_transactions(
    admin: &mut PostgresClient,
    config: &mut ConnectionParameters,
) -> Result<()> {
    const LIMIT: &str = "transaction_timeout";
    const END: &str = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = $1";
    if !admin.texts(END, &[StatementParameter::Bytes(LIMIT.as_bytes())])?.is_empty() {
        config.set(LIMIT, "0");
    }
    Ok(())
}

/// The store needs ON CONFLICT, identity columns and column compression.
fn check_version(admin: &mut PostgresClient) -> Result<()> {
    let version = admin.texts("SHOW server_version_num", &[])?.concat();
    ensure!(
        version.parse::<u32>().unwrap_or(0) >= 140_000,
        "the server is older than PostgreSQL 14 (it says {version})"
    );
    Ok(())
}

/// Refuses a server that does not flush durable writes, cannot repair a torn page after a power cut, or waits for a standby that is
/// not there, unless the class is none. These are server-wide settings, which we do not change.
fn check_durability(admin: &mut PostgresClient, durability: Durability) -> Result<()> {
    if durability == Durability::None {
        return Ok(());
    }
    for setting in ["fsync", "full_page_writes"] {
        let asked = [StatementParameter::Bytes(setting.as_bytes())];
        let value = admin.texts("SELECT current_setting($1)", &asked)?.concat();
        ensure!(
            value == "on",
            "the server has {setting} {value}, so that class {} is not possible; use --durability none, or a server with \
                 {setting} on",
            durability.name()
        );
    }
    // All users see that a standby is connected, and few what it has. Without any, a commit that waits for one never returns.
    const ALONE: &str = "SELECT setting FROM pg_settings
        WHERE name = 'synchronous_standby_names' AND setting <> '' AND current_setting('max_wal_senders') <> '0'
            AND NOT EXISTS (SELECT FROM pg_stat_replication)";
    if let Some(names) = admin.texts(ALONE, &[])?.first() {
        bail!(
            "the server has synchronous_standby_names {names} and no standby, so that class {} is not possible; use --durability none, \
             or connect one",
            durability.name()
        );
    }
    Ok(())
}

pub(super) fn is_ours(admin: &mut PostgresClient, schema: &str) -> Result<bool> {
    let mark = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = $1";
    Ok(admin.texts(mark, &[StatementParameter::Bytes(schema.as_bytes())])? == [MARK])
}

/// Takes the lock that marks a schema as in use; it ends with the connection. It is shared, so that a reopened store has it
/// before it ends the connection that kept it.
pub(super) fn lock(admin: &mut PostgresClient, schema: &str) -> Result<()> {
    admin.texts("SELECT pg_advisory_lock_shared($1, hashtext($2))::text", &lock_key(schema))?;
    servers::end_kept_lock(schema);
    Ok(())
}

/// Takes the exclusive lock of a schema; false if it is in use.
fn lock_unused(admin: &mut PostgresClient, schema: &str) -> Result<bool> {
    Ok(admin.number("SELECT pg_try_advisory_lock($1, hashtext($2))", &lock_key(schema))? == Some(1))
}

fn lock_key(schema: &str) -> [StatementParameter<'_>; 2] {
    [StatementParameter::Int(LOCK_CLASS), StatementParameter::Bytes(schema.as_bytes())]
}

/// Removes schemas of killed runs: those with our mark and without a lock. Skips those of other roles.
pub(super) fn remove_stale(admin: &mut PostgresClient) -> Result<()> {
    let named = "SELECT nspname::text FROM pg_namespace
        WHERE starts_with(nspname::text, $1) AND pg_has_role(nspowner, 'USAGE')";
    let mut stale = Vec::new();
    for schema in admin.texts(named, &[StatementParameter::Bytes(OURS.as_bytes())])? {
        if is_our_name(&schema) && is_ours(admin, &schema)? && lock_unused(admin, &schema)? {
            stale.push(schema);
        }
    }
    remove_schemas(stale, |schema| {
        let outcome = drop_schema(admin, schema);
        // If unlocking fails, the lock ends with the connection.
        admin.number("SELECT pg_advisory_unlock($1, hashtext($2))", &lock_key(schema)).ok();
        outcome
    })
}

/// Removes each schema, independently of the others.
pub(super) fn remove_schemas(schemas: Vec<String>, remove: impl FnMut(&str) -> Result<()>) -> Result<()> {
    remove_all(schemas, PATIENCE, remove, |schema| format!("DROP SCHEMA {schema} CASCADE"))
}

/// Drops a schema, after the large objects that only its rows refer to.
pub(super) fn drop_schema(admin: &mut PostgresClient, schema: &str) -> Result<()> {
    if has_objects(admin, schema)? {
        // What may pass stays what it is, so that the removal is tried again.
        unlink_objects(admin, schema, "").map_err(|error| match error {
            Error::Failed(why) => Error::Failed(
                why.context(format!("its large objects, which `DELETE FROM {schema}.blobs` unlinks")),
            ),
            passing => passing,
        })?;
    }
    // A run that began at the same time may have removed it, or this one before the connection was lost.
    Ok(admin.run(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE")).map(drop)?)
}

/// True if the schema's blobs are large objects, which are stored outside of it.
fn has_objects(admin: &mut PostgresClient, schema: &str) -> Result<bool> {
    let columns = "SELECT count(*) FROM pg_attribute
        WHERE attrelid = to_regclass($1)::oid AND attname = 'object' AND NOT attisdropped";
    let table = format!("{schema}.blobs");
    Ok(admin.number(columns, &[StatementParameter::Bytes(table.as_bytes())])? == Some(1))
}

/// Deletes the rows of large objects that a condition selects, all without one. Their trigger unlinks the objects: DROP SCHEMA
/// runs no triggers, and they would remain forever. In parts, because each object is locked until its transaction ends, and the
/// server has room for some thousands of locks of all its users.
pub(super) fn unlink_objects(admin: &mut PostgresClient, schema: &str, condition: &str) -> Result<()> {
    let table = format!("{schema}.blobs");
    let part = format!(
        "DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table} {condition} LIMIT 1000))"
    );
    while admin.run(&part)?.count > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_would_make_checksums_are_told_not_to() {
        let told = |version, profile| checksums(version, profile);
        assert_eq!(told("postgres (PostgreSQL) 18.6", "tuned"), Some("--no-data-checksums"));
        assert_eq!(told("postgres (PostgreSQL) 19beta1", "tuned"), Some("--no-data-checksums"));
        assert_eq!(told("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "tuned"), None);
        assert_eq!(told("postgres (PostgreSQL) 18.6", "default"), None);
    }
}
