//! MongoDB and servers that speak its protocol: collects their statistics for the checks.
//!
//! The checks also judge saved facts, so they are compiled without the driver as well.

#[cfg(feature = "mongodb")]
mod answers;
mod blobs;
mod cache;
#[cfg(feature = "mongodb")]
mod connection;
mod indexes;
mod operations;

#[cfg(feature = "mongodb")]
pub use self::connection::{connect, parse};
use super::answers as time;
use super::facts::{SubjectFacts, UnknownReason};
use super::finding::Check;

/// The checks of a server of this protocol.
pub const CHECKS: &[&[Check]] = &[ANSWERS, cache::CHECKS, indexes::CHECKS, operations::CHECKS, blobs::CHECKS];

const ANSWERS: &[Check] = &[time::check("mongo-answer-time", "ping -c 20 HOST")];

/// Fails if other members of a replica set are queried as well, and count for themselves.
fn is_alone(facts: &SubjectFacts) -> Result<(), UnknownReason> {
    match facts.number("member", "members")? > 1.0 {
        true => {
            Err("other members of its replica set are asked as well, and count for themselves".to_owned())
        }
        false => Ok(()),
    }
}
