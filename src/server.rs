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

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal};

/// First argument of the program as a supervisor.
pub const SUPERVISE: &str = "__supervise";

/// A server program: where it may be, how it is told from others, what installs it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its file name, which may contain one `*`; the last match in order of names wins.
    pub name: &'static str,
    /// Directories beside PATH; a part may contain one `*`, and the last match in order of names wins. `~cache` is the
    /// user's directory for caches.
    pub places: &'static [&'static str],
    /// An environment variable that names the program's file.
    pub variable: Option<&'static str>,
    /// What it is asked, to say what it is; nothing where it is a file that another program loads, which cannot be asked.
    pub ask: &'static [&'static str],
    /// What the answer contains when it is the right one.
    pub says: &'static str,
    /// What the answer must not contain.
    pub never_says: Option<&'static str>,
    /// The command that installs it.
    pub install: &'static str,
}

/// A program that was found, and what it said of itself.
#[derive(Clone, Debug)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// The first line of its answer.
    pub version: String,
}

impl Program {
    /// Looks for the program. A file of the right name that says it is something else is not it. What was found is asked once:
    /// some take a second to answer.
    pub fn find(&self) -> Result<Found> {
        static KNOWN: Mutex<BTreeMap<(&str, &str), Found>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&(self.name, self.says)) {
            return Ok(found.clone());
        }
        let found = self.look()?;
        known.insert((self.name, self.says), found.clone());
        Ok(found)
    }

    fn look(&self) -> Result<Found> {
        let mut others = Vec::new();
        for path in self.candidates() {
            if self.ask.is_empty() {
                let version = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Ok(Found { path, version });
            }
            match ask(&path, self.ask) {
                Ok(answer) if self.is_meant(&answer) => {
                    return Ok(Found {
                        path,
                        version: answer.lines().next().unwrap_or_default().trim().to_owned(),
                    });
                }
                Ok(answer) => others.push(format!("`{}` says `{}`", path.display(), answer.trim())),
                Err(error) => others.push(format!("`{}`: {error:#}", path.display())),
            }
        }
        if let (Some(variable), Some(_)) = (self.variable, self.named()) {
            bail!(
                "`{variable}` does not name `{}`: {}; name another, or unset it",
                self.name,
                others.join("; ")
            );
        }
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
        bail!("no `{}` was found{others}; install it with `{}`", self.name, self.install)
    }

    /// The file that the program's variable names.
    fn named(&self) -> Option<PathBuf> {
        self.variable.and_then(std::env::var_os).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    fn is_meant(&self, answer: &str) -> bool {
        answer.contains(self.says) && self.never_says.is_none_or(|other| !answer.contains(other))
    }

    fn candidates(&self) -> Vec<PathBuf> {
        // What was named and is not it is not replaced by another.
        if let Some(named) = self.named() {
            return vec![named];
        }
        let mut candidates: Vec<PathBuf> = Vec::new();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
        // Debian keeps servers where a user's PATH does not look.
        directories.extend(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from));
        for place in self.places {
            directories.extend(matches(place));
        }
        for directory in directories {
            match self.name.split_once('*') {
                Some((begin, end)) => candidates.extend(children(&directory, begin, end)),
                None => candidates.push(directory.join(self.name)),
            }
        }
        // `/sbin` is often a link to `/usr/sbin`: each file is asked once.
        let mut seen = BTreeSet::new();
        candidates.retain(|path| path.is_file() && path.canonicalize().is_ok_and(|file| seen.insert(file)));
        candidates
    }
}

/// Directories that match a path in which a part may contain one `*`, the last in order of names first. `~cache` is the
/// user's directory for caches.
fn matches(pattern: &str) -> Vec<PathBuf> {
    let (mut found, rest) = match pattern.strip_prefix("~cache/") {
        Some(rest) => (cache_home().into_iter().collect(), rest),
        None => (vec![PathBuf::from("/")], pattern),
    };
    for part in rest.split('/').filter(|part| !part.is_empty()) {
        found = match part.split_once('*') {
            Some((begin, end)) => {
                found.iter().flat_map(|directory| children(directory, begin, end)).collect()
            }
            None => found.into_iter().map(|directory| directory.join(part)).collect(),
        };
    }
    found.retain(|directory| directory.is_dir());
    found
}

fn cache_home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
}

