//! File systems below `--dir` and `--out` that become read-only or full in the middle of a run.

use std::process::{Child, Command};

use blobwise::result::{RunResult, Status};

use super::program::{BLOBWISE, Outcome, Said, Work, finish, why_not};
use super::{ended, nothing_is_left, start, until, wrapped};

/// A file system of its own for `--dir`, made by a shell before the program.
fn with_mount(mount: &str) -> [String; 5] {
    let script = format!("{mount} && \"$0\" \"$@\"; code=$?; umount place; exit $code");
    ["unshare", "--mount", "sh", "-c", &script].map(str::to_owned)
}

/// Runs the program so.
fn run_on(work: &Work, mount: &str, line: &str) -> Said {
    let [first, rest @ ..] = &with_mount(mount);
    let mut command = work.command(first);
    command.args(rest).arg(BLOBWISE).args(line.split_whitespace());
    ended(start(command.args(["--quiet", "--dir", "place", "--out", "out"])))
}

fn reason(work: &Work, store: &str) -> String {
    let result = RunResult::load(&work.path("out")).unwrap();
    let candidate = result.candidate(store).unwrap();
    assert_eq!(candidate.status, Status::Failed, "{candidate:?}");
    candidate.reason.clone().unwrap_or_default()
}

/// An ext4 of its own for `--dir`, in a mount namespace that ends with the program.
const EXT4: [&str; 5] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "mount -o loop,errors=remount-ro,nodelalloc image place && exec \"$0\" \"$@\"",
];

/// Why an image cannot be mounted here.
pub fn no_ext4() -> Option<String> {
    let work = Work::new();
    make_image(&work, &[]).err().or_else(|| why_not(work.command(EXT4[0]).args(&EXT4[1..]).arg("true")))
}

fn make_image(work: &Work, more: &[&str]) -> Result<(), String> {
    std::fs::create_dir(work.path("place")).unwrap();
    std::fs::File::create(work.path("image")).unwrap().set_len(200 << 20).unwrap();
    let mut command = work.command("mkfs.ext4");
    why_not(command.args(["-q", "-F", "-m", "0"]).args(more).arg("image")).map_or(Ok(()), Err)
}

/// What happens to the file system.
#[derive(Clone, Copy)]
pub enum Change {
    /// The kernel makes it read-only because of an error in it.
    Broken,
    /// Others fill it up, and take what becomes free in the next 1.5 s as well.
    Full,
    /// The same with its inodes.
    NoInodes,
}

impl Change {
    fn happen(self, child: &Child) {
        let script = match self {
            Change::Broken => {
                "device=$(findmnt -n -o SOURCE place) && echo 1 >/sys/fs/ext4/${device##*/}/trigger_fs_error"
            }
            Change::Full => {
                "for n in $(seq 15); do ! cat /dev/zero >>place/theirs && sleep 0.1; done 2>/dev/null"
            }
            Change::NoInodes => {
                "mkdir place/theirs && n=0 && end=$(($(date +%s) + 2)) && \
                 while [ $(date +%s) -lt $end ]; do while n=$((n + 1)) && true >place/theirs/$n; do :; done; done 2>/dev/null; true"
            }
        };
        within(child, script);
    }
}

/// Runs a shell where the program runs.
fn within(child: &Child, script: &str) {
    let mut command = Command::new("nsenter");
    let target = child.id().to_string();
    let directory = std::fs::read_link(format!("/proc/{target}/cwd")).unwrap();
    let directory = format!("--wdns={}", directory.display());
    command.args(["--target", &target, "--mount", &directory, "sh", "-c", script]);
    let said = finish(&mut command);
    assert_eq!(said.code, Some(0), "{script}: {said:?}");
}

