//! Private servers: real programs that are started for one store in one round and cannot outlive blobwise.
//!
//! Between blobwise and a server stands a supervisor: this same program, started anew with [`SUPERVISE`]. It begins a
//! process session of its own and reads a pipe that only blobwise holds open. When the pipe ends, because blobwise closed
//! it or was killed, it ends the whole tree; when it is killed itself, the kernel does: the tree is in a PID namespace, and
//! the supervisor has its first process. Blobwise holds the server, the supervisor and that process by descriptors, so that
//! the end of each is seen, and a supervisor that was stopped is killed.
//!
//! Where PID namespaces are refused, the supervisor adopts every orphan of the server's (it is a child subreaper) and
//! kills them one by one. The server's own process dies with it by a parent-death signal, and blobwise kills what is left
//! in its process session. What is not covered there is the death of both at one moment: a server's other processes may
//! then stay.
//!
//! Started by root, a server runs in a user namespace in which our own id is called `nobody`: programs that refuse to be
//! root run, and can still use directories that only we can enter.
//!
//! Command lines can be read by every user of the machine, so that no secret is in any: what is to be started is told to the
//! supervisor through its pipe, and a server that takes secrets as arguments only finds them in its environment.

mod files;
mod log;
mod processes;
mod program;
mod secrets;
mod supervisor;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};

pub use files::{Files, cannot_confine};
pub use processes::{Process, held_below, servers_below};
use processes::{
    forgets_children, is_ready_within, is_stopped, kill_below, kill_session, process_cpu_ns, tree,
};
pub use program::{Found, Program};
use supervisor::HELD;
pub use supervisor::{SUPERVISE, supervise_if_asked};

use crate::host::control_group::CpuGroup;
use crate::host::machine::{Io, Memory, memory, process_io};
use crate::host::place::Place;
use crate::host::processors::Apart;

/// What is started, and how.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The program's file.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Places of arguments that no other user may see.
    pub secrets: Vec<usize>,
    /// The files that it may use, where it is not to use all that we can.
    pub files: Option<Files>,
    /// What it has as descriptors 3 and 4, to be talked to.
    pub channel: Option<BorrowedFd<'a>>,
    /// Variables of its environment, beside the few that it has of ours.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub dir: &'a Path,
    /// Where its output goes.
    pub log: PathBuf,
    /// A directory of ours that it inherits, under the same number, where no path leads to it.
    pub inherited: Option<BorrowedFd<'a>>,
}

impl<'a> Launch<'a> {
    /// A program with its output in `NAME.log` below `dir`, which is its working directory too.
    pub fn new(program: &'a Path, dir: &'a Path) -> Launch<'a> {
        let name = program.file_name().unwrap_or(OsStr::new("server")).to_string_lossy().into_owned();
        Launch {
            program,
            arguments: Vec::new(),
            secrets: Vec::new(),
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

    /// Adds an argument that no other user may see: its command line shows something else in its place.
    pub fn secret(mut self, argument: impl AsRef<OsStr>) -> Launch<'a> {
        self.secrets.push(self.arguments.len());
        self.arg(argument)
    }

    /// Lets it use these files only.
    pub fn confined_to(mut self, files: Files) -> Launch<'a> {
        self.files = Some(files);
        self
    }

    /// Gives it a channel, as descriptors 3 and 4.
    pub fn talks_through(mut self, channel: BorrowedFd<'a>) -> Launch<'a> {
        self.channel = Some(channel);
        self
    }

    /// Adds a variable of the environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Launch<'a> {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Another file for its output.
    pub fn log(mut self, log: PathBuf) -> Launch<'a> {
        self.log = log;
        self
    }

    /// Hands down a directory.
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
    /// Bytes of the log before this server wrote to it, and when it was ready.
    log_start: u64,
    log_ready: Option<u64>,
    supervisor: Child,
    /// The supervisor, held.
    held: Process,
    /// Held open for as long as the server may run.
    pipe: Option<ChildStdin>,
    /// The server's own process.
    process: Process,
    /// The first process of its PID namespace, with which all others end.
    first: Option<Process>,
    group: Option<CpuGroup>,
}

/// How long a supervisor may take to start a server, and to end one. More than a second only where the machine is stuck: a process
/// that waits for the disk cannot be killed.
const SUPERVISOR_PATIENCE: Duration = Duration::from_secs(30);

