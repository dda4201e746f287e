//! File systems that are made for a run: candidates on them, and nothing of them left, however the run ends.

use std::path::Path;
use std::time::Duration;

use blobwise::host::control_group::{why_no_device_limit, why_no_memory_group};
use blobwise::host::disk::FileSystem;
use blobwise::result::{RunResult, Status, Warning};
use rustix::process::Signal;

use crate::places::{mounted, mounted_over, without};
use crate::program::{BLOBWISE, Outcome, Said, Work, held, needing, start, start_in_step};
use crate::signals::{send, until, wait};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    let lacks = || {
        let named = ["ext4", "xfs", "btrfs-raid1"].map(|name| FileSystem::parse(name).unwrap());
        named.iter().find_map(FileSystem::lacks).map(|why| format!("{why:#}"))
    };
    let lacks_limits = || lacks().or_else(|| why_no_device_limit().map(|why| format!("{why:#}")));
    let lacks_memory = || lacks_limits().or_else(|| why_no_memory_group().map(|why| format!("{why:#}")));
    vec![
        needing("every candidate is on every file system that is asked for", lacks(), every_candidate),
        needing("images and loop devices go with a run that is killed", lacks(), killed),
        needing(
            "devices are limited, filled and counted each by itself, and free of it after a kill",
            lacks_limits(),
            limited,
        ),
        needing("who is too slow for the pilot is tried with few blobs", lacks_limits(), || {
            slow_in_pilot("")
        }),
        needing(
            "who is too slow for the pilot in a process of its own is tried with few blobs",
            lacks_memory(),
            || slow_in_pilot("--memory 64MB"),
        ),
        needing("a file system that cannot be made is refused", lacks(), refused),
    ]
}

const QUICK: &str = "run --blobs 12 --rounds 1 --quiet --out out";

fn run(work: &Work, more: &str) -> Said {
    work.say(&format!("{QUICK} --dir place {more}"))
}

/// Loop devices whose image lies below a directory.
pub fn loops_below(dir: &Path) -> Vec<String> {
    let dir = dir.canonicalize().unwrap();
    let image = |name: &str| std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
    let names = std::fs::read_dir("/sys/block").unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| image(name).is_ok_and(|image| Path::new(&image).starts_with(&dir))).collect()
}

fn every_candidate() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place")).unwrap();
    let said = run(
        &work,
        "--on dir,btrfs-nocow,btrfs-raid1 --stores files/hashed,fopen,memory --phases fill,read-warm,overwrite --verify",
    );
    said.ended(0);
    let result = RunResult::load(&work.path("out"))?;
    let fact = |store: &str, name: &str| {
        let found = result.candidate(store).unwrap_or_else(|| panic!("no candidate {store}"));
        assert_eq!(found.status, Status::Measured);
        found.facts.get(name).cloned().unwrap_or_default()
    };
    assert_eq!(result.candidates.len(), 7, "what keeps nothing on a disk is there once");
    assert_eq!(fact("files/hashed[on=dir]", "on_file_system"), "");
    assert_eq!(fact("files/hashed[on=btrfs-nocow]", "on_file_system"), "btrfs");
    assert!(fact("files/hashed[on=btrfs-nocow]", "on_mount").contains("nodatacow"));
    assert_eq!(fact("files/hashed[on=btrfs-raid1:2]", "on_file_system"), "btrfs");
    assert!(fact("files/hashed[on=btrfs-raid1:2]", "on_layout").contains("Data: RAID1"));
    assert_eq!(fact("memory", "on_file_system"), "");
    // Each is held against the baseline that lies where it does.
    let held = result.comparisons.iter().filter(|comparison| comparison.reference.starts_with("fopen"));
    let place = |label: &str| label.split_once("[on=").map(|(_, place)| place.to_owned());
    assert!(held.clone().count() > 0);
    assert!(held.clone().all(|held| place(&held.store) == place(&held.reference)));
    assert!(work.names("place").is_empty() && loops_below(&work.path("place")).is_empty());
    Ok(())
}

