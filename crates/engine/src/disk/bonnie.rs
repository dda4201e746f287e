//! The table of Bonnie++ (format 1.98): reads measurements of other machines and years, and writes blobwise's own in its format.

use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};

use crate::result::disk::{Absent, DiskReport, Test, TestOperation, TestProgram, TestResult, TestRound};
use crate::result::{Cell, RunResult};
use crate::units::parse_bytes;

/// Value of the first field in every line.
const FORMAT: &str = "1.98";
const FIELDS: usize = 50;
const NAME: usize = 2;
const FILE_BYTES: usize = 5;
/// Field with the number of files, in units of 1,024.
const FILES: usize = 21;

/// Field of each test's rate. The next field is the share of a processor, in per cent.
const TESTS: [(usize, TestOperation); 9] = [
    (11, TestOperation::Write),
    (13, TestOperation::Rewrite),
    (17, TestOperation::Read),
    (26, TestOperation::Create),
    (28, TestOperation::Stat),
    (30, TestOperation::Delete),
    (32, TestOperation::CreateRandom),
    (34, TestOperation::StatRandom),
    (36, TestOperation::DeleteRandom),
];

/// A line of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct BonnieRecord {
    /// Name of the machine.
    pub name: String,
    /// Version of Bonnie++.
    pub version: String,
    /// Bytes of the file; `None` if no file was tested.
    pub file_bytes: Option<u64>,
    /// The tests that were done, with their rates; `None` if a test has no figure.
    rates: Vec<(TestOperation, Option<Rate>)>,
    files: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    per_second: f64,
    /// Share of a processor that was busy, from 0 to 1.
    busy: Option<f64>,
}

/// Parses a table. Rates are converted to blocks of `block_bytes`.
pub fn read(text: &str, block_bytes: u64) -> Result<Vec<BonnieRecord>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut lines = Vec::new();
    for (number, record) in (1..).zip(reader.records()) {
        let record = record.with_context(|| format!("line {number}"))?;
        // Bonnie++'s own converter writes a header line.
        if record.get(0) == Some("format_version") {
            continue;
        }
        let fields: Vec<&str> = record.iter().map(str::trim).collect();
        lines.push(line(&fields, block_bytes).with_context(|| format!("line {number}"))?);
    }
    ensure!(!lines.is_empty(), "it has no line");
    Ok(lines)
}

fn line(fields: &[&str], block_bytes: u64) -> Result<BonnieRecord> {
    let format = fields.first().copied().unwrap_or_default();
    if format != FORMAT {
        bail!("its format is `{format}`, and {FORMAT} is read, which Bonnie++ 1.98 and 2.00 write");
    }
    ensure!(fields.len() >= FIELDS, "it has {} fields, and {FIELDS} are a line", fields.len());
    let file_bytes = Some(fields[FILE_BYTES]).filter(|text| !text.is_empty());
    let file_bytes = file_bytes.map(bytes).transpose().context("file_size")?;
    let files = Some(fields[FILES]).filter(|text| !text.is_empty());
    let files = files.map(|text| text.parse::<u64>().with_context(|| format!("num_files `{text}`")));
    let rates = TESTS.iter().filter(|(place, _)| !fields[*place].is_empty());
    let rates = rates.map(|(place, what)| {
        let figure = |text: &str| -> Result<Option<f64>> {
            // Bonnie++ gives no figure for a test of less than half a second.
            if text.starts_with('+') || text.is_empty() {
                return Ok(None);
            }
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
            number.map(Some).with_context(|| format!("`{text}` is no figure"))
        };
        // Rates of block tests are in KiB/s.
        let times = if what.is_in_bytes() { 1024.0 / block_bytes as f64 } else { 1.0 };
        let rate = figure(fields[*place])?.filter(|rate| *rate > 0.0);
        let busy = figure(fields[*place + 1])?.map(|percent| percent / 100.0);
        Ok((*what, rate.map(|rate| Rate { per_second: rate * times, busy })))
    });
    Ok(BonnieRecord {
        name: fields[NAME].to_owned(),
        version: fields[1].to_owned(),
        file_bytes,
        rates: rates.collect::<Result<_>>()?,
        files: files.transpose()?.map(|thousands| thousands * 1024),
    })
}

/// Parses a size of Bonnie++, which is in MiB without a unit.
fn bytes(text: &str) -> Result<u64> {
    let with_unit = match text.chars().last() {
        Some('0'..='9') => format!("{text}MiB"),
        Some(unit @ ('k' | 'K' | 'M' | 'G' | 'T')) => {
            format!("{}{}iB", text.trim_end_matches(unit), unit.to_ascii_uppercase())
        }
        _ => bail!("`{text}` is no size"),
    };
    parse_bytes(&with_unit)
}

