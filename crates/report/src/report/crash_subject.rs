//! Names of the subjects of a power-cut test.

use super::table::{CellContent, TableCell};
use crate::result::crash::{CrashResult, Uploads};

/// Name of a line's subject: a store, or uploads to it.
pub fn subject(line: &CrashResult) -> String {
    let store = &line.store;
    match &line.uploads {
        None => format!("`{store}`"),
        Some(Uploads { one_transaction: true, .. }) => format!("uploads to `{store}` in one transaction"),
        Some(Uploads { catalogue, .. }) => format!("uploads to `{store}`, catalogue in `{catalogue}`"),
    }
}

/// Heading above the lines of a store.
pub fn head_of(line: &CrashResult) -> String {
    format!("\n{} on {}\n", subject(line).replace('`', ""), line.file_system)
}

/// Identifies a line by store, class and file system.
pub(super) fn subject_on_file_system(line: &CrashResult) -> String {
    format!("{} in class {} on {}", subject(line), line.durability.name(), line.file_system)
}

/// Cell of the subject of a line.
pub(super) fn of_subject(subject: String) -> TableCell {
    TableCell::with(CellContent::Subject(subject), "")
}
