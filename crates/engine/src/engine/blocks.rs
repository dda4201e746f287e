//! A file of fixed-size blocks as a store, so that the engine's own loop does and times its ops. Block `id` holds the blob `id`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use rand::TryRng;
use rustix::fs::{Mode, OFlags};

use crate::corpus::{Corpus, Sizes};
use crate::host::machine::AlignedBuffer;
use crate::store::{Error, Facts, Key, Result, Session, Sink, Span, Store};

/// Bytes of a block: the unit of Bonnie++'s I/O, and the page size of PostgreSQL.
pub const BLOCK_BYTES: usize = 8192;

/// Random blocks that each session writes in rotation. Their 1 MiB is more than any file system compresses as one piece.
const POOL_BLOCKS: usize = 128;

/// Returns a corpus of `count` empty blobs, which gives each block or file a key. The stores themselves supply the bytes to
/// write.
pub fn numbered(count: u64) -> anyhow::Result<Corpus> {
    Corpus::random("blocks", Sizes::Fixed(0), count, 1)
}

/// Source of the bytes that are written.
pub(super) struct Pool(AlignedBuffer);

impl Pool {
    pub(super) fn new() -> Result<Pool> {
        let mut bytes = AlignedBuffer::new(POOL_BLOCKS * BLOCK_BYTES);
        let random = rand::rngs::SysRng.try_fill_bytes(bytes.first(POOL_BLOCKS * BLOCK_BYTES));
        random.context("no random numbers").map_err(Error::failed)?;
        Ok(Pool(bytes))
    }

    /// Returns the bytes of block `id`, which begin with its number.
    pub(super) fn block(&mut self, id: u64) -> &[u8] {
        let from = id as usize % POOL_BLOCKS * BLOCK_BYTES;
        let block = &mut self.0.first(POOL_BLOCKS * BLOCK_BYTES)[from..from + BLOCK_BYTES];
        block[..size_of::<u64>()].copy_from_slice(&id.to_le_bytes());
        block
    }
}

/// Fails if `block` does not begin with the number `id`, so that another block was read in its place.
pub(super) fn check(block: &[u8], id: u64) -> Result<()> {
    match block.starts_with(&id.to_le_bytes()) {
        true => Ok(()),
        false => Err(Error::failed(anyhow!("block {id} of the file has the bytes of another one"))),
    }
}

/// What a put does besides writing the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutMode {
    /// Writes the block and does nothing else.
    Write,
    /// Reads the block first, changes one byte and writes it back.
    Rewrite,
    /// Flushes the file after writing the block.
    Flush,
}

/// A file of blocks. Each block begins with its own number, so that a read can check that it got the block it asked for.
#[derive(Debug)]
pub struct Blocks {
    /// Path of the file, which must exist.
    pub path: PathBuf,
    /// What a put does besides writing the block.
    pub put: PutMode,
    /// True for direct I/O, which bypasses the page cache.
    pub is_direct: bool,
    /// Layout of the blocks.
    pub lie: BlockLayout,
}

/// Layout of the blocks that are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockLayout {
    /// Contiguous blocks in a file that blobwise made.
    InFile,
    /// A read-only layout on a device that blobwise does not own: one block at every `step`, counted in blocks.
    OnDevice {
        /// Position of block 0, in blocks from the start of the device.
        first: u64,
        /// Distance between two blocks, in blocks.
        step: u64,
    },
}

