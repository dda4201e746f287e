//! Private disks. One kind is a file system on images below loop devices. The other is a FUSE file below a loop device, which
//! logs every write and flush that the kernel sends, so that the contents after a power cut at any moment can be reconstructed.
//!
//! The loop driver turns a flush of the block layer into an fsync of its file, so the log has what the kernel's `dm-log-writes`
//! would have.

mod defragment;
mod extents;
mod faults;
mod file_system;
mod image_copy;
mod log;
mod loop_device;
mod made;
mod server;
mod watchdog;

use anyhow::{Context, Result};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{CapabilitySet, UnshareFlags, unshare_unsafe};

use crate::host::machine::path_space;

const WAY_OUT: &str = "a disk of our own needs the right to mount: run as root";

/// Gives this process and its children a private mount namespace: the rest of the machine sees none of its mounts, and they end
/// with the last of these processes. An error says what is missing.
#[expect(unsafe_code, reason = "unsharing is unsafe where tables of files are unshared")]
pub fn own_mounts() -> Result<()> {
    // Later runs know what this one leaves behind by the namespace that they share.
    path_space();
    // SAFETY: no table of files is unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.context(WAY_OUT)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).context(WAY_OUT)
}

/// Returns why this process may not mount; `None` if it may.
pub fn why_not_mounted() -> Option<anyhow::Error> {
    let capabilities = rustix::thread::capabilities(None);
    let may = capabilities.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN));
    (!may).then(|| anyhow::anyhow!(WAY_OUT))
}

pub use defragment::{DEFRAGMENTER, defragment, why_not_defragmented};
pub use extents::{Extent, extents, fragments};
pub use faults::{DiskError, Failure, Faults, RequestKind, Switch};
pub use file_system::{FILLED_MAX, FileSystem, NoFileSystem, names, not_made, why_not_of_kernel};
pub use image_copy::ImageCopy;
pub use log::{Log, LogEntry, LogEntryKind};
pub use loop_device::LoopDevice;
pub use made::{OwnDisk, free_for_images};
pub use server::DiskFile;
