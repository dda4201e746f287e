//! The program as a user runs it: places that cannot be used, signals in every phase, results that others read.
//!
//! What a machine cannot do (a mount in a namespace, say) is ignored with the reason; with `BLOBWISE_REQUIRE_ALL=1`, as in
//! continuous integration, it fails.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(clippy::zombie_processes, reason = "a run that a failed test leaves is waited for by nobody")]

mod buckets;
mod caches;
mod check_store;
mod collections;
mod disks;
mod documented;
mod file_systems;
#[path = "../common/flipping.rs"]
mod flipping;
mod flips;
mod guards;
mod live;
mod manual;
mod memory;
mod modes;
mod objects;
#[path = "../common/obtainable.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod obtainable;
#[path = "../common/opening.rs"]
mod opening;
mod own;
mod places;
mod poolers;
mod private_servers;
mod program;
mod promises;
mod results;
mod rights;
mod rooms;
mod secrets;
mod servers;
mod signals;
#[path = "../common/theirs.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod theirs;
mod tls;
mod trace;
#[path = "../common/trials.rs"]
mod trials;
mod user_space;
mod web;

use std::process::ExitCode;

fn main() -> ExitCode {
    trials::name_the_supervisor();
    let mut trials = places::trials();
    trials.extend(signals::trials());
    trials.extend(results::trials());
    trials.extend(secrets::trials());
    trials.extend(check_store::trials());
    trials.extend(collections::trials());
    trials.extend(flips::trials());
    trials.extend(guards::trials());
    trials.extend(live::trials());
    trials.extend(manual::trials());
    trials.extend(memory::trials());
    trials.extend(file_systems::trials());
    trials.extend(disks::trials());
    trials.extend(user_space::trials());
    trials.extend(promises::trials());
    trials.extend(trace::trials());
    trials.extend(private_servers::trials());
    trials.extend(servers::trials());
    trials.extend(modes::trials());
    trials.extend(poolers::trials());
    trials.extend(caches::trials());
    trials.extend(own::trials());
    trials.extend(rooms::trials());
    trials.extend(tls::trials());
    trials.extend(objects::trials());
    trials.extend(buckets::trials());
    trials.extend(documented::trials());
    trials.extend(rights::trials());
    trials.extend(web::trials());
    trials::run(&trials::arguments(), trials, is_long)
}

/// Whether a trial is left to continuous integration: one of many that are alike but for a store, a plan or a phase, or a long one.
#[expect(clippy::too_many_lines, reason = "two tables of trials")]
fn is_long(name: &str) -> bool {
    /// What alike trials have in their names, and those of them that `./test.sh` runs.
    const ALIKE: &[(&str, &[&str])] = &[
        (" keeps within its memory", &["files/hashed ", "sqlite "]),
        (" runs tiny", &["plan default ", "plan horak-2010 "]),
        (" typed by ", &[]),
        ("SIGINT in ", &["fill"]),
        ("SIGTERM in ", &["read-warm"]),
        ("SIGKILL in ", &["overwrite", "reopen"]),
        (
            " share a server in class ",
            &["postgres/bytea,postgres/chunked,postgres/large-object share a server in class each-write"],
        ),
        ("what the indexes of ", &["sqlite"]),
        ("SIGKILL leaves no process of ", &["postgres/bytea", "memcached"]),
        ("a byte that changes under ", &["files/hashed", "sqlite"]),
        ("disk is measured ", &["in a directory"]),
        (" has the published schema", &["a run's"]),
        ("a plan of plans ", &["is run as it is"]),
        (" works where TMPDIR and --dir ", &["memcached"]),
        (" in user space ", &[]),
        ("TLS to ", &["redis"]),
        ("a store of one's own in ", &["Python"]),
        ("the log's reason is told", &["of PostgreSQL"]),
        ("PgBouncer in ", &["transaction"]),
        ("no mode of ", &["MariaDB"]),
        (" refuses after the database ", &["MariaDB"]),
        (" is killed before its tables ", &["MariaDB"]),
        ("the rights of a user of ", &["PostgreSQL", "redis"]),
        ("a run says what it will do in ", &["PostgreSQL"]),
        ("who is too slow for the pilot ", &["a process of its own"]),
    ];
    /// Trials of many rounds, of file systems that are made, and of programs that only continuous integration has.
    const LONG: &[&str] = &[
        "object store",
        "bucket",
        "of s3 ",
        "s3 ",
        "keys that are wrong",
        " version of a run ",
        "uploads that a killed run ",
        "parts are refused",
        "a server that turns ",
        "what cannot be removed is told",
        "Pgpool-II ",
        "MySQL Router ",
        "MySQL without patterns",
        "Bonnie++ ",
        "every candidate is on every file system",
        "one aged image serves ",
        "images and loop devices ",
        "devices are limited",
        "the disk below a candidate",
        "a sweep of memory ",
        "memory for reads only ",
        "a cache of files that others hold ",
        "a run with little memory ",
        "runs of some corpora ",
        "several runs are one page",
        "a mix has a cost",
        "reads in one transaction and in one each",
        "candidates of two classes",
        "a candidate at several sizes",
        "the advice of an answer",
        "what one phase puts off",
        "runs of stores that cannot run here",
        "a run compared with itself",
        "a run that is slower",
        "what failed and what had other blobs",
        "a fixed list at a rate",
        "a log is replayed in every kind of place",
        "batches are whole",
        "of zipfian reads ",
        "a budget cuts no corpus",
        "a budget is kept",
        "the parts of a disk ",
        "baselines are measured",
        "a run goes on in the directory",
        "two runs do not go on",
        "a run does not go on with ",
        "a directory that another run holds",
        "control groups of a run ",
        "a server that leaves its group",
        "a phase with little memory ",
        "who is too slow for the pilot is",
        "what redis takes ",
        "a redis that others fill ",
        "a database whose disk ",
        "a disk that fills up in a server",
        "a disk too small for a server",
        "a data directory that cannot be made",
        "a server that restarts ",
        "releases of PostgreSQL ",
        "a store of one's own is kept in each class",
        "a store of one's own that does not keep its contract",
        "a store of one's own by Redis's protocol",
        "a redis as a store of one's own",
    ];
    ALIKE.iter().any(|(alike, short)| name.contains(alike) && !short.iter().any(|words| name.contains(words)))
        || LONG.iter().any(|words| name.contains(words))
}
