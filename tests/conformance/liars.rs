//! Liars: stores that are wrong on purpose. Each must be caught by the checks named with it, and every check must catch one, so
//! that no check is unable to fail. For a bug that a user finds, a liar is written first.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow, bail, ensure};
use blobwise::conformance::bench::World;
use blobwise::conformance::check::CannotCheck;
use blobwise::conformance::subject::Subject;
use blobwise::host::server::{Launch, Server};
use blobwise::store::{
    Adapter, Backup, BackupMethod, CacheRecommendation, Capabilities, Catalogue, ClientSupport, Compaction,
    Durability, Error, Facts, Integrity, JoinToken, Key, Kind, Limit, Loss, Losses, ManySink, Mode, Needs,
    OptionSpec, Options, ReadIsolation, Session, Setup, Sink, Span, Store, Traits, Values,
};
use blobwise::stores::{self, Entry};

use crate::trials::Trial;
use crate::{honest, subjects, table};

/// A lie, the class in which it is told, and the checks that must catch it.
struct Liar {
    lie: &'static str,
    adapter: &'static LazyLock<Adapter>,
    durability: Durability,
    caught_by: &'static [&'static str],
}

const fn liar(lie: &'static str, caught_by: &'static [&'static str]) -> Liar {
    Liar { lie, adapter: &EMBEDDED, durability: Durability::OnSync, caught_by }
}

const LIARS: &[Liar] = &[
    liar("loses-one-put-in-64", &["agrees-with-a-map"]),
    liar("truncates", &["returns-what-was-put"]),
    liar("truncates-at-16-mib", &["holds-a-large-blob"]),
    liar("answers-with-a-neighbour", &["returns-what-was-put"]),
    liar("keeps-the-old", &["replaces"]),
    liar("never-deletes", &["deletes-twice", "agrees-with-a-map"]),
    liar("changes-undeclared", &["refuses-changes"]),
    liar("fails-to-delete-what-is-missing", &["deletes-twice"]),
    liar("finds-what-is-missing", &["deletes-twice"]),
    liar("ignores-the-end-of-a-range", &["exact-ranges"]),
    liar("claims-ranges-and-refuses", &["exact-ranges"]),
    liar("ranges-undeclared", &["refuses-ranges"]),
    liar("sessions-remember", &["sessions-agree"]),
    liar("many-undeclared", &["refuses-a-second-session"]),
    Liar { adapter: &FILES, ..liar("invites-to-another-store", &["is-joined"]) },
    Liar { adapter: &FILES, ..liar("invites-undeclared", &["refuses-to-be-joined"]) },
    liar("tears", &["no-torn-blobs"]),
    liar("list-forgets-one", &["lists"]),
    liar("lists-one-twice", &["lists"]),
    liar("list-undeclared", &["refuses-to-list"]),
    liar("batch-drops-the-last", &["batches"]),
    liar("batch-undeclared", &["refuses-batches"]),
    liar("get-of-several-mixes-up", &["batches", "gets-several"]),
    liar("claims-pieces-and-lends-all", &["reads-in-pieces"]),
    liar("get-of-several-undeclared", &["refuses-to-get-several"]),
    Liar { adapter: &SQLITE, ..liar("ignores-the-transaction", &["reads-in-one-transaction"]) },
    Liar { adapter: &SQLITE, ..liar("writes-in-a-transaction-of-reads", &["reads-in-one-transaction"]) },
    Liar {
        adapter: &SQLITE,
        ..liar("reads-all-in-one-transaction", &["reads-in-one-transaction", "sessions-agree"])
    },
    Liar { adapter: &SQLITE, ..liar("claims-a-lock-and-has-none", &["reads-in-one-transaction"]) },
    Liar { adapter: &SQLITE, ..liar("claims-to-see-the-latest", &["reads-in-one-transaction"]) },
    liar("claims-one-transaction-and-refuses", &["reads-in-one-transaction"]),
    Liar { adapter: &SQLITE, ..liar("one-transaction-undeclared", &["refuses-one-transaction"]) },
    liar("connection-undeclared", &["refuses-to-connect"]),
    liar("claims-a-catalogue-and-refuses", &["catalogues-uploads"]),
    Liar { adapter: &SQLITE, ..liar("finds-without-counting", &["catalogues-uploads"]) },
    Liar { adapter: &SQLITE, ..liar("rolls-nothing-back", &["catalogues-uploads"]) },
    Liar { adapter: &SQLITE, ..liar("keeps-unfinished-uploads", &["forgets-unfinished-uploads"]) },
    Liar { adapter: &FILES, ..liar("counts-drafts", &["counts-all"]) },
    Liar { adapter: &FILES, ..liar("totals-undeclared", &["refuses-to-count"]) },
    Liar { adapter: &FILES, ..liar("backup-leaves-one-out", &["backs-up-and-restores"]) },
    Liar { adapter: &FILES, ..liar("backup-cuts-one-short", &["backs-up-and-restores"]) },
    Liar { adapter: &FILES, ..liar("backup-returns-before-it-is-complete", &["backs-up-and-restores"]) },
    Liar { adapter: &FILES, ..liar("backup-follows-the-store", &["backs-up-and-restores"]) },
    Liar { adapter: &FILES, ..liar("backup-changes-the-store", &["backs-up-and-restores"]) },
    Liar { adapter: &FILES, ..liar("claims-backups-and-refuses", &["backs-up-and-restores"]) },
    Liar { adapter: &FILES, ..liar("undeclared-backup", &["refuses-a-backup"]) },
    Liar { adapter: &FILES, ..liar("compaction-leaves-one-out", &["compacts"]) },
    Liar { adapter: &FILES, ..liar("claims-compactions-and-refuses", &["compacts"]) },
    Liar { adapter: &FILES, ..liar("compaction-is-lost-when-closed", &["compacts"]) },
    Liar { adapter: &FILES, ..liar("compaction-undeclared", &["refuses-to-compact"]) },
    Liar { adapter: &FILES, ..liar("compact-copy-leaves-one-out", &["compacts"]) },
    Liar { adapter: &FILES, ..liar("compact-copy-refused-too-late", &["refuses-to-compact"]) },
    Liar {
        adapter: &FILES,
        durability: Durability::None,
        ..liar("more-inodes-than-it-says", &["takes-no-more-inodes-than-it-says"])
    },
    liar("catalogue-undeclared", &["refuses-a-catalogue"]),
    liar("over-the-limit-accepted", &["refuses-a-blob-over-the-limit"]),
    liar("counts-in-facts", &["facts-stay"]),
    Liar { adapter: &SERVED, ..liar("says-another-number-of-processes", &["serves-by-as-many-processes"]) },
    liar("leaves-work-to-the-next-settling", &["settles-once"]),
    liar("forgets-when-closed", &["survives-reopening"]),
    liar("invents-after-it-is-opened-again", &["survives-reopening"]),
    liar("remembers-when-closed", &["forgets-when-closed"]),
    liar("claims-checksums", &["flipped-bytes-are-found"]),
    liar("checksums-undeclared", &["flipped-bytes-are-found"]),
    liar("leaves-a-file-open", &["leaves-nothing-behind"]),
    Liar { durability: Durability::None, ..liar("writes-outside", &["writes-only-below-its-directory"]) },
    liar("writes-outside", &["leaves-nothing-behind", "flushes-on-sync"]),
    liar("skips-the-sync", &["flushes-on-sync"]),
    Liar { durability: Durability::EachWrite, ..liar("skips-the-flush", &["flushes-each-write"]) },
    Liar { durability: Durability::EachWrite, ..liar("flushes-something-else", &["flushes-each-write"]) },
    Liar { durability: Durability::EachWrite, ..liar("leaves-a-name-unflushed", &["flushes-each-write"]) },
    liar("leaves-a-name-unflushed", &["flushes-on-sync"]),
    Liar { adapter: &LMDB, ..liar("commits-before-it-flushes", &["flushes-before-it-commits"]) },
    liar("unusable-though-durable", &["keeps-the-words-of-its-class"]),
    Liar { durability: Durability::EachWrite, ..liar("holds-puts-back", &["survives-process-kill"]) },
    liar("holds-puts-back-beyond-the-sync", &["survives-process-kill"]),
    Liar {
        adapter: &SERVER,
        ..liar("leaves-a-process", &["leaves-nothing-behind", "ends-with-the-program"])
    },
    Liar { adapter: &SERVER, ..liar("outlives-its-supervisor", &["ends-with-its-supervisor"]) },
    Liar { adapter: &SERVER, ..liar("claims-connections-and-refuses", &["connects-anew"]) },
    Liar { adapter: &POSTGRES, ..liar("connects-to-nothing", &["connects-anew"]) },
    Liar { adapter: &POSTGRES, ..liar("never-purges", &["purges-lazy-deletes"]) },
    Liar { adapter: &POSTGRES, ..liar("never-settles", &["leaves-nothing-to-vacuum"]) },
];

/// How long a process that was left behind sleeps: it ends by itself after the timeouts of all checks.
const LEFT_SECONDS: &str = "60";

static EMBEDDED: LazyLock<Adapter> = LazyLock::new(|| adapter("liar", Kind::Embedded));
static FILES: LazyLock<Adapter> = LazyLock::new(|| adapter("files/liar", Kind::Files));
static SQLITE: LazyLock<Adapter> = LazyLock::new(|| adapter("liar-sqlite", Kind::Embedded));
static LMDB: LazyLock<Adapter> = LazyLock::new(|| adapter("lmdb/liar", Kind::Embedded));
static SERVER: LazyLock<Adapter> = LazyLock::new(|| adapter("liar-server", Kind::Server));
static SERVED: LazyLock<Adapter> = LazyLock::new(|| adapter("nginx/liar", Kind::Web));
static POSTGRES: LazyLock<Adapter> = LazyLock::new(|| adapter("postgres/liar", Kind::Server));

const LIE: OptionSpec =
    OptionSpec { name: "lie", values: Values::OneOf(&[]), default: "none", about: "what is wrong" };
const CONNECTION: OptionSpec =
    OptionSpec::choice("connection", &["kept"]).about("declared, so that connecting anew is checked");
const WORKERS: OptionSpec =
    OptionSpec::choice("workers", &["2"]).about("declared, so that processes are counted");
const LAZY: OptionSpec =
    OptionSpec::choice("delete", &["lazy"]).about("declared, so that purging is checked");

/// Function that opens an adapter's store.
type Open = fn(&Setup) -> blobwise::store::Result<Box<dyn Store>>;

fn adapter(name: &'static str, kind: Kind) -> Adapter {
    let (options, open): (&'static [OptionSpec], Open) = match name {
        "liar" => (&[LIE], |setup| open(setup, honest::ADAPTER.name)),
        "files/liar" => (&[LIE], |setup| open(setup, "files/hashed")),
        "liar-sqlite" => (&[LIE], |setup| open(setup, "sqlite")),
        "lmdb/liar" => (&[LIE], |setup| open(setup, "lmdb")),
        "nginx/liar" => (&[LIE, WORKERS], |setup| open(setup, "nginx")),
        "liar-server" => (&[LIE, CONNECTION], |setup| open(setup, honest::ADAPTER.name)),
        _ => (&[LIE, LAZY, CONNECTION], |setup| open(setup, "postgres/bytea")),
    };
    Adapter {
        name,
        about: "a store that is wrong on purpose",
        kind,
        programs: inner_adapter(inner_of(name)).map_or(&[], |inner| inner.programs),
        options,
        caps,
        loss: |options, durability| Losses {
            after_kill: Loss::Nothing,
            after_power_cut: match durability {
                _ if options.text("lie") == "unusable-though-durable" => Loss::StoreUnusable,
                Durability::EachWrite => Loss::Nothing,
                Durability::None | Durability::OnSync => Loss::RecentWrites,
            },
        },
        integrity: |options, _| match options.text("lie") {
            "checksums-undeclared" => Integrity::Unchecked,
            _ => Integrity::Checksums,
        },
        traits: match name {
            "liar-server" => |_| Traits { has_process: true, ..Traits::default() },
            "postgres/liar" => |_| Traits { has_process: true, lazy_delete: true, ..Traits::default() },
            _ => |_| Traits::default(),
        },
        memory: |_| CacheRecommendation::NO_CACHE,
        needs: Needs::NOTHING,
        open,
    }
}

/// Returns the store that a liar wraps.
fn inner_of(name: &str) -> &'static str {
    match name {
        "files/liar" => "files/hashed",
        "liar-sqlite" => "sqlite",
        "lmdb/liar" => "lmdb",
        "nginx/liar" => "nginx",
        "postgres/liar" => "postgres/bytea",
        _ => honest::ADAPTER.name,
    }
}