/// What is in a directory whose name begins and ends so, the last in order of names first.
fn children(directory: &Path, begin: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(|entry| entry.ok());
    let named = entries.filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| {
            name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
        })
    });
    let mut paths: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    paths.sort();
    paths.reverse();
    paths
}

fn ask(path: &Path, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new(path).args(arguments).stdin(Stdio::null()).output().context("cannot be started")?;
    Ok(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}

/// What is started, and how.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The program's file.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: Vec<OsString>,
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
        supervisor.arg(SUPERVISE).arg(&launch.log).arg(launch.program).args(&launch.arguments);
        supervisor.envs(launch.environment.iter().map(|(name, value)| (name, value))).current_dir(launch.dir);
        supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(directory) = launch.inherited {
            hand_down(&mut supervisor, directory);
        }
        #[expect(clippy::disallowed_methods, reason = "the home of starting processes")]
        let mut supervisor = supervisor.spawn()?;
        let group = ControlGroup::make(supervisor.id());
        let mut pipe = supervisor.stdin.take().ok_or_else(|| anyhow!("no pipe to the supervisor"))?;
        // The supervisor waits for this line, so that the server is born in its control group.
        pipe.write_all(b"go\n")?;
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

// ---- the supervisor ----------------------------------------------------------------------------------------------

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

/// Lets a descriptor outlive the command's start, and that of what the command starts.
#[expect(unsafe_code, reason = "what runs between fork and exec is unsafe to get wrong")]
fn hand_down(command: &mut Command, directory: BorrowedFd) {
    let number = directory.as_raw_fd();
    // SAFETY: one system call on a number; the descriptor is open for as long as the command can be started.
    unsafe {
        command.pre_exec(move || match libc::fcntl(number, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
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

// ---- processes ---------------------------------------------------------------------------------------------------

/// A process and everything below it.
fn tree(root: i32) -> Vec<i32> {
    let mut parents: Vec<(i32, i32)> = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name in parentheses may contain anything; the parent is the second field behind it.
        let parent =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// Processor time of a process: its threads from schedstat, its ended children from the 10 ms ticks of stat.
fn process_cpu_ns(pid: i32) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let own: u64 = threads
        .filter_map(|thread| thread.ok())
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<u64> =
        stat.rsplit_once(')')?.1.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    // cutime and cstime are the 16th and 17th field of the line, the name being the second.
    let ticks = fields.get(13)? + fields.get(14)?;
    Some(own + ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

fn proportional_bytes(pid: i32) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// A CPU control group of our own: it counts ended processes too, in nanoseconds.
#[derive(Debug)]
struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// Makes one and moves a process into it; `None` where that is not allowed.
    fn make(pid: u32) -> Option<ControlGroup> {
        for root in ["/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new) {
            let counts = |file: &str| root.join(file).exists();
            if !(counts("cpuacct.usage") || counts("cgroup.controllers")) {
                continue;
            }
            let Some(group) = ControlGroup::new_below(root) else { continue };
            if std::fs::write(group.path.join("cgroup.procs"), pid.to_string()).is_ok()
                && group.cpu_ns().is_some()
            {
                return Some(group);
            }
        }
        None
    }

    /// An empty one with a name that nothing has, not even what a killed process with our number left behind.
    fn new_below(root: &Path) -> Option<ControlGroup> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        const NAMES: usize = 1000;
        for _ in 0..NAMES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = root.join(format!("blobwise-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Some(ControlGroup { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(_) => return None,
            }
        }
        None
    }

    fn cpu_ns(&self) -> Option<u64> {
        if let Ok(usage) = std::fs::read_to_string(self.path.join("cpuacct.usage")) {
            return usage.trim().parse().ok();
        }
        let stat = std::fs::read_to_string(self.path.join("cpu.stat")).ok()?;
        let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        usage.trim().parse::<u64>().ok().map(|us| us * 1000)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A process that has just ended is in it a moment longer. One that is not empty stays behind, without effect.
        const TRIES: usize = 20;
        for _ in 0..TRIES {
            match std::fs::remove_dir(&self.path) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return,
            }
        }
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

/// A password for a server that must listen on TCP: 32 hexadecimal digits.
pub fn password() -> String {
    format!("{:016x}{:016x}", crate::place::fresh_seed(), crate::place::fresh_seed())
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
