//! What a store can do with the options that it was given.

use super::{Backup, Durability, Error, Result};

/// What a store can do with the options it was given. A flag that is true is tested; one that is false must
/// refuse.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// The classes it can promise.
    pub durability: &'static [Durability],
    /// Blobs are there after close and open.
    pub persistent: bool,
    /// Keeps the bytes it was given (the null store does not).
    pub contents: bool,
    /// A reader never sees half of a put.
    pub atomic_put: bool,
    /// `Span::Part` is served without reading the whole blob through the interface.
    pub range: bool,
    /// A whole blob is read in pieces, none of which is larger than [`PIECE_BYTES_MAX`], or lent out of a file that is mapped: nobody has
    /// to hold all of it.
    pub streams: bool,
    /// [`Session::list`].
    pub list: bool,
    /// [`Session::put_batch`] and [`Session::delete_batch`].
    pub batch: bool,
    /// [`Session::get_many`].
    pub get_many: bool,
    /// Several sessions at once.
    pub many: bool,
    /// [`Store::open_catalogue`] and [`Session::catalogue`].
    pub catalogue: bool,
    /// [`Store::reader`], and what its reads see; `None` where several reads are never one transaction.
    pub one_transaction: Option<View>,
    /// The largest blob it takes, and where that limit is from.
    pub blob_bytes_max: Option<Limit>,
    /// [`Store::totals`].
    pub totals: bool,
    /// A program's other data can live in it, too, and are in its backups.
    pub other_data: bool,
    /// How it is backed up; not in a server of somebody else's, nor in one that candidates share.
    pub backup: Backup,
    /// What other processes may do with a store that one of them has opened.
    pub clients: Clients,
    /// The most inodes that it takes in its directory.
    pub inodes: Inodes,
}

/// The most inodes that a store takes, for a file system that has a fixed number of them.
#[derive(Clone, Copy, Debug)]
pub struct Inodes {
    /// For each blob.
    pub each_blob: u64,
    /// Levels of directories that the blobs' files are spread over, and how many names each directory has at most.
    pub spread: (u32, u64),
    /// For everything else, such as a server's own files.
    pub beside: u64,
}

impl Inodes {
    /// Of a store that keeps all blobs in a few files.
    pub const FEW: Inodes = Inodes { each_blob: 0, spread: (0, 0), beside: 100 };

    /// How many it takes for so many blobs.
    pub fn of(self, blobs: u64) -> u64 {
        let (levels, names) = self.spread;
        let directories = (1..=levels).map(|level| names.saturating_pow(level).min(blobs)).sum::<u64>();
        self.each_blob.saturating_mul(blobs) + directories + self.beside
    }
}

/// The largest piece of a store that reads blobs in pieces, in bytes.
pub const PIECE_BYTES_MAX: usize = 1 << 20;

/// What processes beside the one that opened a store may do with it: those of a run by MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Nothing, for this reason.
    One(&'static str),
    /// Each has one of its own: nothing in it could be shared, and nobody reads what another one put.
    Each,
    /// They open sessions with it over the network ([`super::Store::invitation`]): from this host where the server is private, and
    /// from any that reaches the URL that was given.
    Server,
    /// The same in every class but this one, for this reason.
    ServerBut(Durability, &'static str),
    /// The same as for any server; beside the server they need its directory, as the process that opened it sees it.
    Directory,
}

/// What is a library in one process, and what nobody has taught to be joined.
const ALONE: Clients = Clients::One("the process that has it open has it alone");

impl Caps {
    /// All of it: a store says what it cannot do.
    pub const ALL: Caps = Caps {
        durability: Durability::ALL,
        persistent: true,
        contents: true,
        atomic_put: true,
        range: true,
        streams: true,
        list: true,
        batch: true,
        get_many: true,
        many: true,
        catalogue: true,
        one_transaction: Some(View::Snapshot),
        blob_bytes_max: None,
        totals: true,
        other_data: true,
        backup: Backup::UNSAID,
        clients: ALONE,
        inodes: Inodes::FEW,
    };
}

/// What the reads of one transaction see of what others put while it lasts, in the vendor's words for its isolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Nothing: what was there when it began is there to its end.
    Snapshot,
    /// Everything that was committed before the read (read committed).
    Latest,
    /// Nothing, because who would change what was read waits until it ends.
    Locked,
}

impl View {
    /// The name used in lists.
    pub fn name(self) -> &'static str {
        match self {
            View::Snapshot => "snapshot",
            View::Latest => "latest",
            View::Locked => "locked",
        }
    }
}

/// A hard limit and its source, for the cell that says "not possible".
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Largest allowed size in bytes.
    pub bytes: u64,
    /// Where the limit comes from.
    pub source: &'static str,
}

impl Limit {
    /// Refuses a blob that is larger, before anything is copied.
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

/// What sort of place a store is. Baselines, techniques and caches are never the answer to where files should live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What others are held against: the harness, memory, the device, what most programs do. Shown and never ranked.
    Baseline,
    /// Files in directories.
    Files,
    /// A format of this project's own: it shows what a technique is worth, and nobody can have it as it is.
    Technique,
    /// A library inside the process.
    Embedded,
    /// A server that keeps blobs: a database, or an object store.
    Server,
    /// Forgets, or may forget.
    Cache,
    /// Hands out over HTTP or FTP what another store keeps.
    Web,
    /// A page that a browser loads.
    Page,
}

impl Kind {
    /// The name used in lists and reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Baseline => "baseline",
            Kind::Files => "files",
            Kind::Technique => "technique",
            Kind::Embedded => "embedded",
            Kind::Server => "server",
            Kind::Cache => "cache",
            Kind::Web => "web",
            Kind::Page => "page",
        }
    }
}
