//! Registered uploads: the digest of the content, a look into the catalogue, an entry, then the blob; and the way back.
//!
//! In steps, the order is what keeps a crash harmless: an entry counts only after its blob was stored, and is taken out before
//! the blob is deleted. In one transaction the database sees to it.

use anyhow::bail;
use sha2::{Digest, Sha256};

use super::super::ops::State;
use super::clock::Clock;
use super::tally::Tally;
use crate::corpus::Contents;
use crate::store::{Catalogue, Key, Result, Session, Span};

/// One worker's handles for uploads.
pub struct Desk<'d, 's> {
    /// On the blobs.
    pub session: &'d mut (dyn Session + 's),
    /// On the catalogue, where it is in another database than the blobs.
    pub apart: Option<&'d mut (dyn Session + 's)>,
    /// Whether entry and blob are one transaction.
    pub one_transaction: bool,
}

/// Times the steps of an op, each from the end of the one before.
pub struct Steps<'t, C> {
    clock: &'t C,
    last: u64,
    tally: &'t mut Tally,
}

impl<'t, C: Clock> Steps<'t, C> {
    /// The first step begins now.
    pub fn begin(clock: &'t C, tally: &'t mut Tally) -> Steps<'t, C> {
        Steps { clock, last: clock.now(), tally }
    }

    fn done(&mut self, step: &'static str) {
        let now = self.clock.now();
        self.tally.step(step, now - self.last);
        self.last = now;
    }
}

/// The key under which a content is stored: the first 128 bits of its SHA-256.
pub fn content_key(id: u64, content: &[u8]) -> Key {
    let digest = Sha256::digest(content);
    let first = digest.iter().take(16).fold(0, |digest: u128, byte| digest << 8 | u128::from(*byte));
    Key::of_digest(id, first)
}

impl Desk<'_, '_> {
    fn catalogue(&mut self) -> Result<&mut dyn Catalogue> {
        match &mut self.apart {
            Some(apart) => apart.catalogue(),
            None => self.session.catalogue(),
        }
    }

    /// Runs `body` as one transaction where that is asked for.
    fn whole<C: Clock, T>(
        &mut self,
        steps: &mut Steps<'_, C>,
        body: impl FnOnce(&mut Self, &mut Steps<'_, C>) -> Result<T>,
    ) -> Result<T> {
        if !self.one_transaction {
            return body(self, steps);
        }
        self.catalogue()?.begin()?;
        steps.done("begin");
        match body(self, steps) {
            Ok(value) => {
                self.catalogue()?.commit()?;
                steps.done("commit");
                Ok(value)
            }
            Err(error) => {
                // The first error is the one to report.
                self.catalogue()?.rollback().ok();
                Err(error)
            }
        }
    }

    /// Stores a content that nobody has uploaded before, or adds a reference to it.
    pub fn upload<C: Clock>(&mut self, id: u64, content: &[u8], mut steps: Steps<'_, C>) -> Result<()> {
        let key = content_key(id, content);
        steps.done("digest");
        self.whole(&mut steps, |desk, steps| {
            let found = desk.catalogue()?.find(&key)?;
            steps.done("find");
            if found {
                return Ok(());
            }
            desk.catalogue()?.insert(&key, content.len() as u64)?;
            steps.done("insert");
            if let Err(error) = desk.session.put(&key, content) {
                if !desk.one_transaction {
                    // Or nobody could upload it until the catalogue is opened again.
                    desk.catalogue()?.forget(&key).ok();
                }
                return Err(error);
            }
            steps.done("put");
            desk.catalogue()?.confirm(&key)?;
            steps.done("confirm");
            Ok(())
        })
    }

    /// Takes a reference away, and with the last one the blob.
    pub fn withdraw<C: Clock>(&mut self, key: &Key, mut steps: Steps<'_, C>) -> Result<()> {
        self.whole(&mut steps, |desk, steps| {
            let last = desk.catalogue()?.release(key)?;
            steps.done("release");
            if !last {
                return Ok(());
            }
            desk.session.delete(key)?;
            steps.done("delete");
            desk.catalogue()?.forget(key)?;
            steps.done("forget");
            Ok(())
        })
    }
}

/// Compares the catalogue and the blobs with what they must be: every content that is referred to is catalogued with its
/// references and stored whole, every other one is neither.
pub fn verify(desk: &mut Desk, keys: &[Key], contents: &Contents, state: &State) -> anyhow::Result<()> {
    let mut room = Vec::new();
    for (id, key) in keys.iter().enumerate().filter(|(id, _)| !state.is_copy[*id]) {
        let wanted = u64::from(state.references[id]);
        let references = desk.catalogue()?.references(key)?;
        if references != wanted {
            bail!("the catalogue has {references} references to upload {} instead of {wanted}", key.as_str());
        }
        let content = contents.blob(id as u64, 0, state.uploaded_len[id], &mut room);
        let (mut at, mut same) = (0, true);
        let found = desk.session.get(key, Span::Whole, &mut |piece| {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of nothing as FIPS 180-2 has it.
    #[test]
    fn a_content_key_begins_as_its_sha_256() {
        assert_eq!(content_key(7, b"").as_str(), "e3b0c44298fc1c149afbf4c8996fb924");
    }
}
