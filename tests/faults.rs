//! What goes wrong around a run: supervisors and servers that are killed or stopped, no threads, descriptors, memory or room. The
//! candidate fails with the reason or the program does, in time; nothing of it is left running or on disk, and other candidates
//! keep their figures.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use blobwise::host::machine::uptime;
use blobwise::result::{RunResult, Status};
use libtest_mimic::Arguments;
use rustix::process::{Pid, Signal, kill_process};

#[path = "cli/program.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod program;
#[path = "common/trials.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod trials;

#[path = "faults/file_systems.rs"]
mod file_systems;
#[path = "faults/memory.rs"]
mod memory;
#[path = "faults/ports.rs"]
mod ports;

use file_systems::Change;
use program::{BLOBWISE, Outcome, Said, Work, missing, needing, start, start_in_step, why_not};

use crate::trials::Trial;

/// Ends a run that hangs. Those that wait for ports take more than a minute on an idle machine.
const WATCHDOG: Duration = Duration::from_secs(300);
/// Ends the wait for processes that stay.
const PATIENCE: Duration = Duration::from_secs(60);
const STORES: [&str; 4] = ["memcached", "redis", "nginx", "postgres/bytea"];
const PHASES: [&str; 4] = ["fill", "read-warm", "overwrite", "delete-half"];

fn main() -> ExitCode {
    let mut trials = Vec::new();
    // These wait for a minute, as long as the kernel remembers a connection: others run meanwhile.
    let lacks = ports::no_network().or_else(|| missing("redis"));
    let name = "local ports to a server of the user's are waited for";
    trials.push(needing(name, lacks, ports::are_waited_for));
    for (name, test) in [
        ("local ports that a candidate used up are back for the next", ports::come_back as fn() -> Outcome),
        ("who uses up all local ports is told so", ports::run_out),
    ] {
        trials.push(needing(name, ports::no_network(), test));
    }
    for (n, store) in STORES.into_iter().enumerate() {
        for (m, fault) in FAULTS.iter().enumerate() {
            // A supervisor does the same for each server of one process: Redis stands for both.
            if store == "memcached" && fault.name.contains("supervisor") {
                continue;
            }
            let phase = PHASES[(n + m) % PHASES.len()];
            let name = format!("{} of {store} in {phase} fails its candidate only", fault.name);
            trials.push(needing(&name, missing(store), move || in_phase(store, phase, fault, &[])));
        }
    }
    for store in ["nginx", "postgres/bytea"] {
        let name = format!("{store} ends when the program and its supervisors are killed at one moment");
        trials.push(needing(&name, missing(store), move || all_at_once(store)));
    }
    for store in ["memcached", "nginx"] {
        let name = format!("without PID namespaces {store} ends with its supervisor");
        let lacks = missing(store).or_else(|| refused(&WITHOUT_NAMESPACES));
        trials.push(needing(&name, lacks, move || {
            in_phase(store, "read-warm", &FAULTS[0], &WITHOUT_NAMESPACES)
        }));
    }
    trials.push(needing("no thread for a worker fails the candidate", refused(&few_threads()), no_threads));
    trials.push(Trial::test("no descriptors fail the candidate", no_descriptors));
    trials.push(Trial::test("a file that may not be so large fails its candidate", large_files));
    trials.push(needing("a full --out is told, and leaves no draft", refused(&SMALL_OUT), full_out));
    for (store, change, name, says) in CHANGES {
        let name = format!(
            "{store} on a file system that {name} in mid-run fails its candidate, and figures are kept"
        );
        let lacks = missing(store).or_else(file_systems::no_ext4);
        trials.push(needing(&name, lacks, move || file_systems::in_mid_run(store, change, says)));
    }
    let (lacks, name) = (file_systems::no_btrfs(), "a quota that is used up is told apart from a full disk");
    trials.push(needing(name, lacks, file_systems::quota));
    let (lacks, name) =
        (file_systems::no_ext4(), "inodes that are too few are refused before anything is written");
    trials.push(needing(name, lacks, file_systems::few_inodes));
    let lacks = file_systems::no_fuse();
    let name = "a file system that maps no files is told, with the way out";
    trials.push(needing(name, lacks, file_systems::without_maps));
    trials.push(needing(
        "no address space fails the candidate",
        missing("memcached").or_else(|| refused(&FEW_ADDRESSES)),
        no_address_space,
    ));
    trials.push(needing(
        "no memory in a control group leaves nothing",
        memory::no_group(),
        memory::all_killed,
    ));
    trials.push(Trial::test("a bus error is told, and the run can be resumed", bus_error));
    let name = "with room made in a full --out the run can be resumed";
    trials.push(needing(name, refused(&SMALL_OUT), resumed));
    trials::run(&Arguments::from_args(), trials, |_| true)
}

