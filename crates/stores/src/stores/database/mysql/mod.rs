//! MySQL and MariaDB: a value in a column or rows of pieces, in a private server or the user's.

mod instance;
mod pages;
mod rights;
mod room;
mod session;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};

use self::instance::MySqlServer;
use self::session::MySqlSession;
use crate::host::server::Program;
use crate::store::*;
use crate::stores::common::catalogue;
use crate::stores::common::certificate::{self, TLS, TlsPort};
use crate::stores::common::keys::{self, KeyForm};
use crate::stores::common::lock;
use crate::stores::common::reader::ReadOnlySession;
use crate::stores::common::servers::{self, CONNECTION, DELETE, Host, PIECE, PROFILE, SERVER, URL};
use crate::wire::mysql::{SETTLED, io_of, opts_of, plainly, refuse_pooler};
use crate::wire::tls::TlsMode;

pub(in crate::stores) const MARIADBD: Program = Program {
    name: "mariadbd",
    places: &[],
    variable: Some("BLOBWISE_MARIADBD"),
    ask: &["--no-defaults", "--version"],
    says: "MariaDB",
    never_says: None,
    install: "apt-get install mariadb-server",
};

/// Debian's `mysqld` is MariaDB, so the version is checked. Not every MySQL prints its name.
const MYSQLD: Program = Program {
    name: "mysqld",
    places: &["~cache/blobwise/mysql-*/bin", "/usr/local/mysql/bin", "/opt/mysql*/bin"],
    variable: Some("BLOBWISE_MYSQLD"),
    ask: &["--no-defaults", "--version"],
    says: "  Ver ",
    never_says: Some("MariaDB"),
    install: "apt-get install mysql-server (where that is MySQL), or ./test.sh, which fetches one for tests",
};

const KEY: OptionSpec = keys::KEY.about("digest: a unique index over VARCHAR(32); integer: the primary key");
const PROTOCOL: OptionSpec = OptionSpec::choice("protocol", &["prepared", "text", "procedure"]).about(
    "prepared: binary, prepared once; text: SQL with the blob in hexadecimal; procedure: a prepared CALL",
);
const COMPRESSION: OptionSpec = OptionSpec::choice("compression", &["none", "page"])
    .about("page: InnoDB compresses pages (ROW_FORMAT=COMPRESSED)");
const ISOLATION: OptionSpec =
    OptionSpec::choice("isolation", &["repeatable-read", "read-committed", "serializable"])
        .about("isolation of every transaction");
const CHARSET: OptionSpec = OptionSpec::choice("charset", &["binary", "utf8mb4"])
    .about("what a connection calls the strings that it sends: binary: bytes; utf8mb4: text, as most drivers say, of which the server counts the characters");

const BLOB_OPTIONS: &[OptionSpec] =
    &[KEY, PROTOCOL, CONNECTION, CHARSET, COMPRESSION, DELETE, ISOLATION, PROFILE, SERVER, TLS, URL];
const CHUNKED_OPTIONS: &[OptionSpec] =
    &[PIECE, KEY, CONNECTION, CHARSET, COMPRESSION, DELETE, ISOLATION, PROFILE, SERVER, TLS, URL];

/// The buffer pool by `innodb_dedicated_server` on a machine with more than 4 GB. The page cache also holds its files (see
/// `flush_method`).
fn mysql_memory(options: &Options) -> CacheRecommendation {
    let tuned = CacheRecommendation {
        own: OwnCache::Share(0.75),
        words: "Greater than 4GB: detected server memory * 0.75",
        link: "https://dev.mysql.com/doc/refman/8.4/en/innodb-dedicated-server.html",
    };
    servers::split(options, tuned)
}

/// The upper end of the recommendation. It bypasses the page cache (O_DIRECT).
fn mariadb_memory(options: &Options) -> CacheRecommendation {
    let tuned = CacheRecommendation {
        own: OwnCache::Share(0.7),
        words: "Mostly InnoDB: Set innodb_buffer_pool_size to about 60% to 70% of available RAM",
        link: "https://mariadb.com/docs/server/ha-and-performance/mariadb-memory-allocation",
    };
    servers::split(options, tuned)
}

/// A remark about an old MySQL.
fn age() -> Option<String> {
    remark(instance::version_of(&MYSQLD.find().ok()?.version))
}

/// 8.0.18 was released in October 2019, 8.0.19 in January 2020.
fn remark(version: [u16; 3]) -> Option<String> {
    const FIRST_OF_2020: [u16; 3] = [8, 0, 19];
    let [major, minor, patch] = version;
    let is_old = version != [0; 3] && version < FIRST_OF_2020;
    is_old.then(|| {
        format!(
            "MySQL {major}.{minor}.{patch} is old, of 2019 or before: its figures say nothing of newer ones"
        )
    })
}

