//! Reads and writes of `seaweedfs` against `weed benchmark`, on the same private servers.
//!
//! `cargo bench --bench seaweedfs`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

#[expect(dead_code, reason = "our side has as many clients as theirs")]
mod common;
#[path = "common/outside.rs"]
mod outside;
#[path = "common/socket.rs"]
mod socket;

use std::cell::Cell;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use blobwise::corpus::Sizes;
use blobwise::engine::ops::PlannedOp;
use blobwise::plan::{OpKind, Order};
use ring::hmac;

use common::{Bed, PER_SECOND, TURN_SECONDS, TURNS, Turn, compare};

/// Clients of both sides.
const CLIENTS: [usize; 2] = [1, 4];
/// Files that are read, on each side, and files of a turn of writes.
const FILES: u64 = 4000;

fn main() -> Result<ExitCode> {
    if let Some(supervisor) = blobwise::host::server::supervise_if_asked() {
        return Ok(supervisor);
    }
    let Some(weed) = weed() else {
        outside::are_there(&["weed"], "./test.sh")?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut met = true;
    for clients in CLIENTS {
        for bytes in [1024, 102_400] {
            met &= reads(&weed, bytes, clients)?;
        }
        met &= writes(&weed, 1024, clients)?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The program that the store starts.
fn weed() -> Option<PathBuf> {
    let adapter = blobwise::stores::adapters().find(|store| store.name == "seaweedfs")?;
    Some(adapter.programs.first()?.find().ok()?.path)
}

/// Sizes as theirs has them: up to 63 bytes more.
fn sizes(bytes: u64) -> Sizes {
    Sizes::Uniform(bytes, bytes + 63)
}

/// Their side: the program with the certificate and the keys of our servers.
struct Theirs<'a> {
    weed: &'a PathBuf,
    bed: &'a Bed,
    bytes: u64,
    clients: usize,
}

impl Theirs<'_> {
    /// The file with the ids of what it wrote.
    fn ids(&self) -> PathBuf {
        self.bed.dir().join("ids.txt")
    }

    fn turn(&self, what: &str) -> Result<Turn> {
        let dir = self.bed.dir();
        // Of the two servers only the master has this directory.
        let option = |name: &str| socket::argument(&dir.join("master"), name);
        let master = format!("127.0.0.1:{}.{}", option("-port=")?, option("-port.grpc=")?);
        let mut command = Command::new(self.weed);
        command.current_dir(&dir).env("HOME", &dir).arg("benchmark").arg(what);
        // Without a collection of its own it uses the volumes that there are.
        command.args([&format!("-master={master}"), "-collection=", &format!("-c={}", self.clients)]);
        command.args([format!("-n={FILES}"), format!("-size={}", self.bytes)]);
        let (text, cpu_seconds) = outside::run(command.arg(format!("-list={}", self.ids().display())))?;
        let number = |name: &str| -> Result<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let rest = line.with_context(|| format!("weed benchmark said no `{name}`: {text}"))?;
            Ok(rest.split_whitespace().next().unwrap_or_default().parse()?)
        };
        ensure!(number("Failed requests:")? == 0.0, "weed benchmark failed: {text}");
        let ops = number("Completed requests:")?;
        // Its time is shown in milliseconds.
        Ok(Turn { ops: ops as u64, seconds: ops / number("Requests per second:")?, cpu_seconds })
    }

    /// It writes files, and the token of each goes behind its id: the program sends none for reads, and asks for whatever is listed.
    fn fill(&self) -> Result<()> {
        self.turn("-writeOnly")?;
        let settings: toml::Table =
            toml::from_str(&std::fs::read_to_string(self.bed.dir().join("security.toml"))?)?;
        let secret = settings["jwt"]["signing"]["read"]["key"].as_str().context("no key of reads")?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let with_token = |id: &str| {
            let head = BASE64.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
            let signed = format!("{head}.{}", BASE64.encode(format!(r#"{{"fid":"{id}"}}"#)));
            let tag = BASE64.encode(hmac::sign(&key, signed.as_bytes()));
            format!("{id}?jwt={signed}.{tag}\n")
        };
        let ids = std::fs::read_to_string(self.ids())?;
        Ok(std::fs::write(self.ids(), ids.lines().map(with_token).collect::<String>())?)
    }
}

/// A list for each client.
fn dealt(ops: &[PlannedOp], clients: usize) -> Vec<Vec<PlannedOp>> {
    (0..clients).map(|client| ops.iter().skip(client).step_by(clients).cloned().collect()).collect()
}

fn reads(weed: &PathBuf, bytes: u64, clients: usize) -> Result<bool> {
    let bed = Bed::make("seaweedfs", sizes(bytes), FILES, Order::Uniform, FILES)?;
    let theirs = Theirs { weed, bed: &bed, bytes, clients };
    theirs.fill()?;
    let ours = || bed.run_by(bed.store.as_ref(), dealt(&bed.gets, clients), TURN_SECONDS);
    let title = format!(
        "seaweedfs against weed benchmark, reads, {}: {FILES} files of {bytes} B",
        blobwise::units::counted(clients, "client")
    );
    compare(&title, Some(PER_SECOND), ours, || theirs.turn("-readOnly"))
}

/// Every turn writes files that were not there.
fn writes(weed: &PathBuf, bytes: u64, clients: usize) -> Result<bool> {
    let bed = Bed::empty("seaweedfs", sizes(bytes), FILES * (TURNS as u64 + 1))?;
    let theirs = Theirs { weed, bed: &bed, bytes, clients };
    let taken = Cell::new(0);
    let ours = || {
        let begin = taken.replace(taken.get() + FILES as u32);
        let put = |blob: u32| PlannedOp {
            blob,
            kind: OpKind::Put,
            len: bed.corpus.sizes[blob as usize],
            generation: 0,
            offset: 0,
        };
        let puts: Vec<PlannedOp> = (begin..taken.get()).map(put).collect();
        bed.run_by(bed.store.as_ref(), dealt(&puts, clients), 0.0)
    };
    let title = format!(
        "seaweedfs against weed benchmark, writes, {}: {FILES} files of {bytes} B a turn",
        blobwise::units::counted(clients, "client")
    );
    compare(&title, Some(PER_SECOND), ours, || theirs.turn("-writeOnly"))
}
