//! GridFS: a document per file in `fs.files`, and one per chunk in `fs.chunks`.
//!
//! The file's name is the key. A put adds a file and then removes older files of that name. As in every driver, readers see the
//! newest file of a name, so a put is atomic. Chunks are written before their file and removed after it. A reader whose file is
//! replaced meanwhile misses chunks and retries; nothing is lent before all chunks are there. A killed writer leaves only chunks
//! without a file, which no reader sees.

use anyhow::{Context, anyhow};
use futures_util::StreamExt;
use futures_util::io::{AsyncReadExt, AsyncWriteExt};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::{RawBinaryRef, RawDocument, cstr};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{DateTime, Document, RawDocumentBuf, doc};
use mongodb::error::{ErrorKind, GridFsErrorKind};
use mongodb::gridfs::GridFsBucket;
use mongodb::options::{GridFsBucketOptions, IndexOptions};
use mongodb::raw_batch_cursor::RawBatch;
use mongodb::{Collection, Database, IndexModel};

use super::Mongo;
use super::Speaker;
use crate::store::*;
use crate::wire::mongodb::{MongoClient, from_mongo, with_journal};

const FILES: &str = "fs.files";
pub(super) const CHUNKS: &str = "fs.chunks";
/// Bytes of the chunks sent in one message; a message is limited to 48 MB.
const BYTES_AT_ONCE: usize = 16 << 20;
/// Files purged by one command.
const FILES_AT_ONCE: usize = 1000;

/// Above this many, chunks are requested by one query even if each could be found by its id. SQLite scans all chunks for an id
/// too, because the index that FerretDB 1.24 creates is on another expression than its query: 40 chunks took 6.95 s one by one
/// and 1.05 s at once, 4 chunks 246 ms and 415 ms.
const ASKED_ONE_BY_ONE_MAX: u64 = 8;

/// Creates a collection, with storage engine settings if given.
pub(super) fn make_collection(admin: &MongoClient, name: &str, engine: Option<&Document>) -> Result<()> {
    admin.run_while_busy(|| {
        let made = admin.database().create_collection(name);
        let made = match engine {
            Some(engine) => made.storage_engine(engine.clone()),
            None => made,
        };
        async { made.await }
    })
}

/// Creates both collections with the indexes of the GridFS specification.
pub(super) fn make(admin: &MongoClient, engine: Option<&Document>) -> Result<()> {
    make_collection(admin, FILES, None)?;
    make_collection(admin, CHUNKS, engine)?;
    let by_name = IndexModel::builder().keys(doc! { "filename": 1, "uploadDate": 1 }).build();
    make_index(admin, FILES, &by_name)?;
    let by_number = IndexModel::builder()
        .keys(doc! { "files_id": 1, "n": 1 })
        .options(IndexOptions::builder().unique(true).build())
        .build();
    make_index(admin, CHUNKS, &by_number)
}

fn make_index(admin: &MongoClient, name: &str, index: &IndexModel) -> Result<()> {
    let collection = admin.database().collection::<Document>(name);
    admin.run_while_busy(|| {
        let made = collection.create_index(index.clone());
        async { made.await.map(drop) }
    })
}

/// Removes files that were only marked as deleted; these have no name any more.
pub(super) async fn purge(database: &Database) -> Result<()> {
    let files = database.collection::<RawDocumentBuf>(FILES);
    let chunks = database.collection::<RawDocumentBuf>(CHUNKS);
    let gone = files_of(&files, doc! { "metadata.gone": true }).await?;
    for gone in gone.chunks(FILES_AT_ONCE) {
        let among = among(gone);
        files.delete_many(doc! { "_id": &among }).await.map_err(from_mongo)?;
        chunks.delete_many(doc! { "files_id": among }).await.map_err(from_mongo)?;
    }
    Ok(())
}

