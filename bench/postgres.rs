//! Reads of `postgres/bytea` in releases 15 and 18 against pgbench, on the same private server.
//!
//! `cargo bench --bench postgres`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

mod common;
#[path = "common/outside.rs"]
mod outside;
#[path = "common/socket.rs"]
mod socket;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use blobwise::corpus::Sizes;
use blobwise::plan::{Order, Sets, candidates};

use common::{Bed, Goal, PER_SECOND, Turn, compare};

/// Rows of the table.
const BLOBS: u64 = 2000;

fn main() -> Result<ExitCode> {
    if let Some(supervisor) = blobwise::host::server::supervise_if_asked() {
        return Ok(supervisor);
    }
    if !outside::are_there(&["pgbench", "psql"], "apt-get install postgresql")? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut met = true;
    // It speaks to later releases than its own as well.
    for release in ["15", "18"] {
        match why_not(release)? {
            None => met &= reads_of(release)?,
            Some(why) if std::env::var_os("BLOBWISE_REQUIRE_ALL").is_some_and(|all| all == "1") => bail!(why),
            Some(why) => println!("skipped: {why}"),
        }
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The candidate of a release.
fn store(release: &str) -> String {
    format!("postgres/bytea[key=integer,version={release}]")
}

/// Why a release cannot be started here, if so.
fn why_not(release: &str) -> Result<Option<String>> {
    let (candidates, _) = candidates(&[store(release)], &Sets::new(), true)?;
    let candidate = candidates.first().context("no candidate")?;
    Ok(candidate.adapter.missing_program(&candidate.options).map(|why| format!("{why:#}")))
}

fn reads_of(release: &str) -> Result<bool> {
    let mut met = true;
    // pgbench asks for results as text, two digits a byte: with larger blobs it has more to do than we have.
    for (bytes, goal) in [(128, Some(PER_SECOND)), (8192, None)] {
        met &= reads(release, bytes, goal)?;
    }
    Ok(met)
}

fn reads(release: &str, bytes: u64, goal: Option<Goal>) -> Result<bool> {
    let bed = Bed::make(&store(release), Sizes::Fixed(bytes), BLOBS, Order::Uniform, BLOBS)?;
    let sockets = socket::argument(&bed.dir(), "unix_socket_directories=")?;
    let script = bed.dir().join("reads.sql");
    let (last, table) = (BLOBS - 1, "store.blobs");
    std::fs::write(
        &script,
        format!("\\set id random(0, {last})\nSELECT data FROM {table} WHERE key = :id;\n"),
    )?;
    let theirs = || {
        let mut command = Command::new("pgbench");
        command.args(["-n", "-M", "prepared", "-c", "1", "-j", "1", "-T", "1", "-U", "blobwise", "-h"]);
        let (text, cpu_seconds) = outside::run(command.arg(&sockets).arg("-f").arg(&script).arg("postgres"))?;
        let number = |before: &str| -> Result<f64> {
            let rest = text.split(before).nth(1).with_context(|| format!("pgbench said no `{before}`"))?;
            let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            Ok(digits.parse()?)
        };
        let ops = number("number of transactions actually processed: ")?;
        Ok(Turn { ops: ops as u64, seconds: ops / number("tps = ")?, cpu_seconds })
    };
    let title = format!(
        "postgres/bytea of {release} against pgbench, prepared, one client: {BLOBS} rows of {bytes} B"
    );
    compare(&title, goal, || bed.ours(), theirs)
}
