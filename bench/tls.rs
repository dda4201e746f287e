//! What TLS 1.3 costs a read: the same server with it and without, both over loopback. PostgreSQL, Redis and nginx.
//!
//! `cargo bench --bench tls`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

#[expect(dead_code, reason = "where the store lies is not asked")]
mod common;
#[path = "common/outside.rs"]
#[expect(dead_code, reason = "their side is no other program")]
mod outside;

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use blobwise::corpus::Sizes;
use blobwise::host::place::Place;
use blobwise::host::server::{Launch, Server, free_port, run_to_end};
use blobwise::plan::Order;
use blobwise::stores;

use common::{Bed, compare};

/// Blobs of each side.
const BLOBS: u64 = 1000;
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<ExitCode> {
    if let Some(supervisor) = blobwise::host::server::supervise_if_asked() {
        return Ok(supervisor);
    }
    let install = "apt-get install nginx openssl postgresql redis-server";
    if !outside::are_there(&["openssl", "redis-server"], install)? {
        return Ok(ExitCode::SUCCESS);
    }
    let place = Place::make(Path::new("."))?;
    let certificate = Certificate::make(place.path())?;
    let (_redis, redis) = redis(place.path(), &certificate)?;
    let (_postgres, postgres) = postgres(place.path(), &certificate)?;
    let nginx = Sides { name: "nginx", tls: "nginx[tls=true]".to_owned(), plain: "nginx".to_owned() };
    for bytes in [1 << 10, 100 << 10] {
        for sides in [&nginx, &redis, &postgres] {
            sides.reads(bytes)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The same server, reached in two ways.
struct Sides {
    name: &'static str,
    tls: String,
    plain: String,
}

impl Sides {
    fn reads(&self, bytes: u64) -> Result<()> {
        let bed = |store: &str| Bed::make(store, Sizes::Fixed(bytes), BLOBS, Order::Uniform, BLOBS);
        let (tls, plain) = (bed(&self.tls)?, bed(&self.plain)?);
        let title = format!(
            "{} with TLS (ours) against plain text (theirs), one connection: {BLOBS} blobs of {bytes} B",
            self.name
        );
        compare(&title, None, || tls.ours(), || plain.ours()).map(drop)
    }
}

/// A certificate for loopback, which is no authority's.
struct Certificate {
    file: PathBuf,
    key: PathBuf,
}

impl Certificate {
    fn make(dir: &Path) -> Result<Certificate> {
        const REQUEST: &str = "[req]\nprompt = no\ndistinguished_name = name\nx509_extensions = extensions\n[name]\n\
                               CN = bench\n[extensions]\nbasicConstraints = critical, CA:FALSE\n\
                               subjectAltName = IP:127.0.0.1\n";
        std::fs::write(dir.join("request.conf"), REQUEST)?;
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -config request.conf \
                     -keyout key.pem -out certificate.pem";
        run_to_end(&Launch::new(&program("openssl")?, dir).args(words.split(' ')), PATIENCE)?;
        Ok(Certificate { file: dir.join("certificate.pem"), key: dir.join("key.pem") })
    }
}

/// Path of a program that is on PATH.
fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("no `{name}` on PATH"))
}

/// Starts a Redis that listens with TLS and without.
fn redis(dir: &Path, certificate: &Certificate) -> Result<(Server, Sides)> {
    let (tls, plain) = (free_port()?, free_port()?);
    let program = program("redis-server")?;
    let launch = Launch::new(&program, dir)
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "always"])
        .args(["--port", &plain.to_string(), "--tls-port", &tls.to_string(), "--tls-auth-clients", "no"])
        .arg("--tls-cert-file")
        .arg(&certificate.file)
        .arg("--tls-key-file")
        .arg(&certificate.key)
        .arg("--tls-ca-cert-file")
        .arg(&certificate.file);
    let mut server = Server::start(&launch)?;
    server.wait_until_ready(PATIENCE, || Ok(TcpStream::connect(("127.0.0.1", plain)).map(drop)?))?;
    let trusted = certificate.file.display();
    let tls = format!("redis[url=rediss://127.0.0.1:{tls}?ssl_ca_certs={trusted}]");
    let plain = format!("redis[url=redis://127.0.0.1:{plain}]");
    Ok((server, Sides { name: "redis", tls, plain }))
}

/// Starts a PostgreSQL that takes either.
fn postgres(dir: &Path, certificate: &Certificate) -> Result<(Server, Sides)> {
    let adapter = stores::adapters().find(|adapter| adapter.name == "postgres/bytea");
    let program = adapter.and_then(|adapter| adapter.programs.first()).context("no PostgreSQL")?.find()?.path;
    // Next to the server's real file, and not next to a link to it.
    let program = program.canonicalize()?;
    let (initdb, data) = (program.with_file_name("initdb"), dir.join("data"));
    let options = ["-U", "bench", "--auth=trust", "--no-sync", "--locale=C", "-E", "UTF8"];
    run_to_end(&Launch::new(&initdb, dir).arg("-D").arg(&data).args(options), PATIENCE)?;
    let port = free_port()?;
    let mut launch = Launch::new(&program, dir).arg("-D").arg(&data);
    for setting in [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        "unix_socket_directories=".to_owned(),
        "dynamic_shared_memory_type=mmap".to_owned(),
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", certificate.file.display()),
        format!("ssl_key_file={}", certificate.key.display()),
    ] {
        launch = launch.arg("-c").arg(setting);
    }
    let mut server = Server::start(&launch)?;
    // It takes connections, and refuses them, before it is ready.
    let (is_ready, port_text) = (program.with_file_name("pg_isready"), port.to_string());
    let asked = Launch::new(&is_ready, dir).args(["-h", "127.0.0.1", "-q", "-p", &port_text]);
    server.wait_until_ready(PATIENCE, || run_to_end(&asked, PATIENCE))?;
    let side =
        |how: &str| format!("postgres/bytea[url=postgres://bench@127.0.0.1:{port}/postgres?sslmode={how}]");
    let tls = side(&format!("verify-full&sslrootcert={}", certificate.file.display()));
    Ok((server, Sides { name: "postgres/bytea", tls, plain: side("disable") }))
}
