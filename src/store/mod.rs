//! The contract between the engine and every place that can keep blobs.
//!
//! A place is described by an [`Adapter`], a constant that can be listed without opening anything. Opening it
//! gives a [`Store`], shared by all workers; each worker asks it for a [`Session`] on its own thread.
//! Adapters never read a clock, print, or choose durability: the engine does that for all of them alike.

mod traits;

use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use self::traits::{Connects, MadeCold, Traits};
use crate::host::server::{Program, Server};

/// What an adapter returns on the clock. No allocation is needed to say `Busy` or `TimedOut`.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation did not happen. An error is a result: it is counted, and the first one is kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store has no such operation. The engine does not emulate it.
    #[error("{0} is not supported by this store")]
    Unsupported(&'static str),
    /// Another writer holds what this one needs; the same call may be tried again.
    #[error("the store is busy")]
    Busy,
    /// No answer within [`Setup::op_timeout`]; the session is dropped and another one opened.
    #[error("the store did not answer in time")]
    TimedOut,
    /// Anything else, with its cause.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Failed(error.into())
    }
}

impl Error {
    /// Wraps the error of a driver.
    pub fn failed(error: impl Into<anyhow::Error>) -> Error {
        Error::Failed(error.into())
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Error {
        std::io::Error::from(errno).into()
    }
}

/// What a blob is found by: an integer and a 128-bit digest, both ready, so that nothing is converted on the
/// clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Dense integer, `0..Setup::keys_max`.
    pub id: u64,
    /// The digest as 32 lower-case hexadecimal digits.
    pub hex: [u8; 32],
}

impl Key {
    /// The key of a 128-bit digest.
    pub fn of_digest(id: u64, digest: u128) -> Key {
        let mut hex = [0; 32];
        for (place, digit) in hex.iter_mut().enumerate() {
            let nibble = (digest >> (124 - 4 * place)) as u8 & 15;
            *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        }
        Key { id, hex }
    }

    /// The digest as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.hex).unwrap_or_default()
    }
}

/// Which bytes of a blob a get asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The whole blob.
    Whole,
    /// `len` bytes from `offset`, or as many of them as the blob has.
    Part {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        len: u64,
    },
}

impl Span {
    /// The bytes this span has in a blob of `blob_bytes`.
    pub fn len_in(self, blob_bytes: u64) -> u64 {
        match self {
            Span::Whole => blob_bytes,
            Span::Part { offset, len } => len.min(blob_bytes.saturating_sub(offset)),
        }
    }

    /// The first byte and the number of bytes, cut off at `end`: for stores whose own interface counts in smaller numbers.
    pub fn below(self, end: u64) -> (u64, u64) {
        match self {
            Span::Whole => (0, end),
            Span::Part { offset, .. } => (offset.min(end), self.len_in(end)),
        }
    }

    /// The bytes of `blob` that this span asks for.
    pub fn slice_of(self, blob: &[u8]) -> &[u8] {
        match self {
            Span::Whole => blob,
            Span::Part { offset, .. } => {
                let start = offset.min(blob.len() as u64) as usize;
                &blob[start..start + self.len_in(blob.len() as u64) as usize]
            }
        }
    }
}

/// Receives the pieces of a blob in order. The slices are lent for the call only, so that a store can lend
/// what it has (a mapped page, a cache line of its own, a network buffer) without a copy.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8]);

/// Receives the pieces of several blobs: the index of the key asked for, then a piece of its blob.
pub type ManySink<'a> = &'a mut dyn FnMut(usize, &[u8]);

/// When written bytes must be on stable storage.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Never asked for; the operating system or the store decides.
    None,
    /// At the latest when [`Session::sync`] returns.
    OnSync,
    /// When each put or delete returns.
    EachWrite,
}

impl Durability {
    /// All classes, weakest first.
    pub const ALL: &'static [Durability] = &[Durability::None, Durability::OnSync, Durability::EachWrite];

    /// The name used in flags, plans and reports.
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::OnSync => "on-sync",
            Durability::EachWrite => "each-write",
        }
    }

    /// The class of this name.
    pub fn named(name: &str) -> Option<Durability> {
        Durability::ALL.iter().copied().find(|class| class.name() == name)
    }
}

/// What is lost, at worst, when something dies between a write and the next sync.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Every acknowledged write is there.
    Nothing,
    /// Blobs written since the last sync may be missing, old, empty or torn; all others are there and whole.
    RecentWrites,
    /// The store may refuse to open, or open with damage.
    StoreUnusable,
    /// Everything is gone.
    All,
}

