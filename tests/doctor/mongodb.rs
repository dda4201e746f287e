//! Faults in what speaks MongoDB's protocol, and a server that has none. FerretDB is the one that can be had; what MongoDB itself would
//! say is judged in unit tests.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use blobwise::doctor::facts::SubjectKind;
use blobwise::doctor::finding::Answer;
use blobwise::doctor::report::CheckReport;
use blobwise::host::server::{Launch, Server};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, doc};
use tokio::runtime::{Builder, Runtime};

use crate::program::{Outcome, Work, missing, needing};
use crate::servers::{dies_between_looks, doctor, reported, watched_doctor};
use crate::theirs::{CLOSED, PASSWORD, PATIENCE, on_free_port, program};
use crate::trials::Trial;
use crate::{found, line, report, subject};

const STORE: &str = "ferretdb/document";

pub fn trials() -> Vec<Trial> {
    let named = |name: &str| format!("ferretdb: {name}");
    vec![
        needing(
            &named("files in GridFS, an index that is there twice and failing commands are found"),
            missing(STORE),
            faults,
        ),
        needing(&named("a wrong password is told as one"), missing(STORE), wrong_password),
        needing(&named("a server that dies between the looks is a line"), missing(STORE), dies),
        needing(&named("a healthy server is left in peace"), missing(STORE), healthy),
    ]
}

/// A server, and its URL without a database.
fn started(work: &Work, more: &[&str]) -> (Server, String) {
    let dir = work.path("theirs");
    std::fs::create_dir_all(dir.join("data")).unwrap();
    let program = program(STORE);
    on_free_port(|port| {
        let launch = Launch::new(&program, &dir)
            .args(["--handler=sqlite", "--debug-addr=-", "--telemetry=disable", "--log-level=warn"])
            .args(more)
            .arg(format!("--sqlite-url=file:{}/", dir.join("data").display()))
            .arg(format!("--state-dir={}", dir.display()))
            .arg(format!("--listen-addr=127.0.0.1:{port}"));
        let mut server = Server::start(&launch)?;
        // Over SQLite it takes every password in this way.
        let url = format!("mongodb://owner:{PASSWORD}@127.0.0.1:{port}/?authMechanism=PLAIN");
        let answers = || Ok(std::net::TcpStream::connect(("127.0.0.1", port)).map(drop)?);
        server.wait_until_ready(PATIENCE, answers)?;
        Ok((server, url))
    })
}

/// The vendor's driver, so that ours does not vouch for itself.
struct Client {
    runtime: Runtime,
    client: mongodb::Client,
}

impl Client {
    fn new(url: &str) -> Result<Client> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let client = runtime.block_on(mongodb::Client::with_uri_str(url))?;
        Ok(Client { runtime, client })
    }

    fn run(&self, command: Document) -> Result<Document> {
        let database = self.client.database("shop");
        Ok(self.runtime.block_on(async { database.run_command(command).await })?)
    }

    /// Files of 8 kB in GridFS, as drivers lay them out, and orders with two indexes.
    fn plant(&self, indexes: Document) -> Result<()> {
        let data = |byte: u8| Binary { subtype: BinarySubtype::Generic, bytes: vec![byte; 8000] };
        let files: Vec<Document> =
            (0..200).map(|id| doc! { "_id": id, "length": 8000_i64, "chunkSize": 261_120 }).collect();
        let chunks: Vec<Document> = (0..200_u8)
            .map(|id| doc! { "_id": i32::from(id), "files_id": i32::from(id), "n": 0, "data": data(id) })
            .collect();
        let orders: Vec<Document> = (0..200).map(|id| doc! { "_id": id, "a": id % 7, "b": id }).collect();
        for (name, documents) in [("fs.files", files), ("fs.chunks", chunks), ("orders", orders)] {
            self.run(doc! { "insert": name, "documents": documents })?;
        }
        let mut all = vec![doc! { "key": { "a": 1, "b": 1 }, "name": "both" }];
        all.extend((!indexes.is_empty()).then_some(indexes));
        self.run(doc! { "createIndexes": "orders", "indexes": all })?;
        Ok(())
    }
}

