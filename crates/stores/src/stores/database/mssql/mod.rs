//! SQL Server: a value in a `varbinary(max)` column, in the user's server.
//!
//! The adapter exists without the driver too, so that lists and pages are the same in every build.

#[cfg(feature = "mssql")]
mod connection;
#[cfg(feature = "mssql")]
mod place;
#[cfg(feature = "mssql")]
mod session;
#[cfg(feature = "mssql")]
mod statements;
#[cfg(feature = "mssql")]
mod store;

#[cfg(feature = "mssql")]
use self::place::intent;
#[cfg(feature = "mssql")]
use self::store::{MsSql, open};
use crate::store::*;
use crate::stores::common::keys::{self, KeyForm};
use crate::stores::common::servers::{self, CONNECTION, DELETE, URL};

const KEY: OptionSpec =
    keys::KEY.about("digest: a unique index over char(32); integer: a bigint primary key");
/// Microsoft's documentation of `.WRITE` recommends multiples of 8,040 bytes, the data of one page.
const WRITE: OptionSpec = OptionSpec::choice("write", &["whole", "8040", "80400", "1045200", "8040000"])
    .about("whole: one parameter for a blob; a number: pieces of that many bytes, appended by .WRITE in one transaction");
const ROWS: OptionSpec = OptionSpec::choice("rows", &["inline", "out-of-row"])
    .about("inline: blobs of up to 8000 B in the row (the vendor's default); out-of-row: never");
const ISOLATION: OptionSpec =
    OptionSpec::choice("isolation", &["read-committed", "repeatable-read", "serializable"])
        .about("isolation of every transaction");

pub(in crate::stores) const VARBINARY: Adapter = Adapter {
    name: "mssql/varbinary",
    about: "SQL Server: the blob in a varbinary(max) column",
    kind: Kind::Server,
    programs: &[],
    options: &[WRITE, ROWS, KEY, CONNECTION, DELETE, ISOLATION, URL],
    caps: |options| Capabilities {
        list: KeyForm::from_options(options) == KeyForm::Digest,
        streams: false,
        catalogue: false,
        one_transaction: None,
        blob_bytes_max: Some(BLOB_LIMIT),
        totals: false,
        backup: Backup::None("a server given by URL is not ours to back up, and this one is never another"),
        ..Capabilities::ALL
    },
    loss,
    integrity: |_, _| INTEGRITY,
    traits: servers::traits,
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs { of_server: Some(intent), ..Needs::NOTHING },
    open,
};

const BLOB_LIMIT: Limit = Limit { bytes: (1 << 31) - 1, source: "varbinary(max) is at most 2^31-1 bytes" };

/// Microsoft's documentation of PAGE_VERIFY: with CHECKSUM, the default, reading a page with a wrong checksum fails with error
/// 824.
const INTEGRITY: Integrity = Integrity::AsSet {
    fact: "page_verify",
    checked: &["CHECKSUM"],
    unchecked: &["NONE", "TORN_PAGE_DETECTION"],
};

/// Microsoft's documentation of delayed durability: a commit returns before its log is on disk, and "if a catastrophic event,
/// like a server crash, occurs, you will lose the data for all committed transactions that haven't been saved to disk". The facts
/// say whether the database allows that; if it does not, less is lost than declared here.
fn loss(_: &Options, durability: Durability) -> Losses {
    Losses::of_unflushed(durability)
}

/// Fails: this program was built without the driver.
#[cfg(not(feature = "mssql"))]
fn intent(_: &Setup) -> Result<Intent> {
    Err(super::without_driver("mssql"))
}

/// Fails: this program was built without the driver.
#[cfg(not(feature = "mssql"))]
fn open(_: &Setup) -> Result<Box<dyn Store>> {
    Err(super::without_driver("mssql"))
}
