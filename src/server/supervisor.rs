//! The program as a supervisor: what stands between blobwise and a server, and ends the server's whole tree.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal};

use super::processes::tree;

/// First argument of the program as a supervisor.
pub const SUPERVISE: &str = "__supervise";

/// Acts as a supervisor if the command line says so: `__supervise LOG PROGRAM ARGUMENTS...`.
pub fn supervise_if_asked() -> Option<std::process::ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != SUPERVISE {
        return None;
    }
    let (log, program) = (arguments.next()?, arguments.next()?);
    Some(match supervise(Path::new(&log), &program, arguments) {
        Ok(code) => std::process::ExitCode::from(code),
        Err(error) => {
            answer(&format!("failed {}", format!("{error:#}").replace('\n', " ")));
            std::process::ExitCode::from(1)
        }
    })
}

fn answer(line: &str) {
    // Blobwise may be gone; the end of its pipe will say so.
    writeln!(std::io::stdout(), "{line}").ok();
}

fn supervise(log: &Path, program: &OsStr, arguments: impl Iterator<Item = OsString>) -> Result<u8> {
    // A session of its own: Apache signals its whole process group when it stops.
    rustix::process::setsid().ok();
    adopt_orphans();
    let mut go = [0; 3];
    std::io::stdin().read_exact(&mut go)?;
    let log = File::options().create(true).append(true).open(log).context("cannot open its log")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    in_a_user_namespace(&mut command);
    #[expect(clippy::disallowed_methods, reason = "the home of starting processes")]
    let server = command.spawn().map_err(|error| anyhow!("{error}"))?;
    let pid = server.id() as i32;
    answer(&format!("started {pid}"));
    std::thread::spawn(|| {
        // Nothing is ever sent after the first line: this returns when blobwise has closed the pipe or died.
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).ok();
        kill_all_children();
        #[expect(
            clippy::exit,
            clippy::disallowed_methods,
            reason = "the supervisor has nothing to clean up but this"
        )]
        std::process::exit(0)
    });
    let status = wait_for(pid);
    kill_all_children();
    Ok(status)
}

/// Reaps every child that ends until the server itself has, and returns its exit code.
fn wait_for(pid: i32) -> u8 {
    loop {
        match rustix::process::wait(rustix::process::WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended.as_raw_nonzero().get() == pid => {
                let status = ExitStatus::from_raw(status.as_raw());
                return status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8;
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return 1,
        }
    }
}

/// Kills the whole tree below this process. Whoever is orphaned meanwhile becomes our child, so that the next turn finds
/// it; whoever forks meanwhile too.
fn kill_all_children() {
    const TURNS: u32 = 200;
    let own = std::process::id() as i32;
    for _ in 0..TURNS {
        let below: Vec<i32> = tree(own).into_iter().filter(|pid| *pid != own).collect();
        if below.is_empty() {
            return;
        }
        for pid in below.into_iter().filter_map(Pid::from_raw) {
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[expect(unsafe_code, reason = "prctl has no safe wrapper for subreapers")]
fn adopt_orphans() {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes a number and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1_u64) };
}

/// The user and group that our own ids are called in a server's namespace: one that has an entry in the table of users,
/// which `initdb` looks up.
const NOBODY: u32 = 65534;

/// For root only: lets the command run in a user namespace in which our ids are `nobody`'s. Where namespaces are refused,
/// the command becomes `nobody` for real, and must be able to enter its directories.
#[expect(unsafe_code, reason = "what runs between fork and exec is unsafe to get wrong")]
fn in_a_user_namespace(command: &mut Command) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (user, group) = (format!("{NOBODY} 0 1\n"), format!("{NOBODY} 0 1\n"));
    // SAFETY: only system calls on memory that was prepared before the fork; nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(move || {
            if libc::unshare(libc::CLONE_NEWUSER) == 0 {
                write_file(c"/proc/self/setgroups", b"deny")?;
                write_file(c"/proc/self/uid_map", user.as_bytes())?;
                return write_file(c"/proc/self/gid_map", group.as_bytes());
            }
            if libc::setgid(NOBODY) != 0 || libc::setuid(NOBODY) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// Writes a whole small file with system calls only.
#[expect(unsafe_code, reason = "used between fork and exec, where the standard library's files may allocate")]
fn write_file(path: &std::ffi::CStr, bytes: &[u8]) -> std::io::Result<()> {
    // SAFETY: the path ends with a zero byte and `bytes` is as long as it says; the descriptor is closed below.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        let error = std::io::Error::last_os_error();
        libc::close(file);
        if written == bytes.len() as isize { Ok(()) } else { Err(error) }
    }
}
