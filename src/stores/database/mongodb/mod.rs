//! MongoDB and what speaks its protocol: files in GridFS or one document per blob, in a private server or one of the user's.

mod documents;
mod ferret;
mod files;
mod instance;
mod session;
mod words;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::anyhow;
use mongodb::bson::doc;
use mongodb::bson::oid::ObjectId;
use mongodb::options::ClientOptions;

pub(in crate::stores) use self::ferret::{DOCUMENT as FERRET_DOCUMENT, GRIDFS as FERRET_GRIDFS};
use self::instance::{Instance, Speaker};
use self::session::MongoSession;
use crate::host::server::Program;
use crate::store::*;
use crate::stores::common::keys::{KEY, KeyForm};
use crate::stores::common::servers::{self, CONNECTION, DELETE, PROFILE, URL};
use crate::wire::mongodb::{Connection, Product, configure, options_of, value_at};

const MONGOD: Program = Program {
    name: "mongod",
    places: &["/opt/mongodb*/bin", "/usr/local/mongodb*/bin"],
    variable: Some("BLOBWISE_MONGOD"),
    ask: &["--version"],
    says: "db version v",
    never_says: None,
    install: "apt-get install mongodb-org (with MongoDB's own repository), or name a server with --set mongodb.url=mongodb://HOST",
};

/// How collections are compressed on disk.
const COMPRESSION: OptionSpec = OptionSpec {
    name: "compression",
    values: Values::OneOf(&["snappy", "none", "zlib", "zstd"]),
    default: "snappy",
    about: "what WiredTiger compresses blocks with (snappy is the vendor's default)",
};

/// The kernel has the rest.
fn memory(options: &Options) -> Split {
    let tuned = Split {
        own: OwnCache::Share(0.5),
        words: "the larger of either 50% of (RAM - 1 GB), or 256 MB",
        link: "https://www.mongodb.com/docs/manual/core/wiredtiger/#memory-use",
    };
    servers::split(options, tuned)
}

pub(in crate::stores) const GRIDFS: Adapter = Adapter {
    name: "gridfs",
    about: "MongoDB: the blob as a file in GridFS",
    kind: Kind::Server,
    programs: &[MONGOD],
    options: &[
        OptionSpec {
            name: "chunk",
            values: Values::OneOf(&[
                "16384", "65536", "131072", "261120", "524288", "1048576", "4194304", "8388608",
            ]),
            default: "261120",
            about: "bytes of a chunk (261120, that is 255 KiB, is what all drivers take)",
        },
        OptionSpec {
            name: "access",
            values: Values::OneOf(&["driver", "own"]),
            default: "driver",
            about: "driver: its GridFS puts and gets whole blobs; own: the same collections by queries of this adapter's",
        },
        COMPRESSION,
        CONNECTION,
        DELETE,
        PROFILE,
        URL,
    ],
    caps: |_| GRIDFS_CAPS,
    loss,
    integrity: |_, _| INTEGRITY,
    traits: servers::traits,
    memory,
    needs: Needs::NOTHING,
    open: |setup| {
        let chunk = setup.options.number("chunk") as u32;
        let by_driver = setup.options.text("access") == "driver";
        open(setup, Speaker::MongoDb, Shape::Files { chunk, by_driver })
    },
};

pub(in crate::stores) const DOCUMENT: Adapter = Adapter {
    name: "mongodb/document",
    about: "MongoDB: the blob as one document of at most 16 MiB",
    kind: Kind::Server,
    programs: &[MONGOD],
    options: &[KEY, COMPRESSION, CONNECTION, DELETE, PROFILE, URL],
    caps: |options| Caps { list: KeyForm::of(options) == KeyForm::Digest, ..DOCUMENT_CAPS },
    loss,
    integrity: |_, _| INTEGRITY,
    traits: servers::traits,
    memory,
    needs: Needs::NOTHING,
    open: |setup| open(setup, Speaker::MongoDb, Shape::Documents),
};

