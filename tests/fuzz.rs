//! Plans, results and URLs that nobody would write on purpose: each is an error or does what it says, without a panic, in bounded time
//! and with bounded output. `BLOBWISE_FUZZ_CASES` is the number of cases of each kind; without it there are few, and always the same.
//!
//! What was found once is kept: as a case of a unit test, or below `tests/fuzz/`, whose results are also what mutations begin with.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "common/opening.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod opening;

use blobwise::engine::work::ResolvePlan;
use std::sync::mpsc;
use std::time::Duration;

use blobwise::judge::{runs, summary};
use blobwise::plan::{OneOrMany, PlanText, SHIPPED, defaults};
use blobwise::records::Records;
use blobwise::redact;
use blobwise::report;
use blobwise::result::RunResult;
use blobwise::result::compared::CompareOptions;
use blobwise::store::{Adapter, Common, Durability, Options, Setup, Values};
use blobwise::stores;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use serde_json::{Value, json};

/// A case takes a third of a second, and far longer where the disk stalls; one that hangs has no end.
const PATIENCE: Duration = Duration::from_secs(180);
/// What must not be found in anything that is shown.
const SECRET: &str = "s3cr3tM4rk";

/// As many cases as asked for; by default this many, drawn from a fixed seed.
fn runner(cases: u32) -> TestRunner {
    let asked = std::env::var("BLOBWISE_FUZZ_CASES").ok().map(|cases| cases.parse().unwrap());
    let rng_seed = if asked.is_some() { RngSeed::Random } else { RngSeed::Fixed(1) };
    TestRunner::new(Config {
        cases: asked.unwrap_or(cases),
        rng_seed,
        failure_persistence: None,
        max_shrink_time: 60_000,
        ..Config::default()
    })
}

/// Runs a case apart, so that one that hangs is an error.
fn in_time<T: Send + 'static>(case: impl FnOnce() -> T + Send + 'static) -> Result<T, TestCaseError> {
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || drop(send.send(case())));
    match receive.recv_timeout(PATIENCE) {
        Ok(outcome) => Ok(outcome),
        Err(mpsc::RecvTimeoutError::Timeout) => Err(TestCaseError::fail("it does not end")),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let panic = thread.join().unwrap_err();
            let why = panic.downcast_ref::<String>().cloned();
            let why = why.or_else(|| panic.downcast_ref::<&str>().map(|why| (*why).to_owned()));
            Err(TestCaseError::fail(format!("a panic: {}", why.unwrap_or_default())))
        }
    }
}

// ---- mutations ---------------------------------------------------------------------------------------------------

/// What is done to one place of a document.
#[derive(Clone, Debug)]
enum Change {
    Put(Value),
    Remove,
    /// In a list or a table once more.
    Repeat,
    /// What stands at another place.
    Copy(usize),
}

fn wild_number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<f64>().prop_map(|number| json!(number)),
        any::<i64>().prop_map(|number| json!(number)),
        (0_u64..2000).prop_map(|number| json!(number)),
        prop::sample::select(vec![
            json!(0),
            json!(-1),
            json!(1),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(u32::MAX),
            json!(1e308),
            json!(-1e308),
            json!(5e-324),
            json!(1e18),
            json!(0.0),
            json!(-0.0),
            json!(1.0000000001),
        ]),
    ]
}

fn wild_text() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<String>().prop_map(Value::from),
        "[a-z0-9/=.,%-]{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "\0",
            "../../../x",
            "</script><script>alert(1)</script>",
            "=1+2",
            "\u{1b}[2J\u{202e}",
            "```\n# x\n|",
            "inf",
            "nan",
            "1e308",
            "99999999999999999999",
            "9999999999h",
            "1EB",
            "p99=1ns",
            "fixed:0",
            "uniform:9-1",
            "1B..1EB",
            "postgres://me:s3cr3tM4rk@h/x?y#z",
            "files/flat[",
            "files/flat[put=in-place]",
        ])
        .prop_map(Value::from),
        (1_usize..200_000).prop_map(|length| Value::from("x".repeat(length))),
    ]
}

