//! The program that measured, and what the harness itself costs.

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
    /// SHA-256 of the program's file, in hexadecimal digits; absent of a debug build, whose figures nobody cites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The command line.
    pub command: String,
    /// When it began (UTC).
    pub started: String,
    /// Wall time from start to written result.
    pub seconds: f64,
}

/// Memory of the harness, by the null store: it is added to every limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HarnessMemory {
    /// Before it has done anything, in bytes.
    pub empty_bytes: u64,
    /// Beyond that, at most in a phase: lists of ops, histograms, threads.
    pub phase_bytes: u64,
}

/// What the harness itself costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Harness {
    /// A get of the null store, of the run's first read phase, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null_ns_per_op: Option<f64>,
    /// An op of the null store in each phase, in nanoseconds, by phase (and size of a sweep).
    pub null_ns: BTreeMap<String, f64>,
    /// What it takes of the memory that is counted in a candidate's control group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<HarnessMemory>,
    /// How time was read.
    pub clock: String,
    /// What one reading costs, in nanoseconds.
    pub clock_read_ns: f64,
}
