//! Copies of the images below a disk, with the digest of every byte.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, Mode, OFlags};
use sha2::{Digest, Sha256};

use crate::host::machine::{self, AlignedBuffer};

/// Bytes read at once.
pub(super) const PIECE: usize = 4 << 20;
/// Bytes of a block, which has a hash and which a copy holds or leaves to its base.
const BLOCK: usize = 64 << 10;

/// Creates a file without a name (`O_TMPFILE`) that only its owner may read. It is gone with the last process that has it open.
pub(super) fn unnamed(dir: &Path) -> Result<File> {
    let open = |more: OFlags| {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | more;
        rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR)
    };
    // Bypasses the page cache where possible, which has better uses.
    let file = open(OFlags::DIRECT).or_else(|_refused| open(OFlags::empty()));
    Ok(File::from(file.with_context(|| format!("no file without a name in `{}`", dir.display()))?))
}

/// SHA-256 of a block.
type BlockHash = [u8; 32];

/// A copy of all images of a disk at a moment, in files without names. One that is based on another copy holds only the blocks that
/// differ from it.
#[derive(Debug)]
pub struct ImageCopy {
    files: Vec<FileCopy>,
}

impl ImageCopy {
    /// Copies images into `dir`; `base` is a whole copy of the same images.
    pub(super) fn take(images: &[File], base: Option<&ImageCopy>, dir: &Path) -> Result<ImageCopy> {
        let take = |(index, image): (usize, &File)| {
            let base = base.and_then(|base| base.files.get(index));
            FileCopy::take(image, base, dir).context("an image cannot be copied")
        };
        Ok(ImageCopy { files: images.iter().enumerate().map(take).collect::<Result<_>>()? })
    }

    /// Gives images the contents that they had when this copy was taken, in place. Fails if one has other contents then, by the
    /// hashes of all blocks. `base` is the copy that this one is based on, or this one itself.
    pub(super) fn put(&self, base: &ImageCopy, images: &[File]) -> Result<()> {
        for ((copy, base), image) in self.files.iter().zip(&base.files).zip(images) {
            let is_equal = copy.put(base, image).context("an image cannot be written")?;
            ensure!(
                is_equal,
                "the image differs from the one that was kept: a disk below changed what was written"
            );
        }
        Ok(())
    }

    /// Seconds for which the images were read and hashed when this copy was taken, which takes as long whenever one is put back.
    pub(super) fn read_seconds(&self) -> f64 {
        self.files.iter().map(|file| file.read_time.as_secs_f64()).sum()
    }

    /// SHA-256 of the SHA-256 of every block (64 KiB) of all images, in their order.
    pub fn sha256(&self) -> Vec<u8> {
        let mut hash = Sha256::new();
        self.files.iter().flat_map(|file| &file.blocks).for_each(|block| hash.update(block.hash));
        hash.finalize().to_vec()
    }
}

/// Calls `each` with the number, the offset and the bytes of each block of an image.
fn each_block(image: &File, mut each: impl FnMut(usize, u64, &[u8]) -> Result<()>) -> Result<()> {
    let bytes = image.metadata()?.len();
    let mut buffer = AlignedBuffer::new(PIECE);
    let mut number = 0;
    for from in (0..bytes).step_by(PIECE) {
        let piece = buffer.first((bytes - from).min(PIECE as u64) as usize);
        image.read_exact_at(piece, from)?;
        for (block, offset) in piece.chunks(BLOCK).zip((from..).step_by(BLOCK)) {
            each(number, offset, block)?;
            number += 1;
        }
    }
    Ok(())
}

/// Drops a file that was written back from the page cache, in which it is where files cannot bypass that.
fn forget(file: &File) {
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed).ok();
}

fn hash(block: &[u8]) -> BlockHash {
    Sha256::digest(block).into()
}

#[derive(Debug)]
struct FileCopy {
    /// The blocks that it holds, at their places.
    file: File,
    blocks: Vec<CopiedBlock>,
    /// Time for which the image was read and hashed.
    read_time: Duration,
}

#[derive(Clone, Copy, Debug)]
struct CopiedBlock {
    hash: BlockHash,
    /// True if this copy holds it; false if its base does.
    is_held: bool,
}

