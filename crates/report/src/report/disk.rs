//! Results of disk tests as text: a table for each place, how places differ, and warnings.

use std::collections::BTreeMap;

use super::block::{self, Block};
use super::table::{Table, TableCell, shown};
use super::view::money::{in_this, money};
use crate::judge::{LIMIT_AHEAD_S, LIMIT_AHEAD_SHARE, VERDICT_ROUNDS, interval};
use crate::result::disk::{
    Absent, DeviceUse, Difference, DiskReport, DiskWarning, PlaceCosts, RequestCosts, SlowerPlace, Test,
    TestCost, TestProgram, TestResult, TestRound, TestedPlace,
};
use crate::result::{Interval, ahead_by, doubted, preloaded};
use crate::units;

/// Legend for the figures.
pub const LEGEND: &str = "Rates have their 95 % intervals over the rounds; those of writes have the flush at their end in them. p50 and p99 are times of one op: half of the ops, or 99 of 100, took \
    no longer. cpu is the processor time of the threads that asked, for each op. req and bytes are requests and bytes of the device, read and \
    written, for each op.";

/// Formats the report for a terminal: a table for each place, then conclusions from all of them.
pub fn terminal(report: &DiskReport) -> String {
    let mut all = vec![Block::Text(head(report))];
    for place in &report.places {
        let title = Block::Text(format!("{}: {}", place.name, place.disk));
        all.extend([Block::Gap, title, Block::Table(table(report, place))]);
    }
    all.extend([Block::Gap, Block::Text(LEGEND.to_owned())]);
    for (_, title, sentences) in conclusions(report) {
        all.extend([Block::Title(title.to_owned()), Block::List(sentences)]);
    }
    block::terminal(&all)
}

/// Conclusions from all places: anchor and title of each part, and its sentences.
pub(super) fn conclusions(report: &DiskReport) -> Vec<(&'static str, &'static str, Vec<String>)> {
    let mut parts = vec![
        ("differs", "What differs", differences(report)),
        ("beside", "Beside ours", beside(report)),
        ("costs", "What requests cost", costs(report)),
        ("careful", "Be careful", warnings(report)),
    ];
    parts.retain(|(_, _, sentences)| !sentences.is_empty());
    parts
}

/// Sentence on what was tested.
pub fn head(report: &DiskReport) -> String {
    let DiskReport { file_bytes, block_bytes, files, rounds, .. } = report;
    if *file_bytes == 0 {
        let rounds = units::counted(*rounds, "round");
        return format!("Devices, which are only read, in blocks of {block_bytes} B, in {rounds}.");
    }
    format!(
        "A file of {} in blocks of {block_bytes} B, and {} empty files, in {}.",
        units::bytes(*file_bytes as f64),
        units::count(*files as f64),
        units::counted(*rounds, "round")
    )
}

/// Shown instead of a figure that another program did not give, as Bonnie++ does.
const NO_FIGURE: &str = "+++++";

/// Table of all figures of a place.
pub(super) fn table(report: &DiskReport, place: &TestedPlace) -> Table {
    let heads = ["test", "#rate", "#p50", "#p99", "#cpu", "#req", "#bytes"];
    let mut table = Table::new(place.name.clone(), heads);
    for row in rows_of(report, place) {
        table.push(cells(report, row));
        row.absent.iter().filter(|why| **why != Absent::NotTold).for_each(|why| table.note(absent(why)));
    }
    table
}

/// Rows of a place: each test of blobwise, followed by other programs' results of the same test.
fn rows_of<'a>(report: &'a DiskReport, place: &TestedPlace) -> Vec<&'a TestResult> {
    let mut rows: Vec<&TestResult> = report.rows.iter().filter(|row| row.place == place.name).collect();
    let first = |row: &TestResult| {
        report.rows.iter().position(|other| other.place == row.place && other.test == row.test)
    };
    rows.sort_by_key(|row| (first(row), row.by));
    rows
}

/// Name of a row: its test, or the other program that ran the test of the row above.
fn name(report: &DiskReport, row: &TestResult) -> String {
    let is_ours = |other: &TestResult| {
        other.by == TestProgram::Blobwise && other.place == row.place && other.test == row.test
    };
    match row.by {
        by @ (TestProgram::Bonnie | TestProgram::Fio) if report.rows.iter().any(is_ours) => {
            format!("  by {}", who(by))
        }
        _ => row.test.to_string(),
    }
}

