//! Readers for the kernel's text files: `Name: value` lines below `/proc` and `/sys`.

use std::path::Path;

/// Reads a file of the kernel; `None` if it does not exist or cannot be read.
pub(super) fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Returns the value of a `Name: value` line, with its unit if it has one.
pub(super) fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Parses the value of a line in KiB into bytes.
pub(super) fn kibibytes(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}
