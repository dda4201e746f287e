//! Exclusive access to a directory for one blobwise process at a time.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// How often the table of locks is read before its holder counts as not shown.
const READS_OF_LOCKS: usize = 20;

/// A lock on a directory itself, without a lock file; the kernel releases it when this is dropped or the process ends.
#[derive(Debug)]
pub struct DirectoryLock {
    _dir: File,
}

impl DirectoryLock {
    /// Takes the lock, or fails with the process that holds it. On file systems without locks for directories (NFS) it excludes
    /// no one.
    pub fn take(dir: &Path) -> Result<DirectoryLock> {
        let opened = File::open(dir).with_context(|| format!("cannot open `{}`", dir.display()))?;
        if let Err(TryLockError::WouldBlock) = opened.try_lock() {
            bail!(
                "another run of blobwise{} writes to `{}`: wait until it has ended, or use another directory",
                holder(&opened).map(|process| format!(" (process {process})")).unwrap_or_default(),
                dir.display()
            );
        }
        // The former holder may have removed the directory.
        let same = |now: std::fs::Metadata| {
            opened.metadata().is_ok_and(|then| (now.dev(), now.ino()) == (then.dev(), then.ino()))
        };
        if !std::fs::metadata(dir).is_ok_and(same) {
            bail!("`{}` was removed by somebody else just now", dir.display());
        }
        Ok(DirectoryLock { _dir: opened })
    }
}

/// Finds the process that holds the lock on a file; `None` if `/proc/locks` does not show it.
fn holder(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    // `1: FLOCK  ADVISORY  WRITE 123 fe:00:456 0 EOF`
    let id = format!("{major:02x}:{minor:02x}:{}", metadata.ino());
    let holder_in = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, process, file, ..] = fields.as_slice() else { return None };
        (*file == id).then_some(*process)?.parse().ok()
    };
    // The kernel hands the table out by the page, and skips a lock at a page's edge when an earlier one is released in between.
    (0..READS_OF_LOCKS).find_map(|_| std::fs::read_to_string("/proc/locks").ok()?.lines().find_map(holder_in))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn the_holder_is_found_while_other_locks_come_and_go() {
        const LOCKS: usize = 300;
        const READS: usize = 400;
        let dir = tempfile::tempdir_in(".").unwrap();
        let file = |name: String| File::create(dir.path().join(name)).unwrap();
        let others: Vec<File> = (0..LOCKS).map(|at| file(format!("other-{at}"))).collect();
        let held = file("held".into());
        held.lock().unwrap();
        let over = AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    others.iter().for_each(|file| file.lock().unwrap());
                    others.iter().for_each(|file| file.unlock().unwrap());
                }
            });
            let found = (0..READS).filter(|_| holder(&held) == Some(std::process::id())).count();
            over.store(true, Ordering::Relaxed);
            found
        });
        // One read of the table misses it about once in fifty times.
        assert_eq!(found, READS);
    }

    #[test]
    fn a_directory_is_held_by_one_and_the_other_is_told_by_whom() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let held = DirectoryLock::take(dir.path()).unwrap();
        let error = DirectoryLock::take(dir.path()).unwrap_err().to_string();
        let named = format!("(process {}) writes to `{}`", std::process::id(), dir.path().display());
        assert!(error.contains(&named), "{error}");
        drop(held);
        DirectoryLock::take(dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left there");
    }
}
