//! The mark of a run directory: a file that states which directory it belongs to, which process made it and in which boot, and
//! that is locked while a run uses the directory. Whatever its name, Blobwise never removes a directory without exactly this
//! mark, but an empty one.

use std::ffi::{CStr, CString};
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use anyhow::Result;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

use super::note_left;
use super::removal::{self, MarkFile};

/// Name of the mark file, which is locked while a run uses the directory.
pub(super) const MARK: &CStr = c"BLOBWISE";
/// Names of run directories: this prefix and [`DIGITS`] hexadecimal digits.
pub(super) const PREFIX: &str = "blobwise-";
pub(super) const DIGITS: usize = 8;

/// True if a name has the form of a run directory's.
pub(super) fn is_our_form(name: &CStr) -> bool {
    let digits = name.to_bytes().strip_prefix(PREFIX.as_bytes());
    digits.is_some_and(|digits| {
        digits.len() == DIGITS && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// A directory that is proven to be ours. It is held by descriptors, so that another directory that takes over its name is not
/// mistaken for it.
#[derive(Debug)]
pub(super) struct OwnDirectory {
    /// Parent directory.
    within: OwnedFd,
    name: CString,
    dir: OwnedFd,
    /// The mark file; holds the lock.
    mark: File,
    text: String,
}

impl OwnDirectory {
    /// Creates and marks a directory that only this user can enter. The mark is linked into it when it is locked and complete: a run
    /// killed halfway through writing it would leave a directory that no later run recognizes as ours.
    pub(super) fn make(within: OwnedFd, name: CString, shown: &Path) -> Result<OwnDirectory> {
        let boot = boot();
        rustix::fs::mkdirat(&within, &*name, Mode::RWXU)?;
        let make = || -> Result<(OwnedFd, File, String)> {
            let dir = removal::open_below(within.as_fd(), &name, OFlags::RDONLY | OFlags::DIRECTORY)?;
            let text = text(&name, &boot, std::process::id(), identity(&rustix::fs::fstat(&dir)?));
            // Not every file system has files without a name.
            let linked = unnamed_mark(&dir).and_then(|mark| link_mark(mark, &dir, &text));
            let mark = linked.or_else(|_refused| named_mark(&dir, &text))?;
            Ok((dir, mark, text))
        };
        match make() {
            Ok((dir, mark, text)) => Ok(OwnDirectory { within, name, dir, mark, text }),
            Err(error) => {
                note_left(removal::remove_tree(shown));
                Err(error)
            }
        }
    }

    /// Opens a directory that a run of this user made and no longer uses; `None` if any of that does not hold.
    pub(super) fn find_stale(within: OwnedFd, name: CString) -> Option<OwnDirectory> {
        let dir = removal::open_below(within.as_fd(), &name, OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
        let directory = rustix::fs::fstat(&dir).ok().filter(is_of_this_user)?;
        // A pipe in its place would block a plain open; `open_below` never blocks. NFS locks only what is open for writing.
        let mut mark = File::from(removal::open_below(dir.as_fd(), MARK, OFlags::RDWR).ok()?);
        let file = rustix::fs::fstat(&mark).ok().filter(is_of_this_user)?;
        if FileType::from_raw_mode(file.st_mode) != FileType::RegularFile || mark.try_lock().is_err() {
            return None;
        }
        const BYTES_MAX: u64 = 1000;
        let mut said = String::new();
        (&mut mark).take(BYTES_MAX).read_to_string(&mut said).ok()?;
        is_ours(&said, &name, identity(&directory), file.st_mtime).then_some(OwnDirectory {
            within,
            name,
            dir,
            mark,
            text: said,
        })
    }

    /// True if another run works in a directory with a name of our form: its mark is locked.
    pub(super) fn is_used(within: &OwnedFd, name: &CStr) -> bool {
        let opened = removal::open_below(within.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY);
        let mark = opened.and_then(|dir| removal::open_below(dir.as_fd(), MARK, OFlags::RDONLY));
        // A shared lock does not disturb other checks of the same kind.
        mark.is_ok_and(|mark| matches!(File::from(mark).try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Removes the directory with everything below it that is on the same mount, the mark last: a directory that cannot be
    /// removed stays marked.
    pub(super) fn remove(self, shown: &Path) -> Result<()> {
        let mark = MarkFile { name: MARK, file: self.mark, text: self.text.as_bytes() };
        removal::remove_marked((self.within.as_fd(), &self.name), self.dir.as_fd(), shown, mark)
    }
}

#[cfg(test)]
impl OwnDirectory {
    /// Releases the lock, as the end of the process does.
    pub(super) fn unlock(&self) {
        self.mark.unlock().unwrap();
    }
}

/// Removes the directory of a run that was killed before it marked it: empty, of this user, closed to others, and older than the
/// moment that a live run takes.
pub(super) fn remove_unmarked(within: &OwnedFd, name: &CStr) {
    const MOMENT_SECONDS: i64 = 60;
    let Ok(stat) = rustix::fs::statat(within, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let is_closed = Mode::from_raw_mode(stat.st_mode) == Mode::RWXU;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    if is_directory && is_closed && is_of_this_user(&stat) && now - stat.st_mtime > MOMENT_SECONDS {
        // The kernel refuses it if anything is in there.
        rustix::fs::unlinkat(within, name, AtFlags::REMOVEDIR).ok();
    }
}

/// Creates a locked file without a name in a directory.
pub(super) fn unnamed_mark(dir: &OwnedFd) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mark = File::from(rustix::fs::openat(dir, c".", flags, Mode::RUSR | Mode::WUSR)?);
    mark.lock()?;
    Ok(mark)
}

/// Writes a mark without a name and makes it that of a directory.
fn link_mark(mut mark: File, dir: &OwnedFd, text: &str) -> std::io::Result<File> {
    mark.write_all(text.as_bytes())?;
    let path = format!("/proc/self/fd/{}", mark.as_raw_fd());
    rustix::fs::linkat(rustix::fs::CWD, path, dir, MARK, AtFlags::SYMLINK_FOLLOW)?;
    Ok(mark)
}

/// Creates, locks and writes the mark of a directory.
fn named_mark(dir: &OwnedFd, text: &str) -> std::io::Result<File> {
    let mut mark = removal::create_below(dir.as_fd(), MARK)?;
    // Locked before anything is written: an empty mark does not count as ours.
    mark.lock()?;
    mark.write_all(text.as_bytes())?;
    Ok(mark)
}

fn is_of_this_user(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Identity of a directory: device and inode.
fn identity(directory: &Stat) -> (u64, u64) {
    (directory.st_dev, directory.st_ino)
}

/// Text of the mark for a directory.
fn text(name: &CStr, boot: &str, process: u32, (device, inode): (u64, u64)) -> String {
    format!(
        "A run of blobwise works here. This directory is removed when it ends.\nname {}\nboot {boot}\nprocess {process}\ndirectory {device}:{inode}\n",
        name.to_string_lossy()
    )
}

/// Id of this boot of the machine; empty if the kernel does not report it.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// True if a mark, last written at `written` (seconds since 1970), has exactly the text that we would have written into this
/// directory.
fn is_ours(said: &str, name: &CStr, (device, inode): (u64, u64), written: i64) -> bool {
    let value = |key: &str| said.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    let (Some(booted), Some(process)) = (value("boot"), value("process").and_then(|text| text.parse().ok()))
    else {
        return false;
    };
    if booted == boot() {
        return said == text(name, booted, process, (device, inode));
    }
    // Device numbers hold for one boot only. A mark of another boot that is younger than this boot was written by another
    // machine, which may still be at work if locks are not visible between machines.
    let Some(device) = value("directory").and_then(|text| text.split_once(':')?.0.parse().ok()) else {
        return false;
    };
    let before = crate::host::machine::booted().is_some_and(|moment| written < moment);
    before && said == text(name, booted, process, (device, inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_exact_form() {
        for name in [c"blobwise-0123abcd", c"blobwise-00000000"] {
            assert!(is_our_form(name), "{name:?}");
        }
        for name in [
            c"blobwise-",
            c"blobwise-0123abc",
            c"blobwise-0123abcde",
            c"blobwise-0123ABCD",
            c"blobwise-runs",
            c"blobwise-0123abc/",
            c"blobwise_0123abcd",
            c"xblobwise-0123abcd",
        ] {
            assert!(!is_our_form(name), "{name:?}");
        }
    }

    #[test]
    fn a_mark_is_ours_for_its_own_directory_and_from_before_this_boot_only() {
        let (directory, now, name) = ((2049, 77), i64::MAX, c"blobwise-0123abcd");
        let good = text(name, &boot(), 7, directory);
        assert!(is_ours(&good, name, directory, now));
        for other in [
            good.replace("process 7", "process -7"),
            good.replace("process 7", "process 07"),
            good.replace("name blobwise-0123abcd", "name blobwise-0123abce"),
            good.replace("A run", "a run"),
            format!("{good} "),
            String::new(),
            "A run of blobwise".to_owned(),
        ] {
            assert!(!is_ours(&other, name, directory, now), "{other}");
        }
        assert!(!is_ours(&good, name, (2049, 78), now), "a copy of it");
        assert!(!is_ours(&good, name, (2050, 77), now), "on another device");
        // Device numbers may change with a reboot.
        let earlier = text(name, "another", 7, (2050, 77));
        assert!(is_ours(&earlier, name, directory, 1));
        assert!(!is_ours(&earlier, name, directory, now), "of another machine, perhaps at work");
        assert!(!is_ours(&earlier, name, (2049, 78), 1));
    }
}
