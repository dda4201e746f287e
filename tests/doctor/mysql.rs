//! Faults in MariaDB and MySQL, planted in one server, and one that has none.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;

use blobwise::doctor::facts::Kind;
use blobwise::doctor::finding::Answer;
use blobwise::doctor::report::Report;
use libtest_mimic::Trial;
use mysql::prelude::Queryable;

use crate::program::{Outcome, Work, missing, needing};
use crate::servers::{doctor, read};
use crate::theirs::mariadb;
use crate::{found, line, looks_well, report};

type Shared = Arc<LazyLock<Planted>>;

/// All faults are planted in one server, and each is its own test.
pub fn trials() -> Vec<Trial> {
    let shared: Shared = Arc::new(LazyLock::new(planted));
    let on = |name: &str, test: fn(&Planted) -> Outcome| {
        let shared = Arc::clone(&shared);
        needing(name, missing("mariadb/blob"), move || test(&shared))
    };
    vec![
        on("mariadb: a missing index is found by its scans", |planted| {
            finds(planted, "my-full-scans", "`d.orders`")
        }),
        on("mariadb: a query that reads far more than it sends is found", |planted| {
            finds(planted, "my-rows-examined", "customer = ?")
        }),
        on("mariadb: a query that is asked all the time is found", |planted| {
            finds(planted, "my-frequent-query", "d . settings")
        }),
        on("mariadb: stale statistics are found", |planted| {
            finds(planted, "my-stale-statistics", "`d.grown`")
        }),
        on("mariadb: a duplicate index is found", duplicate),
        on("mariadb: an unused index is found by old counters only", unused),
        on("mariadb: a pool of a tenth of the data is found by old counters only", small_pool),
        on("mariadb: a column of blobs is found, with a run that can be made", blobs),
        on("mariadb: a user without rights is told what to grant", few_rights),
        on("mariadb: it only reads", only_reads),
        needing("mariadb: a healthy server is left in peace", missing("mariadb/blob"), healthy),
    ]
}

