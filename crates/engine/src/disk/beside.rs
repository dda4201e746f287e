//! Runs the real Bonnie++ and fio in the same rounds and places as blobwise's own tests.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::bonnie;
use super::visit::{Outcome, TestOutcome};
use super::{BLOCK_BYTES, DiskTestOptions, TestTarget};
use crate::host::machine;
use crate::host::place::remove_tree;
use crate::host::server::{Launch, Program, run_unless_stopped};
use crate::input::read_text;
use crate::result::disk::{Absent, Test, TestOperation, TestProgram, TestRound};

const FIO: Program = Program::plain("fio", &["--version"], "fio-", "apt-get install fio");
/// Bonnie++ does not know `-h` and prints its usage; without arguments it would start testing.
const BONNIE: Program = Program::plain("bonnie++", &["-h"], "scratch-dir", "apt-get install bonnie++");

const REPORT_BYTES_MAX: u64 = 16 << 20;
/// Time limit of a test, after which it is considered stuck.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Returns why a program cannot be run; `None` if it can.
pub fn lacks(by: TestProgram) -> Option<anyhow::Error> {
    match by {
        TestProgram::Blobwise => None,
        TestProgram::Bonnie => BONNIE.find().err(),
        TestProgram::Fio => FIO.find().err(),
    }
}

/// Runs a program's tests in a new directory, and removes that afterwards. The result is incomplete if it was stopped.
pub fn go(
    by: TestProgram,
    asked: &DiskTestOptions,
    site: &TestTarget,
    round: u32,
    is_direct: bool,
    stop: &AtomicBool,
) -> Result<Vec<TestOutcome>> {
    let dir = site.path.join("beside");
    std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
    machine::sync_filesystem(&dir)?;
    let outcome = match by {
        TestProgram::Fio => fio(asked, &dir, round, is_direct, stop),
        TestProgram::Bonnie => bonnie(asked, &dir, round, stop),
        TestProgram::Blobwise => Ok(Vec::new()),
    };
    remove_tree(&dir)?;
    outcome
}

/// Runs Bonnie++ without its tests of single bytes, which measure the processor. It reads what it has just written, from the
/// cache if it is there.
fn bonnie(asked: &DiskTestOptions, dir: &Path, round: u32, stop: &AtomicBool) -> Result<Vec<TestOutcome>> {
    let program = BONNIE.find()?.path;
    // It only takes whole MiB, and multiples of 1,024 files.
    let size = format!("{}:{BLOCK_BYTES}", asked.file_bytes >> 20);
    let files = format!("{}:0:0:1", (asked.files / 1024).max(1));
    let log = dir.join("said");
    let launch = Launch::new(&program, dir).log(log.clone());
    // With `-r 0`, because it refuses a file that fits into the memory size it is given.
    let launch = launch.args(["-d", ".", "-s", &size, "-n", &files, "-r", "0", "-f", "-q", "-m", "blobwise"]);
    if !run_unless_stopped(&launch, PATIENCE, stop)? {
        return Ok(Vec::new());
    }
    let said = read_text(&log, REPORT_BYTES_MAX)?;
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(",blobwise,")).collect();
    ensure!(lines.len() == 1, "Bonnie++ wrote {} lines", lines.len());
    let fits = asked.file_bytes < 2 * machine::memory_bytes();
    bonnie::outcomes(lines[0], round, fits).context("what Bonnie++ wrote")
}

/// Runs fio: first the write test, which creates the file, then the tests that need one. Like blobwise, fio gives the kernel no
/// access hint, with which it would read ahead twice as far, and finds nothing of its file in the cache. By itself, fio drops the
/// file on its own clock, which took 29 ms of a 500 ms test with 512 MiB cached.
fn fio(
    asked: &DiskTestOptions,
    dir: &Path,
    round: u32,
    is_direct: bool,
    stop: &AtomicBool,
) -> Result<Vec<TestOutcome>> {
    let mut came = Vec::new();
    for (test, how) in jobs(asked, is_direct) {
        machine::sync_filesystem(dir)?;
        machine::evict(dir);
        let Some(outcome) = job(asked, dir, round, test, &how, stop)? else { return Ok(Vec::new()) };
        let is_random = matches!(test.what, TestOperation::RandomRead | TestOperation::RandomWrite);
        came.push(TestOutcome { test, is_direct: is_direct && is_random, outcome });
    }
    Ok(came)
}

