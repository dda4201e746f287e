//! Arguments hidden from other users of the machine, for programs that accept a secret in no other way.
//!
//! Every user can read a command line, but only the owner can read a process's environment. So the program starts with a
//! placeholder for each secret and with the secrets in its environment, and is stopped by ptrace before its first instruction.
//! Then its argument pointers, which the kernel does not look at, are redirected to the secrets. The secrets are visible at no
//! moment.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, WaitOptions};

use super::processes::Process;

/// Placeholder that the command line shows.
const SHOWN: &str = "hidden";
const WORD_BYTES: u64 = size_of::<usize>() as u64;

/// Starts a program, hiding the arguments with the indexes in `secrets`.
pub(super) fn spawn(mut command: Command, arguments: &[OsString], secrets: &[usize]) -> Result<Child> {
    let mut shown = arguments.to_vec();
    for place in secrets {
        if let (Some(secret), Some(shown)) = (arguments.get(*place), shown.get_mut(*place)) {
            command.env(variable(*place), secret);
            *shown = SHOWN.into();
        }
    }
    command.args(shown);
    if secrets.is_empty() {
        return start(command);
    }
    stop_at_its_beginning(&mut command);
    let mut child = start(command)?;
    let outcome = point_at_secrets(&child, secrets);
    if outcome.is_err() {
        child.kill().and_then(|()| child.wait()).ok();
    }
    outcome.context("its secrets cannot be kept out of its command line on this machine").map(|()| child)
}

#[expect(clippy::disallowed_methods, reason = "a part of the home of starting processes")]
fn start(mut command: Command) -> Result<Child> {
    Ok(command.spawn()?)
}

fn variable(place: usize) -> String {
    format!("BLOBWISE_ARGUMENT_{place}")
}

/// Has the program traced by its parent: it stops as soon as it is loaded.
#[expect(unsafe_code, reason = "what runs between fork and exec is unsafe to get wrong")]
fn stop_at_its_beginning(command: &mut Command) {
    // SAFETY: one system call on numbers.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

/// Waits until the program is loaded, redirects its argument pointers, and lets it run.
#[expect(unsafe_code, reason = "ptrace has no safe wrapper")]
fn point_at_secrets(child: &Child, secrets: &[usize]) -> Result<()> {
    let pid = child.id() as i32;
    match rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::UNTRACED)? {
        Some((_, status)) if status.stopped() => {}
        _ => bail!("it ended before it was loaded"),
    }
    // `/proc` may belong to an outer PID namespace, in which its number differs.
    let number = Process::of(Pid::from_child(child))?.number_in_proc()?;
    let memory = File::options().read(true).write(true).open(format!("/proc/{number}/mem"))?;
    Stack { memory, top: top_of_stack(number)? }.point_at_secrets(secrets)?;
    // SAFETY: detaches from a child that we stopped; touches none of our memory.
    match unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, 0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

/// Address of the program's initial stack, from the 28th field of proc(5)'s `stat`.
fn top_of_stack(pid: i32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain anything; what follows begins with the third field.
    let field = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(25));
    field
        .and_then(|field| field.parse().ok())
        .filter(|top| *top != 0)
        .context("the kernel does not say where its stack is")
}

/// Initial stack of a program: argument count, argument pointers, zero, environment pointers, zero.
struct Stack {
    memory: File,
    top: u64,
}

impl Stack {
    fn point_at_secrets(&self, secrets: &[usize]) -> Result<()> {
        let arguments = self.top + WORD_BYTES;
        let environment = arguments + (self.word(self.top)? + 1) * WORD_BYTES;
        for place in secrets {
            // The first argument is the program's name.
            let slot = arguments + (*place as u64 + 1) * WORD_BYTES;
            if !self.begins_with(self.word(slot)?, SHOWN)? {
                bail!("its arguments are not where they should be");
            }
            let secret = self.variable(environment, &format!("{}=", variable(*place)))?;
            self.memory.write_all_at(&(secret as usize).to_ne_bytes(), slot)?;
        }
        Ok(())
    }

    /// Finds the environment entry that begins with `begin` and returns the address of its value.
    fn variable(&self, environment: u64, begin: &str) -> Result<u64> {
        let mut slot = environment;
        loop {
            match self.word(slot)? {
                0 => bail!("its environment is not where it should be"),
                text if self.begins_with(text, begin)? => return Ok(text + begin.len() as u64),
                _ => slot += WORD_BYTES,
            }
        }
    }

    fn word(&self, at: u64) -> Result<u64> {
        let mut bytes = [0; size_of::<usize>()];
        self.memory.read_exact_at(&mut bytes, at)?;
        Ok(usize::from_ne_bytes(bytes) as u64)
    }

    fn begins_with(&self, at: u64, begin: &str) -> Result<bool> {
        let mut bytes = vec![0; begin.len()];
        // A text shorter than `begin` may be at the end of the stack, where the read fails.
        Ok(self.memory.read_exact_at(&mut bytes, at).is_ok() && bytes == begin.as_bytes())
    }
}
