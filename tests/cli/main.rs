//! The program as a user runs it: places that cannot be used, signals in every phase, results that others read.
//!
//! What a machine cannot do (a mount in a namespace, say) is ignored with the reason; with `BLOBWISE_REQUIRE_ALL=1`, as in
//! continuous integration, it fails.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[cfg(all(feature = "mysql", feature = "postgres", feature = "s3"))]
mod buckets;
#[cfg(all(feature = "memcached", feature = "mysql", feature = "postgres", feature = "redis"))]
mod caches;
mod collections;
mod disks;
mod file_systems;
#[path = "../common/flipping.rs"]
mod flipping;
mod flips;
mod guards;
mod live;
mod manual;
mod memory;
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod modes;
#[cfg(all(feature = "mysql", feature = "postgres", feature = "s3"))]
mod objects;
#[path = "../common/obtainable.rs"]
mod obtainable;
mod places;
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod poolers;
#[cfg(all(
    feature = "memcached",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "web"
))]
mod private_servers;
mod program;
mod results;
#[cfg(all(feature = "mysql", feature = "postgres", feature = "redis", feature = "s3"))]
mod rights;
#[cfg(all(feature = "memcached", feature = "mysql", feature = "postgres", feature = "redis"))]
mod rooms;
mod secrets;
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod servers;
mod signals;
#[cfg(all(feature = "postgres", feature = "mysql"))]
#[path = "../common/theirs.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod theirs;
#[path = "../common/trials.rs"]
mod trials;
mod user_space;
#[cfg(feature = "web")]
mod web;

use std::process::ExitCode;

fn main() -> ExitCode {
    name_the_supervisor();
    let mut trials = places::trials();
    trials.extend(signals::trials());
    trials.extend(results::trials());
    trials.extend(secrets::trials());
    trials.extend(collections::trials());
    trials.extend(flips::trials());
    trials.extend(guards::trials());
    trials.extend(live::trials());
    trials.extend(manual::trials());
    trials.extend(memory::trials());
    trials.extend(file_systems::trials());
    trials.extend(disks::trials());
    trials.extend(user_space::trials());
    #[cfg(all(
        feature = "memcached",
        feature = "mysql",
        feature = "postgres",
        feature = "redis",
        feature = "web"
    ))]
    trials.extend(private_servers::trials());
    #[cfg(all(feature = "postgres", feature = "mysql"))]
    {
        trials.extend(servers::trials());
        trials.extend(modes::trials());
        trials.extend(poolers::trials());
    }
    #[cfg(all(feature = "memcached", feature = "mysql", feature = "postgres", feature = "redis"))]
    trials.extend(caches::trials());
    #[cfg(all(feature = "memcached", feature = "mysql", feature = "postgres", feature = "redis"))]
    trials.extend(rooms::trials());
    #[cfg(all(feature = "mysql", feature = "postgres", feature = "s3"))]
    trials.extend(objects::trials().into_iter().chain(buckets::trials()));
    #[cfg(all(feature = "mysql", feature = "postgres", feature = "redis", feature = "s3"))]
    trials.extend(rights::trials());
    #[cfg(feature = "web")]
    trials.extend(web::trials());
    trials::run(&trials::arguments(), trials, is_long)
}

/// Whether a trial is left to continuous integration: one of many that are alike but for a store, a plan or a phase, or one of a
/// program that only continuous integration builds.
fn is_long(name: &str) -> bool {
    /// What alike trials have in their names, and those of them that `./test.sh` runs.
    const ALIKE: &[(&str, &[&str])] = &[
        (" keeps within its memory", &["files/hashed ", "sqlite ", "postgres/bytea ", "redis "]),
        (" runs tiny", &["plan default ", "plan horak-2010 "]),
        ("SIGINT in ", &["fill"]),
        ("SIGTERM in ", &["read-warm"]),
        ("SIGKILL in ", &["overwrite", "reopen"]),
        (" share a server in class ", &["postgres/bytea,postgres/chunked,postgres/large-object"]),
        ("what the indexes of ", &["sqlite", "postgres/bytea"]),
        ("SIGKILL leaves no process of ", &["postgres/bytea", "memcached"]),
        ("a byte that changes under ", &["files/hashed", "sqlite", "postgres/bytea"]),
        ("disk is measured ", &["in a directory"]),
        ("Bonnie++ ", &[]),
    ];
    const OBJECT_STORES: &[&str] = &["object store", "bucket", "of s3 ", "s3 ", "keys that are wrong"];
    ALIKE.iter().any(|(alike, short)| name.contains(alike) && !short.iter().any(|words| name.contains(words)))
        || OBJECT_STORES.iter().any(|words| name.contains(words))
}

/// Private servers stand behind a supervisor, which is the program itself and not this test.
#[expect(unsafe_code, reason = "changing the environment")]
fn name_the_supervisor() {
    // SAFETY: the first thing that is done, while there is one thread.
    unsafe { std::env::set_var("BLOBWISE_SUPERVISOR", program::BLOBWISE) };
}
