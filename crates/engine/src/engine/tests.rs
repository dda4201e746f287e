//! Tests that a kind of work takes one file and one line: a kind that exists only in tests is planned, carried out, stored,
//! judged and shown.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use xxhash_rust::xxh3::xxh3_64;

use super::run::{Observer, Start, run};
use super::work::ResolvePlan;
use crate::judge::summary;
use crate::plan::{Plan, PlanText};
use crate::records::Records;
use crate::result::{Bearing, Cell, Finding, MeasuringProgram, RunResult, Status, Upkeep};
use crate::store::{self, Adapter, Facts, Session, Store};
use crate::stores::{self, Entry};
use blobwise_report::report::{csv, sections};

/// Observer that stores nothing and requests no further rounds.
struct Silent;

impl Observer for Silent {}

/// Runs two rounds of three candidates, and returns the result after a round trip through its file.
fn measured(dir: &Path, more: &str) -> RunResult {
    let head = "stores = ['files/hashed', 'memory', 'null']\nphases = ['fill', 'toy']";
    measured_as(dir, &format!("{head}\n{more}"), |_plan| {})
}

/// Like [`measured`], for any plan, which `change` modifies before the run.
fn measured_as(dir: &Path, head: &str, change: impl FnOnce(&mut Plan)) -> RunResult {
    let text = format!("{head}\nrounds = 2\n[corpus]\nblobs = 8\nbytes = '80kB'");
    let mut plan =
        PlanText { dir: Some(dir.to_owned()), ..PlanText::parse(&text).unwrap() }.resolve(true).unwrap();
    change(&mut plan);
    let stop = AtomicBool::new(false);
    let records = run(Start::alone(&plan, &stop, MeasuringProgram::default()).unwrap(), &mut Silent).unwrap();
    let file = dir.join("result.json");
    let result = summary::summarize(&plan, &records).unwrap();
    std::fs::write(&file, serde_json::to_string(&result).unwrap()).unwrap();
    let read = RunResult::load(&file).unwrap();
    // A resumed run has it too.
    let resumed = summary::summarize(&plan, &Records::resume(read.clone())).unwrap();
    assert_eq!(resumed.findings, result.findings);
    read
}

fn cell_of<'r>(result: &'r RunResult, store: &str, phase: &str) -> &'r Cell {
    let is_its = |cell: &&Cell| cell.store.split('[').next() == Some(store) && cell.phase == phase;
    result.results.iter().find(is_its).unwrap()
}

/// Fails unless all these words are in each report, in whatever lines.
fn is_in_every_report(result: &RunResult, all: &[&str]) {
    let reports = [sections::html(result).unwrap(), sections::markdown(result), sections::terminal(result)];
    for (report, name) in reports.iter().zip(["HTML", "Markdown", "terminal"]) {
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in all {
            assert!(report.contains(words), "{name} has no `{words}`");
        }
    }
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
    // A hard limit is reported as for any other phase, and findings are not figures.
    let cells: Vec<_> = result.results.iter().filter(|cell| cell.phase == "toy").collect();
    assert!(cells.iter().all(|cell| (cell.store.as_str(), cell.status) == ("null", Status::NotPossible)));
    assert_eq!(cells[0].reason.as_deref(), Some("has no blobs to keep"));
    let sentence = "What stores keep: holds for 1 of 2, not for `memory` (Its directory has less than the blobs; 2 of 2 rounds).";
    assert!(result.answer.iter().any(|said| said == sentence), "{:?}", result.answer);
    assert!(result.phases.iter().any(|phase| phase.kind == "toy" && phase.about.is_some()));
    let words = ["Findings", "What stores keep (toy)", "its directory", "Its directory has what it keeps."];
    is_in_every_report(&result, &words);
}

// ---- operating a store -------------------------------------------------------------------------------------------------

/// A file store whose backups lack one file.
struct LeavesOneOut(Box<dyn Store>);

impl Store for LeavesOneOut {
    fn session(&self) -> store::Result<Box<dyn Session + '_>> {
        self.0.session()
    }

    fn facts(&self) -> store::Result<Facts> {
        self.0.facts()
    }

    fn totals(&self) -> store::Result<(u64, u64)> {
        self.0.totals()
    }

    fn back_up(&self, to: &Path) -> store::Result<()> {
        self.0.back_up(to)?;
        let mut files = std::fs::read_dir(to)?.filter_map(|entry| Some(entry.ok()?.path()));
        let blob = files.find(|path| path.is_file());
        Ok(std::fs::remove_file(blob.unwrap())?)
    }

    fn close(self: Box<Self>) -> store::Result<()> {
        self.0.close()
    }
}

fn with_a_liar(plan: &mut Plan) {
    let of = plan.candidates[1].adapter;
    plan.candidates[1].adapter = Box::leak(Box::new(Adapter {
        open: |setup| match stores::find("files/flat") {
            Some(Entry::Ready(files)) => Ok(Box::new(LeavesOneOut((files.open)(setup)?))),
            _ => Err(store::Error::Unsupported("files")),
        },
        ..*of
    }));
}