fn wild_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => wild_number(),
        4 => wild_text(),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(json!([])),
        1 => Just(json!({})),
        1 => prop::collection::vec(wild_number(), 0..200).prop_map(Value::from),
        1 => prop::collection::vec(wild_text(), 0..5).prop_map(Value::from),
        // As deep as a reader allows, and deeper.
        1 => (1_usize..200).prop_map(|depth| (0..depth).fold(json!(1), |inner, _| json!([inner]))),
    ]
}

/// Changes, each with the place where it is made.
fn changes() -> impl Strategy<Value = Vec<(usize, Change)>> {
    let change = prop_oneof![
        6 => wild_value().prop_map(Change::Put),
        1 => Just(Change::Remove),
        1 => Just(Change::Repeat),
        1 => any::<usize>().prop_map(Change::Copy),
    ];
    prop::collection::vec((any::<usize>(), change), 1..6)
}

/// Number of places in a document.
fn places(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(places).sum(),
        Value::Object(fields) => fields.values().map(places).sum(),
        _ => 0,
    }
}

/// The value at a place, counted in depth.
fn at<'v>(value: &'v mut Value, place: &mut usize) -> Option<&'v mut Value> {
    if *place == 0 {
        return Some(value);
    }
    *place -= 1;
    match value {
        Value::Array(list) => list.iter_mut().find_map(|item| at(item, place)),
        Value::Object(fields) => fields.values_mut().find_map(|item| at(item, place)),
        _ => None,
    }
}

fn change(document: &mut Value, changes: Vec<(usize, Change)>) {
    for (place, change) in changes {
        let count = places(document);
        let other = match change {
            Change::Copy(other) => at(document, &mut (other % count)).cloned(),
            _ => None,
        };
        let Some(value) = at(document, &mut (place % count)) else { continue };
        match (change, value) {
            (Change::Put(new), value) => *value = new,
            (Change::Copy(_), value) => *value = other.unwrap_or_default(),
            (Change::Remove, Value::Array(list)) => drop(list.pop()),
            (Change::Remove, Value::Object(fields)) => {
                let key = fields.keys().nth(place % fields.len().max(1)).cloned();
                key.map(|key| fields.remove(&key));
            }
            (Change::Remove, value) => *value = Value::Null,
            (Change::Repeat, Value::Array(list)) => list.extend(list.clone()),
            (Change::Repeat, Value::Object(fields)) => {
                let more: Vec<_> =
                    fields.iter().map(|(key, value)| (format!("{key}x"), value.clone())).collect();
                fields.extend(more);
            }
            (Change::Repeat, Value::String(text)) => *text = text.repeat(2),
            (Change::Repeat, _) => {}
        }
    }
}

// ---- plans -------------------------------------------------------------------------------------------------------

fn resolve(text: &str) {
    if let Ok(plan) = PlanText::parse(text) {
        for strict in [false, true] {
            match plan.clone().resolve(strict) {
                // What is written beside a result is a plan again.
                Ok(plan) => {
                    let written = plan.text.to_toml().unwrap();
                    let again = PlanText::parse(&written).unwrap();
                    assert!(again == plan.text || written.contains("nan"), "{written}");
                    // In prose a URL is an example; where one is used it is a secret.
                    let candidates: Vec<_> = plan
                        .candidates
                        .iter()
                        .map(|candidate| (&candidate.label, candidate.options.shown()))
                        .collect();
                    let used = format!("{:?} {:?} {candidates:?}", plan.text.set, plan.text.stores);
                    assert!(!used.contains(SECRET), "{used}");
                }
                Err(error) => {
                    let error = redact::of_error(&format!("{error:#}"));
                    assert!(error.len() < 10_000 + 10 * text.len(), "{error}");
                    assert!(!error.contains(SECRET), "{error}");
                }
            }
        }
    }
}

#[test]
fn any_change_to_a_plan_is_an_error_or_a_plan() {
    let plan = prop::sample::select(SHIPPED.iter().map(|(_, text)| *text).collect::<Vec<&str>>());
    runner(300)
        .run(&(plan, changes()), |(plan, changes)| {
            let mut document = serde_json::to_value(toml::from_str::<toml::Value>(plan).unwrap()).unwrap();
            change(&mut document, changes);
            // TOML has no null, and its tables are no lists.
            let Ok(text) = toml::to_string(&document) else { return Ok(()) };
            in_time(move || resolve(&text))
        })
        .unwrap();
}