/// A document has at most 16 MiB. Key and names take a little of it; some servers of this protocol count the command around it
/// as well, which MongoDB grants another 16 KiB.
const DOCUMENT_LIMIT: Limit = Limit {
    bytes: (16 << 20) - (16 << 10),
    source: "MongoDB's largest document, 16 MiB with its key and the command around it",
};

/// What both have in common. There are no batches: a server that is no replica set, as a private one, has no transactions
/// over several documents.
const CAPS: Caps = Caps {
    range: false,
    // GridFS can be read chunk by chunk. Who must not see half of a replacement collects them first, as it is done here.
    streams: false,
    list: false,
    batch: false,
    get_many: false,
    catalogue: false,
    one_transaction: None,
    totals: false,
    clients: Clients::Server,
    backup: Backup::None("`mongodump` is a package of its own, which blobwise does not start"),
    ..Caps::ALL
};

const GRIDFS_CAPS: Caps = Caps { range: true, list: true, ..CAPS };

/// No operator of the query language cuts a piece out of binary data: a range would be a read of the whole.
const DOCUMENT_CAPS: Caps = Caps { list: true, blob_bytes_max: Some(DOCUMENT_LIMIT), ..CAPS };

/// WiredTiger's documentation: every block has a checksum, which is verified when it is read. Of other engines nothing is known.
const INTEGRITY: Integrity =
    Integrity::AsSet { fact: "storage_engine", checked: &["wiredTiger"], unchecked: &[] };

/// MongoDB's manual on journaling: records of the journal are kept in memory for up to 100 ms, unless a write asks for
/// `j: true`, which forces a flush of the journal; what was not flushed "can be lost following a hard shutdown of mongod",
/// also when only the process dies. Recovery goes back to a consistent state in every case.
fn loss(_: &Options, durability: Durability) -> Losses {
    let loss = match durability {
        Durability::None | Durability::OnSync => Loss::RecentWrites,
        Durability::EachWrite => Loss::Nothing,
    };
    Losses { after_kill: loss, after_power_cut: loss }
}

/// How a blob is kept.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Files { chunk: u32, by_driver: bool },
    Documents,
}

struct Mongo {
    speaker: Speaker,
    shape: Shape,
    key_form: KeyForm,
    lazy_delete: bool,
    durability: Durability,
    blob_bytes_max: u64,
    op_timeout: Duration,
    /// How sessions connect.
    options: ClientOptions,
    database: String,
    /// Connected for as long as the store is open: sets up, settles, reads facts.
    keeper: Mutex<Connection>,
    /// Whether another process has opened it.
    joined: bool,
    /// The private server; stopped after everything above is gone.
    instance: Option<Instance>,
}

/// What another process needs to open sessions, beside the candidate's settings, among which is the URL of a server of the user's.
#[derive(serde::Serialize, serde::Deserialize)]
struct Way {
    /// The socket of a server of ours.
    socket: Option<PathBuf>,
    database: String,
}

/// Says, in a store's directory, that its server has shown that it keeps the class.
const SHOWN_FILE: &str = "journal-shown";

/// How long the keeper's commands may take: a checkpoint of much data, or counting it.
const KEEPER_PATIENCE: Duration = Duration::from_secs(600);

/// Connects as the process does that opened it; the database is that process's to make and to remove.
fn join(setup: &Setup, speaker: Speaker, shape: Shape, invitation: &Invitation) -> Result<Box<dyn Store>> {
    let Way { socket, database } = invitation.read()?;
    let mut options = match &socket {
        Some(socket) => instance::options_of_socket(socket),
        None => options_of(setup.options.text("url"))?,
    };
    configure(&mut options, setup.op_timeout, setup.durability == Durability::EachWrite);
    let keeper = Connection::open(&options, &database, KEEPER_PATIENCE)?;
    let store = Mongo::of(setup, speaker, shape, (options, keeper), database, None);
    Ok(Box::new(Mongo { joined: true, ..store }))
}

