//! Places that cannot be used: refused before anything is written. And a user's directory that can: never touched.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use blobwise::result::RunResult;

use crate::program::{BLOBWISE, Outcome, Said, Work, copied, finish, missing, needing, why_not};
use crate::signals::{run_until, send, wait};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    let no_mounts = no_mounts();
    vec![
        Trial::test("a place that is not writable is refused", not_writable),
        Trial::test("an unreadable directory of files is refused", unreadable_files),
        Trial::test("a directory without files is refused", no_files),
        Trial::test("a directory whose name is no UTF-8 is refused by its name", not_utf8),
        Trial::test("an out that cannot be made is refused", out_not_writable),
        Trial::test("an out that holds something is left alone", out_not_empty),
        Trial::test("a corpus larger than the free space is refused", larger_than_the_disk),
        Trial::test("a cache larger than the memory is refused", larger_than_the_memory),
        needing("a read-only file system is refused", no_mounts.clone(), read_only),
        needing("a full file system is refused", no_mounts.clone(), full),
        needing("too few inodes are refused, and only for who needs them", no_mounts.clone(), few_inodes),
        needing("a place in memory works and is a warning", no_mounts.clone(), in_memory),
        needing("a directory that is mounted twice is sampled once", no_mounts.clone(), mounted_twice),
        needing("a place in memory is refused for reads of its device", no_mounts.clone(), no_device),
        needing(
            "what is mounted in a place that was left is not touched",
            no_mounts,
            mounted_in_a_left_place,
        ),
        Trial::test("a pipe that is called like a mark keeps nobody waiting", pipe_for_a_mark),
        Trial::test("what is no regular file is no plan and no result", no_regular_file),
        Trial::test("what a run makes is for its user only", for_its_user_only),
        Trial::test("links, unreadable and special files are reported and nothing is touched", users_files),
        Trial::test("unreadable files take no place in a sample", unreadable_half),
        Trial::test("a sample of large files has enough of them, and its plan takes the same", large_files),
        needing("a blob over a store's limit is not possible", missing("seaweedfs"), over_the_limit),
        Trial::test("a directory that was made is removed again", made_and_removed),
        Trial::test("no directory is made above the place", none_above),
        Trial::test("a run says first on which disk it measures", names_the_disk),
        Trial::test("a file system in memory is refused where mounting is", no_ramdisk),
        needing("processors are kept awake for those who may, and noted", no_requests(), kept_awake),
        needing("processors are not kept awake for those who may not", nobody_else(), not_kept_awake),
    ]
}

/// A quick run's arguments.
const QUICK: &str = "run --stores files/hashed,memory --blobs 12 --rounds 1 --phases fill,read-warm --quiet";

fn quick(more: &str) -> String {
    format!("{QUICK} {more}")
}

/// The program without some of root's powers.
pub fn without(drop: &str, work: &Work, line: &str) -> Said {
    if rustix::process::geteuid().is_root() {
        let mut command = work.command("setpriv");
        command.args(["--bounding-set", drop, "--inh-caps", drop, BLOBWISE]);
        finish(command.args(line.split_whitespace()))
    } else {
        work.say(line)
    }
}

/// The program without the power of root to pass by permissions.
fn without_override(work: &Work, line: &str) -> Said {
    without("-dac_override,-dac_read_search", work, line)
}

fn locked(work: &Work, name: &str, mode: u32) {
    std::fs::create_dir(work.path(name)).unwrap();
    std::fs::write(work.path(name).join("theirs"), "x").unwrap();
    std::fs::set_permissions(work.path(name), PermissionsExt::from_mode(mode)).unwrap();
}

fn not_writable() -> Outcome {
    let work = Work::new();
    locked(&work, "locked", 0o555);
    let before = work.snapshot("locked");
    without_override(&work, &quick("--dir locked --out out")).refused(&["locked", "Permission denied"]);
    assert_eq!(work.snapshot("locked"), before);
    assert_eq!(work.names("."), ["locked"]);
    Ok(())
}

