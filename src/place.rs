//! The directory that a run works in: marked and locked, so that nothing else is ever removed.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rand::TryRng;

/// The file that marks a directory as ours. It is locked while a run uses it.
const MARK: &str = "BLOBWISE";
/// How our directories are called: this and eight hexadecimal digits.
const PREFIX: &str = "blobwise-";

/// A marked and locked directory below `--dir`; removed when dropped.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    /// Directories that were made to get there, innermost first; removed again if empty.
    made: Vec<PathBuf>,
    /// Holds the lock.
    _mark: File,
}

impl Place {
    /// Makes the directory below `dir`, which is made when missing, and removes what dead runs left there.
    pub fn make(dir: &Path) -> Result<Place> {
        let made = make_directories(dir)?;
        remove_stale(dir);
        let path = dir.join(format!("{PREFIX}{:08x}", fresh_seed() as u32));
        let make = || -> Result<File> {
            std::fs::create_dir(&path).with_context(|| format!("cannot write in `{}`", dir.display()))?;
            let mut mark = File::create_new(path.join(MARK))?;
            mark.lock().context("cannot lock a file there")?;
            writeln!(mark, "A run of blobwise, process {}. Removed when it ends.", std::process::id())?;
            Ok(mark)
        };
        match make() {
            Ok(mark) => {
                let path = path.canonicalize().unwrap_or(path);
                Ok(Place { path, made, _mark: mark })
            }
            Err(error) => {
                drop(std::fs::remove_dir_all(&path));
                remove_if_empty(&made);
                Err(error)
            }
        }
    }

    /// Where the run works.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A directory that cannot be removed is found as stale by the next run.
        drop(std::fs::remove_dir_all(&self.path));
        remove_if_empty(&self.made);
    }
}

/// A number that is never the same twice.
pub fn fresh_seed() -> u64 {
    rand::rngs::SysRng.try_next_u64().unwrap_or(1)
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

/// Removes directories that are empty, innermost first.
pub fn remove_if_empty(made: &[PathBuf]) {
    for dir in made {
        if std::fs::remove_dir(dir).is_err() {
            break;
        }
    }
}

/// Removes the directories of runs that ended without removing them: marked, and no longer locked.
fn remove_stale(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.filter_map(|entry| entry.ok()) {
        let path = entry.path();
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let Ok(mark) = File::open(path.join(MARK)) else { continue };
        // Between making its mark and locking it a run that just begins has an empty one.
        if mark.try_lock().is_ok() && mark.metadata().is_ok_and(|meta| meta.len() > 0) {
            drop(std::fs::remove_dir_all(&path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_ones_are_removed_and_all_others_left_alone() {
        let home = tempfile::tempdir_in(".").unwrap();
        let stale = home.path().join("blobwise-00000001");
        let unmarked = home.path().join("blobwise-00000002");
        let foreign = home.path().join("precious");
        for dir in [&stale, &unmarked, &foreign] {
            std::fs::create_dir(dir).unwrap();
        }
        let beginning = home.path().join("blobwise-00000003");
        std::fs::create_dir(&beginning).unwrap();
        std::fs::write(beginning.join(MARK), "").unwrap();
        std::fs::write(stale.join(MARK), "A run of blobwise").unwrap();
        std::fs::write(foreign.join(MARK), "").unwrap();
        let running = Place::make(home.path()).unwrap();
        let second = Place::make(home.path()).unwrap();
        assert!(!stale.exists() && unmarked.exists() && foreign.exists() && beginning.exists());
        assert!(running.path().exists() && second.path().exists());
        let path = running.path().to_owned();
        drop(running);
        assert!(!path.exists() && second.path().exists());
    }

    #[test]
    fn a_directory_that_was_made_is_removed_again() {
        let home = tempfile::tempdir_in(".").unwrap();
        let dir = home.path().join("a/b");
        drop(Place::make(&dir).unwrap());
        assert!(!home.path().join("a").exists() && home.path().exists());
    }
}