impl Blocks {
    fn open(&self) -> std::io::Result<File> {
        let direct = if self.is_direct { OFlags::DIRECT } else { OFlags::empty() };
        let access = if self.lie == BlockLayout::InFile { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = access | OFlags::CLOEXEC | direct;
        Ok(rustix::fs::open(&self.path, flags, Mode::empty())?.into())
    }

    /// True if the file system can read the file's first block with direct I/O.
    pub fn takes_direct(path: PathBuf) -> bool {
        let file = Blocks { path, put: PutMode::Write, is_direct: true, lie: BlockLayout::InFile }.open();
        let mut buffer = AlignedBuffer::new(BLOCK_BYTES);
        file.is_ok_and(|file| buffer.read_from(&file, 0).is_ok())
    }
}

impl Store for Blocks {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let file = self.open().with_context(|| format!("cannot open `{}`", self.path.display()));
        Ok(Box::new(BlocksSession {
            file: file.map_err(Error::failed)?,
            pool: Pool::new()?,
            buffer: AlignedBuffer::new(BLOCK_BYTES),
            put: self.put,
            lie: self.lie,
        }))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::new())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A session: one thread's open file.
struct BlocksSession {
    file: File,
    pool: Pool,
    buffer: AlignedBuffer,
    put: PutMode,
    lie: BlockLayout,
}

impl BlocksSession {
    /// Reads a block. In a file its number is checked; the contents of a device are unknown.
    fn read(&mut self, id: u64) -> Result<&mut [u8]> {
        let block = self.buffer.first(BLOCK_BYTES);
        if let BlockLayout::OnDevice { first, step } = self.lie {
            self.file.read_exact_at(block, (first + id * step) * BLOCK_BYTES as u64)?;
            return Ok(block);
        }
        self.file.read_exact_at(block, id * BLOCK_BYTES as u64)?;
        check(block, id)?;
        Ok(block)
    }
}

impl Session for BlocksSession {
    fn put(&mut self, key: &Key, _: &[u8]) -> Result<()> {
        if self.lie != BlockLayout::InFile {
            return Err(Error::Unsupported("writing to a device"));
        }
        let place = key.id * BLOCK_BYTES as u64;
        if self.put == PutMode::Rewrite {
            let block = self.read(key.id)?;
            block[BLOCK_BYTES - 1] = block[BLOCK_BYTES - 1].wrapping_add(1);
            self.file.write_all_at(self.buffer.first(BLOCK_BYTES), place)?;
            return Ok(());
        }
        self.file.write_all_at(self.pool.block(key.id), place)?;
        if self.put == PutMode::Flush {
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn get(&mut self, key: &Key, _: Span, sink: Sink) -> Result<bool> {
        sink(self.read(key.id)?);
        Ok(true)
    }

    fn delete(&mut self, _: &Key) -> Result<()> {
        Err(Error::Unsupported("deleting a block"))
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.file.sync_data()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u64) -> Key {
        Key { id, hex: [b'0'; 32] }
    }

    fn file() -> (tempfile::TempDir, Blocks) {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "").unwrap();
        (dir, Blocks { path, put: PutMode::Write, is_direct: false, lie: BlockLayout::InFile })
    }

    #[test]
    fn a_block_is_read_back_changed_and_found_again() {
        let (_dir, mut blocks) = file();
        let count = 2 * POOL_BLOCKS as u64;
        let mut hand = blocks.session().unwrap();
        (0..count).for_each(|id| hand.put(&key(id), &[]).unwrap());
        drop(hand);
        blocks.put = PutMode::Rewrite;
        let before = std::fs::read(&blocks.path).unwrap();
        let mut hand = blocks.session().unwrap();
        (0..count).for_each(|id| hand.put(&key(id), &[]).unwrap());
        let mut bytes = 0;
        assert!(hand.get(&key(count - 1), Span::Whole, &mut |piece| bytes += piece.len()).unwrap());
        let after = std::fs::read(&blocks.path).unwrap();
        let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert_eq!(
            (bytes, after.len(), changed),
            (BLOCK_BYTES, count as usize * BLOCK_BYTES, count as usize)
        );
    }

    /// A misplaced block, as a faulty file system might return it.
    #[test]
    fn a_block_in_the_place_of_another_is_an_error() {
        let (_dir, blocks) = file();
        let mut hand = blocks.session().unwrap();
        hand.put(&key(0), &[]).unwrap();
        let first = std::fs::read(&blocks.path).unwrap();
        std::fs::write(&blocks.path, [first.clone(), first].concat()).unwrap();
        assert!(hand.get(&key(0), Span::Whole, &mut |_| {}).unwrap());
        assert!(hand.get(&key(1), Span::Whole, &mut |_| {}).is_err());
        assert!(hand.get(&key(2), Span::Whole, &mut |_| {}).is_err(), "the file has no such block");
    }

    #[test]
    fn what_is_not_ours_is_read_at_its_places_and_never_written() {
        let (_dir, mut blocks) = file();
        let written: Vec<u8> = (0..8_u8).flat_map(|block| [block; BLOCK_BYTES]).collect();
        std::fs::write(&blocks.path, &written).unwrap();
        blocks.lie = BlockLayout::OnDevice { first: 1, step: 3 };
        let mut hand = blocks.session().unwrap();
        let mut found = Vec::new();
        for id in 0..3 {
            hand.get(&key(id), Span::Whole, &mut |piece| found.push((piece.len(), piece[0]))).unwrap();
        }
        assert_eq!(found, [(BLOCK_BYTES, 1), (BLOCK_BYTES, 4), (BLOCK_BYTES, 7)]);
        assert!(hand.put(&key(0), &[]).is_err());
        assert_eq!(std::fs::read(&blocks.path).unwrap(), written);
    }
}
