//! What the adapters of servers share: options that mean the same for all of them, patience, names and ports.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::keys;
use crate::store::{Connects, Error, OptionSpec, Options, Split, Store, Traits, Values};

/// How long a server may take to become ready. A first start after a crash replays its log.
pub(in crate::stores) const START_PATIENCE: std::time::Duration = std::time::Duration::from_secs(90);

/// How long a server may take to stop.
pub(in crate::stores) const STOP_PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Starts a server that listens on a free loopback port. One that was free may be taken before the server has it: then another
/// one is tried.
pub(in crate::stores) fn on_free_port<T>(
    start: impl Fn(u16) -> crate::store::Result<T>,
) -> crate::store::Result<T> {
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

/// How many connections a private server takes at most: as many as it does by itself, and enough for all workers, the keeper and
/// whoever looks. One that was closed keeps its place until the server has ended its thread or process; with a connection for each
/// op those add up on a busy machine.
pub(in crate::stores) fn connections(workers: usize, by_itself: usize) -> usize {
    const SPARE: usize = 20;
    by_itself.max(workers + SPARE)
}

/// Whether a session keeps its connection.
pub(in crate::stores) const CONNECTION: OptionSpec = OptionSpec {
    name: "connection",
    values: Values::OneOf(&["kept", "per-op"]),
    default: "kept",
    about: "kept: one connection a worker; per-op: every op connects, as scripts without a pool do",
};

/// What a delete does.
pub(in crate::stores) const DELETE: OptionSpec = OptionSpec {
    name: "delete",
    values: Values::OneOf(&["now", "lazy"]),
    default: "now",
    about: "now: the row goes; lazy: it is marked, and goes in the phase `purge`",
};

/// How a private server is configured.
pub(in crate::stores) const PROFILE: OptionSpec = OptionSpec {
    name: "profile",
    values: Values::OneOf(&["tuned", "default"]),
    default: "tuned",
    about: "tuned: its cache is the share of the memory that its vendor says; default: as the vendor ships it",
};

/// How memory is divided in a server with a profile: as its vendor says, or as it is shipped.
pub(in crate::stores) fn split(options: &Options, tuned: Split) -> Split {
    let is_ours = options.text(URL.name).is_empty();
    if is_ours && options.text(PROFILE.name) == "tuned" { tuned } else { Split::NO_CACHE }
}

/// A server of the user's.
pub(in crate::stores) const URL: OptionSpec = OptionSpec {
    name: "url",
    values: Values::Url,
    default: "",
    about: "a server of yours instead of a private one; only what is marked as ours is used and removed",
};

/// Whose a private server is.
pub(in crate::stores) const SERVER: OptionSpec = OptionSpec {
    name: "server",
    values: Values::OneOf(&["private", "shared"]),
    default: "private",
    about: "private: one for each store; shared: one for all such candidates of a run, with a schema or a database for each store",
};

/// The traits of a store behind a server, which may have any of the options here and that of keys.
pub(in crate::stores) fn traits(options: &Options) -> Traits {
    let is_external = !options.text(URL.name).is_empty();
    Traits {
        has_process: true,
        is_external,
        shares_server: !is_external && options.text(SERVER.name) == "shared",
        connects: if options.text(CONNECTION.name) == "per-op" { Connects::EachOp } else { Connects::Never },
        lazy_delete: options.text(DELETE.name) == "lazy",
        ..keys::traits(options)
    }
}

/// Whose server it is.
pub(in crate::stores) enum Host<I> {
    /// Ours alone.
    Private(I),
    /// That of several candidates of the run, in which something with a name of its own is ours.
    Shared(std::sync::Arc<I>),
    /// Somebody's, given by its URL, in which likewise.
    Theirs,
}

impl<I> Host<I> {
    /// What the options `url` and `server` ask for.
    pub(in crate::stores) fn of(
        options: &Options,
        private: impl FnOnce() -> crate::store::Result<I>,
        shared: impl FnOnce() -> crate::store::Result<std::sync::Arc<I>>,
    ) -> crate::store::Result<Host<I>> {
        Ok(match (options.text(URL.name), options.text(SERVER.name)) {
            ("", "shared") => Host::Shared(shared()?),
            ("", _) => Host::Private(private()?),
            _ => Host::Theirs,
        })
    }

    /// The server, where we started it.
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

    /// A name for what is ours in it: the given one where nobody else is there.
    pub(in crate::stores) fn name_ours(&self, private: &str) -> String {
        if self.is_private() { private.to_owned() } else { own_name() }
    }

    /// As a fact of the store.
    pub(in crate::stores) fn whose(&self) -> &'static str {
        match self {
            Host::Private(_) => "private",
            Host::Shared(_) => "shared by candidates of the run",
            Host::Theirs => "given by URL",
        }
    }

    /// Stops it where nobody else uses it.
    pub(in crate::stores) fn close(
        self,
        stop: impl FnOnce(I) -> crate::store::Result<()>,
    ) -> crate::store::Result<()> {
        match self {
            Host::Private(instance) => stop(instance),
            Host::Shared(_) | Host::Theirs => Ok(()),
        }
    }
}