#[test]
fn a_list_and_a_count_have_what_was_uploaded_too_wherever_the_catalogue_lies() {
    let dir = tempfile::tempdir().unwrap();
    let stores = ["files/hashed", "files/flat", "sqlite", "lmdb", "redb", "fjall"];
    let head = format!(
        "stores = {stores:?}\nphases = ['fill', 'register', 'list-all', 'count-all', 'delete-all', 'release']\n\
         set = {{ 'files/hashed.catalogue' = 'sqlite', 'files/flat.catalogue' = 'sqlite' }}"
    );
    let result = measured_as(dir.path(), &head, one_round);
    for store in stores {
        let cell = |phase: &str| cell_of(&result, store, phase);
        for phase in ["register", "list-all", "release"] {
            assert_eq!(cell(phase).status, Status::Measured, "{store} {phase}: {:?}", cell(phase).reason);
        }
        // One upload in five has content that is already stored.
        let there = result.corpus.blobs * 2 - result.corpus.blobs / 5;
        assert_eq!(cell("list-all").rounds[0].upkeep, Some(Upkeep::Lists { blobs: there }), "{store}");
        let counted = cell("count-all");
        if counted.status != Status::NotPossible {
            assert_eq!(
                counted.rounds[0].upkeep,
                Some(Upkeep::Counts { blobs: there }),
                "{store}: {:?}",
                counted.reason
            );
        }
        let deleted = cell("delete-all").reason.clone().unwrap_or_default();
        assert!(deleted.starts_with("not all can be deleted beside uploads"), "{store}: {deleted}");
    }
}

/// Numbers of files and digests of the directories of closed [`DigestsItself`], in order.
static IMAGES: Mutex<Vec<(usize, u64)>> = Mutex::new(Vec::new());

/// A file store that notes the digest of its directory when it is closed.
struct DigestsItself {
    files: Box<dyn Store>,
    dir: PathBuf,
}

impl Store for DigestsItself {
    fn session(&self) -> store::Result<Box<dyn Session + '_>> {
        self.files.session()
    }

    fn facts(&self) -> store::Result<Facts> {
        self.files.facts()
    }

    fn close(self: Box<Self>) -> store::Result<()> {
        self.files.close()?;
        IMAGES.lock().unwrap().push(image(&self.dir));
        Ok(())
    }
}

/// Number of files below a directory, and a digest of their names, sizes and contents.
fn image(dir: &Path) -> (usize, u64) {
    let (mut files, mut all) = (0, Vec::new());
    for entry in walkdir::WalkDir::new(dir).sort_by_file_name() {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            let contents = std::fs::read(entry.path()).unwrap();
            let name = entry.path().strip_prefix(dir).unwrap().to_string_lossy().into_owned();
            all.extend_from_slice(format!("{name} {}\n", contents.len()).as_bytes());
            all.extend_from_slice(&contents);
            files += 1;
        }
    }
    (files, xxh3_64(&all))
}

fn with_digests(plan: &mut Plan) {
    let of = plan.candidates[0].adapter;
    plan.candidates[0].adapter = Box::leak(Box::new(Adapter {
        open: |setup| match stores::find("files/hashed") {
            Some(Entry::Ready(files)) => {
                Ok(Box::new(DigestsItself { files: (files.open)(setup)?, dir: setup.dir.to_owned() }))
            }
            _ => Err(store::Error::Unsupported("files")),
        },
        ..*of
    }));
    one_round(plan);
}

/// Leaves the second round to tests that look at it.
fn one_round(plan: &mut Plan) {
    plan.rounds = Some(1);
}

#[test]
fn stores_that_age_by_one_seed_are_alike_to_the_byte() {
    let last = |by: &str, seed: u64| {
        let dir = tempfile::tempdir().unwrap();
        let head = format!(
            "stores = ['files/hashed']\nseed = {seed}\nage = '0,1,2'\nage_by = '{by}'\nphases = ['fill', 'read-warm']"
        );
        IMAGES.lock().unwrap().clear();
        measured_as(dir.path(), &head, with_digests);
        *IMAGES.lock().unwrap().last().unwrap()
    };
    for by in ["overwrite", "turnover,zipfian:0.99"] {
        let [first, again, other] = [1, 1, 2].map(|seed| last(by, seed));
        assert!(first.0 > 0, "{by}: nothing is there");
        assert_eq!(first, again, "{by}");
        assert_ne!(first, other, "{by}");
    }
}

#[test]
fn what_cannot_age_is_not_read_as_if_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let head = "stores = ['files/flat', 'zip']\nphases = ['fill', 'read-warm', 'age']";
    let result = measured_as(dir.path(), head, one_round);
    assert_eq!(result.results.len(), 16, "two of the fill and two of reads, and six of ageing for each");
    for cell in &result.results {
        let is_missing = cell.store == "zip" && cell.phase.contains("age-");
        let wanted = if is_missing { Status::NotPossible } else { Status::Measured };
        assert_eq!(cell.status, wanted, "{} in {}: {:?}", cell.store, cell.phase, cell.reason);
    }
}

