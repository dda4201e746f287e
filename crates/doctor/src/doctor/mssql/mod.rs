//! SQL Server: collects its management views for the checks.
//!
//! None of it has been tried on a real server: statements are tested against the documented columns and a parser's grammar, and
//! the evaluation of answers against a peer that speaks the protocol.
//!
//! The checks also judge saved facts, so they are compiled without the driver as well.

mod blobs;
#[cfg(feature = "mssql")]
mod connection;
mod counted;
#[cfg(feature = "mssql")]
mod digest;
mod disks;
// Its statements are held to the same grammar as those of the store.
#[cfg(test)]
#[path = "../../../../stores/src/wire/mssql/grammar.rs"]
#[expect(dead_code, reason = "statements of the store need more of it")]
mod grammar;
mod indexes;
mod queries;
mod room;
#[cfg(feature = "mssql")]
mod statements;

#[cfg(feature = "mssql")]
pub(super) use self::connection::{connect, parse};
use super::answers;
use super::facts::{Row, SubjectFacts, UnknownReason, or_zero};
use super::finding::Check;
use crate::units;

/// The checks of a SQL Server instance.
pub const CHECKS: &[&[Check]] =
    &[room::CHECKS, disks::CHECKS, ANSWERS, indexes::CHECKS, queries::CHECKS, blobs::CHECKS];

const ANSWERS: &[Check] = &[answers::check("ms-answer-time", "ping -c 20 HOST")];

/// Rights that let a login see the server's counters.
const SERVER_STATE: &str = "VIEW SERVER STATE (from 2022 on VIEW SERVER PERFORMANCE STATE is enough)";

fn is_used(index: &Row) -> bool {
    or_zero(index, "is_disabled") == 0.0 && or_zero(index, "is_hypothetical") == 0.0
}

/// Fails if replicas are queried as well, or the database is read-only.
fn is_alone(facts: &SubjectFacts) -> Result<(), UnknownReason> {
    if facts.number("database", "is_replicated")? > 0.0 {
        return Err("the database is in an availability group: what its replicas are asked is counted there"
            .to_owned());
    }
    if facts.number("database", "is_read_only")? > 0.0 {
        return Err("the database is read-only: nothing in it changes".to_owned());
    }
    Ok(())
}

/// Fails if sessions of others are hidden from this login, which the view itself does not show.
fn sees_others(facts: &SubjectFacts) -> Result<(), UnknownReason> {
    match facts.number("settings", "sees_others")? > 0.0 {
        true => Ok(()),
        false => Err(format!("sessions of others are not shown; {SERVER_STATE} lets the login see them")),
    }
}

/// Returns the server's uptime; fails if it is below `least` seconds, because the counters start with the server.
fn up_long_enough(facts: &SubjectFacts, least: f64) -> Result<f64, UnknownReason> {
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
