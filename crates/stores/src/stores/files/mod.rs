//! Files in directories.

use super::Entry;

pub(super) mod directories;
mod packed;
pub(super) mod ramdisk;

/// The stores of this family.
pub(super) const TABLE: &[Entry] =
    &[Entry::Ready(&directories::FLAT), Entry::Ready(&directories::HASHED), Entry::Ready(&packed::ADAPTER)];
