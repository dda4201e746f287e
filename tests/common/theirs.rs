//! Servers that play the part of a user's own: private ones of a test, each in a directory of its own, with a password.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use blobwise::host::server::{Launch, Server, SocketDir, free_port, from_cache, run_to_end};
use blobwise::stores::{self, Entry};

use crate::program::{Said, Work, start};

pub const PATIENCE: Duration = Duration::from_secs(60);
pub const PASSWORD: &str = "secret-of-theirs";

/// A server that is not one of blobwise's.
pub struct Theirs {
    // Stops the server when dropped, before its sockets go.
    pub server: Server,
    pub _sockets: SocketDir,
    pub url: String,
    /// File in which it logs its queries.
    pub log: PathBuf,
    pub _work: Work,
}

/// A port on which nothing listens: only root could bind it, and the kernel never assigns it.
pub const CLOSED: u16 = 1;

/// Starts a server on a free port; tries another port if that one was taken in the meantime.
pub fn on_free_port<T>(start: impl Fn(u16) -> anyhow::Result<T>) -> T {
    let is_taken = |error: &anyhow::Error| format!("{error:#}").contains("ddress already in use");
    let mut tries = (0..5).map(|_| start(free_port().unwrap()));
    tries.find(|started| !started.as_ref().is_err_and(is_taken)).unwrap().unwrap()
}

/// Path of a store's server program.
pub fn program(store: &str) -> PathBuf {
    let Some(Entry::Ready(adapter)) = stores::find(store) else { panic!("no {store}") };
    adapter.programs[0].find().unwrap().path
}

/// Makes the data directory of a new server: a copy of one that `make` makes for all trials, which takes it seconds of processor time.
fn new_data(program: &Path, data: &Path, make: impl FnOnce(&Path) -> anyhow::Result<()>) {
    // Whoever comes next waits for the first one, and copies.
    static MAKING: Mutex<()> = Mutex::new(());
    let _made = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let program = program.canonicalize().unwrap();
    let installed = program.metadata().unwrap().modified().unwrap();
    let user = rustix::process::geteuid().as_raw();
    // Its flags and passwords are in this file.
    let name = format!("{} of {installed:?} for {user}: {}", program.display(), include_str!("theirs.rs"));
    from_cache(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("data"), &name, data, make).unwrap();
}

// ---- PostgreSQL ------------------------------------------------------------------------------------------------------

/// Path of a PostgreSQL program, which is next to the server's real file and not next to a link to it.
pub fn of_postgres(name: &str) -> PathBuf {
    program("postgres/bytea").canonicalize().unwrap().with_file_name(name)
}

/// Starts PostgreSQL with these settings.
pub fn postgres(settings: &[&str]) -> Theirs {
    let work = Work::new();
    let dir = work.path("theirs");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("password"), PASSWORD).unwrap();
    let options = ["-U", "owner", "--auth=scram-sha-256", "--no-sync", "--locale=C", "-E", "UTF8"];
    let initdb = of_postgres("initdb");
    new_data(&initdb, &dir.join("data"), |data| {
        let launch = Launch::new(&initdb, &dir).arg("-D").arg(data).args(options);
        run_to_end(&launch.arg(format!("--pwfile={}", dir.join("password").display())), PATIENCE)
    });
    started_postgres(work, settings)
}

/// Starts a standby of `primary` with these settings.
pub fn standby(primary: &Theirs, settings: &[&str]) -> Theirs {
    let work = Work::new();
    let dir = work.path("theirs");
    std::fs::create_dir(&dir).unwrap();
    let backup = of_postgres("pg_basebackup");
    let launch = Launch::new(&backup, &dir).arg("-D").arg(dir.join("data"));
    let launch = launch.args(["-d", &primary.url, "--no-sync", "--write-recovery-conf", "--checkpoint=fast"]);
    run_to_end(&launch, PATIENCE).unwrap();
    started_postgres(work, settings)
}

