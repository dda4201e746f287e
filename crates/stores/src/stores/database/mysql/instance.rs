//! The server behind MySQL's and MariaDB's candidates: a private one, or a database of our own in the user's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Row, Value};

use super::pages::FAULTS;
use super::session::ROWS_AT_ONCE;
use super::{MARIADBD, MYSQLD, MySqlProduct, flush_log_at_commit};
use crate::host::server::{
    InstalledProgram, Launch, Server, SocketDir, from_cache, run_to_end, write_secret,
};
use crate::store::*;
use crate::stores::common::certificate::TlsPort;
use crate::stores::common::removal::{PATIENCE, remove_all};
use crate::stores::common::servers::{
    self, OURS, PlaceKind, START_PATIENCE, STOP_PATIENCE, connections, is_our_name,
};
use crate::wire::mysql::{over_tls, plainly};

/// The collation that marks a database as ours. It is set by the statement that creates the database and stays until that is
/// gone, while a table may be dropped before the others, and neither MySQL nor every MariaDB keeps a comment on a database. It is
/// unlikely to occur by accident, and our tables do not use it.
const MARKING: &str = "utf8mb4_esperanto_ci";
/// Engine and character set of all tables, whatever the defaults of the server or database.
pub(super) const TABLE_OPTIONS: &str = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4";
/// The only database of a private server.
pub(super) const PRIVATE_DATABASE: &str = "store";
const DATABASE: PlaceKind = PlaceKind("database");
const DUMP_FILE: &str = "dump.sql";
/// Timeout of dumping and of loading a dump: both grow with the store and are not ops.
const BACKUP_PATIENCE: Duration = Duration::from_secs(3600);
/// Packet limit of client and server: the largest possible.
pub(super) const PACKET_MAX: usize = 1 << 30;

pub(super) struct MySqlServer {
    pub(super) server: Server,
    program: PathBuf,
    sockets: SocketDir,
    /// Where sessions connect, if not to the socket.
    pub(super) tls_port: Option<TlsPort>,
}

impl MySqlServer {
    /// The name of a server that all candidates of the run share whose servers would have the same settings.
    pub(super) fn shared_name(setup: &Setup, flavour: MySqlProduct) -> String {
        // Everything its settings depend on, except for the class, which each store sets on opening: a store that is reopened in
        // another class must find its database.
        let options = ["profile", "compression", "tls"].map(|name| setup.options.text(name)).join("-");
        let Setup { workers, blob_bytes_max, cache_bytes, .. } = setup;
        format!("{}-{options}-{workers}-{blob_bytes_max}-{cache_bytes}", flavour.name())
    }

    pub(super) fn start(dir: &Path, mode: Mode, setup: &Setup, flavour: MySqlProduct) -> Result<MySqlServer> {
        let program = match flavour {
            MySqlProduct::MySql => MYSQLD.find()?,
            MySqlProduct::MariaDb => MARIADBD.find()?,
        };
        let base = ServerInstallation::from_program(flavour, &program);
        let data = dir.join("data");
        let log_bytes = log_file_bytes(setup);
        if mode == Mode::Create {
            let version: String =
                program.version.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            let name = format!("{version}-log{log_bytes}");
            from_cache(&setup.common.cache_dir, &name, &data, |draft| {
                base.initialise(dir, draft, log_bytes)
            })?;
        }
        TlsPort::start(dir, setup, |tls_port| {
            let (settings, secured) = (settings(setup, &base, log_bytes), listening(dir, tls_port)?);
            MySqlServer::run(dir, &base, settings.into_iter().chain(secured), tls_port)
        })
    }

    fn run(
        dir: &Path,
        base: &ServerInstallation,
        settings: impl Iterator<Item = String>,
        tls_port: Option<&TlsPort>,
    ) -> Result<MySqlServer> {
        let sockets = SocketDir::make("s")?;
        let socket = sockets.path().join("s");
        let temporary = temporary_dir(dir)?;
        let launch = Launch::new(&base.program, dir)
            .args(base.arguments())
            .args(settings)
            .arg(format!("--datadir={}", dir.join("data").display()))
            .arg(format!("--tmpdir={}", temporary.display()))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", sockets.path().join("pid").display()));
        let server = Server::start(&launch)?;
        let (program, tls_port) = (base.program.clone(), tls_port.cloned());
        let mut instance = MySqlServer { server, program, sockets, tls_port };
        let opts = instance.opts()?;
        instance.server.wait_until_ready(START_PATIENCE, || {
            let mut connection = Conn::new(opts.clone()).map_err(plainly)?;
            Ok(connection.ping()?)
        })?;
        Ok(instance)
    }