fn unreadable_files() -> Outcome {
    let work = Work::new();
    locked(&work, "locked", 0o000);
    without_override(&work, &quick("--files locked --out out")).refused(&["locked", "Permission denied"]);
    assert_eq!(work.names("."), ["locked"]);
    Ok(())
}

fn no_files() -> Outcome {
    let work = Work::new();
    std::fs::create_dir_all(work.path("empty/below")).unwrap();
    work.say(&quick("--files empty --out out")).refused(&["empty", "no files"]);
    assert_eq!(work.names("."), ["empty"]);
    Ok(())
}

fn out_not_writable() -> Outcome {
    let work = Work::new();
    locked(&work, "locked", 0o555);
    without_override(&work, &quick("--out locked/out")).refused(&["locked/out", "Permission denied"]);
    assert_eq!(work.names("."), ["locked"]);
    Ok(())
}

fn out_not_empty() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("out")).unwrap();
    std::fs::write(work.path("out/result.json"), "theirs").unwrap();
    let before = work.snapshot("out");
    work.say(&quick("--out out")).refused(&["`out` is not empty"]);
    assert_eq!(work.snapshot("out"), before);
    Ok(())
}

fn larger_than_the_disk() -> Outcome {
    let work = Work::new();
    let arguments = "run --corpus fixed:4GB --corpus-bytes 90TB --stores files/flat --out out";
    work.say(arguments).refused(&["free", "--corpus-bytes"]);
    assert!(work.names(".").is_empty());
    Ok(())
}

fn not_utf8() -> Outcome {
    let work = Work::new();
    let name = OsStr::from_bytes(b"caf\xe9");
    std::fs::create_dir(work.path(".").join(name)).unwrap();
    for (command, flag) in [("run", "--dir"), ("corpus", "--files"), ("disk", "--dir"), ("crash", "--dir")] {
        let said = finish(work.command(BLOBWISE).arg(command).arg(flag).arg(name));
        said.refused(&[flag, "caf", "not UTF-8"]);
    }
    for arguments in [&["run"][..], &["run", "--stores"], &["doctor"], &["compare", "--stores"]] {
        finish(work.command(BLOBWISE).args(arguments).arg(name)).refused(&["invalid UTF-8", "`caf"]);
    }
    Ok(())
}

fn larger_than_the_memory() -> Outcome {
    let work = Work::new();
    let plan = "cache = '1000TB'\nstores = ['files/hashed']\nphases = ['fill']\n[corpus]\nblobs = 12";
    std::fs::write(work.path("plan.toml"), plan).unwrap();
    work.say("run plan.toml --out out").refused(&["`cache`", "of memory", "--scale"]);
    assert!(!work.path("out").exists());
    let list = "stores = ['files/hashed']\n[corpus]\nblobs = 12\n[[phase]]\nid = 'p'\nops = {get = 1.0}\ncount = 900000000000000";
    std::fs::write(work.path("list.toml"), list).unwrap();
    work.say("run list.toml --out out").refused(&["phase `p`", "`count = 900000000000000`", "`seconds`"]);
    assert!(!work.path("out").exists());
    // Of the corpus: within bounds, whatever the machine.
    std::fs::write(work.path("plan.toml"), plan.replace("1000TB", "150%")).unwrap();
    work.say("run plan.toml --rounds 1 --quiet --out out").ended(0);
    let stored = std::fs::read_to_string(work.path("out/plan.toml")).unwrap();
    assert!(stored.contains("cache = \"150%\""), "{stored}");
    Ok(())
}

// ---- file systems of our own ----------------------------------------------------------------------------------------

/// Why there can be no mounts in a namespace of ours, if there cannot.
pub fn no_mounts() -> Option<String> {
    let mount = ["--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"];
    why_not(Command::new("unshare").args(mount))
}

/// Runs the program with a file system in memory at `mounted`, in a namespace that ends with it.
pub fn mounted(work: &Work, options: &str, line: &str) -> Said {
    std::fs::create_dir(work.path("mounted")).unwrap();
    mounted_over("mounted", work, options, line)
}

