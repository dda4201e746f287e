//! What a run makes in the user's MongoDB, other receivers of its writes, and the disk space that the server reports.

use mongodb::bson::doc;

use super::KEEPER_PATIENCE;
use crate::store::*;
use crate::stores::common::servers::OURS;
use crate::units;
use crate::wire::mongodb::{MongoClient, configure, options_of, value_at};

pub(super) fn intent(setup: &Setup) -> Result<Intent> {
    let mut options = options_of(setup.options.text("url"))?;
    configure(&mut options, setup.op_timeout, false);
    let admin = MongoClient::open(&options, "admin", KEEPER_PATIENCE)?;
    let stats = admin.ask(doc! { "dbStats": 1 })?.unwrap_or_default();
    let number = |name: &str| value_at(&stats, &[name]).and_then(|value| value.parse::<f64>().ok());
    let free =
        number("fsTotalSize").zip(number("fsUsedSize")).map(|(all, used)| (all - used).max(0.0) as u64);
    let disk = "the disk of its data directory".to_owned();
    let room = free.map(|left| ServerLimit::disk(disk, left, "stops", taken));
    let unknown = room.is_none().then(|| "the server does not say what its disk has free".to_owned());
    let status = admin.ask(doc! { "serverStatus": 1 })?.unwrap_or_default();
    let connections =
        value_at(&status, &["connections", "available"]).and_then(|left| left.parse::<u64>().ok());
    let connections = connections.map(|left| ServerLimit {
        // A client of the driver has a second one, which monitors the server.
        takes: Box::new(|demand| 2 * demand.connections),
        ..ServerLimit::connections("net.maxIncomingConnections".to_owned(), left)
    });
    let hello = admin.ask(doc! { "hello": 1 })?.unwrap_or_default();
    let members = hello.get_array("hosts").map_or(0, Vec::len);
    let carriers = value_at(&hello, &["setName"]).map(|set| {
        format!("the oplog of the replica set `{set}` ({})", units::counted(members as u64, "member"))
    });
    Ok(Intent {
        makes: format!("makes a database `{OURS}...`"),
        pronoun: "it",
        unknown,
        limits: room.into_iter().chain(connections).collect(),
        carriers: carriers.into_iter().collect(),
    })
}

/// Bytes of the collections, which reuse space only after a checkpoint, and of their indexes.
fn taken(demand: &Demand<'_>) -> u64 {
    const FILES_BYTES: u64 = 1 << 20;
    FILES_BYTES + demand.written(|bytes| bytes + bytes / 5 + 1024)
}
