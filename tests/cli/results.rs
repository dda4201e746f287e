//! What others read: `result.json` against its schema, the table as CSV, the plan that repeats the run, two runs compared.

use blobwise::engine::work::ResolvePlan;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use blobwise::corpus::CorpusId;
use blobwise::host::disk::{FileSystem, fragments};
use blobwise::host::machine;
use blobwise::judge::ranking::is_alone;
use blobwise::judge::summary::summarize;
use blobwise::plan::{OneOrMany, PlanText};
use blobwise::records::Records;
use blobwise::result::compared::{self, ComparisonReport};
use blobwise::result::{
    AgedImage, Cell, Claim, ClaimVerdict, CurveFigure, Reason, ReferenceRole, RunResult, Status, StepCurve,
    StoreRound, Upkeep, Verdict,
};
use blobwise::store::Durability;
use libtest_mimic::Failed;
use serde_json::Value;

use crate::program::{Outcome, Work, finish, needing};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("a run's result has the published schema", || valid("--phases fill,read-warm,overwrite")),
        Trial::test("an open loop's result has the published schema", || {
            valid("--phases fill,read-warm --rate 2000 --workers 2")
        }),
        Trial::test("a fixed list at a rate is done to its end", list_at_a_rate),
        Trial::test("a sweep's result has the published schema", || {
            valid("--phases fill,read-warm --sweep 1kB..10kB")
        }),
        Trial::test(
            "a candidate at several sizes is held against the reference, as one command says",
            matrix,
        ),
        Trial::test("a store grows step by step, and each figure has its curve", growth),
        Trial::test("a store ages step by step, and keeps its live bytes", ageing),
        needing("one aged image serves every round of a store on a disk of the run", no_ext4(), one_image),
        needing("files have as many fragments as filefrag counts", no_filefrag(), fragments_of_files),
        Trial::test("of zipfian reads it is said how few blobs had most of them", hot_share),
        Trial::test("a batch's result has the published schema", || {
            valid("--phases fill,read-warm --batch 4")
        }),
        Trial::test("batches are whole, and every blob is there", batches_are_whole),
        Trial::test("what one phase puts off is done before the next one writes", put_off),
        Trial::test("a batch that no corpus fills is refused", batch_is_too_large),
        Trial::test("a budget cuts no corpus that was asked for", budget_is_too_small),
        Trial::test("a budget is kept, or refused with one that would do", budget_is_kept),
        Trial::test("a quick run has three columns", quick_run),
        Trial::test("an aged store's result has the published schema", || valid("--phases fill,age")),
        Trial::test("the parts of a disk add up to it", parts_of_disks),
        Trial::test("the table is in the CSV file", csv),
        Trial::test("baselines are measured, shown beside the others, and never ranked", baselines),
        Trial::test("the stored plan repeats the run", plan_repeats),
        Trial::test("the advice of an answer can be followed", advice_is_followed),
        Trial::test("the report of a run can be printed again", report_again),
        Trial::test("a result is printed as JSON, and its paired ratios as CSV", printed_for_scripts),
        Trial::test("a result of the format before this one is read", older_format),
        Trial::test(
            "a result with figures that no run measures is refused by all that read one",
            unmeasurable,
        ),
        Trial::test("runs of some corpora each are reported as one", reported_as_one),
        Trial::test(
            "runs of stores that cannot run here are reported as one and compared",
            reported_where_nothing_runs,
        ),
        Trial::test("runs that are not parts of one are not reported as one", not_reported_as_one),
        Trial::test("several runs are one page beside their own reports", side_by_side),
        Trial::test("a run compared with itself has not regressed", compared_with_itself),
        Trial::test("a run that is slower has regressed", regressed),
        Trial::test("runs on different machines are not compared", machine_changed),
        Trial::test(
            "what failed and what had other blobs is not compared, and what else differs is listed",
            not_comparable,
        ),
        Trial::test("a mix has a cost", mix),
        Trial::test("a list of values makes one candidate each", list_of_values),
        Trial::test("reads in one transaction and in one each are told apart", one_transaction),
        Trial::test("candidates of two classes are in one run and ranked apart", two_classes),
        Trial::test(
            "a class that a store does not have is refused before anything is made",
            class_that_is_not_there,
        ),
        Trial::test("what an archive cannot do is left out, and it says so", append_only),
    ];
    trials.extend(plans().into_iter().filter_map(of_plan));
    trials
}

/// The trial of a shipped plan; none of a plan of plans. One of which nothing can run here has nothing to show.
fn of_plan(plan: String) -> Option<Trial> {
    let text = PlanText::load(&plan).unwrap_or_else(|error| panic!("{plan}: {error:#}"));
    let missing = text.resolve(false).err().map(|error| format!("{error:#}"));
    text.plans.is_empty().then(|| needing(&format!("plan {plan} runs tiny"), missing, move || tiny(&plan)))
}

/// Runs two stores briefly.
pub fn run(work: &Work, more: &str, out: &str) -> Result<RunResult, Failed> {
    let line =
        format!("run --stores files/hashed,sqlite,null --blobs 40 --rounds 2 --quiet {more} --out {out}");
    work.say(&line).ended(0);
    Ok(RunResult::load(&work.path(out))?)
}

/// What was printed, without the ends of its lines.
pub fn collapse_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

fn json(path: &Path) -> Result<Value, Failed> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

fn valid(more: &str) -> Outcome {
    let work = Work::new();
    run(&work, more, "out")?;
    matches_schema(&work)
}

