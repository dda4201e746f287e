//! A backup that a visit has made, and the directories that lie beside that of a visit.

use std::path::{Path, PathBuf};

use super::super::ops::State;

/// A backup that is there, and what must be in it.
pub(in crate::engine) struct KeptBackup {
    pub(in crate::engine) dir: PathBuf,
    pub(in crate::engine) state: State,
}

/// What lies beside the directory of a visit while it lasts: its files are no part of what the store takes.
const BESIDE: [&str; 2] = ["backup", "restored"];

/// Where a visit keeps a backup, and where it makes a store of it.
pub(in crate::engine) fn beside(dir: &Path) -> [PathBuf; 2] {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    BESIDE.map(|what| dir.with_file_name(format!("{name}-{what}")))
}
