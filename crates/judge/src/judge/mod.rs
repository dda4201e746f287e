//! Statistics: pure functions of the measurements.

pub use math::{compare, crossover, histogram, interval, power};

pub use crate::rules::{
    LADDER_STEP, LEAST_SECONDS, LIMIT_AHEAD_S, LIMIT_AHEAD_SHARE, LOAD_TIMES, PRICES_DAYS_MAX, SHORT_SECONDS,
    SMALL_SHARE, TIGHT_SHARE, VERDICT_ROUNDS,
};
pub mod answer;
pub mod cells;
pub mod claims;
pub mod cuts;
pub mod disk;
pub mod disturbed;
pub mod findings;
mod flushes;
mod growth;
mod limit;
mod math;
pub mod probes;
pub mod ranking;
mod reference;
pub mod run_subject;
pub mod runs;
pub mod summary;
pub mod upkeep;
pub mod warnings;

#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
