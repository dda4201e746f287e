//! The loop in which every measured op is done: workers, the clock that they read, the pace that they keep, what they count.

pub mod clock;
pub mod consumer;
pub mod crew;
pub mod pace;
pub mod tally;
pub mod uploads;
pub mod worker;