impl Loss {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Nothing => "nothing lost",
            Loss::RecentWrites => "recent writes lost",
            Loss::StoreUnusable => "perhaps unusable",
            Loss::All => "everything lost",
        }
    }
}

/// What two kinds of sudden end cost. Writes are ranked only among stores of equal damage.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
pub struct Damage {
    /// The process is killed (SIGKILL); the kernel and its page cache live on.
    pub after_kill: Loss,
    /// The machine loses power; the device keeps what it was told to flush.
    pub after_power_cut: Loss,
}

/// What a store knows of the bytes that it reads back, when they changed on the device behind its back. Whatever is said here is
/// tried by flipping bytes in the store's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// Its checksums make a changed byte an error of the read, or of opening it.
    Checksums,
    /// As one of its settings says, which is read back as a fact.
    AsSet {
        /// The fact's name.
        fact: &'static str,
        /// Its values with which a changed byte is an error.
        checked: &'static [&'static str],
        /// Those with which it is handed out. Of others nothing is known.
        unchecked: &'static [&'static str],
    },
    /// It hands a changed byte out as if it were right.
    Unchecked,
    /// It keeps nothing once it is closed, so that there is nothing to try.
    NothingKept,
    /// Its server is somebody else's, who may keep blobs in any way.
    Unknown,
}

/// Who notices that a byte of a blob changed on the device.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NoticedBy {
    /// The store, by its checksums: the read is an error.
    Store,
    /// Nobody but who compares it with what was put, as the verification of a run does.
    Comparison,
}

impl NoticedBy {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            NoticedBy::Store => "the store: a read of it is an error",
            NoticedBy::Comparison => "the comparison only: a read of it succeeds",
        }
    }
}

impl Integrity {
    /// Who notices a changed byte, in few words.
    pub fn words(self) -> String {
        match self {
            Integrity::Checksums => "the store".to_owned(),
            Integrity::AsSet { fact, checked, .. } => {
                format!("the store, where `{fact}` is {}", checked.first().copied().unwrap_or_default())
            }
            Integrity::Unchecked => "the comparison only".to_owned(),
            Integrity::NothingKept => "nobody: it keeps nothing".to_owned(),
            Integrity::Unknown => "not known".to_owned(),
        }
    }

    /// Who notices a changed byte in a store that says these facts of itself; `None` where that is not known, or nothing is kept.
    pub fn noticed_by(self, facts: &Facts) -> Option<NoticedBy> {
        match self {
            Integrity::Checksums => Some(NoticedBy::Store),
            Integrity::Unchecked => Some(NoticedBy::Comparison),
            Integrity::AsSet { fact, checked, unchecked } => {
                // Of a composed store the facts of a part are told apart by what stands before them.
                let of_name = |(name, _): &(&String, &String)| name.rsplit(": ").next() == Some(fact);
                let (_, value) = facts.iter().find(of_name)?;
                let is_one_of = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(value));
                match (is_one_of(checked), is_one_of(unchecked)) {
                    (true, _) => Some(NoticedBy::Store),
                    (_, true) => Some(NoticedBy::Comparison),
                    _ => None,
                }
            }
            Integrity::NothingKept | Integrity::Unknown => None,
        }
    }
}

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
}

impl Caps {
    /// All of it: a store says what it cannot do.
    pub const ALL: Caps = Caps {
        durability: Durability::ALL,
        persistent: true,
        contents: true,
        atomic_put: true,
        range: true,
        list: true,
        batch: true,
        get_many: true,
        many: true,
        catalogue: true,
        one_transaction: Some(View::Snapshot),
        blob_bytes_max: None,
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
    #[serde(alias = "reference")]
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

/// One setting of a store. Unknown names and values are refused before anything is opened.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Its name, as in `--set store.name=value`.
    pub name: &'static str,
    /// What it may be.
    pub values: Values,
    /// What it is when not given: what a careful user would choose.
    pub default: &'static str,
    /// One line for `blobwise list`.
    pub about: &'static str,
}

/// The values an option may have.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Integer {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A number from 0 with up to three digits after the point, such as milliseconds.
    Decimal {
        /// Largest.
        max: u64,
    },
    /// A word that only the store understands.
    Word,
    /// Where a server of the user's is. Its password is never written anywhere.
    Url,
    /// A size such as `4096`, `4KiB` or `64kB`.
    Bytes {
        /// Smallest, in bytes.
        min: u64,
        /// Largest, in bytes.
        max: u64,
    },
}