/// Returns the files, oldest first.
async fn files_of(files: &Collection<RawDocumentBuf>, filter: Document) -> Result<Vec<FileDocument>> {
    let needed = doc! { "_id": 1, "length": 1, "chunkSize": 1 };
    let found = files.find(filter).projection(needed).sort(doc! { "uploadDate": 1 });
    let mut cursor = found.await.map_err(from_mongo)?;
    let mut files = Vec::new();
    while cursor.advance().await.map_err(from_mongo)? {
        files.push(FileDocument::parse(cursor.current())?);
    }
    Ok(files)
}

/// A filter for the ids of these files.
fn among(files: &[FileDocument]) -> Document {
    doc! { "$in": files.iter().map(|file| file.id).collect::<Vec<_>>() }
}

pub(super) struct GridFsOperations {
    /// The driver's GridFS. In class each-write its chunks wait for the journal too, not only the file.
    bucket: GridFsBucket,
    /// The last write of a put; waits for the journal if the class demands it.
    files: Collection<RawDocumentBuf>,
    /// Collections written without waiting for the journal, because a later write waits or no reader sees the change.
    chunks: Collection<RawDocumentBuf>,
    old_files: Collection<RawDocumentBuf>,
    chunk: u32,
    by_driver: bool,
    /// Requests few chunks one by one, by ids that encode file and number: FerretDB pushes only that filter down to SQLite, and
    /// decodes all chunks of all files for any other.
    by_id: bool,
    lazy_delete: bool,
    /// Buffer of the driver's downloads.
    buffer: Vec<u8>,
}

#[derive(Clone, Copy)]
struct FileDocument {
    id: ObjectId,
    len: u64,
    chunk: u32,
}

impl FileDocument {
    fn chunks(&self) -> u64 {
        self.len.div_ceil(u64::from(self.chunk))
    }

    /// The id of a chunk in mode `by_id`.
    fn chunk_id(id: ObjectId, number: u64) -> String {
        format!("{id}-{number}")
    }

    fn parse(document: &RawDocument) -> anyhow::Result<FileDocument> {
        let number = |name| -> anyhow::Result<u64> {
            let value = document.get(name)?.with_context(|| format!("a file has no {name}"))?;
            let number = value.as_i64().or_else(|| value.as_i32().map(i64::from));
            Ok(number.with_context(|| format!("a file's {name} is no whole number"))?.unsigned_abs())
        };
        let chunk = u32::try_from(number("chunkSize")?).context("a file's chunkSize is too large")?;
        if chunk == 0 {
            return Err(anyhow!("a file's chunkSize is 0"));
        }
        Ok(FileDocument { id: document.get_object_id("_id")?, len: number("length")?, chunk })
    }
}

/// The chunks that hold a span of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ChunkRange {
    first: u64,
    /// 0 for an empty span.
    count: u64,
    /// Bytes of the first chunk before the span.
    skip: u64,
    len: u64,
}

impl ChunkRange {
    fn from_span(span: Span, file_len: u64, chunk: u32) -> ChunkRange {
        let chunk = u64::from(chunk);
        let (offset, len) = span.below(file_len);
        if len == 0 {
            return ChunkRange { first: 0, count: 0, skip: 0, len: 0 };
        }
        let (first, last) = (offset / chunk, (offset + len - 1) / chunk);
        ChunkRange { first, count: last - first + 1, skip: offset % chunk, len }
    }

    /// Expected length of chunk `number` of a file.
    fn chunk_len(number: u64, file_len: u64, chunk: u32) -> u64 {
        (file_len.saturating_sub(number * u64::from(chunk))).min(u64::from(chunk))
    }
}

impl GridFsOperations {
    pub(super) fn new(database: &Database, store: &Mongo, chunk: u32, by_driver: bool) -> GridFsOperations {
        let options = GridFsBucketOptions::builder().chunk_size_bytes(chunk).build();
        let buffer = if by_driver { vec![0; store.blob_bytes_max as usize + 1] } else { Vec::new() };
        GridFsOperations {
            bucket: database.gridfs_bucket(options),
            files: database.collection(FILES),
            chunks: with_journal(database, CHUNKS, false),
            old_files: with_journal(database, FILES, false),
            chunk,
            by_driver,
            by_id: store.speaker == Speaker::FerretDb && !by_driver,
            lazy_delete: store.lazy_delete,
            buffer,
        }
    }

