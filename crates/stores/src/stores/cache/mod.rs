//! Caches, which may lose data: files are fast in them but not kept.

use super::Entry;
use super::files::directories;

#[cfg(feature = "memcached")]
pub(super) mod memcached;
#[cfg(feature = "redis")]
pub(super) mod redis;

pub(super) const TABLE: &[Entry] = &[
    Entry::Ready(&directories::RAMDISK),
    line!("memcached", memcached::ADAPTER as "memcached"),
    line!("redis", redis::REDIS as "redis"),
    line!("redis", redis::VALKEY as "valkey"),
];