/// Maximum length in bytes of the path of a server's directory: a path may have 511 (`FN_REFLEN`). The rest is for the name of the
/// directory that is initialised once for all rounds, and for the longest file that the server makes first: the host's name (64)
/// with `.lower-test`, by which it finds out whether the file system distinguishes cases.
const DIR_BYTES_MAX: usize = 511 - "/data/".len() - 64 - 64 - ".lower-test".len();

pub(in crate::stores) const MYSQL_BLOB: Adapter = Adapter {
    name: "mysql/blob",
    about: "MySQL: the blob in a LONGBLOB column",
    kind: Kind::Server,
    programs: &[MYSQLD],
    options: BLOB_OPTIONS,
    caps: |options| Capabilities { backup: MYSQL_BACKUP, ..caps(options) },
    loss,
    integrity: |_, _| MYSQL_INTEGRITY,
    traits: servers::traits,
    memory: mysql_memory,
    needs: Needs {
        remark: age,
        of_machine: |options| certificate::refusal(options, &MYSQLD),
        dir_bytes_max: || Some(DIR_BYTES_MAX),
        weaker: instance::weaker,
        faults: pages::FAULTS,
        of_server: Some(|setup| room::intent(setup, MySqlProduct::MySql)),
        ..Needs::NOTHING
    },
    open: |setup| open(setup, MySqlProduct::MySql, MySqlLayout::Blob),
};

pub(in crate::stores) const MYSQL_CHUNKED: Adapter = Adapter {
    name: "mysql/chunked",
    about: "MySQL: the blob as rows of pieces in a second table",
    options: CHUNKED_OPTIONS,
    open: |setup| open(setup, MySqlProduct::MySql, chunked(setup)),
    ..MYSQL_BLOB
};

pub(in crate::stores) const MARIADB_BLOB: Adapter = Adapter {
    name: "mariadb/blob",
    about: "MariaDB: the blob in a LONGBLOB column",
    programs: &[MARIADBD],
    caps: |options| Capabilities { backup: MARIADB_BACKUP, ..caps(options) },
    integrity: |_, _| MARIADB_INTEGRITY,
    memory: mariadb_memory,
    needs: Needs {
        of_machine: |options| certificate::refusal(options, &MARIADBD),
        dir_bytes_max: || Some(DIR_BYTES_MAX),
        of_server: Some(|setup| room::intent(setup, MySqlProduct::MariaDb)),
        ..Needs::NOTHING
    },
    open: |setup| open(setup, MySqlProduct::MariaDb, MySqlLayout::Blob),
    ..MYSQL_BLOB
};

pub(in crate::stores) const MARIADB_CHUNKED: Adapter = Adapter {
    name: "mariadb/chunked",
    about: "MariaDB: the blob as rows of pieces in a second table",
    options: CHUNKED_OPTIONS,
    open: |setup| open(setup, MySqlProduct::MariaDb, chunked(setup)),
    ..MARIADB_BLOB
};

/// The archive of version 8.0.15 contains the server only: its `mysqldump` is missing, and MariaDB's is a different program.
const MYSQL_BACKUP: Backup = Backup::Closed(BackupMethod {
    by: "a cold backup: the server is shut down, and its directory copied",
    words: "If you can shut down the MySQL server, you can make a physical backup that consists of all files used by InnoDB to manage \
            its tables",
    link: "https://dev.mysql.com/doc/refman/8.0/en/innodb-backup.html",
});

const MARIADB_BACKUP: Backup = Backup::Dump(BackupMethod {
    by: "`mariadb-dump --single-transaction --hex-blob`, loaded by `mariadb`",
    words: "It makes logical backups: SQL statements that, executed, make the objects of a database and their data again",
    link: "https://mariadb.com/kb/en/mariadb-dump/",
});

/// The largest max_allowed_packet is 1 GiB for the whole message; 1000 MiB worked in a test.
const BINARY_LIMIT: Limit = Limit { bytes: 1000 << 20, source: "max_allowed_packet is at most 1 GiB" };
/// Hexadecimal takes two digits per byte; 500 MiB worked in a test, 512 MiB did not.
const TEXT_LIMIT: Limit =
    Limit { bytes: 500 << 20, source: "max_allowed_packet is at most 1 GiB, two digits for a byte" };
/// Pieces need no large packet, and stay below the documented row limit.
const CHUNKED_LIMIT: Limit = Limit { bytes: u32::MAX as u64, source: "the number of a piece, 32 bits" };