    pub(super) fn opts(&self) -> Result<OptsBuilder> {
        opts_of(&self.socket(), self.tls_port.as_ref())
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.sockets.path().join("s")
    }

    /// Dumps one database from one snapshot; blobs in hexadecimal, because a dump is text.
    pub(super) fn dump(&self, database: &str, to: &Path) -> Result<()> {
        let program = self.client(&["mariadb-dump", "mysqldump"])?;
        let launch = Launch::new(&program, to)
            .args(self.login())
            .args(["--single-transaction", "--hex-blob"])
            .arg(format!("--result-file={}", to.join(DUMP_FILE).display()))
            .arg(database);
        Ok(run_to_end(&launch, BACKUP_PATIENCE)?)
    }

    /// Loads a dump, whose tables replace existing ones.
    pub(super) fn load(&self, database: &str, from: &Path) -> Result<()> {
        let program = self.client(&["mariadb", "mysql"])?;
        // A name relative to the working directory, because the client interprets special characters of a path.
        let source = format!("--execute=SOURCE {DUMP_FILE}");
        let launch = Launch::new(&program, from).args(self.login()).arg(source).arg(database);
        Ok(run_to_end(&launch, BACKUP_PATIENCE)?)
    }

    /// Arguments that connect the vendor's client programs, without any option files of the system or the user.
    fn login(&self) -> [String; 4] {
        let socket = format!("--socket={}", self.socket().display());
        let packet = format!("--max-allowed-packet={PACKET_MAX}");
        ["--no-defaults".to_owned(), socket, "--user=root".to_owned(), packet]
    }

    fn client(&self, names: &[&str]) -> Result<PathBuf> {
        beside(&self.program, names).ok_or(Error::Unsupported(
            "a dump by a server beside which there is no `mariadb-dump` (it comes with the vendor's client programs)",
        ))
    }

    pub(super) fn stop(mut self) -> Result<()> {
        Ok(self.server.stop(rustix::process::Signal::TERM, STOP_PATIENCE)?)
    }
}

/// Connection options for a private server: root without a password, through a socket that only this user can reach, or by the
/// certificate that only this user has.
pub(super) fn opts_of(socket: &Path, tls_port: Option<&TlsPort>) -> Result<OptsBuilder> {
    let opts = match tls_port {
        Some(tls) => over_tls(tls.port, tls.certificate.request()?),
        None => OptsBuilder::new().socket(Some(socket.to_string_lossy())),
    };
    Ok(opts.user(Some("root")))
}

/// The first of these programs found beside the server or in the usual directories for client programs.
fn beside(server: &Path, names: &[&str]) -> Option<PathBuf> {
    let places = |name: &&str| {
        [
            server.with_file_name(name),
            Path::new("/usr/bin").join(name),
            Path::new("/usr/local/bin").join(name),
        ]
    };
    names.iter().flat_map(places).find(|path| path.is_file())
}

/// Directory for the server's temporary files and tables: inside its own directory, not in the system's.
fn temporary_dir(dir: &Path) -> Result<PathBuf> {
    let temporary = dir.join("tmp");
    std::fs::create_dir_all(&temporary)?;
    Ok(temporary)
}

/// The server program and its support files.
struct ServerInstallation {
    flavour: MySqlProduct,
    program: PathBuf,
    /// The first three numbers of its version.
    version: [u16; 3],
    /// Directory of an unpacked archive; `None` for an installed program, which knows its own.
    home: Option<PathBuf>,
}

impl ServerInstallation {
    fn from_program(flavour: MySqlProduct, program: &InstalledProgram) -> ServerInstallation {
        let has_messages = |home: &&Path| {
            // MySQL 9 has its messages in tables only.
            ["share/errmsg-utf8.txt", "share/english/errmsg.sys"].iter().any(|file| home.join(file).exists())
        };
        let home = program.path.parent().and_then(Path::parent).filter(has_messages);
        let unpacked = home.filter(|home| home.join("share/charsets").exists() && *home != Path::new("/usr"));
        let (path, version) = (program.path.clone(), version_of(&program.version));
        ServerInstallation { flavour, program: path, version, home: unpacked.map(Path::to_owned) }
    }

