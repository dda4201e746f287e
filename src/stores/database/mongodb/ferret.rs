//! FerretDB: MongoDB's protocol over SQLite, in a private server under its own name.

use std::path::Path;

use anyhow::anyhow;

use super::instance::Speaker;
use super::{DOCUMENT_CAPS, GRIDFS_CAPS, Shape, open};
use crate::host::server::Program;
use crate::store::*;
use crate::stores::common::servers;

/// Version 2 is another program: it needs a PostgreSQL with an extension of its own.
pub(super) const FERRETDB: Program = Program {
    name: "ferretdb",
    places: &["~cache/blobwise/ferretdb-1*/bin"],
    variable: Some("BLOBWISE_FERRETDB"),
    ask: &["--version"],
    says: "version: v1.",
    never_says: None,
    install: "version 1.24.2 of https://github.com/FerretDB/FerretDB/releases, or ./test.sh, which builds it",
};

pub(in crate::stores) const GRIDFS: Adapter = Adapter {
    name: "ferretdb/gridfs",
    about: "FerretDB over SQLite: the blob as a file in GridFS, a few chunks asked for one by one, more at once",
    caps: |_| GRIDFS_CAPS,
    // Not by the driver's GridFS, which asks for chunks by their file: FerretDB goes through all chunks of all files for that.
    open: |setup| open(setup, Speaker::FerretDb, Shape::Files { chunk: CHUNK_BYTES, by_driver: false }),
    ..DOCUMENT
};

/// 255 KiB, as all drivers take.
const CHUNK_BYTES: u32 = 261_120;

pub(in crate::stores) const DOCUMENT: Adapter = Adapter {
    name: "ferretdb/document",
    about: "FerretDB over SQLite: the blob as one document of at most 16 MiB",
    kind: Kind::Server,
    programs: &[FERRETDB],
    options: &[],
    caps: |_| DOCUMENT_CAPS,
    loss,
    // SQLite has no checksums of pages.
    integrity: |_, _| Integrity::Unchecked,
    traits: servers::traits,
    memory: |_| MEMORY,
    needs: Needs::NOTHING,
    open: |setup| open(setup, Speaker::FerretDb, Shape::Documents),
};

/// Each connection's cache stays as SQLite is shipped, as in the store `sqlite`.
const MEMORY: Split = Split {
    own: OwnCache::Bytes(2_048_000),
    words: "The default suggested cache size is -2000, which means the cache size is limited to 2048000 bytes of memory",
    link: "https://www.sqlite.org/pragma.html#pragma_cache_size",
};

/// FerretDB ignores write concerns and has no command that flushes: only a setting of SQLite's for the whole server decides. So
/// both durable classes flush each write.
fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::None => "off",
        Durability::OnSync | Durability::EachWrite => "full",
    }
}

/// SQLite's documentation of `PRAGMA synchronous`: OFF may corrupt the database on power loss; FULL flushes the log at every
/// commit. FerretDB answers when it has committed.
fn loss(_: &Options, durability: Durability) -> Losses {
    let after_power_cut = match durability {
        Durability::None => Loss::StoreUnusable,
        Durability::OnSync | Durability::EachWrite => Loss::Nothing,
    };
    Losses { after_kill: Loss::Nothing, after_power_cut }
}

/// What keeps the documents in a class, as it is asked for.
pub(super) fn backend(durability: Durability) -> String {
    format!("sqlite journal_mode=wal synchronous={}", synchronous(durability))
}

/// What it is started with. Where it would listen by itself is emptied, and it tells nobody that it runs.
pub(super) fn arguments(setup: &Setup, data: &Path, socket: &Path) -> Result<Vec<String>> {
    let path = data.to_str().filter(|path| !path.contains(['?', '#', '%']));
    let path = path.ok_or_else(|| {
        let shown = data.display();
        Error::Failed(anyhow!("FerretDB takes its directory as a URL, in which `{shown}` cannot be written"))
    })?;
    let cache_kib = (setup.cache_bytes / setup.workers.max(1) as u64) >> 10;
    let pragmas = format!(
        "_pragma=journal_mode(wal)&_pragma=synchronous({})&_pragma=cache_size(-{})&_pragma=busy_timeout({})",
        synchronous(setup.durability),
        cache_kib.max(1024),
        // How long a writer waits for the others, as in the store `sqlite`: FerretDB gives up after 10 s otherwise.
        setup.op_timeout.as_millis()
    );
    Ok(vec![
        "--handler=sqlite".to_owned(),
        format!("--sqlite-url=file:{path}/?{pragmas}"),
        format!("--state-dir={}", setup.dir.display()),
        format!("--listen-unix={}", socket.display()),
        "--listen-addr=".to_owned(),
        "--debug-addr=-".to_owned(),
        "--telemetry=disable".to_owned(),
        "--log-level=warn".to_owned(),
    ])
}
