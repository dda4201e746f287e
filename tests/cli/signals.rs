//! SIGINT, SIGTERM and SIGKILL in every phase: what was measured is kept, nothing of the user's is touched, nothing is left
//! behind, and a rerun works.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Child;
use std::time::Duration;

use blobwise::host::machine;
use blobwise::plan::defaults;
use blobwise::result::{Cell, RunResult};
use blobwise::stores;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{BLOBWISE, Outcome, Said, Work, finish, held, missing, needing, start, start_in_step};
use crate::trials::Trial;

/// The phases of the default plan, and those that a user asks for.
const PHASES: &[&str] =
    &["fill", "read-warm", "read-cold", "range-head", "range-random", "overwrite", "delete-half", "reopen"];

pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    // Both signals that can be handled go the same way, so that each phase has one of them.
    let handled = [("SIGINT", Signal::INT), ("SIGTERM", Signal::TERM)];
    for (phase, handled) in PHASES.iter().zip(handled.iter().cycle()) {
        for (name, signal) in [*handled, ("SIGKILL", Signal::KILL)] {
            trials.push(Trial::test(format!("{name} in {phase}"), move || in_phase(signal, phase)));
        }
    }
    trials.push(Trial::test("a Ctrl-C that is passed on once more is one", passed_on));
    trials.push(Trial::test("a run that is ended while a silent server is asked leaves nothing", silent));
    trials.push(Trial::test("a run that was stopped goes on with --resume", goes_on));
    trials.push(Trial::test("a growth that was stopped goes on with whole curves", growth_goes_on));
    trials.push(Trial::test("a run goes on in the directory of its files", goes_on_beside_its_files));
    trials.push(Trial::test("a run that was stopped in the pilot is begun anew", stopped_in_the_pilot));
    trials.push(Trial::test(
        "a run that was killed in the pilot says so and is started anew",
        killed_in_the_pilot,
    ));
    trials.push(Trial::test("a budget is kept by a machine that stands still after the pilot", stood_still));
    trials.push(Trial::test("two runs do not write to one directory", one_out_for_two));
    trials.push(Trial::test("two runs do not go on with one earlier run", gone_on_with_twice));
    trials.push(Trial::test("a run does not go on with other files", other_files));
    trials.push(needing("a run does not go on with another server", missing("redis"), other_server));
    trials.push(Trial::test("a directory that another run holds is left alone", locked));
    let why = missing("memcached")
        .or_else(|| groups().is_empty().then(|| "no control groups are to be made".to_owned()));
    trials.push(needing(
        "control groups of a run that was killed are removed by the next",
        why,
        killed_groups,
    ));
    let why = stores::adapters().find(|adapter| adapter.name == "squashfs");
    let why = why.and_then(|adapter| adapter.lacks(&defaults(adapter)));
    let why = why.map(|error| format!("{error:#}"));
    trials.push(needing("images of a run that was killed are mounted no more", why, killed_images));
    trials
}

/// No round is repeated because the machine changed its speed: here it always does.
const PLAN: &str = r#"
stores = ["files/hashed", "sqlite"]
rounds = 6
phases = ["fill", "read-warm", "delete-half"]
drop_caches = false
probe_limit = 1000.0
corpus = { files = "files" }
"#;
const RUN: &str = "run plan.toml --verbose --dir place --out out";

/// A user's directory and a place that is not empty.
fn prepared() -> Work {
    let work = Work::new();
    std::fs::write(work.path("plan.toml"), PLAN).unwrap();
    std::fs::create_dir(work.path("files")).unwrap();
    for n in 0..40_usize {
        std::fs::write(work.path(&format!("files/{n}")), vec![n as u8; 1 + n * n * 97]).unwrap();
    }
    std::fs::create_dir(work.path("place")).unwrap();
    std::fs::write(work.path("place/theirs"), "theirs").unwrap();
    work
}

/// Starts the run and reads what it says until it says `line` for the `nth` time.
pub fn run_until(work: &Work, arguments: &str, line: &str, nth: usize) -> Child {
    until(start_in_step(work.command(BLOBWISE).args(arguments.split_whitespace())), line, nth)
}

