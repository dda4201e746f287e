//! Memory that a candidate may have: kept to by the count of its control group, told where it is too little, refused where it
//! cannot be limited.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use blobwise::plan::PlanText;
use blobwise::result::{Cell, Reason, RunResult, Status};
use blobwise::store::Kind;
use blobwise::stores::{self, Entry};
use rustix::process::{Pid, Signal, kill_process};

use crate::obtainable::is_unobtainable;
use crate::program::{BLOBWISE, Outcome, Work, finish, missing, needing, why_not};
use crate::signals::{run_until, wait};
use crate::trials::Trial;

/// Stores without a cache whose size follows the limit, or with that of another one: files as in `files/hashed`, archives as `zip`, servers
/// of files as nginx and Apache, Valkey as Redis.
const AS_OTHERS: [&str; 7] = ["files/flat", "tar", "lighttpd", "caddy", "http", "ftp", "valkey"];

pub fn trials() -> Vec<Trial> {
    let mut families = HashSet::new();
    let mut trials: Vec<Trial> = stores::table()
        .filter_map(|entry| match entry {
            // A server by URL is not ours to limit, and baselines do what files do, or keep nothing.
            Entry::Ready(adapter) if !is_unobtainable(adapter) && adapter.kind != Kind::Baseline => {
                Some(adapter.name)
            }
            _ => None,
        })
        // FerretDB's runs take minutes where they hardly have memory.
        .filter(|store| !store.starts_with("page/") && !store.starts_with("ferretdb/"))
        .filter(|store| !AS_OTHERS.contains(store))
        // One with a server behind another, and one of those that the same programs do the work of.
        .filter(|store| !store.contains("-php/") || *store == "nginx-php/mysql")
        .filter(|store| families.insert(stores::family(store)))
        .map(|store| {
            let lacks = missing(store).or_else(no_groups);
            needing(&format!("{store} keeps within its memory"), lacks, move || keeps_within(store))
        })
        .collect();
    trials.extend([
        needing("a candidate that is killed for its memory goes down alone", no_groups(), killed),
        needing("a phase with little memory that does not end is given up alone", no_groups(), stuck),
        needing("a sweep of memory says which share decides", no_groups(), swept),
        needing("memory for reads only leaves other phases as they are", no_groups(), tight),
        needing("reads that do not fit are drawn, and come from the device in part", no_groups(), drawn),
        needing(
            "a server that leaves its group is not ranked",
            missing("memcached").or_else(no_groups),
            leaves,
        ),
        needing("a cache of files that others hold is not ranked", no_groups(), held_by_others),
        needing("a run with little memory can be stopped and resumed", no_groups(), stopped),
        needing("memory that cannot be limited is refused with a way out", no_namespaces(), refused),
        Trial::test("memory that is none is refused", no_memory),
        Trial::test("pages of a mapped file are told apart from memory", mapped),
    ]);
    trials
}

/// LMDB maps its file; what it keeps of its own is little.
fn mapped() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place")).unwrap();
    let bytes = 40 * 1_000_000;
    let line = "run --stores lmdb,files/hashed --corpus fixed:1000000 --blobs 40 --rounds 1 --phases fill,read-warm \
                --no-drop-caches --quiet --dir place --out out";
    let result = work.result(line);
    let cell = |store: &str| result.cell(store, "read-warm").unwrap();
    let (own, beside) = (cell("lmdb").anonymous_peak_bytes.unwrap(), cell("lmdb").mapped_peak_bytes.unwrap());
    assert!(own < bytes / 4 && beside > bytes / 2, "{own} B of its own, {beside} B mapped");
    assert!(cell("files/hashed").mapped_peak_bytes.unwrap() < bytes / 10, "{:?}", cell("files/hashed"));
    Ok(())
}

/// The control group for memory that this process is in.
fn own_group() -> Option<PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let own =
        lines.find(|(names, _)| *names == "memory").map(|(_, path)| format!("/sys/fs/cgroup/memory{path}"));
    own.map(PathBuf::from).filter(|path| path.is_dir())
}

/// Why no memory can be limited here, if so.
fn no_groups() -> Option<String> {
    blobwise::host::control_group::why_no_memory_group().map(|why| format!("{why:#}"))
}

/// Groups that runs of this process number have left.
fn groups_of(pid: u32) -> Vec<String> {
    let entries = own_group().and_then(|group| std::fs::read_dir(group).ok()).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.split('-').nth(2) == Some(pid.to_string().as_str())).collect()
}

/// Runs with these words, in 30 MB of blobs.
fn run(work: &Work, more: &str) -> RunResult {
    run_to(work, more, |_| false)
}