fn open(setup: &Setup, speaker: Speaker, shape: Shape) -> Result<Box<dyn Store>> {
    if let Some(invitation) = setup.invitation {
        return join(setup, speaker, shape, invitation);
    }
    let url = setup.options.text("url");
    let (instance, mut options) = if url.is_empty() {
        let instance = Instance::start(setup, speaker)?;
        let options = instance.options();
        (Some(instance), options)
    } else {
        (None, options_of(url)?)
    };
    configure(&mut options, setup.op_timeout, setup.durability == Durability::EachWrite);
    let database = match setup.mode {
        Mode::Create => instance::create_database(&options, setup.dir, instance.is_none())?,
        Mode::Open => instance::find_database(&options, setup.dir, instance.is_none())?,
    };
    let keeper = Connection::open(&options, &database, KEEPER_PATIENCE)?;
    let store = Mongo::of(setup, speaker, shape, (options, keeper), database, instance);
    if let Err(refused) = store.prepare(setup) {
        if setup.mode == Mode::Create {
            Box::new(store).remove()?;
        }
        return Err(refused);
    }
    Ok(Box::new(store))
}

impl Mongo {
    /// One that is reached so, with a connection to its database.
    fn of(
        setup: &Setup,
        speaker: Speaker,
        shape: Shape,
        (options, keeper): (ClientOptions, Connection),
        database: String,
        instance: Option<Instance>,
    ) -> Mongo {
        Mongo {
            speaker,
            shape,
            key_form: KeyForm::of(setup.options),
            lazy_delete: setup.options.text("delete") == "lazy",
            durability: setup.durability,
            blob_bytes_max: setup.blob_bytes_max,
            op_timeout: setup.op_timeout,
            options,
            database,
            keeper: Mutex::new(keeper),
            joined: false,
            instance,
        }
    }

    fn keeper(&self) -> MutexGuard<'_, Connection> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes what a new store needs, and refuses what the server cannot show.
    fn prepare(&self, setup: &Setup) -> Result<()> {
        if self.instance.is_none() {
            self.check_class(setup)?;
        }
        if setup.mode == Mode::Open {
            return Ok(());
        }
        let compression = setup.options.text(COMPRESSION.name);
        self.make_collections(compression)?;
        // FerretDB has no such setting.
        if self.speaker == Speaker::MongoDb {
            let told = self.compressor()?;
            words::check_compression(compression, COMPRESSION.default, told.as_deref())
                .map_err(|why| Error::Failed(anyhow!(why)))?;
        }
        Ok(())
    }

    /// Refuses a server of the user's that does not show that it keeps the class: a write with `j: true` must make it flush its
    /// journal, by its own count. That is asked once for each store, because a class of it is opened again later.
    fn check_class(&self, setup: &Setup) -> Result<()> {
        let shown = setup.dir.join(SHOWN_FILE);
        if self.durability == Durability::None || (setup.mode == Mode::Open && shown.exists()) {
            return Ok(());
        }
        let keeper = self.keeper();
        let flushes = || -> Result<std::result::Result<u64, String>> {
            let (status, started) =
                (keeper.ask(doc! { "serverStatus": 1 })?, keeper.ask(doc! { "getCmdLineOpts": 1 })?);
            Ok(words::journal_flushes(status.as_ref(), started.as_ref()))
        };
        let why = match flushes()? {
            Err(why) => why,
            Ok(before) => {
                session::mark(&keeper, ObjectId::new())?;
                match flushes()? {
                    Ok(after) if after > before => return Ok(std::fs::write(shown, "")?),
                    _ => "it answered one, and flushed nothing by its own count".to_owned(),
                }
            }
        };
        let product = Product::of(&keeper.ask(doc! { "buildInfo": 1 })?.unwrap_or_default());
        Err(Error::Failed(anyhow!(words::refusal(&product, self.durability, &why))))
    }

    /// What the collection of the blobs' bytes is compressed with; `None` where the server does not say it.
    fn compressor(&self) -> Result<Option<String>> {
        let collection = match self.shape {
            Shape::Files { .. } => files::CHUNKS,
            Shape::Documents => documents::NAME,
        };
        let stats = self.keeper().ask_of_database(doc! { "collStats": collection })?;
        Ok(stats.as_ref().and_then(words::compressor))
    }