fn who(by: TestProgram) -> &'static str {
    match by {
        TestProgram::Blobwise => "blobwise",
        TestProgram::Bonnie => "Bonnie++",
        TestProgram::Fio => "fio",
    }
}

fn cells(report: &DiskReport, row: &TestResult) -> Vec<TableCell> {
    let no_figure = row.absent.as_ref().map(|_| NO_FIGURE.to_owned());
    let rate = row.rate.map(|rate| shown_rate(&rate, row.test, report.block_bytes)).or(no_figure);
    let time = |ns: Option<u64>| ns.map(|ns| units::nanoseconds(ns as f64));
    let cpu = per_op(row, |round| Some(round.cpu_ns? as f64)).map(units::nanoseconds);
    let device =
        |of: fn(&DeviceUse) -> u64| per_op(row, |round| round.device.as_ref().map(|used| of(used) as f64));
    let requests = device(DeviceUse::requests).map(small);
    let bytes = device(|used| used.read_bytes + used.written_bytes).map(|bytes| units::bytes(bytes.round()));
    let figures = [rate, time(row.times_ns.p50), time(row.times_ns.p99), cpu, requests, bytes];
    let figures = figures.map(|figure| shown(figure, |figure| figure));
    std::iter::once(name(report, row).into()).chain(figures).collect()
}

/// Sum over all rounds divided by the number of ops; `None` if a round lacks the figure.
fn per_op(row: &TestResult, of: impl Fn(&TestRound) -> Option<f64>) -> Option<f64> {
    let ops: u64 = row.rounds.iter().map(|round| round.ops).sum();
    let sum: f64 = row.rounds.iter().map(of).sum::<Option<f64>>()?;
    (ops > 0).then(|| sum / ops as f64)
}

/// Requests per op below this are shown as 0.
const FEW_REQUESTS: f64 = 0.0005;

/// Formats a count per op: `1.0`, `0.016`.
fn small(value: f64) -> String {
    match value {
        value if value >= 0.995 => format!("{value:.1}"),
        value if value < FEW_REQUESTS => "0".to_owned(),
        value => format!("{value:.3}"),
    }
}

/// Formats a rate and its interval in one unit: `812 [790, 830] MB/s`, `12.3 [11.9, 12.8] k/s`.
pub fn shown_rate(rate: &Interval, test: Test, block_bytes: u64) -> String {
    let (times, names) = match test.what.is_in_bytes() {
        true => (block_bytes as f64, ["B/s", "kB/s", "MB/s", "GB/s"]),
        false => (1.0, ["/s", "k/s", "M/s", "G/s"]),
    };
    let scale = |value: f64| ((value * times).log10() / 3.0).floor().clamp(0.0, 3.0);
    let unit = scale(rate.median);
    let number = |value: f64| {
        let value = value * times / 1000_f64.powf(unit);
        match value {
            value if value >= 99.95 => format!("{value:.0}"),
            value if value >= 9.995 => format!("{value:.1}"),
            value => format!("{value:.2}"),
        }
    };
    let interval = match (rate.low, rate.high) {
        (Some(low), Some(high)) if high < 10.0 * rate.median => {
            format!(" [{}, {}]", number(low), number(high))
        }
        (Some(_), Some(_)) => " [wide]".to_owned(),
        _ => String::new(),
    };
    format!("{}{interval} {}", number(rate.median), names[unit as usize])
}

/// States why there is no figure.
fn absent(why: &Absent) -> String {
    match why {
        Absent::StillCached { share } => format!(
            "no figure: the kernel kept {} of the file in its cache, so that a read is not the disk's",
            units::percent(*share)
        ),
        Absent::NotCached { share } => {
            format!(
                "no figure: only {} of the file was cached; take a smaller --size",
                units::percent(*share)
            )
        }
        Absent::NotRead { share } => format!(
            "no figure: the device read only {} of what was asked for; the rest came from a cache that the kernel does not tell of",
            units::percent(*share)
        ),
        Absent::Failed { error } => format!("failed: {error}"),
        Absent::NotTold => NO_FIGURE.to_owned(),
    }
}

