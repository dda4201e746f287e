//! The directory that a run works in: ours alone, marked and locked, so that nothing else is ever removed.

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
pub use self::held::Held;
use self::mark::Ours;
pub use self::removal::remove_tree;
use crate::host::machine;

/// A marked and locked directory below `--dir`, which nobody else can enter; removed when dropped.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    /// The directory that it lies in, where that was made for it; removed again if empty.
    made: Option<PathBuf>,
    /// What earlier runs left and cannot be removed.
    left: Vec<String>,
    /// Taken out only to be removed.
    ours: Option<Ours>,
}

impl Place {
    /// Bytes of its name.
    pub const NAME_BYTES: usize = mark::PREFIX.len() + mark::DIGITS;

    /// Makes the directory below `dir`, and removes what dead runs of ours left there. `dir` is made when it is missing, but no
    /// directory above it: that of a disk which is not mounted would lie on another disk.
    pub fn make(dir: &Path) -> Result<Place> {
        let made = make_last(dir)?;
        let make = || -> Result<Place> {
            let within = open_directory(dir)?;
            let left = remove_stale(&within, dir);
            let name = format!("{}{:08x}", mark::PREFIX, fresh_seed() as u32);
            let path = dir.join(&name);
            let ours = Ours::make(within, CString::new(name)?, &path)
                .with_context(|| format!("cannot write in `{}`", dir.display()))?;
            let path = path.canonicalize().unwrap_or(path);
            if machine::remembers_deletions(&path) {
                // What one store deletes must not slow down what the next one makes. Without it everything works all the same.
                drop(machine::spread_directories(&path));
            }
            Ok(Place { path, made: made.clone(), left, ours: Some(ours) })
        };
        make().inspect_err(|_| remove_if_empty(made.as_slice()))
    }

    /// Where the run works.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Other runs in the same directory, to be looked for while this one goes on.
    pub fn neighbours(&self) -> Result<Neighbours> {
        let parent = self.path.parent().context("a directory of ours lies in none")?;
        let own = self.path.file_name().context("a directory of ours has no name")?;
        Ok(Neighbours { within: open_directory(parent)?, own: CString::new(own.as_encoded_bytes())? })
    }

    /// What dead runs of ours left beside it and could not be removed, a sentence each.
    pub fn left(&self) -> &[String] {
        &self.left
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A directory that cannot be removed keeps its mark, and the next run finds it.
        if let Some(ours) = self.ours.take() {
            note_left(ours.remove(&self.path));
        }
        remove_if_empty(self.made.as_slice());
    }
}

/// What this process could not remove.
static LEFT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps why something was not removed, where nobody can be told at once: in a `drop`, or behind another error.
pub fn note_left<E: Into<anyhow::Error>>(removed: Result<(), E>) {
    if let Err(error) = removed {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{:#}", error.into()));
    }
}

/// What could not be removed and nobody was told of yet, with the reasons: whoever ends the process tells it.
pub fn take_left() -> Vec<String> {
    std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Removes a file beside the directories of ours; one that is not there is no error. What stays is noted, to be told in the end.
pub fn remove_file_or_note(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            note_left(Err(error).with_context(|| format!("cannot remove `{}`", path.display())));
        }
        _ => {}
    }
}

/// A directory in which runs may work, and the name of the one that looks.
#[derive(Debug)]
pub struct Neighbours {
    within: OwnedFd,
    own: CString,
}

impl Neighbours {
    /// Whether another run works there now.
    pub fn are_there(&self) -> bool {
        let others = our_forms(&self.within).into_iter().filter(|name| *name != self.own);
        others.into_iter().any(|name| Ours::is_used(&self.within, &name))
    }
}

/// A number that is never the same twice.
pub fn fresh_seed() -> u64 {
    rand::rngs::SysRng.try_next_u64().unwrap_or(1)
}

/// An error unless a directory is there or only its last part is missing.
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

/// Makes the last part of a path where that is missing, and returns it then.
fn make_last(dir: &Path) -> Result<Option<PathBuf>> {
    check_parent(dir)?;
    if dir.is_dir() {
        return Ok(None);
    }
    match std::fs::create_dir(dir) {
        Ok(()) => Ok(Some(dir.to_owned())),
        // Somebody was faster.
        Err(_) if dir.is_dir() => Ok(None),
        Err(_) if dir.exists() => bail!("`{}` is not a directory", dir.display()),
        Err(error) => Err(error).with_context(|| format!("cannot make the directory `{}`", dir.display())),
    }
}

/// Makes a directory with its parents and returns those that were missing, innermost first.
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

/// Why a file of 1 MB cannot be written in a directory, if it cannot: its file system is full, read-only or broken. Nothing
/// is flushed, so that nothing of it reaches the disk where the kernel takes its time.
pub fn why_unwritable(dir: &Path) -> Option<std::io::Error> {
    const BYTES: usize = 1_000_000;
    let probe = dir.join(format!("probe-{:08x}", fresh_seed() as u32));
    let written = std::fs::File::create_new(&probe).and_then(|mut file| file.write_all(&vec![0; BYTES]));
    // One that cannot be removed goes with the directory.
    std::fs::remove_file(&probe).ok();
    written.err()
}

/// Removes the directory of a run that has died; nothing where it is not marked as ours, or somebody still uses it.
pub fn remove_left(path: &Path) -> Option<()> {
    let within = open_directory(path.parent()?).ok()?;
    let name = CString::new(path.file_name()?.as_encoded_bytes()).ok()?;
    mark::is_our_form(&name).then_some(())?;
    Ours::find_stale(within, name)?.remove(path).ok()
}

/// Removes directories that are empty, innermost first.
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

/// A directory to find others from; it need not be readable.
fn open_directory(dir: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty()).with_context(|| format!("cannot open `{}`", dir.display()))
}

/// Removes the directories of our runs that ended without removing them: marked as [`mark`] says, and no longer locked. Returns
/// what could not be removed, in a sentence each.
fn remove_stale(within: &OwnedFd, shown: &Path) -> Vec<String> {
    let mut left = Vec::new();
    for name in our_forms(within) {
        let path = shown.join(name.to_string_lossy().as_ref());
        let Ok(within) = within.try_clone() else { continue };
        let Some(stale) = Ours::find_stale(within, name) else { continue };
        if let Err(error) = stale.remove(&path) {
            left.push(format!("`{}`, which an earlier run left, was not removed: {error:#}", path.display()));
        }
    }
    left
}

/// What in a directory is called as our directories are.
fn our_forms(within: &OwnedFd) -> Vec<CString> {
    // Of a directory that cannot be read nothing is known.
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

    /// What a run that was killed leaves: its directory, with the mark that it wrote, and not locked any more.
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
        // A mark of ours, and the directory of somebody else who copied or linked it.
        std::fs::write(of("blobwise-00000004").join(mark), &said).unwrap();
        std::fs::write(home.path().join("said"), &said).unwrap();
        symlink("../said", of("blobwise-00000005").join(mark)).unwrap();
        std::fs::write(of("precious").join(mark), &said).unwrap();
        // Whoever opens a pipe waits for its other end.
        let pipe = of("blobwise-00000006").join(mark);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RWXU).unwrap();
        drop(Place::make(home.path()).unwrap());
        let names = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path());
        let kept: Vec<PathBuf> = names.filter(|path| path.join("theirs").exists()).collect();
        assert_eq!(kept.len(), 7, "{kept:?}");
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
