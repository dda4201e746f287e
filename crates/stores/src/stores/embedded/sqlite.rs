//! SQLite: one table, one connection per session.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use rusqlite::backup::{Backup as OnlineBackup, StepResult};
use rusqlite::blob::Blob;
use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension, Rows, Statement, ffi, params};

use crate::store::*;
use crate::stores::common::catalogue::{self, CatalogueParameter};
use crate::stores::common::failed::HasFailed;
use crate::stores::common::keys;
use crate::stores::common::lock;
use crate::stores::common::reader::{ReadOnlySession, get_each};

/// Each connection's cache has SQLite's default size: SQLite reads its file through the kernel's cache, which is as large as the
/// memory.
const MEMORY: CacheRecommendation = CacheRecommendation {
    own: OwnCache::Bytes(2_048_000),
    words: "The default suggested cache size is -2000, which means the cache size is limited to 2048000 bytes of memory",
    link: "https://www.sqlite.org/pragma.html#pragma_cache_size",
};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "sqlite",
    about: "SQLite: a row per blob in one table",
    kind: Kind::Embedded,
    programs: &[],
    options: &[
        OptionSpec::choice("api", &["column", "incremental"])
            .about("column: bind and select the value, all of it even for a range; incremental: the blob handle, in pieces of 64 KiB"),
        OptionSpec::choice("page_size", &["512", "1024", "2048", "4096", "8192", "16384", "32768", "65536"])
            .default("4096")
            .about("bytes of a database page"),
        OptionSpec::choice("journal", &["wal", "delete", "truncate", "persist"])
            .about("how a transaction is made atomic; delete, in the durable classes, is synchronous=EXTRA"),
        OptionSpec::bytes("mmap", 0, 1 << 40, "0").about("bytes of the database read through a memory map"),
        keys::KEY.about("digest: a unique index over 32 hexadecimal digits; integer: the row's own id"),
    ],
    caps: |options| Capabilities {
        streams: options.text("api") == "incremental",
        // A row with an integer key has no digest to list.
        list: options.text("key") == "digest",
        one_transaction: Some(view(options)),
        blob_bytes_max: Some(LIMIT),
        backup: BACKUP,
        compaction: Some(Compaction::Copy("`VACUUM INTO`")),
        ..Capabilities::ALL
    },
    loss,
    integrity: |_, _| Integrity::Unchecked,
    traits: keys::traits,
    memory: |_| MEMORY,
    // A path may have 512 bytes (`MAX_PATHNAME` of its layer for Unix), with the end of the name of a journal.
    needs: Needs { dir_bytes_max: || Some(512 - "-journal".len() - 1 - FILE.len()), ..Needs::NOTHING },
    open,
};

/// SQLite's page on isolation: in WAL mode a reader "continues to see an unchanging snapshot" for as long as its transaction
/// lasts. With a rollback journal a writer changes the database file itself, which needs the EXCLUSIVE lock and therefore waits
/// for readers.
fn view(options: &Options) -> ReadIsolation {
    if options.text("journal") == "wal" { ReadIsolation::Snapshot } else { ReadIsolation::Locked }
}

/// SQLITE_MAX_LENGTH is 10^9 bytes by default and limits the whole row.
const LIMIT: Limit = Limit {
    bytes: 999_999_000,
    source: "SQLITE_MAX_LENGTH of a standard build, less the row's other columns",
};

const BACKUP: Backup = Backup::Image(BackupMethod {
    by: "the online backup API, in one step",
    words: "When one step copies all, the source can be read meanwhile and not be written to",
    link: "https://www.sqlite.org/backup.html",
});

/// Bytes per call of the blob handle.
const PIECE_BYTES: usize = 64 << 10;

/// SQLite's documentation of `PRAGMA synchronous`: OFF may corrupt the database on power loss; NORMAL in WAL mode keeps it
/// consistent and may lose recent transactions; FULL flushes the log at every commit. With a rollback journal NORMAL still leaves
/// a small chance of corruption, so both durable classes are the same there: FULL, or EXTRA if a commit unlinks the journal,
/// which also flushes the directory. Without that flush a power cut may bring the journal back, and opening would roll an
/// acknowledged transaction back.
fn synchronous(journal: &str, durability: Durability) -> &'static str {
    match (durability, journal) {
        (Durability::None, _) => "OFF",
        (Durability::OnSync, "wal") => "NORMAL",
        (Durability::OnSync | Durability::EachWrite, "delete") => "EXTRA",
        (Durability::OnSync | Durability::EachWrite, _) => "FULL",
    }
}

