//! Faults in Redis, and a server that has none.

use blobwise::doctor::facts::Kind;
use blobwise::doctor::finding::Answer;
use blobwise::host::server::{Launch, Server, free_port};
use libtest_mimic::Trial;

use crate::program::{Outcome, Work, finish, missing, needing};
use crate::servers::doctor;
use crate::theirs::{PASSWORD, PATIENCE, program};
use crate::{found, line, looks_well, report};

pub fn trials() -> Vec<Trial> {
    vec![
        needing("redis: a full memory and missing snapshots are found", missing("redis"), faults),
        needing("redis: a healthy server is left in peace", missing("redis"), healthy),
    ]
}

fn redis(work: &Work, settings: &[&str]) -> (Server, String, u16) {
    let dir = work.path("theirs");
    std::fs::create_dir(&dir).unwrap();
    let port = free_port().unwrap();
    let program = program("redis");
    let launch = Launch::new(&program, &dir)
        .args(["--bind", "127.0.0.1", "--requirepass", PASSWORD, "--port", &port.to_string()])
        .args(settings);
    let mut server = Server::start(&launch).unwrap();
    server
        .wait_until_ready(PATIENCE, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).map(drop).map_err(anyhow::Error::from)
        })
        .unwrap();
    (server, format!("redis://:{PASSWORD}@127.0.0.1:{port}"), port)
}

fn cli(work: &Work, port: u16, words: &[&str]) -> String {
    let mut command = work.command("redis-cli");
    command.args(["-p", &port.to_string()]).args(words).env("REDISCLI_AUTH", PASSWORD);
    finish(&mut command).ended(0).stdout
}

fn faults() -> Outcome {
    let work = Work::new();
    let (_server, url, port) =
        redis(&work, &["--save", "", "--maxmemory", "8mb", "--maxmemory-policy", "noeviction"]);
    let large = "x".repeat(100_000);
    // Until the server refuses, which the client tells as an answer.
    for number in 0..200 {
        if cli(&work, port, &["SET", &format!("key{number}"), &large]).contains("OOM") {
            break;
        }
    }
    let said = doctor(&work, &url, "");
    let report = report(&work, &said);
    found(&report, "redis-memory", Answer::Look, "its limit");
    found(&report, "redis-persistence", Answer::Look, "snapshots off, log off");
    assert_eq!(line(&report, "redis-evictions").answer, Answer::CannotTell, "it was just started");
    let wrong = doctor(&Work::new(), &url.replace(PASSWORD, "a-wrong-one"), "").ended(1);
    assert!(
        wrong.stdout.contains("cannot be asked: ") && !wrong.stdout.contains("a-wrong-one"),
        "{}",
        wrong.stdout
    );
    Ok(())
}

fn healthy() -> Outcome {
    let work = Work::new();
    let (_server, url, port) = redis(&work, &[]);
    cli(&work, port, &["SET", "key", "value"]);
    let said = doctor(&work, &url, "--least-age 1s");
    looks_well(&report(&work, &said), Kind::Redis);
    Ok(())
}
