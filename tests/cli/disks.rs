//! Tests of disks as a user starts them: every figure follows from what was measured, bad input is refused, and nothing is left.

use std::time::Duration;

use blobwise::host::disk::{FileSystem, LoopDevice};
use blobwise::result::Status;
use blobwise::result::disk::{Absent, DiskReport, TestOperation, TestProgram, TestResult};
use rustix::process::Signal;

use crate::file_systems::loops_below;
use crate::places::without;
use crate::program::{BLOBWISE, Outcome, Work, finish, held, needing, start, start_in_step};
use crate::signals::{send, until, wait};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    let lacks = FileSystem::parse("ext4").unwrap().lacks().map(|why| format!("{why:#}"));
    let missing = [TestProgram::Bonnie, TestProgram::Fio]
        .into_iter()
        .find_map(blobwise::disk::lacks)
        .map(|why| format!("{why:#}"));
    let no_disk = lacks.clone();
    vec![
        Trial::test("a disk is measured in a directory", directory),
        needing("a disk is measured on a file system of its own, and gone when it is killed", lacks, own),
        needing("a device is read and never written, and refused while it is mounted", no_disk, device),
        needing("Bonnie++ and fio test a disk in the same rounds", missing, beside),
        Trial::test("tests of disks that cannot be done are refused", refused),
        Trial::test("the disk below a candidate is tested in phases of a run", phases),
    ]
}

const QUICK: &str = "disk --size 1MB --files 40 --rounds 2 --threads 1,3 --seconds 0.01 --json out.json";
const BLOCKS: u64 = 1_000_000 / 8192;
const FILES: u64 = 40;

fn report(work: &Work) -> DiskReport {
    serde_json::from_str(&std::fs::read_to_string(work.path("out.json")).unwrap()).unwrap()
}

/// Every row has two rounds, or says why it has no figure; its ops are those that were asked for, and its rate follows from them.
fn check(report: &DiskReport) {
    let names: Vec<String> = report.rows.iter().map(|row| row.test.to_string()).collect();
    assert_eq!(names.len(), 15, "{names:?}");
    for row in &report.rows {
        let is_cache = |why: &Absent| !matches!(why, Absent::Failed { .. } | Absent::NotTold);
        if let Some(why) = &row.absent {
            assert!(is_cache(why), "{row:?}");
            continue;
        }
        assert_eq!((row.by, row.rounds.len()), (TestProgram::Blobwise, 2), "{}", row.test);
        let fixed = match row.test.what {
            TestOperation::Write | TestOperation::Rewrite | TestOperation::Read => Some(BLOCKS),
            TestOperation::Create
            | TestOperation::Delete
            | TestOperation::CreateRandom
            | TestOperation::DeleteRandom => Some(FILES),
            _ => None,
        };
        assert!(row.rounds.iter().all(|round| round.ops > 0 && fixed.is_none_or(|ops| ops == round.ops)));
        let rates = row.rounds.iter().map(|round| round.ops as f64 / round.seconds);
        let middle = (rates.map(f64::ln).sum::<f64>() / 2.0).exp();
        assert!((row.rate.unwrap().median / middle - 1.0).abs() < 1e-9, "{row:?}");
    }
}

fn directory() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place")).unwrap();
    let said = work.say(&format!("{QUICK} --dir place")).ended(0);
    let report = report(&work);
    check(&report);
    for row in report.rows.iter().filter(|row| row.absent.is_none()) {
        assert!(said.stdout.contains(&format!("\n  {}", row.test)), "{}", said.stdout);
    }
    assert!(said.stdout.lines().skip(1).all(|line| line.chars().count() <= 80), "{}", said.stdout);
    assert!(work.names("place").is_empty());
    // A test of a minute is under way, or will be.
    let long = "disk --dir place --size 1MB --files 10 --threads 1 --seconds 60";
    let child = until(start(work.command(BLOBWISE).args(long.split(' '))), "round 1: place", 1);
    send(&child, Signal::INT);
    assert_eq!(wait(child).ended(130).stdout, "");
    assert!(work.names("place").is_empty());
    Ok(())
}

