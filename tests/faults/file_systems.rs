//! File systems below `--dir` and `--out` that become read-only or full in the middle of a run.

use std::process::{Child, Command};

use blobwise::result::{RunResult, Status};

use super::program::{Outcome, Work, finish};
use super::{ended, nothing_is_left, until, wrapped};

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
    make_image(&work).err().or_else(|| {
        let mut command = work.command(EXT4[0]);
        let said = finish(command.args(&EXT4[1..]).arg("true"));
        (said.code != Some(0)).then(|| format!("no loop mount: {}", said.stderr.trim()))
    })
}

fn make_image(work: &Work) -> Result<(), String> {
    std::fs::create_dir(work.path("place")).unwrap();
    std::fs::File::create(work.path("image")).unwrap().set_len(200 << 20).unwrap();
    let mut command = work.command("mkfs.ext4");
    match command.args(["-q", "-F", "-m", "0", "image"]).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("no `mkfs.ext4`: {error}")),
    }
}

/// What happens to the file system.
#[derive(Clone, Copy)]
pub enum Change {
    /// The kernel makes it read-only because of an error in it.
    Broken,
    /// Others fill it up, and take what becomes free in the next 1.5 s as well.
    Full,
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
    make_image(&work)?;
    let line = format!(
        "run --stores {store},memory --corpus fixed:20kB --blobs 12 --rounds 3 --phases fill,read-warm,overwrite \
         --op-timeout 5s --no-drop-caches --verbose --dir place --out out"
    );
    let child = until(wrapped(&work, &EXT4).args(line.split_whitespace()), store, "round 2/3", "read-warm");
    change.happen(&child);
    let said = ended(child).ended(1);
    let result = RunResult::load(&work.path("out"))?;
    let candidate =
        |store: &str| result.candidates.iter().find(|candidate| candidate.store == store).unwrap();
    let reason = candidate(store).reason.clone().unwrap_or_default();
    assert_eq!(candidate(store).status, Status::Failed, "{}", said.stdout);
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
