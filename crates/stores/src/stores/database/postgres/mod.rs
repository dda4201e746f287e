//! PostgreSQL: a value in a column, rows of pieces, or large objects, in a private server or the user's.

mod instance;
mod release;
mod rights;
mod room;
mod segments;
mod session;
mod vacuum;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;

use self::instance::PostgresServer;
use self::release::{IO_METHOD, VERSION};
use self::session::PostgresSession;
use self::vacuum::MaintenanceScope;
use crate::host::server::Program;
use crate::store::*;
use crate::stores::common::catalogue;
use crate::stores::common::certificate::TLS;
use crate::stores::common::keys::{self, KeyForm};
use crate::stores::common::lock;
use crate::stores::common::reader::ReadOnlySession;
use crate::stores::common::servers::{self, CONNECTION, DELETE, Host, PIECE, PROFILE, SERVER, URL};
use crate::wire::postgres::{ConnectionParameters, PostgresClient, PostgresError, StatementParameter};
use crate::wire::tls::TlsMode;

pub(in crate::stores) const POSTGRES: Program = Program {
    places: &["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "~cache/blobwise/postgres-*/*/pginstall/bin"],
    variable: Some("BLOBWISE_POSTGRES"),
    ..Program::plain("postgres", &["--version"], "PostgreSQL", "apt-get install postgresql")
};

const KEY: OptionSpec =
    keys::KEY.about("digest: a unique index over 32 hexadecimal digits; integer: a bigint primary key");
const STORAGE: OptionSpec = OptionSpec::choice("storage", &["external", "extended"])
    .about("external: out of line as it is; extended: compressed first (the vendor's default)");
const COMPRESSION: OptionSpec =
    OptionSpec::choice("compression", &["pglz", "lz4"]).about("how extended storage compresses");
const PROTOCOL: OptionSpec = OptionSpec::choice("protocol", &["binary", "text"])
    .about("binary: parameters and results as they are; text: as digits in text, as old drivers do");
const ISOLATION: OptionSpec =
    OptionSpec::choice("isolation", &["read-committed", "repeatable-read", "serializable"])
        .about("isolation of every transaction");

/// A quarter of the memory for the server; the kernel's page cache has the rest.
fn memory(options: &Options) -> CacheRecommendation {
    let tuned = CacheRecommendation {
        own: OwnCache::Share(0.25),
        words: "a reasonable starting value for shared_buffers is 25% of the memory in your system",
        link: "https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-SHARED-BUFFERS",
    };
    servers::split(options, tuned)
}

/// Maximum length in bytes of the path of a server's directory: a path may have 1,023 (`MAXPGPATH`), with the names in the
/// data directory.
const DIR_BYTES_MAX: usize = 1_023 - "/data/".len() - 40;

pub(in crate::stores) const BYTEA: Adapter = Adapter {
    name: "postgres/bytea",
    about: "PostgreSQL: the blob in a bytea column",
    kind: Kind::Server,
    programs: &[POSTGRES],
    options: &[
        STORAGE,
        COMPRESSION,
        PROTOCOL,
        KEY,
        CONNECTION,
        DELETE,
        ISOLATION,
        VERSION,
        IO_METHOD,
        PROFILE,
        SERVER,
        TLS,
        URL,
    ],
    caps: |options| caps(options, &bytea(options)),
    loss,
    integrity: |_, _| INTEGRITY,
    traits: servers::traits,
    memory,
    needs: Needs {
        of_machine: release::refusal,
        dir_bytes_max: || Some(DIR_BYTES_MAX),
        of_server: Some(room::intent),
        ..Needs::NOTHING
    },
    open: |setup| open(setup, bytea(setup.options)),
};

pub(in crate::stores) const CHUNKED: Adapter = Adapter {
    name: "postgres/chunked",
    about: "PostgreSQL: the blob as rows of pieces in a second table",
    options: &[
        PIECE,
        STORAGE,
        COMPRESSION,
        PROTOCOL,
        KEY,
        CONNECTION,
        DELETE,
        ISOLATION,
        VERSION,
        IO_METHOD,
        PROFILE,
        SERVER,
        TLS,
        URL,
    ],
    caps: |options| caps(options, &chunked(options)),
    open: |setup| open(setup, chunked(setup.options)),
    ..BYTEA
};

pub(in crate::stores) const LARGE_OBJECT: Adapter = Adapter {
    name: "postgres/large-object",
    about: "PostgreSQL: the blob as a large object",
    options: &[
        OptionSpec::choice(
            "buffer",
            &["whole", "512", "1024", "2048", "4096", "8192", "16384", "32768", "65536", "131072", "262144"],
        )
        .about("bytes read or written by one call, in one transaction; whole: one statement for all"),
        KEY,
        CONNECTION,
        DELETE,
        ISOLATION,
        VERSION,
        IO_METHOD,
        PROFILE,
        SERVER,
        TLS,
        URL,
    ],
    caps: |options| Capabilities {
        batch: false,
        get_many: false,
        // The sizes of large objects are known from their pages only, which would have to be read.
        totals: false,
        ..caps(options, &large_object(options))
    },
    open: |setup| open(setup, large_object(setup.options)),
    ..BYTEA
};

/// A message has at most 1 GB - 1; 1023 MiB worked in a test, 1024 MiB did not.
const BINARY_LIMIT: Limit = Limit { bytes: 1023 << 20, source: "PostgreSQL's MaxAllocSize, binary format" };
/// A little below half of that: 511 MiB.
const TEXT_LIMIT: Limit =
    Limit { bytes: 511 << 20, source: "PostgreSQL's MaxAllocSize, two digits for a byte" };
/// Smaller, because each piece (of at least 512 B) adds a few characters around its digits.
const CHUNKED_TEXT_LIMIT: Limit = Limit { bytes: 500 << 20, ..TEXT_LIMIT };
/// The documented 4 TB: 2^31 - 1 pages of 2 kB. More than blobwise handles.
const LARGE_OBJECT_LIMIT: Limit =
    Limit { bytes: (i32::MAX as u64) << 11, source: "PostgreSQL's MAX_LARGE_OBJECT_SIZE" };

fn bytea(options: &Options) -> PostgresLayout {
    PostgresLayout::Bytea { text: is_text(options), column: column(options) }
}

fn chunked(options: &Options) -> PostgresLayout {
    let piece = options.number("piece") as usize;
    PostgresLayout::Chunked { piece, text: is_text(options), column: column(options) }
}

fn is_text(options: &Options) -> bool {
    options.text("protocol") == "text"
}

fn column(options: &Options) -> ColumnStorage {
    ColumnStorage {
        storage: options.text("storage").to_uppercase(),
        compression: options.text("compression").to_owned(),
    }
}

fn large_object(options: &Options) -> PostgresLayout {
    PostgresLayout::LargeObject { buffer: options.text("buffer").parse().ok() }
}

/// PostgreSQL's chapter on isolation: with read committed a query "sees only data committed before the query began"; above that
/// "a snapshot as of the start of the first non-transaction-control statement in the transaction".
fn view(options: &Options) -> ReadIsolation {
    if options.text("isolation") == "read-committed" {
        ReadIsolation::Latest
    } else {
        ReadIsolation::Snapshot
    }
}

fn caps(options: &Options, shape: &PostgresLayout) -> Capabilities {
    Capabilities {
        list: KeyForm::from_options(options) == KeyForm::Digest,
        streams: shape.streams(),
        one_transaction: Some(view(options)),
        blob_bytes_max: Some(shape.limit()),
        backup: BACKUP,
        // Large objects are in a system table.
        compaction: (!matches!(shape, PostgresLayout::LargeObject { .. }))
            .then_some(Compaction::InPlace("`VACUUM FULL`")),
        clients: ClientSupport::Server,
        // Its data directory and the template that this is copied from.
        inodes: Inodes { beside: 3_000, ..Inodes::FEW },
        ..Capabilities::ALL
    }
}

const BACKUP: Backup = Backup::Image(BackupMethod {
    by: "`pg_basebackup`",
    words: "The backup is taken without affecting other clients of the database. It is of the whole cluster, with the log that its \
            pages need",
    link: "https://www.postgresql.org/docs/current/app-pgbasebackup.html",
});

/// PostgreSQL's documentation of `synchronous_commit`: if off, a crash of the server or the machine may lose the last commits, up
/// to three times `wal_writer_delay`, but never consistency; if on, the log is flushed before a commit returns.
fn synchronous_commit(durability: Durability) -> &'static str {
    match durability {
        Durability::None | Durability::OnSync => "off",
        Durability::EachWrite => "on",
    }
}

/// PostgreSQL's manual on `--data-checksums` of `initdb`: "use checksums on data pages to help detect corruption by the I/O
/// system that would otherwise be silent". Private servers of the profile `tuned` have none, in every version.
const INTEGRITY: Integrity =
    Integrity::AsSet { fact: "data_checksums", checked: &["on"], unchecked: &["off"] };

fn loss(_: &Options, durability: Durability) -> Losses {
    Losses::of_unflushed(durability)
}

/// Layout of blobs, and whether they are sent as text.
#[derive(Clone, Debug)]
enum PostgresLayout {
    Bytea { text: bool, column: ColumnStorage },
    Chunked { piece: usize, text: bool, column: ColumnStorage },
    LargeObject { buffer: Option<usize> },
}

#[derive(Clone, Debug)]
struct ColumnStorage {
    storage: String,
    compression: String,
}

impl ColumnStorage {
    /// The statements that configure the column.
    fn setting(&self, table: &str) -> String {
        let ColumnStorage { storage, compression } = self;
        format!(
            "ALTER TABLE {table} ALTER COLUMN data SET STORAGE {storage};
             ALTER TABLE {table} ALTER COLUMN data SET COMPRESSION {compression};"
        )
    }
}

impl PostgresLayout {
    /// False if a blob is sent as one value, whatever its size.
    fn streams(&self) -> bool {
        match self {
            PostgresLayout::Chunked { .. } | PostgresLayout::LargeObject { buffer: Some(_) } => true,
            PostgresLayout::Bytea { .. } | PostgresLayout::LargeObject { buffer: None } => false,
        }
    }

    /// The largest blob. In text every byte takes two digits, and the total must stay below 1 GB.
    fn limit(&self) -> Limit {
        match self {
            PostgresLayout::Bytea { text: true, .. } => TEXT_LIMIT,
            PostgresLayout::Chunked { text: true, .. } => CHUNKED_TEXT_LIMIT,
            PostgresLayout::LargeObject { buffer: Some(_) } => LARGE_OBJECT_LIMIT,
            PostgresLayout::Bytea { .. }
            | PostgresLayout::Chunked { .. }
            | PostgresLayout::LargeObject { buffer: None } => BINARY_LIMIT,
        }
    }
}

struct Postgres {
    shape: PostgresLayout,
    key_form: KeyForm,
    lazy_delete: bool,
    durability: Durability,
    config: ConnectionParameters,
    /// Admin connection, open as long as the store: sets up, settles, reads facts, and holds the lock that marks the schema as in
    /// use.
    admin: Mutex<PostgresClient>,
    schema: String,
    /// Cloned by every session, so that open sessions can be counted.
    sessions: Arc<()>,
    /// A database of this store alone, in a server that candidates share.
    own_database: Option<String>,
    /// True if another process opened the store.
    joined: bool,
    /// Stopped after everything above is dropped.
    host: Host<PostgresServer>,
}

/// Joins a store that another process opened and will remove.
fn join(setup: &Setup, shape: PostgresLayout, join_token: &JoinToken) -> Result<Box<dyn Store>> {
    let (config, schema): (ConnectionParameters, String) = join_token.read()?;
    let admin = PostgresClient::connect(&config)?;
    Ok(Box::new(Postgres {
        joined: true,
        ..Postgres::new(setup, shape, config, admin, schema, Host::Theirs)
    }))
}

/// Connects to the user's server after checking that it can be used: no pooler, sufficient privileges, the requested class.
/// Removes leftovers of killed runs, and locks the schema.
fn connect_to_theirs(
    setup: &Setup,
    shape: &PostgresLayout,
    config: &ConnectionParameters,
    schema: &str,
) -> Result<PostgresClient> {
    let connected = PostgresClient::connect_to_theirs(config);
    let mut admin = connected.map_err(|trouble| rights::of_connection(trouble, config))?;
    if setup.mode == Mode::Create {
        rights::check(&mut admin, shape)?;
    }
    instance::check_theirs(&mut admin, setup.durability)?;
    release::check_theirs(&mut admin, setup.options)?;
    if setup.mode == Mode::Create {
        instance::remove_stale(&mut admin)?;
    }
    instance::lock(&mut admin, schema)?;
    if setup.mode == Mode::Open {
        instance::SCHEMA.check_mark(schema, instance::is_ours(&mut admin, schema)?)?;
    }
    Ok(admin)
}

fn open(setup: &Setup, shape: PostgresLayout) -> Result<Box<dyn Store>> {
    if let Some(join_token) = setup.join_token {
        return join(setup, shape, join_token);
    }
    let url = setup.options.text("url");
    let patience = setup.op_timeout + SOCKET_PATIENCE;
    let start = |dir: &Path, mode| PostgresServer::start(dir, mode, setup, patience);
    let host = Host::open(setup, || PostgresServer::shared_name(setup), start)?;
    let own_database = match &host {
        // All large objects of a database share one table, which keeps the space of deleted ones.
        Host::Shared(instance) if matches!(shape, PostgresLayout::LargeObject { .. }) => {
            Some(instance.own_database(setup, patience)?)
        }
        _ => None,
    };
    let mut config = match host.instance() {
        Some(instance) => {
            instance.config_of_database(own_database.as_deref().unwrap_or(instance::DATABASE), patience)?
        }
        None => instance::config_of(url, patience)?,
    };
    config.set("synchronous_commit", synchronous_commit(setup.durability));
    config.set("default_transaction_isolation", &setup.options.text("isolation").replace('-', " "));
    let schema = match setup.mode {
        Mode::Create => host.name_ours(instance::PRIVATE_SCHEMA),
        Mode::Open => instance::SCHEMA.kept_name(setup.dir)?,
    };
    // Settings are part of the connection request, and none is changed in a session later: a new connection has them too.
    config.set("search_path", &schema);
    let patient = config.clone().with_patience(KEEPER_PATIENCE);
    config.set("statement_timeout", &setup.op_timeout.as_millis().to_string());
    let admin = if host.is_theirs() {
        let mut admin = connect_to_theirs(setup, &shape, &patient_with_theirs(&config), &schema)?;
        instance::unlimit_transactions(&mut admin, &mut config)?;
        admin
    } else {
        config.set("application_name", &schema);
        PostgresClient::connect(&patient)?
    };
    admin.settle_tls(&mut config);
    let store = Postgres { own_database, ..Postgres::new(setup, shape, config, admin, schema, host) };
    if setup.mode == Mode::Create {
        instance::SCHEMA.keep_name(setup.dir, &store.schema)?;
        // Schema, mark and tables in one transaction. Durable in every class: a crash may lose the last blobs, but not their
        // tables.
        let schema = instance::making(&store.schema, store.host.is_theirs());
        let tables = store.tables();
        lock(&store.admin)
            .run(&format!("BEGIN; SET LOCAL synchronous_commit = local; {schema} {tables} COMMIT"))?;
    }
    Ok(Box::new(store))
}

/// Parameters of the admin connection to the user's server. Work takes its time, but others' locks are not waited for as long: who
/// holds one may not let go.
fn patient_with_theirs(config: &ConnectionParameters) -> ConnectionParameters {
    let mut patient = config.clone().with_patience(super::THEIR_PATIENCE + SOCKET_PATIENCE);
    patient.set("statement_timeout", &super::THEIR_PATIENCE.as_millis().to_string());
    patient.set("lock_timeout", &super::LOCK_PATIENCE.as_millis().to_string());
    patient
}

/// Extra time of the socket over the statement timeout. The server itself cancels a slow statement and keeps the connection; the
/// socket times out only if the server no longer replies.
const SOCKET_PATIENCE: Duration = Duration::from_secs(1);

/// Timeout of admin statements. A checkpoint or a vacuum grows with the store and is not an op.
const KEEPER_PATIENCE: Duration = Duration::from_secs(3600);

/// SQLSTATEs of lost conflicts: `serialization_failure`, `deadlock_detected`, `lock_not_available`.
const BUSY: [&str; 3] = ["40001", "40P01", "55P03"];
/// `query_canceled`, by `statement_timeout`.
const CANCELED: &str = "57014";
const UNIQUE_VIOLATION: &str = "23505";

/// Separates retryable errors and timeouts from failures.
impl From<PostgresError> for Error {
    fn from(trouble: PostgresError) -> Error {
        match trouble.code() {
            Some(code) if BUSY.contains(&code) => Error::Busy,
            Some(CANCELED) => Error::TimedOut,
            _ if trouble.is_timeout() => Error::TimedOut,
            _ => Error::failed(trouble),
        }
    }
}

impl Postgres {
    /// A store with these connection options and this connection.
    fn new(
        setup: &Setup,
        shape: PostgresLayout,
        config: ConnectionParameters,
        admin: PostgresClient,
        schema: String,
        host: Host<PostgresServer>,
    ) -> Postgres {
        Postgres {
            shape,
            key_form: KeyForm::from_options(setup.options),
            lazy_delete: setup.options.text("delete") == "lazy",
            durability: setup.durability,
            config,
            admin: Mutex::new(admin),
            schema,
            sessions: Arc::default(),
            own_database: None,
            joined: false,
            host,
        }
    }

    /// Drops the schema, by a new connection if the server has ended the old one, as it does when it restarts.
    fn drop_schema(&self, schema: &str) -> Result<()> {
        /// `cannot_connect_now`: the server starts.
        const STARTS: &str = "57P03";
        let mut admin = lock(&self.admin);
        let dropped = instance::drop_schema(&mut admin, schema);
        if dropped.is_ok() || admin.run("SELECT 1").is_ok() {
            return dropped;
        }
        // Within the time of an op: a server that does not answer is not waited for as long again.
        match PostgresClient::connect(&self.config) {
            Err(trouble) if trouble.code() == Some(STARTS) => return Err(Error::Busy),
            answered => drop(answered?),
        }
        *admin = PostgresClient::connect(&patient_with_theirs(&self.config))?;
        instance::drop_schema(&mut admin, schema)
    }

    fn key_type(&self) -> &'static str {
        match self.key_form {
            KeyForm::Digest => "text COLLATE \"C\"",
            KeyForm::Integer => "bigint",
        }
    }

    /// The statements that create the tables.
    fn tables(&self) -> String {
        let (key, schema) = (self.key_type(), &self.schema);
        match &self.shape {
            PostgresLayout::Bytea { column, .. } => format!(
                "CREATE TABLE {schema}.blobs(key {key} PRIMARY KEY, data bytea NOT NULL, gone boolean NOT NULL DEFAULT false);
                 {}",
                column.setting(&format!("{schema}.blobs"))
            ),
            // Pieces carry a version, so that one statement can put a new blob's pieces and remove the old ones.
            PostgresLayout::Chunked { column, .. } => format!(
                "CREATE TABLE {schema}.blobs(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key {key} NOT NULL UNIQUE,
                     version bigint NOT NULL, gone boolean NOT NULL DEFAULT false);
                 CREATE TABLE {schema}.pieces(blob bigint NOT NULL REFERENCES {schema}.blobs ON DELETE CASCADE,
                     version bigint NOT NULL, number int NOT NULL, data bytea NOT NULL,
                     PRIMARY KEY (blob, version, number));
                 {}",
                column.setting(&format!("{schema}.pieces"))
            ),
            // A trigger unlinks the old object with its row, so that none is orphaned, whatever session_replication_role is.
            PostgresLayout::LargeObject { .. } => format!(
                "CREATE TABLE {schema}.blobs(key {key} PRIMARY KEY, object oid NOT NULL, gone boolean NOT NULL DEFAULT false);
                 CREATE FUNCTION {schema}.unlink() RETURNS trigger LANGUAGE plpgsql AS
                     $$ BEGIN PERFORM lo_unlink(OLD.object); RETURN NULL; END $$;
                 CREATE TRIGGER unlink_old AFTER UPDATE OF object OR DELETE ON {schema}.blobs
                     FOR EACH ROW EXECUTE FUNCTION {schema}.unlink();
                 ALTER TABLE {schema}.blobs ENABLE ALWAYS TRIGGER unlink_old;"
            ),
        }
    }

    /// The sum of a size function of the server over our tables.
    fn bytes_of(&self, size: &str) -> Result<u64> {
        let sum = format!(
            "SELECT coalesce(sum({size}(c.oid)), 0)::bigint FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'"
        );
        let bytes = lock(&self.admin).number(&sum, &[StatementParameter::Bytes(self.schema.as_bytes())])?;
        Ok(bytes.context("no answer to the size of our tables")? as u64)
    }

    /// Bytes of large objects, which are not in our tables; `None` if the user's server does not reveal them.
    fn object_bytes(&self) -> Result<Option<u64>> {
        if !matches!(self.shape, PostgresLayout::LargeObject { .. }) {
            return Ok(Some(0));
        }
        // Large objects are in one catalog of the whole database. If other data is in that database, their pages are summed.
        let objects = match self.own_database {
            Some(_) => {
                "SELECT pg_total_relation_size('pg_largeobject') + pg_total_relation_size('pg_largeobject_metadata')"
                    .to_owned()
            }
            None => format!(
                "SELECT coalesce(sum(length(data) + 32), 0)::bigint FROM pg_largeobject
                WHERE loid IN (SELECT object FROM {}.blobs)",
                self.schema
            ),
        };
        let Some(bytes) = rights::unless_denied(lock(&self.admin).number(&objects, &[]))? else {
            return Ok(None);
        };
        Ok(Some(bytes.context("no answer to the size of our objects")? as u64))
    }

    /// Reclaims the space of deleted and replaced rows, then writes a checkpoint. Does nothing in the user's server, whose own
    /// vacuums and checkpoints go on.
    fn vacuum(&self, due: MaintenanceScope) -> Result<()> {
        if self.host.is_theirs() {
            return Ok(());
        }
        let mut admin = lock(&self.admin);
        let sessions = || Arc::strong_count(&self.sessions) as i64 - 1;
        vacuum::catch_up(&mut admin, &self.schema, due, sessions)?;
        admin.run("CHECKPOINT")?;
        Ok(())
    }
}

impl Store for Postgres {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(PostgresSession::open(self)?))
    }

    fn reader(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(ReadOnlySession(PostgresSession::open_within(self)?)))
    }

    fn contact(&self) -> Option<Contact> {
        // The user's server is not lent to other programs.
        let instance = self.host.instance()?;
        Some(Contact {
            host: "localhost".into(),
            socket: instance.socket_directory().to_string_lossy().into_owned(),
            user: instance::USER.into(),
            database: self.own_database.as_deref().unwrap_or(instance::DATABASE).into(),
            schema: self.schema.clone(),
            ..Contact::default()
        })
    }

    fn join_token(&self) -> Result<JoinToken> {
        JoinToken::encode(&(&self.config, &self.schema))
    }

    fn open_catalogue(&self) -> Result<()> {
        let mut admin = lock(&self.admin);
        admin.run(&catalogue::qualified(catalogue::TABLE, &self.schema))?;
        admin.run(&catalogue::qualified(catalogue::UNFINISHED, &self.schema))?;
        Ok(())
    }

    fn facts(&self) -> Result<Facts> {
        const SETTINGS: &[&str] = &[
            "server_version",
            "shared_buffers",
            "fsync",
            "synchronous_commit",
            "full_page_writes",
            "wal_compression",
            "max_wal_size",
            "checkpoint_timeout",
            "autovacuum",
            "default_transaction_isolation",
            "wal_buffers",
            "effective_cache_size",
            "bytea_output",
            "data_checksums",
            "io_method",
            "io_workers",
            "effective_io_concurrency",
            "wal_sync_method",
        ];
        let mut facts = Facts::new();
        for setting in SETTINGS {
            let asked = [StatementParameter::Bytes(setting.as_bytes())];
            // Not every version has every setting, and not every user may read each.
            let told = lock(&self.admin).texts("SELECT current_setting($1, true)", &asked);
            let values = rights::unless_denied(told)?.unwrap_or_default();
            facts.extend(values.into_iter().next().map(|value| ((*setting).to_owned(), value)));
        }
        facts.insert("server".into(), self.host.whose().into());
        if self.host.is_theirs() || self.config.tls.mode == TlsMode::VerifyFull {
            facts.insert("tls".into(), lock(&self.admin).tls(&self.config));
        }
        if self.host.is_theirs() && self.object_bytes()?.is_none() {
            facts.insert("not_told".into(), "footprint (SELECT on pg_largeobject)".into());
        }
        Ok(facts)
    }

    fn settle(&self) -> Result<()> {
        self.vacuum(MaintenanceScope::AtLimits)
    }

    fn catch_up(&self) -> Result<()> {
        self.vacuum(MaintenanceScope::Anything)
    }

    /// The length of an out-of-line value is stored in its row.
    fn totals(&self) -> Result<(u64, u64)> {
        let schema = &self.schema;
        let sizes = match &self.shape {
            PostgresLayout::Bytea { .. } => {
                format!("SELECT octet_length(data) FROM {schema}.blobs WHERE NOT gone")
            }
            PostgresLayout::Chunked { .. } => format!(
                "SELECT (SELECT coalesce(sum(octet_length(data)), 0) FROM {schema}.pieces AS piece
                    WHERE piece.blob = whole.id AND piece.version = whole.version)
                 FROM {schema}.blobs AS whole WHERE NOT gone"
            ),
            PostgresLayout::LargeObject { .. } => return Err(Error::Unsupported("a count of large objects")),
        };
        let totals = |what: &str| format!("SELECT {what}::bigint FROM ({sizes}) AS blob(bytes)");
        let mut admin = lock(&self.admin);
        let blobs = admin.number(&totals("count(*)"), &[])?;
        let bytes = admin.number(&totals("coalesce(sum(bytes), 0)"), &[])?;
        let number = |value: Option<i64>| value.context("no answer to a count").map(|value| value as u64);
        Ok((number(blobs)?, number(bytes)?))
    }

    fn back_up(&self, to: &Path) -> Result<()> {
        match &self.host {
            Host::Private(instance) => instance.back_up(&self.schema, to),
            Host::Shared(_) | Host::Theirs => {
                Err(Error::Unsupported("a backup of a server that is not ours alone"))
            }
        }
    }

    fn compact(&mut self) -> Result<()> {
        let tables: &[&str] = match &self.shape {
            PostgresLayout::Bytea { .. } => &["blobs"],
            PostgresLayout::Chunked { .. } => &["blobs", "pieces"],
            PostgresLayout::LargeObject { .. } => {
                return Err(Error::Unsupported("a rewrite of large objects"));
            }
        };
        let mut admin = lock(&self.admin);
        for table in tables {
            admin.run(&format!("VACUUM (FULL, ANALYZE) {}.{table}", self.schema))?;
        }
        admin.run("CHECKPOINT")?;
        Ok(())
    }

    fn purge(&self) -> Result<()> {
        let mut admin = lock(&self.admin);
        if matches!(self.shape, PostgresLayout::LargeObject { .. }) {
            return instance::unlink_objects(&mut admin, &self.schema, "WHERE gone");
        }
        admin.run(&format!("DELETE FROM {}.blobs WHERE gone", self.schema))?;
        Ok(())
    }

    fn servers(&self) -> Vec<&crate::host::server::Server> {
        self.host.instance().map(|instance| &instance.server).into_iter().collect()
    }

    fn footprint_bytes(&self) -> Result<Option<u64>> {
        if self.host.is_private() {
            return Ok(None);
        }
        let tables = self.bytes_of("pg_total_relation_size")?;
        Ok(self.object_bytes()?.map(|objects| tables + objects))
    }

    /// Without the indexes of TOAST tables, which locate out-of-line chunks.
    fn index_bytes(&self) -> Result<Option<u64>> {
        self.bytes_of("pg_indexes_size").map(Some)
    }

    /// The write-ahead log.
    fn is_log(&self, path: &Path) -> bool {
        path.components().any(|part| part.as_os_str() == "pg_wal")
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Postgres { admin, host, schema, joined, .. } = *self;
        host.close(admin, (!joined).then_some(schema), PostgresServer::stop)
    }

    fn remove(self: Box<Self>) -> Result<()> {
        if self.joined {
            return self.close();
        }
        let drop_schema = format!("DROP SCHEMA {} CASCADE", self.schema);
        if let (Host::Shared(instance), Some(database)) = (&self.host, &self.own_database) {
            let (instance, database) = (Arc::clone(instance), database.clone());
            {
                let mut admin = lock(&self.admin);
                admin.run(&drop_schema)?;
                // Truncating the tables of large objects starts new files: the next store finds no reusable space.
                admin.run("SET allow_system_table_mods = on")?;
                admin.run("TRUNCATE pg_largeobject, pg_largeobject_metadata")?;
                admin.run("CHECKPOINT")?;
            }
            self.close()?;
            instance.free_database(database);
            return Ok(());
        }
        if !self.host.is_private() {
            instance::remove_schemas(vec![self.schema.clone()], |schema| self.drop_schema(schema))?;
        }
        let schema = self.schema.clone();
        self.close()?;
        servers::end_kept_lock(&schema);
        Ok(())
    }
}
