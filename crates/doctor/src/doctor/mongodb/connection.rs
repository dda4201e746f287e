//! Queries to a MongoDB-protocol server. Nothing is written.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, ServerAddress};

use super::answers;
use crate::doctor::blobs;
use crate::doctor::facts::{Inspector, Row, SourceAnswer, UnknownReason, text};
use crate::wire::mongodb::{MongoClient, MongoProduct, UNAUTHORIZED, code_of, configure, options_of, said};
use crate::wire::stream::tcp;

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(25);
const REACHED_WITHIN: Duration = Duration::from_secs(5);

/// Role for reading counters.
const MONITOR: &str = "clusterMonitor";
/// Role for reading collections and their indexes.
const READ: &str = "readAnyDatabase";

/// The server's own databases.
const OWN: [&str; 3] = ["admin", "config", "local"];

/// A read-only connection to a server.
pub struct MongoInspector {
    connection: MongoClient,
    /// Database named in the URL, if any.
    database: Option<String>,
    /// Reason once the connection has failed.
    gone: Option<UnknownReason>,
}

/// Parses a URL without connecting.
pub fn parse(url: &str) -> Result<ClientOptions> {
    let mut options = options_of(url)?;
    ensure!(options.hosts.len() == 1, "it names several servers, and each counts its own: name one");
    configure(&mut options, REACHED_WITHIN, false);
    // Ignores other members that the server names.
    options.direct_connection = Some(true);
    Ok(options)
}

/// Connects and pings the server.
pub fn connect(options: &ClientOptions) -> Result<MongoInspector> {
    const PORT: u16 = 27_017;
    // If nothing listens there, the driver would retry repeatedly and report its whole view of the topology.
    if let Some(ServerAddress::Tcp { host, port }) = options.hosts.first() {
        tcp(host, port.unwrap_or(PORT), REACHED_WITHIN)
            .with_context(|| format!("cannot connect to `{host}`"))?;
    }
    let connection = MongoClient::new(options, OWN[0], PATIENCE)?;
    let mut server = MongoInspector { connection, database: options.default_database.clone(), gone: None };
    server.ping().map_err(anyhow::Error::msg)?;
    Ok(server)
}

impl MongoInspector {
    /// Sends a command and returns the answer; an authorisation error names the role that it needs.
    fn ask(&mut self, database: &str, command: Document, role: &str) -> Result<Document, UnknownReason> {
        if let Some(why) = &self.gone {
            return Err(why.clone());
        }
        let error = match self.connection.command(database, command) {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(late) => return Err(late.to_string()),
        };
        let why = said(&error);
        match code_of(&error) {
            None => self.gone = Some(why.clone()),
            Some(UNAUTHORIZED) => return Err(format!("{why}; the role {role} lets the user see this")),
            Some(_) => {}
        }
        Err(why)
    }

    /// First batch of a command that returns a list. The lists requested here have a single batch.
    fn list(
        &mut self,
        database: &str,
        command: Document,
        role: &str,
    ) -> Result<Vec<Document>, UnknownReason> {
        answers::batch(&self.ask(database, command, role)?)
    }

    fn databases(&mut self) -> Result<Vec<String>, UnknownReason> {
        if let Some(database) = &self.database {
            return Ok(vec![database.clone()]);
        }
        let told = self.ask(OWN[0], doc! { "listDatabases": 1, "nameOnly": true }, READ)?;
        let names = answers::names(told.get_array("databases").map_err(|error| error.to_string())?);
        Ok(names.into_iter().filter(|name| !OWN.contains(&name.as_str())).collect())
    }

    fn collections(&mut self) -> Result<Vec<Row>, UnknownReason> {
        let mut rows = Vec::new();
        for database in self.databases()? {
            let all = doc! { "listCollections": 1, "nameOnly": true, "cursor": { "batchSize": 100_000 } };
            for collection in self.list(&database, all, READ)? {
                // Not every server reports the type of a collection.
                let is_view = collection.get_str("type").is_ok_and(|sort| sort != "collection");
                let Ok(name) = collection.get_str("name") else { continue };
                if is_view || name.starts_with("system.") {
                    continue;
                }
                let stats = self.ask(&database, doc! { "collStats": name }, MONITOR)?;
                // Not every server counts scans.
                let scans = doc! { "aggregate": name, "pipeline": [{ "$collStats": { "queryExecStats": {} } }], "cursor": {} };
                let scans = self.list(&database, scans, MONITOR).unwrap_or_default();
                rows.push(answers::collection(&database, name, &stats, scans.first()));
            }
        }
        Ok(rows)
    }

