//! LMDB through heed: one memory-mapped B+tree, one writer at a time, reads lent from the map.

use std::path::Path;

use anyhow::Context;
use heed::types::Bytes;
use heed::{
    CommitOrAbort, CompactionOption, Database, Env, EnvFlags, EnvOpenOptions, MdbError, RoTxn, WithTls,
};

use crate::store::*;
use crate::stores::common::failed::HasFailed;
use crate::stores::common::keys::{self, KEY, KeyForm};
use crate::stores::common::reader::{ReadOnlySession, Snapshot, SnapshotReads};

/// It uses only the kernel's cache; the documentation advises what to do if memory is too small.
const MEMORY: CacheRecommendation = CacheRecommendation {
    own: OwnCache::None,
    words: "Turning it off may help random read performance when the DB is larger than RAM and system RAM is full",
    link: "http://www.lmdb.tech/doc/group__mdb__env.html#ga32a193c6bf4d7d5c5d579e71f22e9340",
};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "lmdb",
    about: "LMDB: a memory-mapped B+tree, reads lent from the map",
    kind: Kind::Embedded,
    programs: &[],
    options: &[
        KEY,
        OptionSpec::choice("readahead", &["auto", "true", "false"])
            .about("let the kernel read ahead of page faults (false: MDB_NORDAHEAD); auto: where the blobs fit into memory"),
    ],
    caps: |options| Capabilities {
        list: KeyForm::from_options(options) == KeyForm::Digest,
        catalogue: false,
        blob_bytes_max: Some(LIMIT),
        backup: BACKUP,
        compaction: Some(Compaction::Copy("`mdb_env_copy2` with `MDB_CP_COMPACT`")),
        ..Capabilities::ALL
    },
    loss,
    integrity: |_, _| Integrity::Unchecked,
    traits: keys::traits,
    memory: |_| MEMORY,
    needs: Needs::NOTHING,
    open,
};

const LIMIT: Limit = Limit { bytes: 0xffff_ffff, source: "LMDB's MAXDATASIZE" };

const BACKUP: Backup = Backup::Image(BackupMethod {
    by: "`mdb_env_copy`",
    words: "This function may be used to make a backup of an existing environment",
    link: "http://www.lmdb.tech/doc/group__mdb.html",
});

/// LMDB's documentation, in substance. MDB_NOSYNC: a system crash can corrupt the database or lose the last transactions; a
/// killed process loses nothing, because the pages are in the kernel's cache. MDB_NOMETASYNC: each commit flushes its data and
/// leaves the meta page that makes it valid to the next commit or `mdb_env_sync`; integrity is kept, and a system crash may undo
/// the last transaction. Without either, each commit flushes both.
fn flags(durability: Durability) -> EnvFlags {
    match durability {
        Durability::None => EnvFlags::NO_SYNC,
        Durability::OnSync => EnvFlags::NO_META_SYNC,
        Durability::EachWrite => EnvFlags::empty(),
    }
}

fn loss(_: &Options, durability: Durability) -> Losses {
    let after_power_cut = match durability {
        Durability::None => Loss::StoreUnusable,
        Durability::OnSync => Loss::RecentWrites,
        Durability::EachWrite => Loss::Nothing,
    };
    Losses { after_kill: Loss::Nothing, after_power_cut }
}

struct Lmdb {
    env: Env,
    blobs: Database<'static, Bytes, Bytes>,
    durability: Durability,
    key_form: KeyForm,
    has_failed: HasFailed,
}

impl Lmdb {
    fn snapshot(&self) -> Result<LmdbReader<'_>> {
        Ok(LmdbReader { store: self, snapshot: self.env.read_txn().map_err(from_lmdb)? })
    }

    fn noting(&self, outcome: heed::Result<()>) -> Result<()> {
        self.has_failed.noting(outcome).map_err(from_lmdb)
    }
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let mut flags = flags(setup.durability);
    let reads_ahead = match setup.options.text("readahead") {
        "auto" => setup.fits,
        given => given == "true",
    };
    if !reads_ahead {
        flags |= EnvFlags::NO_READ_AHEAD;
    }
    let mut options = EnvOpenOptions::new();
    // The map is address space, not disk: four times what will be stored, because freed pages are only reused if they are
    // contiguous.
    let map_bytes = setup.store_bytes_max.saturating_mul(4) + (1 << 30);
    options.map_size(map_bytes.next_multiple_of(64 << 10) as usize);
    options.max_readers(setup.workers as u32 + 126);
    let env = open_env(&mut options, flags, setup)?;
    let transaction = env.write_txn().map_err(from_lmdb)?;
    let blobs = env
        .create_databases_and_commit(transaction, |opener, transaction| {
            opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        })
        .map_err(from_lmdb)?
        .unwrap_commit();
    let key_form = KeyForm::from_options(setup.options);
    let has_failed = HasFailed::default();
    Ok(Box::new(Lmdb { env, blobs, durability: setup.durability, key_form, has_failed }))
}