impl BonnieRecord {
    /// Returns a round for each test, or why there is none. If the file fits into memory (`fits`), it was read from the cache.
    pub fn rounds(&self, round: u32, block_bytes: u64, fits: bool) -> Vec<(Test, Result<TestRound, Absent>)> {
        let one = |(what, rate): &(TestOperation, Option<Rate>)| {
            let is_memory = fits && *what == TestOperation::Read;
            let test = Test { what: if is_memory { TestOperation::ReadCached } else { *what }, threads: 1 };
            let ops = if what.is_in_bytes() {
                self.file_bytes.map(|bytes| bytes / block_bytes)
            } else {
                self.files
            };
            let (Some(Rate { per_second, busy }), Some(ops @ 1..)) = (rate, ops) else {
                return (test, Err(Absent::NotTold));
            };
            let seconds = ops as f64 / per_second;
            let cpu_ns = busy.map(|busy| (busy * seconds * 1e9) as u64);
            (test, Ok(TestRound { round, ops, seconds, cpu_ns, device: None, resident: None, times: None }))
        };
        self.rates.iter().map(one).collect()
    }
}

/// Converts a table to rows, with one place per name. Lines with the same name are rounds.
pub fn rows(lines: &[BonnieRecord], block_bytes: u64) -> Vec<TestResult> {
    let mut rows: Vec<TestResult> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let round = 1 + lines[..index].iter().filter(|before| before.name == line.name).count() as u32;
        for (test, outcome) in line.rounds(round, block_bytes, false) {
            super::keep(&mut rows, &line.name, TestProgram::Bonnie, test, false, outcome);
        }
    }
    rows
}

/// Writes blobwise's own rows as a table, with one line per place and round. Tests that blobwise does not have are empty.
pub fn written(report: &DiskReport) -> String {
    let mut text = String::new();
    for place in report.measured() {
        for round in 1..=report.rounds {
            let own = |row: &&TestResult| row.place == place.name && row.absent.is_none();
            let of = |what: TestOperation| {
                let row = report.ours().filter(own).find(|row| row.test.what == what)?;
                row.rounds.iter().find(|one| one.round == round)
            };
            let mut fields = begun(&place.name, &report.blobwise, report.file_bytes, report.block_bytes);
            fields[FILES] = (report.files / 1024).to_string();
            for (at, what) in TESTS {
                let Some(one) = of(what) else { continue };
                let times = if what.is_in_bytes() { report.block_bytes as f64 / 1024.0 } else { 1.0 };
                put(&mut fields, at, one.ops as f64 * times, one.seconds, one.cpu_ns);
            }
            writeln!(text, "{}", fields.join(",")).ok();
        }
    }
    text
}

/// Phases of a run that are such tests, with the fields of their rates.
const PHASES: [(usize, &str); 5] = [
    (9, "disk-write-bytes"),
    (11, "disk-write"),
    (13, "disk-rewrite"),
    (15, "disk-read-bytes"),
    (17, "disk-read"),
];

/// Writes the tests below each candidate of a run as a table, with one line per candidate and round. Empty if the run has no such
/// phase.
pub fn of_run(result: &RunResult, block_bytes: u64) -> String {
    let is_test = |cell: &&Cell| PHASES.iter().any(|(_, phase)| cell.phase == *phase);
    let cells: Vec<&Cell> = result.results.iter().filter(is_test).collect();
    let mut text = String::new();
    for candidate in &result.candidates {
        let own: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.store == candidate.store).collect();
        let mut rounds: Vec<u32> =
            own.iter().flat_map(|cell| &cell.rounds).map(|round| round.round).collect();
        rounds.sort_unstable();
        rounds.dedup();
        for number in rounds {
            let of = |phase: &str| {
                let cell = own.iter().find(|cell| cell.phase == phase)?;
                cell.rounds.iter().find(|round| round.round == number)
            };
            let file_bytes = PHASES.iter().find_map(|(_, phase)| Some(of(phase)?.bytes)).unwrap_or(0);
            let mut fields = begun(&candidate.store, &result.program.version, file_bytes, block_bytes);
            for (at, phase) in PHASES {
                let Some(round) = of(phase) else { continue };
                put(&mut fields, at, round.bytes as f64 / 1024.0, round.seconds, Some(round.worker_cpu_ns));
            }
            writeln!(text, "{}", fields.join(",")).ok();
        }
    }
    text
}

