//! A detached file system in memory: only this process has it, and it is gone when its descriptor is closed.
//!
//! No path leads to it, so nothing is left to unmount, however this process ends. A server that serves its files inherits the
//! descriptor.

use std::fs::File;
use std::os::fd::AsFd;

use anyhow::{Context, bail};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::units;

/// Makes a file system of at most `bytes_max` bytes; an error if less memory is free.
pub(in crate::stores) fn make(bytes_max: u64) -> anyhow::Result<File> {
    let free = available_bytes()?;
    if bytes_max > free {
        let (need, free) = (units::bytes(bytes_max as f64), units::bytes(free as f64));
        bail!(
            "a file system in memory may need {need}, and {free} of memory are free; use a smaller --corpus-bytes"
        );
    }
    mounted(bytes_max).map_err(|errno| match errno {
        Errno::PERM | Errno::ACCESS => anyhow::Error::new(errno).context(
            "a file system in memory cannot be made: mounting is not allowed here; it takes root with CAP_SYS_ADMIN",
        ),
        errno => anyhow::Error::new(errno).context("a file system in memory cannot be made"),
    })
}

fn mounted(bytes_max: u64) -> rustix::io::Result<File> {
    let options = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let settings =
        [("size", bytes_max.to_string()), ("nr_inodes", "0".to_owned()), ("mode", "755".to_owned())];
    for (name, value) in settings {
        rustix::mount::fsconfig_set_string(options.as_fd(), name, value)?;
    }
    rustix::mount::fsconfig_create(options.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mount = rustix::mount::fsmount(options.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    // Reopens the root: a mount descriptor cannot be flushed and listed like a directory.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&mount, ".", flags, rustix::fs::Mode::empty())?.into())
}

/// Memory of its files in bytes: whole pages, without the kernel's dentries and inodes.
pub(in crate::stores) fn memory_bytes(directory: &File) -> rustix::io::Result<u64> {
    let space = rustix::fs::fstatvfs(directory)?;
    Ok(space.f_blocks.saturating_sub(space.f_bfree).saturating_mul(space.f_frsize))
}

/// Why this machine cannot make one; `None` if it can.
pub(in crate::stores) fn refusal() -> Option<anyhow::Error> {
    make(1 << 20).err()
}

/// Memory available without swapping.
fn available_bytes() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("cannot read `/proc/meminfo`")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("`/proc/meminfo` does not say what is available")? << 10)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_files_take_is_counted() {
        // Where mounting is not allowed, there is nothing to test.
        let Ok(directory) = make(16 << 20) else { return };
        let empty = memory_bytes(&directory).unwrap();
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CREATE | rustix::fs::OFlags::CLOEXEC;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let mut file: File = rustix::fs::openat(&directory, "file", flags, mode).unwrap().into();
        file.write_all(&vec![1_u8; 1 << 20]).unwrap();
        assert!(memory_bytes(&directory).unwrap() >= empty + (1 << 20));
    }
}
