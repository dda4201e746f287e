//! MongoDB's asynchronous driver on the calling thread: one runtime with one client.
//!
//! The driver's blocking interface shares one multi-threaded runtime among all callers; here every worker has its own, which runs
//! only during its ops.

mod product;

use std::time::Duration;

use anyhow::{Context, anyhow};
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{ErrorKind, WriteFailure};
use mongodb::options::{
    Acknowledgment, ClientOptions, CollectionOptions, ServerMonitoringMode, WriteConcern,
};
use mongodb::{Client, Collection, Database};
use tokio::runtime::{Builder, Runtime};

#[cfg(test)]
pub(crate) use self::product::tests as answers;
pub use self::product::{MongoProduct, value_at};
use crate::store::*;

/// A client of one database, with a runtime of its own for the asynchronous driver.
pub struct MongoClient {
    client: Client,
    database: Database,
    runtime: Runtime,
    timeout: Duration,
}

/// Client options: timeouts, and whether writes wait for the journal. Retries are left to the caller, who counts them.
pub fn configure(options: &mut ClientOptions, timeout: Duration, journal: bool) {
    options.app_name = Some("blobwise".to_owned());
    options.connect_timeout = Some(timeout);
    options.server_selection_timeout = Some(timeout);
    options.retry_reads = Some(false);
    options.retry_writes = Some(false);
    options.max_adaptive_retries = Some(0);
    // Streaming would need one more connection per worker.
    options.server_monitoring_mode = Some(ServerMonitoringMode::Poll);
    options.write_concern = Some(write_concern(journal));
}

/// Acknowledged by the server that received the write; with `journal`, only after its journal is flushed.
fn write_concern(journal: bool) -> WriteConcern {
    WriteConcern::builder().w(Acknowledgment::Nodes(1)).journal(journal).build()
}

/// A collection whose writes wait for the journal or not, regardless of the client's options.
pub fn with_journal<T: Send + Sync>(database: &Database, name: &str, journal: bool) -> Collection<T> {
    let options = CollectionOptions::builder().write_concern(write_concern(journal)).build();
    database.collection_with_options(name, options)
}

/// Connection options for the user's server.
pub fn options_of(url: &str) -> Result<ClientOptions> {
    let shown = crate::redact::without_passwords(url);
    ensure!(
        !url.starts_with("mongodb+srv:"),
        "`{shown}` needs look-ups of DNS records, which are not compiled in; name the hosts with `mongodb://`"
    );
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let parsed = runtime.block_on(async { ClientOptions::parse(url).await });
    let parsed = parsed.map_err(|error| anyhow!(said(&error)));
    Ok(parsed.with_context(|| format!("`{shown}` is not a URL of MongoDB"))?)
}

