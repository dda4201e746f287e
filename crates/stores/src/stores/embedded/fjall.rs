//! fjall: a log-structured merge tree in pure Rust, optionally with key-value separation.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode, Readable, Snapshot,
};

use crate::store::*;
use crate::stores::common::keys::{self, KEY, KeyForm};
use crate::stores::common::reader::{self, ReadOnlySession, Snapshot as _, SnapshotReads};

/// The upper end of the recommendation, memtables included.
const MEMORY: CacheRecommendation = CacheRecommendation {
    own: OwnCache::Share(0.25),
    words: "It is recommended to configure the block cache capacity to be ~20-25% of the available memory - or more if the data set \
            fully fits into memory",
    link: "https://docs.rs/fjall/latest/fjall/struct.DatabaseBuilder.html#method.cache_size",
};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "fjall",
    about: "fjall: a log-structured merge tree",
    kind: Kind::Embedded,
    programs: &[],
    options: &[
        OptionSpec::flag("kv_separation").about("keep large values in files of their own, outside the tree"),
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

/// fjall stores value lengths in 32 bits.
const LIMIT: Limit = Limit { bytes: u32::MAX as u64 - 64, source: "fjall's 32-bit value length" };

const BACKUP: Backup = Backup::Closed(BackupMethod {
    by: "a copy of the closed directory",
    words: "No function of `Database` copies one that is open",
    link: "https://docs.rs/fjall/latest/fjall/struct.Database.html",
});

/// fjall writes each insert to its journal in the kernel's cache, so a killed process loses nothing; after a power cut it
/// recovers from the journal up to the last complete entry. `persist(SyncAll)` flushes it.
fn loss(_: &Options, durability: Durability) -> Losses {
    Losses { after_kill: Loss::Nothing, ..Losses::of_unflushed(durability) }
}

struct Fjall {
    database: Database,
    blobs: Keyspace,
    durability: Durability,
    key_form: KeyForm,
    memtable_bytes: u64,
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    // The cache budget covers the memtable and the block cache, whose defaults in fjall are 64 MiB and 32 MiB.
    let memtable_bytes = (setup.cache_bytes / 4).clamp(1 << 20, 64 << 20);
    let database = Database::builder(setup.dir.join("fjall"))
        .cache_size(setup.cache_bytes.saturating_sub(memtable_bytes).max(1 << 20))
        .open()
        .with_context(|| format!("cannot open a fjall database in `{}`", setup.dir.display()))?;
    let separation = setup.options.flag("kv_separation").then(KvSeparationOptions::default);
    let blobs = database
        .keyspace("blobs", || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(memtable_bytes)
                .with_kv_separation(separation.clone())
        })
        .map_err(Error::failed)?;
    let key_form = KeyForm::from_options(setup.options);
    Ok(Box::new(Fjall { database, blobs, durability: setup.durability, key_form, memtable_bytes }))
}

const POLL: Duration = Duration::from_millis(2);

impl Fjall {
    /// True if no flush or compaction is pending or running. A flush that a thread has started is no longer outstanding, but its
    /// memtable stays sealed until it is done.
    fn is_idle(&self) -> bool {
        self.database.outstanding_flushes() == 0
            && self.blobs.sealed_memtable_count() == 0
            && self.database.active_compactions() == 0
    }

    fn flush(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(Error::failed)
    }

    fn after_write(&self) -> Result<()> {
        if self.durability == Durability::EachWrite { self.flush() } else { Ok(()) }
    }
}

impl Store for Fjall {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    /// fjall's documentation of `Database::snapshot`: "opens a cross-keyspace snapshot".
    fn reader(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(ReadOnlySession(SnapshotReads(FjallReader {
            store: self,
            snapshot: self.database.snapshot(),
        }))))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::from([
            ("version".into(), env!("BLOBWISE_VERSION_FJALL").into()),
            ("memtable_bytes".into(), self.memtable_bytes.to_string()),
            ("cache_bytes".into(), self.database.cache_capacity().to_string()),
            ("kv_separated".into(), self.blobs.is_kv_separated().to_string()),
            // The defaults of `KeyspaceCreateOptions` and `KvSeparationOptions`.
            ("compression".into(), "LZ4, from the third level and in files of separated values".into()),
        ]))
    }

    /// Waits for five idle polls in a row: a finished flush may be followed by a compaction a moment later.
    fn settle(&self) -> Result<()> {
        let completed = || self.database.compactions_completed();
        let (mut idle, mut before) = (0, completed());
        while idle < 5 {
            // A compaction may begin and end between two polls and be followed by another.
            let now = completed();
            idle = if self.is_idle() && now == before { idle + 1 } else { 0 };
            before = now;
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// fjall's journals.
    fn is_log(&self, path: &Path) -> bool {
        has_name(path, |name| name.ends_with(".jnl"))
    }

    fn close(self: Box<Self>) -> Result<()> {
        if self.durability != Durability::None { self.flush() } else { Ok(()) }
    }
}

struct FjallReader<'a> {
    store: &'a Fjall,
    snapshot: Snapshot,
}

impl reader::Snapshot for FjallReader<'_> {
    fn lend(&self, key: &Key, sink: impl FnOnce(&[u8])) -> Result<bool> {
        let key = self.store.key_form.bytes(key);
        let Some(blob) = self.snapshot.get(&self.store.blobs, &*key).map_err(Error::failed)? else {
            return Ok(false);
        };
        sink(&blob);
        Ok(true)
    }
}

impl Session for &Fjall {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        LIMIT.check(blob)?;
        self.blobs.insert(&*self.key_form.bytes(key), blob).map_err(Error::failed)?;
        self.after_write()
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let Some(blob) = self.blobs.get(&*self.key_form.bytes(key)).map_err(Error::failed)? else {
            return Ok(false);
        };
        sink(span.slice_of(&blob));
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.blobs.remove(&*self.key_form.bytes(key)).map_err(Error::failed)?;
        self.after_write()
    }

    fn sync(&mut self) -> Result<()> {
        if self.durability == Durability::OnSync { self.flush() } else { Ok(()) }
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        self.key_form.check_list()?;
        for entry in self.blobs.iter() {
            let key = entry.key().map_err(Error::failed)?;
            each(std::str::from_utf8(&key).unwrap_or_default());
        }
        Ok(())
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        let mut batch = self.database.batch();
        for (key, blob) in blobs {
            LIMIT.check(blob)?;
            batch.insert(&self.blobs, &*self.key_form.bytes(key), *blob);
        }
        batch.commit().map_err(Error::failed)?;
        self.after_write()
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        let snapshot = self.database.snapshot();
        FjallReader { store: self, snapshot }.lend_many(keys, sink)
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        let mut batch = self.database.batch();
        for key in keys {
            batch.remove(&self.blobs, &*self.key_form.bytes(key));
        }
        batch.commit().map_err(Error::failed)?;
        self.after_write()
    }
}