/// Returns fio's tests with the job options of each.
fn jobs(asked: &DiskTestOptions, is_direct: bool) -> Vec<(Test, String)> {
    let test = |what: TestOperation, threads: u32| Test { what, threads };
    let timed = format!("time_based\nruntime={}ms\n", (asked.seconds * 1000.0).round());
    let mut jobs = vec![
        (test(TestOperation::Write, 1), "rw=write\nend_fsync=1\n".to_owned()),
        (test(TestOperation::Read, 1), "rw=read\n".to_owned()),
    ];
    for threads in &asked.threads {
        let how = format!("numjobs={threads}\ndirect={}\n{timed}", u8::from(is_direct));
        jobs.push((test(TestOperation::RandomRead, *threads), format!("rw=randread\n{how}")));
        jobs.push((test(TestOperation::RandomWrite, *threads), format!("rw=randwrite\nend_fsync=1\n{how}")));
    }
    jobs.push((test(TestOperation::Flush, 1), format!("rw=write\nfdatasync=1\n{timed}")));
    jobs
}

/// Runs one test and parses its report; `None` if it was stopped.
fn job(
    asked: &DiskTestOptions,
    dir: &Path,
    round: u32,
    test: Test,
    how: &str,
    stop: &AtomicBool,
) -> Result<Option<Outcome>> {
    let DiskTestOptions { file_bytes, .. } = asked;
    let text = format!(
        "[global]\nfilename=file\nsize={file_bytes}\nbs={BLOCK_BYTES}\nioengine=psync\nthread\nfallocate=none\nfadvise_hint=0\ninvalidate=0\n\
         randrepeat=0\nnorandommap\ngroup_reporting\n[test]\n{how}"
    );
    let (orders, report) = (dir.join("jobs"), dir.join("report"));
    std::fs::write(&orders, text)?;
    let program = FIO.find()?.path;
    let launch = Launch::new(&program, dir).args(["jobs", "--output-format=json", "--output=report"]);
    if !run_unless_stopped(&launch, PATIENCE, stop)? {
        return Ok(None);
    }
    let report = read_text(&report, REPORT_BYTES_MAX)?;
    let report: Value = serde_json::from_str(&report).context("fio's report is not JSON")?;
    let job = report.pointer("/jobs/0").context("fio's report lacks its job")?;
    round_of(job, test, round).map(Some)
}

fn round_of(job: &Value, test: Test, round: u32) -> Result<Outcome> {
    let number = |path: &str| {
        job.pointer(path).and_then(Value::as_f64).with_context(|| format!("fio's report has no {path}"))
    };
    let side =
        if matches!(test.what, TestOperation::Read | TestOperation::RandomRead) { "read" } else { "write" };
    let (ops, milliseconds) = (number(&format!("/{side}/total_ios"))?, number(&format!("/{side}/runtime"))?);
    if number("/error")? != 0.0 {
        return Ok(Err(Absent::Failed { error: format!("fio's error {}", number("/error")?) }));
    }
    // fio reports times in whole milliseconds.
    if ops < 1.0 || milliseconds < 1.0 {
        return Ok(Err(Absent::NotTold));
    }
    let busy = (number("/usr_cpu")? + number("/sys_cpu")?) / 100.0;
    Ok(Ok(TestRound {
        round,
        ops: ops as u64,
        seconds: milliseconds / 1000.0,
        cpu_ns: Some((number("/job_runtime")? * busy * 1e6) as u64),
        device: None,
        resident: None,
        times: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_of_fio_is_read_and_one_that_says_nothing_has_no_figure() {
        let job = |ios: u64, runtime: u64, error: u64| {
            json!({"error": error, "usr_cpu": 3.0, "sys_cpu": 12.0, "job_runtime": 400, "read": {"total_ios": ios, "runtime": runtime},
                   "write": {"total_ios": 1, "runtime": 1}})
        };
        let test = Test { what: TestOperation::RandomRead, threads: 4 };
        let of = |job: &Value| round_of(job, test, 2).unwrap();
        let round = of(&job(3000, 100, 0)).unwrap();
        assert_eq!((round.round, round.ops, round.seconds, round.cpu_ns), (2, 3000, 0.1, Some(60_000_000)));
        assert_eq!(of(&job(3000, 0, 0)), Err(Absent::NotTold));
        assert!(matches!(of(&job(3000, 100, 5)), Err(Absent::Failed { .. })));
        assert!(round_of(&json!({"error": 0}), test, 1).is_err());
    }
}