fn inner_adapter(name: &str) -> Option<&'static Adapter> {
    match stores::find(name) {
        _ if name == honest::ADAPTER.name => Some(&honest::ADAPTER),
        Some(Entry::Ready(adapter)) => Some(adapter),
        _ => None,
    }
}

fn caps(options: &Options) -> Capabilities {
    let lie = options.text("lie");
    Capabilities {
        persistent: lie != "remembers-when-closed",
        changes: lie != "changes-undeclared",
        range: lie != "ranges-undeclared",
        list: lie != "list-undeclared",
        batch: lie != "batch-undeclared",
        get_many: lie != "get-of-several-undeclared",
        many: lie != "many-undeclared",
        catalogue: [
            "claims-a-catalogue-and-refuses",
            "finds-without-counting",
            "rolls-nothing-back",
            "keeps-unfinished-uploads",
        ]
        .contains(&lie),
        one_transaction: match lie {
            "claims-a-lock-and-has-none" => Some(ReadIsolation::Locked),
            "claims-to-see-the-latest" => Some(ReadIsolation::Latest),
            "ignores-the-transaction"
            | "writes-in-a-transaction-of-reads"
            | "reads-all-in-one-transaction"
            | "claims-one-transaction-and-refuses" => Some(ReadIsolation::Snapshot),
            _ => None,
        },
        blob_bytes_max: Some(LIMIT).filter(|_| lie == "over-the-limit-accepted"),
        totals: lie == "counts-drafts",
        backup: match lie {
            _ if lie.starts_with("backup-") || lie == "claims-backups-and-refuses" => {
                Backup::Image(BackupMethod { by: "a liar", words: "a liar's word", link: "" })
            }
            _ => Backup::None("a liar keeps none"),
        },
        compaction: match lie {
            "compaction-leaves-one-out"
            | "compaction-is-lost-when-closed"
            | "claims-compactions-and-refuses" => Some(Compaction::InPlace("a liar")),
            "compact-copy-leaves-one-out" => Some(Compaction::Copy("a liar")),
            _ => None,
        },
        clients: match lie {
            "invites-to-another-store" => ClientSupport::Directory,
            _ => ClientSupport::One("a liar is enough"),
        },
        ..Capabilities::ONE_BY_ONE
    }
}

