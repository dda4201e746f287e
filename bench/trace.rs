//! A phase of reads against a replay of the same reads, which were written as a log; and how far a replay is off the log's times.
//!
//! `cargo bench --bench trace`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

#[expect(dead_code, reason = "shared with benches that compare two sides")]
mod common;

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use blobwise::corpus::{BlobSource, Content, Corpus, CorpusSpecification, Sizes};
use blobwise::engine::ops::{OpDistribution, PlannedOp, State, lists};
use blobwise::engine::workers::log::LogOps;
use blobwise::engine::workers::pool::Job;
use blobwise::engine::workers::tally::Tally;
use blobwise::host::machine;
use blobwise::judge::interval::{self, paired_ratio};
use blobwise::plan::{Length, OpKind, Order, Workload};
use blobwise::trace::{LogFile, Replay};

use common::{Bed, TURNS, fill};

/// Blobs, and the bytes of each.
const BLOBS: u64 = 2000;
const BLOB_BYTES: u64 = 4096;
/// Reads of a phase: about a second of them.
const READS: u64 = 100_000;
/// How far from 1 the ratio of the two rates may lie.
const WITHIN: f64 = 0.03;
/// Requests that are replayed at the times of the log, which has one every millisecond.
const TIMED: u64 = 10_000;
/// How late the latest but one in a hundred of these may be, in nanoseconds, on a machine whose sleeps end in time.
const LATE_NS_MAX: u64 = 1_000_000;

