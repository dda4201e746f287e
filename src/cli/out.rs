//! The output directory of plan, result and report: empty when a run begins, and locked so that one process at a time writes to
//! it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::Access;

use super::{eprint, print};
use crate::host::machine;
use crate::host::place::{DirectoryLock, make_directories, remove_file_or_note, remove_if_empty};
use crate::redact::pasted;
use crate::result::RunResult;
use crate::result::recent::RUNS;

/// Files that a run writes before it measures.
const BEFORE_MEASURING: &[&str] = &["plan.toml", "corpus.csv", "plan.draft", "corpus.draft", "result.draft"];

/// An output directory, locked against other blobwise processes until this is dropped.
pub struct OutputDirectory {
    pub path: PathBuf,
    /// Directories created for it, innermost first.
    made: Vec<PathBuf>,
    _held: DirectoryLock,
}

impl OutputDirectory {
    /// Creates the directory of a new run or report: the requested one, which must be empty, or a new one below the current
    /// directory, named after the time.
    pub fn make(asked: Option<&Path>) -> Result<OutputDirectory> {
        let (path, made) = match asked {
            Some(path) => (path.to_owned(), make_directories(path)?),
            None => make_default()?,
        };
        OutputDirectory::hold(path, made, check_empty)
    }

    /// Opens or creates a directory that may contain earlier output, which `check` accepts.
    pub fn open_or_make(path: &Path, check: fn(&Path) -> Result<()>) -> Result<OutputDirectory> {
        OutputDirectory::hold(path.to_owned(), make_directories(path)?, check)
    }

    fn hold(path: PathBuf, made: Vec<PathBuf>, check: fn(&Path) -> Result<()>) -> Result<OutputDirectory> {
        // Checked again under the lock, because another process may have filled it since the first check.
        match DirectoryLock::take(&path).and_then(|held| check(&path).map(|()| held)) {
            Ok(held) => Ok(OutputDirectory { path, made, _held: held }),
            Err(error) => {
                remove_if_empty(&made);
                Err(error)
            }
        }
    }

    /// Opens the directory of an earlier run.
    pub fn open(path: &Path) -> Result<OutputDirectory> {
        Ok(OutputDirectory { path: path.to_owned(), made: Vec::new(), _held: DirectoryLock::take(path)? })
    }

    /// True if a run was killed here before it had a result.
    pub fn ended_before_measuring(&self) -> bool {
        self.path.join("plan.toml").exists() && !self.path.join("result.json").exists()
    }

    /// Removes the files of a run that was killed before it had a result, and nothing else.
    pub fn begin_anew(self) {
        if self.ended_before_measuring() {
            self.remove_beginnings();
        }
    }

    /// Cleans up after a failure that left no result.
    pub fn abandon(&self) {
        if !self.path.join("result.json").exists() {
            self.remove_beginnings();
            remove_if_empty(&self.made);
        }
    }

    /// Adds to an error what can be done with the result written before it, if there is one.
    pub fn kept(&self, error: anyhow::Error) -> anyhow::Error {
        let (shown, pasted) = (self.path.display(), pasted(&self.path));
        match RunResult::load(&self.path) {
            Ok(result) if result.complete => error.context(format!(
                "the result in `{shown}` is complete; `blobwise report {pasted}` writes its reports again"
            )),
            Ok(_) => error.context(format!(
                "what was measured is kept in `{shown}`; continue with `blobwise run --resume {pasted}`"
            )),
            Err(_) => error,
        }
    }

    fn remove_beginnings(&self) {
        for name in BEFORE_MEASURING {
            remove_file_or_note(&self.path.join(name));
        }
    }
}