fn loss(options: &Options, durability: Durability) -> Losses {
    let after_power_cut = match synchronous(options.text("journal"), durability) {
        "OFF" => Loss::StoreUnusable,
        "NORMAL" => Loss::RecentWrites,
        _ => Loss::Nothing,
    };
    Losses { after_kill: Loss::Nothing, after_power_cut }
}

const FILE: &str = "blobs.sqlite";

struct Sqlite {
    path: PathBuf,
    /// Value of the pragma.
    synchronous: &'static str,
    incremental: bool,
    by_digest: bool,
    /// Value of the pragma.
    journal: String,
    mmap_bytes: u64,
    cache_bytes_each: u64,
    op_timeout: Duration,
    has_failed: HasFailed,
    /// Keeps the database open between sessions, so that the end of a session does not checkpoint the log.
    admin: std::sync::Mutex<Connection>,
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let path = setup.dir.join(FILE);
    let journal = setup.options.text("journal");
    let admin = opened(&path)?;
    let store = Sqlite {
        path,
        synchronous: synchronous(journal, setup.durability),
        incremental: setup.options.text("api") == "incremental",
        by_digest: setup.options.text("key") == "digest",
        journal: journal.to_owned(),
        mmap_bytes: setup.options.number("mmap"),
        // SQLite has a page cache per connection.
        cache_bytes_each: (setup.cache_bytes / setup.workers.max(1) as u64).max(1 << 20),
        op_timeout: setup.op_timeout,
        has_failed: HasFailed::default(),
        admin: std::sync::Mutex::new(admin),
    };
    {
        let admin = lock(&store.admin);
        if setup.mode == Mode::Create {
            pragma(&admin, "page_size", setup.options.text("page_size"))?;
        }
        store.configure(&admin)?;
        let made = admin.execute_batch(store.statements().table).and_then(|()| admin.execute_batch(MARKER));
        made.map_err(|error| from_connection(&admin, error))?;
    }
    Ok(Box::new(store))
}

/// Rowid tables: a blob handle needs a rowid, and large rows do not belong into an index tree.
const TABLE_BY_DIGEST: &str = "CREATE TABLE IF NOT EXISTS blobs(
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, data BLOB NOT NULL)";
const TABLE_BY_INTEGER: &str = "CREATE TABLE IF NOT EXISTS blobs(id INTEGER PRIMARY KEY, data BLOB NOT NULL)";
/// The row that `sync` updates.
const MARKER: &str = "CREATE TABLE IF NOT EXISTS marker(id INTEGER PRIMARY KEY, count INTEGER NOT NULL);
    INSERT OR IGNORE INTO marker VALUES (1, 0)";

fn pragma(connection: &Connection, name: &str, value: &str) -> Result<()> {
    connection.pragma_update(None, name, value).map_err(|error| from_connection(connection, error))
}

/// Separates `Busy`, which may be retried, from failures.
fn from_sqlite(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Busy,
        _ => Error::failed(error),
    }
}

/// The same, with the errno of the connection: SQLite has one message for many errnos.
fn from_connection(connection: &Connection, error: rusqlite::Error) -> Error {
    let rusqlite::Error::SqliteFailure(ffi::Error { code, extended_code }, _) = &error else {
        return from_sqlite(error);
    };
    let (code, extended) = (*code, *extended_code);
    let number = match code {
        ErrorCode::DiskFull => libc::ENOSPC,
        ErrorCode::OutOfMemory => libc::ENOMEM,
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen => system_errno(connection),
        _ => return from_sqlite(error),
    };
    let words = match extended {
        ffi::SQLITE_IOERR_SHMOPEN
        | ffi::SQLITE_IOERR_SHMSIZE
        | ffi::SQLITE_IOERR_SHMLOCK
        | ffi::SQLITE_IOERR_SHMMAP => format!(
            "{error} (SQLite's code {extended}: the index of its log cannot be mapped into memory, which `journal=wal` needs; `--set \
             sqlite.journal=delete` does without)"
        ),
        extended => format!("{error} (SQLite's code {extended})"),
    };
    Error::Failed(match number {
        0 => anyhow!(words),
        number => anyhow::Error::from(std::io::Error::from_raw_os_error(number)).context(words),
    })
}

