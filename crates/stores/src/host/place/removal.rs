//! Removes our own trees: by descriptors, never through a symlink, never on another mount. Anything unexpected stops the removal
//! and is named in the error.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use crate::host::machine;

/// Removes a directory with everything below it; a missing one is no error. Symlinks are removed and not followed. A mount point
/// stops the removal: the error names it, and the mounted file system is left untouched. No file in the tree should be open,
/// because FUSE, NFS and SMB keep an open file under another name until it is closed.
pub fn remove_tree(path: &Path) -> Result<()> {
    let name = path.file_name().with_context(|| format!("`{}` has no name", path.display()))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = CString::new(name.as_bytes())?;
    match remove_directory(super::open_directory(parent)?.as_fd(), &name, path) {
        Err(error) if error.downcast_ref() == Some(&Errno::NOENT) => Ok(()),
        outcome => outcome,
    }
}

/// Opens an entry of a directory unless it is a symlink or a mount point. Never blocks.
pub(super) fn open_below(within: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_XDEV
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(within, name, flags, Mode::empty(), resolve) {
        // `openat2` is missing before Linux 5.6, and where a seccomp filter does not know it.
        Err(Errno::NOSYS | Errno::PERM) => open_and_compare(within, name, flags),
        outcome => outcome,
    }
}

/// Creates a file that only this user can read and write. Fails if anything has its name.
pub(super) fn create_below(within: BorrowedFd<'_>, name: &CStr) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(within, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
}

/// Like [`open_below`] without `openat2`: compares the mounts after opening and before use.
fn open_and_compare(within: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let opened = rustix::fs::openat(within, name, flags, Mode::empty())?;
    if mount(opened.as_fd())? == mount(within)? { Ok(opened) } else { Err(Errno::XDEV) }
}

/// Identity of a mount: its id if the kernel reports it (since Linux 5.8), and the device.
fn mount(of: BorrowedFd<'_>) -> Result<(Option<u64>, (u32, u32)), Errno> {
    let known = rustix::fs::statx(of, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    let says = StatxFlags::from_bits_retain(known.stx_mask).contains(StatxFlags::MNT_ID);
    Ok((says.then_some(known.stx_mnt_id), (known.stx_dev_major, known.stx_dev_minor)))
}

fn remove_directory(within: BorrowedFd<'_>, name: &CStr, shown: &Path) -> Result<()> {
    let opened = open_below(within, name, OFlags::RDONLY | OFlags::DIRECTORY);
    let dir = opened.map_err(|errno| removal_error(errno, shown))?;
    let mut pauses = RemovalPauses::new();
    loop {
        empty(dir.as_fd(), shown, None)?;
        match remove_emptied((within, name), dir.as_fd(), shown) {
            Err(error) if is_not_empty(&error) && pauses.next() => {}
            outcome => return outcome,
        }
    }
}

/// The file that marks a directory as ours.
pub(super) struct MarkFile<'a> {
    pub(super) name: &'a CStr,
    /// The mark file, open and locked.
    pub(super) file: File,
    /// Its text.
    pub(super) text: &'a [u8],
}

