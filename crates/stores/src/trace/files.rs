//! The user's files by the paths that a log may have for them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file that has the path of an object of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectFile {
    /// Its place among the files that were given to [`PathIndex::new`].
    pub place: u32,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Files of a directory by their paths below it. Only a path that is one of theirs is found, so that none leads out of it.
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
        self.at(&decoded(name)).or_else(|| self.at(path.as_bytes()))
    }

    fn at(&self, path: &[u8]) -> Option<ObjectFile> {
        let begin = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
        // A `Path` ignores a slash at the end, and a server does not.
        let below = Some(&path[begin..]).filter(|below| !below.ends_with(b"/"))?;
        self.files.get(Path::new(OsStr::from_bytes(below))).copied()
    }
}

/// Decodes each `%` that two hexadecimal digits follow.
fn decoded(path: &str) -> Vec<u8> {
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = if *byte == b'%' { path.get(at + 1..at + 3) } else { None };
        // A sign would be read as a part of the number.
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let coded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(coded.unwrap_or(*byte));
        at += if coded.is_some() { 3 } else { 1 };
    }
    decoded
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
