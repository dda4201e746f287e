//! Baselines: references for comparison, from a bare loop to the raw device. None is a place for files.

use super::Entry;
use super::files::directories;
use crate::store::Adapter;

mod memory;
mod null;
pub(super) mod raw;

pub(super) const TABLE: &[Entry] = &[
    Entry::Ready(&null::ADAPTER),
    Entry::Ready(&memory::ADAPTER),
    Entry::Ready(&directories::FOPEN),
    Entry::Ready(&raw::ADAPTER),
];

/// The baseline that does nothing: it measures the cost of the harness itself.
pub(super) const NULL: &Adapter = &null::ADAPTER;
