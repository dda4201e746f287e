//! Servers that are looked at: private ones of the tests, with their own clients.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use blobwise::host::server::{Launch, Server, SocketDir, free_port, run_to_end};
use blobwise::stores::{self, Entry};

use crate::program::{BLOBWISE, Said, Work, finish, start};

pub const PATIENCE: Duration = Duration::from_secs(60);
pub const PASSWORD: &str = "secret-of-theirs";

/// A server that is not blobwise's.
pub struct Theirs {
    // Stops the server when dropped, before its sockets go.
    pub server: Server,
    pub _sockets: SocketDir,
    pub url: String,
    /// Where it writes its log.
    pub log: PathBuf,
    pub _work: Work,
}

/// The program of a store's server.
pub fn program(store: &str) -> PathBuf {
    let Some(Entry::Ready(adapter)) = stores::find(store) else { panic!("no {store}") };
    adapter.programs[0].find().unwrap().path
}

/// A program of PostgreSQL's: beside the server's file, and not beside a link to it.
fn of_postgres(name: &str) -> PathBuf {
    program("postgres/bytea").canonicalize().unwrap().with_file_name(name)
}

pub fn postgres(settings: &[&str]) -> Theirs {
    let work = Work::new();
    let program = program("postgres/bytea");
    let (dir, sockets) = (work.path("theirs"), SocketDir::make().unwrap());
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("password"), PASSWORD).unwrap();
    let data = dir.join("data");
    let options = ["-U", "owner", "--auth=scram-sha-256", "--no-sync", "--locale=C", "-E", "UTF8"];
    let initdb = of_postgres("initdb");
    let launch = Launch::new(&initdb, &dir).arg("-D").arg(&data).args(options);
    run_to_end(&launch.arg(format!("--pwfile={}", dir.join("password").display())), PATIENCE).unwrap();
    let port = free_port().unwrap();
    let directory = format!("unix_socket_directories={}", sockets.path().display());
    let port_setting = format!("port={port}");
    let mut launch = Launch::new(&program, &dir).arg("-D").arg(&data);
    for setting in ["listen_addresses=127.0.0.1", &directory, &port_setting].iter().chain(settings) {
        launch = launch.args(["-c", setting]);
    }
    let log = launch.log.clone();
    let url = format!("postgres://owner:{PASSWORD}@127.0.0.1:{port}/postgres");
    let mut server = Server::start(&launch).unwrap();
    server.wait_until_ready(PATIENCE, || psql(&url, "SELECT 1").map(drop)).unwrap();
    Theirs { server, _sockets: sockets, url, log, _work: work }
}

/// What PostgreSQL's own client says; each statement in a transaction of its own.
pub fn psql(url: &str, sql: &str) -> anyhow::Result<String> {
    let mut command = Command::new(of_postgres("psql"));
    command.args(["-X", "-At", url]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(&mut command);
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), sql.as_bytes()).unwrap();
    let said = Said::of(&child.wait_with_output()?);
    anyhow::ensure!(said.code == Some(0), "psql: {}", said.stderr);
    Ok(said.stdout.trim().to_owned())
}

/// A database of its own in a server, with what a test plants, and its URL.
pub fn database(theirs: &Theirs, name: &str, sql: &str) -> String {
    psql(&theirs.url, &format!("CREATE DATABASE {name}")).unwrap();
    let url = theirs.url.replace("/postgres", &format!("/{name}")).replacen(
        &format!("{name}://"),
        "postgres://",
        1,
    );
    psql(&url, sql).unwrap();
    url
}

/// A load that goes on until this is dropped: one statement after the other, at most so many in a second.
pub struct Load(Child);

impl Load {
    pub fn pgbench(work: &Work, url: &str, script: &str, rate: Option<u32>) -> Load {
        let file = work.path("load.sql");
        std::fs::write(&file, script).unwrap();
        let mut command = Command::new(of_postgres("pgbench"));
        command.args(["-n", "-T", "120", "-f"]).arg(&file);
        command.args(rate.map(|rate| format!("-R{rate}"))).arg(url);
        Load::start(command)
    }

    pub fn start(mut command: Command) -> Load {
        let child = start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
        // Until it is under way.
        std::thread::sleep(Duration::from_millis(1500));
        Load(child)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// What the doctor says of a server; its report is in `report.json`.
pub fn doctor(work: &Work, url: &str, more: &str) -> Said {
    let mut command = work.command(BLOBWISE);
    // Beside others the machine may well be in a state that is bad: that is not asked here.
    // A session of theirs tells what it did once a second.
    let time = if more.contains("--for") { "" } else { "--for 1s" };
    let words = format!("doctor --json report.json {time} {more}");
    let said = finish(command.args(words.split_whitespace()).env("BLOBWISE_DOCTOR_URLS", url));
    assert!(!said.stdout.contains(PASSWORD) && !said.stderr.contains(PASSWORD), "{said:?}");
    assert!(!read(&work.path("report.json")).contains(PASSWORD));
    assert!(
        said.stdout.lines().all(|line| line.chars().count() <= 80 || !line.trim().contains(' ')),
        "{}",
        said.stdout
    );
    said
}

/// The text of a file.
pub fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}