/// The errno of the last failed system call of a connection; 0 for none.
#[expect(unsafe_code, reason = "rusqlite has no word for it")]
fn system_errno(connection: &Connection) -> i32 {
    // SAFETY: the handle stays open while its connection is borrowed, and the call only reads a number from it.
    unsafe { ffi::sqlite3_system_errno(connection.handle()) }
}

/// Opens a connection. SQLite does not report why a file cannot be opened, so on failure the file is opened directly to get the
/// errno.
fn opened(path: &Path) -> Result<Connection> {
    Connection::open(path).map_err(|error| match std::fs::File::options().write(true).open(path) {
        Err(why) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
            Error::Failed(anyhow::Error::from(why).context(error))
        }
        _ => from_sqlite(error),
    })
}

impl Sqlite {
    /// Converts a transaction's error, and remembers disk failures.
    fn noted(&self, connection: &Connection, error: rusqlite::Error) -> Error {
        if let Some(ErrorCode::SystemIoFailure | ErrorCode::DiskFull) = error.sqlite_error_code() {
            self.has_failed.note();
        }
        from_connection(connection, error)
    }

    /// Runs a statement on the admin connection and reads its only row.
    fn row<T>(&self, sql: &str, read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>) -> Result<T> {
        let admin = lock(&self.admin);
        admin.query_row(sql, [], read).map_err(|error| from_connection(&admin, error))
    }

    fn connection(&self) -> Result<Connection> {
        let connection = opened(&self.path)?;
        self.configure(&connection)?;
        Ok(connection)
    }

    fn connect(&self) -> Result<SqliteSession<'_>> {
        let prepared =
            Prepared::try_new(self.connection()?, |connection| connection.prepare(self.statements().get));
        let prepared = prepared.map_err(from_sqlite)?;
        Ok(SqliteSession { store: self, prepared, buffer: Vec::new(), within: false })
    }

    fn statements(&self) -> &'static SqliteStatements {
        if self.by_digest { &BY_DIGEST } else { &BY_INTEGER }
    }

    fn configure(&self, connection: &Connection) -> Result<()> {
        connection.busy_timeout(self.op_timeout).map_err(|error| from_connection(connection, error))?;
        connection.set_prepared_statement_cache_capacity(32);
        // Only WAL mode is stored in the file; the other journal modes belong to a connection.
        pragma(connection, "journal_mode", &self.journal)?;
        pragma(connection, "synchronous", self.synchronous)?;
        pragma(connection, "mmap_size", &self.mmap_bytes.to_string())?;
        // A negative cache_size is in KiB.
        pragma(connection, "cache_size", &format!("-{}", self.cache_bytes_each >> 10))
    }
}

