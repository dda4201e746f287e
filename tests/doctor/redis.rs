//! Faults in Redis and Valkey, and servers that have none.

use blobwise::doctor::facts::SubjectKind;
use blobwise::doctor::finding::Answer;
use blobwise::host::server::Server;

use crate::program::{Outcome, Work, finish, missing, needing};
use crate::servers::{dies_between_looks, doctor, reported, watched_doctor};
use crate::theirs::{PASSWORD, redis};
use crate::trials::Trial;
use crate::{found, line, looks_well, report};

pub fn trials() -> Vec<Trial> {
    let of_store = |store: &'static str| {
        let named = |name: &str| format!("{store}: {name}");
        // Valkey's own client is not asked for: Redis's speaks to both.
        let lacks = || missing(store).or_else(|| missing("redis"));
        [
            needing(
                &named("a full memory, missing snapshots and slow commands are found"),
                lacks(),
                move || faults(store),
            ),
            needing(&named("a user without rights is told what to grant"), lacks(), move || {
                few_rights(store)
            }),
            needing(&named("a server that dies between the looks is a line"), lacks(), move || dies(store)),
            needing(&named("a healthy server is left in peace"), lacks(), move || healthy(store)),
        ]
    };
    ["redis", "valkey"].into_iter().flat_map(of_store).collect()
}

/// A server, its URL and its port.
fn started(store: &str, work: &Work, settings: &[&str]) -> (Server, String, u16) {
    let (server, port) = redis(store, work, &[&["--requirepass", PASSWORD], settings].concat());
    (server, format!("{store}://:{PASSWORD}@127.0.0.1:{port}"), port)
}

fn cli(work: &Work, port: u16, words: &[&str]) -> String {
    let mut command = work.command("redis-cli");
    command.args(["-p", &port.to_string()]).args(words).env("REDISCLI_AUTH", PASSWORD);
    finish(&mut command).ended(0).stdout
}

fn faults(store: &str) -> Outcome {
    let work = Work::new();
    let settings = [
        "--save",
        "",
        "--maxmemory",
        "8mb",
        "--maxmemory-policy",
        "noeviction",
        "--slowlog-log-slower-than",
        "0",
    ];
    let (_server, url, port) = started(store, &work, &settings);
    let large = "x".repeat(100_000);
    // Until the server refuses, which the client tells as an answer.
    for number in 0..200 {
        if cli(&work, port, &["SET", &format!("key{number}"), &large]).contains("OOM") {
            break;
        }
    }
    cli(&work, port, &["SLOWLOG", "RESET"]);
    let report = reported(&work, &url, "");
    found(&report, "redis-memory", Answer::Look, "maxmemory");
    found(&report, "redis-persistence", Answer::Look, "snapshots off, log off");
    found(&report, "redis-slow-commands", Answer::Look, "between the looks");
    assert_eq!(line(&report, "redis-evictions").answer, Answer::CannotTell, "it was just started");
    let wrong = doctor(&Work::new(), &url.replace(PASSWORD, "a-wrong-one"), "").ended(1);
    assert!(
        wrong.stdout.contains("cannot be asked: ") && !wrong.stdout.contains("a-wrong-one"),
        "{}",
        wrong.stdout
    );
    Ok(())
}

fn few_rights(store: &str) -> Outcome {
    let work = Work::new();
    let (_server, url, port) = started(store, &work, &[]);
    cli(&work, port, &["ACL", "SETUSER", "guest", "on", &format!(">{PASSWORD}"), "+info"]);
    let report = reported(&work, &url.replace("://:", "://guest:"), "");
    let grant = "ACL SETUSER guest +ping +info +config|get +slowlog|len";
    found(&report, "redis-persistence", Answer::CannotTell, grant);
    found(&report, "redis-slow-commands", Answer::CannotTell, grant);
    found(&report, "redis-answer-time", Answer::CannotTell, grant);
    assert_eq!(line(&report, "redis-memory").answer, Answer::Ok);
    // Whatever the URL says, no database is asked, and nothing but what was granted.
    let work = Work::new();
    cli(&work, port, &grant.split(' ').collect::<Vec<_>>());
    let report = reported(&work, &format!("{}/3", url.replace("://:", "://guest:")), "");
    for check in ["redis-persistence", "redis-slow-commands", "redis-answer-time"] {
        assert_ne!(line(&report, check).answer, Answer::CannotTell, "{check}");
    }
    Ok(())
}

fn dies(store: &str) -> Outcome {
    let work = Work::new();
    let (mut server, url, _port) = started(store, &work, &[]);
    dies_between_looks(&work, &mut server, &url)
}

fn healthy(store: &str) -> Outcome {
    let work = Work::new();
    let (_server, url, port) = started(store, &work, &[]);
    cli(&work, port, &["SET", "key", "value"]);
    let said = watched_doctor(&work, &url, "--least-age 1s");
    let report = report(&work, &said);
    let version = looks_well(&report, SubjectKind::Redis).version.clone().unwrap_or_default();
    assert!(version.to_lowercase().starts_with(store), "{version}");
    Ok(())
}
