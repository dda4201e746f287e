//! An open store over MongoDB's protocol: its database, collections and facts.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::anyhow;
use mongodb::bson::doc;
use mongodb::bson::oid::ObjectId;
use mongodb::options::{ClientOptions, ReadConcern};

use super::instance::{self, MongoServer};
use super::session::{self, MongoSession};
use super::{COMPRESSION, MongoLayout, Speaker, documents, ferret, files, words};
use crate::store::*;
use crate::stores::common::keys::KeyForm;
use crate::stores::common::lock;
use crate::stores::common::servers::{self, own_name};
use crate::wire::mongodb::{MongoClient, MongoProduct, configure, options_of, value_at};

pub(super) struct Mongo {
    pub(super) speaker: Speaker,
    pub(super) shape: MongoLayout,
    pub(super) key_form: KeyForm,
    pub(super) lazy_delete: bool,
    pub(super) durability: Durability,
    pub(super) blob_bytes_max: u64,
    pub(super) op_timeout: Duration,
    pub(super) options: ClientOptions,
    pub(super) database: String,
    /// Admin connection, open as long as the store: sets up, settles, reads facts.
    pub(super) admin: Mutex<MongoClient>,
    /// True if another process opened the store.
    pub(super) joined: bool,
    /// The private server; stopped after everything above is dropped.
    pub(super) instance: Option<MongoServer>,
}

/// What another process needs to join, beyond the candidate's options, which contain the URL of the user's server.
#[derive(serde::Serialize, serde::Deserialize)]
struct DatabaseAccess {
    /// Socket of a private server.
    socket: Option<PathBuf>,
    database: String,
}

/// Marks, in a store's directory, that its server has proved that it flushes the journal.
const SHOWN_FILE: &str = "journal-shown";

/// Timeout of admin commands: a checkpoint of much data, or counting it.
pub(super) const KEEPER_PATIENCE: Duration = Duration::from_secs(600);

/// Connection options for the user's server. Reads see every earlier write, whatever the URL or the cluster says of secondaries
/// and majorities: what these do not have yet would look lost.
fn options_of_theirs(url: &str) -> Result<ClientOptions> {
    let mut options = options_of(url)?;
    options.selection_criteria = None;
    options.read_concern = Some(ReadConcern::local());
    Ok(options)
}

/// Joins a store that another process opened and will remove.
fn join(
    setup: &Setup,
    speaker: Speaker,
    shape: MongoLayout,
    join_token: &JoinToken,
) -> Result<Box<dyn Store>> {
    let DatabaseAccess { socket, database } = join_token.read()?;
    let mut options = match &socket {
        Some(socket) => instance::options_of_socket(socket),
        None => options_of_theirs(setup.options.text("url"))?,
    };
    configure(&mut options, setup.op_timeout, setup.durability == Durability::EachWrite);
    let admin = MongoClient::open(&options, &database, KEEPER_PATIENCE)?;
    let store = Mongo::new(setup, speaker, shape, (options, admin), database, None);
    Ok(Box::new(Mongo { joined: true, ..store }))
}

pub(super) fn open(setup: &Setup, speaker: Speaker, shape: MongoLayout) -> Result<Box<dyn Store>> {
    if let Some(join_token) = setup.join_token {
        return join(setup, speaker, shape, join_token);
    }
    let url = setup.options.text("url");
    let (instance, mut options) = if url.is_empty() {
        let instance = MongoServer::start(setup, speaker)?;
        let options = instance.options();
        (Some(instance), options)
    } else {
        (None, options_of_theirs(url)?)
    };
    configure(&mut options, setup.op_timeout, setup.durability == Durability::EachWrite);
    let database = match setup.mode {
        _ if instance.is_some() => instance::PRIVATE_DATABASE.to_owned(),
        Mode::Create => {
            instance::remove_stale(&options).map_err(|error| instance::or_missing_roles(error, &options))?;
            own_name()
        }
        Mode::Open => instance::find_database(&options, setup.dir)?,
    };
    let admin = MongoClient::open(&options, &database, KEEPER_PATIENCE)?;
    let made = (setup.mode == Mode::Create && instance.is_none()).then(|| format!("the database {database}"));
    if made.is_some() {
        // Nothing is left of a mark that the server refuses: it is what makes the database.
        instance::mark(&admin, setup.dir).map_err(|error| instance::or_missing_roles(error, &options))?;
    }
    let store = Box::new(Mongo::new(setup, speaker, shape, (options, admin), database, instance));
    let outcome = store.prepare(setup);
    servers::set_up(store, outcome, made)
}

