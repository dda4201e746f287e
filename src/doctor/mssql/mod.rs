//! The part of SQL Server in the questions: what its management views say, and what is made of it.
//!
//! None of it was ever tried on a server: what is asked is held against the documentation's columns and a parser's grammar, and what is
//! made of answers is tried with a peer that speaks the protocol.
//!
//! The checks judge facts, saved ones too, and are there without the driver.

mod blobs;
#[cfg(feature = "mssql")]
mod connection;
mod counted;
#[cfg(feature = "mssql")]
mod digest;
mod disks;
mod indexes;
mod queries;
mod room;
#[cfg(feature = "mssql")]
mod statements;

#[cfg(feature = "mssql")]
pub(super) use self::connection::{connect, parse};
use super::answers;
use super::facts::{Facts, Kind, Lack, Row, or_zero};
use super::finding::Check;
use crate::units;

/// The checks of a server of SQL Server.
pub const CHECKS: &[&[Check]] =
    &[room::CHECKS, disks::CHECKS, ANSWERS, indexes::CHECKS, queries::CHECKS, blobs::CHECKS];

const ANSWERS: &[Check] = &[answers::check("ms-answer-time", Kind::MsSql, "ping -c 20 HOST")];

/// What lets a user see counters of the server.
const SERVER_STATE: &str = "VIEW SERVER STATE (from 2022 on VIEW SERVER PERFORMANCE STATE is enough)";

/// Whether the server looks into an index at all.
fn is_used(index: &Row) -> bool {
    or_zero(index, "is_disabled") == 0.0 && or_zero(index, "is_hypothetical") == 0.0
}

/// Whether what this server counts is all that is asked of the data.
fn is_alone(facts: &Facts) -> Result<(), Lack> {
    if facts.number("database", "is_replicated")? > 0.0 {
        return Err("the database is in an availability group: what its replicas are asked is counted there"
            .to_owned());
    }
    if facts.number("database", "is_read_only")? > 0.0 {
        return Err("the database is read-only: nothing in it changes".to_owned());
    }
    Ok(())
}

/// Whether sessions of others are shown: if not, the view says nothing of it.
fn sees_others(facts: &Facts) -> Result<(), Lack> {
    match facts.number("settings", "sees_others")? > 0.0 {
        true => Ok(()),
        false => Err(format!("sessions of others are not shown; {SERVER_STATE} lets the login see them")),
    }
}

/// A server that was just started has an empty cache, and says nothing of it.
fn up_long_enough(facts: &Facts, least: f64) -> Result<f64, Lack> {
    let up = facts.number("server", "up_seconds")?;
    if up < least {
        return Err(format!(
            "it was started {} ago and forgets its counters with every start; {} are needed",
            units::age(up),
            units::age(least)
        ));
    }
    Ok(up)
}
