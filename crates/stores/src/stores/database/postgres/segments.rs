//! Cleans up shared memory of a PostgreSQL that died, namely of `initdb`, which cannot be configured to keep it elsewhere.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::host::place::remove_file_or_note;

/// Directory of the segments.
const DIRECTORY: &str = "/dev/shm";
/// Prefix of their names.
const NAME: &str = "PostgreSQL.";

/// Names of this user's segments.
#[derive(Debug)]
pub(super) struct Segments(BTreeSet<OsString>);

impl Segments {
    pub(super) fn now() -> Segments {
        let user = rustix::process::geteuid().as_raw();
        let entries = std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
        let ours = entries.filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() == user));
        let names = ours.map(|entry| entry.file_name());
        Segments(names.filter(|name| name.to_string_lossy().starts_with(NAME)).collect())
    }

    /// Removes segments created since then that no process has mapped; other servers of this user have mapped theirs.
    pub(super) fn remove_newer(&self) {
        /// Longer than the time between creating and mapping a segment.
        const PAUSE: Duration = Duration::from_millis(200);
        let left = || -> BTreeSet<OsString> {
            let newer: BTreeSet<OsString> = Segments::now().0.difference(&self.0).cloned().collect();
            if newer.is_empty() { newer } else { newer.difference(&mapped()).cloned().collect() }
        };
        let first = left();
        if first.is_empty() {
            return;
        }
        std::thread::sleep(PAUSE);
        for name in first.intersection(&left()) {
            remove_file_or_note(&Path::new(DIRECTORY).join(name));
        }
    }
}

/// The segments that any process has mapped.
fn mapped() -> BTreeSet<OsString> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let maps = processes.filter_map(|process| std::fs::read_to_string(process.path().join("maps")).ok());
    let begin = format!("{DIRECTORY}/{NAME}");
    let names = |maps: String| -> Vec<OsString> {
        let paths = maps.lines().filter_map(|line| line.find(&begin).map(|at| line[at..].to_owned()));
        paths.filter_map(|path| Some(Path::new(&path).file_name()?.to_owned())).collect()
    };
    maps.flat_map(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::machine::FileMapping;

    #[test]
    fn what_somebody_has_stays_and_what_nobody_has_goes() {
        let name = |what: &str| format!("{NAME}test-{}-{what}", std::process::id());
        let path = |what: &str| Path::new(DIRECTORY).join(name(what));
        std::fs::write(path("old"), [0]).unwrap();
        let before = Segments::now();
        std::fs::write(path("new"), [0]).unwrap();
        std::fs::write(path("held"), [0]).unwrap();
        let held = FileMapping::hold_in_cache(&path("held")).unwrap();
        before.remove_newer();
        let are_there = ["old", "new", "held"].map(|what| path(what).exists());
        drop(held);
        ["old", "held"].iter().for_each(|what| std::fs::remove_file(path(what)).unwrap());
        assert_eq!(are_there, [true, false, true]);
    }
}
