//! MongoDB and compatible servers: files in GridFS or one document per blob, in a private server or the user's.
//!
//! The adapters exist without the driver too, so that lists and pages are the same in every build.

#[cfg(feature = "mongodb")]
mod documents;
#[cfg(feature = "mongodb")]
mod ferret;
#[cfg(feature = "mongodb")]
mod files;
#[cfg(feature = "mongodb")]
mod instance;
#[cfg(feature = "mongodb")]
mod room;
#[cfg(feature = "mongodb")]
mod session;
#[cfg(feature = "mongodb")]
mod store;
#[cfg(feature = "mongodb")]
mod words;

#[cfg(feature = "mongodb")]
use self::room::intent;
#[cfg(feature = "mongodb")]
use self::store::{KEEPER_PATIENCE, Mongo, open};
use crate::host::server::Program;
use crate::store::*;
use crate::stores::common::keys::{KEY, KeyForm};
use crate::stores::common::servers::{self, CONNECTION, DELETE, PROFILE, URL};

const MONGOD: Program = Program {
    name: "mongod",
    places: &["/opt/mongodb*/bin", "/usr/local/mongodb*/bin"],
    variable: Some("BLOBWISE_MONGOD"),
    ask: &["--version"],
    says: "db version v",
    never_says: None,
    install: "apt-get install mongodb-org (with MongoDB's own repository), or name a server with --set mongodb.url=mongodb://HOST",
};

const COMPRESSION: OptionSpec = OptionSpec::choice("compression", &["snappy", "none", "zlib", "zstd"])
    .about("what WiredTiger compresses blocks with (snappy is the vendor's default)");

/// Half of the memory for the server; the kernel's page cache has the rest.
fn memory(options: &Options) -> CacheRecommendation {
    let tuned = CacheRecommendation {
        own: OwnCache::Share(0.5),
        words: "the larger of either 50% of (RAM - 1 GB), or 256 MB",
        link: "https://www.mongodb.com/docs/manual/core/wiredtiger/#memory-use",
    };
    servers::split(options, tuned)
}

pub(in crate::stores) const GRIDFS: Adapter = Adapter {
    name: "gridfs",
    about: "MongoDB: the blob as a file in GridFS",
    kind: Kind::Server,
    programs: &[MONGOD],
    options: &[
        OptionSpec::choice("chunk", &["16384", "65536", "131072", "261120", "524288", "1048576", "4194304", "8388608"])
            .default("261120")
            .about("bytes of a chunk (261120, that is 255 KiB, is what all drivers take)"),
        OptionSpec::choice("access", &["driver", "own"])
            .about("driver: its GridFS puts and gets whole blobs; own: the same collections by queries of this adapter's"),
        COMPRESSION,
        CONNECTION,
        DELETE,
        PROFILE,
        URL,
    ],
    caps: |_| GRIDFS_CAPS,
    loss,
    integrity: |_, _| INTEGRITY,
    traits: servers::traits,
    memory,
    needs: Needs { of_server: Some(intent), ..Needs::NOTHING },
    open: |setup| {
        let chunk = setup.options.number("chunk") as u32;
        let by_driver = setup.options.text("access") == "driver";
        open(setup, Speaker::MongoDb, MongoLayout::Files { chunk, by_driver })
    },
};

pub(in crate::stores) const DOCUMENT: Adapter = Adapter {
    name: "mongodb/document",
    about: "MongoDB: the blob as one document of at most 16 MiB",
    options: &[KEY, COMPRESSION, CONNECTION, DELETE, PROFILE, URL],
    caps: |options| Capabilities { list: KeyForm::from_options(options) == KeyForm::Digest, ..DOCUMENT_CAPS },
    open: |setup| open(setup, Speaker::MongoDb, MongoLayout::Documents),
    ..GRIDFS
};

/// A document has at most 16 MiB. The key and field names take a little of it. Some compatible servers count the command around
/// it as well, for which MongoDB grants another 16 KiB.
const DOCUMENT_LIMIT: Limit = Limit {
    bytes: (16 << 20) - (16 << 10),
    source: "MongoDB's largest document, 16 MiB with its key and the command around it",
};

/// Shared by both layouts. No batches: a server without a replica set, such as a private one, has no transactions over several
/// documents.
const CAPS: Capabilities = Capabilities {
    range: false,
    // GridFS can be read chunk by chunk, but readers must not see half of a replacement, so all chunks are collected first.
    streams: false,
    list: false,
    clients: ClientSupport::Server,
    backup: Backup::None("`mongodump` is a package of its own, which blobwise does not start"),
    other_data: true,
    ..Capabilities::ONE_BY_ONE
};