/// How long a supervisor may take to say how its server ended.
const SUPERVISOR_SAYS_IT: Duration = Duration::from_millis(500);

impl Server {
    /// Starts a server; it is not ready yet.
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
        let mut meeting = || -> Result<(Process, Started)> {
            Ok((Process::of(Pid::from_child(&supervisor))?, meet(&mut supervisor, &order)?))
        };
        match meeting() {
            Ok((held, Started { pipe, process, first })) => {
                let (log, log_ready, pipe) = (launch.log.clone(), None, Some(pipe));
                Ok(Server { name, log, log_start, log_ready, supervisor, held, pipe, process, first, group })
            }
            Err(error) => {
                // With it goes what it has started.
                supervisor.kill().ok();
                supervisor.wait().ok();
                Err(error)
            }
        }
    }

    /// Fails where it may run on processors of the workers.
    pub fn check_processors(&self, apart: &Apart) -> Result<()> {
        match Pid::from_raw(self.process.pid()) {
            Some(pid) => apart.check_server(&self.name, pid),
            None => Ok(()),
        }
    }

    /// How many processes it has started that run now, theirs included.
    pub fn started_processes(&self) -> usize {
        started_by(self.process.pid())
    }

    /// Waits until it has started this many processes, as its configuration says. Another number is an error that names both.
    pub fn wait_for_processes(&mut self, wanted: usize, patience: Duration) -> Result<()> {
        let (pid, name) = (self.process.pid(), self.name.clone());
        self.wait_until_ready(patience, || match started_by(pid) {
            found if found == wanted => Ok(()),
            found => bail!("`{name}` serves by {found} processes, and was asked for {wanted}"),
        })
    }

    /// Its program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks `ready` until it says yes; an end of the server or of `patience` is an error that shows the log's end.
    pub fn wait_until_ready(&mut self, patience: Duration, ready: impl FnMut() -> Result<()>) -> Result<()> {
        self.wait_beside(&[], patience, ready)
    }

    /// The same for one that needs others: the end of one of these is an error, too, with the end of that one's log. Whoever waits for
    /// a server that has ended may say nothing, and wait for ever.
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
            // An answer counts only of one that still runs: a port may be listened on before all that it needs is there, or by
            // somebody else who was given it.
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

    /// How it ended, if it has. Its supervisor ends with it, and says how.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = rustix::process::waitid(WaitId::PidFd(self.held.as_fd()), options)?;
        // An exit code is the second byte of what `wait` says, a signal the first.
        let raw = |status: WaitIdStatus| {
            status.exit_status().map_or_else(|| status.terminating_signal().unwrap_or(0), |code| code << 8)
        };
        Ok(status.map(|status| ExitStatus::from_raw(raw(status))))
    }

    /// What keeps it from answering, if something does: for the error of ops that failed.
    pub fn fault(&self) -> Option<String> {
        let has_died = self.process.has_ended();
        if has_died {
            // The kernel ends the server before the supervisor whose end was the cause: only then is it known who was killed.
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

    /// Sends the server's own process a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(self.process.signal(signal)?)
    }

    /// Asks it to stop and waits; after `patience` the whole tree is killed and that is an error. So is an end before it
    /// was asked, one of the two being stopped by a signal, and a supervisor that had to be killed.
    pub fn stop(&mut self, signal: Signal, patience: Duration) -> Result<()> {
        // Looked at once: who was asked by its own protocol may be ending just now, and only its supervisor knows how.
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

    /// Ends the whole tree at once. A supervisor that does not do it is killed, and that is an error.
    fn kill(&mut self) -> Result<()> {
        // The end of the pipe is what the supervisor acts upon.
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
            // Before it is waited for: its number is that of the session.
            None => kill_session(self.held.pid()),
        }
        self.supervisor.wait().ok();
        drop(self.group.take());
        ensure!(answers, "the supervisor of `{}` was stopped by a signal, and was killed", self.name);
        Ok(())
    }

    /// The supervisor outside, and the one inside where there is a namespace.
    fn supervisors(&self) -> impl Iterator<Item = &Process> {
        std::iter::once(&self.held).chain(&self.first)
    }

    /// Waits for the end of the supervisor, unless it is stopped.
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

    /// What its log says of why it failed and the last lines of it, as the end of an error message.
    pub fn log_end(&self) -> String {
        log::end_of(&self.log, self.log_start, self.log_ready.unwrap_or(self.log_start))
    }

    /// Processor time of the whole tree since it was started, ended processes included where a control group counts it,
    /// in nanoseconds.
    pub fn cpu_ns(&self) -> Option<u64> {
        match &self.group {
            Some(group) => group.cpu_ns(),
            None => {
                Some(tree(self.supervisor.id() as i32).iter().filter_map(|pid| process_cpu_ns(*pid)).sum())
            }
        }
    }

    /// What the whole tree had the kernel read from and write to devices so far; `None` where the kernel does not say, or not of
    /// processes that have ended.
    pub fn io(&self) -> Option<Io> {
        let all = tree(self.supervisor.id() as i32);
        if all.iter().any(|pid| forgets_children(*pid)) {
            return None;
        }
        let all = all.into_iter().map(|pid| pid.to_string());
        // Who has ended meanwhile is counted by the process that waited for it.
        let running = all.filter(|pid| Path::new("/proc").join(pid).exists());
        running.map(|pid| process_io(&pid)).try_fold(Io::default(), |sum, io| Some(sum.plus(&io?)))
    }

    /// Memory of those processes of the tree that are meant, now.
    pub fn memory_of(&self, is_meant: impl Fn(i32) -> bool) -> Memory {
        let meant = tree(self.process.pid()).into_iter().filter(|pid| is_meant(*pid));
        Memory::sum(meant.filter_map(|pid| memory(&pid.to_string())))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill().ok();
    }
}

