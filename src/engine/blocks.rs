//! A file of blocks as a store, so that the one loop does and times its ops: block `id` of the file is the blob with that id.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use rand::TryRng;
use rustix::fs::{Mode, OFlags};

use crate::corpus::{Content, Corpus, Request, Sizes, Source};
use crate::host::machine::AlignedBuffer;
use crate::store::{Error, Facts, Key, Result, Session, Sink, Span, Store};

/// Bytes of a block: what Bonnie++ reads and writes at once, and a page of PostgreSQL.
pub const BLOCK_BYTES: usize = 8192;

/// Blocks of random bytes that a thread writes from, one after the other: more than any file system compresses as one piece.
const POOL_BLOCKS: usize = 128;

/// Blobs without bytes, so that there is a key for each of so many blocks or files: what is written comes from the stores.
pub fn numbered(count: u64) -> anyhow::Result<Corpus> {
    let source =
        Source::Synthetic { name: "blocks".to_owned(), sizes: Sizes::Fixed(0), content: Content::Random };
    Corpus::build(&Request { source, blobs_max: Some(count), bytes_max: None, grows: false, seed: 1 })
}

/// Where the bytes of blocks come from.
pub(super) struct Pool(AlignedBuffer);

impl Pool {
    pub(super) fn new() -> Result<Pool> {
        let mut bytes = AlignedBuffer::new(POOL_BLOCKS * BLOCK_BYTES);
        let random = rand::rngs::SysRng.try_fill_bytes(bytes.first(POOL_BLOCKS * BLOCK_BYTES));
        random.context("no random numbers").map_err(Error::failed)?;
        Ok(Pool(bytes))
    }

    /// The bytes of a block, which begin with its number.
    pub(super) fn block(&mut self, id: u64) -> &[u8] {
        let from = id as usize % POOL_BLOCKS * BLOCK_BYTES;
        let block = &mut self.0.first(POOL_BLOCKS * BLOCK_BYTES)[from..from + BLOCK_BYTES];
        block[..size_of::<u64>()].copy_from_slice(&id.to_le_bytes());
        block
    }
}

/// Refuses a block that is another one than was asked for.
pub(super) fn check(block: &[u8], id: u64) -> Result<()> {
    match block.starts_with(&id.to_le_bytes()) {
        true => Ok(()),
        false => Err(Error::failed(anyhow!("block {id} of the file has the bytes of another one"))),
    }
}

/// What a put does beside writing the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Nothing.
    Write,
    /// It reads the block before, and writes what it read, changed.
    Rewrite,
    /// It flushes the file after.
    Flush,
}

/// A file of blocks. Each begins with its own number, by which a read finds out that it got what it asked for.
#[derive(Debug)]
pub struct Blocks {
    /// The file, which is there.
    pub path: PathBuf,
    /// What a put does.
    pub put: Put,
    /// Whether it goes past the page cache.
    pub is_direct: bool,
    /// Where its blocks lie.
    pub lie: Lie,
}

/// Where blocks lie in what is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// One behind the other in a file of ours.
    InFile,
    /// On a device that is not ours, which is only read: so many blocks from its beginning, and each so many behind the one before.
    OnDevice {
        /// The first one.
        first: u64,
        /// From one to the next.
        step: u64,
    },
}

impl Blocks {
    fn open(&self) -> std::io::Result<File> {
        let direct = if self.is_direct { OFlags::DIRECT } else { OFlags::empty() };
        let access = if self.lie == Lie::InFile { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = access | OFlags::CLOEXEC | direct;
        Ok(rustix::fs::open(&self.path, flags, Mode::empty())?.into())
    }

    /// Whether the file system takes direct I/O of the file's first block.
    pub fn takes_direct(path: PathBuf) -> bool {
        let file = Blocks { path, put: Put::Write, is_direct: true, lie: Lie::InFile }.open();
        let mut buffer = AlignedBuffer::new(BLOCK_BYTES);
        file.is_ok_and(|file| buffer.read_from(&file, 0).is_ok())
    }
}

impl Store for Blocks {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let file = self.open().with_context(|| format!("cannot open `{}`", self.path.display()));
        Ok(Box::new(Hand {
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

/// One thread's open file.
struct Hand {
    file: File,
    pool: Pool,
    buffer: AlignedBuffer,
    put: Put,
    lie: Lie,
}

impl Hand {
    /// Reads a block. Of a file it must be the one that was asked for; what a device holds is not known.
    fn read(&mut self, id: u64) -> Result<&mut [u8]> {
        let block = self.buffer.first(BLOCK_BYTES);
        if let Lie::OnDevice { first, step } = self.lie {
            self.file.read_exact_at(block, (first + id * step) * BLOCK_BYTES as u64)?;
            return Ok(block);
        }
        self.file.read_exact_at(block, id * BLOCK_BYTES as u64)?;
        check(block, id)?;
        Ok(block)
    }
}

impl Session for Hand {
    fn put(&mut self, key: &Key, _: &[u8]) -> Result<()> {
        if self.lie != Lie::InFile {
            return Err(Error::Unsupported("writing to a device"));
        }
        let place = key.id * BLOCK_BYTES as u64;
        if self.put == Put::Rewrite {
            let block = self.read(key.id)?;
            block[BLOCK_BYTES - 1] = block[BLOCK_BYTES - 1].wrapping_add(1);
            self.file.write_all_at(self.buffer.first(BLOCK_BYTES), place)?;
            return Ok(());
        }
        self.file.write_all_at(self.pool.block(key.id), place)?;
        if self.put == Put::Flush {
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
        (dir, Blocks { path, put: Put::Write, is_direct: false, lie: Lie::InFile })
    }

    #[test]
    fn a_block_is_read_back_changed_and_found_again() {
        let (_dir, mut blocks) = file();
        let count = 2 * POOL_BLOCKS as u64;
        let mut hand = blocks.session().unwrap();
        (0..count).for_each(|id| hand.put(&key(id), &[]).unwrap());
        drop(hand);
        blocks.put = Put::Rewrite;
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

    /// The liar: a file that hands out one block for another.
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
        blocks.lie = Lie::OnDevice { first: 1, step: 3 };
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