// ---- who is killed or stopped ---------------------------------------------------------------------------------------

struct Fault {
    name: &'static str,
    /// Who it happens to, of the program's descendants.
    victim: fn(&[Process]) -> Option<i32>,
    signal: Signal,
    /// What the reason must say.
    says: &'static str,
}

const fn fault(
    name: &'static str,
    victim: fn(&[Process]) -> Option<i32>,
    signal: Signal,
    says: &'static str,
) -> Fault {
    Fault { name, victim, signal, says }
}

const CHANGES: [(&str, Change, &str, &[&str]); 6] = [
    ("files/hashed", Change::NoInodes, "loses its inodes", &["has no inode free (0 of "]),
    (
        "files/hashed",
        Change::Broken,
        "breaks",
        &["Read-only file system (os error 30); the file system is mounted read-only"],
    ),
    ("sqlite", Change::Broken, "breaks", &["Read-only file system"]),
    ("postgres/bytea", Change::Broken, "breaks", &["Read-only file system"]),
    ("files/hashed", Change::Full, "fills up", &["it is bytes that it lacks"]),
    ("sqlite", Change::Full, "fills up", &["database or disk is full", "No space left on device"]),
];

const FAULTS: &[Fault] = &[
    fault("a killed supervisor", outside, Signal::KILL, "the supervisor of"),
    fault("a killed supervisor inside", inside, Signal::KILL, "the supervisor of"),
    fault("a stopped supervisor", outside, Signal::STOP, "was stopped by a signal"),
    fault("a stopped supervisor inside", inside, Signal::STOP, "was stopped by a signal"),
    fault("a killed server", server, Signal::KILL, "died by signal 9"),
    fault("a stopped server", server, Signal::STOP, "was stopped by a signal"),
];

#[derive(Clone, Debug)]
struct Process {
    pid: i32,
    parent: i32,
    command: String,
}

fn outside(all: &[Process]) -> Option<i32> {
    let is = |process: &&Process| process.command.contains("__supervise ");
    Some(all.iter().find(is)?.pid)
}

fn inside(all: &[Process]) -> Option<i32> {
    let is = |process: &&Process| process.command.contains("__supervise-inside");
    Some(all.iter().find(is)?.pid)
}

fn server(all: &[Process]) -> Option<i32> {
    let parent = inside(all)?;
    Some(all.iter().find(|process| process.parent == parent)?.pid)
}

/// What runs below a process.
fn below(root: i32) -> Vec<Process> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        all.extend(parent.map(|parent| Process { pid, parent, command }));
    }
    let mut pids = vec![root];
    let mut next = 0;
    while next < pids.len() {
        let parent = pids[next];
        pids.extend(all.iter().filter(|process| process.parent == parent).map(|process| process.pid));
        next += 1;
    }
    all.retain(|process| process.pid != root && pids.contains(&process.pid));
    all
}

/// Processes that work in a directory or name it.
fn using(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    let uses = |path: PathBuf| {
        let command = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let works_there = std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
        (works_there || command.contains(&*dir.to_string_lossy())).then_some(command)
    };
    numbers.filter_map(|entry| uses(entry.path())).collect()
}

fn signal(pid: i32, signal: Signal) {
    // It may have ended by itself meanwhile.
    kill_process(Pid::from_raw(pid).unwrap(), signal).ok();
}

/// A run of a server's candidate and one without, until the server's candidate begins a phase.
fn run_until(work: &Work, store: &str, phase: &str, wrapper: &[&str]) -> Child {
    std::fs::create_dir(work.path("place")).unwrap();
    let line = format!(
        "run --stores {store},files/hashed --corpus fixed:2kB --blobs 12 --rounds 1 --phases {} --op-timeout 5s \
         --no-drop-caches --verbose --dir place --out out",
        PHASES.join(",")
    );
    until(wrapped(work, wrapper).args(line.split_whitespace()), store, "round 1/1", phase)
}