/// What a supervisor has started.
struct Started {
    /// What it reads.
    pipe: ChildStdin,
    /// The server's own process.
    process: Process,
    /// The first one of its namespace, if it has one.
    first: Option<Process>,
}

/// Tells a supervisor what to start, hears what that is, and holds it.
fn meet(supervisor: &mut Child, order: &[u8]) -> Result<Started> {
    let mut pipe = supervisor.stdin.take().context("no pipe to the supervisor")?;
    // The supervisor waits for this line, so that the server is born in its control group.
    pipe.write_all(order)?;
    let answers = supervisor.stdout.take().context("no pipe from the supervisor")?;
    if !is_ready_within(&answers, SUPERVISOR_PATIENCE) {
        bail!("the supervisor did not answer within {} s", SUPERVISOR_PATIENCE.as_secs());
    }
    let mut answer = String::new();
    BufReader::new(answers).read_line(&mut answer)?;
    let process = |number: &str| -> Result<Process> {
        let pid = number.parse().ok().and_then(Pid::from_raw).context("it is no number")?;
        Ok(Process::of(pid)?)
    };
    let (process, first) = match answer.split_whitespace().collect::<Vec<_>>()[..] {
        ["started", number] => (process(number)?, None),
        ["started", number, "in", first] => (process(number)?, Some(process(first)?)),
        ["failed", ..] => bail!("{}", answer.trim().trim_start_matches("failed ")),
        _ => bail!("the supervisor did not say what it started"),
    };
    // Now it may wait for the server, whose number others may have then.
    pipe.write_all(HELD)?;
    Ok(Started { pipe, process, first })
}

/// Runs a program to its end, supervised like a server, and fails with the end of its output if it fails.
pub fn run_to_end(launch: &Launch, patience: Duration) -> Result<()> {
    run_unless_stopped(launch, patience, &AtomicBool::new(false)).map(drop)
}

