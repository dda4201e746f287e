//! What a store can do with its options.

use super::{Backup, Durability, Error, Result};

/// What a store can do with its options. Conformance tests exercise every flag that is true; for a flag that is false the store
/// must refuse.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// The durability classes that it can promise.
    pub durability: &'static [Durability],
    /// Blobs survive close and open.
    pub persistent: bool,
    /// Keeps the contents of blobs (the null store does not).
    pub contents: bool,
    /// Replaces and deletes blobs. A store that does not is append-only: it takes each key once and refuses every delete.
    pub changes: bool,
    /// A reader never sees half of a put.
    pub atomic_put: bool,
    /// `Span::Part` is served without reading the whole blob through the interface.
    pub range: bool,
    /// A whole blob is read in pieces of at most [`PIECE_BYTES_MAX`], or lent out of a mapped file: it is never in memory as a
    /// whole.
    pub streams: bool,
    /// Supports [`Session::list`].
    pub list: bool,
    /// Supports [`Session::put_batch`] and [`Session::delete_batch`].
    pub batch: bool,
    /// Supports [`Session::get_many`].
    pub get_many: bool,
    /// Allows several sessions at once.
    pub many: bool,
    /// Supports [`Store::open_catalogue`] and [`Session::catalogue`].
    pub catalogue: bool,
    /// Isolation of [`Store::reader`]; `None` if several reads cannot share a transaction.
    pub one_transaction: Option<ReadIsolation>,
    /// The largest blob it takes, and the source of that limit.
    pub blob_bytes_max: Option<Limit>,
    /// Supports [`Store::totals`].
    pub totals: bool,
    /// A program's other data can live in it too, and is part of its backups.
    pub other_data: bool,
    /// How it is backed up; none for the user's server and for a server that candidates share.
    pub backup: Backup,
    /// How it is rewritten, if its vendor documents a way.
    pub compaction: Option<Compaction>,
    /// What other processes may do with a store that one process has opened.
    pub clients: ClientSupport,
    /// The most inodes that it takes in its directory.
    pub inodes: Inodes,
}

/// How a store is rewritten by its vendor's own means, so that it keeps no room of replaced and deleted blobs. Each has the call or
/// statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// [`super::Store::compact`] rewrites the open store.
    InPlace(&'static str),
    /// [`super::Store::compact_into`] writes a compact copy, which takes the place of the store while that is closed.
    Copy(&'static str),
}

/// The most inodes that a store takes, for file systems with a fixed number of them.
#[derive(Clone, Copy, Debug)]
pub struct Inodes {
    /// Inodes per blob.
    pub each_blob: u64,
    /// Levels of directories that the blobs' files are spread over, and the most entries per directory.
    pub spread: (u32, u64),
    /// Inodes for everything else, such as a server's own files.
    pub beside: u64,
}

impl Inodes {
    /// For a store that keeps all blobs in a few files.
    pub const FEW: Inodes = Inodes { each_blob: 0, spread: (0, 0), beside: 100 };

    /// Inodes needed for this many blobs.
    pub fn needed_for(self, blobs: u64) -> u64 {
        let (levels, names) = self.spread;
        let directories = (1..=levels).map(|level| names.saturating_pow(level).min(blobs)).sum::<u64>();
        self.each_blob.saturating_mul(blobs) + directories + self.beside
    }
}

/// The largest piece of a streamed read, in bytes.
pub const PIECE_BYTES_MAX: usize = 1 << 20;

/// What the other processes of an MPI run may do with a store that one process opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientSupport {
    /// Nothing, for this reason.
    One(&'static str),
    /// Each process has a store of its own: there is nothing to share, and no process reads what another one put.
    Each,
    /// They open sessions with it over the network ([`super::Store::join_token`]): from this host if the server is private, or
    /// from any host that reaches the given URL.
    Server,
    /// As `Server` in every class but this one, for this reason.
    ServerBut(Durability, &'static str),
    /// As `Server`, but they also need the server's directory, at the path that the opening process uses.
    Directory,
}

/// Default: only the process that opened the store may use it.
const ALONE: ClientSupport = ClientSupport::One("the process that has it open has it alone");

impl Capabilities {
    /// Everything enabled: adapters override what they cannot do.
    pub const ALL: Capabilities = Capabilities {
        durability: Durability::ALL,
        persistent: true,
        contents: true,
        changes: true,
        atomic_put: true,
        range: true,
        streams: true,
        list: true,
        batch: true,
        get_many: true,
        many: true,
        catalogue: true,
        one_transaction: Some(ReadIsolation::Snapshot),
        blob_bytes_max: None,
        totals: true,
        other_data: true,
        backup: Backup::UNSAID,
        compaction: None,
        clients: ALONE,
        inodes: Inodes::FEW,
    };

    /// One blob at a time: no batches, transactions, catalogue or count of all.
    pub const ONE_BY_ONE: Capabilities = Capabilities {
        batch: false,
        get_many: false,
        catalogue: false,
        one_transaction: None,
        totals: false,
        other_data: false,
        ..Capabilities::ALL
    };
}

named! {
    /// What the reads of one transaction see of concurrent writes, by the vendor's description of its isolation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ReadIsolation {
        /// Nothing: the transaction reads one snapshot.
        Snapshot = "snapshot",
        /// Everything committed before each read (read committed).
        Latest = "latest",
        /// Nothing: writers of what was read wait until the transaction ends.
        Locked = "locked",
    }
}

/// A hard limit and its source, for table cells that say "not possible".
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Largest allowed size in bytes.
    pub bytes: u64,
    /// Where the limit comes from.
    pub source: &'static str,
}

impl Limit {
    /// Refuses a larger blob, before anything is copied.
    pub fn check(self, blob: &[u8]) -> Result<()> {
        if blob.len() as u64 > self.bytes {
            let (len, bytes, source) = (blob.len(), self.bytes, self.source);
            return Err(Error::Failed(anyhow::anyhow!(
                "a blob of {len} B is over the limit of {bytes} B ({source})"
            )));
        }
        Ok(())
    }
}

named! {
    /// The kind of place. Baselines, techniques and caches are never recommended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Kind {
        /// A reference for comparison: the harness, memory, the device, or what most programs do. Shown and never ranked.
        Baseline = "baseline",
        /// Files in directories.
        Files = "files",
        /// An experimental format, which shows what a technique is worth. Not available as a product.
        Technique = "technique",
        /// A library inside the process.
        Embedded = "embedded",
        /// A server that keeps blobs: a database or an object store.
        Server = "server",
        /// May lose or evict blobs at any time.
        Cache = "cache",
        /// Serves over HTTP or FTP what another store keeps.
        Web = "web",
        /// A page that a browser loads.
        Page = "page",
    }
}
