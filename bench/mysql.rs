//! Reads of `mariadb/blob` against sysbench, on the same private server.
//!
//! `cargo bench --bench mysql`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

mod common;
#[path = "common/outside.rs"]
mod outside;
#[path = "common/socket.rs"]
mod socket;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use blobwise::corpus::Sizes;
use blobwise::plan::Order;

use common::{Bed, PER_SECOND, Turn, compare};

/// Rows of the table.
const BLOBS: u64 = 2000;

/// A prepared statement over the binary protocol, as our sessions have it.
const SCRIPT: &str = "
function thread_init()
  connection = sysbench.sql.driver():connect()
  statement = connection:prepare('SELECT content FROM store.blobs WHERE id = ?')
  id = statement:bind_create(sysbench.sql.type.BIGINT)
  statement:bind_param(id)
end
function event()
  id:set(sysbench.rand.uniform(0, LAST))
  local rows = statement:execute()
  rows:free()
end
";

fn main() -> Result<ExitCode> {
    if let Some(supervisor) = blobwise::host::server::supervise_if_asked() {
        return Ok(supervisor);
    }
    if !outside::are_there(&["sysbench", "mariadb"], "apt-get install sysbench mariadb-server")? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut met = true;
    for bytes in [128, 8192] {
        met &= reads(bytes)?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn reads(bytes: u64) -> Result<bool> {
    let bed = Bed::make("mariadb/blob[key=integer]", Sizes::Fixed(bytes), BLOBS, Order::Uniform, BLOBS)?;
    let socket = socket::argument(&bed.dir(), "--socket=")?;
    let script = bed.dir().join("reads.lua");
    std::fs::write(&script, SCRIPT.replace("LAST", &(BLOBS - 1).to_string()))?;
    let theirs = || {
        let mut command = Command::new("sysbench");
        command.arg(&script).args(["--threads=1", "--time=1", "--mysql-user=root", "--mysql-db=store"]);
        let (text, cpu_seconds) = outside::run(command.arg(format!("--mysql-socket={socket}")).arg("run"))?;
        let number = |name: &str| -> Result<f64> {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
            let line = line.with_context(|| format!("sysbench said no `{name}`"))?;
            Ok(line.trim().trim_end_matches('s').parse()?)
        };
        let ops = number("total number of events:")?;
        Ok(Turn { ops: ops as u64, seconds: number("total time:")?, cpu_seconds })
    };
    let title = format!("mariadb/blob against sysbench, prepared, one thread: {BLOBS} rows of {bytes} B");
    compare(&title, Some(PER_SECOND), || bed.ours(), theirs)
}
