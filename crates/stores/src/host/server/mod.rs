//! Private servers: real programs that are started for one store in one round and cannot outlive blobwise.
//!
//! Between blobwise and a server stands a supervisor: this same program, started again with [`SUPERVISE`]. It begins a process
//! session of its own and reads a pipe that only blobwise holds open. When the pipe ends, because blobwise closed it or was
//! killed, the supervisor ends the whole process tree. When the supervisor is killed, the kernel ends the tree: it runs in a PID
//! namespace whose first process is the supervisor's. Blobwise holds pidfds of the server, the supervisor and that first process,
//! so it sees the end of each and can kill a supervisor that was stopped.
//!
//! Where PID namespaces are refused, the supervisor adopts every orphan of the server's (it is a child subreaper) and kills them
//! one by one. The server's main process dies with it by a parent-death signal, and blobwise kills what is left in its process
//! session. One case is not covered there: if blobwise and the supervisor die at the same moment, other processes of the server
//! may survive.
//!
//! If root starts blobwise, a server runs in a user namespace that maps root to `nobody`: programs that refuse to be root run,
//! and can still use directories that only root can enter.
//!
//! Every user of the machine can read command lines, so none contains a secret: the supervisor is told through its pipe what to
//! start, and servers find theirs in their environment or in a file.

mod files;
mod log;
mod processes;
mod program;
mod supervisor;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use xxhash_rust::xxh3::xxh3_64;

pub use files::{AllowedPaths, cannot_confine};
pub use processes::{ProcessHandle, held_below, servers_below};
use processes::{
    forgets_children, is_ready_within, is_stopped, kill_below, kill_session, process_cpu_ns, tree,
};
pub use program::{InstalledProgram, Program};
use supervisor::HELD;
pub use supervisor::{SUPERVISE, supervise_if_asked};

use crate::host::control_group::CpuGroup;
use crate::host::machine::{Io, ProcessMemory, memory, process_io};
use crate::host::place::Place;
use crate::host::processors::ProcessorSplit;

/// Description of a program to start.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// File of the program.
    pub program: &'a Path,
    /// Arguments.
    pub arguments: Vec<OsString>,
    /// The only files that it may use; `None` for everything that this user may.
    pub files: Option<AllowedPaths>,
    /// Socket that it inherits as descriptors 3 and 4.
    pub channel: Option<BorrowedFd<'a>>,
    /// Environment variables in addition to the few that are passed on.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory.
    pub dir: &'a Path,
    /// File that its output goes to.
    pub log: PathBuf,
    /// A private directory that it inherits under the same descriptor number, if no path leads there.
    pub inherited: Option<BorrowedFd<'a>>,
}

