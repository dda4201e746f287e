//! Golden runs: a recorded result of every kind goes through the judge and every report, and what they say is compared with the files
//! beside it. `BLOBWISE_BLESS=1 cargo test --test golden` writes these anew; look at the difference before you commit it.
//!
//! The results are real ones, each by the command in its `program.command`. To record one again, run that and copy its `result.json`.
//! Only the pictures of `page` are replaced, by one of a single pixel.

#![expect(clippy::unwrap_used, reason = "a file that is missing or damaged fails its test")]

use blobwise::engine::work::ResolvePlan;
use std::path::{Path, PathBuf};

use blobwise::judge::summary::summarize;
use blobwise::judge::{disk, runs};
use blobwise::records::Records;
use blobwise::report::html::runs::PageRun;
use blobwise::report::{compared, crash, crash_page, csv, explain, fault_injection, html, sections};
use blobwise::result::compared::CompareOptions;
use blobwise::result::{RunResult, disk as disk_result};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// Every kind of run there is, each in a directory of its name.
const RUNS: [&str; 8] =
    ["run", "run-later", "sweep", "memory-sweep", "page", "published", "failed", "interrupted"];

/// A recorded kind, and what its reports differ in from the files beside it.
struct Golden {
    dir: PathBuf,
    differences: Vec<String>,
}

impl Golden {
    fn new(kind: &str) -> Golden {
        Golden { dir: Path::new(GOLDEN).join(kind), differences: Vec::new() }
    }

    fn recorded<T: serde::de::DeserializeOwned>(&self, name: &str) -> T {
        serde_json::from_str(&std::fs::read_to_string(self.dir.join(name)).unwrap()).unwrap()
    }

    /// Compares a report with its file, and tells of the first line that differs.
    fn holds(&mut self, name: &str, made: &str) {
        let path = self.dir.join(name);
        if std::env::var_os("BLOBWISE_BLESS").is_some() {
            std::fs::write(&path, made).unwrap();
            return;
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        if kept != made {
            let place = kept.lines().zip(made.lines()).take_while(|(kept, made)| kept == made).count();
            let line = |text: &str| text.lines().nth(place).unwrap_or("(nothing)").to_owned();
            let path = path.display();
            self.differences.push(format!("{path}:{}\n  - {}\n  + {}", place + 1, line(&kept), line(made)));
        }
    }

    fn end(self) {
        let differences = self.differences.join("\n");
        assert!(differences.is_empty(), "{differences}\nif this is meant, run with BLOBWISE_BLESS=1");
    }
}

/// A page as a file whose differences can be read: a tag a line, without styles and scripts.
fn page_lines(page: &str) -> String {
    let text = without_contents(&without_contents(page, "style"), "script");
    text.replace("><", ">\n<") + "\n"
}

/// Leaves out the contents of an element, and its start tag.
fn without_contents(page: &str, tag: &str) -> String {
    let (begin, end) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut parts = page.split(&begin);
    let before = parts.next().unwrap_or_default().to_owned();
    parts.fold(before, |text, part| text + &part[part.find(&end).unwrap()..])
}

fn load(kind: &str) -> RunResult {
    let golden = Golden::new(kind);
    RunResult::load(&golden.dir).unwrap_or_else(|error| panic!("{kind}: {error:#}"))
}

/// The result is what the judge makes of its rounds, but for prices, which are asked for later.
#[test]
fn recorded_rounds_are_judged_as_they_were() {
    for kind in RUNS {
        let recorded = load(kind);
        let records = Records { complete: recorded.complete, ..Records::resume(recorded.clone()) };
        let design = recorded.plan.design(&records.candidates).unwrap().by_clients(records.clients.len());
        let judged = RunResult { costs: recorded.costs.clone(), ..summarize(&design, &records).unwrap() };
        let mut golden = Golden::new(kind);
        golden.holds("result.json", &(serde_json::to_string_pretty(&judged).unwrap() + "\n"));
        golden.end();
    }
}

#[test]
fn every_report_of_a_run_says_what_it_said() {
    for kind in RUNS {
        let result = load(kind);
        let mut golden = Golden::new(kind);
        golden.holds("screen.txt", &sections::printed(&result, Path::new("run"), false));
        golden.holds("tables.txt", &sections::printed(&result, Path::new("run"), true));
        golden.holds("report.md", &sections::markdown(&result));
        golden.holds("results.csv", &csv::render(&result).unwrap());
        golden.holds("ratios.csv", &csv::ratios(&result).unwrap());
        if let Some(matrices) = csv::matrices(&result).unwrap() {
            golden.holds("matrices.csv", &matrices);
        }
        golden.holds("report.html.txt", &page_lines(&sections::html(&result).unwrap()));
        let first = result.results.iter().filter(|cell| cell.store == result.results[0].store);
        let explained = first.map(|cell| explain::explain(&result, cell));
        golden.holds("explain.txt", &explained.collect::<Vec<_>>().join("\n"));
        golden.end();
    }
}

#[test]
fn two_runs_are_compared_as_they_were() {
    let [old, new] = ["run", "run-later"].map(load);
    let asked = CompareOptions { threshold: 0.05, fall: 0.1, power: 0.8, strict: false, in_turn: false };
    let report = runs::report([("run", &old), ("run-later", &new)], asked);
    let mut golden = Golden::new("compared");
    golden.holds("compared.json", &(serde_json::to_string_pretty(&report).unwrap() + "\n"));
    golden.holds("compared.txt", &compared::terminal(&report));
    golden.holds("compared.md", &compared::markdown(&report));
    let side = |(name, result): (&str, &RunResult)| PageRun {
        name: name.to_owned(),
        file: format!("{name}.html"),
        result: result.clone(),
    };
    let sides = [("run", &old), ("run-later", &new)].map(side);
    golden.holds("side-by-side.html.txt", &page_lines(&html::runs::render(&sides)));
    golden.end();
}

#[test]
fn tests_of_disks_are_judged_and_shown_as_they_were() {
    let mut golden = Golden::new("disk");
    let mut report: disk_result::DiskReport = golden.recorded("disk.json");
    disk::judge(&mut report);
    golden.holds("disk.json", &(serde_json::to_string_pretty(&report).unwrap() + "\n"));
    golden.holds("disk.txt", &blobwise::report::disk::terminal(&report));
    golden.holds("disk.html.txt", &page_lines(&html::disk_tests::render(&report)));
    golden.end();
}

#[test]
fn power_cuts_are_shown_as_they_were() {
    let mut golden = Golden::new("crash");
    let report: blobwise::result::crash::CrashReport = golden.recorded("crash.json");
    let shown =
        [crash::head(&report), crash::checks_on(&report, "ext4"), fault_injection::errors_table(&report)];
    golden.holds("crash.txt", &shown.join("\n"));
    golden.holds("crash.html.txt", &page_lines(&html::cuts::render(std::slice::from_ref(&report))));
    golden.holds("crash.md", &crash_page::markdown(&[report], Some("Notes that people added.")));
    golden.end();
}