const LIMIT: Limit = Limit { bytes: 1 << 20, source: "a liar's word" };

// ---- the trials ------------------------------------------------------------------------------------------------------

fn subject(liar: &Liar) -> Result<Arc<Subject>> {
    with_lie(liar.adapter, liar.lie, liar.durability)
}

/// A subject that is a plain candidate except for its lie.
fn with_lie(adapter: &'static Adapter, lie: &str, durability: Durability) -> Result<Arc<Subject>> {
    Ok(Arc::new(Subject { plain: true, ..subjects::subject(adapter, &[("lie", lie)], durability)? }))
}

/// The wrapper without a lie, which must pass: it shows that the lies are what is caught.
fn honest() -> Result<Vec<Arc<Subject>>> {
    let classes = [Durability::OnSync, Durability::EachWrite];
    classes.iter().map(|class| with_lie(&EMBEDDED, "none", *class)).collect()
}

/// All liars, so that child processes can find one by its name.
pub fn subjects() -> Result<Vec<Arc<Subject>>> {
    let mut subjects = honest()?;
    for liar in LIARS {
        subjects.push(subject(liar)?);
    }
    Ok(subjects)
}

pub fn trials(world: &Arc<World>) -> Result<Vec<Trial>> {
    let mut trials = vec![Trial::test("liars/every-check-catches-one", || {
        every_check_catches_one().map_err(|error| error.to_string().into())
    })];
    for subject in honest()? {
        trials.extend(crate::of_subject(world, &subject));
    }
    // Without the store that it wraps, a liar could not even be opened, which does not count as caught.
    for liar in LIARS.iter().filter(|liar| inner_adapter(inner_of(liar.adapter.name)).is_some()) {
        for name in liar.caught_by {
            let (world, subject) = (Arc::clone(world), subject(liar)?);
            trials.push(Trial::ignorable_test(format!("liars/{}/caught-by/{name}", liar.lie), move || {
                crate::complete_where_possible(&subject, || is_caught(&world, &subject, name))
            }));
        }
    }
    Ok(trials)
}

