//! Faults in MariaDB and MySQL, planted in one server, and one that has none.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;

use blobwise::doctor::facts::SubjectKind;
use blobwise::doctor::finding::Answer;
use blobwise::doctor::report::DoctorReport;
use mysql::prelude::Queryable;

use crate::program::{Outcome, Work, missing, needing};
use crate::servers::{dies_between_looks, doctor, read, reported, watched_doctor};
use crate::theirs::{Theirs, mariadb, mysql as mysql_server};
use crate::trials::Trial;
use crate::{found, line, looks_well, report};

type Shared = Arc<LazyLock<Planted, Box<dyn FnOnce() -> Planted + Send>>>;

/// One of the two.
#[derive(Clone, Copy)]
struct Flavour {
    name: &'static str,
    /// How blobwise has a column of its.
    store: &'static str,
    start: fn(&[&str]) -> Theirs,
}

const FLAVOURS: [Flavour; 2] = [
    Flavour { name: "mariadb", store: "mariadb/blob", start: mariadb },
    Flavour { name: "mysql", store: "mysql/blob", start: mysql_server },
];

/// All faults are planted in one server of each, and each is its own test.
pub fn trials() -> Vec<Trial> {
    FLAVOURS
        .into_iter()
        .flat_map(of_flavour)
        .chain([needing("mariadb: a server that is too old is told so", missing("mariadb/blob"), too_old)])
        .collect()
}

fn of_flavour(flavour: Flavour) -> Vec<Trial> {
    let shared: Shared = Arc::new(LazyLock::new(Box::new(move || planted(flavour))));
    let named = |name: &str| format!("{}: {name}", flavour.name);
    let on = |name: &str, test: fn(&Planted) -> Outcome| {
        let shared = Arc::clone(&shared);
        needing(&named(name), missing(flavour.store), move || test(&shared))
    };
    vec![
        on("a missing index is found by its scans", |planted| finds(planted, "my-full-scans", "`d.orders`")),
        on("a query that reads far more than it sends is found", |planted| {
            finds(planted, "my-rows-examined", "customer = ?")
        }),
        on("a query that is asked all the time is found", |planted| {
            finds(planted, "my-frequent-query", "settings")
        }),
        on("stale statistics are found", |planted| finds(planted, "my-stale-statistics", "`d.grown`")),
        on("a duplicate index is found", duplicate),
        on("an unused index is found by old counters only", unused),
        on("a pool of a tenth of the data is found by old counters only", small_pool),
        on("a column of blobs is found, with a run that can be made", blobs),
        on("a user without rights is told what to grant", few_rights),
        on("it only reads", only_reads),
        needing(
            &named("a healthy server is left in peace, and one that is read-only"),
            missing(flavour.store),
            move || healthy(flavour),
        ),
        needing(
            &named("a server that dies between the looks is a line"),
            missing(flavour.store),
            move || {
                let mut theirs = (flavour.start)(&[]);
                dies_between_looks(&Work::new(), &mut theirs.server, &theirs.url)
            },
        ),
    ]
}