fn matches_schema(work: &Work) -> Outcome {
    let schema = json(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/result.schema.json")))?;
    let result = json(&work.path("out/result.json"))?;
    let validator = jsonschema::validator_for(&schema)?;
    let errors: Vec<String> = validator.iter_errors(&result).map(|error| error.to_string()).take(5).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    Ok(())
}

/// From a bare loop to the device itself: figures to hold others against, of which no answer speaks.
fn baselines() -> Outcome {
    let work = Work::new();
    let line = "run --stores files/hashed,sqlite --baselines --blobs 60 --corpus fixed:1kB --rounds 2 --quiet \
                --phases fill,read-warm,read-cold --out out";
    let said = work.say(line).ended(0);
    let result = RunResult::load(&work.path("out"))?;
    let names = ["null", "memory", "fopen", "raw"];
    let kept: Vec<&str> = result
        .candidates
        .iter()
        .filter(|candidate| candidate.is_baseline())
        .map(|candidate| candidate.store.as_str())
        .collect();
    assert_eq!(kept, names);
    for cell in result.results.iter().filter(|cell| names.contains(&cell.store.as_str())) {
        let is_cold = cell.phase == "read-cold";
        let keeps = ["fopen", "raw"].contains(&cell.store.as_str());
        assert_eq!(!cell.rounds.is_empty(), keeps || !is_cold, "{} in {}", cell.store, cell.phase);
        assert!(cell.not_ranked.is_some() && !cell.leader && cell.counters.errors == 0);
    }
    let raw = result.candidate("raw").ok_or("no candidate")?;
    let block_bytes: u64 = raw.facts["rounded_up_to_bytes"].parse()?;
    assert!(block_bytes.is_power_of_two() && raw.facts["calls"].contains("O_DIRECT"), "{:?}", raw.facts);
    // One read of an op reads its block and nothing else, whatever was read before. The device's counts lack an estimate of what others
    // ask for, and other trials read here, too: those of the process are exact.
    for round in &result.cell("raw", "read-warm").ok_or("not measured")?.rounds {
        let least = round.ops * 1000_u64.next_multiple_of(block_bytes);
        let read_bytes = round.own_read_bytes.ok_or("no count of what was read")?;
        assert!(read_bytes >= least, "{read_bytes} of {least}");
    }
    let held: BTreeSet<(&str, &str, &str)> = result
        .comparisons
        .iter()
        .filter(|pair| pair.against == ReferenceRole::Baseline)
        .map(|pair| (pair.phase.as_str(), pair.store.as_str(), pair.reference.as_str()))
        .collect();
    // Raw writes are in class none, whatever the run's is.
    let beside = |phase, baseline| [(phase, "files/hashed", baseline), (phase, "sqlite", baseline)];
    let of = [
        ("fill", "fopen"),
        ("read-warm", "fopen"),
        ("read-warm", "raw"),
        ("read-cold", "fopen"),
        ("read-cold", "raw"),
    ];
    assert_eq!(held, of.into_iter().flat_map(|(phase, baseline)| beside(phase, baseline)).collect());
    let advice = result.answer.join("\n");
    assert!(names.iter().all(|name| !advice.contains(&format!("`{name}`"))), "{advice}");
    assert!(said.stdout.contains("(baseline)") && said.stdout.contains("rates over that of `raw`: `"));
    let csv = std::fs::read_to_string(work.path("out/results.csv"))?;
    assert!(csv.lines().next().ok_or("no line")?.contains("rate_over_fopen,rate_over_fopen_low"), "{csv}");
    let markdown = work.say("report out --markdown").ended(0);
    assert!(markdown.stdout.contains("rates over that of `fopen`: `"), "{}", markdown.stdout);
    Ok(())
}

/// As shipped and careful, in one run: the careful one is filled as it is meant to be, and shares no ranking with the others.
fn two_classes() -> Outcome {
    let work = Work::new();
    let careful = "sqlite[durability=each-write]";
    let line = format!(
        "run --stores files/hashed,sqlite,{careful} --blobs 400 --corpus fixed:1kB --rounds 5 --quiet \
         --phases fill,read-warm,overwrite --out out"
    );
    let said = work.say(&line).ended(0);
    let result = without_harness(&RunResult::load(&work.path("out"))?)?;
    assert_eq!(result.results.len(), 9);
    for cell in &result.results {
        let is_careful = cell.store == careful;
        assert_eq!(cell.own_durability.is_some(), is_careful);
        let class = if is_careful { Durability::EachWrite } else { Durability::OnSync };
        assert_eq!(cell.durability, class, "{} in {}", cell.store, cell.phase);
        // What is flushed by each write needs no sync.
        let syncs: u64 = cell.rounds.iter().map(|round| round.syncs).sum();
        assert_eq!(syncs > 0, !is_careful && cell.phase != "read-warm", "{} in {}", cell.store, cell.phase);
        assert_eq!(is_alone(&result, cell), is_careful, "{} in {}", cell.store, cell.phase);
    }
    let against =
        |kind: ReferenceRole| result.comparisons.iter().filter(move |comparison| comparison.against == kind);
    assert!(against(ReferenceRole::Best).all(|pair| pair.store != careful && pair.reference != careful));
    let with_plan: Vec<_> = against(ReferenceRole::Plan).filter(|pair| pair.store == careful).collect();
    assert_eq!(with_plan.len(), 3);
    assert!(with_plan.iter().all(|pair| pair.verdict == Verdict::NotRanked && pair.reason.is_some()));
    assert!(result.answer[0].contains("| class on-sync or the candidate's own |"), "{}", result.answer[0]);
    assert!(said.stdout.contains("apart from them: kept in class each-write"), "{}", said.stdout);
    let table = std::fs::read_to_string(work.path("out/results.csv"))?;
    assert!(table.contains(careful), "{table}");
    // The plan that was stored has both.
    let plan = PlanText::load(work.path("out/plan.toml").to_str().unwrap())?.resolve(true)?;
    assert_eq!(plan.candidates[2].own_class(), Some(Durability::EachWrite));
    judged_anew(&work)
}

/// What to do is asked of the finished run in `out`, which stays as it is; a month's disk is what grew in its rounds, and the rest
/// of it once.
fn judged_anew(work: &Work) -> Outcome {
    let before = work.snapshot("out");
    std::fs::write(work.path("prices.toml"), "date = 2020-01-01\ncurrency = 'EUR'\ngb_month = 0.1\n")?;
    let asked = "report out --prices prices.toml --load reads=1e4,writes=1e3,stored=5GB,cached=100% --need no-server --request 1s";
    let said = work.say(&format!("{asked} --markdown")).ended(0);
    for words in [
        "## Summary",
        "`no-server`; every candidate serves it",
        "## What a month costs",
        "Warning: the prices are",
    ] {
        assert!(said.stdout.contains(words), "{words}\n{}", said.stdout);
    }
    work.say(&format!("{asked} --out priced")).ended(0);
    assert!(std::fs::read_to_string(work.path("priced/report.html"))?.contains("<section id=\"costs\""));
    assert_eq!(before, work.snapshot("out"));
    let priced = RunResult::load(&work.path("priced"))?;
    assert_eq!(priced.advice.as_ref().map(|advice| advice.request_ns), Some(1e9));
    let months = &priced.costs.as_ref().ok_or("no costs")?.months;
    assert_eq!(months.len(), 3);
    for month in months {
        let of_store = priced.store_rounds.iter().filter(|visit| visit.store == month.store);
        let grown = of_store.filter_map(|visit| {
            let footprint = &visit.footprint;
            let (grows, all) = (footprint.grows_per_byte?, footprint.after_settle_bytes? as f64);
            Some(grows * (5e9 - footprint.logical_bytes as f64) + all)
        });
        let taken: Vec<f64> = grown.collect();
        let mean = taken.iter().sum::<f64>() / taken.len() as f64;
        let disk = month.disk.ok_or("no disk")?;
        assert!((disk / (0.1 * mean / 1e9) - 1.0).abs() < 1e-9, "{month:?} of {taken:?}");
    }
    let none_left = work.say("report out --need several-machines").ended(0);
    let said = none_left.stdout.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(said.contains("No candidate of this run is left"), "{said}");
    Ok(())
}

/// A run judged as if the harness took nothing: of reads as small as here it may be so much on a busy machine that they are not ranked.
fn without_harness(result: &RunResult) -> Result<RunResult, Failed> {
    let mut records = Records { complete: true, ..Records::resume(result.clone()) };
    records.harness.null_ns.clear();
    Ok(summarize(&result.plan.design(&records.candidates)?, &records)?)
}

/// Two candidates of a store in phases that say how reads are grouped, and in one that leaves it to the candidate.
fn one_transaction() -> Outcome {
    let work = Work::new();
    let phase = |id: &str, more: &str| {
        format!("[[phase]]\nid = '{id}'\nops = {{ get = 1.0 }}\ncount = 400\n{more}\n")
    };
    let plan = format!(
        "stores = ['null', 'files/hashed', 'sqlite', 'sqlite[transaction=phase]', 'lmdb']\nrounds = 2\n\
         phases = ['fill', 'candidates', 'each', 'one']\ncorpus = {{ source = 'fixed:1kB', blobs = 100 }}\n{}{}{}",
        phase("candidates", ""),
        phase("each", "transaction = 'op'"),
        phase("one", "transaction = 'phase'")
    );
    std::fs::write(work.path("plan.toml"), plan)?;
    let said = work.say("run plan.toml --quiet --out out").ended(0);
    let result = RunResult::load(&work.path("out"))?;
    let cell = |store: &str, phase: &str| result.cell(store, phase).unwrap();
    let measured = result.results.iter().filter(|cell| cell.status == Status::Measured);
    let ones: Vec<(&str, &str)> = measured
        .filter(|cell| cell.one_transaction)
        .map(|cell| (cell.store.as_str(), cell.phase.as_str()))
        .collect();
    let in_one = "sqlite[transaction=phase]";
    assert_eq!(ones, [(in_one, "candidates"), ("sqlite", "one"), (in_one, "one"), ("lmdb", "one")]);
    let files = cell("files/hashed", "one");
    assert_eq!(files.status, Status::NotPossible);
    assert_eq!(files.reason.as_deref(), Some("no transaction that several reads could be in"));
    assert_eq!(cell("null", "one").status, Status::Measured);
    // Where the candidate alone says so, it shares no ranking with those that do otherwise.
    let ranked = without_harness(&result)?;
    let shared = |phase: &str| {
        let pairs = ranked.comparisons.iter().filter(|pair| pair.against == ReferenceRole::Best);
        pairs.filter(|pair| pair.phase == phase && (pair.store == in_one || pair.reference == in_one)).count()
    };
    assert_eq!(shared("candidates"), 0);
    assert!(shared("one") > 0, "{:#?}", ranked.comparisons);
    for words in [
        "each: warm, each read a transaction of its own",
        "one: warm, all reads of a worker in one transaction",
        "candidates: warm, reads in one transaction or one each",
    ] {
        assert!(said.stdout.contains(words), "`{words}` is not in {}", said.stdout);
    }
    let report = std::fs::read_to_string(work.path("out/report.html"))?;
    assert!(report.contains("all reads of a worker in one transaction"));
    Ok(())
}

fn class_that_is_not_there() -> Outcome {
    let work = Work::new();
    let line = "run --stores files/hashed,memory --set memory.durability=each-write --out out";
    let why = "the store has no class `each-write`; it has none";
    work.say(line).refused(&["memory[durability=each-write]", why]);
    assert!(!work.path("out").exists());
    Ok(())
}

fn append_only() -> Outcome {
    // Without `delete-half`, `reopen` would find twice the blobs of others.
    const LEFT_OUT: [&str; 4] = ["overwrite", "delete-half", "reopen", "delete-all"];
    let work = Work::new();
    let phases = "fill,read-warm,range-head,overwrite,list-all,count-all,back-up,restore,delete-half,reopen,delete-all";
    let stores = "files/hashed,zip,tar";
    let result = work
        .result(&format!("run --stores {stores} --blobs 40 --rounds 1 --quiet --phases {phases} --out out"));
    assert_eq!(result.results.len(), 3 * phases.split(',').count());
    for cell in &result.results {
        let (store, phase) = (cell.store.as_str(), cell.phase.as_str());
        if store == "files/hashed" || !LEFT_OUT.contains(&phase) {
            assert_eq!(cell.status, Status::Measured, "{store}, {phase}: {:?}", cell.reason);
            continue;
        }
        assert_eq!(cell.status, Status::NotPossible, "{store}, {phase}");
        let why = cell.reason.as_deref().unwrap_or_default();
        let wanted = if phase == "reopen" { "`delete-half` before it" } else { "append-only" };
        assert!(why.contains(wanted), "{store}, {phase}: {why}");
    }
    Ok(())
}

/// 25 blobs are two batches of 10: the other 5 are put before them, and what follows finds all.
fn batches_are_whole() -> Outcome {
    let work = Work::new();
    let phases = "--phases fill,read-warm,read-cold,overwrite,delete-half";
    let result = work.result(&format!(
        "run --stores sqlite,lmdb --blobs 25 --rounds 2 --workers 2 --batch 10 --verify --quiet {phases} --out out"
    ));
    for cell in &result.results {
        assert_eq!((cell.status, cell.blobs_per_op), (Status::Measured, Some(10.0)), "{}", cell.phase);
        let (rounds, batches) = (2, if cell.phase == "delete-half" { 1 } else { 2 });
        if !cell.phase.starts_with("read") {
            assert_eq!(cell.ops, rounds * batches, "{} of {}", cell.phase, cell.store);
        }
    }
    assert_eq!(result.results.len(), 10);
    Ok(())
}

fn put_off() -> Outcome {
    let work = Work::new();
    let overwrite = |id: &str, batch: u32| {
        format!(
            "[[phase]]\nid = '{id}'\nops = {{ overwrite = 1.0 }}\norder = 'once'\ncount = 80\nbatch = {batch}\n"
        )
    };
    let plan = format!(
        "stores = ['sqlite']\nphases = ['fill', 'read-warm', 'single', 'fours', 'read-again']\nrounds = 2\n\
         corpus = {{ source = 'fixed:2kB', blobs = 100 }}\n{}{}",
        overwrite("single", 1),
        overwrite("fours", 4)
    );
    std::fs::write(work.path("plan.toml"), plan)?;
    let result = work.result("run ./plan.toml --quiet --out out");
    for cell in &result.results {
        assert!(!cell.rounds.is_empty(), "{}", cell.phase);
        // Nothing is left before the fill, and reads make nothing due.
        let is_due = ["single", "fours"].contains(&cell.phase.as_str());
        assert!(
            cell.rounds.iter().all(|round| round.caught_up_seconds.is_some() == is_due),
            "{}",
            cell.phase
        );
    }
    Ok(())
}

fn batch_is_too_large() -> Outcome {
    Work::new()
        .say("run --stores sqlite --blobs 25 --batch 30")
        .refused(&["phase `fill`", "a batch of 30 is whole, and there are 25 blobs"]);
    Ok(())
}

fn budget_is_too_small() -> Outcome {
    let run = "run --stores files/hashed --corpus fixed:2kB --blobs 30000 --budget 1s --out out";
    Work::new().say(run).refused(&["a budget of 1 s is too small", "give it `--budget ", "`--scale`"]);
    Ok(())
}

/// Whatever the machine has to do beside it: too little, too little for two rounds, perhaps enough.
fn budget_is_kept() -> Outcome {
    let seconds = |work: &Work, line: &str| {
        let begun = machine::uptime();
        let said = work.say(line);
        (said, (machine::uptime() - begun).as_secs_f64())
    };
    for budget in [2.0, 8.0, 20.0] {
        let work = Work::new();
        // What the machine takes now to start, to remove what was made and to write reports, by a program that is not optimised.
        let little =
            "run --stores files/hashed --blobs 12 --rounds 1 --phases fill,read-warm --quiet --out little";
        let (said, beside) = seconds(&work, little);
        said.ended(0);
        let stores = "files/hashed,files/flat,sqlite,lmdb,redb,fjall,memory";
        let (said, took) =
            seconds(&work, &format!("run --stores {stores} --budget {budget}s --quiet --out out"));
        let most = budget * 1.25 + (10.0 * beside).max(5.0);
        assert!(
            took < most,
            "a budget of {budget} s took {took:.1} s, and beside it {beside:.1} s: {said:?}"
        );
        if said.code != Some(0) {
            let said = said.refused(&["a budget of ", "is too small for what was asked for"]);
            let enough = said.stderr.split("`--budget ").nth(1).and_then(|text| text.split('m').next());
            let minutes: f64 = enough.ok_or("no budget that would do")?.parse()?;
            assert!(minutes * 60.0 > budget, "{}", said.stderr);
        } else {
            assert!(RunResult::load(&work.path("out"))?.complete);
        }
    }
    Ok(())
}

fn quick_run() -> Outcome {
    let work = Work::new();
    work.say("run --quick --stores null --blobs 12 --rounds 1 --quiet --out out").ended(0);
    let result = RunResult::load(&work.path("out"))?;
    assert_eq!(
        result.plan.phases.as_deref(),
        Some(["fill", "read-warm", "read-cold"].map(String::from).as_slice())
    );
    for other in ["--phases fill", "--sweep 1kB..1MB", "--grow 1k..10k", "page"] {
        work.say(&format!("run --quick {other}")).refused(&["'--quick' cannot be used with"]);
    }
    Ok(())
}

fn parts_of_disks() -> Outcome {
    let work = Work::new();
    let result = work.result(
        "run --stores files/hashed,sqlite,fjall --blobs 40 --rounds 2 --quiet --phases fill --out out",
    );
    let shown = work.say("report --tables out").ended(0).stdout;
    assert!(shown.contains("grows    data indexes    dirs    logs"), "{shown}");
    for footprint in &result.footprints {
        let (directories, logs) = (footprint.directory_bytes.unwrap_or(0), footprint.log_bytes.unwrap_or(0));
        let data = footprint.data_bytes().ok_or_else(|| format!("no data of {footprint:?}"))?;
        let parts = data + footprint.index_bytes.unwrap_or(0) + directories + logs;
        assert_eq!(Some(parts), footprint.after_settle_bytes, "{footprint:?}");
        let is_logged = footprint.store == "fjall";
        assert!(directories > 0 && data > 0 && (logs > 0) == is_logged, "{footprint:?}");
    }
    assert_eq!(result.footprints.len(), 3);
    Ok(())
}

fn csv() -> Outcome {
    let work = Work::new();
    let result = run(&work, "--phases fill,read-warm", "out")?;
    let mut reader = csv::Reader::from_path(work.path("out/results.csv"))?;
    let headers = reader.headers()?.clone();
    let column =
        |name: &str| headers.iter().position(|header| header == name).ok_or(format!("no column {name}"));
    let (store, phase) = (column("store")?, column("phase")?);
    let lines: BTreeSet<(String, String)> = reader
        .records()
        .map(|record| record.map(|record| (record[store].into(), record[phase].into())))
        .collect::<Result<_, _>>()?;
    let cells: BTreeSet<(String, String)> =
        result.results.iter().map(|cell| (cell.store.clone(), cell.phase.clone())).collect();
    assert_eq!(lines, cells);
    Ok(())
}

fn matrix() -> Outcome {
    let more = "--phases fill,read-warm --set sqlite.page_size=1024,65536 --sweep 20kB,2kB,8kB --reference sqlite[page_size=1024]";
    let work = Work::new();
    let result = run(&work, more, "out")?;
    let phases: Vec<&str> = result.matrices.iter().map(|matrix| matrix.phase.as_str()).collect();
    assert_eq!(phases, ["fill", "read-warm"]);
    for matrix in &result.matrices {
        assert_eq!(matrix.reference, "sqlite[page_size=1024]");
        let cells: BTreeSet<(&str, u64)> =
            matrix.cells.iter().map(|cell| (cell.store.as_str(), cell.blob_bytes)).collect();
        let both = |bytes| [("files/hashed", bytes), ("sqlite[page_size=65536]", bytes)];
        assert_eq!(cells, [2_000, 8_000, 20_000].into_iter().flat_map(both).collect());
    }
    let lines = std::fs::read_to_string(work.path("out/matrix.csv"))?;
    assert_eq!(lines.lines().count(), 1 + 2 * 6);
    for line in work.say("report --tables out").ended(0).stdout.lines() {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
    // All blobs of a size are just that large.
    assert!(result.corpora.iter().all(|corpus| Some(corpus.largest_bytes) == corpus.corpus_id.bytes()));
    work.say("run --stores files/hashed --reference sqlite --quiet")
        .refused(&["reference candidate", "files/hashed"]);
    Ok(())
}

fn growth() -> Outcome {
    let work = Work::new();
    let line = "run --grow 100,150,200,300,1k --expect 3k --stores files/flat,sqlite --corpus fixed:1kB --rounds 2 --quiet --no-drop-caches \
                --phases fill,read-warm,overwrite,delete-some,list-all --out out";
    let result = work.result(line);
    assert!(result.complete && result.advice.is_none());
    for store in ["files/flat", "sqlite"] {
        let curves = result.curves.iter().filter(|curve| curve.store == store);
        let of_time = curves.clone().filter(|curve| curve.figure == CurveFigure::Time);
        let phases: Vec<&str> = of_time.map(|curve| curve.phase.as_str()).collect();
        assert_eq!(phases, ["fill", "read-warm", "overwrite", "delete-some", "list-all"], "{store}");
        for curve in curves.clone() {
            let steps: Vec<u64> = curve.steps.iter().map(|step| step.at).collect();
            assert_eq!(steps, [100, 150, 200, 300, 1_000], "{curve:?}");
            assert_eq!(curve.forecast.map(|forecast| forecast.blobs), Some(3_000));
        }
        let mut disk = curves.filter(|curve| curve.figure == CurveFigure::Disk);
        assert!(disk.all(|curve| curve.steps.iter().all(|step| step.value.median >= 1_000.0)));
        // All is listed at each step: what a step deleted is there again.
        let listed = result.cell(store, "list-all.300").ok_or("no list")?;
        assert_eq!((listed.stored_blobs, listed.status), (Some(300), Status::Measured));
        assert!(matches!(listed.rounds[0].upkeep, Some(Upkeep::Lists { blobs: 300 })));
        assert_eq!(result.cell(store, "fill.1000").map(|fill| fill.ops), Some(2 * 700));
    }
    reports_curves(&work, &result)
}

fn ageing() -> Outcome {
    let work = Work::new();
    let line = "run --age 0,0.5,2 --stores files/hashed,sqlite --corpus uniform:500-1500 --blobs 200 --rounds 2 --quiet \
                --no-drop-caches --phases fill,read-warm --out out";
    let result = work.result(line);
    assert!(result.complete && result.advice.is_none());
    let corpus = result.corpus.bytes;
    for store in ["files/hashed", "sqlite"] {
        let steps = |phase: &str, figure: CurveFigure| -> Option<Vec<u64>> {
            let is_it =
                |curve: &&StepCurve| (curve.store == store && curve.phase == phase) && curve.figure == figure;
            Some(result.curves.iter().find(is_it)?.steps.iter().map(|step| step.at).collect())
        };
        assert_eq!(steps("read-warm", CurveFigure::Time), Some(vec![0, 50, 200]), "{store}");
        assert_eq!(steps("age", CurveFigure::Time), Some(vec![50, 200]), "{store}");
        assert_eq!(steps("age", CurveFigure::DiskPerByte), Some(vec![0, 50, 200]), "{store}");
        let of = |cell: &&Cell| cell.store == store && cell.phase.starts_with("age.");
        let overwritten: Vec<&Cell> = result.results.iter().filter(of).collect();
        let bytes: u64 = overwritten.iter().map(|cell| cell.rounds[0].bytes).sum();
        assert!(bytes.abs_diff(2 * corpus) <= 1_500 / 2, "{store}: {bytes} of {corpus}");
        for round in overwritten.iter().flat_map(|cell| &cell.rounds) {
            let live = round.live_bytes.ok_or("live bytes are unknown")?;
            assert!(live.abs_diff(corpus) * 50 <= corpus, "{store}: {live} of {corpus}");
        }
    }
    reports_curves(&work, &result)
}

fn no_ext4() -> Option<String> {
    let system = FileSystem::parse("ext4").unwrap();
    system.lacks().map(|why| format!("{why:#}"))
}

fn one_image() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place")).unwrap();
    let line = "run --age 0,1 --on ext4 --stores files/hashed,sqlite --corpus uniform:2000-60000 --blobs 60 --rounds 2 --quiet \
                --no-drop-caches --phases fill,read-warm --verify --dir place --out out";
    let result = work.result(line);
    assert!(result.complete);
    for store in ["files/hashed[on=ext4]", "sqlite[on=ext4]"] {
        let visits: Vec<&StoreRound> =
            result.store_rounds.iter().filter(|visit| visit.store == store).collect();
        let [first, second] = visits.as_slice() else { panic!("{store}: {visits:?}") };
        let phases: Vec<&str> = first.images.iter().map(|image| image.phase.as_str()).collect();
        assert_eq!(phases, ["fill", "age.100"], "{store}");
        assert_ne!(first.images[0].sha256, first.images[1].sha256, "{store}");
        assert!(first.images.iter().all(|image| !image.is_copy && image.sha256.len() == 64), "{first:?}");
        // The same disk, disk space and fragments, and its blobs were compared again.
        let copies = first.images.iter().map(|image| AgedImage { is_copy: true, ..image.clone() });
        assert_eq!(second.images, copies.collect::<Vec<AgedImage>>(), "{store}");
        let has_fragments = first.images.iter().all(|image| image.fragments_per_blob.is_some());
        assert_eq!(has_fragments, store.starts_with("files/"), "{store}");
        assert!(first.images.iter().all(|image| image.allocated_bytes.is_some()) && second.verified > 0);
        let rounds = |phase: &str| -> Vec<u32> {
            let cell = result.cell(store, phase);
            cell.map_or(Vec::new(), |cell| cell.rounds.iter().map(|round| round.round).collect())
        };
        assert_eq!((rounds("fill"), rounds("age.100")), (vec![1], vec![1]), "{store}");
        assert_eq!((rounds("read-warm.00"), rounds("read-warm.100")), (vec![1, 2], vec![1, 2]), "{store}");
    }
    let report = work.say("report out --markdown").ended(0).stdout;
    assert!(report.contains("Aged once: `files/hashed[on=ext4]` and `sqlite[on=ext4]`."), "{report}");
    assert!(work.names("place").is_empty());
    reports_curves(&work, &result)
}

/// `curves.csv` has a line for each step, the tables fit a terminal, and the result has the published schema.
fn reports_curves(work: &Work, result: &RunResult) -> Outcome {
    let lines = std::fs::read_to_string(work.path("out/curves.csv"))?;
    let steps: usize = result.curves.iter().map(|curve| curve.steps.len()).sum();
    assert_eq!(lines.lines().count(), 1 + steps);
    for line in work.say("report --tables out").ended(0).stdout.lines() {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
    matches_schema(work)
}

fn no_filefrag() -> Option<String> {
    let is_there = std::process::Command::new("filefrag").arg("-V").output().is_ok();
    (!is_there).then(|| "filefrag is missing: apt-get install e2fsprogs".to_owned())
}

fn fragments_of_files() -> Outcome {
    let work = Work::new();
    let paths: Vec<PathBuf> = (0..50).map(|file| work.path(&format!("file-{file}"))).collect();
    // Files that grow in turn lie in pieces between each other; the first one stays empty.
    for _ in 0..3 {
        for (file, path) in paths.iter().enumerate() {
            let mut open = File::options().create(true).append(true).open(path)?;
            open.write_all(&vec![7; file * 300])?;
            open.sync_all()?;
        }
    }
    let counted = finish(work.command("filefrag").args(&paths));
    let counted = counted.stdout.lines().map(|line| -> Option<u64> {
        let (_, count) = line.split_once(": ")?;
        count.split_once(" extent")?.0.parse().ok()
    });
    let counted: Vec<u64> = counted.collect::<Option<_>>().ok_or("filefrag counts nothing here")?;
    let ours: Option<Vec<u64>> = paths.iter().map(|path| fragments(&File::open(path).ok()?)).collect();
    assert_eq!(ours.as_ref(), Some(&counted));
    assert!(counted[0] == 0 && counted.iter().any(|count| *count > 1), "{counted:?}");
    Ok(())
}

fn hot_share() -> Outcome {
    let work = Work::new();
    let plan = "stores = ['files/hashed', 'sqlite']\nrounds = 2\nworkers = 2\n[corpus]\nsource = 'fixed:1kB'\nblobs = 200\n\
                [[phase]]\nid = 'visits'\nops = {get = 1.0}\norder = 'zipfian:1.2'\ncount = 2000\n\
                [[phase]]\nid = 'cold'\nops = {get = 1.0}\norder = 'zipfian:1.2'\ncount = 2000\ncache = 'cold-start'\n\
                [[phase]]\nid = 'evenly'\nops = {get = 1.0}\nshare = 1.0\n";
    std::fs::write(work.path("plan.toml"), plan)?;
    let result = work.result("run plan.toml --quiet --out out");
    let of = |store: &str, phase: &str| result.cell(store, phase).and_then(|cell| cell.hot);
    for phase in ["visits", "cold"] {
        let hot = of("sqlite", phase).ok_or(format!("nothing of {phase}"))?;
        // The keys are the same for both, and all blobs are as large.
        assert_eq!(of("files/hashed", phase), Some(hot));
        assert!((0.05..0.5).contains(&hot.blobs_share), "{hot:?}");
        assert!((hot.blobs_share - hot.bytes_share).abs() < 1e-9, "{hot:?}");
    }
    assert_eq!(of("sqlite", "evenly"), None);
    Ok(())
}

fn list_at_a_rate() -> Outcome {
    let work = Work::new();
    let plan = "stores = ['memory']\nphases = ['fill', 'visits']\nrounds = 1\n[corpus]\nsource = 'fixed:1kB'\nblobs = 100\n\
                [[phase]]\nid = 'visits'\nops = { get = 1.0 }\ncount = 50\nrate = 1000.0\n";
    std::fs::write(work.path("plan.toml"), plan)?;
    let result = work.result("run plan.toml --quiet --out out");
    let visits = result.results.iter().find(|cell| cell.phase == "visits").ok_or("no cell of `visits`")?;
    assert_eq!((visits.ops, visits.offered_ops_per_s), (50, Some(1000.0)));
    let fill = result.results.iter().find(|cell| cell.phase == "fill").ok_or("no cell of `fill`")?;
    assert_eq!(fill.offered_ops_per_s, None);
    Ok(())
}

fn plan_repeats() -> Outcome {
    let work = Work::new();
    let first = run(&work, "--phases fill,read-warm --seed 5", "first")?;
    work.say("run first/plan.toml --quiet --out second").ended(0);
    let second = RunResult::load(&work.path("second"))?;
    assert_eq!(first.corpus, second.corpus);
    assert_eq!(
        std::fs::read_to_string(work.path("first/plan.toml"))?,
        std::fs::read_to_string(work.path("second/plan.toml"))?
    );
    let order = |result: &RunResult| -> Vec<(u32, String)> {
        result.store_rounds.iter().map(|visit| (visit.round, visit.store.clone())).collect()
    };
    assert_eq!(order(&first), order(&second));
    Ok(())
}

fn advice_is_followed() -> Outcome {
    let work = Work::new();
    for (name, more) in [("plain", ""), ("mixed", "--mix read=0.9,overwrite=0.1")] {
        let first = format!(
            "run --stores files/hashed,sqlite --blobs 200 --rounds 2 --phases fill,read-warm,overwrite {more} --quiet --out {name}"
        );
        work.say(&first).ended(0);
        let first = RunResult::load(&work.path(name))?;
        let open =
            first.answer.iter().find(|sentence| sentence.starts_with("Cold reads")).ok_or("no sentence")?;
        let command = open.split("to find out: `blobwise ").nth(1).and_then(|rest| rest.split('`').next());
        let command = command.ok_or_else(|| format!("no command in: {open}"))?.replace("DIR", name);
        work.say(&format!("{command} --quiet --out {name}-again")).ended(0);
        let second = RunResult::load(&work.path(&format!("{name}-again")))?;
        assert_eq!(first.corpus, second.corpus);
        let stores = |result: &RunResult| {
            result.candidates.iter().map(|candidate| candidate.store.clone()).collect::<Vec<_>>()
        };
        assert_eq!(stores(&first), stores(&second));
        let answered = |sentence: &&String| {
            ["Cold reads: `", "Lukewarm reads: `"].iter().any(|begin| sentence.starts_with(begin))
        };
        assert!(second.answer.iter().any(|sentence| answered(&sentence)), "{:#?}", second.answer);
    }
    Ok(())
}

/// Each of these once made a report that never ended, took gigabytes or was a panic.
fn unmeasurable() -> Outcome {
    let work = Work::new();
    run(&work, "--phases fill,read-warm", "out")?;
    let path = work.path("out/result.json");
    let good = json(&path)?;
    let spoiled = |pointer: &str, value: Value| -> Result<(), Failed> {
        let mut result = good.clone();
        *result.pointer_mut(pointer).ok_or("no such field")? = value;
        std::fs::write(&path, serde_json::to_vec(&result)?)?;
        for line in ["report out", "report --markdown out", "compare out out", "run --resume out"] {
            let field = pointer.rsplit('/').next().unwrap_or_default();
            work.say(line).refused(&["result.json` is damaged", field]);
        }
        Ok(())
    };
    spoiled("/results/0/ops_per_s/geometric_mean", 1e308.into())?;
    spoiled("/results/0/rounds/0/seconds", (-5.0).into())?;
    spoiled("/results/0/rounds/0/round", u32::MAX.into())?;
    spoiled("/harness/clock_read_ns", 1e300.into())?;
    spoiled("/results/0/store", "a\nb".into())?;
    std::fs::write(
        &path,
        format!(
            "{},\"x\":{}{}}}",
            good.to_string().trim_end_matches('}'),
            "[".repeat(5000),
            "]".repeat(5000)
        ),
    )?;
    work.say("report out").refused(&["result.json` is damaged"]);
    Ok(())
}

/// The ratios of rates are those that follow from the rounds, and each has its interval's confidence.
fn printed_for_scripts() -> Outcome {
    let work = Work::new();
    let result = run(&work, "--phases fill,read-warm", "out")?;
    let before = work.snapshot("out");
    let printed: RunResult = serde_json::from_str(&work.say("report --json out").ended(0).stdout)?;
    assert_eq!(serde_json::to_value(&printed)?, serde_json::to_value(&result)?);
    let ratio = printed.comparisons.iter().find_map(|pair| pair.ratio).ok_or("no ratio")?;
    assert!(ratio.confidence.is_some_and(|confidence| (0.95..1.0).contains(&confidence)), "{ratio:?}");
    let table = work.say("report --csv out").ended(0).stdout;
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let head = reader.headers()?.clone();
    let lines = reader.records().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(lines.len(), result.comparisons.len());
    let of = |line: &csv::StringRecord, column: &str| {
        line[head.iter().position(|known| known == column).unwrap()].to_owned()
    };
    for (line, pair) in lines.iter().zip(&result.comparisons) {
        assert_eq!(
            [of(line, "phase"), of(line, "store"), of(line, "reference")],
            [&pair.phase, &pair.store, &pair.reference].map(String::clone)
        );
        let Some(ratio) = pair.ratio else { continue };
        let number = |column: &str| of(line, column).parse::<f64>().unwrap();
        assert_eq!(number("ratio"), ratio.median);
        assert_eq!([Some(number("ratio_low")), Some(number("ratio_high"))], [ratio.low, ratio.high]);
        assert_eq!(Some(number("confidence")), ratio.confidence);
    }
    assert_eq!(before, work.snapshot("out"), "nothing is written");
    work.say("report --json --csv out").refused(&["cannot be used with"]);
    Ok(())
}

/// A result of this format, as format 4 would have it: `median`, and no confidence.
fn older_format() -> Outcome {
    fn older(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for name in ["geometric_mean", "estimate"] {
                    if let Some(middle) = fields.remove(name) {
                        fields.insert("median".to_owned(), middle);
                        fields.remove("confidence");
                    }
                }
                fields.values_mut().for_each(older);
            }
            Value::Array(values) => values.iter_mut().for_each(older),
            _ => {}
        }
    }
    let work = Work::new();
    let result = run(&work, "--phases fill,read-warm", "out")?;
    let mut older_one = json(&work.path("out/result.json"))?;
    older(&mut older_one);
    older_one["schema"] = 4.into();
    let text = serde_json::to_string(&older_one)?;
    assert!(text.contains("\"median\"") && !text.contains("geometric_mean"));
    std::fs::create_dir(work.path("older"))?;
    std::fs::write(work.path("older/result.json"), &text)?;
    let read = RunResult::load(&work.path("older"))?;
    let middles = |result: &RunResult| -> Vec<Option<f64>> {
        result.results.iter().map(|cell| cell.ops_per_s.map(|rate| rate.median)).collect()
    };
    assert_eq!(middles(&read), middles(&result));
    // Printed and written, it has the names of today.
    let printed = work.say("report --json older").ended(0).stdout;
    assert!(printed.contains("\"schema\": 5") && !printed.contains("\"median\""), "{printed}");
    work.say("report older").ended(0);
    work.say("compare older out --threshold 50%").ended(0);
    std::fs::write(work.path("older/result.json"), text.replacen("\"schema\":4", "\"schema\":3", 1))?;
    work.say("report older").refused(&["has format 3, and this program reads formats 4 to 5"]);
    Ok(())
}

