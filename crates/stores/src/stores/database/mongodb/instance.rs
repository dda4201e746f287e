//! The server behind MongoDB's candidates: a private one, or a database of our own in the user's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, ServerAddress};

use super::{FERRETDB, KEEPER_PATIENCE, MONGOD, Speaker, ferret};
use crate::host::server::{Launch, Program, Server, SocketDir};
use crate::store::*;
use crate::stores::common::removal::{PATIENCE, remove_all};
use crate::stores::common::servers::{OURS, Owner, PlaceKind, START_PATIENCE, STOP_PATIENCE};
use crate::wire::mongodb::{MongoClient, UNAUTHORIZED, code_of, configure};

/// The collection that marks a database as ours and names its owner.
const MARK_COLLECTION: &str = "made_by_blobwise";
/// The only database of a private server.
pub(super) const PRIVATE_DATABASE: &str = "store";
/// Our database in the user's server.
const DATABASE: PlaceKind = PlaceKind("database");

impl Speaker {
    fn program(self) -> Program {
        match self {
            Speaker::MongoDb => MONGOD,
            Speaker::FerretDb => FERRETDB,
        }
    }

    /// Command-line arguments. The only socket lies in a directory that only this user can enter.
    fn arguments(self, setup: &Setup, data: &Path, sockets: &Path) -> Result<Vec<String>> {
        match self {
            Speaker::MongoDb => Ok(arguments(setup, data, sockets)),
            Speaker::FerretDb => ferret::arguments(setup, data, &socket_in(sockets)),
        }
    }
}

pub(super) struct MongoServer {
    pub(super) server: Server,
    sockets: SocketDir,
}

impl MongoServer {
    pub(super) fn start(setup: &Setup, speaker: Speaker) -> Result<MongoServer> {
        let program = speaker.program().find()?;
        let data = setup.dir.join("data");
        std::fs::create_dir_all(&data)?;
        let sockets = SocketDir::make(&socket_name())?;
        let arguments = speaker.arguments(setup, &data, sockets.path())?;
        let server = Server::start(&Launch::new(&program.path, setup.dir).args(arguments))?;
        let mut instance = MongoServer { server, sockets };
        let mut options = instance.options();
        configure(&mut options, Duration::from_secs(1), setup.durability == Durability::EachWrite);
        let socket = socket_in(instance.sockets.path());
        instance.server.wait_until_ready(START_PATIENCE, || {
            // If nothing listens yet, the driver retries only after half a second.
            anyhow::ensure!(socket.exists(), "it does not listen");
            Ok(MongoClient::open(&options, "admin", START_PATIENCE).map(drop)?)
        })?;
        Ok(instance)
    }

    pub(super) fn options(&self) -> ClientOptions {
        options_of_socket(&self.socket())
    }

    pub(super) fn socket(&self) -> PathBuf {
        socket_in(self.sockets.path())
    }

    /// Stops the server: sessions end and a checkpoint is written.
    pub(super) fn stop(mut self) -> Result<()> {
        Ok(self.server.stop(rustix::process::Signal::TERM, STOP_PATIENCE)?)
    }
}

/// Connection options for a private server.
pub(super) fn options_of_socket(socket: &Path) -> ClientOptions {
    let socket = ServerAddress::Unix { path: socket.to_owned() };
    ClientOptions::builder().hosts(vec![socket]).direct_connection(true).build()
}

/// Part of the socket's name; no port is opened.
const PORT_IN_NAME: &str = "27017";

fn socket_in(directory: &Path) -> PathBuf {
    directory.join(socket_name())
}

fn socket_name() -> String {
    format!("mongodb-{PORT_IN_NAME}.sock")
}

fn arguments(setup: &Setup, data: &Path, sockets: &Path) -> Vec<String> {
    let mut arguments = vec![
        format!("--dbpath={}", data.display()),
        // A socket as the bind address is the only listener: no port is opened.
        format!("--bind_ip={}", socket_in(sockets).display()),
        format!("--unixSocketPrefix={}", sockets.display()),
        format!("--port={PORT_IN_NAME}"),
    ];
    if setup.options.text("profile") == "tuned" {
        // The cache size in WiredTiger's own configuration string; the server's option requires at least 256 MB.
        let cache_bytes = setup.cache_bytes.max(8 << 20);
        arguments.push(format!("--wiredTigerEngineConfigString=cache_size={cache_bytes}"));
        // Statistics written to the data directory every second would count as the store's writes.
        arguments.push("--setParameter=diagnosticDataCollectionEnabled=false".to_owned());
    }
    arguments
}