/// The same over a directory that is there, whose contents it then does not see.
pub fn mounted_over(directory: &str, work: &Work, options: &str, line: &str) -> Said {
    mounted_beside(directory, work, options, "true", line)
}

/// The same, beside what others do there: a line for the shell.
pub fn mounted_beside(directory: &str, work: &Work, options: &str, others: &str, line: &str) -> Said {
    let script =
        format!("mount -t tmpfs -o {options} none {directory} || exit; {others}; exec \"$0\" \"$@\"");
    let mut command = work.command("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, BLOBWISE]);
    finish(command.args(line.split_whitespace()))
}

fn read_only() -> Outcome {
    let work = Work::new();
    mounted(&work, "ro", &quick("--dir mounted --out out")).refused(&["mounted", "read-only"]);
    assert_eq!(work.names("."), ["mounted"]);
    Ok(())
}

fn full() -> Outcome {
    let work = Work::new();
    mounted(&work, "size=64k", &quick("--dir mounted --out out")).refused(&["mounted", "free"]);
    assert_eq!(work.names("."), ["mounted"]);
    Ok(())
}

fn few_inodes() -> Outcome {
    let work = Work::new();
    let line = |store: &str| {
        let run = "--corpus fixed:100 --blobs 300 --rounds 1 --phases fill,read-warm --quiet --dir mounted --out out";
        format!("run --stores {store},memory {run}")
    };
    let few = "size=256m,nr_inodes=250";
    let words =
        ["of 250 inodes free, and `files/flat` may need 400 for 300 blobs", "--blobs", "--stores", "--dir"];
    mounted(&work, few, &line("files/flat")).refused(&words);
    assert_eq!(work.names("."), ["mounted"]);
    mounted_over("mounted", &work, few, &line("sqlite")).ended(0);
    Ok(())
}

/// There is no device below: what is named after it would be a figure of memory.
fn no_device() -> Outcome {
    let work = Work::new();
    let line = "run --stores files/hashed,raw --blobs 12 --rounds 1 --quiet --dir mounted --out out";
    let words = ["`raw` cannot be in `mounted`; name another place with --dir, or leave it out", "memory"];
    mounted(&work, "size=256m", line).refused(&words);
    assert_eq!(work.names("."), ["mounted"]);
    assert!(work.names("mounted").is_empty());
    Ok(())
}

fn in_memory() -> Outcome {
    let work = Work::new();
    let said = mounted(&work, "size=256m", &quick("--dir mounted --out out")).ended(0);
    assert!(said.stdout.contains("lies in memory (tmpfs)"), "{}", said.stdout);
    Ok(())
}

// ---- a user's files -------------------------------------------------------------------------------------------------

fn users_files() -> Outcome {
    let work = Work::new();
    let files = work.path("files");
    std::fs::create_dir_all(files.join("deep/er")).unwrap();
    for (name, bytes) in [("a.txt", 10), ("deep/b.bin", 5000), ("deep/er/c", 70_000), ("empty", 0)] {
        std::fs::write(files.join(name), vec![7; bytes]).unwrap();
    }
    std::fs::write(files.join("secret"), "s").unwrap();
    std::fs::set_permissions(files.join("secret"), PermissionsExt::from_mode(0o000)).unwrap();
    symlink("/etc/passwd", files.join("link")).unwrap();
    symlink(".", files.join("deep/loop")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, files.join("pipe"), rustix::fs::Mode::RWXU)?;
    let before = work.snapshot("files");
    let line = "run --files files --stores files/hashed,memory --rounds 1 --phases fill,read-warm,overwrite --quiet --out out";
    without_override(&work, line).ended(0);
    assert_eq!(work.snapshot("files"), before);
    let result = RunResult::load(&work.path("out"))?;
    assert_eq!(result.corpus.blobs, 4);
    let skipped = result.corpus.skipped.unwrap_or_default();
    for word in ["2 symbolic links", "1 special", "1 unreadable"] {
        assert!(skipped.contains(word), "`{word}` is not in `{skipped}`");
    }
    let manifest = std::fs::read_to_string(work.path("out/corpus.csv"))?;
    for name in ["a.txt", "deep/b.bin", "deep/er/c", "empty"] {
        assert!(manifest.lines().any(|line| line.ends_with(&format!(",{name}"))), "{manifest}");
    }
    Ok(())
}

fn mounted_twice() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("mounted"))?;
    let others = "mkdir mounted/a mounted/b; echo x >mounted/a/x; mount --bind mounted/a mounted/b";
    let said = mounted_beside("mounted", &work, "size=16m", others, "corpus --files mounted").ended(0).stdout;
    assert!(said.contains(": 1 blob, 2 B") && said.contains("1 directory mounted twice"), "{said}");
    Ok(())
}