    pub(super) async fn put(&self, key: &Key, blob: &[u8]) -> Result<()> {
        // Queried before the new file exists, so that two writers never remove each other's.
        let old = files_of(&self.files, doc! { "filename": key.as_str() }).await?;
        if self.by_driver {
            self.upload(key, blob).await?
        } else {
            self.insert(key, blob).await?
        }
        if old.is_empty() {
            return Ok(());
        }
        self.old_files.delete_many(doc! { "_id": among(&old) }).await.map_err(from_mongo)?;
        self.remove_chunks(&old).await
    }

    async fn remove_chunks(&self, files: &[FileDocument]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let many = |file: &FileDocument| file.chunks() > ASKED_ONE_BY_ONE_MAX;
        if !self.by_id || files.iter().any(many) {
            let of_these = doc! { "files_id": among(files) };
            return self.chunks.delete_many(of_these).await.map_err(from_mongo).map(drop);
        }
        for file in files {
            for number in 0..file.chunks() {
                let chunk = doc! { "_id": FileDocument::chunk_id(file.id, number) };
                self.chunks.delete_one(chunk).await.map_err(from_mongo)?;
            }
        }
        Ok(())
    }

    async fn upload(&self, key: &Key, blob: &[u8]) -> Result<()> {
        let mut file = self.bucket.open_upload_stream(key.as_str()).await.map_err(from_mongo)?;
        file.write_all(blob).await.map_err(from_driver)?;
        file.close().await.map_err(from_driver)
    }

    async fn insert(&self, key: &Key, blob: &[u8]) -> Result<()> {
        let id = ObjectId::new();
        let at_once = (BYTES_AT_ONCE / self.chunk as usize).max(1);
        let mut number = 0_i32;
        for group in blob.chunks(at_once * self.chunk as usize) {
            let documents = group.chunks(self.chunk as usize).map(|bytes| {
                let mut document = RawDocumentBuf::new();
                if self.by_id {
                    document.append(cstr!("_id"), FileDocument::chunk_id(id, number as u64));
                } else {
                    document.append(cstr!("_id"), ObjectId::new());
                }
                document.append(cstr!("files_id"), id);
                document.append(cstr!("n"), number);
                document.append(cstr!("data"), RawBinaryRef { subtype: BinarySubtype::Generic, bytes });
                number += 1;
                document
            });
            let documents: Vec<RawDocumentBuf> = documents.collect();
            self.chunks.insert_many(documents).await.map_err(from_mongo)?;
        }
        let mut file = RawDocumentBuf::new();
        file.append(cstr!("_id"), id);
        file.append(cstr!("length"), blob.len() as i64);
        file.append(cstr!("chunkSize"), self.chunk as i32);
        file.append(cstr!("uploadDate"), DateTime::now());
        file.append(cstr!("filename"), key.as_str());
        self.files.insert_one(file).await.map_err(from_mongo).map(drop)
    }

    pub(super) async fn get(&mut self, key: &Key, span: Span, sink: Sink<'_>) -> Result<bool> {
        if self.by_driver && span == Span::Whole {
            match self.download(key).await? {
                DownloadOutcome::Whole(len) => {
                    sink(&self.buffer[..len]);
                    return Ok(true);
                }
                DownloadOutcome::Missing => return Ok(false),
                DownloadOutcome::Replaced => {}
            }
        }
        self.read(key, span, sink).await
    }

    async fn download(&mut self, key: &Key) -> Result<DownloadOutcome> {
        let opened = self.bucket.open_download_stream_by_name(key.as_str()).await;
        let mut file = match opened {
            Err(error) if is_not_found(&error) => return Ok(DownloadOutcome::Missing),
            opened => opened.map_err(from_mongo)?,
        };
        let mut len = 0;
        loop {
            if len == self.buffer.len() {
                self.buffer.resize(2 * len, 0);
            }
            match file.read(&mut self.buffer[len..]).await {
                Ok(0) => return Ok(DownloadOutcome::Whole(len)),
                Ok(read) => len += read,
                Err(error) if lacks_chunks(&error) => return Ok(DownloadOutcome::Replaced),
                Err(error) => return Err(from_driver(error)),
            }
        }
    }

