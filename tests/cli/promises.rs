//! What is promised of a power cut, on disks that do not keep what they are told to flush: nothing that the disk does not do.

use std::path::PathBuf;
use std::process::Command;

use blobwise::host::disk::{FileSystem, why_not_mounted};
use blobwise::host::machine::{Medium, StorageLayers};
use blobwise::result::disk::{DiskReport, TestOperation};
use blobwise::result::{FlushDoubt, Loss, RunResult, Status, Warning};
use blobwise::rules::FLUSH_NS_LEAST;

use crate::places::no_mounts;
use crate::program::{BLOBWISE, Outcome, Said, Work, finish, missing, needing};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    let no_loops = || {
        let no_ext4 = FileSystem::parse("ext4").unwrap().lacks();
        why_not_mounted().or(no_ext4).map(|why| format!("{why:#}"))
    };
    let lacks_server = no_compiler().or_else(|| missing("redis"));
    vec![
        needing("flushes that a library takes away are told in the answer", lacks_server, taken_away),
        needing(
            "power cuts and tests of disks tell of libraries that take flushes away",
            no_compiler().or_else(no_loops),
            told_elsewhere,
        ),
        needing("nothing is promised on a disk without barriers", no_loops(), without_barriers),
        needing("memory below a loop device is memory", no_loops(), memory_below_a_loop),
        needing("memory below an overlay is memory", no_overlay(), memory_below_an_overlay),
        needing("what lies below a program in user space is not known", no_bindfs(), in_user_space),
    ]
}

/// Writes in the strictest class and cold reads: what is answered of both hangs on the disk.
const RUN: &str = "run --stores files/hashed,sqlite --blobs 12 --rounds 1 --durability each-write --no-drop-caches \
                   --phases fill,read-warm,read-cold,overwrite --quiet --out out";

/// What the answer on one screen says, its lines joined.
fn answer(said: &Said) -> String {
    said.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn result(work: &Work) -> RunResult {
    RunResult::load(&work.path("out")).unwrap()
}

/// What a power cut takes of each candidate that is no baseline.
fn losses(result: &RunResult) -> Vec<(&str, Loss)> {
    let candidates = result.candidates.iter().filter(|candidate| !candidate.is_baseline());
    candidates.map(|of| (of.store.as_str(), of.promise.unwrap().loss.after_power_cut)).collect()
}

fn doubts(result: &RunResult) -> Vec<FlushDoubt> {
    let of = |warning: &Warning| match warning {
        Warning::Flushes { doubts } => Some(doubts.clone()),
        _ => None,
    };
    result.warnings.iter().find_map(of).unwrap_or_default()
}

// ---- libraries -------------------------------------------------------------------------------------------------------

fn no_compiler() -> Option<String> {
    let there = Command::new("cc").arg("--version").output();
    there.is_err().then(|| "no C compiler (`cc`)".to_owned())
}

/// A library that takes flushes away, as eatmydata does.
fn library(work: &Work) -> PathBuf {
    let source = "int fsync(int file) { return 0; }\nint fdatasync(int file) { return 0; }\n";
    std::fs::write(work.path("hungry.c"), source).unwrap();
    let made = finish(work.command("cc").args(["-shared", "-fPIC", "-o", "libhungry.so", "hungry.c"]));
    made.ended(0);
    work.path("libhungry.so")
}

fn taken_away() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place")).unwrap();
    let line = RUN.replace("files/hashed,sqlite", "files/hashed,sqlite,redis");
    let mut command = work.blobwise(&format!("{line} --dir place"));
    let said = finish(command.env("LD_PRELOAD", library(&work))).ended(0);
    let told = answer(&said);
    assert!(told.contains("libhungry.so` replaces fsync and fdatasync."), "{}", said.stdout);
    let result = result(&work);
    let below = result.machine.below.clone().unwrap();
    // Servers do not load it. What the tests' own disk does to them is another matter.
    let of_servers = match (below.medium, below.without_flushes.is_empty()) {
        (Medium::Disk, true) => Loss::Nothing,
        (Medium::Memory, _) => Loss::All,
        _ => Loss::NotKnown,
    };
    let of_others = of_servers.max(if of_servers == Loss::All { Loss::All } else { Loss::NotKnown });
    let found = losses(&result);
    assert_eq!(found, [("files/hashed", of_others), ("sqlite", of_others), ("redis", of_servers)]);
    // Without it nothing is said of it.
    std::fs::remove_dir_all(work.path("out"))?;
    let said = work.say(&format!("{RUN} --dir place")).ended(0);
    assert!(!said.stdout.contains("Libraries are loaded"), "{}", said.stdout);
    Ok(())
}