impl Mongo {
    /// A store with these options and this connection to its database.
    fn new(
        setup: &Setup,
        speaker: Speaker,
        shape: MongoLayout,
        (options, admin): (ClientOptions, MongoClient),
        database: String,
        instance: Option<MongoServer>,
    ) -> Mongo {
        Mongo {
            speaker,
            shape,
            key_form: KeyForm::from_options(setup.options),
            lazy_delete: setup.options.text("delete") == "lazy",
            durability: setup.durability,
            blob_bytes_max: setup.blob_bytes_max,
            op_timeout: setup.op_timeout,
            options,
            database,
            admin: Mutex::new(admin),
            joined: false,
            instance,
        }
    }

    /// Creates what a new store needs, and refuses a server that cannot prove the class.
    fn prepare(&self, setup: &Setup) -> Result<()> {
        if self.instance.is_none() {
            self.check_class(setup)?;
        }
        if setup.mode == Mode::Open {
            return Ok(());
        }
        let compression = setup.options.text(COMPRESSION.name);
        self.make_collections(compression)?;
        // FerretDB has no compression setting.
        if self.speaker == Speaker::MongoDb {
            let told = self.compressor()?;
            words::check_compression(compression, COMPRESSION.default, told.as_deref())
                .map_err(|why| Error::Failed(anyhow!(why)))?;
        }
        Ok(())
    }

    /// Refuses a user's server that does not prove that it keeps the class: its own counter of journal flushes must increase with
    /// a write with `j: true`. Checked once per store, since a store is always reopened in the same class.
    fn check_class(&self, setup: &Setup) -> Result<()> {
        let shown = setup.dir.join(SHOWN_FILE);
        if self.durability == Durability::None || (setup.mode == Mode::Open && shown.exists()) {
            return Ok(());
        }
        let admin = lock(&self.admin);
        let flushes = || -> Result<std::result::Result<u64, String>> {
            let (status, started) =
                (admin.ask(doc! { "serverStatus": 1 })?, admin.ask(doc! { "getCmdLineOpts": 1 })?);
            Ok(words::journal_flushes(status.as_ref(), started.as_ref()))
        };
        let why = match flushes()? {
            Err(why) => why,
            Ok(before) => {
                session::mark(&admin, ObjectId::new())?;
                match flushes()? {
                    Ok(after) if after > before => return Ok(std::fs::write(shown, "")?),
                    _ => "it answered one, and flushed nothing by its own count".to_owned(),
                }
            }
        };
        let product = MongoProduct::from_build_info(&admin.ask(doc! { "buildInfo": 1 })?.unwrap_or_default());
        Err(Error::Failed(anyhow!(words::refusal(&product, self.durability, &why))))
    }

    /// The compression of the collection with the blobs' bytes; `None` if the server does not report it.
    fn compressor(&self) -> Result<Option<String>> {
        let collection = match self.shape {
            MongoLayout::Files { .. } => files::CHUNKS,
            MongoLayout::Documents => documents::NAME,
        };
        let stats = lock(&self.admin).ask_of_database(doc! { "collStats": collection })?;
        Ok(stats.as_ref().and_then(words::compressor))
    }

    fn make_collections(&self, compression: &str) -> Result<()> {
        // The vendor's default needs no setting, and other servers of this protocol have none.
        let engine = (!["", COMPRESSION.default].contains(&compression)).then(|| {
            doc! { "wiredTiger": { "configString": format!("block_compressor={compression}") } }
        });
        let admin = lock(&self.admin);
        match self.shape {
            MongoLayout::Files { .. } => files::make(&admin, engine.as_ref()),
            MongoLayout::Documents => documents::make(&admin, engine.as_ref()),
        }
    }
}

