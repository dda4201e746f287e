//! One document per blob: `_id` is the key, `data` the bytes, `gone` the mark of a lazy delete.

use anyhow::Context;
use mongodb::bson::raw::{RawBinaryRef, cstr};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::{Collection, Database};

use crate::store::*;
use crate::stores::common::keys::KeyForm;
use crate::wire::mongodb::{MongoClient, from_mongo};

pub(super) const NAME: &str = "blobs";

pub(super) fn make(admin: &MongoClient, engine: Option<&Document>) -> Result<()> {
    super::files::make_collection(admin, NAME, engine)
}

pub(super) async fn purge(database: &Database) -> Result<()> {
    let blobs = database.collection::<Document>(NAME);
    blobs.delete_many(doc! { "gone": true }).await.map_err(from_mongo).map(drop)
}

pub(super) struct Documents {
    blobs: Collection<RawDocumentBuf>,
    key_form: KeyForm,
    lazy_delete: bool,
}

impl Documents {
    pub(super) fn new(database: &Database, key_form: KeyForm, lazy_delete: bool) -> Documents {
        Documents { blobs: database.collection(NAME), key_form, lazy_delete }
    }

    fn id(&self, key: &Key) -> Bson {
        match self.key_form {
            KeyForm::Digest => key.as_str().into(),
            KeyForm::Integer => (key.id as i64).into(),
        }
    }

    /// Changes to one document are atomic.
    pub(super) async fn put(&self, key: &Key, blob: &[u8]) -> Result<()> {
        super::DOCUMENT_LIMIT.check(blob)?;
        let mut document = RawDocumentBuf::new();
        match self.key_form {
            KeyForm::Digest => document.append(cstr!("_id"), key.as_str()),
            KeyForm::Integer => document.append(cstr!("_id"), key.id as i64),
        }
        document.append(cstr!("data"), RawBinaryRef { subtype: BinarySubtype::Generic, bytes: blob });
        let replaced = self.blobs.replace_one(doc! { "_id": self.id(key) }, document).upsert(true);
        replaced.await.map_err(from_mongo).map(drop)
    }

    pub(super) async fn get(&self, key: &Key, span: Span, sink: Sink<'_>) -> Result<bool> {
        span.check_whole()?;
        let mut filter = doc! { "_id": self.id(key) };
        if self.lazy_delete {
            filter.insert("gone", doc! { "$ne": true });
        }
        let Some(document) = self.blobs.find_one(filter).await.map_err(from_mongo)? else { return Ok(false) };
        sink(document.get_binary("data").context("the document has no data")?.bytes);
        Ok(true)
    }

    pub(super) async fn delete(&self, key: &Key) -> Result<()> {
        let filter = doc! { "_id": self.id(key) };
        if self.lazy_delete {
            let marked = self.blobs.update_one(filter, doc! { "$set": { "gone": true } });
            return marked.await.map_err(from_mongo).map(drop);
        }
        self.blobs.delete_one(filter).await.map_err(from_mongo).map(drop)
    }

    pub(super) async fn list(&self, each: &mut dyn FnMut(&str)) -> Result<()> {
        self.key_form.check_list()?;
        let filter = if self.lazy_delete {
            doc! { "gone": { "$ne": true } }
        } else {
            doc! {}
        };
        let found = self.blobs.find(filter).projection(doc! { "_id": 1 });
        let mut cursor = found.await.map_err(from_mongo)?;
        while cursor.advance().await.map_err(from_mongo)? {
            each(cursor.current().get_str("_id").context("a key is not text")?);
        }
        Ok(())
    }
}