fn run(url: &str, statements: &[&str]) {
    let mut connection = mysql::Conn::new(url).unwrap();
    for statement in statements {
        connection.query_drop(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// A connection that asks without a pause, until this is dropped.
struct Asking {
    until: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Asking {
    fn of(url: &str, pause: Duration, query: impl Fn(u64) -> String + Send + 'static) -> Asking {
        let until = Arc::new(AtomicBool::new(false));
        let (mut connection, over) = (mysql::Conn::new(url).unwrap(), Arc::clone(&until));
        let ask = move || {
            let mut number = 1_u64;
            while !over.load(Relaxed) {
                // A generator of numbers that are as good as random, and the same each time.
                number =
                    number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                connection.query_drop(query(number >> 33)).unwrap();
                std::thread::sleep(pause);
            }
        };
        Asking { until, thread: Some(std::thread::spawn(ask)) }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.until.store(true, Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// What the doctor says of a server with every fault, by old counters, by young ones, and to a user without rights.
struct Planted {
    old: Report,
    young: Report,
    guest: Report,
    log: String,
}

fn planted() -> Planted {
    let theirs = mariadb(&[
        "--performance-schema=ON",
        "--innodb-buffer-pool-size=8M",
        "--innodb-flush-log-at-trx-commit=2",
    ]);
    run(
        &theirs.url,
        &[
            "CREATE DATABASE d",
            "USE d",
            "CREATE TABLE d.large(id INT PRIMARY KEY, text TEXT)",
            "INSERT INTO d.large SELECT seq, REPEAT(MD5(seq), 30) FROM seq_1_to_60000",
            "CREATE TABLE d.orders(id INT PRIMARY KEY, customer INT, note VARCHAR(40), extra INT, KEY narrow(note), KEY wide(note, customer))",
            "INSERT INTO d.orders SELECT seq, seq % 500, MD5(seq), seq FROM seq_1_to_20000",
            "CREATE TABLE d.settings(id INT PRIMARY KEY, v INT)",
            "INSERT INTO d.settings VALUES (1, 1)",
            "CREATE TABLE d.grown(id INT PRIMARY KEY) STATS_AUTO_RECALC=0",
            "INSERT INTO d.grown SELECT seq FROM seq_1_to_2000",
            "CREATE TABLE d.uploads(id INT PRIMARY KEY, content MEDIUMBLOB)",
            "INSERT INTO d.uploads SELECT seq, REPEAT(MD5(seq), 600 + seq % 600) FROM seq_1_to_700",
            "ANALYZE TABLE d.large, d.orders, d.grown, d.uploads",
            "INSERT INTO d.grown SELECT seq FROM seq_2001_to_4000",
        ],
    );
    let none = Duration::ZERO;
    let load = [
        Asking::of(&theirs.url, none, |number| {
            format!("SELECT text FROM d.large WHERE id = {}", 1 + number % 60_000)
        }),
        Asking::of(&theirs.url, none, |_| "SELECT v FROM d.settings WHERE id = 1".to_owned()),
        Asking::of(&theirs.url, none, |number| {
            format!("SELECT * FROM d.orders WHERE customer = {}", number % 500)
        }),
    ];
    let work = Work::new();
    let said = |url: &str, more: &str| report(&work, &doctor(&work, url, more));
    let old = said(&theirs.url, "--for 2s --least-age 1s");
    let young = said(&theirs.url, "--for 1s");
    drop(load);
    let guest = said(&theirs.url.replace("owner", "guest"), "--for 1s");
    Planted { old, young, guest, log: read(&theirs.log) }
}

fn finds(planted: &Planted, check: &str, name: &str) -> Outcome {
    found(&planted.old, check, Answer::Look, name);
    Ok(())
}

fn duplicate(planted: &Planted) -> Outcome {
    assert_eq!(line(&planted.old, "my-duplicate-index").value, Some(1.0));
    finds(planted, "my-duplicate-index", "`narrow` of `d.orders`, by `wide`")
}

fn unused(planted: &Planted) -> Outcome {
    let young = line(&planted.young, "my-unused-index");
    assert_eq!(young.answer, Answer::CannotTell, "{young:#?}");
    finds(planted, "my-unused-index", "`narrow` of `d.orders`")
}

fn small_pool(planted: &Planted) -> Outcome {
    let young = line(&planted.young, "my-buffer-pool");
    assert_eq!(young.answer, Answer::CannotTell, "{young:#?}");
    finds(planted, "my-buffer-pool", "were not in the pool (8.39 MB")
}

fn blobs(planted: &Planted) -> Outcome {
    finds(planted, "my-blob-columns", "`d.uploads.content`")?;
    let command = line(&planted.old, "my-blob-columns").try_this.clone().ok_or("no command")?;
    let corpus = command.split_once("mariadb/blob --corpus ").ok_or("no corpus")?.1;
    Work::new().say(&format!("corpus --corpus {corpus}")).ended(0);
    Ok(())
}

fn few_rights(planted: &Planted) -> Outcome {
    let stale = line(&planted.guest, "my-stale-statistics");
    assert_eq!(stale.answer, Answer::CannotTell, "{stale:#?}");
    assert!(stale.figure.contains("PROCESS"), "{stale:#?}");
    assert_ne!(line(&planted.guest, "my-safe").answer, Answer::CannotTell);
    Ok(())
}

/// The log names a connection by its number, and the guest has no other.
fn only_reads(planted: &Planted) -> Outcome {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_guests = |line: &&str| line.contains("Connect") && line.contains("guest@");
    let connect = planted.log.lines().find(is_guests).ok_or("no guest")?;
    let id =
        words(connect).into_iter().rev().skip_while(|word| word != "Connect").nth(1).ok_or("no number")?;
    let queries: Vec<String> = planted
        .log
        .lines()
        .map(words)
        .filter_map(|words| {
            let at = words.iter().position(|word| word == "Query")?;
            (at > 0 && words[at - 1] == id).then(|| words[at + 1..].join(" "))
        })
        .collect();
    assert!(queries.len() > 12, "{queries:#?}");
    let others: Vec<&String> = queries
        .iter()
        .filter(|query| !["SELECT ", "SHOW GLOBAL "].iter().any(|begin| query.starts_with(begin)))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    Ok(())
}

fn healthy() -> Outcome {
    let theirs = mariadb(&["--performance-schema=ON"]);
    run(
        &theirs.url,
        &[
            "CREATE DATABASE d",
            "USE d",
            "CREATE TABLE d.t(id INT PRIMARY KEY, owner INT, text TEXT, KEY(owner))",
            "INSERT INTO d.t SELECT seq, seq % 4000, MD5(seq) FROM seq_1_to_40000",
            "ANALYZE TABLE d.t",
        ],
    );
    let pause = Duration::from_millis(20);
    let load = [
        Asking::of(&theirs.url, pause, |number| {
            format!("SELECT text FROM d.t WHERE id = {}", 1 + number % 40_000)
        }),
        Asking::of(&theirs.url, pause, |number| {
            format!("SELECT COUNT(*) FROM d.t WHERE owner = {}", number % 4000)
        }),
    ];
    let work = Work::new();
    let said = doctor(&work, &theirs.url, "--for 2s --least-age 1s");
    drop(load);
    looks_well(&report(&work, &said), Kind::MySql);
    Ok(())
}