/// Starts the program and waits until a store's candidate begins a phase in a round.
fn until(command: &mut Command, store: &str, round: &str, phase: &str) -> Child {
    let mut child = start_in_step(command);
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let (mut text, mut begun) = (String::new(), false);
    loop {
        text.clear();
        assert!(said.read_line(&mut text).unwrap() > 0, "it ended before `{phase}` of {store}");
        begun = if text.contains("round ") { text.contains(&format!("{round}: {store}")) } else { begun };
        if begun && text.trim() == phase {
            break;
        }
    }
    child.stderr = Some(said.into_inner());
    child
}

/// The program, started by others that change what it may do.
fn wrapped(work: &Work, wrapper: &[impl AsRef<OsStr>]) -> Command {
    match wrapper {
        [] => work.command(BLOBWISE),
        [first, rest @ ..] => {
            let mut command = work.command(first);
            command.args(rest).arg(BLOBWISE);
            command
        }
    }
}

/// Why something cannot be tried on this machine.
fn refused(wrapper: &[impl AsRef<OsStr>]) -> Option<String> {
    why_not(Command::new(&wrapper[0]).args(&wrapper[1..]).arg("true"))
}

/// Waits for the end, which must come. What is said is read meanwhile: somebody who says much waits for that.
fn ended(child: Child) -> Said {
    let pid = child.id() as i32;
    let (end, is_there) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let is_late = is_there.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout);
        if is_late {
            signal(pid, Signal::KILL);
        }
        is_late
    });
    let said = Said::from_output(&child.wait_with_output().unwrap());
    drop(end);
    assert!(!watchdog.join().unwrap(), "it did not end within {WATCHDOG:?}: {said:?}");
    said
}