/// At moments of the making, and in the first phase.
fn killed() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place")).unwrap();
    let line = format!(
        "{} --dir place --on ext4,btrfs-raid1 --stores sqlite --phases fill",
        QUICK.replace("--quiet", "--verbose").replace("--rounds 1", "--rounds 9")
    );
    for moment in [50, 400, 0] {
        let mut child = start_in_step(work.command(BLOBWISE).args(line.split_whitespace()));
        match moment {
            0 => {
                child = until(child, "fill", 1);
                let loops = held(&child, || loops_below(&work.path("place")));
                assert_eq!(loops.len(), 3, "{loops:?}");
            }
            moment => std::thread::sleep(Duration::from_millis(moment)),
        }
        send(&child, Signal::KILL);
        wait(child);
        // The kernel gives loop devices back a moment after the last process that saw the mounts has gone.
        let gone = (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            loops_below(&work.path("place")).is_empty()
        });
        assert!(gone, "{:?} are left after {moment} ms", loops_below(&work.path("place")));
        for left in work.names("place") {
            let files = work.names(&format!("place/{left}"));
            assert!(files.iter().all(|name| name == "BLOBWISE" || name.starts_with("on-")), "{files:?}");
        }
        std::fs::remove_dir_all(work.path("out")).ok();
    }
    run(&work, "--phases fill --stores files/flat").ended(0);
    assert!(work.names("place").is_empty(), "the next run removes the rest");
    Ok(())
}

/// Rules for devices of these numbers: others may limit theirs meanwhile.
fn rules(devices: &[String]) -> Vec<String> {
    let file = |name: &str| format!("/sys/fs/cgroup/blkio/blkio.throttle.{name}_device");
    let files = ["read_bps", "write_bps", "read_iops", "write_iops"].map(file);
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap_or_default());
    let is_own = |line: &&str| devices.iter().any(|device| line.split(' ').next() == Some(device));
    texts.flat_map(|text| text.lines().filter(is_own).map(str::to_owned).collect::<Vec<String>>()).collect()
}

fn limited() -> Outcome {
    const LIMIT: u64 = 20_000_000;
    const BLOB: u64 = 8_000_000;
    let work = Work::new();
    std::fs::create_dir(work.path("place")).unwrap();
    let more = "--corpus fixed:8MB --content random --phases fill --stores files/flat --device-limit 20000000/s --fill 20%";
    let line = format!(
        "run --blobs 2 --rounds 1 --verbose --dir place --out out --on btrfs-raid0,btrfs-raid1@40% {more}"
    );
    let result = work.result(&line);
    let [striped, twice] = result.candidates.as_slice() else { panic!("{:?}", result.candidates) };
    let fact = |name: &str| [striped, twice].map(|candidate| candidate.facts[name].clone());
    assert_eq!(fact("on_device_limit"), ["20000000 B/s"; 2]);
    // One as the run says, one as its name does.
    let filled = fact("on_filled").map(|share| share.parse::<f64>().unwrap());
    assert!((0.2..0.3).contains(&filled[0]) && (0.4..0.5).contains(&filled[1]), "{filled:?}");
    let wrote = fact("on_devices_wrote_bytes")
        .map(|text| -> Vec<u64> { text.split(" + ").map(|bytes| bytes.parse().unwrap()).collect() });
    // Half of it on each, or all of it on both; metadata is small.
    for (each, part) in wrote.iter().zip([BLOB, 2 * BLOB]) {
        assert!(each.iter().all(|bytes| (part..part + BLOB / 2).contains(bytes)), "{wrote:?}");
    }
    let cell = |store: &str| result.results.iter().find(|cell| cell.store == store).unwrap();
    for (candidate, each) in [striped, twice].into_iter().zip(&wrote) {
        let round = &cell(&candidate.store).rounds[0];
        // What the phase wrote is in what all devices wrote.
        assert!(round.device_written_bytes.unwrap() <= each.iter().sum());
        // The limit leaves a tenth of a second's bytes free at first; some metadata is written before and after.
        let bytes = *each.iter().max().unwrap() as f64 * 0.8;
        let least = bytes / LIMIT as f64 - 0.1;
        let took = round.settled_seconds.unwrap();
        assert!(took > least, "{}: {took} s, and {least} s are the least", candidate.store);
    }
    std::fs::remove_dir_all(work.path("out")).unwrap();
    let line = line.replace("--rounds 1", "--rounds 9");
    let child = until(start_in_step(work.command(BLOBWISE).args(line.split_whitespace())), "fill", 1);
    let number = |name: &String| std::fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
    let (names, devices, limits) = held(&child, || {
        let names = loops_below(&work.path("place"));
        let devices: Vec<String> = names.iter().map(|name| number(name).trim().to_owned()).collect();
        let limits = rules(&devices);
        (names, devices, limits)
    });
    assert_eq!((devices.len(), limits.len()), (4, 8), "two of each of four devices: {limits:?}");
    send(&child, Signal::KILL);
    wait(child);
    // A device that somebody else has meanwhile has that one's rules.
    let is_free = |name: &str| !Path::new(&format!("/sys/block/{name}/loop")).exists();
    let left = || {
        let free = names.iter().zip(&devices).filter(|(name, _)| is_free(name));
        let free: Vec<String> = free.map(|(_, device)| device.clone()).collect();
        [loops_below(&work.path("place")), rules(&free)].concat()
    };
    let gone = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        left().is_empty()
    });
    assert!(gone, "{:?}", left());
    Ok(())
}

