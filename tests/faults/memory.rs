//! A control group with too little memory for a run, in which the kernel kills whom it chooses.

use std::path::PathBuf;

use super::program::{BLOBWISE, Outcome, Work, start};
use super::{ended, line, nothing_is_left};

/// What a run of a debug build with a server does not get along with, in bytes.
const BYTES: &str = "100000000";

/// A memory control group, removed when dropped.
struct Group {
    path: PathBuf,
}

impl Group {
    /// One with a limit, of version 1 or 2.
    fn make() -> Result<Group, String> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let own = |controller: &str| {
            let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
            lines.find(|(names, _)| names.split(',').any(|name| name == controller)).map(|(_, path)| path)
        };
        let (root, own, limit) = match (own("memory"), own("")) {
            (Some(own), _) => ("/sys/fs/cgroup/memory", own, "memory.limit_in_bytes"),
            (None, Some(own)) => ("/sys/fs/cgroup", own, "memory.max"),
            (None, None) => return Err("no control group for memory".to_owned()),
        };
        let path = PathBuf::from(format!("{root}{own}/blobwise-test-{}", std::process::id()));
        let told = |error: std::io::Error| format!("no control group `{}`: {error}", path.display());
        std::fs::create_dir(&path).map_err(told)?;
        let group = Group { path: path.clone() };
        std::fs::write(path.join(limit), BYTES).map_err(told)?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.path).ok();
    }
}

/// Why there can be none here.
pub fn no_group() -> Option<String> {
    Group::make().err()
}

/// Whoever is killed, nothing goes on, and the next run takes away what is left on disk.
pub fn all_killed() -> Outcome {
    let work = Work::new();
    let group = Group::make()?;
    std::fs::create_dir(work.path("place"))?;
    let script = format!("echo $$ >'{}/cgroup.procs' && exec \"$0\" \"$@\"", group.path.display());
    let mut command = work.command("sh");
    command.args(["-c", &script, BLOBWISE]);
    let stores = if super::missing("redis").is_none() { "redis,memory" } else { "memory" };
    let more = format!("--stores {stores} --corpus fixed:1MB --blobs 150");
    let said = ended(start(command.args(line(&more).split_whitespace())));
    // By a signal, or with a candidate that failed.
    assert!(matches!(said.code, None | Some(1 | 2)), "{said:?}");
    nothing_is_left(&work);
    work.say(&line("--stores null --corpus fixed:1kB --blobs 2").replace("--out out", "--out next")).ended(0);
    assert!(work.names("place").is_empty(), "{:?}", work.names("place"));
    Ok(())
}
