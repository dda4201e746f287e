//! Server programs: where to look for them, and how to tell the right one from others of the same name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// A server program: where to look for it, how to recognise it, and how to install it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// File name, which may contain one `*`; the last match in order of names wins.
    pub name: &'static str,
    /// Directories to search besides PATH. A path component may contain one `*`, and the last match in order of names wins;
    /// `~cache` is the user's cache directory.
    pub places: &'static [&'static str],
    /// Environment variable that names the program's file.
    pub variable: Option<&'static str>,
    /// Arguments that make it print its version; empty for a file that another program loads and that cannot be run.
    pub ask: &'static [&'static str],
    /// Text that the output contains if it is the right program.
    pub says: &'static str,
    /// Text that the output must not contain.
    pub never_says: Option<&'static str>,
    /// Command that installs it.
    pub install: &'static str,
}

/// A program that was found, with its version.
#[derive(Clone, Debug)]
pub struct InstalledProgram {
    /// Path of the file.
    pub path: PathBuf,
    /// First line of its output.
    pub version: String,
}

impl Program {
    /// A program that lies in the usual directories and that no variable names.
    pub const fn plain(
        name: &'static str,
        ask: &'static [&'static str],
        says: &'static str,
        install: &'static str,
    ) -> Program {
        Program { name, places: &[], variable: None, ask, says, never_says: None, install }
    }

    /// Searches for the program, skipping files with the right name that turn out to be another program. Results are cached per
    /// process, because some programs take a second to answer.
    pub fn find(&self) -> Result<InstalledProgram> {
        static KNOWN: Mutex<BTreeMap<(&str, &str), InstalledProgram>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&(self.name, self.says)) {
            return Ok(found.clone());
        }
        let found = self.look()?;
        known.insert((self.name, self.says), found.clone());
        Ok(found)
    }

    fn look(&self) -> Result<InstalledProgram> {
        let mut others = Vec::new();
        for path in self.candidates() {
            if self.ask.is_empty() {
                let version = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Ok(InstalledProgram { path, version });
            }
            match ask(&path, self.ask) {
                Ok(answer) if self.is_meant(&answer) => {
                    return Ok(InstalledProgram {
                        path,
                        version: answer.lines().next().unwrap_or_default().trim().to_owned(),
                    });
                }
                Ok(answer) => others.push(format!("`{}` says `{}`", path.display(), answer.trim())),
                Err(error) => others.push(format!("`{}`: {error:#}", path.display())),
            }
        }
        if let (Some(variable), Some(_)) = (self.variable, self.named()) {
            bail!(
                "`{variable}` does not name `{}`: {}; name another, or unset it",
                self.name,
                others.join("; ")
            );
        }
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
        bail!("no `{}` was found{others}; install it with `{}`", self.name, self.install)
    }

    /// Path in the program's environment variable, if set.
    fn named(&self) -> Option<PathBuf> {
        self.variable.and_then(std::env::var_os).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    fn is_meant(&self, answer: &str) -> bool {
        answer.contains(self.says) && self.never_says.is_none_or(|other| !answer.contains(other))
    }

    fn candidates(&self) -> Vec<PathBuf> {
        // A file that the user named is never replaced by another.
        if let Some(named) = self.named() {
            return vec![named];
        }
        let mut candidates: Vec<PathBuf> = Vec::new();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
        // Debian keeps servers in directories that are not on a user's PATH.
        directories.extend(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from));
        for place in self.places {
            directories.extend(matches(place));
        }
        for directory in directories {
            match self.name.split_once('*') {
                Some((begin, end)) => candidates.extend(children(&directory, begin, end)),
                None => candidates.push(directory.join(self.name)),
            }
        }
        // `/sbin` is often a link to `/usr/sbin`: each file is run once.
        let mut seen = BTreeSet::new();
        candidates.retain(|path| path.is_file() && path.canonicalize().is_ok_and(|file| seen.insert(file)));
        candidates
    }
}

/// Returns the directories that match a path whose components may contain one `*`, the last in order of names first. `~cache` is
/// the user's cache directory.
fn matches(pattern: &str) -> Vec<PathBuf> {
    let (mut found, rest) = match pattern.strip_prefix("~cache/") {
        Some(rest) => (cache_home().into_iter().collect(), rest),
        None => (vec![PathBuf::from("/")], pattern),
    };
    for part in rest.split('/').filter(|part| !part.is_empty()) {
        found = match part.split_once('*') {
            Some((begin, end)) => {
                found.iter().flat_map(|directory| children(directory, begin, end)).collect()
            }
            None => found.into_iter().map(|directory| directory.join(part)).collect(),
        };
    }
    found.retain(|directory| directory.is_dir());
    found
}

fn cache_home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
}

/// Returns the entries of a directory whose names begin and end with these texts, in descending order of names.
fn children(directory: &Path, begin: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(|entry| entry.ok());
    let named = entries.filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| {
            name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
        })
    });
    let mut paths: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    paths.sort();
    paths.reverse();
    paths
}

fn ask(path: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(path);
    // Started with a server's environment, so that anything a server would lack is missing here, too.
    command.args(arguments).stdin(Stdio::null()).env_clear().envs(super::inherited_environment());
    let output = command.output().context("cannot be started")?;
    Ok(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}