    /// Reads only the chunks of a span, by number: the driver's GridFS can neither seek nor stop early.
    async fn read(&self, key: &Key, span: Span, sink: Sink<'_>) -> Result<bool> {
        let mut before = None;
        while let Some(file) = self.newest(key).await? {
            let needed = ChunkRange::from_span(span, file.len, file.chunk);
            if let Some(batches) = self.chunks_of(&file, needed).await? {
                lend(&batches, needed, sink)?;
                return Ok(true);
            }
            ensure!(before != Some(file.id), "chunks of the file {} are missing", file.id);
            before = Some(file.id);
        }
        Ok(false)
    }

    async fn newest(&self, key: &Key) -> Result<Option<FileDocument>> {
        let found = self.files.find_one(doc! { "filename": key.as_str() }).sort(doc! { "uploadDate": -1 });
        let document = found.await.map_err(from_mongo)?;
        Ok(document.map(|document| FileDocument::parse(&document)).transpose()?)
    }

    /// The chunks; `None` if some are missing.
    async fn chunks_of(&self, file: &FileDocument, needed: ChunkRange) -> Result<Option<Vec<RawBatch>>> {
        if needed.count == 0 {
            return Ok(Some(Vec::new()));
        }
        let mut batches = Vec::new();
        let mut number = needed.first;
        for filter in self.filters(file, needed) {
            let found = self.chunks.find(filter).sort(doc! { "n": 1 });
            let mut cursor = found.batch().await.map_err(from_mongo)?;
            while let Some(batch) = cursor.next().await {
                let batch = batch.map_err(from_mongo)?;
                for chunk in documents(&batch)? {
                    let chunk = chunk?;
                    let is_next = chunk.get_i32("n").is_ok_and(|n| n as u64 == number);
                    let len = data(chunk)?.len() as u64;
                    if !is_next || len != ChunkRange::chunk_len(number, file.len, file.chunk) {
                        return Ok(None);
                    }
                    number += 1;
                }
                batches.push(batch);
            }
        }
        Ok((number == needed.first + needed.count).then_some(batches))
    }

    /// Filters that return the needed chunks in order.
    fn filters(&self, file: &FileDocument, needed: ChunkRange) -> Vec<Document> {
        let numbers = needed.first..needed.first + needed.count;
        if self.by_id && needed.count <= ASKED_ONE_BY_ONE_MAX {
            return numbers.map(|number| doc! { "_id": FileDocument::chunk_id(file.id, number) }).collect();
        }
        let mut filter = doc! { "files_id": file.id };
        if needed.count < file.chunks() {
            filter.insert("n", doc! { "$gte": numbers.start as i64, "$lt": numbers.end as i64 });
        }
        vec![filter]
    }

    pub(super) async fn delete(&self, key: &Key) -> Result<()> {
        let filter = doc! { "filename": key.as_str() };
        if self.lazy_delete {
            return self.files.update_many(filter, gone()).await.map_err(from_mongo).map(drop);
        }
        let old = files_of(&self.files, filter).await?;
        for file in &old {
            self.files.delete_one(doc! { "_id": file.id }).await.map_err(from_mongo)?;
        }
        self.remove_chunks(&old).await
    }

    pub(super) async fn list(&self, each: &mut dyn FnMut(&str)) -> Result<()> {
        let named = doc! { "filename": { "$type": "string" } };
        let found = self.files.find(named).projection(doc! { "filename": 1 }).sort(doc! { "filename": 1 });
        let mut cursor = found.await.map_err(from_mongo)?;
        // Concurrent writers of one name may leave two files, until it is put or deleted again.
        let mut before = String::new();
        while cursor.advance().await.map_err(from_mongo)? {
            let name = cursor.current().get_str("filename").context("a file's name is not text")?;
            if name != before {
                each(name);
                name.clone_into(&mut before);
            }
        }
        Ok(())
    }
}

