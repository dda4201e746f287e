//! Statistics: pure functions of what was measured.

pub mod answer;
pub mod cells;
pub mod claims;
pub mod compare;
pub mod crossover;
pub mod disturbed;
pub mod doubts;
pub mod findings;
pub mod histogram;
pub mod interval;
pub mod rails;
pub mod ranking;
mod reference;
pub mod runs;
pub mod summary;

/// A cell under 0.5 s and under [`SHORT_OPS`](crate::rules::SHORT_OPS) a round has neither the time nor the ops to average over: it is too short, unless it has
/// [`VERDICT_ROUNDS`] of at least [`LEAST_SECONDS`], whose scatter says how little it is.
pub const SHORT_SECONDS: f64 = 0.5;
/// Rounds that verdicts need.
pub const VERDICT_ROUNDS: u32 = 5;
/// Below this time a round, what the first op meets (a processor that wakes, caches that are cold) is in every round alike, and no scatter
/// shows it: such starts took 140 to 230 us where they were measured, which is below 3 % of this.
pub const LEAST_SECONDS: f64 = 0.01;

/// A rung's rate over that of the one below it: how closely a ladder of offered rates tells what a store can do.
pub const LADDER_STEP: f64 = 1.25;

#[cfg(test)]
mod fixture;
