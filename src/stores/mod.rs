//! The table of stores: one line each. A new store is one file and one line here.

use crate::store::{Adapter, Options};

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod catalogue;
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
mod database;
mod files;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod http2;
mod keys;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "memcached")]
mod memcached;
mod memory;
#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "mssql")]
mod mssql;
#[cfg(feature = "mysql")]
mod mysql;
mod null;
mod packed;
#[cfg(feature = "page")]
mod page;
#[cfg(feature = "postgres")]
mod postgres;
mod ramdisk;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "http", feature = "memcached", feature = "postgres", feature = "redis"))]
mod stream;
#[cfg(feature = "web")]
mod web;
#[cfg(any(feature = "http", feature = "memcached", feature = "redis"))]
mod wire;

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// Compiled in.
    Ready(&'static Adapter),
    /// Known, but its cargo feature was off when this program was built.
    NotCompiled {
        /// The store's name.
        name: &'static str,
        /// The cargo feature that brings it.
        feature: &'static str,
    },
    /// Known, and nothing that could be done here.
    Impossible {
        /// The store's name.
        name: &'static str,
        /// Why.
        why: &'static str,
    },
}

impl Entry {
    /// The store's name.
    pub fn name(&self) -> &'static str {
        match self {
            Entry::Ready(adapter) => adapter.name,
            Entry::NotCompiled { name, .. } | Entry::Impossible { name, .. } => name,
        }
    }
}

/// `line!("feature", module::ADAPTER as "name")` is the adapter where the feature is on, its name where not.
macro_rules! line {
    ($feature:literal, $adapter:path as $name:literal) => {{
        #[cfg(feature = $feature)]
        let entry = Entry::Ready(&$adapter);
        #[cfg(not(feature = $feature))]
        let entry = Entry::NotCompiled { name: $name, feature: $feature };
        entry
    }};
}

/// `composed!("feature", "feature of what is behind", ...)`: both are needed.
macro_rules! composed {
    ($feature:literal, $behind:literal, $adapter:path as $name:literal) => {{
        #[cfg(all(feature = $feature, feature = $behind))]
        let entry = Entry::Ready(&$adapter);
        #[cfg(all(feature = $feature, not(feature = $behind)))]
        let entry = Entry::NotCompiled { name: $name, feature: $behind };
        #[cfg(not(feature = $feature))]
        let entry = Entry::NotCompiled { name: $name, feature: $feature };
        entry
    }};
}