fn main() -> Result<ExitCode> {
    let mut met = true;
    for (name, order) in [("uniform", Order::Uniform), ("zipfian:0.99", Order::Zipfian(0.99))] {
        let reads = Reads::make(order)?;
        println!("files/hashed, {BLOBS} files of {BLOB_BYTES} bytes, {READS} reads, {name}");
        met &= reads.compare()?;
        met &= reads.time()?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads as a phase has them and as a log has them, and a store of the blobs that they ask for.
struct Reads {
    bed: Bed,
    phase: Vec<PlannedOp>,
    log: Arc<Replay>,
}

impl Reads {
    /// Plans the reads, writes them as a log, and reads that. Fails if its requests are others than those that were written.
    fn make(order: Order) -> Result<Reads> {
        let planned = planned(order)?;
        let dir = tempfile::tempdir_in(".")?;
        let path = dir.path().join("log");
        std::fs::write(&path, as_log(&planned)?)?;
        let log = LogFile::at(path);
        let source = BlobSource::Trace { log, share: Some(1.0), content: Content::Random, files: None };
        let corpus = Corpus::build(&CorpusSpecification {
            source,
            blobs_max: None,
            bytes_max: None,
            grows_to: None,
            seed: 1,
        })?;
        let log = Arc::clone(corpus.log.as_ref().context("no log was read")?);
        let phase = of_objects(&planned, &log)?;
        let bed = Bed::with_corpus("files/hashed", corpus)?;
        fill(bed.store.as_ref(), &bed.corpus, &mut State::empty(&bed.corpus))?;
        Ok(Reads { bed, phase, log })
    }

    fn replay(&self, requests: u64, speed: Option<f64>) -> Result<Tally> {
        let generations = vec![0; self.bed.corpus.sizes.len()];
        let ops = Arc::new(LogOps::new(&self.log, requests as usize, generations, speed, 1));
        let job = Job { log: Some(ops), ..Job::once(Vec::new()) };
        let tally = self.bed.do_job(self.bed.store.as_ref(), job, 1)?;
        ensure!(tally.ops == requests, "{} of {requests} requests were replayed", tally.ops);
        Ok(tally)
    }

    /// Lets the phase and the replay take turns, as fast as the store can, and prints how they compare. A ratio is missed where
    /// its whole interval lies elsewhere.
    fn compare(&self) -> Result<bool> {
        let store = self.bed.store.as_ref();
        let by_phase = || self.bed.do_job(store, Job::once(vec![self.phase.clone()]), 1);
        let by_log = || self.replay(READS, None);
        // The first turns bring everything into the caches.
        by_phase()?;
        by_log()?;
        let rate = |tally: Tally| tally.ops as f64 / tally.seconds(1);
        let (mut phase, mut replay) = (Vec::new(), Vec::new());
        for turn in 0..TURNS {
            if turn % 2 == 0 {
                phase.push(rate(by_phase()?));
                replay.push(rate(by_log()?));
            } else {
                replay.push(rate(by_log()?));
                phase.push(rate(by_phase()?));
            }
        }
        let ratio = paired_ratio(&replay, &phase).context("no ratio")?;
        let [least, most] = [ratio.low, ratio.high].map(|bound| bound.unwrap_or(ratio.median));
        let met = least <= 1.0 + WITHIN && most >= 1.0 - WITHIN;
        let is_within = (ratio.median - 1.0).abs() <= WITHIN;
        let verdict = match (is_within, met) {
            (true, _) => "met",
            (false, true) => "cannot tell",
            (false, false) => "missed",
        };
        let middle = |rates: &[f64]| interval::rate(rates).map_or(f64::NAN, |rate| rate.median);
        println!(
            "  reads per second, replay / phase {} ({:.0} / {:.0}); goal: within {WITHIN} of 1: {verdict}",
            interval::text(&ratio),
            middle(&replay),
            middle(&phase)
        );
        Ok(met)
    }

    /// Replays at the log's own times, and prints how late requests began beside a loop that only sleeps until the same times: where
    /// the host takes the processor away, both are late.
    fn time(&self) -> Result<bool> {
        let bare_p99_ns = late_of_sleeps();
        let tally = self.replay(TIMED, Some(1.0))?;
        let planned_ns = tally.last_due - tally.begin;
        let logged_ns = (TIMED - 1) * 1_000_000;
        ensure!(planned_ns.abs_diff(logged_ns) <= 1000, "the last request was due after {planned_ns} ns");
        let late = tally.wake_late.as_ref().context("lateness was not measured")?;
        let at = |share: f64| late.value_at_quantile(share);
        let met = at(0.99) <= LATE_NS_MAX.max(bare_p99_ns);
        let verdict = if met { "met" } else { "missed" };
        println!(
            "  1,000 requests a second, {TIMED} of them: late by {:.1} us (median), {:.1} us (p99), {:.1} us (at most); {} were due while \
             one before was not done; bare sleeps: {:.1} us (p99); goal: p99 within 1000 us, or that of the sleeps: {verdict}\n",
            at(0.5) as f64 / 1e3,
            at(0.99) as f64 / 1e3,
            late.max() as f64 / 1e3,
            tally.busy_when_due,
            bare_p99_ns as f64 / 1e3
        );
        Ok(met)
    }
}

/// Returns how late the latest but one in a hundred of as many sleeps ends as requests are timed, in nanoseconds.
fn late_of_sleeps() -> u64 {
    let begin = machine::uptime();
    let late_after = |n: u64| {
        let due = begin + Duration::from_millis(n);
        std::thread::sleep(due.saturating_sub(machine::uptime()));
        machine::uptime().saturating_sub(due).as_nanos() as u64
    };
    let mut late_ns: Vec<u64> = (1..=TIMED).map(late_after).collect();
    late_ns.sort_unstable();
    late_ns[late_ns.len() * 99 / 100]
}

/// Reads of whole blobs in this order.
fn planned(order: Order) -> Result<Vec<PlannedOp>> {
    let mut state = State::empty(&Corpus::random("bench", Sizes::Fixed(BLOB_BYTES), BLOBS, 1)?);
    state.alive.fill(true);
    let load = Workload { order, ..Workload::new(OpKind::Get, Length::Pilot) };
    Ok(lists(&load, &state, READS, 1, OpDistribution::Own(1), 1).remove(0))
}

/// Writes reads as a csv, one every millisecond.
fn as_log(reads: &[PlannedOp]) -> Result<String> {
    let mut log = "time,op,key,bytes\n".to_owned();
    for (n, read) in reads.iter().enumerate() {
        writeln!(log, "{}.{:03},get,{},{}", n / 1000, n % 1000, read.blob, read.len)?;
    }
    Ok(log)
}

/// The same reads by the ids that the log's objects got. Fails if the log has other requests, or if two blobs became one object.
fn of_objects(reads: &[PlannedOp], log: &Replay) -> Result<Vec<PlannedOp>> {
    ensure!(
        log.steps().len() == reads.len(),
        "{} of {} reads are in the log",
        log.steps().len(),
        reads.len()
    );
    let mut objects = HashMap::new();
    let mut same = Vec::new();
    for (read, step) in reads.iter().zip(log.steps()) {
        let object = *objects.entry(read.blob).or_insert(step.object());
        ensure!((object, read.len) == (step.object(), step.bytes()), "a read of the log is another one");
        same.push(PlannedOp { blob: object, ..*read });
    }
    let distinct: HashSet<&u32> = objects.values().collect();
    ensure!(distinct.len() == objects.len(), "{} blobs are {} objects", objects.len(), distinct.len());
    Ok(same)
}