/// Creates a unique directory; two runs started in the same second get two.
fn make_default() -> Result<(PathBuf, Vec<PathBuf>)> {
    let base = Path::new(RUNS);
    let time = machine::timestamp().replace([':', '-'], "").replace('T', "-").replace('Z', "");
    let mut made = make_directories(base)?;
    for number in 1_u32.. {
        let path = base.join(if number == 1 { time.clone() } else { format!("{time}-{number}") });
        match std::fs::create_dir(&path) {
            Ok(()) => {
                made.insert(0, path.clone());
                return Ok((path, made));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot make `{}`", path.display())),
        }
    }
    bail!("`{}` has no name left", base.display())
}

/// Rejects an output directory that another process is using or that is not empty, before anything is done.
pub fn check_out(out: &Path) -> Result<()> {
    if out.is_dir() {
        DirectoryLock::take(out).with_context(|| format!("cannot use `{}` for --out", out.display()))?;
    }
    check_empty(out)?;
    check_writable("--out", out)
}

/// Rejects a directory that cannot be written or made, before anything is done.
pub fn check_writable(flag: &str, dir: &Path) -> Result<()> {
    let mut above =
        dir.ancestors().map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
    let there = above.find(|path| path.exists()).unwrap_or(Path::new("."));
    rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK)
        .with_context(|| format!("{flag}: `{}` cannot be written; name another directory", dir.display()))
}

const STDOUT: &str = "-";

/// Rejects files that cannot be written, and one that is named twice, before anything is done. Devices and pipes may be named
/// twice.
pub fn check_files(files: &[&Option<PathBuf>]) -> Result<()> {
    let named: Vec<&Path> = files.iter().filter_map(|file| file.as_deref()).collect();
    let is_device = |file: &Path| file.metadata().is_ok_and(|of| !of.is_file());
    for (place, file) in named.iter().enumerate() {
        if named[..place].contains(file) && !is_device(file) {
            bail!("`{}` is named twice: give each output a file of its own", file.display());
        }
        check_file(file)?;
    }
    Ok(())
}

/// Rejects a file that cannot be written. An existing file keeps its contents, and a new one is removed again.
fn check_file(file: &Path) -> Result<()> {
    if file == Path::new(STDOUT) {
        return Ok(());
    }
    let was_there = file.symlink_metadata().is_ok();
    let opened = std::fs::File::options().append(true).create(true).open(file);
    opened.with_context(|| format!("cannot write `{}`", file.display()))?;
    if !was_there {
        remove_file_or_note(file);
    }
    Ok(())
}

/// Writes a file that the user requested in addition to the output.
pub fn write_file(file: &Path, text: &str) -> Result<()> {
    if file == Path::new(STDOUT) {
        return print(text);
    }
    std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))
}

/// Prints the readable output to standard output, or to standard error if one of `files` is standard output.
pub fn print_beside(files: &[&Option<PathBuf>], text: &str) -> Result<()> {
    if files.iter().any(|file| file.as_deref() == Some(Path::new(STDOUT))) {
        eprint(text);
        return Ok(());
    }
    print(text)
}

fn check_empty(out: &Path) -> Result<()> {
    match std::fs::read_dir(out).map(Iterator::count) {
        Ok(entries) if entries > 0 => {
            let shown = out.display();
            if out.join("result.json").exists() {
                bail!(
                    "`{shown}` is not empty: `blobwise run --resume {}` goes on with its run, or name another directory with --out",
                    pasted(out)
                );
            }
            bail!("`{shown}` is not empty: name another directory with --out")
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot use `{}` for --out", out.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_have_files_of_their_own_that_can_be_written() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let (one, other) = (Some(dir.path().join("one")), Some(dir.path().join("other")));
        check_files(&[&one, &None, &other]).unwrap();
        let said = check_files(&[&one, &None, &one]).unwrap_err().to_string();
        assert!(said.contains("one` is named twice"), "{said}");
        let null = Some(PathBuf::from("/dev/null"));
        check_files(&[&null, &null]).unwrap();
        let lost = Some(dir.path().join("nowhere/one"));
        assert!(check_files(&[&lost]).unwrap_err().to_string().starts_with("cannot write `"));
        check_writable("--out", &dir.path().join("new/deep")).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left there");
    }
}