/// Reads on until the run says `line` for the `nth` time from now.
pub fn until(mut child: Child, line: &str, nth: usize) -> Child {
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let (mut text, mut seen) = (String::new(), 0);
    while seen < nth {
        let begin = text.len();
        assert!(said.read_line(&mut text).unwrap() > 0, "it ended before `{line}`:\n{text}");
        seen += usize::from(text[begin..].trim_end().ends_with(line));
    }
    // Nobody reads on until the end.
    child.stderr = Some(said.into_inner());
    child
}

pub fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Kills a run that has just said `line`, where there is something that it leaves. Between two visits, in which it may be by now, there
/// is nothing: then it goes on until it says `line` again.
pub fn kill_amid(mut child: Child, line: &str, leaves: impl Fn() -> bool) {
    let kill = |child: &Child| {
        held(child, || {
            let is_there = leaves();
            if is_there {
                send(child, Signal::KILL);
            }
            is_there
        })
    };
    while !kill(&child) {
        child = until(child, line, 1);
    }
    wait(child);
}

pub fn wait(child: Child) -> Said {
    Said::from_output(&child.wait_with_output().unwrap())
}

fn in_phase(signal: Signal, phase: &str) -> Outcome {
    let work = prepared();
    let before = work.snapshot("files");
    // The third visit of forty: both stores of round 1 are measured, and kept. The run may be a few visits ahead of what was read.
    let phases = if phase == "fill" { "fill".to_owned() } else { format!("fill,{phase}") };
    let child = run_until(&work, &format!("{RUN} --rounds 20 --phases {phases}"), phase, 3);
    send(&child, signal);
    let said = wait(child);
    assert_eq!(work.snapshot("files"), before);
    let kept = RunResult::load(&work.path("out"))?;
    assert!(!kept.complete);
    assert!((2..40).contains(&kept.store_rounds.len()), "{} visits are kept", kept.store_rounds.len());
    if signal == Signal::KILL {
        assert_eq!(said.code, None);
    } else {
        let said = said.ended(if signal == Signal::INT { 130 } else { 143 });
        assert!(said.stdout.contains("The run was ended early"), "{}", said.stdout);
        assert_eq!(work.names("place"), ["theirs"]);
        for file in ["report.html", "results.csv", "plan.toml"] {
            assert!(work.path("out").join(file).exists(), "{file} is missing");
        }
    }
    // A rerun works, and takes away what a killed run left.
    let again = "run --files files --stores memory --rounds 1 --phases fill --quiet --dir place --out again";
    work.say(again).ended(0);
    assert_eq!(work.names("place"), ["theirs"]);
    assert_eq!(work.snapshot("files"), before);
    Ok(())
}

/// It ends at once, because nothing is made before servers have answered.
fn silent() -> Outcome {
    let work = prepared();
    let server = TcpListener::bind(("127.0.0.1", 0))?;
    server.set_nonblocking(true)?;
    let url = format!("--set redis.url=redis://{}", server.local_addr()?);
    let line = format!("run --stores redis --durability none --dir place --out out {url}");
    let mut child = start(&mut work.blobwise(&line));
    let _asked = loop {
        match server.accept() {
            Ok(asked) => break asked,
            Err(_) if child.try_wait()?.is_none() => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(format!("it asked no server: {error}, {:?}", wait(child)).into()),
        }
    };
    // One that is heard ends it in an orderly way, after the server was waited for.
    send(&child, Signal::TERM);
    let said = wait(child);
    assert_eq!(said.code, None, "{}", said.stderr);
    assert_eq!(work.names("place"), ["theirs"]);
    assert!(!work.path("out").exists());
    Ok(())
}

/// Who starts programs for others sends them what the whole group of processes has already: it is no second wish, which would end
/// the program where it stands.
fn passed_on() -> Outcome {
    let work = prepared();
    let child = run_until(&work, &format!("{RUN} --rounds 20"), "read-warm", 3);
    for _ in 0..3 {
        send(&child, Signal::INT);
        std::thread::sleep(Duration::from_millis(2));
    }
    let said = wait(child).ended(130);
    assert!(said.stdout.contains("The run was ended early"), "{}", said.stdout);
    assert_eq!(work.names("place"), ["theirs"]);
    Ok(())
}

/// A run that is stopped by Ctrl-C when it says `line` for the `nth` time.
fn interrupted(work: &Work, arguments: &str, line: &str, nth: usize) -> Said {
    let child = run_until(work, arguments, line, nth);
    send(&child, Signal::INT);
    wait(child).ended(130)
}

