//! Helper processes: this program started again for one task. A helper reads one order, writes one answer and dies with its
//! parent.
//!
//! Work that needs a single thread, or mounts of its own, cannot be done in a fork of a program that already has threads: the
//! fork would lack the other threads and keep their locks.

use std::io::{BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setsid};

use super::server::own_program;

/// A helper process, killed when dropped; everything that it started dies with it.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Starts a helper with `role`, sends it `order` (one line) and returns its answer; `None` if `stop` was set before the answer
/// was complete.
pub fn done_by_helper(role: &str, order: &str, stop: &AtomicBool) -> Result<Option<String>> {
    const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let mut command = Command::new(own_program()?);
    command.arg0("blobwise").arg(role).arg(std::process::id().to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    #[expect(clippy::disallowed_methods, reason = "it dies with this process")]
    let mut helper = Helper(command.spawn().context("cannot start a process of our own")?);
    let mut input = helper.0.stdin.take().context("no pipe to a process of our own")?;
    writeln!(input, "{order}").context("a process of our own does not listen")?;
    let mut output = helper.0.stdout.take().context("no pipe from a process of our own")?;
    let (mut said, mut piece) = (Vec::new(), [0; 1 << 16]);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let ready = poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&LOOK));
        if matches!(ready, Ok(0) | Err(rustix::io::Errno::INTR)) {
            continue;
        }
        match output.read(&mut piece)? {
            0 => break,
            read => said.extend_from_slice(&piece[..read]),
        }
    }
    ensure!(!said.is_empty(), "a process of our own ended without a word");
    Ok(Some(String::from_utf8(said)?))
}

/// Returns the order of a helper with this role, or `None` if the command line is not that of one. From then on this process dies
/// with its parent, and no signals of a terminal reach it.
pub fn asked_to_help(role: &str) -> Option<String> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()?.to_str()? != role {
        return None;
    }
    let parent: i32 = arguments.next()?.to_str()?.parse().ok()?;
    set_parent_process_death_signal(Some(Signal::KILL)).ok()?;
    setsid().ok();
    let mut order = String::new();
    std::io::stdin().lock().read_line(&mut order).ok()?;
    // The parent may have died before the death signal was set.
    getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent).then_some(order)
}