/// Creates a store's database in the user's server, by inserting our mark.
pub(super) fn mark(admin: &MongoClient, dir: &Path) -> Result<()> {
    DATABASE.keep_name(dir, admin.database().name())?;
    let Owner { machine, dir: used_by } = Owner::for_dir(dir);
    let mark = doc! { "machine": machine, "dir": used_by };
    let marks = admin.database().collection::<Document>(MARK_COLLECTION);
    admin.run_while_busy(|| async { marks.insert_one(&mark).await.map(drop) })
}

/// The roles that a run needs, in place of the server's refusal for the lack of one.
pub(super) fn or_missing_roles(error: Error, options: &ClientOptions) -> Error {
    let code = match &error {
        Error::Failed(why) => why.downcast_ref().and_then(code_of),
        _ => None,
    };
    let credential = options.credential.as_ref().filter(|_| code == Some(UNAUTHORIZED));
    let Some((credential, user)) = credential.and_then(|of| Some((of, of.username.as_ref()?))) else {
        return error;
    };
    let source = credential.source.as_deref().unwrap_or("admin");
    let grant = Grant {
        before: format!("db.getSiblingDB('{source}').grantRolesToUser('{user}', ["),
        rights: ["readWriteAnyDatabase", "dbAdminAnyDatabase"]
            .map(|role| format!("{{role: '{role}', db: 'admin'}}"))
            .into(),
        between: ", ",
        after: "])".to_owned(),
    };
    let by = "this command gives them";
    Error::failed(MissingRights { user: user.clone(), by, grants: vec![grant], between: "; " })
}

/// Finds the database again after the store was closed.
pub(super) fn find_database(options: &ClientOptions, dir: &Path) -> Result<String> {
    let database = DATABASE.kept_name(dir)?;
    let admin = MongoClient::open(options, &database, KEEPER_PATIENCE)?;
    DATABASE.check_mark(&database, owner(&admin)?.is_some())?;
    Ok(database)
}

/// The owner of the database; `None` if it does not carry our mark.
fn owner(admin: &MongoClient) -> Result<Option<Owner>> {
    let marks = admin.database().collection::<Document>(MARK_COLLECTION);
    let mark = admin.run_while_busy(|| async { marks.find_one(doc! {}).await })?;
    let text = |mark: &Document, name| mark.get_str(name).ok().map(str::to_owned);
    Ok(mark.and_then(|mark| Some(Owner { machine: text(&mark, "machine")?, dir: text(&mark, "dir")? })))
}

/// Removes databases of killed runs: those with our mark whose owner is certainly gone. Skips databases that cannot be read.
pub(super) fn remove_stale(options: &ClientOptions) -> Result<()> {
    let mut databases = MongoClient::open(options, "admin", KEEPER_PATIENCE)?.databases(OURS)?;
    let open = |database: &str| MongoClient::open(options, database, KEEPER_PATIENCE);
    let is_gone = |database: &String| -> Result<bool> {
        Ok(owner(&open(database)?)?.is_some_and(|owner| owner.is_gone()))
    };
    databases.retain(|database| is_gone(database).unwrap_or(false));
    remove_databases(databases, |database| drop_database(&open(database)?))
}

/// Drops our database. The collection with the mark goes last: a server that ends meanwhile has dropped some collections only, and
/// the next run recognizes the rest.
pub(super) fn drop_database(admin: &MongoClient) -> Result<()> {
    let database = admin.database();
    let names = admin.run_while_busy(|| async { database.list_collection_names().await })?;
    for name in names.iter().filter(|name| *name != MARK_COLLECTION && !name.starts_with("system.")) {
        let collection = database.collection::<Document>(name);
        admin.run_while_busy(|| async { collection.drop().await })?;
    }
    admin.drop_database()
}

/// Removes each database, independently of the others.
pub(super) fn remove_databases(names: Vec<String>, remove: impl Fn(&str) -> Result<()>) -> Result<()> {
    remove_all(names, PATIENCE, remove, |database| {
        format!("mongosh --eval 'db.getSiblingDB(\"{database}\").dropDatabase()'")
    })
}
