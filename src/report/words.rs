//! What every kind of report calls the same thing.

use crate::result::{Interval, Status};
use crate::units;

/// Why a row has no figures.
pub(super) fn status(status: Status) -> &'static str {
    match status {
        Status::Measured => "no figures",
        Status::Failed => "failed",
        Status::NotPossible => "not possible",
        Status::NotAvailable => "not available",
    }
}

/// A phase, and the size of a sweep.
pub(super) fn phase(name: &str, sweep_bytes: Option<u64>) -> String {
    match sweep_bytes {
        Some(bytes) => format!("{name} at {}", units::bytes(bytes as f64)),
        None => name.to_owned(),
    }
}

/// A value with its interval, where there is one.
pub(super) fn with_interval(value: &Interval, show: impl Fn(f64) -> String) -> String {
    match (value.low, value.high) {
        (Some(low), Some(high)) => format!("{} [{}, {}]", show(value.median), show(low), show(high)),
        _ => show(value.median),
    }
}
