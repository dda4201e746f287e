//! A store before it is opened: a constant of what it is called, what it can do, and how to open it.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{
    Caps, Durability, Error, Integrity, Intent, Kind, Losses, MadeCold, OptionSpec, Options, Result, Split,
    Store, Traits, Values,
};
use crate::host::server::Program;

/// Whether to make a store or open the one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The directory is empty.
    Create,
    /// The directory holds what an earlier `Create` left.
    Open,
}

/// What the stores of a run have in common, for as long as it lasts.
#[derive(Clone, Debug)]
pub struct Common {
    /// A directory for what is made once and copied in each round, such as an initialised data directory.
    pub cache_dir: PathBuf,
    servers: Arc<Mutex<BTreeMap<String, Arc<dyn Any + Send + Sync>>>>,
}

impl Common {
    /// Nothing yet, in a directory that need not be there.
    pub fn new(cache_dir: PathBuf) -> Common {
        Common { cache_dir, servers: Arc::default() }
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
    /// Memory the store may use as a cache of its own, in bytes, all sessions together: what its adapter says of the memory that
    /// there is ([`Adapter::memory`]), or what a plan says instead.
    pub cache_bytes: u64,
    /// Whether the memory that it may have holds all blobs.
    pub fits: bool,
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
    /// The candidate's settings.
    pub options: &'a Options,
    /// What the process says that has opened the store, where this one only joins it: then nothing is made, started, closed for
    /// others or removed.
    pub invitation: Option<&'a Invitation>,
}

/// What another process needs to open sessions with a store that is open in this one: addresses and names, passwords among them. It
/// is handed on from process to process and never written anywhere.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Invitation(String);

impl Invitation {
    /// Of what a store wants to say.
    pub fn of(said: &impl serde::Serialize) -> Result<Invitation> {
        serde_json::to_string(said).map(Invitation).map_err(Error::failed)
    }

    /// What was said.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.0).map_err(Error::failed)
    }
}

impl std::fmt::Debug for Invitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Invitation")
    }
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
    /// The server programs that it may start (see [`Needs::program`]); none where a URL is given.
    pub programs: &'static [Program],
    /// Its settings.
    pub options: &'static [OptionSpec],
    /// What it can do with these settings.
    pub caps: fn(&Options) -> Caps,
    /// What a sudden end costs with these settings in this class.
    pub loss: fn(&Options, Durability) -> Losses,
    /// What it knows of bytes that changed on the device, with these settings in this class.
    pub integrity: fn(&Options, Durability) -> Integrity,
    /// What else is true of it with these settings.
    pub traits: fn(&Options) -> Traits,
    /// How memory is divided between its own cache and the kernel's, with these settings.
    pub memory: fn(&Options) -> Split,
    /// What a machine and a place must let it do.
    pub needs: Needs,
    /// Opens it.
    pub open: fn(&Setup) -> Result<Box<dyn Store>>,
}

/// What must be allowed to a store where it is, beside its programs.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Why this machine does not let it be with these settings, if so.
    pub of_machine: fn(&Options) -> Option<anyhow::Error>,
    /// Why it cannot be in a directory, if so. Files may be made there, and are removed again.
    pub of_place: fn(&Path) -> Option<anyhow::Error>,
    /// Whether one of its programs is started with these settings.
    pub program: fn(&Options, &Program) -> bool,
    /// What is to be known of the program that was found here, such as its age; one sentence.
    pub remark: fn() -> Option<String>,
    /// What it would do in the server of the user's that these settings name, and what that says of its room. Nothing is made for it;
    /// what killed runs left there may be removed. `None` for a store that is never there.
    pub of_server: Option<fn(&Setup) -> Result<Intent>>,
    /// What makes its class weaker on some disks, by what the server that answered says of itself; one sentence.
    pub weaker: fn(&Facts) -> Option<String>,
    /// Faults of its program by which a power cut takes more than its class promises.
    pub faults: &'static [KnownFault],
}

/// A fault of a version of a store's program by which a power cut may leave a store that does not open. A cut that meets it is counted
/// apart: it is neither what the class promises nor a fault of the adapter.
#[derive(Clone, Copy, Debug)]
pub struct KnownFault {
    /// The program, as a report names it.
    pub program: &'static str,
    /// The version that has it, as the store's facts begin.
    pub version: &'static str,
    /// What it takes and when, as a clause.
    pub about: &'static str,
    /// Whether what the server logged below the store's directory names it as the reason for not starting.
    pub is_logged: fn(&Path) -> bool,
    /// Whether the store's directory, as the power cut left it, has the damage that it is about and no other.
    pub is_left: fn(&Path) -> std::io::Result<bool>,
}

impl KnownFault {
    /// Whether a program of this version has it.
    pub fn is_of(&self, version: &str) -> bool {
        let rest = version.strip_prefix(self.version);
        rest.is_some_and(|rest| !rest.starts_with(|sign: char| sign.is_ascii_digit() || sign == '.'))
    }
}

impl Needs {
    /// Every machine and every directory will do, and all of its programs are started.
    pub const NOTHING: Needs = Needs {
        of_machine: |_| None,
        of_place: |_| None,
        program: |_, _| true,
        remark: || None,
        of_server: None,
        weaker: |_| None,
        faults: &[],
    };
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

    /// Why it cannot be had here with these settings, if so: the machine does not allow it, or a program of theirs is missing.
    pub fn lacks(&self, options: &Options) -> Option<anyhow::Error> {
        (self.needs.of_machine)(options).or_else(|| self.missing_program(options))
    }

    /// Why one of the programs that these settings start cannot be had, if that is so.
    pub fn missing_program(&self, options: &Options) -> Option<anyhow::Error> {
        let mut started = self.programs.iter().filter(|program| (self.needs.program)(options, program));
        started.find_map(|program| program.find().err())
    }
}

impl std::fmt::Debug for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adapter").field("name", &self.name).finish_non_exhaustive()
    }
}
