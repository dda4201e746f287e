//! The supervisor process that stands between blobwise and a server and ends the server's whole process tree.
//!
//! Where the kernel allows a PID namespace, there are two supervisors: one outside, which makes the namespace, and one inside,
//! which is its first process and starts the server. When the first process of a namespace ends for any reason, the kernel kills
//! all others. The inner one dies with the outer one by a parent-death signal; the outer one has a single thread and keeps its
//! user, because the signal would be lost otherwise.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, getpid, set_parent_process_death_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde::{Deserialize, Serialize};

use super::processes::{ProcessHandle, is_ready_within, kill_below, own_parent};
use super::{AllowedPaths, Launch};

/// First argument of the program as a supervisor.
pub const SUPERVISE: &str = "__supervise";
/// First argument of the inner supervisor.
const SUPERVISE_INSIDE: &str = "__supervise-inside";
/// Line that blobwise sends when it holds a pidfd of the server. Until then the server is not reaped, so that its pid is not
/// reused.
pub(super) const HELD: &[u8; 5] = b"held\n";

/// Order to a supervisor: one line of JSON in its pipe.
#[derive(Serialize, Deserialize)]
struct LaunchRequest {
    log: OsString,
    program: OsString,
    arguments: Vec<OsString>,
    files: Option<AllowedPaths>,
    channel: Option<i32>,
}

/// Encodes the order to start `launch`.
pub(super) fn order(launch: &Launch) -> Result<Vec<u8>> {
    let order = LaunchRequest {
        log: launch.log.clone().into(),
        program: launch.program.into(),
        arguments: launch.arguments.clone(),
        files: launch.files.clone(),
        channel: launch.channel.map(|channel| channel.as_raw_fd()),
    };
    let mut line = serde_json::to_vec(&order)?;
    line.push(b'\n');
    Ok(line)
}

/// Runs as a supervisor if the command line says so: `__supervise NAME`. The name only serves people who list processes.
pub fn supervise_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next()?;
    let arguments: Vec<OsString> = arguments.collect();
    let outcome = match role.to_str()? {
        SUPERVISE => outside(&arguments),
        SUPERVISE_INSIDE => inside(&arguments),
        _ => return None,
    };
    Some(match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            answer(&format!("failed {}", format!("{error:#}").replace('\n', " ")));
            ExitCode::from(1)
        }
    })
}

fn answer(line: &str) {
    // Blobwise may be gone; the end of its pipe tells that.
    writeln!(std::io::stdout(), "{line}").ok();
}

// ---- outside -----------------------------------------------------------------------------------------------------

/// Runs the outer supervisor, which blobwise starts.
fn outside(arguments: &[OsString]) -> Result<u8> {
    // A session of its own: signals to the terminal's process group are not meant for a server.
    rustix::process::setsid().ok();
    // Waits without reading. When the order arrives, this process is in its control group, and so is everything that it starts.
    is_ready_within(&std::io::stdin(), Duration::MAX);
    if !makes_a_namespace()? {
        adopt_orphans();
        return keep(None);
    }
    // The very file that is running, even if it has been replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("blobwise").arg(SUPERVISE_INSIDE).arg(std::process::id().to_string()).args(arguments);
    command.stderr(Stdio::null());
    #[expect(clippy::disallowed_methods, reason = "the home of starting processes")]
    let inside = command.spawn().context("cannot start a second supervisor")?;
    close_what_was_handed_down();
    stand_by(inside)
}

/// Puts the processes started from now on into a PID namespace; false if that is refused.
#[expect(unsafe_code, reason = "unsharing is unsafe where tables of files are unshared")]
fn makes_a_namespace() -> Result<bool> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: no table of files is unshared, and there is no other thread.
    if unsafe { unshare_unsafe(UnshareFlags::NEWPID) }.is_ok() {
        return Ok(true);
    }
    // An unprivileged user may make one within a user namespace that maps its ids to themselves.
    // SAFETY: as above.
    if unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWPID) }.is_err() {
        return Ok(false);
    }
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        let path = format!("/proc/self/{file}");
        std::fs::write(&path, text).with_context(|| format!("cannot write `{path}`"))?;
    }
    Ok(true)
}

