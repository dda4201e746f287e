//! Private servers: real programs that are started for one store in one round and cannot outlive blobwise.
//!
//! Between blobwise and a server stands a supervisor: this same program, started anew with [`SUPERVISE`]. It begins a
//! process session of its own, adopts every orphan of the server's (it is a child subreaper) and reads a pipe that only
//! blobwise holds open. When the pipe ends, because blobwise closed it or was killed, it kills the whole tree. A
//! parent-death signal alone would not do: it follows the thread that started the child, is lost when a process changes
//! its user, and never reaches grandchildren.
//!
//! Started by root, a server runs in a user namespace in which our own id is called `nobody`: programs that refuse to be
//! root run, and can still use directories that only we can enter.
//!
//! Command lines can be read by every user of the machine, so that no secret is in any: what is to be started is told to the
//! supervisor through its pipe, and a server that takes secrets as arguments only finds them in its environment.

mod control_group;
mod files;
mod processes;
mod program;
mod secrets;
mod supervisor;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal};

use control_group::ControlGroup;
pub use files::{Files, cannot_confine};
use processes::{process_cpu_ns, proportional_bytes, tree};
pub use program::{Found, Program};
pub use supervisor::{SUPERVISE, supervise_if_asked};

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
    /// Variables of its environment, beside ours.
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
    supervisor: Child,
    /// Held open for as long as the server may run.
    pipe: Option<ChildStdin>,
    /// The server's own process.
    pid: Pid,
    group: Option<ControlGroup>,
}

impl Server {
    /// Starts a server; it is not ready yet.
    pub fn start(launch: &Launch) -> Result<Server> {
        let name = launch.name();
        Server::start_named(launch, name.clone()).with_context(|| format!("cannot start `{name}`"))
    }

    fn start_named(launch: &Launch, name: String) -> Result<Server> {
        let own = own_program()?;
        let mut supervisor = Command::new(own);
        supervisor.arg(SUPERVISE).arg(&name);
        supervisor.envs(launch.environment.iter().map(|(name, value)| (name, value))).current_dir(launch.dir);
        supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        for descriptor in [launch.inherited, launch.channel].into_iter().flatten() {
            hand_down(&mut supervisor, descriptor);
        }
        #[expect(clippy::disallowed_methods, reason = "the home of starting processes")]
        let mut supervisor = supervisor.spawn()?;
        let group = ControlGroup::make(supervisor.id());
        let mut pipe = supervisor.stdin.take().ok_or_else(|| anyhow!("no pipe to the supervisor"))?;
        // The supervisor waits for this line, so that the server is born in its control group.
        pipe.write_all(&supervisor::order(launch)?)?;
        let mut answers = BufReader::new(supervisor.stdout.take().ok_or_else(|| anyhow!("no pipe from it"))?);
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        let pid = match answer.trim().split_once(' ') {
            Some(("started", pid)) => pid.parse::<i32>().ok().and_then(Pid::from_raw),
            Some(("failed", why)) => {
                supervisor.wait()?;
                bail!("{why}");
            }
            _ => None,
        };
        let pid = pid.ok_or_else(|| anyhow!("the supervisor did not say what it started"))?;
        Ok(Server { name, log: launch.log.clone(), supervisor, pipe: Some(pipe), pid, group })
    }

