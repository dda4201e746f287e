//! Statistics: pure functions of what was measured.

pub mod answer;
pub mod cells;
pub mod claims;
pub mod compare;
pub mod crossover;
pub mod doubts;
pub mod histogram;
pub mod interval;
pub mod rails;
pub mod ranking;
pub mod runs;
pub mod summary;

/// A cell under 0.5 s and under 200 ops a round is too short: it has neither the time nor the ops to average over.
pub const SHORT_SECONDS: f64 = 0.5;
/// See [`SHORT_SECONDS`].
pub const SHORT_OPS: u64 = 200;

/// A rung's rate over that of the one below it: how closely a ladder of offered rates tells what a store can do.
pub const LADDER_STEP: f64 = 1.25;
