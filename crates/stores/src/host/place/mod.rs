//! The directory that a run works in: private, marked and locked, so that nothing else is ever removed.

mod copies;
mod held;
mod mark;
mod removal;

use std::ffi::CString;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use rand::TryRng;
use rustix::fs::{Dir, Mode, OFlags};

pub use self::copies::copy_tree;
pub use self::held::DirectoryLock;
use self::mark::OwnDirectory;
pub use self::removal::remove_tree;
use crate::host::machine;

/// A marked and locked directory below `--dir`, which other users cannot enter; removed when dropped.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    /// The parent, if it was created for this one; removed again if empty.
    made: Option<PathBuf>,
    /// Directories of earlier runs that could not be removed, a sentence each.
    left: Vec<String>,
    /// `None` only after removal has begun.
    ours: Option<OwnDirectory>,
}

impl Place {
    /// Length of its name in bytes.
    pub const NAME_BYTES: usize = mark::PREFIX.len() + mark::DIGITS;

    /// Creates a run directory in `dir` and removes what dead runs have left there. `dir` is created if missing, but its parents
    /// are not: the path of a disk that is not mounted would lie on another disk.
    pub fn make(dir: &Path) -> Result<Place> {
        let made = make_last(dir)?;
        let make = || -> Result<Place> {
            let within = open_directory(dir)?;
            let left = remove_stale(&within, dir);
            let name = format!("{}{:08x}", mark::PREFIX, fresh_seed() as u32);
            let path = dir.join(&name);
            let ours = OwnDirectory::make(within, CString::new(name)?, &path)
                .with_context(|| format!("cannot write in `{}`", dir.display()))?;
            let path = path.canonicalize().unwrap_or(path);
            if machine::remembers_deletions(&path) {
                // Deletions of one store must not slow down the next one's new files. A failure here does no harm.
                drop(machine::spread_directories(&path));
            }
            Ok(Place { path, made: made.clone(), left, ours: Some(ours) })
        };
        make().inspect_err(|_| remove_if_empty(made.as_slice()))
    }

    /// Path that the run works in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a handle for detecting other runs in the same directory while this one goes on.
    pub fn neighbours(&self) -> Result<SharedDirectory> {
        let parent = self.path.parent().context("the directory has no parent")?;
        let own = self.path.file_name().context("the directory has no name")?;
        Ok(SharedDirectory { within: open_directory(parent)?, own: CString::new(own.as_encoded_bytes())? })
    }

    /// Directories of dead runs that could not be removed, a sentence each.
    pub fn left(&self) -> &[String] {
        &self.left
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A directory that cannot be removed keeps its mark, so the next run finds it.
        if let Some(ours) = self.ours.take() {
            note_left(ours.remove(&self.path));
        }
        remove_if_empty(self.made.as_slice());
    }
}

/// What this process could not remove.
static LEFT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps the reason why something was not removed, where it cannot be reported at once: in a `drop`, or behind another error.
pub fn note_left<E: Into<anyhow::Error>>(removed: Result<(), E>) {
    if let Err(error) = removed {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{:#}", error.into()));
    }
}

/// Takes the reasons collected by [`note_left`]; they are printed when the process ends.
pub fn take_left() -> Vec<String> {
    std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Removes a file next to our directories; a missing file is no error. A failure is kept by [`note_left`].
pub fn remove_file_or_note(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            note_left(Err(error).with_context(|| format!("cannot remove `{}`", path.display())));
        }
        _ => {}
    }
}

/// A directory in which other runs may work, with the name of our own run directory.
#[derive(Debug)]
pub struct SharedDirectory {
    within: OwnedFd,
    own: CString,
}

impl SharedDirectory {
    /// True if another run works there now.
    pub fn are_there(&self) -> bool {
        let others = our_forms(&self.within).into_iter().filter(|name| *name != self.own);
        others.into_iter().any(|name| OwnDirectory::is_used(&self.within, &name))
    }
}

/// Returns a random number.
pub fn fresh_seed() -> u64 {
    rand::rngs::SysRng.try_next_u64().unwrap_or(1)
}

/// Fails unless a directory exists or only its last component is missing.
pub fn check_parent(dir: &Path) -> Result<()> {
    let parent = match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Ok(()),
    };
    if !dir.exists() && !parent.is_dir() {
        bail!(
            "cannot make the directory `{}`: there is no directory `{}`; make it, mount its disk or name another place: only the last part \
             is ever made, or another disk than the one that was meant might be measured",
            dir.display(),
            parent.display()
        );
    }
    Ok(())
}

/// Creates the last component of a path and returns the path; `None` if it exists.
fn make_last(dir: &Path) -> Result<Option<PathBuf>> {
    check_parent(dir)?;
    if dir.is_dir() {
        return Ok(None);
    }
    match std::fs::create_dir(dir) {
        Ok(()) => Ok(Some(dir.to_owned())),
        // Another process was faster.
        Err(_) if dir.is_dir() => Ok(None),
        Err(_) if dir.exists() => bail!("`{}` is not a directory", dir.display()),
        Err(error) => Err(error).with_context(|| format!("cannot make the directory `{}`", dir.display())),
    }
}

