//! Code shared by several stores.
#![cfg_attr(
    not(feature = "default"),
    allow(dead_code, reason = "which parts are needed depends on the stores that are compiled in")
)]

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) mod catalogue;
#[cfg(feature = "tls")]
pub(super) mod certificate;
pub(super) mod disk;
pub(super) mod failed;
pub(super) mod keys;
pub(super) mod reader;
pub(super) mod removal;
pub(super) mod servers;

/// Locks state that a panic of another session leaves usable.
pub(super) fn lock<T: ?Sized>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