fn unreadable_half() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("files"))?;
    for file in 0..400 {
        let path = work.path(&format!("files/{file}"));
        std::fs::write(&path, [7; 100])?;
        let mode = if file % 2 == 0 { 0o000 } else { 0o600 };
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
    }
    let said = without_override(&work, "corpus --files files --blobs 200").ended(0).stdout;
    assert!(said.contains(": 200 blobs, 20 kB") && said.contains("200 unreadable"), "{said}");
    Ok(())
}

fn large_files() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("files"))?;
    for file in 0..250 {
        File::create(work.path("files").join(file.to_string()))?.set_len(1_000_000)?;
    }
    let line = "run --files files --stores memory --rounds 1 --phases fill --quiet --out out";
    let result = work.result(line);
    assert!((200..=250).contains(&result.corpus.blobs), "{} blobs", result.corpus.blobs);
    work.say("run out/plan.toml --quiet --out again").ended(0);
    assert_eq!(RunResult::load(&work.path("again"))?.corpus.digest, result.corpus.digest);
    let shown = work.say("corpus --files files").ended(0).stdout;
    assert!(shown.contains(&format!(": {} blobs", result.corpus.blobs)), "{shown}");
    // A file that takes the room of all others is left out, and the answer says so.
    File::create(work.path("files/image"))?.set_len(2_000_000_000)?;
    let line =
        "run --files files --corpus-bytes 220MB --stores memory --rounds 1 --phases fill --quiet --out left";
    let told = work.say(line).ended(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let left_out =
        "1 file of 2 GB or more (0.4 % of your files, 89 % of your bytes) is not in it; `--corpus-bytes";
    assert!(told.contains(left_out), "{told}");
    Ok(())
}

/// SeaweedFS, as it is shipped, takes no blob above 256 MiB.
fn over_the_limit() -> Outcome {
    let work = Work::new();
    let line = "run --stores seaweedfs,null --corpus fixed:270MB --content random --blobs 1 --rounds 1 --phases fill --quiet --out out";
    let said = work.say(line).ended(0);
    assert!(said.stdout.contains("not possible"), "{}", said.stdout);
    let result = RunResult::load(&work.path("out"))?;
    let cell = result.results.iter().find(|cell| cell.store == "seaweedfs").ok_or("no cell")?;
    assert_eq!(cell.status, blobwise::result::Status::NotPossible);
    assert!(
        cell.reason.as_ref().is_some_and(|reason| reason.contains("fileSizeLimitMB")),
        "{:?}",
        cell.reason
    );
    Ok(())
}

fn no_ramdisk() -> Outcome {
    let work = Work::new();
    let line = "run --stores files/ramdisk --blobs 12 --rounds 1 --phases fill --quiet --out out";
    let said = without("-sys_admin", &work, line);
    said.refused(&["the store `files/ramdisk` cannot run here", "mounting is not allowed here"]);
    assert!(work.names(".").is_empty());
    Ok(())
}

fn made_and_removed() -> Outcome {
    let work = Work::new();
    work.say(&quick("--dir place --out out")).ended(0);
    assert_eq!(work.names("."), ["out"]);
    Ok(())
}

/// Where the disk that was meant is not mounted, another one would be measured.
fn none_above() -> Outcome {
    let work = Work::new();
    let missing = ["cannot make the directory `disk/place`: there is no directory `disk`", "mount its disk"];
    work.say(&quick("--dir disk/place --out out")).refused(&missing);
    std::fs::write(work.path("both.toml"), "name = 'both'\nplans = ['default']\n")?;
    work.say("run both.toml --dir disk/place --out out").refused(&missing);
    assert_eq!(work.names("."), ["both.toml"]);
    Ok(())
}