    /// The option for the log's size; before MySQL 8.0.30 it is the size of one of two files.
    fn log_size(&self, log_bytes: u64) -> String {
        match self.flavour == MySqlProduct::MySql && self.version >= [8, 0, 30] {
            true => format!("--innodb-redo-log-capacity={}", 2 * log_bytes),
            false => format!("--innodb-log-file-size={log_bytes}"),
        }
    }

    /// The first arguments of every call. No option file of the system or the user configures a private server.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--no-defaults".to_owned()];
        if let Some(home) = &self.home {
            arguments.push(format!("--basedir={}", home.display()));
            arguments.push(format!("--lc-messages-dir={}", home.join("share").display()));
            arguments.push(format!("--character-sets-dir={}", home.join("share/charsets").display()));
        }
        arguments
    }

    /// Creates a data directory.
    fn initialise(&self, dir: &Path, data: &Path, log_bytes: u64) -> anyhow::Result<()> {
        let log = self.log_size(log_bytes);
        let temporary = format!("--tmpdir={}", temporary_dir(dir)?.display());
        match self.flavour {
            MySqlProduct::MySql => {
                let launch = Launch::new(&self.program, dir)
                    .args(self.arguments())
                    .arg("--initialize-insecure")
                    .args([log, temporary])
                    .arg(format!("--datadir={}", data.display()));
                run_to_end(&launch, START_PATIENCE)
            }
            MySqlProduct::MariaDb => {
                let script = beside(&self.program, &["mariadb-install-db", "mysql_install_db"])
                    .context("no `mariadb-install-db` was found beside `mariadbd`")?;
                let launch = Launch::new(&script, dir)
                    .arg("--no-defaults")
                    .arg(format!("--datadir={}", data.display()))
                    .args([
                        "--auth-root-authentication-method=normal",
                        "--skip-test-db",
                        "--skip-name-resolve",
                    ])
                    .args([log, temporary]);
                run_to_end(&launch, START_PATIENCE)
            }
        }
    }
}

/// Size of a redo log file. InnoDB refuses blobs above a tenth of its log; sixteen times the largest blob leaves room for
/// concurrent ones.
fn log_file_bytes(setup: &Setup) -> u64 {
    const LEAST: u64 = 96 << 20;
    const MOST: u64 = 16 << 30;
    (setup.blob_bytes_max * 16).clamp(LEAST, MOST).next_multiple_of(1 << 20)
}

/// Settings that say where a private server listens: on a socket only, in a directory that only this user can enter, or also on a
/// port with TLS. The server then makes an account for who shows the certificate, before anybody can connect; also when it is
/// started again, because a power cut may have lost it.
fn listening(dir: &Path, tls_port: Option<&TlsPort>) -> Result<Vec<String>> {
    const ACCOUNT: &str = "CREATE USER IF NOT EXISTS root@'127.0.0.1';\n\
                           ALTER USER root@'127.0.0.1' REQUIRE X509;\n\
                           GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n";
    let Some(TlsPort { port, certificate }) = tls_port else {
        return Ok(vec!["--skip-networking".to_owned()]);
    };
    let (file, key) = (certificate.file.display(), certificate.key.display());
    let first = dir.join("account.sql");
    write_secret(&first, ACCOUNT)?;
    Ok(vec![
        "--bind-address=127.0.0.1".to_owned(),
        format!("--port={port}"),
        format!("--ssl-cert={file}"),
        format!("--ssl-key={key}"),
        format!("--ssl-ca={file}"),
        format!("--init-file={}", first.display()),
    ])
}