const GRIDFS_CAPS: Capabilities = Capabilities { range: true, list: true, ..CAPS };

/// No query operator returns a slice of binary data: a range read would transfer the whole document.
const DOCUMENT_CAPS: Capabilities = Capabilities { list: true, blob_bytes_max: Some(DOCUMENT_LIMIT), ..CAPS };

/// WiredTiger's documentation: every block has a checksum that is verified on reading. Other engines are undetermined.
const INTEGRITY: Integrity =
    Integrity::AsSet { fact: "storage_engine", checked: &["wiredTiger"], unchecked: &[] };

/// MongoDB's manual on journaling: journal records stay in memory for up to 100 ms, unless a write requests `j: true`, which
/// forces a flush of the journal; what was not flushed "can be lost following a hard shutdown of mongod", even if only the
/// process dies. Recovery always restores a consistent state.
fn loss(_: &Options, durability: Durability) -> Losses {
    Losses::of_unflushed(durability)
}

/// Fails: this program was built without the driver.
#[cfg(not(feature = "mongodb"))]
fn intent(_: &Setup) -> Result<Intent> {
    Err(super::without_driver("mongodb"))
}

/// Fails: this program was built without the driver.
#[cfg(not(feature = "mongodb"))]
fn open(_: &Setup, _: Speaker, _: MongoLayout) -> Result<Box<dyn Store>> {
    Err(super::without_driver("mongodb"))
}

#[cfg_attr(not(feature = "mongodb"), expect(dead_code, reason = "only the driver reads it"))]
#[derive(Clone, Copy, Debug)]
enum MongoLayout {
    Files { chunk: u32, by_driver: bool },
    Documents,
}

/// The product that speaks the protocol in a private server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    MongoDb,
    FerretDb,
}

/// FerretDB 1.x. Version 2 is a different program that needs PostgreSQL with an extension.
const FERRETDB: Program = Program {
    name: "ferretdb",
    places: &["~cache/blobwise/ferretdb-1*/bin"],
    variable: Some("BLOBWISE_FERRETDB"),
    ask: &["--version"],
    says: "version: v1.",
    never_says: None,
    install: "version 1.24.2 of https://github.com/FerretDB/FerretDB/releases, or ./test.sh, which builds it",
};

pub(in crate::stores) const FERRET_GRIDFS: Adapter = Adapter {
    name: "ferretdb/gridfs",
    about: "FerretDB over SQLite: the blob as a file in GridFS, a few chunks asked for one by one, more at once",
    caps: |_| GRIDFS_CAPS,
    // Not the driver's GridFS, which queries chunks by their file: FerretDB scans all chunks of all files for that.
    open: |setup| open(setup, Speaker::FerretDb, MongoLayout::Files { chunk: CHUNK_BYTES, by_driver: false }),
    ..FERRET_DOCUMENT
};

/// 255 KiB, the default of all drivers.
const CHUNK_BYTES: u32 = 261_120;

pub(in crate::stores) const FERRET_DOCUMENT: Adapter = Adapter {
    name: "ferretdb/document",
    about: "FerretDB over SQLite: the blob as one document of at most 16 MiB",
    kind: Kind::Server,
    programs: &[FERRETDB],
    options: &[],
    caps: |_| DOCUMENT_CAPS,
    loss: ferret_loss,
    // SQLite has no page checksums.
    integrity: |_, _| Integrity::Unchecked,
    traits: servers::traits,
    memory: |_| FERRET_MEMORY,
    needs: Needs::NOTHING,
    open: |setup| open(setup, Speaker::FerretDb, MongoLayout::Documents),
};

/// Each connection's cache has SQLite's default size, as in the store `sqlite`.
const FERRET_MEMORY: CacheRecommendation = CacheRecommendation {
    own: OwnCache::Bytes(2_048_000),
    words: "The default suggested cache size is -2000, which means the cache size is limited to 2048000 bytes of memory",
    link: "https://www.sqlite.org/pragma.html#pragma_cache_size",
};

/// SQLite's documentation of `PRAGMA synchronous`: OFF may corrupt the database on power loss; FULL flushes the log at every
/// commit. FerretDB replies after the commit.
fn ferret_loss(_: &Options, durability: Durability) -> Losses {
    let after_power_cut = match durability {
        Durability::None => Loss::StoreUnusable,
        Durability::OnSync | Durability::EachWrite => Loss::Nothing,
    };
    Losses { after_kill: Loss::Nothing, after_power_cut }
}
