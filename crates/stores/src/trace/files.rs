//! The user's files by the paths that a log may have for them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

/// A file that has the path of an object of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectFile {
    /// Its place among the files that were given to [`PathIndex::new`].
    pub place: u32,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The files of a directory, keyed by their paths below it. A path is looked up here and never opened, so `..` in a log cannot lead
/// out of the directory.
#[derive(Debug)]
pub struct PathIndex {
    files: HashMap<PathBuf, ObjectFile>,
}

impl PathIndex {
    /// Indexes files by their paths below their directory, with their sizes in bytes.
    pub fn new(files: impl IntoIterator<Item = (PathBuf, u64)>) -> PathIndex {
        let files = (0..).zip(files).map(|(place, (path, bytes))| (path, ObjectFile { place, bytes }));
        PathIndex { files: files.collect() }
    }

    /// Returns the file that an object's path in a log means: decoded and without the query, or as it is.
    pub(super) fn find(&self, path: &str) -> Option<ObjectFile> {
        let name = path.split('?').next().unwrap_or(path);
        self.at(&percent_decode_str(name).collect::<Vec<u8>>()).or_else(|| self.at(path.as_bytes()))
    }

    fn at(&self, path: &[u8]) -> Option<ObjectFile> {
        let begin = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
        // A `Path` ignores a slash at the end, and a server does not.
        let below = Some(&path[begin..]).filter(|below| !below.ends_with(b"/"))?;
        self.files.get(Path::new(OsStr::from_bytes(below))).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_log_finds_its_file_and_never_leaves_the_directory() {
        let names = ["a.jpg", "b/c d.jpg", "100%25", "e?f", "\u{e4}"];
        let files = PathIndex::new(names.map(|name| (PathBuf::from(name), 9)));
        let found = |path: &str| files.find(path).map(|file| names[file.place as usize]);
        for (path, name) in [
            ("/a.jpg", "a.jpg"),
            ("a.jpg", "a.jpg"),
            ("//a.jpg?width=9", "a.jpg"),
            ("/%61.jpg", "a.jpg"),
            ("/b/c%20d.jpg", "b/c d.jpg"),
            ("/b//c d.jpg", "b/c d.jpg"),
            ("/b%2Fc d.jpg", "b/c d.jpg"),
            ("/100%2525", "100%25"),
            ("100%25", "100%25"),
            ("/e%3Ff", "e?f"),
            ("/e?f", "e?f"),
            ("/%C3%A4", "\u{e4}"),
            ("/%c3%a4", "\u{e4}"),
        ] {
            assert_eq!(found(path), Some(name), "{path}");
        }
        for path in
            ["", "/", "/b", "/a.jpg/", "/b/../a.jpg", "/../a.jpg", "/%2e%2e/a.jpg", "/%+1", "/a.jpg%00", "/%"]
        {
            assert_eq!(found(path), None, "{path}");
        }
    }
}
