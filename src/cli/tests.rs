//! The test that a kind of work takes one file and one line: one that only tests have is planned, done, stored, judged and shown.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Result;

use super::run::program;
use crate::corpus::Corpus;
use crate::engine::run::{Event, Observer, Start, run};
use crate::host::machine;
use crate::host::place::Place;
use crate::judge::summary;
use crate::plan::PlanText;
use crate::records::Records;
use crate::report::sections;
use crate::result::{Bearing, Disturbance, Finding, RunResult, Status};

/// Keeps nothing and asks for no more rounds.
struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: Event<'_>) {}

    fn save(&mut self, _records: &Records) -> Result<()> {
        Ok(())
    }

    fn rounds_needed(&mut self, _records: &Records, most: u32) -> u32 {
        most
    }

    fn disturbances(&mut self, _records: &Records) -> Result<Vec<Disturbance>> {
        Ok(Vec::new())
    }
}

/// Two rounds of three candidates, written to a file and read from it.
fn measured(dir: &Path, more: &str) -> RunResult {
    let text = format!(
        "stores = ['files/hashed', 'memory', 'null']\nphases = ['fill', 'toy']\nrounds = 2\n{more}\n[corpus]\nblobs = 8\nbytes = '80kB'"
    );
    let plan =
        PlanText { dir: Some(dir.to_owned()), ..PlanText::parse(&text).unwrap() }.resolve(true).unwrap();
    let start = Start {
        plan: &plan,
        corpora: plan.corpora.iter().map(|corpus| Corpus::build(&corpus.request).unwrap()).collect(),
        earlier: None,
        program: program(),
        place: Place::make(dir).unwrap(),
        disks: crate::engine::visitor::Disks::new(),
        since: machine::uptime(),
        stop: &AtomicBool::new(false),
    };
    let records = run(start, &mut Silent).unwrap();
    let file = dir.join("result.json");
    let result = summary::summarize(&plan, &records).unwrap();
    std::fs::write(&file, serde_json::to_string(&result).unwrap()).unwrap();
    let read = RunResult::load(&file).unwrap();
    // What is gone on with has it too.
    let resumed = summary::summarize(&plan, &Records::resume(read.clone())).unwrap();
    assert_eq!(resumed.findings, result.findings);
    read
}

#[test]
fn a_kind_of_work_of_one_file_and_one_line_is_planned_done_stored_judged_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let result = measured(dir.path(), "");
    let of = |finding: &Finding| (finding.store.clone(), finding.round, finding.found.bearing);
    let found: Vec<_> = result.findings.iter().map(of).collect();
    let candidate = |store: &str, bearing| [1, 2].map(|round| (store.to_owned(), round, bearing));
    assert_eq!(
        found,
        [candidate("files/hashed", Bearing::Holds), candidate("memory", Bearing::Fails)].concat()
    );
    assert!(result.findings.iter().all(|finding| finding.phase == "toy"));
    // A hard limit is said as of any other phase, and what was found is no figure.
    let cells: Vec<_> = result.results.iter().filter(|cell| cell.phase == "toy").collect();
    assert!(cells.iter().all(|cell| (cell.store.as_str(), cell.status) == ("null", Status::NotPossible)));
    assert_eq!(cells[0].reason.as_deref(), Some("has no blobs to keep"));
    let sentence = "What stores keep: holds for 1 of 2, not for `memory` (Its directory has less than the blobs; 2 of 2 rounds).";
    assert!(result.answer.iter().any(|said| said == sentence), "{:?}", result.answer);
    assert!(result.phases.iter().any(|phase| phase.kind == "toy" && phase.about.is_some()));
    let reports =
        [sections::html(&result).unwrap(), sections::markdown(&result), sections::terminal(&result)];
    for (report, name) in reports.iter().zip(["HTML", "Markdown", "terminal"]) {
        for words in
            ["Findings", "What stores keep (toy)", "its directory", "Its directory has what it keeps."]
        {
            assert!(report.contains(words), "{name} has no `{words}`");
        }
    }
}