impl Store for Mongo {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MongoSession::open(self)?))
    }

    fn join_token(&self) -> Result<JoinToken> {
        let socket = self.instance.as_ref().map(MongoServer::socket);
        JoinToken::encode(&DatabaseAccess { socket, database: self.database.clone() })
    }

    fn facts(&self) -> Result<Facts> {
        /// A command, the path of a value in its reply, and the name of the fact.
        const ASKED: &[(&str, &[&str], &str)] = &[
            ("serverStatus", &["process"], "process"),
            ("serverStatus", &["storageEngine", "name"], "storage_engine"),
            ("serverStatus", &["storageEngine", "persistent"], "persistent"),
            ("serverStatus", &["wiredTiger", "cache", "maximum bytes configured"], "cache_bytes"),
            ("getCmdLineOpts", &["parsed", "storage", "journal", "enabled"], "journal"),
            ("getDefaultRWConcern", &["defaultWriteConcern", "w"], "default_write_concern"),
            ("hello", &["setName"], "replica_set"),
        ];
        let compressor = self.compressor()?;
        let admin = lock(&self.admin);
        let mut facts =
            MongoProduct::from_build_info(&admin.ask(doc! { "buildInfo": 1 })?.unwrap_or_default()).facts();
        for (command, path, name) in ASKED {
            let Some(answer) = admin.ask(doc! { *command: 1 })? else { continue };
            facts.extend(value_at(&answer, path).map(|value| ((*name).to_owned(), value)));
        }
        if let Some(answer) = admin.ask(doc! { "getParameter": 1, "journalCommitInterval": 1 })? {
            let interval = value_at(&answer, &["journalCommitInterval"]);
            facts.extend(interval.map(|value| ("journal_commit_interval_ms".to_owned(), value)));
        }
        facts.extend(compressor.map(|name| ("compression".to_owned(), name)));
        // Requested, not reported by the server: that it is kept was proved before, or the class refused.
        let (name, asked) = match self.speaker {
            Speaker::MongoDb => {
                ("write_concern_asked", format!("w=1 j={}", self.durability == Durability::EachWrite))
            }
            Speaker::FerretDb => ("backend_asked", ferret::backend(self.durability)),
        };
        facts.insert(name.to_owned(), asked);
        facts.insert("server".into(), servers::whose(self.instance.is_some()).into());
        Ok(facts)
    }

    /// Triggers a WiredTiger checkpoint, which would otherwise happen once a minute. Does nothing for the user's server, whose
    /// own checkpoints go on, nor for FerretDB, which has no such command.
    fn settle(&self) -> Result<()> {
        if self.instance.is_none() || self.speaker == Speaker::FerretDb {
            return Ok(());
        }
        lock(&self.admin).ask(doc! { "fsync": 1 }).map(drop)
    }

    fn purge(&self) -> Result<()> {
        let admin = lock(&self.admin);
        match self.shape {
            MongoLayout::Files { .. } => admin.run(files::purge(admin.database())),
            MongoLayout::Documents => admin.run(documents::purge(admin.database())),
        }
    }

    fn servers(&self) -> Vec<&crate::host::server::Server> {
        self.instance.iter().map(|instance| &instance.server).collect()
    }

    fn footprint_bytes(&self) -> Result<Option<u64>> {
        if self.instance.is_some() {
            return Ok(None);
        }
        lock(&self.admin).size_bytes().map(Some)
    }

    /// WiredTiger's journal, or SQLite's log.
    fn is_log(&self, path: &Path) -> bool {
        match self.speaker {
            Speaker::MongoDb => path.components().any(|part| part.as_os_str() == "journal"),
            Speaker::FerretDb => has_name(path, |name| name.ends_with("-wal")),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Mongo { admin, instance, .. } = *self;
        drop(admin);
        match instance {
            Some(instance) => instance.stop(),
            None => Ok(()),
        }
    }

    fn remove(self: Box<Self>) -> Result<()> {
        if self.instance.is_none() && !self.joined {
            let database = self.database.clone();
            instance::remove_databases(vec![database], |_| instance::drop_database(&lock(&self.admin)))?;
        }
        self.close()
    }
}