impl Store for Sqlite {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.connect()?))
    }

    fn reader(&self) -> Result<Box<dyn Session + '_>> {
        let session = self.connect()?;
        // A transaction's snapshot is taken by its first read.
        let connection = session.connection();
        connection
            .execute_batch(BEGIN_READ)
            .and_then(|()| {
                connection.query_row("SELECT count FROM marker", [], |row| row.get::<_, i64>(0)).map(drop)
            })
            .map_err(|error| session.map_error(error))?;
        Ok(Box::new(ReadOnlySession(SqliteSession { within: true, ..session })))
    }

    fn facts(&self) -> Result<Facts> {
        let admin = lock(&self.admin);
        let mut facts = Facts::from([
            ("version".into(), rusqlite::version().to_owned()),
            // With HAVE_FDATASYNC it flushes as distributions' builds do (`.cargo/config.toml`), otherwise by fsync.
            ("built_with".into(), option_env!("LIBSQLITE3_FLAGS").unwrap_or("nothing more").to_owned()),
        ]);
        for name in [
            "page_size",
            "journal_mode",
            "synchronous",
            "cache_size",
            "mmap_size",
            "auto_vacuum",
            "wal_autocheckpoint",
        ] {
            let value = admin.pragma_query_value(None, name, |row| {
                row.get::<_, rusqlite::types::Value>(0).map(|value| match value {
                    rusqlite::types::Value::Integer(number) => number.to_string(),
                    rusqlite::types::Value::Text(text) => text,
                    other => format!("{other:?}"),
                })
            });
            facts.insert(name.to_owned(), value.map_err(|error| from_connection(&admin, error))?);
        }
        Ok(facts)
    }

    fn open_catalogue(&self) -> Result<()> {
        let admin = lock(&self.admin);
        let made =
            admin.execute_batch(catalogue::TABLE).and_then(|()| admin.execute_batch(catalogue::UNFINISHED));
        made.map_err(|error| from_connection(&admin, error))
    }

    fn index_bytes(&self) -> Result<Option<u64>> {
        // Joined by name, so that only the pages of indexes are visited.
        let sizes = "SELECT coalesce(sum(size.pgsize), 0) FROM sqlite_schema AS entry CROSS JOIN dbstat('main', 1) AS size
            WHERE entry.type = 'index' AND size.name = entry.name";
        let bytes: i64 = self.row(sizes, |row| row.get(0))?;
        Ok(Some(bytes as u64))
    }

    /// Checkpoints the log into the database, the work that WAL mode defers.
    fn settle(&self) -> Result<()> {
        if self.journal != "wal" {
            return Ok(());
        }
        let busy: i64 = self.row("PRAGMA wal_checkpoint(TRUNCATE)", |row| row.get(0))?;
        if busy == 0 { Ok(()) } else { Err(Error::Busy) }
    }

    /// The files of both journal types.
    fn is_log(&self, path: &Path) -> bool {
        has_name(path, |name| name.ends_with("-wal") || name.ends_with("-journal"))
    }

    /// The length of a value is in its row's header, so its pages are not read.
    fn totals(&self) -> Result<(u64, u64)> {
        let totals = "SELECT count(*), coalesce(sum(length(data)), 0) FROM blobs";
        self.row(totals, |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64)))
    }

    fn back_up(&self, to: &Path) -> Result<()> {
        const ALL_PAGES: i32 = -1;
        let source = self.connection()?;
        let mut copy = opened(&to.join(FILE))?;
        // The caller flushes the backup.
        pragma(&copy, "synchronous", "OFF")?;
        let step = {
            let backup = OnlineBackup::new(&source, &mut copy).map_err(from_sqlite)?;
            backup.step(ALL_PAGES).map_err(from_sqlite)?
        };
        if step != StepResult::Done {
            return Err(Error::Busy);
        }
        copy.close().map_err(|(_, error)| from_sqlite(error))
    }

    /// Unlike `VACUUM`, which first makes a temporary file in a directory that SQLite chooses, it only writes to the copy.
    fn compact_into(&self, to: &Path) -> Result<()> {
        let copy = to.join(FILE);
        let copy = copy.to_str().ok_or(Error::Unsupported("a compact copy at a path that is not UTF-8"))?;
        let admin = lock(&self.admin);
        admin.execute("VACUUM INTO ?1", [copy]).map(drop).map_err(|error| from_connection(&admin, error))
    }

    fn close(self: Box<Self>) -> Result<()> {
        let admin = self.admin.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        admin.close().map_err(|(_, error)| from_sqlite(error))
    }
}

self_cell::self_cell!(
    /// A connection and its prepared statement for whole blobs, which saves looking up the statement cache in every read.
    struct Prepared {
        owner: Connection,
        #[not_covariant]
        dependent: Statement,
    }
);

struct SqliteSession<'a> {
    store: &'a Sqlite,
    prepared: Prepared,
    buffer: Vec<u8>,
    /// True while in a transaction that the caller began and will end.
    within: bool,
}

impl catalogue::CatalogueConnection for SqliteSession<'_> {
    const BEGIN: &'static str = BEGIN_WRITE;

    fn execute(&mut self, sql: &str) -> Result<()> {
        let mut statement = self.statement(sql)?;
        statement.execute([]).map(drop).map_err(|error| self.noted(error))
    }

    fn within(&mut self) -> &mut bool {
        &mut self.within
    }

    fn change(&mut self, sql: &'static str, params: &[CatalogueParameter]) -> Result<u64> {
        let mut statement = self.statement(sql)?;
        let changed = statement.execute(rusqlite::params_from_iter(params)).map_err(|error| {
            // Another session is storing the same digest.
            match error.sqlite_error_code() {
                Some(ErrorCode::ConstraintViolation) => Error::Busy,
                _ => self.noted(error),
            }
        })?;
        Ok(changed as u64)
    }

    fn number(&mut self, sql: &'static str, params: &[CatalogueParameter]) -> Result<Option<i64>> {
        let mut statement = self.statement(sql)?;
        let params = rusqlite::params_from_iter(params);
        statement.query_row(params, |row| row.get(0)).optional().map_err(|error| self.map_error(error))
    }
}

impl rusqlite::ToSql for CatalogueParameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        match self {
            CatalogueParameter::Text(text) => text.to_sql(),
            CatalogueParameter::Number(number) => number.to_sql(),
        }
    }
}