/// The device is ours alone: what it did is what was asked for.
fn own() -> Outcome {
    let work = Work::new();
    work.say(&format!("{QUICK} --on ext4")).ended(0);
    let report = report(&work);
    check(&report);
    let row =
        |what: TestOperation| report.rows.iter().find(|row| row.test.what == what && row.absent.is_none());
    let used = |row: &TestResult| {
        row.rounds.iter().map(|round| (round.ops, round.device.unwrap())).collect::<Vec<_>>()
    };
    for (ops, device) in used(row(TestOperation::Write).unwrap()) {
        assert!(device.written_bytes >= ops * 8192, "{device:?}");
    }
    for (ops, device) in used(row(TestOperation::Flush).unwrap()) {
        assert!(device.flushes.is_none_or(|flushes| flushes >= ops), "{ops} ops: {device:?}");
    }
    if let Some(direct) = row(TestOperation::RandomRead).filter(|row| row.is_direct) {
        for (ops, device) in used(direct) {
            assert!(device.reads >= ops && device.read_bytes >= ops * 8192, "{ops} ops: {device:?}");
        }
    }
    assert!(report.places[0].is_own && report.places[0].facts["on_file_system"] == "ext4");
    let line = format!("{QUICK} --on ext4").replace("--rounds 2", "--rounds 90");
    let child = start_in_step(work.command(BLOBWISE).args(line.split_whitespace()));
    let child = until(child, "round 1: ext4", 1);
    assert_eq!(held(&child, || loops_below(&work.path("."))).len(), 1);
    send(&child, Signal::KILL);
    wait(child);
    let gone = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        loops_below(&work.path(".")).is_empty()
    });
    assert!(gone, "{:?} is left", loops_below(&work.path(".")));
    work.say("disk --size 1MB --files 10 --rounds 1 --threads 1 --seconds 0.01").ended(0);
    assert_eq!(work.names("."), ["out.json"], "the next one removes the rest");
    Ok(())
}

/// The device has a file system: mounted in namespaces of its own, it is in use for all.
fn device() -> Outcome {
    let work = Work::new();
    let bytes = 32 << 20;
    let image: Vec<u8> = (0..bytes).map(|place: u32| (place % 251) as u8).collect();
    std::fs::write(work.path("image"), &image).unwrap();
    let device = LoopDevice::attach(&work.path("image"))?;
    let path = device.path().display();
    let line = "--rounds 2 --threads 1,3 --seconds 0.01 --zcav 3 --json out.json --html out.html";
    work.say(&format!("disk --device {path} {line}")).ended(0);
    assert!(std::fs::read(work.path("image")).unwrap() == image, "it was written to");
    let report = report(&work);
    let names: Vec<String> = report.rows.iter().map(|row| row.test.to_string()).collect();
    assert_eq!(names, ["read at 0 %", "read at 50 %", "read at 100 %", "random read x1", "random read x3"]);
    for round in report.rows.iter().flat_map(|row| &row.rounds) {
        assert!(round.ops > 0 && round.device.is_some_and(|device| device.writes == 0), "{round:?}");
    }
    let page = std::fs::read_to_string(work.path("out.html")).unwrap();
    assert!(names.iter().all(|name| page.contains(name)) && page.contains("only read"));

    std::fs::create_dir(work.path("mounted")).unwrap();
    let made = finish(work.command("mkfs.ext4").arg("-q").arg(device.path()));
    made.ended(0);
    let script = format!("mount {path} mounted && exec {BLOBWISE} disk --device {path}");
    let inside = finish(work.command("unshare").args(["--mount", "sh", "-c", &script]));
    inside.refused(&["is in use", "Unmount it first"]);
    work.say("disk --device /dev/null").refused(&["--device: `/dev/null` is no block device"]);
    work.say(&format!("disk --device {path} --on ext4")).refused(&["--device", "--on"]);
    Ok(())
}

