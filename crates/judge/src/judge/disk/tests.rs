//! Statistics of disk tests on synthetic rounds.

use super::*;
use crate::judge::histogram;
use crate::result::disk::{DISK_SCHEMA, DeviceUse};
use crate::result::{Machine, Percentiles};

fn test(what: TestOperation) -> Test {
    Test { what, threads: 1 }
}

/// Returns a row whose rounds lasted one second each.
fn row(place: &str, by: TestProgram, what: TestOperation, rates: &[f64]) -> TestResult {
    let round = |(round, rate): (u32, &f64)| TestRound {
        round,
        ops: *rate as u64,
        seconds: 1.0,
        cpu_ns: None,
        device: None,
        resident: None,
        times: None,
    };
    TestResult {
        place: place.to_owned(),
        by,
        test: test(what),
        is_direct: true,
        rounds: (1..).zip(rates).map(round).collect(),
        absent: None,
        rate: None,
        times_ns: Percentiles::default(),
        over_ours: None,
    }
}

fn place(name: &str) -> TestedPlace {
    TestedPlace { is_own: true, says_write_back: Some(true), ..TestedPlace::known_by(name, String::new()) }
}

fn report(places: &[&str], rows: Vec<TestResult>) -> DiskReport {
    let mut report = DiskReport {
        schema: DISK_SCHEMA,
        blobwise: String::new(),
        started: String::new(),
        machine: Machine::default(),
        file_bytes: 0,
        block_bytes: 8192,
        files: 0,
        rounds: 5,
        seconds: 0.5,
        places: places.iter().map(|name| place(name)).collect(),
        rows,
        differences: Vec::new(),
        costs: None,
        warnings: Vec::new(),
    };
    judge(&mut report);
    report
}

#[test]
fn a_report_that_is_judged_twice_has_each_warning_once() {
    let rows = vec![row("a", TestProgram::Blobwise, TestOperation::Write, &[100.0; 5])];
    let missing = DiskWarning::Missing { by: TestProgram::Bonnie, why: "is not installed".to_owned() };
    let mut once = DiskReport { warnings: vec![missing], rounds: 2, ..report(&["a"], rows) };
    judge(&mut once);
    let mut twice = once.clone();
    judge(&mut twice);
    assert_eq!(twice.warnings, once.warnings);
    let is_meant = |warning: &&DiskWarning| {
        matches!(warning, DiskWarning::Missing { .. } | DiskWarning::FewRounds { .. })
    };
    assert_eq!(twice.warnings.iter().filter(is_meant).count(), 2);
}

#[test]
fn places_are_ranked_in_each_test_and_what_is_memory_is_not() {
    let fast = [200.0, 202.0, 199.0, 201.0, 200.0];
    let slow = [100.0, 101.0, 99.0, 100.0, 100.5];
    let rows = [TestOperation::Write, TestOperation::ReadCached]
        .into_iter()
        .flat_map(|what| {
            [row("a", TestProgram::Blobwise, what, &slow), row("b", TestProgram::Blobwise, what, &fast)]
        })
        .collect();
    let report = report(&["a", "b"], rows);
    let [difference] = report.differences.as_slice() else { panic!("{:?}", report.differences) };
    assert_eq!(
        (difference.test, difference.leaders.as_slice()),
        (test(TestOperation::Write), &["b".to_owned()][..])
    );
    let [behind] = difference.behind.as_slice() else { panic!("{difference:?}") };
    assert!(behind.place == "a" && (behind.ratio.median - 0.5).abs() < 0.01, "{behind:?}");
    assert!(report.rows.iter().all(|row| row.rate.is_some_and(|rate| rate.low.is_some())));
}

#[test]
fn rounds_that_are_over_at_once_decide_nothing() {
    let mut quick = row("a", TestProgram::Blobwise, TestOperation::Delete, &[200.0; 5]);
    quick.rounds[3].seconds = 0.009;
    let report =
        report(&["a", "b"], vec![quick, row("b", TestProgram::Blobwise, TestOperation::Delete, &[100.0; 5])]);
    assert_eq!(report.differences, []);
    let tests = vec![test(TestOperation::Delete)];
    assert!(report.warnings.contains(&DiskWarning::TooShort { place: "a".to_owned(), tests }));
}

#[test]
fn another_program_is_held_against_our_own_row_of_the_same_rounds() {
    let mut theirs = row("a", TestProgram::Fio, TestOperation::Write, &[50.0, 100.0, 150.0]);
    theirs.rounds.remove(0);
    let ours = row("a", TestProgram::Blobwise, TestOperation::Write, &[1.0, 200.0, 300.0]);
    let report = report(&["a"], vec![ours, theirs]);
    let ratio = report.rows[1].over_ours.unwrap();
    assert!((ratio.median - 0.5).abs() < 1e-9 && report.rows[0].over_ours.is_none(), "{ratio:?}");
}

