//! The loop in which every measured op is done: the workers, their clock, their pace and their tallies.

pub mod clock;
pub mod consumer;
pub mod log;
pub mod pace;
pub mod pool;
pub mod tally;
pub mod uploads;
pub mod worker;
