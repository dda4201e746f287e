//! Shared by the adapters of servers: common options, timeouts, names and ports.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::{keys, lock};
use crate::host::machine::{memory_bytes, path_space};
use crate::store::*;
use crate::units;

/// How long a server may take to become ready. The first start after a crash replays its log.
pub(in crate::stores) const START_PATIENCE: Duration = Duration::from_secs(90);

/// How long a server may take to stop.
pub(in crate::stores) const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// Starts a server on a free loopback port. If another process takes the port first, tries another one.
pub(in crate::stores) fn on_free_port<T>(start: impl Fn(u16) -> Result<T>) -> Result<T> {
    const ATTEMPTS_MAX: u32 = 3;
    let mut attempt = 1;
    loop {
        match start(crate::host::server::free_port()?) {
            Err(Error::Failed(error))
                if attempt < ATTEMPTS_MAX && format!("{error:#}").contains("ddress already in use") =>
            {
                attempt += 1;
            }
            outcome => return outcome,
        }
    }
}

/// The most connections of a private server: its default, and enough for all workers, the admin connection and monitoring. A
/// closed connection keeps its slot until the server has ended its thread or process; with a connection per op those add up on a
/// busy machine.
pub(in crate::stores) fn connections(workers: usize, by_itself: usize) -> usize {
    const SPARE: usize = 20;
    by_itself.max(workers + SPARE)
}

pub(in crate::stores) const CONNECTION: OptionSpec = OptionSpec::choice("connection", &["kept", "per-op"])
    .about("kept: one connection a worker; per-op: every op connects, as scripts without a pool do");

pub(in crate::stores) const DELETE: OptionSpec = OptionSpec::choice("delete", &["now", "lazy"])
    .about("now: the row goes; lazy: it is marked, and goes in the phase `purge`");

pub(in crate::stores) const PROFILE: OptionSpec = OptionSpec::choice("profile", &["tuned", "default"]).about(
    "tuned: its cache is the share of the memory that its vendor says; default: as the vendor ships it",
);

/// How a server with a profile divides its memory: as its vendor recommends, or as shipped.
pub(in crate::stores) fn split(options: &Options, tuned: CacheRecommendation) -> CacheRecommendation {
    let is_ours = options.text(URL.name).is_empty();
    if is_ours && options.text(PROFILE.name) == "tuned" { tuned } else { CacheRecommendation::NO_CACHE }
}

pub(in crate::stores) const URL: OptionSpec = OptionSpec {
    name: "url",
    values: Values::Url,
    default: "",
    about: "your own server instead of a private one; blobwise uses and removes only what it marked",
};

pub(in crate::stores) const EVICTS: OptionSpec = OptionSpec::choice("evicts", &["refused", "allowed"])
    .about("allowed: your own server may evict what is there, others' too, to make room for a run's blobs; misses are counted");

/// What the owner of a server that evicts can do when it has too little room, and what that loses.
pub(in crate::stores) const EVICTS_OFFERED: &str =
    ", or let it throw away what is there, others' too (the option evicts=allowed)";

/// True if blobs may be evicted: a private server has the size in this option, or the user's may evict.
pub(in crate::stores) fn may_evict(options: &Options, size: &OptionSpec) -> bool {
    match options.text(URL.name) {
        "" => options.number(size.name) > 0,
        _ => options.text(EVICTS.name) == "allowed",
    }
}

/// Refuses a size for the user's server.
pub(in crate::stores) fn check_size(options: &Options, size: &OptionSpec) -> Result<()> {
    ensure!(
        options.text(URL.name).is_empty() || options.number(size.name) == 0,
        "the option `{}` is the size of a private server, and your own server has its size already",
        size.name
    );
    Ok(())
}

/// Why a private cache cannot have these options; `None` if it can.
pub(in crate::stores) fn refusal_of_cache(options: &Options, size: &OptionSpec) -> Option<anyhow::Error> {
    check_private(options, size, memory_bytes()).err()
}