fn goes_on() -> Outcome {
    let work = prepared();
    interrupted(&work, RUN, "read-warm", 3);
    let kept = RunResult::load(&work.path("out"))?;
    let whole = work.result("run --resume out --quiet");
    assert!(whole.complete);
    assert_eq!(whole.store_rounds.len(), 12);
    assert_eq!(whole.plan.seed, kept.plan.seed);
    for before in &kept.store_rounds {
        let own = (before.round, &before.store);
        let same = whole.store_rounds.iter().filter(|after| (after.round, &after.store) == own);
        assert_eq!(same.count(), 1, "{own:?}");
    }
    // A round that was disturbed is measured again at the end, and kept aside: then it is no measure of what was gone on with.
    if whole.set_aside.is_empty() {
        let rounds_of = |result: &RunResult, at: usize| {
            result.results[at].rounds.first().map(|round| round.histogram.clone())
        };
        for at in 0..kept.results.len() {
            assert_eq!(rounds_of(&kept, at), rounds_of(&whole, at), "a measured round was measured again");
        }
    }
    work.say("run --resume out").refused(&["complete"]);
    Ok(())
}

/// One store grows through a whole curve, so that the one that was growing begins again, and the curves before it stand.
fn growth_goes_on() -> Outcome {
    const GROWS: &str = r#"
stores = ["files/hashed", "sqlite"]
rounds = 4
grow = "40,60,80"
phases = ["fill", "read-warm"]
drop_caches = false
probe_limit = 1000.0
"#;
    let work = prepared();
    std::fs::write(work.path("plan.toml"), GROWS)?;
    interrupted(&work, RUN, "read-warm.60", 3);
    let kept = RunResult::load(&work.path("out"))?;
    let through = kept.store_rounds.len();
    assert!(!kept.complete && (2..8).contains(&through), "{through} curves are through");
    let whole = work.result("run --resume out --quiet");
    assert_eq!((whole.complete, whole.store_rounds.len()), (true, 8));
    let steps: Vec<&Cell> = whole.results.iter().filter(|cell| cell.stored_blobs.is_some()).collect();
    assert_eq!(steps.len(), 12, "two phases of two stores, at three steps");
    for cell in steps {
        assert_eq!(cell.rounds.len(), 4, "{} in {}", cell.store, cell.phase);
    }
    Ok(())
}

/// Plan, result and report lie among the files, and are none of them.
fn goes_on_beside_its_files() -> Outcome {
    let work = prepared();
    let run = "run plan.toml --files . --verbose --dir place --out out";
    interrupted(&work, run, "read-warm", 3);
    let whole = work.result("run --resume out --quiet");
    assert!(whole.complete);
    assert_eq!(whole.corpus.blobs, 42, "forty files, a plan and what lies in the place");
    Ok(())
}

fn stopped_in_the_pilot() -> Outcome {
    let work = prepared();
    let run = "run plan.toml --phases fill,read-warm --rounds 2 --budget 5m --dir place --out out";
    let said = interrupted(&work, run, "pilot: files/hashed", 1);
    assert!(said.stdout.contains("Nothing was measured"), "{}", said.stdout);
    let kept = RunResult::load(&work.path("out"))?;
    assert!(!kept.complete);
    assert_eq!((kept.fixed.rounds, kept.store_rounds.len(), kept.corpus.blobs), (0, 0, 40));
    let whole = work.result("run --resume out --quiet");
    assert!(whole.complete);
    assert_eq!(whole.store_rounds.len(), 4);
    assert!(whole.harness.null_ns.contains_key("read-warm"), "{:?}", whole.harness);
    Ok(())
}

fn killed_in_the_pilot() -> Outcome {
    let work = prepared();
    let run = "run plan.toml --phases fill,read-warm --rounds 2 --budget 5m --dir place --out out";
    let child = run_until(&work, run, "pilot: files/hashed", 1);
    send(&child, Signal::KILL);
    wait(child);
    let before = work.snapshot("out");
    let words = [
        "in `out` was killed before it had measured anything",
        "start it again with `blobwise run out/plan.toml`",
    ];
    work.say("run --resume out").refused(&words);
    assert_eq!(work.snapshot("out"), before);
    work.say("run out/plan.toml --rounds 1 --quiet --out again").ended(0);
    assert_eq!(work.names("place"), ["theirs"]);
    Ok(())
}

