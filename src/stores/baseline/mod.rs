//! What is no place for files: baselines that others are held against, from a bare loop to the device itself.

use super::Entry;
use super::files::directories;
use crate::store::Adapter;

mod memory;
mod null;
pub(super) mod raw;

/// Those of this family.
pub(super) const TABLE: &[Entry] = &[
    Entry::Ready(&null::ADAPTER),
    Entry::Ready(&memory::ADAPTER),
    Entry::Ready(&directories::FOPEN),
    Entry::Ready(&raw::ADAPTER),
];

/// The baseline that does nothing: what the harness itself costs.
pub(super) const NULL: &Adapter = &null::ADAPTER;