/// MySQL's manual on InnoDB's isolation levels: with REPEATABLE READ "consistent reads within the same transaction read the
/// snapshot established by the first read", with READ COMMITTED each "sets and reads its own fresh snapshot", and SERIALIZABLE
/// "implicitly converts all plain SELECT statements to SELECT ... FOR SHARE".
fn view(options: &Options) -> ReadIsolation {
    match options.text("isolation") {
        "read-committed" => ReadIsolation::Latest,
        "serializable" => ReadIsolation::Locked,
        _ => ReadIsolation::Snapshot,
    }
}

fn caps(options: &Options) -> Capabilities {
    Capabilities {
        list: KeyForm::from_options(options) == KeyForm::Digest,
        // A column value is transferred as a whole.
        streams: !options.text("piece").is_empty(),
        one_transaction: Some(view(options)),
        blob_bytes_max: Some(limit(options)),
        compaction: Some(Compaction::InPlace("`OPTIMIZE TABLE`")),
        clients: ClientSupport::Server,
        // Its data directory and the template that this is copied from.
        inodes: Inodes { beside: 1_500, ..Inodes::FEW },
        ..Capabilities::ALL
    }
}

fn limit(options: &Options) -> Limit {
    match (options.text("piece"), options.text("protocol")) {
        ("", "text") => TEXT_LIMIT,
        ("", _) => BINARY_LIMIT,
        _ => CHUNKED_LIMIT,
    }
}

/// InnoDB's documentation of `innodb_flush_log_at_trx_commit`: 0, the log is written and flushed once a second; 2, written at
/// each commit and flushed once a second; 1, flushed at each commit. With 2 a killed server loses nothing, because the log is in
/// the kernel's cache.
fn flush_log_at_commit(durability: Durability) -> u8 {
    match durability {
        Durability::None => 0,
        Durability::OnSync => 2,
        Durability::EachWrite => 1,
    }
}

/// MySQL's manual on `innodb_checksum_algorithm`: every page has a checksum (crc32 by default), and reading a page with a wrong
/// one fails, unless the algorithm is `none` or `strict_none`.
const MYSQL_INTEGRITY: Integrity = Integrity::AsSet {
    fact: "innodb_checksum_algorithm",
    checked: &["crc32", "strict_crc32", "full_crc32", "strict_full_crc32", "innodb", "strict_innodb"],
    unchecked: &["none", "strict_none"],
};

/// MariaDB has the same checksums, but a blob with overflow pages is silently cut off before the first page with a wrong checksum
/// (seen with 10.11: 16,330 B of 200,000).
const MARIADB_INTEGRITY: Integrity = Integrity::Unchecked;

