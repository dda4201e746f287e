//! The part of MongoDB, and of what speaks its protocol, in the questions: what it says of itself, and what is made of it.
//!
//! The checks judge facts, saved ones too, and are there without the driver.

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
use super::facts::{Facts, Kind, Lack};
use super::finding::Check;

/// The checks of a server of this protocol.
pub const CHECKS: &[&[Check]] = &[ANSWERS, cache::CHECKS, indexes::CHECKS, operations::CHECKS, blobs::CHECKS];

const ANSWERS: &[Check] = &[time::check("mongo-answer-time", Kind::MongoDb, "ping -c 20 HOST")];

/// Whether what this server counts is all that is asked of the data.
fn is_alone(facts: &Facts) -> Result<(), Lack> {
    match facts.number("member", "members")? > 1.0 {
        true => {
            Err("other members of its replica set are asked as well, and count for themselves".to_owned())
        }
        false => Ok(()),
    }
}
