//! Statistics of disk tests: rates with intervals, comparison of places, and warnings.

use super::compare::{Series, rank, with_reference};
use super::flushes::doubts;
use super::histogram::RoundTimes;
use super::interval::rate;
use super::limit;
use crate::plan::text::device_limit;
use crate::result::disk::{
    Absent, Difference, DiskReport, DiskWarning, PlaceCosts, RequestCosts, SlowerPlace, Test, TestCost,
    TestOperation, TestProgram, TestResult, TestRound, TestedPlace,
};
use crate::result::{Percentiles, Prices};
use crate::rules::{DEVICE_READ_SHARE_MIN, FLUSH_NS_MIN, LEAST_SECONDS, LIMIT_AHEAD_SHARE, VERDICT_ROUNDS};

/// Calculates all figures that follow from the rounds. Calling it again changes nothing: it replaces its own warnings, and keeps
/// those of the measurement.
pub fn judge(report: &mut DiskReport) {
    let block_bytes = report.block_bytes;
    report.rows.iter_mut().for_each(|row| of_row(row, block_bytes));
    let ours: Vec<TestResult> = report.ours().cloned().collect();
    for row in report.rows.iter_mut().filter(|row| row.by != TestProgram::Blobwise) {
        let own = ours.iter().find(|own| own.place == row.place && own.test == row.test);
        let alike = own.filter(|own| is_alike(row, own));
        let over = alike.and_then(|own| with_reference(&series(row), &series(own)));
        row.over_ours = over.map(|(ratio, _)| ratio);
    }
    report.differences = differences(report);
    report.warnings.retain(|warning| matches!(warning, DiskWarning::Missing { .. }));
    report.warnings.extend(warnings(report));
}

/// True if both programs did the same work: Bonnie++ rewrites blocks that are still cached.
fn is_alike(row: &TestResult, own: &TestResult) -> bool {
    let is_told = row.absent.is_none() && own.absent.is_none();
    is_told
        && row.is_direct == own.is_direct
        && (row.by, row.test.what) != (TestProgram::Bonnie, TestOperation::Rewrite)
}

/// Calculates the rate and op times of a row; leaves them empty if the device counters contradict it.
fn of_row(row: &mut TestResult, block_bytes: u64) {
    let share = row.rounds.iter().filter_map(|round| share_read(row, round, block_bytes));
    let least = share.fold(f64::INFINITY, f64::min);
    if least < DEVICE_READ_SHARE_MIN {
        row.absent = Some(Absent::NotRead { share: least });
        return;
    }
    let rates: Vec<f64> = row.rounds.iter().map(per_second).collect();
    row.rate = rate(&rates);
    row.times_ns = times(&row.rounds);
}

/// Returns the share of a round's bytes that its device read; `None` if the bytes may come from a cache or the device
/// has no counters.
fn share_read(row: &TestResult, round: &TestRound, block_bytes: u64) -> Option<f64> {
    let is_cold = match row.test.what {
        TestOperation::Read | TestOperation::Rewrite | TestOperation::ReadAt(_) => true,
        TestOperation::RandomRead => row.is_direct,
        _ => false,
    };
    let read = round.device.filter(|_| is_cold && row.by == TestProgram::Blobwise)?.read_bytes;
    Some(read as f64 / (round.ops * block_bytes) as f64)
}

fn per_second(round: &TestRound) -> f64 {
    round.ops as f64 / round.seconds
}

/// Returns percentiles over the rounds; empty if a round has no times.
fn times(rounds: &[TestRound]) -> Percentiles {
    let texts: Option<Vec<&String>> = rounds.iter().map(|round| round.times.as_ref()).collect();
    let all = texts.and_then(|texts| RoundTimes::decode(texts.into_iter().map(std::iter::once)).ok());
    all.map(|all| all.percentiles()).unwrap_or_default()
}

fn series(row: &TestResult) -> Series {
    let rates = row.rounds.iter().map(|round| (round.round, per_second(round))).collect();
    Series { label: row.place.clone(), rates, slack: 0.0 }
}

/// True if a round of the test was too short to be meaningful.
pub fn is_too_short(row: &TestResult) -> bool {
    row.rounds.iter().any(|round| round.seconds < LEAST_SECONDS)
}

/// Compares the places in each test that at least two of them have in at least two rounds. Cached reads are left out,
/// because they measure memory.
fn differences(report: &DiskReport) -> Vec<Difference> {
    let tests = report.tests().into_iter().filter(|test| test.what != TestOperation::ReadCached);
    tests.filter_map(|test| difference(report, test)).collect()
}

fn difference(report: &DiskReport, test: Test) -> Option<Difference> {
    let rows = report.ours().filter(|row| row.test == test);
    let is_known = |row: &&TestResult| row.absent.is_none() && row.rounds.len() > 1 && !is_too_short(row);
    let known: Vec<&TestResult> = rows.filter(is_known).collect();
    if known.len() < 2 {
        return None;
    }
    let all: Vec<Series> = known.into_iter().map(series).collect();
    let ranking = rank(&all)?;
    let mut leaders = vec![ranking.best.clone()];
    leaders.extend(ranking.leaders.iter().filter(|leader| **leader != ranking.best).cloned());
    let behind = ranking.ratios.iter().filter(|(place, _)| !leaders.contains(place));
    let behind = behind.map(|(place, (ratio, _))| SlowerPlace { place: place.clone(), ratio: *ratio });
    let mut behind: Vec<SlowerPlace> = behind.collect();
    behind.sort_by(|a, b| b.ratio.median.total_cmp(&a.ratio.median));
    Some(Difference { test, leaders, behind })
}