fn begun(name: &str, version: &str, file_bytes: u64, block_bytes: u64) -> Vec<String> {
    let mut fields = vec![String::new(); FIELDS];
    fields[0] = FORMAT.to_owned();
    fields[1] = format!("blobwise {version}");
    fields[NAME] = name.replace([',', '"', '\n'], " ");
    fields[3] = "1".to_owned();
    fields[FILE_BYTES] = format!("{}M", file_bytes >> 20);
    fields[6] = block_bytes.to_string();
    fields
}

/// Adds a test to a line: `amount` is in KiB or files.
fn put(fields: &mut [String], at: usize, amount: f64, seconds: f64, cpu_ns: Option<u64>) {
    fields[at] = format!("{:.0}", amount / seconds);
    let share = cpu_ns.map(|ns| ns as f64 / 1e7 / seconds);
    fields[at + 1] = share.map(|percent| format!("{percent:.0}")).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of Bonnie++ 2.00a for a small file. One figure of the file tests was added, because it gives none for tests that
    /// are too short.
    const WRITTEN: &str = "1.98,2.00a,my host,1,1795696183,32M,,8192,5,,,204800,12,+++++,+++,,,+++++,+++,+++++,+++,1,,,,,1748,50,\
         +++++,+++,+++++,+++,2024,46,+++++,+++,+++++,+++,,9104us,1402us,,83us,28587us,33458us,4036us,315us,9787us,16us,2075us\n";

    #[test]
    fn a_table_of_bonnie_is_read() {
        let lines = read(&WRITTEN.repeat(2), 8192).unwrap();
        assert_eq!(
            (lines.len(), lines[0].name.as_str(), lines[0].file_bytes),
            (2, "my host", Some(32 << 20))
        );
        let rows = rows(&lines, 8192);
        let row = |what: TestOperation| rows.iter().find(|row| row.test.what == what).unwrap();
        let write = row(TestOperation::Write);
        assert_eq!(write.rounds.iter().map(|round| round.round).collect::<Vec<_>>(), [1, 2]);
        // 204,800 KiB/s are 25,600 blocks of 8 KiB.
        assert!((write.rounds[0].ops as f64 / write.rounds[0].seconds - 25_600.0).abs() < 1e-6);
        assert_eq!(write.rounds[0].cpu_ns, Some((0.12 * 0.16 * 1e9) as u64));
        assert_eq!(
            (row(TestOperation::Rewrite).absent.clone(), row(TestOperation::Create).rounds[0].ops),
            (Some(Absent::NotTold), 1024)
        );
        assert_eq!(lines[0].rounds(1, 8192, true)[2].0.what, TestOperation::ReadCached);
    }

    /// The table of a run has the run's rates when it is read back.
    #[test]
    fn a_run_is_written_as_a_table_of_bonnie() {
        use crate::judge::fixture::{candidate, cell, result};
        let mut written = cell("files/flat[on=ext4,x=1]", "disk-write", &[0.5, 1.0], serde_json::json!({}));
        for round in written["rounds"].as_array_mut().unwrap() {
            round["bytes"] = serde_json::json!(64 << 20);
            round["worker_cpu_ns"] = serde_json::json!(250_000_000);
        }
        let mut run =
            result("", vec![written, cell("a", "read-warm", &[1.0], serde_json::json!({}))], vec![]);
        run.candidates = vec![candidate("a"), candidate("files/flat[on=ext4,x=1]")];
        let lines = read(&of_run(&run, 8192), 8192).unwrap();
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["files/flat[on=ext4 x=1]"; 2]);
        assert_eq!(lines[0].file_bytes, Some(64 << 20));
        let rates = |per_second: f64, busy: f64| {
            vec![(TestOperation::Write, Some(Rate { per_second, busy: Some(busy) }))]
        };
        assert_eq!(
            (lines[0].rates.clone(), lines[1].rates.clone()),
            (rates(16384.0, 0.5), rates(8192.0, 0.25))
        );
        run.results.remove(0);
        assert!(of_run(&run, 8192).is_empty());
    }

    #[test]
    fn what_is_no_table_of_its_is_refused() {
        let why = |text: &str| format!("{:#}", read(text, 8192).unwrap_err());
        assert!(why("").contains("no line"));
        assert!(why("1.97,x").contains("`1.97`"));
        assert!(why("1.98,2.00a,host").contains("3 fields"));
        assert!(why(&WRITTEN.replace("204800", "fast")).contains("`fast` is no figure"));
        assert!(why(&WRITTEN.replace("204800", "-1")).contains("`-1`"));
        assert!(why(&WRITTEN.replace("32M", "much")).contains("`much` is no size"));
    }
}
