//! A loop device: a block device of the kernel on top of a file.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::host::machine;

/// A loop device on a file. The kernel frees it when it is dropped or its last user dies (autoclear).
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    device: File,
    mounted: Option<PathBuf>,
}

/// Requests and flags of the ioctls (`linux/loop.h`).
const CTL_GET_FREE: libc::c_ulong = 0x4C82;
const CONFIGURE: libc::c_ulong = 0x4C0A;
const CLEAR: libc::c_ulong = 0x4C01;
/// Request to write and forget the buffers of a block device (`linux/fs.h`).
const FLUSH_BUFFERS: libc::c_ulong = 0x1261;
const AUTOCLEAR: u32 = 4;
const DIRECT: u32 = 16;

/// `struct loop_config`, with only the fields that are set here.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    before_flags: [u64; 5],
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    names: [u8; 128],
    key: [u8; 32],
    init: [u64; 2],
}

#[expect(unsafe_code, reason = "loop devices are made by ioctl")]
fn ioctl(of: BorrowedFd<'_>, request: libc::c_ulong, argument: *const LoopConfig) -> std::io::Result<i32> {
    // SAFETY: the requests above read a `LoopConfig` or nothing from `argument`, which lives during the call.
    match unsafe { libc::ioctl(of.as_raw_fd(), request as _, argument) } {
        -1 => Err(std::io::Error::last_os_error()),
        value => Ok(value),
    }
}

impl LoopDevice {
    /// Attaches a device to a file, with buffered I/O.
    pub fn attach(file: &Path) -> Result<LoopDevice> {
        LoopDevice::attach_file(&File::options().read(true).write(true).open(file)?, false)
    }

    /// Attaches a device to an open file; with `is_direct` it bypasses the file's page cache if the file system supports that.
    pub fn attach_file(backing: &File, is_direct: bool) -> Result<LoopDevice> {
        /// Another process may take the free device first.
        const TRIES: usize = 100;
        let control = File::options().read(true).write(true).open("/dev/loop-control");
        let control = control.context(
            "no loop devices (`/dev/loop-control`): load their module (`modprobe loop`), and give a container the devices",
        )?;
        let mut flags = if is_direct { AUTOCLEAR | DIRECT } else { AUTOCLEAR };
        for _ in 0..TRIES {
            let number = ioctl(control.as_fd(), CTL_GET_FREE, std::ptr::null()).context(
                "no free loop device: `losetup` lists those in use, and the module's `max_loop` is the most",
            )?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = File::options().read(true).write(true).open(&path);
            let device = device.with_context(|| {
                format!("`{}` cannot be opened (a container must be given the devices)", path.display())
            })?;
            let info = LoopInfo {
                before_flags: [0; 5],
                number: 0,
                encrypt_type: 0,
                encrypt_key_size: 0,
                flags,
                names: [0; 128],
                key: [0; 32],
                init: [0; 2],
            };
            let config =
                LoopConfig { fd: backing.as_raw_fd() as u32, block_size: 512, info, reserved: [0; 8] };
            match ioctl(device.as_fd(), CONFIGURE, &raw const config) {
                Ok(_) => return Ok(LoopDevice { path, device, mounted: None }),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && flags != AUTOCLEAR => {
                    flags = AUTOCLEAR;
                }
                Err(error) => return Err(error).context("no loop device on the file"),
            }
        }
        anyhow::bail!("others took every free loop device")
    }

    /// Path of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Name in the kernel: `loop0`.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Device number, as `7:0`.
    pub fn number(&self) -> std::io::Result<String> {
        let told = std::fs::read_to_string(format!("/sys/block/{}/dev", self.name()))?;
        Ok(told.trim().to_owned())
    }

    /// True if the device bypasses the page cache of its file.
    pub fn is_direct(&self) -> bool {
        let told = std::fs::read_to_string(format!("/sys/block/{}/loop/dio", self.name()));
        told.is_ok_and(|told| told.trim() == "1")
    }

    /// Mounts its file system with `noatime`.
    pub fn mount(&mut self, kind: &str, on: &Path, options: &str) -> Result<()> {
        self.mount_with(kind, on, options, rustix::mount::MountFlags::NOATIME)
    }

    /// Mounts its file system with the kernel's default flags.
    pub fn mount_plainly(&mut self, kind: &str, on: &Path, options: &str) -> Result<()> {
        self.mount_with(kind, on, options, rustix::mount::MountFlags::empty())
    }

    fn mount_with(
        &mut self,
        kind: &str,
        on: &Path,
        options: &str,
        flags: rustix::mount::MountFlags,
    ) -> Result<()> {
        self.mount_on(kind, on, options, flags)?;
        self.mounted = Some(on.to_owned());
        Ok(())
    }

    fn mount_on(&self, kind: &str, on: &Path, options: &str, flags: rustix::mount::MountFlags) -> Result<()> {
        let options = std::ffi::CString::new(options)?;
        rustix::mount::mount(&self.path, on, kind, flags, Some(options.as_c_str()))
            .with_context(|| format!("`{}` cannot be mounted as {kind}", self.path.display()))
    }

    /// Unmounts its file system, does `work`, and mounts it again as [`LoopDevice::mount_plainly`] does, whether or not the work
    /// failed. While it is busy it stays mounted, and nothing is done. If it cannot be mounted again, its directory stays empty.
    pub fn while_unmounted<T>(
        &self,
        kind: &str,
        options: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let on = self.mounted.as_deref().context("the disk is not mounted")?;
        unmount_from(on)?;
        let done = work();
        self.mount_on(kind, on, options, rustix::mount::MountFlags::empty())?;
        done
    }

    /// Writes the kernel's buffers of the device and forgets them, so that its file can be read and changed.
    pub fn flush_buffers(&self) -> Result<()> {
        ioctl(self.device.as_fd(), FLUSH_BUFFERS, std::ptr::null())
            .with_context(|| format!("the buffers of `{}` cannot be written", self.path.display()))?;
        Ok(())
    }

    /// Unmounts it if it is mounted, which writes all dirty data. Waits up to 20 s while it is busy, for processes that are
    /// ending.
    pub fn unmount(&mut self) -> Result<()> {
        let Some(on) = self.mounted.take() else { return Ok(()) };
        unmount_from(&on).inspect_err(|_| {
            // Detaches the mount: it disappears now, and remaining users keep it until they close their files.
            rustix::mount::unmount(&on, rustix::mount::UnmountFlags::DETACH).ok();
        })
    }
}

/// Unmounts a directory. Waits up to 20 s while it is busy; if it still is then, it stays mounted.
fn unmount_from(on: &Path) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let begin = machine::uptime();
    loop {
        match rustix::mount::unmount(on, rustix::mount::UnmountFlags::empty()) {
            Err(rustix::io::Errno::BUSY) if machine::uptime() - begin < PATIENCE => {
                std::thread::sleep(Duration::from_millis(2));
            }
            ended => return ended.with_context(|| format!("`{}` cannot be unmounted", on.display())),
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Some(on) = self.mounted.take() {
            rustix::mount::unmount(&on, rustix::mount::UnmountFlags::DETACH).ok();
        }
        ioctl(self.device.as_fd(), CLEAR, std::ptr::null()).ok();
    }
}