/// Sentences on how the places differ.
fn differences(report: &DiskReport) -> Vec<String> {
    let (alike, other): (Vec<&Difference>, Vec<&Difference>) =
        report.differences.iter().partition(|difference| difference.behind.is_empty());
    let has_few_rounds = report.rounds < VERDICT_ROUNDS;
    let mut sentences: Vec<String> =
        other.into_iter().map(|other| difference(other, has_few_rounds)).collect();
    if !alike.is_empty() {
        let tests: Vec<String> = alike.iter().map(|difference| difference.test.to_string()).collect();
        sentences.push(format!("The places cannot be told apart in: {}.", tests.join("; ")));
    }
    sentences
}

fn difference(of: &Difference, has_few_rounds: bool) -> String {
    let leaders: Vec<String> = of.leaders.iter().map(|leader| format!("`{leader}`")).collect();
    let led = match leaders.as_slice() {
        [one] if has_few_rounds => format!("{one} was fastest, in too few rounds to tell"),
        [one] => format!("{one} is fastest"),
        several => format!("{} cannot be told apart", units::listed(several, "and")),
    };
    let behind =
        of.behind.iter().map(|SlowerPlace { place, ratio }| format!("`{place}` {}", interval::text(ratio)));
    let behind: Vec<String> = behind.collect();
    let rate = if let [_] = leaders.as_slice() { "its rate" } else { &format!("the rate of {}", leaders[0]) };
    format!("{}: {led}. Of {rate}: {}.", of.test, behind.join(", "))
}

/// Sentences on how other programs' figures differ from blobwise's, for each program and place.
fn beside(report: &DiskReport) -> Vec<String> {
    let mut sentences = Vec::new();
    for place in &report.places {
        for by in [TestProgram::Bonnie, TestProgram::Fio] {
            let its = report.rows.iter().filter(|row| row.place == place.name && row.by == by);
            let ratio = |row: &TestResult| Some(format!("{} {}", row.test, interval::text(&row.over_ours?)));
            let ratios: Vec<String> = its.filter_map(ratio).collect();
            if !ratios.is_empty() {
                let ratios = ratios.join("; ");
                sentences.push(format!("`{}`: of our rates {} has, by test: {ratios}.", place.name, who(by)));
            }
        }
    }
    if report.rows.iter().any(|row| row.absent == Some(Absent::NotTold)) {
        let why = "Bonnie++ gives no figure for what took it under half a second: try a larger --size, or more --files";
        sentences.push(format!("{NO_FIGURE}: {why}."));
    }
    sentences
}

/// Sentences on the cost of requests in each place, and the price used; empty if no price was given.
fn costs(report: &DiskReport) -> Vec<String> {
    report.costs.as_ref().map_or_else(Vec::new, costs_told)
}

fn costs_told(costs: &RequestCosts) -> Vec<String> {
    let amount = |amount: f64| in_this(&costs.currency, amount);
    let of_place = |of: &PlaceCosts| {
        // Tests with so few requests that the column shows 0 are listed without a cost.
        let is_paid = |of: &&TestCost| of.cost >= FEW_REQUESTS * costs.per_million_requests;
        let (paid, others): (Vec<&TestCost>, Vec<&TestCost>) = of.of_million_ops.iter().partition(is_paid);
        let paid: Vec<String> = paid.iter().map(|of| format!("{} {}", of.test, money(of.cost))).collect();
        let others: Vec<String> = others.iter().map(|of| of.test.to_string()).collect();
        let nothing = if others.is_empty() {
            String::new()
        } else {
            format!(" Next to nothing: {}.", others.join("; "))
        };
        format!(
            "`{}`: all tests did {} requests, {}. A million ops: {}.{nothing}",
            of.place,
            units::count(of.requests as f64),
            amount(of.cost),
            paid.join("; ")
        )
    };
    let mut sentences: Vec<String> = costs.places.iter().map(of_place).collect();
    if sentences.is_empty() {
        sentences.push("The kernel names no device that could be counted.".to_owned());
    }
    let price = amount(costs.per_million_requests);
    let age = units::counted(costs.age_days, "day");
    sentences.push(format!(
        "The price: a million requests for {price}, {age} ago ({}). An op is a block or a file.",
        costs.date
    ));
    sentences
}