/// Refuses leave to evict what others keep where nobody else is, and a size that would make a machine of `memory_bytes` swap.
fn check_private(options: &Options, size: &OptionSpec, memory_bytes: u64) -> anyhow::Result<()> {
    const SHARE_MAX: f64 = 0.75;
    ensure!(
        options.text(EVICTS.name) != "allowed",
        "`evicts=allowed` is of your own server: name that by `url`, or give a private one its size by `{}`",
        size.name
    );
    let asked = options.number(size.name);
    ensure!(
        memory_bytes == 0 || asked as f64 <= SHARE_MAX * memory_bytes as f64,
        "`{}={}` is more than three quarters of this machine's memory, which is {}",
        size.name,
        units::typed_bytes(asked),
        units::bytes(memory_bytes as f64)
    );
    Ok(())
}

/// Option: size of pieces, from the published comparison of ways to keep files in PostgreSQL.
pub(in crate::stores) const PIECE: OptionSpec = OptionSpec::choice(
    "piece",
    &["512", "1024", "2048", "4096", "8192", "16384", "32768", "65536", "131072", "262144"],
)
.default("65536")
.about("bytes of a piece");

pub(in crate::stores) const SERVER: OptionSpec = OptionSpec::choice("server", &["private", "shared"])
    .about("private: one for each store; shared: one for all such candidates of a run, with a schema or a database for each store");

/// The traits of a store behind a server, which may have any of the options here and that of keys.
pub(in crate::stores) fn traits(options: &Options) -> Traits {
    let is_external = !options.text(URL.name).is_empty();
    Traits {
        has_process: true,
        is_external,
        shares_server: !is_external && options.text(SERVER.name) == "shared",
        connects: if options.text(CONNECTION.name) == "per-op" {
            ConnectionUse::EachOp
        } else {
            ConnectionUse::Never
        },
        lazy_delete: options.text(DELETE.name) == "lazy",
        ..keys::traits(options)
    }
}

/// The owner of the server.
pub(in crate::stores) enum Host<I> {
    /// A private server of this store.
    Private(I),
    /// A server shared by candidates of the run, in which this store has a schema or database of its own.
    Shared(Arc<I>),
    /// The user's server, given by URL, in which this store has a schema or database of its own.
    Theirs,
}

impl<I> Host<I> {
    /// The server that the options `url` and `server` select. `start` starts one in a directory; candidates with the same
    /// `shared_name` share one.
    pub(in crate::stores) fn open(
        setup: &Setup,
        shared_name: impl FnOnce() -> String,
        start: impl FnOnce(&Path, Mode) -> Result<I>,
    ) -> Result<Host<I>>
    where
        I: Any + Send + Sync,
    {
        Ok(match (setup.options.text(URL.name), setup.options.text(SERVER.name)) {
            ("", "shared") => {
                Host::Shared(setup.common.server(&shared_name(), |dir| start(dir, Mode::Create))?)
            }
            ("", _) => Host::Private(start(setup.dir, setup.mode)?),
            _ => Host::Theirs,
        })
    }

    /// The server, if this process started it.
    pub(in crate::stores) fn instance(&self) -> Option<&I> {
        match self {
            Host::Private(instance) => Some(instance),
            Host::Shared(instance) => Some(instance),
            Host::Theirs => None,
        }
    }

    pub(in crate::stores) fn is_private(&self) -> bool {
        matches!(self, Host::Private(_))
    }

    pub(in crate::stores) fn is_theirs(&self) -> bool {
        matches!(self, Host::Theirs)
    }

    /// The name of our schema or database: the given one in a private server, a unique one elsewhere.
    pub(in crate::stores) fn name_ours(&self, private: &str) -> String {
        if self.is_private() { private.to_owned() } else { own_name() }
    }

