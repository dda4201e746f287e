//! How far blobwise itself goes: its memory and time for up to a million blobs or more, 256 workers, and 100 million ops.
//!
//! `cargo bench --bench scale`, and behind `--` one of `blobs`, `workers` and `ops` for that part alone; `blobs 1M 4M 10M` for these
//! numbers of blobs.

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use blobwise::host::place::Place;
use serde_json::Value;

/// The program, as users run it.
const BLOBWISE: &str = env!("CARGO_BIN_EXE_blobwise");
/// Numbers of blobs, each of 1 kB, unless others are asked for. All of them have more bytes than the contents kept in memory.
const BLOBS: [u64; 3] = [300_000, 600_000, 1_000_000];
/// Stores, and the bytes that they keep of a blob in this process's own memory, to which LMDB's map does not belong.
const STORES: [(&str, f64); 2] = [("null", 4.0), ("lmdb", 0.0)];
/// Most bytes of a blob that blobwise may keep in memory.
const BLOB_MEMORY_MAX: f64 = 64.0;
/// No number of blobs may take more memory than a straight line through all of them says, by this share.
const OFF_THE_LINE_MAX: f64 = 0.05;
/// How often the program's memory is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A part's name, and what does it for the numbers of blobs asked for and says whether its goal is met.
type Part = (&'static str, fn(&[u64]) -> Result<bool>);

fn main() -> Result<ExitCode> {
    if let Some(supervisor) = blobwise::host::server::supervise_if_asked() {
        return Ok(supervisor);
    }
    let parts: [Part; 3] = [("blobs", blobs), ("workers", workers), ("ops", ops)];
    // Cargo adds `--bench`.
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let (numbers, asked): (Vec<&String>, Vec<&String>) =
        asked.iter().partition(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    if let Some(unknown) = asked.iter().find(|word| parts.iter().all(|(name, _)| name != **word)) {
        bail!("`{unknown}` is no part of it: blobs, workers or ops");
    }
    let numbers: Vec<u64> = numbers.into_iter().map(|word| number(word)).collect::<Result<_>>()?;
    let numbers = if numbers.is_empty() { BLOBS.to_vec() } else { numbers };
    if numbers.len() < 2 {
        bail!("a line needs two numbers of blobs, such as `blobs 1M 4M 10M`");
    }
    let mut met = true;
    for (name, part) in parts {
        if asked.is_empty() || asked.iter().any(|word| *word == name) {
            met &= part(&numbers)?;
        }
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

// ---- a million blobs ---------------------------------------------------------------------------------------------

/// Parses a number of blobs such as 300000, 300k or 4M.
fn number(word: &str) -> Result<u64> {
    let (digits, times) = match (word.strip_suffix('k'), word.strip_suffix('M')) {
        (Some(digits), _) => (digits, 1_000),
        (_, Some(digits)) => (digits, 1_000_000),
        (None, None) => (word, 1),
    };
    Ok(digits.parse::<u64>().with_context(|| format!("`{word}` is not a number of blobs"))? * times)
}

/// Memory by number of blobs, whether it grows on a straight line and by how much, and the time of each phase.
fn blobs(numbers: &[u64]) -> Result<bool> {
    let mut met = true;
    for (store, of_the_store) in STORES {
        println!("{store}, blobs of 1 kB");
        let mut points = Vec::new();
        for blobs in numbers.iter().copied() {
            let plan = format!(
                "stores = ['{store}']\nphases = ['fill', 'read-warm', 'delete-half']\nrounds = 1\n\
                 durability = 'none'\n\
                 [corpus]\nsource = 'fixed:1kB'\nblobs = {blobs}\n"
            );
            let ran = run(&plan)?;
            println!("  {blobs:>9} blobs  {:>5.0} MB of its own  {}", ran.own_bytes / 1e6, ran.phases);
            points.push((blobs as f64, ran.own_bytes));
        }
        let line = Line::through(&points);
        let off = points.iter().map(|(x, y)| (y / line.at(*x) - 1.0).abs()).fold(0.0, f64::max);
        let verdict = if off <= OFF_THE_LINE_MAX { "met" } else { "missed" };
        println!(
            "  {:.0} B a blob and {:.0} MB; goal: no point off the line by more than {:.0} %: {:.1} %, {verdict}\n",
            line.slope,
            line.base / 1e6,
            OFF_THE_LINE_MAX * 100.0,
            off * 100.0
        );
        met &= off <= OFF_THE_LINE_MAX;
        let own = line.slope - of_the_store;
        let is_met = own <= BLOB_MEMORY_MAX;
        let verdict = if is_met { "met" } else { "missed" };
        println!("  goal: at most {BLOB_MEMORY_MAX} B a blob besides the store's: {own:.0} B, {verdict}\n");
        met &= is_met;
    }
    Ok(met)
}

/// A straight line by least squares.
struct Line {
    slope: f64,
    base: f64,
}

impl Line {
    fn through(points: &[(f64, f64)]) -> Line {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        let slope = both / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>();
        Line { slope, base: y - slope * x }
    }

    fn at(&self, x: f64) -> f64 {
        self.base + self.slope * x
    }
}

// ---- many workers, many ops --------------------------------------------------------------------------------------

/// Rates of one worker and of 256, on servers: no op may fail.
fn workers(_: &[u64]) -> Result<bool> {
    for store in ["nginx", "postgres/bytea"] {
        println!("{store}, 1,000 blobs of 10 kB");
        for workers in [1, 16, 256] {
            let plan = format!(
                "stores = ['{store}']\nphases = ['fill', 'read-warm']\nrounds = 1\nworkers = {workers}\n\
                 [corpus]\nsource = 'fixed:10kB'\nblobs = 1000\n"
            );
            let ran = run(&plan)?;
            println!("  {workers:>3} workers  {:>5.0} MB of its own  {}", ran.own_bytes / 1e6, ran.phases);
        }
        println!();
    }
    Ok(true)
}

/// Ops on the null store: what the loop itself takes must not grow with their number.
fn ops(_: &[u64]) -> Result<bool> {
    println!("null, 1,000 blobs of 1 kB");
    for ops in [1_000_000_u64, 10_000_000, 100_000_000] {
        let plan = format!(
            "stores = ['null']\nphases = ['fill', 'reads']\nrounds = 1\n[corpus]\nsource = 'fixed:1kB'\nblobs = 1000\n\
             [[phase]]\nid = 'reads'\nops = {{ get = 1.0 }}\ncount = {ops}\n"
        );
        let ran = run(&plan)?;
        println!("  {ops:>9} ops  {:>5.0} MB of its own  {}", ran.own_bytes / 1e6, ran.phases);
    }
    println!();
    Ok(true)
}

// ---- the program -------------------------------------------------------------------------------------------------

/// What a run of the program took.
struct Ran {
    /// The most memory that was its own (RssAnon): no mapped files, no page cache.
    own_bytes: f64,
    /// Each phase with its time and what an op took.
    phases: String,
}

/// Runs a plan and looks at the program's memory meanwhile. A failed op is an error.
fn run(plan: &str) -> Result<Ran> {
    let place = Place::make(Path::new("."))?;
    std::fs::write(place.path().join("plan.toml"), plan)?;
    let mut command = Command::new(BLOBWISE);
    command.args(["run", "plan.toml", "--quiet", "--out", "out"]).current_dir(place.path());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    #[expect(clippy::disallowed_methods, reason = "the program under test, which is waited for")]
    let mut program = command.spawn()?;
    let mut own_bytes = 0.0_f64;
    let status = loop {
        if let Some(status) = program.try_wait()? {
            break status;
        }
        own_bytes = own_bytes.max(own_memory(program.id()));
        std::thread::sleep(LOOK);
    };
    if !status.success() {
        bail!("the run ended with {status}");
    }
    let text = std::fs::read_to_string(place.path().join("out/result.json"))?;
    let result: Value = serde_json::from_str(&text)?;
    let cells = result["results"].as_array().context("the result has no cells")?;
    Ok(Ran { own_bytes, phases: cells.iter().map(cell).collect::<Result<Vec<_>>>()?.join("  ") })
}

fn cell(cell: &Value) -> Result<String> {
    let phase = cell["phase"].as_str().context("a cell without a phase")?;
    let round = &cell["rounds"][0];
    if cell["errors"] != 0 {
        bail!("`{phase}`: {} ops failed: {}", cell["errors"], cell["first_error"]);
    }
    let seconds = round["settled_seconds"].as_f64().or(round["seconds"].as_f64());
    let seconds = seconds.with_context(|| format!("`{phase}` has no time: {}", cell["reason"]))?;
    let ops = round["ops"].as_f64().context("a round without ops")?;
    Ok(format!("{phase} {seconds:.1} s ({:.2} us an op)", seconds * 1e6 / ops))
}

fn own_memory(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}