/// Settings of a private server beyond where it listens.
fn settings(setup: &Setup, base: &ServerInstallation, log_bytes: u64) -> Vec<String> {
    let flavour = base.flavour;
    let flush = flush_log_at_commit(setup.durability);
    let mut settings = vec![
        "--skip-name-resolve".to_owned(),
        format!("--max-connections={}", connections(setup.workers, 151)),
        // Large blobs cannot be put without these two.
        format!("--max-allowed-packet={PACKET_MAX}"),
        base.log_size(log_bytes),
        format!("--innodb-flush-log-at-trx-commit={flush}"),
        format!("--transaction-isolation={}", setup.options.text("isolation").to_uppercase()),
        // Otherwise a cold start would load the warm pages again.
        "--innodb-buffer-pool-load-at-startup=OFF".to_owned(),
        "--innodb-buffer-pool-dump-at-shutdown=OFF".to_owned(),
    ];
    if setup.options.text("charset") == "binary" {
        // Overrides what clients declare for their strings. In a text string the server counts characters, and escapes them when
        // it logs statements; for a blob that took longer than storing it.
        settings.push("--character-set-server=binary".to_owned());
        // MySQL 9 always accepts the client's declaration; our client declares the same.
        if flavour == MySqlProduct::MariaDb || base.version < [9, 0, 0] {
            settings.push("--skip-character-set-client-handshake".to_owned());
        }
    }
    if flavour == MySqlProduct::MySql {
        // The X plugin's listener would need a second socket, and the directory of the package need not exist.
        settings.extend(["--skip-mysqlx", "--secure-file-priv=NULL"].map(str::to_owned));
    }
    if setup.options.text("profile") == "tuned" {
        // InnoDB needs at least 5 MiB, in whole chunks. MySQL holds all pages of a compressed blob while reading it: a blob of 3
        // MB waited forever in a pool of 8 MiB.
        let compressed = setup.options.text("compression") == "page";
        let least = if compressed { (setup.blob_bytes_max * 4).max(8 << 20) } else { 8 << 20 };
        let pool = setup.cache_bytes.max(least).next_multiple_of(1 << 20);
        settings.extend([
            format!("--innodb-buffer-pool-size={pool}"),
            // The defaults are for a rotating disk.
            "--innodb-io-capacity=2000".to_owned(),
            "--innodb-io-capacity-max=20000".to_owned(),
            // There is no replica.
            "--skip-log-bin".to_owned(),
        ]);
        if flavour == MySqlProduct::MySql {
            settings.push(format!("--innodb-buffer-pool-chunk-size={pool}"));
            settings.push("--innodb-buffer-pool-instances=1".to_owned());
        }
    }
    settings.extend(flush_method(base, setup.options.text("profile") == "tuned"));
    settings
}

/// The flush method of data files. Direct I/O, because the page cache would duplicate the buffer pool; except for MySQL, which
/// flushes its doublewrite copies only with `fsync`. Otherwise a power cut that tears a page loses the whole store.
fn flush_method(base: &ServerInstallation, is_tuned: bool) -> Option<String> {
    match base.flavour == MySqlProduct::MySql && leaves_copies(base.version) {
        true => Some("--innodb-flush-method=fsync".to_owned()),
        false => is_tuned.then(|| "--innodb-flush-method=O_DIRECT".to_owned()),
    }
}

/// True if this MySQL does not flush its doublewrite copies of pages with O_DIRECT: `is_fsync_required` in its buf0dblwr.cc says
/// so since 8.0.20, and a trace of 9.7.4 confirms it (docs/mysql-after-a-power-cut.md).
fn leaves_copies(version: [u16; 3]) -> bool {
    // An unknown version may be a new one.
    version == [0; 3] || version >= [8, 0, 20]
}

/// Why the class of this MySQL is weaker on disks that lose their cache. No reason to refuse it, because O_DIRECT is its default
/// since 8.4 and many servers' disks lose nothing.
pub(super) fn weaker(facts: &Facts) -> Option<String> {
    let version = facts.get("version")?;
    let is_direct =
        facts.get("innodb_flush_method").is_some_and(|method| method.eq_ignore_ascii_case("O_DIRECT"));
    if is_direct && leaves_copies(numbers(version)) {
        return Some(
            "with innodb_flush_method O_DIRECT MySQL (since 8.0.20) does not flush its second copies of pages; on a disk that loses \
             its cache with the power it may not start again. `fsync` flushes them."
                .to_owned(),
        );
    }
    let fault = FAULTS.iter().find(|fault| fault.is_of(version))?;
    Some(format!(
        "a power cut may leave a {} {} that does not start: {}.",
        fault.program, fault.version, fault.about
    ))
}

