//! The description of a store that is not open yet: a constant with its name, its capabilities and how to open it.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::{
    CacheRecommendation, Capabilities, ColdMethod, Durability, Error, Integrity, Intent, Kind, Losses,
    OptionSpec, Options, Result, Store, Traits, Values,
};
use crate::host::server::Program;

/// Create a store or open an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The directory is empty.
    Create,
    /// The directory holds what an earlier `Create` left.
    Open,
}

/// State shared by all stores of a run, for as long as the run lasts.
#[derive(Clone, Debug)]
pub struct Common {
    /// Directory for what is made once and copied in each round, such as an initialised data directory.
    pub cache_dir: PathBuf,
    servers: Arc<Mutex<BTreeMap<String, Arc<dyn Any + Send + Sync>>>>,
}

impl Common {
    /// An empty state; `cache_dir` need not exist yet.
    pub fn new(cache_dir: PathBuf) -> Common {
        Common { cache_dir, servers: Arc::default() }
    }

    /// Returns the server of this name. The first call starts it in a directory of its own below `cache_dir`.
    pub fn server<T: Any + Send + Sync>(
        &self,
        name: &str,
        start: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<Arc<T>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match servers.get(name) {
            Some(known) => Arc::clone(known),
            None => {
                // Short, because some servers limit the length of a path.
                let dir = self.cache_dir.join(format!("{:016x}", xxh3_64(name.as_bytes())));
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

/// Everything an adapter needs to open a store.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The store's own directory; it writes nowhere else.
    pub dir: &'a Path,
    /// State shared by the stores of the run.
    pub common: &'a Common,
    /// Create or open.
    pub mode: Mode,
    /// The requested durability class; one of the adapter's [`Capabilities::durability`].
    pub durability: Durability,
    /// Memory the store may use for its own cache, in bytes, for all sessions together. Set by the plan, or else derived by the
    /// adapter from the available memory ([`Adapter::memory`]).
    pub cache_bytes: u64,
    /// True if all blobs fit into the memory available to the store.
    pub fits: bool,
    /// Size of the largest blob it will be given, in bytes.
    pub blob_bytes_max: u64,
    /// The most bytes it will have to hold at once, for stores that reserve address space.
    pub store_bytes_max: u64,
    /// Upper bound of key ids (exclusive).
    pub keys_max: u64,
    /// The most sessions that are open at once.
    pub workers: usize,
    /// Time limit of one operation.
    pub op_timeout: Duration,
    /// The candidate's settings.
    pub options: &'a Options,
    /// Set if another process has opened the store and this one only joins it: the adapter then makes, starts, stops and removes
    /// nothing.
    pub join_token: Option<&'a JoinToken>,
}

/// What another process needs to open sessions with a store that this one has open: addresses, names and passwords. It is passed
/// from process to process and never written anywhere.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JoinToken(String);

impl JoinToken {
    /// Serializes the adapter's own connection data.
    pub fn encode(said: &impl serde::Serialize) -> Result<JoinToken> {
        serde_json::to_string(said).map(JoinToken).map_err(Error::failed)
    }

    /// Deserializes the data given to [`JoinToken::encode`].
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.0).map_err(Error::failed)
    }
}

impl std::fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Invitation")
    }
}

/// Versions and settings that a store reports of itself: read back from it, not copied from what was configured.
pub type Facts = BTreeMap<String, String>;

/// How another program connects to the server behind a store.
#[derive(Clone, Debug, Default)]
pub struct Contact {
    /// Host name or address; `localhost` for a socket.
    pub host: String,
    /// Path of the socket; for PostgreSQL, of the directory that has it. Empty if the server is reached by host and port.
    pub socket: String,
    /// User name.
    pub user: String,
    /// Password of that user.
    pub password: String,
    /// The store's database; empty for a server without databases.
    pub database: String,
    /// The schema of the tables in that database; empty if there is none.
    pub schema: String,
}

/// One kind of store: its name, its capabilities, and how to open it.
pub struct Adapter {
    /// Name, as in `--stores`.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// The kind of place.
    pub kind: Kind,
    /// Server programs that it may start (see [`Needs::program`]); none is started if a URL is given.
    pub programs: &'static [Program],
    /// Its options.
    pub options: &'static [OptionSpec],
    /// Capabilities with these options.
    pub caps: fn(&Options) -> Capabilities,
    /// What a crash loses with these options in this class.
    pub loss: fn(&Options, Durability) -> Losses,
    /// How it handles bytes that changed on the device, with these options in this class.
    pub integrity: fn(&Options, Durability) -> Integrity,
    /// Other properties with these options.
    pub traits: fn(&Options) -> Traits,
    /// How memory is divided between its own cache and the kernel's, with these options.
    pub memory: fn(&Options) -> CacheRecommendation,
    /// Requirements on the machine and the directory.
    pub needs: Needs,
    /// Opens the store.
    pub open: fn(&Setup) -> Result<Box<dyn Store>>,
}

