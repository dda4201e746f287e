//! A store of your own: blobwise with sled, which its table does not have.
//!
//! `cargo run --release --example own_store -- check-store sled`, then `... -- run --stores files/hashed,sled`.

use std::process::ExitCode;
use std::time::Duration;

use blobwise::store::{
    Adapter, Backup, CacheRecommendation, Capabilities, Durability, Error, Facts, Inodes, Integrity, Key,
    Kind, Loss, Losses, Needs, OwnCache, Result, Session, Setup, Sink, Span, Store, Traits,
};

/// What the store can do and what it promises.
pub static SLED: Adapter = Adapter {
    name: "sled",
    about: "sled: a log-structured tree with a cache of its own",
    kind: Kind::Embedded,
    programs: &[],
    options: &[],
    caps: |_| Capabilities {
        // On Linux sled flushes by sync_file_range(2), which leaves the cache of the disk as it is.
        durability: &[Durability::None],
        // It hands out whole values only.
        range: false,
        streams: false,
        // A large value is a file of its own.
        inodes: Inodes { each_blob: 1, ..Inodes::FEW },
        backup: Backup::None("sled has no call for a backup"),
        ..Capabilities::ONE_BY_ONE
    },
    loss: |_, _| Losses { after_kill: Loss::RecentWrites, after_power_cut: Loss::StoreUnusable },
    integrity: |_, _| Integrity::Checksums,
    traits: |_| Traits::default(),
    memory: |_| CacheRecommendation {
        own: OwnCache::Bytes(1 << 30),
        words: "maximum size in bytes for the system page cache; 1 GiB unless it is set",
        link: "https://docs.rs/sled/0.34.7/sled/struct.Config.html",
    },
    needs: Needs::NOTHING,
    open,
};

struct Sled {
    database: sled::Db,
    cache_bytes: u64,
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let config = sled::Config::default()
        .path(setup.dir)
        .cache_capacity(setup.cache_bytes)
        // No thread that flushes every half second: the class decides when to flush.
        .flush_every_ms(None);
    let mut pauses = 0..200;
    let database = loop {
        match config.open() {
            // A thread of sled may hold the lock of a closed store for a moment.
            Err(sled::Error::Io(_)) if pauses.next().is_some() => {
                std::thread::sleep(Duration::from_millis(10))
            }
            opened => break opened.map_err(Error::failed)?,
        }
    };
    Ok(Box::new(Sled { database, cache_bytes: setup.cache_bytes }))
}

impl Store for Sled {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(SledSession(self)))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::from([("cache_bytes".into(), self.cache_bytes.to_string())]))
    }

    fn settle(&self) -> Result<()> {
        self.database.flush().map(drop).map_err(Error::failed)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.flush().map(drop).map_err(Error::failed)
    }
}

struct SledSession<'a>(&'a Sled);

impl Session for SledSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.0.database.insert(key.hex, blob).map(drop).map_err(Error::failed)
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        span.check_whole()?;
        let Some(blob) = self.0.database.get(key.hex).map_err(Error::failed)? else { return Ok(false) };
        sink(&blob);
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.0.database.remove(key.hex).map(drop).map_err(Error::failed)
    }

    fn sync(&mut self) -> Result<()> {
        self.0.database.flush().map(drop).map_err(Error::failed)
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        for key in self.0.database.iter().keys() {
            each(std::str::from_utf8(&key.map_err(Error::failed)?).map_err(Error::failed)?);
        }
        Ok(())
    }
}

fn main() -> anyhow::Result<ExitCode> {
    blobwise::register(&SLED)?;
    Ok(blobwise::main())
}
