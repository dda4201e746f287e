//! Synthetic rounds with known results, shared by the tests of several modules.

use serde_json::{Value, json};

use crate::plan::PlanText;
use crate::result::{CandidateResult, RunResult};

/// Number of rounds of a candidate.
pub const ROUNDS: usize = 10;

/// Returns the seconds per 1,000 ops in each round: noise of one per cent around a level, different for each `salt`.
pub fn around(level: f64, salt: usize) -> Vec<f64> {
    let noise = [0.4, -1.1, 0.7, 1.3, -0.6, -1.2, 0.9, -0.3, 0.2, -0.3];
    (0..ROUNDS).map(|round| level * (1.0 + 0.01 * noise[(round * 3 + salt * 7) % ROUNDS])).collect()
}

/// Standard deviations of the noise in simulated rounds, as logarithms.
#[cfg(test)]
pub const NOISES: [f64; 4] = [0.02, 0.05, 0.1, 0.2];

/// Returns a cell of 1,000 ops per round, with the fields of `over` replaced.
pub fn cell(store: &str, phase: &str, seconds: &[f64], over: Value) -> Value {
    let round = |(index, seconds): (usize, &f64)| {
        json!({"round": index + 1, "position": 1, "seed": 1, "ops": 1000, "blobs": 1000, "bytes": 1000, "seconds": seconds,
               "passes": 1, "errors": 0, "retries": 0, "timeouts": 0, "histogram": {"service": {}},
               "first_ops_ns": [5_000_000], "syncs": 0, "sync_seconds": 0.0, "client_cpu_ns": 1, "worker_cpu_ns": 1,
               "client_peak_bytes": 1000})
    };
    let mut value = json!({
        "store": store, "adapter": "a", "kind": "embedded", "options": {}, "status": "measured", "phase": phase,
        "durability": "on-sync", "workers": 1, "batch": 1, "cache": "warm", "ops": 1000 * seconds.len(), "errors": 0,
        "retries": 0, "timeouts": 0, "rounds": seconds.iter().enumerate().map(round).collect::<Vec<Value>>(),
        "size_bands": [], "steps": [], "leader": true
    });
    if let (Some(value), Value::Object(over)) = (value.as_object_mut(), over) {
        value.extend(over);
    }
    value
}

/// Returns an embedded candidate without settings.
#[expect(clippy::unwrap_used, reason = "the candidate of a test is right")]
pub fn candidate(store: &str) -> CandidateResult {
    let value = json!({"store": store, "adapter": store, "kind": "embedded", "options": {}, "status": "measured", "facts": {}});
    serde_json::from_value(value).unwrap()
}

/// Returns a result with these cells and turns; `claims` is the text of its plan.
#[expect(clippy::unwrap_used, reason = "the result of a test is right")]
pub fn result(claims: &str, cells: Vec<Value>, visits: Vec<Value>) -> RunResult {
    let value = json!({
        "schema": 1, "complete": true, "plan": PlanText::parse(claims).unwrap(),
        "program": {"version": "0", "build": "release", "command": "c", "started": "s", "seconds": 1.0},
        "fixed": {"rounds": 10, "rounds_final": true, "corpus_share": 1.0, "lengths": {}},
        "machine": {"processor": "p", "processors": 2, "virtual_machine": false, "memory_bytes": 1, "kernel": "6", "system": "s",
                    "filesystem": "ext4", "mount": "rw", "free_bytes": 1, "root": false},
        "harness": {"null_ns": {}, "clock": "clock", "clock_read_ns": 8.0},
        "corpus": {"name": "c", "blobs": 3, "bytes": 30, "quantiles": {}, "largest_bytes": 20, "deflate_ratio": 1.0},
        "candidates": [], "results": cells, "footprints": [], "comparisons": [], "answer": [], "crossovers": [], "claims": [],
        "warnings": [], "probes": [], "store_rounds": visits
    });
    serde_json::from_value(value).unwrap()
}