fn told_elsewhere() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place")).unwrap();
    let library = library(&work);
    let told = |line: &str| {
        let said = finish(work.blobwise(line).env("LD_PRELOAD", &library)).ended(0);
        assert!(answer(&said).contains("libhungry.so` replaces fsync and fdatasync."), "{}", said.stdout);
        answer(&said)
    };
    told("crash --stores files/hashed --durability none --cuts 0 --kills 1 --dir place");
    let disk =
        told("disk --dir place --size 1MB --files 10 --rounds 1 --threads 1 --seconds 0.01 --json disk.json");
    // A call that returns at once is far from a device; the write before it may take longer than that on a busy machine.
    let report: DiskReport = serde_json::from_slice(&std::fs::read(work.path("disk.json"))?)?;
    let flush = report.rows.iter().find(|row| row.test.what == TestOperation::Flush).unwrap();
    let is_too_quick = (flush.times_ns.p50.unwrap() as f64) < FLUSH_NS_LEAST;
    assert_eq!(disk.contains("faster than any device"), is_too_quick, "{disk}");
    Ok(())
}

// ---- disks -----------------------------------------------------------------------------------------------------------

/// Runs the program beside mounts that end with it: `mounts` is for the shell.
fn beside(work: &Work, mounts: &str, line: &str) -> Said {
    let script = format!("set -e; {mounts}; exec \"$0\" \"$@\"");
    let mut command = work.command("unshare");
    command.args(["--mount", "sh", "-c", &script, BLOBWISE]).args(line.split_whitespace());
    finish(&mut command)
}

/// The commands that make and mount a file system on a file.
fn image(at: &str, options: &str) -> String {
    format!(
        "truncate -s 200M {at} && mkfs.ext4 -q -F {at} && mkdir -p mounted && mount -o loop{options} {at} mounted"
    )
}

fn without_barriers() -> Outcome {
    let work = Work::new();
    let said = beside(&work, &image("image", ",nobarrier"), &format!("{RUN} --dir mounted")).ended(0);
    let told = answer(&said);
    let why = "It is not known whether a flush is durable here: ext4 (nobarrier) is mounted so that it ignores flushes";
    assert!(told.contains(why), "{}", said.stdout);
    assert!(!told.contains("nothing lost"), "{told}");
    let found = result(&work);
    assert_eq!(losses(&found), [("files/hashed", Loss::NotKnown), ("sqlite", Loss::NotKnown)]);
    let layers = found.machine.below.clone().unwrap().layers;
    assert!(layers[0] == "ext4" && layers[1].starts_with("loop") && layers.len() > 3, "{layers:?}");

    std::fs::remove_file(work.path("image"))?;
    let disk = "disk --dir mounted --size 1MB --files 10 --rounds 1 --threads 1 --seconds 0.01";
    let said = beside(&work, &image("image", ",nobarrier"), disk).ended(0);
    assert!(answer(&said).contains("ext4 (nobarrier) is mounted so"), "{}", said.stdout);
    Ok(())
}

fn memory_below_a_loop() -> Outcome {
    let work = Work::new();
    let mounts = format!("mkdir memory && mount -t tmpfs none memory && {}", image("memory/image", ""));
    // The file has no name any more, as where images are made for a run.
    let nameless = format!("{mounts}; rm memory/image");
    for mounts in [mounts, nameless] {
        let said = beside(&work, &mounts, &format!("{RUN} --dir mounted")).ended(0);
        in_memory(&work, &said, "tmpfs");
        let disk = beside(&work, &mounts.replace("mkdir memory", "true"), "disk --dir mounted");
        disk.refused(&["`mounted` lies in memory (ext4 on loop", " on tmpfs)"]);
        for name in ["out", "memory", "mounted"] {
            std::fs::remove_dir_all(work.path(name))?;
        }
    }
    // Images that are made where there is only memory.
    let mounts = "mkdir memory && mount -t tmpfs none memory && cd memory";
    let said = beside(&work, mounts, "disk --on ext4 --size 1MB");
    said.refused(&["the current directory", "lies in memory (tmpfs)"]);
    Ok(())
}

