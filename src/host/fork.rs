//! Work in a copy of this process, which may be killed without ending it: as `fio` makes a process for each job.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, set_parent_process_death_signal, waitpid};

/// A copy of this process that is at work.
#[derive(Debug)]
pub struct Forked {
    pid: Pid,
}

impl Forked {
    /// Does `work` in a copy of this process, which ends with it, and dies with this one. An error where this process has more than
    /// one thread: what another one has locked would stay locked in the copy.
    pub fn begin(work: impl FnOnce()) -> Result<Forked> {
        Forked::copy(true, work)
    }

    /// The same for work that is to be done when this process has died, and only then.
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
        // SAFETY: there is one thread, so that no lock is held that nobody would give back in the copy. That does its work and ends
        // by `_exit`, so that nothing of this process is cleaned up twice.
        match unsafe { libc::fork() } {
            -1 => Err(std::io::Error::last_os_error()).context("cannot start a process of our own"),
            0 => {
                // A panic has said what it has to say.
                let work = std::panic::AssertUnwindSafe(|| {
                    if dies_with_this {
                        set_parent_process_death_signal(Some(Signal::KILL)).ok();
                    }
                    // It may have died before that.
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

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Ends it at once, without a word; who waits for it hears of that.
    pub fn end(&self) {
        rustix::process::kill_process(self.pid, Signal::KILL).ok();
    }

    /// Ends it at once, and waits for it: nobody else can.
    pub fn kill(&mut self) {
        self.end();
        waitpid(Some(self.pid), WaitOptions::empty()).ok();
    }

    /// Waits until it has ended, but not longer than this: then nothing.
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

    /// Waits until it has ended.
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

/// Numbers that a process and its forks see: memory is taken when it is written to.
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
    /// So many, all 0.
    #[expect(unsafe_code, reason = "shared memory is mapped by a system call")]
    pub fn new(words: usize) -> Result<SharedWords> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else is touched.
        let first = unsafe { libc::mmap(std::ptr::null_mut(), words * 8, access, kind, -1, 0) };
        ensure!(first != libc::MAP_FAILED, "no shared memory: {}", std::io::Error::last_os_error());
        Ok(SharedWords { first, words })
    }

    /// The numbers.
    #[expect(unsafe_code, reason = "shared memory is a pointer")]
    pub fn get(&self) -> &[AtomicU64] {
        // SAFETY: mapped with this length as long as `self` lives, zeroed, and read and written as these only.
        unsafe { std::slice::from_raw_parts(self.first.cast::<AtomicU64>(), self.words) }
    }

    /// Puts bytes there, from a word on, at the speed of memory. Who reads them is told by another word that they are there. Panics
    /// where there are not so many words.
    #[expect(unsafe_code, reason = "bytes are copied as they lie")]
    pub fn put(&self, word: usize, bytes: &[u8]) {
        let words = &self.get()[word..word + bytes.len().div_ceil(8)];
        // SAFETY: these words have room for the bytes, are mapped as long as `self` lives, and are no part of `bytes`, which is borrowed
        // from elsewhere. Nobody reads them before another word says that they are there.
        unsafe {
            let to = words.as_ptr().cast::<u8>().cast_mut();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// Copies bytes that were put there. Panics where there are not so many words.
    #[expect(unsafe_code, reason = "bytes are copied as they lie")]
    pub fn copy_to(&self, word: usize, bytes: &mut [u8]) {
        let words = &self.get()[word..word + bytes.len().div_ceil(8)];
        // SAFETY: these words hold so many bytes, are mapped as long as `self` lives, and are no part of `bytes`. Nobody changes them
        // once another word has said that they are there.
        unsafe {
            let from = words.as_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
        }
    }
}

impl Drop for SharedWords {
    #[expect(unsafe_code, reason = "shared memory is unmapped by a system call")]
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and nobody has a reference any more.
        unsafe { libc::munmap(self.first, self.words * 8) };
    }
}

/// A flag that a process and its forks see.
#[derive(Debug)]
pub struct SharedFlag(SharedWords);

impl SharedFlag {
    /// One that is not set.
    pub fn new() -> Result<SharedFlag> {
        SharedWords::new(1).map(SharedFlag)
    }

    /// The flag.
    #[expect(unsafe_code, reason = "a flag is a part of a number")]
    pub fn get(&self) -> &AtomicBool {
        // SAFETY: the word is mapped and zeroed, as long as `self` lives, and read and written as this flag only.
        unsafe { &*self.0.first.cast::<AtomicBool>() }
    }
}