#[test]
fn any_text_is_an_error_or_a_plan() {
    let plan = prop::sample::select(SHIPPED.iter().map(|(_, text)| *text).collect::<Vec<&str>>());
    let cuts = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), ".{0,20}");
    runner(300)
        .run(&(plan, cuts), |(plan, (one, other, text))| {
            let letters: Vec<char> = plan.chars().collect();
            let (one, other) = (one.index(letters.len()), other.index(letters.len()));
            let (from, to) = (one.min(other), one.max(other).min(one.min(other) + 200));
            let text: String = letters[..from]
                .iter()
                .chain(text.chars().collect::<Vec<char>>().iter())
                .chain(&letters[to..])
                .collect();
            in_time(move || resolve(&text))
        })
        .unwrap();
}

// ---- results -----------------------------------------------------------------------------------------------------

/// Results of small runs: reads and writes, a ladder with an open loop, a sweep, some candidates of a published experiment.
const RESULTS: &[&str] =
    &[include_str!("fuzz/phases.json"), include_str!("fuzz/ladder.json"), include_str!("fuzz/sweep.json")];

/// Reads a result as every command does, and makes all of it that is made of a result.
fn read(text: &str) {
    /// Bytes that a byte of a result becomes at the most in one report; the script for plots comes with every page.
    const GROWTH: usize = 60;
    const SCRIPT_BYTES: usize = 6_000_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("result.json");
    std::fs::write(&path, text).unwrap();
    let result = match RunResult::load(&path) {
        Ok(result) => result,
        Err(error) => {
            let error = redact::of_error(&format!("{error:#}"));
            assert!(error.contains("result.json") && error.len() < 10_000, "{error}");
            return;
        }
    };
    let reports = [
        report::sections::terminal(&result),
        report::sections::markdown(&result),
        report::csv::render(&result).unwrap(),
        report::sections::html(&result).map(|page| page.replace("<script>alert(1)", "an alert")).unwrap(),
    ];
    for report in &reports {
        assert!(report.len() < SCRIPT_BYTES + GROWTH * text.len(), "{} B of {} B", report.len(), text.len());
    }
    let [.., page] = &reports;
    assert!(!page.contains("an alert"), "a script of others is in the page");
    let asked = CompareOptions { threshold: 0.05, fall: 0.1, power: 0.8, strict: true, in_turn: false };
    let compared = runs::report([("old", &result), ("new", &result)], asked);
    report::compared::terminal(&compared);
    report::compared::markdown(&compared);
    runs::unrelated(&result, &result);
    result.results.iter().take(20).for_each(|cell| drop(report::explain::explain(&result, cell)));
    if let Ok(plan) = result.plan.clone().resolve(false) {
        // What is gone on with is worked out again; an error is an answer, too.
        summary::summarize(&plan, &Records::resume(result)).ok();
    }
}

#[test]
fn any_change_to_a_result_is_an_error_or_a_report() {
    let result = prop::sample::select(RESULTS.to_vec());
    runner(300)
        .run(&(result, changes()), |(result, changes)| {
            let mut document: Value = serde_json::from_str(result).unwrap();
            change(&mut document, changes);
            in_time(move || read(&document.to_string()))
        })
        .unwrap();
}

/// Without changes they are read, or all of the above would be about errors only.
#[test]
fn results_that_mutations_begin_with_are_read() {
    for text in RESULTS {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("result.json"), text).unwrap();
        RunResult::load(dir.path()).unwrap();
        read(text);
    }
}

// ---- URLs --------------------------------------------------------------------------------------------------------