fn every_check_catches_one() -> Result<()> {
    for check in table::all() {
        ensure!(
            LIARS.iter().any(|liar| liar.caught_by.contains(&check.name)),
            "no liar shows that `{}` can fail",
            check.name
        );
    }
    Ok(())
}

fn is_caught(world: &World, subject: &Arc<Subject>, name: &str) -> Result<()> {
    let check =
        table::all().find(|check| check.name == name).with_context(|| format!("no check `{name}`"))?;
    ensure!((check.applies)(subject), "`{name}` does not apply");
    match check.make(world, subject, &Mutex::default()) {
        Ok(()) => bail!("it passed"),
        Err(error) if error.is::<CannotCheck>() => Err(error),
        Err(_) => Ok(()),
    }
}

// ---- the store -------------------------------------------------------------------------------------------------------

struct LyingStore {
    lie: String,
    inner: Box<dyn Store>,
    dir: PathBuf,
    mode: Mode,
    puts: AtomicU64,
    /// True if it has already invented a blob since it was opened again.
    invented: AtomicBool,
    /// Puts that were held back.
    held: Mutex<BTreeMap<u64, (Key, Vec<u8>)>>,
}

fn open(setup: &Setup, inner: &str) -> blobwise::store::Result<Box<dyn Store>> {
    let lie = setup.options.text("lie").to_owned();
    let adapter = inner_adapter(inner).ok_or(Error::Unsupported("an inner store that is not compiled in"))?;
    let changed: &[(&str, &str)] = match lie.as_str() {
        "never-purges" => &[("delete", "lazy")],
        // With in-place puts, a hard link to the same file changes with it.
        "backup-follows-the-store" => &[("put", "in-place")],
        "claims-checksums" => &[(honest::VERIFY, "false")],
        _ => &[],
    };
    let options = subjects::subject(adapter, changed, setup.durability)?.options;
    let durability = match lie.as_str() {
        "skips-the-flush" | "flushes-something-else" | "commits-before-it-flushes" => Durability::None,
        _ => setup.durability,
    };
    if lie == "leaves-a-file-open" {
        std::mem::forget(File::create(setup.dir.join("left-open"))?);
    }
    if lie == "leaves-a-process" || lie == "outlives-its-supervisor" {
        let mut sleep = Command::new("sleep");
        sleep
            .arg(LEFT_SECONDS)
            .current_dir(setup.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        #[expect(clippy::disallowed_methods, reason = "to be left is the lie")]
        drop(sleep.spawn()?);
    }
    if lie == "outlives-its-supervisor" {
        // A supervised process as well, so that there is a supervisor to kill.
        std::mem::forget(Server::start(&Launch::new(Path::new("/bin/sleep"), setup.dir).arg(LEFT_SECONDS))?);
    }
    let other = setup.dir.join("another");
    let (dir, mode) = match (lie.as_str(), setup.join_token) {
        ("invites-to-another-store", Some(_)) => {
            std::fs::create_dir(&other)?;
            (other.as_path(), Mode::Create)
        }
        _ => (setup.dir, setup.mode),
    };
    Ok(Box::new(LyingStore {
        inner: (adapter.open)(&Setup { options: &options, durability, dir, mode, ..setup.clone() })?,
        dir: setup.dir.to_owned(),
        mode: setup.mode,
        puts: AtomicU64::new(0),
        invented: AtomicBool::new(lie != "invents-after-it-is-opened-again" || setup.mode == Mode::Create),
        held: Mutex::default(),
        lie,
    }))
}

/// Files below a directory, sorted by path.
fn files_below(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

/// The files below a directory that have bytes.
fn filled_below(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = files_below(dir)?;
    files.retain(|path| path.metadata().is_ok_and(|metadata| metadata.len() > 0));
    Ok(files)
}

fn link_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    for file in files_below(from)? {
        let target = to.join(file.strip_prefix(from).unwrap_or(&file));
        std::fs::create_dir_all(target.parent().unwrap_or(to))?;
        std::fs::hard_link(file, target)?;
    }
    Ok(())
}

impl LyingStore {
    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, (Key, Vec<u8>)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release_held(&self) -> blobwise::store::Result<()> {
        let mut session = self.inner.session()?;
        std::mem::take(&mut *self.held()).values().try_for_each(|(key, blob)| session.put(key, blob))
    }

    fn forget_all(&self) -> blobwise::store::Result<()> {
        let mut session = self.inner.session()?;
        let mut listed = Vec::new();
        session.list(&mut |hex| listed.push(hex.to_owned()))?;
        for hex in listed {
            let hex = hex.as_bytes().try_into().map_err(|_length| anyhow!("`{hex}` is no key"))?;
            session.delete(&Key { id: 0, hex })?;
        }
        Ok(())
    }
}

impl Store for LyingStore {
    fn session(&self) -> blobwise::store::Result<Box<dyn Session + '_>> {
        let in_one = self.lie == "reads-all-in-one-transaction";
        let reads = in_one.then(|| self.inner.reader()).transpose()?;
        let inner = self.inner.session()?;
        Ok(Box::new(LyingSession { store: self, inner, reads, remembered: BTreeMap::new() }))
    }

    fn reader(&self) -> blobwise::store::Result<Box<dyn Session + '_>> {
        match self.lie.as_str() {
            "claims-one-transaction-and-refuses" => Err(Error::Unsupported("one transaction")),
            "ignores-the-transaction" => {
                let (inner, reads) = (self.inner.reader()?, Some(self.inner.session()?));
                Ok(Box::new(LyingSession { store: self, inner, reads, remembered: BTreeMap::new() }))
            }
            "writes-in-a-transaction-of-reads" => {
                let (inner, reads) = (self.inner.session()?, Some(self.inner.reader()?));
                Ok(Box::new(LyingSession { store: self, inner, reads, remembered: BTreeMap::new() }))
            }
            _ => self.inner.reader(),
        }
    }

    fn facts(&self) -> blobwise::store::Result<Facts> {
        let mut facts = self.inner.facts()?;
        if self.lie == "counts-in-facts" {
            facts.insert("puts".into(), self.puts.load(Ordering::Relaxed).to_string());
        }
        if self.lie == "says-another-number-of-processes" {
            facts.insert("processes that serve".into(), "3".into());
        }
        Ok(facts)
    }

    fn settle(&self) -> blobwise::store::Result<()> {
        match self.lie.as_str() {
            "never-settles" => Ok(()),
            "leaves-work-to-the-next-settling" => {
                let mut left = File::options().append(true).create(true).open(self.dir.join("left"))?;
                Ok(left.write_all(b"a part of it")?)
            }
            _ => self.inner.settle(),
        }
    }

    fn open_catalogue(&self) -> blobwise::store::Result<()> {
        match self.lie.as_str() {
            "catalogue-undeclared" => Ok(()),
            // Created if missing, but unfinished uploads are not looked for.
            "keeps-unfinished-uploads" if self.mode == Mode::Open => Ok(()),
            _ => self.inner.open_catalogue(),
        }
    }

    fn totals(&self) -> blobwise::store::Result<(u64, u64)> {
        let (blobs, bytes) = self.inner.totals()?;
        match self.lie.as_str() {
            "counts-drafts" => Ok((self.puts.load(Ordering::Relaxed), bytes)),
            "totals-undeclared" => Ok((blobs, bytes)),
            _ => Err(Error::Unsupported("a count of all")),
        }
    }

    fn compact(&mut self) -> blobwise::store::Result<()> {
        match self.lie.as_str() {
            "compaction-leaves-one-out" => Ok(std::fs::remove_file(&filled_below(&self.dir)?[0])?),
            "compaction-undeclared" | "compaction-is-lost-when-closed" => Ok(()),
            _ => Err(Error::Unsupported("a compaction")),
        }
    }

    fn compact_into(&self, to: &Path) -> blobwise::store::Result<()> {
        match self.lie.as_str() {
            "compact-copy-leaves-one-out" => {
                link_tree(&self.dir, to)?;
                Ok(std::fs::remove_file(&filled_below(to)?[0])?)
            }
            "compact-copy-refused-too-late" => {
                std::fs::write(to.join("draft"), "half")?;
                Err(Error::Unsupported("a compact copy"))
            }
            _ => Err(Error::Unsupported("a compact copy")),
        }
    }

    fn back_up(&self, to: &Path) -> blobwise::store::Result<()> {
        match self.lie.as_str() {
            "backup-follows-the-store" => {
                // Hard links to the same files, as in a snapshot by links.
                return Ok(link_tree(&self.dir, to)?);
            }
            "backup-leaves-one-out" | "backup-cuts-one-short" | "backup-returns-before-it-is-complete" => {
                self.inner.back_up(to)?;
            }
            "backup-changes-the-store" => {
                self.inner.back_up(to)?;
                let files = files_below(&self.dir)?;
                return Ok(files.iter().try_for_each(std::fs::remove_file)?);
            }
            "undeclared-backup" => return self.inner.back_up(to),
            _ => return Err(Error::Unsupported("a backup")),
        }
        let files = filled_below(to)?;
        match self.lie.as_str() {
            "backup-leaves-one-out" => std::fs::remove_file(&files[0])?,
            "backup-cuts-one-short" => {
                let file = File::options().write(true).open(&files[0])?;
                file.set_len(file.metadata()?.len() - 1)?;
            }
            // Half of the files, like an unfinished copy.
            _ => files[files.len() / 2..].iter().try_for_each(std::fs::remove_file)?,
        }
        Ok(())
    }

    fn join_token(&self) -> blobwise::store::Result<JoinToken> {
        if self.lie.starts_with("invites-") {
            self.inner.join_token()
        } else {
            Err(Error::Unsupported("guests"))
        }
    }

    fn purge(&self) -> blobwise::store::Result<()> {
        if self.lie == "never-purges" { Ok(()) } else { self.inner.purge() }
    }

    fn close(self: Box<Self>) -> blobwise::store::Result<()> {
        self.release_held()?;
        if ["forgets-when-closed", "compaction-is-lost-when-closed"].contains(&self.lie.as_str()) {
            self.forget_all()?;
        }
        self.inner.close()
    }
}

