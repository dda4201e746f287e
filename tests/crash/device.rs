//! Trust in the disk: what others verify on it, raw and below a file system; and its log, replayed whole.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use blobwise::host::disk::{DiskFile, Faults, Log, LoopDevice};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Large enough for what fio writes.
const SMALL: usize = 64 << 20;
/// Large enough for every file system here.
const LARGE: usize = 320 << 20;

/// Why there is no fio, if so.
pub fn no_fio() -> Option<String> {
    let ended = Command::new("fio").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    (!ended.is_ok_and(|status| status.success())).then(|| "fio is not there: apt-get install fio".to_owned())
}

/// Random writes with flushes by fio in a file or a device, or their verification alone.
fn fio(on: &Path, only_verify: bool) -> Result<bool> {
    let mut command = Command::new("fio");
    command.args(["--name=verify", "--rw=randwrite", "--bsrange=4k-64k", "--size=16m", "--fsync=8"]);
    command.args(["--ioengine=psync", "--verify=crc32c", "--verify_fatal=1", "--randseed=7"]);
    // Blocks of any size are verified only where none is written twice.
    command.args(["--norandommap=0", "--fallocate=none", "--verify_state_save=0"]);
    command.arg(if only_verify { "--verify_only=1" } else { "--do_verify=1" });
    let ended = command.arg("--filename").arg(on).output()?;
    Ok(ended.status.success())
}

/// What the log makes when it is replayed whole.
fn replayed(log: &Log, bytes: usize) -> Vec<u8> {
    let mut image = vec![0; bytes];
    log.entries(0..log.len()).for_each(|(_, entry)| log.apply(&entry, entry.len, &mut image));
    image
}

/// The same bytes, without a copy of the whole device.
fn is_same(device: &Path, image: &[u8]) -> Result<bool> {
    let (mut file, mut piece) = (File::open(device)?, vec![0; 1 << 20]);
    for wanted in image.chunks(piece.len()) {
        file.read_exact(&mut piece[..wanted.len()])?;
        if piece[..wanted.len()] != *wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Does something on a disk that notes what it is told, and wants its log to make it again.
fn on_disk(bytes: usize, work: impl FnOnce(&mut LoopDevice) -> Result<()>) -> Result<()> {
    let (dir, log) = (tempfile::tempdir()?, Arc::new(Log::new(512 << 20)?));
    let mut empty = vec![0; bytes];
    let file = DiskFile::serve(dir.path(), &mut empty, |_| (), Some(Arc::clone(&log)), Faults::default())?;
    let mut device = LoopDevice::attach(&file.path())?;
    work(&mut device)?;
    File::open(device.path())?.sync_all()?;
    ensure!(is_same(device.path(), &replayed(&log, bytes))?, "the log makes another disk");
    Ok(())
}

/// fio verifies what it wrote, and finds a byte that was changed behind its back.
fn verified(on: &Path) -> Result<()> {
    ensure!(fio(on, false)?, "fio finds other bytes in `{}`", on.display());
    // It drops what the kernel has of it before.
    ensure!(fio(on, true)?, "fio finds other bytes in `{}` later", on.display());
    let file = File::options().read(true).write(true).open(on)?;
    let (mut byte, at) = ([0], 5_000_001);
    file.read_exact_at(&mut byte, at)?;
    file.write_all_at(&[byte[0] ^ 1], at)?;
    ensure!(!fio(on, true)?, "fio does not see a byte that changed");
    Ok(())
}

pub fn raw() -> Result<()> {
    on_disk(SMALL, |device| verified(device.path()))
}

/// Makes a file system.
pub fn format(kind: &str, device: &Path) -> Result<()> {
    let force = if kind == "ext4" { "-F" } else { "-f" };
    let made = Command::new(format!("mkfs.{kind}")).args(["-q", force]).arg(device).output()?;
    ensure!(made.status.success(), "no {kind}: {}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

pub fn below_a_file_system() -> Result<()> {
    let mount = tempfile::tempdir()?;
    on_disk(SMALL, |device| {
        format("ext4", device.path())?;
        device.mount("ext4", mount.path(), "")?;
        let file = mount.path().join("file");
        verified(&file)?;
        device.unmount()
    })
}

/// Random reads, writes and truncations of a file on each file system, against a model in memory, with flushes, and mounted
/// anew now and then.
pub fn files_against_a_model() -> Result<()> {
    for (number, kind) in ["ext4", "xfs", "btrfs"].iter().enumerate() {
        let mount = tempfile::tempdir()?;
        on_disk(LARGE, |device| {
            format(kind, device.path())?;
            let mut rng = SmallRng::seed_from_u64(number as u64);
            let mut model = Vec::new();
            for _ in 0..4 {
                device.mount(kind, mount.path(), "")?;
                let outcome = steps(&mount.path().join("file"), &mut model, &mut rng);
                device.unmount()?;
                outcome.with_context(|| format!("on {kind}"))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn steps(path: &Path, model: &mut Vec<u8>, rng: &mut SmallRng) -> Result<()> {
    const MOST: usize = 1 << 20;
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    for step in 0..200_u32 {
        let (from, len) = (rng.random_range(0..MOST / 2), rng.random_range(1..MOST / 8));
        match rng.random_range(0..8) {
            0..=2 => {
                model.resize(model.len().max(from + len), 0);
                let byte = rng.random();
                model[from..from + len].fill(byte);
                file.write_all_at(&model[from..from + len], from as u64)?;
            }
            3 => {
                model.resize(from, 0);
                file.set_len(from as u64)?;
            }
            4 => file.sync_all()?,
            _ => {
                let (from, len) = (from.min(model.len()), len.min(model.len() - from.min(model.len())));
                let mut read = vec![0; len];
                file.read_exact_at(&mut read, from as u64)?;
                ensure!(read == model[from..from + len], "step {step}: other bytes at {from}");
            }
        }
        ensure!(file.metadata()?.len() == model.len() as u64, "step {step}: another length");
    }
    let mut whole = Vec::new();
    File::open(path)?.read_to_end(&mut whole)?;
    ensure!(whole == *model, "another file");
    Ok(())
}