/// Closes inherited descriptors: the other end must see when the server closes its channel.
#[expect(unsafe_code, reason = "closing descriptors by number")]
fn close_what_was_handed_down() {
    const FIRST: libc::c_int = 3;
    // The C library has the call since glibc 2.34, and packages are made for older ones.
    // SAFETY: nothing in this process has a descriptor but the three standard streams.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    if closed == 0 {
        return;
    }
    // Kernels before 5.9 lack the call.
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let handed_down: Vec<libc::c_int> = numbers.filter(|number| *number >= FIRST).collect();
    for number in handed_down {
        // SAFETY: as above. Closing the directory's descriptor again fails, which does no harm.
        unsafe { libc::close(number) };
    }
}

/// Waits for the inner supervisor and returns its exit code. When blobwise is gone and the inner one does not end within two
/// seconds, this process exits, and the inner one dies with it.
fn stand_by(mut inside: Child) -> Result<u8> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let process = ProcessHandle::open(Pid::from_child(&inside))?;
    let stdin = std::io::stdin();
    // The inner supervisor reads the pipe; here only its end counts.
    let mut both = [PollFd::new(&stdin, PollFlags::empty()), PollFd::new(&process, PollFlags::IN)];
    while poll(&mut both, None) == Err(rustix::io::Errno::INTR) {}
    if !process.ends_within(PATIENCE) {
        bail!("the supervisor inside does not end");
    }
    let status = inside.wait()?;
    if status.signal().is_some() {
        // Dies by a signal as well, so that blobwise does not take it for an end of the server's.
        rustix::process::kill_process(getpid(), Signal::KILL)?;
    }
    Ok(status.code().unwrap_or(1) as u8)
}

// ---- inside ------------------------------------------------------------------------------------------------------

/// Runs the inner supervisor, the first process of a PID namespace.
fn inside(arguments: &[OsString]) -> Result<u8> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the death signal was set.
    if own_parent().map(|parent| parent.to_string()).as_deref()
        != arguments.first().and_then(|outside| outside.to_str())
    {
        bail!("the supervisor outside is gone");
    }
    keep(Some(ProcessHandle::open(getpid())?.number_in_proc()?))
}

/// Starts a server and ends when the server or blobwise does. `namespace` is our own pid as seen from outside; `None` if there is
/// no PID namespace, so that the server's processes must be killed here.
fn keep(namespace: Option<i32>) -> Result<u8> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let order = serde_json::from_str(&line).context("no order from blobwise")?;
    let code = start(&order).and_then(|server| watch(&server, namespace));
    if namespace.is_none() {
        kill_below(std::process::id() as i32);
    }
    code
}

/// Reports a started server, waits for its end and returns its exit code.
fn watch(server: &Child, namespace: Option<i32>) -> Result<u8> {
    let process = ProcessHandle::open(Pid::from_child(server))?;
    let number = process.number_in_proc()?;
    let (held, is_held) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .spawn(move || end_with_blobwise(&held, namespace.is_some()))
        .context("no thread for its supervisor")?;
    answer(&match namespace {
        Some(own) => format!("started {number} in {own}"),
        None => format!("started {number}"),
    });
    if is_held.recv().is_err() {
        bail!("blobwise is gone");
    }
    Ok(wait_for(process.pid()))
}

/// Reads the pipe until blobwise has closed it or died, and then ends everything.
fn end_with_blobwise(held: &Sender<()>, is_namespace: bool) {
    let mut stdin = std::io::stdin();
    if stdin.read_exact(&mut [0; HELD.len()]).is_ok() {
        held.send(()).ok();
        std::io::copy(&mut stdin, &mut std::io::sink()).ok();
    }
    if !is_namespace {
        kill_below(std::process::id() as i32);
    }
    #[expect(
        clippy::exit,
        clippy::disallowed_methods,
        reason = "the supervisor has nothing to clean up but this"
    )]
    std::process::exit(0)
}

