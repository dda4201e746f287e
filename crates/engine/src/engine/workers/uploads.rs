//! Uploads as the engine does them: times each step, and verifies the catalog and the blobs.

use anyhow::bail;

use super::super::ops::State;
use super::clock::Clock;
use super::tally::Tally;
use crate::corpus::Contents;
use crate::store::{Key, Span, UploadCatalog};

/// Times the steps of an op, each from the end of the previous one.
pub struct StepTimer<'t, C> {
    clock: &'t C,
    last: u64,
    tally: &'t mut Tally,
}

impl<'t, C: Clock> StepTimer<'t, C> {
    /// Starts the first step.
    pub fn begin(clock: &'t C, tally: &'t mut Tally) -> StepTimer<'t, C> {
        StepTimer { clock, last: clock.now(), tally }
    }

    /// Ends a step and starts the next one.
    pub fn done(&mut self, step: &'static str) {
        let now = self.clock.now();
        self.tally.step(step, now - self.last);
        self.last = now;
    }
}

/// Verifies the catalog and the uploaded blobs: every content that has references must be catalogued with their number and stored
/// completely; any other content must be in neither.
pub fn verify(
    catalog: &mut UploadCatalog,
    keys: &[Key],
    contents: &Contents,
    state: &State,
) -> anyhow::Result<()> {
    let mut room = Vec::new();
    for (id, key) in keys.iter().enumerate().filter(|(id, _)| !state.is_copy[*id]) {
        let wanted = u64::from(state.references[id]);
        let references = catalog.catalogue()?.references(key)?;
        if references != wanted {
            bail!("the catalogue has {references} references to upload {} instead of {wanted}", key.as_str());
        }
        let content = contents.blob(id as u64, 0, u64::from(state.uploaded_len[id]), &mut room);
        let (mut at, mut same) = (0, true);
        let found = catalog.session.get(key, Span::Whole, &mut |piece| {
            same &= content.get(at..at + piece.len()) == Some(piece);
            at += piece.len();
        })?;
        match (wanted > 0, found) {
            (true, false) => bail!("upload {} is catalogued, but its blob is missing", key.as_str()),
            (false, true) => bail!("upload {} is not catalogued, but its blob is there", key.as_str()),
            (true, true) if !same || at != content.len() => {
                bail!("the blob of upload {} has other bytes than were uploaded", key.as_str())
            }
            _ => {}
        }
    }
    Ok(())
}
