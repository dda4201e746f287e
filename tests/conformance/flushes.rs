//! A store's behaviour seen from outside: its system calls under strace, between one of our calls and its return.
//!
//! A child process opens the store with one worker and does one op after the other. It marks the beginning and end of each call
//! by a stat of a file that does not exist, whose name identifies the call: strace shows it in its place among the system calls
//! of all processes. The order of strace's lines is the order of events, because a process stands still while strace writes its
//! line.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use blobwise::conformance::bench::{BLOB_BYTES_MAX, Hand, Home, blob, key, open};
use blobwise::conformance::check::{CannotCheck, Case};
use blobwise::conformance::subject::Subject;
use blobwise::store::{Durability, Mode};

/// First argument of this program as the traced process.
pub const CHILD: &str = "__traced";
/// Prefix of the names of these files.
const MARK: &str = "/blobwise-mark/";

// ---- the process that is traced ------------------------------------------------------------------------------------

/// Opens the store, does a few ops of each kind that it has, and closes it.
pub fn act(subject: &Subject, home: &Home) -> Result<()> {
    let store = open(subject, home, Mode::Create, BLOB_BYTES_MAX)?;
    let batch = subject.caps().batch;
    {
        let mut hand = Hand::open(store.as_ref(), subject)?;
        for turn in 0..3 {
            let (first, second) = (key(2 * turn), key(2 * turn + 1));
            let (old, new) = (blob(first.id, 0, 5000), blob(first.id, 1, 6000));
            marked("put", || hand.put(&first, &old))?;
            sync(subject, &mut hand)?;
            if !subject.caps().changes {
                act_append_only(subject, &mut hand, turn)?;
                continue;
            }
            marked("put", || hand.put(&first, &new))?;
            sync(subject, &mut hand)?;
            if batch {
                marked("put-batch", || hand.put_batch(&[(first, &old), (second, &new)]))?;
                sync(subject, &mut hand)?;
                marked("delete-batch", || hand.delete_batch(&[first, second]))?;
                sync(subject, &mut hand)?;
            }
            // Other bytes, because a store need not write the same bytes again.
            marked("put", || hand.put(&first, &old))?;
            marked("delete", || hand.delete(&first))?;
            sync(subject, &mut hand)?;
        }
    }
    store.settle()?;
    Ok(store.close()?)
}

/// As many puts and syncs as an op of each kind takes, of blobs that are not there.
fn act_append_only(subject: &Subject, hand: &mut Hand, turn: u64) -> Result<()> {
    for (id, syncs) in [(100, true), (200, false), (300, true)] {
        let key = key(id + turn);
        marked("put", || hand.put(&key, &blob(key.id, 0, 5000)))?;
        if syncs {
            sync(subject, hand)?;
        }
    }
    Ok(())
}

fn sync(subject: &Subject, hand: &mut Hand) -> Result<()> {
    if subject.durability == Durability::OnSync {
        return marked("sync", || hand.sync());
    }
    Ok(())
}

fn marked(call: &str, op: impl FnOnce() -> Result<()>) -> Result<()> {
    mark("begin", call);
    let outcome = op();
    mark("end", call);
    outcome
}

fn mark(border: &str, call: &str) {
    // The file never exists; strace sees the call.
    std::fs::metadata(format!("{MARK}{border}/{call}")).ok();
}

// ---- the trace -------------------------------------------------------------------------------------------------------

/// System calls to trace: all that flush, open, make, rename or remove, the writes that may flush by themselves, and the marks.
const WATCHED: &str = "trace=clone,clone3,fork,vfork,fsync,fdatasync,msync,sync,syncfs,open,openat,openat2,creat,chdir,fchdir,mkdir,mkdirat,rename,\
renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,symlink,symlinkat,truncate,write,writev,pwrite64,pwritev,pwritev2,\
io_uring_enter,statx";

/// A finished system call.
#[derive(Clone, Debug)]
struct Call {
    pid: String,
    name: String,
    arguments: String,
    result: String,
    /// Lines of the trace at which it began and ended.
    begin: usize,
    end: usize,
}

/// System calls of a child and all its descendants.
pub struct Trace {
    calls: Vec<Call>,
    /// Working directory of the child, which is not the store's.
    start: PathBuf,
    home: PathBuf,
    cache: PathBuf,
    text: String,
}