/// Warnings, one sentence each.
fn warnings(report: &DiskReport) -> Vec<String> {
    let told = report.warnings.iter().filter_map(warned);
    let of_all = [ahead_of_limit(&report.warnings), too_short(&report.warnings, report.seconds)];
    told.chain(of_all.into_iter().flatten()).collect()
}

/// One sentence about tests in all places that were too short.
fn too_short(warnings: &[DiskWarning], seconds: f64) -> Option<String> {
    let all = by_places(warnings, |warning| match warning {
        DiskWarning::TooShort { place, tests } => Some((place, tests)),
        _ => None,
    })?;
    let longer = if seconds < 0.01 { ", and --seconds 0.5" } else { "" };
    Some(format!(
        "Less than 10 ms in a round, too little to compare: {all}. Try a larger --size or more --files{longer}."
    ))
}

/// One sentence about tests in all places that exceeded their device limit.
fn ahead_of_limit(warnings: &[DiskWarning]) -> Option<String> {
    let all = by_places(warnings, |warning| match warning {
        DiskWarning::AheadOfLimit { place, tests, .. } => Some((place, tests)),
        _ => None,
    })?;
    let share = |warning: &DiskWarning| match warning {
        DiskWarning::AheadOfLimit { share_max, .. } => *share_max,
        _ => 0.0,
    };
    let more = ahead_by(warnings.iter().map(share).fold(0.0, f64::max));
    let least = LIMIT_AHEAD_S / LIMIT_AHEAD_SHARE;
    Some(format!(
        "The limit of devices gives out up to {LIMIT_AHEAD_S} s of its rate in advance. Rounds of less than {least} s are the faster for it, by \
         {more}: {all}. Try a larger --size, and --seconds {least}."
    ))
}

