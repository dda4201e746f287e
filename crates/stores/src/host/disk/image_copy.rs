//! Copies of the images below a disk, with the digest of every byte.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, Mode, OFlags};
use sha2::{Digest, Sha256};

use crate::host::machine::AlignedBuffer;

/// Bytes read at once.
pub(super) const PIECE: usize = 4 << 20;
/// Bytes that a copy holds or leaves out together.
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

/// A copy of all images of a disk at a moment, in files without names. One that is based on another copy holds only the blocks that
/// differ from it.
#[derive(Debug)]
pub struct ImageCopy {
    files: Vec<FileCopy>,
    sha256: Vec<u8>,
}

impl ImageCopy {
    /// Copies images into `dir`; `base` is a whole copy of the same images.
    pub(super) fn take(images: &[File], base: Option<&ImageCopy>, dir: &Path) -> Result<ImageCopy> {
        let mut hash = Sha256::new();
        let mut files = Vec::new();
        for (index, image) in images.iter().enumerate() {
            let base = base.and_then(|base| base.files.get(index));
            let copied = FileCopy::take(image, base, dir, &mut hash);
            files.push(copied.context("an image cannot be copied")?);
        }
        Ok(ImageCopy { files, sha256: hash.finalize().to_vec() })
    }

    /// Gives images the contents that they had when this copy was taken, in place, and compares the digest of all their bytes.
    /// `base` is the copy that this one is based on, or this one itself.
    pub(super) fn put(&self, base: &ImageCopy, images: &[File]) -> Result<()> {
        for ((copy, base), image) in self.files.iter().zip(&base.files).zip(images) {
            copy.put(base, image).context("an image cannot be written")?;
        }
        let found = digest(images).context("an image cannot be read")?;
        ensure!(
            found == self.sha256,
            "the image differs from the one that was kept: the disk below changed it"
        );
        Ok(())
    }

    /// SHA-256 of all bytes of all images.
    pub fn sha256(&self) -> &[u8] {
        &self.sha256
    }
}

/// Offset and length of each piece of a file.
fn pieces(file: &File) -> std::io::Result<impl Iterator<Item = (u64, usize)>> {
    let bytes = file.metadata()?.len();
    Ok((0..bytes).step_by(PIECE).map(move |offset| (offset, (bytes - offset).min(PIECE as u64) as usize)))
}

fn digest(images: &[File]) -> std::io::Result<Vec<u8>> {
    let mut hash = Sha256::new();
    let mut buffer = AlignedBuffer::new(PIECE);
    for image in images {
        for (offset, len) in pieces(image)? {
            let piece = buffer.first(len);
            image.read_exact_at(piece, offset)?;
            hash.update(&*piece);
        }
    }
    Ok(hash.finalize().to_vec())
}

/// A copy of one image.
#[derive(Debug)]
struct FileCopy {
    /// The blocks that it holds, at their places.
    file: File,
    /// True for each block that it holds; the others are those of its base.
    holds: Vec<bool>,
}

impl FileCopy {
    fn take(image: &File, base: Option<&FileCopy>, dir: &Path, hash: &mut Sha256) -> Result<FileCopy> {
        let mut copy = FileCopy { file: unnamed(dir)?, holds: Vec::new() };
        let (mut now, mut then) = (AlignedBuffer::new(PIECE), AlignedBuffer::new(PIECE));
        for (offset, len) in pieces(image)? {
            let (piece, old) = (now.first(len), then.first(len));
            image.read_exact_at(piece, offset)?;
            hash.update(&*piece);
            let Some(base) = base else {
                copy.file.write_all_at(piece, offset)?;
                copy.holds.extend(piece.chunks(BLOCK).map(|_| true));
                continue;
            };
            base.file.read_exact_at(old, offset)?;
            for (at, (block, old)) in
                (offset..).step_by(BLOCK).zip(piece.chunks(BLOCK).zip(old.chunks(BLOCK)))
            {
                copy.holds.push(block != old);
                if block != old {
                    copy.file.write_all_at(block, at)?;
                }
            }
        }
        // Written later, it would be while something is measured.
        copy.file.sync_data()?;
        rustix::fs::fadvise(&copy.file, 0, None, Advice::DontNeed).ok();
        Ok(copy)
    }

    /// Writes the blocks of an image that differ from this copy.
    fn put(&self, base: &FileCopy, image: &File) -> Result<()> {
        let (mut now, mut then) = (AlignedBuffer::new(PIECE), AlignedBuffer::new(PIECE));
        for (offset, len) in pieces(image)? {
            let (piece, kept) = (now.first(len), then.first(len));
            image.read_exact_at(piece, offset)?;
            base.file.read_exact_at(kept, offset)?;
            let places = (offset..).step_by(BLOCK);
            for (at, (block, kept)) in places.zip(piece.chunks(BLOCK).zip(kept.chunks_mut(BLOCK))) {
                let holds = self.holds.get((at / BLOCK as u64) as usize).copied().unwrap_or(false);
                if holds && !std::ptr::eq(self, base) {
                    self.file.read_exact_at(kept, at)?;
                }
                if block != kept {
                    image.write_all_at(kept, at)?;
                }
            }
        }
        image.sync_data()?;
        rustix::fs::fadvise(image, 0, None, Advice::DontNeed).ok();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_gives_images_back_and_takes_only_what_differs_from_its_base() {
        let dir = tempfile::tempdir_in(".").unwrap();
        // The second one ends within a piece.
        let images = [PIECE + BLOCK, BLOCK].map(|bytes| {
            let image = unnamed(dir.path()).unwrap();
            let mut buffer = AlignedBuffer::new(bytes);
            buffer.first(bytes).fill(7);
            image.write_all_at(buffer.first(bytes), 0).unwrap();
            image
        });
        let write = |image: usize, block: u64, byte: u8| {
            let mut buffer = AlignedBuffer::new(BLOCK);
            buffer.first(BLOCK).fill(byte);
            images[image].write_all_at(buffer.first(BLOCK), block * BLOCK as u64).unwrap();
        };
        let fresh = ImageCopy::take(&images, None, dir.path()).unwrap();
        assert_eq!(fresh.sha256(), digest(&images).unwrap());
        // A block of zeros is held as well.
        write(0, 3, 0);
        write(1, 0, 9);
        let aged = ImageCopy::take(&images, Some(&fresh), dir.path()).unwrap();
        let held = |copy: &FileCopy| copy.holds.iter().filter(|holds| **holds).count();
        assert_eq!(aged.files.iter().map(held).collect::<Vec<_>>(), [1, 1]);
        assert_ne!(aged.sha256(), fresh.sha256());
        write(0, 64, 1);
        aged.put(&fresh, &images).unwrap();
        assert_eq!(digest(&images).unwrap(), aged.sha256());
        fresh.put(&fresh, &images).unwrap();
        assert_eq!(digest(&images).unwrap(), fresh.sha256());
        // No file has a name.
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_copy_that_was_changed_is_found_by_its_digest() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let images = [unnamed(dir.path()).unwrap()];
        let mut buffer = AlignedBuffer::new(BLOCK);
        images[0].write_all_at(buffer.first(BLOCK), 0).unwrap();
        let fresh = ImageCopy::take(&images, None, dir.path()).unwrap();
        buffer.first(BLOCK)[5] = 1;
        fresh.files[0].file.write_all_at(buffer.first(BLOCK), 0).unwrap();
        let error = fresh.put(&fresh, &images).unwrap_err().to_string();
        assert!(error.contains("differs from the one that was kept"), "{error}");
    }
}