fn nothing_is_left(work: &Work) {
    let begin = uptime();
    let place = work.path("place");
    while !using(&place).is_empty() {
        assert!(uptime() - begin < PATIENCE, "{:#?} are left", using(&place));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The reason for which a candidate failed; the other one was measured.
fn reason(work: &Work, store: &str) -> String {
    let result = RunResult::load(&work.path("out")).unwrap();
    let candidate = |store: &str| result.candidate(store).unwrap();
    assert_eq!(candidate("files/hashed").status, Status::Measured, "{:?}", candidate("files/hashed").reason);
    let figures = result.results.iter().filter(|cell| cell.store == "files/hashed");
    assert!(
        figures.clone().count() > 0 && figures.clone().all(|cell| cell.ops > 0),
        "figures of others are lost"
    );
    assert_eq!(candidate(store).status, Status::Failed);
    candidate(store).reason.clone().unwrap_or_default()
}

fn in_phase(store: &str, phase: &str, fault: &Fault, wrapper: &[&str]) -> Outcome {
    let work = Work::new();
    let child = run_until(&work, store, phase, wrapper);
    let pid = child.id() as i32;
    // Held still meanwhile: on a busy machine a look at all processes takes longer than the phase.
    signal(pid, Signal::STOP);
    let all = below(pid);
    let victim = (fault.victim)(&all);
    if let Some(victim) = victim {
        signal(victim, fault.signal);
    }
    signal(pid, Signal::CONT);
    assert!(victim.is_some(), "nobody for {} in {all:?}", fault.name);
    ended(child).ended(1);
    let reason = reason(&work, store);
    assert!(reason.contains(fault.says), "{reason}");
    nothing_is_left(&work);
    assert!(work.names("place").is_empty(), "{:?}", work.names("place"));
    Ok(())
}

fn all_at_once(store: &str) -> Outcome {
    let work = Work::new();
    let child = run_until(&work, store, "read-warm", &[]);
    let pid = child.id() as i32;
    // None may act upon the death of another before it dies, nor end before all are found.
    signal(pid, Signal::STOP);
    let all = below(pid);
    let supervisors = [outside(&all), inside(&all)];
    supervisors.into_iter().flatten().for_each(|supervisor| signal(supervisor, Signal::STOP));
    for killed in supervisors[0].into_iter().chain([pid]) {
        signal(killed, Signal::KILL);
    }
    ended(child);
    assert!(supervisors.iter().all(Option::is_some), "not all supervisors are in {all:?}");
    nothing_is_left(&work);
    Ok(())
}

// ---- what is missing ------------------------------------------------------------------------------------------------

/// A user namespace in which no PID namespace can be made.
const WITHOUT_NAMESPACES: [&str; 6] = [
    "unshare",
    "--user",
    "--map-root-user",
    "sh",
    "-c",
    "echo 0 >/proc/sys/user/max_pid_namespaces && exec \"$0\" \"$@\"",
];

/// Another user, because root may make as many as it likes. Nobody has this number, nor does another run of these trials.
fn few_threads() -> [String; 7] {
    let user = 1_000_000 + std::process::id();
    let (uid, gid) = (format!("--reuid={user}"), format!("--regid={user}"));
    ["setpriv", &uid, &gid, "--clear-groups", "--", "prlimit", "--nproc=20"].map(str::to_owned)
}

/// A file system of its own for what a run says.
const SMALL_OUT: [&str; 7] = with_mounts(
    "mkdir -p out && mount -t tmpfs -o size=8k none out && \"$0\" \"$@\"; code=$?; ls -A out; exit $code",
);

/// One that has room for the plan and for the result of some visits, until more is made.
const GROWING_OUT: [&str; 7] = with_mounts(
    "mkdir out && mount -t tmpfs -o size=40k none out && \"$0\" \"$@\"; code=$?; mount -o remount,size=20m out && \
     \"$0\" run --resume out --quiet && cat out/result.json && exit $code",
);

const fn with_mounts(script: &'static str) -> [&'static str; 7] {
    ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
}

fn line(more: &str) -> String {
    format!("run --rounds 1 --phases fill,read-warm --no-drop-caches --quiet --dir place --out out {more}")
}

fn run(work: &Work, wrapper: &[&str], line: &str) -> Said {
    std::fs::create_dir(work.path("place")).unwrap();
    ended(start(wrapped(work, wrapper).args(line.split_whitespace())))
}

fn no_threads() -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let work = Work::new();
    std::fs::set_permissions(work.path("."), std::fs::Permissions::from_mode(0o777))?;
    let mut command = wrapped(&work, &few_threads());
    command.args(
        line("--stores files/hashed,null --workers 64 --corpus fixed:1kB --blobs 200").split_whitespace(),
    );
    ended(start(&mut command)).ended(1);
    let result = RunResult::load(&work.path("out"))?;
    let candidate = result.candidate("files/hashed").ok_or("no candidate")?;
    let reason = candidate.reason.as_deref().unwrap_or_default();
    assert!(candidate.status == Status::Failed && reason.contains("no thread for worker"), "{candidate:?}");
    assert!(reason.contains("of 64"), "{reason}");
    assert!(work.names("place").is_empty(), "{:?}", work.names("place"));
    Ok(())
}

fn no_descriptors() -> Outcome {
    let work = Work::new();
    let more = "--stores files/hashed,sqlite --workers 32 --corpus fixed:1kB --blobs 200";
    let said = run(&work, &["prlimit", "--nofile=20"], &line(more)).ended(1);
    let result = RunResult::load(&work.path("out"))?;
    let failed = result.candidates.iter().filter(|candidate| candidate.status == Status::Failed);
    let reasons: Vec<_> = failed.filter_map(|candidate| candidate.reason.clone()).collect();
    assert!(!reasons.is_empty(), "{}", said.stdout);
    let told = |reason: &String| {
        reason.contains("Too many open files")
            && reason.contains("this process may have 20 open files (`ulimit -n`)")
    };
    assert!(reasons.iter().all(told), "{reasons:?}");
    assert!(work.names("place").is_empty(), "{:?}", work.names("place"));
    Ok(())
}

/// Enough for memcached to start, and not for its threads. The limit is the server's alone: what this program needs
/// grows with it.
const FEW_ADDRESSES: [&str; 2] = ["prlimit", "--as=40000000"];

fn no_address_space() -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let work = Work::new();
    std::fs::create_dir(work.path("place"))?;
    let limited = work.path("memcached");
    std::fs::write(&limited, format!("#!/bin/sh\nexec {} memcached \"$@\"\n", FEW_ADDRESSES.join(" ")))?;
    std::fs::set_permissions(&limited, std::fs::Permissions::from_mode(0o755))?;
    let mut command = work.command(BLOBWISE);
    command.env("BLOBWISE_MEMCACHED", &limited);
    command.args(line("--stores memcached,files/hashed --corpus fixed:1kB --blobs 20").split_whitespace());
    ended(start(&mut command)).ended(1);
    let reason = reason(&work, "memcached");
    assert!(reason.contains("ended with exit status: 1 before it was ready"), "{reason}");
    assert!(reason.contains("Can't create thread"), "{reason}");
    nothing_is_left(&work);
    assert!(work.names("place").is_empty(), "{:?}", work.names("place"));
    Ok(())
}

