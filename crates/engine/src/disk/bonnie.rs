//! Reads what Bonnie++ says when it ends: a line of comma-separated fields (format 1.98).

use anyhow::{Context, Result, bail, ensure};

use super::BLOCK_BYTES;
use super::visit::TestOutcome;
use crate::result::disk::{Absent, Test, TestOperation, TestRound};
use crate::units::parse_bytes;

/// Value of the first field.
const FORMAT: &str = "1.98";
const FIELDS: usize = 50;
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

/// Returns the outcome of each test that was done. If the file fits into memory (`fits`), it was read from the cache.
pub fn outcomes(line: &str, round: u32, fits: bool) -> Result<Vec<TestOutcome>> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let format = fields[0];
    if format != FORMAT {
        bail!("its format is `{format}`, and {FORMAT} is read, which Bonnie++ 1.98 and 2.00 write");
    }
    ensure!(fields.len() >= FIELDS, "it has {} fields, and {FIELDS} are a line", fields.len());
    let blocks = bytes(fields[FILE_BYTES]).context("file_size")? / BLOCK_BYTES as u64;
    let files =
        fields[FILES].parse::<u64>().with_context(|| format!("num_files `{}`", fields[FILES]))? * 1024;
    let done = TESTS.into_iter().filter(|(place, _)| !fields[*place].is_empty());
    let outcomes = done.map(|(place, what)| {
        // Rates of block tests are in KiB/s.
        let (ops, times) = match what.is_in_bytes() {
            true => (blocks, 1024.0 / BLOCK_BYTES as f64),
            false => (files, 1.0),
        };
        let is_memory = fits && what == TestOperation::Read;
        let test = Test { what: if is_memory { TestOperation::ReadCached } else { what }, threads: 1 };
        let rate = figure(fields[place])?.filter(|rate| *rate > 0.0 && ops > 0);
        let busy = figure(fields[place + 1])?;
        let outcome = rate.ok_or(Absent::NotTold).map(|rate| {
            let seconds = ops as f64 / (rate * times);
            let cpu_ns = busy.map(|percent| (percent / 100.0 * seconds * 1e9) as u64);
            TestRound { round, ops, seconds, cpu_ns, device: None, resident: None, times: None }
        });
        Ok(TestOutcome { test, is_direct: false, outcome })
    });
    outcomes.collect()
}

/// Parses a figure; `None` if there is none, as for a test of less than half a second.
fn figure(text: &str) -> Result<Option<f64>> {
    if text.starts_with('+') || text.is_empty() {
        return Ok(None);
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.map(Some).with_context(|| format!("`{text}` is no figure"))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of Bonnie++ 2.00a for a small file. One figure of the file tests was added, because it gives none for tests that
    /// are too short.
    const SAID: &str = "1.98,2.00a,my host,1,1795696183,32M,,8192,5,,,204800,12,+++++,+++,,,+++++,+++,+++++,+++,1,,,,,1748,50,\
         +++++,+++,+++++,+++,2024,46,+++++,+++,+++++,+++,,9104us,1402us,,83us,28587us,33458us,4036us,315us,9787us,16us,2075us";

    #[test]
    fn a_line_of_bonnie_is_read() {
        let told = outcomes(SAID, 3, false).unwrap();
        let of = |what: TestOperation| told.iter().find(|one| one.test.what == what).unwrap().outcome.clone();
        let write = of(TestOperation::Write).unwrap();
        assert_eq!((write.round, write.cpu_ns), (3, Some((0.12 * 0.16 * 1e9) as u64)));
        // 204,800 KiB/s are 25,600 blocks of 8 KiB.
        assert!((write.ops as f64 / write.seconds - 25_600.0).abs() < 1e-6);
        assert_eq!(of(TestOperation::Rewrite), Err(Absent::NotTold));
        assert_eq!(of(TestOperation::Create).unwrap().ops, 1024);
        assert_eq!(outcomes(SAID, 3, true).unwrap()[2].test.what, TestOperation::ReadCached);
    }

    #[test]
    fn what_is_no_line_of_its_is_refused() {
        let why = |line: &str| format!("{:#}", outcomes(line, 1, false).err().unwrap());
        assert!(why("1.97,x").contains("`1.97`"));
        assert!(why("1.98,2.00a,host").contains("3 fields"));
        assert!(why(&SAID.replace("204800", "fast")).contains("`fast` is no figure"));
        assert!(why(&SAID.replace("204800", "-1")).contains("`-1`"));
        assert!(why(&SAID.replace("32M", "much")).contains("`much` is no size"));
    }
}
