//! This program started anew for one piece of work: it is told one thing, says one thing, and ends with whoever started it.
//!
//! What needs one thread, or mounts of its own, cannot be done by a program that has begun its work: a copy of it would lack the
//! other threads and keep what they had locked.

use std::io::{BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setsid};

use super::server::own_program;

/// Kills the helper on all ways out: what it started dies with it.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Has a helper do what `role` stands for as `order` says, in one line, and returns what it says. Nothing where `stop` was set
/// before it had.
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

/// The order of a helper with this role, if the command line says that this is one. From then on it dies with whoever started it,
/// and no terminal's signals are meant for it.
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
    // It may have died before that.
    getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent).then_some(order)
}