/// The SQL for each kind of key. `?1` is the key in all of them.
struct SqliteStatements {
    table: &'static str,
    get: &'static str,
    get_part: &'static str,
    find: &'static str,
    put: &'static str,
    put_room: &'static str,
    delete: &'static str,
}

const BY_DIGEST: SqliteStatements = SqliteStatements {
    table: TABLE_BY_DIGEST,
    get: "SELECT data FROM blobs WHERE key = ?1",
    get_part: "SELECT substr(data, ?2, ?3) FROM blobs WHERE key = ?1",
    find: "SELECT id FROM blobs WHERE key = ?1",
    put: "INSERT INTO blobs(key, data) VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET data = excluded.data",
    put_room: "INSERT INTO blobs(key, data) VALUES (?1, zeroblob(?2))
               ON CONFLICT(key) DO UPDATE SET data = excluded.data RETURNING id",
    delete: "DELETE FROM blobs WHERE key = ?1",
};

const BY_INTEGER: SqliteStatements = SqliteStatements {
    table: TABLE_BY_INTEGER,
    get: "SELECT data FROM blobs WHERE id = ?1",
    get_part: "SELECT substr(data, ?2, ?3) FROM blobs WHERE id = ?1",
    find: "SELECT id FROM blobs WHERE id = ?1",
    put: "INSERT INTO blobs(id, data) VALUES (?1, ?2) ON CONFLICT(id) DO UPDATE SET data = excluded.data",
    put_room: "INSERT INTO blobs(id, data) VALUES (?1, zeroblob(?2))
               ON CONFLICT(id) DO UPDATE SET data = excluded.data RETURNING id",
    delete: "DELETE FROM blobs WHERE id = ?1",
};

impl SqliteSession<'_> {
    fn connection(&self) -> &Connection {
        self.prepared.borrow_owner()
    }

    fn noted(&self, error: rusqlite::Error) -> Error {
        self.store.noted(self.connection(), error)
    }

    fn map_error(&self, error: rusqlite::Error) -> Error {
        from_connection(self.connection(), error)
    }

    fn statement(&self, sql: &str) -> Result<CachedStatement<'_>> {
        self.connection().prepare_cached(sql).map_err(|error| self.map_error(error))
    }

    fn statements(&self) -> &'static SqliteStatements {
        self.store.statements()
    }

    /// A key as a parameter of the column's type.
    fn key<'k>(&self, key: &'k Key) -> CatalogueParameter<'k> {
        match self.store.by_digest {
            true => CatalogueParameter::Text(key.as_str()),
            false => CatalogueParameter::Number(key.id as i64),
        }
    }

    fn put_one(&mut self, key: &Key, blob: &[u8]) -> rusqlite::Result<()> {
        if !self.store.incremental {
            let mut put = self.connection().prepare_cached(self.statements().put)?;
            put.execute(params![self.key(key), blob])?;
            return Ok(());
        }
        let mut put_room = self.connection().prepare_cached(self.statements().put_room)?;
        let id: i64 = put_room.query_row(params![self.key(key), blob.len() as i64], |row| row.get(0))?;
        let mut handle = self.connection().blob_open("main", "blobs", "data", id, false)?;
        for (index, piece) in blob.chunks(PIECE_BYTES).enumerate() {
            handle.write_at(piece, index * PIECE_BYTES)?;
        }
        Ok(())
    }

    fn get_column(&mut self, key: &Key, span: Span, sink: Sink) -> rusqlite::Result<bool> {
        let key = self.key(key);
        match span {
            Span::Whole => {
                self.prepared.with_dependent_mut(|_connection, get| lend(get.query(params![key])?, sink))
            }
            // SQL positions start at 1.
            Span::Part { .. } => {
                let (offset, len) = span.below(LIMIT.bytes);
                let mut get_part = self.connection().prepare_cached(self.statements().get_part)?;
                lend(get_part.query(params![key, offset as i64 + 1, len as i64])?, sink)
            }
        }
    }

    /// Finds the row and reads through a handle, both in the caller's transaction.
    fn get_incremental(&mut self, key: &Key, span: Span, sink: Sink) -> rusqlite::Result<bool> {
        // Not by the method, which would also borrow the buffer.
        let connection = self.prepared.borrow_owner();
        let mut find = connection.prepare_cached(self.statements().find)?;
        let Some(id) = find.query_row(params![self.key(key)], |row| row.get::<_, i64>(0)).optional()? else {
            return Ok(false);
        };
        let handle: Blob<'_> = connection.blob_open("main", "blobs", "data", id, true)?;
        let offset = match span {
            Span::Whole => 0,
            Span::Part { offset, .. } => offset as usize,
        };
        let end = offset + span.len_in(handle.len() as u64) as usize;
        self.buffer.resize(PIECE_BYTES, 0);
        let mut at = offset;
        while at < end {
            let piece = &mut self.buffer[..PIECE_BYTES.min(end - at)];
            handle.read_at_exact(piece, at)?;
            sink(piece);
            at += piece.len();
        }
        Ok(true)
    }

    /// Runs `body` between BEGIN and COMMIT, or within the caller's transaction; rolls back if it fails.
    fn transaction<T>(
        &mut self,
        begin: &str,
        body: impl FnOnce(&mut Self) -> rusqlite::Result<T>,
    ) -> Result<T> {
        if self.within {
            return body(self).map_err(|error| self.map_error(error));
        }
        self.connection()
            .prepare_cached(begin)
            .and_then(|mut begin| begin.execute([]))
            .map_err(|error| self.map_error(error))?;
        let result = body(self).and_then(|value| {
            self.connection().prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]))?;
            Ok(value)
        });
        result.map_err(|error| {
            // The first error is the one to report; a failed rollback leaves nothing to roll back.
            let error = self.noted(error);
            drop(self.connection().execute_batch("ROLLBACK"));
            error
        })
    }
}

