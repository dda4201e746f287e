//! The checks of `blobwise doctor`: what a machine or a server is set to, and what that costs.

pub mod doctor;

use blobwise_stores::{host, input, redact, store, units, wire};