fn loss(_: &Options, durability: Durability) -> Losses {
    match durability {
        Durability::None => Losses::alike(Loss::RecentWrites),
        Durability::OnSync => Losses { after_kill: Loss::Nothing, after_power_cut: Loss::RecentWrites },
        Durability::EachWrite => Losses::alike(Loss::Nothing),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MySqlProduct {
    MySql,
    MariaDb,
}

impl MySqlProduct {
    fn name(self) -> &'static str {
        match self {
            MySqlProduct::MySql => "MySQL",
            MySqlProduct::MariaDb => "MariaDB",
        }
    }

    /// The SET statement of a candidate's sessions.
    fn of_session(self, options: &Options) -> String {
        let (charset, isolation) = (options.text("charset"), options.text("isolation").to_uppercase());
        // Limits of the server's on the time of a statement would end ops early, and removals half-way; those on idle transactions
        // would end reads that have a pace.
        let (variable, unlimited) = match self {
            MySqlProduct::MySql => ("transaction_isolation", "SESSION max_execution_time = 0"),
            MySqlProduct::MariaDb => (
                "tx_isolation",
                "SESSION max_statement_time = 0, SESSION idle_transaction_timeout = 0, SESSION idle_readonly_transaction_timeout = 0, \
                 SESSION idle_write_transaction_timeout = 0",
            ),
        };
        format!(
            "SET character_set_client = {charset}, character_set_connection = {charset}, character_set_results = {charset}, \
             SESSION {variable} = '{isolation}', {unlimited}, {SETTLED}"
        )
    }
}

#[derive(Clone, Copy)]
enum MySqlLayout {
    Blob,
    Chunked { piece: usize },
}

fn chunked(setup: &Setup) -> MySqlLayout {
    MySqlLayout::Chunked { piece: setup.options.number("piece") as usize }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StatementProtocol {
    Prepared,
    Text,
    Procedure,
}

impl StatementProtocol {
    fn from_options(options: &Options) -> StatementProtocol {
        match options.text("protocol") {
            "text" => StatementProtocol::Text,
            "procedure" => StatementProtocol::Procedure,
            _ => StatementProtocol::Prepared,
        }
    }
}

struct MySql {
    flavour: MySqlProduct,
    shape: MySqlLayout,
    protocol: StatementProtocol,
    key_form: KeyForm,
    lazy_delete: bool,
    durability: Durability,
    limit: Limit,
    /// True if the reads of one transaction see one snapshot.
    is_repeatable: bool,
    /// Connection options of sessions, with our database.
    opts: Opts,
    /// Admin connection, open as long as the store: sets up, settles, reads facts, and holds the lock that marks the database as
    /// in use.
    admin: Mutex<Conn>,
    database: String,
    /// True if another process opened the store.
    joined: bool,
    /// True if several processes use a private server; they must not flush its log at once.
    has_company: AtomicBool,
    /// Socket of a server that this program started, in whichever process.
    socket: Option<PathBuf>,
    /// Where that server's sessions connect, if not to its socket.
    tls_port: Option<TlsPort>,
    /// Stopped after everything above is dropped.
    host: Host<MySqlServer>,
}

/// What another process needs to join, beyond the candidate's options, which contain the URL of the user's server.
#[derive(serde::Serialize, serde::Deserialize)]
struct ServerAccess {
    /// Socket of a server that this program started.
    socket: Option<PathBuf>,
    /// Where its sessions connect, if not to the socket.
    tls_port: Option<TlsPort>,
    /// Private server: session defaults were set at startup, so connections send no init statements.
    is_private: bool,
    database: String,
}

/// Connection options of sessions, without a database.
fn opts_for(setup: &Setup, flavour: MySqlProduct, base: OptsBuilder, is_private: bool) -> OptsBuilder {
    // One more request per connection, only for servers that are not private.
    let init = (!is_private).then(|| flavour.of_session(setup.options));
    base.max_allowed_packet(Some(instance::PACKET_MAX))
        .tcp_connect_timeout(Some(setup.op_timeout))
        .read_timeout(Some(setup.op_timeout))
        .write_timeout(Some(setup.op_timeout))
        .init(init.into_iter().collect::<Vec<String>>())
}

/// The same for the user's server, after checking that it is no pooler.
fn opts_of_theirs(setup: &Setup, flavour: MySqlProduct) -> Result<OptsBuilder> {
    certificate::check_theirs(setup.options)?;
    let (base, mode) = opts_of(setup.options.text("url"))?;
    Ok(refuse_pooler(opts_for(setup, flavour, base, false), mode)?)
}

/// Joins a store that another process opened and will remove.
fn join(
    setup: &Setup,
    flavour: MySqlProduct,
    shape: MySqlLayout,
    join_token: &JoinToken,
) -> Result<Box<dyn Store>> {
    let way: ServerAccess = join_token.read()?;
    let opts = match &way.socket {
        Some(socket) => {
            let opts = instance::opts_of(socket, way.tls_port.as_ref())?;
            opts_for(setup, flavour, opts, way.is_private)
        }
        None => opts_of_theirs(setup, flavour)?,
    };
    let opts = opts.db_name(Some(way.database.clone()));
    let patience = way.socket.is_none().then_some(super::THEIR_PATIENCE);
    let admin = Conn::new(opts.clone().read_timeout(patience))?;
    let store = MySql::new(setup, flavour, shape, (opts, admin), way.database, Host::Theirs);
    let (socket, tls_port) = (way.socket, way.tls_port);
    Ok(Box::new(MySql { joined: true, has_company: AtomicBool::new(true), socket, tls_port, ..store }))
}

fn open(setup: &Setup, flavour: MySqlProduct, shape: MySqlLayout) -> Result<Box<dyn Store>> {
    if let Some(join_token) = setup.join_token {
        return join(setup, flavour, shape, join_token);
    }
    let start = |dir: &Path, mode| MySqlServer::start(dir, mode, setup, flavour);
    let host = Host::open(setup, || MySqlServer::shared_name(setup, flavour), start)?;
    let opts = match host.instance() {
        Some(instance) => opts_for(setup, flavour, instance.opts()?, host.is_private()),
        None => opts_of_theirs(setup, flavour)?,
    };
    let patience = host.is_theirs().then_some(super::THEIR_PATIENCE);
    let mut admin = Conn::new(opts.clone().read_timeout(patience))?;
    match &host {
        Host::Theirs => {
            instance::check_server(&mut admin, flavour, setup)?;
            limit_waits(&mut admin)?;
            if setup.mode == Mode::Create {
                rights::check(
                    &mut admin,
                    flavour,
                    shape,
                    StatementProtocol::from_options(setup.options),
                    setup.durability,
                )?;
            }
        }
        // The server was started with the class of the first candidate. Candidates run one after another, so this setting affects
        // no other store.
        Host::Shared(_) => flush_at_commit(&mut admin, flush_log_at_commit(setup.durability))?,
        Host::Private(_) => {}
    }
    let database = match setup.mode {
        Mode::Create => {
            let database = host.name_ours(instance::PRIVATE_DATABASE);
            instance::create_database(&mut admin, setup.dir, &database, host.is_theirs())?;
            database
        }
        Mode::Open => instance::find_database(&mut admin, setup.dir, host.is_theirs())?,
    };
    let opts = opts.db_name(Some(database.clone()));
    let store = Box::new(MySql::new(setup, flavour, shape, (opts, admin), database, host));
    let made = (setup.mode == Mode::Create && store.host.is_theirs())
        .then(|| format!("the database {}", store.database));
    let outcome = store.prepare(setup);
    servers::set_up(store, outcome, made)
}

/// Limits how long the admin connection waits for a table that others use: by default for a day, or a year.
fn limit_waits(admin: &mut Conn) -> Result<()> {
    Ok(admin.query_drop(format!("SET SESSION lock_wait_timeout = {}", super::LOCK_PATIENCE.as_secs()))?)
}

/// Sets how a server that this program started flushes its log at each commit.
fn flush_at_commit(connection: &mut Conn, flush: u8) -> Result<()> {
    let set = format!("SET GLOBAL innodb_flush_log_at_trx_commit = {flush}");
    Ok(connection.query_drop(set)?)
}

/// Makes InnoDB write the dirty pages of these tables. The purge pauses meanwhile and is woken afterwards.
fn export(admin: &mut Conn, tables: &str) -> Result<()> {
    admin.query_drop(format!("FLUSH TABLES {tables} FOR EXPORT"))?;
    Ok(admin.query_drop("UNLOCK TABLES")?)
}

/// Separates retryable errors and timeouts from failures.
impl From<mysql::Error> for Error {
    fn from(error: mysql::Error) -> Error {
        /// A deadlock, resolved by rolling back this transaction.
        const DEADLOCK: u16 = 1213;
        /// A lock wait timed out.
        const LOCK_WAIT: u16 = 1205;
        match &error {
            mysql::Error::MySqlError(server) if [DEADLOCK, LOCK_WAIT].contains(&server.code) => Error::Busy,
            _ if is_timeout(&error) => Error::TimedOut,
            _ => Error::Failed(plainly(error)),
        }
    }
}

fn is_timeout(error: &mysql::Error) -> bool {
    io_of(error)
        .is_some_and(|io| matches!(io.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut))
}

impl MySql {
    /// A store with these options and this connection.
    fn new(
        setup: &Setup,
        flavour: MySqlProduct,
        shape: MySqlLayout,
        (opts, admin): (OptsBuilder, Conn),
        database: String,
        host: Host<MySqlServer>,
    ) -> MySql {
        MySql {
            flavour,
            shape,
            protocol: StatementProtocol::from_options(setup.options),
            key_form: KeyForm::from_options(setup.options),
            lazy_delete: setup.options.text("delete") == "lazy",
            durability: setup.durability,
            limit: limit(setup.options),
            is_repeatable: view(setup.options) == ReadIsolation::Snapshot,
            opts: Opts::from(opts),
            admin: Mutex::new(admin),
            database,
            joined: false,
            has_company: AtomicBool::new(false),
            socket: host.instance().map(MySqlServer::socket),
            tls_port: host.instance().and_then(|instance| instance.tls_port.clone()),
            host,
        }
    }

    /// Selects the database, and creates what a new one needs.
    fn prepare(&self, setup: &Setup) -> Result<()> {
        let mut admin = lock(&self.admin);
        admin.select_db(&self.database)?;
        if setup.mode == Mode::Open {
            return Ok(());
        }
        for statement in self.tables(setup.options.text("compression") == "page") {
            admin.query_drop(statement)?;
        }
        Ok(())
    }

    /// Drops the database, by a new connection if the server has ended the old one, as it does when it restarts.
    fn drop_database(&self, database: &str) -> Result<()> {
        let mut admin = lock(&self.admin);
        let dropped = instance::drop_database(&mut admin, database);
        let is_late = matches!(dropped, Err(Error::TimedOut));
        if dropped.is_ok() || (!is_late && admin.ping().is_ok()) {
            return dropped;
        }
        let opts = OptsBuilder::from_opts(self.opts.clone()).db_name(None::<String>);
        // Within the time of an op: a server that does not answer is not waited for as long again.
        drop(Conn::new(opts.clone())?);
        *admin = Conn::new(opts.read_timeout(Some(super::THEIR_PATIENCE)))?;
        limit_waits(&mut admin)?;
        instance::drop_database(&mut admin, database)
    }

    /// What was negotiated of TLS, by the server's word.
    fn tls(&self) -> Result<String> {
        let mut admin = lock(&self.admin);
        let mut told = |name: &str| -> Result<String> {
            let row: Option<(String, String)> =
                admin.query_first(format!("SHOW SESSION STATUS LIKE '{name}'"))?;
            Ok(row.map(|(_, value)| value).unwrap_or_default())
        };
        let (version, cipher) = (told("Ssl_version")?, told("Ssl_cipher")?);
        if version.is_empty() {
            return Ok("none".to_owned());
        }
        let is_checked = self.opts.get_ssl_opts().is_some_and(|ssl| !ssl.accept_invalid_certs());
        let mode = if is_checked { TlsMode::VerifyFull } else { TlsMode::Require };
        Ok(format!("{version}, {cipher}, {}", mode.checked()))
    }

    fn key_column(&self) -> &'static str {
        match self.key_form {
            KeyForm::Digest => "hash",
            KeyForm::Integer => "id",
        }
    }

    /// The statements that create tables and procedures.
    fn tables(&self, compressed: bool) -> Vec<String> {
        let database = &self.database;
        let kept = instance::TABLE_OPTIONS;
        let format = if compressed { " ROW_FORMAT=COMPRESSED" } else { "" };
        let keys = match self.key_form {
            // As in the published comparison: an integer for the row, a unique index over the digest.
            KeyForm::Digest => {
                "id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, hash VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE"
            }
            KeyForm::Integer => "id BIGINT NOT NULL PRIMARY KEY",
        };
        let mut statements = match self.shape {
            MySqlLayout::Blob => vec![format!(
                "CREATE TABLE {database}.blobs({keys}, content LONGBLOB NOT NULL, gone BOOLEAN NOT NULL DEFAULT FALSE) {kept}{format}"
            )],
            // Pieces carry a version, so that a new blob's pieces can be put before the old ones are deleted.
            MySqlLayout::Chunked { .. } => vec![
                format!(
                    "CREATE TABLE {database}.blobs({keys}, version BIGINT NOT NULL, gone BOOLEAN NOT NULL DEFAULT FALSE) {kept}"
                ),
                format!(
                    "CREATE TABLE {database}.pieces(blob_id BIGINT NOT NULL, version BIGINT NOT NULL, number INT NOT NULL,
                     data MEDIUMBLOB NOT NULL, PRIMARY KEY (blob_id, version, number),
                     FOREIGN KEY (blob_id) REFERENCES {database}.blobs(id) ON DELETE CASCADE) {kept}{format}"
                ),
            ],
        };
        statements.push(format!(
            "CREATE TABLE {database}.marker(id INT PRIMARY KEY, syncs BIGINT NOT NULL) {kept}"
        ));
        statements.push(format!("INSERT INTO {database}.marker VALUES (1, 0)"));
        if self.protocol == StatementProtocol::Procedure {
            statements.extend(self.procedures());
        }
        statements
    }

    /// The sum of an expression of `information_schema.tables` over our tables.
    fn bytes_of(&self, what: &str) -> Result<Option<u64>> {
        let mut admin = lock(&self.admin);
        let tables: Vec<String> = admin.query("SHOW TABLES")?;
        for table in tables {
            // Sizes are estimates; this updates them.
            admin.query_drop(format!("ANALYZE TABLE {table}"))?;
        }
        let sum = format!(
            "SELECT CAST(COALESCE(SUM({what}), 0) AS UNSIGNED) FROM information_schema.tables WHERE table_schema = ?"
        );
        Ok(admin.exec_first(sum, (&self.database,))?)
    }

    /// Flushes InnoDB's log, which holds every earlier commit.
    ///
    /// MySQL has a statement for that. MariaDB has the same statement, but it writes the log and flushes it only if every commit
    /// is flushed anyway (seen in its system calls); so a marker is committed while commits are flushed. The setting is
    /// server-wide, so syncs are serialized, by a lock of the server if other processes may sync too; concurrent commits of
    /// others are flushed as well. A user's server flushes every commit, or was refused.
    fn flush_log(&self, connection: &mut Conn) -> Result<()> {
        if self.flavour == MySqlProduct::MySql {
            return Ok(connection.query_drop("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS")?);
        }
        if self.socket.is_none() {
            return Ok(());
        }
        let mut admin = lock(&self.admin);
        let has_company = self.has_company.load(Ordering::Relaxed);
        if has_company {
            instance::lock_flush(&mut admin)?;
        }
        let flushed = self.commit_flushed(&mut admin);
        if has_company {
            instance::unlock_flush(&mut admin)?;
        }
        flushed
    }

    /// Commits a marker while commits are flushed.
    fn commit_flushed(&self, admin: &mut Conn) -> Result<()> {
        flush_at_commit(admin, flush_log_at_commit(Durability::EachWrite))?;
        let committed = admin.query_drop("UPDATE marker SET syncs = syncs + 1");
        // Also after a failure, since otherwise every later commit would be flushed.
        flush_at_commit(admin, flush_log_at_commit(self.durability))?;
        Ok(committed?)
    }

    fn table_names(&self) -> &'static str {
        match self.shape {
            MySqlLayout::Blob => "blobs",
            MySqlLayout::Chunked { .. } => "blobs, pieces",
        }
    }

    fn procedures(&self) -> Vec<String> {
        let key = self.key_column();
        let kind = match self.key_form {
            KeyForm::Digest => "VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin",
            KeyForm::Integer => "BIGINT",
        };
        let here = if self.lazy_delete { " AND NOT gone" } else { "" };
        let delete = if self.lazy_delete { "UPDATE blobs SET gone = TRUE" } else { "DELETE FROM blobs" };
        vec![
            format!(
                "CREATE PROCEDURE put_blob(IN k {kind}, IN c LONGBLOB) INSERT INTO blobs({key}, content) VALUES (k, c)
                 ON DUPLICATE KEY UPDATE content = c, gone = FALSE"
            ),
            format!("CREATE PROCEDURE get_blob(IN k {kind}) SELECT content FROM blobs WHERE {key} = k{here}"),
            format!(
                "CREATE PROCEDURE get_part(IN k {kind}, IN o BIGINT, IN l BIGINT)
                 SELECT SUBSTRING(content, o, l) FROM blobs WHERE {key} = k{here}"
            ),
            // Passing a list is the only way to hand over a variable number of keys. Each statement returns its own result.
            format!(
                "CREATE PROCEDURE get_several(IN list LONGTEXT CHARACTER SET ascii COLLATE ascii_bin)
                 BEGIN
                     DECLARE k {kind};
                     DECLARE comma INT;
                     REPEAT
                         SET k = SUBSTRING_INDEX(list, ',', 1);
                         SET comma = LOCATE(',', list);
                         SET list = SUBSTRING(list, comma + 1);
                         SELECT content FROM blobs WHERE {key} = k{here};
                     UNTIL comma = 0 END REPEAT;
                 END"
            ),
            format!("CREATE PROCEDURE delete_blob(IN k {kind}) {delete} WHERE {key} = k"),
        ]
    }
}

