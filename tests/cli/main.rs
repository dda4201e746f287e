//! The program as a user runs it: places that cannot be used, signals in every phase, results that others read.
//!
//! What a machine cannot do (a mount in a namespace, say) is ignored with the reason; with `BLOBWISE_REQUIRE_ALL=1`, as in
//! continuous integration, it fails.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "../common/arguments.rs"]
mod arguments;
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
#[cfg(all(feature = "mysql", feature = "postgres", feature = "s3"))]
mod objects;
#[path = "../common/obtainable.rs"]
mod obtainable;
mod places;
mod program;
mod results;
mod secrets;
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod servers;
mod signals;
#[cfg(all(feature = "postgres", feature = "mysql"))]
#[path = "../common/theirs.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod theirs;
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
    #[cfg(all(feature = "postgres", feature = "mysql"))]
    trials.extend(servers::trials());
    #[cfg(all(feature = "memcached", feature = "mysql", feature = "postgres", feature = "redis"))]
    trials.extend(caches::trials());
    #[cfg(all(feature = "mysql", feature = "postgres", feature = "s3"))]
    trials.extend(objects::trials().into_iter().chain(buckets::trials()));
    #[cfg(feature = "web")]
    trials.extend(web::trials());
    libtest_mimic::run(&arguments::arguments(), trials).exit_code()
}

/// Private servers stand behind a supervisor, which is the program itself and not this test.
#[expect(unsafe_code, reason = "changing the environment")]
fn name_the_supervisor() {
    // SAFETY: the first thing that is done, while there is one thread.
    unsafe { std::env::set_var("BLOBWISE_SUPERVISOR", program::BLOBWISE) };
}