/// The same, but it is ended as soon as `stop` is set: false then.
pub fn run_unless_stopped(launch: &Launch, patience: Duration, stop: &AtomicBool) -> Result<bool> {
    /// Between two looks at `stop`: what is waited for may be a measurement, and each look wakes a processor.
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

/// Processes below one.
fn started_by(pid: i32) -> usize {
    tree(pid).len() - 1
}

/// The code or the signal that a server ended with, of how its supervisor ended.
fn how_it_ended(supervisor: Option<ExitStatus>) -> String {
    match supervisor.and_then(|status| status.code()) {
        Some(code) if code > 128 => format!(" by signal {}", code - 128),
        Some(code) => format!(" with exit code {code}"),
        None => String::new(),
    }
}

/// This program's file. Tests name the program they were built with.
pub fn own_program() -> Result<PathBuf> {
    match std::env::var_os("BLOBWISE_SUPERVISOR") {
        Some(path) => Ok(path.into()),
        None => std::env::current_exe().context("cannot find this program's own file"),
    }
}

/// The variables of ours that a server has as well: what programs and their libraries are found by. Others may hold secrets
/// (`BLOBWISE_POSTGRES_URL`, `AWS_SECRET_ACCESS_KEY`) or change what is measured: by settings (`PGOPTIONS`, `PHPRC`), or by libraries and
/// an allocator that the vendor did not mean (`LD_PRELOAD=libeatmydata.so`, under which no flush does anything). Servers speak English,
/// whatever the user does: an error shows the line of their log that has the reason.
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

/// Lets a descriptor outlive the command's start, and that of what the command starts.
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

/// Bytes that the path of a socket may have (unix(7)). Some programs cut a longer one, and make their socket elsewhere.
const SOCKET_PATH_BYTES: usize = 107;

impl SocketDir {
    /// Makes one in which a socket may have this name, relative to it: in the system's directory for temporary files or, where the
    /// socket's path would be too long or have signs that settings of servers give a meaning to, in one with a shorter path.
    pub fn make(longest_name: &str) -> Result<SocketDir> {
        #[expect(clippy::disallowed_methods, reason = "sockets are the one thing that may lie outside --dir")]
        let asked = std::env::temp_dir();
        let room = SOCKET_PATH_BYTES - Place::NAME_BYTES - longest_name.len() - "//".len();
        if suits_sockets(&asked, room) {
            let place = Place::make(&asked).context("cannot make a directory for sockets")?;
            return Ok(SocketDir { place });
        }
        let mut why = String::new();
        for other in ["/tmp", "/var/tmp", "/dev/shm"] {
            match Place::make(Path::new(other)) {
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

    /// Its path.
    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

/// Whether sockets may lie in a directory of ours below this one: its real path leaves room for their names, and has no sign but
/// letters, digits and `/._+-`. A comma in it would be two directories to PostgreSQL.
fn suits_sockets(base: &Path, room: usize) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(byte);
    let real = base.canonicalize().or_else(|_missing| std::path::absolute(base));
    real.is_ok_and(|real| {
        let real = real.as_os_str().as_encoded_bytes();
        real.len() <= room && real.iter().all(is_plain)
    })
}

/// A loopback port that was free a moment ago.
pub fn free_port() -> Result<u16> {
    Ok(crate::host::machine::free_listener()?.local_addr()?.port())
}

/// A secret for a server that must listen on TCP: 32 hexadecimal digits.
pub fn password() -> Result<String> {
    use rand::TryRng;

    let half = || rand::rngs::SysRng.try_next_u64().context("the system has no random numbers");
    Ok(format!("{:016x}{:016x}", half()?, half()?))
}

/// Writes a file that nobody but us may read.
pub fn write_secret(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    let write = || -> std::io::Result<()> {
        let mut file =
            std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        // What was there before keeps its rights otherwise.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
}

/// The one directory below `parent`, which is made with it when missing. Its name is a secret: whoever knows it may ask a server
/// for what is in there.
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

/// Copies a directory that was initialised once into the place where a round needs it, making it first if need be. `name`
/// names what is cached, with the version and everything else that it depends on.
pub fn from_cache(
    cache: &Path,
    name: &str,
    target: &Path,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let kept = cache.join(name);
    if !kept.exists() {
        std::fs::create_dir_all(cache)?;
        // Of its own, because others may make the same thing at the same time.
        let draft = cache.join(format!("{name}.draft-{:016x}", crate::host::place::fresh_seed()));
        let outcome = make(&draft).and_then(|()| match std::fs::rename(&draft, &kept) {
            Err(error) if !kept.exists() => Err(error.into()),
            // Done, or somebody was faster.
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
        let (forgets, waits) = (started(&["--ignore-signal=CHLD", "sleep", "60"]), started(&["sleep", "60"]));
        let is_seen = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            forgets_children(forgets.id() as i32)
        });
        let other = forgets_children(waits.id() as i32);
        end(forgets);
        end(waits);
        assert!(is_seen && !other);
    }
}
