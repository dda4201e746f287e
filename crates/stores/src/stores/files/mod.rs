//! Files in directories, and archives of files.

use super::Entry;

mod archive;
pub(super) mod directories;
pub(super) mod ramdisk;
mod squashfs;
mod tar;
mod zip;

pub(super) const TABLE: &[Entry] = &[
    Entry::Ready(&directories::FLAT),
    Entry::Ready(&directories::HASHED),
    Entry::Ready(&zip::ADAPTER),
    Entry::Ready(&tar::ADAPTER),
    Entry::Ready(&squashfs::ADAPTER),
];