fn report_again() -> Outcome {
    let work = Work::new();
    let line =
        "run --stores files/hashed,memory --blobs 40 --rounds 2 --phases fill,read-warm --quiet --out out";
    let first = work.say(line).ended(0);
    std::fs::remove_file(work.path("out/report.html"))?;
    let again = work.say("report --tables out").ended(0);
    assert_eq!(first.stdout, again.stdout);
    assert!(work.path("out/report.html").exists());
    for line in first.stdout.lines().filter(|line| !line.starts_with(['R', 'P'])) {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
    Ok(())
}

/// A plan of two corpora, with a phase that only one of them has and a claim about both. However slow the machine is, what is
/// read for 0.6 s is not too short for a claim.
const TWO_CORPORA: &str = "name = 'two'\nstores = ['sqlite', 'files/hashed']\nrounds = 2\nphases = ['fill', 'read', 'again']\n\
    [[corpora]]\nname = 'small'\nsource = 'fixed:1kB'\nblobs = 20\n\
    [[corpora]]\nname = 'large'\nsource = 'fixed:10kB'\nblobs = 20\n\
    [[phase]]\nid = 'read'\nops = {get = 1.0}\nseconds = 0.6\n\
    [[phase]]\nid = 'again'\nops = {get = 1.0}\ncorpora = ['large']\n\
    [[claim]]\nid = 'T-1'\nstatement = 'SQLite is read faster'\n\
    all-of = [{phase = 'read', corpus = 'small', candidates = ['sqlite', 'files/hashed'], expect = {high = 1.0}},\n\
              {phase = 'read', corpus = 'large', candidates = ['sqlite', 'files/hashed'], expect = {high = 1.0}}]\n";

fn reported_as_one() -> Outcome {
    let work = Work::new();
    // Of a write the harness is some hundredth. Of a read it is a tenth, and was 30 % on a busy machine: too much for a claim.
    let written = TWO_CORPORA
        .replace("ops = {get = 1.0}\nseconds = 0.6", "ops = {overwrite = 1.0}\nshare = 1.0")
        .replace("blobs = 20", "blobs = 250");
    assert!(written.contains("overwrite"));
    std::fs::write(work.path("two.toml"), written)?;
    work.say("run two.toml --quiet --out whole").ended(0);
    for corpus in ["large", "small"] {
        work.say(&format!("run two.toml --corpora {corpus} --quiet --out {corpus}")).ended(0);
        let claims = RunResult::load(&work.path(corpus))?.claims;
        let (tested, not): (Vec<&Claim>, Vec<&Claim>) =
            claims[0].parts.iter().partition(|part| part.verdict != ClaimVerdict::NotTestable);
        assert!(tested.len() == 1 && not.len() == 1, "{corpus}: {:#?}", claims[0]);
    }
    let said = work.say("report --tables small large --out both").ended(0);
    assert!(!said.stdout.contains("not testable"), "{}", said.stdout);
    let (whole, both) = (RunResult::load(&work.path("whole"))?, RunResult::load(&work.path("both"))?);
    let cells = |result: &RunResult| -> Vec<(String, String, CorpusId, usize)> {
        let name = |cell: &Cell| (cell.store.clone(), cell.phase.clone(), cell.corpus_id, cell.rounds.len());
        result.results.iter().map(name).collect()
    };
    assert_eq!(cells(&both), cells(&whole));
    assert_eq!(both.plan.to_toml()?, whole.plan.to_toml()?);
    assert_eq!(both.corpora, whole.corpora);
    assert!(both.complete);
    // The large files went first.
    assert_eq!(both.program.started, RunResult::load(&work.path("large"))?.program.started);
    for file in ["report.html", "result.json", "results.csv", "plan.toml"] {
        assert!(work.path("both").join(file).is_file(), "no {file}");
    }
    // In whichever order they are named.
    work.say("report large small --out turned").ended(0);
    let turned = RunResult::load(&work.path("turned"))?;
    assert_eq!(cells(&turned), cells(&whole));
    assert_eq!((turned.corpora, turned.claims), (both.corpora, both.claims));
    let markdown = work.say("report small large --markdown").ended(0);
    assert_eq!(markdown.stdout, work.say("report both --markdown").ended(0).stdout);
    Ok(())
}

/// Runs of stores that no machine has without being told where they are, or has at all: they are judged by what they say of
/// themselves, also where none of their candidates could run.
fn reported_where_nothing_runs() -> Outcome {
    const MEASURED: [&str; 2] = ["sqlite", "files/hashed"];
    const NOT_HAD: [&str; 2] = ["mssql/varbinary", "mssql/filestream"];
    let work = Work::new();
    std::fs::write(work.path("two.toml"), TWO_CORPORA)?;
    let elsewhere = |text: &str, candidates: usize, from: [&str; 2], to: [&str; 2]| {
        let pairs = from.iter().zip(to).take(candidates);
        pairs.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    };
    for corpus in ["large", "small"] {
        work.say(&format!("run two.toml --corpora {corpus} --quiet --out {corpus}")).ended(0);
        let text = std::fs::read_to_string(work.path(corpus).join("result.json"))?;
        for candidates in [1, 2] {
            std::fs::create_dir(work.path(&format!("{corpus}-{candidates}")))?;
            let there = elsewhere(&text, candidates, MEASURED, NOT_HAD);
            std::fs::write(work.path(&format!("{corpus}-{candidates}/result.json")), there)?;
        }
    }
    // Nor is there any program.
    let nowhere = |line: &str| finish(work.blobwise(line).env("PATH", ""));
    work.say("report small large --out both").ended(0);
    let judged = |out: &str| -> Result<String, Failed> {
        let result = RunResult::load(&work.path(out))?;
        let (claims, comparisons) = (&result.claims, &result.comparisons);
        let text = serde_json::to_string(&(claims, comparisons, &result.answer, &result.warnings))?;
        Ok(elsewhere(&text, 2, NOT_HAD, MEASURED))
    };
    // Where the machine is so busy that the harness is too much of every read there is nothing to compare, wherever that is done.
    let compared = work.say("compare small small --threshold 50%");
    assert!(matches!(compared.code, Some(0 | 3)), "{compared:?}");
    let code = compared.code.ok_or("no exit code")?;
    assert_eq!(nowhere("compare small small --threshold 50%").ended(code).stdout, compared.stdout);
    for candidates in [1, 2] {
        nowhere(&format!("report small-{candidates} large-{candidates} --out there-{candidates}")).ended(0);
        assert_eq!(
            judged(&format!("there-{candidates}"))?,
            judged("both")?,
            "{candidates} candidates that cannot run"
        );
        let line = format!("compare small-{candidates} small-{candidates} --threshold 50%");
        let there = nowhere(&line).ended(code).stdout;
        // Each of them names its directory.
        let there = there.replace(&format!("small-{candidates},"), "small,");
        let figures = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        assert_eq!(figures(&elsewhere(&there, 2, NOT_HAD, MEASURED)), figures(&compared.stdout));
    }
    Ok(())
}

fn not_reported_as_one() -> Outcome {
    let work = Work::new();
    std::fs::write(work.path("two.toml"), TWO_CORPORA)?;
    std::fs::write(work.path("other.toml"), TWO_CORPORA.replace("stores = [", "stores = ['null', "))?;
    std::fs::write(work.path("reads.toml"), TWO_CORPORA.replacen("{get = 1.0}", "{range = 1.0}", 1))?;
    work.say("run two.toml --corpora small --quiet --out small").ended(0);
    work.say("run reads.toml --corpora large --quiet --out reads").ended(0);
    work.say("run other.toml --corpora large --quiet --out other").ended(0);
    work.say("run two.toml --corpora large --rounds 3 --quiet --out three").ended(0);
    run(&work, "--phases fill", "one")?;
    for (line, why) in [
        ("small small --out both", "`small` and `small` are the same run"),
        ("small small --markdown", "the corpus `small` is in both"),
        ("small other --out both", "another plan"),
        ("small reads --out both", "another plan"),
        ("small three --out both", "it has 3 rounds, and they have 2"),
        ("one small --markdown", "only runs of a plan with several corpora"),
        ("small three", "name it with --out"),
        ("small --out both", "the report of one is beside its result"),
        ("small three --out small", "is not empty"),
    ] {
        work.say(&format!("report {line}")).refused(&[why]);
    }
    assert!(!work.path("both").exists());
    Ok(())
}

/// Runs that may stand in one table, one that may not, and a directory that is written again.
fn side_by_side() -> Outcome {
    let work = Work::new();
    run(&work, "--phases fill,read-warm", "out")?;
    let begun =
        |result: &mut RunResult, day: u32| result.program.started = format!("2026-01-{day:02}T03:04:05Z");
    doctored(&work, "faster", |result| begun(result, 1))?;
    doctored(&work, "larger", |result| {
        begun(result, 2);
        result.corpus.blobs *= 2;
    })?;
    let said = work.say("report out faster larger/result.json --out site").ended(0);
    let told = collapse_whitespace(&said.stdout);
    assert!(told.contains("One table: runs 1 (out), 2 (faster)"), "{told}");
    assert!(told.contains("run 3 (larger); apart from the first: other blobs: 40 blobs of"), "{told}");
    let files = |dir: &str| -> Result<Vec<String>, Failed> {
        let entries = std::fs::read_dir(work.path(dir))?;
        let mut names: Vec<String> = entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<std::io::Result<_>>()?;
        names.sort();
        Ok(names)
    };
    assert_eq!(files("site")?, ["index.html", "run-1.html", "run-2.html", "run-3.html", "runs.json"]);
    let page = std::fs::read_to_string(work.path("site/index.html"))?;
    assert!(
        page.contains("Not side by side with the first table: other blobs"),
        "no run is merged with others"
    );
    for number in 1..=3 {
        assert!(page.contains(&format!("href=\"run-{number}.html\"")));
    }
    assert!(
        !page.contains(&work.path("").display().to_string()),
        "a page that is shown around names no directories"
    );
    // Its own directory is written again, and what is no longer part of it goes.
    work.say("report faster larger --out site").ended(0);
    assert_eq!(files("site")?, ["index.html", "run-1.html", "run-2.html", "runs.json"]);
    std::fs::create_dir(work.path("full"))?;
    std::fs::write(work.path("full/notes.txt"), "mine")?;
    std::fs::create_dir(work.path("broken"))?;
    std::fs::write(work.path("broken/result.json"), "{\"schema\": 1")?;
    std::fs::create_dir(work.path("theirs"))?;
    std::fs::write(work.path("theirs/index.html"), "<html>mine</html>")?;
    std::fs::write(work.path("site/more.html"), "mine")?;
    for (line, why) in [
        ("out faster", "name it with --out"),
        ("out out --out new", "`out` and `out` are the same run"),
        ("out out/result.json --out new", "are the same run"),
        ("out faster --out full", "`full` is not empty and no page of several runs"),
        ("out faster --out theirs", "`theirs` is not empty and no page of several runs"),
        ("out faster --out site", "something else than a page of several runs, `more.html`"),
        ("out faster --out larger", "`larger` is a run: name another directory"),
        ("out nowhere --out new", "cannot read `nowhere"),
        ("out broken --out new", "`broken/result.json` ends in the middle"),
        ("out faster --tables --out new", "--tables: is for one run"),
    ] {
        work.say(&format!("report {line}")).refused(&[why]);
    }
    assert!(!work.path("new").exists());
    assert_eq!(std::fs::read_to_string(work.path("site/more.html"))?, "mine");
    Ok(())
}

fn compared_with_itself() -> Outcome {
    let work = Work::new();
    run(&work, "--phases fill,read-warm", "out")?;
    doctored(&work, "whole", |_| {})?;
    let said = work.say("compare whole whole/result.json").ended(0);
    assert!(said.stdout.contains("0 slower by more than 5 %"), "{}", said.stdout);
    assert!(!said.stdout.contains("not the same"), "{}", said.stdout);
    Ok(())
}

/// A copy of the run `out` in which something was changed, and every cell is ranked: in a slow build the harness may keep some
/// from being it.
pub fn doctored(work: &Work, name: &str, change: impl Fn(&mut RunResult)) -> Outcome {
    let mut result = RunResult::load(&work.path("out"))?;
    result.results.iter_mut().for_each(|cell| cell.not_ranked = None);
    change(&mut result);
    std::fs::create_dir(work.path(name))?;
    result.save(&work.path(name))?;
    Ok(())
}

fn regressed() -> Outcome {
    let work = Work::new();
    let line =
        "run --stores files/hashed,sqlite --blobs 40 --rounds 5 --phases fill,read-warm --quiet --out out";
    work.say(line).ended(0);
    doctored(&work, "whole", |_| {})?;
    doctored(&work, "changed", |result| {
        let rounds =
            result.results.iter_mut().filter(|cell| cell.store == "sqlite" && cell.phase == "read-warm");
        rounds.flat_map(|cell| &mut cell.rounds).for_each(|round| round.seconds *= 50.0);
    })?;
    let said = work.say("compare whole changed").ended(1);
    let line = said.stdout.lines().find(|line| line.ends_with("regressed")).ok_or("no line says so")?;
    assert!(line.trim_start().starts_with("sqlite ") && line.contains("read-warm"), "{line}");
    assert!(
        collapse_whitespace(&said.stdout).contains("Failed: 1 rate regressed (exit code 1)."),
        "{}",
        said.stdout
    );
    assert!(said.stdout.lines().all(|line| line.chars().count() <= 80), "{}", said.stdout);
    work.say("compare changed whole").ended(0);
    // Markdown and JSON say the same, and end alike.
    let markdown = work.say("compare whole changed --markdown").ended(1).stdout;
    assert!(
        markdown.contains("| `sqlite` | read-warm | ") && markdown.contains("| regressed |"),
        "{markdown}"
    );
    let report: ComparisonReport =
        serde_json::from_str(&work.say("compare whole changed --json").ended(1).stdout)?;
    let row = report.changes.iter().find(|change| change.regressed).ok_or("no row regressed")?;
    assert_eq!((row.store.as_str(), row.phase.as_str(), report.sum.regressed), ("sqlite", "read-warm", 1));
    let others = "compare whole changed --stores files/hashed";
    work.say(others).ended(0);
    work.say("compare whole changed --phases fill").ended(0);
    work.say("compare whole changed --phases reads").refused(&["no phase is called `reads`"]);
    Ok(())
}

fn not_comparable() -> Outcome {
    let work = Work::new();
    run(&work, "--phases fill,read-warm", "out")?;
    doctored(&work, "whole", |_| {})?;
    // A failure is no rate, however fast it was.
    doctored(&work, "failed", |result| {
        for cell in &mut result.results {
            let why = "3 of 9 ops failed".to_owned();
            (cell.status, cell.not_ranked) = (Status::Failed, Some(Reason::Failed { why }));
        }
    })?;
    let said = work.say("compare whole failed").ended(3);
    assert!(said.stdout.contains("not ranked in the new run: failed: 3 of 9 ops failed"), "{}", said.stdout);
    assert!(collapse_whitespace(&said.stdout).contains("Nothing could be compared"), "{}", said.stdout);
    // Nothing is compared, and so nothing is blind.
    work.say("compare whole failed --strict").ended(3);
    doctored(&work, "larger", |result| result.corpus.bytes *= 2)?;
    work.say("compare whole larger").refused(&["`whole` and `larger` cannot be compared: other blobs: "]);
    doctored(&work, "newer", |result| {
        result.machine.kernel = "99.9".to_owned();
        result.machine.libc = Some("glibc 9.9".to_owned());
        result
            .candidates
            .iter_mut()
            .for_each(|candidate| drop(candidate.facts.insert("version".to_owned(), "2".to_owned())));
    })?;
    doctored(&work, "older", |result| {
        result
            .candidates
            .iter_mut()
            .for_each(|candidate| drop(candidate.facts.insert("version".to_owned(), "1".to_owned())));
    })?;
    let said = work.say("compare older newer").ended(0);
    assert!(
        [", now 99.9", ", now glibc 9.9", "version 1, now 2"].iter().all(|part| said.stdout.contains(part)),
        "{}",
        said.stdout
    );
    Ok(())
}

fn machine_changed() -> Outcome {
    let work = Work::new();
    run(&work, "--phases fill,read-warm", "out")?;
    doctored(&work, "changed", |result| {
        result.probes.iter_mut().for_each(|probe| probe.processor_ns *= 3.0)
    })?;
    doctored(&work, "whole", |_| {})?;
    let said = work.say("compare whole changed").ended(3);
    assert!(said.stdout.contains("machine changed"), "{}", said.stdout);
    // The ratio is shown, and decides nothing.
    let mut lines = said.stdout.lines().map(str::trim_start);
    let line = lines.find(|line| line.starts_with("sqlite ")).ok_or("no row of sqlite")?;
    assert!(line.contains(" 1.00 ") && line.ends_with("not judged"), "{line}");
    assert!(said.stdout.lines().all(|line| line.chars().count() <= 80), "{}", said.stdout);
    let markdown = work.say("compare whole changed --markdown").ended(3).stdout;
    assert!(markdown.contains("| not judged |"), "{markdown}");
    let report: ComparisonReport =
        serde_json::from_str(&work.say("compare whole changed --json").ended(3).stdout)?;
    assert_eq!(report.outcome, compared::ComparisonOutcome::NothingCompared);
    Ok(())
}

fn mix() -> Outcome {
    let work = Work::new();
    let more = "--phases fill,read-warm,range-random --mix read=0.9,range=0.1";
    let result = run(&work, more, "out")?;
    assert!(result.answer.iter().any(|line| line.contains("1,000 ops")), "{:#?}", result.answer);
    Ok(())
}

fn list_of_values() -> Outcome {
    let work = Work::new();
    let result = work.result("run --stores sqlite --set sqlite.page_size=4096,16384 --blobs 20 --rounds 1 --phases fill --quiet --out out");
    let labels: Vec<&str> = result.candidates.iter().map(|candidate| candidate.store.as_str()).collect();
    assert_eq!(labels, ["sqlite[page_size=4096]", "sqlite[page_size=16384]"]);
    for candidate in &result.candidates {
        assert_eq!(
            candidate.facts.get("page_size"),
            candidate.options.get("page_size"),
            "read back from the store"
        );
    }
    Ok(())
}

fn plans() -> Vec<String> {
    let entries = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/plans")).unwrap();
    let mut plans: Vec<String> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    plans.sort();
    plans
}

/// How small a plan can be and still have every candidate in every phase, where that is below the usual hundredth.
const SCALES: &[(&str, &str)] = &[
    ("afdesign-cache-2009", "0.001"),
    ("afdesign-procedures-2008", "0.0002"),
    ("afdesign-queries-2009", "0.001"),
    ("gridfs-2015", "0.001"),
    ("horak-2010", "0.001"),
    ("vondra-2009", "0.0001"),
];

/// Blobs of a few kB in place of a plan's corpora: eight blobs of 10 MB, which no scale goes below, take minutes in a build for tests.
/// Of several corpora the first and the last are kept, and the first alone where many candidates start a server for each; of these, those
/// that claims and published figures name. Of the values of an option two make candidates enough, and one where no claim names them or a
/// browser starts for each. Four workers are several: a web server starts a process for each of fifty.
/// File systems of a plan have trials of their own: images would take longer than all else.
fn made_small(mut text: PlanText) -> PlanText {
    const MANY: usize = 10; // candidates
    const SEVERAL: usize = 4; // workers
    text.on = text.on.map(|_| vec!["dir".to_owned()]);
    text.device_limit = None;
    if text.corpora.len() > 2 {
        text.corpora.drain(1..text.corpora.len() - 1);
    }
    if text.stores.as_ref().is_some_and(|stores| stores.len() > MANY) {
        text.corpora.truncate(1);
        let others = serde_json::to_string(&PlanText { stores: None, ..text.clone() }).unwrap();
        let is_named = |store: &String| text.claim.is_empty() || others.contains(&format!("\"{store}\""));
        text.stores = text.stores.map(|stores| stores.into_iter().filter(is_named).collect());
    }
    for phase in &mut text.phase {
        phase.workers = phase.workers.map(|workers| workers.min(SEVERAL));
    }
    for (index, corpus) in text.corpora.iter_mut().enumerate() {
        corpus.source = Some(format!("fixed:{}kB", index + 1));
    }
    for (name, values) in &mut text.set {
        let kept = if text.claim.is_empty() || name.starts_with("page.") { 1 } else { 2 };
        if let OneOrMany::Many(values) = values {
            values.truncate(kept);
        }
    }
    text
}

fn tiny(plan: &str) -> Outcome {
    let work = Work::new();
    let scale = SCALES.iter().find(|(known, _)| *known == plan).map_or("0.01", |(_, scale)| scale);
    let text = made_small(PlanText::load(plan)?);
    std::fs::write(work.path("small.toml"), text.to_toml()?)?;
    let mut line = vec!["run", "small.toml", "--scale", scale, "--quiet", "--out", "out"];
    // Verdicts have tests of their own: a second round would show nothing new.
    line.extend(["--rounds", "1", "--preview"]);
    work.run(line).ended(0);
    let result = RunResult::load(&work.path("out"))?;
    assert!(result.complete);
    let planned = text.resolve(false)?;
    for candidate in &planned.candidates {
        for phase in planned.phases.iter().filter(|phase| !phase.only_prepares()) {
            let label = &candidate.label;
            let cells = result.results.iter().filter(|cell| cell.store == *label && cell.phase == phase.id);
            // Each of them where all do the phase, and none of a candidate that it is not for.
            let does = planned.is_done_by(&phase.id, candidate);
            assert_eq!(cells.count() > 0, does, "`{label}` in `{}`", phase.id);
        }
    }
    for phase in &planned.phases {
        let by_a_candidate =
            planned.candidates.iter().any(|candidate| planned.is_done_by(&phase.id, candidate));
        let by_nobody = !by_a_candidate
            && planned
                .missing
                .iter()
                .all(|candidate| !planned.would_be_done_by(&phase.id, &candidate.label, &candidate.adapter));
        assert!(!by_nobody, "no candidate does `{}`", phase.id);
    }
    for missing in &planned.missing {
        let candidate = result.candidate(&missing.label);
        let candidate = candidate.ok_or_else(|| format!("`{}` is not in the table", missing.label))?;
        assert_eq!(
            (candidate.status, candidate.reason.as_deref()),
            (Status::NotAvailable, Some(missing.reason.as_str()))
        );
    }
    assert_eq!(result.claims.len(), planned.text.claim.len());
    let page = std::fs::read_to_string(work.path("out/report.html"))?;
    for claim in &result.claims {
        assert!(page.contains(&claim.id), "{} is not in the report", claim.id);
        could_be_tested(claim);
    }
    Ok(())
}

/// One round decides nothing, and it may be too short for its figures; what is wrong with the claim itself stays wrong.
fn could_be_tested(claim: &Claim) {
    const WRONG: [&str; 3] = ["are not comparable", "are not added up", "is not a number"];
    if claim.verdict == ClaimVerdict::NotTestable {
        let why = claim.note.as_deref().unwrap_or_default();
        assert!(!why.is_empty(), "{} is not testable, and nobody says why", claim.id);
        // What stays in the caches in spite of all is another group, and this run's bad luck.
        let is_wrong = WRONG.iter().any(|wrong| why.contains(wrong)) && !why.contains("(lukewarm)");
        assert!(!is_wrong, "{} can never be tested: {why}", claim.id);
    }
    claim.parts.iter().for_each(could_be_tested);
}
