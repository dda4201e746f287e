//! What a limit of devices lets through before it holds.

use crate::plan::text::DeviceLimit;
use crate::rules::{LIMIT_AHEAD_S, LIMIT_REACHED};

/// What a limit gives out in advance, over the seconds in which a device did so many requests and bytes, of reads and of writes; 0 where
/// it does not bound them. What is over before it holds at all is faster without bound: then it is 1.
pub(super) fn ahead(limit: &DeviceLimit, seconds: f64, reads_and_writes: [(u64, u64); 2]) -> f64 {
    let a_second = |number: u64| number as f64 / seconds;
    let is_bounded = reads_and_writes
        .into_iter()
        .any(|(requests, bytes)| limit.share_of(a_second(requests), a_second(bytes)) >= LIMIT_REACHED);
    if is_bounded { (LIMIT_AHEAD_S / seconds).min(1.0) } else { 0.0 }
}
