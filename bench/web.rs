//! Reads through `nginx` against wrk and ApacheBench, from the same private server, with one connection on each side.
//!
//! `cargo bench --bench web`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

mod common;
#[path = "common/outside.rs"]
mod outside;
#[path = "common/way.rs"]
mod way;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use blobwise::corpus::Sizes;
use blobwise::plan::Order;

use common::{Bed, PER_SECOND, Turn, compare};

/// Files that are served.
const BLOBS: u64 = 1000;

/// Asks for one file after the other, in the order in which our side does. Requests are made in `init`: before it, wrk does not
/// know the host that each of them must name.
const SCRIPT: &str = "
local paths = {}
local at = 0
init = function()
  for line in io.lines('PATHS') do
    paths[#paths + 1] = wrk.format('GET', line)
  end
end
request = function()
  at = at % #paths + 1
  return paths[at]
end
";

fn main() -> Result<ExitCode> {
    if let Some(supervisor) = blobwise::host::server::supervise_if_asked() {
        return Ok(supervisor);
    }
    if !outside::are_there(&["wrk", "ab"], "apt-get install wrk apache2-utils nginx")? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut met = true;
    for bytes in [1 << 10, 100 << 10] {
        met &= reads(bytes)?;
        one_url(bytes)?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn reads(bytes: u64) -> Result<bool> {
    let bed = Bed::make("nginx", Sizes::Fixed(bytes), BLOBS, Order::Once, BLOBS)?;
    let address = address(&bed)?;
    let (_, prefix) = address.split_once('/').context("the server has no directory")?;
    let path = |key: &str| format!("/{prefix}/{}/{key}\n", &key[..2]);
    let paths: String = bed.gets.iter().map(|op| path(bed.corpus.keys[op.blob as usize].as_str())).collect();
    let (list, script) = (bed.dir().join("paths"), bed.dir().join("reads.lua"));
    std::fs::write(&list, paths)?;
    std::fs::write(&script, SCRIPT.replace("PATHS", &list.to_string_lossy()))?;
    let theirs = || {
        let mut command = Command::new("wrk");
        command.args(["--threads=1", "--connections=1", "--duration=1s", "--script"]).arg(&script);
        let (text, cpu_seconds) = outside::run(command.arg(format!("http://{address}/")))?;
        if text.contains("Non-2xx") {
            bail!("wrk was refused: {text}");
        }
        // Such as `  12345 requests in 1.00s, 12.34MB read`.
        let line = text.lines().find(|line| line.contains(" requests in ")).context("wrk counted nothing")?;
        let (ops, rest) = line.trim().split_once(" requests in ").context("wrk counted nothing")?;
        let seconds = rest.split_once("s,").context("wrk gave no time")?.0;
        Ok(Turn { ops: ops.parse()?, seconds: seconds.parse()?, cpu_seconds })
    };
    let title = format!("nginx against wrk, one connection: {BLOBS} files of {bytes} B");
    compare(&title, Some(PER_SECOND), || bed.ours(), theirs)
}

/// ApacheBench knows one address: the same file again and again, on both sides. It is shown beside, and no goal hangs on it.
fn one_url(bytes: u64) -> Result<()> {
    let bed = Bed::make("nginx", Sizes::Fixed(bytes), BLOBS, Order::Same, BLOBS)?;
    let key = bed.corpus.keys[bed.gets[0].blob as usize].as_str();
    let url = format!("http://{}/{}/{key}", address(&bed)?, &key[..2]);
    let theirs = || {
        let mut command = Command::new("ab");
        // -t sets its own number of requests, unless -n follows it.
        command.args(["-k", "-q", "-c", "1", "-t", "1", "-n", "100000000"]);
        let (text, cpu_seconds) = outside::run(command.arg(&url))?;
        let figure = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next())
                .with_context(|| format!("ab gave no `{name}`"))
        };
        if figure("Failed requests:")? != "0" || text.contains("Non-2xx") {
            bail!("ab was refused: {text}");
        }
        let seconds = figure("Time taken for tests:")?.parse()?;
        Ok(Turn { ops: figure("Complete requests:")?.parse()?, seconds, cpu_seconds })
    };
    let title = format!("nginx against ApacheBench, one connection: one file of {bytes} B");
    compare(&title, None, || bed.ours(), theirs).map(drop)
}

/// Where the server of a bed listens, and the directory that it hands out, whose name is a secret.
fn address(bed: &Bed) -> Result<String> {
    let way = way::of(bed)?;
    let (host, port) = (way::text(&way, "/address/Host/0")?, &way["address"]["Host"][1]);
    Ok(format!("{host}:{port}{}", way::text(&way, "/prefix")?.trim_end_matches('/')))
}