struct LyingSession<'s> {
    store: &'s LyingStore,
    inner: Box<dyn Session + 's>,
    /// Session that serves reads instead, for lies about transactions.
    reads: Option<Box<dyn Session + 's>>,
    /// Blobs that this session has read.
    remembered: BTreeMap<u64, Vec<u8>>,
}

impl LyingSession<'_> {
    fn is_there(&mut self, key: &Key) -> blobwise::store::Result<bool> {
        self.inner.get(key, Span::Whole, &mut |_| {})
    }
}

impl Session for LyingSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> blobwise::store::Result<()> {
        let number = self.store.puts.fetch_add(1, Ordering::Relaxed);
        match self.store.lie.as_str() {
            "loses-one-put-in-64" if number % 64 == 63 => return Ok(()),
            "truncates" => return self.inner.put(key, &blob[..blob.len().saturating_sub(1)]),
            "truncates-at-16-mib" => return self.inner.put(key, &blob[..blob.len().min((1 << 24) - 1)]),
            "keeps-the-old" if self.is_there(key)? => return Ok(()),
            "tears" => {
                self.inner.put(key, &blob[..blob.len() / 2])?;
                std::thread::yield_now();
            }
            "writes-outside" => std::fs::write(self.store.dir.with_file_name("outside"), blob)?,
            "leaves-a-name-unflushed" => {
                self.inner.put(key, blob)?;
                let draft = self.store.dir.join("draft");
                std::fs::write(&draft, blob)?;
                return Ok(std::fs::rename(draft, self.store.dir.join("unflushed"))?);
            }
            "flushes-something-else" => {
                self.inner.put(key, blob)?;
                return Ok(File::open(self.store.dir.parent().unwrap_or(&self.store.dir))?.sync_all()?);
            }
            "holds-puts-back" | "holds-puts-back-beyond-the-sync" => {
                self.store.held().insert(key.id, (*key, blob.to_vec()));
                return Ok(());
            }
            _ => {}
        }
        self.inner.put(key, blob)
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> blobwise::store::Result<bool> {
        if let Some(reads) = &mut self.reads {
            return reads.get(key, span, sink);
        }
        if let Some((_, blob)) = self.store.held().get(&key.id) {
            sink(span.slice_of(blob));
            return Ok(true);
        }
        match (self.store.lie.as_str(), span) {
            ("answers-with-a-neighbour", _) => {
                let neighbour = blobwise::conformance::bench::key(key.id ^ 1);
                let chosen = if self.is_there(&neighbour)? { neighbour } else { *key };
                return self.inner.get(&chosen, span, sink);
            }
            ("finds-what-is-missing", _) => return self.inner.get(key, span, sink).map(|_| true),
            ("ignores-the-end-of-a-range", Span::Part { offset, .. }) => {
                return self.inner.get(key, Span::Part { offset, len: u64::MAX }, sink);
            }
            ("claims-pieces-and-lends-all", Span::Whole) => {
                let mut all = Vec::new();
                let found = self.inner.get(key, span, &mut |piece| all.extend_from_slice(piece))?;
                sink(&all);
                return Ok(found);
            }
            ("claims-ranges-and-refuses", Span::Part { .. }) => {
                return Err(Error::Unsupported("a range read"));
            }
            ("sessions-remember", Span::Whole) => {
                if !self.remembered.contains_key(&key.id) {
                    let mut bytes = Vec::new();
                    if !self.inner.get(key, span, &mut |piece| bytes.extend_from_slice(piece))? {
                        return Ok(false);
                    }
                    self.remembered.insert(key.id, bytes);
                }
                sink(&self.remembered[&key.id]);
                return Ok(true);
            }
            _ => {}
        }
        let found = self.inner.get(key, span, sink)?;
        Ok(found || !self.store.invented.swap(true, Ordering::Relaxed))
    }

