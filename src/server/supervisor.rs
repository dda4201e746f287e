//! The program as a supervisor: what stands between blobwise and a server, and ends the server's whole tree.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::processes::tree;
use super::{Files, Launch, secrets};

/// First argument of the program as a supervisor.
pub const SUPERVISE: &str = "__supervise";

/// What a supervisor is told, in one line through its pipe.
#[derive(Serialize, Deserialize)]
struct Order {
    log: OsString,
    program: OsString,
    arguments: Vec<OsString>,
    secrets: Vec<usize>,
    files: Option<Files>,
    channel: Option<i32>,
}

/// The line that tells a supervisor what to start.
pub(super) fn order(launch: &Launch) -> Result<Vec<u8>> {
    let order = Order {
        log: launch.log.clone().into(),
        program: launch.program.into(),
        arguments: launch.arguments.clone(),
        secrets: launch.secrets.clone(),
        files: launch.files.clone(),
        channel: launch.channel.map(|channel| channel.as_raw_fd()),
    };
    let mut line = serde_json::to_vec(&order)?;
    line.push(b'\n');
    Ok(line)
}

/// Acts as a supervisor if the command line says so: `__supervise NAME`. The name is for whoever looks at processes.
pub fn supervise_if_asked() -> Option<std::process::ExitCode> {
    if std::env::args_os().nth(1)? != SUPERVISE {
        return None;
    }
    Some(match supervise() {
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

fn supervise() -> Result<u8> {
    // A session of its own: Apache signals its whole process group when it stops.
    rustix::process::setsid().ok();
    adopt_orphans();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let server = start_as_ordered(&serde_json::from_str(&line).context("no order from blobwise")?)?;
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

fn start_as_ordered(order: &Order) -> Result<Child> {
    let channel = order.channel.map(as_three_and_four).transpose()?;
    let log = File::options().create(true).append(true).open(&order.log).context("cannot open its log")?;
    let mut command = Command::new(&order.program);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    in_a_user_namespace(&mut command);
    if let Some(files) = &order.files {
        files.confine(&mut command)?;
    }
    let server = secrets::spawn(command, &order.arguments, &order.secrets)?;
    // The other end is to see when the server closes it.
    drop(channel);
    Ok(server)
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

/// Moves a descriptor to numbers 3 and 4, which whatever is started inherits.
#[expect(unsafe_code, reason = "descriptors are put where another program looks for them")]
fn as_three_and_four(number: i32) -> Result<[OwnedFd; 2]> {
    let failed = || std::io::Error::last_os_error();
    // SAFETY: this process has opened nothing but its standard streams yet, so that 3 and 4 are nobody's; both are owned from here
    // on, and the two others are closed once.
    unsafe {
        // Out of the way first: it may be one of the two.
        let spare = match libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 10) {
            -1 => return Err(failed().into()),
            spare => OwnedFd::from_raw_fd(spare),
        };
        libc::close(number);
        for place in [3, 4] {
            if libc::dup2(spare.as_raw_fd(), place) != place {
                return Err(failed().into());
            }
        }
        Ok([3, 4].map(|place| OwnedFd::from_raw_fd(place)))
    }
}

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
            // Groups that are kept would open what they may read, whatever the user.
            if libc::setgroups(0, std::ptr::null()) != 0
                || libc::setgid(NOBODY) != 0
                || libc::setuid(NOBODY) != 0
            {
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
