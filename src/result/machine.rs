//! The machine and the program that measured, and what the harness itself costs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The program that measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Version of blobwise.
    pub version: String,
    /// `release` or `debug`.
    pub build: String,
    /// The command line.
    pub command: String,
    /// When it began (UTC).
    pub started: String,
    /// Wall time from start to written result.
    pub seconds: f64,
}

/// The machine a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors this process may use.
    pub processors: usize,
    /// How the processor's clock is governed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Whether a hypervisor is below.
    pub virtual_machine: bool,
    /// Main memory.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The file system that was measured.
    pub filesystem: String,
    /// Where that is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<String>,
    /// Its mount options.
    pub mount: String,
    /// The block device below it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Whether the device says that it rotates; absent for a virtual disk, which says nothing of what it is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// Bytes that the kernel reads ahead of a sequential reader or a page fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_bytes: Option<u64>,
    /// Free space when the run began.
    pub free_bytes: u64,
    /// Whether blobwise ran as root.
    pub root: bool,
}

/// What the harness itself costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Harness {
    /// A get of the null store, of the run's first read phase, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null_ns_per_op: Option<f64>,
    /// An op of the null store in each phase, in nanoseconds, by phase (and size of a sweep).
    pub null_ns: BTreeMap<String, f64>,
    /// How time was read.
    pub clock: String,
    /// What one reading costs, in nanoseconds.
    pub clock_read_ns: f64,
}