impl Store for MySql {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MySqlSession::open(self)?))
    }

    fn reader(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(ReadOnlySession(MySqlSession::open_within(self)?)))
    }

    fn join_token(&self) -> Result<JoinToken> {
        self.has_company.store(true, Ordering::Relaxed);
        JoinToken::encode(&ServerAccess {
            socket: self.socket.clone(),
            tls_port: self.tls_port.clone(),
            is_private: self.host.is_private(),
            database: self.database.clone(),
        })
    }

    fn open_catalogue(&self) -> Result<()> {
        let mut admin = lock(&self.admin);
        admin.query_drop(format!("{} {}", catalogue::TABLE, instance::TABLE_OPTIONS))?;
        Ok(admin.query_drop(catalogue::UNFINISHED)?)
    }

    fn facts(&self) -> Result<Facts> {
        const SETTINGS: &[&str] = &[
            "version",
            "innodb_buffer_pool_size",
            "innodb_flush_log_at_trx_commit",
            "innodb_flush_method",
            "innodb_doublewrite",
            "innodb_checksum_algorithm",
            "innodb_use_native_aio",
            "innodb_read_io_threads",
            "innodb_write_io_threads",
            "innodb_io_capacity",
            "innodb_log_file_size",
            "innodb_redo_log_capacity",
            "innodb_buffer_pool_load_at_startup",
            "max_allowed_packet",
            "log_bin",
            "sync_binlog",
            "query_cache_type",
        ];
        let mut facts = Facts::new();
        for setting in SETTINGS {
            let row: Option<(String, String)> =
                lock(&self.admin).query_first(format!("SHOW GLOBAL VARIABLES LIKE '{setting}'"))?;
            // Not every version has every setting.
            facts.extend(row);
        }
        let charset = lock(&self.admin).query_first("SELECT @@SESSION.character_set_client")?;
        facts.extend(charset.map(|charset: String| ("character_set_client".to_owned(), charset)));
        facts.insert("server".into(), self.host.whose().into());
        if self.host.is_theirs() || self.tls_port.is_some() {
            facts.insert("tls".into(), self.tls()?);
        }
        Ok(facts)
    }

    /// Makes InnoDB purge and then write the tables' dirty pages, both of which it would otherwise do at leisure. (Waiting for
    /// the counter of dirty pages to reach 0 would measure the page cleaner's sleeps of a second instead.) A delete only marks
    /// its row, and a put keeps the replaced blob: the purge frees their pages. Does nothing in the user's server, whose own work
    /// goes on.
    fn settle(&self) -> Result<()> {
        if self.host.is_theirs() {
            return Ok(());
        }
        let mut admin = lock(&self.admin);
        // The purge sleeps for up to a second too. The end of an export wakes it; here of a table with one row.
        export(&mut admin, "marker")?;
        instance::wait_for_purge(&mut admin)?;
        // Also writes the pages that the purge changed.
        export(&mut admin, self.table_names())
    }

    fn totals(&self) -> Result<(u64, u64)> {
        let sizes = match &self.shape {
            MySqlLayout::Blob => "SELECT LENGTH(content) AS bytes FROM blobs WHERE NOT gone",
            MySqlLayout::Chunked { .. } => {
                "SELECT (SELECT COALESCE(SUM(LENGTH(data)), 0) FROM pieces
                    WHERE blob_id = blobs.id AND pieces.version = blobs.version) AS bytes FROM blobs WHERE NOT gone"
            }
        };
        let totals = format!(
            "SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS UNSIGNED) FROM ({sizes}) AS blob_sizes"
        );
        let row: Option<(u64, u64)> = lock(&self.admin).query_first(totals)?;
        Ok(row.context("no answer to a count")?)
    }

    fn back_up(&self, to: &Path) -> Result<()> {
        match (&self.host, self.flavour) {
            (Host::Private(instance), MySqlProduct::MariaDb) => instance.dump(&self.database, to),
            _ => Err(Error::Unsupported("a dump")),
        }
    }

    fn restore(&self, from: &Path) -> Result<()> {
        match (&self.host, self.flavour) {
            (Host::Private(instance), MySqlProduct::MariaDb) => instance.load(&self.database, from),
            _ => Err(Error::Unsupported("loading a dump")),
        }
    }

    /// InnoDB rebuilds each table with its indexes.
    fn compact(&mut self) -> Result<()> {
        let statement = format!("OPTIMIZE TABLE {}", self.table_names());
        // A failure is a row of the answer, beside notes: the table, what was done, the kind of message, and the message.
        let told: Vec<(String, String, String, String)> = lock(&self.admin).query(&statement)?;
        match told.into_iter().find(|(_, _, kind, _)| kind.eq_ignore_ascii_case("error")) {
            Some((table, _, _, why)) => Err(Error::Failed(anyhow::anyhow!("{statement}: {table}: {why}"))),
            None => self.settle(),
        }
    }

    fn purge(&self) -> Result<()> {
        Ok(lock(&self.admin).query_drop("DELETE FROM blobs WHERE gone")?)
    }

    fn contact(&self) -> Option<Contact> {
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let socket = text(self.opts.get_socket());
        let host = if socket.is_empty() {
            self.opts.get_ip_or_hostname().into_owned()
        } else {
            "localhost".to_owned()
        };
        let (user, password) = (text(self.opts.get_user()), text(self.opts.get_pass()));
        Some(Contact { host, socket, user, password, database: self.database.clone(), schema: String::new() })
    }

    fn servers(&self) -> Vec<&crate::host::server::Server> {
        self.host.instance().map(|instance| &instance.server).into_iter().collect()
    }

    fn footprint_bytes(&self) -> Result<Option<u64>> {
        if self.host.is_private() {
            return Ok(None);
        }
        self.bytes_of("data_length + index_length")
    }

    /// The size of all secondary indexes; the primary index holds the rows.
    fn index_bytes(&self) -> Result<Option<u64>> {
        self.bytes_of("index_length")
    }

    /// InnoDB's redo log, and MariaDB's log of its system tables; there is no binary log.
    fn is_log(&self, path: &Path) -> bool {
        path.components().any(|part| part.as_os_str() == "#innodb_redo")
            || has_name(path, |name| name.starts_with("ib_logfile") || name.starts_with("aria_log."))
    }

    fn close(self: Box<Self>) -> Result<()> {
        let MySql { admin, host, database, joined, .. } = *self;
        host.close(admin, (!joined).then_some(database), MySqlServer::stop)
    }

    fn remove(self: Box<Self>) -> Result<()> {
        if !self.host.is_private() && !self.joined {
            let database = self.database.clone();
            instance::remove_databases(vec![database], |database| self.drop_database(database))?;
        }
        let database = self.database.clone();
        self.close()?;
        servers::end_kept_lock(&database);
        Ok(())
    }
}
