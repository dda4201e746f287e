//! Empty files in a directory as a store, so that the engine's own loop creates, looks up and deletes them.

use std::ffi::CString;
use std::fs::File;
use std::path::Path;

use anyhow::Context;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::store::{Error, Facts, Key, Result, Session, Sink, Span, Store};

/// A directory, with the names of its possible files.
#[derive(Debug)]
pub struct Names {
    dir: File,
    names: Vec<CString>,
}

impl Names {
    /// Returns a store of up to `files` files in an existing directory.
    pub fn new(dir: &Path, files: u64) -> anyhow::Result<Names> {
        let opened = File::open(dir).with_context(|| format!("cannot open `{}`", dir.display()))?;
        let names = (0..files).map(|id| CString::new(format!("{id:08}")));
        Ok(Names { dir: opened, names: names.collect::<std::result::Result<_, _>>()? })
    }
}

impl Store for Names {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(NamesSession(self)))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::new())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct NamesSession<'s>(&'s Names);

impl NamesSession<'_> {
    fn name(&self, key: &Key) -> &CString {
        &self.0.names[key.id as usize]
    }
}

impl Session for NamesSession<'_> {
    fn put(&mut self, key: &Key, _: &[u8]) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&self.0.dir, self.name(key), flags, Mode::RUSR | Mode::WUSR);
        made.map(drop).map_err(|error| Error::from(std::io::Error::from(error)))
    }

    fn get(&mut self, key: &Key, _: Span, _: Sink) -> Result<bool> {
        match rustix::fs::statat(&self.0.dir, self.name(key), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(std::io::Error::from(error).into()),
        }
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        let deleted = rustix::fs::unlinkat(&self.0.dir, self.name(key), AtFlags::empty());
        deleted.map_err(|error| Error::from(std::io::Error::from(error)))
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.0.dir.sync_all()?)
    }
}
