//! The backup of a candidate run, and the directories next to that of its store.

use std::path::{Path, PathBuf};

use super::super::ops::State;

pub(in crate::engine) struct KeptBackup {
    pub(in crate::engine) dir: PathBuf,
    pub(in crate::engine) state: State,
}

/// Suffixes of the directories next to that of the store, where they do not count as disk that the store takes.
const BESIDE: [&str; 2] = ["backup", "restored"];

/// Returns the directory of the backup and that of the restored store.
pub(in crate::engine) fn beside(dir: &Path) -> [PathBuf; 2] {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    BESIDE.map(|what| dir.with_file_name(format!("{name}-{what}")))
}
