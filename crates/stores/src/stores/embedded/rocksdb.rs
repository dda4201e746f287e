//! RocksDB: a log-structured merge tree, optionally with values in blob files (BlobDB).

use std::path::Path;

use anyhow::Context;
use rocksdb::{
    BlockBasedOptions, Cache, DB, IteratorMode, Options as DbOptions, Snapshot, WriteBatch, WriteOptions,
    properties,
};

use crate::store::*;
use crate::stores::common::keys::{self, KEY, KeyForm};
use crate::stores::common::reader::{self, ReadOnlySession, Snapshot as _, SnapshotReads};

/// The recommended share, memtables included.
const MEMORY: CacheRecommendation = CacheRecommendation {
    own: OwnCache::Share(1.0 / 3.0),
    words: "We recommend that this should be about 1/3 of your total memory budget. The remaining free memory can be left for OS page \
            cache",
    link: "https://github.com/facebook/rocksdb/wiki/Setup-Options-and-Basic-Tuning#block-cache-size",
};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "rocksdb",
    about: "RocksDB: a log-structured merge tree",
    kind: Kind::Embedded,
    programs: &[],
    options: &[
        OptionSpec::flag("blob_files")
            .about("keep large values in files of their own, outside the tree (BlobDB)"),
        OptionSpec::bytes("blob_min", 0, 1 << 30, "4KiB")
            .about("values from this size on go into blob files"),
        KEY,
    ],
    caps: |options| Capabilities {
        // A value is lent as a whole from memory.
        streams: false,
        list: KeyForm::from_options(options) == KeyForm::Digest,
        catalogue: false,
        blob_bytes_max: Some(LIMIT),
        totals: false,
        backup: BACKUP,
        ..Capabilities::ALL
    },
    loss,
    integrity: |_, _| Integrity::Checksums,
    traits: keys::traits,
    memory: |_| MEMORY,
    needs: Needs::NOTHING,
    open,
};

/// RocksDB stores value lengths in 32 bits and advises against values above 3 GB.
const LIMIT: Limit = Limit { bytes: 3 << 30, source: "RocksDB's practical limit of 3 GB a value" };

const BACKUP: Backup = Backup::Closed(BackupMethod {
    by: "a copy of the closed directory",
    words: "BackupEngine copies an open database; blobwise does not use it",
    link: "https://github.com/facebook/rocksdb/wiki/How-to-backup-RocksDB",
});

/// RocksDB's documentation of `WriteOptions::sync`: if off, a killed process loses nothing, because the log is in the kernel's
/// cache, and a power cut may lose recent writes; the log's checksums keep the database consistent.
fn loss(_: &Options, durability: Durability) -> Losses {
    Losses { after_kill: Loss::Nothing, ..Losses::of_unflushed(durability) }
}

struct Rocks {
    database: DB,
    durability: Durability,
    key_form: KeyForm,
    memtable_bytes: u64,
    blob_files: bool,
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    // The cache budget covers the memtables (one active, one being flushed) and the block cache.
    let memtable_bytes = (setup.cache_bytes / 4).clamp(1 << 20, 64 << 20);
    let cache =
        Cache::new_lru_cache(setup.cache_bytes.saturating_sub(2 * memtable_bytes).max(1 << 20) as usize);
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&cache);
    blocks.set_bloom_filter(10.0, false);
    let mut options = DbOptions::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_write_buffer_size(memtable_bytes as usize);
    let blob_files = setup.options.flag("blob_files");
    if blob_files {
        options.set_enable_blob_files(true);
        options.set_min_blob_size(setup.options.number("blob_min"));
        options.set_enable_blob_gc(true);
    }
    let database = DB::open(&options, setup.dir.join("rocksdb"))
        .with_context(|| format!("cannot open a RocksDB database in `{}`", setup.dir.display()))?;
    let key_form = KeyForm::from_options(setup.options);
    Ok(Box::new(Rocks { database, durability: setup.durability, key_form, memtable_bytes, blob_files }))
}

const POLL: std::time::Duration = std::time::Duration::from_millis(2);

impl Rocks {
    fn property(&self, name: &properties::PropName) -> Result<u64> {
        Ok(self.database.property_int_value(name).map_err(Error::failed)?.unwrap_or(0))
    }