fn started_postgres(work: Work, settings: &[&str]) -> Theirs {
    let (program, dir, sockets) =
        (program("postgres/bytea"), work.path("theirs"), SocketDir::make(".s.PGSQL.65535").unwrap());
    let directory = format!("unix_socket_directories={}", sockets.path().display());
    // In /dev/shm it would outlive a server that is killed.
    let memory = "dynamic_shared_memory_type=mmap";
    let (server, url, log) = on_free_port(|port| {
        let port_setting = format!("port={port}");
        let mut launch = Launch::new(&program, &dir).arg("-D").arg(dir.join("data"));
        for setting in
            ["listen_addresses=127.0.0.1", memory, &directory, &port_setting].iter().chain(settings)
        {
            launch = launch.args(["-c", setting]);
        }
        let url = format!("postgres://owner:{PASSWORD}@127.0.0.1:{port}/postgres");
        let mut server = Server::start(&launch)?;
        server.wait_until_ready(PATIENCE, || psql(&url, "SELECT 1").map(drop))?;
        Ok((server, url, launch.log))
    });
    Theirs { server, _sockets: sockets, url, log, _work: work }
}

/// Runs SQL by PostgreSQL's own client, each statement in a transaction of its own, up to the first that fails.
pub fn psql(url: &str, sql: &str) -> anyhow::Result<String> {
    let mut command = Command::new(of_postgres("psql"));
    let options = ["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", url];
    command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(&mut command);
    // If it cannot connect, it ends before it reads; its exit code tells.
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), sql.as_bytes()).ok();
    let said = Said::from_output(&child.wait_with_output()?);
    anyhow::ensure!(said.code == Some(0), "psql: {}", said.stderr);
    Ok(said.stdout.trim().to_owned())
}

// ---- MySQL and MariaDB -----------------------------------------------------------------------------------------------

/// Statements that create a new server's users: one with all rights, and one without any.
fn users(by: &str) -> String {
    ["owner", "guest"].map(|name| format!("CREATE USER {name}@'127.0.0.1' {by} '{PASSWORD}';\n")).concat()
        + "GRANT ALL ON *.* TO owner@'127.0.0.1';\n"
}

fn started_mysql(work: Work, program: &Path, first: &[String], more: &[&str]) -> Theirs {
    let (dir, sockets) = (work.path("theirs"), SocketDir::make(".s.PGSQL.65535").unwrap());
    let log = dir.join("general.log");
    let (server, url) = on_free_port(|port| {
        let launch = Launch::new(program, &dir)
            .args(first)
            .args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--general-log=1"])
            .arg(format!("--port={port}"))
            .arg(format!("--socket={}", sockets.path().join("s").display()))
            .arg(format!("--pid-file={}", sockets.path().join("pid").display()))
            .arg(format!("--init-file={}", dir.join("first.sql").display()))
            .arg(format!("--general-log-file={}", log.display()))
            .args(more);
        let url = format!("mysql://owner:{PASSWORD}@127.0.0.1:{port}");
        let mut server = Server::start(&launch)?;
        server.wait_until_ready(PATIENCE, || Ok(mysql::Conn::new(url.as_str())?.ping()?))?;
        Ok((server, url))
    });
    Theirs { server, _sockets: sockets, url, log, _work: work }
}