fn names_the_disk() -> Outcome {
    let work = Work::new();
    let told = work.say("run --stores null --blobs 12 --rounds 1 --phases fill --dir . --out out").ended(0);
    let first = told.stderr.lines().next().unwrap_or_default().to_owned();
    let machine = RunResult::load(&work.path("out"))?.machine;
    let (kind, point) = (machine.filesystem, machine.mount_point.ok_or("no mount point")?);
    assert!(Path::new(&point).is_dir(), "{point}");
    let ends = format!("`{}`, mounted at `{point}`", machine.device.unwrap_or_default());
    assert!(first.starts_with("Stores lie in `"), "{first}");
    assert!(first.contains(&format!(": {kind} on `")) && first.ends_with(&ends), "{first}");
    Ok(())
}

// ---- whose what is --------------------------------------------------------------------------------------------------

/// A run that was killed, and the directory that it left in `place`.
fn left_behind(work: &Work) -> PathBuf {
    std::fs::create_dir(work.path("place")).unwrap();
    let line = "run --stores files/hashed --files files --rounds 20 --verbose --dir place --out out";
    let child = run_until(work, line, "read-warm", 1);
    send(&child, rustix::process::Signal::KILL);
    wait(child);
    let names = work.names("place");
    assert_eq!(names.len(), 1, "{names:?}");
    work.path("place").join(&names[0])
}

/// Files that nobody else may read.
fn private_files(work: &Work) {
    std::fs::create_dir(work.path("files")).unwrap();
    for n in 0..40_usize {
        std::fs::write(work.path(&format!("files/{n}")), vec![n as u8; 1 + n * n * 97]).unwrap();
    }
    std::fs::set_permissions(work.path("files"), PermissionsExt::from_mode(0o700)).unwrap();
}

/// The next run takes away what is ours, and neither what is mounted there nor the mark by which it is found again.
fn mounted_in_a_left_place() -> Outcome {
    let work = Work::new();
    private_files(&work);
    std::fs::create_dir(work.path("precious"))?;
    std::fs::write(work.path("precious/theirs"), "theirs")?;
    let left = left_behind(&work);
    std::fs::create_dir_all(left.join("deep/mounted"))?;
    let script = "mount --bind precious \"$1\" && shift && exec \"$0\" \"$@\"";
    let mut command = work.command("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, BLOBWISE]);
    let said = finish(
        command.arg(left.join("deep/mounted")).args(quick("--dir place --out again").split_whitespace()),
    )
    .ended(0);
    assert_eq!(std::fs::read_to_string(work.path("precious/theirs"))?, "theirs");
    let name = left.file_name().unwrap().to_string_lossy().into_owned();
    let named =
        format!("`place/{name}`, which an earlier run left, was not removed: something else is mounted at");
    assert!(said.stderr.contains(&named) && said.stderr.contains("deep/mounted"), "{}", said.stderr);
    assert!(left.join("BLOBWISE").exists());
    work.say(&quick("--dir place --out third")).ended(0);
    assert!(work.names("place").is_empty());
    Ok(())
}

/// Whoever may write where temporary files lie can make one.
fn pipe_for_a_mark() -> Outcome {
    let work = Work::new();
    std::fs::create_dir_all(work.path("place/blobwise-0123abcd"))?;
    let pipe = work.path("place/blobwise-0123abcd/BLOBWISE");
    rustix::fs::mkfifoat(rustix::fs::CWD, pipe, rustix::fs::Mode::RWXU)?;
    let mut command = work.command("timeout");
    finish(command.args(["60", BLOBWISE]).args(quick("--dir place --out out").split_whitespace())).ended(0);
    assert_eq!(work.names("place"), ["blobwise-0123abcd"]);
    Ok(())
}

fn no_regular_file() -> Outcome {
    let work = Work::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, work.path("pipe.toml"), rustix::fs::Mode::RWXU)?;
    std::fs::write(work.path("long.toml"), vec![b'#'; 4_000_001])?;
    let said = |line: &str| finish(work.command("timeout").args(["60", BLOBWISE]).args(line.split(' ')));
    said("run /dev/urandom --out out").refused(&["cannot read the plan `/dev/urandom`: it is a device"]);
    said("run ./pipe.toml --out out").refused(&["cannot read the plan `./pipe.toml`: it is a pipe"]);
    said("run long.toml --out out").refused(&["the plan `long.toml`: it is larger than 4 MB"]);
    said("report /dev/zero").refused(&["cannot read `/dev/zero`: it is a device"]);
    said("compare pipe.toml pipe.toml").refused(&["cannot read `pipe.toml`: it is a pipe"]);
    assert!(!work.path("out").exists());
    Ok(())
}