/// Calculates the costs of requests, at the price of a million.
pub fn costs(report: &DiskReport, prices: &Prices, age_days: u64, per_million_requests: f64) -> RequestCosts {
    let cost = |requests: f64| requests / 1e6 * per_million_requests;
    let of_place = |place: &TestedPlace| {
        let counted = |row: &TestResult| {
            Some((row.test, requests(row)?, row.rounds.iter().map(|round| round.ops).sum()))
        };
        let rows = report.ours().filter(|row| row.place == place.name && row.absent.is_none());
        let counted: Vec<(Test, u64, u64)> = rows.filter_map(counted).collect();
        let requests = counted.iter().map(|(_, requests, _)| requests).sum();
        let of_million = |(test, requests, ops): &(Test, u64, u64)| TestCost {
            test: *test,
            cost: cost(*requests as f64 / (*ops).max(1) as f64 * 1e6),
        };
        (!counted.is_empty()).then(|| PlaceCosts {
            place: place.name.clone(),
            requests,
            cost: cost(requests as f64),
            of_million_ops: counted.iter().map(of_million).collect(),
        })
    };
    RequestCosts {
        date: prices.date.clone(),
        age_days,
        currency: prices.currency.clone(),
        per_million_requests,
        places: report.measured().filter_map(of_place).collect(),
    }
}

/// Returns the device requests of a row in all rounds; `None` if a round has no counters.
fn requests(row: &TestResult) -> Option<u64> {
    let of_round = |round: &TestRound| round.device.map(|used| used.requests());
    row.rounds.iter().map(of_round).sum::<Option<u64>>().filter(|_| !row.rounds.is_empty())
}

/// Returns reasons why figures may be misleading, derived from the report's own data.
fn warnings(report: &DiskReport) -> Vec<DiskWarning> {
    let mut warnings = Vec::new();
    if report.rounds < VERDICT_ROUNDS {
        warnings.push(DiskWarning::FewRounds { rounds: report.rounds });
    }
    let measured: Vec<String> = report.measured().map(|place| place.name.clone()).collect();
    if report.machine.virtual_machine && !measured.is_empty() {
        warnings.push(DiskWarning::VirtualDisk { places: measured.clone() });
    }
    let settings = report.machine.preloaded();
    if !settings.is_empty() {
        warnings.push(DiskWarning::Preloaded { settings, replaced: report.machine.replaced_flushes.clone() });
    }
    for place in &report.places {
        let name = || place.name.clone();
        let p50_ns = flush_ns(report, place);
        let doubts = doubts(place.below.as_ref(), p50_ns.map(|p50_ns| p50_ns as f64));
        let is_cached = place.says_write_back == Some(true);
        match p50_ns.filter(|p50_ns| is_cached && *p50_ns < FLUSH_NS_MIN) {
            _ if !doubts.is_empty() => warnings.push(DiskWarning::Flushes { place: name(), doubts }),
            Some(p50_ns) => warnings.push(DiskWarning::QuickFlushes { place: name(), p50_ns }),
            None => {}
        }
        if place.host_caches == Some(true) {
            warnings.push(DiskWarning::HostCaches { place: name() });
        }
        if place.remembers_deletions {
            warnings.push(DiskWarning::RemembersDeletions { place: name() });
        }
        if place.devices > 1 && !place.is_limited {
            warnings.push(DiskWarning::OneDisk { place: name() });
        }
        match &place.device {
            None if measured.contains(&place.name) => warnings.push(DiskWarning::NoDevice { place: name() }),
            Some(_) if !place.is_own => warnings.push(DiskWarning::SharedDevice { place: name() }),
            _ => {}
        }
        let own = || report.ours().filter(|row| row.place == place.name);
        if own().any(|row| row.test.what == TestOperation::RandomRead && !row.is_direct) {
            warnings.push(DiskWarning::NotDirect { place: name() });
        }
        let ahead = own().filter_map(|row| Some((row.test, ahead_of_limit(place, row)?)));
        let (tests, shares): (Vec<Test>, Vec<f64>) = ahead.unzip();
        if !tests.is_empty() {
            let share_max = shares.into_iter().fold(0.0, f64::max);
            warnings.push(DiskWarning::AheadOfLimit { place: name(), tests, share_max });
        }
        let tests: Vec<Test> = own().filter(|row| is_too_short(row)).map(|row| row.test).collect();
        if !tests.is_empty() {
            warnings.push(DiskWarning::TooShort { place: name(), tests });
        }
    }
    warnings
}

/// Returns the burst of a place's device limit as a share of the shortest round of a test that it bounds; `None` if
/// that is negligible.
fn ahead_of_limit(place: &TestedPlace, row: &TestResult) -> Option<f64> {
    let held = device_limit(place.facts.get("on_device_limit")?).ok()?;
    let share = |round: &TestRound| {
        let device = round.device.unwrap_or_default();
        let moved = [(device.reads, device.read_bytes), (device.writes, device.written_bytes)];
        limit::ahead(&held, round.seconds, moved)
    };
    row.rounds.iter().map(share).reduce(f64::max).filter(|share| *share > LIMIT_AHEAD_SHARE)
}

/// Returns the median flush time in nanoseconds.
fn flush_ns(report: &DiskReport, place: &TestedPlace) -> Option<u64> {
    report.ours().find(|row| row.place == place.name && row.test.what == TestOperation::Flush)?.times_ns.p50
}

#[cfg(test)]
mod tests;