    /// The owner, as a fact of the store.
    pub(in crate::stores) fn whose(&self) -> &'static str {
        match self {
            Host::Private(_) => whose(true),
            Host::Shared(_) => "shared by candidates of the run",
            Host::Theirs => whose(false),
        }
    }

    /// Ends the admin connection and stops the server if it is private. In the user's server the connection is kept for the lock
    /// that it holds, unless another process holds it.
    pub(in crate::stores) fn close(
        self,
        admin: impl Send + 'static,
        locked: Option<String>,
        stop: impl FnOnce(I) -> Result<()>,
    ) -> Result<()> {
        match (self, locked) {
            (Host::Private(instance), _) => {
                drop(admin);
                stop(instance)
            }
            (Host::Theirs, Some(name)) => {
                keep_lock(name, admin);
                Ok(())
            }
            (Host::Shared(_) | Host::Theirs, _) => Ok(()),
        }
    }
}

/// Prefix of everything that this program makes in the user's server; a mark confirms it.
pub(in crate::stores) const OURS: &str = "blobwise_";

/// A unique name for the schema or database of one store.
pub(in crate::stores) fn own_name() -> String {
    format!("{OURS}{:016x}", crate::host::place::fresh_seed())
}

/// True if this program could have made the name; names go into statements unescaped.
pub(in crate::stores) fn is_our_name(name: &str) -> bool {
    name.strip_prefix(OURS).is_some_and(|number| {
        number.len() == 16
            && number.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit))
    })
}

/// Connections to users' servers that hold the locks of closed stores, by what is locked. Without its lock, a temporarily closed
/// store would look to another run like a leftover of a killed one.
static LOCKS_OF_CLOSED: Mutex<BTreeMap<String, Box<dyn Send>>> = Mutex::new(BTreeMap::new());

/// Keeps the connection that holds the lock of `name`, until the store is opened again or this process ends.
fn keep_lock(name: String, connection: impl Send + 'static) {
    lock(&LOCKS_OF_CLOSED).insert(name, Box::new(connection));
}

/// Ends the kept connection for `name`, if any; the reopened store holds the lock too by now.
pub(in crate::stores) fn end_kept_lock(name: &str) {
    drop(lock(&LOCKS_OF_CLOSED).remove(name));
}

/// The owner of a server that is not shared, as a fact of the store.
pub(in crate::stores) fn whose(is_private: bool) -> &'static str {
    if is_private { "private" } else { "given by URL" }
}

/// What is ours in a server: its kind, which is also the name of the file that keeps its name for reopening.
#[derive(Clone, Copy)]
pub(in crate::stores) struct PlaceKind(pub(in crate::stores) &'static str);

impl PlaceKind {
    /// Records the name of a store's place; before it is made, so that it can be found.
    pub(in crate::stores) fn keep_name(self, dir: &Path, name: &str) -> Result<()> {
        Ok(std::fs::write(dir.join(self.0), name)?)
    }

    pub(in crate::stores) fn kept_name(self, dir: &Path) -> Result<String> {
        let name = std::fs::read_to_string(dir.join(self.0));
        Ok(name.with_context(|| format!("the name of our {} is lost", self.0))?)
    }

    pub(in crate::stores) fn check_mark(self, name: &str, is_ours: bool) -> Result<()> {
        ensure!(is_ours, "the {} `{name}` does not carry our mark; it is left alone", self.0);
        Ok(())
    }
}

/// Returns a new store after its setup. If that failed, removes what it has made in the user's server, and adds to the reason what
/// could not be removed. `made` is what was made; `None` if nothing was.
pub(in crate::stores) fn set_up<S: Store + 'static>(
    store: Box<S>,
    outcome: Result<()>,
    made: Option<String>,
) -> Result<Box<dyn Store>> {
    match (outcome, made) {
        (Ok(()), _) => Ok(store),
        (Err(why), Some(made)) => Err(taken_back(store, &made, why)),
        (Err(why), None) => Err(why),
    }
}