    fn of_each(
        &mut self,
        collections: &[Row],
        command: impl Fn(&str) -> Document,
        role: &str,
        row: impl Fn(&Row, &Document) -> Option<Row>,
    ) -> Result<Vec<Row>, UnknownReason> {
        let mut rows = Vec::new();
        for collection in collections {
            let answers = self.list(text(collection, "database"), command(text(collection, "name")), role)?;
            rows.extend(answers.iter().filter_map(|answer| row(collection, answer)));
        }
        Ok(rows)
    }

    fn indexes(&mut self, collections: &[Row]) -> Result<Vec<Row>, UnknownReason> {
        self.of_each(collections, |name| doc! { "listIndexes": name }, READ, answers::index)
    }

    fn uses(&mut self, collections: &[Row]) -> Result<Vec<Row>, UnknownReason> {
        let command =
            |name: &str| doc! { "aggregate": name, "pipeline": [{ "$indexStats": {} }], "cursor": {} };
        self.of_each(collections, command, MONITOR, answers::uses)
    }

    /// Lengths of the files in each GridFS.
    fn blobs(&mut self, collections: &[Row]) -> SourceAnswer {
        blobs::with_lengths(Ok(answers::gridfs(collections)), |column| {
            let command = doc! {
                "find": text(column, "sql_files"), "projection": { "length": 1, "_id": 0 }, "limit": 2000, "batchSize": 2000,
                "singleBatch": true,
            };
            let files = self.list(text(column, "sql_database"), command, READ)?;
            Ok(blobs::summary(files.iter().filter_map(answers::length).collect()))
        })
    }

    fn operations(&mut self) -> Result<Vec<Row>, UnknownReason> {
        let told = self.ask(OWN[0], doc! { "currentOp": 1, "active": true }, MONITOR)?;
        answers::operations(&told)
    }

    fn one(&mut self, command: &str, row: impl Fn(&Document) -> Row) -> Result<Vec<Row>, UnknownReason> {
        self.ask(OWN[0], doc! { command: 1 }, MONITOR).map(|told| vec![row(&told)])
    }
}

impl Inspector for MongoInspector {
    fn version(&mut self) -> Option<String> {
        let facts =
            MongoProduct::from_build_info(&self.ask(OWN[0], doc! { "buildInfo": 1 }, MONITOR).ok()?).facts();
        let claims = facts.get("says_that_it_is").map(|claims| format!(", which says that it is {claims}"));
        Some(format!("{}{}", facts.get("version")?, claims.unwrap_or_default()))
    }

    fn ping(&mut self) -> Result<(), UnknownReason> {
        self.ask(OWN[0], doc! { "ping": 1 }, MONITOR).map(drop)
    }

    fn look(&mut self, is_last: bool) -> BTreeMap<String, SourceAnswer> {
        let status = self.ask(OWN[0], doc! { "serverStatus": 1 }, MONITOR);
        let collections = self.collections();
        let mut told = vec![
            (
                "status",
                status.as_ref().map(|status| vec![answers::status(status)]).map_err(UnknownReason::clone),
            ),
            ("commands", status.and_then(|status| answers::commands(&status))),
            ("collections", collections.clone()),
        ];
        if is_last {
            let of_all = collections.as_deref().map_err(UnknownReason::clone);
            told.push(("indexes", of_all.clone().and_then(|all| self.indexes(all))));
            told.push(("uses", of_all.clone().and_then(|all| self.uses(all))));
            told.push(("operations", self.operations()));
            told.push(("started", self.one("getCmdLineOpts", answers::started)));
            told.push(("member", self.one("hello", answers::member)));
        }
        let blobs = is_last.then(|| collections.map_or_else(SourceAnswer::Refused, |all| self.blobs(&all)));
        let mut told: BTreeMap<String, SourceAnswer> = told
            .into_iter()
            .map(|(name, rows)| {
                (name.to_owned(), rows.map_or_else(SourceAnswer::Refused, SourceAnswer::Rows))
            })
            .collect();
        told.extend(blobs.map(|blobs| ("blobs".to_owned(), blobs)));
        told
    }
}
