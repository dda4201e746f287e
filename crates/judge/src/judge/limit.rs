//! Burst that a device limit allows before it takes effect.

use crate::plan::text::DeviceLimit;
use crate::rules::{LIMIT_AHEAD_S, LIMIT_REACHED};

/// Returns the burst of a device limit as a share of `seconds`, in which the device did these requests and bytes
/// (reads, then writes): 0 if the limit does not bound them; 1 if all of it fits into the burst, so that the speed was
/// not limited at all.
pub(super) fn ahead(limit: &DeviceLimit, seconds: f64, reads_and_writes: [(u64, u64); 2]) -> f64 {
    let a_second = |number: u64| number as f64 / seconds;
    let is_bounded = reads_and_writes
        .into_iter()
        .any(|(requests, bytes)| limit.share_of(a_second(requests), a_second(bytes)) >= LIMIT_REACHED);
    if is_bounded { (LIMIT_AHEAD_S / seconds).min(1.0) } else { 0.0 }
}