/// Everything is lost with the power, and nothing is ever cold.
fn in_memory(work: &Work, said: &Said, last: &str) {
    let told = answer(said);
    assert!(told.contains("The measured directory lies in memory ("), "{}", said.stdout);
    assert!(!told.contains("nothing lost"), "{told}");
    let found = result(work);
    assert_eq!(losses(&found), [("files/hashed", Loss::All), ("sqlite", Loss::All)]);
    let below = found.machine.below.clone().unwrap();
    assert_eq!((below.medium, below.layers.last().unwrap().as_str()), (Medium::Memory, last));
    let cold = found.results.iter().filter(|cell| cell.phase == "read-cold" && cell.store != "null");
    for cell in cold.filter(|cell| ["files/hashed", "sqlite"].contains(&cell.store.as_str())) {
        assert_eq!(cell.status, Status::NotPossible, "{}", cell.store);
        assert!(cell.reason.as_deref().unwrap().contains("lies in memory"), "{:?}", cell.reason);
    }
}

/// Why there can be no overlay in a namespace.
fn no_overlay() -> Option<String> {
    no_mounts().or_else(|| {
        let work = Work::new();
        let tried = beside_as_user(&work, OVERLAY, "list stores");
        (tried.code != Some(0)).then(|| format!("no overlay in a namespace: {}", tried.stderr.trim()))
    })
}

const OVERLAY: &str = "mkdir lower memory mounted; mount -t tmpfs none memory; mkdir memory/upper memory/work; \
                       mount -t overlay -o lowerdir=lower,upperdir=memory/upper,workdir=memory/work none mounted";

/// The same as a user who is root in a namespace.
fn beside_as_user(work: &Work, mounts: &str, line: &str) -> Said {
    // The kernel shows an overlay's directories as they were named.
    let mounts = mounts.replace("upperdir=", &format!("upperdir={}/", work.path("").display()));
    let script = format!("set -e; {mounts}; exec \"$0\" \"$@\"");
    let mut command = work.command("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, BLOBWISE]);
    finish(command.args(line.split_whitespace()))
}

fn memory_below_an_overlay() -> Outcome {
    let work = Work::new();
    let said = beside_as_user(&work, OVERLAY, &format!("{RUN} --dir mounted")).ended(0);
    in_memory(&work, &said, "tmpfs");
    assert_eq!(result(&work).machine.below.unwrap().description(), "overlay on tmpfs");
    Ok(())
}

fn no_bindfs() -> Option<String> {
    let there = Command::new("bindfs").arg("--version").output();
    let no_program = there.is_err().then(|| "no `bindfs`".to_owned());
    no_program.or_else(|| why_not_mounted().map(|why| format!("{why:#}")))
}

fn in_user_space() -> Outcome {
    let work = Work::new();
    let over = |below: &str| format!("mkdir -p mounted; bindfs {below} mounted");
    let here = work.path("here");
    std::fs::create_dir(&here)?;
    let said = beside(&work, &over("here"), &format!("{RUN} --dir mounted")).ended(0);
    let found = result(&work);
    if StorageLayers::inspect(&here).medium != Medium::Memory {
        let told = answer(&said);
        assert!(told.contains("It is not known whether a flush is durable here: "), "{}", said.stdout);
        assert!(matches!(&doubts(&found)[..], [.., FlushDoubt::NotKnown { .. }]), "{:?}", doubts(&found));
    }
    // That it has files in memory it says itself.
    std::fs::remove_dir_all(work.path("out"))?;
    let mounts = format!("mkdir memory; mount -t tmpfs none memory; {}", over("memory"));
    let said = beside(&work, &mounts, &format!("{RUN} --dir mounted")).ended(0);
    in_memory(&work, &said, "tmpfs");
    Ok(())
}
