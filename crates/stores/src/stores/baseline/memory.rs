//! The memory store: a map inside the process. It shows the cost without a disk and without a process boundary.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::store::*;

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "memory",
    about: "a hash map inside the process: what no disk and no boundary would cost",
    kind: Kind::Baseline,
    programs: &[],
    options: &[],
    caps: |_| Capabilities {
        durability: &[Durability::None],
        persistent: false,
        // Lends the whole blob at once.
        streams: false,
        backup: Backup::None("a baseline: nobody keeps files in it"),
        ..Capabilities::ONE_BY_ONE
    },
    loss: |_, _| Losses::alike(Loss::All),
    integrity: |_, _| Integrity::NothingKept,
    traits: |_| Traits::default(),
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs::NOTHING,
    open: |_| Ok(Box::new(Memory { shards: (0..SHARDS).map(|_| RwLock::default()).collect() })),
};

/// Enough to make lock contention rare with 64 workers.
const SHARDS: usize = 64;

type Shard = RwLock<HashMap<[u8; 32], Vec<u8>>>;

struct Memory {
    shards: Vec<Shard>,
}

impl Memory {
    fn shard(&self, key: &Key) -> &Shard {
        &self.shards[key.id as usize % SHARDS]
    }
}

impl Store for Memory {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::from([("shards".into(), SHARDS.to_string())]))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Session for &Memory {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        let blob = blob.to_vec();
        self.shard(key).write().unwrap_or_else(PoisonError::into_inner).insert(key.hex, blob);
        Ok(())
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let shard = self.shard(key).read().unwrap_or_else(PoisonError::into_inner);
        let Some(blob) = shard.get(&key.hex) else { return Ok(false) };
        sink(span.slice_of(blob));
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.shard(key).write().unwrap_or_else(PoisonError::into_inner).remove(&key.hex);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        for shard in &self.shards {
            for hex in shard.read().unwrap_or_else(PoisonError::into_inner).keys() {
                each(std::str::from_utf8(hex).unwrap_or_default());
            }
        }
        Ok(())
    }
}
