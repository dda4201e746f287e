//! Disks of our own: images below loop devices, with file systems on them; and a file in user space below a loop device. That one
//! notes every write and every flush that the kernel sends, so that what the disk held at any moment, had the power gone, can be made
//! again.
//!
//! The loop driver turns a flush of the block layer into an fsync of its file: what the log has is what the kernel's
//! `dm-log-writes` would have.

mod extents;
mod faults;
mod file_system;
mod log;
mod loop_device;
mod made;
mod server;
mod watchdog;

use anyhow::{Context, Result};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{CapabilitySet, UnshareFlags, unshare_unsafe};

const WAY_OUT: &str = "a disk of our own needs the right to mount: run as root";

/// Gives this process and what it starts mounts of their own: the machine sees none of them, and they are gone with the last of
/// these processes, however it ends. An error says what it lacks.
#[expect(unsafe_code, reason = "unsharing is unsafe where tables of files are unshared")]
pub fn own_mounts() -> Result<()> {
    // SAFETY: no table of files is unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.context(WAY_OUT)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).context(WAY_OUT)
}

/// Why this process may not mount, if it may not.
pub fn why_not_mounted() -> Option<anyhow::Error> {
    let capabilities = rustix::thread::capabilities(None);
    let may = capabilities.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN));
    (!may).then(|| anyhow::anyhow!(WAY_OUT))
}

pub use extents::{Extent, extents};
pub use faults::{Answer, Asked, Failure, Faults, Switch};
pub use file_system::{FILLED_MAX, FileSystem, NoFileSystem, names, not_made};
pub use log::{Entry, Kind, Log};
pub use loop_device::LoopDevice;
pub use made::{OwnDisk, free_for_images};
pub use server::DiskFile;