/// Requirements of a store on its environment, beyond its programs.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Why this machine cannot run it with these options; `None` if it can.
    pub of_machine: fn(&Options) -> Option<anyhow::Error>,
    /// Why a directory cannot hold it; `None` if it can. The check may create files there and removes them again.
    pub of_place: fn(&Path) -> Option<anyhow::Error>,
    /// Maximum length in bytes of the path of its directory, if its program has a limit below the system's.
    pub dir_bytes_max: fn() -> Option<usize>,
    /// True if this program is started with these options.
    pub program: fn(&Options, &Program) -> bool,
    /// A remark about the program found here, such as its age; one sentence.
    pub remark: fn() -> Option<String>,
    /// What the store would make in the user's server that these options name, and the room that server reports. Makes nothing;
    /// may remove what killed runs left there. `None` for a store that never uses such a server.
    pub of_server: Option<fn(&Setup) -> Result<Intent>>,
    /// Why its class is weaker on some disks, derived from the facts of the server; one sentence.
    pub weaker: fn(&Facts) -> Option<String>,
    /// Known bugs of its program that make a power cut lose more than its class promises.
    pub faults: &'static [KnownFault],
}

/// A bug in one version of a store's program that may leave an unopenable store after a power cut. A cut that hits it is counted
/// apart: it neither breaks the promise of the class nor is it a fault of the adapter.
#[derive(Clone, Copy, Debug)]
pub struct KnownFault {
    /// The program, as reports name it.
    pub program: &'static str,
    /// The affected version: a prefix of the version in the store's facts.
    pub version: &'static str,
    /// What is lost and when, as a clause.
    pub about: &'static str,
    /// True if the server's logs below the store's directory name this bug as the reason for not starting.
    pub is_logged: fn(&Path) -> bool,
    /// True if the store's directory, as the power cut left it, has exactly the damage of this bug.
    pub is_left: fn(&Path) -> std::io::Result<bool>,
}

impl KnownFault {
    /// True if a program of this version has the bug.
    pub fn is_of(&self, version: &str) -> bool {
        let rest = version.strip_prefix(self.version);
        rest.is_some_and(|rest| !rest.starts_with(|sign: char| sign.is_ascii_digit() || sign == '.'))
    }
}

impl Needs {
    /// No requirements; all programs are started.
    pub const NOTHING: Needs = Needs {
        of_machine: |_| None,
        of_place: |_| None,
        dir_bytes_max: || None,
        program: |_, _| true,
        remark: || None,
        of_server: None,
        weaker: |_| None,
        faults: &[],
    };
}

impl Adapter {
    /// The URL of the user's server, with its password; `None` without one.
    pub fn url<'o>(&self, options: &'o Options) -> Option<&'o str> {
        let spec = self.options.iter().find(|spec| matches!(spec.values, Values::Url))?;
        Some(options.text(spec.name)).filter(|url| !url.is_empty())
    }

    /// How it is made cold; `None` if it cannot be.
    pub fn made_cold(&self, options: &Options) -> Option<ColdMethod> {
        let can_be = (self.traits)(options).kept_running().is_none() && (self.caps)(options).persistent;
        can_be.then_some(if self.programs.is_empty() { ColdMethod::Reopened } else { ColdMethod::Restarted })
    }

    /// Why it is not available here with these options: the machine does not allow it, or one of its programs is missing. `None`
    /// if it is available.
    pub fn lacks(&self, options: &Options) -> Option<anyhow::Error> {
        (self.needs.of_machine)(options).or_else(|| self.missing_program(options))
    }

    /// Why one of the programs that these options start is not available; `None` if all are.
    pub fn missing_program(&self, options: &Options) -> Option<anyhow::Error> {
        self.started(options).find_map(|program| program.find().err())
    }

    /// The programs that these options start.
    pub fn started<'o>(&self, options: &'o Options) -> impl Iterator<Item = &'static Program> + use<'o> {
        let starts = self.needs.program;
        let is_private = self.url(options).is_none();
        self.programs.iter().filter(move |program| is_private && starts(options, program))
    }
}

impl std::fmt::Debug for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adapter").field("name", &self.name).finish_non_exhaustive()
    }
}
