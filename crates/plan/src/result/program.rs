//! Program that measured, and the overhead of its harness.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Program that measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct MeasuringProgram {
    /// Version of blobwise.
    pub version: String,
    /// `release` or `debug`.
    pub build: String,
    /// SHA-256 of the executable, in hexadecimal; absent for debug builds, whose figures should not be cited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Command line.
    pub command: String,
    /// Start time (UTC).
    pub started: String,
    /// Wall-clock time from the start until the result was written.
    pub seconds: f64,
}

/// Memory used by the harness, measured with the null store; added to every memory limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HarnessMemory {
    /// Memory before the first phase, in bytes.
    pub empty_bytes: u64,
    /// Peak of additional memory in a phase, in bytes: lists of ops, histograms, threads.
    pub phase_bytes: u64,
}

/// Overhead of the harness itself.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Harness {
    /// Time of a get from the null store in the run's first read phase, in nanoseconds.
    pub null_ns_per_op: Option<f64>,
    /// Time of an op on the null store in nanoseconds, by phase (and size of a sweep).
    pub null_ns: BTreeMap<String, f64>,
    /// Memory of the harness that counts towards a candidate's cgroup.
    pub memory: Option<HarnessMemory>,
    /// Clock source.
    pub clock: String,
    /// Time of one clock reading, in nanoseconds.
    pub clock_read_ns: f64,
}
