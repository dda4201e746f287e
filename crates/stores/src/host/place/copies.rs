//! Copies a directory tree as a backup needs it: every byte is read and written again. If both copies shared their blocks
//! (`copy_file_range` on btrfs and XFS), one bad sector would destroy both.

use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Bytes read at once: the size of the kernel's read-ahead, and more than a small file has.
const PIECE_BYTES: usize = 256 << 10;

/// Copies a directory and everything below it into `to`, which is created if missing. Permissions are kept, and unallocated zero
/// pages of the source stay holes. Anything but files, directories and symlinks is an error. A file that disappears between the
/// listing of its directory and its opening is left out.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    copy_below(from, to, &mut vec![0; PIECE_BYTES])
}

fn copy_below(from: &Path, to: &Path, room: &mut [u8]) -> Result<()> {
    let entries = std::fs::read_dir(from).with_context(|| format!("cannot read `{}`", from.display()))?;
    std::fs::create_dir_all(to).with_context(|| format!("cannot make `{}`", to.display()))?;
    for entry in entries {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_below(&source, &target, room)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&source)?, &target)?;
        } else if kind.is_file() {
            copy_file(&source, &target, room)?;
        } else {
            bail!("`{}` is neither a file nor a directory: it cannot be copied", source.display());
        }
    }
    // Servers refuse a data directory that others may enter.
    std::fs::set_permissions(to, std::fs::metadata(from)?.permissions())?;
    Ok(())
}

fn copy_file(from: &Path, to: &Path, room: &mut [u8]) -> Result<()> {
    let source = match File::open(from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        opened => opened.with_context(|| format!("cannot open `{}`", from.display()))?,
    };
    let metadata = source.metadata()?;
    let copy = |room: &mut [u8]| -> std::io::Result<()> {
        let mut target = File::create_new(to)?;
        target.set_permissions(std::fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
        if has_holes(&metadata) {
            return copy_sparse(&source, &target, room);
        }
        loop {
            match (&source).read(room)? {
                0 => return Ok(()),
                read => target.write_all(&room[..read])?,
            }
        }
    };
    copy(room).with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))
}

/// True if fewer bytes are allocated than the file's length.
fn has_holes(metadata: &Metadata) -> bool {
    metadata.blocks() * 512 < metadata.len()
}

/// One page of zeros; a whole piece of them would enlarge the binary.
static ZEROS: [u8; 4096] = [0; 4096];

/// Copies the pieces that are not all zero, and sets the length.
fn copy_sparse(source: &File, target: &File, room: &mut [u8]) -> std::io::Result<()> {
    let mut at = 0;
    loop {
        match source.read_at(room, at)? {
            0 => return target.set_len(at),
            read => {
                if room[..read].chunks(ZEROS.len()).any(|block| block != &ZEROS[..block.len()]) {
                    target.write_all_at(&room[..read], at)?;
                }
                at += read as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_every_byte_hole_and_permission_and_shares_none() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::create_dir_all(from.join("a/b")).unwrap();
        std::fs::write(from.join("a/b/small"), b"few bytes").unwrap();
        std::fs::set_permissions(from.join("a"), std::fs::Permissions::from_mode(0o700)).unwrap();
        let sparse = File::create(from.join("sparse")).unwrap();
        sparse.write_all_at(b"end", (8 << 20) - 3).unwrap();
        std::os::unix::fs::symlink("small", from.join("link")).unwrap();
        copy_tree(&from, &to).unwrap();
        assert_eq!(std::fs::read(to.join("a/b/small")).unwrap(), b"few bytes");
        assert_eq!(std::fs::read(to.join("sparse")).unwrap(), std::fs::read(from.join("sparse")).unwrap());
        assert!(std::fs::metadata(to.join("sparse")).unwrap().blocks() * 512 < 1 << 20);
        assert_eq!(std::fs::metadata(to.join("a")).unwrap().mode() & 0o777, 0o700);
        assert_eq!(std::fs::read_link(to.join("link")).unwrap(), Path::new("small"));
        // Existing files are never overwritten.
        assert!(copy_tree(&from, &to).is_err());
    }

    #[test]
    fn what_cannot_be_copied_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        std::fs::create_dir(&from).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
        let error = copy_tree(&from, &dir.path().join("to")).unwrap_err();
        assert!(format!("{error:#}").contains("socket"), "{error:#}");
    }
}