/// The update of a lazy delete. Without its name a file is not found, listed or replaced. `metadata` is set as a whole, because
/// the driver's GridFS stores null there and no server creates a field in null. Our files have no other metadata.
fn gone() -> Document {
    doc! { "$set": { "metadata": { "gone": true } }, "$unset": { "filename": "" } }
}

enum DownloadOutcome {
    /// Bytes in the buffer.
    Whole(usize),
    Missing,
    /// Chunks disappeared during the read, because the file was replaced or deleted.
    Replaced,
}

/// Iterates over the documents of a batch.
fn documents(batch: &RawBatch) -> Result<impl Iterator<Item = Result<&RawDocument>>> {
    let documents = batch.doc_slices().map_err(from_mongo)?;
    Ok(documents.into_iter().map(|document| {
        let document = document.map_err(Error::failed)?;
        document.as_document().ok_or_else(|| Error::Failed(anyhow!("a chunk is no document")))
    }))
}

fn data(chunk: &RawDocument) -> Result<&[u8]> {
    Ok(chunk.get_binary("data").context("a chunk has no data")?.bytes)
}

fn lend(batches: &[RawBatch], needed: ChunkRange, sink: Sink) -> Result<()> {
    let (mut skip, mut left) = (needed.skip, needed.len);
    for batch in batches {
        for chunk in documents(batch)? {
            let part = Span::Part { offset: skip, len: left }.slice_of(data(chunk?)?);
            skip = 0;
            left -= part.len() as u64;
            sink(part);
        }
    }
    Ok(())
}

/// Unwraps the driver's errors, which its streams wrap in `std::io::Error`.
fn from_driver(error: std::io::Error) -> Error {
    match error.downcast::<mongodb::error::Error>() {
        Ok(error) => from_mongo(error),
        Err(error) => error.into(),
    }
}

fn is_not_found(error: &mongodb::error::Error) -> bool {
    matches!(*error.kind, ErrorKind::GridFs(GridFsErrorKind::FileNotFound { .. }))
}

fn lacks_chunks(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<mongodb::error::Error>());
    inner.is_some_and(|error| {
        matches!(
            *error.kind,
            ErrorKind::GridFs(GridFsErrorKind::MissingChunk { .. } | GridFsErrorKind::WrongSizeChunk { .. })
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_needs_the_chunks_that_it_touches() {
        let of = |offset, len| ChunkRange::from_span(Span::Part { offset, len }, 1000, 100);
        assert_eq!(of(0, 100), ChunkRange { first: 0, count: 1, skip: 0, len: 100 });
        assert_eq!(of(99, 2), ChunkRange { first: 0, count: 2, skip: 99, len: 2 });
        assert_eq!(of(250, u64::MAX), ChunkRange { first: 2, count: 8, skip: 50, len: 750 });
        assert_eq!(of(1000, 5).count, 0);
        assert_eq!(of(u64::MAX, u64::MAX).count, 0);
        assert_eq!(
            ChunkRange::from_span(Span::Whole, 1001, 100),
            ChunkRange { first: 0, count: 11, skip: 0, len: 1001 }
        );
        assert_eq!(ChunkRange::from_span(Span::Whole, 0, 100).count, 0);
    }

    /// MongoDB and FerretDB reject a dotted name with "Cannot create field 'gone' in element {metadata: null}".
    #[test]
    fn a_lazy_delete_sets_nothing_within_what_may_be_null() {
        let update = gone();
        let set = update.get_document("$set").unwrap();
        assert!(set.keys().all(|name| !name.contains('.')), "{update}");
        // The purge filters by this field.
        assert_eq!(set.get_document("metadata").unwrap(), &doc! { "gone": true });
    }

    #[test]
    fn only_the_last_chunk_is_shorter() {
        let lens: Vec<u64> = (0..4).map(|number| ChunkRange::chunk_len(number, 250, 100)).collect();
        assert_eq!(lens, [100, 100, 50, 0]);
    }
}