/// The same, or a run that fails and says so.
fn run_to(work: &Work, more: &str, may_say: impl Fn(&str) -> bool) -> RunResult {
    let rounds = if more.contains("--rounds") { "" } else { "--rounds 1" };
    let line = format!("run --corpus fixed:100kB --blobs 300 {rounds} --dir place --out out --quiet {more}");
    let mut command = work.command(BLOBWISE);
    let mut child = crate::program::start(command.args(line.split_whitespace()));
    let pid = child.id();
    let output = {
        use std::io::Read as _;
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        format!("{said}{errors}")
    };
    let status = child.wait().unwrap();
    assert!(status.success() || status.code() == Some(1) && may_say(&output), "{status}: {output}");
    assert!(work.names("place").is_empty(), "{:?}", work.names("place"));
    assert!(groups_of(pid).is_empty(), "{:?}", groups_of(pid));
    RunResult::load(&work.path("out")).unwrap()
}

/// What is said of a server that did not come up.
const LATE: &str = "was not ready after";

/// Whatever a candidate does in its limit, its group never had more, and blobs were right, or the run would have failed.
fn keeps_within(store: &str) -> Outcome {
    const BUDGET: u64 = 21_000_000;
    let work = Work::new();
    let line = format!("--memory 70% --stores {store} --phases fill,read-warm");
    // A program of 50 MB and more does not fit either, and on a loaded machine may not come up in its time: it keeps within its memory
    // all the same.
    let may_be_late = store == "seaweedfs";
    let is_late =
        |said: &str| may_be_late && said.split_whitespace().collect::<Vec<_>>().join(" ").contains(LATE);
    let result = run_to(&work, &line, is_late);
    // A label may say which program serves it.
    let is_of_store = |label: &str| label.split('[').next() == Some(store);
    let is_read = |cell: &&Cell| is_of_store(&cell.store) && cell.phase == "read-warm";
    let cell = result.results.iter().find(is_read).unwrap();
    match cell.status {
        Status::Measured => {
            let round = &cell.rounds[0];
            let memory = round.memory.unwrap();
            assert_eq!(memory.budget_bytes, Some(BUDGET), "{memory:?}");
            let limit = memory.limit_bytes.unwrap();
            // What the kernel must have, it takes beyond a limit: a few pages at a time.
            const FORCED: u64 = 1 << 18;
            assert!(memory.peak_bytes.is_none_or(|peak| peak <= limit + FORCED), "{memory:?}");
            let parts = memory.cache_bytes + memory.anonymous_bytes + memory.kernel_bytes;
            // The kernel adds up its counters per processor now and then.
            assert!(parts <= limit + limit / 4, "{memory:?}");
            assert!(memory.outside_bytes < limit / 50, "{memory:?}");
            assert!(limit >= BUDGET + memory.empty_bytes && round.ops > 0, "{memory:?}");
        }
        _ => {
            let reason = cell.reason.clone().unwrap_or_default();
            let is_told = ["needs more than 21 MB of memory", "forgets", "one session"];
            let is_told = is_told.iter().any(|words| reason.contains(words)) || is_late(&reason);
            assert!(is_told, "{:?}: {reason}", cell.status);
        }
    }
    Ok(())
}

fn killed() -> Outcome {
    let work = Work::new();
    // A cache of four times the memory: it fills until the kernel kills.
    let plan = "stores = ['redb', 'files/hashed', 'memory']\ncache = '200%'\nmemory = '50%'\nphases = ['fill', 'read-warm']\n";
    std::fs::write(work.path("plan.toml"), plan)?;
    let result = run(&work, "plan.toml");
    let cell = |store: &str, phase: &str| result.cell(store, phase).unwrap();
    let reason = |store: &str| cell(store, "read-warm").reason.clone().unwrap_or_default();
    assert_eq!(reason("redb"), "needs more than 15 MB of memory: killed by the kernel");
    assert!(
        reason("memory").starts_with("needs more than 15 MB of memory: it holds"),
        "{}",
        reason("memory")
    );
    assert!(cell("redb", "fill").ops > 0 && cell("files/hashed", "read-warm").ops > 0);
    // With a budget it is the pilot that finds it, and the rounds have the same reason.
    let work = Work::new();
    std::fs::write(work.path("plan.toml"), format!("{plan}budget = '2m'\n"))?;
    let result = run(&work, "plan.toml");
    let reads = result.cell("redb", "read-warm").unwrap();
    let reason = reads.reason.as_deref().unwrap_or_default();
    assert!(reason.starts_with("needs more than") && reason.ends_with("killed by the kernel"), "{reason}");
    Ok(())
}

/// Stops the process that visits a candidate for the one of this number.
fn stop_the_copy(of: u32) -> Outcome {
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"))?;
    let copy = children.split_whitespace().next().ok_or("it is visited by no copy")?;
    kill_process(Pid::from_raw(copy.parse()?).ok_or("no process")?, Signal::STOP)?;
    Ok(())
}

