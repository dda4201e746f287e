//! Uploads with a catalogue: digest, catalogue lookup, entry, blob; and the same in reverse for removal.
//!
//! Without a transaction, the order of the steps makes a crash harmless: an entry counts only once its blob is stored, and is
//! removed before the blob is deleted. With one transaction the database guarantees it.

use sha2::{Digest, Sha256};

use super::{Catalogue, Key, Result, Session};

/// One worker's sessions for uploads.
pub struct UploadCatalog<'d, 's> {
    /// Session on the blobs.
    pub session: &'d mut (dyn Session + 's),
    /// Session on the catalogue, if that is in another database than the blobs.
    pub apart: Option<&'d mut (dyn Session + 's)>,
    /// True if entry and blob are written in one transaction.
    pub one_transaction: bool,
}

/// The key of a content: the first 128 bits of its SHA-256.
pub fn content_key(id: u64, content: &[u8]) -> Key {
    let digest = Sha256::digest(content);
    let first = digest.iter().take(16).fold(0, |digest: u128, byte| digest << 8 | u128::from(*byte));
    Key::of_digest(id, first)
}

impl std::fmt::Debug for UploadCatalog<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("one_transaction", &self.one_transaction).finish_non_exhaustive()
    }
}

impl UploadCatalog<'_, '_> {
    /// Returns the catalogue.
    pub fn catalogue(&mut self) -> Result<&mut dyn Catalogue> {
        match &mut self.apart {
            Some(apart) => apart.catalogue(),
            None => self.session.catalogue(),
        }
    }

    /// Runs `body`, as one transaction if `one_transaction` is set.
    fn whole<F: FnMut(&'static str)>(
        &mut self,
        done: &mut F,
        body: impl FnOnce(&mut Self, &mut F) -> Result<()>,
    ) -> Result<()> {
        if !self.one_transaction {
            return body(self, done);
        }
        self.catalogue()?.begin()?;
        done("begin");
        match body(self, done) {
            Ok(()) => {
                self.catalogue()?.commit()?;
                done("commit");
                Ok(())
            }
            Err(error) => {
                // The first error is the one to report.
                self.catalogue()?.rollback().ok();
                Err(error)
            }
        }
    }

    /// Stores a new content, or adds a reference to a known one. Calls `done` with the name of each step after it.
    pub fn upload(&mut self, id: u64, content: &[u8], mut done: impl FnMut(&'static str)) -> Result<()> {
        let key = content_key(id, content);
        done("digest");
        self.whole(&mut done, |catalog, done| {
            let found = catalog.catalogue()?.find(&key)?;
            done("find");
            if found {
                return Ok(());
            }
            catalog.catalogue()?.insert(&key, content.len() as u64)?;
            done("insert");
            if let Err(error) = catalog.session.put(&key, content) {
                if !catalog.one_transaction {
                    // Otherwise the content could not be uploaded until the catalogue is opened again.
                    catalog.catalogue()?.forget(&key).ok();
                }
                return Err(error);
            }
            done("put");
            catalog.catalogue()?.confirm(&key)?;
            done("confirm");
            Ok(())
        })
    }

    /// Removes a reference, and the blob with the last one. Calls `done` with the name of each step after it.
    pub fn withdraw(&mut self, key: &Key, mut done: impl FnMut(&'static str)) -> Result<()> {
        self.whole(&mut done, |catalog, done| {
            let last = catalog.catalogue()?.release(key)?;
            done("release");
            if !last {
                return Ok(());
            }
            catalog.session.delete(key)?;
            done("delete");
            catalog.catalogue()?.forget(key)?;
            done("forget");
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SHA-256 of the empty string, as given in FIPS 180-2.
    #[test]
    fn a_content_key_begins_as_its_sha_256() {
        assert_eq!(content_key(7, b"").as_str(), "e3b0c44298fc1c149afbf4c8996fb924");
    }
}