    fn is_idle(&self) -> Result<bool> {
        for name in [
            properties::NUM_RUNNING_FLUSHES,
            properties::NUM_RUNNING_COMPACTIONS,
            properties::MEM_TABLE_FLUSH_PENDING,
            properties::COMPACTION_PENDING,
        ] {
            if self.property(name)? > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write_options(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.set_sync(self.durability == Durability::EachWrite);
        options
    }
}

impl Store for Rocks {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RocksSession { store: self, write_options: self.write_options() }))
    }

    /// RocksDB's documentation of `GetSnapshot`: "a handle to the current DB state", the same for all reads with it.
    fn reader(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(ReadOnlySession(SnapshotReads(RocksReader {
            store: self,
            snapshot: self.database.snapshot(),
        }))))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::from([
            ("version".into(), format!("crate {}", env!("BLOBWISE_VERSION_ROCKSDB"))),
            ("memtable_bytes".into(), self.memtable_bytes.to_string()),
            ("block_cache_bytes".into(), self.property(properties::BLOCK_CACHE_CAPACITY)?.to_string()),
            ("blob_files".into(), self.blob_files.to_string()),
            ("bloom_filter".into(), "10 bits a key".into()),
            ("compression".into(), "none: it is built without any".into()),
        ]))
    }

    /// Waits for five idle polls in a row: a finished flush may be followed by a compaction a moment later.
    fn settle(&self) -> Result<()> {
        let mut idle = 0;
        while idle < 5 {
            idle = if self.is_idle()? { idle + 1 } else { 0 };
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// The write-ahead log.
    fn is_log(&self, path: &Path) -> bool {
        has_name(path, |name| name.ends_with(".log"))
    }

    fn close(self: Box<Self>) -> Result<()> {
        if self.durability != Durability::None {
            self.database.flush_wal(true).map_err(Error::failed)?;
        }
        self.database.cancel_all_background_work(true);
        Ok(())
    }
}

struct RocksSession<'a> {
    store: &'a Rocks,
    write_options: WriteOptions,
}

struct RocksReader<'a> {
    store: &'a Rocks,
    snapshot: Snapshot<'a>,
}

impl reader::Snapshot for RocksReader<'_> {
    fn lend(&self, key: &Key, sink: impl FnOnce(&[u8])) -> Result<bool> {
        let key = self.store.key_form.bytes(key);
        let Some(blob) = self.snapshot.get_pinned(&*key).map_err(Error::failed)? else {
            return Ok(false);
        };
        sink(&blob);
        Ok(true)
    }
}

impl Session for RocksSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        LIMIT.check(blob)?;
        let key = self.store.key_form.bytes(key);
        self.store.database.put_opt(&*key, blob, &self.write_options).map_err(Error::failed)
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let key = self.store.key_form.bytes(key);
        let Some(blob) = self.store.database.get_pinned(&*key).map_err(Error::failed)? else {
            return Ok(false);
        };
        sink(span.slice_of(&blob));
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        let key = self.store.key_form.bytes(key);
        self.store.database.delete_opt(&*key, &self.write_options).map_err(Error::failed)
    }

    fn sync(&mut self) -> Result<()> {
        if self.store.durability == Durability::OnSync {
            self.store.database.flush_wal(true).map_err(Error::failed)?;
        }
        Ok(())
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        self.store.key_form.check_list()?;
        for entry in self.store.database.iterator(IteratorMode::Start) {
            let (key, _) = entry.map_err(Error::failed)?;
            each(std::str::from_utf8(&key).unwrap_or_default());
        }
        Ok(())
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, blob) in blobs {
            LIMIT.check(blob)?;
            batch.put(&*self.store.key_form.bytes(key), blob);
        }
        self.store.database.write_opt(batch, &self.write_options).map_err(Error::failed)
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        let snapshot = self.store.database.snapshot();
        RocksReader { store: self.store, snapshot }.lend_many(keys, sink)
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for key in keys {
            batch.delete(&*self.store.key_form.bytes(key));
        }
        self.store.database.write_opt(batch, &self.write_options).map_err(Error::failed)
    }
}