/// Blobs of private files, and results that name them, are as private, whatever the user's other files are.
fn for_its_user_only() -> Outcome {
    let work = Work::new();
    private_files(&work);
    std::fs::create_dir(work.path("shared"))?;
    std::fs::set_permissions(work.path("shared"), PermissionsExt::from_mode(0o755))?;
    left_behind(&work);
    work.say(&quick("--files files --out shared")).ended(0);
    let mut seen = 0;
    for below in ["place", "out", "shared"] {
        // The first and the last are the user's own.
        for (path, (.., mode, _)) in
            work.snapshot(below).iter().filter(|(path, _)| **path != work.path(below))
        {
            assert_eq!(mode & 0o077, 0, "{} is {mode:o}", path.display());
            seen += 1;
        }
    }
    let mode = |name: &str| std::fs::metadata(work.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("out"), mode("shared")), (0o700, 0o755));
    assert!(seen > 40, "only {seen} files");
    Ok(())
}

/// Where the kernel is asked to keep the processors awake.
const REQUESTS: &str = "/dev/cpu_dma_latency";

fn may_ask() -> bool {
    File::options().write(true).open(REQUESTS).is_ok()
}

/// Why the kernel cannot be asked by somebody who may; nothing where it can.
fn no_requests() -> Option<String> {
    (!may_ask()).then(|| format!("`{REQUESTS}` cannot be opened"))
}

/// Another user.
pub const NOBODY: [&str; 5] = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];

/// Why nobody can be refused here.
pub fn nobody_else() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return may_ask().then(|| format!("this user may open `{REQUESTS}`, and cannot be another one"));
    }
    let there = env!("CARGO_TARGET_TMPDIR");
    let reached = Command::new("setpriv").args(NOBODY).args(["test", "-x", there]).status();
    (!reached.is_ok_and(|status| status.success())).then(|| format!("another user cannot reach `{there}`"))
}

fn kept_awake() -> Outcome {
    let work = Work::new();
    work.say(&quick("--out asleep")).ended(0);
    let words = |said: Said| said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = words(work.say(&quick("--awake --out awake")).ended(0));
    assert!(told.contains("| processors asked not to sleep | 1 round"), "{told}");
    assert_eq!(RunResult::load(&work.path("awake"))?.plan.awake, Some(true));
    let told = words(work.say("compare asleep awake"));
    assert!(told.contains("processors asked not to sleep no, now yes"), "{told}");
    Ok(())
}

fn not_kept_awake() -> Outcome {
    let work = Work::new();
    let line = quick("--awake --dir place --out out");
    let said = if rustix::process::geteuid().is_root() {
        // Another user, who may read the program and write here, but not ask the kernel.
        std::fs::set_permissions(work.path("."), PermissionsExt::from_mode(0o777))?;
        copied(Path::new(BLOBWISE), &work.path("program"))?;
        let mut command = work.command("setpriv");
        command.args(NOBODY).arg(work.path("program"));
        let said = finish(command.args(line.split_whitespace()));
        std::fs::remove_file(work.path("program"))?;
        said
    } else {
        work.say(&line)
    };
    said.refused(&["--awake", REQUESTS, "as root"]);
    assert!(work.names(".").is_empty());
    Ok(())
}
