//! Servers that a store does not start: a user's own by URL, or a stand-in that speaks the protocol of one that cannot be
//! installed here.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use blobwise::conformance::subject::Subject;
use blobwise::host::place::Place;
use blobwise::host::server::{Launch, Server};
use blobwise::store::{self, Adapter, Common, Durability, Error, Options, Setup, Store};
use blobwise::stores;

use crate::obtainable::is_installed_without_tls;
use crate::opening;

/// Reason why a subject has no server.
#[derive(Clone)]
pub enum Missing {
    /// `./test.sh` would install it.
    Installable(String),
    /// `./test.sh` cannot install it.
    Unobtainable(String),
}

/// True if a store reaches its server by URL only, so that the server cannot be examined or killed.
pub fn is_outside(adapter: &Adapter) -> bool {
    match stores::family(adapter.name) {
        "mongodb" => given("mongodb").is_some() || !has_programs(adapter),
        "mssql" => true,
        _ => false,
    }
}

/// Returns what a subject lacks; `None` if it can be tested.
pub fn missing(subject: &Subject) -> Option<Missing> {
    if given(subject.family()).is_some() {
        return None;
    }
    if !is_outside(subject.adapter) {
        let reason = format!("{:#}", subject.adapter.lacks(&subject.options)?);
        return Some(match is_installed_without_tls(subject.adapter, &subject.options) {
            true => Missing::Unobtainable(reason),
            false => Missing::Installable(reason),
        });
    }
    match subject.family() {
        "mongodb" => peer_program().err().map(|error| Missing::Installable(format!("{error:#}"))),
        family => Some(Missing::Unobtainable(format!(
            "there is no server of this kind to install here; {} names one",
            variable(family)
        ))),
    }
}

/// Options of a subject, with the URL of the server that it is tested with.
pub fn options(subject: &Subject) -> Result<Options> {
    if !is_outside(subject.adapter) {
        return Ok(subject.options.clone());
    }
    let url = match given(subject.family()) {
        Some(url) => url,
        None => peer_url()?,
    };
    let mut values = subject.options.shown();
    values.insert("url".to_owned(), url);
    Ok(Options::new(values))
}

/// Opens a subject's store in its own server, or in the one that it is tested with.
pub fn open(subject: &Subject, setup: &Setup) -> store::Result<Box<dyn Store>> {
    let _turn = turn(subject.adapter);
    (subject.adapter.open)(&Setup { options: &options(subject)?, ..setup.clone() })
}

/// Serialises the creation of stores in a shared server: creating one also searches leftovers of others, and the stand-in for
/// MongoDB fails if a database is dropped while another client looks at it.
pub fn turn(adapter: &Adapter) -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    is_outside(adapter).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Strongest class to test: none for a user's own server that refuses a stronger one.
pub fn strongest(adapter: &Adapter, options: &Options) -> Result<Durability> {
    static KNOWN: Mutex<Option<Durability>> = Mutex::new(None);
    let Some(url) = (stores::family(adapter.name) == "mongodb").then(|| given("mongodb")).flatten() else {
        return Ok(Durability::EachWrite);
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(class) = *known {
        return Ok(class);
    }
    let place = Place::make(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
    let mut values = options.shown();
    values.insert("url".to_owned(), url);
    let (common, options) = (Common::new(place.path().to_owned()), Options::new(values));
    let opened = (adapter.open)(&Setup {
        durability: Durability::EachWrite,
        op_timeout: Duration::from_secs(20),
        ..opening::small(place.path(), &common, &options)
    });
    let class = match opened {
        Ok(store) => {
            store.remove()?;
            Durability::EachWrite
        }
        Err(Error::Failed(error)) if format!("{error:#}").contains(WAY_OUT) => Durability::None,
        Err(error) => return Err(error.into()),
    };
    Ok(*known.insert(class))
}

/// End of the message that refuses a class.
pub const WAY_OUT: &str = "cannot be promised; --durability none can";

fn variable(family: &str) -> String {
    format!("BLOBWISE_{}_URL", family.to_uppercase())
}

pub fn given(family: &str) -> Option<String> {
    std::env::var(variable(family)).ok().filter(|url| !url.is_empty())
}

fn has_programs(adapter: &Adapter) -> bool {
    adapter.programs.iter().all(|program| program.find().is_ok())
}

// ---- the stand-in for MongoDB ----------------------------------------------------------------------------------------

/// A running stand-in for MongoDB. It ends with this process, because its supervisor does.
pub struct Peer {
    pub url: String,
    _server: Server,
    _place: Place,
}

/// Paths of `java` and of the classes that `./test.sh` made from `tests/peers/MongoPeer.java`.
fn peer_program() -> Result<(PathBuf, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let java =
        std::env::split_paths(&path).map(|directory| directory.join("java")).find(|file| file.is_file());
    let java = java
        .context("no mongod and no URL, and no `java` for the stand-in; apt-get install default-jdk maven")?;
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap_or_default();
    let classes = caches.join("blobwise/mongo-peer-1.47.0");
    anyhow::ensure!(
        classes.join("MongoPeer.class").is_file(),
        "no mongod and no URL, and no stand-in in `{}`, where ./test.sh puts one",
        classes.display()
    );
    Ok((java, classes))
}

/// URL of the stand-in, which is started at the first call.
fn peer_url() -> Result<String> {
    static PEER: Mutex<Option<Peer>> = Mutex::new(None);
    let mut peer = PEER.lock().unwrap_or_else(PoisonError::into_inner);
    let running = match peer.take() {
        Some(running) => running,
        None => Peer::start(&["as-mongodb"]).context("the stand-in for MongoDB")?,
    };
    Ok(peer.insert(running).url.clone())
}

impl Peer {
    /// Starts a stand-in. Without arguments it identifies itself truthfully; with `as-mongodb` it claims to be MongoDB.
    pub fn start(words: &[&str]) -> Result<Peer> {
        const PATIENCE: Duration = Duration::from_secs(120);
        let (java, classes) = peer_program()?;
        let place = Place::make(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
        let launch = Launch::new(&java, place.path())
            .args(["-Xmx1g", "-cp"])
            .arg(format!("{0}:{0}/*", classes.display()))
            .arg("MongoPeer")
            .arg(place.path().join("data.h2"))
            .args(words.iter().copied());
        let log = launch.log.clone();
        let mut server = Server::start(&launch)?;
        let mut url = String::new();
        server.wait_until_ready(PATIENCE, || {
            let said = std::fs::read_to_string(&log)?;
            let line = said.lines().find(|line| line.starts_with("mongodb://"));
            url = line.context("it has not said where it listens")?.to_owned();
            Ok(())
        })?;
        Ok(Peer { url, _server: server, _place: place })
    }
}
