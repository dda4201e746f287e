//! Runs by how recent they are: `LAST` is the newest below the default directory, `LAST~1` the one before it.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// Default directory of results, in the current directory.
pub const RUNS: &str = "blobwise-runs";
const LAST: &str = "LAST";

/// Returns the directory of the run that `name` stands for: `LAST`, `LAST~N` or a path. A file of that name takes precedence.
pub fn run_called(name: &Path) -> Result<PathBuf> {
    let typed = name.to_str().filter(|_| !name.exists()).map(str::to_uppercase).unwrap_or_default();
    let back = match typed.strip_prefix(LAST).map(|rest| rest.split_once('~').unwrap_or((rest, "0"))) {
        Some(("", number)) => number.parse::<usize>().ok().filter(|_| name.starts_with(&typed)),
        _ => return Ok(name.to_owned()),
    };
    let Some(back) = back else {
        bail!("`{}`: the newest run is {LAST}, the one before it {LAST}~1", name.display())
    };
    let runs = newest_first(Path::new(RUNS));
    match runs.get(back) {
        Some(run) => Ok(run.clone()),
        None => bail!(
            "`{}` is not among the {} runs in `{RUNS}`, below the current directory: name a run by its directory",
            name.display(),
            runs.len()
        ),
    }
}

/// Returns the shortest name of a run for a command: `LAST` for the newest in the default directory, otherwise its path.
pub fn shortest_name(run: &Path) -> PathBuf {
    let is_last = newest_first(Path::new(RUNS)).first().is_some_and(|last| last == run);
    if is_last { PathBuf::from(LAST) } else { run.to_owned() }
}

/// Runs with a result in a directory. They are named by when they began.
fn newest_first(base: &Path) -> Vec<PathBuf> {
    let mut runs: Vec<PathBuf> = std::fs::read_dir(base)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|run| run.join("result.json").exists())
        .collect();
    runs.sort_by(|one, other| other.cmp(one));
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_by_how_recent_they_are() {
        let dir = tempfile::tempdir().unwrap();
        for (run, has_result) in
            [("20260101-000000", true), ("20260102-000000", true), ("20260103-000000", false)]
        {
            std::fs::create_dir(dir.path().join(run)).unwrap();
            if has_result {
                std::fs::write(dir.path().join(run).join("result.json"), "{}").unwrap();
            }
        }
        let names: Vec<String> = newest_first(dir.path())
            .iter()
            .filter_map(|run| Some(run.file_name()?.to_str()?.to_owned()))
            .collect();
        assert_eq!(names, ["20260102-000000", "20260101-000000"]);
        for path in ["LASTING", "runs/LAST", "lasting", "out"] {
            assert_eq!(run_called(Path::new(path)).unwrap(), Path::new(path));
        }
        for path in ["LAST~", "LAST~x", "LAST~-1", "last", "Last~1"] {
            let wrong = run_called(Path::new(path)).unwrap_err().to_string();
            assert!(wrong.contains("the newest run is LAST, the one before it LAST~1"), "{wrong}");
        }
        let missing = run_called(Path::new("LAST~9999")).unwrap_err().to_string();
        assert!(missing.contains("`LAST~9999` is not among the "), "{missing}");
    }
}