    fn make_collections(&self, compression: &str) -> Result<()> {
        // The vendor's default needs no word, and other servers of this protocol know none.
        let engine = (!["", COMPRESSION.default].contains(&compression)).then(|| {
            doc! { "wiredTiger": { "configString": format!("block_compressor={compression}") } }
        });
        let keeper = self.keeper();
        match self.shape {
            Shape::Files { .. } => files::make(&keeper, engine.as_ref()),
            Shape::Documents => documents::make(&keeper, engine.as_ref()),
        }
    }
}

impl Store for Mongo {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MongoSession::open(self)?))
    }

    fn invitation(&self) -> Result<Invitation> {
        let socket = self.instance.as_ref().map(Instance::socket);
        Invitation::of(&Way { socket, database: self.database.clone() })
    }

    fn facts(&self) -> Result<Facts> {
        /// A command, the path to a value in its answer, and what the value is called.
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
        let keeper = self.keeper();
        let mut facts = Product::of(&keeper.ask(doc! { "buildInfo": 1 })?.unwrap_or_default()).facts();
        for (command, path, name) in ASKED {
            let Some(answer) = keeper.ask(doc! { *command: 1 })? else { continue };
            facts.extend(value_at(&answer, path).map(|value| ((*name).to_owned(), value)));
        }
        if let Some(answer) = keeper.ask(doc! { "getParameter": 1, "journalCommitInterval": 1 })? {
            let interval = value_at(&answer, &["journalCommitInterval"]);
            facts.extend(interval.map(|value| ("journal_commit_interval_ms".to_owned(), value)));
        }
        facts.extend(compressor.map(|name| ("compression".to_owned(), name)));
        // What is asked for is no word of the server's: that it is kept was shown before, or the class refused.
        let (name, asked) = match self.speaker {
            Speaker::MongoDb => {
                ("write_concern_asked", format!("w=1 j={}", self.durability == Durability::EachWrite))
            }
            Speaker::FerretDb => ("backend_asked", ferret::backend(self.durability)),
        };
        facts.insert(name.to_owned(), asked);
        facts
            .insert("server".into(), if self.instance.is_some() { "private" } else { "given by URL" }.into());
        Ok(facts)
    }

    /// Makes WiredTiger write a checkpoint, which it would otherwise do once a minute. Nothing is asked of a server of the user's,
    /// whose own checkpoints go on, nor of FerretDB, which has no command for it.
    fn settle(&self) -> Result<()> {
        if self.instance.is_none() || self.speaker == Speaker::FerretDb {
            return Ok(());
        }
        self.keeper().ask(doc! { "fsync": 1 }).map(drop)
    }

    fn purge(&self) -> Result<()> {
        let keeper = self.keeper();
        match self.shape {
            Shape::Files { .. } => keeper.run(files::purge(keeper.database())),
            Shape::Documents => keeper.run(documents::purge(keeper.database())),
        }
    }

    fn servers(&self) -> Vec<&crate::host::server::Server> {
        self.instance.iter().map(Instance::server).collect()
    }

    fn footprint_bytes(&self) -> Result<Option<u64>> {
        if self.instance.is_some() {
            return Ok(None);
        }
        self.keeper().size_bytes().map(Some)
    }

    /// WiredTiger's journal, or SQLite's log.
    fn is_log(&self, path: &Path) -> bool {
        match self.speaker {
            Speaker::MongoDb => path.components().any(|part| part.as_os_str() == "journal"),
            Speaker::FerretDb => has_name(path, |name| name.ends_with("-wal")),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Mongo { keeper, instance, .. } = *self;
        drop(keeper);
        match instance {
            Some(instance) => instance.stop(),
            None => Ok(()),
        }
    }

    fn remove(self: Box<Self>) -> Result<()> {
        if self.instance.is_none() && !self.joined {
            let database = self.database.clone();
            instance::remove_databases(vec![database], |_| self.keeper().drop_database())?;
        }
        self.close()
    }
}