/// Each row says what the program said, or that it said nothing.
fn beside() -> Outcome {
    let work = Work::new();
    let line = "disk --size 2MB --files 10 --rounds 1 --threads 2 --seconds 0.01 --json out.json";
    work.say(&format!("{line} --beside bonnie,fio")).ended(0);
    let report = report(&work);
    let by = |by: TestProgram| report.rows.iter().filter(|row| row.by == by).collect::<Vec<&TestResult>>();
    let (bonnie, fio) = (by(TestProgram::Bonnie), by(TestProgram::Fio));
    assert_eq!((bonnie.len(), fio.len()), (9, 5), "{bonnie:?} {fio:?}");
    for row in fio.iter().chain(&bonnie) {
        assert!(row.rounds.len() == 1 || row.absent == Some(Absent::NotTold), "{row:?}");
    }
    assert_eq!(work.names("."), ["out.json"]);

    let mut without = work.command(BLOBWISE);
    let said =
        finish(without.args(line.split(' ')).args(["--beside", "fio"]).env("PATH", "/nowhere")).ended(0);
    assert!(said.stdout.contains("fio is missing: no `fio` was found"), "{}", said.stdout);
    Ok(())
}

fn refused() -> Outcome {
    let work = Work::new();
    let disk = |more: &str| work.say(&format!("disk {more}"));
    disk("--dir . --on ext4").refused(&["--dir <DIR>", "--on"]);
    disk("--size 100kB").refused(&["--size: `100kB`", "1MB to 16GB"]);
    disk("--size 17GB").refused(&["--size: `17GB`", "memory"]);
    disk("--threads 1,65").refused(&["--threads: `65`", "1 to 64"]);
    disk("--seconds 0").refused(&["--seconds: `0`", "0.01 to 60"]);
    disk("--dir no/where").refused(&["there is no directory `no`"]);
    disk("--on ext5").refused(&["--on", "`ext5`", "`ext4`"]);
    disk("--on ext4 --device-limit 20MB").refused(&["20MB/s,200iops"]);
    disk("--json no/where.json").refused(&["cannot write `no/where.json`"]);
    disk("--beside fi").refused(&["--beside", "`fi`", "`fio`"]);
    disk("--dir /dev/shm").refused(&["`/dev/shm` lies in memory"]);
    disk("--dir /proc").refused(&["`/proc`"]);
    without("-sys_admin", &work, "disk --on ext4").refused(&["`ext4`", "run as root"]);
    assert!(work.names(".").is_empty());
    Ok(())
}

/// The file is a hundredth of what it is: 81 blocks.
fn phases() -> Outcome {
    let work = Work::new();
    let phases = ["disk-write", "disk-rewrite", "disk-read", "disk-write-bytes", "disk-read-bytes"];
    let line = "run --stores files/flat,memory --blobs 12 --rounds 1 --scale 0.01 --quiet --dir place --out out --phases fill,";
    std::fs::create_dir(work.path("place")).unwrap();
    let result = work.result(&format!("{line}{}", phases.join(",")));
    for phase in phases {
        let cell = |store: &str| result.cell(store, phase).unwrap();
        assert_eq!(cell("memory").status, Status::NotPossible, "it keeps nothing on a disk");
        let cell = cell("files/flat");
        match cell.rounds.as_slice() {
            [round] => {
                assert_eq!((round.ops, round.bytes, round.counters.errors), (81, 81 * 8192, 0), "{phase}")
            }
            // A cache that the kernel does not tell of, as a disk in memory has.
            _ => assert!(phase.contains("re") && cell.reason.as_ref().unwrap().contains("cache"), "{phase}"),
        }
    }
    assert!(work.names("place").is_empty());
    Ok(())
}