/// A disk of 100 requests a second, and stores that wait for it at each put.
fn slow_in_pilot(more: &str) -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place")).unwrap();
    let slow = "--on ext4 --device-limit 5MB/s,100iops --stores files/hashed --durability each-write";
    let line =
        format!("run --corpus fixed:1kB --phases fill --budget 2m --dir place --out out {slow} {more}");
    let child = start(work.command(BLOBWISE).args(line.split_whitespace()));
    let child = until(child, "of the pilot for 400 blobs, and is tried with 25", 1);
    let child = until(child, "to begin with", 1);
    send(&child, Signal::INT);
    wait(child).ended(130);
    let cut = |warning: &Warning| matches!(warning, Warning::Budget { corpus_share: Some(_), .. });
    let warnings = RunResult::load(&work.path("out"))?.warnings;
    assert!(warnings.iter().any(cut), "{warnings:?}");
    assert!(work.names("place").is_empty() && loops_below(&work.path("place")).is_empty());
    Ok(())
}

fn refused() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place")).unwrap();
    run(&work, "--on ext4 --set sqlite.on=ext5 --stores sqlite").refused(&["sqlite.on", "`ext5`", "`ext4`"]);
    run(&work, "--device-limit 20MB/s --stores sqlite").refused(&["--device-limit", "--on"]);
    run(&work, "--on ext4 --device-limit 20MB").refused(&["--device-limit: `20MB`", "20MB/s,200iops"]);
    run(&work, "--on ext4 --fill 95%").refused(&["--fill: `95%`", "0% to 90%"]);
    run(&work, "--on ext4@95%").refused(&["`ext4@95%`", "1% to 90%"]);
    run(&work, "--on btrfs-raid10:3").refused(&["btrfs-raid10 takes 4 to 16 disks"]);
    run(&work, "--on ext4 --stores memory,sqlite --set memory.on=xfs").refused(&["memory.on", "on a disk"]);
    let line = |more: &str| format!("{QUICK} --on ext4{more}");
    // Room for the blobs, and not for two images.
    let small = line(",xfs --dir mounted --stores sqlite");
    let words = ["for images, and those of ext4, xfs take 1.07 GB", "name fewer file systems"];
    mounted(&work, "size=600000k", &small).refused(&words);
    // Room for a full image and a fresh one, and not for those of an aged store.
    let aged = "run --blobs 12 --rounds 2 --quiet --out out --age 0,1 --on ext4@90% --stores sqlite --phases fill,read-warm --dir mounted";
    let words = ["with the 2 images that are kept of aged stores", "fewer ages (--age)"];
    mounted_over("mounted", &work, "size=8400000k", aged).refused(&words);
    without("-sys_admin", &work, &line(" --dir place")).refused(&["`ext4`", "run as root"]);
    // In a plan, a file system that is nowhere is a candidate that cannot be had.
    let plan = "on = ['dir', 'reiserfs']\nstores = ['files/hashed']\nphases = ['fill']\n[corpus]\nblobs = 3";
    if FileSystem::parse("reiserfs").is_ok_and(|one| one.lacks().is_some()) {
        std::fs::write(work.path("plan.toml"), plan).unwrap();
        let result = work.result("run plan.toml --rounds 1 --quiet --dir place --out out");
        let status: Vec<Status> = result.candidates.iter().map(|candidate| candidate.status).collect();
        assert_eq!(status, [Status::Measured, Status::NotAvailable]);
    }
    assert!(work.names("place").is_empty());
    Ok(())
}
