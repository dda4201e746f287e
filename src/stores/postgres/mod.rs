//! PostgreSQL: a value in a column, rows of pieces, or large objects, in a private server or one of the user's.

mod instance;
mod session;

use std::sync::{Mutex, MutexGuard, PoisonError};

use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};

use self::instance::Instance;
use self::session::PgSession;
use super::catalogue;
use super::database::{CONNECTION, DELETE, PIECES, PROFILE, URL};
use super::keys::KeyForm;
use crate::server::Program;
use crate::store::*;

const POSTGRES: Program = Program {
    name: "postgres",
    places: &["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"],
    variable: Some("BLOBWISE_POSTGRES"),
    ask: &["--version"],
    says: "PostgreSQL",
    never_says: None,
    install: "apt-get install postgresql",
};

const KEY: OptionSpec = OptionSpec {
    name: "key",
    values: Values::OneOf(&["digest", "integer"]),
    default: "digest",
    about: "digest: a unique index over 32 hexadecimal digits; integer: a bigint primary key",
};
const ISOLATION: OptionSpec = OptionSpec {
    name: "isolation",
    values: Values::OneOf(&["read-committed", "repeatable-read", "serializable"]),
    default: "read-committed",
    about: "isolation of every transaction",
};

pub(super) const BYTEA: Adapter = Adapter {
    name: "postgres/bytea",
    about: "PostgreSQL: the blob in a bytea column",
    kind: Kind::Server,
    programs: &[POSTGRES],
    options: &[
        OptionSpec {
            name: "storage",
            values: Values::OneOf(&["external", "extended"]),
            default: "external",
            about: "external: out of line as it is; extended: compressed first (the vendor's default)",
        },
        OptionSpec {
            name: "compression",
            values: Values::OneOf(&["pglz", "lz4"]),
            default: "pglz",
            about: "how extended storage compresses",
        },
        OptionSpec {
            name: "protocol",
            values: Values::OneOf(&["binary", "text"]),
            default: "binary",
            about: "binary: parameters and results as they are; text: as escaped text, as old drivers do",
        },
        KEY,
        CONNECTION,
        DELETE,
        ISOLATION,
        PROFILE,
        URL,
    ],
    caps: |options| caps(options, &bytea(options)),
    damage,
    open: |setup| open(setup, bytea(setup.options)),
};

pub(super) const CHUNKED: Adapter = Adapter {
    name: "postgres/chunked",
    about: "PostgreSQL: the blob as rows of pieces in a second table",
    kind: Kind::Server,
    programs: &[POSTGRES],
    options: &[
        OptionSpec { name: "piece", values: PIECES, default: "65536", about: "bytes of a piece" },
        KEY,
        CONNECTION,
        DELETE,
        ISOLATION,
        PROFILE,
        URL,
    ],
    caps: |options| caps(options, &chunked(options)),
    damage,
    open: |setup| open(setup, chunked(setup.options)),
};

pub(super) const LARGE_OBJECT: Adapter = Adapter {
    name: "postgres/large-object",
    about: "PostgreSQL: the blob as a large object",
    kind: Kind::Server,
    programs: &[POSTGRES],
    options: &[
        OptionSpec {
            name: "buffer",
            values: Values::OneOf(&[
                "whole", "512", "1024", "2048", "4096", "8192", "16384", "32768", "65536", "131072", "262144",
            ]),
            default: "whole",
            about: "bytes read or written by one call, in one transaction; whole: one statement for all",
        },
        KEY,
        CONNECTION,
        DELETE,
        ISOLATION,
        PROFILE,
        URL,
    ],
    caps: |options| Caps { batch: false, ..caps(options, &large_object(options)) },
    damage,
    open: |setup| open(setup, large_object(setup.options)),
};

/// A message has at most 1 GB - 1; 1023 MiB went through in a test, 1024 MiB did not.
const BINARY_LIMIT: Limit = Limit { bytes: 1023 << 20, source: "PostgreSQL's MaxAllocSize, binary format" };
/// A little below half of that: 511 MiB.
const TEXT_LIMIT: Limit =
    Limit { bytes: 511 << 20, source: "PostgreSQL's MaxAllocSize, two digits for a byte" };
/// The documented 4 TB: 2^31 - 1 pages of 2 kB. Above what blobwise handles.
const LARGE_OBJECT_LIMIT: Limit =
    Limit { bytes: (i32::MAX as u64) << 11, source: "PostgreSQL's MAX_LARGE_OBJECT_SIZE" };

fn bytea(options: &Options) -> Shape {
    Shape::Bytea {
        text: options.text("protocol") == "text",
        storage: options.text("storage").to_uppercase(),
        compression: options.text("compression").to_owned(),
    }
}

fn chunked(options: &Options) -> Shape {
    Shape::Chunked { piece: options.number("piece") as usize }
}

fn large_object(options: &Options) -> Shape {
    Shape::LargeObject { buffer: options.text("buffer").parse().ok() }
}

