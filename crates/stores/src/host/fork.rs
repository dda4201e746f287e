//! Forks of this process: work in a copy that can be killed without ending the program, as `fio` has a process for each job.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, set_parent_process_death_signal, waitpid};

/// A forked copy of this process.
#[derive(Debug)]
pub struct Forked {
    pid: Pid,
}

impl Forked {
    /// Runs `work` in a fork, which exits when the work is done and is killed when this process dies. Fails if this process has
    /// more than one thread: locks held by another thread would stay locked in the fork.
    pub fn begin(work: impl FnOnce()) -> Result<Forked> {
        Forked::copy(true, work)
    }

    /// Like [`Forked::begin`], but the fork survives this process: for cleaning up after its death.
    pub fn outliving(work: impl FnOnce()) -> Result<Forked> {
        Forked::copy(false, work)
    }

    #[expect(unsafe_code, reason = "forking has no safe wrapper")]
    fn copy(dies_with_this: bool, work: impl FnOnce()) -> Result<Forked> {
        let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        ensure!(
            threads == 1,
            "{threads} threads of this program are at work, and a copy of it would have one"
        );
        let parent = getpid();
        // SAFETY: there is one thread, so no lock is held that the fork could never release. The fork does its work and ends by
        // `_exit`, so nothing of this process is cleaned up twice.
        match unsafe { libc::fork() } {
            -1 => Err(std::io::Error::last_os_error()).context("cannot start a process of our own"),
            0 => {
                // The panic hook has already printed the message.
                let work = std::panic::AssertUnwindSafe(|| {
                    if dies_with_this {
                        set_parent_process_death_signal(Some(Signal::KILL)).ok();
                    }
                    // The parent may have died before the call above.
                    if !dies_with_this || getppid() == Some(parent) {
                        work();
                    }
                });
                std::panic::catch_unwind(work).ok();
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(0) }
            }
            child => Ok(Forked { pid: Pid::from_raw(child).context("no process")? }),
        }
    }

    /// Process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Kills the fork without waiting for it; a waiter sees the exit status.
    pub fn end(&self) {
        rustix::process::kill_process(self.pid, Signal::KILL).ok();
    }

    /// Kills the fork and waits for it: no one else can reap it.
    pub fn kill(&mut self) {
        self.end();
        waitpid(Some(self.pid), WaitOptions::empty()).ok();
    }

    /// Waits up to `patience` for the fork to end; `None` if it is still running.
    pub fn wait_for(&mut self, patience: std::time::Duration) -> Result<Option<ExitStatus>> {
        let begin = super::machine::uptime();
        loop {
            match waitpid(Some(self.pid), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => return Ok(Some(ExitStatus::from_raw(status.as_raw()))),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if super::machine::uptime() - begin > patience {
                return Ok(None);
            }
            std::thread::sleep(std::time::Duration::from_micros(500));
        }
    }

    /// Waits until the fork has ended.
    pub fn wait(self) -> Result<ExitStatus> {
        loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                ended => {
                    let (_, status) = ended?.context("no process")?;
                    return Ok(ExitStatus::from_raw(status.as_raw()));
                }
            }
        }
    }
}

/// Array of atomic integers in memory that a process shares with its forks. Pages are allocated when first written to.
#[derive(Debug)]
pub struct SharedWords {
    first: *mut libc::c_void,
    words: usize,
}

// SAFETY: the words are atomic, and mapped as long as this lives.
#[expect(unsafe_code, reason = "shared memory is a pointer")]
unsafe impl Send for SharedWords {}
// SAFETY: the same.
#[expect(unsafe_code, reason = "shared memory is a pointer")]
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps `words` integers, all 0.
    #[expect(unsafe_code, reason = "shared memory is mapped by a system call")]
    pub fn new(words: usize) -> Result<SharedWords> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else is touched.
        let first = unsafe { libc::mmap(std::ptr::null_mut(), words * 8, access, kind, -1, 0) };
        ensure!(first != libc::MAP_FAILED, "no shared memory: {}", std::io::Error::last_os_error());
        Ok(SharedWords { first, words })
    }

    /// Returns the integers.
    #[expect(unsafe_code, reason = "shared memory is a pointer")]
    pub fn get(&self) -> &[AtomicU64] {
        // SAFETY: mapped with this length as long as `self` lives, zeroed, and read and written as these only.
        unsafe { std::slice::from_raw_parts(self.first.cast::<AtomicU64>(), self.words) }
    }

    /// Copies bytes into the array, starting at a word, at memory speed. The writer must publish them to readers through another
    /// word. Panics if the array is too short.
    #[expect(unsafe_code, reason = "bytes are copied as they lie")]
    pub fn put(&self, word: usize, bytes: &[u8]) {
        let words = &self.get()[word..word + bytes.len().div_ceil(8)];
        // SAFETY: these words have room for the bytes, are mapped as long as `self` lives, and do not overlap `bytes`, which is
        // borrowed from elsewhere. No one reads them before another word publishes them.
        unsafe {
            let to = words.as_ptr().cast::<u8>().cast_mut();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// Copies bytes that [`SharedWords::put`] has written. Panics if the array is too short.
    #[expect(unsafe_code, reason = "bytes are copied as they lie")]
    pub fn copy_to(&self, word: usize, bytes: &mut [u8]) {
        let words = &self.get()[word..word + bytes.len().div_ceil(8)];
        // SAFETY: these words hold that many bytes, are mapped as long as `self` lives, and do not overlap `bytes`. No one
        // changes them once another word has published them.
        unsafe {
            let from = words.as_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
        }
    }
}

impl Drop for SharedWords {
    #[expect(unsafe_code, reason = "shared memory is unmapped by a system call")]
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and no reference is left.
        unsafe { libc::munmap(self.first, self.words * 8) };
    }
}

/// A flag that a process shares with its forks.
#[derive(Debug)]
pub struct SharedFlag(SharedWords);

impl SharedFlag {
    /// Creates a flag that is not set.
    pub fn new() -> Result<SharedFlag> {
        SharedWords::new(1).map(SharedFlag)
    }

    /// Returns the flag.
    #[expect(unsafe_code, reason = "a flag is a part of a number")]
    pub fn get(&self) -> &AtomicBool {
        // SAFETY: the word is mapped and zeroed, as long as `self` lives, and read and written as this flag only.
        unsafe { &*self.0.first.cast::<AtomicBool>() }
    }
}
