//! Database servers.

use super::Entry;

mod mongodb;
mod mssql;
#[cfg(feature = "mysql")]
pub(super) mod mysql;
#[cfg(feature = "postgres")]
pub(super) mod postgres;

/// Stores whose name does not begin with their family, with that family.
pub(super) const OWN_NAMES: &[(&str, &str)] = &[("gridfs", "mongodb")];

pub(super) const TABLE: &[Entry] = &[
    line!("postgres", postgres::BYTEA as "postgres/bytea"),
    line!("postgres", postgres::CHUNKED as "postgres/chunked"),
    line!("postgres", postgres::LARGE_OBJECT as "postgres/large-object"),
    line!("mysql", mysql::MARIADB_BLOB as "mariadb/blob"),
    line!("mysql", mysql::MARIADB_CHUNKED as "mariadb/chunked"),
    line!("mysql", mysql::MYSQL_BLOB as "mysql/blob"),
    line!("mysql", mysql::MYSQL_CHUNKED as "mysql/chunked"),
    line!("mongodb", mongodb::GRIDFS),
    line!("mongodb", mongodb::DOCUMENT),
    line!("mongodb", mongodb::FERRET_GRIDFS),
    line!("mongodb", mongodb::FERRET_DOCUMENT),
    line!("mssql", mssql::VARBINARY),
    Entry::Impossible {
        name: "mssql/filestream",
        why: "FILESTREAM is a feature of Windows: its files are opened through the file system of the server's own machine, and \
              SQL Server on Linux does not have it",
    },
];

/// How long a removal waits for the locks of others.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const LOCK_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Timeout of admin statements on a server of the user's, which may be out of reach.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const THEIR_PATIENCE: std::time::Duration = std::time::Duration::from_secs(600);

/// The error of an adapter whose driver is not compiled in.
#[cfg(not(all(feature = "mongodb", feature = "mssql")))]
fn without_driver(feature: &str) -> crate::store::Error {
    crate::store::Error::Failed(anyhow::anyhow!("this program was built without the feature `{feature}`"))
}