    /// Its program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks `ready` until it says yes; an end of the server or of `patience` is an error that shows the log's end.
    pub fn wait_until_ready(
        &mut self,
        patience: Duration,
        mut ready: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        const POLL: Duration = Duration::from_millis(20);
        let begin = crate::machine::uptime();
        loop {
            let error = match ready() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if let Some(status) = self.ended()? {
                bail!("`{}` ended with {status} before it was ready{}", self.name, self.log_end());
            }
            if crate::machine::uptime() - begin > patience {
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

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.supervisor.try_wait()?)
    }

    /// Whether it still runs, in a state to answer; for the error message of an op that failed.
    pub fn is_running(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero()));
        let state = stat.ok().and_then(|stat| stat.rsplit_once(')')?.1.trim_start().chars().next());
        state.is_some_and(|state| !['Z', 'X'].contains(&state))
    }

    /// Sends the server's own process a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(rustix::process::kill_process(self.pid, signal)?)
    }

    /// Asks it to stop and waits; after `patience` the whole tree is killed and that is an error.
    pub fn stop(&mut self, signal: Signal, patience: Duration) -> Result<()> {
        const POLL: Duration = Duration::from_millis(5);
        if self.ended()?.is_some() {
            return Ok(());
        }
        self.signal(signal).ok();
        let begin = crate::machine::uptime();
        while self.ended()?.is_none() {
            if crate::machine::uptime() - begin > patience {
                self.kill();
                bail!(
                    "`{}` did not stop within {} s and was killed{}",
                    self.name,
                    patience.as_secs(),
                    self.log_end()
                );
            }
            std::thread::sleep(POLL);
        }
        self.kill();
        Ok(())
    }

    /// Ends the whole tree at once.
    fn kill(&mut self) {
        // The end of the pipe is what the supervisor acts upon.
        drop(self.pipe.take());
        self.supervisor.wait().ok();
        drop(self.group.take());
    }

    /// The last lines of its log, as the end of an error message.
    pub fn log_end(&self) -> String {
        log_end(&self.log)
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

    /// Memory of the whole tree now: the proportional shares of its processes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        tree(self.pid.as_raw_nonzero().get()).into_iter().filter_map(proportional_bytes).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a program to its end, supervised like a server, and fails with the end of its output if it fails.
pub fn run_to_end(launch: &Launch, patience: Duration) -> Result<()> {
    const POLL: Duration = Duration::from_millis(5);
    let mut server = Server::start(launch)?;
    let begin = crate::machine::uptime();
    loop {
        match server.ended()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => bail!("`{}` failed with {status}{}", server.name, server.log_end()),
            None if crate::machine::uptime() - begin > patience => {
                bail!("`{}` did not end within {} s{}", server.name, patience.as_secs(), server.log_end())
            }
            None => std::thread::sleep(POLL),
        }
    }
}

/// The last lines of a log, as the end of an error message.
pub fn log_end(log: &Path) -> String {
    const LINES: usize = 8;
    let text =
        std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "; its log is empty".to_owned();
    }
    let last = &lines[lines.len().saturating_sub(LINES)..];
    format!("; the end of its log:\n  {}", last.join("\n  "))
}

/// This program's file. Tests name the program they were built with.
fn own_program() -> Result<PathBuf> {
    match std::env::var_os("BLOBWISE_SUPERVISOR") {
        Some(path) => Ok(path.into()),
        None => std::env::current_exe().context("cannot find this program's own file"),
    }
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

/// A short private directory for sockets, whose paths may have 107 bytes only; removed when dropped.
#[derive(Debug)]
pub struct SocketDir {
    place: crate::place::Place,
}

impl SocketDir {
    /// Makes one below the system's directory for temporary files.
    pub fn make() -> Result<SocketDir> {
        #[expect(clippy::disallowed_methods, reason = "sockets are the one thing that may lie outside --dir")]
        let base = std::env::temp_dir();
        let place = crate::place::Place::make(&base).context("cannot make a directory for sockets")?;
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o700))?;
        Ok(SocketDir { place })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

/// A loopback port that was free a moment ago.
pub fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("no loopback port is free")?;
    Ok(listener.local_addr()?.port())
}

/// A secret for a server that must listen on TCP: 32 hexadecimal digits.
pub fn password() -> Result<String> {
    use rand::TryRng;

    let half = || rand::rngs::SysRng.try_next_u64().context("the system has no random numbers");
    Ok(format!("{:016x}{:016x}", half()?, half()?))
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
        let draft = cache.join(format!("{name}.draft-{:016x}", crate::place::fresh_seed()));
        let outcome = make(&draft).and_then(|()| match std::fs::rename(&draft, &kept) {
            Err(error) if !kept.exists() => Err(error.into()),
            // Done, or somebody was faster.
            _ => Ok(()),
        });
        if draft.exists() {
            std::fs::remove_dir_all(&draft)?;
        }
        outcome?;
    }
    copy_tree(&kept, target).with_context(|| format!("cannot copy `{}`", kept.display()))
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_tree(&source, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&source)?, &target)?;
        } else if kind.is_file() {
            std::fs::copy(&source, &target)?;
        }
    }
    // PostgreSQL refuses a data directory that others may enter.
    std::fs::set_permissions(to, std::fs::metadata(from)?.permissions())?;
    Ok(())
}