/// The settings of one row: every option of its adapter, checked, with defaults filled in and sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// Wraps values that were checked against the adapter's specs (see `plan::rows`).
    pub fn new(values: BTreeMap<String, String>) -> Options {
        Options(values)
    }

    /// The value of an option of the adapter, as text; empty for a name that is not one.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Whether a [`Values::Flag`] option is on.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// The value of an [`Values::Integer`] or [`Values::Bytes`] option.
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_default()
    }

    /// The value of a [`Values::Decimal`] option.
    pub fn decimal(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or_default()
    }

    /// All names and values, sorted by name; without passwords.
    pub fn shown(&self) -> BTreeMap<String, String> {
        let shown =
            |(name, value): (&String, &String)| (name.clone(), crate::shown::without_passwords(value));
        self.0.iter().map(shown).collect()
    }
}

/// Whether to make a store or open the one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The directory is empty.
    Create,
    /// The directory holds what an earlier `Create` left.
    Open,
}

/// What the stores of a run have in common, for as long as it lasts.
#[derive(Debug)]
pub struct Common {
    /// A directory for what is made once and copied in each round, such as an initialised data directory.
    pub cache_dir: PathBuf,
    servers: Mutex<BTreeMap<String, Arc<dyn Any + Send + Sync>>>,
}

impl Common {
    /// Nothing yet, in a directory that need not be there.
    pub fn new(cache_dir: PathBuf) -> Common {
        Common { cache_dir, servers: Mutex::default() }
    }

    /// The server of this name, started in a directory of its own when the first store asks for it.
    pub fn server<T: Any + Send + Sync>(
        &self,
        name: &str,
        start: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<Arc<T>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match servers.get(name) {
            Some(known) => Arc::clone(known),
            None => {
                let dir = self.cache_dir.join(name);
                std::fs::create_dir_all(&dir)?;
                let started: Arc<dyn Any + Send + Sync> = Arc::new(start(&dir)?);
                servers.insert(name.to_owned(), Arc::clone(&started));
                started
            }
        };
        known
            .downcast()
            .map_err(|_other| Error::failed(anyhow::anyhow!("`{name}` is a server of another kind")))
    }
}

/// All that an adapter is told when it opens a store.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The store's own directory; it writes nowhere else.
    pub dir: &'a Path,
    /// What the stores of a run have in common.
    pub common: &'a Common,
    /// Make it or open it.
    pub mode: Mode,
    /// The class asked for; one of the adapter's [`Caps::durability`].
    pub durability: Durability,
    /// Memory the store may use as a cache of its own, in bytes, all sessions together.
    pub cache_bytes: u64,
    /// The largest blob it will be given, in bytes.
    pub blob_bytes_max: u64,
    /// The most it will be asked to hold at once, in bytes, for stores that reserve address space.
    pub store_bytes_max: u64,
    /// Keys have ids below this.
    pub keys_max: u64,
    /// The most sessions that will be open at once.
    pub workers: usize,
    /// How long an operation may take.
    pub op_timeout: Duration,
    /// The row's settings.
    pub options: &'a Options,
}

/// Versions and settings that a store reports of itself, read back from it rather than remembered.
pub type Facts = BTreeMap<String, String>;

/// How another program reaches the server behind a store.
#[derive(Clone, Debug)]
pub struct Contact {
    /// Host name or address; `localhost` for a socket.
    pub host: String,
    /// The socket's file, for PostgreSQL the directory of it; empty where the server is reached by host and port.
    pub socket: String,
    /// Its user.
    pub user: String,
    /// The user's password.
    pub password: String,
    /// The database that is the store's; empty for a server without databases.
    pub database: String,
    /// The schema of the tables inside it; empty where there are none.
    pub schema: String,
}

/// One store: what it is called, what it can do, how to open it.
pub struct Adapter {
    /// Its name, as in `--stores`.
    pub name: &'static str,
    /// One line on what it is.
    pub about: &'static str,
    /// What sort of place it is.
    pub kind: Kind,
    /// The server programs that it starts; none where a URL is given.
    pub programs: &'static [Program],
    /// Its settings.
    pub options: &'static [OptionSpec],
    /// What it can do with these settings.
    pub caps: fn(&Options) -> Caps,
    /// What a sudden end costs with these settings in this class.
    pub damage: fn(&Options, Durability) -> Damage,
    /// What it knows of bytes that changed on the device, with these settings in this class.
    pub integrity: fn(&Options, Durability) -> Integrity,
    /// What else is true of it with these settings.
    pub traits: fn(&Options) -> Traits,
    /// Opens it.
    pub open: fn(&Setup) -> Result<Box<dyn Store>>,
}

