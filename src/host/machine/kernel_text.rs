//! Texts that the kernel writes for whoever asks: `Name: value` lines below `/proc` and `/sys`.

use std::path::Path;

/// A file of the kernel's; `None` where it has none.
pub(super) fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The value of a `Name: value` line, without its unit.
pub(super) fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The same as bytes, of a value in KiB.
pub(super) fn kibibytes(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}
