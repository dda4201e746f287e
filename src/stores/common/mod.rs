//! What several stores have in common.

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) mod catalogue;
pub(super) mod keys;
#[cfg(any(
    feature = "fjall",
    feature = "lmdb",
    feature = "mysql",
    feature = "postgres",
    feature = "redb",
    feature = "rocksdb",
    feature = "sqlite"
))]
pub(super) mod reader;
#[cfg(any(
    feature = "memcached",
    feature = "mongodb",
    feature = "mssql",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "s3",
    feature = "web"
))]
pub(super) mod servers;
