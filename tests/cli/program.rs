//! Runs the program in a directory of its own and looks at what it leaves.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::SystemTime;

use blobwise::result::RunResult;
use blobwise::stores::{self, Entry};
use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};

use crate::trials::Trial;

/// What a test returns.
pub type Outcome = Result<(), Failed>;

/// The program under test.
pub const BLOBWISE: &str = env!("CARGO_BIN_EXE_blobwise");

/// What a store lacks to run here.
pub fn missing(store: &str) -> Option<String> {
    match stores::find(store) {
        Some(Entry::Ready(adapter)) => {
            adapter.missing_program(&blobwise::plan::defaults(adapter)).map(|error| format!("{error:#}"))
        }
        _ => Some(format!("{store} is not compiled in")),
    }
}

/// A trial that needs something of the machine: `missing` says what it has not.
pub fn needing(
    name: &str,
    missing: Option<String>,
    test: impl FnOnce() -> Outcome + Send + 'static,
) -> Trial {
    match missing {
        None => Trial::test(name, test),
        Some(why) => Trial::impossible(name, why),
    }
}

/// A directory for one test, removed at its end.
pub struct Work {
    dir: tempfile::TempDir,
}

/// How the program ended and what it said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Work {
    pub fn new() -> Work {
        // Not in /tmp, which may be in memory.
        Work { dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A command that runs in this directory, with both outputs piped.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The program with words separated by spaces, as it is.
    pub fn blobwise(&self, line: &str) -> Command {
        let mut command = self.command(BLOBWISE);
        command.args(line.split_whitespace());
        command
    }

    /// A run leaves the kernel's caches alone: trials run side by side, and all of them would read their programs and libraries
    /// from the disk again. It says all that it knows, because trials look for what most people need not see at once.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Said {
        let mut command = self.command(BLOBWISE);
        command.args(arguments);
        let words: Vec<&OsStr> = command.get_args().collect();
        let is_run = words.first().is_some_and(|word| *word == "run");
        let is_told = words.iter().any(|word| *word == "--resume" || *word == "--no-drop-caches");
        if is_run && !is_told {
            command.arg("--no-drop-caches");
        }
        if is_run {
            command.arg("--tables");
        }
        finish(&mut command)
    }

    /// Runs with words separated by spaces.
    pub fn say(&self, line: &str) -> Said {
        self.run(line.split_whitespace())
    }

    /// Runs a line that must end well, and loads the result in `out`.
    #[track_caller]
    pub fn result(&self, line: &str) -> RunResult {
        self.say(line).ended(0);
        RunResult::load(&self.path("out")).unwrap()
    }

    /// Every path below, with what a change would change: size, time of modification, mode and bytes.
    pub fn snapshot(&self, below: &str) -> BTreeMap<PathBuf, (u64, SystemTime, u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        collect(&self.path(below), &mut found);
        found
    }

    /// Names in a directory; none when it is missing.
    pub fn names(&self, below: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(below)) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }
}

fn collect(path: &Path, found: &mut BTreeMap<PathBuf, (u64, SystemTime, u32, Vec<u8>)>) {
    let meta = std::fs::symlink_metadata(path).unwrap();
    let bytes = if meta.is_file() { std::fs::read(path).unwrap_or_default() } else { Vec::new() };
    found.insert(path.to_owned(), (meta.len(), meta.modified().unwrap(), meta.mode(), bytes));
    if meta.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), found);
        }
    }
}

/// Runs a command to its end.
pub fn finish(command: &mut Command) -> Said {
    Said::from_output(&command.output().unwrap())
}

/// Why a command fails on this machine; nothing where it succeeds.
pub fn why_not(command: &mut Command) -> Option<String> {
    let why = match command.output() {
        Ok(output) if output.status.success() => return None,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Some(format!("`{}`: {why}", command.get_program().display()))
}

/// Copies a program or a directory. A process does that which starts nothing meanwhile: one that this starts at that moment would have
/// the copy open, and what is open for writing cannot be executed (`Text file busy`).
pub fn copied(from: &Path, to: &Path) -> Outcome {
    let said = finish(Command::new("cp").arg("-aL").arg(from).arg(to));
    if said.code == Some(0) { Ok(()) } else { Err(said.stderr.into()) }
}

/// Starts a command without waiting for it.
#[expect(clippy::disallowed_methods, reason = "a test that sends signals must hold the process")]
pub fn start(command: &mut Command) -> Child {
    command.spawn().unwrap()
}

/// The same, for who waits for a line of its standard error: the command writes a few lines ahead and waits then until they are read, so
/// that it has not run away when it is sent a signal, however busy the machine is.
pub fn start_in_step(command: &mut Command) -> Child {
    let (ours, its) = UnixStream::pair().unwrap();
    // The kernel takes the least that there is: some messages.
    rustix::net::sockopt::set_socket_send_buffer_size(&its, 1).unwrap();
    let mut child = start(command.stderr(OwnedFd::from(its)));
    // Or it would be held open here, and never end.
    command.stderr(Stdio::null());
    child.stderr = Some(OwnedFd::from(ours).into());
    child
}

/// Looks at something, or changes it, while a process is held still, so that it cannot go on meanwhile, however long that
/// takes. It goes on where that panics too: one that stays held keeps its servers for ever.
pub fn held<T>(child: &Child, act: impl FnOnce() -> T) -> T {
    struct GoesOn(Pid);
    impl Drop for GoesOn {
        fn drop(&mut self) {
            kill_process(self.0, Signal::CONT).ok();
        }
    }
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).unwrap();
    let _goes_on = GoesOn(pid);
    act()
}

impl Said {
    pub fn from_output(output: &Output) -> Said {
        Said {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Checks the exit code, and shows what was said when it is another.
    #[track_caller]
    pub fn ended(self, code: i32) -> Said {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Checks that it refused: code 2, an `error:` with these words, and nothing on standard output.
    #[track_caller]
    pub fn refused(self, words: &[&str]) -> Said {
        let said = self.ended(2);
        assert!(said.stderr.lines().any(|line| line.starts_with("error: ")), "{}", said.stderr);
        for word in words {
            assert!(said.stderr.contains(word), "`{word}` is not in: {}", said.stderr);
        }
        assert_eq!(said.stdout, "");
        said
    }
}
