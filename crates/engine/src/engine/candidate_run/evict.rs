//! Makes a store cold: closes it, evicts its files from the kernel's caches, and opens it again.

use anyhow::Result;

use super::CandidateRun;
use crate::host::machine;
use crate::result::CacheProof;
use crate::store::{Durability, Mode};

impl CandidateRun<'_> {
    /// Closes the store, evicts it from the kernel's caches and opens it again. If `first`, fills in the proof as well.
    pub(in crate::engine) fn evict(
        &mut self,
        class: Durability,
        first: bool,
        proof: &mut CacheProof,
    ) -> Result<()> {
        // What opening reads is the same in every round, and looking at it requires a second opening.
        let prove = first && self.slot.round == 1;
        self.close()?;
        machine::sync_filesystem(&self.dir)?;
        if self.run.drop_caches && machine::drop_caches() {
            proof.method = "drop_caches".to_owned();
        } else {
            machine::evict(&self.dir);
            proof.method = "fadvise".to_owned();
        }
        if prove {
            proof.resident_share = Some(self.resident_share());
            // Looking at the files brought inodes and dentries back.
            if self.run.drop_caches {
                machine::drop_caches();
            }
        }
        let begin = machine::uptime();
        self.open_as(class, Mode::Open)?;
        if first {
            proof.open_seconds = (machine::uptime() - begin).as_secs_f64();
        }
        if prove {
            if self.share_opened.is_none() {
                self.share_opened = Some(self.look_at_opening()?);
            }
            proof.resident_share_opened = self.share_opened;
        }
        Ok(())
    }

    /// Returns the share of the files that opening brought into the page cache. Evicts the store again, because looking has side
    /// effects.
    fn look_at_opening(&mut self) -> Result<f64> {
        let share = self.resident_share();
        let class = self.store()?.1;
        self.close()?;
        if self.run.drop_caches {
            machine::drop_caches();
        } else {
            machine::evict(&self.dir);
        }
        self.open_as(class, Mode::Open)?;
        Ok(share)
    }
}
