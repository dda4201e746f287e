//! The null store: remembers lengths only and lends zeros. It measures the cost of the harness itself.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::store::*;
use crate::stores::common::reader::get_each;

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "null",
    about: "keeps lengths only and lends zeros: the cost of the harness itself",
    kind: Kind::Baseline,
    programs: &[],
    options: &[],
    caps: |_| Capabilities {
        durability: &[Durability::None],
        persistent: false,
        contents: false,
        streams: false,
        list: false,
        blob_bytes_max: Some(LIMIT),
        backup: Backup::None("a baseline: nobody keeps files in it"),
        clients: ClientSupport::Each,
        batch: true,
        get_many: true,
        ..Capabilities::ONE_BY_ONE
    },
    loss: |_, _| Losses::alike(Loss::All),
    integrity: |_, _| Integrity::NothingKept,
    traits: |_| Traits::default(),
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs::NOTHING,
    open,
};

/// Lengths up to the value that marks a missing blob, exclusive.
const LIMIT: Limit = Limit { bytes: ABSENT as u64 - 1, source: "lengths of four bytes" };

/// Marks a key without a blob.
const ABSENT: u32 = u32::MAX;

struct Null {
    /// Four bytes per blob: the less of the CPU caches it takes, the less it costs.
    lens: Vec<AtomicU32>,
    zeros: Vec<u8>,
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let lens = (0..setup.keys_max).map(|_| AtomicU32::new(ABSENT)).collect();
    // Large enough to lend any blob in one piece. Repeated reads of the same zeros come from the CPU cache, as intended: only the
    // harness is measured.
    let zeros = vec![0; setup.blob_bytes_max as usize];
    Ok(Box::new(Null { lens, zeros }))
}

impl Store for Null {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::new())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Null {
    fn slot(&self, key: &Key) -> Result<&AtomicU32> {
        self.lens.get(key.id as usize).ok_or(Error::Unsupported("a key beyond keys_max"))
    }
}

impl Session for &Null {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        LIMIT.check(blob)?;
        self.slot(key)?.store(blob.len() as u32, Ordering::Relaxed);
        Ok(())
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let blob_bytes = self.slot(key)?.load(Ordering::Relaxed);
        if blob_bytes == ABSENT {
            return Ok(false);
        }
        sink(&self.zeros[..span.len_in(u64::from(blob_bytes)) as usize]);
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.slot(key)?.store(ABSENT, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        blobs.iter().try_for_each(|(_, blob)| LIMIT.check(blob))?;
        blobs.iter().try_for_each(|(key, blob)| self.put(key, blob))
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        get_each(keys, sink, |key, sink| self.get(key, Span::Whole, sink))
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        keys.iter().try_for_each(|key| self.delete(key))
    }
}
