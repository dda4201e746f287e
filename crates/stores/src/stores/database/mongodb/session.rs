//! One worker's client of MongoDB.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use super::Speaker;
use super::documents::Documents;
use super::files::GridFsOperations;
use super::{Mongo, MongoLayout};
use crate::store::*;
use crate::wire::mongodb::{MongoClient, with_journal};

pub(super) struct MongoSession<'s> {
    store: &'s Mongo,
    content: LayoutOperations,
    connection: MongoClient,
    /// The document that `sync` writes: one per session, so that sessions do not wait for each other.
    marker: ObjectId,
}

/// Operations of one of the two layouts.
enum LayoutOperations {
    Files(Box<GridFsOperations>),
    Documents(Documents),
}

impl<'s> MongoSession<'s> {
    pub(super) fn open(store: &'s Mongo) -> Result<MongoSession<'s>> {
        let (connection, content) = connect(store)?;
        Ok(MongoSession { store, content, connection, marker: ObjectId::new() })
    }
}

fn connect(store: &Mongo) -> Result<(MongoClient, LayoutOperations)> {
    let connection = MongoClient::open(&store.options, &store.database, store.op_timeout)?;
    let database = connection.database();
    let content = match store.shape {
        MongoLayout::Files { chunk, by_driver } => {
            LayoutOperations::Files(Box::new(GridFsOperations::new(database, store, chunk, by_driver)))
        }
        MongoLayout::Documents => {
            LayoutOperations::Documents(Documents::new(database, store.key_form, store.lazy_delete))
        }
    };
    Ok((connection, content))
}

/// Writes to a document of its own and waits until the journal is flushed. The first write creates the collection, possibly
/// concurrently with other sessions.
pub(super) fn mark(connection: &MongoClient, marker: ObjectId) -> Result<()> {
    let markers = with_journal::<Document>(connection.database(), "markers", true);
    let marker = doc! { "_id": marker };
    connection.run_while_busy(|| {
        let written = markers.update_one(marker.clone(), doc! { "$inc": { "count": 1_i64 } }).upsert(true);
        async { written.await.map(drop) }
    })
}

impl Session for MongoSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        match &self.content {
            LayoutOperations::Files(files) => self.connection.run(files.put(key, blob)),
            LayoutOperations::Documents(documents) => self.connection.run(documents.put(key, blob)),
        }
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        match &mut self.content {
            LayoutOperations::Files(files) => self.connection.run(files.get(key, span, sink)),
            LayoutOperations::Documents(documents) => self.connection.run(documents.get(key, span, sink)),
        }
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        match &self.content {
            LayoutOperations::Files(files) => self.connection.run(files.delete(key)),
            LayoutOperations::Documents(documents) => self.connection.run(documents.delete(key)),
        }
    }

    /// One small write that waits for the journal. The journal is one sequence: flushing this write flushes every earlier one.
    /// (The command `fsync` would write a whole checkpoint and needs administrator rights.) FerretDB flushes every write anyway.
    fn sync(&mut self) -> Result<()> {
        if self.store.durability != Durability::OnSync || self.store.speaker == Speaker::FerretDb {
            return Ok(());
        }
        mark(&self.connection, self.marker)
    }

    /// Connects again. A client of the driver opens two connections: one for ops, one that monitors the server.
    fn connect(&mut self) -> Result<()> {
        if self.store.speaker == Speaker::FerretDb {
            return Err(Error::Unsupported("a connection for each op"));
        }
        (self.connection, self.content) = connect(self.store)?;
        Ok(())
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        match &self.content {
            LayoutOperations::Files(files) => self.connection.run(files.list(each)),
            LayoutOperations::Documents(documents) => self.connection.run(documents.list(each)),
        }
    }
}