/// Lists tests with their places, grouping tests that have the same places.
fn by_places<'w>(
    warnings: &'w [DiskWarning],
    of: impl Fn(&'w DiskWarning) -> Option<(&'w String, &'w Vec<Test>)>,
) -> Option<String> {
    let mut places: BTreeMap<Test, Vec<String>> = BTreeMap::new();
    for (place, tests) in warnings.iter().filter_map(of) {
        tests.iter().for_each(|test| places.entry(*test).or_default().push(format!("`{place}`")));
    }
    let mut tests: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for (test, places) in places {
        tests.entry(places).or_default().push(test.to_string());
    }
    let of = |(places, tests): (&Vec<String>, &Vec<String>)| {
        format!("{} on {}", units::listed(tests, "and"), units::listed(places, "and"))
    };
    let all: Vec<String> = tests.iter().map(of).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn warned(warning: &DiskWarning) -> Option<String> {
    let places = |places: &[String]| {
        units::listed(&places.iter().map(|place| format!("`{place}`")).collect::<Vec<String>>(), "and")
    };
    Some(match warning {
        DiskWarning::QuickFlushes { place, p50_ns } => format!(
            "`{place}`: half of the flushes took {} or less, though the device says that it has a cache. Either that cache outlives a \
             power cut, or the flush does not reach the disk.",
            units::nanoseconds(*p50_ns as f64)
        ),
        DiskWarning::Flushes { place, doubts } => {
            doubted(&format!("`{place}`: what a flush keeps there is not known"), doubts)
        }
        DiskWarning::Preloaded { settings, replaced } => {
            format!("{} Try: `env -u LD_PRELOAD -u LD_AUDIT blobwise disk`.", preloaded(settings, replaced))
        }
        DiskWarning::VirtualDisk { places: all } => format!(
            "{}: a virtual machine's disk, whose host's caches and positions of blocks are invisible from here.",
            places(all)
        ),
        DiskWarning::HostCaches { place } => format!(
            "`{place}`: something below the device has a cache: a second direct read of an old block took less than half the time of \
             the first. Cold reads may come from that cache."
        ),
        DiskWarning::OneDisk { place } => format!(
            "`{place}`: its devices are files on one disk. Together they are no faster than that disk; try --device-limit 50MB/s."
        ),
        DiskWarning::NoDevice { place } => format!(
            "`{place}`: the kernel names no device below it, so only the page cache shows that reads came from the disk."
        ),
        DiskWarning::RemembersDeletions { place } => format!(
            "`{place}`: for each file that its file system makes, it goes over what was deleted there in the last minutes. Making files \
             is the slower, the more of them were tested before."
        ),
        DiskWarning::NotDirect { place } => format!(
            "`{place}`: its file system takes no direct I/O. Random reads and writes went through the page cache, which was empty of \
             the file before each test."
        ),
        DiskWarning::TooShort { .. } => return None,
        DiskWarning::AheadOfLimit { .. } => return None,
        DiskWarning::FewRounds { rounds } => format!(
            "{} {} intervals that are wide, or none: try --rounds 5.",
            units::counted(*rounds, "round"),
            if *rounds == 1 { "has" } else { "have" }
        ),
        DiskWarning::SharedDevice { place } => {
            format!("`{place}`: requests and bytes are of the whole device, other programs included.")
        }
        DiskWarning::Missing { by, why } => format!("{} is missing: {why}.", who(*by)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::disk::TestOperation;

    #[test]
    fn tests_that_were_too_short_are_told_in_one_sentence() {
        let test = |what: TestOperation| Test { what, threads: 1 };
        let of = |place: &str, tests: &[TestOperation]| DiskWarning::TooShort {
            place: place.to_owned(),
            tests: tests.iter().map(|what| test(*what)).collect(),
        };
        let all = [
            of("ext4", &[TestOperation::Create, TestOperation::Delete]),
            of("xfs", &[TestOperation::Create, TestOperation::Delete, TestOperation::Stat]),
        ];
        let said = too_short(&all, 1.0).unwrap();
        assert_eq!(too_short(&[DiskWarning::FewRounds { rounds: 2 }], 1.0), None);
        assert!(said.contains("create and delete on `ext4` and `xfs`; stat on `xfs`"), "{said}");
    }

    #[test]
    fn what_costs_next_to_nothing_has_no_figure() {
        let of = |what: TestOperation, cost: f64| TestCost { test: Test { what, threads: 1 }, cost };
        let of_million_ops = vec![
            of(TestOperation::RandomRead, 0.1),
            of(TestOperation::Flush, 0.2),
            of(TestOperation::ReadCached, 3e-7),
            of(TestOperation::Stat, 0.0),
        ];
        let place = PlaceCosts { place: "ext4".to_owned(), requests: 1_380_000, cost: 0.138, of_million_ops };
        let mut costs = RequestCosts {
            date: "2026-11-26".to_owned(),
            age_days: 2,
            currency: "USD".to_owned(),
            per_million_requests: 0.1,
            places: vec![place],
        };
        let said = costs_told(&costs);
        assert_eq!(
            said,
            [
                "`ext4`: all tests did 1.38M requests, 0.14 USD. A million ops: random read x1 0.10; write and flush 0.20. Next to nothing: read, cached; stat.",
                "The price: a million requests for 0.10 USD, 2 days ago (2026-11-26). An op is a block or a file.",
            ]
        );
        costs.places.clear();
        assert!(costs_told(&costs)[0].contains("no device"));
    }

    #[test]
    fn a_rate_and_its_interval_have_one_unit() {
        let rate = |middle: f64, low: f64, high: f64| Interval {
            low: Some(low),
            high: Some(high),
            ..Interval::point(middle)
        };
        let test = |what: TestOperation| Test { what, threads: 1 };
        let shown = |rate: Interval, what: TestOperation| shown_rate(&rate, test(what), 8192);
        assert_eq!(shown(rate(1e5, 9.5e4, 1.3e5), TestOperation::Write), "819 [778, 1065] MB/s");
        assert_eq!(
            shown(rate(12_345.0, 11_900.0, 12_800.0), TestOperation::RandomRead),
            "12.3 [11.9, 12.8] k/s"
        );
        assert_eq!(shown(rate(80.0, 1.0, 6400.0), TestOperation::Flush), "80.0 [wide] /s");
        let alone = Interval::point(0.5);
        assert_eq!(shown(alone, TestOperation::Flush), "0.50 /s");
    }
}