/// Refuses the other product, an old version, or a server that does not keep the requested class: its flush at commit is a
/// server-wide setting, which we do not change.
pub(super) fn check_server(admin: &mut Conn, flavour: MySqlProduct, setup: &Setup) -> Result<()> {
    let version: String = admin.query_first("SELECT VERSION()")?.unwrap_or_default();
    if version.contains("MariaDB") != (flavour == MySqlProduct::MariaDb) {
        let other = if flavour == MySqlProduct::MySql { "mariadb" } else { "mysql" };
        bail!("the server is not {} (it says {version}): give its URL as {other}.url", flavour.name());
    }
    let least = if flavour == MySqlProduct::MariaDb { (10, 4, 0) } else { (5, 7, 0) };
    let number: Vec<u16> = version.split(['.', '-']).take(3).filter_map(|part| part.parse().ok()).collect();
    if let [major, minor, patch] = number.as_slice()
        && (*major, *minor, *patch) < least
    {
        let (name, (major, minor, _)) = (flavour.name(), least);
        bail!("the server is older than {name} {major}.{minor} (it says {version})");
    }
    check_harmless(admin)?;
    let flush: Option<u8> = admin.query_first("SELECT @@innodb_flush_log_at_trx_commit")?;
    if setup.durability == Durability::EachWrite && flush != Some(1) {
        bail!(
            "the server's innodb_flush_log_at_trx_commit is {}, so that no write is durable when it returns; use --durability none, or \
             a server that has 1",
            flush.unwrap_or_default()
        );
    }
    if setup.durability == Durability::OnSync && flavour == MySqlProduct::MariaDb && flush != Some(1) {
        bail!(
            "the server's innodb_flush_log_at_trx_commit is {}, and MariaDB has no statement that flushes its log then; use \
             --durability none, or a server that has 1",
            flush.unwrap_or_default()
        );
    }
    let binary_log: Option<(u8, u64)> = admin.query_first("SELECT @@log_bin, @@sync_binlog")?;
    if let Some((log_bin, sync_binlog)) = binary_log
        && log_bin != 0
        && sync_binlog != 1
        && needs_binary_log(flavour, setup.durability)
    {
        bail!(
            "the server has log_bin on and sync_binlog {sync_binlog}: a power cut may roll back what it has committed, so that \
             class {} is not possible; use --durability none, or a server with sync_binlog 1 or without a binary log",
            setup.durability.name()
        );
    }
    if setup.durability > Durability::None {
        check_pages(admin, setup.durability)?;
    }
    let packet: Option<u64> = admin.query_first("SELECT @@max_allowed_packet")?;
    let need = (statement_bytes_max(setup) + (64 << 10)).next_multiple_of(1024);
    let packet = packet.unwrap_or(0);
    ensure!(
        packet >= need,
        "the server's max_allowed_packet is {packet} B, and the largest blob needs {need} B: SET GLOBAL max_allowed_packet = {need}"
    );
    Ok(())
}

/// Upper bound on the bytes of blobs in one statement.
fn statement_bytes_max(setup: &Setup) -> u64 {
    let largest = setup.blob_bytes_max;
    match (setup.options.text("piece").parse::<u64>(), setup.options.text("protocol")) {
        (Ok(piece), _) => largest.min(ROWS_AT_ONCE as u64 * piece),
        // Two digits for a byte.
        (Err(_), "text") => 2 * largest,
        (Err(_), _) => largest,
    }
}

/// The value of a server-wide setting; `None` if the server does not know it.
fn setting(admin: &mut Conn, name: &str) -> Result<Option<String>> {
    let row: Option<(String, String)> = admin.query_first(format!("SHOW GLOBAL VARIABLES LIKE '{name}'"))?;
    Ok(row.map(|(_, value)| value))
}