/// Creates a directory with its parents and returns those that were missing, innermost first.
pub fn make_directories(dir: &Path) -> Result<Vec<PathBuf>> {
    let missing: Vec<PathBuf> = dir
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .map(Path::to_owned)
        .collect();
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make the directory `{}`", dir.display()))?;
    if !dir.is_dir() {
        bail!("`{}` is not a directory", dir.display());
    }
    Ok(missing)
}

/// Tries to write a file of 1 MB in a directory and returns the error: the file system is full, read-only or broken. Nothing is
/// flushed, so usually nothing of it reaches the disk.
pub fn why_unwritable(dir: &Path) -> Option<std::io::Error> {
    const BYTES: usize = 1_000_000;
    let probe = dir.join(format!("probe-{:08x}", fresh_seed() as u32));
    let written = std::fs::File::create_new(&probe).and_then(|mut file| file.write_all(&vec![0; BYTES]));
    // If it cannot be removed, it goes with the directory.
    std::fs::remove_file(&probe).ok();
    written.err()
}

/// Removes the directory of a dead run; `None` if it is not marked as ours, is still used or cannot be removed.
pub fn remove_left(path: &Path) -> Option<()> {
    let within = open_directory(path.parent()?).ok()?;
    let name = CString::new(path.file_name()?.as_encoded_bytes()).ok()?;
    mark::is_our_form(&name).then_some(())?;
    OwnDirectory::find_stale(within, name)?.remove(path).ok()
}

/// Removes empty directories, innermost first; stops at the first that is not empty.
pub fn remove_if_empty(made: &[PathBuf]) {
    use std::io::ErrorKind::{DirectoryNotEmpty, NotFound};
    for dir in made {
        match std::fs::remove_dir(dir) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), DirectoryNotEmpty | NotFound) => break,
            Err(error) => {
                note_left(Err(error).with_context(|| format!("cannot remove `{}`", dir.display())));
                break;
            }
        }
    }
}

/// Opens a directory for lookups; it need not be readable.
fn open_directory(dir: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty()).with_context(|| format!("cannot open `{}`", dir.display()))
}

/// Removes the directories of runs that ended without removing them: marked as [`mark`] says, and no longer locked. Returns a
/// sentence for each that could not be removed.
fn remove_stale(within: &OwnedFd, shown: &Path) -> Vec<String> {
    let mut left = Vec::new();
    for name in our_forms(within) {
        let path = shown.join(name.to_string_lossy().as_ref());
        mark::remove_unmarked(within, &name);
        let Ok(within) = within.try_clone() else { continue };
        let Some(stale) = OwnDirectory::find_stale(within, name) else { continue };
        if let Err(error) = stale.remove(&path) {
            left.push(format!("`{}`, which an earlier run left, was not removed: {error:#}", path.display()));
        }
    }
    left
}