#[expect(clippy::disallowed_methods, reason = "a part of the home of starting processes")]
fn start(order: &LaunchRequest) -> Result<Child> {
    let channel = order.channel.map(as_three_and_four).transpose()?;
    let log = File::options().create(true).append(true).open(&order.log).context("cannot open its log")?;
    let mut command = Command::new(&order.program);
    command.args(&order.arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // Apache signals its whole process group when it stops.
    command.process_group(0);
    in_a_user_namespace(&mut command);
    if let Some(files) = &order.files {
        files.confine(&mut command)?;
    }
    dies_with_its_supervisor(&mut command);
    let server = command.spawn().map_err(what_was_refused)?;
    // The other end must see when the server closes its channel.
    drop(channel);
    Ok(server)
}

/// Reaps all children that end until the server does, and returns its exit code.
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

#[expect(unsafe_code, reason = "prctl has no safe wrapper for subreapers")]
fn adopt_orphans() {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes a number and touches none of our memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1_u64) };
}

/// Has the kernel kill the command's main process when the supervisor ends. Must follow its last change of user, which would
/// cancel the signal.
#[expect(unsafe_code, reason = "what runs between fork and exec is unsafe to get wrong")]
fn dies_with_its_supervisor(command: &mut Command) {
    let supervisor = getpid();
    // SAFETY: system calls only; nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The supervisor may have died before the call above.
            if rustix::process::getppid() == Some(supervisor) {
                Ok(())
            } else {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
        });
    }
}

/// User and group that our ids are mapped to in a server's namespace. It must have an entry in the user database, which `initdb`
/// looks up.
const NOBODY: u32 = 65534;

/// Moves a descriptor to numbers 3 and 4, which child processes inherit.
#[expect(unsafe_code, reason = "descriptors are put where another program looks for them")]
fn as_three_and_four(number: i32) -> Result<[OwnedFd; 2]> {
    let failed = || std::io::Error::last_os_error();
    // SAFETY: this process has opened nothing but its standard streams yet, so 3 and 4 are free; both are owned from here on, and
    // the two others are closed once.
    unsafe {
        // Out of the way first: its number may be 3 or 4.
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

/// For root only: runs the command in a user namespace in which our ids are `nobody`'s. Where namespaces are refused, nothing is
/// started ([`what_was_refused`]): as the real `nobody` it could not enter our directories, and every other process of that
/// user's could interfere with it.
#[expect(unsafe_code, reason = "what runs between fork and exec is unsafe to get wrong")]
fn in_a_user_namespace(command: &mut Command) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (user, group) = (format!("{NOBODY} 0 1\n"), format!("{NOBODY} 0 1\n"));
    // SAFETY: only system calls on memory that was prepared before the fork; nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(move || {
            if libc::unshare(libc::CLONE_NEWUSER) != 0 {
                return Err(std::io::Error::from_raw_os_error(NO_NAMESPACE));
            }
            write_file(c"/proc/self/setgroups", b"deny")?;
            write_file(c"/proc/self/uid_map", user.as_bytes())?;
            write_file(c"/proc/self/gid_map", group.as_bytes())
        });
    }
}

/// Error number by which the child reports that user namespaces are refused; starting a program never fails with it.
const NO_NAMESPACE: i32 = libc::EUSERS;

/// Replaces [`NO_NAMESPACE`] by an explanation.
fn what_was_refused(error: std::io::Error) -> anyhow::Error {
    if error.raw_os_error() != Some(NO_NAMESPACE) {
        return error.into();
    }
    anyhow!(
        "the kernel refuses user namespaces, so that it would run as root; run blobwise as another user, or allow them \
         (`sysctl user.max_user_namespaces`)"
    )
}

/// Writes a small file with system calls only.
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
