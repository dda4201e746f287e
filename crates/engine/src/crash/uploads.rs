//! Registered uploads with the same load: a put uploads a content through the catalogue and withdraws the earlier one, and a
//! delete withdraws it. A blob reads as the content that was catalogued last.

use anyhow::Result;

use super::load::Digests;
use crate::store::{Catalogue, Facts, Key, Session, Sink, Span, Store, UploadCatalog, content_key};

/// A content is catalogued, but its blob is missing or a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is catalogued, and its blob is missing")]
pub(super) struct DanglingEntry;

pub(super) struct CataloguedStore {
    pub(super) blobs: Box<dyn Store>,
    /// Separate store of the catalogue; `None` if the blobs' store has it.
    pub(super) catalogue: Option<Box<dyn Store>>,
    pub(super) one_transaction: bool,
    pub(super) digests: Digests,
}

impl CataloguedStore {
    pub(super) fn opened(self) -> Result<Box<dyn Store>> {
        self.catalogue.as_ref().unwrap_or(&self.blobs).open_catalogue()?;
        Ok(Box::new(self))
    }
}

impl Store for CataloguedStore {
    fn session(&self) -> crate::store::Result<Box<dyn Session + '_>> {
        let apart = self.catalogue.as_ref().map(|catalogue| catalogue.session()).transpose()?;
        Ok(Box::new(UploadSessions { of: self, session: self.blobs.session()?, apart }))
    }

    fn facts(&self) -> crate::store::Result<Facts> {
        self.blobs.facts()
    }

    fn close(self: Box<Self>) -> crate::store::Result<()> {
        let CataloguedStore { blobs, catalogue, .. } = *self;
        let closed = blobs.close();
        // Both are closed even if the first fails.
        catalogue.map_or(Ok(()), |catalogue| catalogue.close()).and(closed)
    }
}

struct UploadSessions<'s> {
    of: &'s CataloguedStore,
    session: Box<dyn Session + 's>,
    apart: Option<Box<dyn Session + 's>>,
}

impl<'s> UploadSessions<'s> {
    fn catalog(&mut self) -> UploadCatalog<'_, 's> {
        UploadCatalog {
            session: self.session.as_mut(),
            apart: self.apart.as_deref_mut(),
            one_transaction: self.of.one_transaction,
        }
    }

    /// Catalogued contents of a blob, the load's latest first. Includes uploads of earlier sessions.
    fn catalogued(&mut self, key: &Key) -> crate::store::Result<Vec<Key>> {
        let of = self.of;
        let mut catalog = self.catalog();
        let catalogue: &mut dyn Catalogue = catalog.catalogue()?;
        let mut found = Vec::new();
        for digest in of.digests.get(&key.id).into_iter().flatten() {
            if catalogue.references(digest)? > 0 {
                found.push(*digest);
            }
        }
        Ok(found)
    }

    fn withdraw(&mut self, key: &Key, but: Option<&Key>) -> crate::store::Result<()> {
        let catalogued = self.catalogued(key)?;
        let mut gone = catalogued.iter().filter(|digest| Some(*digest) != but);
        gone.try_for_each(|digest| self.catalog().withdraw(digest, |_| ()))
    }
}

impl Session for UploadSessions<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> crate::store::Result<()> {
        self.catalog().upload(key.id, blob, |_| ())?;
        self.withdraw(key, Some(&content_key(key.id, blob)))
    }

    /// Every catalogued content must have its blob, not only the one that is returned.
    fn get(&mut self, key: &Key, _: Span, sink: Sink) -> crate::store::Result<bool> {
        let catalogued = self.catalogued(key)?;
        for (index, digest) in catalogued.iter().enumerate() {
            let mut bytes = Vec::new();
            let found = self.session.get(digest, Span::Whole, &mut |piece| bytes.extend_from_slice(piece))?;
            match index {
                0 if found => sink(&bytes),
                _ if found && content_key(key.id, &bytes) == *digest => {}
                _ => return Err(anyhow::Error::from(DanglingEntry).into()),
            }
        }
        Ok(!catalogued.is_empty())
    }

    fn delete(&mut self, key: &Key) -> crate::store::Result<()> {
        self.withdraw(key, None)
    }

    fn sync(&mut self) -> crate::store::Result<()> {
        // Blobs before the entries that refer to them.
        self.session.sync()?;
        self.apart.as_mut().map_or(Ok(()), |apart| apart.sync())
    }
}
