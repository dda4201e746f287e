//! What takes a disk away that does not answer any more: a process of its own, because who waits for the disk cannot do anything
//! else. A file in user space below a loop device can hang where memory is short, and nothing but the end of its connection frees
//! who waits for it, not even SIGKILL.

use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};

use super::own_mounts;
use crate::host::fork::{Forked, SharedWords};
use crate::host::machine;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(20);
/// Where the kernel shows the connections, each with a file `abort`.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// The words that it shares with who waits: when it is due, by the machine's uptime in milliseconds, or 0.
const DUE: usize = 0;
/// The connection's number, or 0.
const CONNECTION: usize = 1;
/// Whether it ended the connection.
const BITTEN: usize = 2;
const WORDS: usize = 3;

/// See the file. It is there as long as this lives.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Forked,
    words: std::sync::Arc<SharedWords>,
}

fn milliseconds() -> u64 {
    machine::uptime().as_millis() as u64
}

impl Watchdog {
    /// One that watches nothing yet. This process must have one thread.
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

    /// Ends the connection in so long from now, unless it is told so again before.
    pub(super) fn bite_in(&self, patience: Duration) {
        let due = milliseconds() + (patience.as_millis() as u64).max(1);
        self.words.get()[DUE].store(due, Ordering::SeqCst);
    }

    /// Whether it ended the connection.
    pub(super) fn has_bitten(&self) -> bool {
        self.words.get()[BITTEN].load(Ordering::SeqCst) > 0
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.process.kill();
    }
}

/// What its process does, until it is killed or has bitten.
fn watch(words: &SharedWords) {
    let word = |index: usize| words.get()[index].load(Ordering::SeqCst);
    // Mounts of its own: it keeps none that is made later from going.
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