/// A process that is stopped does as much as one that reads its own program again and again. It is given its share of a round, a quarter
/// of the budget: on a busy machine a round of this small corpus takes many seconds, and two of them must fit beside it.
fn stuck() -> Outcome {
    let work = Work::new();
    let plan = "stores = ['files/hashed', 'files/flat']\nmemory = '50%'\nphases = ['fill', 'read-warm', 'overwrite']\n\
                budget = '120s'\nrounds = 2\ncorpus = { source = 'fixed:100kB', blobs = 100 }\n";
    std::fs::write(work.path("plan.toml"), plan)?;
    let child = run_until(&work, "run plan.toml --verbose --dir place --out out", "read-warm", 1);
    let stopped = stop_the_copy(child.id());
    let said = wait(child).ended(0);
    stopped?;
    let result = RunResult::load(&work.path("out"))?;
    let reads = result.results.iter().filter(|cell| cell.phase == "read-warm");
    let reasons: Vec<&str> = reads.filter_map(|cell| cell.reason.as_deref()).collect();
    assert_eq!(reasons, ["needs more than 5 MB of memory: no end of it in 30 s"]);
    let told = said.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(told.matches("were lost").count(), 1, "{told}");
    assert!(told.contains(reasons[0]) && result.store_rounds.len() == 4, "{told}");
    assert!(work.names("place").is_empty());
    Ok(())
}

fn swept() -> Outcome {
    let work = Work::new();
    let result = run(&work, "--memory-sweep 200%,50%,10% --stores files/hashed,files/flat");
    let plan: PlanText = result.plan.clone();
    assert_eq!(plan.memory_sweep.as_deref(), Some("200%,50%,10%"));
    assert!(result.answer[0].contains("| RAM for 200%, 50%, 10% |"), "{}", result.answer[0]);
    assert!(
        result.answer.iter().all(|sentence| !sentence.contains("was not part of it")),
        "{:?}",
        result.answer
    );
    for (phase, budget) in [("read-tight-200", 60_000_000), ("read-tight-50", 15_000_000)] {
        let cell = result.cell("files/flat", phase).unwrap();
        assert_eq!(cell.rounds[0].memory.unwrap().budget_bytes, Some(budget));
    }
    let by_memory = result.answer.iter().find(|sentence| sentence.starts_with("Reads by memory: ")).unwrap();
    let nobody =
        "Nobody was measured with 10 %: less than 4.19 MB of memory, which no candidate can be held to";
    assert!(by_memory.contains(nobody), "{by_memory}");
    Ok(())
}

fn tight() -> Outcome {
    let work = Work::new();
    let result =
        run(&work, "--stores files/hashed --phases fill,read-warm,read-tight,read-tight-zipf,overwrite");
    let memory = |phase: &str| {
        let cell = result.results.iter().find(|cell| cell.phase == phase).unwrap();
        cell.rounds[0].memory.unwrap()
    };
    for phase in ["read-tight", "read-tight-zipf"] {
        assert_eq!(memory(phase).budget_bytes, Some(7_500_000), "{phase}");
        assert!(memory(phase).limit_hits > 0, "{phase}");
    }
    for phase in ["fill", "read-warm", "overwrite"] {
        assert_eq!(memory(phase).limit_bytes, None, "{phase}");
    }
    Ok(())
}

/// What is read is drawn, and not one list again and again, which would find nothing there.
fn drawn() -> Outcome {
    let work = Work::new();
    let result = run(&work, "--memory 50% --stores files/hashed --phases fill,read-warm,read-again");
    for cell in result.results.iter().filter(|cell| cell.phase != "fill") {
        let round = &cell.rounds[0];
        let read = round.own_read_bytes.ok_or("no count of what was read")? as f64 / round.bytes as f64;
        assert!(read > 0.25, "{}: {read}", cell.phase);
        // Reads that repeat one order find nothing in a cache that forgets the least recently used: 1. Drawn ones find half. What
        // the device gave has no upper bound: beside other trials, the kernel kept nothing once (1.006).
        let ideal = round.memory.and_then(|memory| memory.ideal_lru_bytes_per_byte);
        assert!(ideal.is_some_and(|ideal| (ideal - 0.5).abs() < 0.1), "{}: {ideal:?}", cell.phase);
    }
    Ok(())
}

fn stopped() -> Outcome {
    let work = Work::new();
    let line = "run --corpus fixed:100kB --blobs 300 --rounds 40 --dir place --out out --memory 50% --stores files/hashed --phases fill,read-warm --verbose";
    let mut child = crate::program::start(work.command(BLOBWISE).args(line.split_whitespace()));
    let pid = child.id();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("round 3/"))).unwrap().unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    assert!(work.names("place").is_empty() && groups_of(pid).is_empty());
    // The rounds that were done are kept; as many as are left would take too long here.
    let result = RunResult::load(&work.path("out")).unwrap();
    let rounds = result.results.iter().find(|cell| cell.phase == "read-warm").unwrap().rounds.len();
    assert!((2..40).contains(&rounds), "{rounds}");
    Ok(())
}

