//! Watchdog process that aborts a disk's FUSE connection when the disk no longer answers. It is a process of its own because a
//! process that waits for the disk can do nothing else: a FUSE file below a loop device can hang when memory is short, and only
//! the end of its connection frees the waiting processes; not even SIGKILL does.

use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};

use super::own_mounts;
use crate::host::fork::{Forked, SharedWords};
use crate::host::machine;

/// Interval between looks at the deadline.
const LOOK: Duration = Duration::from_millis(20);
/// Directory in which the kernel shows FUSE connections, each with a file `abort`.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Shared word: deadline in milliseconds of the machine's uptime, or 0.
const DUE: usize = 0;
/// Shared word: number of the connection, or 0.
const CONNECTION: usize = 1;
/// Shared word: 1 if the connection was aborted.
const BITTEN: usize = 2;
const WORDS: usize = 3;

/// Handle of the watchdog process, which is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Forked,
    words: std::sync::Arc<SharedWords>,
}

fn milliseconds() -> u64 {
    machine::uptime().as_millis() as u64
}

impl Watchdog {
    /// Starts a watchdog that watches nothing yet. This process must have one thread.
    pub(super) fn begin() -> Result<Watchdog> {
        let words = std::sync::Arc::new(SharedWords::new(WORDS)?);
        let process = Forked::begin(|| watch(&words))?;
        Ok(Watchdog { process, words })
    }

    /// Watches the connection of the file system that is mounted on a directory.
    pub(super) fn watch(&self, mounted: &Path) -> Result<()> {
        let facts = std::fs::metadata(mounted).context("the file in user space is not there")?;
        let number = u64::from(rustix::fs::minor(facts.st_dev()));
        self.words.get()[CONNECTION].store(number, Ordering::SeqCst);
        Ok(())
    }

    /// Aborts the connection after `patience`, unless the deadline is moved before.
    pub(super) fn bite_in(&self, patience: Duration) {
        let due = milliseconds() + (patience.as_millis() as u64).max(1);
        self.words.get()[DUE].store(due, Ordering::SeqCst);
    }

    pub(super) fn has_bitten(&self) -> bool {
        self.words.get()[BITTEN].load(Ordering::SeqCst) > 0
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.process.kill();
    }
}

/// Main loop of the watchdog's process; ends when the connection was aborted.
fn watch(words: &SharedWords) {
    let word = |index: usize| words.get()[index].load(Ordering::SeqCst);
    // A mount namespace of its own, so that it does not keep later mounts alive.
    if own_mounts().is_err() {
        return;
    }
    let is_shown = std::fs::read_dir(CONNECTIONS).is_ok_and(|mut entries| entries.next().is_some());
    if !is_shown {
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("fusectl", CONNECTIONS, "fusectl", flags, None).ok();
    }
    loop {
        std::thread::sleep(LOOK);
        let (due, connection) = (word(DUE), word(CONNECTION));
        if due > 0 && connection > 0 && milliseconds() >= due {
            let ended = std::fs::write(format!("{CONNECTIONS}/{connection}/abort"), "1");
            words.get()[BITTEN].store(u64::from(ended.is_ok()), Ordering::SeqCst);
            if ended.is_ok() {
                return;
            }
        }
    }
}
