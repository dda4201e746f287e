//! The room of the disk below a database server of the user's, where that runs on this machine.

use std::path::Path;

use crate::host::machine::Beside;
use crate::store::{Demand, Room, Unit};

/// What is left below a server's data directory, in bytes and in files; nothing where it cannot be looked at. `when_full` is what the
/// server does then.
pub(in crate::stores) fn rooms(
    server: Beside,
    dir: &str,
    when_full: &str,
    takes: impl Fn(&Demand<'_>) -> u64 + 'static,
) -> Vec<Room> {
    /// Tables, indexes and logs have some files each, and one more for each GiB.
    const FILES: u64 = 100;
    let Some(free) = server.free(Path::new(dir)) else { return Vec::new() };
    let room = |unit, left, takes| Room {
        limit: format!("the disk of its data directory `{dir}`"),
        unit,
        left,
        when_full: when_full.to_owned(),
        way_out: "make room there".to_owned(),
        takes,
    };
    let mut rooms = vec![room(Unit::Bytes, free.bytes, Box::new(takes) as Box<dyn Fn(&Demand<'_>) -> u64>)];
    let files: Box<dyn Fn(&Demand<'_>) -> u64> =
        Box::new(|demand| FILES + (demand.written(|bytes| bytes) >> 30));
    rooms.extend(free.inodes.map(|inodes| room(Unit::Inodes, inodes, files)));
    rooms
}
