//! redb: a copy-on-write B-tree in pure Rust, one writer at a time.

use anyhow::Context;
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use crate::store::*;
use crate::stores::common::keys::{self, KEY, KeyForm};
use crate::stores::common::reader::{ReadOnlySession, Snapshot, SnapshotReads};

/// redb recommends no share. It takes about twice the cache size: with blobs of 100 kB, 402 MB for a cache of 200 MB, so that the
/// kernel killed it when the cache was half of the memory. A quarter, as for others, makes it take half and leaves the kernel the
/// rest.
const MEMORY: CacheRecommendation = CacheRecommendation {
    own: OwnCache::Share(0.25),
    words: "Set the amount of memory (in bytes) used for caching data",
    link: "https://docs.rs/redb/latest/redb/struct.Builder.html#method.set_cache_size",
};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "redb",
    about: "redb: a copy-on-write B-tree with a cache of its own",
    kind: Kind::Embedded,
    programs: &[],
    options: &[KEY],
    caps: |options| Capabilities {
        // A value is lent as a whole from memory.
        streams: false,
        list: KeyForm::from_options(options) == KeyForm::Digest,
        catalogue: false,
        blob_bytes_max: Some(LIMIT),
        backup: BACKUP,
        compaction: Some(Compaction::InPlace("`Database::compact`")),
        ..Capabilities::ALL
    },
    loss,
    integrity: |_, _| Integrity::Unchecked,
    traits: keys::traits,
    memory: |_| MEMORY,
    needs: Needs::NOTHING,
    open,
};

/// redb's MAX_VALUE_LENGTH is 3 GiB; key and value together have the same limit, so the key is subtracted.
const LIMIT: Limit = Limit { bytes: (3 << 30) - 64, source: "redb's MAX_VALUE_LENGTH" };

const BACKUP: Backup = Backup::Closed(BackupMethod {
    by: "a copy of the closed file",
    words: "No function of `Database` copies one that is open",
    link: "https://docs.rs/redb/latest/redb/struct.Database.html",
});

const BLOBS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("blobs");

/// redb documents two levels: Immediate is on stable storage when commit returns; None is not persistent until a later Immediate
/// commit, so a killed process loses it too. The file stays consistent either way.
fn level(durability: Durability) -> redb::Durability {
    match durability {
        Durability::None | Durability::OnSync => redb::Durability::None,
        Durability::EachWrite => redb::Durability::Immediate,
    }
}

fn loss(_: &Options, durability: Durability) -> Losses {
    Losses::of_unflushed(durability)
}

struct Redb {
    database: Database,
    durability: Durability,
    key_form: KeyForm,
    cache_bytes: u64,
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let path = setup.dir.join("blobs.redb");
    let database = Database::builder()
        .set_cache_size(setup.cache_bytes as usize)
        .create(&path)
        .map_err(with_number)
        .with_context(|| format!("cannot open `{}`", path.display()))?;
    let key_form = KeyForm::from_options(setup.options);
    let store = Redb { database, durability: setup.durability, key_form, cache_bytes: setup.cache_bytes };
    if setup.mode == Mode::Create {
        let transaction = store.database.begin_write().map_err(from_redb)?;
        drop(transaction.open_table(BLOBS).map_err(from_redb)?);
        transaction.commit().map_err(from_redb)?;
    }
    Ok(Box::new(store))
}

fn from_redb(error: impl Into<redb::Error>) -> Error {
    Error::Failed(with_number(error))
}

/// Converts the error, keeping its errno if it has one.
fn with_number(error: impl Into<redb::Error>) -> anyhow::Error {
    match error.into() {
        redb::Error::Io(error) => error.into(),
        error => error.into(),
    }
}

impl Redb {
    fn begin(&self, level: redb::Durability) -> Result<WriteTransaction> {
        let mut transaction = self.database.begin_write().map_err(from_redb)?;
        transaction.set_durability(level).map_err(from_redb)?;
        Ok(transaction)
    }

    /// An empty Immediate commit persists every commit before it.
    fn persist(&self) -> Result<()> {
        if self.durability == Durability::OnSync {
            self.begin(redb::Durability::Immediate)?.commit().map_err(from_redb)?;
        }
        Ok(())
    }

    /// Opens the table in a read transaction of its own, which ends when the table is dropped.
    fn snapshot(&self) -> Result<RedbReader> {
        let transaction = self.database.begin_read().map_err(from_redb)?;
        Ok(RedbReader { key_form: self.key_form, table: transaction.open_table(BLOBS).map_err(from_redb)? })
    }
}

struct RedbReader {
    key_form: KeyForm,
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl Snapshot for RedbReader {
    fn lend(&self, key: &Key, sink: impl FnOnce(&[u8])) -> Result<bool> {
        let Some(blob) = self.table.get(&*self.key_form.bytes(key)).map_err(from_redb)? else {
            return Ok(false);
        };
        sink(blob.value());
        Ok(true)
    }
}

impl Store for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    /// redb's documentation of `begin_read`: it "captures a snapshot of the database, so that only data committed before calling
    /// this method is visible in the transaction".
    fn reader(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(ReadOnlySession(SnapshotReads(self.snapshot()?))))
    }

    fn facts(&self) -> Result<Facts> {
        let transaction = self.database.begin_write().map_err(from_redb)?;
        let stats = transaction.stats().map_err(from_redb)?;
        let facts = Facts::from([
            ("version".into(), env!("BLOBWISE_VERSION_REDB").into()),
            ("page_bytes".into(), stats.page_size().to_string()),
            ("cache_bytes".into(), self.cache_bytes.to_string()),
            ("commit".into(), format!("{:?}", level(self.durability))),
        ]);
        transaction.abort().map_err(from_redb)?;
        Ok(facts)
    }

    fn totals(&self) -> Result<(u64, u64)> {
        let mut totals = (0, 0);
        for entry in self.snapshot()?.table.iter().map_err(from_redb)? {
            let (_, blob) = entry.map_err(from_redb)?;
            totals = (totals.0 + 1, totals.1 + blob.value().len() as u64);
        }
        Ok(totals)
    }

    fn compact(&mut self) -> Result<()> {
        self.database.compact().map(drop).map_err(from_redb)
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Dropping the database would do the same but hide a failure.
        self.persist()
    }
}

impl Session for &Redb {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.put_batch(&[(*key, blob)])
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.snapshot()?.lend_part(key, span, sink)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.delete_batch(&[*key])
    }

    fn sync(&mut self) -> Result<()> {
        self.persist()
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        self.key_form.check_list()?;
        for entry in self.snapshot()?.table.iter().map_err(from_redb)? {
            each(std::str::from_utf8(entry.map_err(from_redb)?.0.value()).unwrap_or_default());
        }
        Ok(())
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        blobs.iter().try_for_each(|(_, blob)| LIMIT.check(blob))?;
        let transaction = self.begin(level(self.durability))?;
        {
            let mut table = transaction.open_table(BLOBS).map_err(from_redb)?;
            for (key, blob) in blobs {
                table.insert(&*self.key_form.bytes(key), *blob).map_err(from_redb)?;
            }
        }
        transaction.commit().map_err(from_redb)
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        self.snapshot()?.lend_many(keys, sink)
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        let transaction = self.begin(level(self.durability))?;
        {
            let mut table = transaction.open_table(BLOBS).map_err(from_redb)?;
            for key in keys {
                table.remove(&*self.key_form.bytes(key)).map_err(from_redb)?;
            }
        }
        transaction.commit().map_err(from_redb)
    }
}