impl Adapter {
    /// The URL of a server of the user's, where these settings have one; with its password.
    pub fn url<'o>(&self, options: &'o Options) -> Option<&'o str> {
        let spec = self.options.iter().find(|spec| matches!(spec.values, Values::Url))?;
        Some(options.text(spec.name)).filter(|url| !url.is_empty())
    }

    /// How it is made cold; `None` where it cannot be.
    pub fn made_cold(&self, options: &Options) -> Option<MadeCold> {
        let can_be = (self.traits)(options).kept_running().is_none() && (self.caps)(options).persistent;
        can_be.then_some(if self.programs.is_empty() { MadeCold::Reopened } else { MadeCold::Restarted })
    }

    /// Why one of its programs cannot be had, if that is so.
    pub fn missing_program(&self) -> Option<anyhow::Error> {
        self.programs.iter().find_map(|program| program.find().err())
    }
}

impl std::fmt::Debug for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adapter").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An open store, shared by all workers.
pub trait Store: Sync + Send {
    /// Opens one worker's handle, on that worker's thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Opens one worker's handle, on that worker's thread, whose reads are all in one transaction: from now on until it is dropped.
    /// It refuses to write.
    fn reader(&self) -> Result<Box<dyn Session + '_>> {
        Err(Error::Unsupported("one transaction for several reads"))
    }

    /// Version and settings, read back from the store.
    fn facts(&self) -> Result<Facts>;

    /// Waits until the store's own background work is idle: checkpoint done, no compaction pending.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Does what earlier writes have left for some day, though it is not due yet, so that it does not become due by what others
    /// write. Called before a phase of writes, off its clock.
    fn catch_up(&self) -> Result<()> {
        self.settle()
    }

    /// Carries out deletes that were only marked; timed apart.
    fn purge(&self) -> Result<()> {
        Ok(())
    }

    /// Makes the catalogue of uploads where there is none, and takes out entries whose blob was never stored because
    /// somebody died half way. Called once, before any session asks for it.
    fn open_catalogue(&self) -> Result<()> {
        Err(Error::Unsupported("a catalogue"))
    }

    /// How another program reaches its server, for what is composed upon it; `None` for a store without one.
    fn contact(&self) -> Option<Contact> {
        None
    }

    /// The servers it started, whose processor time, memory and device bytes are measured.
    fn servers(&self) -> Vec<&Server> {
        Vec::new()
    }

    /// Bytes that a server of the user's says it takes; `None` for a store whose directory can be looked at.
    fn footprint_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Bytes of the indexes that it keeps beside its data, where it tells the two apart.
    fn index_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Whether a file, by its path below the store's directory, is a log: what was written there is written again where it stays.
    fn is_log(&self, _path: &Path) -> bool {
        false
    }

    /// Memory that the store takes outside of this process and of its servers, in bytes now, such as that of a file system
    /// in memory; `None` for a store that has none there.
    fn memory_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// The directory of its files, where no path leads to them: a server that is to serve them inherits it.
    fn directory(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether its sessions have something to make ready before each op and to tell after it. Neither is on the clock: see
    /// [`Session::prepare`] and [`Session::tell`].
    fn is_staged(&self) -> bool {
        false
    }

    /// A picture (PNG) of a blob as a visitor sees it, where there is something to see.
    fn picture(&self, _key: &Key) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Closes it. A flush that fails here is an error; dropping without closing is the safety net.
    fn close(self: Box<Self>) -> Result<()>;

    /// Closes it for good and removes what it put where only its server can: the schema or database that carries our mark.
    fn remove(self: Box<Self>) -> Result<()> {
        self.close()
    }
}

/// What a session tells of an op beside its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A part of it that was timed by the other side, in nanoseconds: its name and how long it took.
    Time(&'static str, u64),
    /// What was counted in it: its name and how many.
    Count(&'static str, u64),
}

/// What happened in ops that succeeded, beside what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incidents {
    /// Answers that the cache in front of the blobs had not, or not all of.
    pub cache_misses: u64,
    /// Requests that were made once more because the other side had closed the connection.
    pub repeats: u64,
}

/// Whether a file's own name is such a one; a name that is no text is none.
pub fn has_name(path: &Path, is_meant: impl Fn(&str) -> bool) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is_meant)
}