/// strace ended with an incomplete trace. If a process is stopped and continued at once, strace may come too late with its
/// request to keep it stopped, and gives up: `ptrace(PTRACE_LISTEN,pid:1,sig:0): Input/output error`.
#[derive(Debug, thiserror::Error)]
#[error("strace gave up: {0}")]
struct GaveUp(String);

impl Trace {
    /// Runs a child under strace, and once more if strace gives up.
    fn record(case: &Case) -> Result<Trace> {
        match Trace::once(case) {
            Err(error) if error.is::<GaveUp>() => Trace::once(case),
            outcome => outcome,
        }
    }

    /// Runs a child under strace. The trace file lies beside the store.
    fn once(case: &Case) -> Result<Trace> {
        case.world.warm(case.subject, BLOB_BYTES_MAX)?;
        let home = case.world.home()?;
        let file = home.around().join("trace");
        let mut strace = Command::new("strace");
        strace
            .args("-f -y -s 32 --seccomp-bpf --pidns-translation -e signal=none -e".split(' '))
            .args([WATCHED, "-o"])
            .arg(&file);
        strace
            .arg(std::env::current_exe()?)
            .arg(CHILD)
            .arg(&case.subject.name)
            .arg(&home.store)
            .arg(&home.cache);
        // A directory without files of the store, so that a use of relative paths shows.
        strace.current_dir(home.around()).stdin(Stdio::null());
        let output = strace.output().map_err(|error| {
            CannotCheck(format!("`strace` cannot be started ({error}); apt-get install strace"))
        })?;
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("ptrace(PTRACE_LISTEN") {
            bail!(GaveUp(said.trim().to_owned()));
        }
        if said.contains("PTRACE") || said.contains("ptrace") {
            bail!(CannotCheck(format!("tracing is refused here: {}", said.trim())));
        }
        ensure!(output.status.success(), "the traced process failed: {}", said.trim());
        let text = std::fs::read_to_string(&file).context("no trace was written")?;
        let calls = parse(&text);
        Ok(Trace {
            calls,
            start: home.around().to_owned(),
            home: home.store.clone(),
            cache: home.cache.clone(),
            text,
        })
    }
}

/// Parses lines of strace: `PID name(arguments) = result`, in two parts if other processes did something in between.
fn parse(text: &str) -> Vec<Call> {
    let mut begun: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    let mut calls = Vec::new();
    for (line, text) in text.lines().enumerate() {
        let Some((pid, rest)) = text.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(begin) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(pid, (line, begin.trim_end().to_owned()));
            continue;
        }
        let (begin, whole) = match rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_, end)) => match begun.remove(pid) {
                Some((begin, text)) => (begin, format!("{text}{end}")),
                None => continue,
            },
            None => (line, rest.to_owned()),
        };
        let Some((name, rest)) = whole.split_once('(') else { continue };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { continue };
        let arguments = arguments.trim_end().trim_end_matches(')').to_owned();
        calls.push(Call {
            pid: pid.to_owned(),
            name: name.to_owned(),
            arguments,
            result: result.trim().to_owned(),
            begin,
            end: line,
        });
    }
    calls
}

impl Call {
    fn succeeded(&self) -> bool {
        !self.result.starts_with('-') && !self.result.starts_with('?')
    }

    /// Pid of the new process as strace numbers it. In a PID namespace the call returned another number, followed by strace's: `3
    /// /* 4711 in strace's PID NS */`.
    fn child(&self) -> &str {
        let seen = self.result.split_once("/* ").and_then(|(_, rest)| rest.split_once(' '));
        seen.map_or(&self.result, |(seen, _)| seen)
    }

    /// File of the first descriptor among the arguments, as strace shows it: `5</path>`.
    fn file(&self) -> Option<&str> {
        between(&self.arguments, '<', '>')
    }

    /// File of the descriptor that it returned.
    fn opened(&self) -> Option<&str> {
        between(&self.result, '<', '>')
    }

    /// Border (`begin` or `end`) and name of the call that it marks.
    fn mark(&self) -> Option<(&str, &str)> {
        if self.name != "statx" {
            return None;
        }
        let (_, rest) = self.arguments.split_once(MARK)?;
        rest.split_once('"')?.0.split_once('/')
    }
}

fn between(text: &str, open: char, close: char) -> Option<&str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inner, _)| inner)
}

// ---- flushes ---------------------------------------------------------------------------------------------------------

/// One of our calls, with the lines between its marks.
struct Interval {
    call: String,
    /// The process or thread that called.
    pid: String,
    after: usize,
    before: usize,
}