#[test]
fn flushes_are_too_quick_only_where_the_device_says_that_it_has_a_cache() {
    let flushes = |ns: u64| {
        let mut times = histogram::new();
        times.record_n(ns, 100).unwrap();
        let mut row = row("a", TestProgram::Blobwise, TestOperation::Flush, &[100.0; 5]);
        row.rounds.iter_mut().for_each(|round| round.times = Some(histogram::encode(&times).unwrap()));
        row
    };
    let is_told = |report: &DiskReport| {
        report.warnings.iter().any(|warning| matches!(warning, DiskWarning::QuickFlushes { .. }))
    };
    assert!(is_told(&report(&["a"], vec![flushes(20_000)])));
    assert!(!is_told(&report(&["a"], vec![flushes(200_000)])));
    let mut through = report(&["a"], vec![flushes(20_000)]);
    through.places[0].says_write_back = Some(false);
    assert!(!warnings(&through).iter().any(|warning| matches!(warning, DiskWarning::QuickFlushes { .. })));
}

#[test]
fn what_was_not_measured_has_no_rate() {
    let mut cached = row("a", TestProgram::Blobwise, TestOperation::Read, &[]);
    cached.absent = Some(Absent::StillCached { share: 0.5 });
    let report = report(&["a"], vec![cached]);
    assert_eq!((report.rows[0].rate, report.rows[0].times_ns), (None, Percentiles::default()));
}

/// The device or its counters contradict the rates.
#[test]
fn a_read_that_its_device_does_not_confirm_is_no_figure() {
    let with = |what: TestOperation, is_direct: bool, read_bytes: u64| {
        let mut row = row("a", TestProgram::Blobwise, what, &[100.0; 3]);
        row.is_direct = is_direct;
        let used = |read_bytes| Some(DeviceUse { read_bytes, ..DeviceUse::default() });
        row.rounds.iter_mut().for_each(|round| round.device = used(100 * 8192));
        row.rounds[1].device = used(read_bytes);
        let report = report(&["a"], vec![row]);
        (report.rows[0].absent.clone(), report.rows[0].rate.is_some())
    };
    let half = 50 * 8192;
    for what in [TestOperation::Read, TestOperation::Rewrite, TestOperation::RandomRead] {
        assert_eq!(with(what, true, half), (Some(Absent::NotRead { share: 0.5 }), false), "{what:?}");
        assert_eq!(with(what, true, 96 * 8192), (None, true), "{what:?}");
    }
    assert_eq!(with(TestOperation::RandomRead, false, half), (None, true), "the cache may have had it");
    assert_eq!(with(TestOperation::ReadCached, true, 0), (None, true));
}

/// The device may read 8,192 of these blocks per second, and allows a tenth of that as a burst.
#[test]
fn what_is_over_before_its_limit_holds_is_told() {
    let of = |seconds: f64, blocks: u64, limit: &str| {
        let mut row = row("a", TestProgram::Blobwise, TestOperation::Read, &[1.0; 3]);
        for round in &mut row.rounds {
            round.seconds = 4.0;
            round.device = Some(DeviceUse { read_bytes: 4 * 8192 * 8192, ..DeviceUse::default() });
        }
        row.rounds[1].seconds = seconds;
        row.rounds[1].device =
            Some(DeviceUse { read_bytes: blocks * 8192, reads: blocks, ..DeviceUse::default() });
        let mut place = place("a");
        place.facts.insert("on_device_limit".to_owned(), limit.to_owned());
        ahead_of_limit(&place, &row)
    };
    let limit = "67108864 B/s";
    assert_eq!(of(0.5, 4096, limit), Some(0.2));
    assert_eq!(of(2.5, 20_480, limit), None, "long enough");
    assert_eq!(of(0.5, 1000, limit), None, "not bounded by it");
    assert_eq!(of(0.5, 1000, "67108864 B/s, 2000 iops"), Some(0.2), "bounded by its requests");
    assert_eq!(of(0.5, 4096, "none"), None);
}

#[test]
fn requests_cost_what_a_million_of_them_does() {
    let used = |reads, writes| DeviceUse { reads, writes, read_bytes: 1 << 30, ..DeviceUse::default() };
    let with = |what, rates: &[f64], device| {
        let mut row = row("a", TestProgram::Blobwise, what, rates);
        row.rounds.iter_mut().for_each(|round| round.device = device);
        row
    };
    let rows = vec![
        with(TestOperation::RandomRead, &[1000.0, 1000.0], Some(used(1000, 0))),
        with(TestOperation::Flush, &[500.0, 500.0], Some(used(0, 1000))),
        // No device counters.
        with(TestOperation::Stat, &[500.0], None),
        row("b", TestProgram::Blobwise, TestOperation::Stat, &[500.0]),
    ];
    let prices = Prices { date: "2026-11-26".to_owned(), currency: "USD".to_owned(), ..Prices::default() };
    let costs = costs(&report(&["a", "b"], rows), &prices, 2, 0.5);
    let [of] = costs.places.as_slice() else { panic!("{costs:?}") };
    assert_eq!((of.place.as_str(), of.requests, of.cost), ("a", 4000, 0.002));
    let of_million = |what, cost| TestCost { test: test(what), cost };
    assert_eq!(
        of.of_million_ops,
        [of_million(TestOperation::RandomRead, 0.5), of_million(TestOperation::Flush, 1.0)]
    );
}