fn caps(options: &Options, shape: &Shape) -> Caps {
    Caps {
        durability: Durability::ALL,
        persistent: true,
        contents: true,
        atomic_put: true,
        range: true,
        list: KeyForm::of(options) == KeyForm::Digest,
        batch: true,
        many: true,
        catalogue: true,
        blob_bytes_max: Some(shape.limit()),
    }
}

/// PostgreSQL's documentation of `synchronous_commit`: off, a crash of the server or the machine may lose the last
/// commits, up to three times `wal_writer_delay`, but never consistency; on, the log is flushed before commit returns.
fn synchronous_commit(durability: Durability) -> &'static str {
    match durability {
        Durability::None | Durability::OnSync => "off",
        Durability::EachWrite => "on",
    }
}

fn damage(_: &Options, durability: Durability) -> Damage {
    let loss = match durability {
        Durability::None | Durability::OnSync => Loss::RecentWrites,
        Durability::EachWrite => Loss::Nothing,
    };
    Damage { after_kill: loss, after_power_cut: loss }
}

/// How a blob is kept.
#[derive(Clone, Debug)]
enum Shape {
    Bytea { text: bool, storage: String, compression: String },
    Chunked { piece: usize },
    LargeObject { buffer: Option<usize> },
}

impl Shape {
    /// In text every byte takes two digits and the whole must stay below 1 GB.
    fn limit(&self) -> Limit {
        match self {
            Shape::Bytea { text: true, .. } => TEXT_LIMIT,
            Shape::LargeObject { buffer: Some(_) } => LARGE_OBJECT_LIMIT,
            Shape::Bytea { .. } | Shape::Chunked { .. } | Shape::LargeObject { buffer: None } => BINARY_LIMIT,
        }
    }
}

struct Postgres {
    shape: Shape,
    key_form: KeyForm,
    lazy_delete: bool,
    durability: Durability,
    /// How sessions connect.
    config: Config,
    /// Connected for as long as the store is open: sets up, settles, reads facts, holds the lock that says that the
    /// schema is in use.
    keeper: Mutex<Client>,
    schema: String,
    /// The private server; stopped after everything above is gone.
    instance: Option<Instance>,
}

fn open(setup: &Setup, shape: Shape) -> Result<Box<dyn Store>> {
    let url = setup.options.text("url");
    let (instance, mut config) = if url.is_empty() {
        let instance = Instance::start(setup)?;
        let config = instance.config();
        (Some(instance), config)
    } else {
        (None, instance::config_of(url)?)
    };
    let isolation = setup.options.text("isolation").replace('-', " ");
    let timeout_ms = setup.op_timeout.as_millis();
    config.options(&format!(
        "-c synchronous_commit={} -c statement_timeout={timeout_ms} -c default_transaction_isolation={}",
        synchronous_commit(setup.durability),
        isolation.replace(' ', "\\ ")
    ));
    config.connect_timeout(setup.op_timeout);
    let mut keeper = config.connect(NoTls).map_err(from_postgres)?;
    let schema = match setup.mode {
        Mode::Create => instance::create_schema(&mut keeper, instance.is_none())?,
        Mode::Open => instance::find_schema(&mut keeper, setup.dir, instance.is_none())?,
    };
    keeper.batch_execute(&format!("SET search_path = {schema}")).map_err(from_postgres)?;
    let store = Postgres {
        key_form: KeyForm::of(setup.options),
        lazy_delete: setup.options.text("delete") == "lazy",
        durability: setup.durability,
        config,
        keeper: Mutex::new(keeper),
        schema,
        instance,
        shape,
    };
    if setup.mode == Mode::Create {
        store.keeper().batch_execute(&store.tables()).map_err(from_postgres)?;
        instance::remember_schema(setup.dir, &store.schema)?;
    }
    Ok(Box::new(store))
}

/// Keeps what may be tried again, and what took too long, apart from failures.
fn from_postgres(error: postgres::Error) -> Error {
    match error.code() {
        Some(code)
            if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED =>
        {
            Error::Busy
        }
        Some(code) if *code == SqlState::QUERY_CANCELED => Error::TimedOut,
        _ => Error::Failed(describe(error)),
    }
}

/// The server's own words, which the driver hides behind "db error".
fn describe(error: postgres::Error) -> anyhow::Error {
    let message = error.as_db_error().map(|server| format!("{}: {}", server.severity(), server.message()));
    match message {
        Some(message) => anyhow::Error::new(error).context(message),
        None => error.into(),
    }
}

impl Postgres {
    fn keeper(&self) -> MutexGuard<'_, Client> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key_type(&self) -> &'static str {
        match self.key_form {
            KeyForm::Digest => "text COLLATE \"C\"",
            KeyForm::Integer => "bigint",
        }
    }