/// Refuses a server on which a run would leave something, change what nobody may change, or be mistaken for a killed one.
fn check_harmless(admin: &mut Conn) -> Result<()> {
    const NEEDED: &[(&str, &str, &str)] = &[
        // Users with many rights may write nevertheless, and a replica would then differ from its source.
        (
            "read_only",
            "OFF",
            "it is kept from writing, as replicas are; name another server, such as its source",
        ),
        (
            "innodb_file_per_table",
            "ON",
            "the system tablespace would keep the size to which a run's blobs make it grow; SET GLOBAL innodb_file_per_table = ON, or \
             name another server",
        ),
        (
            "wsrep_on",
            "OFF",
            "the nodes of a cluster do not know each other's GET_LOCK, by which a run tells what is in use; name a server that is in \
             no cluster of Galera",
        ),
    ];
    for (name, needed, why) in NEEDED {
        if let Some(value) = setting(admin, name)?
            && value != *needed
        {
            bail!("the server has {name} {value}: {why}");
        }
    }
    Ok(())
}

/// Refuses a server whose pages do not survive a power cut: without doublewrite copies a page may be half written, and without
/// flushes of data files the device's contents do not match the log.
fn check_pages(admin: &mut Conn, durability: Durability) -> Result<()> {
    const UNSAFE: &[(&str, &[&str], &str)] = &[
        // `fast` (MariaDB 11.0) flushes no data files, and with O_DIRECT_NO_FSYNC MySQL flushes neither copy. With O_DIRECT it
        // does not flush the second: see `weaker`.
        ("innodb_doublewrite", &["OFF", "DETECT_ONLY", "fast"], "ON"),
        ("innodb_flush_method", &["nosync", "littlesync", "O_DIRECT_NO_FSYNC"], "fsync"),
    ];
    for (name, unsafe_values, safe) in UNSAFE {
        let Some(value) = setting(admin, name)? else { continue };
        ensure!(
            !unsafe_values.iter().any(|other| value.eq_ignore_ascii_case(other)),
            "the server has {name} {value}, so that class {} is not possible; use --durability none, or a server with \
                 {name} {safe}",
            durability.name()
        );
    }
    Ok(())
}

/// True if the class also requires the binary log to be flushed. With a binary log, a commit flushes InnoDB's log only up to the
/// prepared state, and a crash rolls prepared transactions back unless the binary log has them. MySQL's sync also flushes
/// InnoDB's commits; MariaDB's sync in the user's server relies on every commit.
fn needs_binary_log(flavour: MySqlProduct, durability: Durability) -> bool {
    match durability {
        Durability::None => false,
        Durability::OnSync => flavour == MySqlProduct::MariaDb,
        Durability::EachWrite => true,
    }
}

/// Waits until InnoDB's purge is idle, for at most a minute. The purge must have been woken: by itself it looks for a little work
/// only once a second. Its state is polled instead of the length of the history list, because MySQL shortens that list only with
/// every 128th batch and rests above 0.
pub(super) fn wait_for_purge(admin: &mut Conn) -> Result<()> {
    /// Required number of consecutive idle polls: the thread may need a moment to wake.
    const IDLE_POLLS: u32 = 3;
    const IDLE_POLL: Duration = Duration::from_millis(1);
    const BUSY_POLL: Duration = Duration::from_millis(5);
    const POLLS_MAX: u32 = 12_000;
    let mut idle = 0;
    for _ in 0..POLLS_MAX {
        if is_purging(admin)? {
            idle = 0;
            std::thread::sleep(BUSY_POLL);
            continue;
        }
        idle += 1;
        if idle == IDLE_POLLS {
            break;
        }
        std::thread::sleep(IDLE_POLL);
    }
    Ok(())
}

fn is_purging(admin: &mut Conn) -> Result<bool> {
    let row: Option<Row> = admin.query_first("SHOW ENGINE INNODB STATUS")?;
    // Columns: type, name, status.
    match row.and_then(|mut row| row.take::<Value, _>(2)) {
        // The statements in the status may contain any bytes.
        Some(Value::Bytes(status)) => Ok(says_purging(&String::from_utf8_lossy(&status))),
        other => Err(Error::Failed(anyhow!("InnoDB's status has no text but {other:?}"))),
    }
}

/// True if InnoDB's monitor reports a running purge. A purge that waits for work is "running but idle".
fn says_purging(status: &str) -> bool {
    let line = status.lines().find(|line| line.starts_with("Purge done for trx's"));
    line.is_some_and(|line| line.trim_end().ends_with("state: running"))
}