/// Lends the first row's value; returns whether there is a row.
fn lend(mut rows: Rows<'_>, sink: Sink) -> rusqlite::Result<bool> {
    let Some(row) = rows.next()? else { return Ok(false) };
    // An empty range is NULL; the column itself never is.
    if let Some(bytes) = row.get_ref(0)?.as_blob_or_null()? {
        sink(bytes);
    }
    Ok(true)
}

/// Takes the write lock at once, so that a transaction never has to restart in the middle.
const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";
const BEGIN_READ: &str = "BEGIN";

impl Session for SqliteSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        LIMIT.check(blob)?;
        if self.store.incremental {
            return self.transaction(BEGIN_WRITE, |session| session.put_one(key, blob));
        }
        self.put_one(key, blob).map_err(|error| self.noted(error))
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        if self.store.incremental {
            return self.transaction(BEGIN_READ, |session| session.get_incremental(key, span, sink));
        }
        self.get_column(key, span, sink).map_err(|error| self.map_error(error))
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        let mut delete = self.statement(self.statements().delete)?;
        delete.execute(params![self.key(key)]).map(drop).map_err(|error| self.noted(error))
    }

    /// Commits a marker with FULL, whose flush of the log covers every earlier commit. Does nothing in the class none, and
    /// nothing with FULL or EXTRA, which have flushed everything already.
    fn sync(&mut self) -> Result<()> {
        if self.store.synchronous != "NORMAL" {
            return Ok(());
        }
        self.store.has_failed.check()?;
        self.connection()
            .execute_batch("PRAGMA synchronous = FULL; UPDATE marker SET count = count + 1; PRAGMA synchronous = NORMAL;")
            .map_err(|error| self.noted(error))
    }

    fn catalogue(&mut self) -> Result<&mut dyn Catalogue> {
        Ok(self)
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        if !self.store.by_digest {
            return Err(Error::Unsupported("list"));
        }
        let mut select = self.statement("SELECT key FROM blobs")?;
        let mut listed = || {
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                each(row.get_ref(0)?.as_str().unwrap_or_default());
            }
            Ok(())
        };
        listed().map_err(|error| self.map_error(error))
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        blobs.iter().try_for_each(|(_, blob)| LIMIT.check(blob))?;
        self.transaction(BEGIN_WRITE, |session| {
            blobs.iter().try_for_each(|(key, blob)| session.put_one(key, blob))
        })
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        self.transaction(BEGIN_READ, |session| {
            get_each(keys, sink, |key, sink| match session.store.incremental {
                true => session.get_incremental(key, Span::Whole, sink),
                false => session.get_column(key, Span::Whole, sink),
            })
        })
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        self.transaction(BEGIN_WRITE, |session| {
            let mut delete = session.connection().prepare_cached(session.statements().delete)?;
            keys.iter().try_for_each(|key| delete.execute(params![session.key(key)]).map(drop))
        })
    }
}