    /// The statements that make the tables. `marker` is what `sync` commits.
    fn tables(&self) -> String {
        let key = self.key_type();
        let marker = "CREATE TABLE marker(id int PRIMARY KEY, count bigint NOT NULL); INSERT INTO marker VALUES (1, 0);";
        let tables = match &self.shape {
            Shape::Bytea { storage, compression, .. } => format!(
                "CREATE TABLE blobs(key {key} PRIMARY KEY, data bytea NOT NULL, gone boolean NOT NULL DEFAULT false);
                 ALTER TABLE blobs ALTER COLUMN data SET STORAGE {storage};
                 ALTER TABLE blobs ALTER COLUMN data SET COMPRESSION {compression};"
            ),
            // Pieces carry a version, so that a new blob's pieces can be put and the old ones removed by one statement.
            Shape::Chunked { .. } => format!(
                "CREATE TABLE blobs(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key {key} NOT NULL UNIQUE,
                     version bigint NOT NULL, gone boolean NOT NULL DEFAULT false);
                 CREATE TABLE pieces(blob bigint NOT NULL REFERENCES blobs ON DELETE CASCADE,
                     version bigint NOT NULL, number int NOT NULL, data bytea NOT NULL,
                     PRIMARY KEY (blob, version, number));
                 ALTER TABLE pieces ALTER COLUMN data SET STORAGE EXTERNAL;"
            ),
            // A trigger unlinks the old object with its row, so that none is orphaned.
            Shape::LargeObject { .. } => format!(
                "CREATE TABLE blobs(key {key} PRIMARY KEY, object oid NOT NULL, gone boolean NOT NULL DEFAULT false);
                 CREATE FUNCTION unlink() RETURNS trigger LANGUAGE plpgsql AS
                     $$ BEGIN PERFORM lo_unlink(OLD.object); RETURN NULL; END $$;
                 CREATE TRIGGER unlink_old AFTER UPDATE OF object OR DELETE ON blobs
                     FOR EACH ROW EXECUTE FUNCTION unlink();"
            ),
        };
        tables + marker
    }
}

impl Store for Postgres {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(PgSession::open(self)?))
    }

    fn open_catalogue(&self) -> Result<()> {
        let mut keeper = self.keeper();
        keeper.batch_execute(catalogue::TABLE).map_err(from_postgres)?;
        keeper.batch_execute(catalogue::UNFINISHED).map_err(from_postgres)
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
        ];
        let mut facts = Facts::new();
        for setting in SETTINGS {
            let value: String = self
                .keeper()
                .query_one("SELECT current_setting($1)", &[setting])
                .map_err(from_postgres)?
                .get(0);
            facts.insert((*setting).to_owned(), value);
        }
        facts
            .insert("server".into(), if self.instance.is_some() { "private" } else { "given by URL" }.into());
        Ok(facts)
    }

    /// Writes a checkpoint, then waits until no vacuum is at work.
    fn settle(&self) -> Result<()> {
        const WORKING: &str = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND datname = current_database()";
        let mut keeper = self.keeper();
        // A server of the user's may not let us; its own checkpoints go on.
        match keeper.batch_execute("CHECKPOINT") {
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {}
            outcome => outcome.map_err(from_postgres)?,
        }
        while keeper.query_one(WORKING, &[]).map_err(from_postgres)?.get::<_, i64>(0) > 0 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(())
    }

    fn purge(&self) -> Result<()> {
        self.keeper().batch_execute("DELETE FROM blobs WHERE gone").map_err(from_postgres)
    }

    fn servers(&self) -> Vec<&crate::server::Server> {
        self.instance.iter().map(Instance::server).collect()
    }

    fn footprint_bytes(&self) -> Result<Option<u64>> {
        if self.instance.is_some() {
            return Ok(None);
        }
        let sizes = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'";
        let mut keeper = self.keeper();
        let mut bytes: i64 = keeper.query_one(sizes, &[&self.schema]).map_err(from_postgres)?.get(0);
        if matches!(self.shape, Shape::LargeObject { .. }) {
            // Objects lie in one catalogue of the whole database: ours are counted by their pages.
            let objects = "SELECT coalesce(sum(length(data) + 32), 0)::bigint FROM pg_largeobject
                WHERE loid IN (SELECT object FROM blobs)";
            bytes += keeper.query_one(objects, &[]).map_err(from_postgres)?.get::<_, i64>(0);
        }
        Ok(Some(bytes as u64))
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Postgres { keeper, instance, .. } = *self;
        keeper.into_inner().unwrap_or_else(PoisonError::into_inner).close().map_err(from_postgres)?;
        match instance {
            Some(instance) => instance.stop(),
            None => Ok(()),
        }
    }

    fn remove(self: Box<Self>) -> Result<()> {
        if self.instance.is_none() {
            if matches!(self.shape, Shape::LargeObject { .. }) {
                // The trigger unlinks the objects.
                self.keeper().batch_execute("DELETE FROM blobs").map_err(from_postgres)?;
            }
            let drop = format!("DROP SCHEMA {} CASCADE", self.schema);
            self.keeper().batch_execute(&drop).map_err(from_postgres)?;
        }
        self.close()
    }
}