/// The visit that is under way when the budget is spent is ended, and no part of a round is kept.
fn stood_still() -> Outcome {
    // A slow machine that is busy needs some of it to come to the second round.
    const BUDGET: Duration = Duration::from_secs(50);
    // Within the first round, or at the latest in the second; within the second, or at the latest in the third.
    for (reads, rounds_most) in [(1, 1), (4, 2)] {
        let work = prepared();
        let run = format!(
            "run --files files --stores files/hashed,sqlite --phases fill,read-warm,range-head,delete-half \
             --budget {}s --verbose --dir place --out out",
            BUDGET.as_secs()
        );
        let begun = machine::uptime();
        let child = run_until(&work, &run, "read-warm", reads);
        // The run began a moment later.
        let over = begun + BUDGET + Duration::from_secs(3);
        held(&child, || std::thread::sleep(over.saturating_sub(machine::uptime())));
        let goes_on = machine::uptime();
        let said = wait(child);
        let took = machine::uptime() - goes_on;
        // What is under way is ended and removed, and reports are written, which takes a busy machine seconds. The rounds that were planned
        // would take most of another budget.
        assert!(took < BUDGET / 2, "it took {took:?} more");
        assert_eq!(work.names("place"), ["theirs"]);
        if reads == 1 && said.code == Some(2) {
            said.refused(&["a budget of 50 s is too small", "visits of round 1"]);
            continue;
        }
        let said = said.ended(0);
        let kept = RunResult::load(&work.path("out"))?;
        assert!(kept.complete && (1..=rounds_most).contains(&kept.fixed.rounds), "{:?}", kept.fixed);
        assert_eq!(kept.store_rounds.len() as u32, kept.fixed.rounds * 2);
        assert!(said.stdout.contains("a larger `--budget`"), "{}", said.stdout);
    }
    Ok(())
}

/// One of two that begin at the same moment gets the directory, and one that comes later is told who has it.
fn one_out_for_two() -> Outcome {
    let work = prepared();
    let run = "run --stores null --blobs 12 --rounds 1 --phases fill --quiet --out one";
    let begin = || start(work.command(BLOBWISE).args(run.split_whitespace()));
    let (first, second) = (begin(), begin());
    let (first, second) = (wait(first), wait(second));
    let (done, refused) = if first.code == Some(0) { (first, second) } else { (second, first) };
    done.ended(0);
    refused.refused(&["`one`"]);
    assert!(RunResult::load(&work.path("one"))?.complete);
    let child = run_until(&work, &format!("{RUN} --rounds 4"), "read-warm", 3);
    let holder = format!("another run of blobwise (process {}) writes to `out`", child.id());
    let before = std::fs::read(work.path("out/plan.toml")).unwrap();
    for line in ["run --stores null --rounds 1 --out out", "run --resume out", "report out"] {
        work.say(line).refused(&[&holder]);
    }
    work.say("report out --markdown").ended(0);
    assert!(std::fs::read(work.path("out/plan.toml")).unwrap() == before, "the plan was changed");
    wait(child).ended(0);
    work.say("report out").ended(0);
    Ok(())
}

fn gone_on_with_twice() -> Outcome {
    let work = prepared();
    interrupted(&work, RUN, "read-warm", 3);
    let child = run_until(&work, "run --resume out --verbose", "fill", 1);
    let holder = format!("another run of blobwise (process {}) writes to `out`", child.id());
    work.say("run --resume out").refused(&[&holder]);
    wait(child).ended(0);
    assert!(RunResult::load(&work.path("out"))?.complete);
    Ok(())
}

/// Rounds of different blobs are never compared: it is refused, and what was measured stays as it is.
fn other_files() -> Outcome {
    let work = prepared();
    interrupted(&work, RUN, "read-warm", 3);
    let kept = std::fs::read(work.path("out/result.json"))?;
    std::fs::write(work.path("files/another"), "another")?;
    let words = ["the corpus was 40 blobs", "is 41 blobs", "`blobwise run out/plan.toml`"];
    work.say("run --resume out").refused(&words);
    assert!(std::fs::read(work.path("out/result.json"))? == kept, "the result was changed");
    assert_eq!(work.names("place"), ["theirs"]);
    std::fs::remove_file(work.path("files/another"))?;
    // Other bytes of the same length, too.
    let one = work.path("files").join(&work.names("files")[0]);
    let bytes = std::fs::read(&one)?;
    std::fs::write(&one, bytes.iter().map(|byte| !byte).collect::<Vec<u8>>())?;
    work.say("run --resume out")
        .refused(&["the digest of names and contents was", "`blobwise run out/plan.toml`"]);
    std::fs::write(&one, bytes)?;
    work.say("run --resume out --quiet").ended(0);
    Ok(())
}