/// A URL with the secret in one of its parts.
fn url() -> impl Strategy<Value = String> {
    let odd = "[a-z0-9:@/?#&;=%,.!$'\"`(){}\\[\\] é-]{0,6}";
    let secret = (odd, odd).prop_map(|(before, after)| format!("{before}{SECRET}{after}"));
    let name = "(password|pass|pwd|sslpassword|token|pass%77ord|authMechanismProperties|[a-z]{8})";
    // Nobody listens there, and no name is looked up.
    let host = prop::sample::select(vec![
        "127.0.0.1:1",
        "[::1]:1",
        "127.0.0.1",
        "",
        "127.0.0.1:1,127.0.0.1:2",
        "127.0.0.1:x",
    ]);
    let path = "(/[a-z0-9]{0,4}){0,2}";
    prop_oneof![
        (secret.clone(), host.clone(), path, "(\\?w=1)?(#f)?")
            .prop_map(|(secret, host, path, rest)| format!("SCHEME://me:{secret}@{host}{path}{rest}")),
        (host.clone(), path, name, secret.clone())
            .prop_map(|(host, path, name, secret)| format!("SCHEME://{host}{path}?{name}={secret}")),
        (host.clone(), path, secret.clone())
            .prop_map(|(host, path, secret)| format!("SCHEME://me@{host}{path}?w=1#{secret}")),
        (host, secret.clone()).prop_map(|(host, secret)| format!("me:{secret}@{host}")),
        secret.prop_map(|secret| format!("Server=127.0.0.1,1;Password={{{secret}}}")),
    ]
}

/// Stores that may be a server of the user's, but for those whose drivers wait for one to come up.
fn with_url() -> Vec<&'static Adapter> {
    let has_url = |adapter: &&Adapter| adapter.options.iter().any(|spec| matches!(spec.values, Values::Url));
    stores::adapters().filter(has_url).filter(|adapter| stores::family(adapter.name) != "mongodb").collect()
}

/// What a store says of a server at a URL where there is none.
fn opened(adapter: &'static Adapter, url: &str) -> Option<String> {
    let mut options = defaults(adapter).shown();
    options.insert("url".to_owned(), url.to_owned());
    let (options, dir) = (Options::new(options), tempfile::tempdir().unwrap());
    let common = Common::new(dir.path().join("common"));
    let setup = Setup {
        durability: Durability::None,
        op_timeout: Duration::from_millis(200),
        ..opening::small(dir.path(), &common, &options)
    };
    (adapter.open)(&setup).err().map(|error| redact::of_error(&format!("{:#}", anyhow::Error::from(error))))
}

#[test]
fn no_url_is_shown_with_its_secret() {
    let stores = prop::sample::select(with_url());
    runner(800)
        .run(&(stores, url()), |(adapter, url)| {
            let family = stores::family(adapter.name);
            let url = url.replace("SCHEME", if family == "s3" { "http" } else { family });
            in_time(move || {
                let set = (format!("{}.url", adapter.name), OneOrMany::One(url.clone()));
                let text = PlanText {
                    stores: Some(vec![adapter.name.to_owned()]),
                    set: [set].into(),
                    ..PlanText::default()
                };
                let shown = match text.resolve(true) {
                    Ok(plan) => {
                        let candidate = &plan.candidates[0];
                        let words = opened(adapter, &url).unwrap_or_default();
                        let options = candidate.options.shown();
                        format!("{}\n{}\n{options:?}\n{words}", plan.text.to_toml().unwrap(), candidate.label)
                    }
                    Err(error) => redact::of_error(&format!("{error:#}")),
                };
                assert!(!shown.contains(SECRET), "{url}: {shown}");
            })
        })
        .unwrap();
}

#[test]
fn any_text_can_be_shown() {
    let text = prop_oneof![any::<String>(), "[a-z:/@=?#;&%'\" \\[\\]{}]{0,40}", url()];
    runner(2000)
        .run(&text, |text| {
            in_time(move || {
                redact::without_passwords(&text);
                redact::of_error(&text);
                let on_terminal = redact::on_terminal(&text);
                assert!(
                    !on_terminal.contains(|c: char| c.is_control() && !"\n\t".contains(c)),
                    "{on_terminal:?}"
                );
                let cell = redact::in_cell(&text);
                let is_formula = cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err();
                assert!(!is_formula, "{cell}");
            })
        })
        .unwrap();
}