/// What fails while this is read.
fn keeps_failing(url: &str, is_over: &AtomicBool) {
    let client = Client::new(url).unwrap();
    while !is_over.load(Ordering::SeqCst) {
        assert!(client.run(doc! { "find": "orders", "filter": { "a": { "$nonsense": 1 } } }).is_err());
    }
}

fn faults() -> Outcome {
    let work = Work::new();
    let (_server, url) = started(&work, &[]);
    Client::new(&url)?.plant(doc! { "key": { "a": 1 }, "name": "alone" })?;
    let is_over = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| keeps_failing(&url, &is_over));
        let report = reported(&work, &url, "");
        is_over.store(true, Ordering::SeqCst);
        report
    });
    found(&report, "mongo-duplicate-index", Answer::Look, "`alone` of `shop.orders`, by `both`");
    found(&report, "mongo-failed-commands", Answer::Look, "`find`");
    found(&report, "mongo-blob-columns", Answer::Look, "`shop.fs.chunks.data`");
    let run = line(&report, "mongo-blob-columns").try_this.clone().unwrap_or_default();
    assert!(run.ends_with("files/hashed,sqlite,ferretdb/gridfs --corpus fixed:8000 --blobs 200"), "{run}");
    Ok(())
}

/// Where passwords count, a wrong one is told as what it is. With the right one the vendor's driver does not come in: it asks for no
/// empty exchange at the end (`skipEmptyExchange`), this server does not know the word and says `done: false`, and the driver gives up.
fn wrong_password() -> Outcome {
    const WRONG: &str = "a-wrong-one";
    let work = Work::new();
    let setup = ["--test-enable-new-auth", "--setup-database=admin", "--setup-username=owner"];
    let password = format!("--setup-password={PASSWORD}");
    let (_server, url) = started(&work, &[&setup[..], &[&password]].concat());
    let url = url.replace(PASSWORD, WRONG).replace("PLAIN", "SCRAM-SHA-256");
    let said = doctor(&work, &url, "").ended(1);
    assert!(
        said.stdout.contains("cannot be asked: ") && said.stdout.contains("Authentication failed"),
        "{}",
        said.stdout
    );
    assert!(!said.stdout.contains(WRONG), "{}", said.stdout);
    let nobody = format!("mongodb://me:{PASSWORD}@127.0.0.1:{CLOSED}");
    let said = doctor(&Work::new(), &nobody, "").ended(1);
    assert!(said.stdout.contains("cannot connect to `127.0.0.1`: Connection refused"), "{}", said.stdout);
    Ok(())
}

fn dies() -> Outcome {
    let work = Work::new();
    let (mut server, url) = started(&work, &[]);
    dies_between_looks(&work, &mut server, &url)
}

fn healthy() -> Outcome {
    let work = Work::new();
    let (_server, url) = started(&work, &[]);
    let client = Client::new(&url)?;
    client.plant(doc! {})?;
    client.run(doc! { "drop": "fs.chunks" })?;
    let said = watched_doctor(&work, &url, "--least-age 1s");
    let report = report(&work, &said);
    let subject = subject(&report, SubjectKind::MongoDb);
    let version = subject.version.clone().unwrap_or_default();
    assert!(version.starts_with("FerretDB 1.") && version.contains("says that it is MongoDB"), "{version}");
    // It tells little of itself: what it does not tell is neither good nor bad. Its answers are slow here, for `strace` stops the
    // doctor at each system call.
    let is_fair = |line: &CheckReport| {
        [Answer::Ok, Answer::CannotTell].contains(&line.answer) || line.check == "mongo-answer-time"
    };
    assert!(subject.lines.iter().all(is_fair), "{:#?}", subject.lines);
    assert!(line(&report, "mongo-answer-time").value.is_some_and(|ns| ns > 0.0));
    assert_eq!(line(&report, "mongo-blob-columns").answer, Answer::Ok);
    found(&report, "mongo-duplicate-index", Answer::Ok, "none of 3 is covered");
    found(&report, "mongo-long-operations", Answer::CannotTell, "not even this question");
    Ok(())
}