impl MongoClient {
    /// Creates a connection without connecting: the driver connects on first use.
    pub fn new(options: &ClientOptions, database: &str, timeout: Duration) -> Result<MongoClient> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let client = {
            let _inside = runtime.enter();
            Client::with_options(options.clone()).map_err(from_mongo)?
        };
        Ok(MongoClient { database: client.database(database), client, runtime, timeout })
    }

    /// Connects, and waits for a reply.
    pub fn open(options: &ClientOptions, database: &str, timeout: Duration) -> Result<MongoClient> {
        let connection = MongoClient::new(options, database, timeout)?;
        connection.run_while_busy(|| async {
            connection.database.run_command(doc! { "ping": 1 }).await.map(drop)
        })?;
        Ok(connection)
    }

    /// The database of the client.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Runs an op until it completes or times out.
    pub fn run<T>(&self, op: impl Future<Output = Result<T>>) -> Result<T> {
        let outcome = self.runtime.block_on(async { tokio::time::timeout(self.timeout, op).await });
        outcome.unwrap_or(Err(Error::TimedOut))
    }

    /// Runs a setup step, and repeats it while the server reports a conflict: ops are retried by the engine, but opening a store
    /// and `sync` are not. A permanent conflict is reported with the server's message.
    pub fn run_while_busy<T, O>(&self, step: impl Fn() -> O) -> Result<T>
    where
        O: Future<Output = mongodb::error::Result<T>>,
    {
        const ATTEMPTS_MAX: u32 = 50;
        const PAUSE: Duration = Duration::from_millis(20);
        for _ in 1..ATTEMPTS_MAX {
            match self.run(async { step().await.map_err(from_mongo) }) {
                Err(Error::Busy) => std::thread::sleep(PAUSE),
                outcome => return outcome,
            }
        }
        self.run(async { step().await.map_err(Error::failed) })
    }

    /// Sends a command to `admin`; `None` if the server does not support or permit it.
    pub fn ask(&self, command: Document) -> Result<Option<Document>> {
        self.ask_in("admin", command)
    }

    /// The same for our database.
    pub fn ask_of_database(&self, command: Document) -> Result<Option<Document>> {
        self.ask_in(self.database.name(), command)
    }

    fn ask_in(&self, database: &str, command: Document) -> Result<Option<Document>> {
        const INVALID_OPTIONS: i32 = 72;
        self.run_while_busy(|| async {
            let outcome = self.client.database(database).run_command(command.clone()).await;
            match outcome.as_ref().err().and_then(code_of) {
                Some(UNAUTHORIZED | COMMAND_NOT_FOUND | INVALID_OPTIONS) => Ok(None),
                _ => outcome.map(Some),
            }
        })
    }

    /// Runs a command on the database of this name; the inner result has the server's error.
    pub fn command(
        &self,
        database: &str,
        command: Document,
    ) -> Result<std::result::Result<Document, mongodb::error::Error>> {
        self.run(async { Ok(self.client.database(database).run_command(command).await) })
    }

    /// Size of the database, as the server reports it.
    pub fn size_bytes(&self) -> Result<u64> {
        let answer =
            self.run_while_busy(|| async { self.database.run_command(doc! { "dbStats": 1 }).await })?;
        let number = |name| match answer.get(name) {
            Some(Bson::Int32(number)) => Ok(u64::from(number.unsigned_abs())),
            Some(Bson::Int64(number)) => Ok(number.unsigned_abs()),
            Some(Bson::Double(number)) => Ok(*number as u64),
            _ => Err(Error::Failed(anyhow!("the server's dbStats has no {name}"))),
        };
        Ok(number("storageSize")? + number("indexSize")?)
    }

    /// Drops the database and everything in it.
    pub fn drop_database(&self) -> Result<()> {
        self.run(async { self.database.drop().await.map_err(from_mongo) })
    }

    /// Names of all databases with this prefix.
    pub fn databases(&self, begin: &str) -> Result<Vec<String>> {
        let names = self.run_while_busy(|| async { self.client.list_database_names().await })?;
        Ok(names.into_iter().filter(|name| name.starts_with(begin)).collect())
    }
}

impl Drop for MongoClient {
    fn drop(&mut self) {
        // Stops the monitoring task and closes its connections before the runtime is dropped.
        self.runtime.block_on(self.client.clone().shutdown().immediate(true).into_future());
    }
}

/// The user lacks the permission.
pub const UNAUTHORIZED: i32 = 13;
const COMMAND_NOT_FOUND: i32 = 59;

/// The server's error code.
pub fn code_of(error: &mongodb::error::Error) -> Option<i32> {
    match error.kind.as_ref() {
        ErrorKind::Command(command) => Some(command.code),
        ErrorKind::Write(WriteFailure::WriteError(write)) => Some(write.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(concern)) => Some(concern.code),
        ErrorKind::InsertMany(many) => many.write_errors.iter().flatten().next().map(|write| write.code),
        _ => None,
    }
}

/// The server's message for a refused command, or what is wrong with a URL; otherwise the driver's message.
pub fn said(error: &mongodb::error::Error) -> String {
    match error.kind.as_ref() {
        ErrorKind::Command(command) => command.message.clone(),
        ErrorKind::InvalidArgument { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// Separates retryable errors and timeouts from failures.
pub fn from_mongo(error: mongodb::error::Error) -> Error {
    const LOCK_TIMEOUT: i32 = 24;
    const MAX_TIME_EXPIRED: i32 = 50;
    /// Two writers changed the same document.
    const WRITE_CONFLICT: i32 = 112;
    /// Two writers created the same document.
    const DUPLICATE_KEY: i32 = 11_000;
    match code_of(&error) {
        Some(LOCK_TIMEOUT | WRITE_CONFLICT | DUPLICATE_KEY) => Error::Busy,
        Some(MAX_TIME_EXPIRED) => Error::TimedOut,
        _ => Error::failed(error),
    }
}
