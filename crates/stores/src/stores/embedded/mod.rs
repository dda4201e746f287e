//! Databases that run inside this process.

use super::Entry;

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sqlite")]
mod sqlite;

pub(super) const TABLE: &[Entry] = &[
    line!("sqlite", sqlite::ADAPTER as "sqlite"),
    line!("lmdb", lmdb::ADAPTER as "lmdb"),
    line!("redb", redb::ADAPTER as "redb"),
    line!("fjall", fjall::ADAPTER as "fjall"),
    line!("rocksdb", rocksdb::ADAPTER as "rocksdb"),
];