    fn delete(&mut self, key: &Key) -> blobwise::store::Result<()> {
        self.store.held().remove(&key.id);
        match self.store.lie.as_str() {
            "never-deletes" => Ok(()),
            "fails-to-delete-what-is-missing" if !self.is_there(key)? => {
                Err(Error::Failed(anyhow!("no such blob")))
            }
            _ => self.inner.delete(key),
        }
    }

    fn sync(&mut self) -> blobwise::store::Result<()> {
        match self.store.lie.as_str() {
            "skips-the-sync" | "holds-puts-back-beyond-the-sync" => Ok(()),
            _ => self.inner.sync(),
        }
    }

    fn catalogue(&mut self) -> blobwise::store::Result<&mut dyn Catalogue> {
        match self.store.lie.as_str() {
            "finds-without-counting" | "rolls-nothing-back" => Ok(self),
            _ => self.inner.catalogue(),
        }
    }

    fn connect(&mut self) -> blobwise::store::Result<()> {
        match self.store.lie.as_str() {
            "connection-undeclared" | "connects-to-nothing" => Ok(()),
            _ => self.inner.connect(),
        }
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> blobwise::store::Result<()> {
        let mut first: Option<String> = None;
        self.inner.list(&mut |hex| match self.store.lie.as_str() {
            "list-forgets-one" if first.is_none() => first = Some(hex.to_owned()),
            _ => {
                first.get_or_insert_with(|| hex.to_owned());
                each(hex);
            }
        })?;
        if let Some(first) = first.filter(|_| self.store.lie == "lists-one-twice") {
            each(&first);
        }
        Ok(())
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> blobwise::store::Result<()> {
        match self.store.lie.as_str() {
            "batch-drops-the-last" => self.inner.put_batch(&blobs[..blobs.len().saturating_sub(1)]),
            "holds-puts-back" | "holds-puts-back-beyond-the-sync" => {
                blobs.iter().try_for_each(|(key, blob)| self.put(key, blob))
            }
            "flushes-something-else" => {
                self.inner.put_batch(blobs)?;
                Ok(File::open(self.store.dir.parent().unwrap_or(&self.store.dir))?.sync_all()?)
            }
            _ => self.inner.put_batch(blobs),
        }
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> blobwise::store::Result<usize> {
        if self.store.lie == "get-of-several-mixes-up" {
            return self.inner.get_many(keys, &mut |index, piece| sink(keys.len() - 1 - index, piece));
        }
        self.inner.get_many(keys, sink)
    }

    fn delete_batch(&mut self, keys: &[Key]) -> blobwise::store::Result<()> {
        keys.iter().for_each(|key| drop(self.store.held().remove(&key.id)));
        self.inner.delete_batch(keys)
    }
}

impl Catalogue for LyingSession<'_> {
    fn begin(&mut self) -> blobwise::store::Result<()> {
        self.inner.catalogue()?.begin()
    }

    fn commit(&mut self) -> blobwise::store::Result<()> {
        self.inner.catalogue()?.commit()
    }

    fn rollback(&mut self) -> blobwise::store::Result<()> {
        if self.store.lie == "rolls-nothing-back" {
            self.commit()
        } else {
            self.inner.catalogue()?.rollback()
        }
    }

    fn find(&mut self, digest: &Key) -> blobwise::store::Result<bool> {
        let found = self.inner.catalogue()?.find(digest)?;
        if found && self.store.lie == "finds-without-counting" {
            self.release(digest)?;
        }
        Ok(found)
    }

    fn insert(&mut self, digest: &Key, bytes: u64) -> blobwise::store::Result<()> {
        self.inner.catalogue()?.insert(digest, bytes)
    }

    fn confirm(&mut self, digest: &Key) -> blobwise::store::Result<()> {
        self.inner.catalogue()?.confirm(digest)
    }

    fn release(&mut self, digest: &Key) -> blobwise::store::Result<bool> {
        self.inner.catalogue()?.release(digest)
    }

    fn forget(&mut self, digest: &Key) -> blobwise::store::Result<()> {
        self.inner.catalogue()?.forget(digest)
    }

    fn references(&mut self, digest: &Key) -> blobwise::store::Result<u64> {
        self.inner.catalogue()?.references(digest)
    }
}