/// Nor are rounds of different servers, whose URL is in the environment of one shell and not of another.
fn other_server() -> Outcome {
    let work = prepared();
    let run =
        "run plan.toml --stores files/hashed,redis --phases fill,read-warm --verbose --dir place --out out";
    interrupted(&work, run, "read-warm", 3);
    finish(work.blobwise("run --resume out").env("BLOBWISE_REDIS_URL", "redis://elsewhere"))
        .refused(&["`redis` had url `` and has `redis://elsewhere`", "`blobwise run out/plan.toml`"]);
    assert_eq!(work.names("place"), ["theirs"]);
    work.say("run --resume out --quiet").ended(0);
    Ok(())
}

/// Two runs at once in one place: neither removes what the other works on.
fn locked() -> Outcome {
    let work = prepared();
    let child = run_until(&work, &format!("{RUN} --rounds 6"), "read-warm", 1);
    work.say("run --files files --stores memory --rounds 1 --phases fill --quiet --dir place --out again")
        .ended(0);
    assert_eq!(work.names("place").len(), 2, "the first run's directory is there");
    wait(child).ended(0);
    assert_eq!(work.names("place"), ["theirs"]);
    Ok(())
}

/// Directories in which a group may be made that counts processor time.
fn groups() -> Vec<std::path::PathBuf> {
    let roots =
        ["/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(std::path::PathBuf::from);
    let is_writable = |root: &std::path::PathBuf| {
        (root.join("cpuacct.usage").exists() || root.join("cgroup.controllers").exists())
            && rustix::fs::access(root, rustix::fs::Access::WRITE_OK).is_ok()
    };
    roots.into_iter().filter(is_writable).collect()
}

/// The kernel frees their loop devices, and the next run removes their files.
fn killed_images() -> Outcome {
    const PATIENCE: Duration = Duration::from_secs(60);
    let work = prepared();
    let place = work.path("place").canonicalize()?.display().to_string();
    let attached = || -> Vec<String> {
        let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let files = devices
            .filter_map(|device| std::fs::read_to_string(device.path().join("loop/backing_file")).ok());
        files.filter(|file| file.starts_with(&place)).collect()
    };
    let line = "run --files files --stores squashfs --rounds 20 --verbose --dir place --out out";
    let words = line.split_whitespace().chain(["--phases", "fill,read-warm"]);
    let child = until(start(work.command(BLOBWISE).args(words)), "read-warm", 1);
    let wait_until = |is_attached: bool| {
        let begin = machine::uptime();
        while attached().is_empty() == is_attached {
            assert!(machine::uptime() - begin < PATIENCE, "wanted {is_attached}: {:?}", attached());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_until(true);
    send(&child, Signal::KILL);
    assert_eq!(wait(child).code, None);
    wait_until(false);
    let again = "run --files files --stores memory --rounds 1 --phases fill --quiet --dir place --out again";
    work.say(again).ended(0);
    assert_eq!(work.names("place"), ["theirs"]);
    Ok(())
}

fn killed_groups() -> Outcome {
    let work = Work::new();
    let run = "run --stores memcached --phases fill,read-warm --blobs 50 --rounds 3 --verbose --out";
    let mut killed = run_until(&work, &format!("{run} first"), "fill", 1);
    let part = format!("-{}-", killed.id());
    let of_the_killed = || -> Vec<String> {
        let entries =
            groups().into_iter().filter_map(|root| std::fs::read_dir(root).ok()).flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with("blobwise-") && name.contains(&part)).collect()
    };
    assert!(!held(&killed, of_the_killed).is_empty(), "the run has no group");
    killed.kill().and_then(|()| killed.wait()).unwrap();
    // Its server ends a moment later, and the kernel keeps a group as long. Any run removes it, those of other trials too.
    let mut tries = 0;
    while !of_the_killed().is_empty() {
        assert!(tries < 5, "{:?} stay", of_the_killed());
        work.say(&format!(
            "run --stores memcached --phases fill --blobs 50 --rounds 1 --quiet --out next{tries}"
        ))
        .ended(0);
        tries += 1;
    }
    Ok(())
}
