//! A client's own store for the length of a candidate run, for stores that cannot be shared.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};

use super::super::ops::{PlannedOp, State};
use super::super::verify::verify;
use super::super::workers::pool::Job;
use super::message::Opening;
use super::stock_up;
use crate::corpus::Corpus;
use crate::host::cleanup_watchdog::CleanupWatchdog;
use crate::host::place::{Place, note_left, remove_tree};
use crate::store::{Common, Durability, Mode, Store};

pub(super) struct ClientStore {
    /// The directory of rank 0's store, which identifies the candidate run.
    visit: PathBuf,
    opening: Opening,
    corpus: Corpus,
    state: State,
    /// The open store and its durability class. Declared before `home`, so that it is closed before its directory is removed.
    open: Option<(Durability, Box<dyn Store>)>,
    home: StoreDirectory,
}

struct StoreDirectory {
    path: PathBuf,
    common: Common,
    /// Only on a host that does not see the directory of the run: a directory of this client's own, and the watchdog that removes
    /// it if this process cannot.
    place: Option<(Place, CleanupWatchdog)>,
}

impl StoreDirectory {
    /// Uses the directory of the run if it is visible here, because that is always removed in the end. Otherwise makes a
    /// directory of this client's own, with the same parent.
    fn make(visit: &Path, rank: usize) -> Result<StoreDirectory> {
        let run = visit.parent().context("a visit lies in no directory")?;
        let name = visit.file_name().context("a visit has no name")?.to_string_lossy();
        let (within, place) = if run.is_dir() {
            (run.to_owned(), None)
        } else {
            let place = Place::make(run.parent().context("a run lies in no directory")?)?;
            let watchdog = CleanupWatchdog::start(place.path())?;
            (place.path().to_owned(), Some((place, watchdog)))
        };
        let path = within.join(format!("{name}-client-{rank}"));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make `{}`", path.display()))?;
        let common = Common::new(path.join("common"));
        Ok(StoreDirectory { path, common, place })
    }
}

impl Drop for StoreDirectory {
    fn drop(&mut self) {
        note_left(remove_tree(&self.path));
        if let Some((place, watchdog)) = self.place.take() {
            // The watchdog must be dropped after the directory that it watches.
            drop(place);
            drop(watchdog);
        }
    }
}

impl ClientStore {
    /// Returns the store of this candidate run in the durability class asked for, and creates it if it does not exist yet.
    pub(super) fn get_or_create<'o>(
        known: &'o mut Option<ClientStore>,
        rank: usize,
        opening: &Opening,
        corpus: &Corpus,
    ) -> Result<&'o mut ClientStore> {
        if known.as_ref().is_some_and(|own| own.visit != opening.dir) {
            *known = None;
        }
        let own = match known {
            Some(own) => own,
            None => known.insert(ClientStore {
                visit: opening.dir.clone(),
                opening: opening.clone(),
                corpus: corpus.part(corpus.blobs()),
                state: State::empty(corpus),
                open: None,
                home: StoreDirectory::make(&opening.dir, rank)?,
            }),
        };
        own.opening = opening.clone();
        own.ensure()?;
        Ok(own)
    }

    fn ensure(&mut self) -> Result<()> {
        let class = self.opening.durability;
        match &self.open {
            None => self.open_as(Mode::Create),
            Some((open, _)) if *open == class || !self.opening.caps()?.persistent => Ok(()),
            Some(_) => self.reopen(),
        }
    }

    fn open_as(&mut self, mode: Mode) -> Result<()> {
        let store = self.opening.open(&self.home.path, &self.home.common, mode)?;
        self.open = Some((self.opening.durability, store));
        Ok(())
    }

    fn reopen(&mut self) -> Result<()> {
        if let Some((_, store)) = self.open.take() {
            store.close().context("closing the store failed")?;
        }
        self.open_as(Mode::Open)
    }

    pub(super) fn store(&self) -> Result<&dyn Store> {
        self.open.as_ref().map(|(_, store)| store.as_ref()).context("the store is not open")
    }

    /// Repeats what rank 0 did in its store outside of phases, and reads everything if rank 0's store is warm.
    pub(super) fn prepare(&mut self, changes: &[PlannedOp], is_warm: bool) -> Result<()> {
        stock_up(self.store()?, &self.corpus, changes)?;
        changes.iter().for_each(|op| self.state.apply(op));
        if is_warm { self.compare().map(drop) } else { Ok(()) }
    }

    pub(super) fn apply(&mut self, job: &Job) {
        job.ops().for_each(|op| self.state.apply(&op));
    }

    pub(super) fn settle(&self) -> Result<()> {
        Ok(self.store()?.settle()?)
    }

    fn compare(&self) -> Result<u64> {
        let caps = self.opening.caps()?;
        if !caps.contents {
            return Ok(0);
        }
        let never = AtomicBool::new(false);
        verify(self.store()?, caps.get_many, &self.corpus, self.corpus.sizes.len(), &self.state, &never)
    }

    /// Removes the store. If `compares`, reopens it first and compares every blob. Returns the number of compared blobs.
    pub(super) fn leave(mut self, compares: bool) -> Result<u64> {
        let mut verified = 0;
        if compares {
            if self.opening.caps()?.persistent {
                self.reopen()?;
            }
            verified = self.compare()?;
        }
        if let Some((_, store)) = self.open.take() {
            store.remove().context("removing the store failed")?;
        }
        Ok(verified)
    }
}