/// Options for the directories of data and of temporary tables. A starting server removes other servers' files from a shared
/// temporary directory.
fn places(dir: &Path, data: &Path) -> [String; 3] {
    let temporary = dir.join("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    let place = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    ["--no-defaults".to_owned(), place("datadir", data), place("tmpdir", &temporary)]
}

/// Starts MariaDB with these flags.
pub fn mariadb(more: &[&str]) -> Theirs {
    mariadb_by(Work::new(), &program("mariadb/blob"), more)
}

/// Starts MariaDB with its data, or only its binary log, on a tmpfs of this size, in a mount namespace that ends with it.
pub fn mariadb_on(size: &str, is_for_log: bool) -> Theirs {
    use std::os::unix::fs::PermissionsExt;
    let (work, server) = (Work::new(), program("mariadb/blob"));
    let (data, small, script) = (work.path("theirs/data"), work.path("small"), work.path("mariadbd"));
    std::fs::create_dir(&small).unwrap();
    let [data, small, server] = [&data, &small, &server].map(|path| path.display().to_string());
    let moved = match is_for_log {
        true => {
            format!("exec {server} \"$@\" --user=root --log-bin={small}/log --server-id=1 --sync-binlog=1")
        }
        false => format!(
            "cp -a {data}/. {small} && mount --bind {small} {data} && exec {server} \"$@\" --user=root"
        ),
    };
    let moved = format!("mount -t tmpfs -o size={size} none {small} && {moved}");
    let text = format!("#!/bin/sh\nexec unshare --user --map-root-user --mount sh -c '{moved}' sh \"$@\"\n");
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    mariadb_by(work, &script, &[])
}

fn mariadb_by(work: Work, server: &Path, more: &[&str]) -> Theirs {
    let dir = work.path("theirs");
    let (data, install) = (dir.join("data"), Path::new("/usr/bin/mariadb-install-db"));
    let of_server = places(&dir, &data);
    let options = ["--auth-root-authentication-method=normal", "--skip-test-db"];
    new_data(&program("mariadb/blob"), &data, |data| {
        run_to_end(&Launch::new(install, &dir).args(places(&dir, data)).args(options), PATIENCE)
    });
    std::fs::write(dir.join("first.sql"), users("IDENTIFIED BY")).unwrap();
    started_mysql(work, server, &of_server, more)
}

/// Starts MySQL with these flags.
pub fn mysql(more: &[&str]) -> Theirs {
    let work = Work::new();
    let (dir, program) = (work.path("theirs"), program("mysql/blob"));
    // The package's directory for users' files may be missing.
    let mut usual = vec!["--secure-file-priv=NULL".to_owned()];
    // A program unpacked from an archive does not know where it is.
    let home = program.parent().unwrap().parent().unwrap();
    if home.join("share/charsets").exists() && home != Path::new("/usr") {
        usual.push(format!("--basedir={}", home.display()));
        usual.push(format!("--lc-messages-dir={}", home.join("share").display()));
        usual.push(format!("--character-sets-dir={}", home.join("share/charsets").display()));
    }
    let data = dir.join("data");
    new_data(&program, &data, |data| {
        let launch = Launch::new(&program, &dir).args(places(&dir, data)).args(&usual);
        run_to_end(&launch.arg("--initialize-insecure"), PATIENCE)
    });
    // It has the server's name among others, which no two may share.
    std::fs::remove_file(data.join("auto.cnf")).ok();
    let first = [&places(&dir, &data)[..], &usual[..]].concat();
    // The newer password method needs TLS or the server's key; MySQL 9 has no other.
    let said = Command::new(&program).args(["--no-defaults", "--version"]).output().unwrap();
    let is_old =
        ["Ver 5.", "Ver 8."].iter().any(|version| String::from_utf8_lossy(&said.stdout).contains(version));
    let by = if is_old { "IDENTIFIED WITH mysql_native_password BY" } else { "IDENTIFIED BY" };
    std::fs::write(dir.join("first.sql"), users(by)).unwrap();
    started_mysql(work, &program, &first, &[&["--skip-mysqlx"], more].concat())
}

// ---- Redis and Valkey ------------------------------------------------------------------------------------------------

/// Starts one with these options, and returns its port.
pub fn redis(store: &str, work: &Work, options: &[&str]) -> (Server, u16) {
    let (program, dir) = (program(store), work.path("theirs"));
    std::fs::create_dir(&dir).unwrap();
    on_free_port(|port| {
        let launch = Launch::new(&program, &dir).args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        let mut server = Server::start(&launch.args(options))?;
        server.wait_until_ready(PATIENCE, || Ok(TcpStream::connect(("127.0.0.1", port)).map(drop)?))?;
        Ok((server, port))
    })
}
