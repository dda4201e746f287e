//! Free space of the disk below the user's database server, if that runs on this machine.

use std::path::Path;

use crate::host::machine::LocalServerProcess;
use crate::store::{Demand, LimitUnit, ServerLimit};

/// Free bytes and inodes below a directory of a server; empty if they cannot be read. `what` says what lies there, such as "data
/// directory", and `when_full` what the server does when none are left.
pub(in crate::stores) fn rooms(
    server: LocalServerProcess,
    what: &str,
    dir: &str,
    when_full: &str,
    takes: impl Fn(&Demand<'_>) -> u64 + 'static,
) -> Vec<ServerLimit> {
    /// Tables, indexes and logs have a few files each, plus one per GiB.
    const FILES: u64 = 100;
    let Some(free) = server.free(Path::new(dir)) else { return Vec::new() };
    let limit = format!("the disk of its {what} `{dir}`");
    let inodes = free.inodes.map(|inodes| {
        let files = |demand: &Demand<'_>| FILES + (demand.written(|bytes| bytes) >> 30);
        let disk = ServerLimit::disk(limit.clone(), inodes, when_full, files);
        ServerLimit { unit: LimitUnit::Inodes, ..disk }
    });
    std::iter::once(ServerLimit::disk(limit.clone(), free.bytes, when_full, takes)).chain(inodes).collect()
}

/// The same for a log, if it lies on another disk than the data.
pub(in crate::stores) fn rooms_of_log(
    server: LocalServerProcess,
    [what, dir, data]: [&str; 3],
    when_full: &str,
    takes: impl Fn(&Demand<'_>) -> u64 + 'static,
) -> Vec<ServerLimit> {
    let device = |dir: &str| server.free(Path::new(dir)).map(|free| free.device);
    match device(dir) == device(data) {
        true => Vec::new(),
        false => rooms(server, what, dir, when_full, takes),
    }
}
