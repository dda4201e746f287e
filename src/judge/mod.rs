//! Statistics: pure functions of what was measured.

pub use crate::rules::{LADDER_STEP, LEAST_SECONDS, SHORT_SECONDS, VERDICT_ROUNDS};
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

#[cfg(test)]
mod fixture;