fn taken_back(store: Box<dyn Store>, made: &str, why: Error) -> Error {
    match store.remove() {
        Ok(()) => why,
        Err(left) => Error::Failed(anyhow!(
            "{}; `{made}` is left there, because removing it failed: {}",
            shown(why),
            shown(left)
        )),
    }
}

fn shown(error: Error) -> String {
    format!("{:#}", anyhow::Error::from(error))
}

/// The user of a database in a server without connection-bound locks: a store's directory, as seen from this machine.
pub(in crate::stores) struct Owner {
    pub(in crate::stores) machine: String,
    pub(in crate::stores) dir: String,
}

impl Owner {
    pub(in crate::stores) fn for_dir(dir: &Path) -> Owner {
        let dir = dir.canonicalize().unwrap_or_else(|_missing| dir.to_owned());
        Owner { machine: path_space().to_owned(), dir: dir.to_string_lossy().into_owned() }
    }

    /// True if its directory would be visible here and does not exist. The next run removes the directories of killed runs.
    /// Directories of another machine, another container, another root or an earlier boot never count as gone, nor do those of
    /// other users, which cannot be looked into.
    pub(in crate::stores) fn is_gone(&self) -> bool {
        let is_missing = || Path::new(&self.dir).try_exists().is_ok_and(|exists| !exists);
        !self.machine.is_empty() && self.machine == path_space() && is_missing()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Number of attempts if the first `failures` fail with `why`, and whether the last one succeeded.
    fn tried(failures: u32, why: &'static str) -> (u32, bool) {
        let tries = Cell::new(0);
        let outcome = on_free_port(|_port| {
            tries.set(tries.get() + 1);
            if tries.get() > failures { Ok(()) } else { Err(Error::Failed(anyhow!(why))) }
        });
        (tries.get(), outcome.is_ok())
    }

    #[test]
    fn a_port_that_was_taken_is_changed_for_another_but_not_for_ever() {
        let taken = "bind() to 127.0.0.1:4 failed (98: Address already in use)";
        assert_eq!(tried(2, taken), (3, true));
        assert_eq!(tried(9, taken), (3, false));
        assert_eq!(tried(2, "no such module"), (1, false));
    }

    #[test]
    fn a_private_cache_has_neither_others_in_it_nor_more_memory_than_the_machine() {
        const SIZE: OptionSpec = OptionSpec::bytes("memory", 0, 1 << 40, "0");
        let said = |evicts: &str, size: &str| {
            let values = [(EVICTS.name, evicts), (SIZE.name, size)];
            let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let outcome = check_private(&Options::new(values.into()), &SIZE, 1 << 30);
            outcome.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(said("refused", "0") + &said("refused", "805306368"), "");
        assert!(said("allowed", "0").contains("is of your own server"));
        assert!(said("refused", "1073741824").starts_with("`memory=1GiB` is more than three quarters"));
    }

    #[test]
    fn only_names_that_we_make_are_ours() {
        assert!(is_our_name(&own_name()));
        for other in
            ["dbo", "blobwise_", "blobwise_1", "blobwise_0123456789abcdeg", "blobwise_x]; DROP TABLE y--"]
        {
            assert!(!is_our_name(other), "{other}");
        }
    }

    #[test]
    fn only_what_was_made_here_and_has_lost_its_directory_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        std::fs::create_dir(&store).unwrap();
        let owner = Owner::for_dir(&store);
        assert!(!owner.is_gone());
        std::fs::remove_dir(&store).unwrap();
        assert!(owner.is_gone());
        let elsewhere = Owner { machine: format!("{} elsewhere", owner.machine), dir: owner.dir };
        assert!(!elsewhere.is_gone());
        assert!(!Owner { machine: String::new(), dir: elsewhere.dir }.is_gone());
        // The name is too long for any file system, so its existence cannot be determined, as in a directory that only another
        // user may enter.
        let unseen = dir.path().join("x".repeat(1000)).to_string_lossy().into_owned();
        assert!(!Owner { machine: path_space().to_owned(), dir: unseen }.is_gone());
    }
}