/// A mount namespace in which the control groups cannot be written, for a command.
const READ_ONLY: &str = "for there in /sys/fs/cgroup /sys/fs/cgroup/memory; do mount -o remount,ro,bind $there || true; done; exec \"$0\" \"$@\"";

fn no_namespaces() -> Option<String> {
    why_not(Command::new("unshare").args(["-m", "true"]))
}

fn refused() -> Outcome {
    let work = Work::new();
    let line = "run --memory 25% --stores files/hashed --corpus fixed:100kB --blobs 20 --dir place --out out";
    let mut command = work.command("unshare");
    command.args(["-m", "sh", "-c", READ_ONLY, BLOBWISE]).args(line.split_whitespace());
    let said = finish(&mut command);
    let way_out = "systemd-run --user --scope -p Delegate=yes";
    let said = said.refused(&["memory cannot be limited here", way_out, "`--memory none`"]);
    assert!(said.stderr.contains("/sys/fs/cgroup"), "{}", said.stderr);
    assert!(!Path::new(&work.path("place")).exists() && !work.path("out").exists());
    // What is not asked for is left out, and said.
    let line = "run --stores files/hashed --corpus fixed:1kB --blobs 20 --rounds 1 --dir place --out out";
    let mut command = work.command("unshare");
    command.args(["-m", "sh", "-c", READ_ONLY, BLOBWISE]).args(line.split_whitespace());
    let said = finish(&mut command).ended(0);
    assert!(said.stderr.contains("reads with little memory are left out"), "{}", said.stderr);
    assert!(!said.stdout.contains("read-tight"));
    Ok(())
}

/// The reasons for which a candidate's phase is not ranked.
fn why_not_ranked(result: &RunResult, phase: &str) -> Option<Reason> {
    let cell = result.results.iter().find(|cell| cell.phase == phase).unwrap();
    cell.not_ranked.clone()
}

/// A program that takes itself out of the group that it is started in, and then is memcached.
fn leaves() -> Outcome {
    use std::os::unix::fs::PermissionsExt as _;
    let work = Work::new();
    let outside = own_group().ok_or("no group")?;
    let liar = work.path("memcached");
    let text = format!("#!/bin/sh\necho $$ > '{}/cgroup.procs'\nexec memcached \"$@\"\n", outside.display());
    std::fs::write(&liar, text)?;
    std::fs::set_permissions(&liar, std::fs::Permissions::from_mode(0o755))?;
    let line = "run --corpus fixed:100kB --blobs 300 --rounds 2 --stores memcached --phases fill,read-warm \
                --memory 200% --dir place --out out --quiet";
    finish(work.blobwise(line).env("BLOBWISE_MEMCACHED", &liar)).ended(0);
    let result = RunResult::load(&work.path("out"))?;
    let why = why_not_ranked(&result, "read-warm");
    assert!(matches!(why, Some(Reason::MemoryOutside { bytes, .. }) if bytes > 30_000_000), "{why:?}");
    Ok(())
}

/// Somebody else reads the store's files all the time, so that the kernel has them at that process's charge.
fn held_by_others() -> Outcome {
    use std::sync::atomic::{AtomicBool, Ordering};
    let work = Work::new();
    let (place, over) = (work.path("place"), AtomicBool::new(false));
    let read_all = |dir: &Path| {
        let mut left = vec![dir.to_owned()];
        while let Some(dir) = left.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    true => left.push(entry.path()),
                    false => drop(std::fs::read(entry.path())),
                }
            }
        }
    };
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                read_all(&place);
            }
        });
        let more = "--stores files/flat --phases fill,read-warm --memory 25% --rounds 2";
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&work, more)));
        over.store(true, Ordering::Relaxed);
        result
    });
    let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let why = why_not_ranked(&result, "read-warm");
    assert!(matches!(why, Some(Reason::MemoryOutside { bytes, .. }) if bytes > 1_000_000), "{why:?}");
    Ok(())
}

fn no_memory() -> Outcome {
    let work = Work::new();
    for (memory, says) in [
        ("0", "less than a page of memory"),
        ("25", "less than a page of memory"),
        ("much", "--memory: `much`"),
    ] {
        work.run(["run", "--memory", memory, "--dir", "place"]).refused(&[says]);
    }
    work.say("run --memory-sweep 25% --dir place").refused(&["one share shows no change"]);
    work.say("run --memory-total --dir place").refused(&["--memory"]);
    Ok(())
}