/// Every store there is, in the order in which they are listed.
pub const TABLE: &[Entry] = &[
    Entry::Ready(&null::ADAPTER),
    Entry::Ready(&memory::ADAPTER),
    Entry::Ready(&files::FLAT),
    Entry::Ready(&files::HASHED),
    Entry::Ready(&packed::ADAPTER),
    line!("sqlite", sqlite::ADAPTER as "sqlite"),
    line!("lmdb", lmdb::ADAPTER as "lmdb"),
    line!("redb", redb::ADAPTER as "redb"),
    line!("fjall", fjall::ADAPTER as "fjall"),
    line!("rocksdb", rocksdb::ADAPTER as "rocksdb"),
    line!("postgres", postgres::BYTEA as "postgres/bytea"),
    line!("postgres", postgres::CHUNKED as "postgres/chunked"),
    line!("postgres", postgres::LARGE_OBJECT as "postgres/large-object"),
    line!("mysql", mysql::MARIADB_BLOB as "mariadb/blob"),
    line!("mysql", mysql::MARIADB_CHUNKED as "mariadb/chunked"),
    line!("mysql", mysql::MYSQL_BLOB as "mysql/blob"),
    line!("mysql", mysql::MYSQL_CHUNKED as "mysql/chunked"),
    line!("mongodb", mongodb::GRIDFS as "gridfs"),
    line!("mongodb", mongodb::DOCUMENT as "mongodb/document"),
    line!("mssql", mssql::VARBINARY as "mssql/varbinary"),
    Entry::Ready(&files::RAMDISK),
    line!("memcached", memcached::ADAPTER as "memcached"),
    line!("redis", redis::REDIS as "redis"),
    line!("redis", redis::VALKEY as "valkey"),
    line!("s3", s3::ADAPTER as "s3"),
    line!("web", web::STATIC_NGINX as "nginx"),
    line!("web", web::STATIC_APACHE as "apache"),
    line!("web", web::STATIC_LIGHTTPD as "lighttpd"),
    line!("web", web::PLAIN as "http"),
    line!("web", web::FTP as "ftp"),
    line!("web", web::APACHE_READFILE as "apache-php/readfile"),
    line!("web", web::APACHE_APCU as "apache-php/apcu"),
    composed!("web", "memcached", web::APACHE_MEMCACHED as "apache-php/memcached"),
    composed!("web", "mysql", web::APACHE_MYSQL as "apache-php/mysql"),
    composed!("web", "postgres", web::APACHE_POSTGRES as "apache-php/postgres"),
    line!("web", web::NGINX_READFILE as "nginx-php/readfile"),
    line!("web", web::NGINX_APCU as "nginx-php/apcu"),
    composed!("web", "memcached", web::NGINX_MEMCACHED as "nginx-php/memcached"),
    composed!("web", "mysql", web::NGINX_MYSQL as "nginx-php/mysql"),
    composed!("web", "postgres", web::NGINX_POSTGRES as "nginx-php/postgres"),
    line!("page", page::SEPARATE as "page/separate"),
    line!("page", page::SPRITE as "page/sprite"),
    line!("page", page::INLINED as "page/inlined"),
    line!("page", page::AFTER_LOAD as "page/after-load"),
    line!("page", page::PRELOAD as "page/preload"),
    line!("page", page::PIPELINED as "page/pipelined"),
    Entry::Impossible {
        name: "mssql/filestream",
        why: "FILESTREAM is a feature of Windows: its files are opened through the file system of the server's own machine, and \
              SQL Server on Linux does not have it",
    },
];

/// The family that a store belongs to, whose name stands for all of its members in settings and variables: what is before
/// the slash, and `mongodb` for MongoDB's GridFS, which goes by its own name.
pub fn family(name: &str) -> &str {
    match name {
        "gridfs" => "mongodb",
        _ => name.split('/').next().unwrap_or(name),
    }
}

/// The yardstick that does nothing: what the harness itself costs.
pub const NULL: &Adapter = &null::ADAPTER;

/// Why this machine does not let a store be with these settings, beside programs that are missing.
pub fn refusal(adapter: &Adapter, options: &Options) -> Option<anyhow::Error> {
    #[cfg(feature = "web")]
    if adapter.name == web::FTP.name {
        return crate::server::cannot_confine();
    }
    let in_memory = adapter.name == files::RAMDISK.name || options.text(files::MEDIUM) == files::MEMORY;
    if in_memory { ramdisk::refusal() } else { None }
}

/// The compiled-in adapters.
pub fn adapters() -> impl Iterator<Item = &'static Adapter> {
    TABLE.iter().filter_map(|entry| match entry {
        Entry::Ready(adapter) => Some(*adapter),
        Entry::NotCompiled { .. } | Entry::Impossible { .. } => None,
    })
}

/// Every name in the table, compiled in or not.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(Entry::name)
}

/// The line of a name.
pub fn find(name: &str) -> Option<Entry> {
    TABLE.iter().find(|entry| entry.name() == name).copied()
}

#[cfg(test)]
mod tests {
    use super::adapters;
    use crate::plan::defaults;
    use crate::store::{Caps, Integrity};

    /// Whoever keeps something says who notices that it changed, and it is tried.
    #[test]
    fn what_is_kept_may_change_and_nothing_else() {
        for adapter in adapters() {
            let options = defaults(adapter);
            let Caps { persistent, durability, .. } = (adapter.caps)(&options);
            for class in durability {
                let integrity = (adapter.integrity)(&options, *class);
                assert_eq!(integrity != Integrity::NothingKept, persistent, "{}", adapter.name);
            }
        }
    }
}