/// One worker's handle. What a store cannot do it refuses; it never emulates.
pub trait Session {
    /// Creates or replaces a blob. A reader sees the old bytes or the new ones, never a mixture.
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()>;

    /// Lends the asked bytes in order; `false` when there is no such blob. Bytes beyond the blob's end are
    /// not lent.
    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool>;

    /// Removes a blob. Removing a missing one succeeds.
    fn delete(&mut self, key: &Key) -> Result<()>;

    /// Returns when this session's earlier writes are on stable storage.
    fn sync(&mut self) -> Result<()>;

    /// Connects anew: the part of an op that `connection=per-op` adds, timed by the loop.
    fn connect(&mut self) -> Result<()> {
        Err(Error::Unsupported("a connection for each op"))
    }

    /// Makes ready what the next op must find fresh, such as a browser without a cache. Called before each op, off every clock,
    /// where [`Store::is_staged`].
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Tells what only the session knows of the op that has just succeeded. Called once after it, off every clock, where
    /// [`Store::is_staged`].
    fn tell(&mut self, _each: &mut dyn FnMut(Told)) -> Result<()> {
        Ok(())
    }

    /// What happened beside the ops since it was last asked. Asked after a phase's ops, off the clock.
    fn take_incidents(&mut self) -> Incidents {
        Incidents::default()
    }

    /// The catalogue of uploads in the same database, over the same connection.
    fn catalogue(&mut self) -> Result<&mut dyn Catalogue> {
        Err(Error::Unsupported("a catalogue"))
    }

    /// Gives every key there is, in any order.
    fn list(&mut self, _each: &mut dyn FnMut(&str)) -> Result<()> {
        Err(Error::Unsupported("list"))
    }

    /// Puts several blobs as one transaction.
    fn put_batch(&mut self, _blobs: &[(Key, &[u8])]) -> Result<()> {
        Err(Error::Unsupported("a batch of puts"))
    }

    /// Gets several blobs as one request, or from one snapshot where the store is in this process; returns how many were found.
    fn get_many(&mut self, _keys: &[Key], _sink: ManySink) -> Result<usize> {
        Err(Error::Unsupported("a get of many"))
    }

    /// Deletes several blobs as one transaction.
    fn delete_batch(&mut self, _keys: &[Key]) -> Result<()> {
        Err(Error::Unsupported("a batch of deletes"))
    }
}

/// Which contents are stored, by digest, and how many uploads refer to each: a table in a SQL database.
///
/// A content is catalogued from `confirm` on, after its blob was stored, until its last reference is released, before its blob
/// is deleted. Whoever dies in between leaves a blob that nobody refers to, never an entry without a blob.
pub trait Catalogue {
    /// Begins a transaction; the session's puts and deletes until `commit` are part of it.
    fn begin(&mut self) -> Result<()>;

    /// Ends it.
    fn commit(&mut self) -> Result<()>;

    /// Gives it up.
    fn rollback(&mut self) -> Result<()>;

    /// Adds a reference to a content that is catalogued; `false` when it is not.
    fn find(&mut self, digest: &Key) -> Result<bool>;

    /// Announces a content that is about to be stored under its digest, with one reference. `Busy` when somebody else is
    /// storing or removing the same.
    fn insert(&mut self, digest: &Key, bytes: u64) -> Result<()>;

    /// Catalogues an announced content: its blob is stored.
    fn confirm(&mut self, digest: &Key) -> Result<()>;

    /// Takes a reference away; `true` when it was the last one: the content is no longer catalogued, and its blob can go.
    fn release(&mut self, digest: &Key) -> Result<bool>;

    /// Removes the entry of a content that is not catalogued.
    fn forget(&mut self, digest: &Key) -> Result<()>;

    /// References to a catalogued content; 0 when it is not.
    fn references(&mut self, digest: &Key) -> Result<u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_says_who_notices_also_behind_something_else() {
        let integrity = Integrity::AsSet { fact: "sums", checked: &["on"], unchecked: &["off"] };
        let says = |name: &str, value: &str| {
            integrity.noticed_by(&Facts::from([(name.to_owned(), value.to_owned())]))
        };
        assert_eq!(says("sums", "on"), Some(NoticedBy::Store));
        assert_eq!(says("sums", "OFF"), Some(NoticedBy::Comparison));
        assert_eq!(says("behind: sums", "on"), Some(NoticedBy::Store));
        assert_eq!(says("sums", "something new"), None);
        assert_eq!(says("other", "on"), None);
    }
}