impl Trace {
    fn intervals(&self) -> Result<Vec<Interval>> {
        let mut begun: Option<(&str, usize)> = None;
        let mut intervals = Vec::new();
        for (call, (border, name)) in self.calls.iter().filter_map(|call| Some((call, call.mark()?))) {
            match (border, begun.take()) {
                ("begin", None) => begun = Some((name, call.end)),
                ("end", Some((same, after))) if same == name => {
                    let (name, pid) = (name.to_owned(), call.pid.clone());
                    intervals.push(Interval { call: name, pid, after, before: call.begin });
                }
                _ => bail!("the marks of the trace do not match at line {}", call.begin + 1),
            }
        }
        Ok(intervals)
    }

    /// Files that were opened only with O_SYNC or O_DSYNC.
    fn files_that_flush(&self) -> Vec<&str> {
        let mut flushes: BTreeMap<&str, bool> = BTreeMap::new();
        for call in self.calls.iter().filter(|call| call.name.starts_with("open") && call.succeeded()) {
            let Some(path) = call.opened() else { continue };
            let flag = call.arguments.contains("O_SYNC") || call.arguments.contains("O_DSYNC");
            *flushes.entry(path).or_insert(true) &= flag;
        }
        flushes.into_iter().filter(|(_, flushes)| *flushes).map(|(path, _)| path).collect()
    }

    /// True if a call brings data of the store to stable storage. (sync_file_range does not, because it does not flush the
    /// device's cache. Requests to io_uring are in memory, which strace does not see, so they never count.)
    fn flushes(&self, call: &Call, files: &[&str]) -> bool {
        let of_the_store = || call.file().is_some_and(|path| Path::new(path).starts_with(&self.home));
        let wrote = || !call.result.starts_with('0') && of_the_store();
        call.succeeded()
            && match call.name.as_str() {
                "fsync" | "fdatasync" | "syncfs" => of_the_store(),
                "sync" => true,
                "msync" => call.arguments.contains("MS_SYNC"),
                "pwritev2" if call.arguments.contains("RWF_DSYNC") || call.arguments.contains("RWF_SYNC") => {
                    wrote()
                }
                "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => {
                    wrote() && call.file().is_some_and(|path| files.contains(&path))
                }
                _ => false,
            }
    }

    /// Each interval must contain a whole flush.
    fn expect_flushes(&self, intervals: &[Interval], least: usize) -> Result<()> {
        let files = self.files_that_flush();
        let flushes: Vec<&Call> = self.calls.iter().filter(|call| self.flushes(call, &files)).collect();
        ensure!(intervals.len() >= least, "only {} of {least} calls are in the trace", intervals.len());
        for (number, interval) in intervals.iter().enumerate() {
            let within = flushes.iter().any(|call| call.begin > interval.after && call.end < interval.before);
            ensure!(
                within,
                "no flush of any kind in `{}` (number {} of {}), though {} are in the whole trace:\n{}",
                interval.call,
                number + 1,
                intervals.len(),
                flushes.len(),
                self.lines(interval)
            );
        }
        Ok(())
    }

    /// A file that the caller renamed or removed stays so only if its directory was flushed afterwards: otherwise a journal whose
    /// removal commits comes back after a power cut. (Cleanup by a store's own threads is not part of the call's promise.)
    fn expect_names_flushed(&self, intervals: &[Interval]) -> Result<()> {
        const CHANGES: &[&str] = &["rename", "renameat", "renameat2", "unlink", "unlinkat"];
        for interval in intervals {
            let within =
                |call: &&Call| call.succeeded() && call.begin > interval.after && call.end < interval.before;
            let changes = |call: &&Call| call.pid == interval.pid && CHANGES.contains(&call.name.as_str());
            for change in self.calls.iter().filter(within).filter(changes) {
                // The last path is the target of a rename.
                let Some(path) = self.touched(change).pop() else { continue };
                if !path.starts_with(&self.home) {
                    continue;
                }
                let mut later = self.calls.iter().filter(within).filter(|call| call.begin > change.end);
                ensure!(
                    later.any(|call| self.flushes_names(call, path.parent())),
                    "the directory of `{}` is not flushed in `{}` after {}:\n{}",
                    path.display(),
                    interval.call,
                    change.name,
                    self.lines(interval)
                );
            }
        }
        Ok(())
    }

    /// True if a call brings the names in a directory of the store to stable storage.
    fn flushes_names(&self, call: &Call, directory: Option<&Path>) -> bool {
        let file = call.file().map(Path::new);
        match call.name.as_str() {
            "fsync" | "fdatasync" => file.is_some() && file == directory,
            "syncfs" => file.is_some_and(|file| file.starts_with(&self.home)),
            "sync" => true,
            _ => false,
        }
    }

    /// First lines of the trace within a call.
    fn lines(&self, interval: &Interval) -> String {
        const SHOWN: usize = 20;
        let lines =
            self.text.lines().skip(interval.after).take((interval.before - interval.after + 1).min(SHOWN));
        lines.map(|line| format!("  {line}\n")).collect()
    }
}