impl<'a> Launch<'a> {
    /// Describes a program that works in `dir` and writes its output to `NAME.log` there.
    pub fn new(program: &'a Path, dir: &'a Path) -> Launch<'a> {
        let name = program.file_name().unwrap_or(OsStr::new("server")).to_string_lossy().into_owned();
        Launch {
            program,
            arguments: Vec::new(),
            files: None,
            channel: None,
            environment: Vec::new(),
            dir,
            log: dir.join(format!("{name}.log")),
            inherited: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Launch<'a> {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<I: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = I>) -> Launch<'a> {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Restricts the program to these files.
    pub fn confined_to(mut self, files: AllowedPaths) -> Launch<'a> {
        self.files = Some(files);
        self
    }

    /// Passes a socket as descriptors 3 and 4.
    pub fn talks_through(mut self, channel: BorrowedFd<'a>) -> Launch<'a> {
        self.channel = Some(channel);
        self
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Launch<'a> {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Sets the file for its output.
    pub fn log(mut self, log: PathBuf) -> Launch<'a> {
        self.log = log;
        self
    }

    /// Passes on the descriptor of a directory.
    pub fn inherits(mut self, directory: Option<BorrowedFd<'a>>) -> Launch<'a> {
        self.inherited = directory;
        self
    }

    fn name(&self) -> String {
        self.program.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A running private server.
#[derive(Debug)]
pub struct Server {
    name: String,
    log: PathBuf,
    /// Size of the log before this server wrote to it. `log_ready` is its size when the server was ready.
    log_start: u64,
    log_ready: Option<u64>,
    supervisor: Child,
    /// The supervisor, by pidfd.
    held: ProcessHandle,
    /// Held open for as long as the server may run; closing it ends the tree.
    pipe: Option<ChildStdin>,
    /// The server's main process.
    process: ProcessHandle,
    /// First process of the PID namespace; when it ends, all others do. `None` without a namespace.
    first: Option<ProcessHandle>,
    group: Option<CpuGroup>,
}

/// How long a supervisor may take to start a server and to end one. It takes more than a second only if the machine is stuck: a
/// process that waits for the disk cannot be killed.
const SUPERVISOR_PATIENCE: Duration = Duration::from_secs(30);

/// How long a supervisor may take to report how its server ended.
const SUPERVISOR_SAYS_IT: Duration = Duration::from_millis(500);

impl Server {
    /// Starts a server without waiting for it to be ready.
    pub fn start(launch: &Launch) -> Result<Server> {
        let name = launch.name();
        Server::start_named(launch, name.clone()).with_context(|| format!("cannot start `{name}`"))
    }

    fn start_named(launch: &Launch, name: String) -> Result<Server> {
        let order = supervisor::order(launch)?;
        let log_start = log::bytes(&launch.log);
        let mut supervisor = Command::new(own_program()?);
        supervisor.arg(SUPERVISE).arg(&name).env_clear().envs(inherited_environment());
        supervisor.envs(launch.environment.iter().map(|(name, value)| (name, value))).current_dir(launch.dir);
        supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        for descriptor in [launch.inherited, launch.channel].into_iter().flatten() {
            hand_down(&mut supervisor, descriptor);
        }
        #[expect(clippy::disallowed_methods, reason = "the home of starting processes")]
        let mut supervisor = supervisor.spawn()?;
        let group = CpuGroup::make(supervisor.id());
        let mut meeting = || -> Result<(ProcessHandle, SupervisedProcesses)> {
            Ok((ProcessHandle::open(Pid::from_child(&supervisor))?, meet(&mut supervisor, &order)?))
        };
        match meeting() {
            Ok((held, SupervisedProcesses { pipe, process, first })) => {
                let (log, log_ready, pipe) = (launch.log.clone(), None, Some(pipe));
                Ok(Server { name, log, log_start, log_ready, supervisor, held, pipe, process, first, group })
            }
            Err(error) => {
                // Killing it also ends what it has started.
                supervisor.kill().ok();
                supervisor.wait().ok();
                Err(error)
            }
        }
    }

    /// Fails if the server may run on processors of the workers.
    pub fn check_processors(&self, apart: &ProcessorSplit) -> Result<()> {
        match Pid::from_raw(self.process.pid()) {
            Some(pid) => apart.check_server(&self.name, pid),
            None => Ok(()),
        }
    }

    /// Number of processes below the server's main process.
    pub fn started_processes(&self) -> usize {
        started_by(self.process.pid())
    }

    /// Waits until the server has started this many processes, as its configuration says. Another number is an error that names
    /// both.
    pub fn wait_for_processes(&mut self, wanted: usize, patience: Duration) -> Result<()> {
        let (pid, name) = (self.process.pid(), self.name.clone());
        self.wait_until_ready(patience, || match started_by(pid) {
            found if found == wanted => Ok(()),
            found => bail!("`{name}` serves by {found} processes, and was asked for {wanted}"),
        })
    }

    /// Name of its program.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Polls `ready` until it succeeds. Fails, with the end of the log, if the server ends or `patience` runs out.
    pub fn wait_until_ready(&mut self, patience: Duration, ready: impl FnMut() -> Result<()>) -> Result<()> {
        self.wait_beside(&[], patience, ready)
    }

    /// Like [`Server::wait_until_ready`], for a server that needs others: fails with the log of one of `others` if that one ends.
    /// A server that waits for one that has ended may log nothing and wait for ever.
    pub fn wait_beside(
        &mut self,
        others: &[&Server],
        patience: Duration,
        mut ready: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        const POLL: Duration = Duration::from_millis(20);
        let begin = crate::host::machine::uptime();
        loop {
            let answer = ready();
            // An answer counts only if the server still runs: a port may accept connections before everything is there, or may
            // belong to another program that was given it.
            if let Some(status) = self.ended()? {
                bail!("`{}` ended with {status} before it was ready{}", self.name, self.log_end());
            }
            for other in others {
                if let Some(status) = other.ended()? {
                    let (own, name, log) = (&self.name, &other.name, other.log_end());
                    bail!("`{name}` ended with {status} before `{own}`, which needs it, was ready{log}");
                }
            }
            let Err(error) = answer else {
                self.log_ready = Some(log::bytes(&self.log));
                return Ok(());
            };
            if crate::host::machine::uptime() - begin > patience {
                let seconds = patience.as_secs();
                return Err(error.context(format!(
                    "`{}` was not ready after {seconds} s{}",
                    self.name,
                    self.log_end()
                )));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Returns the exit status if the server has ended. The supervisor ends with it and passes the status on.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = rustix::process::waitid(WaitId::PidFd(self.held.as_fd()), options)?;
        // In a wait status the exit code is the second byte and the signal the first.
        let raw = |status: WaitIdStatus| {
            status.exit_status().map_or_else(|| status.terminating_signal().unwrap_or(0), |code| code << 8)
        };
        Ok(status.map(|status| ExitStatus::from_raw(raw(status))))
    }

    /// Describes what keeps the server from answering, if anything does: for the errors of failed ops.
    pub fn fault(&self) -> Option<String> {
        let has_died = self.process.has_ended();
        if has_died {
            // If the supervisor's death was the cause, the kernel still ends the server first: only the supervisor's end tells
            // which of the two was killed.
            self.held.ends_within(SUPERVISOR_SAYS_IT);
        }
        let status = self.ended().ok().flatten();
        if let Some(signal) = status.and_then(|status| status.signal()) {
            return Some(format!(
                "the supervisor of `{}` was killed by signal {signal}, and `{0}` ended with it",
                self.name
            ));
        }
        if has_died {
            return Some(format!("`{}` died{}{}", self.name, how_it_ended(status), self.log_end()));
        }
        if is_stopped(self.process.pid()) {
            return Some(format!("`{}` was stopped by a signal{}", self.name, self.log_end()));
        }
        let stopped = self.supervisors().any(|process| is_stopped(process.pid()));
        stopped.then(|| format!("the supervisor of `{}` was stopped by a signal", self.name))
    }

    /// Signals the server's main process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(self.process.signal(signal)?)
    }

    /// Sends `signal` and waits for the end; after `patience` the whole tree is killed, which is an error. Other errors are an
    /// end before the request, a server or supervisor stopped by a signal, and a supervisor that had to be killed.
    pub fn stop(&mut self, signal: Signal, patience: Duration) -> Result<()> {
        // Checked first: a server that was asked to stop by its own protocol may be ending, and only its supervisor knows how.
        let fault = self.fault();
        if fault.is_some() && self.process.has_ended() {
            self.supervisor_ends();
        }
        let has_ended_well = self.ended()?.is_some_and(|status| status.success());
        if let Some(fault) = fault.filter(|_| !has_ended_well) {
            self.kill().ok();
            bail!("{fault}");
        }
        self.signal(signal).ok();
        let stopped = self.process.ends_within(patience);
        self.kill()?;
        if !stopped {
            let seconds = patience.as_secs();
            bail!("`{}` did not stop within {seconds} s and was killed{}", self.name, self.log_end());
        }
        Ok(())
    }

    /// Ends the whole tree at once. If the supervisor does not, it is killed and that is an error.
    fn kill(&mut self) -> Result<()> {
        // Closing the pipe is the supervisor's order to end.
        let Some(pipe) = self.pipe.take() else { return Ok(()) };
        drop(pipe);
        let answers = self.supervisor_ends();
        if !answers {
            if self.first.is_none() {
                kill_below(self.held.pid());
            }
            self.supervisor.kill().ok();
        }
        match &self.first {
            Some(first) => {
                first.signal(Signal::KILL).ok();
                first.ends_within(SUPERVISOR_PATIENCE);
            }
            // Before the supervisor is reaped, because its pid is the session's id.
            None => kill_session(self.held.pid()),
        }
        self.supervisor.wait().ok();
        drop(self.group.take());
        ensure!(answers, "the supervisor of `{}` was stopped by a signal, and was killed", self.name);
        Ok(())
    }

    /// The supervisor outside, and the one inside if there is a namespace.
    fn supervisors(&self) -> impl Iterator<Item = &ProcessHandle> {
        std::iter::once(&self.held).chain(&self.first)
    }

    /// Waits for the supervisor to end; false if it is stopped or takes longer than [`SUPERVISOR_PATIENCE`].
    fn supervisor_ends(&self) -> bool {
        const LOOK: Duration = Duration::from_millis(200);
        let begin = crate::host::machine::uptime();
        while !self.held.ends_within(LOOK) {
            let late = crate::host::machine::uptime() - begin > SUPERVISOR_PATIENCE;
            if late || self.supervisors().any(|process| is_stopped(process.pid())) {
                return false;
            }
        }
        true
    }

    /// Formats the reason for a failure and the last lines of the log, as the end of an error message.
    pub fn log_end(&self) -> String {
        log::end_of(&self.log, self.log_start, self.log_ready.unwrap_or(self.log_start))
    }

    /// Processor time of the whole tree since its start, in nanoseconds; includes ended processes if a control group counts them.
    pub fn cpu_ns(&self) -> Option<u64> {
        match &self.group {
            Some(group) => group.cpu_ns(),
            None => {
                Some(tree(self.supervisor.id() as i32).iter().filter_map(|pid| process_cpu_ns(*pid)).sum())
            }
        }
    }

    /// Device reads and writes of the whole tree so far; `None` if the kernel does not report them, or not for processes that
    /// have ended.
    pub fn io(&self) -> Option<Io> {
        let all = tree(self.supervisor.id() as i32);
        if all.iter().any(|pid| forgets_children(*pid)) {
            return None;
        }
        let all = all.into_iter().map(|pid| pid.to_string());
        // An ended process is counted by the parent that has waited for it.
        let running = all.filter(|pid| Path::new("/proc").join(pid).exists());
        running.map(|pid| process_io(&pid)).try_fold(Io::default(), |sum, io| Some(sum.plus(&io?)))
    }

    /// Current memory of the processes of the tree that `is_meant` selects.
    pub fn memory_of(&self, is_meant: impl Fn(i32) -> bool) -> ProcessMemory {
        let meant = tree(self.process.pid()).into_iter().filter(|pid| is_meant(*pid));
        ProcessMemory::sum(meant.filter_map(|pid| memory(&pid.to_string())))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill().ok();
    }
}

/// Processes that a supervisor has started.
struct SupervisedProcesses {
    /// Pipe that the supervisor reads.
    pipe: ChildStdin,
    /// The server's main process.
    process: ProcessHandle,
    /// First process of the PID namespace; `None` without one.
    first: Option<ProcessHandle>,
}

/// Sends a supervisor its order, reads which processes it started, and opens their pidfds.
fn meet(supervisor: &mut Child, order: &[u8]) -> Result<SupervisedProcesses> {
    let mut pipe = supervisor.stdin.take().context("no pipe to the supervisor")?;
    // The supervisor waits for this line, so that the server is born in its control group.
    pipe.write_all(order)?;
    let answers = supervisor.stdout.take().context("no pipe from the supervisor")?;
    if !is_ready_within(&answers, SUPERVISOR_PATIENCE) {
        bail!("the supervisor did not answer within {} s", SUPERVISOR_PATIENCE.as_secs());
    }
    let mut answer = String::new();
    BufReader::new(answers).read_line(&mut answer)?;
    let process = |number: &str| -> Result<ProcessHandle> {
        let pid = number.parse().ok().and_then(Pid::from_raw).context("it is no number")?;
        Ok(ProcessHandle::open(pid)?)
    };
    let (process, first) = match answer.split_whitespace().collect::<Vec<_>>()[..] {
        ["started", number] => (process(number)?, None),
        ["started", number, "in", first] => (process(number)?, Some(process(first)?)),
        ["failed", ..] => bail!("{}", answer.trim().trim_start_matches("failed ")),
        _ => bail!("the supervisor did not say what it started"),
    };
    // From now on the supervisor may reap the server, after which its pid may be reused.
    pipe.write_all(HELD)?;
    Ok(SupervisedProcesses { pipe, process, first })
}

/// Runs a program to its end, supervised like a server; a failure includes the end of its output.
pub fn run_to_end(launch: &Launch, patience: Duration) -> Result<()> {
    run_unless_stopped(launch, patience, &AtomicBool::new(false)).map(drop)
}

/// Like [`run_to_end`], but kills the program as soon as `stop` is set; false then.
pub fn run_unless_stopped(launch: &Launch, patience: Duration, stop: &AtomicBool) -> Result<bool> {
    /// Interval between two looks at `stop`: the program may be a measurement, and each look wakes a processor.
    const LOOK: Duration = Duration::from_millis(100);
    let server = Server::start(launch)?;
    let begin = crate::host::machine::uptime();
    loop {
        match server.ended()? {
            Some(status) if status.success() => return Ok(true),
            Some(status) => bail!("`{}` failed with {status}{}", server.name, server.log_end()),
            None if crate::host::machine::uptime() - begin > patience => {
                bail!("`{}` did not end within {} s{}", server.name, patience.as_secs(), server.log_end())
            }
            None if stop.load(Ordering::Relaxed) => return Ok(false),
            None => {
                server.held.ends_within(LOOK);
            }
        }
    }
}

fn started_by(pid: i32) -> usize {
    tree(pid).len() - 1
}

/// Describes the exit code or signal of a server, decoded from its supervisor's exit status.
fn how_it_ended(supervisor: Option<ExitStatus>) -> String {
    match supervisor.and_then(|status| status.code()) {
        Some(code) if code > 128 => format!(" by signal {}", code - 128),
        Some(code) => format!(" with exit code {code}"),
        None => String::new(),
    }
}

/// Path of this program's file. Tests override it with the program that they were built with.
pub fn own_program() -> Result<PathBuf> {
    match std::env::var_os("BLOBWISE_SUPERVISOR") {
        Some(path) => Ok(path.into()),
        None => std::env::current_exe().context("cannot find this program's own file"),
    }
}

/// Environment variables that a server inherits: those by which programs and their libraries are found. Others may hold secrets
/// (`BLOBWISE_POSTGRES_URL`, `AWS_SECRET_ACCESS_KEY`) or change what is measured, by settings (`PGOPTIONS`, `PHPRC`) or by
/// libraries and an allocator that the vendor did not intend (`LD_PRELOAD=libeatmydata.so`, which turns every flush into a
/// no-op). Servers log in English regardless of the user's locale, because an error shows the line of their log that has the
/// reason.
fn inherited_environment() -> impl Iterator<Item = (OsString, OsString)> {
    const KEPT: &[&str] = &[
        "PATH",
        "LD_LIBRARY_PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TZ",
        "TMPDIR",
        "JAVA_HOME",
        "XDG_CACHE_HOME",
    ];
    let kept = std::env::vars_os().filter(|(name, _)| KEPT.contains(&&*name.to_string_lossy()));
    kept.chain([("LC_ALL".into(), "C".into())])
}

/// Clears close-on-exec of a descriptor, so that the command and its children inherit it.
#[expect(unsafe_code, reason = "what runs between fork and exec is unsafe to get wrong")]
fn hand_down(command: &mut Command, descriptor: BorrowedFd) {
    let number = descriptor.as_raw_fd();
    // SAFETY: one system call on a number; the descriptor is open for as long as the command can be started.
    unsafe {
        command.pre_exec(move || match libc::fcntl(number, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

// ---- directories -------------------------------------------------------------------------------------------------

/// A private directory for sockets; removed when dropped.
#[derive(Debug)]
pub struct SocketDir {
    place: Place,
}

/// Name of the socket by which a directory is tried.
const PROBE: &str = "s";
/// Longest path of a socket in bytes (unix(7)). Some programs truncate a longer one and create their socket elsewhere.
const SOCKET_PATH_BYTES: usize = 107;

impl SocketDir {
    /// Creates a directory in which a socket may have this name, relative to it: in the system's directory for temporary files
    /// or, if the socket's path would be too long or contain characters that servers' settings interpret, or if there are no
    /// sockets on its file system (FAT, SMB, some FUSE), in one of the usual places.
    pub fn make(longest_name: &str) -> Result<SocketDir> {
        #[expect(clippy::disallowed_methods, reason = "sockets are the one thing that may lie outside --dir")]
        let asked = std::env::temp_dir();
        let room = SOCKET_PATH_BYTES - Place::NAME_BYTES - longest_name.len().max(PROBE.len()) - "//".len();
        let mut why = String::new();
        if suits_sockets(&asked, room) {
            let place = Place::make(&asked).with_context(|| {
                format!("cannot make a directory for sockets in `{}` (TMPDIR names another)", asked.display())
            })?;
            match check_sockets(place.path()) {
                Ok(()) => return Ok(SocketDir { place }),
                Err(error) => why += &format!("; {error:#}"),
            }
        }
        for other in ["/tmp", "/var/tmp", "/dev/shm"] {
            let made = Place::make(Path::new(other));
            match made.and_then(|place| check_sockets(place.path()).map(|()| place)) {
                Ok(place) => return Ok(SocketDir { place }),
                Err(error) => why += &format!("; {error:#}"),
            }
        }
        bail!(
            "TMPDIR is `{}`, and servers need a directory for their sockets whose path has at most {room} bytes (that of a socket may have \
             {SOCKET_PATH_BYTES}) of letters, digits and `/._+-`: name one by TMPDIR{why}",
            asked.display()
        )
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

/// Fails if the file system of a private directory has no sockets.
fn check_sockets(dir: &Path) -> Result<()> {
    let socket = dir.join(PROBE);
    let bound = UnixListener::bind(&socket);
    bound.with_context(|| format!("no socket can be made in `{}`", dir.display()))?;
    Ok(std::fs::remove_file(&socket)?)
}

/// True if a private directory below `base` can hold sockets: its real path leaves room for their names and consists of letters,
/// digits and `/._+-`. PostgreSQL would take a comma for a separator of two directories.
fn suits_sockets(base: &Path, room: usize) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(byte);
    let real = base.canonicalize().or_else(|_missing| std::path::absolute(base));
    real.is_ok_and(|real| {
        let real = real.as_os_str().as_encoded_bytes();
        real.len() <= room && real.iter().all(is_plain)
    })
}

/// Returns a loopback port that was free a moment ago.
pub fn free_port() -> Result<u16> {
    Ok(crate::host::machine::free_listener()?.local_addr()?.port())
}

/// Returns a secret for a server that must listen on TCP: 32 hexadecimal digits.
pub fn password() -> Result<String> {
    use rand::TryRng;

    let half = || rand::rngs::SysRng.try_next_u64().context("the system has no random numbers");
    Ok(format!("{:016x}{:016x}", half()?, half()?))
}

/// Writes a file that only this user can read.
pub fn write_secret(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    let write = || -> std::io::Result<()> {
        let mut file =
            std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        // `mode` applies to new files only; an existing file would keep its permissions.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
}

/// Returns the one directory below `parent`, creating both if missing. Its name is a secret: anyone who knows it can ask a server
/// for its contents.
pub fn secret_directory(parent: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(parent)?;
    let directories = std::fs::read_dir(parent)?.filter_map(|entry| entry.ok()).map(|entry| entry.path());
    match directories.into_iter().find(|path| path.is_dir()) {
        Some(known) => Ok(known),
        None => {
            let directory = parent.join(password()?);
            std::fs::create_dir(&directory)?;
            Ok(directory)
        }
    }
}

/// Copies a directory that is initialised once to where a round needs it, running `make` first if it is not cached. `name` must
/// include the version and everything else that the contents depend on.
pub fn from_cache(
    cache: &Path,
    name: &str,
    target: &Path,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    // Short, because some servers limit the length of a path.
    let name = format!("{:016x}", xxh3_64(name.as_bytes()));
    let kept = cache.join(&name);
    if !kept.exists() {
        std::fs::create_dir_all(cache)?;
        // A unique name, because other processes may make the same thing at the same time.
        let draft = cache.join(format!("{name}-{:08x}", crate::host::place::fresh_seed() as u32));
        let outcome = make(&draft).and_then(|()| match std::fs::rename(&draft, &kept) {
            Err(error) if !kept.exists() => Err(error.into()),
            // Renamed, or another process was faster.
            _ => Ok(()),
        });
        if draft.exists() {
            crate::host::place::remove_tree(&draft)?;
        }
        outcome?;
    }
    crate::host::place::copy_tree(&kept, target).with_context(|| format!("cannot copy `{}`", kept.display()))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Duration;

    use super::processes::forgets_children;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "they end with the test, and no supervisor is between")]
    fn who_ignores_the_end_of_its_children_is_known() {
        let started = |arguments: &[&str]| Command::new("env").args(arguments).spawn().unwrap();
        let end = |mut child: Child| {
            child.kill().unwrap();
            child.wait().unwrap();
        };
        let forgets = started(&["--ignore-signal=CHLD", "sleep", "300"]);
        let waits = started(&["sleep", "300"]);
        let is_seen = (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            forgets_children(forgets.id() as i32)
        });
        let other = forgets_children(waits.id() as i32);
        end(forgets);
        end(waits);
        assert!(is_seen && !other);
    }
}