#[expect(unsafe_code, reason = "LMDB maps its file, and some of its flags are unsafe for durability")]
fn open_env(options: &mut EnvOpenOptions<WithTls>, flags: EnvFlags, setup: &Setup) -> Result<Env> {
    // SAFETY: the directory belongs to this run alone (it is marked and locked), so no other process changes the mapped file, and
    // it is not on a network file system unless the user chose to measure one. NO_SYNC, NO_META_SYNC and NO_READ_AHEAD change
    // durability and speed, not memory safety.
    let env = unsafe { options.flags(flags).open(setup.dir) };
    let env = env.map_err(with_number);
    Ok(env.with_context(|| format!("cannot open an LMDB environment in `{}`", setup.dir.display()))?)
}

fn from_lmdb(error: heed::Error) -> Error {
    match error {
        heed::Error::Mdb(MdbError::ReadersFull) => Error::Busy,
        error => Error::Failed(with_number(error)),
    }
}

/// Converts the error, keeping its errno if it has one.
fn with_number(error: heed::Error) -> anyhow::Error {
    match error {
        heed::Error::Io(error) => error.into(),
        heed::Error::Mdb(MdbError::Other(number)) => std::io::Error::from_raw_os_error(number).into(),
        error => error.into(),
    }
}

impl Store for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    /// LMDB describes itself as "fully serializable", with "readers don't block writers". A read-only transaction sees the last
    /// commit before it began.
    fn reader(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(ReadOnlySession(SnapshotReads(self.snapshot()?))))
    }

    fn facts(&self) -> Result<Facts> {
        let version = heed::lmdb_version();
        let info = self.env.info();
        Ok(Facts::from([
            ("version".into(), format!("{}.{}.{}", version.major, version.minor, version.patch)),
            (
                "flags".into(),
                format!("{:?}", self.env.flags().map_err(from_lmdb)?.unwrap_or(EnvFlags::empty())),
            ),
            ("map_bytes".into(), info.map_size.to_string()),
            ("page_bytes".into(), self.env.unnamed_database_stat().page_size.to_string()),
        ]))
    }

    fn totals(&self) -> Result<(u64, u64)> {
        let snapshot = self.env.read_txn().map_err(from_lmdb)?;
        let mut totals = (0, 0);
        for entry in self.blobs.iter(&snapshot).map_err(from_lmdb)? {
            totals = (totals.0 + 1, totals.1 + entry.map_err(from_lmdb)?.1.len() as u64);
        }
        Ok(totals)
    }

    /// Copies free pages too, which is the default of LMDB's own tool.
    fn back_up(&self, to: &Path) -> Result<()> {
        let copy = self.env.copy_to_path(to.join("data.mdb"), CompactionOption::Disabled);
        copy.map(drop).map_err(from_lmdb)
    }

    fn compact_into(&self, to: &Path) -> Result<()> {
        let copy = self.env.copy_to_path(to.join("data.mdb"), CompactionOption::Enabled);
        copy.map(drop).map_err(from_lmdb)
    }

    fn close(self: Box<Self>) -> Result<()> {
        if self.durability != Durability::None {
            self.env.force_sync().map_err(from_lmdb)?;
        }
        // Waits, so that the next open in this process really opens.
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbReader<'a> {
    store: &'a Lmdb,
    snapshot: RoTxn<'a, WithTls>,
}

impl Snapshot for LmdbReader<'_> {
    fn lend(&self, key: &Key, sink: impl FnOnce(&[u8])) -> Result<bool> {
        let key = self.store.key_form.bytes(key);
        let Some(blob) = self.store.blobs.get(&self.snapshot, &key).map_err(from_lmdb)? else {
            return Ok(false);
        };
        sink(blob);
        Ok(true)
    }
}

impl Session for &Lmdb {
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
        if self.durability == Durability::OnSync {
            self.has_failed.check()?;
            self.noting(self.env.force_sync())?;
        }
        Ok(())
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        self.key_form.check_list()?;
        let snapshot = self.env.read_txn().map_err(from_lmdb)?;
        for entry in self.blobs.iter(&snapshot).map_err(from_lmdb)? {
            each(std::str::from_utf8(entry.map_err(from_lmdb)?.0).unwrap_or_default());
        }
        Ok(())
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(from_lmdb)?;
        for (key, blob) in blobs {
            LIMIT.check(blob)?;
            self.blobs.put(&mut transaction, &self.key_form.bytes(key), blob).map_err(from_lmdb)?;
        }
        self.noting(transaction.commit())
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        self.snapshot()?.lend_many(keys, sink)
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(from_lmdb)?;
        for key in keys {
            self.blobs.delete(&mut transaction, &self.key_form.bytes(key)).map_err(from_lmdb)?;
        }
        self.noting(transaction.commit())
    }
}