/// The first three numbers of a program's version text, such as `mysqld  Ver 8.0.15 for linux`; zeros if it has none.
pub(super) fn version_of(words: &str) -> [u16; 3] {
    words.split_once("Ver ").map_or([0; 3], |(_, rest)| numbers(rest))
}

/// The first three numbers of a version such as `9.7.4-2`; 0 for missing ones.
fn numbers(version: &str) -> [u16; 3] {
    let mut parts = version.split(|sign: char| !sign.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

/// Creates the database of a store; in the user's server with our mark and our lock.
pub(super) fn create_database(admin: &mut Conn, dir: &Path, database: &str, theirs: bool) -> Result<()> {
    DATABASE.keep_name(dir, database)?;
    let mut collation = String::new();
    if theirs {
        remove_stale(admin)?;
        lock(admin, database)?;
        collation = format!(" COLLATE {MARKING}");
    }
    Ok(admin.query_drop(format!("CREATE DATABASE {database} CHARACTER SET utf8mb4{collation}"))?)
}

/// Finds the database again after the store was closed.
pub(super) fn find_database(admin: &mut Conn, dir: &Path, theirs: bool) -> Result<String> {
    let database = DATABASE.kept_name(dir)?;
    if theirs {
        lock(admin, &database)?;
        DATABASE.check_mark(&database, is_ours(admin, &database)?)?;
    }
    Ok(database)
}

fn is_ours(admin: &mut Conn, database: &str) -> Result<bool> {
    let collation = "SELECT default_collation_name FROM information_schema.schemata WHERE schema_name = ?";
    let collation: Option<String> = admin.exec_first(collation, (database,))?;
    Ok(collation.as_deref() == Some(MARKING))
}

/// Takes a lock that marks a database as in use; it ends with the connection. The server has no shared locks, so there are two: a
/// reopened store takes the other one before it ends the connection that kept the first.
fn lock(admin: &mut Conn, database: &str) -> Result<()> {
    // Another run that checks whether the database is in use holds the free lock for a moment.
    const PATIENCE_S: u32 = 5;
    let names = locks_of(database);
    let at_once = names.iter().map(|name| (name, 0));
    for (name, patience_s) in at_once.chain(names.iter().map(|name| (name, PATIENCE_S))) {
        if get_lock(admin, name, patience_s)? {
            servers::end_kept_lock(database);
            return Ok(());
        }
    }
    Err(Error::TimedOut)
}

fn locks_of(database: &str) -> [String; 2] {
    [database.to_owned(), format!("{database}_2")]
}

fn get_lock(admin: &mut Conn, name: &str, patience_s: u32) -> Result<bool> {
    let taken: Option<Option<u8>> = admin.exec_first("SELECT GET_LOCK(?, ?)", (name, patience_s))?;
    Ok(taken.flatten() == Some(1))
}

/// Takes both locks of a database; false if it is in use.
fn lock_unused(admin: &mut Conn, database: &str) -> Result<bool> {
    for name in locks_of(database) {
        if !get_lock(admin, &name, 0)? {
            unlock(admin, database);
            return Ok(false);
        }
    }
    Ok(true)
}

/// Releases the locks of a database. If that fails, they end with the connection.
fn unlock(admin: &mut Conn, database: &str) {
    for name in locks_of(database) {
        admin.exec_drop("DO RELEASE_LOCK(?)", (name,)).ok();
    }
}

/// Lock for flushing the log of a server that this program started.
const FLUSH_LOCK: &str = "blobwise_flush";
/// Timeout for other processes' flushes, in seconds.
const FLUSH_PATIENCE_S: u32 = 60;

/// Waits for the turn to flush the log among the processes that share a private server.
pub(super) fn lock_flush(admin: &mut Conn) -> Result<()> {
    if get_lock(admin, FLUSH_LOCK, FLUSH_PATIENCE_S)? { Ok(()) } else { Err(Error::TimedOut) }
}

pub(super) fn unlock_flush(admin: &mut Conn) -> Result<()> {
    Ok(admin.exec_drop("DO RELEASE_LOCK(?)", (FLUSH_LOCK,))?)
}

/// Drops our database in the user's server. Procedures go first: the server grants their creator privileges on each, and revokes
/// these with the procedure but not with the database.
pub(super) fn drop_database(admin: &mut Conn, database: &str) -> Result<()> {
    let named = "SELECT routine_name FROM information_schema.routines WHERE routine_schema = ?";
    let procedures: Vec<String> = admin.exec(named, (database,))?;
    for procedure in procedures {
        admin.query_drop(format!("DROP PROCEDURE {database}.{procedure}"))?;
    }
    // A run that began at the same time may have removed it, or this one before the connection was lost.
    Ok(admin.query_drop(format!("DROP DATABASE IF EXISTS {database}"))?)
}

/// Removes databases of killed runs: those with our mark and without a lock.
fn remove_stale(admin: &mut Conn) -> Result<()> {
    // Without LIKE, because the escaping of its patterns depends on the SQL mode.
    let named = "SELECT schema_name FROM information_schema.schemata WHERE LEFT(schema_name, ?) = ?";
    let databases: Vec<String> = admin.exec(named, (OURS.len(), OURS))?;
    let mut stale = Vec::new();
    for database in databases {
        if is_our_name(&database) && is_ours(admin, &database)? && lock_unused(admin, &database)? {
            stale.push(database);
        }
    }
    remove_databases(stale, |database| {
        let outcome = drop_database(admin, database);
        unlock(admin, database);
        outcome
    })
}

/// Removes each database, independently of the others.
pub(super) fn remove_databases(names: Vec<String>, remove: impl FnMut(&str) -> Result<()>) -> Result<()> {
    remove_all(names, PATIENCE, remove, |database| format!("DROP DATABASE {database}"))
}

#[cfg(test)]
mod tests {
    use super::super::remark;
    use super::*;

    #[test]
    fn a_program_says_its_version() {
        for (words, version) in [
            ("mysqld  Ver 8.0.15 for linux-glibc2.12 on x86_64 (MySQL Community Server - GPL)", [8, 0, 15]),
            ("/x/bin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", [9, 7, 4]),
            ("mariadbd  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu on x86_64", [10, 11, 14]),
            ("mysqld", [0, 0, 0]),
        ] {
            assert_eq!(version_of(words), version);
        }
    }

    #[test]
    fn a_server_that_does_not_flush_its_second_copies_is_told() {
        let of = |version: &str, method: &str| {
            let facts = [("version", version), ("innodb_flush_method", method)];
            weaker(&facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
        };
        assert!(of("8.4.6", "O_DIRECT").is_some_and(|words| words.contains("fsync")));
        assert!(
            of("9.7.4-2", "fsync").is_some_and(|words| words.contains("a MySQL 9.7.4 that does not start"))
        );
        for (version, method) in [("8.4.6", "fsync"), ("8.0.15", "O_DIRECT"), ("5.7.44-log", "O_DIRECT")] {
            assert_eq!(of(version, method), None, "{version} {method}");
        }
        assert_eq!(weaker(&Facts::new()), None);
    }

    #[test]
    fn an_old_release_is_said_to_be_old() {
        assert!(remark([8, 0, 15]).is_some_and(|words| words.starts_with("MySQL 8.0.15 is old, of 2019")));
        assert!([[8, 0, 19], [9, 7, 4], [0, 0, 0]].into_iter().all(|version| remark(version).is_none()));
    }

    #[test]
    fn the_monitor_says_whether_the_purge_is_at_work() {
        let monitor = |state: &str| {
            format!(
                "------------\nTRANSACTIONS\n------------\nTrx id counter 4940\n\
                 Purge done for trx's n:o < 4893 undo n:o < 0 state: {state}\nHistory list length 12\n\
                 Process ID=1, Main thread ID=2, state: running\n"
            )
        };
        assert!(says_purging(&monitor("running")));
        for state in ["running but idle", "stopped", "disabled", "exited"] {
            assert!(!says_purging(&monitor(state)), "{state}");
        }
        assert!(!says_purging(""));
    }

    #[test]
    fn a_binary_log_is_needed_where_nothing_else_flushes_commits() {
        let classes = |flavour| Durability::ALL.iter().map(move |class| needs_binary_log(flavour, *class));
        assert!(classes(MySqlProduct::MySql).eq([false, false, true]));
        assert!(classes(MySqlProduct::MariaDb).eq([false, true, true]));
    }
}