impl FileCopy {
    fn take(image: &File, base: Option<&FileCopy>, dir: &Path) -> Result<FileCopy> {
        let mut copy = FileCopy { file: unnamed(dir)?, blocks: Vec::new(), read_time: Duration::ZERO };
        let (begin, mut write_time) = (machine::uptime(), Duration::ZERO);
        each_block(image, |number, offset, block| {
            let hash = hash(block);
            let held_by_base = base.and_then(|base| base.blocks.get(number));
            let is_held = held_by_base.is_none_or(|held| held.hash != hash);
            if is_held {
                let begin = machine::uptime();
                copy.file.write_all_at(block, offset)?;
                write_time += machine::uptime() - begin;
            }
            copy.blocks.push(CopiedBlock { hash, is_held });
            Ok(())
        })?;
        copy.read_time = (machine::uptime() - begin).saturating_sub(write_time);
        // Written later, it would be while something is measured.
        copy.file.sync_data()?;
        forget(&copy.file);
        forget(image);
        Ok(copy)
    }

    /// Writes the blocks of an image that differ from this copy, and reads them again. True if all are equal to it then.
    fn put(&self, base: &FileCopy, image: &File) -> Result<bool> {
        let mut written: Vec<(usize, u64, usize)> = Vec::new();
        let mut buffer = AlignedBuffer::new(BLOCK);
        each_block(image, |number, offset, block| {
            let wanted = self.blocks.get(number).context("it had fewer blocks")?;
            if hash(block) != wanted.hash {
                let source = if wanted.is_held { &self.file } else { &base.file };
                let kept = buffer.first(block.len());
                source.read_exact_at(kept, offset)?;
                image.write_all_at(kept, offset)?;
                written.push((number, offset, block.len()));
            }
            Ok(())
        })?;
        image.sync_data()?;
        // They are read from the disk, and are as cold for the store as after it was aged.
        forget(image);
        forget(&base.file);
        forget(&self.file);
        for (number, offset, len) in written {
            let block = buffer.first(len);
            image.read_exact_at(block, offset)?;
            if hash(block) != self.blocks[number].hash {
                return Ok(false);
            }
        }
        forget(image);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(image: &File, number: usize, byte: u8) {
        let mut buffer = AlignedBuffer::new(BLOCK);
        buffer.first(BLOCK).fill(byte);
        image.write_all_at(buffer.first(BLOCK), (number * BLOCK) as u64).unwrap();
    }

    #[test]
    fn a_copy_gives_images_back_and_takes_only_what_differs_from_its_base() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let images = [unnamed(dir.path()).unwrap(), unnamed(dir.path()).unwrap()];
        // The first one ends within a piece.
        (0..=PIECE / BLOCK).for_each(|block| write(&images[0], block, 7));
        write(&images[1], 0, 7);
        let now = || ImageCopy::take(&images, None, dir.path()).unwrap().sha256();
        let fresh = ImageCopy::take(&images, None, dir.path()).unwrap();
        assert_eq!(fresh.sha256(), now());
        assert!(fresh.read_seconds() > 0.0);
        // A block of zeros is held as well.
        write(&images[0], 3, 0);
        write(&images[1], 0, 9);
        let aged = ImageCopy::take(&images, Some(&fresh), dir.path()).unwrap();
        let held = |copy: &FileCopy| copy.blocks.iter().filter(|block| block.is_held).count();
        assert_eq!(aged.files.iter().map(held).collect::<Vec<usize>>(), [1, 1]);
        assert_eq!(aged.sha256(), now());
        assert_ne!(aged.sha256(), fresh.sha256());
        write(&images[0], PIECE / BLOCK, 1);
        aged.put(&fresh, &images).unwrap();
        assert_eq!(aged.sha256(), now());
        fresh.put(&fresh, &images).unwrap();
        assert_eq!(fresh.sha256(), now());
        // No file has a name.
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_block_that_changed_in_the_copy_is_found_when_it_is_put_back() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let images = [unnamed(dir.path()).unwrap()];
        write(&images[0], 0, 7);
        let fresh = ImageCopy::take(&images, None, dir.path()).unwrap();
        write(&fresh.files[0].file, 0, 8);
        // It is not read where the image has it.
        fresh.put(&fresh, &images).unwrap();
        write(&images[0], 0, 9);
        let error = fresh.put(&fresh, &images).unwrap_err().to_string();
        assert!(error.contains("differs from the one that was kept"), "{error}");
    }
}