/// The candidate of a store fails with one of these reasons, and what was measured before is kept.
pub fn in_mid_run(store: &str, change: Change, says: &[&str]) -> Outcome {
    let work = Work::new();
    // The kernel gives inodes by groups of blocks.
    make_image(&work, if matches!(change, Change::NoInodes) { &["-N", "2000"] } else { &[] })?;
    let line = format!(
        "run --stores {store},memory --corpus fixed:20kB --blobs 12 --rounds 3 --phases fill,read-warm,overwrite \
         --op-timeout 5s --no-drop-caches --verbose --dir place --out out"
    );
    let child = until(wrapped(&work, &EXT4).args(line.split_whitespace()), store, "round 2/3", "read-warm");
    change.happen(&child);
    let said = ended(child).ended(1);
    let result = RunResult::load(&work.path("out"))?;
    let candidate = result.candidate(store).unwrap();
    let reason = candidate.reason.clone().unwrap_or_default();
    assert_eq!(candidate.status, Status::Failed, "{}", said.stdout);
    assert!(says.iter().any(|words| reason.contains(words)), "{reason}");
    let measured = |store: &str| {
        result
            .results
            .iter()
            .filter(|cell| cell.store == store && cell.ops > 0)
            .map(|cell| cell.phase.as_str())
            .collect::<Vec<_>>()
    };
    // What both had before it is kept.
    for store in [store, "memory"] {
        assert_eq!(measured(store), ["fill", "read-warm", "overwrite"]);
    }
    nothing_is_left(&work);
    Ok(())
}

// ---- what is foreseen, and what is told ------------------------------------------------------------------------------

const EXT4_MOUNT: &str = "mount -o loop image place";

/// A candidate that takes more of them than there are is refused; those that take few are not.
pub fn few_inodes() -> Outcome {
    let work = Work::new();
    make_image(&work, &["-N", "3072"])?;
    let run = "run --corpus fixed:1kB --blobs 4000 --rounds 1 --phases fill --durability none";
    let refused = run_on(&work, EXT4_MOUNT, &format!("{run} --stores sqlite,files/flat"));
    refused.refused(&["inodes free", "`files/flat` may need", "4000 blobs", "--blobs", "--stores", "--dir"]);
    assert!(!work.path("out").exists());
    run_on(&work, EXT4_MOUNT, &format!("{run} --stores sqlite")).ended(0);
    Ok(())
}

fn btrfs() -> String {
    let quota = "btrfs quota enable place && btrfs qgroup limit 40M place";
    format!("mkfs.btrfs -q image && mount -o loop image place && {quota}")
}

/// Why there is no btrfs with a quota here.
pub fn no_btrfs() -> Option<String> {
    let work = Work::new();
    empty_image(&work);
    let [first, rest @ ..] = &with_mount(&btrfs());
    why_not(work.command(first).args(rest).arg("true"))
}

fn empty_image(work: &Work) {
    std::fs::create_dir(work.path("place")).unwrap();
    std::fs::File::create(work.path("image")).unwrap().set_len(600 << 20).unwrap();
}

/// SQLite without a log: the index of its log is mapped into memory, and what is written there without room is a bus error.
pub fn quota() -> Outcome {
    let work = Work::new();
    empty_image(&work);
    let run = "run --stores files/hashed,sqlite --set sqlite.journal=delete --corpus fixed:2MB --content random --blobs 30 --rounds 1 --phases fill";
    run_on(&work, &btrfs(), run).ended(1);
    for store in ["files/hashed", "sqlite"] {
        let reason = reason(&work, store);
        assert!(
            reason.contains("quota exceeded (os error 122)") && reason.contains("so it is a quota"),
            "{reason}"
        );
    }
    Ok(())
}

/// Of the file systems in user space, one that passes the kernel's cache by.
const FUSE: &str = "fuse2fs image place -o fakeroot,direct_io";

/// Why it cannot be had here.
pub fn no_fuse() -> Option<String> {
    let work = Work::new();
    make_image(&work, &[]).err().or_else(|| {
        let [first, rest @ ..] = &with_mount(FUSE);
        why_not(work.command(first).args(rest).arg("true"))
    })
}

pub fn without_maps() -> Outcome {
    let work = Work::new();
    make_image(&work, &[])?;
    let run = "run --corpus fixed:1kB --blobs 12 --rounds 1 --phases fill,read-warm";
    run_on(&work, FUSE, &format!("{run} --stores sqlite,lmdb,redb")).ended(1);
    let sqlite = reason(&work, "sqlite");
    let words = ["SQLite's code 5386", "cannot be mapped into memory", "--set sqlite.journal=delete"];
    assert!(words.iter().all(|words| sqlite.contains(words)), "{sqlite}");
    let lmdb = reason(&work, "lmdb");
    assert!(lmdb.contains("No such device (os error 19); the file system has no such operation"), "{lmdb}");
    std::fs::remove_dir_all(work.path("out"))?;
    run_on(&work, FUSE, &format!("{run} --stores sqlite --set sqlite.journal=delete")).ended(0);
    Ok(())
}