/// Requires at least one flush between the call of every put and delete and its return, and one of every directory with changed
/// names.
pub fn flushes_each_write(case: &Case) -> Result<()> {
    let trace = Trace::record(case)?;
    let intervals = trace.intervals()?;
    trace.expect_flushes(&intervals, 12)?;
    trace.expect_names_flushed(&intervals)?;
    trace.expect_below(case.subject)
}

/// Requires at least one flush between the call of the last write before a sync and the sync's return. A store may flush before
/// it is asked, and then has nothing left to do in the sync.
pub fn flushes_on_sync(case: &Case) -> Result<()> {
    let trace = Trace::record(case)?;
    let intervals = trace.intervals()?;
    let syncs = intervals.windows(2).filter(|pair| pair[1].call == "sync");
    let with_last_write = syncs.map(|pair| Interval {
        call: format!("{} and sync", pair[0].call),
        pid: pair[1].pid.clone(),
        after: pair[0].after,
        before: pair[1].before,
    });
    let with_last_write: Vec<Interval> = with_last_write.collect();
    trace.expect_flushes(&with_last_write, 9)?;
    trace.expect_names_flushed(&with_last_write)?;
    trace.expect_below(case.subject)
}

/// LMDB in a durable class: data of a transaction must be flushed before the page that makes it valid is written. Otherwise a
/// power cut may leave that page pointing at pages that were never written, whatever is flushed later.
pub fn flushes_before_it_commits(case: &Case) -> Result<()> {
    let trace = Trace::record(case)?;
    let files = trace.files_that_flush();
    let writes = trace.intervals()?.into_iter().filter(|interval| interval.call != "sync");
    for interval in writes {
        let within = |call: &&Call| call.begin > interval.after && call.end < interval.before;
        let of_the_map = |call: &&Call| call.file().is_some_and(|path| path.ends_with("/data.mdb"));
        let calls: Vec<&Call> = trace.calls.iter().filter(within).filter(of_the_map).collect();
        let commit = calls.iter().rposition(|call| makes_valid(call));
        let before = &calls[..commit.with_context(|| format!("no commit in `{}`", interval.call))?];
        let pages = before.iter().rposition(|call| call.name.contains("write"));
        let behind = pages.with_context(|| format!("no page is written in `{}`", interval.call))? + 1;
        ensure!(
            before[behind..].iter().any(|call| trace.flushes(call, &files)),
            "no flush between the pages and the commit of `{}`:\n{}",
            interval.call,
            trace.lines(&interval)
        );
    }
    Ok(())
}

/// True if the call writes to one of LMDB's first two pages, the later of which is the valid root of the database.
fn makes_valid(call: &Call) -> bool {
    const FIRST_TWO_BYTES: u64 = 2 * 4096;
    let offset = || call.arguments.rsplit(", ").next().and_then(|offset| offset.parse::<u64>().ok());
    call.name == "pwrite64" && offset().is_some_and(|offset| offset < FIRST_TWO_BYTES)
}

// ---- where it writes ---------------------------------------------------------------------------------------------------

/// For a class that does not flush; the checks of flushes do the same with their own trace.
pub fn writes_only_below_its_directory(case: &Case) -> Result<()> {
    Trace::record(case)?.expect_below(case.subject)
}

/// True for devices, the kernel's file systems, shared memory, the run's cache and directories for sockets.
fn is_no_place_of_the_users(path: &Path, cache: &Path) -> bool {
    const KERNELS: &[&str] = &["/dev/null", "/dev/tty", "/dev/shm", "/proc", "/sys"];
    #[expect(clippy::disallowed_methods, reason = "sockets lie below the directory for temporary files")]
    let temporary = std::env::temp_dir();
    let is_for_sockets = path.strip_prefix(temporary).is_ok_and(|rest| {
        let first = rest.components().next();
        first.is_some_and(|first| first.as_os_str().to_string_lossy().starts_with("blobwise-"))
    });
    // A file system in an image is mounted through one.
    let is_loop_device =
        path.strip_prefix("/dev").is_ok_and(|name| name.to_string_lossy().starts_with("loop"));
    path.starts_with(cache)
        || is_for_sockets
        || is_loop_device
        || KERNELS.iter().any(|kernels| path.starts_with(kernels))
}