/// Removes a marked directory, given by its parent and its name there; the mark goes last. If the directory cannot be removed,
/// the mark is written again.
pub(super) fn remove_marked(
    (within, name): (BorrowedFd<'_>, &CStr),
    dir: BorrowedFd<'_>,
    shown: &Path,
    mark: MarkFile<'_>,
) -> Result<()> {
    let mut pauses = RemovalPauses::new();
    while let Some(left) = empty(dir, shown, Some(mark.name))? {
        if !pauses.next() {
            return Err(removal_error(Errno::NOTEMPTY, &shown.join(OsStr::from_bytes(left.to_bytes()))));
        }
    }
    // Closed before it is removed: some file systems keep an open file under another name, and the directory with it.
    drop(mark.file);
    let outcome = (|| {
        let path = shown.join(OsStr::from_bytes(mark.name.to_bytes()));
        remove_entry(dir, mark.name, FileType::RegularFile, &path)?;
        loop {
            match remove_emptied((within, name), dir, shown) {
                Err(error) if is_not_empty(&error) && pauses.next() => empty(dir, shown, None).map(drop)?,
                outcome => return outcome,
            }
        }
    })();
    if outcome.is_err() {
        let again = create_below(dir, mark.name).map_err(std::io::Error::from);
        again.and_then(|mut file| file.write_all(mark.text)).ok();
    }
    outcome
}

/// Removes an emptied directory if its name still refers to it.
fn remove_emptied((within, name): (BorrowedFd<'_>, &CStr), dir: BorrowedFd<'_>, shown: &Path) -> Result<()> {
    match rustix::fs::statat(within, name, AtFlags::SYMLINK_NOFOLLOW) {
        // Another process was faster: a run that begins removes what others left.
        Err(Errno::NOENT) => return Ok(()),
        Ok(now)
            if rustix::fs::fstat(dir)
                .is_ok_and(|then| (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino)) => {}
        _ => bail!("`{}` is another directory than it was, and is left alone", shown.display()),
    }
    match rustix::fs::unlinkat(within, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(removal_error(errno, shown)),
    }
}

fn is_not_empty(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(&(Errno::NOTEMPTY | Errno::EXIST)))
}

/// Pauses between attempts to remove a directory that is not empty yet: a process that is just ending may still create files, and
/// FUSE and network file systems learn of a closed file with a delay.
struct RemovalPauses {
    /// Time of the first pause; the first attempt itself may have taken long.
    begin: Option<Duration>,
    length: Duration,
}

impl RemovalPauses {
    const PATIENCE: Duration = Duration::from_secs(2);
    const LONGEST: Duration = Duration::from_millis(50);

    fn new() -> RemovalPauses {
        RemovalPauses { begin: None, length: Duration::from_millis(1) }
    }

    /// Waits a little, but not before the second attempt; false when [`RemovalPauses::PATIENCE`] is over.
    fn next(&mut self) -> bool {
        let now = machine::uptime();
        let Some(begin) = self.begin else {
            self.begin = Some(now);
            return true;
        };
        std::thread::sleep(self.length);
        self.length = (2 * self.length).min(Self::LONGEST);
        now - begin < Self::PATIENCE
    }
}

/// Removes everything in a directory except the entry `kept`. Returns the last name that was met, if any: other entries may have
/// been created meanwhile.
fn empty(dir: BorrowedFd<'_>, shown: &Path, kept: Option<&CStr>) -> Result<Option<CString>> {
    let mut met = None;
    for entry in Dir::read_from(dir).map_err(|errno| removal_error(errno, shown))? {
        let entry = entry.map_err(|errno| removal_error(errno, shown))?;
        let name = entry.file_name();
        if name != c"." && name != c".." && Some(name) != kept {
            let shown = shown.join(OsStr::from_bytes(name.to_bytes()));
            remove_entry(dir, name, entry.file_type(), &shown)?;
            met = Some(name.to_owned());
        }
    }
    Ok(met)
}

fn remove_entry(dir: BorrowedFd<'_>, name: &CStr, kind: FileType, shown: &Path) -> Result<()> {
    let kind = match kind {
        FileType::Unknown => match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(removal_error(errno, shown)),
        },
        known => known,
    };
    let outcome = match kind {
        FileType::Directory => remove_directory(dir, name, shown),
        _ => rustix::fs::unlinkat(dir, name, AtFlags::empty()).map_err(|errno| removal_error(errno, shown)),
    };
    match outcome {
        // Removed by its creator meanwhile.
        Err(error) if error.downcast_ref() == Some(&Errno::NOENT) => Ok(()),
        // NFS keeps an open file under this name until it is closed.
        Err(error) if error.downcast_ref() == Some(&Errno::BUSY) && name.to_bytes().starts_with(b".nfs") => {
            Ok(())
        }
        outcome => outcome,
    }
}

/// Explains why something was not removed.
fn removal_error(errno: Errno, shown: &Path) -> anyhow::Error {
    let shown = shown.display();
    match errno {
        Errno::XDEV | Errno::BUSY => anyhow!(errno)
            .context(format!("something else is mounted at `{shown}`: it is not touched; unmount it")),
        Errno::LOOP | Errno::NOTDIR => anyhow!(errno).context(format!("`{shown}` is no directory any more")),
        errno => anyhow!(errno).context(format!("cannot remove `{shown}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// Everything that a tree may hold without root: symlinks out of it, pipes, names that are not UTF-8.
    #[test]
    fn a_tree_goes_and_what_its_links_name_stays() {
        let home = tempfile::tempdir_in(".").unwrap();
        let (tree, theirs) = (home.path().join("tree"), home.path().join("theirs"));
        std::fs::create_dir_all(tree.join("a/b/c")).unwrap();
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("file"), "theirs").unwrap();
        std::os::unix::fs::symlink(&theirs, tree.join("a/link")).unwrap();
        std::os::unix::fs::symlink("../theirs/file", tree.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", tree.join("dangling")).unwrap();
        std::fs::hard_link(theirs.join("file"), tree.join("hard")).unwrap();
        std::fs::write(tree.join(OsStr::from_bytes(b"a/b/\xff\n")), "x").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, tree.join("a/pipe"), Mode::RUSR).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert_eq!(std::fs::read_to_string(theirs.join("file")).unwrap(), "theirs");
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_a_tree_is_not_followed() {
        let home = tempfile::tempdir_in(".").unwrap();
        let (theirs, link) = (home.path().join("theirs"), home.path().join("link"));
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("file"), "theirs").unwrap();
        std::os::unix::fs::symlink(&theirs, &link).unwrap();
        let error = remove_tree(&link).unwrap_err().to_string();
        assert!(error.contains("is no directory any more"), "{error}");
        assert!(theirs.join("file").exists() && link.is_symlink());
    }

    /// `/proc` is the one mount that every machine has.
    #[test]
    fn nothing_is_opened_on_another_mount() {
        let root = File::open("/").unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for open in [open_below, open_and_compare] {
            assert_eq!(open(root.as_fd(), c"proc", flags).unwrap_err(), Errno::XDEV);
            let etc = open(root.as_fd(), c"etc", flags);
            assert!(etc.is_ok(), "{etc:?}");
        }
        let error = remove_directory(root.as_fd(), c"proc", Path::new("/proc")).unwrap_err();
        assert!(error.to_string().contains("mounted at `/proc`"), "{error:#}");
    }
}