#[test]
fn an_old_store_is_rewritten_and_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let head = "stores = ['sqlite', 'lmdb', 'redb', 'fjall']\nage = '0,2'\nphases = ['fill', 'read-warm', 'rejuvenate']";
    let result = measured_as(dir.path(), head, one_round);
    let of = |store: &str, phase: &str| cell_of(&result, store, phase);
    for (store, wanted) in
        [("sqlite", "`VACUUM INTO`"), ("lmdb", "`mdb_env_copy2`"), ("redb", "`Database::compact`")]
    {
        let cell = of(store, "rejuvenate");
        assert_eq!(cell.status, Status::Measured, "{store}: {:?}", cell.reason);
        let Some(Upkeep::Rewrites { by, before_bytes, left_bytes, .. }) = &cell.rounds[0].upkeep else {
            panic!("{store}: {:?}", cell.rounds[0].upkeep)
        };
        assert!(by.contains(wanted), "{store}: {by}");
        assert!(
            left_bytes.is_some() && left_bytes <= before_bytes,
            "{store}: {before_bytes:?}, {left_bytes:?}"
        );
        let read = of(store, "read-warm-after-rejuvenate");
        assert_eq!(read.status, Status::Measured, "{store}: {:?}", read.reason);
    }
    let refused = of("fjall", "rejuvenate").reason.clone().unwrap_or_default();
    assert!(refused.starts_with("no rewrite: blobwise uses no call"), "{refused}");
    let unread = of("fjall", "read-warm-after-rejuvenate");
    assert_eq!(unread.status, Status::NotPossible);
    assert!(unread.reason.as_deref().is_some_and(|why| why.contains("`rejuvenate` before it")), "{unread:?}");
    is_in_every_report(&result, &["Operating it", "disk left", "Rewritten by:"]);
}

#[test]
fn a_backup_that_lacks_a_blob_fails_its_candidate_and_one_that_has_all_is_shown_in_every_report() {
    let dir = tempfile::tempdir().unwrap();
    let head = "stores = ['files/hashed', 'files/flat', 'redb', 'memory']\nphases = ['fill', 'operate']";
    let result = measured_as(dir.path(), head, with_a_liar);
    let of = |store: &str, phase: &str| cell_of(&result, store, phase);
    let failed = of("files/flat", "restore");
    assert_eq!(failed.status, Status::Failed, "{:?}", failed.reason);
    let why = failed.reason.clone().unwrap_or_default();
    assert!(why.contains("the backup, restored, does not hold what was there"), "{why}");
    assert!(why.contains("is missing"), "{why}");
    for store in ["files/hashed", "redb"] {
        for phase in ["list-all", "count-all", "back-up", "restore", "delete-all"] {
            assert_eq!(
                of(store, phase).status,
                Status::Measured,
                "{store} {phase}: {:?}",
                of(store, phase).reason
            );
        }
        let round = |phase: &str| of(store, phase).rounds[0].clone();
        let Some(Upkeep::BacksUp { backup_bytes, data_bytes, closed, .. }) = round("back-up").upkeep else {
            panic!("{store}: {:?}", round("back-up").upkeep)
        };
        assert!(backup_bytes >= data_bytes && data_bytes > 0, "{store}: {backup_bytes}, {data_bytes}");
        assert_eq!(closed, store == "redb");
        assert_eq!(round("restore").upkeep, Some(Upkeep::Restores { blobs: result.corpus.blobs }));
        assert_eq!(round("count-all").upkeep, Some(Upkeep::Counts { blobs: result.corpus.blobs }));
        let Some(Upkeep::DeletesAll { seconds, before_bytes, left_bytes }) = round("delete-all").upkeep
        else {
            panic!("{store}: {:?}", round("delete-all").upkeep)
        };
        let acknowledged = round("delete-all").seconds;
        assert!(seconds >= acknowledged, "{store}: {seconds}");
        // A copy-on-write tree may even grow.
        assert!(store == "redb" || left_bytes < before_bytes, "{store}: {before_bytes:?}, {left_bytes:?}");
        assert!(left_bytes.is_some(), "{store}");
    }
    let memory = of("memory", "back-up");
    assert_eq!((memory.status, memory.reason.as_deref()), {
        (Status::NotPossible, Some("no backup: a baseline: nobody keeps files in it"))
    });
    // None of it is work that occurs within a user's request.
    let advised = result.advice.iter().flat_map(|advice| &advice.situations);
    assert!(advised.into_iter().all(|situation| situation.phase == "fill"));
    let words = ["Operating it", "backup/B", "a copy of the closed file, closed for all of that time"];
    is_in_every_report(&result, &words);
    let table = csv::render(&result).unwrap();
    let mut reader = ::csv::Reader::from_reader(table.as_bytes());
    let column = |name: &str| table.lines().next().unwrap().split(',').position(|head| head == name).unwrap();
    let (phase, backup) = (column("phase"), column("backup_bytes"));
    let filled = reader.records().map(Result::unwrap).filter(|line| !line[backup].is_empty());
    assert!(filled.into_iter().all(|line| &line[phase] == "back-up"));
    // Backups beside the stores are removed with them.
    assert!(std::fs::read_dir(dir.path()).unwrap().all(|entry| entry.unwrap().path().is_file()));
}
