//! A directory on a file system in user space (FUSE), where an open file that is removed stays there under another name, as on NFS and
//! SMB: nothing of a run is left, however it ends, and what cannot be removed is an error with its path.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use blobwise::result::{RunResult, Status};
use rustix::process::Signal;

use crate::program::{BLOBWISE, Outcome, Work, missing, needing, start_in_step};
use crate::signals::{run_until, send, until, wait};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        needing("a run on a file system in user space leaves nothing", no_bindfs(), nothing_is_left),
        needing("tests of a disk in user space leave nothing", no_bindfs(), disk),
        needing("what cannot be removed is an error with its path", no_bindfs(), cannot_be_removed),
        Trial::test("a directory that cannot be removed keeps its mark", keeps_its_mark),
    ];
    for (name, signal) in [("SIGINT", Signal::INT), ("SIGTERM", Signal::TERM), ("SIGKILL", Signal::KILL)] {
        let lacks = no_bindfs().or_else(|| missing("memcached"));
        let name = format!("{name} on a file system in user space leaves nothing to the next run");
        trials.push(needing(&name, lacks, move || signalled(signal)));
    }
    trials
}

/// Why there can be no such file system, if so.
fn no_bindfs() -> Option<String> {
    let work = Work::new();
    Mounted::mount(&work, "tried").err()
}

/// A directory that shows another one through a file system in user space.
struct Mounted {
    /// What lies below.
    below: &'static str,
    point: PathBuf,
}

impl Mounted {
    /// Mounts one at `NAME`, which shows `below`; `hard_remove`, which removes open files, is off unless it is asked for.
    fn mount(work: &Work, name: &str) -> Result<Mounted, String> {
        let (below, point) = ("below", work.path(name));
        for dir in [&work.path(below), &point] {
            std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        }
        let mut command = Command::new("bindfs");
        let output = command
            .arg(work.path(below))
            .arg(&point)
            .output()
            .map_err(|error| format!("no `bindfs`: {error}"))?;
        match output.status.success() {
            true => Ok(Mounted { below, point }),
            false => Err(format!("`bindfs`: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Root needs no program for it, and has none where it is not installed.
        let detach = rustix::mount::UnmountFlags::DETACH;
        if rustix::mount::unmount(&self.point, detach).is_err() {
            Command::new("fusermount3").arg("-uz").arg(&self.point).output().ok();
        }
    }
}

fn mounted(work: &Work) -> Mounted {
    Mounted::mount(work, "mounted").unwrap()
}

/// Stores that keep files open, map them, remove them while others read, and have servers.
const RUN: &str =
    "run --blobs 12 --phases fill,read-warm,overwrite,delete-half,reopen --no-drop-caches --dir mounted";

fn nothing_is_left() -> Outcome {
    let work = Work::new();
    let mounted = mounted(&work);
    let stores = ["files/hashed", "zip", "tar", "sqlite", "lmdb", "redb", "memcached", "nginx"];
    let stores: Vec<&str> = stores.into_iter().filter(|store| missing(store).is_none()).collect();
    let said =
        work.say(&format!("{RUN} --stores {} --rounds 1 --quiet --out out", stores.join(","))).ended(0);
    let result = RunResult::load(&work.path("out"))?;
    assert!(
        result.candidates.iter().all(|candidate| candidate.status == Status::Measured),
        "{}",
        said.stdout
    );
    assert_eq!(work.names(mounted.below), [] as [&str; 0]);
    // Results there, too.
    work.say(&format!("{RUN} --stores null --rounds 1 --quiet --out mounted/out")).ended(0);
    assert_eq!(work.names(mounted.below), ["out"]);
    assert!(
        work.names("below/out").iter().all(|name| !name.starts_with('.')),
        "{:?}",
        work.names("below/out")
    );
    Ok(())
}

fn disk() -> Outcome {
    let work = Work::new();
    let mounted = mounted(&work);
    work.say("disk --dir mounted --size 4MB --files 50 --rounds 1 --seconds 0.1").ended(0);
    assert_eq!(work.names(mounted.below), [] as [&str; 0]);
    Ok(())
}

fn signalled(signal: Signal) -> Outcome {
    let work = Work::new();
    let mounted = mounted(&work);
    let line = format!("{RUN} --stores files/hashed,sqlite,memcached --rounds 20 --verbose --out out");
    let child = run_until(&work, &line, "overwrite", 3);
    send(&child, signal);
    let said = wait(child);
    if signal != Signal::KILL {
        assert_eq!(work.names(mounted.below), [] as [&str; 0], "{said:?}");
        return Ok(());
    }
    assert_eq!(work.names(mounted.below).len(), 1, "{said:?}");
    let next = work.say(&format!("{RUN} --stores null --rounds 1 --quiet --out next")).ended(0);
    assert_eq!(work.names(mounted.below), [] as [&str; 0], "{next:?}");
    Ok(())
}

/// Something else is mounted in the directory of the run before its end.
fn cannot_be_removed() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place"))?;
    let line = "run --stores files/hashed,null --blobs 12 --rounds 2 --phases fill,read-warm --no-drop-caches --verbose --dir place \
                --out out";
    let child = run_until(&work, line, "fill", 1);
    let name = work.names("place").pop().ok_or("no directory of the run")?;
    let point = format!("place/{name}/theirs");
    let mounted = Mounted::mount(&work, &point)?;
    std::fs::write(work.path("below/precious"), "theirs")?;
    let said = wait(child);
    let told = said
        .stderr
        .lines()
        .any(|line| line.starts_with("error: something else is mounted at") && line.contains(&point));
    assert!(told && said.code == Some(1), "{said:?}");
    assert_eq!(work.names("below"), ["precious"]);
    assert!(work.path(&format!("place/{name}/BLOBWISE")).exists(), "it is not found again");
    drop(mounted);
    let next = work
        .say("run --stores null --blobs 12 --rounds 1 --phases fill --quiet --dir place --out next")
        .ended(0);
    assert_eq!(work.names("place"), [] as [&str; 0], "{}", next.stderr);
    Ok(())
}

/// The place is no longer writable, so that the directory of the run can be emptied and not removed.
fn keeps_its_mark() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("place"))?;
    let line = "run --stores files/hashed,null --blobs 12 --rounds 2 --phases fill,read-warm --no-drop-caches --dir place";
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = work.command("setpriv");
        command.args(["--bounding-set", "-dac_override", "--inh-caps", "-dac_override", BLOBWISE]);
        command
    } else {
        work.command(BLOBWISE)
    };
    command.args(line.split_whitespace()).args(["--verbose", "--out", "out"]);
    let child = until(start_in_step(&mut command), "fill", 1);
    let name = work.names("place").pop().ok_or("no directory of the run")?;
    std::fs::set_permissions(work.path("place"), PermissionsExt::from_mode(0o555))?;
    let said = wait(child);
    std::fs::set_permissions(work.path("place"), PermissionsExt::from_mode(0o755))?;
    let told = |line: &str| line.starts_with("error: cannot remove `") && line.contains(&name);
    assert!(said.stderr.lines().any(told) && said.code == Some(1), "{said:?}");
    assert_eq!(work.names(&format!("place/{name}")), ["BLOBWISE"]);
    work.say(&format!("{line} --quiet --out next")).ended(0);
    assert_eq!(work.names("place"), [] as [&str; 0]);
    Ok(())
}
