//! Reads of `memcached` against memcaslap, on the same server, over loopback.
//!
//! `cargo bench --bench memcached`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

mod common;
#[path = "common/outside.rs"]
mod outside;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result};
use blobwise::corpus::Sizes;
use blobwise::host::place::Place;
use blobwise::host::server::{Launch, Server, free_port};
use blobwise::plan::Order;

use common::{Bed, PER_SECOND, Turn, compare};

/// Blobs of ours, and keys of theirs.
const BLOBS: u64 = 1000;

fn main() -> Result<ExitCode> {
    if let Some(supervisor) = blobwise::host::server::supervise_if_asked() {
        return Ok(supervisor);
    }
    let install = "apt-get install memcached libmemcached-tools";
    if !outside::are_there(&["memcached", "memcaslap"], install)? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut met = true;
    for bytes in [1024, 102_400] {
        met &= reads(bytes)?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// memcaslap knows no sockets of the file system: both sides use TCP.
fn reads(bytes: u64) -> Result<bool> {
    let (place, port) = (Place::make(Path::new("."))?, free_port()?);
    let launch = Launch::new(Path::new("/usr/bin/memcached"), place.path());
    let options = ["-l", "127.0.0.1", "-p", &port.to_string(), "-m", "2000"];
    let mut server = Server::start(&launch.args(options))?;
    let address = ("127.0.0.1", port);
    server
        .wait_until_ready(Duration::from_secs(10), || Ok(std::net::TcpStream::connect(address).map(drop)?))?;
    let candidate = format!("memcached[url=memcached://127.0.0.1:{port}]");
    let bed = Bed::make(&candidate, Sizes::Fixed(bytes), BLOBS, Order::Uniform, BLOBS)?;
    let config = bed.dir().join("reads.cnf");
    // Keys as long as ours; command 1 is a get, of what it put itself before the first one.
    std::fs::write(&config, format!("key\n58 58 1\nvalue\n{bytes} {bytes} 1\ncmd\n0 0.0\n1 1.0\n"))?;
    let theirs = || {
        let mut command = Command::new("memcaslap");
        command.args(["-s", &format!("127.0.0.1:{port}"), "-T", "1", "-c", "1", "-t", "1s", "-F"]);
        let (text, cpu_seconds) = outside::run(command.arg(&config).args(["-w", "1k"]))?;
        let number = |name: &str| -> Result<f64> {
            let rest = text.split(name).nth(1).with_context(|| format!("memcaslap said no `{name}`"))?;
            let digits: String =
                rest.trim().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            Ok(digits.parse()?)
        };
        anyhow::ensure!(number("get_misses:")? == 0.0, "memcaslap missed what it put: {text}");
        Ok(Turn { ops: number("cmd_get:")? as u64, seconds: number("Run time:")?, cpu_seconds })
    };
    let title = format!("memcached against memcaslap, one connection: {BLOBS} blobs of {bytes} B");
    compare(&title, Some(PER_SECOND), || bed.ours(), theirs)
}