impl Trace {
    /// Everything that is opened for writing, created, renamed or removed must lie below the store's directory, the run's cache,
    /// or the short private directory that sockets need.
    fn expect_below(&self, subject: &Subject) -> Result<()> {
        let mut below = 0;
        for call in self.calls.iter().filter(|call| call.succeeded()) {
            for path in self.touched(call) {
                if path.starts_with(&self.home) {
                    below += 1;
                } else {
                    ensure!(
                        is_no_place_of_the_users(&path, &self.cache),
                        "`{}` is not below the store's directory: {}({}) = {}",
                        path.display(),
                        call.name,
                        call.arguments,
                        call.result
                    );
                }
            }
        }
        ensure!(below > 0 || !subject.caps().persistent, "nothing was written below the store's directory");
        Ok(())
    }

    /// Paths that a call writes, creates, renames or removes.
    fn touched(&self, call: &Call) -> Vec<PathBuf> {
        let writes =
            || ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| call.arguments.contains(flag));
        match call.name.as_str() {
            "open" | "openat" | "openat2" if writes() => opened_path(call),
            "creat" => opened_path(call),
            "mkdir" | "mkdirat" | "rename" | "renameat" | "renameat2" | "unlink" | "unlinkat" | "rmdir"
            | "link" | "linkat" | "symlink" | "symlinkat" | "truncate" => {
                named_paths(call, &self.directory_of(&call.pid, call.begin))
            }
            _ => Vec::new(),
        }
    }

    /// Working directory of a process at a line: the target of its last chdir, or its parent's directory when it was created.
    fn directory_of(&self, pid: &str, line: usize) -> PathBuf {
        let before = || self.calls.iter().rev().filter(|call| call.begin < line && call.succeeded());
        if let Some(call) = before().find(|call| call.pid == pid && call.name.ends_with("chdir")) {
            // `fchdir` has a descriptor, whose path strace shows.
            let base = self.directory_of(pid, call.begin);
            let by_descriptor = call.file().map(PathBuf::from);
            return named_paths(call, &base).pop().or(by_descriptor).unwrap_or(base);
        }
        let is_birth = |call: &&Call| {
            ["clone", "clone3", "fork", "vfork"].contains(&call.name.as_str()) && call.child() == pid
        };
        match self.calls.iter().find(is_birth) {
            Some(birth) => self.directory_of(&birth.pid, birth.begin),
            None => self.start.clone(),
        }
    }
}

/// Path of the opened descriptor; pipes, sockets and memory have none.
fn opened_path(call: &Call) -> Vec<PathBuf> {
    let path =
        call.opened().filter(|path| path.starts_with('/')).map(|path| path.trim_end_matches(" (deleted)"));
    path.map(PathBuf::from).into_iter().collect()
}

/// Every quoted argument, relative to the descriptor before it or to the process's directory.
fn named_paths(call: &Call, directory: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut base: Option<&str> = None;
    for argument in call.arguments.split(", ") {
        if let Some(path) = argument.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            let base = base.take().map_or(directory, Path::new);
            paths.push(normal(&base.join(path)));
        } else {
            base = between(argument, '<', '>');
        }
    }
    if call.name.starts_with("symlink") {
        // The text of a symbolic link is not a touched file.
        paths.remove(0);
    }
    paths
}

/// Resolves `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            std::path::Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Writes the outcome of a child to its standard error.
pub fn report(outcome: Result<()>) -> std::process::ExitCode {
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            writeln!(std::io::stderr(), "{error:#}").ok();
            std::process::ExitCode::from(1)
        }
    }
}

/// Parses the subject and the home from a child's arguments: `__traced SUBJECT STORE CACHE`.
pub fn child_arguments(arguments: &[String]) -> Result<(std::sync::Arc<Subject>, Home)> {
    let [subject, store, cache, ..] = arguments else {
        bail!("a subject, its directory and a cache are needed")
    };
    let subject = crate::find(subject)?.ok_or_else(|| anyhow!("there is no subject `{subject}`"))?;
    Ok((subject, Home::borrowed(store.into(), cache.into())))
}