/// Sizes of pieces, from the published comparison of ways to keep files in PostgreSQL.
pub(in crate::stores) const PIECES: Values =
    Values::OneOf(&["512", "1024", "2048", "4096", "8192", "16384", "32768", "65536", "131072", "262144"]);

/// Names what is ours in a server of the user's: a prefix, and a mark beside it.
pub(in crate::stores) const OURS: &str = "blobwise_";

/// A name for the schema or database of one store, never the same twice.
pub(in crate::stores) fn own_name() -> String {
    format!("{OURS}{:016x}", crate::host::place::fresh_seed())
}

/// Whether a name is one that we make: it is put into statements as it is.
pub(in crate::stores) fn is_our_name(name: &str) -> bool {
    name.strip_prefix(OURS).is_some_and(|number| {
        number.len() == 16
            && number.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit))
    })
}

/// Connections to servers of users that hold the locks of closed stores, by what is locked. Without its lock, a store that is closed for
/// a while looks to another run like one that a killed run left.
static LOCKS_OF_CLOSED: Mutex<BTreeMap<String, Box<dyn Send>>> = Mutex::new(BTreeMap::new());

fn locks_of_closed() -> MutexGuard<'static, BTreeMap<String, Box<dyn Send>>> {
    LOCKS_OF_CLOSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the connection whose lock says that `name` is in use, until the store is open again or this process ends.
pub(in crate::stores) fn keep_lock(name: String, connection: impl Send + 'static) {
    locks_of_closed().insert(name, Box::new(connection));
}

/// Ends the connection that kept the lock of `name`, where there is one: another one has it too by now.
pub(in crate::stores) fn end_kept_lock(name: &str) {
    drop(locks_of_closed().remove(name));
}

/// Takes back what was made of a store that cannot be finished, and hands on why. What cannot be removed is named.
pub(in crate::stores) fn taken_back(store: Box<dyn Store>, made: &str, why: Error) -> Error {
    match store.remove() {
        Ok(()) => why,
        Err(left) => Error::Failed(anyhow::anyhow!(
            "{}; `{made}` is left there, because removing it failed: {}",
            shown(why),
            shown(left)
        )),
    }
}

fn shown(error: Error) -> String {
    format!("{:#}", anyhow::Error::from(error))
}

/// Who uses a database in a server that has no locks which end with a connection: a store's directory, seen from this machine.
pub(in crate::stores) struct Owner {
    pub(in crate::stores) machine: String,
    pub(in crate::stores) dir: String,
}

impl Owner {
    /// The store of a directory.
    pub(in crate::stores) fn of(dir: &std::path::Path) -> Owner {
        let dir = dir.canonicalize().unwrap_or_else(|_missing| dir.to_owned());
        Owner { machine: machine(), dir: dir.to_string_lossy().into_owned() }
    }

    /// Whether its directory would be seen from here and is not there. Directories of killed runs are removed by the next
    /// run; what another machine, another container or an earlier boot made is never taken for gone, nor what another user made,
    /// whose directories cannot be looked into.
    pub(in crate::stores) fn is_gone(&self) -> bool {
        let is_missing = || std::path::Path::new(&self.dir).try_exists().is_ok_and(|exists| !exists);
        !self.machine.is_empty() && self.machine == machine() && is_missing()
    }
}

/// This boot of the machine, and the file systems that this process sees; empty where that cannot be known.
fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let mounts = std::fs::read_link("/proc/self/ns/mnt");
    match (boot, mounts) {
        (Ok(boot), Ok(mounts)) => format!("{} {}", boot.trim(), mounts.display()),
        _ => String::new(),
    }
}

#[cfg(test)]
mod port_tests {
    use std::cell::Cell;

    use super::on_free_port;
    use crate::store::Error;

    /// How often it was tried when the first `failures` tries end with `why`, and whether it came to something.
    fn tried(failures: u32, why: &'static str) -> (u32, bool) {
        let tries = Cell::new(0);
        let outcome = on_free_port(|_port| {
            tries.set(tries.get() + 1);
            if tries.get() > failures { Ok(()) } else { Err(Error::Failed(anyhow::anyhow!(why))) }
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let owner = Owner::of(&store);
        assert!(!owner.is_gone());
        std::fs::remove_dir(&store).unwrap();
        assert!(owner.is_gone());
        let elsewhere = Owner { machine: format!("{} elsewhere", owner.machine), dir: owner.dir };
        assert!(!elsewhere.is_gone());
        assert!(!Owner { machine: String::new(), dir: elsewhere.dir }.is_gone());
        // No name is that long: whether it is there cannot be known, as in a directory that only another user may enter.
        let unseen = dir.path().join("x".repeat(1000)).to_string_lossy().into_owned();
        assert!(!Owner { machine: machine(), dir: unseen }.is_gone());
    }
}