/// What a process gets that touches a mapped file where the disk has no room for it.
fn bus_error() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place"))?;
    // A round is left when it is killed, however late that is.
    let line = "run --stores files/hashed,memory --corpus fixed:2kB --blobs 12 --rounds 3 --phases fill,read-warm \
                --no-drop-caches --verbose --dir place --out out";
    let child =
        until(work.command(BLOBWISE).args(line.split_whitespace()), "files/hashed", "round 2/3", "fill");
    signal(child.id() as i32, Signal::BUS);
    let said = ended(child);
    assert!(said.code.is_none() && said.stderr.contains("error: killed by a bus error"), "{said:?}");
    assert!(said.stderr.contains("continue with `blobwise run --resume out`\n"), "{}", said.stderr);
    work.say("run --resume out --quiet").ended(0);
    let result = RunResult::load(&work.path("out"))?;
    assert!(result.complete && work.names("place").is_empty(), "{:?}", work.names("place"));
    Ok(())
}

fn large_files() -> Outcome {
    const LIMIT: [&str; 2] = ["prlimit", "--fsize=12000000"];
    let work = Work::new();
    // Whose files hold one blob each is refused before; of one file for all nobody knows beforehand how large it will be.
    let more = "--stores files/hashed,memory --corpus fixed:16MB --blobs 2";
    let words = ["`ulimit -f`", "12 MB", "`files/hashed`", "16 MB"];
    run(&work, &LIMIT, &line(more)).refused(&words);
    assert!(work.names("place").is_empty() && !work.path("out").exists());
    std::fs::remove_dir(work.path("place"))?;
    let said = run(&work, &LIMIT, &line("--stores sqlite,memory --corpus fixed:5MB --blobs 4")).ended(1);
    let result = RunResult::load(&work.path("out"))?;
    let candidate = |store: &str| result.candidate(store).unwrap();
    assert_eq!(candidate("memory").status, Status::Measured, "{}", said.stdout);
    let reason = candidate("sqlite").reason.clone().unwrap_or_default();
    let words = ["File too large", "no file of this process may have more than 12 MB (`ulimit -f`)"];
    assert!(words.iter().all(|words| reason.contains(words)), "{reason}");
    assert!(work.names("place").is_empty(), "{:?}", work.names("place"));
    Ok(())
}

fn full_out() -> Outcome {
    let work = Work::new();
    let said =
        run(&work, &SMALL_OUT, &line("--stores files/hashed,memory --corpus fixed:1kB --blobs 20")).ended(2);
    let told = said.stderr.lines().any(|line| line.starts_with("error: ") && line.contains("`out/"));
    assert!(told && said.stderr.contains("No space left on device"), "{}", said.stderr);
    assert!(!said.stdout.contains("draft") && !said.stdout.contains("plan.toml"), "{}", said.stdout);
    assert!(work.names("place").is_empty(), "{:?}", work.names("place"));
    Ok(())
}

fn resumed() -> Outcome {
    let work = Work::new();
    let more = line("--stores files/hashed,memory --corpus fixed:1kB --blobs 20");
    let said = run(&work, &GROWING_OUT, &more.replace("--rounds 1", "--rounds 2")).ended(2);
    let told =
        "error: what was measured is kept in `out`; continue with `blobwise run --resume out`: cannot write";
    assert!(said.stderr.contains(told) && said.stderr.contains("No space left on device"), "{}", said.stderr);
    let result = said.stdout.find("\n{").ok_or("no result")?;
    std::fs::write(work.path("out/result.json"), &said.stdout[result..])?;
    let result = RunResult::load(&work.path("out"))?;
    assert!(
        result.complete && result.candidates.iter().all(|candidate| candidate.status == Status::Measured),
        "{:?}",
        result.candidates
    );
    assert!(work.names("place").is_empty(), "{:?}", work.names("place"));
    Ok(())
}
