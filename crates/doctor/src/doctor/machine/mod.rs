//! The machine: collects the kernel's statistics for the checks.

mod disks;
mod processes;
mod read;
mod room;
mod traffic;

pub use self::read::look;

use super::finding::Check;

/// The checks of the machine.
pub const CHECKS: &[&[Check]] = &[room::CHECKS, disks::CHECKS, traffic::CHECKS];