/// Lists the entries of a directory that have the form of our names.
fn our_forms(within: &OwnedFd) -> Vec<CString> {
    // Nothing is known of a directory that cannot be read.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(within, c".", flags, Mode::empty());
    let Ok(entries) = opened.and_then(Dir::new) else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok())
        .map(|entry| entry.file_name().to_owned())
        .filter(|name| mark::is_our_form(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn runs_in_one_directory_see_each_other_and_not_those_that_ended() {
        let home = tempfile::tempdir().unwrap();
        let first = Place::make(home.path()).unwrap();
        let watch = first.neighbours().unwrap();
        assert!(!watch.are_there(), "alone");
        let second = Place::make(home.path()).unwrap();
        assert!(watch.are_there() && second.neighbours().unwrap().are_there());
        drop(second);
        let _dead = killed(home.path());
        assert!(!watch.are_there(), "what was killed works no more");
    }

    /// Leaves what a killed run leaves: its directory with its mark, unlocked.
    fn killed(home: &Path) -> PathBuf {
        let place = Place::make(home).unwrap();
        let stale = home.join(place.path().file_name().unwrap());
        std::fs::write(stale.join("blob"), "ours").unwrap();
        // The lock goes with the descriptor; neither `Drop` is called.
        place.ours.as_ref().unwrap().unlock();
        std::mem::forget(place);
        stale
    }

    #[test]
    fn stale_ones_are_removed_and_running_ones_left_alone() {
        let home = tempfile::tempdir_in(".").unwrap();
        let stale = killed(home.path());
        let running = Place::make(home.path()).unwrap();
        let second = Place::make(home.path()).unwrap();
        assert_eq!((running.left(), stale.exists()), (&[] as &[String], false));
        assert!(running.path().exists() && second.path().exists());
        let path = running.path().to_owned();
        drop(running);
        assert!(!path.exists() && second.path().exists());
    }

    #[test]
    fn what_is_called_like_ours_and_is_not_marked_by_us_is_left_alone() {
        let home = tempfile::tempdir_in(".").unwrap();
        let mark = "BLOBWISE";
        let of = |name: &str| {
            let dir = home.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            std::fs::write(dir.join("theirs"), "theirs").unwrap();
            dir
        };
        let said = std::fs::read(killed(home.path()).join(mark)).unwrap();
        std::fs::write(of("blobwise-00000001").join(mark), "A run of blobwise").unwrap();
        std::fs::write(of("blobwise-00000002").join(mark), "").unwrap();
        of("blobwise-00000003");
        // One of our marks, copied or linked into a directory that is not ours.
        std::fs::write(of("blobwise-00000004").join(mark), &said).unwrap();
        std::fs::write(home.path().join("said"), &said).unwrap();
        symlink("../said", of("blobwise-00000005").join(mark)).unwrap();
        std::fs::write(of("precious").join(mark), &said).unwrap();
        // Opening a pipe blocks until its other end is opened.
        let pipe = of("blobwise-00000006").join(mark);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RWXU).unwrap();
        drop(Place::make(home.path()).unwrap());
        let names = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path());
        let kept: Vec<PathBuf> = names.filter(|path| path.join("theirs").exists()).collect();
        assert_eq!(kept.len(), 7, "{kept:?}");
    }

    #[test]
    fn an_empty_directory_of_ours_is_removed_once_nobody_can_be_about_to_mark_it() {
        let home = tempfile::tempdir_in(".").unwrap();
        let make = |name: &str, mode: u32, age_seconds: u64| {
            let dir = home.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            std::fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).unwrap();
            let made = std::fs::metadata(&dir).unwrap().modified().unwrap();
            let then = made - std::time::Duration::from_secs(age_seconds);
            std::fs::File::open(&dir).unwrap().set_modified(then).unwrap();
            dir
        };
        let left = make("blobwise-00000001", 0o700, 90);
        let kept = [
            make("blobwise-00000002", 0o700, 0),
            make("blobwise-00000003", 0o755, 90),
            make("blobwise-results", 0o700, 90),
        ];
        drop(Place::make(home.path()).unwrap());
        assert!(!left.exists() && kept.iter().all(|dir| dir.exists()));
    }

    /// A run that is killed while it makes its directory leaves no mark that is not ours.
    #[test]
    fn a_mark_is_whole_from_its_first_moment() {
        let home = tempfile::tempdir_in(".").unwrap();
        if mark::unnamed_mark(&open_directory(home.path()).unwrap()).is_err() {
            return;
        }
        let all_made = AtomicBool::new(false);
        let empty_marks = || {
            let mut seen = 0;
            while !all_made.load(Ordering::Relaxed) {
                let dirs = std::fs::read_dir(home.path()).unwrap().flatten();
                let marks = dirs.filter_map(|dir| std::fs::read(dir.path().join("BLOBWISE")).ok());
                seen += marks.filter(Vec::is_empty).count();
            }
            seen
        };
        std::thread::scope(|scope| {
            let watcher = scope.spawn(empty_marks);
            (0..500).for_each(|_| drop(Place::make(home.path()).unwrap()));
            all_made.store(true, Ordering::Relaxed);
            assert_eq!(watcher.join().unwrap(), 0);
        });
    }

    #[test]
    fn nobody_else_can_enter() {
        let home = tempfile::tempdir_in(".").unwrap();
        let place = Place::make(home.path()).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(place.path()), mode(&place.path().join("BLOBWISE"))), (0o700, 0o600));
    }

    #[test]
    fn stores_are_put_apart_where_deleted_files_slow_new_ones() {
        let home = tempfile::tempdir_in(".").unwrap();
        let place = Place::make(home.path()).unwrap();
        let flags = rustix::fs::ioctl_getflags(std::fs::File::open(place.path()).unwrap());
        let is_spread = flags.is_ok_and(|flags| flags.contains(rustix::fs::IFlags::TOPDIR));
        assert_eq!(is_spread, machine::remembers_deletions(place.path()));
    }

    #[test]
    fn a_directory_that_was_made_is_removed_again_and_none_is_made_above_it() {
        let home = tempfile::tempdir_in(".").unwrap();
        let dir = home.path().join("a/b");
        let error = Place::make(&dir).unwrap_err().to_string();
        let missing = format!("there is no directory `{}`", home.path().join("a").display());
        assert!(error.contains(&missing), "{error}");
        assert!(!home.path().join("a").exists());
        std::fs::create_dir(home.path().join("a")).unwrap();
        drop(Place::make(&dir).unwrap());
        assert!(!dir.exists() && home.path().join("a").exists());
    }
}
