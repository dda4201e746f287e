//! Reads through `nginx` against wrk, h2load and ApacheBench, from the same private server, with one connection on each side.
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
    if !outside::are_there(
        &["wrk", "h2load", "ab"],
        "apt-get install wrk nghttp2-client apache2-utils nginx",
    )? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut met = true;
    for bytes in [1 << 10, 100 << 10] {
        met &= reads(bytes)?;
        met &= reads_over_http2(bytes)?;
        one_url(bytes)?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn reads(bytes: u64) -> Result<bool> {
    let bed = Bed::make("nginx", Sizes::Fixed(bytes), BLOBS, Order::Once, BLOBS)?;
    let address = address(&bed)?;
    let (_, prefix) = address.split_once('/').context("the server has no directory")?;
    let paths = paths(&bed, &format!("/{prefix}"));
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

/// The same over HTTP/2, one stream at a time, without TLS.
fn reads_over_http2(bytes: u64) -> Result<bool> {
    let bed = Bed::make("nginx[http=2]", Sizes::Fixed(bytes), BLOBS, Order::Once, BLOBS)?;
    let list = bed.dir().join("addresses");
    std::fs::write(&list, paths(&bed, &format!("http://{}", address(&bed)?)))?;
    let theirs = || {
        let mut command = Command::new("h2load");
        command.args(["--clients=1", "--max-concurrent-streams=1", "--duration=1", "--input-file"]);
        let (text, cpu_seconds) = outside::run(command.arg(&list))?;
        // Such as `finished in 1.00s, ...` and `requests: 12345 total, 12346 started, 12345 done, 12345 succeeded, 0 failed, ...`.
        let behind = |start: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(start));
            rest.with_context(|| format!("h2load gave no `{start}`: {text}"))
        };
        let counts = behind("requests: ")?;
        let done = counts.split(", ").find_map(|count| count.strip_suffix(" succeeded"));
        if !counts.contains(" 0 failed") {
            bail!("h2load was refused: {text}");
        }
        let seconds = behind("finished in ")?.split_once("s,").context("h2load gave no time")?.0;
        let ops = done.context("h2load counted nothing")?.parse()?;
        Ok(Turn { ops, seconds: seconds.parse()?, cpu_seconds })
    };
    let title = format!("nginx over HTTP/2 against h2load, one connection: {BLOBS} files of {bytes} B");
    compare(&title, Some(PER_SECOND), || bed.ours(), theirs)
}

/// Where the files of a bed are, in the order in which our side asks for them, a line each.
fn paths(bed: &Bed, prefix: &str) -> String {
    let keys = bed.gets.iter().map(|op| bed.corpus.keys.at(op.blob as usize));
    keys.map(|key| format!("{prefix}/{}/{}\n", &key.as_str()[..2], key.as_str())).collect()
}

/// ApacheBench knows one address: the same file again and again, on both sides. It is shown beside, and no goal hangs on it.
fn one_url(bytes: u64) -> Result<()> {
    let bed = Bed::make("nginx", Sizes::Fixed(bytes), BLOBS, Order::Same, BLOBS)?;
    let key = bed.corpus.keys.at(bed.gets[0].blob as usize);
    let url = format!("http://{}/{}/{}", address(&bed)?, &key.as_str()[..2], key.as_str());
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
    let way = way::client_access(bed)?;
    let (host, port) = (way::text(&way, "/address/Host/0")?, &way["address"]["Host"][1]);
    Ok(format!("{host}:{port}{}", way::text(&way, "/prefix")?.trim_end_matches('/')))
}
