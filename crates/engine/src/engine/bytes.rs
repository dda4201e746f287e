//! A file that is read and written byte by byte through a C library stream, as a store. Each op handles the next block.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::anyhow;

use super::blocks::{BLOCK_BYTES, Pool, check};
use crate::host::stdio::StdioStream;
use crate::store::{Error, Facts, Key, Result, Session, Sink, Span, Store};

/// An existing file. Its blocks can only be written and read in order, from the first one on.
#[derive(Debug)]
pub struct Bytes {
    /// Path of the file.
    pub path: PathBuf,
}

impl Store for Bytes {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let path = CString::new(self.path.as_os_str().as_bytes()).map_err(Error::failed)?;
        let stream = StdioStream::open_to_write(&path)?;
        let stream = stream.ok_or_else(|| Error::failed(anyhow!("there is no `{}`", self.path.display())))?;
        Ok(Box::new(BytesSession { stream, pool: Pool::new()?, block: vec![0; BLOCK_BYTES] }))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::new())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct BytesSession {
    stream: StdioStream,
    pool: Pool,
    block: Vec<u8>,
}

impl Session for BytesSession {
    fn put(&mut self, key: &Key, _: &[u8]) -> Result<()> {
        Ok(self.stream.put_each(self.pool.block(key.id))?)
    }

    fn get(&mut self, key: &Key, _: Span, sink: Sink) -> Result<bool> {
        self.stream.get_each(&mut self.block)?;
        check(&self.block, key.id)?;
        sink(&self.block);
        Ok(true)
    }

    fn delete(&mut self, _: &Key) -> Result<()> {
        Err(Error::Unsupported("deleting a block"))
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.stream.sync()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::blocks::{BlockLayout, Blocks, PutMode};

    fn key(id: u64) -> Key {
        Key { id, hex: [b'0'; 32] }
    }

    #[test]
    fn what_is_written_byte_by_byte_is_the_same_file_and_read_in_its_order_only() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("file");
        let bytes = Bytes { path: path.clone() };
        assert!(bytes.session().is_err(), "there is no file");
        std::fs::write(&path, "").unwrap();
        let mut hand = bytes.session().unwrap();
        (0..3).for_each(|id| hand.put(&key(id), &[]).unwrap());
        hand.sync().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 3 * BLOCK_BYTES as u64);
        let blocks = Blocks { path, put: PutMode::Write, is_direct: false, lie: BlockLayout::InFile };
        assert!(blocks.session().unwrap().get(&key(2), Span::Whole, &mut |_| {}).unwrap());
        let mut hand = bytes.session().unwrap();
        let mut read = 0;
        assert!(hand.get(&key(0), Span::Whole, &mut |piece| read += piece.len()).unwrap());
        assert_eq!(read, BLOCK_BYTES);
        assert!(hand.get(&key(2), Span::Whole, &mut |_| {}).is_err(), "the next one is 1");
    }
}
