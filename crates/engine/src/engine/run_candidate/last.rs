//! The final comparison of a candidate run, which reads from the device rather than from a cache.

use anyhow::{Context as _, Result};

use super::super::candidate_run::{CATALOGUE_DIR, CandidateRun};
use crate::host::machine;
use crate::plan::{Candidate, CatalogueOf, defaults};
use crate::result::VerifiedFrom;
use crate::rules::RESIDENT_SHARE_MAX;
use crate::store::Mode;

/// The only round in which private servers are restarted for the comparison, because some take seconds to start.
const ROUND_OF_SERVERS: u32 = 1;

impl CandidateRun<'_> {
    /// Compares every blob after the last phase. Evicts and reopens stores first, if they can be closed: a store that reads from
    /// its caches would pass whatever happened to its files.
    pub(super) fn verify_at_the_end(&mut self) -> Result<()> {
        if !self.caps().contents {
            return Ok(());
        }
        let from = match read_from_cache(self.subject.candidate, self.slot.round) {
            Some(from) => from,
            None => self.open_evicted().context("reopening it for the last comparison failed")?,
        };
        self.outcome.verified_from = Some(from);
        let outcome = self.verify();
        self.check_servers(outcome.is_err())?;
        outcome.map_err(|error| self.with_logs(error))
    }

    /// Closes the store and its catalog, evicts their files from the kernel's caches and opens them again. Other files stay
    /// cached for the candidates that follow.
    fn open_evicted(&mut self) -> Result<VerifiedFrom> {
        let class = self.store()?.1;
        self.close_catalogue()?;
        self.close()?;
        machine::sync_filesystem(&self.dir)?;
        machine::evict(&self.dir);
        let evicted = !self.run.in_memory && self.resident_share() <= RESIDENT_SHARE_MAX;
        self.open_as(class, Mode::Open)?;
        self.open_catalogue_again()?;
        Ok(if evicted { VerifiedFrom::Device } else { VerifiedFrom::KernelCache })
    }

    /// Closes a catalog that is in a separate store. A server is only closed in round [`ROUND_OF_SERVERS`].
    fn close_catalogue(&mut self) -> Result<()> {
        if self.catalog.is_none() {
            return Ok(());
        }
        if let CatalogueOf::Apart(adapter) = self.subject.candidate.catalogue()?
            && !adapter.programs.is_empty()
            && self.slot.round != ROUND_OF_SERVERS
        {
            return Ok(());
        }
        match self.catalog.as_mut().and_then(|catalog| catalog.apart.take()) {
            Some(apart) => apart.close().context("closing the catalogue failed"),
            None => Ok(()),
        }
    }

    fn open_catalogue_again(&mut self) -> Result<()> {
        if self.catalog.as_ref().is_none_or(|catalog| catalog.apart.is_some()) {
            return Ok(());
        }
        let (store, class) = self.store()?;
        let apart = match self.subject.candidate.catalogue()? {
            CatalogueOf::Own { .. } => {
                store.open_catalogue()?;
                None
            }
            CatalogueOf::Apart(adapter) => {
                let dir = self.dir.join(CATALOGUE_DIR);
                let apart = self.opened_in(&dir, adapter, &defaults(adapter), class, Mode::Open)?;
                apart.open_catalogue()?;
                Some(apart)
            }
        };
        if let Some(catalog) = &mut self.catalog {
            catalog.apart = apart;
        }
        Ok(())
    }
}

/// Returns what the final comparison reads from if the store is not closed for it; `None` if it is closed.
fn read_from_cache(candidate: &Candidate, round: u32) -> Option<VerifiedFrom> {
    let traits = candidate.traits();
    if traits.is_external {
        Some(VerifiedFrom::UsersServer)
    } else if traits.shares_server {
        Some(VerifiedFrom::SharedServer)
    } else if !candidate.can_be_cold() {
        Some(VerifiedFrom::NotKept)
    } else {
        (candidate.restarts() && round != ROUND_OF_SERVERS).then_some(VerifiedFrom::RunningServer)
    }
}
