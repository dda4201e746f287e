//! The execution of a run: rounds of candidates, the phases of each, and the ops of each phase.

pub mod blocks;
pub mod bytes;
pub mod candidate_run;
pub mod clients;
pub mod environment;
pub mod null_loop;
pub mod ops;
pub mod order;
pub mod parts;
pub mod pilot;
pub mod preflight;
pub mod probes;
pub mod resources;
pub mod room;
pub mod run;
pub mod run_candidate;
pub mod testable;
pub mod verify;
pub mod work;
pub mod workers;

#[cfg(test)]
mod tests;