fn run(url: &str, statements: &[&str]) {
    let mut connection = mysql::Conn::new(url).unwrap();
    for statement in statements {
        connection.query_drop(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// A database, and numbers to fill its tables with.
fn numbers(url: &str) {
    run(
        url,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.numbers(seq INT PRIMARY KEY)",
            "INSERT INTO d.numbers VALUES (1)",
        ],
    );
    let doubled =
        (0..16).map(|power| format!("INSERT INTO d.numbers SELECT seq + {} FROM d.numbers", 1 << power));
    doubled.for_each(|statement| run(url, &[&statement]));
}

/// A connection that asks without a pause, until this is dropped.
struct Asking {
    until: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Asking {
    fn start(url: &str, pause: Duration, query: impl Fn(u64) -> String + Send + 'static) -> Asking {
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
    flavour: Flavour,
    old: DoctorReport,
    young: DoctorReport,
    guest: DoctorReport,
    log: String,
}

fn planted(flavour: Flavour) -> Planted {
    let theirs = (flavour.start)(&[
        "--performance-schema=ON",
        "--innodb-buffer-pool-size=8M",
        "--innodb-flush-log-at-trx-commit=2",
        // What the kernel keeps would be as fast as the pool, and then there is nothing to find.
        "--innodb-flush-method=O_DIRECT",
    ]);
    numbers(&theirs.url);
    run(
        &theirs.url,
        &[
            "CREATE TABLE d.large(id INT PRIMARY KEY, text TEXT)",
            "INSERT INTO d.large SELECT seq, REPEAT(LEFT(SHA2(seq, 256), 32), 30) FROM d.numbers WHERE seq <= 60000",
            "CREATE TABLE d.orders(id INT PRIMARY KEY, customer INT, note VARCHAR(40), extra INT, KEY narrow(note), KEY wide(note, customer))",
            "INSERT INTO d.orders SELECT seq, seq % 500, LEFT(SHA2(seq, 256), 32), seq FROM d.numbers WHERE seq <= 20000",
            "CREATE TABLE d.settings(id INT PRIMARY KEY, v INT)",
            "INSERT INTO d.settings VALUES (1, 1)",
            "CREATE TABLE d.grown(id INT PRIMARY KEY) STATS_AUTO_RECALC=0",
            "INSERT INTO d.grown SELECT seq FROM d.numbers WHERE seq <= 2000",
            "CREATE TABLE d.uploads(id INT PRIMARY KEY, content MEDIUMBLOB)",
            "INSERT INTO d.uploads SELECT seq, REPEAT(LEFT(SHA2(seq, 256), 32), 600 + seq % 600) FROM d.numbers WHERE seq <= 700",
            "ANALYZE TABLE d.large, d.orders, d.grown, d.uploads",
            "INSERT INTO d.grown SELECT seq FROM d.numbers WHERE seq BETWEEN 2001 AND 4000",
            "DROP TABLE d.numbers",
        ],
    );
    let none = Duration::ZERO;
    let load = [
        Asking::start(&theirs.url, none, |number| {
            format!("SELECT text FROM d.large WHERE id = {}", 1 + number % 60_000)
        }),
        // It waits, and computes nothing: its share of the time of all stays what it is where processors are scarce.
        Asking::start(&theirs.url, none, |_| {
            "SELECT v, SLEEP(0.002) FROM d.settings WHERE id = 1".to_owned()
        }),
        Asking::start(&theirs.url, none, |number| {
            format!("SELECT * FROM d.orders WHERE customer = {}", number % 500)
        }),
        Asking::start(&theirs.url, Duration::from_millis(20), |number| {
            format!("SELECT LENGTH(content) FROM d.uploads WHERE id = {}", 1 + number % 700)
        }),
    ];
    let work = Work::new();
    let old = reported(&work, &theirs.url, "--for 2s --least-age 1s");
    let young = reported(&work, &theirs.url, "--for 1s");
    drop(load);
    let guest = reported(&work, &theirs.url.replace("owner", "guest"), "--for 1s");
    Planted { flavour, old, young, guest, log: read(&theirs.log) }
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
    // That it is smaller than the data is told on the first day.
    found(&planted.young, "my-buffer-pool-size", Answer::Look, "innodb_buffer_pool_size = 8M, for ");
    finds(planted, "my-buffer-pool", "were not in the pool (8M;")
}

fn blobs(planted: &Planted) -> Outcome {
    finds(planted, "my-blob-columns", "`d.uploads.content`")?;
    finds(planted, "my-blob-columns", "their table's file was ")?;
    let figure = &line(&planted.old, "my-blob-columns").figure;
    // 30 kB each time, of a pool that holds less than half of them.
    assert!(!figure.contains("their table's file was 0 %") && figure.contains(" a second)"), "{figure}");
    finds(planted, "my-blob-columns", "of the time of queries went into what names it, as `SELECT")?;
    let command = line(&planted.old, "my-blob-columns").try_this.clone().ok_or("no command")?;
    let corpus = command.split_once(&format!("{} --corpus ", planted.flavour.store)).ok_or("no corpus")?.1;
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

/// The log names connections by number; the doctor's are those that the guest opened.
fn only_reads(planted: &Planted) -> Outcome {
    let lines: Vec<Vec<&str>> = planted.log.lines().map(|line| line.split_whitespace().collect()).collect();
    let number_before = |words: &[&str], kind| {
        let at = words.iter().position(|word| *word == kind)?;
        Some(words[at.checked_sub(1)?].to_owned())
    };
    let guests: HashSet<String> = lines
        .iter()
        .filter(|words| words.iter().any(|word| word.starts_with("guest@")))
        .filter_map(|words| number_before(words, "Connect"))
        .collect();
    let queries: Vec<String> = lines
        .iter()
        .filter(|words| number_before(words, "Query").is_some_and(|number| guests.contains(&number)))
        .map(|words| {
            words.iter().skip_while(|word| **word != "Query").skip(1).copied().collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert!(queries.len() > 12, "{queries:#?}");
    let others: Vec<&String> = queries
        .iter()
        .filter(|query| {
            !["SELECT ", "SHOW GLOBAL ", "SET SESSION "].iter().any(|begin| query.starts_with(begin))
        })
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    Ok(())
}

fn healthy(flavour: Flavour) -> Outcome {
    let theirs = (flavour.start)(&["--performance-schema=ON"]);
    numbers(&theirs.url);
    run(
        &theirs.url,
        &[
            "CREATE TABLE d.t(id INT PRIMARY KEY, owner INT, text TEXT, KEY(owner))",
            "INSERT INTO d.t SELECT seq, seq % 4000, LEFT(SHA2(seq, 256), 32) FROM d.numbers WHERE seq <= 40000",
            "ANALYZE TABLE d.t",
            "DROP TABLE d.numbers",
        ],
    );
    let pause = Duration::from_millis(20);
    let load = [
        Asking::start(&theirs.url, pause, |number| {
            format!("SELECT text FROM d.t WHERE id = {}", 1 + number % 40_000)
        }),
        Asking::start(&theirs.url, pause, |number| {
            format!("SELECT COUNT(*) FROM d.t WHERE owner = {}", number % 4000)
        }),
    ];
    let work = Work::new();
    let said = watched_doctor(&work, &theirs.url, "--for 2s --least-age 1s");
    let well = report(&work, &said);
    looks_well(&well, SubjectKind::MySql);
    assert_eq!(line(&well, "my-unused-index").answer, Answer::Ok);
    // When its table was made is told: what was restored since then is left out.
    if let Ok(facts) = std::fs::read_to_string(work.path("saved/facts.json")) {
        assert!(facts.contains("\"made_seconds\": ") && !facts.contains("\"made_seconds\": null"));
    }
    // As a replica is: what its source is asked is not counted here.
    run(&theirs.url, &["SET GLOBAL read_only = ON"]);
    let read_only = reported(&work, &theirs.url, "--least-age 1s");
    drop(load);
    looks_well(&read_only, SubjectKind::MySql);
    found(&read_only, "my-unused-index", Answer::CannotTell, "it is read-only");
    Ok(())
}

/// MariaDB says of itself what it is told to say, for clients that insist.
fn too_old() -> Outcome {
    let theirs = mariadb(&["--version=5.1.73-MariaDB"]);
    let said = doctor(&Work::new(), &theirs.url, "").ended(1);
    let text = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains(
            "cannot be asked: the server is older than MySQL 5.7 and MariaDB 10 (it says 5.1.73-MariaDB"
        ),
        "{text}"
    );
    assert!(text.contains("memory-available"), "{text}");
    Ok(())
}
