//! Free space of the disk below the user's database server, if that runs on this machine.

use std::path::Path;

use crate::host::machine::LocalServerProcess;
use crate::store::{Demand, LimitUnit, ServerLimit};

/// Free bytes and inodes below a server's data directory; empty if they cannot be read. `when_full` says what the server does
/// when none are left.
pub(in crate::stores) fn rooms(
    server: LocalServerProcess,
    dir: &str,
    when_full: &str,
    takes: impl Fn(&Demand<'_>) -> u64 + 'static,
) -> Vec<ServerLimit> {
    /// Tables, indexes and logs have a few files each, plus one per GiB.
    const FILES: u64 = 100;
    let Some(free) = server.free(Path::new(dir)) else { return Vec::new() };
    let room = |unit, left, takes| ServerLimit {
        limit: format!("the disk of its data directory `{dir}`"),
        unit,
        left,
        when_full: when_full.to_owned(),
        way_out: "make room there".to_owned(),
        takes,
    };
    let mut rooms =
        vec![room(LimitUnit::Bytes, free.bytes, Box::new(takes) as Box<dyn Fn(&Demand<'_>) -> u64>)];
    let files: Box<dyn Fn(&Demand<'_>) -> u64> =
        Box::new(|demand| FILES + (demand.written(|bytes| bytes) >> 30));
    rooms.extend(free.inodes.map(|inodes| room(LimitUnit::Inodes, inodes, files)));
    rooms
}
